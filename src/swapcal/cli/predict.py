"""`swapcal predict`: a model file and a table in, a probability per row out."""

import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import typer
from numpy.typing import NDArray
from rich.console import Console

from swapcal.batch.model import Model
from swapcal.cli.model_file import BAD_INPUT, SCORE, TYPES, bar, complain, plain
from swapcal.cli.output import writer
from swapcal.frames import Table

Array = NDArray[np.float64]
Batches = Iterator[tuple[pa.Table, float]]

BATCH_ROWS = 65_536


class Mode(StrEnum):
    """How a probability is made from the mixture of frozen forecasters."""

    mean = "mean"
    hash = "hash"
    sample = "sample"


def predict(
    model: Annotated[Path, typer.Argument(help="Model file made by swapcal fit.")],
    test: Annotated[str, typer.Argument(help="CSV (also .gz) or Parquet; - reads CSV from standard input.")],
    out: Annotated[str, typer.Option(help="CSV or Parquet; - writes CSV.")] = "-",
    mode: Annotated[
        Mode, typer.Option(help="mean: best log loss; hash: a fixed level per row; sample: a level drawn afresh.")
    ] = Mode.mean,
    keep: Annotated[list[str] | None, typer.Option(help="Column to copy to the output; repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws of --mode sample.")] = 0,
) -> None:
    """Predict a probability for each row.

    --mode hash and sample also write the two levels p was drawn from, low and high, and the weight of high. The file
    is read in batches and may be larger than memory. Exit code 0 on success, 2 on bad input.
    """
    console = Console(stderr=True)
    try:
        rows = _run(Model.load(model), test, out, mode, tuple(keep or ()), seed, console)
    except (ValueError, TypeError, OSError, KeyError, pa.ArrowException) as error:
        complain(console, "predict", error)
        raise typer.Exit(BAD_INPUT) from None
    console.print(f"{rows:,} rows", highlight=False)


def _run(model: Model, test: str, out: str, mode: Mode, keep: tuple[str, ...], seed: int, console: Console) -> int:
    rng, rows = np.random.default_rng(seed), 0
    with bar(console, "predicting", 1.0) as step, writer(out) as write:
        for batch, share in _batches(test, model, keep):
            try:
                found = _predict_batch(model, batch, mode, rng)
            except ValueError as error:
                raise ValueError(f"rows {rows + 1:,} to {rows + len(batch):,}: {error}") from None
            write(pa.table({name: batch[name] for name in keep} | found))
            rows += len(batch)
            step(len(batch), share)
    if not rows:
        raise ValueError(f"{test} has no rows")
    return rows


def _predict_batch(model: Model, batch: pa.Table, mode: Mode, rng: np.random.Generator) -> dict[str, Any]:
    scores = _scores(batch, model.notes.get(SCORE))
    table = Table(plain(batch.select(list(model.notes[TYPES]))))
    if mode is Mode.mean:
        return {"p": model.mean(table, scores)}
    keys = rng.integers(0, 2**64, len(batch), dtype=np.uint64) if mode is Mode.sample else None
    return model.issue(table, scores, keys)._asdict()


def _scores(batch: pa.Table, name: str | None) -> Array | None:
    if name is None:
        return None
    scores = np.asarray(batch[name].cast(pa.float64()).to_numpy(zero_copy_only=False))
    bad = np.flatnonzero(~((scores >= 0.0) & (scores <= 1.0)))
    if bad.size:
        raise ValueError(f"score {scores[bad[0]]} in column {name!r}, expected a probability")
    return scores


def _batches(file: str, model: Model, keep: tuple[str, ...]) -> Batches:
    """Yield tables of the columns needed, each with the share of the file read so far."""
    aliases = dict(model.notes[TYPES])
    if model.notes.get(SCORE):
        aliases[model.notes[SCORE]] = "double"
    names = list(dict.fromkeys([*aliases, *keep]))
    if file.endswith((".parquet", ".pq")):
        yield from _parquet(file, names)
        return
    with sys.stdin.buffer if file == "-" else open(file, "rb") as raw:
        size = os.path.getsize(file) if file != "-" else 0
        stream = pa.PythonFile(raw, mode="r")
        if file.endswith(".gz"):
            stream = pa.CompressedInputStream(stream, "gzip")
        convert = pacsv.ConvertOptions(
            include_columns=names,
            column_types={name: pa.type_for_alias(aliases.get(name, "string")) for name in names},
            strings_can_be_null=True,
        )
        for batch in pacsv.open_csv(stream, convert_options=convert):
            yield pa.Table.from_batches([batch]), raw.tell() / size if size else 0.0


def _parquet(file: str, names: list[str]) -> Batches:
    source = papq.ParquetFile(file)
    for name in names:
        if name not in source.schema_arrow.names:
            raise KeyError(f"column {name!r} is not in {file}: {', '.join(source.schema_arrow.names)}")
    done = 0
    for batch in source.iter_batches(BATCH_ROWS, columns=names):
        done += len(batch)
        yield pa.Table.from_batches([batch]), done / max(source.metadata.num_rows, 1)
