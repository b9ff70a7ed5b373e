"""Explanations: they add up to the mean, name what matters, and say when they cannot."""

import copy
import json
import math
import pickle
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from swapcal import Forecaster, Live
from swapcal.engine.explanation import Explanation
from swapcal.kernels.experts import bent
from swapcal.live import UnknownIdError


def stream(n: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[float]]:
    rng = np.random.default_rng(seed)
    rows = [
        {
            "shop": "abcde"[rng.integers(5)],
            "price": None if rng.random() < 0.1 else float(rng.normal()),
            "noise": int(rng.integers(4)),
            "score": float(rng.random()),
        }
        for _ in range(n)
    ]
    chances = [0.1 + 0.5 * (row["shop"] == "a") + 0.3 * row["score"] for row in rows]
    return rows, (rng.random(n) < chances).astype(float).tolist()


def missing_to_sum(why: Explanation) -> float:
    return abs(why.mean - math.fsum([why.base, *(term.amount for term in why.terms)]))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"groups": ["shop"], "scores": ["score"]},
        {"products": [("shop", "price")], "fourier": 3},
        {"categories": 2, "max_dim": 22},
    ],
)
def test_contributions_add_up_to_the_mean(settings: dict[str, Any]) -> None:
    rows, y = stream(400)
    live = Live(**settings)
    for k, row in enumerate(rows):
        forecast = live.forecast(row, k)
        if k % 7 == 0:
            why = forecast.explain()
            assert missing_to_sum(why) < 1e-12
            assert (why.mean, why.p) == (forecast.mean, forecast.p)
            assert "since" not in {term.kind for term in why.terms}
        if k > 20:
            live.label(k - 20, y[k - 20])


def test_the_largest_contribution_is_what_the_outcome_depends_on() -> None:
    rows, y = stream(3000)
    live = Live(groups=["shop"], scores=["score"])
    live.run(rows, y)
    sizes: dict[str, list[float]] = {"group": [], "score": [], "feature": []}
    for row in rows[:60]:
        why = live.preview([row]).explain()
        assert missing_to_sum(why) < 1e-12
        for kind, seen in sizes.items():
            seen.append(max((abs(term.amount) for term in why.terms if term.kind == kind), default=0.0))
        amounts = [abs(term.amount) for term in why.terms]
        assert amounts == sorted(amounts, reverse=True)
    assert np.mean(sizes["group"]) > 3 * np.mean(sizes["feature"])
    assert np.mean(sizes["score"]) > np.mean(sizes["feature"])
    named = [term.name for term in live.preview([rows[0] | {"price": None}]).explain().terms]
    assert f"shop = {rows[0]['shop']}" in named
    assert "price is missing" in named


def test_the_blend_is_what_its_members_pool() -> None:
    rows, y = stream(500)
    live = Live(scores=["score"])
    live.run(rows, y)
    why = live.preview(rows[:1]).explain()
    assert sum(member.share for member in why.members) == pytest.approx(1.0)
    curve = live._learner.experts.to_state().arrays["curve"]
    assert bent(curve, why.pool) == pytest.approx(why.blend, abs=1e-9)


def test_labels_learned_meanwhile_are_a_term_of_their_own() -> None:
    rows, y = stream(300)
    live = Live()
    live.run(rows[:200], y[:200])
    forecast = live.forecast(rows[200], "open")
    live.run(rows[201:], [1.0] * 99)
    why = live.explain("open")
    assert missing_to_sum(why) < 1e-12
    assert why.mean == forecast.mean
    assert "since" in {term.kind for term in why.terms}


