"""Survey: means, standard deviations and categories of columns, additive, and the encoding they determine."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.audit.encode import MOST_CATEGORIES, Encoder
from swapcal.features.category import Category, most_frequent
from swapcal.features.number import Number, location, scale
from swapcal.tables.table import Table


class Moments(NamedTuple):
    """Rows with a number and without, and mean and standard deviation of the numbers."""

    present: int
    absent: int
    mean: float
    spread: float

    @classmethod
    def of(cls, values: Array) -> "Moments":
        """Return those of some values, NaN where missing."""
        present = values[~np.isnan(values)]
        return cls(len(present), len(values) - len(present), *location(present))

    def __add__(self, other: object) -> "Moments":
        assert isinstance(other, Moments)
        n = max(1, self.present + other.present)
        own, theirs = self.present / n, other.present / n
        apart = math.sqrt(own * theirs) * (other.mean - self.mean)
        spread = math.hypot(math.sqrt(own) * self.spread, math.sqrt(theirs) * other.spread, apart)
        mean = own * self.mean + theirs * other.mean
        return Moments(self.present + other.present, self.absent + other.absent, mean, spread)


Summary = Moments | Counter[str]


class Survey(NamedTuple):
    """One summary for each column, in order."""

    columns: dict[str, Summary]

    @classmethod
    def of(cls, table: Table, names: Sequence[str]) -> "Survey":
        """Summarise columns of a table."""
        return cls({name: _summary(table, name) for name in names})

    def __add__(self, other: object) -> "Survey":
        assert isinstance(other, Survey)
        return Survey({name: _sum(own, other.columns[name]) for name, own in self.columns.items()})

    @property
    def encoder(self) -> Encoder:
        """The encoding, which is that of `Encoder.learn` on all rows up to rounding."""
        return Encoder(tuple(_learned(name, summary) for name, summary in self.columns.items()))


def _summary(table: Table, name: str) -> Summary:
    if table.is_numeric(name):
        return Moments.of(table.numbers(name))
    found = table.categories(name)
    counts = np.bincount(found.codes, minlength=len(found.names)).tolist()
    return Counter(dict(zip(found.names, counts, strict=True)))


def _sum(one: Summary, other: Summary) -> Summary:
    if isinstance(one, Moments):
        return one + other
    assert isinstance(other, Counter)
    return one + other


def _learned(name: str, summary: Summary) -> Number | Category:
    if isinstance(summary, Moments):
        return scale(name, summary.mean, summary.spread, summary.absent > 0)
    names = sorted(summary)
    return most_frequent(name, names, np.array([summary[text] for text in names]), MOST_CATEGORIES, rare=0)
