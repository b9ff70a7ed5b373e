"""The exact mixture of all T frozen forecasters, as the log of what each row changed."""

from dataclasses import dataclass

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.batch.mixture import Issued, Mixture, Snapshot, mixed, widened
from swapcal.kernels.frozen import BySlot, Changes, Draws, Rungs, replay_issued, replay_mean

BEFORE = -1
"""Row number of what existed before the first row."""


@dataclass(frozen=True)
class History:
    """Every learner's every version: two vectors per row, one more per new level, represent all T forecasters exactly.

    Forecaster t is the one that row t met, made from rows 0 … t - 1. For i.i.d. rows the uniform mixture over t has,
    with probability 1 - δ, the errors of `swapcal.bounds.dsmcal2`, `dsmcal1`, `saerr` and `dsomni`.

    Attributes
    ----------
    theta : (changes, d) new weights, in the order they came about.
    slot : (changes,) whose.
    row : (changes,) after which row; -1 for what was there before the first.
    z : (slots,) the slots' levels.
    rounds : T.

    Examples
    --------
    >>> from swapcal.batch import Recorder
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.full(300, 0.5), rng.uniform(-0.8, 0.8, 300)])
    >>> recorder = Recorder(2, log=True)
    >>> _ = recorder.run(X, (rng.random(300) < 0.5 + 0.5 * X[:, 1]).astype(float))
    >>> history = recorder.history()
    >>> history.rounds, len(history.theta) <= 3 * history.rounds + 2
    (300, True)
    """

    theta: Array
    slot: Integers
    row: Integers
    z: Array
    rounds: int

    def snapshot(self, t: int) -> Snapshot:
        """Return forecaster t."""
        if not 0 <= t < self.rounds:
            raise ValueError(f"t: given {t}, expected a round from 0 to {self.rounds - 1}")
        known = np.flatnonzero(self.row < t)
        last = np.full(len(self.z), -1)
        last[self.slot[known]] = known  # of repeated slots numpy keeps the last
        order = self._ascending()
        order = order[last[order] >= 0]
        return Snapshot(self.z[order], self.theta[last[order]])

    def snapshots(self, count: int, rng: np.random.Generator) -> Mixture:
        """Return `count` forecasters at random rounds, one in each of as many equal stretches."""
        return Mixture.of([self.snapshot(int(t)) for t in stratified(count, self.rounds, rng)])

    def mean(self, X: Array) -> Array:
        """Return the mean of z* over all T forecasters, shape (n,); O(T d) per row."""
        start = int(np.count_nonzero(self.row == BEFORE))
        changes, rungs = self._changes(), self._rungs()
        return np.array([replay_mean(changes, start, x, rungs) for x in widened(X)])

    def issue(self, X: Array, keys: Keys, seed: int = 0) -> Issued:
        """Draw a round and a level for each row by its key: the theorem's predictor, exactly; O(d log L) per row."""
        change = np.argsort(self.slot, kind="stable")
        offset = np.searchsorted(self.slot[change], np.arange(len(self.z) + 1))
        by_slot, draws, out = BySlot(change, offset, self._ascending()), Draws(keys, mixed(seed)), np.empty((len(X), 4))
        replay_issued(self._changes(), by_slot, widened(X), draws, self._rungs(), out)
        return Issued(*np.ascontiguousarray(out.T))

    def _changes(self) -> Changes:
        return Changes(widened(self.theta), self.slot, self.row, self.z, self.rounds)

    def _rungs(self) -> Rungs:
        n = len(self.z)
        return Rungs(np.empty(n, np.int64), np.empty(n), np.arange(n))

    def _ascending(self) -> Integers:
        return np.argsort(self.z)


def stratified(count: int, rounds: int, rng: np.random.Generator) -> Integers:
    """Return `count` rounds, uniform in equal stretches of [0, rounds): each is equally likely to be drawn.

    Examples
    --------
    >>> stratified(4, 100, np.random.default_rng(0)) // 25
    array([0, 1, 2, 3])
    """
    edges = (np.arange(count) + rng.random(count)) * (rounds / count)
    return np.minimum(edges.astype(np.int64), rounds - 1)
