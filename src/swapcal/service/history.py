"""The log read again: forecasts with their outcomes for audits, export, deletion of old events, and replay."""

import re
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from swapcal.archive import ArchiveError
from swapcal.audit import Audit
from swapcal.service import events as bodies
from swapcal.service.commands import CommandHandler
from swapcal.service.events import (
    CORRECTION,
    FORECAST,
    LEVELS,
    OUTCOME,
    SILENCE,
    Event,
    ForecastBody,
    forecast_body,
    in_pages,
)
from swapcal.service.hosted import HostedForecaster, fresh_forecaster
from swapcal.service.settings import ApiError, Limits, Settings
from swapcal.service.snapshots import Still, recover, restored
from swapcal.service.sql import PAGE, Occupied, Removal, Unreadable
from swapcal.service.store import Store

# History: forecasts and their outcomes from the log, for audits.


class PastForecast(NamedTuple):
    """A forecast whose outcome is known."""

    p: float
    low: float
    high: float
    weight: float
    """of `high`"""
    y: float
    time: float
    groups: tuple[Any, ...]
    cluster: Any = None
    counts: float = 1.0
    """how often its outcome counts"""


class AuditedPeriod(NamedTuple):
    """Forecasts made from one time on and before another; either may be open."""

    since: float | None = None
    until: float | None = None

    def holds(self, time: float) -> bool:
        """Return whether a time lies in it."""
        return (self.since is None or self.since <= time) and (self.until is None or time < self.until)


def past(store: Store, settings: Settings, span: AuditedPeriod, most: int) -> list[PastForecast]:
    """Return forecasts in a span whose outcomes are known, in order; corrected outcomes as corrected.

    The time of a forecast is the one given with it, or else when it was accepted.
    """
    made: dict[str, PastForecast] = {}
    outcomes: dict[str, tuple[float, float]] = {}
    """with their weights"""
    for event in store.events(settings.name):
        if event.kind == FORECAST:
            body = bodies.forecast_body(event.body)
            time = event.time if body.time is None else body.time
            if span.holds(time):
                record = bodies.record_of(body.record)
                groups = tuple(record.get(name) for name in settings.groups)
                cluster = record.get(settings.watch.clusters) if settings.watch.clusters else None
                made[event.id] = PastForecast(body.p, body.low, body.high, body.weight, np.nan, time, groups, cluster)
                if len(made) > most:
                    raise ApiError("large", f"audit: given more than {most:,} forecasts, expected a shorter span")
        elif event.kind == OUTCOME and event.id in made:
            outcome = bodies.outcome_body(event.body)
            outcomes[event.id] = outcome.y, outcome.counts
        elif event.kind == SILENCE and event.id in made:  # an outcome that came with it, too late, stands before it
            outcomes.setdefault(event.id, (bodies.outcome_body(event.body).y, 1.0))
        elif event.kind == CORRECTION and event.id in outcomes:
            corrected = bodies.correction_body(event.body)
            weight = outcomes[event.id][1] if corrected.weight is None else corrected.weight
            outcomes[event.id] = corrected.y, weight
    known = ((row, *outcomes[id]) for id, row in made.items() if id in outcomes)
    return [row._replace(y=y, counts=weight) for row, y, weight in known]


def audit(store: Store, settings: Settings, span: AuditedPeriod, most: int = 1_000_000) -> Audit:
    """Return the audit of the issued levels in a span, by the forecaster's groups."""
    rows = past(store, settings, span, most)
    if not rows:
        raise ApiError("unknown", "audit: given a span without a known outcome, expected at least one")
    columns = dict(zip(PastForecast._fields, zip(*rows, strict=True), strict=True))
    by_group = zip(*columns["groups"], strict=True)
    groups = {name: [*values] for name, values in zip(settings.groups, by_group, strict=True)}
    given: dict[str, Any] = {name: np.array(columns[name], np.float64) for name in ("p", "y", "low", "high", "weight")}
    counts = np.array(columns["counts"], np.float64)
    weights = None if (counts == 1.0).all() else counts
    clusters = None if settings.watch.clusters is None else [*columns["cluster"]]
    time = _times(columns["time"])
    given |= {"weights": weights, "clusters": clusters, "groups": groups or None, "time": time}
    return Audit(**given, title=settings.name)


