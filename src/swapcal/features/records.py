"""Records one at a time, in reused arrays."""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.features.column import (
    LARGEST,
    MISSING,
    SHARED,
    UNDECIDED,
    UNSEEN,
    Column,
    Encoded,
    Gaps,
    Layout,
    probabilities,
)
from swapcal.kernels.encode import CATEGORICAL, ENTRIES, PROBABILITY, Past, encode_rows, place_rows
from swapcal.kernels.jit import DirectCall
from swapcal.tables.values import has_bytes

# Fast path for ordinary records: most have no new value, so a few look-ups are enough.

NUMBER_TYPES = {float, int}
NAN = math.nan
UNKNOWN = -1

Parts = tuple[Array, Keys, Integers]
Look = tuple[str, int, dict[str, int], list[int], list[int]]
"""A column's name, kind, codes, keys and places as a tuple, because every value is looked up in them."""


class RecordPlan(NamedTuple):
    """How ordinary records are read, while no column is new and no column changes its kind."""

    columns: list[Look]
    names: Set[str]
    """of all columns, ignored ones included"""
    declared: Set[str]
    """columns that every record has"""


def plan_for(columns: Mapping[str, Column], ignored: Set[str], declared: Set[str]) -> RecordPlan:
    """Return the reader of records with these columns."""
    looks = [(name, column.kind, column.codes, column.keys, column.at) for name, column in columns.items()]
    return RecordPlan(looks, frozenset(columns) | ignored, declared)


def ordinary_rows(records: Sequence[Any], plan: RecordPlan) -> Parts | None:
    """Return (numbers, symbols, places) of shape (n, K), or None if anything in the records is new or unusual."""
    if not plan.columns:
        return None
    given = _columns_given(records, plan)
    if given is None:
        return None
    shape = (len(records), len(plan.columns))
    numbers, symbols, places = np.full(shape, NAN), np.empty(shape, np.uint64), np.empty(shape, np.int64)
    for j, (look, values) in enumerate(zip(plan.columns, given, strict=True)):
        _, kind, _, keys, at = look
        if kind not in (CATEGORICAL, UNDECIDED) and _all_within(values, *_limits(kind)):
            if at[SHARED] == UNSEEN:
                return None
            numbers[:, j], symbols[:, j], places[:, j] = values, keys[SHARED], at[SHARED]
            continue
        codes = _codes_of(look, values)
        if codes is None or any(at[code] == UNSEEN for code in {*codes}):
            return None
        if kind != CATEGORICAL:
            numbers[:, j] = [value if code == SHARED else NAN for code, value in zip(codes, values, strict=True)]
        symbols[:, j], places[:, j] = [keys[code] for code in codes], [at[code] for code in codes]
    return numbers, symbols, places


def _columns_given(records: Sequence[Any], plan: RecordPlan) -> Sequence[Sequence[Any]] | None:
    """Return the values of each column; None if a record is no dict, lacks a declared column or has a new one."""
    columns, names, declared = plan
    wanted = [name for name, *_ in columns]
    if {*map(type, records)} == {dict} and {*map(len, records)} == {len(wanted)} and declared <= {*wanted}:
        try:  # a record of so many columns that has all of these has no other; one name more makes `itemgetter` a tuple
            return [*zip(*map(itemgetter(*wanted, wanted[0]), records), strict=True)][:-1]
        except KeyError:
            pass
    if not all(isinstance(record, dict) and declared <= record.keys() <= names for record in records):
        return None
    return [[record.get(name) for record in records] for name in wanted]


def _codes_of(look: Look, values: Sequence[Any]) -> list[int] | None:
    """Return the codes of a column's values; None if one is new or unusual."""
    _, kind, codes, _, _ = look
    types = {*map(type, values)} - {type(None)}
    if kind == CATEGORICAL:
        if not types <= {str}:
            return None
        found = [MISSING if value is None else codes.get(value, UNKNOWN) for value in values]
        return None if UNKNOWN in found else found
    if not types <= (set() if kind == UNDECIDED else NUMBER_TYPES):
        return None
    present = [value for value in values if value is not None and value == value]
    if present and not _all_within(present, *_limits(kind)):
        return None
    return [MISSING if value is None or value != value else SHARED for value in values]


def _limits(kind: int) -> tuple[float, float]:
    return (0.0, 1.0) if kind == PROBABILITY else (-LARGEST, LARGEST)


# `RecordReader`: records one at a time, in reused arrays.

encode_row, place_row = DirectCall(encode_rows), DirectCall(place_rows)


