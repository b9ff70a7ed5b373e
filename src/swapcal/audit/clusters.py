"""Rows that belong together: sums in which every cluster has a random sign, and how many clusters there are."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Index, Integers, Keys
from swapcal.kernels.tally import add_distinct, add_signed, fill_signs
from swapcal.tables.frame import Table, cluster_ids
from swapcal.tables.values import text_key

# Outcomes of one patient, customer or day are correlated, so that sums of their residuals vary more than those of
# independent rows. Wild cluster bootstrap: if clusters are independent and the predictions right, the sum S = Σ_c s_c
# of the clusters' sums varies like S* = Σ_c ε_c s_c with signs ε_c = ±1. The sign of a cluster in a draw is a hash of
# its id, so that S* is a sum over rows: rows of one cluster may come in any order, batch or shard, nothing is kept per
# cluster, and the sums of parts add up. E S*² over the signs is Σ_c s_c², the variance between clusters.

DRAWS, LEAST_DRAWS = 499, 199
"""Draws kept, and how few there may be where many groups and levels need the memory."""

MOST_ENTRIES = 1 << 24
"""Most numbers kept, 8 bytes each: draws beyond are dropped."""

LEAST_CLUSTERS = 30
"""Quantities over fewer clusters are not tested: their variance between clusters is not known well enough."""

COUNTED = 1024
"""Smallest keys kept of all clusters, by which their number is estimated to some 3 %."""

NONE = np.uint64(2**64 - 1)
BLOCK = 1024
"""Rows whose signs are held at a time."""


def cluster_keys(name: str, ids: Any, rows: int | None = None) -> Keys | None:
    """Return a key for every row's cluster, the same wherever its id is the same; None for no clusters.

    Examples
    --------
    >>> one, other = cluster_keys("clusters", [7, 8, 7]), cluster_keys("clusters", ["7"])
    >>> bool(one[0] == one[2] == other[0])
    True
    """
    if ids is None:
        return None
    column = cluster_ids(name, ids, rows)
    keys = [min(text_key("cluster", text), 2**64 - 2) for text in column.names]
    return np.array(keys, np.uint64)[column.codes]


class SignedTerms(NamedTuple):
    """Terms that rows add to one table: its number of places, and every row's places and values, (rows, n) each."""

    size: int
    codes: Integers
    values: Array
    counts_clusters: bool
    """Whether the clusters of every place are counted."""

    @classmethod
    def dense(cls, values: Array) -> "SignedTerms":
        """Return terms with one place for every column of `values`."""
        return cls(values.shape[1], np.broadcast_to(np.arange(values.shape[1]), values.shape), values, False)

    @classmethod
    def coded(cls, size: int, codes: Integers, values: Array) -> "SignedTerms":
        """Return terms whose places are codes (rows, n), the same value (rows,) at each; their clusters are counted."""
        return cls(size, codes, np.broadcast_to(values[:, None], codes.shape), True)


