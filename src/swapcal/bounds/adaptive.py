"""Self-refining levels: no horizon, no N, and still a worst-case bound, from T, d, λ and κ alone.

The levels start as i/16, the outermost intervals halved four times. An interval of width h adds D_t ≤ h²/4 to its
account S on each round it serves and splits at its midpoint as soon as S > κ(½(R_i + R_{i+1}) + φ), φ = 0.1·max(λ,
d/50), R being the endpoint learners' regret potential, e.g. Σ α²(w − y)² q/(1 + αq) for ridge; its halves start at S
= 0. The account is checked after every round. λ is the ridge of every learner. A newborn level's learner starts from
its neighbours' mean, projected onto the ball of radius 3 around e_1 (the constant ½), so that its distance to every
comparator is bounded before any data.
"""

from __future__ import annotations

from math import log, log2, sqrt

from swapcal.bounds.batch import population_from_psreg
from swapcal.bounds.bound import (
    Bound,
    require_choice,
    require_dim,
    require_horizon,
    require_nonnegative,
    require_positive,
)
from swapcal.bounds.learners import learner_regret
from swapcal.bounds.realised import log_cover_size, smcal2_from_psreg, somni_from_smcal1, sreg_from_psreg
from swapcal.kernels.state import END_HALVINGS, NEWBORN_REACH, SPLIT_SHARE_OF_DIM, SPLIT_SHARE_OF_RIDGE, START_INTERVALS

__all__ = [
    "adaptive_distance2",
    "adaptive_dsmcal1",
    "adaptive_dsmcal2",
    "adaptive_dsomni",
    "adaptive_gap",
    "adaptive_levels",
    "adaptive_psreg",
    "adaptive_saerr",
    "adaptive_smcal2",
    "adaptive_sreg",
    "split_floor",
]

START_DEPTH = round(log2(START_INTERVALS))
FIRST_INTERVALS = START_INTERVALS + 2 * END_HALVINGS


def split_floor(dim: int, ridge: float = 1.0) -> float:
    """Return φ = 0.1·max(λ, d/50): what an interval may always cost, in units of κ, before it splits.

    A learner costs λB² + d ln(…) in any case, so φ of that order in d makes rounding and learning cost alike.

    Examples
    --------
    >>> split_floor(5), split_floor(5, ridge=40.0), split_floor(200)
    (0.1, 4.0, 0.4)
    """
    require_dim(dim)
    require_positive("ridge", ridge)
    return max(SPLIT_SHARE_OF_RIDGE * ridge, SPLIT_SHARE_OF_DIM * dim)


def adaptive_distance2(target: str = "sreg", reach: float = NEWBORN_REACH) -> float:
    """Largest ‖θ − θ_0‖² from a learner's start, at most `reach` from e_1, to the comparators of the target.

    ``"sreg"``: F_4^lin lies within 5 of e_1 (at −4e_1). ``"smcal"``: the class v + F_1^lin lies within 3, since
    |2v − 1| ≤ 1 and Θ_1 has radius 2. First levels start from 2v e_1, within 1 of e_1, or from a prior of the user's,
    whose distance from e_1 replaces 3 if it is larger.

    Examples
    --------
    >>> adaptive_distance2(), adaptive_distance2("smcal")
    (64.0, 36.0)
    """
    require_choice("target", target, ("sreg", "smcal"))
    require_nonnegative("reach", reach)
    return float((5.0 if target == "sreg" else 3.0) + reach) ** 2


def adaptive_levels(
    horizon: float, dim: int, kappa: float = 0.2, ridge: float = 1.0, *, floor: float | None = None
) -> Bound:
    """Largest number of levels after T rounds: at most 25 + (10/3)(T/(4κφ))^{1/3}, φ = `split_floor`.

    *Proof.* At depth k, h = 2⁻ᵏ, a split needs S > κφ, hence more than 4κφ·4ᵏ rounds and at least one. Every round
    serves one interval, so s_k splits at depth k satisfy Σ_k s_k max(1, 4κφ·4ᵏ) ≤ T, and s_k ≤ 2ᵏ, k ≥ 4. Each split
    adds one level to the first 25. Shallow splits are cheapest, so filling the depths in order maximises Σ s_k: this
    is the value returned. Already s_k ≤ min(2ᵏ, M 4⁻ᵏ), M = T/(4κφ), gives Σ s_k ≤ 2M^{1/3} + (4/3)M^{1/3} by cutting
    at 8ᵏ = M.

    Parameters
    ----------
    horizon, dim
        T and d.
    kappa, ridge
        κ and λ.
    floor
        φ; `split_floor` by default. Coordinates appended later leave it as it was.

    Examples
    --------
    >>> float(adaptive_levels(1, 1)), float(adaptive_levels(10**6, 1)), float(adaptive_levels(10**6, 200))
    (25.0, 419.0, 276.0)
    """
    splits = sum(_splits(horizon, kappa, _floor(dim, ridge, floor)))
    count = FIRST_INTERVALS + splits
    return Bound(1.0 + count, 1 / 3, "ours: number of self-refined levels", levels=count, dim_exponent=-1 / 3)


