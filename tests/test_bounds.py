from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal import Forecaster, bounds
from tests import reference_bounds as reference
from tests.chance import seeded

unit = st.floats(0, 1)
streams = pytest.mark.parametrize("name", list(reference.streams(0, 4, 2)))


# Rounding and hedging


@given(unit, st.integers(1, 50), unit)
def test_rounding_error_is_bounded_for_every_label(w, levels, y):
    i = min(int(levels * w), levels - 1)
    low, high = i / levels, (i + 1) / levels
    up = (w - low) * levels
    excess = (1 - up) * (low - y) ** 2 + up * (high - y) ** 2 - (w - y) ** 2
    sharp = float(bounds.sharp_rounding_error(levels))
    assert excess == pytest.approx((w - low) * (high - w), abs=1e-12)
    assert excess <= sharp + 1e-12 <= float(bounds.rounding_error(levels)) + 1e-12


def test_sharp_rounding_error_is_attained_half_way():
    assert float(bounds.sharp_rounding_error(2)) == 0.5 * 0.25**2 + 0.5 * 0.25**2


@given(unit, unit, st.tuples(unit, unit).filter(lambda pair: pair[0] + 1e-6 < pair[1]), unit)
def test_hedge_gap_identity_and_bound(first, second, interval, y):
    low, high = interval
    w_low, w_high = low + first * (1 - low), high * second
    up = reference.hedge_weight(w_low, w_high, low, high)
    gap = (1 - up) * ((low - y) ** 2 - (w_low - y) ** 2) + up * ((high - y) ** 2 - (w_high - y) ** 2)
    u, v, h = w_low - low, high - w_high, high - low
    identity = u * v * (2 * h / (u + v) - 1) if u + v else 0.0
    assert gap == pytest.approx(identity, abs=1e-9)
    assert gap <= float(bounds.hedge_gap(h)) + 1e-12


def test_hedge_gap_is_attained_when_both_learners_say_the_midpoint():
    up = reference.hedge_weight(0.5, 0.5, 0.4, 0.6)
    assert up == pytest.approx(0.5)
    assert pytest.approx(float(bounds.hedge_gap(0.2))) == 0.5 * 0.1**2 + 0.5 * 0.1**2


@given(st.floats(0.05, 0.9), st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.sampled_from([0.0, 1.0]))
def test_proper_hedge_gap_for_the_log_loss(low, first, second, y):
    high = low + 0.05
    w_low, w_high = low + first * (0.99 - low), high * second + 0.01 * (1 - second)

    def logit(p: float) -> float:
        return math.log(p / (1 - p))

    def loss(p: float) -> float:
        return -math.log(p if y else 1 - p)

    u, v = logit(w_low) - logit(low), logit(high) - logit(w_high)
    if u + v <= 1e-9 or u < 0 or v < 0:
        return
    up = u / (u + v)
    gap = (1 - up) * (loss(low) - loss(w_low)) + up * (loss(high) - loss(w_high))
    curvature = 1 / min(low * (1 - low), high * (1 - high))
    assert gap <= float(bounds.proper_hedge_gap(0.05, curvature)) + 1e-12


def test_proper_hedge_gap_is_nearly_attained_by_two_equal_learners():
    low, high = 0.49, 0.51
    middle = 0.5  # equal logits either side, so both levels get weight one half
    gap = sum(0.5 * (math.log(middle) - math.log(z)) for z in (low, high))
    bound = float(bounds.proper_hedge_gap(high - low, 1 / (low * high)))
    assert 0.99 * bound < gap <= bound


# Learners


@streams
@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("ridge", [0.3, 1.0])
def test_ridge_regret_holds_on_every_stream(name, dim, ridge):
    stream = reference.streams(1, 300, dim)[name]
    prior = np.zeros(dim)
    prior[0] = 1.4
    excess, mass = reference.ridge_excess(stream, ridge, prior)
    assert excess <= float(bounds.ridge_regret(mass, dim, ridge=ridge, distance2=0.0)) + 1e-9


def test_ridge_bound_is_not_idle_on_an_adversarial_stream():
    stream = reference.streams(1, 300, 5)["adversary on a basis"]
    excess, mass = reference.ridge_excess(stream, 1.0, np.zeros(5))
    assert excess > 0.1 * float(bounds.ridge_regret(mass, 5, distance2=0.0))


@streams
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_vaw_regret_holds_on_every_stream(name, dim):
    stream = reference.streams(2, 300, dim)[name]
    excess, mass = reference.ridge_excess(stream, 1.0, np.zeros(dim), vaw=True)
    assert excess <= float(bounds.vaw_regret(mass, dim, distance2=0.0)) + 1e-9


