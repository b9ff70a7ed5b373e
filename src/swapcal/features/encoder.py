"""A table as standard scores and category codes, learned once, possibly in parts, then fixed."""

import datetime
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from swapcal.arrays import Array, Flags, Integers, Keys
from swapcal.features.sources import (
    Category,
    Name,
    Number,
    Quantiles,
    Source,
    Sparse,
    columns_of,
    is_numeric,
    learn_group,
    learn_number,
    learn_texts,
    location,
    matrix_of,
    most_frequent,
    number_marks,
    numbered,
    refuse_infinite,
    require,
)
from swapcal.kernels.encode import Lookup, look_up, standardise
from swapcal.tables.frame import Table
from swapcal.tables.values import FEATURE_CATEGORIES, FITTED_GROUP_CATEGORIES, MISSING, group_name, text_of

# `TargetEncoding`: a column with too many texts for codes, as one number: each text's effect beyond the score.

CROWDED = 100
"""Texts up to which codes for the most frequent ones are enough."""
OFTEN = 5
"""Rows a text must have: rarer ones are 0, like unseen texts, so that a column of names identifies no person."""
PRECISION = 4.0
"""Of the prior of an offset, which has standard deviation ½ in log-odds."""


@dataclass(frozen=True)
class TargetEncoding:
    """Offsets in log-odds by text, with their mean and standard deviation (infinite if all are the same)."""

    name: Name
    offsets: dict[str, float]
    centre: float
    spread: float

    def values(self, source: Table) -> Array:
        """Return every row's offset."""
        categories = source.categories(str(self.name))
        return np.array([*(self.offsets.get(text, 0.0) for text in categories.names), 0.0])[categories.codes]


def learn_target_encoding(
    source: Table, name: Name, y: Array, p: Array, weight: Array, folds: Integers
) -> tuple[TargetEncoding, Array] | None:
    """Return the offsets, and each row's out-of-fold offset; None if texts are few, or all of them rare.

    One Newton step from p towards the random intercepts of a logistic regression, Σ w(y - p) / (Σ w p(1 - p) + 1/τ²).
    """
    categories = source.categories(str(name))
    often = np.bincount(categories.codes, minlength=len(categories.names)) >= OFTEN
    if len(categories.names) <= CROWDED or not often.any():
        return None
    count = int(folds.max()) + 1
    cell, size = categories.codes.astype(np.int64) * count + folds, count * len(categories.names)
    surplus, curvature = (
        np.bincount(cell, weights=weight * part, minlength=size).reshape(-1, count) for part in (y - p, p * (1.0 - p))
    )
    full = _offsets(surplus.sum(axis=1), curvature.sum(axis=1), often)
    without = _offsets(
        surplus.sum(axis=1, keepdims=True) - surplus, curvature.sum(axis=1, keepdims=True) - curvature, often[:, None]
    )
    out_of_fold = without[categories.codes, folds]
    spread = float(out_of_fold.std())
    offsets = {text: float(full[code]) for code, text in enumerate(categories.names) if often[code]}
    return TargetEncoding(name, offsets, float(out_of_fold.mean()), spread if spread > 0.0 else np.inf), out_of_fold


def _offsets(surplus: Array, curvature: Array, often: Flags) -> Array:
    return np.where(often, surplus / (curvature + PRECISION), 0.0)


# `FittedEncoder`: a table as standard scores and category codes, learned once and then fixed.


class EncodedTable(NamedTuple):
    """Encoded rows: standard scores in [-3, 3] (missing 0, flags of missing values 3) and codes (-1 for none)."""

    Z: Array
    codes: Integers
    raw: Array
    """The numbers as given, NaN where missing; without offsets, through which trees would see labels of other folds."""

    def take(self, index: "Integers | slice") -> "EncodedTable":
        """Return some of the rows."""
        return EncodedTable(self.Z[index], self.codes[index], self.raw[index])


