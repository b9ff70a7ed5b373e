"""Records as callers have them: mappings, the rows of a frame, or one row of one."""

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from swapcal.tables.columns import columns_of


def as_mappings(records: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a frame as mappings, which outside models understand."""
    if isinstance(records, list | tuple):
        return [*records]
    columns, n = columns_of(records)
    lists = {
        name: values.tolist() if isinstance(values, np.ndarray) else [values.values[k] for k in values.codes]
        for name, values in columns.items()
    }
    return [{name: column[k] for name, column in lists.items()} for k in range(n)]


def record_of(given: Any) -> Any:
    """Return one record as a mapping: of a pandas Series its labels and values, of a frame its only row.

    What is neither, nor a mapping, comes back as it is, for others to refuse.
    """
    if isinstance(given, Mapping):
        return given
    if nw.dependencies.is_pandas_like_series(given):
        return _labelled(given)
    try:
        frame = nw.from_native(given)
    except TypeError:
        return given
    rows = as_mappings(given) if isinstance(frame, nw.DataFrame | nw.LazyFrame) else []
    if len(rows) != 1:
        raise ValueError(f"record: given a frame of {len(rows):,} rows, expected one row; see `forecast_many` for more")
    return rows[0]


def _labelled(series: Any) -> dict[Any, Any]:
    """Return a Series by its labels, none of which may come twice."""
    names, values = series.index.tolist(), series.tolist()
    record = dict(zip(names, values, strict=True))
    if len(record) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"column {twice!r}: given twice, expected each name once")
    return record
