from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal import bounds
from tests import reference_bounds as reference
from tests.chance import seeded

dims = st.integers(1, 40)
horizons = st.floats(1, 1e12)
deltas = st.floats(1e-6, 0.5)


# Batch


@pytest.mark.statistical
def test_population_swap_regret_from_pseudo_swap_regret():
    rng = np.random.default_rng(seeded(11))
    atoms, truth = reference.contexts(rng, 5, 2), rng.uniform(size=5)
    levels, rounds = 3, 600
    play, population = reference.Play(np.linspace(0, 1, levels + 1), 2), np.zeros((levels + 1, 5))
    for _ in range(rounds):
        for k, atom in enumerate(atoms):
            i, _, up = play.distribution(atom)
            population[i, k] += (1 - up) / 5
            population[i + 1, k] += up / 5
        k = int(rng.integers(5))
        play.round(atoms[k], reference.always(float(rng.uniform() < truth[k])))
    error = 0.0
    for i, mass in enumerate(population):
        v = i / levels
        G = atoms.T @ (mass[:, None] * atoms) + 1e-10 * np.eye(2)
        best = reference.project(np.linalg.solve(G, atoms.T @ (mass * truth)), G, 4.0)
        error += float(np.sum(mass * ((v - truth) ** 2 - (atoms @ best - truth) ** 2)))
    assert population.sum() == pytest.approx(rounds)
    bound = bounds.population_from_psreg(play.swap_regret(), rounds, levels, 2 * math.log(1 + 8 * rounds), 0.2)
    assert 0 < error / rounds <= float(bound) + 18 / rounds


@pytest.mark.statistical
def test_action_deviation_covers_the_counts_of_levels_and_labels():
    rng = np.random.default_rng(seeded(12))
    failures, trials, rounds, levels, delta = 0, 200, 500, 4, 0.3
    for _ in range(trials):
        chance = rng.dirichlet(np.ones(2 * (levels + 1)))
        deviation = np.abs(rng.multinomial(rounds, chance) - rounds * chance).sum()
        failures += deviation > float(bounds.action_deviation(rounds, levels, delta))
    assert failures <= delta * trials


@pytest.mark.parametrize(("rounds", "levels", "size"), [(10**4, 3, 1), (10**7, 40, 500)])
def test_batch_deviations_are_sums_of_freedman_over_equal_cells(rounds, levels, size):
    delta, cells = 0.1, 2 * (levels + 1)

    def cell_sum(count: int, events: float, spread: float = 1.0, scale: float = 1.0) -> float:
        variance = spread**2 * rounds / count
        return count * float(bounds.freedman_uniform(variance, rounds, delta / events, scale))

    action = float(bounds.action_deviation(rounds, levels, delta))
    assert action == pytest.approx(cell_sum(cells, cells))
    comparator = float(bounds.paper_comparator_deviation(rounds, levels, math.log(size), delta))
    assert comparator == pytest.approx(rounds / levels + 4 * cell_sum(cells, cells * (levels + 1) * size))
    squared = float(bounds.paper_squared_deviation(rounds, levels, math.log(size), delta, reach=2.0))
    assert squared * rounds == pytest.approx(cell_sum(levels + 1, (levels + 1) * size, 9.0, 10.0))


def test_constants_behind_the_population_argument():
    # r ≤ r̂ + μ·square·Q + L/μ with μ·square = ½ and Q ≤ r, so r ≤ 2r̂ + 2L/μ; μ must not exceed 1/scale.
    for target, square, scale in (("sreg", 16, 10), ("smcal", 9, 4)):
        mu = 1 / (2 * square)
        one, two = (float(bounds.population_from_psreg(0.0, 7, 9, s, 0.1, target)) for s in (1.0, 2.0))
        assert mu <= 1 / scale
        assert (two - one) * 7 == pytest.approx(10 * 2 / mu)


