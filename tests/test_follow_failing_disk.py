"""`swapcal forecast` on a disk that fails or loses power: no row is lost or forecast twice, and no state is half there.

A short form; SWAPCAL_POWER=all takes every operation as a crash and as a fault (`make test-power`).
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

import pyarrow as pa

from swapcal import Live
from swapcal.cli import forecast as command
from swapcal.cli import forecasting
from swapcal.tables import sources
from swapcal.tables.output import Appending
from tests.commands import runner
from tests.failing_disk import HOW, Disk, Files, in_place, put

ALL = os.environ.get("SWAPCAL_POWER") == "all"
SEED = int(os.environ.get("SWAPCAL_SEED", "0"))
STATE = "state"
run = runner(command.forecast)
ROLES = ("--target", "y", "--id", "id")
ROWS = 20


def rows() -> str:
    """Return records, most of them with an outcome; the others get theirs some rows later."""
    lines = ["id,x,c,y\n"]
    for k in range(ROWS):
        lines.append(f"r{k},{k % 7}.5,{'ab'[k % 2]},{'' if k % 4 == 1 else k % 3 % 2}\n")
        lines += [f"r{k - 2},,,1\n"] if k % 4 == 3 else []
    return "".join(lines)


@contextmanager
def ending(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let a follower end where its file ends, save after every few rows, and forecast few rows at a time."""
    stop: list[bool] = []

    @contextmanager
    def stoppable() -> Iterator[Callable[[], bool]]:
        stop.clear()
        yield lambda: bool(stop)

    with monkeypatch.context() as patch:
        patch.setattr(command, "stoppable", stoppable)
        patch.setattr(sources, "time", SimpleNamespace(sleep=lambda seconds: stop.append(True)))
        patch.setattr(forecasting, "CHECKPOINT", 0.0)
        patch.setattr(forecasting, "PIECE", 9)
        yield patch


def follow(given: Path, folder: Path, disk: Disk | None = None) -> Any:
    """Forecast the rows of a file that ends, on a disk."""
    options = (*ROLES, "--follow", "--state", folder / STATE, "--out", folder / "out.csv")
    with in_place(disk or Disk(folder)):
        return run(given, *options)


def crashes(given: Path, folder: Path, after: str = "nothing") -> list[tuple[str, Files]]:
    """Follow, and return the disks that crashes on the way can leave, each once; in short, those before renamings."""
    rng = np.random.default_rng(SEED)
    found: dict[tuple[tuple[str, bytes], ...], str] = {}

    def crash(operation: str) -> None:
        if ALL or operation == "replace":
            for case, files in disk.left_by_a_crash(rng):
                kept = tuple(sorted((name, content) for name, content in files.items() if not name.endswith(".tmp")))
                found.setdefault(kept, f"before {operation} {disk.calls}, {case}")

    disk = Disk(folder, before=crash)
    result = follow(given, folder, disk)
    assert result.exit_code == 0, (after, result.output)
    return [(case, dict(kept)) for kept, case in found.items()]


def test_a_follower_that_lost_power_twice_goes_on_as_if_it_never_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, folder = tmp_path / "in.csv", tmp_path / "disk"
    given.write_text(rows())
    with ending(monkeypatch) as patch:
        first = crashes(given, put({}, folder))
        expected = (folder / "out.csv").read_bytes()
        assert expected.count(b"\n") == ROWS + 1
        for case, files in first if ALL else first[1::2]:
            patch.setattr(forecasting, "PIECE", 7)  # else it would save where it had before
            second = crashes(given, put(files, folder), case)
            assert (folder / "out.csv").read_bytes() == expected, case
            for other, again in second if ALL else second[1::2]:
                result = follow(given, put(again, folder))
                assert result.exit_code == 0, (case, other, result.output)
                assert (folder / "out.csv").read_bytes() == expected, (case, other)


@pytest.mark.parametrize("how", HOW if ALL else ["error"])
def test_a_follower_whose_disk_failed_goes_on_as_if_it_never_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    given, folder, rng = tmp_path / "in.csv", tmp_path / "disk", np.random.default_rng(SEED)
    given.write_text(rows())
    with ending(monkeypatch):
        done: list[str] = []
        follow(given, folder, Disk(put({}, folder), before=done.append))
        expected = (folder / "out.csv").read_bytes()
        for number, (before, operation) in enumerate(itertools.pairwise(["", *done])):
            if before == operation == "write" and not ALL:
                continue
            failing = Disk(put({}, folder), fails=number, how=how)
            assert follow(given, folder, failing).exit_code == 2, number
            left = [("seen", {path.name: path.read_bytes() for path in folder.iterdir()})]
            for case, files in [*left, *failing.left_by_a_crash(rng)][: None if ALL else 1 + (operation == "sync")]:
                result = follow(given, put(files, folder))
                assert result.exit_code == 0, (number, operation, case, result.output)
                assert (folder / "out.csv").read_bytes() == expected, (number, operation, case)


def test_rows_of_a_new_file_are_there_once_they_are_synced(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with in_place(Disk(tmp_path)) as disk:
        growing = Appending(str(out))
        growing.write(pa.table({"a": [1, 2]}))
        growing.sync()
        for case, files in disk.left_by_a_crash(np.random.default_rng(SEED)):
            assert files.get(out.name) == out.read_bytes() != b"", case
        growing.close()


def test_a_run_that_fails_after_a_checkpoint_leaves_a_whole_state_even_without_power(tmp_path: Path) -> None:
    state, live, rng = tmp_path / STATE, Live(), np.random.default_rng(SEED)
    live.forecast({"x": 1.0}, "a")
    live.save(state)
    state.chmod(0o640)
    allowed, left = [state.read_bytes()], list[tuple[str, bytes | None]]()

    def crash(operation: str) -> None:
        left.extend((f"before {operation}, {case}", files.get(STATE)) for case, files in disk.left_by_a_crash(rng))

    disk, checkpoint = Disk(tmp_path, before=crash), forecasting.Checkpoint(state)
    with in_place(disk):
        live.label("a", 1)
        checkpoint.save(live)
        allowed.append(state.read_bytes())
        checkpoint.__exit__(ZeroDivisionError, None, None)
        crash("the end")
    assert (state.read_bytes(), state.stat().st_mode & 0o777) == (allowed[0], 0o640)
    assert not [case for case, found in left if found not in allowed]
