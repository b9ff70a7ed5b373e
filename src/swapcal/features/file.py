"""What the saved state of `Contexts` holds, and what keeps its coordinates inside x."""

from collections.abc import Iterator, Mapping
from typing import Any

from swapcal.archive.kind import (
    LIST,
    TEXTS,
    TRUTH,
    Arrays,
    Field,
    Rule,
    floats,
    integers,
    is_number,
    is_text,
    keys,
    real,
    rule_faults,
    whole,
)
from swapcal.features.column import KINDS, NAMES, UNSEEN, VOCABULARY
from swapcal.kernels.encode import BINS, SAMPLE

FIELDS: dict[str, Field] = {
    "seen": integers("columns"),
    "mean": floats("columns"),
    "scatter": floats("columns"),
    "sample": floats("columns", SAMPLE),
    "edges": floats("columns", BINS - 1, finite=False),
    "distinct": integers("columns"),
    "first": keys("columns"),
}
PAIRS = Rule(
    "pairs of names", lambda v: isinstance(v, list) and all(TEXTS.holds(pair) and len(pair) == 2 for pair in v)
)
SETTINGS = {
    "groups": TEXTS,
    "scores": PAIRS,
    "products": PAIRS,
    "numeric": TEXTS,
    "categorical": TEXTS,
    "drop": TEXTS,
    "categories": whole(0),
    "max_dim": whole(1),
    "fourier": whole(0),
    "reserved": Rule("names with weights", lambda v: isinstance(v, list) and all(map(_is_weighted, v))),
    "seed": whole(0, 2**64 - 1),
}
PARTS = {"columns": LIST, "products": LIST, "names": TEXTS, "spread": real(0), "frozen": TRUTH}
COLUMN = ("name", "kind", "own", "codes", "at")


def _is_weighted(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and is_text(pair[0]) and is_number(pair[1]) and pair[1] > 0


def faults(arrays: Arrays, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a state from `Contexts.to_state`."""
    yield from rule_faults(SETTINGS, manifest["settings"])
    yield from rule_faults(PARTS, {name: value for name, value in manifest.items() if name != "settings"})
    settings, columns, names = manifest["settings"], manifest["columns"], manifest["names"]
    fixed = 1 + len(settings["reserved"]) + len(settings["scores"]) + settings["fourier"]
    if not fixed <= len(names) <= settings["max_dim"]:
        yield f"names: given {len(names)}, expected {fixed} to {settings['max_dim']}"
    for column in [*columns, *manifest["products"]]:
        yield from _column_faults(column, len(names))
    known = [column["name"] for column in columns]
    if len(set(known)) != len(known) or len(known) != len(arrays["seen"]):
        yield f"columns: given {len(known)} names for {len(arrays['seen'])} columns, expected each once"
    declared = {name for name, _ in settings["scores"]} | {name for pair in settings["products"] for name in pair}
    if known and (not declared <= set(known) or len(manifest["products"]) != len(settings["products"])):
        yield "columns: given without some that are declared, expected all of them"
    if (not known and manifest["products"]) or (bool(known) != (manifest["spread"] > 0.0)):
        yield f"spread: given {manifest['spread']} for {len(known)} columns"
    yield from _past_faults(arrays)


def _column_faults(column: Any, dim: int) -> Iterator[str]:
    if not isinstance(column, dict) or set(column) != set(COLUMN):
        yield f"columns: given {column!r:.60}, expected {', '.join(COLUMN)}"
    name, codes, at = column["name"], column["codes"], column["at"]
    if not is_text(name) or column["kind"] not in [*KINDS, NAMES[-1]] or not whole(0).holds(column["own"]):
        yield f"column {name!r}: given kind {column['kind']!r} and {column['own']!r} of its own"
    if not TEXTS.holds(codes) or len(set(codes)) != len(codes) or len(codes) > VOCABULARY:
        yield f"column {name!r}: given categories that repeat or are no text, expected at most {VOCABULARY} texts"
    if not LIST.holds(at) or len(at) != len(codes) + 2 or not all(whole(UNSEEN, dim - 1).holds(p) for p in at):
        yield f"column {name!r}: given places that do not exist, expected one of {dim} for each category"


def _past_faults(arrays: Arrays) -> Iterator[str]:
    if (arrays["seen"] < 0).any() or (arrays["scatter"] < 0.0).any() or (arrays["distinct"] < 0).any():
        yield "seen, scatter, distinct: given a negative number, expected none"
    if (arrays["edges"] != arrays["edges"]).any():
        yield "edges: given NaN, expected numbers"
