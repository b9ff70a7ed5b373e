"""The simulated null against outcomes redrawn from the truth: weights, many small groups, fractional outcomes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from swapcal import Audit
from swapcal.audit import evidence
from swapcal.audit.measures import QUANTITIES, Cells, Residuals
from swapcal.audit.null import _flipped, _share_total, compare, simulate
from swapcal.audit.sums import JOINED, category_codes, hash_names
from tests.chance import assert_five_percent, seeded

REDRAWS = 1000
CHEAP = [key for key, quantity in QUANTITIES.items() if quantity.cheap]
MODES = pytest.mark.parametrize("by_row", [True, False], ids=["row by row", "from sums"])


def contexts(rows, rng):
    return np.column_stack([np.full(rows, 0.5), rng.uniform(-0.5, 0.5, (rows, 2))])


def summed(audit, p, X, labels, weights, outcomes):
    """Residual sums of given outcomes (B, rows) by level, and by level and group of the one column."""
    (_, found, _) = audit.evidence.design.columns[0]
    level, code = audit.levels.index(p), np.searchsorted(found, labels)
    shape = (len(outcomes), len(audit.levels))
    g, S = np.zeros((*shape, X.shape[1])), np.zeros((*shape, len(found)))
    for b, y in enumerate(outcomes):
        residual = weights * (y - p)
        g[b] = np.stack([np.bincount(level, residual * x, shape[1]) for x in X.T], axis=1)
        S[b] = np.bincount(level * len(found) + code, residual, S[b].size).reshape(S[b].shape)
    return Residuals(g, S)


def rejection_rates(audit, redrawn, keys=CHEAP):
    """Share of redrawn outcomes whose p-value is at most 0.05, per quantity and for the scan."""
    null = audit.evidence.null
    scan_null = null["scan"]
    scene = audit.evidence.design
    drawn = {"/".join(map(str, key)): key for key in keys if "/".join(map(str, key)) in null}
    values = {name: QUANTITIES[key].measure(scene, redrawn) for name, key in drawn.items()}
    rates = {name: np.mean(found > np.sort(null[name])[-50]) for name, found in values.items()}
    return rates | {"scan": np.mean(audit.evidence.scan.measure(scene, redrawn) > np.sort(scan_null)[-50])}


@pytest.mark.statistical
@pytest.mark.parametrize(("rows", "chance"), [(6000, 0.01), (3000, 0.5)], ids=["rare", "even"])
@pytest.mark.parametrize("unequal", [False, True])
def test_many_small_groups_do_not_condemn_the_truth(rows, chance, unequal):
    """Sums over a handful of rows are no Gaussians: drawn as such they put every true file at the smallest p-value."""
    rng = np.random.default_rng(seeded(0))
    p = chance * rng.choice([0.5, 0.8, 1.0, 1.4], rows)
    labels = (rng.zipf(1.5, rows) % 400 if unequal else rng.integers(0, 400, rows)).astype(str)
    X, ones = contexts(rows, rng), np.ones(rows)
    audit = Audit(p, rng.random(rows) < p, X, groups=labels)
    audit.sums.sample.complete = False
    rates = rejection_rates(audit, summed(audit, p, X, labels, ones, rng.random((REDRAWS, rows)) < p))
    assert_five_percent(rates, REDRAWS)


@pytest.mark.statistical
@MODES
def test_unequal_weights_keep_the_rejection_rate(by_row):
    """One row in ten weighs twenty times as much; a null of equal weights would reject the truth nearly always."""
    rng = np.random.default_rng(seeded(1))
    rows = 3000
    p, labels, X = rng.choice([0.1, 0.3, 0.6, 0.8], rows), rng.integers(0, 12, rows).astype(str), contexts(rows, rng)
    weights = np.where(rng.random(rows) < 0.1, 20.0, 1.0)
    outcomes = rng.random((REDRAWS, rows)) < p
    audit = Audit(p, outcomes[0], X, groups=labels, weights=weights)
    audit.sums.sample.complete = by_row
    rates = rejection_rates(audit, summed(audit, p, X, labels, weights, outcomes))
    assert_five_percent(rates, REDRAWS)


@pytest.mark.statistical
@MODES
def test_null_covariance_squares_the_weights(by_row):
    """Under the truth the covariance of g is Σ α² p(1 − p) x xᵀ."""
    rng = np.random.default_rng(seeded(2))
    rows = 2000
    p, X, weights = rng.choice([0.2, 0.7], rows), contexts(rows, rng), rng.choice([0.5, 1.0, 8.0], rows)
    labels = rng.choice(["0", "1", "2"], rows, p=[0.1, 0.6, 0.3])
    audit = Audit(p, rng.random(rows) < p, X, groups=labels, weights=weights)
    kept = audit.sums.sample.rows if by_row else None
    drawn = simulate(
        audit.evidence.design,
        {"g": lambda scene, r: r.g, "S": lambda scene, r: r.S},
        4000,
        seeded(0),
        kept,
        audit.levels,
    )
    for v, value in enumerate([0.2, 0.7]):
        at = p == value
        squared = weights[at] ** 2 * value * (1 - value)
        expected = (X[at] * squared[:, None]).T @ X[at]
        found = np.cov(drawn["g"][:, v].T)
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        assert np.abs(found - expected).max() <= 0.12 * scale.max()
        assert np.diag(found) == pytest.approx(np.diag(expected), rel=0.1)
        for k in range(3):
            assert drawn["S"][:, v, k].var() == pytest.approx(squared[labels[at] == str(k)].sum(), rel=0.1)
        np.testing.assert_allclose(drawn["S"][:, v].sum(axis=1), 2 * drawn["g"][:, v, 0], atol=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize(("count", "chance"), [(1, 0.3), (7, 0.02), (60, 0.9), (2000, 0.004), (400, 0.05), (50, 0.5)])
def test_a_cell_is_binomial(count, chance):
    """Tails included: at the probabilities that decide the largest of many cells."""
    cell = Cells(np.array([float(count)]), np.array([chance]), np.array([2.0]))
    normal = np.random.default_rng(seeded(0)).standard_normal(200_000)
    sums = cell.draw(len(normal), np.random.default_rng(seeded(0)), cell.thresholds())[:, 0]
    tosses = sums / 2.0 + count * chance
    assert tosses.mean() == pytest.approx(count * chance, abs=0.01 * np.sqrt(count * chance * (1 - chance)))
    assert tosses.var() == pytest.approx(count * chance * (1 - chance), rel=0.03)
    for tail in (1e-4, 1e-3, 0.5, 0.999, 0.9999):
        exact = binom.ppf(tail, count, chance)
        assert np.quantile(tosses, tail) == pytest.approx(exact, abs=1.01)
    assert np.all(np.diff(tosses[np.argsort(normal)]) >= -1e-9)


@pytest.mark.statistical
@MODES
def test_contexts_of_a_level_without_events_do_not_vary(by_row):
    """Two rows and one group each: given the number of events there is little left to draw."""
    X = np.array([[0.5, 0.4], [0.5, -0.2]])
    audit = Audit([0.1, 0.1], [0, 1], X, groups=["a", "b"])
    kept = audit.sums.sample.rows if by_row else None
    drawn = simulate(audit.evidence.design, {"g": lambda scene, r: r.g[:, 0]}, 5000, seeded(0), kept, audit.levels)["g"]
    silent = drawn[:, 0] < -0.09
    assert silent.mean() == pytest.approx(0.81, abs=0.03)
    np.testing.assert_allclose(drawn[silent, 1], -0.1 * 0.2, atol=1e-9)


@pytest.mark.statistical
def test_a_level_dominated_by_one_row_keeps_the_variance_of_its_contexts():
    """One row weighs a thousand times the others; the binomial with the sum's moments has a single toss."""
    rng = np.random.default_rng(seeded(8))
    X, weights = contexts(200, rng), np.ones(200)
    weights[0] = 1000.0
    X[0, 1:] = 0.0
    audit = Audit(np.full(200, 0.3), rng.random(200) < 0.3, X, weights=weights)
    drawn = simulate(audit.evidence.design, {"g": lambda scene, r: r.g[:, 0]}, 4000, seeded(0), None, audit.levels)["g"]
    expected = 0.21 * np.sum((weights[:, None] * X) ** 2, axis=0)
    assert drawn.var(axis=0) == pytest.approx(expected, rel=0.15)


