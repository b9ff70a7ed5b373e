"""Forecasts of a growing file as its lines arrive; the state is saved with its position in the file."""

import hashlib
import json
import math
import os
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import Enum, auto
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from swapcal.archive import ArchiveError, put_text
from swapcal.cli import forecasting
from swapcal.cli.forecasting import ForecastReport, RunningScores, output_rows, save_live, traced
from swapcal.cli.progress import Bar, Run, bar
from swapcal.cli.stream_table import VALUE, StreamReader, StreamTable
from swapcal.live import ConflictingLabelError, ExpiredIdError, Live
from swapcal.tables.output import Appending
from swapcal.tables.sources import InputError

# Place: the position of a saved state in a followed file, so that no row is forecast twice or lost.

try:
    import fcntl
except ModuleNotFoundError:  # not on this system, where two commands on one state go unnoticed
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class StreamOffset:
    """Position in a file, and length of the output, of a state with a given number of forecasts."""

    forecasts: int
    labels: int
    """learned or held"""
    file: str
    size: int = 0
    rows: int = 0
    earlier: int = 0
    """forecasts of the state before the first row of the file"""
    out: str | None = None
    bytes: int = 0
    begins: str = ""
    """hash of the first bytes of the file; empty if unknown"""


BEGINNING = 1 << 12
"""Number of bytes that identify a file."""


def beginning(file: str, size: int) -> str:
    """Return a hash of the first bytes of a file that had this size when it was read."""
    with open(file, "rb") as handle:
        return hashlib.sha256(handle.read(min(size, BEGINNING))).hexdigest()


def offset_file(state: Path) -> Path:
    """Return the path of a state's place."""
    return state.with_name(f"{state.name}.place")


def keep_offset(state: Path, place: StreamOffset, forecasts: int, labels: int) -> None:
    """Write a place before its state is saved, with that of the present state, which has so many forecasts.

    So after a crash, either state has its place. The last place written is no substitute for that of the state: a crash
    or a full disk may have kept that place's own state from being saved.
    """
    before = _place_of(_places(state), forecasts, labels)
    kept = [place] if before is None else [*dict.fromkeys([before, place])]
    put_text(offset_file(state), json.dumps([asdict(each) for each in kept]))


def find_offset(state: Path | None, forecasts: int, labels: int, file: str, out: str | None) -> StreamOffset:
    """Return the place saved with the state if it belongs to this file; otherwise the beginning of the file.

    The output of a continued state is appended to.
    """
    name, target = _spelt(file), None if out is None else _spelt(out)
    end = _size(target) if forecasts else 0
    fresh = StreamOffset(forecasts, labels, name, earlier=forecasts, out=target, bytes=end)
    places = [] if state is None else _places(state)
    if not places or state is None:
        return fresh
    place = _place_of(places, forecasts, labels)
    if place is None:
        given = " or ".join(f"{each.forecasts:,}" for each in places)
        raise ArchiveError(
            f"{offset_file(state)}: given places after {given} forecasts, expected one after {forecasts:,}, the "
            "forecasts of the state; delete it to begin with the first row"
        )
    if place.file != name or file == "-":
        return fresh
    if os.path.getsize(file) < place.size:
        raise InputError(
            f"{file}: given {os.path.getsize(file):,} bytes, expected at least the {place.size:,} it had when the "
            f"state was saved: it was truncated or replaced; delete {offset_file(state)} to begin with its first row"
        )
    if place.begins and beginning(file, place.size) != place.begins:
        raise InputError(
            f"{file}: given other rows at its beginning, expected those it had when the state was saved; delete "
            f"{offset_file(state)} to begin with its first row"
        )
    return place if place.out == target else StreamOffset(**{**asdict(place), "out": target, "bytes": end})


def _place_of(places: list[StreamOffset], forecasts: int, labels: int) -> StreamOffset | None:
    """Return the place of the state with so many forecasts and labels, some of which may have been learned since."""
    alike = (each for each in reversed(places) if each.forecasts == forecasts)
    return next((each for each in alike if each.labels <= labels), None)


