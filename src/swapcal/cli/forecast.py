"""`swapcal forecast` and `swapcal label`: forecasts of a file, learning row by row, and outcomes that come later."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from swapcal.cli import STOPPED, options
from swapcal.cli.follow import Follower, holding
from swapcal.cli.forecasting import (
    ForecastReport,
    Pieces,
    RunningScores,
    as_saved,
    load_live,
    open_live,
    refuse_made,
    run_stream,
    save_live,
    traced,
)
from swapcal.cli.options import OnBadRow, listed, number_or_text, scored
from swapcal.cli.progress import LOG_LOSS, Facts, Run, running, stoppable
from swapcal.cli.rows import OutcomeWindows, columns_used, unused_columns
from swapcal.cli.stream_table import Roles, StreamReader
from swapcal.live import ConflictingLabelError, ExpiredIdError, Live, Status, UnknownIdError
from swapcal.live.validation import Id
from swapcal.tables.delimited import Piece
from swapcal.tables.outcomes import Positive, ReadAs, checked_outcomes, floats, outcomes
from swapcal.tables.output import protect
from swapcal.tables.sources import InputError

NAMED = {"--out": "forecasts", "--state": "state", "--report": "report"}
"""Names of the files that a user may request."""


@options.reads_text
def forecast(
    file: options.File,
    text: options.DatedText,
    printing: options.Printing,
    target: options.Target,
    time: Annotated[str | None, typer.Option(help="Column with the time of each forecast; must not decrease.")] = None,
    id: Annotated[
        str | None, typer.Option(help="Column with the id of each row, for outcomes that come later (swapcal label).")
    ] = None,
    label_time: Annotated[str | None, typer.Option(help="Column with the time each outcome became known.")] = None,
    matures: options.Matures = None,
    silence: options.Silence = None,
    groups: options.Groups = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="Columns with models' probabilities (name:logit for logits), comma-separated; repeatable."),
    ] = None,
    prior: options.Prior = None,
    unseen: options.Unseen = None,
    drop: options.Drop = None,
    keep_column: options.KeepColumn = None,
    numeric: options.Numeric = None,
    categorical: options.Categorical = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="CSV, TSV, JSONL (also .gz) or Parquet of the forecasts; - CSV.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report of the forecasts' calibration.")] = None,
    state: Annotated[Path | None, typer.Option(help="Continue from this file if it exists; save to it.")] = None,
    keep: options.Keep = None,
    trees: Annotated[
        bool, typer.Option("--trees", help="Add boosted trees to the experts, refitted as outcomes come; slower.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue as the file, or standard input, grows, until Ctrl-C or SIGTERM.")
    ] = False,
    jobs: options.Jobs = None,
    on_bad_row: options.BadRow = OnBadRow.stop,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the draws; 0 by default.")] = None,
    positive: options.Positive = None,
    details: options.Details = False,
) -> None:
    """Forecast each row, then learn its outcome, in the order of the file.

    Writes for each row the mean forecast, the issued level p, which is drawn (identical rows may get neighbouring
    levels), the two levels it was drawn from, and the columns of --keep. With
    --time and --label-time a label is learned only once it is known; with --matures, not before it matures either, and
    with --silence a row without an outcome by then is learned as that and scored so.
    Ctrl-C keeps the forecasts made so far and a state to continue
    from; the state is also saved every minute, and brings its settings: options that are not given are as they were.
    Labels that come later are learned by `swapcal label`.

    The file is read in pieces and may be larger than memory; column types are detected from the first 64 MiB.
    --follow writes each forecast as its line arrives, in CSV, TSV or JSONL; with --id, a row with an outcome that
    repeats the id of an open forecast is its label. Restarted with the same --state and file, it
    continues after the last row. --on-bad-row skip also skips, and counts, other rows that repeat an id. Rows in
    messages count from 1, without the header. Exit code 0 on success, 2 on bad input.
    """
    ticks: list[Callable[[], object]] = []

    def until() -> bool:
        for tick in ticks:
            tick()
        return stopping()

    with (
        running("forecast", printing) as run,
        stoppable() as stopping,
        text.open(file, until, follow=follow) as source,
    ):
        written = {"--out": out, "--report": report, "--state": state, "--json": printing.json_file}
        protect([file], written, tables=["--out"])
        printing.refuse_two(out)
        unused: dict[str, str] = {}
        _require_time(time, {"--label-time": label_time, "--matures": matures})
        ripe, window = options.maturity(matures, source.columns)
        columns = (groups, numeric, categorical, drop, keep, keep_column)
        given = (tuple(listed(names, source.columns)) for names in columns)
        roles = Roles(target, time, id, label_time, ripe, scored(score, source.columns), *given)
        skip, threads = on_bad_row is OnBadRow.skip, 1 if follow else options.threads(jobs)
        with holding(state if follow else None, "this one"):
            saved = load_live(state) if state is not None and state.exists() else None
            roles = roles if saved is None else as_saved(roles, saved)
            roles.refuse_clashes()
            if out is not None:
                refuse_made(roles.shown())
            value = options.positive_in(target, positive, source)
            taken = None if follow else (lambda id: saved is not None and saved.knows(id))
            reader = StreamReader(source, roles, skip=skip, positive=value, jobs=threads, taken=taken)
            if saved is None and not follow:
                unused = _leave_out(reader)
                roles = reader.roles
            belief = options.outcome_settings(window, silence, prior, unseen, roles.scores)
            live = open_live(roles, state, seed, trees=trees, saved=saved, about_outcomes=belief)
            before = live.status()
            reader.taken = None if follow else live.knows
            page = None if report is None else ForecastReport(report, live, roles, source.name)
            if follow:
                tally = Follower(live, reader, file, out, state, run, page, stopping).run(ticks)
            else:
                tally = run_stream(live, reader, out, run, stopping, report=page, state=state)
        tally.stopped = not follow and (tally.stopped or (file == "-" and stopping()))
        verdict = _finished(run, live, page, tally, out, None if follow else state, state)
        tally.times.say(run)
        reader.say_skipped(run)
        run.say_unmatched(value)
        facts = _facts(live, source.name, roles, tally, unused, written)
        _show(run, facts, live, before, tally, details=details)
        fresh = not (follow or before.forecasts or trees or tally.stopped) and file != "-"
        if fresh and (more := _repair(live, roles, tally)) is not None:
            with text.open(file, until) as again:
                value = options.positive_in(target, positive, again)
                rows = StreamReader(again, roles, skip=skip, positive=value, jobs=threads)
                ways = [open_live(roles, None, seed, about_outcomes=own) for own in (belief, belief | more)]
                _say_both_ways(run, rows, ways, more, stopping)
        _end(run, facts, verdict, _kept(reader, tally, out, state) if tally.stopped else None)
    if tally.stopped:
        raise typer.Exit(STOPPED)


def _leave_out(reader: StreamReader) -> dict[str, str]:
    """Leave out columns that cannot be features, and return the reason for each."""
    unused = unused_columns(reader.peek().features, reader.roles.chosen(), is_whole=False)
    reader.leave_out([*unused])
    return unused


def _show(run: Run, facts: Facts, live: Live, before: Status, tally: RunningScores, *, details: bool) -> None:
    """Print what was forecast, the scores, and the state of models and values."""
    facts.details = _details(live, tally) if details else ()
    facts.tell(run)
    show_summary(run, live.status(), before, tally)
    _say_status(run, live)


def _end(run: Run, facts: Facts, verdict: str | None, kept: str | None) -> None:
    """Print the report's verdict, the files, and what an interrupted run has kept."""
    if verdict is not None:
        run.say(verdict)
    facts.end(run)
    if kept is not None:
        run.say(kept, "yellow")


