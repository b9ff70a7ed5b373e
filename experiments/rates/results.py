"""Choosing and summarising results."""

from collections.abc import Iterable
from statistics import median
from typing import Any

from rates.plan import SYSTEMS

Result = dict[str, Any]

FAVOURITE_DIM = 5
"""The dimension that figures and tables show when it was measured."""


def chosen(rows: Iterable[Result], **fields: Any) -> list[Result]:
    """Return the rows with the given fields.

    Examples
    --------
    >>> chosen([{"dim": 2}, {"dim": 5}], dim=5)
    [{'dim': 5}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in fields.items())]


def medians(rows: list[Result], quantity: str, by: str = "rounds") -> list[tuple[float, float]]:
    """Return (horizon, median over seeds) in order.

    Examples
    --------
    >>> medians([{"rounds": 10, "q": 1.0}, {"rounds": 10, "q": 3.0}, {"rounds": 5, "q": None}], "q")
    [(10, 2.0)]
    """
    values: dict[float, list[float]] = {}
    for row in rows:
        if row.get(quantity) is not None:
            values.setdefault(row[by], []).append(row[quantity])
    return [(key, median(found)) for key, found in sorted(values.items())]


def present(rows: list[Result], field: str) -> list[Any]:
    """Return the distinct values of a field, in order of first appearance in the plan."""
    return list(dict.fromkeys(row[field] for row in rows))


def systems(rows: list[Result]) -> list[str]:
    """Return the systems that have rows, in the order of the legend."""
    found = set(present(rows, "system"))
    return [name for name in SYSTEMS if name in found]


def label(system: str) -> str:
    """Return the words for a system."""
    return SYSTEMS[system].label


def common_horizon(rows: list[Result]) -> int:
    """Return the longest horizon at which every system was run."""
    per_system = [set(present(chosen(rows, system=name), "rounds")) for name in systems(rows)]
    return int(max(set.intersection(*per_system)))


def shown_dim(rows: list[Result]) -> int:
    """Return the dimension to show.

    Examples
    --------
    >>> shown_dim([{"dim": 2}, {"dim": 20}])
    20
    """
    found = present(rows, "dim")
    return FAVOURITE_DIM if FAVOURITE_DIM in found else int(max(found))


def certified(rows: list[Result]) -> tuple[int, int]:
    """Return how many runs have a certificate, and how many of them hold."""
    with_proof = [row for row in rows if row.get("certified") is not None]
    return len(with_proof), sum(bool(row["certified"]) for row in with_proof)