def test_action_deviation_is_below_the_papers_for_every_size():
    for rounds, levels in product((10**3, 10**6, 10**9), (1, 10, 300)):
        ours = float(bounds.action_deviation(rounds, levels, 0.05))
        assert ours < float(bounds.paper_action_deviation(rounds, levels, 0.05))


# Rates, orders, defaults


@pytest.mark.parametrize("key", list(bounds.THEOREMS))
@pytest.mark.parametrize("dim", [1, 5, 20])
def test_log_log_slope_approaches_the_declared_exponent_from_above(key, dim):
    theorem, exponent = bounds.THEOREMS[key], bounds.RATES[key]

    def slope(low: float, high: float) -> float:
        return math.log(float(theorem(high, dim, 0.05)) / float(theorem(low, dim, 0.05))) / math.log(high / low)

    assert theorem(1e6, dim, 0.05).exponent == exponent
    near, far = slope(1e8, 1e12), slope(1e20, 1e30)
    assert -0.005 < near - exponent < 0.08
    assert 0 < far - exponent < 0.02


@pytest.mark.parametrize("bound", [bounds.adaptive_psreg, bounds.adaptive_gap, bounds.adaptive_levels])
def test_self_refining_bounds_grow_like_the_cube_root(bound):
    # Whole generations of intervals split at once, so counts follow T^{1/3} in steps of 8 in T.
    for low, high, tolerance in ((1e8, 1e8 * 8**5, 0.06), (1e20, 1e20 * 8**10, 0.03)):
        slope = math.log(float(bound(high, 5)) / float(bound(low, 5))) / math.log(high / low)
        assert -1e-3 < slope - 1 / 3 < tolerance
    assert bound(1e6, 5).exponent == 1 / 3


SELF_REFINING_BATCH = [
    bounds.adaptive_saerr,
    bounds.adaptive_dsmcal2,
    bounds.adaptive_dsmcal1,
    bounds.adaptive_dsomni,
]


@pytest.mark.parametrize("bound", SELF_REFINING_BATCH)
def test_batch_self_refining_bounds_fall_and_grow_as_they_say(bound):
    slope = math.log(float(bound(1e30, 5)) / float(bound(1e20, 5))) / math.log(1e10)
    assert 0 < slope - bound(1e6, 5).exponent < 0.03
    by_dim = math.log(float(bound(1e21, 100 * 8**3)) / float(bound(1e21, 100))) / math.log(8**3)
    assert by_dim == pytest.approx(bound(1e21, 100).dim_exponent, abs=0.03)


@pytest.mark.parametrize("rows", [1, 300, 10**5, 10**9])
@pytest.mark.parametrize(("dim", "kappa", "ridge"), [(1, 0.2, 1.0), (7, 5.0, 0.25), (200, 0.5, 16.0)])
def test_batch_self_refining_bounds_are_those_counted_by_hand(rows, dim, kappa, ridge):
    delta, given = 0.03, {"kappa": kappa, "ridge": ridge}
    for distance2 in (None, 7.0):
        start = {} if distance2 is None else {"distance2": distance2}
        regret = reference.adaptive_population(rows, dim, delta, kappa, ridge, distance2 or 64.0, 64, 2)
        square = reference.adaptive_population(rows, dim, delta, kappa, ridge, distance2 or 36.0, 36, 1)
        expected = (regret, square, math.sqrt(square), 2 * math.sqrt(square))
        for bound, value in zip(SELF_REFINING_BATCH, expected, strict=True):
            assert float(bound(rows, dim, delta, **given, **start)) == pytest.approx(value, rel=1e-12)


