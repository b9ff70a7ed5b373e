"""Symmetric positive definite matrices kept as U D Uᵀ, four columns at a time.

A learner needs P = (λI + Σ w x xᵀ)⁻¹ for hundreds of millions of rank-one updates. Updating P itself
(Sherman-Morrison) loses symmetry and definiteness along directions the data never visit. Bierman's recursion
updates the factors instead: D only ever shrinks by ratios in (0, 1], so P stays symmetric positive definite
by construction, at the same cost.

Layout of one factor, with `width` columns (the dimension rounded up to a multiple of four): for the block of
columns j, j+1, j+2, j+3 first their four segments of rows 0..j-1, then the six entries above the diagonal
inside the block, column by column. Appending coordinates appends blocks and moves nothing. D is kept apart.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from swapcal.arrays import Array
from swapcal.kernels.jit import inlined, shared

# The inner loops, on vectors of four doubles; and loads ahead of time.
#
# Left to itself the compiler guards such loops against overlapping arrays and splits off remainders, which at 20
# coordinates costs as much as the arithmetic. Here rows come in whole blocks of four and arrays are known not to
# overlap. Each loop also has a version in numpy, which runs when compilation is switched off.

Four = tuple[float, float, float, float]

LANES = 4
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
INDEX = ir.IntType(64)
LANE = ir.IntType(32)
REORDER = ("reassoc", "contract", "nsz", "arcp")


def row_dot(M: Array, row: int, x: Array) -> float:
    """Return ⟨M[row], x⟩."""
    return float(M[row] @ x)


def row_axpy(M: Array, row: int, c: float, x: Array) -> None:
    """M[row] += c x."""
    M[row] += c * x


def column_dots(factor: Array, offset: int, rows: int, x: Array) -> Four:
    """Return ⟨c_k, x[:rows]⟩ for the four columns c_k stored one after the other from `offset`."""
    f = factor[offset : offset + LANES * rows].reshape(LANES, rows) @ x[:rows]
    return float(f[0]), float(f[1]), float(f[2]), float(f[3])


def sweep_columns(factor: Array, offset: int, rows: int, u: Array, p: Four, v: Four) -> None:
    """For the four columns in turn: (c_k, u) ← (c_k + p_k u, u + v_k c_k), on the first `rows` rows."""
    columns = factor[offset : offset + LANES * rows].reshape(LANES, rows)
    for k in range(LANES):
        old = columns[k].copy()
        columns[k] += p[k] * u[:rows]
        u[:rows] += v[k] * old


def prefetch(array: Any, place: int) -> None:
    """Prefetch the cache line of an array's entry, counted through all rows; no value is read or changed."""


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


def _row(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    """Return a pointer to the start of a row of a C-ordered matrix, and the row's length."""
    matrix = context.make_array(kind)(context, builder, array)
    length = builder.extract_value(matrix.shape, 1)
    return builder.gep(matrix.data, [builder.mul(row, length)]), length


def _load(builder: Any, base: Any, index: Any) -> Any:
    value = builder.load(builder.bitcast(builder.gep(base, [index]), VECTOR.as_pointer()))
    value.align = 8
    return value


def _store(builder: Any, value: Any, base: Any, index: Any) -> None:
    builder.store(value, builder.bitcast(builder.gep(base, [index]), VECTOR.as_pointer())).align = 8


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=REORDER), c, flags=REORDER)


def _shuffle(builder: Any, value: Any, lanes: list[int]) -> Any:
    undefined = ir.Constant(VECTOR, ir.Undefined)
    return builder.shuffle_vector(value, undefined, ir.Constant(ir.VectorType(LANE, LANES), lanes))


def _splat(builder: Any, scalar: Any) -> Any:
    seed = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), scalar, LANE(0))
    return _shuffle(builder, seed, [0] * LANES)


def _sum(builder: Any, value: Any) -> Any:
    pairs = builder.fadd(value, _shuffle(builder, value, [2, 3, 0, 1]), flags=REORDER)
    total = builder.fadd(pairs, _shuffle(builder, pairs, [1, 0, 3, 2]), flags=REORDER)
    return builder.extract_element(total, LANE(0))


