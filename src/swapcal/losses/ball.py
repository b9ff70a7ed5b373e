"""The best comparator in the unit ball: a loss along a score, its shape, and its minimum with a certificate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.losses.loss import Loss, mix

# `LossShape`: convexity, Lipschitz constant and range of a loss.

# Values held at once while per-row parameters are measured.
BLOCK = 4_000_000


@dataclass(frozen=True)
class LossShape:
    """Shape of a loss in its action, over both outcomes and all rows.

    `lipschitz` is the steepest slope with actions rescaled to [0, 1], the unit in which the comparators of
    L^cvx × F_res^aff act. Shifting ℓ(·, 0) and ℓ(·, 1) by constants changes no regret, so a convex loss has
    swap regret at most `lipschitz` × SOmni whatever its range.
    """

    convex: bool
    lipschitz: float
    minimum: float
    maximum: float
    measured: bool
    """True if slopes come from differences on a grid, False if from the loss's own derivative."""

    @property
    def in_convex_class(self) -> bool:
        """Whether the loss, with actions rescaled to [0, 1], lies in L^cvx."""
        return self.convex and self.lipschitz <= 1.0 + 1e-9 and self.minimum >= -1.0 and self.maximum <= 1.0


def shape_of(loss: Loss, points: int = 513) -> LossShape:
    """Convexity, Lipschitz constant and range of `loss`.

    A convex function is steepest and largest at the ends of its interval, so a loss with a derivative is
    measured exactly; any other on a grid of `points` actions. Finite actions have no slope: the Lipschitz
    constant is then the largest cost difference between two actions at one outcome.

    Examples
    --------
    >>> from swapcal.losses import pinball, squared
    >>> shape_of(squared()).lipschitz, shape_of(pinball(0.9)).lipschitz
    (2.0, 0.9)
    """
    if loss.finite_actions is not None:
        return _finite_shape(loss)
    if loss.rows is None:
        return _interval_shape(loss, points)
    width = max(1, BLOCK // points)
    return _merge([_interval_shape(loss.take(slice(i, i + width)), points) for i in range(0, loss.rows, width)])


def _merge(parts: list[LossShape]) -> LossShape:
    return LossShape(
        convex=all(part.convex for part in parts),
        lipschitz=max(part.lipschitz for part in parts),
        minimum=min(part.minimum for part in parts),
        maximum=max(part.maximum for part in parts),
        measured=parts[0].measured,
    )


def _interval_shape(loss: Loss, points: int) -> LossShape:
    grid = np.linspace(loss.low, loss.high, points)
    shape = (points, loss.rows or 1)
    values = np.stack([np.broadcast_to(loss.at(grid[:, None], y), shape) for y in (0, 1)])
    slopes = _slopes(loss, grid, values)
    return LossShape(
        convex=_is_convex(values),
        lipschitz=float(np.abs(slopes).max() * (loss.high - loss.low)),
        minimum=float(values.min()),
        maximum=float(values.max()),
        measured=loss.slope is None,
    )


def _slopes(loss: Loss, grid: Array, values: Array) -> Array:
    if loss.slope is None:
        return np.asarray(np.diff(values, axis=1) / (grid[1] - grid[0]))
    ends = np.array([[loss.low], [loss.high]])
    return np.concatenate([np.ravel(loss.slope(ends, y, **loss.parameters)) for y in (0, 1)])


def _is_convex(values: Array) -> bool:
    inner = values[:, 1:-1] if not np.isfinite(values).all() else values
    bend = np.diff(inner, n=2, axis=1)
    return bool((bend >= -1e-12 * max(1.0, float(np.abs(inner).max()))).all())


def _finite_shape(loss: Loss) -> LossShape:
    costs = np.asarray(loss.parameters["costs"])
    spread = float((costs.max(axis=-2) - costs.min(axis=-2)).max())
    return LossShape(True, spread, float(costs.min()), float(costs.max()), measured=False)


# A loss along a comparator's score, in the form that the ball solver needs: value, slope, curvature and a line below.

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

    One exact stage if the loss has derivatives; else quadratic splines through ever more values.
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
    # There are no values beyond the ends: a missing chord is infinitely steep for the supporting line,
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


# Convex minimisation of Σ w φ_t(⟨θ, x_t⟩) over the unit ball, with a certificate of optimality.

NEWTON_STEPS = 100
HALVINGS = 40
TOLERANCE = 1e-9  # gap per unit of weight at which to stop
# Directions in which the objective is flat to rounding are treated as slightly curved, so that the model
# has one minimum.
FLAT = 1e-13


@dataclass(frozen=True)
class Minimum:
    """A point of the ball, its value, and a lower bound on the value of every other point."""

    theta: Array
    value: float
    floor: float
    steps: int

    @property
    def gap(self) -> float:
        """How far `value` can be above the true minimum."""
        return max(self.value - self.floor, 0.0)


def minimise_over_ball(stages: Sequence[Callable[[Array], Curve]], X: Array, weight: Array, start: Array) -> Minimum:
    """Minimise F(θ) = Σ_t w_t φ_t(⟨θ, x_t⟩) over ‖θ‖ ≤ 1.

    Newton's method: each step minimises the second-order model *inside the ball* (secular equation), then
    searches along the segment. Any slopes u_t with intercepts c_t prove, for all θ in the ball,

        F(θ) ≥ Σ w_t c_t − ‖Σ w_t u_t x_t‖,

    so the returned gap is a bound, not an estimate; it stops below `TOLERANCE`·Σw.

    Parameters
    ----------
    stages
        Ever finer descriptions of the same φ_t, each started from the previous one's solution; one is
        enough if φ_t is smooth.
    X
        Rows of norm at most 1, shape (n, d).
    weight, start
        w, shape (n,), and the first θ, shape (d,).

    Examples
    --------
    >>> X, y = np.array([[0.5, 0.5], [0.5, -0.5]]), np.array([1.0, 0.0])
    >>> def square(s):
    ...     error = (1 + s) / 2 - y
    ...     return Curve(error**2, error**2, error, np.full(2, 0.5), error**2 - error * s)
    >>> best = minimise_over_ball([square], X, np.ones(2), np.zeros(2))
    >>> best.theta.round(6), round(best.value, 6), best.gap < 1e-8
    (array([0., 1.]), 0.125, True)
    """
    target = TOLERANCE * float(weight.sum())
    best = Minimum(start, np.inf, -np.inf, 0)
    for curve in stages:
        best = _newton(curve, X, weight, best, target)
        if best.gap <= target:
            break
    return best


def _newton(curve: Callable[[Array], Curve], X: Array, weight: Array, best: Minimum, target: float) -> Minimum:
    theta = best.theta
    here = curve(_scores(X, theta))
    for _ in range(NEWTON_STEPS):
        gradient = X.T @ (weight * here.slope)
        best = _record(best, theta, float(weight @ here.value), _floor(here, weight, gradient))
        if best.gap <= target or gradient @ theta + np.linalg.norm(gradient) <= target:
            break
        hessian = X.T @ (X * (weight * here.curvature)[:, None])
        direction = quadratic_minimum(hessian, gradient - hessian @ theta) - theta
        step = _search(curve, X, weight, theta, direction, here, float(gradient @ direction))
        if step is None:
            break
        theta, here = step
    return best


def _record(best: Minimum, theta: Array, value: float, floor: float) -> Minimum:
    theta, value = (theta, value) if value < best.value else (best.theta, best.value)
    return Minimum(theta, value, max(floor, best.floor), best.steps + 1)


def _floor(here: Curve, weight: Array, gradient: Array) -> float:
    return float(weight @ here.intercept - np.linalg.norm(gradient))


def _search(
    curve: Callable[[Array], Curve],
    X: Array,
    weight: Array,
    theta: Array,
    direction: Array,
    here: Curve,
    decrease: float,
) -> tuple[Array, Curve] | None:
    """First halving of the step that keeps a tenth of the predicted decrease; None if rounding hides it."""
    base, length = float(weight @ here.smooth), 1.0
    for _ in range(HALVINGS):
        candidate = theta + length * direction
        there = curve(_scores(X, candidate))
        if float(weight @ there.smooth) < base + 0.1 * length * decrease:
            return candidate, there
        length /= 2.0
    return None


def _scores(X: Array, theta: Array) -> Array:
    return np.clip(X @ theta, -1.0, 1.0)


def quadratic_minimum(H: Array, q: Array) -> Array:
    """Argmin of ½ zᵀHz + qᵀz over ‖z‖ ≤ 1 for symmetric positive semidefinite H.

    With H = QΛQᵀ the minimiser is −Q(Λ + μ)⁻¹Qᵀq, μ ≥ 0 the least number that brings its norm to 1 or below.

    Examples
    --------
    >>> quadratic_minimum(np.diag([1.0, 0.0]), np.array([-0.5, 0.0]))
    array([0.5, 0. ])
    >>> quadratic_minimum(np.zeros((2, 2)), np.array([3.0, 4.0])).round(6)
    array([-0.6, -0.8])
    """
    values, vectors = np.linalg.eigh(H)
    size = float(np.linalg.norm(q))
    if size == 0.0:
        return np.zeros_like(q)
    values = np.maximum(values, FLAT * max(float(values[-1]), size))
    turned = vectors.T @ q
    return np.asarray(-vectors @ (turned / (values + _multiplier(values, turned))))


def _multiplier(values: Array, turned: Array) -> float:
    """Root of ‖turned/(values + μ)‖ = 1, by Newton on the reciprocal norm (concave and increasing)."""
    mu = 0.0
    for _ in range(60):
        shifted = turned / (values + mu)
        norm = float(np.linalg.norm(shifted))
        if norm <= 1.0 + 1e-15:
            break
        change = norm**2 * (norm - 1.0) / float(shifted @ (shifted / (values + mu)))
        mu += change
        if change <= 1e-16 * mu:
            break
    return mu
