"""Evidence: an audit's sums compared with chance: groups, warnings, noise floor, scan, findings and verdict."""

from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from swapcal._display import counted
from swapcal.arrays import Array, Flags, Places
from swapcal.audit import measures
from swapcal.audit.clusters import LEAST_CLUSTERS, belong_together
from swapcal.audit.intervals import (
    LEAST_VARIANCE,
    Between,
    EffectIntervals,
    Null,
    ScanStatistic,
    Window,
    gap_intervals,
)
from swapcal.audit.levels import Bins, Timeline
from swapcal.audit.measures import QUANTITIES, FixedDesign, Measure, dispersion, observe
from swapcal.audit.null import Noise, compare, flipped_clusters, signed, simulate
from swapcal.audit.rows import intersections_of
from swapcal.audit.search import is_elsewhere, is_region
from swapcal.audit.sums import JOINED, Sums
from swapcal.audit.text import percentage_points
from swapcal.audit.verdict import ALPHA, Finding, Verdict, Witness, judged
from swapcal.kernels import tally as kernel
from swapcal.report.findings import GroupRow, NumberCurve

# The group table: every group's gap, interval and verdict, simultaneous over all groups and ranges.

POWER_QUANTILE = 0.8416212335729143
"""Standard errors beyond the critical value at which an error is found with probability 80 %."""


def group_rows(
    names: list[str], functions: Places, sums: Array, sizes: EffectIntervals, tolerance: float
) -> list[GroupRow]:
    """Return one row per group from its scalar sums (K, SCALARS).

    `functions` (K,) are the numbers of the groups in the scan, -1 for those too small to be in it.
    """
    if not len(names):
        return []
    whole = sizes.window(-1)
    tested = (functions >= 0) & whole.usable[functions]
    coins = dispersion(sums) * np.where(functions >= 0, sizes.inflation[-1, functions], 1.0)
    critical = np.where(tested, sizes.null.critical, sizes.null.alone)
    low, high = gap_intervals(sums, critical, coins)[1:3]
    few: list[int | None] = [None] * len(names)
    if sizes.clusters is not None:
        counts = sizes.clusters[-1, functions]
        few = [int(count) if count < LEAST_CLUSTERS else None for count in counts]
    mass = sums[:, kernel.MASS]
    reach = sizes.null.critical + POWER_QUANTILE
    rows = []
    for k, name in enumerate(names):
        usable = bool(tested[k])
        p = float(whole.p_value[functions[k]]) if usable else 0.0 if impossible(sums[k]) else None
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
                clusters=few[k],
            )
        )
    return rows


def impossible(sums: Array) -> bool:
    """Return whether predictions of exactly 0 or 1 were contradicted: chance cannot explain even one such outcome."""
    return bool(sums[kernel.VARIANCE] <= 0 and abs(sums[kernel.RESIDUAL]) > 1e-12)


# Warnings about the data.
#
# A stretch of time in which every outcome is the same, for too long to be chance, is nearly always a flaw of the file:
# outcomes not yet known entered as 0, or rows kept only when the outcome had happened.

LEAST_ROWS = 20
LEAST_SHARE = 0.005
"""Shorter stretches than these hardly change any figure, and successive outcomes are often equal."""

LOG_CHANCE = float(np.log(1e-6))
"""A stretch is reported if its probability, times the number of places where it could begin, is below this."""

LARGE_PART = 0.2
"""A tolerance above this part of the rate of the rarer outcome calls large errors small."""


class Standstill(NamedTuple):
    """A stretch of constant outcome: first and last time as text, its rows, and the rates around it.

    `predicted` is None without predictions, `usual` without other rows; `window` has the first and the last time as
    numbers.
    """

    first: str
    last: str
    outcome: int
    rows: int
    predicted: float | None
    usual: float | None
    window: tuple[float, float] = (-np.inf, np.inf)


