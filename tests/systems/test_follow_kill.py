"""A follower killed without warning, again and again: in the end its output is that of one undisturbed run."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.systems

IMPATIENT = """
import sys
from swapcal.cli import forecasting, main
forecasting.CHECKPOINT, forecasting.PIECE = 0.05, 20
main()
"""
ROLES = ["--target", "y", "--id", "id"]


def lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def test_kills_neither_lose_nor_repeat_a_row(tmp_path: Path) -> None:
    file, out, state, whole = (tmp_path / name for name in ("in.csv", "out.csv", "state", "whole.csv"))
    rows = [f"r{k},{k % 7}.5,{'ab'[k % 2]},{'' if k % 5 == 4 else k % 3 % 2}\n" for k in range(900)]
    rows = [
        text for k, row in enumerate(rows) for text in ([row, f"r{k - 3},,,1\n"] if k % 5 == 2 and k > 5 else [row])
    ]
    file.write_text("id,x,c,y\n" + "".join(rows[:150]))
    follow = [sys.executable, "-c", IMPATIENT, "forecast", str(file), *ROLES, "--follow", "--state", str(state)]
    for stop in (300, 500, 800, len(rows)):
        with subprocess.Popen([*follow, "--out", str(out)], stderr=subprocess.PIPE) as process:
            with open(file, "a") as growing:
                for row in rows[lines(file) - 1 : stop]:
                    growing.write(row)
                    growing.flush()
                    time.sleep(0.002)
            end = time.monotonic() + 60
            wanted = 1 + sum(not row.endswith(",,,1\n") for row in rows[:stop])
            while lines(out) < wanted - 40 * (stop < len(rows)) and time.monotonic() < end:
                assert process.poll() is None, process.stderr and process.stderr.read()
                time.sleep(0.01)
            process.kill() if stop < len(rows) else process.terminate()
            process.wait(60)
    undisturbed = [sys.executable, "-m", "swapcal", "forecast", "-", *ROLES, "--follow", "--out", str(whole)]
    subprocess.run(undisturbed, input=file.read_bytes(), check=True, capture_output=True)
    assert out.read_text() == whole.read_text()
