"""Values of a cell: missing, number, text or time; columns as distinct values and their codes."""

import decimal
import hashlib
import math
import numbers
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from swapcal.arrays import AnyArray, Array, Index

# Values: which are missing, which number one is, and how it is spelt as a category.

MISSING = "(missing)"
"""Name of the category that holds missing values."""

OTHER = "(other)"
"""Name of the category that holds all values without one of their own."""

_EPOCH = date(1970, 1, 1).toordinal()


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
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
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
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
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


@lru_cache(1 << 14)
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


# Times of any spelling as numbers, checked to run forwards.

# Two-digit years first: C's strptime would take "15" for the year 15, but "%y" never takes all of "2015".
_DAYS = {"mdy": ("%m{0}%d{0}%y", "%m{0}%d{0}%Y"), "dmy": ("%d{0}%m{0}%y", "%d{0}%m{0}%Y")}
_SHORT = re.compile(r"\d{4}(-\d\d)?")
_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?(:?\d\d(\.\d+)?)?)$")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_DATE = 2.5e11  # seconds from 1970 to the year 9892
NUMBERS = (int, float, Decimal, Fraction, np.integer, np.floating)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S")


def formats(order: str) -> list[str]:
    """Return the strptime formats of dates and times in the given order; none for ISO.

    Examples
    --------
    >>> formats("iso"), formats("mdy")[0]
    ([], '%m/%d/%y')
    """
    days = [day.format(mark) for day in _DAYS.get(order, ()) for mark in "/-."]
    return [day + clock for day in days for clock in _CLOCKS]


def seconds_of(text: str, patterns: Sequence[str] = ()) -> float:
    """Return a date or time, in one of the patterns or in ISO, as seconds since 1970; infinity if it is neither.

    Examples
    --------
    >>> seconds_of("1970-01-02"), seconds_of("02/01/70", formats("dmy")), seconds_of("someday")
    (86400.0, 86400.0, inf)
    >>> seconds_of("1970"), seconds_of("1970-02") / 86400
    (0.0, 31.0)
    """
    for pattern in patterns:
        try:
            return datetime.strptime(text, pattern).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    try:
        moment = datetime.fromisoformat(f"{text}-01-01"[:10] if _SHORT.fullmatch(text) else text)
    except ValueError:
        return math.inf
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def duration(name: str, value: Any) -> float:
    """Return a length of time: a number as it is; text such as "24h" and a timedelta in seconds.

    Examples
    --------
    >>> duration("matures", "24h"), duration("matures", timedelta(minutes=1)), duration("matures", 3)
    (86400.0, 60.0, 3.0)
    """
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, timedelta):
        length: float | None = value.total_seconds()
    elif isinstance(value, np.timedelta64):
        days = np.datetime_data(value.dtype)[0] not in ("Y", "M", "generic")  # months have no length
        length = float(value / np.timedelta64(1, "us")) / 1e6 if days else None
    elif isinstance(value, NUMBERS) and not isinstance(value, bool):
        length = float(value)
    else:
        length = None if match is None else float(match[1]) * _UNITS[match[2]]
    if length is None or not 0.0 <= length < math.inf:
        expected = "a number of at least 0, a timedelta, or text such as 90s, 30m, 24h, 7d or 2w"
        raise ValueError(f"{name}: given {value!r}, expected {expected}")
    return length


def as_times(name: str, values: Any) -> Array:
    """Return times as numbers: numbers as they are; dates, times and ISO text as seconds since 1970; missing as NaN."""
    times = _as_numbers(name, np.asarray(unmasked(values)))
    bad = np.flatnonzero(np.isinf(times))
    if bad.size:
        raise ValueError(f"{name}: given an infinite time in row {bad[0] + 1}, expected a finite one")
    return times


def shown(time: float, dated: bool) -> str:
    """Return a time as a message prints it: a date in UTC, or the number.

    Examples
    --------
    >>> shown(86400.5, True), shown(86400.0, True), shown(86400.5, False)
    ('1970-01-02T00:00:00.500000Z', '1970-01-02T00:00:00Z', '86400.5')
    >>> shown(1700000285510, False)
    '1700000285510'
    """
    if not dated or not abs(time) < LAST_DATE:
        return f"{time:.15g}"
    return (EPOCH + timedelta(seconds=float(time))).isoformat().replace("+00:00", "Z")


def _is_zoned(value: Any) -> bool | None:
    """Return whether a time has a zone; None for a number, a day or a numpy time, which need none."""
    if isinstance(value, datetime):
        return value.tzinfo is not None
    if not isinstance(value, str) or len(value) <= len("2024-01-01"):
        return None
    return _ZONE.search(value) is not None


def _column_has_zone(values: Any) -> bool | None:
    """Return whether a column of pandas, polars or pyarrow has a zone; None for anything else, numpy's dates too."""
    kind = getattr(values, "type", None) or getattr(values, "dtype", None)
    for name in ("tz", "time_zone"):
        if hasattr(kind, name):
            return getattr(kind, name) is not None
    return False if getattr(kind, "kind", "") == "M" and not isinstance(values, np.ndarray | np.generic) else None


