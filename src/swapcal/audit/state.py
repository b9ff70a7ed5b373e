"""The sums of an audit as named arrays and plain settings, and back."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from swapcal.archive.kind import Arrays, Settings
from swapcal.audit.encoder import Coordinate, Encoder
from swapcal.audit.histogram import Histogram
from swapcal.audit.levels import Levels
from swapcal.audit.reader import Reader
from swapcal.audit.sample import KeptRows, Sample
from swapcal.audit.sums import Sums
from swapcal.audit.tally import Groups, Tally
from swapcal.audit.timeline import Span, Timeline
from swapcal.features.category import Category
from swapcal.features.number import Number

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


def _sample_state(sample: Sample, groups: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of the rows kept and the sums of all hashes."""
    assert sample.rows is not None
    found = sample.rows._asdict()
    labels = found.pop("labels")
    own = {f"sample.{name}": array for name, array in found.items()}
    own |= {f"sample.labels.{k}": labels[name] for k, name in enumerate(groups)}
    return own | {"sample.sums": np.array(sample.sums, np.uint64)}


def _sample_of(arrays: Arrays, settings: Settings) -> Sample:
    """Return the rows kept as they were."""
    sample = Sample(len(settings["coordinates"]))
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


def _reader_state(reader: Reader) -> dict[str, Any]:
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


def reader_of(state: Settings) -> Reader:
    """Return which columns hold what, and the encoding."""
    columns = [_column_of(column) for column in state["encoder"]["columns"]]
    found: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in state.items()}
    return Reader(**found | {"encoder": Encoder(tuple(columns))})
