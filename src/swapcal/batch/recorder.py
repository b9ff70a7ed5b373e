"""A forecaster over a table, with the forecasters of chosen rounds kept, or of all of them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from swapcal.arrays import Array, Integers
from swapcal.batch.history import BEFORE, History
from swapcal.batch.mixture import Snapshot
from swapcal.engine import state as memory
from swapcal.engine.certificate import Certificate
from swapcal.engine.forecaster import Forecaster
from swapcal.engine.player import CHUNK
from swapcal.kernels.company import Company, Log, blank_log
from swapcal.kernels.state import LEVELS, T_MEAN, T_SLOT_LOW

NO_DRAW = np.ones(1, np.uint64)
"""Some event, so that the draws, which nobody looks at, cost no fingerprint of the context."""


class Recorder:
    """Runs a `swapcal.Forecaster` over rows in the order given, and keeps what it was on the way.

    A row may count with a weight w ≥ 0. The learners' regret against any θ is
    λ‖θ - prior‖² + Σ (wα)²(wish - y)² q/(1 + wαq) whatever the weights and the prior, so the certificate's exact errors
    and data-dependent bound, now of weighted sums, hold as they do online. The worst-case theorem needs wα ≤ 1 and is
    not claimed once a weight differs from 1.

    Parameters
    ----------
    dim, levels, prior, ridge, kappa : as in `swapcal.Forecaster`.
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
        self._forecaster = Forecaster(dim, levels=levels, prior=prior, ridge=ridge, kappa=kappa)
        self._weighted = False
        self._log: list[Log] | None = [self._beginning()] if log else None

    @property
    def rounds(self) -> int:
        """Number of rows learned."""
        return self._forecaster.rounds

    def snapshot(self) -> Snapshot:
        """Return the present forecaster, frozen."""
        state = self._forecaster._state
        slots = memory.slots_in_order(state)
        return Snapshot(state.z[slots], state.theta[slots, : self._forecaster.dim])

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
        X, y = np.ascontiguousarray(X), np.ascontiguousarray(y)  # another layout would compile the kernel anew
        weights = np.ones(len(y)) if weight is None else np.ascontiguousarray(weight)
        self._weighted |= bool((weights != 1.0).any())
        means, kept = np.empty(len(y)), []
        tickets = memory.blank_tickets(min(len(y), CHUNK))
        stops = [] if at is None else at.tolist()
        for start, stop in pairwise([0, *stops, len(y)]):
            for begin in range(start, stop, CHUNK):
                part = slice(begin, min(stop, begin + CHUNK))
                means[part] = self._learn(X[part], y[part], weights[part], tickets)
                if progress is not None:
                    progress(part.stop - begin)
            kept.append(self.snapshot())
        return means, kept[: len(stops)]

    def history(self) -> History:
        """Return the exact log; needs ``log=True``."""
        if self._log is None:
            raise ValueError("log: given False, expected True at construction; without it changes are not kept")
        slot, row, theta = (np.concatenate([part[k] for part in self._log]) for k in range(3))
        state = self._forecaster._state
        return History(theta, slot, row, state.z[: state.counts[LEVELS]].copy(), self.rounds)

    def certificate(self) -> Certificate:
        """Return the exact pseudo errors on the rows learned, with their bounds."""
        found = self._forecaster.certificate()
        return replace(found, theorem=None, theorem_psmcal=None) if self._weighted else found

    def _learn(self, X: Array, y: Array, weights: Array, tickets: Array) -> Array:
        """Learn rows of one chunk; return their means. `tickets` is room for them."""
        forecaster, before, issued = self._forecaster, self.rounds, tickets[: len(y)]
        issued[:, T_SLOT_LOW] = -1.0
        log = blank_log(0 if self._log is None else len(y), forecaster.dim)
        forecaster._advance(X, y, NO_DRAW, issued, forecaster._blank_mixes(1), Company(weights, log))
        if self._log is not None:
            n = int(log.size[0])
            self._log.append(Log(log.slot[:n].copy(), log.row[:n] + before, log.theta[:n].copy(), log.size))
        return issued[:, T_MEAN]

    def _beginning(self) -> Log:
        """Return the learners there are before the first row, as changes."""
        state, n = self._forecaster._state, len(self._forecaster.levels)
        theta = state.theta[:n, : self._forecaster.dim].copy()
        return Log(np.arange(n), np.full(n, BEFORE), theta, np.array([n]))
