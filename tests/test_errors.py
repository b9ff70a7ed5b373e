"""Every error against brute force, a generic solver, or its own witness."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from swapcal import errors
from swapcal.losses import swap_omniprediction

LEVELS = np.array([0.0, 0.15, 0.5, 0.8, 1.0])


def contexts(rng, rows, d):
    tail = rng.standard_normal((rows, d - 1))
    tail *= np.sqrt(0.75) * rng.random((rows, 1)) / np.maximum(np.linalg.norm(tail, axis=1, keepdims=True), 1e-9)
    return np.column_stack([np.full(rows, 0.5), tail])


def sample(seed, rows=120, d=4, bias=0.2):
    rng = np.random.default_rng(seed)
    X = contexts(rng, rows, d)
    p = rng.choice(LEVELS, rows)
    truth = np.clip(p + bias * X[:, -1] + bias * (X[:, 1] > 0), 0, 1)
    y = (rng.random(rows) < truth).astype(float)
    return p, y, X, rng.random(rows)


def statistics(p, y, X, w):
    masks = [(p == v) * w for v in LEVELS]
    n = np.array([m.sum() for m in masks])
    A = np.array([(m * (y - v)).sum() for m, v in zip(masks, LEVELS, strict=True)])
    g = np.array([(m * (y - v)) @ X for m, v in zip(masks, LEVELS, strict=True)])
    G = np.array([(X * m[:, None]).T @ X for m in masks])
    return n, A, g, G


def in_theta(theta, radius, slack=1e-9):
    return np.abs(theta[..., 0]) / 2 + np.sqrt(0.75) * np.linalg.norm(theta[..., 1:], axis=-1) <= radius + slack


def random_theta(rng, count, d, radius):
    theta = rng.standard_normal((count, d)) * rng.random((count, d)) ** 2
    size = np.abs(theta[:, 0]) / 2 + np.sqrt(0.75) * np.linalg.norm(theta[:, 1:], axis=1)
    return radius * theta / size[:, None]


@given(st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_witnesses_attain_the_suprema_and_nothing_beats_them(seed, d):
    rng = np.random.default_rng(seed)
    g = rng.standard_normal((5, d)) * rng.random((5, 1)) * (rng.random((5, d)) < 0.8)
    A = rng.standard_normal(5)
    theta = errors.witness_linear(g)
    assert in_theta(theta, 1).all()
    np.testing.assert_allclose((theta * g).sum(1), errors.support_linear(g), atol=1e-12)
    rivals = random_theta(rng, 500, d, 1.0) @ g.T
    assert (rivals <= errors.support_linear(g) + 1e-12).all()
    unit = errors.witness_affine(A, g)
    assert (np.linalg.norm(unit, axis=1) <= 1 + 1e-12).all()
    np.testing.assert_allclose(np.abs(A + (unit * g).sum(1)) / 2, errors.support_affine(A, g), atol=1e-12)


def test_class_f1_is_exactly_theta_1():
    """Θ_1 is the set of θ with |⟨θ,x⟩| ≤ 1 on the whole context set."""
    rng = np.random.default_rng(0)
    theta = random_theta(rng, 200, 3, 1.0)
    angle = np.linspace(0, 2 * np.pi, 721)
    X = np.column_stack([np.full(721, 0.5), np.sqrt(0.75) * np.cos(angle), np.sqrt(0.75) * np.sin(angle)])
    largest = np.abs(theta @ X.T).max(axis=1)
    np.testing.assert_allclose(largest, 1.0, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_swap_errors_equal_literal_sums(seed):
    p, y, X, w = sample(seed)
    n, A, g, _ = statistics(p, y, X, w)
    for q in (1, 2):
        theta = errors.witness_linear(g)
        literal = 0.0
        for v, direction, mass in zip(LEVELS, theta, n, strict=True):
            inside = p == v
            gap = np.sum(w[inside] * (X[inside] @ direction) * (y[inside] - v)) / mass
            literal += mass * abs(gap) ** q
        assert errors.smcal_linear(n, g, q) == pytest.approx(literal)
        assert errors.cal(n, A, q) <= errors.smcal_linear(n, g, q) + 1e-12
    members = (X[:, 1:] > 0).astype(float)
    S = np.array([(w * (p == v) * (y - v)) @ members for v in LEVELS])
    brute = sum(max(abs(S[level])) for level in range(len(LEVELS)))
    assert errors.smcal_groups(n, S, 1) == pytest.approx(brute)
    assert errors.mcal_groups(n, S, 1)[0] == pytest.approx(np.abs(S).sum(0).max())
    assert errors.mcal_groups(n, S, 2)[1] == np.argmax((S**2 / n[:, None]).sum(0))
    assert (errors.witness_groups(S) == np.abs(S).argmax(1)).all()


@pytest.mark.parametrize("seed", range(8))
def test_pooled_errors_are_attained_and_bounded(seed):
    rng = np.random.default_rng(seed)
    d = 2 + seed % 4
    n, g = rng.random(6) * 10 + 1, rng.standard_normal((6, d))
    A = rng.standard_normal(6) * (seed % 3)
    value, theta = errors.mcal2_linear(n, g)
    assert in_theta(theta, 1)
    assert np.sum((g @ theta) ** 2 / n) == pytest.approx(value)
    rivals = random_theta(rng, 4000, d, 1.0)
    assert np.sum((rivals @ g.T) ** 2 / n, axis=1).max() <= value + 1e-9
    interval = errors.mcal1_linear(n, g)
    assert in_theta(interval.theta, 1)
    assert np.abs(g @ interval.theta).sum() == pytest.approx(interval.lower)
    assert np.abs(rivals @ g.T).sum(axis=1).max() <= interval.lower + 1e-6  # the ascent beats random search
    assert interval.lower <= interval.upper <= errors.smcal_linear(n, g, 1) + 1e-12
    value, theta = errors.mcal2_affine(n, A, g)
    sphere = rng.standard_normal((4000, d))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    assert np.linalg.norm(theta) <= 1 + 1e-12
    assert np.sum((A + sphere @ g.T) ** 2 / (4 * n), axis=1).max() <= value + 1e-9
    interval = errors.mcal1_affine(n, A, g)
    assert 0.5 * np.abs(A + g @ interval.theta).sum() == pytest.approx(interval.lower)
    assert 0.5 * np.abs(A + sphere @ g.T).sum(axis=1).max() <= interval.lower + 1e-6
    assert interval.lower <= interval.upper


def test_two_dimensional_mcal1_is_exact():
    n, g = np.ones(4), np.random.default_rng(3).standard_normal((4, 2))
    exact = max(2 * np.abs(g[:, 0]).sum(), 2 / np.sqrt(3) * np.abs(g[:, 1]).sum())
    assert errors.mcal1_linear(n, g).lower == pytest.approx(exact)


def test_the_interval_of_mcal1_ends_at_the_smaller_of_two_bounds():
    """Two levels accused in orthogonal directions: the pooled bound is exact; beside a huge level the other wins."""
    g = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    radius = 2 / np.sqrt(3)
    even = errors.mcal1_linear(np.array([1.0, 1.0]), g)
    assert even.lower == pytest.approx(radius * np.sqrt(2))
    assert even.upper == pytest.approx(radius * np.sqrt(2))
    uneven = errors.mcal1_linear(np.array([1.0, 100.0]), g)
    assert uneven.lower == pytest.approx(radius * np.sqrt(2))
    assert uneven.upper == pytest.approx(2 * radius)
    A = np.zeros(2)
    even, uneven = (errors.mcal1_affine(np.array(n), A, g) for n in ([1.0, 1.0], [1.0, 100.0]))
    assert even.lower == pytest.approx(np.sqrt(0.5))
    assert even.upper == pytest.approx(np.sqrt(0.5))
    assert uneven.upper == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(6))
def test_no_function_accuses_beyond_the_interval_of_mcal1(seed):
    """With a tail of two coordinates every direction can be tried."""
    rng = np.random.default_rng(seed)
    n, g = rng.uniform(1, 20, 7), rng.standard_normal((7, 3))
    angle = np.linspace(0, np.pi, 20_001)
    tail = 2 / np.sqrt(3) * np.column_stack([np.cos(angle), np.sin(angle)])
    best = max(2 * np.abs(g[:, 0]).sum(), np.abs(g[:, 1:] @ tail.T).sum(axis=0).max())
    found = errors.mcal1_linear(n, g)
    assert found.lower == pytest.approx(best, rel=1e-6)
    assert best <= found.upper * (1 + 1e-12)


def test_the_constant_and_the_tail_are_compared_in_the_same_unit():
    """g = (0.55, 1): the constant reaches 4·0.55², the tail 4/3, which is more."""
    value, theta = errors.mcal2_linear(np.array([1.0]), np.array([[0.55, 1.0]]))
    assert value == pytest.approx(4 / 3)
    assert theta[0] == 0


@pytest.mark.parametrize("seed", range(3))
def test_the_direction_found_for_mcal1_cannot_be_improved_by_another_step(seed):
    rng = np.random.default_rng(seed)
    g = rng.standard_normal((40, 12)) * np.r_[0.0, np.ones(11)]
    theta = errors.mcal1_linear(np.ones(40), g).theta
    pull = np.sign(g @ theta) @ g
    assert pull @ theta == pytest.approx(2 / np.sqrt(3) * np.linalg.norm(pull))


def test_pooled_affine_hard_case_fills_the_sphere():
    g = np.array([[0.0, 2.0], [0.0, -2.0]])
    value, theta = errors.mcal2_affine(np.ones(2), np.array([1.0, 1.0]), g)
    assert value == pytest.approx((3**2 + 1**2) / 4)
    assert np.linalg.norm(theta) == pytest.approx(1)


@pytest.mark.parametrize("rules", ["all", "restricted"])
def test_somni_is_attained_by_its_loss_and_comparator(rules):
    p, y, X, w = sample(11)
    n, A, g, _ = statistics(p, y, X, w)
    found = errors.somni(LEVELS, A, g, rules)
    assert found.total <= 2 * errors.smcal_linear(n, g, 1) + 1e-12
    for level, v in enumerate(LEVELS):
        inside = p == v
        slope = np.where(y[inside] > 0.5, found.slopes[level, 1], found.slopes[level, 0])
        comparator = (1 + X[inside] @ found.theta[level]) / 2
        assert (comparator >= -1e-12).all()
        assert (comparator <= 1 + 1e-12).all()
        action = found.action[level]
        assert (1 - v) * found.slopes[level, 0] + v * found.slopes[level, 1] == pytest.approx(0, abs=1e-15)
        assert np.abs(found.slopes[level]).max() <= 1 + 1e-15
        gain = np.sum(w[inside] * (slope * (action - action) - slope * (comparator - action)))
        assert gain == pytest.approx(found.levels[level])
    assert found.total == pytest.approx(found.levels.sum())


def test_no_loss_of_a_dictionary_beats_somni():
    """The absolute and the squared loss, against many comparators, stay below the formula."""
    p, y, X, w = sample(12, bias=0.4)
    n, A, g, _ = statistics(p, y, X, w)
    exact = errors.somni(LEVELS, A, g).levels
    rng = np.random.default_rng(0)
    for level, v in enumerate(LEVELS):
        inside = p == v
        theta = rng.standard_normal((300, X.shape[1]))
        theta /= np.linalg.norm(theta, axis=1, keepdims=True)
        f = (1 + X[inside] @ theta.T) / 2
        outcome, weight = y[inside, None], w[inside, None]
        absolute = np.abs(float(v >= 0.5) - outcome) - np.abs(f - outcome)
        squared = 0.5 * ((v - outcome) ** 2 - (f - outcome) ** 2)
        for gains in (absolute, squared):
            assert (weight * gains).sum(0).max() <= exact[level] + 1e-9
    smcal = errors.smcal_affine(n, A, g, 1)
    assert smcal - 1e-12 <= exact.sum() <= 2 * smcal + 1e-12


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("radius", [1.0, 2.0])
def test_swap_regret_equals_the_generic_solver(seed, radius):
    p, y, X, w = sample(seed, rows=40 + 60 * seed, d=2 + seed % 3, bias=1.5)
    _, _, g, G = statistics(p, y, X, w)
    gains, theta = errors.swap_regret(LEVELS, g, G, radius)
    assert in_theta(theta, radius).all()
    for level, v in enumerate(LEVELS):
        inside = p == v

        def loss(candidate, inside=inside):
            return np.sum(w[inside] * (X[inside] @ candidate - y[inside]) ** 2)

        literal = np.sum(w[inside] * (v - y[inside]) ** 2) - loss(theta[level])
        assert literal == pytest.approx(gains[level], abs=1e-9)
        start = np.append(2 * v * 0.9, np.zeros(X.shape[1] - 1))
        rule = {
            "type": "ineq",
            "fun": lambda c: radius - abs(c[0]) / 2 - np.sqrt(0.75 * c[1:] @ c[1:] + 1e-18),
        }
        rival = minimize(loss, start, method="SLSQP", constraints=rule, options={"ftol": 1e-12, "maxiter": 500}).x
        if in_theta(rival, radius, 1e-10):
            assert loss(theta[level]) <= loss(rival) + 1e-8


@given(st.integers(0, 100_000))
@settings(max_examples=80, deadline=None)
def test_swap_regret_satisfies_the_optimality_conditions(seed):
    """At the maximum the gradient's support over the set equals its value at θ: the duality gap is zero."""
    rng = np.random.default_rng(seed)
    d, rows = int(rng.integers(1, 8)), int(rng.integers(1, 30))
    X = contexts(rng, rows, d) if d > 1 else np.full((rows, 1), 0.5)
    y, alpha, v = rng.random(rows).round(), rng.random(rows), rng.random()
    g, G = ((y - v) * alpha) @ X, (X * alpha[:, None]).T @ X
    radius = float(rng.choice([0.3, 1.0, 2.0])) + v
    gains, theta = errors.swap_regret(np.array([v]), g[None], G[None], radius)
    delta = theta[0] - np.append(2 * v, np.zeros(d - 1))
    gradient = 2 * (g - G @ delta)
    gap = radius * errors.support_linear(gradient[None])[0] - gradient @ theta[0]
    assert -1e-9 <= gap <= 1e-7 * (1 + rows)
    assert gains[0] >= 0


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_comparators_on_either_side_of_zero_stay_in_the_class(side):
    """Residuals so large that the best function presses against the class, its constant negative or positive."""
    rng = np.random.default_rng(0)
    v, G = np.array([0.5 + 0.4 * side]), np.eye(4)[None] * 0.2
    for _ in range(20):
        g = np.concatenate([[side * rng.uniform(2, 4)], 0.5 * rng.standard_normal(3)])[None]
        gains, theta = errors.swap_regret(v, g, G)
        assert side * theta[0, 0] > 0
        assert in_theta(theta[0], 2.0)
        candidates = random_theta(rng, 2000, 4, 2.0) - 2 * v * np.eye(4)[0]
        assert gains[0] >= (2 * candidates @ g[0] - np.einsum("cd,de,ce->c", candidates, G[0], candidates)).max()


