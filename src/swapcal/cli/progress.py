"""The progress bar: what is done, how fast, how long it will take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn


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
