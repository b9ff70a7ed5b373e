"""Batch: one lot of rows, checked once, ready to be added."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swapcal.arrays import Array, Keys, Places
from swapcal.tables.categories import Categories
from swapcal.tables.clock import are_dates, as_times
from swapcal.tables.table import Table, categories, is_table

NORM_SLACK = 1e-9
"""Contexts built in floating point may exceed norm 1 by rounding."""


LEAST_WEIGHT, MOST_WEIGHT = 1e-50, 1e50
"""Intervals square sums of squared weights: beyond these no sum of them stays a number."""


RAW = "raw features go through Audit.from_features"


@dataclass(frozen=True)
class Pseudo:
    """The issued distribution of each row: `high` with probability `weight`, else `low`."""

    low: Array
    high: Array
    weight: Array


@dataclass(frozen=True)
class Batch:
    """Checked rows: predictions, outcomes, contexts, weights, groups, times, issued distributions."""

    p: Array
    y: Array
    X: Array
    weights: Array
    groups: Mapping[str, Categories] = field(default_factory=dict)
    time: Array | None = None
    dated: bool = False
    pseudo: Pseudo | None = None
    marks: Keys | None = None
    """Hashes of the features that X was computed from; None where X itself was given."""

    def __len__(self) -> int:
        return len(self.p)

    @classmethod
    def check(
        cls,
        p: Any,
        y: Any,
        X: Any = None,
        *,
        groups: Any = None,
        weights: Any = None,
        low: Any = None,
        high: Any = None,
        weight: Any = None,
        time: Any = None,
        marks: Keys | None = None,
    ) -> "Batch":
        """Check every argument and raise before anything is used.

        Examples
        --------
        >>> Batch.check([0.2, 1.2], [0, 1])
        Traceback (most recent call last):
        ValueError: p: given 1.2 in row 2, expected numbers in [0, 1]
        """
        p = probabilities("p", p)
        rows = len(p)
        y = probabilities("y", y, rows)
        when, dated = times(time, rows)
        return cls(
            p=p,
            y=y,
            X=contexts(X, rows),
            weights=positive("weights", weights, rows),
            groups=memberships(groups, rows),
            time=when,
            dated=dated,
            pseudo=_pseudo(low, high, weight, rows),
            marks=marks,
        )


def vector(name: str, values: Any, rows: int | None = None) -> Array:
    """Return values as a finite float vector of the expected length."""
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: given {type(values).__name__} ({error}), expected numbers") from error
    if array.ndim != 1:
        raise ValueError(f"{name}: given shape {array.shape}, expected one dimension")
    if rows is not None and len(array) != rows:
        raise ValueError(f"{name}: given {len(array)} rows, expected {rows} like p")
    if not np.isfinite(array.sum()):  # a sum is finite exactly when nothing in it is missing or infinite
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            raise ValueError(f"{name}: given {_first(array, bad)}, expected finite numbers")
    return array


def probabilities(name: str, values: Any, rows: int | None = None) -> Array:
    """Return values as a vector in [0, 1]."""
    array = vector(name, values, rows)
    if len(array) and (array.min() < 0 or array.max() > 1):
        bad = np.flatnonzero((array < 0) | (array > 1))
        raise ValueError(f"{name}: given {_first(array, bad)}, expected numbers in [0, 1]")
    return array


def positive(name: str, values: Any, rows: int) -> Array:
    """Return weights, 1 for every row when absent."""
    if values is None:
        return np.ones(rows)
    array = vector(name, values, rows)
    if len(array) and array.min() <= 0:
        bad = np.flatnonzero(array <= 0)
        raise ValueError(f"{name}: given {_first(array, bad)}, expected positive numbers")
    if len(array) and (array.min() < LEAST_WEIGHT or array.max() > MOST_WEIGHT):
        bad = np.flatnonzero((array < LEAST_WEIGHT) | (array > MOST_WEIGHT))
        expected = f"numbers from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
        raise ValueError(f"{name}: given {_first(array, bad)}, expected {expected}")
    return array


def contexts(X: Any, rows: int) -> Array:
    """Return contexts with first coordinate ½ and norm at most 1; the constant alone when absent."""
    if X is None:
        return np.full((rows, 1), 0.5)
    array = np.ascontiguousarray(X, dtype=np.float64)
    if array.ndim != 2 or len(array) != rows or array.shape[1] < 1:
        raise ValueError(f"X: given shape {array.shape}, expected ({rows}, d)")
    if not np.isfinite(array.sum()) and not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"X: given {array[row, column]} in row {row + 1}, column {column + 1}, expected finite numbers"
        )
    if (array[:, 0] != 0.5).any():
        row = int(np.flatnonzero(array[:, 0] != 0.5)[0])
        raise ValueError(f"X: given a first coordinate of {array[row, 0]} in row {row + 1}, expected 0.5; {RAW}")
    squared = np.einsum("td,td->t", array, array)
    if rows and squared.max() > (1 + NORM_SLACK) ** 2:
        row = int(squared.argmax())
        raise ValueError(f"X: given norm {np.sqrt(squared[row]):.4g} in row {row + 1}, expected at most 1; {RAW}")
    return array


def memberships(groups: Any, rows: int) -> dict[str, Categories]:
    """Return categorical columns from a table, a mapping of columns, or one unnamed column."""
    if groups is None:
        return {}
    if is_table(groups):
        table = Table(groups)
        found = {name: table.categories(name) for name in table.columns}
    else:
        found = {"group": categories(groups)}
    for name, column in found.items():
        if len(column.codes) != rows:
            raise ValueError(f"groups[{name!r}]: given {len(column.codes)} rows, expected {rows} like p")
    return found


def times(values: Any, rows: int) -> tuple[Array | None, bool]:
    """Return times as numbers (dates as seconds since 1970) and whether they were dates."""
    if values is None:
        return None, False
    found = as_times("time", values)
    lost = np.flatnonzero(np.isnan(found))
    if lost.size:
        raise ValueError(f"time: given a missing value in row {lost[0] + 1}, expected known times")
    return vector("time", found, rows), bool(are_dates("time", values))


def _pseudo(low: Any, high: Any, weight: Any, rows: int) -> Pseudo | None:
    given = [value is not None for value in (low, high, weight)]
    if not any(given):
        return None
    if not all(given):
        raise ValueError("issued distribution: given a part of it, expected low, high and weight together")
    return Pseudo(
        probabilities("low", low, rows),
        probabilities("high", high, rows),
        probabilities("weight", weight, rows),
    )


def _first(array: Array, bad: Places) -> str:
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"{array[bad[0]]} in row {bad[0] + 1}{more}"
