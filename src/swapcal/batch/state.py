"""What the file of a batch model holds, and what keeps the kernels inside it."""

from collections.abc import Iterator
from dataclasses import fields as fields_of
from typing import Any

import numpy as np

from swapcal.archive import (
    OBJECT,
    TRUTH,
    Arrays,
    Field,
    Kind,
    Settings,
    State,
    addition,
    below,
    floats,
    integers,
    is_number,
    is_text,
    keys,
    optional,
    part,
    real,
    whole,
)
from swapcal.batch.settings import width_of
from swapcal.batch.trees import depths
from swapcal.engine.certificate import Certificate
from swapcal.features.encoder import TargetEncoding
from swapcal.features.sources import Category
from swapcal.kernels.batch import SCALES, Placement
from swapcal.kernels.linalg import padded

DESIGN: dict[str, Field] = {
    "knots": floats("knots"),
    "numeric": integers("numbers"),
    "category": integers("columns", "codes"),
    "slope": integers("columns", "codes"),
    "left": integers("pairs"),
    "right": integers("pairs"),
    "pair": integers("pairs", "codes", "codes"),
    "scales": floats(SCALES),
    "coefficients": floats("regressors"),
}
LAYOUT: dict[str, Field] = {
    "numeric": integers("numbers"),
    "category": integers("columns", "codes"),
    "number_size": floats(),
    "sizes": floats("columns"),
    "score_sizes": floats(2),
}
MIXTURE: dict[str, Field] = {
    "pool": floats("vectors", "width"),
    "members": integers("snapshots", "levels"),
    "z": floats("snapshots", "levels"),
    "counts": integers("snapshots"),
}
HISTORY: dict[str, Field] = {
    "theta": floats("changes", "coordinates"),
    "slot": integers("changes"),
    "row": integers("changes"),
    "z": floats("slots"),
}
FOREST: dict[str, Field] = {
    "root": keys("trees"),
    "depth": integers("trees"),
    "column": keys("nodes"),
    "threshold": floats("nodes"),
    "codes": keys("nodes"),
    "child": keys("children"),
    "value": floats("nodes"),
}
RULES = {
    "features": OBJECT,
    "base": optional(real()),
    "trees": whole(0),
    "rows": whole(0),
    "settings": OBJECT,
    "notes": OBJECT,
    "certificate": OBJECT,
    "opened": addition(TRUTH),
}


def fields(settings: Settings) -> dict[str, Field]:
    """Return the arrays of a model; one without scores of others brings its own scorer, one with trees the trees."""
    parts = {"correction": DESIGN, "layout": LAYOUT, "mixture": MIXTURE}
    if settings["base"] is not None:
        parts["scorer"] = DESIGN
    if settings.get("opened"):
        parts["opening"] = DESIGN
    if settings["trees"]:
        parts |= {"first": DESIGN, "forest": FOREST}
    if settings["settings"].get("log"):
        parts["history"] = HISTORY
    return {name: field for prefix, inside in parts.items() for name, field in below(prefix, inside).items()}


def faults(arrays: Arrays, settings: Settings) -> Iterator[str]:
    """Yield what is wrong with a model's parts, and with how they fit together."""
    state = State(dict(arrays), dict(settings))
    yield from _feature_faults(settings["features"])
    sizes = [Category(**entry).size for entry in settings["features"]["categories"]]
    scaled = len(settings["features"]["numeric"]) + len(settings["features"].get("rated", ()))
    numbers = scaled + sum(place >= 0 for place in settings["features"]["flag"])
    for name in ("correction", "scorer", "opening", "first"):
        if f"{name}.coefficients" in arrays:
            yield from _design_faults(name, part(state, name).arrays, numbers, sizes)
    if settings["trees"]:
        inputs = 1 + len(settings["features"]["numeric"]) + len(sizes)
        yield from _forest_faults(part(state, "forest").arrays, settings["trees"], inputs)
    layout: dict[str, Any] = part(state, "layout").arrays
    yield from _layout_faults(layout, numbers, sizes, arrays["mixture.pool"].shape[1])
    yield from _mixture_faults(part(state, "mixture").arrays, width_of(Placement(**layout)))
    if settings["settings"].get("log"):
        yield from _history_faults(part(state, "history").arrays, settings["rows"], width_of(Placement(**layout)))
    expected = {field.name for field in fields_of(Certificate)}
    if {*settings["certificate"], "issued"} != expected:  # files of earlier releases lack `issued`
        yield f"certificate: given {sorted(settings['certificate'])}, expected {sorted(expected)}"


