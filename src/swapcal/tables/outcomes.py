"""What a column is: its type, decided once; as numbers, times, probabilities, and outcomes as 0 and 1."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from swapcal._validate import likely_mistake
from swapcal.arrays import Array, Flags, Index
from swapcal.tables.dialect import Dialect, advice, without_limit
from swapcal.tables.sources import InputError
from swapcal.tables.values import formats, from_arrow, seconds_of, text_of

# `Positive`: the value of a target that counts as 1, and whether any row had it.

MOST_KEPT, SHOWN = 100, 5
"""Other values kept, and how many of them a message names."""


class Positive:
    """The value of a column that counts as 1, as the user spells it, and some of the other values met.

    Examples
    --------
    >>> yes = Positive("Yes", "answer")
    >>> yes.matches("yes"), yes.matches("no"), yes.complaint()
    (False, False, "--positive: given 'Yes', expected a value of column 'answer', such as 'no', 'yes'")
    """

    def __init__(self, value: str, column: str, decimal: str = ".") -> None:
        self._value, self._column, self._decimal = value, column, decimal
        self._met = False
        self._other_values: set[str] = set()

    def matches(self, value: Any) -> bool:
        """Return whether a value is the positive one."""
        if self._is(value):
            self._met = True
            return True
        if len(self._other_values) < MOST_KEPT:
            self._other_values.add(str(value))
        return False

    def complaint(self) -> str | None:
        """Return the error message if there were values and none was the positive one, else None."""
        if self._met or not self._other_values:
            return None
        some = ", ".join(map(repr, sorted(self._other_values)[:SHOWN]))
        more = ", …" if len(self._other_values) > SHOWN else ""
        return f"--positive: given {self._value!r}, expected a value of column {self._column!r}, such as {some}{more}"

    def require(self) -> None:
        """Raise InputError if no row had the value."""
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


# Types: how a command reads a column, and the type that follows from it and from the first values.

FEW = 1000  # rows that are looked at before all
MOSTLY = 0.5  # a text column of which more than this share are numbers was meant to be numeric


class ReadAs(StrEnum):
    """What a column is read as.

    `raw`: as a text file spells or another stores it. All after it: as its first values look; but `any` and `time`
    leave truth values of a text file as text, `feature` makes text of which most are numbers numeric, and `numeric`
    any text. A `value` that does not fit the first ones stays text.
    """

    number = "number"
    text = "text"
    truth = "truth"
    raw = "raw"
    any = "any"
    time = "time"
    value = "value"
    feature = "feature"
    numeric = "numeric"


_ARROW_TYPES = {ReadAs.number: pa.float64(), ReadAs.text: pa.string(), ReadAs.truth: pa.bool_()}


class Misfit(NamedTuple):
    """Values of a column that do not fit its type: the column as read, and the rows."""

    name: str
    column: Any
    wrong: Flags
    expected: ReadAs


class ColumnTypes:
    """The type of each column of a file: as given, else decided by the first rows that have values.

    Integers then become floats, and days and seconds microseconds, because later rows may be finer; not where all rows
    are known. `unnamed` is how columns not in `kinds` are read; None if they are not read.

    Examples
    --------
    >>> types = ColumnTypes({"x": ReadAs.feature})
    >>> types.learn(pa.table({"x": ["1", "2", "much"]}))
    False
    >>> table, (misfit,) = types.fit(pa.table({"x": ["1", "2", "much"]}))
    >>> table["x"].to_pylist(), misfit.wrong
    ([1.0, 2.0, None], array([False, False,  True]))
    """

    def __init__(
        self,
        kinds: Mapping[str, ReadAs],
        unnamed: ReadAs | None = None,
        dialect: Dialect | None = None,
        *,
        grows: bool = False,
    ) -> None:
        self.unnamed = unnamed
        self._kinds, self._dialect, self._grows = kinds, dialect or Dialect(), grows
        self._known = {name: _ARROW_TYPES[kind] for name, kind in kinds.items() if kind in _ARROW_TYPES}
        self._spelt = {*self._dialect.percent, *self._dialect.currency}
        """columns of numbers that are read as text first"""
        self._known |= dict.fromkeys(self._spelt, pa.float64())

    def kind(self, name: str) -> ReadAs | None:
        """Return how a column is read."""
        return self._kinds.get(name, self.unnamed)

    def names(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of a file to read; at least one, which gives the number of rows."""
        if self.unnamed is not None:
            return list(columns)
        return [name for name in self._kinds if name in columns] or list(columns[:1])

    def of_text(self) -> dict[str, Any]:
        """Return the types that are known so far as a text file is read."""
        texts = [name for name, kind in self._kinds.items() if kind is ReadAs.raw]
        return self._known | dict.fromkeys([*texts, *self._spelt], pa.string())

    def learn(self, table: pa.Table, *, final: bool = False, text: bool = False) -> bool:
        """Decide the columns that have values for the first time; `final` if no rows follow, `text` if read from text.

        Return whether a text was read with other types than its columns now have, and has to be read again.
        """
        for field in table.schema:
            kind = self.kind(field.name)
            undecided = field.name not in self._known and kind not in (None, ReadAs.raw)
            if undecided and not pa.types.is_null(field.type):
                column = table[field.name]
                self._known[field.name] = self._decided(column, kind, text, final and not self._grows)
                if is_text(field.type) and pa.types.is_floating(self._known[field.name]) and self._is_spelt(column):
                    self._spelt.add(field.name)
        return any(self._is_unlike(field) for field in table.schema)

    def _decided(self, column: Any, kind: ReadAs | None, text: bool, final: bool) -> Any:
        is_spelt = pa.types.is_boolean(column.type) or pa.types.is_binary(column.type)
        if text and is_spelt and kind in (ReadAs.any, ReadAs.time):
            return pa.string()
        if is_text(column.type) and (kind is ReadAs.numeric or self._is_numeric(column, kind)):
            return pa.float64()
        return column.type if final else wider(column.type)

    def _is_numeric(self, column: Any, kind: ReadAs | None) -> bool:
        """Return whether a text column is numeric: most of a feature, or all of it in the spelling of this file only.

        Numbers in the default spelling are numbers already, unless JSON quotes them.
        """
        if kind not in (ReadAs.feature, ReadAs.any):
            return False
        wrong = int(parsed(column, self._dialect, limits=False)[1].sum())
        some = kind is ReadAs.feature and 1 <= wrong < MOSTLY * (len(column) - column.null_count)
        return bool(some or (not wrong and self._is_spelt(column)))

    def _is_spelt(self, column: Any) -> bool:
        """Return whether some numbers are others, or none, in the default spelling: 1.234 may be a thousand."""
        for some in (column.slice(0, FEW), column):  # most often the first rows suffice
            (usual, _), (own, wrong) = parsed(some, Dialect()), parsed(some, self._dialect)
            if (~wrong & ~np.isnan(own) & (usual != own)).any():
                return True
        return False

    def _is_unlike(self, field: Any) -> bool:
        known = self._known.get(field.name, field.type)
        if is_text(field.type) or pa.types.is_null(field.type):  # values that did not fit are text
            return False
        return known not in (field.type, wider(field.type))

    def fit(self, table: pa.Table) -> tuple[pa.Table, tuple[Misfit, ...]]:
        """Return the columns in their types, and the values that do not fit, which become missing."""
        misfits, stored, table = [], table.schema, self._without_words(table)
        for place, field in enumerate(table.schema):
            known, kind = self._known.get(field.name), self.kind(field.name)
            if known in (None, field.type) or (kind is ReadAs.value and wider(field.type) != known):
                continue
            expected = kind if kind in (ReadAs.number, ReadAs.truth, ReadAs.time) else _meaning(known)
            try:
                column, wrong = self._converted(table[place], known, field.name)
            except pa.ArrowException:
                given = f"column {field.name!r}: given {field.type}"
                raise InputError(f"{given}, expected {_EXPECTED[expected]}") from None
            if wrong.any():
                misfits.append(Misfit(field.name, table[place], wrong, expected))
            table = table.set_column(place, field.name, column)
        return self._of_percent(table, stored), tuple(misfits)

    def _of_percent(self, table: pa.Table, stored: Any) -> pa.Table:
        """Return a table with the percentages that are stored as numbers divided by 100; those of text are already."""
        for place, field in enumerate(stored):
            if field.name in self._dialect.percent and is_number(field.type):
                table = table.set_column(place, field.name, pa.array(0.01 * floats(table[place]), from_pandas=True))
        return table

    def _without_words(self, table: pa.Table) -> pa.Table:
        """Return texts in which words for missing values are null."""
        words = pa.array(self._dialect.missing or (), pa.string())
        for place, field in enumerate(table.schema if len(words) else ()):
            if is_text(field.type):
                blank = pc.is_in(table[place], words.cast(field.type))
                column = pc.if_else(blank, pa.scalar(None, field.type), table[place])
                table = table.set_column(place, field.name, column)
        return table

    def _converted(self, column: Any, known: Any, name: str) -> tuple[Any, Flags]:
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        if not is_text(column.type) or is_text(known):
            if pa.types.is_boolean(column.type) and pa.types.is_floating(known):
                column = pc.cast(column, pa.int8())
            return pc.cast(column, known, safe=False), np.zeros(len(column), bool)
        if pa.types.is_floating(known):
            numbers, wrong = parsed(column, self._dialect, name)
            return pa.array(numbers, from_pandas=True).cast(known), wrong
        texts, codes = distinct(column)
        values = [_value(text, known, formats(self._dialect.dates)) for text in texts]
        wrong = np.array([*(value is None for value in values), False])[codes]
        return pa.array([*values, None], known).take(pa.array(codes)), wrong


