"""Labels that count by weights: for a chosen part of the forecasts, each obtained with a known probability."""

from typing import Any

import numpy as np
import pytest

from swapcal import Live
from swapcal.monitor import Monitor

RNG = np.random.default_rng(5)
ROWS = 300
RECORDS = [
    {"shop": "abc"[int(k)], "price": float(v)}
    for k, v in zip(RNG.integers(0, 3, ROWS), RNG.normal(size=ROWS), strict=True)
]
Y = (RNG.random(ROWS) < 0.3).astype(float)
WEIGHTS = RNG.choice([1.0, 2.5, 8.0], ROWS)


def same_state(left: Live, right: Live) -> bool:
    """Tell whether two objects are the same to the bit."""
    ours, theirs = left.to_state(), right.to_state()
    return ours.arrays.keys() == theirs.arrays.keys() and all(
        np.array_equal(array, theirs.arrays[name], equal_nan=array.dtype.kind == "f")
        for name, array in ours.arrays.items()
    )


def test_weight_1_is_no_weight() -> None:
    plain, ones = Live(groups=["shop"], seed=3), Live(groups=["shop"], seed=3)
    expected = plain.run(RECORDS, Y)
    found = ones.run(RECORDS, Y, weight=np.ones(ROWS))
    assert np.array_equal(expected.p, found.p)
    assert plain.status() == ones.status()
    assert plain.certificate() == ones.certificate()


def chosen_part(seed: int, weighted: bool) -> float:
    """Return the last mean forecast where labels of one hidden kind of rows come ten times as often as of the other.

    Rates are 10 % and 50 %, half of the rows each: 30 % of all, 46 % of those labelled.
    """
    rng, live = np.random.default_rng(seed), Live(unseen="fair")
    risky = rng.random(4000) < 0.5
    y, pi = rng.random(4000) < np.where(risky, 0.5, 0.1), np.where(risky, 1.0, 0.1)
    labels = np.where(rng.random(4000) < pi, y, np.nan)
    live.run([{"shop": "a"}] * 4000, labels, weight=1 / pi if weighted else None)
    return float(live.preview({"shop": "a"}).mean)


def test_weights_repair_a_chosen_part() -> None:
    assert abs(np.mean([chosen_part(seed, True) for seed in range(4)]) - 0.30) < 0.04
    assert abs(np.mean([chosen_part(seed, False) for seed in range(4)]) - 0.46) < 0.04


def test_the_certificate_is_of_the_weighted_sums() -> None:
    live = Live(groups=["shop"])
    p = live.run(RECORDS, Y, weight=WEIGHTS).p
    found = live.certificate()
    assert found.issued is not None
    by_level = [float(np.sum((WEIGHTS * (Y - v))[p == v])) for v in np.unique(p)]
    np.testing.assert_allclose(found.issued.cal, np.abs(by_level).sum(), rtol=1e-9)
    np.testing.assert_allclose([found.weight, found.issued.weight], WEIGHTS.sum(), rtol=1e-9)
    assert found.holds()
    assert found.theorem is None
    assert "by their weights" in found.sentences()[0]
    assert live.status().weighted == int((WEIGHTS != 1).sum())


def test_a_window_counts_weights_too() -> None:
    live = Live(window=50.0)
    live.run(RECORDS, Y, weight=4.0)
    plain = Live(window=50.0)
    plain.run(RECORDS, Y)
    np.testing.assert_allclose(live.certificate(50.0).weight, 4.0 * plain.certificate(50.0).weight, rtol=1e-6)


def test_a_held_label_keeps_its_weight_in_a_file(tmp_path: Any) -> None:
    live = Live()
    live.run(RECORDS[:20], Y[:20], time=np.zeros(20))
    live.forecast(RECORDS[20], "held", 0.0, 5.0)
    live.forecast(RECORDS[21], "planned", 0.0)
    assert live.label("held", 1, 1.0, weight=8.0)
    live.save(tmp_path / "live")
    loaded = Live.load(tmp_path / "live")
    light = Live.load(tmp_path / "live")
    light._open_forecasts.weight[light._open_forecasts.opened["held"]] = 1.0
    for each in (live, loaded, light):
        each.forecast(RECORDS[22], "later", 6.0)
    assert same_state(live, loaded)
    assert not same_state(live, light)
    assert loaded.status().weighted == 1


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf, 1e9, "2", True, [1.0, 2.0]])
def test_a_weight_that_is_none_is_refused_and_changes_nothing(weight: Any) -> None:
    live, other = Live(), Live()
    for each in (live, other):
        each.run(RECORDS[:10], Y[:10])
        each.forecast(RECORDS[10], "a")
    with pytest.raises((TypeError, ValueError), match="weight: given"):
        live.label("a", 1, weight=weight)
    with pytest.raises((TypeError, ValueError), match="weight: given"):
        live.label_many(["a"], [1], weight=weight)
    with pytest.raises((TypeError, ValueError), match="weight: given"):
        live.run(RECORDS[:3], [1, 0, 1], weight=weight)
    with pytest.raises((TypeError, ValueError), match="weight: given"):
        live.follow([], ["a"], [1], [False], weight=weight)
    assert same_state(live, other)


def test_a_weight_without_a_label_does_not_matter() -> None:
    live = Live()
    live.run(RECORDS[:3], [1, np.nan, 0], weight=[2.0, np.nan, 1.0])
    assert (live.status().labels, live.status().weighted) == (2, 1)


def test_the_monitor_is_fed_with_the_weights() -> None:
    live, monitor = Live(monitor=Monitor(["shop"], max_weight=8.0)), Monitor(["shop"], max_weight=8.0)
    means = live.run(RECORDS, Y, weight=WEIGHTS).mean
    monitor.add({"shop": [record["shop"] for record in RECORDS]}, means, Y, weights=WEIGHTS)
    assert live.monitor is not None
    assert live.monitor.summary() == monitor.summary()
    before = live.to_state()
    with pytest.raises(ValueError, match=r"weight: given 9 where a monitor is fed.*max_weight = 8"):
        live.run(RECORDS[:2], [1, 0], weight=9.0)
    assert all(
        np.array_equal(a, live.to_state().arrays[name], equal_nan=a.dtype.kind == "f")
        for name, a in before.arrays.items()
    )


def test_large_weights_do_not_throw_the_forecast_off() -> None:
    """As if they had come so often in a row: a rare event of weight 1000 among 1,000 others of weight 1 is half."""
    live = Live(scores=["s"])
    records = [{"s": 0.5, "price": 1.0}] * 1000
    live.run(records, np.arange(1000) == 999, weight=np.where(np.arange(1000) == 999, 999.0, 1.0))
    mean = live.preview(records[0]).mean
    assert 0.2 < mean < 0.9
    live.run(records[:1], [0.0], weight=1e6)
    assert 0.0 < live.preview(records[0]).mean < 0.5
