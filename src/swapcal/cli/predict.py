"""`swapcal predict`: a model file and a table in, a probability per row out."""

import time as clock
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import typer

from swapcal.arrays import Array, Keys
from swapcal.batch.model import Model
from swapcal.cli import options
from swapcal.cli.options import listed
from swapcal.cli.progress import Facts, Run, running
from swapcal.cli.rows import (
    SCORE,
    SCORE_KIND,
    SPELT,
    TARGET,
    TYPES,
    answer_pieces,
    beside,
    columns_used,
    kind_of,
    numbers_or_text,
    scores_of,
)
from swapcal.cli.stream_table import Roles
from swapcal.features.sources import keys_of
from swapcal.tables.delimited import Piece
from swapcal.tables.formats import Source
from swapcal.tables.frame import Table
from swapcal.tables.outcomes import ReadAs, timed
from swapcal.tables.output import protect
from swapcal.tables.sources import InputError


class Mode(StrEnum):
    """How a probability is made from the mixture of frozen forecasters."""

    mean = "mean"
    hash = "hash"
    sample = "sample"


class Draw(NamedTuple):
    """What levels are drawn by."""

    mode: Mode
    seed: int
    key: str | None


@options.reads_text
def predict(
    model: Annotated[Path, typer.Argument(help="Model file made by swapcal fit.", metavar="MODEL")],
    file: options.File,
    text: options.DatedText,
    printing: options.Printing,
    out: options.Rows = "-",
    mode: Annotated[
        Mode,
        typer.Option(
            help="mean: the best single number; hash: a level, the same for equal keys; sample: one drawn anew."
        ),
    ] = Mode.mean,
    key: Annotated[str | None, typer.Option(help="Column whose values draw the levels of --mode hash.")] = None,
    keep: options.Keep = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws of --mode sample.")] = 0,
    jobs: options.Jobs = None,
) -> None:
    """Predict a probability for each row, with a model made by `swapcal fit`.

    The output has the mean. --mode hash and sample write instead a level p, which is drawn, so that identical rows may
    get neighbouring levels, the two levels it was drawn from, low and high, and the weight of high; the theorems cover
    them if the model was made with --all-rounds and, for hash, if keys are distinct. The file is read in batches and
    may be larger than memory. Rows in messages count from 1, without the header. Exit code 0 on success, 2 on bad
    input.
    """
    with running("predict", printing) as run:
        protect([model, file], {"--out": out, "--json": printing.json_file}, tables=["--out"])
        printing.refuse_two(out)
        start = clock.perf_counter()
        fitted = Model.load(model)
        if mode is not Mode.mean and not fitted.settings.log:
            run.say(f"levels of {len(fitted.mixture)} snapshots, which no theorem covers (fit --all-rounds)", "yellow")
        with text.with_columns(**fitted.notes.get(SPELT, {})).open(file) as source:
            (drawn_by,) = listed([key], source.columns) if key and mode is Mode.hash else (None,)
            if drawn_by in fitted.notes[TYPES]:
                raise InputError(f"--key: given {drawn_by!r}, a column the model learned from, expected another")
            draw = Draw(mode, seed, drawn_by)
            kept = listed(keep, source.columns)
            rows = _run(fitted, source, out, draw, kept, options.threads(jobs), run)
            used, target = fitted.notes[TYPES], fitted.notes.get(TARGET)
            scores = {fitted.notes[SCORE]: "probability"} if fitted.notes.get(SCORE) else {}
            facts = Facts("predict", source.name, rows, seconds=clock.perf_counter() - start)
            facts.columns = columns_used(Roles("", scores=scores), used)
            facts.left_out = {
                name: "not in the model" for name in source.columns if name not in {*used, *scores, target, *kept}
            }
            facts.written = {} if out == "-" else {"predictions": out}
            if out != "-" and target in source.columns:
                how = f"--prob {'mean' if mode is Mode.mean else 'p'} --target {quote(target)}"
                again = "" if target in kept else f"the same with --keep {quote(target)}, then "
                facts.next = f"{again}swapcal audit {quote(out)} {how} --out report.html"
            facts.tell(run)
            facts.end(run)


def _run(model: Model, source: Source, out: str, draw: Draw, keep: list[str], jobs: int, run: Run) -> int:
    kinds = dict.fromkeys(keep, ReadAs.raw) | {name: kind_of(noted) for name, noted in model.notes[TYPES].items()}
    kinds |= {} if draw.key is None else {draw.key: ReadAs.raw}
    kinds |= {model.notes[SCORE]: ReadAs.number} if model.notes.get(SCORE) else {}

    def answer(piece: Piece) -> pa.Table:
        try:
            made = _predict_piece(model, piece, kinds, source.dialect.dates, draw)
        except (ValueError, TypeError) as error:
            last = piece.first + len(piece.table) - 1
            place = "" if str(error).startswith("row ") else f"rows {piece.first:,} to {last:,}: "
            raise type(error)(f"{place}{error}") from None
        return beside({name: piece.table[name] for name in keep}, made)

    return answer_pieces(source, kinds, out, "predicting", run, answer, jobs)


def _predict_piece(model: Model, piece: Piece, kinds: dict[str, ReadAs], order: str, draw: Draw) -> dict[str, Any]:
    scores = _scores(model, piece)
    features = piece.table.select(list(model.notes[TYPES]))
    for name in features.column_names:
        if kinds[name] is ReadAs.time:
            column = timed(features[name], name, piece.first, order)
            features = features.set_column(features.column_names.index(name), name, column)
    table = Table(numbers_or_text(features))
    if draw.mode is Mode.mean:
        return {"mean": model.mean(table, scores)}
    if draw.key is not None:
        keys: Keys | None = keys_of(Table(numbers_or_text(piece.table.select([draw.key]))), draw.key)
    else:
        keys = _drawn(piece, draw.seed) if draw.mode is Mode.sample else None
    return model.issue(table, scores, keys)._asdict()


def _drawn(piece: Piece, seed: int) -> Keys:
    """Return a random key per row, whatever the pieces are and in whichever order they are answered."""
    rng = np.random.PCG64(seed).advance(piece.first - 1)
    return np.random.Generator(rng).integers(0, 2**64, len(piece.table), dtype=np.uint64)


def _scores(model: Model, piece: Piece) -> Array | None:
    name = model.notes.get(SCORE)
    if name is None:
        return None
    return scores_of(piece.table[name], name, model.notes.get(SCORE_KIND, "probability"), piece.first)
