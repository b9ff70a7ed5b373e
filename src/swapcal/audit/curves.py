"""Scores and curves of a report: reliability, errors along a score and over time, the cells with the largest."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from swapcal import errors
from swapcal.arrays import Array, Flags, Index, Keys
from swapcal.audit import text
from swapcal.audit.evidence import Evidence
from swapcal.audit.intervals import PLAIN
from swapcal.audit.levels import Timeline, area, equal_part, smooth_error
from swapcal.audit.measures import FixedDesign
from swapcal.audit.rows import bases
from swapcal.audit.sums import KeptRows, Sums, category_codes
from swapcal.audit.text import TitleIndex
from swapcal.audit.verdict import Finding, Witness
from swapcal.kernels import tally as kernel
from swapcal.kernels.tally import log_losses
from swapcal.report.findings import CurvePoint, Level, Period, Resemblance, Term, WitnessEntry

# The familiar scores, from the sums.


def ece(sums: Sums) -> float:
    """Return the expected calibration error over the levels: Cal_1 per row."""
    return float(errors.cal(sums.tally.n, sums.tally.A, 1)) / sums.n


def smooth_ece(sums: Sums) -> float:
    """Return the smooth calibration error, from the rows if all are kept, else from the histogram."""
    if not sums.sample.complete:
        return sums.histogram.smooth_ece()
    rows = sums.kept()
    return smooth_error(rows.p, rows.copies * rows.weights * (rows.y - rows.p) / sums.n)


def brier(sums: Sums) -> float:
    """Return the mean squared error."""
    return float(sums.tally.table[:, kernel.SQUARED].sum()) / sums.n


def brier_split(sums: Sums) -> tuple[float, float]:
    """Return the calibration and the refinement part of the Brier score; they add up to it."""
    calibration = float(errors.cal(sums.tally.n, sums.tally.A, 2)) / sums.n
    return calibration, brier(sums) - calibration


def log_loss(sums: Sums) -> float:
    """Return the mean log loss in nats, with probabilities kept 10⁻⁶ away from 0 and 1 (`kernels.logloss`)."""
    return sums.histogram.log_loss / sums.n


def auc(sums: Sums) -> tuple[float | None, float]:
    """Return the area under the ROC curve and how far binning can have moved it."""
    if sums.sample.complete:
        rows = sums.kept()
        _, place = np.unique(rows.p, return_inverse=True)
        mass = rows.copies * rows.weights
        total, ones = (np.bincount(place, weights=w).astype(np.float64) for w in (mass, mass * rows.y))
        return area(total - ones, ones)[0], 0.0
    if sums.levels.values is not None:
        ones = sums.tally.table[:, kernel.OBSERVED]
        return area(sums.tally.n - ones, ones)[0], 0.0
    return sums.histogram.auc()


def intervals(sums: Sums) -> dict[str, float]:
    """Return the ends of 95 % intervals of Brier score, log loss and AUC, rows or clusters being independent.

    How much the losses vary from row to row is taken from the rows that are kept, all of them or a sample by hash; from
    cluster to cluster, from their signed sums. Where no rows were read, only the AUC has an interval.
    """
    rows = sums.kept()
    ends: dict[str, float] = {}
    for name, value, losses in (
        ()
        if sums.sample.absent
        else (
            ("brier", brier(sums), (rows.y - rows.p) ** 2),
            ("log_loss", log_loss(sums), log_losses(rows.p, rows.y)),
        )
    ):
        half = PLAIN * (
            _error(sums, losses, value) if sums.tally.clusters is None else _cluster_error(sums, name, value)
        )
        ends |= {f"{name}_low": max(value - half, 0.0), f"{name}_high": value + half}
    ranked, error = auc(sums)[0], _auc_error if sums.tally.clusters is None else _cluster_auc_error
    half = PLAIN * error(sums)
    if ranked is not None:
        ends |= {"auc_low": max(ranked - half, 0.0), "auc_high": min(ranked + half, 1.0)}
    return ends


def _error(sums: Sums, losses: Array, mean: float) -> float:
    """Return the standard error of a weighted mean over all rows, its spread estimated on those kept."""
    rows = sums.kept()
    count = float(rows.copies.sum())
    spread = float(np.sum(rows.copies * rows.weights**2 * (losses - mean) ** 2)) / max(count - 1, 1)
    return float(np.sqrt(spread * sums.rows)) / sums.n


def _cluster_error(sums: Sums, name: str, mean: float) -> float:
    """Return the standard error of a mean loss between clusters: √Σ_c (Σ α(loss − mean))² / Σα."""
    assert sums.tally.clusters is not None
    weight, _, brier, log = sums.tally.clusters.signed["scores"].sum(axis=0)
    spread = {"brier": brier, "log_loss": log}[name] - mean * weight
    return float(np.sqrt(np.mean(spread**2))) / sums.n


def _cluster_auc_error(sums: Sums) -> float:
    """Return the standard error of the AUC between clusters, by each level's part in it.

    A row with the outcome adds the share of the others that are ranked below it; one without, of those above.
    """
    area = auc(sums)[0]
    assert sums.tally.clusters is not None
    if area is None:
        return 0.0
    ones = sums.tally.table[:, kernel.OBSERVED]
    zeros = sums.tally.n - ones
    below, above = np.cumsum(zeros) - 0.5 * zeros, ones.sum() - np.cumsum(ones) + 0.5 * ones
    signed = sums.tally.clusters.signed["scores"]
    weight, happened = signed[:, 0], signed[:, 1]
    parts = (below / zeros.sum() - area) @ happened / ones.sum()
    parts += (above / ones.sum() - area) @ (weight - happened) / zeros.sum()
    return float(np.sqrt(np.mean(parts**2)))


def _auc_error(sums: Sums) -> float:
    """Return the standard error of the AUC by Hanley and McNeil, weights counting by their effective number of rows."""
    area = auc(sums)[0]
    table = sums.tally.table.sum(axis=0)
    if area is None:
        return 0.0
    rows = table[kernel.MASS] ** 2 / table[kernel.MASS2]
    rate = table[kernel.OBSERVED] / table[kernel.MASS]
    ones, zeros = max(rate * rows, 1.0), max((1 - rate) * rows, 1.0)
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (ones - 1) * (first - area**2) + (zeros - 1) * (second - area**2)
    return float(np.sqrt(max(variance, 0.0) / (ones * zeros)))


# The curves of the report: predicted against observed, over levels, along a score, over time.

MOST_POINTS = 12
SCORE_BINS = 8
PERIOD_DRAWS = 2000
CROWDED = 0.8
"""Part of the rows on one level beyond which curves leave the levels."""
SPREAD_PARTS = 15
"""Parts of equal weight that take their place."""


def reliability(v: Array, table: Array, inflation: Array | None = None) -> list[Level]:
    """Mean prediction and frequency of every level in use, with a 95 % band simultaneous over the levels.

    `inflation` (L,) is by how much clusters make the variance of every level larger.
    """
    used = np.flatnonzero(table[:, kernel.MASS] > 0)
    low, high = chance_band(table[used], len(used), 1.0 if inflation is None else inflation[used])
    return [
        Level(
            v=float(v[i]),
            n=float(table[i, kernel.MASS]),
            mean_p=float(table[i, kernel.PREDICTED] / table[i, kernel.MASS]),
            mean_y=float(table[i, kernel.OBSERVED] / table[i, kernel.MASS]),
            band_low=float(low[k]),
            band_high=float(high[k]),
        )
        for k, i in enumerate(used)
    ]


def crowded(mass: Array) -> bool:
    """Return whether nearly all rows share one level, as with rare events: a curve over levels then has one point.

    Examples
    --------
    >>> crowded(np.array([990.0, 8.0, 2.0])), crowded(np.array([5.0, 5.0]))
    (True, False)
    """
    return bool(mass.max(initial=0.0) > CROWDED * mass.sum())


def spread_out(bins: Array, heaviness: float) -> list[Level]:
    """Return the reliability curve over parts of equal weight, from a fine histogram (bins, 3) of Σα, Σαp and Σαy.

    `heaviness` is Σα²/Σα: the variance of a part is that of coins with its bins' mean predictions.
    """
    used = bins[bins[:, 0] > 0]
    mean, place = used[:, 1] / used[:, 0], _parts(used[:, 0], SPREAD_PARTS)
    sums = np.zeros((SPREAD_PARTS, kernel.SCALARS))
    columns = (kernel.MASS, kernel.PREDICTED, kernel.OBSERVED)
    for column, values in zip(columns, used.T, strict=True):
        sums[:, column] = np.bincount(place, weights=values, minlength=SPREAD_PARTS)
    variance = heaviness * used[:, 0] * mean * (1.0 - mean)
    sums[:, kernel.VARIANCE] = np.bincount(place, weights=variance, minlength=SPREAD_PARTS)
    sums = sums[sums[:, kernel.MASS] > 0]
    return reliability(sums[:, kernel.PREDICTED] / sums[:, kernel.MASS], sums)


def chance_band(sums: Array, looks: int, inflation: Array | float = 1.0) -> tuple[Array, Array]:
    """Where the frequency falls by chance with 95 % probability in all of `looks` places at once (Šidák)."""
    reach = ndtri(0.5 + 0.5 * 0.95 ** (1.0 / max(1, looks)))
    mass = sums[:, kernel.MASS]
    centre, spread = sums[:, kernel.PREDICTED] / mass, reach * np.sqrt(inflation * sums[:, kernel.VARIANCE]) / mass
    return np.maximum(centre - spread, 0.0), np.minimum(centre + spread, 1.0)


def curve_within(table: Array, inflation: float = 1.0) -> list[CurvePoint]:
    """Reliability curve of one group from its scalar sums per level, adjacent levels joined where many."""
    used = table[table[:, kernel.MASS] > 0]
    if len(used) > MOST_POINTS:
        joined = np.zeros((MOST_POINTS, kernel.SCALARS))
        np.add.at(joined, _parts(used[:, kernel.MASS], MOST_POINTS), used)
        used = joined[joined[:, kernel.MASS] > 0]
    return _points(used[:, kernel.PREDICTED] / used[:, kernel.MASS], used, inflation)


def curve_along(score: Array, rows: KeptRows, inflation: float = 1.0) -> list[CurvePoint]:
    """Prediction and frequency in bins of equal weight along a score."""
    if not len(score):
        return []
    order = np.argsort(score, kind="stable")
    bins = _parts((rows.copies * rows.weights)[order], SCORE_BINS)
    same = np.concatenate([[False], np.diff(score[order]) == 0])
    for i in np.flatnonzero(same):  # equal scores belong in one bin
        bins[i] = bins[i - 1]
    sums, scores = _binned(bins, rows.take(order), score[order])
    kept = sums[:, kernel.MASS] > 0
    return _points(scores[kept] / sums[kept, kernel.MASS], sums[kept], inflation)


def by_percentile(curve: list[CurvePoint]) -> list[CurvePoint]:
    """Place the points by the share of rows below them: for coordinates whose own unit is lost."""
    n = np.array([point.n for point in curve])
    middle = 100.0 * (np.cumsum(n) - 0.5 * n) / max(float(n.sum()), 1e-300)
    return [replace(point, score=float(at)) for point, at in zip(curve, middle, strict=True)]


def _parts(mass: Array, count: int) -> Index:
    """Return in which of so many parts of equal weight each of some ordered rows lies, by its middle."""
    return equal_part((np.cumsum(mass) - 0.5 * mass) / mass.sum(), count)


def _binned(bins: Index, rows: KeptRows, score: Array) -> tuple[Array, Array]:
    mass = rows.copies * rows.weights
    sums = np.zeros((SCORE_BINS, kernel.SCALARS))
    columns = {
        kernel.MASS: mass,
        kernel.PREDICTED: mass * rows.p,
        kernel.OBSERVED: mass * rows.y,
        kernel.VARIANCE: mass * rows.weights * rows.p * (1.0 - rows.p),
    }
    for column, values in columns.items():
        sums[:, column] = np.bincount(bins, weights=values, minlength=SCORE_BINS)
    return sums, np.bincount(bins, weights=mass * score, minlength=SCORE_BINS).astype(np.float64)


def _points(score: Array, sums: Array, inflation: float) -> list[CurvePoint]:
    low, high = chance_band(sums, len(sums), inflation)
    return [
        CurvePoint(
            score=float(score[i]),
            mean_p=float(sums[i, kernel.PREDICTED] / sums[i, kernel.MASS]),
            mean_y=float(sums[i, kernel.OBSERVED] / sums[i, kernel.MASS]),
            n=float(sums[i, kernel.MASS]),
            band_low=float(low[i]),
            band_high=float(high[i]),
        )
        for i in range(len(sums))
    ]


def periods(timeline: Timeline, seed: int, inflation: float = 1.0) -> list[Period]:
    """Calibration error over ten coarse levels in every stretch of time, with its 95 % band by chance."""
    rng = np.random.default_rng(seed)
    drawn = []
    timeline = timeline.drawn()
    for label, sums in zip(timeline.labels(), timeline.table, strict=True):
        mass = float(sums[:, kernel.MASS].sum())
        if mass <= 0:
            continue
        spread = np.sqrt(inflation * sums[:, kernel.VARIANCE])
        null = np.abs(spread * rng.standard_normal((PERIOD_DRAWS, len(spread)))).sum(axis=1) / mass
        low, high = np.quantile(null, [0.025, 0.975])
        drawn.append(
            Period(
                label=label,
                n=mass,
                mean_p=float(sums[:, kernel.PREDICTED].sum() / mass),
                mean_y=float(sums[:, kernel.OBSERVED].sum() / mass),
                error=float(np.abs(sums[:, kernel.RESIDUAL]).sum() / mass),
                null_low=float(low),
                null_high=float(high),
            )
        )
    return drawn


# Witnesses: the cells and directions with the largest errors, as the report shows them.

MOST_TERMS = 8
LEAST_CORRELATION = 0.15
PREDICTED = "predicted probability"
"""Title of the axis of a group's curve."""
LEAST_PART = 0.3
"""Terms of a direction are named if they weigh at least this part of the heaviest."""


