"""`Player`: what the engine and every baseline are to whoever plays with them, whatever rule they play by."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal import inputs
from swapcal.arrays import Array, Keys
from swapcal.engine import state as memory
from swapcal.engine.forecast import Forecast
from swapcal.guard import Guard, guarded
from swapcal.kernels.company import Company
from swapcal.kernels.opponents import Opponent
from swapcal.owner import Owner, owned

# Rows per kernel call in `run`: long enough to amortise the call, short enough for progress and interruption.
CHUNK = 8192


class Player(Owner, ABC):
    """Contexts in, forecasts out, labels whenever they come; a subclass has the memory and the rule."""

    _dim: int
    _owner: str
    _guard: Guard

    @property
    def dim(self) -> int:
        """Number of coordinates of a context."""
        return self._dim

    @guarded
    def predict(self, x: ArrayLike, event: object = None) -> Forecast:
        """Return a forecast for one context; nothing changes, and asking again returns an equal ticket.

        Parameters
        ----------
        x : (dim,)
        event : an id (int, str or bytes) that determines the draw between the levels; by default the draw depends on
            the context and the number of labels learned so far.
        """
        row = inputs.context_rows(x, self._dim, single=True)
        return self._issue(row, None if event is None else [event], single=True)

    @guarded
    def predict_many(self, X: ArrayLike, events: "list[object] | None" = None) -> Forecast:
        """Return forecasts for many contexts from the present, frozen state; they may be learned from later."""
        return self._issue(inputs.context_rows(X, self._dim), events, single=False)

    @guarded
    def update(self, forecast: Forecast, y: Any) -> None:
        """Learn the label of a forecast, in {0, 1} or [0, 1], at any time and in any order; of many, an array."""
        Forecast.check_open(forecast, self._owner)
        many = len(forecast._tickets)
        labels = np.array([inputs.label(y)]) if forecast._single else owned(inputs.label_rows(y, many))
        assert forecast._contexts is not None, "only learned forecasts drop their contexts"
        X = self._placed(forecast, forecast._contexts)
        self._advance(X, labels, inputs.NO_EVENT, forecast._tickets, forecast._mixes)
        forecast.settle()

    @guarded
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
        rows = inputs.context_rows(X, self._dim, copy=False)
        labels = inputs.label_rows(y, len(rows))
        keys = inputs.event_keys(events, len(rows))
        tickets, mixes = memory.blank_tickets(len(rows)), self._blank_mixes(1)
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            named = keys if events is None else keys[part]
            # kernels are compiled anew for arrays that are read-only, which may be maps of large files
            self._advance(owned(rows[part]), owned(labels[part]), named, tickets[part], mixes)
            if progress is not None:
                progress(len(rows[part]))
        return Forecast(tickets, None, mixes, self._owner, single=False, learned=True)

    @guarded
    def duel(self, X: ArrayLike, opponent: Opponent) -> Forecast:
        """Play against an opponent that chooses each label when it has seen the distribution; see `datasets.play`.

        Parameters
        ----------
        X : (n, dim)
        opponent : of `swapcal.kernels.opponents`; its labels are written
        """
        rows = owned(inputs.context_rows(X, self._dim, copy=False))
        tickets, mixes = memory.blank_tickets(len(rows)), self._blank_mixes(self._distributions(len(rows)))
        self._advance(rows, opponent.labels, inputs.NO_EVENT, tickets, mixes, Company(opponent=opponent))
        return Forecast(tickets, None, mixes, self._owner, single=False, learned=True)

    def _issue(self, rows: Array, events: "list[object] | None", *, single: bool) -> Forecast:
        tickets, mixes = memory.blank_tickets(len(rows)), self._blank_mixes(len(rows))
        unlabelled = inputs.NO_LABEL if single else np.full(len(rows), np.nan)
        self._advance(rows, unlabelled, inputs.event_keys(events, len(rows)), tickets, mixes)
        return Forecast(tickets, rows, mixes, self._owner, single=single, learned=False)

    def _placed(self, forecast: Forecast, X: Array) -> Array:
        """Return the contexts of a forecast as they are now, or refuse a forecast that has no place here."""
        return X

    def _distributions(self, rows: int) -> int:
        """Return how many rounds of a duel keep their whole distribution."""
        return 1

    @abstractmethod
    def _advance(
        self, X: Array, y: Array, events: Keys, tickets: Array, mixes: Array, company: Company | None = None
    ) -> None:
        """Issue the rows whose tickets are blank and learn those that have a label, in order."""

    @abstractmethod
    def _blank_mixes(self, rows: int) -> Array:
        """Return room for whole distributions, if forecasts may play more than two levels."""
