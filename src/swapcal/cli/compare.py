"""`swapcal compare`: a file with your score in, one table and one report of the gain out."""

from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from swapcal._display import changes, named, points
from swapcal.arrays import Array
from swapcal.audit.verdict import TOLERANCE
from swapcal.benchmark import Benchmark, Method, cross_validated, in_time_order
from swapcal.cli import options
from swapcal.cli.options import OnBadRow, listed, scored
from swapcal.cli.progress import LOG_LOSS, Output, Run, bar, running
from swapcal.cli.rows import ColumnDoubts, all_scores, numbers_or_text
from swapcal.cli.stream_table import Roles, StreamReader, StreamTable
from swapcal.tables.clock import created_at
from swapcal.tables.outcomes import is_text
from swapcal.tables.output import protect

MOST_CATEGORIES = 30
"""Without --groups, text columns with at most this many values are groups."""
MOST_COLUMNS = 20
"""Column names listed."""


@options.reads_text
def compare(
    file: options.File,
    text: options.DatedText,
    target: options.Target,
    score: Annotated[str, typer.Option(help="Column with your probabilities (name:logit for logits).")],
    groups: options.Groups = None,
    time: Annotated[
        str | None, typer.Option(help="Column of times, in order: compare as a stream; without it, cross-validated.")
    ] = None,
    label_time: Annotated[
        str | None, typer.Option(help="Column with the times at which outcomes are known; default: the row's time.")
    ] = None,
    drop: options.Drop = None,
    numeric: options.Numeric = None,
    categorical: options.Categorical = None,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 5,
    out: options.Report = None,
    json: options.Json = None,
    tolerance: options.Tolerance = TOLERANCE,
    title: options.Title = None,
    on_bad_row: options.BadRow = OnBadRow.stop,
    seed: Annotated[int, typer.Option(min=0, help="Seed of folds, draws and simulations.")] = 0,
    positive: options.Positive = None,
) -> None:
    """Compare your score with isotonic regression, a sigmoid, logistic regression and swapcal on the same rows.

    With --time every row is forecast before its outcome is known, and learned from afterwards; outcomes of rows at the
    same time are not known to each other. Isotonic and sigmoid are refitted at 200, 240, 288, … outcomes. Without
    --time all methods are fitted on the same folds and scored on the held-out rows.

    Isotonic and sigmoid use the score alone. swapcal and a logistic regression also use the other columns, which are
    listed: --drop those that are known only after the outcome, or the gain is overstated; a warning names likely ones.
    Columns that name rows are left out unless --groups, --numeric or --categorical names them.

    Rows without an outcome are left out and counted. Exit code 0 on success, 2 on bad input.
    """
    with running("compare") as run, text.open(file) as source:
        protect([file], {"--out": out, "--json": json})
        if label_time and not time:
            raise ValueError("--label-time: given without --time, expected both")
        roles = Roles(
            target,
            time=time,
            label_time=label_time,
            scores=scored([score], source.columns),
            groups=tuple(listed(groups, source.columns)),
            numeric=tuple(listed(numeric, source.columns)),
            categorical=tuple(listed(categorical, source.columns)),
            drop=tuple(listed(drop, source.columns)),
        )
        counted = options.positive_in(target, positive, source)
        reader = StreamReader(source, roles, skip=on_bad_row is OnBadRow.skip, positive=counted)
        whole = reader.whole()
        if counted is not None:
            counted.require()
        stream = whole.labelled(target, run)
        reader.say_skipped(run)
        settings = {"tolerance": tolerance, "title": options.heading(title, file), "seed": seed}
        contest = _contest(stream, roles, folds, run, settings)
        created = created_at()
        if json is not None:
            contest.to_json(json, created_at=created)
        if out is not None:
            contest.to_html(out, created_at=created)
            run.kept = f"{out} is written"
        _show(contest, Output())


