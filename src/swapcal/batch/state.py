"""The contents of a batch model's file, with the bounds that keep the kernels inside its arrays."""

from typing import Any

from swapcal.archive import (
    ANY_TEXT,
    OBJECT,
    TEXTS,
    TRUTH,
    Children,
    Field,
    Kind,
    RowsSorted,
    Rule,
    Settings,
    Shapes,
    addition,
    below,
    check,
    floats,
    inside,
    integers,
    is_text,
    keys,
    listed,
    optional,
    parted,
    real,
    whole,
)
from swapcal.features.sources import Category
from swapcal.kernels.batch import SCALES

NAME = Rule("a column's name or number", lambda v: is_text(v) or whole().holds(v))
SPREAD = optional(real(0, above=True))
OFFSETS = Rule("a number for each text", lambda v: isinstance(v, dict) and all(map(real().holds, v.values())))
FEATURES = {
    "numeric": listed(NAME),
    "centre": listed(real()),
    "spread": listed(SPREAD),
    "flag": listed(whole(-1)),
    "rated": addition(listed(parted({"name": ANY_TEXT, "offsets": OFFSETS, "centre": real(), "spread": SPREAD}))),
    "categories": listed(
        parted(
            {
                "name": NAME,
                "is_group": TRUTH,
                "texts": TEXTS,
                "numbers": listed(real()),
                "edges": listed(real()),
                "other": whole(-1),
            }
        )
    ),
}
RULES = {
    "features": parted(FEATURES),
    "base": optional(real()),
    "trees": whole(0),
    "rows": whole(0),
    "settings": OBJECT,
    "notes": OBJECT,
    "certificate": OBJECT,
    "opened": addition(TRUTH),
}


def fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a model: with a scorer if it was fitted without scores, with trees if it has some."""
    features = settings["features"]
    n, rated = len(features["numeric"]), len(features.get("rated", ()))
    same = {name: whole(n, n) for name in ("centre", "spread", "flag")}
    check(same, {name: len(features[name]) for name in same})
    for entry in features["categories"]:
        check({"other": whole(-1, len(entry["texts"]))}, {"other": entry["other"]})
    sizes = [Category(**entry).size for entry in features["categories"]]
    numbers = n + rated + sum(place >= 0 for place in features["flag"])
    columns, codes = len(sizes), max(sizes, default=0)
    designs = ["correction", *(["scorer"] if settings["base"] is not None else [])]
    designs += (["opening"] if settings.get("opened") else []) + (["first"] if settings["trees"] else [])
    parts = {name: _design(inside(name, shapes), numbers, columns, codes) for name in designs}
    if settings["trees"]:
        parts["forest"] = _forest(inside("forest", shapes), settings["trees"], 1 + n + columns)
    width = shapes["mixture.pool"][1]
    wide = max(codes, shapes["layout.category"][1])
    parts["layout"] = {
        "numeric": integers(numbers, least=-1, most=width - 1),
        "category": integers(columns, wide, least=-1, most=width - 1),
        "number_size": floats(),
        "sizes": floats(columns),
        "score_sizes": floats(2),
    }
    snapshots, levels = max(1, shapes["mixture.counts"][0]), shapes["mixture.z"][1]
    parts["mixture"] = {
        "pool": floats("vectors", width),
        "members": integers(snapshots, levels, least=0, most="vectors"),
        "z": floats(snapshots, levels, least=0, most=1, link=RowsSorted("counts")),
        "counts": integers(snapshots, least=2, most=levels),
    }
    if settings["settings"].get("log"):
        parts["history"] = _history(shapes["history.row"][0], settings["rows"])
    return {name: field for prefix, part in parts.items() for name, field in below(prefix, part).items()}


def _design(shapes: dict[str, Any], numbers: int, columns: int, codes: int) -> dict[str, Field]:
    """Return the arrays of a linear correction; numbers take the places after the constant, the logit and its knots."""
    knots, wide = shapes["knots"][0], max(codes, shapes["category"][1])
    regressors = max(2 + knots + numbers, shapes["coefficients"][0])
    last = regressors - 1
    return {
        "knots": floats(knots),
        "numeric": integers(numbers, least=0, most=last),
        "category": integers(columns, wide, least=-1, most=last),
        "slope": integers(columns, wide, least=-1, most=last),
        "left": integers("pairs", least=0, most=columns - 1),
        "right": integers("pairs", least=0, most=columns - 1),
        "pair": integers("pairs", wide, wide, least=-1, most=last),
        "scales": floats(SCALES),
        "coefficients": floats(regressors),
    }


def _history(changes: int, rows: int) -> dict[str, Field]:
    """Return the arrays of the log of all rounds; each row changed a learner at least."""
    check({"rows": whole(1, changes)}, {"rows": rows})
    return {
        "theta": floats(changes, "coordinates"),
        "slot": integers(changes, least=0, most="slots"),
        "row": integers(changes, least=-1, most=rows - 1, ordered=True),
        "z": floats("slots", least=0, most=1),
    }


def _forest(shapes: dict[str, Any], trees: int, inputs: int) -> dict[str, Field]:
    nodes = shapes["value"][0]
    return {
        "root": keys(trees, most=nodes - 1),
        "depth": integers(trees, least=0, most=nodes - 1),
        "column": keys(nodes, most=inputs - 1),
        "threshold": floats(nodes),
        "codes": keys(nodes),
        "child": keys(2 * nodes, most=nodes - 1, link=Children("root", "depth")),
        "value": floats(nodes),
    }


FILE = Kind("batch-model", 2, RULES, fields)
