"""Regret of one level's learner on the weighted squared loss α(⟨θ, x⟩ − y)², ‖x‖ ≤ 1, y and α in [0, 1]."""

from __future__ import annotations

from math import exp, expm1, log, log1p, sqrt

import numpy as np
from numpy.typing import ArrayLike

from swapcal.bounds.bound import (
    Bound,
    require_choice,
    require_dim,
    require_nonnegative,
    require_positive,
    require_range,
)

__all__ = [
    "FAST_BETA",
    "FAST_OMEGA",
    "LEARNERS",
    "PAPER_BETA",
    "PAPER_OMEGA",
    "ball_regret",
    "discounted_mass",
    "discounted_psreg",
    "discounted_ridge_regret",
    "exp_concavity",
    "kernel_regret",
    "learner_regret",
    "lipschitz",
    "mixture_regret",
    "ons_regret",
    "prior_distance2",
    "ridge_regret",
    "vaw_regret",
]

LEARNERS = ("ridge", "vaw", "ons", "ons-fast")
PAPER_BETA = 1 / 640
PAPER_OMEGA = 1 / (4 * PAPER_BETA**2)
FAST_BETA = 1 / 50
FAST_OMEGA = 1.0


def exp_concavity(radius: float = 4.0) -> Bound:
    """Exp-concavity parameter of the weighted squared loss over the ball of the given radius.

    1/(2(r + 1)²) because |⟨θ, x⟩ − y| ≤ r + 1; the paper's 1/50 at radius 4.

    Examples
    --------
    >>> 1 / float(exp_concavity())
    50.0
    """
    require_positive("radius", radius)
    return Bound(1 / (2 * (radius + 1) ** 2), None, "Proposition 4 (exp-concavity of the scaled loss)")


def lipschitz(radius: float = 4.0) -> Bound:
    """Lipschitz constant 2(r + 1) of the weighted squared loss over the ball; the paper's 10 at radius 4.

    Examples
    --------
    >>> float(lipschitz())
    10.0
    """
    require_positive("radius", radius)
    return Bound(2 * (radius + 1), None, "Proposition 4 (Lipschitz constant of the scaled loss)")


def prior_distance2(level: float, target: str = "sreg") -> float:
    """Largest ‖θ − θ_0‖² from the prior θ_0 = 2v e_1 (the constant v) to the comparators of the target.

    ``"sreg"``: all of F_4^lin, so (4 + 2v)², attained at θ = −4 e_1. ``"smcal"``: the class v + F_1^lin, all
    that swap multicalibration needs, so 4.

    Examples
    --------
    >>> prior_distance2(1.0), prior_distance2(0.3, "smcal")
    (36.0, 4.0)
    """
    require_choice("target", target, ("sreg", "smcal"))
    if not 0 <= level <= 1:
        raise ValueError(f"level: given {level!r}, expected a number in [0, 1]")
    return 4.0 if target == "smcal" else (4.0 + 2.0 * level) ** 2


def ons_regret(
    mass: float,
    dim: int,
    *,
    beta: float = PAPER_BETA,
    omega: float = PAPER_OMEGA,
    radius: float = 4.0,
    distance: float | None = None,
) -> Bound:
    """Regret of Online Newton Step, explicit for every β ≤ 1/(2(r + 1)²) and every ω > 0.

        regret ≤ (d/2β) ln(1 + G² n/(ωd)) + (βω/2) D²,   G = 2(r + 1),  n = Σα

    *Proof.* The projected step gives ∇ᵀ(θ_t − θ) ≤ ∇ᵀA_t⁻¹∇/(2β) + (β/2)(‖θ_t − θ‖² − ‖θ_{t+1} − θ‖²) in
    the norm of A_t; summing leaves (β/2) Σ (∇ᵀ(θ_t − θ))² + (βω/2)‖θ_1 − θ‖². With s = ⟨θ_t, x⟩, s' = ⟨θ,
    x⟩ the loss difference is *exactly* ∇ᵀ(θ_t − θ) − α(s − s')², and (∇ᵀ(θ_t − θ))² = 4α²(s − y)²(s −
    s')², so the squares cancel as soon as 2βα(s − y)² ≤ 1. Finally Σ ∇ᵀA_t⁻¹∇ ≤ ln det A_T/det A_0 and
    ‖∇‖² ≤ G²α. Hazan's general argument needs β ≤ ½ min(1/(4GD), 1/50) = 1/640; the identity allows 1/50.

    Parameters
    ----------
    mass
        Total weight Σα the learner received, at most the horizon.
    dim
        Dimension d.
    beta, omega
        Step and initial metric; the paper's 1/640 and 1/(4β²), or ``FAST_BETA``, ``FAST_OMEGA``.
    radius
        Radius r of the ball projected on; 4 covers F_4^lin.
    distance
        Largest ‖θ_1 − θ‖; the diameter 2r by default.

    Examples
    --------
    >>> slow, fast = ons_regret(1e6, 5), ons_regret(1e6, 5, beta=FAST_BETA, omega=FAST_OMEGA)
    >>> float(fast) < float(slow) / 5
    True
    """
    require_nonnegative("mass", mass)
    require_dim(dim)
    require_positive("omega", omega)
    limit = float(exp_concavity(radius))
    if not 0 < beta <= limit * (1 + 1e-12):
        raise ValueError(f"beta: given {beta!r}, expected a number in (0, {limit:g}] for radius {radius:g}")
    reach = 2 * radius if distance is None else distance
    require_nonnegative("distance", reach)
    steps = dim / (2 * beta) * log1p(float(lipschitz(radius)) ** 2 * mass / (omega * dim))
    return Bound(steps + beta * omega / 2 * reach**2, 0.0, "Lemma 5 (Online Newton Step), constants ours")


