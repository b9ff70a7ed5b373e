"""`swapcal forecast`: a file of records in, a calibrated forecast per row out, learned as it goes."""

import json
import math
import time as clock
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from numpy.typing import NDArray
from rich.table import Table

from swapcal.archive import ArchiveError, put_text
from swapcal.arrays import Array
from swapcal.cli import STOPPED, options
from swapcal.cli.options import OnBadRow, listed, scored
from swapcal.cli.progress import bar
from swapcal.cli.running import Run, running, stoppable
from swapcal.cli.stream_table import Roles, StreamTable, read_stream
from swapcal.features import Encoded
from swapcal.kernels.logloss import log_losses
from swapcal.live import Live, Refit, Status, Trace
from swapcal.report import render
from swapcal.tables.dialect import InputError
from swapcal.tables.output import protect, table_writer
from swapcal.tables.source import open_source

PIECE = 16_384
CHECKPOINT = 60.0  # seconds after which a state is saved again
TREES = "trees"
GROUPS_SHOWN = 40  # a column with more categories is no natural grouping


def forecast(
    file: options.File,
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
    on_bad_row: options.BadRow = OnBadRow.stop,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    positive: options.Positive = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = "utf-8",
    dates: options.Dates = options.Order.iso,
) -> None:
    """Forecast each row, then learn its outcome, in the order of the file.

    Writes for each row the issued probability p, the mean forecast, and the two levels it was drawn from. With
    --time and --label-time a label is learned only once it is known; with --matures, where some labels are known
    earlier than others could be, not before that time either. Ctrl-C keeps the forecasts made so far and a state to go
    on from; the state is also saved every minute. Labels that come later are learned by `swapcal label`. Rows in
    messages count from 1, without the header. Exit code 0 on success, 2 on bad input.
    """
    with running("forecast") as run, open_source(file, options.dialect(delimiter, decimal, encoding, dates)) as source:
        protect([file], {"--out": out, "--report": report, "--state": state}, tables=["--out"])
        for option, given in (("--label-time", label_time), ("--matures", matures)):
            if given and not time:
                raise InputError(f"{option} needs --time")
        roles = Roles(
            target, time, id, label_time, matures, scored(score, source.columns),
            *(tuple(listed(names, source.columns)) for names in (groups, numeric, categorical, drop)),
        )  # fmt: skip
        live = open_live(roles, state, seed, trees=trees)
        before = live.status()
        stream = read_stream(source, roles, skip=on_bad_row is OnBadRow.skip, positive=positive)
        tally = run_stream(live, stream, out, run, keep=report is not None, state=state)
        run.kept = f"{out} is written, the rest is not" if out else run.kept
        if state is not None:
            save_live(live, state)
            run.kept = f"{f'{out} and ' if out else ''}{state} written, the report is not"
        stopped = tally.rows < len(stream.y)
        if report is not None and not stopped:
            write_report(report, live, stream, tally, roles, source.name)
        show_summary(run, live.status(), before, stream, tally)
        for name, model in live.models.items():
            run.say(f"{name}: {model.status().fits} fits, the last on {model.status().rows:,} rows, "
                    f"{model.status().seconds:,.1f} s in all")  # fmt: skip
        if stopped:
            run.say(_kept(stream, tally, out, state), "yellow")
    if stopped:
        raise typer.Exit(STOPPED)


