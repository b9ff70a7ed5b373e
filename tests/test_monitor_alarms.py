"""Monitor: the log of alarms, outcomes of a chosen part, clusters, bins of numbers, and many monitors at once."""

import math

import numpy as np
import pytest

from swapcal import Monitor, bounds
from swapcal.kernels.wealth import AT, CELL, ENDED, GAP, PEAK, RAISED, SIDE, SINCE, SPAN, SPREAD
from swapcal.monitor import Alarm, Lifetime, e_bh
from swapcal.monitor import state as evidence
from swapcal.monitor.settings import DEFAULT_STAKES
from tests import reference_monitor as reference


def swinging(seed=0, rows=6000):
    """Forecasts that are too low, right, too high in a range, right and too low again."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.15, 0.75, rows)
    part = np.arange(rows) * 5 // rows
    off = np.select([part == 0, part == 2, part == 4], [0.2, np.where(p > 0.5, -0.4, 0.0), 0.25], 0.0)
    return p, (rng.random(rows) < p + off).astype(float)


# ---------------------------------------------------------------- the log


def test_the_log_equals_its_definition():
    p, y = swinging()
    edges = (0.0, 0.3, 0.5, 0.7, 1.0)
    monitor = Monitor(level_ranges=edges, run_length=1000, tolerance=0.02).add({}, p, y)
    expected = reference.alarm_log(p, y, DEFAULT_STAKES, 0.02, edges, monitor.settings.change_limit())
    spans = [monitor.settings.ranges.bounds(node) for node in range(7)]
    key = lambda e: (e["span"], e["sign"], e["raised"])  # noqa: E731
    found = sorted(monitor._bets.logged().tolist(), key=lambda e: (spans[int(e[CELL])], 1 - 2 * e[SIDE], e[RAISED]))
    assert len(found) == len(expected) > 10
    for entry, literal in zip(found, sorted(expected, key=key), strict=True):
        assert (spans[int(entry[CELL])], 1 - 2 * entry[SIDE]) == (literal["span"], literal["sign"])
        assert entry[RAISED] == literal["raised"]
        assert entry[ENDED] == (math.inf if literal["ended"] is None else literal["ended"])
        marks = np.array(entry[ENDED + 1 :])
        assert marks[[AT, SINCE, SPAN]].tolist() == [literal["at"], literal["since"], literal["rows"]]
        assert marks[[GAP, SPREAD]] == pytest.approx([literal["residual"], literal["square"]], abs=1e-9)
        assert entry[PEAK] == pytest.approx(literal["peak"], rel=1e-9)
    assert {literal["ended"] is None for literal in expected} == {True, False}


def test_no_alarm_is_overwritten_by_a_stronger_one():
    p, y = swinging()
    monitor = Monitor(level_ranges=False).add({}, p, y)
    log = monitor.log()
    assert [(a.direction, a.ended is None) for a in log] == [("too low", False), ("too high", False), ("too low", True)]
    first, _, last = log
    assert first.since < 100
    assert first.since <= first.raised <= first.strongest < first.ended
    assert 1100 < first.strongest < 1300
    assert 1200 < first.ended < 1600
    assert first.gap == pytest.approx(0.2, abs=0.03)
    assert 4700 < last.since <= last.raised <= last.strongest
    assert "were too low by" in first.sentence
    assert f"strongest at row {first.strongest:,.0f}, ended at row {first.ended:,.0f}" in first.sentence
    assert monitor.alarms() == [last]
    ranges = Monitor().add({}, p, y).log()
    high = [a for a in ranges if a.direction == "too high"]
    assert [(a.forecasts, a.ended is None) for a in high] == [((0.5, 0.75), False)]
    assert 2300 < high[0].since <= high[0].raised < 3600
    assert all(a.since <= a.raised <= a.strongest for a in ranges)
    assert monitor.summary()["sentence"].endswith("2 earlier alarms have ended.")


def test_the_log_does_not_depend_on_pieces_and_is_saved(tmp_path):
    p, y = swinging()
    whole = Monitor(run_length=1000).add({}, p, y)
    pieces = Monitor(run_length=1000)
    for part in np.split(np.arange(len(p)), [1, 700, 701, 2500, 4000]):
        pieces.add({}, p[part], y[part])
        pieces.save(tmp_path / "m")
        pieces = Monitor.load(tmp_path / "m")
    np.testing.assert_array_equal(whole._bets.logged(), pieces._bets.logged())
    assert whole.log() == pieces.log()


def test_a_full_log_is_emptied_in_time_and_drops_the_oldest(monkeypatch):
    p, y = swinging()
    whole, narrow = Monitor(run_length=50), Monitor(run_length=50)
    narrow._bets._ended = narrow._bets._ended[:16]  # just what one row may need
    whole.add({}, p, y)
    narrow.add({}, p, y)
    np.testing.assert_array_equal(whole._bets.logged(), narrow._bets.logged())
    monkeypatch.setattr(evidence, "MOST_LOGGED", 5)
    short = Monitor(run_length=50).add({}, p, y)
    np.testing.assert_array_equal(short._bets.log, whole._bets.log[-5:])
    assert short._bets.dropped == len(whole._bets.log) - 5 > 0


def test_restart_writes_raised_alarms_to_the_log():
    p, y = swinging(rows=2000)
    monitor = Monitor(["g"]).add({"g": ["a"] * 300}, p[:300], y[:300])
    assert {a.group for a in monitor.alarms()} == {"all rows", "g = a"}
    monitor.restart("g = a")
    assert {(a.group, a.ended) for a in monitor.log()} == {("g = a", 300.0), ("all rows", None)}
    monitor.restart()
    assert {a.ended for a in monitor.log()} == {300.0}
    assert not monitor._bets.open_alarms().any()


def test_joined_monitors_keep_both_logs():
    p, y = swinging()
    parts = slice(0, 2600), slice(2600, None)
    first, later = (Monitor(["g"]).add({"g": ["b" if k else "a"] * len(p[part])}, p[part], y[part])
                    for k, part in enumerate(parts))  # fmt: skip
    joined = first.then(later)
    ended = [a for a in joined.log() if a.group == "all rows" and a.ended is not None]
    assert [a.direction for a in ended] == ["too low", "too high", "too high"]
    assert ended[1].ended == 6000.0  # raised in the first part, and seen to have ended only at the end of the second
    assert 2600 < ended[2].since <= ended[2].raised < ended[2].ended < 4000
    assert {a.group for a in joined.log()} >= {"g = a", "g = b"}
    beside = first + later
    assert len(beside._bets.log) >= len(first._bets.log) + len(later._bets.log)
    broken = Monitor(level_ranges=False).add({}, p[:1100], y[:1100])
    sound = Monitor(level_ranges=False).add({}, p[1250:2350], y[1250:2350])
    assert broken.alarms()
    (one,) = broken.then(sound).log()
    assert (one.ended, one.gap) == (2200.0, broken.log()[0].gap)


def test_an_interval_that_contains_no_error_is_left_out():
    p, y = np.full(40, 0.1), np.ones(40)
    (alarm,) = Monitor(level_ranges=False).add({}, p, y).alarms()
    assert alarm.evidence > 1e6
    assert alarm.interval is None or alarm.low > 0
    wide = alarm._replace(low=-0.197, high=1.0)
    assert wide.interval is None
    assert "between" not in wide.sentence
    assert "40 rows, too few for an interval" in wide.sentence
    assert "negligible" in wide.sentence
    narrow = alarm._replace(low=0.3, high=1.0)
    assert narrow.interval == (0.3, 1.0)
    assert "(between +30.0 and +100.0)" in narrow.sentence


@pytest.mark.parametrize(("evidence_", "words"), [(9.9e5, "at most 1 in 990,000 rows"), (1e6, "negligible")])
def test_evidence_from_a_million_on_is_negligible(evidence_, words):
    alarm = Alarm("g", "change", "too low", (0.0, 1.0), 1.0, 1.0, 9, 0.1, 0.05, 0.2, evidence_, "rows")
    assert f"false-alarm rate: {words}." in alarm.sentence
    lifetime = alarm._replace(kind="lifetime", evidence=math.log10(evidence_))
    assert ("negligible" in lifetime.sentence) == (evidence_ >= 1e6)


# ---------------------------------------------------------------- many monitors


def test_e_bh_keeps_the_share_of_wrong_names_where_its_proof_is_tight():
    """Wealth that is 1/q with probability q and else 0: all the mass that an e-value may have, at the limit itself."""
    rng = np.random.default_rng(0)
    count, alpha, runs, wrong = 20, 0.2, 4000, []
    for _ in range(runs):
        rank = int(rng.integers(1, 6))
        limit = float(bounds.e_bh_limit(rank, count, alpha))
        wealth = np.zeros(count)
        if rng.random() < 1 / limit * 15 / rank:  # sound ones rise together, `rank` of fifteen at random
            wealth[rng.choice(15, rank, replace=False)] = limit
        tests = {str(k): Lifetime(math.log10(w) if w else -99.0, 0.0, 1.0, False) for k, w in enumerate(wealth)}
        named = e_bh(tests, alpha)
        wrong.append(sum(int(k) < 15 for k in named) / max(1, len(named)))
    assert 0.8 * alpha * 15 / 20 < np.mean(wrong) <= alpha * 15 / 20 + 3 * 0.36 / math.sqrt(runs)


def test_e_bh_lists_down_to_the_last_rank_that_reaches_its_limit():
    wealth = [4000.0, 150.0, 140.0, 134.0, 20.0]  # limits at 5 %: 100, 50, 33.3, 25, 20
    tests = {name: Lifetime(math.log10(w), 9.0, 1.0, False) for name, w in zip("abcde", wealth, strict=True)}
    assert e_bh(tests) == ["a", "b", "c", "d", "e"]
    assert e_bh(tests | {"e": Lifetime(math.log10(19.9), 9.0, 1.0, False)}) == ["a", "b", "c", "d"]
    assert e_bh({}) == []
    assert e_bh({"a": Lifetime(1.3, 9.0, 1.0, False)}) == []  # below 1/α = 20, whatever the peak


def test_e_bh_over_monitors_finds_the_broken_and_spares_the_sound():
    wrong, found = [], 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        monitors = {}
        for k in range(30):
            p = rng.uniform(0.1, 0.7, 500)
            y = rng.random(500) < p + 0.25 * (k < 3)
            monitors[f"{k}"] = Monitor(level_ranges=False, tolerance=0.0).add({}, p, y)
        named = e_bh(monitors, 0.1)
        found += len(set(named) & {"0", "1", "2"})
        wrong.append(len(set(named) - {"0", "1", "2"}) / max(1, len(named)))
    assert np.mean(wrong) <= 0.1
    assert found == 45