def adaptive_gap(
    horizon: float,
    dim: int,
    kappa: float = 0.2,
    ridge: float = 1.0,
    *,
    learner: str = "ridge",
    floor: float | None = None,
) -> Bound:
    """Bound Σ D_t under self-refining levels.

    *Proof.* An account never exceeds its threshold by more than one round's h²/4. Over the I = 24 + 2·(splits)
    intervals that ever existed, Σ D_t ≤ Σ [κ(½(R_i + R_{i+1}) + φ) + h²/4]. The widths contribute at most
    Σ_{k≥4} 2ᵏ 4⁻ᵏ/4 = 1/32. R_v ≤ r(n_v) with r concave (for ridge r(n) = d ln(1 + n/(λd))), and a level bounds at
    most two intervals of each of the K depths in use, so the 2I masses met in the sum add to at most 2KT and Jensen's
    inequality gives

        Σ D_t ≤ κI [r(KT/I) + φ] + 1/32,

    increasing in I and K. Also Σ D_t ≤ T/1024, since h ≤ 1/16.

    Parameters
    ----------
    horizon, dim, kappa, ridge, floor
        As in `adaptive_levels`.
    learner
        ``"ridge"``, ``"vaw"``, ``"ons"`` or ``"ons-fast"``.

    Examples
    --------
    >>> float(adaptive_gap(1024, 2))
    1.0
    """
    phi = _floor(dim, ridge, floor)
    splits = _splits(horizon, kappa, phi)
    intervals, depths = FIRST_INTERVALS + 2 * sum(splits), len(splits) + 1
    potential = float(learner_regret(learner, depths * horizon / intervals, dim, ridge=ridge, distance2=0.0))
    value = kappa * intervals * (potential + phi) + 1 / (2 * START_INTERVALS)
    trivial = horizon / (4 * START_INTERVALS**2)
    return Bound(min(value, trivial), 1 / 3, "ours: gap of self-refining levels", dim_exponent=2 / 3)


def adaptive_psreg(
    horizon: float,
    dim: int,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = adaptive_distance2(),
    *,
    learner: str = "ridge",
    floor: float | None = None,
) -> Bound:
    """Bound PSReg of hedging on self-refining levels by Õ(T^{1/3} d^{2/3}), for any fixed λ ≤ O(d).

    The value is `adaptive_gap` plus L times a learner's regret at mass T/L, e.g. L[λB² + d ln(1 + T/(λdL))] for ridge,
    with L from `adaptive_levels`. It depends on T, d, λ and κ, and on nothing that happens.

    Parameters
    ----------
    horizon, dim, kappa, ridge, learner, floor
        As in `adaptive_gap`.
    distance2
        B², the largest ‖θ − θ_0v‖² over levels and comparators: `adaptive_distance2`, 64 for F_4^lin.

    Examples
    --------
    >>> bound = adaptive_psreg(10**6, 5)
    >>> bound.exponent == 1 / 3, bound.dim_exponent == 2 / 3
    (True, True)
    """
    require_nonnegative("distance2", distance2)
    count = float(adaptive_levels(horizon, dim, kappa, ridge, floor=floor))
    learners = count * float(learner_regret(learner, horizon / count, dim, ridge=ridge, distance2=distance2))
    value = float(adaptive_gap(horizon, dim, kappa, ridge, learner=learner, floor=floor)) + learners
    return Bound(value, 1 / 3, f"ours: {learner} on self-refining levels", dim_exponent=2 / 3)


