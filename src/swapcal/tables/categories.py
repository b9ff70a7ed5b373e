"""Categories: a column as its distinct values and, for every row, which of them it holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from swapcal.arrays import AnyArray, Index
from swapcal.tables.values import MISSING, group_name, has_bytes, is_missing, text_of

# Categories of a column that count by themselves, the most frequent or the first first; the others share one place.
FEATURE_CATEGORIES = 12  # of a feature, in a stream and in a fitted table: each costs a coordinate of every level
AUDITED_CATEGORIES = 32  # of a feature that is audited, where coordinates cost one pass and are read by people
FITTED_GROUP_CATEGORIES = 48  # of a group in a fitted table, whose rows are known and rare ones left out
STREAM_GROUP_CATEGORIES = 64  # of a group in a stream, whose frequent ones may come late


@dataclass(frozen=True)
class Categories:
    """A categorical column: values[codes[i]] is the value of row i; None among the values means missing."""

    codes: Index
    values: list[Any]

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def names(self) -> list[str]:
        """What each value is called."""
        return [MISSING if value is None else group_name(text_of(value)) for value in self.values]

    def in_order(self) -> "Categories":
        """Return the categories that occur, each once, in alphabetical order.

        Examples
        --------
        >>> factorise("shop", ["b", 1, None, 1.0]).in_order().names
        ['(missing)', '1', 'b']
        """
        present = np.flatnonzero(np.bincount(self.codes, minlength=len(self.values)))
        texts = {self.names[k]: None if self.values[k] is None else text_of(self.values[k]) for k in present}
        place = {text: rank for rank, text in enumerate(sorted(texts))}
        rank = np.array([place.get(name, -1) for name in self.names], np.int32)
        return Categories(rank[self.codes] if len(rank) else self.codes, [texts[text] for text in place])


def factorise(name: str, values: Sequence[Any]) -> Categories:
    """Return the categories of a column in order of appearance, refusing values that cannot be told apart for ever."""
    seen: dict[Any, int] = {}
    try:
        codes = [seen.setdefault(value, len(seen)) for value in values]
    except TypeError:
        present = [None if is_missing(value) else value for value in values]  # a signalling NaN has no hash either
        row = next((row for row, value in enumerate(present, 1) if not _has_hash(value)), 0)
        if row:
            raise _no_category(name, row, values[row - 1]) from None
        return factorise(name, present)
    if not seen.keys().isdisjoint((0, 1)) and bool in (kinds := set(map(type, values))) and len(kinds) > 1:
        return _by_text(name, values)  # to a dictionary True is 1
    for value, place in seen.items():
        if not is_missing(value) and not _names_a_category(value):
            raise _no_category(name, codes.index(place) + 1, value)
    return Categories(np.array(codes, dtype=np.int32), [None if is_missing(v) else v for v in seen])


def _has_hash(value: Any) -> bool:
    """Tell whether a dictionary can hold a value; a tuple of lists is among those that it cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _by_text(name: str, values: Sequence[Any]) -> Categories:
    texts = [None if is_missing(value) else text_of(value) for value in values]
    first = {**dict(zip(texts[::-1], values[::-1], strict=True)), None: None}
    found = factorise(name, texts)
    return Categories(found.codes, [first[text] for text in found.values])


def from_array(array: AnyArray) -> Categories:
    """Return numbers, truth values or times of an array as categories, in their own order."""
    distinct, inverse = np.unique(array, return_inverse=True)
    values = distinct.tolist() if array.dtype.kind in "iub" else [None if is_missing(v) else v for v in distinct]
    return Categories(inverse.astype(np.int32), values)


def from_arrow(column: Any) -> Categories:
    """Let Arrow find the distinct values of a column; None, for missing ones, is the last."""
    array = column.combine_chunks() if hasattr(column, "chunks") else column
    array = array.chunk(0) if hasattr(array, "chunks") else array
    encoded = array if hasattr(array, "indices") else array.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return Categories(codes.astype(np.int32), [*encoded.dictionary.to_pylist(), None])


def _names_a_category(value: Any) -> bool:
    """Tell whether a value stands for itself in every process, and is no collection."""
    if not isinstance(value, str):
        kind: Any = type(value)
        nameless = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
        if nameless or isinstance(value, Iterable | complex):
            return False
    return has_bytes(text_of(value))


def _no_category(name: str, row: int, value: Any) -> Exception:
    if isinstance(value, str):
        return ValueError(f"column {name!r}: given {value!r} in row {row}, a lone surrogate, expected Unicode text")
    expected = "a number, text, a truth value, a date or time, or nothing"
    return TypeError(f"column {name!r}: given {type(value).__name__} in row {row}, expected {expected}")
