"""Convex minimisation of Σ w φ_t(⟨θ, x_t⟩) over the unit ball, with a certificate of optimality."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from swapcal.arrays import Array
from swapcal.losses.curve import Curve

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
    """First halving of the step that keeps a tenth of the promised decrease; None if rounding hides it."""
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
