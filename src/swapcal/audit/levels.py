"""Bins of rows: levels of predictions, a fine histogram, bins over time and of numbers."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Self

import numpy as np
from scipy.fft import dct, idct

from swapcal.arrays import Array, Index
from swapcal.kernels.tally import BINS, SCALARS, SPECTRUM_BINS, add_groups, add_spectrum

# Levels: which predictions are pooled.

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
        """Return the levels for the predictions so far and `p`."""
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
        """Return the rule as a sentence."""
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


# The issued distributions: the levels that a randomised forecast could have issued, row by row.

ISSUED_SLACK = 1e-3
"""A prediction may differ by this from the mean of its distribution: files round numbers."""


@dataclass(frozen=True)
class Pseudo:
    """The issued distribution of each row: level v[t, k] with probability P[t, k]; both (rows, K)."""

    levels: Array
    shares: Array

    @classmethod
    def two(cls, p: Array, low: Array, high: Array, weight: Array) -> Self:
        """Return distributions on two levels: `high` with probability `weight`, else `low`."""
        distributions = cls(np.stack([low, high], axis=1), np.stack([1.0 - weight, weight], axis=1))
        return distributions.agreeing(
            p, " (1 − weight)·low + weight·high; other distributions go in whole: issued=(levels, P)"
        )

    def agreeing(self, p: Array, hint: str = "") -> Self:
        """Return the distributions. Raises ValueError where a prediction is neither their mean nor one of their levels.

        Examples
        --------
        >>> Pseudo.two(np.array([0.4]), np.array([0.2]), np.array([0.8]), np.array([0.5]))
        Traceback (most recent call last):
        ValueError: issued distribution: given p = 0.4 in row 1, expected one of its levels or its mean \