def test_every_column_of_groups_adds_up_to_the_same_total():
    rng = np.random.default_rng(9)
    p, X = rng.choice([0.2, 0.7], 500), contexts(500, rng)
    groups = {"few": rng.choice(["a", "b"], 500), "many": rng.integers(0, 9, 500).astype(str)}
    scene, levels = (audit := Audit(p, rng.random(500) < p, X, groups=groups)).evidence.design, audit.levels
    drawn = simulate(scene, {"g": lambda _, r: r.g[:, :, 0], "S": lambda _, r: r.S}, 20, 0, None, levels)
    for _, _, where in scene.columns:
        np.testing.assert_allclose(drawn["S"][:, :, where].sum(axis=2), 2 * drawn["g"], atol=1e-9)


@pytest.mark.statistical
def test_unequal_weights_make_the_tail_of_their_heavy_rows():
    """Third moment Σα³p(1 - p)(1 - 2p): a binomial with the mean weight would have a third of it."""
    rng = np.random.default_rng(seeded(10))
    weights = np.where(np.arange(400) < 20, 20.0, 1.0)
    audit = Audit(np.full(400, 0.1), rng.random(400) < 0.1, weights=weights)
    drawn = simulate(
        audit.evidence.design, {"g": lambda _, r: 2 * r.g[:, 0, 0]}, 60_000, seeded(0), None, audit.levels
    )["g"]
    assert np.mean(drawn**3) == pytest.approx(np.sum(weights**3) * 0.1 * 0.9 * 0.8, rel=0.2)


