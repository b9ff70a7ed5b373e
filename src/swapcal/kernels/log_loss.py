"""The hedge for log loss: levels whose wishes are Bayes mixtures of experts and of all constants.

Each level keeps the log loss of every expert over the rounds that played it, and n = Σα, S = Σαy. Its wish is the mean
of the experts and of (S + 1)/(n + 2), the constants' mixture, weighted by share·exp(-loss). Two neighbouring levels are
played so that their mean logit equals that of their wishes; then the difference of their log losses does not depend on
the outcome. (α-weighted log loss of the mean is at most -ln Σ share·exp(-αℓ), since -ln E exp(-cℓ)/c falls in c.)
"""

import math
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.draw import event_draw
from swapcal.kernels.jit import inlined, lean
from swapcal.kernels.loop import SAME_WISH, consulted
from swapcal.kernels.mixing import hedge_weight, write_mixed
from swapcal.kernels.state import (
    T_GAP,
    T_ISSUED,
    T_P,
    T_RECENT,
    T_RECENT_LOW,
    T_SLOT_HIGH,
    T_SLOT_LOW,
    T_W_LOW,
    T_WEIGHT,
    RunOptions,
)
from swapcal.kernels.tally import FLOOR, log_loss

UPDATES, LATE, WEIGHTED = range(3)
# totals: Σ D_t, and what wishes lost by being held within the levels
GAP, CLIPPED = range(2)
# a ticket's places for the wishes as they were before they were held within the levels
T_RAW = T_RECENT_LOW


class LogMemory(NamedTuple):
    """The statistics by level."""

    z: Array
    """(L,) levels, increasing, within (0, 1)."""
    mass: Array
    """(L,) n = Σα."""
    ones: Array
    """(L,) S = Σαy."""
    drawn_mass: Array
    """(L,) n over the rounds that drew the level."""
    drawn_ones: Array
    """(L,) S of the same."""
    lost: Array
    """(L,) log loss of the wishes, as they were played."""
    loss: Array
    """(L, experts) log loss of the experts."""
    weight: Array
    """(L, experts + 1) weights of experts and constants, which add to 1."""
    totals: Array
    counts: Integers
    seed: Keys


class LogScratch(NamedTuple):
    """Working room, and what follows from the levels."""

    logit: Array
    """(L,)"""
    row: Array
    """(experts,) log losses of a row."""


@inlined
def logit(p: float) -> float:
    """Return ln(p / (1 - p))."""
    return float(np.log(p / (1.0 - p)))


@inlined
def held(q: float) -> float:
    """Return a probability as its logarithm is taken; see `FLOOR`."""
    return min(max(q, FLOOR), 1.0 - FLOOR)


@inlined
def mixture(state: LogMemory, level: int, x: Array) -> float:
    """Return what the experts and the constants of a level forecast together."""
    experts = x.shape[0]
    wish = 0.0
    for j in range(experts):
        wish += state.weight[level, j] * held(x[j])
    return float(wish + state.weight[level, experts] * (state.ones[level] + 1.0) / (state.mass[level] + 2.0))


@inlined
def within(state: LogMemory, wish: float) -> float:
    """Return a wish held between the lowest and the highest level."""
    return float(min(max(wish, state.z[0]), state.z[-1]))


@inlined
def issue_log(state: LogMemory, x: Array, event: np.uint64, ticket: Array, scratch: LogScratch) -> None:
    """Play two neighbouring levels so that their mean logit equals the mean logit of their wishes."""
    updates, low, high = state.counts[UPDATES], 0, state.z.shape[0] - 1
    draw = event_draw(state.seed[0], event, x, updates)
    raw_low, raw_high = mixture(state, low, x), mixture(state, high, x)
    while high - low > 1:
        middle = (low + high) // 2
        raw = mixture(state, middle, x)
        if raw >= state.z[middle]:
            low, raw_low = middle, raw
        else:
            high, raw_high = middle, raw
    z_low, z_high = state.z[low], state.z[high]
    w_low, w_high = within(state, raw_low), within(state, raw_high)
    up, down = max(0.0, logit(w_low) - scratch.logit[low]), max(0.0, scratch.logit[high] - logit(w_high))
    weight = hedge_weight(up, down)
    gap = (1.0 - weight) * np.log((1.0 - w_low) / (1.0 - z_low)) + weight * np.log((1.0 - w_high) / (1.0 - z_high))
    ticket[T_ISSUED] = updates
    ticket[T_RECENT] = 0.0
    ticket[T_RAW], ticket[T_RAW + 1] = raw_low, raw_high
    ticket[T_SLOT_LOW], ticket[T_SLOT_HIGH] = low, high
    write_mixed(ticket, z_low, z_high, w_low, w_high, weight, gap, draw)


