"""Any Python function as a loss, once it has been checked."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array
from swapcal.losses.error import LossError
from swapcal.losses.loss import Loss, Partial

# Rounding in the three values of a second difference, relative to the largest value on the grid.
ROUNDING = 1e-12
# Values held at once while per-row parameters are checked.
BLOCK = 4_000_000


def custom(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    actions: tuple[float, float] = (0.0, 1.0),
    parameters: Mapping[str, ArrayLike] | None = None,
    points: int = 513,
) -> Loss:
    """Loss given by ``function(a, y, **parameters)``, convex and finite in `a` on the interval `actions`.

    The function is evaluated on `points` equally spaced actions, for both outcomes and every row of per-row
    parameters; a value that is not finite, or a second difference below zero, is refused with the point where
    it happens. `swapcal.losses.shape_of` reports the Lipschitz constant and the range.

    Parameters
    ----------
    function
        Called with arrays of actions if it can take them, else one number at a time.
    name
        How reports call it; the function's own name by default.
    actions
        Ends of the interval of actions.
    parameters
        Passed on by name; arrays have one value per row.
    points
        Size of the grid.

    Examples
    --------
    >>> tilted = custom(lambda a, y: (a - y) ** 2 + 0.5 * abs(a - 0.4), name="sticky")
    >>> tilted.best_response([0.2, 0.5, 0.9]).round(6)
    array([0.4 , 0.4 , 0.65])
    >>> custom(lambda a, y: np.sqrt(abs(a - y)), name="root")
    Traceback (most recent call last):
    swapcal.losses.error.LossError: root: given ... at y = 0, expected a convex function of a
    """
    label = name or str(getattr(function, "__name__", type(function).__name__))
    low, high = _interval(actions, label)
    if points < 3:
        raise LossError.of("points", points, "at least 3, to see whether the loss is convex")
    held = {key: np.asarray(value, dtype=float) for key, value in (parameters or {}).items()}
    plain = {key: float(value) if value.ndim == 0 else value for key, value in held.items()}
    with np.errstate(all="ignore"):
        loss = Loss(label, _vectorised(function, low, high, plain, label), low, high, parameters=plain)
        _check_values(loss, np.linspace(low, high, points))
    return loss


def _interval(actions: tuple[float, float], label: str) -> tuple[float, float]:
    if np.shape(actions) != (2,) or not (np.isfinite(actions).all() and actions[0] < actions[1]):
        raise LossError.of(f"actions of {label}", actions, "a finite interval (low, high), low < high")
    return float(actions[0]), float(actions[1])


def _vectorised(function: Callable[..., Any], low: float, high: float, parameters: Any, label: str) -> Partial:
    rows = max((np.size(value) for value in parameters.values()), default=1)
    probe = np.linspace(low, high, 3)[:, None] * np.ones(rows)
    if _takes_arrays(function, probe, parameters):
        return function
    slow = np.vectorize(function, otypes=[float])
    try:
        slow(probe, 1, **parameters)
    except Exception as error:
        raise LossError.of(label, f"{error!r} at a = {low:g}, y = 1", "a cost") from error
    return slow


def _takes_arrays(function: Callable[..., Any], probe: Array, parameters: Any) -> bool:
    try:
        return all(np.shape(function(probe, y, **parameters)) == probe.shape for y in (0, 1))
    except (TypeError, ValueError):
        return False


def _check_values(loss: Loss, grid: Array) -> None:
    rows = loss.rows or 1
    width = max(1, BLOCK // len(grid))
    for start in range(0, rows, width):
        block = loss.take(slice(start, start + width)) if loss.rows else loss
        for outcome in (0, 1):
            values = np.atleast_2d(np.broadcast_to(block.at(grid[:, None], outcome), (len(grid), block.rows or 1)))
            _check_finite(loss, grid, values, outcome, start)
            _check_convex(loss, grid, values, outcome, start)


def _check_finite(loss: Loss, grid: Array, values: Array, outcome: int, start: int) -> None:
    wrong = ~np.isfinite(values)
    if wrong.any():
        point, row = np.argwhere(wrong)[0]
        given = f"{values[point, row]} at a = {grid[point]:.6g}, y = {outcome}"
        raise LossError.of(loss.name, given, "a finite number", _row(loss, start + int(row)))


def _check_convex(loss: Loss, grid: Array, values: Array, outcome: int, start: int) -> None:
    bend = values[:-2] - 2.0 * values[1:-1] + values[2:]
    floor = -ROUNDING * np.maximum(1.0, np.abs(values).max(axis=0))
    excess = bend - floor
    if (excess < 0.0).any():
        point, row = (int(i) for i in np.unravel_index(np.argmin(excess), excess.shape))
        triple = ", ".join(f"ℓ({grid[i]:.6g}) = {values[i, row]:.6g}" for i in range(point, point + 3))
        raise LossError.of(loss.name, f"{triple} at y = {outcome}", "a convex function of a", _row(loss, start + row))


def _row(loss: Loss, row: int) -> int | None:
    return row + 1 if loss.rows else None
