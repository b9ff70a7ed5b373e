"""Playing a stream against a forecaster, compiled where the forecaster allows it."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from swapcal import inputs
from swapcal.arrays import Array
from swapcal.datasets.synthetic import Rows, Stream
from swapcal.engine import state as memory
from swapcal.engine.forecast import Forecast
from swapcal.engine.forecaster import Forecaster
from swapcal.kernels.opponents import blank_notes, choose_label, duel


class OnlineForecaster(Protocol):
    """Anything with `predict` and `update` can be played against; the ticket needs `p` and `mean`."""

    def predict(self, x: Any) -> Any:
        """Return a ticket for one context."""

    def update(self, forecast: Any, y: Any) -> None:
        """Learn the label of a ticket."""


@runtime_checkable
class Duelist(Protocol):
    """A forecaster with a compiled loop of its own against the rules of `swapcal.kernels.opponents`."""

    def duel(self, X: Array, rule: int, chance: Array, coins: Array, notes: Array) -> tuple[Any, Array]:
        """Return the forecasts and the labels the opponent chose."""


class Part(NamedTuple):
    """Some consecutive rounds as they were played. `forecast` has arrays p and mean (and more, if compiled)."""

    X: Array
    y: Array
    chance: Array
    forecast: Any


class Plain(NamedTuple):
    """What is known of forecasts whose ticket is anyone's."""

    p: Array
    mean: Array


def play(forecaster: OnlineForecaster, stream: Stream) -> Iterator[Part]:
    """Yield the rounds of a stream played against a forecaster, in pieces.

    The opponent sees the mean of the distribution P_t before it chooses y_t; it never sees the draw.

    Parameters
    ----------
    forecaster : a `Forecaster` (compiled), a baseline with `duel` (compiled), or anything with predict and update
    stream : of the same dimension

    Examples
    --------
    >>> from swapcal import Forecaster
    >>> parts = list(play(Forecaster(dim=2), Stream("oppose", dim=2, rounds=500)))
    >>> len(parts), bool(abs(parts[0].forecast.mean[-100:].mean() - 0.5) < 0.1)
    (1, True)
    """
    notes = blank_notes(stream.dim, stream.longest_epoch)
    for rows in stream.blocks():
        forecast: Any
        if isinstance(forecaster, Forecaster):
            forecast, y = _engine_duel(forecaster, stream.rule, rows, notes)
        elif isinstance(forecaster, Duelist):
            forecast, y = forecaster.duel(rows.X, stream.rule, rows.chance, rows.coins, notes)
        else:
            forecast, y = _loop(forecaster, stream.rule, rows, notes)
        yield Part(rows.X, y, rows.chance, forecast)


def played(forecaster: OnlineForecaster, stream: Stream) -> Part:
    """Return all rounds of a stream at once; for streams that fit in memory.

    Examples
    --------
    >>> from swapcal import Forecaster
    >>> part = played(Forecaster(dim=2), Stream("linear", dim=2, rounds=2000))
    >>> bool(np.mean((part.forecast.p - part.y) ** 2) < 0.25)
    True
    """
    parts = list(play(forecaster, stream))
    X, y, chance = (np.concatenate([part[k] for part in parts]) for k in range(3))
    p, mean = (np.concatenate([getattr(part.forecast, name) for part in parts]) for name in ("p", "mean"))
    return Part(X, y, chance, Plain(p, mean))


def _engine_duel(forecaster: Forecaster, rule: int, rows: Rows, notes: Array) -> tuple[Forecast, Array]:
    X, _, _ = rows
    if X.shape[1] != forecaster.dim:
        raise ValueError(f"stream: given {X.shape[1]} coordinates, expected the forecaster's {forecaster.dim}")
    y, tickets, mixes = np.zeros(len(X)), memory.blank_tickets(len(X)), forecaster._blank_mixes(1)
    done = 0
    while done < len(X):
        done = duel(
            forecaster._state,
            forecaster._scratch,
            X,
            rule,
            rows.chance,
            rows.coins,
            notes,
            y,
            inputs.NO_EVENT,
            tickets,
            mixes,
            done,
        )
        if done < len(X):
            forecaster._state = memory.with_slots(forecaster._state, forecaster._roomier())
    return Forecast(tickets, None, mixes, forecaster._owner, single=False, learned=True), y


def _loop(forecaster: OnlineForecaster, rule: int, rows: Rows, notes: Array) -> tuple[Plain, Array]:
    seen = np.empty((len(rows.X), 3))
    for t, x in enumerate(rows.X):
        ticket = forecaster.predict(x)
        y = choose_label(rule, float(ticket.mean), x, float(rows.chance[t]), float(rows.coins[t]), notes)
        forecaster.update(ticket, y)
        seen[t] = ticket.p, ticket.mean, y
    return Plain(seen[:, 0], seen[:, 1]), seen[:, 2]