def fractional(p, rng, size=()):
    """Outcomes in (0, 1) with mean p and a tenth of a coin's variance."""
    return rng.beta(9 * p, 9 * (1 - p), size=(*size, len(p)))


@pytest.mark.statistical
@MODES
def test_fractional_outcomes_are_judged_by_their_own_spread(by_row):
    """A coin's variance is ten times too wide for them: it would never reject the truth, nor much else."""
    rng = np.random.default_rng(seeded(3))
    rows = 3000
    p, labels, X = rng.choice([0.1, 0.3, 0.6, 0.8], rows), rng.integers(0, 8, rows).astype(str), contexts(rows, rng)
    audit = Audit(p, fractional(p, rng), X, groups=labels)
    audit.sums.sample.complete = by_row
    redrawn = summed(audit, p, X, labels, np.ones(rows), fractional(p, rng, (REDRAWS,)))
    rates = rejection_rates(audit, redrawn)
    assert_five_percent(rates, REDRAWS)
    biased = np.clip(fractional(p, rng) + 0.05 * (labels == "5"), 0, 1)
    found = Audit(p, biased, X, groups=labels)
    found.sums.sample.complete = by_row
    assert found.test().p_value <= 0.01
    assert found.findings()[0].name == "group = 5"


@MODES
def test_the_null_says_how_fractional_outcomes_are_redrawn(by_row):
    rng = np.random.default_rng(4)
    p = rng.choice([0.2, 0.4, 0.8], 600)
    coins = (rng.random(600) < p).astype(float)

    def null(y):
        audit = Audit(p, y)
        audit.sums.sample.complete = by_row
        return audit.to_dict()["identity"]["settings"]["null"]

    assert "between 0 and 1" not in null(coins)
    said = "signs of residuals flipped" if by_row else "spread as observed"
    assert f"{said} in all levels with outcomes between 0 and 1" in null(fractional(p, rng))
    assert f"{said} in 1 level with" in null(np.where(p == 0.4, 0.5, coins))


