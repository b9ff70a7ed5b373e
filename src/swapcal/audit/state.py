"""An audit's sums as named arrays and settings, and back; what its file holds and how parts fit together."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from swapcal.archive import (
    LIST,
    OBJECT,
    TEXTS,
    TRUTH,
    Arrays,
    Field,
    Kind,
    Rule,
    Settings,
    Shapes,
    floats,
    is_number,
    is_text,
    keys,
    optional,
    real,
    rule_faults,
    whole,
)
from swapcal.arrays import Array
from swapcal.audit.levels import (
    COARSE,
    DEFAULT_LEVELS,
    FINEST,
    KEPT_BINS,
    MOST_VALUES,
    Histogram,
    Levels,
    Span,
    Timeline,
)
from swapcal.audit.rows import (
    LEAST_WEIGHT,
    MOST_WEIGHT,
    NORM_SLACK,
    AuditColumns,
    Coordinate,
    Encoder,
    intersections_of,
)
from swapcal.audit.sums import Groups, KeptRows, RowSample, Sums, Tally, hash_names
from swapcal.features.sources import Category, Number
from swapcal.kernels import tally as kernel

# The sums of an audit as named arrays and plain settings, and back.

TIMES = ("table", "first", "last")
KEPT = ("hashes", "copies", "p", "y", "weights", "X")
"""Arrays of a timeline, and of the rows that are kept."""


def _tally_state(tally: Tally, name: str) -> dict[str, Any]:
    """Return the arrays of per-level sums."""
    own = {f"{name}.table": tally.table, f"{name}.g": tally.g, f"{name}.G": tally.lower_G, f"{name}.H": tally.lower_H}
    return own | {f"{name}.groups.{k}": group.table for k, group in enumerate(tally.groups.values())}


def state_of(sums: Sums, title: str, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (arrays, settings) of an audit."""
    arrays = _tally_state(sums.tally, "tally") | _sample_state(sums.sample, sums.tally.groups)
    arrays["histogram.bins"] = sums.histogram.bins
    arrays |= {} if sums.issued is None else _tally_state(sums.issued, "issued")
    times = {} if sums.timeline is None else _timeline_state(sums.timeline)
    arrays |= {} if sums.timeline is None else {f"timeline.{part}": getattr(sums.timeline, part) for part in TIMES}
    return arrays, {
        "title": title,
        "seed": int(seed),
        "coordinates": [list(one) for one in sums.coordinates],
        "reader": None if sums.reader is None else _reader_state(sums.reader),
        "groups": [{"name": name, "categories": group.names} for name, group in sums.tally.groups.items()],
        "levels": asdict(sums.levels),
        "issued": None if sums.issued is None else asdict(sums.issued.levels),
        "complete": sums.sample.complete,
        "log_loss": sums.histogram.log_loss,
        "impossible": sums.histogram.impossible,
        "timeline": times or None,
    }


def sums_of(arrays: Arrays, settings: Settings) -> Sums:
    """Return the sums as they were."""
    issued, timeline, reader = settings["issued"], settings["timeline"], settings["reader"]
    return Sums(
        tuple(Coordinate(*one) for one in settings["coordinates"]),
        None if reader is None else reader_of(reader),
        _tally_of(arrays, "tally", settings["levels"], settings["groups"]),
        None if issued is None else _tally_of(arrays, "issued", issued, []),
        _sample_of(arrays, settings),
        _histogram_of(arrays, settings),
        None if timeline is None else _timeline_of(arrays, timeline),
    )


def _tally_of(arrays: Arrays, name: str, levels: Settings, groups: list[Any]) -> Tally:
    """Return per-level sums as they were."""
    tally = Tally(levels_of(levels), arrays[f"{name}.g"].shape[1])
    tally.table, tally.g = arrays[f"{name}.table"], arrays[f"{name}.g"]
    tally.lower_G, tally.lower_H = arrays[f"{name}.G"], arrays[f"{name}.H"]
    for k, group in enumerate(groups):
        tally.groups[group["name"]] = found = Groups(0)
        found.names, found.table = group["categories"], arrays[f"{name}.groups.{k}"]
    return tally


def levels_of(state: Settings) -> Levels:
    """Return the levelling rule."""
    return Levels(tuple(state["edges"]), None if state["values"] is None else tuple(state["values"]))