def test_batch_bounds_are_those_of_the_start_that_was_used():
    plain, far = (float(bounds.dsmcal2(1e6, 5, levels=20, distance2=b)) for b in (4.0, 10.0))
    assert (far - plain) * 1e6 == pytest.approx(2 * 21 * 6.0)
    for bound in (bounds.dsmcal1, bounds.dsomni):
        ratio = float(bound(1e6, 5, levels=20, distance2=10.0)) / float(bound(1e6, 5, levels=20))
        assert ratio == pytest.approx(math.sqrt(far / plain))
    shift = float(bounds.saerr(1e6, 5, levels=20, distance2=26.0)) - float(bounds.saerr(1e6, 5, levels=20))
    assert shift * 1e6 == pytest.approx(-2 * 21 * 10.0)


@pytest.mark.parametrize("bound", [bounds.adaptive_sreg, bounds.adaptive_smcal2])
def test_realised_self_refining_bounds_grow_like_the_cube_root(bound):
    slope = math.log(float(bound(1e30, 5, 0.05)) / float(bound(1e20, 5, 0.05))) / math.log(1e10)
    assert 0 < slope - bound(1e6, 5, 0.05).exponent < 0.03


def test_ridge_proportional_to_dimension_restores_the_two_thirds_power_of_dimension():
    small, large = (float(bounds.adaptive_psreg(1e15, d, ridge=float(d))) for d in (8, 512))
    assert math.log(large / small) / math.log(64) < 2 / 3 + 0.02


@pytest.mark.parametrize(
    "bound",
    [
        bounds.adaptive_levels,
        bounds.adaptive_gap,
        bounds.adaptive_psreg,
        lambda T, d: bounds.adaptive_sreg(T, d, 0.05),
        lambda T, d: bounds.adaptive_smcal2(T, d, 0.05),
    ],
)
def test_self_refining_bounds_grow_with_the_dimension_as_they_say(bound):
    """With the default ridge: the split floor grows with d, so that fewer levels are made of dearer learners."""
    # Whole generations of intervals split at once, so counts follow d^{-1/3} in steps of 8 in d.
    slope = math.log(float(bound(1e21, 100 * 8**3)) / float(bound(1e21, 100))) / math.log(8**3)
    assert slope == pytest.approx(bound(1e21, 100).dim_exponent, abs=0.03)


def test_realised_self_refining_bounds_count_created_levels_and_unite_over_possible_ones():
    # T = 10⁵, κλ = 5: at most 76 levels, the deepest of them multiples of 1/256.
    for bound, target, factor, radius, rest in (
        (bounds.adaptive_sreg, "sreg", 146, 2.0, 18),
        (bounds.adaptive_smcal2, "smcal", 74, 1.0, 10),
    ):
        pseudo = float(bounds.adaptive_psreg(1e5, 1, 5.0, distance2=bounds.adaptive_distance2(target)))
        union = math.log(4 * 257 / 0.05) + float(bounds.log_cover_size(1, 1e-5, radius=radius))
        assert float(bound(1e5, 1, 0.05, 5.0)) == pytest.approx(2 * pseudo + factor * 76 * union + rest, rel=1e-12)


def test_the_papers_swap_regret_at_the_multicalibration_levels_has_exponent_two_thirds():
    def value(T: float) -> float:
        return float(bounds.paper_sreg(T, 5, levels=bounds.default_levels(T, 5, "smcal")))

    assert math.log(value(1e30) / value(1e20)) / math.log(1e10) == pytest.approx(2 / 3, abs=0.02)
    assert bounds.paper_sreg(1e6, 5, levels=24).exponent is None


@pytest.mark.parametrize("learner", bounds.LEARNERS)
def test_self_refining_bounds_hold_for_every_learner_with_its_own_potential(learner):
    T, d, kappa = 1e5, 3, 0.4
    count = float(bounds.adaptive_levels(T, d, kappa))
    gap = float(bounds.adaptive_gap(T, d, kappa, learner=learner))
    each = float(bounds.learner_regret(learner, T / count, d, distance2=64.0))
    assert float(bounds.adaptive_psreg(T, d, kappa, learner=learner)) == pytest.approx(gap + count * each)
    assert bounds.adaptive_psreg(T, d, kappa, learner=learner).citation == f"ours: {learner} on self-refining levels"


