"""Wealth of bets against a forecast: products for the lifetime test, Shiryaev–Roberts sums for the change detector."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.jit import inlined, lean, shared

STAKES = 6
"""Stakes per direction."""
LANES = 2 * STAKES
"""Bets of a cell: bet 2i says that outcomes are more frequent than forecast, bet 2i + 1 that they are rarer."""

# What a bet remembers: product of its gains since the last fold, logarithm of its wealth up to there, the
# Shiryaev–Roberts sum, the cumulative sum, and that one's start with the rows, residuals and squares since.
GAIN, LOG, SUM, CUSUM, START, ROWS, RESIDUAL, SQUARE = range(8)
FIELDS = 8

CEILING = 1e100
"""Sums stop here: far beyond every alarm, and low enough that one more gain cannot overflow."""


@inlined
def step(
    bets: Array, cell: int, gain: Array, shares: Array, residual: float, square: float, clock: float
) -> tuple[float, float]:
    """Let every bet of a cell play one row; return Σ shares·SUM of the bets upwards and of those downwards.

    SUM ← (1 + SUM)·gain counts every possible start of a change; CUSUM ← max(1, CUSUM)·gain keeps the best one.
    """
    for i in range(LANES):
        fresh = bets[cell, CUSUM, i] <= 1.0
        bets[cell, GAIN, i] *= gain[i]
        bets[cell, SUM, i] = min((1.0 + bets[cell, SUM, i]) * gain[i], CEILING)
        bets[cell, CUSUM, i] = min((1.0 if fresh else bets[cell, CUSUM, i]) * gain[i], CEILING)
        bets[cell, START, i] = clock if fresh else bets[cell, START, i]
        bets[cell, ROWS, i] = (0.0 if fresh else bets[cell, ROWS, i]) + 1.0
        bets[cell, RESIDUAL, i] = (0.0 if fresh else bets[cell, RESIDUAL, i]) + residual
        bets[cell, SQUARE, i] = (0.0 if fresh else bets[cell, SQUARE, i]) + square
    up, down = 0.0, 0.0
    for i in range(0, LANES, 2):
        up += shares[i] * bets[cell, SUM, i]
        down += shares[i + 1] * bets[cell, SUM, i + 1]
    return up, down


# Wealth of bets against a forecast: products for the lifetime test, Shiryaev–Roberts sums for the change detector.
#
# Each group and range of forecasts is a cell of `LANES` bets; a group's cells are the nodes of its tree of ranges,
# root
# first, the children of node i being 2i and 2i + 1 when counted from 1.

# What a cell remembers beside its bets: counts and sums; then, per direction, when each alarm was raised and the
# largest value that led or would have led to it; and the clock of its first row.
VISITS, FORECAST, TOTAL, TOTAL_SQUARE = range(4)
CHANGE_AT, CHANGE_PEAK, LIFE_AT, LIFE_PEAK = 4, 6, 8, 10
FIRST = 12
NOTES = 13

FOLD = 64
"""Rows of a cell after which products are folded into logarithms; until then they cannot leave the range of floats."""


class BetState(NamedTuple):
    """The state of all bets."""

    bets: Array
    """(cells, FIELDS, LANES)"""
    notes: Array
    """(cells, NOTES)"""


class Terms(NamedTuple):
    """Settings, fixed before the first row."""

    stakes: Array
    """(LANES,) the k of every bet, 0 where there is no bet"""
    shares: Array
    """(LANES,) 1 / number of stakes, 0 where there is no bet"""
    edges: Array
    """(leaves − 1,) inner edges of the finest ranges"""
    limits: Array
    """(2,) tolerance, and what a cell's mean sum of one direction must reach"""


def blank_bet_state(cells: int) -> BetState:
    """Return cells that have seen no row."""
    bets, notes = np.zeros((cells, FIELDS, LANES)), np.zeros((cells, NOTES))
    bets[:, GAIN] = 1.0
    notes[:, CHANGE_AT:CHANGE_PEAK] = np.nan
    notes[:, LIFE_AT:LIFE_PEAK] = np.nan
    notes[:, FIRST] = np.nan
    return BetState(bets, notes)


