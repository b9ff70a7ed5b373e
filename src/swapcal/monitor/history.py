"""History: evidence over time in bounded memory; when full, every other entry goes and the pace halves."""

from dataclasses import dataclass, field

import numpy as np

from swapcal.arrays import Array

ENTRIES = 64
FIRST_STRIDE = 512


@dataclass
class History:
    """Entries at multiples of `stride` rows: the clock, and two figures per group, NaN before it appeared."""

    stride: int = FIRST_STRIDE
    rows: list[int] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    figures: list[Array] = field(default_factory=list)
    """Per entry (groups, 2): log10 of the change detector's evidence and of the lifetime wealth."""

    def until_next(self, rows: int) -> int:
        """Rows from `rows` to the next entry."""
        return self.stride - rows % self.stride

    def append(self, rows: int, clock: float, figures: Array) -> None:
        """Add an entry, thinning out if there are too many."""
        self.rows.append(rows)
        self.clock.append(clock)
        self.figures.append(figures)
        if len(self.rows) == ENTRIES:
            self.stride *= 2
            kept = [i for i, row in enumerate(self.rows) if row % self.stride == 0]
            self.rows = [self.rows[i] for i in kept]
            self.clock = [self.clock[i] for i in kept]
            self.figures = [self.figures[i] for i in kept]

    def table(self, groups: int) -> Array:
        """Return (entries, groups, 2)."""
        found = np.full((len(self.rows), groups, 2), np.nan)
        for i, figures in enumerate(self.figures):
            found[i, : len(figures)] = figures
        return found
