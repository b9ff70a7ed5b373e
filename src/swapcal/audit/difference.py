"""Differences between two predictors, tested on the same rows."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple, Self

import numpy as np
from scipy.special import stdtr, stdtrit

from swapcal.arrays import Array, Index, Integers, Keys
from swapcal.audit.clusters import LEAST_CLUSTERS, LEAST_DRAWS, NONE, ClusterSums, SignedTerms
from swapcal.audit.verdict import ALPHA
from swapcal.kernels.tally import log_losses
from swapcal.report.findings import Change, Difference, GroupDifference
from swapcal.tables.values import Categories

# Pairs: the additive sums that a comparison keeps of rows with two predictions.

_FINE = np.array([0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05])
EDGES = np.concatenate([_FINE, np.arange(1, 10) / 10, 1.0 - _FINE[::-1]])
"""Between the ranges of forecasts over which calibration is compared: tenths, and finer near 0 and 1.

They are fixed, so that sums of parts add up, and the same for both predictors.
"""

RANGES = len(EDGES) + 1


MASS, MASS2, OBSERVED, R, S, R2, S2, RR, SS, RS, NULL, EXPECTED, ROWS = range(13)
"""Columns of the sums, with r = y − a and s = y − b the residuals of the two predictors and m = (a + b)/2.

Σα, Σα², Σαy, Σαr, Σαs, Σα²r, Σα²s, Σα²r², Σα²s², Σα²rs, Σα²m(1 − m) (or Σα²(y − m)² where 0 < y < 1), Σα·min(m, 1 − m),
number of rows.
"""

SUMS = 13
EVERYONE = "(everyone)"
"""Name of the signed sums of all rows; columns of groups are called by their own names."""
LOSSES = ("Brier score", "log loss")


class SignedRanges(NamedTuple):
    """Σα and Σαr by ranges of the first predictor, Σα and Σαs by those of the second, with the signs of clusters.

    Both are (ranges, 2, draws); means of squares over the draws are variances between clusters. `number` counts the
    clusters, exactly below 30.
    """

    before: Array
    after: Array
    number: int

    @property
    def whole(self) -> tuple[Array, Array, Array]:
        """Σα, Σαr and Σαs over all ranges, (draws,) each."""
        return self.before[:, 0].sum(axis=0), self.before[:, 1].sum(axis=0), self.after[:, 1].sum(axis=0)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of a variance between so many clusters, estimated from so many draws."""
        draws = int(self.before.shape[2])
        return 1.0 / (1.0 / max(self.number - 1, 1) + 1.0 / draws)


class PairCell(NamedTuple):
    """Sums of one group by ranges: `before` and `after` (cells,) are the ranges of the two predictions."""

    before: Integers
    after: Integers
    sums: Array
    signed: SignedRanges | None = None


class PairColumn:
    """Sums per category and pair of ranges; only cells that hold rows are kept."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.keys: Integers = np.zeros(0, np.int64)
        self.sums: Array = np.zeros((0, SUMS))

    def add(self, names: list[str], codes: Integers, ranges: Integers, terms: Array) -> None:
        """Add rows: their category's place in `names`, their pair of ranges, and their terms (rows, SUMS)."""
        keys, place = np.unique(self._known(names)[codes] * RANGES**2 + ranges, return_inverse=True)
        sums = np.stack(
            [np.bincount(place, weights=term, minlength=len(keys)) for term in terms.T], axis=1, dtype=float
        )
        self._merge(keys, sums)

    def merge(self, other: "PairColumn") -> None:
        """Add the sums of another column."""
        code, ranges = np.divmod(other.keys, RANGES**2)
        self._merge(self._known(other.names)[code] * RANGES**2 + ranges, other.sums)

    def each(self) -> list[tuple[str, PairCell]]:
        """Return every category with its cells, in alphabetical order."""
        code, ranges = np.divmod(self.keys, RANGES**2)
        before, after = np.divmod(ranges, RANGES)
        ends = np.searchsorted(code, np.arange(len(self.names) + 1))  # keys increase
        places = [slice(int(ends[k]), int(ends[k + 1])) for k in range(len(self.names))]
        cells = [PairCell(before[part], after[part], self.sums[part]) for part in places]
        return sorted(zip(self.names, cells, strict=True), key=lambda pair: pair[0])

    def within(self) -> PairCell:
        """Return the cells of all categories, each category's ranges counted as ranges of their own."""
        code, ranges = np.divmod(self.keys, RANGES**2)
        before, after = np.divmod(ranges, RANGES)
        return PairCell(code * RANGES + before, code * RANGES + after, self.sums)

    def places(self, names: list[str]) -> Integers:
        """Return the codes of categories that are known."""
        return self._known(names)

    def _known(self, names: list[str]) -> Integers:
        self.names = list(dict.fromkeys([*self.names, *names]))
        place = {name: code for code, name in enumerate(self.names)}
        return np.array([place[name] for name in names], np.int64)

    def _merge(self, keys: Integers, sums: Array) -> None:
        self.keys, place = np.unique(np.concatenate([self.keys, keys]), return_inverse=True)
        both = np.concatenate([self.sums, sums])
        self.sums = np.zeros((len(self.keys), SUMS))
        np.add.at(self.sums, place, both)


