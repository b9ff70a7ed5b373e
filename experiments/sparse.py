"""Many groups: `Forecaster.sparse` beside ridge where both fit, and where ridge does not.

    python experiments/sparse.py [--large]

Streams are made. Errors are exact PSMCal_2 over the groups of the stream, from the issued distributions: by group and
level for both forecasters. Seconds are of one core.
"""

import resource
import sys
import time
from typing import Any

import numpy as np
import pandas as pd

from swapcal import Forecaster, Live
from swapcal.arrays import Array


def group_errors(found: Any, X: Array, y: Array) -> tuple[float, float]:
    """Return (PSMCal_2, Σ_v max_g A²/n) over everyone and the values of each column."""
    levels, at = np.unique(np.concatenate([found.low, found.high]), return_inverse=True)
    alpha = np.concatenate([1 - found.weight, found.weight])
    gap, both = alpha * (np.concatenate([y, y]) - levels[at]), np.vstack([X, X])
    total = np.bincount(at, alpha, len(levels))
    largest, saved = np.abs(np.bincount(at, gap, len(levels))), np.zeros(len(levels))
    for column in (np.zeros(len(at), int), *both.T):
        cell, inverse = np.unique(at * (column.max() + 1) + column, return_inverse=True)
        A, n = np.bincount(inverse, gap), np.bincount(inverse, alpha)
        level = cell // (column.max() + 1)
        np.maximum.at(largest, level, np.abs(A))
        np.maximum.at(saved, level, np.divide(A**2, n, out=np.zeros(len(A)), where=n > 1e-9))
    return float(np.sum(np.divide(largest**2, total, out=np.zeros(len(total)), where=total > 0))), float(saved.sum())


def stream(rows: int, values: int, columns: int, seed: int, even: bool = False) -> tuple[Array, Array, Array, Array]:
    """Return values, outcomes, chances and a score that knows half of it; one value in fifty has its own rate."""
    rng = np.random.default_rng(seed)
    size = rows, columns
    X = rng.integers(0, values, size) if even else np.minimum(rng.pareto(0.6, size).astype(np.int64), values - 1)
    shift = np.where(rng.random((columns, values)) < 0.02, rng.choice([-0.15, 0.15], (columns, values)), 0.0)
    shift[:, :3] = rng.choice([-0.1, 0.1], (columns, 3))
    base = rng.beta(2, 5, rows)
    chance = np.clip(base + sum(shift[j, X[:, j]] for j in range(columns)), 0.01, 0.99)
    return X, (rng.random(rows) < chance).astype(float), chance, base[:, None]


def encoded(X: Array, score: Array, values: int) -> Array:
    """Return contexts with a coordinate for each value and one for the score."""
    rows, columns = X.shape
    out = np.zeros((rows, 2 + columns * values))
    out[:, 0], out[:, 1] = 0.5, 0.5 * (2 * score[:, 0] - 1)
    for j in range(columns):
        out[np.arange(rows), 2 + j * values + X[:, j]] = np.sqrt(0.5 / columns)
    return out


def timed(run: Any) -> tuple[Any, float]:
    start = time.process_time()
    return run(), time.process_time() - start


def row(name: str, found: Any, X: Array, y: Array, chance: Array, seconds: float, proof: Any) -> None:
    small, large = group_errors(found, X, y)
    excess = np.mean((found.mean - chance) ** 2)
    numbers = f"{small:.1f} | {large:.1f} | {excess:.5f} | {proof.bound:,.0f} | {proof.theorem:,.0f}"
    print(f"| {name} | {numbers} | {len(y) / seconds:,.0f} |", flush=True)


def beside_ridge(values: int, rows: int, columns: int = 2) -> None:
    X, y, chance, score = stream(rows, values, columns, 0)
    print(f"\n{columns * values:,} groups, {rows:,} rows\n")
    print("| forecaster | PSMCal_2 | best group a level | (mean - chance)² | bound | theorem | rows/s |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for scores in (0, 1):
        sparse = Forecaster.sparse(columns, scores=scores, levels=16)
        sparse.predict(X[0], **({"scores": score[0]} if scores else {}))
        given = {"scores": score} if scores else {}
        found, seconds = timed(lambda sparse=sparse, given=given: sparse.run(X, y, **given))
        row(f"sparse, {'score and groups' if scores else 'groups'}", found, X, y, chance, seconds, sparse.certificate())
    C = encoded(X, score, values)
    ridge = Forecaster(C.shape[1], levels=16)
    found, seconds = timed(lambda: ridge.run(C, y))
    row("ridge, score and groups", found, X, y, chance, seconds, ridge.certificate())


def beyond_ridge(rows: int, values: int = 10_000, columns: int = 10) -> None:
    print(f"\n{columns * values:,} groups, {columns} a row, {rows:,} rows\n")
    for kind, scores in (("skewed", 1), ("even", 0), ("even", 1)):
        X, y, chance, score = stream(rows, values, columns, 1, kind == "even")
        sparse = Forecaster.sparse(columns, scores=scores)
        given = {"scores": score} if scores else {}
        sparse.predict(X[0], **({"scores": score[0]} if scores else {}))
        found, seconds = timed(lambda sparse=sparse, given=given, X=X, y=y: sparse.run(X, y, **given))
        proof = sparse.certificate()
        assert proof.holds()
        print(
            f"{kind}, {scores} score: {rows / seconds:,.0f} rows/s, {sparse.groups:,} groups, {proof.cells:,} cells, "
            f"{sparse.nbytes / 1e6:.0f} MB (process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f}), "
            f"PSMCal_2 {proof.psmcal_2:.1f}, psreg {proof.psreg:.1f}, bound {proof.bound:.1f}, "
            f"theorem {proof.theorem:.1f}, (mean - chance)² {np.mean((found.mean - chance) ** 2):.5f}",
            flush=True,
        )


def through_live(rows: int, even: bool, values: int = 50_000) -> None:
    """Forecast records with two columns of so many values each, and a score, by `Live` with either learner."""
    X, y, chance, score = stream(rows, values, 2, 2, even)
    names = {f"column {j}": [f"v{v}" for v in column] for j, column in enumerate(X.T.tolist())}
    frame = pd.DataFrame({**names, "score": score[:, 0]})
    print(f"\nrecords, {2 * values:,} possible values in two columns, {rows:,} rows\n")
    for learner in ("sparse", "ridge"):
        live = Live(learner=learner, groups=list(names), scores=["score"])
        live.run(frame[:1000], y[:1000])  # compiles, if need be
        found, seconds = timed(lambda live=live: live.run(frame[1000:], y[1000:]))
        small, large = group_errors(found, X[1000:], y[1000:])
        proof, error = live.certificate(), np.mean((found.mean - chance[1000:]) ** 2)
        print(
            f"{learner}: {(rows - 1000) / seconds:,.0f} rows/s, PSMCal_2 {small:.1f}, best group a level {large:.1f}, "
            f"bound {proof.bound:,.0f}, theorem {proof.theorem:,.0f}, "
            f"(mean - chance)² {error:.5f}, {getattr(proof, 'groups', 0):,} groups",
            flush=True,
        )


if __name__ == "__main__":
    for values, rows in ((100, 20_000), (500, 20_000)):
        beside_ridge(values, rows)
    beyond_ridge(1_000_000 if "--large" in sys.argv else 300_000)
    for even in (True, False):
        through_live(100_000, even)
    if "--large" in sys.argv:
        beyond_ridge(1_000_000, 100_000)