@contextmanager
def _blocks(builder: Any, rows: Any) -> Iterator[Any]:
    with cgutils.for_range_slice(builder, INDEX(0), rows, INDEX(LANES)) as (index, _):
        yield index


def _zeros(builder: Any, count: int) -> list[Any]:
    return [cgutils.alloca_once_value(builder, ir.Constant(VECTOR, [0.0] * LANES)) for _ in range(count)]


def _row_dot(_context: Any, M: Any, row: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base, length = _row(context, builder, signature.args[0], *arguments[:2])
        xs = _data(context, builder, signature.args[2], arguments[2])
        (total,) = _zeros(builder, 1)
        with _blocks(builder, length) as i:
            product = _fma(builder, _load(builder, base, i), _load(builder, xs, i), builder.load(total))
            builder.store(product, total)
        return _sum(builder, builder.load(total))

    return types.float64(M, types.int64, x), generate


def _row_axpy(_context: Any, M: Any, row: Any, c: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base, length = _row(context, builder, signature.args[0], *arguments[:2])
        xs = _data(context, builder, signature.args[3], arguments[3])
        factor = _splat(builder, arguments[2])
        with _blocks(builder, length) as i:
            _store(builder, _fma(builder, factor, _load(builder, xs, i), _load(builder, base, i)), base, i)
        return context.get_dummy_value()

    return types.none(M, types.int64, types.float64, x), generate


def _column_dots(_context: Any, factor: Any, offset: Any, rows: Any, x: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base = builder.gep(_data(context, builder, signature.args[0], arguments[0]), [arguments[1]])
        xs = _data(context, builder, signature.args[3], arguments[3])
        totals = _zeros(builder, LANES)
        with _blocks(builder, arguments[2]) as i:
            x_block, place = _load(builder, xs, i), i
            for total in totals:
                builder.store(_fma(builder, _load(builder, base, place), x_block, builder.load(total)), total)
                place = builder.add(place, arguments[2])
        return cgutils.pack_array(builder, [_sum(builder, builder.load(total)) for total in totals])

    return types.UniTuple(types.float64, LANES)(factor, types.int64, types.int64, x), generate


def _sweep_columns(
    _context: Any, factor: Any, offset: Any, rows: Any, u: Any, p: Any, v: Any
) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        base = builder.gep(_data(context, builder, signature.args[0], arguments[0]), [arguments[1]])
        us = _data(context, builder, signature.args[3], arguments[3])
        ps, vs = ([_splat(builder, builder.extract_value(four, k)) for k in range(LANES)] for four in arguments[4:6])
        with _blocks(builder, arguments[2]) as i:
            u_block, place = _load(builder, us, i), i
            for p_k, v_k in zip(ps, vs, strict=True):
                old = _load(builder, base, place)
                _store(builder, _fma(builder, u_block, p_k, old), base, place)
                u_block = _fma(builder, old, v_k, u_block)
                place = builder.add(place, arguments[2])
            _store(builder, u_block, us, i)
        return context.get_dummy_value()

    return types.none(factor, types.int64, types.int64, u, p, v), generate


def _prefetch(_context: Any, array: Any, place: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, flag = ir.IntType(8).as_pointer(), LANE(0)
        kind = ir.FunctionType(ir.VoidType(), [pointer, LANE, LANE, LANE])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        base = _data(context, builder, signature.args[0], arguments[0])
        entry = builder.bitcast(builder.gep(base, [arguments[1]]), pointer)
        builder.call(fetch, [entry, flag, LANE(3), LANE(1)])  # to be read, kept in all caches, data
        return context.get_dummy_value()

    return types.none(array, types.int64), generate


if not config.DISABLE_JIT:
    globals().update(
        prefetch=intrinsic(_prefetch),
        row_dot=intrinsic(_row_dot),
        row_axpy=intrinsic(_row_axpy),
        column_dots=intrinsic(_column_dots),
        sweep_columns=intrinsic(_sweep_columns),
    )


# Symmetric matrices as U D Uᵀ.

BLOCK = 4
CORNER = 6
# Mask by which the compiler infers that an index is not negative, and omits Python's wrap-around on every access.
NONNEGATIVE = 0x7FFFFFFFFFFF
# Newton on the secular equation converges quadratically: a handful of steps do, this only bounds the loop.
MOST_NEWTON_STEPS = 100


def padded(dim: int) -> int:
    """Return `dim` rounded up to whole blocks; the extra coordinates are zero and stay zero."""
    return -(-dim // BLOCK) * BLOCK


def factor_size(dim: int) -> int:
    """Return the number of doubles that hold U for `dim` coordinates (about dim²/2)."""
    return sum(BLOCK * start + CORNER for start in range(0, padded(dim), BLOCK))


def unpack(factor: Array, width: int) -> Array:
    """Return the unit upper-triangular U of shape (..., width, width) from its packed layout."""
    U = np.zeros((*factor.shape[:-1], width, width))
    U[..., range(width), range(width)] = 1.0
    offset = 0
    for start in range(0, width, BLOCK):
        for column in range(start, start + BLOCK):
            U[..., :start, column] = factor[..., offset : offset + start]
            offset += start
        for column in range(start + 1, start + BLOCK):
            height = column - start
            U[..., start:column, column] = factor[..., offset : offset + height]
            offset += height
    return U


@shared
def dot(a: Array, b: Array) -> float:
    """Return ⟨a, b⟩."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@shared
def absorb(factor: Array, scale: Array, x: Array, weight: float, u: Array) -> float:
    """Replace P = U D Uᵀ by (P⁻¹ + weight x xᵀ)⁻¹; write u = P_old x; return 1 + weight xᵀ P_old x.

    Bierman's measurement update. Entry (i, j) of U and the partial gain u_i are advanced together, so one pass
    over the factor gives both the new factor and u. Four columns share each visit to u.
    """
    g = 1.0
    r = 1.0
    corner = 0
    for block in range(scale.shape[0] // BLOCK):
        j = (BLOCK * block) & NONNEGATIVE
        start = corner & NONNEGATIVE
        corner = (start + BLOCK * j) & NONNEGATIVE
        f0, f1, f2, f3 = column_dots(factor, start, j, x)
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        e01, e02, e12 = factor[corner], factor[corner + 1], factor[corner + 2]
        e03, e13, e23 = factor[corner + 3], factor[corner + 4], factor[corner + 5]
        f0 += x0
        f1 += x1 + e01 * x0
        f2 += x2 + e02 * x0 + e12 * x1
        f3 += x3 + e03 * x0 + e13 * x1 + e23 * x2

        v0, v1, v2, v3 = scale[j] * f0, scale[j + 1] * f1, scale[j + 2] * f2, scale[j + 3] * f3
        a0, a1, a2, a3 = weight * f0, weight * f1, weight * f2, weight * f3
        g0 = g + a0 * v0
        g1 = g0 + a1 * v1
        g2 = g1 + a2 * v2
        g3 = g2 + a3 * v3
        r0, r1, r2, r3 = 1.0 / g0, 1.0 / g1, 1.0 / g2, 1.0 / g3
        p0, p1, p2, p3 = -a0 * r, -a1 * r0, -a2 * r1, -a3 * r2
        scale[j] *= g * r0
        scale[j + 1] *= g0 * r1
        scale[j + 2] *= g1 * r2
        scale[j + 3] *= g2 * r3
        sweep_columns(factor, start, j, u, (p0, p1, p2, p3), (v0, v1, v2, v3))

        factor[corner] = e01 + v0 * p1
        u0 = v0 + e01 * v1
        factor[corner + 1] = e02 + u0 * p2
        u0 += e02 * v2
        factor[corner + 3] = e03 + u0 * p3
        u[j] = u0 + e03 * v3
        factor[corner + 2] = e12 + v1 * p2
        u1 = v1 + e12 * v2
        factor[corner + 4] = e13 + u1 * p3
        u[j + 1] = u1 + e13 * v3
        factor[corner + 5] = e23 + v2 * p3
        u[j + 2] = v2 + e23 * v3
        u[j + 3] = v3
        g = g3
        r = r3
        corner += CORNER
    return g


@shared
def quadratic(factor: Array, scale: Array, x: Array) -> float:
    """Return q = xᵀ U D Uᵀ x."""
    q = 0.0
    corner = 0
    for block in range(scale.shape[0] // BLOCK):
        j = (BLOCK * block) & NONNEGATIVE
        start = corner & NONNEGATIVE
        corner = (start + BLOCK * j) & NONNEGATIVE
        f0, f1, f2, f3 = column_dots(factor, start, j, x)
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        f0 += x0
        f1 += x1 + factor[corner] * x0
        f2 += x2 + factor[corner + 1] * x0 + factor[corner + 2] * x1
        f3 += x3 + factor[corner + 3] * x0 + factor[corner + 4] * x1 + factor[corner + 5] * x2
        q += scale[j] * f0 * f0 + scale[j + 1] * f1 * f1 + scale[j + 2] * f2 * f2 + scale[j + 3] * f3 * f3
        corner += CORNER
    return q


@shared
def expand(factor: Array, scale: Array, U: Array, P: Array) -> None:
    """Write the full matrix P = U D Uᵀ, by way of the full U D^½."""
    width = scale.shape[0]
    U[:, :] = 0.0
    offset = 0
    for start in range(0, width, BLOCK):
        for column in range(start, start + BLOCK):
            U[column, column] = 1.0
            for i in range(start):
                U[i, column] = factor[offset + i]
            offset += start
        for column in range(start + 1, start + BLOCK):
            for i in range(start, column):
                U[i, column] = factor[offset]
                offset += 1
    for i in range(width):
        for j in range(i, width):
            U[i, j] *= np.sqrt(scale[j])
    for i in range(width):
        row = U[i, i:]
        for j in range(i + 1):
            P[i, j] = dot(row, U[j, i:])
            P[j, i] = P[i, j]


@inlined
def factorise_shifted(P: Array, mu: float, L: Array) -> None:
    """Write the Cholesky factor L of I + μP, lower triangle."""
    d = P.shape[0]
    for j in range(d):
        for i in range(j, d):
            total = mu * P[i, j] + (1.0 if i == j else 0.0) - dot(L[i, :j], L[j, :j])
            L[i, j] = np.sqrt(total) if i == j else total / L[j, j]


@inlined
def solve_factored(L: Array, b: Array, x: Array) -> None:
    """Write x = (L Lᵀ)⁻¹ b."""
    d = b.shape[0]
    for i in range(d):
        total = b[i]
        for k in range(i):
            total -= L[i, k] * x[k]
        x[i] = total / L[i, i]
    for i in range(d - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, d):
            total -= L[k, i] * x[k]
        x[i] = total / L[i, i]


@shared
def project_ball(theta: Array, factor: Array, scale: Array, radius: float, room: Array) -> None:
    """Project θ onto the ball of `radius` in the norm of A = P⁻¹, in place; `room` has shape (3, width, width).

    The projection is θ' with (A + μI) θ' = A θ and ‖θ'‖ = radius, that is (I + μP) θ' = θ, so only P is needed.
    Newton on 1/‖θ'(μ)‖ - 1/radius, which is concave in μ: from μ = 0 it climbs to the root without overshooting.
    """
    P, L = room[0], room[1]
    s, Ps, t = room[2, 0], room[2, 1], room[2, 2]
    expand(factor, scale, L, P)
    width = theta.shape[0]
    mu = 0.0
    for _ in range(MOST_NEWTON_STEPS):
        factorise_shifted(P, mu, L)
        solve_factored(L, theta, s)
        norm = np.sqrt(dot(s, s))
        # Newton approaches from outside; below this, rounding in the solves is as large as the step.
        if norm <= radius * (1.0 + 1e-12):
            break
        for i in range(width):
            Ps[i] = dot(P[i], s)
        solve_factored(L, Ps, t)
        mu += (norm / radius - 1.0) * norm * norm / dot(s, t)
    # Rounding may leave the point outside by an ulp; the regret proof needs it inside.
    norm = max(radius, np.sqrt(dot(s, s)))
    for i in range(width):
        theta[i] = s[i] * (radius / norm)


@shared
def add_outer(packed: Array, x: Array, weight: float) -> None:
    """Add weight x xᵀ to a symmetric matrix kept as its packed lower triangle, row by row."""
    offset = 0
    for i in range(x.shape[0]):
        row = packed[offset : offset + i + 1]
        a = weight * x[i]
        for j in range(i + 1):
            row[j] += a * x[j]
        offset += i + 1