@shared
def price(p: float, y: float, stakes: Array, tolerance: float, gain: Array) -> None:
    """Write the gain 1 + λ(s(y − p) − ε) of every bet, with λ = k / (1 + k·p) upwards, k / (1 + k·(1 − p)) downwards.

    Without tolerance, λ multiplies the odds of what is bet on by 1 + k. It is known before y. The smallest gain,
    (1 − kε) / (1 + k·p) upwards, is positive as long as kε < 1.
    """
    up, down = y - p - tolerance, p - y - tolerance
    for i in range(0, LANES, 2):
        gain[i] = 1.0 + stakes[i] * up / (1.0 + stakes[i] * p)
        gain[i + 1] = 1.0 + stakes[i + 1] * down / (1.0 + stakes[i + 1] * (1.0 - p))


@inlined
def leaf(p: float, edges: Array) -> int:
    """Return which of the finest ranges holds p; an edge belongs to the range above it."""
    found = 0
    for i in range(edges.shape[0]):
        found += 1 if p >= edges[i] else 0
    return found


@inlined
def notice(note: Array, peak: int, raised: int, value: float, limit: float, clock: float) -> None:
    """Remember the largest value so far, and when it first reached the limit."""
    if value > note[peak]:
        note[peak] = value
        if value >= limit and np.isnan(note[raised]):
            note[raised] = clock


@shared
def log_wealth(bets: Array, shares: Array, side: int) -> float:
    """Return the logarithm of one direction's wealth in a cell, the mean over its stakes."""
    top = -np.inf
    for i in range(side, LANES, 2):
        if shares[i] > 0.0:
            top = max(top, bets[LOG, i] + np.log(bets[GAIN, i]))
    total = 0.0
    for i in range(side, LANES, 2):
        if shares[i] > 0.0:
            total += shares[i] * np.exp(bets[LOG, i] + np.log(bets[GAIN, i]) - top)
    return float(top + np.log(total))


@shared
def fold(bets: Array, note: Array, shares: Array, limit: float, clock: float) -> None:
    """Move products into logarithms, and notice the lifetime wealth."""
    for side in range(2):
        notice(note, LIFE_PEAK + side, LIFE_AT + side, log_wealth(bets, shares, side), limit, clock)
    for i in range(LANES):
        bets[LOG, i] += np.log(bets[GAIN, i])
        bets[GAIN, i] = 1.0


@lean
def advance(
    bet_state: BetState,
    terms: Terms,
    members: Integers,
    life_limits: Array,
    p: Array,
    y: Array,
    clock: Array,
    gain: Array,
) -> None:
    """Let every row play in all its cells, in order.

    Parameters
    ----------
    members : (rows, columns) group of each row in every column
    life_limits : (groups, nodes) logarithm of the wealth at which a cell's lifetime alarm is raised
    p, y, clock : (rows,) mean forecasts, outcomes, times or row numbers
    gain : (LANES,) scratch
    """
    leaves = terms.edges.shape[0] + 1
    nodes = 2 * leaves - 1
    tolerance, limit = terms.limits[0], terms.limits[1]
    for t in range(p.shape[0]):
        price(p[t], y[t], terms.stakes, tolerance, gain)
        residual = y[t] - p[t]
        square = residual * residual
        lowest = leaves + leaf(p[t], terms.edges)
        for j in range(members.shape[1]):
            group = members[t, j]
            node = lowest
            while node >= 1:
                cell = group * nodes + node - 1
                up, down = step(bet_state.bets, cell, gain, terms.shares, residual, square, clock[t])
                note = bet_state.notes[cell]
                notice(note, CHANGE_PEAK, CHANGE_AT, up, limit, clock[t])
                notice(note, CHANGE_PEAK + 1, CHANGE_AT + 1, down, limit, clock[t])
                if note[VISITS] == 0.0:
                    note[FIRST] = clock[t]
                note[VISITS] += 1.0
                note[FORECAST] += p[t]
                note[TOTAL] += residual
                note[TOTAL_SQUARE] += square
                if int(note[VISITS]) % FOLD == 0:
                    fold(bet_state.bets[cell], note, terms.shares, life_limits[group, node - 1], clock[t])
                node >>= 1


@lean
def survey(bet_state: BetState, shares: Array, sums: Array, logs: Array) -> None:
    """Write every cell's mean sum and log-wealth of both directions, shape (cells, 2); cells without rows are left."""
    for cell in range(sums.shape[0]):
        if bet_state.notes[cell, VISITS] > 0.0:
            for side in range(2):
                total = 0.0
                for i in range(side, LANES, 2):
                    total += shares[i] * bet_state.bets[cell, SUM, i]
                sums[cell, side] = total
                logs[cell, side] = log_wealth(bet_state.bets[cell], shares, side)
