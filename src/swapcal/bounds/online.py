"""The online theorems: every error after T rounds, for the paper's algorithm and for ours.

``delta`` is the failure probability; ``None`` asks for the bound in expectation. The latter takes δ = 1/(T
+ 1) and adds 1, since no error here exceeds T. N is ``default_levels`` unless given.
"""

from __future__ import annotations

from swapcal.bounds.bound import Bound, require_horizon
from swapcal.bounds.concentration import log_cover_size
from swapcal.bounds.levels import rate, resolve_levels
from swapcal.bounds.pseudo import paper_psreg, psreg
from swapcal.bounds.realised import (
    paper_smcal2_linear,
    paper_somni_from_smcal1,
    paper_sreg_from_psreg,
    smcal1_from_smcal2,
    smcal2_from_psreg,
    somni_from_smcal1,
    sreg_from_psreg,
)

__all__ = [
    "l1_lower_bound",
    "paper_smcal1",
    "paper_smcal2",
    "paper_somni",
    "paper_sreg",
    "smcal1",
    "smcal2",
    "somni",
    "sreg",
]


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


def l1_lower_bound(horizon: float) -> Bound:
    """Order of the least ℓ1 multicalibration error any forecaster can promise: T^{2/3} (up to logarithms).

    Only the order is known, so the constant is 1 and ``explicit`` is ``False``.

    Examples
    --------
    >>> l1_lower_bound(1000).explicit
    False
    """
    require_horizon(horizon)
    return Bound(horizon ** (2 / 3), 2 / 3, "lower bound for ℓ1 multicalibration", explicit=False)


def _confidence(delta: float | None, horizon: float) -> tuple[float, float]:
    """Return the failure probability to use and what its failure costs in expectation."""
    require_horizon(horizon)
    return (1 / (horizon + 1), 1.0) if delta is None else (delta, 0.0)
