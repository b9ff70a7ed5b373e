"""Design: everything about the data except the outcomes, and the residuals that outcomes give on it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array
from swapcal.audit.cells import Cells, cells, dispersion
from swapcal.audit.tallies import Tally
from swapcal.kernels import tally as kernel


class Residuals(NamedTuple):
    """Residual sums of B draws of the outcomes: g (B, L, d), and S (B, L, K) over all group columns."""

    g: Array
    S: Array

    @property
    def A(self) -> Array:
        """Residual sum of each level, (B, L): contexts begin with ½."""
        return 2.0 * self.g[..., 0]


class FixedDesign(NamedTuple):
    """Masses, mean predictions and covariances per level, and the distribution of every group's residual sum.

    No outcome enters, except the spread of fractional ones: `H` and `group_variance` are those of coins with the
    predicted chances, and `spread` (L,) says how much less the outcomes of a level vary (1 if all are 0 or 1).
    `columns` gives, for every group column, its name, its categories and their slice of K.
    """

    n: Array
    v: Array
    G: Array
    H: Array
    group_variance: Array
    columns: tuple[tuple[str, tuple[str, ...], slice], ...]
    spread: Array
    fractional: NDArray[np.bool_]
    whole: Cells
    groups: Cells

    @property
    def group_names(self) -> list[str]:
        """Names of all groups, column by column."""
        return [f"{name} = {category}" for name, found, _ in self.columns for category in found]

    def without_groups(self) -> "FixedDesign":
        """Return the design for measures that look at contexts only: cheaper to simulate."""
        none = slice(0, 0)
        return self._replace(group_variance=self.group_variance[:, none], columns=(), groups=self.groups.narrow(none))


def observe(tally: Tally) -> tuple[FixedDesign, Residuals, Array]:
    """Split a tally into its design, its observed residuals (B = 1) and the group table (L, K, SCALARS)."""
    columns, tables, start = [], [np.zeros((len(tally.levels), 0, kernel.SCALARS))], 0
    for name, found, table in tally.columns():
        columns.append((name, found, slice(start, start + len(found))))
        tables.append(table)
        start += len(found)
    groups = np.concatenate(tables, axis=1)
    spread, fractional = dispersion(tally.table), tally.table[:, kernel.FRACTIONAL] > 0
    design = FixedDesign(
        tally.n,
        tally.v,
        tally.G,
        tally.H,
        groups[:, :, kernel.VARIANCE],
        tuple(columns),
        spread,
        fractional,
        cells(tally.table, spread, fractional),
        cells(groups, spread[:, None], fractional[:, None]),
    )
    return design, Residuals(tally.g[None], groups[None, :, :, kernel.RESIDUAL]), groups
