"""Log loss, with the one rule by which swapcal keeps it finite."""

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.jit import jit, shared

FLOOR = 1e-6
"""Probabilities are moved this far from 0 and 1 before their logarithm is taken: one certain error costs 13.8 nats."""


@shared
def log_loss(p: float, y: float) -> float:
    """−y log p − (1 − y) log(1 − p) in nats, p no nearer to 0 and 1 than `FLOOR`.

    Examples
    --------
    >>> round(log_loss(0.0, 1.0), 3), round(log_loss(0.5, 0.0), 3)
    (13.816, 0.693)
    """
    inside = min(max(p, FLOOR), 1.0 - FLOOR)
    return float(-y * np.log(inside) - (1.0 - y) * np.log(1.0 - inside))


@jit
def log_losses(p: Array, y: Array) -> Array:
    """Return the log loss of every row.

    Examples
    --------
    >>> log_losses(np.array([0.5, 1.0]), np.array([1.0, 1.0])).round(3)
    array([0.693, 0.   ])
    """
    out = np.empty(len(p))
    for t in range(len(p)):
        out[t] = log_loss(p[t], y[t])
    return out
