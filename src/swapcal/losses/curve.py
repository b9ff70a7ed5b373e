"""A loss along a comparator's score, in the form the ball solver wants: value, slope, curvature and a line below."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.losses.loss import Loss, mix

CELLS = (16, 128, 1024, 8192)


class Curve(NamedTuple):
    """The rows' functions at the current scores s_t = ⟨θ, x_t⟩."""

    value: Array
    """φ_t(s_t)."""
    smooth: Array
    """Value of the function whose derivatives follow; equals `value` for a smooth loss."""
    slope: Array
    curvature: Array
    intercept: Array
    """Any c_t with φ_t(z) ≥ c_t + slope_t · z on [−1, 1]."""


def stages(loss: Loss, y: Array) -> list[Callable[[Array], Curve]]:
    """φ_t(s) = ℓ(low + (high − low)(1 + s)/2, y_t) as curves of increasing fineness.

    One exact stage if the loss knows its derivatives; else quadratic splines through ever more values.
    """
    if loss.slope is not None and loss.curvature is not None:
        return [partial(_exact, loss, y)]
    return [partial(_splined, loss, y, cells) for cells in CELLS]


def action_at(loss: Loss, s: Array) -> Array:
    """Take the action of the comparator (1 + s)/2, stretched to the loss's interval of actions."""
    return np.clip(loss.low + (loss.high - loss.low) * 0.5 * (1.0 + s), loss.low, loss.high)


def _exact(loss: Loss, y: Array, s: Array) -> Curve:
    assert loss.slope is not None
    assert loss.curvature is not None
    a, scale = action_at(loss, s), 0.5 * (loss.high - loss.low)
    value = mix(y, loss.at(a, 0), loss.at(a, 1))
    slope = scale * mix(y, *(loss.slope(a, outcome, **loss.parameters) for outcome in (0, 1)))
    curvature = scale**2 * mix(y, *(loss.curvature(a, outcome, **loss.parameters) for outcome in (0, 1)))
    return Curve(value, value, slope, curvature, value - slope * s)


def _splined(loss: Loss, y: Array, cells: int, s: Array) -> Curve:
    a = action_at(loss, s)
    zero, one = (_spline(loss, outcome, cells, s) for outcome in (0, 1))
    parts = [mix(y, *pair) for pair in zip(zero[1:], one[1:], strict=True)]
    return Curve(mix(y, loss.at(a, 0), loss.at(a, 1)), *parts)


def _spline(loss: Loss, outcome: int, cells: int, s: Array) -> Curve:
    """Quadratic B-spline whose control points are values of the loss, and a supporting line.

    The values are those at equally spaced scores; the spline is the moving average, over one cell, of the
    broken line through them: convex, with continuous slope. Near score s only the values at the five knots
    around it matter.
    """
    h = 2.0 / cells
    knot = np.rint((s + 1.0) / h)
    offset = (s + 1.0) / h - knot
    values = [_at_knot(loss, outcome, knot + shift, h) for shift in (-2, -1, 0, 1, 2)]
    chord = [(right - left) / h for left, right in pairwise(values)]
    # Beyond the ends nothing is known: a missing chord is infinitely steep for the supporting line,
    known = [_missing(knot + shift, cells, slope) for shift, slope in zip((-2, -1, 0, 1), chord, strict=True)]
    # and continues straight on for the spline.
    before = np.where(knot == 0.0, chord[2], chord[1])
    after = np.where(knot == cells, before, chord[2])
    slope = before + (0.5 + offset) * (after - before)
    smooth = values[2] + h * (offset * 0.5 * (before + after) + (0.5 * offset**2 + 0.125) * (after - before))
    with np.errstate(invalid="ignore", divide="ignore"):
        lack = np.maximum(_dip_right(known, slope, h), _dip_left(known, slope, h))
    return Curve(smooth, smooth, slope, (after - before) / h, values[2] - lack - slope * (knot * h - 1.0))


def _at_knot(loss: Loss, outcome: int, knot: Array, h: float) -> Array:
    return loss.at(action_at(loss, np.clip(knot * h - 1.0, -1.0, 1.0)), outcome)


def _missing(cell: Array, cells: int, slope: Array) -> Array:
    return np.where(cell < 0, -np.inf, np.where(cell >= cells, np.inf, slope))


def _dip_right(chord: list[Array], slope: Array, h: float) -> Array:
    """How far φ − slope·z can fall below its value at the knot, inside the cell on its right.

    There φ lies above the extensions of both neighbouring chords, which cross at u.
    """
    before, here, after = chord[1], chord[2], chord[3]
    return np.where(np.isfinite(here), _dip(slope - before, here - before, after - here, h), 0.0)


def _dip_left(chord: list[Array], slope: Array, h: float) -> Array:
    before, here, after = chord[0], chord[1], chord[2]
    return np.where(np.isfinite(here), _dip(after - slope, after - here, here - before, h), 0.0)


def _dip(steepness: Array, near: Array, far: Array, h: float) -> Array:
    """Steepness · h · far/(near + far), with its limits where a neighbouring chord is missing (infinite)."""
    u = np.where(np.isinf(far), h, h * far / (near + far))
    dip = np.where(np.isinf(steepness), h * far, steepness * u)
    return np.where((steepness <= 0.0) | (far <= 0.0), 0.0, dip)
