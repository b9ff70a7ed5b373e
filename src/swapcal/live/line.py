"""`Line`: open forecasts in order of issue."""

from array import array

SLACK = 1024  # closed forecasts that may stand in line before anybody looks


class Line:
    """Numbers and slots of forecasts, in order of issue; closed ones are dropped when they are as many as open ones.

    A slot holds another forecast once its own is closed, so each stands with its number: `issued[slot]` tells whether
    it still is the one.
    """

    def __init__(self) -> None:
        self._issued, self._slots = array("q"), array("q")
        self._head = 0

    def __len__(self) -> int:
        return len(self._slots) - self._head

    def append(self, slot: int, issued: "array[int]", still_open: int) -> None:
        """Let a forecast join, of which so many are open now."""
        self._issued.append(issued[slot])
        self._slots.append(slot)
        if len(self._slots) > 2 * still_open + SLACK:
            self._drop_closed(issued)

    def _drop_closed(self, issued: "array[int]") -> None:
        kept = [
            (number, slot)
            for number, slot in zip(self._issued[self._head :], self._slots[self._head :], strict=True)
            if issued[slot] == number
        ]
        self._issued, self._slots = array("q", (pair[0] for pair in kept)), array("q", (pair[1] for pair in kept))
        self._head = 0

    def first(self, issued: "array[int]") -> int:
        """Return the slot of the oldest open forecast; there must be one."""
        while issued[self._slots[self._head]] != self._issued[self._head]:
            self._head += 1
        return self._slots[self._head]
