"""`swapcal monitor`: predictions and outcomes in order of time in, alarms and an exit code out."""

import json as codec
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from swapcal.archive import ArchiveError, put_text
from swapcal.cli import options
from swapcal.cli.options import listed
from swapcal.cli.progress import Facts, Run, bar, running
from swapcal.cli.rows import GroupGaps, OutcomeTimes, kinds, with_outcomes
from swapcal.monitor import Monitor
from swapcal.report.page import render_monitoring
from swapcal.tables.formats import Source
from swapcal.tables.frame import JudgedColumns, Table
from swapcal.tables.outcomes import Positive
from swapcal.tables.output import protect
from swapcal.tables.sources import InputError

BATCH_ROWS = 1 << 17
MOST_SHOWN = 10
MOST_WARNINGS = 3
QUIET, ALARM = 0, 1


@options.reads_text
def monitor(
    file: options.File,
    text: options.DatedText,
    printing: options.Printing,
    prob: Annotated[str, typer.Option(help="Column of mean forecasts, issued before the outcomes were known.")],
    target: options.Target,
    groups: options.Groups = None,
    product: Annotated[list[str] | None, typer.Option(help="Two columns a,b watched together; repeatable.")] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column of times by which outcomes are known whatever their value; rows are sorted by it."),
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Gaps up to this size, as a rate, raise no alarm.")] = 0.01,
    run_length: Annotated[float, typer.Option(help="Least mean number of rows between false alarms.")] = 1_000_000,
    alpha: Annotated[float, typer.Option(help="Largest probability of any false lifetime alarm.")] = 0.05,
    level_ranges: Annotated[bool, typer.Option(help="Watch ranges of forecasts too.")] = True,
    bins: Annotated[
        list[str] | None, typer.Option(help="A column of numbers and the edges of its ranges, age:30,60; repeatable.")
    ] = None,
    numbers: Annotated[
        list[str] | None,
        typer.Option(help="A column of numbers whose ranges are learned from the first 1,000 rows; repeatable."),
    ] = None,
    clusters: Annotated[
        str | None, typer.Option(help="Column of rows that belong together, such as a patient: each bets once.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Column of one over the probability with which each outcome was obtained; with --max-weight."
        ),
    ] = None,
    max_weight: Annotated[float, typer.Option(help="Largest weight, known before the first row.")] = 1.0,
    state: Annotated[
        Path | None, typer.Option(help="Continue from this state if it exists, and write the new state to it.")
    ] = None,
    out: options.Report = None,
    title: options.Title = None,
    positive: options.Positive = None,
    details: options.Details = False,
) -> None:
    """Monitor forecasts over time, overall and per group, with alarms that stay valid however often you look.

    Rows are entered in order of --time, or of the file. That order must not depend on the outcomes: give the time by
    which an outcome is known whatever its value, not the time at which it arrived. Without --time the file may be
    larger than memory; sorting keeps the required columns in memory. Rows without an outcome are left out and counted.
    Rows in messages count from 1, without the header.
    Exit code 0: no alarm; 1: an alarm is raised, or was raised by these rows and ended; 2: could not run.
    """
    with running("monitor", printing) as run, text.open(file) as source:
        protect([file], {"--out": out, "--json": printing.json_file, "--state": state})
        fresh = Monitor(
            groups=listed(groups, source.columns),
            products=[listed([one], source.columns) for one in product or ()],
            tolerance=tolerance,
            run_length=run_length,
            alpha=alpha,
            level_ranges=level_ranges,
            bins=dict(_cut(one) for one in bins or ()),
            numbers=listed(numbers, source.columns),
            clusters=clusters,
            max_weight=max_weight,
        )
        if prob == target or {prob, target} & set(fresh.columns()):
            raise InputError(f"--prob {prob}, --target {target}: given as a group or twice, expected one role a column")
        watching = _opened(state, fresh)
        known = len(watching.log())
        positive_value = options.positive_in(target, positive, source)
        columns = JudgedColumns(prob, target, groups=tuple(watching.columns()), weights=weights, time=time)
        pieces = _pieces(source, columns, positive_value, run)
        outcomes, gaps = OutcomeTimes(), GroupGaps(listed(groups, source.columns))
        for table in pieces if time is None else [_sorted(list(pieces), time)]:
            _enter(watching, rows := Table(table), columns)
            outcomes.add(rows.numbers(target), None if time is None else rows.raw(time), rows.numbers(prob))
            gaps.add(table.select(listed(groups, source.columns)), rows.numbers(prob), rows.numbers(target))
        if state is not None:
            watching.save(state)
            run.kept = f"{state} is written"
        summary = watching.summary(options.heading(title, file))
        if out is not None:
            put_text(out, render_monitoring(summary))
        if printing.json is not None:
            run.write(codec.dumps(summary, indent=1, ensure_ascii=False))
        facts = Facts("monitor", "", gaps.labelled, base_rate=gaps.base_rate)
        if weights is None:
            facts.scores, facts.groups, facts.small = gaps.scored(prob), gaps.largest_first(), gaps.small()
        else:
            facts.base_rate = None
        facts.show(run.output)
        _show(summary, run.output, details)
        outcomes.say(run)
        facts.written = {what: str(path) for what, path in (("report", out), ("state", state)) if path is not None}
        facts.next = "the same with --out monitor.html, for pictures over time" if out is None else ""
        facts.end(run)
    raise typer.Exit(ALARM if summary["alarmed"] or len(summary["log"]) > known else QUIET)


