"""Columns and Arrow batches of a Spark data frame; executors compute additive parts and count invalid values."""

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from swapcal.arrays import Array, Flags
from swapcal.audit.rows import LEAST_WEIGHT, MOST_WEIGHT
from swapcal.tables.frame import Table, UnknownColumnError
from swapcal.tables.values import as_times

# Python functions on Arrow batches of a Spark data frame.

Batches = Iterator[pa.RecordBatch]


@contextmanager
def any_pandas() -> Iterator[None]:
    """Silence Spark's warning about pandas 3, with which this module is tested."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def map_in_arrow(df: DataFrame, run: Callable[[Batches], Batches], schema: Any) -> DataFrame:
    """Apply a function to the batches of every partition, for any characters in column names.

    Spark does not quote names there, and reads a dot as a field of a structure.
    """
    names = df.columns

    def named(batches: Batches) -> Batches:
        return run(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)

    with any_pandas():
        return df.toDF(*(f"c{place}" for place in range(len(names)))).mapInArrow(named, schema)


# Columns of a Spark data frame: found, named and typed.


def column(name: str) -> Column:
    """Return a column by its whole name, which may have any characters."""
    return sql.col("`" + name.replace("`", "``") + "`")


def require_classic(df: DataFrame) -> None:
    """Raise TypeError for Spark Connect, whose session lacks broadcasts and the state that keyed streams need."""
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise TypeError("df: given a data frame of Spark Connect, expected one of a classic session")


def require_batch(df: DataFrame) -> None:
    """Raise ValueError for a stream, TypeError for a data frame of Spark Connect."""
    require_classic(df)
    if df.isStreaming:
        raise ValueError("df: given a stream, expected a batch data frame, such as the stream's sink")


def require(df: DataFrame, names: Iterable[str]) -> None:
    """Raise `UnknownColumnError` for the first name that is no column."""
    for name in names:
        if name not in df.columns:
            raise UnknownColumnError(name, df.columns)


def require_numbers(df: DataFrame, names: Iterable[str]) -> None:
    """Raise for the first column that holds neither numbers nor truth values."""
    require(df, names)
    for name in names:
        kind = df.schema[name].dataType
        if not isinstance(kind, types.NumericType | types.BooleanType):
            raise TypeError(f"column {name!r}: given {kind.simpleString()}, expected numbers")


def is_numeric(df: DataFrame, name: str) -> bool:
    """Return whether a column holds numbers."""
    return isinstance(df.schema[name].dataType, types.NumericType)


def seconds(df: DataFrame, name: str) -> Column:
    """Return times as floats: numbers as they are, dates and timestamps as seconds since 1970 in UTC."""
    require(df, [name])
    kind, values = df.schema[name].dataType, column(name)
    if isinstance(kind, types.NumericType):
        return values.cast("double")
    if isinstance(kind, types.TimestampType):
        return sql.unix_micros(values) / 1e6
    if isinstance(kind, types.TimestampNTZType):
        clock = sql.hour(values) * 3600 + sql.minute(values) * 60 + sql.date_part(sql.lit("SECOND"), values)
        return sql.unix_date(values.cast("date")) * 86_400.0 + clock.cast("double")
    if isinstance(kind, types.DateType):
        return sql.unix_date(values) * 86_400.0
    raise TypeError(f"column {name!r}: given {kind.simpleString()}, expected numbers, dates or timestamps")


def from_seconds(df: DataFrame, name: str, values: Column) -> Column:
    """Return the inverse of `seconds` of a column."""
    kind, micros = df.schema[name].dataType, sql.round(values * 1e6).cast("bigint")
    if isinstance(kind, types.TimestampType):
        return sql.timestamp_micros(micros)
    if isinstance(kind, types.TimestampNTZType):
        return sql.timestamp_add("MICROSECOND", micros, sql.lit("1970-01-01").cast("timestamp_ntz"))
    if isinstance(kind, types.DateType):
        return sql.date_from_unix_date((values / 86_400.0).cast("int"))
    return values.cast(kind)


def texts(df: DataFrame, name: str) -> Column:
    """Return the values of a key as texts, equal ones where the values are equal."""
    require(df, [name])
    kind, values = df.schema[name].dataType, column(name)
    if isinstance(kind, types.TimestampType):
        return sql.unix_micros(values).cast("string")  # whatever the time zone of the session
    if isinstance(kind, types.FractionalType) and not isinstance(kind, types.DecimalType):
        return (values.cast("double") + sql.lit(0.0)).cast("string")  # -0.0 equals 0.0
    if isinstance(kind, types.BinaryType):
        return sql.base64(values)
    if isinstance(kind, types.AtomicType) and not isinstance(kind, types.VariantType):
        return values.cast("string")
    expected = "numbers, texts, truth values, times or bytes"
    raise TypeError(f"column {name!r}: given {kind.simpleString()}, expected {expected}")


def from_texts(df: DataFrame, name: str, values: Column) -> Column:
    """Return the inverse of `texts` of a column."""
    kind = df.schema[name].dataType
    if isinstance(kind, types.TimestampType):
        return sql.timestamp_micros(values.cast("bigint"))
    return sql.unbase64(values) if isinstance(kind, types.BinaryType) else values.cast(kind)


def some_columns(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return some columns only."""
    return df.select(*map(column, names))


