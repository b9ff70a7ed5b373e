"""`Oracle`: what a level's learner must offer; `OracleMixture`: the oracles of one level, weighted by loss."""

import copy
import json
from collections.abc import Callable, Sequence
from math import exp, inf, isfinite, isnan
from operator import mul
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from swapcal.archive import (
    OBJECT,
    ArchiveError,
    Field,
    Settings,
    Shapes,
    State,
    counts,
    floats,
    listed,
    octets,
    one_of,
    part,
    parted,
    whole,
)
from swapcal.arrays import AnyArray, Array

NEWBORN = ("copy", "fresh")
CONCAVITY = 0.5
"""exp(-½(w - y)²) is concave in w while |w - y| ≤ 1: exponential weights at this rate cost 2 ln M a level."""


@runtime_checkable
class Oracle(Protocol):
    """An online regression algorithm for one level: a wish before the label, a weighted squared loss after it.

    Two methods are needed; the others are optional, and each makes something more possible:

    ``regret(mass) -> float | None``
        r(n, F), known before any data: bounds Σ α(w - y)² - inf_F Σ α(f(x) - y)² for any labels on time and any
        weights α ≤ 1 of sum n, if the wishes w are clipped to [0, 1]. Makes `theorem` known. None claims nothing.
    ``bound() -> float | None``
        The same for the rows learned so far, known only now and smaller than r(n, F). Makes `bound` smaller.
    ``best(X, y, weight) -> (lower, upper) | None``
        Two numbers with inf_F Σ weight (f(x) - y)² between them, for rows X as `update` got them: an array if all
        are arrays of one length, else a list. Makes `psreg` known.
    ``saved(level, X, y, weight) -> (lower, upper) | None``
        In place of `best`: around Σ weight (level - y)² - inf_F Σ weight (f(x) - y)², without the rounding errors of a
        difference of two large losses.
    ``newborn``
        "copy" or "fresh": whether the oracle of a new level starts as a deep copy of a neighbour or from `make`.
        Makes ``levels="adaptive"`` possible.
    ``to_state() -> (arrays, manifest)`` and ``restore(state)``
        Arrays by name and JSON; `restore` is called on what `make` returned. Make `save` and `load` possible.

    Examples
    --------
    >>> class Mean:
    ...     def __init__(self, level):
    ...         self.n, self.total = 1.0, level
    ...     def predict(self, x):
    ...         return self.total / self.n
    ...     def update(self, x, y, weight):
    ...         self.n, self.total = self.n + weight, self.total + weight * y
    >>> isinstance(Mean(0.5), Oracle)
    True
    """

    def predict(self, x: Any) -> float:
        """Return the wish for x, and change nothing; the caller clips it to [0, 1]."""

    def update(self, x: Any, y: float, weight: float) -> None:
        """Learn the loss weight·(f(x) - y)²; labels come at any time, in any order."""


Make = Callable[[float], Oracle]


def oracle_input(x: Any) -> Any:
    """Return x as an oracle gets it: a copy of a dict or list, which it may change; arrays are read-only already."""
    return x.copy() if type(x) is dict or type(x) is list else x


def make_oracle(make: Make, level: float) -> Oracle:
    """Return the oracle of a level. Raises TypeError if it has no `predict` and `update`."""
    oracle: Any = make(level)
    if not isinstance(oracle, Oracle) or isinstance(oracle, type):
        raise TypeError(
            f"make: given {type(oracle).__name__} at level {level:g}, expected an object with predict and update"
        )
    return oracle


def regret_of(oracle: Oracle, mass: float) -> float | None:
    """Return an oracle's regret bound; None if it has none."""
    promise = getattr(oracle, "regret", None)
    return _promised("regret", None if promise is None else promise(mass))


def bound_of(oracle: Oracle, mass: float) -> float | None:
    """Return the smaller of an oracle's bounds on its loss over the rows it learned; None if it has none."""
    known = getattr(oracle, "bound", None)
    values = regret_of(oracle, mass), _promised("bound", None if known is None else known())
    return min((value for value in values if value is not None), default=None)


