"""Declared products of two columns: group × group, group × score, number × number."""

from dataclasses import dataclass

import numpy as np

from swapcal.arrays import Integers
from swapcal.features.column import MISSING, NOWHERE, SHARED, UNDECIDED, Column
from swapcal.kernels.encode import CATEGORICAL, NUMERIC

SHIFT = 1 << 20  # more than the codes a column can have


@dataclass
class Product:
    """The product of two columns, with one coordinate per combination of their categories."""

    left: Column
    right: Column
    column: Column

    @classmethod
    def of(cls, left: Column, right: Column, own: int) -> "Product":
        """Declare the product; its kind is settled when both factors' kinds are."""
        return cls(left, right, Column(f"{left.name} × {right.name}", UNDECIDED, own))

    def codes_of(self, left: Integers, right: Integers, learn: bool) -> tuple[Integers, list[int]]:
        """Return (each row's code, the codes present); a row with a missing factor has code `NOWHERE`."""
        codes = np.full(len(left), NOWHERE, dtype=np.int64)
        rows = np.flatnonzero((left != MISSING) & (right != MISSING))
        if rows.size == 0:
            return codes, []
        if self.column.kind == UNDECIDED:
            self.column.kind = CATEGORICAL if self._categorical() else NUMERIC
        if self.column.kind == NUMERIC:
            codes[rows] = SHARED
            return codes, [SHARED]
        pairs, first, inverse = np.unique(left[rows] * SHIFT + right[rows], return_index=True, return_inverse=True)
        table = np.zeros(len(pairs), dtype=np.int64)
        for position in np.argsort(first):
            table[position] = self.column.code_of(self._words(int(pairs[position])), learn)
        codes[rows] = table[inverse]
        return codes, sorted(set(table.tolist()))

    def factors(self, order: dict[str, int]) -> list[int]:
        """Return the numeric factors' column numbers, `NOWHERE` for a categorical one."""
        return [NOWHERE if side.kind == CATEGORICAL else order[side.name] for side in (self.left, self.right)]

    def _categorical(self) -> bool:
        return CATEGORICAL in (self.left.kind, self.right.kind)

    def _words(self, pair: int) -> str:
        sides = zip((self.left, self.right), divmod(pair, SHIFT), strict=True)
        return " & ".join(side.label(code) for side, code in sides if side.kind == CATEGORICAL)
