"""`Agenda`: what is to be forecast and learned, in order, and the rows of open forecasts that it is about."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from swapcal.archive.state import State
from swapcal.arrays import Array, Integers
from swapcal.kernels.state import T_MEAN, T_P, TICKET
from swapcal.live.learned import Learned
from swapcal.live.learner import Learner, Rows
from swapcal.live.ledger import Ledger

KEPT = ("x", "dims", "keys", "values", "memory", "judged", "ticket")
SAVED = {"dims": "widths"}  # names in files, where they differ
WINDOW = 4096  # events played at once: enough to amortise calls, few enough to stay in cache


class Agenda:
    """Collects events, so that the learner can play many at once with the same result as one by one.

    Rows of open forecasts lie in a table, in the ledger's slots.
    """

    def __init__(self, learner: Learner, ledger: Ledger) -> None:
        self.learner = learner
        self.ledger = ledger
        self.table = _blank(learner, 0, 0, 0)
        self.records: dict[int, Mapping[str, Any]] = {}
        """of open forecasts, for outside models"""
        self.watcher: Callable[[Learned], None] | None = None
        self._order: list[int] = []
        self._labels: list[float] = []
        self._fresh: dict[int, None] = {}
        """slots of rows that are forecast in the events collected, in order"""
        self._batch: Rows | None = None
        self._first = 0

    def begin(self, batch: Rows) -> None:
        """Say which rows are to be opened next, from the first on."""
        self._batch, self._first = batch, 0
        self._reserve(batch.x.shape[1], batch.keys.shape[1])

    def open(self, slot: int) -> None:
        """Forecast the batch's next row, and keep it in a slot."""
        self._order.append(slot)
        self._labels.append(math.nan)
        self._fresh[slot] = None
        if len(self._order) >= WINDOW or self.learner.models:
            self.flush()

    def learn(self, slot: int) -> None:
        """Close a forecast: learn its label with what its row was then."""
        if self.ledger.labels == 0:
            self._expect_late(self.ledger.forecasts - self.ledger.issued[slot] - 1)
        if slot in self._fresh and self._order[-1] != slot:
            self.flush()
        y = self.ledger.close(slot)
        self._order.append(slot)
        self._labels.append(y)
        if self.learner.models:
            self.flush()
            self._teach(slot, y)
        elif len(self._order) >= WINDOW:
            self.flush()

    def _expect_late(self, late: int) -> None:
        if late:
            self.flush()
            self.learner.expect_late(late)

    def _teach(self, slot: int, y: float) -> None:
        """Let outside models learn, last: what one of them raises must not undo the rest."""
        record = self.records.pop(slot, None)
        if record is not None:
            self.learner.teach(record, self.table.keys[slot], self.table.values[slot], y)

    def flush(self) -> None:
        """Play the events collected."""
        if not self._order:
            return
        slots, first = np.array([*self._fresh], np.int64), self._first
        last = first + len(slots)
        self._reserve(self.table.x.shape[1], self.table.keys.shape[1])
        if self._batch is not None:
            _copy(self._batch, slice(first, last), self.table, slots, (*KEPT, "scores", "draws"))
        order, labels = np.array(self._order, np.int64), np.array(self._labels)
        self.learner.play(self.table, order, labels)
        if self._batch is not None:
            _copy(self.table, slots, self._batch, slice(first, last), ("x", "judged", "ticket"))
        self._first = last
        self._order.clear()
        self._labels.clear()
        self._fresh.clear()
        if self.watcher is not None:
            self._tell(self.watcher, order, labels)
        self.ledger.reuse()

    def _tell(self, watcher: "Callable[[Learned], None]", order: Integers, labels: Array) -> None:
        """Say what was learned while the rows are still in their slots."""
        known = ~np.isnan(labels)
        slots = order[known]
        if slots.size:
            ticket, ids = self.table.ticket[slots], [self.ledger.ids[slot] for slot in slots.tolist()]
            watcher(Learned(ids, labels[known], ticket[:, T_P], ticket[:, T_MEAN], self.table.judged[slots]))

    def finish(self) -> None:
        """Play the events collected; no rows of the batch are left."""
        self.flush()
        self._batch = None

    def _reserve(self, dim: int, entries: int) -> None:
        """Make room for so many coordinates and entries, and for all slots."""
        old = self.table
        dim, entries = max(dim, old.x.shape[1]), max(entries, old.keys.shape[1])
        if self.ledger.slots <= len(old) and (dim, entries) == (old.x.shape[1], old.keys.shape[1]):
            return
        size = len(old) if self.ledger.slots <= len(old) else max(16, self.ledger.slots * 5 // 4)
        self.table = _blank(self.learner, size, dim, entries)
        _copy(old, slice(None), self.table, slice(0, len(old)), (*KEPT, "scores", "draws"))

    def to_state(self) -> State:
        """Return what is kept of open forecasts, in order of issue."""
        order = self.ledger.in_order()
        width = int(self.table.dims[order].max()) if order else 0
        arrays = {SAVED.get(name, name): getattr(self.table, name)[order] for name in KEPT}
        return State(arrays | {"x": arrays["x"][:, :width]}, {})

    def restore(self, state: State) -> None:
        """Take over what `to_state` returned, in the slots of a ledger that was restored alike."""
        found = {name: state.arrays[SAVED.get(name, name)] for name in KEPT}
        n = len(found["dims"])
        self.table = _blank(self.learner, n, found["x"].shape[1], found["keys"].shape[1])
        for name in KEPT:
            getattr(self.table, name)[:] = found[name]


def _blank(learner: Learner, n: int, dim: int, entries: int) -> Rows:
    experts = learner.experts
    return Rows(
        x=np.zeros((n, dim)),
        dims=np.zeros(n, np.int64),
        keys=np.zeros((n, entries), np.uint64),
        values=np.zeros((n, entries)),
        scores=np.zeros((n, experts.scores)),
        draws=np.zeros(n, np.uint64),
        memory=np.zeros((n, experts.memory_width)),
        judged=np.zeros((n, learner.opinions)),
        ticket=np.zeros((n, TICKET)),
    )


def _copy(source: Rows, at: Any, target: Rows, to: Any, names: tuple[str, ...]) -> None:
    """Copy rows; what the target has more of is 0: coordinates and columns that did not exist yet."""
    for name in names:
        old, new = getattr(source, name)[at], getattr(target, name)
        if old.ndim == 1 or old.shape[1] == new.shape[1]:
            new[to] = old
        else:
            width = min(old.shape[1], new.shape[1])
            new[to, :width] = old[:, :width]
            new[to, width:] = 0
