"""`Batch`: events that are asked for at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swapcal.arrays import Array
from swapcal.live.ids import Id
from swapcal.live.moments import Moments
from swapcal.live.rows import Rows
from swapcal.live.watching import Values


@dataclass
class Batch:
    """Encoded rows, and what else is known of the events."""

    rows: Rows
    y: Array
    """labels, NaN where there is none"""
    names: "list[Id] | None"
    moments: Moments
    records: "list[Mapping[str, Any]] | None" = None
    """as outside models want them; None if there are no models"""
    seen: "list[Values] | None" = None
    """what the monitor is to know of them"""
    marks: "list[int] | None" = None
    """the records' fingerprints"""

    def cut(self, a: int, b: int) -> "Batch":
        """Return some of the events."""
        if (a, b) == (0, len(self.y)):
            return self
        lists: list[Any] = [self.names, self.records, self.seen, self.marks]
        names, *others = (None if each is None else each[a:b] for each in lists)
        return Batch(self.rows.cut(a, b), self.y[a:b], names, self.moments.some(slice(a, b)), *others)
