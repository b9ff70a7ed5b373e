"""Constancy: stretches of time in which every outcome is the same, for too long to be chance.

Such a stretch is nearly always a flaw of the file: outcomes not yet known entered as 0, or rows kept only when the
outcome had happened.
"""

from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array
from swapcal.audit.timeline import Timeline
from swapcal.kernels import tally as kernel

LEAST_ROWS = 20
LEAST_SHARE = 0.005
"""Shorter stretches than these hardly move any figure, and outcomes that follow one another are often alike."""

LOG_CHANCE = float(np.log(1e-6))
"""A stretch is reported if its probability, times the number of places where it could begin, is below this."""


class Stretch(NamedTuple):
    """A stretch of constant outcome: first and last time as text, its rows, and the rates around it.

    `usual` is the rate of all other rows, None if there are none.
    """

    first: str
    last: str
    outcome: int
    rows: int
    predicted: float
    usual: float | None


def stretches(timeline: Timeline) -> list[Stretch]:
    """Return the stretches of constant outcome that neither the predictions nor the usual rate explain, in order."""
    sums = timeline.table.sum(axis=1)
    used = np.flatnonzero(sums[:, kernel.MASS] > 0)
    kinds = [_constant(sums[i]) for i in used]
    found = []
    for kind, run in groupby(range(len(used)), key=kinds.__getitem__):
        bins = used[list(run)]
        if kind is not None:
            stretch = _stretch(timeline, sums, bins, kind)
            if _too_long(stretch, int(sums[:, kernel.ROWS].sum())):
                found.append(stretch)
    return found


def _constant(sums: Array) -> int | None:
    mass, ones = sums[kernel.MASS], sums[kernel.OBSERVED]
    return 0 if ones <= 1e-12 * mass else 1 if ones >= (1.0 - 1e-12) * mass else None


def _stretch(timeline: Timeline, sums: Array, bins: NDArray[np.intp], outcome: int) -> Stretch:
    inside = sums[bins].sum(axis=0)
    outside = sums.sum(axis=0) - inside
    return Stretch(
        timeline.written(float(timeline.first[bins[0]])),
        timeline.written(float(timeline.last[bins[-1]])),
        outcome,
        int(inside[kernel.ROWS]),
        float(inside[kernel.PREDICTED] / inside[kernel.MASS]),
        float(outside[kernel.OBSERVED] / outside[kernel.MASS]) if outside[kernel.ROWS] >= 1 else None,
    )


def _too_long(stretch: Stretch, rows: int) -> bool:
    """Tell whether the stretch is unlikely by both rates; by concavity n log(mean p) is never below Σ log p."""
    if stretch.rows < max(LEAST_ROWS, LEAST_SHARE * rows):
        return False
    rates = [stretch.predicted, *([] if stretch.usual is None else [stretch.usual])]
    likely = max(rate if stretch.outcome else 1.0 - rate for rate in rates)
    return bool(stretch.rows * np.log(max(likely, 1e-300)) + np.log(rows) < LOG_CHANCE)
