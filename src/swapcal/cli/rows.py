"""Rows of a file as the commands want them: judged columns, model columns, pieces, a hashed sample."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit

from swapcal.arrays import Array, Integers, Keys
from swapcal.cli.progress import Run, bar
from swapcal.cli.stream_table import StreamTable
from swapcal.kernels.draw import row_marks
from swapcal.tables.delimited import Piece, in_order
from swapcal.tables.formats import Source
from swapcal.tables.frame import JudgedColumns
from swapcal.tables.outcomes import Positive, ReadAs, checked_outcomes, floats, probabilities, timed, within
from swapcal.tables.output import table_writer
from swapcal.tables.sources import Dialect, InputError
from swapcal.tables.values import text_key

# Columns that are judged: what `audit` and `monitor` read of forecasts and outcomes, checked row by row.


def kinds(columns: JudgedColumns, second: str | None = None) -> dict[str, ReadAs]:
    """Return what each column is read as, that of a second predictor too; numbers that are also groups stay numbers."""
    found = dict.fromkeys(columns.groups, ReadAs.text) | dict.fromkeys(columns.features, ReadAs.any)
    found |= {columns.clusters: ReadAs.text} if columns.clusters and columns.clusters not in found else {}
    found |= {columns.time: ReadAs.time} if columns.time else {}
    found |= {name: ReadAs.number for name in (columns.weights, *(columns.issued or ())) if name}
    return {**found, columns.target: ReadAs.raw, **dict.fromkeys(_probs(columns, second), ReadAs.number)}


def _probs(columns: JudgedColumns, second: str | None) -> list[str]:
    return [columns.prob] if second is None else [columns.prob, second]


def with_outcomes(
    piece: Piece, columns: JudgedColumns, positive: Positive | None, dialect: Dialect, second: str | None = None
) -> pa.Table:
    """Return the rows that have an outcome, their values checked while the rows' numbers are known."""
    table, first, target, probs = piece.table, piece.first, columns.target, _probs(columns, second)
    y = checked_outcomes(table[target], target, first, positive, dialect.decimal)
    for name in (*probs, *(columns.issued or ())):
        probabilities(table[name], name, first)
    for name in columns.features:
        if pa.types.is_floating(table[name].type):
            values = floats(table[name])
            within(values, name, first, "a finite number", ~np.isinf(values))
    if columns.weights:
        weights = floats(table[columns.weights])
        within(weights, columns.weights, first, "a positive number", (weights > 0.0) & np.isfinite(weights))
    if columns.time:
        times = timed(table[columns.time], columns.time, first, dialect.dates)
        if times.null_count:
            row = times.is_null().index(True).as_py()
            raise InputError(f"row {first + row}: column {columns.time!r}: given nothing, expected a time")
        table = table.set_column(table.column_names.index(columns.time), columns.time, times)
    if target not in probs:
        table = table.set_column(table.column_names.index(target), target, pa.array(y))
    return table.filter(pa.array(~np.isnan(y)))


# What `fit` and `predict` share: columns as the model wants them, and the notes in a model file.

SCORE, SCORE_KIND, TYPES, TARGET = "score", "score_kind", "types", "target"
"""Keys of a model's notes: the column of scores, what they are, each column's type in the file, the labels' column."""


def numbers_or_text(table: pa.Table) -> pa.Table:
    """Return the columns as numbers or text: times become seconds, truth values and dictionaries text."""
    for place, name in enumerate(table.column_names):
        column = table[name]
        if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
            hint = f"--categorical {name} reads it as text, --drop {name} leaves it out"
            raise InputError(
                f"column {name!r}: given {column.type}, expected numbers, text, truth values or dates; {hint}"
            )
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
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null, pa.types.is_decimal)
    return {
        field.name: "double" if any(test(field.type) for test in numbers) else str(field.type) for field in table.schema
    }


