"""Sleeping exponential weights over many groups: a row costs its active groups, memory is the cells touched.

Level z keeps, for every group g that came while it was played, n = Σα and A = Σα(y - z) over the group's rows: a cell.
The level's experts forecast z + s on the rows of one group and z elsewhere, with 18 steps s = ±2^-k, k = 0, …, 8, cut
to [-z, 1 - z]. An expert's loss beyond z's is s²n - 2sA, so its weight share·exp(4sA - 2s²n)/18 needs no memory of its
own. The wish is Vovk's substitution z + ¼ ln(R_1/R_0), R_y being the factor by which the level's total weight would
change with outcome y: squared loss on [0, 1] is 2-mixable, also with weights α ≤ 1 that depend on the wish, because
-ln E exp(-cℓ)/c falls in c.
"""

from math import factorial
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.draw import GOLDEN, event_draw, scramble
from swapcal.kernels.jit import inlined, lean, shared
from swapcal.kernels.learners import clip
from swapcal.kernels.linalg import prefetch
from swapcal.kernels.loop import SAME_WISH, consulted
from swapcal.kernels.mixing import write_hedge
from swapcal.kernels.state import (
    T_GAP,
    T_ISSUED,
    T_P,
    T_RECENT,
    T_RECENT_HIGH,
    T_RECENT_LOW,
    T_SLOT_HIGH,
    T_SLOT_LOW,
    T_W_LOW,
    T_WEIGHT,
    RunOptions,
)

STEPS = 18
# a cell's columns: its level, n, A, the same Σ(y - z) over the rounds that drew the level, the weight of its experts,
# and what outcomes 1 and 0 would add to it beyond what they would add to a cell not yet touched; these three in units
# of exp(reference of the level)
C_LEVEL, C_MASS, C_RESIDUAL, C_DRAWN, C_WEIGHT, C_UP, C_DOWN = range(7)
CELL = 7
# counts
GROUPS, USED, UPDATES, LATE, WEIGHTED = range(5)
# knobs: initial weight of all groups, a column's part of it, initial weight of a score
GROUPS_SHARE, COLUMN_SHARE, SCORE_SHARE = range(3)
# members that are not known yet, and places without a value
NEW, ABSENT = -1, -2
NOTHING = np.uint64(0)
# Order of appearance: the j-th value of a column starts with 1/(c n ln² n) of its share, n = j + 1; see
# `bounds.start_share`, whose constant this is.
APPEARANCE_NORM = 2.10974281
# Total weights are exact sums of integers, in units of 2^-30 and 2^-70: what was added can be taken away again. They
# are brought to another reference before they leave [2^-20, 2^30].
WHOLE, PART, PART_BITS = 2.0**30, 2.0**40, 40
MOST_PEAK, LEAST_TOTAL, MOST_TOTAL = 20.0, 2.0**-20, 2.0**30
# cells that caches hold anyway; numbers in a line of a cache
CACHED, LINE = 1 << 14, 8
# of the exponential function
MOST_EXPONENT, LOG2_E, LN_2 = 700.0, 1.4426950408889634, 0.6931471805599453
SERIES = tuple(1.0 / factorial(i) for i in range(14))


class SparseMemory(NamedTuple):
    """The statistics by level, by group and by cell; group 0 holds all rows."""

    z: Array
    """(L,) levels, increasing from 0 to 1."""
    mass: Array
    """(L,) n = Σα."""
    drawn: Array
    """(L,) the same over the rounds that drew the level."""
    excess: Array
    """(L,) Σα[(w_issued - y)² - (z - y)²]."""
    touched: Array
    """(L,) shares of the groups that have a cell here."""
    reference: Array
    """(L,) logarithm of the unit of the weights."""
    whole: Integers
    """(L,) total weight of all groups, seen or not, in units of 2^-30, and …"""
    part: Integers
    """(L,) the rest of it in units of 2^-70."""
    score_loss: Array
    """(L, scores) Σα[(score - y)² - (z - y)²]."""
    key: Keys
    """(groups,) the value that makes the group."""
    column: Integers
    """(groups,) of which column."""
    share: Array
    """(groups,) prior weight."""
    start: Integers
    """(groups,) where its cells begin."""
    size: Integers
    """(groups,) how many there are; they have room for the next power of two."""
    table: Integers
    """(a power of two, at least twice the groups) groups by hash; -1 in empty places."""
    cells: Array
    """(room, CELL)"""
    categories: Integers
    """(1 + columns,) groups of each column, that of all rows first."""
    totals: Array
    """(1,) Σ D_t."""
    counts: Integers
    knobs: Array
    seed: Keys


