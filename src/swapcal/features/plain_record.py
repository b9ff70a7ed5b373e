"""Plain records without detours: most records hold nothing new, and then a few look-ups are enough."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapcal.features.column import LARGEST, MISSING, NOWHERE, SHARED, UNDECIDED, UNSEEN, Column
from swapcal.kernels.encode import CATEGORICAL, PROBABILITY

Parts = tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.int64]]


def plain_rows(
    records: Sequence[Mapping[str, Any]], columns: dict[str, Column], ignored: frozenset[str]
) -> Parts | None:
    """Return (numbers, symbols, places) of shape (n, K), or None if anything in the records is new or unusual."""
    if not columns or not all((record.keys() - columns.keys()) <= ignored for record in records):
        return None
    numbers = np.full((len(records), len(columns)), np.nan)
    symbols = np.zeros((len(records), len(columns)), dtype=np.uint64)
    places = np.empty((len(records), len(columns)), dtype=np.int64)
    for j, (name, column) in enumerate(columns.items()):
        at, keys, numeric = column.at, column.keys, column.kind != CATEGORICAL
        for k, record in enumerate(records):
            value = record.get(name)
            code = MISSING if value is None else _known_code(column, value)
            if code is None or at[code] == UNSEEN:
                return None
            if code == SHARED and numeric:
                numbers[k, j] = value
            symbols[k, j] = keys[code]
            places[k, j] = max(at[code], NOWHERE)
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
