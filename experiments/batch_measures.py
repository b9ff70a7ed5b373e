"""Errors of predictions on the test rows of a scene, and how sure a difference of worst groups is."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from batch_scene import Scene
from batch_tasks import Cells
from swapcal import errors
from swapcal.arrays import Array

BINS = 10
SMALLEST_GROUP = 200
NULL_DRAWS, CHANCE_DRAWS = 10, 40
TINY = 1e-6
DRAWS = 100


def measure(p: Array, scene: Scene) -> dict[str, float]:
    """Return every error of predictions on the test part."""
    y, q = scene.y_test, np.clip(p, TINY, 1 - TINY)
    groups = group_eces(p, y, scene.cells[1])
    return {
        "log loss": float(-np.mean(y * np.log(q) + (1 - y) * np.log(1 - q))),
        "Brier": float(np.mean((p - y) ** 2)),
        "ECE": float(group_eces(p, y, None)[0]),
        "worst-group ECE": float(groups.max()),
        "mean-group ECE": float(groups.mean()),
        "groups": len(groups),
        **swap_errors(p, y, scene),
    }


def group_eces(p: Array, y: Array, cells: Cells | None) -> Array:
    """Return the expected calibration error, over ten bins, of all rows or of every cell with 200 rows or more."""
    columns = [np.zeros(len(p), int)] if cells is None else list(cells.codes.T)
    least, ones = (1 if cells is None else SMALLEST_GROUP), np.ones(len(p))
    return np.concatenate([_eces(column, _bins(p), y - p, ones, least) for column in columns])


def _bins(p: Array) -> NDArray[np.int64]:
    return np.minimum((p * BINS).astype(int), BINS - 1)


def _eces(column: NDArray[np.int64], bins: NDArray[np.int64], residual: Array, weight: Array, least: int) -> Array:
    """Return the errors of a column's cells of at least so many rows, each row counting `weight` times."""
    rows = np.bincount(column)
    gap = np.bincount(column * BINS + bins, weight * residual, minlength=len(rows) * BINS).reshape(-1, BINS)
    count = np.bincount(column, weight)
    kept = rows >= least
    return np.abs(gap).sum(axis=1)[kept] / np.maximum(count[kept], 1.0)


def worst_differences(ours: Array, theirs: dict[str, Array], scene: Scene) -> dict[str, list[float]]:
    """Return, for each other method, the 5 % and 95 % points of our worst-group ECE minus its, over resampled rows.

    A resample gives every test row a Poisson(1) count, the same for all methods. An ECE grows under resampling, for
    all methods alike; the difference is what can be read.
    """
    rng, y = np.random.default_rng(scene.seed), scene.y_test
    weights = rng.poisson(1.0, (DRAWS, len(y))).astype(float).T
    worst = np.array([_worst(p, weights * (y - p)[:, None], weights, scene.cells[1]) for p in (ours, *theirs.values())])
    low, high = np.quantile(worst[0] - worst[1:], [0.05, 0.95], axis=1)
    return {name: [float(a), float(b)] for name, a, b in zip(theirs, low, high, strict=True)}


def worst_by_chance(p: Array, scene: Scene) -> list[float]:
    """Return worst-group ECEs that p would show if it were the truth, one for each draw: what chance makes of it."""
    rng = np.random.default_rng(scene.seed)
    residuals = (rng.random((CHANCE_DRAWS, len(p))) < p).astype(float).T - p[:, None]
    found: list[float] = _worst(p, residuals, np.ones_like(residuals), scene.cells[1]).tolist()
    return found


def _worst(p: Array, residuals: Array, weights: Array, cells: Cells) -> Array:
    """Return the largest ECE of the cells of 200 rows or more, for each column of residuals and of weights."""
    worst, bins = np.zeros(residuals.shape[1]), _bins(p)
    for column in cells.codes.T:
        rows = np.bincount(column)
        kept = rows >= SMALLEST_GROUP
        if kept.any():
            gap = _summed(column * BINS + bins, len(rows) * BINS, residuals).reshape(len(rows), BINS, -1)[kept]
            count = np.maximum(_summed(column, len(rows), weights)[kept], 1.0)
            worst = np.maximum(worst, (np.abs(gap).sum(axis=1) / count).max(axis=0))
    return worst


def _summed(code: NDArray[np.int64], size: int, values: Array) -> Array:
    """Return the sums of rows with the same code."""
    rows = np.arange(len(code))
    return np.asarray(csr_array((np.ones(len(code)), (code, rows)), shape=(size, len(code))) @ values)


def swap_errors(p: Array, y: Array, scene: Scene) -> dict[str, float]:
    """Return SMCal_1, SMCal_2 and SOmni per row, and the means of the first two if p were the truth."""
    level, v, n = _levels(p)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(level[order]) > 0])
    X = scene.contexts[order]
    rng = np.random.default_rng(scene.seed)

    def statistics(labels: Array) -> tuple[Array, Array]:
        residual = (labels - p)[order]
        return np.add.reduceat(residual, starts), np.add.reduceat(residual[:, None] * X, starts, axis=0)

    A, g = statistics(y)
    draws = [statistics((rng.random(len(p)) < p).astype(float))[1] for _ in range(NULL_DRAWS)]
    rows = len(p)
    return {
        "SMCal_1": errors.smcal_linear(n, g, 1) / rows,
        "SMCal_1 null": float(np.mean([errors.smcal_linear(n, d, 1) for d in draws])) / rows,
        "SMCal_2": errors.smcal_linear(n, g, 2) / rows,
        "SMCal_2 null": float(np.mean([errors.smcal_linear(n, d, 2) for d in draws])) / rows,
        "SOmni": errors.somni(v, A, g).total / rows,
    }


def _levels(p: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Return each row's level, and the levels' values and sizes: distinct predictions, or 51 bins if more than 256."""
    distinct, code = np.unique(p, return_inverse=True)
    if len(distinct) > 256:
        _, code = np.unique(np.minimum((p * 51).astype(int), 50), return_inverse=True)
    n = np.bincount(code).astype(float)
    return code, np.bincount(code, p) / n, n
