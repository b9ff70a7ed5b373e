"""One simultaneous test over all groups, features and ranges, and intervals for every one of its cells."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Flags, Integers, Keys, Places
from swapcal.audit.clusters import LEAST_CLUSTERS, in_windows
from swapcal.audit.measures import FixedDesign, Residuals
from swapcal.audit.verdict import ALPHA, COVERED_SHARE
from swapcal.kernels import tally as kernel
from swapcal.kernels.tally import scan_maxima

# The scan: one simultaneous test over all groups, features and ranges of predictions.
#
# A cell is a window of adjacent levels (one level, two, four, … all) together with a function f: a group's
# indicator, a feature less its mean in the window, or the constant. Its score is |z| − Γ with
# z = Σ α f(x)(y − p) / √(Σ α² f² p(1 − p)) and Γ = √(2 log(V_f / V_cell)), the price of looking at a small part of
# f's variance; without it the many small windows would dominate the few large ones. The test statistic is the
# largest score of all cells; its null distribution is simulated, so the p-value accounts for every cell.

LEAST_VARIANCE = 10.0
"""Cells with fewer expected events than this have no trustworthy z."""


class Between(NamedTuple):
    """Clusters: residual sums as observed and with drawn signs, the smallest keys of clusters, and their mean size."""

    observed: Residuals
    signed: Residuals
    rows: Keys
    members: Keys
    size: float
    """Rows of a cluster on average."""

    def draws(self) -> Iterator[Residuals]:
        """Yield the observed sums, then those of all draws, some at a time."""
        yield self.observed
        for start in range(0, len(self.signed.g), CHUNK):
            yield Residuals(self.signed.g[start : start + CHUNK], self.signed.S[start : start + CHUNK])


CHUNK = 16
"""Draws of which all cells are held at a time."""


class Cell(NamedTuple):
    """One window of levels [first, last] and one function, with its penalised and plain score."""

    window: int
    first: int
    last: int
    function: int
    score: float
    z: float


class ScanStatistic:
    """The family of cells of a design: which functions, which windows, their variances and penalties.

    Functions are numbered: the chosen context coordinates first (the constant is the first of them), then all
    groups, of which some may be left out of the test, then the ranges of numbers.
    """

    def __init__(
        self,
        design: FixedDesign,
        coordinates: Places,
        unit: float = 1.0,
        left_out: Sequence[int] = (),
        between: "Between | None" = None,
    ) -> None:
        self.coordinates, self._design = coordinates, design
        self.windows = _windows(len(design.n))
        members = design.group_variance[:, design.declared].shape[1] + len(design.ranges)
        constant = self._sum(design.G[None, :, 0][:, :, coordinates])[0]
        mean = constant / np.where(constant[:, :1] > 0, constant[:, :1], 1.0)
        mean[:, 0] = 0.0
        self.squares = self._about(mean, design.G)
        self.centre = np.concatenate([mean, np.zeros((len(mean), members))], axis=1)
        typical = self.squares[-1] / max(float(design.n.sum()), 1e-300)
        worth = np.concatenate([np.maximum(typical, 1e-300), np.ones(members)])
        coins = self._variance(mean, design, np.ones_like(design.spread))
        tested = np.ones(len(worth), dtype=bool)
        tested[len(coordinates) + np.array(left_out, dtype=np.intp)] = False
        usable = tested & (coins >= LEAST_VARIANCE * unit * worth)
        variance = self._variance(mean, design, design.spread) if design.fractional.any() else coins
        self.inflation = np.ones_like(variance)
        self.clusters = None if between is None else self._clusters(between)
        if between is not None and self.clusters is not None:
            larger = self._pooled(self._between(between), variance)
            self.inflation = np.divide(larger, variance, out=self.inflation, where=variance > 0)
            variance = larger
            # Rows of one cluster may all share their outcome, so its events count as one at worst; the inflation seen
            # in a cell with hardly any event is no evidence that they do not.
            fewest = LEAST_VARIANCE * unit * worth * np.maximum(self.inflation, between.size)
            usable = tested & (coins >= fewest)
            usable &= self.clusters >= LEAST_CLUSTERS
        self._root, self._penalty = _prices(variance, usable)

    def _between(self, between: "Between") -> Array:
        """Variance of every cell between clusters: mean square over all signs, those observed included.

        The observed sums and those of every draw are treated alike, so the test is exact for symmetric residuals.
        """
        total, count = np.zeros(self.centre.shape), 0
        for r in between.draws():
            total += np.einsum("bwf,bwf->wf", *[self.sums(r)] * 2)
            count += len(r.g)
        return total / count

    def _pooled(self, between: Array, variance: Array) -> Array:
        """Return the variance of every cell: its own between clusters, but no less than that of its family.

        Few events make both a sum and its variance between clusters small, so that cells with only their own variance
        would be rejected too often. A family is a group column or number in all windows of one width: there the ratio
        of the variance between clusters to that of coins is estimated well. It is never below 1.
        """
        width = np.diff(self.windows, axis=1)[:, 0]
        floor = np.ones_like(variance)
        for part in self._families():
            for one in np.unique(width):
                cells = np.ix_(width == one, part)
                total = float(variance[cells].sum())
                floor[cells] = max(1.0, float(between[cells].sum()) / total) if total > 0 else 1.0
        return np.maximum(between, floor * variance)

    def _families(self) -> list[list[int]]:
        """Return the functions whose variance is estimated together: each coordinate, group column and number."""
        count = len(self.coordinates)
        columns = [[count + k for k in range(where.start, where.stop)] for _, _, where in self._design.columns]
        first = count + sum(map(len, columns))
        numbers: dict[str, list[int]] = {}
        for k, part in enumerate(self._design.ranges):
            numbers.setdefault(part.number, []).append(first + k)
        return [*([j] for j in range(count)), *columns, *numbers.values()]

    def _clusters(self, between: "Between") -> Integers:
        """Return the number of clusters of every cell, up to `LEAST_CLUSTERS`: coordinates have those of all rows."""
        everyone, members = in_windows(between.rows), in_windows(self._design.united(between.members))
        return np.concatenate([np.repeat(everyone, len(self.coordinates), axis=1), members], axis=1)

    def _variance(self, mean: Array, design: FixedDesign, spread: Array) -> Array:
        """Variance of every cell if outcomes have `spread` (L,) times the variance of coins, (windows, functions)."""
        contexts = self._about(mean, spread[:, None, None] * design.H)
        members = design.examined(spread[:, None] * design.group_variance)
        return np.concatenate([contexts, self._sum(members[None])[0]], axis=1)

    def _about(self, mean: Array, M: Array) -> Array:
        """Per window and coordinate, second moments (L, d, d) about a mean in units of the constant."""
        j = self.coordinates
        first, squares = (self._sum(part[None][:, :, j])[0] for part in (M[:, 0], np.einsum("ldd->ld", M)))
        return np.asarray(squares - 2.0 * mean * first + mean**2 * first[:, :1])

    def _sum(self, per_level: Array) -> Array:
        """Sum (B, L, F) values over every window."""
        total = np.cumsum(per_level, axis=1)
        total = np.concatenate([np.zeros_like(total[:, :1]), total], axis=1)
        return np.asarray(total[:, self.windows[:, 1] + 1] - total[:, self.windows[:, 0]])

    def sums(self, r: Residuals) -> Array:
        """Σ α f(x)(y − p) of every cell, (B, windows, functions)."""
        raw = self._sum(np.concatenate([r.g[:, :, self.coordinates], self._design.examined(r.S)], axis=2))
        return np.asarray(raw - self.centre * raw[:, :, :1])

    def scores(self, r: Residuals) -> tuple[Array, Array]:
        """Penalised |z| and z of every cell, (B, windows, functions); −∞ and 0 where a cell is unusable."""
        z = self.sums(r) / self._root
        return np.where(np.isfinite(self._root), np.abs(z) - self._penalty, -np.inf), z

    def measure(self, design: FixedDesign, r: Residuals) -> Array:
        """Largest score of every draw (0 if no cell is usable)."""
        del design
        best = np.empty(len(r.g))
        for values, part in self._blocks(r):
            largest = np.empty(len(r.g))
            scan_maxima(
                values, self.windows, self.centre[:, part], self._root[:, part], self._penalty[:, part], largest
            )
            best = largest if part.start == 0 else np.maximum(best, largest)
        return np.where(np.isfinite(best), best, 0.0)

    def _blocks(self, r: Residuals) -> Iterator[tuple[Array, slice]]:
        count = len(self.coordinates)
        yield np.ascontiguousarray(r.g[:, :, self.coordinates]), slice(0, count)
        members = self._design.examined(r.S)
        if members.shape[2]:
            yield np.ascontiguousarray(members), slice(count, count + members.shape[2])

    def cells(self, r: Residuals) -> list[Cell]:
        """Best window of every function, highest score first."""
        score, z = (part[0] for part in self.scores(r))
        usable = []
        for f in range(score.shape[1]):
            w = int(score[:, f].argmax())
            if np.isfinite(score[w, f]):
                first, last = self.windows[w]
                usable.append(Cell(w, int(first), int(last), f, float(score[w, f]), float(z[w, f])))
        return sorted(usable, key=lambda cell: (-cell.score, cell.function))


def _prices(variance: Array, usable: Flags) -> tuple[Array, Array]:
    """Return every cell's standard deviation (infinite if it is not usable) and penalty."""
    usable = usable & (variance > 0) & (variance[-1] > 0)  # a constant's variance is its rounding, of either sign
    root = np.sqrt(variance, where=usable, out=np.full_like(variance, np.inf))
    part = np.divide(variance, variance[-1], where=usable, out=np.ones_like(variance))
    return root, np.sqrt(-2.0 * np.log(np.minimum(part, 1.0)))


