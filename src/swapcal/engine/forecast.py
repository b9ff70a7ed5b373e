"""`Forecast`: what was issued and what is needed to learn from the outcome; `Player`: what issues it."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate, archive
from swapcal._display import counted, display, share
from swapcal._locking import CopyableLock, Writable, locked, writable
from swapcal._validate import UNIT, Span
from swapcal.arrays import Array, Keys
from swapcal.engine import state as memory
from swapcal.kernels.state import T_HIGH, T_LOW, T_MEAN, T_P, T_WEIGHT, Opponent, RunOptions, all_known

# The ticket: a forecast with the data to learn from its label later.


class LearnedFlag:
    """Whether a forecast's label has been learned; copies of the forecast share it."""

    __slots__ = ("learned",)

    def __init__(self, learned: bool) -> None:
        self.learned = learned

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Explainer:
    """The function that explains a forecast; not copied to other processes."""

    __slots__ = ("explain",)

    def __init__(self, explain: "Callable[[int], Any] | None" = None) -> None:
        self.explain = explain

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> "tuple[type[Explainer], tuple[()]]":
        return Explainer, ()


NO_EXPLAINER = Explainer()

Mark, Why = LearnedFlag, Explainer
"""The names of these two in pickles of version 0.2.0."""


def _is_moved(ticket: Any) -> Any:
    """Return whether the engine cannot have drawn the level p of a ticket, or of each of many in columns."""
    p, low, high, weight = ticket[T_P], ticket[T_LOW], ticket[T_HIGH], ticket[T_WEIGHT]
    impossible = ((p == low) & (weight == 1.0)) | ((p == high) & (weight == 0.0))
    return (p < low) | (p > high) | ((low < high) & impossible)


