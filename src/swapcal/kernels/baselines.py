"""The online baselines: their memory, and how each issues a forecast and learns an outcome."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.draw import event_draw
from swapcal.kernels.jit import inlined, shared
from swapcal.kernels.learners import clip
from swapcal.kernels.linalg import absorb, dot
from swapcal.kernels.mixing import hedge_weight, round_to_levels, stationary, write_mixture
from swapcal.kernels.state import T_HIGH, T_ISSUED, T_LOW, T_MEAN, T_P, T_SLOT_HIGH, T_SLOT_LOW, T_WEIGHT

# The memory of all online baselines, as named arrays; each system documents its use of them.

SYSTEMS = range(8)
FOSTER_VOHRA, FOSTER_HART, FISHELSON, LUO_KL, GARG_ITO, GROUPS, OKOROAFOR, HU_LUO = SYSTEMS
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


# Forecasters that look only at past forecasts and labels: Foster-Vohra, Foster-Hart, Fishelson et al., Luo et al.


@inlined
def issue_foster_vohra(cells: BaselineState, draw: float, ticket: Array) -> None:
    """Play a cell whose gap is within tolerance, else hedge two neighbours by what exceeds it."""
    n, e, z = cells.seen[:, 0], cells.total[:, 0], cells.z
    tolerance = 0.5 * z[1]
    for i in range(z.shape[0]):
        if abs(e[i]) <= n[i] * tolerance:
            write_pair(ticket, i, i, z[i], z[i], 0.0, draw)
            return
    i = 0
    while e[i + 1] > 0.0:
        i += 1
    above = e[i] - n[i] * tolerance
    below = -e[i + 1] - n[i + 1] * tolerance
    write_pair(ticket, i, i + 1, z[i], z[i + 1], above / (above + below), draw)


@inlined
def issue_foster_hart(cells: BaselineState, draw: float, ticket: Array) -> None:
    """Hedge two neighbours whose mean gaps point at each other, found by bisection."""
    n, e, z = cells.seen[:, 0], cells.total[:, 0], cells.z
    lo, hi = 0, z.shape[0] - 1
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if e[middle] >= 0.0:
            lo = middle
        else:
            hi = middle
    weight = hedge_weight(e[lo] / max(n[lo], 1.0), -e[hi] / max(n[hi], 1.0))
    write_pair(ticket, lo, hi, z[lo], z[hi], weight, draw)


@inlined
def learn_gap(cells: BaselineState, slot: int, p: float, y: float) -> None:
    """Enter a label into the count and the gap Σ(y - p) of the cell that was played."""
    cells.seen[slot, 0] += 1.0
    cells.total[slot, 0] += y - p


@shared
def kl_rounding(w: float, low: float, high: float) -> float:
    """Return the probability of `high`: its odds are (w - low)/(low(1 - low)) to (high - w)/(high(1 - high))."""
    up = max(0.0, w - low) / (low * (1.0 - low))
    down = max(0.0, high - w) / (high * (1.0 - high))
    return up / (up + down)


@inlined
def issue_stationary_means(cells: BaselineState, draw: float, ticket: Array, mix: Array, room: BaselineScratch) -> None:
    """Play the stationary distribution of the levels' rounded running means; `mix` receives it."""
    z, up, base = cells.z, room.chain[1], room.base
    for i in range(z.shape[0]):
        if cells.codes[0] == FISHELSON:
            base[i], up[i] = round_to_levels((0.5 + cells.total[i, 0]) / (1.0 + cells.seen[i, 0]), z)
        else:
            w = (1.0 + cells.total[i, 0]) / (2.0 + cells.seen[i, 0])
            w = min(z[-1], max(z[0], w))
            base[i], _ = round_to_levels(w, z)
            up[i] = kl_rounding(w, z[base[i]], z[base[i] + 1])
    stationary(base, up, mix, room.walk, room.matrix)
    write_mixture(ticket, z, mix, draw)


@inlined
def learn_shares(cells: BaselineState, mix: Array, y: float) -> None:
    """Enter a label into every level with the probability it was played with."""
    for i in range(mix.shape[0]):
        cells.seen[i, 0] += mix[i]
        cells.total[i, 0] += mix[i] * y


# Forecasters that look at contexts: Garg et al. with Ito, finite groups, Okoroafor et al.

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

    The ticket keeps the learner that was used (low slot) and its level (high slot).
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
    cell = path[first + chosen]
    answered = path[first + (chosen + 1) % length]
    write_mixture(ticket, cells.z, mix, draw)
    ticket[T_P] = cells.z[answered]
    ticket[T_SLOT_LOW] = cell
    ticket[T_SLOT_HIGH] = answered


@inlined
def learn_garg_ito(cells: BaselineState, x: Array, y: float, ticket: Array, room: BaselineScratch) -> None:
    """Update the learner that was used with the whole label, and stay on the level that was played."""
    cell = int(ticket[T_SLOT_LOW])
    theta = cells.theta[cell]
    miss = y - dot(theta, x)
    g = absorb(cells.factor[cell], cells.scale[cell], x, 1.0, room.u)
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


# Hu et al.: in each level three learners of the residual, 1, -1 and a direction; columns of `seen` and `total`.
DIRECTION, AGNOSTIC = 2, 3
# The direction reads coordinates that fill the unit ball: ‖x_2:‖ ≤ √3/2.
TO_UNIT = 2.0 / np.sqrt(3.0)


