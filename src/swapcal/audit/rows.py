"""Rows of an audit: columns found, checked and encoded, with intersections of groups."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from swapcal._validate import likely_mistake
from swapcal.arrays import Array, Bytes, Flags, Keys, Places
from swapcal.audit.clusters import cluster_keys, looks_clustered
from swapcal.audit.levels import Pseudo
from swapcal.audit.search import Regions, propose, proposing, proposing_clusters
from swapcal.features.encoder import FittedEncoder, Scales
from swapcal.features.sources import Category, Number, Quantiles
from swapcal.kernels.tally import CUTS, fill, fill_bins
from swapcal.tables.frame import JudgedColumns, Table, categories, is_table
from swapcal.tables.values import AUDITED_CATEGORIES, OTHER, Categories, are_dates, as_times

# Batch: one lot of rows, checked once, ready to be added.

NORM_SLACK = 1e-9
"""Contexts built in floating point may exceed norm 1 by rounding."""


LEAST_WEIGHT, MOST_WEIGHT = 1e-50, 1e50
"""Intervals square sums of squared weights: beyond these limits the sums overflow or vanish."""


RAW = "raw features go through Audit.from_features"


@dataclass(frozen=True)
class AuditRows:
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
    bins: Bytes | None = None
    """(rows, numbers) in which of its bins each number lies; None for no numbers."""
    clusters: Keys | None = None
    """Keys of the clusters that rows belong to; None if rows are independent."""

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
        issued: Any = None,
        clusters: Any = None,
        marks: Keys | None = None,
        bins: Bytes | None = None,
    ) -> "AuditRows":
        """Check every argument and raise before anything is used.

        Examples
        --------
        >>> AuditRows.check([0.2, 1.2], [0, 1])
        Traceback (most recent call last):
        ValueError: p: given 1.2 in row 2, expected numbers in [0, 1]
        """
        p = probabilities("p", p, predicted=True)
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
            pseudo=_pseudo(p, low, high, weight, issued),
            marks=marks,
            bins=bins,
            clusters=cluster_keys("clusters", clusters, rows),
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


def probabilities(name: str, values: Any, rows: int | None = None, *, predicted: bool = False) -> Array:
    """Return values as a vector in [0, 1]. Raises ValueError, with a guess for predictions such as logits."""
    array = vector(name, values, rows)
    if len(array) and (array.min() < 0 or array.max() > 1):
        bad = np.flatnonzero((array < 0) | (array > 1))
        mistake = likely_mistake(array) if predicted else ""
        raise ValueError(f"{name}: given {_first(array, bad)}, expected numbers in [0, 1]{mistake}")
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
        columns = {name: table.categories(name) for name in table.columns}
    else:
        columns = {"group": categories(groups)}
    for name, column in columns.items():
        if len(column.codes) != rows:
            raise ValueError(f"groups[{name!r}]: given {len(column.codes)} rows, expected {rows} like p")
    return columns


def times(values: Any, rows: int) -> tuple[Array | None, bool]:
    """Return times as numbers (dates as seconds since 1970) and whether they were dates."""
    if values is None:
        return None, False
    moments = as_times("time", values)
    lost = np.flatnonzero(np.isnan(moments))
    if lost.size:
        raise ValueError(f"time: given a missing value in row {lost[0] + 1}, expected known times")
    return vector("time", moments, rows), bool(are_dates("time", values))


def _pseudo(p: Array, low: Any, high: Any, weight: Any, issued: Any) -> Pseudo | None:
    parts = {"low": low, "high": high, "weight": weight}
    given = [value is not None for value in parts.values()]
    if issued is not None:
        if any(given):
            raise ValueError("issued: given beside low, high or weight, expected one of the two forms")
        return _whole(p, issued)
    if not any(given):
        return None
    if not all(given):
        raise ValueError("issued distribution: given a part of it, expected low, high and weight together")
    return Pseudo.two(p, *(probabilities(name, value, len(p)) for name, value in parts.items()))


def _whole(p: Array, issued: Any) -> Pseudo:
    """Return distributions given as (levels, P): the K levels, and each row's probabilities of them, (rows, K)."""
    try:
        values, P = issued
    except (TypeError, ValueError):
        raise ValueError("issued: given no pair, expected (levels, P)") from None
    levels, shares = probabilities("issued levels", values), np.ascontiguousarray(P, dtype=np.float64)
    if shares.shape != (len(p), len(levels)):
        raise ValueError(f"issued: given P of shape {shares.shape}, expected ({len(p)}, {len(levels)})")
    wrong = np.flatnonzero(~((shares >= 0.0).all(axis=1) & (np.abs(shares.sum(axis=1) - 1.0) <= 1e-6)))
    if len(wrong):
        row = f"{shares[wrong[0]].tolist()!s:.60} in row {wrong[0] + 1}"
        raise ValueError(f"issued: given P = {row}, expected probabilities of sum 1")
    return Pseudo(np.broadcast_to(levels, shares.shape), shares).agreeing(p)


