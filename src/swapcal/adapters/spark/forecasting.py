"""Forecasts of a keyed stream: one `Live` for each key, kept in Spark's state store."""

import copy
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor

from swapcal.adapters.spark import keyed as events
from swapcal.adapters.spark import parts
from swapcal.adapters.spark.keyed import MATURES, TIME, Answers, Columns, EventRoles, Keyed, Manner, columns_of
from swapcal.adapters.spark.parts import any_pandas
from swapcal.archive import ArchiveError, dumped, loaded
from swapcal.live import Live
from swapcal.live.experts import FULL, SMALL
from swapcal.live.state import FILE

# `Kept`: the state of each key between micro-batches, in Spark's state store and in the memory of a worker.

ROWS = 2_000
"""Rows after which the state is written as a whole again: replaying them takes about as long as reading it."""

READ_ROWS = {FULL: 500, SMALL: 0}
"""The same for a key that is not in memory: it is read again, and its rows replayed, at each micro-batch."""

BATCH = 50
"""Rows added to the count for each micro-batch: they take as long as the fixed work for a micro-batch."""

BESIDE: dict[bytes, Keyed] = {}
"""Keys in the memory of this process, each under a checksum (stamp) of all its rows: an entry with the stamp of the
store equals the state in the store, for any query, attempt or key."""

Key = tuple[str | None, ...]


class KeyState(NamedTuple):
    """The state of a key after its last micro-batch."""

    keyed: Keyed
    stamp: bytes
    since: int
    """rows since the whole was written"""
    rows: list[bytes]
    """these rows, one entry for each micro-batch"""
    most: int
    """rows since the whole after which it is written again"""


class Kept:
    """Keeps a `Live` for each key as a whole and the rows since, whose replay gives the same bits.

    Parameters
    ----------
    handle : Spark's access to the states of the current group of keys
    settings : of a new `Live`
    remember : whether settled ids are kept
    beside : keys to keep in the memory of this process
    parts : number of columns of a key
    """

    def __init__(
        self, handle: Any, roles: EventRoles, settings: dict[str, Any], remember: bool, beside: int, parts: int
    ) -> None:
        self._manner, self._settings, self._beside = Manner(roles, remember), settings, beside
        key = ", ".join(f"part{k} string" for k in range(parts))
        # Up to 0.3.0 these were values of single keys: Spark refuses such a checkpoint because of the names.
        self._heads = handle.getMapState("head", key, "stamp binary, since bigint, rows array<binary>")
        self._wholes = handle.getMapState("live", key, "content binary, clock double")
        self._read_rows = READ_ROWS[settings.get("size", FULL)]

    def play(self, key: Key, rows: Columns) -> Answers:
        """Process a micro-batch of a key, and keep its new state."""
        state, manner = self._state(key), self._manner
        answers = _played(state.keyed, rows, manner)
        since = state.since + len(rows[manner.roles.id]) + BATCH
        if since > state.most:
            stamp, since, entries = self._keep(key, state.keyed), 0, list[bytes]()
        else:
            entry = _compressed(events.packed(rows, manner))
            stamp, entries = _stamp(state.stamp, entry), [*state.rows, entry]
        self._heads.updateValue(key, (stamp, since, entries))
        self._put(stamp, state.keyed)
        return answers

    def _keep(self, key: Key, keyed: Keyed) -> bytes:
        """Write a state as a whole; return its stamp."""
        content = _compressed(dumped(FILE, keyed.live.to_state()))
        self._wholes.updateValue(key, (content, keyed.clock))
        return _stamp(content, str(keyed.clock).encode())

    def _state(self, key: Key) -> KeyState:
        head = self._heads.getValue(key)
        if head is None:
            keyed = Keyed(Live(**copy.deepcopy(self._settings)), -np.inf, self._manner.roles)  # a monitor there is fed
            if not self._read_rows:
                return KeyState(keyed, b"", 0, [], 0)
            return KeyState(keyed, self._keep(key, keyed), 0, [], ROWS)  # a new key begins as rows after an empty state
        stamp, since, rows = bytes(head[0]), int(head[1]), [*map(bytes, head[2])]
        known = BESIDE.pop(stamp, None)  # removed: if processing fails, it no longer matches the stamp
        if known is not None:
            return KeyState(known, stamp, since, rows, ROWS)
        return KeyState(self._read(key, stamp, rows), stamp, since, rows, self._read_rows)

    def _read(self, key: Key, stamp: bytes, rows: list[bytes]) -> Keyed:
        content, clock = self._wholes.getValue(key)
        content = bytes(content)
        if reduce(_stamp, rows, _stamp(content, str(clock).encode())) != stamp:
            raise ArchiveError(f"state of key {key}: given contents that do not match their checksum")
        keyed = Keyed(Live.from_state(loaded(_expanded(content), FILE)), clock, self._manner.roles)
        for entry in rows:
            _played(keyed, *events.unpacked(_expanded(entry)))
        return keyed

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


