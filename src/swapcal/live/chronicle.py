"""`Chronicle`: how the forecasts did over time, in bounded memory."""

from dataclasses import dataclass

import numpy as np

from swapcal.arrays import Array

STRETCHES = 64
FIRST_LENGTH = 16


@dataclass(slots=True)
class Stretch:
    """Sums over some labels in a row; `last` is the number of the last of them."""

    last: int
    n: int = 0
    y: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    error: float = 0.0
    base_error: float = 0.0

    def extended(self, later: "Stretch") -> "Stretch":
        """Return both stretches as one."""
        return Stretch(
            later.last,
            self.n + later.n,
            self.y + later.y,
            self.mean + later.mean,
            self.variance + later.variance,
            self.error + later.error,
            self.base_error + later.base_error,
        )


class Chronicle:
    """Stretches of equally many labels; when there are 64, neighbours are joined and new ones are twice as long.

    For people to look at: not part of the state, it starts anew in an object that was loaded. The base rate that a
    forecast is compared with is (ones + ½)/(labels + 1) of the labels before its own.

    Examples
    --------
    >>> chronicle = Chronicle()
    >>> chronicle.add(np.full(100, 0.25), np.arange(100) % 4 == 0)
    >>> [stretch.n for stretch in chronicle.stretches()]
    [16, 16, 16, 16, 16, 20]
    """

    def __init__(self) -> None:
        self._done: list[Stretch] = []
        self._length = FIRST_LENGTH
        self._now = Stretch(0)
        self._ones = 0.0

    def add_one(self, mean: float, y: float) -> None:
        """Enter a mean forecast and its label."""
        now = self._now
        base = (self._ones + 0.5) / (now.last + 1.0)
        self._ones += y
        now.last += 1
        now.n += 1
        now.y += y
        now.mean += mean
        now.variance += mean * (1.0 - mean)
        now.error += (mean - y) ** 2
        now.base_error += (base - y) ** 2
        if now.n >= self._length:
            self._close()

    def add(self, mean: Array, y: Array) -> None:
        """Enter many, in order."""
        start = 0
        while start < len(y):
            stop = min(len(y), start + self._length - self._now.n)
            self._enter(mean[start:stop], np.asarray(y[start:stop], dtype=np.float64))
            start = stop

    def _enter(self, mean: Array, y: Array) -> None:
        before = self._ones + np.cumsum(y) - y
        base = (before + 0.5) / (self._now.last + np.arange(1.0, len(y) + 1.0))
        sums = (y, mean, mean * (1.0 - mean), (mean - y) ** 2, (base - y) ** 2)
        part = Stretch(self._now.last + len(y), len(y), *(float(each.sum()) for each in sums))
        self._ones += part.y
        self._now = self._now.extended(part)
        if self._now.n >= self._length:
            self._close()

    def _close(self) -> None:
        self._done.append(self._now)
        self._now = Stretch(self._now.last)
        if len(self._done) == STRETCHES:
            pairs = zip(self._done[::2], self._done[1::2], strict=True)
            self._done = [first.extended(second) for first, second in pairs]
            self._length *= 2

    def stretches(self) -> list[Stretch]:
        """Return what is known; the last stretch is between half as long and one and a half times as the others."""
        done, now = self._done, self._now
        if not now.n:
            return [*done]
        return [*done[:-1], done[-1].extended(now)] if done and 2 * now.n < self._length else [*done, now]
