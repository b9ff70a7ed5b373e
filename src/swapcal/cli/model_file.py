"""What `fit` and `predict` share: columns as the model wants them, and the bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

BAD_INPUT = 2
SCORE, TYPES, TARGET = "score", "types", "target"
"""Keys of a model's notes: the column of scores, each column's type in the file, the column of labels."""


def plain(table: pa.Table) -> pa.Table:
    """Return the columns as numbers or text: times become seconds, truth values and dictionaries text."""
    for place, name in enumerate(table.column_names):
        column = table[name]
        if pa.types.is_temporal(column.type):
            micros = pc.cast(pc.cast(column, pa.timestamp("us")), pa.int64())
            column = pc.divide(pc.cast(micros, pa.float64()), 1e6)
        elif pa.types.is_boolean(column.type) or pa.types.is_dictionary(column.type):
            column = pc.cast(column, pa.string())
        elif pa.types.is_null(column.type):
            column = pc.cast(column, pa.float64())
        table = table.set_column(place, name, column)
    return table


def types_of(table: pa.Table) -> dict[str, str]:
    """Return each column's type by name; whole numbers may turn out to have been fractions in another file."""
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    return {
        field.name: "double" if any(test(field.type) for test in numbers) else str(field.type) for field in table.schema
    }


@contextmanager
def bar(console: Console, doing: str, total: float | None) -> Iterator[Callable[[int, float | None], None]]:
    """Show rows, rows per second and time left on a terminal; step(rows since last, share done or None)."""
    shown = Progress(
        TextColumn(doing),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[speed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with shown:
        task = shown.add_task("", total=total, rows=0, speed="")
        done = 0

        def step(rows: int, share: float | None = None) -> None:
            nonlocal done
            done += rows
            seconds = shown.tasks[0].elapsed or 0.0
            speed = f"{done / seconds:,.0f} rows/s" if seconds > 0.0 else ""
            shown.update(task, completed=done if share is None else share, rows=done, speed=speed)

        yield step


def complain(console: Console, command: str, error: Exception) -> None:
    """Say on standard error what was wrong."""
    text: Any = error.args[0] if isinstance(error, KeyError) else error
    console.print(f"swapcal {command}: {text}", style="red", markup=False, highlight=False, soft_wrap=True)