def _compressed(content: bytes) -> bytes:
    small: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return small


def _expanded(content: bytes) -> bytes:
    whole: bytes = pa.input_stream(pa.BufferReader(content), compression="zstd").read()
    return whole


def _stamp(*contents: bytes) -> bytes:
    return blake2b(b"".join(contents), digest_size=16).digest()


STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TIMES = types.TimestampType | types.TimestampNTZType | types.DateType
FEATURES = types.NumericType | types.StringType | types.CharType | types.VarcharType | types.BooleanType | TIMES
GROUPS, GROUP, PART = 256, "__group", "__key"
"""Groups of keys by a hash, and their columns: what Spark does for each group costs as much as a model for a key."""
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
    checkpoint under a checksum: a query that is killed and restarted continues bit for bit, and with a sink that
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
    named = {f"{PART}{k}": name for k, name in enumerate(keys)}
    texts = [parts.texts(stream, name).alias(part) for part, name in named.items()]
    rows = stream.select(*texts, *_read(stream, roles, time, matures))
    rows = rows.withColumn(GROUP, sql.pmod(sql.xxhash64(*named), sql.lit(GROUPS)))
    schema = types.StructType([types.StructField(part, types.StringType()) for part in named])
    schema = schema.add(id, stream.schema[id].dataType).add(TIME, "double")
    schema = types.StructType([*schema.fields, *types.StructType.fromDDL(ANSWERS).fields])
    stream.sparkSession.conf.set(STORE, ROCKSDB)
    with any_pandas():
        answers = rows.groupBy(GROUP).transformWithStateInPandas(
            _Forecasts([*named], rows.columns, roles, settings, remember, beside, len(keys)), schema, "append", "none"
        )
    return answers.select(
        *(parts.from_texts(stream, name, sql.col(part)).alias(name) for part, name in named.items()),
        parts.column(id),
        parts.from_seconds(stream, time, sql.col(TIME)).alias(time),
        *types.StructType.fromDDL(ANSWERS).names,
    )


class _Forecasts(StatefulProcessor):  # type: ignore[misc]
    """Passes the rows of each key to its kept state."""

    def __init__(self, keys: list[str], names: list[str], roles: EventRoles, *how: Any) -> None:
        self._keys, self._names, self._roles, self._how = keys, names, roles, how

    def init(self, handle: Any) -> None:
        self._kept = Kept(handle, self._roles, *self._how)

    def handleInputRows(self, group: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        first, *others = rows
        batch = pd.concat([first, *others], ignore_index=True) if others else first
        columns = columns_of(batch, self._names)  # Spark renames what is no Python identifier
        places = defaultdict[Key, list[int]](list)
        for place, key in enumerate(zip(*(columns.pop(name) for name in self._keys), strict=True)):
            places[key].append(place)
        answers, keys = Answers(), list[Key]()
        for key, own in places.items():
            answers.extend(self._kept.play(key, {name: [values[k] for k in own] for name, values in columns.items()}))
            keys += [key] * (len(answers.id) - len(keys))
        texts = zip(*keys, strict=True) if keys else [[]] * len(self._keys)
        yield answers.frame(dict(zip(self._keys, texts, strict=True)), {"id": self._roles.id, "time": TIME})

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


def _read(stream: DataFrame, roles: EventRoles, time: str, matures: str | None) -> list[Column]:
    """Return the columns to read; times as floats, which do not depend on the time zone."""
    cast = {roles.id: "string", roles.target: "double"}
    columns = [parts.column(name).cast(kind).alias(name) for name, kind in cast.items()]
    columns += [parts.seconds(stream, time).alias(TIME)]
    columns += [] if matures is None else [parts.seconds(stream, matures).alias(MATURES)]
    return columns + [_feature(stream, name) for name in roles.features if name != roles.id]


def _feature(stream: DataFrame, name: str) -> Column:
    if isinstance(stream.schema[name].dataType, TIMES):
        return parts.seconds(stream, name).alias(name)
    return parts.column(name)
