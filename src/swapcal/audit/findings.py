"""The audit as one plain mapping: the JSON twin of the report."""

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from swapcal.audit import pictures, words
from swapcal.audit.groups import GroupRow
from swapcal.audit.null import describe
from swapcal.audit.quantities import QUANTITIES
from swapcal.audit.sketch import Rows, hash_names
from swapcal.audit.verdict import ALPHA, Verdict
from swapcal.audit.witness import Term, Witness
from swapcal.kernels import tally as kernel
from swapcal.kernels.logloss import FLOOR
from swapcal.losses import Loss, decision_rows
from swapcal.report.schema import SCHEMA_VERSION, Decision, Findings, Headline
from swapcal.report.schema import Group as GroupEntry
from swapcal.report.schema import Quantity as QuantityEntry
from swapcal.report.schema import Witness as WitnessEntry
from swapcal.version import __version__

if TYPE_CHECKING:
    from swapcal.audit.core import Audit, Finding

MOST_GROUPS = 100
MOST_TERMS = 8
DENSITY_BINS = 40
LEAST_PART = 0.3
"""Terms of a direction are named if they weigh at least this part of the heaviest."""
DIGITS = 9
"""Decimals kept of the headline's figures: sums in another order must not change them."""


def assemble(
    audit: "Audit",
    certificate: Mapping[str, Any] | None,
    losses: Sequence[Loss | str],
    created_at: str,
    tolerance: float,
) -> Findings:
    """Return everything the report shows."""
    worst, verdict = audit.findings(5), audit.verdict(tolerance)
    found: Findings = {
        "identity": identity(audit, created_at),
        "headline": headline(audit, verdict, worst),
        "quantities": quantities(audit, certificate),
        "scores": scores(audit),
        "reliability": pictures.reliability(audit._tally.v, audit._tally.table),
        "density": density(audit),
        "groups": groups(audit, tolerance),
        "groups_examined": len(audit._observed[0].group_names),
        "witnesses": [
            *(_group_witness(audit, one) for one in worst),
            *_pooled_group_witness(audit),
            *_direction_witnesses(audit),
        ],
        "notes": notes(audit),
    }
    if audit._timeline is not None:
        found["timeline"] = pictures.periods(audit._timeline, audit.seed)
        found["timeline_error"] = "calibration error over ten levels"
    if certificate is not None:
        found["forecaster"] = forecaster(audit, certificate)
    if losses:
        found["decisions"] = decisions(audit, losses)
        if not audit._sketch.complete:
            share = f"{len(_rows(audit, None).p):,} of {audit.rows:,} rows, chosen by hash"
            found["notes"] = [*notes(audit), f"Costs and regrets of decisions are measured on {share}."]
    complete: Findings = plain(found)
    return complete


def decisions(audit: "Audit", losses: Sequence[Loss | str]) -> list[Decision]:
    """Return what acting on the predictions cost under each loss, and what the best rule per level would have saved."""
    rows = _rows(audit, None)
    named = [loss if isinstance(loss, Loss) else Loss.parse(loss) for loss in losses]
    level = audit._tally.v[audit.levels.index(rows.p)]
    made = decision_rows(named, level, rows.y, rows.X, rows.copies * rows.weights)
    return [Decision(**row) for row in made]


