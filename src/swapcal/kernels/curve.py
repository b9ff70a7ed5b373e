"""A curve with a short memory: how forecasts turned out of late, as a function of the forecast alone.

A forecast p becomes p + p(1 - p)(w_1 + w_2 (2p - 1)): one weight moves the middle, the other spreads forecasts or draws
them together, and 0 and 1 stay where they are, so that few labels decide little on the ends. The weights are those of a
ridge regression of y - p whose past fades.
"""

from swapcal.arrays import Array
from swapcal.kernels.jit import inlined, shared

CURVE = 2
VARIANCE = 0.1  # of a weight, before any label
KEEP = 1.0 - 1.0 / 5e3  # of what was learned, at each label
LOOSEST = 1.0  # forgetting stops once the weights' variances are on average so large
STEEPEST = 0.7  # a forecast near an end is multiplied by no more than 1 ± this


@inlined
def term(p: float, i: int) -> float:
    """Return what a weight of the curve is multiplied by."""
    return p * (1.0 - p) * (2.0 * p - 1.0 if i else 1.0)


@shared
def bent(weights: Array, p: float) -> float:
    """Return what the curve makes of a probability."""
    pull = weights[0] + weights[1] * (2.0 * p - 1.0)
    return float(p + p * (1.0 - p) * min(STEEPEST, max(-STEEPEST, pull)))


@shared
def learn_curve(weights: Array, spread: Array, p: float, y: float, share: float, gain: Array) -> None:
    """Let the past fade, unless little is left of it, and enter one more forecast."""
    error = y - p - weights[0] * term(p, 0) - weights[1] * term(p, 1)
    for i in range(CURVE):
        gain[i] = spread[i, 0] * term(p, 0) + spread[i, 1] * term(p, 1)
    noise = 1.0 + share * (gain[0] * term(p, 0) + gain[1] * term(p, 1))
    inflate = 1.0 / KEEP if spread[0, 0] + spread[1, 1] < CURVE * LOOSEST else 1.0
    for i in range(CURVE):
        weights[i] += share * error / noise * gain[i]
        for j in range(CURVE):
            spread[i, j] = inflate * (spread[i, j] - share / noise * gain[i] * gain[j])
