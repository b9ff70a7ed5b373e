"""Wealth of bets against a forecast: products for the lifetime test, Shiryaev–Roberts sums for the change detector."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.jit import inlined, lean, shared

STAKES = 6
"""Stakes per direction."""
LANES = 2 * STAKES
"""Bets of a cell: bet 2i on outcomes more frequent than forecast, bet 2i + 1 on rarer ones."""

# State of a bet: product of its gains since the last fold, logarithm of its wealth up to there, the
# Shiryaev–Roberts sum, the cumulative sum, and that one's start with the rows, residuals and squares since.
GAIN, LOG, SUM, CUSUM, START, ROWS, RESIDUAL, SQUARE = range(8)
FIELDS = 8

CEILING = 1e100
"""Sums stop here: far beyond every alarm, and low enough that one more gain cannot overflow."""


@inlined
def step(
    bets: Array, cell: int, gain: Array, shares: Array, residual: float, square: float, weight: float, clock: float
) -> tuple[float, float]:
    """Update every bet of a cell with one row; return Σ shares·SUM of the bets upwards and of those downwards.

    SUM ← (1 + SUM)·gain counts every possible start of a change; CUSUM ← max(1, CUSUM)·gain keeps the best one.
    """
    for i in range(LANES):
        fresh = bets[cell, CUSUM, i] <= 1.0
        bets[cell, GAIN, i] *= gain[i]
        bets[cell, SUM, i] = min((1.0 + bets[cell, SUM, i]) * gain[i], CEILING)
        bets[cell, CUSUM, i] = min((1.0 if fresh else bets[cell, CUSUM, i]) * gain[i], CEILING)
        bets[cell, START, i] = clock if fresh else bets[cell, START, i]
        bets[cell, ROWS, i] = (0.0 if fresh else bets[cell, ROWS, i]) + weight
        bets[cell, RESIDUAL, i] = (0.0 if fresh else bets[cell, RESIDUAL, i]) + residual
        bets[cell, SQUARE, i] = (0.0 if fresh else bets[cell, SQUARE, i]) + square
    up, down = 0.0, 0.0
    for i in range(0, LANES, 2):
        up += shares[i] * bets[cell, SUM, i]
        down += shares[i + 1] * bets[cell, SUM, i + 1]
    return up, down


# Each group and range of forecasts is a cell of `LANES` bets; a group's cells are the nodes of its tree of ranges, root
# first, the children of node i being 2i and 2i + 1 when counted from 1.

# State of a cell in addition to its bets: counts and sums; then, per direction, when each alarm was raised and the
# largest value that led or would have led to it; and the clock of its first row.
VISITS, FORECAST, TOTAL, TOTAL_SQUARE = range(4)
CHANGE_AT, CHANGE_PEAK, LIFE_AT, LIFE_PEAK = 4, 6, 8, 10
FIRST = 12
NOTES = 13

FOLD = 64
"""Rows of a cell after which products are folded into logarithms; until then they cannot leave the range of floats."""

# State of a raised change alarm at the time of its strongest evidence: the clock, and of the best bet then the
# start of its cumulative sum, the rows, residuals and squares since, and the rows of the cell before that start.
AT, SINCE, SPAN, GAP, SPREAD, BEFORE = range(6)
MARKS = 6

# An alarm in the log: cell, direction, when it was raised, its strongest evidence, when it ended, and the marks.
CELL, SIDE, RAISED, PEAK, ENDED = range(5)
ENTRY = 5 + MARKS

END = 1e-3
"""An alarm ends when its evidence has fallen to this part of its strongest.

If the forecasts were off as the bet assumes, its wealth would be a likelihood ratio, and would fall so far with at most
this probability.
"""


class BetState(NamedTuple):
    """The state of all bets."""

    bets: Array
    """(cells, FIELDS, LANES)"""
    notes: Array
    """(cells, NOTES)"""
    marks: Array
    """(cells, 2, MARKS)"""


class Terms(NamedTuple):
    """Settings, fixed before the first row."""

    stakes: Array
    """(LANES,) the k of every bet, 0 where there is no bet"""
    shares: Array
    """(LANES,) 1 / number of stakes, 0 where there is no bet"""
    edges: Array
    """(leaves − 1,) inner edges of the finest ranges"""
    limits: Array
    """(3,) tolerance, what a cell's mean sum of one direction must reach, and one over the largest weight"""


def blank_bet_state(cells: int) -> BetState:
    """Return cells that have seen no row."""
    bets, notes = np.zeros((cells, FIELDS, LANES)), np.zeros((cells, NOTES))
    bets[:, GAIN] = 1.0
    notes[:, CHANGE_AT:CHANGE_PEAK] = np.nan
    notes[:, LIFE_AT:LIFE_PEAK] = np.nan
    notes[:, FIRST] = np.nan
    return BetState(bets, notes, np.zeros((cells, 2, MARKS)))


