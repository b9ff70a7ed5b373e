"""The ledger of labels as named arrays and a manifest."""

import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swapcal.live.ids import Id
from swapcal.live.ledger import Ledger, Limits, Open, stacked

ROWS = {"ticket": np.float64, "x": np.float64, "keys": np.uint64, "values": np.float64, "memory": np.float64,
        "judged": np.float64}  # fmt: skip
COUNTERS = {"issued": np.int64, "fingerprint": np.uint64}
TIMES = ("time", "due", "y")
COUNTS = ("forecasts", "labels", "expiries", "delay", "wait", "waits")


def to_state(ledger: Ledger) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return (arrays, manifest)."""
    entries = list(ledger.opened.values())
    arrays: dict[str, NDArray[Any]] = {f"open.{name}": stacked(entries, name, dtype) for name, dtype in ROWS.items()}
    arrays["open.widths"] = np.array([len(entry.x) for entry in entries], np.int64)
    for name, kind in COUNTERS.items():
        arrays[f"open.{name}"] = np.array([getattr(entry, name) for entry in entries], kind)
    for name in TIMES:
        arrays[f"open.{name}"] = np.array([getattr(entry, name) for entry in entries], np.float64)
    arrays["open.ids"] = packed([entry.id for entry in entries])
    arrays["labelled.ids"] = packed(list(ledger.labelled))
    arrays["labelled.y"] = np.array(list(ledger.labelled.values()), np.float64)
    arrays["expired.ids"] = packed(list(ledger.expired))
    counts = {name: getattr(ledger, name) for name in COUNTS}
    return arrays, counts | {"clock": ledger.clock if math.isfinite(ledger.clock) else None}


def from_state(arrays: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any], limits: Limits) -> Ledger:
    """Rebuild from `to_state`."""
    ids, widths = unpacked(arrays["open.ids"]), arrays["open.widths"]
    entries = [_entry(arrays, k, id, int(widths[k])) for k, id in enumerate(ids)]
    counts = {name: manifest[name] for name in COUNTS}
    ledger = Ledger(limits, **counts, clock=-math.inf if manifest["clock"] is None else manifest["clock"])
    ledger.opened = OrderedDict((entry.id, entry) for entry in entries)
    ledger.labelled = OrderedDict(zip(unpacked(arrays["labelled.ids"]), arrays["labelled.y"].tolist(), strict=True))
    ledger.expired = OrderedDict.fromkeys(unpacked(arrays["expired.ids"]))
    ledger.reschedule()
    return ledger


def _entry(arrays: Mapping[str, NDArray[Any]], k: int, id: Id, width: int) -> Open:
    fields: dict[str, Any] = {name: arrays[f"open.{name}"][k].copy() for name in ROWS}
    fields["x"] = fields["x"][:width]
    fields |= {name: int(arrays[f"open.{name}"][k]) for name in COUNTERS}
    fields |= {name: float(arrays[f"open.{name}"][k]) for name in TIMES}
    return Open(id=id, **fields)


def packed(ids: Sequence[Id]) -> NDArray[np.uint8]:
    """Return ids as JSON, which tells 1 from "1"."""
    return np.frombuffer(json.dumps(list(ids)).encode(), np.uint8)


def unpacked(octets: NDArray[np.uint8]) -> list[Id]:
    """Return the ids that `packed` wrote."""
    ids: list[Id] = json.loads(octets.tobytes())
    return ids
