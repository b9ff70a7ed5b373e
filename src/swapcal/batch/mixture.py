"""Mixtures of frozen forecasters: K snapshots or the log of all T rounds, how they are recorded, several classes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from swapcal import _validate
from swapcal.archive import ArchiveError, State
from swapcal.arrays import Array, Integers, Keys
from swapcal.engine import state as memory
from swapcal.engine.certificate import Certificate, distance2_of
from swapcal.engine.forecast import CHUNK
from swapcal.engine.forecaster import Forecaster
from swapcal.kernels.batch import (
    BySlot,
    Changes,
    Draws,
    Rungs,
    Snapshots,
    issued_forecasts,
    mean_forecasts,
    replay_issued,
    replay_mean,
    replay_shares,
)
from swapcal.kernels.linalg import padded
from swapcal.kernels.state import LEVELS, T_MEAN, T_SLOT_LOW, Log, RunOptions, blank_log

# Simplex: probabilities of several classes, each learned against all others, made to sum to 1.

MOST_STEPS = 64


def to_simplex(p: Array) -> Array:
    """Return (n, classes) probabilities that sum to 1, by one shift of all log-odds of a row.

    q_k = σ(logit p_k + c) with Σ q_k = 1 minimises Σ_k KL(q_k ‖ p_k), the divergences being those of two outcomes. The
    set of q that sum to 1 is affine and holds every outcome e_y, so Pythagoras holds with equality, row by row:
    Σ_k (log loss of p_k) = Σ_k (log loss of q_k) + Σ_k KL(q_k ‖ p_k). The step can only lower that loss. All classes
    move the same way, so Σ_k |q_k - p_k| = |Σ_k p_k - 1|, the least that any q that sums to 1 can have.

    In odds o_k and t = e^c, Σ o_k t/(1 + o_k t) = 1: increasing and concave, so Newton from t = 1/Σ o_k, where the sum
    is at most 1, climbs to the solution without passing it; far away each step doubles t at least.

    Examples
    --------
    >>> to_simplex(np.array([[0.5, 0.2, 0.1], [0.2, 0.3, 0.5]])).round(3)
    array([[0.593, 0.267, 0.139],
           [0.2  , 0.3  , 0.5  ]])
    """
    odds = p / (1.0 - p)
    t = 1.0 / odds.sum(axis=1, keepdims=True)
    for _ in range(MOST_STEPS):
        q = odds * t / (1.0 + odds * t)
        short = 1.0 - q.sum(axis=1, keepdims=True)
        short[short <= 1e-15] = 0.0  # a row that has converged stays, whatever other rows need
        if not short.any():
            break
        t = t * (1.0 + short / (q * (1.0 - q)).sum(axis=1, keepdims=True))
    return np.asarray(q / q.sum(axis=1, keepdims=True))


# A uniform mixture of frozen forecasters, kept as K snapshots.


class Snapshot(NamedTuple):
    """One frozen forecaster: increasing levels (L,) and their learners' weights (L, d). Nothing else is needed."""

    z: Array
    theta: Array


class IssuedRows(NamedTuple):
    """Issued levels `p` of many rows, each drawn from {low, high} with probability `weight` of `high`."""

    p: Array
    low: Array
    high: Array
    weight: Array


