"""The four inner loops of the engine, written on vectors of four doubles; and loads ahead of time.

Left to itself the compiler guards such loops against overlapping arrays and splits off remainders, which at 20
coordinates costs as much as the arithmetic. Here rows come in whole blocks of four and arrays are known not to overlap.
Each loop has its plain meaning beside it, which is what runs when compilation is switched off.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from swapcal.arrays import Array

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
    """Have the cache line of an array's entry loaded, counted through all rows; nothing is read, nothing changes."""


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