class SparseScratch(NamedTuple):
    """Working room, and what follows from the levels."""

    steps: Array
    """(L, STEPS)"""
    up: Array
    """(L, STEPS) by how much outcome 1 multiplies an expert's weight, less 1."""
    down: Array
    """(L, STEPS) the same of outcome 0."""
    fresh_up: Array
    """(L,) means of `up`: of a cell not yet touched."""
    fresh_down: Array
    """(L,)"""
    scale: Array
    """(L,) exp(-reference)."""
    rise: Array
    """(L,) what outcome 1 adds to the level's total weight on the present row."""
    fall: Array
    """(L,) the same of outcome 0."""
    member: Integers
    """(1 + columns,) groups of the present row."""
    place: Integers
    """(1 + columns,) their cells at the level that learns."""
    exponent: Array
    """((1 + columns) STEPS,) of the experts of all members, so that their exponentials are computed together."""
    bits: Integers
    """Of the same shape."""


@shared
def exponentiate(values: Array, bits: Integers) -> None:
    """Replace numbers by their exponentials, those outside of [-700, 700] by the one at that end.

    A row weighs some 400 experts anew, and calls of the library's function, which no compiler turns into vector code,
    would take half of its time. exp(x) = 2^k exp(q), |q| ≤ ½ ln 2, by 14 terms of the series: the relative error is
    some (3 + |x|)·1e-16.

    Parameters
    ----------
    values : (n,), overwritten
    bits : (n,) working room
    """
    powers = bits.view(np.float64)
    for j in range(values.shape[0]):
        x = min(max(values[j], -MOST_EXPONENT), MOST_EXPONENT)
        k = np.rint(x * LOG2_E)
        q = x - k * LN_2
        series = SERIES[13] * q + SERIES[12]  # written out: a loop in here would keep the outer one from vector code
        series = ((series * q + SERIES[11]) * q + SERIES[10]) * q + SERIES[9]
        series = ((series * q + SERIES[8]) * q + SERIES[7]) * q + SERIES[6]
        series = ((series * q + SERIES[5]) * q + SERIES[4]) * q + SERIES[3]
        values[j] = ((series * q + SERIES[2]) * q + 1.0) * q + 1.0
        bits[j] = (np.int64(k) + 1023) << 52
    for j in range(values.shape[0]):
        values[j] *= powers[j]


@inlined
def first_slot(state: SparseMemory, column: int, key: np.uint64) -> np.int64:
    """Return where in the table to look first for a group."""
    mask = np.uint64(state.table.shape[0] - 1)
    return np.int64(scramble(key ^ (state.seed[0] + np.uint64(column) * GOLDEN)) & mask)


@inlined
def slot_of(state: SparseMemory, column: int, key: np.uint64) -> np.int64:
    """Return where the table has a group, or the empty place where it would be."""
    mask = state.table.shape[0] - 1
    at = first_slot(state, column, key)
    while state.table[at] >= 0:
        group = state.table[at]
        if state.key[group] == key and state.column[group] == column:
            break
        at = (at + 1) & mask
    return at


@inlined
def next_share(state: SparseMemory, column: int) -> float:
    """Return the prior weight of the next value of a column."""
    n = state.categories[column] + 2.0
    return float(state.knobs[COLUMN_SHARE] / (APPEARANCE_NORM * n * np.log(n) ** 2))


