"""Rows of numbers and keys in few bytes, without losing a bit; ends of records in delimited text."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array, Bytes, Integers, Keys
from swapcal.kernels.experts import EXPERTS, FIRST_EXPERT
from swapcal.kernels.jit import inlined, jit
from swapcal.kernels.mixing import hedge_gap, hedge_weight
from swapcal.kernels.state import T_GAP, T_HIGH, T_LOW, T_MEAN, T_W_HIGH, T_W_LOW, T_WEIGHT

# Rows of numbers and keys in few bytes, without losing a bit: most numbers are 0, 1, or singles, most keys come again.
#
# A packed row is a list of half-words: the lengths, then for every eight numbers their sizes in one half-word and what
# is left of them, then the keys likewise. Before that, numbers that follow from others are delta-encoded: only what
# they differ by is left, mostly nothing. An open forecast of 13 columns takes 408 bytes so, and 528 without; one of two
# columns 208 and 304. It costs less than 0.1 µs a row.

Halves = NDArray[np.uint16]
Whole = int | np.int64

# sizes of a number: nothing is left of 0, one half-word of 1 or ½, two of a float32, four of any other; of one that was
# the last of size four before, `AGAIN` is left, the half-word of no number
NOTHING, SHORT, SINGLE, FULL = 0, 1, 2, 3
KNOWN_KEYS = 1 << 13  # keys that are written as their number
PROBES = 2 * KNOWN_KEYS
PER_HALF = 8  # sizes of two bits
HEADER = 4
AGAIN = np.uint64(0xFFFF)
LOW_48, LOW_29 = np.uint64((1 << 48) - 1), np.uint64((1 << 29) - 1)
HALF, ZERO = np.uint64(0xFFFF), np.uint64(0)
S16, S23, S29, S48, S52, S63 = (np.uint64(s) for s in (16, 23, 29, 48, 52, 63))
ONE_BITS, ONE_SINGLE = np.uint64(0x3FF << 52), np.float32(1.0)
EXPONENT = np.uint64(0x7FF)
SMALLEST, LARGEST = np.uint64(897), np.uint64(1150)  # exponents of normal singles
BIAS = np.uint64(896)  # between the exponents of doubles and singles
MANTISSA = np.uint64((1 << 52) - 1)
EXPONENT_8 = np.uint64(0xFF)
TO_PROBE = np.uint64(64 - 14)  # the high bits that number PROBES


class Known(NamedTuple):
    """Keys that came before, numbered."""

    keys: Keys
    """(KNOWN_KEYS,)"""
    probes: Halves
    """(PROBES,) a hash table of numbers + 1"""
    size: Integers
    """[how many]"""


@inlined
def number_of(key: np.uint64, known: Known) -> Whole:
    """Return a key's number, giving it one while there are any left; -1 if it has none."""
    at = np.int64(key >> TO_PROBE)  # keys are well mixed already
    while known.probes[at] != 0:
        number = np.int64(known.probes[at]) - 1
        if known.keys[number] == key:
            return number
        at = (at + 1) % PROBES
    number = np.int64(known.size[0])
    if number == KNOWN_KEYS:
        return -1
    known.keys[number] = key
    known.probes[at] = number + 1
    known.size[0] = number + 1
    return number


@inlined
def size_of(bits: np.uint64) -> int:
    """Return how much of a number must be written."""
    if bits == ZERO:
        return NOTHING
    if bits & LOW_48 == ZERO and bits >> S48 != AGAIN:
        return SHORT
    exponent = (bits >> S52) & EXPONENT
    if bits & LOW_29 == ZERO and SMALLEST <= exponent <= LARGEST:
        return SINGLE
    return FULL


@inlined
def put(bits: np.uint64, size: int, out: Halves, at: int) -> int:
    """Write what is left of a number; return where the next goes."""
    if size == SHORT:
        out[at] = bits >> S48
        return at + 1
    if size == SINGLE:
        exponent = (bits >> S52) & EXPONENT
        single = ((bits >> S63) << np.uint64(31)) | ((exponent - BIAS) << S23) | ((bits & MANTISSA) >> S29)
        out[at] = single >> S16
        out[at + 1] = single & HALF
        return at + 2
    if size == FULL:
        for k in range(4):
            out[at + k] = (bits >> (S48 - S16 * np.uint64(k))) & HALF
        return at + 4
    return at