def test_quarter_of_vaw_would_fail_for_plain_ridge():
    basis, ones, _ = reference.streams(2, 4, 5)["adversary on a basis"]
    excess, mass = reference.ridge_excess((basis, ones, lambda t, w: 1.0), 1.0, np.zeros(5))
    assert excess > float(bounds.vaw_regret(mass, 5, distance2=0.0))


@given(st.floats(-1, 1), st.floats(-3, 3), st.floats(0, 10))
def test_vaw_identity(Y, R, k):
    left = (Y - R / (1 + k)) ** 2 - (Y - R) ** 2 / (1 + k)
    right = Y**2 * k / (1 + k) - R**2 * k / (1 + k) ** 2
    assert left == pytest.approx(right, abs=1e-9)


@streams
@pytest.mark.parametrize("constants", [(1 / 640, 102400.0), (1 / 50, 1.0), (1 / 50, 0.01)])
def test_ons_regret_holds_for_both_constants(name, constants):
    beta, omega = constants
    for dim, start in product((1, 3), (np.zeros, np.ones)):
        stream = reference.streams(3, 200, dim)[name]
        theta = start(dim)
        regret, mass = reference.ons_run(stream, beta, omega, 4.0, theta)
        reach = 4.0 + float(np.linalg.norm(theta))
        assert regret <= float(bounds.ons_regret(mass, dim, beta=beta, omega=omega, distance=reach)) + 1e-6


@given(st.floats(-4, 4), st.floats(-4, 4), unit, unit)
def test_squared_loss_is_exactly_its_quadratic_model_and_ons_may_use_one_fiftieth(s, other, y, alpha):
    slope = 2 * alpha * (s - y) * (s - other)
    difference = alpha * ((s - y) ** 2 - (other - y) ** 2)
    assert difference == pytest.approx(slope - alpha * (s - other) ** 2, abs=1e-9)
    assert difference <= slope - bounds.FAST_BETA / 2 * slope**2 + 1e-9


@given(st.floats(-4, 4), st.floats(-4, 4), unit, unit, unit)
def test_exp_concavity_and_lipschitz_constant(a, b, mix, y, alpha):
    gamma = float(bounds.exp_concavity())

    def g(s: float) -> float:
        return math.exp(-gamma * alpha * (s - y) ** 2)

    assert g(mix * a + (1 - mix) * b) >= mix * g(a) + (1 - mix) * g(b) - 1e-12
    assert abs(alpha * ((a - y) ** 2 - (b - y) ** 2)) <= float(bounds.lipschitz()) * abs(a - b) + 1e-12


def test_exp_concavity_cannot_be_larger():
    gamma = 1.05 * float(bounds.exp_concavity())
    values = [math.exp(-gamma * (s - 1) ** 2) for s in (-4.0, -3.95, -3.9)]
    assert values[1] < (values[0] + values[2]) / 2


@given(unit)
def test_prior_distance_is_attained(v):
    corner = np.array([-4.0, 0.0])
    assert np.sum((corner - np.array([2 * v, 0.0])) ** 2) == pytest.approx(bounds.prior_distance2(v))
    angles = np.linspace(0, 2 * np.pi, 50)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ring *= 2 / reference.sup_norm(ring)[:, None]
    assert np.all(np.sum((ring - [2 * v, 0.0]) ** 2, axis=1) <= bounds.prior_distance2(v) + 1e-9)
    assert np.all(np.sum((ring / 2) ** 2, axis=1) <= bounds.prior_distance2(v, "smcal") + 1e-9)


# Pseudo swap regret


@pytest.fixture(scope="module")
def uniform_play():
    rng = np.random.default_rng(5)
    play = reference.Play(np.linspace(0, 1, 6), 3)
    for x in reference.contexts(rng, 1200, 3):
        play.round(x, reference.adversary if rng.uniform() < 0.7 else reference.always(float(rng.uniform() < 0.5)))
    return play


def test_psreg_certificate_realised_and_uniform_bounds_are_ordered(uniform_play):
    play, rounds = uniform_play, 1200
    regret = play.swap_regret()
    certificate = float(bounds.certificate(play.gap, play.excess, prior=16.0 * len(play.points)))
    realised = float(bounds.psreg_realised(rounds / 4 / 25, play.masses(), 3, distance2=16.0))
    grid = float(bounds.psreg_grid(play.points, rounds, 3, distance2=16.0))
    assert sum(play.masses()) == pytest.approx(rounds)
    assert regret <= certificate <= realised <= grid + 1e-6
    assert grid == pytest.approx(float(bounds.psreg(rounds, 3, 5, distance2=16.0)))
    assert grid <= float(bounds.paper_psreg(rounds, 3, 5))