@shared
def price(p: float, y: float, part: float, stakes: Array, tolerance: float, gain: Array) -> None:
    """Write the gain 1 + λu(s(y − p) − ε) of every bet, with λ = k / (1 + k·p) upwards, k / (1 + k·(1 − p)) downwards.

    Without tolerance, λ multiplies the odds of what is bet on by 1 + k. It is known before y. The smallest gain,
    (1 − kε) / (1 + k·p) upwards, is positive as long as kε < 1. The `part` u is the row's weight over the largest one.
    """
    up, down = part * (y - p - tolerance), part * (p - y - tolerance)
    for i in range(0, LANES, 2):
        gain[i] = 1.0 + stakes[i] * up / (1.0 + stakes[i] * p)
        gain[i + 1] = 1.0 + stakes[i + 1] * down / (1.0 + stakes[i + 1] * (1.0 - p))


@inlined
def leaf(p: float, edges: Array) -> int:
    """Return which of the finest ranges holds p; an edge belongs to the range above it."""
    place = 0
    for i in range(edges.shape[0]):
        place += 1 if p >= edges[i] else 0
    return place


@inlined
def notice(note: Array, peak: int, raised: int, value: float, limit: float, clock: float) -> None:
    """Keep the largest value so far, and when it first reached the limit."""
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


@inlined
def best_bet(bets: Array, side: int, shares: Array) -> int:
    """Return the direction's bet with the largest cumulative sum."""
    best = side
    for i in range(side + 2, LANES, 2):
        if shares[i] > 0.0 and bets[CUSUM, i] > bets[CUSUM, best]:
            best = i
    return best


@inlined
def mark(bet_state: BetState, cell: int, side: int, best: int, clock: float) -> None:
    """Copy what the direction's best bet has counted since its start."""
    bets, kept = bet_state.bets[cell], bet_state.marks[cell, side]
    kept[AT] = clock
    kept[SINCE] = bets[START, best]
    kept[SPAN] = bets[ROWS, best]
    kept[GAP] = bets[RESIDUAL, best]
    kept[SPREAD] = bets[SQUARE, best]
    kept[BEFORE] = bet_state.notes[cell, VISITS] - bets[ROWS, best]


@shared
def write(bet_state: BetState, cell: int, side: int, clock: float, entry: Array) -> None:
    """Write a raised alarm to the log, as one that ended."""
    entry[CELL], entry[SIDE], entry[ENDED] = cell, side, clock
    entry[RAISED] = bet_state.notes[cell, CHANGE_AT + side]
    entry[PEAK] = bet_state.notes[cell, CHANGE_PEAK + side]
    for i in range(MARKS):
        entry[ENDED + 1 + i] = bet_state.marks[cell, side, i]


@shared
def reset(bet_state: BetState, cell: int, side: int) -> None:
    """Start the detector of one direction anew."""
    for i in range(side, LANES, 2):
        bet_state.bets[cell, SUM, i] = 0.0
        bet_state.bets[cell, CUSUM, i] = 0.0
    bet_state.notes[cell, CHANGE_AT + side] = np.nan
    bet_state.notes[cell, CHANGE_PEAK + side] = 0.0


@inlined
def watch(
    bet_state: BetState, terms: Terms, cell: int, side: int, value: float, clock: float, log: Array, used: int
) -> int:
    """Raise, strengthen or end the alarm of one direction of a cell; return the entries of the log in use.

    Where the strongest evidence has come to rest on rows after the alarm was raised, that is another change: the alarm
    ended where these rows begin, or at its strongest if that was later, and a new one is raised.
    """
    note = bet_state.notes[cell]
    raised, peak = note[CHANGE_AT + side], note[CHANGE_PEAK + side]
    if value > peak:
        if value >= terms.limits[1]:
            best = best_bet(bet_state.bets[cell], side, terms.shares)
            since = bet_state.bets[cell, START, best]
            if since > raised:
                write(bet_state, cell, side, max(since, bet_state.marks[cell, side, AT]), log[used])
                used += 1
            if not since <= raised:
                note[CHANGE_AT + side] = clock
            mark(bet_state, cell, side, best, clock)
        note[CHANGE_PEAK + side] = value
    elif value < END * peak and not np.isnan(raised):
        write(bet_state, cell, side, clock, log[used])
        reset(bet_state, cell, side)
        used += 1
    return used


