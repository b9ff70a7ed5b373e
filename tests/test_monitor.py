"""Monitor: kernels against the definition, exact supermartingales, joining, keeping, input, false alarms."""

import datetime
import itertools
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapcal import Monitor, bounds
from swapcal.kernels import wealth
from swapcal.kernels.wealth import (
    CHANGE_AT,
    CUSUM,
    FIRST,
    LANES,
    LIFE_AT,
    LIFE_PEAK,
    RESIDUAL,
    ROWS,
    SQUARE,
    START,
    SUM,
    VISITS,
    price,
)
from swapcal.monitor import state as evidence
from swapcal.monitor.alarms import since_change
from swapcal.monitor.settings import DEFAULT_STAKES
from swapcal.monitor.state import ENTRIES
from tests import reference_monitor as reference
from tests.chance import seeded


def stream(rows, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.random(rows - 4), [0.0, 0.02, 0.5, 1.0]])
    town = rng.choice(["Bari", "Pisa", "Rome"], rows)
    late = np.where(np.arange(rows) < rows // 2, "early", rng.choice(["late", "later"], rows))
    y = (rng.random(rows) < np.clip(p + shift * (town == "Rome"), 0, 1)).astype(float)
    return {"town": town, "late": late}, p, y


def state(monitor):
    bet_state = monitor._bets.live_bet_state()
    history = monitor._bets.history
    return {
        "bets": bet_state.bets,
        "notes": bet_state.notes,
        "groups": [(g.column, g.category, g.share) for g in monitor._bets.group_index.groups],
        "limits": monitor._bets.life_limits[: len(monitor._bets.group_index.groups)],
        "rows": monitor.rows,
        "clock": (monitor._bets.first_clock, monitor._bets.last_clock, monitor._bets.pooled_peak),
        "history": (history.stride, history.rows, history.clock),
        "figures": history.table(len(monitor._bets.group_index.groups)),
    }


def assert_same_state(one, other):
    left, right = state(one), state(other)
    for key, value in left.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, right[key], err_msg=key)
        else:
            assert value == right[key], key


# ---------------------------------------------------------------- the definition


def test_kernel_equals_the_definition_bet_by_bet():
    records, p, y = stream(300, shift=0.3)
    y[5] = 0.25
    monitor = Monitor(["town", "late"], products=[("town", "late")], tolerance=0.02).add(records, p, y)
    rows = zip(records["town"], records["late"], strict=True)
    memberships = [["all rows", f"town = {a}", f"late = {b}", f"town = {a} and late = {b}"] for a, b in rows]
    edges = monitor.settings.ranges.edges
    expected = reference.run(memberships, p, y, DEFAULT_STAKES, 0.02, edges)
    bet_state, names = monitor._bets.live_bet_state(), monitor.groups()
    logs = evidence.lane_log_wealth(bet_state)
    spans = [monitor.settings.ranges.bounds(node) for node in range(monitor.settings.ranges.nodes)]
    met = 0
    for (name, span, sign, k), bet in expected.items():
        cell = names.index(name) * len(spans) + spans.index(span)
        lane = 2 * DEFAULT_STAKES.index(k) + (sign < 0)
        found = bet_state.bets[cell, :, lane]
        assert logs[cell, lane] == pytest.approx(bet.log, abs=1e-10)
        assert found[SUM] == pytest.approx(bet.sum, rel=1e-10)
        assert found[CUSUM] == pytest.approx(bet.cusum, rel=1e-10)
        assert found[[START, ROWS]].tolist() == [bet.start, bet.rows]
        assert found[[RESIDUAL, SQUARE]] == pytest.approx([bet.residual, bet.square], abs=1e-10)
        met += 1
    visited = int((bet_state.notes[:, VISITS] > 0).sum())
    assert met == visited * LANES


def test_compiled_bets_equal_interpreted_ones():
    program = """
import json, numpy as np
from swapcal import Monitor
rng = np.random.default_rng(0)
p = rng.random(150)
monitor = Monitor(["g"]).add({"g": rng.integers(0, 3, 150)}, p, rng.random(150) < p / 2)
book = monitor._bets.live_bet_state()
print(json.dumps([np.nan_to_num(book.bets).ravel().tolist(), np.nan_to_num(book.notes).ravel().tolist()]))
"""
    found = []
    for switch in ("0", "1"):
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(
            command, env=os.environ | {"NUMBA_DISABLE_JIT": switch}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-10, atol=1e-12)