@pytest.mark.parametrize("key", list(bounds.THEOREMS))
def test_bounds_are_monotone_in_horizon_dimension_and_confidence(key):
    theorem = bounds.THEOREMS[key]
    sign = 1 if bounds.RATES[key] > 0 else -1
    values = [sign * float(theorem(10.0**k, 5, 0.05)) for k in range(2, 16)]
    assert values == sorted(values)
    by_dim = [float(theorem(1e9, dim, 0.05)) for dim in (1, 2, 5, 20, 100)]
    assert by_dim == sorted(by_dim)
    by_delta = [float(theorem(1e9, 5, delta)) for delta in (0.3, 0.05, 1e-6)]
    assert by_delta == sorted(by_delta)


@pytest.mark.parametrize(
    "quantity", ["PSReg", "PSMCal_2", "SMCal_2", "SMCal_1", "SOmni", "SAErr", "DSMCal_2", "DSOmni"]
)
@settings(max_examples=30)
@given(horizons, dims, deltas)
def test_ours_is_never_above_the_papers(quantity, horizon, dim, delta):
    ours, paper = (float(bounds.THEOREMS[quantity, who](horizon, dim, delta)) for who in ("ours", "paper"))
    assert ours <= paper


@given(st.floats(1e6, 1e14), dims)
def test_our_swap_regret_is_below_the_papers_for_long_horizons(horizon, dim):
    if horizon >= 1e6 * dim:
        assert float(bounds.sreg(horizon, dim)) <= float(bounds.paper_sreg(horizon, dim))


def test_rates_table_is_complete_and_consistent():
    quantities = {quantity for quantity, _ in bounds.RATES}
    assert set(bounds.RATES) == set(product(quantities, bounds.SYSTEMS))
    assert set(bounds.THEOREMS) == set(product(quantities, ("paper", "ours")))
    for quantity in quantities:
        ours, paper, previous = (bounds.RATES[quantity, who] for who in ("ours", "paper", "previous"))
        assert ours <= paper < previous
    for first, second in (("SMCal_1", "SMCal_2"), ("DSMCal_1", "DSMCal_2")):
        for who in ("ours", "paper"):
            shift = 1 if first == "SMCal_1" else 0
            assert bounds.RATES[first, who] == pytest.approx((shift + bounds.RATES[second, who]) / 2)


def test_the_l1_lower_bound_names_its_groups_and_claims_an_order_only():
    floor = bounds.l1_lower_bound(1e6)
    assert floor.exponent == 2 / 3
    assert not floor.explicit
    assert "three prediction-dependent groups, or O(log³ T) groups of contexts" in floor.citation


@given(horizons, dims, st.sampled_from(list(bounds.TARGETS)))
def test_default_levels_are_positive_integers_close_to_the_formula(horizon, dim, target):
    levels = bounds.default_levels(horizon, dim, target)
    depth = 1.0 if target.startswith("batch") else max(math.log(horizon), 1.0)
    assert isinstance(levels, int)
    assert levels >= 1
    assert abs(levels - max(1.0, (horizon / (dim * depth)) ** bounds.TARGETS[target])) <= 0.5


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("key", list(bounds.THEOREMS))
def test_tiny_horizons_give_finite_bounds(key, horizon):
    assert math.isfinite(float(bounds.THEOREMS[key](horizon, 3, 0.05)))


@pytest.mark.parametrize(
    "bound",
    [
        bounds.paper_smcal2,
        bounds.paper_smcal1,
        bounds.paper_somni,
        bounds.paper_sreg,
        bounds.smcal2,
        bounds.smcal1,
        bounds.somni,
        bounds.sreg,
    ],
)
def test_expectation_is_the_high_probability_bound_at_small_delta(bound):
    assert float(bound(1e6, 5, 0.05)) < float(bound(1e6, 5, None)) < 1.5 * float(bound(1e6, 5, 1e-6))
    assert math.isfinite(float(bound(1, 5, None)))
    assert bound(1e6, 5, 0.05, 10).exponent is None
    assert bound(1e6, 5, 0.05, 10).levels == 10


