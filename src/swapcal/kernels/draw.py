"""Counter-based randomness: the draw is a pure function of seed and event.

An event without an id is identified by a count and by the given values, not by numbers computed from them, whose last
bit differs between machines.
"""

import numpy as np
from numba import config

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.jit import inlined, lean, shared

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S11, S27, S30, S31, S32 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
ZERO, ONE = np.uint64(0), np.uint64(1)
SIGN, INFINITE = np.uint64(1 << 63), np.uint64(0x7FF << 52)  # the bits of -0 and of infinity


@inlined
def scramble(h: np.uint64) -> np.uint64:
    """Return splitmix64's finaliser of h: a bijection whose output bits each depend on all input bits."""
    h = (h ^ (h >> S30)) * MIX_1
    h = (h ^ (h >> S27)) * MIX_2
    return h ^ (h >> S31)


@inlined
def plain_bits(bits: np.uint64) -> np.uint64:
    """Return the bits of a number; -0 is 0."""
    return ZERO if bits == SIGN else bits


@inlined
def fingerprint(x: Array, count: np.uint64) -> np.uint64:
    """Return a 64-bit hash of the bits of x and a count; equal arguments, equal fingerprints.

    Coordinates that are 0 leave no trace, so appending them changes nothing.
    """
    bits = x.view(np.uint64)
    h = count * MIX_1
    key = GOLDEN
    for i in range(bits.shape[0]):
        # Round numbers have empty low halves, which a product would never spread downwards.
        b = plain_bits(bits[i])
        spread = (b ^ (b >> S32)) * key
        # Folding before summing: a linear sum would be the same for indicators in places 1, 4 and in places 2, 3.
        h += spread ^ (spread >> S32)
        key += GOLDEN + GOLDEN
    return h


@lean
def mark_rows(bits: Keys, salts: Keys, symbols: Keys, absent: Keys, marks: Keys) -> None:
    """Write a hash of each row's numbers, given by their bits, and of the symbols in columns without a number."""
    for row in range(len(marks)):
        h = ZERO
        for j in range(bits.shape[1]):
            b = plain_bits(bits[row, j])
            if b & ~SIGN <= INFINITE:
                h += scramble(b ^ salts[j])
            elif symbols[row, j] != absent[j]:
                h += scramble(symbols[row, j])
        marks[row] = h


def row_marks(numbers: Array, salts: Keys, symbols: Keys, absent: Keys) -> Keys:
    """Return a 64-bit mark per row of raw values, the same for equal values on every machine.

    Parameters
    ----------
    numbers : (n, K) C-ordered numbers; NaN where missing or where the column holds categories
    salts : (K,) keys of the columns
    symbols : (n, K) keys of categories, each the key of a column and a category
    absent : (K,) symbols of missing values

    The order of the columns does not matter, and a missing value leaves no trace.

    Examples
    --------
    >>> salts, none = np.array([3, 5], np.uint64), np.zeros((1, 2), np.uint64)
    >>> one = row_marks(np.array([[-0.0, np.nan]]), salts, none, none[0])
    >>> bool(one == row_marks(np.array([[0.0]]), salts[:1], none[:, :1], none[0]))
    True
    """
    marks = np.empty(len(numbers), np.uint64)
    if config.DISABLE_JIT:
        with np.errstate(over="ignore"):  # sums and products modulo 2^64 are meant; compiled kernels do not warn
            mark_rows(numbers.view(np.uint64), salts, symbols, absent, marks)
    else:
        mark_rows(numbers.view(np.uint64), salts, symbols, absent, marks)
    return marks


def counted(marks: Keys, counts: Integers | int) -> Keys:
    """Return the keys of events known by a mark and a count; never 0, which stands for "not named"."""
    keys = marks + MIX_1 * np.atleast_1d(counts).astype(np.uint64)
    return np.where(keys == ZERO, ONE, keys)


@shared
def uniform(seed: np.uint64, event: np.uint64) -> float:
    """Return a number in [0, 1) determined by (seed, event); the seed comes well mixed (see `Forecaster`)."""
    h = scramble(event ^ seed)
    return np.float64(h >> S11) * 2.0**-53


@inlined
def event_draw(seed: np.uint64, event: np.uint64, x: Array, count: int) -> float:
    """Return the draw of an event; of one not named (0), that of the context and the count of labels learned."""
    if event == ZERO:
        event = fingerprint(x, np.uint64(count))
    return uniform(seed, event)
