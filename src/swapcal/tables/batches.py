"""Batches: a query or a data set that may be larger than memory, some rows at a time."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import narwhals as nw
import numpy as np

from swapcal.tables.table import UnknownColumnError

ROWS = 1 << 17


class Batches:
    """The tables a lazy table falls into, none empty; `again` says whether they can be had more than once."""

    def __init__(self, begin: Callable[[], Any], *, again: bool) -> None:
        self._begin, self.again = begin, again

    def __iter__(self) -> Iterator[Any]:
        return (_as_table(batch) for batch in self._begin() if len(batch))

    def split(self, given: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield (rows, what was given for them): columns given by name leave the rows, and arrays are cut with them.

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
    """Return decimals, which 1.0 is in SQL and NumPy does not have, as floats."""
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
    whole = nw.concat([nw.from_native(rows, eager_only=True) for rows, _ in parts]).to_native()
    return whole, *(_joined([own[role] for _, own in parts]) for role in given)


def _joined(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def batches_of(native: Any) -> Batches | None:
    """Return the batches of a duckdb relation, a polars LazyFrame, a pyarrow dataset or reader; None of all else.

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
