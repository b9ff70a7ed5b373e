"""A past that fades: regret over about the last W rounds, γ = e^{−1/W} being what a round keeps of the one before."""

from __future__ import annotations

from math import exp, expm1, log1p

from swapcal.bounds.bound import Bound, require_dim, require_nonnegative, require_positive, require_range

__all__ = ["discounted_mass", "discounted_psreg", "discounted_ridge_regret"]


def discounted_mass(window: float, horizon: float | None = None) -> Bound:
    """Σ_{t ≤ T} γ^{T−t}, the rounds that count: at most W + 1.

    Examples
    --------
    >>> float(discounted_mass(1000)) < 1001, round(float(discounted_mass(1000, 10)), 2)
    (True, 9.96)
    """
    require_range("window", window, low=1.0)
    if horizon is not None:
        require_range("horizon", horizon, low=0.0)
    kept = 1.0 if horizon is None else -expm1(-horizon / window)
    return Bound(kept / -expm1(-1.0 / window), 0.0, "ours: rounds within a window")


def discounted_ridge_regret(
    mass: float, dim: int, ridge: float = 1.0, distance2: float = 16.0, *, lag: float = 0.0, norm2: float = 1.0
) -> Bound:
    """Regret of a ridge learner whose past fades while its penalty stays: λB² + d ln(1 + e^lag · n/(λd)).

    The learner minimises L_t(θ) = Σ_{s ≤ t} γ^{t−s} α_s(⟨θ,x_s⟩ − y_s)² + Σ_j f_j(θ_j − θ_0j)²: before each of its
    rounds everything fades, f_j included, and some f_j are filled up to λ again by observations of θ_0j, so that
    λe^{−lag} ≤ f_j ≤ λ at every round it plays. For every θ, every T, n = Σ γ^{T−t} α_t and wishes w clipped to [0, 1]

        Σ γ^{T−t} α_t [(w_t − y_t)² − (⟨θ,x_t⟩ − y_t)²] ≤ λ‖θ − θ_0‖² + d ln(1 + e^lag n/(λd)).

    *Proof.* Fading multiplies min L by γ, filling up does not lower it, and a round adds α(y − ŵ)²/(1 + αq), ŵ
    unclipped and q = xᵀA⁻¹x with A as it is before the round. Hence Σ γ^{T−t} α(y − w)²/(1 + αq) ≤ min L_T ≤
    Σ γ^{T−t} α(⟨θ,x⟩ − y)² + λ‖θ − θ_0‖², and what is missing on the left is at most
    Σ γ^{T−t} αq/(1 + αq) ≤ Σ γ^{T−t} ln(1 + αq). With λ' = λe^{−lag}, Ã = G + λ'I ⪯ A has a larger q, fades as
    γÃ + (1 − γ)λ'I, and ln det is concave: with Λ = ln det(Ã/λ'), ln(1 + αq̃_t) ≤ Λ_t − γΛ_{t−1}. The
    weighted sum telescopes to Λ_T ≤ d ln(1 + n/(λ'd)).

    Parameters
    ----------
    mass
        n, at most `discounted_mass`.
    dim, ridge, distance2
        d, λ and B², the largest ‖θ − θ_0‖².
    lag
        How far a pull may fade before it is filled up, in windows; 0 if it is kept at λ.
    norm2
        The largest ‖x‖².

    Examples
    --------
    >>> from swapcal.bounds import ridge_regret
    >>> float(discounted_ridge_regret(1000, 5)) == float(ridge_regret(1000, 5, distance2=16.0))
    True
    """
    require_nonnegative("mass", mass)
    require_dim(dim)
    require_positive("ridge", ridge)
    for name, value in (("distance2", distance2), ("lag", lag), ("norm2", norm2)):
        require_nonnegative(name, value)
    value = ridge * distance2 + dim * log1p(exp(lag) * norm2 * mass / (ridge * dim))
    return Bound(value, 0.0, "ours: ridge regression with a fading past", dim_exponent=1.0)


def discounted_psreg(
    window: float, dim: int, levels: int, ridge: float = 1.0, distance2: float = 64.0, *, lag: float = 0.0
) -> Bound:
    """PSReg with γ^{T−t} on round t, of hedging fading ridge learners on levels i/N: at every T, however far.

    n/(4N²) + (N + 1)[λB² + d ln(1 + e^lag n/(λd(N + 1)))] with n = `discounted_mass`: D_t ≤ 1/(4N²), and the levels'
    masses add to n. It is Õ(W^{1/3} d^{2/3}) for N = (W/d)^{1/3}. An engine whose levels remember everything and start
    from a short memory has the bound over all rounds instead; of late it has its certificate.

    Examples
    --------
    >>> float(discounted_psreg(10**4, 5, 10)) < float(discounted_psreg(10**6, 5, 46))
    True
    """
    require_range("levels", levels, low=1.0)
    mass, learners = float(discounted_mass(window)), levels + 1
    each = float(discounted_ridge_regret(mass / learners, dim, ridge, distance2, lag=lag))
    value = mass / (4.0 * levels**2) + learners * each
    return Bound(value, None, "ours: hedged levels with a fading past", levels=levels, dim_exponent=2 / 3)