def _require_time(time: str | None, dependent: Mapping[str, Any]) -> None:
    """Raise InputError if an option that depends on --time is given without it."""
    for option, given in dependent.items():
        if given and not time:
            raise InputError(f"{option}: given without --time, expected both")


def _finished(
    run: Run, live: Live, page: ForecastReport | None, tally: RunningScores, out: str | None, save: Path | None,
    state: Path | None,
) -> str | None:  # fmt: skip
    """Save the state to `save`, write the report, and return its verdict."""
    run.kept = f"{out} is written, the rest is not" if out else run.kept
    if save is not None:
        save_live(live, save)
    if state is not None:
        run.kept = f"{f'{out} and ' if out else ''}{state} written, the report is not"
    return page.write() if page is not None and not tally.stopped else None


def _facts(
    live: Live, name: str, roles: Roles, tally: RunningScores, unused: dict[str, str], written: Mapping[str, Any]
) -> Facts:
    """Return what was forecast, how well, and where it is."""
    return Facts(
        "forecast", name, tally.rows,
        base_rate=tally.gaps.base_rate if tally.labelled else None, columns=columns_used(roles, tally.types),
        left_out=unused | {name: "--drop" for name in roles.drop if name not in unused},
        scores=tally.scored(), groups=tally.gaps.largest_first(), small=tally.gaps.small(), seconds=tally.seconds,
        written={NAMED[option]: str(path) for option, path in written.items() if path and option in NAMED},
        scored_on=_scored_on(live.status(), tally), next=_next(live.status(), roles, written),
    )  # fmt: skip


