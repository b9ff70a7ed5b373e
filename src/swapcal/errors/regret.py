"""Swap regret: how much squared loss each level could have saved with its own linear function.

With δ = θ − 2v e_1, so that ⟨δ,x⟩ = ⟨θ,x⟩ − v, every row satisfies

    (v − y)² − (⟨θ,x⟩ − y)² = 2⟨δ,x⟩(y − v) − ⟨δ,x⟩²,

hence Σ α [(v − y)² − (⟨θ,x⟩ − y)²] = 2gᵀδ − δᵀGδ. This centred form never subtracts two large sums.
"""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Places
from swapcal.errors.swap import norms

ROOT3 = float(np.sqrt(3.0))

TOLERANCE = 1e-13
"""Relative, of the norm of the tail."""

ROOT_TOLERANCE = 1e-10
"""Of θ_1, relative to its range: feasibility does not depend on it, and the value is flat at the root."""

MOST_STEPS = 100
"""Both iterations stop by themselves after about ten steps; this only bounds them."""


def swap_regret(v: Array, g: Array, G: Array, radius: float = 2.0) -> tuple[Array, Array]:
    """Per level, max over θ in radius·Θ_1 of Σ α [(v − y)² − (⟨θ,x⟩ − y)²], and the θ that attains it.

    SReg (or PSReg) against F_4^lin is the sum of the gains at radius 2. For fixed θ_1 the other coordinates
    solve a trust-region problem (secular equation in the eigenbasis of G_2:,2:); the value is concave in θ_1,
    so θ_1 is the root of its monotone derivative. Singular G is fine. Cost: one
    eigendecomposition per level, O(L d³), however many residual vectors share v and G.

    Parameters
    ----------
    v, g, G : (L,), (…, L, d), (L, d, d)

    Returns
    -------
    gains, theta : (…, L), (…, L, d)

    Examples
    --------
    Ten rows at level 0.2 with x = (½, 0), of which half are 1: moving to 0.5 saves 10·0.3².

    >>> G = 10 * np.diag([0.25, 0.0])
    >>> gains, theta = swap_regret(np.array([0.2]), np.array([[1.5, 0.0]]), G[None])
    >>> gains.round(6), theta.round(6)
    (array([0.9]), array([[1., 0.]]))
    """
    draws = g.reshape(-1, *g.shape[-2:])
    gains, theta = np.zeros(draws.shape[:2]), np.zeros_like(draws)
    theta[:, :, 0] = 2.0 * v
    for level in np.flatnonzero(G[:, 0, 0] > 0):
        gain, delta = _solve(float(v[level]), draws[:, level], G[level], radius)
        gains[:, level] = np.maximum(gain, 0.0)  # δ = 0 is feasible and gains 0, so no level is negative
        theta[:, level] += (gain > 0)[:, None] * delta
    return gains.reshape(g.shape[:-1]), theta.reshape(g.shape)


def ridge_regret(v: Array, g: Array, G: Array, ridge: float, prior: Array) -> tuple[Array, Array]:
    """Per level, max over θ in R^d of 2gᵀδ − δᵀGδ − ridge·‖θ − prior‖², δ = θ − 2v e_1, and its θ.

    Parameters
    ----------
    v, g, G : (L,), (L, d), (L, d, d)
    ridge : positive
    prior : (L, d)

    Examples
    --------
    >>> one = np.ones((1, 1, 1))
    >>> ridge_regret(np.zeros(1), np.ones((1, 1)), one, 1.0, np.zeros((1, 1)))
    (array([0.5]), array([[0.5]]))
    """
    if not ridge > 0:
        raise ValueError(f"ridge: given {ridge}, expected a positive number")
    start = np.zeros_like(g)
    start[:, 0] = 2.0 * v
    pull = g + ridge * (prior - start)
    delta = np.linalg.solve(G + ridge * np.eye(g.shape[1]), pull[:, :, None])[:, :, 0]
    theta = start + delta
    curvature = np.einsum("ld,lde,le->l", delta, G, delta, optimize=True)
    return 2.0 * np.einsum("ld,ld->l", g, delta) - curvature - ridge * ((theta - prior) ** 2).sum(axis=1), theta


class _Level(NamedTuple):
    """One level's problem for B residual vectors, in the eigenbasis of G_2:,2:."""

    centre: float
    radius: float
    g1: Array
    G11: float
    tail: Array
    cross: Array
    values: Array

    def take(self, index: Places) -> "_Level":
        return self._replace(g1=self.g1[index], tail=self.tail[index])


def _solve(v: float, g: Array, G: Array, radius: float) -> tuple[Array, Array]:
    """Gains (B,) and corrections δ (B, d) of one level for residual vectors g (B, d)."""
    values, V = np.linalg.eigh(G[1:, 1:])
    # Directions without rows: g and G_12 vanish there up to rounding, so their noise is removed.
    seen = values > len(G) * np.finfo(float).eps * max(float(G[0, 0]), 1e-300)
    V, values = V[:, seen], values[seen]
    level = _Level(2.0 * v, radius, g[:, 0], float(G[0, 0]), g[:, 1:] @ V, V.T @ G[1:, 0], values)
    head, tail = _free_optimum(level)
    outside = np.flatnonzero(np.abs(level.centre + head) + ROOT3 * norms(tail) > 2.0 * radius)
    if len(outside):
        head[outside], tail[outside] = _constrained_optimum(level.take(outside))
    return _gain(level, head, tail), np.concatenate([head[:, None], tail @ V.T], axis=1)


