"""Clock: times of any spelling as numbers, checked to run forwards."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from swapcal.arrays import AnyArray, Array
from swapcal.tables.values import as_number, is_missing, unmasked

# Two-digit years first: C's strptime would take "15" for the year 15, but "%y" never takes all of "2015".
_DAYS = {"mdy": ("%m{0}%d{0}%y", "%m{0}%d{0}%Y"), "dmy": ("%d{0}%m{0}%y", "%d{0}%m{0}%Y")}
_SHORT = re.compile(r"\d{4}(-\d\d)?")
NUMBERS = (int, float, Decimal, Fraction, np.integer, np.floating)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")


def formats(order: str) -> list[str]:
    """Return the strptime formats of dates and times in the given order; none for ISO.

    Examples
    --------
    >>> formats("iso"), formats("mdy")[0]
    ([], '%m/%d/%y')
    """
    days = [day.format(mark) for day in _DAYS.get(order, ()) for mark in "/-."]
    return [day + clock for day in days for clock in _CLOCKS]


def seconds_of(text: str, patterns: Sequence[str] = ()) -> float:
    """Return a date or time, in one of the patterns or in ISO, as seconds since 1970; infinity if it is neither.

    Examples
    --------
    >>> seconds_of("1970-01-02"), seconds_of("02/01/70", formats("dmy")), seconds_of("someday")
    (86400.0, 86400.0, inf)
    >>> seconds_of("1970"), seconds_of("1970-02") / 86400
    (0.0, 31.0)
    """
    for pattern in patterns:
        try:
            return datetime.strptime(text, pattern).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    try:
        moment = datetime.fromisoformat(f"{text}-01-01"[:10] if _SHORT.fullmatch(text) else text)
    except ValueError:
        return math.inf
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def duration(name: str, value: Any) -> float:
    """Return a length of time: a number as it is; text such as "24h" and a timedelta in seconds.

    Examples
    --------
    >>> duration("matures", "24h"), duration("matures", timedelta(minutes=1)), duration("matures", 3)
    (86400.0, 60.0, 3.0)
    """
    found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, timedelta):
        length: float | None = value.total_seconds()
    elif isinstance(value, np.timedelta64):
        length = float(value / np.timedelta64(1, "us")) / 1e6
    elif isinstance(value, NUMBERS) and not isinstance(value, bool):
        length = float(value)
    else:
        length = None if found is None else float(found[1]) * _UNITS[found[2]]
    if length is None or not 0.0 <= length < math.inf:
        expected = "a number of at least 0, a timedelta, or text such as 90s, 30m, 24h, 7d or 2w"
        raise ValueError(f"{name}: given {value!r}, expected {expected}")
    return length


def as_times(name: str, values: Any) -> Array:
    """Return times as numbers: numbers as they are; dates, times and ISO text as seconds since 1970; missing as NaN."""
    times = _as_numbers(name, np.asarray(unmasked(values)))
    bad = np.flatnonzero(np.isinf(times))
    if bad.size:
        raise ValueError(f"{name}: given an infinite time in row {bad[0] + 1}, expected a finite one")
    return times


def are_dates(name: str, values: Any) -> bool | None:
    """Tell whether times are dates or ISO text rather than numbers; None if all are missing; a mixture is refused.

    Examples
    --------
    >>> are_dates("time", [3, None]), are_dates("time", ["2024-01-01"]), are_dates("time", [None])
    (False, True, None)
    """
    items = values
    if not isinstance(values, list | tuple):  # an array of a list would make text of its numbers
        array = np.asarray(unmasked(values))
        if array.dtype.kind in "iufM":
            return array.dtype.kind == "M"
        items = array.ravel().tolist()
    kinds = {not isinstance(value, NUMBERS) for value in items if not is_missing(value)}
    if len(kinds) > 1:
        raise ValueError(f"{name}: given numbers and dates in one call, expected the one or the other")
    return next(iter(kinds), None)


def _as_numbers(name: str, array: AnyArray) -> Array:
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    if array.dtype.kind == "M":
        micros = array.astype("datetime64[us]")
        return np.where(np.isnat(micros), np.nan, micros.astype(np.int64) / 1e6)
    if array.ndim != 1:
        raise ValueError(f"{name}: given shape {array.shape}, expected one per record")
    values = array.tolist()
    if array.dtype.kind == "U":
        known = {text: seconds_of(text) for text in set(values)}
        if math.inf not in known.values():
            return np.array([known[text] for text in values], np.float64)
    return np.array([_as_time(name, row, value) for row, value in enumerate(values, 1)], np.float64)


def _as_time(name: str, row: int, value: Any) -> float:
    if is_missing(value):
        return math.nan
    if isinstance(value, str):
        seconds = seconds_of(value)
        if math.isinf(seconds):
            raise ValueError(f"{name}: given {value!r} in row {row}, expected a number or an ISO date or time")
        return seconds
    number = as_number(value)
    if number is None:
        raise TypeError(f"{name}: given {type(value).__name__} in row {row}, expected a number, date or time")
    return number


def check_times(time: Any, label_time: Any, n: int, clock: float) -> tuple[Array | None, Array | None]:
    """Return (times, label times) of n rows. Raises ValueError if a row's time is before the previous one."""
    if time is None:
        if label_time is not None:
            raise ValueError("label_time: given without time, expected both")
        return None, None
    times = sized(as_times("time", time), "time", n)
    _check_order(times, clock)
    if label_time is None:
        return times, None
    return times, _not_before(times, label_time, "label_time")


def check_maturity(matures: Any, times: Array | None, n: int, window: float | None = None) -> Array | None:
    """Return when the labels of n rows mature (NaN if unknown). Raises ValueError if one precedes its forecast.

    window : length of time after which the label of every row matures for which nothing else is given
    """
    if matures is None and window is None:
        return None
    if times is None:
        given = "without time, expected both" if matures is not None else "for all forecasts, expected their times too"
        raise ValueError(f"matures: given {given}")
    moments = np.full(n, math.nan) if matures is None else _not_before(times, matures, "matures")
    return moments if window is None else np.where(np.isnan(moments), times + window, moments)


def _not_before(times: Array, given: Any, name: str) -> Array:
    moments = sized(as_times(name, given), name, len(times))
    early = np.flatnonzero(moments < times)
    if early.size:
        row = int(early[0])
        before = f"{moments[row]:.12g} in row {row + 1}, before the forecast at {times[row]:.12g}"
        raise ValueError(f"{name}: given {before}, expected then or later")
    return moments


def sized(values: Array, name: str, n: int) -> Array:
    """Return times of n rows. Raises ValueError if there are not n."""
    if values.shape != (n,):
        raise ValueError(f"{name}: given shape {values.shape}, expected ({n},), one per record")
    return values


def _check_order(times: Array, clock: float) -> None:
    if np.isnan(times).any():
        row = int(np.flatnonzero(np.isnan(times))[0]) + 1
        raise ValueError(f"time: given none in row {row}, expected one per record")
    before = np.concatenate([[clock], times[:-1]]) if len(times) else times
    back = np.flatnonzero(times < before)
    if back.size:
        row = int(back[0])
        given = f"given {times[row]:.12g} in row {row + 1} after {before[row]:.12g}"
        raise ValueError(f"time: {given}, expected order of time")


def created_at() -> str:
    """Return now as reports say it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
