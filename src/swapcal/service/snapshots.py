"""Snapshots of a forecaster's state, written in a thread of their own, and recovery from the newest and the log."""

import ctypes
import hashlib
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import numpy as np

from swapcal.archive import (
    OBJECT,
    ArchiveError,
    Field,
    Kind,
    Shapes,
    State,
    addition,
    below,
    built,
    floats,
    nested,
    octets,
    one_of,
    optional,
    packed,
    part,
    parted,
    real,
    unpacked,
    whole,
)
from swapcal.archive import Settings as Manifest
from swapcal.arrays import AnyArray
from swapcal.live import Live
from swapcal.live.state import FILE as LIVE
from swapcal.live.status import weighted_sums
from swapcal.live.validation import unpacked as ids_of
from swapcal.service.events import in_pages
from swapcal.service.hosted import (
    BINS,
    DELAYS,
    GIVEN,
    PERIODS,
    SERVICE,
    Figures,
    HostedForecaster,
    fresh_forecaster,
)
from swapcal.service.queue import Metrics
from swapcal.service.settings import Settings
from swapcal.service.sql import Unreadable
from swapcal.service.store import Store
from swapcal.tables.values import text_of

# Snapshots: the state of a hosted forecaster as bytes, checked like every state file.

RULES = {
    "settings": OBJECT,
    "seq": whole(1),
    "now": real(),
    "clock": optional(one_of(SERVICE, GIVEN)),
    "latest": optional(real()),
    "lapsed": whole(),
    "corrections": whole(),
    "figures": parted({"stride": whole(1, 1 << 40), "scores": addition(whole())}),
}

_OPENED = msgspec.json.Decoder(dict[str, tuple[float, float | None, tuple[Any, ...]]])
"""Open forecasts of earlier snapshots: when each was accepted, its time, and what the monitor watches of it."""
_PARKED = msgspec.json.Decoder(dict[str, float | list[Any]])
"""When each outcome was accepted that waits for its forecast; earlier snapshots have it third, after value and time."""


