"""Bodies of events: what the log holds as JSON, from which everything can be computed again."""

from typing import Any

import msgspec
from msgspec import Raw

PARKED = "parked"
"""Kind of event: an outcome whose forecast has not come; a forecast that comes in time makes it an `outcome`."""


class Issued(msgspec.Struct, frozen=True, gc=False):
    """What was forecast."""

    p: float
    mean: float
    low: float
    high: float
    weight: float


class ForecastBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record, its moments in the user's time, and what was answered."""

    record: Raw
    p: float
    mean: float
    low: float
    high: float
    weight: float
    model: str
    time: float | None = None
    matures: float | None = None

    @property
    def issued(self) -> Issued:
        """What was forecast."""
        return Issued(self.p, self.mean, self.low, self.high, self.weight)


class OutcomeBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """An outcome that was delivered; `state` as answered, `parked` if it came before its forecast."""

    y: float
    state: str
    time: float | None = None
    parked: bool = False


class ParkedBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """An outcome that waits for its forecast."""

    y: float
    time: float | None = None


class CorrectionBody(msgspec.Struct, frozen=True):
    """What an outcome is now said to have been, what it was said to be before, and why."""

    y: float
    before: float
    reason: str


_ENCODER = msgspec.json.Encoder()
_FORECAST = msgspec.json.Decoder(ForecastBody)
_OUTCOME = msgspec.json.Decoder(OutcomeBody)
_PARKED = msgspec.json.Decoder(ParkedBody)
_CORRECTION = msgspec.json.Decoder(CorrectionBody)
_RECORD = msgspec.json.Decoder(dict[str, str | int | float | bool | None])

encoded = _ENCODER.encode
forecast_body = _FORECAST.decode
outcome_body = _OUTCOME.decode
parked_body = _PARKED.decode
correction_body = _CORRECTION.decode


def record_of(raw: "Raw | bytes") -> dict[str, Any]:
    """Return a record's values; raises `msgspec.ValidationError` for what is no flat object.

    Examples
    --------
    >>> record_of(b'{"shop": "a", "price": 3.0}')
    {'shop': 'a', 'price': 3.0}
    """
    return _RECORD.decode(raw)


def same_record(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Tell whether two records say the same; 1 is 1.0 but not true, as in JSON.

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
