"""Forecasters with contexts: Garg et al. with Ito, finite groups, Okoroafor et al., Hu et al., the paper's own."""

from collections.abc import Callable
from math import ceil, log, sqrt
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from swapcal import _validate, bounds
from swapcal.archive import ArchiveError
from swapcal.arrays import Array, Keys
from swapcal.baselines.online import NO_ENGINE, OnlineBaseline, cells, root
from swapcal.engine import grid
from swapcal.engine.forecaster import Forecaster
from swapcal.kernels.baselines import AGNOSTIC, GARG_ITO, GROUPS, HU_LUO, NUDGE, OKOROAFOR, Baseline, BaselineState
from swapcal.kernels.linalg import factor_size, padded
from swapcal.kernels.loop import advance
from swapcal.kernels.state import NO_OPPONENT, T_MEAN, T_P, T_SLOT_LOW, T_W_LOW, RunOptions, choose_label

# Garg et al. with Ito's reduction: the best rate before the paper.

RIDGE = 1.0


class GargIto(OnlineBaseline):
    """Contextual swap regret of order T^{3/4} (Garg, Jung, Reingold, Roth 2024, with the reduction of Ito 2020).

    N + 1 levels i/N, each with an online linear regression of y on x. A level i evaluates its regression, the wish w_i,
    and moves to the level nearest to it: a map of levels into themselves. One of its cycles is taken (the one reached
    from the level played last), a level j of the cycle is drawn uniformly, its image, again uniform on the cycle, is
    issued, and regression j, the one queried, learns the label with weight 1.

    Guarantee, reconstructed: queried and issued level have the same distribution P_t, so in expectation comparing the
    issued level with f_issued equals comparing it with f_queried, and

        E SReg ≤ T/N + Σ_j [λB² + d ln(1 + n_j/(λd))] + O(√(N T log T)) = Õ(T/N + N√T):

    rounding to the nearest level costs at most 2·1/(2N) a round, the regressions have logarithmic regret on the rounds
    that query them, and the last term is the deviation between queried and issued rounds, uniformly over comparators.
    The default N = T^{1/4} balances the stated T/N + N√T.

    Assumed, where only the guarantee is known: ridge regression as the oracle, started from the constant 2z_j e_1;
    deterministic rounding to the nearest level; the cycle chosen through the last level played. A variant that walks
    on from the last level by a single step, without closing the cycle, has no such proof: queried and issued level then
    have different distributions.

    Examples
    --------
    >>> forecaster = GargIto(dim=2, horizon=10_000)
    >>> forecaster.update(forecaster.predict([0.5, 0.1]), 1)
    >>> forecaster
    GargIto(dim=2, levels=10, rounds=1)
    """

    SYSTEM: ClassVar[int] = GARG_ITO
    MIXES: ClassVar[bool] = True

    def _ideal_levels(self) -> int:
        return root(self._horizon, 4)

    def _allocate(self, n: int) -> BaselineState:
        z, width = grid.uniform(n), padded(self._dim)
        theta = np.zeros((n + 1, width))
        theta[:, 0] = 2.0 * z
        return cells(
            z,
            self.SYSTEM,
            self._seed,
            width=width,
            theta=theta,
            factor_size=factor_size(self._dim),
            scale=1.0 / RIDGE,
        )


# Gupta et al., Noarov et al., Ghuge et al.: online multicalibration over a finite list of groups.

Memberships = Callable[[Array], Array]


