"""Contexts, and label rules that may read the forecast before they choose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from swapcal.arrays import Array

Rule = Callable[[int, Array, Any], float]


def contexts(rng: np.random.Generator, rows: int, dim: int) -> Array:
    """Draw contexts in X: first coordinate ½, norm at most 1."""
    X = np.full((rows, dim), 0.5)
    tail = rng.standard_normal((rows, dim - 1))
    length = np.maximum(np.linalg.norm(tail, axis=1, keepdims=True), 1e-12)
    X[:, 1:] = tail / length * np.sqrt(0.75) * rng.random((rows, 1)) ** 0.3
    return X


def labels(rng: np.random.Generator, X: Array) -> Array:
    """Draw labels whose mean is a clipped linear function of the context."""
    theta = rng.standard_normal(X.shape[1])
    return (rng.random(len(X)) < np.clip(0.4 + X @ theta, 0.02, 0.98)).astype(float)


def along_the_witness() -> Rule:
    """Push the residual vector of the likelier level further in the direction it already has."""
    residual: dict[float, Array] = defaultdict(lambda: np.zeros(1))

    def rule(t: int, x: Array, forecast: Any) -> float:
        likelier = forecast.high if forecast.weight > 0.5 else forecast.low
        y = float(np.sum(residual[likelier] * x) >= 0)
        for level, weight in ((forecast.low, 1 - forecast.weight), (forecast.high, forecast.weight)):
            residual[level] = residual[level] + weight * (y - level) * x
        return y

    return rule


def rules(rng: np.random.Generator, rows: int, dim: int) -> dict[str, Rule]:
    """Return every label rule by name."""
    theta = rng.standard_normal(dim)
    coins = rng.random(rows)
    return {
        "oppose the mean": lambda t, x, f: float(f.mean < 0.5),
        "oppose the issued level": lambda t, x, f: float(f.p < f.mean or (f.p == f.mean and f.p < 0.5)),
        "oppose near the mean": lambda t, x, f: float(coins[t] > f.mean),
        "along the witness": along_the_witness(),
        "random": lambda t, x, f: float(coins[t] < np.clip(0.5 + x @ theta, 0, 1)),
        "real-valued": lambda t, x, f: float(coins[t]),
        "drifting": lambda t, x, f: float(coins[t] < np.clip(0.5 + np.sin(9 * t / rows) * (x @ theta), 0, 1)),
        "all zero": lambda t, x, f: 0.0,
        "all one": lambda t, x, f: 1.0,
        "all equal": lambda t, x, f: 0.37,
    }


RULES = tuple(rules(np.random.default_rng(0), 1, 1))