# Faults: invalid values in the columns of a distributed table, counted on the executors.


class ColumnRule(NamedTuple):
    """Condition on every value of a column, and the column as numbers."""

    expected: str
    holds: Callable[[Array], Flags]
    numbers: Callable[[Table, str], Array] = Table.numbers


def _times(table: Table, name: str) -> Array:
    return as_times(f"column {name!r}", table.raw(name))


def _is_probability(values: Array) -> Flags:
    return np.asarray((values >= 0.0) & (values <= 1.0))


def _is_weight(values: Array) -> Flags:
    return np.asarray((values >= LEAST_WEIGHT) & (values <= MOST_WEIGHT))


def _is_known(values: Array) -> Flags:
    return ~np.isnan(values)


def _is_not_infinite(values: Array) -> Flags:
    return ~np.isinf(values)


PROBABILITY = ColumnRule("a number in [0, 1]", _is_probability)
WEIGHT = ColumnRule(f"a positive number, from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}", _is_weight)
TIME = ColumnRule("a number, date or time", _is_known, _times)
NOT_INFINITE = ColumnRule("a finite number, or nothing", _is_not_infinite)


class Fault(NamedTuple):
    """Number of rows of a column that violate its rule, and the smallest such value."""

    rows: int
    given: float
    expected: str

    def __add__(self, other: object) -> "Fault":
        assert isinstance(other, Fault)
        return Fault(self.rows + other.rows, float(np.fmin(self.given, other.given)), self.expected)


@dataclass
class Faults:
    """Number of rows and their faults by column; parts can be added."""

    rows: int = 0
    columns: dict[str, Fault] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    """messages of exceptions raised on the executors"""

    def __bool__(self) -> bool:
        return bool(self.columns or self.refusals)

    def look(self, table: Table, rules: Mapping[str, ColumnRule]) -> None:
        """Count the rows of a table that violate the rules."""
        self.rows += len(table)
        for name, rule in rules.items():
            values = rule.numbers(table, name)
            broken = values[~rule.holds(values)]
            if broken.size:
                fault = Fault(broken.size, float(np.fmin.reduce(broken)), rule.expected)
                self.columns[name] = self.columns[name] + fault if name in self.columns else fault

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Record an exception instead of raising it on the executor, where Spark's traces would hide it."""
        try:
            yield
        except (TypeError, ValueError) as error:
            self.refusals.append(str(error))

    def __add__(self, other: "Faults") -> "Faults":
        columns = dict(self.columns)
        for name, fault in other.columns.items():
            columns[name] = columns[name] + fault if name in columns else fault
        return Faults(self.rows + other.rows, columns, self.refusals + other.refusals)

    def raise_any(self) -> None:
        """Raise the first fault, in alphabetical order of columns."""
        for name, fault in sorted(self.columns.items()):
            given = "nothing" if np.isnan(fault.given) else f"{fault.given:g}"
            advice = "; leave such rows out with df.where(…)" if np.isnan(fault.given) else ""
            where = f"in {fault.rows:,} of {self.rows:,} rows"
            raise ValueError(f"column {name!r}: given {given} {where}, expected {fault.expected}{advice}")
        if self.refusals:
            raise ValueError(min(self.refusals))


# Parts: an additive result is computed for each partition on the executors, and added up.

LOT = 1 << 17
"""Rows per call; Spark's batches of 10,000 are too few to amortise the cost of a call."""

ENOUGH = 1 << 28
"""Bytes of parts that the driver adds up itself; beyond, the executors add them first."""

PART = "part"
Part = TypeVar("Part")
PartialResult = tuple[Faults, Any]
NOTHING: PartialResult = (Faults(), None)


def add_up(
    df: DataFrame,
    columns: Sequence[str],
    rules: Mapping[str, ColumnRule],
    work: "Callable[[Part | None, pa.Table], Part]",
) -> Any:
    """Return the sum of `work` over tables of all rows.

    Parameters
    ----------
    columns : columns that `work` needs; no others leave the Java process
    rules : conditions on the columns; faults are counted over all rows, and raised here
    work : called with its previous result, or None, and the next table of rows
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


def settled(result: PartialResult) -> Any:
    """Return the sum. Raises the recorded exception or fault, if any."""
    faults, part = result
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


def unpickled(row: Any) -> PartialResult:
    """Return the result of a worker."""
    result: PartialResult = pickle.loads(row[PART])
    return result


def added(one: PartialResult, other: PartialResult) -> PartialResult:
    """Return the sum of the results of two workers."""
    faults = one[0] + other[0]
    parts = [] if faults else [part for _, part in (one, other) if part is not None]
    return faults, sum(parts[1:], parts[0]) if parts else None
