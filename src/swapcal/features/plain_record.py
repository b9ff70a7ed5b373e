"""Plain records without detours: most records hold nothing new, and then a few look-ups are enough."""

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.features.column import LARGEST, MISSING, SHARED, UNDECIDED, UNSEEN, Column
from swapcal.kernels.encode import CATEGORICAL, PROBABILITY

PLAIN = (float, int)
NAN = math.nan
STRANGE = -1

Parts = tuple[Array, Keys, Integers]
Look = tuple[str, int, dict[str, int], list[int], list[int]]
"""A column's name, kind, codes, keys and places: taken apart once, because every value is looked up in them."""


class Plan(NamedTuple):
    """How plain records are read, as long as no column is new and none changes its kind."""

    columns: list[Look]
    names: Set[str]
    """of all columns, ignored ones included"""


def plan_for(columns: Mapping[str, Column], ignored: Set[str]) -> Plan:
    """Return how to read records of these columns."""
    looks = [(name, column.kind, column.codes, column.keys, column.at) for name, column in columns.items()]
    return Plan(looks, frozenset(columns) | ignored)


def plain_rows(records: Sequence[Any], plan: Plan) -> Parts | None:
    """Return (numbers, symbols, places) of shape (n, K), or None if anything in the records is new or unusual."""
    numbers: list[float] = []
    symbols: list[int] = []
    places: list[int] = []
    columns, names = plan
    if not columns:
        return None
    for record in records:
        if not isinstance(record, dict) or not record.keys() <= names:
            return None
        for name, kind, codes, keys, at in columns:
            value = record.get(name)
            number = NAN
            if value is None:
                code = MISSING
            elif kind == CATEGORICAL:
                code = codes.get(value, STRANGE) if type(value) is str else STRANGE
            elif kind == UNDECIDED or type(value) not in PLAIN:
                return None
            elif value != value:
                code = MISSING
            elif -LARGEST <= value <= LARGEST and (kind != PROBABILITY or 0.0 <= value <= 1.0):
                code, number = SHARED, value
            else:
                return None
            if code == STRANGE or at[code] == UNSEEN:
                return None
            numbers.append(number)
            symbols.append(keys[code])
            places.append(at[code])
    shape = (len(records), len(columns))
    return (
        np.array(numbers, np.float64).reshape(shape),
        np.array(symbols, np.uint64).reshape(shape),
        np.array(places, np.int64).reshape(shape),
    )
