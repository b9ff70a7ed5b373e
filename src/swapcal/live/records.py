"""Records as callers have them: mappings, the rows of a frame, or one row of one."""

import hashlib
import marshal
from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from swapcal.tables.columns import columns_of

PLAIN_FORMAT = 2  # of marshal: the last without references, which depend on who else holds a value


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


def fingerprint(record: Mapping[str, Any]) -> int:
    """Return 48 bits by which a record is known again."""
    if type(record) is not dict and not isinstance(record, Mapping):
        raise TypeError(f"record: given {type(record).__name__}, expected a mapping from names to values")
    try:
        content = marshal.dumps(sorted(record.items()), PLAIN_FORMAT)  # names differ: values are never compared
    except (TypeError, ValueError):
        content = repr(sorted((str(name), repr(value)) for name, value in record.items())).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=6).digest(), "little")
