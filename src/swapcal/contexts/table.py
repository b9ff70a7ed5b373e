"""Records of any shape as columns: mappings, lists of mappings, and any eager data frame."""

import datetime
import decimal
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Factor:
    """Distinct values and, for every row, which of them it holds; None among the values means missing."""

    values: list[Any]
    inverse: Integers

    def __len__(self) -> int:
        return len(self.inverse)


Values = Array | Factor


def columns_of(records: Any) -> tuple[dict[str, Values], int]:
    """Return ({name: values}, rows). Numbers come as float arrays with NaN for missing, all else as factors."""
    if isinstance(records, Mapping):
        return {str(name): _listed(str(name), [value]) for name, value in records.items()}, 1
    if isinstance(records, Sequence) and not isinstance(records, str | bytes):
        return _stacked(records), len(records)
    try:
        found = nw.from_native(records)
        frame = found.collect() if isinstance(found, nw.LazyFrame) else found
    except TypeError:
        raise TypeError(
            f"records: given {type(records).__name__}, expected a mapping, a list of mappings or a data frame"
        ) from None
    return {name: from_series(frame[name]) for name in frame.columns}, len(frame)


def _stacked(records: Sequence[Any]) -> dict[str, Values]:
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise TypeError(f"records: given {type(record).__name__} in row {row}, expected a mapping")
    names: dict[Any, None] = dict.fromkeys(name for record in records for name in record)
    return {str(name): _listed(str(name), [record.get(name) for record in records]) for name in names}


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN or another library's null (which does not equal itself, or is not a truth)."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True


def as_number(value: Any) -> float | None:
    """Return a number, date or time as a float; None if the value is none of these."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, numbers.Real | decimal.Decimal):
        return float(value)
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
    for row, (value, number) in enumerate(zip(values, floats, strict=True)):
        if number is not None and not is_missing(value):
            text = next(v for v, f in zip(values, floats, strict=True) if f is None)
            raise TypeError(f"column {name!r}: given {value!r} in row {row} beside {text!r}, expected one type")
    return factorise(values)


def factorise(values: Iterable[Any]) -> Factor:
    """Return the distinct values in order of appearance, and the position of each row's."""
    seen: dict[Any, int] = {}
    inverse = [seen.setdefault(value, len(seen)) for value in values]
    return Factor([None if is_missing(v) else v for v in seen], np.array(inverse, dtype=np.int64))


def from_series(series: "nw.Series[Any]") -> Values:
    """Return a frame's column as floats (numbers, dates, times) or as a factor (all else)."""
    dtype = series.dtype
    if dtype.is_numeric():
        return np.ascontiguousarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if dtype == nw.Datetime or dtype == nw.Date:
        micros = series.cast(nw.Datetime("us")).dt.timestamp("us").cast(nw.Float64)
        return np.ascontiguousarray(micros.to_numpy(), dtype=np.float64) / 1e6
    native = series.to_native()
    if hasattr(native, "dictionary_encode"):
        return _from_arrow(native)
    if dtype == nw.Object or dtype == nw.Unknown:
        return _listed(series.name, series.to_list())
    return factorise(series.to_list())


def _from_arrow(column: Any) -> Values:
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
    if isinstance(value, numbers.Real) and float(value).is_integer():
        return str(int(float(value)))
    return str(value)
