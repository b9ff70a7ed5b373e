"""`swapcal predict`: a model file and a table in, a probability per row out."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from swapcal.arrays import Array, Keys
from swapcal.batch.model import Model
from swapcal.cli import options
from swapcal.cli.options import listed
from swapcal.cli.progress import Run, running
from swapcal.cli.rows import SCORE, SCORE_KIND, TYPES, answer_parts, beside, kind_of, plain, scores_of
from swapcal.tables.formats import FilePart, Source
from swapcal.tables.frame import Table
from swapcal.tables.outcomes import ReadAs, timed
from swapcal.tables.output import protect


class Mode(StrEnum):
    """How a probability is made from the mixture of frozen forecasters."""

    mean = "mean"
    hash = "hash"
    sample = "sample"


@options.reads_text
def predict(
    model: Annotated[Path, typer.Argument(help="Model file made by swapcal fit.", metavar="MODEL")],
    file: options.File,
    text: options.DatedText,
    out: options.Rows = "-",
    mode: Annotated[
        Mode,
        typer.Option(
            help="mean: the best single number; hash: a level, the same for equal rows; sample: a random level."
        ),
    ] = Mode.mean,
    keep: options.Keep = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws of --mode sample.")] = 0,
    jobs: options.Jobs = None,
) -> None:
    """Predict a probability for each row, with a model made by `swapcal fit`.

    --mode hash and sample also write the two levels p was drawn from, low and high, and the weight of high. The file
    is read in batches and may be larger than memory. Rows in messages count from 1, without the header. Exit code 0 on
    success, 2 on bad input.
    """
    with running("predict") as run, text.open(file) as source:
        protect([model, file], {"--out": out}, tables=["--out"])
        fitted = Model.load(model)
        rows = _run(fitted, source, out, mode, listed(keep, source.columns), seed, options.threads(jobs), run)
        run.say(f"{rows:,} rows")


def _run(model: Model, source: Source, out: str, mode: Mode, keep: list[str], seed: int, jobs: int, run: Run) -> int:
    kinds = dict.fromkeys(keep, ReadAs.raw) | {name: kind_of(noted) for name, noted in model.notes[TYPES].items()}
    kinds |= {model.notes[SCORE]: ReadAs.number} if model.notes.get(SCORE) else {}

    def answer(part: FilePart) -> pa.Table:
        try:
            found = _predict_part(model, part, kinds, source.dialect.dates, mode, seed)
        except (ValueError, TypeError) as error:
            last = part.first + len(part.table) - 1
            place = "" if str(error).startswith("row ") else f"rows {part.first:,} to {last:,}: "
            raise type(error)(f"{place}{error}") from None
        return beside({name: part.table[name] for name in keep}, found)

    return answer_parts(source, kinds, out, "predicting", run, answer, jobs)


def _predict_part(
    model: Model, part: FilePart, kinds: dict[str, ReadAs], order: str, mode: Mode, seed: int
) -> dict[str, Any]:
    scores = _scores(model, part)
    features = part.table.select(list(model.notes[TYPES]))
    for name in features.column_names:
        if kinds[name] is ReadAs.time:
            column = timed(features[name], name, part.first, order)
            features = features.set_column(features.column_names.index(name), name, column)
    table = Table(plain(features))
    if mode is Mode.mean:
        return {"p": model.mean(table, scores)}
    return model.issue(table, scores, _drawn(part, seed) if mode is Mode.sample else None)._asdict()


def _drawn(part: FilePart, seed: int) -> Keys:
    """Return a random key per row, which does not depend on the parts or their order."""
    rng = np.random.PCG64(seed).advance(part.first - 1)
    return np.random.Generator(rng).integers(0, 2**64, len(part.table), dtype=np.uint64)


def _scores(model: Model, part: FilePart) -> Array | None:
    name = model.notes.get(SCORE)
    if name is None:
        return None
    return scores_of(part.table[name], name, model.notes.get(SCORE_KIND, "probability"), part.first)
