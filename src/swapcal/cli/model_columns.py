"""What `fit` and `predict` share: columns as the model wants them, and the notes in a model file."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import expit

from swapcal.arrays import Array, Integers
from swapcal.tables.dialect import InputError
from swapcal.tables.kinds import ReadAs, floats, probabilities, within

SCORE, SCORE_KIND, TYPES, TARGET = "score", "score_kind", "types", "target"
"""Keys of a model's notes: the column of scores, what they are, each column's type in the file, the labels' column."""


def plain(table: pa.Table) -> pa.Table:
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
    found: Array = expit(within(logits, name, first, "a logit", np.isfinite(logits)))
    return found


def all_scores(column: Any, name: str, kind: str, rows: Integers) -> Array:
    """Return a column of scores as probabilities, none of them missing; its rows have these numbers in the file."""
    missing = np.isnan(floats(column))
    if missing.any():
        raise InputError(f"row {rows[missing][0]}: column {name!r}: given nothing, expected a {kind}")
    return scores_of(column, name, kind, 1)
