"""The sentences say what was planted, whatever its sign."""

import re

import numpy as np
import pytest

from swapcal import Audit
from swapcal.audit import text as words
from swapcal.audit.curves import _true_terms
from swapcal.report import render
from swapcal.report.findings import as_dict

ROWS = 20_000
SIGNS = pytest.mark.parametrize("sign", [1, -1], ids=["more", "less"])


def more(sign):
    return "more often" if sign > 0 else "less often"


def sentences(audit):
    found = audit.to_dict()
    return found["headline"]["sentence"], [witness["sentence"] for witness in found["witnesses"]]


def drawn(chance, seed=0):
    return (np.random.default_rng(seed).random(len(chance)) < chance).astype(float)


@SIGNS
def test_a_trend_keeps_its_sign_in_every_sentence(sign):
    age = np.random.default_rng(1).normal(40, 10, ROWS)
    y = drawn(0.5 + sign * 0.15 * np.clip((age - 40) / 10, -3, 3))
    headline, found = sentences(Audit.from_features(np.full(ROWS, 0.5), y, {"age": age}))
    assert f"{more(sign).removesuffix(' often')} often than predicted as age rises" in headline
    assert f"{more(sign).removesuffix(' often')} often than predicted as age rises" in found[0]
    way = "higher" if sign > 0 else "lower"
    directions = [text for text in found if "with " in text]
    assert len(directions) == 3  # of SMCal, MCal and SReg
    for text in directions:
        assert f"with {way} age" in text
    assert any(f"more often than predicted with {way} age" in text for text in directions)
    assert any(f"predictions raised with {way} age" in text for text in directions)


@SIGNS
def test_two_terms_are_named_each_with_its_own_sign(sign):
    rng = np.random.default_rng(2)
    a, b = rng.normal(0, 1, (2, ROWS))
    y = drawn(np.clip(0.5 + sign * 0.12 * a - sign * 0.12 * b, 0.05, 0.95))
    _, found = sentences(Audit.from_features(np.full(ROWS, 0.5), y, {"a": a, "b": b}))
    first, second = ("higher", "lower") if sign > 0 else ("lower", "higher")
    directions = [text for text in found if "with " in text]
    assert len(directions) == 3
    for text in directions:
        assert f"with {first} a" in text
        assert f"with {second} b" in text


@SIGNS
def test_categories_and_missing_values_keep_their_signs(sign):
    rng = np.random.default_rng(3)
    town = rng.choice(["Bari", "Pisa", "Rome"], ROWS)
    age = np.where(rng.random(ROWS) < 0.3, np.nan, rng.normal(40, 10, ROWS))
    chance = 0.5 + sign * 0.1 * (town == "Rome") - sign * 0.1 * (town == "Bari") + sign * 0.15 * np.isnan(age)
    audit = Audit.from_features(np.full(ROWS, 0.5), drawn(chance), {"age": age, "town": town})
    _, found = sentences(audit)
    flat = " ".join(found)
    assert re.search(rf"[Ww]here age is missing, outcomes happen [^,]* {more(sign)} than predicted", flat)
    assert "higher age missing" not in flat
    direction = next(text for text in found if text.startswith("At predictions") and "outcomes happen" in text)
    ups, _, downs = direction.partition(", and less often")
    rising, falling = ("town = Rome", "town = Bari") if sign > 0 else ("town = Bari", "town = Rome")
    assert rising not in downs
    assert falling not in ups
    assert ("age is missing" in ups) if sign > 0 else ("age is missing" in downs)
    regret = next(text for text in found if "raised" in text or "lowered where" in text)
    up, _, down = regret.partition(", and lowered")
    assert rising not in down
    assert falling not in up


@SIGNS
def test_groups_ranges_and_their_intersections_keep_their_signs(sign):
    rng = np.random.default_rng(4)
    p, shift = rng.choice([0.3, 0.5, 0.7], ROWS), rng.choice(["day", "night"], ROWS)
    everywhere = Audit(p, drawn(p + sign * 0.1 * (shift == "night")), groups={"shift": shift})
    headline, found = sentences(everywhere)
    assert "where shift = night" in headline
    for text in (headline, found[0]):
        assert f"percentage points {more(sign)} than predicted" in text
    pooled = next(text for text in found if text.startswith("Of all groups, shift = night"))
    assert f"percentage points {more(sign)} than predicted" in pooled
    in_range = Audit(p, drawn(p + sign * 0.2 * ((shift == "night") & (p == 0.3))), groups={"shift": shift})
    headline, _ = sentences(in_range)
    assert "where shift = night and the prediction is 0.3, outcomes happen" in headline
    assert f"percentage points {more(sign)} than predicted" in headline
    level = Audit(p, drawn(p + sign * 0.15 * (p == 0.7)))
    headline, _ = sentences(level)
    assert "where the prediction is 0.7, outcomes happen" in headline
    assert f"percentage points {more(sign)} than predicted" in headline


@SIGNS
@pytest.mark.parametrize(("quantity", "against"), [("smcal", "linear"), ("smcal", "affine"), ("smcal", "groups"),
                                                   ("mcal", "linear"), ("mcal", "affine"), ("mcal", "groups"),
                                                   ("sreg", None), ("somni", None)])  # fmt: skip
