"""Monitor: the log of alarms, outcomes of a chosen part, clusters, bins of numbers, and many monitors at once."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from swapcal import Live, Monitor, archive, bounds
from swapcal.archive import State
from swapcal.kernels import wealth
from swapcal.kernels.wealth import (
    AT,
    BEFORE,
    CELL,
    ENDED,
    GAP,
    PEAK,
    RAISED,
    RESIDUAL,
    ROWS,
    SIDE,
    SINCE,
    SPAN,
    SPREAD,
    SQUARE,
    START,
    SUM,
    VISITS,
)
from swapcal.monitor import Alarm, ClassMonitors, Lifetime, e_bh, settings
from swapcal.monitor import state as evidence
from swapcal.monitor.alarms import since_change, since_first
from swapcal.monitor.settings import DEFAULT_STAKES
from tests import reference_monitor as reference
from tests.chance import seeded
from tests.test_monitor import assert_same_state


def swinging(seed=0, rows=6000):
    """Forecasts that are too low, right, too high in a range, right and too low again."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.15, 0.75, rows)
    part = np.arange(rows) * 5 // rows
    off = np.select([part == 0, part == 2, part == 4], [0.2, np.where(p > 0.5, -0.4, 0.0), 0.25], 0.0)
    return p, (rng.random(rows) < p + off).astype(float)


# ---------------------------------------------------------------- the log


def worsening():
    """Forecasts that are too low, and then, before that has ended, far too low."""
    rng = np.random.default_rng(0)
    rate = np.where(np.arange(1900) < 1500, 0.62, 1.0)
    return np.full(1900, 0.5), (rng.random(1900) < rate).astype(float)


def test_a_stronger_change_is_another_alarm():
    p, y = worsening()
    first, second = Monitor(level_ranges=False, run_length=1000).add({}, p, y).log()
    assert first.raised < 1500 <= second.since <= second.raised
    assert first.raised <= first.strongest <= first.ended < second.strongest
    assert 1500 < first.ended < 1800
    assert 0.1 < first.gap < 0.2
    assert second.gap > 0.45
    assert second.ended is None


@pytest.mark.parametrize(
    ("stream", "edges", "least"), [(swinging, (0.0, 0.3, 0.5, 0.7, 1.0), 10), (worsening, (0.0, 1.0), 1)]
)
def test_the_log_equals_its_definition(stream, edges, least):
    p, y = stream()
    monitor = Monitor(level_ranges=edges, run_length=1000, tolerance=0.02).add({}, p, y)
    expected = reference.alarm_log(p, y, DEFAULT_STAKES, 0.02, edges, monitor.settings.change_limit())
    spans = [monitor.settings.ranges.bounds(node) for node in range(monitor.settings.ranges.nodes)]
    key = lambda e: (e["span"], e["sign"], e["raised"])  # noqa: E731
    found = sorted(monitor._bets.logged().tolist(), key=lambda e: (spans[int(e[CELL])], 1 - 2 * e[SIDE], e[RAISED]))
    assert len(found) == len(expected) > least
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
    assert all(a.since <= a.raised <= a.strongest <= (a.ended or np.inf) for a in ranges)
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
    early = {name: Lifetime(math.log10(w), 9.0, 1.0, False) for name, w in zip("abcd", (70, 60, 30, 1), strict=True)}
    assert e_bh(early) == ["a", "b", "c"]  # limits 80, 40, 26.7: the first is below its own
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


# ---------------------------------------------------------------- outcomes of a chosen part


def chosen(rng, rows, off=0.0):
    """Forecasts that are right given what they know; outcomes are obtained by a sign that the forecasts do not know.

    Returns forecasts, outcomes and weights of the rows with an outcome, and all forecasts and outcomes.
    """
    p, sign = rng.uniform(0.3, 0.7, rows), rng.choice([-1, 1], rows)
    y = (rng.random(rows) < p + 0.25 * sign + off).astype(float)
    chance = np.where(sign > 0, 0.8, 0.2)
    known = rng.random(rows) < chance
    return p[known], y[known], 1 / chance[known], p, y


def test_weights_of_one_change_nothing_and_all_may_be_halved():
    p, y = swinging(rows=1500)
    plain = Monitor(run_length=1000).add({}, p, y)
    assert_same_state(plain, Monitor(run_length=1000).add({}, p, y, weights=np.ones(1500)))
    half = Monitor(run_length=1000, max_weight=2.0, level_ranges=False, stakes=[0.5]).add(
        {}, p, y, weights=2 * np.ones(1500)
    )
    full = Monitor(run_length=1000, level_ranges=False, stakes=[0.5]).add({}, p, y)
    np.testing.assert_allclose(
        evidence.lane_log_wealth(half._bets.live_bet_state()), evidence.lane_log_wealth(full._bets.live_bet_state())
    )
    assert half.sizes()[0]["gap"] == pytest.approx(full.sizes()[0]["gap"])
    assert half.sizes()[0]["rows"] == 3000  # the rows that these stand for


def test_weighted_wealth_is_a_supermartingale_by_enumeration():
    """Three rows, each with an unknown sign that decides its chance of an outcome: every case with its probability."""
    cases = [(sign, known, y) for sign in (-1, 1) for known in (0, 1) for y in (0.0, 1.0)]
    for tolerance, exact in ((0.0, True), (0.05, False)):
        mean = unweighted = 0.0
        for triple in itertools.product(cases, repeat=3):
            monitor = Monitor(max_weight=5.0, tolerance=tolerance, level_ranges=False)
            plain, chance, past = Monitor(tolerance=tolerance, level_ranges=False), 1.0, 0.0
            for sign, known, y in triple:
                p, pi = 0.4 + 0.1 * past, 0.8 if sign > 0 else 0.2
                truth = p + 0.2 * sign
                chance *= 0.5 * (pi if known else 1 - pi) * (truth if y else 1 - truth)
                if known:
                    monitor.add({}, p, y, weights=1 / pi)
                    plain.add({}, p, y)
                    past = y
            mean += chance * 10.0 ** monitor.test().log10_wealth
            unweighted += chance * 10.0 ** plain.test().log10_wealth
        assert mean == pytest.approx(1.0, abs=1e-9) if exact else mean < 1.0
        assert unweighted > 1.0001 or not exact


