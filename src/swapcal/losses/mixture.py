"""Every bounded proper loss as a mixture of V-shaped losses."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array
from swapcal.losses.error import LossError
from swapcal.losses.loss import Loss


@dataclass(frozen=True)
class VMixture:
    """Σ_i mass_i ℓ_{vertex_i}(p, y) + offset + tilt·y, where ℓ_v(p, y) = (v − y) sign(p − v).

    `sign_at_vertex` is the sign taken at p = v, +1 or −1.
    """

    vertex: Array
    mass: Array
    sign_at_vertex: Array
    offset: float
    tilt: float

    def __call__(self, p: ArrayLike, y: ArrayLike) -> Any:
        """Value of the mixture at forecasts `p` and outcomes `y` of one shape."""
        p, y = np.broadcast_arrays(np.asarray(p, dtype=float), np.asarray(y, dtype=float))
        side = np.where(p[..., None] == self.vertex, self.sign_at_vertex, np.sign(p[..., None] - self.vertex))
        value = ((self.vertex - y[..., None]) * side * self.mass).sum(axis=-1) + self.offset + self.tilt * y
        return float(value) if np.ndim(value) == 0 else value

    @property
    def total_mass(self) -> float:
        """At most 2 for a loss with values in [−1, 1]."""
        return float(self.mass.sum())


def v_mixture(loss: Loss, knots: ArrayLike) -> VMixture:
    """Mixture of V-shaped losses that equals the proper loss ℓ̃(p, y) = ℓ(k_ℓ(p), y) at the forecasts `knots`.

    With G the Bayes risk of ℓ̃, ℓ̃(p, y) = G(p) + (y − p)G'(p) and G'(p) = ℓ̃(p, 1) − ℓ̃(p, 0) falls; so

        ℓ̃(p, y) = ∫ ℓ_v(p, y) dμ(v) + a + b y,     dμ = −½ dG',     μ([0, 1]) = (G'(0) − G'(1))/2 ≤ 2

    if |ℓ| ≤ 1. The affine rest a + b y cannot be dropped (a constant is proper) and changes no regret.
    Between two neighbouring knots the mixture puts all of μ where the tangents of G at both knots cross:
    exact at every knot, and in between within 2.5 times the mass of that gap.

    Parameters
    ----------
    loss
        A loss, finite at the knots.
    knots
        Forecasts, at least two, increasing.

    Examples
    --------
    >>> from swapcal.losses import squared
    >>> grid = np.linspace(0, 1, 101)
    >>> mixture = v_mixture(squared(), grid)
    >>> bool(abs(mixture(grid, 1) - (grid - 1) ** 2).max() < 1e-12), round(mixture.total_mass, 9)
    (True, 1.0)
    """
    points = _knots(knots)
    zero, one = (np.asarray(loss.induced(points, outcome), dtype=float) for outcome in (0, 1))
    _check_proper(loss, points, zero, one)
    slope = one - zero
    drop = np.maximum(slope[:-1] - slope[1:], 0.0)
    kept = drop > 0.0
    crossing = points[:-1].copy()
    # Tangent i is the line p ↦ zero_i + slope_i p, so two of them cross where their values agree.
    crossing[kept] = (zero[1:] - zero[:-1])[kept] / drop[kept]
    vertex = np.clip(crossing, points[:-1], points[1:])[kept]
    sign_at_vertex = np.where(vertex == points[:-1][kept], -1.0, 1.0)
    mixture = VMixture(vertex, drop[kept] / 2.0, sign_at_vertex, 0.0, 0.0)
    offset = float(zero[0] - mixture(points[0], 0.0))
    tilt = float(one[0] - mixture(points[0], 1.0)) - offset
    return VMixture(vertex, drop[kept] / 2.0, sign_at_vertex, offset, tilt)


def _knots(knots: ArrayLike) -> Array:
    points = np.asarray(knots, dtype=float)
    if points.ndim != 1 or len(points) < 2 or not (np.diff(points) > 0.0).all():
        raise LossError.of("knots", repr(points), "at least two forecasts, strictly increasing")
    return points


def _check_proper(loss: Loss, points: Array, zero: Array, one: Array) -> None:
    if not (np.isfinite(zero).all() and np.isfinite(one).all()):
        where = int(np.argmin(np.isfinite(zero) & np.isfinite(one)))
        raise LossError.of("knots", points[where], f"a forecast at which {loss.name} is finite")
    slope = one - zero
    excess = (zero + points * slope)[:-1] - (zero[1:] + points[:-1] * slope[1:])
    worst = int(np.argmax(excess))
    if excess[worst] > 1e-6 * max(1.0, float(np.abs(zero).max())):
        given = f"one dearer by {excess[worst]:g} at p = {points[worst]} than that for p = {points[worst + 1]}"
        raise LossError.of(f"response of {loss.name}", given, "the best response")
