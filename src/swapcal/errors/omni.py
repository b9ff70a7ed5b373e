"""Swap omniprediction over all convex Lipschitz losses, exactly."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.errors.swap import Total, norms, plain, support_affine


class Omniprediction(NamedTuple):
    """SOmni and, per level, the loss and the comparator that attain it.

    The loss is ℓ(a, y) = slope_y · (a − action): convex, 1-Lipschitz, in [−1, 1], and indifferent at level v,
    so a vanishing |a − action| makes `action` the best response. The comparator is f(x) = (1 + ⟨θ,x⟩)/2.
    """

    total: Total
    levels: Array
    slopes: Array
    action: Array
    theta: Array


def somni_levels(v: Array, A: Array, g: Array) -> Array:
    """SOmni_v = (|A_v| + ‖g_v‖) / (2 max(v, 1 − v)) over L^cvx × F_res^aff, for each level.

    The supremum of Σ_{p=v} α[ℓ(k_ℓ(v), y) − ℓ(f(x), y)] over losses ℓ in L^cvx (convex, 1-Lipschitz, values in [−1, 1])
    and f in F_res^aff.

    Proof. Replace ℓ(·, 0) and ℓ(·, 1) by tangents at k = k_ℓ(v) whose slopes balance, (1 − v)s_0 + v s_1 = 0 (at an end
    of [0, 1] lower a slope until they do): the comparator only gains and k stays optimal. So
    s_y = τ(y − v)/max(v, 1 − v) with |τ| ≤ 1, and the gain −τ Σ α(y − v)(f − k)/max(v, 1 − v) is linear in k: take k in
    {0, 1}, then the best f.

    Parameters
    ----------
    v, A, g : (L,), (…, L), (…, L, d)

    Examples
    --------
    >>> somni_levels(np.array([0.2]), np.array([3.0]), np.array([[1.5, 2.0]]))
    array([3.4375])
    """
    return support_affine(A, g) / np.maximum(v, 1.0 - v)


def somni(v: Array, A: Array, g: Array) -> Omniprediction:
    """SOmni, the sum of `somni_levels`, and what attains it.

    Parameters
    ----------
    v, A, g : (L,), (…, L), (…, L, d)

    Examples
    --------
    >>> found = somni(np.array([0.5]), np.array([1.0]), np.array([[0.5, 0.0]]))
    >>> found.total, found.slopes, found.action
    (1.5, array([[-1.,  1.]]), array([1.]))
    """
    margin = np.maximum(v, 1.0 - v)
    levels = somni_levels(v, A, g)
    norm = norms(g)
    return Omniprediction(
        total=plain(levels.sum(axis=-1)),
        levels=levels,
        slopes=np.stack([-v, 1.0 - v], axis=1) / margin[:, None],
        action=np.where(A < 0, 0.0, 1.0),
        theta=-g / np.where(norm > 0, norm, 1.0)[..., None],
    )
