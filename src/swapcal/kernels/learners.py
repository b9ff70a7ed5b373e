"""Learners: the update of one level's with a labelled context, the search among all levels, and Newton experts."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.encode import sigmoid
from swapcal.kernels.jit import inlined, lean, shared
from swapcal.kernels.linalg import (
    BLOCK,
    absorb,
    add_outer,
    dot,
    factor_size,
    padded,
    project_ball,
    quadratic,
    row_axpy,
    row_dot,
)
from swapcal.kernels.mixing import shrunk
from swapcal.kernels.state import (
    CODES_LEARNER,
    LEVELS,
    ONS_LEARNER,
    OWN,
    RIDGE,
    START,
    STEP,
    UPDATES,
    VAW_LEARNER,
    WINDOW,
    Memory,
    Scratch,
)

# What one level's learner does with a labelled context of weight α.

# F_4^lin lies inside the ball of this radius (paper, Section 2.3).
ONS_RADIUS = 4.0


@shared
def clip(w: float) -> float:
    """Return w forced into [0, 1]."""
    return min(1.0, max(0.0, w))


@inlined
def pull_to_half(theta: Array, reach: float) -> None:
    """Project θ onto the ball of radius `reach` around e_1, the constant ½, in place."""
    theta[0] -= 1.0
    distance2 = dot(theta, theta)
    if distance2 > reach * reach:
        shrink = reach / np.sqrt(distance2)
        for i in range(theta.shape[0]):
            theta[i] *= shrink
    theta[0] += 1.0


@inlined
def step_ridge(state: Memory, slot: int, x: Array, y: float, alpha: float, u: Array) -> float:
    """Move θ to the new ridge solution; return αq/(1 + αq), the share of the loss that the bound charges."""
    r = row_dot(state.theta, slot, x)
    g = absorb(state.factor[slot], state.scale[slot], x, alpha, u)
    row_axpy(state.theta, slot, alpha * (y - r) / g, u)
    return (g - 1.0) / g


@inlined
def step_ons(state: Memory, slot: int, x: Array, y: float, alpha: float, u: Array, ball: Array | None) -> float:
    """Take one Online Newton Step on α(⟨θ,x⟩ - y)²; return ∇ᵀA⁻¹∇/(2β), the term of its regret bound.

    A ← A + ∇∇ᵀ and θ ← Π^A(θ - A⁻¹∇/β), with ∇ = 2α(⟨θ,x⟩ - y)x.
    """
    if ball is None:
        return 0.0
    theta = state.theta[slot]
    beta = float(state.knobs[STEP])
    k = 2.0 * alpha * (row_dot(state.theta, slot, x) - y)
    add_outer(state.gram[slot], x, alpha)
    g = absorb(state.factor[slot], state.scale[slot], x, k * k, u)
    row_axpy(state.theta, slot, -k / (beta * g), u)
    if dot(theta, theta) > ONS_RADIUS * ONS_RADIUS:
        project_ball(theta, state.factor[slot], state.scale[slot], ONS_RADIUS, ball)
    return (g - 1.0) / g / (2.0 * beta)


@inlined
def learn_level(state: Memory, slot: int, x: Array, y: float, alpha: float, w: float, scratch: Scratch) -> None:
    """Enter (x, y) with weight α into a level's statistics and its learner; w is the wish issued at prediction."""
    if alpha <= 0.0:
        return
    z = state.z[slot]
    state.mass[slot] += alpha
    state.excess[slot] += alpha * (w - z) * (w + z - 2.0 * y)
    row_axpy(state.residual, slot, alpha * (y - z), x)
    learner = state.codes[CODES_LEARNER]
    if learner == ONS_LEARNER:
        state.potential[slot] += step_ons(state, slot, x, y, alpha, scratch.u, scratch.ball)
    else:
        share = step_ridge(state, slot, x, y, alpha, scratch.u)
        miss = y - 0.5 if learner == VAW_LEARNER else y - w
        state.potential[slot] += alpha * miss * miss * share