@dataclass(frozen=True)
class Mixture:
    """K forecasters frozen at uniformly random rounds, whose mean is on average that of all T.

    A learner that did not change between two snapshots is kept once. The batch theorems are about the mixture of all
    rounds (`History`), not about this one: errors are convex in the mixture, so by Jensen's inequality K snapshots have
    larger ones on average. Nor do they cover `mean`, which is the better single number in squared and log loss.

    Attributes
    ----------
    pool : (vectors, width) the distinct learners, with zeros up to a multiple of four coordinates.
    members : (K, L) which of them each level uses; only the first counts[k] of row k mean anything.
    z : (K, L) levels.
    counts : (K,) number of levels.
    dim : d.

    Examples
    --------
    >>> levels, weights = np.array([0.0, 0.5, 1.0]), np.array([[0.6, 0], [0.8, 0], [2, 0]])
    >>> mixture = Mixture.of([Snapshot(levels, weights), Snapshot(levels, weights)])
    >>> len(mixture.pool), mixture.mean(np.array([[0.5, 0.1]])).round(3)
    (3, array([0.375]))
    """

    pool: Array
    members: Integers
    z: Array
    counts: Integers
    dim: int

    @classmethod
    def of(cls, snapshots: Sequence[Snapshot]) -> "Mixture":
        """Return the uniform mixture of snapshots, sharing equal learners."""
        if not snapshots:
            raise ValueError("snapshots: given none, expected at least one")
        counts = np.array([len(snapshot.z) for snapshot in snapshots])
        members, z = np.zeros((2, len(snapshots), counts.max()))
        seen: dict[bytes, int] = {}
        pool: list[Array] = []
        for k, snapshot in enumerate(snapshots):
            z[k, : counts[k]] = snapshot.z
            for i, theta in enumerate(snapshot.theta):
                place = seen.setdefault(theta.tobytes(), len(pool))
                if place == len(pool):
                    pool.append(theta)
                members[k, i] = place
        return cls(widened(np.array(pool)), members.astype(np.int64), z, counts, snapshots[0].theta.shape[1])

    def __len__(self) -> int:
        return len(self.counts)

    def mean(self, X: Array) -> Array:
        """Return the mean of z* over the snapshots, shape (n,): best squared error, not covered by the swap theorem."""
        out = np.empty(len(X))
        mean_forecasts(self._snapshots(), widened(X), out)
        return out

    def issue(self, X: Array, keys: Keys, seed: int = 0) -> IssuedRows:
        """Draw a snapshot and a level for each row by its key; rows with one key share one draw."""
        out = np.empty((len(X), 4))
        issued_forecasts(self._snapshots(), widened(X), Draws(keys, mixed(seed)), out)
        return IssuedRows(*np.ascontiguousarray(out.T))

    def _snapshots(self) -> Snapshots:
        return Snapshots(self.pool, self.members, self.z, self.counts, np.arange(self.z.shape[1]))


def widened(X: Array) -> Array:
    """Return X with columns of zeros up to a multiple of four, as the kernels need it."""
    width = padded(X.shape[1])
    if width == X.shape[1]:
        return np.ascontiguousarray(X)
    wide = np.zeros((len(X), width))
    wide[:, : X.shape[1]] = X
    return wide


def mixed(seed: int) -> np.uint64:
    """Return the seed with its bits spread, as the draws need it."""
    return np.uint64(_validate.event_key(_validate.seed(seed)))


# The exact mixture of all T frozen forecasters, as the log of what each row changed.

BEFORE = -1
"""Row number of learners from before the first row."""


@dataclass(frozen=True)
class History:
    """Every learner's every version: two vectors per row, one more per new level, represent all T forecasters exactly.

    Forecaster t is the one that row t met, made from rows 0 … t - 1. For i.i.d. rows of equal weight, streamed once,
    with contexts that do not depend on their labels, the uniform mixture over t has, with probability 1 - δ, the errors
    of `swapcal.bounds.adaptive_dsmcal2`, `adaptive_dsmcal1`, `adaptive_saerr` and `adaptive_dsomni` on self-refining
    levels, and of `dsmcal2`, `dsmcal1`, `saerr` and `dsomni` on a uniform grid.

    Attributes
    ----------
    theta : (changes, d) new weights, in the order they came about.
    slot : (changes,) the slot changed.
    row : (changes,) after which row; -1 for learners from before the first.
    z : (slots,) the slots' levels.
    rounds : T.

    Examples
    --------
    >>> from swapcal.batch import SnapshotRun
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.full(300, 0.5), rng.uniform(-0.8, 0.8, 300)])
    >>> recorder = SnapshotRun(2, log=True)
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
        changes, start, rungs = self._changes, self._start, self._rungs()
        return np.array([replay_mean(changes, start, x, rungs) for x in widened(X)])

    def shares(self, X: Array) -> tuple[Array, Array]:
        """Return all levels (L,), increasing, and how likely `issue` is to issue each for every row, (n, L).

        They make the errors of the theorems exact where contexts are finitely many; O(T d) per row.
        """
        changes, start, rungs, shares = self._changes, self._start, self._rungs(), np.zeros((len(X), len(self.z)))
        for x, out in zip(widened(X), shares, strict=True):
            replay_shares(changes, start, x, rungs, out)
        order = self._ascending()
        return self.z[order], shares[:, order] / self.rounds

    def issue(self, X: Array, keys: Keys, seed: int = 0) -> IssuedRows:
        """Draw a round and a level for each row by its key: the theorem's predictor, exactly; O(L log T) per row.

        Random keys give the theorem as stated. Keys that are a function of the row give it in so far as they are
        distinct: rows with one key share one draw.
        """
        draws, out = Draws(keys, mixed(seed)), np.empty((len(X), 4))
        replay_issued(self._changes, self._by_slot, widened(X), draws, self._rungs(), out)
        return IssuedRows(*np.ascontiguousarray(out.T))

    @cached_property
    def _changes(self) -> Changes:
        return Changes(widened(self.theta), self.slot, self.row, self.z, self.rounds)

    @cached_property
    def _by_slot(self) -> BySlot:
        change = np.argsort(self.slot, kind="stable")
        offset = np.searchsorted(self.slot[change], np.arange(len(self.z) + 1))
        return BySlot(change, offset, self._ascending())

    @cached_property
    def _start(self) -> int:
        return int(np.count_nonzero(self.row == BEFORE))

    def to_state(self) -> State:
        """Return the arrays; `from_state` needs the number of rounds beside them."""
        return State({name: getattr(self, name) for name in ("theta", "slot", "row", "z")}, {})

    @classmethod
    def from_state(cls, state: State, rounds: int) -> "History":
        """Return the history that `to_state` wrote. Raises ArchiveError without two levels or a level's learner."""
        self = cls(**state.arrays, rounds=rounds)
        if len(np.unique(self.slot)) != len(self.z) or len(np.unique(self.z)) != len(self.z):
            raise ArchiveError("history: given a level twice or without a learner, expected each once, with one")
        if len(np.unique(self.slot[self.row == BEFORE])) < 2:
            raise ArchiveError("history: given fewer than two levels before the first row, expected two or more")
        return self

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


