"""Scene: everything about the data except the outcomes, and the measures that read residuals off it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal import errors
from swapcal.arrays import Array
from swapcal.audit.cells import Cells, cells, dispersion
from swapcal.audit.tallies import Tally
from swapcal.kernels import tally as kernel


class Residuals(NamedTuple):
    """Residual sums of B draws of the outcomes: g (B, L, d), and S (B, L, K) over all group columns."""

    g: Array
    S: Array


class Scene(NamedTuple):
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

    def without_groups(self) -> "Scene":
        """Return the scene for measures that look at contexts only: cheaper to simulate."""
        none = slice(0, 0)
        return self._replace(group_variance=self.group_variance[:, none], columns=(), groups=self.groups.narrow(none))


def observe(tally: Tally) -> tuple[Scene, Residuals, Array]:
    """Split a tally into its scene, its observed residuals (B = 1) and the group table (L, K, SCALARS)."""
    columns, tables, start = [], [np.zeros((len(tally.levels), 0, kernel.SCALARS))], 0
    for name in sorted(tally.groups):
        found, table = tally.groups[name].sorted()
        columns.append((name, tuple(found), slice(start, start + len(found))))
        tables.append(table)
        start += len(found)
    groups = np.concatenate(tables, axis=1)
    spread, fractional = dispersion(tally.table), tally.table[:, kernel.FRACTIONAL] > 0
    scene = Scene(
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
    return scene, Residuals(tally.g[None], groups[None, :, :, kernel.RESIDUAL]), groups


Measure = Callable[[Scene, Residuals], Array]


def _power_sums(n: Array, s: Array, q: float) -> Array:
    used = n > 0
    total: Array = np.sum(n[used] * (s[:, used] / n[used]) ** q, axis=1)
    return total


def _per_level(support: Callable[[Array], Array], g: Array) -> Array:
    return support(g.reshape(-1, g.shape[2])).reshape(g.shape[:2])


def cal(q: float) -> Measure:
    """Cal_q: the constant function alone."""
    return lambda scene, r: _power_sums(scene.n, 2.0 * np.abs(r.g[:, :, 0]), q)


def smcal_linear(q: float) -> Measure:
    """SMCal_q against F_1^lin."""
    return lambda scene, r: _power_sums(scene.n, _per_level(errors.support_linear, r.g), q)


def smcal_affine(q: float) -> Measure:
    """SMCal_q against F_res^aff."""
    return lambda scene, r: _power_sums(scene.n, _affine(r), q)


def smcal_groups(q: float) -> Measure:
    """SMCal_q against the groups."""
    return lambda scene, r: _power_sums(scene.n, np.abs(r.S).max(axis=2), q)


def mcal_groups(q: float) -> Measure:
    """MCal_q against the groups."""

    def measure(scene: Scene, r: Residuals) -> Array:
        used = scene.n > 0
        n = scene.n[used, None]
        worst: Array = np.sum(n * np.abs(r.S[:, used] / n) ** q, axis=1).max(axis=1)
        return worst

    return measure


def mcal2_linear(scene: Scene, r: Residuals) -> Array:
    """MCal_2 against F_1^lin."""
    used = scene.n > 0
    scaled = r.g[:, used] / np.sqrt(scene.n[used])[:, None]
    head = 4.0 * np.sum(scaled[:, :, 0] ** 2, axis=1)
    if r.g.shape[2] == 1:
        return np.asarray(head)
    tail = scaled[:, :, 1:]
    top = np.linalg.eigvalsh(np.swapaxes(tail, 1, 2) @ tail)[:, -1]
    worst: Array = np.maximum(head, errors.TAIL_RADIUS**2 * top)
    return worst


def mcal1_linear(scene: Scene, r: Residuals) -> Array:
    """Lower end of MCal_1 against F_1^lin."""
    return np.array([errors.mcal1_linear(scene.n, g).lower for g in r.g])


def mcal2_affine(scene: Scene, r: Residuals) -> Array:
    """MCal_2 against F_res^aff."""
    return np.array([errors.mcal2_affine(scene.n, 2.0 * g[:, 0], g)[0] for g in r.g])


def mcal1_affine(scene: Scene, r: Residuals) -> Array:
    """Lower end of MCal_1 against F_res^aff."""
    return np.array([errors.mcal1_affine(scene.n, 2.0 * g[:, 0], g).lower for g in r.g])


def sreg(scene: Scene, r: Residuals) -> Array:
    """SReg against F_4^lin."""
    return errors.swap_regret_draws(scene.v, r.g, scene.G)


def somni(scene: Scene, r: Residuals) -> Array:
    """SOmni over L^cvx × F_res^aff."""
    total: Array = np.sum(_affine(r) / np.maximum(scene.v, 1.0 - scene.v), axis=1)
    return total


def _affine(r: Residuals) -> Array:
    norm = np.sqrt(np.einsum("bld,bld->bl", r.g, r.g))
    halved: Array = 0.5 * (2.0 * np.abs(r.g[:, :, 0]) + norm)
    return halved
