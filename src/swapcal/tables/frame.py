"""Frames and records of any library, one column at a time, whole or in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np

from swapcal.arrays import AnyArray, Array, Integers, Keys
from swapcal.kernels.draw import row_marks
from swapcal.tables.values import (
    MISSING,
    Categories,
    as_number,
    factorise,
    from_array,
    from_arrow,
    has_bytes,
    is_missing,
    letters,
    text_key,
    unmasked,
)

# Columns: records of any shape, one column at a time, as floats (missing is NaN) or as categories.

Values = Array | Categories
Raw = AnyArray | nw.Series[Any]
"""A column as its library holds it."""


def columns_of(records: Any, ignored: Set[str] = frozenset()) -> tuple[dict[str, Values], int]:
    """Return ({name: values}, rows). Numbers, dates and times come as floats, NaN if missing; all else as categories.

    Raises TypeError or ValueError for values that a column cannot hold, so that learning from the result cannot fail.
    """
    if isinstance(records, Mapping):
        return _stacked([records], ignored), 1
    if isinstance(records, Sequence) and not isinstance(records, str | bytes):
        return _stacked(records, ignored), len(records)
    try:
        wrapped = nw.from_native(records)
        frame = wrapped.collect() if isinstance(wrapped, nw.LazyFrame) else wrapped
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
"""Types of values that need no conversion one by one."""


def _stacked(records: Sequence[Any], ignored: Set[str]) -> dict[str, Values]:
    for row, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            raise TypeError(f"records: given {type(record).__name__} in row {row}, expected a mapping")
    names = _names_of(dict.fromkeys(name for record in records for name in record), ignored)
    return {text: _listed(text, [record.get(name) for record in records]) for name, text in names.items()}


def _names_of(names: Iterable[Any], ignored: Set[str]) -> dict[Any, str]:
    """Return each column's name as text. Raises TypeError if it is neither text nor int, ValueError for equal names."""
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
    """Return one column of Python values as floats or categories. Raises TypeError for a mixture of both."""
    kinds = {*map(type, values)}
    if kinds <= TEXTS and str in kinds:
        return factorise(name, values)
    if kinds <= NUMBERS:
        with suppress(OverflowError):  # an integer beyond all floats is infinite below
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    floats = _floats(values)
    if None not in floats:
        return np.array(floats, dtype=np.float64)
    categories = factorise(name, values)
    if any(number is not None and not is_missing(value) for value, number in zip(values, floats, strict=True)):
        row = floats.index(None)
        raise TypeError(f"column {name!r}: given {values[row]!r} in row {row + 1} among numbers, expected one type")
    return categories


def _floats(values: Iterable[Any]) -> list[float | None]:
    return [np.nan if is_missing(value) else as_number(value) for value in values]


def _from_series(name: str, series: "nw.Series[Any]") -> Values:
    """Return a frame's column as floats (numbers, dates, times) or as categories (all else)."""
    dtype = series.dtype
    if dtype.is_numeric():
        return numbers_of(name, series)
    if dtype == nw.Datetime or dtype == nw.Date:
        zoned = dtype == nw.Datetime and getattr(dtype, "time_zone", None) is not None  # pandas does not cast those
        naive = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zoned else series
        micros = naive.cast(nw.Datetime("us")).dt.timestamp("us").cast(nw.Float64)
        return np.ascontiguousarray(micros.to_numpy(), dtype=np.float64) / 1e6
    if (dtype == nw.Object or dtype == nw.Unknown) and not _is_arrow(series):
        return _listed(name, series.to_list())
    if _is_arrow(series) and series.null_count() == len(series):
        return np.full(len(series), np.nan)
    return categories_of(name, series)


def raw_column(values: Any) -> AnyArray:
    """Return a sequence as an array that keeps each value: numpy alone would turn NaN among texts into text."""
    array = np.asarray(unmasked(values))
    spoilt = array.dtype.kind in "US" and not isinstance(values, np.ndarray)
    return np.array([*values], dtype=object) if spoilt else array


