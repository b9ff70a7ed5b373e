"""Progress, errors, interrupts and closed pipes of every command."""

import errno
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from swapcal._display import named
from swapcal.cli import BAD_INPUT, PIPE_CLOSED, STOPPED, advice
from swapcal.kernels.tally import FLOOR
from swapcal.tables.outcomes import Positive

LOG_LOSS = f"log loss (kept {FLOOR:g} from 0 and 1)"
"""Heading of a column of log losses: the clipping stands beside the number."""

MOST_NAMED = 8
"""Columns listed in one place."""

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

FAULTS = (ValueError, TypeError, KeyError, OSError, MemoryError, pa.ArrowException)


class Output(Console):
    """Standard output of a command, which raises BrokenPipeError if its reader closes it."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError instead of exiting as rich does."""
        raise BrokenPipeError(errno.EPIPE, "closed")


@dataclass
class Run:
    """A running command: its console, and the output that an interrupt would leave."""

    console: Console = field(default_factory=lambda: Console(stderr=True))
    kept: str = "nothing was written"

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line on standard error as it is."""
        self.console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def say_unlabelled(self, rows: int, used: int) -> None:
        """Print how many rows were left out because they have no outcome, if any."""
        if used < rows:
            lost = rows - used
            self.say(f"left out {lost:,} of {rows:,} rows ({lost / rows:.1%}) without an outcome", "yellow")

    def say_unused(self, columns: Mapping[str, str]) -> None:
        """Print which columns are left out because of what they look like, if any."""
        if columns:
            kinds = {like: [name for name, own in columns.items() if own == like] for like in columns.values()}
            listing = "; ".join(f"{named(names, MOST_NAMED)} ({like})" for like, names in kinds.items())
            self.say(f"left out {listing}: --keep-column uses a column all the same", "yellow")

    def say_unmatched(self, positive: Positive | None) -> None:
        """Print a warning if no row so far had the value that counts as 1."""
        if positive is not None and (complaint := positive.complaint()) is not None:
            self.say(f"{complaint}: all outcomes so far are 0", "yellow")


@contextmanager
def running(command: str) -> Iterator[Run]:
    """Turn errors into one line on standard error and an exit code."""
    run = Run()
    try:
        with _compilation_notice(run), _logged(run):
            yield run
    except KeyboardInterrupt:
        run.say(f"swapcal {command}: stopped; {run.kept}", "yellow")
        raise typer.Exit(STOPPED) from None
    except ModuleNotFoundError as error:
        run.say(f"swapcal {command}: {advice(error)}", "red")
        raise typer.Exit(BAD_INPUT) from None
    except FAULTS as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise typer.Exit(PIPE_CLOSED) from None
        run.say(f"swapcal {command}: {_text(error)}", "red")
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
    log.setLevel(logging.INFO)
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
