"""Boosted trees that correct log-odds, learned by LightGBM, kept and evaluated as plain arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.batch.correction import Correction, is_significant, logit, losses
from swapcal.features.encoder import EncodedTable, FittedEncoder
from swapcal.kernels.trees import (
    BLOCK_ROWS,
    LAST_BIT,
    LEVELS,
    MISSING,
    NOWHERE,
    Forest,
    Room,
    Slices,
    TreeScratch,
    add_slices,
    add_trees,
)

# Forest: LightGBM's trees, read from its text as plain arrays.

NO_CODE = -100.0
"""A threshold below every code."""


def read_forest(texts: Sequence[str]) -> Forest:
    """Return the trees of some boosters' `model_to_string`, one after the other.

    A tree's nodes are its inner nodes, parents before children, then the leaves; child -1 - k of the text is leaf k.
    """
    text = _Text([_lines(tree) for text in texts for tree in text.split("\nTree=")[1:]])
    sizes = 2 * text.inner_counts + 1
    first, tree = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
    node = np.arange(len(tree))
    inner = node - first[tree] < text.inner_counts[tree]
    column, codes = np.zeros((2, len(node)), np.uint64)
    threshold, value = np.full(len(node), NO_CODE), np.zeros(len(node))
    column[inner], value[~inner] = text.listed("split_feature"), text.listed("leaf_value", np.float64)
    threshold[inner], codes[inner] = text.splits(tree[inner])
    sides, owner = np.column_stack([text.listed("right_child"), text.listed("left_child")]), tree[inner, None]
    child = np.column_stack([node, node])
    child[inner] = first[owner] + np.where(sides < 0, text.inner_counts[owner] - 1 - sides, sides)
    as_key = np.uint64
    return Forest(
        first.astype(as_key), depths(first, child), column, threshold, codes, child.ravel().astype(as_key), value
    )


def _lines(tree: str) -> dict[str, str]:
    """Return LightGBM's fields of a tree by name; a tree of one leaf has no split, whatever its fields hold."""
    lines = dict(line.split("=", 1) for line in tree.partition("\n\n")[0].splitlines()[1:])
    alone = lines["num_leaves"] == "1"
    return {name: lines[name] for name in ("num_leaves", "num_cat", "leaf_value")} if alone else lines


def levels(root: Integers, child: Integers) -> Iterator[Integers]:
    """Yield the inner nodes, level by level; `child` has a row for each node."""
    place = root
    while len(place := place[child[place, 0] != place]):
        yield place
        place = child[place].ravel()


def depths(root: Integers, child: Integers) -> Integers:
    """Return how many steps bring every row to a leaf, for each tree."""
    depth, tree = np.zeros(len(root), np.int64), np.zeros(len(child), np.int64)
    tree[root] = np.arange(len(root))
    for level, nodes in enumerate(levels(root, child)):
        tree[child[nodes]] = tree[nodes, None]
        depth[tree[nodes]] = level + 1
    return depth


@dataclass(frozen=True)
class _Text:
    """The lines of many trees."""

    trees: list[dict[str, str]]

    @cached_property
    def inner_counts(self) -> Integers:
        """The number of inner nodes of each tree."""
        return np.asarray(self.listed("num_leaves") - 1)

    def listed(self, name: str, dtype: Any = np.int64) -> Any:
        """Return the numbers of one name, tree after tree."""
        return np.fromstring(" ".join(tree.get(name, "") for tree in self.trees), dtype, sep=" ")

    def splits(self, owner: Integers) -> tuple[Array, Keys]:
        """Return threshold and set of codes of the inner nodes; `owner` is the tree of each.

        Where a node tests a set (the first bit of `decision_type`), the threshold is the set's number in its tree; the
        set's 32-bit words, two at most, are in `cat_threshold` from one of the tree's `cat_boundaries` to the next.
        """
        threshold, codes = self.listed("threshold", np.float64), np.zeros(len(owner), np.uint64)
        sets, edges = self.listed("num_cat"), self.listed("cat_boundaries")
        words = np.append(self.listed("cat_threshold", np.uint64), np.uint64(0))
        first_edge = np.cumsum(sets + (sets > 0)) - (sets + (sets > 0))
        used = np.where(sets > 0, edges[np.minimum(first_edge + sets, len(edges) - 1)], 0) if len(edges) else sets
        tests_set = np.flatnonzero(self.listed("decision_type") & 1)
        edge = first_edge[owner[tests_set]] + threshold[tests_set].astype(np.int64)
        word = (np.cumsum(used) - used)[owner[tests_set]] + edges[edge]
        second = np.where(edges[edge + 1] - edges[edge] > 1, words[word + 1], np.uint64(0))
        codes[tests_set], threshold[tests_set] = words[word] | (second << np.uint64(32)), NO_CODE
        return threshold, codes


