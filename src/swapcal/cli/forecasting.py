"""Forecasting: a stream of rows forecast and learned piece by piece, its forecasts written and its scores kept."""

import re
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import expit

from swapcal.arrays import Array, Integers
from swapcal.cli.forecast_report import ForecastReport
from swapcal.cli.live_state import Checkpoint
from swapcal.cli.progress import bar
from swapcal.cli.running import Run
from swapcal.cli.stream_table import StreamReader, StreamTable
from swapcal.features import Encoded
from swapcal.kernels.logloss import log_losses
from swapcal.live import ConflictingLabelError, Live, Trace
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import floats
from swapcal.tables.output import table_writer

PIECE = 16_384
MADE = ("p", "mean", "low", "high", "weight")
"""Columns that are written for each row, beside its number and what is copied."""


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
    except ConflictingLabelError as error:
        raise InputError(f"{_located(error, stream.rows)}; --on-bad-row skip leaves out such rows") from None
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


def refuse_made(names: Sequence[str]) -> None:
    """Refuse to copy columns to the output under names of its own."""
    for name in names:
        if name in MADE:
            raise InputError(f"--out: given a column {name!r} to copy, expected none called {', '.join(MADE)}")


def output_rows(stream: StreamTable, trace: Trace, earlier: int) -> pa.Table:
    """Return what is written for some rows."""
    made = {name: getattr(trace.forecast, name) for name in MADE}
    numbers = {"row": earlier + stream.rows}
    return pa.table({**numbers, **stream.shown, **{name: np.ascontiguousarray(v) for name, v in made.items()}})
