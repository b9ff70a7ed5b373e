"""Merge: the books of two monitors as one, cell by cell; both must have the same cells."""

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.play import CEILING, CUSUM, GAIN, LOG, RESIDUAL, ROWS, SQUARE, START, SUM
from swapcal.kernels.wealth import (
    CHANGE_AT,
    CHANGE_PEAK,
    FIRST,
    FORECAST,
    LIFE_AT,
    LIFE_PEAK,
    TOTAL,
    TOTAL_SQUARE,
    VISITS,
    Book,
)
from swapcal.monitor.evidence import lane_log_wealth

SEGMENT = [START, ROWS, RESIDUAL, SQUARE]
ADDED = [VISITS, FORECAST, TOTAL, TOTAL_SQUARE]


def consecutive(first: Book, second: Book) -> Book:
    """Return the book of one monitor that had seen the rows of both, one after the other.

    Wealth multiplies. The sums are affine in where they start, so S = S₂ + S₁·W₂, and the cumulative sum is
    max(C₁·W₂, C₂). Alarms raised within the second part because of the first are seen only if they last to its end.
    """
    bets = first.bets.copy()
    growth = np.exp(np.minimum(lane_log_wealth(second), 230.0))
    carried = np.minimum(first.bets[:, CUSUM] * growth, CEILING)
    older = carried > second.bets[:, CUSUM]
    bets[:, SUM] = np.minimum(second.bets[:, SUM] + first.bets[:, SUM] * growth, CEILING)
    bets[:, CUSUM] = np.where(older, carried, second.bets[:, CUSUM])
    extended = first.bets[:, SEGMENT].copy()
    for row, field in ((1, VISITS), (2, TOTAL), (3, TOTAL_SQUARE)):
        extended[:, row] += second.notes[:, field, None]
    bets[:, SEGMENT] = np.where(older[:, None], extended, second.bets[:, SEGMENT])
    return Book(_multiplied(bets, first, second), _noted(first, second))


def parallel(first: Book, second: Book) -> Book:
    """Return one book for rows that two monitors saw side by side.

    Wealth multiplies, in whatever order the rows are interleaved. Sums add: S₁ + S₂ grows by at most one per row of
    either, so the mean run length counts the rows of both. The estimated start is that of the stronger one.
    """
    bets = first.bets.copy()
    older = first.bets[:, CUSUM] > second.bets[:, CUSUM]
    bets[:, SUM] = np.minimum(first.bets[:, SUM] + second.bets[:, SUM], CEILING)
    bets[:, CUSUM] = np.where(older, first.bets[:, CUSUM], second.bets[:, CUSUM])
    bets[:, SEGMENT] = np.where(older[:, None], first.bets[:, SEGMENT], second.bets[:, SEGMENT])
    notes = _noted(first, second)
    notes[:, LIFE_AT:LIFE_PEAK] = np.nan  # neither part's lifetime wealth is that of the whole at any earlier time
    notes[:, LIFE_PEAK:FIRST] = 0.0
    return Book(_multiplied(bets, first, second), notes)


def _multiplied(bets: Array, first: Book, second: Book) -> Array:
    bets[:, LOG] = lane_log_wealth(first) + lane_log_wealth(second)
    bets[:, GAIN] = 1.0
    return bets


def _noted(first: Book, second: Book) -> Array:
    """Add what is counted; of each change alarm keep the earlier time and the larger peak.

    Lifetime peaks of the first stay: its rows are a beginning of the joined rows. Those of the second were another bet.
    """
    notes = first.notes.copy()
    notes[:, ADDED] += second.notes[:, ADDED]
    notes[:, FIRST] = np.fmin(notes[:, FIRST], second.notes[:, FIRST])
    at, peak = slice(CHANGE_AT, CHANGE_PEAK), slice(CHANGE_PEAK, LIFE_AT)
    notes[:, at] = np.fmin(notes[:, at], second.notes[:, at])
    notes[:, peak] = np.maximum(notes[:, peak], second.notes[:, peak])
    return notes
