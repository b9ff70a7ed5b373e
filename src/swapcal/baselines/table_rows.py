"""What every batch baseline checks before it starts."""

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array


def checked(p: ArrayLike, X: ArrayLike, y: ArrayLike | None = None) -> tuple[Array, Array, Array]:
    """Return private copies of predictions (n,) in [0, 1], rows (n, d) and labels (n,), zeros if there are none."""
    scores, rows = np.array(p, dtype=np.float64), np.asarray(X, dtype=np.float64)
    labels = np.zeros(len(scores)) if y is None else np.array(y, dtype=np.float64)
    if rows.ndim != 2 or scores.shape != (len(rows),) or labels.shape != (len(rows),):
        raise ValueError(f"rows: given p {scores.shape}, X {rows.shape}, y {labels.shape}, expected (n,), (n, d), (n,)")
    for name, values in (("p", scores), ("y", labels)):
        bad = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
        if bad.size:
            raise ValueError(f"{name}: given {values[bad[0]]} in row {bad[0] + 1}, expected numbers in [0, 1]")
    if not np.isfinite(rows).all():
        raise ValueError("X: given a value that is not finite, expected numbers")
    return scores, rows, labels


def row_products(X: Array, theta: Array) -> Array:
    """Return ⟨x, θ⟩ of every row, added column by column.

    A matrix product adds in an order that depends on the number of rows; a level decided by the last bit would then
    differ between one row and many.

    Examples
    --------
    >>> row_products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 0.25]))
    array([1. , 2.5])
    """
    total = np.zeros(len(X))
    for column, weight in zip(X.T, theta, strict=True):
        total += column * weight
    return total