def test_swap_regret_handles_empty_singular_and_repeated_levels():
    rng = np.random.default_rng(1)
    X = np.repeat(contexts(rng, 2, 6), 10, axis=0)  # rank two in six dimensions
    y = (np.arange(20) % 10 < 3).astype(float)
    v = np.array([0.5, 0.5])
    g = np.array([np.zeros(6), (y - 0.5) @ X])
    G = np.array([np.zeros((6, 6)), X.T @ X])
    gains, theta = errors.swap_regret(v, g, G)
    assert gains[0] == 0
    assert theta[0].tolist() == [1.0, 0, 0, 0, 0, 0]
    assert gains[1] == pytest.approx(20 * 0.2**2)
    np.testing.assert_allclose(X @ theta[1], 0.3, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_inequalities_between_errors(seed):
    p, y, X, w = sample(seed, bias=0.5)
    n, _, g, G = statistics(p, y, X, w)
    one, two = errors.smcal_linear(n, g, 1), errors.smcal_linear(n, g, 2)
    assert one <= np.sqrt(n.sum() * two) + 1e-9
    assert two <= errors.swap_regret(LEVELS, g, G)[0].sum() + 1e-9
    assert errors.mcal2_linear(n, g)[0] <= two + 1e-9
    assert errors.mcal1_linear(n, g).lower <= one + 1e-9


def test_large_dimension_is_workable():
    rng = np.random.default_rng(5)
    X = contexts(rng, 900, 300)
    y = (rng.random(900) < 0.5).astype(float)
    gains, theta = errors.swap_regret(np.array([0.5]), ((y - 0.5) @ X)[None], (X.T @ X)[None])
    literal = np.sum((0.5 - y) ** 2) - np.sum((X @ theta[0] - y) ** 2)
    assert literal == pytest.approx(gains[0])


def test_ridge_regret_is_the_exact_maximum():
    p, y, X, w = sample(21)
    _, _, g, G = statistics(p, y, X, w)
    rng = np.random.default_rng(0)
    prior = rng.standard_normal(g.shape)
    value, theta = errors.ridge_regret(LEVELS, g, G, 0.7, prior)
    for level, v in enumerate(LEVELS):
        inside = p == v

        def objective(c, inside=inside, v=v, level=level):
            saved = (v - y[inside]) ** 2 - (X[inside] @ c - y[inside]) ** 2
            return np.sum(w[inside] * saved) - 0.7 * np.sum((c - prior[level]) ** 2)

        assert objective(theta[level]) == pytest.approx(value[level])
        for _ in range(50):
            assert objective(theta[level] + 0.1 * rng.standard_normal(X.shape[1])) <= value[level]


def test_ridge_must_be_positive():
    with pytest.raises(ValueError, match=r"ridge: given 0.0, expected a positive number"):
        errors.ridge_regret(np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1, 1)), 0.0, np.zeros((1, 1)))


