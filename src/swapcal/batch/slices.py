"""Slices: a forest's questions, each once, and the nodes that ask them."""

import numpy as np

from swapcal.arrays import Integers, Keys
from swapcal.batch.forest import levels
from swapcal.kernels.slices import LEVELS, NOWHERE, Slices
from swapcal.kernels.trees import Forest


def sliced(forest: Forest) -> Slices | None:
    """Return what `add_slices` needs; nothing if a tree is too deep for that."""
    if forest.depth.max(initial=0) > LEVELS:
        return None
    root, child = forest.root.astype(np.int64), forest.child.astype(np.int64).reshape(-1, 2)
    tree, level, way = np.zeros((3, len(child)), np.int64)
    tree[root] = np.arange(len(root))
    for k, asking in enumerate(levels(root, child)):
        level[asking] = k
        tree[child[asking]] = tree[asking, None]
        way[child[asking]] = way[asking, None] | [0, 1 << k]
    is_leaf = child[:, 0] == np.arange(len(child))
    asks, leaf = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    asks = asks[np.argsort(tree[asks], kind="stable")]
    first = np.searchsorted(tree[asks], np.arange(len(root) + 1))
    within = np.full(len(child), NOWHERE)
    within[asks] = np.arange(len(asks)) - first[tree[asks]]
    right, left = within[child[asks]].astype(np.uint8).T.copy()
    question, asked = _questions(forest, asks)
    sizes = 1 << forest.depth
    base, value = np.cumsum(sizes) - sizes, np.zeros(sizes.sum())
    value[base[tree[leaf]] + way[leaf]] = forest.value[leaf]
    return Slices(
        int(np.count_nonzero(forest.codes[asked] == 0)),
        forest.column[asked],
        forest.threshold[asked],
        forest.codes[asked],
        first,
        question,
        left,
        right,
        level[asks].astype(np.uint8),
        base.astype(np.uint64),
        value,
    )


def _questions(forest: Forest, asks: Integers) -> tuple[Keys, Integers]:
    """Return which question each node asks, and for each question a node that asks it; those of numbers come first."""
    parts = np.stack([forest.threshold[asks].view(np.uint64), forest.column[asks], forest.codes[asks]])
    order = np.lexsort(parts)
    ordered, question = parts[:, order], np.empty(len(asks), np.uint64)
    is_new = np.append(len(asks) > 0, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))[: len(asks)]
    question[order] = np.cumsum(is_new) - 1
    return question, asks[order[is_new]]
