"""Swap regret: how much squared loss each level could have saved with its own linear function.

With δ = θ − 2v e_1, so that ⟨δ,x⟩ = ⟨θ,x⟩ − v, every row satisfies

    (v − y)² − (⟨θ,x⟩ − y)² = 2⟨δ,x⟩(y − v) − ⟨δ,x⟩²,

hence Σ α [(v − y)² − (⟨θ,x⟩ − y)²] = 2gᵀδ − δᵀGδ. This centred form never subtracts two large sums.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Array = NDArray[np.float64]

ROOT3 = float(np.sqrt(3.0))


def swap_regret(v: Array, g: Array, G: Array, radius: float = 2.0) -> tuple[Array, Array]:
    """Per level, max over θ in radius·Θ_1 of Σ α [(v − y)² − (⟨θ,x⟩ − y)²], and the θ that attains it.

    SReg (or PSReg) against F_4^lin is the sum of the gains at radius 2. For fixed θ_1 the other coordinates
    solve a trust-region problem (secular equation in the eigenbasis of G_2:,2:); the value is concave in θ_1,
    so θ_1 is the root of its monotone derivative. Singular G is fine. Cost: one
    eigendecomposition per level, O(L d³).

    Parameters
    ----------
    v, g, G : (L,), (L, d), (L, d, d)

    Returns
    -------
    gains, theta : (L,), (L, d)

    Examples
    --------
    Ten rows at level 0.2 with x = (½, 0), of which half are 1: moving to 0.5 saves 10·0.3².

    >>> G = 10 * np.diag([0.25, 0.0])
    >>> gains, theta = swap_regret(np.array([0.2]), np.array([[1.5, 0.0]]), G[None])
    >>> gains.round(6), theta.round(6)
    (array([0.9]), array([[1., 0.]]))
    """
    gains, theta = np.zeros(len(v)), np.zeros_like(g)
    theta[:, 0] = 2.0 * v
    for level in np.flatnonzero(G[:, 0, 0] > 0):
        delta = _solve_level(float(v[level]), g[level], G[level], radius)
        gain = _gain(g[level], G[level], delta)
        if gain > 0:  # δ = 0 is feasible and gains 0, so rounding cannot make a level negative
            gains[level] = gain
            theta[level] += delta
    return gains, theta


def swap_regret_draws(v: Array, g: Array, G: Array, radius: float = 2.0) -> Array:
    """Total `swap_regret` for many residual vectors that share v and G: one eigendecomposition per level.

    Parameters
    ----------
    v, g, G : (L,), (B, L, d), (L, d, d)

    Returns
    -------
    totals : (B,)

    Examples
    --------
    >>> G = 10 * np.diag([0.25, 0.0])
    >>> g = np.array([[[1.5, 0.0]], [[0.0, 0.0]]])
    >>> swap_regret_draws(np.array([0.2]), g, G[None]).round(6)
    array([0.9, 0. ])
    """
    totals = np.zeros(len(g))
    for level in np.flatnonzero(G[:, 0, 0] > 0):
        totals += _level_draws(float(v[level]), g[:, level], G[level], radius)
    return totals


def _level_draws(v: float, g: Array, G: Array, radius: float) -> Array:
    level, V = _diagonalise(v, g[0], G, radius)
    tails = g[:, 1:] @ V
    head, tail = _free_optimum(level._replace(tail=tails), g[:, 0])
    gains = g[:, 0] * head + np.einsum("bd,bd->b", tails, tail)
    outside = np.abs(level.centre + head) + ROOT3 * np.linalg.norm(tail, axis=1) > 2.0 * radius
    for b in np.flatnonzero(outside):
        one = level._replace(g1=float(g[b, 0]), tail=tails[b])
        head_b, tail_b = _constrained_optimum(one)
        gains[b] = _gain(g[b], G, np.concatenate([[head_b], V @ tail_b]))
    return np.asarray(np.maximum(gains, 0.0))


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
        raise ValueError(f"ridge must be positive, got {ridge}")
    start = np.zeros_like(g)
    start[:, 0] = 2.0 * v
    pull = g + ridge * (prior - start)
    delta = np.linalg.solve(G + ridge * np.eye(g.shape[1]), pull[:, :, None])[:, :, 0]
    theta = start + delta
    curvature = np.einsum("ld,lde,le->l", delta, G, delta, optimize=True)
    return 2.0 * np.einsum("ld,ld->l", g, delta) - curvature - ridge * ((theta - prior) ** 2).sum(
        axis=1
    ), theta


def _gain(g: Array, G: Array, delta: Array) -> float:
    return float(2.0 * g @ delta - delta @ G @ delta)


class _Level(NamedTuple):
    """One level's problem in the eigenbasis of G_2:,2:."""

    centre: float
    radius: float
    g1: float
    G11: float
    tail: Array
    cross: Array
    values: Array