class Pairs:
    """Sums over rows of two predictors: their losses, and per group their residuals by pair of ranges.

    `losses` has one row per loss of `LOSSES`: Σαd, Σα²d, Σα²d², Σα·before, Σα·after, with d = after − before, and Σα²
    times the variance of d where outcomes make the two equally good.
    """

    def __init__(self) -> None:
        self.everyone = PairColumn()
        self.columns: dict[str, PairColumn] = {}
        self.losses: Array = np.zeros((len(LOSSES), 6))
        self.clusters: ClusterSums | None = None

    def add(
        self,
        a: Array,
        b: Array,
        y: Array,
        weights: Array,
        groups: Mapping[str, Categories],
        clusters: Keys | None = None,
    ) -> None:
        """Add checked rows with predictions a (before) and b (after), and the keys of their clusters, if any."""
        if not len(y):
            return
        terms = _terms(a, b, y, weights)
        ranges = np.searchsorted(EDGES, a, side="right") * RANGES + np.searchsorted(EDGES, b, side="right")
        self.everyone.add(["all rows"], np.zeros(len(y), np.int64), ranges, terms)
        for name, column in groups.items():
            self.columns.setdefault(name, PairColumn()).add(column.names, column.codes.astype(np.int64), ranges, terms)
        self.losses += [_loss_sums(loss, a, b, y, weights) for loss in (_squares, log_losses)]
        if clusters is not None:
            self._add_clusters(a, b, y, weights, groups, ranges, clusters)

    def _add_clusters(
        self,
        a: Array,
        b: Array,
        y: Array,
        weights: Array,
        groups: Mapping[str, Categories],
        ranges: Integers,
        clusters: Keys,
    ) -> None:
        changes = [weights * (loss(b, y) - loss(a, y)) for loss in (_squares, log_losses)]
        terms = {"losses": SignedTerms.dense(np.column_stack([weights, *changes]))}
        codes = {name: self.columns[name].places(column.names)[column.codes] for name, column in groups.items()}
        for name, code in {EVERYONE: np.zeros(len(y), np.int64), **codes}.items():
            size = 1 if name == EVERYONE else len(self.columns[name].names)
            for side, where, p in (("before", ranges // RANGES, a), ("after", ranges % RANGES, b)):
                place = 2 * (code * RANGES + where)
                values = np.column_stack([weights, weights * (y - p)])
                places = np.column_stack([place, place + 1])
                terms[f"{side} {name}"] = SignedTerms(2 * RANGES * size, places, values, counts_clusters=False)
            terms[f"rows {name}"] = SignedTerms.coded(size, code[:, None], weights)
        if self.clusters is None:
            self.clusters = ClusterSums(1, LEAST_DRAWS)
        self.clusters.add(np.zeros(len(y), np.int32), clusters, terms)

    def signed(self, name: str, cell: PairCell, category: int | None = None) -> PairCell:
        """Return a cell of a column, or of one of its categories, with the signed sums of its ranges."""
        if self.clusters is None:
            return cell
        start = 0 if category is None else category * RANGES
        before, after = (
            self.clusters.signed[f"{side} {name}"][0].reshape(-1, 2, self.clusters.draws)[start + np.unique(where)]
            for side, where in (("before", cell.before), ("after", cell.after))
        )
        least = self.clusters.least[f"rows {name}"][0]
        number = self.clusters.clusters if category is None else int(np.sum(least[category] != NONE))
        return cell._replace(signed=SignedRanges(before, after, number))

    def __add__(self, other: "Pairs") -> Self:
        whole = deepcopy(self)
        whole.everyone.merge(other.everyone)
        for name, column in other.columns.items():
            whole.columns.setdefault(name, PairColumn()).merge(column)
        whole.losses += other.losses
        if whole.clusters is not None and other.clusters is not None:
            whole.clusters.merge(other.clusters, whole._places_of(other))
        return whole

    def _places_of(self, other: "Pairs") -> dict[str, Index]:
        """Return where the places of another's signed sums are among these."""
        places: dict[str, Index] = {}
        for name, column in other.columns.items():
            codes = self.columns[name].places(column.names)
            inside = (2 * RANGES * codes[:, None] + np.arange(2 * RANGES)).ravel().astype(np.int32)
            places |= {f"before {name}": inside, f"after {name}": inside, f"rows {name}": codes.astype(np.int32)}
        return places


def _terms(a: Array, b: Array, y: Array, weights: Array) -> Array:
    r, s, m, heavy = y - a, y - b, (a + b) / 2, weights**2
    null = np.where((y > 0) & (y < 1), (y - m) ** 2, m * (1 - m))
    rarer = np.minimum(m, 1 - m)
    ones = np.ones(len(y))
    terms = [weights, heavy, weights * y, weights * r, weights * s, heavy * r, heavy * s]
    return np.stack([*terms, heavy * r * r, heavy * s * s, heavy * r * s, heavy * null, weights * rarer, ones], axis=1)


def _squares(p: Array, y: Array) -> Array:
    return (y - p) ** 2


def _loss_sums(loss: Callable[[Array, Array], Array], a: Array, b: Array, y: Array, weights: Array) -> list[float]:
    """Return a row of `Pairs.losses`.

    d is linear in the outcome, with ends d_0 ≤ 0 ≤ d_1 or the reverse: a chance of −d_0/(d_1 − d_0) makes its mean 0
    and its variance −d_0·d_1.
    """
    before, after, heavy = loss(a, y), loss(b, y), weights**2
    d = after - before
    none, all_ = np.zeros(len(y)), np.ones(len(y))
    equal = np.maximum(-(loss(b, none) - loss(a, none)) * (loss(b, all_) - loss(a, all_)), 0.0)
    null = np.where((y > 0) & (y < 1), d * d, equal)
    parts = (weights * d, heavy * d, heavy * d * d, weights * before, weights * after, heavy * null)
    return [float(part.sum()) for part in parts]


# Difference: paired tests between two predictors.
#
# All tests are paired and treat the rows, or their clusters, as independent draws. Means of paired differences are
# tested by their own spread, but at least by that of outcomes that make both predictors equally good: otherwise few
# events would look certain.
# The error of a group compares |μ|, the size of its mean residual, of both predictors. As
# |μ_a| − |μ_b| = ± min(|μ_a − μ_b|, |μ_a + μ_b|), "equally wrong" means that the predictions agree in the mean, or
# that the outcomes lie in the middle between them: both must be refuted, which is a valid test also where both
# predictors are right. Calibration losses are compared by an estimate without the bias that noise gives; its variance
# counts both the part linear in the residuals and the quadratic one, which overstates it where both predictors are
# nearly calibrated: there the test is conservative.

LEAST_EVENTS = 10.0
"""Groups are tested if at least so many of the rarer outcome are expected."""


class Estimate(NamedTuple):
    """A difference with its standard error, and the degrees of freedom of the latter."""

    value: float
    error: float
    freedom: float

    def p_value(self) -> float:
        """Return the two-sided p-value."""
        if self.error == 0:
            return 1.0 if self.value == 0 else 0.0
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.error))

    def ends(self, alpha: float) -> tuple[float, float]:
        """Return the ends of the interval that misses with probability `alpha`."""
        if self.error == 0:
            return self.value, self.value
        half = -float(stdtrit(self.freedom, alpha / 2)) * self.error
        return self.value - half, self.value + half