def test_clipping_is_a_term_of_its_own() -> None:
    live = Live(ridge=1e-6)
    rows = [{"a": k % 2, "b": (k // 2) % 2} for k in range(600)]
    live.run(rows, [float(row["a"]) for row in rows])
    kinds = set()
    for row in rows[:4]:
        why = live.preview([row]).explain()
        assert missing_to_sum(why) < 1e-12
        kinds |= {term.kind for term in why.terms}
    assert "bounds" in kinds


def test_what_cannot_be_explained_is_said() -> None:
    rows, _ = stream(3)
    live = Live()
    assert live.preview(rows).explain(1).terms == ()
    forecast = live.forecast(rows[0], "a")
    many = live.forecast_many(rows[1:], ["b", "c"])
    assert many.explain(1) == live.explain("c")
    live.label("a", 1)
    with pytest.raises(UnknownIdError, match=r"given id 'a', whose forecast is closed: its context is no longer kept"):
        forecast.explain()
    with pytest.raises(UnknownIdError, match="never forecast"):
        live.explain("z")
    with pytest.raises(IndexError, match="expected one of 2 rows"):
        many.explain(2)
    with pytest.raises(ValueError, match="explain: given"):
        Forecaster(1).predict([0.5]).explain()
    assert copy.deepcopy(many).explain(0) == many.explain(0)
    with pytest.raises(ValueError, match="explain: given"):
        pickle.loads(pickle.dumps(many)).explain()


def test_an_explanation_survives_a_restart(tmp_path: Any) -> None:
    rows, y = stream(100)
    live = Live(scores=["score"])
    live.run(rows, y)
    live.forecast(rows[0], "open")
    live.save(tmp_path / "state")
    kept, read = live.explain("open"), Live.load(tmp_path / "state").explain("open")
    assert [term.name for term in kept.terms] == [term.name for term in read.terms]
    assert [term.amount for term in kept.terms] == pytest.approx([term.amount for term in read.terms], abs=1e-12)


def test_words_and_chart() -> None:
    rows, y = stream(300)
    live = Live(groups=["shop"])
    live.run([row | {"shop": f"<{row['shop']}>"} for row in rows], y)
    why = live.preview([rows[0] | {"shop": "<a>"}]).explain()
    text, chart = str(why), why.svg()
    assert f"forecast {why.mean:.4f}" in text
    assert "shop = <a>" in text
    assert "the blend of the experts says" in text
    drawn = ElementTree.fromstring(chart)
    assert len([e for e in drawn.iter() if e.tag.endswith("rect")]) == min(12, len(why.terms))
    assert json.loads(json.dumps(why.to_dict()))["terms"][0]["name"] == why.terms[0].name


def test_a_record_that_says_nothing_is_explained_by_the_base_rate():
    live = Live()
    live.forecast({"x": 1}, id="first")
    found = live.explain("first")
    assert found.mean == pytest.approx(found.base + sum(term.amount for term in found.terms), abs=1e-12)


def test_why_a_forecast_changed_since_yesterday_adds_up() -> None:
    rng = np.random.default_rng(3)
    live = Live(groups=["shop"])
    rows = [{"shop": "ab"[k % 2], "price": float(v)} for k, v in enumerate(rng.normal(size=600))]
    y = [float(rng.random() < (0.2 if row["shop"] == "a" else 0.6)) for row in rows]
    live.run(rows[:300], y[:300])
    same = {"shop": "a", "price": 0.3}
    before = live.preview(same).explain()
    live.run(rows[300:], [1.0 - label for label in y[300:]])
    now = live.preview(same).explain()
    changes = now.since(before)
    assert math.fsum(term.amount for term in changes) == pytest.approx(now.mean - before.mean, abs=1e-12)
    assert changes[0].amount != 0.0
    assert now.since(now) == ()
    told = now.change(before).splitlines()
    assert told[0] == f"forecast {before.mean:.4f} before, {now.mean:.4f} now: {now.mean - before.mean:+.4f}"
    by_kind = [float(part.split()[-1]) for part in told[-2].removeprefix("by kind: ").split(", ")]
    assert sum(by_kind) == pytest.approx(now.mean - before.mean, abs=5e-4)
    assert type(before).from_dict(json.loads(json.dumps(before.to_dict()))) == before
    moved = live.preview(same | {"shop": "b"}).explain().since(now)
    assert {"shop = a", "shop = b"} <= {term.name for term in moved}


def test_only_an_explanation_can_be_compared_with():
    live = Live()
    live.forecast({"x": 1.0}, id=1)
    for other in (None, 3):
        with pytest.raises(TypeError, match="before: given"):
            live.explain(1).since(other)


def test_a_series_is_previewed_as_it_is_forecast():
    pd = pytest.importorskip("pandas")
    live = Live(scores=["s"])
    record = pd.Series({"s": 0.3, "x": 1.0})
    live.forecast(record, id=0)
    assert live.preview(record).mean == live.forecast(record, id=1).mean


def test_a_column_that_was_always_missing_is_credited_with_nothing() -> None:
    rng = np.random.default_rng(0)
    rows = [{"x": float(x), "never": None, "shop": "ab"[k % 2]} for k, x in enumerate(rng.normal(size=400))]
    live, row = Live(), {"x": 0.3, "never": None, "shop": "a"}
    live.run(rows, (rng.random(400) < 0.3).astype(float))
    why = live.preview(row).explain()
    assert missing_to_sum(why) < 1e-12
    assert {"x", "shop = a"} <= {term.name for term in why.terms}
    assert not [term.name for term in why.terms if "never" in term.name]
    live.run([{"x": 0.0, "never": 1.0, "shop": "a"}], [1.0])
    assert "never is missing" in {term.name for term in live.preview(row).explain().terms}
