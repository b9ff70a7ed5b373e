"""Forecasts of a keyed stream: one `Live` for each key, kept in Spark's state store."""

import copy
import random
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql.streaming import StatefulProcessor

from swapcal.adapters.spark import keyed as events
from swapcal.adapters.spark import parts
from swapcal.adapters.spark.keyed import MATURES, TIME, Answers, Columns, EventRoles, Keyed, Manner, columns_of
from swapcal.adapters.spark.parts import any_pandas
from swapcal.archive import packed, unpacked
from swapcal.live import Live
from swapcal.live.state import FILE

# `Kept`: the state of a key between micro-batches, in Spark's state store and in the memory of a worker.

ROWS = 2_000
"""Rows after which a new archive is written: replaying them takes about as long as reading an archive."""

READ_ROWS = 500
"""The same for a key that is not in memory: it is read again, and its rows replayed, at each micro-batch."""

BATCH = 50
"""Rows added to the count for each micro-batch: they take as long as the fixed work for a micro-batch."""

BESIDE: dict[bytes, Keyed] = {}
"""Keys in the memory of this process, each under a checksum (stamp) of all its rows: an entry with the stamp of the
store equals the state in the store, for any query, attempt or key."""


class KeyState(NamedTuple):
    """The state of a key after its last micro-batch."""

    keyed: Keyed
    stamp: bytes
    since: int
    """rows since the archive was written"""
    most: int
    """rows since the archive after which another one is written; -1 for a key whose archive is from another release"""


class Kept:
    """Keeps a `Live` as an archive and the rows since, whose replay gives the same bits.

    Parameters
    ----------
    handle : Spark's access to the state of the current key
    settings : of a new `Live`
    remember : whether settled ids are kept
    beside : keys to keep in the memory of this process
    """

    def __init__(self, handle: Any, roles: EventRoles, settings: dict[str, Any], remember: bool, beside: int) -> None:
        self._manner, self._settings, self._beside = Manner(roles, remember), settings, beside
        self._head = handle.getValueState("head", "stamp binary, since bigint")
        self._archive = handle.getValueState("live", "content binary, clock double")
        self._rows = handle.getListState("since", "rows binary")
        self._blank = _compressed(packed(FILE, Live(**settings).to_state()))

    def play(self, rows: Columns) -> Answers:
        """Process a micro-batch of the current key, and keep its new state."""
        state, manner = self._state(), self._manner
        answers = _played(state.keyed, rows, manner)
        since = state.since + len(rows[manner.roles.id]) + BATCH
        if since > state.most:
            content = _compressed(packed(FILE, state.keyed.live.to_state()))
            self._archive.update((content, state.keyed.clock))
            self._rows.clear()
            stamp, since = _stamp(content, str(state.keyed.clock).encode()), 0
        else:
            entry = _compressed(events.packed(rows, manner))
            self._rows.appendValue((entry,))
            stamp = _stamp(state.stamp, entry)
        self._head.update((stamp, since))
        self._put(stamp, state.keyed)
        return answers

    def _state(self) -> KeyState:
        head = self._head.get()
        if head is None and self._archive.get() is not None:  # an earlier version kept an archive alone
            return KeyState(self._read(), b"", 0, -1)
        if head is None:  # a new key begins as rows after an empty state
            self._archive.update((self._blank, -np.inf))
            return KeyState(self._read(), _stamp(self._blank), 0, ROWS)
        stamp, since = bytes(head[0]), int(head[1])
        keyed = BESIDE.pop(stamp, None)  # removed: if processing fails, it no longer matches the stamp
        return KeyState(keyed or self._read(), stamp, since, READ_ROWS if keyed is None else ROWS)

    def _read(self) -> Keyed:
        content, clock = self._archive.get()
        live = self._live(bytes(content))
        keyed = Keyed(live, float(clock), self._manner.roles)
        for (entry,) in self._rows.get():
            _played(keyed, *events.unpacked(_expanded(bytes(entry))))
        return keyed

    def _live(self, content: bytes) -> Live:
        """Return the `Live` in an archive; a new `Live` is made faster than it is read."""
        if content == self._blank:
            return Live(**copy.deepcopy(self._settings))  # a monitor among them is fed
        return Live.from_state(unpacked(_expanded(content), FILE))

    def _put(self, stamp: bytes, keyed: Keyed) -> None:
        """Keep a key in memory and evict another, any one: keys come in turns, so the oldest is needed next."""
        while self._beside <= len(BESIDE) > 0:
            del BESIDE[random.choice([*BESIDE])]
        if self._beside:
            BESIDE[stamp] = keyed


def _played(keyed: Keyed, rows: Columns, manner: Manner) -> Answers:
    keyed.roles = manner.roles
    answers = keyed.play(rows)
    if not manner.remember:
        keyed.live.release()
    return answers


ZSTD = bytes.fromhex("28b52ffd")


def _compressed(content: bytes) -> bytes:
    small: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return small


def _expanded(content: bytes) -> bytes:
    """Return the decompressed content; that of earlier versions was not compressed."""
    if not content.startswith(ZSTD):
        return content
    whole: bytes = pa.input_stream(pa.BufferReader(content), compression="zstd").read()
    return whole


