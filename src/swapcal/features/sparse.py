"""Sparse: an array of which only the values that are not 0 are kept; columns are made dense one by one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from swapcal.arrays import Array, Integers

WIDEST = 128
"""Columns looked at unless they are named: those with the most values that are not 0."""


class Sparse:
    """Columns of a scipy.sparse matrix or array.

    Examples
    --------
    >>> import scipy.sparse
    >>> thin = Sparse(scipy.sparse.csr_array(np.eye(3)))
    >>> thin.shape, thin.matrix([2, 0]).tolist()
    ((3, 3), [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    """

    def __init__(self, native: Any) -> None:
        self._columns = native.tocsc()

    def __len__(self) -> int:
        return int(self._columns.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._columns.shape  # type: ignore[no-any-return]

    def matrix(self, names: "Sequence[Any] | Integers") -> Array:
        """Return some columns, dense and side by side."""
        chosen = self._columns[:, np.array(names, np.intp)]
        return np.asarray(chosen.toarray(order="C"), np.float64)

    def fullest(self) -> list[int]:
        """Return the numbers of the `WIDEST` columns with most values that are not 0, all if there are not as many."""
        filled = np.diff(self._columns.indptr)
        return sorted(np.argsort(-filled, kind="stable")[:WIDEST].tolist())