def differences(pairs: Pairs, columns: Sequence[str] = ()) -> list[Difference]:
    """Return the overall scores: losses, calibration loss, and the latter within the groups of each named column."""
    scores = [_loss(pairs, k) for k in range(len(LOSSES))]
    everyone = pairs.signed(EVERYONE, pairs.everyone.within())
    meaning = "Brier score that recalibrating would save, noise removed"
    scores.append(_calibration("calibration loss", meaning, everyone))
    for name in columns:
        inside = f"the same in every group of {name} by itself"
        cell = pairs.signed(name, pairs.columns[name].within())
        scores.append(_calibration(f"calibration loss within {name}", inside, cell))
    return scores


def _loss(pairs: Pairs, k: int) -> Difference:
    meaning = ("mean squared error of the forecasts", "mean surprise at the outcomes, in nats")[k]
    mass, heavy = pairs.everyone.sums[:, MASS].sum(), pairs.everyone.sums[:, MASS2].sum()
    linear, first, second, before, after, null = pairs.losses[k]
    estimate = _mean(mass, heavy, linear, first, second, pairs.everyone.sums[:, ROWS].sum())
    if pairs.clusters is not None:
        weight, *changes = pairs.clusters.signed["losses"][0]
        freedom = pairs.signed(EVERYONE, pairs.everyone.within()).signed
        assert freedom is not None
        estimate = _between(estimate, changes[k], weight, mass, freedom.freedom)
    estimate = _at_least(estimate, float(np.sqrt(null)) / mass)
    return _judged(LOSSES[k], meaning, before / mass, after / mass, estimate)