def _places(state: Path) -> list[StreamOffset]:
    path = offset_file(state)
    if not path.exists() or not state.exists():
        return []
    try:
        return [StreamOffset(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise ArchiveError(f"{path}: given an unreadable place ({error}), expected one that --follow saved") from None


def _size(out: str | None) -> int:
    return os.path.getsize(out) if out is not None and os.path.isfile(out) else 0


def _spelt(file: str) -> str:
    return file if file == "-" else os.path.realpath(file)


@contextmanager
def holding(state: Path | None, doing: str) -> Iterator[None]:
    """Lock a state while it is followed or labelled: another command would overwrite what this one learns."""
    if state is None or fcntl is None:
        yield
        return
    lock = state.with_name(f".{state.name}.lock")
    with _locked(lock, state, doing):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _locked(lock: Path, state: Path, doing: str) -> IO[str]:
    """Open and lock the file of that name; one that its holder removed meanwhile would keep no other command out."""
    while True:
        held = open(lock, "a")  # noqa: SIM115 (its caller closes it)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(held.fileno()), os.stat(lock)):
                return held
        except FileNotFoundError:
            pass
        except OSError:
            held.close()
            raise InputError(
                f"{state}: given while another command is at work on it, expected {doing} when it has ended; labels of "
                "a stream that is followed can come through the stream itself"
            ) from None
        held.close()


# Follow: forecasts of a stream as its lines arrive, labels among them, and a state with its position.

UNLEARNED = {ExpiredIdError: "a label whose forecast has expired", ConflictingLabelError: "a label unlike that before"}


class Use(Enum):
    """Role of a row."""

    forecast = auto()
    label = auto()
    nothing = auto()


class Follower:
    """A forecaster of a growing file, or of a pipe.

    Each row is forecast, written and flushed as it arrives. A row that repeats the id of an open forecast and has an
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
        self._stopping = stopping
        status = live.status()
        self._place = find_offset(state, status.forecasts, status.labels + status.held, file, out)
        self._out = Appending(out, self._place.bytes)
        self._saved, self._since = live.status(), clock.monotonic()
        self._tally = RunningScores.of(live, reader.roles, report)
        self._late: Counter[str] = Counter()
        self._unwritten = False
        """whether the output may lack rows that the state has: then a file is read again from the state saved last"""
        self._row = self._place.rows
        self._size, self._begins, self._inode = self._place.size, self._place.begins, 0
        self._look()

    def run(self, ticks: list[Callable[[], object]]) -> RunningScores:
        """Forecast until the stream ends; `ticks` are called while it is idle."""
        if self._row:
            self._run.say(f"continuing after row {self._row:,} of {self._file}")
        ticks.append(self._save_when_due)
        start = clock.perf_counter()
        try:
            with bar(self._run.console, "following") as shown:
                for read in self._reader:
                    self._look()
                    self._go_through(read.after(self._row), shown)
                    self._tally.seconds = clock.perf_counter() - start
        finally:
            try:
                self._save()
            finally:
                self._out.close()
        self._tally.finish()
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
                self._unwritten = False
            shown.to(self._tally.rows, None, self._tally.in_words())
            self._save_when_due()

    def _runs(self, stream: StreamTable) -> Iterator[tuple[StreamTable, Use]]:
        """Split rows into runs of forecasts and runs of labels."""
        if stream.ids is None:
            yield stream, Use.forecast
            return
        start = 0
        for use, rows in groupby(list(self._uses(stream))):
            stop = start + len(list(rows))
            yield stream.cut(start, stop), use
            start = stop

    def _uses(self, stream: StreamTable) -> Iterator[Use]:
        """Return the role of each row: forecast or label of an earlier one; other rows are refused, or left out."""
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
        """Stop at a bad row, or skip and count it."""
        if not self._reader.skip:
            raise InputError(f"row {row}: {complaint}")
        self._reader.skipped[reason] += 1

    def _forecast(self, stream: StreamTable, read: StreamTable) -> None:
        trace = traced(self._live, stream)
        self._unwritten = True
        self._tally.add(trace, stream, read)
        self._out.write(output_rows(stream, trace, self._place.earlier))

    def _label(self, stream: StreamTable) -> None:
        assert stream.ids is not None
        when = stream.moments("time") if stream.label_time is None else stream.moments("label_time")
        for k, (id, y) in enumerate(zip(stream.ids, stream.y.tolist(), strict=True)):
            try:
                statuses = self._live.label_many([id], [y], time=None if when is None else when[k : k + 1])
                self._late[statuses[0]] += 1
                self._tally.windows.label(id, y)
            except (ValueError, TypeError) as error:
                complaint = str(error).removeprefix("row 1: ")
                reason = next((words for kind, words in UNLEARNED.items() if isinstance(error, kind)), None)
                if reason is None:
                    raise InputError(f"row {stream.rows[k]}: {complaint}") from None
                self._leave_out(int(stream.rows[k]), complaint, reason)

    def _look(self) -> None:
        """Record the size and the first bytes of the file, while it is the followed one."""
        try:
            stat = os.stat(self._file) if self._file != "-" else None
            if stat is None or self._inode not in (0, stat.st_ino) or stat.st_size < max(1, self._size):
                return
            self._begins = beginning(self._file, stat.st_size)
            self._size, self._inode = stat.st_size, stat.st_ino
        except FileNotFoundError:
            return

    def _save_when_due(self) -> None:
        if clock.monotonic() - self._since >= forecasting.CHECKPOINT:
            self._save()

    def _save(self) -> None:
        """Save the state if it changed: its place first, so that each state has one."""
        status, self._since = self._live.status(), clock.monotonic()
        if self._state is None or (status == self._saved and self._state.exists()):
            return
        if self._unwritten and self._file != "-":  # a pipe cannot be read again
            return
        place = StreamOffset(
            status.forecasts, status.labels + status.held, self._place.file, self._size, self._row,
            self._place.earlier, self._place.out, self._out.size(), self._begins,
        )  # fmt: skip
        self._unwritten = True  # should this fail: the next sync would find nothing to do, and succeed
        self._out.sync()
        self._unwritten = False
        keep_offset(self._state, place, self._saved.forecasts, self._saved.labels + self._saved.held)
        save_live(self._live, self._state)
        self._saved = status
