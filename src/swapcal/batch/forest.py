"""Forest: LightGBM's trees, read from its text as plain arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.trees import Forest

NO_CODE = -100.0
"""A threshold below every code."""


def read_forest(texts: Sequence[str]) -> Forest:
    """Return the trees of some boosters' `model_to_string`, one after the other.

    A tree's nodes are those that ask, parents before children, then the leaves; child -1 - k of the text is leaf k.
    """
    text = _Text([_lines(tree) for text in texts for tree in text.split("\nTree=")[1:]])
    sizes = 2 * text.asking + 1
    first, tree = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
    node = np.arange(len(tree))
    asks = node - first[tree] < text.asking[tree]
    column, codes = np.zeros((2, len(node)), np.uint64)
    threshold, value = np.full(len(node), NO_CODE), np.zeros(len(node))
    column[asks], value[~asks] = text.listed("split_feature"), text.listed("leaf_value", np.float64)
    threshold[asks], codes[asks] = text.questions(tree[asks])
    sides, owner = np.column_stack([text.listed("right_child"), text.listed("left_child")]), tree[asks, None]
    child = np.column_stack([node, node])
    child[asks] = first[owner] + np.where(sides < 0, text.asking[owner] - 1 - sides, sides)
    as_key = np.uint64
    return Forest(
        first.astype(as_key), depths(first, child), column, threshold, codes, child.ravel().astype(as_key), value
    )


def _lines(tree: str) -> dict[str, str]:
    """Return what LightGBM says of a tree, by name; a leaf alone asks nothing, whatever stands there."""
    lines = dict(line.split("=", 1) for line in tree.partition("\n\n")[0].splitlines()[1:])
    alone = lines["num_leaves"] == "1"
    return {name: lines[name] for name in ("num_leaves", "num_cat", "leaf_value")} if alone else lines


def levels(root: Integers, child: Integers) -> Iterator[Integers]:
    """Yield the nodes that ask, level by level; `child` has a row for each node."""
    place = root
    while len(place := place[child[place, 0] != place]):
        yield place
        place = child[place].ravel()


def depths(root: Integers, child: Integers) -> Integers:
    """Return how many steps bring every row to a leaf, for each tree."""
    depth, tree = np.zeros(len(root), np.int64), np.zeros(len(child), np.int64)
    tree[root] = np.arange(len(root))
    for level, asking in enumerate(levels(root, child)):
        tree[child[asking]] = tree[asking, None]
        depth[tree[asking]] = level + 1
    return depth


@dataclass(frozen=True)
class _Text:
    """The lines of many trees."""

    trees: list[dict[str, str]]

    @cached_property
    def asking(self) -> Integers:
        """How many nodes of each tree ask."""
        return np.asarray(self.listed("num_leaves") - 1)

    def listed(self, name: str, dtype: Any = np.int64) -> Any:
        """Return the numbers of one name, tree after tree."""
        return np.fromstring(" ".join(tree.get(name, "") for tree in self.trees), dtype, sep=" ")

    def questions(self, owner: Integers) -> tuple[Array, Keys]:
        """Return threshold and set of codes of the nodes that ask; `owner` is the tree of each.

        Where a set is asked for (the first bit of `decision_type`), the threshold is the set's number in its tree; the
        set's 32-bit words, two at most, are in `cat_threshold` from one of the tree's `cat_boundaries` to the next.
        """
        threshold, codes = self.listed("threshold", np.float64), np.zeros(len(owner), np.uint64)
        sets, edges = self.listed("num_cat"), self.listed("cat_boundaries")
        words = np.append(self.listed("cat_threshold", np.uint64), np.uint64(0))
        first_edge = np.cumsum(sets + (sets > 0)) - (sets + (sets > 0))
        used = np.where(sets > 0, edges[np.minimum(first_edge + sets, len(edges) - 1)], 0) if len(edges) else sets
        asks_set = np.flatnonzero(self.listed("decision_type") & 1)
        edge = first_edge[owner[asks_set]] + threshold[asks_set].astype(np.int64)
        word = (np.cumsum(used) - used)[owner[asks_set]] + edges[edge]
        second = np.where(edges[edge + 1] - edges[edge] > 1, words[word + 1], np.uint64(0))
        codes[asks_set], threshold[asks_set] = words[word] | (second << np.uint64(32)), NO_CODE
        return threshold, codes
