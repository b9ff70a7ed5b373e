"""Boost: boosted trees that correct log-odds, learned by LightGBM, kept and evaluated as plain arrays.

What no sum of groups and features describes (a bias where two numbers are both large, a slope that turns) is found by
trees. Each round's tree is fitted to what the log-odds so far leave over, so without structure there is nothing to fit.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.batch.correction import Correction, believed, logit, losses
from swapcal.batch.forest import read_forest
from swapcal.batch.slices import sliced
from swapcal.features.frozen import Coded, Frozen
from swapcal.kernels.slices import LEVELS, NOWHERE, Desk, Slices, add_slices
from swapcal.kernels.trees import BLOCK_ROWS, LAST_BIT, MISSING, Forest, Room, add_trees

PARAMETERS: dict[str, Any] = {
    "objective": "cross_entropy",
    "max_bin": 63,
    "min_data_in_leaf": 20,
    "lambda_l2": 3.0,
    "metric": "none",
    "bin_construct_sample_cnt": 10_000,
    "enable_bundle": False,
}
REPRODUCIBLE: dict[str, Any] = {"deterministic": True, "force_col_wise": True, "num_threads": 1, "verbosity": -1}
SMALL = 1e-20
"""A spread of numbers this small is taken to 1 first: LightGBM cannot tell numbers below 1e-35 from 0."""
SHARE, FEWEST_INPUTS = 0.4, 6
"""Part of the inputs that a tree looks at, and how many at least.

Of nine columns, four seldom have both of two that matter only together: on such tables log loss fell by up to 7 %.
"""
MOST_ROUNDS, LOOKED_AT = 400, 3
"""Rounds at most, and rounds from one look at the loss to the next."""


class Pace(NamedTuple):
    """How large trees are, and how fast they learn."""

    leaves: int
    depth: int
    rate: float
    patience: int
    """Rounds without a gain before giving up."""

    def parameters(self) -> dict[str, Any]:
        """Return LightGBM's names for it."""
        return {"num_leaves": self.leaves, "max_depth": self.depth, "learning_rate": self.rate}


QUICK, THOROUGH = Pace(15, 6, 0.28, 6), Pace(20, 7, 0.18, 9)
"""Around somebody's score, and where the trees have to find everything themselves."""
SURER = 1.1
"""What the mean of the folds' trees is multiplied with.

It errs less than the trees of one fold, whose steps were made small enough for their own errors.
"""
DOUBT = 1.0
"""Standard errors by which the out-of-fold loss must fall before any tree is kept."""

FEW_ROWS = 20
"""Fewer rows walk from node to node: a word of answers costs the same however many rows there are."""


def installed() -> bool:
    """Tell whether LightGBM can be imported."""
    return find_spec("lightgbm") is not None