@given(
    p=st.floats(0, 1),
    y=st.floats(0, 1),
    k=st.floats(1e-3, 3),
    tolerance=st.floats(0, 0.33),
)
def test_no_bet_can_lose_everything_and_none_is_favourable(p, y, k, tolerance):
    gains = np.zeros(LANES)
    price(p, y, 1.0, np.full(LANES, k), tolerance, gains)
    assert (gains > 0).all()
    assert (gains <= 1 + k + 1e-12).all()
    for side, mean in ((0, p + tolerance), (1, p - tolerance)):
        if 0 <= mean <= 1:  # the least honest outcome rate that is still sound
            ends = []
            for outcome in (0.0, 1.0):
                price(p, outcome, 1.0, np.full(LANES, k), tolerance, gains)
                ends.append(gains[side])
            assert (1 - mean) * ends[0] + mean * ends[1] == pytest.approx(1.0, abs=1e-12)


def enumerate_streams(horizon, rate, tolerance, edges=()):
    """Every label sequence with its probability, the pooled lifetime wealth and the pooled sums after it.

    Adaptive: forecast, group and true rate of a row depend on the labels so far; the rate is off by ±tolerance.
    """
    rows = []
    for labels in itertools.product((0.0, 1.0), repeat=horizon):
        chance, p, groups = 1.0, [], []
        for t in range(horizon):
            wins = sum(labels[:t])
            forecast = min(max(rate + 0.1 * (wins - t / 2), 0.05), 0.95)
            p.append(forecast)
            groups.append("new" if wins >= 2 else "old")
            truth = forecast + (tolerance if groups[-1] == "new" else -tolerance)
            chance *= truth if labels[t] else 1 - truth
        rows.append((chance, p, groups, labels))
    return rows


@pytest.mark.parametrize("tolerance", [0.0, 0.04])
def test_pooled_wealth_is_a_supermartingale_by_enumeration(tolerance):
    streams = enumerate_streams(9, 0.4, tolerance)
    assert sum(chance for chance, *_ in streams) == pytest.approx(1.0)
    mean_wealth = 0.0
    for chance, p, groups, labels in streams:
        monitor = Monitor(["g"], tolerance=tolerance).add({"g": groups}, p, labels)
        mean_wealth += chance * 10.0 ** monitor.test().log10_wealth
    if tolerance == 0:
        assert mean_wealth == pytest.approx(1.0, abs=1e-9)
    else:
        assert mean_wealth <= 1.0 + 1e-9


def test_sums_grow_by_at_most_one_a_row_by_enumeration():
    streams = enumerate_streams(8, 0.5, 0.0)
    mean = 0.0
    for chance, p, groups, labels in streams:
        monitor = Monitor(["g"], tolerance=0.0).add({"g": groups}, p, labels)
        sums = evidence.sums(monitor._bets.live_bet_state(), monitor._bets.terms)
        mean += chance * float(sums.sum()) * monitor.settings.change_weight
    # Every row plays with total weight 1, categories that appear by the labels included.
    assert mean == pytest.approx(8.0, abs=1e-9)


def test_run_length_by_enumeration_of_stopping():
    """E[τ ∧ n] + E[missing] never falls below what the threshold promises: E[M at τ ∧ n] ≤ E[τ ∧ n]."""
    horizon, threshold = 9, 3.0
    mean_rows = mean_sum = 0.0
    for chance, p, groups, labels in enumerate_streams(horizon, 0.5, 0.0):
        monitor = Monitor(["g"], tolerance=0.0, stakes=[2.0])
        for t in range(horizon):
            monitor.add({"g": groups[t]}, p[t], labels[t])
            total = (
                evidence.sums(monitor._bets.live_bet_state(), monitor._bets.terms).sum()
                * monitor.settings.change_weight
            )
            if total >= threshold:
                break
        mean_rows += chance * (t + 1)
        mean_sum += chance * total
    assert mean_sum == pytest.approx(mean_rows, abs=1e-9)


# ---------------------------------------------------------------- bounds


def test_shares_of_appearance_and_of_starts_are_budgets():
    total = sum(float(bounds.appearance_share(j)) for j in range(1, 5000))
    assert total == pytest.approx(1 - 8 / 5007, abs=1e-9)
    starts = 50_000
    head = sum(float(bounds.start_share(n)) for n in range(starts))
    tail = 1 / (math.log(starts + 1.5) * 2.10974281)  # ∫ dn / (n ln² n) from half a step earlier, an upper bound
    assert 0.9999 < head + tail <= 1.0 + 1e-5


@pytest.mark.statistical
def test_deviation_radius_holds_at_all_times_at_once():
    rng = np.random.default_rng(seeded(4))
    runs, rows, alpha = 400, 2000, 0.1
    p = rng.uniform(0, 0.1, (runs, rows))
    truth = np.clip(p + 0.05 * np.sin(np.arange(rows) / 50), 0, 1)
    y = rng.random((runs, rows)) < truth
    deviation = np.cumsum(y - truth, axis=1)
    squares = np.cumsum((y - p) ** 2, axis=1)
    grid = np.linspace(0, squares.max(), 200)
    radius = np.interp(squares, grid, [float(bounds.deviation_radius(v, alpha)) for v in grid])
    missed = (deviation >= radius).any(axis=1).mean()
    assert missed <= alpha
    assert (deviation >= 0.35 * radius).any(axis=1).mean() > alpha  # a bound three times smaller would be caught


