"""Threads: the same work on stretches of rows, side by side."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from swapcal.arrays import Array
from swapcal.features.frozen import Coded

FEWEST_ROWS = 2048
"""Below this a thread costs more than it saves."""
MOST_ROWS = 4096
"""Rows at a time, whose contexts stay near the processor, however many there are."""


def in_threads(
    work: Callable[[Coded, Array | None], Array], rows: Coded, scores: Array | None, jobs: int
) -> list[Array]:
    """Return `work` of consecutive stretches of the rows and their scores; a row's result depends on the row alone."""
    count = len(rows.Z)
    jobs = max(1, min(jobs, count // FEWEST_ROWS))
    edges = np.linspace(0, count, max(jobs, -(-count // MOST_ROWS)) + 1).astype(int)
    stretches = [(rows.take(slice(a, b)), None if scores is None else scores[a:b]) for a, b in pairwise(edges.tolist())]
    if jobs == 1:
        return [work(*stretch) for stretch in stretches]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda stretch: work(*stretch), stretches))
