"""The audit as one plain mapping: the JSON twin of the report."""

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from swapcal.audit import curves, measures, scores, words
from swapcal.audit.evidence import Evidence
from swapcal.audit.finding import Finding
from swapcal.audit.groups import GroupRow
from swapcal.audit.likeness import likenesses
from swapcal.audit.null import describe
from swapcal.audit.quantities import QUANTITIES
from swapcal.audit.sample import hash_names
from swapcal.audit.verdict import ALPHA, Verdict
from swapcal.audit.witness import Term, Witness
from swapcal.kernels import tally as kernel
from swapcal.kernels.logloss import FLOOR
from swapcal.losses import Loss, decision_rows
from swapcal.report.schema import (
    SCHEMA_VERSION,
    DecisionEntry,
    Findings,
    GroupEntry,
    Headline,
    QuantityEntry,
    WitnessEntry,
)
from swapcal.version import __version__

MOST_GROUPS = 100
MOST_TERMS = 8
DENSITY_BINS = 40
LEAST_PART = 0.3
"""Terms of a direction are named if they weigh at least this part of the heaviest."""
DIGITS = 9
"""Decimals kept of the headline's figures: sums in another order must not change them."""


def assemble(
    title: str,
    evidence: Evidence,
    certificate: Mapping[str, Any] | None,
    losses: Sequence[Loss | str],
    created_at: str,
    tolerance: float,
) -> Findings:
    """Return everything the report shows."""
    worst, verdict = evidence.findings(5), evidence.verdict(tolerance)
    found: Findings = {
        "identity": identity(title, evidence, created_at),
        "headline": headline(evidence, verdict, worst),
        "quantities": quantities(evidence, certificate),
        "scores": score_entry(evidence),
        "reliability": curves.reliability(evidence.sums.tally.v, evidence.sums.tally.table),
        "density": density(evidence),
        "groups": groups(evidence, tolerance),
        "groups_examined": len(evidence.design.group_names),
        "witnesses": [
            *(_group_witness(evidence, one) for one in worst),
            *_pooled_group_witness(evidence),
            *_direction_witnesses(evidence),
        ],
        "notes": notes(evidence),
    }
    if evidence.sums.timeline is not None:
        found["timeline"] = curves.periods(evidence.sums.timeline, evidence.seed)
        found["timeline_error"] = "calibration error over ten levels"
    if certificate is not None:
        found["forecaster"] = forecaster(evidence, certificate)
    if losses:
        found["decisions"] = decisions(evidence, losses)
        if not evidence.sums.sample.complete:
            share = f"{len(evidence.sums.kept().p):,} of {evidence.sums.rows:,} rows, chosen by hash"
            found["notes"] = [*notes(evidence), f"Costs and regrets of decisions are measured on {share}."]
    complete: Findings = plain(found)
    return complete


def decisions(evidence: Evidence, losses: Sequence[Loss | str]) -> list[DecisionEntry]:
    """Return what acting on the predictions cost under each loss, and what the best rule per level would have saved."""
    rows = evidence.sums.kept()
    named = [loss if isinstance(loss, Loss) else Loss.parse(loss) for loss in losses]
    level = evidence.sums.tally.v[evidence.sums.levels.index(rows.p)]
    made = decision_rows(named, level, rows.y, rows.X, rows.copies * rows.weights)
    return [DecisionEntry(**row) for row in made]


def headline(evidence: Evidence, verdict: Verdict, worst: list[Finding]) -> Headline:
    """Return the verdict with its sentences."""
    first = worst[0] if worst else None
    return {
        "verdict": verdict.word,
        "sentence": words.headline(
            verdict, first, first is not None and _whole(evidence, first), evidence.sums.n, evidence.sums.unit
        ),
        "detail": words.size(
            verdict, _elsewhere(evidence, first), _widest(evidence, verdict), scores.ece(evidence.sums)
        ),
        "warnings": list(verdict.warnings),
        "beyond_chance": verdict.beyond,
        "p_value": verdict.p_value,
        "alpha": ALPHA,
        "low": round(verdict.low, DIGITS),
        "high": round(verdict.high, DIGITS),
        "tolerance": verdict.tolerance,
        "detectable": None if verdict.detectable is None else round(verdict.detectable, DIGITS),
        "groups_unresolved": verdict.unresolved,
    }