@dataclass(frozen=True)
class Boost:
    """Trees that start from a linear correction of the score and look at the score, the numbers and the codes."""

    first: Correction
    forest: Forest

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.forest.root)

    def logits(self, given: Array, rows: Coded) -> Array:
        """Return boosted log-odds."""
        slices = None if len(given) < FEW_ROWS else self._slices
        return grown(self.forest, self.first.logits(given, rows), given, rows, slices)

    @cached_property
    def _slices(self) -> Slices | None:
        return sliced(self.forest)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a file would hold, without slices."""
        return {"first": self.first, "forest": self.forest}

    @classmethod
    def fit(
        cls,
        first: Correction,
        without: Array,
        features: Frozen,
        rows: Coded,
        given: Array,
        y: Array,
        weight: Array,
        folds: Integers,
        seed: int,
        pace: Pace = QUICK,
    ) -> "tuple[Boost, Array] | None":
        """Return trees and the log-odds each row would have without its fold, or nothing where trees do not help.

        They start from the linear correction `first`; `without` is what it would be without each fold: (folds, n).
        """
        found = Sample(features, rows, given, y, weight, folds, pace).grow(without, seed)
        return None if found is None else (cls(first, found[0]), found[1])


def grown(forest: Forest, start: Array, given: Array, rows: Coded, slices: Slices | None = None) -> Array:
    """Return log-odds: those to start from and every tree's addition; `given` is the score the trees look at.

    With the forest's slices many rows take a quarter of the time, to the same last bit.
    """
    out, inputs = start.copy(), 1 + rows.raw.shape[1] + rows.codes.shape[1]
    if slices is None:
        bits, place = np.empty((BLOCK_ROWS, inputs), np.uint64), np.empty(BLOCK_ROWS, np.uint64)
        add_trees(forest, given, rows.raw, rows.codes, Room(np.empty((BLOCK_ROWS, inputs)), bits, place), out)
    else:
        add_slices(slices, given, rows.raw, rows.codes, _desk(inputs, len(slices.column)), out)
    return out


def _desk(inputs: int, questions: int) -> Desk:
    words = [np.empty(size, np.uint64) for size in (questions, NOWHERE + 1, LEVELS)]
    return Desk(np.zeros((inputs, BLOCK_ROWS)), np.empty((inputs, BLOCK_ROWS), np.uint64), np.zeros(BLOCK_ROWS), *words)


@dataclass(frozen=True)
class Sample:
    """Rows to grow trees on."""

    features: Frozen
    rows: Coded
    given: Array
    y: Array
    weight: Array
    folds: Integers
    pace: Pace = QUICK

    def grow(self, without: Array, seed: int) -> "tuple[Forest, Array] | None":
        """Return trees, and each row's log-odds by those of them that were grown without its fold.

        Without fold k they start from without[k], so that nothing they learned comes from the fold. The number of
        rounds is the one with the least out-of-fold loss, the same for all folds. What predicts is the mean of all
        folds' trees. Nothing is returned unless the out-of-fold loss is below the start's beyond doubt.
        """
        import lightgbm

        inputs = np.column_stack([self.given, self.rows.raw, self.rows.codes]) / self._units
        inputs = np.nan_to_num(inputs, copy=False, nan=MISSING)
        own = self.pace.parameters() | {"feature_fraction": _share(inputs.shape[1]), "seed": seed}
        parameters = PARAMETERS | REPRODUCIBLE | own
        data = lightgbm.Dataset(
            inputs, self.y, weight=self.weight, params=parameters, categorical_feature=self._sets()
        ).construct()
        boosters = [self._without(lightgbm, parameters, data, k, without[k]) for k in range(len(without))]
        start = self._left_out(boosters)
        honest, counts = self._boosted(boosters, start)
        if not believed(self.weight * (losses(start, self.y) - losses(honest, self.y)), DOUBT):
            return None
        kept = [(booster, count) for booster, count in zip(boosters, counts, strict=True) if count]
        forest = read_forest([booster.model_to_string(num_iteration=count) for booster, count in kept])
        forest = forest._replace(
            threshold=forest.threshold * self._units[forest.column], value=forest.value * (SURER / len(boosters))
        )
        return forest, honest

    @cached_property
    def _units(self) -> Array:
        """The powers of two that inputs are counted in, 1 but for those so small that LightGBM takes them for 0."""
        spreads = np.array([number.spread for number in self.features.numbers])
        numbers = np.where(spreads < SMALL, 2.0 ** np.round(np.log2(spreads)), 1.0)
        return np.concatenate([[1.0], numbers, np.ones(self.rows.codes.shape[1])])

    def _sets(self) -> list[int]:
        """Return which inputs are split by sets of codes; lists of codes too long for that are split by their order."""
        first = 1 + self.rows.raw.shape[1]
        return [first + j for j, category in enumerate(self.features.categories) if category.size <= LAST_BIT]

    def _without(self, lightgbm: Any, parameters: dict[str, Any], data: Any, fold: int, start: Array) -> Any:
        """Return a booster that learns from all folds but one and is watched on that one."""
        learned, watched = (
            data.subset(index).construct().set_init_score(start[index])
            for index in (np.flatnonzero(self.folds != fold), np.flatnonzero(self.folds == fold))
        )
        return lightgbm.Booster(parameters, learned).add_valid(watched, "left out")

    def _boosted(self, boosters: list[Any], start: Array) -> tuple[Array, list[int]]:
        """Boost all folds side by side until their losses together have not fallen for a while.

        Returned are the log-odds of each row without its fold after the best round, and how many trees each booster had
        then: a round in which it found nothing to ask has none.
        """
        best, least, honest, counts = 0, np.inf, start, [0] * len(boosters)
        for done in range(1, MOST_ROUNDS + 1):
            for booster in boosters:
                booster.update()
            if done % LOOKED_AT:
                continue
            found = self._left_out(boosters)
            loss = float(self.weight @ losses(found, self.y))
            if loss < least:
                best, least, honest = done, loss, found
                counts = [booster.current_iteration() for booster in boosters]
            elif done - best >= self.pace.patience:
                break
        return honest, counts

    def _left_out(self, boosters: list[Any]) -> Array:
        """Return each row's log-odds so far by the booster without its fold."""
        found = np.empty(len(self.y))
        for fold, booster in enumerate(boosters):
            found[self.folds == fold] = logit(_watched(booster))
        return found


def _share(inputs: int) -> float:
    """Return which part of the inputs a tree looks at."""
    return max(SHARE, min(1.0, FEWEST_INPUTS / inputs))


def _watched(booster: Any) -> Array:
    """Return the probabilities of the rows a booster is watched on."""
    seen: list[Array] = []

    def look(p: Array, _: Any) -> tuple[str, float, bool]:
        seen.append(p)
        return "seen", 0.0, False

    booster.eval_valid(look)
    return seen[0]
