"""Flat: a fitted model as one recipe over plain arrays, the same for every kind of column and model, for use elsewhere.

A table becomes a matrix of numbers, texts by their codes, after a column of ones. Of it are made the features F: a one,
standard scores, flags of missing values, categories as intervals in which a number lies, and pairs of categories. All
else is affine in F: each of three corrections of the log-odds, F @ offsets + log-odds × (F @ slopes) + hinges, what the
trees compare, and contexts. What a model does without stands there as an identity.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from swapcal.arrays import AnyArray, Array, Integers
from swapcal.batch.correction import LOGIT_LIMIT, Correction, Scorer
from swapcal.batch.forest import NO_CODE
from swapcal.batch.mixture import Mixture
from swapcal.batch.trees import Boost
from swapcal.features.category import Category
from swapcal.features.frozen import Frozen
from swapcal.features.number import Number
from swapcal.features.rated import Rated
from swapcal.features.source import Name
from swapcal.kernels.batch_design import CATEGORY, CENTRE, HINGE, NUMBER, PAIR, SLOPE, Design, Placement
from swapcal.tables.values import unquoted

FLAG = 3.0
"""What a flag of a missing value is among standard scores."""


class Fitted(Protocol):
    """What is read of a `Model`."""

    features: Frozen
    scorer: Scorer | None
    correction: Correction
    layout: Placement
    boost: Boost | None
    opening: Correction | None

    @property
    def mixture(self) -> Mixture:
        """The snapshots."""

    @property
    def least(self) -> float:
        """How near to 0 and 1 a probability may come."""


@dataclass(frozen=True)
class Flat:
    """Arrays and JSON-able values that give the mean of a model's mixture."""

    arrays: dict[str, AnyArray]
    manifest: dict[str, Any]
    scored: bool
    """Whether the model corrects somebody's scores."""

    @classmethod
    def of(cls, model: Fitted) -> "Flat":
        """Flatten a model."""
        columns, regressors = _Columns(model.features), _Regressors.of(model)
        arrays = {
            **columns.arrays(),
            "pairs": regressors.pairs.T,
            **_stages(model, regressors),
            **_forest(model.boost, columns),
            **_contexts(model, regressors),
            **_ladders(model.mixture),
        }
        depth = 0 if model.boost is None else int(model.boost.forest.depth.max(initial=0))
        manifest = {"columns": columns.read, "logit_limit": LOGIT_LIMIT, "least": model.least, "depth": depth}
        return cls(arrays, manifest, model.scorer is None)

    @property
    def names(self) -> list[Any]:
        """The columns that are read, each once."""
        return list(dict.fromkeys(column["name"] for column in self.manifest["columns"]))


@dataclass(frozen=True)
class _Columns:
    """The columns of the matrix of numbers, after the one of ones, and what features are made of them."""

    features: Frozen

    @cached_property
    def read(self) -> list[dict[str, Any]]:
        """Return the columns: numbers, offsets of texts, codes of texts, then numbers that are only categories."""
        numbers, categories = [number.name for number in self.features.numbers], self.features.categories
        others = [category.name for category in categories if not category.texts and category.name not in numbers]
        rated = [_texts(rated.name, rated.offsets, 0.0) for rated in self.features.rated]
        coded = [_texts(one.name, one.code_of(), one.other) for one in categories if one.texts]
        return [*map(_plain, numbers), *rated, *coded, *map(_plain, others)]

    def arrays(self) -> dict[str, AnyArray]:
        """Return what makes standard scores, flags and indicators of categories."""
        features = self.features
        scaled: list[Number | Rated] = [*features.numbers, *features.rated]
        intervals = [_intervals(category) for category in features.categories]
        return {
            "numbers": np.arange(1 + len(scaled)),
            "centre": np.array([0.0, *(number.centre for number in scaled)]),
            "spread": np.array([1.0, *(number.spread for number in scaled)]),
            "flagged": 1 + np.flatnonzero([number.missing for number in features.numbers]),
            "looked_at": np.repeat(np.array([self._place(one) for one in features.categories], np.int64), self.sizes),
            "at_least": np.concatenate([np.empty(0), *(low for low, _ in intervals)]),
            "at_most": np.concatenate([np.empty(0), *(high for _, high in intervals)]),
        }

    @property
    def sizes(self) -> Integers:
        """The categories' numbers of codes."""
        return _sizes(self.features)

    def _place(self, category: Category) -> int:
        skipped = len(self.features.numbers) + len(self.features.rated) if category.texts else 0
        names = [column["name"] for column in self.read[skipped:]]
        return 1 + skipped + names.index(category.name)


