"""`swapcal flights`: a year of New York flights, before and after calibration."""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from swapcal.datasets.flights import GROUPS
from swapcal.datasets.flights import flights as read_flights
from swapcal.live import Live

Array = NDArray[np.float64]

PLAIN = "SGD 0.1"
PIECE = 16_384
BINS = 15
SHOWN = 10  # largest groups per column


def flights(
    report: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("swapcal-demo.html"),
    rows: Annotated[int, typer.Option(help="Flights to forecast, from the start of the year.", min=1000)] = 10**6,
) -> None:
    """Forecast for a year of flights whether each will be 15 minutes late, cancelled or diverted.

    Compares a plain online logistic regression with the calibrated forecasts built on it and its kin, by carrier and
    airport, and writes a report.
    """
    console = Console()
    with console.status("reading the year 2013"):
        try:
            table = read_flights().slice(0, rows)
        except ModuleNotFoundError as error:
            console.print(str(error), style="red", markup=False)
            raise typer.Exit(2) from None
    live = Live(groups=GROUPS)
    y = table["y"].to_numpy().astype(np.float64)
    plain, issued, x = _forecast(live, table.drop_columns(["t", "y"]), y, console)
    groups = {name: np.array(table[name].to_pylist()) for name in GROUPS}
    console.print(before_and_after(y, plain, issued[:, 0], groups))
    brier = [float(np.mean((p - y) ** 2)) for p in (plain, issued[:, 0])]
    console.print(f"Brier score {brier[0]:.4f} before, {brier[1]:.4f} after", highlight=False)
    _report(report, live, table, y, issued, x, groups)
    console.print(f"The whole story: {report}", highlight=False)


def _forecast(live: Live, features: Any, y: Array, console: Console) -> tuple[Array, Array, Array]:
    """Return the plain model's forecasts, the issued (p, low, high, weight), and the contexts."""
    plain, issued, contexts, start = [], [], [], time.perf_counter()
    columns = (TextColumn("forecasting"), BarColumn(), TextColumn("{task.fields[news]}"), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=len(y), news="")
        for first in range(0, len(y), PIECE):
            trace = live.trace(features.slice(first, PIECE), y[first : first + PIECE])
            made = trace.forecast
            plain.append(trace.experts[:, live.experts.index(PLAIN)])
            issued.append(np.column_stack([made.p, made.low, made.high, made.weight]))
            contexts.append(trace.x)
            speed = (first + len(trace)) / (time.perf_counter() - start)
            progress.update(task, advance=len(trace), news=f"{speed:,.0f} flights/s")
    width = live.contexts.dim
    x = np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in contexts])
    return np.concatenate(plain), np.concatenate(issued), x


def before_and_after(y: Array, before: Array, after: Array, groups: dict[str, Any]) -> Table:
    """Return a table of biases and calibration errors, overall and for the largest groups."""
    table = Table("", "flights", "late", "bias before", "after", "error before", "after", title="Before and after")
    _add(table, "all", np.ones(len(y), dtype=bool), y, before, after)
    for name, labels in groups.items():
        found, counts = np.unique(labels, return_counts=True)
        table.add_section()
        for label in found[np.argsort(-counts)][:SHOWN]:
            _add(table, f"{name} {label}", labels == label, y, before, after)
    return table


def _add(table: Table, name: str, rows: NDArray[np.bool_], y: Array, before: Array, after: Array) -> None:
    cells = [f"{np.mean(p[rows] - y[rows]):+.3f}" for p in (before, after)]
    cells += [f"{calibration_error(p[rows], y[rows]):.3f}" for p in (before, after)]
    table.add_row(name, f"{rows.sum():,}", f"{np.mean(y[rows]):.3f}", *cells)


def calibration_error(p: Array, y: Array) -> float:
    """Return the expected calibration error over equal-width bins."""
    cell = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    return float(np.abs(np.bincount(cell, y - p, BINS)).sum() / max(len(p), 1))


def _report(path: Path, live: Live, table: Any, y: Array, issued: Array, x: Array, groups: dict[str, Any]) -> None:
    from swapcal.audit import Audit

    p, low, high, weight = issued.T
    audit = Audit(
        p, y, x, groups=groups, low=low, high=high, weight=weight, time=table["t"].to_numpy(), names=live.names,
        title="Late flights out of New York, 2013",
    )  # fmt: skip
    audit.to_html(path, certificate=live.certificate().as_dict())
