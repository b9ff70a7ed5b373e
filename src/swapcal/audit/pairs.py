"""Pairs: what a comparison keeps of rows that two predictors judged, additive."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import NamedTuple, Self

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.logloss import log_losses
from swapcal.tables.categories import Categories

_FINE = np.array([0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05])
EDGES = np.concatenate([_FINE, np.arange(1, 10) / 10, 1.0 - _FINE[::-1]])
"""Between the ranges of forecasts over which calibration is compared: tenths, and finer near 0 and 1.

They are fixed, so that sums of parts add up, and the same for both predictors.
"""

RANGES = len(EDGES) + 1


MASS, MASS2, OBSERVED, R, S, R2, S2, RR, SS, RS, NULL, EXPECTED, ROWS = range(13)
"""Columns of the sums, with r = y − a and s = y − b the residuals of the two predictors and m = (a + b)/2.

Σα, Σα², Σαy, Σαr, Σαs, Σα²r, Σα²s, Σα²r², Σα²s², Σα²rs, Σα²m(1 − m) (or Σα²(y − m)² where 0 < y < 1), Σα·min(m, 1 − m),
number of rows.
"""

SUMS = 13
LOSSES = ("Brier score", "log loss")


class PairCell(NamedTuple):
    """Sums of one group by ranges: `before` and `after` (cells,) say in which range each predictor put the rows."""

    before: Integers
    after: Integers
    sums: Array


class PairColumn:
    """Sums per category and pair of ranges; only cells that hold rows are kept."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.keys: Integers = np.zeros(0, np.int64)
        self.sums: Array = np.zeros((0, SUMS))

    def add(self, names: list[str], codes: Integers, ranges: Integers, terms: Array) -> None:
        """Add rows: their category's place in `names`, their pair of ranges, and their terms (rows, SUMS)."""
        keys, place = np.unique(self._known(names)[codes] * RANGES**2 + ranges, return_inverse=True)
        sums = np.stack(
            [np.bincount(place, weights=term, minlength=len(keys)) for term in terms.T], axis=1, dtype=float
        )
        self._merge(keys, sums)

    def merge(self, other: "PairColumn") -> None:
        """Add what another column holds."""
        code, ranges = np.divmod(other.keys, RANGES**2)
        self._merge(self._known(other.names)[code] * RANGES**2 + ranges, other.sums)

    def each(self) -> list[tuple[str, PairCell]]:
        """Return every category with its cells, in alphabetical order."""
        code, ranges = np.divmod(self.keys, RANGES**2)
        before, after = np.divmod(ranges, RANGES)
        ends = np.searchsorted(code, np.arange(len(self.names) + 1))  # keys increase
        places = [slice(int(ends[k]), int(ends[k + 1])) for k in range(len(self.names))]
        cells = [PairCell(before[part], after[part], self.sums[part]) for part in places]
        return sorted(zip(self.names, cells, strict=True), key=lambda pair: pair[0])

    def within(self) -> PairCell:
        """Return the cells of all categories, each category's ranges counted as ranges of their own."""
        code, ranges = np.divmod(self.keys, RANGES**2)
        before, after = np.divmod(ranges, RANGES)
        return PairCell(code * RANGES + before, code * RANGES + after, self.sums)

    def _known(self, names: list[str]) -> Integers:
        self.names = list(dict.fromkeys([*self.names, *names]))
        place = {name: code for code, name in enumerate(self.names)}
        return np.array([place[name] for name in names], np.int64)

    def _merge(self, keys: Integers, sums: Array) -> None:
        self.keys, place = np.unique(np.concatenate([self.keys, keys]), return_inverse=True)
        both = np.concatenate([self.sums, sums])
        self.sums = np.zeros((len(self.keys), SUMS))
        np.add.at(self.sums, place, both)


class Pairs:
    """Sums over rows of two predictors: their losses, and per group their residuals by pair of ranges.

    `losses` has one row per loss of `LOSSES`: Σαd, Σα²d, Σα²d², Σα·before, Σα·after, with d = after − before, and Σα²
    times the variance of d where outcomes make the two equally good.
    """

    def __init__(self) -> None:
        self.everyone = PairColumn()
        self.columns: dict[str, PairColumn] = {}
        self.losses: Array = np.zeros((len(LOSSES), 6))

    def add(self, a: Array, b: Array, y: Array, weights: Array, groups: Mapping[str, Categories]) -> None:
        """Add checked rows with predictions a (before) and b (after)."""
        if not len(y):
            return
        terms = _terms(a, b, y, weights)
        ranges = np.searchsorted(EDGES, a, side="right") * RANGES + np.searchsorted(EDGES, b, side="right")
        self.everyone.add(["all rows"], np.zeros(len(y), np.int64), ranges, terms)
        for name, column in groups.items():
            self.columns.setdefault(name, PairColumn()).add(column.names, column.codes.astype(np.int64), ranges, terms)
        self.losses += [_loss_sums(loss, a, b, y, weights) for loss in (_squares, log_losses)]

    def __add__(self, other: "Pairs") -> Self:
        whole = deepcopy(self)
        whole.everyone.merge(other.everyone)
        for name, column in other.columns.items():
            whole.columns.setdefault(name, PairColumn()).merge(column)
        whole.losses += other.losses
        return whole


def _terms(a: Array, b: Array, y: Array, weights: Array) -> Array:
    r, s, m, heavy = y - a, y - b, (a + b) / 2, weights**2
    null = np.where((y > 0) & (y < 1), (y - m) ** 2, m * (1 - m))
    rarer = np.minimum(m, 1 - m)
    ones = np.ones(len(y))
    terms = [weights, heavy, weights * y, weights * r, weights * s, heavy * r, heavy * s]
    return np.stack([*terms, heavy * r * r, heavy * s * s, heavy * r * s, heavy * null, weights * rarer, ones], axis=1)


def _squares(p: Array, y: Array) -> Array:
    return (y - p) ** 2


def _loss_sums(loss: Callable[[Array, Array], Array], a: Array, b: Array, y: Array, weights: Array) -> list[float]:
    """Return a row of `Pairs.losses`.

    d is linear in the outcome, with ends d_0 ≤ 0 ≤ d_1 or the reverse: a chance of −d_0/(d_1 − d_0) makes its mean 0
    and its variance −d_0·d_1.
    """
    before, after, heavy = loss(a, y), loss(b, y), weights**2
    d = after - before
    none, all_ = np.zeros(len(y)), np.ones(len(y))
    equal = np.maximum(-(loss(b, none) - loss(a, none)) * (loss(b, all_) - loss(a, all_)), 0.0)
    null = np.where((y > 0) & (y < 1), d * d, equal)
    parts = (weights * d, heavy * d, heavy * d * d, weights * before, weights * after, heavy * null)
    return [float(part.sum()) for part in parts]