def _calibration(name: str, meaning: str, cell: PairCell) -> Difference:
    before, after, estimate = calibration(cell)
    return _judged(name, meaning, before, after, estimate)


def _judged(name: str, meaning: str, before: float, after: float, estimate: Estimate) -> Difference:
    p = estimate.p_value()
    low, high = estimate.ends(ALPHA)
    return Difference(
        name=name,
        meaning=meaning,
        before=float(before),
        after=float(after),
        difference=float(estimate.value),
        low=low,
        high=high,
        p_value=p,
        word=_word(p, estimate.value),
    )


def _word(p_value: float, change: float) -> Change:
    if p_value > ALPHA:
        return "no difference found"
    return "better" if change < 0 else "worse"


def _mean(mass: float, heavy: float, linear: float, first: float, second: float, rows: float) -> Estimate:
    """Return Σαd/Σα with the error of a ratio of sums: Σα²(d − mean)² over (Σα)²."""
    mean = linear / mass
    spread = max(second - 2 * mean * first + mean**2 * heavy, 0.0)
    if spread <= 1e-13 * second:  # rounding, where every row has the same difference
        spread = 0.0
    freedom = max(mass**2 / heavy - 1, 1.0)
    return Estimate(mean, float(np.sqrt(spread * rows / max(rows - 1, 1))) / mass, freedom)


def _between(estimate: Estimate, signed: Array, weight: Array, mass: float, freedom: float) -> Estimate:
    """Return an estimate with its error between clusters, from Σαd and Σα with the clusters' signs."""
    spread = float(np.mean((signed - estimate.value * weight) ** 2))
    return Estimate(estimate.value, float(np.sqrt(spread)) / mass, freedom)


def _at_least(estimate: Estimate, error: float) -> Estimate:
    return estimate._replace(error=max(estimate.error, error))


def calibration(cell: PairCell) -> tuple[float, float, Estimate]:
    """Return the calibration losses Σ_v n_v/n μ_v² of both predictors, noise removed, and their difference."""
    sums, signed = cell.sums, cell.signed
    mass = sums[:, MASS].sum()
    (a, n_a, mu_a, loss_a), (b, n_b, mu_b, loss_b) = (
        _by_range(where, sums, linear, square, within)
        for where, linear, square, within in (
            (cell.before, R, RR, signed and signed.before),
            (cell.after, S, SS, signed and signed.after),
        )
    )
    before, after = loss_a / mass, loss_b / mass
    u, v = mu_a[a], mu_b[b]
    shift = v**2 - u**2 - (before - after)
    linear = (
        4 * u**2 * sums[:, RR]
        + 4 * v**2 * sums[:, SS]
        - 8 * u * v * sums[:, RS]
        + shift**2 * sums[:, MASS2]
        + 4 * shift * (u * sums[:, R2] - v * sums[:, S2])
    ).sum()
    own = [
        (2 * (np.bincount(where, weights=_centred(sums, m[where], m[where], kind)) / n) ** 2).sum()
        for where, n, m, kind in ((a, n_a, mu_a, "before"), (b, n_b, mu_b, "after"))
    ]
    shared = (4 * _centred(sums, u, v, "both") ** 2 / (n_a[a] * n_b[b])).sum()
    least = (4 * (v - u) ** 2 * sums[:, NULL]).sum()
    if signed is not None:
        linear, own, shared = _cluster_parts(signed, mu_a, mu_b, n_a, n_b, after - before)
    variance = max(linear, least) + max(own[0] + own[1] - shared, 0.0)
    if variance <= 1e-13 * (4 * (u**2 * sums[:, RR]).sum() + own[0] + own[1]):
        variance = 0.0
    freedom = max(float(mass**2 / sums[:, MASS2].sum()) - 1, 1.0) if signed is None else signed.freedom
    return before, after, Estimate(after - before, float(np.sqrt(variance)) / mass, freedom)


