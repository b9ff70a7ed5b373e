"""`swapcal forecast`: a file of records in, a calibrated forecast per row out, learned as it goes."""

import json
import math
import os
import re
import shutil
import time as clock
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pyarrow as pa
import typer
from rich.markup import escape
from rich.table import Table
from scipy.special import expit

from swapcal.archive import ArchiveError
from swapcal.arrays import Array, Integers
from swapcal.cli import STOPPED, options
from swapcal.cli.forecast_report import ForecastReport
from swapcal.cli.options import OnBadRow, listed, scored
from swapcal.cli.place import holding
from swapcal.cli.progress import bar
from swapcal.cli.running import Run, running, stoppable
from swapcal.cli.stream_table import Roles, StreamReader, StreamTable
from swapcal.features import Encoded
from swapcal.kernels.logloss import log_losses
from swapcal.live import Live, Refit, Status, Trace
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import floats
from swapcal.tables.output import protect, table_writer

PIECE = 16_384
CHECKPOINT = 60.0  # seconds after which a state is saved again
TREES = "trees"


@options.reads_text
def forecast(
    file: options.File,
    text: options.DatedText,
    target: options.Target,
    time: Annotated[str | None, typer.Option(help="Column with the time of each forecast; must not go back.")] = None,
    id: Annotated[
        str | None, typer.Option(help="Column that names each row, for outcomes that come later (swapcal label).")
    ] = None,
    label_time: Annotated[str | None, typer.Option(help="Column with the time each outcome became known.")] = None,
    matures: Annotated[
        str | None, typer.Option(help="Column with the time by which each outcome would be known whatever it is.")
    ] = None,
    groups: options.Groups = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="Columns with models' probabilities (name:logit for logits), comma-separated; repeatable."),
    ] = None,
    drop: options.Drop = None,
    numeric: options.Numeric = None,
    categorical: options.Categorical = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="CSV, TSV, JSONL (also .gz) or Parquet of the forecasts; - CSV.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report of the forecasts' calibration.")] = None,
    state: Annotated[Path | None, typer.Option(help="Continue from this file if it exists; save to it.")] = None,
    trees: Annotated[
        bool, typer.Option("--trees", help="Boosted trees among the experts, fitted anew as outcomes come; slower.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as the file, or standard input, grows, until Ctrl-C or SIGTERM.")
    ] = False,
    jobs: options.Jobs = None,
    on_bad_row: options.BadRow = OnBadRow.stop,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    positive: options.Positive = None,
) -> None:
    """Forecast each row, then learn its outcome, in the order of the file.

    Writes for each row the issued probability p, the mean forecast, and the two levels it was drawn from. With
    --time and --label-time a label is learned only once it is known; with --matures, where some labels are known
    earlier than others could be, not before that time either. Ctrl-C keeps the forecasts made so far and a state to go
    on from; the state is also saved every minute. Labels that come later are learned by `swapcal label`.

    The file is read in pieces and may be larger than memory; what a column holds is seen from the first 64 MiB.
    --follow writes each forecast as its line comes, in CSV, TSV or JSONL; with --id, a row that repeats the id of a
    forecast still without a label, and has an outcome, is that label. Started again with the same --state and file, it
    goes on after the last row. Rows in messages count from 1, without the header. Exit code 0 on success, 2 on bad
    input.
    """
    ticks: list[Callable[[], object]] = []

    def until() -> bool:
        for tick in ticks:
            tick()
        return stopping()

    with (
        running("forecast") as run,
        stoppable() as stopping,
        text.open(file, until, follow=follow) as source,
    ):
        protect([file], {"--out": out, "--report": report, "--state": state}, tables=["--out"])
        for option, given in (("--label-time", label_time), ("--matures", matures)):
            if given and not time:
                raise InputError(f"{option}: given without --time, expected both")
        roles = Roles(
            target, time, id, label_time, matures, scored(score, source.columns),
            *(tuple(listed(names, source.columns)) for names in (groups, numeric, categorical, drop)),
        )  # fmt: skip
        skip, threads = on_bad_row is OnBadRow.skip, 1 if follow else options.threads(jobs)
        with holding(state if follow else None, "this one"):
            live = open_live(roles, state, seed, trees=trees)
            before = live.status()
            reader = StreamReader(source, roles, skip=skip, positive=positive, jobs=threads)
            page = None if report is None else ForecastReport(report, live, roles, source.name)
            if follow:
                from swapcal.cli.follow import Follower

                tally = Follower(live, reader, file, out, state, run, page, stopping).run(ticks)
            else:
                tally = run_stream(live, reader, out, run, stopping, report=page, state=state)
        tally.stopped = not follow and (tally.stopped or (file == "-" and stopping()))
        run.kept = f"{out} is written, the rest is not" if out else run.kept
        if state is not None:
            if not follow:
                save_live(live, state)
            run.kept = f"{f'{out} and ' if out else ''}{state} written, the report is not"
        if page is not None and not tally.stopped:
            page.write()
        show_summary(run, live.status(), before, reader, tally)
        for name, model in live.models.items():
            run.say(f"{name}: {model.status().fits} fits, the last on {model.status().rows:,} rows, "
                    f"{model.status().seconds:,.1f} s in all")  # fmt: skip
        if tally.stopped:
            run.say(_kept(reader, tally, out, state), "yellow")
    if tally.stopped:
        raise typer.Exit(STOPPED)


