"""`swapcal fit` and `swapcal predict`: a table in, a model out; a model and a table in, a probability per row out."""

import time as clock
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import typer

from swapcal.arrays import Array, Keys
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.cli import options
from swapcal.cli.forecasting import losses
from swapcal.cli.options import OnBadRow, listed, scored
from swapcal.cli.progress import Facts, ForecastScore, Run, bar, running
from swapcal.cli.rows import (
    GROUPS,
    POSITIVE,
    SCORE,
    SCORE_KIND,
    SPELT,
    TARGET,
    TYPES,
    ColumnDoubts,
    GroupGaps,
    HashSample,
    OutcomeTimes,
    all_scores,
    answer_pieces,
    beside,
    columns_used,
    kind_of,
    numbers_or_text,
    scores_of,
    types_of,
)
from swapcal.cli.stream_table import Roles, StreamReader, StreamTable
from swapcal.features.sources import keys_of
from swapcal.tables.delimited import Piece
from swapcal.tables.dialect import Dialect
from swapcal.tables.formats import Source
from swapcal.tables.frame import Table
from swapcal.tables.outcomes import Positive, ReadAs, outcomes, timed
from swapcal.tables.output import protect
from swapcal.tables.sources import InputError

ROOM, FEWEST = 3_500_000, 50_000
"""Values that are fitted in about a gigabyte; and rows that are always fitted, for any number of columns."""