def _times(times: tuple[float, ...]) -> Any:
    """Return times as dates if they look like seconds since 1970 in this age, else as numbers."""
    if min(times) < 1e8 or max(times) > 1e10:
        return np.array(times)
    return (np.array(times) * 1e6).astype("datetime64[us]")


# Export: the log as a table, one row for each forecast, for audits and other analyses.

ROWS = 8192
"""Rows of a part: all that is in memory at a time."""
MOMENT = pa.timestamp("us", tz="UTC")
OWN = {
    "seq": pa.int64(),
    "id": pa.string(),
    "time": MOMENT,
    "p": pa.float64(),
    "mean": pa.float64(),
    "low": pa.float64(),
    "high": pa.float64(),
    "weight": pa.float64(),
    "model": pa.string(),
    "given_time": pa.float64(),
    "matures": pa.float64(),
    "outcome": pa.float64(),
    "outcome_time": MOMENT,
    "outcome_weight": pa.float64(),
    "corrected": pa.float64(),
    "silent": pa.bool_(),
    "y": pa.float64(),
}
"""Columns of ours: `time` is when the service accepted the forecast, `silent` whether it was learned as silence, `y`
the outcome as it is known now: reported, corrected, or silence, and `outcome_weight` how often it counts."""


class Exporter:
    """The forecasts of one forecaster as parts of a table, all with the same columns.

    Parameters
    ----------
    store : Store
        Where the log is; it may be growing.
    name : str
        The forecaster.
    first, last : int, optional
        Numbers of the events between which forecasts are taken; by default all there are now.
    """

    def __init__(self, store: Store, name: str, first: int = 1, last: int | None = None) -> None:
        self._store, self._name = store, name
        self.first, self.last = first, store.last(name) if last is None else last
        self._kinds: dict[str, pa.DataType] = {}

    def survey(self) -> Iterator[int]:
        """Find the records' columns and their types; yield the number of each event looked at, some at a time."""
        seen: dict[str, set[type]] = {}
        for events in self._parts():
            for event in events:
                for column, value in bodies.record_of(bodies.forecast_body(event.body).record).items():
                    seen.setdefault(column, set()).add(type(value))
            yield events[-1].seq
        self._kinds = {column: _kind(types) for column, types in seen.items()}

    @property
    def schema(self) -> pa.Schema:
        """The columns: ours, then those of the records; those of the records that would hide ours are renamed."""
        theirs = {_named(column): kind for column, kind in self._kinds.items()}
        return pa.schema(list({**OWN, **theirs}.items()))

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield parts of the table, each with the number of its last event; `survey` comes first."""
        schema = self.schema
        empty = True
        for events in self._parts():
            known = _by_id(self._store.about(self._name, [event.id for event in events]))
            rows = [self._row(event, known.get(event.id, ())) for event in events]
            yield events[-1].seq, pa.Table.from_pylist(rows, schema=schema)
            empty = False
        if empty:
            yield self.last, schema.empty_table()

    def _parts(self) -> Iterator[list[Event]]:
        events = self._store.events(self._name, self.first - 1, self.last)
        return in_pages((event for event in events if event.kind == FORECAST), ROWS)

    def _row(self, event: Event, known: Sequence[Event]) -> dict[str, Any]:
        body = bodies.forecast_body(event.body)
        record = bodies.record_of(body.record)
        row: dict[str, Any] = {_named(name): _value(value, self._kinds[name]) for name, value in record.items()}
        row |= {"seq": event.seq, "id": event.id, "time": _micros(event.time), "model": body.model}
        row |= {"p": body.p, "mean": body.mean, "low": body.low, "high": body.high, "weight": body.weight}
        row |= {"given_time": body.time, "matures": body.matures, "silent": False, "outcome_weight": 1.0}
        for other in known:
            if other.kind == OUTCOME:
                outcome = bodies.outcome_body(other.body)
                row |= {"outcome": outcome.y, "y": outcome.y, "outcome_time": _micros(other.time)}
                row["outcome_weight"] = outcome.counts
            elif other.kind == SILENCE:
                row = {"y": bodies.outcome_body(other.body).y} | row | {"silent": True}
            elif other.kind == CORRECTION:
                corrected = bodies.correction_body(other.body)
                row |= {"corrected": corrected.y, "y": corrected.y}
                row |= {} if corrected.weight is None else {"outcome_weight": corrected.weight}
        return row


def _by_id(events: Iterable[Event]) -> Mapping[str, list[Event]]:
    by_id: dict[str, list[Event]] = {}
    for event in events:
        by_id.setdefault(event.id, []).append(event)
    return by_id


def _named(column: str) -> str:
    """Return the name of a record's column.

    Examples
    --------
    >>> _named("carrier"), _named("time")
    ('carrier', 'record.time')
    """
    return f"record.{column}" if column in OWN or column.startswith("record.") else column


def _kind(types: set[type]) -> pa.DataType:
    """Return the narrowest type that holds all values: text if they are of several sorts.

    Examples
    --------
    >>> _kind({int, float, type(None)}), _kind({bool}), _kind({bool, int}), _kind({type(None)})
    (DataType(double), DataType(bool), DataType(string), DataType(string))
    """
    sorts = types - {type(None)}
    if sorts == {bool}:
        return pa.bool_()
    if sorts and sorts <= {int, float}:
        return pa.float64()
    return pa.string()


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kind == pa.float64():
        return float(value)
    return value if kind == pa.bool_() or isinstance(value, str) else bodies.encoded(value).decode()


def _micros(moment: float) -> int:
    return round(moment * 1e6)


# Retention: deletion of old events.

UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
SPARE = 2
"""Snapshots from which the state can still be had afterwards, if there are so many: one may turn out damaged."""


class Pruning(NamedTuple):
    """The events of one forecaster's log that would be removed: everything settled before an event."""

    forecaster: str
    before: int
    limited: bool
    """whether more was requested than the snapshots allow"""
    loss: Removal


