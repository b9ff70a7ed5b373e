"""Tally: the additive statistics of every level, and of every group within it."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Self

import numpy as np

from swapcal.arrays import Array, Index
from swapcal.audit.levels import Levels
from swapcal.kernels import tally as kernel
from swapcal.tables.categories import Categories

THREAD_ROWS = 1 << 15
"""Below this many rows a second thread costs more than it saves."""


class Groups:
    """Scalar sums per level and category of one categorical column; categories may appear at any time."""

    def __init__(self, levels: int) -> None:
        self.names: list[str] = []
        self.table: Array = np.zeros((levels, 0, kernel.SCALARS))

    def codes(self, names: list[str]) -> Index:
        """Codes of the names, opening room for those not seen before."""
        known = {name: code for code, name in enumerate(self.names)}
        fresh = [name for name in names if name not in known]
        if fresh:
            self.names = [*self.names, *fresh]
            self.table = np.pad(self.table, ((0, 0), (0, len(fresh)), (0, 0)))
            known = {name: code for code, name in enumerate(self.names)}
        return np.array([known[name] for name in names], dtype=np.int32)

    def sorted(self) -> tuple[list[str], Array]:
        """Names and table in alphabetical order, so that the order of arrival leaves no trace."""
        order = np.argsort(self.names) if self.names else np.zeros(0, np.intp)
        return [self.names[i] for i in order], self.table[:, order]


class Tally:
    """Per level: the scalar table, g = Σα(y − p)x, G = Σαxxᵀ, H = Σα²p(1 − p)xxᵀ, and the group tables.

    Of G and H the lower triangles are summed.
    """

    def __init__(self, levels: Levels, d: int) -> None:
        self.levels = levels
        self.table: Array = np.zeros((len(levels), kernel.SCALARS))
        self.g: Array = np.zeros((len(levels), d))
        self.lower_G: Array = np.zeros((len(levels), d, d))
        self.lower_H: Array = np.zeros((len(levels), d, d))
        self.groups: dict[str, Groups] = {}

    def columns(self) -> list[tuple[str, tuple[str, ...], Array]]:
        """Every group column with its categories and their sums (L, K, SCALARS), in alphabetical order."""
        found = ((name, *self.groups[name].sorted()) for name in sorted(self.groups))
        return [(name, tuple(categories), table) for name, categories, table in found]

    def add(self, p: Array, y: Array, weights: Array, X: Array, groups: Mapping[str, Categories]) -> None:
        """Add checked rows."""
        self.refine(self.levels.grow(p))
        level = self.levels.index(p)
        for name, column in groups.items():
            self._add_group(name, column, level, p, y, weights)
        sums = (self.table, self.g, self.lower_G, self.lower_H)
        half = len(p) // 2 if len(p) >= THREAD_ROWS else 0
        spare = tuple(np.zeros_like(total) for total in sums) if half else ()
        with ThreadPoolExecutor(1) as pool:
            rest = slice(half, None)
            other = pool.submit(_run, level, p, y, weights, X, slice(0, half), spare) if half else None
            _run(level, p, y, weights, X, rest, sums)
            if other is not None:
                other.result()
        for mine, theirs in zip(sums, spare, strict=False):
            mine += theirs

    def _add_group(self, name: str, column: Categories, level: Index, p: Array, y: Array, weights: Array) -> None:
        group = self.groups.setdefault(name, Groups(len(self.levels)))
        codes = group.codes(column.names)[column.codes]
        kernel.add_groups(level, codes, p, y, weights, group.table)

    def refine(self, levels: Levels) -> None:
        """Move every sum to other levels, each of which is a union of the present ones."""
        if levels == self.levels:
            return
        count = len(levels)
        target = self._targets(levels)
        for name in ("table", "g", "lower_G", "lower_H"):
            setattr(self, name, _moved(getattr(self, name), target, count))
        for group in self.groups.values():
            group.table = _moved(group.table, target, count)
        self.levels = levels

    def _targets(self, levels: Levels) -> Index:
        if self.levels.values is None:
            raise ValueError("levels: given intervals, expected single values: intervals cannot be split")
        return levels.index(np.asarray(self.levels.values, dtype=float))

    def __iadd__(self, other: "Tally") -> Self:
        levels = self.levels.join(other.levels.values)
        self.refine(levels)
        theirs = deepcopy(other)
        theirs.refine(levels)
        self.table += theirs.table
        self.g += theirs.g
        self.lower_G += theirs.lower_G
        self.lower_H += theirs.lower_H
        for name, group in theirs.groups.items():
            mine = self.groups.setdefault(name, Groups(len(levels)))
            codes = mine.codes(group.names)
            mine.table[:, codes] += group.table
        return self

    @property
    def n(self) -> Array:
        """Mass of each level."""
        return self.table[:, kernel.MASS]

    @property
    def A(self) -> Array:
        """Summed residual of each level."""
        return self.table[:, kernel.RESIDUAL]

    @property
    def v(self) -> Array:
        """Mean prediction of each level: its value, or the mean in the interval (its middle if empty)."""
        if self.levels.values is not None:
            return np.array(self.levels.values, dtype=np.float64)
        n = self.n
        middle = np.array([sum(self.levels.bounds(i)) / 2 for i in range(len(n))])
        return np.where(n > 0, self.table[:, kernel.PREDICTED] / np.where(n > 0, n, 1.0), middle)

    @property
    def G(self) -> Array:
        """Σ α x xᵀ per level, symmetric."""
        return _symmetric(self.lower_G)

    @property
    def H(self) -> Array:
        """Covariance of g per level if the predictions are true, symmetric."""
        return _symmetric(self.lower_H)


def _run(level: Index, p: Array, y: Array, weights: Array, X: Array, rows: slice, sums: tuple[Array, ...]) -> None:
    kernel.tally(level[rows], p[rows], y[rows], weights[rows], X[rows], *sums)


def _moved(sums: Array, target: Index, count: int) -> Array:
    moved = np.zeros((count, *sums.shape[1:]))
    np.add.at(moved, target, sums)
    return moved


def _symmetric(lower: Array) -> Array:
    d = lower.shape[1]
    return lower + np.swapaxes(lower, 1, 2) * (1.0 - np.eye(d))
