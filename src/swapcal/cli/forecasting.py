"""A stream of rows forecast and learned piece by piece: its state, its report, its scores."""

import json
import os
import re
import shutil
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit

from swapcal.archive import ArchiveError, put_text, replacing
from swapcal.arrays import Array, Flags, Integers
from swapcal.cli.progress import ForecastScore, Run, bar
from swapcal.cli.rows import GroupGaps, HeldPiece, OutcomeTimes, OutcomeWindows, types_of
from swapcal.cli.stream_table import Roles, StreamReader, StreamTable
from swapcal.features import Encoded
from swapcal.kernels.tally import log_losses
from swapcal.live import ConflictingLabelError, Live, Refit, Trace
from swapcal.report import render
from swapcal.tables.outcomes import floats
from swapcal.tables.output import table_writer
from swapcal.tables.sources import InputError

# The state of `swapcal forecast`: new or continued, saved at intervals, with its trees in a second file.

CHECKPOINT = 60.0  # seconds after which a state is saved again
TREES = "trees"
ABOUT_OUTCOMES = ("matures", "silence", "prior", "unseen")
"""Settings of `Live` that are options of their own."""


def as_saved(given: Roles, live: Live) -> Roles:
    """Return the roles of columns with those that are not given taken from a saved state."""
    own = live.contexts.settings
    dropped = [name for name in own["drop"] if name not in given.special()]
    settings = {**own, "drop": dropped}
    named = {role: tuple(settings[role]) for role in ("groups", "numeric", "categorical", "drop")}
    missing: dict[str, Any] = {role: names for role, names in named.items() if not getattr(given, role)}
    if {*given.drop} <= {*dropped}:  # more was left out because of what it looked like
        missing["drop"] = tuple(dropped)
    return replace(given, **missing, scores=given.scores or dict(own["scores"]))


def open_live(
    roles: Roles,
    state: Path | None,
    seed: int | None,
    *,
    trees: bool = False,
    saved: Live | None = None,
    about_outcomes: Mapping[str, Any] | None = None,
) -> Live:
    """Return a new `Live`, or the saved one if its settings are these; what is not given is as in the saved one."""
    belief = dict(about_outcomes or {})
    if saved is not None:
        seed = saved.settings["seed"] if seed is None else seed
        trees = trees or TREES in saved.models
        belief = {name: saved.settings[name] for name in ABOUT_OUTCOMES} | belief
    fresh = Live(
        groups=roles.groups,
        scores=roles.scores,
        numeric=roles.numeric,
        categorical=roles.categorical,
        drop=[*dict.fromkeys([*roles.special(), *roles.drop])],
        models={TREES: Refit(boosted_trees())} if trees else None,
        seed=seed or 0,
        **belief,
    )
    if fresh.settings["silence"] is not None and roles.matures is None and fresh.settings["matures"] is None:
        raise InputError("--silence: given without --matures, expected both")
    if saved is None:
        return fresh
    if trees and TREES not in saved.models:
        raise ArchiveError(f"{state}: given a state saved without --trees, expected the same now")
    ours, theirs = (json.loads(json.dumps(each.settings)) for each in (fresh, saved))
    for name in ours:
        if ours[name] != theirs.get(name):
            raise ArchiveError(
                f"{state}: given a state with {name} = {theirs.get(name)}, expected {name} = {ours[name]}"
            )
    return saved


def load_live(state: Path) -> Live:
    """Return what `save_live` saved. Raises InputError for trees with more labels than the state."""
    kept = beside(state)
    models = {TREES: Refit.load(kept, boosted_trees())} if kept.exists() else None
    live = Live.load(state, models)
    if models is not None and models[TREES].labels > live.status().labels:
        given = f"given {models[TREES].labels:,} labels beside a state with {live.status().labels:,}"
        raise ArchiveError(f"{kept}: {given}, expected the file that was saved with the state")
    return live


def save_live(live: Live, state: Path) -> None:
    """Save a state, and the rows of its trees in a second file.

    The first time the trees are saved first, because a state with trees cannot be read without them; later the state:
    after a crash between the two the trees lack a few rows, but never have more than the state.
    """
    if live.models and not beside(state).exists():
        live.models[TREES].save(beside(state))
    live.save(state)
    if live.models:
        live.models[TREES].save(beside(state))


