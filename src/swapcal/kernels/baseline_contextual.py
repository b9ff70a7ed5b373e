"""Forecasters that look at contexts: Garg et al. with Ito, finite groups, Okoroafor et al."""

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.baseline_cells import LAST, NUDGE, STEP, BaselineScratch, BaselineState, write_pair
from swapcal.kernels.jit import inlined
from swapcal.kernels.learners import clip
from swapcal.kernels.linalg import absorb, dot
from swapcal.kernels.mixing import write_mixture
from swapcal.kernels.state import T_P, T_SLOT_HIGH, T_SLOT_LOW

# Exponents stay of the order of a logarithm by the theorem; this far out only overflow is at stake.
MOST = 300.0


@inlined
def nearest_level(w: float, levels: int) -> int:
    """Return the index of the uniform level nearest to w."""
    return int(w * (levels - 1) + 0.5)


@inlined
def issue_garg_ito(
    cells: BaselineState, x: Array, draw: float, ticket: Array, mix: Array, room: BaselineScratch
) -> None:
    """Follow the map level → nearest level of its wish from the last level played until it closes; play that cycle.

    The ticket keeps the learner that was asked (low slot) and the level it answered (high slot).
    """
    levels = cells.z.shape[0]
    visited, path = room.walk[0], room.walk[1]
    visited[:] = -1
    mix[:] = 0.0
    here, steps = int(cells.counts[LAST]), 0
    while visited[here] < 0:
        visited[here] = steps
        path[steps] = here
        steps += 1
        here = nearest_level(clip(dot(cells.theta[here], x)), levels)
    first = visited[here]
    length = steps - first
    for k in range(first, steps):
        mix[path[k]] = 1.0 / length
    chosen = min(length - 1, int(draw * length))
    asked = path[first + chosen]
    answered = path[first + (chosen + 1) % length]
    write_mixture(ticket, cells.z, mix, draw)
    ticket[T_P] = cells.z[answered]
    ticket[T_SLOT_LOW] = asked
    ticket[T_SLOT_HIGH] = answered


@inlined
def learn_garg_ito(cells: BaselineState, x: Array, y: float, ticket: Array, room: BaselineScratch) -> None:
    """Give the whole label to the learner that was asked, and stay on the level that was played."""
    asked = int(ticket[T_SLOT_LOW])
    theta = cells.theta[asked]
    miss = y - dot(theta, x)
    g = absorb(cells.factor[asked], cells.scale[asked], x, 1.0, room.u)
    for i in range(theta.shape[0]):
        theta[i] += miss / g * room.u[i]
    cells.counts[LAST] = int(ticket[T_SLOT_HIGH])


@inlined
def bucket_pull(cells: BaselineState, bucket: int, memberships: Array) -> float:
    """Return C_i = Σ_g g(x)(e^{ηV} - e^{-ηV}): positive when this context's groups want more in bucket i."""
    weights = cells.seen[bucket]
    pull = 0.0
    for k in range(memberships.shape[0]):
        pull += memberships[k] * (weights[k] - 1.0 / weights[k])
    return pull


@inlined
def issue_groups(cells: BaselineState, memberships: Array, draw: float, ticket: Array) -> None:
    """Hedge across the first bucket border where the pull changes sign; without one, play the end it points to."""
    buckets = cells.z.shape[0]
    before = bucket_pull(cells, 0, memberships)
    for i in range(1, buckets):
        pull = bucket_pull(cells, i, memberships)
        if before * pull <= 0.0:
            total = abs(before) + abs(pull)
            weight = abs(before) / total if total > 0.0 else 0.5
            write_pair(ticket, i - 1, i, cells.z[i] - cells.knobs[NUDGE], cells.z[i], weight, draw)
            return
        before = pull
    if before > 0.0:
        write_pair(ticket, buckets - 1, buckets - 1, 1.0, 1.0, 0.0, draw)
    else:
        write_pair(ticket, 0, 0, 0.0, 0.0, 0.0, draw)


@inlined
def learn_groups(cells: BaselineState, memberships: Array, y: float, ticket: Array) -> None:
    """Enter the gap into every group of the context, in the bucket that was played."""
    bucket = int(ticket[T_SLOT_LOW])
    for k in range(memberships.shape[0]):
        if memberships[k] > 0.0:
            cells.total[bucket, k] += memberships[k] * (y - ticket[T_P])
            exponent = cells.knobs[STEP] * cells.total[bucket, k]
            cells.seen[bucket, k] = np.exp(min(MOST, max(-MOST, exponent)))


@inlined
def issue_okoroafor(cells: BaselineState, tests: Array, draw: float, ticket: Array) -> None:
    """Find where the weighted tests S(p) = Σ_v u_v sign(p - v) + m(x) change sign, and hedge there."""
    weights, z = cells.total, cells.z
    levels = z.shape[0]
    pull = 0.0
    for k in range(tests.shape[0]):
        pull += (cells.theta[0, k] - cells.theta[1, k]) * tests[k]
    for i in range(levels):
        pull -= weights[i, 0] - weights[i, 1]
    before = 0.0
    for i in range(levels):
        pull += 2.0 * (weights[i, 0] - weights[i, 1])
        if pull <= 0.0:
            if i == 0:
                write_pair(ticket, 0, 0, z[0], z[0], 0.0, draw)
            else:
                write_pair(ticket, i - 1, i, z[i - 1], z[i], before / (before - pull), draw)
            return
        before = pull
    write_pair(ticket, levels - 1, levels - 1, z[-1], z[-1], 0.0, draw)


@inlined
def learn_okoroafor(cells: BaselineState, tests: Array, y: float, ticket: Array) -> None:
    """Multiply every test's weight by e^{±η·test·(y - p)}; thresholds at or below p test +1, the others -1."""
    p = ticket[T_P]
    step = cells.knobs[STEP] * (y - p)
    grow, shrink = np.exp(step), np.exp(-step)
    weights = cells.total
    for i in range(weights.shape[0]):
        up = grow if cells.z[i] <= p else shrink
        down = shrink if cells.z[i] <= p else grow
        weights[i, 0] *= up
        weights[i, 1] *= down
    for k in range(tests.shape[0]):
        factor = np.exp(step * tests[k])
        cells.theta[0, k] *= factor
        cells.theta[1, k] /= factor