def _windows(levels: int) -> Places:
    """Aligned windows of 1, 2, 4, … levels, and the whole range last."""
    aligned, size = [], 1
    while size < levels:
        aligned += [(start, min(start + size, levels) - 1) for start in range(0, levels, size)]
        size *= 2
    return np.array([*aligned, (0, levels - 1)], dtype=np.intp)


# Sizes: how large the error of every cell of the scan is, in intervals that hold for all cells at once.
#
# The scan rejects a cell when |z| > q + Γ, with q the simulated 95 % quantile of the largest score and Γ the cell's
# penalty. Inverted, all the cells' errors together lie within q + Γ standard errors of what was observed, in 95 of
# 100 cases. A gap gets the score interval of a constant shift, which leaves 0 out exactly when the scan rejects. Where
# residuals spread more than any constant shift explains, their own spread takes its place.

TELLING = 4.0
"""Standard deviations by which squared residuals must exceed a constant shift's before they replace it."""


PLAIN = 1.959963984540054
"""Standard errors of a 95 % interval that stands alone."""


class Null:
    """The simulated null distribution of the largest score.

    A cell is rejected beyond `critical` plus its penalty. `alone` is the critical value of groups too small for cells.
    """

    def __init__(self, maxima: Array) -> None:
        self._sorted = np.sort(maxima)
        rank = max(1, int(ALPHA * (1 + len(maxima))))
        self.critical = float(self._sorted[-rank])
        self.alone = max(self.critical, PLAIN)

    def p_values(self, scores: Array) -> Array:
        """Return the p-value of each score over all cells; the score itself counts as one draw."""
        nearly = scores - 1e-12 * np.abs(scores) - 1e-15  # rounding must not break ties
        reached = len(self._sorted) - np.searchsorted(self._sorted, nearly, side="left")
        return np.asarray((1.0 + reached) / (1.0 + len(self._sorted)), dtype=np.float64)


