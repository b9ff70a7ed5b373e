"""Messages: what goes in and out as JSON; the OpenAPI document is made of these types."""

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import force_setattr

from swapcal.service.events import Probability, Weight, record_of
from swapcal.service.settings import ApiError, Name, Settings
from swapcal.tables.values import seconds_of

if TYPE_CHECKING:  # as rows hold them once they are made
    Id = str
    Moment = float | None
    Outcome = float
else:
    Id = Annotated[str | int, Meta(description="1 to 256 characters; an integer is its decimal digits")]
    Moment = Annotated[
        float | str | None, Meta(description="a number, or a date and time in ISO 8601 (seconds since 1970)")
    ]
    Outcome = Annotated[float, Meta(ge=0, le=1)] | bool
Record = dict[str, str | int | float | bool | None]


def _settle(row: Any, *moments: str) -> None:
    """Turn what JSON may hold in a row into what it means: an id into text, moments into numbers."""
    force_setattr(row, "id", str(row.id))
    for name in moments:
        force_setattr(row, name, moment_of(name, getattr(row, name)))


class ForecastIn(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A record to be forecast, as it was sent."""

    id: Id
    record: Raw
    time: Moment = None
    matures: Moment = None

    def __post_init__(self) -> None:
        """Settle id and moments, where they are not yet what they mean."""
        if type(self.id) is not str or self.time is not None or self.matures is not None:
            _settle(self, "time", "matures")

    @cached_property
    def values(self) -> dict[str, Any]:
        """The record's values; raises `msgspec.ValidationError` for what is no flat object."""
        return record_of(self.record)


class ForecastBodyIn(Struct, frozen=True, forbid_unknown_fields=True):
    """One forecast, or many."""

    id: Id | UnsetType = UNSET
    record: Raw | UnsetType = UNSET
    time: Moment = None
    matures: Moment = None
    forecasts: list[Raw] | UnsetType = UNSET


class ForecastOut(Struct, frozen=True):
    """A forecast that is on disk: `p` was drawn from `low` and `high`, the latter with probability `weight`."""

    id: str
    p: Probability
    mean: Probability
    low: Probability
    high: Probability
    weight: Probability
    seq: int


class PreviewIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Records to be forecast without storing anything: one, or many."""

    record: Raw | UnsetType = UNSET
    records: list[Raw] | UnsetType = UNSET


class PreviewOut(Struct, frozen=True, gc=False):
    """What would be forecast now."""

    p: Probability
    mean: Probability
    low: Probability
    high: Probability
    weight: Probability


class OutcomeIn(Struct, frozen=True, forbid_unknown_fields=True):
    """An outcome, of the id in the address."""

    y: Outcome
    time: Moment = None
    weight: Weight = 1.0


class OutcomeRowIn(Struct, frozen=True, forbid_unknown_fields=True):
    """An outcome with its id."""

    id: Id
    y: Outcome
    time: Moment = None
    weight: Weight = 1.0

    def __post_init__(self) -> None:
        """Settle id, outcome and moment, where they are not yet what they mean."""
        if type(self.id) is not str or type(self.y) is not float or self.time is not None:
            _settle(self, "time")
            force_setattr(self, "y", float(self.y))


class OutcomesIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Many outcomes."""

    outcomes: list[Raw]


class OutcomeOut(Struct, frozen=True):
    """What became of an outcome: learned, held, parked, repeated, or corrected (learned as silence before it came)."""

    id: str
    y: float
    state: str
    seq: int


class CorrectionIn(Struct, frozen=True, forbid_unknown_fields=True):
    """What an outcome should have been, and why; without a weight that stays as it was."""

    y: Outcome
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    weight: Weight | None = None


class CorrectionRow(Struct, frozen=True, gc=False):
    """A correction with its id."""

    id: str
    y: float
    reason: str
    weight: float | None = None


class CorrectionOut(Struct, frozen=True):
    """A correction that is on disk."""

    id: str
    y: float
    before: float
    reason: str
    seq: int
    weight: float = 1.0


class ForecasterOut(Struct, frozen=True):
    """A forecaster and its settings."""

    name: Name
    settings: Settings


class ForecastersOut(Struct, frozen=True):
    """All forecasters."""

    forecasters: list[ForecasterOut]


class ForecastsOut(Struct, frozen=True):
    """An answer per forecast: the forecast, or a problem."""

    forecasts: list[Any]


class OutcomesOut(Struct, frozen=True):
    """An answer per outcome: what became of it, or a problem."""

    outcomes: list[Any]


class CorrectionShown(Struct, frozen=True):
    """A correction as shown with its forecast."""

    y: float
    before: float
    reason: str
    seq: int
    accepted: float
    weight: float | None = None


class OutcomeShown(Struct, frozen=True):
    """An outcome as shown with its forecast."""

    y: float
    seq: int
    accepted: float
    time: float | None
    parked: bool
    weight: float = 1.0


class ForecastShown(Struct, frozen=True):
    """Everything that is stored about a forecast.

    `state` is open, held, learned, silent (learned as silence at the end of its window), unlabelled (it expired),
    or parked (there is an outcome and no forecast yet).
    """

    id: str
    state: str
    seq: int | None = None
    accepted: float | None = None
    record: Record | None = None
    time: float | None = None
    matures: float | None = None
    p: float | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    weight: float | None = None
    model: str | None = None
    outcome: OutcomeShown | None = None
    silence: float | None = None
    corrections: list[CorrectionShown] = []
    explanation: Any = None


class DecisionOut(Struct, frozen=True):
    """The action that a forecast calls for under a loss, and what it is expected to cost.

    It was acted upon at its `mean`, or, if that was asked for, at its level `p`: identical cases may get neighbouring
    levels.
    """

    id: str
    loss: str
    action: float
    label: str | None
    expected_cost: float
    before_draw: float
    p: float
    mean: float
    at: str


class Problem(Struct, frozen=True, omit_defaults=True):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    id: str | None = None
    given: Any = None
    known: Any = None


def id_of(given: Any, most: int) -> str:
    """Return an id as text, or refuse it.

    Examples
    --------
    >>> id_of(17, 256)
    '17'
    """
    text = str(given)
    if not 1 <= len(text) <= most:
        raise ApiError("invalid", f"id: given {len(text)} characters, expected 1 to {most}")
    if "\0" in text:
        raise ApiError("invalid", "id: given text with the character U+0000, expected text without")
    return text


def moment_of(name: str, given: "float | str | None") -> float | None:
    """Return a moment as a number: ISO text as seconds since 1970.

    Examples
    --------
    >>> moment_of("time", "1970-01-02"), moment_of("time", 3.5)
    (86400.0, 3.5)
    """
    if not isinstance(given, str):
        return None if given is None else float(given)
    seconds = seconds_of(given)
    if seconds in (float("inf"), float("-inf")):
        raise ApiError("invalid", f"{name}: given {given[:60]!r}, expected a number or an ISO date and time")
    return seconds


def decoded(decoder: "msgspec.json.Decoder[Any]", content: "bytes | Raw") -> Any:
    """Return decoded JSON, or refuse it in the words of the house."""
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise ApiError("invalid", in_words(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError("malformed", f"body: given invalid JSON ({error}), expected JSON") from None
    except RecursionError:
        raise ApiError("malformed", "body: given JSON nested too deeply, expected flat records") from None


def in_words(message: str) -> str:
    """Turn msgspec's message into "name: given …, expected …".

    Examples
    --------
    >>> in_words("Expected `float`, got `str` - at `$.y`")
    'y: given str, expected float'
    >>> in_words("Object missing required field `record`")
    'record: given none, expected one'
    """
    text, _, where = message.replace("`", "").partition(" - at ")
    name = where.removeprefix("$").removeprefix(".") or "body"
    if text.startswith("Object missing required field "):
        return f"{text.rpartition(' ')[2]}: given none, expected one"
    if text.startswith("Object contains unknown field "):
        return f"{text.rpartition(' ')[2]}: given, expected only fields that are known"
    expected, _, given = text.removeprefix("Expected ").partition(", got ")
    if text.startswith("Expected ") and given:
        return f"{name}: given {given}, expected {expected}"
    if text.startswith("Expected "):
        return f"{name}: given something else, expected {expected}"
    return f"{name}: {text[:1].lower()}{text[1:]}"
