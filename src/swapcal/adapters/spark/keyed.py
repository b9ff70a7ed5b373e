"""`Keyed`: one `Live` fed by the rows of one key, a micro-batch at a time."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from swapcal.arrays import Array
from swapcal.live import Live
from swapcal.live.ids import Id
from swapcal.live.learned import Learned

FORECAST, LEARNED, REFUSED = "forecast", "learned", "refused"
TIME, MATURES, LABELLED = "__time", "__matures", "__labelled"
"""Columns: when a row happens, when its label would be known whatever it is, and whether it has one."""


class Roles(NamedTuple):
    """Which column holds what."""

    id: str
    target: str
    features: tuple[str, ...]
    matures: bool
    numbered: bool
    """whether ids are integers; they come as texts, because pandas would make floats of integers beside nothing"""


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
        answers = [answer for run in self._runs(self._in_order(rows)) for answer in self._answers(*run)]
        ids = pd.Series([answer.id for answer in answers], dtype=object)
        return pd.DataFrame(answers, columns=list(Answer._fields)).assign(id=ids)

    def _in_order(self, rows: pd.DataFrame) -> pd.DataFrame:
        read = int if self.roles.numbered else str
        ids = [None if pd.isna(text) else read(text) for text in rows[self.roles.id]]
        known = {LABELLED: rows[self.roles.target].notna(), self.roles.id: pd.Series(ids, rows.index, object)}
        order = [TIME, LABELLED, self.roles.id]
        return rows.assign(**known).sort_values(order, kind="stable", ignore_index=True)

    def _runs(self, rows: pd.DataFrame) -> "Iterator[tuple[str, pd.DataFrame]]":
        """Cut the rows where what is asked for changes; each run is played before the next is looked at."""
        ids, times = rows[self.roles.id].tolist(), rows[TIME].tolist()
        labelled = rows[LABELLED].tolist()
        bare = rows[list(self.roles.features)].isna().all(axis=1).tolist()
        start, kind, pending = 0, "", set[Any]()
        for k, id in enumerate(ids):
            if id in pending:  # what is asked of it hangs on what became of it
                yield kind, rows.iloc[start:k]
                start, kind, pending = k, "", set()
            asked = self._kind(id, times[k], labelled[k], bare[k])
            if asked != kind and start < k:
                yield kind, rows.iloc[start:k]
                start, pending = k, set()
            kind = asked
            pending.add(id)
        if ids:
            yield kind, rows.iloc[start:]

    def _kind(self, id: Any, time: float, labelled: bool, bare: bool) -> str:
        if pd.isna(id) or np.isnan(time):
            return "_refuse"
        if not labelled:
            return "_forecast"
        return "_label" if bare or self.live.knows(id) else "_run"

    def _answers(self, kind: str, rows: pd.DataFrame) -> list[Answer]:
        """Play a run at once or, if a row of it is refused, one by one, which comes to the same."""
        try:
            return self._played(kind, rows)
        except (TypeError, ValueError) as error:
            if len(rows) == 1:
                note = str(error).replace("row 1: ", "").replace(" in row 1", "")  # it is the only one
                return [Answer(rows[self.roles.id].iloc[0], rows[TIME].iloc[0], REFUSED, note=note)]
        return [answer for k in range(len(rows)) for answer in self._answers(kind, rows.iloc[k : k + 1])]

    def _played(self, kind: str, rows: pd.DataFrame) -> list[Answer]:
        ids, times = rows[self.roles.id].tolist(), rows[TIME].to_numpy(np.float64)
        clock = np.maximum(np.maximum.accumulate(times), self.clock)  # a late row counts as of now
        self._told.clear()
        answers: list[Answer] = getattr(self, kind)(rows, ids, clock)
        self.clock = float(clock[-1])
        return [*self._learned(ids, times, kind), *answers]

    def _learned(self, ids: "list[Id]", times: Array, kind: str) -> list[Answer]:
        """Return what was learned: labels of this run, or ones that had been held until now."""
        own = dict(zip(ids, times.tolist(), strict=True)) if kind == "_label" else {}
        silent = set(ids) if kind == "_run" else set[Id]()
        return [
            Answer(id, own.get(id, np.nan), LEARNED, p, mean, y)
            for told in self._told
            for id, p, mean, y in zip(told.ids, told.p.tolist(), told.mean.tolist(), told.y.tolist(), strict=True)
            if id not in silent
        ]

    def _forecast(self, rows: pd.DataFrame, ids: "list[Id]", clock: Array) -> list[Answer]:
        found = self.live.forecast_many(self._records(rows), ids, time=clock, matures=self._matures(rows, clock))
        return self._issued(rows, ids, found.p, found.mean, np.full(len(ids), np.nan))

    def _run(self, rows: pd.DataFrame, ids: "list[Id]", clock: Array) -> list[Answer]:
        y = rows[self.roles.target].to_numpy(np.float64)
        found = self.live.run(self._records(rows), y, ids=ids, time=clock, matures=self._matures(rows, clock))
        held = np.array([self.live.is_open(id) for id in ids], bool)
        return self._issued(rows, ids, found.p, found.mean, np.where(held, np.nan, y))

    def _label(self, rows: pd.DataFrame, ids: "list[Id]", clock: Array) -> list[Answer]:
        self.live.label_many(ids, rows[self.roles.target].to_numpy(np.float64), time=clock)
        return []

    def _refuse(self, rows: pd.DataFrame, ids: "list[Id]", clock: Array) -> list[Answer]:
        raise ValueError(f"column {self.roles.id!r} or time: given nothing, expected both")

    def _issued(self, rows: pd.DataFrame, ids: Sequence[Id], p: Any, mean: Any, y: Array) -> list[Answer]:
        times = rows[TIME].tolist()
        return [
            Answer(id, time, FORECAST, *each)
            for id, time, *each in zip(ids, times, p.tolist(), mean.tolist(), y.tolist(), strict=True)
        ]

    def _records(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows[list(self.roles.features)]

    def _matures(self, rows: pd.DataFrame, clock: Array) -> Array | None:
        return np.maximum(rows[MATURES].to_numpy(np.float64), clock) if self.roles.matures else None
