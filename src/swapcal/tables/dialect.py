"""Dialect: how a text file spells numbers, dates and missing values; given, or detected from an unambiguous sample."""

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from shlex import quote
from typing import Any, NamedTuple

from swapcal.tables.sources import AUTO, InputError

DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
ORDERS = ("iso", "mdy", "dmy")
THOUSANDS = {"none": "", "space": " ", "apostrophe": "'", "": "", ".": ".", ",": ",", " ": " ", "'": "'"}
_ALIKE = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'", "\u2212": "-"})
"""Characters that typesetters use for a space, an apostrophe and a minus sign."""


@dataclass(frozen=True)
class Dialect:
    r"""How a text file is written; "auto" (None for the delimiter and the missing words) is detected from the file.

    Parameters
    ----------
    delimiter : one character between fields
    decimal, thousands : the decimal point, and what stands between groups of three digits; "" for nothing
    encoding : that of the bytes
    dates : order of day and month in dates that are not ISO
    missing : words for missing values, in addition to those of every file such as NA
    percent, currency : columns of percentages, and of amounts with a currency's sign

    Examples
    --------
    >>> Dialect(delimiter="tab").delimiter
    '\t'
    >>> Dialect(delimiter=",", decimal=",")
    Traceback (most recent call last):
    swapcal.tables.sources.InputError: --decimal: given ',', which is the delimiter too, expected another
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    dates: str = "iso"
    thousands: str = ""
    missing: tuple[str, ...] | None = ()
    percent: tuple[str, ...] = ()
    currency: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", DELIMITERS.get(self.delimiter, self.delimiter))
            if len(self.delimiter) != 1 or self.delimiter in '"\n\r':
                raise InputError(f"--delimiter: given {self.delimiter!r}, expected one character, or tab")
        if self.decimal not in (".", ",", AUTO):
            raise InputError(f"--decimal: given {self.decimal!r}, expected . or ,")
        if self.decimal == self.delimiter:
            raise InputError(f"--decimal: given {self.decimal!r}, which is the delimiter too, expected another")
        if self.dates not in (*ORDERS, AUTO):
            raise InputError(f"--dates: given {self.dates!r}, expected one of {', '.join(ORDERS)}")
        self._check_thousands()
        self._check_encoding()

    def _check_thousands(self) -> None:
        if self.thousands == AUTO:
            return
        if self.thousands not in THOUSANDS:
            raise InputError(f"--thousands: given {self.thousands!r}, expected . or , or space, apostrophe or none")
        object.__setattr__(self, "thousands", THOUSANDS[self.thousands])
        if self.thousands and self.thousands == self.decimal:
            raise InputError(f"--thousands: given {self.thousands!r}, which is the decimal point, expected another")

    def _check_encoding(self) -> None:
        if self.encoding == AUTO:
            return
        try:
            "".encode(self.encoding)  # codecs has some that are not of text
            object.__setattr__(self, "encoding", codecs.lookup(self.encoding).name)
        except (LookupError, UnicodeError):
            raise InputError(
                f"--encoding: given {self.encoding!r}, expected one such as utf-8, latin-1 or cp1252"
            ) from None

    def settled(self) -> "Dialect":
        """Return the dialect with the default spelling for every setting that is to be detected."""
        usual = {"decimal": "," if self.thousands == "." else ".", "encoding": "utf-8", "dates": "iso", "thousands": ""}
        chosen: dict[str, Any] = {name: value for name, value in usual.items() if getattr(self, name) == AUTO}
        return replace(self, **chosen, missing=self.missing or ())

    @property
    def is_open(self) -> bool:
        """Whether a setting other than the delimiter and the encoding is to be detected."""
        return AUTO in (self.decimal, self.thousands, self.dates) or self.missing is None

    def number(self, text: str, column: str | None = None) -> float | None:
        """Return the number that a text spells; None if it is not a number.

        Examples
        --------
        >>> german = Dialect(decimal=",", thousands=".", percent=("rate",), currency=("pay",))
        >>> german.number("1.234,56"), german.number("415,01"), german.number("12.5"), german.number("12,5 %", "rate")
        (1234.56, 415.01, None, 0.125)
        >>> german.number("1.234,00 €", "pay"), german.number("EUR -3,50", "pay"), german.number("5 €")
        (1234.0, -3.5, None)
        >>> german.number("90+"), german.number("< 0,5"), german.number("A+")
        (90.0, 0.5, None)
        """
        body, factor = without_limit(text.translate(_ALIKE).strip()), 1.0
        if column in self.currency:
            body = _amount(body)
        if column in self.percent:
            body, factor = body.removesuffix("%").rstrip(), 0.01
        value = spelt(body, self.decimal, self.thousands)
        return None if value is None else value * factor

    def as_written(self) -> str:
        """Return the differences from the default spelling, in words; empty without any.

        Examples
        --------
        >>> Dialect(";", ",", "cp1252", "dmy", "", ("k.A.",)).as_written()
        "; as separator, , as decimal point, 'k.A.' as missing, dates as day.month.year, Latin-1 (cp1252)"
        """
        marks = {"\t": "tab", " ": "space", "'": "apostrophe"}
        words = [
            f"{marks.get(self.delimiter, self.delimiter)} as separator" if self.delimiter not in (None, ",") else "",
            ", as decimal point" if self.decimal == "," else "",
            f"{marks.get(self.thousands, self.thousands)} between thousands" if self.thousands else "",
            f"{' and '.join(map(repr, self.missing))} as missing" if self.missing else "",
            {"dmy": "dates as day.month.year", "mdy": "dates as month/day/year"}.get(self.dates, ""),
            {"utf-8": "", "cp1252": "Latin-1 (cp1252)"}.get(self.encoding, self.encoding),
        ]
        return ", ".join(filter(None, words))


# Numbers: digits in groups of three or none, a decimal point, an exponent.


@cache
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    grouped = rf"[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+|" if thousands else ""
    point = re.escape(decimal)
    return re.compile(rf"[+-]?\s*(?:(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?")


SPELLINGS = [(".", ""), (".", ","), (",", ""), (",", "."), (".", "'"), (",", " "), (".", " "), (",", "'")]
"""Decimal points and separators of thousands that are looked for, the plainest first."""
_SIGNS = r"[$€£¥₹₽₺₩₪₫₴₦฿₱]|R\$|kr\.?|zł|Kč|Ft|lei|CHF|EUR|USD|GBP|JPY|SEK|NOK|DKK|PLN|CZK|HUF|AUD|CAD|INR|CNY|BRL"
_LIMIT = re.compile(r"(?:[<>]=?|[≤≥])\s*(.*\d.*)|(.*\d)\s*\+")
_CURRENCY = re.compile(rf"([+-]?)\s*(?:{_SIGNS})\s*(.*)|(.*?)\s*(?:{_SIGNS})")


def without_limit(body: str) -> str:
    """Return a text without the mark of a limit, such as that of 90+ or <5, beyond which values are not distinguished.

    Examples
    --------
    >>> [without_limit(text) for text in ("90+", "<5", ">= 7", "-3", "c++")]
    ['90', '5', '7', '-3', 'c++']
    """
    match = _LIMIT.fullmatch(body)
    return body if match is None else match[1] or match[2]


def spelt(body: str, decimal: str, thousands: str) -> float | None:
    """Return the number that a text spells with this decimal point and separator of thousands, or None.

    Examples
    --------
    >>> spelt("1,234", ".", ","), spelt("1,234", ",", ""), spelt("12,34", ".", ","), spelt("1e3", ".", "")
    (1234.0, 1.234, None, 1000.0)
    """
    if thousands and thousands in body:
        if not _pattern(decimal, thousands).fullmatch(body):
            return None
        body = body.replace(thousands, "")
    if decimal != ".":
        if "." in body:
            return None
        body = body.replace(decimal, ".")
    try:
        return None if "_" in body else float(body)  # 1_000 is Python's spelling alone
    except ValueError:
        return None


def _amount(body: str) -> str:
    """Return an amount without its currency, with its sign in front: 5- and (5) are -5 in ledgers."""
    match = _CURRENCY.fullmatch(body)
    if match:
        body = (match[1] or "") + match[2] if match[2] is not None else match[3]
    if body.startswith("(") and body.endswith(")"):
        return f"-{_amount(body[1:-1].strip())}"
    return f"-{body[:-1]}" if body.endswith("-") else body


def advice(text: str, column: str, dialect: Dialect) -> str:
    """Return the options that would read a text as a number, or as missing, except those already given.

    Examples
    --------
    >>> advice("1,5", "x", Dialect()), advice("1,5", "x", Dialect(decimal=",")), advice("1,234", "x", Dialect(";"))
    ('--decimal , reads it', '', '--thousands , or --decimal , reads it')
    >>> advice("5 %", "x", Dialect()), advice("k.A.", "x", Dialect())
    ('--percent x reads it', '--missing k.A. takes it for missing')
    >>> advice("n/k", "x", Dialect(missing=("k.A.",)))
    '--missing k.A.,n/k takes it for missing'
    """
    body, sign = _unsigned(text.translate(_ALIKE).strip())
    own = (dialect.decimal, dialect.thousands)
    marked = f"--{sign} {quote(column)}" if sign and column not in getattr(dialect, sign) else ""
    if spelt(body, *own) is not None:
        return f"{marked} reads it" if marked else ""
    able = [pair for pair in SPELLINGS if pair[0] != dialect.delimiter and spelt(body, *pair) is not None]
    plainest = [pair for pair in able if not any(_is_part(other, pair) for other in able)]
    ways = [" ".join(filter(None, [marked, *_changes(own, pair)])) for pair in plainest]
    if ways:
        return f"{' or '.join(ways)} reads it"
    words = ",".join([*(dialect.missing or ()), text.strip()])  # an option given takes the place of what was found
    return f"--missing {quote(words)} takes it for missing" if len(text.split()) == 1 else ""


def _is_part(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return whether a spelling is the other one without separators of thousands."""
    return one[0] == other[0] and not one[1] and bool(other[1])