def test_weights_keep_the_level_where_rows_without_them_lose_it():
    rejected = np.zeros(2)
    gaps = []
    for seed in range(25):
        p, y, weights, *_ = chosen(np.random.default_rng(seed), 3000)
        weighted = Monitor(max_weight=5.0, tolerance=0.0, alpha=0.2).add({}, p, y, weights=weights)
        rejected += [weighted.test().rejected, Monitor(tolerance=0.0, alpha=0.2).add({}, p, y).test().rejected]
        gaps.append(weighted.sizes()[0]["gap"])
        assert weighted.sizes()[0]["low"] <= 0 <= weighted.sizes()[0]["high"]
    assert rejected[0] / 25 <= 0.2
    assert rejected[1] == 25
    assert abs(np.mean(gaps)) < 0.01
    p, y, weights, everyone, outcomes = chosen(np.random.default_rng(9), 12_000, off=0.15)
    broken = Monitor(max_weight=5.0).add({}, p, y, weights=weights)
    (alarm,) = broken.alarms()
    assert alarm.direction == "too low"
    assert broken.sizes()[0]["gap"] == pytest.approx((outcomes - everyone).mean(), abs=0.03)
    assert 0.0 < broken.sizes()[0]["low"] < 0.15 < broken.sizes()[0]["high"]


def test_the_interval_of_weighted_rows_is_the_radius_of_rows_scaled_to_one():
    p, y, weights, *_ = chosen(np.random.default_rng(0), 800)
    monitor = Monitor(max_weight=10.0, level_ranges=False).add({}, p, y, weights=weights)
    (size,) = monitor.sizes()
    scaled = weights * (y - p) / 10.0
    tail = 0.05 * 0.5 * 0.5 * float(bounds.appearance_share(1)) * float(bounds.start_share(0))
    radius = 10.0 * float(bounds.deviation_radius((scaled**2).sum(), tail)) / weights.sum()
    assert size["gap"] == pytest.approx((weights * (y - p)).sum() / weights.sum())
    assert size["high"] - size["gap"] == pytest.approx(radius, rel=1e-6)


@pytest.mark.parametrize("weights", [[1.0, 0.5], [1.0, 11.0], [1.0, np.nan]])
def test_weights_lie_between_one_and_the_largest(weights):
    monitor = Monitor(max_weight=10.0)
    with pytest.raises(ValueError, match=r"weights: given .* in row 2, expected one over the probability"):
        monitor.add({}, [0.2, 0.3], [0, 1], weights=weights)
    assert monitor.rows == 0
    with pytest.raises(ValueError, match=r"max_weight: given 0\.5"):
        Monitor(max_weight=0.5)


# ---------------------------------------------------------------- clusters


