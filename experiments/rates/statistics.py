"""Every error of rounds, realised or weighted by issued probabilities, from the statistics that an audit keeps."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from swapcal import errors
from swapcal.arrays import Array
from swapcal.audit.levels import Levels
from swapcal.audit.sums import Tally


class IssuedLevels(Levels):
    """Every value issued is a level, however many there are: the theorems are about values, not intervals."""

    def grow(self, p: Array) -> Self:
        """Return the levels needed once `p` has been issued too."""
        return self.join(np.unique(p).tolist())

    def join(self, values: Sequence[float] | None) -> Self:
        """Return the levels for these values too."""
        return type(self)(self.edges, tuple(sorted({*(self.values or ()), *(values or ())})))


class LevelSums:
    """An audit's tally of every level met so far.

    Examples
    --------
    >>> sums = LevelSums(dim=1)
    >>> sums.add(np.array([0.5, 0.5]), np.full((2, 1), 0.5), np.array([1.0, 1.0]))
    >>> sums.errors()["SMCal_2"]
    0.5
    """

    def __init__(self, dim: int) -> None:
        self._tally = Tally(IssuedLevels((0.0, 1.0), ()), dim)

    def add(self, p: Array, X: Array, y: Array, weights: Array | None = None) -> None:
        """Add rounds that issued p, each once or with a weight."""
        self._tally.add(p, y, np.ones(len(p)) if weights is None else weights, X, {})

    def add_mixture(self, levels: Array, mixes: Array, X: Array, y: Array) -> None:
        """Add rounds that issued level i with probability mixes[:, i]."""
        for value, weights in zip(levels, mixes.T, strict=True):
            rows = np.flatnonzero(weights)
            self.add(np.full(len(rows), value), X[rows], y[rows], weights[rows])

    def errors(self) -> dict[str, float]:
        """Return SMCal_2, SMCal_1, SReg and SOmni of the sums; of their pseudo versions if they were weighted."""
        v, n, A, g, G = (getattr(self._tally, name) for name in ("v", "n", "A", "g", "G"))
        return {
            "SMCal_2": errors.smcal_linear(n, g, 2),
            "SMCal_1": errors.smcal_linear(n, g, 1),
            "SReg": float(errors.swap_regret(v, g, G)[0].sum()),
            "SOmni": errors.somni(v, A, g).total,
        }
