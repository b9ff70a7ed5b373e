"""Parts: something additive computed where the rows are, one part for each partition, and added up."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from swapcal.adapters.spark.arrow import Batches, map_in_arrow
from swapcal.adapters.spark.columns import some_columns
from swapcal.adapters.spark.faults import ColumnRule, Faults
from swapcal.tables.table import Table

LOT = 1 << 17
"""Rows handed on at once; Spark's batches of 10,000 are too few to amortise what is done once for each."""

ENOUGH = 1 << 28
"""Bytes of parts that the driver adds up by itself; more of them are first added up among the executors."""

PART = "part"
Part = TypeVar("Part")
Found = tuple[Faults, Any]
NOTHING: Found = (Faults(), None)


def add_up(
    df: DataFrame,
    columns: Sequence[str],
    rules: Mapping[str, ColumnRule],
    work: "Callable[[Part | None, pa.Table], Part]",
) -> Any:
    """Return the sum over all rows of what `work` makes of tables of them.

    Parameters
    ----------
    columns : what `work` needs of a row; nothing else leaves the Java process
    rules : what the columns must fulfil; faults are counted over all rows, and raised here
    work : called with None, or what it returned for the lot before, and with the next lot of rows
    """

    def run(batches: Batches) -> Batches:
        faults, part = Faults(), None
        for table in lots(batches):
            with faults.caught():
                faults.look(Table(table), rules)
                part = None if faults else work(part, table)
        yield pa.RecordBatch.from_pydict({PART: [pickle.dumps((faults, part))]})

    parts = map_in_arrow(some_columns(df, columns), run, f"{PART} binary").persist()
    try:
        size = parts.agg(sql.sum(sql.length(PART))).collect()[0][0] or 0
        if size > ENOUGH:
            return settled(parts.rdd.map(unpickled).treeAggregate(NOTHING, added, added))
        return settled(reduce(added, map(unpickled, parts.collect()), NOTHING))
    finally:
        parts.unpersist()


def settled(found: Found) -> Any:
    """Return what was added up, or raise what was met on the way."""
    faults, part = found
    faults.raise_any()
    if part is None:
        raise ValueError("rows: given none, expected at least one")
    return part


def lots(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield many small batches as few large tables."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= LOT:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def unpickled(row: Any) -> Found:
    """Return what a worker found."""
    found: Found = pickle.loads(row[PART])
    return found


def added(one: Found, other: Found) -> Found:
    """Return what two workers found together."""
    faults = one[0] + other[0]
    parts = [] if faults else [part for _, part in (one, other) if part is not None]
    return faults, sum(parts[1:], parts[0]) if parts else None