def kind_of(noted: str) -> ReadAs:
    """Return what to read a column as, given its type in the file that was fitted.

    Examples
    --------
    >>> [kind_of(noted).value for noted in ("double", "timestamp[us, tz=UTC]", "bool", "string")]
    ['number', 'time', 'truth', 'text']
    """
    if noted.startswith(("timestamp", "date", "time")):
        return ReadAs.time
    return {"double": ReadAs.number, "bool": ReadAs.truth}.get(noted, ReadAs.text)


def scores_of(column: Any, name: str, kind: str, first: int) -> Array:
    """Return a column of probabilities, or of logits, as probabilities."""
    if kind == "probability":
        return probabilities(column, name, first)
    logits = floats(column)
    scores: Array = expit(within(logits, name, first, "a logit", np.isfinite(logits)))
    return scores


def all_scores(column: Any, name: str, kind: str, rows: Integers) -> Array:
    """Return a column of scores as probabilities, none of them missing; its rows have these numbers in the file."""
    missing = np.isnan(floats(column))
    if missing.any():
        raise InputError(f"row {rows[missing][0]}: column {name!r}: given nothing, expected a {kind}")
    return scores_of(column, name, kind, 1)


# Pieces: a file is answered piece by piece, so that it may be larger than memory.


def beside(kept: Mapping[str, Any], made: Mapping[str, Any]) -> pa.Table:
    """Return columns of the file and columns of the answer as one table; no name may be in both."""
    for name in kept:
        if name in made:
            raise InputError(
                f"--keep: given {name!r}, expected none of the columns that are written: {', '.join(made)}"
            )
    return pa.table({**kept, **made})


def answer_pieces(
    source: Source,
    kinds: Mapping[str, ReadAs],
    out: str,
    doing: str,
    run: Run,
    answer: Callable[[Piece], pa.Table],
    jobs: int = 1,
) -> int:
    """Write the answer to each piece of the file; return the number of rows.

    With several jobs, threads answer several pieces at once; they are written in order all the same.
    """
    rows = 0
    with bar(run.console, doing) as shown, table_writer(out) as write:
        for piece, answered in in_order(lambda piece: (piece, answer(piece)), source.pieces(kinds, jobs), jobs):
            write(answered)
            rows += len(piece.table)
            shown.to(rows, piece.share)
            run.kept = f"{rows:,} rows were written" if out == "-" else f"{out} was not written"
    return rows


# `HashSample`: of many rows a random sample that is the same whatever the pieces they come in.


class HashSample:
    """At most so many rows: all, or those whose numbers have the smallest hashes, in their order."""

    def __init__(self, most: int, seed: int) -> None:
        self.seen = 0
        self._most, self._salt = most, np.array([text_key("sample", str(seed))], np.uint64)
        self._kept: list[tuple[StreamTable, Keys]] = []
        self._bound = np.uint64(2**64 - 1)

    def add(self, stream: StreamTable) -> None:
        """Add rows."""
        self.seen += len(stream.y)
        self._keep(stream, self._marks(stream.rows))
        if sum(len(marks) for _, marks in self._kept) > 2 * self._most:
            self._prune()

    def rows(self) -> StreamTable:
        """Return the rows that are kept."""
        if self.seen > self._most:
            self._prune()
        first, *others = (stream for stream, _ in self._kept)
        return replace(first, shown={}).joined(*others)

    def _marks(self, rows: Integers) -> Keys:
        nothing = np.zeros(1, np.uint64)
        return row_marks(rows.astype(np.float64)[:, None], self._salt, np.zeros((len(rows), 1), np.uint64), nothing)

    def _keep(self, stream: StreamTable, marks: Keys) -> None:
        some = marks <= self._bound
        if some.any():
            whole = bool(some.all())
            self._kept.append((stream if whole else stream.where(some), marks if whole else marks[some]))

    def _prune(self) -> None:
        every = np.concatenate([marks for _, marks in self._kept])
        if len(every) > self._most:
            self._bound = np.partition(every, self._most - 1)[self._most - 1]
        kept, self._kept = self._kept, []
        for stream, marks in kept:
            self._keep(stream, marks)
