"""Threads: the same work on stretches of rows, side by side."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from swapcal.arrays import Array
from swapcal.features.frozen import Coded

FEWEST_ROWS = 2048
"""Below this a thread costs more than it saves."""


def in_threads(
    work: Callable[[Coded, Array | None], Array], rows: Coded, scores: Array | None, jobs: int
) -> list[Array]:
    """Return `work` of consecutive stretches of the rows and their scores; a row's result depends on the row alone."""
    jobs = max(1, min(jobs, len(rows.Z) // FEWEST_ROWS))
    if jobs == 1:
        return [work(rows, scores)]
    edges = np.linspace(0, len(rows.Z), jobs + 1).astype(int)
    with ThreadPoolExecutor(jobs) as pool:
        parts = [
            pool.submit(work, rows.take(slice(a, b)), None if scores is None else scores[a:b])
            for a, b in pairwise(edges)
        ]
        return [part.result() for part in parts]
