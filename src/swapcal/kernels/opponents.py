"""Label rules that may read the forecast before they choose."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.jit import inlined, shared
from swapcal.kernels.linalg import padded

COIN, OPPOSE, ADAPTIVE, LEAVE_AHEAD = 0, 1, 2, 3

# ADAPTIVE keeps one residual vector per bucket of forecast means and moves the rate by at most PUSH.
BUCKETS = 20
PUSH = 0.2
# LEAVE_AHEAD keeps, in the row after the buckets: epoch, its rounds so far, its Σ(y - mean), the longest epoch.
EPOCH, AGE, LEAD, LONGEST = 0, 1, 2, 3


class Opponent(NamedTuple):
    """Who chooses the labels of rounds, each after the distribution and before the draw; see `choose_label`."""

    rule: int
    chance: Array
    """(n,)"""
    coins: Array
    """(n,)"""
    notes: Array
    """What it remembers, from `blank_notes`."""
    labels: Array
    """(n,) written; empty for no opponent."""


NOBODY = Opponent(COIN, np.empty(0), np.empty(0), np.empty((0, 0)), np.empty(0))


def blank_notes(dim: int, longest: float) -> Array:
    """Return what an opponent remembers before the first round; `longest` is LEAVE_AHEAD's longest epoch."""
    notes = np.zeros((BUCKETS + 1, padded(dim)))
    notes[BUCKETS, LONGEST] = longest
    return notes


@inlined
def widen_the_gap(mean: float, x: Array, chance: float, coin: float, notes: Array) -> float:
    """Toss a coin whose rate is moved to lengthen the residual vector Σ(y - mean)x of the forecast's bucket.

    ‖r + (y - m)x‖² is larger for y = 1 than for y = 0 exactly if 2⟨r,x⟩ + (1 - 2m)‖x‖² > 0.
    """
    residual = notes[min(BUCKETS - 1, int(mean * BUCKETS))]
    tilt = 0.0
    for i in range(x.shape[0]):
        tilt += (2.0 * residual[i] + (1.0 - 2.0 * mean) * x[i]) * x[i]
    y = 1.0 if coin < chance + (PUSH if tilt > 0.0 else -PUSH) else 0.0
    for i in range(x.shape[0]):
        residual[i] += (y - mean) * x[i]
    return y


@inlined
def leave_ahead(mean: float, coin: float, notes: Array) -> float:
    """Toss the present epoch's coin, and leave the epoch for good once the forecasts in it are far behind."""
    memo = notes[BUCKETS]
    epochs = max(1.0, np.floor(np.sqrt(memo[LONGEST])))
    y = 1.0 if coin < 0.25 + 0.5 * (memo[EPOCH] % epochs + 0.5) / epochs else 0.0
    memo[AGE] += 1.0
    memo[LEAD] += y - mean
    if abs(memo[LEAD]) >= np.sqrt(memo[LONGEST]) or memo[AGE] >= memo[LONGEST]:
        memo[EPOCH] += 1.0
        memo[AGE] = 0.0
        memo[LEAD] = 0.0
    return y


@shared
def choose_label(rule: int, mean: float, x: Array, chance: float, coin: float, notes: Array) -> float:
    """Return the label of one round.

    Parameters
    ----------
    rule : COIN tosses a coin of the given chance. OPPOSE answers 1 exactly when the forecast's mean is below `chance`.
        ADAPTIVE moves the chance to make the residuals of similar forecasts grow. LEAVE_AHEAD ignores `chance`, tosses
        coins of its own and changes their rate whenever the forecasts are behind.
    mean : of the distribution about to be issued
    x : the context
    coin : uniform in [0, 1)
    notes : from `blank_notes`; what the opponent remembers between rounds
    """
    if rule == OPPOSE:
        return 1.0 if mean < chance else 0.0
    if rule == ADAPTIVE:
        return widen_the_gap(mean, x, chance, coin, notes)
    if rule == LEAVE_AHEAD:
        return leave_ahead(mean, coin, notes)
    return 1.0 if coin < chance else 0.0


@inlined
def answer(opponent: Opponent, row: int, mean: float, x: Array) -> float:
    """Let the opponent choose the label of a round, and write it down."""
    y = choose_label(opponent.rule, mean, x, opponent.chance[row], opponent.coins[row], opponent.notes)
    opponent.labels[row] = y
    return y
