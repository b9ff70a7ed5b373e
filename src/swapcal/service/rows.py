"""Rows: what a request asks for, one at a time, checked as far as that needs no forecaster."""

from typing import Any, NamedTuple

from msgspec import Raw

from swapcal.service.bodies import Issued


class ForecastRow(NamedTuple):
    """A forecast that is asked for; `raw` is the record as it was sent."""

    id: str
    raw: Raw
    record: dict[str, Any]
    time: float | None
    matures: float | None


class OutcomeRow(NamedTuple):
    """An outcome that is reported."""

    id: str
    y: float
    time: float | None


class CorrectionRow(NamedTuple):
    """An outcome that is said to have been another."""

    id: str
    y: float
    reason: str


class Forecasted(NamedTuple):
    """A forecast that is on disk."""

    id: str
    issued: Issued
    seq: int
    repeated: bool


class Reported(NamedTuple):
    """An outcome that is on disk."""

    id: str
    y: float
    state: str
    seq: int


class Corrected(NamedTuple):
    """A correction that is on disk."""

    id: str
    y: float
    before: float
    reason: str
    seq: int
    repeated: bool
