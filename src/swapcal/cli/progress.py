"""What every command prints: progress, what it found, errors; and its interrupts and closed pipes."""

import errno
import json
import logging
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from textwrap import wrap
from typing import Any, NamedTuple

import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from swapcal._display import INSEPARABLE, counted, named, share
from swapcal.archive import put_text
from swapcal.cli import BAD_INPUT, PIPE_CLOSED, STOPPED, advice
from swapcal.cli.options import Printing, Spoken
from swapcal.kernels.tally import FLOOR
from swapcal.tables.outcomes import Positive

LOG_LOSS = f"log loss (kept {FLOOR:g} from 0 and 1)"
"""Heading of a column of log losses, with their clipping."""

MOST_NAMED = 8
"""Columns listed in one place."""

DELIBERATE = ("--drop", "not in the model")
"""Reasons to leave out a column that are not guesses."""

# The progress bar: work done, speed, remaining time.


class Bar:
    """A bar on a terminal; nothing elsewhere."""

    def __init__(self, shown: Progress, task: TaskID, unit: str) -> None:
        self._shown, self._task, self._unit = shown, task, unit
        self._start = time.perf_counter()

    def to(self, count: int, share: float | None, news: str = "") -> None:
        """Set the number of units done, and their share of the whole, if known."""
        speed = count / max(time.perf_counter() - self._start, 1e-9)
        text = ", ".join(filter(None, [f"{count:,} {self._unit}", f"{speed:,.0f} {self._unit}/s", news]))
        total = None if share is None else 1.0
        self._shown.update(self._task, completed=share or 0.0, total=total, text=text)


@contextmanager
def bar(console: Console, doing: str, unit: str = "rows") -> Iterator[Bar]:
    """Show a bar while the work goes on."""
    columns = (TextColumn(doing), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    hidden = not console.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden) as shown:
        yield Bar(shown, shown.add_task("", total=None, text=""), unit)


# Running: errors, interrupts and closed pipes of every command.

LOG = logging.getLogger("swapcal.cli")
FAULTS = (ValueError, TypeError, KeyError, OSError, MemoryError, pa.ArrowException)


class Output(Console):
    """Standard output of a command, which raises BrokenPipeError if its reader closes it."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError instead of exiting as rich does."""
        raise BrokenPipeError(errno.EPIPE, "closed")

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print; lines of plain text end where `lines_of` breaks them."""
        if settings.get("markup") is False and not settings.get("soft_wrap"):
            objects = tuple(lines_of(each, self.width) if isinstance(each, str) else each for each in objects)
        super().print(*objects, **settings)


def lines_of(text: str, width: int) -> str:
    r"""Return a text in lines of at most so many characters, which do not end inside a number and its sign.

    Examples
    --------
    >>> lines_of("a gap of 3 points (p ≤ 0.001)", 22)
    'a gap of 3 points\n(p ≤ 0.001)'
    """
    joined = INSEPARABLE.sub("\xa0", text).split("\n")
    lines = [wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""] for line in joined]
    return "\n".join(chain.from_iterable(lines)).replace("\xa0", " ")


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print a line as it is."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def say_unused(console: Console, columns: Mapping[str, str]) -> None:
    """Print which columns are left out, and why, if any."""
    if columns:
        kinds = {like: [name for name, own in columns.items() if own == like] for like in columns.values()}
        listing = "; ".join(f"{named(names, MOST_NAMED)} ({like})" for like, names in kinds.items())
        deliberate = {*kinds} <= {*DELIBERATE}
        hint = "" if deliberate else ": --keep-column uses a column all the same"
        say(console, f"left out {listing}{hint}", None if deliberate else "yellow")


@dataclass
class Run:
    """A running command: its consoles, what it prints, and the output that an interrupt would leave."""

    printing: Spoken = field(default_factory=Printing)
    kept: str = "nothing was written"
    console: Console = field(init=False)
    output: Console = field(init=False)
    """standard output, which prints nothing if it gets JSON"""

    def __post_init__(self) -> None:
        self.console = Console(stderr=True, quiet=self.printing.quiet)
        self.output = Output(quiet=self.printing.quiet or self.printing.prints_json)
        self._since = time.perf_counter()

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line on standard error as it is."""
        say(self.console, text, style)

    def step(self, text: str) -> None:
        """Log what was done since the last step, and how long it took; printed with --verbose."""
        now = time.perf_counter()
        LOG.debug("%s: %.2f s", text, now - self._since)
        self._since = now

    def fail(self, text: str, style: str) -> None:
        """Print a line on standard error, with --quiet too."""
        self.console.quiet = False
        self.say(text, style)

    def write(self, figures: str) -> None:
        """Write figures where --json requests them."""
        if self.printing.prints_json:
            print(figures)
        elif self.printing.json is not None:
            put_text(self.printing.json, figures)

    def say_unlabelled(self, rows: int, used: int) -> None:
        """Print how many rows were left out because they have no outcome, if any."""
        if used < rows:
            lost = rows - used
            self.say(f"left out {lost:,} of {rows:,} rows ({lost / rows:.1%}) without an outcome", "yellow")

    def say_unused(self, columns: Mapping[str, str]) -> None:
        """Print which columns are left out because of what they look like, if any."""
        say_unused(self.console, columns)

    def say_unmatched(self, positive: Positive | None) -> None:
        """Print a warning if no row so far had the value that counts as 1."""
        if positive is not None and (complaint := positive.complaint()) is not None:
            self.say(f"{complaint}: all outcomes so far are 0", "yellow")


