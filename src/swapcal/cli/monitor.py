"""`swapcal monitor`: predictions and outcomes in order of time in, alarms in words and an exit code out."""

import json as codec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from swapcal.archive import ArchiveError
from swapcal.cli.audit import _batches, _listed, _name
from swapcal.frames import Table
from swapcal.monitor import Monitor
from swapcal.monitor.rates import rates
from swapcal.report.monitoring import render_monitoring

BATCH_ROWS = 1 << 17
MOST_SHOWN = 10
QUIET, ALARM, COULD_NOT_RUN = 0, 1, 2


def monitor(
    file: Annotated[str, typer.Argument(help="CSV (also .gz) or Parquet; - reads CSV from standard input.")],
    prob: Annotated[str, typer.Option(help="Column of mean forecasts, issued before the outcomes were known.")],
    target: Annotated[str, typer.Option(help="Column of outcomes in [0, 1].")],
    groups: Annotated[list[str] | None, typer.Option(help="Group columns, comma-separated; repeatable.")] = None,
    product: Annotated[list[str] | None, typer.Option(help="Two columns a,b watched together; repeatable.")] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column of times by which outcomes were bound to be known; rows are sorted by it."),
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Gaps up to this size, as a rate, raise no alarm.")] = 0.01,
    run_length: Annotated[float, typer.Option(help="Mean rows between false change alarms, at least.")] = 1_000_000,
    alpha: Annotated[float, typer.Option(help="Probability of any false lifetime alarm ever, at most.")] = 0.05,
    level_ranges: Annotated[bool, typer.Option(help="Watch ranges of forecasts too.")] = True,
    state: Annotated[
        Path | None, typer.Option(help="Go on from this state if it exists, and write the new state to it.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the summary here, as JSON; - for standard output.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report here, as one HTML file.")] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the report; default: the file's name.")] = None,
) -> None:
    """Watch calibration over time, for everybody, with alarms that stay valid however often one looks.

    Rows are entered in order of --time, or as they stand. That order must not depend on the outcomes: give the time by
    which an outcome was bound to be known, not the time at which it happened to arrive.
    Exit code 0: no alarm; 1: alarm; 2: could not run.
    """
    console = Console(stderr=True)
    try:
        pairs = [_listed([one]) for one in product or ()]
        settings: dict[str, Any] = {
            "groups": _listed(groups),
            "products": pairs,
            "tolerance": tolerance,
            "run_length": run_length,
            "alpha": alpha,
            "level_ranges": level_ranges,
        }
        watching = _opened(state, Monitor(**settings))
        _enter(watching, _table(file, prob, target, time, watching), prob, target, time)
        if state is not None:
            watching.save(state)
        summary = watching.summary(title or _name(file))
        _write(summary, json, report)
    except (ValueError, TypeError, OSError, pa.ArrowException) as error:
        console.print(f"swapcal monitor: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(COULD_NOT_RUN) from None
    if json != Path("-"):
        _show(summary, Console())
    raise typer.Exit(ALARM if summary["alarmed"] else QUIET)


def _opened(state: Path | None, fresh: Monitor) -> Monitor:
    """Return the monitor to go on with: the saved one, which must have the same settings, or a fresh one."""
    if state is None or not state.exists():
        return fresh
    saved = Monitor.load(state)
    if saved.settings != fresh.settings:
        raise ArchiveError(f"{state}: given a monitor with other settings, expected those of this command")
    return saved


def _table(file: str, prob: str, target: str, time: str | None, watching: Monitor) -> Table:
    """Return the columns that are needed, in order of time."""
    wanted = [prob, target, *watching.columns(), *([time] if time else [])]
    batches = [batch for batch, _ in _batches(file, list(dict.fromkeys(wanted)))]
    if not batches:
        raise ValueError(f"{file} has no rows")
    whole = pa.concat_tables(batches, promote_options="permissive")
    table = Table(whole)
    for name in (prob, target):  # before sorting, so that rows count as in the file
        rates(f"column {name!r}", table.numbers(name))
    if time is None:
        return table
    order = np.argsort(_sortable(table, time), kind="stable")
    return Table(whole.take(pa.array(order)))


def _sortable(table: Table, time: str) -> Any:
    values = table.raw(time)
    if values.dtype.kind not in "iufM":
        raise TypeError(f"column {time!r}: given {values.dtype}, expected numbers or dates")
    bad = np.flatnonzero(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values.astype(float)))
    if bad.size:
        raise ValueError(f"column {time!r}: given no time in row {bad[0] + 1}, expected a number or date")
    return values


def _enter(watching: Monitor, table: Table, prob: str, target: str, time: str | None) -> None:
    p, y = table.numbers(prob), table.numbers(target)
    clock = None if time is None else table.raw(time)
    columns = {name: table.categories(name) for name in watching.columns()}
    names = {name: np.array(found.names, dtype=object) for name, found in columns.items()}
    for start in range(0, len(p), BATCH_ROWS):
        part = slice(start, start + BATCH_ROWS)
        records = {name: names[name][found.codes[part]] for name, found in columns.items()}
        watching.add(records, p[part], y[part], None if clock is None else clock[part])


def _write(summary: dict[str, Any], json: Path | None, report: Path | None) -> None:
    text = codec.dumps(summary, indent=1, ensure_ascii=False)
    if json == Path("-"):
        print(text)
    elif json is not None:
        json.write_text(text, encoding="utf-8")
    if report is not None:
        report.write_text(render_monitoring(summary), encoding="utf-8")


def _show(summary: dict[str, Any], console: Console) -> None:
    style = "red" if summary["alarmed"] else "green"
    console.print(summary["sentence"], style=style, markup=False, highlight=False)
    for alarm in summary["alarms"][:MOST_SHOWN]:
        console.print(f"  {alarm['sentence']}", markup=False, highlight=False)
    more = len(summary["alarms"]) - MOST_SHOWN
    if more > 0:
        console.print(f"  … and {more:,} more.", markup=False, highlight=False)
    life = summary["lifetime"]
    console.print(f"Lifetime test: p = {life['p_value']:.2g}, valid at every look.", markup=False, highlight=False)
