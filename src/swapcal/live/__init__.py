"""Live use: raw records in, forecasts out, labels whenever they come."""

from swapcal.live.ledger import ConflictingLabelError, ExpiredIdError, Status, UnknownIdError
from swapcal.live.live import Live, Trace

__all__ = ["ConflictingLabelError", "ExpiredIdError", "Live", "Status", "Trace", "UnknownIdError"]
