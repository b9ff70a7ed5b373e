"""Sums of decision trees over encoded rows, one row or 64 rows at a time."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Bytes, Integers, Keys
from swapcal.kernels.jit import inlined, pure

# Sums of decision trees over encoded rows: log-odds, standard scores and category codes.

BLOCK_ROWS = 64
"""Rows that descend one tree together: the tree stays in the cache, and no row waits for another's comparison."""
LAST_BIT = 63
"""Never set in a set of codes: where numbers, and the code -1, are looked up in sets."""
MISSING = -1e300
"""A missing number is the least of all."""


class Forest(NamedTuple):
    """Trees as arrays: nodes after their parents; a leaf is its own child on both sides.

    Places are unsigned, because a signed index is tested for wrap-around at each use.
    """

    root: Keys
    """(trees,) where each tree begins."""
    depth: Integers
    """(trees,) steps that bring every row to a leaf."""
    column: Keys
    """(nodes,) input of the comparison: 0 the score's log-odds, then the numbers, then the codes."""
    threshold: Array
    """(nodes,) numbers of at most this go left; below every code at nodes that split by sets."""
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


# Trees evaluated for 64 rows at once, a bit of a word for each row.
#
# The nodes of many trees have few different splits. Each is evaluated once for a block of rows, and a tree sends whole
# words down its branches: the rows that go left at a node are one `and` of two words. Single rows are only used to look
# up their leaves.

LEVELS = 8
"""Most levels of a tree: the path to a leaf, a bit for each level, must fit into a byte."""
NOWHERE = 255
"""Place of words that have reached a leaf; inner nodes on LEVELS levels have smaller numbers."""
ROW_BIT = np.uint64(1) << np.arange(BLOCK_ROWS, dtype=np.uint64)
SPREAD = np.array([sum((byte >> j & 1) << 8 * j for j in range(8)) for byte in range(256)], np.uint64)
"""The bits of a byte, one in each byte of a word."""


class Slices(NamedTuple):
    """The tests of a forest's trees: each distinct test once, then the inner nodes, tree by tree.

    Within a tree inner nodes are counted from 0, parents before children.
    """

    numbers: int
    """How many questions compare numbers; those that look codes up in sets come after them."""
    column: Keys
    """(questions,) as in the forest."""
    threshold: Array
    """(questions,)"""
    codes: Keys
    """(questions,)"""
    first: Integers
    """(trees + 1,) where each tree's nodes begin."""
    question: Keys
    """(nodes,)"""
    left: Bytes
    """(nodes,) which node of the tree is the left child; NOWHERE for a leaf."""
    right: Bytes
    """(nodes,)"""
    level: Bytes
    """(nodes,)"""
    base: Keys
    """(trees,) where each tree's values begin."""
    value: Array
    """(2^depth of each tree,) the leaves, by their ways: bit k is set where the way goes left at level k."""


class TreeScratch(NamedTuple):
    """Scratch of `add_slices`; numbers are finite from the start, because rows that are not there are added up too."""

    inputs: Array
    """(inputs, BLOCK_ROWS)"""
    bits: Keys
    """(inputs, BLOCK_ROWS) where in a set an input is looked up."""
    total: Array
    """(BLOCK_ROWS,)"""
    answer: Keys
    """(questions,) which rows go left."""
    here: Keys
    """(NOWHERE + 1,) which rows come to a node."""
    way: Keys
    """(LEVELS,) which rows go left at a level."""


@inlined
def read_rows(given: Array, raw: Array, codes: Integers, start: int, size: int, scratch: TreeScratch) -> None:
    """Fill the inputs of a block."""
    numbers = raw.shape[1]
    for b in range(size):
        scratch.inputs[0, b] = given[start + b]
    for j in range(numbers):
        for b in range(size):
            value = raw[start + b, j]
            scratch.inputs[1 + j, b] = MISSING if np.isnan(value) else value
    for c in range(codes.shape[1]):
        for b in range(size):
            code = codes[start + b, c]
            scratch.inputs[1 + numbers + c, b] = code
            scratch.bits[1 + numbers + c, b] = np.uint64(code if 0 <= code < LAST_BIT else LAST_BIT)


@inlined
def answer_all(slices: Slices, scratch: TreeScratch) -> None:
    """Answer every question for all rows of the block."""
    no_rows, one = np.uint64(0), np.uint64(1)
    for q in range(slices.numbers):
        column, threshold, rows = slices.column[q], slices.threshold[q], no_rows
        for b in range(BLOCK_ROWS):
            rows |= ROW_BIT[b] if scratch.inputs[column, b] <= threshold else no_rows
        scratch.answer[q] = rows
    for q in range(slices.numbers, len(slices.column)):
        column, threshold, codes, rows = slices.column[q], slices.threshold[q], slices.codes[q], no_rows
        for b in range(BLOCK_ROWS):
            below = np.uint64(scratch.inputs[column, b] <= threshold)
            rows |= (below | ((codes >> scratch.bits[column, b]) & one)) << np.uint64(b)
        scratch.answer[q] = rows


@inlined
def send_down(slices: Slices, tree: int, scratch: TreeScratch) -> None:
    """Find at which levels of a tree each row goes left."""
    for level in range(LEVELS):
        scratch.way[level] = np.uint64(0)
    scratch.here[0] = ~np.uint64(0)
    first = np.uint64(slices.first[tree])
    for i in range(slices.first[tree + 1] - slices.first[tree]):
        node = first + np.uint64(i)
        rows = scratch.here[i]
        left = rows & scratch.answer[slices.question[node]]
        scratch.here[slices.left[node]] = left
        scratch.here[slices.right[node]] = rows ^ left
        scratch.way[slices.level[node]] |= left


@inlined
def add_leaves(slices: Slices, tree: int, scratch: TreeScratch) -> None:
    """Add to each row's total the leaf at the end of its way, which is a byte once eight rows' bits are spread."""
    base, byte, one = slices.base[tree], np.uint64(255), np.uint64(1)
    for eight in range(0, BLOCK_ROWS, 8):
        ways = np.uint64(0)
        for k in range(LEVELS):
            went_left = (scratch.way[LEVELS - 1 - k] >> np.uint64(eight)) & byte
            ways = (ways << one) | SPREAD[went_left]
        for j in range(8):
            scratch.total[eight + j] += slices.value[base + ((ways >> np.uint64(8 * j)) & byte)]


@pure
def add_slices(slices: Slices, given: Array, raw: Array, codes: Integers, scratch: TreeScratch, out: Array) -> None:
    """Add every tree's leaf to `out`, in the order of the trees, as `add_trees` does."""
    for column in range(len(scratch.bits)):
        for b in range(BLOCK_ROWS):
            scratch.bits[column, b] = np.uint64(LAST_BIT)
    for start in range(0, len(out), BLOCK_ROWS):
        size = min(BLOCK_ROWS, len(out) - start)
        read_rows(given, raw, codes, start, size, scratch)
        answer_all(slices, scratch)
        for b in range(size):
            scratch.total[b] = out[start + b]
        for tree in range(len(slices.base)):
            send_down(slices, tree, scratch)
            add_leaves(slices, tree, scratch)
        for b in range(size):
            out[start + b] = scratch.total[b]
