"""The forecaster's memory as named arrays, the columns of a ticket, and what may accompany a run."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.jit import inlined, lean, shared
from swapcal.kernels.linalg import padded

# The forecaster's whole memory as named arrays, and the columns of a ticket.

RIDGE_LEARNER, ONS_LEARNER, VAW_LEARNER = 0, 1, 2
HEDGE, BLUM_MANSOUR = 0, 1

# codes
CODES_LEARNER, CODES_MIXING, CODES_ADAPTIVE = 0, 1, 2
# values of CODES_ADAPTIVE: fixed levels, self-refining ones, or self-refining ones of which 0 and 1 are never issued
FIXED, REFINING, INNER = 0, 1, 2
# knobs: λ, κ, the Online Newton Step's β (of ridge learners: how many labels had been learned when λ last changed), A's
# initial diagonal (λ, or ω for the Online Newton Step), what an interval may always cost before it splits, how far from
# the constant ½ a newborn level's learner may start, and the window: after so many labels a label counts 1/e to the
# learners with a short memory; 0 if there are none
RIDGE, KAPPA, STEP, START, FLOOR, REACH, WINDOW = range(7)
# counts
LEVELS, UPDATES, LATE = 0, 1, 2
# totals: Σ D_t, and the same with short memory
GAP, RECENT_GAP = 0, 1

# a ticket's columns; in a blank one T_MEAN is how near to 0 and 1 the caller allows to come on inner levels, if above 0
(T_P, T_MEAN, T_LOW, T_HIGH, T_WEIGHT, T_W_LOW, T_W_HIGH, T_GAP, T_SLOT_LOW, T_SLOT_HIGH, T_ISSUED) = range(11)
# short-memory predictions: of all rows, and of the two levels
T_RECENT, T_RECENT_LOW, T_RECENT_HIGH = range(11, 14)
TICKET = 14

# With a window, two coordinates follow the constant: the short-memory predictions of all rows and of the level, each
# less ½.
ALL_ROWS, OWN = 1, 2
RECENT_COORDINATES = 2

# Self-refining levels. They start as i/16, coarser ones would issue certainties before the first labels come back; and
# the outermost intervals are halved so often, or 3 in 100 would have to be issued as 0 and 1/16 in turn.
START_INTERVALS, END_HALVINGS = 16, 4
# Where 0 and 1 are never issued, a score as near to them as experts may be, 10⁻⁴, needs a level nearer still.
INNER_HALVINGS = 10
# An interval splits when its rounding loss exceeds κ times its learners' loss plus the larger of these shares of λ and
# d. A learner costs λB² + d ln(…) in any case; without the share of d there would be too many of them in high dimension
# for the d^{2/3} of the theorem. A larger share is felt at low base rates, where levels must be near 0 early.
SPLIT_SHARE_OF_RIDGE, SPLIT_SHARE_OF_DIM = 0.1, 0.002
# A newborn's learner starts within this distance of e_1, the constant ½, so that the worst-case bound limits the
# distance of its comparators before any data. A ball around ½ treats a label and its complement alike.
NEWBORN_REACH = 3.0


class Memory(NamedTuple):
    """One slot per level; slots never move, `order` sorts them. `width` is the dimension in whole blocks."""

    z: Array
    """(slots,) the levels."""
    order: Integers
    """(slots,) slots sorted by level; the first counts[LEVELS] are in use."""
    right: Integers
    """(slots,) the slot of the next level up, -1 at the top."""
    theta: Array
    """(slots, width) the learners' weights."""
    prior: Array
    """(slots, width) where each learner started."""
    factor: Array
    """(slots, factor_size) U of each learner's P = U D Uᵀ."""
    scale: Array
    """(slots, width) D of the same."""
    residual: Array
    """(slots, width) g = Σ α (y - z) x."""
    gram: Array
    """(slots, packed) G = Σ α x xᵀ, only where P does not imply it (ONS); otherwise of width 0."""
    mass: Array
    """(slots,) n = Σ α."""
    excess: Array
    """(slots,) Σ α [(w_issued - y)² - (z - y)²]."""
    potential: Array
    """(slots,) the learners' regret potential, e.g. Σ α² (w - y)² q / (1 + αq) for ridge."""
    slack: Array
    """(slots,) Σ D_t of the interval to the right of the level since it was made."""
    drawn_mass: Array
    """(slots,) Σ 1[p = z] over the levels that were drawn and issued, each label as often as it counts."""
    drawn_residual: Array
    """(slots, width) Σ 1[p = z] (y - z) x of the same."""
    recent: Array
    """(1 + slots, width) weights of the learners with a short memory, that of all rows before the levels'."""
    recent_factor: Array
    """(1 + slots, factor_size) U of their P."""
    recent_scale: Array
    """(1 + slots, width) D of the same."""
    recent_pull: Array
    """(1 + slots, width) how much of λ is left on each coordinate; it fades like all else and is refilled in turn."""
    recent_excess: Array
    """(1 + slots,) as `excess`, fading."""
    recent_clock: Integers
    """(1 + slots,) labels learned when the learner's sums were last brought up to date."""
    recent_prior: Array
    """(2, width) where they start: that of all rows, and the levels'."""
    totals: Array
    counts: Integers
    knobs: Array
    codes: Integers
    seed: Keys


