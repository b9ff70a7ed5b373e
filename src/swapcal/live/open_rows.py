"""`OpenRows`: rows of open forecasts, packed; what is needed to learn their labels, and no more."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from swapcal._locking import Writable
from swapcal.arrays import Integers, Keys
from swapcal.kernels.experts import put_scores
from swapcal.kernels.jit import DirectCall
from swapcal.kernels.packing import blank_known, delta_encode, longest, pack_rows, unpack_rows
from swapcal.kernels.state import TICKET
from swapcal.live.experts import NAMES, Row, Rows
from swapcal.live.learner import Learner, put_scores_of_one

BITS = np.dtype(np.uint64)
SOME = 1024  # rows unpacked at once
SPARE = 4  # half-words by which a shelf is deeper than the longest row so far
FIRST = np.zeros(1, np.int64)
pack_one, unpack_one, delta_encode_one = DirectCall(pack_rows), DirectCall(unpack_rows), DirectCall(delta_encode)


class OpenRows(Writable):
    """Keeps rows in numbered slots and returns them bit for bit.

    The coordinates of scores are not kept: they follow from what was said. Nor is what only issuing needs, the scores
    given and the draws.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._first = 1 + len(learner.contexts.reserved_weights)
        self._known = blank_known()
        self._packed = np.zeros((0, 0), np.uint16)
        self._sizes: tuple[int, int] | None = None
        self._work = np.zeros(0, np.uint16)
        self._number = np.zeros(1)
        self._slot = np.zeros(1, np.int64)
        self._one: tuple[Row, tuple[Any, ...]] | None = None
        """room for one row, and its arrays as they are unpacked to"""
        self._issued: tuple[Row, tuple[Any, ...], tuple[Keys, Keys, Keys]] | None = None
        """the row that was put alone last, its arrays as they are packed, and room for what is delta-encoded"""

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the rooms for one row: a copy's arrays would no longer be views of each other."""
        return self.__dict__ | {"_one": None, "_issued": None}

    @property
    def nbytes(self) -> int:
        """Bytes per slot."""
        return self._packed.shape[1] * self._packed.itemsize

    def put_one(self, row: Rows, slot: int, size: int) -> None:
        """Keep the only row of some rows in a slot, of which there are `size` in all."""
        self._slot[0] = slot
        if type(row) is not Row:
            self.put(row, FIRST, self._slot, size)
            return
        if self._issued is None or self._issued[0] is not row:
            bits = _bits(row)
            self._make_work(row)
            self._issued = row, bits, _room_for_deltas(bits)
        if size > len(self._packed):
            self._make_slots(size)
        _, bits, deltas = self._issued
        self._put(row, bits, deltas, FIRST, self._slot, delta_encode_one.call, pack_one.call)

    def put(self, rows: Rows, chosen: Integers, slots: Integers, size: int) -> None:
        """Keep the chosen rows in slots, of which there are `size` in all."""
        if size > len(self._packed):
            self._make_slots(size)
        rows = _with_groups(rows)
        self._make_work(rows)
        bits = _bits(rows)
        self._put(rows, bits, _room_for_deltas(bits), chosen, slots, delta_encode, pack_rows)

    def _put(
        self,
        rows: Rows,
        bits: tuple[Any, ...],
        deltas: tuple[Keys, Keys, Keys],
        chosen: Integers,
        slots: Integers,
        delta_encode: Callable[..., None],
        pack: Callable[..., int],
    ) -> None:
        x, dims, keys, values, memory, judged, ticket = bits
        new_values, new_judged, new_ticket = deltas
        new_ticket[:] = ticket
        delta_encode(keys, values, rows.memory, judged, rows.ticket, new_values, new_judged, new_ticket, self._number)
        parts = x, dims, keys, new_values, memory, new_judged, new_ticket
        while True:
            done = pack(chosen, self._first, *parts, self._known, slots, self._packed, self._work)
            if done == len(chosen):
                return
            self._resize(len(self._packed), self._packed.shape[1] + SPARE)
            chosen, slots = chosen[done:], slots[done:]

    def _make_slots(self, size: int) -> None:
        self._resize(max(16, size * 33 // 32), self._packed.shape[1])

    def _make_work(self, rows: Rows) -> None:
        numbers = rows.x.shape[1] + rows.values.shape[1] + rows.memory.shape[1] + rows.judged.shape[1] + TICKET
        if len(self._work) < longest(numbers, rows.keys.shape[1]):
            self._work = np.zeros(longest(numbers, rows.keys.shape[1]), np.uint16)

    def _resize(self, slots: int, depth: int) -> None:
        old = self._packed
        self._packed = np.zeros((slots, depth), np.uint16)
        self._packed[: len(old), : old.shape[1]] = old

    def get_one(self, slot: int) -> Rows:
        """Return a row as it was put; it is valid until the next is asked for."""
        if self.learner.contexts.hashed:
            return self.get(np.array([slot]))
        row, bits = self._room_for_one()
        self._slot[0] = slot
        self._unpack(row, bits, self._slot, unpack_one.call, delta_encode_one.call, put_scores_of_one.call)
        return row

    def get(self, slots: Integers) -> Rows:
        """Return rows as they were put; of many some at a time, so that other threads take turns between."""
        rows = self.blank(len(slots))
        for k in range(0, len(slots), SOME):
            self.fill(rows.cut(k, min(k + SOME, len(slots))), slots[k : k + SOME])
        return rows

    def fill(self, rows: Rows, slots: Integers) -> None:
        """Write the rows in slots over the first of some rows."""
        part = rows.cut(0, len(slots))
        wide, hashed = _with_groups(part), rows.groups.shape[1]
        self._unpack(wide, _bits(wide), slots, unpack_rows, delta_encode, put_scores)
        if hashed:
            part.groups[:], part.keys[:] = wide.keys[:, :hashed], wide.keys[:, hashed:]
            part.values[:] = wide.values[:, hashed:]

    def _unpack(
        self,
        rows: Rows,
        bits: tuple[Any, ...],
        slots: Integers,
        unpack: Callable[..., None],
        delta_encode: Callable[..., None],
        put_scores: Callable[..., None],
    ) -> None:
        unpack(self._packed, slots, self._known, self._first, *bits)
        _, _, keys, values, _, judged, ticket = bits
        delta_encode(keys, values, rows.memory, judged, rows.ticket, values, judged, ticket, self._number)
        rows.x[:, 0] = 0.5
        put_scores(rows.judged, self.learner.contexts.reserved_weights, rows.x)

    def _room_for_one(self) -> tuple[Row, tuple[Any, ...]]:
        contexts, one = self.learner.contexts, self._one
        if one is None or one[0].x.shape[1] != contexts.dim or one[0].keys.shape[1] != contexts.entries:
            blank = self.blank(1)
            row = Row(*(getattr(blank, name) for name in NAMES))
            self._one = one = row, _bits(row)
        return one

    def frozen(self) -> "OpenRows":
        """Return these rows as they are now, to be unpacked while others take their slots: only bytes are copied."""
        still = OpenRows(self.learner)
        still._packed = self._packed.copy()
        still._known = copy.deepcopy(self._known)
        still._sizes = self._sizes_now()
        return still

    def _sizes_now(self) -> tuple[int, int]:
        """Return how many coordinates and entries rows have: as many as there are now, unless it was frozen."""
        return self._sizes or (self.learner.contexts.dim, self.learner.contexts.entries)

    def blank(self, n: int) -> Rows:
        """Return room for n rows, with as many coordinates and entries as there are now."""
        experts, contexts, (dim, entries) = self.learner.experts, self.learner.contexts, self._sizes_now()
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
            groups=np.zeros((n, len(contexts.hashed)), np.uint64),
        )


def _with_groups(rows: Rows) -> Rows:
    """Return rows whose groups stand before the entries, as entries of value 1, which are packed into nothing."""
    if not rows.groups.shape[1]:
        return rows
    ones = (rows.groups != 0).astype(np.float64)
    return replace(rows, keys=np.hstack([rows.groups, rows.keys]), values=np.hstack([ones, rows.values]))


def _bits(rows: Rows) -> tuple[Any, ...]:
    """Return the arrays that are packed, in that order, numbers as their bits."""
    values, memory, judged, ticket = rows.values, rows.memory, rows.judged, rows.ticket
    numbers = values.view(BITS), memory.view(BITS), judged.view(BITS), ticket.view(BITS)
    return rows.x.view(BITS), rows.dims, rows.keys, *numbers


def _room_for_deltas(bits: tuple[Any, ...]) -> tuple[Keys, Keys, Keys]:
    """Return room for the values, probabilities and tickets of rows, delta-encoded."""
    _, _, _, values, _, judged, ticket = bits
    return np.empty_like(values), np.empty_like(judged), np.empty_like(ticket)
