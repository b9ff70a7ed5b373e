"""Forecasts, outcomes and contexts, checked and sorted by level."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array, Places
from swapcal.losses.error import LossError


@dataclass(frozen=True)
class LevelRows:
    """Rows in order of their level v = p; `order` leads back to the caller's rows.

    Every distinct forecast is a level: round continuous forecasts first if levels should hold more than a
    row.
    """

    p: Array
    y: Array
    X: Array
    weight: Array
    order: Places
    starts: Places

    @staticmethod
    def of(p: ArrayLike, y: ArrayLike, X: ArrayLike, weight: ArrayLike | None = None) -> "LevelRows":
        """Check shapes and ranges, then sort.

        `weight` counts a row that many times; probabilities of being issued turn realised errors into
        pseudo errors.
        """
        contexts = np.atleast_2d(np.asarray(X, dtype=float))
        count = len(contexts)
        forecasts, outcomes = (_column(v, count, name) for v, name in ((p, "forecast p"), (y, "outcome y")))
        weights = np.ones(count) if weight is None else _column(weight, count, "weight", top=np.inf)
        _check_norms(contexts)
        order = np.argsort(forecasts, kind="stable")
        ranked = forecasts[order]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
        return LevelRows(ranked, outcomes[order], contexts[order], weights[order], order, starts)

    @property
    def levels(self) -> Array:
        """The distinct forecasts, increasing."""
        return self.p[self.starts]

    def slices(self) -> Iterator[slice]:
        """Rows of each level, in the order of `levels`."""
        ends = np.r_[self.starts[1:], len(self.p)]
        return (slice(start, stop) for start, stop in zip(self.starts, ends, strict=True))

    def residual_sums(self) -> tuple[Array, Array]:
        """A_v = Σ w (y − v) and g_v = Σ w (y − v) x, shapes (levels,) and (levels, d)."""
        residual = self.weight * (self.y - self.p)
        return np.add.reduceat(residual, self.starts), np.add.reduceat(residual[:, None] * self.X, self.starts)


def _column(values: ArrayLike, count: int, name: str, top: float = 1.0) -> Array:
    array = np.asarray(values, dtype=float)
    if array.shape != (count,) or not count:
        raise LossError.of(name, f"shape {array.shape}", f"({count},), one number per row of X")
    wrong = ~((array >= 0.0) & (array <= top) & np.isfinite(array))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LossError.of(name, array[row], f"a number in [0, {top:g}]", row + 1)
    return array


def _check_norms(X: Array) -> None:
    if X.ndim != 2:
        raise LossError.of("X", f"shape {X.shape}", "(rows, d)")
    norms = np.linalg.norm(X, axis=1)
    wrong = ~(norms <= 1.0 + 1e-9)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LossError.of("X", f"norm {norms[row]:.6g}", "at most 1", row + 1)