def _changes(own: tuple[str, str], other: tuple[str, str]) -> list[str]:
    names = {" ": "space", "'": "apostrophe", "": "none"}
    pairs = zip(("--decimal", "--thousands"), own, other, strict=True)
    return [f"{option} {names.get(new, new)}" for option, old, new in pairs if old != new]


# Detection: the settings that a sample of the fields determines.

WORDS = {
    "k.a.", "k. a.", "n.a.", "n. a.", "keine angabe", "unbekannt", "unknown", "missing", "-", "--", "–", "—", "?", ".",
    "..", "...", "#nv", "#n/v", "#wert!", "#value!", "#div/0!", "#ref!", "#null!", "(null)", "<na>", "\\n", "n.v.",
    "s/d", "n.d.", "n.c.", "b.d.", "not available", "not applicable", "none",
}  # fmt: skip
"""Words that mean a missing value where they stand among numbers, in lower case."""
PLAIN_NULLS = {"", "na", "n/a", "nan", "null", "#n/a", "#na", "-nan", "#n/a n/a"}
"""Spellings that the reader of text files always takes for missing."""
MOSTLY = 0.5
DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(?:\d{4}|\d{2})(?:[ T]+\d{1,2}:\d{2}(?::\d{2})?(?: [AP]M)?)?")


