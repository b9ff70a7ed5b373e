"""`Events`: the rows of one key in one micro-batch, in the order in which they are played."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from swapcal.arrays import Array

TIME, MATURES = "__time", "__matures"
"""Columns: when a row happens, and when its label would be known whatever it is."""


class Roles(NamedTuple):
    """Which column holds what."""

    id: str
    target: str
    features: tuple[str, ...]
    matures: bool
    numbered: bool
    """whether ids are integers; they come as texts, because pandas would make floats of integers beside nothing"""


MANY = 1024
"""Rows that are sooner read as a frame than one by one."""


class Events:
    """Reads each column once: in order of time, at one time rows without an outcome first, then by id."""

    def __init__(self, rows: pd.DataFrame, roles: Roles) -> None:
        ids = _ids(rows[roles.id], roles.numbered)
        times, y = rows[TIME].tolist(), rows[roles.target].tolist()
        named = [*zip(times, (label == label for label in y), ids, range(len(ids)), strict=True)]
        self.lost = [(id, time) for time, _, id, _ in named if id is None or time != time]
        """(id or nothing, time or NaN) of rows that lack either, and take no part in the rest"""
        kept = sorted(event for event in named if event[2] is not None and event[0] == event[0])
        order = [k for *_, k in kept]
        self.ids: list[Any] = [id for *_, id, _ in kept]
        self.labelled: list[bool] = [labelled for _, labelled, *_ in kept]
        self.times: Array = np.array([time for time, *_ in kept])
        self.y: Array = np.array([y[k] for k in order], np.float64)
        matures = rows[MATURES].to_numpy(np.float64) if roles.matures else None
        self._matures = None if matures is None else matures[order]
        self._order, self._rows, self._features = order, rows, list(roles.features)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def mappings(self) -> list[dict[str, Any]]:
        """The records one by one, None where there is nothing."""
        columns = [[None if value != value else value for value in self._rows[name].tolist()] for name in self._features]
        records = [dict(zip(self._features, values, strict=True)) for values in zip(*columns, strict=True)]
        return [records[k] for k in self._order] if columns else [{} for _ in self._order]

    def records(self, rows: slice) -> Any:
        """Return the records of some rows, many of them as a frame."""
        if rows.stop - rows.start < MANY:
            return self.mappings[rows]
        return self._rows[self._features].take(self._order[rows])

    def is_bare(self, row: int) -> bool:
        """Say whether a row has no feature."""
        return all(value is None for value in self.mappings[row].values())

    def matures(self, rows: slice, clock: Array) -> Array | None:
        """Return when the outcomes of some rows would be known, which is not before they are played."""
        return None if self._matures is None else np.maximum(self._matures[rows], clock)


def _ids(column: "pd.Series[Any]", numbered: bool) -> list[Any]:
    """Return names, None where there is none."""
    if numbered:
        return [int(text) if isinstance(text, str) else None for text in column.tolist()]
    return [text if isinstance(text, str) else None for text in column.tolist()]
