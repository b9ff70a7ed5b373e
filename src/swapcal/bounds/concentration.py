"""Martingales and covers: what turns a bound on distributions into a bound on draws."""

from __future__ import annotations

from math import ceil, log, log1p, log2, sqrt

from swapcal.bounds.bound import (
    Bound,
    require_dim,
    require_horizon,
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
    "variance_scales",
]


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