class Sample(NamedTuple):
    """Some fields of a column by kind: numbers in any spelling, dates, words; and a sign that all numbers have."""

    numbers: list[str]
    words: list[str]
    dates: list[str]
    sign: str
    limits: int
    """how many of the numbers are limits, such as 90+"""

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Sample":
        """Sort the distinct texts of a column by what they look like."""
        present = {text.translate(_ALIKE).strip() for text in texts}
        numbers, words, dates, signs, limits = list[str](), list[str](), list[str](), set[str](), 0
        for text in present - {word for word in present if word.lower() in PLAIN_NULLS}:
            body, sign = _unsigned(without_limit(text))
            if any(_pattern(*pair).fullmatch(body) for pair in SPELLINGS):
                numbers.append(body)
                signs.add(sign)
                limits += without_limit(text) != text
            else:
                (dates if DATE.fullmatch(text) else words).append(text)
        return cls(numbers, words, dates, signs.pop() if len(signs) == 1 else "", limits)

    @property
    def is_numeric(self) -> bool:
        """Whether most of the texts are numbers without a limit: <20, 20-40 and 40+ are three classes."""
        every = len(self.numbers) + len(self.words) + len(self.dates)
        return len(self.numbers) - self.limits > MOSTLY * every

    @property
    def is_coded(self) -> bool:
        """Whether all numbers are written in digits only, some with a leading zero, as postcodes are."""
        return (
            self.is_numeric
            and not self.sign
            and all(map(str.isdecimal, self.numbers))
            and any(len(number) > 1 and number.startswith("0") for number in self.numbers)
        )

    @property
    def is_dated(self) -> bool:
        """Whether all texts are dates, apart from words for missing values."""
        return bool(self.dates) and not self.numbers and all(word.lower() in WORDS for word in self.words)


