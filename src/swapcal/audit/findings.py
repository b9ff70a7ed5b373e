"""The findings of an audit: the content of its report, as one frozen record."""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

import numpy as np

from swapcal.audit import curves, measures, text
from swapcal.audit.clusters import COUNTED, LEAST_CLUSTERS
from swapcal.audit.conventional import ConventionalMeasures
from swapcal.audit.curves import witnesses
from swapcal.audit.evidence import Evidence
from swapcal.audit.intervals import LEAST_VARIANCE
from swapcal.audit.measures import QUANTITIES
from swapcal.audit.null import describe
from swapcal.audit.rows import intersections_of
from swapcal.audit.search import is_region
from swapcal.audit.text import TitleIndex
from swapcal.audit.verdict import ALPHA, COVERED_SHARE, TOLERANCE, Finding, Verdict
from swapcal.kernels import tally as kernel
from swapcal.kernels.tally import FLOOR
from swapcal.losses import Loss, decision_rows
from swapcal.report.findings import (
    SCHEMA_VERSION,
    CertificatePiece,
    DecisionEntry,
    Density,
    Findings,
    ForecasterEntry,
    GroupRow,
    Headline,
    Identity,
    IssuedEntry,
    Level,
    NumberCurve,
    QuantityEntry,
    Scores,
)
from swapcal.version import __version__

MOST_GROUPS = 100
DENSITY_BINS = 40
DIGITS = 9
"""Decimals kept of the headline's figures: sums in another order must not change them."""


class ReportSettings(TypedDict, total=False):
    """Arguments of `Comparison.to_dict`, for the methods that write its result."""

    losses: Sequence[Loss | str]
    created_at: str
    tolerance: float
    titles: Any


class AuditSettings(ReportSettings, total=False):
    """Arguments of `Audit.to_dict`."""

    certificate: Mapping[str, Any] | None


def assemble(
    title: str,
    evidence: Evidence,
    certificate: Mapping[str, Any] | None,
    losses: Sequence[Loss | str],
    created_at: str,
    tolerance: float,
    titles: TitleIndex,
) -> Findings:
    """Return the findings: everything the report shows."""
    worst, verdict = evidence.findings(5), evidence.verdict(tolerance)
    timeline = evidence.sums.timeline
    return Findings(
        identity=identity(title, evidence, created_at, titles),
        headline=headline(evidence, verdict, worst, titles),
        quantities=tuple(quantities(evidence, certificate)),
        scores=score_entry(evidence),
        reliability=tuple(reliability(evidence)),
        density=density(evidence),
        groups=tuple(groups(evidence, tolerance, titles)),
        groups_examined=evidence.tested_count,
        groups_small=evidence.small_count,
        numbers=tuple(numbers(evidence, tolerance, titles)) or None,
        witnesses=tuple(witnesses(evidence, worst, titles)),
        notes=tuple(notes(evidence, priced=bool(losses))),
        timeline=None if timeline is None else tuple(curves.periods(timeline, evidence.seed, evidence.inflation)),
        timeline_error=None if timeline is None else "calibration error over ten levels",
        forecaster=None if certificate is None else forecaster(evidence, certificate),
        decisions=tuple(decisions(evidence, losses)) if losses else None,
        conventional=ConventionalMeasures(evidence.sums, evidence.seed).entry(),
    )


def reliability(evidence: Evidence) -> list[Level]:
    """Return the reliability curve over the levels or, where nearly all rows are on one, over parts of equal weight."""
    tally = evidence.sums.tally
    if not _crowded(evidence):
        return curves.reliability(tally.v, tally.table, evidence.scan.inflation[: len(tally.n), 0])
    heaviness = evidence.inflation * float(tally.table[:, kernel.MASS2].sum()) / evidence.sums.n
    return curves.spread_out(evidence.sums.histogram.bins, heaviness)


def _crowded(evidence: Evidence) -> bool:
    return evidence.sums.levels.values is None and curves.crowded(evidence.sums.tally.n)


def decisions(evidence: Evidence, losses: Sequence[Loss | str]) -> list[DecisionEntry]:
    """Return the cost of acting on the predictions under each loss, and the saving by the best rule per level."""
    if evidence.sums.sample.absent:
        raise ValueError("losses: given for sums of a query, expected none: the prices of decisions need rows")
    rows = evidence.sums.kept()
    named = [loss if isinstance(loss, Loss) else Loss.parse(loss) for loss in losses]
    level = evidence.sums.tally.v[evidence.sums.levels.index(rows.p)]
    made = decision_rows(named, level, rows.y, rows.X, rows.copies * rows.weights)
    return [DecisionEntry(**row) for row in made]


