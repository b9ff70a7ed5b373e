"""History: forecasts and their outcomes from the log, for audits."""

from typing import Any, NamedTuple

import numpy as np

from swapcal.audit import Audit
from swapcal.service import bodies
from swapcal.service.event import CORRECTION, FORECAST, OUTCOME
from swapcal.service.refusal import Refusal
from swapcal.service.settings import Settings
from swapcal.service.store import Store


class PastForecast(NamedTuple):
    """A forecast whose outcome is known."""

    p: float
    low: float
    high: float
    weight: float
    y: float
    time: float
    groups: tuple[Any, ...]


class AuditedPeriod(NamedTuple):
    """Forecasts made from one time on and before another; either may be open."""

    since: float | None = None
    until: float | None = None

    def holds(self, time: float) -> bool:
        """Tell whether a time lies in it."""
        return (self.since is None or self.since <= time) and (self.until is None or time < self.until)


def past(store: Store, settings: Settings, span: AuditedPeriod, most: int) -> list[PastForecast]:
    """Return forecasts in a span whose outcomes are known, in order; corrected outcomes as corrected.

    The time of a forecast is the one given with it, or else when it was accepted.
    """
    made: dict[str, PastForecast] = {}
    outcomes: dict[str, float] = {}
    for event in store.events(settings.name):
        if event.kind == FORECAST:
            body = bodies.forecast_body(event.body)
            time = event.time if body.time is None else body.time
            if span.holds(time):
                record = bodies.record_of(body.record)
                groups = tuple(record.get(name) for name in settings.groups)
                made[event.id] = PastForecast(body.p, body.low, body.high, body.weight, np.nan, time, groups)
                if len(made) > most:
                    raise Refusal("large", f"audit: given more than {most:,} forecasts, expected a shorter span")
        elif event.kind == OUTCOME and event.id in made:
            outcomes[event.id] = bodies.outcome_body(event.body).y
        elif event.kind == CORRECTION and event.id in outcomes:
            outcomes[event.id] = bodies.correction_body(event.body).y
    return [row._replace(y=outcomes[id]) for id, row in made.items() if id in outcomes]


def audit(store: Store, settings: Settings, span: AuditedPeriod, most: int = 1_000_000) -> Audit:
    """Return the audit of the issued levels in a span, by the forecaster's groups."""
    rows = past(store, settings, span, most)
    if not rows:
        raise Refusal("unknown", "audit: given a span without a known outcome, expected at least one")
    columns = dict(zip(PastForecast._fields, zip(*rows, strict=True), strict=True))
    by_group = zip(*columns["groups"], strict=True)
    groups = {name: [*values] for name, values in zip(settings.groups, by_group, strict=True)}
    numbers: dict[str, Any] = {
        name: np.array(columns[name], np.float64) for name in ("p", "y", "low", "high", "weight")
    }
    return Audit(**numbers, groups=groups or None, time=_times(columns["time"]), title=settings.name)


def _times(times: tuple[float, ...]) -> Any:
    """Return times as dates if they look like seconds since 1970 in this age, else as numbers."""
    if min(times) < 1e8 or max(times) > 1e10:
        return np.array(times)
    return (np.array(times) * 1e6).astype("datetime64[us]")
