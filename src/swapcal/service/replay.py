"""Replay: compute every forecast again from the log, and compare it with what was issued, bit for bit."""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swapcal.archive import ArchiveError
from swapcal.service.events import FORECAST, LEVELS, Event, ForecastBody, forecast_body, in_pages
from swapcal.service.hosted import HostedForecaster, fresh_forecaster
from swapcal.service.snapshots import Still, restored
from swapcal.service.sql import Unreadable
from swapcal.service.store import Store

PAGE = 2048
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
        for events in in_pages(_unbroken(store, name, hosted.seq, stop), PAGE):
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
