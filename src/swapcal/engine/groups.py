"""The memory of `SparseForecaster`, what its files hold, and what it certifies: errors over all groups, with bounds."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from swapcal import archive, bounds
from swapcal.archive import MOST_COUNT, TEXT, Fields, Settings, Shapes, counts, floats, integers, keys, whole
from swapcal.arrays import Array, Integers
from swapcal.engine.certificate import rated
from swapcal.kernels import sparse as kernel
from swapcal.kernels.sparse import C_DRAWN, C_LEVEL, C_MASS, C_RESIDUAL, CELL, SparseMemory, SparseScratch

KIND, VERSION = "sparse", 1
MOST_COLUMNS = 1 << 16
FEWEST_GROUPS, FEWEST_CELLS = 64, 256
DYADIC = 2.0 ** -np.arange(9)

RULES = {"columns": whole(1, MOST_COLUMNS), "scores": whole(0, MOST_COLUMNS), "owner": TEXT}


def fields(settings: Settings, shapes: Shapes) -> Fields:
    """Return the arrays of a file: cells lie group by group, and where each group's begin follows from their number."""
    columns, scores = settings["columns"], settings["scores"]
    levels, groups = max(2, shapes["z"][0]), max(1, shapes["key"][0])
    by_level = {name: floats(levels) for name in ("mass", "drawn", "excess", "touched")}
    return by_level | {
        "z": floats(levels, least=0, most=1, rises=True),
        "reference": floats(levels, least=0),
        "whole": counts(levels),
        "part": counts(levels),
        "score_loss": floats(levels, scores),
        "key": keys(groups),
        "column": integers(groups, least=0, most=columns),
        "share": floats(groups, least=0, most=1),
        "size": integers(groups, least=0, most=levels),
        "cells": floats("cells", CELL, least=[0, *(CELL - 1) * [-np.inf]], most=[levels - 1, *(CELL - 1) * [np.inf]]),
        "categories": counts(1 + columns),
        "totals": floats(1),
        "counts": counts(5, most=[groups, *4 * [MOST_COUNT]], least=[groups, *4 * [0]]),
        "knobs": floats(3, least=0, most=1),
        "seed": keys(1),
    }


FILE = archive.Kind(KIND, VERSION, RULES, fields)


# Memory: allocated, laid out with room to grow, packed for files.


def blank(z: Array, columns: int, scores: int, seed: int) -> SparseMemory:
    """Return the memory of a forecaster before its first row: one group, of all rows."""
    groups_share = 0.5 if scores else 1.0
    column_share = groups_share / (1 + columns)
    levels = len(z)
    one = np.float64(groups_share) * kernel.WHOLE
    return unpacked(
        {
            "z": z,
            **{name: np.zeros(levels) for name in ("mass", "drawn", "excess", "touched", "reference")},
            "whole": np.full(levels, np.int64(one)),
            "part": np.zeros(levels, np.int64),
            "score_loss": np.zeros((levels, scores)),
            "key": np.zeros(1, np.uint64),
            "column": np.zeros(1, np.int64),
            "share": np.full(1, column_share),
            "size": np.zeros(1, np.int64),
            "cells": np.zeros((0, CELL)),
            "categories": np.array([1] + columns * [0]),
            "totals": np.zeros(1),
            "counts": np.array([1, 0, 0, 0, 0]),
            "knobs": np.array([groups_share, column_share, 0.5 / max(scores, 1) if scores else 0.0]),
            "seed": np.array([seed], np.uint64),
        }
    )


def _room_of(size: Integers) -> Integers:
    """Return how many cells a group of each size has room for: the next power of two, at least two, none if empty."""
    powers = 1 << np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64)
    return np.where(size == 0, 0, np.maximum(powers, 2))


def packed(state: SparseMemory) -> dict[str, Any]:
    """Return the arrays without spare room, except those that follow from the others."""
    groups = int(state.counts[kernel.GROUPS])
    arrays = state._asdict()
    start, size = arrays.pop("start")[:groups], state.size[:groups]
    del arrays["table"]
    arrays |= {name: arrays[name][:groups] for name in ("key", "column", "share", "size")}
    cells = np.empty((int(size.sum()), CELL))
    kernel.move_cells(size, state.cells, start, cells, np.cumsum(size) - size)
    return arrays | {"cells": cells}