def beside(state: Path) -> Path:
    """Return the path of a state's trees."""
    return state.with_name(f"{state.name}.trees")


def boosted_trees() -> Any:
    """Return the classifier of --trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0)


class Checkpoint:
    """A state that is saved every minute, which bounds the loss in a crash; a failed run leaves the old one."""

    def __init__(self, state: Path | None) -> None:
        self._state = state
        self._since = clock.monotonic()
        self._old: list[tuple[Path, Path | None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Restore the old files after an error; otherwise delete them."""
        for path, old in self._old:
            if kind is not None and old is not None:
                os.replace(old, path)
            elif kind is not None:
                path.unlink(missing_ok=True)
            elif old is not None:
                old.unlink(missing_ok=True)

    def is_due(self) -> bool:
        """Return whether the state is due to be saved."""
        return self._state is not None and clock.monotonic() - self._since >= CHECKPOINT

    def save(self, live: Live) -> None:
        """Save the state and restart the interval."""
        assert self._state is not None, "only then is it ever due"
        if not self._old:
            self._old = [(path, _copied(path)) for path in (self._state, beside(self._state))]
        save_live(live, self._state)
        self._since = clock.monotonic()


def _copied(path: Path) -> Path | None:
    """Copy a file that may be needed again, to the disk: it would take the place of one that is there for certain."""
    if not path.exists():
        return None
    kept = path.with_name(f".{path.name}.before")
    with open(path, "rb") as old, replacing(kept) as new:
        shutil.copyfileobj(old, new)
    shutil.copymode(path, kept)
    return kept


# The report of `swapcal forecast`: an audit of the issued forecasts, in bounded memory.

GROUPS_SHOWN = 40  # a column with more categories is no natural grouping


class ForecastReport:
    """An audit of the issued forecasts over every coordinate and group; coordinates may appear at any time.

    Groups are those declared, or else the categorical columns with few categories in the first rows.
    """

    def __init__(self, path: Path, live: Live, roles: Roles, file: str) -> None:
        self._path, self._live, self._roles, self._file = path, live, roles, file
        self._groups: list[str] | None = None
        self._audit: Any = None

    def add(self, stream: StreamTable, trace: Trace, first: StreamTable) -> None:
        """Add forecasts of some rows, which were read together with `first`."""
        from swapcal.audit import Audit  # half the time of importing this command, and only reports need it

        if self._groups is None:
            few = (name for name in self._live.contexts.categorical if self._is_grouping(first.features[name]))
            self._groups = list(self._roles.groups or few)
        known = ~np.isnan(stream.y)
        if not known.any():
            return
        made = trace.forecast
        columns = {
            "p": made.p[known], "y": stream.y[known], "X": trace.x[known], "low": made.low[known],
            "high": made.high[known], "weight": made.weight[known], "time": self._times(stream, known),
            "groups": {name: _labels(stream.features[name], known) for name in self._groups} or None,
        }  # fmt: skip
        names = self._live.names[: trace.x.shape[1]]
        if self._audit is None:
            title = f"Forecasts of {self._roles.target} in {Path(self._file).name}"
            self._audit = Audit(**columns, names=names, title=title)
        else:
            self._audit.widen(names)
            self._audit.add(**columns)

    def write(self) -> str:
        """Render the findings; return the verdict on the issued levels in a sentence."""
        if self._audit is None:
            raise InputError(f"{self._path}: given {self._file} without labels, expected some to report on")
        findings = self._audit.to_findings(certificate=self._live.certificate().as_dict())
        status = self._live.status()
        findings = findings.warned(status.sentences()).detailed(score.sentence for score in status.scores)
        put_text(self._path, render(findings))
        return f"{findings.headline.verdict}: {findings.headline.sentence}"

    def _is_grouping(self, column: Any) -> bool:
        return len(pc.unique(column)) <= GROUPS_SHOWN

    def _times(self, stream: StreamTable, known: Flags) -> Any:
        """Return the times as given: dates stay dates instead of seconds since 1970."""
        if stream.time is None or self._roles.time is None:
            return None
        times, given = stream.time[known], stream.shown[self._roles.time].type
        numbers = pa.types.is_integer(given) or pa.types.is_floating(given)
        return times if numbers else np.round(times * 1e6).astype("datetime64[us]")


