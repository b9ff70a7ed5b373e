"""From distributions to draws: martingales, covers, and realised errors in terms of pseudo errors."""

from __future__ import annotations

from math import ceil, log, log1p, log2, sqrt

from swapcal.bounds.bound import (
    Bound,
    require_dim,
    require_horizon,
    require_levels,
    require_nonnegative,
    require_positive,
    require_probability,
)

__all__ = [
    "convex_basis_size",
    "freedman",
    "freedman_uniform",
    "log_cover_size",
    "paper_convex_basis_size",
    "paper_smcal2_from_psmcal2",
    "paper_smcal2_linear",
    "paper_somni_from_smcal1",
    "paper_sreg_from_psreg",
    "smcal1_from_smcal2",
    "smcal2_from_psreg",
    "somni_from_smcal1",
    "sreg_from_psreg",
    "variance_scales",
]

# Martingales and covers: from a bound on distributions to a bound on draws.


def freedman(variance: float, mu: float, delta: float, scale: float = 1.0) -> Bound:
    """Freedman's inequality: |Σ X| ≤ μV + ln(2/δ)/μ with probability 1 − δ, for a fixed μ ≤ 1/B.

    Parameters
    ----------
    variance
        V, the sum of conditional second moments; it may be random.
    mu
        μ, chosen before the data are seen.
    delta
        Failure probability δ.
    scale
        B, the bound on |X|.

    Examples
    --------
    >>> round(float(freedman(100.0, 0.2, 0.05)), 2)
    38.44
    """
    require_nonnegative("variance", variance)
    require_probability("delta", delta)
    require_positive("scale", scale)
    if not 0 < mu <= (1 + 1e-12) / scale:
        raise ValueError(f"mu: given {mu!r}, expected a number in (0, 1/scale] = (0, {1 / scale:g}]")
    return Bound(mu * variance + log(2 / delta) / mu, None, "Lemma 16 (Freedman's inequality)")


def freedman_uniform(variance: float, horizon: float, delta: float, scale: float = 1.0) -> Bound:
    """Freedman's inequality with μ tuned afterwards: |Σ X| ≤ 3√(VL) + 2BL, whatever V ≤ B²T turns out to be.

    *Proof.* Use μ_k = 2⁻ᵏ/B for k = 0, …, K and L = ln(2(K + 1)/δ), K = ⌈½ log₂ 2T⌉, so that 4ᴷL ≥ T. If V
    ≤ LB², take k = 0: V/B + BL ≤ 2BL. Otherwise 4ᵏ⁻¹LB² < V ≤ 4ᵏLB² for one k, and μ_k V ≤ √(VL), L/μ_k ≤
    2√(VL).

    Examples
    --------
    >>> float(freedman_uniform(0.0, 1000, 0.05)) > 0
    True
    """
    require_nonnegative("variance", variance)
    require_probability("delta", delta)
    require_positive("scale", scale)
    depth = log(2 * variance_scales(horizon) / delta)
    value = 3 * sqrt(variance * depth) + 2 * scale * depth
    return Bound(value, None, "Lemma 8, geometric grid of μ (constants ours)")


def variance_scales(horizon: float) -> int:
    """Count the K + 1 dyadic values of μ that `freedman_uniform` needs for T rounds.

    Examples
    --------
    >>> variance_scales(1), variance_scales(1000)
    (2, 7)
    """
    require_horizon(horizon)
    return ceil(0.5 * log2(2 * horizon)) + 1


def log_cover_size(dim: int, epsilon: float, radius: float = 1.0) -> Bound:
    """Logarithm of the size of an ε-cover, in the sup norm over contexts, by members of the class.

    *Proof.* sup_x |⟨θ, x⟩| is a norm whose unit ball is Θ_1. A maximal ε-separated subset of r·Θ_1 is an
    ε-cover; balls of radius ε/2 around it are disjoint and lie in (r + ε/2)Θ_1, so volumes give at most (1
    + 2r/ε)^d.

    Parameters
    ----------
    dim
        Dimension d.
    epsilon
        Resolution ε.
    radius
        r: 1 for F_1^lin, 2 for F_4^lin, ½ for F_res^aff (half a unit ball, in a smaller norm).

    Examples
    --------
    >>> from math import exp
    >>> round(exp(float(log_cover_size(2, 0.5))))
    25
    """
    require_dim(dim)
    require_positive("epsilon", epsilon)
    require_positive("radius", radius)
    return Bound(dim * log1p(2 * radius / epsilon), None, "Proposition 1 (cover of linear functions)")