(1 − weight)·low + weight·high; other distributions go in whole: issued=(levels, P)
        """
        off = np.flatnonzero(np.abs(np.einsum("tk,tk->t", self.levels, self.shares) - p) > ISSUED_SLACK)
        drawn = (np.abs(self.levels[off] - p[off, None]) <= 1e-9) & (self.shares[off] > 0.0)
        bad = off[~drawn.any(axis=1)]
        if len(bad):
            given = f"given p = {p[bad[0]]:.12g} in row {bad[0] + 1}"
            raise ValueError(f"issued distribution: {given}, expected one of its levels or its mean{hint}")
        return self


# Histogram: a fine histogram of predictions and outcomes, for the familiar scores.

SMOOTH_CELLS = 2048
NARROW = 0.25


class Histogram:
    """Σα, Σαp and Σαy in bins of equal width in arcsin √p, and the summed log loss: additive.

    `impossible` is the number of rows whose outcome had predicted probability 0.
    """

    def __init__(self) -> None:
        self.bins: Array = np.zeros((SPECTRUM_BINS, 3))
        self.log_loss = 0.0
        self.impossible = 0

    def add(self, p: Array, y: Array, weights: Array) -> None:
        """Add checked rows."""
        self.log_loss += float(add_spectrum(p, y, weights, self.bins))
        self.impossible += int(np.sum((p <= 0.0) & (y > 0.0)) + np.sum((p >= 1.0) & (y < 1.0)))

    def merge(self, other: "Histogram") -> None:
        """Add another histogram."""
        self.bins = self.bins + other.bins
        self.log_loss += other.log_loss
        self.impossible += other.impossible

    def auc(self) -> tuple[float | None, float]:
        """Return the area under the ROC curve and the largest error due to ties within a bin."""
        mass, _, ones = self.bins.T
        return area(mass - ones, ones)

    def smooth_ece(self) -> float:
        """Return the smooth calibration error of the residuals in the histogram."""
        used = self.bins[self.bins[:, 0] > 0]
        return smooth_error(used[:, 1] / used[:, 0], (used[:, 2] - used[:, 1]) / used[:, 0].sum())

    def density(self, bins: int) -> tuple[Array, Array]:
        """Return edges of equal-width bins and Σα in each, every fine bin counted where its mean prediction lies.

        The bins cover [0, 1], or the range of the predictions if it is narrow, as with rare events.
        """
        used = self.bins[self.bins[:, 0] > 0]
        mean = used[:, 1] / used[:, 0]
        low, high = (mean.min(), mean.max()) if 0 < np.ptp(mean) < NARROW else (0.0, 1.0)
        place = np.clip(((mean - low) / (high - low) * bins).astype(np.intp), 0, bins - 1)
        counts = np.bincount(place, weights=used[:, 0], minlength=bins).astype(np.float64)
        return np.linspace(low, high, bins + 1), counts


def area(zeros: Array, ones: Array) -> tuple[float | None, float]:
    """Return AUC from the masses of both classes in increasing order of score, and half the mass of ties.

    Examples
    --------
    >>> area(np.array([3.0, 1.0]), np.array([0.0, 2.0]))
    (0.875, 0.125)
    """
    total = float(zeros.sum() * ones.sum())
    if total <= 0:
        return None, 0.0
    below = np.concatenate([[0.0], np.cumsum(zeros)[:-1]])
    ties = 0.5 * float(np.dot(zeros, ones)) / total
    return float(np.dot(below, ones)) / total + ties, ties


def smooth_error(p: Array, residual: Array) -> float:
    """Smooth ECE (Błasiok and Nakkiran 2023).

    The σ at which the residuals, smoothed by a Gaussian of width σ reflected at 0 and 1, have total mass σ.

    Parameters
    ----------
    p, residual : (m,) places in [0, 1] and the residual mass there, divided by the total mass

    Examples
    --------
    All residuals have one sign, so no smoothing cancels anything.

    >>> round(smooth_error(np.array([0.3, 0.7]), np.array([0.05, 0.05])), 4)
    0.1
    """
    waves = dct(np.bincount(equal_part(p, SMOOTH_CELLS), weights=residual, minlength=SMOOTH_CELLS), norm="ortho")
    frequency = np.pi * np.arange(SMOOTH_CELLS)

    def smoothed(width: float) -> float:
        return float(np.abs(idct(waves * np.exp(-0.5 * (frequency * width) ** 2), norm="ortho")).sum())

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if smoothed(middle) > middle else (low, middle)
    return 0.5 * (low + high)


# Timeline: residuals over time, in bins that double as time goes on.

MOST_BINS = 48
"""Stretches of time drawn at most."""
KEPT_BINS = 4096
"""Stretches kept at most: enough to resolve single days within ten years."""
COARSE = 10
FINEST = -20
DAY = 86_400.0


class BinSpan(NamedTuple):
    """Bins first … last of width 2^exponent, bin i being [i·2^e, (i+1)·2^e)."""

    exponent: int
    first: int
    last: int

    def coarser(self) -> "BinSpan":
        """Return the span with bins twice as wide."""
        return BinSpan(self.exponent + 1, self.first >> 1, self.last >> 1)

    def fitted(self, most: int) -> "BinSpan":
        """Double the width until there are at most `most` bins."""
        span = self
        while span.last - span.first >= most:
            span = span.coarser()
        return span

    @classmethod
    def of(cls, low: float, high: float, most: int = KEPT_BINS) -> "BinSpan":
        """Return the finest span that covers [low, high] in at most `most` bins."""
        exponent = FINEST
        if high > low:
            exponent = max(FINEST, int(np.floor(np.log2((high - low) / most))))
        width = 2.0**exponent
        return cls(exponent, int(low // width), int(high // width)).fitted(most)

    def union(self, other: "BinSpan") -> "BinSpan":
        """Return the finest span, no finer than either, that covers both."""
        a, b = self, other
        while a.exponent < b.exponent:
            a = a.coarser()
        while b.exponent < a.exponent:
            b = b.coarser()
        return BinSpan(a.exponent, min(a.first, b.first), max(a.last, b.last)).fitted(KEPT_BINS)


class Timeline:
    """Scalar sums per time bin and coarse level. The bins depend on the range of times alone: additive.

    `first` and `last` hold the earliest and the latest time in every bin.
    """

    def __init__(self) -> None:
        self.span: BinSpan | None = None
        self.table: Array = np.zeros((0, COARSE, SCALARS))
        self.first: Array = np.zeros(0)
        self.last: Array = np.zeros(0)
        self.dated = False
        self.low, self.high = np.inf, -np.inf

    def add(self, time: Array, dated: bool, p: Array, y: Array, weights: Array) -> None:
        """Add checked rows with their times."""
        if not len(time):
            return
        low, high = float(time.min()), float(time.max())
        self._cover(BinSpan.of(low, high))
        assert self.span is not None
        self.low, self.high, self.dated = min(self.low, low), max(self.high, high), dated
        place = (time // 2.0**self.span.exponent).astype(np.int64) - self.span.first
        add_groups(place.astype(np.int32), equal_part(p, COARSE), p, y, weights, self.table)
        np.minimum.at(self.first, place, time)
        np.maximum.at(self.last, place, time)

    def merge(self, other: "Timeline") -> None:
        """Add another timeline."""
        if other.span is None:
            return
        self._cover(other.span)
        theirs = deepcopy(other)
        assert self.span is not None
        theirs._cover(self.span)
        self.table = self.table + theirs.table
        self.first, self.last = np.minimum(self.first, theirs.first), np.maximum(self.last, theirs.last)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.dated = self.dated or other.dated

    def drawn(self) -> "Timeline":
        """Return the same in bins few enough to draw."""
        twin = deepcopy(self)
        if self.span is not None:
            twin._spread(self.span.fitted(MOST_BINS))
        return twin

    def _cover(self, span: BinSpan) -> None:
        self._spread(span if self.span is None else self.span.union(span))

    def _spread(self, wanted: BinSpan) -> None:
        if wanted == self.span:
            return
        bins = wanted.last - wanted.first + 1
        table, first, last = np.zeros((bins, COARSE, SCALARS)), np.full(bins, np.inf), np.full(bins, -np.inf)
        if self.span is not None:
            shift = wanted.exponent - self.span.exponent
            place = (np.arange(self.span.first, self.span.last + 1) >> shift) - wanted.first
            np.add.at(table, place, self.table)
            np.minimum.at(first, place, self.first)
            np.maximum.at(last, place, self.last)
        self.span, self.table, self.first, self.last = wanted, table, first, last

    def window(self) -> tuple[str | None, str | None]:
        """First and last time, formatted."""
        if self.span is None:
            return None, None
        return self.written(self.low), self.written(self.high)

    def labels(self) -> list[str]:
        """Start of every bin, formatted; the first bin starts with the data."""
        if self.span is None:
            return []
        starts = np.arange(self.span.first, self.span.last + 1) * 2.0**self.span.exponent
        return [self.written(max(float(start), self.low)) for start in starts]

    def written(self, time: float) -> str:
        """Return a time as text: dates as dates, with the hour where the whole timeline is short."""
        if not self.dated:
            return f"{time:.6g}"
        stamp = datetime.fromtimestamp(time, UTC)
        whole_days = self.high - self.low >= MOST_BINS * DAY / 2
        return stamp.strftime("%Y-%m-%d") if whole_days else stamp.strftime("%Y-%m-%d %H:%M")


# Bins: which values of a number are pooled.


class Bins(NamedTuple):
    """A number's bins: its name, the cuts between them, and their slice of K; the last bin is for missing values."""

    name: str
    cuts: tuple[float, ...]
    where: slice


