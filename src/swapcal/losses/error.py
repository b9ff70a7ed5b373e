"""`LossError`: what makes no decision problem."""

from __future__ import annotations


class LossError(ValueError):
    """A loss, an action or a probability that makes no decision problem; says which point offends."""

    row: int | None = None
    """The row to blame, counted from 1, if there is one."""
    _parts: tuple[str, object, str]

    @classmethod
    def of(cls, name: str, given: object, expected: str, row: int | None = None) -> LossError:
        """Return the error that says what was given, where, and what was expected.

        >>> str(LossError.of("weight", -1.0, "a number at least 0", row=3))
        'weight: given -1.0 in row 3, expected a number at least 0'
        """
        error = cls(f"{name}: given {given}{'' if row is None else f' in row {row}'}, expected {expected}")
        error.row, error._parts = row, (name, given, expected)
        return error

    def after(self, rows: int) -> LossError:
        """Return the same error for one who had counted so many rows before these."""
        return self if self.row is None else LossError.of(*self._parts, row=self.row + rows)