def test_every_witness_says_the_sign_of_a_plain_shift_and_of_a_trend(quantity, against, sign):
    x = np.random.default_rng(5).normal(0, 1, ROWS)
    group = np.where(x > 0, "high", "low")
    for chance, known in (
        (np.full(ROWS, 0.5 + sign * 0.1), more(sign)),
        (np.clip(0.5 + sign * 0.15 * x, 0.02, 0.98), f"with {'higher' if sign > 0 else 'lower'} x"),
    ):
        audit = Audit.from_features(np.full(ROWS, 0.5), drawn(chance), {"x": x}, groups={"side": group})
        witness = audit.theory.witness(quantity, 2, against)
        said = words.direction(witness, _true_terms(audit.evidence, witness))
        if witness.names is not None:
            member = group == witness.names[0].split(" = ")[1]
            known = more(np.mean((chance - 0.5)[member]))
        elif quantity == "sreg" and "with" not in known:
            known = "raised overall" if sign > 0 else "lowered overall"
        assert known in said


def test_a_level_away_from_the_mean_does_not_lend_its_sign_to_a_trend():
    """Everyone at this level is old and outcomes are too frequent for all alike: age explains nothing there."""
    rng = np.random.default_rng(6)
    old = rng.random(ROWS) < 0.5
    age = np.where(old, 70.0, 30.0) + rng.normal(0, 3, ROWS)
    p = np.where(old, 0.6, 0.3)
    y = drawn(np.where(old, 0.75 - 0.02 * np.clip((age - 70) / 3, -3, 3), 0.3), seed=7)
    audit = Audit.from_features(p, y, {"age": age})
    _, found = sentences(audit)
    local = [text for text in found if text.startswith("At predictions near 0.60") and "raised" not in text]
    assert local
    assert all("with higher age" not in text for text in local)


def test_weights_are_not_called_rows():
    rng = np.random.default_rng(0)
    p, group = rng.random(4000), np.where(rng.random(4000) < 0.3, "a", "b")
    y = rng.random(4000) < np.clip(p + 0.2 * (group == "a"), 0, 1)
    audit = Audit(p, y, groups={"g": group}, weights=np.full(4000, 2.5))
    assert "of 10,000 units of weight" in audit.to_dict()["headline"]["sentence"]
    assert ">Weight<" in audit.to_html()
    assert ">Weight<" not in Audit(p, y, groups={"g": group}).to_html()


def test_the_outcome_is_no_group_of_its_own():
    frame = {"p": [0.2, 0.7], "y": [0, 1]}
    with pytest.raises(ValueError, match="column 'y': given as a feature or group too"):
        Audit.from_frame(frame, prob="p", target="y", groups=["y"])
    with pytest.raises(ValueError, match="column 'p': given as prediction and as outcome"):
        Audit.from_frame(frame, prob="p", target="p")


def test_what_chance_explains_is_not_told_as_a_fact():
    rng = np.random.default_rng(0)
    p, town, age = rng.random(3000), rng.choice(["Bari", "Rome"], 3000), rng.normal(40, 10, 3000)
    found = Audit.from_features(p, drawn(p, seed=5), {"town": town, "age": age}).to_dict()
    assert found["headline"]["verdict"] == "no error found"
    for witness in found["witnesses"]:
        assert "by chance" in witness["sentence"] or "not significant" in witness["sentence"], witness["sentence"]
    assert "None of these errors is significant; they come nearest to it." in render(found)


def test_errors_beyond_chance_are_told_as_facts():
    p = np.full(3000, 0.5)
    found = Audit(p, drawn(p + 0.2)).to_dict()
    assert "by chance" not in found["witnesses"][0]["sentence"]
    assert "No error here is beyond chance" not in render(found)


def test_undecided_says_where_the_far_end_comes_from():
    rng = np.random.default_rng(0)
    p, busy = rng.choice([0.2, 0.5], 200_000, p=[0.98, 0.02]), rng.random(200_000)
    audit = Audit.from_features(p, drawn(p + 0.003 + 0.05 * (p == 0.5), seed=5), {"busy": busy})
    verdict, detail = audit.verdict(0.04), audit.to_dict(tolerance=0.04)["headline"]["detail"]
    assert verdict.word == "undecided"
    widest = audit.evidence.widest()
    assert max(-widest.low, widest.high) == verdict.high
    assert f"It may reach {words.percentage_points(verdict.high)} where the prediction is 0.5 (" in detail


def test_nothing_is_minus_zero():
    p = np.repeat([0.0, 1.0], 50)
    assert "-0.0," not in Audit(p, p, groups=np.tile(["a", "b"], 50)).to_json()
    assert str(as_dict({"gap": np.float64(-0.0)})) == "{'gap': 0.0}"


@pytest.mark.parametrize(
    ("large", "expected"),
    [
        (2, "in any of 2 groups (30 groups are too small to be tested)"),
        (0, "in all rows together (31 groups are too small to be tested)"),
    ],
)
def test_groups_that_are_too_small_to_be_tested_are_not_claimed(large, expected):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 0.7, 1000 if large else 90)
    names = np.array([f"small {k % 30}" if k < 60 else f"large {k % max(large, 1)}" for k in range(len(p))])
    names = names if large else np.array([f"small {k % 31}" for k in range(len(p))])
    audit = Audit(p, rng.random(len(p)) < p, groups={"g": names})
    assert expected in audit.to_findings().headline.sentence
