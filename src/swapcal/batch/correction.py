"""Correction: a ridge-penalised logistic regression around a given score, pooled over all levels.

The engine learns one regression per level. What is common to all levels (a group that is always overestimated, a slope
that is always too steep) is learned faster from all rows at once; the engine then starts from the corrected score and
departs from it where the levels disagree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from swapcal.batch.features import Features, Rows
from swapcal.kernels.batch_design import Design, design_dot, fill_design

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

BLOCK = 4096
SMALL = 4000
"""Rows on which Newton starts; two more steps on all rows then suffice."""
MOST_STEPS = 12
LEAST_CURVATURE = 1e-6
"""Of a row: keeps the Hessian definite when the score is certain."""
LOGIT_LIMIT = 12.0
KNOTS = (0.1, 0.3, 0.5, 0.7, 0.9)
PAIR_ROWS, MOST_PAIRS = 50, 150
WITH_SCORE = (0.5, 0.5, 0.3, 0.3, 0.3)
WITHOUT_SCORE = (0.0, 1.0, 0.0, 0.5, 1.0)
"""Prior standard deviation, in log-odds, of hinges, categories, group slopes, group pairs and numbers, for λ = 1."""
PENALTIES = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)


def logit(p: Array) -> Array:
    """Return log(p/(1 - p)), cut at ±12: a score of exactly 0 or 1 is taken as 6 in a million."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(p) - np.log1p(-p), -LOGIT_LIMIT, LOGIT_LIMIT))


class Moments(NamedTuple):
    """Penalised loss, gradient and Hessian at some coefficients."""

    loss: float
    gradient: Array
    hessian: Array


@dataclass(frozen=True)
class Correction:
    """Regressors and their coefficients; the prior is "the score is right" (coefficient 1 on its logit)."""

    design: Design
    coefficients: Array

    def logits(self, given: Array, rows: Rows) -> Array:
        """Return corrected log-odds."""
        out, room = np.empty(len(given)), np.empty(len(self.coefficients))
        design_dot(self.design, given, rows.Z, rows.codes, self.coefficients, room, out)
        return out

    @classmethod
    def fit(
        cls, design: Design, width: int, given: Array, rows: Rows, y: Array, weight: Array, folds: Integers
    ) -> tuple["Correction", Array]:
        """Return the correction, and for every row the log-odds it would have without the rows of its fold.

        min over b of Σ w [log(1 + exp⟨b,f⟩) - y⟨b,f⟩] + ½λ‖b - e_1‖², by Newton; λ is the one with the least
        out-of-fold loss. Leaving a fold out is one step with its own Hessian from the common solution and one more to
        correct: after these the fold's labels matter only in third order.
        """
        problem = _Problem(design, width, given, rows, y, weight)
        b = problem.solve(problem.sample(SMALL), problem.prior) if len(y) > 2 * SMALL else problem.prior
        b = problem.solve(np.arange(len(y)), b)
        parts = [np.flatnonzero(folds == k) for k in range(int(folds.max()) + 1)]
        moments = [problem.moments(part, b, penalised=False) for part in parts]
        problem.penalty = _best_penalty(problem, parts, moments, b)
        if problem.penalty != PENALTIES[0]:
            b = problem.solve(np.arange(len(y)), _shifted(problem, moments, None, b, problem.penalty))
            moments = [problem.moments(part, b, penalised=False) for part in parts]
        return cls(design, b), _left_out(problem, parts, moments, b)


def _best_penalty(problem: "_Problem", parts: list[Integers], moments: list[Moments], b: Array) -> float:
    """Return the λ whose out-of-fold loss is least, each candidate's solution being one Newton step from b."""
    losses = np.zeros(len(PENALTIES))
    for part, own in zip(parts, moments, strict=True):
        candidates = np.column_stack([_shifted(problem, moments, own, b, penalty) for penalty in PENALTIES])
        for index, F in problem.blocks(part):
            z, y = F @ candidates, problem.y[index, None]
            losses += problem.weight[index] @ (np.logaddexp(0.0, z) - y * z)
    return PENALTIES[int(np.argmin(losses))]


def _shifted(problem: "_Problem", moments: list[Moments], without: Moments | None, b: Array, penalty: float) -> Array:
    """Return one Newton step from b towards the solution for another λ, without one fold's rows."""
    gradient = sum((part.gradient for part in moments), penalty * (b - problem.prior))
    hessian = sum((part.hessian for part in moments), penalty * np.eye(len(b)))
    if without is not None:
        gradient, hessian = gradient - without.gradient, hessian - without.hessian
    return np.asarray(b - cho_solve(cho_factor(hessian), gradient))


def _left_out(problem: "_Problem", parts: list[Integers], moments: list[Moments], b: Array) -> Array:
    """Return every row's log-odds under the solution without its fold."""
    out = np.empty(len(problem.y))
    hessian = sum((part.hessian for part in moments), problem.penalty * np.eye(len(b)))
    for number, (part, own) in enumerate(zip(parts, moments, strict=True)):
        without = _shifted(problem, moments, own, b, problem.penalty)
        kept = np.concatenate([other for k, other in enumerate(parts) if k != number])
        factor = cho_factor(hessian - own.hessian)
        out[part] = problem.predict(part, without - cho_solve(factor, problem.gradient(kept, without)))
    return out