def _stamp(*contents: bytes) -> bytes:
    return blake2b(b"".join(contents), digest_size=16).digest()


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
    matures: Any = None,
    features: Sequence[str] | None = None,
    remember: bool = True,
    beside: int = 32,
    **settings: Any,
) -> DataFrame:
    """Return the forecasts of a stream of records and outcomes, by one `Live` for each key.

    Records and outcomes come in one stream and differ in the target: a row without an outcome is forecast; a
    row with one is the label of its id, however late; if its id was never forecast and it has features, it is forecast
    first. Answers are rows (key, id, time, p, mean, y, event, note):

    - event "forecast": p and mean as issued; y only if the outcome came with the record and was learned at once;
    - event "learned": p, mean and y of a forecast whose outcome was learned now, later than it was issued; time is that
      of the outcome, null if it had been held until its maturity;
    - event "refused": the row changed nothing, and the note gives the reason; the stream continues.

    So `audit(answers.where("y is not null"), prob="p", target="y")` audits the sink. Repeated outcomes are
    ignored. With `silence=0` a forecast whose window ends without an outcome is learned as 0 at the key's next forecast
    after that, with the event "learned"; an outcome that comes later is a correction, and has no answer.

    Within a micro-batch the rows of a key are sorted by time, at equal times forecasts before outcomes, then by id; a
    late row, after a later one of an earlier micro-batch, gets the time of that one. State is kept with the
    checkpoint as swapcal's archive: a query that is killed and restarted continues bit for bit, and with a sink that
    writes each micro-batch once (files, Delta, `foreachBatch` by batch id) every answer appears once.

    The guarantees of `Live` hold for each key separately.

    Parameters
    ----------
    stream : a streaming data frame; a batch one works too, as one micro-batch
    key : column, or columns; each value has its own `Live`
    id : column of integers or texts that identify the events of a key
    target : column of outcomes in [0, 1], null where unknown
    time : column of event times: numbers, dates or timestamps
    matures : column of times by which the outcome is known whatever its value; see `Live.forecast`. An outcome that
        comes earlier is held until the key's first forecast at or after that time. If no column has that name, a length
        of time for all forecasts: "24h", a timedelta, or a number in the unit of the times
    features : columns of the records; by default all others. Dates and times count as seconds
    remember : whether settled ids are kept, up to a million for each key and some 14 bytes each, so that a repeated
        row is recognised; without them a repeated outcome is refused, and a repeated record is forecast again
    beside : keys that each Python worker keeps in memory beside the state store, some 10 MB each: a key that is there
        need not be read, and most of the time not be written as a whole. Best as many as a worker has keys
    settings : of `Live`, without models; `silence`, `prior` and `unseen` among them
    """
    parts.require_classic(stream)
    keys = [key] if isinstance(key, str) else list(key)
    if matures is not None and matures not in stream.columns:
        matures, settings = None, {**settings, "matures": matures}
    roles = _roles(stream, keys, id, target, time, matures, features)
    if settings.get("models"):
        raise ValueError("models: given some, expected none: they could not be kept with the state")
    Live(**settings)  # raises what is wrong with the settings here
    rows = stream.select(*map(parts.column, keys), *_read(stream, keys, roles, time, matures))
    schema = _schema(stream, [*keys, id])
    stream.sparkSession.conf.set(STORE, ROCKSDB)
    with any_pandas():
        answers = rows.groupBy(*map(parts.column, keys)).transformWithStateInPandas(
            _Forecasts(keys, rows.columns, roles, settings, remember, beside), schema, "append", "none"
        )
    return answers.withColumn(time, parts.from_seconds(stream, time, parts.column(TIME))).select(
        *map(parts.column, [*keys, id, time]), *types.StructType.fromDDL(ANSWERS).names
    )


class _Forecasts(StatefulProcessor):  # type: ignore[misc]
    """Passes the rows of each key to its kept state."""

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
    parts.require(stream, named)
    if len(set(named)) < len(named):
        raise ValueError(f"columns: given {named}, expected another for each role")
    records = [name for name in stream.columns if name not in named] if features is None else list(features)
    parts.require(stream, records)
    if len({*records, target}) <= len(records):
        raise ValueError(f"features: given {records}, expected each once, and not the target {target!r}")
    for name in records:
        if not isinstance(given := stream.schema[name].dataType, FEATURES):
            expected = "numbers, texts, truth values or times: name the features, without it"
            raise TypeError(f"column {name!r}: given {given.simpleString()}, expected {expected}")
    parts.require_numbers(stream, [target])
    kind = stream.schema[id].dataType
    if not isinstance(kind, types.IntegralType | types.StringType):
        raise TypeError(f"column {id!r}: given {kind.simpleString()}, expected integers or texts")
    taken = {*keys, id, time} & {*types.StructType.fromDDL(ANSWERS).names}
    if taken:
        raise ValueError(f"column {min(taken)!r}: given, expected another name: the answers have a column of that name")
    return EventRoles(id, target, tuple(records), matures is not None, isinstance(kind, types.IntegralType))


def _read(stream: DataFrame, keys: list[str], roles: EventRoles, time: str, matures: str | None) -> list[Column]:
    """Return the columns to read; times as floats, which do not depend on the time zone."""
    cast = {roles.id: "string", roles.target: "double"}
    columns = [parts.column(name).cast(kind).alias(name) for name, kind in cast.items()]
    columns += [parts.seconds(stream, time).alias(TIME)]
    columns += [] if matures is None else [parts.seconds(stream, matures).alias(MATURES)]
    return columns + [_feature(stream, name) for name in roles.features if name not in (*keys, roles.id)]


def _feature(stream: DataFrame, name: str) -> Column:
    if isinstance(stream.schema[name].dataType, TIMES):
        return parts.seconds(stream, name).alias(name)
    return parts.column(name)


def _schema(stream: DataFrame, named: list[str]) -> types.StructType:
    fields = [types.StructField(name, stream.schema[name].dataType) for name in named]
    answers = types.StructType.fromDDL(f"{TIME} double, {ANSWERS}")
    return types.StructType([*fields, *answers.fields])
