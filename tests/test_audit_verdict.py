"""The verdict: honest about size, one object behind every word, and awake to outcomes that stand still."""

import json
import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from swapcal import Audit
from swapcal.audit.evidence import MOST_SMALL, POWER_QUANTILE, Standstill, _too_long, stretches
from swapcal.audit.intervals import Null, Window, _overspread, _prices
from swapcal.audit.measures import dispersion
from swapcal.audit.null import _flipped
from swapcal.audit.verdict import ALPHA, COVERED_SHARE, judged
from swapcal.kernels import tally
from swapcal.kernels.tally import FLOOR, log_losses
from swapcal.report import render
from tests.chance import seeded

TALLIED = [tally.ROWS, tally.MASS, tally.MASS2, tally.PREDICTED, tally.VARIANCE]

REDRAWS = 150


def family(rows=900, seed=0):
    rng = np.random.default_rng(seeded(seed))
    p = rng.choice([0.1, 0.3, 0.5, 0.7, 0.9], rows)
    groups = {"g": rng.integers(0, 6, rows).astype(str), "s": rng.choice(["f", "m"], rows, p=[0.2, 0.8])}
    return p, groups, rng


def true_gaps(audit, p, groups, chance):
    """True gap of every group and of everyone in every window, added up in the plainest way."""
    level = audit.levels.index(p)
    members = [
        np.ones(len(p), bool),
        *(groups[c] == name for c, found, _ in audit.evidence.design.columns for name in found),
    ]
    gaps = np.zeros((len(audit.evidence.scan.windows), len(members)))
    for w, (first, last) in enumerate(audit.evidence.scan.windows):
        for k, member in enumerate(members):
            rows = member & (level >= first) & (level <= last)
            gaps[w, k] = (chance - p)[rows].mean() if rows.any() else 0.0
    return gaps


@pytest.mark.statistical
@pytest.mark.parametrize("shift", [0.0, 0.12, -0.12])
def test_intervals_cover_all_true_gaps_and_the_worst_error_at_once(shift):
    p, groups, rng = family()
    chance = np.clip(p + shift * (groups["g"] == "3") + 0.5 * shift * (groups["s"] == "f"), 0.01, 0.99)
    null = Audit(p, rng.random(len(p)) < p, groups=groups).evidence.null
    together = worst = 0
    for _ in range(REDRAWS):
        audit = Audit(p, rng.random(len(p)) < chance, groups=groups)
        audit.evidence.null = null  # it depends on the predictions alone
        true, verdict = true_gaps(audit, p, groups, chance), audit.verdict()
        covered, counted = True, [abs(true[-1, 0])]
        for gaps, cells in zip(true, audit.evidence.sizes, strict=True):
            inside = (cells.low <= gaps) & (gaps <= cells.high)
            covered &= bool(inside[cells.usable].all())
            counted += np.abs(gaps[cells.usable & ((cells.p_value <= ALPHA) | (cells.share >= 0.05))]).tolist()
        together += covered
        worst += verdict.low <= max(counted) <= verdict.high
    assert together >= 0.87 * REDRAWS  # 95 % is meant; four standard deviations of the count are 8 %
    assert worst >= 0.87 * REDRAWS


def test_interval_leaves_zero_out_exactly_when_the_cell_is_rejected():
    p, groups, rng = family(4000, seed=3)
    audit = Audit(p, rng.random(4000) < p + 0.05 * (groups["g"] == "1"), groups=groups)
    for cells in audit.evidence.sizes:
        np.testing.assert_array_equal(cells.surely[cells.usable] > 0, cells.p_value[cells.usable] <= ALPHA)
    assert (audit.test().p_value <= ALPHA) == any((cells.surely > 0).any() for cells in audit.evidence.sizes)


@pytest.mark.parametrize(
    ("shift", "rows", "word"),
    [
        (0.0, 4000, "no error found"),
        (0.05, 40_000, "miscalibrated"),
        (0.005, 800_000, "small"),
        (0.02, 20_000, "undecided"),
    ],
)
def test_one_verdict_drives_headline_table_marker_and_twin(shift, rows, word):
    half = rows // 2
    p, group = np.full(rows, 0.5), np.repeat(["a", "b"], half)
    ones = round(half * 0.5), round(half * (0.5 + shift))
    y = np.concatenate([np.arange(half) < n for n in ones]).astype(float)
    audit = Audit(p, y, groups={"g": group})
    verdict, found = audit.verdict(), audit.to_dict()
    headline = found["headline"]
    assert verdict.word == headline["verdict"] == word
    assert (verdict.low, verdict.high) == pytest.approx((headline["low"], headline["high"]), abs=1e-8)
    assert verdict.low <= shift <= verdict.high
    rows_by_name = {row["name"]: row for row in found["groups"]}
    assert rows_by_name["g = a"]["verdict"] == "no error found"
    assert rows_by_name["g = b"]["verdict"] == word
    for witness in found["witnesses"]:
        if witness.get("p_value") is not None and witness["group"] in rows_by_name:
            assert witness["p_value"] == rows_by_name[witness["group"]]["p_value"]
    for word in (">calibrated<", ">inconclusive<", "times the top of the band"):
        assert word not in render(found)