def witnesses(evidence: Evidence, worst: list[Finding], titles: TitleIndex) -> list[WitnessEntry]:
    """Return the worst cells of the scan, and the group and directions with the largest errors over all levels."""
    return [
        _titled(entry, titles)
        for entry in (
            *(_group_witness(evidence, one, titles) for one in worst),
            *_pooled_group_witness(evidence, titles),
            *_direction_witnesses(evidence, titles),
        )
    ]


def _titled(entry: WitnessEntry, titles: TitleIndex) -> WitnessEntry:
    """Add titles where they differ from the names."""
    return replace(
        entry,
        group_title=None if entry.group is None else titles.title(entry.group),
        direction=tuple(replace(term, title=titles.title(term.name)) for term in entry.direction),
        resembles=tuple(replace(like, title=titles.title(like.group)) for like in entry.resembles),
    )


def _group_witness(evidence: Evidence, finding: Finding, titles: TitleIndex) -> WitnessEntry:
    curve, axis, resembles = _along(evidence, finding, titles)
    return WitnessEntry(
        quantity="scan",
        levels=() if evidence.whole(finding) else tuple(evidence.sums.tally.v[evidence.span(finding)].tolist()),
        direction=(Term(finding.name, 1.0, None),),
        gap=finding.gap if finding.is_group else None,
        n=finding.n,
        share=None,
        resembles=tuple(resembles),
        sentence=text.finding(titles.finding(finding), evidence.whole(finding), evidence.sums.unit),
        curve=tuple(curve),
        group=finding.name,
        p_value=finding.p_value,
        gap_low=finding.low,
        gap_high=finding.high,
        interval=finding.interval,
        axis=axis,
    )