def _say_status(run: Run, live: Live) -> None:
    """Print the fits of models, and what is unusual about values."""
    for name, model in live.models.items():
        run.say(f"{name}: {model.status().fits} fits, the last on {model.status().rows:,} rows, "
                f"{model.status().seconds:,.1f} s in all")  # fmt: skip
    for warning in live.status().warnings:
        run.say(warning, "yellow")


def in_options(sentence: str) -> str:
    """Return a sentence with settings of `Live` as the options they are here.

    Examples
    --------
    >>> in_options('Name matures= and silence=0, or unseen="fair".')
    'Name --matures and --silence 0, or --unseen fair.'
    """
    return re.sub(r'\b(matures|silence|unseen)=(?:"?(\w+)"?)?', lambda m: f"--{m[1]} {m[2] or ''}".rstrip(), sentence)


def _repair(live: Live, roles: Roles, tally: RunningScores) -> dict[str, Any] | None:
    """Return the window, and the meaning of silence, that a file with selected outcomes calls for; None otherwise.

    The window is the longest delay in the file, which is known in hindsight only. Silence is the outcome that is never
    reported, if there is one.
    """
    status = live.status()
    if roles.matures or live.settings["matures"] is not None or not tally.longest or not status.is_selected():
        return None
    silence = {} if 0 < status.ones < status.labels else {"silence": 0 if status.ones else 1}
    return {"matures": tally.longest, **silence}


def _say_both_ways(
    run: Run, reader: StreamReader, ways: Sequence[Live], repair: Mapping[str, Any], stopping: Callable[[], bool]
) -> None:
    """Forecast a file as its outcomes come and with a window, score both on the same rows, and print the figures."""
    tallies = [RunningScores.of(live, reader.roles) for live in ways]
    for tally in tallies:
        tally.windows = OutcomeWindows(repair["matures"], repair.get("silence"))
    pieces = Pieces(reader, stopping)
    while (piece := pieces.next()) is not None:
        for live, tally in zip(ways, tallies, strict=True):
            tally.add(traced(live, piece.stream), piece.stream, piece.read)
    for tally in tallies:
        tally.finish()
    if pieces.stopped or not tallies[0].labelled:
        return
    given = " ".join(f"--{name} {np.format_float_positional(value, trim='-')}" for name, value in repair.items())
    scored_on = "whose window has ended" if "silence" in repair else "with an outcome"
    table = Table(title=f"mean forecasts both ways, {tallies[0].labelled:,} rows {scored_on}")
    for heading in ("outcomes learned", "Brier", LOG_LOSS):
        table.add_column(heading, justify="left" if heading == "outcomes learned" else "right")
    for title, tally in zip(("as they come", f"with {given}"), tallies, strict=True):
        table.add_row(title, f"{tally.brier()[1]:.5f}", f"{tally.log_loss()[1]:.5f}")
    run.console.print(table)
    run.say("That window is the longest delay in the file, which is known in hindsight only.")


