"""Numerics of long streams: A⁻¹ stays symmetric positive definite and close to a high-precision reference.

Contexts come from a small set, so that each level's A = λI + Σ α x xᵀ is known from one total weight per context,
whatever the length of the stream. Errors are relative in every direction at once: the eigenvalues of Lᵀ P L, A = L Lᵀ,
are all 1 for the exact inverse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from swapcal import Forecaster
from swapcal.arrays import Array
from swapcal.engine import state as memory
from swapcal.kernels.linalg import unpack
from tests.adversaries import contexts

Wide = np.longdouble
CHUNK = 1_000_000


def ordinary(rng: np.random.Generator, dim: int) -> Array:
    return contexts(rng, 12, dim)


def collinear(rng: np.random.Generator, dim: int) -> Array:
    """Coordinates that repeat the first two: most directions are never visited."""
    X = np.full((12, dim), 0.5)
    X[:, 1:] = rng.uniform(-1, 1, (12, 1)) * np.sqrt(0.74 / (dim - 1))
    return X


def constant(rng: np.random.Generator, dim: int) -> Array:
    return np.tile(ordinary(rng, dim)[:1], (3, 1))


def tiny(rng: np.random.Generator, dim: int) -> Array:
    """All but the constant are of size 1e-8."""
    X = ordinary(rng, dim)
    X[:, 1:] *= 1e-8
    return X


def mixed_scales(rng: np.random.Generator, dim: int) -> Array:
    X = ordinary(rng, dim)
    X[:, 1:] *= 10.0 ** -np.arange(dim - 1)
    return X


def one_hot(rng: np.random.Generator, dim: int) -> Array:
    """Indicators that add up to the constant, hence exactly collinear."""
    X = np.zeros((dim - 1, dim))
    X[:, 0] = 0.5
    X[:, 1:] = 0.8 * np.eye(dim - 1)
    return X


def nearly_collinear(rng: np.random.Generator, dim: int) -> Array:
    X = collinear(rng, dim)
    X[:, 1:] += 1e-7 * rng.standard_normal((12, dim - 1))
    return X


STREAMS = {f.__name__: f for f in (ordinary, collinear, nearly_collinear, constant, tiny, mixed_scales, one_hot)}
LABELS = ("coins", "all one", "all zero")


class Totals:
    """Per level and context of the set: Σα and Σαy, accumulated in extended precision."""

    def __init__(self, kinds: int) -> None:
        self.weight: dict[float, Array] = defaultdict(lambda: np.zeros(kinds, Wide))
        self.labelled: dict[float, Array] = defaultdict(lambda: np.zeros(kinds, Wide))

    def add(self, forecasts: Any, kind: Array, y: Array) -> None:
        for level, weight in ((forecasts.low, 1.0 - forecasts.weight), (forecasts.high, forecasts.weight)):
            levels, place = np.unique(level, return_inverse=True)
            kinds = len(self.weight[levels[0]])
            for total, values in ((self.weight, weight), (self.labelled, weight * y)):
                sums = np.bincount(place * kinds + kind, values, len(levels) * kinds).reshape(-1, kinds)
                for z, row in zip(levels.tolist(), sums, strict=True):
                    total[z] += row


def played(forecaster: Forecaster, X: Array, labels: str, rows: int, seed: int = 0) -> Totals:
    rng = np.random.default_rng(seed)
    chance = np.clip(0.3 + X @ rng.standard_normal(X.shape[1]), 0.05, 0.95)
    totals = Totals(len(X))
    for size in pieces(rows):
        kind = rng.integers(len(X), size=size)
        coins = (rng.random(size) < chance[kind]).astype(float)
        y = {"coins": coins, "all one": np.ones(size), "all zero": np.zeros(size)}[labels]
        totals.add(forecaster.run(X[kind], y), kind, y)
    return totals


def pieces(rows: int) -> Iterator[int]:
    for start in range(0, rows, CHUNK):
        yield min(CHUNK, rows - start)


def cholesky(A: Array) -> Array:
    L = np.zeros_like(A)
    for j in range(len(A)):
        column = A[j:, j] - L[j:, :j] @ L[j, :j]
        L[j:, j] = column / np.sqrt(column[0])
    return L


def back(L: Array, b: Array) -> Array:
    """Solve L Lᵀ x = b."""
    x = b.copy()
    for i in range(len(L)):
        x[i] = (x[i] - L[i, :i] @ x[:i]) / L[i, i]
    for i in reversed(range(len(L))):
        x[i] = (x[i] - L[i + 1 :, i] @ x[i + 1 :]) / L[i, i]
    return x


class Accuracy:
    """The worst errors over all levels, against extended precision."""

    def __init__(self, forecaster: Forecaster, totals: Totals, X: Array, ridge: float) -> None:
        state, dim = forecaster._state, forecaster.dim
        wide = X.astype(Wide)
        self.inverse = self.wish = self.gram = 0.0
        self.definite = bool(np.all(state.scale > 0) and np.all(np.isfinite(state.factor)))
        for slot in memory.slots_in_order(state):
            weight, labelled = (part[float(state.z[slot])] for part in (totals.weight, totals.labelled))
            G = (wide.T * weight) @ wide
            L = cholesky(G + Wide(ridge) * np.eye(dim, dtype=Wide))
            U = unpack(state.factor[slot], state.scale.shape[1])[:dim].astype(Wide)
            half = (L.T @ U) * np.sqrt(state.scale[slot].astype(Wide))
            gap = half @ half.T - np.eye(dim, dtype=Wide)
            self.inverse = max(self.inverse, float(np.abs(np.linalg.eigvalsh(gap.astype(float))).max()))
            theta = back(L, Wide(ridge) * state.prior[slot, :dim].astype(Wide) + wide.T @ labelled)
            self.wish = max(self.wish, float(np.abs(wide @ (state.theta[slot, :dim] - theta)).max()))
            error = np.abs(memory.gram(state, slot, dim) - G).max() / max(np.trace(G), Wide(1e-5))
            self.gram = max(self.gram, float(error))

    def check(self) -> None:
        assert self.definite
        assert self.inverse < 1e-6
        assert self.wish < 1e-6
        assert self.gram < 1e-9


def measure(name: str, dim: int, labels: str, rows: int, ridge: float = 1.0, **options: Any) -> Accuracy:
    X = STREAMS[name](np.random.default_rng(1), dim)
    forecaster = Forecaster(dim, ridge=ridge, **options)
    totals = played(forecaster, X, labels, rows)
    assert forecaster.rounds == rows
    return Accuracy(forecaster, totals, X, ridge)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", STREAMS)
def test_inverses_after_many_updates(name, labels):
    measure(name, 6, labels, 20_000).check()


@pytest.mark.parametrize("ridge", [1e-3, 1e3])
@pytest.mark.parametrize("name", STREAMS)
def test_inverses_with_a_weak_and_a_strong_start(name, ridge):
    measure(name, 5, "coins", 20_000, ridge=ridge, levels=3).check()


@pytest.mark.parametrize("name", ["ordinary", "collinear", "one_hot"])
def test_inverses_after_a_million_updates(name):
    measure(name, 4, "coins", 1_000_000).check()


@pytest.mark.parametrize("name", ["ordinary", "one_hot"])
@pytest.mark.parametrize("dim", [60, 200])
def test_inverses_in_many_dimensions(name, dim):
    measure(name, dim, "coins", 1000, levels=1).check()


@pytest.mark.parametrize("learner", ["vaw", "ridge"])
def test_uniform_levels_and_other_learners(learner):
    measure("mixed_scales", 7, "coins", 50_000, levels=10, learner=learner).check()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        *((name, 10**7) for name in STREAMS),
        *((name, 10**8) for name in ("ordinary", "collinear", "constant", "one_hot")),
    ],
)
def test_inverses_after_up_to_a_hundred_million_updates(name, rows):
    accuracy = measure(name, 4, "coins", rows)
    print(f"{name}: {rows:.0e} rows, inverse {accuracy.inverse:.1e}, wish {accuracy.wish:.1e}, G {accuracy.gram:.1e}")
    accuracy.check()