def test_deviation_radius_solves_its_equation():
    for squares, alpha in ((0.0, 0.5), (7.0, 0.01), (1e6, 1e-9)):
        u = float(bounds.deviation_radius(squares, alpha))
        mean = np.mean([math.exp(t * u - (-math.log1p(-t) - t) * squares) for t in bounds.mixtures.TILTS])
        assert mean == pytest.approx(1 / alpha, rel=1e-6)


def test_fan_inequality_behind_the_radius():
    x, tilt = np.meshgrid(np.linspace(-1, 5, 601), np.linspace(0.001, 0.99, 200))
    psi = -np.log1p(-tilt) - tilt
    assert (np.exp(tilt * x - psi * x**2) <= 1 + tilt * x + 1e-12).all()


@pytest.mark.statistical
def test_detection_delay_is_not_exceeded():
    rng = np.random.default_rng(seeded(0))
    p, gap, k, rows, runs = 0.4, 0.1, 0.33, 2500, 60
    up, down = (reference.gain(p, y, 1, k, 0.0) for y in (1.0, 0.0))
    growth = (p + gap) * math.log(up) + (1 - p - gap) * math.log(down)
    delays = []
    for _ in range(runs):
        monitor = Monitor(tolerance=0.0, level_ranges=False, stakes=[k], run_length=10_000)
        monitor.add({}, np.full(rows, p), rng.random(rows) < p + gap)
        delays.append(monitor._bets.bet_state.notes[0, CHANGE_AT])
    bound = float(bounds.detection_delay(10_000 * 2, growth, up))
    assert np.mean(delays) <= bound
    assert np.mean(delays) > 0.3 * bound


def test_regret_against_the_best_stake_is_at_most_the_bound():
    records, p, y = stream(3000, shift=0.2)
    monitor = Monitor(["town"]).add(records, p, y)
    bet_state = monitor._bets.live_bet_state()
    lanes, mixed = evidence.lane_log_wealth(bet_state), evidence.log_wealth(bet_state, monitor._bets.terms)
    for side in range(2):
        regret = lanes[:, side::2].max(axis=1) - mixed[:, side]
        assert regret.min() >= -1e-9
        assert regret.max() <= float(bounds.stake_regret(DEFAULT_STAKES)) + 1e-9


# ---------------------------------------------------------------- pieces, files, joining


def test_pieces_give_the_same_state_bit_for_bit():
    records, p, y = stream(1000, shift=0.25)
    whole = Monitor(["town", "late"], products=[("late", "town")], most=2).add(records, p, y)
    pieces = Monitor(["town", "late"], products=[("late", "town")], most=2)
    for part in np.split(np.arange(1000), [1, 2, 60, 64, 65, 500, 503, 900]):
        pieces.add({name: column[part] for name, column in records.items()}, p[part], y[part])
    assert_same_state(whole, pieces)
    single = Monitor(["town", "late"], products=[("late", "town")], most=2)
    for t in range(1000):
        single.add({name: column[t] for name, column in records.items()}, p[t], y[t])
    assert_same_state(whole, single)
    assert "town = (other)" in whole.groups()


def test_save_and_load_go_on_bit_for_bit(tmp_path):
    records, p, y = stream(900, shift=0.25)
    half = {name: column[:450] for name, column in records.items()}
    rest = {name: column[450:] for name, column in records.items()}
    time = np.datetime64("2024-01-01") + np.arange(900) // 10
    whole = Monitor(["town", "late"], level_ranges=[0, 0.3, 1]).add(records, p, y, time)
    part = Monitor(["town", "late"], level_ranges=[0, 0.3, 1]).add(half, p[:450], y[:450], time[:450])
    part.save(tmp_path / "m")
    again = Monitor.load(tmp_path / "m").add(rest, p[450:], y[450:], time[450:])
    assert_same_state(whole, again)
    assert whole.alarms() == again.alarms()
    assert again.settings == whole.settings


def test_a_damaged_or_foreign_file_is_refused(tmp_path):
    from swapcal import archive
    from swapcal.archive import pack
    from swapcal.monitor.state import FILE

    Monitor().add({}, [0.5], [1]).save(tmp_path / "m")
    arrays, settings = archive.read(tmp_path / "m", FILE)
    with open(tmp_path / "short", "wb") as file:
        short = {name: arrays[name][:1] for name in ("bets", "notes")}
        pack(file, "monitor", 1, arrays | short, settings)
    with pytest.raises(archive.ArchiveError, match="bets: given"):
        Monitor.load(tmp_path / "short")
    with open(tmp_path / "other", "wb") as file:
        pack(file, "audit", 1, {}, {})
    with pytest.raises(archive.ArchiveError, match="kind"):
        Monitor.load(tmp_path / "other")