@inlined
def got(size: Whole, packed: Halves, at: Whole) -> np.uint64:
    """Return the number of which a size was written."""
    if size == SHORT:
        return np.uint64(packed[at]) << S48
    if size == SINGLE:
        single = (np.uint64(packed[at]) << S16) | np.uint64(packed[at + 1])
        exponent = ((single >> S23) & EXPONENT_8) + BIAS
        return ((single >> np.uint64(31)) << S63) | (exponent << S52) | ((single << S29) & MANTISSA)
    bits = ZERO
    if size == FULL:
        for k in range(4):
            bits = (bits << S16) | np.uint64(packed[at + k])
    return bits


@inlined
def length_of(size: Whole) -> Whole:
    """Return the half-words that a size takes."""
    return 4 if size == FULL else size


@inlined
def pack_numbers(numbers: Keys, first: int, end: int, out: Halves, at: int) -> int:
    """Write numbers[first:end], given as their bits; return where the next goes."""
    last = ZERO
    for start in range(first, end, PER_HALF):
        sizes, where = 0, at
        at += 1
        for i in range(start, min(start + PER_HALF, end)):
            bits = numbers[i]
            size = size_of(bits)
            if size == FULL and bits == last:
                bits, size = AGAIN << S48, SHORT
            elif size == FULL:
                last = bits
            sizes |= size << (2 * (i - start))
            at = put(bits, size, out, at)
        out[where] = sizes
    return at


@inlined
def unpack_numbers(packed: Halves, at: Whole, numbers: Keys, first: int, end: Whole) -> Whole:
    """Read numbers[first:end] and zero all behind them; return where the next begin."""
    last = ZERO
    for start in range(first, end, PER_HALF):
        sizes = np.int64(packed[at])
        at += 1
        for i in range(start, min(start + PER_HALF, end)):
            size = (sizes >> (2 * (i - start))) & 3
            bits = got(size, packed, at)
            if size == FULL:
                last = bits
            elif size == SHORT and bits >> S48 == AGAIN:
                bits = last
            numbers[i] = bits
            at += length_of(size)
    for i in range(end, numbers.shape[0]):
        numbers[i] = ZERO
    return at


@inlined
def pack_keys(keys: Keys, end: int, known: Known, out: Halves, at: int) -> int:
    """Write keys[:end]; return where the next goes."""
    for start in range(0, end, PER_HALF):
        sizes, where = 0, at
        at += 1
        for i in range(start, min(start + PER_HALF, end)):
            if keys[i] == ZERO:
                continue
            number = number_of(keys[i], known)
            if number >= 0:
                out[at] = number
                at += 1
                sizes |= SHORT << (2 * (i - start))
            else:
                at = put(keys[i], FULL, out, at)
                sizes |= FULL << (2 * (i - start))
        out[where] = sizes
    return at


@inlined
def unpack_keys(packed: Halves, at: Whole, keys: Keys, end: Whole, known: Known) -> None:
    """Read keys[:end] and zero all behind them."""
    for start in range(0, end, PER_HALF):
        sizes = np.int64(packed[at])
        at += 1
        for i in range(start, min(start + PER_HALF, end)):
            size = (sizes >> (2 * (i - start))) & 3
            if size == SHORT:
                keys[i] = known.keys[np.int64(packed[at])]
            else:
                keys[i] = got(size, packed, at)
            at += length_of(size)
    for i in range(end, keys.shape[0]):
        keys[i] = ZERO


@inlined
def delta_encode_ticket(ticket: Array, new: Keys, work: Array, expected: Keys) -> None:
    """Leave of weight, gap and mean what does not follow from levels and wishes."""
    low, h = ticket[T_LOW], ticket[T_HIGH] - ticket[T_LOW]
    u, v = ticket[T_W_LOW] - low, ticket[T_HIGH] - ticket[T_W_HIGH]
    work[0] = hedge_weight(u, v)
    new[T_WEIGHT] ^= expected[0]
    weight = work[0]
    work[0] = hedge_gap(u, v, h)
    new[T_GAP] ^= expected[0]
    work[0] = low + weight * h
    new[T_MEAN] ^= expected[0]