@dataclass
class RunningScores:
    """Sums over the labelled rows so far, and what a report needs."""

    scores: Mapping[str, str]
    """the user's own scores, and whether they are probabilities or logits"""
    experts: tuple[str, ...]
    rows: int = 0
    labelled: int = 0
    squares: Array = field(default_factory=lambda: np.zeros(0))
    logs: Array = field(default_factory=lambda: np.zeros(0))
    seconds: float = 0.0
    last: int = 0
    """number of the last row in the file"""
    stopped: bool = False
    """whether there were more"""

    @property
    def names(self) -> tuple[str, ...]:
        """What is scored, in order."""
        given = (f"{name}, as given" for name in self.scores)
        return ("issued p", "mean", *given, *(f"best single expert ({name})" for name in self.experts))

    def add(self, trace: Trace, stream: StreamTable) -> None:
        """Add one piece: issued, mean, the scores as given, then every expert."""
        own = [floats(stream.features[name]) for name in self.scores]
        given = [expit(x) if kind == "logit" else x for x, kind in zip(own, self.scores.values(), strict=True)]
        p = np.column_stack([trace.forecast.p, trace.forecast.mean, *given, trace.experts])
        y = stream.y
        known = ~np.isnan(y)
        squares, logs = losses(p[known], y[known])
        self.squares = squares if not self.rows else self.squares + squares
        self.logs = logs if not self.rows else self.logs + logs
        self.rows += len(y)
        self.labelled += int(known.sum())

    def brier(self) -> Array:
        """Mean squared errors."""
        return self.squares / max(self.labelled, 1)

    def log_loss(self) -> Array:
        """Mean logarithmic losses."""
        return self.logs / max(self.labelled, 1)


def losses(p: Array, y: Array) -> tuple[Array, Array]:
    """Return the summed squared and logarithmic losses of each column of p."""
    logs = np.array([log_losses(np.ascontiguousarray(column), y).sum() for column in p.T])
    return ((p - y[:, None]) ** 2).sum(axis=0), logs


def open_live(roles: Roles, state: Path | None, seed: int, *, trees: bool = False) -> Live:
    """Return a new `Live`, or the one saved at `state` if its settings are these."""
    fresh = Live(
        groups=roles.groups,
        scores=roles.scores,
        numeric=roles.numeric,
        categorical=roles.categorical,
        drop=[*dict.fromkeys([*roles.special(), *roles.drop])],
        models={TREES: Refit(boosted_trees())} if trees else None,
        seed=seed,
    )
    if state is None or not state.exists():
        return fresh
    live = load_live(state)
    if trees != (TREES in live.models):
        raise ArchiveError(
            f"{state}: given a state saved {'without' if trees else 'with'} --trees, expected the same now"
        )
    ours, theirs = (json.loads(json.dumps(each.settings)) for each in (fresh, live))
    for name in ours:
        if ours[name] != theirs.get(name):
            raise ArchiveError(
                f"{state}: given a state with {name} = {theirs.get(name)}, expected {name} = {ours[name]}"
            )
    return live


def load_live(state: Path) -> Live:
    """Return what `save_live` saved; trees that know more labels than the state would know the future."""
    kept = beside(state)
    models = {TREES: Refit.load(kept, boosted_trees())} if kept.exists() else None
    live = Live.load(state, models)
    if models is not None and models[TREES].labels > live.status().labels:
        given = f"given {models[TREES].labels:,} labels beside a state with {live.status().labels:,}"
        raise ArchiveError(f"{kept}: {given}, expected the file that was saved with the state")
    return live