@inlined
def gather(state: SparseMemory, keys: Keys, scratch: SparseScratch) -> None:
    """Find the groups of a row, and what either outcome would add to the total weight of every level."""
    member, rise, fall = scratch.member, scratch.rise, scratch.fall
    member[0] = 0
    for c in range(1, member.shape[0]):
        member[c] = ABSENT if keys[c - 1] == NOTHING else state.table[slot_of(state, c, keys[c - 1])]
    awake = 0.0
    for c in range(member.shape[0]):
        if member[c] >= 0:
            awake += state.share[member[c]]
        elif member[c] == NEW:
            awake += next_share(state, c)
    for level in range(rise.shape[0]):
        rise[level] = awake * scratch.fresh_up[level] * scratch.scale[level]
        fall[level] = awake * scratch.fresh_down[level] * scratch.scale[level]
    for c in range(member.shape[0]):
        if member[c] >= 0:
            first = state.start[member[c]]
            for k in range(first, first + state.size[member[c]]):
                level = int(state.cells[k, C_LEVEL])
                rise[level] += state.cells[k, C_UP]
                fall[level] += state.cells[k, C_DOWN]


@inlined
def fetch_ahead(state: SparseMemory, X: Array, row: int, columns: int) -> None:
    """Prefetch the memory of later rows: the table's places, three rows on, their groups, then cells.

    Where groups come evenly, most of a row's time would be spent waiting for memory. A group that is not where it is
    looked for first is loaded when it is needed.
    """
    for ahead in range(1, 4):
        for c in range(columns if row + ahead < X.shape[0] else 0):
            at = int(first_slot(state, c + 1, X[row + ahead].view(np.uint64)[c]))
            if ahead == 3:
                prefetch(state.table, at)
            elif state.table[at] >= 0:
                group = state.table[at]
                if ahead == 2:
                    prefetch(state.key, group)
                    prefetch(state.column, group)
                    prefetch(state.share, group)
                    prefetch(state.start, group)
                    prefetch(state.size, group)
                else:
                    first = CELL * state.start[group]
                    for entry in range(first, first + CELL * state.size[group], LINE):
                        prefetch(state.cells, entry)


@inlined
def score_step(score: float, z: float) -> float:
    """Return how far a score is from the level; one that is missing agrees with the level."""
    return 0.0 if np.isnan(score) else score - z


@inlined
def total_weight(state: SparseMemory, level: int) -> float:
    """Return the weight of all groups."""
    return float((state.whole[level] + state.part[level] / PART) / WHOLE)


@inlined
def score_exponent(state: SparseMemory, level: int, score: int) -> float:
    """Return the logarithm of a score's weight, but for its share, in the level's units; those are of its groups."""
    return float(-2.0 * state.score_loss[level, score] - state.reference[level])


@inlined
def wish_of(state: SparseMemory, level: int, scores: Array, scratch: SparseScratch) -> float:
    """Return what a level's experts forecast together for the row that was gathered."""
    z, total, most = state.z[level], total_weight(state, level), 0.0
    for j in range(state.score_loss.shape[1]):
        most = max(most, score_exponent(state, level, j))
    unit = np.exp(-most) if most > 0.0 else 1.0
    up, down = unit * (total + scratch.rise[level]), unit * (total + scratch.fall[level])
    for j in range(state.score_loss.shape[1]):
        weight = state.knobs[SCORE_SHARE] * np.exp(score_exponent(state, level, j) - most)
        s = score_step(scores[j], z)
        up += weight * np.exp(2.0 * s * (2.0 * (1.0 - z) - s))
        down += weight * np.exp(-2.0 * s * (2.0 * z + s))
    return clip(z + 0.25 * np.log(up / down))


@inlined
def issue_sparse(state: SparseMemory, x: Array, event: np.uint64, ticket: Array, scratch: SparseScratch) -> None:
    """Play the two neighbours between which wishes cross their levels, found by bisection."""
    updates = state.counts[UPDATES]
    draw = event_draw(state.seed[0], event, x, updates)
    scores = x[scratch.member.shape[0] - 1 :]
    low, high = 0, state.z.shape[0] - 1
    w_low, w_high = wish_of(state, low, scores, scratch), wish_of(state, high, scores, scratch)
    while high - low > 1:
        middle = (low + high) // 2
        w = wish_of(state, middle, scores, scratch)
        if w >= state.z[middle]:
            low, w_low = middle, w
        else:
            high, w_high = middle, w
    ticket[T_ISSUED] = updates
    ticket[T_RECENT] = ticket[T_RECENT_LOW] = ticket[T_RECENT_HIGH] = 0.0
    ticket[T_SLOT_LOW], ticket[T_SLOT_HIGH] = low, high
    write_hedge(ticket, state.z[low], state.z[high], w_low, w_high, draw)