def seconds(age: str) -> float:
    """Return an age written as a number of hours, days or weeks.

    Examples
    --------
    >>> seconds("90d") / 86400, seconds("36h") / 86400
    (90.0, 1.5)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", age.strip())
    if match is None:
        raise ValueError(f"age: given {age!r}, expected a number of hours, days or weeks, such as 36h, 90d or 52w")
    return float(match[1]) * UNITS[match[2]]


def plan(store: Store, forecaster: str, wanted: int, *, waiting: bool = False) -> Pruning:
    """Return what may be removed before an event: never more than the snapshots can make up for."""
    usable = [kept.seq for kept in store.snapshots(forecaster)][:SPARE]
    before = min(wanted, min(usable, default=1))
    return Pruning(forecaster, before, before < wanted, store.loss(forecaster, before, waiting=waiting))


def withdraw(store: Store, forecaster: str, before: int) -> int:
    """Withdraw the open forecasts whose events are all before an event, and keep the state without them.

    Else they would stay open in the state, and ids that come again would meet them there. Returns how many there were.

    Parameters
    ----------
    store : Store
        Opened for a learner, which no other process is meanwhile.
    """
    if not store.claim(forecaster):
        raise Occupied(f"store: another process is the learner of {forecaster!r}")
    hosted, withdrawn = recover(store, forecaster).hosted, 0
    waiting = [*hosted.accepted]
    for start in range(0, len(waiting), PAGE):
        ids = waiting[start : start + PAGE]
        about = store.about(forecaster, ids)
        kept = {event.id for event in about if event.seq >= before or event.kind == OUTCOME}
        old = [id for id in ids if id not in kept]
        if old:
            handler = CommandHandler(hosted, {}, time.time(), Limits())
            handler.withdraw(old)
            store.append(handler.events)
            withdrawn += len(old)
    if withdrawn:
        store.keep_snapshot(forecaster, hosted.seq, Still(hosted).to_bytes())
    return withdrawn


def older_than(store: Store, forecaster: str, moment: float) -> int:
    """Return the number of the first event at a moment or later; times never go back in a log."""
    low, high = 1, store.last(forecaster) + 1
    while low < high:
        middle = (low + high) // 2
        event = next(store.events(forecaster, after=middle - 1))
        if event.time < moment:
            low = event.seq + 1
        else:
            high = middle
    return low


def all_but(store: Store, forecaster: str, count: int) -> int:
    """Return the number of the first event of the last few."""
    if count < 1:
        raise ValueError(f"keep: given {count}, expected at least 1")
    return max(store.last(forecaster) - count + 1, 1)


AT_ONCE = 2048
"""Events applied at a time."""


class Mismatch(NamedTuple):
    """A forecast that differs from the issued one, or a snapshot (`id` is empty) that differs from the log."""

    seq: int
    id: str
    issued: ForecastBody | None = None
    computed: ForecastBody | None = None


class Progress(NamedTuple):
    """Progress of a replay."""

    seq: int
    forecasts: int
    """compared so far"""
    snapshots: int
    """compared so far"""
    differences: list[Mismatch]
    """found since the last progress"""


def first_replayed(store: Store, name: str) -> int:
    """Return after which event a replay begins: 0, or that of the oldest readable snapshot before the rest.

    Raises
    ------
    Unreadable
        Events were pruned, and no snapshot makes up for them.
    """
    pruned = store.pruned(name)
    if pruned == 1:
        return 0
    for kept in reversed(store.snapshots(name)):
        if kept.seq >= pruned - 1 and _is_readable(store, name, kept.seq):
            return kept.seq
    raise Unreadable(f"store: the log of {name!r} was pruned before event {pruned}, and no snapshot makes up for it")


def _is_readable(store: Store, name: str, seq: int) -> bool:
    try:
        restored(store.snapshot(name, seq))
    except (Unreadable, ArchiveError):
        return False
    return True


def replay(store: Store, name: str) -> Iterator[Progress]:
    """Apply a forecaster's whole log to a fresh one, comparing as it goes.

    Everything the service does follows from the log, so on the same machine nothing may differ, not by a bit.
    """
    last = store.last(name)
    hosted = _start(store, name)
    stops = sorted(kept.seq for kept in store.snapshots(name) if hosted.seq < kept.seq <= last)
    forecasts = snapshots = 0
    for stop in dict.fromkeys([*stops, last]):
        for events in in_pages(_unbroken(store, name, hosted.seq, stop), AT_ONCE):
            different = _compared(hosted, events)
            forecasts += sum(event.kind == FORECAST for event in events)
            yield Progress(hosted.seq, forecasts, snapshots, different)
        if stop in stops:
            same = _is_state(store, name, hosted)
            if same is None:
                continue
            snapshots += 1
            yield Progress(stop, forecasts, snapshots, [] if same else [Mismatch(stop, "")])


def _is_state(store: Store, name: str, hosted: HostedForecaster) -> bool | None:
    """Return whether a snapshot is the computed state; None if a running service has dropped it meanwhile."""
    try:
        kept = restored(store.snapshot(name, hosted.seq))
    except (Unreadable, ArchiveError):
        return False if any(kept.seq == hosted.seq for kept in store.snapshots(name)) else None
    return Still(hosted).digest() == Still(kept).digest()


def _start(store: Store, name: str) -> HostedForecaster:
    after = first_replayed(store, name)
    if after:
        return restored(store.snapshot(name, after))
    made = next(store.events(name, until=1), None)
    if made is None:
        raise Unreadable(f"store: given {name!r}, expected a forecaster that was made")
    return fresh_forecaster(made)


def _unbroken(store: Store, name: str, after: int, until: int) -> Iterator[Event]:
    for event in store.events(name, after, until):
        if event.seq != after + 1:
            raise Unreadable(f"store: the log of {name!r} has a gap after event {after}")
        after = event.seq
        yield event


def _compared(hosted: HostedForecaster, events: Sequence[Event]) -> list[Mismatch]:
    made = [event for event in events if event.kind == FORECAST]
    different = []
    for event, computed in zip(made, hosted.apply(events), strict=True):
        issued = forecast_body(event.body)
        if _bits(issued) != _bits(computed):
            different.append(Mismatch(event.seq, event.id, issued, computed))
    return different


def _bits(forecast: ForecastBody) -> bytes:
    return struct.pack("<5d", *(getattr(forecast, name) for name in LEVELS))
