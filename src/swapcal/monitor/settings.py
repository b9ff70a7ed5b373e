"""Settings of a monitor, fixed before the first row: groups, ranges of forecasts, stakes, limits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from swapcal._validate import positive
from swapcal.archive import is_text
from swapcal.arrays import Array, Integers
from swapcal.bounds import appearance_share, false_alarm_spacing, ville
from swapcal.kernels.wealth import LANES, STAKES, Terms
from swapcal.tables.frame import Table
from swapcal.tables.values import OTHER, Categories, letters, text_key, text_of

# Ranges: the tree of forecast ranges in which every group is monitored.

EDGES = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 1.0)
"""Finest ranges unless others are given: narrow near 0 and 1, where most forecasts of rare events lie."""


@dataclass(frozen=True)
class Ranges:
    """Ranges by halves: the root is [0, 1], the leaves lie between neighbouring edges.

    Examples
    --------
    >>> ranges = Ranges((0.0, 0.5, 1.0))
    >>> ranges.bounds(0), ranges.bounds(2), ranges.shares().tolist()
    ((0.0, 1.0), (0.5, 1.0), [0.5, 0.25, 0.25])
    """

    edges: tuple[float, ...]

    @property
    def leaves(self) -> int:
        """Number of finest ranges, a power of two."""
        return len(self.edges) - 1

    @property
    def nodes(self) -> int:
        """Number of ranges of all depths."""
        return 2 * self.leaves - 1

    @property
    def depths(self) -> int:
        """Number of depths; one row plays once in each."""
        return self.leaves.bit_length()

    def inner(self) -> Array:
        """Edges strictly inside [0, 1]."""
        return np.array(self.edges[1:-1], dtype=np.float64)

    def bounds(self, node: int) -> tuple[float, float]:
        """Return the ends of a range; nodes count from the root, 0, depth by depth."""
        depth = (node + 1).bit_length() - 1
        width = self.leaves >> depth
        first = (node + 1 - (1 << depth)) * width
        return self.edges[first], self.edges[first + width]

    def shares(self) -> Array:
        """Budget of every range: depths share evenly, and so do the ranges of one depth; adds to 1."""
        depth = np.array([(node + 1).bit_length() - 1 for node in range(self.nodes)])
        return np.asarray(0.5**depth / self.depths, dtype=np.float64)


def read_ranges(level_ranges: "bool | Sequence[float]") -> Ranges:
    """Return the default ranges for True, one range for False, or those between the given edges.

    Examples
    --------
    >>> read_ranges(False).nodes, read_ranges(True).nodes, read_ranges([0, 0.3, 1]).nodes
    (1, 15, 3)
    """
    if isinstance(level_ranges, bool):
        return Ranges(EDGES if level_ranges else (0.0, 1.0))
    try:
        edges = tuple(float(edge) for edge in level_ranges)
    except (TypeError, ValueError):
        raise TypeError(f"level_ranges: given {level_ranges!r}, expected True, False or edges from 0 to 1") from None
    if len(edges) < 2 or edges[0] != 0.0 or edges[-1] != 1.0 or any(not a < b for a, b in pairwise(edges)):
        raise ValueError(f"level_ranges: given {list(edges)}, expected increasing edges from 0 to 1")
    leaves = len(edges) - 1
    if leaves & (leaves - 1) or leaves > 64:
        raise ValueError(f"level_ranges: given {leaves} ranges, expected 1, 2, 4, 8, 16, 32 or 64")
    return Ranges(edges)


# `GroupIndex`: the groups so far, numbered in order of appearance, row by row.

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
        """Name in alarms and reports."""
        if not self.column:
            return ALL
        if self.category == (OTHER,):
            return f"{' × '.join(self.column)} = {OTHER}"
        return " and ".join(f"{c} = {v}" for c, v in zip(self.column, self.category, strict=True))


Newcomer = tuple[int, tuple[str, ...]]


class Placed(NamedTuple):
    """Rows by group, −1 for none; the new groups with their numbers; values from which edges are learned."""

    members: Integers
    newcomers: list[Newcomer]
    values: Mapping[str, Array] = MappingProxyType({})


LEARNED = 1000
"""Numbers of a column from which the edges of its ranges are learned; their rows have no range."""
PARTS = 8


def learned_edges(values: Sequence[float]) -> tuple[float, ...]:
    """Return edges between eight ranges that hold about as many of the values each; fewer if many values are equal.

    They are rounded to the six digits by which ranges are named. Infinite numbers count, but are no edges: they are in
    the lowest and in the highest range.

    Examples
    --------
    >>> learned_edges(range(1, 1001))
    (125.0, 250.0, 375.0, 500.0, 625.0, 750.0, 875.0)
    >>> learned_edges([3.0] * 1000)
    (3.0,)
    >>> learned_edges([-np.inf] * 300 + [5.0] * 300 + [np.inf] * 400)
    (5.0,)
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    edges = ordered[-(-np.arange(1, PARTS) * len(ordered) // PARTS) - 1]
    return tuple(sorted({float(f"{edge:g}") for edge in edges[np.isfinite(edges)]})) or (0.0,)


@dataclass
class GroupIndex:
    """Columns and their categories; after `most` categories of a column, all further ones share one group.

    `bins` has the edges of columns of numbers, `learning` the numbers so far of those whose edges are still learned.
    """

    columns: tuple[Column, ...]
    most: int
    bins: dict[str, tuple[float, ...]] = field(default_factory=dict)
    learning: dict[str, list[float]] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    seen: list[dict[tuple[str, ...], int]] = field(default_factory=list)
    _spelled: dict[tuple[str, type, Any], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.seen:
            self.seen = [{} for _ in self.columns]

    @property
    def wanted(self) -> list[str]:
        """Columns of the records that are read."""
        return list(dict.fromkeys(name for column in self.columns for name in column))

    def admit(self, newcomers: Sequence[Newcomer], share: "float | None" = None) -> None:
        """Add groups; without `share`, a group's share follows from its order of appearance."""
        for position, category in newcomers:
            order = len(self.seen[position]) + 1
            self.seen[position][category] = len(self.groups)
            given = float(appearance_share(order)) if share is None else share
            self.groups.append(Group(self.columns[position], category, given))

    def place(self, records: Any, rows: int) -> Placed:
        """Return every row's groups, without admitting new ones."""
        table = Table(records)
        table.require(self.wanted)
        if self.wanted and len(table) != rows:
            raise ValueError(f"records: given {len(table)} rows, expected {rows}, one per forecast")
        numbers = {name: _numbers(table, name) for name in self.learning}
        until = {name: self._until(name, values) for name, values in numbers.items()}
        first = {name: _present(values[: until[name]]) for name, values in numbers.items()}
        categories = {name: self._categories(table, name) for name in self.wanted if name not in numbers}
        for name, values in numbers.items():
            categories[name] = binned(values, learned_edges([*self.learning[name], *first[name]] or [0.0]))
        crossed = [_crossed([categories[name] for name in column], rows) for column in self.columns]
        starts = [max((until.get(name, 0) for name in column), default=0) for column in self.columns]
        return self._numbered(crossed, starts, rows)._replace(values=first)

    def _until(self, name: str, values: Array) -> int:
        """Return how many of the rows are learned from: up to the one by which there are `LEARNED` numbers."""
        count = len(self.learning[name]) + np.cumsum(~np.isnan(values))
        return int(np.searchsorted(count, LEARNED)) + 1 if len(count) and count[-1] >= LEARNED else len(values)

    def learn(self, values: Mapping[str, Array]) -> None:
        """Add numbers to those that edges are learned from; fix the edges once there are enough."""
        for name, more in values.items():
            self.learning[name] += more.tolist()
            if len(self.learning[name]) >= LEARNED:
                self.bins[name] = learned_edges(self.learning.pop(name))

    def _categories(self, table: Table, name: str) -> Categories:
        return binned(_numbers(table, name), self.bins[name]) if name in self.bins else table.categories(name)

    def place_each(self, records: list[Any], rows: int) -> Placed:
        """Return every record's groups, by dictionary alone unless one of them is new."""
        if len(records) != rows:
            raise ValueError(f"records: given {len(records)} rows, expected {rows}, one per forecast")
        for row, record in enumerate(records, 1):
            if not isinstance(record, Mapping):
                raise TypeError(f"records: given {type(record).__name__} in row {row}, expected a mapping of values")
        wanted = self.wanted
        members = [None if self.learning else self._seen(record, wanted) for record in records]
        if all(codes is not None for codes in members):
            return Placed(np.array(members, dtype=np.int64).reshape(rows, len(self.columns)), [])
        return self.place({name: [record.get(name) for record in records] for name in self.wanted}, rows)

    def _seen(self, record: Mapping[str, Any], wanted: list[str]) -> list[int] | None:
        """Return a record's groups if all of them are known."""
        names = {name: self._spell(name, record) for name in wanted}
        members = [
            self.seen[position].get(tuple(names[name] for name in column), -1)
            for position, column in enumerate(self.columns)
        ]
        return None if min(members) < 0 else members

    def place_one(self, record: Mapping[str, Any]) -> Placed:
        """Return one record's groups, by dictionary alone unless one of them is new."""
        if self.learning:
            return self.place({name: [record[name]] for name in self.wanted if name in record}, 1)
        names = {name: self._spell(name, record) for name in self.wanted}
        chosen = [tuple(names[name] for name in column) for column in self.columns]
        members = [self.seen[position].get(category, -1) for position, category in enumerate(chosen)]
        if min(members) >= 0:
            return Placed(np.array([members], dtype=np.int64), [])
        return self._numbered([(np.zeros(1, np.int64), [category]) for category in chosen], [0] * len(chosen), 1)

    def _spell(self, name: str, record: Mapping[str, Any]) -> str:
        if name not in record:
            Table({key: [value] for key, value in record.items()}).require([name])
        value = record[name]
        try:
            key = (name, type(value), value)
            if key not in self._spelled:
                if len(self._spelled) > 10 * self.most:
                    self._spelled.clear()
                self._spelled[key] = self._categories(Table({name: [value]}), name).names[0]
            return self._spelled[key]
        except TypeError:
            raise TypeError(f"column {name!r}: given {type(value).__name__}, expected one category") from None

    def _numbered(
        self, columns: "list[tuple[Integers, list[tuple[str, ...]]]]", starts: Sequence[int], rows: int
    ) -> Placed:
        """Return every category's number: known ones keep theirs, new ones follow by row, then by column.

        Rows before the start of a column have no group in it.
        """
        members = np.empty((rows, len(self.columns)), dtype=np.int64)
        fresh: list[tuple[int, int, int]] = []
        numbers = []
        for position, (codes, names) in enumerate(columns):
            known = np.array([self.seen[position].get(name, -1) for name in names], dtype=np.int64)
            numbers.append(known)
            if len(known) and known.min() < 0:
                first = _first_rows(codes[starts[position] :], len(names))
                fresh += [
                    (starts[position] + int(first[c]), position, int(c))
                    for c in np.flatnonzero((known < 0) & (first >= 0))
                ]
        newcomers: list[Newcomer] = []
        taken = [len(seen) for seen in self.seen]
        others = [seen.get((OTHER,), -1) for seen in self.seen]
        for _, position, code in sorted(fresh):
            if taken[position] < self.most:
                numbers[position][code] = self._next(newcomers, position, columns[position][1][code])
                taken[position] += 1
                continue
            if others[position] < 0:
                others[position] = self._next(newcomers, position, (OTHER,))
            numbers[position][code] = others[position]
        for position, (codes, _) in enumerate(columns):
            members[:, position] = numbers[position][codes]
            members[: starts[position], position] = -1
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


def binned(values: Array, edges: tuple[float, ...]) -> Categories:
    """Return numbers as ranges between edges; an edge belongs to the range above it.

    Examples
    --------
    >>> binned(np.array([31.0, 30.0, np.nan, 12.0]), (18.0, 30.0)).names
    ['below 18', '30 or more', '(missing)']
    """
    names = [f"below {edges[0]:g}", *(f"{a:g} to {b:g}" for a, b in pairwise(edges)), f"{edges[-1]:g} or more", None]
    codes = np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, side="right"))
    present, codes = np.unique(codes, return_inverse=True)
    return Categories(codes.astype(np.int32), [names[code] for code in present])


def cluster_keys(records: Any, name: str, rows: int) -> list[int]:
    """Return a 64-bit hash of every row's cluster. Raises ValueError if one is missing."""
    if isinstance(records, Mapping) and (name not in records or np.ndim(records[name]) == 0):
        records = [records]
    if isinstance(records, list):
        records = {name: [record.get(name) for record in records]}
    column = Table(records).categories(name)
    if len(column) != rows:
        raise ValueError(f"clusters: given {len(column)} rows, expected {rows}, one per forecast")
    missing = [code for code, value in enumerate(column.values) if value is None]
    if missing:
        row = int(np.argmax(column.codes == missing[0])) + 1
        raise ValueError(f"column {name!r}: given no value in row {row}, expected the cluster of every row")
    keys = [text_key(value) for value in column.values]
    return [keys[code] for code in column.codes.tolist()]


def _numbers(table: Table, name: str) -> Array:
    """Return a column's numbers, also from texts, such as a file or an open forecast holds."""
    if table.is_numeric(name):
        return table.numbers(name)
    texts = table.categories(name)
    return np.array([_as_float(name, value) for value in texts.values], dtype=np.float64)[texts.codes]


def _present(values: Array) -> Array:
    return values[~np.isnan(values)]


def _as_float(name: str, value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r}: given {value!r}, expected a number, as its ranges need") from None


# Settings: fixed before the first row.

DEFAULT_STAKES = (0.02, 0.05, 0.13, 0.33, 0.8, 2.0)
"""Stakes, about 2.5 times apart: small ones find small gaps, large ones large gaps and rare events."""


@dataclass(frozen=True)
class MonitorSettings:
    """Checked settings of a monitor and the limits that follow from them."""

    columns: tuple[Column, ...]
    tolerance: float
    run_length: float
    alpha: float
    ranges: Ranges
    stakes: tuple[float, ...]
    most: int
    max_weight: float = 1.0
    clusters: str | None = None
    bins: tuple[tuple[str, tuple[float, ...]], ...] = ()
    numbers: tuple[str, ...] = ()

    @property
    def change_weight(self) -> float:
        """Weight of one cell and direction in the change detector: one row plays with total weight 1."""
        return 1.0 / (len(self.columns) * self.ranges.depths * 2)

    def change_limit(self) -> float:
        """Return the limit of a cell's mean sum of one direction."""
        return float(false_alarm_spacing(self.run_length)) / self.change_weight

    def log_budget(self) -> Any:
        """Return (nodes,): logarithm of a range's weight in the lifetime test, for one direction of a whole column."""
        return np.log(self.ranges.shares() / (2 * len(self.columns)))

    def log_limit(self) -> float:
        """Logarithm of the limit of a weighted wealth in the lifetime test."""
        return float(np.log(float(ville(self.alpha))))

    def terms(self) -> Terms:
        """Return the settings as arguments of the kernels."""
        stakes, shares = np.zeros(LANES), np.zeros(LANES)
        stakes[: 2 * len(self.stakes)] = np.repeat(self.stakes, 2)
        shares[: 2 * len(self.stakes)] = 1.0 / len(self.stakes)
        return Terms(stakes, shares, self.ranges.inner(), self._limits())

    def _limits(self) -> Array:
        return np.array([self.tolerance, self.change_limit(), 1.0 / self.max_weight])

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as data for JSON."""
        return {
            "columns": [list(column) for column in self.columns],
            "tolerance": self.tolerance,
            "run_length": self.run_length,
            "alpha": self.alpha,
            "edges": list(self.ranges.edges),
            "stakes": list(self.stakes),
            "most": self.most,
            **({"max_weight": self.max_weight} if self.max_weight > 1 else {}),
            **({"clusters": self.clusters} if self.clusters else {}),
            **({"bins": [[name, list(edges)] for name, edges in self.bins]} if self.bins else {}),
            **({"numbers": list(self.numbers)} if self.numbers else {}),
        }

    @property
    def ranged(self) -> tuple[str, ...]:
        """Columns of numbers that are monitored in ranges."""
        return (*(name for name, _ in self.bins), *self.numbers)

    def refuse_words(self, columns: Mapping[str, Iterable[Any]]) -> None:
        """Raise ValueError if a column that is monitored in ranges holds a value that is not a number."""
        for name in self.ranged:
            for value in columns[name]:
                _as_float(name, None if value is None else text_of(value))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "MonitorSettings":
        """Return the settings that `to_dict` wrote."""
        return cls(
            tuple(tuple(column) for column in data["columns"]),
            data["tolerance"],
            data["run_length"],
            data["alpha"],
            Ranges(tuple(data["edges"])),
            tuple(data["stakes"]),
            data["most"],
            data.get("max_weight", 1.0),
            data.get("clusters"),
            read_bins(data.get("bins", [])),
            tuple(data.get("numbers", ())),
        )


def read_settings(
    groups: Sequence[str],
    products: Sequence[Sequence[str]],
    tolerance: float,
    run_length: float,
    alpha: float,
    level_ranges: "bool | Sequence[float]",
    stakes: Sequence[float],
    most: int,
    max_weight: float,
    clusters: str | None,
    bins: Mapping[str, Sequence[float]],
    numbers: Sequence[str],
) -> MonitorSettings:
    """Return checked settings. Raises ValueError or TypeError if one is invalid."""
    if not 0 <= _number("tolerance", tolerance) < 1:
        raise ValueError(f"tolerance: given {tolerance!r}, expected a number of at least 0 and below 1, such as 0.01")
    if not 0 < _number("alpha", alpha) < 1:
        raise ValueError(f"alpha: given {alpha!r}, expected a probability strictly between 0 and 1")
    if positive("run_length", run_length) < 1:
        raise ValueError(f"run_length: given {run_length!r}, expected at least one row")
    if int(_number("most", most)) != most or most < 1:
        raise ValueError(f"most: given {most!r}, expected a number of categories of at least 1")
    if not 1 <= _number("max_weight", max_weight) < np.inf:
        raise ValueError(f"max_weight: given {max_weight!r}, expected a finite number of at least 1")
    if clusters is not None and not is_text(clusters):
        raise TypeError(f"clusters: given {clusters!r}, expected the name of a column")
    cut = read_bins(bins.items())
    learned = tuple(name for (name,) in _columns(numbers, "numbers"))
    if both := {name for name, _ in cut} & {*learned}:
        raise ValueError(f"numbers: given {sorted(both)} in bins too, expected edges that are given or learned")
    ranged = [*(name for name, _ in cut), *learned]
    watched = groups if isinstance(groups, str) else [*groups, *(name for name in ranged if name not in groups)]
    return MonitorSettings(
        ((), *_columns(watched), *_pairs(products)),
        float(tolerance),
        float(run_length),
        float(alpha),
        read_ranges(level_ranges),
        _stakes(stakes, float(tolerance)),
        int(most),
        float(max_weight),
        None if clusters is None else letters(clusters),
        cut,
        learned,
    )


def read_bins(bins: Any) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return the edges of every column's bins. Raises ValueError unless they are finite numbers that increase."""
    cut = []
    for name, edges in bins:
        given = tuple(_number("bins", edge) for edge in edges)
        if not given or not np.isfinite(given).all() or any(not a < b for a, b in pairwise(given)):
            raise ValueError(
                f"bins: given {list(given)} for {name!r}, expected increasing finite numbers, such as [30, 60]"
            )
        cut.append((letters(name), given))
    return tuple(cut)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name}: given {value!r}, expected a number")
    return float(value)