@pytest.mark.statistical
@MODES
def test_no_outcomes_are_granted_more_than_a_coins_variance(by_row):
    """Predictions of 0.02 for outcomes near one half: their own squares would excuse them."""
    p, y = np.full(50, 0.02), np.full(50, 0.5)
    audit = Audit(p, y, seed=seeded(0))
    audit.sums.sample.complete = by_row
    null = audit.evidence.null["cal/2/constant"]
    assert null.mean() == pytest.approx(0.02 * 0.98, rel=0.2)
    assert audit.theory.noise("cal", 2).p_value == 0.001


@MODES
def test_certain_predictions_of_fractional_outcomes_are_impossible(by_row):
    audit = Audit([0.0] * 20 + [0.5] * 20, [0.1] * 20 + [0.4, 0.6] * 10)
    audit.sums.sample.complete = by_row
    assert audit.theory.noise("cal", 2).p_value == 0.001


@MODES
def test_exact_predictions_of_fractional_outcomes_leave_nothing_to_chance(by_row):
    audit = Audit([0.25] * 30 + [0.5] * 30, [0.25] * 30 + [0.5] * 30)
    audit.sums.sample.complete = by_row
    assert audit.theory.noise("cal", 2) == (0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 999)
    assert audit.test().p_value == 1.0


@pytest.mark.statistical
def test_copies_of_fractional_rows_are_flipped_one_by_one():
    rng = np.random.default_rng(seeded(5))
    p = np.full(600, 0.5)
    y = rng.choice([0.3, 0.7], 600)
    audit = Audit(p, y, seed=seeded(0))
    assert len(audit.sums.sample.rows.p) == 2
    null = audit.evidence.null["cal/2/constant"]
    assert null.mean() == pytest.approx(0.04, rel=0.2)


@pytest.mark.parametrize("weight", [1e-50, 1e-12, 1e12, 1e49])
def test_units_of_weights_do_not_matter(weight):
    """Neither an overflow in the scan's prices nor a p-value swallowed by a tolerance."""
    rng = np.random.default_rng(6)
    p = rng.choice([0.2, 0.5, 0.9], 500)
    y, relative = rng.random(500) < p, rng.choice([1.0, 2.0], 500)
    labels = np.where(p == 0.9, "high", rng.choice(["a", "b"], 500))  # groups that some levels lack
    plain, scaled = (Audit(p, y, groups=labels, weights=unit * relative) for unit in (1.0, weight))
    for audit in (plain, scaled):
        audit.sums.sample.complete = False
    assert scaled.test().p_value == pytest.approx(plain.test().p_value, abs=0.005)
    for key in [("smcal", 2, "linear"), ("mcal", 1, "groups"), ("cal", 2, "constant"), ("sreg", 2, "linear4")]:
        assert scaled.theory.noise(*key).p_value == pytest.approx(plain.theory.noise(*key).p_value, abs=0.005)
    for one, other in zip(plain.group_table(), scaled.group_table(), strict=True):
        assert (one.low, one.high) == (pytest.approx(other.low), pytest.approx(other.high))


@pytest.mark.parametrize("weight", [1e51, 1e-51, 1e300])
def test_weights_whose_squares_are_no_numbers_are_refused(weight):
    with pytest.raises(ValueError, match=r"weights: given .* in row 2, expected numbers from 1e-50 to 1e\+50"):
        Audit([0.5, 0.5], [0, 1], weights=[1.0, weight])