def _kept(reader: StreamReader, tally: RunningScores, out: str | None, state: Path | None) -> str:
    """Print what an interrupted run has written, and how to continue."""
    more = "" if reader.total is None or reader.total <= tally.last else f" of {reader.total:,}"
    text = f"swapcal forecast: stopped after row {tally.last:,}{more}"
    kept = [f"{out} has the forecasts so far"] if out else []
    kept += [f"{state} the state; go on with a file of the rows after row {tally.last:,}"] if state else []
    return f"{text}; {', '.join(kept) or 'nothing was written'}"


def show_summary(run: Run, status: Status, before: Status, tally: RunningScores) -> None:
    """Print how many outcomes were learned, in this run and in all."""
    if not tally.rows:
        say_labels(run, status)
        return
    if before.forecasts:
        run.say(
            f"this run: {tally.rows:,} forecasts, {status.labels - before.labels:,} outcomes learned; with all before:"
        )
    say_labels(run, status)


def _scored_on(status: Status, tally: RunningScores) -> str:
    if not tally.labelled:
        return ""
    ended = f"; the {tally.labelled:,} rows whose window has ended, no report as silence" if status.silent else ""
    return f"each row was forecast before its outcome was learned{ended}"


def _next(status: Status, roles: Roles, written: Mapping[str, Any]) -> str:
    """Return the command that a user is likely to want next."""
    out, report, state = (written[option] for option in ("--out", "--report", "--state"))
    if state is not None and roles.id is not None and status.open:
        return f"swapcal label {quote(str(state))} OUTCOMES --target {quote(roles.target)} --id {quote(roles.id)}"
    if report is None:
        return "the same with --report report.html, for an audit of these forecasts by group"
    if out is None or out == "-":
        return "the same with --out forecasts.csv, to keep the forecasts"
    named = quote(",".join(roles.groups))
    groups, lacking = f" --groups {named}" if roles.groups else "", {*roles.groups} - {*roles.shown()}
    again, time = f"the same with --keep {named}, then " if lacking else "", f" --time {quote(roles.time or '')}"
    return (
        f"{again}swapcal monitor {quote(out)} --prob mean --target {quote(roles.target)}"
        f"{time if roles.time else ''}{groups}"
    )


def _details(live: Live, tally: RunningScores) -> list[str]:
    speed = f"{tally.rows / max(tally.seconds, 1e-9):,.0f} rows/s"
    return [speed, *(str(live.certificate()).splitlines() if live.status().labels else ())]


def say_labels(run: Run, status: Status) -> None:
    """Print the number of outcomes, and what is unusual about them."""
    run.say(labels_in_words(status))
    for score in status.scores if status.labels else ():
        run.say(score.sentence)
    for sentence in status.sentences():
        run.say(in_options(sentence), "yellow")


def labels_in_words(status: Status) -> str:
    """Return the number of outcomes and their mean delay, as text."""
    wait = "" if math.isnan(status.mean_wait) else f", mean wait {status.mean_wait:,.6g}"
    late = f"; {status.mean_delay:,.1f} forecasts late on average{wait}" if status.mean_delay > 0.0 else ""
    held = f", {status.held:,} of them held until they mature" if status.held else ""
    silent = f"; {status.silent:,} as silence, {status.corrections:,} corrections" if status.silent else ""
    return f"outcomes: {status.labels:,} of {status.forecasts:,} learned ({status.open:,} open{held}){late}{silent}"


class NamelessError(InputError):
    """A row without an id."""


REASONS = {
    ExpiredIdError: "whose forecast has expired",
    UnknownIdError: "of no forecast",
    ConflictingLabelError: "labelled otherwise before",
    NamelessError: "without an id",
}
NO_OUTCOME = "with something else than an outcome"
WHOLE = re.compile(r"-?\d{1,76}")  # numbers of this length fit into an id


