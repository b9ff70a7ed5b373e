"""One plain record without detours: most records hold nothing new, and then a few look-ups are enough."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapcal.features.column import LARGEST, MISSING, NOWHERE, SHARED, UNDECIDED, UNSEEN, Column
from swapcal.kernels.encode import CATEGORICAL, PROBABILITY

Parts = tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.int64]]


def plain_row(record: Mapping[str, Any], columns: dict[str, Column], ignored: frozenset[str]) -> Parts | None:
    """Return (numbers, symbols, places) of shape (1, K), or None if anything in the record is new or unusual."""
    if not columns or not (record.keys() - columns.keys()) <= ignored:
        return None
    numbers = np.full((1, len(columns)), np.nan)
    symbols = np.zeros((1, len(columns)), dtype=np.uint64)
    places = np.empty((1, len(columns)), dtype=np.int64)
    for j, (name, column) in enumerate(columns.items()):
        value = record.get(name)
        code = MISSING if value is None else _known_code(column, value)
        if code is None or column.at[code] == UNSEEN:
            return None
        if code == SHARED and column.kind != CATEGORICAL:
            numbers[0, j] = value
        symbols[0, j] = column.keys[code]
        places[0, j] = max(column.at[code], NOWHERE)
    return numbers, symbols, places


def _known_code(column: Column, value: Any) -> int | None:
    """Return the code of a value that needs no checking; None for all others."""
    kind = type(value)
    if column.kind == CATEGORICAL:
        return column.codes.get(value) if kind is str else None
    if column.kind == UNDECIDED or (kind is not float and kind is not int):
        return None
    if value != value:
        return MISSING
    if not -LARGEST <= value <= LARGEST or (column.kind == PROBABILITY and not 0.0 <= value <= 1.0):
        return None
    return SHARED
