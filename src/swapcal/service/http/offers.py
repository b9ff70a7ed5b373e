"""Offers: every address, who may call it, what it takes and gives, and what does the work."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from swapcal.service.http import messages as m
from swapcal.service.http import reading, writing
from swapcal.service.http.endpoint import Handler
from swapcal.service.settings import Settings
from swapcal.service.status import Status

FORECAST, OUTCOME, READ, ADMIN = "forecast", "outcome", "read", "admin"
ALL = "/v1/forecasters"
OWN = f"{ALL}/{{name}}"
WRITE_REFUSALS = (400, 404, 408, 413, 415, 422, 503)
READ_REFUSALS = (404, 422, 503)


class Parameter(NamedTuple):
    """A part of an address."""

    name: str
    where: str
    words: str
    required: bool
    schema: dict[str, Any]


NAME = Parameter("name", "path", "The forecaster", True, {"type": "string", "minLength": 1, "maxLength": 64})
ID = Parameter("id", "path", "The forecast", True, {"type": "string", "minLength": 1, "maxLength": 256})
LOSS = Parameter("loss", "query", "Such as pinball:0.9", True, {"type": "string"})
SINCE = Parameter("since", "query", "Forecasts made from then on: a number, or an ISO date", False, {"type": "string"})
UNTIL = Parameter("until", "query", "Forecasts made before then", False, {"type": "string"})


@dataclass(frozen=True, eq=False)
class Offer:
    """One address and method."""

    method: str
    path: str
    handler: Handler
    needed: str | None
    takes: tuple[Any, ...] = ()
    gives: tuple[Any, ...] = ()
    refusals: tuple[int, ...] = READ_REFUSALS
    query: tuple[Parameter, ...] = ()
    statuses: tuple[int, ...] = (200,)
    lines: bool = False
    media: str | None = None

    @property
    def name(self) -> str:
        """Its name in the document."""
        return self.handler.__name__

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the address and the query hold."""
        return (*(each for each in (NAME, ID) if f"{{{each.name}" in self.path), *self.query)

    @property
    def shown_path(self) -> str:
        """The path as OpenAPI writes it."""
        return self.path.replace(":path", "")


def _write(
    method: str, path: str, handler: Handler, needed: str, takes: Any, gives: tuple[Any, ...], *more: int, **how: Any
) -> Offer:
    """Return an offer that changes something of one forecaster, and may be refused for more reasons than most."""
    return Offer(method, OWN + path, handler, needed, (takes,), gives, (*WRITE_REFUSALS, *more), **how)


def _read(path: str, handler: Handler, *gives: Any, **how: Any) -> Offer:
    """Return an offer that shows something of one forecaster."""
    return Offer("GET", OWN + path, handler, READ, (), gives, **how)


AUDITED: dict[str, Any] = {"refusals": (*READ_REFUSALS, 413), "query": (SINCE, UNTIL)}
MADE = (*(status for status in WRITE_REFUSALS if status != 404), 409, 429)
MANY = (m.ForecastOut, m.ForecastsOut)
OFFERS = (
    _write("POST", "/forecasts", writing.forecasts, FORECAST, m.ForecastBodyIn, MANY, 409, 429, lines=True),
    _write("PUT", "/outcomes/{id:path}", writing.outcome, OUTCOME, m.OutcomeIn, (m.OutcomeOut,), 409, 410, 429),
    _write("POST", "/outcomes", writing.outcomes, OUTCOME, m.OutcomesIn, (m.OutcomesOut,), lines=True),
    _write("POST", "/preview", reading.preview, FORECAST, m.PreviewIn, (m.PreviewOut, m.ForecastsOut)),
    _write("POST", "/corrections/{id:path}", writing.correction, ADMIN, m.CorrectionIn, (m.CorrectionOut,), 409),
    _read("/forecasts/{id:path}", reading.forecast, m.ForecastShown),
    _read("/decide/{id:path}", reading.decision, m.DecisionOut, query=(LOSS,)),
    _read("/status", reading.show_status, Status),
    _read("/certificate", reading.certificate),
    _read("/alarms", reading.alarms),
    _read("/audit", reading.audit, **AUDITED),
    _read("/report", reading.report, **AUDITED, media="text/html"),
    _read("", reading.forecaster, m.ForecasterOut),
    Offer("POST", ALL, reading.make, ADMIN, (Settings,), (m.ForecasterOut,), MADE, statuses=(200, 201)),
    Offer("GET", ALL, reading.forecasters, READ, (), (m.ForecastersOut,), (503,)),
)
