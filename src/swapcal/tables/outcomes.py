"""Outcomes: one reading of targets everywhere, in words, truth values or numbers."""

from typing import Any

import numpy as np
import pyarrow as pa

from swapcal.arrays import Array, Flags
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import distinct, floats
from swapcal.tables.positive import Positive, number

TRUE, FALSE = {"true", "yes", "t", "y"}, {"false", "no", "f", "n"}
EXPECTED = "expected 0 or 1, true or false, yes or no, or a fraction in [0, 1] (--positive VALUE for other words)"


def outcomes(column: Any, positive: Positive | None = None, decimal: str = ".") -> tuple[Array, Flags]:
    """Return (outcomes in [0, 1], NaN where there is none; which values are no outcomes).

    With `positive`, that value is 1 and every other one 0. `decimal` is the decimal point of numbers that come as text.

    Examples
    --------
    >>> outcomes(pa.chunked_array([["yes", "no", None, "maybe"]]))
    (array([ 1.,  0., nan, nan]), array([False, False, False,  True]))
    >>> outcomes(pa.chunked_array([[">50K", "<=50K"]]), Positive(">50K", "income"))[0]
    array([1., 0.])
    """
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if numeric and positive is None:
        y = floats(column)
    else:
        values, indices = distinct(column)
        y = np.array([*(_outcome(value, positive, decimal) for value in values), np.nan])[indices]
    wrong = ~(np.isnan(y) | ((y >= 0.0) & (y <= 1.0)))
    return np.where(wrong, np.nan, y), wrong


def checked_outcomes(column: Any, name: str, first: int, positive: Positive | None = None, decimal: str = ".") -> Array:
    """Return outcomes, or name the first row (numbered from `first`) whose value is none."""
    y, wrong = outcomes(column, positive, decimal)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"row {first + row}: column {name!r}: given {column[row].as_py()!r}, {EXPECTED}")
    return y


def _outcome(value: Any, positive: Positive | None, decimal: str) -> float:
    """Return an outcome, NaN for a missing one, infinity for what is none."""
    if positive is not None:
        return float(positive.matches(value))
    word = str(value).strip().lower()
    if word in TRUE or word in FALSE:
        return float(word in TRUE)
    try:
        return number(word, decimal)
    except ValueError:
        return np.inf
