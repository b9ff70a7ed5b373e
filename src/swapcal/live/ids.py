"""Names of events: integers of any kind, and text."""

from typing import Any

import numpy as np

from swapcal.tables.values import has_bytes

Id = int | str

MOST_BITS = 256  # of an integer id; a UUID has 128


def checked_id(id: Any) -> Id:
    """Return an id as Python's int or str, or say why it is none."""
    if isinstance(id, str):
        if has_bytes(id):
            return str(id)
        raise ValueError(f"id: given {id!r} with a lone surrogate, expected Unicode text")
    if isinstance(id, bool) or not isinstance(id, int | np.integer) or isinstance(id, np.timedelta64):
        raise TypeError(f"id: given {type(id).__name__}, expected an int or str")
    if int(id).bit_length() > MOST_BITS:
        raise ValueError(f"id: given an integer of {int(id).bit_length()} bits, expected at most {MOST_BITS}")
    return int(id)


def is_id(id: Any) -> bool:
    """Tell whether `checked_id` would take an id as it is."""
    try:
        return type(checked_id(id)) is type(id)
    except (TypeError, ValueError):
        return False
