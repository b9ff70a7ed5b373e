"""From wishes to a distribution: crossings, hedge weights, rounding, stationary distributions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapcal import Forecaster
from swapcal.arrays import Array
from swapcal.kernels import mixing
from swapcal.kernels.state import T_GAP
from tests import reference

probability = st.floats(0, 1)
EDGES = [0.0, 1.0, 0.5, 1e-14, 1 - 1e-14, 1e-9, 1 - 1e-9, 1e-300, 1e-15, 2e-15, 1 - 2.3e-16]


def solve(base: Array, up: Array) -> Array:
    n = len(base)
    p = np.full(n, np.nan)
    mixing.stationary(base, up, p, np.full((5, n), -7), np.full((n, n), np.nan))
    return p


def matrix(base: Array, up: Array) -> Array:
    Q = np.zeros((len(base), len(base)))
    columns = np.arange(len(base))
    Q[base, columns] = 1 - up
    Q[base + 1, columns] += up
    return Q


def assert_stationary(base: Array, up: Array, p: Array) -> None:
    assert np.all(p >= 0)
    assert abs(p.sum() - 1) <= 1e-12
    assert np.abs(matrix(base, up) @ p - p).max() <= 1e-12


@st.composite
def chains(draw, most=9):
    n = draw(st.integers(2, most))
    base = draw(st.lists(st.integers(0, n - 2), min_size=n, max_size=n))
    up = draw(st.lists(st.one_of(st.sampled_from(EDGES), probability), min_size=n, max_size=n))
    return np.array(base), np.array(up)


@given(chains(most=40))
def test_every_chain_has_its_stationary_distribution(chain):
    base, up = chain
    assert_stationary(base, up, solve(base, up))


@given(chains())
def test_the_stationary_distribution_is_the_exact_one_of_a_closed_class(chain):
    base, up = chain
    up = np.where(up < 1e-12, 0.0, np.where(up > 1 - 1e-12, 1.0, up))
    p = solve(base, up)
    classes = reference.closed_classes(matrix(base, up))
    support = set(np.flatnonzero(p).tolist())
    found = [c for c in classes if support <= set(c)]
    assert len(found) == 1, "all mass in one class that nothing leaves"
    inside = found[0]
    Q = [[Fraction(0)] * len(inside) for _ in inside]
    for column, i in enumerate(inside):
        for j, weight in ((base[i], 1 - Fraction(float(up[i]))), (base[i] + 1, Fraction(float(up[i])))):
            if weight:
                Q[inside.index(j)][column] += weight
    exact = reference.stationary(Q)
    np.testing.assert_allclose(p[inside], [float(value) for value in exact], rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("n", [2, 3, 10, 41])
def test_identity_cycle_and_absorbing_chains(n):
    identity = np.minimum(np.arange(n), n - 2), (np.arange(n) == n - 1).astype(float)
    assert_stationary(*identity, solve(*identity))
    target = (np.arange(n) + 1) % n
    cycle = np.minimum(target, n - 2), (target == n - 1).astype(float)
    p = solve(*cycle)
    assert_stationary(*cycle, p)
    np.testing.assert_allclose(p, 1 / n)
    absorbing = np.full(n, n - 2), np.ones(n)
    np.testing.assert_array_equal(solve(*absorbing), np.arange(n) == n - 1)


@pytest.mark.parametrize("chance", [0.3, 1e-3, 1e-14])
@pytest.mark.parametrize("steps", [3, 30, 150])
def test_a_state_reached_with_vanishing_probability_is_no_obstacle(chance, steps):
    """From each rung c_k one climbs with a small chance and else falls to the ground: the top has mass chance^steps.

    State 0 is the top, where the search for a class begins, so all other states are eliminated towards it.
    """
    rungs = 2 * np.arange(1, steps + 1) + 1
    n = int(rungs[-1]) + 1
    base, up = np.full(n, int(rungs[0]) - 1), np.ones(n)
    for rung in rungs[:-1]:
        base[rung], up[rung] = rung + 1, chance
    base[rungs[-1]], up[rungs[-1]] = 0, 0.0
    assert_stationary(base, up, solve(base, up))


@given(probability, st.lists(probability, max_size=6))
def test_rounding_keeps_the_mean_and_costs_what_theory_says(w, inner):
    z = np.unique([0.0, 1.0, *inner])
    z = z[np.concatenate([[True], np.diff(z) > 1e-12])]
    z[-1] = 1.0
    i, up = mixing.round_to_levels(w, z)
    q = np.zeros(len(z))
    q[i], q[i + 1] = 1 - up, up
    np.testing.assert_allclose(q @ z, w, atol=1e-12)
    np.testing.assert_allclose(q @ (z - w) ** 2, max(0.0, (w - z[i]) * (z[i + 1] - w)), atol=1e-12)
    np.testing.assert_allclose(q, reference.rround(w, z), atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_rounding_on_the_uniform_grid_uses_the_paper_index(n):
    z = np.arange(n + 1) / n
    for w in (0.0, 0.31, 0.5, 1 - 1e-12, 1.0):
        assert mixing.round_to_levels(w, z)[0] == min(int(n * w), n - 1)
    assert mixing.round_to_levels(1.0, z) == (n - 1, 1.0)


@given(probability, probability, probability, probability, st.floats(-3, 3))
def test_hedge_identity_for_every_real_label(a, b, w_low, w_high, y):
    z_low, z_high = min(a, b), max(a, b)
    u, v = max(w_low - z_low, 0.0), max(z_high - w_high, 0.0)
    w = np.array([z_low + u, z_high - v])
    z, h = np.array([z_low, z_high]), z_high - z_low
    weight = mixing.hedge_weight(u, v)
    P = np.array([1 - weight, weight])
    if u + v > 1e-9:
        np.testing.assert_allclose(P @ z, P @ w, atol=1e-12)
    gap = mixing.hedge_gap(u, v, h)
    np.testing.assert_allclose(gap, P @ ((z - y) ** 2 - (w - y) ** 2), atol=1e-9)
    assert gap <= h**2 / 4 + 1e-15


@given(probability, probability, st.floats(-1, 2), st.floats(-1, 2), st.floats(0, 3), st.floats(0, 3), st.floats(-1, 2))
def test_self_consistent_weights_balance_and_keep_the_identity(a, b, r0, r1, q0, q1, y):
    z0, z1 = min(a, b), max(a, b)
    if mixing.shrunk(r0, q0, 1.0) < z0 or mixing.shrunk(r1, q1, 1.0) > z1:
        return
    p = mixing.self_consistent_weight(r0, q0, z0, r1, q1, z1)
    P, z = np.array([1 - p, p]), np.array([z0, z1])
    w = np.array([mixing.shrunk(r0, q0, 1 - p), mixing.shrunk(r1, q1, p)])
    np.testing.assert_allclose(P @ z, P @ w, atol=1e-12)
    gap = P @ ((z - y) ** 2 - (w - y) ** 2)
    np.testing.assert_allclose(gap, P @ (z**2 - w**2), atol=1e-9)
    assert gap <= (z1 - z0) ** 2 / 4 + 1e-9


@given(st.lists(st.floats(-2, 3), min_size=2, max_size=60), st.sampled_from(["ridge", "vaw", "ons"]))
def test_the_hedge_finds_a_crossing_of_arbitrary_wishes(wishes, learner):
    """Learners that disagree wildly, not monotone in the level: set θ_v = 2w e_1 by hand."""
    forecaster = Forecaster(2, levels=len(wishes) - 1, learner=learner)
    forecaster._state.theta[:, 0] = 2 * np.array(wishes)
    forecast = forecaster.predict([0.5, 0.1])
    z = forecaster.levels
    i = int(np.flatnonzero(z == forecast.low)[0])
    assert forecast.high == z[i + 1]
    q = 0.26 if learner == "vaw" else 0.0
    w = np.clip(0.5 + (np.array(wishes) - 0.5) / (1 + q), 0, 1)
    assert w[i] >= z[i] - 1e-12
    assert w[i + 1] <= z[i + 1] + 1e-12
    assert 0 <= forecast.weight <= 1
    assert forecast._tickets[0, T_GAP] <= (z[i + 1] - z[i]) ** 2 / 4 + 1e-12
    if learner != "vaw" and w[i] - z[i] + z[i + 1] - w[i + 1] > 1e-9:
        np.testing.assert_allclose(forecast.mean, (1 - forecast.weight) * w[i] + forecast.weight * w[i + 1], atol=1e-12)


@pytest.mark.parametrize("rungs", [5, 40, 200])
def test_masses_beyond_the_range_of_numbers_are_kept_in_proportion(rungs):
    """Each rung is left upwards, or with chance 1e-12 by a step that falls two rungs: the top holds all the mass.

    Rung k is state 2k - 2, its fall state 2k + 1. In units of the first rung's mass the top's is no number at all.
    """
    n, chance = 2 * rungs, 1e-12
    base, up = np.zeros(n, np.int64), np.zeros(n)
    for k in range(1, rungs + 1):
        base[2 * k - 2], up[2 * k - 2] = min(2 * k, n - 2), chance
        if 2 * k + 1 < n:
            base[2 * k + 1] = max(2 * k - 4, 0)
    p = solve(base, up)
    assert_stationary(base, up, p)
    assert p[n - 2] == pytest.approx(1.0)