def test_self_refining_levels_respect_count_gap_and_regret_bounds():
    rng = np.random.default_rng(6)
    for kappa, stream in product((0.2, 0.002), ("adversary", "diffuse")):
        play = reference.Play(reference.START, 2, kappa=kappa)
        for rounds, x in enumerate(reference.contexts(rng, 300, 2), start=1):
            diffuse = float(rng.uniform() < 0.5 + x[1] / 2)
            play.round(x, reference.adversary if stream == "adversary" else reference.always(diffuse))
            assert len(play.points) <= float(bounds.adaptive_levels(rounds, 2, kappa))
        assert play.gap <= float(bounds.adaptive_gap(300, 2, kappa))
        assert play.swap_regret() <= float(bounds.adaptive_psreg(300, 2, kappa, distance2=36.0))
    assert len(play.points) > 25


def greediest(t: int, points: list[float]) -> int:
    """Serve a widest interval, which splits soonest."""
    widths = np.diff(points)
    return int(np.argmax(widths))


@pytest.mark.parametrize("kappa", [0.2, 1.0, 5.0])
def test_level_count_bound_holds_and_is_nearly_attained_by_the_fastest_splitter(kappa):
    rounds = 4000
    made = len(reference.refine(rounds, kappa, 1.0, greediest))
    bound = float(bounds.adaptive_levels(rounds, 1, kappa))
    assert 25 + 0.4 * (bound - 25) <= made <= bound
    deep = len(reference.refine(rounds, kappa, 1.0, lambda t, points: 0))
    assert deep <= bound <= 25 + 10 / 3 * (2.5 * rounds / kappa) ** (1 / 3) + 1e-9


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_pseudo_multicalibration_is_at_most_pseudo_swap_regret_and_l1_at_most_root(seed):
    rng = np.random.default_rng(seed)
    P, drawn, labels = reference.two_level_play(rng, 60, 3)
    values = rng.uniform(-1, 1, size=(4, 60))
    for weights in (P, drawn):
        first = reference.multicalibration(weights, values, labels, 1)
        second = reference.multicalibration(weights, values, labels, 2)
        assert first <= float(bounds.smcal1_from_smcal2(second, 60)) + 1e-9
        regret = 0.0
        for i in range(4):
            v, alpha = i / 3, weights[:, [i]]
            shifted = np.concatenate([v + values, v - values])
            regret += reference.swap_regret(np.where(np.arange(4) == i, alpha, 0.0), shifted, labels)
        assert second <= float(bounds.psmcal2_from_psreg(regret)) + 1e-9


@given(unit, unit)
def test_swap_gain_is_what_the_best_step_achieves_at_least(alpha, mu):
    step = 1.0 if alpha >= mu else alpha / mu
    assert 2 * step * alpha - step**2 * mu >= float(bounds.swap_gain(alpha)) - 1e-12


def test_blum_mansour_sum_bounds_the_loss_of_the_stationary_distribution():
    rng = np.random.default_rng(7)
    levels, rounds = 4, 200
    grid = np.linspace(0, 1, levels + 1)
    regrets, played = np.zeros(levels + 1), 0.0
    labels, comparators = rng.integers(0, 2, rounds), rng.uniform(size=levels + 1)
    for y in labels:
        Q = rng.dirichlet(np.ones(levels + 1), size=levels + 1).T
        p = np.linalg.matrix_power(Q, 200)[:, 0]
        loss = (grid - y) ** 2
        regrets += p * (Q.T @ loss - (comparators - y) ** 2)
        played += float(p @ (loss - (comparators - y) ** 2))
    assert played == pytest.approx(float(bounds.blum_mansour(regrets)))


# Concentration


