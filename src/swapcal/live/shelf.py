"""`Shelf`: rows of open forecasts, packed; what is needed to learn their labels, and no more."""

import numpy as np

from swapcal.arrays import Integers
from swapcal.kernels.encode import ENTRIES
from swapcal.kernels.experts import put_scores
from swapcal.kernels.packing import blank_known, longest, pack_rows, unpack_rows
from swapcal.kernels.state import TICKET
from swapcal.live.learner import Learner, Rows

BITS = np.uint64
SPARE = 16  # half-words by which a shelf is deeper than the longest row so far


class Shelf:
    """Keeps rows in numbered slots and returns them bit for bit.

    The coordinates of scores are not kept: they follow from what was said. Nor is what only issuing needs, the scores
    given and the draws.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._first = 1 + len(learner.contexts.reserved_weights)
        self._known = blank_known()
        self._packed = np.zeros((0, 0), np.uint16)
        self._work = np.zeros(0, np.uint16)
        self._one: Rows | None = None

    @property
    def nbytes(self) -> int:
        """Bytes per slot."""
        return self._packed.shape[1] * self._packed.itemsize

    def put(self, rows: Rows, chosen: Integers, slots: Integers, size: int) -> None:
        """Keep the chosen rows in slots, of which there are `size` in all."""
        if size > len(self._packed):
            self._resize(max(16, size * 9 // 8), self._packed.shape[1])
        numbers = rows.x.shape[1] + rows.values.shape[1] + rows.memory.shape[1] + rows.judged.shape[1] + TICKET
        if len(self._work) < longest(numbers, rows.keys.shape[1]):
            self._work = np.zeros(longest(numbers, rows.keys.shape[1]), np.uint16)
        while done := self._pack(rows, chosen, slots):
            chosen, slots = chosen[done - 1 :], slots[done - 1 :]

    def _pack(self, rows: Rows, chosen: Integers, slots: Integers) -> int:
        """Pack rows; return one more than were packed before one that is too long, after making room; 0 if none is."""
        done = pack_rows(
            chosen, rows.x.view(BITS), rows.dims, self._first, rows.keys, rows.values.view(BITS),
            rows.memory.view(BITS), rows.judged.view(BITS), rows.ticket.view(BITS),
            self._known, slots, self._packed, self._work,
        )  # fmt: skip
        if done == len(chosen):
            return 0
        self._resize(len(self._packed), self._packed.shape[1] + SPARE)
        return done + 1

    def _resize(self, slots: int, depth: int) -> None:
        old = self._packed
        self._packed = np.zeros((slots, depth), np.uint16)
        self._packed[: len(old), : old.shape[1]] = old

    def get(self, slots: Integers) -> Rows:
        """Return rows as they were put; of a single one only until the next is asked for."""
        rows = self._room_for_one() if len(slots) == 1 else self.blank(len(slots))
        self.fill(rows, slots)
        return rows

    def fill(self, rows: Rows, slots: Integers) -> None:
        """Write the rows in slots over the first of some rows."""
        part = rows.cut(0, len(slots))
        unpack_rows(
            self._packed, slots, self._known, self._first, part.x.view(BITS), part.dims, part.keys,
            part.values.view(BITS), part.memory.view(BITS), part.judged.view(BITS), part.ticket.view(BITS),
        )  # fmt: skip
        part.x[:, 0] = 0.5
        put_scores(part.judged, self.learner.contexts.reserved_weights, part.x)

    def _room_for_one(self) -> Rows:
        dim, entries = self._widths()
        if self._one is None or (self._one.x.shape[1], self._one.keys.shape[1]) != (dim, entries):
            self._one = self.blank(1)
        return self._one

    def _widths(self) -> tuple[int, int]:
        contexts = self.learner.contexts
        return contexts.dim, ENTRIES * len(contexts.columns)

    def blank(self, n: int) -> Rows:
        """Return room for n rows, with as many coordinates and entries as there are now."""
        experts, (dim, entries) = self.learner.experts, self._widths()
        return Rows(
            x=np.zeros((n, dim)),
            dims=np.zeros(n, np.int64),
            keys=np.zeros((n, entries), np.uint64),
            values=np.zeros((n, entries)),
            scores=np.zeros((n, experts.scores)),
            draws=np.zeros(n, np.uint64),
            memory=np.zeros((n, experts.memory_width)),
            judged=np.zeros((n, self.learner.opinions)),
            ticket=np.zeros((n, TICKET)),
        )
