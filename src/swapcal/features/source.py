"""Source: a table with named columns, or an array, dense or sparse, whose columns are known by number."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from swapcal.arrays import Array
from swapcal.features.sparse import Sparse
from swapcal.tables.table import Table, is_table
from swapcal.tables.values import letters

Name = str | int
Source = Table | Array | Sparse


def opened(given: Any) -> Source:
    """Return what a caller has, a data frame, a mapping of columns, a sparse matrix or an array, as a source.

    Examples
    --------
    >>> opened({"age": [30, 50]}).columns, opened([[30.0], [50.0]]).shape
    (['age'], (2, 1))
    """
    if isinstance(given, Table | Sparse):
        return given
    if issparse(given):
        return Sparse(given)
    return Table(given) if is_table(given) else np.asarray(given, dtype=np.float64)


def columns_of(source: Source) -> list[Name]:
    """Return the names, or numbers, of the columns to look at unless some are named."""
    if isinstance(source, Sparse):
        return list(source.fullest())
    return [*map(letters, source.columns)] if isinstance(source, Table) else list(range(source.shape[1]))


def named(role: str, names: Any) -> list[Name]:
    """Return names of columns as a list; a text is one name, not a list of its letters."""
    if isinstance(names, str | bytes) or not isinstance(names, Collection):
        raise TypeError(f"{role}: given {names!r}, expected a list of columns")
    return [letters(name) if isinstance(name, str) else name for name in names]


def require(source: Source, name: Name) -> None:
    """Refuse a column that is not there."""
    if isinstance(source, Table):
        source.require([str(name)])
    elif isinstance(name, bool) or not isinstance(name, (int, np.integer)) or not 0 <= name < source.shape[1]:
        raise ValueError(f"column {name!r}: not in the array; expected a number from 0 to {source.shape[1] - 1}")


def is_numeric(source: Source, name: Name) -> bool:
    """Say whether a column holds numbers."""
    return source.is_numeric(str(name)) if isinstance(source, Table) else True


def numbers_of(source: Source, name: Name) -> Array:
    """Return a column as floats."""
    if isinstance(source, Sparse):
        return source.matrix([name])[:, 0]
    return source.numbers(str(name)) if isinstance(source, Table) else source[:, int(name)]


def matrix_of(source: Source, names: Sequence[Name]) -> Array:
    """Return columns as floats, side by side."""
    if isinstance(source, Sparse):
        return source.matrix(names)
    if not isinstance(source, Table):
        whole = source.flags.c_contiguous and list(names) == list(range(source.shape[1]))
        return source if whole else np.ascontiguousarray(source[:, np.array(names, np.intp)])
    if not names:
        return np.empty((len(source), 0))
    return np.column_stack([source.numbers(str(name)) for name in names])
