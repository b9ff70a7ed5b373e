"""A curve with a short memory: how forecasts turned out of late, as a function of the forecast alone.

With b = 2p - 1 it is a ridge regression of the label on (1, b, 1 - b², b(1 - b²))/2, whose past fades and which starts
from p itself: an offset, a slope, and a bend of either kind that leaves 0 and 1 where they are.
"""

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.jit import inlined, shared

CURVE = 4
START = np.array([1.0, 1.0, 0.0, 0.0])
VARIANCE = 0.02  # of a weight, before any label: some 200 of them are needed to move it
KEEP = 1.0 - 1.0 / 5e3  # of what was learned, at each label
LOOSEST = 0.1  # forgetting stops once the weights' variances are on average so large
# The curve may divide neither the chance of an event nor that of none by more than about three: few labels decide on
# its ends, where the logarithmic loss would pay for it.
HELD = 0.3


@inlined
def term(p: float, i: int) -> float:
    """Return what a weight of the curve is multiplied by."""
    b = 2.0 * p - 1.0
    return 0.5 * (b if i % 2 else 1.0) * (1.0 - b * b if i > 1 else 1.0)


@inlined
def raw_curve(weights: Array, p: float) -> float:
    """Return the regression's value."""
    total = 0.0
    for i in range(CURVE):
        total += weights[i] * term(p, i)
    return total


@shared
def bent(weights: Array, p: float) -> float:
    """Return what the curve makes of a probability."""
    return float(min(1.0 - HELD * (1.0 - p), max(HELD * p, raw_curve(weights, p))))


@shared
def learn_curve(weights: Array, spread: Array, p: float, y: float, share: float, gain: Array) -> None:
    """Let the past fade, unless little is left of it, and enter one more forecast."""
    error, noise, trace = y - raw_curve(weights, p), 1.0, 0.0
    for i in range(CURVE):
        total = 0.0
        for j in range(CURVE):
            total += spread[i, j] * term(p, j)
        gain[i] = total
    for i in range(CURVE):
        noise += share * gain[i] * term(p, i)
        trace += spread[i, i]
    inflate = 1.0 / KEEP if trace < CURVE * LOOSEST else 1.0
    for i in range(CURVE):
        weights[i] += share * error / noise * gain[i]
        for j in range(CURVE):
            spread[i, j] = inflate * (spread[i, j] - share / noise * gain[i] * gain[j])