@dataclass(frozen=True)
class Scorer:
    """A logistic regression on the features, for those who bring no score; `base` is the log-odds of the base rate."""

    correction: Correction
    base: float

    @classmethod
    def fit(cls, features: Features, rows: Rows, y: Array, weight: Array, folds: Integers) -> tuple["Scorer", Array]:
        """Return the scorer and each row's log-odds without its fold."""
        rate = (float(weight @ y) + 1.0) / (float(weight.sum()) + 2.0)
        constant = logit(np.full(len(y), rate))
        design, width = plan(features, rows, constant, scored=False)
        correction, honest = Correction.fit(design, width, constant, rows, y, weight, folds)
        return cls(correction, float(constant[0])), honest

    def logits(self, rows: Rows) -> Array:
        """Return log-odds."""
        return self.correction.logits(np.full(len(rows.Z), self.base), rows)


class _Problem:
    def __init__(self, design: Design, width: int, given: Array, rows: Rows, y: Array, weight: Array) -> None:
        self.design, self.given, self.rows, self.y, self.weight = design, given, rows, y, weight
        self.prior = np.zeros(width)
        self.prior[1] = 1.0
        self.penalty = PENALTIES[0]
        self._room = np.empty((min(BLOCK, len(y)), width))

    def sample(self, size: int) -> Integers:
        return np.linspace(0, len(self.y) - 1, size).astype(np.int64)

    def blocks(self, index: Integers) -> Iterator[tuple[Integers, Array]]:
        for start in range(0, len(index), BLOCK):
            part = index[start : start + BLOCK]
            F = self._room[: len(part)]
            fill_design(self.design, self.given, self.rows.Z, self.rows.codes, part, F)
            yield part, F

    def solve(self, index: Integers, b: Array) -> Array:
        """Newton with halved steps whenever the loss rises; the loss is convex, so this finds the minimum."""
        now = self.moments(index, b)
        for _ in range(MOST_STEPS):
            step = cho_solve(cho_factor(now.hessian), now.gradient)
            # the predicted decrease, relative: below it further steps move predictions by less than their noise
            if 0.5 * float(now.gradient @ step) <= 1e-6 * (1.0 + now.loss):
                break
            then = self.moments(index, b - step)
            while then.loss > now.loss * (1.0 + 1e-12) and np.abs(step).max() > 1e-8:
                step = 0.5 * step
                then = self.moments(index, b - step)
            b, now = b - step, then
        return b

    def moments(self, index: Integers, b: Array, penalised: bool = True) -> Moments:
        gap = b - self.prior
        penalty = self.penalty if penalised else 0.0
        loss, gradient, hessian = 0.5 * penalty * float(gap @ gap), penalty * gap, penalty * np.eye(len(b))
        for part, F in self.blocks(index):
            z, w, y = F @ b, self.weight[part], self.y[part]
            p = expit(z)
            loss += float(w @ (np.logaddexp(0.0, z) - y * z))
            gradient += (w * (p - y)) @ F
            root = np.sqrt(w * np.maximum(p * (1.0 - p), LEAST_CURVATURE))
            F *= root[:, None]
            hessian += F.T @ F
        return Moments(loss, gradient, hessian)

    def gradient(self, index: Integers, b: Array) -> Array:
        gradient = self.penalty * (b - self.prior)
        for part, F in self.blocks(index):
            gradient = gradient + (self.weight[part] * (expit(F @ b) - self.y[part])) @ F
        return gradient

    def predict(self, index: Integers, b: Array) -> Array:
        return np.concatenate([F @ b for _, F in self.blocks(index)])


def plan(features: Features, rows: Rows, given: Array, scored: bool) -> tuple[Design, int]:
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


def _places(features: Features, codes: int, columns: "range | list[int]", width: int) -> tuple[Integers, int]:
    places = np.full((len(features.categories), codes), -1, np.int64)
    for column in columns:
        size = features.categories[column].size
        places[column, :size] = np.arange(width, width + size)
        width += size
    return places, width


def _pair_places(found: Integers, pairs: list[tuple[int, int]], codes: int, width: int) -> tuple[Integers, int]:
    counts = np.zeros((len(pairs), codes * codes), np.int64)
    for q, (a, b) in enumerate(pairs):
        both = (found[:, a] >= 0) & (found[:, b] >= 0)
        counts[q] = np.bincount(found[both, a] * codes + found[both, b], minlength=codes * codes)
    order = np.argsort(-counts, axis=None, kind="stable")[:MOST_PAIRS]
    order = np.sort(order[counts.ravel()[order] >= PAIR_ROWS])
    places = np.full(counts.size, -1, np.int64)
    places[order] = np.arange(width, width + len(order))
    return places.reshape(len(pairs), codes, codes), width + len(order)
