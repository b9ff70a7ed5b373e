"""Live use: raw records in, forecasts out, labels whenever they come."""

from swapcal.live.learned import Learned
from swapcal.live.ledger import ConflictingLabelError, ExpiredIdError, Status, UnknownIdError
from swapcal.live.live import Live, Trace
from swapcal.live.refit import Refit

__all__ = [
    "ConflictingLabelError",
    "ExpiredIdError",
    "Learned",
    "Live",
    "Refit",
    "Status",
    "Trace",
    "UnknownIdError",
]