@inlined
def pull_again(
    theta: Array,
    factor: Array,
    scale: Array,
    prior: Array,
    row: int,
    coordinate: int,
    more: float,
    u: Array,
    unit: Array,
) -> None:
    """Pull one coordinate of a ridge learner towards its start by so much more, as if the start were observed."""
    unit[coordinate] = 1.0
    r = row_dot(theta, row, unit)
    g = absorb(factor[row], scale[row], unit, more, u)
    row_axpy(theta, row, more * (prior[coordinate] - r) / g, u)
    unit[coordinate] = 0.0


@lean
def replace_ridge(state: Memory, ridge: float, u: Array, unit: Array) -> None:
    """Move all learners to their ridge solutions with another λ on the labels they have learned; `unit` is all zeros.

    That is d rank-one updates of A by λ' - λ, on which A stays at least the smaller λ.
    """
    more, ratio = ridge - state.knobs[RIDGE], ridge / state.knobs[RIDGE]
    for slot in range(state.theta.shape[0]):
        for i in range(state.theta.shape[1]):
            pull_again(state.theta, state.factor, state.scale, state.prior[slot], slot, i, more, u, unit)
    for row in range(state.recent.shape[0]):
        for i in range(state.recent.shape[1]):
            pull, start = state.recent_pull[row, i], state.recent_prior[min(row, 1)]
            more = pull * (ratio - 1.0)
            pull_again(state.recent, state.recent_factor, state.recent_scale, start, row, i, more, u, unit)
            state.recent_pull[row, i] = ratio * pull
    state.knobs[RIDGE] = state.knobs[START] = ridge


# Learners with a short memory: ridge regressions whose past fades by e^(-1/window) with every label.
#
# What fades must not take the penalty with it, or directions that the data no longer visit would swing freely.
# Coordinates get their λ back in turn, all of them once in a window, as if the learner's start were observed again: the
# regularised loss they minimise is Σ γ^(T-t) α (⟨θ,x⟩ - y)² + Σ_j f_j (θ_j - θ_0j)², λ/e² < f_j ≤ λ (see
# `swapcal.bounds.learners`).

# After this many windows without a label, what is left is zero in double precision.
FORGOTTEN = 36.0


@inlined
def observe(state: Memory, row: int, x: Array, y: float, alpha: float, u: Array) -> None:
    """Move a learner to its new solution with one more observation."""
    r = row_dot(state.recent, row, x)
    g = absorb(state.recent_factor[row], state.recent_scale[row], x, alpha, u)
    row_axpy(state.recent, row, alpha * (y - r) / g, u)


@inlined
def restart(state: Memory, row: int) -> None:
    """Reset a learner."""
    prior, ridge = min(row, 1), state.knobs[RIDGE]
    for i in range(state.recent_factor.shape[1]):
        state.recent_factor[row, i] = 0.0
    for i in range(state.recent.shape[1]):
        state.recent[row, i] = state.recent_prior[prior, i]
        state.recent_scale[row, i] = 1.0 / ridge
        state.recent_pull[row, i] = ridge
    state.recent_excess[row] = 0.0


@inlined
def refill(state: Memory, row: int, coordinate: int, u: Array, unit: Array) -> None:
    """Pull a coordinate towards the learner's start with all of λ again."""
    unit[coordinate] = 1.0
    lacking = state.knobs[RIDGE] - state.recent_pull[row, coordinate]
    observe(state, row, unit, state.recent_prior[min(row, 1), coordinate], lacking, u)
    state.recent_pull[row, coordinate] = state.knobs[RIDGE]
    unit[coordinate] = 0.0