class Window(NamedTuple):
    """The cells of one range of predictions: one entry per function of the scan.

    `value` is the gap observed − predicted of a group, or its change per standard deviation of a feature; `half` the
    half-width of the interval if the predictions are right; `share` the part of all rows that the cell holds. Unusable
    cells have p = 1 and an infinite interval.
    """

    number: int
    first: int
    last: int
    value: Array
    low: Array
    high: Array
    half: Array
    share: Array
    score: Array
    p_value: Array
    z: Array
    usable: Flags

    @property
    def surely(self) -> Array:
        """Smallest size of error inside the interval."""
        return np.asarray(np.maximum(np.maximum(self.low, -self.high), 0.0))

    @property
    def at_most(self) -> Array:
        """Largest size of error inside the interval."""
        return np.asarray(np.maximum(np.abs(self.low), np.abs(self.high)))

    @property
    def beyond(self) -> Flags:
        """Which errors are significant."""
        return self.usable & (self.p_value <= ALPHA)

    @property
    def covered(self) -> Flags:
        """Which errors the interval of the worst error covers: those of enough rows, and those beyond chance."""
        return self.beyond | (self.usable & (self.share >= COVERED_SHARE * (1.0 - 1e-12)))


class EffectIntervals:
    """All cells of a scan on observed residuals, window by window; the whole range comes last."""

    def __init__(self, scan: ScanStatistic, observed: Residuals, overall: Array, groups: Array, null: Null) -> None:
        self._scan, self._overall, self._groups, self.null = scan, overall, groups, null
        self.inflation, self.clusters = scan.inflation, scan.clusters
        self._score, self._z = (part[0] for part in scan.scores(observed))
        self._sums = scan.sums(observed)[0]
        self._count = len(scan.coordinates)

    def __iter__(self) -> Iterator[Window]:
        return (self.window(index) for index in range(len(self._scan.windows)))

    def window(self, index: int) -> Window:
        """Return the cells of one window; −1 is the whole range."""
        index = index % len(self._scan.windows)
        first, last = (int(end) for end in self._scan.windows[index])
        whole = self._overall[first : last + 1].sum(axis=0)
        members = self._groups[first : last + 1].sum(axis=0)
        score, z = self._score[index], self._z[index]
        usable = np.isfinite(score)
        reach = self.null.critical + np.where(usable, np.abs(z) - np.where(usable, score, 0.0), 0.0)
        gap_cells = np.r_[0, self._count : len(score)]
        trend_cells = np.arange(1, self._count)
        value, low, high, half, strict = (np.zeros(len(score)) for _ in range(5))
        sums = np.vstack([whole, members])
        for cells, figures in (
            (gap_cells, gap_intervals(sums, reach[gap_cells], _coins(sums, z[gap_cells]))),
            (trend_cells, self._trends(index, whole, reach, z)),
        ):
            for into, part in zip((value, low, high, half, strict), figures, strict=True):
                into[cells] = part
        score = np.where(usable, np.minimum(score, strict - (reach - self.null.critical)), -np.inf)
        p_value = np.where(usable, self.null.p_values(score), 1.0)
        infinite = np.where(usable, 0.0, np.inf)
        return Window(
            number=index,
            first=first,
            last=last,
            value=value,
            low=low - infinite,
            high=high + infinite,
            half=half + infinite,
            share=self._shares(sums, gap_cells, len(score)),
            score=score,
            p_value=p_value,
            z=z,
            usable=usable,
        )

    def _shares(self, sums: Array, gap_cells: Places, count: int) -> Array:
        """Return the part of all rows in each cell; a feature's is that of the range, whose scalar sums come first."""
        mass = np.full(count, sums[0, kernel.MASS])
        mass[gap_cells] = sums[:, kernel.MASS]
        return np.asarray(mass / max(float(self._overall[:, kernel.MASS].sum()), 1e-300))

    @cached_property
    def _surest(self) -> list[tuple[int, int]]:
        score = np.empty_like(self._score)
        for cells in self:
            score[cells.number] = cells.score
        place = score.argmax(axis=0)
        best = score[place, np.arange(score.shape[1])]
        order = np.lexsort((np.arange(len(best)), -best))
        return [(int(place[f]), int(f)) for f in order if np.isfinite(best[f])]

    def surest(self) -> list[tuple[int, int]]:
        """Return (window, function) of every function's highest score, the highest first."""
        return self._surest

    def largest(self) -> tuple[int, int] | None:
        """Return (window, function) of the largest certain error; None if no error is significant."""
        place, surely = None, 0.0
        for cells in self:
            sure = np.where(cells.usable, cells.surely, 0.0)
            if sure.max() > surely:
                place, surely = (cells.number, int(sure.argmax())), float(sure.max())
        return place

    def worst(self) -> tuple[float, float]:
        """Return the interval of the worst error among the cells that hold enough rows or are beyond chance.

        The whole data are always among them. The intervals hold for all cells together, so choosing cells afterwards
        is valid. The choice does not depend on the tolerance: otherwise a larger tolerance would admit smaller cells
        with wider intervals, whose far ends would exceed it again.
        """
        low, high = 0.0, float(min(1.0, self.window(-1).at_most[0]))
        for cells in self:
            low = max(low, float(cells.surely[cells.beyond].max(initial=0.0)))
            high = max(high, float(cells.at_most[cells.covered].max(initial=0.0)))
        return low, high

    def widest(self) -> tuple[int, int]:
        """Return (window, function) of the cell whose interval reaches as far as that of the worst error."""
        reach = [np.where(cells.covered, cells.at_most, 0.0) for cells in self]
        index, function = np.unravel_index(int(np.argmax(reach)), (len(reach), len(reach[0])))
        return int(index), int(function)

    def widest_gap(self, alpha: float) -> float:
        """Return the largest |gap| of a group and range of predictions whose p-value is at most `alpha`."""
        gaps = np.r_[0, self._count : len(self._score[0])]
        widest = 0.0
        for cells in self:
            beyond = cells.usable[gaps] & (cells.p_value[gaps] <= alpha)
            widest = max(widest, float(np.abs(cells.value[gaps][beyond]).max(initial=0.0)))
        return widest

    def _trends(self, index: int, whole: Array, reach: Array, z: Array) -> tuple[Array, ...]:
        """Return every feature's change of the gap per standard deviation, its interval, half-width and |z|."""
        cells = np.arange(1, self._count)
        scale = np.sqrt(np.maximum(self._scan.squares[index, cells], 0.0) * whole[kernel.MASS])
        safe = np.where(scale > 0, scale, 1.0)
        total, z = self._sums[index, cells], z[cells]
        deviation = np.abs(np.divide(total, z, out=np.zeros(len(cells)), where=z != 0))
        wider = np.sqrt(max(1.0, _overspread(whole[None], np.zeros(1))[1][0]))
        half = np.where(z != 0, reach[cells] * deviation * wider / safe, np.inf)
        return total / safe, total / safe - half, total / safe + half, half, np.abs(z) / wider


