"""Monitoring: wealth that cannot grow against calibrated forecasts, and what follows at every time at once.

Throughout, rows come in an order that does not depend on their labels; F_t is all that is known before the label of
row t: the earlier rows with their labels, the record x_t and the forecast p_t. A cell (group and range of forecasts)
and direction s = ±1 is *sound* if s·E[y_t − p_t | F_t] ≤ ε on all its rows. A bet multiplies its wealth by
b_t = 1 + λ_t (s(y_t − p_t) − ε) on the rows of its cell, with λ_t ≥ 0 known in F_t and b_t > 0; so E[b_t | F_t] ≤ 1 if
the cell is sound.

*Outcomes of a chosen part.* Let L_t be 1 if the outcome of row t is obtained, which happens with probability
π_t ≥ 1/w̄ given F_t, y_t and whatever else selects rows, but does not depend on y_t. The bet
b_t = 1 + (λ_t/w̄)(L_t/π_t)(s(y_t − p_t) − ε) has E[b_t | F_t] = 1 + (λ_t/w̄)(s·E[y_t − p_t | F_t] − ε), at most 1 if the
cell is sound; as L_t/(w̄π_t) ≤ 1 it lies between 1 and the bet of a row without weight, so b_t > 0. Rows without an
outcome leave wealth and sums as they are: the run length counts rows with one.

*Clusters.* Rows that belong together are one step: with b̄ the mean of the gains of a cluster's rows in the cell,
E[b̄ | F] ≤ 1 if clusters are independent and s·E[y − p | x, p] ≤ ε on each row, whatever the rows of a cluster share.
A second bet on a cluster could depend on its outcomes, so each bets once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log, log1p, pi

from swapcal.bounds.bound import (
    Bound,
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
    "run_chance",
    "stake_regret",
    "start_share",
    "ville",
]

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
