"""Plain records without detours: most records hold nothing new, and then a few look-ups are enough."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapcal.features.column import LARGEST, MISSING, SHARED, UNDECIDED, UNSEEN, Column
from swapcal.kernels.encode import CATEGORICAL, PROBABILITY

PLAIN = (float, int)
NAN = math.nan
STRANGE = -1

Parts = tuple[NDArray[np.float64], NDArray[np.uint64], NDArray[np.int64]]


def plain_rows(
    records: Sequence[Mapping[str, Any]], columns: dict[str, Column], ignored: frozenset[str]
) -> Parts | None:
    """Return (numbers, symbols, places) of shape (n, K), or None if anything in the records is new or unusual."""
    numbers: list[float] = []
    symbols: list[int] = []
    places: list[int] = []
    if not columns:
        return None
    for record in records:
        if not (record.keys() - columns.keys()) <= ignored:
            return None
        for name, column in columns.items():
            value, kind = record.get(name), column.kind
            number = NAN
            if value is None:
                code = MISSING
            elif kind == CATEGORICAL:
                code = column.codes.get(value, STRANGE) if type(value) is str else STRANGE
            elif kind == UNDECIDED or type(value) not in PLAIN:
                return None
            elif value != value:
                code = MISSING
            elif -LARGEST <= value <= LARGEST and (kind != PROBABILITY or 0.0 <= value <= 1.0):
                code, number = SHARED, value
            else:
                return None
            if code == STRANGE or column.at[code] == UNSEEN:
                return None
            numbers.append(number)
            symbols.append(column.keys[code])
            places.append(column.at[code])
    shape = (len(records), len(columns))
    return (
        np.array(numbers, np.float64).reshape(shape),
        np.array(symbols, np.uint64).reshape(shape),
        np.array(places, np.int64).reshape(shape),
    )
