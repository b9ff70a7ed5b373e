"""Clock: what tells rows apart in time, as floats: row numbers, numbers, or seconds since 1970."""

from datetime import UTC
from typing import Any

import numpy as np

from swapcal.arrays import AnyArray, Array

ROWS, NUMBERS, DATES = "rows", "numbers", "dates"
"""Kinds of clock."""


def read_clock(time: Any, rows: int) -> tuple[Array, str]:
    """Return one time per row and their kind; they must not decrease.

    Examples
    --------
    >>> read_clock(["2024-01-01", "2024-01-02"], 2)[1]
    'dates'
    """
    raw = np.asarray(time)
    if raw.shape != (rows,):
        raise ValueError(f"time: given shape {raw.shape}, expected ({rows},), one per row")
    clock, kind = _floats(raw)
    bad = np.flatnonzero(~np.isfinite(clock))
    if bad.size:
        raise ValueError(f"time: given {raw[bad[0]]} in row {bad[0] + 1}, expected a number or date")
    back = np.flatnonzero(np.diff(clock) < 0)
    if back.size:
        first = back[0]
        raise ValueError(
            f"time: given {raw[first + 1]} in row {first + 2} after {raw[first]}, expected rows in order of time "
            "(by which their labels were bound to be known)"
        )
    return clock, kind


def _floats(raw: AnyArray) -> tuple[Array, str]:
    if raw.dtype.kind in "biuf":
        return raw.astype(np.float64), NUMBERS
    try:
        dates = _without_zones(raw).astype("datetime64[us]")
    except (TypeError, ValueError):
        raise TypeError(f"time: given {raw.dtype}, expected numbers or dates") from None
    seconds = dates.astype(np.int64) / 1e6
    return np.where(np.isnat(dates), np.nan, seconds), DATES


def _without_zones(raw: AnyArray) -> AnyArray:
    """Return times of day in UTC where they carry a zone, which numpy's dates cannot."""
    if raw.dtype.kind != "O" or not any(getattr(value, "tzinfo", None) for value in raw):
        return raw
    return np.array([value.astimezone(UTC).replace(tzinfo=None) for value in raw], dtype=object)


def show(clock: float, kind: str) -> str:
    """Write a time as people do.

    Examples
    --------
    >>> show(21034.0, "rows"), show(86400.0, "dates"), show(2.5, "numbers")
    ('row 21,034', '1970-01-02', '2.5')
    """
    if kind == ROWS:
        return f"row {clock:,.0f}"
    if kind == NUMBERS:
        return f"{clock:.12g}"
    text = str(np.datetime64(round(clock * 1e6), "us"))
    return text.removesuffix(".000000").removesuffix("T00:00:00").replace("T", " ")
