"""The named losses with exact best responses, cost matrices, and any Python function as a loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal._display import named
from swapcal.arrays import Array
from swapcal.losses.loss import Loss, LossError, Parameter, Partial, kind

# The named losses, each with its exact best response and derivatives.
#
# Every parameter may be a number or an array with one value per row.


@kind("squared")
def squared() -> Loss:
    """Squared loss (a − y)²; best response p.

    >>> squared().best_response(0.3)
    0.3
    """
    return Loss(
        "squared",
        lambda a, y: (a - y) ** 2,
        response=lambda p: p,
        slope=lambda a, y: 2.0 * (a - y),
        curvature=lambda a, y: np.full_like(a, 2.0),
    )


@kind("log")
def log() -> Loss:
    """−log a if y = 1, −log(1 − a) if y = 0; best response p; infinite at a wrong certainty.

    >>> log()([0.5, 1.0], [1, 0])
    array([0.69314718,        inf])
    """
    return Loss("log", _log_cost, response=lambda p: p, slope=_log_slope, curvature=lambda a, y: _log_slope(a, y) ** 2)


@kind("absolute")
def absolute() -> Loss:
    """Absolute loss |a − y|; best response 1[p ≥ ½]."""
    return _two_sided("absolute", {"under": 1.0, "over": 1.0})


@kind("pinball")
def pinball(level: ArrayLike) -> Loss:
    """Quantile loss: `level`·(y − a) for a below y, (1 − `level`)·(a − y) above.

    Best response 1[p ≥ 1 − level].

    >>> pinball(0.9).best_response([0.05, 0.1, 0.5])
    array([0., 1., 1.])
    """
    tau = _fraction(level, "pinball level")
    return _two_sided(_named("pinball", tau), {"under": tau, "over": 1.0 - tau})


@kind("newsvendor")
def newsvendor(under: ArrayLike = 1.0, over: ArrayLike = 1.0) -> Loss:
    """`under`·(1 − a) if the demand y comes, `over`·a if not; best response 1[p ≥ over/(under + over)].

    >>> newsvendor(under=[1.0, 9.0], over=1.0).best_response([0.3, 0.3])
    array([0., 1.])
    """
    costs = {"under": _cost(under, "under"), "over": _cost(over, "over")}
    return _two_sided(_named("newsvendor", *costs.values()), costs)


@kind("zero_one")
def zero_one(false_positive: ArrayLike = 1.0, false_negative: ArrayLike = 1.0) -> Loss:
    """Cost-sensitive 0-1 loss.

    Acting (a = 1) at y = 0 costs `false_positive`, not acting (a = 0) at y = 1 costs `false_negative`; an
    action strictly in between means acting with that probability. Best response
    1[p ≥ false_positive/(false_positive + false_negative)].

    >>> zero_one(false_positive=1.0, false_negative=4.0).best_response([0.19, 0.2])
    array([0., 1.])
    """
    costs = {
        "over": _cost(false_positive, "false_positive"),
        "under": _cost(false_negative, "false_negative"),
    }
    return _two_sided(_named("zero_one", *costs.values()), costs)


@kind("huber")
def huber(delta: ArrayLike = 0.5) -> Loss:
    """½e² for |e| ≤ `delta`, `delta`(|e| − ½ `delta`) beyond, where e = a − y.

    >>> huber(0.2).best_response([0.2, 0.5, 0.9]).round(4)
    array([0.05  , 0.8   , 0.9778])
    """
    width = _parameter(delta, lambda c: c > 0.0, "huber delta", "a finite number above 0")
    return Loss(
        _named("huber", width),
        _huber_cost,
        response=_huber_response,
        slope=lambda a, y, delta: np.clip(a - y, -delta, delta),
        curvature=lambda a, y, delta: np.where(np.abs(a - y) <= delta, 1.0, 0.0),
        parameters={"delta": width},
    )


@kind("logistic")
def logistic(bound: float = 8.0) -> Loss:
    """log(1 + e^{−a}) if y = 1, log(1 + e^{a}) if y = 0, for scores |a| ≤ `bound`; best response logit p.

    >>> logistic().best_response([0.0, 0.5, 0.9]).round(4)
    array([-8.    ,  0.    ,  2.1972])
    """
    return Loss(
        "logistic",
        lambda a, y: np.logaddexp(0.0, _against(a, y)),
        *_symmetric(bound, "logistic bound"),
        response=lambda p: np.clip(_logit(p), -bound, bound),
        slope=lambda a, y: _sigmoid(a) - y,
        curvature=lambda a, y: _sigmoid(a) * _sigmoid(-a),
    )


@kind("exponential")
def exponential(bound: float = 4.0) -> Loss:
    """e^{−a} if y = 1, e^{a} if y = 0, for scores |a| ≤ `bound`; best response half the logit of p.

    >>> exponential().best_response([0.5, 0.9]).round(4)
    array([0.    , 1.0986])
    """
    return Loss(
        "exponential",
        lambda a, y: np.exp(_against(a, y)),
        *_symmetric(bound, "exponential bound"),
        response=lambda p: np.clip(0.5 * _logit(p), -bound, bound),
        slope=lambda a, y: (1.0 - 2.0 * y) * np.exp(_against(a, y)),
        curvature=lambda a, y: np.exp(_against(a, y)),
    )


@kind("v_shaped")
def v_shaped(v: ArrayLike) -> Loss:
    """(v − y)·a for a in [−1, 1]; best response sign(p − v) with sign(0) = +1.

    Acting on a forecast costs ℓ_v(p, y) = (v − y) sign(p − v), the V-shaped losses of which every
    bounded proper loss is a mixture (`swapcal.losses.v_mixture`).

    >>> v_shaped(0.3).induced([0.2, 0.3], 1)
    array([ 0.7, -0.7])
    """
    vertex = _fraction(v, "v_shaped v")
    return Loss(
        _named("v_shaped", vertex),
        lambda a, y, v: (v - y) * a,
        -1.0,
        1.0,
        response=lambda p, v: np.where(p >= v, 1.0, -1.0),
        slope=lambda a, y, v: (v - y) + 0.0 * a,
        curvature=lambda a, y, v: 0.0 * (a + v),
        parameters={"v": vertex},
    )


def _two_sided(name: str, costs: dict[str, Parameter]) -> Loss:
    return Loss(
        name,
        lambda a, y, under, over: under * (1.0 - a) if y else over * a,
        response=lambda p, under, over: np.where(p * (under + over) >= over, 1.0, 0.0),
        slope=lambda a, y, under, over: (-under if y else over) + 0.0 * a,
        curvature=lambda a, y, under, over: 0.0 * (a + under),
        parameters=costs,
    )


def _named(kind: str, *values: Parameter) -> str:
    shown = ("per row" if np.ndim(value) else f"{value:g}" for value in values)
    return f"{kind}({', '.join(shown)})"


def _log_cost(a: Array, y: int) -> Array:
    with np.errstate(divide="ignore"):
        return -np.log(a) if y else -np.log1p(-a)


def _log_slope(a: Array, y: int) -> Array:
    with np.errstate(divide="ignore"):
        return -1.0 / a if y else 1.0 / (1.0 - a)


def _huber_cost(a: Array, y: int, delta: Parameter) -> Array:
    error = np.abs(a - y)
    return np.where(error <= delta, 0.5 * error**2, delta * (error - 0.5 * delta))


def _huber_response(p: Array, delta: Parameter) -> Array:
    """Root of (1 − p) min(a, δ) = p min(1 − a, δ): linear left of 1 − δ, right of δ, and p between."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near_zero, near_one = delta * p / (1.0 - p), 1.0 - delta * (1.0 - p) / p
    inner = np.where(p < 0.5, np.minimum(near_zero, delta), np.maximum(near_one, 1.0 - delta))
    wide = np.where(p < 1.0 - delta, near_zero, np.where(p > delta, near_one, p))
    return np.where(np.asarray(delta) < 0.5, inner, wide)


