"""Foster and Hart: calibration by forecast hedging."""

from math import log
from typing import ClassVar

from swapcal.baselines.online import OnlineBaseline, root
from swapcal.kernels.baseline_cells import FOSTER_HART


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
