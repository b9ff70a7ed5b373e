"""Foster and Vohra: calibration by approachability."""

from typing import ClassVar

from swapcal.baselines.online import OnlineBaseline
from swapcal.kernels.baseline_cells import FOSTER_VOHRA


class FosterVohra(OnlineBaseline):
    """Calibrated forecasts that ignore contexts (Foster and Vohra 1998, in Foster's 1999 form).

    Levels z_i = i/N with counts n_i and gaps e_i = Σ (y − z_i) over the rounds that played z_i. A level within its
    tolerance, |e_i| ≤ n_i/(2N), is played. If there is none, neighbours with e_i > 0 > e_{i+1} exist, and z_i is played
    with probability d_{i+1}/(d_i + d_{i+1}), where d = |e| − n/(2N) is what exceeds the tolerance.

    Guarantee: E Σ_i max(d_i, 0)² ≤ (1 + 1/2N)² T whatever the labels do, because the weights cancel the first-order
    term d_i P_i (y − z_i − 1/2N) + d_{i+1} P_{i+1} (z_{i+1} − y − 1/2N). Hence

        E Cal_1 ≤ T/(2N) + (1 + 1/2N) √((N + 1) T),   of order T^{2/3} at the default N = T^{1/3}.

    Assumed: the hedge weighs by the excess d. Weights by the raw gaps |e|, as one also finds it told, balance the same
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