def _cluster_parts(
    signed: SignedRanges, mu_a: Array, mu_b: Array, n_a: Array, n_b: Array, change: float
) -> tuple[float, list[float], float]:
    """Return the linear, own and shared parts of the variance of `calibration`, between clusters.

    Means of products over draws overstate the square of a covariance by the product of the variances over the draws,
    which is taken off.
    """
    u, v, draws = mu_a[:, None], mu_b[:, None], signed.before.shape[2]
    (weight_a, r), (weight_b, s) = (np.moveaxis(part, 1, 0) for part in (signed.before, signed.after))
    gained = (2 * v * s - v**2 * weight_b).sum(axis=0) - (2 * u * r - u**2 * weight_a).sum(axis=0)
    linear = float(np.mean((gained - change * weight_a.sum(axis=0)) ** 2))
    first, second = r - u * weight_a, s - v * weight_b
    var_a, var_b = np.mean(first**2, axis=1), np.mean(second**2, axis=1)
    together = (first @ second.T / draws) ** 2 - np.outer(var_a, var_b) / draws
    own = [float((2 * (variance / n) ** 2).sum()) for variance, n in ((var_a, n_a), (var_b, n_b))]
    return linear, own, float((4 * together / np.outer(n_a, n_b)).sum())


def _by_range(
    where: Integers, sums: Array, linear: int, square: int, signed: Array | None
) -> tuple[Integers, Array, Array, float]:
    """Return each cell's range, every range's mass and mean residual, and Σ n_v μ_v² without the bias of noise."""
    place = np.unique(where, return_inverse=True)[1].astype(np.int64)
    total = np.stack([np.bincount(place, weights=sums[:, k]) for k in (MASS, MASS2, linear, square)])
    mass, heavy, residual, squares = total
    if signed is not None:
        heavy, squares = np.mean(signed**2, axis=2).T
    room = mass**2 - heavy
    apart = room > 1e-9 * mass**2  # the noise of a single row cannot be estimated
    unbiased = np.where(apart, (residual**2 - squares) / np.where(apart, room, 1.0), 0.0)
    return place, mass, residual / mass, float((mass * unbiased).sum())


def _centred(sums: Array, u: Array, v: Array, kind: str) -> Array:
    """Return Σα²(r − u)(s − v) of every cell, or with r or s in both places."""
    first, second, product = {
        "before": (R2, R2, RR),
        "after": (S2, S2, SS),
        "both": (R2, S2, RS),
    }[kind]
    return sums[:, product] - u * sums[:, second] - v * sums[:, first] + u * v * sums[:, MASS2]


def group_differences(pairs: Pairs) -> list[GroupDifference]:
    """Return every group's row, column by column."""
    cells = [
        (f"{name} = {category}", pairs.signed(name, cell, pairs.columns[name].names.index(category)))
        for name in sorted(pairs.columns)
        for category, cell in pairs.columns[name].each()
        if len(cell.sums)  # a category may be declared and hold no row
    ]
    return _adjusted([_Group(name, cell) for name, cell in cells])