def _labels(column: Any, known: Flags) -> Any:
    return column.filter(pa.array(known)).cast(pa.string()).to_pylist()


# Forecasting: a stream of rows is forecast and learned piece by piece, with its output and its scores.

PIECE = 16_384
MADE = ("p", "mean", "low", "high", "weight")
"""Columns that are written for each row, beside its number and the copied columns."""


@dataclass
class RunningScores:
    """Sums over the labelled rows so far; where silence is an outcome, over those whose window has ended."""

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
    times: OutcomeTimes = field(default_factory=OutcomeTimes)
    windows: OutcomeWindows = field(default_factory=OutcomeWindows)
    report: ForecastReport | None = None
    longest: float = 0.0
    """the longest time from a forecast to its outcome"""
    gaps: GroupGaps = field(default_factory=GroupGaps)
    """of the mean forecasts, by group"""
    types: dict[str, str] = field(default_factory=dict)
    """of the columns that are learned from"""

    @classmethod
    def of(cls, live: Live, roles: Roles, report: ForecastReport | None = None) -> Self:
        """Return no sums yet."""
        windows = OutcomeWindows(live.settings["matures"], live.settings["silence"])
        return cls(roles.scores, live.experts, windows=windows, report=report, gaps=GroupGaps(roles.groups))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scored forecasts, in order."""
        given = (f"{name}, as given" for name in self.scores)
        return ("level p, as issued", "mean", *given, *(f"best single expert ({name})" for name in self.experts))

    def add(self, trace: Trace, stream: StreamTable, read: StreamTable) -> None:
        """Add one piece, which was read with others."""
        if stream.label_time is not None and stream.time is not None:
            waits = np.where(np.isnan(stream.y), np.nan, stream.label_time - stream.time)
            self.longest = max(self.longest, float(np.nanmax(waits, initial=0.0)))
        self.rows += len(stream.y)
        self.types = self.types or types_of(stream.features)
        if self.report is None:  # only the report needs the contexts, until a window ends
            trace = Trace(trace.forecast, np.zeros((len(trace), 0)), trace.experts)
        for piece in self.windows.ended(stream, trace, read):
            self._score(piece)

    def finish(self) -> None:
        """Add the rows whose windows had not ended at the end of the file."""
        for piece in self.windows.remaining():
            self._score(piece)

    def _score(self, piece: HeldPiece) -> None:
        """Score issued, mean, the scores as given, then every expert."""
        stream, trace = piece.stream, piece.trace
        own = [floats(stream.features[name]) for name in self.scores]
        given = [expit(x) if kind == "logit" else x for x, kind in zip(own, self.scores.values(), strict=True)]
        p = np.column_stack([trace.forecast.p, trace.forecast.mean, *given, trace.experts])
        y = stream.y
        known = ~np.isnan(y)
        self.times.add(y, stream.moments("time"))
        squares, logs = losses(p[known], y[known])
        self.squares = self.squares + squares if len(self.squares) else squares
        self.logs = self.logs + logs if len(self.logs) else logs
        self.labelled += int(known.sum())
        self.gaps.add(stream.features, trace.forecast.mean, y)
        if self.report is not None:
            self.report.add(stream, trace, piece.read)

    def in_words(self) -> str:
        """Return the Brier score of the mean, empty before the first outcome."""
        return f"Brier {self.brier()[1]:.4f}" if self.labelled else ""

    def scored(self) -> list[ForecastScore]:
        """Return the mean, the issued level, the scores as given, the best expert in hindsight and the base rate."""
        if not self.labelled:
            return []
        brier, logs = self.brier(), self.log_loss()
        blend = 2 + len(self.scores)
        best = blend + 1 + int(np.argmin(brier[blend + 1 :]))
        made = [ForecastScore(self.names[k], float(brier[k]), float(logs[k])) for k in (1, 0, *range(2, blend), best)]
        return [*made, *self.gaps.scored("mean")[1:]]

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
    """Forecast, learn and write piece by piece until the end or Ctrl-C; save the state every minute.

    A run that continues a state continues its row numbers. After an error the output is absent and the state unchanged.
    """
    tally, start = RunningScores.of(live, reader.roles, report), clock.perf_counter()
    earlier, pieces = live.status().forecasts, Pieces(reader, stopping)
    with (
        bar(run.console, "forecasting") as shown,
        Checkpoint(state) as saved,
        table_writer(out) as write,
    ):
        for piece, encoded, pause in _encoded_ahead(live, pieces, saved.is_due):
            trace = traced(live, piece.stream, encoded)
            tally.add(trace, piece.stream, piece.read)
            write(output_rows(piece.stream, trace, earlier))
            if pause:
                saved.save(live)
            tally.seconds, tally.last = clock.perf_counter() - start, int(piece.stream.rows[-1])
            shown.to(tally.rows, reader.share, tally.in_words())
    tally.finish()
    tally.stopped = pieces.stopped
    return tally


def traced(live: Live, stream: StreamTable, encoded: Any = None) -> Trace:
    """Forecast and learn rows, encoded or not; errors give the row in the file."""
    try:
        return live.trace(
            stream.features if encoded is None else encoded, stream.y, ids=stream.ids,
            time=stream.moments("time"), label_time=stream.moments("label_time"), matures=stream.moments("matures"),
        )  # fmt: skip
    except ConflictingLabelError as error:
        raise InputError(f"{_located(error, stream.rows)}; --on-bad-row skip leaves out such rows") from None
    except (ValueError, TypeError) as error:
        raise _located(error, stream.rows) from None


def _located(error: Exception, rows: Integers) -> Exception:
    """Return an error about some rows in which they have the numbers they have in the file."""
    text = re.sub(r"\brow (\d+)\b", lambda match: f"row {rows[min(int(match[1]), len(rows)) - 1]}", str(error))
    return InputError(text)


@dataclass(frozen=True)
class StreamPiece:
    """Rows to forecast together, and all rows that were read with them."""

    stream: StreamTable
    read: StreamTable


class Pieces:
    """The rows of a reader in batches, until a stop is requested."""

    def __init__(self, reader: StreamReader, stopping: Callable[[], bool]) -> None:
        self.stopped = False
        self._stopping, self._pieces = stopping, self._cut(reader)

    @staticmethod
    def _cut(reader: StreamReader) -> Iterator[StreamPiece]:
        for read in reader:
            for first in range(0, len(read.y), PIECE):
                yield StreamPiece(read.cut(first, min(first + PIECE, len(read.y))), read)

    def next(self) -> StreamPiece | None:
        """Return the next rows; None at the end, or when a stop is requested."""
        piece = None if self.stopped else next(self._pieces, None)
        if piece is not None and self._stopping():
            self.stopped, piece = True, None
        return piece


def _encoded_ahead(live: Live, pieces: Pieces, due: Callable[[], bool]) -> Iterator[tuple[StreamPiece, Any, bool]]:
    """Encode each piece while the previous one is learned: encoding needs no labels, and kernels hold no lock.

    Encoding learns the scales of features, so an encoded piece is always forecast: otherwise a state saved after a stop
    would include rows it never forecast. If the third value requests a save, nothing is encoded ahead.
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
            following = None if pause else pieces.next()
            ahead = begin(following)
            yield piece, encoded, pause
            if pause:
                following = pieces.next()
                ahead = begin(following)
            piece = following


def refuse_made(names: Sequence[str]) -> None:
    """Raise InputError if a copied column has the name of an output column."""
    for name in names:
        if name in MADE:
            raise InputError(f"--out: given a column {name!r} to copy, expected none called {', '.join(MADE)}")


def output_rows(stream: StreamTable, trace: Trace, earlier: int) -> pa.Table:
    """Return the output columns of some rows."""
    made = {name: getattr(trace.forecast, name) for name in MADE}
    numbers = {"row": earlier + stream.rows}
    return pa.table({**numbers, **stream.shown, **{name: np.ascontiguousarray(v) for name, v in made.items()}})
