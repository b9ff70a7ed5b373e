"""Progress, and what every command does about errors, interrupts and closed pipes."""

import errno
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from swapcal.cli import BAD_INPUT, PIPE_CLOSED, STOPPED, advice
from swapcal.tables.outcomes import Positive

# The progress bar: what is done, how fast, how long it will take.


class Bar:
    """A bar on a terminal; nothing elsewhere."""

    def __init__(self, shown: Progress, task: TaskID, unit: str) -> None:
        self._shown, self._task, self._unit = shown, task, unit
        self._start = time.perf_counter()

    def to(self, count: int, share: float | None, news: str = "") -> None:
        """Move to so many units and that share of the whole, if it is known."""
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


# Running: what every command does about errors, interrupts and closed pipes.

FAULTS = (ValueError, TypeError, KeyError, OSError, MemoryError, pa.ArrowException)


class Output(Console):
    """Standard output of a command; a closed pipe is left to the command."""

    def on_broken_pipe(self) -> None:
        """Raise what rich would turn into its own exit."""
        raise BrokenPipeError(errno.EPIPE, "closed")


@dataclass
class Run:
    """A command at work: where it speaks, and what an interrupt would leave behind."""

    console: Console = field(default_factory=lambda: Console(stderr=True))
    kept: str = "nothing was written"

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line on standard error as it is."""
        self.console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def say_unlabelled(self, rows: int, used: int) -> None:
        """Say how many rows were left out because they have no outcome, if any were."""
        if used < rows:
            lost = rows - used
            self.say(f"left out {lost:,} of {rows:,} rows ({lost / rows:.1%}) without an outcome", "yellow")

    def say_unmatched(self, positive: Positive | None) -> None:
        """Say that no row so far had the value that counts as 1, if that is so."""
        if positive is not None and (complaint := positive.complaint()) is not None:
            self.say(f"{complaint}: all outcomes so far are 0", "yellow")


@contextmanager
def running(command: str) -> Iterator[Run]:
    """Turn what goes wrong into one line on standard error and an exit code."""
    run = Run()
    try:
        with _said_when_compiling(run):
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


@contextmanager
def _said_when_compiling(run: Run) -> Iterator[None]:
    """Say on a terminal why nothing seems to happen: numba compiles, which it does once per machine."""
    if not run.console.is_terminal or "numba" not in sys.modules:
        yield
        return
    from numba.core import event

    class Compiling(event.Listener):  # type: ignore[misc]
        said = False

        def on_start(self, happened: Any) -> None:
            if not self.said:
                run.say("Compiling for this processor, once: up to a minute (swapcal compile does it on every core) …")
            self.said = True

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
    """Let a first Ctrl-C or SIGTERM ask for a stop after the pieces in hand: what is kept is whole.

    A second one stops at once.
    """
    asked = threading.Event()

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
