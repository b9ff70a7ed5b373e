"""Swap multicalibration: each level may be accused by its own function."""

from typing import Any

import numpy as np

from swapcal.arrays import Array, Places

Total = Any
"""A float for one set of statistics, (…) for stacked ones."""

TAIL_RADIUS = 2.0 / np.sqrt(3.0)
"""Θ_1 is the convex hull of ±2e_1 and the sphere of this radius in the other coordinates."""


def power_sum(n: Array, s: Array, q: float) -> Total:
    """Σ_v n_v (s_v / n_v)^q over the levels in use.

    Parameters
    ----------
    n, s : (L,) and (…, L)

    Examples
    --------
    >>> power_sum(np.array([4.0, 0.0]), np.array([2.0, 0.0]), 2)
    1.0
    """
    used = n > 0
    return plain(np.sum(n[used] * (s[..., used] / n[used]) ** q, axis=-1))


def support_linear(g: Array) -> Array:
    """Per level, the largest ⟨θ,g⟩ over Θ_1: max(2|g_1|, (2/√3)‖g_2:‖).

    A linear function on a convex hull is largest at one of the points that span it.

    Parameters
    ----------
    g : (…, L, d)

    Examples
    --------
    >>> support_linear(np.array([[1.0, 0.0], [0.0, -3.0]])).round(3)
    array([2.   , 3.464])
    """
    support: Array = np.maximum(2.0 * np.abs(g[..., 0]), TAIL_RADIUS * norms(g[..., 1:]))
    return support


def witness_linear(g: Array) -> Array:
    """Per level, θ in Θ_1 with ⟨θ,g⟩ = `support_linear`; zero where g is zero.

    Examples
    --------
    >>> witness_linear(np.array([[1.0, 0.0]]))
    array([[2., 0.]])
    """
    tail = norms(g[..., 1:])
    head = 2.0 * np.abs(g[..., 0]) >= TAIL_RADIUS * tail
    theta = np.zeros_like(g)
    theta[head, 0] = 2.0 * np.sign(g[head, 0])
    theta[~head, 1:] = TAIL_RADIUS * g[~head, 1:] / tail[~head, None]
    return theta


def smcal_linear(n: Array, g: Array, q: float) -> Total:
    """SMCal_q (or PSMCal_q) against F_1^lin: Σ_v sup_f n_v |Σ α f(x)(y − v) / n_v|^q, exactly.

    Parameters
    ----------
    n, g : (L,) and (…, L, d)
    q : 1 or 2 in the theorems; any q > 0 works.

    Examples
    --------
    >>> smcal_linear(np.array([8.0]), np.array([[1.0, 0.0]]), 2)
    0.5
    """
    return power_sum(n, support_linear(g), q)


def support_affine(A: Array, g: Array) -> Array:
    """Per level, the largest |Σ α f(x)(y − v)| over F_res^aff: (|A| + ‖g‖)/2.

    Examples
    --------
    >>> support_affine(np.array([-2.0]), np.array([[-1.0, 0.0]]))
    array([1.5])
    """
    return 0.5 * (np.abs(A) + norms(g))


def witness_affine(A: Array, g: Array) -> Array:
    """Per level, θ in the unit ball for which |A + ⟨θ,g⟩|/2 is `support_affine`.

    Examples
    --------
    >>> witness_affine(np.array([2.0]), np.array([[1.0, 0.0]]))
    array([[1., 0.]])
    """
    norm = norms(g)
    sign = np.where(A < 0, -1.0, 1.0)
    return sign[..., None] * g / np.where(norm > 0, norm, 1.0)[..., None]


def smcal_affine(n: Array, A: Array, g: Array, q: float) -> Total:
    """SMCal_q against F_res^aff.

    Examples
    --------
    >>> smcal_affine(np.array([10.0]), np.array([2.0]), np.array([[1.0, 0.0]]), 1)
    1.5
    """
    return power_sum(n, support_affine(A, g), q)


def smcal_groups(n: Array, S: Array, q: float) -> Total:
    """SMCal_q against a finite class f_1 … f_K, with S_vk = Σ α f_k(x)(y − v).

    Parameters
    ----------
    n, S : (L,) and (…, L, K)

    Examples
    --------
    >>> smcal_groups(np.array([10.0]), np.array([[1.0, -3.0]]), 1)
    3.0
    """
    return power_sum(n, np.abs(S).max(axis=-1), q)


def witness_groups(S: Array) -> Places:
    """Per level, the index of the function that attains the maximum.

    Examples
    --------
    >>> witness_groups(np.array([[1.0, -3.0]]))
    array([1])
    """
    worst: Places = np.abs(S).argmax(axis=-1)
    return worst


def cal(n: Array, A: Array, q: float) -> Total:
    """Cal_q = Σ_v n_v (|A_v|/n_v)^q: plain calibration, the class holding only f = 1.

    Examples
    --------
    >>> cal(np.array([8.0]), np.array([-1.0]), 2)
    0.125
    """
    return power_sum(n, np.abs(A), q)


def norms(rows: Array) -> Array:
    """Euclidean norm of each row.

    Examples
    --------
    >>> norms(np.array([[3.0, 4.0]]))
    array([5.])
    """
    lengths: Array = np.sqrt(np.einsum("...d,...d->...", rows, rows))
    return lengths


def plain(total: Array) -> Total:
    """Return a float where there is one total, else the array of them."""
    return total if np.ndim(total) else float(total)