# Slices: a forest's distinct splits, and the nodes that make them.


def sliced(forest: Forest) -> Slices | None:
    """Return what `add_slices` needs; None if a tree is too deep for that."""
    if forest.depth.max(initial=0) > LEVELS:
        return None
    root, child = forest.root.astype(np.int64), forest.child.astype(np.int64).reshape(-1, 2)
    tree, level, way = np.zeros((3, len(child)), np.int64)
    tree[root] = np.arange(len(root))
    for k, nodes in enumerate(levels(root, child)):
        level[nodes] = k
        tree[child[nodes]] = tree[nodes, None]
        way[child[nodes]] = way[nodes, None] | [0, 1 << k]
    is_leaf = child[:, 0] == np.arange(len(child))
    inner, leaf = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    inner = inner[np.argsort(tree[inner], kind="stable")]
    first = np.searchsorted(tree[inner], np.arange(len(root) + 1))
    within = np.full(len(child), NOWHERE)
    within[inner] = np.arange(len(inner)) - first[tree[inner]]
    right, left = within[child[inner]].astype(np.uint8).T.copy()
    split, example = _distinct_splits(forest, inner)
    sizes = 1 << forest.depth
    base, value = np.cumsum(sizes) - sizes, np.zeros(sizes.sum())
    value[base[tree[leaf]] + way[leaf]] = forest.value[leaf]
    return Slices(
        int(np.count_nonzero(forest.codes[example] == 0)),
        forest.column[example],
        forest.threshold[example],
        forest.codes[example],
        first,
        split,
        left,
        right,
        level[inner].astype(np.uint8),
        base.astype(np.uint64),
        value,
    )


def _distinct_splits(forest: Forest, inner: Integers) -> tuple[Keys, Integers]:
    """Return the split each node makes, and for each split a node that makes it; splits on numbers come first."""
    parts = np.stack([forest.threshold[inner].view(np.uint64), forest.column[inner], forest.codes[inner]])
    order = np.lexsort(parts)
    ordered, split = parts[:, order], np.empty(len(inner), np.uint64)
    is_new = np.append(len(inner) > 0, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))[: len(inner)]
    split[order] = np.cumsum(is_new) - 1
    return split, inner[order[is_new]]


# Boost: boosted trees that correct log-odds, learned by LightGBM, kept and evaluated as plain arrays.
#
# What no sum of groups and features describes (a bias where two numbers are both large, a slope that turns) is found
# by trees. Each round's tree is fitted to the residuals of the log-odds so far.

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
"""A spread of numbers this small is taken to 1 first: LightGBM treats numbers below 1e-35 as 0."""
SHARE, FEWEST_INPUTS = 0.4, 6
"""Share of the inputs that a tree may use after the first rounds, and the least number of them.

Of nine columns, four seldom have both of two that matter only together: on such tables log loss fell by up to 7 %.
"""
FULL_ROUNDS = 3
"""Rounds whose trees may use all inputs: whether any tree is kept must not depend on which inputs were drawn.

With drawn ones from the start, two inputs that matter only together came too late in some draws: over eight seeds log
loss on a planted table differed by 1.3 %, with whole rounds by 0.1 %; around a logistic regression on four public
tables its mean rose by at most 0.03 %.
"""
MOST_ROUNDS, LOOKED_AT = 400, 3
"""Rounds at most, and rounds between two evaluations of the loss."""


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
"""Around a given score, and without one."""
MEAN_SCALE = 1.1
"""Factor of the mean of the folds' trees.

It errs less than the trees of one fold, whose steps were made small enough for their own errors.
"""
MARGIN = 1.0
"""Standard errors by which the out-of-fold loss must fall before any tree is kept."""

