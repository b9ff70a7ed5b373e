"""Crossing: intersections of two group columns, as a group column of their own."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from swapcal.audit.batch import Batch
from swapcal.tables.categories import Categories

SIGN = " × "


class Pair(NamedTuple):
    """Two group columns whose intersections are examined."""

    first: str
    second: str

    @property
    def name(self) -> str:
        """Name of the column of intersections."""
        return f"{self[0]}{SIGN}{self[1]}"


def pairs_of(declared: Sequence[str], intersections: int | None) -> list[Pair]:
    """Return the pairs of declared group columns to be crossed.

    Examples
    --------
    >>> [pair.name for pair in pairs_of(["sex", "age", "town"], 2)]
    ['sex × age', 'sex × town', 'age × town']
    >>> pairs_of(["sex"], None)
    []
    """
    if not intersections:
        return []
    if intersections != 2:
        raise ValueError(f"intersections: given {intersections}, expected 2, for pairs of group columns, or none")
    if len(set(declared)) < 2:
        raise ValueError(f"intersections: given {len(set(declared))} group columns, expected two or more")
    return [Pair(*pair) for pair in combinations(dict.fromkeys(declared), 2)]


def crossings(columns: Collection[str]) -> list[Pair]:
    """Return the pairs whose intersections are among some group columns."""
    return [pair for one in columns for two in columns if (pair := Pair(one, two)).name in columns]


def bases(column: str, columns: Collection[str]) -> set[str]:
    """Return the columns that a column is made of: itself, or the two that it crosses.

    Examples
    --------
    >>> sorted(bases("sex × age", ["sex", "age", "sex × age"]))
    ['age', 'sex']
    """
    return next((set(pair) for pair in crossings(columns) if pair.name == column), {column})


def cross(batch: Batch, pairs: Sequence[Pair]) -> Batch:
    """Return rows with the intersections of some of their group columns."""
    found = {pair.name: _product(batch.groups[pair.first], batch.groups[pair.second]) for pair in pairs}
    return replace(batch, groups={**batch.groups, **found}) if found else batch


def _product(first: Categories, second: Categories) -> Categories:
    codes = first.codes.astype(np.int64) * len(second.names) + second.codes
    present, place = np.unique(codes, return_inverse=True)
    names = [SIGN.join((first.names[k // len(second.names)], second.names[k % len(second.names)])) for k in present]
    return Categories(place.astype(np.int32), names)


def halves(category: str, first: Collection[str], second: Collection[str]) -> tuple[str, str] | None:
    """Return the two categories whose intersection has this name; None if there are none.

    Examples
    --------
    >>> halves("a × b × c", ["a", "b"], ["b × c"])
    ('a', 'b × c')
    """
    parts = category.split(SIGN)
    for k in range(1, len(parts)):
        found = SIGN.join(parts[:k]), SIGN.join(parts[k:])
        if found[0] in first and found[1] in second:
            return found
    return None
