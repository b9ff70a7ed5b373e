"""`Bound`: the value of a theorem, its grid, and the cost of rounding to the grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, log

__all__ = [
    "TARGETS",
    "Bound",
    "default_levels",
    "hedge_gap",
    "proper_hedge_gap",
    "rounding_error",
    "sharp_rounding_error",
    "union_of_shards",
]

# What a theorem promises: a number, the rate behind it, and where it comes from.


@dataclass(frozen=True, slots=True)
class Bound:
    """One inequality, evaluated.

    Parameters
    ----------
    value
        The right-hand side. It is never capped at the trivial bound, so that rates stay visible.
    exponent
        The power of the horizon T (of ε for a sample complexity) once logarithms are ignored; ``None`` when
        the statement has no horizon, or when its free parameter N was fixed by the caller.
    citation
        The statement in words: number and name for the paper's, ``ours: …`` for our own.
    explicit
        ``False`` when only the order is known and the constant was set to 1.
    levels
        The number of grid intervals N the value was computed with, if any.
    dim_exponent
        The power of the dimension d once logarithms are ignored; ``None`` where none is stated.

    Examples
    --------
    >>> from swapcal.bounds import rounding_error
    >>> bound = rounding_error(10)
    >>> float(bound), bound.explicit
    (0.01, True)
    """

    value: float
    exponent: float | None
    citation: str
    explicit: bool = True
    levels: int | None = None
    dim_exponent: float | None = None

    def __post_init__(self) -> None:
        # NumPy scalars would make float(bound) warn: __float__ must return an exact float.
        object.__setattr__(self, "value", float(self.value))

    def __float__(self) -> float:
        return self.value


def require_horizon(horizon: float) -> None:
    """Reject a number of rounds below one."""
    require_range("horizon", horizon, low=1.0)


def require_dim(dim: int) -> None:
    """Reject a dimension below one."""
    require_range("dim", dim, low=1)


def require_levels(levels: int) -> None:
    """Reject a grid without an interval."""
    require_range("levels", levels, low=1)


def require_positive(name: str, value: float) -> None:
    """Reject zero, negative, infinite and undefined numbers."""
    if not (isfinite(value) and value > 0):
        raise ValueError(f"{name}: given {value!r}, expected a positive finite number")


def require_nonnegative(name: str, value: float) -> None:
    """Reject negative, infinite and undefined numbers."""
    require_range(name, value, low=0)


def require_range(name: str, value: float, low: float) -> None:
    """Reject a number below `low`, infinite or undefined."""
    if not (isfinite(value) and value >= low):
        raise ValueError(f"{name}: given {value!r}, expected a finite number, at least {low:g}")


def require_probability(name: str, value: float) -> None:
    """Reject a failure probability outside the open unit interval."""
    if not 0 < value < 1:
        raise ValueError(f"{name}: given {value!r}, expected a number strictly between 0 and 1")


def require_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Reject a name that is not among the choices."""
    known = tuple(choices)
    if value not in known:
        raise ValueError(f"{name}: given {value!r}, expected {', '.join(known[:-1])} or {known[-1]}")


# How fine a uniform grid the theorems need.

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


# The price of predicting on a grid: randomised rounding and the two-point hedge.


def rounding_error(levels: int) -> Bound:
    """Bound the expected squared-loss increase of RRound on the grid {0, 1/N, …, 1} by 1/N².

    Examples
    --------
    >>> float(rounding_error(2))
    0.25
    """
    require_levels(levels)
    return Bound(1.0 / levels**2, None, "Proposition 3 (randomised rounding)", levels=levels)


def sharp_rounding_error(levels: int) -> Bound:
    """Bound the same increase by 1/(4N²), which is attained half-way between two levels.

    The increase equals (w − z_i)(z_{i+1} − w) for every label, the product of two numbers adding to 1/N.

    Examples
    --------
    >>> float(sharp_rounding_error(2))
    0.0625
    """
    require_levels(levels)
    return Bound(0.25 / levels**2, None, "ours: sharp randomised rounding", levels=levels)


def hedge_gap(width: float) -> Bound:
    """Bound the loss of the two-point hedge against its learners, D_t ≤ h²/4, on an interval of width h.

    With u = w_i − z_i ≥ 0, v = z_{i+1} − w_{i+1} ≥ 0 and weights v/(u+v), u/(u+v), both forecasts have the
    same mean, so D_t = Var(z) − Var(w) = uv(2h/(u+v) − 1) for every label. Since uv ≤ s²/4 with s = u + v,
    D_t ≤ (2hs − s²)/4 = (h² − (h − s)²)/4.

    Examples
    --------
    >>> float(hedge_gap(0.5))
    0.0625
    """
    require_nonnegative("width", width)
    return Bound(width**2 / 4, None, "ours: two-point hedge")


def proper_hedge_gap(width: float, curvature: float) -> Bound:
    """Bound the hedge's loss for any proper loss of Bayes risk G: D_t ≤ h² sup|G''| / 8.

    Write ℓ(p, y) = G(p) + G'(p)(y − p) with G concave, and hedge so that Σ p_j G'(z_j) = Σ p_j G'(w_j) =
    m. The label cancels: D_t = Σ p_j [H(G'(z_j)) − H(G'(w_j))] with H(s) = max_z G(z) − zs convex, which
    by Jensen is at most the two-point Jensen gap of H at m. H' runs over a range h while s runs over Δ ≤
    Ch, C = sup|G''|, and H'' ≥ 1/C; the gap is largest when the spare curvature sits at m, where it is
    hΔ/4 − Δ²/(8C) ≤ Ch²/8.

    Parameters
    ----------
    width
        Distance h of the two levels.
    curvature
        sup |G''| between them: 2 for the squared loss, which gives `hedge_gap` back.

    Examples
    --------
    >>> float(proper_hedge_gap(0.5, 2.0)) == float(hedge_gap(0.5))
    True
    """
    require_nonnegative("width", width)
    require_nonnegative("curvature", curvature)
    return Bound(curvature * width**2 / 8, None, "ours: two-point hedge for proper losses")


# Bounds of the union of shards.


def union_of_shards(shards: Sequence[Bound]) -> Bound:
    """Bound an error of all rows together by the sum of the bounds of disjoint shards, each with a learner of its own.

    The errors are sums over levels of n|S/n|^q with q ≥ 1, where S = Σ f(x)(y − p), or of S itself, and a supremum over
    the class. The rows of a level are those of the shards' levels together, so n and S add up; n|S/n|^q is convex and
    homogeneous in (n, S), hence subadditive; and a supremum of a sum is at most the sum of the suprema. The comparator
    may even be another function in every shard. Swap regrets and omniprediction errors are suprema of sums, too.

    S shards of T/S rows with a bound C·T^a each give S^(1−a) times what one learner of all T rows would have. Bounds
    that hold with probability 1 − δ each hold together with probability 1 − Sδ.

    Examples
    --------
    >>> from swapcal.bounds import smcal2
    >>> one = smcal2(10**6, dim=5, delta=0.05 / 8)
    >>> float(union_of_shards([one] * 8)) == 8 * float(one)
    True
    """
    if not shards:
        raise ValueError("shards: given none, expected at least one")
    exponents = [shard.exponent for shard in shards]
    known = [exponent for exponent in exponents if exponent is not None]
    return Bound(
        sum(float(shard) for shard in shards),
        max(known) if len(known) == len(exponents) else None,
        f"ours: union of shards; each by {shards[0].citation.removeprefix('ours: ')}",
        explicit=all(shard.explicit for shard in shards),
    )