def save_live(live: Live, state: Path) -> None:
    """Save a state and beside it what its trees were fitted on.

    The first time the trees go first, because a state with trees cannot be read without them; later the state does:
    after a crash between the two the trees lack a few rows, and never know more than the state.
    """
    if live.models and not beside(state).exists():
        live.models[TREES].save(beside(state))
    live.save(state)
    if live.models:
        live.models[TREES].save(beside(state))


def beside(state: Path) -> Path:
    """Return where the trees of a state are."""
    return state.with_name(f"{state.name}.trees")


def boosted_trees() -> Any:
    """Return the classifier of --trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0)


def run_stream(
    live: Live,
    reader: StreamReader,
    out: str | None,
    run: Run,
    stopping: Callable[[], bool],
    *,
    report: ForecastReport | None = None,
    state: Path | None = None,
) -> RunningScores:
    """Forecast and learn piece by piece, writing as it goes and saving the state every minute, until the end or Ctrl-C.

    A run that continues a state goes on counting rows. What goes wrong leaves neither output nor another state.
    """
    tally, start = RunningScores(reader.roles.scores, live.experts), clock.perf_counter()
    earlier, pieces = live.status().forecasts, Pieces(reader, stopping)
    with (
        bar(run.console, "forecasting") as shown,
        Checkpoint(state) as saved,
        table_writer(out) as write,
    ):
        for piece, encoded, pause in _encoded_ahead(live, pieces, saved.is_due):
            trace = traced(live, piece.stream, encoded)
            tally.add(trace, piece.stream)
            if report is not None:
                report.add(piece.stream, trace, piece.read)
            write(output_rows(piece.stream, trace, earlier))
            if pause:
                saved.save(live)
            tally.seconds, tally.last = clock.perf_counter() - start, int(piece.stream.rows[-1])
            shown.to(tally.rows, reader.share, f"Brier {tally.brier()[1]:.4f}")
    tally.stopped = pieces.stopped
    return tally


def traced(live: Live, stream: StreamTable, encoded: Any = None) -> Trace:
    """Forecast and learn rows, encoded before or not; what is refused is named by its row in the file."""
    try:
        return live.trace(
            stream.features if encoded is None else encoded, stream.y, ids=stream.ids,
            time=stream.moments("time"), label_time=stream.moments("label_time"), matures=stream.moments("matures"),
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise _located(error, stream.rows) from None


def _located(error: Exception, rows: Integers) -> Exception:
    """Return an error about some rows in which they have the numbers they have in the file."""
    text = re.sub(r"\brow (\d+)\b", lambda found: f"row {rows[min(int(found[1]), len(rows)) - 1]}", str(error))
    return InputError(text)


@dataclass(frozen=True)
class StreamPiece:
    """Rows to forecast at once, and all rows that were read together with them."""

    stream: StreamTable
    read: StreamTable


class Pieces:
    """The rows of a reader, so many at a time, until a stop is asked for."""

    def __init__(self, reader: StreamReader, stopping: Callable[[], bool]) -> None:
        self.stopped = False
        self._stopping, self._rest = stopping, self._cut(reader)

    @staticmethod
    def _cut(reader: StreamReader) -> Iterator[StreamPiece]:
        for read in reader:
            for first in range(0, len(read.y), PIECE):
                yield StreamPiece(read.cut(first, min(first + PIECE, len(read.y))), read)

    def next(self) -> StreamPiece | None:
        """Return the next rows; None at the end, or where a stop was asked for."""
        found = None if self.stopped else next(self._rest, None)
        if found is not None and self._stopping():
            self.stopped, found = True, None
        return found


class Checkpoint:
    """A state that is saved now and then, so that a crash loses a minute; a run that fails leaves the old one."""

    def __init__(self, state: Path | None) -> None:
        self._state = state
        self._since = clock.monotonic()
        self._old: list[tuple[Path, Path | None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Let the old files take their places again if something went wrong; else they are not needed any more."""
        for path, old in self._old:
            if kind is not None and old is not None:
                os.replace(old, path)
            elif kind is not None:
                path.unlink(missing_ok=True)
            elif old is not None:
                old.unlink(missing_ok=True)

    def is_due(self) -> bool:
        """Tell whether it is time to save."""
        return self._state is not None and clock.monotonic() - self._since >= CHECKPOINT

    def save(self, live: Live) -> None:
        """Save the state; the next time counts from now."""
        assert self._state is not None, "only then is it ever due"
        if not self._old:
            self._old = [(path, _copied(path)) for path in (self._state, beside(self._state))]
        save_live(live, self._state)
        self._since = clock.monotonic()


