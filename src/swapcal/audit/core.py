"""Audit: additive per-level statistics of anyone's predictions, and every question they answer."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.archive import put_text
from swapcal.arrays import Array
from swapcal.audit.cautions import cautions
from swapcal.audit.findings import assemble
from swapcal.audit.groups import POWER_QUANTILE, GroupRow, group_rows, impossible
from swapcal.audit.measured import Measured
from swapcal.audit.null import Noise, compare, simulate
from swapcal.audit.pictures import likenesses
from swapcal.audit.quantities import QUANTITIES
from swapcal.audit.scan import Scan
from swapcal.audit.scene import Scene
from swapcal.audit.sizes import Null, Sizes, Window, gap_intervals
from swapcal.audit.verdict import ALPHA, TOLERANCE, Verdict, checked_tolerance, judged
from swapcal.audit.witness import Witness
from swapcal.kernels import tally as kernel
from swapcal.losses import Loss
from swapcal.report import Findings, render
from swapcal.report.schema import Resemblance

DRAWS = 999
SLOW_DRAWS = 199
"""Null draws of cheap quantities and of those that need an optimisation per draw."""


class Finding(NamedTuple):
    """One cell of the scan: a group or feature and a range of predictions, with its simultaneous p-value.

    `gap` is the mean of y − p over the group; for a numeric feature, the change of y − p per standard deviation of it.
    `low` and `high` are the ends of its interval, which holds for all cells at once and leaves 0 out exactly when the
    p-value is at most 0.05.
    """

    name: str
    levels: tuple[int, int]
    interval: tuple[float, float]
    n: float
    gap: float
    z: float
    p_value: float
    is_group: bool
    low: float
    high: float


class Audit(Measured):
    """Exact errors of predictions p for outcomes y, over contexts X and groups; witnesses; noise floor.

    Everything is kept as sums over rows, so audits of parts add up to the audit of the whole. Predictions
    with at most 256 distinct values are judged value by value; others fall into 51 intervals of equal width
    (or `levels`). In either case residuals are y − p with the prediction itself: A = Σα(y − p),
    g = Σα(y − p)x. Where a formula needs the level's value v (the comparator set of swap regret, the margin
    of SOmni) it is the level's mean prediction; swap regret is then measured against corrections p + ⟨δ,x⟩
    with 2v e_1 + δ in the class. Both are the theorems' definitions when every level holds one value.

    Parameters
    ----------
    p, y : (rows,) predictions in [0, 1]; outcomes in [0, 1]
    X : (rows, d) contexts with first coordinate ½ and norm at most 1; raw features go through `from_features`
    groups : labels per row: a mapping or table of categorical columns, or one column
    weights : (rows,) positive, default 1
    low, high, weight : the issued distribution of every row, `high` with probability `weight`, else `low`
    time : (rows,) numbers or dates
    names : names of the coordinates of X
    levels : number of intervals, or their edges from 0 to 1; default as above
    title, seed : heading of the report; seed of the simulated noise floor

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.choice([0.2, 0.5, 0.8], 3000)
    >>> nights = rng.random(3000) < 0.3
    >>> y = rng.random(3000) < p + 0.15 * nights
    >>> audit = Audit(p, y, groups={"shift": np.where(nights, "night", "day")})
    >>> audit.findings()[0].name, audit.test().p_value
    ('shift = night', 0.001)
    """

    def noise(self, quantity: str = "smcal", q: int = 2, against: str | None = None) -> Noise:
        """Return the error beside its simulated distribution if the predictions were the truth.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> p = rng.random(2000)
        >>> found = Audit(p, rng.random(2000) < p).noise("cal", 1)
        >>> found.low < found.value < found.high
        True
        """
        plain = {"cal": "constant", "sreg": "linear4", "somni": "affine"}
        q = {"sreg": 2, "somni": 1}.get(quantity, q)
        key = (quantity, q, plain.get(quantity, against or "linear"))
        if key not in QUANTITIES:
            known = ", ".join(sorted({name for name, _, _ in QUANTITIES}))
            raise ValueError(f"no noise floor for {key}; quantities are {known}, q is 1 or 2")
        if key[2] == "groups":
            self._need_groups()
        observed = self._observed
        value = float(QUANTITIES[key].measure(observed[0], observed[1])[0])
        null = self._null()[0] if QUANTITIES[key].cheap else self._slow_null(key)
        return compare(value, null["/".join(map(str, key))])

    def test(self) -> Noise:
        """Return the scan: the largest standardised residual over groups, features and prediction ranges.

        One p-value for "the predictions are right", simultaneous over everything looked at.
        """
        return compare(float(self._scan.measure(*self._observed[:2])[0]), self._null()[1])

    def findings(self, most: int = 10) -> list[Finding]:
        """Return the worst cells of the scan, one per group or feature, with simultaneous p-values and intervals.

        The surest comes first: the one that chance is least able to explain.
        """
        windows: dict[int, Window] = {}
        found = self._contradictions()
        for index, function in self._sizes.surest()[:most]:
            cells = windows.setdefault(index, self._sizes.window(index))
            found.append(self._finding(cells, function))
        return found[:most]

    def largest(self) -> Finding | None:
        """Return the largest error of any cell that one can be sure of, by the near end of its interval."""
        found = self._contradictions()
        place = self._sizes.largest()
        found += [] if place is None else [self._finding(self._sizes.window(place[0]), place[1])]
        return max(found, key=lambda one: max(one.low, -one.high), default=None)

    def verdict(self, tolerance: float = TOLERANCE) -> Verdict:
        """Return what the audit concludes: beyond chance or not, how large, and whether that is tolerable.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> p = rng.random(4000)
        >>> Audit(p, rng.random(4000) < p).verdict().word
        'no error found'
        >>> found = Audit(p, rng.random(4000) < p ** 2).verdict()
        >>> found.word, 0.1 < found.low < 0.25 < found.high
        ('miscalibrated', True)
        """
        tolerance = checked_tolerance(tolerance)
        whole = self._sizes.window(-1)
        tested = bool(whole.usable[0])
        certain = self._spectrum.impossible > 0
        low, high = self._worst_error(tolerance, tested)
        p_value = 0.0 if certain else self.test().p_value
        beyond = p_value <= ALPHA
        spread = float(np.sqrt(self._tally.table[:, kernel.VARIANCE].sum())) / self.n
        groups = whole.half[len(self._scan.coordinates) :]
        word = judged(beyond, low if beyond else 0.0, high, tolerance, tested=tested)
        return Verdict(
            word,
            beyond,
            p_value,
            low if beyond else 0.0,
            high,
            tolerance,
            (self._sizes.null.critical + POWER_QUANTILE) * spread if tested else None,
            int(np.sum(groups > tolerance)),
            cautions(self, tolerance if word == "small" else 0.0),
        )

    def _worst_error(self, tolerance: float, tested: bool) -> tuple[float, float]:
        """Return the interval of the worst error; what the scan cannot test counts by plain intervals of its own."""
        low, high = self._sizes.worst(tolerance)
        ends = [(one.low, one.high) for one in self._contradictions()]
        if not tested:
            whole = gap_intervals(self._tally.table.sum(axis=0)[None], np.array([self._sizes.null.alone]))
            ends, high = [*ends, (float(whole[1][0]), float(whole[2][0]))], 0.0
        return max([low, *(max(a, -b) for a, b in ends)]), max([high, *(max(-a, b) for a, b in ends)])

    def _contradictions(self) -> list[Finding]:
        """Levels whose predictions of exactly 0 or 1 were contradicted: no simulation draws that, so none tests it."""
        found = []
        for k, sums in enumerate(self._tally.table):
            if impossible(sums):
                gap, low, high = (
                    float(part[0]) for part in gap_intervals(sums[None], np.array([self._sizes.null.alone]))[:3]
                )
                interval, n = self.levels.bounds(k), float(sums[kernel.MASS])
                found.append(
                    Finding("all rows", (k, k), interval, n, gap, np.copysign(np.inf, gap), 0.0, True, low, high)
                )
        return found

    def worst_gap(self, alpha: float = ALPHA) -> float:
        """Return the largest |mean of y − p| of a group and prediction range that chance cannot explain."""
        return self._sizes.widest_gap(alpha)

    def resembles(self, witness: Witness, level: int | None = None, most: int = 3) -> list[Resemblance]:
        """Return the groups whose indicators correlate most with a witness's function, at its worst level.

        From all rows if they are kept, else from the sketch's sample of them.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> late = rng.random(2000) < 0.3
        >>> y = rng.random(2000) < 0.5 + 0.3 * late
        >>> groups = {"late": np.where(late, "yes", "no")}
        >>> audit = Audit.from_features(np.full(2000, 0.5), y, {"hours": 3.0 * late}, groups=groups)
        >>> [(one["group"], round(one["correlation"])) for one in audit.resembles(audit.witness("sreg"), most=1)]
        [('late = yes', 1)]
        """
        rows = self._sketch.rows
        assert rows is not None
        rows = rows.take(np.flatnonzero(self.levels.index(rows.p) == (witness.worst if level is None else level)))
        if witness.theta is None:
            return []
        score = np.einsum("td,d->t", rows.X, witness.theta[witness.worst if level is None else level])
        return likenesses(score, rows, self._observed[0], most)

    def group_table(self, tolerance: float = TOLERANCE) -> list[GroupRow]:
        """Return every group's size, means, gap, interval and verdict, simultaneous over everything examined."""
        scene, _, table = self._observed
        return group_rows(scene.group_names, table.sum(axis=0), self._sizes, checked_tolerance(tolerance))

    def to_dict(
        self,
        *,
        certificate: Mapping[str, Any] | None = None,
        losses: Sequence[Loss | str] = (),
        created_at: str = "",
        tolerance: float = TOLERANCE,
    ) -> Findings:
        """Return all findings as one plain mapping (see `swapcal.report.schema`): aggregates only, no rows.

        Parameters
        ----------
        certificate : fields of a forecaster's certificate by name, shown beside the observed errors
        losses : costs, as `Loss` or text such as "pinball:0.9", whose decisions are priced and certified
        created_at : when the audit was made; equal inputs give equal findings
        tolerance : largest error called small, as a difference of probabilities; see `verdict`
        """
        return assemble(self, certificate, losses, created_at, checked_tolerance(tolerance))

    def to_json(
        self,
        path: str | PathLike[str] | None = None,
        *,
        certificate: Mapping[str, Any] | None = None,
        losses: Sequence[Loss | str] = (),
        created_at: str = "",
        tolerance: float = TOLERANCE,
    ) -> str:
        """Return `to_dict` as JSON, the exact twin of the report, and write it if a path is given."""
        found = self.to_dict(certificate=certificate, losses=losses, created_at=created_at, tolerance=tolerance)
        return _written(json.dumps(found, indent=1, ensure_ascii=False), path)

    def to_html(
        self,
        path: str | PathLike[str] | None = None,
        *,
        certificate: Mapping[str, Any] | None = None,
        losses: Sequence[Loss | str] = (),
        created_at: str = "",
        tolerance: float = TOLERANCE,
    ) -> str:
        """Return the report as one self-contained HTML page, and write it if a path is given."""
        found = self.to_dict(certificate=certificate, losses=losses, created_at=created_at, tolerance=tolerance)
        return _written(render(found), path)

    @property
    def _scan(self) -> Scan:
        if "scan" not in self._memory:
            table = self._tally.table
            unit = float(table[:, kernel.MASS2].sum() / table[:, kernel.ROWS].sum())
            self._memory["scan"] = Scan(self._observed[0], self._scanned(), unit)
        found: Scan = self._memory["scan"]
        return found

    @property
    def _sizes(self) -> Sizes:
        if "sizes" not in self._memory:
            _, residuals, table = self._observed
            self._memory["sizes"] = Sizes(self._scan, residuals, self._tally.table, table, Null(self._null()[1]))
        found: Sizes = self._memory["sizes"]
        return found

    def _scanned(self) -> NDArray[np.intp]:
        """Coordinates examined one by one: all but the indicators that are groups as well."""
        prefixes = tuple(f"{name} = " for name in self._group_columns)
        chosen = [j for j, c in enumerate(self.coordinates) if not (prefixes and c.name.startswith(prefixes))]
        return np.array(chosen, dtype=np.intp)

    def _null(self) -> tuple[dict[str, Array], Array]:
        """Null draws of every cheap quantity and of the scan, from one simulation."""
        if "null" not in self._memory:
            cheap = {
                "/".join(map(str, key)): quantity.measure
                for key, quantity in QUANTITIES.items()
                if quantity.cheap and (key[2] != "groups" or self._group_columns)
            }
            drawn = self._simulate({**cheap, "scan": self._scan.measure}, DRAWS, self._observed[0])
            self._memory["null"] = (drawn, drawn["scan"])
        found: tuple[dict[str, Array], Array] = self._memory["null"]
        return found

    def _slow_null(self, key: tuple[str, int, str]) -> dict[str, Array]:
        if key not in self._memory:
            measure = {"/".join(map(str, key)): QUANTITIES[key].measure}
            self._memory[key] = self._simulate(measure, SLOW_DRAWS, self._observed[0].without_groups())
        found: dict[str, Array] = self._memory[key]
        return found

    def _simulate(self, measures: dict[str, Any], draws: int, scene: Scene) -> dict[str, Array]:
        rows = self._sketch.rows if self._sketch.complete else None
        return simulate(scene, measures, draws, self.seed, rows, self.levels)

    def _finding(self, cells: Window, function: int) -> Finding:
        scene, _, table = self._observed
        window = slice(cells.first, cells.last + 1)
        used = np.flatnonzero(self._tally.n[window] > 0) + cells.first
        interval = (self.levels.bounds(int(used[0]))[0], self.levels.bounds(int(used[-1]))[1])
        place = (int(used[0]), int(used[-1]))
        count = len(self._scan.coordinates)
        n = float(self._tally.n[window].sum())
        if function >= count:
            name = scene.group_names[function - count]
            n = float(table[window, function - count, kernel.MASS].sum())
        else:
            name = self.coordinates[int(self._scan.coordinates[function])].name if function else "all rows"
        gap, z, p_value, low, high = (
            float(part[function]) for part in (cells.value, cells.z, cells.p_value, cells.low, cells.high)
        )
        return Finding(name, place, interval, n, gap, z, p_value, function == 0 or function >= count, low, high)


def _written(text: str, path: str | PathLike[str] | None) -> str:
    if path is not None:
        put_text(path, text)
    return text
