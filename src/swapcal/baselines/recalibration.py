"""The two standard recalibrations of the score alone, isotonic regression and a sigmoid; and logistic regression."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from swapcal.arrays import Array
from swapcal.kernels.tally import FLOOR

STEPS = 50
"""Largest number of Newton steps; a few are enough."""


class Isotonic:
    """Least squares over monotone functions of the score, linear between the scores seen.

    Examples
    --------
    >>> Isotonic().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]).predict([0.1, 0.25, 0.9])
    array([0. , 0.5, 1. ])
    """

    def __init__(self) -> None:
        self._at, self._values = np.array([0.0, 1.0]), np.array([0.0, 1.0])

    def fit(self, p: ArrayLike, y: ArrayLike) -> Self:
        """Learn from scores (n,) in [0, 1] and outcomes (n,)."""
        scores, back = np.unique(np.asarray(p, dtype=np.float64), return_inverse=True)
        weight = np.bincount(back).astype(np.float64)
        means = np.bincount(back, weights=np.asarray(y, dtype=np.float64)) / weight
        self._at, self._values = scores, np.clip(isotonic_regression(means, weights=weight).x, 0.0, 1.0)
        return self

    def predict(self, p: ArrayLike) -> Array:
        """Return recalibrated scores (n,)."""
        scores: Array = np.interp(np.asarray(p, dtype=np.float64), self._at, self._values)
        return scores

    def __repr__(self) -> str:
        return f"Isotonic({len(self._at):,} scores)"


class Sigmoid:
    """Logistic regression on the score's log-odds (Platt), which can leave the score as it is.

    Examples
    --------
    >>> y = np.repeat([0, 1, 0, 1], [80, 20, 20, 80])
    >>> Sigmoid().fit(np.repeat([0.4, 0.6], 100), y).predict([0.4, 0.6]).round(2)
    array([0.2, 0.8])
    """

    PENALTY = 0.01
    """Weight of ‖b − (0, 1)‖²/2: with few rows it stays near the score as given."""

    def __init__(self) -> None:
        self._b = np.array([0.0, 1.0])

    def fit(self, p: ArrayLike, y: ArrayLike) -> Self:
        """Learn from scores (n,) in [0, 1] and outcomes (n,)."""
        self._b = _newton(_design(p), np.asarray(y, dtype=np.float64), np.array([0.0, 1.0]), np.full(2, self.PENALTY))
        return self

    def predict(self, p: ArrayLike) -> Array:
        """Return recalibrated scores (n,)."""
        probabilities: Array = expit(_design(p) @ self._b)
        return probabilities

    def __repr__(self) -> str:
        return f"Sigmoid(log-odds {self._b[0]:+.3g} {self._b[1]:+.3g} × those of the score)"


class LogisticRegression:
    """Ridge logistic regression on the score's log-odds and other columns, encoded as numbers.

    Examples
    --------
    >>> X = np.repeat([[0.0], [1.0]], 100, axis=0)
    >>> y = np.repeat([0, 1, 0, 1], [80, 20, 20, 80])
    >>> LogisticRegression().fit(np.full(200, 0.5), X, y).predict([0.5, 0.5], [[0.0], [1.0]]).round(2)
    array([0.22, 0.78])
    """

    PENALTY = 1.0
    """Weight of ‖b‖²/2 on the columns, scikit-learn's default; the score's has that of `Sigmoid`."""

    def __init__(self) -> None:
        self._b = np.array([0.0, 1.0])

    def fit(self, p: ArrayLike, X: Array, y: ArrayLike) -> Self:
        """Learn from scores (n,) in [0, 1], columns (n, d) and outcomes (n,)."""
        start = np.zeros(2 + np.shape(X)[1])
        start[1] = 1.0
        penalty = np.r_[np.full(2, Sigmoid.PENALTY), np.full(np.shape(X)[1], self.PENALTY)]
        self._b = _newton(np.column_stack([_design(p), X]), np.asarray(y, dtype=np.float64), start, penalty)
        return self

    def predict(self, p: ArrayLike, X: ArrayLike) -> Array:
        """Return probabilities (n,)."""
        probabilities: Array = expit(np.column_stack([_design(p), np.asarray(X, dtype=np.float64)]) @ self._b)
        return probabilities

    def __repr__(self) -> str:
        return f"LogisticRegression({len(self._b) - 2:,} columns beside the score)"


def _newton(X: Array, y: Array, start: Array, penalty: Array) -> Array:
    """Minimise the log loss plus Σ penalty·(b − start)²/2."""
    b = start.copy()
    for _ in range(STEPS):
        p = expit(X @ b)
        gradient = X.T @ (p - y) + penalty * (b - start)
        curvature = (X * (p * (1.0 - p))[:, None]).T @ X + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        b = b - step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return b


def _design(p: ArrayLike) -> Array:
    odds = logit(np.clip(np.asarray(p, dtype=np.float64), FLOOR, 1.0 - FLOOR))
    return np.column_stack([np.ones(len(odds)), odds])
