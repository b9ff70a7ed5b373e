"""Swap agnostic learning by boosting inside levels (Gopalan, Kim, Reingold 2023)."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array, Places
from swapcal.baselines.table_rows import checked, row_products
from swapcal.faces import counted, face


class Step(NamedTuple):
    """Add ⟨theta, x⟩ to the predictions that lie in a level."""

    level: int
    theta: Array


class SwapAgnostic:
    """Audit each level with a weak learner; where it correlates with the residual, move the predictions along it.

    The weak learner is exact over the linear functions c(x) = ⟨θ,x⟩, ‖θ‖ ≤ 1, on rows scaled into the unit ball beside
    a constant: the best correlation with the residual on level v is ‖E[(y - p)x | v]‖. The step along it that lowers
    the level's mean squared error most lowers it by at least the square of the correlation, because E[c²] ≤ 1. It stops
    when no level of mass at least γ correlates by more than α, which is swap multicalibration against this class, up to
    the width of the levels.

    Parameters
    ----------
    alpha : largest correlation tolerated.
    levels : number of equally wide levels.
    gamma : smallest share of the rows that makes a level count.
    most : steps, at most.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 400)[:, None]
    >>> p, truth = np.full(400, 0.5), 0.5 + 0.4 * x[:, 0]
    >>> model = SwapAgnostic(alpha=0.01).fit(p, x, truth)
    >>> bool(abs(model.predict(p, x) - truth).mean() < 0.05 < abs(p - truth).mean())
    True
    """

    def __init__(self, *, alpha: float = 0.005, levels: int = 20, gamma: float = 0.002, most: int = 5000) -> None:
        self.alpha, self.levels, self.gamma, self.most = alpha, levels, gamma, most
        self.steps: list[Step] = []
        self._scale = 1.0

    def __repr__(self) -> str:
        return f"SwapAgnostic(alpha={self.alpha:g}, levels={self.levels}; {counted(len(self.steps), 'step')})"

    def _repr_html_(self) -> str:
        facts = {"largest correlation tolerated": f"{self.alpha:g}", "levels": self.levels}
        return face("SwapAgnostic", f"a baseline with {counted(len(self.steps), 'step')}", facts)

    def fit(self, p: ArrayLike, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the steps from predictions p (n,), rows X (n, d) and labels y (n,)."""
        p, rows, labels = checked(p, X, y)
        self._scale = float(np.sqrt(0.75) / max(np.linalg.norm(rows, axis=1).max(initial=0.0), 1e-12))
        C, self.steps = self._contexts(rows), []
        while len(self.steps) < self.most and (step := self._violation(p, C, labels)) is not None:
            self._apply(step, p, C)
            self.steps.append(step)
        return self

    def predict(self, p: ArrayLike, X: ArrayLike) -> Array:
        """Return the predictions after all steps."""
        p, rows, _ = checked(p, X)
        C = self._contexts(rows)
        for step in self.steps:
            self._apply(step, p, C)
        return p

    def correlations(self, p: Array, C: Array, y: Array) -> tuple[Array, Array]:
        """Return each level's E[(y - p)x] (levels, d) and its share of the rows (levels,)."""
        level = self._level(p)
        count = np.bincount(level, minlength=self.levels)
        residual = np.zeros((len(p), self.levels))
        residual[np.arange(len(p)), level] = y - p
        return (residual.T @ C) / np.maximum(count, 1)[:, None], count / max(len(p), 1)

    def _violation(self, p: Array, C: Array, y: Array) -> Step | None:
        """Return the step that lowers the squared error most, among levels heavy and wrong enough."""
        direction, share = self.correlations(p, C, y)
        size = np.linalg.norm(direction, axis=1)
        gain = np.where((size > self.alpha) & (share >= self.gamma), share * size**2, 0.0)
        worst = int(np.argmax(gain))
        if gain[worst] <= 0.0:
            return None
        c = row_products(C[self._level(p) == worst], direction[worst])
        return Step(worst, direction[worst] * (size[worst] ** 2 / np.mean(c**2)))

    def _apply(self, step: Step, p: Array, C: Array) -> None:
        rows = np.flatnonzero(self._level(p) == step.level)
        p[rows] = np.clip(p[rows] + row_products(C[rows], step.theta), 0.0, 1.0)

    def _level(self, p: Array) -> Places:
        return np.minimum((p * self.levels).astype(np.intp), self.levels - 1)

    def _contexts(self, rows: Array) -> Array:
        return np.hstack([np.full((len(rows), 1), 0.5), rows * self._scale])
