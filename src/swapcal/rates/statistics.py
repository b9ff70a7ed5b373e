"""Per-level sums over rounds, realised or weighted by issued probabilities, and every error from them."""

import numpy as np

from swapcal import errors
from swapcal.arrays import Array


class LevelSums:
    """n, g = Σ α(y − v)x and G = Σ α x xᵀ of every level met so far.

    Examples
    --------
    >>> sums = LevelSums(dim=1)
    >>> sums.add(np.array([0.5, 0.5]), np.full((2, 1), 0.5), np.array([1.0, 1.0]))
    >>> sums.errors()["SMCal_2"]
    0.5
    """

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._place: dict[float, int] = {}
        self._n: list[float] = []
        self._g: list[Array] = []
        self._G: list[Array] = []

    def add(self, p: Array, X: Array, y: Array) -> None:
        """Add rounds that issued p."""
        values, index = np.unique(p, return_inverse=True)
        order = np.argsort(index, kind="stable")
        ends = np.cumsum(np.bincount(index, minlength=len(values)))
        for value, rows in zip(values, np.split(order, ends[:-1]), strict=True):
            self._add_level(float(value), X[rows], y[rows], np.ones(len(rows)))

    def add_mixture(self, levels: Array, mixes: Array, X: Array, y: Array) -> None:
        """Add rounds that issued level i with probability mixes[:, i]."""
        for value, weight in zip(levels, mixes.T, strict=True):
            rows = np.flatnonzero(weight)
            if len(rows):
                self._add_level(float(value), X[rows], y[rows], weight[rows])

    def _add_level(self, value: float, X: Array, y: Array, weight: Array) -> None:
        k = self._place.setdefault(value, len(self._n))
        if k == len(self._n):
            self._n.append(0.0)
            self._g.append(np.zeros(self._dim))
            self._G.append(np.zeros((self._dim, self._dim)))
        self._n[k] += float(weight.sum())
        self._g[k] += (weight * (y - value)) @ X
        self._G[k] += (X * weight[:, None]).T @ X

    def errors(self) -> dict[str, float]:
        """Return SMCal_2, SMCal_1, SReg and SOmni of the sums; of their pseudo versions if they were weighted."""
        v, n = np.array(list(self._place)), np.array(self._n)
        g, G = np.array(self._g), np.array(self._G)
        return {
            "SMCal_2": errors.smcal_linear(n, g, 2),
            "SMCal_1": errors.smcal_linear(n, g, 1),
            "SReg": float(errors.swap_regret(v, g, G)[0].sum()),
            "SOmni": errors.somni(v, 2.0 * g[:, 0], g).total,
        }