@dataclass
class RunningScores:
    """Sums over the labelled rows so far, and what a report needs."""

    names: tuple[str, ...]
    rows: int = 0
    labelled: int = 0
    squares: Array = field(default_factory=lambda: np.zeros(0))
    logs: Array = field(default_factory=lambda: np.zeros(0))
    seconds: float = 0.0
    kept: list[tuple[Array, Array]] = field(default_factory=list)

    def add(self, trace: Trace, y: Array, *, keep: bool) -> None:
        """Add one piece: issued, mean, then every expert."""
        p = np.column_stack([trace.forecast.p, trace.forecast.mean, trace.experts])
        known = ~np.isnan(y)
        squares, logs = losses(p[known], y[known])
        self.squares = squares if not self.rows else self.squares + squares
        self.logs = logs if not self.rows else self.logs + logs
        self.rows += len(y)
        self.labelled += int(known.sum())
        if keep:
            made = trace.forecast
            self.kept.append((np.column_stack([made.p, made.low, made.high, made.weight]), trace.x))

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
        raise ArchiveError(f"{state}: saved {'without' if trees else 'with'} --trees, expected the same now")
    ours, theirs = (json.loads(json.dumps(each.settings)) for each in (fresh, live))
    for name in ours:
        if ours[name] != theirs.get(name):
            raise ArchiveError(f"{state}: saved with {name} = {theirs.get(name)}, but now {name} = {ours[name]}")
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
    live: Live, stream: StreamTable, out: str | None, run: Run, *, keep: bool, state: Path | None = None
) -> RunningScores:
    """Forecast and learn piece by piece, writing as it goes and saving the state every minute, until the end or Ctrl-C.

    A run that continues a state goes on counting rows.
    """
    tally, start = RunningScores(("issued", "mean", *live.experts)), clock.perf_counter()
    earlier, saved = live.status().forecasts, Checkpoint(state)
    with bar(run.console, "forecasting") as shown, table_writer(out) as write, stoppable() as stopping:
        for first, encoded, pause in _encoded_ahead(live, stream, stopping, saved.is_due):
            cut = slice(first, first + PIECE)
            trace = live.trace(
                encoded, stream.y[cut], ids=None if stream.ids is None else stream.ids[cut],
                time=stream.moments("time", cut), label_time=stream.moments("label_time", cut),
                matures=stream.moments("matures", cut),
            )  # fmt: skip
            tally.add(trace, stream.y[cut], keep=keep)
            write(_rows(stream, trace, cut, earlier))
            if pause:
                saved.save(live)
            tally.seconds = clock.perf_counter() - start
            shown.to(tally.rows, tally.rows / len(stream.y), f"Brier {tally.brier()[1]:.4f}")
    return tally


class Checkpoint:
    """A state that is saved now and then, so that a crash loses a minute."""

    def __init__(self, state: Path | None) -> None:
        self._state = state
        self._since = clock.monotonic()

    def is_due(self) -> bool:
        """Tell whether it is time to save."""
        return self._state is not None and clock.monotonic() - self._since >= CHECKPOINT

    def save(self, live: Live) -> None:
        """Save the state; the next time counts from now."""
        assert self._state is not None, "only then is it ever due"
        save_live(live, self._state)
        self._since = clock.monotonic()


def _encoded_ahead(
    live: Live, stream: StreamTable, stopping: Callable[[], bool], due: Callable[[], bool]
) -> Iterator[tuple[int, Any, bool]]:
    """Encode each piece while the one before it is being learned: encoding needs no labels, and kernels no lock.

    Encoding learns the scales of features, so a piece once encoded is always forecast: else a state saved after a stop
    would know rows it never forecast. Where a state is to be saved, as the third value says, nothing is encoded ahead.
    """
    if live.models:  # which see the records themselves
        for first in range(0, len(stream.y), PIECE):
            if first and stopping():
                return
            yield first, stream.features.slice(first, PIECE), due()
        return
    with ThreadPoolExecutor(1) as pool:
        ahead: Future[Encoded] | None = pool.submit(live.contexts.encode, stream.features.slice(0, PIECE))
        for first in range(0, len(stream.y), PIECE):
            if ahead is None:
                return
            encoded, rest, pause = ahead.result(), stream.features.slice(first + PIECE, PIECE), due()
            more = len(rest) and not stopping()
            ahead = pool.submit(live.contexts.encode, rest) if more and not pause else None
            yield first, encoded, pause
            if pause and more and not stopping():
                ahead = pool.submit(live.contexts.encode, rest)


def _rows(stream: StreamTable, trace: Trace, cut: slice, earlier: int) -> pa.Table:
    shown = {name: column.slice(cut.start, len(trace)) for name, column in stream.shown.items()}
    made = {name: getattr(trace.forecast, name) for name in ("p", "mean", "low", "high", "weight")}
    numbers = {"row": earlier + stream.rows[cut]}
    return pa.table({**numbers, **shown, **{name: np.ascontiguousarray(v) for name, v in made.items()}})


