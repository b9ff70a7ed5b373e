"""`Events`: the rows of one key in one micro-batch, in the order in which they are played."""

import json
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from swapcal.arrays import Array

TIME, MATURES = "__time", "__matures"
"""Columns: when a row happens, and when its label would be known whatever it is."""


class EventRoles(NamedTuple):
    """Which column holds what."""

    id: str
    target: str
    features: tuple[str, ...]
    matures: bool
    numbered: bool
    """whether ids are integers; they come as texts, because pandas would make floats of integers beside nothing"""


MANNER = b"swapcal"
"""Name in Arrow's metadata under which it is said how rows are played."""

MANY = 1024
"""Rows that are sooner read as a table than one by one."""

Columns = dict[str, list[Any]]
"""The rows of a micro-batch as they are read: floats with NaN for nothing, other values with None for nothing."""


def columns_of(rows: pd.DataFrame, names: list[str]) -> Columns:
    """Return the columns of a frame, under these names, as lists."""
    return {name: _values(column) for name, (_, column) in zip(names, rows.items(), strict=True)}


class Manner(NamedTuple):
    """How rows are played: a query that is started again may have other columns, but must not play old rows by them."""

    roles: EventRoles
    remember: bool
    """whether settled ids are kept"""


def packed(columns: Columns, manner: Manner) -> bytes:
    """Return columns, and how they are played, as bytes, which `unpacked` makes the same of."""
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
    """The rows in order of time, at one time those without an outcome first, then by id."""

    def __init__(self, columns: Columns, roles: EventRoles) -> None:
        times, y = columns[TIME], columns[roles.target]
        ids = [id if id is None or not roles.numbered else int(id) for id in columns[roles.id]]
        named = [*zip(times, (label == label for label in y), ids, range(len(ids)), strict=True)]
        self.lost = [(id, time) for time, _, id, _ in named if id is None or time != time]
        """(id or nothing, time or NaN) of rows that lack either, and take no part in the rest"""
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
        """Say whether a row has no feature."""
        return all(value is None or value != value for value in self.mappings[row].values())

    def matures(self, rows: slice, clock: Array) -> Array | None:
        """Return when the outcomes of some rows would be known, which is not before they are played."""
        return None if self._matures is None else np.maximum(self._matures[rows], clock)


def _values(column: "pd.Series[Any]") -> list[Any]:
    values = column.tolist()
    return values if column.dtype.kind in "biuf" else [None if value != value else value for value in values]
