"""Regret of one level's learner on the weighted squared loss α(⟨θ, x⟩ − y)², ‖x‖ ≤ 1, y and α in [0, 1]."""

from __future__ import annotations

from math import log1p, sqrt

from swapcal.bounds.bound import Bound, require_choice, require_dim, require_nonnegative, require_positive

__all__ = [
    "FAST_BETA",
    "FAST_OMEGA",
    "LEARNERS",
    "PAPER_BETA",
    "PAPER_OMEGA",
    "exp_concavity",
    "learner_regret",
    "lipschitz",
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
        Largest ‖θ_1 − θ‖; the diameter 2r unless told.

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