def test_empty_levels_contribute_nothing():
    n, g = np.array([0.0, 4.0]), np.array([[0.0, 0.0], [1.0, 1.0]])
    assert errors.smcal_linear(n, g, 2) == errors.smcal_linear(n[1:], g[1:], 2)
    assert errors.mcal2_linear(n, g)[0] == errors.mcal2_linear(n[1:], g[1:])[0]
    nothing = errors.mcal2_affine(np.zeros(2), np.zeros(2), np.zeros((2, 3)))
    assert nothing[0] == 0
    assert errors.mcal1_linear(np.zeros(1), np.zeros((1, 3)))[:2] == (0, 0)


@pytest.mark.parametrize("radius", [0.9, 2.0])
def test_swap_regret_of_many_draws_equals_one_by_one(radius):
    p, y, X, w = sample(31, rows=60, bias=1.0)
    _, _, _, G = statistics(p, y, X, w)
    rng = np.random.default_rng(2)
    draws = []
    for _ in range(20):
        fresh = (rng.random(60) < 0.5).astype(float)
        draws.append(statistics(p, fresh, X, w)[2])
    levels = np.minimum(LEVELS, radius)
    together = errors.swap_regret(levels, np.array(draws), G, radius)[0].sum(axis=1)
    singly = [errors.swap_regret(levels, g, G, radius)[0].sum() for g in draws]
    np.testing.assert_allclose(together, singly, atol=1e-9)


