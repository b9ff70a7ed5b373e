"""Multicalibration: one function accuses every level at once."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.errors.swap import TAIL_RADIUS, Total, norms, plain, power_sum, smcal_affine, smcal_linear

RESTARTS = 16
"""Random starts of the alternating ascent, besides the spectral one and the heaviest levels."""


class Interval(NamedTuple):
    """A value known to lie in [lower, upper]; `theta` attains `lower`."""

    lower: Total
    upper: Total
    theta: Array


def mcal2_linear(n: Array, g: Array) -> tuple[Total, Array]:
    """MCal_2 against F_1^lin and the θ that attains it: sup_θ Σ_v ⟨θ,g_v⟩²/n_v.

    With M = Σ g gᵀ/n this is max(4 M_11, (4/3) λ_max(M_2:,2:)): a convex function is largest at an extreme
    point of Θ_1, which is ±2e_1 or lies on the tail sphere.

    Examples
    --------
    >>> value, theta = mcal2_linear(np.array([1.0, 1.0]), np.array([[0.0, 3.0], [0.0, -3.0]]))
    >>> round(value, 9), np.abs(theta).round(3)
    (24.0, array([0.   , 1.155]))
    """
    head, M = _moments(n, g)
    value, theta = mcal2_linear_total(n, g), np.zeros((*head.shape, g.shape[-1]))
    theta[..., 0] = 2.0
    if M.size:
        tail = np.asarray(value > head)
        theta[tail, 0] = 0.0
        theta[tail, 1:] = TAIL_RADIUS * np.linalg.eigh(M)[1][tail, :, -1]
    return value, theta


def mcal2_linear_total(n: Array, g: Array) -> Total:
    """MCal_2 against F_1^lin without what attains it: half the work, for many draws."""
    head, M = _moments(n, g)
    return plain(np.maximum(head, TAIL_RADIUS**2 * np.linalg.eigvalsh(M)[..., -1]) if M.size else head)


def mcal1_linear(n: Array, g: Array) -> Interval:
    """MCal_1 against F_1^lin, sup_θ Σ_v |⟨θ,g_v⟩|, as an interval (the maximum is NP-hard in general).

    Lower end: θ ← argmax ⟨θ, Σ sign⟨θ,g_v⟩ g_v⟩, which never decreases the value, from several starts.
    Upper end: min(SMCal_1, √(T·MCal_2)).

    Examples
    --------
    >>> found = mcal1_linear(np.array([1.0, 1.0]), np.array([[1.0, 0.0], [-1.0, 0.0]]))
    >>> found.lower, found.upper
    (4.0, 4.0)
    """
    if g.ndim > 2:
        return Interval(*_one_by_one(mcal1_linear, n, g))
    value2, theta2 = mcal2_linear(n, g)
    constant = 2.0 * float(np.abs(g[:, 0]).sum())
    tail = TAIL_RADIUS * _ascend(np.zeros(len(g)), g[:, 1:], theta2[1:])
    reached = float(np.abs(g[:, 1:] @ tail).sum())
    theta = np.concatenate([[2.0], np.zeros_like(tail)]) if constant >= reached else np.append(0.0, tail)
    upper = min(smcal_linear(n, g, 1), float(np.sqrt(n.sum() * value2)))
    return Interval(max(constant, reached), max(upper, constant, reached), theta)


def mcal2_affine(n: Array, A: Array, g: Array) -> tuple[Total, Array]:
    """MCal_2 against F_res^aff: sup over ‖θ‖ ≤ 1 of Σ_v (A_v + ⟨θ,g_v⟩)²/(4 n_v), exactly.

    A convex quadratic on a ball is largest on the sphere, where (μI − M)θ = m with μ ≥ λ_max(M),
    M = Σ g gᵀ/n, m = Σ A g/n; μ solves the secular equation ‖θ(μ)‖ = 1.

    Examples
    --------
    >>> mcal2_affine(np.array([1.0]), np.array([2.0]), np.array([[1.0, 0.0]]))
    (2.25, array([1., 0.]))
    """
    if g.ndim > 2:
        return _one_by_one(mcal2_affine, n, A, g)
    used = n > 0
    weighted = g[used] / n[used, None]
    theta = _sphere_maximiser(g[used].T @ weighted, weighted.T @ A[used])
    return power_sum(n, 0.5 * np.abs(A + g @ theta), 2), theta


def mcal1_affine(n: Array, A: Array, g: Array) -> Interval:
    """MCal_1 against F_res^aff, as an interval found like `mcal1_linear`'s.

    Examples
    --------
    >>> mcal1_affine(np.array([4.0]), np.array([2.0]), np.array([[1.0, 0.0]])).lower
    1.5
    """
    if g.ndim > 2:
        return Interval(*_one_by_one(mcal1_affine, n, A, g))
    value2, theta2 = mcal2_affine(n, A, g)
    theta = _ascend(A, g, theta2)
    lower = 0.5 * float(np.abs(A + g @ theta).sum())
    upper = min(smcal_affine(n, A, g, 1), float(np.sqrt(n.sum() * value2)))
    return Interval(lower, max(lower, upper), theta)


def mcal_groups(n: Array, S: Array, q: float) -> tuple[Total, Any]:
    """MCal_q against a finite class, with S (…, L, K) = Σ α f_k(x)(y − v), and the worst function's index.

    Examples
    --------
    >>> mcal_groups(np.array([1.0, 1.0]), np.array([[1.0, 0.0], [0.0, 3.0]]), 2)
    (9.0, 1)
    """
    used = n > 0
    values = np.sum(n[used, None] * np.abs(S[..., used, :] / n[used, None]) ** q, axis=-2)
    worst = values.argmax(axis=-1)
    return plain(values.max(axis=-1)), worst if np.ndim(worst) else int(worst)


def _one_by_one(error: Callable[..., tuple[Any, ...]], n: Array, *stacked: Array) -> tuple[Any, ...]:
    """Return an error and what attains it for every one of (B, L, …) residual sums: each is its own optimisation."""
    found = [error(n, *one) for one in zip(*stacked, strict=True)]
    return tuple(np.array(part) for part in zip(*found, strict=True))


def _moments(n: Array, g: Array) -> tuple[Array, Array]:
    """4 M_11 and M_2:,2:, for M = Σ g gᵀ/n."""
    used = n > 0
    scaled = g[..., used, :] / np.sqrt(n[used])[:, None]
    tail = scaled[..., 1:]
    return 4.0 * np.sum(scaled[..., 0] ** 2, axis=-1), np.swapaxes(tail, -1, -2) @ tail


def _sphere_maximiser(M: Array, m: Array) -> Array:
    """Argmax of θᵀMθ + 2mᵀθ on the unit sphere."""
    values, V = np.linalg.eigh(M)
    h, gaps = V.T @ m, values[-1] - values
    # Bounds on μ − λ_max: the whole of m, or its top component alone, cannot exceed norm 1.
    low, high = abs(h[-1]), float(np.linalg.norm(h))
    scale = max(values[-1], high)
    if high <= 1e-15 * scale or (low <= 1e-15 * scale and _hard(h, gaps, scale)):
        return np.asarray(V @ _hard_case(h, gaps, scale))
    for _ in range(200):
        middle = 0.5 * (low + high)
        below = middle > 0 and np.linalg.norm(h / (gaps + middle)) < 1.0
        low, high = (low, middle) if below else (middle, high)
    theta = h / (gaps + high)
    return np.asarray(V @ (theta / np.linalg.norm(theta)))


def _hard(h: Array, gaps: Array, scale: float) -> bool:
    away = gaps > 1e-12 * scale
    return bool(np.linalg.norm(h[away] / gaps[away]) <= 1.0)


def _hard_case(h: Array, gaps: Array, scale: float) -> Array:
    """Fill what m leaves of the unit norm with the top eigenvector."""
    theta = np.zeros_like(h)
    away = gaps > 1e-12 * scale
    theta[away] = h[away] / gaps[away]
    theta[-1] = np.sqrt(max(0.0, 1.0 - float(theta @ theta))) * (-1.0 if h[-1] < 0 else 1.0)
    return theta


def _ascend(offset: Array, rows: Array, spectral: Array) -> Array:
    """Best unit u found for Σ_v |offset_v + ⟨u, rows_v⟩|, alternating signs and direction from many starts."""
    if not rows.shape[1]:
        return np.zeros(0)
    heaviest = rows[np.argsort(-norms(rows))[:RESTARTS]]
    random = np.random.default_rng(0).standard_normal((RESTARTS, rows.shape[1]))
    u = _unit(np.concatenate([[spectral, -spectral], heaviest, random]))
    signs = np.zeros((len(u), len(rows)))
    for _ in range(100):
        fresh = np.where(offset + u @ rows.T < 0, -1.0, 1.0)
        if np.array_equal(fresh, signs):
            break
        signs, u = fresh, _unit(fresh @ rows)
    best: Array = u[np.abs(offset + u @ rows.T).sum(axis=1).argmax()]
    return best


def _unit(rows: Array) -> Array:
    length = norms(rows)
    return rows / np.where(length > 0, length, 1.0)[:, None]