def _feature_faults(features: dict[str, Any]) -> Iterator[str]:
    rated = features.get("rated", [])
    if set(features) - {"rated"} != {"numeric", "centre", "spread", "flag", "categories"}:
        yield f"features: given {sorted(features)}, expected numeric, centre, spread, flag and categories"
    numeric, flag = features["numeric"], features["flag"]
    if not all(_is_name(name) for name in numeric) or len(set(numeric)) != len(numeric):
        yield "features.numeric: given what is no list of names, expected each column's once"
    if not len(features["centre"]) == len(features["spread"]) == len(flag) == len(numeric):
        yield f"features: given scales of other columns, expected those of {len(numeric)}"
    spreads = [value for value in features["spread"] if value is not None]
    if not all(map(is_number, features["centre"])) or not all(is_number(value) and value > 0 for value in spreads):
        yield "features.centre, features.spread: given what is no scale, expected numbers, spreads above 0"
    flagged, scaled = [place for place in flag if place != -1], len(numeric) + len(rated)
    if flagged != list(range(scaled, scaled + len(flagged))):
        yield f"features.flag: given {flag}, expected -1, or places in order after the {scaled} numbers"
    for entry in rated:
        yield from _rated_faults(entry)
    for entry in features["categories"]:
        yield from _category_faults(entry)


def _rated_faults(entry: dict[str, Any]) -> Iterator[str]:
    if set(entry) != {field.name for field in fields_of(TargetEncoding)} or not isinstance(entry["offsets"], dict):
        yield f"features.rated: given {sorted(entry)}, expected the parts of a rated column"
    elif not is_text(entry["name"]) or not all(map(is_number, entry["offsets"].values())):
        yield f"features.rated: given column {entry['name']!r}, expected a name and a number for each text"
    elif not is_number(entry["centre"]) or (entry["spread"] is not None and not _is_positive(entry["spread"])):
        yield f"features.rated: given what is no scale for {entry['name']!r}, expected numbers, a spread above 0"


def _is_positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _category_faults(entry: dict[str, Any]) -> Iterator[str]:
    if set(entry) != {field.name for field in fields_of(Category)}:
        yield f"features.categories: given {sorted(entry)}, expected the parts of a category"
    texts, numbers, edges, other = (entry[name] for name in ("texts", "numbers", "edges", "other"))
    if not _is_name(entry["name"]) or not isinstance(entry["is_group"], bool):
        yield f"features.categories: given name {entry['name']!r}, expected a column's"
    increasing = all(all(map(is_number, values)) and values == sorted(set(values)) for values in (numbers, edges))
    if not increasing or not all(map(is_text, texts)) or len(set(texts)) != len(texts):
        yield f"category {entry['name']!r}: given values that repeat or are out of order, expected each once"
    if sum(map(bool, (texts, numbers, edges))) > 1 or other not in (-1, len(texts)) or isinstance(other, bool):
        yield f"category {entry['name']!r}: given more than one kind of values, expected one"


def _is_name(name: Any) -> bool:
    return is_text(name) or (isinstance(name, int) and not isinstance(name, bool) and name >= 0)


def _design_faults(name: str, design: Arrays, numbers: int, sizes: list[int]) -> Iterator[str]:
    regressors, columns = len(design["coefficients"]), len(sizes)
    if regressors < 2 + len(design["knots"]):
        yield f"{name}.coefficients: given {regressors}, expected at least {2 + len(design['knots'])}"
    if len(design["numeric"]) != numbers or design["category"].shape[0] != columns:
        yield f"{name}: given other columns than the features', expected {numbers} numbers and {columns} categories"
    if design["category"].shape[1] < max(sizes, default=0):
        yield f"{name}.category: given room for {design['category'].shape[1]} codes, expected {max(sizes)}"
    for part_name, least in (("numeric", 0), ("category", -1), ("slope", -1), ("pair", -1)):
        if not _within(design[part_name], least, regressors):
            yield f"{name}.{part_name}: given a place that does not exist, expected one of {regressors} regressors"
    for side in ("left", "right"):
        if not _within(design[side], 0, columns):
            yield f"{name}.{side}: given a column that does not exist, expected one of {columns}"