@pytest.mark.statistical
@pytest.mark.parametrize("mu", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("rare", [False, True])
def test_freedman_fails_no_more_often_than_delta(mu, rare):
    rng = np.random.default_rng(seeded(8))
    chance, delta, steps, walks = (0.02, 0.3, 400, 3000) if rare else (0.5, 0.3, 400, 3000)
    ends = (rng.uniform(size=(walks, steps)) < chance).sum(axis=1) - chance * steps
    bound = float(bounds.freedman(steps * chance * (1 - chance), mu, delta))
    assert np.mean(np.abs(ends) > bound) <= delta


@pytest.mark.statistical
def test_freedman_uniform_holds_for_random_variances_and_exceeds_the_best_fixed_choice():
    rng = np.random.default_rng(seeded(9))
    failures, walks, steps, delta = 0, 1500, 300, 0.3
    for _ in range(walks):
        chance = rng.choice([0.001, 0.05, 0.5])
        end = (rng.uniform(size=steps) < chance).sum() - chance * steps
        variance = steps * chance * (1 - chance)
        uniform = float(bounds.freedman_uniform(variance, steps, delta))
        best = min(float(bounds.freedman(variance, 2.0**-k, delta)) for k in range(12))
        assert best <= uniform
        failures += abs(end) > uniform
    assert failures <= delta * walks


@pytest.mark.parametrize(("dim", "epsilon", "radius"), [(1, 0.1, 1), (1, 0.3, 2), (2, 0.25, 1), (2, 0.5, 2)])
def test_a_separated_set_covers_the_class_within_the_stated_size(dim, epsilon, radius):
    side = np.linspace(-2 * radius, 2 * radius, 161 if dim == 2 else 2001)
    grid = np.stack(np.meshgrid(*[side] * dim), axis=-1).reshape(-1, dim)
    inside = grid[reference.sup_norm(grid) <= radius + 1e-12]
    cover = reference.greedy_cover(inside, epsilon)
    nearest = np.min([reference.sup_norm(inside - center) for center in cover], axis=0)
    assert np.max(nearest) <= epsilon + 1e-12
    assert len(cover) <= math.exp(float(bounds.log_cover_size(dim, epsilon, radius)))
    assert len(cover) >= (radius / epsilon) ** dim


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.25]))
def test_hinges_approximate_convex_losses_with_coefficient_norm_four(seed, epsilon):
    rng = np.random.default_rng(seed)
    p = np.linspace(0, 1, 1001)
    slopes = np.sort(rng.uniform(-1, 1, 1000)) if seed % 2 else np.where(p[:-1] < rng.uniform(), -1.0, 1.0)
    loss = np.concatenate([[0.0], np.cumsum(slopes) / 1000])
    loss -= loss.max() - 1 if rng.uniform() < 0.5 else 0.5
    pieces = int(float(bounds.convex_basis_size(epsilon))) - 1
    knots = np.interp(np.linspace(0, 1, pieces + 1), p, loss)
    jumps = np.diff(np.diff(knots) * pieces)
    start = (knots[1] - knots[0]) * pieces
    hinges = np.maximum(p[:, None] - np.arange(1, pieces) / pieces, 0.0)
    assert np.max(np.abs(knots[0] + start * p + hinges @ jumps - loss)) <= epsilon + 1e-9
    assert abs(knots[0]) + abs(start) + np.abs(jumps).sum() <= 4 + 1e-9


# Pseudo to realised


@pytest.fixture(scope="module")
def plays():
    return random_plays()


def random_plays():
    rng = np.random.default_rng(seeded(10))
    return [(*reference.two_level_play(rng, 400, 4), rng.uniform(-1, 1, size=(8, 400))) for _ in range(200)]


@pytest.mark.statistical
def test_realised_multicalibration_from_pseudo_multicalibration(plays):
    delta, needed = 0.2, 0
    for P, drawn, labels, values in plays:
        pseudo = reference.multicalibration(P, values, labels, 2)
        realised = reference.multicalibration(drawn, values, labels, 2)
        assert realised <= float(bounds.paper_smcal2_from_psmcal2(pseudo, 4, math.log(8), delta))
        needed += realised > pseudo
    assert needed > 0


@pytest.mark.statistical
def test_realised_swap_regret_from_pseudo_swap_regret(plays):
    delta, needed = 0.2, 0
    for P, drawn, labels, values in plays:
        pseudo = reference.swap_regret(P, 2 * values, labels)
        realised = reference.swap_regret(drawn, 2 * values, labels)
        fast = float(bounds.sreg_from_psreg(pseudo, 4, math.log(8), delta))
        slow = float(bounds.paper_sreg_from_psreg(pseudo, 4, 400, math.log(8), delta, reach=2.0))
        assert realised <= min(fast, slow)
        needed += realised > pseudo
    assert needed > 0


@pytest.mark.statistical
def test_realised_multicalibration_from_pseudo_swap_regret(plays):
    for P, drawn, labels, values in plays[:50]:
        pseudo = sum(
            reference.swap_regret(np.where(np.arange(5) == i, P, 0.0), i / 4 + values, labels) for i in range(5)
        )
        realised = reference.multicalibration(drawn, values, labels, 2)
        assert realised <= float(bounds.smcal2_from_psreg(pseudo, 4, math.log(16), 0.2))


