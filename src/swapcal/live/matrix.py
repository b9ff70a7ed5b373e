"""`Matrix`: records as rows of numbers for classifiers that know no other: categories numbered as they appear."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from swapcal.arrays import Array
from swapcal.tables.values import as_number, is_missing, text_of

SPARE = 256


class Matrix:
    """A table that grows by records; of `last` rows, if that is given, at least the latest are kept.

    Examples
    --------
    >>> matrix = Matrix()
    >>> matrix.append({"shop": "a", "price": 3.0})
    >>> matrix.append({"shop": "b"})
    >>> matrix.between(0, 2, 2).tolist(), matrix.rows([{"shop": "b", "price": 1}, {"shop": "c"}], [2]).tolist()
    ([[0.0, 3.0], [1.0, nan]], [[1.0], [nan]])
    """

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self.codes: dict[str, dict[str, int]] = {}
        """of each column's categories; the columns in order of appearance"""
        self.dropped = 0
        """rows that are no longer kept"""
        self._table: Array = np.zeros((0, 0))
        self._size = 0

    @property
    def width(self) -> int:
        """Number of columns so far."""
        return len(self.codes)

    def __len__(self) -> int:
        return self.dropped + self._size

    def append(self, record: Mapping[str, Any]) -> None:
        """Take in a record, its new columns and categories."""
        found = {name: self._learned(str(name), value) for name, value in record.items()}
        if self._size == len(self._table) or self.width > self._table.shape[1]:
            self._make_room()
        row = self._table[self._size]
        for j, name in enumerate(self.codes):
            row[j] = found.get(name, math.nan)
        self._size += 1

    def _learned(self, name: str, value: Any) -> float:
        codes = self.codes.setdefault(name, {})
        if _is_category(value):
            codes.setdefault(text_of(value), len(codes))
        return _number(value, codes, len(codes))

    def _make_room(self) -> None:
        spare = 0 if self.last is None else max(0, self._size - self.last)
        old = self._table[spare : self._size]
        self.dropped += spare
        self._size -= spare
        self._table = np.full((2 * len(old) + SPARE, self.width), np.nan)
        self._table[: len(old), : old.shape[1]] = old

    def between(self, first: int, end: int, width: int) -> Array:
        """Return rows by their numbers from the beginning, the dropped ones left out; so many columns of them."""
        return self._table[max(0, first - self.dropped) : end - self.dropped, :width].copy()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each column so far."""
        return tuple(map(len, self.codes.values()))

    def rows(self, records: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> Array:
        """Return records as rows, as they were when columns had so many categories; what came later is missing."""
        out = np.full((len(records), len(sizes)), np.nan)
        for j, ((name, codes), size) in enumerate(zip(self.codes.items(), sizes, strict=False)):
            out[:, j] = [_number(record.get(name), codes, size) for record in records]
        return out

    @classmethod
    def restored(cls, last: int | None, codes: Mapping[str, Sequence[str]], dropped: int, table: Array) -> "Matrix":
        """Return a matrix with these categories and rows."""
        matrix = cls(last)
        matrix.codes = {name: {text: k for k, text in enumerate(texts)} for name, texts in codes.items()}
        matrix.dropped, matrix._table, matrix._size = dropped, np.array(table), len(table)
        return matrix


def _is_category(value: Any) -> bool:
    return not is_missing(value) and (isinstance(value, str) or as_number(value) is None)


def _number(value: Any, codes: Mapping[str, int], size: int) -> float:
    if type(value) is float:
        return value
    if is_missing(value):
        return math.nan
    if _is_category(value):
        code = codes.get(text_of(value), size)
        return float(code) if code < size else math.nan
    number = as_number(value)
    return math.nan if number is None else float(number)