def _copied(path: Path) -> Path | None:
    if not path.exists():
        return None
    return Path(shutil.copy2(path, path.with_name(f".{path.name}.before")))


def _encoded_ahead(live: Live, pieces: Pieces, due: Callable[[], bool]) -> Iterator[tuple[StreamPiece, Any, bool]]:
    """Encode each piece while the one before it is being learned: encoding needs no labels, and kernels no lock.

    Encoding learns the scales of features, so a piece once encoded is always forecast: else a state saved after a stop
    would know rows it never forecast. Where a state is to be saved, as the third value says, nothing is encoded ahead.
    """
    piece = pieces.next()
    if live.models:  # which see the records themselves
        while piece is not None:
            yield piece, None, due()
            piece = pieces.next()
        return
    with ThreadPoolExecutor(1) as pool:

        def begin(piece: StreamPiece | None) -> Future[Encoded] | None:
            return None if piece is None else pool.submit(live.contexts.encode, piece.stream.features)

        ahead = begin(piece)
        while piece is not None and ahead is not None:
            try:
                encoded, pause = ahead.result(), due()
            except (ValueError, TypeError) as error:
                raise _located(error, piece.stream.rows) from None
            rest = None if pause else pieces.next()
            ahead = begin(rest)
            yield piece, encoded, pause
            if pause:
                rest = pieces.next()
                ahead = begin(rest)
            piece = rest


def output_rows(stream: StreamTable, trace: Trace, earlier: int) -> pa.Table:
    """Return what is written for some rows."""
    made = {name: getattr(trace.forecast, name) for name in ("p", "mean", "low", "high", "weight")}
    numbers = {"row": earlier + stream.rows}
    return pa.table({**numbers, **stream.shown, **{name: np.ascontiguousarray(v) for name, v in made.items()}})


def _kept(reader: StreamReader, tally: RunningScores, out: str | None, state: Path | None) -> str:
    """Say what an interrupted run leaves behind, and how to go on."""
    more = "" if reader.total is None or reader.total <= tally.last else f" of {reader.total:,}"
    text = f"swapcal forecast: stopped after row {tally.last:,}{more}"
    kept = [f"{out} has the forecasts so far"] if out else []
    kept += [f"{state} the state; go on with a file of the rows after row {tally.last:,}"] if state else []
    return f"{text}; {', '.join(kept) or 'nothing was written'}"


def show_summary(run: Run, status: Status, before: Status, reader: StreamReader, tally: RunningScores) -> None:
    """Print what was done, how good it was, and what was left out."""
    if not tally.rows:
        run.say(labels_in_words(status))
        return
    brier, logs = tally.brier(), tally.log_loss()
    blend = 2 + len(tally.scores)
    best = blend + 1 + int(np.argmin(brier[blend + 1 :]))
    table = Table(title=f"{tally.rows:,} rows, {tally.rows / max(tally.seconds, 1e-9):,.0f} rows/s")
    for heading in ("forecast", "Brier", "log loss"):
        table.add_column(heading, justify="left" if heading == "forecast" else "right")
    for k in (*range(blend), best):
        always = np.isfinite(brier[k])
        figures = [f"{value:.5f}" if always else "not always given" for value in (brier[k], logs[k])]
        table.add_row(escape(tally.names[k]), *figures)
    if tally.labelled:
        run.console.print(table)
    if before.forecasts:
        run.say(
            f"this run: {tally.rows:,} forecasts, {status.labels - before.labels:,} outcomes learned; with all before:"
        )
    run.say(labels_in_words(status))
    reader.say_skipped(run)


def labels_in_words(status: Status) -> str:
    """Return how many outcomes came, and how late."""
    wait = "" if math.isnan(status.mean_wait) else f", mean wait {status.mean_wait:,.6g}"
    late = f"{status.mean_delay:,.1f} forecasts late on average{wait}" if status.labels else "none yet"
    held = f", {status.held:,} of them held until they mature" if status.held else ""
    return f"outcomes: {status.labels:,} of {status.forecasts:,} learned ({status.open:,} open{held}); {late}"
