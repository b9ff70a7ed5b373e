"""Encoder: raw features to contexts, and directions back to the user's names and units."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array
from swapcal.kernels.tally import fill
from swapcal.tables.categories import Categories
from swapcal.tables.table import Table

SPREAD = 3.0
"""Numeric features are clipped this many standard deviations from their mean: that bounds the norm."""

MOST_CATEGORIES = 32
"""Categories with a coordinate of their own per column, most frequent first; the others share one."""

OTHER = "(other)"
CHUNK = 8192

HUGE = 1e100
"""Numbers beyond this are scaled down before they are squared."""


class Coordinate(NamedTuple):
    """What one coordinate of a context means: x = factor · (raw − centre), or factor · 1[category]."""

    name: str
    factor: float
    centre: float
    unit: str | None


@dataclass(frozen=True)
class Column:
    """How one feature fills its coordinates: a number (and whether it is missing), or one-hot categories."""

    name: str
    centre: float
    spread: float
    missing: bool
    names: tuple[str, ...] | None
    other: bool

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return 1 + self.missing if self.names is None else len(self.names) + self.other


@dataclass(frozen=True)
class Encoder:
    """Feature columns to X = {x_1 = ½, ‖x‖ ≤ 1}, frozen on the rows it was learned from.

    Every column gets the same share s = √(3/4 / columns) of the norm: a number becomes s·z/3 with z its
    standard score clipped to ±3 (0 if missing, and then a second coordinate is s), a category becomes s in
    its own coordinate. Audits can be merged if they share the encoder.
    """

    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, table: Table, names: Sequence[str]) -> "Encoder":
        """Learn means, standard deviations and categories.

        Examples
        --------
        >>> table = Table({"age": [20.0, 40.0], "city": ["Rome", "Bari"]})
        >>> Encoder.learn(table, ["age", "city"]).encode(table).round(3)
        array([[ 0.5  , -0.204,  0.   ,  0.612],
               [ 0.5  ,  0.204,  0.612,  0.   ]])
        """
        table.require(names)
        return cls(tuple(_learn_column(table, name) for name in names))

    @property
    def share(self) -> float:
        """Largest norm of one column's coordinates."""
        return float(np.sqrt(0.75 / max(1, len(self.columns))))

    @property
    def coordinates(self) -> list[Coordinate]:
        """Meaning of every coordinate, the constant first."""
        found = [Coordinate("constant", 0.5, 0.0, None)]
        for column in self.columns:
            found += self._meanings(column)
        return found

    def _meanings(self, column: Column) -> list[Coordinate]:
        if column.names is not None:
            names = [*column.names, OTHER] if column.other else [*column.names]
            return [Coordinate(f"{column.name} = {name}", self.share, 0.0, None) for name in names]
        unit = f"per unit of {column.name}"
        numeric = Coordinate(column.name, self._factor(column), column.centre, unit)
        absent = Coordinate(f"{column.name} missing", self.share, 0.0, None)
        return [numeric, absent] if column.missing else [numeric]

    def _factor(self, column: Column) -> float:
        return self.share / (SPREAD * column.spread) if column.spread > 0 else 0.0

    def encode(self, table: Table) -> Array:
        """Return the contexts (rows, d) of the table's rows."""
        X = np.zeros((len(table), len(self.coordinates)))
        X[:, 0] = 0.5
        start = 1
        numeric: list[tuple[int, Column, Array]] = []
        for column in self.columns:
            if column.names is None:
                numeric.append((start, column, table.numbers(column.name)))
            else:
                self._one_hot(column, table.categories(column.name), X[:, start : start + column.width])
            start += column.width
        self._fill(numeric, X)
        return X

    def _fill(self, numeric: list[tuple[int, Column, Array]], X: Array) -> None:
        """Fill numeric coordinates a chunk of rows at a time, so that the rows written stay in the cache."""
        for begin in range(0, len(X), CHUNK):
            rows = slice(begin, begin + CHUNK)
            for start, column, values in numeric:
                fill(values[rows], column.centre, self._factor(column), self.share, X[rows, start])
        for start, column, values in numeric:
            if column.missing:
                X[np.isnan(values), start + 1] = self.share

    def _one_hot(self, column: Column, found: Categories, block: Array) -> None:
        assert column.names is not None
        place = {name: i for i, name in enumerate(column.names)}
        rest = len(column.names) if column.other else -1
        target = np.array([place.get(name, rest) for name in found.names], dtype=np.intp)
        if not len(found.codes):
            return
        code = target[found.codes]
        known = np.flatnonzero(code >= 0)
        block[known, code[known]] = self.share

    def marks(self, table: Table) -> NDArray[np.uint64]:
        """Return a hash of each row's features as given; categories are hashed as groups."""
        return table.marks([column.name for column in self.columns if column.names is None])

    def categorical(self) -> list[str]:
        """Names of the columns that hold categories."""
        return [column.name for column in self.columns if column.names is not None]


def _learn_column(table: Table, name: str) -> Column:
    if table.is_numeric(name):
        values = table.numbers(name)
        present = values[~np.isnan(values)]
        if np.isinf(present).any():
            raise ValueError(f"feature {name!r} must be finite, got {present[np.isinf(present)][0]}")
        centre, spread = _location(present)
        constant = spread <= 1e-12 * max(1.0, abs(centre))  # rounding leaves a constant a tiny spread
        return Column(name, centre, 0.0 if constant else spread, len(present) < len(values), None, False)
    found = table.categories(name)
    counts = np.bincount(found.codes, minlength=len(found.names))
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    names = tuple(found.names[i] for i in kept)
    return Column(name, 0.0, 0.0, False, names, len(names) < len(found.names))


def _location(values: Array) -> tuple[float, float]:
    """Return mean and standard deviation, (0, 0) of nothing; squares of huge numbers must not overflow.

    Examples
    --------
    >>> _location(np.array([1e300, 3e300]))
    (2e+300, 1e+300)
    """
    if not len(values):
        return 0.0, 0.0
    largest = float(np.abs(values).max())
    unit = 2.0 ** np.floor(np.log2(largest)) if largest > HUGE else 1.0
    scaled = values / unit
    return float(unit * scaled.mean()), float(unit * scaled.std())
