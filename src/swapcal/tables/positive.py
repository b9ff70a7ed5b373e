"""`Positive`: the value of a target that counts as 1, and whether any row had it."""

from typing import Any

from swapcal.tables.dialect import InputError

MOST_KEPT, SHOWN = 100, 5
"""Values kept of those that are not it; and how many are named."""


class Positive:
    """A value of a column, as the user spells it; of all the others it notes some.

    Examples
    --------
    >>> yes = Positive("Yes", "answer")
    >>> yes.matches("yes"), yes.matches("no"), yes.complaint()
    (False, False, "--positive: given 'Yes', expected a value of column 'answer', such as 'no', 'yes'")
    """

    def __init__(self, value: str, column: str, decimal: str = ".") -> None:
        self._value, self._column, self._decimal = value, column, decimal
        self._met = False
        self._others: set[str] = set()

    def matches(self, value: Any) -> bool:
        """Tell whether a value is it."""
        if self._is(value):
            self._met = True
            return True
        if len(self._others) < MOST_KEPT:
            self._others.add(str(value))
        return False

    def complaint(self) -> str | None:
        """Return what is wrong with the value, if there were some and all were others."""
        if self._met or not self._others:
            return None
        some = ", ".join(map(repr, sorted(self._others)[:SHOWN]))
        more = ", …" if len(self._others) > SHOWN else ""
        return f"--positive: given {self._value!r}, expected a value of column {self._column!r}, such as {some}{more}"

    def require(self) -> None:
        """Refuse a value that no row had."""
        if (complaint := self.complaint()) is not None:
            raise InputError(complaint)

    def _is(self, value: Any) -> bool:
        if str(value).strip() == self._value.strip():
            return True
        try:
            # 1 and 1.0 are one value however the file spells them
            return number(value, self._decimal) == number(self._value, self._decimal)
        except ValueError:
            return str(value).strip().lower() == self._value.strip().lower() and isinstance(value, bool)


def number(value: Any, decimal: str) -> float:
    """Return a value as a number, also from text with another decimal point."""
    return float(value.replace(decimal, ".") if isinstance(value, str) else value)
