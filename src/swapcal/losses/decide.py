"""From a probability to the action it calls for."""

from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from swapcal.faces import card, counted
from swapcal.losses.loss import Loss


@dataclass(frozen=True)
class Decision:
    """The action for each row and what it is expected to cost.

    Numbers for a number, arrays for an array or for a forecast of many rows, columns for a column.
    """

    action: Any
    """k_ℓ(p): an action of the loss's interval, or the row number of a cost matrix."""
    expected_cost: Any
    """(1 − p) ℓ(action, 0) + p ℓ(action, 1) at the issued probability."""
    before_draw: Any
    """Expected cost before the level was drawn; equals `expected_cost` unless the forecast is randomised."""
    label: Any = None
    """Names of the actions of a cost matrix; None for an interval of actions."""

    def _repr_html_(self) -> str:
        cost = {"mean expected cost": f"{float(np.mean(np.asarray(self.expected_cost))):.4g}"}
        if np.ndim(self.action):
            return card("Decision", counted(len(self.action), "row"), cost)
        return card("Decision", str(self.action if self.label is None else self.label), cost)


def decide(p: Any, loss: Loss | str) -> Decision:
    """Act on `p` so as to minimise the expected `loss`.

    Swap omniprediction holds for the level that was *issued*: ℓ-regret against F_res^aff on the rounds with
    level v is at most Lipschitz(ℓ) · (|A_v| + ‖g_v‖)/(2 max(v, 1−v)) for every convex ℓ at once
    (`swapcal.losses.swap_omniprediction`). A randomised forecast is therefore acted upon at its level `p`,
    not at its soft `mean`.

    Parameters
    ----------
    p
        A number, an array, a column of a data frame, or a forecast (an object with `p`, `low`, `high`,
        `weight`, which issued level `high` with probability `weight`, else `low`).
    loss
        A `Loss`, or its text, such as ``"pinball:0.9"``.

    Examples
    --------
    >>> decide([0.05, 0.5], "newsvendor:under=3,over=1")
    Decision(action=array([0., 1.]), expected_cost=array([0.15, 0.5 ]), before_draw=array([0.15, 0.5 ]),
    label=None)
    """
    rule = Loss.parse(loss) if isinstance(loss, str) else loss
    if all(hasattr(p, name) for name in ("p", "low", "high", "weight")):
        return _decide_forecast(p, rule)
    column = nw.from_native(p, series_only=True, allow_series=True, pass_through=True)
    if isinstance(column, nw.Series):
        return _decide_column(column, rule)
    return _decide(p, rule)


def _decide(p: Any, loss: Loss) -> Decision:
    action = loss.best_response(p)
    cost = loss(action, p)
    return Decision(action, cost, cost, _labels(action, loss))


def _decide_forecast(forecast: Any, loss: Loss) -> Decision:
    at_level = _decide(forecast.p, loss)
    chance = np.asarray(forecast.weight, dtype=float)
    cost = (1.0 - chance) * loss.risk(forecast.low) + chance * loss.risk(forecast.high)
    return replace(at_level, before_draw=cost if np.ndim(cost) else float(cost))


def _decide_column(column: Any, loss: Loss) -> Decision:
    decision = _decide(column.to_numpy(), loss)
    cost = _like(column, "expected_cost", decision.expected_cost)
    label = None if decision.label is None else _like(column, "label", decision.label)
    return Decision(_like(column, "action", decision.action), cost, cost, label)


def _like(column: Any, name: str, values: Any) -> Any:
    fresh = nw.new_series(name=name, values=values, backend=column.implementation)
    native = fresh.to_native()
    index = getattr(column.to_native(), "index", None)
    return native.set_axis(index) if hasattr(native, "set_axis") else native


def _labels(action: Any, loss: Loss) -> Any:
    if loss.finite_actions is None:
        return None
    names = np.array(loss.finite_actions, dtype=object)[np.asarray(action).astype(np.intp)]
    return names if np.ndim(action) else str(names)