class Chain(NamedTuple):
    """Working room for a stationary distribution of the levels."""

    rows: Array
    """(3, levels) levels, rounding probabilities and stationary distribution."""
    base: Integers
    """(levels,) where each level's wish rounds down to."""
    walk: Integers
    """(5, levels) for the search of a closed class."""
    matrix: Array
    """(levels, levels) for the state reduction."""


class Scratch(NamedTuple):
    """Working room of the kernels, so that they allocate nothing; holds no information between calls.

    What a forecaster does not need is None, and the code that would use it is left out of its machine code.
    """

    x: Array
    """(width,) the context, padded."""
    u: Array
    """(width,) P x."""
    leverage: Array | None
    """(0,) only a mark that wishes depend on xᵀPx: VAW."""
    ball: Array | None
    """(3, width, width) for the projection of the Online Newton Step."""
    unit: Array | None
    """(width,) zeros, but while a coordinate's pull is refilled, if there are learners with a short memory."""
    chain: Chain | None
    """for mixtures of all levels: Blum-Mansour."""


# Fast refusal of contexts that are not in X.

# Contexts come out of divisions and square roots: this much beyond the unit ball is rounding, not a mistake.
ROUNDING = 1e-9


@lean
def first_bad_context(X: Array) -> int:
    """Return the first row with x_1 ≠ ½, ‖x‖ > 1 or a value that is not finite; -1 if all are valid."""
    for row in range(X.shape[0]):
        square = 0.0
        for i in range(X.shape[1]):
            square += X[row, i] * X[row, i]
        # Comparisons with NaN are false, so it is caught here too.
        if not (abs(X[row, 0] - 0.5) <= ROUNDING and square <= 1.0 + 2.0 * ROUNDING):
            return row
    return -1


@lean
def all_known(tickets: Array, z: Array, levels: int) -> bool:
    """Return whether every ticket's two levels match the memory, in slots below `levels`."""
    for row in range(tickets.shape[0]):
        low, high = int(tickets[row, T_SLOT_LOW]), int(tickets[row, T_SLOT_HIGH])
        if low >= levels or high >= levels:
            return False
        if z[low] != tickets[row, T_LOW] or z[high] != tickets[row, T_HIGH]:
            return False
    return True


# Label rules that may read the forecast before they choose.

COIN, OPPOSE, ADAPTIVE, LEAVE_AHEAD = 0, 1, 2, 3

# ADAPTIVE keeps one residual vector per bucket of forecast means and moves the rate by at most PUSH.
BUCKETS = 20
PUSH = 0.2
# LEAVE_AHEAD keeps, in the row after the buckets: epoch, its rounds so far, its Σ(y - mean), the longest epoch.
EPOCH, AGE, LEAD, LONGEST = 0, 1, 2, 3


class Opponent(NamedTuple):
    """Chooses the labels of rounds, each after the distribution and before the draw; see `choose_label`."""

    rule: int
    chance: Array
    """(n,)"""
    coins: Array
    """(n,)"""
    notes: Array
    """Its memory, from `blank_notes`."""
    labels: Array
    """(n,) written; empty for no opponent."""


NO_OPPONENT = Opponent(COIN, np.empty(0), np.empty(0), np.empty((0, 0)), np.empty(0))


def blank_notes(dim: int, longest: float) -> Array:
    """Return an opponent's memory before the first round; `longest` is LEAVE_AHEAD's longest epoch."""
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
    notes : from `blank_notes`; the opponent's state between rounds
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
    """Return the label of a round that the opponent chooses, and store it."""
    y = choose_label(opponent.rule, mean, x, opponent.chance[row], opponent.coins[row], opponent.notes)
    opponent.labels[row] = y
    return y


# Optional inputs of the rounds of a loop: weights, a log, an opponent. Empty arrays mean that there are none.

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
    """Return a log with room for all changes of this many rows."""
    slot, row = np.empty((2, CHANGES * rows), np.int64)
    return Log(slot, row, np.empty((CHANGES * rows, dim)), np.zeros(1, np.int64))


class RunOptions(NamedTuple):
    """Optional inputs of rounds besides contexts and labels."""

    weights: Array = np.empty(0)
    """(n,) how often each round counts; empty for once."""
    log: Log = blank_log(0, 0)
    """Log of the changes; empty for none."""
    opponent: Opponent = NO_OPPONENT
    """Opponent that chooses the labels; `NO_OPPONENT` if they are given."""