@pytest.mark.parametrize("system", ["ours", "paper"])
@pytest.mark.parametrize(
    ("target", "quantity"),
    [("omni", "DSOmni"), ("agnostic", "SAErr"), ("smcal-2", "DSMCal_2"), ("smcal-1", "DSMCal_1")],
)
def test_sample_complexity_meets_the_error_and_scales_as_declared(target, quantity, system):
    theorem = bounds.THEOREMS[quantity, system]
    needed = [bounds.sample_complexity(epsilon, 4, target, system=system) for epsilon in (1e-3, 1e-6)]
    for epsilon, samples in zip((1e-3, 1e-6), needed, strict=True):
        assert float(theorem(float(samples), 4, 0.05)) <= epsilon < float(theorem(0.9 * float(samples), 4, 0.05))
    slope = math.log(float(needed[1]) / float(needed[0])) / math.log(1e-3)
    assert needed[0].exponent == pytest.approx(1 / bounds.RATES[quantity, system])
    assert slope == pytest.approx(needed[0].exponent, rel=0.1)


def test_published_sample_exponents():
    expected = {"omni": (-3, -3), "agnostic": (-1.5, -2.5), "smcal-2": (-1.5, -2.5), "smcal-1": (-3, -5)}
    for target, (ours, paper) in expected.items():
        assert bounds.sample_complexity(0.1, 2, target).exponent == ours
        assert bounds.sample_complexity(0.1, 2, target, system="paper").exponent == paper


# Published constants and refusals


def test_published_constants():
    log = math.log
    assert float(bounds.paper_smcal2_from_psmcal2(2.0, 9, log(7), 0.1)) == pytest.approx(
        384 * 10 * log(6 * 10 * 7 / 0.1) + 12
    )
    depth = log(2 * 10 * 7 / 0.1)
    assert float(bounds.paper_sreg_from_psreg(2.0, 9, 500, log(7), 0.1)) == pytest.approx(
        2 + 8 * math.sqrt(10 * 500 * depth) + 8 * 10 * depth
    )
    cover = 3 * log(1 + 2 / 0.1)
    assert float(bounds.paper_smcal2_linear(2.0, 9, 500, 3, 0.1, 0.1)) == pytest.approx(
        768 * 10 * (log(60 / 0.1) + cover) + 24 + 2 * 0.01 * 500
    )
    assert float(bounds.sreg_from_psreg(2.0, 9, log(7), 0.1)) == pytest.approx(4 + 1460 * log(4 * 10 * 7 / 0.1))
    assert float(bounds.paper_psreg(1000, 2, 4)) == pytest.approx(
        5 * (640 * log(1 + 100 * 1000 / (102400 * 2 * 5)) + 32 * 102400 / 640) + 1000 / 16
    )
    assert float(bounds.freedman(50.0, 0.1, 0.2)) == pytest.approx(5 + 10 * log(10))
    assert bounds.paper_convex_basis_size(0.01).explicit is False