@inlined
def set_total(state: SparseMemory, level: int, whole: int, part: int) -> None:
    """Write a total weight, the part below 2^40."""
    state.whole[level] = whole + (part >> PART_BITS)
    state.part[level] = part & ((1 << PART_BITS) - 1)


@inlined
def add_weight(state: SparseMemory, level: int, weight: float, sign: int) -> None:
    """Add a weight to the level's total, or take away one that was added."""
    units = weight * WHOLE
    whole = np.int64(units)
    part = np.int64((units - whole) * PART)
    set_total(state, level, state.whole[level] + sign * whole, state.part[level] + sign * part)


@inlined
def peak_of(state: SparseMemory, k: int, group: int, scratch: SparseScratch) -> float:
    """Return the logarithm of the weight of the cell's best expert, up to 18, in the level's units."""
    level, n, A = int(state.cells[k, C_LEVEL]), state.cells[k, C_MASS], state.cells[k, C_RESIDUAL]
    best = 0.0
    for j in range(STEPS):
        s = scratch.steps[level, j]
        best = max(best, s * (4.0 * A - 2.0 * s * n))
    return float(best + np.log(state.share[group]) - state.reference[level])


@inlined
def is_heavy(state: SparseMemory, k: int, group: int, scratch: SparseScratch) -> bool:
    """Return whether a cell's best expert has outgrown the level's units; no step is better than A/n."""
    A, reference = state.cells[k, C_RESIDUAL], state.reference[int(state.cells[k, C_LEVEL])]
    if (MOST_PEAK + reference) * state.cells[k, C_MASS] >= 2.0 * A * A:
        return False
    return peak_of(state, k, group, scratch) > MOST_PEAK


@inlined
def write_exponents(state: SparseMemory, k: int, exponent: Array, scratch: SparseScratch) -> None:
    """Write the logarithms of the weights of a cell's experts, but for the group's share."""
    level, n, A = int(state.cells[k, C_LEVEL]), state.cells[k, C_MASS], state.cells[k, C_RESIDUAL]
    reference = state.reference[level]
    for j in range(STEPS):
        s = scratch.steps[level, j]
        exponent[j] = s * (4.0 * A - 2.0 * s * n) - reference


@inlined
def weigh(state: SparseMemory, k: int, group: int, experts: Array, scratch: SparseScratch) -> None:
    """Set the weight of a cell to that of its experts, given up to the group's share, and what outcomes would add."""
    level, share = int(state.cells[k, C_LEVEL]), state.share[group]
    weight, up, down = 0.0, 0.0, 0.0
    for j in range(STEPS):
        weight += experts[j]
        up += experts[j] * scratch.up[level, j]
        down += experts[j] * scratch.down[level, j]
    unit = share / STEPS
    state.cells[k, C_WEIGHT] = weight * unit
    state.cells[k, C_UP] = up * unit - share * scratch.fresh_up[level] * scratch.scale[level]
    state.cells[k, C_DOWN] = down * unit - share * scratch.fresh_down[level] * scratch.scale[level]


@inlined
def rebuild(state: SparseMemory, level: int, scratch: SparseScratch) -> None:
    """Express the weights of a level in units of the heaviest expert of its groups."""
    best = 0.0
    state.reference[level] = 0.0
    for group in range(state.counts[GROUPS]):
        for k in range(state.start[group], state.start[group] + state.size[group]):
            if int(state.cells[k, C_LEVEL]) == level:
                best = max(best, peak_of(state, k, group, scratch))
    state.reference[level] = best
    scratch.scale[level] = np.exp(-best)
    set_total(state, level, 0, 0)
    add_weight(state, level, (state.knobs[GROUPS_SHARE] - state.touched[level]) * scratch.scale[level], 1)
    for group in range(state.counts[GROUPS]):
        for k in range(state.start[group], state.start[group] + state.size[group]):
            if int(state.cells[k, C_LEVEL]) == level:
                experts = scratch.exponent[:STEPS]
                write_exponents(state, k, experts, scratch)
                exponentiate(experts, scratch.bits[:STEPS])
                weigh(state, k, group, experts, scratch)
                add_weight(state, level, state.cells[k, C_WEIGHT], 1)


