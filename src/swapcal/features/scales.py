"""Scales: means, spreads and categories of columns, learned part by part; parts add up."""

import math
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from swapcal.features.category import Category, most_frequent
from swapcal.features.number import Number, location, numbered, refuse_infinite
from swapcal.tables.table import Table
from swapcal.tables.values import MISSING

MOST_TEXTS = 1 << 20
"""Distinct texts counted at most; beyond, the rarer half is forgotten, and a late favourite may be undercounted."""


@dataclass
class Scale:
    """What was seen of one column: how many numbers, their mean and standard deviation; how often each text."""

    count: int = 0
    centre: float = 0.0
    spread: float = 0.0
    missing: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    numeric: bool = False
    """whether it was a column of numbers, if only of missing ones"""

    @classmethod
    def of(cls, table: Table, name: str) -> Self:
        """Return the scale of a table's column."""
        if table.is_numeric(name):
            values = table.numbers(name)
            refuse_infinite(name, values)
            present = values[~np.isnan(values)]
            return cls(len(present), *location(present), len(values) - len(present), numeric=True)
        found = table.categories(name)
        counts = np.bincount(found.codes, minlength=len(found.names)).tolist()
        texts = Counter(dict(zip(found.names, counts, strict=True)))
        return cls(missing=texts.pop(MISSING, 0), texts=texts)

    def merge(self, other: "Scale", name: str) -> None:
        """Add what was seen elsewhere; numbers and texts do not mix."""
        if (self.count and other.texts) or (self.texts and other.count):
            raise TypeError(f"column {name!r}: given text and numbers, expected one type")
        self.numeric |= other.numeric
        n, self.missing = self.count + other.count, self.missing + other.missing
        if other.count:
            ours, theirs, apart = self.count / n, other.count / n, other.centre - self.centre
            between = apart * math.sqrt(ours * theirs)  # hypot: squares might overflow
            self.spread = math.hypot(self.spread * math.sqrt(ours), other.spread * math.sqrt(theirs), between)
            self.count, self.centre = n, self.centre + apart * theirs
        self.texts.update(other.texts)
        if len(self.texts) > MOST_TEXTS:
            self.texts = Counter(dict(self.texts.most_common(MOST_TEXTS // 2)))


class Scales:
    """The scales of some columns of a table, or of several tables one after the other.

    Examples
    --------
    >>> first, second = Table({"age": [20.0, 40.0]}), Table({"age": [60.0]})
    >>> scales = Scales.of(first, ["age"])
    >>> scales.merge(Scales.of(second, ["age"]))
    >>> number, = scales.columns(most=32)
    >>> number.centre, round(number.spread, 3)
    (40.0, 16.33)
    """

    def __init__(self, scales: dict[str, Scale]) -> None:
        self._scales = scales

    @classmethod
    def of(cls, table: Table, names: Sequence[str]) -> Self:
        """Return the scales of a table's columns."""
        return cls({name: Scale.of(table, name) for name in names})

    def merge(self, other: "Scales") -> None:
        """Add what another table holds."""
        for name, scale in self._scales.items():
            scale.merge(other._scales[name], name)

    def __add__(self, other: "Scales") -> "Scales":
        """Return what both tables hold together."""
        made = deepcopy(self)
        made.merge(other)
        return made

    def columns(self, most: int) -> tuple[Number | Category, ...]:
        """Return each column as it would be learned from all tables at once; texts keep the most frequent."""
        return tuple(self._column(name, scale, most) for name, scale in self._scales.items())

    @staticmethod
    def _column(name: str, scale: Scale, most: int) -> Number | Category:
        if scale.count or (scale.numeric and not scale.texts):
            return numbered(name, scale.centre, scale.spread, missing=scale.missing > 0)
        texts = scale.texts | ({MISSING: scale.missing} if scale.missing else {})
        names = sorted(texts)
        return most_frequent(name, names, np.array([texts[text] for text in names]), most, rare=0)