@jit
def delta_encode(
    keys: Keys,
    values: Keys,
    memory: Array,
    judged: Keys,
    ticket: Array,
    new_values: Keys,
    new_judged: Keys,
    new_ticket: Keys,
    work: Array,
) -> None:
    """Leave of rows' values, of the experts' probabilities and of tickets what is not as expected; twice, all is back.

    An entry is expected to be 1, and a probability to follow from the log-odds after it. Only the same machine code is
    sure to round alike both times, hence one function for both ways. `new_ticket` holds the ticket's bits already; what
    is expected of it follows from numbers that stay. `work` has room for one number.
    """
    expected = work.view(np.uint64)
    for row in range(keys.shape[0]):
        for i in range(keys.shape[1]):
            new_values[row, i] = values[row, i] ^ (ONE_BITS if keys[row, i] != ZERO else ZERO)
        for i in range(judged.shape[1]):
            new_judged[row, i] = judged[row, i]
        for i in range(FIRST_EXPERT, min(FIRST_EXPERT + EXPERTS, judged.shape[1])):
            work[0] = ONE_SINGLE / (ONE_SINGLE + np.exp(-np.float32(memory[row, i])))
            new_judged[row, i] ^= expected[0]
        delta_encode_ticket(ticket[row], new_ticket[row], work, expected)


@jit
def pack_rows(
    rows: Integers,
    first: int,
    x: Keys,
    dims: Integers,
    keys: Keys,
    values: Keys,
    memory: Keys,
    judged: Keys,
    ticket: Keys,
    known: Known,
    slots: Integers,
    packed: Halves,
    work: Halves,
) -> int:
    """Pack row rows[k] into packed[slots[k]], all numbers given as their bits; x only from `first` to its dim.

    Returns how many rows are done: fewer than there are if packed has too few columns for the next. `work` holds one
    row, however long.
    """
    entries = keys.shape[1]
    for k in range(rows.shape[0]):
        row = rows[k]
        work[0], work[1] = dims[row] & 0xFFFF, dims[row] >> 16
        work[2], work[3] = entries & 0xFFFF, entries >> 16
        at = pack_numbers(x[row], first, dims[row], work, HEADER)
        at = pack_numbers(values[row], 0, entries, work, at)
        at = pack_numbers(memory[row], 0, memory.shape[1], work, at)
        at = pack_numbers(judged[row], 0, judged.shape[1], work, at)
        at = pack_numbers(ticket[row], 0, ticket.shape[1], work, at)
        at = pack_keys(keys[row], entries, known, work, at)
        if at > packed.shape[1]:
            return k
        for i in range(at):
            packed[slots[k], i] = work[i]
    return len(rows)


@jit
def unpack_rows(
    packed: Halves,
    slots: Integers,
    known: Known,
    first: int,
    x: Keys,
    dims: Integers,
    keys: Keys,
    values: Keys,
    memory: Keys,
    judged: Keys,
    ticket: Keys,
) -> None:
    """Write the rows packed in slots[k] into rows k of the arrays, all numbers as their bits; x from `first` on."""
    for k in range(slots.shape[0]):
        half = packed[slots[k]]
        dim = np.int64(half[0]) | (np.int64(half[1]) << 16)
        entries = np.int64(half[2]) | (np.int64(half[3]) << 16)
        dims[k] = dim
        at = unpack_numbers(half, HEADER, x[k], first, dim)
        at = unpack_numbers(half, at, values[k], 0, entries)
        at = unpack_numbers(half, at, memory[k], 0, memory.shape[1])
        at = unpack_numbers(half, at, judged[k], 0, judged.shape[1])
        at = unpack_numbers(half, at, ticket[k], 0, ticket.shape[1])
        unpack_keys(half, at, keys[k], entries, known)


def longest(numbers: int, keys: int) -> int:
    """Return the most half-words that a row of so many numbers and keys takes."""
    return HEADER + 5 * (numbers + keys) + 6 * PER_HALF


def blank_known() -> Known:
    """Return the memory of no keys."""
    return Known(np.zeros(KNOWN_KEYS, np.uint64), np.zeros(PROBES, np.uint16), np.zeros(1, np.int64))


# Where records of delimited text end.

QUOTE, NEWLINE = 34, 10


@jit
def record_ends(text: Bytes, delimiter: int) -> tuple[int, int]:
    """Return (where the last whole record ends, where a quote opens that is not closed, -1 if none does).

    A quote opens only where a field begins, and closes at the next one that is not doubled; elsewhere it is a letter.
    The text must begin with a record.
    """
    end, opened, begins = 0, -1, True
    i, n = 0, len(text)
    while i < n:
        letter = text[i]
        if opened >= 0:
            if letter == QUOTE:
                if i + 1 < n and text[i + 1] == QUOTE:
                    i += 1
                else:
                    opened = -1
        elif letter == QUOTE and begins:
            opened, begins = i, False
        elif letter == NEWLINE:
            end, begins = i + 1, True
        else:
            begins = letter == delimiter
        i += 1
    return end, opened
