"""Log-log slopes with confidence intervals, and what they say about a declared rate."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Slope(NamedTuple):
    """Least-squares slope of log error on log T, with its 95 % interval (Student, points − 2 degrees of freedom)."""

    value: float
    low: float
    high: float
    points: int

    def verdict(self, rate: float) -> str:
        """Say whether an upper bound of the given rate is consistent with the slope."""
        if not np.isfinite(self.value):
            return "too few points"
        if self.high <= rate + TOLERANCE:
            return "at or below"
        return "consistent" if self.low <= rate + TOLERANCE else "above"


TOLERANCE = 0.005
"""What the rounding of a table hides."""


def fit(points: Sequence[tuple[float, float]]) -> Slope:
    """Fit the slope through (horizon, value) points, of which those with a positive value count.

    Examples
    --------
    >>> fit([(1e3, 10.0), (1e4, 100.0), (1e5, 1000.0)]).value
    1.0
    """
    T, error = np.asarray(points, float).reshape(-1, 2).T
    usable = (error > 0) & np.isfinite(error)
    if usable.sum() < 3:
        return Slope(float("nan"), float("nan"), float("nan"), int(usable.sum()))
    x, y = np.log(T[usable]), np.log(error[usable])
    found = stats.linregress(x, y)
    margin = float(stats.t.ppf(0.975, len(x) - 2) * found.stderr)
    value = round(float(found.slope), 12)
    return Slope(value, value - margin, value + margin, len(x))