@inlined
def admit(state: SparseMemory, column: int, key: np.uint64) -> int:
    """Return a value's group, a new one if it came for the first time."""
    at = slot_of(state, column, key)
    group = state.table[at]
    if group < 0:
        group = state.counts[GROUPS]
        state.table[at] = group
        state.key[group] = key
        state.column[group] = column
        state.share[group] = next_share(state, column)
        state.start[group] = 0
        state.size[group] = 0
        state.categories[column] += 1
        state.counts[GROUPS] = group + 1
    return int(group)


@inlined
def move_if_full(state: SparseMemory, group: int) -> None:
    """Move a group's cells to a block twice as long if theirs is full."""
    size, first, used = state.size[group], state.start[group], state.counts[USED]
    if size == 1 or size & (size - 1) != 0:
        return
    for k in range(size):
        for i in range(CELL):
            state.cells[used + k, i] = state.cells[first + k, i]
    state.start[group] = used
    state.counts[USED] = used + max(2, 2 * size)


@inlined
def cell_of(state: SparseMemory, group: int, level: int, scratch: SparseScratch) -> int:
    """Return a group's cell at a level, a new one if there was none: its weight is taken from that of the unseen."""
    first = int(state.start[group])
    for k in range(first, first + state.size[group]):
        if int(state.cells[k, C_LEVEL]) == level:
            return k
    move_if_full(state, group)
    k = int(state.start[group] + state.size[group])
    state.size[group] += 1
    state.cells[k, C_LEVEL] = level
    for i in range(1, CELL):
        state.cells[k, i] = 0.0
    state.cells[k, C_WEIGHT] = state.share[group] * scratch.scale[level]
    state.touched[level] += state.share[group]
    return k


@inlined
def learn_at(
    state: SparseMemory,
    level: int,
    scores: Array,
    y: float,
    mass: float,
    w: float,
    drawn: float,
    scratch: SparseScratch,
) -> None:
    """Update the experts of a level with an outcome and its weight."""
    gap = y - state.z[level]
    state.mass[level] += mass
    state.drawn[level] += drawn
    state.excess[level] += mass * (w - state.z[level]) * (w + state.z[level] - 2.0 * y)
    heavy = False
    for j in range(scores.shape[0]):
        s = score_step(scores[j], state.z[level])
        state.score_loss[level, j] += mass * s * (s - 2.0 * gap)
    for c in range(scratch.member.shape[0]):
        if scratch.member[c] >= 0:
            k = cell_of(state, scratch.member[c], level, scratch)
            scratch.place[c] = k
            state.cells[k, C_MASS] += mass
            state.cells[k, C_RESIDUAL] += mass * gap
            state.cells[k, C_DRAWN] += drawn * gap
            if is_heavy(state, k, scratch.member[c], scratch):
                heavy = True
    if not heavy:
        end = 0
        for c in range(scratch.member.shape[0]):
            if scratch.member[c] >= 0:
                write_exponents(state, scratch.place[c], scratch.exponent[end : end + STEPS], scratch)
                end += STEPS
        exponentiate(scratch.exponent[:end], scratch.bits[:end])
        end = 0
        for c in range(scratch.member.shape[0]):
            if scratch.member[c] >= 0:
                k = scratch.place[c]
                add_weight(state, level, state.cells[k, C_WEIGHT], -1)
                weigh(state, k, scratch.member[c], scratch.exponent[end : end + STEPS], scratch)
                add_weight(state, level, state.cells[k, C_WEIGHT], 1)
                end += STEPS
    if heavy or unbalanced(state, level):
        rebuild(state, level, scratch)


@inlined
def drawn_level(state: SparseMemory, ticket: Array) -> int:
    """Return the level that was issued: one of the ticket's two, unless the caller moved p to another."""
    drawn = int(ticket[T_SLOT_HIGH])
    for level in range(state.z.shape[0]):
        if state.z[level] == ticket[T_P]:
            drawn = level
    return drawn


@inlined
def unbalanced(state: SparseMemory, level: int) -> bool:
    """Return whether the weights of a level's groups have outgrown their units."""
    return not LEAST_TOTAL <= total_weight(state, level) <= MOST_TOTAL


