"""Levels: which predictions are judged together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from swapcal.arrays import Array, Index

MOST_VALUES = 256
"""Up to this many distinct predictions each one is a level of its own."""

DEFAULT_LEVELS = 51
"""Beyond that, this many intervals of equal width are the levels."""


@dataclass(frozen=True)
class Levels:
    """The levelling rule: few distinct predictions are kept exactly, many fall into intervals.

    The rule depends on the set of predictions alone, not on their order or on how they were split into
    batches, and intervals are unions of values; so sums over rows move from values to intervals exactly.

    Attributes
    ----------
    edges : (N + 1,) ends of the intervals [e_i, e_{i+1}), the last one closed
    values : the distinct predictions seen so far, or None once intervals are in use
    """

    edges: tuple[float, ...]
    values: tuple[float, ...] | None

    @classmethod
    def declare(cls, levels: int | Sequence[float] | None) -> Self:
        """Start from a number of intervals, their edges, or None for the default rule.

        Examples
        --------
        >>> Levels.declare(4).index(np.array([0.1, 0.5, 1.0]))
        array([0, 2, 3], dtype=int32)
        """
        if levels is None:
            return cls(_uniform(DEFAULT_LEVELS), ())
        if isinstance(levels, int | np.integer):
            if levels < 1:
                raise ValueError(f"levels: given {levels}, expected at least 1")
            return cls(_uniform(int(levels)), None)
        edges = np.asarray(levels, dtype=float)
        if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or (np.diff(edges) <= 0).any():
            raise ValueError(f"levels: given {list(levels)}, expected increasing edges from 0 to 1")
        return cls(tuple(edges.tolist()), None)

    def __len__(self) -> int:
        return len(self.edges) - 1 if self.values is None else len(self.values)

    def grow(self, p: Array) -> Self:
        """Return the levels needed once `p` has been seen too."""
        if self.values is None or len(p) == 0:
            return self
        if len(np.unique(p[: 4 * MOST_VALUES])) > MOST_VALUES:  # spares sorting a long continuous column
            return type(self)(self.edges, None)
        known = np.asarray(self.values)
        place = np.searchsorted(known, p)
        new = p[known[np.minimum(place, len(known) - 1)] != p] if len(known) else p
        return self.join(np.unique(new).tolist())

    def join(self, values: Sequence[float] | None) -> Self:
        """Return the levels for these values and those of another set (None: intervals)."""
        if self.values is None or values is None:
            return type(self)(self.edges, None)
        union = tuple(sorted({*self.values, *values}))
        return type(self)(self.edges, union if len(union) <= MOST_VALUES else None)

    def index(self, p: Array) -> Index:
        """Level of each prediction."""
        if self.values is not None:
            return np.searchsorted(np.asarray(self.values), p).astype(np.int32)
        count = len(self.edges) - 1
        if self.edges == _uniform(count):
            return equal_part(p, count)
        return np.searchsorted(np.asarray(self.edges[1:-1]), p, side="right").astype(np.int32)

    def bounds(self, level: int) -> tuple[float, float]:
        """Smallest and largest prediction the level can hold."""
        if self.values is not None:
            return self.values[level], self.values[level]
        return self.edges[level], self.edges[level + 1]

    def describe(self) -> str:
        """Say the rule in one sentence."""
        if self.values is not None:
            return f"Each of the {len(self.values)} distinct predictions is a level of its own."
        return (
            f"Predictions fall into {len(self)} intervals; every residual uses the prediction itself, not the interval."
        )


def equal_part(p: Array, count: int) -> Index:
    """Return in which of so many equal parts of [0, 1] each number lies; 1 lies in the last."""
    return np.minimum((p * count).astype(np.int32), np.int32(count - 1))


def _uniform(count: int) -> tuple[float, ...]:
    return tuple((np.arange(count + 1) / count).tolist())