def _against(a: Array, y: int) -> Array:
    return -a if y else a


def _logit(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(p) - np.log1p(-p)


def _sigmoid(a: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * a))


def _symmetric(bound: float, what: str) -> tuple[float, float]:
    if not (np.ndim(bound) == 0 and 0.0 < bound < 700.0):
        raise LossError.of(what, bound, "one number in (0, 700), beyond which costs overflow")
    return -float(bound), float(bound)


def _parameter(value: ArrayLike, valid: Any, what: str, expected: str) -> Any:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise LossError.of(what, repr(value), expected) from None
    good = np.isfinite(array) & valid(array)
    if not good.all():
        where = np.argwhere(~good)[0]
        raise LossError.of(what, array[tuple(where)], expected, row=int(where[0]) + 1 if array.ndim else None)
    return float(array) if array.ndim == 0 else array


def _cost(value: ArrayLike, what: str) -> Any:
    return _parameter(value, lambda c: c >= 0.0, f"cost {what}", "a finite number, at least 0")


def _fraction(value: ArrayLike, what: str) -> Any:
    return _parameter(value, lambda c: (c >= 0.0) & (c <= 1.0), what, "a number in [0, 1]")


# Finitely many actions, each with a cost per outcome.


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
        """Titles of the actions, in the order of the matrix."""
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
        Its name in reports.

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


# Any Python function as a loss, once it has been checked.

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
    parameters. Raises LossError, with the point, for a value that is not finite or a second difference below
    zero. `swapcal.losses.shape_of` reports the Lipschitz constant and the range.

    Parameters
    ----------
    function
        Called with arrays of actions if it can take them, else one number at a time.
    name
        Its name in reports; the function's own name by default.
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
    swapcal.losses.loss.LossError: root: given ... at y = 0, expected a convex function of a
    """
    label = name or str(getattr(function, "__name__", type(function).__name__))
    low, high = _interval(actions, label)
    if points < 3:
        raise LossError.of("points", points, "at least 3, to see whether the loss is convex")
    arrays = {key: np.asarray(value, dtype=float) for key, value in (parameters or {}).items()}
    values = {key: float(value) if value.ndim == 0 else value for key, value in arrays.items()}
    with np.errstate(all="ignore"):
        loss = Loss(label, _vectorised(function, low, high, values, label), low, high, parameters=values)
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
