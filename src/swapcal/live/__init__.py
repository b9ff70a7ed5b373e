"""Live use: raw records in, forecasts out, labels whenever they come."""

from swapcal.live.learned import Learned
from swapcal.live.ledger import ConflictingLabelError, ExpiredIdError, Status, UnknownIdError
from swapcal.live.live import Live, Trace

__all__ = ["ConflictingLabelError", "ExpiredIdError", "Learned", "Live", "Status", "Trace", "UnknownIdError"]
