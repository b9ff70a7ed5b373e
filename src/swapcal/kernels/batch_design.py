"""Rows of regressors and contexts from encoded tables: standard scores, category codes and a score."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.jit import inlined, lean, pure

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


@inlined
def fill_row(design: Design, logit: float, z: Array, codes: Integers, f: Array) -> None:
    """Write one row of regressors."""
    scales = design.scales
    for i in range(f.shape[0]):
        f[i] = 0.0
    f[0] = 1.0
    f[1] = logit
    for i in range(len(design.knots)):
        f[2 + i] = scales[HINGE] * max(0.0, logit - design.knots[i])
    for j in range(len(design.numeric)):
        f[design.numeric[j]] = scales[NUMBER] * z[j]
    for c in range(codes.shape[0]):
        code = codes[c]
        if code < 0:
            continue
        if design.category[c, code] >= 0:
            f[design.category[c, code]] = scales[CATEGORY]
        if design.slope[c, code] >= 0:
            f[design.slope[c, code]] = scales[SLOPE] * (logit - scales[CENTRE])
    for q in range(len(design.left)):
        a, b = codes[design.left[q]], codes[design.right[q]]
        if a >= 0 and b >= 0 and design.pair[q, a, b] >= 0:
            f[design.pair[q, a, b]] = scales[PAIR]


@lean
def fill_design(design: Design, logits: Array, Z: Array, codes: Integers, rows: Integers, out: Array) -> None:
    """Write the regressors of the given rows, shape (len(rows), width); `out` may hold anything before."""
    for k in range(len(rows)):
        fill_row(design, logits[rows[k]], Z[rows[k]], codes[rows[k]], out[k])


class Listing(NamedTuple):
    """Scratch of `design_square`: the regressors of one row that may differ from 0."""

    places: Keys
    """(most,) increasing; those up to the last number follow each other. Unsigned, as in `Forest`."""
    values: Array
    """(most,)"""


def blank_listing(design: Design) -> Listing:
    """Return room for a row."""
    most = 2 + len(design.knots) + len(design.numeric) + 2 * len(design.category) + len(design.left)
    return Listing(np.zeros(most, np.uint64), np.zeros(most))


@inlined
def list_row(design: Design, logit: float, z: Array, codes: Integers, listing: Listing) -> int:
    """Write what `fill_row` would, without the zeros; return how many there are."""
    scales, places, values = design.scales, listing.places, listing.values
    places[0], values[0] = np.uint64(0), 1.0
    places[1], values[1] = np.uint64(1), logit
    size = 2
    for i in range(len(design.knots)):
        places[size], values[size] = np.uint64(size), scales[HINGE] * max(0.0, logit - design.knots[i])
        size += 1
    for j in range(len(design.numeric)):
        places[size], values[size] = np.uint64(design.numeric[j]), scales[NUMBER] * z[j]
        size += 1
    for c in range(codes.shape[0]):
        if codes[c] >= 0 and design.category[c, codes[c]] >= 0:
            places[size], values[size] = np.uint64(design.category[c, codes[c]]), scales[CATEGORY]
            size += 1
    for c in range(codes.shape[0]):
        if codes[c] >= 0 and design.slope[c, codes[c]] >= 0:
            places[size], values[size] = np.uint64(design.slope[c, codes[c]]), scales[SLOPE] * (logit - scales[CENTRE])
            size += 1
    for q in range(len(design.left)):
        a, b = codes[design.left[q]], codes[design.right[q]]
        if a >= 0 and b >= 0 and design.pair[q, a, b] >= 0:
            places[size], values[size] = np.uint64(design.pair[q, a, b]), scales[PAIR]
            size += 1
    return size


class Tables(NamedTuple):
    """One number per regressor, several lines of them, where a row looks them up; 0 where a design has no place."""

    line: Array
    """(lines, 2) of the constant and the logit."""
    hinge: Array
    """(lines, k)"""
    number: Array
    """(lines, m)"""
    category: Array
    """(lines, columns, codes)"""
    slope: Array
    """(lines, columns, codes)"""
    pair: Array
    """(lines, pairs, codes, codes)"""


def tables_of(design: Design, B: Array) -> Tables:
    """Return each line of B, times the scales of the regressors."""
    padded = np.column_stack([B, np.zeros(len(B))])  # place -1 is the last, and counts for nothing

    def table(kind: int, places: Integers) -> Array:
        return np.ascontiguousarray(design.scales[kind] * padded[:, places])

    return Tables(
        B[:, :2].copy(),
        table(HINGE, np.arange(2, 2 + len(design.knots))),
        table(NUMBER, design.numeric),
        table(CATEGORY, design.category),
        table(SLOPE, design.slope),
        table(PAIR, design.pair),
    )


def lines_of(design: Design, tables: Tables, width: int) -> Array:
    """Return what `tables_of` took apart, times the scales again: (lines, width)."""
    scales, out = design.scales, np.zeros((len(tables.line), width + 1))
    out[:, :2] = tables.line
    out[:, 2 : 2 + len(design.knots)] = scales[HINGE] * tables.hinge
    out[:, design.numeric] = scales[NUMBER] * tables.number
    out[:, design.category] = scales[CATEGORY] * tables.category
    out[:, design.slope] = scales[SLOPE] * tables.slope
    out[:, design.pair] = scales[PAIR] * tables.pair
    return out[:, :-1]


@pure
def design_dot(
    design: Design, logits: Array, Z: Array, codes: Integers, rows: Integers, tables: Tables, out: Array
) -> None:
    """Write ⟨coefficients, regressors⟩ of the given rows, for each line; the sum depends on nothing but the row."""
    for k in range(len(rows)):
        row = rows[k]
        logit, far = logits[row], logits[row] - design.scales[CENTRE]
        for line in range(len(out)):
            total = tables.line[line, 0] + tables.line[line, 1] * logit
            for i in range(len(design.knots)):
                total += tables.hinge[line, i] * max(0.0, logit - design.knots[i])
            for j in range(Z.shape[1]):
                total += tables.number[line, j] * Z[row, j]
            for c in range(codes.shape[1]):
                code = codes[row, c]
                if code >= 0:
                    total += tables.category[line, c, code] + far * tables.slope[line, c, code]
            for q in range(len(design.left)):
                a, b = codes[row, design.left[q]], codes[row, design.right[q]]
                if a >= 0 and b >= 0:
                    total += tables.pair[line, q, a, b]
            out[line, k] = total


@pure
def design_pull(
    design: Design, logits: Array, Z: Array, codes: Integers, rows: Integers, R: Array, tables: Tables
) -> None:
    """Add to the tables' lines the given rows' regressors, not yet scaled, each times its entry in the line of R."""
    for k in range(len(rows)):
        row = rows[k]
        logit, far = logits[row], logits[row] - design.scales[CENTRE]
        for line in range(len(R)):
            r = R[line, k]
            tables.line[line, 0] += r
            tables.line[line, 1] += r * logit
            for i in range(len(design.knots)):
                tables.hinge[line, i] += r * max(0.0, logit - design.knots[i])
            for j in range(Z.shape[1]):
                tables.number[line, j] += r * Z[row, j]
            for c in range(codes.shape[1]):
                code = codes[row, c]
                if code >= 0:
                    tables.category[line, c, code] += r
                    tables.slope[line, c, code] += r * far
            for q in range(len(design.left)):
                a, b = codes[row, design.left[q]], codes[row, design.right[q]]
                if a >= 0 and b >= 0:
                    tables.pair[line, q, a, b] += r


@pure
def design_square(
    design: Design,
    logits: Array,
    Z: Array,
    codes: Integers,
    rows: Integers,
    c: Array,
    listing: Listing,
    out: Array,
) -> None:
    """Add Σ c f fᵀ over the given rows' regressors f to the lower triangle of `out`."""
    together = 2 + len(design.knots) + len(design.numeric)
    for k in range(len(rows)):
        row = rows[k]
        size = list_row(design, logits[row], Z[row], codes[row], listing)
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
    """What a standard score in [-3, 3] is multiplied with."""
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