def adaptive_sreg(
    horizon: float,
    dim: int,
    delta: float,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = adaptive_distance2(),
) -> Bound:
    """Realised contextual swap regret against F_4^lin on self-refining levels, with probability 1 − δ.

    The levels are random, so the union bound runs over all dyadic points that could be created, while only
    created ones are counted: 2·PSReg + 146·L·ln(4(2ᴷ + 1)|C|/δ) + 18, K the greatest depth.

    Examples
    --------
    >>> float(adaptive_sreg(10**6, 5, 0.05)) > 2 * float(adaptive_psreg(10**6, 5))
    True
    """
    pseudo = adaptive_psreg(horizon, dim, kappa, ridge, distance2)
    count, spare = _created_and_spare(horizon, kappa, split_floor(dim, ridge))
    cover = float(log_cover_size(dim, 1 / horizon, radius=2.0)) + spare
    value = float(sreg_from_psreg(float(pseudo), count, cover, delta)) + 18.0
    return Bound(value, 1 / 3, "ours: swap regret on self-refining levels", dim_exponent=2 / 3)


def adaptive_smcal2(
    horizon: float,
    dim: int,
    delta: float,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = adaptive_distance2("smcal"),
) -> Bound:
    """Realised ℓ2 swap multicalibration against F_1^lin on self-refining levels, with probability 1 − δ.

    As `adaptive_sreg` for the class v + F_1^lin: 2·PSReg + 74·L·ln(4(2ᴷ + 1)|C|/δ) + 10.

    Examples
    --------
    >>> float(adaptive_smcal2(10**6, 5, 0.05)) < float(adaptive_sreg(10**6, 5, 0.05))
    True
    """
    pseudo = adaptive_psreg(horizon, dim, kappa, ridge, distance2)
    count, spare = _created_and_spare(horizon, kappa, split_floor(dim, ridge))
    cover = float(log_cover_size(dim, 1 / horizon)) + spare
    value = float(smcal2_from_psreg(float(pseudo), count, cover, delta)) + 10.0
    return Bound(value, 1 / 3, "ours: swap multicalibration on self-refining levels", dim_exponent=2 / 3)


def adaptive_saerr(
    horizon: float,
    dim: int,
    delta: float = 0.05,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = adaptive_distance2(),
) -> Bound:
    """SAErr against F_4^lin of the mixture of all T rounds on self-refining levels: Õ(T^{−2/3}), w.p. 1 − δ.

    [2·PSReg + 64·L·ln(2(2ᴷ + 1)|C|/δ) + 18]/T, L = `adaptive_levels`, K the greatest depth, |C| ≤ (1 + 4T)^d.

    *Proof.* `population_from_psreg` for random levels. Which levels exist in round t is known before row t is drawn,
    and P_t(x)(v) = 0 where v does not exist yet. So for each fixed v and f the differences between a row's regret and
    its mean over the population are martingale differences, with the moments used there, and Freedman's inequality
    holds with probability 1 − δ/((2ᴷ + 1)|C|) for each of the 2ᴷ + 1 dyadic points and each f of an ε-cover C at once.
    A point that never was a level has no regret, in the sample or in the population, so only created levels add
    64·ln(…). Levels are at most L and their PSReg is at most `adaptive_psreg`. ε = 1/T adds 18.

    Parameters
    ----------
    horizon, dim, delta
        T rows, each streamed once, independent and alike; d; failure probability δ.
    kappa, ridge, distance2
        κ, λ and B² of the engine that was run; B² for a prior farther than 3 from e_1 is `adaptive_distance2` at that
        reach.

    Examples
    --------
    >>> adaptive_saerr(10**6, 5).exponent == -2 / 3
    True
    """
    pseudo = adaptive_psreg(horizon, dim, kappa, ridge, distance2)
    count, spare = _created_and_spare(horizon, kappa, split_floor(dim, ridge))
    cover = float(log_cover_size(dim, 1 / horizon, radius=2.0)) + spare
    value = float(population_from_psreg(float(pseudo), horizon, count, cover, delta)) + 18.0 / horizon
    return Bound(value, -2 / 3, "ours: swap agnostic learning on self-refining levels", dim_exponent=2 / 3)


