"""Follow: forecasts of a stream as its lines come, labels among them, and a state that never loses its place."""

import math
import os
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum, auto
from itertools import groupby
from pathlib import Path
from typing import Any

from swapcal.cli import forecasting, live_state
from swapcal.cli.forecast_report import ForecastReport
from swapcal.cli.forecasting import RunningScores, output_rows, traced
from swapcal.cli.live_state import save_live
from swapcal.cli.place import Place, beginning, find_place, keep_place
from swapcal.cli.progress import Bar, bar
from swapcal.cli.running import Run
from swapcal.cli.stream_table import VALUE, StreamReader, StreamTable
from swapcal.live import ConflictingLabelError, ExpiredIdError, Live
from swapcal.tables.dialect import InputError
from swapcal.tables.output import Appending

UNLEARNED = {ExpiredIdError: "a label whose forecast has expired", ConflictingLabelError: "a label unlike that before"}


class Use(Enum):
    """What a row is for."""

    forecast = auto()
    label = auto()
    nothing = auto()


class Follower:
    """A forecaster at the end of a growing file, or of a pipe.

    Each row is forecast, written and flushed as it comes. A row that repeats the id of an open forecast and has an
    outcome is its label. The state is saved every minute and at the end, with its place in the file.
    """

    def __init__(
        self,
        live: Live,
        reader: StreamReader,
        file: str,
        out: str | None,
        state: Path | None,
        run: Run,
        report: ForecastReport | None,
        stopping: Callable[[], bool],
    ) -> None:
        self._live, self._reader, self._file, self._state, self._run = live, reader, file, state, run
        self._report, self._stopping = report, stopping
        status = live.status()
        self._place = find_place(state, status.forecasts, status.labels + status.held, file, out)
        self._out = Appending(out, self._place.bytes)
        self._saved, self._since = live.status(), clock.monotonic()
        self._tally = RunningScores(reader.roles.scores, live.experts)
        self._late: Counter[str] = Counter()
        self._row = self._place.rows
        self._size, self._begins, self._inode = self._place.size, self._place.begins, 0
        self._look()

    def run(self, ticks: list[Callable[[], object]]) -> RunningScores:
        """Forecast until the stream ends; `ticks` are called whenever it has nothing to say."""
        if self._row:
            self._run.say(f"going on after row {self._row:,} of {self._file}")
        ticks.append(self._save_when_due)
        start = clock.perf_counter()
        try:
            with bar(self._run.console, "following") as shown:
                for read in self._reader:
                    self._look()
                    self._go_through(read.after(self._row), shown)
                    self._tally.seconds = clock.perf_counter() - start
        finally:
            self._save()
            self._out.close()
        for word, count in self._late.items():
            self._run.say(f"labels that came later: {count:,} {word}")
        return self._tally

    def _go_through(self, read: StreamTable, shown: Bar) -> None:
        for first in range(0, len(read.y), forecasting.PIECE):
            if self._file != "-" and self._stopping():  # what came through a pipe cannot be read again
                return
            for some, use in self._runs(read.cut(first, min(first + forecasting.PIECE, len(read.y)))):
                if use is Use.label:
                    self._label(some)
                elif use is Use.forecast:
                    self._forecast(some, read)
                self._row = self._tally.last = int(some.rows[-1])
            brier = f"Brier {self._tally.brier()[1]:.4f}" if self._tally.labelled else ""
            shown.to(self._tally.rows, None, brier)
            self._save_when_due()

    def _runs(self, stream: StreamTable) -> Iterator[tuple[StreamTable, Use]]:
        """Cut rows where forecasts give way to labels of earlier ones, or the other way round."""
        if stream.ids is None:
            yield stream, Use.forecast
            return
        start = 0
        for use, rows in groupby(list(self._uses(stream))):
            stop = start + len(list(rows))
            yield stream.cut(start, stop), use
            start = stop

    def _uses(self, stream: StreamTable) -> Iterator[Use]:
        """Tell of each row whether it is the label of an earlier forecast; what is neither is refused, or left out."""
        assert stream.ids is not None
        new: set[Any] = set()
        for row, (id, y) in enumerate(zip(stream.ids, stream.y.tolist(), strict=True)):
            again = id in new or self._live.knows(id)
            if again and math.isnan(y):
                column, expected = f"column {self._reader.roles.id!r}", "a new id, or the outcome of that forecast"
                reason = f"{column}: given {VALUE} again without an outcome, expected {expected}"
                self._leave_out(int(stream.rows[row]), reason.replace(VALUE, repr(id)), reason.replace(VALUE, "…"))
                yield Use.nothing
                continue
            new.add(id)
            yield Use.label if again else Use.forecast

    def _leave_out(self, row: int, complaint: str, reason: str) -> None:
        """Stop at a row, or count it among those left out."""
        if not self._reader.skip:
            raise InputError(f"row {row}: {complaint}")
        self._reader.skipped[reason] += 1

    def _forecast(self, stream: StreamTable, read: StreamTable) -> None:
        trace = traced(self._live, stream)
        self._tally.add(trace, stream)
        if self._report is not None:
            self._report.add(stream, trace, read)
        self._out.write(output_rows(stream, trace, self._place.earlier))

    def _label(self, stream: StreamTable) -> None:
        assert stream.ids is not None
        when = stream.moments("time") if stream.label_time is None else stream.moments("label_time")
        for k, (id, y) in enumerate(zip(stream.ids, stream.y.tolist(), strict=True)):
            try:
                found = self._live.label_many([id], [y], time=None if when is None else when[k : k + 1])
                self._late[found[0]] += 1
            except (ValueError, TypeError) as error:
                complaint = str(error).removeprefix("row 1: ")
                reason = next((words for kind, words in UNLEARNED.items() if isinstance(error, kind)), None)
                if reason is None:
                    raise InputError(f"row {stream.rows[k]}: {complaint}") from None
                self._leave_out(int(stream.rows[k]), complaint, reason)

    def _look(self) -> None:
        """Remember the size and the beginning of the file, as long as it is the one that is followed."""
        try:
            found = os.stat(self._file) if self._file != "-" else None
            if found is None or self._inode not in (0, found.st_ino) or found.st_size < max(1, self._size):
                return
            self._begins = beginning(self._file, found.st_size)
            self._size, self._inode = found.st_size, found.st_ino
        except FileNotFoundError:
            return

    def _save_when_due(self) -> None:
        if clock.monotonic() - self._since >= live_state.CHECKPOINT:
            self._save()

    def _save(self) -> None:
        """Save the state if it is another than before: its place first, so that each state has one."""
        status, self._since = self._live.status(), clock.monotonic()
        if self._state is None or (status == self._saved and self._state.exists()):
            return
        place = Place(
            status.forecasts, status.labels + status.held, self._place.file, self._size, self._row,
            self._place.earlier, self._place.out, self._out.size(), self._begins,
        )  # fmt: skip
        self._out.sync()
        keep_place(self._state, place)
        save_live(self._live, self._state)
        self._saved = status