class ClusterSums:
    """Tables of signed sums (L, K, draws) by name, and of the smallest keys of the clusters in each place.

    Draws are dropped where the tables would hold more than `MOST_ENTRIES` numbers.
    """

    def __init__(self, levels: int, draws: int = DRAWS) -> None:
        self.levels, self.draws = levels, draws
        self.signed: dict[str, Array] = {}
        self.least: dict[str, Keys] = {}
        self.all: Keys = np.full((1, 1, COUNTED), NONE)

    def require(self, levels: int, places: int) -> None:
        """Raise ValueError if so many levels and places leave room for too few draws; nothing is changed."""
        if MOST_ENTRIES // max(1, levels * places) < LEAST_DRAWS:
            expected = f"at most {MOST_ENTRIES // LEAST_DRAWS:,} (levels=20, or fewer groups or features)"
            raise ValueError(
                f"clusters: given {levels:,} levels times {places:,} features and groups, expected {expected}"
            )

    def add(self, level: Index, keys: Keys, terms: Mapping[str, SignedTerms]) -> None:
        """Add rows with the keys of their clusters."""
        for name, one in terms.items():
            self.grow(name, one.size, count_clusters=one.counts_clusters)
        self._fit()
        add_distinct(np.zeros_like(level), np.zeros((len(level), 1), np.int64), keys, self.all)
        for start in range(0, len(keys), BLOCK):
            rows = slice(start, start + BLOCK)
            signs = np.empty((len(keys[rows]), self.draws), np.int8)
            with np.errstate(over="ignore"):  # sums modulo 2^64 are meant; only uncompiled kernels would warn
                fill_signs(keys[rows], signs)
            for name, one in terms.items():
                codes, values = np.ascontiguousarray(one.codes[rows]), np.ascontiguousarray(one.values[rows])
                add_signed(level[rows], codes, values, signs, self.signed[name])
                if one.counts_clusters:
                    add_distinct(level[rows], codes, keys[rows], self.least[name])

    def grow(self, name: str, size: int, *, count_clusters: bool) -> None:
        """Make room for so many places of a table."""
        table = self.signed.setdefault(name, np.zeros((self.levels, 0, self.draws)))
        more = size - table.shape[1]
        if more > 0:
            self.signed[name] = np.pad(table, ((0, 0), (0, more), (0, 0)))
        if count_clusters:
            least = self.least.setdefault(name, np.zeros((self.levels, 0, LEAST_CLUSTERS), np.uint64))
            more = size - least.shape[1]
            self.least[name] = np.pad(least, ((0, 0), (0, max(more, 0)), (0, 0)), constant_values=NONE)

    def move(self, target: Index, count: int) -> None:
        """Move every sum to other levels, each a union of the present ones."""
        for name, table in self.signed.items():
            self.signed[name] = np.zeros((count, *table.shape[1:]))
            np.add.at(self.signed[name], target, table)
        for name, least in self.least.items():
            moved = np.full((count, *least.shape[1:]), NONE)
            for one, place in zip(least, target, strict=True):
                moved[place] = distinct(moved[place], one)
            self.least[name] = moved
        self.levels = count
        self._fit()

    def merge(self, other: "ClusterSums", codes: Mapping[str, Index]) -> None:
        """Add the sums of other rows at the same levels; `codes` are the places of theirs in tables that differ."""
        self._drop(min(self.draws, other.draws))
        for name, theirs in other.signed.items():
            place = codes.get(name, np.arange(theirs.shape[1], dtype=np.int32))
            count_clusters = name in other.least
            self.grow(name, int(place.max(initial=-1)) + 1, count_clusters=count_clusters)
            self.signed[name][:, place] += theirs[:, :, : self.draws]
            if count_clusters:
                self.least[name][:, place] = distinct(self.least[name][:, place], other.least[name])
        self.all = distinct(self.all, other.all)
        self._fit()

    @property
    def clusters(self) -> int:
        """Number of clusters: exact below `COUNTED`, else estimated from the smallest keys."""
        known = int(np.sum(self.all != NONE))
        return known if known < COUNTED else round((COUNTED - 1) * 2.0**64 / float(self.all.max()))

    def _fit(self) -> None:
        self.require(self.levels, sum(table.shape[1] for table in self.signed.values()))
        cells = sum(table.shape[0] * table.shape[1] for table in self.signed.values())
        self._drop(min(self.draws, MOST_ENTRIES // max(1, cells)))

    def _drop(self, draws: int) -> None:
        if draws < self.draws:
            self.draws = draws
            self.signed = {name: np.ascontiguousarray(table[:, :, :draws]) for name, table in self.signed.items()}


def distinct(first: Keys, second: Keys) -> Keys:
    """Return the smallest distinct keys of two sorted lists along the last axis, as many as the first has room for.

    Examples
    --------
    >>> a, b = np.array([1, 4, NONE], np.uint64), np.array([2, 4, 9], np.uint64)
    >>> distinct(a, b).tolist()
    [1, 2, 4]
    """
    both = np.sort(np.concatenate([first, second], axis=-1), axis=-1)
    again = both[..., 1:] == both[..., :-1]
    both[..., 1:][again] = NONE
    return np.sort(both, axis=-1)[..., : first.shape[-1]]


def in_windows(least: Keys) -> Integers:
    """Return the number of distinct keys in every window of levels, at most as many as are kept; (windows, K).

    Windows are those of the scan: 1, 2, 4, … aligned levels, then all. Keys are (L, K, most).
    """
    halvings, one = [], least
    while len(one) > 1:
        halvings.append(one)
        if len(one) % 2:
            one = np.concatenate([one, np.full_like(one[:1], NONE)])
        one = distinct(one[0::2], one[1::2])
    return np.concatenate([np.sum(part != NONE, axis=-1) for part in [*halvings, one]])


# Detection of a column that looks like a cluster id and was not named as one.

LOOKED_AT = 20_000
"""Number of first rows examined."""
MANY_VALUES, FEWEST_EACH, MOST_EACH = 100, 1.3, 50.0
"""An id has at least so many values, each in so many rows on average."""
MOST_UNEVEN = 10.0
"""No value of an id has more than `MOST_EACH` rows and than so many times the average: few diagnoses have most rows."""
SURELY = 6.0
"""Standard deviations beyond which products of residuals within a value are taken for dependence."""


def belong_together(name: str) -> str:
    """Return the warning of a column that looks like a cluster id."""
    return (
        f"Outcomes of rows with the same {name} are correlated, which makes errors look more certain than they are: "
        "if such rows belong to one patient, customer or day, name the column as clusters."
    )


def looks_clustered(table: Table, names: Iterable[str], p: Array, y: Array) -> str | None:
    """Return the column within whose values outcomes are most clearly correlated; None if no column qualifies.

    Σ_c Σ_{i≠j} r_i r_j over the rows of every value c has mean 0 for independent outcomes, and variance
    2 Σ_c Σ_{i≠j} v_i v_j with v = p(1 − p). Residuals r are taken from their mean.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> patient, p = np.repeat(np.arange(300), 5), np.full(1500, 0.5)
    >>> y = np.repeat(rng.integers(0, 2, 300), 5).astype(float)
    >>> looks_clustered(Table({"patient": patient, "noise": rng.integers(0, 300, 1500)}), ["noise", "patient"], p, y)
    'patient'
    """
    rows = min(len(p), LOOKED_AT)
    first = table if rows == len(table) else table.take(np.arange(rows))
    r, v = y[:rows] - p[:rows], p[:rows] * (1.0 - p[:rows])
    scores = [(_togetherness(first, name, r - r.mean(), v), name) for name in names]
    surest = max(scores, default=(0.0, ""))
    return surest[1] if surest[0] > SURELY else None


def _togetherness(table: Table, name: str, r: Array, v: Array) -> float:
    """Return by how many standard deviations products of residuals within values exceed 0; 0 if not an id."""
    codes = _id_codes(table, name)
    if codes is None:
        return 0.0
    count = np.bincount(codes)
    if len(count) < MANY_VALUES or not FEWEST_EACH <= len(codes) / len(count) <= MOST_EACH:
        return 0.0
    if count.max() > max(MOST_EACH, MOST_UNEVEN * len(codes) / len(count)):
        return 0.0
    excess = (np.bincount(codes, weights=r) ** 2).sum() - (r**2).sum()
    variance = 2.0 * ((np.bincount(codes, weights=v) ** 2).sum() - (v**2).sum())
    return float(excess / np.sqrt(variance)) if variance > 0 else 0.0


def _id_codes(table: Table, name: str) -> Index | None:
    """Return a number for each row's value; None for columns that cannot be ids: fractions, or no categories."""
    if table.is_numeric(name):
        values = table.numbers(name)
        whole = bool((np.modf(values)[0] == 0).all())
        return np.unique(values, return_inverse=True)[1].astype(np.int32) if whole else None
    try:
        return table.categories(name).codes
    except (TypeError, ValueError):
        return None
