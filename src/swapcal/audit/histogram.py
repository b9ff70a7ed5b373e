"""Histogram: a fine histogram of predictions and outcomes, for the familiar scores."""

import numpy as np
from scipy.fft import dct, idct

from swapcal.arrays import Array
from swapcal.audit.levels import equal_part
from swapcal.kernels.tally import SPECTRUM_BINS, add_spectrum

SMOOTH_CELLS = 2048
NARROW = 0.25


class Histogram:
    """Σα, Σαp and Σαy in bins of equal width in arcsin √p, and the summed log loss: additive.

    `impossible` counts the rows whose outcome had been given probability 0.
    """

    def __init__(self) -> None:
        self.bins: Array = np.zeros((SPECTRUM_BINS, 3))
        self.log_loss = 0.0
        self.impossible = 0

    def add(self, p: Array, y: Array, weights: Array) -> None:
        """Add checked rows."""
        self.log_loss += float(add_spectrum(p, y, weights, self.bins))
        self.impossible += int(np.sum((p <= 0.0) & (y > 0.0)) + np.sum((p >= 1.0) & (y < 1.0)))

    def merge(self, other: "Histogram") -> None:
        """Add another histogram."""
        self.bins = self.bins + other.bins
        self.log_loss += other.log_loss
        self.impossible += other.impossible

    def auc(self) -> tuple[float | None, float]:
        """Return the area under the ROC curve and how far ties within a bin can have moved it."""
        mass, _, ones = self.bins.T
        return area(mass - ones, ones)

    def smooth_ece(self) -> float:
        """Return the smooth calibration error of the residuals in the histogram."""
        used = self.bins[self.bins[:, 0] > 0]
        return smooth_error(used[:, 1] / used[:, 0], (used[:, 2] - used[:, 1]) / used[:, 0].sum())

    def density(self, bins: int) -> tuple[Array, Array]:
        """Return edges of equal-width bins and Σα in each, every fine bin counted where its mean prediction lies.

        The bins cover [0, 1], or only the predictions' own range where that is narrow: else rare events fill one bin.
        """
        used = self.bins[self.bins[:, 0] > 0]
        mean = used[:, 1] / used[:, 0]
        low, high = (mean.min(), mean.max()) if 0 < np.ptp(mean) < NARROW else (0.0, 1.0)
        place = np.clip(((mean - low) / (high - low) * bins).astype(np.intp), 0, bins - 1)
        counts = np.bincount(place, weights=used[:, 0], minlength=bins).astype(np.float64)
        return np.linspace(low, high, bins + 1), counts


def area(zeros: Array, ones: Array) -> tuple[float | None, float]:
    """Return AUC from the masses of both classes in increasing order of score, and half the mass of ties.

    Examples
    --------
    >>> area(np.array([3.0, 1.0]), np.array([0.0, 2.0]))
    (0.875, 0.125)
    """
    total = float(zeros.sum() * ones.sum())
    if total <= 0:
        return None, 0.0
    below = np.concatenate([[0.0], np.cumsum(zeros)[:-1]])
    ties = 0.5 * float(np.dot(zeros, ones)) / total
    return float(np.dot(below, ones)) / total + ties, ties


def smooth_error(p: Array, residual: Array) -> float:
    """Smooth ECE (Błasiok and Nakkiran 2023).

    The σ at which the residuals, smoothed by a Gaussian of width σ reflected at 0 and 1, have total mass σ.

    Parameters
    ----------
    p, residual : (m,) places in [0, 1] and the residual mass there, divided by the total mass

    Examples
    --------
    All residuals have one sign, so no smoothing cancels anything.

    >>> round(smooth_error(np.array([0.3, 0.7]), np.array([0.05, 0.05])), 4)
    0.1
    """
    waves = dct(np.bincount(equal_part(p, SMOOTH_CELLS), weights=residual, minlength=SMOOTH_CELLS), norm="ortho")
    frequency = np.pi * np.arange(SMOOTH_CELLS)

    def smoothed(width: float) -> float:
        return float(np.abs(idct(waves * np.exp(-0.5 * (frequency * width) ** 2), norm="ortho")).sum())

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if smoothed(middle) > middle else (low, middle)
    return 0.5 * (low + high)