@inlined
def normal_hedge(gain: float, seen: float) -> float:
    """Return AdaNormalHedge's weight of a learner with this gain over so much seen."""
    above, below = max(0.0, gain + 1.0), max(0.0, gain - 1.0)
    unit = 3.0 * (seen + 1.0)
    return float(0.5 * (np.exp(min(MOST, above * above / unit)) - np.exp(min(MOST, below * below / unit))))


@inlined
def direction_of(cells: BaselineState, level: int, x: Array) -> float:
    """Return what the level's direction forecasts of the residual: ⟨G, x⟩ / max(‖G‖, √(2 Σ‖r x‖²)), G = Σ r x."""
    along, square = 0.0, 0.0
    for i in range(1, x.shape[0]):
        along += cells.theta[level, i] * x[i]
        square += cells.theta[level, i] * cells.theta[level, i]
    largest = max(square, 2.0 * cells.scale[level, 0])
    return float(TO_UNIT * along / np.sqrt(largest)) if largest > 0.0 else 0.0


@inlined
def residual_pull(cells: BaselineState, level: int, x: Array) -> float:
    """Return S_i: positive when the level's learners, weighted by hedging, expect outcomes above the level."""
    up = normal_hedge(cells.total[level, 0], cells.seen[level, 0])
    down = normal_hedge(cells.total[level, 1], cells.seen[level, 1])
    along = normal_hedge(cells.total[level, DIRECTION], cells.seen[level, DIRECTION])
    return up - down + along * direction_of(cells, level, x)


@inlined
def issue_hu_luo(cells: BaselineState, x: Array, draw: float, ticket: Array) -> None:
    """Hedge two neighbours between which the pull changes sign; 0 if it is never positive at 0, 1 if it stays so."""
    z = cells.z
    before = residual_pull(cells, 0, x)
    if before <= 0.0:
        write_pair(ticket, 0, 0, z[0], z[0], 0.0, draw)
        return
    for i in range(1, z.shape[0]):
        pull = residual_pull(cells, i, x)
        if pull <= 0.0:
            write_pair(ticket, i - 1, i, z[i - 1], z[i], before / (before - pull), draw)
            return
        before = pull
    write_pair(ticket, z.shape[0] - 1, z.shape[0] - 1, z[-1], z[-1], 0.0, draw)


@inlined
def learn_hu_luo(cells: BaselineState, x: Array, y: float, ticket: Array) -> None:
    """Credit the learners of the level that was drawn with f(x)(y - p), and turn its direction."""
    level, gap = int(ticket[T_SLOT_LOW]), y - ticket[T_P]
    along = direction_of(cells, level, x) * gap
    for k in range(AGNOSTIC):
        gain = along if k == DIRECTION else (gap if k == 0 else -gap)
        cells.total[level, k] += gain
        cells.seen[level, k] += abs(gain)
    square = 0.0
    for i in range(1, x.shape[0]):
        square += x[i] * x[i]
    for i in range(1, x.shape[0]):
        cells.theta[level, i] += gap * TO_UNIT * x[i]
    cells.scale[level, 0] += gap * gap * TO_UNIT * TO_UNIT * square


# What a baseline does in a round of the engine's loop: each system's own way to issue a forecast and learn a label.


@inlined
def enter_baseline(baseline: Baseline, row: int) -> None:
    """Copy what the system reads of a row into working room."""
    for i in range(baseline.features.shape[1]):
        baseline.room.x[i] = baseline.features[row, i]


@inlined
def issue_baseline(baseline: Baseline, event: np.uint64, ticket: Array, mix: Array) -> None:
    """Fill in the ticket of the row that was entered by the system's own rule."""
    cells, room, x = baseline.cells, baseline.room, baseline.room.x
    updates, system = cells.counts[UPDATES], cells.codes[0]
    draw = event_draw(cells.seed[0], event, x, updates)
    ticket[T_ISSUED] = updates
    if system == FOSTER_VOHRA:
        issue_foster_vohra(cells, draw, ticket)
    elif system == FOSTER_HART:
        issue_foster_hart(cells, draw, ticket)
    elif system in (FISHELSON, LUO_KL):
        issue_stationary_means(cells, draw, ticket, mix, room)
    elif system == GARG_ITO:
        issue_garg_ito(cells, x, draw, ticket, mix, room)
    elif system == GROUPS:
        issue_groups(cells, x, draw, ticket)
    elif system == HU_LUO:
        issue_hu_luo(cells, x, draw, ticket)
    else:
        issue_okoroafor(cells, x, draw, ticket)


@inlined
def learn_baseline(baseline: Baseline, y: float, ticket: Array, mix: Array) -> None:
    """Learn the label of the row that was entered by the system's own rule."""
    cells, room, x = baseline.cells, baseline.room, baseline.room.x
    system = cells.codes[0]
    if system in (FOSTER_VOHRA, FOSTER_HART):
        learn_gap(cells, int(ticket[T_SLOT_LOW]), ticket[T_P], y)
    elif system in (FISHELSON, LUO_KL):
        learn_shares(cells, mix, y)
    elif system == GARG_ITO:
        learn_garg_ito(cells, x, y, ticket, room)
    elif system == GROUPS:
        learn_groups(cells, x, y, ticket)
    elif system == HU_LUO:
        learn_hu_luo(cells, x, y, ticket)
    else:
        learn_okoroafor(cells, x, y, ticket)
    cells.counts[UPDATES] += 1