def ridge_regret(mass: float, dim: int, *, ridge: float = 1.0, distance2: float = 36.0) -> Bound:
    """Regret of the clipped ridge learner: d ln(1 + Σα/(λd)) + λ‖θ − θ_0‖².

    *Proof.* Σ α(y − ŵ)²/(1 + αq), q = xᵀA⁻¹x before the update, is the minimum of the regularised loss;
    clipping ŵ to [0, 1] lowers (y − ŵ)², so the regret is at most λ‖θ − θ_0‖² + Σ α²(w − y)² q/(1 + αq),
    and αq/(1 + αq) = 1 − det A_{t−1}/det A_t ≤ ln(det A_t/det A_{t−1}). Weights may depend on w and labels
    on both.

    Examples
    --------
    >>> round(float(ridge_regret(1e6, 5, distance2=4.0)), 2)
    65.03
    """
    return Bound(_potential(mass, dim, ridge) + _prior(ridge, distance2), 0.0, "ours: clipped ridge regret")


def vaw_regret(mass: float, dim: int, *, ridge: float = 1.0, distance2: float = 36.0) -> Bound:
    """Regret of the self-consistent Vovk–Azoury–Warmuth learner: the ridge bound with ¼ on the logarithm.

    *Proof.* With Y = y − ½, R = r − ½ (r the ridge prediction), k = αq and w = ½ + R/(1 + k),
    (Y − R/(1+k))² − (Y − R)²/(1+k) = Y²k/(1+k) − R²k/(1+k)² ≤ k/(4(1+k)); the rest is the ridge proof.
    The weight α must be known when w is issued, which the self-consistent hedge arranges.

    Examples
    --------
    >>> round(float(vaw_regret(1e6, 5, distance2=4.0)), 2)
    19.26
    """
    return Bound(_potential(mass, dim, ridge) / 4 + _prior(ridge, distance2), 0.0, "ours: self-consistent VAW regret")


def learner_regret(learner: str, mass: float, dim: int, *, ridge: float = 1.0, distance2: float = 36.0) -> Bound:
    """Regret bound of a learner by name: ``"ridge"``, ``"vaw"``, ``"ons"`` (paper) or ``"ons-fast"``.

    `ridge` is λ of the first two and ignored by Online Newton Step, whose metric starts at ω.

    Examples
    --------
    >>> learner_regret("vaw", 100, 3).citation
    'ours: self-consistent VAW regret'
    """
    require_choice("learner", learner, LEARNERS)
    if learner == "ridge":
        return ridge_regret(mass, dim, ridge=ridge, distance2=distance2)
    if learner == "vaw":
        return vaw_regret(mass, dim, ridge=ridge, distance2=distance2)
    require_nonnegative("distance2", distance2)
    if learner == "ons":
        return ons_regret(mass, dim, distance=sqrt(distance2))
    return ons_regret(mass, dim, beta=FAST_BETA, omega=FAST_OMEGA, distance=sqrt(distance2))


def _potential(mass: float, dim: int, ridge: float) -> float:
    require_nonnegative("mass", mass)
    require_dim(dim)
    require_positive("ridge", ridge)
    return dim * log1p(mass / (ridge * dim))


def _prior(ridge: float, distance2: float) -> float:
    require_nonnegative("distance2", distance2)
    return ridge * distance2


# Learners beyond linear functions of the context: mixtures, finite classes, kernels.


