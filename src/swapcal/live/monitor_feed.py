"""`MonitorFeed`: a monitor that receives the labels learned, and the watched columns of open forecasts."""

import copy
import io
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import numpy as np

from swapcal.archive import ArchiveError, State, copied, pack, unpack
from swapcal.arrays import Array
from swapcal.live.validation import in_json
from swapcal.monitor import Monitor
from swapcal.monitor.alarms import ROW_NUMBERS
from swapcal.monitor.state import FILE
from swapcal.tables.frame import columns_of
from swapcal.tables.values import Categories, factorise, text_of

Values = tuple[str | None, ...]
"""One record's watched columns, as text; None where nothing is given."""


def enter(
    monitor: Monitor,
    values: Sequence[Sequence[Any]],
    mean: Array,
    y: Array,
    clock: Any = None,
    weights: Array | None = None,
) -> None:
    """Enter rows as they are learned: their watched columns, mean forecasts, labels and weights.

    Rows of clusters are entered one by one: each cluster bets with the first of its rows that is learned.
    """
    wanted = monitor.columns()
    if len(values) > 1 and monitor.settings.clusters is not None:
        for k, row in enumerate(values):
            own = (None if column is None else column[k : k + 1] for column in (clock, weights))
            enter(monitor, [row], mean[k : k + 1], y[k : k + 1], *own)
    elif len(values) == 1:
        record = dict(zip(wanted, values[0], strict=True))
        monitor.add(record, float(mean[0]), float(y[0]), None if clock is None else clock[0], weights=weights)
    elif values:
        monitor.add([dict(zip(wanted, row, strict=True)) for row in values], mean, y, clock, weights=weights)


def counting_rows(monitor: Monitor) -> Monitor:
    """Return `monitor`. Raises TypeError unless it is a Monitor, ValueError if its rows have times already."""
    if not isinstance(monitor, Monitor):
        raise TypeError(f"monitor: given {type(monitor).__name__}, expected a Monitor")
    if monitor.clock_kind not in (None, ROW_NUMBERS):
        raise ValueError(
            f"monitor: given one whose clock is {monitor.clock_kind}, expected a fresh one, or one that counts rows"
        )
    return monitor


class MonitorFeed:
    """Feeds a monitor in the order in which labels are learned: by maturity, if there is one.

    The monitor counts rows, so many at once give the same as one by one, unless the caller sets the time.
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.time: np.datetime64 | None = None
        """when the next labels are learned by the caller's clock; None counts rows"""
        self.opened: dict[int, Values] = {}
        """watched columns of open forecasts, by slot"""
        self._frozen: State | None = None

    def values(self, records: Any, declared: Collection[str] = ()) -> list[Values]:
        """Return every record's watched columns. Raises for values that are no category, and for absent columns.

        `Contexts` checks absent columns that are `declared`.
        """
        wanted = self.monitor.columns()
        if not wanted:
            return [()] * len(records)
        columns: Mapping[str, Categories]
        if isinstance(records, list | tuple):
            needed = [name for name in wanted if name not in declared]
            for row, record in enumerate(records if needed else ()):
                absent = next((name for name in needed if name not in record), None)
                if absent is not None:
                    raise ValueError(f"monitor: given no column {absent!r} in row {row + 1}, expected it in each")
            columns = {name: factorise(name, [record.get(name) for record in records]) for name in wanted}
        else:
            columns = _of_frame(records, wanted)
        self._refuse_missing_clusters(columns)
        self.monitor.settings.refuse_words({name: columns[name].values for name in wanted})
        texts = [[None if value is None else text_of(value) for value in columns[name].values] for name in wanted]
        codes = [columns[name].codes.tolist() for name in wanted]
        return [tuple(text[k] for text, k in zip(texts, row, strict=True)) for row in zip(*codes, strict=True)]

    def _refuse_missing_clusters(self, columns: Mapping[str, Categories]) -> None:
        clusters = self.monitor.settings.clusters
        if clusters is None:
            return
        missing = [code for code, value in enumerate(columns[clusters].values) if value is None]
        rows = np.flatnonzero(np.isin(columns[clusters].codes, missing))
        if rows.size:
            row = rows[0] + 1
            raise ValueError(f"monitor: given no {clusters!r} in row {row}, expected the cluster of every record")

    def learn(self, slots: Sequence[int], mean: Array, y: Array, weights: Array | None = None) -> None:
        """Enter the labels of forecasts that were open."""
        self.enter([self.opened.pop(slot) for slot in slots], mean, y, weights)

    def enter(self, values: Sequence[Values], mean: Array, y: Array, weights: Array | None = None) -> None:
        """Enter rows as they are learned."""
        clock = None if self.time is None else np.full(len(values), self.time)
        enter(self.monitor, values, mean, y, clock, weights)

    def refuse_weights(self, weights: Array) -> None:
        """Raise ValueError if a label's weight is invalid for the monitor."""
        most = self.monitor.settings.max_weight
        bad = weights[~((weights >= 1.0) & (weights <= most))]
        if bad.size:
            raise ValueError(
                f"weight: given {bad[0]:g} where a monitor is fed, expected one over the probability of obtaining the "
                f"label, from 1 to its max_weight = {most:g}"
            )

    def frozen(self) -> "MonitorFeed":
        """Return a copy with all that `to_state` needs."""
        still = copy.copy(self)
        still._frozen = copied(self.monitor.to_state())
        still.opened = self.opened.copy()
        return still

    def to_state(self, slots: Sequence[int]) -> State:
        """Return the monitor, and the watched columns of the forecasts open in these slots."""
        out = io.BytesIO()
        pack(out, FILE.name, FILE.version, *(self._frozen or self.monitor.to_state()))
        rows = in_json([self.opened[slot] for slot in slots])
        parts = {"state": out.getvalue(), "rows": rows}
        return State({name: np.frombuffer(content, np.uint8) for name, content in parts.items()}, {})

    @classmethod
    def from_state(cls, state: State, slots: Sequence[int]) -> Self:
        """Rebuild from `to_state`, the slots being those of the same forecasts."""
        monitor_feed = cls(Monitor.from_state(unpack(io.BytesIO(state.arrays["state"].tobytes()), FILE)))
        rows, width = _rows(state.arrays["rows"].tobytes()), len(monitor_feed.monitor.columns())
        if len(rows) != len(slots) or any(len(row) != width for row in rows):
            raise ArchiveError("monitor: given rows of other forecasts, expected those of the open ones")
        monitor_feed.opened = dict(zip(slots, rows, strict=True))
        return monitor_feed


def _of_frame(records: Any, wanted: Sequence[str]) -> Mapping[str, Categories]:
    columns, _ = columns_of(records)
    categories = {}
    for name in wanted:
        if name not in columns:
            raise ValueError(f"monitor: given no column {name!r}, expected it in the records")
        given = columns[name]
        categories[name] = factorise(name, given.tolist()) if isinstance(given, np.ndarray) else given
    return categories


def _rows(content: bytes) -> list[Values]:
    try:
        rows = [tuple(row) for row in json.loads(content)]
    except (ValueError, TypeError, RecursionError):
        raise ArchiveError(
            "monitor: given rows that are no JSON, expected the watched columns of open forecasts"
        ) from None
    if not all(value is None or isinstance(value, str) for row in rows for value in row):
        raise ArchiveError("monitor: given rows that hold no text, expected the watched columns of open forecasts")
    return rows
