"""Forecasts of a keyed stream: one `Live` for each key, kept in Spark's state store."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, types
from pyspark.sql.streaming import StatefulProcessor

from swapcal.adapters.spark import columns
from swapcal.adapters.spark.arrow import any_pandas
from swapcal.adapters.spark.events import MATURES, TIME, EventRoles, columns_of
from swapcal.adapters.spark.kept import Kept
from swapcal.live import Live

STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TIMES = types.TimestampType | types.TimestampNTZType | types.DateType
FEATURES = types.NumericType | types.StringType | types.CharType | types.VarcharType | types.BooleanType | TIMES
ANSWERS = "p double, mean double, y double, event string, note string"


def forecast(
    stream: DataFrame,
    *,
    key: str | Sequence[str],
    id: str,
    target: str,
    time: str,
    matures: str | None = None,
    features: Sequence[str] | None = None,
    remember: bool = True,
    beside: int = 32,
    **settings: Any,
) -> DataFrame:
    """Return the forecasts of a stream of records and outcomes, by one `Live` for each key.

    Records and outcomes come in one stream, told apart by the target: a row without an outcome asks for a forecast; a
    row with one is the label of its id, however late; if its id was never forecast and it has features, it is forecast
    first. Answers are rows (key, id, time, p, mean, y, event, note):

    - event "forecast": p and mean as issued; y only if the outcome came with the record and was learned at once;
    - event "learned": p, mean and y of a forecast whose outcome was learned now, later than it was issued; time is that
      of the outcome, null if it had been held until its maturity;
    - event "refused": the row changed nothing, and the note says why: the stream goes on.

    So `audit(answers.where("y is not null"), prob="p", target="y")` judges what the sink holds. Outcomes said twice are
    ignored.

    Within a micro-batch the rows of a key go in order of time, at one time forecasts before outcomes, then by id; a row
    that comes late, after a later one of an earlier micro-batch, counts as of then. State is kept with the
    checkpoint as swapcal's archive: a query that is killed and started again goes on bit for bit, and with a sink that
    writes each micro-batch once (files, Delta, `foreachBatch` by batch id) every answer is there once.

    The guarantees of `Live` hold for each key by itself.

    Parameters
    ----------
    stream : a streaming data frame; a batch one works too, as one micro-batch
    key : column, or columns, whose values have a `Live` each
    id : column of integers or texts that name the events of a key
    target : column of outcomes in [0, 1], null where not known
    time : column of event times: numbers, dates or timestamps
    matures : column of when the outcome would be known whatever it is; see `Live.forecast`. An outcome that comes
        earlier is held until the key's first forecast at or after that time
    features : columns of the records; by default all others. Dates and times count as seconds
    remember : whether settled ids are kept, up to a million for each key and some 14 bytes each, so that a repeated
        row is recognised; without them a repeated outcome is refused, and a repeated record is forecast anew
    beside : keys that each Python worker keeps in memory beside the state store, some 10 MB each: a key that is there
        need not be read, and most of the time not be written as a whole. Best as many as a worker has keys
    settings : of `Live`, without models
    """
    columns.require_classic(stream)
    keys = [key] if isinstance(key, str) else list(key)
    roles = _roles(stream, keys, id, target, time, matures, features)
    if settings.get("models"):
        raise ValueError("models: given some, expected none: they could not be kept with the state")
    Live(**settings)  # raises what is wrong with the settings here
    rows = stream.select(*map(columns.column, keys), *_read(stream, keys, roles, time, matures))
    schema = _schema(stream, [*keys, id])
    stream.sparkSession.conf.set(STORE, ROCKSDB)
    with any_pandas():
        answers = rows.groupBy(*map(columns.column, keys)).transformWithStateInPandas(
            _Forecasts(keys, rows.columns, roles, settings, remember, beside), schema, "append", "none"
        )
    return answers.withColumn(time, columns.from_seconds(stream, time, columns.column(TIME))).select(
        *map(columns.column, [*keys, id, time]), *types.StructType.fromDDL(ANSWERS).names
    )


class _Forecasts(StatefulProcessor):  # type: ignore[misc]
    """Hands the rows of each key to what is kept of it."""

    def __init__(self, keys: list[str], names: list[str], roles: EventRoles, *how: Any) -> None:
        self._keys, self._names, self._roles, self._how = keys, names, roles, how

    def init(self, handle: Any) -> None:
        self._kept = Kept(handle, self._roles, *self._how)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        first, *others = rows
        batch = pd.concat([first, *others], ignore_index=True) if others else first
        answers = self._kept.play(columns_of(batch, self._names))  # Spark renames what is no Python identifier
        yield answers.frame(dict(zip(self._keys, key, strict=True)), {"id": self._roles.id, "time": TIME})

    def close(self) -> None:
        pass


def _roles(
    stream: DataFrame,
    keys: list[str],
    id: str,
    target: str,
    time: str,
    matures: str | None,
    features: Sequence[str] | None,
) -> EventRoles:
    named = [*keys, id, target, time, *([] if matures is None else [matures])]
    columns.require(stream, named)
    if len(set(named)) < len(named):
        raise ValueError(f"columns: given {named}, expected another for each role")
    records = [name for name in stream.columns if name not in named] if features is None else list(features)
    columns.require(stream, records)
    if len({*records, target}) <= len(records):
        raise ValueError(f"features: given {records}, expected each once, and not the target {target!r}")
    for name in records:
        if not isinstance(given := stream.schema[name].dataType, FEATURES):
            expected = "numbers, texts, truth values or times: name the features, without it"
            raise TypeError(f"column {name!r}: given {given.simpleString()}, expected {expected}")
    columns.require_numbers(stream, [target])
    kind = stream.schema[id].dataType
    if not isinstance(kind, types.IntegralType | types.StringType):
        raise TypeError(f"column {id!r}: given {kind.simpleString()}, expected integers or texts")
    taken = {*keys, id, time} & {*types.StructType.fromDDL(ANSWERS).names}
    if taken:
        raise ValueError(f"column {min(taken)!r}: given, expected another name: the answers have a column of that name")
    return EventRoles(id, target, tuple(records), matures is not None, isinstance(kind, types.IntegralType))


def _read(stream: DataFrame, keys: list[str], roles: EventRoles, time: str, matures: str | None) -> list[Column]:
    """Return what the rows are read from; times as floats, which mean the same in every time zone."""
    cast = {roles.id: "string", roles.target: "double"}
    found = [columns.column(name).cast(kind).alias(name) for name, kind in cast.items()]
    found += [columns.seconds(stream, time).alias(TIME)]
    found += [] if matures is None else [columns.seconds(stream, matures).alias(MATURES)]
    return found + [_feature(stream, name) for name in roles.features if name not in (*keys, roles.id)]


def _feature(stream: DataFrame, name: str) -> Column:
    if isinstance(stream.schema[name].dataType, TIMES):
        return columns.seconds(stream, name).alias(name)
    return columns.column(name)


def _schema(stream: DataFrame, named: list[str]) -> types.StructType:
    fields = [types.StructField(name, stream.schema[name].dataType) for name in named]
    answers = types.StructType.fromDDL(f"{TIME} double, {ANSWERS}")
    return types.StructType([*fields, *answers.fields])
