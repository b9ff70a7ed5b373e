"""Live use: raw records in, forecasts out, labels whenever they come."""

from swapcal.live.labels import ConflictingLabelError, Status, UnknownIdError
from swapcal.live.live import Live, Trace

__all__ = ["ConflictingLabelError", "Live", "Status", "Trace", "UnknownIdError"]
