"""The noise floor: right when the predictions are right, awake when they are not."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from swapcal import Audit
from swapcal.audit.intervals import shift_interval
from swapcal.audit.measures import QUANTITIES, Residuals
from swapcal.audit.null import compare
from swapcal.kernels import tally as kernel
from tests.chance import assert_five_percent, seeded

REDRAWS = 1000
CHEAP = [key for key, quantity in QUANTITIES.items() if quantity.cheap]


def population(rows, seed=0):
    rng = np.random.default_rng(seeded(seed))
    X = np.column_stack([np.full(rows, 0.5), rng.uniform(-0.5, 0.5, (rows, 2))])
    groups = {"region": rng.integers(0, 10, rows).astype(str), "sex": rng.choice(["f", "m"], rows)}
    return rng.beta(2, 6, rows), X, groups, rng


def redraw(audit, p, X, groups, outcomes):
    """Residual sums of given outcomes (B, rows), added up in the plainest way."""
    scene = audit.evidence.design
    level = audit.levels.index(p)
    residual = outcomes - p
    order = np.argsort(level, kind="stable")
    ends = np.searchsorted(level[order], np.arange(len(scene.n) + 1))
    indicators = np.column_stack([groups[name] == c for name, found, _ in scene.columns for c in found])
    both = np.column_stack([X, indicators])[order].astype(float)
    sums = np.zeros((len(outcomes), len(scene.n), both.shape[1]))
    for v in range(len(scene.n)):
        rows = slice(ends[v], ends[v + 1])
        sums[:, v] = residual[:, order[rows]] @ both[rows]
    d = X.shape[1]
    return Residuals(np.ascontiguousarray(sums[:, :, :d]), np.ascontiguousarray(sums[:, :, d:]))


def rejection_rate(values, null):
    """Share of p-values at most 0.05; with 999 draws that is exceeding the fiftieth largest."""
    critical = np.sort(null)[-50]
    worst = values.max()
    assert (compare(worst, null).p_value <= 0.05) == (worst > critical)
    return np.mean(values > critical)


@pytest.mark.statistical
@pytest.mark.parametrize("rows_kept", [True, False], ids=["row by row", "gaussian"])
def test_true_predictions_are_rejected_five_percent_of_the_time(rows_kept):
    p, X, groups, rng = population(4000)
    audit = Audit(p, rng.random(4000) < p, X, groups=groups)
    audit.sums.sample.complete = rows_kept
    redrawn = redraw(audit, p, X, groups, rng.random((REDRAWS, 4000)) < p)
    null = audit.evidence.null
    scan_null = null["scan"]
    scene = audit.evidence.design
    scan = audit.evidence.scan.measure(scene, redrawn)
    rates = {"scan": rejection_rate(scan, scan_null)}
    for key in CHEAP:
        values = QUANTITIES[key].measure(scene, redrawn)
        rates[key] = rejection_rate(values, null["/".join(map(str, key))])
    assert_five_percent(rates, REDRAWS)


@pytest.mark.statistical
def test_a_planted_bias_is_found_and_named():
    """A bias of 0.03 in one region of ten, among 50,000 rows."""
    p, X, groups, rng = population(50_000, seed=1)
    truth = p + 0.03 * (groups["region"] == "7") * (p < 0.97)
    audit = Audit(p, rng.random(50_000) < truth, X, groups=groups)
    draws = 60
    redrawn = redraw(audit, p, X, groups, (rng.random((draws, 50_000)) < truth).astype(np.float32))
    null = audit.evidence.null["scan"]
    rejected = named = 0
    for b in range(draws):
        one = Residuals(redrawn.g[b : b + 1], redrawn.S[b : b + 1])
        rejected += compare(audit.evidence.scan.measure(audit.evidence.design, one)[0], null).p_value <= 0.05
        worst = audit.evidence.scan.cells(one)[0]
        named += audit.evidence.design.group_names[worst.function - 3] == "region = 7" if worst.function >= 3 else 0
    assert rejected >= 55
    assert named >= 55
    (first, *_) = audit.findings()
    assert first.name == "region = 7"
    assert first.gap == pytest.approx(0.03, abs=0.02)
    assert audit.worst_gap() >= 0.01


@pytest.mark.statistical
def test_slow_quantities_have_a_floor_too():
    """One of 199 draws may be the largest by chance, but hardly on each of four files."""
    p, X, groups, rng = population(1500)
    audits = [Audit(p, rng.random(1500) < p, X, groups=groups) for _ in range(4)]
    for audit in audits[1:]:  # the floor depends on the predictions alone
        audit.evidence.null, audit.evidence._slow = audits[0].evidence.null, audits[0].evidence._slow
    for key in QUANTITIES:
        noises = [audit.theory.noise(*key) for audit in audits]
        for noise in noises:
            assert noise.low <= noise.mean <= noise.high <= noise.detectable * 1.5
            assert noise.value >= 0
        assert max(noise.p_value for noise in noises) > 0.01


def test_floor_is_reproducible_and_depends_on_the_seed_alone():
    p, X, groups, rng = population(300)
    y = rng.random(300) < p
    one, two = (Audit(p, y, X, groups=groups, seed=5).theory.noise("smcal") for _ in range(2))
    assert one == two
    assert Audit(p, y, X, groups=groups, seed=6).theory.noise("smcal").mean != one.mean


def test_noise_reports_the_quantity_itself():
    p, X, groups, rng = population(800)
    audit = Audit(p, rng.random(800) < p, X, groups=groups)
    assert audit.theory.noise("smcal", 1, "groups").value == pytest.approx(audit.theory.smcal(1, "groups"))
    assert audit.theory.noise("smcal", 2, "affine").value == pytest.approx(audit.theory.smcal(2, "affine"))
    assert audit.theory.noise("mcal", 2).value == pytest.approx(audit.theory.mcal(2))
    assert audit.theory.noise("mcal", 2, "affine").value == pytest.approx(audit.theory.mcal(2, "affine"))
    assert audit.theory.noise("mcal", 1).value == pytest.approx(audit.theory.mcal(1)[0])
    assert audit.theory.noise("sreg").value == pytest.approx(audit.theory.sreg())
    assert audit.theory.noise("somni").value == pytest.approx(audit.theory.somni())
    assert audit.theory.noise("cal", 2).value == pytest.approx(audit.theory.cal(2))


@pytest.mark.statistical
def test_detectable_errors_are_found_four_times_in_five():
    """A value that scatters like the null around the detectable one exceeds the 95 % quantile with probability 0.8."""
    null = np.random.default_rng(seeded(0)).normal(10.0, 2.0, 20_000)
    noise = compare(12.0, null)
    scattered = noise.detectable + (null - null.mean())
    assert np.mean(scattered > noise.quantile95) == pytest.approx(0.8, abs=0.02)
    assert np.mean(null > noise.quantile95) == pytest.approx(0.05, abs=0.001)
    assert np.mean((null > noise.low) & (null < noise.high)) == pytest.approx(0.95, abs=0.001)


def group_sums(p, y, weights=None):
    weights = np.ones(len(p)) if weights is None else weights
    table = np.zeros((1, 1, kernel.SCALARS))
    zero = np.zeros(len(p), np.int32)
    kernel.add_groups(zero, zero, p, y, weights, table)
    return table[0]


def test_interval_of_equal_predictions_is_wilsons():
    p, y = np.full(40, 0.3), np.repeat([1.0, 0.0], [17, 23])
    low, high = shift_interval(group_sums(p, y))
    wilson = binomtest(17, 40).proportion_ci(method="wilson")
    assert (low[0] + 0.3, high[0] + 0.3) == (pytest.approx(wilson.low), pytest.approx(wilson.high))


@pytest.mark.statistical
def test_interval_covers_the_true_gap():
    rng = np.random.default_rng(seeded(0))
    p = rng.uniform(0.05, 0.9, 200)
    covered = 0
    for _ in range(3000):
        low, high = shift_interval(group_sums(p, (rng.random(200) < p + 0.05).astype(float)))
        covered += low[0] <= 0.05 <= high[0]
    assert 0.93 <= covered / 3000 <= 0.97


@pytest.mark.statistical
def test_group_verdicts_allow_for_the_number_of_groups():
    """Of forty true files at most a handful has any of a hundred groups called wrong; tested alone, nearly all have."""
    rng, files = np.random.default_rng(seeded(0)), 40
    names = np.repeat([f"g{k}" for k in range(100)], 100)
    p = np.full(len(names), 0.5)
    null = Audit(p, rng.random(len(p)) < p, groups={"g": names}).evidence.null
    alone = together = outside = 0
    for _ in range(files):
        y = rng.random(len(p)) < p
        alone += (np.abs(y.reshape(100, 100).mean(axis=1) - 0.5) > 1.96 * 0.05).any()
        audit = Audit(p, y, groups={"g": names})
        audit.evidence.null = null  # it depends on the predictions alone
        rows = audit.group_table()
        together += {row.verdict for row in rows} != {"no error found"}
        outside += any(row.low > 0 or row.high < 0 for row in rows)
    most = binom.isf(1e-5, files, 0.05)
    assert alone > 0.8 * files
    assert together <= most
    assert outside <= most


def test_a_group_too_small_to_test_is_undecided_and_an_impossible_outcome_is_not():
    p = np.concatenate([np.full(2000, 0.5), np.full(12, 0.5), np.zeros(50)])
    y = np.concatenate([np.tile([0.0, 1.0], 1000), np.ones(12), np.ones(50)])
    names = np.repeat(["many", "few", "never"], [2000, 12, 50])
    rows = {row.name: row for row in Audit(p, y, groups={"g": names}).group_table()}
    assert (rows["g = few"].verdict, rows["g = few"].p_value, rows["g = few"].small) == ("undecided", None, True)
    assert (rows["g = never"].verdict, rows["g = never"].p_value) == ("miscalibrated", 0.0)
    assert rows["g = many"].verdict == "no error found"
    assert Audit(p, y).group_table() == []