def _cut(text: str) -> tuple[str, list[float]]:
    """Return a column and the edges of its ranges."""
    name, _, edges = text.rpartition(":")
    try:
        return name, [float(edge) for edge in edges.split(",")]
    except ValueError:
        raise InputError(f"--bins: given {text!r}, expected a column and numbers, such as age:30,60") from None


def _opened(state: Path | None, fresh: Monitor) -> Monitor:
    """Return the saved monitor, which must have the same settings, or a fresh one."""
    if state is None or not state.exists():
        return fresh
    saved = Monitor.load(state)
    if saved.settings != fresh.settings:
        raise ArchiveError(f"{state}: given a monitor with other settings, expected those of this command")
    return saved


def _pieces(source: Source, columns: JudgedColumns, positive: Positive | None, run: Run) -> Iterator[pa.Table]:
    """Yield the columns that are needed, rows with an outcome only, as they stand in the file."""
    rows = used = 0
    with bar(run.console, "reading") as shown:
        for piece in source.pieces(kinds(columns)):
            kept = with_outcomes(piece, columns, positive, source.dialect)
            rows, used = rows + len(piece.table), used + len(kept)
            shown.to(rows, piece.share)
            if len(kept):
                yield kept
    if not used:
        raise InputError(f"column {columns.target!r}: given no outcome in {rows:,} rows, expected some")
    run.say_unlabelled(rows, used)
    run.say_unmatched(positive)


def _sorted(pieces: list[pa.Table], time: str) -> pa.Table:
    whole = pa.concat_tables(pieces, promote_options="permissive")
    return whole.take(pa.array(np.argsort(Table(whole).raw(time), kind="stable")))


def _enter(watching: Monitor, table: Table, columns: JudgedColumns) -> None:
    p, y = table.numbers(columns.prob), table.numbers(columns.target)
    clock = None if columns.time is None else table.raw(columns.time)
    weights = None if columns.weights is None else table.numbers(columns.weights)
    categories = {name: table.categories(name) for name in columns.groups}
    names = {name: np.array(column.values, dtype=object) for name, column in categories.items()}
    for start in range(0, len(p), BATCH_ROWS):
        some = slice(start, start + BATCH_ROWS)
        records = {name: names[name][column.codes[some]] for name, column in categories.items()}
        own = [None if column is None else column[some] for column in (clock, weights)]
        watching.add(records, p[some], y[some], *own)


def _show(summary: dict[str, Any], console: Console, details: bool) -> None:
    style = "red" if summary["alarmed"] else "green"
    console.print(summary["sentence"], style=style, markup=False, highlight=False)
    alarms = summary["alarms"] + [alarm for alarm in summary["log"] if alarm not in summary["alarms"]]
    for alarm in alarms[:MOST_SHOWN]:
        console.print(f"  {alarm['sentence']}", markup=False, highlight=False)
    more = len(alarms) - MOST_SHOWN
    if more > 0:
        console.print(f"  … and {more:,} more.", markup=False, highlight=False)
    warnings = summary["warnings"]
    for warning in warnings[:MOST_WARNINGS]:
        console.print(f"Warning: {warning}", style="yellow", markup=False, highlight=False)
    if len(warnings) > MOST_WARNINGS:
        console.print(f"… and {len(warnings) - MOST_WARNINGS:,} more warnings.", style="yellow", highlight=False)
    life = summary["lifetime"]
    if details or life["rejected"]:
        console.print(f"Lifetime test: p = {life['p_value']:.2g}, valid at every look.", markup=False, highlight=False)
