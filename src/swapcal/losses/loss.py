"""A decision problem: the cost of an action given the outcome, the best action for a probability; losses as text."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from swapcal._display import counted, display
from swapcal.arrays import Array, Flags

# `LossError`: an invalid decision problem.


class LossError(ValueError):
    """An invalid loss, action or probability; the message names the point."""

    row: int | None = None
    """The invalid row, counted from 1, or None."""
    _parts: tuple[str, object, str]

    @classmethod
    def of(cls, name: str, given: object, expected: str, row: int | None = None) -> LossError:
        """Return the error "name: given …, expected …", with the row if there is one.

        >>> str(LossError.of("weight", -1.0, "a number at least 0", row=3))
        'weight: given -1.0 in row 3, expected a number at least 0'
        """
        error = cls(f"{name}: given {given}{'' if row is None else f' in row {row}'}, expected {expected}")
        error.row, error._parts = row, (name, given, expected)
        return error

    def after(self, rows: int) -> LossError:
        """Return the same error with `rows` added to its row number."""
        return self if self.row is None else LossError.of(*self._parts, row=self.row + rows)


Builder = TypeVar("Builder", bound=Callable[..., Any])

BUILDERS: dict[str, Callable[..., Any]] = {}
"""Constructor of each kind of loss; the catalogue registers itself here."""


def kind(name: str) -> Callable[[Builder], Builder]:
    """Register a function as the constructor of a kind of loss."""

    def entered(builder: Builder) -> Builder:
        BUILDERS[name] = builder
        return builder

    return entered


@dataclass(frozen=True)
class Specification:
    """A loss by name and arguments; an argument ``"@column"`` is filled in from a table's column."""

    name: str
    kind: str
    arguments: Mapping[str, Any]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that `build` needs."""
        return tuple(value[1:] for value in self.arguments.values() if _is_column(value))

    def build(self, columns: Mapping[str, ArrayLike] | None = None) -> Any:
        """Make the `Loss`, taking the columns' values as per-row parameters."""
        filled = {key: self._fill(key, value, columns or {}) for key, value in self.arguments.items()}
        return replace(BUILDERS[self.kind](**filled), name=self.name)

    def _fill(self, key: str, value: Any, columns: Mapping[str, ArrayLike]) -> Any:
        if not _is_column(value):
            return value
        if value[1:] not in columns:
            known = f"one of {', '.join(columns)}" if columns else "a number, as there are no columns"
            raise LossError.of(f"{key} of {self.name}", f"column {value[1:]!r}", known)
        return np.asarray(columns[value[1:]], dtype=float)


