"""The curves of the report: predicted beside observed, over levels, along a score, over time."""

import numpy as np
from scipy.special import ndtri

from swapcal.arrays import Array, Index
from swapcal.audit.levels import equal_part
from swapcal.audit.sample import KeptRows
from swapcal.audit.timeline import Timeline
from swapcal.kernels import tally as kernel
from swapcal.report.schema import CurvePoint, Level, Period

MOST_POINTS = 12
SCORE_BINS = 8
PERIOD_DRAWS = 2000
CROWDED = 0.8
"""Part of the rows on one level beyond which curves leave the levels."""
SPREAD_PARTS = 15
"""Parts of equal weight that take their place."""


def reliability(v: Array, table: Array) -> list[Level]:
    """Mean prediction and frequency of every level in use, with a 95 % band simultaneous over the levels."""
    used = np.flatnonzero(table[:, kernel.MASS] > 0)
    low, high = chance_band(table[used], len(used))
    return [
        {
            "v": float(v[i]),
            "n": float(table[i, kernel.MASS]),
            "mean_p": float(table[i, kernel.PREDICTED] / table[i, kernel.MASS]),
            "mean_y": float(table[i, kernel.OBSERVED] / table[i, kernel.MASS]),
            "band_low": float(low[k]),
            "band_high": float(high[k]),
        }
        for k, i in enumerate(used)
    ]


def crowded(mass: Array) -> bool:
    """Tell whether nearly all rows share one level, as where events are rare: a curve over levels then shows nothing.

    Examples
    --------
    >>> crowded(np.array([990.0, 8.0, 2.0])), crowded(np.array([5.0, 5.0]))
    (True, False)
    """
    return bool(mass.max(initial=0.0) > CROWDED * mass.sum())


def spread_out(bins: Array, heaviness: float) -> list[Level]:
    """Return the reliability curve over parts of equal weight, from a fine histogram (bins, 3) of Σα, Σαp and Σαy.

    `heaviness` is Σα²/Σα: the variance of a part is that of coins with its bins' mean predictions.
    """
    used = bins[bins[:, 0] > 0]
    mean, place = used[:, 1] / used[:, 0], _parts(used[:, 0], SPREAD_PARTS)
    sums = np.zeros((SPREAD_PARTS, kernel.SCALARS))
    columns = (kernel.MASS, kernel.PREDICTED, kernel.OBSERVED)
    for column, values in zip(columns, used.T, strict=True):
        sums[:, column] = np.bincount(place, weights=values, minlength=SPREAD_PARTS)
    variance = heaviness * used[:, 0] * mean * (1.0 - mean)
    sums[:, kernel.VARIANCE] = np.bincount(place, weights=variance, minlength=SPREAD_PARTS)
    sums = sums[sums[:, kernel.MASS] > 0]
    return reliability(sums[:, kernel.PREDICTED] / sums[:, kernel.MASS], sums)


def chance_band(sums: Array, looks: int) -> tuple[Array, Array]:
    """Where the frequency falls by chance with 95 % probability in all of `looks` places at once (Šidák)."""
    reach = ndtri(0.5 + 0.5 * 0.95 ** (1.0 / max(1, looks)))
    mass = sums[:, kernel.MASS]
    centre, spread = sums[:, kernel.PREDICTED] / mass, reach * np.sqrt(sums[:, kernel.VARIANCE]) / mass
    return np.maximum(centre - spread, 0.0), np.minimum(centre + spread, 1.0)


def curve_within(table: Array) -> list[CurvePoint]:
    """Reliability curve of one group from its scalar sums per level, adjacent levels joined where many."""
    used = table[table[:, kernel.MASS] > 0]
    if len(used) > MOST_POINTS:
        joined = np.zeros((MOST_POINTS, kernel.SCALARS))
        np.add.at(joined, _parts(used[:, kernel.MASS], MOST_POINTS), used)
        used = joined[joined[:, kernel.MASS] > 0]
    return _points(used[:, kernel.PREDICTED] / used[:, kernel.MASS], used)


def curve_along(score: Array, rows: KeptRows) -> list[CurvePoint]:
    """Prediction and frequency in bins of equal weight along a score."""
    if not len(score):
        return []
    order = np.argsort(score, kind="stable")
    bins = _parts((rows.copies * rows.weights)[order], SCORE_BINS)
    same = np.concatenate([[False], np.diff(score[order]) == 0])
    for i in np.flatnonzero(same):  # equal scores belong in one bin
        bins[i] = bins[i - 1]
    sums, scores = _binned(bins, rows.take(order), score[order])
    kept = sums[:, kernel.MASS] > 0
    return _points(scores[kept] / sums[kept, kernel.MASS], sums[kept])


def by_percentile(curve: list[CurvePoint]) -> list[CurvePoint]:
    """Place the points by the share of rows below them: for coordinates whose own unit is lost."""
    n = np.array([point["n"] for point in curve])
    middle = 100.0 * (np.cumsum(n) - 0.5 * n) / max(float(n.sum()), 1e-300)
    return [{**point, "score": float(at)} for point, at in zip(curve, middle, strict=True)]


def _parts(mass: Array, count: int) -> Index:
    """Return in which of so many parts of equal weight each of some ordered rows lies, by its middle."""
    return equal_part((np.cumsum(mass) - 0.5 * mass) / mass.sum(), count)


def _binned(bins: Index, rows: KeptRows, score: Array) -> tuple[Array, Array]:
    mass = rows.copies * rows.weights
    sums = np.zeros((SCORE_BINS, kernel.SCALARS))
    columns = {
        kernel.MASS: mass,
        kernel.PREDICTED: mass * rows.p,
        kernel.OBSERVED: mass * rows.y,
        kernel.VARIANCE: mass * rows.weights * rows.p * (1.0 - rows.p),
    }
    for column, values in columns.items():
        sums[:, column] = np.bincount(bins, weights=values, minlength=SCORE_BINS)
    return sums, np.bincount(bins, weights=mass * score, minlength=SCORE_BINS).astype(np.float64)


def _points(score: Array, sums: Array) -> list[CurvePoint]:
    low, high = chance_band(sums, len(sums))
    return [
        {
            "score": float(score[i]),
            "mean_p": float(sums[i, kernel.PREDICTED] / sums[i, kernel.MASS]),
            "mean_y": float(sums[i, kernel.OBSERVED] / sums[i, kernel.MASS]),
            "n": float(sums[i, kernel.MASS]),
            "band_low": float(low[i]),
            "band_high": float(high[i]),
        }
        for i in range(len(sums))
    ]


def periods(timeline: Timeline, seed: int) -> list[Period]:
    """Calibration error over ten coarse levels in every stretch of time, with its 95 % band by chance."""
    rng = np.random.default_rng(seed)
    found: list[Period] = []
    timeline = timeline.drawn()
    for label, sums in zip(timeline.labels(), timeline.table, strict=True):
        mass = float(sums[:, kernel.MASS].sum())
        if mass <= 0:
            continue
        spread = np.sqrt(sums[:, kernel.VARIANCE])
        null = np.abs(spread * rng.standard_normal((PERIOD_DRAWS, len(spread)))).sum(axis=1) / mass
        low, high = np.quantile(null, [0.025, 0.975])
        found.append(
            {
                "label": label,
                "n": mass,
                "mean_p": float(sums[:, kernel.PREDICTED].sum() / mass),
                "mean_y": float(sums[:, kernel.OBSERVED].sum() / mass),
                "error": float(np.abs(sums[:, kernel.RESIDUAL]).sum() / mass),
                "null_low": float(low),
                "null_high": float(high),
            }
        )
    return found