def _gain(level: _Level, head: Array, tail: Array) -> Array:
    linear = head * level.g1 + np.einsum("bd,bd->b", tail, level.tail)
    square = head**2 * level.G11 + 2.0 * head * (tail @ level.cross) + tail**2 @ level.values
    return np.asarray(2.0 * linear - square)


def _free_optimum(level: _Level) -> tuple[Array, Array]:
    """Maximise without the constraint, by the Schur complement of G_11."""
    schur = level.G11 - float(np.sum(level.cross**2 / level.values))
    slope = level.g1 - level.tail @ (level.cross / level.values)
    # A vanishing complement means the constant is a combination of the other coordinates: leave θ_1 alone.
    head = slope / schur if schur > 1e-12 * level.G11 else np.zeros_like(slope)
    return head, (level.tail - head[:, None] * level.cross) / level.values


def _constrained_optimum(level: _Level) -> tuple[Array, Array]:
    zero, end = np.zeros(len(level.g1)), 2.0 * level.radius
    rising = _slope(level, zero, 1.0) > 0
    falling = _slope(level, zero, -1.0) < 0
    first = zero.copy()
    for side, where in ((1.0, np.flatnonzero(rising)), (-1.0, np.flatnonzero(falling & ~rising))):
        if len(where):
            first[where] = side * _root(level.take(where), side, end)
    head = first - level.centre
    return head, _tail(level, head, _tail_radius(level, first))[0]


def _root(level: _Level, side: float, end: float) -> Array:
    """Size of θ_1 where the derivative along `side` falls through 0 between the kink at 0 and the end.

    False position with halving (Illinois), and a bisection every third step so that the bracket must shrink.
    """
    low, high = np.zeros(len(level.g1)), np.full(len(level.g1), end)
    above, below = (side * _slope(level, side * x, side) for x in (low, high))
    low = np.where(below >= 0, high, low)
    last, recent = np.zeros(len(low)), np.full(len(low), np.inf)
    for step in range(MOST_STEPS):
        if np.all(high - low <= ROOT_TOLERANCE * end):
            break
        chord = (low * below - high * above) / np.where(below == above, -1.0, below - above)
        middle = 0.5 * (low + high)
        chord = np.where((chord > low) & (chord < high), chord, middle)
        settled = np.abs(chord - recent) <= ROOT_TOLERANCE * end
        x = np.where(settled, chord, middle) if step % 3 == 2 else chord
        recent = chord
        value = side * _slope(level, side * x, side)
        up = value > 0
        above, below = (
            np.where(up, value, np.where(last < 0, 0.5 * above, above)),
            np.where(up, np.where(last > 0, 0.5 * below, below), value),
        )
        low, high = np.where(up | settled, x, low), np.where(up & ~settled, high, x)
        last = np.where(up, 1.0, -1.0)
    return np.asarray(0.5 * (low + high))


def _tail_radius(level: _Level, first: Array) -> Array:
    return np.asarray(np.maximum(0.0, (2.0 * level.radius - np.abs(first)) / ROOT3))


def _slope(level: _Level, first: Array, side: float) -> Array:
    """Half the derivative in θ_1 of the value maximised over the tail (envelope theorem)."""
    head = first - level.centre
    tail, pressure = _tail(level, head, _tail_radius(level, first))
    return np.asarray(level.g1 - head * level.G11 - tail @ level.cross - side * pressure / ROOT3)


def _tail(level: _Level, head: Array, radius: Array) -> tuple[Array, Array]:
    """Maximiser of 2hᵀb − bᵀΛb over ‖b‖ ≤ radius, and μ·radius, half the value's derivative in the radius.

    Newton on 1/‖b(μ)‖ = 1/radius, b(μ) = h/(Λ + μ), climbs monotonically from any μ with ‖b(μ)‖ ≥ radius.
    """
    h = level.tail - head[:, None] * level.cross
    size = norms(h)
    if not len(level.values):
        return h, size
    open_ = radius > 0
    safe = np.where(open_, radius, 1.0)
    mu = np.maximum(0.0, size / safe - level.values[-1])
    b = h / (level.values + mu[:, None])
    for _ in range(MOST_STEPS):
        length = norms(b)
        over = (length > safe * (1.0 + TOLERANCE)) & open_
        if not over.any():
            break
        slope = np.sum(b**2 / (level.values + mu[:, None]), axis=1)
        mu = np.where(over, mu + (length - safe) / safe * length**2 / np.where(over, slope, 1.0), mu)
        b = h / (level.values + mu[:, None])
    length = norms(b)
    b = b * np.minimum(1.0, safe / np.where(length > 0, length, 1.0))[:, None]
    return np.where(open_[:, None], b, 0.0), np.where(open_, mu * radius, size)