def specify(text: str) -> Specification:
    """Split ``kind:value,key=value,key=@column`` into its parts.

    Examples
    --------
    >>> specify("newsvendor:3,over=@cost").arguments
    {'under': 3.0, 'over': '@cost'}
    """
    kind, _, arguments = text.strip().partition(":")
    names = _arguments_of(kind, text)
    given: dict[str, Any] = {}
    for position, part in enumerate(filter(None, arguments.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            key, value = (names[position] if position < len(names) else "", part)
        _store(given, key.strip(), _number(value.strip(), text), names, text)
    return _complete(Specification(text.strip(), kind, given))


def read_toml(path: str | Path) -> list[Specification]:
    """Losses of a TOML file.

    Each table ``[[loss]]`` has a `kind` of the catalogue, an optional `name`, and that kind's arguments:

        [[loss]]
        kind = "newsvendor"
        under = 3.0
        over = "@storage_cost"      # one value per row, from that column

        [[loss]]
        name = "triage"
        kind = "matrix"
        actions = ["send home", "observe", "admit"]
        costs = [[0, 10], [1, 4], [3, 0]]      # at outcome 0, at outcome 1
    """
    with open(path, "rb") as file:
        try:
            content = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise LossError.of(str(path), error, "TOML") from None
    tables = content.get("loss")
    if not isinstance(tables, list) or not tables:
        raise LossError.of(str(path), ", ".join(content) or "nothing", "[[loss]] tables")
    return [_from_table(table, f"{path}, loss {number}") for number, table in enumerate(tables, start=1)]


def _from_table(table: Any, where: str) -> Specification:
    if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
        raise LossError.of(where, repr(table), f'a table with kind = "…", one of {", ".join(BUILDERS)}')
    kind, name = table["kind"], str(table.get("name", table["kind"]))
    names = _arguments_of(kind, where)
    given: dict[str, Any] = {}
    for key in table.keys() - {"kind", "name"}:
        _store(given, key, table[key], names, where)
    return _complete(Specification(name, kind, given))


def _arguments_of(kind: str, where: str) -> list[str]:
    if kind not in BUILDERS:
        raise LossError.of(where, f"loss {kind!r}", f"one of {', '.join(BUILDERS)}")
    return [name for name in inspect.signature(BUILDERS[kind]).parameters if name != "name"]


def _store(given: dict[str, Any], key: str, value: Any, names: list[str], where: str) -> None:
    if key not in names or key in given:
        again = " again" if key in given else ""
        raise LossError.of(where, f"argument {key!r}{again}", f"{', '.join(names) or 'none'}, each once")
    given[key] = value


def _complete(specification: Specification) -> Specification:
    parameters = inspect.signature(BUILDERS[specification.kind]).parameters
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in specification.arguments:
            raise LossError.of(specification.name, f"{specification.kind} without {name}", f"{name}=…")
    return specification


def _number(text: str, where: str) -> float | str:
    if _is_column(text):
        return text
    try:
        return float(text)
    except ValueError:
        raise LossError.of(where, repr(text), "a number or @column") from None


def _is_column(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("@")


# Minimisation of many convex functions of one bounded variable at once.

GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
# GOLDEN**60 is 3e-13. A smooth function's values no longer distinguish its arguments at 1e-8; a kink's still do.
STEPS = 60


def minimise(objective: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Largest minimiser of each convex function on its interval, elementwise.

    Golden section; on equal values the search moves up, and an end point wins if it is no worse.

    Parameters
    ----------
    objective
        Maps an array of arguments to the array of values, element by element.
    low, high
        Ends of the intervals, of one shape.

    Examples
    --------
    >>> centre = np.array([0.25, 2.0])
    >>> minimise(lambda a: (a - centre) ** 2, np.zeros(2), np.ones(2)).round(6)
    array([0.25, 1.  ])
    """
    bottom, top = low.copy(), high.copy()
    left, right = top - GOLDEN * (top - bottom), bottom + GOLDEN * (top - bottom)
    at_left, at_right = objective(left), objective(right)
    for _ in range(STEPS):
        up = at_left >= at_right
        bottom, top = np.where(up, left, bottom), np.where(up, top, right)
        fresh = np.where(up, bottom + GOLDEN * (top - bottom), top - GOLDEN * (top - bottom))
        value = objective(fresh)
        left, right = np.where(up, right, fresh), np.where(up, fresh, left)
        at_left, at_right = np.where(up, at_right, value), np.where(up, value, at_left)
    return _prefer_ends(objective, (bottom + top) / 2.0, low, high)


def _prefer_ends(objective: Callable[[Array], Array], inner: Array, low: Array, high: Array) -> Array:
    value = objective(inner)
    best = np.where(objective(low) < value, low, inner)
    return np.where(objective(high) <= np.minimum(value, objective(low)), high, best)


# A decision problem: the cost of an action given the outcome.

Parameter = float | Array
Partial = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Loss:
    """The cost ℓ(a, y) of action `a` when the outcome is `y`, and the action that a probability calls for.

    The best response to a probability p solves

        k_ℓ(p) = argmin over a in [low, high] of (1 − p) ℓ(a, 0) + p ℓ(a, 1).

    **Ties go to the largest action** (`swapcal.losses.cost_matrix`: the last row), so absolute loss acts as
    1[p ≥ ½] and a V-shaped loss as sign(p − v) with sign(0) = +1. Whatever the loss, ℓ̃(p, y) = ℓ(k_ℓ(p), y)
    is proper: reporting the true probability minimises its expectation.

    A fractional outcome is read as the mean of 0/1 outcomes, ℓ(a, y) = (1 − y) ℓ(a, 0) + y ℓ(a, 1). Hence
    ``loss(a, p)`` is also the expected cost of `a` when the outcome has probability `p`.

    Parameters
    ----------
    name
        Its name in reports.
    partial
        ``partial(a, outcome, **parameters)`` with outcome 0 or 1, broadcasting over arrays `a`.
    low, high
        The interval of actions.
    response
        ``response(p, **parameters)``, the exact best response; without it, golden section finds the
        response to about 1e-8 of the interval (1e-12 at a kink).
    slope, curvature
        First and second derivative of `partial` in `a`; without them certificates work on a table of values.
    parameters
        Numbers, or arrays with one value per row which broadcast against the actions and probabilities.

    Examples
    --------
    >>> from swapcal.losses import newsvendor
    >>> loss = newsvendor(under=3.0, over=1.0)
    >>> loss.best_response([0.1, 0.25, 0.6])
    array([0., 1., 1.])
    >>> loss(1.0, 0), loss(0.0, 1), loss.risk(0.1)
    (1.0, 3.0, 0.30000000000000004)
    """

    name: str
    partial: Partial
    low: float = 0.0
    high: float = 1.0
    response: Partial | None = None
    slope: Partial | None = None
    curvature: Partial | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def __call__(self, a: ArrayLike, y: ArrayLike) -> Any:
        """Cost of action `a` at outcome (or mean outcome) `y`."""
        actions, outcomes = self._actions(a), _probabilities(y, "outcome y")
        self._check_rows(np.broadcast_shapes(actions.shape, outcomes.shape))
        return _scalar_or_array(mix(outcomes, self.at(actions, 0), self.at(actions, 1)))

    def best_response(self, p: ArrayLike) -> Any:
        """Return the largest action of least expected cost when the outcome has probability `p`."""
        p = _probabilities(p, "probability p")
        self._check_rows(p.shape)
        return _scalar_or_array(self._respond(p))

    def risk(self, p: ArrayLike) -> Any:
        """Bayes risk: the expected cost of the best response when `p` is the truth; concave in `p`."""
        return self(self.best_response(p), p)

    def induced(self, p: ArrayLike, y: ArrayLike) -> Any:
        """Cost ℓ(k_ℓ(p), y) of acting on the forecast `p`: a proper loss of the forecast."""
        return self(self.best_response(p), y)

    def at(self, a: Array, outcome: int) -> Array:
        """ℓ(a, outcome) without checks."""
        return np.asarray(self.partial(a, outcome, **self.parameters), dtype=float)

    def take(self, rows: Any) -> Self:
        """Return the same loss for a subset of rows: per-row parameters are indexed by `rows`."""
        return replace(self, parameters={k: _take(v, rows) for k, v in self.parameters.items()})

    @property
    def rows(self) -> int | None:
        """How many rows the per-row parameters describe; None if every parameter is a number."""
        shape = self._row_shape()
        return shape[-1] if shape else None

    @property
    def finite_actions(self) -> tuple[str, ...] | None:
        """Labels of the actions if there are finitely many; None for an interval."""
        return None

    @staticmethod
    def parse(text: str, columns: Mapping[str, ArrayLike] | None = None) -> Loss:
        """Read ``"pinball:0.9"``, ``"newsvendor:under=3,over=@cost"``; ``@name`` takes a column's values.

        >>> Loss.parse("pinball:0.9").best_response(0.2)
        1.0
        """
        loss: Loss = specify(text).build(columns)
        return loss

    @staticmethod
    def from_toml(path: str | Path, columns: Mapping[str, ArrayLike] | None = None) -> list[Loss]:
        """Read the ``[[loss]]`` tables of a TOML file; see `swapcal.losses.loss.read_toml`."""
        return [specification.build(columns) for specification in read_toml(path)]

    def __repr__(self) -> str:
        settings = [f"{name}={value}" for name, value in self._spelt().items()]
        return f"{type(self).__name__}({', '.join([self.name, *settings])}; actions {self._choices()})"

    def _repr_html_(self) -> str:
        return display("Loss", self.name, {**self._spelt(), "actions": self._choices()})

    def _spelt(self) -> dict[str, str]:
        """Return the parameters as text: numbers, or how many there are."""
        many = {name: f"{np.size(value):,} numbers" for name, value in self.parameters.items() if np.ndim(value)}
        return {name: many.get(name) or f"{float(value):g}" for name, value in self.parameters.items()}

    def _choices(self) -> str:
        return f"from {self.low:g} to {self.high:g}"

    def _respond(self, p: Array) -> Array:
        if self.response is not None:
            return np.asarray(self.response(p, **self.parameters), dtype=float)
        shape = np.broadcast_shapes(p.shape, self._row_shape())
        return minimise(
            lambda a: mix(p, self.at(a, 0), self.at(a, 1)),
            np.full(shape, self.low),
            np.full(shape, self.high),
        )

    def _actions(self, a: ArrayLike) -> Array:
        array = np.asarray(a, dtype=float)
        wrong = ~((array >= self.low) & (array <= self.high))
        if wrong.any():
            raise _offending(f"action of {self.name}", array, wrong, f"a number in [{self.low:g}, {self.high:g}]")
        return array

    def _row_shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(value) for value in self.parameters.values()))

    def _check_rows(self, shape: tuple[int, ...]) -> None:
        try:
            np.broadcast_shapes(shape, self._row_shape())
        except ValueError:
            given = f"per-row parameters of shape {self._row_shape()}"
            raise LossError.of(self.name, given, f"a shape that broadcasts against rows of shape {shape}") from None


def mix(p: Array, zero: Array, one: Array) -> Array:
    """(1 − p)·zero + p·one, where an outcome of probability 0 counts nothing even if its cost is infinite."""
    with np.errstate(invalid="ignore"):
        return np.where(p == 0.0, zero, np.where(p == 1.0, one, (1.0 - p) * zero + p * one))


def _probabilities(p: ArrayLike, what: str) -> Array:
    array = np.asarray(p, dtype=float)
    wrong = ~((array >= 0.0) & (array <= 1.0))
    if wrong.any():
        raise _offending(what, array, wrong, "a number in [0, 1]")
    return array


def _offending(name: str, array: Array, wrong: Flags, expected: str) -> LossError:
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f" at {tuple(i + 1 for i in where)}" if len(where) > 1 else ""
    return LossError.of(name, f"{array[where]}{place}", expected, row=where[0] + 1 if len(where) == 1 else None)


def _scalar_or_array(array: Array) -> Any:
    return float(array) if array.ndim == 0 else array


def _take(value: Parameter, rows: Any) -> Parameter:
    return value if np.ndim(value) == 0 else np.asarray(value)[rows]


# From a probability to the action it calls for.


@dataclass(frozen=True)
class Decision:
    """The action for each row and what it is expected to cost.

    Numbers for a number, arrays for an array or for a forecast of many rows, columns for a column.
    """

    action: Any
    """k_ℓ(p): an action of the loss's interval, or the row number of a cost matrix."""
    expected_cost: Any
    """(1 − p) ℓ(action, 0) + p ℓ(action, 1) at the probability that was acted upon."""
    before_draw: Any
    """Expected cost before the level was drawn; equals `expected_cost` unless the forecast is randomised."""
    label: Any = None
    """Names of the actions of a cost matrix; None for an interval of actions."""

    def _repr_html_(self) -> str:
        cost = {"mean expected cost": f"{float(np.mean(np.asarray(self.expected_cost))):.4g}"}
        if np.ndim(self.action):
            return display("Decision", counted(len(self.action), "row"), cost)
        return display("Decision", str(self.action if self.label is None else self.label), cost)


def decide(p: Any, loss: Loss | str, *, at: str = "mean") -> Decision:
    """Act on a probability so as to minimise the expected `loss`.

    A forecast is acted upon at its `mean`: identical cases then get identical actions. At its issued level `p`, which
    is drawn, identical cases may get neighbouring levels, and so different actions; that is where the guarantee
    against adversaries holds: ℓ-regret against F_res^aff on the rounds with level v is at most
    Lipschitz(ℓ) · (|A_v| + ‖g_v‖)/(2 max(v, 1−v)) for every convex ℓ at once (`swapcal.losses.swap_omniprediction`).

    Parameters
    ----------
    p
        A number, an array, a column of a data frame, or a forecast (an object with `p`, `low`, `high`,
        `weight`, which issued level `high` with probability `weight`, else `low`).
    loss
        A `Loss`, or its text, such as ``"pinball:0.9"``.
    at
        Of a forecast, ``"mean"`` or ``"p"``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> forecast = SimpleNamespace(p=0.5625, low=0.4375, high=0.5625, weight=0.25)  # of mean 0.46875
    >>> decide(forecast, "zero_one").action, decide(forecast, "zero_one", at="p").action
    (0.0, 1.0)
    >>> decide([0.05, 0.5], "newsvendor:under=3,over=1")
    Decision(action=array([0., 1.]), expected_cost=array([0.15, 0.5 ]), before_draw=array([0.15, 0.5 ]),
    label=None)
    """
    rule = Loss.parse(loss) if isinstance(loss, str) else loss
    if at not in ("mean", "p"):
        raise LossError.of("at", f"{at!r}", '"mean" or "p"')
    if all(hasattr(p, name) for name in ("p", "low", "high", "weight")):
        return _decide_forecast(p, rule) if at == "p" else _decide(_mean_of(p), rule)
    column = nw.from_native(p, series_only=True, allow_series=True, pass_through=True)
    if isinstance(column, nw.Series):
        return _decide_column(column, rule)
    return _decide(p, rule)


def _decide(p: Any, loss: Loss) -> Decision:
    action = loss.best_response(p)
    cost = loss(action, p)
    return Decision(action, cost, cost, _labels(action, loss))


def _mean_of(forecast: Any) -> Any:
    low, high, weight = (np.asarray(each, float) for each in (forecast.low, forecast.high, forecast.weight))
    mean = getattr(forecast, "mean", None)
    return _scalar_or_array(low + weight * (high - low)) if mean is None or callable(mean) else mean


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
