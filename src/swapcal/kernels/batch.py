"""Predict with many frozen forecasters at once."""

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.draw import scramble, uniform
from swapcal.kernels.jit import inlined, lean
from swapcal.kernels.learners import clip
from swapcal.kernels.linalg import dot
from swapcal.kernels.mixing import hedge_weight

# Rows that stay in the first-level cache together with one snapshot while all snapshots visit them.
BLOCK_ROWS = 32


@inlined
def two_wishes(pool: Array, a: int, b: int, x: Array) -> tuple[float, float]:
    """Return what two frozen learners forecast; they share each visit to x."""
    first, second = pool[a], pool[b]
    r, s = 0.0, 0.0
    for i in range(x.shape[0]):
        r += first[i] * x[i]
        s += second[i] * x[i]
    return clip(r), clip(s)


@inlined
def frozen_crossing(pool: Array, members: Integers, z: Array, levels: int, x: Array) -> tuple[int, float]:
    """Return (i, P(level i+1)) of the frozen forecaster whose level z[i] has the learner pool[members[i]].

    The search is that of the live forecaster (`crossing`), step by step: where several crossings exist, both find the
    same one, so that the frozen forecaster is the function that was played.
    """
    lo, hi = 0, levels - 1
    k, turn = 0, 0
    if hi > 1:
        k = (lo + hi) // 2
        w, middle = clip(dot(pool[members[k]], x)), z[k]
        if w >= middle:
            lo = k
            share = (w - middle) / (1.0 - middle)
        else:
            hi = k
            share = w / middle
        k = min(hi - 1, lo + int(share * (hi - lo)))
    while True:
        w_low, w_high = two_wishes(pool, members[k], members[k + 1], x)
        turn += 1
        if w_low < z[k] and k > lo:
            hi = k
            k = hi - 1
        elif w_high > z[k + 1] and k + 1 < hi:
            lo = k + 1
            k = lo
        else:
            return k, hedge_weight(w_low - z[k], z[k + 1] - w_high)
        if turn % 3 == 0:
            k = min((lo + hi) // 2, hi - 1)


@lean
def mean_forecasts(pool: Array, members: Integers, z: Array, counts: Integers, X: Array, out: Array) -> None:
    """Write the mean of z* over all snapshots, row by row.

    Snapshots are the outer loop inside a block of rows: one snapshot (levels × d) then stays in the first-level cache
    for the whole block, instead of all of them streaming past every row.
    """
    snapshots = len(counts)
    for begin in range(0, len(X), BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, len(X))
        for row in range(begin, end):
            out[row] = 0.0
        for k in range(snapshots):
            learners, levels = members[k], z[k]
            for row in range(begin, end):
                i, share = frozen_crossing(pool, learners, levels, counts[k], X[row])
                out[row] += levels[i] + share * (levels[i + 1] - levels[i])
        for row in range(begin, end):
            out[row] /= snapshots


@lean
def issued_forecasts(
    pool: Array,
    members: Integers,
    z: Array,
    counts: Integers,
    X: Array,
    keys: Keys,
    seed: np.uint64,
    out: Array,
) -> None:
    """Write (issued level, low, high, P(high)) of one snapshot per row, both drawn by the row's key."""
    for row in range(len(X)):
        k = min(int(uniform(seed, keys[row]) * len(counts)), len(counts) - 1)
        levels = z[k]
        i, share = frozen_crossing(pool, members[k], levels, counts[k], X[row])
        draw = uniform(seed, scramble(keys[row]))
        out[row, 0] = levels[i + 1] if draw < share else levels[i]
        out[row, 1] = levels[i]
        out[row, 2] = levels[i + 1]
        out[row, 3] = share


@lean
def replay_mean(
    theta: Array,
    slot: Integers,
    row_of: Integers,
    z: Array,
    start: int,
    rounds: int,
    x: Array,
    members: Integers,
    levels: Array,
) -> float:
    """Return the mean of z* over the forecasters of all rounds, replaying the log for one context.

    The log begins with the `start` levels that existed before the first row. `members` and `levels` are room for the
    changes in force, in increasing order of level.
    """
    n, event, total = 0, 0, 0.0
    for t in range(rounds):
        while event < len(slot) and (event < start or row_of[event] < t):
            value = z[slot[event]]
            k = position(levels, n, value)
            if k == n or levels[k] != value:
                for i in range(n, k, -1):
                    levels[i] = levels[i - 1]
                    members[i] = members[i - 1]
                levels[k] = value
                n += 1
            members[k] = event
            event += 1
        i, share = frozen_crossing(theta, members, levels, n, x)
        total += levels[i] + share * (levels[i + 1] - levels[i])
    return total / rounds


@lean
def replay_issued(
    theta: Array,
    rounds_of: Integers,
    by_slot: Integers,
    offsets: Integers,
    ascending: Integers,
    z: Array,
    rounds: int,
    X: Array,
    keys: Keys,
    seed: np.uint64,
    members: Integers,
    levels: Array,
    out: Array,
) -> None:
    """Write (issued level, low, high, P(high)) of one of all rounds' forecasters per row, drawn by the row's key.

    `by_slot` lists each slot's changes in time order from `offsets`; the last one before the round drawn is in force.
    """
    for row in range(len(X)):
        t = min(int(uniform(seed, keys[row]) * rounds), rounds - 1)
        n = 0
        for k in range(len(ascending)):
            slot = ascending[k]
            lo, hi = offsets[slot], offsets[slot + 1]
            if rounds_of[by_slot[lo]] >= t:
                continue
            while hi - lo > 1:
                mid = (lo + hi) // 2
                if rounds_of[by_slot[mid]] < t:
                    lo = mid
                else:
                    hi = mid
            members[n] = by_slot[lo]
            levels[n] = z[slot]
            n += 1
        i, share = frozen_crossing(theta, members, levels, n, X[row])
        draw = uniform(seed, scramble(keys[row]))
        out[row, 0] = levels[i + 1] if draw < share else levels[i]
        out[row, 1] = levels[i]
        out[row, 2] = levels[i + 1]
        out[row, 3] = share


@inlined
def position(levels: Array, n: int, value: float) -> int:
    """Return the first index among n increasing levels whose level is at least `value`, or n."""
    lo, hi = 0, n
    while lo < hi:
        mid = (lo + hi) // 2
        if levels[mid] < value:
            lo = mid + 1
        else:
            hi = mid
    return lo
