"""Rows of regressors and contexts from encoded tables: standard scores, category codes and a score."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.kernels.jit import inlined, lean
from swapcal.kernels.linalg import dot

# scales of a design: hinges of the logit, categories, group × logit, group pairs, numbers, the logit's centre
HINGE, CATEGORY, SLOPE, PAIR, NUMBER, CENTRE = range(6)
SCALES = 6

NOWHERE = -1


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


@lean
def design_dot(
    design: Design, logits: Array, Z: Array, codes: Integers, coefficients: Array, room: Array, out: Array
) -> None:
    """Write ⟨coefficients, regressors⟩ of every row; the sum's order depends on nothing but the row."""
    for row in range(len(out)):
        fill_row(design, logits[row], Z[row], codes[row], room)
        out[row] = dot(coefficients, room)


class Layout(NamedTuple):
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


@lean
def fill_contexts(layout: Layout, score: Array, given: Array, Z: Array, codes: Integers, out: Array) -> None:
    """Write contexts: ½, the corrected score, the score given, then features; the sizes keep ‖x‖ ≤ 1."""
    for row in range(len(out)):
        x = out[row]
        for i in range(out.shape[1]):
            x[i] = 0.0
        x[0] = 0.5
        x[1] = layout.score_sizes[0] * (2.0 * score[row] - 1.0)
        x[2] = layout.score_sizes[1] * (2.0 * given[row] - 1.0)
        for j in range(len(layout.numeric)):
            if layout.numeric[j] >= 0:
                x[layout.numeric[j]] = layout.number_size * Z[row, j]
        for c in range(codes.shape[1]):
            code = codes[row, c]
            if code >= 0 and layout.category[c, code] >= 0:
                x[layout.category[c, code]] = layout.sizes[c]


class Lookup(NamedTuple):
    """Numbers to codes: a column's known values, or edges of its bins, between two starts of one sorted list each."""

    column: Integers
    known: Array
    start: Integers
    binned: Integers


@lean
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
            found = lookup.binned[j] == 1 or (lo < end and lookup.known[lo] == value)
            codes[row, j] = lo - first if found and not np.isnan(value) else NOWHERE


@lean
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
