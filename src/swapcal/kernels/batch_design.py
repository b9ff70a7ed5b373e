"""Rows of regressors and contexts from encoded tables: standard scores, category codes and a score."""

from typing import NamedTuple

from swapcal.arrays import Array, Integers
from swapcal.kernels.jit import inlined, lean, pure
from swapcal.kernels.linalg import dot

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


@pure
def design_dot(
    design: Design, logits: Array, Z: Array, codes: Integers, coefficients: Array, room: Array, out: Array
) -> None:
    """Write ⟨coefficients, regressors⟩ of every row; the sum's order depends on nothing but the row."""
    for row in range(len(out)):
        fill_row(design, logits[row], Z[row], codes[row], room)
        out[row] = dot(coefficients, room)


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
