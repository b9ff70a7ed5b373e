"""Which coordinates a batch context has, and how large they are."""

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.features.frozen import Coded, Frozen
from swapcal.kernels.batch_design import Placement

SCORE, GIVEN = 0.5, 0.1
"""Sizes of the corrected score's and the given score's coordinates."""
GROUPS, OTHERS = 0.3, 0.3
"""Norms of all group coordinates together and of all others: ¼ + ¼ + 0.01 + 0.09 + 0.09 ≤ 1.

The ridge λ makes a small coordinate expensive to rely on: a group's offset at one level needs some λG/0.09 rows to be
believed, and until then the pooled correction stands.
"""
MOST_COORDINATES = 128
SCORES = 3


def lay_out(features: Frozen, rows: Coded) -> Placement:
    """Return the layout: groups first, then numbers, then other categories, the most frequent ones if room is short."""
    category = np.full((len(features.categories), max([c.size for c in features.categories], default=1)), -1, np.int64)
    numeric = np.full(rows.Z.shape[1], -1, np.int64)
    groups = features.groups
    rest = [j for j in range(len(category)) if j not in groups]
    width = _place_categories(features, rows, groups, category, SCORES)
    width = _place_numbers(numeric, width)
    _place_categories(features, rows, rest, category, width)
    others = len(features.numbers) + len(features.rated) + len(rest)
    sizes = [GROUPS / np.sqrt(len(groups)) if j in groups else OTHERS / np.sqrt(others) for j in range(len(category))]
    number_size = OTHERS / (3.0 * np.sqrt(max(others, 1)))
    return Placement(numeric, category, float(number_size), np.array(sizes), np.array([SCORE, GIVEN]))


def width_of(layout: Placement) -> int:
    """Return the number of coordinates of a context."""
    return int(max(layout.numeric.max(initial=SCORES - 1), layout.category.max(initial=SCORES - 1))) + 1


def prior_of(layout: Placement) -> Array:
    """Return θ with ⟨θ, x⟩ = the corrected score."""
    prior = np.zeros(width_of(layout))
    prior[0], prior[1] = 1.0, 0.5 / layout.score_sizes[0]
    return prior


def counts_of(codes: Integers, size: int) -> Integers:
    """Return how many rows have each code; -1 is none."""
    return np.bincount(codes + 1, minlength=size + 1)[1:]


def _place_numbers(numeric: Integers, width: int) -> int:
    room = max(0, min(len(numeric), MOST_COORDINATES - width))
    numeric[:room] = np.arange(width, width + room)
    return width + room


def _place_categories(features: Frozen, rows: Coded, columns: list[int], category: Integers, width: int) -> int:
    entries = [
        (-count, column, code)
        for column in columns
        for code, count in enumerate(counts_of(rows.codes[:, column], features.categories[column].size).tolist())
    ]
    chosen = sorted(entries)[: max(0, MOST_COORDINATES - width)]
    for place, (_, column, code) in enumerate(sorted(chosen, key=lambda entry: entry[1:])):
        category[column, code] = width + place
    return width + len(chosen)