def paper_convex_basis_size(epsilon: float) -> Bound:
    """Size of an ε-basis of L^cvx with coefficient norm 2, up to a constant: ln^{4/3}(1/ε) / ε^{2/3}.

    Only the order is published, so the constant is 1 and ``explicit`` is ``False``.

    Examples
    --------
    >>> paper_convex_basis_size(0.01).explicit
    False
    """
    require_positive("epsilon", epsilon)
    depth = max(log(1 / epsilon), 1.0)
    return Bound(depth ** (4 / 3) * epsilon ** (-2 / 3), -2 / 3, "Lemma 9 (rank of convex losses)", False)


def convex_basis_size(epsilon: float) -> Bound:
    """Size of an explicit ε-basis of L^cvx with coefficient norm 4: 1, p and hinges (p − k/K)₊.

    *Proof.* Interpolate ℓ(·, y) linearly at multiples of 1/K. A convex function with slopes in [−1, 1]
    lies at most 1/(2K) below its chord. The interpolant is c_0 + c_1 p + Σ j_k (p − k/K)₊ with |c_0|,
    |c_1| ≤ 1 and slope jumps j_k ≥ 0 adding to at most 2. K = ⌈1/(2ε)⌉ gives K + 1 functions; only their
    logarithm matters.

    Examples
    --------
    >>> float(convex_basis_size(0.05))
    11.0
    """
    require_positive("epsilon", epsilon)
    return Bound(ceil(1 / (2 * epsilon)) + 1.0, -1.0, "ours: hinge basis of convex losses")


# From distributions to draws: realised errors in terms of pseudo errors.


def smcal1_from_smcal2(smcal2: float, horizon: float) -> Bound:
    """Bound the ℓ1 error by √(T·ℓ2 error) (Cauchy–Schwarz); pseudo, realised, swap or not.

    Examples
    --------
    >>> float(smcal1_from_smcal2(4.0, 100))
    20.0
    """
    require_nonnegative("smcal2", smcal2)
    require_horizon(horizon)
    return Bound(sqrt(horizon * smcal2), None, "Section 1.2 (Cauchy–Schwarz)")


def paper_somni_from_smcal1(smcal1: float) -> Bound:
    """Bound SOmni over L^cvx by 6·SMCal_1 of the same class, which must contain the constants.

    Examples
    --------
    >>> float(paper_somni_from_smcal1(2.0))
    12.0
    """
    require_nonnegative("smcal1", smcal1)
    return Bound(6.0 * smcal1, None, "Lemma 6 (omniprediction from multicalibration)")


def somni_from_smcal1(smcal1: float) -> Bound:
    """Bound SOmni over L^cvx × F_res^aff by 2·SMCal_1 of F_res^aff, hence of F_1^lin ⊃ F_res^aff.

    On level v the supremum over losses and comparators is exactly (|A_v| + ‖g_v‖)/(2 max(v, 1 − v)), while
    SMCal_1 of F_res^aff is (|A_v| + ‖g_v‖)/2, and max(v, 1 − v) ≥ ½.

    Examples
    --------
    >>> float(somni_from_smcal1(2.0))
    4.0
    """
    require_nonnegative("smcal1", smcal1)
    return Bound(2.0 * smcal1, None, "ours: exact swap omniprediction")


def paper_smcal2_from_psmcal2(psmcal2: float, levels: int, log_size: float, delta: float) -> Bound:
    """Bound SMCal_2 of a finite class |f| ≤ 1 by 384(N+1) ln(6(N+1)|F|/δ) + 6·PSMCal_2, w.p. 1 − δ.

    The proof tunes μ to Σ P_t(v), so it needs an oblivious adversary and deterministic P_t.

    Parameters
    ----------
    psmcal2
        The pseudo error.
    levels
        N; there are N + 1 levels.
    log_size
        ln |F|.
    delta
        Failure probability.

    Examples
    --------
    >>> round(float(paper_smcal2_from_psmcal2(0.0, 9, 0.0, 0.05)), 1)
    27225.9
    """
    require_nonnegative("psmcal2", psmcal2)
    depth = _union_log(6, levels, log_size, delta)
    value = 384 * (levels + 1) * depth + 6 * psmcal2
    return Bound(value, None, "Lemma 1 (pseudo to realised swap multicalibration)", levels=levels)


def paper_smcal2_linear(
    psmcal2: float, levels: int, horizon: float, dim: int, delta: float, epsilon: float | None = None
) -> Bound:
    """Bound SMCal_2 of F_1^lin by 768(N+1) ln(6(N+1)|C_ε|/δ) + 12·PSMCal_2 + 2ε²T, with probability 1 − δ.

    ε is 1/√T by default; |C_ε| ≤ (1 + 2/ε)^d.

    Examples
    --------
    >>> float(paper_smcal2_linear(0.0, 9, 10**4, 3, 0.05)) > 768 * 10
    True
    """
    require_horizon(horizon)
    resolution = 1 / sqrt(horizon) if epsilon is None else epsilon
    cover = float(log_cover_size(dim, resolution))
    finite = paper_smcal2_from_psmcal2(psmcal2, levels, cover, delta)
    value = 2 * float(finite) + 2 * resolution**2 * horizon
    return Bound(value, None, "Lemma 2 (pseudo to realised, linear functions)", levels=levels)


