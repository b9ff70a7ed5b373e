"""Keeper: snapshots of forecasters, taken now and then and written beside the learning."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from swapcal.service.gauge import Gauge
from swapcal.service.snapshot import Still
from swapcal.service.store import Store
from swapcal.service.ward import Ward

KEPT = 2
"""Snapshots kept."""
REST = 10.0
"""Seconds before a snapshot is tried again that failed."""


class Keeper:
    """Takes a snapshot after so many events, or so many seconds after the first event since the last one."""

    def __init__(self, store: Store, gauge: Gauge, log: Callable[..., None], every: int, seconds: float) -> None:
        self._store, self._gauge, self._log = store, gauge, log
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

    def keep_some(self, wards: Mapping[str, Ward]) -> None:
        """Begin a snapshot of one forecaster that needs one, unless one is being written."""
        if (self.writing is not None and not self.writing.done()) or time.monotonic() < self.rested:
            return
        for name, ward in wards.items():
            seq, since = self.kept[name]
            if ward.seq == seq:
                self.hold(name, seq)
            elif ward.seq - seq >= self._every or time.monotonic() - since >= self._seconds:
                self.hold(name, ward.seq)
                self.writing = self._writer.submit(self.keep, Still(ward), seq)
                return

    def keep_all(self, wards: Mapping[str, Ward]) -> None:
        """Take a snapshot of every forecaster that has seen events since its last one."""
        if self.writing is not None:
            self.writing.result()
        for name, ward in wards.items():
            if ward.seq != self.kept[name][0]:
                self.keep(Still(ward), self.kept[name][0])

    def keep(self, still: Still, before: int = 0) -> None:
        """Write a snapshot, have it verified, and only then drop older ones; if that fails, try again after a rest."""
        began = time.perf_counter()
        try:
            content = still.to_bytes()
            self._store.keep_snapshot(still.name, still.seq, content)
            self._store.drop_snapshots(still.name, KEPT)
        except Exception as error:
            self._gauge.snapshot_failures += 1
            self._log("snapshot failed", forecaster=still.name, seq=still.seq, error=str(error))
            self.hold(still.name, before)
            self.rested = time.monotonic() + REST
            return
        took = time.perf_counter() - began
        self._gauge.snapshots.add(took)
        self._log("snapshot", forecaster=still.name, seq=still.seq, bytes=len(content), seconds=round(took, 3))

    def close(self) -> None:
        """Wait until nothing is written any more."""
        self._writer.shutdown()