def identity(title: str, evidence: Evidence, created_at: str) -> Any:
    """Return what was audited, by which program, under which settings."""
    sums = evidence.sums
    settings = {
        "levels": f"{len(sums.levels)} ({'values' if sums.levels.values is not None else 'intervals'})",
        "groups": ", ".join(sorted(sums.tally.groups)) or "none",
        "seed": str(evidence.seed),
        "null": describe(evidence.design, sums.sample.complete),
    }
    first, last = sums.timeline.window() if sums.timeline is not None else (None, None)
    exact = json.dumps([settings, sums.levels.edges, sums.coordinates, SCHEMA_VERSION])
    return {
        "title": title,
        "swapcal_version": __version__,
        "schema_version": SCHEMA_VERSION,
        "data_hash": sums.sample.digest,
        "settings_hash": hashlib.sha256(exact.encode()).hexdigest()[:32],
        "python_version": platform.python_version(),
        "numpy_version": np.__version__,
        "n": sums.rows,
        "total_weight": sums.n,
        "first_time": first,
        "last_time": last,
        "created_at": created_at,
        "prediction": sums.reader.prob if sums.reader else "p",
        "label": sums.reader.target if sums.reader else "y",
        "settings": settings,
        "features": list(sums.reader.features) if sums.reader else [c.name for c in sums.coordinates[1:]],
        "n_levels": int(np.sum(sums.tally.n > 0)),
        "levelling": sums.levels.describe(),
    }


REPORTED = (
    ("smcal", 2, "linear"),
    ("smcal", 2, "groups"),
    ("smcal", 1, "linear"),
    ("sreg", 2, "linear4"),
    ("somni", 1, "affine"),
    ("mcal", 2, "linear"),
    ("mcal", 1, "linear"),
    ("mcal", 2, "groups"),
    ("cal", 2, "constant"),
    ("cal", 1, "constant"),
)


def quantities(evidence: Evidence, certificate: Mapping[str, Any] | None) -> list[QuantityEntry]:
    """Return the errors beside their noise floor, and the pseudo errors beside the forecaster's bounds."""
    keys = [key for key in REPORTED if key[2] != "groups" or evidence.sums.tally.groups]
    found = [_quantity(evidence, key) for key in keys]
    if evidence.sums.issued is not None or certificate is not None:
        found += _issued(evidence, certificate or {})
    return found


def _quantity(evidence: Evidence, key: tuple[str, int, str]) -> QuantityEntry:
    known, noise = QUANTITIES[key], evidence.noise(*key)
    against = f"{len(evidence.design.group_names)} groups" if key[2] == "groups" else known.against
    entry: QuantityEntry = {
        "name": known.symbol,
        "against": against,
        "meaning": known.meaning,
        "value": noise.value,
        "mean_value": noise.value / evidence.sums.n,
        "null_mean": noise.mean,
        "null_low": noise.low,
        "null_high": noise.high,
        "p_value": noise.p_value,
        "minimum_detectable": noise.detectable,
        "bound": None,
        "certificate": None,
        "citation": known.citation,
    }
    if key == ("mcal", 1, "linear"):
        upper = measures.mcal(evidence.sums.tally, 1, "linear")
        entry["upper_value"] = upper[1] if isinstance(upper, tuple) else upper
    return entry


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
        {
            "name": name,
            "against": against,
            "meaning": meaning[name],
            "value": value,
            "mean_value": value / evidence.sums.n,
            "null_mean": None,
            "null_low": None,
            "null_high": None,
            "p_value": None,
            "minimum_detectable": None,
            "bound": certificate.get("theorem" if name == "PSReg" else "theorem_psmcal"),
            "certificate": certificate.get("bound"),
        }
        for name, (against, value) in values.items()
    ]


def forecaster(evidence: Evidence, certificate: Mapping[str, Any]) -> Any:
    """Return what the forecaster proved about itself, from the fields of its certificate by name."""
    pieces = [name for name in ("rounding", "learning", "prior") if name in certificate]
    return {
        "levels": int(certificate["levels"]),
        "dims": int(certificate["dim"]),
        "rounds": int(certificate["rounds"]),
        "certificate": certificate["bound"],
        "pieces": [{"name": name, "value": certificate[name]} for name in pieces],
        "observed": certificate.get("psreg", measures.sreg(evidence.sums.weighted)),
        "bound": certificate.get("theorem"),
        "citation": "pathwise certificate of the clipped ridge learners",
    }


def score_entry(evidence: Evidence) -> Any:
    """Return the familiar scores."""
    calibration, refinement = scores.brier_split(evidence.sums)
    table = evidence.sums.tally.table.sum(axis=0)
    return {
        "brier": scores.brier(evidence.sums),
        "brier_calibration": calibration,
        "brier_refinement": refinement,
        "log_loss": scores.log_loss(evidence.sums),
        "auc": scores.auc(evidence.sums)[0],
        "ece": scores.ece(evidence.sums),
        "smooth_ece": scores.smooth_ece(evidence.sums),
        "mean_p": table[kernel.PREDICTED] / table[kernel.MASS],
        "mean_y": table[kernel.OBSERVED] / table[kernel.MASS],
    }


