"""Timeline: residuals over time, in bins that double as time goes on."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.audit.levels import equal_part
from swapcal.kernels.tally import SCALARS, add_groups

MOST_BINS = 48
"""Stretches of time drawn at most."""
KEPT_BINS = 4096
"""Stretches kept at most: fine enough to say on which day something began within ten years."""
COARSE = 10
FINEST = -20
DAY = 86_400.0


class Span(NamedTuple):
    """Bins first … last of width 2^exponent, bin i being [i·2^e, (i+1)·2^e)."""

    exponent: int
    first: int
    last: int

    def coarser(self) -> "Span":
        """Return the span with bins twice as wide."""
        return Span(self.exponent + 1, self.first >> 1, self.last >> 1)

    def fitted(self, most: int) -> "Span":
        """Double the width until there are at most `most` bins."""
        span = self
        while span.last - span.first >= most:
            span = span.coarser()
        return span

    @classmethod
    def of(cls, low: float, high: float, most: int = KEPT_BINS) -> "Span":
        """Return the finest span that covers [low, high] in at most `most` bins."""
        exponent = FINEST
        if high > low:
            exponent = max(FINEST, int(np.floor(np.log2((high - low) / most))))
        width = 2.0**exponent
        return cls(exponent, int(low // width), int(high // width)).fitted(most)

    def union(self, other: "Span") -> "Span":
        """Return the finest span, no finer than either, that covers both."""
        a, b = self, other
        while a.exponent < b.exponent:
            a = a.coarser()
        while b.exponent < a.exponent:
            b = b.coarser()
        return Span(a.exponent, min(a.first, b.first), max(a.last, b.last)).fitted(KEPT_BINS)


class Timeline:
    """Scalar sums per time bin and coarse level. The bins depend on the range of times alone: additive.

    `first` and `last` hold the earliest and the latest time in every bin.
    """

    def __init__(self) -> None:
        self.span: Span | None = None
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
        self._cover(Span.of(low, high))
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

    def _cover(self, span: Span) -> None:
        self._spread(span if self.span is None else self.span.union(span))

    def _spread(self, wanted: Span) -> None:
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
