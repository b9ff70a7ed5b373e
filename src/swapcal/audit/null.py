"""The noise floor: what every error would be if the predictions were the truth."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import ndtri

from swapcal._display import display
from swapcal.arrays import Array, Index
from swapcal.audit.levels import Levels
from swapcal.audit.measures import Cells, FixedDesign, Measure, Residuals
from swapcal.audit.sums import KeptRows, Tally, category_codes

CHUNK_ENTRIES = 1 << 22
"""Numbers held at a time while simulating."""

POWER = 0.8
"""Power at which the minimum detectable error is stated."""


class Noise(NamedTuple):
    """An observed value with its distribution under "the predictions are the truth".

    `detectable` is the smallest true value that a 5 % test on data like these detects with probability 80 %: the 95 %
    quantile plus 0.84 standard deviations of the null.
    """

    value: float
    mean: float
    low: float
    high: float
    quantile95: float
    p_value: float
    detectable: float
    draws: int

    def __repr__(self) -> str:
        return f"Noise({self._beside()})"

    def _beside(self) -> str:
        band = f"{self.low:.4g} to {self.high:.4g}"
        return f"{self.value:.4g}, by chance {self.mean:.4g} (95 % from {band}), p = {self.p_value:.2g}"

    def _repr_html_(self) -> str:
        return display("Beside chance", self._beside(), {"simulated": f"{self.draws:,} times"})


def compare(value: float, null: Array) -> Noise:
    """Place a value in its simulated null distribution; the p-value counts the value itself as one draw.

    Examples
    --------
    >>> compare(10.0, np.arange(1.0, 20.0)).p_value
    0.55
    """
    low, q95, high = np.quantile(null, [0.025, 0.95, 0.975])
    slack = 1e-12 * max(abs(value), float(np.abs(null).max()))  # rounding must not break ties
    reached = int(np.sum(null >= value - slack))
    detectable = q95 + ndtri(POWER) * null.std()
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


def signed(design: FixedDesign, tally: Tally) -> Residuals:
    """Return the residual sums of all draws in which clusters keep or change their sign as a whole."""
    g, S = tally.signed()
    return Residuals(g, S if design.parts else S[:, :, :0])


def flipped_clusters(
    measures: Mapping[str, Measure], draws: int, design: FixedDesign, tally: Tally
) -> dict[str, Array]:
    """Return each measure's value on every draw of the clusters' signs, at most `draws` of them."""
    every = signed(design, tally)
    size = max(1, CHUNK_ENTRIES // max(1, every.g[0].size + every.S[0].size))
    drawn: dict[str, list[Array]] = {name: [] for name in measures}
    for start in range(0, min(draws, len(every.g)), size):
        part = slice(start, min(start + size, draws))
        some = Residuals(np.ascontiguousarray(every.g[part]), np.ascontiguousarray(every.S[part]))
        for name, measure in measures.items():
            drawn[name].append(measure(design, some))
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


def simulate(
    design: FixedDesign, measures: Mapping[str, Measure], draws: int, seed: int, rows: KeptRows | None, levels: Levels
) -> dict[str, Array]:
    """Return each measure's value on every draw.

    With `rows` (all the data) outcomes are redrawn row by row: y* ~ Ber(p) or, in levels with fractional outcomes,
    y* − p = ±(y − p). Without, residual sums are drawn: binomial for every group of the column with most groups,
    which also gives each level's total; given that, Gaussian with covariance H_v for the contexts, and binomial,
    shifted to the total, for the groups of other columns. Columns are in truth at least as dependent as that, which
    makes the simulated maxima if anything too large and the test conservative.
    """
    drawn: dict[str, list[Array]] = {name: [] for name in measures}
    rng = np.random.default_rng(seed)
    source = _summed(design, draws, rng) if rows is None else _redrawn(design, draws, rng, rows, levels)
    for residuals in source:
        for name, measure in measures.items():
            drawn[name].append(measure(design, residuals))
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


def describe(design: FixedDesign, by_row: bool, draws: int = 0) -> str:
    """Return how the null is simulated, in words; `draws` is the number of draws of the signs of clusters."""
    if draws:
        return f"signs of whole clusters flipped, {draws} times"
    coins = "outcomes redrawn row by row" if by_row else "residual sums redrawn, binomial for groups, else Gaussian"
    flips = "signs of residuals flipped" if by_row else "spread as observed"
    count = int(design.fractional.sum())
    if not count:
        return coins
    where = "all levels" if count == int((design.n > 0).sum()) else f"{count} level{'s' if count > 1 else ''}"
    return f"{coins}; {flips} in {where} with outcomes between 0 and 1"


def _chunks(draws: int, entries: int) -> Iterator[int]:
    size = max(1, CHUNK_ENTRIES // max(1, entries))
    for start in range(0, draws, size):
        yield min(size, draws - start)


def _summed(design: FixedDesign, draws: int, rng: np.random.Generator) -> Iterator[Residuals]:
    slope, root = _given_total(design)
    groups, whole = design.groups.thresholds(), design.whole.thresholds()
    levels, d = slope.shape
    for size in _chunks(draws, levels * (2 * d + 2 * design.group_variance.shape[1])):
        S = design.groups.draw(size, rng, groups)
        total = _share_total(design, S, rng) if design.parts else design.whole.draw(size, rng, whole)
        g = slope * total[:, :, None]
        if d > 1:
            z = _liveliness(design.whole, total)[:, :, None] * rng.standard_normal((size, levels, d))
            g += np.matmul(root[None], z[..., None])[..., 0] if d > 64 else np.einsum("lde,ble->bld", root, z)
        yield Residuals(g, S)


def _given_total(design: FixedDesign) -> tuple[Array, Array]:
    """Return the regression of g on each level's total, (L, d), and a root of the covariance left, (L, d, d)."""
    first = design.H[:, :, 0]
    constant = first[:, :1]
    slope = first / np.where(constant > 0, constant, 1.0)
    slope[:, 0] = 1.0
    left = design.H - slope[:, :, None] * first[:, None, :]
    values, V = np.linalg.eigh(design.spread[:, None, None] * left)
    root = V * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    root[:, 0] = 0.0
    return 0.5 * slope, root


