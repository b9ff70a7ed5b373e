"""The ledger of labels as named arrays and a manifest."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapcal.live.labels import Id, Ledger, Open, stacked

ROWS = ("ticket", "x", "keys", "values", "memory", "judged")
NUMBERS = ("issued", "fingerprint", "time", "due", "y")
COUNTS = ("forecasts", "labels", "delay", "wait", "waits", "clock")


def to_state(ledger: Ledger) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return (arrays, manifest)."""
    entries = list(ledger.opened.values())
    arrays: dict[str, NDArray[Any]] = {f"open.{name}": stacked(entries, name) for name in ROWS}
    arrays["open.widths"] = np.array([len(entry.x) for entry in entries], np.int64)
    for name in NUMBERS:
        arrays[f"open.{name}"] = np.array([getattr(entry, name) for entry in entries], np.float64)
    arrays["open.ids"] = _packed([entry.id for entry in entries])
    arrays["labelled.ids"] = _packed(list(ledger.labelled))
    arrays["labelled.y"] = np.array(list(ledger.labelled.values()), np.float64)
    counts = {name: getattr(ledger, name) for name in COUNTS}
    return arrays, {name: value if math.isfinite(value) else None for name, value in counts.items()}


def from_state(arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any]) -> Ledger:
    """Rebuild from `to_state`."""
    ids, widths = _unpacked(arrays["open.ids"]), arrays["open.widths"]
    entries = [_entry(arrays, k, id, int(widths[k])) for k, id in enumerate(ids)]
    labelled = dict(zip(_unpacked(arrays["labelled.ids"]), arrays["labelled.y"].tolist(), strict=True))
    counts = {name: value for name, value in manifest.items() if value is not None}
    ledger = Ledger({entry.id: entry for entry in entries}, labelled, **counts)
    ledger.reschedule()
    return ledger


def _entry(arrays: Mapping[str, NDArray[Any]], k: int, id: Id, width: int) -> Open:
    fields: dict[str, Any] = {name: arrays[f"open.{name}"][k].copy() for name in ROWS}
    fields["x"] = fields["x"][:width]
    fields |= {name: float(arrays[f"open.{name}"][k]) for name in NUMBERS}
    fields |= {name: int(fields[name]) for name in ("issued", "fingerprint")}
    return Open(id=id, **fields)


def _packed(ids: Sequence[Id]) -> NDArray[Any]:
    """Return ids as text that remembers whether each was a number."""
    return np.array([f"i{id}" if isinstance(id, int) else f"s{id}" for id in ids], dtype=np.str_)


def _unpacked(texts: NDArray[Any]) -> list[Id]:
    return [int(text[1:]) if text.startswith("i") else str(text[1:]) for text in texts.tolist()]
