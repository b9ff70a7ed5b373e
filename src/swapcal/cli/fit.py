"""`swapcal fit`: a table with labels in, a model file out."""

import time as clock
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from swapcal.batch.model import Model, Settings
from swapcal.cli.model_file import BAD_INPUT, SCORE, TARGET, TYPES, bar, complain, plain, types_of
from swapcal.cli.stream_table import InputError, Roles, Stream, read_stream
from swapcal.frames import Table


def fit(
    train: Annotated[str, typer.Argument(help="CSV (also .gz) or Parquet; - reads CSV from standard input.")],
    target: Annotated[str, typer.Option(help="Column of 0/1 labels; rows without one are left out.")],
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    score: Annotated[
        str | None, typer.Option(help="Column with a model's probabilities on rows it was not trained on.")
    ] = None,
    groups: Annotated[list[str] | None, typer.Option(help="Column to be calibrated by category; repeatable.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to ignore; repeatable.")] = None,
    categorical: Annotated[list[str] | None, typer.Option(help="Column to read as categories; repeatable.")] = None,
    levels: Annotated[
        str, typer.Option(help="adaptive, or the grid of a theorem: multicalibration, omniprediction, agnostic.")
    ] = "adaptive",
    epsilon: Annotated[
        float | None, typer.Option(help="Refuse fewer rows than the theorem needs to promise this error.")
    ] = None,
    snapshots: Annotated[int, typer.Option(help="Forecasters kept, out of one per row.")] = 32,
    passes: Annotated[int, typer.Option(help="Times the rows are streamed; the theorems cover one.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the order of rows, folds and draws.")] = 0,
) -> None:
    """Fit swap-multicalibrated probabilities to a table, from features alone or around a model's score.

    The model file holds arrays and names, no code and no rows. Exit code 0 on success, 2 on bad input.
    """
    console = Console(stderr=True)
    try:
        settings = Settings(target=levels, epsilon=epsilon, snapshots=snapshots, passes=passes, seed=seed)
        scores = {score: "probability"} if score else {}
        roles = Roles(
            target,
            scores=scores,
            groups=tuple(groups or ()),
            categorical=tuple(categorical or ()),
            drop=tuple(drop or ()),
        )
        stream = read_stream(train, roles, skip=False)
        start = clock.perf_counter()
        model = _fit(stream, roles, settings, console)
        model.save(out)
    except (ValueError, TypeError, OSError, pa.ArrowException) as error:
        complain(console, "fit", error)
        raise typer.Exit(BAD_INPUT) from None
    seconds = clock.perf_counter() - start
    console.print(f"{model.rows:,} rows, {model.dim} coordinates in {seconds:.1f} s → {out}", highlight=False)
    console.print(str(model.certificate), highlight=False, soft_wrap=True)


def _fit(stream: Stream, roles: Roles, settings: Settings, console: Console) -> Model:
    labelled = ~np.isnan(stream.y)
    y = stream.y[labelled]
    if len(y) < 2 or y.min() == y.max():
        raise InputError(f"column {roles.target!r}: {len(y)} labels of one kind, expected both 0 and 1")
    features = stream.features.filter(pa.array(labelled))
    scores = None
    for name in roles.scores:
        scores = np.asarray(features[name].cast(pa.float64()).to_numpy(zero_copy_only=False))
        if np.isnan(scores).any():
            row = int(stream.rows[labelled][np.isnan(scores)][0])
            raise InputError(f"row {row}: no score in column {name!r}, expected a probability")
        features = features.drop_columns([name])
    with bar(console, "fitting", len(y) * settings.passes) as step:
        model = Model.fit(
            Table(plain(features)),
            y,
            scores,
            groups=list(roles.groups),
            settings=settings,
            progress=lambda rows: step(rows, None),
        )
    model.notes = {SCORE: next(iter(roles.scores), None), TYPES: types_of(features), TARGET: roles.target}
    return model
