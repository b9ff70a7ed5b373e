"""Features: a table as standard scores and category codes, learned once and then frozen."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array, Integers
from swapcal.kernels.batch_design import Lookup, look_up, standardise
from swapcal.kernels.draw import row_marks
from swapcal.tables.table import Table
from swapcal.tables.values import text_key

Name = str | int
Source = Table | Array
"""A table with named columns, or an array whose columns are known by number."""

FEATURE_CATEGORIES, GROUP_CATEGORIES = 12, 48
RARE = 20
"""A category seen less often shares the coordinate of all others."""
BINS = 8
"""Parts of equal mass into which a numeric group with many values is cut."""
MANY_VALUES = 16
FEW_ROWS = 256
"""Up to so many, looking texts up one by one is faster than finding the distinct ones first."""


class Rows(NamedTuple):
    """Encoded rows: standard scores in [-3, 3] (missing 0, flags of missing values 3) and codes (-1 for none)."""

    Z: Array
    codes: Integers


@dataclass(frozen=True)
class Category:
    """A column of categories: known texts, known numbers, or edges of bins; `other` is the code of all the rest."""

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
        if self.edges:
            values = numbers_of(source, self.name)
            return np.where(np.isnan(values), -1, np.searchsorted(self.edges, values)).astype(np.int64)
        if self.numbers:
            values, known = numbers_of(source, self.name), np.array(self.numbers)
            place = np.minimum(np.searchsorted(known, values), len(known) - 1)
            return np.where(known[place] == values, place, self.other).astype(np.int64)
        assert isinstance(source, Table)
        code_of = {text: code for code, text in enumerate(self.texts)}
        if len(source) <= FEW_ROWS:
            values = source.raw(str(self.name)).tolist()
            if all(isinstance(value, str) for value in values):
                return np.array([code_of.get(value, self.other) for value in values], np.int64)
        found = source.categories(str(self.name))
        table = np.array([code_of.get(text, self.other) for text in found.names], np.int64)
        return table[found.codes] if len(table) else np.zeros(0, np.int64)

    def labels(self) -> list[str]:
        """Return each code in the user's words."""
        if self.edges:
            parts = [f"≤ {edge:.6g}" for edge in self.edges] + [f"> {self.edges[-1]:.6g}"]
        else:
            parts = [f"= {value}" for value in [*self.texts, *(f"{n:.6g}" for n in self.numbers)]]
        return [f"{self.name} {part}" for part in parts + (["is something else"] if self.other >= 0 else [])]


@dataclass(frozen=True)
class Features:
    """Turn rows of a table into numbers and codes the same way for ever.

    Examples
    --------
    >>> table = Table({"age": [20.0, 40.0, np.nan], "sex": ["f", "m", "f"]})
    >>> features = Features.learn(table, groups=["sex"])
    >>> features.names, features.encode(table).codes.ravel()
    (['age', 'age is missing'], array([0, 1, 0]))
    """

    numeric: list[Name]
    centre: Array
    spread: Array
    flag: Integers
    categories: list[Category]

    @classmethod
    def learn(cls, source: Source, groups: Sequence[Name] = (), columns: Sequence[Name] | None = None) -> "Features":
        """Learn scales and categories of the groups and of the other columns (all, by default)."""
        everything = columns_of(source)
        for name in [*groups, *(columns or ())]:
            require(source, name)
        rest = [name for name in (everything if columns is None else columns) if name not in groups]
        numeric = [name for name in rest if is_numeric(source, name)]
        categories = [_group(source, name) for name in groups]
        numeric += [group.name for group in categories if group.edges]
        categories += [_texts(source, name, FEATURE_CATEGORIES, False) for name in rest if name not in numeric]
        raw = _matrix(source, numeric)
        _refuse_infinite(raw, numeric)
        present = ~np.isnan(raw)
        centre, spread = _scales(raw, present)
        constant = spread <= 1e-12 * np.maximum(1.0, np.abs(centre))  # rounding leaves a constant a tiny spread
        missing = ~present.all(axis=0)
        flag = np.where(missing, raw.shape[1] + np.cumsum(missing) - 1, -1)
        return cls(numeric, centre, np.where(constant, np.inf, spread), flag.astype(np.int64), categories)

    @property
    def names(self) -> list[str]:
        """Names of the columns of Z."""
        flagged = [f"{name} is missing" for name, place in zip(self.numeric, self.flag, strict=True) if place >= 0]
        return [*map(str, self.numeric), *flagged]

    @property
    def groups(self) -> list[int]:
        """Which columns of the codes are groups."""
        return [j for j, category in enumerate(self.categories) if category.is_group]

    def keys(self, source: Source) -> NDArray[np.uint64]:
        """Return a 64-bit key per row, a function of its values as given: the same in any order, batch or table."""
        numbered = [category.name for category in self.categories if not category.texts]
        names = list(dict.fromkeys([*self.numeric, *numbered]))
        if isinstance(source, Table):
            texts = [str(category.name) for category in self.categories if category.texts]
            return source.marks([str(name) for name in names], texts)
        salts, nothing = np.array([text_key(str(name)) for name in names], np.uint64), np.zeros(len(names), np.uint64)
        return row_marks(_matrix(source, names), salts, np.tile(nothing, (len(source), 1)), nothing)

    def encode(self, source: Source) -> Rows:
        """Return the encoded rows."""
        if not isinstance(source, Table):
            self._check_width(source.shape[1])
        raw = _matrix(source, self.numeric)
        Z = np.empty((len(raw), len(self.numeric) + int((self.flag >= 0).sum())))
        if standardise(raw, self.centre, self.spread, self.flag, Z) >= 0:
            _refuse_infinite(raw, self.numeric)
        codes = np.empty((len(raw), len(self.categories)), np.int64)
        if isinstance(source, Table):
            for j, category in enumerate(self.categories):
                codes[:, j] = category.codes(source)
        else:
            look_up(self._lookup, source, codes)
        return Rows(Z, codes)

    def _check_width(self, columns: int) -> None:
        """Refuse an array that ends before a column that was learned; the kernels do not look."""
        needed = 1 + max([int(name) for name in (*self.numeric, *(c.name for c in self.categories))], default=-1)
        if columns < needed:
            raise ValueError(f"array: given {columns} columns, expected at least {needed}, as when the model was made")

    @cached_property
    def _lookup(self) -> Lookup:
        """What an array's columns need; they are numbers, so their categories are values or bins."""
        lists = [category.edges or category.numbers for category in self.categories]
        return Lookup(
            np.array([int(category.name) for category in self.categories], np.int64),
            np.array([value for values in lists for value in values], np.float64),
            np.cumsum([0, *map(len, lists)]),
            np.array([bool(category.edges) for category in self.categories], np.int64),
        )

    def manifest(self) -> dict[str, Any]:
        """Return the encoder as JSON-able values, for `from_manifest`."""
        spread = [None if np.isinf(value) else value for value in self.spread.tolist()]
        parts = [vars(category) for category in self.categories]
        scales = {"centre": self.centre.tolist(), "spread": spread, "flag": self.flag.tolist()}
        return {"numeric": self.numeric, **scales, "categories": parts}

    @classmethod
    def from_manifest(cls, manifest: dict[str, Any]) -> "Features":
        """Rebuild from `manifest`."""
        spread = np.array([np.inf if value is None else value for value in manifest["spread"]], np.float64)
        centre, flag = np.array(manifest["centre"], np.float64), np.array(manifest["flag"], np.int64)
        categories = [Category(**part) for part in manifest["categories"]]
        return cls(list(manifest["numeric"]), centre, spread, flag, categories)