def _columns(groups: Sequence[str], role: str = "groups") -> list[Column]:
    if isinstance(groups, str):
        raise TypeError(f"{role}: given the text {groups!r}, expected a list of column names")
    names: list[Column] = [(letters(name),) for name in groups]
    if len(set(names)) < len(names):
        raise ValueError(f"{role}: given {list(groups)}, expected each column once")
    return names


def _pairs(products: Sequence[Sequence[str]]) -> list[Column]:
    pairs: list[Column] = []
    for product in products:
        pair: Column = tuple(map(letters, product))
        if isinstance(product, str) or len(pair) != 2 or pair[0] == pair[1]:
            raise ValueError(f"products: given {product!r}, expected a pair of two column names")
        pairs.append(pair)
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise ValueError(f"products: given {pairs}, expected each pair once")
    return pairs


def _stakes(stakes: Sequence[float], tolerance: float) -> tuple[float, ...]:
    values = tuple(positive("stakes", stake) for stake in stakes)
    if not 1 <= len(values) <= STAKES or len(set(values)) < len(values):
        raise ValueError(f"stakes: given {list(stakes)}, expected 1 to {STAKES} different numbers")
    if max(values) > 3:
        raise ValueError(f"stakes: given {max(values)}, expected at most 3")
    if max(values) * tolerance >= 1:
        raise ValueError(
            f"stakes: given {max(values)} with tolerance {tolerance}, expected a product below 1 (a bet could lose all)"
        )
    return tuple(sorted(values))
