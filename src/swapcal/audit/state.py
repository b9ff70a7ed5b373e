"""An audit's sums as named arrays and settings, and back; what its file holds."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from swapcal.archive import (
    ANY_TEXT,
    NAMES,
    TEXTS,
    TRUTH,
    ArchiveError,
    Arrays,
    Field,
    Kind,
    Rule,
    Settings,
    Shapes,
    addition,
    check,
    floats,
    is_distinct,
    is_number,
    is_text,
    keys,
    listed,
    octets,
    optional,
    parted,
    real,
    whole,
)
from swapcal.audit.clusters import COUNTED, DRAWS, LEAST_CLUSTERS, LEAST_DRAWS, ClusterSums
from swapcal.audit.levels import COARSE, FINEST, KEPT_BINS, BinSpan, Histogram, Levels, Timeline
from swapcal.audit.rows import AuditColumns, Coordinate, Encoder
from swapcal.audit.sums import SCORES, Groups, KeptRows, RowSample, Sums, Tally, hash_names
from swapcal.features.sources import Category, Number
from swapcal.kernels import tally as kernel

# The sums of an audit as named arrays and plain settings, and back.

TIMES = ("table", "first", "last")
KEPT = ("hashes", "copies", "p", "y", "weights", "X")
"""Arrays of a timeline, and of the rows that are kept."""


def _tally_state(tally: Tally, name: str) -> dict[str, Any]:
    """Return the arrays of per-level sums."""
    own = {f"{name}.table": tally.table, f"{name}.g": tally.g, f"{name}.G": tally.lower_G, f"{name}.H": tally.lower_H}
    own |= {f"{name}.bins": tally.bins} if tally.bins.size else {}
    return own | {f"{name}.groups.{k}": group.table for k, group in enumerate(tally.groups.values())}


def state_of(sums: Sums, title: str, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (arrays, settings) of an audit."""
    arrays = _tally_state(sums.tally, "tally") | _sample_state(sums.sample, sums.tally.groups)
    arrays["histogram.bins"] = sums.histogram.bins
    arrays |= {} if sums.issued is None else _tally_state(sums.issued, "issued")
    arrays |= {} if sums.tally.clusters is None else _clusters_arrays(sums.tally.clusters)
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
        **({} if sums.tally.clusters is None else {"clusters": _clusters_settings(sums.tally.clusters)}),
        **({"limits": list(sums.limits)} if sums.limits else {}),
    }


def sums_of(arrays: Arrays, settings: Settings) -> Sums:
    """Return the sums from their saved state."""
    issued, timeline, reader = settings["issued"], settings["timeline"], settings["reader"]
    tally = _tally_of(arrays, "tally", settings["levels"], settings["groups"])
    if "clusters" in settings:
        tally.clusters = _clusters_of(arrays, settings["clusters"], len(tally.levels))
    return Sums(
        tuple(Coordinate(*one) for one in settings["coordinates"]),
        None if reader is None else reader_of(reader),
        tally,
        None if issued is None else _tally_of(arrays, "issued", issued, []),
        _sample_of(arrays, settings),
        _histogram_of(arrays, settings),
        None if timeline is None else _timeline_of(arrays, timeline),
        limits=tuple(settings.get("limits", ())),
    )


def _tally_of(arrays: Arrays, name: str, levels: Settings, groups: list[Any]) -> Tally:
    """Return per-level sums from their saved state."""
    tally = Tally(levels_of(levels), arrays[f"{name}.g"].shape[1])
    tally.table, tally.g = arrays[f"{name}.table"], arrays[f"{name}.g"]
    tally.lower_G, tally.lower_H = arrays[f"{name}.G"], arrays[f"{name}.H"]
    tally.bins = arrays.get(f"{name}.bins", tally.bins)
    for k, group in enumerate(groups):
        tally.groups[group["name"]] = column = Groups(0)
        column.names, column.table = group["categories"], arrays[f"{name}.groups.{k}"]
    return tally


def _clusters_settings(clusters: ClusterSums) -> dict[str, Any]:
    return {"draws": clusters.draws, "tables": list(clusters.signed), "counted": list(clusters.least)}


def _clusters_arrays(clusters: ClusterSums) -> dict[str, Any]:
    """Return the signed sums and the keys of clusters; tables are numbered, for their names may be any text."""
    arrays = {f"clusters.signed.{k}": table for k, table in enumerate(clusters.signed.values())}
    return (
        arrays
        | {f"clusters.least.{k}": keys for k, keys in enumerate(clusters.least.values())}
        | {"clusters.all": clusters.all}
    )


def _clusters_of(arrays: Arrays, state: Settings, levels: int) -> ClusterSums:
    clusters = ClusterSums(levels, state["draws"])
    clusters.signed = {name: arrays[f"clusters.signed.{k}"] for k, name in enumerate(state["tables"])}
    clusters.least = {name: arrays[f"clusters.least.{k}"] for k, name in enumerate(state["counted"])}
    clusters.all = arrays["clusters.all"]
    return clusters


