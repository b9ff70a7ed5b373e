"""Sums: everything an audit keeps of its rows, additive."""

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from swapcal.audit.batch import Batch
from swapcal.audit.crossing import Pair, cross, crossings
from swapcal.audit.encoder import Coordinate, Encoder
from swapcal.audit.histogram import Histogram
from swapcal.audit.levels import Levels
from swapcal.audit.reader import Reader
from swapcal.audit.sample import KeptRows, Sample
from swapcal.audit.tally import Tally
from swapcal.audit.timeline import Timeline
from swapcal.kernels import tally as kernel
from swapcal.tables.batches import batches_of
from swapcal.tables.table import Table


@dataclass
class Sums:
    """Sums over rows: per level and group, in fine bins, per time; a sample of rows; and what their columns mean.

    `issued` holds the per-level sums with the issued probabilities as weights, None if none were given.
    """

    coordinates: tuple[Coordinate, ...]
    reader: Reader | None
    tally: Tally
    issued: Tally | None
    sample: Sample
    histogram: Histogram
    timeline: Timeline | None

    @classmethod
    def of(cls, batch: Batch, coordinates: tuple[Coordinate, ...], levels: Levels, reader: Reader | None) -> Self:
        """Start with a first batch."""
        if not len(batch):
            raise ValueError("rows: given none, expected at least one")
        d = batch.X.shape[1]
        sums = cls(
            coordinates,
            reader,
            Tally(levels, d),
            Tally(levels, d) if batch.pseudo is not None else None,
            Sample(d),
            Histogram(),
            Timeline() if batch.time is not None else None,
        )
        sums._absorb(batch)
        return sums

    @classmethod
    def of_frame(
        cls, frame: Any, reader: Reader, encoder: Encoder | None, levels: Levels, pairs: Sequence[Pair]
    ) -> Self:
        """Read a table, or batches of one; encoded by the scales of all rows where they can be read twice."""
        many = batches_of(frame)
        if encoder is None and many is not None and many.again:
            encoder = reader.scaled(map(Table, many))
        sums: Self | None = None
        for table in map(Table, [frame] if many is None else many):
            if sums is not None:
                sums.add(reader.read(table))
                continue
            reader = reader.learn(table) if encoder is None else reader.like(encoder)
            assert reader.encoder is not None
            sums = cls.of(cross(reader.read(table), pairs), tuple(reader.encoder.coordinates), levels, reader)
        if sums is None:
            raise ValueError("rows: given none, expected at least one")
        return sums

    def crossed(self, batch: Batch) -> Batch:
        """Return a batch with the intersections of its group columns that are examined here."""
        return cross(batch, [pair for pair in crossings(self.tally.groups) if {*pair} <= {*batch.groups}])

    def add(self, batch: Batch) -> None:
        """Add a batch like the first; another leaves the sums as they were."""
        batch = self.crossed(batch)
        self._check_like(batch)
        if len(batch):
            self._absorb(batch)

    def _check_like(self, batch: Batch) -> None:
        d = len(self.coordinates)
        if batch.X.shape[1] != d:
            raise ValueError(f"X: given {batch.X.shape[1]} columns, expected {d} like the rows before")
        dated = batch.dated if len(batch) else None
        self._check_fit(batch.groups, batch.time, batch.pseudo, dated, "the rows before")

    def _check_fit(self, groups: Collection[str], time: object, issued: object, dated: bool | None, like: str) -> None:
        """Refuse other groups, and times or issued distributions where there are none, or none where there are."""
        if set(groups) != set(self.tally.groups):
            raise ValueError(f"groups: given {sorted(groups)}, expected {sorted(self.tally.groups)} like {like}")
        for name, theirs, mine in (("time", time, self.timeline), ("issued distribution", issued, self.issued)):
            if (theirs is None) != (mine is None):
                raise ValueError(f"{name}: given {_some(theirs)}, expected {_some(mine)} like {like}")
        if self.timeline is not None and dated is not None and dated != self.timeline.dated:
            raise ValueError(f"time: given {_times(dated)}, expected {_times(self.timeline.dated)} like {like}")

    def _absorb(self, batch: Batch) -> None:
        groups = {name: batch.groups[name] for name in self.tally.groups or batch.groups}
        self.tally.add(batch.p, batch.y, batch.weights, batch.X, groups)
        self.sample.add(batch)
        self.histogram.add(batch.p, batch.y, batch.weights)
        if self.timeline is not None and batch.time is not None:
            self.timeline.add(batch.time, batch.dated, batch.p, batch.y, batch.weights)
        if self.issued is not None and batch.pseudo is not None:
            for level, share in (
                (batch.pseudo.low, 1.0 - batch.pseudo.weight),
                (batch.pseudo.high, batch.pseudo.weight),
            ):
                some = share > 0
                self.issued.add(level[some], batch.y[some], (share * batch.weights)[some], batch.X[some], {})

    def widen(self, coordinates: tuple[Coordinate, ...]) -> None:
        """Make room for coordinates that appeared later, 0 in all rows so far; the first must be those there are."""
        more = len(coordinates) - len(self.coordinates)
        if coordinates[: len(self.coordinates)] != self.coordinates:
            raise ValueError("contexts: given different ones, expected those so far and perhaps some more")
        if not more:
            return
        self.coordinates = coordinates
        for tally in (self.tally, self.issued):
            if tally is not None:
                tally.g = np.pad(tally.g, ((0, 0), (0, more)))
                tally.lower_G = np.pad(tally.lower_G, ((0, 0), (0, more), (0, more)))
                tally.lower_H = np.pad(tally.lower_H, ((0, 0), (0, more), (0, more)))
        self.sample.widen(more)

    def __add__(self, other: "Sums") -> "Sums":
        self._check_addable(other)
        whole = deepcopy(self)
        whole.tally += other.tally
        whole.sample.merge(other.sample)
        whole.histogram.merge(other.histogram)
        if whole.timeline is not None and other.timeline is not None:
            whole.timeline.merge(other.timeline)
        if whole.issued is not None and other.issued is not None:
            whole.issued += other.issued
        return whole

    def _check_addable(self, other: "Sums") -> None:
        if self.coordinates != other.coordinates:
            raise ValueError(
                "contexts: given different ones, expected audits over the same to be added; "
                "make the second with like=, to share the encoding"
            )
        if self.levels.edges != other.levels.edges:
            raise ValueError("levels: given different ones, expected audits with the same levels= to be added")
        dated = None if other.timeline is None else other.timeline.dated
        self._check_fit(other.tally.groups, other.timeline, other.issued, dated, "the audit it is added to")

    @property
    def n(self) -> float:
        """Total weight of the rows."""
        return float(self.tally.n.sum())

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.tally.table[:, kernel.ROWS].sum())

    @property
    def levels(self) -> Levels:
        """The levelling rule in force."""
        return self.tally.levels

    @property
    def unit(self) -> str:
        """What `n` counts."""
        return "rows" if self.n == self.rows else "units of weight"

    @property
    def weighted(self) -> Tally:
        """Per-level sums with the issued probabilities as weights; the plain ones if none were given."""
        return self.issued or self.tally

    def kept(self, levels: list[int] | None = None) -> KeptRows:
        """Return the rows of the sample, or those of them at some levels."""
        rows = self.sample.rows
        assert rows is not None
        return rows if levels is None else rows.take(np.flatnonzero(np.isin(self.levels.index(rows.p), levels)))


def _some(part: object) -> str:
    return "none" if part is None else "some"


def _times(dated: bool) -> str:
    return "dates" if dated else "numbers"