@dataclass(frozen=True)
class FittedEncoder:
    """Encode rows of a table as numbers and codes by fixed rules.

    Examples
    --------
    >>> table = Table({"age": [20.0, 40.0, np.nan], "sex": ["f", "m", "f"]})
    >>> frozen = FittedEncoder.learn(table, groups=["sex"])
    >>> frozen.names, frozen.encode(table).codes.ravel()
    (['age', 'age is missing'], array([0, 1, 0]))
    """

    columns: tuple[Number | Category, ...]
    rated: tuple[TargetEncoding, ...] = ()

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
    ) -> "FittedEncoder":
        """Learn scales and categories of the groups and of the other columns (all, by default).

        A column keeps its most frequent categories; the others, and those with fewer than `rare` rows, share one code.
        """
        for name in [*groups, *(columns or ())]:
            require(source, name)
        named = _saveable(groups)
        names = [name for name in (columns_of(source) if columns is None else _saveable(columns)) if name not in named]
        group_columns = [learn_group(source, name, group_categories, rare) for name in named]
        other_columns = [
            learn_number(source, name) if is_numeric(source, name) else learn_texts(source, name, categories, rare)
            for name in names
        ]
        binned = [learn_number(source, group.name) for group in group_columns if group.edges]
        return cls((*group_columns, *other_columns, *binned))

    def rate(self, source: Source, y: Array, p: Array, weight: Array, folds: Integers) -> "tuple[FittedEncoder, Array]":
        """Return the encoder with an offset for each column with too many texts, and the rows' out-of-fold offsets.

        The training rows must be encoded with their out-of-fold offsets: see `encode`.
        """
        if not isinstance(source, Table):
            return self, np.empty((len(y), 0))
        crowded = [category.name for category in self.categories if category.texts and category.other >= 0]
        learned = [learn_target_encoding(source, name, y, p, weight, folds) for name in crowded]
        encodings = [pair for pair in learned if pair is not None]
        out_of_fold = np.column_stack([np.empty((len(y), 0)), *(values for _, values in encodings)])
        return replace(self, rated=tuple(rated for rated, _ in encodings)), out_of_fold

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
    def flags(self) -> Integers:
        """Column of Z with each number's flag of missing values, -1 if it has none."""
        missing = np.array([*(number.missing for number in self.numbers), *(False for _ in self.rated)], bool)
        return np.where(missing, len(missing) + np.cumsum(missing) - 1, -1).astype(np.int64)

    @cached_property
    def _scales(self) -> tuple[Array, Array]:
        scaled: list[Number | TargetEncoding] = [*self.numbers, *self.rated]
        return np.array([n.centre for n in scaled], float), np.array([n.spread for n in scaled], float)

    def keys(self, source: Source) -> Keys:
        """Return a 64-bit key per row, a function of its values as given: the same in any order, batch or table."""
        numbered = [category.name for category in self.categories if not category.texts]
        names = list(dict.fromkeys([*(number.name for number in self.numbers), *numbered]))
        if isinstance(source, Table):
            texts = [str(category.name) for category in self.categories if category.texts]
            return source.marks([str(name) for name in names], texts)
        return number_marks(source, names)

    def encode(self, source: Source, offsets: Array | None = None) -> EncodedTable:
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
        if standardise(scaled, *self._scales, self.flags, Z) >= 0:
            for number, values in zip(self.numbers, raw.T, strict=True):
                refuse_infinite(number.name, values)
        codes = np.empty((len(raw), len(self.categories)), np.int64)
        if isinstance(source, Table):
            for j, category in enumerate(self.categories):
                codes[:, j] = category.codes(source)
        else:
            self._fill_codes(source, codes)
        return EncodedTable(Z, codes, raw)

    def encode_record(self, record: Mapping[str, Any]) -> EncodedTable | None:
        """Return one encoded row of a table, or None if a value is not a number, a text or missing."""
        numbers = [_plain_number(record[str(number.name)]) for number in self.numbers]
        for rated in self.rated:
            text = _plain_text(record[str(rated.name)])
            numbers.append(None if text is None else rated.offsets.get(text, 0.0))
        codes = [self._code(j, record[str(category.name)]) for j, category in enumerate(self.categories)]
        if None in numbers or None in codes:
            return None
        Z, scaled = np.empty((1, len(self.names))), np.array([numbers], np.float64)
        infinite = standardise(scaled, *self._scales, self.flags, Z) >= 0
        return None if infinite else EncodedTable(Z, np.array([codes], np.int64), scaled[:, : len(self.numbers)])

    def _code(self, place: int, value: Any) -> int | None:
        category = self.categories[place]
        if category.texts:
            text = _plain_text(value)
            return None if text is None else self._code_of[place].get(text, category.other)
        number = _plain_number(value)
        if number is None or not category.size:
            return None
        return int(category.codes_of(np.array([number]))[0])

    @cached_property
    def _code_of(self) -> list[dict[str, int]]:
        return [category.code_of() for category in self.categories]

    def _fill_codes(self, source: "Array | Sparse", codes: Integers) -> None:
        lookup = self._lookup_table
        if isinstance(source, Sparse):
            dense = source.matrix(lookup.column)
            look_up(lookup._replace(column=np.arange(dense.shape[1])), dense, codes)
        else:
            look_up(lookup, source, codes)

    def _check_width(self, columns: int) -> None:
        """Raise ValueError if an array has too few columns; the kernels do not check."""
        needed = 1 + max([int(column.name) for column in self.columns], default=-1)
        if columns < needed:
            raise ValueError(f"array: given {columns} columns, expected at least {needed}, as when the model was made")

    @cached_property
    def _lookup_table(self) -> Lookup:
        """Parameters of an array's columns; they are numbers, so their categories are values or bins."""
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
            "flag": self.flags[: len(self.numbers)].tolist(),
            "categories": [vars(category) for category in self.categories],
            "rated": [
                vars(rated) | {"spread": None if np.isinf(rated.spread) else rated.spread} for rated in self.rated
            ],
        }

    @classmethod
    def from_manifest(cls, manifest: dict[str, Any]) -> "FittedEncoder":
        """Rebuild from `manifest`."""
        spread = [np.inf if value is None else value for value in manifest["spread"]]
        missing = [place >= 0 for place in manifest["flag"]]
        numbers = map(Number, manifest["numeric"], manifest["centre"], spread, missing)
        rated = [
            TargetEncoding(**part | {"spread": np.inf if part["spread"] is None else part["spread"]})
            for part in manifest.get("rated", ())
        ]
        return cls((*numbers, *(Category(**part) for part in manifest["categories"])), tuple(rated))