def gap_intervals(sums: Array, reach: Array, coins: Array | float = 1.0) -> tuple[Array, ...]:
    """Return gaps, lower ends, upper ends, half-widths if the predictions are right, and |z|, from scalar sums.

    Parameters
    ----------
    sums, reach : (K, SCALARS) and the number of standard errors (K,)
    coins : variance of the outcomes in units of Σα²p(1 − p): below 1 if some lie between 0 and 1, above 1 if those of
        a cluster go together
    """
    mass = np.where(sums[:, kernel.MASS] > 0, sums[:, kernel.MASS], 1.0)
    gap = sums[:, kernel.RESIDUAL] / mass
    low, high = shift_interval(sums, reach * np.sqrt(coins))
    spread, ratio = _overspread(sums, gap)
    wide = ratio > 1.0
    spread = spread * np.maximum(coins, 1.0)
    own = reach * np.sqrt(spread) / mass
    low = np.where(wide, gap - own, np.minimum(low, gap))
    high = np.where(wide, gap + own, np.maximum(high, gap))
    variance = np.where(wide, spread, coins * sums[:, kernel.VARIANCE])
    z = np.abs(sums[:, kernel.RESIDUAL]) / np.sqrt(np.maximum(variance, 1e-300))
    half = reach * np.sqrt(coins * sums[:, kernel.VARIANCE]) / mass
    return gap, np.maximum(low, -1.0), np.minimum(high, 1.0), half, z


