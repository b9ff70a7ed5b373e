"""Batch models: rows of regressors and contexts from encoded tables, and predictions of many frozen forecasters."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys, Spotted
from swapcal.kernels.draw import scramble, uniform
from swapcal.kernels.jit import inlined, lean, pure
from swapcal.kernels.learners import Ladder, crossing
from swapcal.kernels.mixing import hedge_weight

# Rows of regressors and contexts from encoded tables: standard scores, category codes and a score.

# scales of a design: hinges of the logit, categories, group × logit, group pairs, numbers, the logit's centre
HINGE, CATEGORY, SLOPE, PAIR, NUMBER, CENTRE = range(6)
SCALES = 6


class Design(NamedTuple):
    """Where each part of an encoded row goes in a row of regressors; -1 means nowhere."""

    knots: Array
    """(k,) hinges max(0, logit - knot); the logit itself is regressor 1, the constant regressor 0."""
    numeric: Integers
    """(m,) the numbers' places."""
    category: Integers
    """(columns, codes) the places of categories."""
    slope: Integers
    """(columns, codes) the places of category × logit, for groups."""
    left: Integers
    """(pairs,) first column of each pair of groups."""
    right: Integers
    """(pairs,) second column of each pair of groups."""
    pair: Integers
    """(pairs, codes, codes) the places of intersections."""
    scales: Array
    """(SCALES,) how large each kind of regressor is: the penalty weighs on large ones least."""


class Spots(NamedTuple):
    """The regressor of each category of a row; the number of regressors means that it has none."""

    coded: Spotted
    """(n, columns + pairs) of categories and pairs, each as large as its scale."""
    sloped: Spotted
    """(n, groups) of categories × the logit's distance from its centre."""


def spots_of(design: Design, codes: Integers, width: int) -> Spots:
    """Look them up once: rows are visited many times."""
    groups = np.flatnonzero((design.slope >= 0).any(axis=1))
    coded = np.empty((len(codes), codes.shape[1] + len(design.left)), np.uint32)
    sloped = np.empty((len(codes), len(groups)), np.uint32)
    look_up_spots(design, codes, groups, np.uint32(width), coded, sloped)
    return Spots(coded, sloped)


@pure
def look_up_spots(
    design: Design, codes: Integers, groups: Integers, none: np.uint32, coded: Spotted, sloped: Spotted
) -> None:
    """Write `Spots`."""
    columns = codes.shape[1]
    for row in range(len(codes)):
        own = codes[row]
        for c in range(columns):
            place = -1 if own[c] < 0 else design.category[c, own[c]]
            coded[row, c] = none if place < 0 else np.uint32(place)
        for g in range(len(groups)):
            code = own[groups[g]]
            place = -1 if code < 0 else design.slope[groups[g], code]
            sloped[row, g] = none if place < 0 else np.uint32(place)
        for q in range(len(design.left)):
            a, b = own[design.left[q]], own[design.right[q]]
            place = -1 if a < 0 or b < 0 else design.pair[q, a, b]
            coded[row, columns + q] = none if place < 0 else np.uint32(place)


def sizes_of(design: Design, width: int) -> Array:
    """Return each regressor's scale, and 0 for none: (width + 1,)."""
    scales, sizes = design.scales, np.ones(width + 1)
    sizes[2 : 2 + len(design.knots)] = scales[HINGE]
    sizes[design.numeric] = scales[NUMBER]
    for kind, places in ((CATEGORY, design.category), (SLOPE, design.slope), (PAIR, design.pair)):
        sizes[places] = scales[kind]
    sizes[-1] = 0.0  # where place -1 has written
    return sizes


@pure
def design_dot(
    design: Design, logits: Array, Z: Array, spots: Spots, rows: Integers, coefficients: Array, out: Array
) -> None:
    """Write ⟨coefficients, regressors⟩ of the given rows, for each line; the sum depends on nothing but the row.

    The coefficients, (lines, width + 1), come times the regressors' sizes.
    """
    first = 2 + len(design.knots)
    for k in range(len(rows)):
        row = rows[k]
        logit, far = logits[row], logits[row] - design.scales[CENTRE]
        for line in range(len(out)):
            b = coefficients[line]
            total, slope = b[0] + b[1] * logit, 0.0
            for i in range(len(design.knots)):
                total += b[2 + i] * max(0.0, logit - design.knots[i])
            for j in range(Z.shape[1]):
                total += b[first + j] * Z[row, j]
            for c in range(spots.coded.shape[1]):
                total += b[spots.coded[row, c]]
            for c in range(spots.sloped.shape[1]):
                slope += b[spots.sloped[row, c]]
            out[line, k] = total + slope * far


@pure
def design_pull(design: Design, logits: Array, Z: Array, spots: Spots, rows: Integers, R: Array, out: Array) -> None:
    """Add to each line of `out`, (lines, width + 1), the given rows' regressors times R, not yet times their sizes."""
    first = 2 + len(design.knots)
    for k in range(len(rows)):
        row = rows[k]
        logit, far = logits[row], logits[row] - design.scales[CENTRE]
        for line in range(len(R)):
            r, sums = R[line, k], out[line]
            sums[0] += r
            sums[1] += r * logit
            for i in range(len(design.knots)):
                sums[2 + i] += r * max(0.0, logit - design.knots[i])
            for j in range(Z.shape[1]):
                sums[first + j] += r * Z[row, j]
            for c in range(spots.coded.shape[1]):
                sums[spots.coded[row, c]] += r
            for c in range(spots.sloped.shape[1]):
                sums[spots.sloped[row, c]] += r * far


class Listing(NamedTuple):
    """The regressors of one row that may differ from 0."""

    places: Keys
    """(most,) increasing; those up to the last number follow each other. Unsigned, as in `Forest`."""
    values: Array
    """(most,)"""