@inlined
def constants_loss(n: float, ones: float) -> float:
    """Return -ln ∫ θ^S (1 - θ)^(n - S) dθ: the log loss of the mixture of all constants."""
    return math.lgamma(n + 2.0) - math.lgamma(ones + 1.0) - math.lgamma(n - ones + 1.0)


@inlined
def reweigh(state: LogMemory, level: int) -> None:
    """Compute the weights of a level anew; experts share one half, constants have the other."""
    experts = state.loss.shape[1]
    constants = constants_loss(state.mass[level], state.ones[level])
    least = constants
    for j in range(experts):
        least = min(least, state.loss[level, j])
    for j in range(experts):
        state.weight[level, j] = np.exp(least - state.loss[level, j]) / experts
    state.weight[level, experts] = np.exp(least - constants)
    total = 0.0
    for j in range(experts + 1):
        total += state.weight[level, j]
    for j in range(experts + 1):
        state.weight[level, j] /= total


@inlined
def learn_log(state: LogMemory, x: Array, y: float, count: float, ticket: Array, scratch: LogScratch) -> None:
    """Learn an outcome with the weights that were issued, however long ago, as if it had come `count` times."""
    for j in range(x.shape[0]):
        scratch.row[j] = log_loss(x[j], y)
    clipped = 0.0
    for side in range(2):
        level, w = int(ticket[T_SLOT_LOW + side]), ticket[T_W_LOW + side]
        alpha = count * (ticket[T_WEIGHT] if side == 1 else 1.0 - ticket[T_WEIGHT])
        if alpha == 0.0:
            continue
        lost = log_loss(w, y)
        clipped += alpha * (lost - log_loss(ticket[T_RAW + side], y))
        state.lost[level] += alpha * lost
        state.mass[level] += alpha
        state.ones[level] += alpha * y
        for j in range(x.shape[0]):
            state.loss[level, j] += alpha * scratch.row[j]
        if state.z[level] == ticket[T_P]:
            state.drawn_mass[level] += count
            state.drawn_ones[level] += count * y
        reweigh(state, level)
    state.totals[GAP] += count * ticket[T_GAP]
    state.totals[CLIPPED] += clipped
    state.counts[UPDATES] += 1
    if count != 1.0:
        state.counts[WEIGHTED] += 1


@inlined
def is_late(state: LogMemory, x: Array, ticket: Array) -> bool:
    """Return whether outcomes were learned since the ticket was issued, here or by the copy that issued it."""
    changed = bool(ticket[T_ISSUED] != state.counts[UPDATES])
    for side in range(2):
        alpha = ticket[T_WEIGHT] if side == 1 else 1.0 - ticket[T_WEIGHT]
        now = mixture(state, int(ticket[T_SLOT_LOW + side]), x)
        if alpha > 0.0 and abs(now - ticket[T_RAW + side]) > SAME_WISH:
            changed = True
    return changed


@lean
def advance_log(
    state: LogMemory,
    scratch: LogScratch,
    X: Array,
    y: Array,
    events: Keys,
    tickets: Array,
    options: RunOptions,
) -> None:
    """Process all rows, X holding the experts' probabilities; see `swapcal.kernels.loop.advance`."""
    for row in range(len(X)):
        labelled = not np.isnan(y[row]) or len(options.opponent.labels) > 0
        x, ticket = X[row], tickets[row]
        if ticket[T_SLOT_LOW] < 0.0:
            issue_log(state, x, events[row % events.shape[0]], ticket, scratch)
        elif labelled and is_late(state, x, ticket):
            state.counts[LATE] += 1
        if labelled:
            label, count = consulted(options, row, y[row], ticket, x)
            learn_log(state, x, label, count, ticket, scratch)
