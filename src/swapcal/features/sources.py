"""Tables and arrays, dense or sparse, whose columns become numbers or category codes."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.draw import row_marks
from swapcal.tables.frame import Table, is_table
from swapcal.tables.values import group_name, letters, text_key

# Sparse: an array that stores only nonzero values; columns are made dense one by one.

WIDEST = 128
"""Number of columns used by default: those with the most nonzero values."""


class Sparse:
    """Columns of a scipy.sparse matrix or array.

    Examples
    --------
    >>> import scipy.sparse
    >>> thin = Sparse(scipy.sparse.csr_array(np.eye(3)))
    >>> thin.shape, thin.matrix([2, 0]).tolist()
    ((3, 3), [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    """

    def __init__(self, native: Any) -> None:
        self._columns = native.tocsc()

    def __len__(self) -> int:
        return int(self._columns.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._columns.shape  # type: ignore[no-any-return]

    def matrix(self, names: "Sequence[Any] | Integers") -> Array:
        """Return some columns, dense and side by side."""
        chosen = self._columns[:, np.array(names, np.intp)]
        return np.asarray(chosen.toarray(order="C"), np.float64)

    def take(self, index: Integers) -> "Sparse":
        """Return some of the rows."""
        return Sparse(self._columns.tocsr()[index])

    def fullest(self) -> list[int]:
        """Return the numbers of the `WIDEST` columns with the most nonzero values; all if there are fewer columns."""
        filled = np.diff(self._columns.indptr)
        return sorted(np.argsort(-filled, kind="stable")[:WIDEST].tolist())


# Source: a table with named columns, or an array, dense or sparse, with numbered columns.

Name = str | int
Source = Table | Array | Sparse


def opened(given: Any) -> Source:
    """Return a data frame, a mapping of columns, a sparse matrix or an array as a source.

    Examples
    --------
    >>> opened({"age": [30, 50]}).columns, opened([[30.0], [50.0]]).shape
    (['age'], (2, 1))
    """
    if isinstance(given, Table | Sparse):
        return given
    if issparse(given):
        return Sparse(given)
    return Table(given) if is_table(given) else np.asarray(given, dtype=np.float64)


def columns_of(source: Source) -> list[Name]:
    """Return the names, or numbers, of the columns used by default."""
    if isinstance(source, Sparse):
        return list(source.fullest())
    return [*map(letters, source.columns)] if isinstance(source, Table) else list(range(source.shape[1]))


def named(role: str, names: Any) -> list[Name]:
    """Return names of columns as a list; a text is one name, not a list of its letters."""
    if isinstance(names, str | bytes) or not isinstance(names, Collection):
        raise TypeError(f"{role}: given {names!r}, expected a list of columns")
    return [letters(name) if isinstance(name, str) else name for name in names]


def require(source: Source, name: Name) -> None:
    """Raise ValueError or `UnknownColumnError` if a column does not exist."""
    if isinstance(source, Table):
        source.require([str(name)])
    elif isinstance(name, bool) or not isinstance(name, (int, np.integer)) or not 0 <= name < source.shape[1]:
        raise ValueError(f"column {name!r}: not in the array; expected a number from 0 to {source.shape[1] - 1}")


def rows_of(source: Source, index: Integers) -> Source:
    """Return some of the rows."""
    return source[index] if isinstance(source, np.ndarray) else source.take(index)


def keys_of(source: Source, name: Name) -> Keys:
    """Return a 64-bit key per row, a function of its value in one column.

    Examples
    --------
    >>> one, other = keys_of(Table({"id": ["u7", "u8"]}), "id"), keys_of(Table({"id": ["u8"], "age": [3]}), "id")
    >>> bool(one[1] == other[0]), len(np.unique(one))
    (True, 2)
    """
    require(source, name)
    if isinstance(source, Table):
        numeric = source.is_numeric(str(name))
        return source.marks([str(name)], []) if numeric else source.marks([], [str(name)])
    return number_marks(source, [name])


def number_marks(source: "Array | Sparse", names: Sequence[Name]) -> Keys:
    """Return a 64-bit key per row, a function of its numbers in some columns of an array."""
    salts, nothing = np.array([text_key(str(name)) for name in names], np.uint64), np.zeros(len(names), np.uint64)
    return row_marks(matrix_of(source, names), salts, np.tile(nothing, (len(source), 1)), nothing)


def is_numeric(source: Source, name: Name) -> bool:
    """Return whether a column holds numbers."""
    return source.is_numeric(str(name)) if isinstance(source, Table) else True


def numbers_of(source: Source, name: Name) -> Array:
    """Return a column as floats."""
    if isinstance(source, Sparse):
        return source.matrix([name])[:, 0]
    return source.numbers(str(name)) if isinstance(source, Table) else source[:, int(name)]


def matrix_of(source: Source, names: Sequence[Name]) -> Array:
    """Return columns as floats, side by side."""
    if isinstance(source, Sparse):
        return source.matrix(names)
    if not isinstance(source, Table):
        takes_all = source.flags.c_contiguous and list(names) == list(range(source.shape[1]))
        return source if takes_all else np.ascontiguousarray(source[:, np.array(names, np.intp)])
    if not names:
        return np.empty((len(source), 0))
    return np.column_stack([source.numbers(str(name)) for name in names])


# Category: a column as codes of the texts, numbers or bins it had when it was learned.

BINS = 8
"""Parts of equal mass into which a numeric group with many values is cut."""
MANY_VALUES = 16
FEW_ROWS = 256
"""Up to this many rows, single look-ups are faster than finding the distinct texts first."""


@dataclass(frozen=True)
class Category:
    """A column of categories: known texts, known numbers, or edges of bins; `other` is the code of all other values."""

    name: Name
    is_group: bool
    texts: list[str] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    other: int = -1

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.texts) + len(self.numbers) + (len(self.edges) + 1 if self.edges else 0) + (self.other >= 0)

    def codes(self, source: Source) -> Integers:
        """Return every row's code."""
        if self.edges or self.numbers:
            return self.codes_of(numbers_of(source, self.name))
        assert isinstance(source, Table)
        code_of = self.code_of()
        if len(source) <= FEW_ROWS:
            values = source.raw(str(self.name)).tolist()
            if all(isinstance(value, str) for value in values):
                return np.array([code_of.get(group_name(value), self.other) for value in values], np.int64)
        categories = source.categories(str(self.name))
        table = np.array([code_of.get(text, self.other) for text in categories.names], np.int64)
        return table[categories.codes] if len(table) else np.zeros(0, np.int64)

    def codes_of(self, values: Array) -> Integers:
        """Return the codes of numbers."""
        if self.edges:
            return np.where(np.isnan(values), -1, np.searchsorted(self.edges, values)).astype(np.int64)
        known = np.array(self.numbers)
        place = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return np.where(known[place] == values, place, self.other).astype(np.int64)

    def code_of(self) -> dict[str, int]:
        """Return the code of each text."""
        code_of = {text: code for code, text in enumerate(self.texts)}
        for text in code_of.keys() & {"True", "False"}:  # as files of earlier versions spell truth values
            code_of.setdefault(text.lower(), code_of[text])
        return code_of

    def labels(self, other: str = "is something else") -> list[str]:
        """Return the name of each code."""
        if self.edges:
            parts = [f"≤ {edge:.6g}" for edge in self.edges] + [f"> {self.edges[-1]:.6g}"]
        else:
            parts = [f"= {value}" for value in [*self.texts, *(f"{n:.6g}" for n in self.numbers)]]
        return [f"{self.name} {part}" for part in parts + ([other] if self.other >= 0 else [])]


def learn_group(source: Source, name: Name, most: int, rare: int) -> Category:
    """Learn a group column: texts, few numbers, or many numbers in bins."""
    if not is_numeric(source, name):
        return learn_texts(source, name, most, rare, is_group=True)
    values = numbers_of(source, name)
    present = values[np.isfinite(values)]  # infinite numbers have no category, as when a model predicts
    distinct = np.unique(present)
    if len(distinct) <= MANY_VALUES:
        return Category(name, True, numbers=distinct.tolist())
    edges = np.unique(np.quantile(present, np.arange(1, BINS) / BINS))
    return Category(name, True, edges=edges.tolist())


def learn_texts(source: Source, name: Name, most: int, rare: int, is_group: bool = False) -> Category:
    """Learn the most frequent texts, at least one; texts with fewer than `rare` rows get no code."""
    assert isinstance(source, Table)
    categories = source.categories(str(name))
    counts = np.bincount(categories.codes, minlength=len(categories.names))
    return most_frequent(name, categories.names, counts, most, rare, is_group)


def most_frequent(
    name: Name, names: list[str], counts: Integers, most: int, rare: int, is_group: bool = False
) -> Category:
    """Return the category of a column's texts, given in alphabetical order with their counts."""
    ranked = np.argsort(-counts, kind="stable")[:most]
    chosen = ranked[(counts[ranked] >= rare) | (np.arange(len(ranked)) == 0)]
    texts = [names[i] for i in sorted(chosen)]
    return Category(name, is_group, texts=texts, other=len(texts) if len(texts) < len(names) else -1)


# Number: a column's scale when it was learned.

HUGE = 1e100
"""Numbers beyond this, or below its inverse, are scaled before they are squared."""


class Number(NamedTuple):
    """Mean and standard deviation (infinite for a constant) of a column, and whether any of it was missing."""

    name: Name
    centre: float
    spread: float
    missing: bool


class Quantiles:
    """Counts of a column's values, from which its quantiles are read; parts can be merged.

    Beyond `MOST_COUNTED` distinct values, neighbours that agree in their leading bits are counted together: as few
    trailing bits are dropped as possible. What is kept depends on the values alone, not on their order or parts.

    Examples
    --------
    >>> ages = Quantiles.of(np.array([20.0, 30.0, 30.0, 70.0]))
    >>> ages.merge(Quantiles.of(np.array([80.0, 20.0, np.nan])))
    >>> ages.cuts(4)
    (20.0, 30.0, 70.0)
    >>> Quantiles.of(np.linspace(18.3, 91.7, 1000)).cuts(4)
    (37.0, 55.0, 73.0)
    """

    def __init__(self) -> None:
        self.keys: Integers = np.zeros(0, np.int64)
        self.counts: Integers = np.zeros(0, np.int64)
        self.dropped = 0

    @classmethod
    def of(cls, values: Array) -> "Quantiles":
        """Count the values of a column; missing ones are left out."""
        quantiles = cls()
        keys = _ranked(np.sort(values)[: np.count_nonzero(values == values)])  # missing values come last
        quantiles._count(keys, np.arange(len(keys) + 1))
        return quantiles

    def merge(self, other: "Quantiles") -> None:
        """Add the counts of other rows."""
        dropped = max(self.dropped, other.dropped)
        keys = np.concatenate([self.keys >> (dropped - self.dropped), other.keys >> (dropped - other.dropped)])
        order = np.argsort(keys, kind="stable")
        counts = np.concatenate([self.counts, other.counts])[order]
        self.dropped = dropped
        self._count(keys[order], np.concatenate([[0], np.cumsum(counts)]))

    def cuts(self, parts: int) -> tuple[float, ...]:
        """Return values that cut the rows into so many parts of about equal size; equal ones where values tie.

        Each is the number with the fewest decimals that moves no part's end by more than an eighth of its rows.
        """
        if not len(self.keys):
            return (0.0,) * (parts - 1)
        below = np.cumsum(self.counts)
        ranks = below[-1] / parts * (np.arange(1, parts) + np.array([[-0.125], [0.125]]))
        place = np.minimum(np.searchsorted(below, ranks, side="right"), len(below) - 1)
        low, high = _unranked(self.keys[place] << self.dropped).tolist()
        return tuple(map(shortest, low, high))

    def _count(self, keys: Integers, below: Integers) -> None:
        """Keep sorted keys, each once, less as few bits as leave no more than `MOST_COUNTED`.

        `below` is the number of rows before each key, and of all rows at last. Keys stay apart from their neighbours
        where they differ in a bit that is left.
        """
        differ = (keys[1:] ^ keys[:-1]).view(np.uint64)
        few = bisect_left(
            range(64), True, key=lambda bits: bool(np.count_nonzero(differ >> np.uint64(bits)) < MOST_COUNTED)
        )
        starts = np.flatnonzero(np.concatenate([[True], differ >> np.uint64(few) != 0])[: len(keys)])
        self.keys, self.dropped = keys[starts] >> few, self.dropped + few
        self.counts = np.diff(np.append(below[starts], below[-1]))


def shortest(low: float, high: float) -> float:
    """Return the number above `low` and up to `high` with the fewest decimals; `high` if they are equal.

    Examples
    --------
    >>> shortest(26.4, 27.6), shortest(0.0, 3.2), shortest(1234.0, 1302.0), shortest(-0.31, -0.29)
    (27.0, 2.0, 1300.0, -0.3)
    """
    half, middle = high / 2 - low / 2, high / 2 + low / 2
    if half <= 0:
        return high
    for digits in range(-int(np.floor(np.log10(half))) - 2, 330):
        rounded = round(middle, digits)
        if low < rounded <= high:
            return float(rounded) + 0.0  # -0 is 0
    return high


MOST_COUNTED = 1 << 14
"""Most distinct values counted: cuts then move by less than one row in sixteen thousand, ties apart."""


def _ranked(values: Array) -> Integers:
    """Return the bits of floats in increasing order as integers in the same order."""
    bits = (values + 0.0).view(np.int64)  # -0 is 0
    negative = slice(0, int(np.searchsorted(values, 0.0)))
    bits[negative] = np.int64(-(2**63)) - bits[negative]
    return bits


def _unranked(keys: Integers) -> Array:
    return np.where(keys >= 0, keys, np.int64(-(2**63)) - keys).view(np.float64)


def learn_number(source: Source, name: Name) -> Number:
    """Learn the scale of a column, without its infinite values."""
    values = np.ascontiguousarray(numbers_of(source, name))
    refuse_infinite(name, values)
    present = values[~np.isnan(values)]
    return numbered(name, *location(present), missing=len(present) < len(values))


def numbered(name: Name, centre: float, spread: float, *, missing: bool) -> Number:
    """Return a column of this mean and standard deviation."""
    constant = spread <= 1e-12 * abs(centre)  # rounding leaves a constant a tiny spread
    return Number(name, centre, np.inf if constant else spread, missing)


def refuse_infinite(name: Name, values: Array) -> None:
    """Raise ValueError if a value is infinite."""
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        row = infinite[0]
        raise ValueError(f"column {name!r}: given {values[row]} in row {row + 1}, expected a finite number")


def location(values: Array) -> tuple[float, float]:
    """Return mean and standard deviation, (0, 0) if empty, without overflow or underflow of squares.

    Examples
    --------
    >>> location(np.array([1e300, 3e300]))
    (2e+300, 1e+300)
    """
    if not len(values):
        return 0.0, 0.0
    largest = float(np.abs(values).max())
    unit = 1.0 if 1 / HUGE < largest < HUGE or not largest else 2.0 ** np.floor(np.log2(largest))
    scaled = values / unit
    return float(unit * scaled.mean()), float(unit * scaled.std())
