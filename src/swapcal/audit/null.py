"""The noise floor: what every error would be if the predictions were the truth."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.stats import norm

from swapcal.audit.levels import Levels
from swapcal.audit.scene import Measure, Residuals, Scene
from swapcal.audit.sketch import Rows, hash_names

Array = NDArray[np.float64]

CHUNK_ENTRIES = 1 << 22
"""Numbers held at a time while simulating."""

POWER = 0.8
"""Power at which the minimum detectable error is stated."""


class Noise(NamedTuple):
    """An observed value beside its distribution under "the predictions are the truth".

    `detectable` is the smallest true value that a 5 % test on data like these would flag with probability
    80 %: the 95 % quantile plus 0.84 standard deviations of the null.
    """

    value: float
    mean: float
    low: float
    high: float
    quantile95: float
    p_value: float
    detectable: float
    draws: int


def compare(value: float, null: Array) -> Noise:
    """Place a value in its simulated null distribution; the p-value counts the value itself as one draw.

    Examples
    --------
    >>> compare(10.0, np.arange(1.0, 20.0)).p_value
    0.55
    """
    low, q95, high = np.quantile(null, [0.025, 0.95, 0.975])
    reached = int(np.sum(null >= value * (1 - 1e-12) - 1e-15))  # rounding must not break ties
    detectable = q95 + norm.ppf(POWER) * null.std()
    return Noise(
        float(value),
        float(null.mean()),
        float(low),
        float(high),
        float(q95),
        (1 + reached) / (1 + len(null)),
        float(detectable),
        len(null),
    )


def simulate(
    scene: Scene, measures: Mapping[str, Measure], draws: int, seed: int, rows: Rows | None, levels: Levels
) -> dict[str, Array]:
    """Return each measure's value on every draw.

    With `rows` (all the data) outcomes are redrawn row by row, y* ~ Ber(p). Without, residual sums are drawn
    from the Gaussian with the same covariance: H_v for the contexts and, given each level's total residual,
    independently for every group column. Columns are in truth at least as dependent as that, which makes
    the simulated maxima if anything too large and the test careful.
    """
    found: dict[str, list[Array]] = {name: [] for name in measures}
    rng = np.random.default_rng(seed)
    source = _gaussian(scene, draws, rng) if rows is None else _redrawn(scene, draws, rng, rows, levels)
    for residuals in source:
        for name, measure in measures.items():
            found[name].append(measure(scene, residuals))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _chunks(draws: int, entries: int) -> Iterator[int]:
    size = max(1, CHUNK_ENTRIES // max(1, entries))
    for start in range(0, draws, size):
        yield min(size, draws - start)


def _gaussian(scene: Scene, draws: int, rng: np.random.Generator) -> Iterator[Residuals]:
    values, V = np.linalg.eigh(scene.H)
    root = V * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    spread = np.sqrt(scene.group_variance)
    levels, d = scene.H.shape[:2]
    for size in _chunks(draws, levels * (2 * d + 2 * spread.shape[1])):
        z = rng.standard_normal((size, levels, d))
        g = np.matmul(root[None], z[..., None])[..., 0] if d > 64 else np.einsum("lde,ble->bld", root, z)
        S = spread * rng.standard_normal((size, *spread.shape))
        _share_total(scene, 2.0 * g[:, :, 0], S)
        yield Residuals(g, S)


def _share_total(scene: Scene, total: Array, S: Array) -> None:
    """Condition every column's sums on the level's total residual (B, L), in place."""
    for _, _, where in scene.columns:
        variance = scene.group_variance[:, where]
        share = variance / np.maximum(variance.sum(axis=1, keepdims=True), 1e-300)
        S[:, :, where] += share * (total - S[:, :, where].sum(axis=2))[:, :, None]


def _redrawn(scene: Scene, draws: int, rng: np.random.Generator, rows: Rows, levels: Levels) -> Iterator[Residuals]:
    level = levels.index(rows.p)
    rows = rows.take(np.argsort(level, kind="stable"))
    level = np.sort(level)
    ends = np.searchsorted(level, np.arange(len(scene.n) + 1))
    member = _members(scene, rows, level)
    for size in _chunks(draws, len(level) + scene.H[:, 0].size + member.shape[0]):
        residual = _residuals(size, rng, rows)
        g = np.zeros((size, *scene.H.shape[:2]))
        for v, (start, stop) in enumerate(pairwise(ends)):
            if stop > start:
                g[:, v] = residual[:, start:stop] @ rows.X[start:stop]
        S = np.asarray((member @ residual.T).T).reshape(size, *scene.group_variance.shape)
        yield Residuals(g, S)


def _residuals(size: int, rng: np.random.Generator, rows: Rows) -> Array:
    copies = rows.copies.astype(np.int64)
    if (copies == 1).all():
        ones: Array = (rng.random((size, len(copies))) < rows.p).astype(np.float64)
    else:
        ones = rng.binomial(copies, rows.p, size=(size, len(copies))).astype(np.float64)
    return (ones - copies * rows.p) * rows.weights


def _members(scene: Scene, rows: Rows, level: NDArray[np.int32]) -> csr_matrix:
    """Sparse (L·K, rows) indicator of level and group."""
    total = scene.group_variance.shape[1]
    places, who = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, found, where in scene.columns:
        hashes = hash_names(list(found))
        order = np.argsort(hashes)
        code = order[np.searchsorted(hashes[order], rows.labels[name])]
        places.append(level.astype(np.int64) * total + where.start + code)
        who.append(np.arange(len(level)))
    ones = np.ones(sum(map(len, who)))
    shape = (len(scene.n) * total, len(level))
    return csr_matrix((ones, (np.concatenate(places), np.concatenate(who))), shape=shape)
