"""An event: one line of the log, never changed once it is stored."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

MADE, FORECAST, OUTCOME, CORRECTION = "made", "forecast", "outcome", "correction"
"""Kinds the store itself knows: of an id there is one forecast and one (first) outcome."""


class Event(NamedTuple):
    """What happened to one forecaster.

    Parameters
    ----------
    forecaster : str
        Its name.
    seq : int
        Its number: 1, 2, 3, ... for each forecaster. The first is of kind `made`.
    kind : str
        What happened.
    id : str
        The forecast it is about; empty where it is about none.
    time : float
        The service's clock at acceptance, never earlier than that of the event before.
    body : bytes
        The rest, as JSON.

    Examples
    --------
    >>> Event("flights", 1, MADE, "", 0.0, b"{}").kind
    'made'
    """

    forecaster: str
    seq: int
    kind: str
    id: str
    time: float
    body: bytes


def in_pages(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    """Yield events, so many at a time."""
    rest = iter(events)
    while page := [*islice(rest, size)]:
        yield page
