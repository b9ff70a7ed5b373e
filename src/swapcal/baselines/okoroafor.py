"""Okoroafor et al.: omniprediction at the rate of a single loss."""

from math import ceil, log, sqrt
from typing import ClassVar

import numpy as np

from swapcal.baselines.online import OnlineBaseline, cells
from swapcal.engine import grid
from swapcal.kernels.baseline_cells import OKOROAFOR, BaselineState
from swapcal.kernels.linalg import padded


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

    Examples
    --------
    >>> Okoroafor(dim=2, horizon=10_000).predict([0.5, 0.0]).p
    0.0
    """

    SYSTEM: ClassVar[int] = OKOROAFOR

    def _ideal_levels(self) -> int:
        return max(1, ceil(sqrt(self._horizon)))

    def _allocate(self, n: int) -> BaselineState:
        width = padded(self._dim)
        tests = 2 * (n + 1 + self._dim)
        theta = np.zeros((2, width))
        theta[:, : self._dim] = 1.0
        step = min(1.0, sqrt(log(tests) / self._horizon))
        blank = cells(grid.uniform(n), self.SYSTEM, self._seed, width=width, columns=2, knobs=(step, 0.0), theta=theta)
        blank.total[:] = 1.0
        return blank
