"""Events of the log, their bodies as JSON, and all events of one id."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Raw

# An event: one line of the log, never changed once it is stored.

MADE, FORECAST, OUTCOME, CORRECTION = "made", "forecast", "outcome", "correction"
"""Kinds on which the store has constraints: an id has one forecast and one (first) outcome."""


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
    remaining = iter(events)
    while page := [*islice(remaining, size)]:
        yield page


# Bodies of events: the JSON of the log, from which everything can be computed again.

SILENCE, SETTLED = "silence", "settled"
"""Kinds of events: a forecast learned as silence, which follows from the events before it; and that the service's clock
let windows end, at most so many, without a forecast."""
WITHDRAWN = "withdrawn"
"""Kind of event: forecasts that were given up because their events are pruned."""
PARKED = "parked"
"""Kind of event: an outcome whose forecast has not come; a forecast that comes in time makes it an `outcome`."""


Probability = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[
    float, Meta(gt=0, description="how often an outcome counts: one over the probability of obtaining it, if known")
]


LEVELS = ("p", "mean", "low", "high", "weight")
"""The issued values of a forecast."""


class ForecastBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A forecast as it is issued, logged and recomputed: its record, its moments in the user's time, its levels."""

    record: Raw
    p: float
    mean: float
    low: float
    high: float
    weight: float
    model: str
    time: float | None = None
    matures: float | None = None


class OutcomeBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """An outcome: `state` as answered, none while it waits for its forecast; `parked` if it came before that."""

    y: float
    state: str = ""
    time: float | None = None
    parked: bool = False
    weight: float | None = None
    """none for 1, as in logs from before there were weights"""

    @property
    def counts(self) -> float:
        """How often it counts."""
        return 1.0 if self.weight is None else self.weight


class SettledBody(msgspec.Struct, frozen=True):
    """Until when windows ended, and how many forecasts were learned at most."""

    time: float
    most: int


class WithdrawnBody(msgspec.Struct, frozen=True):
    """The forecasts given up."""

    ids: list[str]


class CorrectionBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The corrected outcome, the outcome before, the reason, and the corrected weight if that was another."""

    y: float
    before: float
    reason: str
    weight: float | None = None


_ENCODER = msgspec.json.Encoder()
_FORECAST = msgspec.json.Decoder(ForecastBody)
_OUTCOME = msgspec.json.Decoder(OutcomeBody)
_CORRECTION = msgspec.json.Decoder(CorrectionBody)
_SETTLED = msgspec.json.Decoder(SettledBody)
_WITHDRAWN = msgspec.json.Decoder(WithdrawnBody)
_RECORD = msgspec.json.Decoder(dict[str, str | int | float | bool | None])

encoded = _ENCODER.encode
forecast_body = _FORECAST.decode
outcome_body = _OUTCOME.decode
correction_body = _CORRECTION.decode
settled_body = _SETTLED.decode
withdrawn_body = _WITHDRAWN.decode


def record_of(raw: "Raw | bytes") -> dict[str, Any]:
    """Return a record's values; raises `msgspec.ValidationError` for what is no flat object.

    Examples
    --------
    >>> record_of(b'{"shop": "a", "price": 3.0}')
    {'shop': 'a', 'price': 3.0}
    """
    return _RECORD.decode(raw)


def same_record(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether two records are equal; 1 equals 1.0 but not true, as in JSON.

    Examples
    --------
    >>> same_record({"a": 1}, {"a": 1.0}), same_record({"a": 1}, {"a": True})
    (True, False)
    """
    if first.keys() != second.keys():
        return False
    return all(
        value == second[name] and isinstance(value, bool) == isinstance(second[name], bool)
        for name, value in first.items()
    )


# `IdHistory`: everything that is known under one id.


@dataclass
class IdHistory:
    """The forecast of an id, its first outcome, silence, an outcome that came early, and corrections.

    Examples
    --------
    >>> id_history = IdHistory()
    >>> id_history.add(Event("shop", 7, "outcome", "a", 0.0, b'{"y": 1, "state": "learned"}'))
    >>> id_history.y
    1.0
    """

    forecast: Event | None = None
    outcome: Event | None = None
    silence: Event | None = None
    parked: Event | None = None
    corrections: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Enter an event of the id."""
        if event.kind == FORECAST:
            self.forecast = event
        elif event.kind == OUTCOME:
            self.outcome = event
        elif event.kind == SILENCE:
            self.silence = event
        elif event.kind == PARKED:
            self.parked = event
        elif event.kind == CORRECTION:
            self.corrections.append(event)

    @property
    def y(self) -> float | None:
        """The outcome as it is known now, corrections included."""
        if self.corrections:
            return correction_body(self.corrections[-1].body).y
        known = self.outcome or self.silence
        return None if known is None else outcome_body(known.body).y

    @property
    def weight(self) -> float:
        """How often the outcome counts, corrections included."""
        for event in reversed(self.corrections):
            corrected = correction_body(event.body).weight
            if corrected is not None:
                return corrected
        known = self.outcome or self.silence
        return 1.0 if known is None else outcome_body(known.body).counts


def id_histories(events: Iterable[Event]) -> dict[str, IdHistory]:
    """Return what is known under each id."""
    histories: dict[str, IdHistory] = {}
    for event in events:
        histories.setdefault(event.id, IdHistory()).add(event)
    return histories
