"""`swapcal demo`: a year of New York flights, forecast live, before and after."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from swapcal.archive import put_text
from swapcal.arrays import Array
from swapcal.audit import Comparison
from swapcal.audit.difference import RANGES, calibration_error
from swapcal.audit.findings import forecaster
from swapcal.cli import options
from swapcal.cli.audit import show_headline
from swapcal.cli.compile import compiling
from swapcal.cli.progress import Run, bar, running
from swapcal.datasets.flights import FEATURES, GROUPS, WEATHER, flights, names_of
from swapcal.engine.certificate import Certificate
from swapcal.kernels.tally import FLOOR, log_losses
from swapcal.live import Live, Trace
from swapcal.report import Findings, render
from swapcal.tables.output import protect

PIECE = 8_192
PLAIN = "logistic (steps of 0.3)"
NAMES = ("the plain model", "swapcal")
AUDITED = ("month", "dow", "hour", "distance", *WEATHER)
SMALL_GROUP = 2_000
Scores = list[tuple[str, float, float, float]]
"""Names of forecasts with their Brier score, log loss and calibration error."""


@options.prints
def demo(
    printing: options.Printing,
    out: Annotated[Path, typer.Option(help="Where to write the HTML report.")] = Path("swapcal-demo.html"),
    rows: Annotated[int, typer.Option(help="Number of flights; 0 for the whole year.", min=0)] = 0,
) -> None:
    """Forecast whether each flight of 2013 from New York will be late, and write a report: before and after.

    Late means 15 minutes or more, cancelled or diverted. Each flight is forecast before its outcome is learned, in
    order of departure. "Before" is an online logistic regression on the same records; "after" is swapcal, which
    combines several such models. Nothing is tuned.
    """
    with running("demo", printing) as run:
        protect([], {"--out": out, "--json": printing.json_file})
        _demo(out, rows, run.output, run)


def _demo(out: Path, rows: int, console: Console, run: Run) -> None:
    console.print(
        "Will this flight be 15 minutes late, cancelled or diverted? Every departure from New York in 2013, each "
        "forecast before its outcome is known.\nBefore: a plain model (online logistic regression). After: swapcal.",
        highlight=False,
    )
    with compiling(console, ("engine", "experts", "audit")), console.status("reading flights and weather"):
        table = flights()
    table = table.slice(0, rows) if rows else table
    y = table["y"].to_numpy().astype(np.float64)
    live = Live(groups=GROUPS)
    start = time.perf_counter()
    traces = _streamed(console, live, table.select(list(FEATURES)), y)
    seconds = time.perf_counter() - start
    before = np.concatenate([trace.experts[:, live.experts.index(PLAIN)] for trace in traces])
    after = np.concatenate([trace.forecast.p for trace in traces])
    mean = np.concatenate([trace.forecast.mean for trace in traces])
    groups = {"airline": names_of(table["carrier"]), "airport": names_of(table["origin"])}
    console.print(f"{len(y):,} flights in {seconds:.1f} s: {len(y) / seconds:,.0f} forecasts learned per second.")
    scores = _scores(y, before, after, mean)
    with console.status("auditing both, and testing the difference"):
        certificate = live.certificate()
        assert isinstance(certificate, Certificate)
        findings = _report(out, certificate, table, groups, y, (before, after))
    comparison = findings.comparison
    assert comparison is not None
    console.print(f"\n{comparison.sentence}\n", style="bold", markup=False, highlight=False)
    console.print(_by_group(groups, y, before, after))
    console.print(comparison.groups_sentence, markup=False, highlight=False)
    console.print(_overall(y, scores))
    console.print("The audit of swapcal's own forecasts:", highlight=False)
    show_headline(findings, console)
    console.print(
        f"Report, both side by side: {out.resolve()}\n"
        "Next, with your own file: swapcal forecast FILE --target COLUMN --report report.html",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    run.kept = f"{out} is written"
    run.write(_as_json(scores, findings, y, out, seconds))


def _as_json(scores: Scores, findings: Findings, y: Array, out: Path, seconds: float) -> str:
    assert findings.comparison is not None
    entries = [dict(zip(("forecast", "brier", "log_loss", "calibration_error"), one, strict=True)) for one in scores]
    return json.dumps(
        {"command": "demo", "rows": len(y), "base_rate": float(y.mean()), "seconds": seconds, "scores": entries,
         "sentence": findings.comparison.sentence, "verdict": findings.headline.verdict, "report": str(out)}
    )  # fmt: skip


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


def _scores(y: Array, before: Array, after: Array, mean: Array) -> Scores:
    named = ("before: plain model", before), ("after: mean", mean), ("after: issued level p", after)
    return [
        (name, float(np.mean((p - y) ** 2)), float(np.mean(log_losses(p, y))), calibration_error(p, y))
        for name, p in named
    ]


def _overall(y: Array, scores: Scores) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        title="All flights",
        caption=f"{y.mean():.1%} were late. Lower is better. Calibration error as above, over all flights. Log loss: "
        f"probabilities kept {FLOOR:g} from 0 and 1.",
    )
    for heading in ("forecast", "Brier score", "log loss", "calibration error"):
        table.add_column(heading, justify="left" if heading == "forecast" else "right")
    for name, brier, log_loss, error in scores:
        table.add_row(name, f"{brier:.4f}", f"{log_loss:.4f}", f"{error:.2%}")
    return table


def _by_group(groups: dict[str, list[str]], y: Array, before: Array, after: Array) -> Table:
    shown = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title="By airline and airport",
        caption="Gap: observed minus forecast, in percentage points. Error: calibration error within the group, in "
        f"points: mean size of the gaps over {RANGES} ranges of forecasts, noise included; the report has the same.",
    )
    for heading in ("group", "flights", "late", "gap before", "after", "error before", "after"):
        shown.add_column(heading, justify="left" if heading == "group" else "right", no_wrap=True)
    for column in groups.values():
        values = np.array(column)
        for name in sorted(set(column)):
            rows = values == name
            if rows.sum() >= SMALL_GROUP:
                gaps = (f"{round(100 * float(np.mean(y[rows] - p[rows])), 1) + 0.0:+.1f}" for p in (before, after))
                errors = (f"{100 * calibration_error(p[rows], y[rows]):.1f}" for p in (before, after))
                shown.add_row(name, f"{rows.sum():,}", f"{y[rows].mean():.1%}", *gaps, *errors)
        shown.add_section()
    return shown


def _report(
    out: Path, certificate: Certificate, table: Any, groups: dict[str, list[str]], y: Array, p: tuple[Array, Array]
) -> Findings:
    """Write the report and return its findings."""
    compared = Comparison(
        *p, y, features=table.select(list(AUDITED)), groups=groups, time=table["t"].to_numpy(), names=NAMES,
        title="New York flights 2013: late, cancelled or diverted",
    )  # fmt: skip
    findings = replace(compared.to_findings(), forecaster=forecaster(compared.after.evidence, certificate.as_dict()))
    put_text(out, render(findings))
    return findings