def test_online_theorems_compose_their_lemmas():
    T, d, N, delta = 5000, 3, 7, 0.1
    log = math.log
    slow = float(bounds.paper_psreg(T, d, N))
    regret, calibration = (float(bounds.psreg(T, d, N, distance2=b)) for b in (36.0, 4.0))
    assert regret == pytest.approx(T / (4 * 49) + 8 * (36 + 3 * log(1 + T / (3 * 8))))
    depth = log(4 * 8 / delta)
    assert float(bounds.sreg(T, d, delta, N)) == pytest.approx(2 * regret + 146 * 8 * (depth + 3 * log(1 + 4 * T)) + 18)
    assert float(bounds.smcal2(T, d, delta, N)) == pytest.approx(
        2 * calibration + 74 * 8 * (depth + 3 * log(1 + 2 * T)) + 10
    )
    assert float(bounds.paper_smcal2(T, d, delta, N)) == pytest.approx(
        768 * 8 * (log(6 * 8 / delta) + 3 * log(1 + 2 * math.sqrt(T))) + 12 * slow + 2
    )
    union = log(2 * 8 / delta) + 3 * log(1 + 4 * T)
    assert float(bounds.paper_sreg(T, d, delta, N)) == pytest.approx(
        slow + 18 * math.sqrt(8 * T * union) + 18 * 8 * union + 6
    )


def test_batch_theorems_compose_their_lemmas():
    T, d, N, delta = 50000, 3, 7, 0.1
    regret, calibration = (float(bounds.psreg(T, d, N, distance2=b)) for b in (36.0, 4.0))
    depth = math.log(2 * 8 / delta)
    assert T * float(bounds.saerr(T, d, delta, N)) == pytest.approx(
        2 * regret + 64 * 8 * (depth + 3 * math.log(1 + 4 * T)) + 18
    )
    square = 2 * calibration + 36 * 8 * (depth + 3 * math.log(1 + 2 * T)) + 10
    assert T * float(bounds.dsmcal2(T, d, delta, N)) == pytest.approx(square)
    assert float(bounds.dsomni(T, d, delta, N)) == pytest.approx(2 * math.sqrt(square / T))
    deviation = float(bounds.paper_squared_deviation_linear(T, N, d, delta / 2))
    assert float(bounds.paper_saerr(T, d, delta, N)) == pytest.approx(
        deviation + float(bounds.paper_sreg(T, d, delta / 2, N)) / T
    )
    parts = (
        bounds.paper_action_deviation(T, N, delta / 3),
        bounds.paper_comparator_deviation_linear(T, N, d, delta / 3),
        bounds.paper_somni(T, d, delta / 3, N),
    )
    assert T * float(bounds.paper_dsomni(T, d, delta, N)) == pytest.approx(sum(map(float, parts)))


def test_uneven_grids_pay_for_their_widest_interval_and_self_refining_ones_for_each():
    uneven = float(bounds.psreg_grid([0, 0.1, 1], 1000, 2, distance2=4.0))
    assert uneven == pytest.approx(1000 * 0.81 / 4 + 3 * (4 + 2 * math.log(1 + 1000 / 6)))
    # T = 10⁵, κλ = 5: a split at depth k costs 2·4ᵏ rounds, and 16, 32 and 3 of them at depths 4, 5, 6 cost 98,304.
    assert bounds.adaptive_levels(10**5, 1, 5.0) == bounds.adaptive_levels(10**5, 50, 5.0)
    assert (float(bounds.adaptive_levels(10**5, 1, 5.0)), bounds.adaptive_levels(10**5, 1, 5.0).levels) == (76, 75)
    # d = 100 doubles the floor: 16 and 20 of them at depths 4, 5 cost 98,304.
    assert float(bounds.adaptive_levels(10**5, 100, 5.0)) == 25 + 16 + 20
    # T = 10⁹, κλ = ½: one branch pays 0.2·4ᵏ at depths 8 … 15, 286,326,784 in all, but not the next.
    intervals = 2 * float(bounds.adaptive_levels(10**9, 2, 0.5)) - 26
    gap = 0.5 * intervals * (2 * math.log(1 + 13 * 10**9 / (2 * intervals)) + 0.1) + 1 / 32
    assert float(bounds.adaptive_gap(10**9, 2, 0.5)) == pytest.approx(gap, rel=1e-12)
    assert gap < 10**9 / 1024
    assert float(bounds.adaptive_gap(1000, 2)) == 1000 / 1024, "an interval is never wider than 1/16"


