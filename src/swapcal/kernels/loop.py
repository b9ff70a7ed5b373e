"""One loop for everything: a row without a ticket is issued one, a row with a label is learned.

`run`, `predict` and `update`, weighted passes over a table, their log, and duels against an opponent all execute this
same machine code, with many rows or one, so they agree bit for bit. The baselines go through it too.
"""

import numpy as np

from swapcal.arrays import Array, Keys
from swapcal.kernels.baselines import Baseline, enter_baseline, issue_baseline, learn_baseline
from swapcal.kernels.draw import event_draw
from swapcal.kernels.jit import inlined, lean
from swapcal.kernels.learners import (
    clip,
    crossing,
    inner_levels,
    ladder_of,
    learn_level,
    learn_recent,
    leverage_of,
    pull_to_half,
    wish,
)
from swapcal.kernels.linalg import row_axpy, row_dot
from swapcal.kernels.mixing import (
    hedge_gap,
    hedge_weight,
    round_to_levels,
    self_consistent_weight,
    shrunk,
    stationary,
    write_mixture,
)
from swapcal.kernels.state import (
    ALL_ROWS,
    CODES_ADAPTIVE,
    CODES_LEARNER,
    CODES_MIXING,
    FLOOR,
    GAP,
    HEDGE,
    INNER,
    KAPPA,
    LATE,
    LEVELS,
    OWN,
    REACH,
    RECENT_COORDINATES,
    RECENT_GAP,
    T_GAP,
    T_HIGH,
    T_ISSUED,
    T_LOW,
    T_MEAN,
    T_P,
    T_RECENT,
    T_RECENT_HIGH,
    T_RECENT_LOW,
    T_SLOT_HIGH,
    T_SLOT_LOW,
    T_W_HIGH,
    T_W_LOW,
    T_WEIGHT,
    UPDATES,
    VAW_LEARNER,
    WINDOW,
    Chain,
    Log,
    Memory,
    RunOptions,
    Scratch,
    answer,
)

# Wishes this close are the same wish, rounded by other code or another processor. Taking one for the other adds at most
# twice this to the regret of a round, which is below the rounding of the certificate itself.
SAME_WISH = 5e-14
# Most levels that one label can add: none, that of a split, and those of both ends.
NEW_LEVELS = (0, 1, 3)


@inlined
def issue_hedge(state: Memory, x: Array, draw: float, ticket: Array, scratch: Scratch) -> None:
    """Play two adjacent levels so that their mean equals the mean of their learners' wishes."""
    ladder = ladder_of(state, scratch)
    lo, hi, least, most = 0, state.counts[LEVELS] - 1, 0.0, 1.0
    if state.codes[CODES_ADAPTIVE] == INNER:
        lo, hi = inner_levels(ladder, 1.0 / (state.counts[UPDATES] + 2.0), ticket[T_MEAN])
        least, most = state.z[state.order[lo]], state.z[state.order[hi]]
        hi = min(max(hi, lo + 1), state.counts[LEVELS] - 1)  # ½ may be the only one; a file may hold any levels
        lo = min(lo, hi - 1)
    k, w_low, w_high = crossing(ladder, x, lo, hi, least, most)
    low, high = state.order[k], state.order[k + 1]
    z_low, z_high = state.z[low], state.z[high]
    if state.codes[CODES_LEARNER] == VAW_LEARNER:
        r_low, r_high = row_dot(state.theta, low, x), row_dot(state.theta, high, x)
        q_low = leverage_of(ladder.factor, ladder.scale, low, x)
        q_high = leverage_of(ladder.factor, ladder.scale, high, x)
        weight = self_consistent_weight(r_low, q_low, z_low, r_high, q_high, z_high)
        w_low, w_high = shrunk(r_low, q_low, 1.0 - weight), shrunk(r_high, q_high, weight)
        gap = (1.0 - weight) * (z_low - w_low) * (z_low + w_low) + weight * (z_high - w_high) * (z_high + w_high)
    else:
        u, v = w_low - z_low, z_high - w_high
        weight = hedge_weight(u, v)
        gap = hedge_gap(u, v, z_high - z_low)
    ticket[T_P] = z_high if draw < weight else z_low
    ticket[T_MEAN] = z_low + weight * (z_high - z_low)
    ticket[T_LOW] = z_low
    ticket[T_HIGH] = z_high
    ticket[T_WEIGHT] = weight
    ticket[T_W_LOW] = w_low
    ticket[T_W_HIGH] = w_high
    ticket[T_GAP] = gap
    ticket[T_SLOT_LOW] = low
    ticket[T_SLOT_HIGH] = high


