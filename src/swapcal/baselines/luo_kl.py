"""Luo et al.: KL-calibration."""

from typing import ClassVar

import numpy as np

from swapcal.baselines.foster_hart import log_cube_root
from swapcal.baselines.online import OnlineBaseline, cells
from swapcal.kernels.baseline_cells import LUO_KL, BaselineState
from swapcal.kernels.linalg import padded


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
