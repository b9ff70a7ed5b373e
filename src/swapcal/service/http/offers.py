"""Offers: every address, who may call it, what it takes and gives, and what does the work."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from swapcal.service.http import messages as m
from swapcal.service.http import reading, writing
from swapcal.service.http.endpoint import Handler
from swapcal.service.settings import Settings
from swapcal.service.status import Status

FORECAST, OUTCOME, READ, ADMIN = "forecast", "outcome", "read", "admin"
OWN = "/v1/forecasters/{name}"
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
    parameters: tuple[Parameter, ...] = ()
    statuses: tuple[int, ...] = (200,)
    lines: bool = False
    media: str | None = None

    @property
    def name(self) -> str:
        """Its name in the document."""
        return self.handler.__name__

    @property
    def shown_path(self) -> str:
        """The path as OpenAPI writes it."""
        return self.path.replace(":path", "")


OFFERS = (
    Offer(
        "POST",
        f"{OWN}/forecasts",
        writing.forecasts,
        FORECAST,
        (m.ForecastBodyIn,),
        (m.ForecastOut, m.ForecastsOut),
        (*WRITE_REFUSALS, 409, 429),
        (NAME,),
        lines=True,
    ),
    Offer(
        "PUT",
        f"{OWN}/outcomes/{{id:path}}",
        writing.outcome,
        OUTCOME,
        (m.OutcomeIn,),
        (m.OutcomeOut,),
        (*WRITE_REFUSALS, 409, 410, 429),
        (NAME, ID),
    ),
    Offer(
        "POST",
        f"{OWN}/outcomes",
        writing.outcomes,
        OUTCOME,
        (m.OutcomesIn,),
        (m.OutcomesOut,),
        WRITE_REFUSALS,
        (NAME,),
        lines=True,
    ),
    Offer(
        "POST",
        f"{OWN}/preview",
        reading.preview,
        FORECAST,
        (m.PreviewIn,),
        (m.PreviewOut, m.ForecastsOut),
        WRITE_REFUSALS,
        (NAME,),
    ),
    Offer(
        "POST",
        f"{OWN}/corrections/{{id:path}}",
        writing.correction,
        ADMIN,
        (m.CorrectionIn,),
        (m.CorrectionOut,),
        (*WRITE_REFUSALS, 409),
        (NAME, ID),
    ),
    Offer("GET", f"{OWN}/forecasts/{{id:path}}", reading.forecast, READ, (), (m.ForecastShown,), parameters=(NAME, ID)),
    Offer(
        "GET", f"{OWN}/decide/{{id:path}}", reading.decision, READ, (), (m.DecisionOut,), parameters=(NAME, ID, LOSS)
    ),
    Offer("GET", f"{OWN}/status", reading.show_status, READ, (), (Status,), parameters=(NAME,)),
    Offer("GET", f"{OWN}/certificate", reading.certificate, READ, parameters=(NAME,)),
    Offer("GET", f"{OWN}/alarms", reading.alarms, READ, parameters=(NAME,)),
    Offer("GET", f"{OWN}/audit", reading.audit, READ, refusals=(*READ_REFUSALS, 413), parameters=(NAME, SINCE, UNTIL)),
    Offer(
        "GET",
        f"{OWN}/report",
        reading.report,
        READ,
        refusals=(*READ_REFUSALS, 413),
        parameters=(NAME, SINCE, UNTIL),
        media="text/html",
    ),
    Offer("GET", OWN, reading.forecaster, READ, (), (m.ForecasterOut,), parameters=(NAME,)),
    Offer(
        "POST",
        "/v1/forecasters",
        reading.make,
        ADMIN,
        (Settings,),
        (m.ForecasterOut,),
        (*(status for status in WRITE_REFUSALS if status != 404), 409, 429),
        statuses=(200, 201),
    ),
    Offer("GET", "/v1/forecasters", reading.forecasters, READ, (), (m.ForecastersOut,), (503,)),
)
