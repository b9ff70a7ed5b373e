"""Thinned: of many rows a random sample that is the same whatever the pieces they come in."""

from dataclasses import replace

import numpy as np

from swapcal.arrays import Integers, Keys
from swapcal.cli.stream_table import StreamTable
from swapcal.kernels.draw import row_marks
from swapcal.tables.values import text_key


class Thinned:
    """At most so many rows: all, or those whose numbers have the smallest hashes, in their order."""

    def __init__(self, most: int, seed: int) -> None:
        self.seen = 0
        self._most, self._salt = most, np.array([text_key("sample", str(seed))], np.uint64)
        self._kept: list[tuple[StreamTable, Keys]] = []
        self._bound = np.uint64(2**64 - 1)

    def add(self, stream: StreamTable) -> None:
        """Add rows."""
        self.seen += len(stream.y)
        self._keep(stream, self._marks(stream.rows))
        if sum(len(marks) for _, marks in self._kept) > 2 * self._most:
            self._prune()

    def rows(self) -> StreamTable:
        """Return the rows that are kept."""
        if self.seen > self._most:
            self._prune()
        first, *others = (stream for stream, _ in self._kept)
        return replace(first, shown={}).joined(*others)

    def _marks(self, rows: Integers) -> Keys:
        nothing = np.zeros(1, np.uint64)
        return row_marks(rows.astype(np.float64)[:, None], self._salt, np.zeros((len(rows), 1), np.uint64), nothing)

    def _keep(self, stream: StreamTable, marks: Keys) -> None:
        some = marks <= self._bound
        if some.any():
            whole = bool(some.all())
            self._kept.append((stream if whole else stream.where(some), marks if whole else marks[some]))

    def _prune(self) -> None:
        every = np.concatenate([marks for _, marks in self._kept])
        if len(every) > self._most:
            self._bound = np.partition(every, self._most - 1)[self._most - 1]
        kept, self._kept = self._kept, []
        for stream, marks in kept:
            self._keep(stream, marks)
