"""The exact mixture of all T frozen forecasters, as the log of what each row changed."""

from dataclasses import dataclass

import numpy as np

from swapcal.arrays import Array, Integers, Keys
from swapcal.batch.mixture import Issued, Mixture, Snapshot, mixed, widened
from swapcal.kernels.batch import replay_issued, replay_mean

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
    >>> from swapcal.batch import Stream
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.full(300, 0.5), rng.uniform(-0.8, 0.8, 300)])
    >>> stream = Stream(2, log=True)
    >>> _ = stream.run(X, (rng.random(300) < 0.5 + 0.5 * X[:, 1]).astype(float))
    >>> history = stream.history()
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
        theta, members, levels = widened(self.theta), np.empty(len(self.z), np.int64), np.empty(len(self.z))
        log = (theta, self.slot, self.row, self.z, start, self.rounds)
        return np.array([replay_mean(*log, x, members, levels) for x in widened(X)])

    def issue(self, X: Array, keys: Keys, seed: int = 0) -> Issued:
        """Draw a round and a level for each row by its key: the theorem's predictor, exactly; O(d log L) per row."""
        by_slot = np.argsort(self.slot, kind="stable")
        offsets = np.searchsorted(self.slot[by_slot], np.arange(len(self.z) + 1))
        out, members, levels = np.empty((len(X), 4)), np.empty(len(self.z), np.int64), np.empty(len(self.z))
        replay_issued(
            widened(self.theta), self.row, by_slot, offsets, self._ascending(), self.z, self.rounds, widened(X), keys,
            mixed(seed), members, levels, out,
        )  # fmt: skip
        return Issued(*np.ascontiguousarray(out.T))

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