@contextmanager
def running(command: str, printing: Spoken | None = None) -> Iterator[Run]:
    """Turn errors into one line on standard error and an exit code."""
    run = Run(printing or Printing())
    try:
        with _compilation_notice(run), _logged(run):
            yield run
    except KeyboardInterrupt:
        run.fail(f"swapcal {command}: stopped; {run.kept}", "yellow")
        raise typer.Exit(STOPPED) from None
    except ModuleNotFoundError as error:
        run.fail(f"swapcal {command}: {advice(error)}", "red")
        raise typer.Exit(BAD_INPUT) from None
    except FAULTS as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise typer.Exit(PIPE_CLOSED) from None
        run.fail(f"swapcal {command}: {_text(error)}", "red")
        raise typer.Exit(BAD_INPUT) from None


class Printer(logging.Handler):
    """Prints what the package logs as lines of a command."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, warnings in yellow."""
        self._run.say(record.getMessage(), "yellow" if record.levelno >= logging.WARNING else None)


@contextmanager
def _logged(run: Run) -> Iterator[None]:
    """Print what the package logs while the command runs."""
    log, handler = logging.getLogger("swapcal"), Printer(run)
    before = log.level, log.propagate
    log.setLevel(logging.DEBUG if run.printing.verbose else logging.INFO)
    log.propagate = False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before


@contextmanager
def _compilation_notice(run: Run) -> Iterator[None]:
    """Print a notice on a terminal when numba compiles, which it does once per machine."""
    if not run.console.is_terminal or "numba" not in sys.modules:
        yield
        return
    from numba.core import event

    class Compiling(event.Listener):  # type: ignore[misc]
        printed = False

        def on_start(self, happened: Any) -> None:
            if not self.printed:
                run.say("Compiling for this processor, once: up to a minute (swapcal compile does it on every core) …")
            self.printed = True

        def on_end(self, happened: Any) -> None:
            pass

    with event.install_listener("numba:compile", Compiling()):
        yield