STACKED = {
    "cal": lambda n, v, A, g, G, S: errors.cal(n, A, 2),
    "smcal_linear": lambda n, v, A, g, G, S: errors.smcal_linear(n, g, 2),
    "smcal_affine": lambda n, v, A, g, G, S: errors.smcal_affine(n, A, g, 1),
    "smcal_groups": lambda n, v, A, g, G, S: errors.smcal_groups(n, S, 1),
    "mcal_groups": lambda n, v, A, g, G, S: errors.mcal_groups(n, S, 2),
    "mcal2_linear": lambda n, v, A, g, G, S: (errors.mcal2_linear(n, g)[0], np.abs(errors.mcal2_linear(n, g)[1])),
    "mcal2_linear_total": lambda n, v, A, g, G, S: errors.mcal2_linear_total(n, g),
    "mcal1_linear": lambda n, v, A, g, G, S: errors.mcal1_linear(n, g),
    "mcal2_affine": lambda n, v, A, g, G, S: errors.mcal2_affine(n, A, g),
    "mcal1_affine": lambda n, v, A, g, G, S: errors.mcal1_affine(n, A, g),
    "swap_regret": lambda n, v, A, g, G, S: errors.swap_regret(v, g, G),
    "somni of all rules": lambda n, v, A, g, G, S: [
        part for k, part in enumerate(errors.somni(v, A, g, "all")) if k != 2
    ],
    "somni": lambda n, v, A, g, G, S: [part for k, part in enumerate(errors.somni(v, A, g)) if k != 2],
    "witness_linear": lambda n, v, A, g, G, S: errors.witness_linear(g),
    "witness_affine": lambda n, v, A, g, G, S: errors.witness_affine(A, g),
    "witness_groups": lambda n, v, A, g, G, S: errors.witness_groups(S),
}


