"""A ridge-penalised logistic regression around a given score, pooled over all levels."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from swapcal.arrays import Array, Integers
from swapcal.features.encoder import EncodedTable, FittedEncoder
from swapcal.kernels.batch import (
    CENTRE,
    Design,
    Spots,
    blank_listing,
    design_dot,
    design_pull,
    design_square,
    sizes_of,
    spots_of,
)

# Which regressors a correction has, and products with them, visited without the zeros.

KNOTS = (0.1, 0.3, 0.5, 0.7, 0.9)
PAIR_ROWS, MOST_PAIRS = 50, 150
WITH_SCORE = (0.5, 0.5, 0.3, 0.3, 0.3)
WITHOUT_SCORE = (0.0, 1.0, 0.0, 0.5, 1.0)
"""Prior standard deviation, in log-odds, of hinges, categories, group slopes, group pairs and numbers, for λ = 1."""
ENOUGH_TO_STEP = 8000
"""Rows outside a fold that suffice to estimate a curvature.

With fewer, steps from one penalty to another went astray and too large ones were chosen.
"""


def plan(features: FittedEncoder, rows: EncodedTable, given: Array, scored: bool) -> tuple[Design, int]:
    """Return where each regressor goes and how many there are.

    Hinges of the logit bend the score; groups get an offset and a slope of their own, and an offset for each
    intersection of two groups with at least 50 rows (the 150 largest).
    """
    groups = features.groups if rows.codes.size else []
    codes = max([category.size for category in features.categories], default=1)
    knots = np.unique(np.quantile(given, KNOTS)) if scored and len(given) else np.empty(0)
    width = 2 + len(knots)
    numeric = np.arange(width, width + rows.Z.shape[1])
    width += len(numeric)
    category, width = _places(features, codes, range(len(features.categories)), width)
    slope, width = _places(features, codes, groups if scored else [], width)
    pairs = [(a, b) for i, a in enumerate(groups) for b in groups[i + 1 :]]
    pair, width = _pair_places(rows.codes, pairs, codes, width)
    scales = np.array([*(WITH_SCORE if scored else WITHOUT_SCORE), float(given.mean()) if len(given) else 0.0])
    left, right = (np.array([p[side] for p in pairs], np.int64) for side in (0, 1))
    return Design(knots, numeric, category, slope, left, right, pair, scales), width


def _places(features: FittedEncoder, codes: int, columns: "range | list[int]", width: int) -> tuple[Integers, int]:
    places = np.full((len(features.categories), codes), -1, np.int64)
    for column in columns:
        size = features.categories[column].size
        places[column, :size] = np.arange(width, width + size)
        width += size
    return places, width


def _pair_places(coded: Integers, pairs: list[tuple[int, int]], codes: int, width: int) -> tuple[Integers, int]:
    counts, columns = np.zeros((len(pairs), codes, codes), np.int64), np.ascontiguousarray(coded.T) + 1  # 0: missing
    for q, (a, b) in enumerate(pairs):
        both = np.bincount(columns[a] * (codes + 1) + columns[b], minlength=(codes + 1) ** 2)
        counts[q] = both.reshape(codes + 1, codes + 1)[1:, 1:]
    large = np.flatnonzero(counts >= PAIR_ROWS)
    order = np.sort(large[np.argsort(-counts.ravel()[large], kind="stable")[:MOST_PAIRS]])
    places = np.full(counts.size, -1, np.int64)
    places[order] = np.arange(width, width + len(order))
    return places.reshape(len(pairs), codes, codes), width + len(order)


@dataclass(frozen=True)
class SparseRegressors:
    """The rows' regressors, most of which are 0; only the others are stored."""

    design: Design
    width: int
    given: Array
    rows: EncodedTable
    evenness: float = 1.0
    """Effective sample size of the weighted rows, as a share of their number."""
    other_folds: int = 1
    """Number of folds besides each one."""

    @cached_property
    def _spots(self) -> Spots:
        return spots_of(self.design, self.rows.codes, self.width)

    @cached_property
    def _sizes(self) -> Array:
        return sizes_of(self.design, self.width)

    def dots(self, index: Integers, B: Array) -> Array:
        """Return each line of B times the regressors of some rows: (lines, rows)."""
        out, sized = np.empty((len(B), len(index))), np.column_stack([B, np.zeros(len(B))]) * self._sizes
        design_dot(self.design, self.given, self.rows.Z, self._spots, index, sized, out)
        return out

    def pull(self, index: Integers, R: Array) -> Array:
        """Return the sums of some rows' regressors, weighted by each line of R: (lines, width)."""
        sums = np.zeros((len(R), self.width + 1))
        design_pull(self.design, self.given, self.rows.Z, self._spots, index, R, sums)
        return np.asarray((sums * self._sizes)[:, :-1])

    def square(self, index: Integers, c: Array) -> Array:
        """Return the lower triangle of Σ c f fᵀ over the rows of a fold.

        With many rows only the diagonal, on which rare categories depend, is exact. The other entries come from every
        so many rows, enough for the same solution; from all rows where few have most of the weight.
        """
        every = max(1, round(self.evenness * self.other_folds * len(index)) // ENOUGH_TO_STEP)
        gram = self._square(index[::every], np.ascontiguousarray(c[::every]))
        if every > 1:
            seen, exact = gram.diagonal(), self.diagonal(index, c)
            up = np.sqrt(np.divide(exact, seen, out=np.zeros(self.width), where=seen > 0.0))
            gram *= up[:, None] * up
            np.fill_diagonal(gram, exact)
        return gram

    def _square(self, index: Integers, c: Array) -> Array:
        design, room, out = self.design, blank_listing(self.design, self._spots), np.zeros((self.width, self.width))
        design_square(design, self.given, self.rows.Z, self._spots, index, c, self._sizes, room, out)
        return out

    def diagonal(self, index: Integers, c: Array) -> Array:
        """Return Σ c f² of some rows, for each regressor."""
        logits, slopes = self.given[index], self.design.slope[self.design.slope >= 0]
        sums = np.zeros((2, self.width + 1))
        weights = np.stack([c, c * (logits - self.design.scales[CENTRE])])
        design_pull(self.design, self.given, self.rows.Z, self._spots, index, weights, sums)
        sums[0, slopes] = sums[1, slopes]
        bent = np.maximum(0.0, logits[:, None] - self.design.knots)
        numbers = np.column_stack([np.ones(len(index)), logits, bent, self.rows.Z[index]])
        sums[0, : numbers.shape[1]] = c @ numbers**2
        return np.asarray((sums[0] * self._sizes**2)[:-1])

    def written_out(self) -> Array:
        """Return all regressors, zeros too: (n, width)."""
        out, everyone = np.zeros((len(self.given), self.width + 1)), np.arange(len(self.given))[:, None]
        out[:, 0], out[:, 1] = 1.0, self.given
        out[:, 2 : 2 + len(self.design.knots)] = np.maximum(0.0, self.given[:, None] - self.design.knots)
        out[:, self.design.numeric] = self.rows.Z
        out[everyone, self._spots.coded] = 1.0
        out[everyone, self._spots.sloped] = self.given[:, None] - self.design.scales[CENTRE]
        return np.asarray((out * self._sizes)[:, :-1])


@dataclass(frozen=True)
class RotatedRegressors:
    """The regressors in an orthonormal basis of the rows, (n, n), where none is 0."""

    F: Array

    def dots(self, index: Integers, B: Array) -> Array:
        """Return (lines, rows), as of `SparseRegressors`."""
        return np.asarray(B @ self.F[index].T)

    def pull(self, index: Integers, R: Array) -> Array:
        """Return (lines, width), as of `SparseRegressors`."""
        return np.asarray(R @ self.F[index])

    def square(self, index: Integers, c: Array) -> Array:
        """Return Σ c f fᵀ, both triangles of it."""
        return np.asarray((self.F[index].T * c) @ self.F[index])


# Correction: a ridge-penalised logistic regression around a given score, pooled over all levels.
#
# The engine learns one regression per level. What is common to all levels (a group that is always overestimated, a
# slope that is always too steep) is learned faster from all rows at once; the engine then starts from the corrected
# score and departs from it where the levels disagree.

SMALL = 4000
"""Rows on which Newton starts; a step or two on all rows then suffice."""
MOST_STEPS, MORE_STEPS = 12, 2
"""Newton steps for all rows, and further ones after the first for the solution without a fold."""
ROUGHLY, EXACTLY = 1e-3, 1e-5
"""Decrease of the loss, relative, at which Newton stops: for a start, and where it ends.

Below the second, further steps move predictions by less than their noise.
"""
FAST = 0.25
"""The Hessian is kept if a step's predicted decrease is at most this share of the one before."""
LEAST_CURVATURE = 1e-6
"""Of a row: keeps the Hessian definite when the score is certain."""
LOGIT_LIMIT = 12.0
ROUNDING = 1e-6
"""How far a score, perhaps of single precision, may lie outside of [0, 1]."""
PENALTIES = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
FIRST_PENALTY = 16.0
"""The penalty from whose solution those of all others are reached by one step."""
ENOUGH = 5000
"""Rows that suffice to choose among penalties, which are far apart."""
MARGIN = 1.5
"""Standard errors by which the out-of-fold loss must fall below that of a given score before it is corrected.

Without it a perfect score lost 0.8 % of its log loss on 100 rows and 0.6 % on 300. With 1 standard error 5 of 60 fits
on 300 or 1,000 rows of six numbers lost more than 0.1 %, with 1.5 none; on three tables it made no difference.
A score made here, out of fold, has seen the other folds' labels: its corrections seem worse than they are, so that no
margin is required there (`NO_MARGIN`).
"""
NO_MARGIN = -np.inf
SLOPE_MARGIN = 10.0
"""Standard errors by which a group's slope must be off after a correction for another one to be put on top.

A group in which the features work the other way round needs a slope on the corrected log-odds, not on the given
score. Where it was off by 18 to 20, log loss fell by 0.9 % and the worst group's error by a third; where by 4 to 8,
trees had found it anyway and log loss rose by up to 0.7 %.
"""


def logit(p: Array) -> Array:
    """Return log(p/(1 - p)), cut at ±12: a score of exactly 0 or 1 is taken as 6 in a million."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(p) - np.log1p(-p), -LOGIT_LIMIT, LOGIT_LIMIT))


def probabilities(scores: Array) -> Array:
    """Return the given scores, clipped to [0, 1] within rounding. Raises ValueError if one is not a probability."""
    p = np.asarray(scores, np.float64)
    outside = np.flatnonzero(~(np.abs(p - 0.5) <= 0.5 + ROUNDING))
    if outside.size:
        row = outside[0]
        raise ValueError(f"scores: given {p[row]} in row {row + 1}, expected a probability in [0, 1]")
    return np.clip(p, 0.0, 1.0)


def losses(logits: Array, y: Array) -> Array:
    """Return the log loss of each row."""
    return np.asarray(np.log1p(np.exp(-np.abs(logits))) + np.maximum(logits, 0.0) - y * logits)


def is_significant(gain: Array, margin: float) -> bool:
    """Return whether the mean of the rows' gains is above 0 by `margin` standard errors."""
    return margin == NO_MARGIN or bool(gain.mean() > margin * gain.std() / np.sqrt(len(gain)))


def left_out(without: Array, folds: Integers) -> Array:
    """Return each row's entry in the line of its own fold, of (folds, n): what was computed without the row."""
    return np.ascontiguousarray(without[folds, np.arange(len(folds))])


def slopes_off(rows: EncodedTable, groups: list[int], logits: Array, y: Array, weight: Array) -> float:
    """Return by how many standard errors the worst group's slope on the log-odds is wrong; they must be out of fold.

    That is Rao's score statistic for one more regressor, the log-odds inside the group.
    """
    p, far = expit(logits), logits - np.average(logits, weights=weight)
    error, variance = weight * (y - p) * far, weight**2 * p * (1.0 - p) * far**2
    deviations = [0.0]
    for column in groups:
        codes = rows.codes[:, column] + 1  # -1 is no group
        pull, spread = np.bincount(codes, error)[1:], np.bincount(codes, variance)[1:]
        deviations.append(float(np.max(np.abs(pull) / np.sqrt(np.maximum(spread, LEAST_CURVATURE)), initial=0.0)))
    return max(deviations)


class ScoreMoments(NamedTuple):
    """Loss, gradient and Hessian (its lower triangle) of some rows at some coefficients."""

    loss: float
    gradient: Array
    hessian: Array

    def without(self, part: "ScoreMoments") -> "ScoreMoments":
        """Return the moments of the other rows."""
        return ScoreMoments(self.loss - part.loss, self.gradient - part.gradient, self.hessian - part.hessian)


def _together(parts: list[ScoreMoments]) -> ScoreMoments:
    loss, gradient, hessian = zip(*parts, strict=True)
    return ScoreMoments(sum(loss), np.sum(gradient, axis=0), np.sum(hessian, axis=0))


@dataclass(frozen=True)
class Correction:
    """Regressors and their coefficients; the prior is "the score is right" (coefficient 1 on its logit)."""

    design: Design
    coefficients: Array

    def logits(self, given: Array, rows: EncodedTable) -> Array:
        """Return corrected log-odds."""
        spots, out = spots_of(self.design, rows.codes, len(self.coefficients)), np.empty((1, len(given)))
        design_dot(self.design, given, rows.Z, spots, np.arange(len(given)), self._sized, out)
        return np.asarray(out[0])

    @cached_property
    def _sized(self) -> Array:
        """The coefficients times their regressors' sizes, as one line."""
        return np.asarray(np.append(self.coefficients, 0.0) * sizes_of(self.design, len(self.coefficients)))[None]

    @classmethod
    def fit(
        cls,
        design: Design,
        width: int,
        given: Array,
        rows: EncodedTable,
        y: Array,
        weight: Array,
        folds: Integers,
        margin: float = MARGIN,
    ) -> tuple["Correction", Array]:
        """Return the correction, and for every fold all rows' log-odds without the rows of the fold: (folds, n).

        min over b of Σ w [log(1 + exp⟨b,f⟩) - y⟨b,f⟩] + ½λ‖b - e_1‖², by Newton; λ is the one with the least
        out-of-fold loss, or infinite where that loss is not significantly below the score's own. Leaving a fold out is
        one step with its own Hessian from the common solution and two more to correct: after these the fold's labels
        matter in the fourth order only, or by a hundredth where the Hessian comes from some of the rows.
        """
        parts = [np.flatnonzero(folds == k) for k in range(int(folds.max()) + 1)]
        problem = _Problem(design, width, given, rows, y, weight, len(parts) - 1)
        b = problem.solve([problem.sample(SMALL)], problem.prior, ROUGHLY)[0]
        moments = [problem.moments(part, b) for part in parts]
        problem.penalty = _best_penalty(problem, parts, moments, b)
        b, moments = problem.solve(parts, b, EXACTLY, moments)
        total = _together(moments)
        without = _without(problem, parts, [total.without(own) for own in moments], b)
        gain = weight * (losses(given, y) - losses(left_out(without, folds), y))
        if not is_significant(gain, margin):
            return cls(design, problem.rotated_back(problem.prior)), np.tile(given, (len(parts), 1))
        final = b - _Ridged(total.hessian, problem.penalty).solve(problem.slope([total], b))  # one more step, for free
        return cls(design, problem.rotated_back(final)), without


def untouched(design: Design, width: int) -> Correction:
    """Return the correction that changes no score."""
    coefficients = np.zeros(width)
    coefficients[1] = 1.0
    return Correction(design, coefficients)


def _best_penalty(problem: "_Problem", parts: list[Integers], moments: list[ScoreMoments], b: Array) -> float:
    """Return the λ whose out-of-fold loss is least, each candidate's solution being one Newton step from b.

    The loss falls and then rises with λ: candidates are tried downhill, from the middle, on as few folds as have
    `ENOUGH` rows.
    """
    total, tried = _together(moments), {}
    enough = 1 + int(np.searchsorted(np.cumsum([len(part) for part in parts]), ENOUGH))
    looked_at = [(part, total.without(own)) for part, own in zip(parts[:enough], moments[:enough], strict=True)]

    def loss(k: int) -> float:
        if k not in tried:
            tried[k] = sum(_left_out_loss(problem, part, other, b, PENALTIES[k]) for part, other in looked_at)
        return tried[k]

    best = (len(PENALTIES) - 1) // 2
    for way in (-1, 1):
        while 0 <= best + way < len(PENALTIES) and loss(best + way) < loss(best):
            best += way
    return PENALTIES[best]


def _left_out_loss(problem: "_Problem", part: Integers, moments: ScoreMoments, b: Array, penalty: float) -> float:
    """Return the loss of a fold under the coefficients one step from b without it."""
    shifted = b - _Ridged(moments.hessian, penalty).solve(moments.gradient + penalty * (b - problem.prior))
    logits = problem.regressors.dots(part, shifted[None])[0]
    return float(problem.weight[part] @ losses(logits, problem.y[part]))


class _Ridged:
    """H + λI, factorised once."""

    def __init__(self, hessian: Array, penalty: float) -> None:
        ridged = hessian.T.copy(order="F")  # column by column, as LAPACK has it
        ridged.T.flat[:: len(ridged) + 1] += penalty
        self._factor = cho_factor(ridged, overwrite_a=True, check_finite=False)

    def solve(self, gradient: Array) -> Array:
        return np.asarray(cho_solve(self._factor, gradient, check_finite=False))


def _without(problem: "_Problem", parts: list[Integers], moments: list[ScoreMoments], b: Array) -> Array:
    """Return all rows' log-odds under the solution without each fold; all folds share each visit to the rows."""
    ridged = [_Ridged(other.hessian, problem.penalty) for other in moments]
    without = np.stack([b - one.solve(problem.slope([other], b)) for one, other in zip(ridged, moments, strict=True)])
    everyone = np.arange(len(problem.y))
    for _ in range(MORE_STEPS):
        residuals = problem.weight * (expit(problem.regressors.dots(everyone, without)) - problem.y)
        for number, part in enumerate(parts):
            residuals[number, part] = 0.0
        gradients = problem.penalty * (without - problem.prior) + problem.regressors.pull(everyone, residuals)
        without -= np.stack([one.solve(gradient) for one, gradient in zip(ridged, gradients, strict=True)])
    return problem.regressors.dots(everyone, without)


@dataclass(frozen=True)
class Scorer:
    """A logistic regression on the features, used without a given score; `base` is the log-odds of the base rate."""

    correction: Correction
    base: float

    @classmethod
    def fit(
        cls, features: FittedEncoder, rows: EncodedTable, y: Array, weight: Array, folds: Integers
    ) -> tuple["Scorer", Array]:
        """Return the scorer and, for every fold, all rows' log-odds without the fold's rows."""
        rate = (float(weight @ y) + 1.0) / (float(weight.sum()) + 2.0)
        constant = logit(np.full(len(y), rate))
        design, width = plan(features, rows, constant, scored=False)
        correction, without = Correction.fit(design, width, constant, rows, y, weight, folds, margin=NO_MARGIN)
        return cls(correction, float(constant[0])), without

    def logits(self, rows: EncodedTable) -> Array:
        """Return log-odds."""
        return self.correction.logits(np.full(len(rows.Z), self.base), rows)


class _Problem:
    """The regression problem: rows, prior and penalty.

    With more regressors than rows the solution, with or without some of the rows, is the prior plus a sum of the rows:
    then coefficients are sought in an orthonormal basis of the rows, in which there are only as many.
    """

    def __init__(
        self, design: Design, width: int, given: Array, rows: EncodedTable, y: Array, weight: Array, other_folds: int
    ) -> None:
        self.given, self.y, self.weight = given, y, weight
        self.prior = np.zeros(width)
        self.prior[1] = 1.0
        self.penalty = FIRST_PENALTY
        evenness = float(weight.sum() ** 2 / (len(y) * (weight @ weight)))
        sparse = SparseRegressors(design, width, given, rows, min(evenness, 1.0), max(1, other_folds))
        self.regressors: SparseRegressors | RotatedRegressors = sparse
        self._basis = None
        if width > len(y):
            self._basis, corner = np.linalg.qr(sparse.written_out().T)
            self.regressors = RotatedRegressors(corner.T.copy())
            self.prior = self._basis.T @ self.prior

    def sample(self, size: int) -> Integers:
        return np.unique(np.linspace(0, len(self.y) - 1, size).astype(np.int64))

    def rotated_back(self, b: Array) -> Array:
        """Return coefficients of the regressors themselves."""
        if self._basis is None:
            return b
        identity = np.zeros(len(self._basis))
        identity[1] = 1.0
        return np.asarray(identity + self._basis @ (b - self.prior))

    def solve(
        self, parts: list[Integers], b: Array, close: float, moments: list[ScoreMoments] | None = None
    ) -> tuple[Array, list[ScoreMoments]]:
        """Return the minimum over the parts' rows and the moments there, starting from b (where they may be known).

        Newton with halved steps whenever the loss rises; the loss is convex, so this finds the minimum. The Hessian is
        most of the work and hardly changes towards the end: it is kept as long as its steps get smaller fast enough.
        """
        moments = moments or [self.moments(part, b) for part in parts]
        ridged = self._ridged(moments)
        step, promise = self._step(ridged, moments, b)
        for _ in range(MOST_STEPS):
            if promise <= close * (1.0 + self._loss(moments, b)):
                break
            then = self._slopes(parts, b - step, moments)
            while self._loss(then, b - step) > self._loss(moments, b) * (1.0 + 1e-12) and np.abs(step).max() > 1e-8:
                step = 0.5 * step
                then = self._slopes(parts, b - step, moments)
            b, moments, before = b - step, then, promise
            step, promise = self._step(ridged, moments, b)
            if promise > FAST * before:
                moments = [self.moments(part, b) for part in parts]
                ridged = self._ridged(moments)
                step, promise = self._step(ridged, moments, b)
        return b, moments

    def _ridged(self, moments: list[ScoreMoments]) -> _Ridged:
        return _Ridged(np.sum([part.hessian for part in moments], axis=0), self.penalty)

    def _step(self, ridged: _Ridged, moments: list[ScoreMoments], b: Array) -> tuple[Array, float]:
        """Return Newton's step back from b, and the decrease of the loss it predicts."""
        slope = self.slope(moments, b)
        step = ridged.solve(slope)
        return step, 0.5 * float(slope @ step)

    def _slopes(self, parts: list[Integers], b: Array, before: list[ScoreMoments]) -> list[ScoreMoments]:
        """Return losses and gradients at b, with the Hessians of before."""
        return [self.moments(part, b, old.hessian) for part, old in zip(parts, before, strict=True)]

    def _loss(self, moments: list[ScoreMoments], b: Array) -> float:
        return sum(part.loss for part in moments) + 0.5 * self.penalty * float(np.sum((b - self.prior) ** 2))

    def slope(self, moments: list[ScoreMoments], b: Array) -> Array:
        """Return the gradient of the parts' loss, penalty included."""
        return np.asarray(sum((part.gradient for part in moments), self.penalty * (b - self.prior)))

    def moments(self, index: Integers, b: Array, hessian: Array | None = None) -> ScoreMoments:
        """Return loss, gradient and Hessian of some rows, without the penalty; a Hessian that is given is kept."""
        z, w, y = self.regressors.dots(index, b[None])[0], self.weight[index], self.y[index]
        p = expit(z)
        if hessian is None:
            hessian = self.regressors.square(index, w * np.maximum(p * (1.0 - p), LEAST_CURVATURE))
        return ScoreMoments(float(w @ losses(z, y)), self.regressors.pull(index, (w * (p - y))[None])[0], hessian)