class Range(NamedTuple):
    """Adjacent bins of one number, examined as a group: its name in words, and the slice of K that it joins."""

    number: str
    name: str
    where: slice
    eighth: bool
    """Whether it is one bin, apart from adjacent empty ones: these ranges together make the number's curve."""


def ranges_of(bins: Bins, mass: Array) -> list[Range]:
    """Return the halves, quarters and eighths of a number, and its missing values, each set of rows once.

    Parameters
    ----------
    mass : (BINS,) of its bins; bins between equal cuts are empty

    Examples
    --------
    >>> age = Bins("age", (20.0, 20.0, 20.0, 40.0, 40.0, 40.0, 60.0), slice(0, 9))
    >>> [part.name for part in ranges_of(age, np.array([0, 0, 0, 5, 0, 0, 4, 5, 1.0]))]
    ['age < 40', 'age ≥ 40', '40 ≤ age < 60', 'age ≥ 60', 'age missing']
    """
    used = [k for k in range(BINS - 1) if mass[k] > 0]
    ranges: dict[tuple[int, ...], Range] = {}
    for width in (4, 2, 1):
        for start in range(0, BINS - 1, width):
            inside = tuple(k for k in used if start <= k < start + width)
            if inside and len(inside) < len(used):
                single = len(inside) == 1
                ranges.setdefault(inside, _range(bins, used, inside, single))
    missing = bins.where.stop - 1
    last = [Range(bins.name, f"{bins.name} missing", slice(missing, missing + 1), False)] if mass[-1] > 0 else []
    return [*ranges.values(), *last]


def _range(bins: Bins, used: list[int], inside: tuple[int, ...], single: bool) -> Range:
    low = None if inside[0] == used[0] else bins.cuts[inside[0] - 1]
    after = [k for k in used if k > inside[-1]]
    high = bins.cuts[after[0] - 1] if after else None
    where = slice(bins.where.start + inside[0], bins.where.start + inside[-1] + 1)
    return Range(bins.name, range_name(bins.name, low, high), where, single)


def range_name(name: str, low: float | None, high: float | None) -> str:
    """Return the range [low, high) of a column in words; None for an open end.

    Examples
    --------
    >>> range_name("age", None, 30.0), range_name("age", 30.0, 45.5)
    ('age < 30', '30 ≤ age < 45.5')
    """
    if low is None:
        return f"{name} < {high:.12g}"
    return f"{name} ≥ {low:.12g}" if high is None else f"{low:.12g} ≤ {name} < {high:.12g}"
