"""A prediction of a batch model as a sum of contributions: one for each column, and one for the score given."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from swapcal.arrays import Array, Flags
from swapcal.batch.model import Model
from swapcal.engine.explanation import Explanation, mean_steps, reveal, reveal_orders, sorted_terms
from swapcal.features.encoder import EncodedTable
from swapcal.features.sources import Name
from swapcal.kernels.batch import CENTRE
from swapcal.tables.values import MISSING

SCORE = "score of the model that is corrected"
START = "reference row"
AT_ONCE = 1 << 14
"""Rows predicted at once: each row explained is predicted once for each step of each order."""


class Contributions(NamedTuple):
    """Of n predictions: ``mean = base + amounts.sum(axis=1)``."""

    mean: Array
    base: float
    amounts: Array
    """(n, columns)"""


class ExplainedColumn(NamedTuple):
    """A column of the table, with its places in the encoded rows, or the score (which has none)."""

    name: str
    kind: str
    scores: list[int]
    """columns of Z"""
    codes: list[int]
    raw: list[int]


@dataclass(frozen=True)
class Attribution:
    """Which columns the predictions of a model come from.

    The reference row has every number at its mean, no category, and the score at its average log-odds; a column
    that had no values in the fit, or only 0, and was missing somewhere, is missing there too: a column that is always
    missing contributes nothing. From there a
    row's values are revealed one after the other, in several orders, each also backwards; a column's contribution is
    the mean of what its value adds to the prediction. The steps of every order add up to the prediction exactly,
    whatever trees and levels do with the values. Where no more than two columns act together it is the Shapley value.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> model = Model.fit(X, (rng.random(3000) < expit(2 * X[:, 0])).astype(float))
    >>> found = Attribution(model).contributions(model.features.encode(X[:5]))
    >>> bool(np.allclose(found.base + found.amounts.sum(axis=1), model.mean(X[:5]), atol=1e-12, rtol=0))
    True
    """

    model: Model

    @cached_property
    def columns(self) -> list[ExplainedColumn]:
        """The columns that the model reads, groups first, and the score if one is given."""
        features = self.model.features
        scaled = [*(number.name for number in features.numbers), *(rated.name for rated in features.rated)]
        flagged = [number.name for number in features.numbers if number.missing]
        names = list(dict.fromkeys(one.name for one in features.columns))
        groups = {features.categories[j].name for j in features.groups}
        columns = [
            ExplainedColumn(
                shown_name(name),
                "group" if name in groups else "feature",
                _places([*scaled, *flagged], name),
                _places([category.name for category in features.categories], name),
                _places([number.name for number in features.numbers], name),
            )
            for name in names
        ]
        return columns if self.model.scorer is not None else [*columns, ExplainedColumn(SCORE, "score", [], [], [])]

    def contributions(self, rows: EncodedTable, scores: Array | None = None) -> Contributions:
        """Return what each column's value adds to the mean prediction of every row."""
        if not len(rows.Z):
            raise ValueError("X: given no rows, expected at least one")
        orders = reveal_orders(len(self.columns))
        shown = np.concatenate([reveal(order) for order in orders])
        size = max(1, AT_ONCE // len(shown))
        parts = [slice(k, k + size) for k in range(0, max(1, len(rows.Z)), size)]
        paths = np.concatenate(
            [self._paths(rows.take(part), None if scores is None else scores[part], shown) for part in parts]
        )
        steps = mean_steps(orders, paths.reshape(len(rows.Z), len(orders), -1))
        average = None if scores is None else np.array([self._average])
        base = float(self._paths(self._reference, average, shown[:1])[0, 0])
        return Contributions(paths[:, -1], base, steps)

    def explanations(self, rows: EncodedTable, scores: Array | None = None) -> list[Explanation]:
        """Return the sum in words, for each row; `blend` is the corrected score that the engine starts from."""
        parts, names = self.contributions(rows, scores), self._named(rows)
        kinds = [column.kind for column in self.columns]
        each = zip(parts.mean.tolist(), names, parts.amounts, self.model.corrected(rows, scores).tolist(), strict=True)
        explained = []
        for mean, own, amounts, corrected in each:
            terms = sorted_terms(dict(zip(zip(own, kinds, strict=True), amounts.tolist(), strict=True)))
            explained.append(Explanation(mean, mean, parts.base, terms, corrected, (), start=START))
        return explained

    @property
    def _reference(self) -> EncodedTable:
        features = self.model.features
        raw = np.array([[number.centre for number in features.numbers]], np.float64).reshape(1, -1)
        codes, Z = np.full((1, len(features.categories)), -1, np.int64), np.zeros((1, len(features.names)))
        never = [k for k, number in enumerate(features.numbers) if number.missing and np.isinf(number.spread)]
        raw[0, never], Z[0, features.flags[never]] = np.nan, 3.0  # as `EncodedTable` has flags
        codes[0, [category.texts == [MISSING] for category in features.categories]] = 0
        return EncodedTable(Z, codes, raw)

    @property
    def _average(self) -> float:
        """The score at the mean of the log-odds that its correction was fitted to."""
        model = self.model
        first = model.opening or (model.correction if model.boost is None else model.boost.first)
        return float(expit(first.design.scales[CENTRE]))

    def _paths(self, rows: EncodedTable, scores: Array | None, shown: Flags) -> Array:
        """Return predictions (n, len(shown)) of each row with the columns that are shown."""
        count, many = len(rows.Z), len(shown)
        seen = rows.take(np.repeat(np.arange(count), many))
        reference, average = self._reference, self._average
        given = None if scores is None else np.repeat(scores, many)
        for k, column in enumerate(self.columns):
            hidden = np.flatnonzero(np.tile(~shown[:, k], count))
            for place in column.scores:
                seen.Z[hidden, place] = reference.Z[0, place]
            for place in column.codes:
                seen.codes[hidden, place] = reference.codes[0, place]
            for place in column.raw:
                seen.raw[hidden, place] = reference.raw[0, place]
            if column.kind == "score" and given is not None:
                given[hidden] = average
        return self.model.mean(seen, given).reshape(count, many)

    def _named(self, rows: EncodedTable) -> list[list[str]]:
        """Return the names of each row's columns: with the row's category, or as missing."""
        features = self.model.features
        labels = [[_labelled(category.name, label) for label in category.labels()] for category in features.categories]
        by_column = []
        for column in self.columns:
            names = np.full(len(rows.Z), column.name, object)
            for place in column.raw:
                names[np.isnan(rows.raw[:, place])] = f"{column.name} is missing"
            for place in column.codes:
                known = rows.codes[:, place] >= 0
                names[known] = np.array([*labels[place], ""], object)[rows.codes[known, place]]
            by_column.append(names.tolist())
        return [list(row) for row in zip(*by_column, strict=True)] if by_column else [[] for _ in rows.Z]


def shown_name(name: Name) -> str:
    """Return a column's name, or its number in an array in words."""
    return name if isinstance(name, str) else f"column {name}"


def _labelled(name: Name, label: str) -> str:
    return label if isinstance(name, str) else f"column {label}"


def _places(names: list[Name], name: Name) -> list[int]:
    return [place for place, other in enumerate(names) if other == name]