def blank_listing(design: Design, spots: Spots) -> Listing:
    """Return room for a row."""
    most = 2 + len(design.knots) + len(design.numeric) + spots.coded.shape[1] + spots.sloped.shape[1]
    return Listing(np.zeros(most, np.uint64), np.zeros(most))


@inlined
def list_row(design: Design, logit: float, Z: Array, spots: Spots, row: int, sizes: Array, listing: Listing) -> int:
    """Write a row's regressors; return how many there are."""
    places, values = listing.places, listing.values
    places[0], values[0] = np.uint64(0), 1.0
    places[1], values[1] = np.uint64(1), logit
    size = 2
    for i in range(len(design.knots)):
        places[size], values[size] = np.uint64(size), sizes[size] * max(0.0, logit - design.knots[i])
        size += 1
    for j in range(Z.shape[1]):
        places[size], values[size] = np.uint64(size), sizes[size] * Z[row, j]
        size += 1
    columns = design.category.shape[0]
    for c in range(columns):
        size = list_spot(np.uint64(spots.coded[row, c]), 1.0, size, sizes, listing)
    for c in range(spots.sloped.shape[1]):
        size = list_spot(np.uint64(spots.sloped[row, c]), logit - design.scales[CENTRE], size, sizes, listing)
    for c in range(columns, spots.coded.shape[1]):
        size = list_spot(np.uint64(spots.coded[row, c]), 1.0, size, sizes, listing)
    return size


@inlined
def list_spot(place: np.uint64, value: float, size: int, sizes: Array, listing: Listing) -> int:
    """Write one regressor, unless its place is the one for none; return the number so far."""
    if place == np.uint64(len(sizes) - 1):
        return size
    listing.places[size], listing.values[size] = place, sizes[place] * value
    return size + 1


@pure
def design_square(
    design: Design,
    logits: Array,
    Z: Array,
    spots: Spots,
    rows: Integers,
    c: Array,
    sizes: Array,
    listing: Listing,
    out: Array,
) -> None:
    """Add Σ c f fᵀ over the given rows' regressors f to the lower triangle of `out`."""
    together = 2 + len(design.knots) + len(design.numeric)
    for k in range(len(rows)):
        size = list_row(design, logits[rows[k]], Z, spots, rows[k], sizes, listing)
        for i in range(size):
            line, value = out[listing.places[i]], c[k] * listing.values[i]
            for j in range(min(i + 1, together)):
                line[j] += value * listing.values[j]
            for j in range(together, i + 1):
                line[listing.places[j]] += value * listing.values[j]


class Placement(NamedTuple):
    """Where each part of an encoded row goes in its context; -1 means nowhere."""

    numeric: Integers
    """(m,) the numbers' places."""
    category: Integers
    """(columns, codes) the categories' places."""
    number_size: float
    """Factor of a standard score in [-3, 3]."""
    sizes: Array
    """(columns,) value of a category's coordinate."""
    score_sizes: Array
    """(2,) what 2p - 1 is multiplied with: the corrected score, the score given."""


@pure
def fill_contexts(placement: Placement, score: Array, given: Array, Z: Array, codes: Integers, out: Array) -> None:
    """Write contexts: ½, the corrected score, the score given, then features; the sizes keep ‖x‖ ≤ 1."""
    for row in range(len(out)):
        x = out[row]
        for i in range(out.shape[1]):
            x[i] = 0.0
        x[0] = 0.5
        x[1] = placement.score_sizes[0] * (2.0 * score[row] - 1.0)
        x[2] = placement.score_sizes[1] * (2.0 * given[row] - 1.0)
        for j in range(len(placement.numeric)):
            if placement.numeric[j] >= 0:
                x[placement.numeric[j]] = placement.number_size * Z[row, j]
        for c in range(codes.shape[1]):
            code = codes[row, c]
            if code >= 0 and placement.category[c, code] >= 0:
                x[placement.category[c, code]] = placement.sizes[c]


# Predict with many frozen forecasters at once.

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
    """Keys of the draws of rows."""

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
    ladder = Ladder(levels, steps, z, members, pool, None, pool, False, pool, False)
    k, w_low, w_high = crossing(ladder, x, 0, levels - 1, 0.0, 1.0)
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


@inlined
def caught_up(changes: Changes, start: int, t: int, change: int, n: int, rungs: Rungs) -> tuple[int, int]:
    """Bring the rungs to the forecaster that round t met; return how many changes are made, and how many levels are."""
    slot, member, z = changes.slot, rungs.member, rungs.z
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
    return change, n


@lean
def replay_mean(changes: Changes, start: int, x: Array, rungs: Rungs) -> float:
    """Return the mean of z* over the forecasters of all rounds, replaying the changes for one context.

    The first `start` of them are the levels that existed before the first row.
    """
    member, z = rungs.member, rungs.z
    n, change, total = 0, 0, 0.0
    for t in range(changes.rounds):
        change, n = caught_up(changes, start, t, change, n, rungs)
        i, share = frozen_crossing(changes.theta, member, z, rungs.steps, n, x)
        total += z[i] + share * (z[i + 1] - z[i])
    return total / changes.rounds


@lean
def replay_shares(changes: Changes, start: int, x: Array, rungs: Rungs, out: Array) -> None:
    """Add to `out`, by slot, how often each level is issued for one context, in rounds."""
    member, z, slot = rungs.member, rungs.z, changes.slot
    n, change = 0, 0
    for t in range(changes.rounds):
        change, n = caught_up(changes, start, t, change, n, rungs)
        i, share = frozen_crossing(changes.theta, member, z, rungs.steps, n, x)
        out[slot[member[i]]] += 1.0 - share
        out[slot[member[i + 1]]] += share


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