def test_tolerance_is_the_callers_and_refused_when_it_is_no_size():
    p = np.full(40_000, 0.5)
    y = (np.arange(40_000) < 21_000).astype(float)
    audit = Audit(p, y)
    assert [audit.verdict(limit).word for limit in (0.001, 0.2)] == ["miscalibrated", "small"]
    assert audit.to_dict(tolerance=0.2)["headline"]["verdict"] == "small"
    for limit in (5, -0.1, float("nan")):
        with pytest.raises(ValueError, match="tolerance: given"):
            audit.to_dict(tolerance=limit)


@cache
def crowd(rows=12_000, seed=4):
    """Forecasts a point and a half too high, with forty groups of very different size and a feature."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(1.2, 4, rows)
    group = np.minimum(rng.geometric(0.12, rows), 40).astype(str)
    y = (rng.random(rows) < chance).astype(float)
    return Audit.from_features(np.minimum(chance + 0.015, 1), y, {"x": rng.normal(size=rows)}, groups={"g": group})


def test_a_larger_tolerance_always_decides_and_the_page_says_which():
    audit = crowd()
    low, high = audit.verdict().low, audit.verdict().high
    assert 0 < low < high < 0.3
    shown = {}
    for tolerance in (0.0, 0.002, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8):
        verdict = audit.verdict(tolerance)
        assert (verdict.low, verdict.high) == (low, high)
        assert verdict.word == ("miscalibrated" if low > tolerance else "small" if high <= tolerance else "undecided")
        shown[verdict.word] = tolerance
    assert len(shown) == 3
    for word, tolerance in shown.items():
        detail = audit.to_findings(tolerance=tolerance).headline.detail
        turns = {
            float(found) for found in re.findall(r"(\d+\.\d+) points", re.split("A tolerance|No tolerance", detail)[1])
        }
        ends = {"miscalibrated": (low, high), "small": (high,), "undecided": (low, high)}[word]
        for end in ends:
            assert min(abs(100 * end - turn) for turn in turns) <= 0.01, (detail, end)


def test_the_printed_tolerance_does_turn_the_verdict():
    audit = crowd()
    detail = audit.to_findings(tolerance=0.02).headline.detail
    found = re.search(r'A tolerance of (\S+) points or more would make the verdict "small"', detail)
    assert found is not None
    assert audit.verdict(float(found[1]) / 100).word == "small"
    assert audit.verdict(float(found[1]) / 100 - 0.0002).word == "undecided"


def test_the_far_end_covers_every_cell_of_a_twentieth_of_the_rows_and_no_smaller_one_by_chance():
    audit = crowd()
    used = 0
    for cells in audit.evidence.sizes:
        first, last = cells.first, cells.last
        level = audit.levels.index(audit.sums.kept().p)
        inside = (level >= first) & (level <= last)
        copies = audit.sums.kept().copies
        assert cells.share[0] == pytest.approx(copies[inside].sum() / audit.rows)
        assert cells.share[1] == cells.share[0], "a feature's cell holds the rows of its range"
        for covered, share, beyond, usable in zip(cells.covered, cells.share, cells.beyond, cells.usable, strict=True):
            assert covered == (usable and (beyond or share >= 0.05))
            used += covered
    names = audit.evidence.design.group_names
    share = dict(zip(names, audit.evidence.sizes.window(-1).share[2 : 2 + len(names)], strict=True))
    assert share["g = 1"] == pytest.approx(audit.sums.tally.columns()[0][2][:, names.index("g = 1"), 0].sum() / 12_000)
    assert audit.verdict().unresolved == sum(part < 0.05 for part in share.values())
    assert used > 20


def test_a_small_group_beyond_chance_is_covered_whatever_its_rows():
    rng = np.random.default_rng(8)
    p = rng.uniform(0.2, 0.6, 6000)
    few = np.arange(6000) < 150  # 2.5 % of the rows
    y = rng.random(6000) < p + 0.35 * few
    audit = Audit(p, y, groups={"few": np.where(few, "yes", "no")})
    (row,) = (row for row in audit.group_table() if row.name == "few = yes")
    assert row.p_value <= ALPHA
    verdict = audit.verdict()
    assert verdict.high >= row.high > 0.4
    assert verdict.unresolved == 0
    assert audit.verdict((verdict.low + row.high) / 2).word == "undecided"


def standing_still(where, rows=4000, dated=True):
    rng = np.random.default_rng(seeded(1))
    p = rng.uniform(0.2, 0.6, rows)
    y = (rng.random(rows) < p).astype(float)
    y[where] = 1.0
    day = np.arange(rows) // 8
    return p, y, np.datetime64("2014-01-01") + day if dated else day


@pytest.mark.parametrize("where", [slice(3600, None), slice(0, 400), slice(1600, 2000)], ids=["end", "start", "inside"])
def test_outcomes_that_stand_still_are_reported_with_the_verdict(where):
    p, y, time = standing_still(where)
    audit = Audit(p, y, time=time)
    (one,) = stretches(audit.sums.timeline)
    assert (one.outcome, one.rows) == (1, pytest.approx(400, abs=3))
    bounds = time[where][0], time[where][-1]
    assert abs(np.datetime64(one.first) - bounds[0]) <= np.timedelta64(1, "D")
    assert abs(np.datetime64(one.last) - bounds[1]) <= np.timedelta64(1, "D")
    found = audit.to_dict()
    assert one.first in found["headline"]["warnings"][0]
    assert found["headline"]["warnings"][0] in render(found)
    halves = [Audit(p[k::2], y[k::2], time=time[k::2]) for k in (0, 1)]
    (merged,) = stretches((halves[0] + halves[1]).sums.timeline)
    assert merged[:4] == one[:4]


@pytest.mark.statistical
def test_chance_rare_events_and_short_stretches_are_not_reported():
    p, y, time = standing_still(slice(0, 15))
    assert stretches(Audit(p, y, time=time).sums.timeline) == []
    rng = np.random.default_rng(seeded(2))
    rare = np.full(20_000, 0.004)
    assert stretches(Audit(rare, rng.random(20_000) < rare, time=np.arange(20_000)).sums.timeline) == []
    _, y, time = standing_still(slice(3600, None), dated=False)
    sure = np.where(np.arange(4000) >= 3600, 0.9999, 0.4)
    assert stretches(Audit(sure, y, time=time).sums.timeline) == []


def test_a_stretch_is_too_long_for_all_the_places_where_it_could_begin():
    """2⁻²⁰ is below one in a million; that one of 1,000 rows begins a stretch as unlikely is so from 30 rows on."""
    stretch = Standstill("first", "last", 1, 20, 0.5, 0.5)
    assert [_too_long(stretch._replace(rows=rows), 1000) for rows in (20, 29, 30)] == [False, False, True]
    assert not _too_long(stretch._replace(rows=30, usual=0.9), 1000), "the usual rate explains it"
    assert not _too_long(stretch._replace(rows=30, predicted=0.9), 1000), "the predictions explain it"
    assert _too_long(stretch._replace(rows=30, outcome=0), 1000)
    assert [_too_long(stretch._replace(rows=40), rows) for rows in (8000, 8001)] == [True, False], "one in 200 rows"


def test_each_of_very_many_small_groups_is_unresolved_and_what_joins_them_is_no_group():
    rng = np.random.default_rng(3)
    p, many = rng.uniform(0.2, 0.6, 6000), MOST_SMALL + 200
    groups = {"who": [f"w{k % many}" for k in range(6000)], "half": np.where(np.arange(6000) < 3000, "a", "b")}
    audit = Audit(p, rng.random(6000) < p, groups=groups)
    assert audit.verdict().word == "no error found"
    assert audit.verdict().unresolved == many


def test_log_loss_has_one_rule():
    p, y = np.array([0.0, 1.0, 0.3, 1e-9]), np.array([1.0, 1.0, 0.0, 1.0])
    by_hand = [-np.log(FLOOR), -np.log(1 - FLOOR), -np.log(0.7), -np.log(FLOOR)]
    np.testing.assert_allclose(log_losses(p, y), by_hand)
    audit = Audit(p, y)
    assert audit.log_loss() == pytest.approx(np.mean(by_hand))
    found = audit.to_dict()
    assert found["scores"]["log_loss"] == pytest.approx(np.mean(by_hand))
    assert any("log loss" in note and f"{FLOOR:g}" in note for note in found["notes"])
    assert any("exactly 0 or 1" in text for text in found["headline"]["warnings"])
    json.dumps(found, allow_nan=False)


def test_a_group_does_not_resemble_its_own_complement():
    rng = np.random.default_rng(0)
    sex = rng.choice(["Female", "Male"], 6000)
    tall = np.where((sex == "Male") ^ (rng.random(6000) < 0.1), "yes", "no")
    y = rng.random(6000) < 0.5 + 0.1 * (sex == "Male")
    found = Audit(np.full(6000, 0.5), y, groups={"sex": sex, "tall": tall}).to_dict()
    named = [(w["group"], [one["group"] for one in w["resembles"]]) for w in found["witnesses"] if w.get("group")]
    male = dict(named)["sex = Male"]
    assert male == ["tall = yes"]
    for name, alike in named:
        assert not any(one.split(" = ")[0] == name.split(" = ")[0] for one in alike)


def test_a_tolerance_too_coarse_for_rare_events_is_said_to_be():
    p = np.full(400_000, 0.004)
    y = (np.arange(400_000) < 2400).astype(float)
    verdict = Audit(p, y).verdict()
    assert verdict.word == "small"
    assert "tolerance" in verdict.warnings[0]
    assert Audit(p, y).verdict(0.0005).word == "miscalibrated"
    assert Audit(np.full(400_000, 0.5), (np.arange(400_000) < 201_600).astype(float)).verdict()[0::8] == ("small", ())


@pytest.mark.parametrize("draws", [19, 39, 199, 250, 999])
def test_the_critical_score_is_where_p_values_cross_the_level(draws):
    null = Null(np.arange(1.0, draws + 1.0))
    at, beyond = null.p_values(np.array([null.critical, null.critical + 1e-6]))
    assert beyond <= ALPHA < at


def test_cells_are_covered_by_evidence_or_by_their_share_of_rows():
    ones = np.ones(4)
    cells = Window(
        0, 0, 0, ones, ones, ones, ones,
        share=np.array([1e-6, COVERED_SHARE, 0.99 * COVERED_SHARE, 1.0]),
        score=ones, p_value=np.array([ALPHA, 0.9, 0.9, ALPHA]), z=ones, usable=np.array([True, True, True, False]),
    )  # fmt: skip
    assert cells.covered.tolist() == [True, True, False, False]


@pytest.mark.parametrize(("deviations", "factor"), [(3.5, 1.0), (4.5, 1.45), (-50.0, 1.0)])
def test_residuals_spread_beyond_a_shift_only_beyond_doubt(deviations, factor):
    rows, sums = 400.0, np.zeros((1, max(TALLIED) + 1))
    sums[0, TALLIED] = rows, rows, rows, rows / 2, rows / 4
    sums[0, tally.SQUARED] = rows / 4 + deviations * np.sqrt(rows / 4)
    assert _overspread(sums, np.zeros(1))[1] == pytest.approx(factor)


def test_the_null_scales_residuals_down_and_never_up():
    design = SimpleNamespace(n=np.ones(2), spread=np.array([0.25, 0.25]), H=np.full((2, 1, 1), 1.0))
    design.fractional = np.array([True, True])
    p, y = np.full(6, 0.5), np.array([0.6, 0.4, 0.6, 1.5, -0.5, 1.5])
    rows = SimpleNamespace(weights=np.ones(6), y=y, p=p, copies=np.ones(6))
    found = _flipped(design, rows, np.repeat([0, 1], 3))
    np.testing.assert_allclose(found[:3], y[:3] - p[:3], rtol=1e-15)
    assert np.sum(found[3:] ** 2) == pytest.approx(1.0)


def test_the_price_of_a_cell_is_that_of_its_part_of_the_variance():
    root, price = _prices(np.array([[1.0, 9.0], [4.0, 9.0]]), np.array([[True, True], [True, False]]))
    np.testing.assert_allclose(root, [[1.0, 3.0], [2.0, np.inf]])
    np.testing.assert_allclose(price, [[np.sqrt(2.0 * np.log(4.0)), 0.0], [0.0, 0.0]])


def test_a_constant_whose_variance_is_rounding_has_no_usable_cell():
    root, price = _prices(np.array([[1e-17, 4.0], [-1e-18, 9.0]]), np.full((2, 2), True))
    np.testing.assert_array_equal(root, [[np.inf, 2.0], [np.inf, 3.0]])
    assert np.isfinite(price).all()


def test_an_interval_reaches_as_far_as_its_farther_end():
    ones = np.ones(2)
    low, high = np.array([-0.3, 0.1]), np.array([0.1, 0.3])
    cells = Window(0, 0, 0, ones, low, high, ones, ones, ones, ones, ones, usable=ones > 0)
    np.testing.assert_allclose(cells.at_most, [0.3, 0.3])
    np.testing.assert_allclose(cells.surely, [0.0, 0.1])


def test_squares_about_a_shift_are_those_of_the_rows():
    y, p, shift = np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.3, 0.2, 0.6, 0.1]), 0.2
    sums = np.zeros((1, tally.SCALARS))
    sums[0, [tally.MASS, tally.MASS2, tally.ROWS]] = 4.0
    sums[0, tally.PREDICTED], sums[0, tally.RESIDUAL] = p.sum(), (y - p).sum()
    sums[0, tally.SQUARED] = ((y - p) ** 2).sum()
    assert _overspread(sums, np.array([shift]))[0] == pytest.approx(((y - p - shift) ** 2).sum())


def test_an_error_as_large_as_the_tolerance_is_tolerable():
    words = [judged(True, *ends, 0.01) for ends in ((0.01, 0.02), (0.01, 0.01), (0.0100001, 0.02))]
    assert words == ["undecided", "small", "miscalibrated"]


def test_squares_are_told_from_a_shift_by_the_larger_of_both_variances():
    """A shift towards 0 or 1 explains little variance, of which a little more is no evidence."""
    rows, shift, sums = 400.0, 0.4, np.zeros((1, max(TALLIED) + 1))
    sums[0, TALLIED] = rows, rows, rows, rows / 2, rows / 4
    sums[0, tally.RESIDUAL] = shift * rows
    for above, wide in ((30.0, False), (50.0, True)):  # explained 36, predicted 100: 24 or 40 would be beyond doubt
        sums[0, tally.SQUARED] = 36.0 + above + shift**2 * rows
        assert (_overspread(sums, np.array([shift]))[1] > 1.0) == wide


def test_what_would_be_detected_depends_on_clusters_and_on_fractions():
    rng = np.random.default_rng(0)
    coins, ids = rng.integers(0, 2, 400).astype(float), np.repeat(np.arange(400), 5)
    p, shared = np.full(2000, 0.5), np.repeat(coins, 5)
    for y, clusters in ((shared, None), (shared, ids), (0.4 + 0.2 * shared, None)):
        audit = Audit(p, y, clusters=clusters)
        whole = audit.sums.tally.table.sum(axis=0)
        spread = np.sqrt(audit.evidence.inflation * dispersion(whole) * 500.0) / 2000.0
        reach = audit.evidence.sizes.null.critical + POWER_QUANTILE
        assert audit.verdict().detectable == pytest.approx(reach * spread)
    assert Audit(p, shared, clusters=ids).evidence.inflation > 3.0
    assert dispersion(Audit(p, 0.4 + 0.2 * shared).sums.tally.table.sum(axis=0)) < 0.1


@pytest.mark.parametrize("certain", [0.0, 1.0])
def test_the_far_end_covers_contradicted_certainties_of_either_side(certain):
    rng = np.random.default_rng(0)
    p = np.concatenate([np.full(2000, 0.5), np.full(100, certain)])
    y = np.concatenate([rng.integers(0, 2, 2000), np.arange(100) % 2])
    audit = Audit(p, y)
    gap, low, high = (getattr(audit.evidence.widest(), name) for name in ("gap", "low", "high"))
    assert gap == 0.5 - certain
    assert audit.verdict().high == max(-low, high) > 0.5


def test_the_interval_of_a_trend_has_the_spread_of_the_residuals():
    rng = np.random.default_rng(0)
    p, y, n = np.tile([0.02, 0.98], 2000), rng.integers(0, 2, 4000).astype(float), 4000
    audit = Audit.from_features(p, y, {"x": rng.normal(size=n)})
    half = audit.evidence.sizes.window(-1).half[1]
    spread = np.sqrt(np.mean((y - p) ** 2) / n)
    assert half == pytest.approx(audit.evidence.sizes.null.critical * spread, rel=0.05)
    assert spread > 4.0 * np.sqrt(0.02 * 0.98 / n)
