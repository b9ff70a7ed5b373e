"""Levels: the finite set of probabilities a forecaster may issue. They start at 0, end at 1 and increase."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate
from swapcal.arrays import Array
from swapcal.kernels.state import END_HALVINGS, FIXED, INNER, INNER_HALVINGS, REFINING, START_INTERVALS

SINE_DEFAULT = 32


def uniform(n: int) -> Array:
    """Return the n + 1 levels i/n.

    Examples
    --------
    >>> uniform(4)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if n < 1:
        raise ValueError(f"levels: given N = {n}, expected at least 1 (levels 0 and 1)")
    return np.arange(n + 1) / n


def sine(n: int) -> Array:
    """Return the n + 1 levels sin²(πi/2n): dense near 0 and 1, where rounding costs most in log loss.

    Examples
    --------
    >>> sine(4).round(3)
    array([0.   , 0.146, 0.5  , 0.854, 1.   ])
    """
    if n < 1:
        raise ValueError(f'levels: given "sine:{n}", expected at least "sine:1" (levels 0 and 1)')
    z = np.sin(np.pi * np.arange(n + 1) / (2 * n)) ** 2
    z[0], z[-1] = 0.0, 1.0
    return z


def inner_sine(n: Any) -> Array:
    """Return the n + 1 levels sin²(π(2i + 1)/(4(n + 1))), between 0 and 1 but neither: for log loss.

    Examples
    --------
    >>> inner_sine(3).round(3)
    array([0.038, 0.309, 0.691, 0.962])
    """
    n = _validate.count("levels", n)
    z: Array = np.sin(np.pi * (2 * np.arange(n + 1) + 1) / (4 * (n + 1))) ** 2
    return z


def refinable(halvings: int = END_HALVINGS) -> Array:
    """Return the levels from which self-refining ones start: i/16, with the ends halved four times, or more often.

    Examples
    --------
    >>> refinable()[:7]
    array([0.        , 0.00390625, 0.0078125 , 0.015625  , 0.03125   ,
           0.0625    , 0.125     ])
    """
    near_0 = 1.0 / (START_INTERVALS * 2.0 ** np.arange(halvings, 0, -1))
    inner = uniform(START_INTERVALS)[1:-1]
    return np.concatenate([[0.0], near_0, inner, 1.0 - near_0[::-1], [1.0]])


def explicit(values: ArrayLike) -> Array:
    """Return the given levels after checking that a crossing always exists on them.

    Examples
    --------
    >>> explicit([0, 0.01, 0.1, 1])
    array([0.  , 0.01, 0.1 , 1.  ])
    """
    _validate.refuse_masked("levels", values)
    try:
        z = np.array(values)
        if z.dtype.kind not in "iufO":
            raise TypeError(f"entries of type {z.dtype}")
        z = z.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"levels: given {values!r} ({error}), expected a name, an integer or an array") from None
    if z.ndim != 1 or z.size < 2:
        raise ValueError(f"levels: given an array of shape {z.shape}, expected one dimension and at least two values")
    if not np.all(np.diff(z) > 0):
        raise ValueError(f"levels: given {z[:8]}…, expected strictly increasing finite values")
    if z[0] != 0.0 or z[-1] != 1.0:
        raise ValueError(
            f"levels: given first {z[0]} and last {z[-1]}, expected 0 and 1 "
            "(between them every wish in [0, 1] finds two neighbours to hedge)"
        )
    return z


def starting(levels: "str | int | ArrayLike") -> tuple[Array, int]:
    """Return the levels a forecaster starts with and whether it refines them itself: FIXED, REFINING or INNER.

    Parameters
    ----------
    levels : "adaptive", "inner", an integer N (uniform i/N), "sine" or "sine:N", or an increasing array from 0 to 1.

    Examples
    --------
    >>> z, refining = starting("adaptive")
    >>> len(z), refining, starting("inner")[1]
    (25, 1, 2)
    >>> starting("sine:2")
    (array([0. , 0.5, 1. ]), 0)
    """
    if isinstance(levels, str):
        name, _, count = levels.partition(":")
        if name in ("adaptive", "inner") and not count:
            return (refinable(), REFINING) if name == "adaptive" else (refinable(INNER_HALVINGS), INNER)
        if name == "sine" and (not count or count.isdecimal()):
            return sine(int(count) if count else SINE_DEFAULT), FIXED
        expected = '"adaptive", "inner", "sine", "sine:N", an integer or an array'
        raise ValueError(f"levels: given {levels!r}, expected {expected}")
    if isinstance(levels, bool):
        raise TypeError(f"levels: given {levels!r}, expected a name, an integer or an array")
    if isinstance(levels, (int, np.integer)):
        return uniform(int(levels)), FIXED
    return explicit(levels), FIXED


def crossing(z: Sequence[float], wish: Callable[[int], list[float]]) -> tuple[int, list[float], list[float]]:
    """Return k and the wishes of levels k and k + 1, with wish(low) ≥ z_low and wish(high) ≤ z_high.

    The walk of `swapcal.kernels.learners.crossing`, which finds the same k where there are several; a wish is computed
    once. `wish` returns a level's wish, followed by further numbers about it.

    Examples
    --------
    >>> crossing([0.0, 0.5, 1.0], lambda k: [0.7])
    (1, [0.7], [0.7])
    """
    seen: dict[int, list[float]] = {}

    def at(k: int) -> list[float]:
        if k not in seen:
            seen[k] = wish(k)
        return seen[k]

    lo, hi = 0, len(z) - 1
    k, turn = 0, 0
    if hi > 1:
        k = (lo + hi) // 2
        w, middle = at(k)[0], z[k]
        if w >= middle:
            lo, share = k, (w - middle) / (1.0 - middle)
        else:
            hi, share = k, w / middle
        k = min(hi - 1, lo + int(share * (hi - lo)))
    while True:
        low, high = at(k), at(k + 1)
        turn += 1
        if low[0] < z[k] and k > lo:
            hi = k
            k = hi - 1
        elif high[0] > z[k + 1] and k + 1 < hi:
            lo = k + 1
            k = lo
        else:
            return k, low, high
        if turn % 3 == 0:
            k = min((lo + hi) // 2, hi - 1)
