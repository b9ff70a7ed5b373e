"""The named losses, each with its exact best response and derivatives.

Every parameter may be a number or an array with one value per row.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array
from swapcal.losses.error import LossError
from swapcal.losses.loss import Loss, Parameter
from swapcal.losses.parse import kind


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
