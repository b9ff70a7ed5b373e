"""Number: a column's scale when it was learned."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.features.source import Name, Source, numbers_of

HUGE = 1e100
"""Numbers beyond this, or below its inverse, are scaled before they are squared."""


class Number(NamedTuple):
    """Mean and standard deviation (infinite for a constant) of a column, and whether any of it was missing."""

    name: Name
    centre: float
    spread: float
    missing: bool


def learn_number(source: Source, name: Name) -> Number:
    """Learn the scale of a column; infinite values have none."""
    values = np.ascontiguousarray(numbers_of(source, name))
    refuse_infinite(name, values)
    present = values[~np.isnan(values)]
    centre, spread = location(present)
    return scale(name, centre, spread, len(present) < len(values))


def scale(name: Name, centre: float, spread: float, missing: bool) -> Number:
    """Return a column's scale from its mean and standard deviation."""
    constant = spread <= 1e-12 * abs(centre)  # rounding leaves a constant a tiny spread
    return Number(name, centre, np.inf if constant else spread, missing)


def refuse_infinite(name: Name, values: Array) -> None:
    """Refuse infinite values."""
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        row = infinite[0]
        raise ValueError(f"column {name!r}: given {values[row]} in row {row + 1}, expected a finite number")


def location(values: Array) -> tuple[float, float]:
    """Return mean and standard deviation, (0, 0) of nothing; squares must not overflow, nor vanish.

    Examples
    --------
    >>> location(np.array([1e300, 3e300]))
    (2e+300, 1e+300)
    """
    if not len(values):
        return 0.0, 0.0
    largest = float(np.abs(values).max())
    unit = 1.0 if 1 / HUGE < largest < HUGE or not largest else 2.0 ** np.floor(np.log2(largest))
    scaled = values / unit
    return float(unit * scaled.mean()), float(unit * scaled.std())
