"""`Oracle`: what a level's learner must offer; `Company`: the oracles of one level, combined by exponential weights."""

import copy
from collections.abc import Callable, Sequence
from math import exp, isfinite
from typing import Any, NamedTuple, Protocol, runtime_checkable

from swapcal.archive import State
from swapcal.arrays import Array

NEWBORN = ("copy", "fresh")
CONCAVITY = 0.5
"""exp(-½(w - y)²) is concave in w while |w - y| ≤ 1: exponential weights at this rate cost 2 ln M a level."""


@runtime_checkable
class Oracle(Protocol):
    """An online regression algorithm for one level: a wish before the label, a weighted squared loss after it.

    Two methods are needed, and four optional ones (with an attribute) each make something more possible:

    ``regret(mass) -> float | None``
        r(n, F), known before any data: bounds Σ α(w - y)² - inf_F Σ α(f(x) - y)² for any labels on time and any
        weights α ≤ 1 of sum n, if the wishes w are clipped to [0, 1]. Makes `theorem` known. None claims nothing.
    ``best(X, y, weight) -> (lower, upper) | None``
        Two numbers with inf_F Σ weight (f(x) - y)² between them, for rows X as `update` got them: an array if all
        are arrays of one length, else a list. Makes `psreg` known.
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


def made(make: Make, level: float) -> Oracle:
    """Return the oracle of a level. Raises TypeError if it has no `predict` and `update`."""
    oracle: Any = make(level)
    if not isinstance(oracle, Oracle) or isinstance(oracle, type):
        raise TypeError(
            f"make: given {type(oracle).__name__} at level {level:g}, expected an object with predict and update"
        )
    return oracle


def regret_of(oracle: Oracle, mass: float) -> float | None:
    """Return what an oracle promises to lose at most; None if it promises nothing."""
    promise = getattr(oracle, "regret", None)
    value = None if promise is None else promise(mass)
    return None if value is None else float(value)


def bracket_of(oracle: Oracle, X: Any, y: Array, weight: Array) -> tuple[float, float] | None:
    """Return (lower, upper) around the least loss of an oracle's class; None if the oracle does not know it."""
    solve = getattr(oracle, "best", None)
    found = None if solve is None else solve(X, y, weight)
    if found is None:
        return None
    lower, upper = map(float, found)
    if not (isfinite(lower) and isfinite(upper) and lower <= upper):
        raise ValueError(f"best: given ({lower}, {upper}), expected finite numbers, the lower one first")
    return lower, upper


class Row(NamedTuple):
    """One label learned: what was given, and (slot, α, w, members' wishes) of each level in play."""

    x: Any
    y: float
    weight: float
    played: list[list[float]]


class Company:
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
        wishes = [self._clipped(oracle.predict(x)) for oracle in self.oracles]
        if linear is not None:
            wishes.append(linear)
        if len(wishes) == 1:
            return [wishes[0], wishes[0]]
        mean = sum(share * wish for share, wish in zip(self.shares, wishes, strict=True))
        return [min(mean, 1.0), *wishes]

    def _clipped(self, wish: Any) -> float:
        value = float(wish)
        if not isfinite(value):
            raise ValueError(f"oracle: given the wish {value} at level {self.level:g}, expected a finite number")
        return 0.0 if value < 0.0 else 1.0 if value > 1.0 else value

    def charge(self, w: float, wishes: Sequence[float], y: float, alpha: float) -> None:
        """Enter the losses of a wish and of its members' wishes, and weigh the members anew."""
        self.loss += alpha * (w - y) ** 2
        self.losses = [lost + alpha * (w - y) ** 2 for lost, w in zip(self.losses, wishes, strict=True)]
        if len(self.losses) > 1:
            least = min(self.losses)
            weights = [exp(CONCAVITY * (least - lost)) for lost in self.losses]
            total = sum(weights)
            self.shares = [weight / total for weight in weights]

    def newborn(self, level: float, makes: Sequence[Make]) -> "Company":
        """Return the company of a new level; each oracle starts as the neighbour's one says."""
        oracles = [
            copy.deepcopy(own) if newborn_of(own) == "copy" else made(make, level)
            for own, make in zip(self.oracles, makes, strict=True)
        ]
        return Company(level, oracles, len(self.losses))

    def to_states(self) -> list[State]:
        """Return the oracles' states. Raises TypeError if an oracle cannot be saved."""
        return [_saved(oracle) for oracle in self.oracles]


def newborn_of(oracle: Oracle) -> str:
    """Return how the oracle of a new level starts. Raises TypeError if the oracle does not tell."""
    how = getattr(oracle, "newborn", None)
    if how not in NEWBORN:
        raise TypeError(
            f'levels: given "adaptive" with {type(oracle).__name__}, whose `newborn` is {how!r}, expected an oracle '
            'with newborn = "copy" or "fresh", or fixed levels'
        )
    return str(how)


def _saved(oracle: Oracle) -> State:
    hooks = getattr(oracle, "to_state", None), getattr(oracle, "restore", None)
    if None in hooks:
        raise TypeError(
            f"save: given {type(oracle).__name__} without to_state and restore, expected an oracle with both; nothing "
            "written"
        )
    return State(*hooks[0]())  # type: ignore[misc]