def data_warnings(sums: Sums, tolerated: float) -> tuple[str, ...]:
    """Return the warnings shown with the verdict, the most serious first; `tolerated` is the error called small."""
    warnings = [] if sums.timeline is None else [constant(one, sums.rows) for one in stretches(sums.timeline)]
    impossible = sums.histogram.impossible
    if impossible:
        rows = "1 row has" if impossible == 1 else f"{impossible:,} rows have"
        warnings.append(f"{rows} a prediction of exactly 0 or 1 and a different outcome, which chance cannot explain.")
    if sums.suspect is not None:
        warnings.append(belong_together(sums.suspect))
    clusters = sums.tally.clusters
    if clusters is not None and clusters.clusters < LEAST_CLUSTERS:
        warnings.append(
            f"The rows belong to {counted(clusters.clusters, 'cluster')} only; with fewer than {LEAST_CLUSTERS} "
            "nothing is tested."
        )
    table = sums.tally.table.sum(axis=0)
    rate = float(table[kernel.OBSERVED] / table[kernel.MASS])
    if tolerated > LARGE_PART * min(rate, 1.0 - rate):
        warnings.append(
            f"Outcomes happen in {100 * rate:.2g} % of the rows, so errors within the tolerance of "
            f"{percentage_points(tolerated)} can be large relative to the rate; consider a smaller tolerance."
        )
    return tuple(warnings)


def constant(stretch: Standstill, rows: int) -> str:
    """Return the warning of a stretch of constant outcomes.

    Examples
    --------
    >>> constant(Standstill("2014-04-02", "2014-12-31", 1, 868, 0.47, 0.37), 6172).split(":")[0]
    'From 2014-04-02 to 2014-12-31 all 868 outcomes are 1, where 47.0 % were predicted and 37.0 % are usual'
    """
    rates = {"were predicted": stretch.predicted, "are usual": stretch.usual}
    beside = " and ".join(f"{100 * rate:.1f} % {what}" for what, rate in rates.items() if rate is not None)
    if stretch.rows == rows:
        return f"Every outcome is {stretch.outcome}, where {beside}. Check how the outcomes were recorded."
    return (
        f"From {stretch.first} to {stretch.last} all {stretch.rows:,} outcomes are {stretch.outcome}, where {beside}: "
        "too many in a row for chance. Check how these outcomes were recorded; every figure here includes them, so "
        "audit again without them."
    )


def stretches(timeline: Timeline, *, predicted: bool = True) -> list[Standstill]:
    """Return the stretches of constant outcome that are unlikely by the predictions and by the usual rate, in order.

    Without `predicted`, only the usual rate is compared.
    """
    sums = timeline.table.sum(axis=1)
    used = np.flatnonzero(sums[:, kernel.MASS] > 0)
    kinds = [_constant(sums[i]) for i in used]
    constant_ones = []
    for kind, run in groupby(range(len(used)), key=kinds.__getitem__):
        bins = used[list(run)]
        if kind is not None:
            stretch = _stretch(timeline, sums, bins, kind)
            stretch = stretch if predicted else stretch._replace(predicted=None)
            if _too_long(stretch, int(sums[:, kernel.ROWS].sum())):
                constant_ones.append(stretch)
    return constant_ones


def _constant(sums: Array) -> int | None:
    mass, ones = sums[kernel.MASS], sums[kernel.OBSERVED]
    return 0 if ones <= 1e-12 * mass else 1 if ones >= (1.0 - 1e-12) * mass else None


def _stretch(timeline: Timeline, sums: Array, bins: Places, outcome: int) -> Standstill:
    inside = sums[bins].sum(axis=0)
    outside = sums.sum(axis=0) - inside
    return Standstill(
        timeline.written(float(timeline.first[bins[0]])),
        timeline.written(float(timeline.last[bins[-1]])),
        outcome,
        int(inside[kernel.ROWS]),
        float(inside[kernel.PREDICTED] / inside[kernel.MASS]),
        float(outside[kernel.OBSERVED] / outside[kernel.MASS]) if outside[kernel.ROWS] >= 1 else None,
        (float(timeline.first[bins[0]]), float(timeline.last[bins[-1]])),
    )


def _too_long(stretch: Standstill, rows: int) -> bool:
    """Return whether the stretch is unlikely by both rates; by concavity n log(mean p) is never below Σ log p."""
    if stretch.rows < max(LEAST_ROWS, LEAST_SHARE * rows):
        return False
    rates = [rate for rate in (stretch.predicted, stretch.usual) if rate is not None]
    likely = max((rate if stretch.outcome else 1.0 - rate for rate in rates), default=1.0)
    return bool(stretch.rows * np.log(max(likely, 1e-300)) + np.log(rows) < LOG_CHANCE)