def unpacked(arrays: "dict[str, Any]") -> SparseMemory:
    """Return memory with room to grow: twice what is in use, and at least one row more."""
    size, cells, columns = arrays["size"], arrays["cells"], len(arrays["categories"])
    if int(size.sum()) != len(cells):
        raise ValueError(f"{int(size.sum())} cells by group, {len(cells)} in all")
    room = _room_of(size)
    used, groups = int(room.sum()), len(size)
    start = np.cumsum(room) - room
    most_groups = max(FEWEST_GROUPS, 2 * groups + columns)
    spacious = np.zeros((max(FEWEST_CELLS, 2 * used + 4 * columns * (4 + 2 * len(arrays["z"]))), CELL))
    kernel.move_cells(size, cells, np.cumsum(size) - size, spacious, start)
    roomy = {
        name: np.concatenate([a, np.zeros(most_groups - groups, a.dtype)])
        for name, a in {**{n: arrays[n] for n in ("key", "column", "share", "size")}, "start": start}.items()
    }
    numbers = arrays["counts"].copy()
    numbers[kernel.USED] = used
    table = np.full(1 << (2 * most_groups - 1).bit_length(), -1)
    state = SparseMemory(**{**arrays, **roomy, "cells": spacious, "counts": numbers, "table": table})
    kernel.index_groups(state)
    return state


def scratch(state: SparseMemory) -> SparseScratch:
    """Return working room, and what follows from the levels: their steps, and what outcomes do to experts' weights."""
    z = state.z[:, None]
    steps = np.hstack([np.minimum(DYADIC, 1.0 - z), -np.minimum(DYADIC, z)])
    up, down = (np.expm1(2.0 * steps * (2.0 * (y - z) - steps)) for y in (1.0, 0.0))
    members, levels = len(state.categories), len(state.z)
    return SparseScratch(
        steps=steps,
        up=up,
        down=down,
        fresh_up=up.mean(axis=1),
        fresh_down=down.mean(axis=1),
        scale=np.exp(-state.reference),
        rise=np.zeros(levels),
        fall=np.zeros(levels),
        member=np.zeros(members, np.int64),
        place=np.zeros(members, np.int64),
        exponent=np.zeros(members * kernel.STEPS),
        bits=np.zeros(members * kernel.STEPS, np.int64),
    )


# The certificate, from the cells.


@dataclass(frozen=True, slots=True)
class GroupErrors:
    """Errors of the levels p as they were drawn and issued, over all groups: exact sums over outcomes.

    Attributes
    ----------
    smcal_1, smcal_2 : swap multicalibration over the groups.
    cal : Σ_v |Σ (y - v)|, calibration alone.
    labels, weight : outcomes learned, and the same with each as often as it counts; divide by it for means.
    groups : how many were seen, that of all rows included.
    """

    smcal_1: float
    smcal_2: float
    cal: float
    labels: int
    weight: float
    groups: int

    def short(self) -> str:
        """Return in a few words how far off the levels are, per forecast and rounded up.

        Examples
        --------
        >>> print(GroupErrors(2.5, 0.5, 2.0, 100, 100.0, 12).short())
        at most 0.025 per forecast along one group for each level, of 12 groups
        """
        off = rated(self.smcal_1 / self.weight) if self.weight > 0 else "0"
        return f"at most {off} per forecast along one group for each level, of {self.groups:,} groups"


@dataclass(frozen=True, slots=True, repr=False)
class GroupCertificate:
    """Errors over all groups of the issued distributions on the outcomes learned, and their bounds; sums over rounds.

    Attributes
    ----------
    psmcal_1, psmcal_2 : pseudo swap multicalibration over the groups, Σ_v n_v (max_g |A_vg| / n_v)^q, exact; the same
        over all functions Σ_g c_g 1[x in g] with Σ|c_g| ≤ 1.
    psreg : pseudo swap regret, exact: what could have been saved by a rule that picks for each level one group and one
        forecast for the group's rows, or a score.
    rounding, learning : psreg = rounding + learning: Σ D_t, fixed when forecasts are issued, and what the levels'
        learners lost to the best rule for their level.
    bound : on psreg, from Σ D_t and the prior weights of each level's best rule; None once an outcome came late or a
        row had a weight other than 1.
    theorem : on psreg, from the number of rounds, levels and groups only (`bounds.group_psreg`); None likewise.
    smcal_1, smcal_2, cal : over the groups, of the levels p as they were drawn; cal is over all rows.
    rounds, late, levels, groups, cells : outcomes learned, late ones among them, levels, groups seen (with all rows),
        pairs of a group and a level that met.
    weight : the rounds, each as often as it counts; divide by it for means.
    """

    psmcal_1: float
    psmcal_2: float
    psreg: float
    rounding: float
    learning: float
    bound: float | None
    theorem: float | None
    smcal_1: float
    smcal_2: float
    cal: float
    rounds: int
    late: int
    levels: int
    groups: int
    cells: int
    weight: float

    def holds(self, tolerance: float = 1e-6) -> bool:
        """Return whether psmcal_2 ≤ psreg = rounding + learning ≤ bound ≤ theorem, up to `tolerance` a round."""
        slack = tolerance * max(self.weight, 1.0)
        chain = [value for value in (self.psmcal_2, self.psreg, self.bound, self.theorem) if value is not None]
        same = abs(self.rounding + self.learning - self.psreg) <= slack
        return same and all(a <= b + slack for a, b in pairwise(chain))

    @property
    def issued(self) -> GroupErrors:
        """The errors of the issued levels p themselves."""
        return GroupErrors(self.smcal_1, self.smcal_2, self.cal, self.rounds, self.weight, self.groups)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """Return what the numbers mean, most important first."""
        if not self.rounds:
            return ["No outcome has been learned yet, so there is nothing to certify."]
        saved = (
            f"No correction of one group's forecasts, one group for each of the {self.levels} levels, could have saved "
            f"more than {rated(self.psreg / self.weight)} squared error per forecast, over all {self.groups:,} "
            f"groups seen and the {self.rounds:,} outcomes learned, averaged over the issued distributions: computed, "
            "not estimated."
        )
        return [saved, self._promised()]

    def _promised(self) -> str:
        if self.bound is None or self.theorem is None:
            return "The worst-case theorem is not claimed: outcomes came late or rows had weights."
        bound, theorem = rated(self.bound / self.weight), rated(self.theorem / self.weight)
        return f"The bound computed beside it is {bound} per forecast; for any outcomes the theorem promises {theorem}."

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        return f"GroupCertificate(psmcal_2={self.psmcal_2:.4g}, psreg={self.psreg:.4g}, rounds={self.rounds})"


