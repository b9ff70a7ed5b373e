"""Mixtures of rules and of bets: exponential weights at each level, and the wealth of tests valid at all times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import exp, lgamma, log, log1p, pi, sin

from swapcal.bounds.bound import (
    Bound,
    hedge_gap,
    require_dim,
    require_horizon,
    require_nonnegative,
    require_positive,
    require_probability,
    require_range,
)

__all__ = [
    "appearance_share",
    "coin_wealth",
    "detection_delay",
    "deviation_radius",
    "e_bh_limit",
    "false_alarm_spacing",
    "group_certificate",
    "group_levels",
    "group_psreg",
    "group_share",
    "log_hedge_gap",
    "log_psreg",
    "mixable_regret",
    "run_chance",
    "stake_regret",
    "start_share",
    "ville",
]

DYADIC_STEPS = 18
"""s = ±2^-k, k = 0, …, 8."""
STEP_LOSS = 9 / 8
"""A level's loss relative to the best constant on a group is at most this times that to the best of the steps …"""
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


# Monitoring: wealth that cannot grow against calibrated forecasts, and what follows at every time at once.
#
# Throughout, rows come in an order that does not depend on their labels; F_t is all that is known before the label of
# row t: the earlier rows with their labels, the record x_t and the forecast p_t. A cell (group and range of forecasts)
# and direction s = ±1 is *sound* if s·E[y_t − p_t | F_t] ≤ ε on all its rows. A bet multiplies its wealth by
# b_t = 1 + λ_t (s(y_t − p_t) − ε) on the rows of its cell, with λ_t ≥ 0 known in F_t and b_t > 0; so E[b_t | F_t] ≤ 1
# if the cell is sound.
#
# *Outcomes of a chosen part.* Let L_t be 1 if the outcome of row t is obtained, which happens with probability
# π_t ≥ 1/w̄ given F_t, y_t and whatever else selects rows, but does not depend on y_t. The bet
# b_t = 1 + (λ_t/w̄)(L_t/π_t)(s(y_t − p_t) − ε) has E[b_t | F_t] = 1 + (λ_t/w̄)(s·E[y_t − p_t | F_t] − ε), at most 1
# if the cell is sound; as L_t/(w̄π_t) ≤ 1 it lies between 1 and the bet of a row without weight, so b_t > 0. Rows
# without an outcome leave wealth and sums as they are: the run length counts rows with one.
#
# *Clusters.* Rows that belong together are one step: with b̄ the mean of the gains of a cluster's rows in the cell,
# E[b̄ | F] ≤ 1 if clusters are independent and s·E[y − p | x, p] ≤ ε on each row, whatever the rows of a cluster share.
# A second bet on a cluster could depend on its outcomes, so each bets once.

APPEARANCES = 8
"""Order of appearance up to which categories share their column's budget almost evenly."""
START_NORM = 2.10974281
"""At least Σ 1 / (n ln² n) over n ≥ 2, which is 2.1097428…"""
TILTS = tuple(0.8 * 2.0**-i for i in range(16))
"""λ of the mixture in `deviation_radius`: near the best one for sums of squares from 1 to 10⁹."""


def ville(alpha: float) -> Bound:
    """Ville's inequality: the wealth of sound cells, which starts at 1, ever reaches 1/α with probability at most α.

    *Proof.* W_t = Σ w_c W_{c,t} with weights adding to at most 1 and W_{c,t} = Π b is a nonnegative supermartingale.
    Stop it when it reaches 1/α: E[W] ≤ 1 and Markov. Dropping cells that are not sound leaves a supermartingale, so
    the probability that *any sound* cell alone reaches 1/(α w_c) is at most α, whatever the others do.

    Examples
    --------
    >>> float(ville(0.05))
    20.0
    """
    require_probability("alpha", alpha)
    return Bound(1 / alpha, None, "Ville's inequality")


