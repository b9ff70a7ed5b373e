"""`Agenda`: what is to be forecast and learned, in order, and the rows of open forecasts that it is about."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from swapcal.archive.state import State
from swapcal.arrays import Integers
from swapcal.kernels.state import T_MEAN, T_P
from swapcal.live.chronicle import Chronicle
from swapcal.live.learned import Learned
from swapcal.live.learner import Learner, Rows
from swapcal.live.ledger import FREE, Ledger
from swapcal.live.shelf import Shelf

KEPT = ("x", "dims", "keys", "values", "memory", "judged", "ticket")
SAVED = {"dims": "widths"}  # names in files, where they differ
FIRST = np.zeros(1, np.int64)
WINDOW = 1024  # events played at once: enough to amortise calls, few enough to stay in cache


class Agenda:
    """Collects events, so that the learner can play many at once with the same result as one by one.

    Rows of open forecasts lie packed on a shelf, in the ledger's slots.
    """

    def __init__(self, learner: Learner, ledger: Ledger) -> None:
        self.learner = learner
        self.ledger = ledger
        self.shelf = Shelf(learner)
        self.records: dict[int, Mapping[str, Any]] = {}
        """of open forecasts, for outside models"""
        self.watcher: Callable[[Learned], None] | None = None
        self.chronicle = Chronicle()
        self._order: list[int] = []
        self._labels: list[float] = []
        self._fresh: dict[int, int] = {}
        """slots of rows that are forecast in the events collected, in order, and their numbers"""
        self._late: dict[int, int] = {}
        """the same of rows that were forecast before, and are learned"""
        self._batch: Rows | None = None
        self._first = 0

    def begin(self, batch: Rows) -> None:
        """Say which rows are to be opened next, from the first on."""
        self._batch, self._first = batch, 0

    def open(self, slot: int) -> None:
        """Forecast the batch's next row, and keep it in a slot."""
        self._order.append(slot)
        self._labels.append(math.nan)
        self._fresh[slot] = len(self._fresh)
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
        if slot not in self._fresh:
            self._late[slot] = len(self._late)
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
            row = self.row(slot)
            self.learner.teach(record, row.keys[0], row.values[0], y)

    def row(self, slot: int) -> Rows:
        """Return the row of an open forecast; it is valid until the next is asked for."""
        return self.shelf.get(np.array([slot]))

    def flush(self) -> None:
        """Play the events collected."""
        if not self._order:
            return
        if len(self._order) == 1:
            self._flush_one(self._order[0])
        else:
            self._flush_many()
        for each in (self._order, self._labels, self._fresh, self._late):
            each.clear()
        self.ledger.reuse()

    def _flush_one(self, slot: int) -> None:
        """Do the same for one event, without what it takes to sort many."""
        late = slot in self._late
        rows = self.row(slot) if late else self._next_rows(1)
        self._play(rows, FIRST)
        if not late and self.ledger.issued[slot] != FREE:
            self.shelf.put(rows, FIRST, np.array([slot]), self.ledger.slots)

    def _play(self, rows: Rows, order: Integers) -> None:
        """Forecast and learn, and tell who watches what was learned."""
        labels = np.array(self._labels)
        self.learner.play(rows, order, labels)
        if len(labels) == 1 and self.watcher is None:
            if self._labels[0] == self._labels[0]:
                self.chronicle.add_one(float(rows.ticket[order[0], T_MEAN]), self._labels[0])
            return
        known = np.flatnonzero(~np.isnan(labels))
        self.chronicle.add(rows.ticket[order[known], T_MEAN], labels[known])
        if known.size and self.watcher is not None:
            own, ids = order[known], [self.ledger.ids[self._order[k]] for k in known.tolist()]
            self.watcher(Learned(ids, labels[known], rows.ticket[own, T_P], rows.ticket[own, T_MEAN], rows.judged[own]))

    def _next_rows(self, n: int) -> Rows:
        assert self._batch is not None, "rows are opened from a batch"
        first, self._first = self._first, self._first + n
        return self._batch.cut(first, self._first)

    def _flush_many(self) -> None:
        fresh, late = self._fresh, self._late
        batch = self._next_rows(len(fresh)) if fresh else None
        rows, n = self._rows_at_hand(batch), len(late)
        order = [late[slot] if slot in late else n + fresh[slot] for slot in self._order]
        self._play(rows, np.array(order))
        if batch is not None:
            if late:
                _copy(rows.cut(n, len(rows)), batch, ("x", "judged", "ticket"))
            self._keep(rows, n)

    def _rows_at_hand(self, batch: Rows | None) -> Rows:
        """Return the rows of the events collected: those from the shelf, then those of the batch."""
        late = np.array([*self._late], np.int64)
        if batch is None:
            return self.shelf.get(late)
        if not len(late):
            return batch
        rows = self.shelf.blank(len(late) + len(batch))
        self.shelf.fill(rows, late)
        _copy(batch, rows.cut(len(late), len(rows)), (*KEPT, "scores", "draws"))
        return rows

    def _keep(self, rows: Rows, late: int) -> None:
        """Shelve the rows that were forecast and are still open."""
        issued = self.ledger.issued
        held = [(late + k, slot) for slot, k in self._fresh.items() if issued[slot] != FREE]
        if held:
            chosen, slots = np.array(held).T.copy()
            self.shelf.put(rows, chosen, slots, self.ledger.slots)

    def finish(self) -> None:
        """Play the events collected; no rows of the batch are left."""
        self.flush()
        self._batch = None

    def to_state(self) -> State:
        """Return what is kept of open forecasts, in order of issue."""
        rows = self.shelf.blank(len(self.ledger.opened))
        self.shelf.fill(rows, np.array(self.ledger.in_order(), np.int64))
        width = int(rows.dims.max(initial=0))
        arrays = {SAVED.get(name, name): getattr(rows, name) for name in KEPT}
        return State(arrays | {"x": rows.x[:, :width].copy()}, {})

    def restore(self, state: State) -> None:
        """Take over what `to_state` returned, in the slots of a ledger that was restored alike."""
        found = {name: state.arrays[SAVED.get(name, name)] for name in KEPT}
        n = len(found["dims"])
        rows = self.shelf.blank(n)
        for name in KEPT:
            part = getattr(rows, name)
            part[tuple(slice(size) for size in found[name].shape)] = found[name]
        self.shelf.put(rows, np.arange(n), np.arange(n), n)


def _copy(source: Rows, target: Rows, names: tuple[str, ...]) -> None:
    """Copy rows; what the target has more of is 0: coordinates and columns that did not exist yet."""
    for name in names:
        old, new = getattr(source, name), getattr(target, name)
        if old.ndim == 1 or old.shape[1] == new.shape[1]:
            new[:] = old
        else:
            width = min(old.shape[1], new.shape[1])
            new[:, :width] = old[:, :width]
            new[:, width:] = 0
