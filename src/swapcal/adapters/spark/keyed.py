"""One `Live` fed by the rows of one key, a micro-batch at a time."""

import json
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from swapcal.arrays import Array, Flags
from swapcal.live import Live
from swapcal.live.scheduler import Learned

# `Events`: the rows of one key in one micro-batch, in the order of processing.

TIME, MATURES = "__time", "__matures"
"""Columns: the time of a row, and the time by which its label is known whatever its value."""


class EventRoles(NamedTuple):
    """Roles of the columns."""

    id: str
    target: str
    features: tuple[str, ...]
    matures: bool
    numbered: bool
    """whether ids are integers; they come as texts, because pandas turns integers with missing values into floats"""


MANNER = b"swapcal"
"""Key in Arrow's metadata of the rules by which rows are processed."""

MANY = 1024
"""From this many rows on, reading a table is faster than reading single records."""

STATUS = 100
"""Rows that can be asked about one by one in the time of one status of a `Live`."""

Columns = dict[str, list[Any]]
"""The rows of a micro-batch: floats with NaN if missing, other values with None if missing."""


def columns_of(rows: pd.DataFrame, names: list[str]) -> Columns:
    """Return the columns of a frame, under these names, as lists."""
    return {name: _values(column) for name, (_, column) in zip(names, rows.items(), strict=True)}


class Manner(NamedTuple):
    """How rows are processed: a restarted query may have other columns, but must replay old rows by the old rules."""

    roles: EventRoles
    remember: bool
    """whether settled ids are kept"""


def packed(columns: Columns, manner: Manner) -> bytes:
    """Return columns, and the rules of their processing, as bytes; the inverse of `unpacked`."""
    arrays = [*map(pa.array, columns.values())]
    batch = pa.RecordBatch.from_arrays(arrays, names=[*columns], metadata={MANNER: json.dumps(manner)})
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = out.getvalue().to_pybytes()
    return content


def unpacked(content: bytes) -> tuple[Columns, Manner]:
    """Return what `packed` packed."""
    table = pa.ipc.open_stream(content).read_all()
    (id, target, features, *others), remember = json.loads(table.schema.metadata[MANNER])
    return table.to_pydict(), Manner(EventRoles(id, target, tuple(features), *others), remember)


class Events:
    """The rows in order of time, at equal times those without an outcome first, then by id."""

    def __init__(self, columns: Columns, roles: EventRoles) -> None:
        times, y = columns[TIME], columns[roles.target]
        ids = [id if id is None or not roles.numbered else int(id) for id in columns[roles.id]]
        named = [*zip(times, (label == label for label in y), ids, range(len(ids)), strict=True)]
        self.lost = [(id, time) for time, _, id, _ in named if id is None or time != time]
        """(id or None, time or NaN) of rows that lack either, and are not processed further"""
        kept = sorted(event for event in named if event[2] is not None and event[0] == event[0])
        order = [k for *_, k in kept]
        self.ids: list[Any] = [id for *_, id, _ in kept]
        self.labelled: list[bool] = [labelled for _, labelled, *_ in kept]
        self.times: Array = np.array([time for time, *_ in kept])
        self.y: Array = np.array([y[k] for k in order], np.float64)
        self._matures = np.array([columns[MATURES][k] for k in order]) if roles.matures else None
        self._order, self._records = order, {name: columns[name] for name in roles.features}

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def mappings(self) -> list[dict[str, Any]]:
        """The records one by one."""
        names = [*self._records]
        records = [dict(zip(names, values, strict=True)) for values in zip(*self._records.values(), strict=True)]
        return [records[k] for k in self._order] if names else [{} for _ in self._order]

    def records(self, rows: slice) -> Any:
        """Return the records of some rows, many of them as a table."""
        if rows.stop - rows.start < MANY:
            return self.mappings[rows]
        return pa.table(self._records).take(self._order[rows])

    def is_bare(self, row: int) -> bool:
        """Return whether a row has no feature."""
        return all(value is None or value != value for value in self.mappings[row].values())

    def matures(self, rows: slice, clock: Array) -> Array | None:
        """Return the maturity of some rows, which is not before their time."""
        return None if self._matures is None else np.maximum(self._matures[rows], clock)


