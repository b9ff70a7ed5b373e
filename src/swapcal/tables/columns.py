"""Columns: records of any shape, one column at a time, as floats (missing is NaN) or as categories."""

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from swapcal.arrays import AnyArray, Array
from swapcal.tables.categories import Categories, factorise, from_array, from_arrow
from swapcal.tables.values import as_number, has_bytes, is_missing, letters, unmasked

Values = Array | Categories
Raw = AnyArray | nw.Series[Any]
"""A column as its library holds it."""


def columns_of(records: Any, ignored: Set[str] = frozenset()) -> tuple[dict[str, Values], int]:
    """Return ({name: values}, rows). Numbers, dates and times come as floats, NaN if missing; all else as categories.

    Whatever a column cannot hold is refused here, so that nothing learned from the result can fail.
    """
    if isinstance(records, Mapping):
        return _stacked([records], ignored), 1
    if isinstance(records, Sequence) and not isinstance(records, str | bytes):
        return _stacked(records, ignored), len(records)
    try:
        found = nw.from_native(records)
        frame = found.collect() if isinstance(found, nw.LazyFrame) else found
    except TypeError:
        raise TypeError(
            f"records: given {type(records).__name__}, expected a mapping, a list of mappings or a data frame"
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"columns: given a name twice, expected each once ({' '.join(str(error).split())})") from None
    names = _names_of(frame.columns, ignored)
    return {text: _from_series(text, frame.get_column(name)) for name, text in names.items()}, len(frame)


NUMBERS = {float, int, type(None)}
TEXTS = {str, type(None)}
"""Types of which a column's values need no look each."""


def _stacked(records: Sequence[Any], ignored: Set[str]) -> dict[str, Values]:
    for row, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            raise TypeError(f"records: given {type(record).__name__} in row {row}, expected a mapping")
    names = _names_of(dict.fromkeys(name for record in records for name in record), ignored)
    return {text: _listed(text, [record.get(name) for record in records]) for name, text in names.items()}


def _names_of(names: Iterable[Any], ignored: Set[str]) -> dict[Any, str]:
    """Return each column's name as text: a name is text or an integer, and no two may read the same."""
    texts: dict[Any, str] = {}
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
            raise TypeError(f"column {name!r}: given a name of type {type(name).__name__}, expected text or an integer")
        texts[name] = letters(name)
        if not has_bytes(texts[name]):
            raise ValueError(f"column {name!r}: given a name with a lone surrogate, expected Unicode text")
    if len(set(texts.values())) != len(texts):
        twice = next(text for text in texts.values() if list(texts.values()).count(text) > 1)
        raise ValueError(f"column {twice!r}: given twice, expected each name once")
    return {name: text for name, text in texts.items() if text not in ignored}


def _listed(name: str, values: list[Any]) -> Values:
    """Turn one column of Python values into floats or categories; a mixture of both is refused."""
    kinds = {*map(type, values)}
    if kinds <= TEXTS and str in kinds:
        return factorise(name, values)
    if kinds <= NUMBERS:
        with suppress(OverflowError):  # of an integer beyond all floats, which is infinite below
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    floats = _floats(values)
    if None not in floats:
        return np.array(floats, dtype=np.float64)
    found = factorise(name, values)
    if any(number is not None and not is_missing(value) for value, number in zip(values, floats, strict=True)):
        row = floats.index(None)
        raise TypeError(f"column {name!r}: given {values[row]!r} in row {row + 1} beside numbers, expected one type")
    return found


def _floats(values: Iterable[Any]) -> list[float | None]:
    return [np.nan if is_missing(value) else as_number(value) for value in values]


def _from_series(name: str, series: "nw.Series[Any]") -> Values:
    """Return a frame's column as floats (numbers, dates, times) or as categories (all else)."""
    dtype = series.dtype
    if dtype.is_numeric():
        return numbers_of(name, series)
    if dtype == nw.Datetime or dtype == nw.Date:
        zoned = dtype == nw.Datetime and getattr(dtype, "time_zone", None) is not None  # pandas would not cast those
        plain = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zoned else series
        micros = plain.cast(nw.Datetime("us")).dt.timestamp("us").cast(nw.Float64)
        return np.ascontiguousarray(micros.to_numpy(), dtype=np.float64) / 1e6
    if (dtype == nw.Object or dtype == nw.Unknown) and not _is_arrow(series):
        return _listed(name, series.to_list())
    if _is_arrow(series) and series.null_count() == len(series):
        return np.full(len(series), np.nan)
    return categories_of(name, series)