def headline(audit: "Audit", verdict: Verdict, worst: "list[Finding]") -> Headline:
    """Return the verdict with its sentences."""
    first = worst[0] if worst else None
    return {
        "verdict": verdict.word,
        "sentence": words.headline(verdict, first, first is not None and _whole(audit, first), audit.rows),
        "detail": words.size(verdict, _elsewhere(audit, first), audit.ece()),
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


def identity(audit: "Audit", created_at: str) -> Any:
    """Return what was audited, by which program, under which settings."""
    settings = {
        "levels": f"{len(audit.levels)} ({'values' if audit.levels.values is not None else 'intervals'})",
        "groups": ", ".join(sorted(audit._group_columns)) or "none",
        "seed": str(audit.seed),
        "null": describe(audit._observed[0], audit._sketch.complete),
    }
    first, last = audit._timeline.window() if audit._timeline is not None else (None, None)
    exact = json.dumps([settings, audit.levels.edges, audit.coordinates, SCHEMA_VERSION])
    return {
        "title": audit.title,
        "swapcal_version": __version__,
        "schema_version": SCHEMA_VERSION,
        "data_hash": audit._sketch.digest,
        "settings_hash": hashlib.sha256(exact.encode()).hexdigest()[:32],
        "python_version": platform.python_version(),
        "numpy_version": np.__version__,
        "n": audit.rows,
        "total_weight": audit.n,
        "first_time": first,
        "last_time": last,
        "created_at": created_at,
        "prediction": audit.reader.prob if audit.reader else "p",
        "label": audit.reader.target if audit.reader else "y",
        "settings": settings,
        "features": list(audit.reader.features) if audit.reader else [c.name for c in audit.coordinates[1:]],
        "n_levels": int(np.sum(audit._tally.n > 0)),
        "levelling": audit.levels.describe(),
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


def quantities(audit: "Audit", certificate: Mapping[str, Any] | None) -> list[QuantityEntry]:
    """Return the errors beside their noise floor, and the pseudo errors beside the forecaster's bounds."""
    keys = [key for key in REPORTED if key[2] != "groups" or audit._group_columns]
    found = [_quantity(audit, key) for key in keys]
    if audit._issued is not None or certificate is not None:
        found += _issued(audit, certificate or {})
    return found


def _quantity(audit: "Audit", key: tuple[str, int, str]) -> QuantityEntry:
    known, noise = QUANTITIES[key], audit.noise(*key)
    against = f"{len(audit._observed[0].group_names)} groups" if key[2] == "groups" else known.against
    entry: QuantityEntry = {
        "name": known.symbol,
        "against": against,
        "meaning": known.meaning,
        "value": noise.value,
        "mean_value": noise.value / audit.n,
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
        upper = audit.mcal(1)
        entry["upper_value"] = upper[1] if isinstance(upper, tuple) else upper
    return entry


def _issued(audit: "Audit", certificate: Mapping[str, Any]) -> list[QuantityEntry]:
    meaning = {
        "PSReg": "Swap regret with the issued probabilities as weights: what the certificate bounds.",
        "PSMCal_2": "Swap multicalibration with the issued probabilities as weights; never above PSReg.",
    }
    values = {"PSReg": ("F_4^lin", audit.psreg()), "PSMCal_2": ("F_1^lin", audit.psmcal(2))}
    return [
        {
            "name": name,
            "against": against,
            "meaning": meaning[name],
            "value": value,
            "mean_value": value / audit.n,
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


def forecaster(audit: "Audit", certificate: Mapping[str, Any]) -> Any:
    """Return what the forecaster proved about itself, from the fields of its certificate by name."""
    pieces = [name for name in ("rounding", "learning", "prior") if name in certificate]
    return {
        "levels": int(certificate["levels"]),
        "dims": int(certificate["dim"]),
        "rounds": int(certificate["rounds"]),
        "certificate": certificate["bound"],
        "pieces": [{"name": name, "value": certificate[name]} for name in pieces],
        "observed": certificate.get("psreg", audit.psreg()),
        "bound": certificate.get("theorem"),
        "citation": "pathwise certificate of the clipped ridge learners",
    }


def scores(audit: "Audit") -> Any:
    """Return the familiar scores."""
    calibration, refinement = audit.brier_split()
    table = audit._tally.table.sum(axis=0)
    return {
        "brier": audit.brier(),
        "brier_calibration": calibration,
        "brier_refinement": refinement,
        "log_loss": audit.log_loss(),
        "auc": audit.auc()[0],
        "ece": audit.ece(),
        "smooth_ece": audit.smooth_ece(),
        "mean_p": table[kernel.PREDICTED] / table[kernel.MASS],
        "mean_y": table[kernel.OBSERVED] / table[kernel.MASS],
    }


def density(audit: "Audit") -> Any:
    """Return the histogram of the predictions."""
    edges, counts = audit._spectrum.density(DENSITY_BINS)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def groups(audit: "Audit", tolerance: float) -> list[GroupEntry]:
    """Return the group table, the most doubtful groups first, at most `MOST_GROUPS` of them."""
    rows = sorted(audit.group_table(tolerance), key=_doubt)
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


def notes(audit: "Audit") -> list[str]:
    """Return the limitations that apply to this audit."""
    found = [
        audit.levels.describe(),
        "The noise floor asks whether the predictions could be the true probabilities of independent "
        "outcomes; outcomes that move together make errors look more certain than they are.",
        "The verdict covers the groups, features and ranges of predictions examined here, and no others.",
    ]
    shown = len(audit._observed[0].group_names)
    if shown > MOST_GROUPS:
        found.append(f"The table shows the {MOST_GROUPS} most doubtful of {shown} groups; all were tested.")
    if not audit._sketch.complete:
        kept = len(audit._sketch.rows.p) if audit._sketch.rows is not None else 0
        found.append(f"Curves along a direction and likenesses to groups come from {kept:,} sampled rows.")
        doubt = audit.auc()[1]
        if doubt > 0:
            found.append(f"AUC comes from a fine histogram and is exact to within {doubt:.1g}.")
    found.append(f"For the log loss, probabilities are kept {FLOOR:g} away from 0 and 1.")
    return found


def plain(value: Any) -> Any:
    """Return the value with numpy scalars as Python's and non-finite numbers as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _whole(audit: "Audit", found: "Finding") -> bool:
    used = np.flatnonzero(audit._tally.n > 0)
    return found.levels == (int(used[0]), int(used[-1]))


def _group_witness(audit: "Audit", found: "Finding") -> WitnessEntry:
    scene, _, table = audit._observed
    entry: WitnessEntry = {
        "quantity": "scan",
        "levels": [] if _whole(audit, found) else [float(v) for v in audit._tally.v[list(_span(audit, found))]],
        "direction": [{"name": found.name, "coefficient": 1.0, "unit": None}],
        "gap": found.gap if found.is_group else None,
        "n": found.n,
        "share": None,
        "resembles": [],
        "sentence": words.finding(found, _whole(audit, found)),
        "curve": [],
        "group": found.name,
        "p_value": found.p_value,
        "gap_low": found.low,
        "gap_high": found.high,
        "interval": list(found.interval),
        "axis": "predicted probability",
    }
    if found.name == "all rows":
        entry["curve"] = pictures.curve_within(audit._tally.table)
    elif found.is_group:
        place = scene.group_names.index(found.name)
        entry["curve"] = pictures.curve_within(table[:, place])
        entry["resembles"] = _group_likenesses(audit, found.name)
    else:
        j = 1 + [c.name for c in audit.coordinates[1:]].index(found.name)
        rows = _rows(audit, list(_span(audit, found)))
        coordinate = audit.coordinates[j]
        raw = rows.X[:, j] / coordinate.factor + coordinate.centre
        entry["curve"], entry["axis"] = pictures.curve_along(raw, rows), found.name
        if coordinate.unit is None and not words.is_indicator(found.name):
            entry["curve"], entry["axis"] = pictures.by_percentile(entry["curve"]), f"percentile of {found.name}"
        entry["resembles"] = pictures.likenesses(rows.X[:, j], rows, scene)
    return entry


def _group_likenesses(audit: "Audit", name: str) -> Any:
    column, category = next(
        (column, category)
        for column, found, _ in audit._observed[0].columns
        for category in found
        if f"{column} = {category}" == name
    )
    rows = audit._sketch.rows
    assert rows is not None
    member = (rows.labels[column] == hash_names([category])[0]).astype(np.float64)
    alike = pictures.likenesses(member, rows, audit._observed[0], most=4)
    return [one for one in alike if not one["group"].startswith(f"{column} = ")][:3]


def _direction_witnesses(audit: "Audit") -> list[WitnessEntry]:
    if len(audit.coordinates) == 1:
        return []
    found = [audit.witness("smcal", 2), audit.witness("mcal", 2), audit.witness("sreg")]
    return [_direction_witness(audit, witness) for witness in found if witness.value > 0]


def _pooled_group_witness(audit: "Audit") -> list[WitnessEntry]:
    """Return the one group that accuses all levels at once."""
    if not audit._group_columns:
        return []
    witness = audit.witness("mcal", 2, "groups")
    assert witness.names is not None
    name = witness.names[0]
    scene, _, table = audit._observed
    sums = table[:, scene.group_names.index(name)]
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
            "resembles": _group_likenesses(audit, name),
            "sentence": (
                f"Of all groups, {name} carries the largest error over all levels together: its outcomes happen "
                f"{words.points(gap)} {words.more(gap)} often than predicted on average."
            ),
            "curve": pictures.curve_within(sums),
            "group": name,
            "axis": "predicted probability",
        }
    ]


def _direction_witness(audit: "Audit", witness: Witness) -> WitnessEntry:
    level = witness.worst
    pooled = witness.quantity.startswith("MCal")
    rows = _rows(audit, None if pooled else [level])
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
        "n": float(audit.n if pooled else witness.n[level]),
        "share": share,
        "resembles": pictures.likenesses(score, rows, audit._observed[0]),
        "sentence": words.direction(witness, _true_terms(audit, witness), pooled),
        "curve": pictures.curve_along(score, rows),
    }


def _elsewhere(audit: "Audit", first: "Finding | None") -> str:
    """Say where the largest sure error is, unless it is the first finding."""
    largest = audit.largest()
    if largest is None or (first is not None and largest[:3] == first[:3]):
        return ""
    if not largest.is_group:
        return f", along {largest.name} ({largest.n:,.0f} rows)"
    return f", {words.where(largest, _whole(audit, largest))} ({largest.n:,.0f} rows)"


def _true_terms(audit: "Audit", witness: Witness) -> list[Term]:
    """Terms that carry the direction and whose sign can be said alone.

    For a number the sign must hold of the error's trend along it at the level: a coefficient also reflects how far the
    level's rows lie from the feature's mean, and where that gives the sign, "higher" would mislead.
    """
    level = witness.worst
    if witness.theta is None:
        return witness.direction()
    names = [c.name for c in audit.coordinates]
    weight = dict(zip(names, np.abs(witness.theta[level]), strict=True))
    heavy = [t for t in witness.direction() if weight[t.name] >= LEAST_PART * max(weight.values())]
    if witness.form == "regret":
        return heavy
    g, G = audit._tally.g[level], audit._tally.G[level]
    trend = dict(zip(names, g - G[0] / max(G[0, 0], 1e-300) * g[0], strict=True))
    sign = witness.orientation(level)
    marks = {name for name in names if words.is_indicator(name) or name == words.CONSTANT}
    return [t for t in heavy if t.name in marks or sign * t.coefficient * trend[t.name] > 0]


def _span(audit: "Audit", found: "Finding") -> Any:
    return [i for i in range(found.levels[0], found.levels[1] + 1) if audit._tally.n[i] > 0]


def _rows(audit: "Audit", levels: list[int] | None) -> Rows:
    rows = audit._sketch.rows
    assert rows is not None
    if levels is None:
        return rows
    return rows.take(np.flatnonzero(np.isin(audit.levels.index(rows.p), levels)))
