"""`Keyed`: one `Live` fed by the rows of one key, a micro-batch at a time."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from swapcal.adapters.spark.events import Events, Roles
from swapcal.arrays import Array
from swapcal.live import Live
from swapcal.live.learned import Learned

FORECAST, LEARNED, REFUSED = "forecast", "learned", "refused"
SHORT = 16  # rows that are sooner read one by one than as a frame


class Answer(NamedTuple):
    """One row of the answer: a forecast, an outcome that was learned, or a row that was refused."""

    id: Any
    time: float
    event: str
    p: float = np.nan
    mean: float = np.nan
    y: float = np.nan
    note: str | None = None


class Keyed:
    """Feeds a `Live`: in each batch rows go in order of time, at one time forecasts before outcomes, then by id.

    A row without an outcome asks for a forecast. A row with one is the label of its id, if that was forecast; else, if
    it has any feature, it is forecast and then labelled. A row that is refused changes nothing, and says why.
    """

    def __init__(self, live: Live, clock: float, roles: Roles) -> None:
        self.live, self.clock, self.roles = live, clock, roles
        self._told: list[Learned] = []
        live.watch(self._told.append)

    def play(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the answers to a batch, in order."""
        events = Events(rows, self.roles)
        answers = [answer for run in self._runs(events) for answer in self._answers(events, *run)]
        columns = [*zip(*answers, strict=True)] or [()] * len(Answer._fields)
        texts = {"id", "event", "note"}
        return pd.DataFrame(
            {
                name: pd.Series(list(column), dtype=object if name in texts else np.float64)
                for name, column in zip(Answer._fields, columns, strict=True)
            }
        )

    def _runs(self, events: Events) -> "Iterator[tuple[str, int, int]]":
        """Cut the rows where what is asked for changes; each run is played before the next is looked at."""
        lost = np.isnan(events.times).tolist()
        unlabelled = np.isnan(events.y).tolist()
        bare = events.records.isna().all(axis=1).tolist()
        start, kind, pending = 0, "", set[Any]()
        for k, id in enumerate(events.ids):
            if id in pending:  # what is asked of it hangs on what became of it
                yield kind, start, k
                start, kind, pending = k, "", set()
            if id is None or lost[k]:
                asked = "_refuse"
            elif unlabelled[k]:
                asked = "_forecast"
            else:
                asked = "_label" if bare[k] or self.live.knows(id) else "_run"
            if asked != kind and start < k:
                yield kind, start, k
                start, pending = k, set()
            kind = asked
            pending.add(id)
        if kind:
            yield kind, start, len(events)

    def _answers(self, events: Events, kind: str, a: int, b: int) -> Iterable[Answer]:
        """Play a run at once or, if a row of it is refused, one by one, which comes to the same."""
        try:
            return self._played(events, kind, a, b)
        except (TypeError, ValueError) as error:
            if b - a == 1:
                note = str(error).replace("row 1: ", "").replace(" in row 1", "")  # it is the only one
                return [Answer(events.ids[a], float(events.times[a]), REFUSED, note=note)]
        return [answer for k in range(a, b) for answer in self._answers(events, kind, k, k + 1)]

    def _played(self, events: Events, kind: str, a: int, b: int) -> list[Answer]:
        clock = np.maximum(np.maximum.accumulate(events.times[a:b]), self.clock)  # a late row counts as of now
        self._told.clear()
        answers: list[Answer] = getattr(self, kind)(events, a, b, clock)
        self.clock = float(clock[-1])
        return [*self._learned(events, kind, a, b), *answers] if self._told else answers

    def _learned(self, events: Events, kind: str, a: int, b: int) -> list[Answer]:
        """Return what was learned: labels of this run, or ones that had been held until now."""
        ids = events.ids[a:b]
        own = dict(zip(ids, events.times[a:b].tolist(), strict=True)) if kind == "_label" else {}
        silent = set(ids) if kind == "_run" else set[Any]()
        return [
            Answer(id, own.get(id, np.nan), LEARNED, p, mean, y)
            for told in self._told
            for id, p, mean, y in zip(told.ids, told.p.tolist(), told.mean.tolist(), told.y.tolist(), strict=True)
            if id not in silent
        ]

    def _forecast(self, events: Events, a: int, b: int, clock: Array) -> list[Answer]:
        ids, matures = events.ids[a:b], _matures(events, a, b, clock)
        found = self.live.forecast_many(events.mappings[a:b], ids, time=clock, matures=matures)
        return _issued(events, a, b, found, np.full(b - a, np.nan))

    def _run(self, events: Events, a: int, b: int, clock: Array) -> list[Answer]:
        ids, y = events.ids[a:b], events.y[a:b]
        records = events.records.iloc[a:b] if b - a > SHORT else events.mappings[a:b]
        found = self.live.run(records, y, ids=ids, time=clock, matures=_matures(events, a, b, clock))
        held = [self.live.is_open(id) for id in ids] if self.live.status().open else False
        return _issued(events, a, b, found, np.where(held, np.nan, y))

    def _label(self, events: Events, a: int, b: int, clock: Array) -> list[Answer]:
        self.live.label_many(events.ids[a:b], events.y[a:b], time=clock)
        return []

    def _refuse(self, events: Events, a: int, b: int, clock: Array) -> list[Answer]:
        raise ValueError(f"column {self.roles.id!r} or time: given nothing, expected both")


def _issued(events: Events, a: int, b: int, found: Any, y: Array) -> list[Answer]:
    columns = events.times[a:b].tolist(), [FORECAST] * (b - a), found.p.tolist(), found.mean.tolist(), y.tolist()
    return [*map(Answer, events.ids[a:b], *columns)]


def _matures(events: Events, a: int, b: int, clock: Array) -> Array | None:
    return None if events.matures is None else np.maximum(events.matures[a:b], clock)