def _along(evidence: Evidence, finding: Finding, titles: TitleIndex) -> tuple[list[CurvePoint], str, list[Resemblance]]:
    """Return the curve of a finding, the title of its axis, and the groups that it resembles."""
    design = evidence.design
    if finding.name == "all rows":
        return _curve(evidence, evidence.sums.tally.table), PREDICTED, []
    if finding.is_group:
        sums = evidence.groups[:, evidence.names.index(finding.name)]
        return _curve(evidence, sums, finding.name), PREDICTED, _group_likenesses(evidence, finding.name)
    j = 1 + [c.name for c in evidence.sums.coordinates[1:]].index(finding.name)
    rows = evidence.sums.kept(evidence.span(finding))
    coordinate = evidence.sums.coordinates[j]
    raw = rows.X[:, j] / coordinate.factor + coordinate.centre
    curve, axis = curve_along(raw, rows, evidence.inflation), titles(finding.name)
    if coordinate.unit is None and not text.is_indicator(finding.name):
        curve, axis = by_percentile(curve), f"percentile of {axis}"
    return curve, axis, likenesses(rows.X[:, j], rows, design)


def _curve(evidence: Evidence, sums: Array, name: str | None = None) -> list[CurvePoint]:
    """Return the rates of a group over its levels or, where nearly all of it is on one, over the rows that are kept."""
    if evidence.sums.levels.values is not None or not crowded(sums[:, kernel.MASS]):
        return curve_within(sums, evidence.inflation)
    rows = evidence.sums.kept()
    rows = rows if name is None else rows.take(np.flatnonzero(_members(evidence, name)))
    return curve_along(rows.p, rows, evidence.inflation)


