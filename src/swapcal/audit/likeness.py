"""Likeness: the groups that a direction resembles."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array
from swapcal.audit.design import FixedDesign
from swapcal.audit.sample import KeptRows, hash_names
from swapcal.report.schema import Resemblance

LEAST_CORRELATION = 0.15


class Likeness(NamedTuple):
    """Name of a group, its column, and the correlation of its indicator with a score."""

    group: str
    column: str
    correlation: float


def likenesses(score: Array, rows: KeptRows, design: FixedDesign, most: int = 3) -> list[Resemblance]:
    """Return the groups whose indicators correlate most with a score on the given rows."""
    mass = rows.copies * rows.weights
    total = mass.sum()
    if total <= 0 or not len(score):
        return []
    centred = score - np.dot(mass, score) / total
    spread = np.sqrt(np.dot(mass, centred**2) / total)
    found: list[Likeness] = []
    if spread > 1e-12:
        for name, categories, _ in design.columns:
            found += _column_likenesses(name, categories, rows.labels[name], mass / total, centred / spread)
    found.sort(key=lambda one: (-round(abs(one.correlation), 9), -one.correlation))
    return [
        {"group": one.group, "correlation": float(np.clip(one.correlation, -1.0, 1.0))}
        for one in _one_per_column(found)[:most]
        if abs(one.correlation) >= LEAST_CORRELATION
    ]


def _one_per_column(found: list[Likeness]) -> list[Likeness]:
    """Keep the likest group of every column: its complement says the same thing again."""
    kept: dict[str, Likeness] = {}
    for one in found:
        kept.setdefault(one.column, one)
    return list(kept.values())


def _column_likenesses(
    name: str, categories: tuple[str, ...], labels: NDArray[np.uint64], mass: Array, z: Array
) -> list[Likeness]:
    hashes = hash_names(list(categories))
    order = np.argsort(hashes)
    code = order[np.searchsorted(hashes[order], labels)]
    share = np.bincount(code, weights=mass, minlength=len(categories))
    cross = np.bincount(code, weights=mass * z, minlength=len(categories))
    width = np.sqrt(np.maximum(share * (1.0 - share), 0.0))  # shares that add up to more than 1 by rounding
    return [
        Likeness(f"{name} = {category}", name, float(cross[k] / width[k]))
        for k, category in enumerate(categories)
        if width[k] > 1e-9
    ]
