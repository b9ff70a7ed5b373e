"""Sums per level in one pass over the rows; log loss; centred binomial variables."""

import numpy as np

from swapcal.arrays import AnyArray, Array, Bytes, Index, Integers, Keys, Places
from swapcal.kernels.draw import plain_bits
from swapcal.kernels.jit import inlined, jit, shared

# Log loss, with the one rule by which swapcal keeps it finite.

FLOOR = 1e-6
"""Probabilities are moved this far from 0 and 1 before their logarithm is taken: one certain error costs 13.8 nats."""


@shared
def log_loss(p: float, y: float) -> float:
    """−y log p − (1 − y) log(1 − p) in nats, p no nearer to 0 and 1 than `FLOOR`.

    Examples
    --------
    >>> round(log_loss(0.0, 1.0), 3), round(log_loss(0.5, 0.0), 3)
    (13.816, 0.693)
    """
    inside = min(max(p, FLOOR), 1.0 - FLOOR)
    return float(-y * np.log(inside) - (1.0 - y) * np.log(1.0 - inside))


@jit
def log_losses(p: Array, y: Array) -> Array:
    """Return the log loss of every row.

    Examples
    --------
    >>> log_losses(np.array([0.5, 1.0]), np.array([1.0, 1.0])).round(3)
    array([0.693, 0.   ])
    """
    out = np.empty(len(p))
    for t in range(len(p)):
        out[t] = log_loss(p[t], y[t])
    return out


# Centred binomial variables, made from standard normal ones.


@jit
def fill_cdfs(count: Array, chance: Array, start: Integers, out: Array) -> None:
    """Write the distribution function of Bin(count_c, chance_c) at 0, 1, … into out[start_c : start_{c+1}].

    Parameters
    ----------
    count, chance : (C,), chances at most ½ and expectations small enough that (1 − chance)^count is no underflow
    start : (C + 1,)
    """
    for c in range(len(count)):
        if start[c + 1] > start[c]:
            odds = chance[c] / (1.0 - chance[c])
            mass = (1.0 - chance[c]) ** count[c]
            total = mass
            for k in range(start[c + 1] - start[c]):
                out[start[c] + k] = min(total, 1.0)
                mass *= odds * (count[c] - k) / (k + 1.0)
                total += mass


@jit
def shape(z: Array, start: Integers, thresholds: Array, count: Array, chance: Array, jump: Array) -> None:
    """Turn standard normal numbers into jump·(Bin(count, chance) − count·chance), in place.

    Few expected events: the binomial quantile, by comparing z with the thresholds Φ⁻¹(P(Bin ≤ k)) of its cell.
    Many: the Cornish–Fisher expansion with the binomial's skewness and kurtosis.

    Parameters
    ----------
    z : (B, C)
    start : (C + 1,) where each cell's thresholds begin; none for cells with many expected events
    thresholds : for the rarer of the two outcomes
    count, chance, jump : (C,); a jump of 0 makes the variable 0
    """
    for c in range(len(count)):
        if jump[c] == 0.0:
            z[:, c] = 0.0
        elif start[c + 1] > start[c]:
            sign = 1.0 if chance[c] <= 0.5 else -1.0
            expected = count[c] * min(chance[c], 1.0 - chance[c])
            for b in range(len(z)):
                k, x = start[c], sign * z[b, c]
                while k < start[c + 1] and thresholds[k] < x:
                    k += 1
                z[b, c] = sign * jump[c] * (k - start[c] - expected)
        else:
            unit = chance[c] * (1.0 - chance[c])
            spread = np.sqrt(count[c] * unit)
            skew, kurtosis = (1.0 - 2.0 * chance[c]) / spread, (1.0 - 6.0 * unit) / spread**2
            for b in range(len(z)):
                x = z[b, c]
                bent = skew * (x * x - 1.0) / 6.0
                bent += kurtosis * x * (x * x - 3.0) / 24.0 - skew * skew * x * (2.0 * x * x - 5.0) / 36.0
                z[b, c] = jump[c] * spread * (x + bent)