def _sizes(features: Frozen) -> Integers:
    return np.array([category.size for category in features.categories], np.int64)


def _plain(name: Name) -> dict[str, Any]:
    return {"name": name if isinstance(name, str) else int(name), "texts": [], "other": 0.0}  # numpy's have no JSON


def _texts(name: Name, values: dict[str, Any], other: float) -> dict[str, Any]:
    """Return a column of texts and their numbers, in an order that does not hang on the process; None is missing."""
    return {"name": name, "texts": [[unquoted(text), values[text]] for text in sorted(values)], "other": other}


def _intervals(category: Category) -> tuple[Array, Array]:
    """Return the least and the greatest number of each code: a bin's, or twice the number, or the text's code."""
    if category.edges:
        return np.nextafter([-np.inf, *category.edges], np.inf), np.array([*category.edges, np.inf])
    known = np.array(category.numbers or range(category.size), float)
    return known, known


@dataclass(frozen=True)
class _Regressors:
    """Where the features of a design are: a one, standard scores and flags, indicators, pairs of indicators."""

    units: Array
    """What a standard score or flag is multiplied with: among the features a flag is 1."""
    sizes: Integers
    pairs: Integers
    """(pairs, 2) indicators that any design multiplies."""

    @classmethod
    def of(cls, model: Fitted) -> "_Regressors":
        features, sizes = model.features, _sizes(model.features)
        flags = sum(number.missing for number in features.numbers)
        units = np.repeat([1.0, FLAG], [len(features.numbers) + len(features.rated), flags])
        given = model.opening if model.scorer is None else model.scorer.correction
        first = None if model.boost is None else model.boost.first
        found = {
            pair
            for correction in (given, first, model.correction)
            if correction is not None
            for pair in _paired(correction.design, sizes)
        }
        return cls(units, sizes, np.array(sorted(found), np.int64).reshape(len(found), 2))

    @property
    def singles(self) -> int:
        """Number of features without pairs."""
        return 1 + len(self.units) + int(self.sizes.sum())

    def __len__(self) -> int:
        return self.singles + len(self.pairs)

    def offsets(self, design: Design, b: Array) -> Array:
        """Return the coefficients of the features, but for what the log-odds are multiplied with."""
        scales, paired = design.scales, _paired(design, self.sizes)
        numbers = scales[NUMBER] * self.units * b[design.numeric]
        codes = scales[CATEGORY] * b[_side_by_side(design.category, self.sizes)]
        pairs = [scales[PAIR] * b[paired.get((left, right), -1)] for left, right in self.pairs.tolist()]
        return np.concatenate([b[:1], numbers, codes, pairs])

    def slopes(self, design: Design, b: Array) -> Array:
        """Return the coefficients of features times log-odds."""
        codes = design.scales[SLOPE] * b[_side_by_side(design.slope, self.sizes)]
        return np.concatenate([b[1:2], np.zeros(len(self.units)), codes, np.zeros(len(self.pairs))])


def _paired(design: Design, sizes: Integers) -> dict[tuple[int, int], int]:
    """Return the regressor of each pair of indicators that has one."""
    first = np.cumsum([0, *sizes])
    return {
        (int(first[left] + a), int(first[right] + b)): int(places[a, b])
        for left, right, places in zip(design.left, design.right, design.pair, strict=True)
        for a, b in np.argwhere(places >= 0)
    }


@dataclass(frozen=True)
class _Stage:
    """One correction of log-odds."""

    offsets: Array
    slopes: Array
    knots: Array
    hinges: Array

    @classmethod
    def of(cls, correction: Correction | None, regressors: _Regressors) -> "_Stage":
        """Return a correction's coefficients, each times the scale of its regressor; without one, the identity."""
        if correction is None:
            return cls(np.zeros(len(regressors)), np.eye(1, len(regressors))[0], np.empty(0), np.empty(0))
        design, b = correction.design, np.append(correction.coefficients, 0.0)  # place -1 counts for nothing
        slopes = regressors.slopes(design, b)
        offsets = regressors.offsets(design, b) - design.scales[CENTRE] * np.append(0.0, slopes[1:])
        return cls(offsets, slopes, design.knots, design.scales[HINGE] * b[2 : 2 + len(design.knots)])

    def at(self, log_odds: float) -> "_Stage":
        """Return the correction of log-odds that are always the same, as one of any log-odds."""
        offsets = self.offsets + log_odds * self.slopes
        offsets[0] += np.maximum(0.0, log_odds - self.knots) @ self.hinges
        return _Stage(offsets, np.zeros(len(offsets)), np.empty(0), np.empty(0))