def have_zones(name: str, values: Any) -> bool | None:
    """Return whether times have zones; None if none of them needs one. Times without one are read as UTC.

    Raises ValueError if some have one and others do not.

    Examples
    --------
    >>> have_zones("time", ["2024-01-01T10:00+02:00", "2024-01-01T11:00Z", "2024-01-02"])
    True
    >>> have_zones("time", ["2024-01-01T10:00"]), have_zones("time", ["2024-01-01"]), have_zones("time", [3.0])
    (False, None, None)
    """
    if not isinstance(values, list | tuple):
        of_column = _column_has_zone(values)
        if of_column is not None:
            return of_column
        array = np.asarray(unmasked(values))
        values = [] if array.dtype.kind in "iufM" else array.ravel().tolist()
    zoned = {_is_zoned(value) for value in values} - {None}
    if len(zoned) > 1:
        raise ValueError(
            f"{name}: given times with a zone and times without, expected all with one or all without (read as UTC)"
        )
    return next(iter(zoned), None)


def are_dates(name: str, values: Any) -> bool | None:
    """Return whether times are dates or ISO text, or None if all are missing. Raises ValueError for dates and numbers.

    Examples
    --------
    >>> are_dates("time", [3, None]), are_dates("time", ["2024-01-01"]), are_dates("time", [None])
    (False, True, None)
    """
    items = values
    if not isinstance(values, list | tuple):  # an array of a list would make text of its numbers
        array = np.asarray(unmasked(values))
        if array.dtype.kind in "iufM":
            return array.dtype.kind == "M"
        items = array.ravel().tolist()
    kinds = {not isinstance(value, NUMBERS) for value in items if not is_missing(value)}
    if len(kinds) > 1:
        raise ValueError(f"{name}: given numbers and dates in one call, expected the one or the other")
    return next(iter(kinds), None)


def _as_numbers(name: str, array: AnyArray) -> Array:
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    if array.dtype.kind == "M":
        micros = array.astype("datetime64[us]")
        return np.where(np.isnat(micros), np.nan, micros.astype(np.int64) / 1e6)
    if array.ndim != 1:
        raise ValueError(f"{name}: given shape {array.shape}, expected one per record")
    values = array.tolist()
    have_zones(name, values)
    if array.dtype.kind == "U":
        known = {text: seconds_of(text) for text in set(values)}
        if math.inf not in known.values():
            return np.array([known[text] for text in values], np.float64)
    return np.array([_as_time(name, row, value) for row, value in enumerate(values, 1)], np.float64)


def _as_time(name: str, row: int, value: Any) -> float:
    if is_missing(value):
        return math.nan
    if isinstance(value, str):
        seconds = seconds_of(value)
        if math.isinf(seconds):
            raise ValueError(f"{name}: given {value!r} in row {row}, expected a number or an ISO date or time")
        return seconds
    number = as_number(value)
    if number is None:
        raise TypeError(f"{name}: given {type(value).__name__} in row {row}, expected a number, date or time")
    return number


def check_times(time: Any, label_time: Any, n: int, clock: float) -> tuple[Array | None, Array | None]:
    """Return (times, label times) of n rows. Raises ValueError if a row's time is before the previous one."""
    if time is None:
        if label_time is not None:
            raise ValueError("label_time: given without time, expected both")
        return None, None
    times = sized(as_times("time", time), "time", n)
    _check_order(times, clock, are_dates("time", time) is True)
    if label_time is None:
        return times, None
    return times, _not_before(times, label_time, "label_time")


def check_maturity(matures: Any, times: Array | None, n: int, window: float | None = None) -> Array | None:
    """Return when the labels of n rows mature (NaN if unknown). Raises ValueError if one precedes its forecast.

    window : time after which the label of a row matures if `matures` has none for it
    """
    if matures is None and window is None:
        return None
    if times is None:
        given = "without time, expected both" if matures is not None else "for all forecasts, expected their times too"
        raise ValueError(f"matures: given {given}")
    moments = np.full(n, math.nan) if matures is None else _not_before(times, matures, "matures")
    return moments if window is None else np.where(np.isnan(moments), times + window, moments)


def _not_before(times: Array, given: Any, name: str) -> Array:
    moments = sized(as_times(name, given), name, len(times))
    early = np.flatnonzero(moments < times)
    if early.size:
        row = int(early[0])
        dated = are_dates(name, given) is True
        before = f"{shown(moments[row], dated)} in row {row + 1}, before the forecast at {shown(times[row], dated)}"
        raise ValueError(f"{name}: given {before}, expected then or later")
    return moments


def sized(values: Array, name: str, n: int) -> Array:
    """Return times of n rows. Raises ValueError if there are not n."""
    if values.shape != (n,):
        raise ValueError(f"{name}: given shape {values.shape}, expected ({n},), one per record")
    return values


def _check_order(times: Array, clock: float, dated: bool) -> None:
    if np.isnan(times).any():
        row = int(np.flatnonzero(np.isnan(times))[0]) + 1
        raise ValueError(f"time: given none in row {row}, expected one per record")
    before = np.concatenate([[clock], times[:-1]]) if len(times) else times
    back = np.flatnonzero(times < before)
    if back.size:
        row = int(back[0])
        given = f"given {shown(times[row], dated)} in row {row + 1} after {shown(before[row], dated)}"
        raise ValueError(f"time: {given}, expected order of time")


def created_at() -> str:
    """Return the present time as reports print it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
