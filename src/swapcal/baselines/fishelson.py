"""Fishelson et al.: pseudo swap regret without contexts."""

from typing import ClassVar

from swapcal.baselines.foster_hart import log_cube_root
from swapcal.baselines.online import OnlineBaseline
from swapcal.kernels.baseline_cells import FISHELSON


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