@options.reads_text
def fit(
    file: options.File,
    text: options.DatedText,
    printing: options.Printing,
    target: options.Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model file to write.")],
    score: Annotated[
        str | None, typer.Option(help="Column with a model's out-of-sample probabilities (name:logit for logits).")
    ] = None,
    groups: options.Groups = None,
    drop: options.Drop = None,
    keep_column: options.KeepColumn = None,
    numeric: options.Numeric = None,
    categorical: options.Categorical = None,
    levels: Annotated[
        str, typer.Option(help="adaptive; or, for research, a theorem's: multicalibration, omniprediction, agnostic.")
    ] = "adaptive",
    epsilon: Annotated[
        float | None, typer.Option(help="Refuse fewer rows than the theorem needs to guarantee this error.")
    ] = None,
    correction: Annotated[
        str,
        typer.Option(help="Of the score, first: linear, trees (LightGBM), none, or auto: trees if installed."),
    ] = "auto",
    snapshots: Annotated[int, typer.Option(help="Forecasters whose mean is predicted, out of one per row.")] = 16,
    all_rounds: Annotated[
        bool, typer.Option("--all-rounds", help="Keep all rounds for predict --mode sample and hash; a larger file.")
    ] = False,
    passes: Annotated[int, typer.Option(help="Times the rows are streamed; the theorems cover one.")] = 1,
    rows: Annotated[
        int | None, typer.Option(min=2, help="Most rows to fit, else a sample; default: about a gigabyte.")
    ] = None,
    jobs: options.Jobs = None,
    on_bad_row: options.BadRow = OnBadRow.stop,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample, the order of rows, folds and draws.")] = 0,
    positive: options.Positive = None,
    details: options.Details = False,
) -> None:
    """Fit a model whose probabilities hold for every group, from a table alone or around another model's score.

    Prints the columns used, the Brier score and log loss of forecasts made before each row's outcome was used, beside
    those of the score as given and of the base rate, and the groups with the largest gaps.

    The model file holds arrays and names, no code and no rows. Rows without an outcome are left out and counted. Rows
    in messages count from 1, without the header. The file is read in pieces; of one with more rows than --rows, those
    are fitted whose numbers have the smallest hashes: a random sample, always the same. Column types are detected
    from the first 64 MiB. Exit code 0 on success, 2 on bad input.
    """
    with running("fit", printing) as run, text.open(file) as source:
        protect([file], {"--out": out, "--json": printing.json_file})
        settings = FitSettings(
            target=levels,
            epsilon=epsilon,
            snapshots=snapshots,
            passes=passes,
            seed=seed,
            correction=correction,
            log=all_rounds,
        )
        roles = Roles(
            target,
            scores=scored([score] if score else None, source.columns),
            groups=tuple(listed(groups, source.columns)),
            numeric=tuple(listed(numeric, source.columns)),
            categorical=tuple(listed(categorical, source.columns)),
            drop=tuple(listed(drop, source.columns)),
            used=tuple(listed(keep_column, source.columns)),
        )
        if not set(source.columns) - {target, *roles.drop}:
            raise InputError(f"{source.name}: given no column beside {target!r}, expected some to learn from")
        skip = on_bad_row is OnBadRow.skip
        positive_value = options.positive_in(target, positive, source)
        reader = StreamReader(
            source, roles, skip=skip, positive=positive_value, jobs=options.threads(jobs), outcomes_only=True
        )
        stream = _sample(reader, rows or max(FEWEST, ROOM // len(source.columns)), seed, run)
        start = clock.perf_counter()
        known = stream.labelled(target, run)
        run.step(f"{file}: {len(known.y):,} rows with an outcome read")
        numbers_or_text(known.features)  # refuses what a model cannot hold
        doubts = ColumnDoubts.of(known.features.drop_columns([*roles.scores]), known.y, roles.chosen())
        known = replace(known, features=known.features.drop_columns([*doubts.unused]))
        model = _fit(known, roles, settings, run)
        run.step(f"{model.dim} coordinates fitted")
        model.notes |= {GROUPS: [*roles.groups], POSITIVE: positive}
        model.notes[SPELT] = _spelt(source.as_numbers(roles.kinds()), {*model.notes[TYPES], *roles.scores})
        model.save(out)
        run.kept = f"{out} is written"
        reader.say_skipped(run)
        _say_doubts(known, doubts, run)
        facts = _facts(model, known, roles, doubts)
        facts.file, facts.written = file, {"model": str(out)}
        facts.next = f"swapcal predict {quote(str(out))} NEW_FILE --out predictions.csv"
        facts.seconds = clock.perf_counter() - start
        facts.details = str(model.certificate).splitlines() if details else ()
        facts.tell(run)
        facts.end(run)


def _spelt(dialect: Dialect, used: set[str]) -> dict[str, list[str]]:
    """Return the columns of percentages and of amounts, which the file to predict will have too."""
    return {sign: [name for name in getattr(dialect, sign) if name in used] for sign in ("percent", "currency")}


def _facts(model: Model, known: StreamTable, roles: Roles, doubts: ColumnDoubts) -> Facts:
    """Return what was fitted, and how well it forecasts rows whose outcomes it has not used."""
    features, y = known.features, known.y
    assert model.held_out is not None, "it was fitted just now"
    some = np.isfinite(model.held_out)
    y, p, gaps = y[some], model.held_out[some], GroupGaps(roles.groups)
    gaps.add(features.filter(pa.array(some)), p, y)
    own, constant = gaps.scored("swapcal, out of fold")
    given = []
    for name, kind in roles.scores.items():
        squares, logs = losses(all_scores(features[name], name, kind, known.rows)[some, None], y)
        given.append(ForecastScore(f"{name}, as given", float(squares[0]) / len(y), float(logs[0]) / len(y)))
    return Facts(
        "fit", "", len(known.y), base_rate=float(known.y.mean()), columns=columns_used(roles, model.notes[TYPES]),
        left_out=doubts.unused | dict.fromkeys(roles.drop, "--drop"), scores=[own, *given, constant],
        scored_on="out of fold: each row is forecast by a fit to other rows",
        groups=gaps.largest_first(), small=gaps.small(),
    )  # fmt: skip


def _say_doubts(stream: StreamTable, doubts: ColumnDoubts, run: Run) -> None:
    """Print which columns look like leaks, and periods with one outcome only, by the first column of dates."""
    for text in doubts.leaks.values():
        run.say(f"Warning: {text}", "red")
    if doubts.dates:
        when = OutcomeTimes()
        when.add(stream.y, Table(stream.features).raw(doubts.dates[0]))
        when.say(run)


def _sample(reader: StreamReader, most: int, seed: int, run: Run) -> StreamTable:
    """Return all rows of a file, or a sample of them, which is reported."""
    sampled = HashSample(most, seed)
    with bar(run.console, "reading") as shown:
        for read in reader:
            sampled.add(read)
            shown.to(reader.seen, reader.share)
    if reader.positive is not None:
        reader.positive.require()
    if sampled.seen > most:
        run.say(f"fitting {most:,} of {sampled.seen:,} rows, sampled by a hash of their numbers (--rows)", "yellow")
    return sampled.rows()


def _fit(stream: StreamTable, roles: Roles, settings: FitSettings, run: Run) -> Model:
    features, y, scores = stream.features, stream.y, None
    for name, kind in roles.scores.items():
        scores = all_scores(features[name], name, kind, stream.rows)
        features = features.drop_columns([name])
    with bar(run.console, "fitting") as shown:
        done, total = 0, len(y) * settings.passes

        def step(rows: int) -> None:
            nonlocal done
            done += rows
            shown.to(done, min(1.0, done / total))

        model = Model.fit(
            Table(numbers_or_text(features)), y, scores, groups=list(roles.groups), settings=settings, progress=step
        )
    scored_by, meaning = next(iter(roles.scores.items()), (None, "probability"))
    model.notes = {SCORE: scored_by, SCORE_KIND: meaning, TYPES: types_of(features), TARGET: roles.target}
    return model


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
            quality = Quality(fitted, source)
            rows = _run(fitted, source, out, draw, kept, options.threads(jobs), run, quality)
            noted, target = fitted.notes[TYPES], fitted.notes.get(TARGET)
            used = {name: noted[name] for name in source.columns if name in noted}
            scores = {fitted.notes[SCORE]: "probability"} if fitted.notes.get(SCORE) else {}
            facts = Facts("predict", source.name, rows, seconds=clock.perf_counter() - start)
            facts.columns = columns_used(Roles("", scores=scores), used)
            quality.enter(facts)
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


class Quality:
    """How good predictions are, where the file has the outcomes too."""

    def __init__(self, model: Model, source: Source) -> None:
        self._types, self._gaps = [*model.notes[TYPES]], GroupGaps(model.notes.get(GROUPS, ()))
        self.target, self._decimal = str(model.notes.get(TARGET, "")), source.dialect.decimal
        self._positive, self._drawn = model.notes.get(POSITIVE), False
        self.reads = POSITIVE in model.notes and self.target in source.columns
        """whether the file has outcomes so far, and the model a note of the value that counts as 1"""

    def judge(self, piece: Piece, answered: pa.Table) -> None:
        """Add the rows of a piece that have an outcome; a value that is no outcome ends it."""
        if self.reads:
            positive = None if self._positive is None else Positive(self._positive, self.target, self._decimal)
            y, wrong = outcomes(piece.table[self.target], positive, self._decimal)
            self.reads = not wrong.any()
            self._drawn = "p" in answered.column_names
            self._gaps.add(piece.table.select(self._types), answered["p" if self._drawn else "mean"].to_numpy(), y)

    def enter(self, facts: Facts) -> None:
        """Enter the figures, if all outcomes could be read."""
        if self.reads and self._gaps.labelled:
            facts.base_rate = self._gaps.base_rate
            facts.scores = self._gaps.scored("swapcal, drawn levels" if self._drawn else "swapcal")
            facts.scored_on = f"outcomes in column {self.target!r}; rows that were fitted flatter the model"
            facts.groups, facts.small = self._gaps.largest_first(), self._gaps.small()


def _run(
    model: Model, source: Source, out: str, draw: Draw, keep: list[str], jobs: int, run: Run, quality: Quality
) -> int:
    kinds = {quality.target: ReadAs.raw} if quality.reads else dict[str, ReadAs]()
    kinds |= dict.fromkeys(keep, ReadAs.raw) | {name: kind_of(noted) for name, noted in model.notes[TYPES].items()}
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

    return answer_pieces(source, kinds, out, "predicting", run, answer, jobs, quality.judge)


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
