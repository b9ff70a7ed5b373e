"""Raw numbers and category keys to coordinates, with statistics of the past only, or learned before."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.draw import GOLDEN, scramble
from swapcal.kernels.jit import inlined, jit, pure

# Raw numbers and category keys to coordinates, with statistics of the past only.
#
# One compiled loop serves one record and a million alike, so both see the same arithmetic.

CATEGORICAL, NUMERIC, PROBABILITY, LOGIT = 0, 1, 2, 3
ENTRIES = 3  # what each column hands the experts: its symbol, its value, its exact integer
SAMPLE = 255  # past values kept per numeric column, for ranks
BINS = 16
CLIP = 3.0  # standard deviations kept of a number
WINSOR = 8.0  # beyond this many deviations a value moves mean and spread no further
TRUSTED = 20  # observations before winsorising: fewer do not make a spread
EXACT_LIMIT = 2.0**53  # above, neighbouring integers share a float
EXACT_TAG = np.uint64(0xD1B54A32D192ED03)
FEW = 16  # an integer column with at most so many values is one of categories
ENOUGH = 3 * FEW  # past values before that is decided
FIRST_BIN = np.uint64(16)
ONE, NO_SYMBOL, S32 = np.uint64(1), np.uint64(0), np.uint64(32)
HALF_TURN = 4.0 / np.pi


class Past(NamedTuple):
    """Statistics of the numbers of each of K columns."""

    seen: Integers
    """(K,) how many"""
    mean: Array
    """(K,)"""
    scatter: Array
    """(K,) sum of squared deviations from the mean"""
    sample: Array
    """(K, SAMPLE) a uniform sample of them, sorted; the first min(seen, SAMPLE) entries count"""
    edges: Array
    """(K, BINS - 1) the sample's quantiles"""
    distinct: Integers
    """(K,) how many different numbers the sample holds; without numbers, 2 once a second category or a gap has come"""
    first: Keys
    """(K,) the first category or gap"""


def blank_past(columns: int) -> Past:
    """Return the memory of columns that have shown nothing."""
    return Past(
        np.zeros(columns, np.int64),
        np.zeros(columns),
        np.zeros(columns),
        np.zeros((columns, SAMPLE)),
        np.full((columns, BINS - 1), np.inf),
        np.zeros(columns, np.int64),
        np.zeros(columns, np.uint64),
    )


@inlined
def child(salt: np.uint64, tag: np.uint64) -> np.uint64:
    """Return the key of the feature `tag` of the column that owns `salt`."""
    return scramble(salt + GOLDEN * (tag + ONE))


@inlined
def stabilised(p: float) -> float:
    """Return the score 4/π·asin√p - 1 in [-1, 1]: equal noise everywhere, so rare events stay resolved."""
    return float(HALF_TURN * np.arcsin(np.sqrt(min(max(p, 0.0), 1.0))) - 1.0)


@inlined
def sigmoid(m: float) -> float:
    """Return the logistic function."""
    return float(1.0 / (1.0 + np.exp(-m)))


@inlined
def deviation(count: int, scatter: float) -> float:
    """Return the standard deviation of `count` past values; 0 until they differ."""
    return float(np.sqrt(scatter / max(count, 1)))


@inlined
def standard_score(v: float, mean: float, spread: float) -> float:
    """Return the clipped (v - mean)/spread; 0 while nothing is known of the spread."""
    if spread <= 0.0:
        return 0.0
    return float(min(max((v - mean) / spread, -CLIP), CLIP))


@inlined
def rank_bin(v: float, edges: Array) -> int:
    """Return how many of the past's quantiles lie below v."""
    below = 0
    for k in range(BINS - 1):
        below += 1 if edges[k] < v else 0
    return below