def _promised(name: str, given: Any) -> float | None:
    """Return a finite number, or None for None and infinity. Raises ValueError for NaN."""
    value = inf if given is None else float(given)
    if isnan(value):
        raise ValueError(f"{name}: given nan, expected a number, or None to claim nothing")
    return None if value == inf else value


def saved_of(oracle: Oracle, level: float, X: Any, y: Array, weight: Array) -> tuple[float, float] | None:
    """Return (lower, upper) around what the best function of an oracle's class saves over the level, or None."""
    saved, best = getattr(oracle, "saved", None), getattr(oracle, "best", None)
    if saved is not None:
        return _bracket("saved", saved(level, X, y, weight.copy()))
    interval = None if best is None else _bracket("best", best(X, y, weight.copy()))
    if interval is None:
        return None
    lost = float(weight @ (level - y) ** 2)
    return lost - interval[1], lost - interval[0]


def _bracket(name: str, interval: Any) -> tuple[float, float] | None:
    if interval is None:
        return None
    lower, upper = map(float, interval)
    if not (isfinite(lower) and isfinite(upper) and lower <= upper):
        raise ValueError(f"{name}: given ({lower}, {upper}), expected finite numbers, the lower one first")
    return lower, upper


class LearnedRow(NamedTuple):
    """One label learned: what was given, and (slot, α, w, members' wishes) of each level in play."""

    x: Any
    y: float
    weight: float
    played: list[list[float]]


class OracleMixture:
    """The oracles of one level and, at the end, the wish of the ridge learner if there is one beside them.

    The wish is the members' mean under weights ∝ exp(-½ Σ α(w_m - y)²), the losses being those of wishes as issued.

    Parameters
    ----------
    level : z
    oracles : at least one, the user's first
    members : M, one more than oracles with ridge beside
    """

    __slots__ = ("level", "loss", "losses", "oracles", "shares")

    def __init__(self, level: float, oracles: Sequence[Oracle], members: int) -> None:
        self.level = level
        self.oracles = list(oracles)
        self.loss = 0.0
        """Σ α(w - y)² of the wishes as issued."""
        self.losses = [0.0] * members
        """Σ α(w_m - y)² of each member's wishes as issued."""
        self.shares = [1.0 / members] * members

    def wish(self, x: Any, linear: float | None) -> list[float]:
        """Return the wish followed by those of the members, all in [0, 1]; `linear` is that of ridge, or None."""
        wishes = [self._clipped(oracle.predict(oracle_input(x))) for oracle in self.oracles]
        if linear is not None:
            wishes.append(linear)
        if len(wishes) == 1:
            return [wishes[0], wishes[0]]
        mean = sum(map(mul, self.shares, wishes))
        return [min(mean, 1.0), *wishes]

    def _clipped(self, wish: Any) -> float:
        value = float(wish)
        if not isfinite(value):
            raise ValueError(f"oracle: given the wish {value} at level {self.level:g}, expected a finite number")
        return 0.0 if value < 0.0 else 1.0 if value > 1.0 else value

    def charge(self, w: float, wishes: Sequence[float], y: float, alpha: float) -> None:
        """Enter the losses of a wish and of its members' wishes, and weigh the members anew."""
        losses = [lost + alpha * (wish - y) ** 2 for lost, wish in zip(self.losses, wishes, strict=True)]
        self.charged(self.loss + alpha * (w - y) ** 2, losses)

    def charged(self, loss: float, losses: list[float]) -> None:
        """Set the losses so far, and the members' weights that follow from them."""
        self.loss, self.losses = loss, losses
        if len(losses) > 1:
            least = min(losses)
            weights = [exp(CONCAVITY * (least - lost)) for lost in losses]
            total = sum(weights)
            self.shares = [weight / total for weight in weights]

    def newborn(self, level: float, makes: Sequence[Make]) -> "OracleMixture":
        """Return the mixture of a new level; each oracle starts by `newborn` of this level's one."""
        oracles = [
            copy.deepcopy(own) if newborn_of(own) == "copy" else make_oracle(make, level)
            for own, make in zip(self.oracles, makes, strict=True)
        ]
        return OracleMixture(level, oracles, len(self.losses))