def density(evidence: Evidence) -> Any:
    """Return the histogram of the predictions."""
    edges, counts = evidence.sums.histogram.density(DENSITY_BINS)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def groups(evidence: Evidence, tolerance: float) -> list[GroupEntry]:
    """Return the group table, the most doubtful groups first, at most `MOST_GROUPS` of them."""
    rows = sorted(evidence.group_table(tolerance), key=_doubt)
    return [
        {
            "name": row.name,
            "n": row.n,
            "mean_p": row.mean_p,
            "mean_y": row.mean_y,
            "gap": row.gap,
            "low": row.low,
            "high": row.high,
            "small": row.small,
            "p_value": row.p_value,
            "detectable": row.detectable,
            "verdict": row.verdict,
        }
        for row in rows[:MOST_GROUPS]
    ]


def _doubt(row: GroupRow) -> tuple[float, float, str]:
    """Sort key: by p-value; equal ones by how far the interval stays from 0, untested groups last."""
    sure = max(row.low, -row.high)
    return (2.0 if row.p_value is None else row.p_value), -sure, row.name


def notes(evidence: Evidence) -> list[str]:
    """Return the limitations that apply to this audit."""
    found = [
        evidence.sums.levels.describe(),
        "The noise floor asks whether the predictions could be the true probabilities of independent "
        "outcomes; outcomes that move together make errors look more certain than they are.",
        "The verdict covers the groups, features and ranges of predictions examined here, and no others.",
    ]
    shown = len(evidence.design.group_names)
    if shown > MOST_GROUPS:
        found.append(f"The table shows the {MOST_GROUPS} most doubtful of {shown} groups; all were tested.")
    if not evidence.sums.sample.complete:
        kept = len(evidence.sums.kept().p)
        found.append(f"Curves along a direction and likenesses to groups come from {kept:,} sampled rows.")
        doubt = scores.auc(evidence.sums)[1]
        if doubt > 0:
            found.append(f"AUC comes from a fine histogram and is exact to within {doubt:.1g}.")
    found.append(f"For the log loss, probabilities are kept {FLOOR:g} away from 0 and 1.")
    return found