def halves(shift=0.2):
    records, p, y = stream(1200, shift=shift)
    monitors = []
    for part in (slice(0, 700), slice(700, None)):
        rows = {name: column[part] for name, column in records.items()}
        monitors.append(Monitor(["town", "late"], run_length=500).add(rows, p[part], y[part]))
    return Monitor(["town", "late"], run_length=500).add(records, p, y), *monitors


def test_then_equals_one_pass():
    whole, first, second = halves()
    joined = first.then(second)
    assert [(g.category, g.share) for g in joined._bets.group_index.groups] == [
        (g.category, g.share) for g in whole._bets.group_index.groups
    ]
    one, two = whole._bets.live_bet_state(), joined._bets.live_bet_state()
    np.testing.assert_allclose(evidence.lane_log_wealth(one), evidence.lane_log_wealth(two), atol=1e-9)
    for field in (SUM, CUSUM, ROWS, RESIDUAL, SQUARE):
        np.testing.assert_allclose(one.bets[:, field], two.bets[:, field], rtol=1e-9, atol=1e-9)
    seen = one.notes[:, VISITS] > 0
    np.testing.assert_array_equal(one.bets[seen, START], two.bets[seen, START])
    np.testing.assert_allclose(one.notes[:, :4], two.notes[:, :4], atol=1e-9)
    np.testing.assert_array_equal(one.notes[:, FIRST], two.notes[:, FIRST])
    assert joined._bets.pooled_peak == first._bets.pooled_peak > 0.0
    assert joined.rows == whole.rows
    assert joined.test().log10_wealth == pytest.approx(whole.test().log10_wealth, abs=1e-9)
    assert {a.group for a in joined.alarms()} == {a.group for a in whole.alarms()}


def test_sum_multiplies_wealth_adds_detectors_and_keeps_the_budget():
    _, first, second = halves()
    joined, swapped = first + second, second + first
    names, logs = joined.groups(), evidence.lane_log_wealth(joined._bets.live_bet_state()).reshape(-1, 15, LANES)
    for part in (first, second):
        assert set(part.groups()) <= set(names)
    parts = [
        (
            m.groups(),
            evidence.lane_log_wealth(m._bets.live_bet_state()).reshape(-1, 15, LANES),
            m._bets.live_bet_state().bets[:, SUM],
        )
        for m in (first, second)
    ]
    sums = joined._bets.live_bet_state().bets[:, SUM].reshape(-1, 15, LANES)
    for name in names:
        places = [(i, p[0].index(name)) for i, p in enumerate(parts) if name in p[0]]
        np.testing.assert_allclose(logs[names.index(name)], sum(parts[i][1][g] for i, g in places), atol=1e-12)
        adding = sum(parts[i][2].reshape(-1, 15, LANES)[g] for i, g in places)
        np.testing.assert_allclose(sums[names.index(name)], adding, rtol=1e-12)
    for column in joined.settings.columns:
        assert sum(g.share / joined._bets.shards for g in joined._bets.group_index.groups if g.column == column) <= 1.0
    assert joined.test().log10_wealth == pytest.approx(swapped.test().log10_wealth, abs=1e-12)
    assert (joined.rows, joined._bets.shards) == (1200, 2)
    assert Monitor(["town", "late"], run_length=500).then(first).rows == 700


def test_a_sum_gives_a_group_the_smaller_share_and_stays_a_sum_when_rows_follow():
    one, other, later = (
        Monitor(["town"]).add([{"town": name} for name in towns], np.full(len(towns), 0.5), np.ones(len(towns)))
        for towns in (["Bari", "Pisa", "Rome"], ["Rome", "Bari"], ["Oslo"])
    )
    shares = [{"".join(g.category): g.share for g in m._bets.group_index.groups} for m in (one, other, one + other)]
    assert shares[0]["Rome"] < shares[1]["Rome"]
    assert all(shares[2][name] == min(part.get(name, 1.0) for part in shares[:2]) for name in ("Bari", "Pisa", "Rome"))
    assert (one + other).then(later)._bets.shards == 2