@inlined
def play(
    bet_state: BetState,
    terms: Terms,
    cell: int,
    life_limit: float,
    gain: Array,
    weight: float,
    residual: float,
    forecast: float,
    clock: float,
    log: Array,
    used: int,
) -> int:
    """Update one cell with one row, or the mean of a few; return the number of entries of the log in use."""
    square = residual * residual
    up, down = step(bet_state.bets, cell, gain, terms.shares, residual, square, weight, clock)
    note = bet_state.notes[cell]
    if note[VISITS] == 0.0:
        note[FIRST] = clock
    folds = int(note[VISITS]) // FOLD
    note[VISITS] += weight
    note[FORECAST] += forecast
    note[TOTAL] += residual
    note[TOTAL_SQUARE] += square
    used = watch(bet_state, terms, cell, 0, up, clock, log, used)
    used = watch(bet_state, terms, cell, 1, down, clock, log, used)
    if int(note[VISITS]) // FOLD > folds:
        fold(bet_state.bets[cell], note, terms.shares, life_limit, clock)
    return used


@lean
def advance(
    bet_state: BetState,
    terms: Terms,
    members: Integers,
    life_limits: Array,
    p: Array,
    y: Array,
    weight: Array,
    clock: Array,
    gain: Array,
    log: Array,
) -> tuple[int, int]:
    """Update all cells of every row, in order; return how many rows were entered, and how many alarms ended.

    It stops where the log might not hold the alarms that the next row ends.

    Parameters
    ----------
    members : (rows, columns) group of each row in every column, −1 for none
    life_limits : (groups, nodes) logarithm of the wealth at which a cell's lifetime alarm is raised
    p, y, weight, clock : (rows,) mean forecasts, outcomes, weights, times or row numbers
    gain : (LANES,) scratch
    log : (room, ENTRY) alarms that ended
    """
    leaves = terms.edges.shape[0] + 1
    nodes = 2 * leaves - 1
    used, most = 0, 2 * members.shape[1] * leaves
    for t in range(p.shape[0]):
        if used + most > log.shape[0]:
            return t, used
        price(p[t], y[t], weight[t] * terms.limits[2], terms.stakes, terms.limits[0], gain)
        residual = weight[t] * (y[t] - p[t])
        lowest = leaves + leaf(p[t], terms.edges)
        for j in range(members.shape[1]):
            group = members[t, j]
            node = lowest if group >= 0 else 0
            while node >= 1:
                cell, life_limit = group * nodes + node - 1, life_limits[group, node - 1]
                used = play(
                    bet_state, terms, cell, life_limit, gain, weight[t], residual, weight[t] * p[t], clock[t], log, used
                )
                node >>= 1
    return p.shape[0], used


@lean
def advance_clusters(
    bet_state: BetState,
    terms: Terms,
    members: Integers,
    life_limits: Array,
    p: Array,
    y: Array,
    weight: Array,
    clock: Array,
    ends: Integers,
    gain: Array,
    log: Array,
    place: Integers,
    touched: Integers,
    sums: Array,
) -> tuple[int, int]:
    """Update each cell of every cluster once, with the mean gain of its rows there.

    Returns the clusters that played and the alarms that ended, stopping as `advance` does.

    Parameters
    ----------
    ends : (clusters,) the row after each cluster's last; the clusters' rows stand together. The others: see `advance`
    place : (cells,) scratch, −1 everywhere
    touched, sums : (most cells of one cluster,), (likewise, LANES + 4) scratch
    """
    leaves = terms.edges.shape[0] + 1
    nodes = 2 * leaves - 1
    used, begin = 0, 0
    for c in range(ends.shape[0]):
        if used + 2 * touched.shape[0] > log.shape[0]:
            return c, used
        count = 0
        for t in range(begin, ends[c]):
            price(p[t], y[t], weight[t] * terms.limits[2], terms.stakes, terms.limits[0], gain)
            for j in range(members.shape[1]):
                node = leaves + leaf(p[t], terms.edges) if members[t, j] >= 0 else 0
                while node >= 1:
                    cell = members[t, j] * nodes + node - 1
                    if place[cell] < 0:
                        place[cell], touched[count] = count, cell
                        sums[count] = 0.0
                        count += 1
                    held = sums[place[cell]]
                    for i in range(LANES):
                        held[i] += gain[i]
                    held[LANES] += 1.0
                    held[LANES + 1] += weight[t]
                    held[LANES + 2] += weight[t] * (y[t] - p[t])
                    held[LANES + 3] += weight[t] * p[t]
                    node >>= 1
        last = clock[ends[c] - 1]
        for k in range(count):
            cell, held = touched[k], sums[k]
            place[cell] = -1
            share = 1.0 / held[LANES]
            for i in range(LANES):
                gain[i] = share * held[i]
            mean, residual, forecast = share * held[LANES + 1], share * held[LANES + 2], share * held[LANES + 3]
            limit = life_limits[cell // nodes, cell % nodes]
            used = play(bet_state, terms, cell, limit, gain, mean, residual, forecast, last, log, used)
        begin = ends[c]
    return ends.shape[0], used


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
