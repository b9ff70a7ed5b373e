"""Size: how far off a cell has been since its change began, with an interval that holds whenever one looks."""

from typing import NamedTuple

from swapcal.arrays import Array
from swapcal.bounds import deviation_radius, start_share
from swapcal.kernels.play import CUSUM, RESIDUAL, ROWS, SQUARE, START
from swapcal.kernels.wealth import FIRST, TOTAL, TOTAL_SQUARE, VISITS


class Size(NamedTuple):
    """Mean of y − p over the rows since `since`, and an interval for the mean of E[y − p | past]."""

    since: float
    rows: int
    gap: float
    low: float
    high: float


def since_change(bets: Array, note: Array, shares: Array, side: int, alpha: float) -> Size:
    """Return the size since the start that the best of the direction's bets would choose with hindsight.

    `alpha` is the whole cell's budget; every possible start has a part of it that was fixed beforehand, so choosing
    the start after looking is allowed.
    """
    lanes = [lane for lane in range(side, len(shares), 2) if shares[lane] > 0]
    best = max(lanes, key=lambda lane: float(bets[CUSUM, lane]))
    rows, total, squares = (float(bets[field, best]) for field in (ROWS, RESIDUAL, SQUARE))
    before = max(0.0, float(note[VISITS]) - rows)
    return _size(float(bets[START, best]), rows, total, squares, 0.5 * alpha * float(start_share(before)))


def since_first(note: Array, alpha: float) -> Size:
    """Return the size over all rows of the cell."""
    rows, total, squares = (float(note[field]) for field in (VISITS, TOTAL, TOTAL_SQUARE))
    return _size(float(note[FIRST]), rows, total, squares, 0.5 * alpha * float(start_share(0)))


def _size(since: float, rows: float, total: float, squares: float, tail: float) -> Size:
    radius = float(deviation_radius(squares, tail))
    gap = total / rows
    return Size(since, int(rows), gap, max(-1.0, gap - radius / rows), min(1.0, gap + radius / rows))