@inlined
def learn_sparse(
    state: SparseMemory, keys: Keys, x: Array, y: float, count: float, ticket: Array, scratch: SparseScratch
) -> None:
    """Learn an outcome with the weights that were issued, however long ago, as if it had come `count` times."""
    scores = x[scratch.member.shape[0] - 1 :]
    for c in range(1, scratch.member.shape[0]):
        scratch.member[c] = ABSENT if keys[c - 1] == NOTHING else admit(state, c, keys[c - 1])
    drawn, missing = drawn_level(state, ticket), True
    for side in range(3):
        level, alpha, w = drawn, 0.0, state.z[drawn]
        if side < 2:
            level, w = int(ticket[T_SLOT_LOW + side]), ticket[T_W_LOW + side]
            alpha = ticket[T_WEIGHT] if side == 1 else 1.0 - ticket[T_WEIGHT]
        if alpha > 0.0 or (side == 2 and missing):
            learn_at(state, level, scores, y, count * alpha, w, count if level == drawn else 0.0, scratch)
            missing = missing and level != drawn
    state.totals[0] += count * ticket[T_GAP]
    state.counts[UPDATES] += 1
    if count != 1.0:
        state.counts[WEIGHTED] += 1


@inlined
def is_outdated(state: SparseMemory, x: Array, ticket: Array, scratch: SparseScratch) -> bool:
    """Return whether outcomes were learned since the ticket was issued, here or by the copy that issued it."""
    if ticket[T_ISSUED] != state.counts[UPDATES]:
        return True
    scores = x[scratch.member.shape[0] - 1 :]
    changed = 0
    for side in range(2):
        alpha = ticket[T_WEIGHT] if side == 1 else 1.0 - ticket[T_WEIGHT]
        now = wish_of(state, int(ticket[T_SLOT_LOW + side]), scores, scratch)
        changed += alpha > 0.0 and abs(now - ticket[T_W_LOW + side]) > SAME_WISH
    return changed > 0


@inlined
def has_room(state: SparseMemory, scratch: SparseScratch) -> bool:
    """Return whether the row that was gathered can be learned without more memory."""
    needed = 0
    for c in range(scratch.member.shape[0]):
        needed += 4 + 2 * state.size[max(0, scratch.member[c])]
    fits = state.counts[USED] + 2 * needed <= state.cells.shape[0]
    return bool(fits and state.counts[GROUPS] + scratch.member.shape[0] <= state.key.shape[0])


@lean
def advance_sparse(
    state: SparseMemory,
    scratch: SparseScratch,
    X: Array,
    y: Array,
    events: Keys,
    tickets: Array,
    start: int,
    options: RunOptions,
) -> int:
    """Process rows from `start`; return the first row not done, short of the end only where memory ran out.

    Parameters
    ----------
    X : (n, columns + scores) the bits of keys, 0 without a value, then scores, NaN if missing
    y, events, tickets, options : as in `swapcal.kernels.loop.advance`
    """
    columns = scratch.member.shape[0] - 1
    for row in range(start, len(X)):
        labelled = not np.isnan(y[row]) or len(options.opponent.labels) > 0
        x, ticket, event = X[row], tickets[row], events[row % events.shape[0]]
        keys = x.view(np.uint64)[:columns]
        if state.cells.shape[0] > CACHED:
            fetch_ahead(state, X, row, columns)
        gather(state, keys, scratch)
        if labelled and not has_room(state, scratch):
            return row
        if ticket[T_SLOT_LOW] < 0.0:
            issue_sparse(state, x, event, ticket, scratch)
        elif labelled and is_outdated(state, x, ticket, scratch):
            state.counts[LATE] += 1
        if labelled:
            label, count = consulted(options, row, y[row], ticket, x)
            learn_sparse(state, keys, x, label, count, ticket, scratch)
    return len(X)


@lean
def index_groups(state: SparseMemory) -> None:
    """Enter all groups except that of all rows into an empty table."""
    for group in range(1, state.counts[GROUPS]):
        state.table[slot_of(state, state.column[group], state.key[group])] = group


@lean
def move_cells(size: Integers, source: Array, read: Integers, target: Array, write: Integers) -> None:
    """Copy every group's cells from where they begin in one array to where they are to begin in another."""
    for group in range(size.shape[0]):
        for k in range(size[group]):
            for i in range(CELL):
                target[write[group] + k, i] = source[read[group] + k, i]
