"""Playing a stream against a forecaster, compiled where the forecaster allows it."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from swapcal.arrays import Array
from swapcal.datasets.synthetic import Stream
from swapcal.kernels.opponents import Opponent, blank_notes, choose_label


class OnlineForecaster(Protocol):
    """Anything with `predict` and `update` can be played against; the ticket needs `p` and `mean`."""

    def predict(self, x: Any) -> Any:
        """Return a ticket for one context."""

    def update(self, forecast: Any, y: Any) -> None:
        """Learn the label of a ticket."""


@runtime_checkable
class Duelist(Protocol):
    """A forecaster with a compiled loop against opponents: a `Forecaster` or a baseline."""

    def duel(self, X: Array, opponent: Opponent) -> Any:
        """Return the forecasts, and let the opponent write its labels."""


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
    forecaster : a `Forecaster` or a baseline (compiled), or anything with predict and update
    stream : of the same dimension

    Examples
    --------
    >>> from swapcal import Forecaster
    >>> parts = list(play(Forecaster(dim=2), Stream("oppose", dim=2, rounds=500)))
    >>> len(parts), bool(abs(parts[0].forecast.mean[-100:].mean() - 0.5) < 0.1)
    (1, True)
    """
    dim = getattr(forecaster, "dim", stream.dim)
    if dim != stream.dim:
        raise ValueError(f"stream: given {stream.dim} coordinates, expected the forecaster's {dim}")
    notes = blank_notes(stream.dim, stream.longest_epoch)
    for X, chance, coins in stream.blocks():
        opponent = Opponent(stream.rule, chance, coins, notes, np.zeros(len(X)))
        forecast = forecaster.duel(X, opponent) if isinstance(forecaster, Duelist) else _loop(forecaster, X, opponent)
        yield Part(X, opponent.labels, chance, forecast)


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


def _loop(forecaster: OnlineForecaster, X: Array, opponent: Opponent) -> Plain:
    seen = np.empty((2, len(X)))
    rule, chance, coins, notes, labels = opponent
    for t, x in enumerate(X):
        ticket = forecaster.predict(x)
        labels[t] = choose_label(rule, float(ticket.mean), x, float(chance[t]), float(coins[t]), notes)
        forecaster.update(ticket, labels[t])
        seen[:, t] = ticket.p, ticket.mean
    return Plain(*seen)