def _solve_level(v: float, g: Array, G: Array, radius: float) -> Array:
    level, V = _diagonalise(v, g, G, radius)
    heads, tails = _free_optimum(level, np.array(level.g1))
    head, tail = float(heads), tails
    if abs(level.centre + head) + ROOT3 * np.linalg.norm(tail) > 2.0 * radius:
        head, tail = _constrained_optimum(level)
    return np.concatenate([[head], V @ tail])


def _diagonalise(v: float, g: Array, G: Array, radius: float) -> tuple[_Level, Array]:
    values, V = np.linalg.eigh(G[1:, 1:])
    # Directions no row ever entered: g and G_12 vanish there up to rounding, so their noise is removed.
    seen = values > len(G) * np.finfo(float).eps * max(float(G[0, 0]), 1e-300)
    V, values = V[:, seen], values[seen]
    tail, cross = V.T @ g[1:], V.T @ G[1:, 0]
    return _Level(2.0 * v, radius, float(g[0]), float(G[0, 0]), tail, cross, values), V


def _free_optimum(level: _Level, g1: Array) -> tuple[Array, Array]:
    """Maximise without the constraint, by the Schur complement of G_11, for one or many tails."""
    schur = level.G11 - float(np.sum(level.cross**2 / level.values))
    slope = g1 - level.tail @ (level.cross / level.values)
    # A vanishing complement means the constant is a combination of the other coordinates: leave θ_1 alone.
    head = np.asarray(slope / schur if schur > 1e-12 * level.G11 else 0.0 * slope)
    return head, (level.tail - head[..., None] * level.cross) / level.values


def _constrained_optimum(level: _Level) -> tuple[float, Array]:
    end = 2.0 * level.radius
    if _slope(level, 0.0, 1.0) > 0:
        first = _root(level, 0.0, end)
    elif _slope(level, 0.0, -1.0) < 0:
        first = _root(level, -end, 0.0)
    else:
        first = 0.0
    head = first - level.centre
    return head, _tail(level, head, _tail_radius(level, first))[0]


def _root(level: _Level, low: float, high: float) -> float:
    """Zero of the decreasing derivative between the kink at 0 and an end of the range of θ_1."""
    side = 1.0 if high > 0 else -1.0
    if _slope(level, low, side) <= 0:
        return low
    if _slope(level, high, side) >= 0:
        return high
    return float(brentq(lambda first: _slope(level, first, side), low, high, xtol=1e-14, rtol=1e-14))


def _tail_radius(level: _Level, first: float) -> float:
    return max(0.0, (2.0 * level.radius - abs(first)) / ROOT3)


def _slope(level: _Level, first: float, side: float) -> float:
    """Half the derivative in θ_1 of the value maximised over the tail (envelope theorem)."""
    head = first - level.centre
    tail, pressure = _tail(level, head, _tail_radius(level, first))
    return level.g1 - head * level.G11 - float(tail @ level.cross) - side * pressure / ROOT3


def _tail(level: _Level, head: float, radius: float) -> tuple[Array, float]:
    """Maximiser of 2hᵀb − bᵀΛb over ‖b‖ ≤ radius, and μ·radius, half the value's derivative in the radius.

    Newton on 1/‖b(μ)‖ = 1/radius, b(μ) = h/(Λ + μ), climbs monotonically from any μ with ‖b(μ)‖ ≥ radius.
    """
    h = level.tail - head * level.cross
    size = float(np.linalg.norm(h))
    if size == 0.0:
        return h, 0.0
    if radius <= 0.0:
        return np.zeros_like(h), size
    b = h / level.values
    if np.linalg.norm(b) <= radius:
        return b, 0.0
    mu = max(0.0, size / radius - float(level.values[-1]))
    for _ in range(100):
        b = h / (level.values + mu)
        norm = float(np.linalg.norm(b))
        if norm <= radius * (1.0 + 1e-15):
            break
        mu += (norm - radius) / radius * norm**2 / float(np.sum(b**2 / (level.values + mu)))
    return b * (radius / float(np.linalg.norm(b))), mu * radius
