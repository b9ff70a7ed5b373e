"""The group table: every group's gap, interval and verdict, each holding for all groups and ranges at once."""

from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array
from swapcal.audit.design import dispersion
from swapcal.audit.sizes import Sizes, gap_intervals
from swapcal.audit.verdict import ALPHA, Word, judged
from swapcal.faces import face, points, share
from swapcal.kernels import tally as kernel

POWER_QUANTILE = 0.8416212335729143
"""Standard errors beyond the critical value at which an error is found with probability 80 %."""


class GroupRow(NamedTuple):
    """One group over all predictions.

    `gap` is observed − predicted, with the ends of its simultaneous interval; `p_value` is simultaneous over everything
    examined, None for a group too small to be tested; `detectable` is the smallest error that would have been found.
    """

    name: str
    n: float
    mean_p: float
    mean_y: float
    gap: float
    low: float
    high: float
    small: bool
    p_value: float | None
    detectable: float | None
    verdict: Word

    def __repr__(self) -> str:
        return f"GroupRow({self.name}: {self._size()})"

    def _size(self) -> str:
        ends = f"{points(self.low)} to {points(self.high)}"
        return f"{self.verdict}, gap {points(self.gap)} points ({ends}), {self.n:,.0f} rows"

    def _repr_html_(self) -> str:
        return face(self.name, self._size(), {"mean forecast": share(self.mean_p), "observed": share(self.mean_y)})


def group_rows(names: list[str], sums: Array, sizes: Sizes, tolerance: float) -> list[GroupRow]:
    """Return one row per group from its scalar sums (K, SCALARS), in the given order."""
    if not len(names):
        return []
    whole = sizes.window(-1)
    start = len(whole.usable) - len(names)
    coins = dispersion(sums)
    critical = np.where(whole.usable[start:], sizes.null.critical, sizes.null.alone)
    low, high = gap_intervals(sums, critical, coins)[1:3]
    mass = sums[:, kernel.MASS]
    reach = sizes.null.critical + POWER_QUANTILE
    rows = []
    for k, name in enumerate(names):
        usable = bool(whole.usable[start + k])
        p = float(whole.p_value[start + k]) if usable else 0.0 if impossible(sums[k]) else None
        size = max(low[k], -high[k], 0.0), max(abs(low[k]), abs(high[k]))
        rows.append(
            GroupRow(
                name=name,
                n=float(mass[k]),
                mean_p=float(sums[k, kernel.PREDICTED] / mass[k]),
                mean_y=float(sums[k, kernel.OBSERVED] / mass[k]),
                gap=float(sums[k, kernel.RESIDUAL] / mass[k]),
                low=float(low[k]),
                high=float(high[k]),
                small=not usable,
                p_value=p,
                detectable=float(reach * np.sqrt(coins[k] * sums[k, kernel.VARIANCE]) / mass[k]) if usable else None,
                verdict=judged(p is not None and p <= ALPHA, *size, tolerance, tested=usable),
            )
        )
    return rows


def impossible(sums: Array) -> bool:
    """Tell whether predictions of exactly 0 or 1 were contradicted: no chance explains a single such outcome."""
    return bool(sums[kernel.VARIANCE] <= 0 and abs(sums[kernel.RESIDUAL]) > 1e-12)