def plain(value: Any) -> Any:
    """Return the value with numpy scalars as Python's, non-finite numbers as None, and minus zero as zero."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None
    return value


def _whole(evidence: Evidence, found: Finding) -> bool:
    used = np.flatnonzero(evidence.sums.tally.n > 0)
    return found.levels == (int(used[0]), int(used[-1]))


def _group_witness(evidence: Evidence, found: Finding) -> WitnessEntry:
    design, table = evidence.design, evidence.groups
    entry: WitnessEntry = {
        "quantity": "scan",
        "levels": [] if _whole(evidence, found) else evidence.sums.tally.v[_span(evidence, found)].tolist(),
        "direction": [{"name": found.name, "coefficient": 1.0, "unit": None}],
        "gap": found.gap if found.is_group else None,
        "n": found.n,
        "share": None,
        "resembles": [],
        "sentence": words.finding(found, _whole(evidence, found), evidence.sums.unit),
        "curve": [],
        "group": found.name,
        "p_value": found.p_value,
        "gap_low": found.low,
        "gap_high": found.high,
        "interval": list(found.interval),
        "axis": "predicted probability",
    }
    if found.name == "all rows":
        entry["curve"] = curves.curve_within(evidence.sums.tally.table)
    elif found.is_group:
        place = design.group_names.index(found.name)
        entry["curve"] = curves.curve_within(table[:, place])
        entry["resembles"] = _group_likenesses(evidence, found.name)
    else:
        j = 1 + [c.name for c in evidence.sums.coordinates[1:]].index(found.name)
        rows = evidence.sums.kept(_span(evidence, found))
        coordinate = evidence.sums.coordinates[j]
        raw = rows.X[:, j] / coordinate.factor + coordinate.centre
        entry["curve"], entry["axis"] = curves.curve_along(raw, rows), found.name
        if coordinate.unit is None and not words.is_indicator(found.name):
            entry["curve"], entry["axis"] = curves.by_percentile(entry["curve"]), f"percentile of {found.name}"
        entry["resembles"] = likenesses(rows.X[:, j], rows, design)
    return entry


def _group_likenesses(evidence: Evidence, name: str) -> Any:
    column, category = next(
        (column, category)
        for column, found, _ in evidence.design.columns
        for category in found
        if f"{column} = {category}" == name
    )
    rows = evidence.sums.kept()
    member = (rows.labels[column] == hash_names([category])[0]).astype(np.float64)
    alike = likenesses(member, rows, evidence.design, most=4)
    return [one for one in alike if not one["group"].startswith(f"{column} = ")][:3]


def _direction_witnesses(evidence: Evidence) -> list[WitnessEntry]:
    if len(evidence.sums.coordinates) == 1:
        return []
    found = [(name, _witness(evidence, name)) for name in ("smcal", "mcal", "sreg")]
    return [
        _direction_witness(evidence, witness, evidence.noise(name, 2).p_value)
        for name, witness in found
        if witness.value > 0
    ]


def _pooled_group_witness(evidence: Evidence) -> list[WitnessEntry]:
    """Return the one group that accuses all levels at once."""
    if not evidence.sums.tally.groups:
        return []
    witness = _witness(evidence, "mcal", 2, "groups")
    assert witness.names is not None
    name = witness.names[0]
    design, table = evidence.design, evidence.groups
    sums = table[:, design.group_names.index(name)]
    mass = float(sums[:, kernel.MASS].sum())
    gap = float(sums[:, kernel.RESIDUAL].sum()) / mass
    return [
        {
            "quantity": witness.quantity,
            "levels": [],
            "direction": [{"name": name, "coefficient": 1.0, "unit": None}],
            "gap": gap,
            "n": mass,
            "share": 1.0,
            "resembles": _group_likenesses(evidence, name),
            "sentence": words.hedged(
                f"Of all groups, {name} carries the largest error over all levels together: its outcomes happen "
                f"{words.points(gap)} {words.more(gap)} often than predicted on average.",
                evidence.noise("mcal", 2, "groups").p_value,
            ),
            "curve": curves.curve_within(sums),
            "group": name,
            "axis": "predicted probability",
        }
    ]


def _direction_witness(evidence: Evidence, witness: Witness, p_value: float) -> WitnessEntry:
    level = witness.worst
    pooled = witness.quantity.startswith("MCal")
    rows = evidence.sums.kept(None if pooled else [level])
    assert witness.theta is not None
    score = np.einsum("td,d->t", rows.X, witness.theta[level])
    share = 1.0 if pooled or witness.value <= 0 else float(witness.contributions[level] / witness.value)
    return {
        "quantity": witness.quantity,
        "levels": [] if pooled else [float(witness.v[level])],
        "direction": [
            {"name": term.name, "coefficient": term.coefficient, "unit": term.unit}
            for term in witness.direction()[:MOST_TERMS]
        ],
        "gap": float(witness.gaps[level]),
        "n": float(evidence.sums.n if pooled else witness.n[level]),
        "share": share,
        "resembles": likenesses(score, rows, evidence.design),
        "sentence": words.hedged(
            words.direction(witness, _true_terms(evidence, witness), pooled, evidence.sums.unit), p_value
        ),
        "curve": curves.curve_along(score, rows),
    }


def _elsewhere(evidence: Evidence, first: Finding | None) -> str:
    """Say where the largest sure error is, unless it is the first finding."""
    largest = evidence.largest()
    if largest is None or (first is not None and largest[:3] == first[:3]):
        return ""
    return f", {_place(evidence, largest)}"


def _widest(evidence: Evidence, verdict: Verdict) -> str:
    """Say where the error may be largest, if that leaves the verdict undecided."""
    if verdict.word != "undecided" or not verdict.beyond:
        return ""
    return _place(evidence, evidence.widest(verdict.tolerance))


def _place(evidence: Evidence, found: Finding) -> str:
    place, rows = words.where(found, _whole(evidence, found)), f"({found.n:,.0f} {evidence.sums.unit})"
    return f"{place} {rows}" if found.is_group else f"along {found.name}, {place} {rows}"


def _true_terms(evidence: Evidence, witness: Witness) -> list[Term]:
    """Terms that carry the direction and whose sign can be said alone.

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
    marks = {name for name in names if words.is_indicator(name) or name == words.CONSTANT}
    return [t for t in heavy if t.name in marks or sign * t.coefficient * trend[t.name] > 0]


def _span(evidence: Evidence, found: Finding) -> list[int]:
    return [i for i in range(found.levels[0], found.levels[1] + 1) if evidence.sums.tally.n[i] > 0]


def _witness(evidence: Evidence, quantity: str, q: int = 2, against: str = "linear") -> Witness:
    return measures.witness(evidence.sums.tally, evidence.sums.coordinates, quantity, q, against)