def newborn_of(oracle: Oracle) -> str:
    """Return how the oracle of a new level starts. Raises TypeError if `newborn` is neither "copy" nor "fresh"."""
    how = getattr(oracle, "newborn", None)
    if how not in NEWBORN:
        raise TypeError(
            f'levels: given "adaptive" with {type(oracle).__name__}, whose `newborn` is {how!r}, expected an oracle '
            'with newborn = "copy" or "fresh", or fixed levels'
        )
    return str(how)


def learners(make: Any, beside: Any) -> tuple[list[Make], bool]:
    """Return the functions that make oracles, the user's first, and whether ridge joins them."""
    if isinstance(beside, str):
        raise TypeError(f"beside: given {beside!r}, expected a sequence such as ({beside!r},)")
    further = [each for each in beside if each != "ridge"]
    for name, each, or_else in [("make", make, ""), *(("beside", other, ', or "ridge"') for other in further)]:
        if not callable(each):
            raise TypeError(f"{name}: given {each!r}, expected a function of the level{or_else}")
    if len(further) < len(beside) - 1:
        raise ValueError(f"beside: given {beside!r}, expected ridge at most once")
    return [make, *further], len(further) < len(beside)


def check_distinct(mixtures: Sequence[OracleMixture], adaptive: bool) -> None:
    """Raise ValueError if levels share an oracle, and TypeError if levels refine and an oracle has no `newborn`."""
    oracles = [oracle for mixture in mixtures for oracle in mixture.oracles]
    if len({id(oracle) for oracle in oracles}) < len(oracles):
        raise ValueError("make: given the same object for several levels, expected an oracle of its own for each level")
    if adaptive:
        for oracle in mixtures[0].oracles:
            newborn_of(oracle)


# Mixtures and the rows they learned, in files.

ROWS = ("none", "array", "json")
"""How rows are written: not at all, as one array, or as JSON."""
RULES = {
    "members": whole(1, 1 << 16),
    "oracles": listed(listed(parted({"types": OBJECT, "manifest": OBJECT}))),
    "rows": one_of(*ROWS),
}


def fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a state from `to_state`; what an oracle's arrays hold is checked by its `restore`."""
    members = settings["members"]
    arrays = {"losses": floats("mixtures", 1 + members)}
    for slot, states in enumerate(settings["oracles"]):
        for number, state in enumerate(states):
            for name, dtype in state["types"].items():
                key = f"{slot}.{number}.{name}"
                arrays[key] = Field(str(dtype), shapes[key], finite=False)
    if settings["rows"] != "none":
        arrays |= {
            "y": floats("rows", least=0, most=1),
            "weight": floats("rows", least=0),
            "plays": counts("rows"),
            "played": floats("levels played", 3 + members),
            "x": floats("rows", shapes["x"][-1]) if settings["rows"] == "array" else octets("letters"),
        }
    return arrays


def to_state(mixtures: Sequence[OracleMixture], log: "Sequence[LearnedRow] | None") -> State:
    """Return mixtures and rows. Raises TypeError if an oracle has no hooks, or a row is neither array nor JSON."""
    states = [[_saved(oracle) for oracle in mixture.oracles] for mixture in mixtures]
    arrays = {
        f"{slot}.{number}.{name}": np.asarray(array)
        for slot, mixture in enumerate(states)
        for number, state in enumerate(mixture)
        for name, array in state.arrays.items()
    }
    arrays["losses"] = np.array([[mixture.loss, *mixture.losses] for mixture in mixtures])
    described = [[{"types": _types(state), "manifest": state.manifest} for state in mixture] for mixture in states]
    members = len(mixtures[0].losses)
    settings: dict[str, Any] = {"members": members, "oracles": described, "rows": "none"}
    if log is not None:
        settings["rows"], x = _written_rows([row.x for row in log])
        played = [play for row in log for play in row.played]
        arrays |= {
            "y": np.array([row.y for row in log], np.float64),
            "weight": np.array([row.weight for row in log], np.float64),
            "plays": np.array([len(row.played) for row in log], np.int64),
            "played": np.array(played, np.float64).reshape(len(played), 3 + members),
            "x": x,
        }
    return State(arrays, settings)


def _types(state: State) -> dict[str, str]:
    return {name: np.asarray(array).dtype.newbyteorder("<").str for name, array in state.arrays.items()}


