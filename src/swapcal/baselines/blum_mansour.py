"""The paper's algorithm under the baselines' constructor."""

from swapcal import bounds, inputs
from swapcal.engine.forecaster import Forecaster


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
            levels = bounds.default_levels(inputs.positive("horizon", horizon), inputs.dimension(dim), "smcal")
        super().__init__(dim, levels=levels, learner="ons", mixing="blum-mansour", seed=seed)
