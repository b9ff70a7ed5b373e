"""Names of events: integers of any kind, and text."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from swapcal.arrays import Bytes
from swapcal.tables.values import has_bytes, letters

Id = int | str

MOST_BITS = 256  # of an integer id; a UUID has 128
FEW = 2**63


def checked_id(id: Any) -> Id:
    """Return an id as Python's int or str, or say why it is none."""
    if type(id) is int and -FEW < id < FEW:  # what most are, many times a second
        return id
    if isinstance(id, str):
        if has_bytes(id):
            return letters(id)
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


def packed(ids: Iterable[Id]) -> Bytes:
    """Return ids as JSON, which tells 1 from "1"."""
    return np.frombuffer(json.dumps([*ids]).encode(), np.uint8)


def unpacked(octets: Bytes) -> list[Id]:
    """Return the ids that `packed` wrote."""
    ids: list[Id] = json.loads(octets.tobytes())
    return ids