@options.reads_text
def label(
    state: Annotated[
        Path, typer.Argument(help="State saved by `swapcal forecast --state` or `Live.save`.", metavar="STATE")
    ],
    file: options.File,
    text: options.DatedText,
    printing: options.Printing,
    target: options.Target,
    id: Annotated[str, typer.Option(help="Column with the ids of the forecasts.")],
    time: Annotated[str | None, typer.Option(help="Column with the time at which each outcome became known.")] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            help="Column of weights: one over the known probability with which an outcome was obtained, where only "
            "a part was chosen."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Then learn as silence what was not reported in a window that ended before this time."),
    ] = None,
    on_bad_row: options.BadRow = OnBadRow.stop,
    positive: options.Positive = None,
) -> None:
    """Learn outcomes of earlier forecasts, by id, at any later time; the state file is replaced when all are learned.

    Rows without an outcome stay open. Repeated outcomes are ignored, so the same file may be given again. Windows and
    the meaning of silence are those of the state (`swapcal forecast --matures --silence`): an outcome that comes later
    and differs from silence is a correction, which is counted and not learned.
    Exit code 0 on success, 2 on bad input, with the state unchanged.
    """
    with running("label", printing) as run, text.open(file) as source:
        protect([state, file], {"--json": printing.json_file})
        if not state.exists():
            raise InputError(f"{state}: given no such state, expected one made by `swapcal forecast --state`")
        with holding(state, "its labels"):
            live, counts = load_live(state), Counter[str]()
            positive_value = options.positive_in(target, positive, source)
            wanted = dict.fromkeys([id, target], ReadAs.raw) | ({time: ReadAs.time} if time else {})
            for piece in source.pieces(wanted | ({weight: ReadAs.number} if weight else {})):
                y = _outcomes(piece, target, positive_value, source.dialect.decimal, on_bad_row)
                times = piece.table[time].to_pylist() if time else [None] * len(y)
                weights = floats(piece.table[weight]).tolist() if weight else [None] * len(y)
                _learn(live, piece, piece.table[id].to_pylist(), y, times, weights, on_bad_row, counts)
            if until is not None:
                live.settle(number_or_text(until))
            save_live(live, state)
        status = live.status()
        run.write(json.dumps({"command": "label", "rows": dict(counts), "learned": status.labels, "open": status.open}))
        _say(run, counts)
        say_labels(run, status)
        run.say_unmatched(positive_value)
        run.say(f"state: {state}")


def _outcomes(piece: Piece, target: str, positive: Positive | None, decimal: str, on_bad_row: OnBadRow) -> list[float]:
    """Return outcomes, NaN if missing; other values raise InputError, or become infinite if bad rows are skipped."""
    column = piece.table[target]
    if on_bad_row is OnBadRow.stop:
        y = checked_outcomes(column, target, piece.first, positive, decimal)
    else:
        y, wrong = outcomes(column, positive, decimal)
        y = np.where(wrong, np.inf, y)
    listed: list[float] = y.tolist()
    return listed


def _learn(
    live: Live,
    piece: Piece,
    ids: list[Any],
    y: list[float],
    times: list[Any],
    weights: list[Any],
    on_bad_row: OnBadRow,
    counts: Counter[str],
) -> None:
    for row, (given, value, when, weight) in enumerate(zip(ids, y, times, weights, strict=True), piece.first):
        if not math.isfinite(value):
            counts["without an outcome" if math.isnan(value) else NO_OUTCOME] += 1
            continue
        try:
            counts[live.label_many([_named(live, given)], [value], time=when, weight=weight)[0]] += 1
        except (TypeError, ValueError) as error:
            reason = next((words for kind, words in REASONS.items() if isinstance(error, kind)), None)
            if on_bad_row is OnBadRow.stop or reason is None:
                raise InputError(f"row {row}: {str(error).removeprefix('row 1: ')}") from None
            counts[reason] += 1


def _named(live: Live, given: Any) -> Id:
    """Return an id as the forecast has it: "17" in a file may be the number or the text."""
    if given is None:
        raise NamelessError("id: given nothing, expected the id of a forecast")
    for name in (given, str(given), *([int(given)] if WHOLE.fullmatch(str(given).strip()) else [])):
        if isinstance(name, int | str) and live.knows(name):
            return name
    return given if isinstance(given, int | str) else str(given)


def _say(run: Run, counts: Counter[str]) -> None:
    left_out = (*REASONS.values(), NO_OUTCOME)
    for reason in ("learned", "held", "repeated", "corrected", "without an outcome", *left_out):
        if counts[reason]:
            run.say(f"{counts[reason]:,} {reason}", "yellow" if reason in left_out else None)