def certify(state: SparseMemory) -> GroupCertificate:
    """Return the certificate of the present state."""
    arrays = packed(state)
    cells, n = arrays["cells"], state.mass
    level, gap = cells[:, C_LEVEL].astype(np.int64), cells[:, C_RESIDUAL]
    owner = np.repeat(np.arange(len(arrays["size"])), arrays["size"])
    rounds, late = int(state.counts[kernel.UPDATES]), int(state.counts[kernel.LATE])
    gain = np.divide(gap**2, cells[:, C_MASS], out=np.zeros(len(cells)), where=cells[:, C_MASS] > 0)
    best, price = _best_rules(state, level, gain, arrays["share"][owner])
    rounding, psreg = float(state.totals[0]), float(best.sum())
    claimed = late == 0 and int(state.counts[kernel.WEIGHTED]) == 0
    bound = float(bounds.group_certificate(rounding, price[n > 0], rounds)) if claimed else None
    pseudo, drawn = _largest(level, np.abs(gap), len(n)), _largest(level, np.abs(cells[:, C_DRAWN]), len(n))
    everyone = np.abs(cells[owner == 0, C_DRAWN])
    return GroupCertificate(
        psmcal_1=float(pseudo.sum()),
        psmcal_2=_squared(pseudo, n),
        psreg=psreg,
        rounding=rounding,
        learning=float(state.excess.sum()) + psreg,
        bound=bound,
        theorem=_theorem(state, rounds) if claimed else None,
        smcal_1=float(drawn.sum()),
        smcal_2=_squared(drawn, state.drawn),
        cal=float(everyone.sum()),
        rounds=rounds,
        late=late,
        levels=len(n),
        groups=int(state.counts[kernel.GROUPS]),
        cells=len(cells),
        weight=float(n.sum()),
    )


def _best_rules(state: SparseMemory, level: Integers, gain: Array, share: Array) -> tuple[Array, Array]:
    """Return what each level's best rule saves beyond the level, and ln(1/prior weight) of that rule."""
    best, price = np.zeros(len(state.z)), np.zeros(len(state.z))
    order = np.argsort(gain, kind="stable")
    best[level[order]] = gain[order]
    price[level[order]] = np.log(kernel.STEPS / share[order])
    for j in range(state.score_loss.shape[1]):
        better = -state.score_loss[:, j] > best
        best[better] = -state.score_loss[better, j]
        price[better] = -np.log(state.knobs[kernel.SCORE_SHARE])
    return best, price


def _largest(level: Integers, values: Array, levels: int) -> Array:
    largest = np.zeros(levels)
    np.maximum.at(largest, level, values)
    return largest


def _squared(largest: Array, n: Array) -> float:
    return float(np.sum(np.divide(largest**2, n, out=np.zeros(len(n)), where=n > 0)))


def _theorem(state: SparseMemory, rounds: int) -> float | None:
    if rounds == 0:
        return None
    most = int(state.categories[1:].max(initial=1))
    columns, scores = len(state.categories) - 1, state.score_loss.shape[1]
    return float(bounds.group_psreg(rounds, max(1, most), state.z.tolist(), columns=columns, scores=scores))
