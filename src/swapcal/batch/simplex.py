"""Simplex: probabilities of several classes, each learned against all others, made to sum to 1."""

import numpy as np

from swapcal.arrays import Array

MOST_STEPS = 64


def to_simplex(p: Array) -> Array:
    """Return (n, classes) probabilities that sum to 1, by one shift of all log-odds of a row.

    q_k = σ(logit p_k + c) with Σ q_k = 1 minimises Σ_k KL(q_k ‖ p_k), the divergences being those of two outcomes. The
    set of q that sum to 1 is affine and holds every outcome e_y, so Pythagoras holds with equality, row by row:
    Σ_k (log loss of p_k) = Σ_k (log loss of q_k) + Σ_k KL(q_k ‖ p_k). The step can only lower that loss. All classes
    move the same way, so Σ_k |q_k - p_k| = |Σ_k p_k - 1|, the least that any q that sums to 1 can have.

    In odds o_k and t = e^c, Σ o_k t/(1 + o_k t) = 1: increasing and concave, so Newton from t = 1/Σ o_k, where the sum
    is at most 1, climbs to the solution without passing it; far away each step doubles t at least.

    Examples
    --------
    >>> to_simplex(np.array([[0.5, 0.2, 0.1], [0.2, 0.3, 0.5]])).round(3)
    array([[0.593, 0.267, 0.139],
           [0.2  , 0.3  , 0.5  ]])
    """
    odds = p / (1.0 - p)
    t = 1.0 / odds.sum(axis=1, keepdims=True)
    for _ in range(MOST_STEPS):
        q = odds * t / (1.0 + odds * t)
        short = 1.0 - q.sum(axis=1, keepdims=True)
        short[short <= 1e-15] = 0.0  # a row that is there stays, however far others have to go
        if not short.any():
            break
        t = t * (1.0 + short / (q * (1.0 - q)).sum(axis=1, keepdims=True))
    return np.asarray(q / q.sum(axis=1, keepdims=True))