@inlined
def issue_stationary(state: Memory, x: Array, draw: float, ticket: Array, mix: Array, chain: Chain | None) -> None:
    """Play the stationary distribution of the levels' rounded wishes (Blum-Mansour; paper, Algorithm 1).

    `mix` receives each slot's probability in its first half and its wish in the second.
    """
    if chain is None:
        return
    n = state.counts[LEVELS]
    z, up, p, base = chain.rows[0], chain.rows[1], chain.rows[2], chain.base
    for k in range(n):
        z[k] = state.z[state.order[k]]
    for k in range(n):
        slot = state.order[k]
        w = clip(row_dot(state.theta, slot, x))
        mix[n + slot] = w
        base[k], up[k] = round_to_levels(w, z)
    stationary(base, up, p, chain.walk, chain.matrix)
    lowest, highest = write_mixture(ticket, z, p, draw)
    gap = 0.0
    for k in range(n):
        mix[state.order[k]] = p[k]
    for k in range(n):
        if p[k] > 0.0:
            w = mix[n + state.order[k]]
            gap += p[k] * (w - z[base[k]]) * (z[base[k] + 1] - w)
    ticket[T_W_LOW] = mix[n + state.order[lowest]]
    ticket[T_W_HIGH] = mix[n + state.order[highest]]
    ticket[T_GAP] = gap
    ticket[T_SLOT_LOW] = state.order[lowest]
    ticket[T_SLOT_HIGH] = state.order[highest]


@inlined
def issue(state: Memory, x: Array, event: np.uint64, ticket: Array, mix: Array, scratch: Scratch) -> None:
    """Fill in a ticket."""
    updates = state.counts[UPDATES]
    draw = event_draw(state.seed[0], event, x, updates)
    ticket[T_ISSUED] = updates
    ticket[T_RECENT] = ticket[T_RECENT_LOW] = ticket[T_RECENT_HIGH] = 0.0
    if state.knobs[WINDOW] > 0.0:
        ticket[T_RECENT] = clip(row_dot(state.recent, 0, x))
        x[ALL_ROWS] = ticket[T_RECENT] - 0.5
    if state.codes[CODES_MIXING] == HEDGE:
        issue_hedge(state, x, draw, ticket, scratch)
        if state.knobs[WINDOW] > 0.0:
            ticket[T_RECENT_LOW] = clip(row_dot(state.recent, int(ticket[T_SLOT_LOW]) + 1, x))
            ticket[T_RECENT_HIGH] = clip(row_dot(state.recent, int(ticket[T_SLOT_HIGH]) + 1, x))
    else:
        issue_stationary(state, x, draw, ticket, mix, scratch.chain)


@inlined
def split(state: Memory, low: int, high: int) -> None:
    """Insert a level half-way between two neighbours, its learner starting from their mean, or as near as it may."""
    middle = 0.5 * (state.z[low] + state.z[high])
    if not state.z[low] < middle < state.z[high]:
        return
    new = state.counts[LEVELS]
    k = new
    while state.order[k - 1] != low:
        state.order[k] = state.order[k - 1]
        k -= 1
    state.order[k] = new
    state.counts[LEVELS] = new + 1
    state.right[low] = new
    state.right[new] = high
    state.z[new] = middle
    state.slack[low] = 0.0
    for i in range(state.theta.shape[1]):
        state.theta[new, i] = 0.5 * (state.theta[low, i] + state.theta[high, i])
    pull_to_half(state.theta[new], state.knobs[REACH])
    for i in range(state.theta.shape[1]):
        state.prior[new, i] = state.theta[new, i]
    if state.knobs[WINDOW] > 0.0:
        state.recent_clock[new + 1] = state.counts[UPDATES]


@inlined
def refine(state: Memory, low: int, high: int, charge: float) -> None:
    """Charge an interval with its rounding loss, and split it once rounding costs more than κ times learning.

    Learning costs the mean of both ends' regret potentials plus the knob FLOOR. `swapcal.bounds.adaptive_levels` bounds
    how many levels this makes.
    """
    if state.right[low] != high:
        return
    state.slack[low] += charge
    learning = 0.5 * (state.potential[low] + state.potential[high]) + state.knobs[FLOOR]
    if state.slack[low] > state.knobs[KAPPA] * learning:
        split(state, low, high)


@inlined
def extend(state: Memory) -> None:
    """Halve an outermost interval once its inner level is 2/(labels + 2) from the end."""
    known = state.counts[UPDATES] + 2.0
    if state.z[state.order[1]] * known >= 2.0:
        split(state, state.order[0], state.order[1])
    last = state.counts[LEVELS] - 1
    if (1.0 - state.z[state.order[last - 1]]) * known >= 2.0:
        split(state, state.order[last - 1], state.order[last])


