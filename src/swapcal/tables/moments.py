"""Moments: columns of times as seconds, whatever their type and the order of day and month."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from swapcal.arrays import Array
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import Kind, distinct, is_text, not_a

# Two-digit years first: C's strptime would take "15" for the year 15, but "%y" never takes all of "2015".
_DAYS = {"mdy": ("%m{0}%d{0}%y", "%m{0}%d{0}%Y"), "dmy": ("%d{0}%m{0}%y", "%d{0}%m{0}%Y")}
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


def moments(column: Any, order: str = "iso") -> tuple[Array, NDArray[np.bool_], bool]:
    """Return (numbers, or seconds since 1970; which values are no times; whether they are dates).

    Missing values become NaN.

    Examples
    --------
    >>> moments(pa.chunked_array([["1970-01-02", None, "someday"]]))
    (array([86400.,    nan,    nan]), array([False, False,  True]), True)
    >>> moments(pa.chunked_array([["02/01/1970"]]), "dmy")[0]
    array([86400.])
    """
    if pa.types.is_temporal(column.type):
        micros = pc.cast(pc.cast(column, pa.timestamp("us"), safe=False), pa.int64())
        seconds = np.array(pc.cast(micros, pa.float64(), safe=False).to_numpy(zero_copy_only=False)) / 1e6
        return seconds, np.zeros(len(seconds), bool), True
    if not is_text(column.type) and not pa.types.is_dictionary(column.type):
        numbers = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        return numbers, np.zeros(len(numbers), bool), False
    values, indices = distinct(column)
    patterns = formats(order)
    found = np.array([*(_seconds(str(value).strip(), patterns) for value in values), np.nan])[indices]
    wrong = np.isinf(found)
    return np.where(wrong, np.nan, found), wrong, True


def timed(column: Any, name: str, first: int, order: str = "iso") -> Any:
    """Return a column of times as numbers or time stamps, or name the first row that holds neither."""
    times, wrong, dated = moments(column, order)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"row {first + row}: column {name!r}: {not_a(Kind.time, column[row].as_py())}")
    if not dated:
        return pa.array(times, from_pandas=True)
    micros = np.where(np.isnan(times), 0.0, times * 1e6).round().astype(np.int64)
    return pa.array(micros, pa.int64(), mask=np.isnan(times)).cast(pa.timestamp("us"))


def _seconds(text: str, patterns: list[str]) -> float:
    for pattern in patterns:
        try:
            return datetime.strptime(text, pattern).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return np.inf
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