def _first(array: Array, bad: Places) -> str:
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"{array[bad[0]]} in row {bad[0] + 1}{more}"


# Crossing: intersections of two group columns, as a group column of their own.

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


def intersections_of(columns: Collection[str]) -> list[Pair]:
    """Return the pairs whose intersections are among some group columns."""
    return [pair for one in columns for two in columns if (pair := Pair(one, two)).name in columns]


def bases(column: str, columns: Collection[str]) -> set[str]:
    """Return the columns that a column is made of: itself, or the two that it crosses.

    Examples
    --------
    >>> sorted(bases("sex × age", ["sex", "age", "sex × age"]))
    ['age', 'sex']
    """
    return next((set(pair) for pair in intersections_of(columns) if pair.name == column), {column})


def intersect(batch: AuditRows, pairs: Sequence[Pair]) -> AuditRows:
    """Return rows with the intersections of some of their group columns."""
    crossed = {pair.name: _product(batch.groups[pair.first], batch.groups[pair.second]) for pair in pairs}
    return replace(batch, groups={**batch.groups, **crossed}) if crossed else batch


def searched(batch: AuditRows, numbers: Mapping[str, Array], seed: int) -> tuple[AuditRows, Regions]:
    """Return rows with the regions that half of them propose as groups of the other half, and the regions.

    With clusters, half of the clusters propose, and their rows are never tested.
    """
    columns = _searchable(batch, numbers)
    chosen = proposing(len(batch), seed) if batch.clusters is None else proposing_clusters(batch.clusters)
    some = np.flatnonzero(chosen)
    regions = propose(
        {name: column[some] if isinstance(column, np.ndarray) else Categories(column.codes[some], column.names)
         for name, column in columns.items()},
        batch.p[some], batch.y[some], batch.weights[some],
    )  # fmt: skip
    return in_regions(batch, regions, numbers, ~chosen), regions


def in_regions(
    batch: AuditRows, regions: Regions, numbers: Mapping[str, Array], tested: Flags | None = None
) -> AuditRows:
    """Return rows with the regions as groups; those of clusters that propose are in none."""
    if tested is None and batch.clusters is not None:
        tested = ~proposing_clusters(batch.clusters)
    groups = regions.groups(_searchable(batch, numbers), len(batch), tested)
    return replace(batch, groups={**batch.groups, **groups})


def _searchable(batch: AuditRows, numbers: Mapping[str, Array]) -> dict[str, Array | Categories]:
    crossed = {pair.name for pair in intersections_of(batch.groups)}
    return {**numbers, **{name: column for name, column in batch.groups.items() if name not in crossed}}