def wider(kind: Any) -> Any:
    """Return floats for integers, and microseconds for days and seconds: later rows may be finer."""
    if pa.types.is_integer(kind):
        return pa.float64()
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.unit == "s"):
        return pa.timestamp("us", getattr(kind, "tz", None))
    return kind


def _value(text: str, kind: Any, patterns: Sequence[str]) -> Any:
    """Return a text as a value of a type, by the patterns if it is a time; None if it does not fit."""
    seconds = seconds_of(text.strip(), patterns) if patterns and pa.types.is_timestamp(kind) else np.inf
    try:
        if np.isfinite(seconds):
            return pa.scalar(round(seconds * 1e6), pa.timestamp("us")).cast(kind)
        return pa.scalar(text).cast(kind)
    except pa.ArrowException:
        return None


def _meaning(kind: Any) -> ReadAs:
    if is_number(kind):
        return ReadAs.number
    if pa.types.is_boolean(kind):
        return ReadAs.truth
    return ReadAs.time if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else ReadAs.any


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is numeric."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def not_a(kind: ReadAs, text: Any, column: str, dialect: Dialect) -> str:
    """Return the message for a value of the wrong kind, with the option that would read it."""
    if kind is ReadAs.time:
        return f"given {text!r}, expected {time_in(dialect.dates)}"
    hint = advice(str(text), column, dialect) if kind is ReadAs.number else ""
    return f"given {text!r}, expected {_EXPECTED[kind]}{f' ({hint})' if hint else ''}"


