"""Live use: raw records in, forecasts out, labels whenever they come."""

from swapcal.live.live import Live
from swapcal.live.open_forecasts import ConflictingLabelError, ExpiredIdError, UnknownIdError
from swapcal.live.refit import Refit
from swapcal.live.scheduler import Learned, Trace
from swapcal.live.status import Status

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
