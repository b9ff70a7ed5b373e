"""Finitely many actions, each with a cost per outcome."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array
from swapcal.faces import named
from swapcal.losses.error import LossError
from swapcal.losses.loss import Loss
from swapcal.losses.parse import kind


@dataclass(frozen=True, eq=False, repr=False)
class CostMatrix(Loss):
    """A `Loss` whose actions are the row numbers of a cost matrix; made by `cost_matrix`."""

    labels: tuple[str, ...] = ()

    @property
    def costs(self) -> Array:
        """Costs of shape (actions, 2), or (rows, actions, 2) if each row has its own."""
        return np.asarray(self.parameters["costs"])

    @property
    def finite_actions(self) -> tuple[str, ...]:
        """Labels of the actions, in the order of the matrix."""
        return self.labels

    def take(self, rows: Any) -> Self:
        """Return the same loss for a subset of rows."""
        return super().take(rows) if self.costs.ndim == 3 else self

    def _actions(self, a: ArrayLike) -> Array:
        array = super()._actions(a)
        if (array != np.floor(array)).any():
            offending = array[array != np.floor(array)].flat[0]
            raise LossError.of(f"action of {self.name}", offending, f"a whole number from 0 to {int(self.high)}")
        return array

    def _spelt(self) -> dict[str, str]:
        return {"costs": " × ".join(map(str, self.costs.shape))}

    def _choices(self) -> str:
        return named(self.labels)

    def _row_shape(self) -> tuple[int, ...]:
        return self.costs.shape[:-2]


@kind("matrix")
def cost_matrix(costs: ArrayLike, actions: Sequence[str] | None = None, name: str = "matrix") -> CostMatrix:
    """Loss over finitely many actions.

    Best response: the action of least expected cost; ties go to the last row.

    Parameters
    ----------
    costs
        Shape (K, 2): the cost of each action at outcome 0 and at outcome 1; or (rows, K, 2).
    actions
        K labels.
    name
        How reports call it.

    Examples
    --------
    >>> loss = cost_matrix([[0, 10], [1, 4], [3, 0]], actions=["approve", "review", "decline"])
    >>> [loss.finite_actions[int(a)] for a in loss.best_response([0.05, 0.3, 0.6])]
    ['approve', 'review', 'decline']
    """
    table = _checked(costs)
    labels = tuple(actions) if actions is not None else tuple(str(i) for i in range(table.shape[-2]))
    if len(labels) != table.shape[-2]:
        raise LossError.of("actions", f"{len(labels)} labels {labels}", f"{table.shape[-2]}, one per row of costs")
    return CostMatrix(
        name,
        _look_up,
        0.0,
        float(len(labels) - 1),
        response=_cheapest,
        parameters={"costs": table},
        labels=labels,
    )


def _look_up(a: Array, outcome: int, costs: Array) -> Array:
    rows = np.asarray(a).astype(np.intp)
    column = costs[..., outcome]
    if column.ndim == 1:
        return np.asarray(column[rows], dtype=float)
    rows, owners = np.broadcast_arrays(rows, np.arange(len(column)))
    return np.asarray(column[owners, rows], dtype=float)


def _cheapest(p: Array, costs: Array) -> Array:
    chance = p[..., None]
    expected = (1.0 - chance) * costs[..., 0] + chance * costs[..., 1]
    last = expected.shape[-1] - 1
    return np.asarray(last - np.argmin(expected[..., ::-1], axis=-1), dtype=float)


def _checked(costs: ArrayLike) -> Array:
    try:
        table = np.asarray(costs, dtype=float)
    except ValueError:
        raise LossError.of("costs", f"{costs!r}, ragged or not numbers", "numbers of shape (actions, 2)") from None
    if 0 in table.shape[-2:-1] or table.size == 0:
        raise LossError.of("costs", f"no action (shape {table.shape})", "at least one row of two costs")
    if table.ndim not in (2, 3) or table.shape[-1] != 2:
        expected = "(actions, 2) or (rows, actions, 2): the cost of each action at outcome 0 and at outcome 1"
        raise LossError.of("costs", f"shape {table.shape}", expected)
    if not np.isfinite(table).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(table))[0])
        row = where[0] + 1 if table.ndim == 3 else None
        raise LossError.of(f"cost of action {where[-2]} at outcome {where[-1]}", table[where], "a finite number", row)
    return table
