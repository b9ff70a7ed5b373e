"""Rates: forecasts and outcomes as checked arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array


def rates(name: str, values: ArrayLike) -> Array:
    """Return numbers in [0, 1], or name the first row that holds something else.

    Examples
    --------
    >>> rates("p", [0.25, 1])
    array([0.25, 1.  ])
    """
    raw = np.asarray(values)
    if raw.ndim != 1:
        raise ValueError(f"{name}: given shape {raw.shape}, expected one number per row")
    if raw.dtype.kind not in "biufO":
        raise TypeError(f"{name}: given {raw.dtype}, expected numbers in [0, 1]")
    try:
        numbers = np.ascontiguousarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: given something that is not a number, expected numbers in [0, 1]") from None
    bad = np.flatnonzero(~((numbers >= 0.0) & (numbers <= 1.0)))
    if bad.size:
        raise ValueError(f"{name}: given {raw[bad[0]]} in row {bad[0] + 1}, expected a number in [0, 1]")
    return numbers


def one_rate(name: str, value: Any) -> Array:
    """Return one number in [0, 1] as an array of one."""
    if isinstance(value, (str, bytes)) or np.ndim(value) != 0:
        raise TypeError(f"{name}: given {value!r}, expected one number in [0, 1]")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: given {value!r}, expected one number in [0, 1]") from None
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name}: given {value!r}, expected a number in [0, 1]")
    return np.array([number])