@inlined
def fade(state: Memory, row: int, u: Array, unit: Array) -> None:
    """Bring a learner up to date: let its past fade, and refill the coordinates whose turn has come meanwhile."""
    window, now, width = state.knobs[WINDOW], state.counts[UPDATES], state.recent.shape[1]
    before = state.recent_clock[row]
    state.recent_clock[row] = now
    if now - before > FORGOTTEN * window:
        restart(state, row)
    elif now > before:
        kept = np.exp((before - now) / window)
        for i in range(width):
            state.recent_scale[row, i] /= kept
            state.recent_pull[row, i] *= kept
        state.recent_excess[row] *= kept
        first, last = int(width * (before / window)), int(width * (now / window))
        for turn in range(max(first, last - width), last):
            refill(state, row, turn % width, u, unit)


@inlined
def learn_recent(state: Memory, row: int, x: Array, y: float, alpha: float, u: Array, unit: Array | None) -> None:
    """Enter (x, y) with weight α into a learner with a short memory."""
    if unit is None:
        return
    if alpha > 0.0:
        fade(state, row, u, unit)
        observe(state, row, x, y, alpha, u)


# The levels in order with their learners, live or frozen, and the one search among them.


class Ladder(NamedTuple):
    """Level k is z[place[k]], and row member[k] of the others is its learner."""

    levels: int
    place: Integers
    z: Array
    member: Integers
    theta: Array
    factor: Array | None
    """None if no wish depends on its weight."""
    scale: Array
    shrinks: bool
    """Whether a wish depends on the weight it is to carry, as VAW's does."""
    recent: Array
    """Row 1 + member is the level's learner with a short memory; only looked at if there are such."""
    recalls: bool


@inlined
def looked_at(array: Array, leverage: Array | None) -> Array | None:
    """Return an array that only leverages are computed from; None without those."""
    if leverage is None:
        return None
    return array


@inlined
def ladder_of(state: Memory, scratch: Scratch) -> Ladder:
    """Return a forecaster's levels as they are now."""
    shrinks = state.codes[CODES_LEARNER] == VAW_LEARNER
    return Ladder(
        state.counts[LEVELS],
        state.order,
        state.z,
        state.order,
        state.theta,
        looked_at(state.factor, scratch.leverage),
        state.scale,
        shrinks,
        state.recent,
        state.knobs[WINDOW] > 0.0,
    )


@lean
def evaluate(theta: Array, slot: int, x: Array) -> float:
    """Return ⟨θ, x⟩ of a slot as every kernel computes it; x is padded with zeros to the width of θ."""
    return row_dot(theta, slot, x)


@inlined
def leverage_of(factor: Array | None, scale: Array, member: int, x: Array) -> float:
    """Return xᵀPx of a learner; 0 without its factor."""
    if factor is None:
        return 0.0
    return quadratic(factor[member], scale[member], x)


@inlined
def wish(ladder: Ladder, member: int, x: Array, alpha: float) -> float:
    """Return what a learner forecasts if it is to carry weight α."""
    r = row_dot(ladder.theta, member, x)
    if ladder.shrinks:
        return shrunk(r, leverage_of(ladder.factor, ladder.scale, member, x), alpha)
    if ladder.recalls:
        r += ladder.theta[member, OWN] * (clip(row_dot(ladder.recent, member + 1, x)) - 0.5)
    return clip(r)


@inlined
def held(w: float, least: float, most: float) -> float:
    """Return w forced into [least, most]."""
    return min(most, max(least, w))


@inlined
def inner_levels(ladder: Ladder, reach: float, allowed: float) -> tuple[int, int]:
    """Return the first and the last level at least `reach` from 0 and 1, neither of which they are themselves.

    If the caller allows to come nearer (above 0), they are the last ones that are not nearer than that.
    """
    z, place = ladder.z, ladder.place
    first, last = 1, max(ladder.levels - 2, 1)
    nearer = 0.0 < allowed < reach
    while first < last and (z[place[first + 1]] <= allowed if nearer else z[place[first]] < reach):
        first += 1
    while last > first and (1.0 - z[place[last - 1]] <= allowed if nearer else 1.0 - z[place[last]] < reach):
        last -= 1
    return first, last


