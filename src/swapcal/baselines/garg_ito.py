"""Garg et al. with Ito's reduction: the best rate before the paper."""

from typing import ClassVar

import numpy as np

from swapcal.baselines.online import OnlineBaseline, cells, root
from swapcal.engine import grid
from swapcal.kernels.baseline_cells import GARG_ITO, BaselineState
from swapcal.kernels.linalg import factor_size, padded

RIDGE = 1.0


class GargIto(OnlineBaseline):
    """Contextual swap regret of order T^{3/4} (Garg, Jung, Reingold, Roth 2024, with the reduction of Ito 2020).

    N + 1 levels i/N, each with an online linear regression of y on x. A level i asks its regression for a wish w_i
    and moves to the level nearest to it: a map of levels into themselves. One of its cycles is taken (the one reached
    from the level played last), a level j of the cycle is drawn uniformly, its answer, again uniform on the cycle, is
    issued, and the label is given with weight 1 to the regression j that was asked.

    Guarantee, reconstructed: asked and issued level have the same distribution P_t, so in expectation comparing the
    issued level with f_issued equals comparing it with f_asked, and

        E SReg ≤ T/N + Σ_j [λB² + d ln(1 + n_j/(λd))] + O(√(N T log T)) = Õ(T/N + N√T):

    rounding to the nearest level costs at most 2·1/(2N) a round, the regressions have logarithmic regret on the rounds
    they were asked, and the last term is the deviation between asked and issued rounds, uniformly over comparators. The
    default N = T^{1/4} balances the stated T/N + N√T.

    Assumed, where only the guarantee is known: ridge regression as the oracle, started from the constant 2z_j e_1;
    deterministic rounding to the nearest level; the cycle chosen through the last level played. A variant that walks
    on from the last level by a single step, without closing the cycle, has no such proof: asked and issued level then
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