def columns_of(source: Source) -> list[Name]:
    """Return the names, or numbers, of all columns."""
    return list(source.columns) if isinstance(source, Table) else list(range(source.shape[1]))


def require(source: Source, name: Name) -> None:
    """Refuse a column that is not there."""
    if isinstance(source, Table):
        source.require([str(name)])
    elif isinstance(name, bool) or not isinstance(name, (int, np.integer)) or not 0 <= name < source.shape[1]:
        raise ValueError(f"column {name!r}: not in the array; expected a number from 0 to {source.shape[1] - 1}")


def is_numeric(source: Source, name: Name) -> bool:
    """Say whether a column holds numbers."""
    return source.is_numeric(str(name)) if isinstance(source, Table) else True


def numbers_of(source: Source, name: Name) -> Array:
    """Return a column as floats."""
    return source.numbers(str(name)) if isinstance(source, Table) else source[:, int(name)]


def _matrix(source: Source, names: Sequence[Name]) -> Array:
    if not isinstance(source, Table):
        whole = len(names) == source.shape[1] and source.flags.c_contiguous
        return source if whole else np.ascontiguousarray(source[:, np.array(names, np.intp)])
    if not names:
        return np.empty((len(source), 0))
    return np.column_stack([source.numbers(str(name)) for name in names])


def _scales(raw: Array, present: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return mean and standard deviation of the values present in each column."""
    if present.all() and len(raw):
        return raw.mean(axis=0), raw.std(axis=0)
    count = np.maximum(present.sum(axis=0), 1)
    centre = np.where(present, raw, 0.0).sum(axis=0) / count
    return centre, np.sqrt((np.where(present, raw - centre, 0.0) ** 2).sum(axis=0) / count)


def _refuse_infinite(raw: Array, names: Sequence[Name]) -> None:
    infinite = np.isinf(raw)
    if infinite.any():
        rows, columns = np.nonzero(infinite)
        value = raw[rows[0], columns[0]]
        raise ValueError(f"column {names[columns[0]]!r}: given {value} in row {rows[0] + 1}, expected a finite number")


def _group(source: Source, name: Name) -> Category:
    if not is_numeric(source, name):
        return _texts(source, name, GROUP_CATEGORIES, True)
    values = numbers_of(source, name)
    distinct = np.unique(values[~np.isnan(values)])
    if len(distinct) <= MANY_VALUES:
        return Category(name, True, numbers=distinct.tolist())
    edges = np.unique(np.quantile(values[~np.isnan(values)], np.arange(1, BINS) / BINS))
    return Category(name, True, edges=edges.tolist())


def _texts(source: Source, name: Name, most: int, is_group: bool) -> Category:
    assert isinstance(source, Table)
    found = source.categories(str(name))
    counts = np.bincount(found.codes, minlength=len(found.names))
    frequent = [i for i in np.argsort(-counts, kind="stable")[:most] if counts[i] >= RARE]
    kept = frequent or [int(np.argmax(counts))]
    texts = [found.names[i] for i in sorted(kept)]
    return Category(name, is_group, texts=texts, other=len(texts) if len(texts) < len(found.names) else -1)
