"""`swapcal compare`: a file with your score in, one table and one report of the gain out."""

from shlex import quote
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from swapcal._display import changes, named, points
from swapcal.arrays import Array
from swapcal.audit.clusters import belong_together, looks_clustered
from swapcal.audit.verdict import TOLERANCE
from swapcal.benchmark import Benchmark, Method, cross_validated, in_time_order
from swapcal.cli import options
from swapcal.cli.options import OnBadRow, listed, scored
from swapcal.cli.progress import Run, bar, running
from swapcal.cli.rows import ColumnDoubts, all_scores, numbers_or_text
from swapcal.cli.stream_table import Roles, StreamReader, StreamTable
from swapcal.kernels.tally import FLOOR
from swapcal.tables.frame import Table as FrameTable
from swapcal.tables.outcomes import is_text
from swapcal.tables.output import protect
from swapcal.tables.values import created_at

MOST_CATEGORIES = 30
"""Without --groups, text columns with at most this many values are groups."""
MOST_COLUMNS = 20
"""Column names listed."""


@options.reads_text
def compare(
    file: options.File,
    text: options.DatedText,
    printing: options.Printing,
    target: options.Target,
    score: Annotated[
        str, typer.Option("--score", "--prob", help="Column with your probabilities (name:logit for logits).")
    ],
    groups: options.Groups = None,
    time: Annotated[
        str | None, typer.Option(help="Column of times, in order: compare as a stream; without it, cross-validated.")
    ] = None,
    label_time: Annotated[
        str | None, typer.Option(help="Column with the times at which outcomes are known; default: the row's time.")
    ] = None,
    clusters: options.Clusters = None,
    drop: options.Drop = None,
    keep_column: options.KeepColumn = None,
    numeric: options.Numeric = None,
    categorical: options.Categorical = None,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 5,
    out: options.Report = None,
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
    Ids, free texts and columns of one value are left out unless --keep-column or another option names them.

    --clusters keeps the rows of one id together in all folds, takes intervals and verdicts by cluster, and leaves the
    column itself unread unless --groups or --categorical names it. With --time earlier rows of a cluster are known.

    Rows without an outcome are left out and counted. Exit code 0 on success, 2 on bad input.
    """
    with running("compare", printing) as run, text.open(file) as source:
        protect([file], {"--out": out, "--json": printing.json_file})
        if label_time and not time:
            raise ValueError("--label-time: given without --time, expected both")
        roles = Roles(
            target,
            time=time,
            label_time=label_time,
            clusters=clusters,
            scores=scored([score], source.columns),
            groups=tuple(listed(groups, source.columns)),
            numeric=tuple(listed(numeric, source.columns)),
            categorical=tuple(listed(categorical, source.columns)),
            drop=tuple(listed(drop, source.columns)),
            used=tuple(listed(keep_column, source.columns)),
        )
        value = options.positive_in(target, positive, source)
        reader = StreamReader(source, roles, skip=on_bad_row is OnBadRow.skip, positive=value, outcomes_only=True)
        whole = reader.whole()
        if value is not None:
            value.require()
        stream = whole.labelled(target, run)
        reader.say_skipped(run)
        settings = {"tolerance": tolerance, "title": options.heading(title, file), "seed": seed}
        contest = _contest(stream, roles, folds, run, settings)
        created = created_at()
        if printing.json is not None:
            run.write(contest.to_json(created_at=created))
        if out is not None:
            contest.to_html(out, created_at=created)
            run.kept = f"{out} is written"
        _show(contest, run.output)
        run.say(
            "next: the same with --report report.html, for each method's findings" if out is None else f"report: {out}"
        )


def _contest(stream: StreamTable, roles: Roles, folds: int, run: Run, settings: dict[str, Any]) -> Benchmark:
    (name, kind), table = next(iter(roles.scores.items())), stream.features
    mine = all_scores(table[name], name, kind, stream.rows)
    belongs = None if roles.clusters is None else table[roles.clusters].to_pylist()
    suspect = _suspect(table.drop_columns([name]), mine, stream.y) if belongs is None else []
    if roles.clusters is not None and roles.clusters not in {*roles.groups, *roles.categorical}:
        table = table.drop_columns([roles.clusters])
    doubts = ColumnDoubts.of(table.drop_columns([name]), stream.y, roles.chosen())
    run.say_unused(doubts.unused)
    table = table.drop_columns([*doubts.unused])
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
        columns = numbers_or_text(table.select(others or [name]))  # a fit needs a column, if only that of the score
        forecasts = _left_out(columns, stream.y, mine, belongs, roles, folds, run, settings["seed"])
        units = "rows" if belongs is None else f"clusters ({roles.clusters}), none of which is split"
        how = f"Cross-validated in {folds} folds, the same for all: every forecast comes from a fit on other {units}."
    also = f"; logistic regression and swapcal also read {read}" if others else ", and so do the others"
    how += f" Isotonic and sigmoid see the score alone{also}."
    run.say(f"judging {len(stream.y):,} rows, {', '.join(groups) or 'no groups'}")
    time = None if stream.time is None else stream.moments("time")
    how += (
        ""
        if belongs is None
        else f" Intervals and verdicts are by {roles.clusters}: its rows may depend on each other."
    )
    given: dict[str, Any] = {"groups": groups or None, "time": time, "clusters": belongs, "how": how}
    warnings = [*doubts.leaks.values(), *suspect, *_undated(doubts.dates, roles)]
    return Benchmark(stream.y, forecasts, warnings=warnings, **given, **settings)


def _suspect(table: pa.Table, mine: Array, y: Array) -> list[str]:
    """Return a warning about a column that looks like a cluster id."""
    column = looks_clustered(FrameTable(table), table.column_names, mine, y)
    return [] if column is None else [belong_together(column)]


def _undated(dates: list[str], roles: Roles) -> list[str]:
    """Return a warning about dates that do not order the rows."""
    if roles.time is not None or not dates:
        return []
    return [
        f"Column {dates[0]!r} holds dates, but the folds mix early and late rows: forecasts of early rows use later "
        f"ones, and a gain may not last (--time {quote(dates[0])} compares in order of time)."
    ]


def _left_out(
    table: pa.Table, y: Array, mine: Array, clusters: Any, roles: Roles, folds: int, run: Run, seed: int
) -> dict[str, Array]:
    with bar(run.console, "fitting") as shown:
        done = 0

        def step(rows: int) -> None:
            nonlocal done
            done += rows
            shown.to(done, done / len(y))

        apart: dict[str, Any] = {"folds": folds, "seed": seed, "clusters": clusters}
        return cross_validated(table, y, mine, groups=roles.groups, progress=step, **apart)


def _groups(table: pa.Table, roles: Roles) -> dict[str, Any]:
    """Return the group columns: those named, or the text columns with few values."""
    if roles.groups:
        return {name: table[name].to_pylist() for name in roles.groups}
    texts = [name for name in table.column_names if is_text(table[name].type)]
    return {name: table[name].to_pylist() for name in texts if len(table[name].unique()) <= MOST_CATEGORIES}


def _show(contest: Benchmark, console: Console) -> None:
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in ("method", "Brier", "log loss", "worst group gap", "verdict", "Brier less yours"):
        free = heading == "worst group gap"
        table.add_column(heading, no_wrap=not free, min_width=10 if free else None)
    for one in contest.entries:
        gap = "–" if one.worst_gap is None else f"{points(one.worst_gap)} {one.worst_group}"
        table.add_row(one.name, f"{one.brier:.5f}", f"{one.log_loss:.5f}", gap, one.verdict, _beside(one))
    console.print(table)
    console.print(
        "Gaps are observed minus forecast, in points; the last column has 95 % intervals of paired tests. For the log "
        f"loss forecasts are kept {FLOOR:g} from 0 and 1."
    )
    console.print(contest.sentence(), style="red" if contest.warnings else None, markup=False, highlight=False)
    console.print(contest.how, markup=False, highlight=False)


def _beside(one: Method) -> str:
    if one.squared is None:
        return ""
    result = one.squared.word.removesuffix(" found")
    difference, low, high = changes(one.squared.difference, one.squared.low, one.squared.high)
    return f"{difference}, {result}\n{low} to {high}"
