"""One pass of the online engine over a table, with the forecasters of chosen rounds kept."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.batch.history import BEFORE, History
from swapcal.batch.mixture import Snapshot
from swapcal.engine import grid
from swapcal.engine import state as memory
from swapcal.engine.certificate import Certificate, certify
from swapcal.kernels.batch import CHANGES, learn_rows
from swapcal.kernels.state import HEDGE, LEVELS, RIDGE_LEARNER, UPDATES

CHUNK = 8192
SPARE_SLOTS = 6


class Change(NamedTuple):
    """A stretch of the log."""

    theta: Array
    slot: Integers
    row: Integers


class Stream:
    """Hedge × clipped ridge over rows in the order given, from a prior of the caller's choice.

    The same kernels as `swapcal.Forecaster`, with two additions: a row may count with a weight w ≥ 0, and learners may
    start from a common prior instead of their level. The learners' regret against any θ is
    λ‖θ - prior‖² + Σ (wα)²(wish - y)² q/(1 + wαq) whatever the weights and the prior, so the certificate's exact errors
    and data-dependent bound, now of weighted sums, hold as they do online. The worst-case theorem needs wα ≤ 1 and is
    not claimed once a weight differs from 1.

    Parameters
    ----------
    dim : number of coordinates of a context.
    levels : as in `swapcal.Forecaster`.
    prior : (dim,) the weights from which every learner starts; by default level z starts at 2z e_1, which forecasts z.
    ridge, kappa : as in `swapcal.Forecaster`.
    log : keep every change, for `history`.
    """

    def __init__(
        self,
        dim: int,
        *,
        levels: Any = "adaptive",
        prior: Array | None = None,
        ridge: float = 1.0,
        kappa: float = 0.2,
        log: bool = False,
    ) -> None:
        z, adaptive = grid.starting(levels)
        self.dim, self._adaptive = dim, adaptive
        self._uniform, self._weighted = isinstance(levels, int), False
        codes, knobs = [RIDGE_LEARNER, HEDGE, int(adaptive)], [ridge, kappa, 0.0, ridge]
        self._state = memory.allocate(z, dim, len(z) + SPARE_SLOTS * adaptive, codes, knobs, seed=0, start=prior)
        self._scratch = memory.scratch(self._state)
        self._log: list[Change] | None = [self._beginning(len(z))] if log else None

    @property
    def rounds(self) -> int:
        """Number of rows learned."""
        return int(self._state.counts[UPDATES])

    def snapshot(self) -> Snapshot:
        """Return the present forecaster, frozen."""
        slots = memory.slots_in_order(self._state)
        return Snapshot(self._state.z[slots], self._state.theta[slots, : self.dim])

    def run(
        self,
        X: Array,
        y: Array,
        weight: Array | None = None,
        at: Integers | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[Array, list[Snapshot]]:
        """Forecast, then learn, row by row.

        Parameters
        ----------
        X, y, weight : (n, dim) contexts, (n,) labels in [0, 1], (n,) weights (1 by default)
        at : increasing row numbers; the forecaster that each of these rows meets is kept
        progress : called with the number of rows done since the last call

        Returns
        -------
        The mean forecast of every row before its label was used, and the snapshots.
        """
        weight = np.ones(len(y)) if weight is None else np.ascontiguousarray(weight)
        X, y = np.ascontiguousarray(X), np.ascontiguousarray(y)  # another layout would compile the kernel anew
        self._weighted |= bool((weight != 1.0).any())
        means, kept = np.empty(len(y)), []
        stops = [] if at is None else at.tolist()
        position = 0
        for stop in [*stops, len(y)]:
            while position < stop:
                end = min(stop, position + CHUNK)
                self._learn(X, y, weight, means, position, end)
                if progress is not None:
                    progress(end - position)
                position = end
            kept.append(self.snapshot())
        return means, kept[: len(stops)]

    def history(self) -> History:
        """Return the exact log; needs ``log=True``."""
        if self._log is None:
            raise ValueError("log: given False, expected True at construction; without it changes are not kept")
        theta, slot, row = (np.concatenate([getattr(part, name) for part in self._log]) for name in Change._fields)
        return History(theta, slot, row, self._state.z[: self._state.counts[LEVELS]].copy(), self.rounds)

    def certificate(self) -> Certificate:
        """Return the exact pseudo errors on the rows learned, with their bounds."""
        found = certify(self._state, self.dim, "ridge", uniform=self._uniform, adaptive=self._adaptive)
        return replace(found, theorem=None, theorem_psmcal=None) if self._weighted else found

    def _learn(self, X: Array, y: Array, weight: Array, means: Array, start: int, stop: int) -> None:
        rows = (stop - start) * CHANGES if self._log is not None else 0
        slot, row, theta = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty((rows, self.dim))
        size, done, before = np.zeros(1, np.int64), start, self.rounds
        while (
            done := learn_rows(self._state, self._scratch, X[:stop], y, weight, means, slot, row, theta, size, done)
        ) < stop:
            self._state = memory.with_slots(self._state, int(self._state.counts[LEVELS]) * 3 // 2 + SPARE_SLOTS)
        if self._log is not None:
            n = int(size[0])
            self._log.append(Change(theta[:n].copy(), slot[:n].copy(), row[:n] + (before - start)))

    def _beginning(self, levels: int) -> Change:
        theta = self._state.theta[:levels, : self.dim].copy()
        return Change(theta, np.arange(levels), np.full(levels, BEFORE))
