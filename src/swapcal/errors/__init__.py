"""Every error of swap multicalibration, exactly, from per-level statistics, with what attains it.

For levels v with weights α (an indicator, or a probability of being issued) the statistics are

    n = Σ α    A = Σ α (y − v)    g = Σ α (y − v) x    G = Σ α x xᵀ,

with contexts x in R^d, ‖x‖ ≤ 1, x_1 = ½. They add across shards, and every function here needs nothing else.
An empty level (n = 0, hence A, g, G = 0) contributes 0. Residual sums A and g may be stacked, (…, L) and (…, L, d):
many draws of the outcomes on the same rows give as many errors at once.

The classes are F_1^lin = {x ↦ ⟨θ,x⟩ : θ in Θ_1}, Θ_1 = {|θ_1|/2 + (√3/2)‖θ_2:‖ ≤ 1}; F_4^lin, its double;
F_res^aff = {(1 + ⟨θ,x⟩)/2 : ‖θ‖ ≤ 1}; all affine functions with values in [0, 1], {(1 + ⟨θ,x⟩)/2 : θ in Θ_1}; and any
finite list of functions (groups).
"""

from swapcal.errors.regret import ridge_regret, swap_regret
from swapcal.errors.swap import (
    TAIL_RADIUS,
    AffineRules,
    Interval,
    Omniprediction,
    cal,
    mcal1_affine,
    mcal1_linear,
    mcal2_affine,
    mcal2_linear,
    mcal2_linear_total,
    mcal_groups,
    power_sum,
    smcal_affine,
    smcal_groups,
    smcal_linear,
    somni,
    somni_levels,
    support_affine,
    support_linear,
    witness_affine,
    witness_groups,
    witness_linear,
)

__all__ = [
    "TAIL_RADIUS",
    "AffineRules",
    "Interval",
    "Omniprediction",
    "cal",
    "mcal1_affine",
    "mcal1_linear",
    "mcal2_affine",
    "mcal2_linear",
    "mcal2_linear_total",
    "mcal_groups",
    "power_sum",
    "ridge_regret",
    "smcal_affine",
    "smcal_groups",
    "smcal_linear",
    "somni",
    "somni_levels",
    "support_affine",
    "support_linear",
    "swap_regret",
    "witness_affine",
    "witness_groups",
    "witness_linear",
]