def headline(evidence: Evidence, verdict: Verdict, worst: list[Finding], titles: TitleIndex) -> Headline:
    """Return the verdict with its sentences."""
    first = worst[0] if worst else None
    titled = None if first is None else titles.finding(first)
    return Headline(
        verdict=verdict.word,
        sentence=text.headline(
            verdict,
            titled,
            first is not None and evidence.whole(first),
            evidence.sums.n,
            evidence.sums.unit,
            evidence.looked(),
        ),
        detail=text.size(
            verdict, _elsewhere(evidence, first, titles), _widest(evidence, verdict, titles), curves.ece(evidence.sums)
        ),
        warnings=verdict.warnings,
        beyond_chance=verdict.beyond,
        p_value=verdict.p_value,
        alpha=ALPHA,
        low=round(verdict.low, DIGITS),
        high=round(verdict.high, DIGITS),
        tolerance=verdict.tolerance,
        detectable=None if verdict.detectable is None else round(verdict.detectable, DIGITS),
        groups_unresolved=verdict.unresolved,
    )


def identity(title: str, evidence: Evidence, created_at: str, titles: TitleIndex) -> Identity:
    """Return the identity of an audit: its data, program versions and settings."""
    sums = evidence.sums
    clusters = sums.tally.clusters
    settings = {
        "levels": f"{len(sums.levels)} ({'values' if sums.levels.values is not None else 'intervals'})",
        "groups": ", ".join(sorted(sums.tally.groups)) or "none",
        "seed": str(evidence.seed),
        "null": describe(evidence.design, sums.sample.complete, evidence.clustered),
    }
    if clusters is not None:
        settings["clusters"] = f"{(sums.reader and sums.reader.clusters) or 'given'}, about {clusters.clusters:,}"
    first, last = sums.timeline.window() if sums.timeline is not None else (None, None)
    exact = json.dumps([settings, sums.levels.edges, sums.coordinates, SCHEMA_VERSION])
    return Identity(
        title=title,
        swapcal_version=__version__,
        schema_version=SCHEMA_VERSION,
        data_hash=sums.sample.digest,
        settings_hash=hashlib.sha256(exact.encode()).hexdigest()[:32],
        python_version=platform.python_version(),
        numpy_version=np.__version__,
        n=sums.rows,
        total_weight=sums.n,
        first_time=first,
        last_time=last,
        created_at=created_at,
        prediction=sums.reader.prob if sums.reader else "p",
        label=sums.reader.target if sums.reader else "y",
        settings=settings,
        features=sums.reader.features if sums.reader else tuple(c.name for c in sums.coordinates[1:]),
        n_levels=int(np.sum(sums.tally.n > 0)),
        levelling=sums.levels.describe(),
        titles=titles.columns or None,
    )


REPORTED = (
    ("smcal", 2, "linear"),
    ("smcal", 2, "groups"),
    ("smcal", 1, "linear"),
    ("sreg", 2, "linear4"),
    ("somni", 1, "rules"),
    ("mcal", 2, "linear"),
    ("mcal", 1, "linear"),
    ("mcal", 2, "groups"),
    ("cal", 2, "constant"),
    ("cal", 1, "constant"),
)


def quantities(evidence: Evidence, certificate: Mapping[str, Any] | None) -> list[QuantityEntry]:
    """Return the errors with their noise floors, and the pseudo errors with the forecaster's bounds."""
    grouped = evidence.sums.tally.groups and not evidence.small
    keys = [key for key in REPORTED if key[2] != "groups" or grouped]
    entries = [_quantity(evidence, key) for key in keys]
    if evidence.sums.issued is not None or certificate is not None:
        entries += _issued(evidence, certificate or {})
    return entries


def _quantity(evidence: Evidence, key: tuple[str, int, str]) -> QuantityEntry:
    known, noise = QUANTITIES[key], evidence.noise(*key)
    against = f"{len(evidence.design.group_names)} groups" if key[2] == "groups" else known.against
    return QuantityEntry(
        name=known.symbol,
        against=against,
        meaning=known.meaning,
        value=noise.value,
        mean_value=noise.value / evidence.sums.n,
        null_mean=noise.mean,
        null_low=noise.low,
        null_high=noise.high,
        p_value=noise.p_value,
        minimum_detectable=noise.detectable,
        bound=None,
        certificate=None,
        citation=known.citation,
        upper_value=_upper(evidence) if key == ("mcal", 1, "linear") else None,
    )