def _values(column: "pd.Series[Any]") -> list[Any]:
    values = column.tolist()
    return values if column.dtype.kind in "biuf" else [None if value != value else value for value in values]


# `Keyed`: one `Live` fed by the rows of one key, a micro-batch at a time.

FORECAST, LEARNED, REFUSED = "forecast", "learned", "refused"
NUMBERS = ("time", "p", "mean", "y")


class Answers:
    """Rows of the answer, kept as columns: forecasts, outcomes that were learned, and rows that were refused."""

    def __init__(self) -> None:
        self.id: list[Any] = []
        self.time: list[float] = []
        self.event: list[str] = []
        self.p: list[float] = []
        self.mean: list[float] = []
        self.y: list[float] = []
        self.note: list[str | None] = []

    def add(self, event: str, ids: list[Any], times: list[float], p: Any, mean: Any, y: Array) -> None:
        """Append forecasts, or outcomes that were learned."""
        self.id += ids
        self.time += times
        self.event += [event] * len(ids)
        self.p += np.asarray(p).tolist()
        self.mean += np.asarray(mean).tolist()
        self.y += y.tolist()
        self.note += [None] * len(ids)

    def refuse(self, id: Any, time: float, note: str) -> None:
        """Append a row that was refused."""
        nothing = np.full(1, np.nan)
        self.add(REFUSED, [id], [time], nothing, nothing, nothing)
        self.note[-1] = note

    def extend(self, other: "Answers") -> None:
        """Append other answers."""
        for name, values in vars(other).items():
            getattr(self, name).extend(values)

    def frame(self, columns: Mapping[str, Any], names: Mapping[str, str]) -> pd.DataFrame:
        """Return them as a data frame after other columns, with some of their own renamed."""
        columns = {name: np.array(values, object) for name, values in columns.items()}
        for name, values in vars(self).items():
            columns[names.get(name, name)] = np.array(values, np.float64 if name in NUMBERS else object)
        return pd.DataFrame(columns, copy=False)


