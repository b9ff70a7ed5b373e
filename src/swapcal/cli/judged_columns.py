"""Columns that are judged: what `audit` and `monitor` read of forecasts and outcomes, checked row by row."""

from typing import Any

import numpy as np
import pyarrow as pa

from swapcal.tables.dialect import Dialect, InputError
from swapcal.tables.kinds import ReadAs, floats, probabilities, timed, within
from swapcal.tables.outcomes import checked_outcomes
from swapcal.tables.positive import Positive
from swapcal.tables.source import FilePart


def kinds(names: dict[str, Any]) -> dict[str, ReadAs]:
    """Return what each column is read as; numbers that are also groups stay numbers."""
    kinds = dict.fromkeys(names["groups"], ReadAs.text) | dict.fromkeys(names["features"], ReadAs.any)
    kinds |= {names["time"]: ReadAs.time} if names["time"] else {}
    kinds |= {name: ReadAs.number for name in (names["weights"], *(names["issued"] or ())) if name}
    return {**kinds, names["target"]: ReadAs.raw, **dict.fromkeys(names["probs"], ReadAs.number)}


def with_outcomes(part: FilePart, names: dict[str, Any], positive: Positive | None, dialect: Dialect) -> pa.Table:
    """Return the rows that have an outcome, their values checked while the rows' numbers are known."""
    table, first = part.table, part.first
    found = checked_outcomes(table[names["target"]], names["target"], first, positive, dialect.decimal)
    for name in (*names["probs"], *(names["issued"] or ())):
        probabilities(table[name], name, first)
    for name in names["features"]:
        if pa.types.is_floating(table[name].type):
            values = floats(table[name])
            within(values, name, first, "a finite number", ~np.isinf(values))
    if names["weights"]:
        weights = floats(table[names["weights"]])
        within(weights, names["weights"], first, "a positive number", (weights > 0.0) & np.isfinite(weights))
    if names["time"]:
        times = timed(table[names["time"]], names["time"], first, dialect.dates)
        if times.null_count:
            row = times.is_null().index(True).as_py()
            raise InputError(f"row {first + row}: column {names['time']!r}: given nothing, expected a time")
        table = table.set_column(table.column_names.index(names["time"]), names["time"], times)
    if names["target"] not in names["probs"]:
        table = table.set_column(table.column_names.index(names["target"]), names["target"], pa.array(found))
    return table.filter(pa.array(~np.isnan(found)))
