"""Records of any shape as columns: mappings, lists of mappings, and any eager data frame."""

import datetime
import decimal
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from swapcal.arrays import Array, Integers


@dataclass(frozen=True)
class Factor:
    """Distinct values and, for every row, which of them it holds; None among the values means missing."""

    values: list[Any]
    inverse: Integers

    def __len__(self) -> int:
        return len(self.inverse)


Values = Array | Factor


def columns_of(records: Any, ignored: Set[str] = frozenset()) -> tuple[dict[str, Values], int]:
    """Return ({name: values}, rows). Numbers come as float arrays with NaN for missing, all else as factors.

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
    return {text: from_series(text, frame.get_column(name)) for name, text in names.items()}, len(frame)


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
        texts[name] = str(name)
        if not has_bytes(texts[name]):
            raise ValueError(f"column {name!r}: given a name with a lone surrogate, expected Unicode text")
    if len(set(texts.values())) != len(texts):
        twice = next(text for text in texts.values() if list(texts.values()).count(text) > 1)
        raise ValueError(f"column {twice!r}: given twice, expected each name once")
    return {name: text for name, text in texts.items() if text not in ignored}


def has_bytes(text: str) -> bool:
    """Tell whether text can be encoded; half of a surrogate pair cannot, and no key could be made of it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN, masked or another library's null (not equal to itself, or not a truth)."""
    if value is None or value is np.ma.masked:
        return True
    try:
        return bool(value != value)
    except (TypeError, ArithmeticError):
        return True
    except ValueError:  # an array of truths: not a null, and refused as what it is
        return False


def as_number(value: Any) -> float | None:
    """Return a number, date or time as a float, infinite if it is too large for one; None if it is none of these."""
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


_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _listed(name: str, values: list[Any]) -> Values:
    """Turn one column of Python values into floats or a factor; a mixture of both is refused."""
    floats = [np.nan if is_missing(value) else as_number(value) for value in values]
    if None not in floats:
        return np.array(floats, dtype=np.float64)
    factor = factorise(name, values)
    for row, (value, number) in enumerate(zip(values, floats, strict=True), 1):
        if number is not None and not is_missing(value):
            text = next(v for v, f in zip(values, floats, strict=True) if f is None)
            raise TypeError(f"column {name!r}: given {value!r} in row {row} beside {text!r}, expected one type")
    return factor


def factorise(name: str, values: Sequence[Any]) -> Factor:
    """Return the distinct values in order of appearance, and the position of each row's."""
    seen: dict[Any, int] = {}
    try:
        inverse = [seen.setdefault(value, len(seen)) for value in values]
    except TypeError:
        row = next(row for row, value in enumerate(values, 1) if type(value).__hash__ is None)
        raise _no_category(name, row, values[row - 1]) from None
    for value, place in seen.items():
        if not is_missing(value) and not _names_a_category(value):
            raise _no_category(name, inverse.index(place) + 1, value)
    return Factor([None if is_missing(v) else v for v in seen], np.array(inverse, dtype=np.int64))


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


def from_series(name: str, series: "nw.Series[Any]") -> Values:
    """Return a frame's column as floats (numbers, dates, times) or as a factor (all else)."""
    dtype = series.dtype
    if dtype.is_numeric():
        return np.ascontiguousarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if dtype == nw.Datetime or dtype == nw.Date:
        micros = series.cast(nw.Datetime("us")).dt.timestamp("us").cast(nw.Float64)
        return np.ascontiguousarray(micros.to_numpy(), dtype=np.float64) / 1e6
    if dtype.is_nested() or dtype == nw.Binary:
        raise TypeError(f"column {name!r}: given {dtype}, expected numbers, text, truth values, dates or times")
    native = series.to_native()
    if hasattr(native, "dictionary_encode"):
        return _from_arrow(name, native)
    if dtype == nw.Object or dtype == nw.Unknown:
        return _listed(name, series.to_list())
    return factorise(name, series.to_list())


def _from_arrow(name: str, column: Any) -> Values:
    """Let Arrow find the distinct values of a chunked column."""
    if column.null_count == len(column):
        return np.full(len(column), np.nan)
    array = column.combine_chunks()
    if hasattr(array, "chunks"):
        array = array.chunk(0) if array.num_chunks else array
    encoded = array if hasattr(array, "indices") else array.dictionary_encode()
    indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return Factor([*encoded.dictionary.to_pylist(), None], indices.astype(np.int64))


def text_of(value: Any) -> str:
    """Return the category's name: 1, 1.0 and numpy's 1 are one category; so are True and numpy's True."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    number = as_number(value) if isinstance(value, numbers.Real) else None
    return str(int(number)) if number is not None and number.is_integer() else str(value)
