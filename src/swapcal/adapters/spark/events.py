"""`Events`: the rows of one key in one micro-batch, in the order in which they are played."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from swapcal.arrays import Array
from swapcal.live.records import as_mappings

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


class Events:
    """Reads each column once: in order of time, at one time rows without an outcome first, then by id."""

    def __init__(self, rows: pd.DataFrame, roles: Roles) -> None:
        read = int if roles.numbered else str
        named = rows[roles.id].notna().tolist()
        texts = rows[roles.id].tolist()
        ids = pd.Series([read(text) if there else None for text, there in zip(texts, named, strict=True)], dtype=object)
        order = _order(rows, ids, roles)
        rows = rows.take(order)
        self.ids: list[Any] = ids.take(order).tolist()
        self.times: Array = rows[TIME].to_numpy(np.float64)
        self.y: Array = rows[roles.target].to_numpy(np.float64)
        self.matures: Array | None = rows[MATURES].to_numpy(np.float64) if roles.matures else None
        self.records: pd.DataFrame = rows[list(roles.features)]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def mappings(self) -> list[Any]:
        """The records one by one, for runs too short to be worth a frame."""
        return as_mappings(self.records)


def _order(rows: pd.DataFrame, ids: "pd.Series[Any]", roles: Roles) -> Any:
    columns = {"time": rows[TIME].to_numpy(), "labelled": rows[roles.target].notna().to_numpy(), "id": ids}
    return pd.DataFrame(columns).sort_values([*columns], kind="stable").index
