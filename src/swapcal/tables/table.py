"""Table: the columns of pandas, polars, pyarrow, duckdb relations, or a mapping of arrays, one at a time."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np

from swapcal.arrays import AnyArray, Array, Keys
from swapcal.kernels.draw import row_marks
from swapcal.tables.categories import Categories
from swapcal.tables.columns import categories_of, is_numeric, numbers_of, raw_column
from swapcal.tables.values import letters, text_key


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
        """Raise `UnknownColumnError` for the first name that is no column, suggesting the nearest one."""
        for name in names:
            if name not in self.columns:
                raise UnknownColumnError(name, self.columns)

    def is_numeric(self, name: str) -> bool:
        """Say whether the column holds numbers (booleans are categories)."""
        return is_numeric(self._column(name))

    def numbers(self, name: str) -> Array:
        """Return the column as floats; missing values become NaN."""
        return numbers_of(name, self._column(name))

    def categories(self, name: str) -> Categories:
        """Return the column as categories in alphabetical order; missing values are one of them."""
        if name not in self._categories:
            self._categories[name] = categories_of(name, self._column(name)).in_order()
        return self._categories[name]

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
            found = self.categories(name)
            keys = [0 if value is None else text_key(name, value) for value in found.values]
            symbols[:, j] = np.array([*keys, 0], np.uint64)[found.codes]
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


class UnknownColumnError(ValueError):
    """A column that does not exist; the message suggests the nearest name."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        near = get_close_matches(name, columns, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        listed = ", ".join(map(repr, columns[:12])) + (", …" if len(columns) > 12 else "")
        super().__init__(f"no column {name!r}{hint} The columns are {listed}.")


def categories(labels: Any) -> Categories:
    """Factorise a sequence of labels (text, numbers, truth values, times) in alphabetical order.

    Examples
    --------
    >>> found = categories(["b", "a", None])
    >>> found.codes, found.names
    (array([2, 1, 0], dtype=int32), ['(missing)', 'a', 'b'])
    """
    return categories_of("group", raw_column(labels)).in_order()


def is_table(value: Any) -> bool:
    """Say whether `Table` can open the value.

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