def halves(X: Array) -> Array:
    """Return memberships (n, 2d − 1): all rows, then x_k > 0 and x_k ≤ 0 for each coordinate but the constant.

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
        G = self._memberships(X)
        if G.shape[1] > self._cells.seen.shape[1]:
            raise ValueError(f"groups: given {G.shape[1]} memberships, expected at most {self._cells.seen.shape[1]}")
        return G

    def _memberships(self, X: Array) -> Array:
        G = np.ascontiguousarray(self._groups(X), dtype=np.float64)
        if G.ndim != 2 or len(G) != len(X):
            raise ValueError(f"groups: given memberships of shape {G.shape}, expected ({len(X)}, number of groups)")
        bad = ~((G >= 0.0) & (G <= 1.0))
        if bad.any():
            raise ValueError(f"groups: given membership {G[bad][0]}, expected numbers in [0, 1]")
        return G


# Okoroafor et al.: omniprediction at the rate of a single loss.


@runtime_checkable
class AgnosticLearner(Protocol):
    """An online learner of residuals: it chooses values h(x) in [-1, 1] that make Σ h(x)(y − p) large."""

    def predict(self, x: Array) -> float:
        """Return h(x), and change nothing."""

    def update(self, x: Array, residual: float) -> None:
        """Learn y − p of a context, p the forecast as drawn."""


class Okoroafor(OnlineBaseline):
    """Omniprediction with error of order √T, without swap (Okoroafor, Kleinberg, Kim 2025).

    Two families of tests: thresholds sign(p − v) at every level v (sign(0) = +1), whose error is proper calibration,
    and the coordinates x_k, whose error is multiaccuracy; each with both signs. Multiplicative weights over all M tests
    h give S(p) = Σ_h weight_h h(p, x). If S(0) ≤ 0 the forecast is 0; if S is positive throughout it is 1; else two
    neighbouring levels with S(z_i) > 0 ≥ S(z_{i+1}) are played so that the expected S vanishes.

    Guarantee, for any labels: E max_h Σ_t h(p_t, x_t)(y_t − p_t) ≤ T/N + 2√(T ln M), with N = √T by default. For a loss
    ℓ and comparator f, with Δℓ(a) = ℓ(a, 1) − ℓ(a, 0),

        Σ ℓ(k_ℓ(p), y) − ℓ(f(x), y) ≤ Σ (y − p) Δℓ(k_ℓ(p)) − Σ (y − p) Δℓ(f(x)).

    The first sum is a monotone function of p, hence a mixture of thresholds. The second is covered by the coordinates
    when Δℓ is affine (squared, absolute, pinball and newsvendor losses) and f linear, with the 1-norm of f as factor.

    Assumed: multiplicative weights for the oracle of the original; the tests of the contexts are the coordinates, so
    losses whose Δℓ is curved are not covered. Cost: O(√T) a round.

    With a `learner`, the oracle is yours: its values h_t(x), with both signs, are the test of the contexts in place of
    the coordinates. If it loses at most R to the best f of a class, Σ f(x)(y − p) ≤ Σ h_t(x)(y − p) + R, so

        E max_f Σ f(x)(y − p) ≤ T/N + 2√(T ln M) + R,   M = 2(N + 2).

    Parameters
    ----------
    dim, horizon, levels, seed : as for all baselines
    learner : an object with ``predict(x)``, a number in [−1, 1], and ``update(x, residual)``, called once a label with
        residual y − p; late labels count with the value that was issued. It is not saved. If it raises, the label
        counts nowhere.

    Examples
    --------
    >>> Okoroafor(dim=2, horizon=10_000).predict([0.5, 0.0]).p
    0.0
    >>> class Sign:  # of the sum of residuals on either side of 0
    ...     def __init__(self):
    ...         self.sums = np.zeros(2)
    ...     def predict(self, x):
    ...         return np.sign(self.sums[int(x[1] > 0)])
    ...     def update(self, x, residual):
    ...         self.sums[int(x[1] > 0)] += residual
    >>> forecaster = Okoroafor(dim=2, horizon=1000, learner=Sign())
    >>> forecaster.update(forecaster.predict([0.5, 0.1]), 1)
    """

    SYSTEM: ClassVar[int] = OKOROAFOR

    def __init__(
        self,
        dim: int,
        *,
        horizon: int = 10_000,
        levels: int | None = None,
        learner: AgnosticLearner | None = None,
        seed: int = 0,
    ) -> None:
        self._learner = _learner(learner)
        super().__init__(dim, horizon=horizon, levels=levels, seed=seed)

    @classmethod
    def load(cls, path: Any, learner: AgnosticLearner | None = None) -> Self:
        """Return the baseline saved at `path`, with its learner if it had one, as it was when saved."""
        self = super().load(path)
        self._learner = _learner(learner)
        if self._dim > 1 and (learner is None) == (not self._cells.theta[:, 1 : self._dim].any()):
            raise ArchiveError(f"learner: given {learner!r}, expected one exactly if the baseline was made with one")
        return self

    def _ideal_levels(self) -> int:
        return max(1, ceil(sqrt(self._horizon)))

    def _allocate(self, n: int) -> BaselineState:
        width, own = padded(self._dim), self._dim if self._learner is None else 1
        tests = 2 * (n + 1 + own)
        theta = np.zeros((2, width))
        theta[:, :own] = 1.0
        step = min(1.0, sqrt(log(tests) / self._horizon))
        blank = cells(grid.uniform(n), self.SYSTEM, self._seed, width=width, columns=2, knobs=(step, 0.0), theta=theta)
        blank.total[:] = 1.0
        return blank

    def _advance(
        self, X: Array, y: Array, events: Keys, tickets: Array, mixes: Array, options: RunOptions | None = None
    ) -> None:
        if self._learner is None:
            super()._advance(X, y, events, tickets, mixes, options)
            return
        opponent = NO_OPPONENT if options is None else options.opponent
        for row in range(len(X)):
            x, ticket = X[row : row + 1], tickets[row : row + 1]
            if ticket[0, T_SLOT_LOW] < 0.0:
                ticket[0, T_W_LOW] = _test_value(self._learner.predict(x[0].copy()))
                self._play(x, NO_LABEL, events[[row % len(events)]], ticket)
            if len(opponent.labels):
                rule, chance, coins, notes, labels = opponent
                labels[row] = choose_label(rule, ticket[0, T_MEAN], x[0], chance[row], coins[row], notes)
                y = labels
            if not np.isnan(y[row]):
                self._learner.update(x[0].copy(), float(y[row] - ticket[0, T_P]))
                self._play(x, y[row : row + 1], _validate.NO_EVENT, ticket)

    def _play(self, x: Array, y: Array, event: Keys, ticket: Array) -> None:
        """Issue a blank ticket or learn the label of one, with the learner's value that was issued as the only test."""
        playing = Baseline(self._cells, self._room, ticket[:, [T_W_LOW]])
        advance(NO_ENGINE, NO_ENGINE, x, y, event, ticket, self._blank_mixes(1), 0, None, playing)