def _contest(stream: StreamTable, roles: Roles, folds: int, run: Run, settings: dict[str, Any]) -> Benchmark:
    (name, kind), table = next(iter(roles.scores.items())), stream.features
    mine = all_scores(table[name], name, kind, stream.rows)
    doubts = ColumnDoubts.of(table.drop_columns([name]), stream.y, {*roles.groups, *roles.numeric, *roles.categorical})
    if doubts.ids:
        run.say(f"left out {named(doubts.ids, MOST_COLUMNS)}: nearly every row has its own value (--categorical keeps)")
        table = table.drop_columns(doubts.ids)
    groups = _groups(table, roles)
    others = [column for column in table.column_names if column != name]
    read = named(others, MOST_COLUMNS) or "nothing else"
    run.say(f"swapcal reads {name} and {read}")
    if roles.time is not None:
        with run.console.status("forecasting in order of time"):
            forecasts = in_time_order(
                table,
                stream.y,
                mine,
                score=name,
                kind=kind,
                groups=roles.groups,
                time=stream.time,
                label_time=stream.label_time,
                seed=settings["seed"],
            )
        how = "In order of time: every forecast was made before its outcome, and those of later rows, were known."
    else:
        forecasts = _left_out(
            numbers_or_text(table.drop_columns([name])), stream.y, mine, roles, folds, run, settings["seed"]
        )
        how = f"Cross-validated in {folds} folds, the same for all: every forecast comes from a fit on the other rows."
    how += f" Isotonic and sigmoid see the score alone; logistic regression and swapcal also read {read}."
    run.say(f"judging {len(stream.y):,} rows, {', '.join(groups) or 'no groups'}")
    time = None if stream.time is None else stream.moments("time")
    warnings = [*doubts.leaks.values(), *_undated(doubts.dates, roles)]
    return Benchmark(stream.y, forecasts, groups=groups or None, time=time, how=how, warnings=warnings, **settings)


def _undated(dates: list[str], roles: Roles) -> list[str]:
    """Return a warning about dates that do not order the rows."""
    if roles.time is not None or not dates:
        return []
    return [
        f"Column {dates[0]!r} holds dates, but the folds mix early and late rows: forecasts of early rows know later "
        f"ones, and a gain may not last (--time {dates[0]} compares in order of time)."
    ]


def _left_out(
    table: pa.Table, y: Array, mine: Array, roles: Roles, folds: int, run: Run, seed: int
) -> dict[str, Array]:
    with bar(run.console, "fitting") as shown:
        done = 0

        def step(rows: int) -> None:
            nonlocal done
            done += rows
            shown.to(done, done / len(y))

        return cross_validated(table, y, mine, groups=roles.groups, folds=folds, seed=seed, progress=step)


def _groups(table: pa.Table, roles: Roles) -> dict[str, Any]:
    """Return the group columns: those named, or the text columns with few values."""
    if roles.groups:
        return {name: table[name].to_pylist() for name in roles.groups}
    texts = [name for name in table.column_names if is_text(table[name].type)]
    return {name: table[name].to_pylist() for name in texts if len(table[name].unique()) <= MOST_CATEGORIES}


def _show(contest: Benchmark, console: Output) -> None:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("method", "Brier", LOG_LOSS, "worst group gap", "verdict", "Brier less yours"):
        table.add_column(heading, no_wrap=heading != "worst group gap")
    for one in contest.entries:
        gap = "–" if one.worst_gap is None else f"{points(one.worst_gap)} {one.worst_group}"
        table.add_row(one.name, f"{one.brier:.5f}", f"{one.log_loss:.5f}", gap, one.verdict, _beside(one))
    console.print(table)
    console.print("Gaps are observed minus forecast, in points; the last column has 95 % intervals of paired tests.")
    console.print(contest.sentence(), style="red" if contest.warnings else None, markup=False, highlight=False)
    console.print(contest.how, markup=False, highlight=False)


def _beside(one: Method) -> str:
    if one.squared is None:
        return ""
    result = one.squared.word.removesuffix(" found")
    difference, low, high = changes(one.squared.difference, one.squared.low, one.squared.high)
    return f"{difference} {result}\n{low} to {high}"
