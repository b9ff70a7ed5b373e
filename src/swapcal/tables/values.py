"""Values of a cell: missing, numeric or text; columns as distinct values and their codes."""

import datetime
import decimal
import hashlib
import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from swapcal.arrays import AnyArray, Index

# Values: which are missing, which number one is, and how it is spelt as a category.

MISSING = "(missing)"
"""Name of the category that holds missing values."""

OTHER = "(other)"
"""Name of the category that holds all values without one of their own."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, masked or another library's null (not equal to itself, or not a truth)."""
    if value is None or value is np.ma.masked:
        return True
    try:
        return bool(value != value)
    except (TypeError, ArithmeticError):
        return True
    except ValueError:  # an array of truth values is not a null; a later check raises
        return False


def as_number(value: Any) -> float | None:
    """Return a number, date or time as a float, infinite if it is too large for one; None for any other value."""
    if isinstance(value, bool | np.bool_ | np.timedelta64):
        return None
    if isinstance(value, numbers.Real | decimal.Decimal):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value == abs(value) else -math.inf
    if isinstance(value, datetime.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp()
    if isinstance(value, datetime.date):
        return float(value.toordinal() - _EPOCH) * 86400.0
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
    return None


def text_of(value: Any) -> str:
    """Return the category's name, one for all values that mean the same.

    1, 1.0 and numpy's 1 are "1", True and numpy's True "true"; a date is spelt in ISO, and so is a time, in UTC.

    Examples
    --------
    >>> [text_of(value) for value in (1.0, np.float64(1), True, "True", np.datetime64("2024-02-29T12:00"))]
    ['1', '1', 'true', 'True', '2024-02-29T12:00:00']
    """
    if isinstance(value, str):
        return letters(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return moment.isoformat().removesuffix("T00:00:00")
    number = as_number(value) if isinstance(value, numbers.Real) else None
    return str(int(number)) if number is not None and number.is_integer() else str(value)


def letters(name: Any) -> str:
    """Return a name as Python's own text: the value of an Enum of texts, which str() may not return."""
    return str.__str__(name) if isinstance(name, str) else str(name)


def group_name(text: str) -> str:
    """Return a text as the name of a group: quoted if it equals the name for missing or other values.

    Examples
    --------
    >>> [group_name(text) for text in ("Rome", "(missing)", '"(missing)"')]
    ['Rome', '"(missing)"', '""(missing)""']
    """
    return f'"{text}"' if text.strip('"') in (MISSING, OTHER) else text


def unquoted(name: str) -> str | None:
    """Return the text with this `group_name`; None if the name is that of missing values.

    Examples
    --------
    >>> [unquoted(name) for name in ("Rome", "(missing)", '"(missing)"', '"Rome"')]
    ['Rome', None, '(missing)', '"Rome"']
    """
    if name == MISSING:
        return None
    return name[1:-1] if name.strip('"') in (MISSING, OTHER) else name


def text_key(*words: str) -> int:
    """Return a 64-bit key of some words, the same in every process and on every machine; never 0.

    Examples
    --------
    >>> text_key("a", "b") == text_key("ab")
    False
    """
    text = "\x1f".join(words).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or 1


def has_bytes(text: str) -> bool:
    """Return whether text can be encoded; half of a surrogate pair cannot, and has no key."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unmasked(values: Any) -> Any:
    """Return values with None where an array is masked."""
    if not np.ma.isMaskedArray(values):
        return values
    objects = np.array(np.ma.getdata(values), dtype=object)
    objects[np.ma.getmaskarray(values)] = None
    return objects


# Categories: a column as its distinct values and, for every row, which of them it holds.

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
        """The name of each value."""
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
    """Return the categories of a column in order of appearance. Raises TypeError for values without stable identity."""
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
    """Return whether a value can be a key of a dictionary; a tuple of lists cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _by_text(name: str, values: Sequence[Any]) -> Categories:
    texts = [None if is_missing(value) else text_of(value) for value in values]
    first = {**dict(zip(texts[::-1], values[::-1], strict=True)), None: None}
    by_text = factorise(name, texts)
    return Categories(by_text.codes, [first[text] for text in by_text.values])


def from_array(array: AnyArray) -> Categories:
    """Return numbers, truth values or times of an array as categories, in their own order."""
    distinct, inverse = np.unique(array, return_inverse=True)
    values = distinct.tolist() if array.dtype.kind in "iub" else [None if is_missing(v) else v for v in distinct]
    return Categories(inverse.astype(np.int32), values)


def from_arrow(column: Any) -> Categories:
    """Return the distinct values of a column, found by Arrow; None, for missing ones, is the last."""
    array = column.combine_chunks() if hasattr(column, "chunks") else column
    array = array.chunk(0) if hasattr(array, "chunks") else array
    encoded = array if hasattr(array, "indices") else array.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return Categories(codes.astype(np.int32), [*encoded.dictionary.to_pylist(), None])


def _names_a_category(value: Any) -> bool:
    """Return whether a value is the same in every process, and not a collection."""
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