@inlined
def crossing(ladder: Ladder, x: Array, lo: int, hi: int, least: float, most: float) -> tuple[int, float, float]:
    """Return k and the wishes of levels k and k + 1, with wish(low) ≥ z_low and wish(high) ≤ z_high.

    Wishes are held between `least`, at least level lo, and `most`, at most level hi, so a crossing lies between them.
    Learners mostly agree: the search starts where the middle one points and walks from there; every third step halves
    what is left, which bounds the number of learners looked at by O(log L).
    """
    z, place, member = ladder.z, ladder.place, ladder.member
    k, turn = lo, 0
    if hi - lo > 1:
        k = (lo + hi) // 2
        w = held(wish(ladder, member[k], x, 1.0), least, most)
        middle = z[place[k]]
        if w >= middle:
            lo = k
            share = (w - middle) / (1.0 - middle)
        else:
            hi = k
            share = w / middle
        k = min(hi - 1, lo + int(share * (hi - lo)))
    while True:
        w_low = held(wish(ladder, member[k], x, 1.0), least, most)
        w_high = held(wish(ladder, member[k + 1], x, 1.0), least, most)
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


# Second-order logistic regressions on the contexts, at several ridge strengths.
#
# Each keeps the Gaussian posterior N(w, P) of its weights, P = U D Uᵀ, and takes one extended Kalman step per label.
# The strongest ridge weights all labels equally and is robust to noise; the weakest discounts old labels most and
# adapts fastest.
# A row concerns only the coordinates that existed when it came, so what is computed does not depend on later ones.

RIDGES = np.array([10.0, 1.0, 0.1])  # on features of norm at most 1
KEEP = np.array([1.0, 1.0 - 1e-4, 1.0 - 1e-3])  # of what was learned, at each label
NEWTON = len(RIDGES)
CONSTANT_VARIANCE = 10.0
LOOSEST = 20.0  # no variance grows beyond this many times its prior
STEEPEST = 15.0  # log-odds beyond which labels are as good as certain
FLAT = 1e-4  # least curvature credited to a label, so that certainty cannot freeze the weights
MOST_STEPS = 1000  # of one label; those of a larger weight are longer


class Newton(NamedTuple):
    """The regressions' posteriors over the coordinates so far, rounded up to whole blocks."""

    weights: Array
    """(NEWTON, width)"""
    factor: Array
    """(NEWTON, size) U; see `swapcal.kernels.linalg`"""
    scale: Array
    """(NEWTON, width) D"""
    met: Integers
    """(1,) coordinates that labels have been about"""


def blank_newton(dim: int) -> Newton:
    """Return regressions on `dim` coordinates that have learned nothing."""
    scale = np.repeat(1.0 / RIDGES[:, None], padded(dim), axis=1)
    scale[:, 0] = CONSTANT_VARIANCE
    return Newton(np.zeros(scale.shape), np.zeros((NEWTON, factor_size(dim))), scale, np.zeros(1, np.int64))


def grown(newton: Newton, dim: int) -> Newton:
    """Return regressions with room for `dim` coordinates, of which nothing is known beyond the old ones."""
    wider = blank_newton(dim)
    for old, new in zip(newton[:3], wider[:3], strict=True):
        new[:, : old.shape[1]] = old
    return wider._replace(met=newton.met)


@inlined
def whole_blocks(n: int) -> int:
    """Return n rounded up to whole blocks."""
    return (n + BLOCK - 1) // BLOCK * BLOCK


@inlined
def list_context(x: Array, dim: int, first: int, norm: float, context: Array) -> int:
    """Write 1 and the raw features, their norm at most 1, padded with 0 to whole blocks; return how many."""
    context[0] = 1.0
    n = 1
    for i in range(first, dim):
        context[n] = x[i] / norm
        n += 1
    for i in range(n, whole_blocks(n)):
        context[i] = 0.0
    return n


