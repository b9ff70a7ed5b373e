"""Questions: trees as comparisons of numbers with thresholds, by steps from node to node or by whole ways to leaves."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from swapcal.arrays import AnyArray, Array, Integers
from swapcal.batch.forest import NO_CODE
from swapcal.batch.trees import Boost

Way = list[tuple[int, bool]]
"""Nodes passed, and whether their numbers were above the thresholds."""


class Questions(NamedTuple):
    """Nodes that ask whether a number is above a threshold; leaves are their own children.

    The numbers: the log-odds, then sums over the indicators of categories, one for each set of codes, then the columns.
    """

    root: Integers
    asked: Integers
    threshold: Array
    child: Integers
    """(2 · nodes,) of node i, at 2i where to go from numbers up to the threshold, at 2i + 1 from those above it."""
    leaf: Array
    """(nodes,) what a leaf adds, 0 elsewhere."""
    depth: int
    sets: Array
    """(sets, indicators)"""

    @classmethod
    def of(cls, boost: Boost | None, numbers: Integers, sizes: Integers) -> "Questions":
        """Return a forest, given the columns' places and the categories' numbers of codes; none is a leaf of 0."""
        codes = int(sizes.sum())
        if boost is None:
            nothing = np.zeros(1, np.int64)
            return cls(nothing, nothing, np.zeros(1), np.zeros(2, np.int64), np.zeros(1), 0, np.zeros((0, codes)))
        forest, first = boost.forest, 1 + len(numbers)
        column, threshold = forest.column.astype(np.int64), forest.threshold.copy()
        asked, sets = np.zeros(len(column), np.int64), dict[bytes, int]()
        for node in np.flatnonzero(column >= first).tolist():
            weights = _asked_of_codes(sizes, column[node] - first, threshold[node], int(forest.codes[node]))
            asked[node] = 1 + sets.setdefault(weights.tobytes(), len(sets))
            threshold[node] = -0.5 if threshold[node] == NO_CODE else 0.5
        numbered = (column > 0) & (column < first)
        asked[numbered] = 1 + len(sets) + numbers[column[numbered] - 1]
        return cls(
            forest.root.astype(np.int64),
            asked,
            threshold,
            forest.child.reshape(-1, 2)[:, ::-1].ravel().astype(np.int64),
            forest.value,
            int(forest.depth.max(initial=0)),
            np.array([np.frombuffer(key) for key in sets]).reshape(len(sets), codes),
        )

    def by_leaves(self) -> dict[str, AnyArray]:
        """Return the distinct questions, and for each leaf which of them lead to it, with what answers.

        Shorter ways end with a question that nothing is above: the first.
        """
        found = [way for root in self.root.tolist() for way in self._ways(root, [])]
        places = {(0, np.inf): 0}
        path = np.zeros((max(len(way) for _, way in found), len(found)), np.int64)
        turns = np.zeros(path.shape, bool)
        for leaf, (_, way) in enumerate(found):
            for step, (node, turn) in enumerate(way):
                question = int(self.asked[node]), float(self.threshold[node])
                path[step, leaf], turns[step, leaf] = places.setdefault(question, len(places)), turn
        asked, threshold = zip(*places, strict=True)
        leaves = self.leaf[[node for node, _ in found]]
        questions = {"asked": np.array(asked, np.int64), "threshold": np.array(threshold)}
        return questions | {"path": path, "turns": turns, "leaf": leaves, "sets": self.sets}

    def _ways(self, node: int, way: Way) -> Iterator[tuple[int, Way]]:
        """Yield each leaf below a node and the way to it."""
        below, above = self.child[2 * node : 2 * node + 2].tolist()
        if below == node:
            yield node, way
            return
        yield from self._ways(below, [*way, (node, False)])
        yield from self._ways(above, [*way, (node, True)])


def _asked_of_codes(sizes: Integers, column: int, threshold: float, left: int) -> Array:
    """Return weights of all indicators: -1 for the codes of a set, which go left, or 1 for those above a threshold.

    A row without a code has 0: it is in no set, and below every threshold.
    """
    weights, first = np.zeros(int(sizes.sum())), int(sizes[:column].sum())
    for code in range(sizes[column]):
        weights[first + code] = -(left >> code & 1) if threshold == NO_CODE else code > threshold
    return weights