def is_numeric(column: Raw) -> bool:
    """Return whether a column holds numbers; truth values, dates and times are categories."""
    if not isinstance(column, np.ndarray):
        return bool(column.dtype.is_numeric()) or (column.dtype == nw.Object and is_numeric(column.to_numpy()))
    if column.dtype.kind != "O":
        return column.dtype.kind in "iuf"
    are_numbers = (isinstance(v, Real | Decimal) and not isinstance(v, bool) for v in column if not is_missing(v))
    return next(are_numbers, False) and all(are_numbers)


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
        is_conversion_error = isinstance(error, ValueError | TypeError | nw.exceptions.NarwhalsError)
        if is_conversion_error or type(error).__module__.split(".")[0] in {"polars", "pyarrow"}:
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
    """Return the distinct texts, found by the frame's library, faster than Python; None, for missing ones, is last."""
    distinct = sorted(text for text in texts.unique().to_list() if text is not None)
    if not distinct:
        return Categories(np.zeros(len(texts), np.int32), [None])
    codes = texts.replace_strict(distinct, list(range(len(distinct))), return_dtype=nw.Int32)
    codes = codes.fill_null(len(distinct)) if codes.null_count() else codes
    return Categories(np.asarray(codes.to_numpy(), np.int32), [*distinct, None])


def _is_arrow(series: "nw.Series[Any]") -> bool:
    return hasattr(series.to_native(), "dictionary_encode")


# Table: the columns of pandas, polars, pyarrow, duckdb relations, or a mapping of arrays, one at a time.


class Table:
    """Read-only access to the columns of a table, whatever library made it.

    Parameters
    ----------
    native
        A pandas or polars DataFrame, a pyarrow Table or RecordBatch, a duckdb relation, a polars LazyFrame,
        or a mapping from names to equally long sequences.

    Examples
    --------
    >>> table = Table({"age": [31, 44], "city": ["Rome", "Bari"]})
    >>> table.columns, table.is_numeric("age"), table.categories("city").names
    (['age', 'city'], True, ['Bari', 'Rome'])
    """

    def __init__(self, native: Any) -> None:
        self._data = _open(native)
        self._categories: dict[str, Categories] = {}
        self._columns: dict[str, Any] = {}

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._data) if isinstance(self._data, dict) else list(self._data.columns)

    def __len__(self) -> int:
        if isinstance(self._data, dict):
            return len(next(iter(self._data.values()))) if self._data else 0
        return len(self._data)

    def require(self, names: Iterable[str]) -> None:
        """Raise `UnknownColumnError` for the first name that is not a column, with the nearest name."""
        for name in names:
            if name not in self.columns:
                raise UnknownColumnError(name, self.columns)

    def is_numeric(self, name: str) -> bool:
        """Return whether the column holds numbers (booleans are categories)."""
        return is_numeric(self._column(name))

    def numbers(self, name: str) -> Array:
        """Return the column as floats; missing values become NaN."""
        return numbers_of(name, self._column(name))

    def categories(self, name: str) -> Categories:
        """Return the column as categories in alphabetical order; missing values are one of them."""
        if name not in self._categories:
            self._categories[name] = categories_of(name, self._column(name)).in_order()
        return self._categories[name]

    def take(self, index: Integers) -> "Table":
        """Return some of the rows.

        Examples
        --------
        >>> Table({"age": [31, 44, 60]}).take(np.array([2, 0])).numbers("age")
        array([60., 31.])
        """
        if isinstance(self._data, dict):
            return Table({name: column[index] for name, column in self._data.items()})
        return Table(self._data[index.tolist()].to_native())

    def marks(self, numeric: Sequence[str], texts: Sequence[str] = ()) -> Keys:
        """Return a 64-bit hash of every row's values in some columns, whatever library holds them.

        The order of the columns does not matter. A missing value is like no value, 1 like 1.0, and -0 like 0.

        Examples
        --------
        >>> one, other = Table({"a": [1, 2], "b": ["x", None]}), Table({"b": ["x"], "a": [1.0]})
        >>> bool(one.marks(["a"], ["b"])[0] == other.marks(["a"], ["b"])[0])
        True
        """
        names = [*numeric, *texts]
        numbers, symbols = np.full((len(self), len(names)), np.nan), np.zeros((len(self), len(names)), np.uint64)
        for j, name in enumerate(numeric):
            numbers[:, j] = self.numbers(name)
        for j, name in enumerate(texts, start=len(numeric)):
            column = self.categories(name)
            keys = [0 if value is None else text_key(name, value) for value in column.values]
            symbols[:, j] = np.array([*keys, 0], np.uint64)[column.codes]
        salts = np.array([text_key(name) for name in names], np.uint64)
        return row_marks(numbers, salts, symbols, np.zeros(len(names), np.uint64))

    def raw(self, name: str) -> AnyArray:
        """Return the column as numpy sees it (used for times)."""
        column = self._column(name)
        return column if isinstance(column, np.ndarray) else np.asarray(column.to_numpy())

    def _column(self, name: str) -> Any:
        self.require([name])
        if isinstance(self._data, dict):
            return self._data[name]
        if name not in self._columns:
            self._columns[name] = self._data.get_column(name)
        return self._columns[name]