def _upper(evidence: Evidence) -> float:
    ends = measures.mcal(evidence.sums.tally, 1, "linear")
    return ends[1] if isinstance(ends, tuple) else ends


def _issued(evidence: Evidence, certificate: Mapping[str, Any]) -> list[QuantityEntry]:
    meaning = {
        "PSReg": "Swap regret with the issued probabilities as weights: what the certificate bounds.",
        "PSMCal_2": "Swap multicalibration with the issued probabilities as weights; never above PSReg.",
    }
    weighted = evidence.sums.weighted
    values = {
        "PSReg": ("F_4^lin", measures.sreg(weighted)),
        "PSMCal_2": ("F_1^lin", measures.smcal(weighted, 2, "linear")),
    }
    return [
        QuantityEntry(
            name=name,
            against=against,
            meaning=meaning[name],
            value=value,
            mean_value=value / evidence.sums.n,
            null_mean=None,
            null_low=None,
            null_high=None,
            p_value=None,
            minimum_detectable=None,
            bound=certificate.get("theorem" if name == "PSReg" else "theorem_psmcal"),
            certificate=certificate.get("bound"),
        )
        for name, (against, value) in values.items()
    ]


def forecaster(evidence: Evidence, certificate: Mapping[str, Any]) -> ForecasterEntry:
    """Return the forecaster's certificate for the report, from its fields by name."""
    pieces = [name for name in ("rounding", "learning", "prior") if name in certificate]
    return ForecasterEntry(
        levels=int(certificate["levels"]),
        dims=int(certificate["dim"]),
        rounds=int(certificate["rounds"]),
        certificate=certificate["bound"],
        pieces=tuple(CertificatePiece(name=name, value=certificate[name]) for name in pieces),
        observed=certificate.get("psreg", measures.sreg(evidence.sums.weighted)),
        bound=certificate.get("theorem"),
        citation="pathwise certificate of the clipped ridge learners",
        issued=_drawn(certificate.get("issued")),
    )


def _drawn(issued: Mapping[str, Any] | None) -> IssuedEntry | None:
    """Return the errors of the levels drawn, per outcome; None if they were not kept."""
    if not issued or not issued["weight"] > 0:
        return None
    means = {name: issued[name] / issued["weight"] for name in ("smcal_1", "smcal_2", "somni", "cal")}
    return IssuedEntry(labels=int(issued["labels"]), **means)


def score_entry(evidence: Evidence) -> Scores:
    """Return the familiar scores."""
    calibration, refinement = curves.brier_split(evidence.sums)
    table = evidence.sums.tally.table.sum(axis=0)
    chance, n = evidence.noise("cal", 1), evidence.sums.n
    return Scores(
        **curves.intervals(evidence.sums),
        ece_low=chance.low / n,
        ece_high=chance.high / n,
        brier=curves.brier(evidence.sums),
        brier_calibration=calibration,
        brier_refinement=refinement,
        log_loss=curves.log_loss(evidence.sums),
        auc=curves.auc(evidence.sums)[0],
        ece=curves.ece(evidence.sums),
        smooth_ece=curves.smooth_ece(evidence.sums),
        mean_p=table[kernel.PREDICTED] / table[kernel.MASS],
        mean_y=table[kernel.OBSERVED] / table[kernel.MASS],
    )


def density(evidence: Evidence) -> Density:
    """Return the histogram of the predictions."""
    edges, counts = evidence.sums.histogram.density(DENSITY_BINS)
    return Density(edges=tuple(edges.tolist()), counts=tuple(counts.tolist()))


def groups(evidence: Evidence, tolerance: float, titles: TitleIndex) -> list[GroupRow]:
    """Return the group table, the most significant groups first, at most `MOST_GROUPS` of them."""
    rows = sorted(evidence.group_table(tolerance), key=_doubt)
    return [replace(row, title=titles.title(row.name)) for row in rows[:MOST_GROUPS]]


def numbers(evidence: Evidence, tolerance: float, titles: TitleIndex) -> list[NumberCurve]:
    """Return the gap along every number, at most `MOST_GROUPS` of them, the most significant first."""
    return [
        replace(
            one,
            title=titles.title(one.name),
            ranges=tuple(replace(row, title=titles.title(row.name)) for row in one.ranges),
        )
        for one in evidence.numbers(tolerance)[:MOST_GROUPS]
    ]


def _doubt(row: GroupRow) -> tuple[float, float, str]:
    """Sort key: by p-value; equal ones by how far the interval stays from 0, untested groups last."""
    sure = max(row.low, -row.high)
    return (2.0 if row.p_value is None else row.p_value), -sure, row.name