def _clusters_fields(state: Settings, levels: int, sizes: Mapping[str, int]) -> dict[str, Field]:
    """Return the arrays of clusters, of tables whose numbers of places follow from features and groups."""
    if set(state["tables"]) != set(sizes) or not set(state["counted"]) <= set(sizes):
        raise ArchiveError(f"clusters: given tables {state['tables']}, expected {list(sizes)}")
    fields = {
        f"clusters.signed.{k}": floats(levels, sizes[name], state["draws"]) for k, name in enumerate(state["tables"])
    }
    fields |= {
        f"clusters.least.{k}": keys(levels, sizes[name], LEAST_CLUSTERS) for k, name in enumerate(state["counted"])
    }
    return fields | {"clusters.all": keys(1, 1, COUNTED)}


def levels_of(state: Settings) -> Levels:
    """Return the levelling rule."""
    return Levels(tuple(state["edges"]), None if state["values"] is None else tuple(state["values"]))


def _sample_state(sample: RowSample, groups: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of the rows kept and the sums of all hashes."""
    assert sample.rows is not None
    columns = sample.rows._asdict()
    labels = columns.pop("labels")
    if not columns["bins"].shape[1]:
        del columns["bins"]
    own = {f"sample.{name}": array for name, array in columns.items()}
    own |= {f"sample.labels.{k}": labels[name] for k, name in enumerate(groups)}
    return own | {"sample.sums": np.array(sample.sums, np.uint64)}


def _sample_of(arrays: Arrays, settings: Settings) -> RowSample:
    """Return the rows kept from their saved state."""
    sample = RowSample(len(settings["coordinates"]))
    labels = {group["name"]: arrays[f"sample.labels.{k}"] for k, group in enumerate(settings["groups"])}
    bins = arrays.get("sample.bins", np.zeros((len(arrays["sample.p"]), 0), np.uint8))
    sample.rows = KeptRows(**{name: arrays[f"sample.{name}"] for name in KEPT}, bins=bins, labels=labels)
    sample.complete = settings["complete"]
    first, second = (int(part) for part in arrays["sample.sums"])
    sample.sums = (first, second)
    return sample


def _histogram_of(arrays: Arrays, settings: Settings) -> Histogram:
    """Return the histogram from its saved state."""
    histogram = Histogram()
    histogram.bins = arrays["histogram.bins"]
    histogram.log_loss, histogram.impossible = settings["log_loss"], settings["impossible"]
    return histogram


def _timeline_state(timeline: Timeline) -> dict[str, Any]:
    assert timeline.span is not None
    return {**timeline.span._asdict(), "dated": timeline.dated, "low": timeline.low, "high": timeline.high}


def _timeline_of(arrays: Arrays, state: Settings) -> Timeline:
    """Return the timeline from its saved state."""
    timeline = Timeline()
    timeline.span = BinSpan(state["exponent"], state["first"], state["last"])
    timeline.table, timeline.first, timeline.last = (arrays[f"timeline.{name}"] for name in TIMES)
    timeline.dated, timeline.low, timeline.high = state["dated"], state["low"], state["high"]
    return timeline


def _reader_state(reader: AuditColumns) -> dict[str, Any]:
    assert reader.encoder is not None
    own = {field.name: getattr(reader, field.name) for field in fields(reader) if field.name != "regions"}
    cuts = {name: {"cuts": list(cuts)} for name, cuts in reader.encoder.cuts.items()}
    columns = [_column_state(column) | cuts.get(str(column.name), {}) for column in reader.encoder.columns]
    return own | {"encoder": {"columns": columns}}


def _column_state(column: Number | Category) -> dict[str, Any]:
    if isinstance(column, Category):
        return {"name": column.name, "texts": column.texts, "other": column.other >= 0}
    return column._asdict() | {"spread": None if np.isinf(column.spread) else column.spread}


def _column_of(state: Settings) -> Number | Category:
    if "texts" not in state:
        spread = np.inf if state["spread"] is None else state["spread"]
        return Number(state["name"], state["centre"], spread, state["missing"])
    texts = state["texts"]
    return Category(state["name"], False, texts=texts, other=len(texts) if state["other"] else -1)


def reader_of(state: Settings) -> AuditColumns:
    """Return the roles of the columns, and the encoding."""
    columns = [_column_of(column) for column in state["encoder"]["columns"]]
    settings: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in state.items()}
    cuts = {one["name"]: tuple(one["cuts"]) for one in state["encoder"]["columns"] if "cuts" in one}
    return AuditColumns(**settings | {"encoder": Encoder(tuple(columns), cuts)})


# The fields of an audit's file; the lists determine the level, category and bin of rows added later.

BIN = whole(-(2**60), 2**60)
RISING = Rule("increasing numbers from 0 to 1", lambda v: listed(real(0), 1).holds(v) and v[-1] <= 1 and is_rising(v))
LEVELS = parted({"edges": RISING._replace(holds=lambda v: RISING.holds(v) and len(v) > 1), "values": optional(RISING)})
TIMELINE = {
    "exponent": whole(FINEST, 1023),
    "first": BIN,
    "last": BIN,
    "dated": TRUTH,
    "low": real(),
    "high": real(),
}
SORTED = Rule("seven numbers in order", lambda v: listed(real(), kernel.CUTS, kernel.CUTS).holds(v) and v == sorted(v))
NUMBER = parted(
    {
        "name": ANY_TEXT,
        "centre": real(),
        "spread": optional(real(0, above=True)),
        "missing": TRUTH,
        "cuts": addition(SORTED),
    }
)
CATEGORY = parted({"name": ANY_TEXT, "texts": NAMES, "other": TRUTH})
COLUMN = Rule("a column of numbers or of texts", lambda v: NUMBER.holds(v) or CATEGORY.holds(v))
READER = {
    "prob": ANY_TEXT,
    "target": ANY_TEXT,
    "features": TEXTS,
    "groups": TEXTS,
    "weights": optional(ANY_TEXT),
    "time": optional(ANY_TEXT),
    "issued": optional(listed(ANY_TEXT, 3, 3)),
    "clusters": addition(optional(ANY_TEXT)),
    "encoder": parted({"columns": listed(COLUMN)}),
}
COORDINATE = Rule("[name, factor, centre, unit]", lambda v: isinstance(v, list) and len(v) == 4 and _is_coordinate(*v))
RULES = {
    "title": ANY_TEXT,
    "seed": whole(0, 2**128),
    "coordinates": listed(COORDINATE, 1),
    "reader": optional(parted(READER)),
    "groups": listed(parted({"name": ANY_TEXT, "categories": NAMES})),
    "levels": LEVELS,
    "issued": optional(LEVELS),
    "complete": TRUTH,
    "log_loss": real(0),
    "impossible": whole(),
    "timeline": optional(parted(TIMELINE)),
    "limits": addition(listed(ANY_TEXT, 1)),
    "clusters": addition(parted({"draws": whole(LEAST_DRAWS, DRAWS), "tables": NAMES, "counted": NAMES})),
}


def is_rising(values: list[float]) -> bool:
    """Return whether each number is above the one before."""
    return all(low < high for low, high in itertools.pairwise(values))


def _is_coordinate(name: Any, factor: Any, centre: Any, unit: Any) -> bool:
    return is_text(name) and is_number(factor) and is_number(centre) and (unit is None or is_text(unit))


def file_fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays; every group column has its own."""
    d, groups, timeline = len(settings["coordinates"]), settings["groups"], settings["timeline"]
    if not is_distinct([group["name"] for group in groups]):
        raise ArchiveError("groups: given a column twice, expected each once")
    reader = None if settings["reader"] is None else reader_of(settings["reader"])
    if reader is not None and reader.encoder is not None and len(reader.encoder.coordinates) != d:
        raise ArchiveError(f"coordinates: given {d}, expected those of the encoding")
    numbers = 0 if reader is None or reader.encoder is None else len(reader.encoder.cuts)
    fewest = 1 if settings["complete"] or "limits" not in settings else 0  # the rows of a query were not read
    rows, levels = max(fewest, min(shapes["sample.p"][0], RowSample(d).capacity)), len(levels_of(settings["levels"]))
    arrays = _tally_fields("tally", levels, d)
    if numbers:
        arrays["tally.bins"] = floats(levels, numbers, kernel.BINS, kernel.SCALARS)
        arrays["sample.bins"] = octets(rows, numbers)
    for k, group in enumerate(groups):
        arrays[f"tally.groups.{k}"] = floats(levels, len(group["categories"]), kernel.SCALARS)
        arrays[f"sample.labels.{k}"] = keys(rows, most=hash_names(group["categories"]).max(initial=0))
    if "clusters" in settings:
        sizes = {"contexts": d, "scores": SCORES, "rows": 1} | ({"bins": numbers * kernel.BINS} if numbers else {})
        sizes |= {f"group {group['name']}": len(group["categories"]) for group in groups}
        arrays |= _clusters_fields(settings["clusters"], levels, sizes)
    if settings["issued"] is not None:
        arrays |= _tally_fields("issued", len(levels_of(settings["issued"])), d)
    arrays |= {f"sample.{name}": floats(rows, least=0, most=1) for name in ("p", "y")} | {
        "sample.weights": floats(rows)
    }
    arrays |= {"sample.copies": floats(rows, least=1, most=2**53), "sample.hashes": keys(rows, rises=True)}
    arrays |= {"sample.X": floats(rows, d), "sample.sums": keys(2), "histogram.bins": floats(kernel.SPECTRUM_BINS, 3)}
    if timeline is not None:
        bins = max(1, min(timeline["last"] - timeline["first"] + 1, KEPT_BINS))
        arrays |= {"timeline.table": floats(bins, COARSE, kernel.SCALARS)}
        arrays |= {f"timeline.{name}": floats(bins, finite=False) for name in ("first", "last")}
        check({"bins": whole(bins, bins)}, {"bins": timeline["last"] - timeline["first"] + 1})
    return arrays


def _tally_fields(name: str, levels: int, d: int) -> dict[str, Field]:
    table = {f"{name}.table": floats(levels, kernel.SCALARS), f"{name}.g": floats(levels, d)}
    return table | {f"{name}.{part}": floats(levels, d, d) for part in "GH"}


FILE = Kind("audit", 1, RULES, file_fields)