def paper_sreg_from_psreg(
    psreg: float, levels: int, horizon: float, log_size: float, delta: float, reach: float = 1.0
) -> Bound:
    """Bound SReg of a finite class by PSReg + 2B√((N+1)TL) + 2B(N+1)L, L = ln(2(N+1)|F|/δ), w.p. 1 − δ.

    B = (1 + reach)² bounds |(v − y)² − (f − y)²| when |f| ≤ reach: the paper's 2B = 8 for |f| ≤ 1, and 18
    for the |f| ≤ 2 it is used with. As in Lemma 1 the adversary is oblivious.

    Examples
    --------
    >>> round(float(paper_sreg_from_psreg(0.0, 9, 10**4, 0.0, 0.05)), 1)
    6671.7
    """
    require_nonnegative("psreg", psreg)
    require_horizon(horizon)
    require_positive("reach", reach)
    depth = _union_log(2, levels, log_size, delta)
    count, spread = levels + 1, 2 * (1 + reach) ** 2
    value = psreg + spread * sqrt(count * horizon * depth) + spread * count * depth
    return Bound(value, None, "Lemma 7 (pseudo to realised swap regret)", levels=levels)


def sreg_from_psreg(psreg: float, levels: int, log_size: float, delta: float) -> Bound:
    """Bound SReg of a convex class |f| ≤ 2 by 2·PSReg + 146(N+1)L, L = ln(4(N+1)|C|/δ), w.p. 1 − δ.

    Add 18εT when C is an ε-cover rather than the class itself.

    *Proof.* On level v let f maximise the realised regret r̂(f) over a convex class containing v.
    First-order optimality gives r̂(f) ≥ Q̂ = Σ 1[p_t = v](v − f)². The terms of r̂ − r are at most 9 with
    squares at most 16(v − f)²: Freedman with μ = 1/64 gives r̂ ≤ r + Q/4 + 64L, and with μ = 1/18 on (v −
    f)² ≤ 9, Q ≤ 2Q̂ + 36L. So r̂ ≤ r + r̂/2 + 73L. μ is fixed, hence the adversary may be adaptive and P_t
    random. A representative of f changes r̂ by 6ε and Q̂ by 6ε per draw, which adds 18ε.

    Examples
    --------
    >>> round(float(sreg_from_psreg(10.0, 9, 0.0, 0.05)), 1)
    9779.5
    """
    require_nonnegative("psreg", psreg)
    depth = _union_log(4, levels, log_size, delta)
    value = 2 * psreg + 146 * (levels + 1) * depth
    return Bound(value, None, "ours: pseudo to realised swap regret", levels=levels)


def smcal2_from_psreg(psreg: float, levels: int, log_size: float, delta: float) -> Bound:
    """Bound SMCal_2 of F_1 by 2·PSReg + 74(N+1)L, PSReg taken against v + F_1 on each level v, w.p. 1 − δ.

    Add 10εT when C is an ε-cover of F_1. L = ln(4(N+1)|C|/δ).

    *Proof.* `sreg_from_psreg` for the convex class {v + g : |g| ≤ 1}: the terms are at most 3 with squares at
    most 9g², so μ = 1/36 gives r̂ ≤ r + Q/4 + 36L, and μ = ½ gives Q ≤ 2Q̂ + 4L; together r̂ ≤ r + r̂/2 + 37L.
    SMCal_2 is at most that realised regret, by the argument of Lemma 4.

    Examples
    --------
    >>> float(smcal2_from_psreg(10.0, 9, 0.0, 0.05)) < float(sreg_from_psreg(10.0, 9, 0.0, 0.05))
    True
    """
    require_nonnegative("psreg", psreg)
    depth = _union_log(4, levels, log_size, delta)
    value = 2 * psreg + 74 * (levels + 1) * depth
    return Bound(value, None, "ours: swap multicalibration from pseudo swap regret", levels=levels)


def _union_log(events: int, levels: int, log_size: float, delta: float) -> float:
    """Return ln(events·(N+1)·|F|/δ) without forming |F|, which overflows."""
    require_levels(levels)
    require_nonnegative("log_size", log_size)
    require_probability("delta", delta)
    return log(events * (levels + 1) / delta) + log_size
