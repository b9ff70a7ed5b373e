"""Second-order logistic regressions on the contexts, at several ridge strengths.

Each keeps the Gaussian posterior N(w, P) of its weights, P = U D Uᵀ, and takes one extended Kalman step per label. The
strongest ridge weights all labels equally and is robust to noise; the weakest discounts old labels most and adapts
fastest.
A row concerns only the coordinates that existed when it came, so what is computed does not depend on later ones.
"""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.encode import sigmoid
from swapcal.kernels.jit import inlined
from swapcal.kernels.linalg import BLOCK, absorb, factor_size, padded, quadratic

RIDGES = np.array([10.0, 1.0, 0.1])  # on features of norm at most 1
KEEP = np.array([1.0, 1.0 - 1e-4, 1.0 - 1e-3])  # of what was learned, at each label
NEWTON = len(RIDGES)
CONSTANT_VARIANCE = 10.0
LOOSEST = 20.0  # no variance grows beyond this many times its prior
STEEPEST = 15.0  # log-odds beyond which labels are as good as certain
FLAT = 1e-4  # least curvature credited to a label, so that certainty cannot freeze the weights
MOST_STEPS = 1000  # of one label; those of a larger weight are longer


class Newton(NamedTuple):
    """The regressions' posteriors over the coordinates so far, rounded up to whole blocks."""

    weights: Array
    """(NEWTON, width)"""
    factor: Array
    """(NEWTON, size) U; see `swapcal.kernels.linalg`"""
    scale: Array
    """(NEWTON, width) D"""
    met: Integers
    """(1,) coordinates that labels have been about"""


def blank_newton(dim: int) -> Newton:
    """Return regressions on `dim` coordinates that have learned nothing."""
    scale = np.repeat(1.0 / RIDGES[:, None], padded(dim), axis=1)
    scale[:, 0] = CONSTANT_VARIANCE
    return Newton(np.zeros(scale.shape), np.zeros((NEWTON, factor_size(dim))), scale, np.zeros(1, np.int64))


def grown(newton: Newton, dim: int) -> Newton:
    """Return regressions with room for `dim` coordinates, of which nothing is known beyond the old ones."""
    wider = blank_newton(dim)
    for old, new in zip(newton[:3], wider[:3], strict=True):
        new[:, : old.shape[1]] = old
    return wider._replace(met=newton.met)


@inlined
def whole_blocks(n: int) -> int:
    """Return n rounded up to whole blocks."""
    return (n + BLOCK - 1) // BLOCK * BLOCK


@inlined
def list_context(x: Array, dim: int, first: int, norm: float, context: Array) -> int:
    """Write 1 and the raw features, their norm at most 1, padded with 0 to whole blocks; return how many."""
    context[0] = 1.0
    n = 1
    for i in range(first, dim):
        context[n] = x[i] / norm
        n += 1
    for i in range(n, whole_blocks(n)):
        context[i] = 0.0
    return n


@inlined
def newton_margin(newton: Newton, e: int, context: Array, size: int) -> float:
    """Return a regression's log-odds."""
    m = 0.0
    for i in range(size):
        m += newton.weights[e, i] * context[i]
    return m


@inlined
def newton_variance(newton: Newton, e: int, context: Array, size: int) -> float:
    """Return the variance xᵀ P x of a regression's log-odds."""
    return float(quadratic(newton.factor[e], newton.scale[e, : whole_blocks(size)], context))


@inlined
def steps_of(weight: float) -> int:
    """Return in how many equal steps a label of some weight is learned: one step of a large weight would overshoot."""
    return int(min(max(np.ceil(weight), 1.0), MOST_STEPS))


@inlined
def repeated(m: float, variance: float, y: float, weight: float) -> tuple[float, float]:
    """Return (a, c): what a label does that comes again and again, so many extended Kalman steps for the same row x.

    They move the weights by a P x and add c x xᵀ to the precision, with P that of before: a step shrinks P x along
    itself, so that all steps together take a loop over numbers. `m` are the row's log-odds, `variance` is xᵀ P x.
    """
    steps = steps_of(weight)
    part, shrunk, push, curvature = weight / steps, 1.0, 0.0, 0.0
    for _ in range(steps):
        p = sigmoid(min(max(m + push * variance, -STEEPEST), STEEPEST))
        bend = part * max(p * (1.0 - p), FLAT)
        shrunk /= 1.0 + bend * shrunk * variance
        push += part * (y - p) * shrunk
        curvature += bend
    return push, curvature


@inlined
def learn_newton(newton: Newton, context: Array, size: int, y: float, weight: float, gain: Array) -> None:
    """One extended Kalman step of every regression, or as many as the label's weight, rounded up."""
    newton.met[0] = max(newton.met[0], size)
    for e in range(NEWTON):
        m = newton_margin(newton, e, context, size)
        p = sigmoid(min(max(m, -STEEPEST), STEEPEST))
        scale = newton.scale[e, : whole_blocks(size)]
        if weight > 1.0:
            push, curvature = repeated(m, newton_variance(newton, e, context, size), y, weight)
            absorb(newton.factor[e], scale, context, curvature, gain)
        else:
            push = weight * (y - p) / absorb(newton.factor[e], scale, context, weight * max(p * (1.0 - p), FLAT), gain)
        for i in range(size):
            newton.weights[e, i] += push * gain[i]
        if KEEP[e] < 1.0:
            for i in range(newton.met[0]):
                newton.scale[e, i] = min(newton.scale[e, i] / KEEP[e], LOOSEST / RIDGES[e])
