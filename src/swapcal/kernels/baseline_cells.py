"""The memory that all online baselines share, as named arrays; each system says what it keeps where."""

from typing import NamedTuple

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.jit import inlined
from swapcal.kernels.state import T_HIGH, T_LOW, T_MEAN, T_P, T_SLOT_HIGH, T_SLOT_LOW, T_WEIGHT

SYSTEMS = range(7)
FOSTER_VOHRA, FOSTER_HART, FISHELSON, LUO_KL, GARG_ITO, GROUPS, OKOROAFOR = SYSTEMS
UPDATES, LAST = 0, 1
# knobs: a system's step size, and how far below a bucket's end its highest forecast lies
STEP, NUDGE = 0, 1


class BaselineState(NamedTuple):
    """One row per level (per bucket for GROUPS)."""

    z: Array
    """(L,) levels; lower ends of the buckets for GROUPS."""
    seen: Array
    """(L, K) how much was seen."""
    total: Array
    """(L, K) sums of gaps, of labels, or weights of tests."""
    theta: Array
    """(R, width) regressions, or weights of tests on contexts."""
    factor: Array
    """(R, factor_size) U of each regression's P = U D Uᵀ."""
    scale: Array
    """(R, width) D of the same."""
    knobs: Array
    counts: Integers
    codes: Integers
    seed: Keys


class BaselineScratch(NamedTuple):
    """Working room; holds no information between calls."""

    x: Array
    u: Array
    chain: Array
    base: Integers
    walk: Integers
    matrix: Array


class Baseline(NamedTuple):
    """A system that plays in the engine's place."""

    cells: BaselineState
    room: BaselineScratch
    features: Array
    """(n, at most the width of its memory) what it reads of the rows: contexts, memberships or tests."""


@inlined
def write_pair(ticket: Array, low: int, high: int, p_low: float, p_high: float, weight: float, draw: float) -> None:
    """Fill in a ticket that plays p_high with the given probability and p_low otherwise."""
    issued_high = draw < weight
    ticket[T_P] = p_high if issued_high else p_low
    ticket[T_MEAN] = p_low + weight * (p_high - p_low)
    ticket[T_LOW] = p_low
    ticket[T_HIGH] = p_high
    ticket[T_WEIGHT] = weight
    ticket[T_SLOT_LOW] = high if issued_high else low
    ticket[T_SLOT_HIGH] = high