def patients(rng, rows, each):
    """Right forecasts of patients whose rows, at random times, share a fate that the forecasts do not know."""
    fate = rng.choice([-0.3, 0.3], rows // each)
    patient = rng.permutation(np.repeat(np.arange(rows // each), each))
    p = rng.uniform(0.3, 0.7, rows)
    return (
        {"patient": patient, "ward": rng.integers(0, 3, rows)},
        p,
        (rng.random(rows) < p + fate[patient]).astype(float),
    )


def test_a_cluster_bets_the_mean_of_its_rows_in_every_cell():
    records, p, y = patients(np.random.default_rng(3), 240, 6)
    monitor = Monitor(["ward"], clusters="patient", tolerance=0.02).add(records, p, y)
    edges, gains = monitor.settings.ranges.edges, {}
    last = {patient: t for t, patient in enumerate(records["patient"].tolist())}
    for patient in sorted(last, key=last.__getitem__):
        rows = np.flatnonzero(records["patient"] == patient)
        for group in ("all rows", "ward = 0", "ward = 1", "ward = 2"):
            for span in {s for t in rows for s in reference.ranges_of(p[t], edges)}:
                here = [
                    t
                    for t in rows
                    if span in reference.ranges_of(p[t], edges)
                    and group in ("all rows", f"ward = {records['ward'][t]}")
                ]
                for sign, k in itertools.product((1, -1), DEFAULT_STAKES):
                    if here:
                        mean = np.mean([reference.gain(p[t], y[t], sign, k, 0.02) for t in here])
                        bet = gains.setdefault((group, span, sign, k), reference.Bet())
                        bet.play(mean, np.mean([y[t] - p[t] for t in here]), last[patient] + 1.0)
    state, names = monitor._bets.live_bet_state(), monitor.groups()
    spans = [monitor.settings.ranges.bounds(node) for node in range(15)]
    logs = evidence.lane_log_wealth(state)
    for (group, span, sign, k), bet in gains.items():
        cell, lane = names.index(group) * 15 + spans.index(span), 2 * DEFAULT_STAKES.index(k) + (sign < 0)
        assert logs[cell, lane] == pytest.approx(bet.log, abs=1e-10)
        assert state.bets[cell, SUM, lane] == pytest.approx(bet.sum, rel=1e-10)
        assert state.bets[cell, [START, ROWS], lane].tolist() == [bet.start, bet.rows]
        assert state.bets[cell, [RESIDUAL, SQUARE], lane] == pytest.approx([bet.residual, bet.square], abs=1e-10)
    assert state.notes[0, VISITS] == 40
    assert monitor.rows == 240


@pytest.mark.parametrize("each", [1, 4, 10, 50])
def test_right_forecasts_of_clusters_are_rarely_rejected(each):
    rejected, naive = 0, 0
    for seed in range(25):
        records, p, y = patients(np.random.default_rng(100 + seed), 2000, each)
        monitor = Monitor(["ward"], clusters="patient", tolerance=0.0, alpha=0.2, run_length=1e9)
        for part in (slice(0, 700), slice(700, 2000)):
            monitor.add({name: column[part] for name, column in records.items()}, p[part], y[part])
        rejected += monitor.test().rejected
        naive += Monitor(["ward"], tolerance=0.0, alpha=0.2).add(records, p, y).test().rejected
    assert rejected <= 5
    assert naive >= 10 or each < 50


def test_a_cluster_bets_once_and_joins_only_strangers(tmp_path):
    monitor = Monitor(clusters="patient", level_ranges=False)
    monitor.add([{"patient": 1}, {"patient": 2}, {"patient": 1}], [0.2, 0.3, 0.4], [1, 0, 1])
    monitor.add({"patient": "1"}, 0.5, 1)
    assert (monitor.rows, monitor._bets.repeated, monitor._bets.live_bet_state().notes[0, VISITS]) == (4, 1, 2.0)
    monitor.save(tmp_path / "m")
    again = Monitor.load(tmp_path / "m")
    for one in (monitor, again):
        one.add({"patient": [2, 3]}, [0.2, 0.2], [1, 1])
    assert_same_state(monitor, again)
    assert again._bets.clusters == monitor._bets.clusters
    assert again._bets.repeated == 2
    other = Monitor(clusters="patient", level_ranges=False).add({"patient": [3, 4]}, [0.5, 0.5], [0, 1])
    for join in (lambda: monitor + other, lambda: monitor.then(other)):
        with pytest.raises(ValueError, match="given 1 clusters in both"):
            join()
    stranger = Monitor(clusters="patient", level_ranges=False).add({"patient": [7]}, [0.5], [0])
    assert len((monitor + stranger)._bets.clusters) == 4
    assert monitor.columns() == ["patient"]
    with pytest.raises(ValueError, match="given no value in row 2"):
        monitor.add({"patient": ["x", None]}, [0.1, 0.1], [0, 0])
    assert monitor.rows == 6


def test_live_feeds_clusters_and_bins():
    live = Live(monitor=Monitor(["ward"], clusters="patient", bins={"age": [30, 60]}))
    for k in range(8):
        ticket = live.forecast({"ward": "a", "patient": k % 3, "age": 20 + 10 * k}, id=k)
        live.label(k, 1.0)
        assert ticket is not None
    assert live.monitor._bets.live_bet_state().notes[0, VISITS] == 3
    assert live.monitor.groups() == ["all rows", "ward = a", "age = below 30", "age = 30 to 60", "age = 60 or more"]


def test_live_learns_the_ranges_of_a_number(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "LEARNED", 8)
    live = Live(monitor=Monitor(numbers=["age"]))
    for k in range(12):
        live.forecast({"age": 20 + 10 * k}, id=k)
        live.label(k, 1.0)
        if k == 5:
            live.save(tmp_path / "live")
            live = Live.load(tmp_path / "live")
    assert live.monitor.edges == {"age": (20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0)}
    assert live.monitor.groups() == ["all rows", "age = 80 or more"]
    assert live.monitor.sizes()[1]["rows"] == 4


# ---------------------------------------------------------------- bins of numbers


def test_bins_are_the_categories_between_their_edges():
    rng = np.random.default_rng(0)
    age, p = rng.integers(18, 80, 600).astype(float), rng.random(600)
    age[5] = np.nan
    y = (rng.random(600) < p).astype(float)
    names = np.select([np.isnan(age), age < 30, age < 60], ["(missing)", "below 30", "30 to 60"], "60 or more")
    wanted = [None if name == "(missing)" else name for name in names]
    literal = Monitor(["age"]).add({"age": wanted}, p, y)
    cut = Monitor(bins={"age": [30, 60]}).add({"age": age}, p, y)
    assert cut.groups() == literal.groups()
    np.testing.assert_array_equal(cut._bets.live_bet_state().bets, literal._bets.live_bet_state().bets)
    singly = Monitor(bins={"age": [30, 60]})
    for k in range(600):
        singly.add({"age": age[k]}, p[k], y[k])
    np.testing.assert_array_equal(singly._bets.live_bet_state().bets, cut._bets.live_bet_state().bets)
    texts = Monitor(bins={"age": [30, 60]}).add([{"age": None if np.isnan(a) else f"{a:g}"} for a in age], p, y)
    assert_same_state(texts, cut)
    assert Monitor.from_state(cut.to_state()).settings == cut.settings


def test_bins_find_an_error_along_a_number():
    rng = np.random.default_rng(1)
    age, p = rng.uniform(18, 80, 20_000), rng.uniform(0.2, 0.8, 20_000)
    y = rng.random(20_000) < p + 0.12 * np.cos((age - 49) / 31 * np.pi)  # too low in the middle, too high at both ends
    monitor = Monitor(bins={"age": [30, 40, 58, 68]}).add({"age": age}, p, y)
    assert {alarm.group: alarm.direction for alarm in monitor.alarms()} == {
        "age = below 30": "too high",
        "age = 40 to 58": "too low",
        "age = 68 or more": "too high",
    }


@pytest.mark.parametrize("edges", [[], [3, 3], [4, 1], [np.nan], ["x"]])
def test_bins_are_checked(edges):
    with pytest.raises((TypeError, ValueError), match="bins: given"):
        Monitor(bins={"age": edges})
    with pytest.raises(ValueError, match="expected a number, as its ranges need"):
        Monitor(bins={"age": [3]}).add({"age": ["old"]}, [0.5], [1])


def test_a_number_and_its_range_are_not_confused_row_by_row():
    monitor = Monitor(["size"], bins={"age": [30]})
    for _ in range(2):
        monitor.add({"size": 40, "age": 40}, 0.5, 1.0)
    assert monitor.groups() == ["all rows", "size = 40", "age = 30 or more"]


def aged(seed, rows=3000, error=0.0):
    """Ages of which some are missing, a sex, forecasts, and outcomes off in a U along the age."""
    rng = np.random.default_rng(seed)
    age, p = rng.uniform(18, 80, rows).round(1), rng.uniform(0.2, 0.8, rows)
    y = (rng.random(rows) < p + error * (2 * np.abs(age - 49) / 31 - 1)).astype(float)
    age[rng.random(rows) < 0.02] = np.nan
    return {"age": age, "sex": rng.choice(["f", "m"], rows)}, p, y


def some(records, rows):
    return {name: values[rows] for name, values in records.items()}


def test_learned_ranges_are_given_ones_from_the_row_on_that_ends_the_learning():
    records, p, y = aged(0)
    options = {"products": [("age", "sex")], "clusters": None}
    learned = Monitor(["sex"], numbers=["age"], **options).add(records, p, y)
    start = int(np.flatnonzero(np.cumsum(np.isfinite(records["age"])) == 1000)[0]) + 1
    known = np.sort(records["age"][:start][np.isfinite(records["age"][:start])])
    assert learned.edges["age"] == tuple(known[[124, 249, 374, 499, 624, 749, 874]])
    rest = slice(start, None)
    given = Monitor(["sex"], bins=learned.edges, **options).add(some(records, rest), p[rest], y[rest])
    ranges = [group for group in learned.groups() if "age" in group]
    assert len(ranges) == 9 + 18
    found, expected = ({one["group"]: one for one in monitor.sizes()} for monitor in (learned, given))
    assert [found[group] for group in ranges] == [expected[group] for group in ranges]
    assert found["all rows"]["rows"] == found["sex = f"]["rows"] + found["sex = m"]["rows"] == 3000
    assert learned.around({"age": 50, "sex": "f"}, 0.5)[2]["group"].startswith("age = ")


@pytest.mark.parametrize("clusters", [None, "patient"])
def test_learned_ranges_do_not_depend_on_batches_or_files(tmp_path, clusters):
    records, p, y = aged(1, 1500)
    records["patient"] = np.arange(1500)
    settings = {"numbers": ["age"], "level_ranges": False, "clusters": clusters}
    whole = Monitor(**settings).add(records, p, y)
    parts = Monitor(**settings)
    assert parts.around({"age": 30, "patient": 1}, 0.5) == []
    for k, rows in enumerate(map(slice, [0, 1, 400, 990, 1100], [1, 400, 990, 1100, 1500])):
        kept = some(records, rows)
        listed = [dict(zip(kept, row, strict=True)) for row in zip(*kept.values(), strict=True)]
        parts.add(listed if k % 2 else kept, p[rows], y[rows])
        parts.save(tmp_path / "m")
        again = Monitor.load(tmp_path / "m")
        assert_same_state(again, parts)
        assert again._bets.group_index.learning == parts._bets.group_index.learning
        assert again.edges == parts.edges
        parts = again
    singly = Monitor(**settings)
    for k in range(1500):
        singly.add({name: values[k] for name, values in records.items()}, p[k], y[k])
    for one in (parts, singly):
        assert one.groups() == whole.groups()
        assert one.edges == whole.edges != {}
        np.testing.assert_array_equal(one._bets.live_bet_state().bets, whole._bets.live_bet_state().bets)


def test_monitors_with_ranges_learned_apart_are_not_joined():
    parts = [Monitor(numbers=["age"]).add(*aged(seed, 1200)) for seed in (2, 3)]
    young = Monitor(numbers=["age"]).add(*aged(2, 20))
    for one, other in [parts, (young, young), (parts[0], young)]:
        for join in (one.__add__, one.then):
            with pytest.raises(ValueError, match="monitors: given different learned edges"):
                join(other)
    for joined in (parts[0] + Monitor(numbers=["age"]), Monitor(numbers=["age"]).then(parts[0])):
        assert joined.edges == parts[0].edges
        assert joined.groups() == parts[0].groups()
        joined.add(*aged(4, 100))
    assert len((Monitor(numbers=["age"]) + young)._bets.group_index.learning["age"]) > 0
    alike = [Monitor(bins=parts[0].edges).add(*aged(seed, 500)) for seed in (2, 3)]
    assert (alike[0] + alike[1]).rows == 1000
    same = [Monitor(numbers=["age"]).add({"age": np.arange(1000)}, np.full(1000, 0.5), np.ones(1000)) for _ in "ab"]
    assert (same[0] + same[1]).edges == same[0].edges


def test_numbers_are_checked_and_refused_rows_teach_nothing():
    for given in ("age", ["age", "age"]):
        with pytest.raises((TypeError, ValueError), match="numbers: given"):
            Monitor(numbers=given)
    with pytest.raises(ValueError, match="numbers: given \\['age'\\] in bins too"):
        Monitor(numbers=["age"], bins={"age": [3]})
    monitor = Monitor(numbers=["age"]).add({"age": [1.0, None, np.inf]}, [0.5] * 3, [1] * 3)
    assert monitor._bets.group_index.learning == {"age": [1.0, np.inf]}
    for records in ({"age": ["old"]}, {"size": [3]}):
        with pytest.raises((KeyError, ValueError), match="age"):
            monitor.add(records, [0.5], [1])
    with pytest.raises(ValueError, match="weights"):
        monitor.add({"age": [2.0]}, [0.5], [1], weights=[3.0])
    assert monitor._bets.group_index.learning == {"age": [1.0, np.inf]}
    assert monitor.rows == 3
    huge = 1.7e9 + np.arange(1200.0)
    assert Monitor(numbers=["t"]).add({"t": huge}, np.full(1200, 0.5), np.ones(1200)).edges == {"t": (1.7e9,)}


def test_infinite_numbers_are_learned_from_and_watched_alike(tmp_path):
    age = np.resize([-np.inf, 1.0, 2.0, np.inf, np.nan], 1500)
    p, y = np.full(1500, 0.5), np.arange(1500) % 2
    whole = Monitor(numbers=["age"]).add({"age": age}, p, y)
    assert whole.edges == {"age": (1.0, 2.0)}  # 1,000 of the first 1,250 rows hold a number, a quarter of each kind
    sizes = {size["group"]: size["rows"] for size in whole.sizes()}
    assert sizes == {
        "all rows": 1500, "age = below 1": 50, "age = 1 to 2": 50, "age = 2 or more": 100, "age = (missing)": 51,
    }  # fmt: skip
    part = Monitor(numbers=["age"]).add({"age": age[:700]}, p[:700], y[:700])
    part.save(tmp_path / "part")
    again = Monitor.load(tmp_path / "part")
    for k in range(700, 1500):
        again.add({"age": float(age[k])}, 0.5, float(y[k]))
    assert again.edges == whole.edges
    np.testing.assert_array_equal(again._bets.live_bet_state().bets, whole._bets.live_bet_state().bets)
    only = Monitor(numbers=["age"]).add({"age": np.full(1200, np.inf)}, np.full(1200, 0.5), np.ones(1200))
    assert only.groups() == ["all rows", "age = 0 or more"]


def test_a_monitor_says_that_it_still_learns_ranges():
    monitor = Monitor(numbers=["age", "size"]).add({"age": [1.0, 2.0], "size": [None, 3]}, [0.5] * 2, [0, 1])
    assert monitor.learning == {"age": 2, "size": 1}
    said = monitor.summary()["sentence"]
    assert "still being learned: age (2 of 1,000 numbers), size (1 of 1,000 numbers)" in said
    assert monitor.summary()["learning"] == monitor.learning
    assert said in monitor.to_html()
    assert "age" in repr(monitor)
    rows = {"age": np.arange(1000), "size": np.arange(1000)}
    done = Monitor(numbers=["age", "size"]).add(rows, np.full(1000, 0.5), np.arange(1000) % 2)
    assert done.learning == {}
    assert "learn" not in done.summary()["sentence"] + repr(done)
    assert "learning" not in done.summary()


def test_live_refuses_words_in_a_column_of_numbers_before_it_forecasts():
    live = Live(monitor=Monitor(numbers=["age"]), categorical=["age"])
    for word in ("old", True):
        with pytest.raises(ValueError, match="column 'age': given"):
            live.forecast({"age": word}, id=1)
    live.forecast({"age": "31"}, id=2)
    live.label(2, 1.0)
    assert live.monitor.learning == {"age": 1}


@pytest.mark.statistical
def test_learned_ranges_keep_the_lifetime_level_and_find_an_error_along_a_number():
    streams, false = 60, 0
    for seed in range(streams):
        records, p, y = aged(seeded(seed), 2500)
        false += Monitor(numbers=["age"], tolerance=0.0).add(records, p, y).test().rejected
    assert false <= binom.isf(1e-5, streams, 0.05)
    records, p, y = aged(seeded(60), 20_000, error=0.15)
    found = {alarm.group: alarm.direction for alarm in Monitor(numbers=["age"]).add(records, p, y).log()}
    assert {"too low", "too high"} <= {found[group] for group in found if group.startswith("age = ")}
    assert not Monitor().add({}, p, y).log()


# ---------------------------------------------------------------- warnings, one forecast, tables out


def test_runs_of_equal_outcomes_are_followed_through_pieces_files_and_joins(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 0.7, 2000)
    y = (rng.random(2000) < p).astype(float)
    y[700:790] = 1
    y[1950:] = 0
    first, last = 700 - int(np.argmax(y[699::-1] == 0)), 700 + int(np.argmin(y[700:]))
    whole = Monitor().add({}, p, y)
    expected = [
        f"From row {first + 1:,} to row {last:,} all {last - first:,} ",
        "to row 2,000 all ",
    ]
    assert len(whole.warnings()) == 2
    assert all(words in warning for words, warning in zip(expected, whole.warnings(), strict=True))
    pieces = Monitor()
    for part in np.split(np.arange(2000), [1, 705, 730, 731, 1960]):
        pieces.add({}, p[part], y[part])
        pieces.save(tmp_path / "m")
        pieces = Monitor.load(tmp_path / "m")
    assert pieces.warnings() == whole.warnings()
    halves = [Monitor().add({}, p[part], y[part]) for part in (slice(0, 1000), slice(1000, None))]
    assert halves[0].then(halves[1]).warnings() == whole.warnings()
    assert len((halves[0] + halves[1]).warnings()) == 2
    assert "Warning: " in whole.to_html()
    assert whole.summary()["warnings"] == whole.warnings()


def test_runs_that_chance_or_the_forecasts_explain_are_no_warning():
    rare = np.zeros(5000)
    rare[::997] = 1
    assert Monitor().add({}, np.full(5000, 0.001), rare).warnings() == []
    warned = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.3, 0.9, 3000)
        warned += bool(Monitor(level_ranges=False).add({}, p, rng.random(3000) < p).warnings())
    assert warned == 0
    rare[2000:2030] = 1  # among thousands of long runs of the usual outcome
    assert len(Monitor().add({}, np.full(5000, 0.01), rare).warnings()) == 1


def test_a_run_is_as_rare_as_its_bound_says():
    rng = np.random.default_rng(0)
    flips = (rng.random((2000, 400)) < 0.5).astype(int)
    padded = np.pad(flips, ((0, 0), (1, 1)))
    longest = []
    for row in padded:
        ends = np.flatnonzero(np.diff(row))
        longest.append((ends[1::2] - ends[::2]).max(initial=0))
    for length in (10, 12):
        share = np.mean(np.array(longest) >= length)
        assert 0.2 * float(bounds.run_chance(length, 0.5, 400)) < share <= float(bounds.run_chance(length, 0.5, 400))


def test_around_names_the_narrowest_range_with_enough_rows():
    rng = np.random.default_rng(0)
    p, shift = np.concatenate([rng.uniform(0, 0.5, 480), np.full(20, 0.6)]), np.array(["day"] * 490 + ["night"] * 10)
    y = (rng.random(500) < p).astype(float)
    monitor = Monitor(["shift"]).add({"shift": shift}, p, y)
    every, day = monitor.around({"shift": "day"}, 0.3)
    inside = (p >= 0.25) & (p < 0.5)
    assert (every["group"], every["forecasts"], every["rows"]) == ("all rows", (0.25, 0.5), inside.sum())
    assert every["observed"] == pytest.approx(y[inside].mean())
    assert every["mean_forecast"] == pytest.approx(p[inside].mean())
    assert every["low"] < every["observed"] < every["high"]
    assert day["group"] == "shift = day"
    wide, night = monitor.around({"shift": "night"}, 0.6)
    assert (wide["forecasts"], wide["rows"]) == ((0.0, 1.0), 500)
    assert (night["forecasts"], night["rows"]) == ((0.0, 1.0), 10)
    assert [found["group"] for found in monitor.around({"shift": "dusk"}, 0.3)] == ["all rows"]
    assert monitor.groups() == ["all rows", "shift = day", "shift = night"]
    assert Monitor(["shift"]).around({"shift": "day"}, 0.3) == []


def test_a_monitors_groups_and_log_are_tables():
    p, y = swinging(rows=2000)
    monitor = Monitor(level_ranges=False).add({}, p, y)
    assert monitor.to_frame(backend="dict")["gap"] == [size["gap"] for size in monitor.sizes()]
    log = monitor.to_frame("log", "dict")
    assert log["sentence"] == [alarm.sentence for alarm in monitor.log()]
    assert len(monitor.to_frame("log", "pandas")) == len(monitor.log())
    with pytest.raises(ValueError, match="kind: given 'x'"):
        monitor.to_frame("x")


def test_a_file_without_a_log_keeps_its_alarms_and_counts():
    """States of versions before the log: what is counted now stands for the strongest moment."""
    p, y = np.full(80, 0.3), (np.arange(80) % 5 > 0).astype(float)
    monitor = Monitor(level_ranges=False).add({}, p, y)
    assert monitor.alarms()
    arrays, manifest = monitor.to_state()
    older = {name: array for name, array in arrays.items() if name not in ("log", "marks", "runs", "current", "ones")}
    plain = {name: value for name, value in manifest.items() if name not in ("dropped", "repeated")}
    again = Monitor.from_state(State(older, plain))
    (alarm,) = again.alarms()
    assert alarm.rows > 0
    (best,) = monitor.alarms()
    assert (alarm.group, alarm.raised, alarm.since) == (best.group, best.raised, best.since)
    assert alarm.strongest == 80.0
    assert again._bets.ones == pytest.approx(y.sum())


def test_rows_before_a_later_alarm_count_when_monitors_are_joined():
    p, y = np.full(900, 0.5), np.arange(900) % 2
    y[600:897] = 1  # the strongest evidence is not that of the last row
    parts = [Monitor(level_ranges=False).add({}, p[part], y[part]) for part in (slice(0, 500), slice(500, None))]
    whole = Monitor(level_ranges=False).add({}, p, y)
    joined = parts[0].then(parts[1])
    np.testing.assert_allclose(joined._bets.bet_state.marks[0, 0], whole._bets.bet_state.marks[0, 0])
    assert joined.alarms()[0].low == pytest.approx(whole.alarms()[0].low)
    beside = parts[1] + parts[0]
    assert beside._bets.bet_state.marks[0, 0, BEFORE] == whole._bets.bet_state.marks[0, 0, BEFORE]


def test_the_sentence_of_clusters_says_what_was_tested():
    monitor = Monitor(clusters="patient")
    for start in (0, 40):
        ids = np.arange(start, start + 40) % 40
        monitor.add({"patient": ids}, np.full(40, 0.5), np.arange(40) % 2)
    assert "80 rows" in monitor.summary()["sentence"]
    assert "Tested: 40 clusters, each once" in monitor.summary()["sentence"]


# ---------------------------------------------------------------- several classes

NAMES = ["bus", "car", "tram", "walk"]


def journeys(seed, rows):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1, 2, 2, 3], rows)
    y = np.array(NAMES)[(rng.random(rows)[:, None] > P.cumsum(axis=1)).sum(axis=1)]
    return {"sex": rng.choice(["f", "m"], rows)}, P, y


def test_each_class_has_a_monitor_with_its_part_of_the_limits():
    records, P, y = journeys(0, 600)
    together = ClassMonitors(NAMES, ["sex"], alpha=0.08, run_length=1000, tolerance=0.02)
    together.add(some(records, slice(0, 200)), P[:200], y[:200]).add(some(records, slice(200, None)), P[200:], y[200:])
    for k, name in enumerate(NAMES):
        alone = Monitor(["sex"], alpha=0.02, run_length=4000, tolerance=0.02).add(records, P[:, k], y == name)
        assert alone.settings == together.monitors[name].settings
        np.testing.assert_array_equal(
            alone._bets.live_bet_state().bets, together.monitors[name]._bets.live_bet_state().bets
        )
    assert repr(together) == "ClassMonitors(600 rows, 4 classes; no class is off)"


@pytest.mark.parametrize(
    ("P", "y", "what"),
    [
        (np.full((2, 3), 0.3), ["bus", "car"], "P: given shape"),
        (np.full((2, 4), 0.25), ["bus"], "y: given shape"),
        (np.full((2, 4), 0.25), ["bus", "boat"], "given .*boat.* in row 2"),
        ([[0.2, 0.3, 0.4, 0.1], [0.2, 0.3, 0.4, 1.1]], ["bus", "car"], "P: given"),
        (np.full((2, 4), 0.25), ["bus", "car"], "sex"),
    ],
)
def test_refused_rows_of_classes_change_nothing(P, y, what):
    records, *rows = journeys(1, 50)
    together = ClassMonitors(NAMES, ["sex"]).add(records, *rows)
    with pytest.raises((KeyError, ValueError), match=what):
        together.add({"sex": ["f", "m"]} if what != "sex" else {"size": [1, 2]}, P, y)
    assert {monitor.rows for monitor in together.monitors.values()} == {50}
    for classes in (["bus"], ["bus", "bus"], [1, 1.0], "bus"):
        with pytest.raises(ValueError, match="classes: given"):
            ClassMonitors(classes)


@pytest.mark.parametrize("classes", [NAMES, [0, 2.5, True, "walk"], list(np.arange(4))])
def test_monitors_of_classes_are_saved_and_continue_bit_for_bit(classes, tmp_path):
    records, P, y = journeys(3, 1500)
    y = np.array([classes[NAMES.index(name)] for name in y], dtype=object)
    whole = ClassMonitors(classes, ["sex"], numbers=["size"])
    records["size"] = np.arange(1500.0)
    part = ClassMonitors(classes, ["sex"], numbers=["size"])
    part.add(some(records, slice(0, 700)), P[:700], y[:700]).save(tmp_path / "classes")
    again = ClassMonitors.load(tmp_path / "classes")
    assert again.classes == classes
    again.add(some(records, slice(700, None)), P[700:], y[700:])
    whole.add(records, P, y)
    for one, other in zip(whole.monitors.values(), again.monitors.values(), strict=True):
        assert one.settings == other.settings
        for name, array in one.to_state().arrays.items():
            np.testing.assert_array_equal(array, other.to_state().arrays[name])


def test_a_file_of_other_classes_or_another_kind_is_refused(tmp_path):
    together = ClassMonitors(NAMES).add({}, *journeys(1, 30)[1:])
    state = together.to_state()
    for changes in (
        {"classes": ["bus", "car", "tram", "bus"]},
        {"classes": NAMES[:3]},
        {"classes": ["bus", "car", "tram", None]},
        {"monitors": [{**one, "rows": 30 + k} for k, one in enumerate(state.manifest["monitors"])]},
    ):
        with (tmp_path / "lie").open("wb") as lie:
            archive.pack(lie, "class monitors", 1, state.arrays, {**state.manifest, **changes})
        with pytest.raises(archive.ArchiveError):
            ClassMonitors.load(tmp_path / "lie")
    together.save(tmp_path / "classes")
    with pytest.raises(archive.ArchiveError, match="monitor"):
        Monitor.load(tmp_path / "classes")
    with pytest.raises(TypeError, match="classes: given"):
        ClassMonitors([("a", 1), ("b", 2)]).to_state()


@pytest.mark.statistical
def test_classes_keep_the_lifetime_level_together():
    streams, false = 60, 0
    for seed in range(streams):
        false += bool(ClassMonitors(NAMES, ["sex"], tolerance=0.0).add(*journeys(seeded(seed), 1000)).condemned())
    assert false <= binom.isf(1e-5, streams, 0.05)
    records, P, y = journeys(seeded(60), 4000)
    swapped = ClassMonitors(NAMES, ["sex"]).add(records, P[:, [3, 1, 2, 0]], y)
    assert swapped.condemned() == list(swapped.alarms()) == ["bus", "walk"]


def test_classes_keep_their_own_labels() -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet([2, 3, 4], 3000)
    y = 1 + (rng.random(3000)[:, None] > P.cumsum(axis=1)).sum(axis=1)
    off = ClassMonitors([1, 2, 3]).add({}, P[:, [0, 2, 1]], y)
    assert off.condemned() == [2, 3]
    assert off.monitors[1].rows == 3000


def test_the_rows_before_a_change_and_those_since_are_all_rows():
    p, y = worsening()
    log = Monitor(level_ranges=False, run_length=1000).add({}, p, y)._bets.logged()
    marks = log[:, ENDED + 1 :]
    assert len(log)
    assert (marks[:, BEFORE] > 0).any()
    np.testing.assert_array_equal(marks[:, BEFORE] + marks[:, SPAN], marks[:, AT])


def test_a_weighted_row_bets_its_part_of_residual_and_tolerance():
    rng = np.random.default_rng(0)
    p, y, weight = rng.random(50), rng.integers(0, 2, 50), rng.choice([1.0, 2.0, 4.0], 50)
    monitor = Monitor(level_ranges=False, stakes=(0.5,), tolerance=0.05, max_weight=4.0)
    found = monitor.add({}, p, y, weights=weight)._bets.log_wealth()[0]
    for side, (sign, odds) in enumerate(((1.0, p), (-1.0, 1.0 - p))):
        gains = 1.0 + 0.5 / (1.0 + 0.5 * odds) * weight / 4.0 * (sign * (y - p) - 0.05)
        assert found[side] == pytest.approx(np.log(gains).sum(), rel=1e-12)


def test_the_start_of_a_change_is_that_of_a_bet_that_was_made():
    """A sum may reach its limit with a cumulative sum below 1, where places without a stake are."""
    monitor = Monitor(level_ranges=False, stakes=(0.01,), run_length=10, tolerance=1e-4)
    log = monitor.add({}, np.full(200, 0.5), np.tile([1, 0], 100))._bets.logged()
    assert {*log[log[:, SIDE] == 0][:, ENDED + 1 + SPAN].tolist()} == {2.0}


def test_a_run_is_explained_by_the_forecasts_or_by_the_rate_of_all_other_rows():
    def unlikely(outcome, predicted, ones, rows, length=60):
        return evidence.is_unlikely(np.array([outcome, length, predicted * length, 0.0, 0.0]), ones, rows)

    assert unlikely(1.0, 0.5, 60 + 20, 100)  # of the 40 others every second one is 1; of all, run included, 80 %
    assert not unlikely(1.0, 0.5, 60 + 36, 100)
    assert not unlikely(1.0, 0.9, 60 + 20, 100)
    assert unlikely(0.0, 0.5, 20, 100)
    assert not unlikely(0.0, 0.5, 4, 100)
    assert not unlikely(0.0, 0.1, 20, 100)
    assert unlikely(1.0, 0.5, 60, 60)  # there are no others
    assert [unlikely(1.0, 0.1, length, length, length) for length in (19, 20)] == [False, True]
    assert not unlikely(0.5, 0.1, 60, 100), "no outcome of either kind"


def test_fifty_rows_of_a_range_say_how_sure_a_forecast_is():
    for rows, forecasts in ((49, (0.1, 0.5)), (50, (0.25, 0.5))):
        p = np.r_[np.full(rows, 0.3), np.full(80, 0.1), np.full(200, 0.8)]
        (found,) = Monitor().add({}, p, np.arange(len(p)) % 2).around({}, 0.3)
        assert found["forecasts"] == forecasts
        assert found["rows"] == np.sum((p >= forecasts[0]) & (p < forecasts[1]))


def test_the_lifetime_test_keeps_its_largest_pooled_wealth():
    """The pooled wealth of two groups is more than the largest of one cell."""
    p, y = np.full(1024, 0.5), np.r_[np.arange(512) % 5 > 0, np.arange(512) % 5 == 0]
    at_best, after = (
        Monitor(["g"], level_ranges=False).add({"g": ["a"] * rows}, p[:rows], y[:rows]).test() for rows in (512, 1024)
    )
    assert after.log10_wealth < 0.9 * at_best.log10_wealth
    assert after.log10_peak == pytest.approx(at_best.log10_wealth, rel=1e-12)


def test_around_a_forecast_at_an_edge_is_the_range_above_it():
    monitor = Monitor().add({}, np.full(100, 0.25), np.zeros(100))
    assert [(rate["forecasts"][0], rate["rows"]) for rate in monitor.around({}, 0.25)] == [(0.25, 100)]


def test_a_change_after_a_restart_begins_after_it():
    monitor = Monitor(level_ranges=False).add({}, np.full(10, 0.5), np.ones(10))
    assert not monitor.alarms()
    alarm = monitor.restart().add({}, np.full(90, 0.5), np.ones(90)).alarms()[0]
    assert (alarm.since, alarm.rows) == (11.0, 90)


def test_joined_monitors_raise_an_alarm_where_the_limit_is_reached(monkeypatch):
    def at_limit(bet_state, terms):
        return np.full((len(bet_state.notes), 2), terms.limits[1])

    one, other = (Monitor(level_ranges=False).add({}, [0.5], [1.0]) for _ in range(2))
    assert not (one + other)._bets.open_alarms().any()
    monkeypatch.setattr(evidence, "sums", at_limit)
    assert (one + other)._bets.open_alarms().all()


def test_each_shard_has_its_part_of_a_groups_budget():
    """A group may have appeared in any of them first, so each reserved its share."""
    parts = [Monitor(["g"]).add([{"g": "a"}, {"g": "b"}], [0.5, 0.5], [0.0, 1.0]) for _ in range(3)]
    two, three = parts[0] + parts[1], parts[0] + parts[1] + parts[2]
    for joined, shards in ((two, 2.0), (three, 3.0)):
        np.testing.assert_allclose(joined._bets.log_weights(), parts[0]._bets.log_weights() - np.log(shards))
        np.testing.assert_allclose(joined._bets.limits(), parts[0]._bets.limits() + np.log(shards))


def test_a_change_from_the_first_row_has_the_interval_of_all_rows():
    """Either side of both has half of the budget."""
    marks, note = np.zeros(wealth.MARKS), np.zeros(wealth.NOTES)
    marks[[wealth.SINCE, wealth.SPAN, wealth.GAP, wealth.SPREAD]] = 1.0, 200.0, 40.0, 50.0
    note[[wealth.FIRST, wealth.VISITS, wealth.TOTAL, wealth.TOTAL_SQUARE]] = 1.0, 200.0, 40.0, 50.0
    assert since_change(marks, 0.05) == since_first(note, 0.05)
