"""Swap omniprediction over all convex Lipschitz losses, exactly."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.errors.swap import norms, support_affine


class Omniprediction(NamedTuple):
    """SOmni and, per level, the loss and the comparator that attain it.

    The loss is ℓ(a, y) = slope_y · (a − action): convex, 1-Lipschitz, in [−1, 1], and indifferent at level v,
    so a vanishing |a − action| makes `action` the best response. The comparator is f(x) = (1 + ⟨θ,x⟩)/2.
    """

    total: float
    levels: Array
    slopes: Array
    action: Array
    theta: Array


def somni(v: Array, A: Array, g: Array) -> Omniprediction:
    """SOmni over L^cvx × F_res^aff: Σ_v (|A_v| + ‖g_v‖) / (2 max(v, 1 − v)).

    Fix v, ℓ and its best response k. Tangents at k of slopes s_y with (1 − v)s_0 + v s_1 = 0 only lower the
    comparator's losses and keep k optimal, so s_y = τ(y − v)/max(v, 1 − v) with |τ| ≤ 1, and the gain is
    −τ Σ α(y − v)(f − k)/max(v, 1 − v): linear in k, hence largest at k in {0, 1}, then over F_res^aff.

    Parameters
    ----------
    v, A, g : (L,), (L,), (L, d)

    Examples
    --------
    >>> found = somni(np.array([0.5]), np.array([1.0]), np.array([[0.5, 0.0]]))
    >>> found.total, found.slopes, found.action
    (1.5, array([[-1.,  1.]]), array([1.]))
    """
    margin = np.maximum(v, 1.0 - v)
    levels = support_affine(A, g) / margin
    norm = norms(g)
    return Omniprediction(
        total=float(levels.sum()),
        levels=levels,
        slopes=np.stack([-v, 1.0 - v], axis=1) / margin[:, None],
        action=np.where(A < 0, 0.0, 1.0),
        theta=-g / np.where(norm > 0, norm, 1.0)[:, None],
    )
