"""Power loss and failing disks under the store: what was acknowledged is there, and nothing is half there.

SWAPCAL_POWER=all takes every sync as a crash and every operation as a fault (`make test-power`); else every tenth.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("apsw")

import apsw

from swapcal.service.events import Event
from swapcal.service.store import Store, Unavailable, Unreadable, open_store
from tests.store_checks import made
from tests.systems.power import FAULTS, Disk, LoggingVFS, put

pytestmark = pytest.mark.systems

EVERY = 1 if os.environ.get("SWAPCAL_POWER") == "all" else 10
SEED = int(os.environ.get("SWAPCAL_SEED", "0"))
NAME = "forecasts.db"


@contextmanager
def registered(vfs: LoggingVFS) -> Iterator[LoggingVFS]:
    """Make a file system SQLite's default for a while."""
    try:
        yield vfs
    finally:
        apsw.set_default_vfs("unix")
        vfs.unregister()


def batch(seq: int, rng: np.random.Generator) -> list[Event]:
    """Return the events after a number: some, small or large."""
    size = int(rng.choice([20, 400, 9000]))
    numbers = range(seq + 1, seq + 1 + int(rng.integers(1, 12)))
    return [Event("a", n, "forecast", f"id {n}", float(n), bytes([n % 256]) * size) for n in numbers]


class Journal:
    """What was asked of a store and what it acknowledged."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.boundaries = {0}
        self.acknowledged = 0

    def append(self, store: Store, events: list[Event]) -> None:
        """Append a batch; it is acknowledged once this returns."""
        self.events[events[0].seq - 1 :] = events
        self.boundaries.add(events[-1].seq)
        store.append(events)
        self.acknowledged = events[-1].seq

    def check(self, store: Store) -> None:
        """All that was acknowledged, in order, as it was written; a batch as a whole or not at all."""
        found = [*store.events("a")]
        assert len(found) >= self.acknowledged
        assert len(found) in self.boundaries
        assert found == self.events[: len(found)]


def work(path: str, journal: Journal, rng: np.random.Generator, rounds: int) -> None:
    """Use a store as a learner does: batches, snapshots, reopening; it is closed whatever happens."""
    for first in range(0, rounds, 20):
        with closing(open_store(path, learner=True, create=True)) as store:
            for turn in range(first, min(first + 20, rounds)):
                journal.append(store, batch(journal.acknowledged, rng) if turn else [made("a")])
                if turn % 7 == 3:
                    store.keep_snapshot("a", journal.acknowledged, rng.bytes(30_000))


def test_power_loss_at_any_sync(tmp_path: Path) -> None:
    rng, disk, journal = np.random.default_rng(SEED), Disk(), Journal()
    seen = {"syncs": 0, "crashes": 0}

    def crash() -> None:
        seen["syncs"] += 1
        if seen["syncs"] % EVERY:
            return
        for name, files in disk.left_by_a_crash(rng):
            crashes.append((f"{seen['syncs']} {name}", files, journal.acknowledged, len(journal.events)))

    crashes: list[tuple[str, dict[str, bytes], int, int]] = []
    disk.before_sync = crash
    with registered(LoggingVFS(disk)):
        work(str(tmp_path / NAME), journal, np.random.default_rng(SEED + 1), 60)
    for name, files, acknowledged, asked in crashes:
        put(files, tmp_path / "crashed")
        recovered(tmp_path / "crashed", name, acknowledged, journal.events[:asked], journal.boundaries)
        shutil.rmtree(tmp_path / "crashed")
        seen["crashes"] += 1
    print(f"{seen['syncs']} syncs, {seen['crashes']} crashes recovered")
    assert seen["syncs"] > 60
    assert seen["crashes"] >= 4 * (seen["syncs"] // EVERY)


def recovered(folder: Path, name: str, acknowledged: int, events: list[Event], boundaries: set[int]) -> None:
    """Open what a crash left, check it, and go on with it."""
    try:
        store = open_store(str(folder / NAME), learner=True)
    except Unreadable:  # the tables were not acknowledged yet
        assert acknowledged == 0, name
        return
    known = Journal()
    known.events, known.boundaries, known.acknowledged = events, boundaries, acknowledged
    known.check(store)
    for kept in store.snapshots("a"):
        assert kept.seq <= store.last("a"), name
    if store.last("a"):
        store.append([Event("a", store.last("a") + 1, "tick", "", 0.0, b"")])
    store.close()
    with apsw.Connection(str(folder / NAME)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], name


@pytest.mark.parametrize("how", FAULTS)
def test_the_nth_operation_fails(tmp_path: Path, how: str) -> None:
    operations = faulty(tmp_path / "whole", -1, how)[0]
    refused = [faulty(tmp_path / str(number), number, how)[1] for number in range(SEED % EVERY, operations, EVERY)]
    print(f"{operations} operations, {len(refused)} of them failed, {sum(refused)} of these refused a batch")
    assert operations > 300
    assert sum(refused) > len(refused) // 2


def faulty(folder: Path, number: int, how: str) -> tuple[int, bool]:
    """Work on a disk on which one operation fails; return how many there were, and whether work was refused."""
    journal, refused = Journal(), False
    folder.mkdir()
    with registered(LoggingVFS(Disk(), fails=number, how=how)) as vfs:
        try:
            work(str(folder / NAME), journal, np.random.default_rng(SEED), 6)
        except Unavailable:
            refused = True
    after_a_fault(str(folder / NAME), journal)
    shutil.rmtree(folder)
    return vfs.calls, refused


def after_a_fault(path: str, journal: Journal) -> None:
    """What was acknowledged is there, the batch in hand is whole or absent, and the store goes on."""
    store = open_store(path, learner=True, create=True)
    journal.check(store)
    seq = store.last("a")
    journal.append(store, batch(seq, np.random.default_rng(1)) if seq else [made("a")])
    journal.check(store)
    store.close()
