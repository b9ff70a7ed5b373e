"""Live use: raw records in, forecasts out, labels whenever they come."""

from swapcal.live.learned import Learned
from swapcal.live.ledger import ConflictingLabelError, ExpiredIdError, UnknownIdError
from swapcal.live.live import Live
from swapcal.live.refit import Refit
from swapcal.live.status import Status
from swapcal.live.trace import Trace

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
