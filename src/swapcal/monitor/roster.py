"""Roster: the groups met so far, numbered in order of appearance, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Integers
from swapcal.bounds import appearance_share
from swapcal.tables.categories import Categories, factorise
from swapcal.tables.table import Table
from swapcal.tables.values import OTHER

ALL = "all rows"
"""Name of the group that holds every row."""

Column = tuple[str, ...]


class Group(NamedTuple):
    """One category of a column, or of a product of two."""

    column: Column
    category: tuple[str, ...]
    share: float
    """Its share of the column's budget."""

    @property
    def name(self) -> str:
        """As shown to people."""
        if not self.column:
            return ALL
        if self.category == (OTHER,):
            return f"{' × '.join(self.column)} = {OTHER}"
        return " and ".join(f"{c} = {v}" for c, v in zip(self.column, self.category, strict=True))


Newcomer = tuple[int, tuple[str, ...]]


class Placed(NamedTuple):
    """Rows by group, and the groups among them that are not on the roster yet, numbered as if they were."""

    members: Integers
    newcomers: list[Newcomer]


@dataclass
class Roster:
    """Columns and their categories; `most` categories per column, then all further ones are one."""

    columns: tuple[Column, ...]
    most: int
    groups: list[Group] = field(default_factory=list)
    seen: list[dict[tuple[str, ...], int]] = field(default_factory=list)
    _spelled: dict[tuple[type, Any], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.seen:
            self.seen = [{} for _ in self.columns]

    @property
    def wanted(self) -> list[str]:
        """Columns of the records that are read."""
        return list(dict.fromkeys(name for column in self.columns for name in column))

    def admit(self, newcomers: Sequence[Newcomer], share: "float | None" = None) -> None:
        """Put groups on the roster; the share of one that is not given follows its order of appearance."""
        for position, category in newcomers:
            order = len(self.seen[position]) + 1
            self.seen[position][category] = len(self.groups)
            given = float(appearance_share(order)) if share is None else share
            self.groups.append(Group(self.columns[position], category, given))

    def place(self, records: Any, rows: int) -> Placed:
        """Find every row's groups; nothing is admitted yet."""
        table = Table(records)
        table.require(self.wanted)
        if self.wanted and len(table) != rows:
            raise ValueError(f"records: given {len(table)} rows, expected {rows}, one per forecast")
        found = {name: table.categories(name) for name in self.wanted}
        return self._numbered([_crossed([found[name] for name in column], rows) for column in self.columns], rows)

    def place_each(self, records: list[Any], rows: int) -> Placed:
        """Find every record's groups, by dictionary alone unless one of them is new."""
        if len(records) != rows:
            raise ValueError(f"records: given {len(records)} rows, expected {rows}, one per forecast")
        for row, record in enumerate(records, 1):
            if not isinstance(record, Mapping):
                raise TypeError(f"records: given {type(record).__name__} in row {row}, expected a mapping of values")
        members = [self._seen(record) for record in records]
        if all(found is not None for found in members):
            return Placed(np.array(members, dtype=np.int64).reshape(rows, len(self.columns)), [])
        return self.place({name: [record.get(name) for record in records] for name in self.wanted}, rows)

    def _seen(self, record: Mapping[str, Any]) -> list[int] | None:
        """Return a record's groups if all of them are on the roster."""
        names = {name: self._spell(name, record) for name in self.wanted}
        members = [
            self.seen[position].get(tuple(names[name] for name in column), -1)
            for position, column in enumerate(self.columns)
        ]
        return None if min(members) < 0 else members

    def place_one(self, record: Mapping[str, Any]) -> Placed:
        """Find one record's groups, by dictionary alone unless one of them is new."""
        names = {name: self._spell(name, record) for name in self.wanted}
        chosen = [tuple(names[name] for name in column) for column in self.columns]
        members = [self.seen[position].get(category, -1) for position, category in enumerate(chosen)]
        if min(members) >= 0:
            return Placed(np.array([members], dtype=np.int64), [])
        return self._numbered([(np.zeros(1, np.int64), [category]) for category in chosen], 1)

    def _spell(self, name: str, record: Mapping[str, Any]) -> str:
        if name not in record:
            Table({key: [value] for key, value in record.items()}).require([name])
        value = record[name]
        try:
            key = (type(value), value)
            if key not in self._spelled:
                if len(self._spelled) > 10 * self.most:
                    self._spelled.clear()
                self._spelled[key] = factorise(name, [value]).names[0]
            return self._spelled[key]
        except TypeError:
            raise TypeError(f"column {name!r}: given {type(value).__name__}, expected one category") from None

    def _numbered(self, found: "list[tuple[Integers, list[tuple[str, ...]]]]", rows: int) -> Placed:
        """Give every category its number: known ones as on the roster, new ones by row, then by column."""
        members = np.empty((rows, len(self.columns)), dtype=np.int64)
        fresh: list[tuple[int, int, int]] = []
        numbers = []
        for position, (codes, names) in enumerate(found):
            known = np.array([self.seen[position].get(name, -1) for name in names], dtype=np.int64)
            numbers.append(known)
            if len(known) and known.min() < 0:
                first = _first_rows(codes, len(names))
                fresh += [(int(first[c]), position, int(c)) for c in np.flatnonzero((known < 0) & (first >= 0))]
        newcomers: list[Newcomer] = []
        taken = [len(seen) for seen in self.seen]
        others = [seen.get((OTHER,), -1) for seen in self.seen]
        for _, position, code in sorted(fresh):
            if taken[position] < self.most:
                numbers[position][code] = self._next(newcomers, position, found[position][1][code])
                taken[position] += 1
                continue
            if others[position] < 0:
                others[position] = self._next(newcomers, position, (OTHER,))
            numbers[position][code] = others[position]
        for position, (codes, _) in enumerate(found):
            members[:, position] = numbers[position][codes]
        return Placed(members, newcomers)

    def _next(self, newcomers: list[Newcomer], position: int, category: tuple[str, ...]) -> int:
        newcomers.append((position, category))
        return len(self.groups) + len(newcomers) - 1


def _first_rows(codes: Integers, count: int) -> Integers:
    """Return the first row of every code, −1 for codes that do not occur.

    Examples
    --------
    >>> _first_rows(np.array([2, 0, 2]), 4).tolist()
    [1, -1, 0, -1]
    """
    first = np.full(count, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of several rows the one assigned last stays
    return first


def _crossed(parts: Sequence[Categories], rows: int) -> "tuple[Integers, list[tuple[str, ...]]]":
    """Return one code per row for the tuple of its categories, and the tuples that occur."""
    if not parts:
        return np.zeros(rows, dtype=np.int64), [()]
    codes = parts[0].codes.astype(np.int64)
    names: list[tuple[str, ...]] = [(name,) for name in parts[0].names]
    for part in parts[1:]:
        width = len(part.names)
        pairs, codes = np.unique(codes * width + part.codes, return_inverse=True)
        names = [(*names[int(pair) // width], part.names[int(pair) % width]) for pair in pairs]
    return codes, names
