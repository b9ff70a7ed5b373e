"""What callers give for many rows at once: records, ids, labels and times, one per row."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal import inputs
from swapcal.arrays import AnyArray, Array
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


def counted_rows(records: Any) -> int:
    """Return how many records there are."""
    if isinstance(records, Mapping):
        raise TypeError("records: given one mapping, expected a list of them or a data frame; see `forecast` for one")
    try:
        return len(records)
    except TypeError:
        raise TypeError(f"records: given {type(records).__name__}, expected a list of mappings or a frame") from None


def label_column(y: ArrayLike, n: int) -> Array:
    """Return n labels as numbers, NaN where there is none."""
    try:
        raw = np.asarray(unmasked(y))
        if raw.dtype.kind not in "biufO" or any(isinstance(value, str | bytes) for value in _objects(raw)):
            raise TypeError
        labels = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"y: given {type(y).__name__} that is not numeric, expected labels in [0, 1]") from None
    if labels.shape != (n,):
        raise ValueError(f"y: given shape {labels.shape}, expected ({n},), one label per record")
    bad = np.flatnonzero((labels < 0.0) | (labels > 1.0))
    if bad.size:
        raise ValueError(f"y: given {labels[bad[0]]:g} in row {bad[0] + 1}, expected a number in [0, 1] or NaN")
    return labels


def _objects(raw: AnyArray) -> Iterable[Any]:
    """Return the entries of an array of Python objects, which may hide text that reads as a number."""
    return raw.ravel().tolist() if raw.dtype.kind == "O" else ()
