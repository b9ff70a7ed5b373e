"""`swapcal decide`: a column of probabilities in, actions for every loss out."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from swapcal.cli.output import writer
from swapcal.losses import Loss, LossError
from swapcal.losses import decide as decide_rows
from swapcal.losses.parse import Specification, read_toml, specify

Array = NDArray[np.float64]
Step = Callable[[int, float], None]

BATCH_ROWS = 65_536
BAD_INPUT = 2


def decide(
    file: Annotated[str, typer.Argument(help="CSV (also .gz) or Parquet; - reads CSV from standard input.")],
    prob: Annotated[str, typer.Option(help="Column of probabilities.")],
    loss: Annotated[
        list[str] | None, typer.Option(help="Such as pinball:0.9 or newsvendor:under=3,over=@cost.")
    ] = None,
    loss_file: Annotated[Path | None, typer.Option(help="TOML file with [[loss]] tables.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of outcomes; adds realised costs to the summary.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Column to copy to the output; repeatable.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="CSV or Parquet; - writes CSV.")] = "-",
) -> None:
    """Choose the best action for each row and each loss, given its probability.

    For each loss the output has its action and expected cost; a summary goes to standard error. @NAME in a
    loss takes that column's value row by row. Exit code 0 on success, 2 on bad input.
    """
    console = Console(stderr=True)
    try:
        specifications = [specify(text) for text in loss or []]
        specifications += read_toml(loss_file) if loss_file else []
        if not specifications:
            raise LossError("no loss given; use --loss pinball:0.9 or --loss-file costs.toml")
        columns = Columns(prob, label, tuple(keep or ()))
        totals = _run(file, output, columns, _distinct(specifications), console)
    except (LossError, OSError, KeyError, pa.ArrowException) as error:
        console.print(f"swapcal decide: {_message(error)}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from None
    console.print(_summary(specifications, totals, labelled=label is not None))


@dataclass(frozen=True)
class Columns:
    """Which columns of the file play which part."""

    prob: str
    label: str | None
    keep: tuple[str, ...]

    def numbers(self, specifications: list[Specification]) -> list[str]:
        """Columns to read as numbers: probabilities, outcomes and per-row parameters."""
        referred = [name for specification in specifications for name in specification.columns]
        return list(dict.fromkeys([self.prob, *([self.label] if self.label else []), *referred]))


@dataclass
class Totals:
    """Sums over the rows so far, per loss."""

    expected: Array
    realised: Array
    rows: int = 0


def _run(file: str, output: str, columns: Columns, specifications: list[Specification], console: Console) -> Totals:
    totals = Totals(np.zeros(len(specifications)), np.zeros(len(specifications)))
    with _progress(console) as step, writer(output) as write:
        for batch, share in _batches(file, columns.numbers(specifications), columns.keep):
            try:
                write(_decide_batch(batch, columns, specifications, totals))
            except LossError as error:
                raise LossError(f"rows {totals.rows + 1} to {totals.rows + len(batch)}: {error}") from None
            totals.rows += len(batch)
            step(totals.rows, share)
        if not totals.rows:
            raise LossError(f"{file} has no rows")
    return totals


def _decide_batch(batch: pa.Table, columns: Columns, specifications: list[Specification], totals: Totals) -> pa.Table:
    numbers = {name: _floats(batch, name) for name in columns.numbers(specifications)}
    found = {name: batch[name] for name in dict.fromkeys((*columns.keep, columns.prob))}
    for index, specification in enumerate(specifications):
        rule = specification.build({name: numbers[name] for name in specification.columns})
        decision = decide_rows(numbers[columns.prob], rule)
        actions = decision.label if decision.label is not None else decision.action
        found[f"action[{specification.name}]"] = pa.array(actions)
        found[f"expected_cost[{specification.name}]"] = pa.array(decision.expected_cost)
        totals.expected[index] += decision.expected_cost.sum()
        if columns.label:
            totals.realised[index] += _realised(rule, decision.action, numbers[columns.label])
    return pa.table(found)


def _realised(rule: Loss, action: Array, outcomes: Array) -> float:
    return float(np.sum(rule(action, outcomes)))


def _floats(batch: pa.Table, name: str) -> Array:
    return np.asarray(batch[name].cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=float)


def _batches(file: str, numbers: list[str], keep: tuple[str, ...]) -> Iterator[tuple[pa.Table, float]]:
    """Tables of up to some ten thousand rows, each with the share of the file read so far (or NaN)."""
    names = list(dict.fromkeys([*numbers, *keep]))
    if file.endswith((".parquet", ".pq")):
        yield from _parquet_batches(file, names)
        return
    with sys.stdin.buffer if file == "-" else open(file, "rb") as raw:
        yield from _csv_batches(raw, file, numbers, names)


def _parquet_batches(file: str, names: list[str]) -> Iterator[tuple[pa.Table, float]]:
    source = papq.ParquetFile(file)
    missing = [name for name in names if name not in source.schema_arrow.names]
    if missing:
        raise KeyError(f"column {missing[0]!r} is not in {file}: {', '.join(source.schema_arrow.names)}")
    done = 0
    for batch in source.iter_batches(BATCH_ROWS, columns=names):
        done += len(batch)
        yield pa.Table.from_batches([batch]), done / source.metadata.num_rows


def _csv_batches(raw: BinaryIO, file: str, numbers: list[str], names: list[str]) -> Iterator[tuple[pa.Table, float]]:
    size = os.path.getsize(file) if file != "-" else float("nan")
    stream = pa.PythonFile(raw, mode="r")
    if file.endswith(".gz"):
        stream = pa.CompressedInputStream(stream, "gzip")
    types = {name: pa.float64() if name in numbers else pa.string() for name in names}
    convert = pacsv.ConvertOptions(include_columns=names, column_types=types)
    for batch in pacsv.open_csv(stream, convert_options=convert):
        yield pa.Table.from_batches([batch]), (raw.tell() / size if file != "-" else size)


@contextmanager
def _progress(console: Console) -> Iterator[Step]:
    """Bar with rows per second and time left; drawn on a terminal only."""
    shown = Progress(
        TextColumn("deciding"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[speed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with shown:
        task = shown.add_task("", total=1.0, rows=0, speed="")

        def step(rows: int, share: float) -> None:
            seconds = shown.tasks[0].elapsed or 0.0
            speed = f"{rows / seconds:,.0f} rows/s" if seconds > 0.0 else ""
            shown.update(task, completed=0.0 if np.isnan(share) else share, rows=rows, speed=speed)

        yield step


def _summary(specifications: list[Specification], totals: Totals, *, labelled: bool) -> Table:
    table = Table(title=f"{totals.rows:,} rows")
    for heading in ("loss", "mean expected cost", *(["mean realised cost"] if labelled else [])):
        table.add_column(heading, justify="left" if heading == "loss" else "right")
    for index, specification in enumerate(specifications):
        means = [totals.expected[index], *([totals.realised[index]] if labelled else [])]
        table.add_row(specification.name, *(f"{mean / totals.rows:.6g}" for mean in means))
    return table


def _distinct(specifications: list[Specification]) -> list[Specification]:
    names = [specification.name for specification in specifications]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LossError(f"two losses are called {twice!r}; give them different names")
    return specifications


def _message(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, KeyError) else str(error)