def mixture_regret(members: int) -> Bound:
    """Regret of exponential weights over M forecasts in [0, 1] against each of them: 2 ln M, for weights α ≤ 1.

    *Proof.* exp(−½α(w − y)²) is concave in w where α(w − y)² ≤ 1, so with weights ∝ exp(−½ Σ α(w_m − y)²) the mean
    forecast loses at most the mixture's −2 ln Σ_m π_m exp(−½α(w_m − y)²). These add up to −2 ln of the last total
    weight, which is at least each member's exp(−½ Σ α(w_m − y)²)/M. The weight α may depend on the forecasts. A finite
    class of M functions with values in [0, 1] is the case in which the forecasts are the functions' values.

    Examples
    --------
    >>> float(mixture_regret(1)), round(float(mixture_regret(648)), 3)
    (0.0, 12.948)
    """
    require_range("members", members, low=1)
    return Bound(2.0 * log(members), 0.0, "ours: exponential weights on the weighted squared loss")


def kernel_regret(norm2: float, log_det: float, ridge: float = 1.0) -> Bound:
    """Regret of clipped kernel ridge regression against f: λ‖f‖² + ln det(I + K/λ).

    ‖f‖ is the norm of f less the start in the kernel's Hilbert space and K = (√α_s k(x_s, x_t) √α_t) the weighted Gram
    matrix of the rows learned. *Proof.* That of `ridge_regret` on the features of the kernel, where
    Σ ln(1 + αq) = ln det(A/λ) = ln det(I + K/λ), both being the product of the same eigenvalues.

    Examples
    --------
    One row with k(x, x) = 1 and weight 1:

    >>> round(float(kernel_regret(4.0, np.log(2.0))), 4)
    4.6931
    """
    require_nonnegative("norm2", norm2)
    require_nonnegative("log_det", log_det)
    require_positive("ridge", ridge)
    return Bound(ridge * norm2 + log_det, None, "ours: clipped kernel ridge regret")


# Regret against every linear function near the start: the price of the start as the rows saw it.

RIDGES = np.exp2(np.arange(-40, 41) / 2.0)
"""Values of λ tried, 2^-20 to 2^20; each of them gives a bound."""


def ball_regret(values: ArrayLike, pull: ArrayLike, distance2: float) -> Bound:
    """Bound L(θ_0) − L(θ) for every θ with ‖θ − θ_0‖² ≤ B², L(θ) = Σ α (⟨θ, x⟩ − y)².

    With G = Σ α x xᵀ = Σ Λ_i e_i e_iᵀ and u = Σ α (y − ⟨θ_0, x⟩) x,

        L(θ_0) − L(θ) ≤ min over λ > 0 of Σ_i ⟨u, e_i⟩²/(Λ_i + λ) + λB².

    *Proof.* With η = θ − θ_0, L(θ_0) − L(θ) = 2uᵀη − ηᵀGη = [2uᵀη − ηᵀGη − λ‖η‖²] + λ‖η‖², and the bracket is at most
    its maximum over all η, uᵀ(G + λI)⁻¹u. λ is arbitrary: it may be chosen in hindsight, for each level by
    itself. At the best λ some θ of the ball attains it (duality of trust regions); the learner's own λ, fixed
    before the first row, prices the start too high wherever few rows separate it from another.

    For forecasts w, Σ α (w − y)² − L(θ) = [Σ α (w − y)² − L(θ_0)] + [L(θ_0) − L(θ)]: the first is known.

    Parameters
    ----------
    values : (d,) eigenvalues Λ of G, at least 0
    pull : (d,) coordinates ⟨u, e_i⟩ in its eigenbasis
    distance2 : B²

    Examples
    --------
    Ten rows with x = 1 whose residuals from θ_0 sum to 5: moving by ½ saves 2.5, by no more than 0.1 saves 0.9.

    >>> round(float(ball_regret([10.0], [5.0], 0.25)), 2), round(float(ball_regret([10.0], [5.0], 0.01)), 2)
    (2.5, 0.9)
    """
    require_nonnegative("distance2", distance2)
    seen = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    squares = np.asarray(pull, dtype=np.float64) ** 2
    prices = (squares / (seen + RIDGES[:, None])).sum(axis=1) + RIDGES * distance2
    return Bound(float(prices.min()), None, "ours: duality of trust regions")


# A past that fades: regret over about the last W rounds, γ = e^{−1/W} being what a round keeps of the one before.


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
    factor = 1.0 if horizon is None else -expm1(-horizon / window)
    return Bound(factor / -expm1(-1.0 / window), 0.0, "ours: rounds within a window")


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
    from a short memory has the bound over all rounds instead; for recent rows it has its certificate.

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