def _kept(stream: StreamTable, tally: RunningScores, out: str | None, state: Path | None) -> str:
    """Say what an interrupted run leaves behind, and how to go on."""
    last = int(stream.rows[tally.rows - 1]) if tally.rows else 0
    text = f"swapcal forecast: stopped after row {last:,} of {int(stream.rows[-1]):,}"
    kept = [f"{out} has the forecasts so far"] if out else []
    kept += [f"{state} the state; go on with a file of the rows after row {last:,}"] if state else []
    return f"{text}; {', '.join(kept) or 'nothing was written'}"


def write_report(path: Path, live: Live, stream: StreamTable, tally: RunningScores, roles: Roles, file: str) -> None:
    """Audit the issued forecasts over every coordinate and group, and render the findings."""
    from swapcal.audit import Audit  # half the time of importing this command, and only reports need it

    known = ~np.isnan(stream.y)
    if not known.any():
        raise InputError(f"{path}: a report needs labels, and {file} has none")
    issued, x = (_stacked([each[part] for each in tally.kept])[known] for part in (0, 1))
    p, low, high, weight = issued.T
    audit = Audit(
        p, stream.y[known], x, groups=_group_columns(live, stream, roles, known), low=low, high=high, weight=weight,
        time=_times(stream, roles, known), names=live.names,
        title=f"Forecasts of {roles.target} in {Path(file).name}",
    )  # fmt: skip
    put_text(path, render(audit.to_dict(certificate=live.certificate().as_dict())))


def _times(stream: StreamTable, roles: Roles, known: NDArray[np.bool_]) -> Any:
    """Return the times as they were given: numbers as numbers, dates as dates rather than seconds since 1970."""
    if stream.time is None or roles.time is None:
        return None
    times, given = stream.time[known], stream.shown[roles.time].type
    numbers = pa.types.is_integer(given) or pa.types.is_floating(given)
    return times if numbers else np.round(times * 1e6).astype("datetime64[us]")


def _stacked(parts: list[Array]) -> Array:
    """Stack pieces whose later ones may have more coordinates."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])


def _group_columns(live: Live, stream: StreamTable, roles: Roles, known: NDArray[np.bool_]) -> dict[str, Any] | None:
    """Return the declared groups, or else every categorical column with few categories."""
    names = roles.groups or [
        name for name in live.contexts.categorical if len(pc.unique(stream.features[name])) <= GROUPS_SHOWN
    ]
    keep = pa.array(known)
    groups = {name: stream.features[name].filter(keep).cast(pa.string()).to_pylist() for name in names}
    return groups or None


def show_summary(run: Run, status: Status, before: Status, stream: StreamTable, tally: RunningScores) -> None:
    """Print what was done, how good it was, and what was left out."""
    brier, logs = tally.brier(), tally.log_loss()
    best = 2 + int(np.argmin(brier[3:])) + 1
    table = Table(title=f"{tally.rows:,} rows, {tally.rows / max(tally.seconds, 1e-9):,.0f} rows/s")
    for heading in ("forecast", "Brier", "log loss"):
        table.add_column(heading, justify="left" if heading == "forecast" else "right")
    for name, k in (("issued p", 0), ("mean", 1), (f"best single expert ({tally.names[best]})", best)):
        table.add_row(name, f"{brier[k]:.5f}", f"{logs[k]:.5f}")
    if tally.labelled:
        run.console.print(table)
    if before.forecasts:
        run.say(
            f"this run: {tally.rows:,} forecasts, {status.labels - before.labels:,} outcomes learned; with all before:"
        )
    run.say(labels_in_words(status))
    stream.say_skipped(run)


def labels_in_words(status: Status) -> str:
    """Return how many outcomes came, and how late."""
    wait = "" if math.isnan(status.mean_wait) else f", mean wait {status.mean_wait:,.6g}"
    late = f"{status.mean_delay:,.1f} forecasts late on average{wait}" if status.labels else "none yet"
    held = f", {status.held:,} of them held until they mature" if status.held else ""
    return f"outcomes: {status.labels:,} of {status.forecasts:,} learned ({status.open:,} open{held}); {late}"