@inlined
def differs(state: Memory, slot: int, x: Array, alpha: float, w: float, scratch: Scratch) -> bool:
    """Return whether the wish of a level that was issued with weight α and wish w has changed.

    On inner levels a wish that was raised or lowered to the first or last of them is still the same.
    """
    ladder = ladder_of(state, scratch)
    now = wish(ladder, slot, x, alpha)
    if state.codes[CODES_ADAPTIVE] == INNER:
        first, last = inner_levels(ladder, 1.0 / (state.counts[UPDATES] + 2.0), 0.0)
        if (now < w and w <= state.z[state.order[first]]) or (now > w and w >= state.z[state.order[last]]):
            return False
    return alpha > 0.0 and abs(now - w) > SAME_WISH


@inlined
def outdated(state: Memory, x: Array, ticket: Array, mix: Array, scratch: Scratch) -> bool:
    """Return whether labels were learned since the ticket was issued, here or by the copy that issued it.

    The worst-case bounds are about learners whose wish is the one that was issued, on levels that are still neighbours.
    A count of labels does not distinguish two copies of one forecaster with equally many labels; their wishes do.
    """
    if ticket[T_ISSUED] != state.counts[UPDATES]:
        return True
    if state.codes[CODES_MIXING] == HEDGE:
        low, high, weight = int(ticket[T_SLOT_LOW]), int(ticket[T_SLOT_HIGH]), ticket[T_WEIGHT]
        return (
            state.right[low] != high
            or differs(state, low, x, 1.0 - weight, ticket[T_W_LOW], scratch)
            or differs(state, high, x, weight, ticket[T_W_HIGH], scratch)
        )
    n = mix.shape[0] // 2
    changed = 0
    for slot in range(n):
        changed += differs(state, slot, x, mix[slot], mix[n + slot], scratch)
    return changed > 0


@inlined
def drawn_slot(state: Memory, ticket: Array) -> int:
    """Return the slot of the level that was drawn; levels are never removed."""
    low, high, p = int(ticket[T_SLOT_LOW]), int(ticket[T_SLOT_HIGH]), ticket[T_P]
    if state.z[low] == p:
        return low
    if state.z[high] == p:
        return high
    drawn = high
    for slot in range(state.counts[LEVELS]):
        if state.z[slot] == p:
            drawn = slot
    return drawn


@inlined
def book_drawn(state: Memory, x: Array, y: float, count: float, ticket: Array) -> None:
    """Enter (x, y) into the sums of the level that was issued."""
    slot = drawn_slot(state, ticket)
    state.drawn_mass[slot] += count
    row_axpy(state.drawn_residual, slot, count * (y - state.z[slot]), x)


@inlined
def learn(state: Memory, x: Array, y: float, count: float, ticket: Array, mix: Array, scratch: Scratch) -> None:
    """Learn a label with the weights that were issued, however long ago, as if it had come `count` times.

    The learners' regret bound holds for any weights α ≥ 0, so the certificate is that of the weighted sums.
    """
    low, high = int(ticket[T_SLOT_LOW]), int(ticket[T_SLOT_HIGH])
    hedged = state.codes[CODES_MIXING] == HEDGE
    n = mix.shape[0] // 2
    recalls = state.knobs[WINDOW] > 0.0
    book_drawn(state, x, y, count, ticket)
    if recalls:
        of_all, x[ALL_ROWS] = x[ALL_ROWS], 0.0
        learn_recent(state, 0, x, y, count, scratch.u, scratch.unit)
        x[ALL_ROWS] = of_all
    for k in range(2 if hedged else n):
        slot, alpha, w = k, 0.0, 0.0
        if not hedged:
            alpha, w = mix[k], mix[n + k]
        elif k == 0:
            slot, alpha, w = low, 1.0 - ticket[T_WEIGHT], ticket[T_W_LOW]
        else:
            slot, alpha, w = high, ticket[T_WEIGHT], ticket[T_W_HIGH]
        if recalls and alpha > 0.0:
            z = state.z[slot]
            learn_recent(state, slot + 1, x, y, count * alpha, scratch.u, scratch.unit)
            state.recent_excess[slot + 1] += count * alpha * (w - z) * (w + z - 2.0 * y)
            x[OWN] = ticket[T_RECENT_LOW + k] - 0.5
        learn_level(state, slot, x, y, count * alpha, w, scratch)
        if recalls:
            x[OWN] = 0.0
    gap = count * ticket[T_GAP]
    state.totals[GAP] += gap
    charge = gap
    if recalls:
        # Wishes with a short memory often overshoot, and D_t < 0; what the draw itself adds is between D_t and h²/4.
        charge = count * ticket[T_WEIGHT] * (1.0 - ticket[T_WEIGHT]) * (ticket[T_HIGH] - ticket[T_LOW]) ** 2
        state.totals[RECENT_GAP] = state.totals[RECENT_GAP] * np.exp(-1.0 / state.knobs[WINDOW]) + gap
    state.counts[UPDATES] += 1
    if state.codes[CODES_ADAPTIVE] > 0:
        refine(state, low, high, charge)
    if state.codes[CODES_ADAPTIVE] == INNER:
        extend(state)


