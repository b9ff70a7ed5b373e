"""Keeping: monitors to files and back."""

import os
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swapcal import archive
from swapcal.kernels.play import FIELDS, LANES
from swapcal.kernels.wealth import NOTES
from swapcal.monitor.history import History
from swapcal.monitor.settings import Settings

if TYPE_CHECKING:
    from swapcal.monitor.monitor import Monitor

KIND, VERSION = "monitor", 1


def save(monitor: "Monitor", path: "str | os.PathLike[str]") -> None:
    """Write a monitor's state."""
    book, history, groups = monitor._live_book(), monitor._history, monitor._roster.groups
    arrays = {
        "bets": book.bets,
        "notes": book.notes,
        "shares": np.array([group.share for group in groups], dtype=np.float64),
        "clock": np.array([monitor._first_clock, monitor._last_clock, monitor._pooled_peak]),
        "history_rows": np.array(history.rows, dtype=np.int64),
        "history_clock": np.array(history.clock, dtype=np.float64),
        "history_figures": history.table(len(groups)),
        "history_known": np.array([len(figures) for figures in history.figures], dtype=np.int64),
    }
    settings = {
        "settings": monitor.settings.to_dict(),
        "rows": monitor.rows,
        "clock_kind": monitor._clock_kind,
        "shards": monitor._shards,
        "stride": history.stride,
        "groups": [[monitor.settings.columns.index(group.column), list(group.category)] for group in groups],
    }
    archive.write(path, KIND, VERSION, arrays, settings)


def load(cls: "type[Monitor]", path: "str | os.PathLike[str]") -> "Monitor":
    """Read a monitor's state, checking that its parts fit together."""
    arrays, plain = archive.read(path, KIND, VERSION)
    try:
        monitor = cls.__new__(cls)
        monitor._open(Settings.from_dict(plain["settings"]))
        for (position, category), share in zip(plain["groups"], arrays["shares"], strict=True):
            monitor._roster.admit([(position, tuple(category))], float(share))
        monitor.rows, monitor._clock_kind, monitor._shards = plain["rows"], plain["clock_kind"], plain["shards"]
        monitor._first_clock, monitor._last_clock, monitor._pooled_peak = map(float, arrays["clock"])
        cells = len(plain["groups"]) * monitor.settings.ranges.nodes
        if arrays["bets"].shape != (cells, FIELDS, LANES) or arrays["notes"].shape != (cells, NOTES):
            raise ValueError(f"arrays for {len(arrays['bets'])} cells, expected {cells}")
        monitor._make_room()
        monitor._book.bets[:cells] = arrays["bets"]
        monitor._book.notes[:cells] = arrays["notes"]
        monitor._history = _history(arrays, plain["stride"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise archive.ArchiveError(f"{path}: the parts of this monitor do not fit together ({error})") from None
    return monitor


def _history(arrays: "dict[str, NDArray[np.float64]]", stride: int) -> History:
    known = arrays["history_known"].tolist()
    figures = [table[:count] for table, count in zip(arrays["history_figures"], known, strict=True)]
    rows = [int(row) for row in arrays["history_rows"]]
    return History(stride, rows, arrays["history_clock"].tolist(), figures)
