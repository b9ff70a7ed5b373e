"""The familiar scores, from the sums."""

import numpy as np

from swapcal import errors
from swapcal.audit.histogram import area, smooth_error
from swapcal.audit.sums import Sums
from swapcal.kernels import tally as kernel


def ece(sums: Sums) -> float:
    """Return the expected calibration error over the levels: Cal_1 per row."""
    return float(errors.cal(sums.tally.n, sums.tally.A, 1)) / sums.n


def smooth_ece(sums: Sums) -> float:
    """Return the smooth calibration error, from the rows if all are kept, else from the histogram."""
    if not sums.sample.complete:
        return sums.histogram.smooth_ece()
    rows = sums.kept()
    return smooth_error(rows.p, rows.copies * rows.weights * (rows.y - rows.p) / sums.n)


def brier(sums: Sums) -> float:
    """Return the mean squared error."""
    return float(sums.tally.table[:, kernel.SQUARED].sum()) / sums.n


def brier_split(sums: Sums) -> tuple[float, float]:
    """Return the calibration and the refinement part of the Brier score; they add up to it."""
    calibration = float(errors.cal(sums.tally.n, sums.tally.A, 2)) / sums.n
    return calibration, brier(sums) - calibration


def log_loss(sums: Sums) -> float:
    """Return the mean log loss in nats, with probabilities kept 10⁻⁶ away from 0 and 1 (`kernels.logloss`)."""
    return sums.histogram.log_loss / sums.n


def auc(sums: Sums) -> tuple[float | None, float]:
    """Return the area under the ROC curve and how far binning can have moved it."""
    if sums.sample.complete:
        rows = sums.kept()
        _, place = np.unique(rows.p, return_inverse=True)
        mass = rows.copies * rows.weights
        total, ones = (np.bincount(place, weights=w).astype(np.float64) for w in (mass, mass * rows.y))
        return area(total - ones, ones)[0], 0.0
    if sums.levels.values is not None:
        ones = sums.tally.table[:, kernel.OBSERVED]
        return area(sums.tally.n - ones, ones)[0], 0.0
    return sums.histogram.auc()
