"""Rated: a column of more texts than can have codes, as one number: what its texts' outcomes were beyond a score."""

from dataclasses import dataclass

import numpy as np

from swapcal.arrays import Array, Flags, Integers
from swapcal.features.source import Name
from swapcal.tables.table import Table

CROWDED = 100
"""Texts up to which codes for the most frequent ones are enough."""
OFTEN = 5
"""Rows a text must have: rarer ones are 0, like texts never seen, so that a column of names says nothing of anybody."""
PRECISION = 4.0
"""Of the prior of an offset, which has standard deviation ½ in log-odds."""


@dataclass(frozen=True)
class Rated:
    """Offsets in log-odds by text, with their mean and standard deviation (infinite if all are the same)."""

    name: Name
    offsets: dict[str, float]
    centre: float
    spread: float

    def values(self, source: Table) -> Array:
        """Return every row's offset."""
        found = source.categories(str(self.name))
        return np.array([*(self.offsets.get(text, 0.0) for text in found.names), 0.0])[found.codes]


def learn_rated(
    source: Table, name: Name, y: Array, p: Array, weight: Array, folds: Integers
) -> tuple[Rated, Array] | None:
    """Return the offsets, and each row's by the rows outside its fold; None if texts are few, or all of them rare.

    One Newton step from p towards the random intercepts of a logistic regression, Σ w(y - p) / (Σ w p(1 - p) + 1/τ²).
    """
    found = source.categories(str(name))
    often = np.bincount(found.codes, minlength=len(found.names)) >= OFTEN
    if len(found.names) <= CROWDED or not often.any():
        return None
    count = int(folds.max()) + 1
    cell, size = found.codes.astype(np.int64) * count + folds, count * len(found.names)
    surplus, curvature = (
        np.bincount(cell, weights=weight * part, minlength=size).reshape(-1, count) for part in (y - p, p * (1.0 - p))
    )
    whole = _offsets(surplus.sum(axis=1), curvature.sum(axis=1), often)
    without = _offsets(
        surplus.sum(axis=1, keepdims=True) - surplus, curvature.sum(axis=1, keepdims=True) - curvature, often[:, None]
    )
    honest = without[found.codes, folds]
    spread = float(honest.std())
    offsets = {text: float(whole[code]) for code, text in enumerate(found.names) if often[code]}
    return Rated(name, offsets, float(honest.mean()), spread if spread > 0.0 else np.inf), honest


def _offsets(surplus: Array, curvature: Array, often: Flags) -> Array:
    return np.where(often, surplus / (curvature + PRECISION), 0.0)