def _fields(manifest: Manifest, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a snapshot; the labels counted lie in periods, which are halved when full."""
    labels = PERIODS * manifest["figures"]["stride"]
    weighted = "figures.counts" in shapes  # later than the others
    figures = {
        "totals": floats(5, least=[0, *4 * [-np.inf]], most=[np.inf if weighted else labels, *4 * [np.inf]]),
        "expert_brier": floats("experts"),
        "reliability": floats(BINS, 4 if weighted else 3),
        "delays": floats(len(DELAYS) + 1),
        "delay": floats(2),
        "periods": floats(PERIODS, 6),
    }
    if "scores" in manifest["figures"]:  # not before the scores were compared, nor since `Live` keeps their sums
        figures["score_sums"] = floats(manifest["figures"]["scores"], 7 if weighted else 4)
    if weighted:
        figures["counts"] = floats(2, least=[0, 0], most=[labels, np.inf])
    own: dict[str, Field] = {name: octets(name) for name in ("live", "parked")} | below("figures", figures)
    if "monitor" in shapes:  # before `Live` kept it
        return own | {"monitor": octets("monitor"), "opened": octets("opened")}
    return own | {"accepted": floats("open")}


HOSTED = Kind("ward", 1, RULES, _fields)


class Still:
    """A copy of a forecaster's state, to be packed while the forecaster goes on."""

    def __init__(self, hosted: HostedForecaster) -> None:
        self.name, self.seq = hosted.name, hosted.seq
        self._live = hosted.live.frozen_state()
        self._parked = [*hosted.parked.items()]
        own = {
            "settings": msgspec.to_builtins(hosted.settings),
            "seq": hosted.seq,
            "now": hosted.now,
            "clock": hosted.clock,
            "latest": hosted.latest if math.isfinite(hosted.latest) else None,
            "lapsed": hosted.lapsed,
            "corrections": hosted.corrections,
        }
        figures = nested(figures=hosted.figures.to_state())
        accepted = np.fromiter(hosted.accepted.values(), np.float64, len(hosted.accepted))
        self._own = State({**figures.arrays, "accepted": accepted}, {**figures.manifest, **own})

    def to_bytes(self) -> bytes:
        """Return the state as bytes, after reading them as `restored` would."""
        content = packed(HOSTED, self._whole())
        unpacked(content, HOSTED)
        return content

    def _whole(self) -> State:
        """Return the state, its parts as bytes: at most two copies of it are in memory at once."""
        parts = {"live": packed(LIVE, self._live()), "parked": msgspec.json.encode(dict(self._parked))}
        unpacked(parts["live"], LIVE)
        arrays = {name: np.frombuffer(content, np.uint8) for name, content in parts.items()}
        return State({**self._own.arrays, **arrays}, self._own.manifest)

    def states(self) -> dict[str, State]:
        """Return all that follows from the log, by part; early outcomes lapse by the clock, which may have gone on."""
        return {"live": self._live(), "own": self._own}

    def digest(self) -> bytes:
        """Return a digest of all that follows from the log, but for whose tickets a process takes back."""
        hasher = hashlib.sha256()
        for state in self.states().values():
            manifest = {name: _ownerless(value) for name, value in state.manifest.items() if name != "lapsed"}
            hasher.update(msgspec.json.encode(manifest, order="deterministic"))
            for name, values in sorted(state.arrays.items()):
                hasher.update(f"{name} {values.dtype} {values.shape}".encode() + values.tobytes())
        return hasher.digest()


def _ownerless(value: Any) -> Any:
    return {name: each for name, each in value.items() if name != "owner"} if isinstance(value, dict) else value


def restored(content: bytes) -> HostedForecaster:
    """Return the forecaster whose state was copied; raises `ArchiveError` for what does not fit together."""
    return built(unpacked(content, HOSTED), _restored)


def _restored(state: State) -> HostedForecaster:
    manifest, kept = state.manifest, unpacked(_bytes(state, "live"), LIVE)
    accepted = state.arrays.get("accepted")
    if accepted is None:
        opened = _OPENED.decode(_bytes(state, "opened"))
        accepted = np.array([opened[str(id)][0] for id in ids_of(kept.arrays["open.ids"])])
        kept = _with_monitor(kept, state, opened)
    live = Live.from_state(kept)
    if live.monitor is None:
        raise ArchiveError("live: given one without a monitor, expected the one that it feeds")
    hosted = HostedForecaster.__new__(HostedForecaster)
    hosted._hold(msgspec.convert(manifest["settings"], Settings), live)
    hosted.figures = Figures.from_state(part(state, "figures"), live.experts)
    hosted.accepted = dict(zip(map(str, ids_of(kept.arrays["open.ids"])), accepted.tolist(), strict=True))
    parked = _PARKED.decode(_bytes(state, "parked"))
    hosted.parked = {id: float(at[2] if isinstance(at, list) else at) for id, at in parked.items()}
    if len(hosted.figures.expert_brier) != len(live.experts):
        raise ArchiveError("figures.expert_brier: given other experts than there are, expected one for each")
    for name in ("seq", "now", "clock", "lapsed", "corrections"):
        setattr(hosted, name, manifest[name])
    hosted.latest = -math.inf if manifest["latest"] is None else manifest["latest"]
    return hosted


def _with_monitor(live: State, state: State, opened: Mapping[str, tuple[Any, ...]]) -> State:
    """Return the state of `Live` with the monitor and the sums of scores that earlier snapshots keep separately."""
    groups = [opened[str(id)][2] for id in ids_of(live.arrays["open.ids"])]
    watched = [[None if value is None else text_of(value) for value in row] for row in groups]
    rows = np.frombuffer(msgspec.json.encode(watched), np.uint8)
    arrays = {**live.arrays, "monitor.state": state.arrays["monitor"], "monitor.rows": rows}
    sums = state.arrays.get("figures.score_sums")
    if sums is not None and live.manifest["ledger"].get("weighted") and len(sums):
        arrays["score_sums"] = weighted_sums(sums)
    return State(arrays, {**live.manifest, "watched": True})


def _bytes(state: State, name: str) -> bytes:
    values: AnyArray = state.arrays[name]
    return values.tobytes()


# `Snapshotter`: takes snapshots at intervals and writes them in a thread of its own.

KEPT = 2
"""Snapshots kept."""
BEHIND = 50
"""Times as many events as usual between snapshots while windows end."""
SHARE = 200.0
"""Times as long as copying a state took are the least time that passes after it, unless there are events enough."""
LARGE = 8 << 20
"""Bytes of a snapshot after which memory is given back."""
REST = 10.0
"""Seconds before a snapshot is tried again that failed."""


def give_back_memory() -> None:
    """Return to the system what was freed, where the C library can.

    A snapshot takes several times its size for a moment, and glibc keeps most of that: with 47,000 forecasts open
    590 MB were resident after 100,000 forecasts, instead of 390 MB.
    """
    with suppress(AttributeError, OSError, TypeError):  # other C libraries have no such function
        ctypes.CDLL(None).malloc_trim(0)


class Snapshotter:
    """Takes a snapshot after so many events, or so many seconds after the first event since the last one.

    The learner copies its state for it, which takes some microseconds for each open forecast, seconds for a million. So
    there are at least a quarter as many events as open forecasts between two, and time enough; and while windows end,
    which empties the state, a snapshot waits.
    """

    def __init__(self, store: Store, metrics: Metrics, log: Callable[..., None], every: int, seconds: float) -> None:
        self._store, self._metrics, self._log = store, metrics, log
        self._every, self._seconds = every, seconds
        self.kept: dict[str, tuple[int, float]] = {}
        """number of the event of the last snapshot, and when the first event after it was seen"""
        self.writing: Future[None] | None = None
        self.rested = 0.0
        """when snapshots may be tried again"""
        self._writer = ThreadPoolExecutor(1, "snapshots")

    def hold(self, name: str, snapshot: int) -> None:
        """Begin with a forecaster whose last snapshot is that of an event."""
        self.kept[name] = snapshot, time.monotonic()

    def keep_some(self, forecasters: Mapping[str, HostedForecaster], *, behind: bool = False) -> None:
        """Begin a snapshot of one forecaster that needs one, unless one is being written."""
        if (self.writing is not None and not self.writing.done()) or time.monotonic() < self.rested:
            return
        for name, hosted in forecasters.items():
            seq, since = self.kept[name]
            if hosted.seq == seq:
                self.hold(name, seq)
            elif self._is_due(hosted, hosted.seq - seq, time.monotonic() - since, behind=behind):
                began = time.monotonic()
                still = Still(hosted)
                self.kept[name] = hosted.seq, began + SHARE * (time.monotonic() - began)
                self.writing = self._writer.submit(self.keep, still, seq)
                return

    def _is_due(self, hosted: HostedForecaster, events: int, seconds: float, *, behind: bool) -> bool:
        if behind:
            return events >= BEHIND * self._every
        return events >= max(self._every, len(hosted.accepted) // 4) or seconds >= self._seconds

    def keep_all(self, forecasters: Mapping[str, HostedForecaster]) -> None:
        """Take a snapshot of every forecaster that has seen events since its last one."""
        if self.writing is not None:
            self.writing.result()
        for name, hosted in forecasters.items():
            if hosted.seq != self.kept[name][0]:
                self.keep(Still(hosted), self.kept[name][0])

    def keep(self, still: Still, before: int = 0) -> None:
        """Write a snapshot, have it verified, and only then drop older ones; if that fails, try again after a rest."""
        began = time.perf_counter()
        try:
            content = still.to_bytes()
            self._store.keep_snapshot(still.name, still.seq, content)
            self._store.drop_snapshots(still.name, KEPT)
        except Exception as error:
            self._metrics.snapshot_failures += 1
            self._log("snapshot failed", forecaster=still.name, seq=still.seq, error=str(error))
            self.hold(still.name, before)
            self.rested = time.monotonic() + REST
            return
        size = len(content)
        del content
        if size >= LARGE:
            give_back_memory()
        took = time.perf_counter() - began
        self._metrics.snapshots.add(took)
        self._log("snapshot", forecaster=still.name, seq=still.seq, bytes=size, seconds=round(took, 3))

    def close(self) -> None:
        """Wait until nothing is written any more."""
        self._writer.shutdown()


# Recovery: a forecaster from its newest snapshot that can be read, and the log since.

PAGE = 4096


class Recovered(NamedTuple):
    """A hosted forecaster that agrees with the log, and what restoring it took."""

    hosted: HostedForecaster
    snapshot: int
    """number of the event that the snapshot was taken after; 0 without one"""
    replayed: int
    seconds: float


def recover(store: Store, name: str) -> Recovered:
    """Return a hosted forecaster: its newest readable snapshot, and every later event."""
    began = time.perf_counter()
    hosted, refusals = _from_snapshot(store, name)
    why = f" ({'; '.join(refusals)})" if refusals else ""
    snapshot = 0 if hosted is None else hosted.seq
    events = store.events(name, after=snapshot)
    if hosted is None:
        first = next(events, None)
        if first is None or first.seq != 1:
            raise Unreadable(f"store: the log of {name!r} has lost its first events, and no snapshot can be read{why}")
        hosted = fresh_forecaster(first)
    for page in in_pages(events, PAGE):
        if page[0].seq != hosted.seq + 1 or page[-1].seq != hosted.seq + len(page):
            raise Unreadable(f"store: the log of {name!r} has a gap after event {hosted.seq}{why}")
        hosted.apply(page)
    return Recovered(hosted, snapshot, hosted.seq - snapshot, time.perf_counter() - began)


def _from_snapshot(store: Store, name: str) -> tuple[HostedForecaster | None, list[str]]:
    """Return the forecaster of the newest snapshot that can be read, and why newer ones cannot."""
    refusals: list[str] = []
    for kept in store.snapshots(name):
        try:
            return restored(store.snapshot(name, kept.seq)), refusals
        except (Unreadable, ArchiveError) as error:
            refusals.append(f"that of event {kept.seq:,}: {error}")
    return None, refusals
