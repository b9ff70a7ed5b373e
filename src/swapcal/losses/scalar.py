"""Minimisation of many convex functions of one bounded variable at once."""

from collections.abc import Callable

import numpy as np

from swapcal.arrays import Array

GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
# GOLDEN**60 is 3e-13. A smooth function's values stop telling its arguments apart at 1e-8; a kink's do not.
STEPS = 60


def minimise(objective: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Largest minimiser of each convex function on its interval, elementwise.

    Golden section; on equal values the search moves up, and an end point wins if it is no worse.

    Parameters
    ----------
    objective
        Maps an array of arguments to the array of values, element by element.
    low, high
        Ends of the intervals, of one shape.

    Examples
    --------
    >>> centre = np.array([0.25, 2.0])
    >>> minimise(lambda a: (a - centre) ** 2, np.zeros(2), np.ones(2)).round(6)
    array([0.25, 1.  ])
    """
    bottom, top = low.copy(), high.copy()
    left, right = top - GOLDEN * (top - bottom), bottom + GOLDEN * (top - bottom)
    at_left, at_right = objective(left), objective(right)
    for _ in range(STEPS):
        up = at_left >= at_right
        bottom, top = np.where(up, left, bottom), np.where(up, top, right)
        fresh = np.where(up, bottom + GOLDEN * (top - bottom), top - GOLDEN * (top - bottom))
        value = objective(fresh)
        left, right = np.where(up, right, fresh), np.where(up, fresh, left)
        at_left, at_right = np.where(up, at_right, value), np.where(up, value, at_left)
    return _prefer_ends(objective, (bottom + top) / 2.0, low, high)


def _prefer_ends(objective: Callable[[Array], Array], inner: Array, low: Array, high: Array) -> Array:
    value = objective(inner)
    best = np.where(objective(low) < value, low, inner)
    return np.where(objective(high) <= np.minimum(value, objective(low)), high, best)