def _witness_parts(evidence: Evidence, name: str) -> tuple[str, tuple[str, ...], int]:
    """Return the column of a group, the column's categories and the position of the group's own."""
    return next(
        (column, categories, k)
        for column, categories, _ in evidence.design.columns
        for k, category in enumerate(categories)
        if f"{column} = {category}" == name
    )


def _members(evidence: Evidence, name: str) -> Flags:
    """Return which of the rows that are kept are in a group or range."""
    part = next((part for part in evidence.design.ranges if part.name == name), None)
    if part is not None:
        j, bins = next((j, bins) for j, bins in enumerate(evidence.design.numbers) if bins.name == part.number)
        place = evidence.sums.kept().bins[:, j].astype(np.int64) + bins.where.start
        return np.asarray((place >= part.where.start) & (place < part.where.stop))
    column, categories, k = _witness_parts(evidence, name)
    return np.asarray(category_codes(categories, evidence.sums.kept().labels[column]) == k)


def _group_likenesses(evidence: Evidence, name: str) -> list[Resemblance]:
    column = "" if name not in evidence.design.group_names else _witness_parts(evidence, name)[0]
    rows = evidence.sums.kept()
    member = _members(evidence, name).astype(np.float64)
    alike = likenesses(member, rows, evidence.design, most=len(evidence.design.columns))
    names = [column_name for column_name, _, _ in evidence.design.columns]
    related = tuple(f"{one} = " for one in names if bases(one, names) & bases(column, names))
    return [one for one in alike if not one.group.startswith(related)][:3]