@inlined
def enter(state: Memory, X: Array, row: int, ticket: Array, x: Array) -> None:
    """Copy a context into working memory, with the short-memory prediction of its ticket if it was issued before."""
    dim = X.shape[1]
    if state.knobs[WINDOW] > 0.0:
        x[0] = X[row, 0]
        x[ALL_ROWS] = ticket[T_RECENT] - 0.5 if ticket[T_SLOT_LOW] >= 0.0 else 0.0
        x[OWN] = 0.0
        for i in range(1, dim):
            x[i + RECENT_COORDINATES] = X[row, i]
    else:
        for i in range(dim):
            x[i] = X[row, i]


@inlined
def consulted(options: RunOptions, row: int, y: float, ticket: Array, x: Array) -> tuple[float, float]:
    """Return the label of a row, chosen by the opponent if there is one, and how often it counts."""
    count = options.weights[row] if len(options.weights) > 0 else 1.0
    if len(options.opponent.labels) > 0:
        y = answer(options.opponent, row, ticket[T_MEAN], x)
    return y, count


@inlined
def note(state: Memory, slot: int, row: int, log: Log) -> None:
    """Write down a learner's new θ."""
    size = log.size[0]
    log.slot[size] = slot
    log.row[size] = row
    for i in range(log.theta.shape[1]):
        log.theta[size, i] = state.theta[slot, i]
    log.size[0] = size + 1


@inlined
def note_changes(state: Memory, ticket: Array, row: int, levels: int, log: Log) -> None:
    """Write down what learning a hedged ticket changed; there were so many levels before."""
    if ticket[T_WEIGHT] < 1.0:
        note(state, int(ticket[T_SLOT_LOW]), row, log)
    if ticket[T_WEIGHT] > 0.0:
        note(state, int(ticket[T_SLOT_HIGH]), row, log)
    if state.counts[LEVELS] > levels:
        note(state, levels, row, log)


@lean
def advance(
    state: Memory | None,
    scratch: Scratch,
    X: Array,
    y: Array,
    events: Keys,
    tickets: Array,
    mixes: Array,
    start: int,
    options: RunOptions | None,
    baseline: Baseline | None,
) -> int:
    """Process rows from `start`; return the first row not done, which is short of the end only if slots ran out.

    A ticket whose low slot is negative is issued first; a label that is not NaN is learned. The arrays come one by one,
    because unpacking a structure takes a lone forecast longer than computing it. What is None is left out when this is
    compiled.

    Parameters
    ----------
    state, scratch : the engine's; None if a baseline plays; what the scratch lacks is left out, too
    X, y : (n, d) contexts and (n,) labels
    events : (n,) what determines the draws, or (1,) for all of them; 0 means "not named"
    tickets : (n, TICKET)
    mixes : whole distributions; with fewer rows than X rows share them in turn, as they are needed until the label
    company : weights, a log or an opponent, if any of them; a baseline minds the opponent alone
    baseline : another system that plays in the engine's place
    """
    levels = 0
    for row in range(start, len(X)):
        labelled = not np.isnan(y[row])
        if options is not None:
            labelled |= len(options.opponent.labels) > 0
        mix, ticket, event = mixes[row % mixes.shape[0]], tickets[row], events[row % events.shape[0]]
        blank = ticket[T_SLOT_LOW] < 0.0
        if state is not None:
            levels = state.counts[LEVELS]
            if labelled and levels + NEW_LEVELS[state.codes[CODES_ADAPTIVE]] > state.z.shape[0]:
                return row
            enter(state, X, row, ticket, scratch.x)
            if blank:
                issue(state, scratch.x, event, ticket, mix, scratch)
            elif labelled and outdated(state, scratch.x, ticket, mix, scratch):
                state.counts[LATE] += 1
        if baseline is not None:
            enter_baseline(baseline, row)
            if blank:
                issue_baseline(baseline, event, ticket, mix)
        if labelled:
            label, count = y[row], 1.0
            if options is not None:
                label, count = consulted(options, row, label, ticket, X[row])
            if state is not None:
                learn(state, scratch.x, label, count, ticket, mix, scratch)
                if options is not None and len(options.log.slot) > 0:
                    note_changes(state, ticket, row, levels, options.log)
            if baseline is not None:
                learn_baseline(baseline, label, ticket, mix)
    return len(X)
