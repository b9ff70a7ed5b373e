"""What the file of a monitor holds, and the way there and back."""

import os
from collections.abc import Iterator

import numpy as np

from swapcal import archive
from swapcal.archive.kind import LIST, OBJECT, TEXT, Arrays, Kind, floats, integers, optional, whole
from swapcal.archive.kind import Settings as Manifest
from swapcal.kernels.play import FIELDS, GAIN, LANES
from swapcal.kernels.wealth import NOTES
from swapcal.monitor.bets import Bets
from swapcal.monitor.history import History
from swapcal.monitor.settings import MonitorSettings

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
        settings = MonitorSettings.from_dict(manifest["settings"])
        groups = [(int(position), tuple(map(str, category))) for position, category in manifest["groups"]]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        yield f"settings: given what is refused ({error}), expected a monitor's"
        return
    cells = len(groups) * settings.ranges.nodes
    if len(arrays["bets"]) != cells or len(arrays["notes"]) != cells or len(arrays["shares"]) != len(groups):
        yield f"bets: given {len(arrays['bets'])} cells, expected {cells}: its parts do not fit together"
    if any(not 0 <= position < len(settings.columns) for position, _ in groups) or len(set(groups)) < len(groups):
        yield "groups: given a column that is not watched, or a category twice, expected each watched one once"
    if ((arrays["history_known"] < 0) | (arrays["history_known"] > len(groups))).any():
        yield "history_known: given more groups than there are, expected no more"
    if (arrays["shares"] <= 0.0).any() or (arrays["bets"][:, GAIN] <= 0.0).any():
        yield "bets: given a share or a gain that is not positive, expected positive ones"


FILE = Kind("monitor", 1, RULES, lambda manifest: FIELDS_OF_FILE, faults)


def state_of(bets: Bets) -> archive.State:
    """Return a monitor as arrays and a manifest."""
    book, history, groups = bets.live_book(), bets.history, bets.roster.groups
    arrays = {
        "bets": book.bets,
        "notes": book.notes,
        "shares": np.array([group.share for group in groups], dtype=np.float64),
        "clock": np.array([bets.first_clock, bets.last_clock, bets.pooled_peak]),
        "history_rows": np.array(history.rows, dtype=np.int64),
        "history_clock": np.array(history.clock, dtype=np.float64),
        "history_figures": history.table(len(groups)),
        "history_known": np.array([len(figures) for figures in history.figures], dtype=np.int64),
    }
    settings = {
        "settings": bets.settings.to_dict(),
        "rows": bets.rows,
        "clock_kind": bets.clock_kind,
        "shards": bets.shards,
        "stride": history.stride,
        "groups": [[bets.settings.columns.index(group.column), list(group.category)] for group in groups],
    }
    return archive.State(arrays, settings)


def load(path: "str | os.PathLike[str]") -> Bets:
    """Read a monitor's state, checking that its parts fit together."""
    try:
        return bets_of(archive.read(path, FILE))
    except archive.ArchiveError as error:
        raise archive.ArchiveError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None


def bets_of(state: archive.State) -> Bets:
    """Return what `state_of` described, checking that its parts fit together."""
    arrays, plain = state
    try:
        bets = Bets(MonitorSettings.from_dict(plain["settings"]))
        for (position, category), share in zip(plain["groups"], arrays["shares"], strict=True):
            bets.roster.admit([(position, tuple(category))], float(share))
        bets.rows, bets.clock_kind, bets.shards = plain["rows"], plain["clock_kind"], plain["shards"]
        bets.first_clock, bets.last_clock, bets.pooled_peak = map(float, arrays["clock"])
        cells = len(arrays["bets"])
        bets.make_room()
        bets.book.bets[:cells] = arrays["bets"]
        bets.book.notes[:cells] = arrays["notes"]
        bets.history = _history(arrays, plain["stride"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise archive.ArchiveError(
            f"given parts of a monitor that do not fit together ({error}), expected those saved together"
        ) from None
    return bets


def _history(arrays: Arrays, stride: int) -> History:
    known = arrays["history_known"].tolist()
    figures = [table[:count] for table, count in zip(arrays["history_figures"], known, strict=True)]
    rows = [int(row) for row in arrays["history_rows"]]
    return History(stride, rows, arrays["history_clock"].tolist(), figures)