# A forecaster over a table, with the forecasters of chosen rounds kept, or of all of them.

NO_DRAW = np.ones(1, np.uint64)
"""A fixed event: the draws are not used, so the context needs no fingerprint."""


class SnapshotRun:
    """Runs a `swapcal.Forecaster` over rows in the order given, and keeps snapshots of it.

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
        means, snapshots = np.empty(len(y)), []
        tickets = memory.blank_tickets(min(len(y), CHUNK))
        stops = [] if at is None else at.tolist()
        for start, stop in pairwise([0, *stops, len(y)]):
            for begin in range(start, stop, CHUNK):
                part = slice(begin, min(stop, begin + CHUNK))
                means[part] = self._learn(X[part], y[part], weights[part], tickets)
                if progress is not None:
                    progress(part.stop - begin)
            snapshots.append(self.snapshot())
        return means, snapshots[: len(stops)]

    def distance2(self, target: str) -> float:
        """Return B² of fixed levels, the largest ‖θ - prior‖² over levels and comparators of "sreg" or "smcal"."""
        return distance2_of(self._forecaster._state, self._forecaster.dim, target)

    def history(self) -> History:
        """Return the exact log; needs ``log=True``."""
        if self._log is None:
            raise ValueError("log: given False, expected True at construction; without it changes are not kept")
        slot, row, theta = (np.concatenate([part[k] for part in self._log]) for k in range(3))
        self._log = [Log(slot, row, theta, np.array([len(slot)]))]  # once in memory
        state = self._forecaster._state
        return History(theta, slot, row, state.z[: state.counts[LEVELS]].copy(), self.rounds)

    def certificate(self) -> Certificate:
        """Return the exact pseudo errors on the rows learned, with their bounds; no level is issued during a fit."""
        certificate = replace(self._forecaster.certificate(), issued=None)
        return replace(certificate, theorem=None, theorem_psmcal=None) if self._weighted else certificate

    def _learn(self, X: Array, y: Array, weights: Array, tickets: Array) -> Array:
        """Learn rows of one chunk; return their means. `tickets` is room for them."""
        forecaster, before, issued = self._forecaster, self.rounds, tickets[: len(y)]
        issued[:, T_SLOT_LOW] = -1.0
        log = blank_log(0 if self._log is None else len(y), forecaster.dim)
        forecaster._advance(X, y, NO_DRAW, issued, forecaster._blank_mixes(1), RunOptions(weights, log))
        if self._log is not None:
            n = int(log.size[0])
            self._log.append(Log(log.slot[:n].copy(), log.row[:n] + before, log.theta[:n].copy(), log.size))
        return issued[:, T_MEAN]

    def _beginning(self) -> Log:
        """Return the learners there are before the first row, as changes."""
        state, n = self._forecaster._state, len(self._forecaster.levels)
        theta = state.theta[:n, : self._forecaster.dim].copy()
        return Log(np.arange(n), np.full(n, BEFORE), theta, np.array([n]))
