"""`Limits`: how much of everything, so that nobody can fill the queue, the memory or the disk unnoticed."""

from typing import Annotated

import msgspec
from msgspec import Meta

Most = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Each limit with the status code of what exceeds it.

    Examples
    --------
    >>> Limits(rows=100).rows
    100
    """

    body: Most = 8 << 20
    """bytes of a request: 413"""
    rows: Most = 10_000
    """forecasts or outcomes of a request: 413"""
    id: Most = 256
    """characters of an id: 422"""
    columns: Most = 1_000
    """columns of a record: 422"""
    open: Most = 1_000_000
    """open forecasts of a forecaster whose `max_open` is larger: 429"""
    parked: Most = 100_000
    """outcomes of a forecaster that wait for their forecasts: 429"""
    forecasters: Most = 1_000
    """429"""
    queue: Most = 20_000
    """rows waiting to be learned: 503"""
    connections: Most = 1_000
    """at a time: 503"""
    arrival: Seconds = 10.0
    """seconds for a request to arrive: 408"""
    answer: Seconds = 30.0
    """seconds for an answer: 503"""
