"""What callers give for many rows at once: ids, labels and times, one per row."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from swapcal import inputs
from swapcal.live.ids import Id, checked_id
from swapcal.tables.values import unmasked


def alone(value: Any) -> list[Any] | None:
    """Return one row's time, if there is one."""
    return None if value is None else [value]


def spread(times: Any, n: int) -> Any:
    """Return one time per row, also where one was given for all."""
    return [times] * n if isinstance(times, str) or np.ndim(times) == 0 else times


def of_fresh(times: Any, n: int, fresh: list[int]) -> Any:
    """Return one time per row; a row that is answered from before has that of a fresh row, which nobody looks at."""
    given = spread(times, n)
    if len(fresh) == n or len(given) != n:
        return given
    latest = np.full(n, -1)
    latest[fresh] = fresh
    values = [*given]
    return [values[row] for row in np.maximum(np.maximum.accumulate(latest), fresh[0])]


def listed_ids(ids: Any, n: int | None = None) -> "list[Id]":
    """Return ids, as many as there are records if those are counted."""
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Iterable):
        raise TypeError(f"ids: given {type(ids).__name__}, expected a list of ids")
    names: list[Id] = []
    try:
        for id in ids:
            names.append(checked_id(id))
    except (TypeError, ValueError) as error:
        raise inputs.in_row(len(names), error) from None
    if n is not None and len(names) != n:
        raise ValueError(f"ids: given {len(names)}, expected {n}, one per record")
    return names


def each_label(y: Any, n: int) -> list[float]:
    """Return n labels, or say which is none."""
    if isinstance(y, str | bytes | Mapping) or not isinstance(y, Iterable):
        raise TypeError(f"y: given {type(y).__name__}, expected a list of labels")
    labels: list[float] = []
    try:
        for value in unmasked(y):
            labels.append(inputs.label(value))
    except (TypeError, ValueError) as error:
        raise inputs.in_row(len(labels), error) from None
    if len(labels) != n:
        raise ValueError(f"y: given {len(labels)}, expected {n}, one per id")
    return labels
