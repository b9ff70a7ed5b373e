"""`LossShape`: what kind of function a loss is: convex or not, how steep, between which values."""

from dataclasses import dataclass

import numpy as np

from swapcal.arrays import Array
from swapcal.losses.loss import Loss

# Values held at once while per-row parameters are measured.
BLOCK = 4_000_000


@dataclass(frozen=True)
class LossShape:
    """Shape of a loss in its action, over both outcomes and all rows.

    `lipschitz` is the steepest slope with actions rescaled to [0, 1], the unit in which the comparators of
    L^cvx × F_res^aff act. Shifting ℓ(·, 0) and ℓ(·, 1) by constants changes no regret, so a convex loss has
    swap regret at most `lipschitz` × SOmni whatever its range.
    """

    convex: bool
    lipschitz: float
    minimum: float
    maximum: float
    measured: bool
    """True if slopes come from differences on a grid, False if from the loss's own derivative."""

    @property
    def in_convex_class(self) -> bool:
        """Whether the loss, with actions rescaled to [0, 1], lies in L^cvx."""
        return self.convex and self.lipschitz <= 1.0 + 1e-9 and self.minimum >= -1.0 and self.maximum <= 1.0


def shape_of(loss: Loss, points: int = 513) -> LossShape:
    """Convexity, Lipschitz constant and range of `loss`.

    A convex function is steepest and largest at the ends of its interval, so a loss with a derivative is
    measured exactly; any other on a grid of `points` actions. Finite actions have no slope: the Lipschitz
    constant is then the largest cost difference between two actions at one outcome.

    Examples
    --------
    >>> from swapcal.losses import pinball, squared
    >>> shape_of(squared()).lipschitz, shape_of(pinball(0.9)).lipschitz
    (2.0, 0.9)
    """
    if loss.finite_actions is not None:
        return _finite_shape(loss)
    if loss.rows is None:
        return _interval_shape(loss, points)
    width = max(1, BLOCK // points)
    return _merge([_interval_shape(loss.take(slice(i, i + width)), points) for i in range(0, loss.rows, width)])


def _merge(parts: list[LossShape]) -> LossShape:
    return LossShape(
        convex=all(part.convex for part in parts),
        lipschitz=max(part.lipschitz for part in parts),
        minimum=min(part.minimum for part in parts),
        maximum=max(part.maximum for part in parts),
        measured=parts[0].measured,
    )


def _interval_shape(loss: Loss, points: int) -> LossShape:
    grid = np.linspace(loss.low, loss.high, points)
    shape = (points, loss.rows or 1)
    values = np.stack([np.broadcast_to(loss.at(grid[:, None], y), shape) for y in (0, 1)])
    slopes = _slopes(loss, grid, values)
    return LossShape(
        convex=_is_convex(values),
        lipschitz=float(np.abs(slopes).max() * (loss.high - loss.low)),
        minimum=float(values.min()),
        maximum=float(values.max()),
        measured=loss.slope is None,
    )


def _slopes(loss: Loss, grid: Array, values: Array) -> Array:
    if loss.slope is None:
        return np.asarray(np.diff(values, axis=1) / (grid[1] - grid[0]))
    ends = np.array([[loss.low], [loss.high]])
    return np.concatenate([np.ravel(loss.slope(ends, y, **loss.parameters)) for y in (0, 1)])


def _is_convex(values: Array) -> bool:
    inner = values[:, 1:-1] if not np.isfinite(values).all() else values
    bend = np.diff(inner, n=2, axis=1)
    return bool((bend >= -1e-12 * max(1.0, float(np.abs(inner).max()))).all())


def _finite_shape(loss: Loss) -> LossShape:
    costs = np.asarray(loss.parameters["costs"])
    spread = float((costs.max(axis=-2) - costs.min(axis=-2)).max())
    return LossShape(True, spread, float(costs.min()), float(costs.max()), measured=False)
