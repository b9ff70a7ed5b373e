"""Times of forecasts and outcomes, and events of both kinds in the order in which they come."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate
from swapcal.arrays import Array, Integers
from swapcal.live.open_forecasts import FREE, UNKNOWN, Calendar, OpenForecasts
from swapcal.live.validation import Id, counted_rows, label_column, listed_ids, spread
from swapcal.tables.values import are_dates, as_times, check_maturity, check_times, have_zones, sized

# `EventTimes`: times of forecasts and labels, as given by callers.


class EventTimes(NamedTuple):
    """When forecasts are made, when their labels become known, and when they mature."""

    time: Array | None = None
    due: Array | None = None
    matures: Array | None = None
    calendar: Calendar = UNKNOWN

    def some(self, rows: Any) -> "EventTimes":
        """Return the times of the rows that an index selects."""
        if self.time is None and self.due is None and self.matures is None:
            return self
        time, due, matures = (None if each is None else each[rows] for each in self[:3])
        return EventTimes(time, due, matures, self.calendar)


NO_TIMES = EventTimes()


def read_event_times(open_forecasts: OpenForecasts, time: Any, label_time: Any, matures: Any, n: int) -> EventTimes:
    """Return the times of n rows. Raises ValueError for one that is earlier than the clock."""
    window = open_forecasts.maturity.matures
    if time is None and label_time is None and matures is None and window is None:
        return NO_TIMES
    calendar = open_forecasts.calendar
    for name, given in (("time", time), ("label_time", label_time), ("matures", matures)):
        calendar = _same_calendar(name, given, calendar)
    times, due = check_times(time, label_time, n, open_forecasts.clock)
    if times is not None and len(times) and not calendar.dated:
        open_forecasts.maturity.check_unit(float(times[-1]))
    return EventTimes(times, due, check_maturity(matures, times, n, window), calendar)


def read_arrivals(open_forecasts: OpenForecasts, time: Any, n: int) -> list[float]:
    """Return when n labels came, NaN if unknown."""
    if time is None:
        return [math.nan] * n
    given = spread(time, n)
    _same_calendar("time", given, open_forecasts.calendar)
    times: list[float] = sized(as_times("time", given), "time", n).tolist()
    return times


def _same_calendar(name: str, given: Any, others: Calendar) -> Calendar:
    """Return the calendar of times and of others. Raises TypeError or ValueError for values that are not times.

    Raises ValueError for dates among numbers, numbers among dates, and times with and without a zone.
    """
    if given is None:
        return others
    try:
        dated = are_dates(name, given)
        return others.joined(name, Calendar(dated, have_zones(name, given) if dated else None))
    except (TypeError, ValueError):
        as_times(name, np.array(given, object) if isinstance(given, list | tuple) else given)
        raise


# `Mixed`: records to be forecast and labels of earlier ones, in the order in which they come.


class Mixed(NamedTuple):
    """n rows, each of which is a record to be forecast or the label of an earlier one."""

    names: list[Id]
    y: Array
    """NaN where there is no label"""
    arrivals: list[float]
    asks: list[bool]
    weight: Array | None = None
    """how often each label counts; None if each counts once"""

    @property
    def asking(self) -> Integers:
        """Numbers of the rows to be forecast."""
        return np.flatnonzero(self.asks)

    def labels_before(self, k: int, asking: list[int]) -> "list[tuple[Id, float, float, float]]":
        """Return the labels between forecast k and the one before it; the last k has those after all forecasts."""
        a = asking[k - 1] + 1 if k else 0
        b = asking[k] if k < len(asking) else len(self.names)
        weights = [1.0] * (b - a) if self.weight is None else self.weight[a:b].tolist()
        return [*zip(self.names[a:b], self.y[a:b].tolist(), self.arrivals[a:b], weights, strict=True)]

    def check(self, open_forecasts: OpenForecasts, matures: Array | None) -> None:
        """Raise the first error of the labels that are rows of their own, given the forecasts before them."""
        progress = _Progress(open_forecasts, iter(() if matures is None else matures.tolist()))
        for row, event in enumerate(zip(self.names, self.y.tolist(), self.arrivals, self.asks, strict=True)):
            try:
                progress.enter(*event)
            except ValueError as error:
                raise _validate.in_row(row, error) from None


class _Progress:
    """The ids, labels and clock after some of the events, computed without changing anything."""

    def __init__(self, open_forecasts: OpenForecasts, matures: "Iterator[float]") -> None:
        self.open_forecasts, self.matures = open_forecasts, matures
        self.issued: dict[Id, tuple[float, int, float]] = {}
        """when forecasts are made, their numbers, and when they mature"""
        self.labelled: dict[Id, float] = {}
        self.passed = (-math.inf, FREE)
        """time and number up to which planned labels have arrived"""

    def enter(self, name: Id, y: float, when: float, asks: bool) -> None:
        """Enter one more event. Raises ValueError if it is invalid."""
        if asks:
            self._pass(when, FREE)
            number = self.open_forecasts.forecasts + len(self.issued)
            self.issued[name] = when, number, next(self.matures, math.nan)
            if y == y:
                self._take(name, y, when, number)
        elif y != y:
            raise ValueError(f"y: given nothing for id {name!r}, expected a label in {self.open_forecasts.span}")
        elif name in self.labelled:
            self.open_forecasts.compare(name, y, self.labelled[name])
        elif name not in self.issued:
            slot = self.open_forecasts.find(name, y, when, self.passed)
            if slot is not None:
                self._take(name, y, *self.open_forecasts.passed_by(name, slot, when))
        else:
            self._label_new(name, y, when)

    def _label_new(self, name: Id, y: float, when: float) -> None:
        """Enter the label of a forecast that is among the events."""
        made, number, matures = self.issued[name]
        if when < made:
            raise ValueError(f"label time: {self.open_forecasts.before(when, made)}")
        if self.open_forecasts.is_past(matures, number, when, self.passed):
            if y != self.open_forecasts.maturity.silence:
                self._take(name, y, when, FREE)
        else:
            self._take(name, y, when, number)

    def _take(self, name: Id, y: float, when: float, number: int) -> None:
        self.labelled[name] = y
        self._pass(when, number)

    def _pass(self, when: float, number: int) -> None:
        number = self.open_forecasts.passed_number(number)
        self.passed = max(self.passed, (when, number)) if when == when else self.passed


def read_mixed(
    open_forecasts: OpenForecasts,
    records: Any,
    ids: Any,
    y: ArrayLike,
    asks: ArrayLike,
    time: Any,
) -> Mixed:
    """Return checked arguments for rows of both kinds."""
    names = listed_ids(ids)
    n, given = len(names), np.asarray(asks)
    if given.dtype != bool and not all(value in (0, 1) for value in given.ravel().tolist()):
        raise TypeError("asks: given what is neither true nor false, expected one of them for each id")
    asking = given.astype(bool)
    if asking.shape != (n,) or counted_rows(records) != asking.sum():
        expected = f"as many as the {counted_rows(records)} records, and one for each id"
        raise ValueError(f"asks: given {asking.sum()} of {asking.size} rows, expected {expected}")
    return Mixed(
        names, label_column(y, n, open_forecasts.span), read_arrivals(open_forecasts, time, n), asking.tolist()
    )