FEW_ROWS = 20
"""Fewer rows walk from node to node: a word of bits costs the same however many rows there are."""


def installed() -> bool:
    """Return whether LightGBM can be imported."""
    return find_spec("lightgbm") is not None


@dataclass(frozen=True)
class Boost:
    """Trees that start from a linear correction of the score and split on the score, the numbers and the codes."""

    first: Correction
    forest: Forest

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.forest.root)

    def logits(self, given: Array, rows: EncodedTable) -> Array:
        """Return boosted log-odds."""
        slices = None if len(given) < FEW_ROWS else self._slices
        return grown(self.forest, self.first.logits(given, rows), given, rows, slices)

    @cached_property
    def _slices(self) -> Slices | None:
        return sliced(self.forest)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state as a file holds it, without slices."""
        return {"first": self.first, "forest": self.forest}

    @classmethod
    def fit(
        cls,
        first: Correction,
        without: Array,
        features: FittedEncoder,
        rows: EncodedTable,
        given: Array,
        y: Array,
        weight: Array,
        folds: Integers,
        seed: int,
        pace: Pace = QUICK,
    ) -> "tuple[Boost, Array] | None":
        """Return trees and the out-of-fold log-odds of each row, or None where trees do not help.

        They start from the linear correction `first`; `without` are its log-odds without each fold: (folds, n).
        """
        grown_trees = TreeSample(features, rows, given, y, weight, folds, pace).grow(without, seed)
        return None if grown_trees is None else (cls(first, grown_trees[0]), grown_trees[1])


def grown(forest: Forest, start: Array, given: Array, rows: EncodedTable, slices: Slices | None = None) -> Array:
    """Return the starting log-odds plus every tree's addition; `given` is the score that the trees split on.

    With the forest's slices many rows take a quarter of the time, to the same last bit.
    """
    out, inputs = start.copy(), 1 + rows.raw.shape[1] + rows.codes.shape[1]
    if slices is None:
        bits, place = np.empty((BLOCK_ROWS, inputs), np.uint64), np.empty(BLOCK_ROWS, np.uint64)
        add_trees(forest, given, rows.raw, rows.codes, Room(np.empty((BLOCK_ROWS, inputs)), bits, place), out)
    else:
        add_slices(slices, given, rows.raw, rows.codes, _scratch(inputs, len(slices.column)), out)
    return out


def _scratch(inputs: int, splits: int) -> TreeScratch:
    words = [np.empty(size, np.uint64) for size in (splits, NOWHERE + 1, LEVELS)]
    return TreeScratch(
        np.zeros((inputs, BLOCK_ROWS)), np.empty((inputs, BLOCK_ROWS), np.uint64), np.zeros(BLOCK_ROWS), *words
    )


@dataclass(frozen=True)
class TreeSample:
    """Rows to grow trees on."""

    features: FittedEncoder
    rows: EncodedTable
    given: Array
    y: Array
    weight: Array
    folds: Integers
    pace: Pace = QUICK

    def grow(self, without: Array, seed: int) -> "tuple[Forest, Array] | None":
        """Return trees, and each row's log-odds by those of them that were grown without its fold.

        Without fold k they start from without[k], so that nothing they learned comes from the fold. The number of
        rounds is the one with the least out-of-fold loss, the same for all folds. What predicts is the mean of all
        folds' trees. Returns None unless the out-of-fold loss is significantly below the start's.
        """
        import lightgbm

        inputs = np.column_stack([self.given, self.rows.raw, self.rows.codes]) / self._units
        inputs = np.nan_to_num(inputs, copy=False, nan=MISSING)
        parameters = PARAMETERS | REPRODUCIBLE | self.pace.parameters()
        data = lightgbm.Dataset(
            inputs, self.y, weight=self.weight, params=parameters, categorical_feature=self._sets()
        ).construct()
        boosters = [
            self._without(lightgbm, parameters | {"seed": _seed(seed, k)}, data, k, without[k])
            for k in range(len(without))
        ]
        start = self._left_out(boosters)
        out_of_fold, counts = self._boosted(boosters, start, _share(inputs.shape[1]))
        if not is_significant(self.weight * (losses(start, self.y) - losses(out_of_fold, self.y)), MARGIN):
            return None
        nonempty = [(booster, count) for booster, count in zip(boosters, counts, strict=True) if count]
        forest = read_forest([booster.model_to_string(num_iteration=count) for booster, count in nonempty])
        forest = forest._replace(
            threshold=forest.threshold * self._units[forest.column],
            value=forest.value * (MEAN_SCALE / len(boosters)),
        )
        return forest, out_of_fold

    @cached_property
    def _units(self) -> Array:
        """The powers of two by which inputs are divided: 1 except for those that LightGBM would take for 0."""
        spreads = np.array([number.spread for number in self.features.numbers])
        numbers = np.where(spreads < SMALL, 2.0 ** np.round(np.log2(spreads)), 1.0)
        return np.concatenate([[1.0], numbers, np.ones(self.rows.codes.shape[1])])

    def _sets(self) -> list[int]:
        """Return which inputs are split by sets of codes; lists of codes too long for that are split by their order."""
        first = 1 + self.rows.raw.shape[1]
        return [first + j for j, category in enumerate(self.features.categories) if category.size <= LAST_BIT]

    def _without(self, lightgbm: Any, parameters: dict[str, Any], data: Any, fold: int, start: Array) -> Any:
        """Return a booster that learns from all folds but one and is validated on that one."""
        learned, watched = (
            data.subset(index).construct().set_init_score(start[index])
            for index in (np.flatnonzero(self.folds != fold), np.flatnonzero(self.folds == fold))
        )
        return lightgbm.Booster(parameters, learned).add_valid(watched, "left out")

    def _boosted(self, boosters: list[Any], start: Array, share: float) -> tuple[Array, list[int]]:
        """Boost all folds side by side until their losses together have not fallen for a while.

        After the first rounds a tree uses a share of the inputs. Returns the out-of-fold log-odds of each row after the
        best round, and how many trees each booster had then: a round without a useful split has none.
        """
        best, least, out_of_fold, counts = 0, np.inf, start, [0] * len(boosters)
        for done in range(1, MOST_ROUNDS + 1):
            for booster in boosters:
                if done == FULL_ROUNDS + 1 and booster.feature_importance().any():  # else there was no split
                    booster.reset_parameter({"feature_fraction": share})
                booster.update()
            if done % LOOKED_AT:
                continue
            logits = self._left_out(boosters)
            loss = float(self.weight @ losses(logits, self.y))
            if loss < least:
                best, least, out_of_fold = done, loss, logits
                counts = [booster.current_iteration() for booster in boosters]
            elif done - best >= self.pace.patience:
                break
        return out_of_fold, counts

    def _left_out(self, boosters: list[Any]) -> Array:
        """Return each row's log-odds so far by the booster without its fold."""
        logits = np.empty(len(self.y))
        for fold, booster in enumerate(boosters):
            logits[self.folds == fold] = logit(_validation_probabilities(booster))
        return logits


def _share(inputs: int) -> float:
    """Return the share of the inputs that a tree may use."""
    return max(SHARE, min(1.0, FEWEST_INPUTS / inputs))


def _seed(seed: int, fold: int) -> int:
    """Return the seed of a fold's draws of inputs, which differs between folds, so that they err independently."""
    return int(np.random.default_rng([seed, fold]).integers(2**31 - 1))


def _validation_probabilities(booster: Any) -> Array:
    """Return a booster's probabilities for its validation rows."""
    seen: list[Array] = []

    def look(p: Array, _: Any) -> tuple[str, float, bool]:
        seen.append(p)
        return "seen", 0.0, False

    booster.eval_valid(look)
    return seen[0]
