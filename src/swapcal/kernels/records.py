"""Where records of delimited text end."""

from swapcal.arrays import Bytes
from swapcal.kernels.jit import jit

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
