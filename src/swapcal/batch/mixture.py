"""A uniform mixture of frozen forecasters, kept as K snapshots."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from swapcal import inputs
from swapcal.arrays import Array, Integers, Keys
from swapcal.kernels.frozen import Draws, Snapshots, issued_forecasts, mean_forecasts
from swapcal.kernels.linalg import padded


class Snapshot(NamedTuple):
    """One frozen forecaster: increasing levels (L,) and their learners' weights (L, d). Nothing else is needed."""

    z: Array
    theta: Array


class Issued(NamedTuple):
    """Issued levels `p` of many rows, each drawn from {low, high} with probability `weight` of `high`."""

    p: Array
    low: Array
    high: Array
    weight: Array


@dataclass(frozen=True)
class Mixture:
    """K forecasters frozen at uniformly random rounds: an unbiased compression of the mixture of all T.

    A learner that did not change between two snapshots is kept once. For i.i.d. rows the mixture of all rounds has,
    with probability 1 - δ, the errors of `swapcal.bounds.dsmcal2`, `dsmcal1`, `saerr` and `dsomni`; those theorems are
    about `issue`, which draws a snapshot and then a level. With K snapshots they hold in expectation over the rounds
    drawn. They say nothing about `mean`, which is the better single number in squared and log loss.

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

    def issue(self, X: Array, keys: Keys, seed: int = 0) -> Issued:
        """Draw a snapshot and a level for each row by its key: the theorem's predictor.

        Random keys give the theorem as stated; keys that are a hash of the row make the prediction a fixed function of
        the row, and then the theorem holds in expectation over the seed.
        """
        out = np.empty((len(X), 4))
        issued_forecasts(self._snapshots(), widened(X), Draws(keys, mixed(seed)), out)
        return Issued(*np.ascontiguousarray(out.T))

    def _snapshots(self) -> Snapshots:
        return Snapshots(self.pool, self.members, self.z, self.counts, np.arange(self.z.shape[1]))


def widened(X: Array) -> Array:
    """Return X with columns of zeros up to a multiple of four, as the kernels want it."""
    width = padded(X.shape[1])
    if width == X.shape[1]:
        return np.ascontiguousarray(X)
    wide = np.zeros((len(X), width))
    wide[:, : X.shape[1]] = X
    return wide


def mixed(seed: int) -> np.uint64:
    """Return the seed with its bits spread, as the draws want it."""
    return np.uint64(inputs.event_key(inputs.seed(seed)))