@inlined
def newton_margin(newton: Newton, e: int, context: Array, size: int) -> float:
    """Return a regression's log-odds."""
    m = 0.0
    for i in range(size):
        m += newton.weights[e, i] * context[i]
    return m


@inlined
def newton_variance(newton: Newton, e: int, context: Array, size: int) -> float:
    """Return the variance xᵀ P x of a regression's log-odds."""
    return float(quadratic(newton.factor[e], newton.scale[e, : whole_blocks(size)], context))


@inlined
def steps_of(weight: float) -> int:
    """Return in how many equal steps a label of some weight is learned: one step of a large weight would overshoot."""
    return int(min(max(np.ceil(weight), 1.0), MOST_STEPS))


@inlined
def repeated(m: float, variance: float, y: float, weight: float) -> tuple[float, float]:
    """Return (a, c): what a label does that comes again and again, so many extended Kalman steps for the same row x.

    They move the weights by a P x and add c x xᵀ to the precision, with P that of before: a step shrinks P x along
    itself, so that all steps together take a loop over numbers. `m` are the row's log-odds, `variance` is xᵀ P x.
    """
    steps = steps_of(weight)
    part, shrunk, push, curvature = weight / steps, 1.0, 0.0, 0.0
    for _ in range(steps):
        p = sigmoid(min(max(m + push * variance, -STEEPEST), STEEPEST))
        bend = part * max(p * (1.0 - p), FLAT)
        shrunk /= 1.0 + bend * shrunk * variance
        push += part * (y - p) * shrunk
        curvature += bend
    return push, curvature


HALVINGS = 40


@inlined
def settled(m: float, variance: float, y: float, weight: float) -> tuple[float, float]:
    """Return (a, c) as `repeated` does, of the one step that fits the row and the past together best.

    a = weight (y - σ(m + a variance)): a step from the tangent at m goes many times too far where σ is flat, as at the
    log-odds of a rare event.
    """
    low, high = -weight * (1.0 - y), weight * y
    for _ in range(HALVINGS):
        push = 0.5 * (low + high)
        if push < weight * (y - sigmoid(min(max(m + push * variance, -STEEPEST), STEEPEST))):
            low = push
        else:
            high = push
    p = sigmoid(min(max(m + push * variance, -STEEPEST), STEEPEST))
    return push, weight * max(p * (1.0 - p), FLAT)


@inlined
def learn_newton(newton: Newton, start: float, context: Array, size: int, y: float, weight: float, gain: Array) -> None:
    """One extended Kalman step of every regression, or as many as the label's weight, rounded up.

    Their margins are added to `start`; from another start than 0 each step is the one that fits best.
    """
    newton.met[0] = max(newton.met[0], size)
    for e in range(NEWTON):
        m = start + newton_margin(newton, e, context, size)
        p = sigmoid(min(max(m, -STEEPEST), STEEPEST))
        scale = newton.scale[e, : whole_blocks(size)]
        if start != 0.0:
            push, curvature = settled(m, newton_variance(newton, e, context, size), y, weight)
            absorb(newton.factor[e], scale, context, curvature, gain)
        elif weight > 1.0:
            push, curvature = repeated(m, newton_variance(newton, e, context, size), y, weight)
            absorb(newton.factor[e], scale, context, curvature, gain)
        else:
            push = weight * (y - p) / absorb(newton.factor[e], scale, context, weight * max(p * (1.0 - p), FLAT), gain)
        for i in range(size):
            newton.weights[e, i] += push * gain[i]
        if KEEP[e] < 1.0:
            for i in range(newton.met[0]):
                newton.scale[e, i] = min(newton.scale[e, i] / KEEP[e], LOOSEST / RIDGES[e])
