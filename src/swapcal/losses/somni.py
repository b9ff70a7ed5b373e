"""Swap omniprediction over all convex losses at once, exactly, with the losses that attain it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array
from swapcal.errors import somni, somni_levels, support_affine
from swapcal.faces import face
from swapcal.losses.error import LossError
from swapcal.losses.level_rows import LevelRows
from swapcal.losses.loss import Loss


@dataclass(frozen=True)
class SwapOmniprediction:
    """SOmni over L^cvx × F_res^aff as a total over the rows, and what attains it at each level."""

    levels: Array
    weight: Array
    """Rows (or weight) of each level."""
    values: Array
    """SOmni_v; they add up to `total`."""
    A: Array
    g: Array

    def __repr__(self) -> str:
        return f"SwapOmniprediction({self._means()})"

    def _means(self) -> str:
        rows = float(self.weight.sum()) or 1.0
        return f"no convex loss can lose more than {self.total / rows:.3g} a row to a rule on the features"

    def _repr_html_(self) -> str:
        return face("Swap omniprediction", self._means(), {"levels": len(self.levels)})

    @property
    def total(self) -> float:
        """Σ_v SOmni_v: no convex 1-Lipschitz loss, even one per level, can lose more."""
        return float(self.values.sum())

    @property
    def multicalibration(self) -> float:
        """SMCal_{F_res,1} = Σ_v (|A_v| + ‖g_v‖)/2, which lies between total/2 and total."""
        return float(support_affine(self.A, self.g).sum())

    def attained_by(self, index: int, epsilon: float = 1e-3) -> tuple[Loss, Array]:
        """Loss and comparator θ whose gain at level number `index` tends to `values[index]` as `epsilon` → 0.

        The loss is `steep_loss` with k = 0 if A_v < 0 and k = 1 otherwise; ε > 0 makes k its only best response
        to v. The gain is at least (1 − ε) values[index] − ε weight[index].
        """
        found = somni(self.levels, self.A, self.g)
        return steep_loss(float(self.levels[index]), float(found.action[index]), epsilon), found.theta[index]


def swap_omniprediction(
    p: ArrayLike, y: ArrayLike, X: ArrayLike, weight: ArrayLike | None = None
) -> SwapOmniprediction:
    """Exact swap omniprediction error of forecasts `p` over L^cvx × F_res^aff.

    Examples
    --------
    >>> X = np.full((4, 1), 0.5)
    >>> found = swap_omniprediction([0.5] * 4, [1, 1, 1, 0], X)
    >>> found.total, found.multicalibration
    (1.5, 0.75)
    >>> loss, theta = found.attained_by(0, epsilon=1e-6)
    >>> gain = loss.induced(0.5, 0.75) - loss((1 + X[0] @ theta) / 2, 0.75)
    >>> round(4 * gain, 4)
    1.5
    """
    rows = LevelRows.of(p, y, X, weight)
    A, g = rows.residual_sums()
    mass = np.add.reduceat(rows.weight, rows.starts)
    return SwapOmniprediction(rows.levels, mass, somni_levels(rows.levels, A, g), A, g)


def steep_loss(v: float, k: float, epsilon: float) -> Loss:
    """Return (1 − ε)(y − v)a/max(v, 1 − v) + ε|a − k|: in L^cvx; at p = v only ε decides, for k.

    Examples
    --------
    >>> loss = steep_loss(0.3, 1.0, 0.01)
    >>> loss.best_response([0.2, 0.3, 0.305, 0.4])
    array([1., 1., 1., 0.])
    """
    if not (0.0 <= v <= 1.0 and k in (0.0, 1.0) and 0.0 < epsilon < 1.0):
        given, expected = f"{(v, k, epsilon)}", "v in [0, 1], k in {0, 1}, epsilon in (0, 1)"
        raise LossError.of("v, k, epsilon", given, expected)
    scale, pull = (1.0 - epsilon) / max(v, 1.0 - v), epsilon * (1.0 - 2.0 * k)
    return Loss(
        f"steep({v:g}, {k:g})",
        lambda a, y: scale * (y - v) * a + epsilon * np.abs(a - k),
        response=lambda p: np.where(scale * (p - v) + pull <= 0.0, 1.0, 0.0),
        slope=lambda a, y: scale * (y - v) + pull + 0.0 * a,
        curvature=lambda a, y: 0.0 * a,
    )
