"""What a command wants a column to be: numbers, times, probabilities, and outcomes as 0 and 1."""

import re
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from swapcal.arrays import Array, Flags, Index
from swapcal.tables.clock import formats, seconds_of
from swapcal.tables.sources import InputError
from swapcal.tables.values import from_arrow

# `Positive`: the value of a target that counts as 1, and whether any row had it.

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


# Kinds: what a command wants a column to be, and how a column of any type becomes that.

COMMAS = re.compile(r"\s*[+-]?\d[\d.]*,[\d,]*\d*(\.\d+)?\s*")


class ReadAs(StrEnum):
    """What a column is read as; `raw`: as a text file spells or another stores it; `any`: as what it looks like."""

    number = "number"
    text = "text"
    truth = "truth"
    time = "time"
    raw = "raw"
    any = "any"


def settled(column: Any, name: str, kind: ReadAs, first: int) -> Any:
    """Return a column as the kind asked for, or name the first row (numbered from `first`) that cannot be."""
    wanted = {ReadAs.number: pa.float64(), ReadAs.text: pa.string(), ReadAs.truth: pa.bool_()}.get(kind)
    if wanted is None or column.type == wanted:
        return column
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if is_text(column.type) and kind is ReadAs.number:
        numbers, wrong = parsed(column)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(f"row {first + row}: column {name!r}: {not_a(kind, column[row].as_py())}")
        return pa.chunked_array([pa.array(numbers, from_pandas=True)])
    try:
        return pc.cast(pc.cast(column, pa.int8()) if pa.types.is_boolean(column.type) and wanted == pa.float64()
                       else column, wanted, safe=False)  # fmt: skip
    except pa.ArrowException:
        raise InputError(f"column {name!r}: given {column.type}, expected {_EXPECTED[kind]}") from None


