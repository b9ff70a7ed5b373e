"""`swapcal forecast --follow`: lines as they come, labels among them, and a place that is never lost."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from swapcal.cli import follow
from swapcal.cli.follow import StreamOffset, find_offset, holding, keep_offset
from swapcal.cli.forecast import forecast
from swapcal.live import Live
from swapcal.tables.output import Appending
from swapcal.tables.sources import InputError, grown
from tests.commands import runner, said

run = runner(forecast)
ROLES = ("--target", "y", "--id", "id")
LINES = [f"r{k},{k % 7}.5,{'ab'[k % 2]},{k % 3 % 2}\n" for k in range(60)]
HEADER = "id,x,c,y\n"


def wait_for(condition: Any, process: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)


def rows_of(path: Path) -> int:
    return path.read_text().count("\n") - 1 if path.exists() else 0


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_growing_file_is_forecast_at_once_and_a_signal_keeps_the_place(tmp_path: Path) -> None:
    file, out, state, whole = (tmp_path / name for name in ("in.csv", "out.csv", "state", "whole.csv"))
    file.write_text(HEADER + "".join(LINES[:20]))
    command = [sys.executable, "-m", "swapcal", "forecast", str(file), *ROLES, "--follow", "--out", str(out),
               "--state", str(state)]  # fmt: skip
    for rows, number in ((35, signal.SIGINT), (60, signal.SIGTERM)):
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            done = rows_of(file)
            wait_for(lambda done=done: rows_of(out) == done, process)
            with open(file, "a") as growing:
                growing.write("".join(LINES[done:rows])[:-3])  # the last line is not complete
                growing.flush()
                wait_for(lambda rows=rows: rows_of(out) == rows - 1, process)
                growing.write("".join(LINES[done:rows])[-3:])
            wait_for(lambda rows=rows: rows_of(out) == rows, process)
            process.send_signal(number)
            said = process.communicate(timeout=60)[1].decode()
            assert process.returncode == 0, said
    assert "after row 35" in said
    assert Live.load(state).status().forecasts == 60
    assert run(file, *ROLES, "--out", whole).exit_code == 0
    assert out.read_text() == whole.read_text()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_signal_while_standard_input_is_silent_keeps_the_state(tmp_path: Path) -> None:
    state = tmp_path / "state"
    command = [
        sys.executable,
        "-m",
        "swapcal",
        "forecast",
        "-",
        *ROLES,
        "--follow",
        "--out",
        "-",
        "--state",
        str(state),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write((HEADER + "".join(LINES[:5]) + "r9,1.").encode())
        process.stdin.flush()
        seen = [process.stdout.readline() for _ in range(6)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert seen[5].startswith(b'5,"1","r4"') or b"r4" in seen[5]
    assert Live.load(state).status().forecasts == 5


def test_labels_come_through_the_same_stream(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out.csv"
    stream = HEADER + "a,1.5,a,\nb,2.5,b,\na,,,1\nc,1.5,a,0\nb,,,0\n"
    result = run("-", *ROLES, "--follow", "--out", out, "--state", state, stdin=stream)
    assert result.exit_code == 0, result.output
    assert "labels that came later: 2 learned" in result.stderr
    status = Live.load(state).status()
    assert (status.forecasts, status.labels, status.open) == (3, 3, 0)
    assert rows_of(out) == 3
    refused = run("-", *ROLES, "--follow", "--state", state, stdin=HEADER + "d,1,a,1\na,1,a,\n")
    assert "row 2: column 'id': given 'a' again without an outcome" in " ".join(refused.stderr.split())
    conflict = run("-", *ROLES, "--follow", "--state", state, stdin=HEADER + "a,,,0\n")
    assert conflict.exit_code == 2
    assert "row 1: " in conflict.stderr
    before = out.read_text()
    more = run("-", *ROLES, "--follow", "--out", out, "--state", state, stdin=HEADER + "e,1.5,a,1\n")
    assert more.exit_code == 0, more.output
    assert out.read_text().startswith(before)
    assert rows_of(out) == 4


def test_rows_that_repeat_an_id_to_no_purpose_are_skipped_and_counted(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out.csv"
    stream = HEADER + "a,1.5,a,\na,1.5,a,\nb,2.5,b,0\nb,2.5,b,1\na,,,1\na,1.5,a,\nc,1.5,a,0\n"
    result = run(
        "-", *ROLES, "--follow", "--on-bad-row", "skip", "--out", out, "--state", state, stdin=stream
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "skipped 2 of 7 rows (28.6%): column 'id': given … again without an outcome" in said(result)
    assert "skipped 1 of 7 rows (14.3%): a label unlike that before" in said(result)
    status = Live.load(state).status()
    assert (status.forecasts, status.labels, status.open) == (3, 3, 0)
    assert rows_of(out) == 3
    more = run("-", *ROLES, "--follow", "--on-bad-row", "skip", "--state", state, stdin=HEADER + "a,,,0\n")
    assert "skipped 1 of 1 rows" in said(more)


def test_what_cannot_grow_is_refused(tmp_path: Path) -> None:
    assert "--follow, expected a file or -" in " ".join(run(tmp_path, *ROLES, "--follow").stderr.split())
    file = tmp_path / "in.csv"
    file.write_text(HEADER)
    with pytest.raises(InputError, match="which can grow"):
        Appending(str(tmp_path / "out.parquet"))


@pytest.mark.parametrize("change", ["truncated", "replaced", "removed"])
def test_a_file_that_is_not_the_same_any_more_is_named(tmp_path: Path, change: str) -> None:
    file = tmp_path / "in.csv"
    file.write_text("some text\n")
    with open(file, "rb") as handle:
        pieces = grown(handle, str(file), lambda: False)
        assert next(pieces) == b"some text\n"
        assert next(pieces) == b""
        if change == "truncated":
            os.truncate(file, 3)
        else:
            file.rename(tmp_path / "in.csv.1")
        if change == "replaced":
            file.write_text("another")
        words = {
            "truncated": "truncated",
            "replaced": "given another file in its place",
            "removed": "given no such file any more",
        }
        with pytest.raises(InputError, match=words[change]):
            list(pieces)


@pytest.mark.parametrize("change", ["truncated", "replaced"])
def test_another_file_in_its_place_is_not_gone_on_with(tmp_path: Path, change: str) -> None:
    file, out, state = (tmp_path / name for name in ("in.csv", "out.csv", "state"))
    file.write_text(HEADER + "".join(LINES[:20]))

    def rotate() -> None:
        end = time.monotonic() + 60
        while rows_of(out) < 20 and time.monotonic() < end:
            time.sleep(0.02)
        if change == "truncated":
            os.truncate(file, 0)
            return
        (tmp_path / "new.csv").write_text(HEADER + "".join(LINES[20:60]))
        (tmp_path / "new.csv").rename(file)

    command = (file, *ROLES, "--follow", "--out", out, "--state", state)
    rotating = threading.Thread(target=rotate)
    rotating.start()
    first = run(*command)
    rotating.join()
    assert first.exit_code == 2
    assert rows_of(out) == 20
    file.write_text(HEADER + "".join(LINES[20:60]))
    second = run(*command)
    assert second.exit_code == 2
    assert "given other rows at its beginning" in " ".join(second.output.split())
    assert rows_of(out) == 20


def test_whichever_state_a_crash_leaves_its_place_is_there(tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "in.csv"
    file.write_text("a" * 100)
    state.write_bytes(b"")
    name, out = os.path.realpath(file), os.path.realpath(tmp_path / "o.csv")
    first, second = (StreamOffset(n, n, name, 50, n, 0, out, 10 * n) for n in (5, 9))
    keep_offset(state, first, 0, 0)
    keep_offset(state, StreamOffset(7, 7, name, 50, 7, 0, out, 70), 5, 5)  # and then its state is not saved
    keep_offset(state, second, 5, 5)  # and then the power fails, before the state is saved or after
    assert find_offset(state, 5, 5, str(file), out) == first
    assert find_offset(state, 9, 9, str(file), out) == second
    assert find_offset(state, 9, 12, str(file), out) == second  # labelled since
    with pytest.raises(ValueError, match="expected one after 7"):
        find_offset(state, 7, 7, str(file), out)
    assert find_offset(state, 9, 9, str(tmp_path / "other.csv"), out).rows == 0
    file.write_text("a")
    with pytest.raises(InputError, match="truncated or replaced"):
        find_offset(state, 9, 9, str(file), out)
    assert len(json.loads((tmp_path / "state.place").read_text())) == 2


def test_rows_that_a_crash_left_unsaved_are_taken_back(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text('{"a": 1}\n{"a": 2}\n')
    for at in (9, 12):  # the second is more than there is
        growing = Appending(str(out), at)
        growing.close()
        assert out.read_text() == '{"a": 1}\n'


def test_a_state_that_is_followed_is_not_labelled_meanwhile(tmp_path: Path) -> None:
    state, refused = tmp_path / "state", []

    def other() -> None:
        try:
            with holding(state, "its labels"):
                pass
        except InputError as error:
            refused.append(str(error))

    with holding(state, "this one"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "another command is at work on it" in refused[0]
    assert os.listdir(tmp_path) == []


def test_a_lock_file_that_is_removed_while_it_is_taken_keeps_no_two_commands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, flock = tmp_path / "state", follow.fcntl.flock

    def left_meanwhile(file: Any, how: int) -> None:
        """The command that held the lock removes its file and ends, between another's opening and locking it."""
        monkeypatch.undo()
        os.unlink(file.name)
        flock(file, how)

    monkeypatch.setattr(follow.fcntl, "flock", left_meanwhile)
    with holding(state, "this one"):
        with pytest.raises(InputError, match="another command is at work on it"), holding(state, "its labels"):
            pass
        assert os.listdir(tmp_path) == [".state.lock"]
    assert os.listdir(tmp_path) == []