class Forecast:
    """One forecast (attributes are floats) or many (attributes are arrays of shape (n,)).

    Attributes
    ----------
    p : the issued level, drawn from the forecast's distribution; the guarantees are about it.
    mean : z*, the distribution's mean; the best single number, slightly off the levels.
    low, high : the lowest and highest level that could have been issued: neighbouring levels, when hedging. They are
        not a confidence interval, which `Audit.around`, `Monitor.around` and `Live.around` compute.
    weight : the probability with which `high` was issued; with Blum–Mansour's mixing, levels between the two may have
        some too, and `Forecaster.distribution` returns all.

    Of a `Live` whose outcomes lie in another range than [0, 1], all but the weight are on the scale of the outcomes.
    Where a `Live` allows for outcomes that it cannot have seen, `mean` moves towards its prior and may lie beyond `low`
    and `high`, which are the levels of the engine. So does sometimes `p`; then `low` and `high` are `p` itself.

    Hand it back with the label, whenever that comes: ``forecaster.update(forecast, y)``. A label is learned once per
    forecast: `copy.copy` and `copy.deepcopy` give the same forecast again, closed with the first of them. A pickle is
    as open or closed as the forecast was when it was written. Calling `predict` twice gives two equal forecasts, each
    with a label of its own. Where a label might arrive twice, `Live` recognises it by its id.
    """

    __slots__ = ("_contexts", "_mark", "_mixes", "_owner", "_single", "_span", "_tickets", "_why")

    def __init__(
        self,
        tickets: Array,
        contexts: "Array | None",
        mixes: Array,
        owner: str,
        *,
        single: bool,
        learned: bool,
        span: Span = UNIT,
    ) -> None:
        self._tickets = tickets
        self._span = span
        self._contexts = contexts
        self._mixes = mixes
        self._owner = owner
        self._single = single
        self._mark = LearnedFlag(learned)
        self._why = NO_EXPLAINER

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        self._span = UNIT  # pickles of earlier releases have none
        for name, value in state[1].items():
            setattr(self, name, writable(value))

    @classmethod
    def joined(cls, parts: "Sequence[Forecast]") -> "Forecast":
        """Return forecasts of rows that were learned, one part after the other, as those of all rows."""
        tickets = np.concatenate([part._tickets for part in parts])
        last = parts[-1]
        return cls(tickets, None, np.zeros((len(tickets), 0)), last._owner, single=False, learned=True, span=last._span)

    def _column(self, column: int) -> Any:
        if self._single:
            return float(self._tickets[0, column])
        values = self._tickets[:, column]
        values.flags.writeable = False
        return values

    def _level(self, column: int) -> Any:
        """Return a column of the distribution p was drawn from: p itself where that is not the engine's."""
        if self._single:
            row = self._tickets[0].tolist()
            return (0.0 if column == T_WEIGHT else row[T_P]) if _is_moved(row) else row[column]
        moved = _is_moved(self._tickets.T)
        if not moved.any():
            return self._column(column)
        return np.where(moved, 0.0 if column == T_WEIGHT else self._tickets[:, T_P], self._tickets[:, column])

    def _in_units(self, shares: Any) -> Any:
        """Return levels, which are shares of the outcomes' range, on the scale of the outcomes."""
        if self._span == UNIT:
            return shares
        return self._span.value(shares) if isinstance(shares, float) else self._span.values(shares)

    @property
    def p(self) -> Any:
        """The issued level."""
        return self._in_units(self._column(T_P))

    @property
    def mean(self) -> Any:
        """The mean z* of the distribution the level was drawn from."""
        return self._in_units(self._column(T_MEAN))

    @property
    def low(self) -> Any:
        """The lowest level that could have been issued; not the end of a confidence interval."""
        return self._in_units(self._level(T_LOW))

    @property
    def high(self) -> Any:
        """The highest level that could have been issued; not the end of a confidence interval."""
        return self._in_units(self._level(T_HIGH))

    @property
    def weight(self) -> Any:
        """The probability of `high`."""
        return self._level(T_WEIGHT)

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return p, mean, low, high and weight as columns of a DataFrame, one row per forecast.

        `backend` is "pandas", "polars", "pyarrow", or "dict" for a dict of lists.
        """
        from swapcal.tables.frame import made_frame

        names = ("p", "mean", "low", "high", "weight")
        return made_frame({name: np.atleast_1d(getattr(self, name)).tolist() for name in names}, backend)

    def explained_by(self, explain: "Callable[[int], Any]") -> Self:
        """Set `explain`, a function of the row; returns the forecast."""
        self._why = Explainer(explain)
        return self

    def explain(self, row: int = 0) -> Any:
        """Return the mean as a sum of named contributions; of many forecasts that of one row, counted from 0.

        `Live` can explain its open forecasts and its previews; see `swapcal.engine.explanation.Explanation`.
        """
        if self._why.explain is None:
            raise ValueError("explain: given a forecast without an explanation, expected one that `Live` keeps open")
        if not 0 <= row < len(self._tickets):
            raise IndexError(f"row: given {row}, expected one of {len(self._tickets)} rows, counted from 0")
        return self._why.explain(row)

    @property
    def learned(self) -> bool:
        """Whether the label has already been learned."""
        return self._mark.learned

    def settle(self) -> None:
        """Mark the label as learned, in every copy."""
        self._mark.learned = True

    @staticmethod
    def check_open(forecast: object, owner: str) -> None:
        """Raise TypeError or ValueError if `forecast` is not an open forecast of this owner."""
        if not isinstance(forecast, Forecast):
            raise TypeError(f"forecast: given {type(forecast).__name__}, expected a Forecast from this forecaster")
        if forecast._owner != owner:
            raise ValueError("forecast: given one from another forecaster, expected one that this forecaster issued")
        if forecast.learned:
            raise ValueError("forecast: given one whose label was already learned, expected an open one")

    def __len__(self) -> int:
        return len(self._tickets)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forecast):
            return NotImplemented
        return (
            self._owner == other._owner
            and self._single == other._single
            and self._span == other._span
            and np.array_equal(self._tickets, other._tickets)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self._single:
            return (
                f"Forecast(mean={self.mean:.6g}, p={self.p:.6g}, low={self.low:.6g}, "
                f"high={self.high:.6g}, weight={self.weight:.6g})"
            )
        return f"Forecast({counted(len(self), 'row')}, average mean {self._average(T_MEAN):.6g})"

    def _average(self, column: int) -> float:
        return self._span.value(float(np.mean(self._tickets[:, column]))) if len(self) else float("nan")

    def _repr_html_(self) -> str:
        label = "learned" if self.learned else "open: waits for its label"
        shown = share if self._span == UNIT else "{:.6g}".format
        if not self._single:
            facts = {"mean forecast": shown(self._average(T_MEAN)), "mean issued level p": shown(self._average(T_P))}
            return display(
                "Forecast", counted(len(self), "row"), facts | {"labels": "learned" if self.learned else "open"}
            )
        drawn = f"{shown(self.high)} with probability {self.weight:.3g}, else {shown(self.low)}"
        issued = shown(self.p) if self.low == self.high else f"{shown(self.p)}, drawn: {drawn}"
        return display("Forecast", shown(self.mean), {"issued level p": issued, "label": label})


# `Player`: the interface that the engine and every baseline share.

# Rows per kernel call in `run`: long enough to amortise the call, short enough for progress and interruption.
CHUNK = 8192


class Player(Writable, ABC):
    """Contexts in, forecasts out, labels whenever they come; a subclass has the memory and the rule."""

    _dim: int
    _owner: str
    _lock: CopyableLock

    @property
    def dim(self) -> int:
        """Number of coordinates of a context."""
        return self._dim

    @locked
    def predict(self, x: ArrayLike, event: object = None) -> Forecast:
        """Return a forecast for one context; nothing changes, and a second call returns an equal ticket.

        Parameters
        ----------
        x : (dim,)
        event : an id (int, str or bytes) that determines the draw between the levels; by default the draw depends on
            the context and the number of labels learned so far.
        """
        return self._issue(self._rows(x, single=True), None if event is None else [event], single=True)

    @locked
    def predict_many(self, X: ArrayLike, events: "list[object] | None" = None) -> Forecast:
        """Return forecasts for many contexts from the present, frozen state; they may be learned from later."""
        return self._issue(self._rows(X), events, single=False)

    @locked
    def update(self, forecast: Forecast, y: Any) -> None:
        """Learn the label of a forecast, in {0, 1} or [0, 1], at any time and in any order; of many, an array."""
        self._learn(forecast, y)

    def _learn(self, forecast: Forecast, y: Any, options: RunOptions | None = None) -> None:
        Forecast.check_open(forecast, self._owner)
        many = len(forecast._tickets)
        labels = np.array([_validate.label(y)]) if forecast._single else writable(_validate.label_rows(y, many))
        assert forecast._contexts is not None, "only learned forecasts drop their contexts"
        X = self._placed(forecast, forecast._contexts)
        self._advance(X, labels, _validate.NO_EVENT, forecast._tickets, forecast._mixes, options)
        forecast.settle()

    @locked
    def run(
        self,
        X: ArrayLike,
        y: ArrayLike,
        events: "list[object] | None" = None,
        progress: "Callable[[int], object] | None" = None,
    ) -> Forecast:
        """Forecast, then learn, row by row: the loop of predict and update, bit for bit, at kernel speed.

        Parameters
        ----------
        X : (n, dim)
        y : (n,) labels in [0, 1]
        events : ids of the rows, as in `predict`
        progress : called with the number of rows done since the last call

        Returns
        -------
        A Forecast of arrays. Running in pieces gives the same as running at once.
        """
        return self._run(self._rows(X, copy=False), y, events, progress)

    def _run(
        self,
        rows: Array,
        y: ArrayLike,
        events: "list[object] | None",
        progress: "Callable[[int], object] | None",
        weights: "Array | None" = None,
    ) -> Forecast:
        labels = _validate.label_rows(y, len(rows))
        keys = _validate.event_keys(events, len(rows))
        tickets, mixes = memory.blank_tickets(len(rows)), self._blank_mixes(1)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            named = keys if events is None else keys[part]
            # kernels would be compiled again for read-only arrays, such as maps of large files
            options = None if weights is None else RunOptions(weights=weights[part])
            self._advance(writable(rows[part]), writable(labels[part]), named, tickets[part], mixes, options)
            if progress is not None:
                progress(len(rows[part]))
        return Forecast(tickets, None, mixes, self._owner, single=False, learned=True)

    @locked
    def duel(self, X: ArrayLike, opponent: Opponent) -> Forecast:
        """Play against an opponent that chooses each label from the issued distribution; see `datasets.play`.

        Parameters
        ----------
        X : (n, dim)
        opponent : of `swapcal.kernels.state`; its labels are written
        """
        rows = writable(self._rows(X, copy=False))
        tickets, mixes = memory.blank_tickets(len(rows)), self._blank_mixes(self._distributions(len(rows)))
        self._advance(rows, opponent.labels, _validate.NO_EVENT, tickets, mixes, RunOptions(opponent=opponent))
        return Forecast(tickets, None, mixes, self._owner, single=False, learned=True)

    def _rows(self, X: Any, *, single: bool = False, copy: bool = True) -> Array:
        """Return rows as the kernel reads them, one from a single context; with `copy` a private copy."""
        return _validate.context_rows(X, self._dim, single=single, copy=copy)

    def _issue(self, rows: Array, events: "list[object] | None", *, single: bool) -> Forecast:
        tickets, mixes = memory.blank_tickets(len(rows)), self._blank_mixes(len(rows))
        unlabelled = _validate.NO_LABEL if single else np.full(len(rows), np.nan)
        self._advance(rows, unlabelled, _validate.event_keys(events, len(rows)), tickets, mixes)
        return Forecast(tickets, rows, mixes, self._owner, single=single, learned=False)

    def _placed(self, forecast: Forecast, X: Array) -> Array:
        """Return the contexts of a forecast as they are now. Raises ValueError if its levels do not exist here."""
        return X

    def _distributions(self, rows: int) -> int:
        """Return how many rounds of a duel keep their whole distribution."""
        return 1

    @abstractmethod
    def _advance(
        self, X: Array, y: Array, events: Keys, tickets: Array, mixes: Array, options: RunOptions | None = None
    ) -> None:
        """Issue the rows whose tickets are blank and learn those that have a label, in order."""

    @abstractmethod
    def _blank_mixes(self, rows: int) -> Array:
        """Return room for whole distributions, if forecasts may play more than two levels."""


class FixedLevelsPlayer(Player):
    """A player whose levels never change and whose rows may be weighted; a subclass has the memory and its file."""

    _file: ClassVar[archive.Kind]
    _memory: Any

    @property
    def levels(self) -> Array:
        """The levels, increasing."""
        return np.array(self._memory.z)

    @locked
    def update(self, forecast: Forecast, y: Any, *, weight: float = 1.0) -> None:
        """Learn the outcome of a forecast, in [0, 1], at any time, in any order, as if it had come `weight` times."""
        count = _validate.positive("weight", weight)
        self._learn(forecast, y, RunOptions(weights=np.full(len(forecast), count)))

    @locked
    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the whole state to one file, atomically; `load` continues bit for bit."""
        archive.write(path, self._file, *self.to_state())

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> Self:
        """Return the forecaster saved at `path`; a damaged, inconsistent or foreign file raises `ArchiveError`."""
        return archive.load(path, cls._file, cls.from_state)

    @abstractmethod
    def to_state(self) -> archive.State:
        """Return the state as `save` writes it."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: archive.State) -> Self:
        """Rebuild from `to_state`; the state must have been checked."""

    def _placed(self, forecast: Forecast, X: Array) -> Array:
        if not all_known(forecast._tickets, self._memory.z, len(self._memory.z)):
            raise ValueError("forecast: given one for other levels, expected one that this forecaster issued")
        return X

    def _blank_mixes(self, rows: int) -> Array:
        return np.zeros((max(rows, 1), 0))
