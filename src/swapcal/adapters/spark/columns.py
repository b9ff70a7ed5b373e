"""Columns of a Spark data frame: found, named and typed."""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from swapcal.tables.table import UnknownColumnError


def column(name: str) -> Column:
    """Return a column by its whole name, whatever characters that has."""
    return sql.col("`" + name.replace("`", "``") + "`")


def require_classic(df: DataFrame) -> None:
    """Refuse a data frame of Spark Connect, whose session has neither broadcasts nor what streams of keys need."""
    if type(df).__module__.startswith("pyspark.sql.connect"):
        raise TypeError("df: given a data frame of Spark Connect, expected one of a classic session")


def require_batch(df: DataFrame) -> None:
    """Refuse a stream, and a data frame of Spark Connect."""
    require_classic(df)
    if df.isStreaming:
        raise ValueError("df: given a stream, expected a batch data frame, such as what the stream's sink holds")


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
    """Say whether a column holds numbers."""
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
    """Return what `seconds` made of a column as it was."""
    kind, micros = df.schema[name].dataType, sql.round(values * 1e6).cast("bigint")
    if isinstance(kind, types.TimestampType):
        return sql.timestamp_micros(micros)
    if isinstance(kind, types.TimestampNTZType):
        return sql.timestamp_add("MICROSECOND", micros, sql.lit("1970-01-01").cast("timestamp_ntz"))
    if isinstance(kind, types.DateType):
        return sql.date_from_unix_date((values / 86_400.0).cast("int"))
    return values.cast(kind)


def some_columns(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return some columns only."""
    return df.select(*map(column, names))
