"""Flat: a fitted model as one recipe over plain arrays, the same for every kind of column and model, for use elsewhere.

A table becomes a matrix of numbers, a row for each column, texts by their codes. Of it are made the features F: a one,
standard scores, flags of missing values, categories as intervals in which a number lies, and pairs of categories. All
else is affine in F: what each of three corrections multiplies with the bends of the log-odds, what the trees compare,
and what learners wish. What a model does without stands there as an identity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from swapcal.arrays import AnyArray, Array, Integers
from swapcal.batch.columns import Columns
from swapcal.batch.correction import Correction, Scorer
from swapcal.batch.mixture import Mixture
from swapcal.batch.questions import Questions
from swapcal.batch.trees import Boost
from swapcal.features.category import Category
from swapcal.features.frozen import Frozen
from swapcal.features.number import Number
from swapcal.features.rated import Rated
from swapcal.kernels.batch_design import CATEGORY, CENTRE, HINGE, NUMBER, PAIR, SLOPE, Design, Placement

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
    """Arrays that give the mean of a model's mixture from the rows of `Columns`."""

    arrays: dict[str, AnyArray]
    questions: Questions
    scored: bool
    """Whether the model corrects somebody's scores."""

    @classmethod
    def of(cls, model: Fitted, columns: Columns) -> "Flat":
        """Flatten a model."""
        regressors = _Regressors.of(model)
        arrays = {
            **_features(model.features, columns),
            "pairs": regressors.pairs.T,
            **_stages(model, regressors),
            **_learners(model, regressors),
            **_ladders(model.mixture),
        }
        numbers = arrays["numbers"][: len(model.features.numbers)]
        return cls(arrays, Questions.of(model.boost, numbers, regressors.sizes), model.scorer is None)


def flatten(models: Sequence[Fitted]) -> tuple[Columns, list[Flat]]:
    """Return what models of one table read of it, and each of them."""
    columns = Columns.of([model.features for model in models])
    flats = [Flat.of(model, columns) for model in models]
    if not columns.names and not flats[0].scored:
        raise ValueError("columns: given none, expected at least one; without any the model is a constant")
    return columns, flats


def _features(features: Frozen, columns: Columns) -> dict[str, AnyArray]:
    """Return what makes standard scores, flags and indicators of categories."""
    scaled: list[Number | Rated] = [*features.numbers, *features.rated]
    numbers = [columns.numbers.index(number.name) for number in features.numbers]
    rated = [columns.row(one) for one in features.rated]
    looked_at = [columns.row(category) for category in features.categories]
    intervals = [_intervals(category) for category in features.categories]
    return {
        "numbers": np.array([*numbers, *rated], np.int64),
        "centre": np.array([number.centre for number in scaled]),
        "spread": np.array([number.spread for number in scaled]),
        "flagged": np.array(numbers, np.int64)[[number.missing for number in features.numbers]],
        "looked_at": np.repeat(np.array(looked_at, np.int64), _sizes(features)),
        "at_least": np.concatenate([np.empty(0), *(low for low, _ in intervals)]),
        "at_most": np.concatenate([np.empty(0), *(high for _, high in intervals)]),
    }


def _sizes(features: Frozen) -> Integers:
    return np.array([category.size for category in features.categories], np.int64)


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
    """One correction of log-odds, a sum over features and bends: a one, the log-odds, and what they are above knots."""

    weights: Array
    """(2 + knots, features)"""
    knots: Array

    @classmethod
    def of(cls, correction: Correction | None, regressors: _Regressors) -> "_Stage":
        """Return a correction's coefficients, each times the scale of its regressor; without one, the identity."""
        if correction is None:
            return cls(np.eye(2, len(regressors), -1), np.empty(0))
        design, b = correction.design, np.append(correction.coefficients, 0.0)  # place -1 counts for nothing
        slopes = regressors.slopes(design, b)
        offsets = regressors.offsets(design, b) - design.scales[CENTRE] * np.append(0.0, slopes[1:])
        hinges = design.scales[HINGE] * b[2 : 2 + len(design.knots), None] * np.eye(1, len(regressors))
        return cls(np.vstack([offsets, slopes, hinges]), design.knots)

    def at(self, log_odds: float) -> "_Stage":
        """Return the correction of log-odds that are always the same, as one of any log-odds."""
        bends = np.append([1.0, log_odds], np.maximum(0.0, log_odds - self.knots))
        return _Stage(np.vstack([bends @ self.weights, np.zeros(self.weights.shape[1])]), np.empty(0))


def _stages(model: Fitted, regressors: _Regressors) -> dict[str, AnyArray]:
    """Return the corrections that give the score, the trees' start and the corrected score, with the same bends.

    A bend is the greater of its floor and the log-odds above its knot.
    """
    if model.scorer is None:
        given = _Stage.of(model.opening, regressors)
    else:
        given = _Stage.of(model.scorer.correction, regressors).at(model.scorer.base)
    first = _Stage.of(None if model.boost is None else model.boost.first, regressors)
    stages = given, first, _Stage.of(model.correction, regressors)
    most = max(len(stage.knots) for stage in stages)
    weights = np.zeros((len(stages), 2 + most, len(regressors)))
    knots = np.full((len(stages), 2 + most), np.inf)
    for k, stage in enumerate(stages):
        weights[k, : len(stage.weights)] = stage.weights
        knots[k, 1 : len(stage.weights)] = [0.0, *stage.knots]
    return {"weights": weights, "knots": knots, "floors": np.array([1.0, -np.inf, *[0.0] * most])}


def _learners(model: Fitted, regressors: _Regressors) -> dict[str, AnyArray]:
    """Return the features that contexts have, and learners that take these and the two scores as 2p - 1."""
    layout, pool = model.layout, model.mixture.pool
    places = np.concatenate([[0], layout.numeric, _side_by_side(layout.category, regressors.sizes)])
    values = np.concatenate([[0.5], layout.number_size * regressors.units, np.repeat(layout.sizes, regressors.sizes)])
    seen = np.flatnonzero(places >= 0)
    return {"seen": seen, "pool": np.hstack([pool[:, places[seen]] * values[seen], pool[:, 1:3] * layout.score_sizes])}


def _ladders(mixture: Mixture) -> dict[str, AnyArray]:
    """Return all forecasters' levels and learners in one line, and where each one's first, middle and last are."""
    used = np.arange(mixture.z.shape[1]) < mixture.counts[:, None]
    last = np.cumsum(mixture.counts) - 1
    first = last + 1 - mixture.counts
    middle = first + (mixture.counts - 1) // 2
    return {"member": mixture.members[used], "z": mixture.z[used], "ends": np.array([first, middle, last])}


def _side_by_side(places: Any, sizes: Integers) -> Any:
    """Return the codes' places, column after column, without the room a column has no codes for."""
    found = [row[:size] for row, size in zip(places, sizes, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *found])
