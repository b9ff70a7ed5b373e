"""The price of predicting on a grid: randomised rounding and the two-point hedge."""

from __future__ import annotations

from swapcal.bounds.bound import Bound, require_levels, require_nonnegative

__all__ = ["hedge_gap", "proper_hedge_gap", "rounding_error", "sharp_rounding_error"]


def rounding_error(levels: int) -> Bound:
    """Bound the expected squared-loss increase of RRound on the grid {0, 1/N, …, 1} by 1/N².

    Examples
    --------
    >>> float(rounding_error(2))
    0.25
    """
    require_levels(levels)
    return Bound(1.0 / levels**2, None, "Proposition 3 (randomised rounding)", levels=levels)


def sharp_rounding_error(levels: int) -> Bound:
    """Bound the same increase by 1/(4N²), which is attained half-way between two levels.

    The increase equals (w − z_i)(z_{i+1} − w) for every label, the product of two numbers adding to 1/N.

    Examples
    --------
    >>> float(sharp_rounding_error(2))
    0.0625
    """
    require_levels(levels)
    return Bound(0.25 / levels**2, None, "ours: sharp randomised rounding", levels=levels)


def hedge_gap(width: float) -> Bound:
    """Bound the loss of the two-point hedge against its learners, D_t ≤ h²/4, on an interval of width h.

    With u = w_i − z_i ≥ 0, v = z_{i+1} − w_{i+1} ≥ 0 and weights v/(u+v), u/(u+v), both forecasts have the
    same mean, so D_t = Var(z) − Var(w) = uv(2h/(u+v) − 1) for every label. Since uv ≤ s²/4 with s = u + v,
    D_t ≤ (2hs − s²)/4 = (h² − (h − s)²)/4.

    Examples
    --------
    >>> float(hedge_gap(0.5))
    0.0625
    """
    require_nonnegative("width", width)
    return Bound(width**2 / 4, None, "ours: two-point hedge")


def proper_hedge_gap(width: float, curvature: float) -> Bound:
    """Bound the hedge's loss for any proper loss of Bayes risk G: D_t ≤ h² sup|G''| / 8.

    Write ℓ(p, y) = G(p) + G'(p)(y − p) with G concave, and hedge so that Σ p_j G'(z_j) = Σ p_j G'(w_j) =
    m. The label cancels: D_t = Σ p_j [H(G'(z_j)) − H(G'(w_j))] with H(s) = max_z G(z) − zs convex, which
    by Jensen is at most the two-point Jensen gap of H at m. H' runs over a range h while s runs over Δ ≤
    Ch, C = sup|G''|, and H'' ≥ 1/C; the gap is largest when the spare curvature sits at m, where it is
    hΔ/4 − Δ²/(8C) ≤ Ch²/8.

    Parameters
    ----------
    width
        Distance h of the two levels.
    curvature
        sup |G''| between them: 2 for the squared loss, which gives `hedge_gap` back.

    Examples
    --------
    >>> float(proper_hedge_gap(0.5, 2.0)) == float(hedge_gap(0.5))
    True
    """
    require_nonnegative("width", width)
    require_nonnegative("curvature", curvature)
    return Bound(curvature * width**2 / 8, None, "ours: two-point hedge for proper losses")
