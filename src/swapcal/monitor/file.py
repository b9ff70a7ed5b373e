"""What the file of a monitor holds, and the way there and back."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from swapcal import archive
from swapcal.archive.kind import LIST, OBJECT, TEXT, Arrays, Kind, floats, integers, optional, whole
from swapcal.archive.kind import Settings as Manifest
from swapcal.kernels.play import FIELDS, GAIN, LANES
from swapcal.kernels.wealth import NOTES
from swapcal.monitor.history import History
from swapcal.monitor.settings import Settings

if TYPE_CHECKING:
    from swapcal.monitor.monitor import Monitor

RULES = {
    "settings": OBJECT,
    "rows": whole(0),
    "clock_kind": optional(TEXT),
    "shards": whole(1),
    "stride": whole(1),
    "groups": LIST,
}
FIELDS_OF_FILE = {
    "bets": floats("cells", FIELDS, LANES, finite=False),
    "notes": floats("cells", NOTES, finite=False),
    "shares": floats("groups"),
    "clock": floats(3, finite=False),
    "history_rows": integers("entries"),
    "history_clock": floats("entries", finite=False),
    "history_figures": floats("entries", "groups", 2, finite=False),
    "history_known": integers("entries"),
}


def faults(arrays: Arrays, manifest: Manifest) -> Iterator[str]:
    """Yield which parts of a monitor do not fit together."""
    try:
        settings = Settings.from_dict(manifest["settings"])
        groups = [(int(position), tuple(map(str, category))) for position, category in manifest["groups"]]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        yield f"settings: given what is no monitor's ({error})"
        return
    cells = len(groups) * settings.ranges.nodes
    if len(arrays["bets"]) != cells or len(arrays["notes"]) != cells or len(arrays["shares"]) != len(groups):
        yield f"bets: given {len(arrays['bets'])} cells, expected {cells}: its parts do not fit together"
    if any(not 0 <= position < len(settings.columns) for position, _ in groups) or len(set(groups)) < len(groups):
        yield "groups: given a column that is not watched, or a category twice"
    if ((arrays["history_known"] < 0) | (arrays["history_known"] > len(groups))).any():
        yield "history_known: given more groups than there are"
    if (arrays["shares"] <= 0.0).any() or (arrays["bets"][:, GAIN] <= 0.0).any():
        yield "bets: given a share or a gain that is not positive, expected positive ones"


FILE = Kind("monitor", 1, RULES, lambda manifest: FIELDS_OF_FILE, faults)


def state_of(monitor: "Monitor") -> archive.State:
    """Return a monitor as arrays and a manifest."""
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
    return archive.State(arrays, settings)


def save(monitor: "Monitor", path: "str | os.PathLike[str]") -> None:
    """Write a monitor's state."""
    archive.write(path, FILE, *state_of(monitor))


def load(cls: "type[Monitor]", path: "str | os.PathLike[str]") -> "Monitor":
    """Read a monitor's state, checking that its parts fit together."""
    try:
        return restored(cls, archive.read(path, FILE))
    except archive.ArchiveError as error:
        raise archive.ArchiveError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None


def restored(cls: "type[Monitor]", state: archive.State) -> "Monitor":
    """Return the monitor that `state_of` described, checking that its parts fit together."""
    arrays, plain = state
    try:
        monitor = cls.__new__(cls)
        monitor._open(Settings.from_dict(plain["settings"]))
        for (position, category), share in zip(plain["groups"], arrays["shares"], strict=True):
            monitor._roster.admit([(position, tuple(category))], float(share))
        monitor.rows, monitor._clock_kind, monitor._shards = plain["rows"], plain["clock_kind"], plain["shards"]
        monitor._first_clock, monitor._last_clock, monitor._pooled_peak = map(float, arrays["clock"])
        cells = len(arrays["bets"])
        monitor._make_room()
        monitor._book.bets[:cells] = arrays["bets"]
        monitor._book.notes[:cells] = arrays["notes"]
        monitor._history = _history(arrays, plain["stride"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise archive.ArchiveError(f"the parts of this monitor do not fit together ({error})") from None
    return monitor


def _history(arrays: "dict[str, NDArray[np.float64]]", stride: int) -> History:
    known = arrays["history_known"].tolist()
    figures = [table[:count] for table, count in zip(arrays["history_figures"], known, strict=True)]
    rows = [int(row) for row in arrays["history_rows"]]
    return History(stride, rows, arrays["history_clock"].tolist(), figures)
