"""Sums of decision trees over encoded rows: log-odds, standard scores and category codes."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.jit import pure

BLOCK_ROWS = 64
"""Rows that walk down one tree together: the tree stays in the cache, and no row waits for another's comparison."""
LAST_BIT = 63
"""Never set in a set of codes: where numbers, and the code -1, are looked up in sets."""
MISSING = -1e300
"""A missing number is the least of all."""


class Forest(NamedTuple):
    """Trees as arrays: nodes after their parents; a leaf is its own child on both sides.

    Places are unsigned, because a signed one is looked at for counting from the end each time it is used.
    """

    root: Keys
    """(trees,) where each tree begins."""
    depth: Integers
    """(trees,) steps that bring every row to a leaf."""
    column: Keys
    """(nodes,) which input is looked at: 0 the score's log-odds, then the numbers, then the codes."""
    threshold: Array
    """(nodes,) numbers of at most this go left; below every code where sets are asked for."""
    codes: Keys
    """(nodes,) the set of codes that go left, a bit each; empty where a number is compared."""
    child: Keys
    """(2 · nodes,) of node i, the right one at 2i and the left one at 2i + 1."""
    value: Array
    """(nodes,) what a leaf adds to the log-odds, 0 elsewhere."""


class Room(NamedTuple):
    """Scratch of `add_trees`."""

    inputs: Array
    """(BLOCK_ROWS, inputs)"""
    bits: Keys
    """(BLOCK_ROWS, inputs) where in a set an input is looked up."""
    place: Keys
    """(BLOCK_ROWS,)"""


@pure
def add_trees(forest: Forest, given: Array, raw: Array, codes: Integers, room: Room, out: Array) -> None:
    """Add every tree's leaf to `out`, in the order of the trees whatever the batch; `add_slices` is for many rows."""
    numbers, one, last = raw.shape[1], np.uint64(1), np.uint64(LAST_BIT)
    for start in range(0, len(out), BLOCK_ROWS):
        size = min(BLOCK_ROWS, len(out) - start)
        for b in range(size):
            room.inputs[b, 0] = given[start + b]
            room.bits[b, 0] = last
            for j in range(numbers):
                value = raw[start + b, j]
                room.inputs[b, 1 + j] = MISSING if np.isnan(value) else value
                room.bits[b, 1 + j] = last
            for c in range(codes.shape[1]):
                code = codes[start + b, c]
                room.inputs[b, 1 + numbers + c] = code
                room.bits[b, 1 + numbers + c] = np.uint64(code) if 0 <= code < LAST_BIT else last
        for tree in range(len(forest.root)):
            for b in range(size):
                room.place[b] = forest.root[tree]
            for _ in range(forest.depth[tree]):
                for b in range(size):
                    node = room.place[b]
                    column = forest.column[node]
                    below = np.uint64(room.inputs[b, column] <= forest.threshold[node])
                    in_set = (forest.codes[node] >> room.bits[b, column]) & one
                    room.place[b] = forest.child[node + node + (below | in_set)]
            for b in range(size):
                out[start + b] += forest.value[room.place[b]]