class Keyed:
    """Feeds a `Live`: each batch is sorted by time, at equal times forecasts before outcomes, then by id.

    A row without an outcome is forecast. A row with one is the label of its id, if that was forecast; otherwise, if
    it has any feature, it is forecast and then labelled. A refused row changes nothing; its note gives the reason.
    """

    def __init__(self, live: Live, clock: float, roles: EventRoles) -> None:
        self.live, self.clock, self.roles = live, clock, roles
        self._learned: list[Learned] = []
        live.watch(self._learned.append)

    def play(self, rows: Columns) -> Answers:
        """Return the answers to a batch."""
        events, answers = Events(rows, self.roles), Answers()
        if len(events):
            self._answer(answers, events, 0, len(events))
        for id, time in events.lost:
            answers.refuse(id, time, f"column {self.roles.id!r} or time: given nothing, expected both")
        return answers

    def _answer(self, answers: Answers, events: Events, a: int, b: int) -> None:
        """Process rows together or, if one of them is refused, in halves, with the same result."""
        try:
            self._play(answers, events, slice(a, b))
        except (TypeError, ValueError) as error:
            if b - a == 1:
                note = str(error).replace("row 1: ", "").replace(" in row 1", "")  # it is the only one
                answers.refuse(events.ids[a], float(events.times[a]), note)
            else:
                middle = (a + b) // 2
                self._answer(answers, events, a, middle)
                self._answer(answers, events, middle, b)

    def _play(self, answers: Answers, events: Events, rows: slice) -> None:
        requests = self._methods(events, rows)
        clock = np.maximum(np.maximum.accumulate(events.times[rows]), self.clock)  # a late row counts as of now
        self._learned.clear()
        if len({*requests}) == 1:
            getattr(self, requests[0])(answers, events, rows, clock)
        else:
            self._follow(answers, events, rows, clock, np.array([kind != "_label" for kind in requests]))
        self.clock = float(clock[-1])

    def _methods(self, events: Events, rows: slice) -> list[str]:
        """Return the name of the method for each row, assuming that the rows before it succeed."""
        requests, forecast, knows = list[str](), set[Any](), self.live.knows
        for k, (id, labelled) in enumerate(zip(events.ids[rows], events.labelled[rows], strict=True), rows.start):
            if labelled and (id in forecast or knows(id) or events.is_bare(k)):
                requests.append("_label")
            else:
                requests.append("_run" if labelled else "_forecast")
                forecast.add(id)
        return requests

    def _forecast(self, answers: Answers, events: Events, rows: slice, clock: Array) -> None:
        ids, times = events.ids[rows], events.times[rows].tolist()
        forecasts = self.live.forecast_many(events.mappings[rows], ids, time=clock, matures=events.matures(rows, clock))
        self._add_learned(answers, {})
        answers.add(FORECAST, ids, times, forecasts.p, forecasts.mean, np.full(len(ids), np.nan))

    def _run(self, answers: Answers, events: Events, rows: slice, clock: Array) -> None:
        ids, times, y = events.ids[rows], events.times[rows].tolist(), events.y[rows]
        forecasts = self.live.run(events.records(rows), y, ids=ids, time=clock, matures=events.matures(rows, clock))
        self._add_learned(answers, {}, {*ids})
        answers.add(FORECAST, ids, times, forecasts.p, forecasts.mean, self._at_once(ids, y))

    def _label(self, answers: Answers, events: Events, rows: slice, clock: Array) -> None:
        ids, times = events.ids[rows], events.times[rows].tolist()
        self.live.label_many(ids, events.y[rows], time=clock)
        self._add_learned(answers, dict(zip(ids, times, strict=True)))

    def _follow(self, answers: Answers, events: Events, rows: slice, clock: Array, asks: Flags) -> None:
        ids, times, y = np.array(events.ids[rows], object), events.times[rows], events.y[rows]
        records = [events.mappings[k] for k in (rows.start + np.flatnonzero(asks)).tolist()]
        forecasts, outcomes = self.live.follow(
            records, ids.tolist(), y, asks, time=clock, matures=events.matures(rows, clock)
        )
        came = dict(zip(ids[~asks].tolist(), zip(times[~asks].tolist(), outcomes, strict=True), strict=True))
        own = {id: time for id, (time, outcome) in came.items() if outcome == LEARNED}
        names = ids[asks].tolist()
        at_once = {id for id, label in zip(names, y[asks].tolist(), strict=True) if label == label}
        self._add_learned(answers, own, at_once)
        for id, (time, outcome) in came.items():
            if outcome == REFUSED:
                answers.refuse(id, time, f"label: given id {id!r}, whose forecast has expired, expected an open one")
        answers.add(FORECAST, names, times[asks].tolist(), forecasts.p, forecasts.mean, self._at_once(names, y[asks]))

    def _at_once(self, ids: list[Any], y: Array) -> Array:
        """Return the outcomes that came with their records, except held ones."""
        few = len(ids) < STATUS
        held = [self.live.is_open(id) for id in ids] if few or self.live.status().open else False
        return np.where(held, np.nan, y)

    def _add_learned(self, answers: Answers, own: Mapping[Any, float], silent: Collection[Any] = ()) -> None:
        """Append what was learned: labels of this batch, at their times, or ones that were held until now."""
        for learned in self._learned:
            new = [k for k, id in enumerate(learned.ids) if id not in silent]
            names, p, mean, y = [learned.ids[k] for k in new], learned.p[new], learned.mean[new], learned.y[new]
            answers.add(LEARNED, names, [own.get(id, np.nan) for id in names], p, mean, y)