def test_a_sum_raises_lifetime_alarms_at_its_own_end_only():
    surprised = Monitor().add([{}] * 200, np.full(200, 0.1), np.ones(200))
    calm = Monitor().add([{}] * 40, np.full(40, 0.5), np.arange(40) % 2)
    raised = surprised._bets.live_bet_state().notes[:, LIFE_AT:LIFE_PEAK]
    assert np.nanmin(raised) < 200
    for joined in (surprised + calm, calm + surprised):
        at = joined._bets.live_bet_state().notes[:, LIFE_AT:LIFE_PEAK]
        assert set(at[~np.isnan(at)]) == {240.0}


def test_joined_wealth_is_a_supermartingale_by_enumeration():
    """Two shards whose rows alternate; each shard's group depends on the labels of both."""
    mean = 0.0
    for labels in itertools.product((0.0, 1.0), repeat=8):
        chance, shards = 1.0, [Monitor(["g"], tolerance=0.0), Monitor(["g"], tolerance=0.0)]
        for t, y in enumerate(labels):
            wins = sum(labels[:t])
            p = 0.3 + 0.05 * wins
            shards[t % 2].add({"g": f"{(wins + t % 2) % 3}"}, p, y)
            chance *= p if y else 1 - p
        mean += chance * 10.0 ** (shards[0] + shards[1]).test().log10_wealth
    assert mean <= 1.0 + 1e-9


def test_joining_asks_for_equal_settings_and_clocks():
    with pytest.raises(ValueError, match="different settings"):
        Monitor(["a"]) + Monitor(["b"])
    timed = Monitor().add({}, [0.5], [1], time=[3.0])
    with pytest.raises(ValueError, match="clocks of numbers and rows"):
        timed + Monitor().add({}, [0.5], [1])
    with pytest.raises(ValueError, match="begin before"):
        timed.then(Monitor().add({}, [0.5], [1], time=[2.0]))


# ---------------------------------------------------------------- alarms


def drifting(rows=30_000, change=12_000, gap=0.12, seed=4):
    rng = np.random.default_rng(seeded(seed))
    p = rng.uniform(0.1, 0.9, rows)
    shift = rng.choice(["day", "night", "noon"], rows, p=[0.6, 0.2, 0.2])
    off = (shift == "night") & (np.arange(rows) >= change) & (p < 0.5)
    return {"shift": shift}, p, rng.random(rows) < p + gap * off


@pytest.mark.statistical
def test_an_alarm_names_group_range_direction_time_and_size():
    records, p, y = drifting(gap=0.25)
    monitor = Monitor(["shift"]).add(records, p, y)
    alarm = monitor.alarms()[0]
    assert (alarm.group, alarm.kind, alarm.direction) == ("shift = night", "change", "too low")
    assert alarm.forecasts[1] <= 0.5
    assert abs(alarm.since - 12_000) < 1500
    assert 12_000 < alarm.raised < 20_000
    assert alarm.low <= 0.25 <= alarm.high
    assert alarm.low > 0
    assert alarm.evidence >= 1e6
    assert alarm.sentence.startswith("shift = night, forecasts from ")
    assert "too low by" in alarm.sentence
    assert json.loads(json.dumps(alarm.to_dict()))["group"] == "shift = night"
    assert {a.group for a in monitor.alarms()} <= {"shift = night", "all rows"}  # all rows together are off as well
    monitor.restart()
    assert not [a for a in monitor.alarms() if a.kind == "change"]
    assert Monitor(["shift"]).alarms() == []


def test_restart_forgets_one_group_only():
    records, p, y = drifting(gap=0.3)
    monitor = Monitor(["shift"]).add(records, p, 1.0 - y)
    before = {a.group for a in monitor.alarms() if a.kind == "change"}
    assert before == {"all rows", "shift = day", "shift = night", "shift = noon"}
    monitor.restart("shift = day")
    assert {a.group for a in monitor.alarms() if a.kind == "change"} == before - {"shift = day"}
    with pytest.raises(ValueError, match="expected one of"):
        monitor.restart("shift = dusk")


def test_lifetime_alarm_without_a_change_alarm():
    rng = np.random.default_rng(0)
    p = np.full(600, 0.5)
    monitor = Monitor(run_length=1e12, level_ranges=False).add({}, p, rng.random(600) < 0.65)
    (alarm,) = monitor.alarms()
    assert alarm.kind == "lifetime"
    assert 10.0**-alarm.evidence <= 0.05
    assert monitor.test().rejected
    assert "false-alarm probability: below" in alarm.sentence
    assert (alarm.since, alarm.rows) == (1.0, 600)


def test_a_group_that_appears_alone_can_raise_a_lifetime_alarm():
    monitor = Monitor(["g"], run_length=1e300, level_ranges=False)
    for name in "abcdef":
        monitor.add({"g": [name] * 200}, np.full(200, 0.5), np.arange(200) % 2)
    for name in "fed":
        monitor.add({"g": [name] * 200}, np.full(200, 0.5), np.ones(200))
    assert np.isfinite(monitor._bets.life_limits[: len(monitor.groups())]).all()
    assert {"g = d", "g = e", "g = f"} <= {alarm.group for alarm in monitor.alarms()}


