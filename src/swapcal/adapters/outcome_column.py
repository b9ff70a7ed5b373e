"""The outcomes of a fit: y as one column with a value in every row, whatever held it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from swapcal.arrays import AnyArray, Flags
from swapcal.inputs import refuse_masked
from swapcal.tables.values import is_missing


def outcome_column(y: Any, rows: int, noun: str) -> AnyArray:
    """Return y as an array of one value per row of X; `noun` is what a value is called.

    Examples
    --------
    >>> outcome_column(["no", "yes", None], 3, "class")
    Traceback (most recent call last):
    ...
    ValueError: y: given None in row 3, expected a class
    """
    refuse_masked("y", y)
    found: AnyArray = column_or_1d(_unspoilt(y), warn=True)
    if len(found) != rows:
        raise ValueError(f"y: given {len(found)} rows, expected {rows}, one per row of X")
    missing = np.flatnonzero(_are_missing(found))
    if missing.size:
        raise ValueError(f"y: given {found[missing[0]]} in row {missing[0] + 1}, expected a {noun}")
    return found


def refuse_mixed(y: AnyArray) -> None:
    """Refuse texts among other values: they have no order, and 1 is not "1"."""
    if y.dtype.kind != "O":
        return
    texts = np.array([isinstance(value, str) for value in y], bool)
    if texts.any() and not texts.all():
        row = int(np.flatnonzero(texts != texts[0])[0])
        raise ValueError(f"y: given {y[row]!r} in row {row + 1} after {y[0]!r}, expected classes of one type")


def _unspoilt(y: Any) -> Any:
    """Return a list of texts and others as objects: numpy alone would make words of all."""
    if not isinstance(y, list | tuple):
        return y
    texts = sum(isinstance(value, str) for value in y)
    return _objects(y) if 0 < texts < len(y) else y


def _objects(values: Sequence[Any]) -> AnyArray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _are_missing(y: AnyArray) -> Flags:
    if y.dtype.kind == "O":
        return np.array([is_missing(value) for value in y], bool)
    if y.dtype.kind in "mM":
        return np.asarray(np.isnat(y))
    return np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)