def notes(evidence: Evidence, *, priced: bool) -> list[str]:
    """Return the limitations of this audit; `priced` if it has costs of decisions."""
    sentences = [
        evidence.sums.levels.describe(),
        _independence(evidence),
        "The verdict covers the groups, features and ranges of predictions examined here, and no others.",
        "The upper end of the worst error covers all rows, each group, range of predictions and group within a range, "
        f"and each feature along a range, with {100 * COVERED_SHARE:g} % of the rows or more, and every error beyond "
        f"chance whatever its rows; {evidence.verdict(TOLERANCE).unresolved:,} smaller groups are not covered.",
    ]
    if any(map(is_region, evidence.sums.tally.groups)):
        sentences.append(
            "Searched regions were proposed by half of the rows (of the first batch, if there were several) and are "
            "tested on the other rows alone, together with everything else that is examined."
        )
    if _crowded(evidence):
        sentences.append(
            "Nearly all forecasts fall into one interval, so the reliability curve is drawn over parts of equal weight "
            "instead; the errors are those of the intervals."
        )
    rows = evidence.group_table(TOLERANCE)
    shown = len(rows)
    if intersections_of(evidence.sums.tally.groups):
        left = evidence.group_count - shown
        sentences.append(
            f"Intersections of two groups count among the groups and in the multiple testing; {left:,} in which "
            f"fewer than {LEAST_VARIANCE:g} outcomes of the rarer kind are expected were left out."
        )
    if shown > MOST_GROUPS:
        small = sum(row.small for row in rows)
        tested = f"{small:,} are too small to be tested" if small else "all were tested"
        sentences.append(f"The table shows the {MOST_GROUPS} most doubtful of {shown:,} groups; {tested}.")
    if evidence.small:
        sentences.append(
            "SMCal and MCal over groups are left out: very many groups are too small to be tested, and each would have "
            "to be simulated. Audit.theory computes them."
        )
    sentences += evidence.sums.limits
    if not evidence.sums.sample.complete:
        kept = len(evidence.sums.kept().p)
        if kept:
            sentences.append(f"Curves along a direction and likenesses to groups come from {kept:,} sampled rows.")
        doubt = curves.auc(evidence.sums)[1]
        if doubt > 0:
            sentences.append(f"AUC comes from a fine histogram and is exact to within {doubt:.1g}.")
    sentences.append(f"For the log loss, probabilities are kept {FLOOR:g} away from 0 and 1.")
    if priced and not evidence.sums.sample.complete:
        share = f"{len(evidence.sums.kept().p):,} of {evidence.sums.rows:,} rows, chosen by hash"
        sentences.append(f"Costs and regrets of decisions are measured on {share}.")
    return sentences


def _independence(evidence: Evidence) -> str:
    """Return the note on what is taken to be independent."""
    clusters = evidence.sums.tally.clusters
    if clusters is None:
        return (
            "The noise floor assumes independent outcomes; correlated outcomes make errors look more certain than "
            "they are."
        )
    few = evidence.few_clusters()
    noun = "group or range of a number" if few == 1 else "groups and ranges of numbers"
    left = f" Not tested: {few:,} {noun} with fewer than {LEAST_CLUSTERS} of them." if few else ""
    return (
        f"Rows belong to {'about ' if clusters.clusters >= COUNTED else ''}{clusters.clusters:,} clusters, which are "
        "taken to be independent of each other; rows of one may depend on each other in any way. The variance of the "
        f"mean error is {evidence.inflation:.2g} times that of independent rows.{left}"
    )


def _elsewhere(evidence: Evidence, first: Finding | None, titles: TitleIndex) -> str:
    """Return where the largest certain error is, in words; empty if it is the first finding."""
    largest = evidence.largest()
    if largest is None or (first is not None and largest[:3] == first[:3]):
        return ""
    return f", {_place(evidence, titles.finding(largest))}"


def _widest(evidence: Evidence, verdict: Verdict, titles: TitleIndex) -> str:
    """Return where the error may be largest, in words, if that leaves the verdict undecided; else empty."""
    if verdict.word != "undecided" or not verdict.beyond:
        return ""
    return _place(evidence, titles.finding(evidence.widest()))


def _place(evidence: Evidence, finding: Finding) -> str:
    place, rows = text.where(finding, evidence.whole(finding)), f"({finding.n:,.0f} {evidence.sums.unit})"
    return f"{place} {rows}" if finding.is_group else f"along {finding.name}, {place} {rows}"
