"""The forecaster's whole memory as named arrays, and the columns of a ticket."""

from typing import NamedTuple

from swapcal.arrays import Array, Integers, Keys

RIDGE_LEARNER, ONS_LEARNER, VAW_LEARNER = 0, 1, 2
HEDGE, BLUM_MANSOUR = 0, 1

# codes
CODES_LEARNER, CODES_MIXING, CODES_ADAPTIVE = 0, 1, 2
# knobs: λ, κ, the Online Newton Step's β, A's initial diagonal (λ, or ω for the Online Newton Step), what an interval
# may always cost before it splits, how far from the constant ½ a newborn level's learner may start, and the window:
# after so many labels a label counts 1/e to the learners with a short memory; 0 if there are none
RIDGE, KAPPA, STEP, START, FLOOR, REACH, WINDOW = range(7)
# counts
LEVELS, UPDATES, LATE = 0, 1, 2
# totals: Σ D_t, and the same with short memory
GAP, RECENT_GAP = 0, 1

# a ticket's columns
(T_P, T_MEAN, T_LOW, T_HIGH, T_WEIGHT, T_W_LOW, T_W_HIGH, T_GAP, T_SLOT_LOW, T_SLOT_HIGH, T_ISSUED) = range(11)
# what was said with short memory: for everyone, and by the two levels
T_RECENT, T_RECENT_LOW, T_RECENT_HIGH = range(11, 14)
TICKET = 14

# With a window, two coordinates follow the constant: what everyone's short memory says and what the level's says, each
# less ½.
EVERYONE, OWN = 1, 2
RECENT_COORDINATES = 2

# Self-refining levels. They start as i/16, coarser ones would issue certainties before the first labels come back; and
# the outermost intervals are halved so often, or 3 in 100 would have to be said as 0 and 1/16 in turn.
START_INTERVALS, END_HALVINGS = 16, 4
# An interval splits when its rounding loss exceeds κ times its learners' loss plus the larger of these shares of λ and
# d. A learner costs λB² + d ln(…) in any case; without the share of d there would be too many of them in high dimension
# for the d^{2/3} of the theorem. A larger share is felt at low base rates, where levels must be near 0 early.
SPLIT_SHARE_OF_RIDGE, SPLIT_SHARE_OF_DIM = 0.1, 0.002
# A newborn's learner starts within this distance of e_1, the constant ½, so that the worst-case bound knows how far its
# comparators are before any data. A ball around ½ treats a label and its complement alike.
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
    recent: Array
    """(1 + slots, width) weights of the learners with a short memory, everyone's before the levels'; none, none."""
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
    """(2, width) where they start: everyone's, and the levels'."""
    totals: Array
    counts: Integers
    knobs: Array
    codes: Integers
    seed: Keys


class Scratch(NamedTuple):
    """Working room of the kernels, so that they allocate nothing; holds no information between calls."""

    x: Array
    """(width,) the context, padded."""
    u: Array
    """(width,) P x."""
    unit: Array
    """(width,) zeros, but while a coordinate's pull is refilled."""
    ball: Array
    """(3, width, width) for the Online Newton Step's projection, else empty."""
    chain: Array
    """(3, levels) levels, rounding probabilities and stationary distribution; empty when hedging."""
    base: Integers
    """(levels,) where each level's wish rounds down to; empty when hedging."""
    walk: Integers
    """(5, levels) for the search of a closed class; empty when hedging."""
    matrix: Array
    """(levels, levels) for the state reduction; empty when hedging."""
