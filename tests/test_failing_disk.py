"""State files on a disk that fails or loses power: the old file is there or the new one, whole.

A short form; SWAPCAL_POWER=all takes every operation as a crash and as a fault (`make test-power`).
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapcal import Audit, Live, Monitor
from tests.failing_disk import HOW, Disk, in_place, put

ALL = os.environ.get("SWAPCAL_POWER") == "all"
EVERY = 1 if ALL else 7
SEED = int(os.environ.get("SWAPCAL_SEED", "0"))
STATE = "state"


def lives() -> Iterator[Live]:
    live = Live(groups=["shop"])
    for k in range(9):
        live.forecast({"shop": "ab"[k % 2], "price": float(k)}, k)
        live.label(k, k % 2) if k % 3 else None
        if k % 3 == 2:
            yield live


def audits() -> Iterator[Audit]:
    rng = np.random.default_rng(0)
    audit = Audit(rng.random(20), rng.integers(0, 2, 20) * 1.0)
    for _ in range(3):
        audit.add(p=rng.random(20), y=rng.integers(0, 2, 20) * 1.0)
        yield audit


def monitors() -> Iterator[Monitor]:
    rng = np.random.default_rng(0)
    monitor = Monitor(["shop"])
    for k in range(3):
        yield monitor.add({"shop": ["a", f"b{k}"] * 5}, rng.random(10), rng.integers(0, 2, 10))


SAVED: dict[str, tuple[Callable[[], Iterator[Any]], Callable[[Path], Any]]] = {
    "Live": (lives, Live.load),
    "Audit": (audits, Audit.load),
    "Monitor": (monitors, Monitor.load),
}


class Saves:
    """Saves one state after the other, and keeps the bytes of each that was acknowledged."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.path, (self._states, self.load) = folder / STATE, SAVED[kind]
        self.versions: list[bytes] = []

    def run(self) -> None:
        for state in self._states():
            state.save(self.path)
            self.versions.append(self.path.read_bytes())


@pytest.mark.parametrize("kind", SAVED)
def test_power_loss_leaves_the_old_state_or_the_new_one(tmp_path: Path, kind: str) -> None:
    rng, number, saves = np.random.default_rng(SEED), itertools.count(), Saves(kind, tmp_path)
    left: list[tuple[str, int, bytes | None]] = []

    def crash(operation: str) -> None:
        if operation != "write" or next(number) % EVERY == 0:
            for case, files in disk.left_by_a_crash(rng):
                left.append((f"before {operation} {disk.calls}, {case}", len(saves.versions), files.get(STATE)))

    disk = Disk(tmp_path, before=crash)
    with in_place(disk):
        saves.run()
        crash("the end")
    assert {case.split()[1] for case, *_ in left} >= {"open", "write", "sync", "replace"}
    for case, acknowledged, found in left:
        if found is None:
            assert not acknowledged, case
        else:
            assert found in saves.versions[max(acknowledged - 1, 0) :], case
    saves.load(saves.path)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", SAVED)
def test_an_operation_that_fails_leaves_the_old_state_and_no_other_file(tmp_path: Path, kind: str, how: str) -> None:
    folder = put({}, tmp_path / "whole")
    with in_place(Disk(folder)) as disk:
        Saves(kind, folder).run()
    some = range(0, disk.calls, 1 if ALL else max(1, disk.calls // 9))
    for number in sorted({*some, *range(disk.calls - 4, disk.calls)}):
        folder = put({}, tmp_path / str(number))
        saves, failing = Saves(kind, folder), Disk(folder, fails=number, how=how)
        with in_place(failing), pytest.raises(OSError, match="planted"):
            saves.run()
        left = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert {*left} <= {STATE}, f"operation {number} left another file"
        if left != ({STATE: saves.versions[-1]} if saves.versions else {}):
            assert failing.last == "sync", f"operation {number}"  # of the folder, when the new state was in its place
            saves.load(saves.path)
        saves.run()
