"""`Line`: open forecasts in order of issue."""

from array import array

import numpy as np

SLACK = 1024  # closed forecasts that may stand in line before anybody looks
LOW = 2**32 - 1


class Line:
    """Numbers and slots of forecasts, in order of issue; closed ones are dropped when they are as many as open ones.

    A slot holds another forecast once its own is closed, so each stands with its number, of which the low half is
    enough: `issued[slot]` tells whether it still is the one.
    """

    def __init__(self) -> None:
        self._issued, self._slots = array("I"), array("I")
        self._head = 0

    def __len__(self) -> int:
        return len(self._slots) - self._head

    def append(self, slot: int, number: int, still_open: int, issued: "array[int]") -> None:
        """Let a forecast join, of which so many are open now."""
        self._issued.append(number & LOW)
        self._slots.append(slot)
        if len(self._slots) > 2 * still_open + SLACK:
            self._drop_closed(issued)

    def _drop_closed(self, issued: "array[int]") -> None:
        numbers, slots = (np.frombuffer(each, np.uint32)[self._head :] for each in (self._issued, self._slots))
        now = np.frombuffer(issued, np.int64)[slots]
        stand = (now >= 0) & (now & LOW == numbers)
        self._issued, self._slots = array("I", numbers[stand].tobytes()), array("I", slots[stand].tobytes())
        self._head = 0

    def first(self, issued: "array[int]") -> int:
        """Return the slot of the oldest open forecast; there must be one."""
        while not _stands(self._slots[self._head], self._issued[self._head], issued):
            self._head += 1
        return self._slots[self._head]


def _stands(slot: int, number: int, issued: "array[int]") -> bool:
    """Tell whether a slot still holds the forecast of that number, rather than a later one or none."""
    return issued[slot] >= 0 and issued[slot] & LOW == number