def _coins(sums: Array, z: Array) -> Array:
    """Return the variance that the scan used, in units of Σα²p(1 − p); 1 where z does not determine it."""
    variance = sums[:, kernel.VARIANCE]
    known = (z != 0) & (variance > 0)
    root = np.divide(sums[:, kernel.RESIDUAL], z, out=np.ones(len(z)), where=known)
    ratio = np.divide(root**2, variance, out=np.ones(len(z)), where=known)
    return np.where(np.abs(ratio - 1.0) < 1e-6, 1.0, ratio)


def shift_interval(sums: Array, reach: float | Array = PLAIN) -> tuple[Array, Array]:
    """Score interval of a constant shift: all Δ at which Σ α(y − p − Δ) is within `reach` standard deviations of 0.

    Solves (S − nΔ)² = c²(V + Δ(w − 2u) − wΔ²) with w = Σα², u = w·mean p, V = Σα²p(1 − p).

    Examples
    --------
    Ten rows predicted 0.3 of which 5 happened: Wilson's interval for 5 of 10, less 0.3.

    >>> sums = np.zeros((1, kernel.SCALARS))
    >>> sums[0, [kernel.MASS, kernel.MASS2, kernel.ROWS]] = 10
    >>> sums[0, [kernel.PREDICTED, kernel.OBSERVED, kernel.RESIDUAL, kernel.VARIANCE]] = 3, 5, 2, 2.1
    >>> np.round(shift_interval(sums), 3).ravel() + 0.3
    array([0.237, 0.763])
    """
    c2 = np.asarray(reach) ** 2
    n, w = np.where(sums[:, kernel.MASS] > 0, sums[:, kernel.MASS], 1.0), sums[:, kernel.MASS2]
    S, V = sums[:, kernel.RESIDUAL], sums[:, kernel.VARIANCE]
    u = w * sums[:, kernel.PREDICTED] / n
    a, b, c = n**2 + c2 * w, -2.0 * n * S - c2 * (w - 2.0 * u), S**2 - c2 * V
    root = np.sqrt(np.maximum(b**2 - 4.0 * a * c, 0.0))
    return (-b - root) / (2.0 * a), (-b + root) / (2.0 * a)


def _overspread(sums: Array, shift: Array) -> tuple[Array, Array]:
    """Return Σα²(y − p − Δ)², and the factor by which it exceeds a constant shift Δ, 1 unless beyond doubt."""
    mass = np.where(sums[:, kernel.MASS] > 0, sums[:, kernel.MASS], 1.0)
    weight = sums[:, kernel.MASS2] / mass
    centred = sums[:, kernel.SQUARED] - 2.0 * shift * sums[:, kernel.RESIDUAL] + shift**2 * mass
    seen = np.maximum(centred, 0.0) * weight
    w, u = sums[:, kernel.MASS2], weight * sums[:, kernel.PREDICTED]
    explained = np.maximum(sums[:, kernel.VARIANCE] + shift * (w - 2.0 * u) - w * shift**2, 0.0)
    typical = w / np.maximum(sums[:, kernel.ROWS], 1.0)
    telling = seen - explained > TELLING * np.sqrt(np.maximum(explained, sums[:, kernel.VARIANCE]) * typical)
    return seen, np.where(telling, seen / np.maximum(explained, 1e-300), 1.0)