# Sums per level in one pass over the rows.
#
# Rows are taken in blocks small enough for the cache, sorted by level within the block, and four rows of one
# level are added at a time: each entry of the d × d matrices is then loaded and stored once per four rows.

BLOCK_ENTRIES = 1 << 16
"""Entries of X per block (512 kB): a block and one level's matrices stay in a typical second-level cache."""

MASS, PREDICTED, OBSERVED, RESIDUAL, VARIANCE, SQUARED, MASS2, ROWS, MASS3, SPREAD, FRACTIONAL = range(11)
"""Columns of the scalar table.

Σα, Σαp, Σαy, Σα(y − p), Σα²p(1 − p), Σα(y − p)², Σα², number of rows, Σα³, Σα²(y − p)², number of rows with 0 < y < 1.
"""

SCALARS = 11


@inlined
def add_row(row: Array, p: float, y: float, a: float) -> None:
    """Add one row of weight `a` to its scalars."""
    r = y - p
    row[MASS] += a
    row[PREDICTED] += a * p
    row[OBSERVED] += a * y
    row[RESIDUAL] += a * r
    row[VARIANCE] += a * a * p * (1.0 - p)
    row[SQUARED] += a * r * r
    row[MASS2] += a * a
    row[ROWS] += 1.0
    row[MASS3] += a * a * a
    row[SPREAD] += a * a * r * r
    if 0.0 < y < 1.0:
        row[FRACTIONAL] += 1.0


@inlined
def sort_block(level: Index, start: int, stop: int, ends: Index, order: Index) -> None:
    """Write into `order` the rows start … stop − 1 by increasing level (counting sort)."""
    ends[:] = 0
    for t in range(start, stop):
        ends[level[t] + 1] += 1
    for i in range(1, len(ends)):
        ends[i] += ends[i - 1]
    for t in range(start, stop):
        order[ends[level[t]]] = t
        ends[level[t]] += 1


@inlined
def add_scalars(level: Index, p: Array, y: Array, weight: Array, table: Array) -> None:
    """Add every row to the scalar table of its level, (L, SCALARS)."""
    for t in range(len(p)):
        add_row(table[level[t]], p[t], y[t], weight[t])


@inlined
def add_four(rows: Index, p: Array, y: Array, weight: Array, X: Array, g: Array, G: Array, H: Array) -> None:
    """Add four rows of one level to its g (d,) and to the lower triangles of its G and H (d, d)."""
    r0, r1, r2, r3 = rows[0], rows[1], rows[2], rows[3]
    a0, a1, a2, a3 = weight[r0], weight[r1], weight[r2], weight[r3]
    e0, e1, e2, e3 = a0 * (y[r0] - p[r0]), a1 * (y[r1] - p[r1]), a2 * (y[r2] - p[r2]), a3 * (y[r3] - p[r3])
    h0, h1 = a0 * p[r0] * (1.0 - p[r0]), a1 * p[r1] * (1.0 - p[r1])
    h2, h3 = a2 * p[r2] * (1.0 - p[r2]), a3 * p[r3] * (1.0 - p[r3])
    x0, x1, x2, x3 = X[r0], X[r1], X[r2], X[r3]
    for i in range(X.shape[1]):
        g[i] += e0 * x0[i] + e1 * x1[i] + e2 * x2[i] + e3 * x3[i]
        c0, c1, c2, c3 = a0 * x0[i], a1 * x1[i], a2 * x2[i], a3 * x3[i]
        k0, k1, k2, k3 = h0 * c0, h1 * c1, h2 * c2, h3 * c3
        for j in range(i + 1):
            G[i, j] += c0 * x0[j] + c1 * x1[j] + c2 * x2[j] + c3 * x3[j]
            H[i, j] += k0 * x0[j] + k1 * x1[j] + k2 * x2[j] + k3 * x3[j]


