"""`Moments`: when forecasts are made and labels known, as callers say it."""

import math
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.live.given import spread
from swapcal.live.ledger import Ledger
from swapcal.tables.clock import are_dates, as_times, check_maturity, check_times, sized


class Moments(NamedTuple):
    """When forecasts are made, when their labels become known, and when they would be known whatever they are."""

    time: Array | None = None
    due: Array | None = None
    matures: Array | None = None
    dated: bool | None = None
    """whether they are dates; None if that is not known"""

    def some(self, rows: Any) -> "Moments":
        """Return those of the rows that an index picks."""
        if self.time is None and self.due is None and self.matures is None:
            return self
        time, due, matures = (None if each is None else each[rows] for each in self[:3])
        return Moments(time, due, matures, self.dated)


NEVER_SAID = Moments()


def read_moments(ledger: Ledger, time: Any, label_time: Any, matures: Any, n: int) -> Moments:
    """Return the moments of n rows, or say which cannot be; they must go on from the ledger's clock."""
    if time is None and label_time is None and matures is None:
        return NEVER_SAID
    dated = None
    for name, given in (("time", time), ("label_time", label_time), ("matures", matures)):
        dated = _calendar(ledger, name, given, dated)
    times, due = check_times(time, label_time, n, ledger.clock)
    return Moments(times, due, check_maturity(matures, times, n), dated)


def read_arrivals(ledger: Ledger, time: Any, n: int) -> list[float]:
    """Return when n labels came, NaN where that is not said."""
    if time is None:
        return [math.nan] * n
    given = spread(time, n)
    _calendar(ledger, "time", given, None)
    times: list[float] = sized(as_times("time", given), "time", n).tolist()
    return times


def _calendar(ledger: Ledger, name: str, given: Any, others: bool | None) -> bool | None:
    """Tell whether times are dates, as others are; what is no time at all is said to be that."""
    try:
        return ledger.one_calendar(name, None if given is None else are_dates(name, given), others)
    except (TypeError, ValueError):
        as_times(name, np.array(given, object) if isinstance(given, list | tuple) else given)
        raise
