"""Ranges: the tree of forecast ranges that every group is watched in."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from swapcal.arrays import Array

EDGES = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 1.0)
"""Finest ranges unless others are given: narrow near 0 and 1, where most forecasts of rare events lie."""


@dataclass(frozen=True)
class Ranges:
    """Ranges by halves: the root is [0, 1], the leaves lie between neighbouring edges.

    Examples
    --------
    >>> ranges = Ranges((0.0, 0.5, 1.0))
    >>> ranges.bounds(0), ranges.bounds(2), ranges.shares().tolist()
    ((0.0, 1.0), (0.5, 1.0), [0.5, 0.25, 0.25])
    """

    edges: tuple[float, ...]

    @property
    def leaves(self) -> int:
        """Number of finest ranges, a power of two."""
        return len(self.edges) - 1

    @property
    def nodes(self) -> int:
        """Number of ranges of all depths."""
        return 2 * self.leaves - 1

    @property
    def depths(self) -> int:
        """Number of depths; one row plays once in each."""
        return self.leaves.bit_length()

    def inner(self) -> Array:
        """Edges strictly inside [0, 1]."""
        return np.array(self.edges[1:-1], dtype=np.float64)

    def bounds(self, node: int) -> tuple[float, float]:
        """Return the ends of a range; nodes count from the root, 0, depth by depth."""
        depth = (node + 1).bit_length() - 1
        width = self.leaves >> depth
        first = (node + 1 - (1 << depth)) * width
        return self.edges[first], self.edges[first + width]

    def shares(self) -> Array:
        """Budget of every range: depths share evenly, and so do the ranges of one depth; adds to 1."""
        depth = np.array([(node + 1).bit_length() - 1 for node in range(self.nodes)])
        return np.asarray(0.5**depth / self.depths, dtype=np.float64)


def read_ranges(level_ranges: "bool | Sequence[float]") -> Ranges:
    """Return the default ranges for True, one range for False, or those between the given edges.

    Examples
    --------
    >>> read_ranges(False).nodes, read_ranges(True).nodes, read_ranges([0, 0.3, 1]).nodes
    (1, 15, 3)
    """
    if isinstance(level_ranges, bool):
        return Ranges(EDGES if level_ranges else (0.0, 1.0))
    try:
        edges = tuple(float(edge) for edge in level_ranges)
    except (TypeError, ValueError):
        raise TypeError(f"level_ranges: given {level_ranges!r}, expected True, False or edges from 0 to 1") from None
    if len(edges) < 2 or edges[0] != 0.0 or edges[-1] != 1.0 or any(not a < b for a, b in pairwise(edges)):
        raise ValueError(f"level_ranges: given {list(edges)}, expected increasing edges from 0 to 1")
    leaves = len(edges) - 1
    if leaves & (leaves - 1) or leaves > 64:
        raise ValueError(f"level_ranges: given {leaves} ranges, expected 1, 2, 4, 8, 16, 32 or 64")
    return Ranges(edges)
