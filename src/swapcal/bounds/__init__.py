"""Each theorem as a function: value, exponent, default N(T), citation.

Names starting with ``paper_`` are statements of "Improved Bounds for Swap Multicalibration and Swap
Omniprediction" (Luo, Senapati, Sharan 2025), numbered in order of appearance, with the constants its
proofs give or allow; other names are ours unless the docstring says they are shared. Every function
returns a `Bound`, which converts to ``float``.

Examples
--------
>>> from swapcal import bounds
>>> ours, paper = bounds.smcal2(10**6, dim=5, delta=0.05), bounds.paper_smcal2(10**6, dim=5, delta=0.05)
>>> float(ours) < float(paper)
True
>>> bounds.RATES["SReg", "paper"], bounds.RATES["SReg", "ours"] == 1 / 3
(0.6, True)
"""

from swapcal.bounds.adaptive import (
    adaptive_distance2,
    adaptive_gap,
    adaptive_levels,
    adaptive_psreg,
    adaptive_smcal2,
    adaptive_sreg,
    split_floor,
)
from swapcal.bounds.ball import (
    ball_regret,
)
from swapcal.bounds.batch import (
    action_deviation,
    dsmcal1,
    dsmcal2,
    dsomni,
    paper_action_deviation,
    paper_comparator_deviation,
    paper_comparator_deviation_linear,
    paper_dsmcal1,
    paper_dsmcal2,
    paper_dsomni,
    paper_saerr,
    paper_squared_deviation,
    paper_squared_deviation_linear,
    population_from_psreg,
    saerr,
)
from swapcal.bounds.bound import (
    Bound,
)
from swapcal.bounds.concentration import (
    convex_basis_size,
    freedman,
    freedman_uniform,
    log_cover_size,
    paper_convex_basis_size,
    variance_scales,
)
from swapcal.bounds.discounted import (
    discounted_mass,
    discounted_psreg,
    discounted_ridge_regret,
)
from swapcal.bounds.learners import (
    FAST_BETA,
    FAST_OMEGA,
    LEARNERS,
    PAPER_BETA,
    PAPER_OMEGA,
    exp_concavity,
    learner_regret,
    lipschitz,
    ons_regret,
    prior_distance2,
    ridge_regret,
    vaw_regret,
)
from swapcal.bounds.levels import (
    TARGETS,
    default_levels,
)
from swapcal.bounds.monitoring import (
    appearance_share,
    detection_delay,
    deviation_radius,
    false_alarm_spacing,
    stake_regret,
    start_share,
    ville,
)
from swapcal.bounds.online import (
    l1_lower_bound,
    paper_smcal1,
    paper_smcal2,
    paper_somni,
    paper_sreg,
    smcal1,
    smcal2,
    somni,
    sreg,
)
from swapcal.bounds.pseudo import (
    blum_mansour,
    certificate,
    paper_psreg,
    psmcal2_from_psreg,
    psreg,
    psreg_grid,
    psreg_realised,
    swap_gain,
)
from swapcal.bounds.rates import (
    RATES,
    SYSTEMS,
    THEOREMS,
    sample_complexity,
)
from swapcal.bounds.realised import (
    paper_smcal2_from_psmcal2,
    paper_smcal2_linear,
    paper_somni_from_smcal1,
    paper_sreg_from_psreg,
    smcal1_from_smcal2,
    smcal2_from_psreg,
    somni_from_smcal1,
    sreg_from_psreg,
)
from swapcal.bounds.rounding import (
    hedge_gap,
    proper_hedge_gap,
    rounding_error,
    sharp_rounding_error,
)

__all__ = [
    "FAST_BETA",
    "FAST_OMEGA",
    "LEARNERS",
    "PAPER_BETA",
    "PAPER_OMEGA",
    "RATES",
    "SYSTEMS",
    "TARGETS",
    "THEOREMS",
    "Bound",
    "action_deviation",
    "adaptive_distance2",
    "adaptive_gap",
    "adaptive_levels",
    "adaptive_psreg",
    "adaptive_smcal2",
    "adaptive_sreg",
    "appearance_share",
    "ball_regret",
    "blum_mansour",
    "certificate",
    "convex_basis_size",
    "default_levels",
    "detection_delay",
    "deviation_radius",
    "discounted_mass",
    "discounted_psreg",
    "discounted_ridge_regret",
    "dsmcal1",
    "dsmcal2",
    "dsomni",
    "exp_concavity",
    "false_alarm_spacing",
    "freedman",
    "freedman_uniform",
    "hedge_gap",
    "l1_lower_bound",
    "learner_regret",
    "lipschitz",
    "log_cover_size",
    "ons_regret",
    "paper_action_deviation",
    "paper_comparator_deviation",
    "paper_comparator_deviation_linear",
    "paper_convex_basis_size",
    "paper_dsmcal1",
    "paper_dsmcal2",
    "paper_dsomni",
    "paper_psreg",
    "paper_saerr",
    "paper_smcal1",
    "paper_smcal2",
    "paper_smcal2_from_psmcal2",
    "paper_smcal2_linear",
    "paper_somni",
    "paper_somni_from_smcal1",
    "paper_squared_deviation",
    "paper_squared_deviation_linear",
    "paper_sreg",
    "paper_sreg_from_psreg",
    "population_from_psreg",
    "prior_distance2",
    "proper_hedge_gap",
    "psmcal2_from_psreg",
    "psreg",
    "psreg_grid",
    "psreg_realised",
    "ridge_regret",
    "rounding_error",
    "saerr",
    "sample_complexity",
    "sharp_rounding_error",
    "smcal1",
    "smcal1_from_smcal2",
    "smcal2",
    "smcal2_from_psreg",
    "somni",
    "somni_from_smcal1",
    "split_floor",
    "sreg",
    "sreg_from_psreg",
    "stake_regret",
    "start_share",
    "swap_gain",
    "variance_scales",
    "vaw_regret",
    "ville",
]