def coin_wealth(heads: int, tails: int) -> Bound:
    """Wealth won against a fair coin by betting as Krichevsky and Trofimov: 2^n B(h + ½, t + ½)/B(½, ½).

    *Proof.* It is the mean over a Beta(½, ½) prior of Π 2θ^{heads}(1 − θ)^{tails}, each of which is a nonnegative
    martingale that starts at 1 if the coin is fair given the past. By `ville` it ever reaches 1/α with probability at
    most α, however often one looks.

    Examples
    --------
    >>> round(float(coin_wealth(0, 0)), 9), float(coin_wealth(30, 2)) > 1000
    (1.0, True)
    """
    require_nonnegative("heads", heads)
    require_nonnegative("tails", tails)
    tosses = heads + tails
    mixture = lgamma(heads + 0.5) + lgamma(tails + 0.5) - lgamma(tosses + 1.0) - log(pi)
    return Bound(exp(min(tosses * log(2.0) + mixture, 700.0)), None, "Krichevsky and Trofimov 1981, by Ville")


def false_alarm_spacing(threshold: float, mass: float = 1.0) -> Bound:
    """Mean number of rows until sound cells raise an alarm: at least threshold / mass.

    *Proof.* S_c ← (1 + S_c) b_t on the rows of the cell has E[S_{c,t} | F_t] ≤ S_{c,t−1} + 1 there and is constant
    elsewhere. With weights w_c, and `mass` a bound on the total weight of the cells that one row plays in,
    M_t = Σ w_c S_{c,t} over sound cells makes M_t − mass·t a supermartingale. At τ, the first time that M_t ≥ c,
    c ≤ E[M_τ] ≤ mass·E[τ] (stop at τ ∧ n, then Fatou). The categories of one column are disjoint, and so are the
    ranges of one depth: each may carry the whole weight of its column and depth, and a category never seen before
    needs no budget. Setting sums back to 0 at any time that does not look ahead only lowers M.

    Examples
    --------
    >>> float(false_alarm_spacing(10**6))
    1000000.0
    """
    require_positive("threshold", threshold)
    require_positive("mass", mass)
    return Bound(threshold / mass, None, "ours: Shiryaev–Roberts e-detector over overlapping partitions")


def appearance_share(order: int) -> Bound:
    """Share of a column's budget for the category that appears `order`-th: m / ((m − 1 + j)(m + j)), m = 8.

    The shares add to 1 over all j (the sum telescopes), so no number of categories exhausts the budget.

    *Proof that late categories keep the supermartingale.* Let W_j be the wealth of the j-th category to appear: 1
    until it does, then the product of its gains. Which category that is, and when, is decided by records up to and
    including x_t, all in F_t; so on every row E[W_{j,t} | F_t] ≤ W_{j,t−1}, and Σ share(j) W_{j,t} starts at 1.

    Examples
    --------
    >>> round(sum(float(appearance_share(j)) for j in range(1, 10**4)), 3)
    0.999
    """
    require_range("order", order, low=1)
    m = APPEARANCES
    return Bound(m / ((m - 1 + order) * (m + order)), None, "ours: budget by order of appearance")


def start_share(before: float) -> Bound:
    """Share of the error probability for intervals that start after `before` rows of a cell: 1 / (c·n ln² n).

    n = before + 2 and c = Σ 1 / (n ln² n), so the shares of all starts add to at most 1.

    Examples
    --------
    >>> round(1 / float(start_share(0)), 2), round(1 / float(start_share(10_000)))
    (2.03, 1790138)
    """
    require_nonnegative("before", before)
    n = before + 2
    return Bound(1 / (START_NORM * n * log(n) ** 2), None, "ours: budget by start of a segment")


def deviation_radius(squares: float, alpha: float) -> Bound:
    """Radius u with Σ(y − p) − ΣE[y − p | F] < u at all times at once, with probability 1 − α; V = Σ(y − p)².

    *Proof.* With ξ = y − p ≥ −1 and 0 ≤ λ < 1, exp(λξ − ψ(λ)ξ²) ≤ 1 + λξ for ψ(λ) = −ln(1 − λ) − λ (Fan, Grama and
    Liu 2015), hence E[exp(λ(ξ − E ξ) − ψ(λ)ξ²)] ≤ (1 + λ E ξ) exp(−λ E ξ) ≤ 1. The mean over sixteen λ of
    exp(λD − ψ(λ)V) is a supermartingale in D = Σ(ξ − E ξ) and reaches 1/α with probability at most α. It grows in
    D, so D < u, where the mean is 1/α. The same for p − y: both sides hold with 2α.

    Examples
    --------
    >>> round(float(deviation_radius(2500.0, 0.025)), 1)
    185.0
    """
    require_nonnegative("squares", squares)
    require_probability("alpha", alpha)
    level = log(len(TILTS) / alpha)
    low, high = 0.0, min((level + _psi(tilt) * squares) / tilt for tilt in TILTS)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if _log_mixture(middle, squares) >= level else (middle, high)
    return Bound(high, None, "empirical Bernstein inequality at all times (Howard et al. 2021; mixture ours)")