@pytest.mark.parametrize("scale", [1e200, 1e307])
def test_huge_features_are_standardised_like_others(scale):
    rng = np.random.default_rng(7)
    p, x = rng.random(300), rng.standard_normal(300)
    y = rng.random(300) < p
    plain, huge = (Audit.from_features(p, y, {"x": unit * x}) for unit in (1.0, scale))
    assert huge.theory.smcal() == pytest.approx(plain.theory.smcal())
    assert huge.test().p_value == pytest.approx(plain.test().p_value, abs=0.06)  # the order of rows may differ


def test_ties_count_whatever_the_scale():
    for scale in (1e-40, 1.0, 1e40):
        null = scale * np.arange(1.0, 20.0)
        assert compare(scale * 10.0 * (1 + 1e-14), null).p_value == 0.55
        assert compare(scale * 10.5, null).p_value == 0.5


def tiny_groups(rng, rows, tiny, shift=0.0):
    """Predictions, outcomes and two columns: `city` has three large groups and many tiny ones, `region` eight large."""
    p = rng.choice([0.1, 0.3, 0.6, 0.8], rows)
    city = np.where(rng.random(rows) < 0.5, rng.integers(0, 3, rows), 3 + rng.integers(0, tiny, rows)).astype(str)
    region = rng.integers(0, 8, rows).astype(str)
    y = rng.random(rows) < np.clip(p + shift * (city == "1"), 0, 1)
    return p, y, {"city": city, "region": region}


@pytest.mark.parametrize("shift", [0.0, 0.25])
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_too_small_to_test_are_not_drawn_one_by_one(monkeypatch, shift, weighted):
    """Redrawn row by row, whatever is tested has the very draws that it has when every group is drawn."""
    rng = np.random.default_rng(11)
    p, y, groups = tiny_groups(rng, 1500, 200, shift)
    weights = rng.choice([0.5, 1.0, 3.0], 1500) if weighted else None
    literal, joined = (Audit(p, y, groups=groups, weights=weights) for _ in range(2))
    small = {row.name for row in literal.group_table() if row.small}
    assert literal.evidence.small == {}
    monkeypatch.setattr(evidence, "MOST_SMALL", len(small) - 1)
    assert len(small) > 100
    assert joined.evidence.design.columns[0][1] == ("0", "1", "2", JOINED)
    np.testing.assert_array_equal(joined.evidence.null["scan"], literal.evidence.null["scan"])
    assert joined.verdict() == literal.verdict()
    assert joined.verdict().beyond == (shift > 0)
    assert joined.findings() == literal.findings()
    assert joined.largest() == literal.largest()
    assert joined.group_table() == literal.group_table()
    assert joined.evidence.looked() == literal.evidence.looked()
    assert joined.theory.noise("smcal", 2, "groups") == literal.theory.noise("smcal", 2, "groups")
    assert joined.theory.witness("mcal", 2, "groups").names == literal.theory.witness("mcal", 2, "groups").names
    plain = joined.to_findings()
    assert not [one for one in plain.quantities if "groups" in one.against]
    assert any("SMCal and MCal over groups are left out" in note for note in plain.notes)
    assert JOINED[1:] not in plain.to_json()


def test_a_group_called_like_the_small_ones_together_is_a_group():
    rng = np.random.default_rng(5)
    n, large = 6000, np.arange(6000) < 2000
    p = rng.choice(np.linspace(0.1, 0.9, 9), n)
    shop = np.where(large, JOINED[1:], rng.integers(0, 1500, n).astype(str))
    audit = Audit(p, rng.random(n) < np.clip(p + 0.15 * large, 0, 1), groups={"shop": shop})
    assert audit.evidence.small
    assert next(row for row in audit.group_table() if row.name == f"shop = {JOINED[1:]}").p_value <= 0.01


