"""Boost: boosted trees that correct log-odds, learned by LightGBM, kept and evaluated as plain arrays.

What no sum of groups and features describes (a bias where two numbers are both large, a slope that turns) is found by
trees. Each round's tree is fitted to what the log-odds so far leave over, so without structure there is nothing to fit.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.batch.correction import Correction, believed, left_out, losses, plan
from swapcal.features.frozen import Coded, Frozen
from swapcal.kernels.trees import BLOCK_ROWS, LAST_BIT, MISSING, Forest, Room, add_trees

PARAMETERS: dict[str, Any] = {
    "objective": "cross_entropy",
    "learning_rate": 0.15,
    "max_bin": 127,
    "num_leaves": 20,
    "max_depth": 7,
    "min_data_in_leaf": 20,
    "lambda_l2": 3.0,
    "feature_fraction": 0.4,
    "bin_construct_sample_cnt": 20_000,
}
REPRODUCIBLE: dict[str, Any] = {"deterministic": True, "force_col_wise": True, "num_threads": 1, "verbosity": -1}
NO_CODE = -100.0
"""A threshold below every code."""
MOST_ROUNDS, PATIENCE, LOOKED_AT = 400, 12, 3
"""Rounds at most, rounds without a gain before giving up, and rounds from one look at the loss to the next."""
MORE = 1.3
"""Rounds on all rows for one without a fold: more rows carry more trees before they overfit."""
DOUBT = 1.0
"""Standard errors by which the out-of-fold loss must fall before any tree is kept."""


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
        return grown(self.forest, self.first.logits(given, rows), given, rows)

    @classmethod
    def fit(
        cls,
        features: Frozen,
        rows: Coded,
        given: Array,
        y: Array,
        weight: Array,
        folds: Integers,
        seed: int,
        doubt: float,
    ) -> "tuple[Boost, Array] | None":
        """Return trees and the log-odds each row would have without its fold, or nothing where trees do not help.

        `doubt` is that of the linear correction they start from.
        """
        design, width = plan(features, rows, given, scored=True)
        first, without = Correction.fit(design, width, given, rows, y, weight, folds, doubt)
        found = Sample(features, rows, given, y, weight, folds).grow(first.logits(given, rows), without, seed)
        return None if found is None else (cls(first, found[0]), found[1])


def grown(forest: Forest, start: Array, given: Array, rows: Coded) -> Array:
    """Return log-odds: those to start from and every tree's addition; `given` is the score the trees look at."""
    out, inputs = start.copy(), 1 + rows.raw.shape[1] + rows.codes.shape[1]
    bits, place = np.empty((BLOCK_ROWS, inputs), np.uint64), np.empty(BLOCK_ROWS, np.uint64)
    add_trees(forest, given, rows.raw, rows.codes, Room(np.empty((BLOCK_ROWS, inputs)), bits, place), out)
    return out


@dataclass(frozen=True)
class Sample:
    """Rows to grow trees on."""

    features: Frozen
    rows: Coded
    given: Array
    y: Array
    weight: Array
    folds: Integers

    def grow(self, whole: Array, without: Array, seed: int) -> "tuple[Forest, Array] | None":
        """Return trees that start from the log-odds `whole`, and each row's log-odds by trees without its fold.

        Without fold k they start from without[k], so that nothing they learned comes from the fold. The number of
        rounds is the one with the least out-of-fold loss, the same for all folds. Nothing is returned unless that loss
        is below the start's beyond doubt.
        """
        import lightgbm

        parameters = PARAMETERS | REPRODUCIBLE | {"seed": seed}
        inputs = np.column_stack([self.given, np.nan_to_num(self.rows.raw, nan=MISSING), self.rows.codes])
        data = lightgbm.Dataset(
            inputs, self.y, weight=self.weight, params=parameters, categorical_feature=self._sets()
        ).construct()
        parts = [np.flatnonzero(self.folds == k) for k in range(len(without))]
        boosters = [self._without(lightgbm, parameters, data, k, without[k]) for k in range(len(without))]
        rounds = _rounds(boosters, [float(self.weight[part].sum()) for part in parts])
        start = left_out(without, self.folds)
        honest = start.copy()
        for booster, part in zip(boosters, parts, strict=True):
            honest[part] += booster.predict(inputs[part], num_iteration=rounds, raw_score=True, num_threads=1)
        if not believed(self.weight * (losses(start, self.y) - losses(honest, self.y)), DOUBT):
            return None
        data.set_init_score(whole)
        rounds = round(MORE * rounds)
        return _forest(lightgbm.train(parameters, data, rounds), rounds), honest

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


def _rounds(boosters: list[Any], sizes: list[float]) -> int:
    """Boost all folds side by side until their losses together have not fallen for a while; return the best round."""
    best, least = 0, np.inf
    for done in range(1, MOST_ROUNDS + 1):
        for booster in boosters:
            booster.update()
        if done % LOOKED_AT:
            continue
        loss = float(np.dot(sizes, [booster.eval_valid()[0][2] for booster in boosters]))
        if loss < least:
            best, least = done, loss
        elif done - best >= PATIENCE:
            break
    return best


def _forest(booster: Any, rounds: int) -> Forest:
    """Return LightGBM's trees as arrays."""
    nodes = _Nodes()
    for tree in booster.dump_model(num_iteration=rounds)["tree_info"]:
        nodes.plant(tree["tree_structure"])
    return nodes.forest()


class _Nodes:
    """Collects nodes in the order parent, left branch, right branch."""

    def __init__(self) -> None:
        self.trees: list[tuple[int, int]] = []
        self.nodes: list[tuple[int, float, int, float]] = []
        self.child: list[int] = []

    def plant(self, tree: dict[str, Any]) -> None:
        root = len(self.nodes)
        self.trees.append((root, self._place(tree)))

    def _place(self, node: dict[str, Any]) -> int:
        """Add a node and all below it; return its height."""
        here = len(self.nodes)
        self.child += [here, here]
        if "split_feature" not in node:
            self.nodes.append((0, NO_CODE, 0, float(node["leaf_value"])))
            return 0
        of_codes = node["decision_type"] == "=="
        codes = sum(1 << int(code) for code in node["threshold"].split("||")) if of_codes else 0
        threshold = NO_CODE if of_codes else float(node["threshold"])
        self.nodes.append((int(node["split_feature"]), threshold, codes, 0.0))
        left = self._place(node["left_child"])
        self.child[2 * here : 2 * here + 2] = len(self.nodes), here + 1
        return 1 + max(left, self._place(node["right_child"]))

    def forest(self) -> Forest:
        column, threshold, codes, value = zip(*self.nodes, strict=True) if self.nodes else ((),) * 4
        root, depth = zip(*self.trees, strict=True) if self.trees else ((),) * 2
        return Forest(
            np.array(root, np.uint64),
            np.array(depth, np.int64),
            np.array(column, np.uint64),
            np.array(threshold, np.float64),
            np.array(codes, np.uint64),
            np.array(self.child, np.uint64),
            np.array(value, np.float64),
        )
