"""The group table: every group's gap, interval and verdict, adjusted for how many were looked at."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from swapcal.audit.cells import dispersion
from swapcal.kernels import tally as kernel

Array = NDArray[np.float64]

LEAST_EVENTS = 10.0
"""Groups in which fewer outcomes than this are expected to surprise are too small to judge."""

ALPHA = 0.05


class GroupRow(NamedTuple):
    """One group: mass, means, signed gap with its interval, adjusted p-value and verdict."""

    name: str
    n: float
    mean_p: float
    mean_y: float
    gap: float
    low: float
    high: float
    small: bool
    p_value: float
    adjusted_p: float
    verdict: str


def group_rows(names: list[str], sums: Array) -> list[GroupRow]:
    """Return one row per group from its scalar sums (K, SCALARS), in the given order.

    The interval is the score interval of a constant shift: all Δ for which Σ α(y − p − Δ) lies within 1.96
    standard deviations of 0 when outcomes have probability p + Δ. With equal predictions it is Wilson's.
    p-values test "the predictions are right" (normal, or Bernstein's bound in small groups) and are adjusted
    by Holm's method. Outcomes strictly between 0 and 1 vary less than coins: if a group has some, its variance is
    estimated from its residuals, at most that of coins.
    """
    if not len(names):
        return []
    low, high = shift_interval(sums)
    small = sums[:, kernel.VARIANCE] < LEAST_EVENTS * sums[:, kernel.MASS2] / sums[:, kernel.ROWS]
    p_values = np.where(small, _cautious(sums), 2.0 * norm.sf(np.abs(_z(sums))))
    adjusted = holm(p_values)
    mass = sums[:, kernel.MASS]
    return [
        GroupRow(
            names[k],
            float(mass[k]),
            float(sums[k, kernel.PREDICTED] / mass[k]),
            float(sums[k, kernel.OBSERVED] / mass[k]),
            float(sums[k, kernel.RESIDUAL] / mass[k]),
            float(min(low[k], sums[k, kernel.RESIDUAL] / mass[k])),
            float(max(high[k], sums[k, kernel.RESIDUAL] / mass[k])),
            bool(small[k]),
            float(p_values[k]),
            float(adjusted[k]),
            _verdict(bool(small[k]), float(adjusted[k])),
        )
        for k in range(len(names))
    ]


def shift_interval(sums: Array, level: float = 1.0 - ALPHA) -> tuple[Array, Array]:
    """Solve (S − nΔ)² = c²φ(V + Δ(w − 2u) − wΔ²) for Δ, with w = Σα², u = w·mean p, V = Σα²p(1 − p).

    φ is the outcomes' variance in units of a coin's: 1 if all are 0 or 1.

    Examples
    --------
    Ten rows predicted 0.3 of which 5 happened: Wilson's interval for 5 of 10, less 0.3.

    >>> sums = np.zeros((1, kernel.SCALARS))
    >>> sums[0, [kernel.MASS, kernel.MASS2, kernel.ROWS]] = 10
    >>> sums[0, [kernel.PREDICTED, kernel.OBSERVED, kernel.RESIDUAL, kernel.VARIANCE]] = 3, 5, 2, 2.1
    >>> np.round(shift_interval(sums), 3).ravel() + 0.3
    array([0.237, 0.763])
    """
    c2 = norm.ppf(0.5 + level / 2.0) ** 2 * dispersion(sums)
    n, w = sums[:, kernel.MASS], sums[:, kernel.MASS2]
    S, V = sums[:, kernel.RESIDUAL], sums[:, kernel.VARIANCE]
    u = w * sums[:, kernel.PREDICTED] / n
    a, b, c = n**2 + c2 * w, -2.0 * n * S - c2 * (w - 2.0 * u), S**2 - c2 * V
    root = np.sqrt(np.maximum(b**2 - 4.0 * a * c, 0.0))
    return (-b - root) / (2.0 * a), (-b + root) / (2.0 * a)


def holm(p_values: Array) -> Array:
    """Holm's step-down adjustment.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).round(3)
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(len(p_values), 0, -1) * p_values[order]
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _z(sums: Array) -> Array:
    variance = dispersion(sums) * sums[:, kernel.VARIANCE]
    z: Array = sums[:, kernel.RESIDUAL] / np.sqrt(np.where(variance > 0, variance, 1.0))
    return z


def _cautious(sums: Array) -> Array:
    """Bernstein's bound on the two-sided p-value, valid however few events there are.

    Without any variance (predictions of exactly 0 or 1) a single surprise disproves them.
    """
    S, V = np.abs(sums[:, kernel.RESIDUAL]), sums[:, kernel.VARIANCE]
    largest = np.sqrt(sums[:, kernel.MASS2] / sums[:, kernel.ROWS])
    bound = 2.0 * np.exp(-(S**2) / (2.0 * np.maximum(V + S * largest / 3.0, 1e-300)))
    p_values: Array = np.where(V > 0, np.minimum(bound, 1.0), np.where(S > 1e-12, 0.0, 1.0))
    return p_values


def _verdict(small: bool, adjusted: float) -> str:
    if adjusted <= ALPHA:
        return "miscalibrated"
    return "inconclusive" if small else "calibrated"
