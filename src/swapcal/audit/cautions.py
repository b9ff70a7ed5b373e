"""Cautions: what a reader must know before trusting the figures.

A stretch of time in which every outcome is the same, for too long to be chance, is nearly always a flaw of the file:
outcomes not yet known entered as 0, or rows kept only when the outcome had happened.
"""

from itertools import groupby
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Places
from swapcal.audit.sums import Sums
from swapcal.audit.timeline import Timeline
from swapcal.audit.words import points
from swapcal.kernels import tally as kernel

LEAST_ROWS = 20
LEAST_SHARE = 0.005
"""Shorter stretches than these hardly move any figure, and outcomes that follow one another are often alike."""

LOG_CHANCE = float(np.log(1e-6))
"""A stretch is reported if its probability, times the number of places where it could begin, is below this."""

LARGE_PART = 0.2
"""A tolerance above this part of the rate of the rarer outcome calls large errors small."""


class Standstill(NamedTuple):
    """A stretch of constant outcome: first and last time as text, its rows, and the rates around it.

    `usual` is the rate of all other rows, None if there are none.
    """

    first: str
    last: str
    outcome: int
    rows: int
    predicted: float
    usual: float | None


def cautions(sums: Sums, tolerated: float) -> tuple[str, ...]:
    """Return the warnings that belong beside the verdict, the gravest first; `tolerated` errors were called small."""
    found = [] if sums.timeline is None else [constant(one, sums.rows) for one in stretches(sums.timeline)]
    impossible = sums.histogram.impossible
    if impossible:
        rows = "1 row was" if impossible == 1 else f"{impossible:,} rows were"
        found.append(f"{rows} given probability 0 for what then happened: no chance explains that.")
    table = sums.tally.table.sum(axis=0)
    rate = float(table[kernel.OBSERVED] / table[kernel.MASS])
    if tolerated > LARGE_PART * min(rate, 1.0 - rate):
        found.append(
            f"Outcomes happen in {100 * rate:.2g} % of the rows, so that errors within the tolerance of "
            f"{points(tolerated)} can be large beside the rate itself; a smaller tolerance would tell."
        )
    return tuple(found)


def constant(stretch: Standstill, rows: int) -> str:
    """Say that outcomes stood still.

    Examples
    --------
    >>> constant(Standstill("2014-04-02", "2014-12-31", 1, 868, 0.47, 0.37), 6172).split(":")[0]
    'From 2014-04-02 to 2014-12-31 all 868 outcomes are 1, where 47.0 % were predicted and 37.0 % are usual'
    """
    if stretch.rows == rows:
        return (
            f"Every outcome is {stretch.outcome}, where {100 * stretch.predicted:.1f} % were predicted. "
            "Check how the outcomes were recorded."
        )
    usual = "" if stretch.usual is None else f" and {100 * stretch.usual:.1f} % are usual"
    return (
        f"From {stretch.first} to {stretch.last} all {stretch.rows:,} outcomes are {stretch.outcome}, where "
        f"{100 * stretch.predicted:.1f} % were predicted{usual}: too many in a row for chance. Check how these "
        "outcomes were recorded; every figure here includes them, so audit again without them."
    )


def stretches(timeline: Timeline) -> list[Standstill]:
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


def _stretch(timeline: Timeline, sums: Array, bins: Places, outcome: int) -> Standstill:
    inside = sums[bins].sum(axis=0)
    outside = sums.sum(axis=0) - inside
    return Standstill(
        timeline.written(float(timeline.first[bins[0]])),
        timeline.written(float(timeline.last[bins[-1]])),
        outcome,
        int(inside[kernel.ROWS]),
        float(inside[kernel.PREDICTED] / inside[kernel.MASS]),
        float(outside[kernel.OBSERVED] / outside[kernel.MASS]) if outside[kernel.ROWS] >= 1 else None,
    )


def _too_long(stretch: Standstill, rows: int) -> bool:
    """Tell whether the stretch is unlikely by both rates; by concavity n log(mean p) is never below Σ log p."""
    if stretch.rows < max(LEAST_ROWS, LEAST_SHARE * rows):
        return False
    rates = [stretch.predicted, *([] if stretch.usual is None else [stretch.usual])]
    likely = max(rate if stretch.outcome else 1.0 - rate for rate in rates)
    return bool(stretch.rows * np.log(max(likely, 1e-300)) + np.log(rows) < LOG_CHANCE)
