"""Sample: a bounded, mergeable sample of distinct rows, and a fingerprint of all of them."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from swapcal.arrays import Array, Keys, Places
from swapcal.audit.batch import Batch
from swapcal.kernels.tally import finish_hashes, hash_rows

ENTRIES = 1 << 21
MOST_ROWS = 1 << 16
"""A sample keeps at most this many distinct rows and about `ENTRIES` numbers."""


class KeptRows(NamedTuple):
    """Distinct rows with how often each occurred; `labels[name]` holds hashed category names."""

    hashes: Keys
    copies: Array
    p: Array
    y: Array
    weights: Array
    X: Array
    labels: Mapping[str, Keys]

    def take(self, index: Places) -> "KeptRows":
        """Return some of the rows."""
        labels = {name: found[index] for name, found in self.labels.items()}
        return KeptRows._make([*(part[index] for part in self[:-1]), labels])


class Sample:
    """The distinct rows with the smallest hashes, and the sums of all hashes.

    Which rows are kept depends on the set of rows alone, so merging shards in any order gives the same
    sample. While there are no more distinct rows than room, the sample is the whole data (`complete`).
    """

    def __init__(self, d: int) -> None:
        self.capacity = _capacity(d)
        self.rows: KeptRows | None = None
        self.complete = True
        self.sums = (0, 0)

    def add(self, batch: Batch) -> None:
        """Add checked rows."""
        labels = {name: hash_names(c.names)[c.codes] for name, c in batch.groups.items()}
        hashes, sums = _hash_batch(batch, labels)
        self.sums = _wrap(self.sums, sums)
        new = KeptRows(hashes, np.ones(len(batch)), batch.p, batch.y, batch.weights, batch.X, labels)
        if self.rows is not None and not self.complete:
            new = new.take(np.flatnonzero(hashes <= self.rows.hashes[-1]))
        self._keep(new)

    def merge(self, other: "Sample") -> None:
        """Add what another sample holds."""
        self.sums = _wrap(self.sums, other.sums)
        self.complete = self.complete and other.complete
        if other.rows is not None:
            self._keep(other.rows)

    def widen(self, more: int) -> None:
        """Give every row so many coordinates more, all 0, which leave its hash as it is."""
        if self.rows is not None:
            self.rows = self.rows._replace(X=np.pad(self.rows.X, ((0, 0), (0, more))))
            self.capacity = _capacity(self.rows.X.shape[1])

    @property
    def digest(self) -> str:
        """Fingerprint of all rows, whatever their order and split."""
        return f"{self.sums[0]:016x}{self.sums[1]:016x}"

    def _keep(self, new: KeptRows) -> None:
        rows = new if self.rows is None else _stacked(self.rows, new)
        _, first, place = np.unique(rows.hashes, return_index=True, return_inverse=True)
        copies: Array = np.bincount(place, weights=rows.copies, minlength=len(first)).astype(np.float64)
        if len(first) > self.capacity:
            self.complete = False
        if not self.complete:
            first, copies = first[: self.capacity], copies[: self.capacity]
        self.rows = rows.take(first)._replace(copies=copies)


def _capacity(d: int) -> int:
    return int(np.clip(ENTRIES // (d + 4), 256, MOST_ROWS))


def hash_names(names: list[str]) -> Keys:
    """Return a 64-bit hash of every name, the same in every process.

    Examples
    --------
    >>> bool(hash_names(["a"])[0] == hash_names(["b", "a"])[1])
    True
    """
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _hash_batch(batch: Batch, labels: Mapping[str, Keys]) -> tuple[Keys, tuple[int, int]]:
    hashes = np.zeros(len(batch), np.uint64)
    scalars = np.column_stack([batch.p, batch.y, batch.weights])
    with np.errstate(over="ignore"):  # sums modulo 2^64 are meant; only uncompiled kernels would warn
        hash_rows(scalars.view(np.uint64), _keys("row", 3), hashes)
        if batch.marks is None:
            hash_rows(batch.X.view(np.uint64), _keys("context", batch.X.shape[1]), hashes)
        else:
            hash_rows(batch.marks[:, None], _keys("features", 1), hashes)
        for name, values in labels.items():
            hash_rows(values[:, None], _keys(f"group {name}", 1), hashes)
        first, second = finish_hashes(hashes)
    return hashes, (int(first), int(second))


def _keys(purpose: str, count: int) -> Keys:
    return hash_names([f"{purpose} {i}" for i in range(count)]) | np.uint64(1)


def _wrap(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return (a[0] + b[0]) % 2**64, (a[1] + b[1]) % 2**64


def _stacked(a: KeptRows, b: KeptRows) -> KeptRows:
    labels = {name: np.concatenate([a.labels[name], b.labels[name]]) for name in a.labels}
    return KeptRows._make([*map(np.concatenate, zip(a[:-1], b[:-1], strict=True)), labels])
