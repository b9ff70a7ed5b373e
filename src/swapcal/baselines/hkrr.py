"""Multicalibration by patching cells (Hébert-Johnson, Kim, Reingold, Rothblum 2018)."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array, Places
from swapcal.baselines.table_rows import checked
from swapcal.faces import face


class Patch(NamedTuple):
    """Add `shift` to the predictions of a group's rows that lie in a bucket."""

    group: int
    bucket: int
    shift: float


class HKRR:
    """Find a group × bucket whose mean residual exceeds α, shift it there, repeat until none is left.

    A cell is the set {x in group g : p(x) in bucket b}. Each patch lowers the squared error by at least
    mass · gap² ≥ γα², so there are at most 1/(γα²) of them. On the data it was fitted on, the result satisfies
    |mean of y - p| ≤ α on every cell of mass at least γ. Of all violating cells, the one with the largest mass · gap²
    goes first. Fit it on rows that the base model did not see.

    Parameters
    ----------
    alpha : largest mean residual tolerated.
    buckets : number of equally wide buckets of predictions.
    gamma : smallest share of the rows that makes a cell count.
    most : patches, at most.

    Examples
    --------
    >>> G = np.array([[1.0, 1.0], [1.0, 0.0]] * 500)
    >>> y = np.array([1.0, 0.0] * 500)
    >>> model = HKRR(alpha=0.01).fit(np.full(1000, 0.5), G, y)
    >>> model.predict([0.5, 0.5], [[1, 1], [1, 0]])
    array([1., 0.])
    """

    def __init__(self, *, alpha: float = 0.05, buckets: int = 10, gamma: float = 0.002, most: int = 10_000) -> None:
        self.alpha, self.buckets, self.gamma, self.most = alpha, buckets, gamma, most
        self.patches: list[Patch] = []

    def __repr__(self) -> str:
        return f"HKRR(alpha={self.alpha:g}, buckets={self.buckets}; {len(self.patches):,} patches)"

    def _repr_html_(self) -> str:
        facts = {"largest gap tolerated": f"{self.alpha:g}", "buckets": self.buckets}
        return face("HKRR", f"a baseline with {len(self.patches):,} patches", facts)

    def fit(self, p: ArrayLike, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the patches.

        Parameters
        ----------
        p, y : (n,) predictions in [0, 1] and labels
        X : (n, groups) memberships, 0 or 1
        """
        p, G, y = memberships(p, X, y)
        self.patches = []
        b = self._bucket(p)
        mass, gap = np.zeros((G.shape[1], self.buckets)), np.zeros((G.shape[1], self.buckets))
        self._count(mass, gap, G, b, y - p, 1.0)
        while len(self.patches) < self.most and (found := self._worst(mass, gap, len(y))) is not None:
            rows = np.flatnonzero(G[:, found.group] * (b == found.bucket))
            self._count(mass, gap, G[rows], b[rows], y[rows] - p[rows], -1.0)
            p[rows] = np.clip(p[rows] + found.shift, 0.0, 1.0)
            b[rows] = self._bucket(p[rows])
            self._count(mass, gap, G[rows], b[rows], y[rows] - p[rows], 1.0)
            self.patches.append(found)
        return self

    def predict(self, p: ArrayLike, X: ArrayLike) -> Array:
        """Return the patched predictions."""
        p, G, _ = memberships(p, X)
        members = [np.flatnonzero(column) for column in G.T]
        for group, bucket, shift in self.patches:
            rows = members[group]
            rows = rows[self._bucket(p[rows]) == bucket]
            p[rows] = np.clip(p[rows] + shift, 0.0, 1.0)
        return p

    def _bucket(self, p: Array) -> Places:
        return np.minimum((p * self.buckets).astype(np.intp), self.buckets - 1)

    def _count(self, mass: Array, gap: Array, G: Array, b: Places, residual: Array, sign: float) -> None:
        """Add rows to, or take them from, the number and the summed residual of every cell."""
        for bucket in np.unique(b):
            here = b == bucket
            mass[:, bucket] += sign * G[here].sum(axis=0)
            gap[:, bucket] += sign * (residual[here] @ G[here])

    def _worst(self, mass: Array, gap: Array, rows: int) -> Patch | None:
        """Return the patch that lowers the squared error most, among cells heavy and wrong enough."""
        heavy = mass >= max(1.0, self.gamma * rows)
        mean = np.where(heavy, gap / np.maximum(mass, 1.0), 0.0)
        gain = np.where(np.abs(mean) > self.alpha, mass * mean**2, 0.0)
        group, bucket = np.unravel_index(int(np.argmax(gain)), gain.shape)
        return Patch(int(group), int(bucket), float(mean[group, bucket])) if gain[group, bucket] > 0.0 else None


def memberships(p: ArrayLike, X: ArrayLike, y: ArrayLike | None = None) -> tuple[Array, Array, Array]:
    """Return the checked predictions, 0-1 memberships and labels."""
    p, G, labels = checked(p, X, y)
    if not np.isin(G, (0.0, 1.0)).all():
        raise ValueError("X: given values other than 0 and 1, expected group memberships")
    return p, G, labels