@inlined
def set_edges(sample: Array, filled: int, edges: Array) -> None:
    """Write the sorted sample's quantiles."""
    for k in range(edges.shape[0]):
        edges[k] = sample[(k + 1) * filled // (edges.shape[0] + 1)]


@inlined
def count_distinct(sample: Array, filled: int) -> int:
    """Return how many different numbers the sorted sample holds."""
    count = 1
    for k in range(1, filled):
        count += 1 if sample[k] != sample[k - 1] else 0
    return count


@inlined
def insert_sorted(v: float, sample: Array, end: int) -> None:
    """Insert v into the sorted sample[:end], which has room at position `end`."""
    i = end
    while i > 0 and sample[i - 1] > v:
        sample[i] = sample[i - 1]
        i -= 1
    sample[i] = v


@inlined
def keep_sampled(v: float, salt: np.uint64, seen: int, sample: Array, filled: int) -> bool:
    """Reservoir-sample with a draw that is a hash of (column, position); return whether v was kept."""
    if filled < sample.shape[0]:
        insert_sorted(v, sample, filled)
        return True
    # the high word of draw · seen is uniform below `seen`, and needs no division
    victim = np.int64(((scramble(salt + GOLDEN * np.uint64(seen)) >> S32) * np.uint64(seen)) >> S32)
    if victim >= filled:
        return False
    for i in range(victim, filled - 1):
        sample[i] = sample[i + 1]
    insert_sorted(v, sample, filled - 1)
    return True


@inlined
def absorb(v: float, j: int, spread: float, salt: np.uint64, past: Past) -> None:
    """Enter a value: Welford's update on it winsorised, and the reservoir's."""
    count, mean = past.seen[j], past.mean[j]
    clipped = v
    if count >= TRUSTED and spread > 0.0:
        clipped = min(max(v, mean - WINSOR * spread), mean + WINSOR * spread)
    step = clipped - mean
    mean += step / (count + 1)
    past.seen[j] = count + 1
    past.mean[j] = mean
    past.scatter[j] += step * (clipped - mean)
    if keep_sampled(v, salt, count + 1, past.sample[j], min(count, SAMPLE)):
        past.distinct[j] = count_distinct(past.sample[j], min(count + 1, SAMPLE))
        set_edges(past.sample[j], min(count + 1, SAMPLE), past.edges[j])


@inlined
def describe_symbol(symbol: np.uint64, j: int, past: Past, keys: Keys, values: Array) -> None:
    """Write a category's or a gap's entry for the experts; none while the column has never shown anything else."""
    varied = past.seen[j] > 0 or past.distinct[j] > 1 or (past.distinct[j] == 1 and symbol != past.first[j])
    if varied and symbol != NO_SYMBOL:
        keys[0] = symbol
        values[0] = 1.0


@inlined
def meet(symbol: np.uint64, j: int, past: Past) -> None:
    """Record a category or a missing value: only whether the column has had more than one."""
    if past.seen[j] > 0:
        return
    if past.distinct[j] == 0:
        past.first[j] = symbol
        past.distinct[j] = 1
    elif symbol != past.first[j]:
        past.distinct[j] = 2


@inlined
def describe_number(v: float, score: float, j: int, salt: np.uint64, past: Past, keys: Keys, values: Array) -> None:
    """Write a number's entries for the experts: rank bin, standard score, and exact integer where those recur.

    An integer with few values is a category, with one entry. A column that was constant so far has none.
    """
    distinct, filled = past.distinct[j], min(past.seen[j], SAMPLE)
    if filled == 0 or (distinct == 1 and v == past.sample[j, 0]):
        return
    exact = v == np.floor(v) and abs(v) < EXACT_LIMIT
    place = 2
    if exact and distinct <= FEW and filled >= ENOUGH:
        place = 0
    else:
        keys[0] = child(salt, FIRST_BIN + np.uint64(rank_bin(v, past.edges[j])))
        values[0] = 1.0
        keys[1] = salt
        values[1] = score
    if exact and (place == 0 or 2 * distinct < filled):
        keys[place] = child(salt ^ EXACT_TAG, np.uint64(np.int64(v)))
        values[place] = 1.0


@inlined
def coordinate(v: float, score: float, kind: int) -> float:
    """Return a number's own coordinate in [-1, 1]."""
    if kind == NUMERIC:
        return score / CLIP
    return stabilised(v if kind == PROBABILITY else sigmoid(v))


@jit
def encode_rows(
    numbers: Array,
    symbols: Keys,
    kinds: Integers,
    salts: Keys,
    past: Past,
    learn: bool,
    keys: Keys,
    values: Array,
    z: Array,
) -> None:
    """Encode n rows of K columns in order, each with the statistics of the rows before it.

    numbers (n, K) holds NaN where a value is missing, and anything where the column is categorical; symbols (n, K) the
    key of the category or of "missing". Written: keys and values (n, 3K) for the experts, z (n, K) in [-1, 1].
    """
    n, columns = numbers.shape
    for t in range(n):
        keys[t] = NO_SYMBOL
        values[t] = 0.0
        z[t] = 0.0
        for j in range(columns):
            v = numbers[t, j]
            first = ENTRIES * j
            if kinds[j] == CATEGORICAL or np.isnan(v):
                describe_symbol(symbols[t, j], j, past, keys[t, first:], values[t, first:])
                if learn:
                    meet(symbols[t, j], j, past)
                continue
            spread = deviation(past.seen[j], past.scatter[j])
            score = standard_score(v, past.mean[j], spread)
            if kinds[j] == NUMERIC:
                describe_number(v, score, j, salts[j], past, keys[t, first:], values[t, first:])
            z[t, j] = coordinate(v, score, kinds[j])
            if learn:
                absorb(v, j, spread, salts[j], past)


@inlined
def add_waves(z: Array, frequency: Array, phase: Array, scale: float, x: Array) -> None:
    """Write random Fourier features cos(⟨ω, z⟩ + φ); ω is zero for categorical columns."""
    for f in range(phase.shape[0]):
        angle = phase[f]
        for j in range(z.shape[0]):
            angle += frequency[j, f] * z[j]
        x[f] = scale * np.cos(angle)


@inlined
def shrink_block(x: Array, budget: float) -> None:
    """Scale x so that its squared norm is at most `budget`; almost every row is left as it is."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    if total > budget:
        # a hair less, because the rounded sum may fall short of the true one
        factor = np.sqrt(budget * (1.0 - 1e-12) / total)
        for i in range(x.shape[0]):
            x[i] *= factor


@inlined
def put_products(z: Array, place: Integers, factors: Integers, weight: float, x: Array) -> None:
    """Write each product's coordinate: its numeric factors multiplied, 1 when all factors are categories."""
    for k in range(place.shape[0]):
        if place[k] >= 0:
            value = weight
            for side in range(2):
                if factors[k, side] >= 0:
                    value *= z[factors[k, side]]
            x[place[k]] = value


@jit
def place_rows(
    z: Array,
    place: Integers,
    value_at: Integers,
    weights: Array,
    shares: Array,
    product_place: Integers,
    factors: Integers,
    share: float,
    frequency: Array,
    phase: Array,
    wave_scale: float,
    first: int,
    budget: float,
    dims: Integers,
    X: Array,
) -> None:
    """Scatter encoded columns, products and waves into the coordinates of X (n, d); place -1 is nowhere.

    A numeric column's value goes to value_at[j]; any other place of it marks a missing value. Waves start at
    `first`; from there to dims[t] the squared norm stays at most `budget`.
    """
    n, columns = place.shape
    for t in range(n):
        X[t] = 0.0
        X[t, 0] = 0.5
        for j in range(columns):
            at = place[t, j]
            if at >= 0:
                X[t, at] = weights[j] * z[t, j] if at == value_at[j] else shares[j]
        put_products(z[t], product_place[t], factors, share, X[t])
        add_waves(z[t], frequency, phase, wave_scale, X[t, first:])
        # over the coordinates that exist by now: later ones would change the order of the sum
        shrink_block(X[t, first : dims[t]], budget)


# Raw numbers to standard scores and codes, with scales and categories learned before.

NOWHERE = -1


class Lookup(NamedTuple):
    """Numbers to codes: a column's known values, or edges of its bins, between two starts of one sorted list each."""

    column: Integers
    known: Array
    start: Integers
    binned: Integers


@pure
def look_up(lookup: Lookup, X: Array, codes: Integers) -> None:
    """Write each row's codes: the bin, or the place of the value among the known ones; -1 if missing or unknown."""
    for row in range(len(X)):
        for j in range(len(lookup.column)):
            value = X[row, lookup.column[j]]
            first, end = lookup.start[j], lookup.start[j + 1]
            lo, hi = first, end
            while lo < hi:
                mid = (lo + hi) // 2
                if lookup.known[mid] < value:
                    lo = mid + 1
                else:
                    hi = mid
            known = lookup.binned[j] == 1 or (lo < end and lookup.known[lo] == value)
            codes[row, j] = lo - first if known and not np.isnan(value) else NOWHERE


@pure
def standardise(raw: Array, centre: Array, spread: Array, flag: Integers, out: Array) -> int:
    """Write standard scores clipped to [-3, 3], 0 for a missing value and then 3 in its flag's column.

    Return the first row with an infinite value, or -1.
    """
    for row in range(len(raw)):
        for j in range(raw.shape[1]):
            value = raw[row, j]
            if np.isinf(value):
                return row
            if np.isnan(value):
                out[row, j] = 0.0
            else:
                out[row, j] = min(3.0, max(-3.0, (value - centre[j]) / spread[j]))
            if flag[j] >= 0:
                out[row, flag[j]] = 3.0 if np.isnan(value) else 0.0
    return -1
