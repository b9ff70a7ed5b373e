"""Encoder: raw features to contexts, and directions back to the user's names and units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Keys
from swapcal.audit.batch import Batch
from swapcal.features.category import Category
from swapcal.features.frozen import Frozen
from swapcal.features.number import Number
from swapcal.features.scales import Scales
from swapcal.kernels.tally import fill
from swapcal.tables.categories import AUDITED_CATEGORIES
from swapcal.tables.table import Table
from swapcal.tables.values import OTHER

SPREAD = 3.0
"""Numeric features are clipped this many standard deviations from their mean: that bounds the norm."""

CHUNK = 8192


class Coordinate(NamedTuple):
    """What one coordinate of a context means: x = factor · (raw − centre), or factor · 1[category]."""

    name: str
    factor: float
    centre: float
    unit: str | None


@dataclass(frozen=True)
class Encoder:
    """Feature columns to X = {x_1 = ½, ‖x‖ ≤ 1}, frozen on the rows it was learned from.

    Every column gets the same share s = √(3/4 / columns) of the norm: a number becomes s·z/3 with z its
    standard score clipped to ±3 (0 if missing, and then a second coordinate is s), a category becomes s in
    its own coordinate. Audits can be merged if they share the encoder.
    """

    columns: tuple[Number | Category, ...]

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
        return cls(Frozen.learn(table, columns=names, categories=AUDITED_CATEGORIES, rare=0).columns)

    @classmethod
    def of(cls, scales: Scales) -> "Encoder":
        """Return the encoder that `learn` would learn from all the tables whose scales these are, but for rounding."""
        return cls(scales.columns(AUDITED_CATEGORIES))

    @property
    def share(self) -> float:
        """Largest norm of one column's coordinates."""
        return float(np.sqrt(0.75 / max(1, len(self.columns))))

    @property
    def coordinates(self) -> list[Coordinate]:
        """Meaning of every coordinate, the constant first."""
        meanings = [meaning for column in self.columns for meaning in self._meanings(column)]
        return [Coordinate("constant", 0.5, 0.0, None), *meanings]

    def _meanings(self, column: Number | Category) -> list[Coordinate]:
        if isinstance(column, Category):
            return [Coordinate(label, self.share, 0.0, None) for label in column.labels(other=f"= {OTHER}")]
        name = str(column.name)
        numeric = Coordinate(name, self._factor(column), column.centre, f"per unit of {name}")
        return [numeric, *([Coordinate(f"{name} missing", self.share, 0.0, None)] if column.missing else [])]

    def _factor(self, number: Number) -> float:
        return self.share / (SPREAD * number.spread)

    def encode(self, table: Table) -> Array:
        """Return the contexts (rows, d) of the table's rows."""
        X = np.zeros((len(table), len(self.coordinates)))
        X[:, 0] = 0.5
        start = 1
        numeric: list[tuple[int, Number, Array]] = []
        for column in self.columns:
            if isinstance(column, Category):
                codes = column.codes(table)
                known = np.flatnonzero(codes >= 0)
                X[known, start + codes[known]] = self.share
                start += column.size
            else:
                numeric.append((start, column, table.numbers(str(column.name))))
                start += 1 + column.missing
        self._fill(numeric, X)
        return X

    def _fill(self, numeric: list[tuple[int, Number, Array]], X: Array) -> None:
        """Fill numeric coordinates a chunk of rows at a time, so that the rows written stay in the cache."""
        for begin in range(0, len(X), CHUNK):
            rows = slice(begin, begin + CHUNK)
            for start, number, values in numeric:
                fill(values[rows], number.centre, self._factor(number), self.share, X[rows, start])
        for start, number, values in numeric:
            if number.missing:
                X[np.isnan(values), start + 1] = self.share

    def batch(self, table: Table, columns: Mapping[str, Any]) -> Batch:
        """Return the rows of a table of features whose other columns are arrays by name, checked."""
        return Batch.check(**columns, X=self.encode(table), marks=self.marks(table))

    def grouped(self, batch: Batch, table: Table) -> Batch:
        """Return rows with the categorical features of a table as groups as well."""
        features = {name: table.categories(name) for name in self.categorical()}
        return replace(batch, groups={**features, **batch.groups})

    def marks(self, table: Table) -> Keys:
        """Return a hash of each row's features as given; categories are hashed as groups."""
        return table.marks([str(column.name) for column in self.columns if isinstance(column, Number)])

    def categorical(self) -> list[str]:
        """Names of the columns that hold categories."""
        return [str(column.name) for column in self.columns if isinstance(column, Category)]