@pytest.mark.parametrize("error", STACKED.values(), ids=STACKED.keys())
@pytest.mark.parametrize("empty", [False, True])
def test_stacked_statistics_give_what_each_set_gives(error, empty):
    p, y, X, w = sample(5, rows=40, bias=0.3)
    n, _, _, G = statistics(p, y, X, w)
    rng = np.random.default_rng(3)
    g, S = rng.normal(size=(6, *G.shape[:2])), rng.normal(size=(6, len(n), 4))
    if empty:
        n, G, g, S = (np.concatenate([part, np.zeros_like(part[..., :1, *[slice(None)] * k])], axis=-1 - k)
                      for part, k in ((n, 0), (G, 2), (g, 1), (S, 1)))  # fmt: skip
    v = np.linspace(0.1, 0.9, len(n))
    together = error(n, v, 2 * g[..., 0], g, G, S)
    singly = [error(n, v, 2 * one[:, 0], one, G, s) for one, s in zip(g, S, strict=True)]
    if not isinstance(together, tuple | list):
        together, singly = (together,), [(one,) for one in singly]
    for part, parts in zip(together, zip(*singly, strict=True), strict=True):
        np.testing.assert_allclose(part, np.array(parts), rtol=1e-9, atol=1e-12)


def test_the_worst_action_is_the_same_everywhere_also_where_residuals_cancel():
    X = np.array([[0.5, 0.1], [0.5, -0.1]])
    found = swap_omniprediction([0.5, 0.5], [0, 1], X, rules="restricted")
    loss, theta = found.attained_by(0)
    exact = errors.somni(found.levels, found.A, found.g)
    assert found.A[0] == 0.0
    assert loss.best_response(0.5) == exact.action[0]
    np.testing.assert_array_equal(theta, exact.theta[0])
