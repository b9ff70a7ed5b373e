"""Witnesses: where the errors sit, as the report shows them."""

from typing import Any, NamedTuple, cast

import numpy as np

from swapcal.arrays import Array, Flags, Keys
from swapcal.audit import curves, words
from swapcal.audit.crossing import bases
from swapcal.audit.design import FixedDesign
from swapcal.audit.evidence import Evidence
from swapcal.audit.labels import Titles
from swapcal.audit.sample import KeptRows, hash_names
from swapcal.audit.verdict import Finding
from swapcal.audit.witness import Term, Witness
from swapcal.kernels import tally as kernel
from swapcal.report.schema import Coefficient, CurvePoint, Resemblance, WitnessEntry

MOST_TERMS = 8
LEAST_CORRELATION = 0.15
LEAST_PART = 0.3
"""Terms of a direction are named if they weigh at least this part of the heaviest."""


def witnesses(evidence: Evidence, worst: list[Finding], titles: Titles) -> list[WitnessEntry]:
    """Return the worst cells of the scan, the group and the directions that accuse most."""
    return [
        _titled(entry, titles)
        for entry in (
            *(_group_witness(evidence, one, titles) for one in worst),
            *_pooled_group_witness(evidence, titles),
            *_direction_witnesses(evidence, titles),
        )
    ]


def _titled(entry: WitnessEntry, titles: Titles) -> WitnessEntry:
    """Add titles where they differ from the names."""
    group = entry.get("group")
    if group is not None and titles(group) != group:
        entry["group_title"] = titles(group)
    for term in entry["direction"]:
        if titles(term["name"]) != term["name"]:
            term["title"] = titles(term["name"])
    for like in entry["resembles"]:
        if titles(like["group"]) != like["group"]:
            like["title"] = titles(like["group"])
    return entry


def _group_witness(evidence: Evidence, found: Finding, titles: Titles) -> WitnessEntry:
    design = evidence.design
    entry: WitnessEntry = {
        "quantity": "scan",
        "levels": [] if evidence.whole(found) else evidence.sums.tally.v[evidence.span(found)].tolist(),
        "direction": [{"name": found.name, "coefficient": 1.0, "unit": None}],
        "gap": found.gap if found.is_group else None,
        "n": found.n,
        "share": None,
        "resembles": [],
        "sentence": words.finding(titles.finding(found), evidence.whole(found), evidence.sums.unit),
        "curve": [],
        "group": found.name,
        "p_value": found.p_value,
        "gap_low": found.low,
        "gap_high": found.high,
        "interval": list(found.interval),
        "axis": "predicted probability",
    }
    if found.name == "all rows":
        entry["curve"] = _curve(evidence, evidence.sums.tally.table)
    elif found.is_group:
        entry["curve"] = _curve(evidence, evidence.groups[:, design.group_names.index(found.name)], found.name)
        entry["resembles"] = _group_likenesses(evidence, found.name)
    else:
        j = 1 + [c.name for c in evidence.sums.coordinates[1:]].index(found.name)
        rows = evidence.sums.kept(evidence.span(found))
        coordinate = evidence.sums.coordinates[j]
        raw = rows.X[:, j] / coordinate.factor + coordinate.centre
        entry["curve"], entry["axis"] = curves.curve_along(raw, rows), titles(found.name)
        if coordinate.unit is None and not words.is_indicator(found.name):
            entry["curve"], entry["axis"] = curves.by_percentile(entry["curve"]), f"percentile of {titles(found.name)}"
        entry["resembles"] = likenesses(rows.X[:, j], rows, design)
    return entry


def _curve(evidence: Evidence, sums: Array, name: str | None = None) -> list[CurvePoint]:
    """Return the rates of a group over its levels or, where nearly all of it is on one, over the rows that are kept."""
    if evidence.sums.levels.values is not None or not curves.crowded(sums[:, kernel.MASS]):
        return curves.curve_within(sums)
    rows = evidence.sums.kept()
    rows = rows if name is None else rows.take(np.flatnonzero(_members(evidence, name)))
    return curves.curve_along(rows.p, rows)


def _parts(evidence: Evidence, name: str) -> tuple[str, str]:
    return next(
        (column, category)
        for column, found, _ in evidence.design.columns
        for category in found
        if f"{column} = {category}" == name
    )