def raw_column(values: Any) -> AnyArray:
    """Return a sequence as an array that holds each value as it is: numpy alone would make NaN beside text a word."""
    array = np.asarray(unmasked(values))
    spoilt = array.dtype.kind in "US" and not isinstance(values, np.ndarray)
    return np.array([*values], dtype=object) if spoilt else array


def is_numeric(column: Raw) -> bool:
    """Say whether a column holds numbers; truth values, dates and times are categories."""
    if not isinstance(column, np.ndarray):
        return bool(column.dtype.is_numeric()) or (column.dtype == nw.Object and is_numeric(column.to_numpy()))
    if column.dtype.kind != "O":
        return column.dtype.kind in "iuf"
    plain = (isinstance(v, Real | Decimal) and not isinstance(v, bool) for v in column if not is_missing(v))
    return next(plain, False) and all(plain)


def numbers_of(name: str, column: Raw) -> Array:
    """Return a column as contiguous floats; missing values become NaN."""
    try:
        if not isinstance(column, np.ndarray):
            dtype = column.dtype  # some libraries would copy floats, and pyarrow not cast integers beyond 2^53
            small = dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128)
            floats = column if dtype == nw.Float64 or small else column.cast(nw.Float64)
            return np.ascontiguousarray(floats.to_numpy(), dtype=np.float64)
        if column.dtype.kind == "O":
            return np.array([np.nan if is_missing(value) else value for value in column], dtype=np.float64)
        return column.astype(np.float64)
    except Exception as error:
        ours = isinstance(error, ValueError | TypeError | nw.exceptions.NarwhalsError)
        if ours or type(error).__module__.split(".")[0] in {"polars", "pyarrow"}:
            raise TypeError(f"column {name!r}: given {column.dtype}, expected numbers") from error
        raise


def categories_of(name: str, column: Raw) -> Categories:
    """Return a column as categories, whatever it holds."""
    if isinstance(column, np.ndarray):
        return from_array(column) if column.dtype.kind in "iufbM" else factorise(name, column.tolist())
    dtype = column.dtype
    if dtype.is_nested() or dtype == nw.Binary:
        raise TypeError(f"column {name!r}: given {dtype}, expected numbers, text, truth values, dates or times")
    if _is_arrow(column):
        return from_arrow(column.to_native())
    if dtype == nw.Boolean and not column.null_count():
        return from_array(column.to_numpy())
    if dtype == nw.String and column.implementation.is_polars():
        return _looked_up(column)
    if dtype == nw.String and column.implementation.is_pandas():
        with suppress(UnicodeEncodeError):  # of a lone surrogate, whose row is named below
            codes, distinct = column.to_native().factorize()
            if all(isinstance(text, str) and has_bytes(text) for text in distinct):  # narwhals saw some rows only
                return Categories(np.where(codes < 0, len(distinct), codes).astype(np.int32), [*distinct, None])
    return factorise(name, column.to_list())


def _looked_up(texts: "nw.Series[Any]") -> Categories:
    """Let a library that is faster at it than Python find the distinct texts; None, for missing ones, is the last."""
    distinct = sorted(text for text in texts.unique().to_list() if text is not None)
    if not distinct:
        return Categories(np.zeros(len(texts), np.int32), [None])
    codes = texts.replace_strict(distinct, list(range(len(distinct))), return_dtype=nw.Int32)
    codes = codes.fill_null(len(distinct)) if codes.null_count() else codes
    return Categories(np.asarray(codes.to_numpy(), np.int32), [*distinct, None])


def _is_arrow(series: "nw.Series[Any]") -> bool:
    return hasattr(series.to_native(), "dictionary_encode")