def _liveliness(whole: Cells, total: Array) -> Array:
    """Return the variance of contexts given a level's total (B, L), relative to its average.

    Given the total, only which k of m rows had the event is random: a variance of k(m − k)/(m − 1), 0 for k = 0 or m.
    For one row it is 0; many rows that together weigh like one have more than their total determines.
    """
    m, p = whole.tosses, whole.chance
    usual = (m - 1.0) * p * (1.0 - p)
    known = (usual > 0) & (whole.jump > 0)
    events = p + total / np.where(known, m * whole.jump, 1.0)
    variance = np.clip(events * (1.0 - events), 0.0, 0.25) * m / np.where(known, usual, 1.0)
    return np.sqrt(np.where(known, variance, 1.0))


def _share_total(design: FixedDesign, S: Array, rng: np.random.Generator) -> Array:
    """Return each level's total (B, L) by the column with most parts; shift the others' sums to it, in place.

    Where a query suppressed cells, a column's parts lack some of a level's variance, which is drawn separately.
    """
    finest = max(design.parts, key=lambda where: where.stop - where.start)
    level = 4.0 * design.spread * design.H[:, 0, 0]
    total = np.zeros(S.shape[:2])
    for where in sorted(design.parts, key=lambda where: where != finest):
        variance = design.group_variance[:, where]
        lacking = level - design.spread * variance.sum(axis=1)
        lacking[lacking <= 1e-6 * level] = 0.0
        inside: Array = S[:, :, where].sum(axis=2)
        if lacking.any():
            inside += np.sqrt(lacking) * rng.standard_normal(inside.shape)
        if where == finest:
            total = inside
            continue
        share = variance / np.maximum(variance.sum(axis=1) + lacking / design.spread, 1e-300)[:, None]
        S[:, :, where] += share * (total - inside)[:, :, None]
    return total


def _redrawn(
    design: FixedDesign, draws: int, rng: np.random.Generator, rows: KeptRows, levels: Levels
) -> Iterator[Residuals]:
    level = levels.index(rows.p)
    rows = rows.take(np.argsort(level, kind="stable"))
    level = np.sort(level)
    ends = np.searchsorted(level, np.arange(len(design.n) + 1))
    member = _members(design, rows, level)
    flipped = _flipped(design, rows, level)
    for size in _chunks(draws, len(level) + design.H[:, 0].size + member.shape[0]):
        residual = _residuals(size, rng, rows, flipped)
        g = np.zeros((size, *design.H.shape[:2]))
        for v, (start, stop) in enumerate(pairwise(ends)):
            if stop > start:
                g[:, v] = residual[:, start:stop] @ rows.X[start:stop]
        S = np.asarray((member @ residual.T).T).reshape(size, *design.group_variance.shape)
        yield Residuals(g, S)


def _residuals(size: int, rng: np.random.Generator, rows: KeptRows, flipped: Array) -> Array:
    """Redraw α(y − p) of every row: a coin's where `flipped` (rows,) is not a number, else ± that."""
    copies = rows.copies.astype(np.int64)
    coin = np.isnan(flipped)
    chance = np.where(coin, rows.p, 0.5)
    step = np.where(coin, rows.weights, 2.0 * flipped)
    if (copies == 1).all():
        ones: Array = (rng.random((size, len(copies))) < chance).astype(np.float64)
    else:
        ones = rng.binomial(copies, chance, size=(size, len(copies))).astype(np.float64)
    return (ones - copies * chance) * step


def _flipped(design: FixedDesign, rows: KeptRows, level: Index) -> Array:
    """Return the residual α(y − p) of rows whose sign is to be flipped, not a number for coins.

    Where a level's squared residuals add up to more than outcomes with mean p allow, they are scaled down to that.
    Predictions of exactly 0 or 1 have no variance: they stay coins.
    """
    residual = rows.weights * (rows.y - rows.p)
    observed = np.bincount(level, weights=rows.copies * residual**2, minlength=len(design.n))
    allowed = 4.0 * design.spread * design.H[:, 0, 0]
    factor = np.sqrt(np.minimum(allowed / np.where(observed > 0, observed, 1.0), 1.0))
    uncertain = design.fractional[level] & (rows.p > 0) & (rows.p < 1)
    return np.where(uncertain, factor[level] * residual, np.nan)


def _members(design: FixedDesign, rows: KeptRows, level: Index) -> csr_matrix:
    """Sparse (L·K, rows) indicator of level and group or bin."""
    total = design.group_variance.shape[1]
    places, who = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for name, categories, where in design.columns:
        code = category_codes(categories, rows.labels[name])
        places.append(level.astype(np.int64) * total + where.start + code)
        who.append(np.arange(len(level)))
    for j, bins in enumerate(design.numbers):
        places.append(level.astype(np.int64) * total + bins.where.start + rows.bins[:, j])
        who.append(np.arange(len(level)))
    ones = np.ones(sum(map(len, who)))
    shape = (len(design.n) * total, len(level))
    return csr_matrix((ones, (np.concatenate(places), np.concatenate(who))), shape=shape)
