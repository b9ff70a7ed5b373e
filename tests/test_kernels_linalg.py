"""Factored inverses against plain linear algebra, and the projection against generic solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapcal.arrays import Array
from swapcal.kernels import linalg
from tests import reference

DIMS = (1, 2, 3, 4, 5, 7, 8, 20, 33)


class Factored:
    """P = U D Uᵀ of A = start·I, ready for updates."""

    def __init__(self, dim: int, start: float) -> None:
        self.dim, self.width = dim, linalg.padded(dim)
        self.factor = np.zeros(linalg.factor_size(dim))
        self.scale = np.full(self.width, 1 / start)
        self.u = np.full(self.width, np.nan)

    def pad(self, x: Array) -> Array:
        return np.concatenate([x, np.zeros(self.width - self.dim)])

    def absorb(self, x: Array, weight: float) -> float:
        return linalg.absorb(self.factor, self.scale, self.pad(x), weight, self.u)

    def full(self) -> Array:
        U = linalg.unpack(self.factor, self.width)
        return ((U * self.scale) @ U.T)[: self.dim, : self.dim]


@pytest.mark.parametrize("dim", DIMS)
def test_absorbing_is_adding_an_outer_product_to_the_inverse(dim):
    rng = np.random.default_rng(dim)
    kept, A = Factored(dim, 0.3), 0.3 * np.eye(dim)
    for _ in range(25):
        x, weight = rng.standard_normal(dim), rng.random() ** 3
        P = np.linalg.inv(A)
        q = linalg.quadratic(kept.factor, kept.scale, kept.pad(x))
        g = kept.absorb(x, weight)
        A += weight * np.outer(x, x)
        np.testing.assert_allclose(q, x @ P @ x, rtol=1e-11)
        np.testing.assert_allclose(g, 1 + weight * x @ P @ x, rtol=1e-12)
        np.testing.assert_allclose(kept.u[:dim], P @ x, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(kept.full(), np.linalg.inv(A), rtol=1e-9, atol=1e-11)
    assert np.all(kept.scale > 0)
    np.testing.assert_array_equal(kept.u[dim:], 0.0)


@pytest.mark.parametrize("dim", DIMS)
def test_expanding_and_unpacking_give_the_same_matrix(dim):
    rng = np.random.default_rng(dim)
    kept = Factored(dim, 2.0)
    for _ in range(10):
        kept.absorb(rng.standard_normal(dim), 1.0)
    room = np.full((2, kept.width, kept.width), np.nan)
    linalg.expand(kept.factor, kept.scale, room[0], room[1])
    np.testing.assert_allclose(room[1][:dim, :dim], kept.full(), rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(room[1], room[1].T)


@pytest.mark.parametrize("dim", DIMS[1:])
def test_a_larger_layout_begins_with_the_smaller_one(dim):
    """Coordinates that are 0 change nothing, bit for bit: appending them needs only more room."""
    rng = np.random.default_rng(dim)
    small, large = Factored(dim, 1.0), Factored(dim + 6, 1.0)
    for _ in range(10):
        x = rng.standard_normal(dim)
        small.absorb(x, 0.7)
        large.absorb(np.concatenate([x, np.zeros(6)]), 0.7)
    np.testing.assert_array_equal(large.factor[: small.factor.size], small.factor)
    np.testing.assert_array_equal(large.factor[small.factor.size :], 0.0)
    np.testing.assert_array_equal(large.scale[: small.width], small.scale)


def test_weight_zero_and_context_zero_change_nothing():
    kept = Factored(5, 1.0)
    kept.absorb(np.arange(5.0), 1.0)
    before = kept.factor.copy(), kept.scale.copy()
    assert kept.absorb(np.ones(5), 0.0) == 1.0
    assert kept.absorb(np.zeros(5), 1.0) == 1.0
    np.testing.assert_array_equal(kept.factor, before[0])
    np.testing.assert_array_equal(kept.scale, before[1])


@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 102400.0]), st.floats(1.001, 300))
def test_projection_in_the_norm_of_A(dim, seed, start, overshoot):
    rng = np.random.default_rng(seed)
    kept, A = Factored(dim, start), start * np.eye(dim)
    for _ in range(int(rng.integers(0, 20))):
        x, weight = rng.standard_normal(dim), 10 ** rng.uniform(-4, 4)
        kept.absorb(x, weight)
        A += weight * np.outer(x, x)
    theta = rng.standard_normal(dim)
    theta *= 4 * overshoot / np.linalg.norm(theta)
    got = kept.pad(theta)
    linalg.project_ball(got, kept.factor, kept.scale, 4.0, np.full((3, kept.width, kept.width), np.nan))
    assert np.linalg.norm(got) <= 4 * (1 + 1e-12)
    np.testing.assert_array_equal(got[dim:], 0.0)
    np.testing.assert_allclose(got[:dim], reference.project(theta, A), atol=1e-7)
    if dim > 1:
        normal = A @ (theta - got[:dim])
        multiplier = normal @ got[:dim] / (got[:dim] @ got[:dim])
        assert multiplier >= 0
        np.testing.assert_allclose(normal, multiplier * got[:dim], atol=1e-10 * np.linalg.norm(A))


@pytest.mark.parametrize("seed", range(12))
def test_projection_agrees_with_a_generic_solver(seed):
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(2, 7))
    kept, A = Factored(dim, 1.0), np.eye(dim)
    for _ in range(8):
        x = rng.standard_normal(dim)
        kept.absorb(x, 1.0)
        A += np.outer(x, x)
    theta = rng.standard_normal(dim)
    theta *= rng.uniform(4.5, 40) / np.linalg.norm(theta)
    got = kept.pad(theta)
    linalg.project_ball(got, kept.factor, kept.scale, 4.0, np.zeros((3, kept.width, kept.width)))
    generic = reference.project_generic(theta, A)
    np.testing.assert_allclose(got[:dim], generic, atol=1e-4)
    distance = [(point - theta) @ A @ (point - theta) for point in (got[:dim], generic)]
    assert distance[0] <= distance[1] * (1 + 1e-7)


def test_projections_end_inside_the_ball():
    """Newton stops within 1e-12 of the sphere, from outside; the regret proof needs a point inside."""
    rng = np.random.default_rng(0)
    for dim in (2, 5, 9):
        kept = Factored(dim, 1.0)
        for _ in range(30):
            kept.absorb(rng.standard_normal(dim), 1.0)
            theta = rng.standard_normal(dim)
            got = kept.pad(theta * 4 * rng.uniform(1.0001, 3) / np.linalg.norm(theta))
            linalg.project_ball(got, kept.factor, kept.scale, 4.0, np.zeros((3, kept.width, kept.width)))
            assert np.linalg.norm(got) <= 4.0 * (1.0 + 4e-15)


@given(st.integers(1, 9), st.integers(0, 10**6))
def test_packed_outer_products_add_up(dim, seed):
    rng = np.random.default_rng(seed)
    packed, G = np.zeros(dim * (dim + 1) // 2), np.zeros((dim, dim))
    for _ in range(5):
        x, weight = rng.standard_normal(dim), rng.random()
        linalg.add_outer(packed, x, weight)
        G += weight * np.outer(x, x)
    np.testing.assert_allclose(packed, G[np.tril_indices(dim)], rtol=1e-12, atol=1e-14)