@pytest.mark.parametrize("by_row", [True, False], ids=["row by row", "from sums"])
def test_joined_groups_hold_what_their_parts_do(monkeypatch, by_row):
    """The one group that stands for small ones has their sums, observed and drawn, and adds up with the others."""
    monkeypatch.setattr(evidence, "MOST_SMALL", 0)
    rng = np.random.default_rng(12)
    p, y, groups = tiny_groups(rng, 1500, 200)
    audit = Audit(p, y, groups=groups)
    scene, level = audit.evidence.design, audit.levels.index(p)
    (_, found, where), _ = scene.columns
    code = category_codes(found, hash_names(list(groups["city"])))
    for k in range(len(found)):
        expected = np.bincount(level[code == k], (y - p)[code == k], len(scene.n))
        np.testing.assert_allclose(audit.evidence.residuals.S[0, :, where][:, k], expected, atol=1e-9)
    kept = audit.sums.sample.rows if by_row else None
    drawn = simulate(scene, {"g": lambda _, r: 2 * r.g[:, :, 0], "S": lambda _, r: r.S}, 400, 0, kept, audit.levels)
    for _, _, part in scene.columns:
        np.testing.assert_allclose(drawn["S"][:, :, part].sum(axis=2), drawn["g"], atol=1e-9)
    variance = np.bincount(level[code == 3], (p * (1 - p))[code == 3], len(scene.n))
    assert drawn["S"][:, :, where][:, :, 3].var(axis=0) == pytest.approx(variance, rel=0.4)


def test_a_few_small_groups_and_those_of_clusters_are_not_joined():
    rng = np.random.default_rng(13)
    p, y, groups = tiny_groups(rng, 6000, 2000)
    few = {"city": np.where(groups["city"].astype(int) > 500, "rest", groups["city"])}
    assert Audit(p, y, groups=groups).evidence.small != {}
    assert Audit(p, y, groups=few).evidence.small == {}
    assert Audit(p, y, groups=groups, clusters=rng.integers(0, 500, 6000)).evidence.small == {}


@pytest.mark.statistical
@MODES
def test_two_thousand_tiny_groups_do_not_condemn_the_truth(by_row):
    rng = np.random.default_rng(seeded(14))
    rows = 6000
    p, y, groups = tiny_groups(rng, rows, 2000)
    groups = {"city": groups["city"]}
    audit = Audit(p, y, groups=groups)
    audit.sums.sample.complete = by_row
    found = audit.evidence.design.columns[0][1]
    assert found[-1] == JOINED
    labels = np.array(found)[category_codes(found, hash_names(list(groups["city"])))]
    X = np.full((rows, 1), 0.5)
    rates = rejection_rates(audit, summed(audit, p, X, labels, np.ones(rows), rng.random((REDRAWS, rows)) < p))
    assert_five_percent(rates, REDRAWS)


def test_certain_predictions_stay_coins_where_outcomes_are_fractions():
    design: Any = SimpleNamespace(
        n=np.ones(1), spread=np.ones(1), H=np.full((1, 1, 1), 9.0), fractional=np.array([True])
    )
    rows: Any = SimpleNamespace(weights=np.ones(3), copies=np.ones(3), y=np.full(3, 0.5), p=np.array([0.0, 0.4, 1.0]))
    assert np.isnan(_flipped(design, rows, np.zeros(3, np.intp))).tolist() == [True, False, True]


def test_a_column_with_cells_left_out_takes_its_part_of_a_levels_total():
    design: Any = SimpleNamespace(
        parts=[slice(0, 3), slice(3, 5)],
        spread=np.array([0.5]),
        H=np.full((1, 1, 1), 0.75),
        group_variance=np.ones((1, 5)),
    )
    nothing: Any = SimpleNamespace(standard_normal=np.zeros)
    S = np.array([[[1.0, 1.0, 1.0, 0.0, 0.0]]])
    assert _share_total(design, S, nothing).tolist() == [[3.0]]
    np.testing.assert_allclose(S[0, 0, 3:], 1.0)  # 2 of 3, as its part of the variance is