def _pooled_group_witness(evidence: Evidence, titles: TitleIndex) -> list[WitnessEntry]:
    """Return the group with the largest error over all levels; empty if there are very many small groups."""
    if not evidence.sums.tally.groups or evidence.small:
        return []
    witness = evidence.witness("mcal", 2, "groups")
    assert witness.names is not None
    name = witness.names[0]
    sums = evidence.groups[:, evidence.design.group_names.index(name)]
    mass = float(sums[:, kernel.MASS].sum())
    gap = float(sums[:, kernel.RESIDUAL].sum()) / mass
    sentence = (
        f"Of all groups, {titles(name)} carries the largest error over all levels together: its outcomes "
        f"happen {text.percentage_points(gap)} {text.more(gap)} often than predicted on average."
    )
    return [
        WitnessEntry(
            quantity=witness.quantity,
            levels=(),
            direction=(Term(name, 1.0, None),),
            gap=gap,
            n=mass,
            share=1.0,
            resembles=tuple(_group_likenesses(evidence, name)),
            sentence=text.hedged(sentence, evidence.noise("mcal", 2, "groups").p_value),
            curve=tuple(_curve(evidence, sums, name)),
            group=name,
            axis=PREDICTED,
        )
    ]


def _direction_witnesses(evidence: Evidence, titles: TitleIndex) -> list[WitnessEntry]:
    if len(evidence.sums.coordinates) == 1:
        return []
    attained = [(name, evidence.witness(name)) for name in ("smcal", "mcal", "sreg")]
    return [
        _direction_witness(evidence, witness, evidence.noise(name, 2).p_value, titles)
        for name, witness in attained
        if witness.value > 0
    ]