def _product(first: Categories, second: Categories) -> Categories:
    codes = first.codes.astype(np.int64) * len(second.names) + second.codes
    present, place = np.unique(codes, return_inverse=True)
    names = [SIGN.join((first.names[k // len(second.names)], second.names[k % len(second.names)])) for k in present]
    return Categories(place.astype(np.int32), names)


def halves(category: str, first: Collection[str], second: Collection[str]) -> tuple[str, str] | None:
    """Return the two categories whose intersection has this name; None if the name is not an intersection.

    Examples
    --------
    >>> halves("a × b × c", ["a", "b"], ["b × c"])
    ('a', 'b × c')
    """
    parts = category.split(SIGN)
    for k in range(1, len(parts)):
        pair = SIGN.join(parts[:k]), SIGN.join(parts[k:])
        if pair[0] in first and pair[1] in second:
            return pair
    return None


# Encoder: raw features to contexts, and directions back to the user's names and units.

SPREAD = 3.0
"""Numeric features are clipped this many standard deviations from their mean: that bounds the norm."""

CHUNK = 8192


class Coordinate(NamedTuple):
    """Meaning of one coordinate of a context: x = factor · (raw − centre), or factor · 1[category]."""

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

    `cuts` are the values that cut the rows of every number into eight parts, as equal as ties allow, by name; they do
    not depend on outcomes. Encoders saved by earlier versions have none.
    """

    columns: tuple[Number | Category, ...]
    cuts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

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
        columns = FittedEncoder.learn(table, columns=names, categories=AUDITED_CATEGORIES, rare=0).columns
        numbers = [str(column.name) for column in columns if isinstance(column, Number)]
        return cls(columns, {name: Quantiles.of(table.numbers(name)).cuts(CUTS + 1) for name in numbers})

    @classmethod
    def of(cls, scales: Scales) -> "Encoder":
        """Return the encoder that `learn` would learn from all the tables whose scales these are, but for rounding."""
        return cls(scales.columns(AUDITED_CATEGORIES), scales.cuts(CUTS + 1))

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

    def batch(self, table: Table, columns: Mapping[str, Any]) -> AuditRows:
        """Return the rows of a table of features whose other columns are arrays by name, checked."""
        return AuditRows.check(**columns, X=self.encode(table), marks=self.marks(table), bins=self.bins(table))

    def grouped(self, batch: AuditRows, table: Table) -> AuditRows:
        """Return rows with the categorical features of a table as groups as well."""
        features = {name: table.categories(name) for name in self.categorical()}
        return replace(batch, groups={**features, **batch.groups})

    def marks(self, table: Table) -> Keys:
        """Return a hash of each row's features as given; categories are hashed as groups."""
        return table.marks([str(column.name) for column in self.columns if isinstance(column, Number)])

    def numbers(self, table: Table) -> dict[str, Array]:
        """Return the numeric features as they are given."""
        return {str(c.name): table.numbers(str(c.name)) for c in self.columns if isinstance(c, Number)}

    def bins(self, table: Table) -> Bytes:
        """Return in which of its bins each number lies, (rows, numbers)."""
        places = np.empty((len(self.cuts), len(table)), np.uint8)
        for j, (name, cuts) in enumerate(self.cuts.items()):
            fill_bins(table.numbers(name), np.array(cuts), places[j])
        return np.ascontiguousarray(places.T)

    def categorical(self) -> list[str]:
        """Names of the columns that hold categories."""
        return [str(column.name) for column in self.columns if isinstance(column, Category)]


# Columns: the roles of a table's columns, and how they become a batch.


@dataclass(frozen=True)
class AuditColumns(JudgedColumns):
    """Names of the columns, the encoding of the features once learned, and the regions found by a search."""

    encoder: Encoder | None = None
    regions: Regions | None = None

    def learn(self, table: Table) -> "AuditColumns":
        """Return a reader whose encoding is learned from this table."""
        self.check(table)
        return replace(self, encoder=Encoder.learn(table, self.features))

    def scaled(self, tables: Iterable[Table]) -> Encoder | None:
        """Return the encoding by the scales of all rows of several tables; None without a table."""
        scales: Scales | None = None
        for table in tables:
            self.check(table)
            own = Scales.of(table, self.features)
            if scales is None:
                scales = own
            else:
                scales.merge(own)
        return None if scales is None else Encoder.of(scales)

    def check(self, table: Table) -> None:
        """Raise ValueError if the table lacks a column, or a column has two roles."""
        table.require(self.columns)
        self.check_roles()

    def like(self, encoder: Encoder) -> "AuditColumns":
        """Return a reader with a given encoding, which must be of the same features."""
        names = tuple(column.name for column in encoder.columns)
        if names != self.features:
            raise ValueError(f"features: given {list(self.features)}, expected {list(names)} as in the shared encoding")
        return replace(self, encoder=encoder)

    def read(self, table: Table) -> AuditRows:
        """Return the rows of a table as a checked batch."""
        assert self.encoder is not None
        table.require(self.columns)
        rows = len(table)
        when, dated = times(None if self.time is None else table.raw(self.time), rows)
        p = probabilities(f"column {self.prob!r}", table.numbers(self.prob), predicted=True)
        weights = None if self.weights is None else table.numbers(self.weights)
        rows_read = AuditRows(
            p=p,
            y=self._probabilities(table, self.target),
            X=self.encoder.encode(table),
            weights=positive(f"column {self.weights!r}", weights, rows),
            groups={name: table.categories(name) for name in self.group_columns},
            time=when,
            dated=dated,
            pseudo=self._issued(table, p),
            marks=self.encoder.marks(table),
            bins=self.encoder.bins(table),
            clusters=None if self.clusters is None else self._cluster_keys(table, self.clusters),
        )
        return rows_read if self.regions is None else in_regions(rows_read, self.regions, self.encoder.numbers(table))

    def _issued(self, table: Table, p: Array) -> Pseudo | None:
        return None if self.issued is None else Pseudo.two(p, *(self._probabilities(table, c) for c in self.issued))

    @property
    def group_columns(self) -> list[str]:
        """Columns examined as groups: those named, and the categorical features."""
        assert self.encoder is not None
        return list(dict.fromkeys([*self.encoder.categorical(), *self.groups]))

    def suspect(self, table: Table, rows: AuditRows) -> str | None:
        """Return a column that looks like a cluster id where none was named."""
        if self.clusters is not None:
            return None
        known = {self.prob, self.target, self.weights, self.time, *(self.issued or ())}
        return looks_clustered(table, [name for name in table.columns if name not in known], rows.p, rows.y)

    @staticmethod
    def _cluster_keys(table: Table, name: str) -> Keys | None:
        return cluster_keys(f"column {name!r}", table.categories(name))

    @staticmethod
    def _probabilities(table: Table, name: str) -> Array:
        return probabilities(f"column {name!r}", table.numbers(name))
