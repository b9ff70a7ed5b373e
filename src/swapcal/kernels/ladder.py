"""The levels in order with their learners, live or frozen, and the one search among them."""

from typing import NamedTuple

from swapcal.arrays import Array, Integers
from swapcal.kernels.jit import inlined
from swapcal.kernels.learners import clip
from swapcal.kernels.linalg import quadratic
from swapcal.kernels.mixing import shrunk
from swapcal.kernels.simd import row_dot
from swapcal.kernels.state import CODES_LEARNER, LEVELS, OWN, VAW_LEARNER, WINDOW, Memory


class Ladder(NamedTuple):
    """Level k is z[place[k]], and row member[k] of the others is its learner."""

    levels: int
    place: Integers
    z: Array
    member: Integers
    theta: Array
    factor: Array
    """Only looked at, as `scale` is, if a wish depends on its weight."""
    scale: Array
    shrinks: bool
    """Whether a wish depends on the weight it is to carry, as VAW's does."""
    recent: Array
    """Row 1 + member is the level's learner with a short memory; only looked at if there are such."""
    recalls: bool


@inlined
def ladder_of(state: Memory) -> Ladder:
    """Return a forecaster's levels as they are now."""
    shrinks = state.codes[CODES_LEARNER] == VAW_LEARNER
    return Ladder(
        state.counts[LEVELS],
        state.order,
        state.z,
        state.order,
        state.theta,
        state.factor,
        state.scale,
        shrinks,
        state.recent,
        state.knobs[WINDOW] > 0.0,
    )


@inlined
def wish(ladder: Ladder, member: int, x: Array, alpha: float) -> float:
    """Return what a learner forecasts if it is to carry weight α."""
    r = row_dot(ladder.theta, member, x)
    if ladder.shrinks:
        return shrunk(r, quadratic(ladder.factor[member], ladder.scale[member], x), alpha)
    if ladder.recalls:
        r += ladder.theta[member, OWN] * (clip(row_dot(ladder.recent, member + 1, x)) - 0.5)
    return clip(r)


@inlined
def crossing(ladder: Ladder, x: Array) -> tuple[int, float, float]:
    """Return k and the wishes of levels k and k + 1, with wish(low) ≥ z_low and wish(high) ≤ z_high.

    The lowest level is 0 and the highest 1, and wishes lie in [0, 1], so a crossing always lies between lo and hi.
    Learners mostly agree: the search starts where the middle one points and walks from there; every third step halves
    what is left, which bounds the number of learners looked at by O(log L).
    """
    z, place, member = ladder.z, ladder.place, ladder.member
    lo, hi = 0, ladder.levels - 1
    k, turn = 0, 0
    if hi > 1:
        k = (lo + hi) // 2
        w = wish(ladder, member[k], x, 1.0)
        middle = z[place[k]]
        if w >= middle:
            lo = k
            share = (w - middle) / (1.0 - middle)
        else:
            hi = k
            share = w / middle
        k = min(hi - 1, lo + int(share * (hi - lo)))
    while True:
        w_low, w_high = wish(ladder, member[k], x, 1.0), wish(ladder, member[k + 1], x, 1.0)
        turn += 1
        if w_low < z[place[k]] and k > lo:
            hi = k
            k = hi - 1
        elif w_high > z[place[k + 1]] and k + 1 < hi:
            lo = k + 1
            k = lo
        else:
            return k, w_low, w_high
        if turn % 3 == 0:
            k = (lo + hi) // 2
            k = min(k, hi - 1)