def _direction_witness(evidence: Evidence, witness: Witness, p_value: float, titles: TitleIndex) -> WitnessEntry:
    level = witness.worst
    pooled = witness.quantity.startswith("MCal")
    rows = evidence.sums.kept(None if pooled else [level])
    assert witness.theta is not None
    score = np.einsum("td,d->t", rows.X, witness.theta[level])
    share = 1.0 if pooled or witness.value <= 0 else float(witness.contributions[level] / witness.value)
    terms = [titles.term(term) for term in _true_terms(evidence, witness)]
    return WitnessEntry(
        quantity=witness.quantity,
        levels=() if pooled else (float(witness.v[level]),),
        direction=tuple(witness.direction()[:MOST_TERMS]),
        gap=float(witness.gaps[level]),
        n=float(evidence.sums.n if pooled else witness.n[level]),
        share=share,
        resembles=tuple(likenesses(score, rows, evidence.design)),
        sentence=text.hedged(text.direction(witness, terms, pooled, evidence.sums.unit), p_value),
        curve=tuple(curve_along(score, rows, evidence.inflation)),
    )


def _true_terms(evidence: Evidence, witness: Witness) -> list[Term]:
    """Return the terms that carry the direction and whose sign can be stated alone.

    For a number the sign must hold of the error's trend along it at the level: a coefficient also reflects how far the
    level's rows lie from the feature's mean, and where that gives the sign, "higher" would mislead.
    """
    level = witness.worst
    if witness.theta is None:
        return witness.direction()
    names = [c.name for c in evidence.sums.coordinates]
    weight = dict(zip(names, np.abs(witness.theta[level]), strict=True))
    heavy = [t for t in witness.direction() if weight[t.name] >= LEAST_PART * max(weight.values())]
    if witness.form == "regret":
        return heavy
    g, G = evidence.sums.tally.g[level], evidence.sums.tally.G[level]
    trend = dict(zip(names, g - G[0] / max(G[0, 0], 1e-300) * g[0], strict=True))
    sign = witness.orientation(level)
    marks = {name for name in names if text.is_indicator(name) or name == text.CONSTANT}
    return [t for t in heavy if t.name in marks or sign * t.coefficient * trend[t.name] > 0]


class Likeness(NamedTuple):
    """Name of a group, its column, and the correlation of its indicator with a score."""

    group: str
    column: str
    correlation: float


def likenesses(score: Array, rows: KeptRows, design: FixedDesign, most: int = 3) -> list[Resemblance]:
    """Return the groups whose indicators correlate most with a score on the given rows."""
    mass = rows.copies * rows.weights
    total = mass.sum()
    if total <= 0 or not len(score):
        return []
    centred = score - np.dot(mass, score) / total
    spread = np.sqrt(np.dot(mass, centred**2) / total)
    candidates: list[Likeness] = []
    if spread > 1e-12:
        for name, categories, _ in design.columns:
            candidates += _column_likenesses(name, categories, rows.labels[name], mass / total, centred / spread)
    candidates.sort(key=lambda one: (-round(abs(one.correlation), 9), -one.correlation))
    return [
        Resemblance(group=one.group, correlation=float(np.clip(one.correlation, -1.0, 1.0)))
        for one in _one_per_column(candidates)[:most]
        if abs(one.correlation) >= LEAST_CORRELATION
    ]


def _one_per_column(candidates: list[Likeness]) -> list[Likeness]:
    """Keep the most correlated group of every column: its complement would repeat the same information."""
    kept: dict[str, Likeness] = {}
    for one in candidates:
        kept.setdefault(one.column, one)
    return list(kept.values())


def _column_likenesses(name: str, categories: tuple[str, ...], labels: Keys, mass: Array, z: Array) -> list[Likeness]:
    code = category_codes(categories, labels)
    share = np.bincount(code, weights=mass, minlength=len(categories))
    intersect = np.bincount(code, weights=mass * z, minlength=len(categories))
    width = np.sqrt(np.maximum(share * (1.0 - share), 0.0))  # shares that add up to more than 1 by rounding
    return [
        Likeness(f"{name} = {category}", name, float(intersect[k] / width[k]))
        for k, category in enumerate(categories)
        if width[k] > 1e-9
    ]