def nearest(name: str, columns: Sequence[str]) -> str:
    """Return a hint with the nearest column name; empty if none is near.

    Examples
    --------
    >>> nearest("Shop", ["price", "shop"])
    "; did you mean 'shop'?"
    """
    spelled = {column.casefold(): column for column in columns}
    near = get_close_matches(name.casefold(), [*spelled], n=1, cutoff=0.4)
    return f"; did you mean {spelled[near[0]]!r}?" if near else ""


class UnknownColumnError(ValueError):
    """A column that does not exist; the message suggests the nearest name."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        hint = nearest(name, columns) or "."
        listed = ", ".join(map(repr, columns[:12])) + (", …" if len(columns) > 12 else "")
        super().__init__(f"no column {name!r}{hint} The columns are {listed}.")


def categories(labels: Any) -> Categories:
    """Factorise a sequence of labels (text, numbers, truth values, times) in alphabetical order.

    Examples
    --------
    >>> column = categories(["b", "a", None])
    >>> column.codes, column.names
    (array([2, 1, 0], dtype=int32), ['(missing)', 'a', 'b'])
    """
    return categories_of("group", raw_column(labels)).in_order()


def cluster_ids(name: str, ids: Any, rows: int | None = None) -> Categories:
    """Return the ids of what rows belong to, such as patients, as categories. Raises ValueError if a row has none.

    Examples
    --------
    >>> cluster_ids("clusters", [7, 8, 7], 3).codes
    array([0, 1, 0], dtype=int32)
    >>> cluster_ids("clusters", [7, None, 7], 3)
    Traceback (most recent call last):
    ValueError: clusters: given no id in row 2, expected one for every row
    """
    if not isinstance(ids, Categories):
        column = raw_column(ids)
        if column.ndim != 1:
            raise ValueError(f"{name}: given shape {column.shape}, expected one id for every row")
        ids = categories_of(name, column).in_order()
    clusters: Categories = ids
    if rows is not None and len(clusters) != rows:
        raise ValueError(f"{name}: given {len(clusters)} rows, expected {rows}, an id for every row")
    if MISSING in clusters.names:
        lost = np.flatnonzero(clusters.codes == clusters.names.index(MISSING))
        if lost.size:
            raise ValueError(f"{name}: given no id in row {lost[0] + 1}, expected one for every row")
    return clusters


def is_table(value: Any) -> bool:
    """Return whether `Table` can open the value.

    Examples
    --------
    >>> is_table({"a": [1]}), is_table([1, 2])
    (True, False)
    """
    if isinstance(value, Mapping):
        return True
    native = _wrapped(value)
    return isinstance(native, nw.DataFrame | nw.LazyFrame) or _is_record_batch(value)


def _open(native: Any) -> Any:
    if isinstance(native, Mapping):
        data = {letters(name): raw_column(values) for name, values in native.items()}
        if len({len(values) for values in data.values()}) > 1:
            lengths = ", ".join(f"{name}: {len(values)}" for name, values in data.items())
            raise ValueError(f"columns: given lengths {lengths}, expected one length")
        return data
    if _is_record_batch(native):
        import pyarrow as pa

        native = pa.Table.from_batches([native])
    frame = _wrapped(native)
    if isinstance(frame, nw.LazyFrame):
        return _collected(frame)
    if isinstance(frame, nw.DataFrame):
        return frame
    raise TypeError(
        f"table: given {type(native).__name__}, expected a pandas, polars or pyarrow table, a duckdb relation "
        "or a mapping of columns"
    )


def _wrapped(native: Any) -> Any:
    try:
        return nw.from_native(native, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"columns: given a name twice, expected each once ({' '.join(str(error).split())})") from None


def _collected(frame: "nw.LazyFrame[Any]") -> Any:
    try:
        return frame.collect()
    except ModuleNotFoundError as error:
        given = type(frame.to_native()).__name__
        raise ModuleNotFoundError(
            f'a {given} needs {error.name}: pip install "swapcal[cli]"', name=error.name
        ) from None


def _is_record_batch(value: Any) -> bool:
    kind = type(value)
    return kind.__module__.split(".")[0] == "pyarrow" and kind.__name__ == "RecordBatch"


# Batches: a query or a data set that may be larger than memory, some rows at a time.

ROWS = 1 << 17


class Batches:
    """The non-empty tables of a lazy table; `again` is True if they can be read more than once."""

    def __init__(self, begin: Callable[[], Any], *, again: bool) -> None:
        self._begin, self.again = begin, again

    def __iter__(self) -> Iterator[Any]:
        return (_as_table(batch) for batch in self._begin() if len(batch))

    def split(self, given: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield (rows, given values of these rows): columns given by name leave the rows, and arrays are cut with them.

        Examples
        --------
        >>> import pyarrow as pa
        >>> many = batches_of(pa.table({"a": [1, 2], "b": [0, 1]}).to_reader(max_chunksize=1))
        >>> [(rows["a"].to_pylist(), own["y"].tolist(), own["t"]) for rows, own in many.split({"y": "b", "t": [7, 8]})]
        [([1], [0], [7]), ([2], [1], [8])]
        """
        names = [value for value in given.values() if isinstance(value, str)]
        for role, value in given.items():
            if value is not None and not hasattr(value, "__len__"):
                raise TypeError(f"{role}: given {value!r}, expected the name of a column, or one for each row")
        done = 0
        for batch in self:
            frame = nw.from_native(batch, eager_only=True)
            for name in names:
                if name not in frame.columns:
                    raise UnknownColumnError(name, frame.columns)
            rows = slice(done, done + len(frame))
            for role, value in given.items():
                if not isinstance(value, str | None) and len(value) < rows.stop:
                    raise ValueError(
                        f"{role}: given {len(value):,}, expected one for each row, of which there are more"
                    )
            own = {role: _own(value, frame, rows) for role, value in given.items()}
            done += len(frame)
            yield frame.drop(names).to_native(), own
        for role, value in given.items():
            if not isinstance(value, str | None) and len(value) != done:
                raise ValueError(f"{role}: given {len(value):,}, expected {done:,}, one for each row")
        if not done:
            raise ValueError("rows: given none, expected at least one")