def _unsigned(text: str) -> tuple[str, str]:
    if text.endswith("%"):
        return text[:-1].rstrip(), "percent"
    body = _amount(text)
    return body, "currency" if body != text and _CURRENCY.fullmatch(text.strip("()")) else ""


@dataclass(frozen=True)
class Detected:
    """A dialect found in a sample, and the columns that seem to need an option, by that option's name."""

    dialect: Dialect
    seem: Mapping[str, str] = field(default_factory=dict)
    """percent, currency, dates, zeros (leading ones) or limits"""
    notes: tuple[str, ...] = ()
    """what was left out above the rows, in words"""


def detect(columns: Mapping[str, Sequence[str]], given: Dialect) -> Detected:
    """Return the given dialect, with open settings detected from some fields of each column where they are unambiguous.

    Examples
    --------
    >>> columns = {"pay": ["1.234,56", "415,01", "k.A."], "day": ["31.12.2023", "01.01.2024"], "rate": ["5 %"]}
    >>> detected = detect(columns, Dialect(";", "auto", "utf-8", "auto", "auto", None))
    >>> detected.dialect.as_written()
    "; as separator, , as decimal point, . between thousands, 'k.A.' as missing, dates as day.month.year"
    >>> detected.seem
    {'rate': 'percent'}
    """
    samples = {name: Sample.of(texts) for name, texts in columns.items()}
    numeric = [sample for sample in samples.values() if sample.is_numeric]
    settings: dict[str, Any] = {}
    if AUTO in (given.decimal, given.thousands):
        numbers = {number for sample in numeric for number in sample.numbers}
        settings |= dict(zip(("decimal", "thousands"), _spelling(numbers, given), strict=True))
    if given.missing is None:
        words = {word for sample in numeric for word in sample.words if word.lower() in WORDS}
        settings["missing"] = tuple(sorted(words))
    orders = {name: _orders(sample.dates) for name, sample in samples.items() if sample.is_dated}
    if given.dates == AUTO:
        every = set(ORDERS[1:]).intersection(*orders.values()) if orders else set()
        settings["dates"] = every.pop() if len(every) == 1 else "iso"
    dialect = replace(given, **settings).settled()
    seem = {name: "limits" for name, sample in samples.items() if sample.is_numeric and sample.limits}
    seem |= {name: sample.sign for name, sample in samples.items() if sample.is_numeric and sample.sign}
    seem |= {name: "zeros" for name, sample in samples.items() if sample.is_coded}
    if dialect.dates == "iso":
        seem |= dict.fromkeys(orders, "dates")
    known = {*given.percent, *given.currency}
    return Detected(dialect, {name: option for name, option in seem.items() if name not in known})


def _spelling(numbers: Iterable[str], given: Dialect) -> tuple[str, str]:
    """Return the decimal point and the separator of thousands that read all numbers, if only one way does."""
    candidates = [
        (decimal, thousands)
        for decimal, thousands in SPELLINGS
        if given.decimal in (decimal, AUTO) and given.thousands in (thousands, AUTO) and decimal != given.delimiter
    ]
    every = sorted(numbers)
    able = [pair for pair in candidates if all(_pattern(*pair).fullmatch(text) for text in every)]
    if not able or able[0] == (".", ""):  # the plain spelling needs no proof
        return (given.decimal, given.thousands) if not able else able[0]
    read = {tuple(spelt(text, *pair) for text in every) for pair in able}
    return able[0] if len(read) == 1 else (given.decimal, given.thousands)


def _orders(dates: Iterable[str]) -> set[str]:
    """Return the orders of day and month that all dates allow; points stand between day, month and year only."""
    orders = {"dmy", "mdy"}
    for match in map(DATE.fullmatch, dates):
        if match is not None:
            first, second = int(match[1]), int(match[3])
            orders -= {"mdy"} if first > 12 or match[2] == "." else set()
            orders -= {"dmy"} if second > 12 else set()
    return orders
