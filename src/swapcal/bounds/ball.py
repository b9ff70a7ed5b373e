"""Regret against every linear function near the start: the price of the start as the rows saw it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from swapcal.bounds.bound import Bound, require_nonnegative

__all__ = ["ball_regret"]

RIDGES = np.exp2(np.arange(-40, 41) / 2.0)
"""Values of λ tried, 2^-20 to 2^20; each of them gives a bound."""


def ball_regret(values: ArrayLike, pull: ArrayLike, distance2: float) -> Bound:
    """Bound L(θ_0) − L(θ) for every θ with ‖θ − θ_0‖² ≤ B², L(θ) = Σ α (⟨θ, x⟩ − y)².

    With G = Σ α x xᵀ = Σ Λ_i e_i e_iᵀ and u = Σ α (y − ⟨θ_0, x⟩) x,

        L(θ_0) − L(θ) ≤ min over λ > 0 of Σ_i ⟨u, e_i⟩²/(Λ_i + λ) + λB².

    *Proof.* With η = θ − θ_0, L(θ_0) − L(θ) = 2uᵀη − ηᵀGη = [2uᵀη − ηᵀGη − λ‖η‖²] + λ‖η‖², and the bracket is at most
    its maximum over all η, uᵀ(G + λI)⁻¹u. Nothing is asked of λ: it may be chosen in hindsight, for each level by
    itself. At the best λ some θ of the ball attains it (duality of trust regions); the learner's own λ, fixed
    before the first row, prices the start too high wherever few rows tell it from another.

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
