"""What may come with the rounds of a loop: weights, a log, an opponent. Empty arrays stand for nothing."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.opponents import NOBODY, Opponent

# Changes one round can make while hedging: two learners, one new level.
CHANGES = 3


class Log(NamedTuple):
    """Every change of a learner; those of row t make the forecaster of round t + 1. Only for hedging."""

    slot: Integers
    """(CHANGES n,) whose."""
    row: Integers
    """(CHANGES n,) after which row."""
    theta: Array
    """(CHANGES n, d) the new weights."""
    size: Integers
    """(1,) how many there are."""


def blank_log(rows: int, dim: int) -> Log:
    """Return room for all changes that so many rows can make."""
    slot, row = np.empty((2, CHANGES * rows), np.int64)
    return Log(slot, row, np.empty((CHANGES * rows, dim)), np.zeros(1, np.int64))


class Company(NamedTuple):
    """What comes with rounds besides contexts and labels."""

    weights: Array = np.empty(0)
    """(n,) how often each round counts; empty for once."""
    log: Log = blank_log(0, 0)
    """Where to write down what changes; empty for nowhere."""
    opponent: Opponent = NOBODY
    """Who chooses the labels; `NOBODY` if they are given."""
