"""The scan: one simultaneous test over all groups, features and ranges of predictions.

A cell is a window of adjacent levels (one level, two, four, … all) together with a function f: a group's
indicator, a feature less its mean in the window, or the constant. Its score is |z| − Γ with
z = Σ α f(x)(y − p) / √(Σ α² f² p(1 − p)) and Γ = √(2 log(V_f / V_cell)), the price of looking at a small part of
f's variance; without it the many small windows would drown the few large ones. The test statistic is the
largest score of all cells; its null distribution is simulated, so the p-value accounts for every cell looked at.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Flags, Places
from swapcal.audit.design import FixedDesign, Residuals
from swapcal.kernels.tally import scan_maxima

LEAST_VARIANCE = 10.0
"""Cells with fewer expected events than this have no trustworthy z."""


class Cell(NamedTuple):
    """One window of levels [first, last] and one function, with its penalised and plain score."""

    window: int
    first: int
    last: int
    function: int
    score: float
    z: float


class ScanStatistic:
    """The family of cells of a design: which functions, which windows, their variances and penalties.

    Functions are numbered: the chosen context coordinates first (the constant is the first of them), then all
    groups.
    """

    def __init__(self, design: FixedDesign, coordinates: Places, unit: float = 1.0) -> None:
        self.coordinates = coordinates
        self.windows = _windows(len(design.n))
        constant = self._sum(design.G[None, :, 0][:, :, coordinates])[0]
        mean = constant / np.where(constant[:, :1] > 0, constant[:, :1], 1.0)
        mean[:, 0] = 0.0
        self.squares = self._about(mean, design.G)
        self.centre = np.concatenate([mean, np.zeros((len(mean), design.group_variance.shape[1]))], axis=1)
        typical = self.squares[-1] / max(float(design.n.sum()), 1e-300)
        worth = np.concatenate([np.maximum(typical, 1e-300), np.ones(design.group_variance.shape[1])])
        coins = self._variance(mean, design, np.ones_like(design.spread))
        usable = coins >= LEAST_VARIANCE * unit * worth
        variance = self._variance(mean, design, design.spread) if design.fractional.any() else coins
        self._root, self._penalty = _prices(variance, usable)

    def _variance(self, mean: Array, design: FixedDesign, spread: Array) -> Array:
        """Variance of every cell if outcomes have `spread` (L,) times the variance of coins, (windows, functions)."""
        contexts = self._about(mean, spread[:, None, None] * design.H)
        return np.concatenate([contexts, self._sum((spread[:, None] * design.group_variance)[None])[0]], axis=1)

    def _about(self, mean: Array, M: Array) -> Array:
        """Per window and coordinate, second moments (L, d, d) about a mean in units of the constant."""
        j = self.coordinates
        first, squares = (self._sum(part[None][:, :, j])[0] for part in (M[:, 0], np.einsum("ldd->ld", M)))
        return np.asarray(squares - 2.0 * mean * first + mean**2 * first[:, :1])

    def _sum(self, per_level: Array) -> Array:
        """Sum (B, L, F) values over every window."""
        total = np.cumsum(per_level, axis=1)
        total = np.concatenate([np.zeros_like(total[:, :1]), total], axis=1)
        return np.asarray(total[:, self.windows[:, 1] + 1] - total[:, self.windows[:, 0]])

    def sums(self, r: Residuals) -> Array:
        """Σ α f(x)(y − p) of every cell, (B, windows, functions)."""
        raw = self._sum(np.concatenate([r.g[:, :, self.coordinates], r.S], axis=2))
        return np.asarray(raw - self.centre * raw[:, :, :1])

    def scores(self, r: Residuals) -> tuple[Array, Array]:
        """Penalised |z| and z of every cell, (B, windows, functions); −∞ and 0 where a cell is unusable."""
        z = self.sums(r) / self._root
        return np.where(np.isfinite(self._root), np.abs(z) - self._penalty, -np.inf), z

    def measure(self, design: FixedDesign, r: Residuals) -> Array:
        """Largest score of every draw (0 if no cell is usable)."""
        del design
        best = np.empty(len(r.g))
        for values, part in self._blocks(r):
            found = np.empty(len(r.g))
            scan_maxima(values, self.windows, self.centre[:, part], self._root[:, part], self._penalty[:, part], found)
            best = found if part.start == 0 else np.maximum(best, found)
        return np.where(np.isfinite(best), best, 0.0)

    def _blocks(self, r: Residuals) -> Iterator[tuple[Array, slice]]:
        count = len(self.coordinates)
        yield np.ascontiguousarray(r.g[:, :, self.coordinates]), slice(0, count)
        if r.S.shape[2]:
            yield r.S, slice(count, count + r.S.shape[2])

    def cells(self, r: Residuals) -> list[Cell]:
        """Best window of every function, highest score first."""
        score, z = (part[0] for part in self.scores(r))
        found = []
        for f in range(score.shape[1]):
            w = int(score[:, f].argmax())
            if np.isfinite(score[w, f]):
                first, last = self.windows[w]
                found.append(Cell(w, int(first), int(last), f, float(score[w, f]), float(z[w, f])))
        return sorted(found, key=lambda cell: (-cell.score, cell.function))


def _prices(variance: Array, usable: Flags) -> tuple[Array, Array]:
    """Return every cell's standard deviation (infinite if it is not usable) and penalty."""
    usable = usable & (variance > 0)
    root = np.sqrt(variance, where=usable, out=np.full_like(variance, np.inf))
    part = np.divide(variance, variance[-1], where=usable, out=np.ones_like(variance))
    return root, np.sqrt(-2.0 * np.log(np.minimum(part, 1.0)))


def _windows(levels: int) -> Places:
    """Aligned windows of 1, 2, 4, … levels, and the whole range last."""
    found, size = [], 1
    while size < levels:
        found += [(start, min(start + size, levels) - 1) for start in range(0, levels, size)]
        size *= 2
    return np.array([*found, (0, levels - 1)], dtype=np.intp)