@inlined
def add_one(r: int, p: Array, y: Array, weight: Array, X: Array, g: Array, G: Array, H: Array) -> None:
    """Add one row to its level's g and to the lower triangles of G and H."""
    a, e = weight[r], weight[r] * (y[r] - p[r])
    h = a * p[r] * (1.0 - p[r])
    for i in range(X.shape[1]):
        g[i] += e * X[r, i]
        c = a * X[r, i]
        k = h * c
        for j in range(i + 1):
            G[i, j] += c * X[r, j]
            H[i, j] += k * X[r, j]


@jit
def tally(
    level: Index, p: Array, y: Array, weight: Array, X: Array, table: Array, g: Array, G: Array, H: Array
) -> None:
    """Add rows to the statistics of their levels, in place.

    g = Σ α(y − p)x, and the lower triangles of G = Σ α x xᵀ and H = Σ α² p(1 − p) x xᵀ, the covariance of g
    when the predictions are true. The upper triangles are not touched.

    Parameters
    ----------
    level : (rows,), below L
    p, y, weight : (rows,)
    X : (rows, d)
    table, g, G, H : (L, SCALARS), (L, d), (L, d, d), (L, d, d)
    """
    add_scalars(level, p, y, weight, table)
    size = max(64, BLOCK_ENTRIES // X.shape[1])
    ends, order = np.empty(len(g) + 1, np.int32), np.empty(size, np.int32)
    for start in range(0, len(p), size):
        stop = min(start + size, len(p))
        sort_block(level, start, stop, ends, order)
        i = 0
        while i < stop - start:
            v = level[order[i]]
            if i + 3 < stop - start and level[order[i + 3]] == v:
                add_four(order[i : i + 4], p, y, weight, X, g[v], G[v], H[v])
                i += 4
            else:
                add_one(order[i], p, y, weight, X, g[v], G[v], H[v])
                i += 1


SPECTRUM_BINS = 4096
"""Bins of equal width in arcsin √p: about 0.0004 wide at ½ and ever finer towards 0 and 1."""


@jit
def add_spectrum(p: Array, y: Array, weight: Array, spectrum: Array) -> float:
    """Add every row to the (SPECTRUM_BINS, 3) histogram of Σα, Σαp, Σαy; return the summed log loss."""
    scale, loss = SPECTRUM_BINS * 2.0 / np.pi, 0.0
    for t in range(len(p)):
        row = spectrum[min(int(scale * np.arcsin(np.sqrt(p[t]))), SPECTRUM_BINS - 1)]
        row[0] += weight[t]
        row[1] += weight[t] * p[t]
        row[2] += weight[t] * y[t]
    for t in range(len(p)):
        loss += weight[t] * log_loss(p[t], y[t])
    return loss


@jit
def add_groups(level: Index, code: Index, p: Array, y: Array, weight: Array, table: Array) -> None:
    """Add every row to the scalar table of its level and group, (L, K, SCALARS)."""
    for t in range(len(p)):
        add_row(table[level[t], code[t]], p[t], y[t], weight[t])


BINS, CUTS = 9, 7
"""Bins of a number: eight between its seven cuts, and one for missing values."""


@jit
def fill_bins(values: Array, cuts: Array, out: Bytes) -> None:
    """Write how many of the seven cuts each value reaches; 8 where it is missing."""
    for t in range(len(values)):
        code = 0
        for k in range(CUTS):
            code += values[t] >= cuts[k]
        out[t] = BINS - 1 if np.isnan(values[t]) else code


@jit
def add_bins(level: Index, code: Bytes, p: Array, y: Array, weight: Array, table: Array) -> None:
    """Add every row to the scalar tables of its level and bins, (L, C, BINS, SCALARS); `code` is (rows, C)."""
    own = np.empty(SCALARS)
    for t in range(len(p)):
        own[:] = 0.0
        add_row(own, p[t], y[t], weight[t])
        for j in range(code.shape[1]):
            row = table[level[t], j, code[t, j]]
            for k in range(SCALARS):
                row[k] += own[k]


# Rows that belong together: every cluster has a sign of its own in every draw, by the hash of its id.


@inlined
def mix(h: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of splitmix64)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@jit
def fill_signs(keys: Keys, signs: AnyArray) -> None:
    """Write the sign, 1 or −1, of every row's cluster in every draw, (rows, draws) as bytes."""
    for t in range(len(keys)):
        word = np.uint64(0)
        for b in range(signs.shape[1]):
            if b % 64 == 0:
                word = mix(keys[t] + np.uint64(b // 64 + 1) * np.uint64(0x9E3779B97F4A7C15))
            signs[t, b] = 1 - 2 * np.int8((word >> np.uint64(b % 64)) & np.uint64(1))


@jit
def add_signed(level: Index, code: Integers, value: Array, signs: AnyArray, table: Array) -> None:
    """Add every row's values, with its signs, to its level and their places.

    Parameters
    ----------
    level : (rows,)
    code, value : (rows, n) places and what is added there
    signs, table : (rows, draws) and (L, K, draws)
    """
    for t in range(len(value)):
        for j in range(value.shape[1]):
            if value[t, j] != 0.0:
                row = table[level[t], code[t, j]]
                for b in range(signs.shape[1]):
                    row[b] += value[t, j] * signs[t, b]


@jit
def add_distinct(level: Index, code: Integers, keys: Keys, least: Keys) -> None:
    """Keep the smallest distinct keys of every level and place, in order; the largest key marks empty places.

    Parameters
    ----------
    level, keys : (rows,)
    code : (rows, n) places
    least : (L, K, most)
    """
    most = least.shape[2]
    for t in range(len(keys)):
        for j in range(code.shape[1]):
            kept = least[level[t], code[t, j]]
            if keys[t] < kept[most - 1]:
                k = most - 1
                while k > 0 and kept[k - 1] >= keys[t]:
                    k -= 1
                if kept[k] != keys[t]:
                    for i in range(most - 1, k, -1):
                        kept[i] = kept[i - 1]
                    kept[k] = keys[t]


@jit
def hash_rows(bits: Keys, key: Keys, out: Keys) -> None:
    """Add to `out` a multilinear hash of each row of `bits` (rows, columns), with one odd key per column; -0 is 0."""
    for t in range(len(bits)):
        h = out[t]
        for j in range(bits.shape[1]):
            b = plain_bits(bits[t, j])
            h += (b ^ (b >> np.uint64(32))) * key[j]
        out[t] = h


@jit
def finish_hashes(hashes: Keys) -> tuple[np.uint64, np.uint64]:
    """Scramble every hash in place; return two independent sums of the row hashes, modulo 2^64."""
    first, second = np.uint64(0), np.uint64(0)
    for t in range(len(hashes)):
        hashes[t] = mix(hashes[t])
        first += hashes[t]
        second += mix(hashes[t] + np.uint64(0x9E3779B97F4A7C15))
    return first, second


@jit
def fill(column: Array, centre: float, factor: float, bound: float, out: Array) -> None:
    """Write factor·(column − centre) clipped to ±bound, 0 where the value is missing."""
    for t in range(len(column)):
        z = factor * (column[t] - centre)
        out[t] = 0.0 if np.isnan(z) else min(max(z, -bound), bound)


@jit
def scan_maxima(values: Array, windows: Places, centre: Array, root: Array, penalty: Array, maxima: Array) -> None:
    """Write the largest |Σ_window (values_f − centre·values_0)| / root − penalty of every draw.

    Parameters
    ----------
    values : (B, L, F)
    windows : (W, 2) first and last level
    centre, root, penalty : (W, F); a root of infinity takes a cell out
    maxima : (B,) written; −∞ where no cell is left
    """
    draws, levels, functions = values.shape
    total = np.zeros((levels + 1, functions))
    for b in range(draws):
        for v in range(levels):
            for f in range(functions):
                total[v + 1, f] = total[v, f] + values[b, v, f]
        best = -np.inf
        for w in range(len(windows)):
            first, last = windows[w, 0], windows[w, 1] + 1
            base = total[last, 0] - total[first, 0]
            for f in range(functions):
                if root[w, f] < np.inf:
                    inside = total[last, f] - total[first, f] - centre[w, f] * base
                    best = max(best, abs(inside) / root[w, f] - penalty[w, f])
        maxima[b] = best
