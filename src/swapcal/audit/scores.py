"""The familiar scores, from the sums."""

import numpy as np

from swapcal import errors
from swapcal.arrays import Array
from swapcal.audit.histogram import area, smooth_error
from swapcal.audit.sizes import PLAIN
from swapcal.audit.sums import Sums
from swapcal.kernels import tally as kernel
from swapcal.kernels.logloss import log_losses


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


def intervals(sums: Sums) -> dict[str, float]:
    """Return the ends of 95 % intervals of Brier score, log loss and AUC, rows being independent.

    How much the losses vary from row to row is taken from the rows that are kept, all of them or a sample by hash.
    """
    rows = sums.kept()
    found: dict[str, float] = {}
    for name, value, losses in (
        ("brier", brier(sums), (rows.y - rows.p) ** 2),
        ("log_loss", log_loss(sums), log_losses(rows.p, rows.y)),
    ):
        half = PLAIN * _error(sums, losses, value)
        found |= {f"{name}_low": max(value - half, 0.0), f"{name}_high": value + half}
    ranked, half = auc(sums)[0], PLAIN * _auc_error(sums)
    if ranked is not None:
        found |= {"auc_low": max(ranked - half, 0.0), "auc_high": min(ranked + half, 1.0)}
    return found


def _error(sums: Sums, losses: Array, mean: float) -> float:
    """Return the standard error of a weighted mean over all rows, its spread estimated on those kept."""
    rows = sums.kept()
    count = float(rows.copies.sum())
    spread = float(np.sum(rows.copies * rows.weights**2 * (losses - mean) ** 2)) / max(count - 1, 1)
    return float(np.sqrt(spread * sums.rows)) / sums.n


def _auc_error(sums: Sums) -> float:
    """Return the standard error of the AUC by Hanley and McNeil, weights counting by their effective number of rows."""
    area = auc(sums)[0]
    table = sums.tally.table.sum(axis=0)
    if area is None:
        return 0.0
    rows = table[kernel.MASS] ** 2 / table[kernel.MASS2]
    rate = table[kernel.OBSERVED] / table[kernel.MASS]
    ones, zeros = max(rate * rows, 1.0), max((1 - rate) * rows, 1.0)
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (ones - 1) * (first - area**2) + (zeros - 1) * (second - area**2)
    return float(np.sqrt(max(variance, 0.0) / (ones * zeros)))
