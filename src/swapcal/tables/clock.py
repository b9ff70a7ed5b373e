"""Times of forecasts and labels as numbers, checked to run forwards."""

import datetime
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array
from swapcal.tables.columns import as_number, is_missing


def as_times(name: str, values: Any) -> Array:
    """Return times as numbers: numbers as they are; dates, times and ISO text as seconds since 1970; missing as NaN."""
    times = _as_numbers(name, np.asarray(unmasked(values)))
    bad = np.flatnonzero(np.isinf(times))
    if bad.size:
        raise ValueError(f"{name}: given an infinite time in row {bad[0] + 1}, expected a finite one")
    return times


def unmasked(values: Any) -> Any:
    """Return values with None where an array is masked; its data there mean nothing."""
    if not np.ma.isMaskedArray(values):
        return values
    plain = np.array(np.ma.getdata(values), dtype=object)
    plain[np.ma.getmaskarray(values)] = None
    return plain


def _as_numbers(name: str, array: NDArray[Any]) -> Array:
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    if array.dtype.kind == "M":
        micros = array.astype("datetime64[us]")
        return np.where(np.isnat(micros), np.nan, micros.astype(np.int64) / 1e6)
    if array.ndim != 1:
        raise ValueError(f"{name}: given shape {array.shape}, expected one per record")
    return np.array([_as_time(name, row, value) for row, value in enumerate(array.tolist(), 1)], np.float64)


def _as_time(name: str, row: int, value: Any) -> float:
    if is_missing(value):
        return math.nan
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(
                f"{name}: given {value!r} in row {row}, expected a number or an ISO date or time"
            ) from None
    number = as_number(value)
    if number is None:
        raise TypeError(f"{name}: given {type(value).__name__} in row {row}, expected a number, date or time")
    return number


def check_times(time: Any, label_time: Any, n: int, clock: float) -> tuple[Array | None, Array | None]:
    """Return (times, label times) of n rows, or say which row goes backwards."""
    if time is None:
        if label_time is not None:
            raise ValueError("label_time: given without time, expected both")
        return None, None
    times = sized(as_times("time", time), "time", n)
    _check_order(times, clock)
    if label_time is None:
        return times, None
    due = sized(as_times("label_time", label_time), "label_time", n)
    early = np.flatnonzero(due < times)
    if early.size:
        row = int(early[0])
        raise ValueError(
            f"label_time: given {due[row]:.12g} in row {row + 1}, before the forecast at {times[row]:.12g}"
        )
    return times, due


def check_maturity(matures: Any, times: Array | None, n: int) -> Array | None:
    """Return when the labels of n rows mature (NaN where that is not known), or say which does so too early."""
    if matures is None:
        return None
    if times is None:
        raise ValueError("matures: given without time, expected both")
    found = sized(as_times("matures", matures), "matures", n)
    early = np.flatnonzero(found < times)
    if early.size:
        row = int(early[0])
        raise ValueError(f"matures: given {found[row]:.12g} in row {row + 1}, before the forecast at {times[row]:.12g}")
    return found


def sized(values: Array, name: str, n: int) -> Array:
    """Return times of n rows, or say how many there are."""
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