def _forest_faults(forest: Arrays, trees: int, inputs: int) -> Iterator[str]:
    nodes, child = len(forest["value"]), forest["child"]
    if len(forest["root"]) != trees or len(child) != 2 * nodes:
        yield f"forest: given {len(forest['root'])} trees, {len(child)} children, expected {trees} and {2 * nodes}"
        return
    for name, end in (("root", nodes), ("child", nodes), ("column", inputs), ("depth", nodes)):
        if not _within(forest[name], 0, end):
            yield f"forest.{name}: given a number beyond the trees, expected 0 to {end - 1}"
            return
    here = np.repeat(np.arange(nodes, dtype=np.uint64), 2)
    if (child < here).any():
        yield "forest.child: given a way back, expected children after their parents"
        return
    own = child == here
    reached = np.concatenate([child[~own], forest["root"]]).astype(np.int64)
    if (own[::2] != own[1::2]).any() or (np.bincount(reached, minlength=nodes) != 1).any():
        yield "forest.child: given trees that share nodes, expected every node but the roots to be one node's child"
        return
    if (forest["depth"] != depths(forest["root"].astype(np.int64), child.astype(np.int64).reshape(-1, 2))).any():
        yield "forest.depth: given other depths than the trees have, expected the steps to each tree's farthest leaf"


def _layout_faults(layout: Arrays, numbers: int, sizes: list[int], width: int) -> Iterator[str]:
    if len(layout["numeric"]) != numbers or layout["category"].shape[0] != len(sizes):
        yield f"layout: given other columns than the features', expected {numbers} numbers, {len(sizes)} categories"
    if layout["category"].shape[1] < max(sizes, default=0):
        yield f"layout.category: given room for {layout['category'].shape[1]} codes, expected {max(sizes)}"
    for name in ("numeric", "category"):
        if not _within(layout[name], -1, width):
            yield f"layout.{name}: given a place that does not exist, expected one of {width} coordinates"


def _mixture_faults(mixture: Arrays, dim: int) -> Iterator[str]:
    members, counts = mixture["members"], mixture["counts"]
    if mixture["pool"].shape[1] != padded(dim):
        yield f"mixture.pool: given {mixture['pool'].shape[1]} coordinates, expected {padded(dim)}"
    if not len(counts) or not _within(counts, 2, members.shape[1] + 1):
        yield f"mixture.counts: given {counts.tolist()[:8]}, expected 2 to {members.shape[1]} levels in each snapshot"
        return
    if not _within(members, 0, len(mixture["pool"])):
        yield f"mixture.members: given a learner that does not exist, expected one of {len(mixture['pool'])}"
    for z, count in zip(mixture["z"], counts, strict=True):
        if z[0] != 0.0 or z[count - 1] != 1.0 or (np.diff(z[:count]) <= 0.0).any():
            yield "mixture.z: given levels out of order, expected them to increase from 0 to 1"


def _history_faults(history: Arrays, rounds: int, dim: int) -> Iterator[str]:
    slot, row, z = history["slot"], history["row"], history["z"]
    if history["theta"].shape[1] != dim or rounds < 1:
        yield f"history.theta: given {history['theta'].shape[1]} coordinates, expected {dim}, after at least one row"
    if not _within(row, -1, rounds) or (np.diff(row) < 0).any():
        yield f"history.row: given rows out of order, expected them to increase from -1 to {rounds - 1}"
    if not _within(slot, 0, len(z)) or len(np.unique(slot)) != len(z):
        yield f"history.slot: given other learners than the levels', expected each of {len(z)}"
        return
    first = set(z[slot[row == -1]].tolist())
    if len(np.unique(z)) != len(z) or not {0.0, 1.0} <= first or z.min() < 0.0 or z.max() > 1.0:
        yield "history.z: given other levels, expected different ones from 0 to 1, with 0 and 1 from the start"


def _within(places: Any, least: int, end: int) -> bool:
    return bool(((places >= least) & (places < end)).all())


FILE = Kind("batch-model", 2, RULES, fields, faults)