def test_learner_by_name_matches_the_named_bound():
    assert bounds.learner_regret("ridge", 50, 2) == bounds.ridge_regret(50, 2)
    assert bounds.learner_regret("vaw", 50, 2) == bounds.vaw_regret(50, 2)
    assert bounds.learner_regret("ons", 50, 2) == bounds.ons_regret(50, 2, distance=6.0)
    fast = bounds.ons_regret(50, 2, beta=1 / 50, omega=1.0, distance=6.0)
    assert bounds.learner_regret("ons-fast", 50, 2) == fast


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.psreg(0, 2), "horizon"),
        (lambda: bounds.psreg(math.nan, 2), "horizon"),
        (lambda: bounds.psreg(10, 0), "dim"),
        (lambda: bounds.psreg(10, 2, 0), "levels"),
        (lambda: bounds.psreg(10, 2, ridge=0), "ridge"),
        (lambda: bounds.psreg(10, 2, learner="sgd"), "learner"),
        (lambda: bounds.psreg_grid([0, 0.5], 10, 2), "points"),
        (lambda: bounds.psreg_grid([0, 0.5, 0.5, 1], 10, 2), "points"),
        (lambda: bounds.smcal2(10, 2, 0.0), "delta"),
        (lambda: bounds.sreg(10, 2, 1.0), "delta"),
        (lambda: bounds.paper_saerr(10, 2, 1.5), "delta"),
        (lambda: bounds.dsomni(10, 2, -1), "delta"),
        (lambda: bounds.population_from_psreg(1, 10, 2, 0, 0.1, "omni"), "target"),
        (lambda: bounds.default_levels(10, 2, "fast"), "target"),
        (lambda: bounds.default_levels(0.5, 2), "horizon"),
        (lambda: bounds.sample_complexity(0, 2), "epsilon"),
        (lambda: bounds.sample_complexity(0.1, 2, "sreg"), "target"),
        (lambda: bounds.sample_complexity(0.1, 2, system="previous"), "system"),
        (lambda: bounds.freedman(1, 0.6, 0.1, scale=2), "mu"),
        (lambda: bounds.freedman(-1, 0.5, 0.1), "variance"),
        (lambda: bounds.ons_regret(10, 2, beta=1 / 49), "beta"),
        (lambda: bounds.ridge_regret(-1, 2), "mass"),
        (lambda: bounds.ridge_regret(1, 2, distance2=-1), "distance2"),
        (lambda: bounds.log_cover_size(2, 0), "epsilon"),
        (lambda: bounds.rounding_error(0), "levels"),
        (lambda: bounds.hedge_gap(-0.1), "width"),
        (lambda: bounds.swap_gain(1.5), "correlation"),
        (lambda: bounds.prior_distance2(1.5), "level"),
        (lambda: bounds.prior_distance2(0.5, "omni"), "target"),
        (lambda: bounds.adaptive_levels(10, 1, 0), "kappa"),
        (lambda: bounds.adaptive_levels(10, 0), "dim"),
        (lambda: bounds.adaptive_levels(10, 1, floor=0.0), "floor"),
        (lambda: bounds.split_floor(1, -1.0), "ridge"),
        (lambda: bounds.adaptive_distance2("omni"), "target"),
        (lambda: bounds.adaptive_distance2(reach=-1.0), "reach"),
        (lambda: bounds.adaptive_psreg(10, 2, distance2=-1), "distance2"),
        (lambda: bounds.adaptive_dsmcal2(10, 2, 1.0), "delta"),
        (lambda: bounds.adaptive_dsomni(10, 2, distance2=-1), "distance2"),
        (lambda: bounds.adaptive_saerr(0.5, 2), "horizon"),
        (lambda: bounds.blum_mansour([math.inf]), "regrets"),
    ],
)
def test_impossible_arguments_are_named_in_the_error(call, message):
    with pytest.raises(ValueError, match=f"^.*{message}: given .*, expected "):
        call()
