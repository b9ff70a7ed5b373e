"""`OpenRows`: rows of open forecasts, packed: only the data needed to learn their labels."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from swapcal._locking import Writable
from swapcal.arrays import Flags, Integers, Keys
from swapcal.kernels.experts import put_scores
from swapcal.kernels.jit import DirectCall
from swapcal.kernels.packing import Halves, blank_known, delta_encode, longest, pack_rows, unpack_rows
from swapcal.kernels.state import TICKET
from swapcal.live.experts import NAMES, Row, Rows
from swapcal.live.learner import Learner, put_scores_of_one

BITS = np.dtype(np.uint64)
SOME = 1024  # rows unpacked at once
SPARE = 4  # half-words by which a block is wider than the longest row so far
BLOCK = 1 << 13  # slots of a block, a few megabytes: so much is copied when rows become more or longer
FIRST = np.zeros(1, np.int64)
Which = slice | Flags
pack_one, unpack_one, delta_encode_one = DirectCall(pack_rows), DirectCall(unpack_rows), DirectCall(delta_encode)


class OpenRows(Writable):
    """Keeps rows in numbered slots and returns them bit for bit.

    The coordinates of scores are not kept: they follow from the issued values. The scores given and the draws are not
    kept: only issuing needs them.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._first = 1 + len(learner.contexts.reserved_weights)
        self._known = blank_known()
        self._blocks: list[Halves] = []
        """BLOCK slots each, the last one perhaps fewer: one more row does not copy the other blocks"""
        self._slots = 0
        self._sizes: tuple[int, int] | None = None
        self._work = np.zeros(0, np.uint16)
        self._number = np.zeros(1)
        self._slot = np.zeros(1, np.int64)
        self._one: tuple[Row, tuple[Any, ...]] | None = None
        """room for one row, and the arrays to unpack it into"""
        self._issued: tuple[Row, tuple[Any, ...], tuple[Keys, Keys, Keys]] | None = None
        """the single row that was put last, its arrays in the order of packing, and room for delta encoding"""
        self._held: tuple[Row, int, int] | None = None
        """the single row that was put last, its slot and the number of slots, if it is not packed yet"""

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the rooms for one row: a copy's arrays would no longer be views of each other."""
        self.settle()
        return self.__dict__ | {"_one": None, "_issued": None}

    @property
    def nbytes(self) -> int:
        """Bytes per slot, of the widest block."""
        self.settle()
        return max((block.strides[0] for block in self._blocks), default=0)

    def put_one(self, row: Rows, slot: int, size: int) -> None:
        """Keep a single row in a slot; there are `size` slots in all.

        A `Row` is packed by `settle`, which must be called before its arrays are used again: mostly its label comes
        first, and it need not be packed at all.
        """
        self.settle()
        if type(row) is Row:
            self._held = row, slot, size
        else:
            self.put(row, FIRST, np.array([slot]), size)

    def settle(self) -> None:
        """Pack the single row that was put last, unless it was taken out."""
        if self._held is None:
            return
        (row, slot, size), self._held = self._held, None
        if self._issued is None or self._issued[0] is not row:
            bits = _bits(row)
            self._make_work(row)
            self._issued = row, bits, _room_for_deltas(bits)
        self._make_slots(size)
        _, bits, deltas = self._issued
        parts = self._encoded(row, bits, deltas, delta_encode_one.call)
        self._slot[0] = slot % BLOCK
        self._pack(slot // BLOCK, parts, FIRST, self._slot, pack_one.call)

    def put(self, rows: Rows, chosen: Integers, slots: Integers, size: int) -> None:
        """Keep the chosen rows in slots; there are `size` slots in all."""
        self.settle()
        self._make_slots(size)
        rows = _with_groups(rows)
        self._make_work(rows)
        bits = _bits(rows)
        parts = self._encoded(rows, bits, _room_for_deltas(bits), delta_encode)
        for block, which in _by_block(slots):
            self._pack(block, parts, chosen[which], slots[which] % BLOCK, pack_rows)

    def _encoded(
        self,
        rows: Rows,
        bits: tuple[Any, ...],
        deltas: tuple[Keys, Keys, Keys],
        delta_encode: Callable[..., None],
    ) -> tuple[Any, ...]:
        x, dims, keys, values, memory, judged, ticket = bits
        new_values, new_judged, new_ticket = deltas
        new_ticket[:] = ticket
        delta_encode(keys, values, rows.memory, judged, rows.ticket, new_values, new_judged, new_ticket, self._number)
        return x, dims, keys, new_values, memory, new_judged, new_ticket

    def _pack(
        self, block: int, parts: tuple[Any, ...], chosen: Integers, slots: Integers, pack: Callable[..., int]
    ) -> None:
        """Pack rows into slots of one block, which becomes wider if one is longer than any before."""
        while True:
            packed = self._blocks[block]
            done = pack(chosen, self._first, *parts, self._known, slots, packed, self._work)
            if done == len(chosen):
                return
            self._blocks[block] = _resized(packed, len(packed), packed.shape[1] + SPARE)
            chosen, slots = chosen[done:], slots[done:]

    def _make_slots(self, size: int) -> None:
        """Make room for `size` slots: the last block grows by a half until it is full, then the next one begins."""
        blocks = self._blocks
        while size > self._slots:
            width = blocks[-1].shape[1] if blocks else 0
            if not blocks or len(blocks[-1]) == BLOCK:
                blocks.append(np.zeros((0, width), np.uint16))
            have = len(blocks[-1])
            wanted = max(16, have * 3 // 2, size - self._slots + have)
            blocks[-1] = _resized(blocks[-1], min(wanted, BLOCK), width)
            self._slots = (len(blocks) - 1) * BLOCK + len(blocks[-1])

    def _make_work(self, rows: Rows) -> None:
        numbers = rows.x.shape[1] + rows.values.shape[1] + rows.memory.shape[1] + rows.judged.shape[1] + TICKET
        if len(self._work) < longest(numbers, rows.keys.shape[1]):
            self._work = np.zeros(longest(numbers, rows.keys.shape[1]), np.uint16)

    def take_one(self, slot: int) -> Rows:
        """Return a stored row that is not needed again; it is valid until the next call."""
        held, contexts = self._held, self.learner.contexts
        if held is not None and held[1] == slot and held[0].x.shape[1] == contexts.dim:
            self._held = None
            return held[0]
        return self.get_one(slot)

    def get_one(self, slot: int) -> Rows:
        """Return a stored row; it is valid until the next call."""
        self.settle()
        if self.learner.contexts.hashed:
            return self.get(np.array([slot]))
        row, bits = self._room_for_one()
        self._slot[0] = slot % BLOCK
        packed = self._blocks[slot // BLOCK]
        self._unpack(row, bits, packed, self._slot, unpack_one.call, delta_encode_one.call, put_scores_of_one.call)
        return row

    def get(self, slots: Integers) -> Rows:
        """Return rows as they were put; many are read in parts, so that other threads run in between."""
        rows = self.blank(len(slots))
        for k in range(0, len(slots), SOME):
            self.fill(rows.cut(k, min(k + SOME, len(slots))), slots[k : k + SOME])
        return rows

    def fill(self, rows: Rows, slots: Integers) -> None:
        """Write the rows in slots over the first of some rows."""
        self.settle()
        blocks = list(_by_block(slots))
        if len(blocks) == 1:
            self._fill(rows.cut(0, len(slots)), *blocks[0], slots)
            return
        for block, which in blocks:
            part = Rows(*(getattr(rows, name)[: len(slots)][which] for name in NAMES))
            self._fill(part, block, which, slots)
            for name in NAMES:
                getattr(rows, name)[: len(slots)][which] = getattr(part, name)

    def _fill(self, part: Rows, block: int, which: Which, slots: Integers) -> None:
        """Write the rows in those slots that lie in one block over some rows."""
        wide, hashed = _with_groups(part), part.groups.shape[1]
        packed, inside = self._blocks[block], slots[which] % BLOCK
        self._unpack(wide, _bits(wide), packed, inside, unpack_rows, delta_encode, put_scores)
        if hashed:
            part.groups[:], part.keys[:] = wide.keys[:, :hashed], wide.keys[:, hashed:]
            part.values[:] = wide.values[:, hashed:]

    def _unpack(
        self,
        rows: Rows,
        bits: tuple[Any, ...],
        packed: Halves,
        slots: Integers,
        unpack: Callable[..., None],
        delta_encode: Callable[..., None],
        put_scores: Callable[..., None],
    ) -> None:
        unpack(packed, slots, self._known, self._first, *bits)
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
        """Return a copy of these rows, to be unpacked while their slots are used again: only bytes are copied."""
        self.settle()
        still = OpenRows(self.learner)
        still._blocks, still._slots = [block.copy() for block in self._blocks], self._slots
        still._known = copy.deepcopy(self._known)
        still._sizes = self._sizes_now()
        return still

    def _sizes_now(self) -> tuple[int, int]:
        """Return the number of coordinates and entries of rows: the present one, or that of the frozen copy."""
        return self._sizes or (self.learner.contexts.dim, self.learner.contexts.entries)

    def blank(self, n: int) -> Rows:
        """Return room for n rows with the present number of coordinates and entries."""
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


def _by_block(slots: Integers) -> Iterator[tuple[int, Which]]:
    """Yield the blocks in which slots lie, and which of the slots lie there: all of them, or a mask."""
    if not len(slots):
        return
    block = slots // BLOCK
    first = int(block[0])
    if (block == first).all():
        yield first, slice(None)
        return
    for number in np.unique(block):
        yield int(number), block == number


def _resized(packed: Halves, slots: int, width: int) -> Halves:
    """Return a copy with more slots, or wider ones."""
    new = np.zeros((slots, width), np.uint16)
    new[: len(packed), : packed.shape[1]] = packed
    return new


def _with_groups(rows: Rows) -> Rows:
    """Return rows with their groups before the entries, as entries of value 1, which take no space when packed."""
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
