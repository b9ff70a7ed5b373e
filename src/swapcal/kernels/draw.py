"""Counter-based randomness: the draw is a pure function of seed, event and context."""

import numpy as np
from numpy.typing import NDArray

from swapcal.kernels.jit import inlined, shared

Array = NDArray[np.float64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
S11, S27, S30, S31, S32 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
ONE = np.uint64(1)


@inlined
def scramble(h: np.uint64) -> np.uint64:
    """Return splitmix64's finaliser of h: a bijection whose output bits each depend on all input bits."""
    h = (h ^ (h >> S30)) * MIX_1
    h = (h ^ (h >> S27)) * MIX_2
    return h ^ (h >> S31)


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
        spread = (bits[i] ^ (bits[i] >> S32)) * key
        # Folding before summing: a linear sum would be the same for indicators in places 1, 4 and in places 2, 3.
        h += spread ^ (spread >> S32)
        key += GOLDEN + GOLDEN
    return h


@shared
def uniform(seed: np.uint64, event: np.uint64) -> float:
    """Return a number in [0, 1) determined by (seed, event); the seed comes well mixed (see `Forecaster`)."""
    h = scramble(event ^ seed)
    return np.float64(h >> S11) * 2.0**-53
