"""Design: everything about the data except the outcomes, and the residuals that outcomes give on it."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from swapcal.arrays import Array, Flags, Integers
from swapcal.audit.tally import Tally
from swapcal.kernels import tally as kernel
from swapcal.kernels.binomial import fill_cdfs, shape

FEW_EVENTS = 10.0
"""Up to this variance of the number of events, the number is drawn exactly; beyond, by an expansion."""

REACH = 8.0
"""Standard deviations up to which exact tails are tabulated: no simulation draws so far out."""


class Cells(NamedTuple):
    """Sums distributed like jump·(Bin(tosses, chance) − tosses·chance), one per cell; all arrays of one shape.

    A sum of few Bernoulli variables is nothing like a Gaussian of the same variance in its tails, and the largest
    of thousands of sums lives there.
    """

    tosses: Array
    chance: Array
    jump: Array

    def draw(self, draws: int, rng: np.random.Generator, table: "Thresholds") -> Array:
        """Return (draws, …) independent sums."""
        z = rng.standard_normal((draws, self.tosses.size))
        shape(z, table.start, table.values, self.tosses.ravel(), self.chance.ravel(), self.jump.ravel())
        return z.reshape(draws, *self.tosses.shape)

    def narrow(self, where: slice) -> "Cells":
        """Return some of the last axis."""
        return Cells(*(part[..., where] for part in self))

    def thresholds(self) -> "Thresholds":
        """Tabulate the cells that expect few events."""
        rarer = np.minimum(self.chance, 1.0 - self.chance).ravel()
        count = self.tosses.ravel()
        variance = count * rarer * (1.0 - rarer)
        length = np.minimum(count, np.floor(count * rarer + REACH * (1.0 + np.sqrt(variance))))
        length[(variance > FEW_EVENTS) | (self.jump.ravel() == 0)] = 0
        start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        values = np.empty(start[-1])
        fill_cdfs(count, rarer, start, values)
        return Thresholds(start, ndtri(values))


class Thresholds(NamedTuple):
    """Φ⁻¹ of the distribution functions of cells, one after the other; cell c begins at start[c]."""

    start: Integers
    values: Array


def dispersion(sums: Array) -> Array:
    """Return the variance of outcomes in units of p(1 − p): 1 unless some lie strictly between 0 and 1.

    Outcomes in [0, 1] with mean p have at most the variance p(1 − p), that of a coin. If there are fractional ones
    it is estimated by Σα²(y − p)², and cut at that largest possible value.

    Examples
    --------
    >>> sums = np.zeros((2, kernel.SCALARS))
    >>> sums[:, kernel.VARIANCE], sums[:, kernel.SPREAD], sums[:, kernel.FRACTIONAL] = 2.0, 0.5, [0, 3]
    >>> dispersion(sums)
    array([1.  , 0.25])
    """
    variance, spread = sums[..., kernel.VARIANCE], sums[..., kernel.SPREAD]
    estimated = (sums[..., kernel.FRACTIONAL] > 0) & (spread < variance)
    return np.where(estimated, spread / np.where(variance > 0, variance, 1.0), 1.0)


def cells(sums: Array, spread: Array, fractional: Flags) -> Cells:
    """Return the cells with these scalar sums (…, SCALARS), outcomes having `spread` times a coin's variance.

    With equal weights and predictions the binomial is exact. Else it has the sum's variance and, weights and
    predictions being unrelated, its third moment: the jump is Σα³/Σα², not the mean weight, since it is the heavy
    rows that make the tail. Fractional outcomes deviate to either side alike, as when signs are flipped.
    """
    used = sums[..., kernel.ROWS] > 0
    mass, mass2, mass3 = (np.where(used, sums[..., m], 1.0) for m in (kernel.MASS, kernel.MASS2, kernel.MASS3))
    count = np.where(used, np.maximum(np.rint(mass2 * (mass2 / mass3) ** 2), 1.0), 0.0)
    chance = np.where(fractional, 0.5, np.clip(sums[..., kernel.PREDICTED] / mass, 0.0, 1.0))
    unit = count * chance * (1.0 - chance)
    jump = np.sqrt(spread * sums[..., kernel.VARIANCE] / np.where(unit > 0, unit, 1.0))
    return Cells(count, chance, jump)


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
    fractional: Flags
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
        n=tally.n,
        v=tally.v,
        G=tally.G,
        H=tally.H,
        group_variance=groups[:, :, kernel.VARIANCE],
        columns=tuple(columns),
        spread=spread,
        fractional=fractional,
        whole=cells(tally.table, spread, fractional),
        groups=cells(groups, spread[:, None], fractional[:, None]),
    )
    return design, Residuals(tally.g[None], groups[None, :, :, kernel.RESIDUAL]), groups
