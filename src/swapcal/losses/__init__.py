"""Decisions: the cost of an action, the best action for a probability, and the regret.

`Loss` and the catalogue describe decision problems; `decide` turns forecasts into actions; `regret`,
`swap_omniprediction` and `omniprediction` certify after the fact how much any loss could have gained by
following the comparators F_res^aff = {(1 + ⟨θ,x⟩)/2 : ‖θ‖ ≤ 1} instead; `convex_basis` and `v_mixture` are
the two decompositions behind the theory.
"""

from swapcal.losses.ball import LossShape, shape_of
from swapcal.losses.basis import ConvexBasis, VMixture, broken_line_basis, convex_basis, v_mixture
from swapcal.losses.catalogue import (
    CostMatrix,
    absolute,
    cost_matrix,
    custom,
    exponential,
    huber,
    log,
    logistic,
    newsvendor,
    pinball,
    squared,
    v_shaped,
    zero_one,
)
from swapcal.losses.loss import Decision, Loss, LossError, decide
from swapcal.losses.omniprediction import (
    OmnipredictionInterval,
    SwapOmniprediction,
    omniprediction,
    steep_loss,
    swap_omniprediction,
    threshold_losses,
)
from swapcal.losses.regret import Comparator, DecisionRow, LevelRegret, Regret, decision_rows, regret

__all__ = [
    "Comparator",
    "ConvexBasis",
    "CostMatrix",
    "Decision",
    "DecisionRow",
    "LevelRegret",
    "Loss",
    "LossError",
    "LossShape",
    "OmnipredictionInterval",
    "Regret",
    "SwapOmniprediction",
    "VMixture",
    "absolute",
    "broken_line_basis",
    "convex_basis",
    "cost_matrix",
    "custom",
    "decide",
    "decision_rows",
    "exponential",
    "huber",
    "log",
    "logistic",
    "newsvendor",
    "omniprediction",
    "pinball",
    "regret",
    "shape_of",
    "squared",
    "steep_loss",
    "swap_omniprediction",
    "threshold_losses",
    "v_mixture",
    "v_shaped",
    "zero_one",
]

Profile, profile = LossShape, shape_of  # the names they had in snapshots
