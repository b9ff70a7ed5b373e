"""Online baselines: their common parts, and the forecasters without contexts.

Foster and Vohra, Foster and Hart, Fishelson et al., Luo et al.
"""

import os
import secrets
from math import log
from typing import Any, ClassVar, Self

import numpy as np

from swapcal import _validate, archive
from swapcal._locking import CopyableLock
from swapcal.archive import (
    MOST_COUNT,
    TEXT,
    Field,
    Settings,
    Shapes,
    counts,
    floats,
    integers,
    keys,
    one_of,
    whole,
)
from swapcal.arrays import Array, Keys
from swapcal.engine import grid
from swapcal.engine.forecast import Player
from swapcal.engine.forecaster import MOST_DIM
from swapcal.kernels.baselines import (
    AGNOSTIC,
    FISHELSON,
    FOSTER_HART,
    FOSTER_VOHRA,
    GARG_ITO,
    GROUPS,
    HU_LUO,
    LUO_KL,
    OKOROAFOR,
    UPDATES,
    Baseline,
    BaselineScratch,
    BaselineState,
)
from swapcal.kernels.linalg import factor_size, padded
from swapcal.kernels.loop import advance
from swapcal.kernels.state import RunOptions

NO_ENGINE: Any = None
"""With a baseline, the loop does not use the engine's state."""


def file_of(name: str, system: int) -> archive.Kind:
    """Return the settings and arrays in the file of a system, with bounds of the indices that its kernel follows."""

    def fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
        levels, grouped = max(shapes["z"][0], 1 if system == GROUPS else 2), system == GROUPS
        columns = {GROUPS: shapes["seen"][1], OKOROAFOR: 2, HU_LUO: AGNOSTIC}.get(system, 1)
        width = columns if grouped else padded(settings["dim"])
        packed = factor_size(settings["dim"]) if system == GARG_ITO else 0
        regressions = {GARG_ITO: levels, HU_LUO: levels, OKOROAFOR: 2}.get(system, 1)
        # the search of Foster and Vohra stops at the highest level, whose gap Σ(y - 1) is never positive
        ends = system == FOSTER_VOHRA
        return {
            "z": floats(levels, least=[*(levels - 1) * [0], int(ends)], most=1, rises=True),
            "seen": floats(levels, columns),
            "total": floats(levels, columns, most=[*(levels - 1) * [[np.inf]], [0]] if ends else None),
            "theta": floats(regressions, width),
            "factor": floats(regressions, packed),
            "scale": floats(regressions, width),
            "knobs": floats(2),
            "counts": counts(2, most=[MOST_COUNT, levels - 1]),
            "codes": integers(1, least=system, most=system),
            "seed": keys(1),
        }

    rules = {"system": one_of(name), "dim": whole(1, MOST_DIM), "horizon": whole(1), "owner": TEXT}
    return archive.Kind("baseline", 1, rules, fields)