def _plain_number(value: Any) -> float | None:
    """Return a number, NaN if it is missing; None if the general path must decide."""
    kind = type(value)
    if kind is float or kind is int or isinstance(value, np.floating | np.integer):
        return float(value)
    return np.nan if value is None else None


def _plain_text(value: Any) -> str | None:
    """Return a text, truth value, date, time or missing value as text; None if the general path must decide."""
    if type(value) is str:
        return group_name(value)
    if value is None or (isinstance(value, float | datetime.date) and value != value):
        return MISSING
    return text_of(value) if isinstance(value, bool | np.bool_ | datetime.date) else None


def _saveable(names: Sequence[Name]) -> list[Name]:
    """Return names, each once, that JSON can hold: numpy's integers cannot be saved."""
    return list(dict.fromkeys(name if isinstance(name, str) else int(name) for name in names))


# Scales: means, spreads and categories of columns, learned in parts that can be added.

MOST_TEXTS = 1 << 20
"""Most distinct texts counted; beyond, the rarer half is dropped, so a text frequent only later may be undercounted."""


@dataclass
class Scale:
    """Statistics of one column: the count, mean and standard deviation of its numbers; the count of each text."""

    count: int = 0
    centre: float = 0.0
    spread: float = 0.0
    missing: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    numeric: bool = False
    """whether it was a column of numbers, even if all were missing"""
    quantiles: Quantiles = field(default_factory=Quantiles)

    @classmethod
    def of(cls, table: Table, name: str) -> Self:
        """Return the scale of a table's column."""
        if table.is_numeric(name):
            values = table.numbers(name)
            refuse_infinite(name, values)
            present = values[~np.isnan(values)]
            missing = len(values) - len(present)
            return cls(len(present), *location(present), missing, numeric=True, quantiles=Quantiles.of(present))
        categories = table.categories(name)
        counts = np.bincount(categories.codes, minlength=len(categories.names)).tolist()
        texts = Counter(dict(zip(categories.names, counts, strict=True)))
        return cls(missing=texts.pop(MISSING, 0), texts=texts)

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers."""
        return self.count > 0 or (self.numeric and not self.texts)

    def merge(self, other: "Scale", name: str) -> None:
        """Add the statistics of other rows. Raises TypeError for numbers and texts in one column."""
        if (self.count and other.texts) or (self.texts and other.count):
            raise TypeError(f"column {name!r}: given text and numbers, expected one type")
        self.numeric |= other.numeric
        n, self.missing = self.count + other.count, self.missing + other.missing
        if other.count:
            own_share, other_share, apart = self.count / n, other.count / n, other.centre - self.centre
            between = apart * math.sqrt(own_share * other_share)  # hypot: squares might overflow
            self.spread = math.hypot(self.spread * math.sqrt(own_share), other.spread * math.sqrt(other_share), between)
            self.count, self.centre = n, self.centre + apart * other_share
        self.quantiles.merge(other.quantiles)
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
        """Add the scales of another table."""
        for name, scale in self._scales.items():
            scale.merge(other._scales[name], name)

    def __add__(self, other: "Scales") -> "Scales":
        """Return the scales of both tables together."""
        total = deepcopy(self)
        total.merge(other)
        return total

    def columns(self, most: int) -> tuple[Number | Category, ...]:
        """Return each column as it would be learned from all tables at once; texts keep the most frequent."""
        return tuple(self._column(name, scale, most) for name, scale in self._scales.items())

    def cuts(self, parts: int) -> dict[str, tuple[float, ...]]:
        """Return the values that cut every column of numbers into so many parts of about equal size."""
        return {name: scale.quantiles.cuts(parts) for name, scale in self._scales.items() if scale.is_number}

    @staticmethod
    def _column(name: str, scale: Scale, most: int) -> Number | Category:
        if scale.is_number:
            return numbered(name, scale.centre, scale.spread, missing=scale.missing > 0)
        texts = scale.texts | ({MISSING: scale.missing} if scale.missing else {})
        names = sorted(texts)
        return most_frequent(name, names, np.array([texts[text] for text in names]), most, rare=0)
