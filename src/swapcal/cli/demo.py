"""`swapcal demo`: a year of New York flights, forecast live, before and after."""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from swapcal.archive import put_text
from swapcal.arrays import Array
from swapcal.audit import Audit
from swapcal.cli.audit import show_headline
from swapcal.cli.progress import bar
from swapcal.cli.running import Output, Run, running
from swapcal.datasets.flights import FEATURES, GROUPS, flights
from swapcal.kernels.logloss import log_losses
from swapcal.live import Live, Trace
from swapcal.report import Findings, render
from swapcal.tables.output import protect

PIECE = 8_192
PLAIN = "SGD 0.3"
SMALL_GROUP = 2_000
BINS = 20


def demo(
    out: Annotated[Path, typer.Option(help="Where to write the HTML report.")] = Path("swapcal-demo.html"),
    rows: Annotated[int, typer.Option(help="Only so many flights; 0 for the whole year.", min=0)] = 0,
) -> None:
    """Forecast whether each flight of 2013 from New York will be late, cancelled or diverted, in order of departure.

    Each flight is forecast before its outcome is learned. "Before" is a plain online logistic regression on the same
    records; "after" is swapcal wrapped around it and its siblings. Nothing is tuned.
    """
    with running("demo") as run:
        protect([], {"--out": out})
        _demo(out, rows, Output(), run)


def _demo(out: Path, rows: int, console: Console, run: Run) -> None:
    console.print("Will this flight be 15 minutes late, cancelled or diverted? Every departure from New York in 2013.")
    with console.status("reading flights and weather"):
        table = flights()
    table = table.slice(0, rows) if rows else table
    y = table["y"].to_numpy().astype(np.float64)
    with console.status("compiling, the first time only"):
        Live(groups=GROUPS).trace(table.select(list(FEATURES)).slice(0, 100), y[:100])
    live = Live(groups=GROUPS)
    start = time.perf_counter()
    traces = _streamed(console, live, table.select(list(FEATURES)), y)
    seconds = time.perf_counter() - start
    before = np.concatenate([trace.experts[:, live.experts.index(PLAIN)] for trace in traces])
    after = np.concatenate([trace.forecast.p for trace in traces])
    mean = np.concatenate([trace.forecast.mean for trace in traces])
    console.print(_overall(y, before, after, mean))
    console.print(_by_group(table, y, before, after))
    console.print(f"{len(y):,} flights in {seconds:.1f} s: {len(y) / seconds:,.0f} forecasts learned per second.")
    console.print(str(live.certificate()), highlight=False)
    with console.status("auditing the forecasts"):
        findings = _report(out, live, table, y, traces)
    console.print("\nThe audit's verdict on the issued p:", highlight=False)
    show_headline(findings, console)
    console.print(
        f"Report: {out.resolve()}\nNext: swapcal forecast --help, swapcal audit --help, docs/guide.md",
        highlight=False,
    )
    run.kept = f"{out} is written"


def _streamed(console: Console, live: Live, records: Any, y: Array) -> list[Trace]:
    traces: list[Trace] = []
    squares = 0.0
    with bar(console, "forecasting") as shown:
        for first in range(0, len(y), PIECE):
            labels = y[first : first + PIECE]
            traces.append(live.trace(records.slice(first, PIECE), labels))
            squares += float(np.sum((traces[-1].forecast.mean - labels) ** 2))
            done = first + len(labels)
            shown.to(done, done / len(y), f"Brier {squares / done:.4f}")
    return traces


def _overall(y: Array, before: Array, after: Array, mean: Array) -> Table:
    table = Table(
        title="All flights", caption=f"late: {y.mean():.1%} of {len(y):,}; calibration error over {BINS} bins"
    )
    for heading in ("forecast", "Brier", "log loss", "calibration error"):
        table.add_column(heading, justify="left" if heading == "forecast" else "right")
    for name, p in (("before: plain online logistic", before), ("after: issued p", after), ("after: mean", mean)):
        table.add_row(name, f"{np.mean((p - y) ** 2):.4f}", f"{np.mean(log_losses(p, y)):.4f}", f"{_ece(p, y):.2%}")
    return table


def _ece(p: Array, y: Array) -> float:
    """Return the mean absolute gap between forecast and outcome over equal-width bins of the forecast."""
    cell = np.minimum((p * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(cell, y - p, BINS)).sum() / len(y))


def _by_group(table: Any, y: Array, before: Array, after: Array) -> Table:
    shown = Table(title="By carrier and airport", caption="gap: observed minus forecast, in percentage points")
    headings = ("group", "flights", "late", "gap before", "gap after", "calibration error before", "after")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading == "group" else "right")
    for column in GROUPS:
        values = np.array(table[column].to_pylist())
        for name in sorted(set(values.tolist())):
            rows = values == name
            if rows.sum() >= SMALL_GROUP:
                gaps = (f"{round(100 * float(np.mean(y[rows] - p[rows])), 1) + 0.0:+.1f}" for p in (before, after))
                errors = (f"{_ece(p[rows], y[rows]):.1%}" for p in (before, after))
                shown.add_row(f"{column} {name}", f"{rows.sum():,}", f"{y[rows].mean():.1%}", *gaps, *errors)
        shown.add_section()
    return shown


def _report(out: Path, live: Live, table: Any, y: Array, traces: list[Trace]) -> Findings:
    """Write the report and return what it shows."""
    width = len(live.names)
    x = np.concatenate([np.pad(trace.x, ((0, 0), (0, width - trace.x.shape[1]))) for trace in traces])
    p, low, high, weight = (
        np.concatenate([getattr(trace.forecast, name) for trace in traces]) for name in ("p", "low", "high", "weight")
    )
    audit = Audit(
        p, y, x, groups={name: table[name].to_pylist() for name in GROUPS}, low=low, high=high, weight=weight,
        time=table["t"].to_numpy(), names=live.names, title="New York flights 2013: late, cancelled or diverted",
    )  # fmt: skip
    found = audit.to_dict(certificate=live.certificate().as_dict())
    put_text(out, render(found))
    return found
