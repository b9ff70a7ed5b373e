"""The online theorems: pathwise bounds on pseudo swap regret, and every error after T rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from swapcal.bounds.bound import (
    Bound,
    hedge_gap,
    rate,
    require_dim,
    require_horizon,
    require_nonnegative,
    require_range,
    resolve_levels,
    rounding_error,
    sharp_rounding_error,
)
from swapcal.bounds.learners import learner_regret, mixture_regret, ons_regret
from swapcal.bounds.realised import (
    log_cover_size,
    paper_smcal2_linear,
    paper_somni_from_smcal1,
    paper_sreg_from_psreg,
    smcal1_from_smcal2,
    smcal2_from_psreg,
    somni_from_smcal1,
    sreg_from_psreg,
)

__all__ = [
    "blum_mansour",
    "certificate",
    "l1_lower_bound",
    "oracle_psreg",
    "paper_psreg",
    "paper_smcal1",
    "paper_smcal2",
    "paper_somni",
    "paper_sreg",
    "psmcal2_from_psreg",
    "psreg",
    "psreg_grid",
    "psreg_realised",
    "smcal1",
    "smcal2",
    "somni",
    "sreg",
    "swap_gain",
]

# Bounds on the pseudo contextual swap regret: deterministic, pathwise, for any sequence.


def blum_mansour(regrets: Iterable[float]) -> Bound:
    """Bound PSReg of the Blum–Mansour reduction by the sum of its learners' external regrets on the grid.

    Examples
    --------
    >>> float(blum_mansour([1.0, 2.5]))
    3.5
    """
    return Bound(_total_regret(regrets), None, "Proposition 2 (Blum–Mansour reduction)")


def swap_gain(correlation: float) -> Bound:
    """Smallest average squared-loss gain some f' in F_4 achieves on a level where f in F_1 correlates.

    If f has correlation α with the residual on the level, v + ηf gains 2ηα − η²μ, μ = mean f² ≤ 1, which for
    η = min(1, α/μ) is at least α². The same holds under a distribution (Lemma 14).

    Examples
    --------
    >>> float(swap_gain(0.5))
    0.25
    """
    if not -1 <= correlation <= 1:
        raise ValueError(f"correlation: given {correlation!r}, expected a number in [-1, 1]")
    return Bound(correlation**2, None, "Lemmas 3 and 14 (correlation implies swap regret)")


def psmcal2_from_psreg(psreg: float) -> Bound:
    """Bound PSMCal_2 against F_1 by PSReg against F_4 (already by PSReg against v + F_1 on each level v).

    The same inequality holds between SMCal_2 and SReg (replace P_t by the draw) and, with levels pooled over
    x and p ~ π, between DSMCal_2 and SAErr (Lemma 15).

    Examples
    --------
    >>> float(psmcal2_from_psreg(7.0))
    7.0
    """
    require_nonnegative("psreg", psreg)
    return Bound(float(psreg), None, "Lemmas 4 and 15 (multicalibration from swap regret)")


def certificate(gap: float, excesses: Iterable[float], prior: float = 0.0) -> Bound:
    """Data-dependent bound on PSReg: Σ D_t + Σ_i R_i + prior, valid for any label delay.

    Parameters
    ----------
    gap
        Σ D_t, fixed when the forecasts are issued; it may be negative.
    excesses
        R_i = Σ α(w_issued − y)² − min_θ [Σ α(⟨θ, x⟩ − y)² + λ‖θ − θ_0‖²] of each level's learner; with
        immediate labels Σ α²(w − y)² q/(1 + αq) is an upper bound that needs no minimisation.
    prior
        Σ_i λ‖θ_i − θ_0‖² of the comparators.

    Examples
    --------
    >>> float(certificate(0.5, [1.0, 2.0], prior=8.0))
    11.5
    """
    require_nonnegative("prior", prior)
    return Bound(gap + sum(excesses) + prior, None, "ours: pathwise certificate")


def oracle_psreg(points: Sequence[float], horizon: float, regrets: Iterable[float], *, members: int = 1) -> Bound:
    """PSReg_F on any fixed levels with any oracle on each: T·max h²/4 + Σ_v [r_v + 2 ln M] (Assumption 2).

    *Proof.* PSReg_F = Σ D_t + Σ_v [Σ α(w − y)² − inf_F Σ α(f(x) − y)²] for the hedge and for Blum–Mansour with RRound;
    D_t ≤ h²/4 in both; and exponential weights over M learners, one of them the oracle, lose at most 2 ln M more than
    the oracle's regret r_v against F, for weights of at most 1 that may depend on the wishes.

    Parameters
    ----------
    points : the levels, increasing from 0 to 1
    horizon : T
    regrets : r_v, one for each level
    members : M, the learners of a level

    Examples
    --------
    >>> float(oracle_psreg([0, 0.5, 1], 160, [1.0, 2.0, 3.0]))
    16.0
    """
    require_horizon(horizon)
    each, widths = list(regrets), _widths(points)
    if len(each) != len(points):
        raise ValueError(f"regrets: given {len(each)}, expected {len(points)}, one for each level")
    value = horizon * float(hedge_gap(max(widths))) + _total_regret(each)
    value += len(points) * float(mixture_regret(members))
    return Bound(value, None, "ours: any oracle on fixed levels", levels=len(points) - 1)


def paper_psreg(horizon: float, dim: int, levels: int | None = None) -> Bound:
    """PSReg against F_4^lin of Algorithms 1–5: O(Nd log T + T/N²), with the constants the proof yields.

        (N+1)[(d/2β) ln(1 + 100T/(ωd(N+1))) + 32βω] + T/N²,   β = 1/640, ω = 1/(4β²)

    By concavity the logarithms of the levels' masses, which add to T, are largest when the masses are equal.

    Examples
    --------
    >>> paper_psreg(10**6, 5).levels
    24
    """
    n = resolve_levels(levels, horizon, dim, "smcal")
    learners = (n + 1) * float(ons_regret(horizon / (n + 1), dim))
    value = learners + horizon * float(rounding_error(n))
    citation = "Propositions 2, 3 and Lemma 5 (pseudo swap regret), constants ours"
    return Bound(value, rate(1 / 3, levels), citation, levels=n)


def psreg(
    horizon: float,
    dim: int,
    levels: int | None = None,
    *,
    learner: str = "ridge",
    ridge: float = 1.0,
    distance2: float = 36.0,
) -> Bound:
    """PSReg on the uniform grid, ours: T/(4N²) + (N+1)·(learner's regret at mass T/(N+1)).

    For ridge this is T/(4N²) + (N+1)[λB² + d ln(1 + T/(λd(N+1)))]. It holds for the two-point hedge and for
    Blum–Mansour with RRound alike, pathwise, even if y_t is chosen after seeing P_t.

    Parameters
    ----------
    horizon, dim, levels
        T, d and N (default: ``default_levels`` for ``"smcal"``).
    learner
        ``"ridge"``, ``"vaw"``, ``"ons"`` or ``"ons-fast"``.
    ridge
        λ.
    distance2
        B², the largest squared distance from prior to comparator: 36 for F_4^lin from θ_0 = 2v e_1, 16 from
        θ_0 = 0, and 4 for v + F_1^lin (enough for multicalibration) from θ_0 = 2v e_1.

    Examples
    --------
    >>> float(psreg(10**6, 5)) < float(paper_psreg(10**6, 5)) / 20
    True
    """
    n = resolve_levels(levels, horizon, dim, "smcal")
    each = learner_regret(learner, horizon / (n + 1), dim, ridge=ridge, distance2=distance2)
    value = (n + 1) * float(each) + horizon * float(sharp_rounding_error(n))
    return Bound(value, rate(1 / 3, levels), f"ours: {learner} on the uniform grid", levels=n)


def psreg_grid(
    points: Sequence[float],
    horizon: float,
    dim: int,
    *,
    learner: str = "ridge",
    ridge: float = 1.0,
    distance2: float = 36.0,
) -> Bound:
    """PSReg on any fixed grid 0 = z_0 < … < z_L = 1: T·max h²/4 plus the learners' regrets.

    Parameters
    ----------
    points
        The levels, increasing from 0 to 1.
    horizon, dim, learner, ridge, distance2
        As in `psreg`.

    Examples
    --------
    >>> round(float(psreg_grid([0, 0.5, 1], 100, 2)), 6) == round(float(psreg(100, 2, 2)), 6)
    True
    """
    require_horizon(horizon)
    widths = _widths(points)
    each = learner_regret(learner, horizon / len(points), dim, ridge=ridge, distance2=distance2)
    value = len(points) * float(each) + horizon * float(hedge_gap(max(widths)))
    return Bound(value, None, f"ours: {learner} on a fixed grid", levels=len(widths))


def psreg_realised(
    gap: float,
    masses: Iterable[float],
    dim: int,
    *,
    learner: str = "ridge",
    ridge: float = 1.0,
    distance2: float = 36.0,
) -> Bound:
    """PSReg on the grid that was actually played: gap + Σ_v (learner's regret at mass n_v).

    Parameters
    ----------
    gap
        Σ_t h_t²/4 over the widths of the intervals that served, or the smaller Σ_t D_t.
    masses
        n_v = Σ_t P_t(v) of every level, created at any time.
    dim, learner, ridge, distance2
        As in `psreg`.

    Examples
    --------
    >>> tight = psreg_realised(100 / 16, [20.0, 50.0, 30.0], 2)
    >>> float(tight) <= float(psreg(100, 2, 2))
    True
    """
    require_dim(dim)
    regrets = (float(learner_regret(learner, mass, dim, ridge=ridge, distance2=distance2)) for mass in masses)
    return Bound(gap + sum(regrets), None, f"ours: {learner} on the realised grid")


def _total_regret(regrets: Iterable[float]) -> float:
    total = float(sum(regrets))
    require_range("sum of regrets", total, low=float("-inf"))
    return total


def _widths(points: Sequence[float]) -> list[float]:
    widths = [float(right) - float(left) for left, right in pairwise(points)]
    if not widths or points[0] != 0 or points[-1] != 1 or min(widths) <= 0:
        raise ValueError(f"points: given {list(points)!r}, expected levels that increase strictly from 0 to 1")
    return widths


# The online theorems: every error after T rounds, for the paper's algorithm and for ours.
#
# ``delta`` is the failure probability; ``None`` gives the bound in expectation. The latter takes δ = 1/(T
# + 1) and adds 1, since no error here exceeds T. N is ``default_levels`` unless given.


def paper_smcal2(horizon: float, dim: int, delta: float | None = 0.05, levels: int | None = None) -> Bound:
    """SMCal_2 against F_1^lin of the paper's algorithm: Õ(T^{1/3} d^{2/3}).

    768(N+1) ln(6(N+1)|C|/δ) + 12·PSReg + 2, |C| ≤ (1 + 2√T)^d.

    Examples
    --------
    >>> bound = paper_smcal2(10**6, 5)
    >>> bound.levels, bound.exponent == 1 / 3
    (24, True)
    """
    n = resolve_levels(levels, horizon, dim, "smcal")
    risk, excess = _confidence(delta, horizon)
    pseudo = float(paper_psreg(horizon, dim, n))
    value = float(paper_smcal2_linear(pseudo, n, horizon, dim, risk)) + excess
    citation = "Theorem 1 (ℓ2 swap multicalibration), constants ours"
    return Bound(value, rate(1 / 3, levels), citation, levels=n)


def paper_smcal1(horizon: float, dim: int, delta: float | None = 0.05, levels: int | None = None) -> Bound:
    """SMCal_1 against F_1^lin of the paper's algorithm: Õ(T^{2/3} d^{1/3}), by Cauchy–Schwarz (and Jensen).

    Examples
    --------
    >>> paper_smcal1(10**6, 5).exponent == 2 / 3
    True
    """
    square = paper_smcal2(horizon, dim, delta, levels)
    value = float(smcal1_from_smcal2(float(square), horizon))
    citation = "Corollary 1 (ℓ1 swap multicalibration), constants ours"
    return Bound(value, rate(2 / 3, levels), citation, levels=square.levels)


def paper_somni(horizon: float, dim: int, delta: float | None = 0.05, levels: int | None = None) -> Bound:
    """SOmni over L^cvx × F_res^aff of the paper's algorithm: 6·SMCal_1 = Õ(T^{2/3} d^{1/3}).

    F_res^aff ⊂ F_1^lin, because (1 + ⟨θ, x⟩)/2 = ⟨e_1 + θ/2, x⟩ has values in [0, 1].

    Examples
    --------
    >>> float(paper_somni(10**6, 5)) == 6 * float(paper_smcal1(10**6, 5))
    True
    """
    first = paper_smcal1(horizon, dim, delta, levels)
    value = float(paper_somni_from_smcal1(float(first)))
    citation = "Theorem 2 (swap omniprediction), constants ours"
    return Bound(value, first.exponent, citation, levels=first.levels)


def paper_sreg(horizon: float, dim: int, delta: float | None = 0.05, levels: int | None = None) -> Bound:
    """SReg against F_4^lin of the paper's algorithm: Õ(T^{3/5} d^{2/5}).

    PSReg + 18√((N+1)TL) + 18(N+1)L + 6, L = ln(2(N+1)|C|/δ), |C| ≤ (1 + 4T)^d.

    Examples
    --------
    >>> paper_sreg(10**6, 5).levels
    7
    """
    n = resolve_levels(levels, horizon, dim, "sreg")
    risk, excess = _confidence(delta, horizon)
    pseudo = float(paper_psreg(horizon, dim, n))
    cover = float(log_cover_size(dim, 1 / horizon, radius=2.0))
    value = float(paper_sreg_from_psreg(pseudo, n, horizon, cover, risk, reach=2.0)) + 6.0 + excess
    citation = "Theorem 3 (contextual swap regret), constants ours"
    return Bound(value, rate(3 / 5, levels), citation, levels=n)


def smcal2(
    horizon: float, dim: int, delta: float | None = 0.05, levels: int | None = None, *, ridge: float = 1.0
) -> Bound:
    """SMCal_2 against F_1^lin of ridge × hedge: 2·PSReg + 74(N+1)L + 10, with B² = 4.

    L = ln(4(N+1)|C|/δ), |C| ≤ (1 + 2T)^d.

    Examples
    --------
    >>> float(smcal2(10**6, 5)) < float(paper_smcal2(10**6, 5)) / 10
    True
    """
    n = resolve_levels(levels, horizon, dim, "smcal")
    risk, excess = _confidence(delta, horizon)
    pseudo = float(psreg(horizon, dim, n, ridge=ridge, distance2=4.0))
    cover = float(log_cover_size(dim, 1 / horizon))
    value = float(smcal2_from_psreg(pseudo, n, cover, risk)) + 10.0 + excess
    return Bound(value, rate(1 / 3, levels), "ours: ℓ2 swap multicalibration", levels=n)


def smcal1(
    horizon: float, dim: int, delta: float | None = 0.05, levels: int | None = None, *, ridge: float = 1.0
) -> Bound:
    """SMCal_1 against F_1^lin of ridge × hedge: √(T·SMCal_2).

    Examples
    --------
    >>> float(smcal1(10**6, 5)) < float(paper_smcal1(10**6, 5)) / 3
    True
    """
    square = smcal2(horizon, dim, delta, levels, ridge=ridge)
    value = float(smcal1_from_smcal2(float(square), horizon))
    return Bound(value, rate(2 / 3, levels), "ours: ℓ1 swap multicalibration", levels=square.levels)


def somni(
    horizon: float, dim: int, delta: float | None = 0.05, levels: int | None = None, *, ridge: float = 1.0
) -> Bound:
    """SOmni over L^cvx × F_res^aff of ridge × hedge: 2·SMCal_1.

    Examples
    --------
    >>> float(somni(10**6, 5)) < float(paper_somni(10**6, 5)) / 9
    True
    """
    first = smcal1(horizon, dim, delta, levels, ridge=ridge)
    value = float(somni_from_smcal1(float(first)))
    return Bound(value, first.exponent, "ours: swap omniprediction", levels=first.levels)


def sreg(
    horizon: float, dim: int, delta: float | None = 0.05, levels: int | None = None, *, ridge: float = 1.0
) -> Bound:
    """SReg against F_4^lin of ridge × hedge: 2·PSReg + 146(N+1)L + 18 = Õ(T^{1/3}) (the paper: T^{3/5}).

    L = ln(4(N+1)|C|/δ), |C| ≤ (1 + 4T)^d, and B² = 36.

    Examples
    --------
    >>> sreg(10**6, 5).exponent == 1 / 3
    True
    """
    n = resolve_levels(levels, horizon, dim, "smcal")
    risk, excess = _confidence(delta, horizon)
    pseudo = float(psreg(horizon, dim, n, ridge=ridge, distance2=36.0))
    cover = float(log_cover_size(dim, 1 / horizon, radius=2.0))
    value = float(sreg_from_psreg(pseudo, n, cover, risk)) + 18.0 + excess
    return Bound(value, rate(1 / 3, levels), "ours: contextual swap regret", levels=n)


GROUPS_OF_THE_LOWER_BOUND = (
    "Collina–Lu–Noarov–Roth 2026 (lower bound for three prediction-dependent groups, or O(log³ T) groups of contexts)"
)


def l1_lower_bound(horizon: float) -> Bound:
    """Order of the ℓ1 multicalibration error that no forecaster can beat on certain groups: T^{2/3}.

    Collina, Lu, Noarov and Roth (arXiv 2601.05245) prove it, in expectation, for three disjoint groups that depend on
    the context and the prediction, and up to logarithms for O(log³ T) groups of contexts. It is no bound for the
    errors of this package: at d = 1, calibration alone, O(T^{2/3−ε}) is possible (Dagan et al.), and for F_1^lin at a
    fixed d the order is open. The constant is not published, so it is 1 here and ``explicit`` is ``False``.

    Examples
    --------
    >>> l1_lower_bound(1000).explicit
    False
    """
    require_horizon(horizon)
    return Bound(horizon ** (2 / 3), 2 / 3, GROUPS_OF_THE_LOWER_BOUND, explicit=False)


def _confidence(delta: float | None, horizon: float) -> tuple[float, float]:
    """Return the failure probability to use and what its failure costs in expectation."""
    require_horizon(horizon)
    return (1 / (horizon + 1), 1.0) if delta is None else (delta, 0.0)