DRAWS = 999
SLOW_DRAWS = 199
"""Null draws of cheap quantities and of those that need an optimisation per draw."""

MOST_SMALL = 1000
"""Groups too small to be tested that are drawn one by one: more than that are drawn as one group of their column."""


class Evidence:
    """One set of sums compared with what chance alone would give; each simulation runs once, when first needed."""

    def __init__(self, sums: Sums, seed: int, *, join: bool = True) -> None:
        self.sums, self.seed = sums, seed
        self.small = self._small() if join else {}
        self.tally = sums.tally.joined(self.small) if self.small else sums.tally
        self.design, self.residuals, bins = observe(self.tally, sums.cuts)
        self.groups = self.design.examined(bins, axis=1)
        self._slow: dict[str, Array] = {}

    def _small(self) -> dict[str, Flags]:
        """Return which categories of every column are too small to be tested, if there are more than `MOST_SMALL`."""
        tally = self.sums.tally
        if tally.clusters is not None:
            return {}
        least = (1.0 - 1e-9) * LEAST_VARIANCE * self._unit()  # groups that reach it but for rounding are drawn
        small = {
            name: group.table[:, :, kernel.VARIANCE].sum(axis=0) < (-1.0 if is_region(name) else least)
            for name, group in tally.groups.items()
        }
        return small if sum(map(np.sum, small.values())) > MOST_SMALL else {}

    def _unit(self) -> float:
        """Return the squared weight of a row on average."""
        table = self.sums.tally.table
        return float(table[:, kernel.MASS2].sum() / table[:, kernel.ROWS].sum())

    def noise(self, quantity: str, q: int, against: str | None = None) -> Noise:
        """Return an error with its simulated distribution if the predictions were the truth.

        With more than `MOST_SMALL` groups too small to be tested this takes long: each is simulated.
        """
        classes = {"cal": "constant", "sreg": "linear4", "somni": "affine" if against == "affine" else "rules"}
        q = {"sreg": 2, "somni": 1}.get(quantity, q)
        key = (quantity, q, classes.get(quantity, against or "linear"))
        if key not in QUANTITIES:
            known = ", ".join(sorted({name for name, _, _ in QUANTITIES}))
            raise ValueError(f"noise floor: given {key}, expected one of {known}, with q of 1 or 2")
        if key[2] == "groups" and not self.design.columns:
            raise ValueError("groups: given none, expected groups= or categorical features")
        if key[2] == "groups" and self.small:
            return self._one_by_one.noise(quantity, q, against)
        known_as = "/".join(map(str, key))
        if not QUANTITIES[key].cheap and known_as not in self._slow:
            measure = {known_as: QUANTITIES[key].measure}
            self._slow |= self._simulate(measure, SLOW_DRAWS, self.design.without_groups())
        value = float(QUANTITIES[key].measure(self.design, self.residuals)[0])
        return compare(value, (self.null if QUANTITIES[key].cheap else self._slow)[known_as])

    @cached_property
    def _one_by_one(self) -> "Evidence":
        """The same with every group drawn, those too small to be tested too."""
        return Evidence(self.sums, self.seed, join=False)

    def test(self) -> Noise:
        """Return the largest standardised residual over groups, features and prediction ranges, with its null."""
        return compare(float(self.scan.measure(self.design, self.residuals)[0]), self.null["scan"])

    def findings(self, most: int = 10) -> list[Finding]:
        """Return the worst cells of the scan, one per group or feature, with simultaneous p-values and intervals.

        The most significant comes first. A number's trend and ranges count as one.
        """
        windows: dict[int, Window] = {}
        listed, known = self._contradictions(), set[str]()
        for index, function in self.sizes.surest():
            subject = self._subject(function)
            if len(listed) < most and subject not in known:
                known.add(subject)
                cells = windows.setdefault(index, self.sizes.window(index))
                listed.append(self._finding(cells, function))
        return listed[:most]

    def _subject(self, function: int) -> str:
        """Return the name of the group or feature of a function of the scan."""
        place = function - len(self.scan.coordinates)
        if place < 0:
            return self.sums.coordinates[int(self.scan.coordinates[function])].name
        groups = len(self.design.group_names)
        return self.names[place] if place < groups else self.design.ranges[place - groups].number

    def largest(self) -> Finding | None:
        """Return the cell with the largest certain error: the largest lower end of its interval; None if none is."""
        candidates = self._contradictions()
        place = self.sizes.largest()
        candidates += [] if place is None else [self._finding(self.sizes.window(place[0]), place[1])]
        return max(candidates, key=lambda one: max(one.low, -one.high), default=None)

    def widest(self) -> Finding:
        """Return the cell whose interval reaches the far end of the verdict's interval."""
        index, function = self.sizes.widest()
        cells = [*self._contradictions(), self._finding(self.sizes.window(index), function)]
        return max(cells, key=lambda one: max(-one.low, one.high))

    def verdict(self, tolerance: float) -> Verdict:
        """Return the verdict: whether errors exceed chance, how large they are, and whether that is tolerable."""
        whole = self.sizes.window(-1)
        tested = bool(whole.usable[0])
        certain = self.sums.histogram.impossible > 0
        low, high = self._worst_error(tested)
        p_value = 0.0 if certain else self.test().p_value
        beyond = p_value <= ALPHA
        everyone = self.sums.tally.table.sum(axis=0)
        inflated = dispersion(everyone) * self.inflation
        spread = float(np.sqrt(inflated * everyone[kernel.VARIANCE])) / self.sums.n
        groups = whole.covered[len(self.scan.coordinates) :][: len(self.design.group_names)]
        left_out = len(self._left_out())
        joined = sum(int(which.sum()) for which in self.small.values())
        word = judged(beyond, low if beyond else 0.0, high, tolerance, tested=tested)
        return Verdict(
            word=word,
            beyond=beyond,
            p_value=p_value,
            low=low if beyond else 0.0,
            high=high,
            tolerance=tolerance,
            detectable=(self.sizes.null.critical + POWER_QUANTILE) * spread if tested else None,
            unresolved=int(np.sum(~groups)) - left_out + joined,
            warnings=data_warnings(self.sums, tolerance if word == "small" else 0.0),
        )

    def _worst_error(self, tested: bool) -> tuple[float, float]:
        """Return the interval of the worst error; cells that the scan cannot test have pointwise intervals."""
        low, high = self.sizes.worst()
        ends = [(one.low, one.high) for one in self._contradictions()]
        if not tested:
            whole = gap_intervals(self.sums.tally.table.sum(axis=0)[None], np.array([self.sizes.null.alone]))
            ends, high = [*ends, (float(whole[1][0]), float(whole[2][0]))], 0.0
        low = max([low, *(max(a, -b) for a, b in ends)])
        return low, max([low, high, *(max(-a, b) for a, b in ends)])

    def _contradictions(self) -> list[Finding]:
        """Return the levels whose predictions of exactly 0 or 1 were contradicted: simulations never draw such rows."""
        contradicted = []
        for k, sums in enumerate(self.sums.tally.table):
            if impossible(sums):
                gap, low, high = (
                    float(part[0]) for part in gap_intervals(sums[None], np.array([self.sizes.null.alone]))[:3]
                )
                contradicted.append(
                    Finding(
                        name="all rows",
                        levels=(k, k),
                        interval=self.sums.levels.bounds(k),
                        n=float(sums[kernel.MASS]),
                        gap=gap,
                        z=np.copysign(np.inf, gap),
                        p_value=0.0,
                        is_group=True,
                        low=low,
                        high=high,
                    )
                )
        return contradicted

    def group_table(self, tolerance: float) -> list[GroupRow]:
        """Return every group's size, means, gap, interval and verdict, simultaneous over everything examined.

        Intersections too small to be tested are left out.
        """
        count = len(self.design.group_names)
        numbers = dict(zip(self.design.group_names, len(self.scan.coordinates) + np.arange(count), strict=True))
        names, sums = list(numbers), self.groups[:, :count].sum(axis=0)
        if self.small:
            names, sums = self._every_group()
        functions = np.array([numbers.get(name, -1) for name in names], dtype=np.intp)
        every = group_rows(names, functions, sums, self.sizes, tolerance)
        rows = [row for row in every if not is_elsewhere(row.name)]
        marks = tuple(f"{pair.name} = " for pair in intersections_of(self.sums.tally.groups))
        return [row for row in rows if not (row.small and row.name.startswith(marks))] if marks else rows

    def _every_group(self) -> tuple[list[str], Array]:
        """Return the names and scalar sums (K, SCALARS) of all groups, in the order of the table."""
        names, sums = [], []
        for column in sorted(self.sums.tally.groups):
            group = self.sums.tally.groups[column]
            order = group.order()
            names += [f"{column} = {group.names[k]}" for k in order]
            sums.append(group.table.sum(axis=0)[order])
        return names, np.concatenate(sums)

    @cached_property
    def group_count(self) -> int:
        """Number of groups, those too small to be tested included."""
        return sum(len(group.names) for group in self.sums.tally.groups.values())

    @cached_property
    def tested_count(self) -> int:
        """Number of groups that are tested."""
        first = len(self.scan.coordinates)
        return int(self.sizes.window(-1).usable[first : first + len(self.design.group_names)].sum())

    @property
    def small_count(self) -> int:
        """Number of groups that are too small to be tested."""
        return self.group_count - sum(map(is_elsewhere, self.design.group_names)) - self.tested_count

    def numbers(self, tolerance: float) -> list[NumberCurve]:
        """Return the gap along every number, by ranges, the most significant number first."""
        first = len(self.design.group_names)
        names = [part.name for part in self.design.ranges]
        sums = self.groups[:, first:].sum(axis=0)
        functions = len(self.scan.coordinates) + first + np.arange(len(names))
        rows = group_rows(names, functions, sums, self.sizes, tolerance)
        every = [self._number(bins, dict(zip(names, rows, strict=True))) for bins in self.design.numbers]
        return sorted((one for one in every if one.edges), key=lambda one: 2.0 if one.p_value is None else one.p_value)

    def _number(self, bins: Bins, rows: dict[str, GroupRow]) -> NumberCurve:
        parts = [part for part in self.design.ranges if part.number == bins.name]
        curve = sorted((part for part in parts if part.eighth), key=lambda part: part.where.start)
        missing = [part for part in parts if part.where.stop == bins.where.stop]
        surest = next((place for place in self.sizes.surest() if self._subject(place[1]) == bins.name), None)
        return NumberCurve(
            name=bins.name,
            edges=tuple(bins.cuts[part.where.start - bins.where.start - 1] for part in curve[1:]),
            ranges=tuple(rows[part.name] for part in (*curve, *missing)),
            p_value=None if surest is None else float(self.sizes.window(surest[0]).p_value[surest[1]]),
        )

    def looked(self) -> str:
        """Return in how many groups and along how many features errors were looked for, in words."""
        first, numbers = len(self.scan.coordinates), len(self.design.numbers)
        others, tested, small = first - 1 - numbers, self.tested_count, self.small_count
        left = f" ({counted(small, 'group')} {'is' if small == 1 else 'are'} too small to be tested)" if small else ""
        parts = [f"in any of {counted(tested, 'group')}{left}"] if tested else []
        if numbers:
            parts.append(f"along any of {counted(numbers, 'number')} (trends, halves, quarters and eighths)")
        if others > 0:
            parts.append(f"along {counted(others, 'other feature')} (trend only)")
        return ", ".join([f"in all rows together{'' if tested else left}", *parts])

    def whole(self, finding: Finding) -> bool:
        """Return whether a finding spans all predictions."""
        used = np.flatnonzero(self.sums.tally.n > 0)
        return finding.levels == (int(used[0]), int(used[-1]))

    def span(self, finding: Finding) -> list[int]:
        """Return the levels of a finding that hold rows."""
        return [i for i in range(finding.levels[0], finding.levels[1] + 1) if self.sums.tally.n[i] > 0]

    def witness(self, quantity: str, q: int = 2, against: str = "linear") -> Witness:
        """Return what attains "smcal", "mcal", "sreg" or "somni"."""
        return measures.witness(self.sums.tally, self.sums.coordinates, quantity, q, against)

    @cached_property
    def names(self) -> list[str]:
        """Names of all groups, then of all ranges of numbers."""
        return [*self.design.group_names, *(part.name for part in self.design.ranges)]

    @cached_property
    def scan(self) -> ScanStatistic:
        """The scan over everything examined."""
        return ScanStatistic(self.design, self._scanned(), self._unit(), self._left_out(), self._between())

    def _left_out(self) -> list[int]:
        """Return the groups that are not tested: complements of regions, and small groups that were joined."""
        joined = tuple(f"{name} = {JOINED}" for name, which in self.small.items() if which.any())
        names = self.design.group_names
        return [k for k, name in enumerate(names) if is_elsewhere(name) or name in joined]

    def _between(self) -> Between | None:
        tally = self.sums.tally
        if tally.clusters is None:
            return None
        size = float(tally.table[:, kernel.ROWS].sum()) / max(tally.clusters.clusters, 1)
        return Between(self.residuals, signed(self.design, tally), *tally.least(), size)

    def few_clusters(self) -> int:
        """Return how many groups and ranges of numbers have rows of too few clusters to be tested."""
        clusters = self.scan.clusters
        return 0 if clusters is None else int(np.sum(clusters[-1, len(self.scan.coordinates) :] < LEAST_CLUSTERS))

    @property
    def inflation(self) -> float:
        """Factor by which clusters inflate the variance of the sum of all residuals; 1 if rows are independent."""
        return float(self.scan.inflation[-1, 0])

    @property
    def clustered(self) -> int:
        """Draws of the signs of clusters; 0 if rows are independent."""
        return 0 if self.sums.tally.clusters is None else self.sums.tally.clusters.draws

    def _scanned(self) -> Places:
        """Coordinates examined one by one: all but the indicators that are groups as well."""
        prefixes = tuple(f"{name} = " for name in self.sums.tally.groups)
        names = [coordinate.name for coordinate in self.sums.coordinates]
        ranges = {part.name for part in self.design.ranges}
        kept = [j for j, name in enumerate(names) if not name.startswith(prefixes) and name not in ranges]
        return np.array(kept, dtype=np.intp)

    @cached_property
    def sizes(self) -> EffectIntervals:
        """Intervals of the error of everything examined."""
        return EffectIntervals(self.scan, self.residuals, self.sums.tally.table, self.groups, Null(self.null["scan"]))

    @cached_property
    def null(self) -> dict[str, Array]:
        """Null draws of every cheap quantity and of the scan, from one simulation."""
        cheap = {
            "/".join(map(str, key)): quantity.measure
            for key, quantity in QUANTITIES.items()
            if quantity.cheap and (key[2] != "groups" or (self.design.columns and not self.small))
        }
        return self._simulate({**cheap, "scan": self.scan.measure}, DRAWS, self.design)

    def _simulate(self, measures: dict[str, Measure], draws: int, design: FixedDesign) -> dict[str, Array]:
        if self.clustered:
            return flipped_clusters(measures, draws, design, self.sums.tally)
        rows = self.sums.kept() if self.sums.sample.complete else None
        return simulate(design, measures, draws, self.seed, rows, self.sums.levels)

    def _finding(self, cells: Window, function: int) -> Finding:
        window = slice(cells.first, cells.last + 1)
        used = np.flatnonzero(self.sums.tally.n[window] > 0) + cells.first
        first, last = int(used[0]), int(used[-1])
        count = len(self.scan.coordinates)
        n = float(self.sums.tally.n[window].sum())
        if function >= count:
            name = self.names[function - count]
            n = float(self.groups[window, function - count, kernel.MASS].sum())
        else:
            name = self.sums.coordinates[int(self.scan.coordinates[function])].name if function else "all rows"
        return Finding(
            name=name,
            levels=(first, last),
            interval=(self.sums.levels.bounds(first)[0], self.sums.levels.bounds(last)[1]),
            n=n,
            gap=float(cells.value[function]),
            z=float(cells.z[function]),
            p_value=float(cells.p_value[function]),
            is_group=function == 0 or function >= count,
            low=float(cells.low[function]),
            high=float(cells.high[function]),
            deviation=self._deviation(cells, function, n) if 0 < function < count else None,
        )

    def _deviation(self, cells: Window, function: int, n: float) -> float | None:
        """Return the standard deviation of a number over n rows of a window, in its own units; None for indicators."""
        coordinate = self.sums.coordinates[int(self.scan.coordinates[function])]
        if coordinate.unit is None or coordinate.factor == 0 or n <= 0:
            return None
        return float(np.sqrt(max(self.scan.squares[cells.number, function], 0.0) / n)) / abs(coordinate.factor) or None
