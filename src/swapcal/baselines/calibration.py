"""Forecasters without contexts: Foster and Vohra, Foster and Hart, Fishelson et al., Luo et al."""

from math import log
from typing import ClassVar

import numpy as np

from swapcal.baselines.online import OnlineBaseline, cells, root
from swapcal.kernels.baselines import FISHELSON, FOSTER_HART, FOSTER_VOHRA, LUO_KL, BaselineState
from swapcal.kernels.linalg import padded

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