def _members(evidence: Evidence, name: str) -> Flags:
    """Tell which of the rows that are kept are in a group."""
    column, category = _parts(evidence, name)
    return np.asarray(evidence.sums.kept().labels[column] == hash_names([category])[0])


def _group_likenesses(evidence: Evidence, name: str) -> Any:
    column, _ = _parts(evidence, name)
    rows = evidence.sums.kept()
    member = _members(evidence, name).astype(np.float64)
    alike = likenesses(member, rows, evidence.design, most=len(evidence.design.columns))
    names = [found for found, _, _ in evidence.design.columns]
    related = tuple(f"{one} = " for one in names if bases(one, names) & bases(column, names))
    return [one for one in alike if not one["group"].startswith(related)][:3]


def _pooled_group_witness(evidence: Evidence, titles: Titles) -> list[WitnessEntry]:
    """Return the one group that accuses all levels at once."""
    if not evidence.sums.tally.groups:
        return []
    witness = evidence.witness("mcal", 2, "groups")
    assert witness.names is not None
    name = witness.names[0]
    sums = evidence.groups[:, evidence.design.group_names.index(name)]
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
                f"Of all groups, {titles(name)} carries the largest error over all levels together: its outcomes "
                f"happen {words.points(gap)} {words.more(gap)} often than predicted on average.",
                evidence.noise("mcal", 2, "groups").p_value,
            ),
            "curve": _curve(evidence, sums, name),
            "group": name,
            "axis": "predicted probability",
        }
    ]


def _direction_witnesses(evidence: Evidence, titles: Titles) -> list[WitnessEntry]:
    if len(evidence.sums.coordinates) == 1:
        return []
    found = [(name, evidence.witness(name)) for name in ("smcal", "mcal", "sreg")]
    return [
        _direction_witness(evidence, witness, evidence.noise(name, 2).p_value, titles)
        for name, witness in found
        if witness.value > 0
    ]


def _direction_witness(evidence: Evidence, witness: Witness, p_value: float, titles: Titles) -> WitnessEntry:
    level = witness.worst
    pooled = witness.quantity.startswith("MCal")
    rows = evidence.sums.kept(None if pooled else [level])
    assert witness.theta is not None
    score = np.einsum("td,d->t", rows.X, witness.theta[level])
    share = 1.0 if pooled or witness.value <= 0 else float(witness.contributions[level] / witness.value)
    return {
        "quantity": witness.quantity,
        "levels": [] if pooled else [float(witness.v[level])],
        "direction": [cast(Coefficient, term._asdict()) for term in witness.direction()[:MOST_TERMS]],
        "gap": float(witness.gaps[level]),
        "n": float(evidence.sums.n if pooled else witness.n[level]),
        "share": share,
        "resembles": likenesses(score, rows, evidence.design),
        "sentence": words.hedged(
            words.direction(
                witness, [titles.term(term) for term in _true_terms(evidence, witness)], pooled, evidence.sums.unit
            ),
            p_value,
        ),
        "curve": curves.curve_along(score, rows),
    }


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
    found: list[Likeness] = []
    if spread > 1e-12:
        for name, categories, _ in design.columns:
            found += _column_likenesses(name, categories, rows.labels[name], mass / total, centred / spread)
    found.sort(key=lambda one: (-round(abs(one.correlation), 9), -one.correlation))
    return [
        {"group": one.group, "correlation": float(np.clip(one.correlation, -1.0, 1.0))}
        for one in _one_per_column(found)[:most]
        if abs(one.correlation) >= LEAST_CORRELATION
    ]


def _one_per_column(found: list[Likeness]) -> list[Likeness]:
    """Keep the likest group of every column: its complement says the same thing again."""
    kept: dict[str, Likeness] = {}
    for one in found:
        kept.setdefault(one.column, one)
    return list(kept.values())


def _column_likenesses(name: str, categories: tuple[str, ...], labels: Keys, mass: Array, z: Array) -> list[Likeness]:
    hashes = hash_names(list(categories))
    order = np.argsort(hashes)
    code = order[np.searchsorted(hashes[order], labels)]
    share = np.bincount(code, weights=mass, minlength=len(categories))
    cross = np.bincount(code, weights=mass * z, minlength=len(categories))
    width = np.sqrt(np.maximum(share * (1.0 - share), 0.0))  # shares that add up to more than 1 by rounding
    return [
        Likeness(f"{name} = {category}", name, float(cross[k] / width[k]))
        for k, category in enumerate(categories)
        if width[k] > 1e-9
    ]