def _written_rows(rows: Sequence[Any]) -> tuple[str, AnyArray]:
    stacked = table(rows)
    if isinstance(stacked, np.ndarray) and stacked.ndim == 2 and stacked.dtype == np.float64:
        return "array", stacked
    try:
        text = json.dumps(rows)
        unchanged = _unchanged(rows, json.loads(text))
    except (TypeError, ValueError):
        unchanged = False
    if not unchanged:
        raise TypeError(
            "save: given rows that are neither arrays of floats of one length nor plain JSON, expected either; "
            "log=False keeps no rows, nothing written"
        )
    return "json", np.frombuffer(text.encode(), np.uint8)


def _unchanged(given: Any, read: Any) -> bool:
    """Return whether JSON returned the same: text as keys, lists and not tuples; NaN stays NaN."""
    if type(given) is not type(read):
        return False
    if isinstance(given, dict):
        return given.keys() == read.keys() and all(_unchanged(given[key], read[key]) for key in given)
    if isinstance(given, list):
        return all(map(_unchanged, given, read))
    return bool(given == read or given != given)


def table(rows: Sequence[Any]) -> Any:
    """Return rows as one array if they are arrays of one shape, else as a list."""
    alike = all(isinstance(x, np.ndarray) and x.shape == rows[0].shape for x in rows)
    return np.array(rows) if alike and len(rows) else [oracle_input(x) for x in rows]


def from_state(
    state: State, levels: Sequence[float], makes: Sequence[Make], members: int
) -> "tuple[list[OracleMixture], list[LearnedRow] | None]":
    """Rebuild mixtures of so many members, by slot, and rows; `restore` is called on what `makes` return."""
    arrays, described = state.arrays, state.manifest["oracles"]
    if any(len(each) != len(makes) for each in described) or state.manifest["members"] != members:
        raise ArchiveError(f"oracles: given {len(makes)} a level, expected as many as were saved")
    if not len(described) == len(arrays["losses"]) == len(levels):
        raise ArchiveError(f"oracles: given those of {len(described)} levels, expected {len(levels)}")
    mixtures = [OracleMixture(level, [make_oracle(make, level) for make in makes], members) for level in levels]
    for slot, (mixture, losses) in enumerate(zip(mixtures, arrays["losses"].tolist(), strict=True)):
        mixture.charged(losses[0], losses[1:])
        for number, oracle in enumerate(mixture.oracles):
            own = part(State(arrays, {}), f"{slot}.{number}").arrays
            _hooks(oracle)[1](State(own, described[slot][number]["manifest"]))
    return mixtures, _read_rows(state, len(levels))


def _read_rows(state: State, levels: int) -> "list[LearnedRow] | None":
    how, arrays = state.manifest["rows"], state.arrays
    if how == "none":
        return None
    ends = np.cumsum(arrays["plays"])
    played = arrays["played"]
    xs = list(arrays["x"]) if how == "array" else json.loads(arrays["x"].tobytes())
    slots = played[:, 0]
    if len(xs) != len(ends) or (ends[-1] if len(ends) else 0) != len(played) or not np.isin(slots, range(levels)).all():
        raise ArchiveError("rows: given parts of different lengths or levels that do not exist, expected those saved")
    parts = np.split(played, ends[:-1]) if len(ends) else []
    columns = zip(xs, arrays["y"].tolist(), arrays["weight"].tolist(), parts, strict=True)
    return [LearnedRow(x, y, weight, plays.tolist()) for x, y, weight, plays in columns]


def _saved(oracle: Oracle) -> State:
    state = State(*_hooks(oracle)[0]())
    for name in state.arrays:
        if not name.isidentifier():
            raise ValueError(f"to_state: given an array called {name!r}, expected a name of letters, digits and _")
    return state


def _hooks(oracle: Oracle) -> tuple[Callable[[], Any], Callable[[State], None]]:
    write, read = getattr(oracle, "to_state", None), getattr(oracle, "restore", None)
    if write is None or read is None:
        raise TypeError(
            f"save: given {type(oracle).__name__} without to_state and restore, expected an oracle with both; nothing "
            "written"
        )
    return write, read