class OnlineBaseline(Player):
    """A forecaster with the engine's interface and another system's rule.

    Subclasses set `SYSTEM` and `MIXES`, and return the number of levels of the system's own theorem.

    Parameters
    ----------
    dim : number of coordinates of a context; x_1 = ½ and ‖x‖ ≤ 1.
    horizon : number of rounds the parameters are tuned for; running longer is allowed, only the tuning is off.
    levels : number of intervals N instead of the system's own choice.
    seed : of the draws.
    """

    SYSTEM: ClassVar[int]
    MIXES: ClassVar[bool] = False
    """Whether a forecast may play more than two levels."""

    def __init__(self, dim: int, *, horizon: int = 10_000, levels: int | None = None, seed: int = 0) -> None:
        self._dim = _validate.dimension(dim)
        self._horizon = int(_validate.positive("horizon", horizon))
        n = self._ideal_levels() if levels is None else _validate.count("levels", levels)
        self._seed = _validate.event_key(_validate.seed(seed))
        self._owner = secrets.token_hex(8)
        self._lock = CopyableLock()
        self._cells = self._allocate(n)
        self._room = _room(self._cells)

    def _ideal_levels(self) -> int:
        """Return N for the horizon: the cube root, unless the system's theorem has another."""
        return root(self._horizon, 3)

    def _allocate(self, n: int) -> BaselineState:
        """Return the memory of a system before its first row, on N + 1 uniform levels."""
        return cells(grid.uniform(n), self.SYSTEM, self._seed, width=padded(self._dim))

    def _features(self, X: Array) -> Array:
        """Return the features of contexts that the system reads, shape (n, at most the width of its memory)."""
        return X

    @property
    def levels(self) -> Array:
        """The values a forecast may take, increasing."""
        return self._cells.z.copy()

    @property
    def rounds(self) -> int:
        """Number of labels learned."""
        return int(self._cells.counts[UPDATES])

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the whole state to one file, atomically; `load` continues bit for bit."""
        settings = {"system": type(self).__name__, "dim": self._dim, "horizon": self._horizon, "owner": self._owner}
        archive.write(path, file_of(type(self).__name__, self.SYSTEM), self._cells._asdict(), settings)

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> Self:
        """Return the baseline saved at `path` by the same class."""
        arrays, settings = archive.read(path, file_of(cls.__name__, cls.SYSTEM))
        self = cls.__new__(cls)
        self._dim, self._horizon, self._owner = settings["dim"], settings["horizon"], settings["owner"]
        self._seed = int(arrays["seed"][0])
        self._cells = BaselineState(**arrays)
        self._room = _room(self._cells)
        self._lock = CopyableLock()
        return self

    def _advance(
        self, X: Array, y: Array, events: Keys, tickets: Array, mixes: Array, options: RunOptions | None = None
    ) -> None:
        playing = Baseline(self._cells, self._room, self._features(X))
        advance(NO_ENGINE, NO_ENGINE, X, y, events, tickets, mixes, 0, options, playing)

    def _distributions(self, rows: int) -> int:
        return rows

    def _blank_mixes(self, rows: int) -> Array:
        return np.zeros((max(rows, 1), len(self._cells.z) if self.MIXES else 0))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self._dim}, levels={len(self._cells.z) - 1}, rounds={self.rounds})"


def root(horizon: float, power: int) -> int:
    """Return the rounded root of a horizon, at least 1.

    Examples
    --------
    >>> root(1000, 3), root(0.1, 4)
    (10, 1)
    """
    return max(1, round(float(np.exp(np.log(horizon) / power))))


def cells(
    z: Array,
    system: int,
    seed: int,
    *,
    width: int,
    columns: int = 1,
    knobs: tuple[float, float] = (0.0, 0.0),
    theta: Array | None = None,
    factor_size: int = 0,
    scale: float = 0.0,
) -> BaselineState:
    """Return blank memory: `columns` counts and totals per level, and `theta` with its factors if given."""
    weights = np.zeros((1, width)) if theta is None else theta
    return BaselineState(
        z=z,
        seen=np.zeros((len(z), columns)),
        total=np.zeros((len(z), columns)),
        theta=weights,
        factor=np.zeros((len(weights), factor_size)),
        scale=np.full((len(weights), width), scale),
        knobs=np.array(knobs),
        counts=np.zeros(2, np.int64),
        codes=np.array([system]),
        seed=np.array([seed], np.uint64),
    )


def _room(state: BaselineState) -> BaselineScratch:
    n, width = len(state.z), state.theta.shape[1]
    return BaselineScratch(
        x=np.zeros(width),
        u=np.zeros(width),
        chain=np.zeros((3, n)),
        base=np.zeros(n, np.int64),
        walk=np.zeros((5, n), np.int64),
        matrix=np.zeros((n, n)),
    )


# Foster and Hart: calibration by forecast hedging.


class FosterHart(OnlineBaseline):
    """Calibrated forecasts that ignore contexts, by hedging between neighbours (Foster and Hart 2021).

    Levels z_i = i/N with mean gaps ē_i = (1/n_i) Σ (y − z_i). Neighbours with ē_i ≥ 0 ≥ ē_{i+1} always exist; z_i is
    played with probability |ē_{i+1}|/(ē_i + |ē_{i+1}|), so that the expected gap of the issued level is zero.

    Guarantee: playing level i changes n_i ē_i² by 2ē_i(y − z_i) − ē_i² + (y − ȳ_i)²/(n_i + 1), and the hedge makes
    the expectation of the first two terms at most ab(2/N − a − b)/(a + b) ≤ 1/(4N²), a and b being the two gaps. So for
    any labels

        E Cal_2 ≤ T/(4N²) + (N + 1)(1 + ln T),   of order T^{1/3} at the default N = (T/ln T)^{1/3}.

    It is what the engine becomes without contexts and with realised instead of issued weights.

    Assumed: mean gaps, for which the potential Cal_2 is the one that decreases.

    Examples
    --------
    >>> forecast = FosterHart(dim=1, horizon=1000).predict([0.5])
    >>> round(forecast.high - forecast.low, 9)
    0.2
    """

    SYSTEM: ClassVar[int] = FOSTER_HART

    def _ideal_levels(self) -> int:
        return log_cube_root(self._horizon)


def log_cube_root(horizon: int) -> int:
    """Return (T/ln T)^{1/3}, at least 1.

    Examples
    --------
    >>> log_cube_root(10**6), log_cube_root(1)
    (42, 1)
    """
    return root(horizon / max(log(horizon), 1.0), 3)


# Foster and Vohra: calibration by approachability.


class FosterVohra(OnlineBaseline):
    """Calibrated forecasts that ignore contexts (Foster and Vohra 1998, in Foster's 1999 form).

    Levels z_i = i/N with counts n_i and gaps e_i = Σ (y − z_i) over the rounds that played z_i. A level within its
    tolerance, |e_i| ≤ n_i/(2N), is played. Otherwise, neighbours with e_i > 0 > e_{i+1} exist, and z_i is played
    with probability d_{i+1}/(d_i + d_{i+1}), where d = |e| − n/(2N) is what exceeds the tolerance.

    Guarantee: E Σ_i max(d_i, 0)² ≤ (1 + 1/2N)² T for any labels, because the weights cancel the first-order
    term d_i P_i (y − z_i − 1/2N) + d_{i+1} P_{i+1} (z_{i+1} − y − 1/2N). Hence

        E Cal_1 ≤ T/(2N) + (1 + 1/2N) √((N + 1) T),   of order T^{2/3} at the default N = T^{1/3}.

    Assumed: the hedge weighs by the excess d. Weights by the raw gaps |e|, which other accounts use, balance the same
    pair but do not cancel the first-order term.

    Examples
    --------
    >>> forecaster = FosterVohra(dim=1, horizon=1000)
    >>> forecast = forecaster.predict([0.5])
    >>> forecaster.update(forecast, 1)
    >>> forecaster
    FosterVohra(dim=1, levels=10, rounds=1)
    """

    SYSTEM: ClassVar[int] = FOSTER_VOHRA


# Fishelson et al.: pseudo swap regret without contexts.


class Fishelson(OnlineBaseline):
    """Full swap regret of the squared loss without contexts (Fishelson et al. 2025).

    Levels z_i = i/N. Learner i is the running mean w_i = (½ + Σ p_i y)/(1 + Σ p_i) under the probabilities p_i with
    which its level was played; w_i is rounded at random to its two neighbours, and the issued distribution is
    stationary for these roundings.

    Guarantee, for any labels, even chosen after seeing the distribution: against one constant per level

        Σ_i max_c Σ_t p_i [(z_i − y)² − (c − y)²] ≤ T/(4N²) + Σ_i [¼ + ln(1 + n_i)],   n_i = Σ_t p_i,

    the engine's certificate with one coordinate and λ = 1. The left side equals the pseudo ℓ2 calibration error.
    Default N = (T/ln T)^{1/3}, of order T^{1/3} in all.

    Examples
    --------
    >>> forecast = Fishelson(dim=1, horizon=1000).predict([0.5])
    >>> round(forecast.mean, 9)
    0.5
    """

    SYSTEM: ClassVar[int] = FISHELSON
    MIXES: ClassVar[bool] = True

    def _ideal_levels(self) -> int:
        return log_cube_root(self._horizon)


# Luo et al.: KL-calibration.


class LuoKL(OnlineBaseline):
    """Pseudo swap regret of the log loss without contexts (Luo, Senapati, Sharan 2025, KL-calibration).

    Levels z_i = sin²(πi/2K) with ends sin²(π/4K) and cos²(π/4K). Learner i is w_i = (1 + Σ p_i y)/(2 + Σ p_i), kept
    between the end levels; rounding to neighbours a < b has odds (w − a)/(a(1 − a)) for b to (b − w)/(b(1 − b)) for a,
    which makes the log loss grow by O(1/K²) whatever the label; the issued distribution is stationary.

    Guarantee, for any labels: with n_i = Σ_t p_i and ρ_i the mean label of level i,

        Σ_i n_i KL(ρ_i, z_i) ≤ c T/K² + Σ_i [ln(1 + n_i) + (3/2) ln(1 + n_i/2)],

    c the largest K² × rounding loss, which stays below 4. The second logarithm pays for
    fractional weights: Γ(x + α)/Γ(x) lies between x(x + α)^{α−1} and x^α, so replacing the telescoping Beta integral of
    whole rounds by α-weighted ones costs at most α(1 − α)/(n + 2) per round. Default K = (T/ln T)^{1/3}.

    Examples
    --------
    >>> LuoKL(dim=1, levels=4).levels.round(3)
    array([0.038, 0.146, 0.5  , 0.854, 0.962])
    """

    SYSTEM: ClassVar[int] = LUO_KL
    MIXES: ClassVar[bool] = True

    def _ideal_levels(self) -> int:
        return max(2, log_cube_root(self._horizon))

    def _allocate(self, n: int) -> BaselineState:
        if n < 2:
            raise ValueError(f"levels: given {n}, expected at least 2 (with one interval both end levels coincide)")
        z = np.sin(np.pi * np.arange(n + 1) / (2 * n)) ** 2
        z[0], z[-1] = np.sin(np.pi / (4 * n)) ** 2, np.cos(np.pi / (4 * n)) ** 2
        return cells(z, self.SYSTEM, self._seed, width=padded(self._dim))
