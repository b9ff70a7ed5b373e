"""Model cards: what an audit found, in plain words, as Markdown and as a page."""

import re

import numpy as np
import pytest

from swapcal import Audit
from swapcal.audit import Comparison
from swapcal.audit.curves import intervals
from swapcal.report import card


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 3000
    p = rng.uniform(0.05, 0.6, n)
    shop = rng.choice(["a|b", "<i>c</i>"], n)
    y = rng.random(n) < p + 0.2 * (shop == "a|b")
    return {"p": p, "q": np.clip(p + 0.2 * (shop == "a|b"), 0, 1), "y": y, "shop": shop, "day": np.arange(n)}


@pytest.fixture(scope="module")
def audit(rows):
    return Audit.from_frame(rows, prob="p", target="y", groups=["shop"], time="day", title="Rain *fall*")


def test_a_card_says_everything_it_must(audit):
    text = audit.to_card(created_at="2026-01-01", losses=["pinball:0.9"])
    headings = re.findall(r"^## (.*)$", text, re.M)
    assert headings == [
        "Verdict", "Data", "Figures", "Groups", "Largest errors", "Decisions", "Limitations",
        "To be added", "How it was computed",
    ]  # fmt: skip
    found = audit.to_dict()
    assert found["headline"]["sentence"].replace("|", r"\|") in text
    assert "3,000 rows" in text
    assert "Period: 0 to 2999." in text
    assert "2026-01-01" in text
    assert found["identity"]["data_hash"] in text
    assert all(name in text for name in ("Brier score", "Log loss", "AUC", "Worst error"))


def test_names_cannot_break_the_card(audit):
    text = audit.to_card()
    assert text.startswith(r"# Model card: Rain \*fall\*")
    assert r"shop = a\|b" in text
    assert "<i>" not in text.replace(r"\<i\>", "")
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (5, 8)
    page = card(audit.to_dict(), html=True)
    assert "<i>c" not in page
    assert "&lt;i&gt;c" in page


def test_the_file_name_decides_the_form(audit, tmp_path):
    assert audit.to_card(tmp_path / "card.md") == (tmp_path / "card.md").read_text()
    assert audit.to_card(tmp_path / "card.html").startswith("<!doctype html>")
    with pytest.raises(ValueError, match=r"card: given .*card\.txt', expected a name ending in \.md or \.html"):
        audit.to_card(tmp_path / "card.txt")
    assert not (tmp_path / "card.txt").exists()


def test_a_card_of_two_predictors_compares_them(rows):
    found = Comparison.from_frame(rows, probs=["p", "q"], target="y", groups=["shop"])
    text = found.to_card()
    assert "## Compared with p" in text
    assert found.sentence().split("(")[0] in text


def test_intervals_of_scores_hold_the_truth_and_not_more():
    rng = np.random.default_rng(1)
    truth = {"brier": 1 / 6, "log_loss": 0.5, "auc": 5 / 6}  # of y ~ Ber(p), p uniform
    held = dict.fromkeys(truth, 0)
    widths = []
    for _ in range(100):
        p = rng.random(300)
        scores = intervals(Audit(p, rng.random(300) < p).sums)
        for name, value in truth.items():
            held[name] += scores[f"{name}_low"] <= value <= scores[f"{name}_high"]
        widths.append(scores["brier_high"] - scores["brier_low"])
    assert min(held.values()) >= 88
    assert np.mean(widths) < 0.05
