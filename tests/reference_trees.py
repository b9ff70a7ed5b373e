"""Trees walked one row, one node and one step at a time, as they are stored."""

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.trees import LAST_BIT, MISSING, Forest


def walked(forest: Forest, start: Array, given: Array, raw: Array, codes: Integers) -> Array:
    """Return log-odds: each tree's `depth` steps for every row, leaves added in the order of the trees."""
    out, one = start.copy(), np.uint64(1)
    for row in range(len(out)):
        numbers = np.concatenate([[given[row]], np.where(np.isnan(raw[row]), MISSING, raw[row])])
        inputs = np.concatenate([numbers, codes[row]])
        within = np.where((codes[row] >= 0) & (codes[row] < LAST_BIT), codes[row], LAST_BIT)
        bits = np.concatenate([np.full(len(numbers), LAST_BIT), within]).astype(np.uint64)
        for root, depth in zip(forest.root, forest.depth, strict=True):
            node = root
            for _ in range(depth):
                column = forest.column[node]
                below = np.uint64(inputs[column] <= forest.threshold[node])
                in_set = (forest.codes[node] >> bits[column]) & one
                node = forest.child[node + node + (below | in_set)]
            out[row] += forest.value[node]
    return out
