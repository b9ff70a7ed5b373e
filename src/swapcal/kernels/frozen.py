"""Predict with many frozen forecasters at once."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.draw import scramble, uniform
from swapcal.kernels.jit import inlined, lean, pure
from swapcal.kernels.ladder import Ladder, crossing
from swapcal.kernels.mixing import hedge_weight

# Rows that stay in the first-level cache together with one snapshot while all snapshots visit them.
BLOCK_ROWS = 32


class Snapshots(NamedTuple):
    """Forecasters that share a pool of learners; see `swapcal.batch.Mixture`."""

    pool: Array
    """(vectors, width)"""
    members: Integers
    """(K, L)"""
    z: Array
    """(K, L)"""
    counts: Integers
    """(K,)"""
    steps: Integers
    """(L,) 0, 1, 2, …"""


class Changes(NamedTuple):
    """Versions of learners in the order they came about; see `swapcal.batch.History`."""

    theta: Array
    """(changes, width)"""
    slot: Integers
    """(changes,)"""
    row: Integers
    """(changes,)"""
    z: Array
    """(slots,)"""
    rounds: int


class BySlot(NamedTuple):
    """Where each slot's changes are."""

    change: Integers
    """(changes,) sorted by slot, and by time within it."""
    offset: Integers
    """(slots + 1,) where each slot's begin."""
    ascending: Integers
    """(slots,) slots by level."""


class Rungs(NamedTuple):
    """Room for the forecaster of one round, in increasing order of level."""

    member: Integers
    """(slots,)"""
    z: Array
    """(slots,)"""
    steps: Integers
    """(slots,) 0, 1, 2, …"""


class Draws(NamedTuple):
    """What determines the draws of rows."""

    keys: Keys
    """(n,)"""
    seed: np.uint64


@inlined
def frozen_crossing(
    pool: Array, members: Integers, z: Array, steps: Integers, levels: int, x: Array
) -> tuple[int, float]:
    """Return (i, P(level i+1)) of the frozen forecaster whose level z[i] has the learner pool[members[i]].

    The search is that of the live forecaster: where several crossings exist, both find the same one, so that the frozen
    forecaster is the function that was played.
    """
    k, w_low, w_high = crossing(Ladder(levels, steps, z, members, pool, pool, pool, False, pool, False), x)
    return k, hedge_weight(w_low - z[k], z[k + 1] - w_high)


@inlined
def write_issued(z: Array, i: int, share: float, draw: float, out: Array) -> None:
    """Write (issued level, low, high, P(high))."""
    out[0] = z[i + 1] if draw < share else z[i]
    out[1] = z[i]
    out[2] = z[i + 1]
    out[3] = share


@pure
def mean_forecasts(snapshots: Snapshots, X: Array, out: Array) -> None:
    """Write the mean of z* over all snapshots, row by row.

    Snapshots are the outer loop inside a block of rows: one snapshot (levels × d) then stays in the first-level cache
    for the whole block, instead of all of them streaming past every row.
    """
    pool, counts, steps = snapshots.pool, snapshots.counts, snapshots.steps
    for begin in range(0, len(X), BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, len(X))
        for row in range(begin, end):
            out[row] = 0.0
        for k in range(len(counts)):
            members, z = snapshots.members[k], snapshots.z[k]
            for row in range(begin, end):
                i, share = frozen_crossing(pool, members, z, steps, counts[k], X[row])
                out[row] += z[i] + share * (z[i + 1] - z[i])
        for row in range(begin, end):
            out[row] /= len(counts)


@pure
def issued_forecasts(snapshots: Snapshots, X: Array, draws: Draws, out: Array) -> None:
    """Write (issued level, low, high, P(high)) of one snapshot per row, both drawn by the row's key."""
    counts = snapshots.counts
    for row in range(len(X)):
        key = draws.keys[row]
        k = min(int(uniform(draws.seed, key) * len(counts)), len(counts) - 1)
        z = snapshots.z[k]
        i, share = frozen_crossing(snapshots.pool, snapshots.members[k], z, snapshots.steps, counts[k], X[row])
        write_issued(z, i, share, uniform(draws.seed, scramble(key)), out[row])


@lean
def replay_mean(changes: Changes, start: int, x: Array, rungs: Rungs) -> float:
    """Return the mean of z* over the forecasters of all rounds, replaying the changes for one context.

    The first `start` of them are the levels that existed before the first row.
    """
    slot, member, z = changes.slot, rungs.member, rungs.z
    n, change, total = 0, 0, 0.0
    for t in range(changes.rounds):
        while change < len(slot) and (change < start or changes.row[change] < t):
            value = changes.z[slot[change]]
            k = position(z, n, value)
            if k == n or z[k] != value:
                for i in range(n, k, -1):
                    z[i] = z[i - 1]
                    member[i] = member[i - 1]
                z[k] = value
                n += 1
            member[k] = change
            change += 1
        i, share = frozen_crossing(changes.theta, member, z, rungs.steps, n, x)
        total += z[i] + share * (z[i + 1] - z[i])
    return total / changes.rounds


@lean
def replay_issued(changes: Changes, by_slot: BySlot, X: Array, draws: Draws, rungs: Rungs, out: Array) -> None:
    """Write (issued level, low, high, P(high)) of one of all rounds' forecasters per row, drawn by the row's key.

    Of each slot's changes the last one before the round drawn is in force.
    """
    member, z, last = rungs.member, rungs.z, changes.rounds - 1
    for row in range(len(X)):
        key = draws.keys[row]
        t = min(int(uniform(draws.seed, key) * changes.rounds), last)
        n = 0
        for k in range(len(by_slot.ascending)):
            slot = by_slot.ascending[k]
            lo, hi = by_slot.offset[slot], by_slot.offset[slot + 1]
            if changes.row[by_slot.change[lo]] >= t:
                continue
            while hi - lo > 1:
                mid = (lo + hi) // 2
                if changes.row[by_slot.change[mid]] < t:
                    lo = mid
                else:
                    hi = mid
            member[n] = by_slot.change[lo]
            z[n] = changes.z[slot]
            n += 1
        i, share = frozen_crossing(changes.theta, member, z, rungs.steps, n, X[row])
        write_issued(z, i, share, uniform(draws.seed, scramble(key)), out[row])


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