def test_history_is_bounded_and_starts_when_a_group_appears():
    records, p, y = stream(40_000)
    monitor = Monitor(["late"], level_ranges=False).add(records, p, y)
    found = monitor.wealth("late = later")
    assert len(found["rows"]) < ENTRIES
    assert np.isnan(found["lifetime"][found["rows"] < 20_000]).all()
    assert np.isfinite(found["lifetime"][found["rows"] > 21_000]).all()
    assert set(np.diff(found["rows"])) == {monitor._bets.history.stride}
    with pytest.raises(ValueError, match="expected one of"):
        monitor.wealth("late = never")


def test_long_calm_and_long_storm_stay_finite():
    for outcome in (0.0, 1.0):
        monitor = Monitor(["g"]).add({"g": ["a"] * 60_000}, np.full(60_000, 0.5), np.full(60_000, outcome))
        assert np.isfinite(monitor._bets.live_bet_state().bets).all()
        assert np.isfinite(monitor.test().log10_wealth)
        assert monitor.test().p_value == 0.0 or monitor.test().p_value < 1e-300
        assert monitor.alarms()[0].sentence


@pytest.mark.statistical
def test_intervals_hold_from_the_chosen_start_for_all_groups_at_all_looks():
    rows, missed, widths = 3000, 0, []
    for seed in range(20):
        rng = np.random.default_rng(seeded(seed))
        p, g = rng.uniform(0.1, 0.7, rows), rng.integers(0, 5, rows)
        deviation = 0.15 * ((g == 2) & (np.arange(rows) >= 1500))
        y = rng.random(rows) < p + deviation
        monitor, wrong = Monitor(["g"], level_ranges=False), False
        for start in range(0, rows, 500):
            part = slice(start, start + 500)
            monitor.add({"g": g[part]}, p[part], y[part])
            for cell, name in enumerate(monitor.groups()):
                mine = np.ones(rows, bool) if name == "all rows" else g == int(name[4:])
                note, bets = monitor._bets.bet_state.notes[cell], monitor._bets.bet_state.bets[cell]
                alpha = 0.05 * math.exp(monitor._bets.log_weights()[cell, 0])
                for side in range(2):
                    marks = evidence.segment(bets, note, monitor._bets.terms.shares, side, 0.0)
                    size = since_change(marks, alpha)
                    inside = mine & (np.arange(rows) + 1 >= size.since) & (np.arange(rows) < start + 500)
                    assert size.rows == inside.sum()
                    assert size.gap == pytest.approx((y - p)[inside].mean())
                    wrong |= not size.low <= deviation[inside].mean() <= size.high
                    if size.rows >= 300:
                        widths.append((size.high - size.low) / 2 * math.sqrt(size.rows))
        missed += wrong
    assert missed <= 1  # at most one in twenty is promised, over everything at once
    assert np.median(widths) < 4.5  # in standard errors of a fair coin: nine


def test_sizes_cover_every_group():
    records, p, y = stream(5000, shift=0.3)
    monitor = Monitor(["town"]).add(records, p, y)
    rows = {row["group"]: row for row in monitor.sizes()}
    rome = records["town"] == "Rome"
    assert rows["town = Rome"]["gap"] == pytest.approx((y - p)[rome].mean())
    assert rows["town = Rome"]["low"] > 0
    assert rows["town = Bari"]["low"] < 0 < rows["town = Bari"]["high"]


# ---------------------------------------------------------------- input


