"""Self-refining levels: no horizon, no N, and still a worst-case bound.

An interval of width h adds D_t ≤ h²/4 to its account S on each round it serves and splits at its midpoint
as soon as S > κ(½(R_i + R_{i+1}) + 0.1λ), R being the endpoint learners' accumulated Σ α²(w − y)² q/(1 +
αq); its halves start at S = 0. The account is checked after every round. λ is the ridge of every learner.
"""

from __future__ import annotations

from math import log, log1p

from swapcal.bounds.bound import Bound, require_dim, require_horizon, require_nonnegative, require_positive
from swapcal.bounds.concentration import log_cover_size
from swapcal.bounds.learners import ridge_regret
from swapcal.bounds.realised import smcal2_from_psreg, sreg_from_psreg

__all__ = ["adaptive_gap", "adaptive_levels", "adaptive_psreg", "adaptive_smcal2", "adaptive_sreg"]

SPLIT_FLOOR = 0.1


def adaptive_levels(horizon: float, kappa: float = 0.2, ridge: float = 1.0) -> Bound:
    """Largest number of levels after T rounds: at most 2 + 3.4·(2.5T/(κλ))^{1/3}.

    *Proof.* At depth k, h = 2⁻ᵏ, a split needs S > 0.1κλ, hence more than 0.4κλ·4ᵏ rounds and at least
    one. Every round serves one interval, so s_k splits at depth k satisfy Σ_k s_k max(1, 0.4κλ·4ᵏ) ≤ T,
    and s_k ≤ 2ᵏ. Each split adds one level to {0, 1}. Shallow splits are cheapest, so filling the depths
    in order maximises Σ s_k: this is the value returned. Already s_k ≤ min(2ᵏ, M 4⁻ᵏ), M = 2.5T/(κλ),
    gives Σ s_k ≤ 2M^{1/3} + (4/3)M^{1/3} by cutting at 8ᵏ = M.

    Parameters
    ----------
    horizon
        Number of rounds T.
    kappa, ridge
        κ and λ.

    Examples
    --------
    >>> float(adaptive_levels(1)), float(adaptive_levels(10**6))
    (3.0, 411.0)
    """
    splits = sum(_splits(horizon, kappa, ridge))
    return Bound(2.0 + splits, 1 / 3, "ours: number of self-refined levels", levels=int(splits) + 1)


def adaptive_gap(horizon: float, dim: int, kappa: float = 0.2, ridge: float = 1.0) -> Bound:
    """Bound Σ D_t under self-refining levels.

    *Proof.* An account never exceeds its threshold by more than one round's h²/4. Over the I = 2L − 3
    intervals that ever existed when L levels exist, Σ D_t ≤ Σ [κ(½(R_i + R_{i+1}) + 0.1λ) + h²/4]. The
    widths contribute Σ_k 2ᵏ 4⁻ᵏ/4 ≤ ½. R_v ≤ d ln(1 + n_v/(λd)), and a level bounds at most two intervals
    of each of the K depths in use, so the 2I masses met in the sum add to at most 2KT and Jensen's
    inequality gives

        Σ D_t ≤ κI [d ln(1 + KT/(λdI)) + 0.1λ] + ½,

    increasing in I and K. Also Σ D_t ≤ T/4, since h ≤ 1.

    Examples
    --------
    >>> float(adaptive_gap(4, 2))
    1.0
    """
    require_dim(dim)
    splits = _splits(horizon, kappa, ridge)
    intervals, depths = 2 * sum(splits) + 1, len(splits) + 1
    learners = dim * log1p(depths * horizon / (ridge * dim * intervals))
    value = kappa * intervals * (learners + SPLIT_FLOOR * ridge) + 0.5
    return Bound(min(value, horizon / 4), 1 / 3, "ours: gap of self-refining levels")


def adaptive_psreg(horizon: float, dim: int, kappa: float = 0.2, ridge: float = 1.0, distance2: float = 36.0) -> Bound:
    """Bound PSReg of ridge × hedge on self-refining levels by Õ(T^{1/3} d).

    With λ ∝ d it is Õ(T^{1/3} d^{2/3}), as on the uniform grid. The value is `adaptive_gap` plus L[λB² + d
    ln(1 + T/(λdL))] with L from `adaptive_levels`.

    Parameters
    ----------
    horizon, dim
        T and d.
    kappa, ridge
        κ and λ.
    distance2
        B², the largest ‖θ_v − θ_0v‖² over levels. A level born of a split starts from its neighbours'
        mean, so this is the one data-dependent number; with prior 2v e_1 everywhere it is 36, or 4 for v +
        F_1^lin.

    Examples
    --------
    >>> adaptive_psreg(10**6, 5).exponent == 1 / 3
    True
    """
    require_nonnegative("distance2", distance2)
    count = float(adaptive_levels(horizon, kappa, ridge))
    learners = count * float(ridge_regret(horizon / count, dim, ridge=ridge, distance2=distance2))
    value = float(adaptive_gap(horizon, dim, kappa, ridge)) + learners
    return Bound(value, 1 / 3, "ours: ridge on self-refining levels")


def adaptive_sreg(
    horizon: float,
    dim: int,
    delta: float,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = 36.0,
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
    count, spare = _created_and_spare(horizon, kappa, ridge)
    cover = float(log_cover_size(dim, 1 / horizon, radius=2.0)) + spare
    value = float(sreg_from_psreg(float(pseudo), count, cover, delta)) + 18.0
    return Bound(value, 1 / 3, "ours: swap regret on self-refining levels")


def adaptive_smcal2(
    horizon: float,
    dim: int,
    delta: float,
    kappa: float = 0.2,
    ridge: float = 1.0,
    distance2: float = 4.0,
) -> Bound:
    """Realised ℓ2 swap multicalibration against F_1^lin on self-refining levels, with probability 1 − δ.

    As `adaptive_sreg` for the class v + F_1^lin: 2·PSReg + 74·L·ln(4(2ᴷ + 1)|C|/δ) + 10.

    Examples
    --------
    >>> float(adaptive_smcal2(10**6, 5, 0.05)) < float(adaptive_sreg(10**6, 5, 0.05))
    True
    """
    pseudo = adaptive_psreg(horizon, dim, kappa, ridge, distance2)
    count, spare = _created_and_spare(horizon, kappa, ridge)
    cover = float(log_cover_size(dim, 1 / horizon)) + spare
    value = float(smcal2_from_psreg(float(pseudo), count, cover, delta)) + 10.0
    return Bound(value, 1 / 3, "ours: swap multicalibration on self-refining levels")


def _splits(horizon: float, kappa: float, ridge: float) -> list[int]:
    """Fill depths 0, 1, 2, … with splits until the rounds are spent, as deep as one branch can reach."""
    require_horizon(horizon)
    require_positive("kappa", kappa)
    require_positive("ridge", ridge)
    filled: list[int] = []
    budget = branch = float(horizon)
    while branch >= (cost := max(1.0, 4 * SPLIT_FLOOR * kappa * ridge * 4.0 ** len(filled))):
        branch -= cost
        afforded = min(2 ** len(filled), int(budget / cost))
        budget -= afforded * cost
        filled.append(afforded)
    return filled


def _created_and_spare(horizon: float, kappa: float, ridge: float) -> tuple[int, float]:
    """Return N for the created levels and the log-ratio of possible to created levels."""
    splits = _splits(horizon, kappa, ridge)
    created = sum(splits) + 2
    return created - 1, log(max(2 ** len(splits) + 1, created) / created)