@settings(max_examples=200)
@given(st.floats(-2, 2), unit, unit)
def test_moments_behind_the_fast_pseudo_to_realised_argument(f, v, y):
    term = (v - y) ** 2 - (f - y) ** 2
    assert abs(term) <= 9 + 1e-12
    assert term**2 <= 16 * (v - f) ** 2 + 1e-12
    g = f / 2
    shifted = (v - y) ** 2 - (v + g - y) ** 2
    assert abs(shifted) <= 3 + 1e-12
    assert shifted**2 <= 9 * g**2 + 1e-12


def test_constants_behind_the_fast_pseudo_to_realised_argument():
    # r̂ ≤ r + 16μQ + L/μ and Q ≤ 2(Q̂ + L/ν) with 9ν = ½, then Q̂ ≤ r̂; in units of L with r = 0.
    for square, range2, expected in ((16, 9, 146), (9, 1, 74)):
        mu, nu = 1 / (4 * square), 1 / (2 * range2)
        deviation = 1 / mu + 0.25 * 2 / nu
        assert deviation / (1 - 0.25 * 2) == pytest.approx(expected)
    for bound, expected in ((bounds.sreg_from_psreg, 146), (bounds.smcal2_from_psreg, 74)):
        one, two = (float(bound(0.0, 9, log_size, 0.1)) for log_size in (1.0, 2.0))
        assert two - one == pytest.approx(10 * expected)


def test_omniprediction_factor_two_is_attained_at_one_half():
    A, g = 1.3, np.array([0.65, 0.2])
    strength = abs(A) + float(np.linalg.norm(g))
    smcal1, somni = strength / 2, strength / (2 * max(0.5, 0.5))
    assert somni == pytest.approx(float(bounds.somni_from_smcal1(smcal1)))
    assert somni <= float(bounds.paper_somni_from_smcal1(smcal1))


# Regret against the ball around a start
@settings(max_examples=80)
@given(st.integers(1, 5), st.integers(1, 30), st.floats(1e-3, 30.0), st.integers(0, 10**6))
def test_no_rule_in_the_ball_saves_more_than_the_bound_and_the_best_nearly_does(dim, rows, distance2, seed):
    rng = np.random.default_rng(seed)
    X, y, share, start = rng.normal(size=(rows, dim)), rng.random(rows), rng.random(rows), rng.normal(size=dim)
    G, u = (X * share[:, None]).T @ X, (X * share[:, None]).T @ (y - X @ start)
    values, basis = np.linalg.eigh(G)
    bound = float(bounds.ball_regret(values, u @ basis, distance2))
    moves = rng.normal(size=(200, dim))
    moves *= (np.sqrt(distance2) * rng.random(200) / np.linalg.norm(moves, axis=1))[:, None]
    shrunk = [np.linalg.solve(G + ridge * np.eye(dim), u) for ridge in np.geomspace(1e-7, 1e7, 400)]
    inside = [move for move in shrunk if move @ move <= distance2]
    saved = [2 * u @ move - move @ G @ move for move in [*moves, *inside]]
    assert max(saved) <= bound * (1 + 1e-9) + 1e-9
    assert bound <= 1.2 * max(saved) + 1e-3


def test_the_ball_shrinks_to_its_start():
    assert float(bounds.ball_regret([1.0, 0.0], [3.0, 0.0], 0.0)) < 1e-5


@pytest.mark.parametrize("rows", [1, 400, 40_000])
def test_inner_levels_are_as_many_as_their_bound_says_and_the_theorem_pays_for_them(rows: int) -> None:
    forecaster = Forecaster(1, levels="inner")
    made = forecaster.run(np.full((rows, 1), 0.5), np.zeros(rows))
    known = np.arange(rows)
    assert (np.minimum(made.p, 1 - made.p) >= 1 / (known + 2)).all()
    assert forecaster.levels[1] < 2 / (rows + 2)
    count = float(bounds.adaptive_levels(rows, 1, inner=True))
    assert 25 + bounds.inner_splits(rows) <= len(forecaster.levels) <= count
    learners = count * float(bounds.learner_regret("ridge", rows / count, 1, ridge=1.0, distance2=64.0))
    parts = float(bounds.adaptive_gap(rows, 1, inner=True)) + learners + bounds.inner_clipping(rows)
    assert float(bounds.adaptive_psreg(rows, 1, inner=True)) == pytest.approx(parts, rel=1e-12)
    assert bounds.inner_clipping(rows) >= sum(4 / (t + 2) ** 2 for t in range(rows)) - 1e-9
    assert forecaster.certificate().holds()
