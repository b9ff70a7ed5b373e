"""How fine a uniform grid the theorems ask for."""

from __future__ import annotations

from math import log

from swapcal.bounds.bound import require_choice, require_dim, require_horizon, require_levels

__all__ = ["TARGETS", "default_levels"]

TARGETS = {"smcal": 1 / 3, "omni": 1 / 3, "sreg": 1 / 5, "batch-omni": 1 / 3, "batch-agnostic": 1 / 5}


def default_levels(horizon: float, dim: int, target: str = "smcal") -> int:
    """Return the number N of grid intervals the theorem for `target` chooses.

    (T/(d ln T))^{1/3} for ``"smcal"`` (also what our bounds use for every target) and ``"omni"``,
    (T/(d ln T))^{1/5} for the paper's ``"sreg"``, (T/d)^{1/3} for ``"batch-omni"`` and (T/d)^{1/5} for
    ``"batch-agnostic"``. The value is rounded to the nearest integer and never falls below 1;
    ln T is taken as at least 1, so that T = 1 and T = 2 are ordinary inputs.

    Parameters
    ----------
    horizon
        Number of rounds T ≥ 1.
    dim
        Dimension d ≥ 1.
    target
        One of the names above.

    Examples
    --------
    >>> default_levels(10**6, 5), default_levels(10**6, 5, "sreg"), default_levels(1, 50)
    (24, 7, 1)
    """
    require_horizon(horizon)
    require_dim(dim)
    require_choice("target", target, TARGETS)
    depth = 1.0 if target.startswith("batch-") else max(log(horizon), 1.0)
    ideal: float = (horizon / (dim * depth)) ** TARGETS[target]
    return max(1, round(ideal))


def resolve_levels(levels: int | None, horizon: float, dim: int, target: str) -> int:
    """Return the caller's N if given, the theorem's otherwise."""
    if levels is None:
        return default_levels(horizon, dim, target)
    require_levels(levels)
    require_horizon(horizon)
    return levels


def rate(exponent: float, levels: int | None) -> float | None:
    """Return the declared exponent, which holds only for the theorem's own N."""
    return exponent if levels is None else None