def adaptive_dsmcal2(
    horizon: float,
    dim: int,
    delta: float = 0.05,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = adaptive_distance2("smcal"),
) -> Bound:
    """DSMCal_2 against F_1^lin of the mixture of all T rounds on self-refining levels: Õ(T^{−2/3}), w.p. 1 − δ.

    [2·PSReg + 36·L·ln(2(2ᴷ + 1)|C|/δ) + 10]/T, |C| ≤ (1 + 2T)^d.

    *Proof.* That of `adaptive_saerr` for the class v + F_1^lin on each level v, whose constants in
    `population_from_psreg` are 36 and 10; its swap agnostic error is at least DSMCal_2 (`psmcal2_from_psreg`).

    Parameters
    ----------
    horizon, dim, delta, kappa, ridge, distance2
        As in `adaptive_saerr`; B² is that of the class v + F_1^lin, 36.

    Examples
    --------
    >>> float(adaptive_dsmcal2(10**6, 5)) < float(adaptive_saerr(10**6, 5))
    True
    """
    pseudo = adaptive_psreg(horizon, dim, kappa, ridge, distance2)
    count, spare = _created_and_spare(horizon, kappa, split_floor(dim, ridge))
    cover = float(log_cover_size(dim, 1 / horizon)) + spare
    value = float(population_from_psreg(float(pseudo), horizon, count, cover, delta, "smcal")) + 10.0 / horizon
    return Bound(value, -2 / 3, "ours: batch ℓ2 swap multicalibration on self-refining levels", dim_exponent=2 / 3)


def adaptive_dsmcal1(
    horizon: float,
    dim: int,
    delta: float = 0.05,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = adaptive_distance2("smcal"),
) -> Bound:
    """DSMCal_1 against F_1^lin of the mixture of all T rounds on self-refining levels: Õ(T^{−1/3}), w.p. 1 − δ.

    *Proof.* The masses of the levels add to 1, so by the Cauchy–Schwarz inequality Σ_v m_v|ρ_v| ≤ √(Σ_v m_v ρ_v²),
    the root of `adaptive_dsmcal2`.

    Examples
    --------
    >>> adaptive_dsmcal1(10**6, 5).exponent == -1 / 3
    True
    """
    square = adaptive_dsmcal2(horizon, dim, delta, kappa, ridge, distance2)
    citation = "ours: batch ℓ1 swap multicalibration on self-refining levels"
    return Bound(sqrt(float(square)), -1 / 3, citation, dim_exponent=1 / 3)


def adaptive_dsomni(
    horizon: float,
    dim: int,
    delta: float = 0.05,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = adaptive_distance2("smcal"),
) -> Bound:
    """DSOmni over L^cvx × F_res^aff of the mixture of all T rounds on self-refining levels: Õ(T^{−1/3}), w.p. 1 − δ.

    *Proof.* The supremum over losses and comparators on a level is (|A_v| + ‖g_v‖)/(2 max(v, 1 − v)) under any measure
    on outcomes in {0, 1}, hence at most 2·DSMCal_1 (`somni_from_smcal1`, `adaptive_dsmcal1`).

    Examples
    --------
    >>> float(adaptive_dsomni(10**6, 5)) == 2 * float(adaptive_dsmcal1(10**6, 5))
    True
    """
    first = adaptive_dsmcal1(horizon, dim, delta, kappa, ridge, distance2)
    value = float(somni_from_smcal1(float(first)))
    return Bound(value, -1 / 3, "ours: batch swap omniprediction on self-refining levels", dim_exponent=1 / 3)


def _floor(dim: int, ridge: float, floor: float | None) -> float:
    usual = split_floor(dim, ridge)
    if floor is None:
        return usual
    require_positive("floor", floor)
    return floor


def _splits(horizon: float, kappa: float, floor: float) -> list[int]:
    """Fill depths 4, 5, 6, … with splits until the rounds are spent, as deep as one branch can reach.

    The branches at the ends start four depths further down.
    """
    require_horizon(horizon)
    require_positive("kappa", kappa)
    filled: list[int] = []
    budget = branch = float(horizon)
    while True:
        cost = max(1.0, 4 * kappa * floor * 4.0 ** (START_DEPTH + len(filled)))
        if len(filled) >= END_HALVINGS:
            branch -= cost
        if branch < 0.0:
            return filled
        afforded = min(START_INTERVALS * 2 ** len(filled), int(budget / cost))
        budget -= afforded * cost
        filled.append(afforded)


def _created_and_spare(horizon: float, kappa: float, floor: float) -> tuple[int, float]:
    """Return N for the created levels and the log-ratio of possible to created levels."""
    splits = _splits(horizon, kappa, floor)
    created = FIRST_INTERVALS + 1 + sum(splits)
    return created - 1, log(max(START_INTERVALS * 2 ** len(splits) + 1, created) / created)