class RecordReader:
    """Encodes a record with known values or new categories, by look-up.

    Valid as long as the layout is. A copy is None, because it holds views.
    """

    def __init__(self, columns: Mapping[str, Column], plan: RecordPlan, layout: Layout, dim: int, gaps: Gaps) -> None:
        each = [*enumerate(columns.values())]
        self.layout = layout
        self._columns = [*columns.values()]
        self._names, self._declared = plan.names, plan.declared
        self._counts = gaps
        self._missing: list[str] = []
        """columns that are missing in the present record"""
        self._categories = [
            (j, column.name, column.codes, column.keys, column.at) for j, column in each if column.kind == CATEGORICAL
        ]
        numbers = [(j, column) for j, column in each if column.kind != CATEGORICAL]
        self._numbers = [column.name for _, column in numbers]
        self._get = itemgetter(*self._numbers) if len(numbers) > 1 else self._get_any
        self._number_at = [(j, column.at) for j, column in numbers]
        self._probabilities = [i for i, (_, column) in enumerate(numbers) if column.kind == PROBABILITY]
        self._pack = Struct("=" + "".join("8x" if column.kind == CATEGORICAL else "d" for _, column in each)).pack_into
        self._complete = all(at[SHARED] != UNSEEN for _, at in self._number_at)
        """whether every column has had a number"""
        width, symbols, places = len(each), layout.absent[None, :].copy(), np.zeros((1, len(each)), np.int64)
        self._given, z, crossed = np.zeros((1, width)), np.zeros((1, width)), np.zeros((1, 0), np.int64)
        self._symbols, self._places = symbols.reshape(-1).data, places.reshape(-1).data
        self._gaps = True
        """whether the last record had any"""
        self._new: list[tuple[int, str | None]] = []
        """columns with a new category or gap, and its code"""
        keys, values = np.zeros((1, ENTRIES * width), np.uint64), np.zeros((1, ENTRIES * width))
        scores, mark = probabilities(self._given, layout), np.zeros(1, np.uint64)
        self._row = Encoded(np.zeros((1, 0)), np.zeros(1, np.int64), keys, values, scores, mark)
        self._before = self._given, symbols, layout.kinds, layout.salts
        self._after = True, keys, values, z
        self._placing: tuple[Any, ...] = (
            z, places, layout.value_at, layout.weights, layout.shares, crossed, layout.factors, layout.share,
            layout.frequency, layout.phase, layout.wave_scale, layout.first, layout.budget, (), (),
        )  # fmt: skip
        self._widen(dim)

    def _widen(self, dim: int) -> None:
        """Allocate this many coordinates."""
        row = self._row
        x, dims = np.zeros((1, dim)), np.array([dim], np.int64)
        self._row = Encoded(x, dims, row.keys, row.values, row.scores, row.marks)
        self._placing = (*self._placing[:-2], dims, x)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    def encode(self, record: Mapping[str, Any], past: Past, allocate: Callable[[str], int]) -> Encoded | None:
        """Learn from a record and return its row, valid until the next call; None if the record is not ordinary."""
        self._new.clear()
        self._missing.clear()
        if not self._declared <= record.keys() <= self._names or not self._read(record):
            return None
        self._counts.enter_one(self._missing)
        if self._new:
            self._admit(allocate)
        encode_row.call(*self._before, past, *self._after)
        place_row.call(*self._placing)
        if self.layout.scores:
            self._row.scores[:] = probabilities(self._given, self.layout)
        return self._row

    def _admit(self, allocate: Callable[[str], int]) -> None:
        """Assign coordinates to new values."""
        dim = self._row.x.shape[1]
        for j, value in self._new:
            column = self._columns[j]
            code = column.code_of(value)
            if column.at[code] == UNSEEN:
                column.locate(code, allocate)
            self._symbols[j] = column.keys[code]
            self._places[j] = column.at[code]
            dim = max(dim, column.at[code] + 1)  # a new coordinate is the last one
        if dim > self._row.x.shape[1]:
            self._widen(dim)

    def _read(self, record: Mapping[str, Any]) -> bool:
        """Write a record's numbers, symbols and places; False if any is unusual."""
        symbols, places = self._symbols, self._places
        for j, name, codes, keys, at in self._categories:
            value = record.get(name)
            if value is not None and type(value) is not str:
                return False
            if value is None:
                code = MISSING
                self._missing.append(name)
            else:
                code = codes.get(value, UNKNOWN)
            if code != UNKNOWN and at[code] != UNSEEN:
                symbols[j] = keys[code]
                places[j] = at[code]
            elif value is None or has_bytes(value):
                self._new.append((j, value))
            else:
                return False
        return not self._numbers or self._read_numbers(record)

    def _read_numbers(self, record: Mapping[str, Any]) -> bool:
        try:
            values: Sequence[Any] = self._get(record)
        except KeyError:
            values = self._get_any(record)
        if not self._complete or not _all_within(values, -LARGEST, LARGEST):
            numbers = self._with_gaps(values)
            if numbers is None:
                return False
            values = numbers
        elif self._gaps:
            for j, at in self._number_at:
                self._places[j] = at[SHARED]
            self._gaps = False
        for i in self._probabilities:
            if values[i] < 0.0 or values[i] > 1.0:
                return False
        self._pack(self._given.data, 0, *values)
        return True

    def _get_any(self, record: Mapping[str, Any]) -> list[Any]:
        return [record.get(name) for name in self._numbers]

    def _with_gaps(self, values: Sequence[Any]) -> list[float] | None:
        """Return numbers, NaN where missing; None if any is not a float or int."""
        self._gaps, numbers = True, []
        for name, value, (j, at) in zip(self._numbers, values, self._number_at, strict=True):
            if value is not None and type(value) not in NUMBER_TYPES:
                return None
            code = MISSING if value is None or value != value else SHARED
            if code == MISSING:
                self._missing.append(name)
            if at[code] == UNSEEN or (code == SHARED and not -LARGEST <= value <= LARGEST):
                return None
            self._places[j] = at[code]
            numbers.append(NAN if code == MISSING else value)
        return numbers


def _all_within(values: Sequence[Any], least: float, most: float) -> bool:
    """Return whether all values are numbers between two limits.

    min and max miss a NaN unless it comes first; the sum does not.
    """
    if not {*map(type, values)} <= NUMBER_TYPES or not (min(values) >= least and max(values) <= most):
        return False
    total = sum(values)
    return bool(total == total)