def _sample_state(sample: RowSample, groups: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of the rows kept and the sums of all hashes."""
    assert sample.rows is not None
    found = sample.rows._asdict()
    labels = found.pop("labels")
    own = {f"sample.{name}": array for name, array in found.items()}
    own |= {f"sample.labels.{k}": labels[name] for k, name in enumerate(groups)}
    return own | {"sample.sums": np.array(sample.sums, np.uint64)}


def _sample_of(arrays: Arrays, settings: Settings) -> RowSample:
    """Return the rows kept as they were."""
    sample = RowSample(len(settings["coordinates"]))
    labels = {group["name"]: arrays[f"sample.labels.{k}"] for k, group in enumerate(settings["groups"])}
    sample.rows = KeptRows(**{name: arrays[f"sample.{name}"] for name in KEPT}, labels=labels)
    sample.complete = settings["complete"]
    first, second = (int(part) for part in arrays["sample.sums"])
    sample.sums = (first, second)
    return sample


def _histogram_of(arrays: Arrays, settings: Settings) -> Histogram:
    """Return the histogram as it was."""
    histogram = Histogram()
    histogram.bins = arrays["histogram.bins"]
    histogram.log_loss, histogram.impossible = settings["log_loss"], settings["impossible"]
    return histogram


def _timeline_state(timeline: Timeline) -> dict[str, Any]:
    assert timeline.span is not None
    return {**timeline.span._asdict(), "dated": timeline.dated, "low": timeline.low, "high": timeline.high}


def _timeline_of(arrays: Arrays, state: Settings) -> Timeline:
    """Return the timeline as it was."""
    timeline = Timeline()
    timeline.span = Span(state["exponent"], state["first"], state["last"])
    timeline.table, timeline.first, timeline.last = (arrays[f"timeline.{name}"] for name in TIMES)
    timeline.dated, timeline.low, timeline.high = state["dated"], state["low"], state["high"]
    return timeline


def _reader_state(reader: AuditColumns) -> dict[str, Any]:
    assert reader.encoder is not None
    own = {field.name: getattr(reader, field.name) for field in fields(reader)}
    return own | {"encoder": {"columns": [_column_state(column) for column in reader.encoder.columns]}}


def _column_state(column: Number | Category) -> dict[str, Any]:
    if isinstance(column, Category):
        return {"name": column.name, "texts": column.texts, "other": column.other >= 0}
    return column._asdict() | {"spread": None if np.isinf(column.spread) else column.spread}


def _column_of(state: Settings) -> Number | Category:
    if "texts" not in state:
        return Number(**{**state, "spread": np.inf if state["spread"] is None else state["spread"]})
    texts = state["texts"]
    return Category(state["name"], False, texts=texts, other=len(texts) if state["other"] else -1)


def reader_of(state: Settings) -> AuditColumns:
    """Return which columns hold what, and the encoding."""
    columns = [_column_of(column) for column in state["encoder"]["columns"]]
    found: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in state.items()}
    return AuditColumns(**found | {"encoder": Encoder(tuple(columns))})


# What the file of an `Audit` holds, and how its parts fit together.

SLACK = 1e-6
"""Sums of the same rows in another order differ by far less than this part of their size."""

TINY = 1e-300
"""Shares of issued distributions may be so small that their sums have few digits."""

ANY_TEXT = Rule("text", is_text)
GROUP = {"name": ANY_TEXT, "categories": TEXTS}
LEVELS = {"edges": LIST, "values": optional(LIST)}
TIMELINE = {
    "exponent": whole(FINEST, 1023),
    "first": Rule("an integer", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "last": Rule("an integer", lambda v: isinstance(v, int) and not isinstance(v, bool)),
    "dated": TRUTH,
    "low": real(),
    "high": real(),
}
NUMBER = {"name": ANY_TEXT, "centre": real(), "spread": optional(real(0, above=True)), "missing": TRUTH}
CATEGORY = {"name": ANY_TEXT, "texts": TEXTS, "other": TRUTH}
READER = {
    "prob": ANY_TEXT,
    "target": ANY_TEXT,
    "features": TEXTS,
    "groups": TEXTS,
    "weights": optional(ANY_TEXT),
    "time": optional(ANY_TEXT),
    "issued": optional(Rule("three texts", lambda v: TEXTS.holds(v) and len(v) == 3)),
    "encoder": Rule("an object of columns", lambda v: isinstance(v, dict) and v.keys() == {"columns"}),
}
RULES = {
    "title": ANY_TEXT,
    "seed": whole(0, 2**128),
    "coordinates": LIST,
    "reader": optional(OBJECT),
    "groups": LIST,
    "levels": OBJECT,
    "issued": optional(OBJECT),
    "complete": TRUTH,
    "log_loss": real(0),
    "impossible": whole(),
    "timeline": optional(OBJECT),
}


def file_fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays; every group column has its own."""
    columns = range(len(settings["groups"]))
    found = _tally_fields("tally", "levels")
    found |= {f"tally.groups.{k}": floats("levels", f"categories {k}", kernel.SCALARS) for k in columns}
    found |= _tally_fields("issued", "issued levels") if settings["issued"] is not None else {}
    found |= {f"sample.{name}": floats("rows") for name in ("copies", "p", "y", "weights")}
    found |= {"sample.X": floats("rows", "coordinates"), "sample.hashes": keys("rows"), "sample.sums": keys(2)}
    found |= {f"sample.labels.{k}": keys("rows") for k in columns}
    found |= {"histogram.bins": floats(kernel.SPECTRUM_BINS, 3)}
    if settings["timeline"] is not None:
        found |= {"timeline.table": floats("bins", COARSE, kernel.SCALARS)}
        found |= {f"timeline.{name}": floats("bins", finite=False) for name in ("first", "last")}
    return found


def _tally_fields(name: str, levels: str) -> dict[str, Field]:
    d = "coordinates"
    table = {f"{name}.table": floats(levels, kernel.SCALARS), f"{name}.g": floats(levels, d)}
    return table | {f"{name}.{part}": floats(levels, d, d) for part in "GH"}


def faults(arrays: Arrays, settings: Settings) -> Iterator[str]:
    """Yield what is wrong with a part, then what is wrong between them."""
    yield from _coordinate_faults(settings, arrays["tally.g"].shape[1])
    yield from _group_faults(arrays, settings)
    yield from _reader_faults(settings)
    yield from _tally_faults(arrays, "tally", settings["levels"])
    table = arrays["tally.table"]
    used = table[:, kernel.ROWS] > 0
    if not used.any() or (table[used][:, [kernel.MASS, kernel.MASS2, kernel.MASS3]] <= 0).any():
        yield "tally.table: given no rows, or rows without weight, expected at least one"
    if settings["issued"] is not None:
        yield from _tally_faults(arrays, "issued", settings["issued"])
    whole = table.sum(axis=0)
    for k in range(len(settings["groups"])):
        group = arrays[f"tally.groups.{k}"]
        yield from _scalar_faults(f"tally.groups.{k}", group)
        if not _agree(group.sum(axis=1), table):
            yield f"tally.groups.{k}: given other rows than all, expected every row in one category"
    if settings["issued"] is not None and not _near(arrays["issued.table"].sum(axis=0)[0], whole[0], whole[0]):
        yield "issued.table: given another weight than of all rows, expected that"
    yield from _sample_faults(arrays, settings, int(whole[kernel.ROWS]))
    yield from _histogram_faults(arrays["histogram.bins"], settings, whole)
    if settings["timeline"] is not None:
        yield from _timeline_faults(arrays, settings["timeline"], whole)


def _coordinate_faults(settings: Settings, d: int) -> Iterator[str]:
    for one in settings["coordinates"]:
        shaped = isinstance(one, list) and len(one) == 4 and is_text(one[0]) and (one[3] is None or is_text(one[3]))
        if not shaped or not is_number(one[1]) or not is_number(one[2]):
            yield f"coordinates: given {one!r:.60}, expected [name, factor, centre, unit]"
    if len(settings["coordinates"]) != d:
        yield f"coordinates: given {len(settings['coordinates'])}, expected {d}, one for each of a context"


def _group_faults(arrays: Arrays, settings: Settings) -> Iterator[str]:
    for k, group in enumerate(settings["groups"]):
        yield from rule_faults(GROUP, group)
        names = group["categories"]
        if not names or len(set(names)) != len(names) or arrays[f"tally.groups.{k}"].shape[1] != len(names):
            yield f"groups: given a category twice, or without sums, in {group['name']!r:.60}, expected each once"
    names = [group["name"] for group in settings["groups"]]
    if len(set(names)) != len(names):
        yield "groups: given a column twice, expected each once"


def _reader_faults(settings: Settings) -> Iterator[str]:
    state = settings["reader"]
    if state is None:
        return
    yield from rule_faults(READER, state)
    if not isinstance(state["encoder"]["columns"], list):
        yield "encoder: given no list, expected one of columns"
    for column in state["encoder"]["columns"]:
        yield from rule_faults(CATEGORY if isinstance(column, dict) and "texts" in column else NUMBER, column)
        if "texts" in column and len(set(column["texts"])) != len(column["texts"]):
            yield f"encoder: given a category twice, in {column['name']!r:.60}, expected each once"
    reader = reader_of(state)
    assert reader.encoder is not None
    if [column.name for column in reader.encoder.columns] != state["features"]:
        yield "features: given others than are encoded, expected those"
    if [list(one) for one in reader.encoder.coordinates] != settings["coordinates"]:
        yield "coordinates: given others than the encoding's, expected those"
    names = [group["name"] for group in settings["groups"]]
    made = {pair.name for pair in intersections_of(names)}
    if set(reader.group_columns) != set(names) - made:
        yield "groups: given other columns than are read, expected those"
    if (reader.time is not None) > (settings["timeline"] is not None):
        yield "timeline: given none, expected that of the column of times"
    if (reader.issued is not None) > (settings["issued"] is not None):
        yield "issued: given none, expected the sums of the issued columns"


def _tally_faults(arrays: Arrays, name: str, state: Settings) -> Iterator[str]:
    yield from _level_faults(state, len(arrays[f"{name}.table"]))
    levels, table = levels_of(state), arrays[f"{name}.table"]
    yield from _scalar_faults(f"{name}.table", table)
    mass, room = table[:, kernel.MASS], SLACK * table[:, kernel.MASS] + TINY
    low, high = np.array([levels.bounds(k) for k in range(len(levels))]).reshape(-1, 2).T
    predicted = table[:, kernel.PREDICTED]
    if (predicted < low * mass - room).any() or (predicted > high * mass + room).any():
        yield f"{name}.table: given predictions outside their level, expected them inside"
    g = arrays[f"{name}.g"]
    if not _near(2.0 * g[:, 0], table[:, kernel.RESIDUAL], mass) or (_lengths(g) > mass + room).any():
        yield f"{name}.g: given what no contexts add up to, expected x_1 = ½ and ‖x‖ ≤ 1"
    for part, size in (("G", mass), ("H", table[:, kernel.VARIANCE])):
        yield from _moment_faults(f"{name}.{part}", arrays[f"{name}.{part}"], size)


def _level_faults(state: Settings, count: int) -> Iterator[str]:
    yield from rule_faults(LEVELS, state)
    edges, values = state["edges"], state["values"]
    if not all(map(is_number, [*edges, *(values or [])])):
        yield "levels: given what is no number, expected numbers"
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != 1 or (np.diff(edges) <= 0).any():
        yield "levels: given edges out of order, expected them to increase from 0 to 1"
    if values is not None:
        if levels_of(state).edges != Levels.declare(DEFAULT_LEVELS).edges or not 1 <= len(values) <= MOST_VALUES:
            yield f"levels: given {len(values)} values, expected 1 to {MOST_VALUES}, and the default intervals"
        if (np.diff(values) <= 0).any() or values[0] < 0 or values[-1] > 1:
            yield "levels: given values out of order, expected them to increase within 0 and 1"
    if len(levels_of(state)) != count:
        yield f"levels: given {len(levels_of(state))}, expected one for each of {count} sums"


def _scalar_faults(name: str, table: Array) -> Iterator[str]:
    column = np.moveaxis(table, -1, 0)
    rows, fractional = column[kernel.ROWS], column[kernel.FRACTIONAL]
    signed = np.delete(table, kernel.RESIDUAL, axis=-1)
    if (signed < 0).any() or (table[rows == 0] != 0).any():
        yield f"{name}: given a negative sum, or one without rows, expected sums of rows"
    if (rows != np.floor(rows)).any() or (fractional != np.floor(fractional)).any() or (fractional > rows).any():
        yield f"{name}: given parts of rows, expected whole ones"
    bounds = {
        kernel.PREDICTED: kernel.MASS,
        kernel.OBSERVED: kernel.MASS,
        kernel.SQUARED: kernel.MASS,
        kernel.VARIANCE: kernel.MASS2,
        kernel.SPREAD: kernel.MASS2,
    }
    if any((column[part] > (1.0 + SLACK) * column[all_]).any() for part, all_ in bounds.items()):
        yield f"{name}: given more than all rows can add up to, expected no more"
    difference = column[kernel.OBSERVED] - column[kernel.PREDICTED]
    if not _near(column[kernel.RESIDUAL], difference, column[kernel.MASS]):
        yield f"{name}: given other residuals, expected observed less predicted"


def _moment_faults(name: str, lower: Array, size: Array) -> Iterator[str]:
    diagonal = np.einsum("ldd->ld", lower)
    most = diagonal[:, :, None] * diagonal[:, None, :]
    if (diagonal < 0).any() or np.triu(lower, 1).any() or (lower**2 > (1.0 + SLACK) * most + TINY).any():
        yield f"{name}: given something else, expected sums of squares"
    if not _near(4.0 * diagonal[:, 0], size, size) or (diagonal.sum(axis=1) > (1.0 + SLACK) * size + TINY).any():
        yield f"{name}: given what no contexts add up to, expected x_1 = ½ and ‖x‖ ≤ 1"


def _sample_faults(arrays: Arrays, settings: Settings, rows: int) -> Iterator[str]:
    hashes, copies, p, y, weights, X = (arrays[f"sample.{name}"] for name in KEPT)
    capacity = RowSample(X.shape[1]).capacity
    if not 1 <= len(hashes) <= capacity or (hashes[1:] <= hashes[:-1]).any():
        yield f"sample.hashes: given {len(hashes)}, expected 1 to {capacity} in increasing order"
    if (copies < 1).any() or (copies != np.floor(copies)).any() or copies.sum() > rows:
        yield "sample.copies: given parts of rows, or more than all, expected whole ones"
    if settings["complete"] and copies.sum() != rows:
        yield f"sample.copies: given {copies.sum():g} rows, expected all {rows} of a complete sample"
    if min(p.min(initial=0), y.min(initial=0)) < 0 or max(p.max(initial=0), y.max(initial=0)) > 1:
        yield "sample: given predictions or outcomes outside, expected them in [0, 1]"
    if (weights < LEAST_WEIGHT).any() or (weights > MOST_WEIGHT).any():
        yield f"sample.weights: given a weight out of range, expected {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
    if (X[:, 0] != 0.5).any() or (_lengths(X) > 1 + NORM_SLACK).any():
        yield "sample.X: given what is no context, expected x_1 = ½ and ‖x‖ ≤ 1"
    for k, group in enumerate(settings["groups"]):
        if not np.isin(arrays[f"sample.labels.{k}"], hash_names(group["categories"])).all():
            yield f"sample.labels.{k}: given a category without sums, expected those that have them"


def _histogram_faults(bins: Array, settings: Settings, whole: Array) -> Iterator[str]:
    mass = bins[:, 0]
    if (bins < 0).any() or (bins[:, 1:] > (1.0 + SLACK) * mass[:, None]).any():
        yield "histogram.bins: given a negative sum or too large a one, expected sums of rows"
    if not _near(bins.sum(axis=0), whole[[kernel.MASS, kernel.PREDICTED, kernel.OBSERVED]], whole[kernel.MASS]):
        yield "histogram.bins: given other rows, expected the levels'"
    if settings["impossible"] > whole[kernel.ROWS]:
        yield f"impossible: given {settings['impossible']}, expected no more than rows"


def _timeline_faults(arrays: Arrays, state: Settings, whole: Array) -> Iterator[str]:
    yield from rule_faults(TIMELINE, state)
    table, first, last = (arrays[f"timeline.{name}"] for name in TIMES)
    bins = state["last"] - state["first"] + 1
    width = 2.0 ** state["exponent"]
    if bins != len(table) or not 1 <= bins <= KEPT_BINS:
        yield f"timeline: given {bins} bins with {len(table)} sums, expected 1 to {KEPT_BINS}, with one each"
    if (state["low"] // width, state["high"] // width) != (state["first"], state["last"]):
        yield "timeline: given other bins, expected those that hold its times"
    yield from _scalar_faults("timeline.table", table)
    if not _agree(table.sum(axis=(0, 1)), whole):
        yield "timeline.table: given other rows, expected the levels'"
    used = table[:, :, kernel.ROWS].sum(axis=1) > 0
    if not (first[used] <= last[used]).all() or not (np.isposinf(first[~used]) & np.isneginf(last[~used])).all():
        yield "timeline: given a time in an empty bin, or none in another, expected one in each that has rows"
    if first.min(initial=np.inf) != state["low"] or last.max(initial=-np.inf) != state["high"]:
        yield "timeline: given other ends, expected those of its bins"


def _agree(sums: Array, table: Array) -> bool:
    """Tell whether scalar sums are those of the same rows."""
    size = np.array(table)
    size[..., kernel.RESIDUAL] = size[..., kernel.MASS]
    return _near(sums, table, size)


def _near(a: Array, b: Array, size: Array) -> bool:
    return bool((np.abs(a - b) <= SLACK * size + TINY).all())


def _lengths(rows: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("td,td->t", rows, rows)))


FILE = Kind("audit", 1, RULES, file_fields, faults)