def e_bh_limit(rank: int, count: int, alpha: float) -> Bound:
    """Wealth that the `rank`-th largest of `count` monitors must reach so that e-BH lists them: count / (α·rank).

    List the k monitors of largest wealth, for the largest k whose k-th wealth reaches the limit. The expected share of
    sound monitors among those listed (the false discovery rate) is at most α, however the monitors depend on each
    other.

    *Proof* (Wang and Ramdas 2022). Let R be listed. Each one listed has wealth e ≥ K/(αR), so 1[i listed]/R ≤ α e_i/K.
    The expected share is E[Σ 1[i listed]/max(R, 1)] ≤ α Σ E[e_i]/K over sound i, and E[e_i] ≤ 1 at every stopping time,
    as wealth is a nonnegative supermartingale that starts at 1; the time may depend on all monitors if each is one
    given the rows of all.

    Examples
    --------
    >>> float(e_bh_limit(1, 300, 0.05)), float(e_bh_limit(10, 300, 0.05))
    (6000.0, 600.0)
    """
    require_range("rank", rank, low=1)
    require_range("count", count, low=rank)
    require_probability("alpha", alpha)
    return Bound(count / (alpha * rank), None, "e-BH (Wang and Ramdas 2022)")


def detection_delay(threshold: float, growth: float, largest: float) -> Bound:
    """Mean number of rows from a change to its alarm: at most (ln threshold + ln largest) / growth.

    For gains that are independent and alike after the change, E[ln b] = growth > 0 and b ≤ largest; `threshold` is
    what this one bet's sum must reach, the run length divided by the bet's weight.

    *Proof.* S_t ≥ Π b over the rows since the change, for any S before it. The alarm comes no later than the random
    walk Σ ln b passes ln threshold; at that time it is at most ln threshold + ln largest, and Wald's equation holds.

    Examples
    --------
    >>> round(float(detection_delay(2e8, growth=0.01, largest=1.2)))
    1930
    """
    require_range("threshold", threshold, low=1.0)
    require_positive("growth", growth)
    require_range("largest", largest, low=1.0)
    return Bound((log(threshold) + log(largest)) / growth, None, "ours: Wald's equation for the e-detector")


def stake_regret(stakes: Sequence[float]) -> Bound:
    """Log-wealth that the mean over stakes can fall behind the best of them in hindsight: ln of their number.

    *Proof.* (1/m) Σ W_k ≥ max W_k / m, on every sequence and at every time.

    Examples
    --------
    >>> round(float(stake_regret([0.02, 0.1, 0.5])), 3)
    1.099
    """
    require_range("number of stakes", len(stakes), low=1)
    return Bound(log(len(stakes)), None, "ours: mixture of stakes")


def run_chance(length: float, chance: float, rows: float) -> Bound:
    """Probability that somewhere in `rows` rows `length` outcomes in a row are what has at most this chance each.

    *Proof.* There are at most `rows` places where the run can begin, each with probability chance^length at most. For
    outcomes of different chances the mean may stand for all: by concavity Π p ≤ (Σ p/n)^n.

    Examples
    --------
    >>> float(run_chance(20, 0.5, 1000)) < 0.001 < float(run_chance(10, 0.5, 1000))
    True
    """
    require_range("length", length, low=1)
    require_nonnegative("chance", chance)
    require_range("rows", rows, low=1)
    return Bound(min(1.0, exp(log(rows) + length * log(max(chance, 1e-300)))), None, "union bound")


def _psi(tilt: float) -> float:
    return -log1p(-tilt) - tilt


def _log_mixture(deviation: float, squares: float) -> float:
    """Return ln Σ exp(λD − ψ(λ)V) over the tilts."""
    exponents = [tilt * deviation - _psi(tilt) * squares for tilt in TILTS]
    top = max(exponents)
    return top + log(sum(exp(exponent - top) for exponent in exponents))
