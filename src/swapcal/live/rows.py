"""`Rows`: what every learner saw of each row, and said of it."""

from dataclasses import dataclass, fields
from typing import Any

from swapcal.arrays import Array, Integers, Keys


@dataclass
class Rows:
    """n rows as arrays."""

    x: Array
    dims: Integers
    """coordinates that existed at each row; later ones are 0 there"""
    keys: Keys
    values: Array
    scores: Array
    """the users' and the models' probabilities"""
    draws: Keys
    """what the draws between levels know each row by"""
    memory: Array
    """what the experts need to learn the label"""
    judged: Array
    """the blend's, the experts' and the models' probabilities"""
    ticket: Array

    def __len__(self) -> int:
        return len(self.dims)

    def cut(self, a: int, b: int) -> "Rows":
        """Return some of the rows, sharing memory."""
        if (a, b) == (0, len(self.dims)):
            return self
        return Rows(*(getattr(self, name)[a:b] for name in NAMES))

    def copied(self) -> "Rows":
        """Return the rows in memory of their own."""
        return Rows(*(getattr(self, name).copy() for name in NAMES))

    def overwrite(self, source: "Rows", names: tuple[str, ...]) -> None:
        """Copy rows; what there is more of here is 0: coordinates and columns that did not exist yet."""
        for name in names:
            old: Any
            new: Any
            old, new = getattr(source, name), getattr(self, name)
            if old.ndim == 1 or old.shape[1] == new.shape[1]:
                new[:] = old
            else:
                width = min(old.shape[1], new.shape[1])
                new[:, :width] = old[:, :width]
                new[:, width:] = 0


class Row(Rows):
    """One row in C-ordered arrays of our own making, which are used again for the next."""


NAMES = tuple(field.name for field in fields(Rows))