def _stages(model: Fitted, regressors: _Regressors) -> dict[str, AnyArray]:
    """Return the corrections that give the score, the trees' start and the corrected score, one below the other."""
    if model.scorer is None:
        given = _Stage.of(model.opening, regressors)
    else:
        given = _Stage.of(model.scorer.correction, regressors).at(model.scorer.base)
    first = _Stage.of(None if model.boost is None else model.boost.first, regressors)
    stages = given, first, _Stage.of(model.correction, regressors)
    most = max(len(stage.knots) for stage in stages)
    return {
        "offsets": np.array([stage.offsets for stage in stages]),
        "slopes": np.array([stage.slopes for stage in stages]),
        "knots": np.array([_filled(stage.knots, most, np.inf) for stage in stages]),
        "hinges": np.array([_filled(stage.hinges, most, 0.0) for stage in stages]),
    }


def _filled(values: Array, size: int, value: float) -> Array:
    return np.append(values, np.full(size - len(values), value))


def _forest(boost: Boost | None, columns: _Columns) -> dict[str, AnyArray]:
    """Return the trees' nodes; without trees, a leaf of 0.

    Nodes ask whether a number is above a threshold, which sends a row to the right: the log-odds, a number of the
    matrix, or a sum over the indicators of a column, one for each set of codes.
    """
    codes = int(columns.sizes.sum())
    if boost is None:
        nothing = np.zeros(1, np.int64)
        leaf = {"root": nothing, "asked": nothing, "threshold": np.zeros(1), "child": np.zeros(2, np.int64)}
        return {**leaf, "leaf": np.zeros(1), "sets": np.zeros((codes, 0))}
    forest, numbers = boost.forest, len(columns.features.numbers)
    asked, threshold = forest.column.astype(np.int64), forest.threshold.copy()
    asked[asked > 0] += 1  # the column of ones
    sets: dict[bytes, int] = {}
    for node in np.flatnonzero(forest.column > numbers).tolist():
        column = int(forest.column[node]) - 1 - numbers
        weights = _asked_of_codes(columns.sizes, column, float(threshold[node]), int(forest.codes[node]))
        asked[node] = 2 + len(columns.read) + sets.setdefault(weights.tobytes(), len(sets))
        threshold[node] = -0.5 if threshold[node] == NO_CODE else 0.5
    return {
        "root": forest.root.astype(np.int64),
        "asked": asked,
        "threshold": threshold,
        "child": forest.child.reshape(-1, 2)[:, ::-1].ravel().astype(np.int64),
        "leaf": forest.value,
        "sets": np.array([np.frombuffer(key) for key in sets]).reshape(len(sets), codes).T,
    }


def _asked_of_codes(sizes: Integers, column: int, threshold: float, left: int) -> Array:
    """Return weights of all indicators: -1 for the codes of a set, which go left, or 1 for those above a threshold.

    A row without a code has 0: it is in no set, and below every threshold.
    """
    weights, first = np.zeros(int(sizes.sum())), int(sizes[:column].sum())
    for code in range(sizes[column]):
        weights[first + code] = -(left >> code & 1) if threshold == NO_CODE else code > threshold
    return weights


def _contexts(model: Fitted, regressors: _Regressors) -> dict[str, AnyArray]:
    """Return the matrices that put features, and scores as 2p - 1, where a context has them."""
    layout, width = model.layout, model.mixture.pool.shape[1]
    placed, scores = np.zeros((regressors.singles, width)), np.zeros((2, width))
    placed[0, 0], scores[0, 1], scores[1, 2] = 0.5, *layout.score_sizes
    places = np.concatenate([layout.numeric, _side_by_side(layout.category, regressors.sizes)])
    values = np.concatenate([layout.number_size * regressors.units, np.repeat(layout.sizes, regressors.sizes)])
    there = np.flatnonzero(places >= 0)
    placed[1 + there, places[there]] = values[there]
    return {"placed": placed, "scores_placed": scores, "pool": model.mixture.pool}


def _ladders(mixture: Mixture) -> dict[str, AnyArray]:
    """Return all forecasters' levels and learners in one line, and where each one's first, middle and last are."""
    used = np.arange(mixture.z.shape[1]) < mixture.counts[:, None]
    last = np.cumsum(mixture.counts) - 1
    first = last + 1 - mixture.counts
    middle = first + (mixture.counts - 1) // 2
    return {"member": mixture.members[used], "z": mixture.z[used], "first": first, "middle": middle, "last": last}


def _side_by_side(places: Any, sizes: Integers) -> Any:
    """Return the codes' places, column after column, without the room a column has no codes for."""
    found = [row[:size] for row, size in zip(places, sizes, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *found])
