"""Gupta et al., Noarov et al., Ghuge et al.: online multicalibration over a finite list of groups."""

from collections.abc import Callable
from math import log, sqrt
from typing import Any, ClassVar, Self

import numpy as np

from swapcal.arrays import Array
from swapcal.baselines.online import OnlineBaseline, cells
from swapcal.kernels.baseline_cells import GROUPS, NUDGE, BaselineState
from swapcal.kernels.linalg import padded

Memberships = Callable[[Array], Array]


def halves(X: Array) -> Array:
    """Return memberships (n, 2d − 1): everyone, then x_k > 0 and x_k ≤ 0 for each coordinate but the constant.

    Examples
    --------
    >>> halves(np.array([[0.5, 0.2]]))
    array([[1., 1., 0.]])
    """
    positive = X[:, 1:] > 0
    return np.hstack([np.ones((len(X), 1)), positive, ~positive])


class GroupMulticalibration(OnlineBaseline):
    """Multicalibration over finitely many groups against any adversary (Gupta et al. 2022, Noarov et al. 2023).

    m buckets of equal width. Every group g and bucket i keep V = Σ g(x)(y − p) over the rounds with p in bucket i. The
    pull of bucket i at a context is

        C_i(x) = Σ_g g(x) [exp(ηV_{g,i}) − exp(−ηV_{g,i})].

    At the first border where C changes sign, the two sides of the border are played, ε apart, with probabilities that
    cancel Σ P_i C_i. If all C_i > 0 the forecast is 1; if all are below 0, it is 0.

    Guarantee, from the potential Σ_{g,i} 2cosh(ηV_{g,i}), which grows in expectation by a factor of at most
    1 + ηε + η² a round (exp(a) ≤ 1 + a + a² for |a| ≤ 1):

        E max_{g,i} |V_{g,i}| ≤ ln(2|G|m)/η + (η + ε)T = 2√(T ln(2|G|m)) + εT   at η = √(ln(2|G|m)/T).

    That is for every group and bucket; summed over buckets, ℓ1 multicalibration of order m√T. Cost: O(|G| m) a round.

    Parameters
    ----------
    dim, horizon, seed : as for all baselines
    levels : m; T^{1/3} by default
    groups : function from contexts (n, dim) to memberships (n, |G|) in [0, 1]; `halves` by default. It is not saved.

    Assumed: the horizon is known (variants without it scale each exponent by the rounds seen); ε = 1/(m max(1000, T)).

    Examples
    --------
    >>> forecaster = GroupMulticalibration(dim=3, horizon=1000)
    >>> forecaster.update(forecaster.predict([0.5, 0.1, -0.2]), 1)
    >>> forecaster
    GroupMulticalibration(dim=3, levels=9, rounds=1)
    """

    SYSTEM: ClassVar[int] = GROUPS

    def __init__(
        self,
        dim: int,
        *,
        horizon: int = 10_000,
        levels: int | None = None,
        groups: Memberships = halves,
        seed: int = 0,
    ) -> None:
        self._groups = groups
        super().__init__(dim, horizon=horizon, levels=levels, seed=seed)

    @property
    def levels(self) -> Array:
        """The values a forecast may take: 0, 1, and both sides of every border."""
        borders = self._cells.z[1:]
        return np.sort(np.concatenate([[0.0, 1.0], borders, borders - self._cells.knobs[NUDGE]]))

    @classmethod
    def load(cls, path: Any, groups: Memberships = halves) -> Self:
        """Return the baseline saved at `path`, with the groups it was made with."""
        self = super().load(path)
        self._groups = groups
        return self

    def _allocate(self, n: int) -> BaselineState:
        probe = np.zeros((1, self._dim))
        probe[0, 0] = 0.5
        columns = padded(self._memberships(probe).shape[1])
        step = sqrt(log(2 * n * columns) / self._horizon)
        nudge = 1.0 / (n * max(1000, self._horizon))
        knobs = (min(step, 1.0), nudge)
        blank = cells(np.arange(n) / n, self.SYSTEM, self._seed, width=columns, columns=columns, knobs=knobs)
        blank.seen[:] = 1.0
        return blank

    def _features(self, X: Array) -> Array:
        found = self._memberships(X)
        if found.shape[1] > self._cells.seen.shape[1]:
            raise ValueError(
                f"groups: given {found.shape[1]} memberships, expected at most {self._cells.seen.shape[1]}"
            )
        return found

    def _memberships(self, X: Array) -> Array:
        found = np.ascontiguousarray(self._groups(X), dtype=np.float64)
        if found.ndim != 2 or len(found) != len(X):
            raise ValueError(f"groups: given memberships of shape {found.shape}, expected ({len(X)}, number of groups)")
        bad = ~((found >= 0.0) & (found <= 1.0))
        if bad.any():
            raise ValueError(f"groups: given membership {found[bad][0]}, expected numbers in [0, 1]")
        return found