def test_frames_of_every_kind_agree():
    records, p, y = stream(200)
    records = {name: column.astype(object) for name, column in records.items()}
    records["town"][3] = None
    plain = Monitor(["town", "late"]).add(records, p, y)
    assert "town = (missing)" in plain.groups()
    for module in ("pandas", "polars"):
        library = pytest.importorskip(module)
        assert_same_state(plain, Monitor(["town", "late"]).add(library.DataFrame(records), p, y))
    pa = pytest.importorskip("pyarrow")
    table = pa.table({name: column.tolist() for name, column in records.items()})
    assert_same_state(plain, Monitor(["town", "late"]).add(table, p, y))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"p": [0.1, 1.2]}, ValueError, "p: given 1.2 in row 2"),
        ({"p": [0.1, np.nan]}, ValueError, "p: given nan in row 2"),
        ({"y": [0.0, -1.0]}, ValueError, "y: given -1.0 in row 2"),
        ({"y": ["0", "1"]}, TypeError, "y: given list that is not numeric"),
        ({"y": [1.0]}, ValueError, "y: given 1 outcomes, expected 2"),
        ({"records": {"town": ["x"]}}, ValueError, "records: given 1 rows, expected 2"),
        ({"records": {"city": ["x", "y"]}}, ValueError, "no column 'town'"),
        ({"time": [2.0, 1.0]}, ValueError, "time: given 1.0 in row 2 after 2.0"),
        ({"time": [1.0]}, ValueError, r"time: given shape \(1,\)"),
        ({"weights": [1.0, 2.0]}, ValueError, "weights: given 2 in row 2"),
        ({"weights": [1.0]}, ValueError, r"weights: given shape \(1,\)"),
    ],
)
def test_refused_rows_leave_the_state_as_it_was(change, error, words):
    monitor, twin = Monitor(["town"]), Monitor(["town"])
    call = {"records": {"town": ["new", "newer"]}, "p": [0.1, 0.2], "y": [0.0, 1.0], "time": [5.0, 6.0]}
    for one in (monitor, twin):
        one.add({"town": ["a", "b"]}, [0.3, 0.4], [1, 0], time=[0.0, 0.5])
    with pytest.raises(error, match=words):
        monitor.add(**(call | change))
    assert_same_state(monitor, twin)
    with pytest.raises(ValueError, match="time: given rows, expected numbers"):
        monitor.add(**(call | {"time": None}))
    assert_same_state(monitor, twin)
    monitor.add(**call)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tolerance": -0.1}, "tolerance: given -0.1"),
        ({"tolerance": 0.6}, "stakes: given 2.0 with tolerance 0.6"),
        ({"alpha": 1.0}, "alpha: given 1.0"),
        ({"run_length": 0.5}, "run_length: given 0.5"),
        ({"stakes": []}, "expected 1 to 6"),
        ({"stakes": [0.1] * 2}, "expected 1 to 6 different"),
        ({"groups": "town"}, "groups: given the text"),
        ({"groups": ["a", "a"]}, "each column once"),
        ({"products": [("a", "a")]}, "a pair of two column names"),
        ({"level_ranges": [0, 0.2, 0.5, 1]}, "given 3 ranges"),
        ({"level_ranges": [0.1, 1]}, "edges from 0 to 1"),
        ({"most": 0}, "most: given 0"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Monitor(**settings)


def test_one_record_must_be_a_mapping_of_values():
    monitor = Monitor(["town"])
    with pytest.raises(TypeError, match="mapping of values"):
        monitor.add([1], 0.5, 1)
    with pytest.raises(TypeError, match="one category"):
        monitor.add({"town": [1]}, 0.5, 1)
    with pytest.raises(ValueError, match="no column 'town'"):
        monitor.add({"towns": "x"}, 0.5, 1)
    assert monitor.rows == 0
    assert monitor.add({"town": None, "extra": 1}, 0.5, 1).groups() == ["all rows", "town = (missing)"]


def test_no_rows_and_times_of_every_kind():
    monitor = Monitor(["town"]).add({"town": []}, [], [])
    assert (monitor.rows, monitor.groups(), monitor.alarms()) == (0, [], [])
    assert monitor.test().p_value == 1.0
    with pytest.raises(ValueError, match="expected one of"):
        monitor.wealth()
    zone = datetime.timezone(datetime.timedelta(hours=2))
    noon = datetime.datetime(2024, 5, 1, 12, tzinfo=zone)
    monitor.add({"town": "Rome"}, 0.5, 1, time=noon)
    monitor.add({"town": ["Rome"]}, [0.5], [1], time=["2024-05-01T10:00"])
    assert monitor.summary()["first"] == monitor.summary()["last"] == "2024-05-01 10:00:00"
    with pytest.raises(ValueError, match="after 2024-05-01 10:00:00"):
        monitor.add({"town": ["Rome"]}, [0.5], [1], time=[np.datetime64("2024-04-30")])
    with pytest.raises(TypeError, match="expected numbers or dates"):
        monitor.add({"town": "Rome"}, 0.5, 1, time="soon")
    assert monitor.rows == 2


# ---------------------------------------------------------------- rates of false alarms, in small


def false_alarms(runs, rows, tolerance, alpha, run_length, make):
    lifetime = change = 0
    for seed in range(runs):
        records, p, y = make(np.random.default_rng(seeded(seed)), rows)
        monitor = Monitor(["g"], tolerance=tolerance, alpha=alpha, run_length=run_length).add(records, p, y)
        lifetime += monitor.test().rejected
        change += any(a.kind == "change" for a in monitor.alarms())
    return lifetime / runs, change / runs


def honest(rng, rows):
    p = rng.random(rows) ** 2
    return {"g": rng.integers(0, 10, rows)}, p, rng.random(rows) < p


def labels_first_come_first(rng, rows):
    """Ones are known at once, zeros only after a day: the order depends on the labels."""
    records, p, y = honest(rng, rows)
    order = np.argsort(np.arange(rows) + 400 * (1 - y), kind="stable")
    return {"g": records["g"][order]}, p[order], y[order]


@pytest.mark.statistical
def test_honest_forecasts_are_rarely_rejected_at_tolerance_zero():
    lifetime, change = false_alarms(60, 4000, 0.0, 0.2, 4000, honest)
    assert lifetime <= 0.2
    assert change <= 1 - math.exp(-1) + 0.2  # at most 4,000 rows in 4,000 on average


@pytest.mark.statistical
def test_an_order_that_depends_on_labels_is_not_valid():
    lifetime, _ = false_alarms(20, 4000, 0.0, 0.05, 1e6, labels_first_come_first)
    assert lifetime == 1.0


def test_a_category_keeps_its_name_when_a_missing_value_turns_integers_into_floats():
    monitor = Monitor(groups=["g"]).add({"g": [1, 2]}, [0.5] * 2, [1, 0])
    monitor.add({"g": np.array([1.0, np.nan])}, [0.5] * 2, [1, 0])
    assert [group.name if hasattr(group, "name") else group for group in monitor.groups()] == [
        "all rows",
        "g = 1",
        "g = 2",
        "g = (missing)",
    ]


def test_a_list_of_records_is_a_table_of_them() -> None:
    rng = np.random.default_rng(5)
    city, day = rng.choice(["a", "b", "c"], 300), rng.integers(0, 4, 300)
    p, y = rng.random(300), (rng.random(300) < 0.4).astype(float)
    table, listed = (
        Monitor(["city", "day"], products=[("city", "day")]),
        Monitor(["city", "day"], products=[("city", "day")]),
    )
    for part in (slice(0, 7), slice(7, 200), slice(200, 300)):
        table.add({"city": city[part].tolist(), "day": day[part].tolist()}, p[part], y[part])
        rows = [{"city": c, "day": d} for c, d in zip(city[part].tolist(), day[part].tolist(), strict=True)]
        listed.add(rows, p[part], y[part])
    assert table.summary() == listed.summary()
    before = listed.summary()
    for wrong in ([{"city": "a", "day": 1}], [3, 4], [{"city": "a"}, {"city": "b"}]):
        with pytest.raises((TypeError, ValueError)):
            listed.add(wrong, [0.2, 0.3], [0, 1])
    assert listed.summary() == before


def test_sizes_tell_the_evidence_that_wealth_ends_with() -> None:
    whole = Monitor(["g"])
    assert whole.sizes() == []
    whole.add({"g": ["a", "b"] * 600}, [0.2] * 1200, [0, 1] * 600)
    rows = int(whole.wealth()["rows"][-1])
    monitor = Monitor(["g"]).add({"g": (["a", "b"] * 600)[:rows]}, [0.2] * rows, ([0, 1] * 600)[:rows])
    for row in monitor.sizes():
        told = whole.wealth(row["group"])
        assert row["change"] == pytest.approx(told["change"][-1])
        assert row["lifetime"] == pytest.approx(told["lifetime"][-1])


def test_a_page_is_replaced_whole(tmp_path):
    monitor, page, before = Monitor().add({}, [0.2, 0.4], [0, 1]), tmp_path / "page.html", tmp_path / "before.html"
    monitor.to_html(page, title="First")
    os.link(page, before)
    monitor.to_html(page, title="Second")
    assert "First" in before.read_text(encoding="utf-8")  # nobody who reads the page meets half of the next one
    assert "Second" in page.read_text(encoding="utf-8")


def test_wealth_is_the_mean_over_stakes_by_their_shares() -> None:
    rng = np.random.default_rng(3)
    bets, shares = rng.normal(0.0, 2.0, (wealth.FIELDS, LANES)), np.zeros(LANES)
    bets[wealth.GAIN] = rng.uniform(0.5, 2.0, LANES)
    for side in (0, 1):
        shares[side::2] = rng.dirichlet(np.ones(LANES // 2))
        shares[side] = 0.0
        literal = shares[side::2] @ (np.exp(bets[wealth.LOG, side::2]) * bets[wealth.GAIN, side::2])
        assert wealth.log_wealth(bets, shares, side) == pytest.approx(math.log(literal), rel=1e-12)


def test_an_alarm_is_raised_where_the_limit_is_reached() -> None:
    for value, raised in ((2.0, 7.0), (np.nextafter(2.0, 0.0), math.nan)):
        note = np.array([0.0, math.nan])
        getattr(wealth.notice, "py_func", wealth.notice)(note, 0, 1, value, 2.0, 7.0)
        assert note[0] == value
        assert (note[1] == raised) or (math.isnan(note[1]) and math.isnan(raised))
