"""The additive statistics of an audit: sums per level and group, a sample of rows, a timeline."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from swapcal._validate import refuse_swapped
from swapcal.arrays import Array, Bytes, Flags, Index, Keys, Places
from swapcal.audit.clusters import ClusterSums, SignedTerms
from swapcal.audit.levels import Histogram, Levels, Timeline
from swapcal.audit.rows import AuditColumns, AuditRows, Coordinate, Encoder, Pair, intersect, intersections_of, searched
from swapcal.audit.search import is_region
from swapcal.kernels import tally as kernel
from swapcal.kernels.tally import finish_hashes, hash_rows
from swapcal.tables.frame import Table, batches_of
from swapcal.tables.values import Categories

# Tally: the additive statistics of every level, and of every group within it.

THREAD_ROWS = 1 << 15
"""Below this many rows a second thread costs more than it saves."""


SCORES = 4
"""Sums of scores that clusters have: Σα, Σαy, Σα(y − p)², Σα·log loss."""


JOINED = "\U0010ffffall small groups"
"""Category of all those of a column that are too small to be tested, if there are very many. Its first character
occurs in no text and sorts last."""


class Groups:
    """Scalar sums per level and category of one categorical column; categories may appear at any time."""

    def __init__(self, levels: int) -> None:
        self.names: list[str] = []
        self.table: Array = np.zeros((levels, 0, kernel.SCALARS))

    def codes(self, names: list[str]) -> Index:
        """Return the codes of the names, adding those not seen before."""
        known = {name: code for code, name in enumerate(self.names)}
        fresh = [name for name in names if name not in known]
        if fresh:
            self.names = [*self.names, *fresh]
            self.table = np.pad(self.table, ((0, 0), (0, len(fresh)), (0, 0)))
            known = {name: code for code, name in enumerate(self.names)}
        return np.array([known[name] for name in names], dtype=np.int32)

    def sorted(self) -> tuple[list[str], Array]:
        """Return names and table in alphabetical order, independent of the order of arrival."""
        order = self.order()
        return [self.names[i] for i in order], self.table[:, order]

    def order(self) -> Places:
        """Return the places of the names in alphabetical order."""
        return np.argsort(self.names) if self.names else np.zeros(0, np.intp)

    def joined(self, which: Flags) -> "Groups":
        """Return the sums with some categories (K,) as one, `JOINED`; the others keep theirs."""
        if not which.any():
            return self
        whole, kept = Groups(len(self.table)), np.flatnonzero(~which)
        whole.names = [*(self.names[k] for k in kept), JOINED]
        others = np.einsum("lks,k->ls", self.table, which.astype(np.float64))
        whole.table = np.concatenate([self.table[:, kept], others[:, None]], axis=1)
        return whole


class Tally:
    """Per level: the scalar table, g = Σα(y − p)x, G = Σαxxᵀ, H = Σα²p(1 − p)xxᵀ, and the tables of groups and bins.

    Of G and H the lower triangles are summed. `bins` (L, numbers, BINS, SCALARS) has those of every number's bins.
    """

    def __init__(self, levels: Levels, d: int, numbers: int = 0, *, clustered: bool = False) -> None:
        self.levels = levels
        self.table: Array = np.zeros((len(levels), kernel.SCALARS))
        self.g: Array = np.zeros((len(levels), d))
        self.lower_G: Array = np.zeros((len(levels), d, d))
        self.lower_H: Array = np.zeros((len(levels), d, d))
        self.bins: Array = np.zeros((len(levels), numbers, kernel.BINS, kernel.SCALARS))
        self.groups: dict[str, Groups] = {}
        self.clusters = ClusterSums(len(levels)) if clustered else None

    def columns(self) -> list[tuple[str, tuple[str, ...], Array]]:
        """Every group column with its categories and their sums (L, K, SCALARS), in alphabetical order."""
        ordered = ((name, *self.groups[name].sorted()) for name in sorted(self.groups))
        return [(name, tuple(categories), table) for name, categories, table in ordered]

    def add(
        self,
        p: Array,
        y: Array,
        weights: Array,
        X: Array,
        groups: Mapping[str, Categories],
        bins: Bytes | None = None,
        clusters: Keys | None = None,
    ) -> None:
        """Add checked rows."""
        levels = self.levels.grow(p)
        if self.clusters is not None:
            self.clusters.require(len(levels), self._places(groups))
        self.refine(levels)
        level = self.levels.index(p)
        if bins is not None:
            kernel.add_bins(level, bins, p, y, weights, self.bins)
        for name, column in groups.items():
            self._add_group(name, column, level, p, y, weights)
        if clusters is not None:
            self._add_clusters(level, p, y, weights, X, groups, bins, clusters)
        sums = (self.table, self.g, self.lower_G, self.lower_H)
        half = len(p) // 2 if len(p) >= THREAD_ROWS else 0
        spare = tuple(np.zeros_like(total) for total in sums) if half else ()
        with ThreadPoolExecutor(1) as pool:
            second = slice(half, None)
            other = pool.submit(_run, level, p, y, weights, X, slice(0, half), spare) if half else None
            _run(level, p, y, weights, X, second, sums)
            if other is not None:
                other.result()
        for mine, theirs in zip(sums, spare, strict=False):
            mine += theirs

    def _places(self, groups: Mapping[str, Categories]) -> int:
        """Return how many sums each level has once these groups are among them."""
        known = {name: group.names for name, group in self.groups.items()}
        members = sum(len({*known.get(name, ()), *column.names}) for name, column in groups.items())
        fixed = int(self.g.shape[1]) + int(self.bins.shape[1]) * kernel.BINS
        return fixed + SCORES + 1 + members

    def _add_clusters(
        self,
        level: Index,
        p: Array,
        y: Array,
        weights: Array,
        X: Array,
        groups: Mapping[str, Categories],
        bins: Bytes | None,
        clusters: Keys,
    ) -> None:
        assert self.clusters is not None
        residual = weights * (y - p)
        scores = np.column_stack([weights, weights * y, weights * (y - p) ** 2, weights * kernel.log_losses(p, y)])
        none = np.zeros((len(p), 1), np.int64)
        terms = {
            "contexts": SignedTerms.dense(residual[:, None] * X),
            "scores": SignedTerms.dense(scores),
            "rows": SignedTerms.coded(1, none, residual),
        }
        for name, column in groups.items():
            codes = self.groups[name].codes(column.names)[column.codes].astype(np.int64)
            terms[f"group {name}"] = SignedTerms.coded(len(self.groups[name].names), codes[:, None], residual)
        if bins is not None and bins.shape[1]:
            places = kernel.BINS * np.arange(bins.shape[1]) + bins.astype(np.int64)
            terms["bins"] = SignedTerms.coded(kernel.BINS * bins.shape[1], places, residual)
        self.clusters.add(level, clusters, terms)

    def _add_group(self, name: str, column: Categories, level: Index, p: Array, y: Array, weights: Array) -> None:
        group = self.groups.setdefault(name, Groups(len(self.levels)))
        codes = group.codes(column.names)[column.codes]
        kernel.add_groups(level, codes, p, y, weights, group.table)

    def refine(self, levels: Levels) -> None:
        """Move every sum to other levels, each of which is a union of the present ones."""
        if levels == self.levels:
            return
        count = len(levels)
        target = self._targets(levels)
        for name in ("table", "g", "lower_G", "lower_H", "bins"):
            setattr(self, name, _moved(getattr(self, name), target, count))
        for group in self.groups.values():
            group.table = _moved(group.table, target, count)
        if self.clusters is not None:
            self.clusters.move(target, count)
        self.levels = levels

    def _targets(self, levels: Levels) -> Index:
        if self.levels.values is None:
            raise ValueError("levels: given intervals, expected single values: intervals cannot be split")
        return levels.index(np.asarray(self.levels.values, dtype=float))

    def __iadd__(self, other: "Tally") -> Self:
        levels = self.levels.join(other.levels.values)
        self.refine(levels)
        theirs = deepcopy(other)
        theirs.refine(levels)
        self.table += theirs.table
        self.g += theirs.g
        self.lower_G += theirs.lower_G
        self.lower_H += theirs.lower_H
        self.bins += theirs.bins
        places = {}
        for name, group in theirs.groups.items():
            mine = self.groups.setdefault(name, Groups(len(levels)))
            codes = places[f"group {name}"] = mine.codes(group.names)
            mine.table[:, codes] += group.table
        if self.clusters is not None and theirs.clusters is not None:
            self.clusters.merge(theirs.clusters, places)
        return self

    def joined(self, which: Mapping[str, Flags]) -> "Tally":
        """Return these sums, not copied, with some categories of every column as one group."""
        whole = copy(self)
        whole.groups = {name: group.joined(which[name]) for name, group in self.groups.items()}
        return whole

    def signed(self) -> tuple[Array, Array]:
        """Return the sums with signs drawn for clusters: g (draws, L, d), and S (draws, L, K) of groups, then bins."""
        assert self.clusters is not None
        tables = self.clusters.signed
        parts = [tables[f"group {name}"][:, self.groups[name].order()] for name in sorted(self.groups)]
        if self.bins.shape[1]:
            parts.append(tables["bins"])
        S = np.concatenate([np.zeros((len(self.levels), 0, self.clusters.draws)), *parts], axis=1)
        return np.moveaxis(tables["contexts"], 2, 0), np.moveaxis(S, 2, 0)

    def least(self) -> tuple[Keys, Keys]:
        """Return the smallest keys of clusters in all rows (L, 1, most), and in groups, then bins (L, K, most)."""
        assert self.clusters is not None
        tables = self.clusters.least
        parts = [tables["rows"][:, :0]]
        parts += [tables[f"group {name}"][:, self.groups[name].order()] for name in sorted(self.groups)]
        parts += [tables["bins"]] if self.bins.shape[1] else []
        return tables["rows"], np.concatenate(parts, axis=1)

    @property
    def n(self) -> Array:
        """Mass of each level."""
        return self.table[:, kernel.MASS]

    @property
    def A(self) -> Array:
        """Summed residual of each level."""
        return self.table[:, kernel.RESIDUAL]

    @property
    def v(self) -> Array:
        """Mean prediction of each level: its value, or the mean in the interval (its middle if empty)."""
        if self.levels.values is not None:
            return np.array(self.levels.values, dtype=np.float64)
        n = self.n
        middle = np.array([sum(self.levels.bounds(i)) / 2 for i in range(len(n))])
        return np.where(n > 0, self.table[:, kernel.PREDICTED] / np.where(n > 0, n, 1.0), middle)

    @property
    def G(self) -> Array:
        """Σ α x xᵀ per level, symmetric."""
        return _symmetric(self.lower_G)

    @property
    def H(self) -> Array:
        """Covariance of g per level if the predictions are true, symmetric."""
        return _symmetric(self.lower_H)


def _run(level: Index, p: Array, y: Array, weights: Array, X: Array, rows: slice, sums: tuple[Array, ...]) -> None:
    kernel.tally(level[rows], p[rows], y[rows], weights[rows], X[rows], *sums)


def _moved(sums: Array, target: Index, count: int) -> Array:
    moved = np.zeros((count, *sums.shape[1:]))
    np.add.at(moved, target, sums)
    return moved


def _symmetric(lower: Array) -> Array:
    d = lower.shape[1]
    return lower + np.swapaxes(lower, 1, 2) * (1.0 - np.eye(d))


# Sample: a bounded, mergeable sample of distinct rows, and a fingerprint of all of them.

ENTRIES = 1 << 21
MOST_ROWS = 1 << 16
"""A sample keeps at most this many distinct rows and about `ENTRIES` numbers."""


class KeptRows(NamedTuple):
    """Distinct rows with how often each occurred; `labels[name]` holds hashed category names, `bins` codes."""

    hashes: Keys
    copies: Array
    p: Array
    y: Array
    weights: Array
    X: Array
    bins: Bytes
    labels: Mapping[str, Keys]

    def take(self, index: Places) -> "KeptRows":
        """Return some of the rows."""
        labels = {name: hashes[index] for name, hashes in self.labels.items()}
        return KeptRows._make([*(part[index] for part in self[:-1]), labels])


class RowSample:
    """The distinct rows with the smallest hashes, and the sums of all hashes.

    Which rows are kept depends on the set of rows alone, so merging shards in any order gives the same
    sample. While there are no more distinct rows than room, the sample is the whole data (`complete`).
    """

    def __init__(self, d: int) -> None:
        self.capacity = _capacity(d)
        self.rows: KeptRows | None = None
        self.complete = True
        self.sums = (0, 0)

    @classmethod
    def without_rows(cls, d: int, groups: Collection[str], numbers: int, sums: tuple[int, int]) -> Self:
        """Return the sample of rows that were not read; it stays empty whatever is added."""
        sample = cls(d)
        none, keys = np.zeros(0), np.zeros(0, np.uint64)
        bins, labels = np.zeros((0, numbers), np.uint8), dict.fromkeys(groups, keys)
        sample.rows = KeptRows(keys, none, none, none, none, np.zeros((0, d)), bins, labels)
        sample.complete, sample.sums = False, sums
        return sample

    @property
    def absent(self) -> bool:
        """Whether the rows were not read, so that none can be kept."""
        return not self.complete and self.rows is not None and not len(self.rows.p)

    def add(self, batch: AuditRows) -> None:
        """Add checked rows."""
        labels = {name: hash_names(c.names)[c.codes] for name, c in batch.groups.items()}
        hashes, sums = _hash_batch(batch, labels)
        self.sums = _wrap(self.sums, sums)
        if self.absent:
            return
        bins = np.zeros((len(batch), 0), np.uint8) if batch.bins is None else batch.bins
        new = KeptRows(hashes, np.ones(len(batch)), batch.p, batch.y, batch.weights, batch.X, bins, labels)
        if self.rows is not None and not self.complete:
            new = new.take(np.flatnonzero(hashes <= self.rows.hashes[-1]))
        self._keep(new)

    def merge(self, other: "RowSample") -> None:
        """Add another sample."""
        self.sums = _wrap(self.sums, other.sums)
        if self.absent:
            return
        self.complete = self.complete and other.complete
        if other.absent:
            self.rows = other.rows
        elif other.rows is not None:
            self._keep(other.rows)

    def widen(self, more: int) -> None:
        """Add so many coordinates to every row, all 0, which leave its hash unchanged."""
        if self.rows is not None:
            self.rows = self.rows._replace(X=np.pad(self.rows.X, ((0, 0), (0, more))))
            self.capacity = _capacity(self.rows.X.shape[1])

    @property
    def digest(self) -> str:
        """Fingerprint of all rows, whatever their order and split."""
        return f"{self.sums[0]:016x}{self.sums[1]:016x}"

    def _keep(self, new: KeptRows) -> None:
        rows = new if self.rows is None else _stacked(self.rows, new)
        if len(rows.hashes) > 3 * self.capacity:  # the smallest alone are sorted, if enough of them are distinct
            small = np.flatnonzero(rows.hashes <= np.partition(rows.hashes, 2 * self.capacity)[2 * self.capacity])
            if len(np.unique(rows.hashes[small])) > self.capacity:
                rows = rows.take(small)
        _, first, place = np.unique(rows.hashes, return_index=True, return_inverse=True)
        copies: Array = np.bincount(place, weights=rows.copies, minlength=len(first)).astype(np.float64)
        if len(first) > self.capacity:
            self.complete = False
        if not self.complete:
            first, copies = first[: self.capacity], copies[: self.capacity]
        self.rows = rows.take(first)._replace(copies=copies)


def _capacity(d: int) -> int:
    return int(np.clip(ENTRIES // (d + 4), 256, MOST_ROWS))


def hash_names(names: list[str]) -> Keys:
    """Return a 64-bit hash of every name, the same in every process.

    Examples
    --------
    >>> bool(hash_names(["a"])[0] == hash_names(["b", "a"])[1])
    True
    """
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def category_codes(categories: Sequence[str], labels: Keys) -> Places:
    """Return the place of every hashed name among categories; names that are not among them belong to `JOINED`.

    Examples
    --------
    >>> category_codes(["a", JOINED], hash_names(["a", "b", "c"])).tolist()
    [0, 1, 1]
    """
    hashes = hash_names(list(categories))
    order = np.argsort(hashes)
    code = order[np.minimum(np.searchsorted(hashes[order], labels), len(order) - 1)]
    absent = hashes[code] != labels
    if absent.any():
        code[absent] = categories.index(JOINED)
    return np.asarray(code)


def _hash_batch(batch: AuditRows, labels: Mapping[str, Keys]) -> tuple[Keys, tuple[int, int]]:
    hashes = np.zeros(len(batch), np.uint64)
    scalars = np.column_stack([batch.p, batch.y, batch.weights])
    with np.errstate(over="ignore"):  # sums modulo 2^64 are meant; only uncompiled kernels would warn
        hash_rows(scalars.view(np.uint64), _keys("row", 3), hashes)
        if batch.marks is None:
            hash_rows(batch.X.view(np.uint64), _keys("context", batch.X.shape[1]), hashes)
        else:
            hash_rows(batch.marks[:, None], _keys("features", 1), hashes)
        for name, values in labels.items():
            hash_rows(values[:, None], _keys(f"group {name}", 1), hashes)
        first, second = finish_hashes(hashes)
    return hashes, (int(first), int(second))


def _keys(purpose: str, count: int) -> Keys:
    return hash_names([f"{purpose} {i}" for i in range(count)]) | np.uint64(1)


def _wrap(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return (a[0] + b[0]) % 2**64, (a[1] + b[1]) % 2**64


def _stacked(a: KeptRows, b: KeptRows) -> KeptRows:
    labels = {name: np.concatenate([a.labels[name], b.labels[name]]) for name in a.labels}
    pairs: Any = zip(a[:-1], b[:-1], strict=True)
    parts = [np.concatenate(pair) for pair in pairs]
    return KeptRows._make([*parts, labels])


# Sums: the additive statistics of an audit.


@dataclass
class Sums:
    """Sums over rows: per level and group, in fine bins, per time; a sample of rows; and the roles of columns.

    `issued` holds the per-level sums with the issued probabilities as weights, None if none were given.
    """

    coordinates: tuple[Coordinate, ...]
    reader: AuditColumns | None
    tally: Tally
    issued: Tally | None
    sample: RowSample
    histogram: Histogram
    timeline: Timeline | None
    suspect: str | None = None
    """A column that looks like a cluster id, in a table of which none was named; not saved."""
    limits: tuple[str, ...] = ()
    """Limitations of these sums, as sentences, if they come from a query."""

    @classmethod
    def of(
        cls, batch: AuditRows, coordinates: tuple[Coordinate, ...], levels: Levels, reader: AuditColumns | None
    ) -> Self:
        """Start with a first batch."""
        if not len(batch):
            raise ValueError("rows: given none, expected at least one")
        names = ("p", "y") if reader is None else (f"column {reader.prob!r}", f"column {reader.target!r}")
        refuse_swapped(batch.p, batch.y, names)
        d = batch.X.shape[1]
        sums = cls(
            coordinates,
            reader,
            Tally(levels, d, 0 if batch.bins is None else batch.bins.shape[1], clustered=batch.clusters is not None),
            Tally(levels, d) if batch.pseudo is not None else None,
            RowSample(d),
            Histogram(),
            Timeline() if batch.time is not None else None,
        )
        sums._absorb(batch)
        return sums

    @classmethod
    def of_frame(
        cls,
        frame: Any,
        reader: AuditColumns,
        encoder: Encoder | None,
        levels: Levels,
        pairs: Sequence[Pair],
        search_seed: int | None = None,
    ) -> Self:
        """Read a table, or batches of one; encoded by the scales of all rows where they can be read twice.

        With `search_seed`, half of the first table proposes regions, which its other half and all further tables test.
        """
        many = batches_of(frame)
        if encoder is None and many is not None and many.again:
            encoder = reader.scaled(map(Table, many))
        sums: Self | None = None
        for table in map(Table, [frame] if many is None else many):
            if sums is not None:
                sums.add(reader.read(table))
                continue
            reader = reader.learn(table) if encoder is None else reader.like(encoder)
            assert reader.encoder is not None
            batch, coordinates = intersect(reader.read(table), pairs), tuple(reader.encoder.coordinates)
            if search_seed is not None and reader.regions is None:
                batch, regions = searched(batch, reader.encoder.numbers(table), search_seed)
                reader = replace(reader, regions=regions)
            sums = cls.of(batch, coordinates, levels, reader)
            sums.suspect = reader.suspect(table, batch)
        if sums is None:
            raise ValueError("rows: given none, expected at least one")
        return sums

    def crossed(self, batch: AuditRows) -> AuditRows:
        """Return a batch with the intersections of its group columns that are examined here."""
        return intersect(batch, [pair for pair in intersections_of(self.tally.groups) if {*pair} <= {*batch.groups}])

    def add(self, batch: AuditRows) -> None:
        """Add a batch like the first. Raises ValueError, without a change, if it is not."""
        batch = self.crossed(batch)
        self._check_like(batch)
        if len(batch):
            self._absorb(batch)

    def _check_like(self, batch: AuditRows) -> None:
        d = len(self.coordinates)
        if batch.X.shape[1] != d:
            raise ValueError(f"X: given {batch.X.shape[1]} columns, expected {d} like the rows before")
        dated = batch.dated if len(batch) else None
        self._check_fit(batch.groups, batch.time, batch.pseudo, dated, batch.clusters, "the rows before")

    def _check_fit(
        self, groups: Collection[str], time: object, issued: object, dated: bool | None, clusters: object, like: str
    ) -> None:
        """Raise ValueError for other groups, or if only one side has times, issued distributions or clusters."""
        if any(is_region(name) for name in {*self.tally.groups} ^ {*groups}):
            raise ValueError(
                "regions: given rows or an audit without those of this searched audit, expected the same regions: "
                "parts made with like= share them, and a saved file does not keep them"
            )
        if set(groups) != set(self.tally.groups):
            raise ValueError(f"groups: given {sorted(groups)}, expected {sorted(self.tally.groups)} like {like}")
        for name, theirs, mine in (
            ("time", time, self.timeline),
            ("issued distribution", issued, self.issued),
            ("clusters", clusters, self.tally.clusters),
        ):
            if (theirs is None) != (mine is None):
                raise ValueError(f"{name}: given {_some(theirs)}, expected {_some(mine)} like {like}")
        if self.timeline is not None and dated is not None and dated != self.timeline.dated:
            raise ValueError(f"time: given {_times(dated)}, expected {_times(self.timeline.dated)} like {like}")

    def _absorb(self, batch: AuditRows) -> None:
        groups = {name: batch.groups[name] for name in self.tally.groups or batch.groups}
        self.tally.add(batch.p, batch.y, batch.weights, batch.X, groups, batch.bins, batch.clusters)
        self.sample.add(batch)
        self.histogram.add(batch.p, batch.y, batch.weights)
        if self.timeline is not None and batch.time is not None:
            self.timeline.add(batch.time, batch.dated, batch.p, batch.y, batch.weights)
        if self.issued is not None and batch.pseudo is not None:
            for level, share in zip(batch.pseudo.levels.T, batch.pseudo.shares.T, strict=True):
                some = share > 0
                self.issued.add(level[some], batch.y[some], (share * batch.weights)[some], batch.X[some], {})

    def widen(self, coordinates: tuple[Coordinate, ...]) -> None:
        """Add coordinates that appeared later, 0 in all rows so far; the first ones must be the present ones."""
        more = len(coordinates) - len(self.coordinates)
        if coordinates[: len(self.coordinates)] != self.coordinates:
            raise ValueError("contexts: given different ones, expected those so far and perhaps some more")
        if not more:
            return
        self.coordinates = coordinates
        for tally in (self.tally, self.issued):
            if tally is not None:
                tally.g = np.pad(tally.g, ((0, 0), (0, more)))
                tally.lower_G = np.pad(tally.lower_G, ((0, 0), (0, more), (0, more)))
                tally.lower_H = np.pad(tally.lower_H, ((0, 0), (0, more), (0, more)))
            if tally is not None and tally.clusters is not None:
                tally.clusters.grow("contexts", len(coordinates), count_clusters=False)
        self.sample.widen(more)

    def __add__(self, other: "Sums") -> "Sums":
        self._check_addable(other)
        whole = deepcopy(self)
        whole.suspect = self.suspect or other.suspect
        whole.limits = tuple(dict.fromkeys((*self.limits, *other.limits)))
        whole.tally += other.tally
        whole.sample.merge(other.sample)
        whole.histogram.merge(other.histogram)
        if whole.timeline is not None and other.timeline is not None:
            whole.timeline.merge(other.timeline)
        if whole.issued is not None and other.issued is not None:
            whole.issued += other.issued
        return whole

    def _check_addable(self, other: "Sums") -> None:
        if self.coordinates != other.coordinates:
            raise ValueError(
                "contexts: given different ones, expected audits over the same to be added; "
                "make the second with like=, to share the encoding"
            )
        if self.cuts != other.cuts:
            raise ValueError(
                "bins of numbers: given different edges, expected audits with the same to be added; "
                "make the second with like=, to share them"
            )
        if self.levels.edges != other.levels.edges:
            raise ValueError("levels: given different ones, expected audits with the same levels= to be added")
        for name in filter(is_region, {*self.tally.groups} & {*other.tally.groups}):
            if set(self.tally.groups[name].names) != set(other.tally.groups[name].names):
                raise ValueError("regions: given others, expected audits that share them; make the second with like=")
        dated = None if other.timeline is None else other.timeline.dated
        clusters = other.tally.clusters
        self._check_fit(other.tally.groups, other.timeline, other.issued, dated, clusters, "the audit it is added to")

    @property
    def n(self) -> float:
        """Total weight of the rows."""
        return float(self.tally.n.sum())

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.tally.table[:, kernel.ROWS].sum())

    @property
    def levels(self) -> Levels:
        """The levelling rule in force."""
        return self.tally.levels

    @property
    def cuts(self) -> Mapping[str, tuple[float, ...]]:
        """The edges of every number's bins, by name; empty for contexts given as such."""
        return {} if self.reader is None or self.reader.encoder is None else self.reader.encoder.cuts

    @property
    def unit(self) -> str:
        """Unit of `n`: rows, or units of weight."""
        return "rows" if self.n == self.rows else "units of weight"

    @property
    def weighted(self) -> Tally:
        """Per-level sums with the issued probabilities as weights; the plain ones if none were given."""
        return self.issued or self.tally

    def kept(self, levels: list[int] | None = None) -> KeptRows:
        """Return the rows of the sample, or those of them at some levels."""
        rows = self.sample.rows
        assert rows is not None
        return rows if levels is None else rows.take(np.flatnonzero(np.isin(self.levels.index(rows.p), levels)))


def _some(part: object) -> str:
    return "none" if part is None else "some"


def _times(dated: bool) -> str:
    return "dates" if dated else "numbers"
