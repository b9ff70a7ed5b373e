"""`Docket`: everything that is known under one id."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from swapcal.service import bodies
from swapcal.service.bodies import PARKED
from swapcal.service.event import CORRECTION, FORECAST, OUTCOME, Event


@dataclass
class Docket:
    """The forecast of an id, its first outcome, an outcome that came early, and corrections.

    Examples
    --------
    >>> docket = Docket()
    >>> docket.add(Event("shop", 7, "outcome", "a", 0.0, b'{"y": 1, "state": "learned"}'))
    >>> docket.y
    1.0
    """

    forecast: Event | None = None
    outcome: Event | None = None
    parked: Event | None = None
    corrections: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Take in an event about the id."""
        if event.kind == FORECAST:
            self.forecast = event
        elif event.kind == OUTCOME:
            self.outcome = event
        elif event.kind == PARKED:
            self.parked = event
        elif event.kind == CORRECTION:
            self.corrections.append(event)

    @property
    def y(self) -> float | None:
        """The outcome as it is known now, corrections included."""
        if self.corrections:
            return bodies.correction_body(self.corrections[-1].body).y
        return None if self.outcome is None else bodies.outcome_body(self.outcome.body).y


def dockets(events: Iterable[Event]) -> dict[str, Docket]:
    """Return what is known under each id."""
    found: dict[str, Docket] = {}
    for event in events:
        found.setdefault(event.id, Docket()).add(event)
    return found