def time_in(order: str) -> str:
    """Return which times a column may hold, with the option that reads others if it is not given.

    Examples
    --------
    >>> time_in("dmy")
    'a number, an ISO date or time, or a date in the order dmy'
    """
    if order != "iso":
        return f"a number, an ISO date or time, or a date in the order {order}"
    return "a number or an ISO date or time (--dates mdy or dmy reads others)"


_EXPECTED = {
    ReadAs.number: "a number",
    ReadAs.text: "text",
    ReadAs.truth: "true or false",
    ReadAs.any: "a value like those in the rows before",
    ReadAs.raw: "a value",
}


def parsed(column: Any, dialect: Dialect, name: str | None = None, *, limits: bool = True) -> tuple[Array, Flags]:
    """Return (numbers, mask of values that are not numbers) of a text column, parsing each distinct text once.

    Unless `limits` are numbers, those such as 90+ are not.
    """
    texts, indices = distinct(column)
    values = [dialect.number(text, name) if limits or without_limit(text) == text else None for text in texts]
    numbers = np.array([*(np.nan if value is None else value for value in values), np.nan])
    failed = np.array([*(value is None for value in values), False])
    return numbers[indices], failed[indices]


def moments(column: Any, order: str = "iso") -> tuple[Array, Flags, bool]:
    """Return (numbers, or seconds since 1970; mask of values that are not times; whether they are dates).

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
    seconds = np.array([*(seconds_of(str(value).strip(), patterns) for value in values), np.nan])[indices]
    wrong = np.isinf(seconds)
    return np.where(wrong, np.nan, seconds), wrong, True


def timed(column: Any, name: str, first: int, order: str = "iso") -> Any:
    """Return a column of times as numbers or time stamps. Raises InputError for the first row that holds neither."""
    times, wrong, dated = moments(column, order)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"row {first + row}: column {name!r}: given {column[row].as_py()!r}, expected {time_in(order)}"
        )
    if not dated:
        return pa.array(times, from_pandas=True)
    micros = np.where(np.isnan(times), 0.0, times * 1e6).round().astype(np.int64)
    return pa.array(micros, pa.int64(), mask=np.isnan(times)).cast(pa.timestamp("us"))


def distinct(column: Any) -> tuple[list[Any], Index]:
    """Return (the distinct values that are present, for each row its position among them, their number if missing)."""
    categories = from_arrow(column)
    return categories.values[:-1], categories.codes


def within(values: Array, name: str, first: int, expected: str, fits: Flags) -> Array:
    """Return the values. Raises InputError for the first row (numbered from `first`) that does not fit."""
    if not fits.all():
        row = int(np.flatnonzero(~fits)[0])
        given = "nothing" if np.isnan(values[row]) else f"{values[row]:.12g}"
        raise InputError(f"row {first + row}: column {name!r}: given {given}, expected {expected}")
    return values


def probabilities(column: Any, name: str, first: int, needed: Flags | None = None) -> Array:
    """Return a column of numbers as probabilities; rows that are not `needed` may have anything.

    Examples
    --------
    >>> probabilities(pa.chunked_array([[0.5, 1.5]]), "p", 1)
    Traceback (most recent call last):
    swapcal.tables.sources.InputError: row 2: column 'p': given 1.5, expected a probability in [0, 1]
    """
    values = floats(column)
    fits = (values >= 0.0) & (values <= 1.0)
    fits |= False if needed is None else ~needed
    expected = "a probability in [0, 1]" + ("" if fits.all() else mistaken(values, name))
    return within(values, name, first, expected, fits)


def mistaken(values: Array, name: str) -> str:
    """Return what numbers seem to be that are not probabilities, with the option that reads percentages.

    Examples
    --------
    >>> mistaken(np.array([31.0, 7.5]), "my score")
    "; they look like percentages: --percent 'my score' divides by 100"
    """
    return likely_mistake(values).replace(", divide them by 100", f": --percent {quote(name)} divides by 100")


def floats(column: Any) -> Array:
    """Return a column of numbers as floats; missing ones are NaN."""
    return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


# Outcomes: one reading of targets everywhere, in words, truth values or numbers.

TRUE = {"true", "yes", "t", "y", "ja", "j", "wahr", "oui", "vrai", "sí", "si"}
FALSE = {"false", "no", "f", "n", "nein", "falsch", "non", "faux"}
"""Truth values in English, and as spreadsheets in German, French and Spanish write them."""
EXPECTED = "expected 0 or 1, true or false, yes or no, or a fraction in [0, 1]"


def outcomes(column: Any, positive: Positive | None = None, decimal: str = ".") -> tuple[Array, Flags]:
    """Return (outcomes in [0, 1], NaN where missing; mask of values that are not outcomes).

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
    """Return outcomes. Raises ValueError naming the first row (numbered from `first`) whose value is not an outcome."""
    y, wrong = outcomes(column, positive, decimal)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"row {first + row}: column {name!r}: given {column[row].as_py()!r}, {expected_in(column)}")
    return y


def expected_in(column: Any) -> str:
    """Return what is expected of outcomes, with the options that read those of this column, if it has a few values.

    Examples
    --------
    >>> expected_in(pa.chunked_array([["good", "bad"]])).removeprefix(EXPECTED)
    ' (--positive bad or --positive good names the value that counts as 1)'
    """
    texts = sorted(text_of(value) for value in distinct(column)[0])
    some = texts if 2 <= len(texts) <= SHOWN else ["VALUE"]
    ways = " or ".join(f"--positive {quote(text)}" for text in some)
    return f"{EXPECTED} ({ways} names the value that counts as 1)"


def _outcome(value: Any, positive: Positive | None, decimal: str) -> float:
    """Return an outcome, NaN for a missing one, infinity for any other value."""
    if positive is not None:
        return float(positive.matches(value))
    word = str(value).strip().lower()
    if word in TRUE or word in FALSE:
        return float(word in TRUE)
    try:
        return number(word, decimal)
    except ValueError:
        return np.inf
