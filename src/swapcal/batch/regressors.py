"""Which regressors a correction has, and products with them, visited without the zeros."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.features.frozen import Coded, Frozen
from swapcal.kernels.batch_design import (
    CENTRE,
    Design,
    Spots,
    blank_listing,
    design_dot,
    design_pull,
    design_square,
    sizes_of,
    spots_of,
)

KNOTS = (0.1, 0.3, 0.5, 0.7, 0.9)
PAIR_ROWS, MOST_PAIRS = 50, 150
WITH_SCORE = (0.5, 0.5, 0.3, 0.3, 0.3)
WITHOUT_SCORE = (0.0, 1.0, 0.0, 0.5, 1.0)
"""Prior standard deviation, in log-odds, of hinges, categories, group slopes, group pairs and numbers, for λ = 1."""
ENOUGH_TO_STEP = 8000
"""Rows outside a fold that tell a curvature well enough to step by.

With fewer, steps from one penalty to another went astray and too large ones were chosen.
"""


def plan(features: Frozen, rows: Coded, given: Array, scored: bool) -> tuple[Design, int]:
    """Return where each regressor goes and how many there are.

    Hinges of the logit bend the score; groups get an offset and a slope of their own, and an offset for each
    intersection of two groups with at least 50 rows (the 150 largest).
    """
    groups = features.groups if rows.codes.size else []
    codes = max([category.size for category in features.categories], default=1)
    knots = np.unique(np.quantile(given, KNOTS)) if scored and len(given) else np.empty(0)
    width = 2 + len(knots)
    numeric = np.arange(width, width + rows.Z.shape[1])
    width += len(numeric)
    category, width = _places(features, codes, range(len(features.categories)), width)
    slope, width = _places(features, codes, groups if scored else [], width)
    pairs = [(a, b) for i, a in enumerate(groups) for b in groups[i + 1 :]]
    pair, width = _pair_places(rows.codes, pairs, codes, width)
    scales = np.array([*(WITH_SCORE if scored else WITHOUT_SCORE), float(given.mean()) if len(given) else 0.0])
    left, right = (np.array([p[side] for p in pairs], np.int64) for side in (0, 1))
    return Design(knots, numeric, category, slope, left, right, pair, scales), width


def _places(features: Frozen, codes: int, columns: "range | list[int]", width: int) -> tuple[Integers, int]:
    places = np.full((len(features.categories), codes), -1, np.int64)
    for column in columns:
        size = features.categories[column].size
        places[column, :size] = np.arange(width, width + size)
        width += size
    return places, width


def _pair_places(found: Integers, pairs: list[tuple[int, int]], codes: int, width: int) -> tuple[Integers, int]:
    counts, columns = np.zeros((len(pairs), codes, codes), np.int64), np.ascontiguousarray(found.T) + 1  # 0 is none
    for q, (a, b) in enumerate(pairs):
        both = np.bincount(columns[a] * (codes + 1) + columns[b], minlength=(codes + 1) ** 2)
        counts[q] = both.reshape(codes + 1, codes + 1)[1:, 1:]
    large = np.flatnonzero(counts >= PAIR_ROWS)
    order = np.sort(large[np.argsort(-counts.ravel()[large], kind="stable")[:MOST_PAIRS]])
    places = np.full(counts.size, -1, np.int64)
    places[order] = np.arange(width, width + len(order))
    return places.reshape(len(pairs), codes, codes), width + len(order)


@dataclass(frozen=True)
class Listed:
    """The rows' regressors, of which most are 0: kept is which ones are not."""

    design: Design
    width: int
    given: Array
    rows: Coded
    evenness: float = 1.0
    """How many rows of equal weight tell as much as the rows do, as a share of them."""
    others: int = 1
    """How many folds there are besides each."""

    @cached_property
    def _spots(self) -> Spots:
        return spots_of(self.design, self.rows.codes, self.width)

    @cached_property
    def _sizes(self) -> Array:
        return sizes_of(self.design, self.width)

    def dots(self, index: Integers, B: Array) -> Array:
        """Return each line of B times the regressors of some rows: (lines, rows)."""
        out, sized = np.empty((len(B), len(index))), np.column_stack([B, np.zeros(len(B))]) * self._sizes
        design_dot(self.design, self.given, self.rows.Z, self._spots, index, sized, out)
        return out

    def pull(self, index: Integers, R: Array) -> Array:
        """Return the sums of some rows' regressors, weighted by each line of R: (lines, width)."""
        sums = np.zeros((len(R), self.width + 1))
        design_pull(self.design, self.given, self.rows.Z, self._spots, index, R, sums)
        return np.asarray((sums * self._sizes)[:, :-1])

    def square(self, index: Integers, c: Array) -> Array:
        """Return the lower triangle of Σ c f fᵀ over the rows of a fold.

        Of many rows only the diagonal, on which categories that are rare depend, is exact; what is beside it comes from
        every so many of them, enough for steps that lead to the same place: of all of them where few have most weight.
        """
        every = max(1, round(self.evenness * self.others * len(index)) // ENOUGH_TO_STEP)
        found = self._square(index[::every], np.ascontiguousarray(c[::every]))
        if every > 1:
            seen, whole = found.diagonal(), self.diagonal(index, c)
            up = np.sqrt(np.divide(whole, seen, out=np.zeros(self.width), where=seen > 0.0))
            found *= up[:, None] * up
            np.fill_diagonal(found, whole)
        return found

    def _square(self, index: Integers, c: Array) -> Array:
        design, room, out = self.design, blank_listing(self.design, self._spots), np.zeros((self.width, self.width))
        design_square(design, self.given, self.rows.Z, self._spots, index, c, self._sizes, room, out)
        return out

    def diagonal(self, index: Integers, c: Array) -> Array:
        """Return Σ c f² of some rows, for each regressor."""
        logits, slopes = self.given[index], self.design.slope[self.design.slope >= 0]
        sums = np.zeros((2, self.width + 1))
        weights = np.stack([c, c * (logits - self.design.scales[CENTRE])])
        design_pull(self.design, self.given, self.rows.Z, self._spots, index, weights, sums)
        sums[0, slopes] = sums[1, slopes]
        bent = np.maximum(0.0, logits[:, None] - self.design.knots)
        numbers = np.column_stack([np.ones(len(index)), logits, bent, self.rows.Z[index]])
        sums[0, : numbers.shape[1]] = c @ numbers**2
        return np.asarray((sums[0] * self._sizes**2)[:-1])

    def written_out(self) -> Array:
        """Return all of them, zeros too: (n, width)."""
        out, everyone = np.zeros((len(self.given), self.width + 1)), np.arange(len(self.given))[:, None]
        out[:, 0], out[:, 1] = 1.0, self.given
        out[:, 2 : 2 + len(self.design.knots)] = np.maximum(0.0, self.given[:, None] - self.design.knots)
        out[:, self.design.numeric] = self.rows.Z
        out[everyone, self._spots.coded] = 1.0
        out[everyone, self._spots.sloped] = self.given[:, None] - self.design.scales[CENTRE]
        return np.asarray((out * self._sizes)[:, :-1])


@dataclass(frozen=True)
class Turned:
    """The same of rows in an orthonormal basis of all of them, (n, n): nothing is 0 there."""

    F: Array

    def dots(self, index: Integers, B: Array) -> Array:
        """Return (lines, rows), as of `Listed`."""
        return np.asarray(B @ self.F[index].T)

    def pull(self, index: Integers, R: Array) -> Array:
        """Return (lines, width), as of `Listed`."""
        return np.asarray(R @ self.F[index])

    def square(self, index: Integers, c: Array) -> Array:
        """Return Σ c f fᵀ, both triangles of it."""
        return np.asarray((self.F[index].T * c) @ self.F[index])
