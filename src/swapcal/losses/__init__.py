"""Decisions: what an action costs, which action a probability calls for, and what could have been saved.

`Loss` and the catalogue describe decision problems; `decide` turns forecasts into actions; `regret`,
`swap_omniprediction` and `omniprediction` certify after the fact how much any loss could have gained by
following the comparators F_res^aff = {(1 + ⟨θ,x⟩)/2 : ‖θ‖ ≤ 1} instead; `convex_basis` and `v_mixture` are
the two decompositions behind the theory.
"""

from swapcal.losses.basis import ConvexBasis, broken_line_basis, convex_basis
from swapcal.losses.catalogue import (
    absolute,
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
from swapcal.losses.custom import custom
from swapcal.losses.decide import Decision, decide
from swapcal.losses.error import LossError
from swapcal.losses.loss import Loss
from swapcal.losses.matrix import CostMatrix, cost_matrix
from swapcal.losses.mixture import VMixture, v_mixture
from swapcal.losses.omniprediction import OmnipredictionInterval, omniprediction, threshold_losses
from swapcal.losses.regret import Comparator, LevelRegret, Regret, regret
from swapcal.losses.shape import LossShape, shape_of
from swapcal.losses.somni import SwapOmniprediction, steep_loss, swap_omniprediction
from swapcal.losses.summary import DecisionRow, decision_rows

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