def _own(value: Any, frame: Any, rows: slice) -> Any:
    if isinstance(value, str):
        return _as_numbers(frame.get_column(value)).to_numpy()
    return None if value is None else value[rows]


def _as_numbers(column: Any) -> Any:
    """Return decimals as floats: 1.0 is a decimal in SQL, and NumPy has none."""
    return column.cast(nw.Float64) if column.dtype.is_decimal() else column


def _as_table(batch: Any) -> Any:
    if type(batch).__name__ != "RecordBatch":
        return batch
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def in_memory(native: Any, **given: Any) -> tuple[Any, ...]:
    """Return a lazy table as one in memory, and the columns given by name or as arrays; anything else as it is.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows, y = in_memory(pa.table({"a": [1, 2], "b": [0, 1]}).to_reader(), y="b")
    >>> rows.column_names, y
    (['a'], array([0, 1]))
    """
    many = batches_of(native)
    if many is None:
        return native, *given.values()
    parts = [*many.split(given)]
    table = nw.concat([nw.from_native(rows, eager_only=True) for rows, _ in parts]).to_native()
    return table, *(_joined([own[role] for _, own in parts]) for role in given)


def _joined(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def batches_of(native: Any) -> Batches | None:
    """Return the batches of a duckdb relation, a polars LazyFrame, a pyarrow dataset or reader; None for other values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> reader = pa.table({"a": [1, 2]}).to_reader()
    >>> [len(batch) for batch in batches_of(reader)], batches_of({"a": [1, 2]})
    ([2], None)
    """
    library, name = type(native).__module__.split(".")[0], type(native).__name__
    if library in ("duckdb", "_duckdb") and name == "DuckDBPyRelation":
        begin = getattr(native, "to_arrow_reader", None) or native.fetch_arrow_reader  # the older name
        return Batches(lambda: begin(ROWS), again=True)
    if library == "polars" and name == "LazyFrame" and hasattr(native, "collect_batches"):
        return Batches(lambda: native.collect_batches(chunk_size=ROWS, maintain_order=True), again=True)
    if library == "pyarrow" and name == "RecordBatchReader":
        return Batches(lambda: native, again=False)
    if library == "pyarrow" and hasattr(native, "to_batches") and hasattr(native, "get_fragments"):
        return Batches(lambda: native.to_batches(batch_size=ROWS, batch_readahead=2, fragment_readahead=1), again=True)
    return None


# Judged columns: the roles of a table's columns in an audit.


@dataclass(frozen=True)
class JudgedColumns:
    """Names of the columns, as audits, comparisons, Spark and the commands pass them on."""

    prob: str
    target: str
    features: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    weights: str | None = None
    time: str | None = None
    issued: tuple[str, str, str] | None = None
    clusters: str | None = None

    @property
    def columns(self) -> list[str]:
        """Every column that is read, once."""
        optional = (self.weights, self.time, self.clusters, *(self.issued or ()))
        extra = [name for name in optional if name is not None]
        return list(dict.fromkeys([self.prob, self.target, *self.features, *self.groups, *extra]))

    @property
    def shared(self) -> dict[str, Any]:
        """The columns that two predictors of the same rows share, as arguments of `from_frame`.

        Examples
        --------
        >>> JudgedColumns("p", "y", groups=("town",)).shared
        {'target': 'y', 'features': (), 'groups': ('town',), 'weights': None, 'time': None, 'clusters': None}
        """
        names = (each.name for each in fields(JudgedColumns) if each.name not in ("prob", "issued"))
        return {name: getattr(self, name) for name in names}

    def check_roles(self) -> None:
        """Raise ValueError if a column has two roles, such as prediction and outcome."""
        for name in (self.prob, self.target):
            if name in (*self.features, *self.groups):
                raise ValueError(f"column {name!r}: given as a feature or group too, expected one role a column")
        if self.prob == self.target:
            raise ValueError(f"column {self.prob!r}: given as prediction and as outcome, expected two columns")


# Tables out: columns as a data frame of the requested library.

BACKENDS = ("pandas", "polars", "pyarrow", "dict")
"""Kinds of tables that `made_frame` returns."""


def made_frame(columns: Mapping[str, Sequence[Any]], backend: str) -> Any:
    """Return columns as a pandas or polars DataFrame, a pyarrow Table, or a dict of lists.

    Examples
    --------
    >>> made_frame({"p": [0.2, 0.4]}, "dict")
    {'p': [0.2, 0.4]}
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend: given {backend!r}, expected one of {', '.join(BACKENDS)}")
    if backend == "dict":
        return {name: list(values) for name, values in columns.items()}
    lists = {name: list(values) for name, values in columns.items()}
    return nw.from_dict(lists, backend=nw.Implementation.from_backend(backend)).to_native()  # type: ignore[arg-type]


def columns_from(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return records as columns, of the names given.

    Examples
    --------
    >>> columns_from([{"a": 1, "b": 2}], ["b"])
    {'b': [2]}
    """
    records = list(rows)
    return {name: [row[name] for row in records] for name in names}
