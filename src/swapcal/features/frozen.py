"""Frozen: a table as standard scores and category codes, learned once and then the same for ever."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.features.category import Category, learn_group, learn_texts
from swapcal.features.number import Number, learn_number, refuse_infinite
from swapcal.features.rated import Rated, learn_rated
from swapcal.features.source import Name, Source, columns_of, is_numeric, matrix_of, require
from swapcal.features.sparse import Sparse
from swapcal.kernels.coding import Lookup, look_up, standardise
from swapcal.kernels.draw import row_marks
from swapcal.tables.categories import FEATURE_CATEGORIES, FITTED_GROUP_CATEGORIES
from swapcal.tables.table import Table
from swapcal.tables.values import MISSING, group_name, text_key, text_of


class Coded(NamedTuple):
    """Encoded rows: standard scores in [-3, 3] (missing 0, flags of missing values 3) and codes (-1 for none)."""

    Z: Array
    codes: Integers
    raw: Array
    """The numbers as given, NaN where missing; without offsets, whose labels trees would find in other folds."""

    def take(self, index: "Integers | slice") -> "Coded":
        """Return some of the rows."""
        return Coded(self.Z[index], self.codes[index], self.raw[index])


@dataclass(frozen=True)
class Frozen:
    """Turn rows of a table into numbers and codes the same way for ever.

    Examples
    --------
    >>> table = Table({"age": [20.0, 40.0, np.nan], "sex": ["f", "m", "f"]})
    >>> frozen = Frozen.learn(table, groups=["sex"])
    >>> frozen.names, frozen.encode(table).codes.ravel()
    (['age', 'age is missing'], array([0, 1, 0]))
    """

    columns: tuple[Number | Category, ...]
    rated: tuple[Rated, ...] = ()

    @classmethod
    def learn(
        cls,
        source: Source,
        groups: Sequence[Name] = (),
        columns: Sequence[Name] | None = None,
        *,
        categories: int = FEATURE_CATEGORIES,
        group_categories: int = FITTED_GROUP_CATEGORIES,
        rare: int = 20,
    ) -> "Frozen":
        """Learn scales and categories of the groups and of the other columns (all, by default).

        A column keeps its most frequent categories, so many of a feature and of a group; the others, and those seen
        less than `rare` times, share one code.
        """
        for name in [*groups, *(columns or ())]:
            require(source, name)
        named = _plain(groups)
        rest = [name for name in (columns_of(source) if columns is None else _plain(columns)) if name not in named]
        first = [learn_group(source, name, group_categories, rare) for name in named]
        others = [
            learn_number(source, name) if is_numeric(source, name) else learn_texts(source, name, categories, rare)
            for name in rest
        ]
        binned = [learn_number(source, group.name) for group in first if group.edges]
        return cls((*first, *others, *binned))

    def rate(self, source: Source, y: Array, p: Array, weight: Array, folds: Integers) -> "tuple[Frozen, Array]":
        """Return the encoder with an offset for each column of texts that had too many, and the rows' by other folds.

        The rows that taught the offsets must be encoded by those without their own fold: see `encode`.
        """
        if not isinstance(source, Table):
            return self, np.empty((len(y), 0))
        crowded = [category.name for category in self.categories if category.texts and category.other >= 0]
        found = [learn_rated(source, name, y, p, weight, folds) for name in crowded]
        kept = [pair for pair in found if pair is not None]
        honest = np.column_stack([np.empty((len(y), 0)), *(values for _, values in kept)])
        return replace(self, rated=tuple(rated for rated, _ in kept)), honest

    @cached_property
    def numbers(self) -> list[Number]:
        """The columns of numbers, in the order of Z."""
        return [column for column in self.columns if isinstance(column, Number)]

    @cached_property
    def categories(self) -> list[Category]:
        """The columns of categories, in the order of the codes."""
        return [column for column in self.columns if isinstance(column, Category)]

    @property
    def names(self) -> list[str]:
        """Names of the columns of Z."""
        flagged = [f"{number.name} is missing" for number in self.numbers if number.missing]
        rated = [f"offset of {rated.name}" for rated in self.rated]
        return [*(str(number.name) for number in self.numbers), *rated, *flagged]

    @property
    def groups(self) -> list[int]:
        """Which columns of the codes are groups."""
        return [j for j, category in enumerate(self.categories) if category.is_group]

    @cached_property
    def _flag(self) -> Integers:
        """Where in Z each number's flag of missing values is, -1 for nowhere."""
        missing = np.array([*(number.missing for number in self.numbers), *(False for _ in self.rated)], bool)
        return np.where(missing, len(missing) + np.cumsum(missing) - 1, -1).astype(np.int64)

    @cached_property
    def _scales(self) -> tuple[Array, Array]:
        scaled: list[Number | Rated] = [*self.numbers, *self.rated]
        return np.array([n.centre for n in scaled], float), np.array([n.spread for n in scaled], float)

    def keys(self, source: Source) -> Keys:
        """Return a 64-bit key per row, a function of its values as given: the same in any order, batch or table."""
        numbered = [category.name for category in self.categories if not category.texts]
        names = list(dict.fromkeys([*(number.name for number in self.numbers), *numbered]))
        if isinstance(source, Table):
            texts = [str(category.name) for category in self.categories if category.texts]
            return source.marks([str(name) for name in names], texts)
        salts, nothing = np.array([text_key(str(name)) for name in names], np.uint64), np.zeros(len(names), np.uint64)
        return row_marks(matrix_of(source, names), salts, np.tile(nothing, (len(source), 1)), nothing)

    def encode(self, source: Source, offsets: Array | None = None) -> Coded:
        """Return the encoded rows; `offsets`, if given, stand in for those of the rated columns."""
        if not isinstance(source, Table):
            self._check_width(source.shape[1])
        raw = matrix_of(source, [number.name for number in self.numbers])
        scaled = raw
        if self.rated:
            assert isinstance(source, Table)
            rated = [one.values(source) for one in self.rated] if offsets is None else [offsets]
            scaled = np.column_stack([raw, *rated])
        Z = np.empty((len(raw), len(self.names)))
        if standardise(scaled, *self._scales, self._flag, Z) >= 0:
            for number, values in zip(self.numbers, raw.T, strict=True):
                refuse_infinite(number.name, values)
        codes = np.empty((len(raw), len(self.categories)), np.int64)
        if isinstance(source, Table):
            for j, category in enumerate(self.categories):
                codes[:, j] = category.codes(source)
        else:
            self._look_up(source, codes)
        return Coded(Z, codes, raw)

    def encode_record(self, record: Mapping[str, Any]) -> Coded | None:
        """Return one encoded row of a table, or None if a value is not plainly a number, a text or missing."""
        numbers = [_plain_number(record[str(number.name)]) for number in self.numbers]
        for rated in self.rated:
            text = _plain_text(record[str(rated.name)])
            numbers.append(None if text is None else rated.offsets.get(text, 0.0))
        codes = [self._code(j, record[str(category.name)]) for j, category in enumerate(self.categories)]
        if None in numbers or None in codes:
            return None
        Z, scaled = np.empty((1, len(self.names))), np.array([numbers], np.float64)
        infinite = standardise(scaled, *self._scales, self._flag, Z) >= 0
        return None if infinite else Coded(Z, np.array([codes], np.int64), scaled[:, : len(self.numbers)])

    def _code(self, place: int, value: Any) -> int | None:
        category = self.categories[place]
        if category.texts:
            plain = _plain_text(value)
            return None if plain is None else self._code_of[place].get(plain, category.other)
        number = _plain_number(value)
        if number is None or not category.size:
            return None
        return int(category.codes_of(np.array([number]))[0])

    @cached_property
    def _code_of(self) -> list[dict[str, int]]:
        return [category.code_of() for category in self.categories]

    def _look_up(self, source: "Array | Sparse", codes: Integers) -> None:
        lookup = self._lookup
        if isinstance(source, Sparse):
            dense = source.matrix(lookup.column)
            look_up(lookup._replace(column=np.arange(dense.shape[1])), dense, codes)
        else:
            look_up(lookup, source, codes)

    def _check_width(self, columns: int) -> None:
        """Refuse an array that ends before a column that was learned; the kernels do not look."""
        needed = 1 + max([int(column.name) for column in self.columns], default=-1)
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
        return {
            "numeric": [number.name for number in self.numbers],
            "centre": [number.centre for number in self.numbers],
            "spread": [None if np.isinf(number.spread) else number.spread for number in self.numbers],
            "flag": self._flag[: len(self.numbers)].tolist(),
            "categories": [vars(category) for category in self.categories],
            "rated": [
                vars(rated) | {"spread": None if np.isinf(rated.spread) else rated.spread} for rated in self.rated
            ],
        }

    @classmethod
    def from_manifest(cls, manifest: dict[str, Any]) -> "Frozen":
        """Rebuild from `manifest`."""
        spread = [np.inf if value is None else value for value in manifest["spread"]]
        missing = [place >= 0 for place in manifest["flag"]]
        numbers = map(Number, manifest["numeric"], manifest["centre"], spread, missing)
        rated = [
            Rated(**part | {"spread": np.inf if part["spread"] is None else part["spread"]})
            for part in manifest.get("rated", ())
        ]
        return cls((*numbers, *(Category(**part) for part in manifest["categories"])), tuple(rated))


def _plain_number(value: Any) -> float | None:
    """Return a number, NaN if it is missing; None if it would take a closer look."""
    kind = type(value)
    if kind is float or kind is int or isinstance(value, np.floating | np.integer):
        return float(value)
    return np.nan if value is None else None


def _plain_text(value: Any) -> str | None:
    """Return what a text, truth value, date, time or missing value is called; None if it would take a closer look."""
    if type(value) is str:
        return group_name(value)
    if value is None or (isinstance(value, float | datetime.date) and value != value):
        return MISSING
    return text_of(value) if isinstance(value, bool | np.bool_ | datetime.date) else None


def _plain(names: Sequence[Name]) -> list[Name]:
    """Return names, each once, that JSON can hold: numpy's integers cannot be saved."""
    return list(dict.fromkeys(name if isinstance(name, str) else int(name) for name in names))