def _text(error: Any) -> str:
    if isinstance(error, MemoryError):
        return f"not enough memory ({error})"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        reason = "file not found" if isinstance(error, FileNotFoundError) else error.strerror.lower()
        return f"{error.filename}: {reason}"
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C or SIGTERM request a stop after the current pieces, so that outputs are complete.

    A second one stops at once.
    """
    stop = threading.Event()

    def request(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop.is_set
        return
    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# Results of a command, the most important first, for people and as JSON.

MOST_GAPS = 5
"""Groups printed, of the largest gaps."""


class ForecastScore(NamedTuple):
    """Mean losses of one forecast; NaN where it was not always given."""

    name: str
    brier: float
    log_loss: float


def base_rate_alone(rate: float, square: float) -> ForecastScore:
    """Return the mean losses of forecasting the base rate for all rows, given the outcomes' mean square.

    Examples
    --------
    >>> base_rate_alone(0.5, 0.5)
    ForecastScore(name='base rate, in hindsight', brier=0.25, log_loss=0.6931471805599453)
    """
    inside = min(max(rate, FLOOR), 1 - FLOOR)
    log_loss = -rate * math.log(inside) - (1 - rate) * math.log(1 - inside)
    return ForecastScore("base rate, in hindsight", square - rate**2, log_loss)


class GroupGap(NamedTuple):
    """Observed minus predicted rate of one group, with an interval that holds for all groups examined at once."""

    group: str
    rows: int
    observed: float
    predicted: float
    gap: float
    low: float
    high: float


@dataclass
class Facts:
    """What a command found in a table."""

    command: str
    file: str
    rows: int
    """rows that were used"""
    base_rate: float | None = None
    """mean outcome of the rows that have one"""
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """columns that were used, by role"""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """columns that were not, and why"""
    scores: Sequence[ForecastScore] = ()
    scored_on: str = ""
    groups: Sequence[GroupGap] = ()
    """all groups tested, the largest gap first"""
    small: int = 0
    """groups too small to be tested"""
    unit: str = "rows"
    """what the rows of a group are counted in"""
    written: Mapping[str, str] = field(default_factory=dict)
    """what was written where"""
    next: str = ""
    """the command to run next"""
    seconds: float = 0.0
    details: Sequence[str] = ()
    """what the theory certifies, if that was requested"""

    def to_json(self) -> str:
        """Return all facts as one JSON object; what is not a number is null."""
        data = asdict(self)
        data["scores"] = [one._asdict() for one in self.scores]
        data["groups"] = [one._asdict() for one in self.groups]
        return json.dumps(_finite(data), indent=1, ensure_ascii=False)

    def tell(self, run: Run) -> None:
        """Print the facts on standard error, and write them where --json requests them."""
        run.write(self.to_json())
        if run.printing.prints_json:
            return
        self.show(run.console)

    def end(self, run: Run) -> None:
        """Print details, what was written where, and the next command."""
        for line in self.details:
            run.say(line)
        if run.printing.prints_json:
            return
        for what, where in self.written.items():
            run.say(f"{what}: {where}")
        if self.next:
            run.say(f"next: {self.next}")

    def show(self, console: Console) -> None:
        """Print rows, columns, scores and the largest gaps."""
        rate = "" if self.base_rate is None else f", base rate {share(self.base_rate)}"
        say(console, f"{f'{self.file}: ' if self.file else ''}{self.rows:,} rows{rate}", "bold")
        if self.columns:
            console.print(_grid([[f"  {role}", _listed(names)] for role, names in self.columns.items()]))
        say_unused(console, self.left_out)
        if self.scores:
            console.print(self._scores())
        if self.scored_on:
            say(console, self.scored_on)
        self._show_groups(console)

    def _scores(self) -> Table:
        table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for heading in ("forecast", "Brier", LOG_LOSS):
            table.add_column(heading.replace(" (", "\n("), justify="left" if heading == "forecast" else "right")
        for one in self.scores:
            given = one.brier == one.brier
            figures = [f"{value:.5f}" if given else "not always given" for value in one[1:]]
            table.add_row(escape(one.name), *figures)
        return table

    def _show_groups(self, console: Console) -> None:
        small = f"{self.small:,} group{' is' if self.small == 1 else 's are'} too small to be tested"
        if not self.groups:
            if self.small:
                say(console, small)
            return
        sure = sum(one.low > 0 or one.high < 0 for one in self.groups)
        gaps = "no gap is significant" if not sure else f"{sure:,} significant gap{'s' if sure > 1 else ''}"
        say(
            console,
            f"{counted(len(self.groups), 'group')} tested, {gaps} (95 % intervals, corrected for the number of groups)"
            f"{f'; {small}' if self.small else ''}; the largest gaps, observed minus forecast in points:",
        )
        rows = [
            [
                f"  {one.group}",
                f"{one.rows:,} {self.unit}",
                f"{100 * one.gap:+.2f}",
                f"({100 * one.low:+.2f} to {100 * one.high:+.2f})",
            ]
            for one in self.groups[:MOST_GAPS]
        ]
        console.print(_grid(rows))


def _grid(rows: Sequence[Sequence[str]]) -> Table:
    """Return lines whose first column is text and whose others, unless there is one only, are figures."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=len(rows[0]) == 2, overflow="fold")
    for _ in rows[0][1:]:
        table.add_column(justify="left" if len(rows[0]) == 2 else "right", no_wrap=len(rows[0]) > 2)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _listed(names: Sequence[str]) -> str:
    return f"{len(names):,}: {named(names, MOST_NAMED)}" if len(names) > MOST_NAMED else named(names, MOST_NAMED)


def _finite(value: Any) -> Any:
    """Return nested data without NaN and infinity, which JSON lacks."""
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
