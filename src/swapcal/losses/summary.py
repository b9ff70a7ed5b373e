"""What acting on forecasts costs under several losses, in the form reports print."""

from collections.abc import Sequence
from math import isfinite
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from swapcal.losses.loss import Loss
from swapcal.losses.regret import Regret, regret


class DecisionRow(TypedDict):
    """One line of a report's decisions section; means over the rows, None where infinite."""

    loss: str
    cost: float | None
    """Mean cost of acting on the forecasts."""
    regret: float | None
    """Mean cost above the best affine rule of each level, F_res^aff; may be negative."""
    certificate: float | None
    """Proven upper bound on that regret: Lipschitz(ℓ)·SOmni, or the solver's own bound if that is lower."""
    alternative: str | None
    """The best alternative, in words."""
    alternative_cost: float | None
    """Its mean cost."""


def decision_rows(
    losses: Sequence[Loss], p: ArrayLike, y: ArrayLike, X: ArrayLike, weight: ArrayLike | None = None
) -> list[DecisionRow]:
    """Cost, swap regret against F_res^aff and certificate of acting on forecasts `p`, loss by loss.

    Examples
    --------
    >>> from swapcal.losses import absolute
    >>> X = np.array([[0.5, 0.8], [0.5, 0.8], [0.5, -0.8], [0.5, -0.8]])
    >>> row = decision_rows([absolute()], [0.5] * 4, [1, 1, 0, 0], X)[0]
    >>> row["cost"], round(row["regret"], 3), row["alternative"]
    (0.5, 0.4, 'an affine rule per level; it gains most at level 0.5')
    """
    return [_row(regret(loss, p, y, X, weight)) for loss in losses]


def _row(found: Regret) -> DecisionRow:
    bounds = [found.swap_upper] + ([found.bound] if found.bound is not None else [])
    gainful = max(found.levels, key=lambda level: level.regret)
    return DecisionRow(
        loss=found.loss.name,
        cost=_mean(found.cost, found),
        regret=_mean(found.swap, found),
        certificate=_mean(min(bounds), found),
        alternative=f"an affine rule per level; it gains most at level {gainful.level:.4g}",
        alternative_cost=_mean(sum(level.best.value for level in found.levels), found),
    )


def _mean(total: float, found: Regret) -> float | None:
    value = float(np.float64(total) / found.weight)
    return value if isfinite(value) else None
