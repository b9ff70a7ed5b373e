"""`Keyed`: one `Live` fed by the rows of one key, a micro-batch at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from swapcal.adapters.spark.events import Events, Roles
from swapcal.arrays import Array
from swapcal.live import Live
from swapcal.live.learned import Learned

FORECAST, LEARNED, REFUSED = "forecast", "learned", "refused"
SHORT = 16  # rows that are sooner read one by one than as a frame

Issued = tuple[Array, Array, Array]
"""p, mean, and the outcomes that were learned at once"""


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

    def add(self, event: str, ids: list[Any], times: list[float], p: Array, mean: Array, y: Array) -> None:
        """Append forecasts, or outcomes that were learned."""
        self.id += ids
        self.time += times
        self.event += [event] * len(ids)
        self.p += p.tolist()
        self.mean += mean.tolist()
        self.y += y.tolist()
        self.note += [None] * len(ids)

    def refuse(self, id: Any, time: float, note: str) -> None:
        """Append a row that was refused."""
        nothing = np.full(1, np.nan)
        self.add(REFUSED, [id], [time], nothing, nothing, nothing)
        self.note[-1] = note

    def frame(self) -> pd.DataFrame:
        """Return them as a data frame."""
        numbers = {"time", "p", "mean", "y"}
        types = {name: np.float64 if name in numbers else object for name in vars(self)}
        return pd.DataFrame({name: pd.Series(column, dtype=types[name]) for name, column in vars(self).items()})


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
        events, answers = Events(rows, self.roles), Answers()
        for run in self._runs(events):
            self._answer(answers, events, *run)
        return answers.frame()

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

    def _answer(self, answers: Answers, events: Events, kind: str, a: int, b: int) -> None:
        """Play a run at once or, if a row of it is refused, one by one, which comes to the same."""
        try:
            self._play(answers, events, kind, a, b)
        except (TypeError, ValueError) as error:
            if b - a == 1:
                note = str(error).replace("row 1: ", "").replace(" in row 1", "")  # it is the only one
                answers.refuse(events.ids[a], float(events.times[a]), note)
                return
            for k in range(a, b):
                self._answer(answers, events, kind, k, k + 1)

    def _play(self, answers: Answers, events: Events, kind: str, a: int, b: int) -> None:
        clock = np.maximum(np.maximum.accumulate(events.times[a:b]), self.clock)  # a late row counts as of now
        self._told.clear()
        issued: Issued | None = getattr(self, kind)(events, a, b, clock)
        self.clock = float(clock[-1])
        ids, times = events.ids[a:b], events.times[a:b].tolist()
        self._tell(answers, ids, times, kind)
        if issued is not None:
            answers.add(FORECAST, ids, times, *issued)

    def _tell(self, answers: Answers, ids: list[Any], times: list[float], kind: str) -> None:
        """Answer what was learned: labels of this run, or ones that had been held until now."""
        if not self._told:
            return
        own = dict(zip(ids, times, strict=True)) if kind == "_label" else {}
        silent = set(ids) if kind == "_run" else set[Any]()
        for told in self._told:
            new = [k for k, id in enumerate(told.ids) if id not in silent]
            names = [told.ids[k] for k in new]
            answers.add(LEARNED, names, [own.get(id, np.nan) for id in names], told.p[new], told.mean[new], told.y[new])

    def _forecast(self, events: Events, a: int, b: int, clock: Array) -> Issued:
        ids, matures = events.ids[a:b], _matures(events, a, b, clock)
        found = self.live.forecast_many(events.mappings[a:b], ids, time=clock, matures=matures)
        return np.asarray(found.p), np.asarray(found.mean), np.full(b - a, np.nan)

    def _run(self, events: Events, a: int, b: int, clock: Array) -> Issued:
        ids, y = events.ids[a:b], events.y[a:b]
        records = events.records.iloc[a:b] if b - a > SHORT else events.mappings[a:b]
        found = self.live.run(records, y, ids=ids, time=clock, matures=_matures(events, a, b, clock))
        held = [self.live.is_open(id) for id in ids] if self.live.status().open else False
        return np.asarray(found.p), np.asarray(found.mean), np.where(held, np.nan, y)

    def _label(self, events: Events, a: int, b: int, clock: Array) -> None:
        self.live.label_many(events.ids[a:b], events.y[a:b], time=clock)

    def _refuse(self, events: Events, a: int, b: int, clock: Array) -> None:
        raise ValueError(f"column {self.roles.id!r} or time: given nothing, expected both")


def _matures(events: Events, a: int, b: int, clock: Array) -> Array | None:
    return None if events.matures is None else np.maximum(events.matures[a:b], clock)
