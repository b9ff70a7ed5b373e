"""Batches: a query or a data set that may be larger than memory, some rows at a time."""

from collections.abc import Callable, Iterator
from typing import Any

ROWS = 1 << 17


class Batches:
    """Non-empty Arrow batches of a lazy table; `again` says whether they can be had more than once."""

    def __init__(self, begin: Callable[[], Any], *, again: bool) -> None:
        self._begin, self.again = begin, again

    def __iter__(self) -> Iterator[Any]:
        return (batch for batch in self._begin() if len(batch))


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
