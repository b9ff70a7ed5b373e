"""`Limits`: how many forecasts may be open, for how long, and how long labels wait for each other."""

from typing import Any, NamedTuple

import numpy as np

from swapcal import inputs

REMEMBERED = 1_000_000  # labelled ids kept to recognise duplicates, and as many expired ones
ORDERS = ("arrival", "issue")


class Limits(NamedTuple):
    """How many forecasts may be open, and for how long."""

    max_open: int = REMEMBERED
    expires: int | None = None
    """later forecasts after which one expires, from its maturity"""
    lifetime: float | None = None
    """time after which one expires, from its maturity"""


NO_LIMITS = Limits()


def read_limits(max_open: Any, expires: Any, lifetime: Any) -> Limits:
    """Return the limits, or say which is none."""
    age = None if lifetime is None else inputs.positive("lifetime", lifetime)
    return Limits(_count("max_open", max_open), None if expires is None else _count("expires", expires), age)


def read_patience(order: Any, patience: Any) -> int | None:
    """Return how many forecasts a label waits for, None if it does not wait."""
    if order not in ORDERS:
        raise ValueError(f"order: given {order!r}, expected one of {', '.join(ORDERS)}")
    if (order == "issue") != (patience is not None):
        expected = "an integer of at least 1" if order == "issue" else 'none: it belongs to order "issue"'
        raise ValueError(f"patience: given {patience!r} with order {order!r}, expected {expected}")
    return None if patience is None else _count("patience", patience)


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value < 2**63:
        raise ValueError(f"{name}: given {value!r}, expected an integer of at least 1")
    return int(value)