class _Group:
    """One group before the correction for multiple testing."""

    def __init__(self, name: str, cell: PairCell) -> None:
        total = cell.sums.sum(axis=0)
        self.name, self.n = name, float(total[MASS])
        mass, heavy, rows = total[MASS], total[MASS2], total[ROWS]
        self.mean_y = float(total[OBSERVED] / mass)
        self.gaps = float(total[R] / mass), float(total[S] / mass)
        self.small = bool(total[EXPECTED] * mass / heavy < LEAST_EVENTS)
        self.apart, self.middle = _contrasts(total, mass, heavy, rows, cell.signed)
        number = None if cell.signed is None else cell.signed.number
        self.clusters = None if number is None or number >= LEAST_CLUSTERS else number
        self.small |= self.clusters is not None
        self.losses = calibration(cell)
        self.ece = tuple(_ece(where, cell.sums, kind) for where, kind in ((cell.before, R), (cell.after, S)))

    def p_values(self) -> tuple[float, float]:
        return max(self.apart.p_value(), self.middle.p_value()), self.losses[2].p_value()

    def gap_ends(self, alpha: float) -> tuple[float, float]:
        """Return the interval of |gap after| − |gap before|: its extremes over the two contrasts' intervals."""
        corners = [_change(s, d) for s in self.middle.ends(alpha) for d in self.apart.ends(alpha)]
        return min(corners), max(corners)


def _contrasts(
    total: Array, mass: float, heavy: float, rows: float, signed: SignedRanges | None
) -> tuple[Estimate, Estimate]:
    """Return μ_b − μ_a and μ_a + μ_b, r and s being the residuals.

    The second's variance is at least that of outcomes with the middle of the two predictions: otherwise few events, or
    none, would look certain.
    """
    r, s, r2, s2, rr, ss, rs = (total[k] for k in (R, S, R2, S2, RR, SS, RS))
    apart = _mean(mass, heavy, s - r, s2 - r2, rr + ss - 2 * rs, rows)
    middle = _mean(mass, heavy, r + s, r2 + s2, rr + ss + 2 * rs, rows)
    if signed is not None:
        weight, before, after = signed.whole
        apart = _between(apart, after - before, weight, mass, signed.freedom)
        middle = _between(middle, before + after, weight, mass, signed.freedom)
    least = 2 * float(np.sqrt(total[NULL])) / mass
    return apart, _at_least(middle, least)


def _change(total: float, apart: float) -> float:
    """Return |μ_b| − |μ_a| from μ_a + μ_b and μ_b − μ_a."""
    return (abs(total + apart) - abs(total - apart)) / 2


def calibration_error(p: Array, y: Array) -> float:
    """Return the mean size of the gaps over the ranges between `EDGES`: the error of a group in a comparison.

    Examples
    --------
    >>> calibration_error(np.array([0.31, 0.39, 0.9]), np.array([0.0, 1.0, 1.0]))
    0.13333333333333333
    """
    cell = np.searchsorted(EDGES, p, side="right")
    return float(np.abs(np.bincount(cell, y - p, RANGES)).sum() / len(y))


def _ece(where: Integers, sums: Array, kind: int) -> float:
    place = np.unique(where, return_inverse=True)[1]
    return float(np.abs(np.bincount(place, weights=sums[:, kind])).sum() / sums[:, MASS].sum())


def _adjusted(groups: list[_Group]) -> list[GroupDifference]:
    """Return the groups' rows, corrected for three estimates of every tested group (Bonferroni)."""
    family = max(1, 3 * sum(not group.small for group in groups))
    return [_row(group, family) for group in groups]


def _row(group: _Group, family: int) -> GroupDifference:
    change = abs(group.gaps[1]) - abs(group.gaps[0])
    before, after, loss = group.losses
    gap_p, loss_p = (None, None) if group.small else (min(1.0, family * p) for p in group.p_values())
    gap_low, gap_high = (None, None) if group.small else group.gap_ends(ALPHA / family)
    low, high = (None, None) if group.small else loss.ends(ALPHA / family)
    return GroupDifference(
        name=group.name,
        n=group.n,
        mean_y=group.mean_y,
        gap_before=group.gaps[0],
        gap_after=group.gaps[1],
        gap_change=change,
        gap_low=gap_low,
        gap_high=gap_high,
        gap_p=gap_p,
        ece_before=group.ece[0],
        ece_after=group.ece[1],
        loss_before=before,
        loss_after=after,
        loss_change=loss.value,
        loss_low=low,
        loss_high=high,
        loss_p=loss_p,
        small=group.small,
        clusters=group.clusters,
        word=_both(gap_p, change, loss_p, loss.value),
    )


def _both(gap_p: float | None, gap: float, loss_p: float | None, loss: float) -> Change:
    """Return the joint result of the two tests of a group; "no difference found" if they contradict each other."""
    words = {_word(p, change) for p, change in ((gap_p, gap), (loss_p, loss)) if p is not None}
    words.discard("no difference found")
    return words.pop() if len(words) == 1 else "no difference found"
