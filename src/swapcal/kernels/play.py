"""One row's play in one cell, on vectors of four bets, with its plain meaning beside it (see `kernels.simd`)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from swapcal.arrays import Array
from swapcal.kernels import simd

STAKES = 6
"""Stakes per direction."""
LANES = 2 * STAKES
"""Bets of a cell: bet 2i says that outcomes are more frequent than forecast, bet 2i + 1 that they are rarer."""

# What a bet remembers: product of its gains since the last fold, logarithm of its wealth up to there, the
# Shiryaev–Roberts sum, the cumulative sum, and that one's start with the rows, residuals and squares since.
GAIN, LOG, SUM, CUSUM, START, ROWS, RESIDUAL, SQUARE = range(8)
FIELDS = 8

CEILING = 1e100
"""Sums stop here: far beyond every alarm, and low enough that one more gain cannot overflow."""


def play(
    bets: Array, cell: int, gain: Array, shares: Array, residual: float, square: float, clock: float
) -> tuple[float, float]:
    """Let every bet of a cell play one row; return Σ shares·SUM of the bets upwards and of those downwards.

    SUM ← (1 + SUM)·gain counts every possible start of a change; CUSUM ← max(1, CUSUM)·gain keeps the best one.
    """
    own = bets[cell]
    fresh = own[CUSUM] <= 1.0
    own[GAIN] *= gain
    own[SUM] = np.minimum((1.0 + own[SUM]) * gain, CEILING)
    own[CUSUM] = np.minimum(np.where(fresh, 1.0, own[CUSUM]) * gain, CEILING)
    own[START] = np.where(fresh, clock, own[START])
    own[ROWS] = np.where(fresh, 0.0, own[ROWS]) + 1.0
    own[RESIDUAL] = np.where(fresh, 0.0, own[RESIDUAL]) + residual
    own[SQUARE] = np.where(fresh, 0.0, own[SQUARE]) + square
    weighted = shares * own[SUM]
    return float(weighted[0::2].sum()), float(weighted[1::2].sum())


def _play(
    _context: Any, bets: Any, cell: Any, gain: Any, shares: Any, residual: Any, square: Any, clock: Any
) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        cells = simd._data(context, builder, signature.args[0], arguments[0])
        base = builder.gep(cells, [builder.mul(arguments[1], simd.INDEX(FIELDS * LANES))])
        gains, parts = (simd._data(context, builder, signature.args[k], arguments[k]) for k in (2, 3))
        r, rr, now = (simd._splat(builder, value) for value in arguments[4:7])
        zero, one, ceiling = (ir.Constant(simd.VECTOR, [value] * simd.LANES) for value in (0.0, 1.0, CEILING))

        def load(field: int, block: int) -> Any:
            return simd._load(builder, base, simd.INDEX(field * LANES + block))

        def store(value: Any, field: int, block: int) -> None:
            simd._store(builder, value, base, simd.INDEX(field * LANES + block))

        def capped(value: Any) -> Any:
            return builder.select(builder.fcmp_ordered("<", value, ceiling), value, ceiling)

        total = zero
        for block in range(0, LANES, simd.LANES):
            b = simd._load(builder, gains, simd.INDEX(block))
            before = load(CUSUM, block)
            fresh = builder.fcmp_ordered("<=", before, one)
            grown = capped(builder.fmul(builder.fadd(one, load(SUM, block)), b))
            store(builder.fmul(load(GAIN, block), b), GAIN, block)
            store(grown, SUM, block)
            store(capped(builder.fmul(builder.select(fresh, one, before), b)), CUSUM, block)
            store(builder.select(fresh, now, load(START, block)), START, block)
            for field, step in ((ROWS, one), (RESIDUAL, r), (SQUARE, rr)):
                kept = builder.select(fresh, zero, load(field, block))
                store(builder.fadd(kept, step), field, block)
            share = simd._load(builder, parts, simd.INDEX(block))
            total = builder.fadd(total, builder.fmul(share, grown))
        pairs = builder.fadd(total, simd._shuffle(builder, total, [2, 3, 0, 1]))
        sides = [builder.extract_element(pairs, simd.LANE(side)) for side in range(2)]
        return cgutils.pack_array(builder, sides)

    floats = (types.float64,) * 3
    return types.UniTuple(types.float64, 2)(bets, types.int64, gain, shares, *floats), generate


if not config.DISABLE_JIT:
    globals().update(play=intrinsic(_play))