def is_text(kind: Any) -> bool:
    """Say whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def not_a(kind: ReadAs, text: Any) -> str:
    """Say that a value is not what was expected, with the option that would read it."""
    hint = " (--decimal , reads decimal commas)" if kind is ReadAs.number and COMMAS.fullmatch(str(text)) else ""
    return f"given {text!r}, expected {_EXPECTED[kind]}{hint}"


TIME = "a number or an ISO date or time (--dates mdy or dmy reads others)"
_EXPECTED = {
    ReadAs.number: "a number",
    ReadAs.text: "text",
    ReadAs.truth: "true or false",
    ReadAs.time: TIME,
    ReadAs.any: "a value like those in the rows before",
    ReadAs.raw: "a value",
}


def parsed(column: Any, decimal: str = ".") -> tuple[Array, Flags]:
    """Return (numbers, which values are no numbers) of a text column, parsing each distinct text once."""
    values, indices = distinct(column)
    found = [_float(text.replace(decimal, ".")) for text in values]
    numbers = np.array([*(np.nan if number is None else number for number in found), np.nan])
    failed = np.array([*(number is None for number in found), False])
    return numbers[indices], failed[indices]


def moments(column: Any, order: str = "iso") -> tuple[Array, Flags, bool]:
    """Return (numbers, or seconds since 1970; which values are no times; whether they are dates).

    Missing values become NaN.

    Examples
    --------
    >>> moments(pa.chunked_array([["1970-01-02", None, "someday"]]))
    (array([86400.,    nan,    nan]), array([False, False,  True]), True)
    >>> moments(pa.chunked_array([["02/01/1970"]]), "dmy")[0]
    array([86400.])
    """
    if pa.types.is_temporal(column.type):
        micros = pc.cast(pc.cast(column, pa.timestamp("us"), safe=False), pa.int64())
        seconds = floats(micros) / 1e6
        return seconds, np.zeros(len(seconds), bool), True
    if not is_text(column.type) and not pa.types.is_dictionary(column.type):
        return floats(column), np.zeros(len(column), bool), False
    values, indices = distinct(column)
    patterns = formats(order)
    found = np.array([*(seconds_of(str(value).strip(), patterns) for value in values), np.nan])[indices]
    wrong = np.isinf(found)
    return np.where(wrong, np.nan, found), wrong, True


def timed(column: Any, name: str, first: int, order: str = "iso") -> Any:
    """Return a column of times as numbers or time stamps, or name the first row that holds neither."""
    times, wrong, dated = moments(column, order)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"row {first + row}: column {name!r}: {not_a(ReadAs.time, column[row].as_py())}")
    if not dated:
        return pa.array(times, from_pandas=True)
    micros = np.where(np.isnan(times), 0.0, times * 1e6).round().astype(np.int64)
    return pa.array(micros, pa.int64(), mask=np.isnan(times)).cast(pa.timestamp("us"))


def distinct(column: Any) -> tuple[list[Any], Index]:
    """Return (the distinct values that are present, for each row its position among them, their number if missing)."""
    found = from_arrow(column)
    return found.values[:-1], found.codes


def within(values: Array, name: str, first: int, expected: str, fits: Flags) -> Array:
    """Return values that all fit, or name the first row (numbered from `first`) that does not."""
    if not fits.all():
        row = int(np.flatnonzero(~fits)[0])
        given = "nothing" if np.isnan(values[row]) else f"{values[row]:.12g}"
        raise InputError(f"row {first + row}: column {name!r}: given {given}, expected {expected}")
    return values


def probabilities(column: Any, name: str, first: int) -> Array:
    """Return a column of numbers as probabilities.

    Examples
    --------
    >>> probabilities(pa.chunked_array([[0.5, 1.5]]), "p", 1)
    Traceback (most recent call last):
    swapcal.tables.sources.InputError: row 2: column 'p': given 1.5, expected a probability in [0, 1]
    """
    values = floats(column)
    return within(values, name, first, "a probability in [0, 1]", (values >= 0.0) & (values <= 1.0))


def floats(column: Any) -> Array:
    """Return a column of numbers as floats; missing ones are NaN."""
    return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# Outcomes: one reading of targets everywhere, in words, truth values or numbers.

TRUE, FALSE = {"true", "yes", "t", "y"}, {"false", "no", "f", "n"}
EXPECTED = "expected 0 or 1, true or false, yes or no, or a fraction in [0, 1] (--positive VALUE for other words)"


def outcomes(column: Any, positive: Positive | None = None, decimal: str = ".") -> tuple[Array, Flags]:
    """Return (outcomes in [0, 1], NaN where there is none; which values are no outcomes).

    With `positive`, that value is 1 and every other one 0. `decimal` is the decimal point of numbers that come as text.

    Examples
    --------
    >>> outcomes(pa.chunked_array([["yes", "no", None, "maybe"]]))
    (array([ 1.,  0., nan, nan]), array([False, False, False,  True]))
    >>> outcomes(pa.chunked_array([[">50K", "<=50K"]]), Positive(">50K", "income"))[0]
    array([1., 0.])
    """
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if numeric and positive is None:
        y = floats(column)
    else:
        values, indices = distinct(column)
        y = np.array([*(_outcome(value, positive, decimal) for value in values), np.nan])[indices]
    wrong = ~(np.isnan(y) | ((y >= 0.0) & (y <= 1.0)))
    return np.where(wrong, np.nan, y), wrong


def checked_outcomes(column: Any, name: str, first: int, positive: Positive | None = None, decimal: str = ".") -> Array:
    """Return outcomes, or name the first row (numbered from `first`) whose value is none."""
    y, wrong = outcomes(column, positive, decimal)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"row {first + row}: column {name!r}: given {column[row].as_py()!r}, {EXPECTED}")
    return y


def _outcome(value: Any, positive: Positive | None, decimal: str) -> float:
    """Return an outcome, NaN for a missing one, infinity for what is none."""
    if positive is not None:
        return float(positive.matches(value))
    word = str(value).strip().lower()
    if word in TRUE or word in FALSE:
        return float(word in TRUE)
    try:
        return number(word, decimal)
    except ValueError:
        return np.inf