NO_LABEL = np.array([np.nan])


def _learner(given: Any) -> AgnosticLearner | None:
    if not (given is None or isinstance(given, AgnosticLearner)):
        raise TypeError(f"learner: given {type(given).__name__}, expected an object with predict and update")
    return given


def _test_value(given: Any) -> float:
    value = float(given)
    if not -1.0 <= value <= 1.0:
        raise ValueError(f"learner: given the value {value}, expected a number in [-1, 1]")
    return value


# Hu et al.: swap multicalibration from learners of the residual, without regressions.


class HuLuo(OnlineBaseline):
    """Swap multicalibration of order T^{1/3} without regressions (Hu, Luo, Senapati, Sharan 2026), for means.

    N + 1 levels i/N. Each level keeps online agnostic learners, which choose f to make Σ f(x)(y − p) large over the
    rounds that drew the level, and hedging weighs the learners of all levels. S_i(x) is the weighted sum of what the
    learners of level i forecast of the residual. If S_0 ≤ 0 the forecast is 0; if S is positive throughout it is 1;
    else two neighbouring levels with S_i > 0 ≥ S_{i+1} are played so that the expected S(p)(y − p) is at most
    1/N times the weights, whatever y.

    Guarantee: with a learner of regret O(√n) on n rounds, hedging whose regret on a level's n rounds is Õ(√n), and
    N = T^{1/3} levels, SMCal_2 is Σ_v Õ(√n_v + n_v/N)²/n_v = Õ(N + T/N²) = Õ(T^{1/3}) with high probability.

    Assumed, where only the structure is known: F_1^lin through its extreme points, f = ±1 and f = (2/√3)⟨u, x_2:⟩ with
    ‖u‖ ≤ 1; for the latter u = G / max(‖G‖, √(2Σ‖r x‖²)), G = Σ r x, a regularised leader whose rate needs no tuning;
    AdaNormalHedge for the weights; points i/N in place of intervals. Cost: O(Nd) a round.

    Examples
    --------
    >>> forecaster = HuLuo(dim=2, horizon=1000)
    >>> forecaster.update(forecaster.predict([0.5, 0.1]), 1)
    >>> forecaster
    HuLuo(dim=2, levels=10, rounds=1)
    """

    SYSTEM: ClassVar[int] = HU_LUO

    def _allocate(self, n: int) -> BaselineState:
        width = padded(self._dim)
        theta = np.zeros((n + 1, width))
        return cells(grid.uniform(n), self.SYSTEM, self._seed, width=width, columns=AGNOSTIC, theta=theta)


# The paper's algorithm under the baselines' constructor.


class BlumMansourONS(Forecaster):
    """Algorithms 1–5 of the paper (Luo, Senapati, Sharan 2025): Blum–Mansour over Online Newton Steps.

    N + 1 learners, each an Online Newton Step on p_i(⟨θ,x⟩ − y)² over the ball of radius 4 with β = 1/640 and
    ω = 1/(4β²); wishes rounded at random to neighbours; the stationary distribution is issued. N = (T/(d ln T))^{1/3}.

    Guarantee: PSReg ≤ (N + 1)[(d/2β) ln(1 + 100T/(ωd(N+1))) + 32βω] + T/N² (`swapcal.bounds.paper_psreg`), pathwise.

    Assumed: the corrections listed in docs/errata.md.

    Parameters
    ----------
    dim, horizon, seed : as for all baselines
    levels : N instead of the theorem's choice

    Examples
    --------
    >>> BlumMansourONS(dim=3, horizon=10_000)
    BlumMansourONS(dim=3, levels=7, learner='ons', mixing='blum-mansour', rounds=0)
    """

    def __init__(self, dim: int, *, horizon: int = 10_000, levels: int | None = None, seed: int = 0) -> None:
        if levels is None:
            levels = bounds.default_levels(_validate.positive("horizon", horizon), _validate.dimension(dim), "smcal")
        super().__init__(dim, levels=levels, learner="ons", mixing="blum-mansour", seed=seed)
