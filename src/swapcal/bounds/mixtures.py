"""Exponential weights over finitely or countably many rules at each level: groups, scores, experts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log, log1p, pi, sin

from swapcal.bounds.bound import Bound, hedge_gap, require_dim, require_horizon, require_range
from swapcal.bounds.monitoring import start_share

__all__ = [
    "group_certificate",
    "group_levels",
    "group_psreg",
    "group_share",
    "log_hedge_gap",
    "log_psreg",
    "mixable_regret",
]

DYADIC_STEPS = 18
"""s = ±2^-k, k = 0, …, 8."""
STEP_LOSS = 9 / 8
"""What a level loses to the best constant on a group is at most this times what it loses to the best of the steps …"""
SMALLEST_STEP2 = 4.0**-8
"""… plus this times the same, per round."""


def mixable_regret(share: float) -> Bound:
    """Regret ½ ln(1/share) of exponential weights of rate 2 to a rule of prior weight `share`, on α(w − y)² with α ≤ 1.

    *Proof.* Squared loss with forecasts and outcomes in [0, 1] is 2-mixable (Vovk): the substitution w of weights q_j
    has (w − y)² ≤ −½ ln Σ q_j exp(−2(w_j − y)²) for all y. For 0 < α ≤ 1, −ln E[exp(−cℓ)]/c falls in c, so
    α(w − y)² ≤ −½ ln Σ q_j exp(−2α(w_j − y)²), also if α was chosen knowing w. Over the rounds the right sides
    telescope to −½ ln Σ share_j exp(−2L_j) ≤ L_j + ½ ln(1/share_j). (The mean of the rules in place of the substitution
    allows only rate ½ and costs 2 ln(1/share).)

    Examples
    --------
    >>> round(float(mixable_regret(1 / 20)), 3)
    1.498
    """
    if not 0 < share <= 1:
        raise ValueError(f"share: given {share!r}, expected a number in (0, 1]")
    return Bound(-log(share) / 2, None, "ours: mixability with weights at most 1")


def group_share(order: int, columns: int = 1, scores: int = 0) -> float:
    """Return the prior weight of the group that is the `order`-th value of its column, as `Forecaster.sparse` has it.

    Everyone and the columns share alike, a column's values by order of appearance (`start_share`), so that no number of
    values exhausts it; scores, if there are any, have one half of everything.

    Examples
    --------
    >>> round(1 / group_share(100_000))
    55928864
    """
    require_range("order", order, low=1)
    require_dim(columns)
    return float(start_share(order - 1)) / ((1 + columns) * (2 if scores else 1))


def group_certificate(gap: float, prices: Iterable[float], horizon: float) -> Bound:
    """Bound on PSReg over groups after immediate outcomes: (9/8)[Σ D_t + Σ_v ½ price_v + T·4^-8].

    PSReg is against the rules that choose for each level v one group g and one constant for its rows, and v elsewhere:
    Σ_v max_g A²/n of the group's cell; it bounds PSMCal_2 over groups, as n ≤ n_v.

    *Proof.* Level v's exponential weights compete with v + s on each group, s = ±2^-k, k ≤ 8, cut to [0, 1]. With
    s* = |A|/n ≤ 1 the best constant saves s*²n, and the step s saves (2ss* − s²)n, a cut step no less. If
    s* ≥ ¾·2^-8, some step has s/s* in [2/3, 4/3] and saves at least 8/9 of it. Else the smallest step saves
    (2ss* − s²)n, and s*² ≤ (9/8)(2ss* − s²) + (9/8)s² for s* ≤ ¾s. Either way s*²n ≤ (9/8)(saving of a step of the same
    group) + (9/8)4^-8 n. A step's saving is at most Σα[(v − y)² − (w − y)²] + ½ price_v by `mixable_regret`, and the
    brackets of all levels add to Σ D_t.

    Parameters
    ----------
    gap
        Σ D_t.
    prices
        ln(1/prior weight of a step) for the best group, or ln(1/prior weight) for the best score, of each level played.
    horizon
        T.

    Examples
    --------
    >>> round(float(group_certificate(1.0, [8.0, 8.0], 1000)), 3)
    10.142
    """
    learning = 0.5 * float(sum(prices))
    value = STEP_LOSS * (gap + learning + horizon * SMALLEST_STEP2)
    return Bound(value, None, "ours: mixtures over steps on groups")


def group_levels(horizon: float, groups: int, columns: int = 1) -> int:
    """Return the N that balances T/(4N²) and (N + 1)/2·ln(18/share): (T / ln(18/share))^{1/3}.

    Examples
    --------
    >>> group_levels(10**6, 10**5, columns=10)
    35
    """
    require_horizon(horizon)
    balanced: float = (horizon / log(DYADIC_STEPS / group_share(groups, columns))) ** (1 / 3)
    return max(1, round(balanced))


def group_psreg(
    horizon: float,
    groups: int,
    levels: int | Sequence[float] | None = None,
    *,
    columns: int = 1,
    scores: int = 0,
) -> Bound:
    """PSReg of `Forecaster.sparse` over groups: (9/8)[T·max h²/4 + L/2·ln(18/share) + T·4^-8] on L levels.

    Of order T^{1/3}(ln K)^{2/3} until the last term, for steps below 2^-8, takes over near T = 10^8; pathwise, even if
    y_t is chosen after seeing P_t: `group_certificate` with D_t ≤ h²/4 and every level's best rule the one of the
    smallest prior weight. It bounds PSMCal_2 over groups too.

    Parameters
    ----------
    horizon
        T.
    groups
        The most values that a column has.
    levels
        N for uniform levels, the levels themselves, or `group_levels`.
    columns, scores
        As in `Forecaster.sparse`.

    Examples
    --------
    >>> bound = group_psreg(10**6, 10**5, columns=10)
    >>> bound.levels, round(float(bound))
    (35, 701)
    """
    require_horizon(horizon)
    chosen = group_levels(horizon, groups, columns) if levels is None else levels
    points = [i / chosen for i in range(chosen + 1)] if isinstance(chosen, int) else [float(z) for z in chosen]
    width = max(high - low for low, high in pairwise(points))
    price = max(log(DYADIC_STEPS / group_share(groups, columns, scores)), log(2 * max(scores, 1)))
    gap = horizon * float(hedge_gap(width))
    value = float(group_certificate(gap, len(points) * [price], horizon))
    return Bound(
        value, None if levels is not None else 1 / 3, "ours: groups by exponential weights", levels=len(points) - 1
    )


def log_hedge_gap(low: float, high: float) -> Bound:
    """Largest D_t of two neighbouring levels under log loss: the Jensen gap of A(θ) = ln(1 + e^θ) between their logits.

    *Proof.* ℓ(p, y) = A(θ) − yθ with θ = logit p. If mean logits of levels and wishes agree, y cancels and
    D_t = Σ P_j [A(θ_z) − A(θ_w)] ≤ Σ P_j A(θ_z) − A(Σ P_j θ_z), as A is convex; equality if both wishes are the same.
    The gap is largest where A′ equals the slope of the chord.

    On N + 1 levels sin²(π(2i + 1)/(4(N + 1))) the largest times (N + 1)² falls from 2 ln 2 at N = 1 to 1.2733, near the
    ends; in the middle it is π²/8.

    Examples
    --------
    >>> round(float(log_hedge_gap(0.4, 0.6)), 4)
    0.0204
    """
    if not 0 < low < high < 1:
        raise ValueError(f"levels: given {low!r} and {high!r}, expected 0 < low < high < 1")
    a, b = log(low) - log1p(-low), log(high) - log1p(-high)
    slope = (log1p(-low) - log1p(-high)) / (b - a)
    middle = log(slope) - log1p(-slope)
    return Bound(-log1p(-low) + slope * (middle - a) + log1p(-slope), None, "ours: two-point hedge for log loss")


def log_psreg(horizon: float, experts: int, levels: int) -> Bound:
    """PSReg in nats of `Forecaster.log_loss`: T·max D − T ln(1 − z_0) + (N + 1) max(ln 2M, ln(2 + 2T/(N + 1))).

    Against one expert or one constant for each level; pathwise, even if y_t is chosen after seeing P_t.

    *Proof.* A level's mixture gives its M experts one half and all constants, uniformly, the other. As log loss is
    1-mixable by means, and −ln E[exp(−cℓ)]/c falls in c, losses of wishes with weights α ≤ 1 add to at most those of an
    expert plus ln 2M, or to −ln ½∫θ^S(1 − θ)^{n−S}dθ. That is at most ln 2(n + 1) above the best constant:
    B(S + 1, n − S + 1)(n + 1) ≥ θ̂^S(1 − θ̂)^{n−S} says h(n) ≤ h(S) + h(n − S) for h(x) = lnΓ(x + 1) − x ln x, which is
    concave (ψ₁(x + 1) < 1/x) with h(0) = 0. By concavity of ln the levels' masses, which add to T, are worst when
    equal. Wishes held within [z_0, 1 − z_0] lose at most −ln(1 − z_0) more. Rounding costs D_t (`log_hedge_gap`).

    Examples
    --------
    >>> round(float(log_psreg(10**6, 20, 40)))
    1567
    """
    require_horizon(horizon)
    require_dim(experts)
    require_range("levels", levels, low=1)
    z = [sin(pi * (2 * i + 1) / (4 * (levels + 1))) ** 2 for i in range(levels + 1)]
    gap = max(float(log_hedge_gap(low, high)) for low, high in pairwise(z))
    learning = (levels + 1) * max(log(2 * experts), log(2 + 2 * horizon / (levels + 1)))
    value = horizon * (gap - log1p(-z[0])) + learning
    return Bound(value, None, "ours: log loss over experts and constants", levels=levels)
