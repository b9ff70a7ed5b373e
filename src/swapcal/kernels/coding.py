"""Raw numbers to standard scores and codes, with scales and categories learned before."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.jit import pure

NOWHERE = -1


class Lookup(NamedTuple):
    """Numbers to codes: a column's known values, or edges of its bins, between two starts of one sorted list each."""

    column: Integers
    known: Array
    start: Integers
    binned: Integers


@pure
def look_up(lookup: Lookup, X: Array, codes: Integers) -> None:
    """Write each row's codes: the bin, or the place of the value among the known ones; -1 if missing or unknown."""
    for row in range(len(X)):
        for j in range(len(lookup.column)):
            value = X[row, lookup.column[j]]
            first, end = lookup.start[j], lookup.start[j + 1]
            lo, hi = first, end
            while lo < hi:
                mid = (lo + hi) // 2
                if lookup.known[mid] < value:
                    lo = mid + 1
                else:
                    hi = mid
            found = lookup.binned[j] == 1 or (lo < end and lookup.known[lo] == value)
            codes[row, j] = lo - first if found and not np.isnan(value) else NOWHERE


@pure
def standardise(raw: Array, centre: Array, spread: Array, flag: Integers, out: Array) -> int:
    """Write standard scores clipped to [-3, 3], 0 for a missing value and then 3 in its flag's column.

    Return the first row with an infinite value, or -1.
    """
    for row in range(len(raw)):
        for j in range(raw.shape[1]):
            value = raw[row, j]
            if np.isinf(value):
                return row
            if np.isnan(value):
                out[row, j] = 0.0
            else:
                out[row, j] = min(3.0, max(-3.0, (value - centre[j]) / spread[j]))
            if flag[j] >= 0:
                out[row, flag[j]] = 3.0 if np.isnan(value) else 0.0
    return -1
