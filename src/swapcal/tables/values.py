"""Values: which are missing, which number one is, and how it is spelt as a category."""

import datetime
import decimal
import hashlib
import math
import numbers
from typing import Any

import numpy as np

MISSING = "(missing)"
"""Name of the category that holds missing values."""

OTHER = "(other)"
"""Name of the category that holds all values without one of their own."""

_EPOCH = datetime.date(1970, 1, 1).toordinal()


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN, masked or another library's null (not equal to itself, or not a truth)."""
    if value is None or value is np.ma.masked:
        return True
    try:
        return bool(value != value)
    except (TypeError, ArithmeticError):
        return True
    except ValueError:  # an array of truths: not a null, and refused as what it is
        return False


def as_number(value: Any) -> float | None:
    """Return a number, date or time as a float, infinite if it is too large for one; None if it is none of these."""
    if isinstance(value, bool | np.bool_ | np.timedelta64):
        return None
    if isinstance(value, numbers.Real | decimal.Decimal):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value == abs(value) else -math.inf
    if isinstance(value, datetime.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp()
    if isinstance(value, datetime.date):
        return float(value.toordinal() - _EPOCH) * 86400.0
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
    return None


def text_of(value: Any) -> str:
    """Return the category's name, one for all values that mean the same.

    1, 1.0 and numpy's 1 are "1", True and numpy's True "true"; a date is spelt in ISO, and so is a time, in UTC.

    Examples
    --------
    >>> [text_of(value) for value in (1.0, np.float64(1), True, "True", np.datetime64("2024-02-29T12:00"))]
    ['1', '1', 'true', 'True', '2024-02-29T12:00:00']
    """
    if isinstance(value, str):
        return letters(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return moment.isoformat().removesuffix("T00:00:00")
    number = as_number(value) if isinstance(value, numbers.Real) else None
    return str(int(number)) if number is not None and number.is_integer() else str(value)


def letters(name: Any) -> str:
    """Return a name as Python's own text: of an Enum of texts the text, which str() need not give."""
    return str.__str__(name) if isinstance(name, str) else str(name)


def group_name(text: str) -> str:
    """Return what a text is called beside the names for missing and other values: quoted if it reads like them.

    Examples
    --------
    >>> [group_name(text) for text in ("Rome", "(missing)", '"(missing)"')]
    ['Rome', '"(missing)"', '""(missing)""']
    """
    return f'"{text}"' if text.strip('"') in (MISSING, OTHER) else text


def unquoted(name: str) -> str | None:
    """Return the text that `group_name` calls so; None if the name is that of missing values.

    Examples
    --------
    >>> [unquoted(name) for name in ("Rome", "(missing)", '"(missing)"', '"Rome"')]
    ['Rome', None, '(missing)', '"Rome"']
    """
    if name == MISSING:
        return None
    return name[1:-1] if name.strip('"') in (MISSING, OTHER) else name


def text_key(*words: str) -> int:
    """Return a 64-bit key of some words, the same in every process and on every machine; never 0.

    Examples
    --------
    >>> text_key("a", "b") == text_key("ab")
    False
    """
    text = "\x1f".join(words).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") or 1


def has_bytes(text: str) -> bool:
    """Tell whether text can be encoded; half of a surrogate pair cannot, and no key could be made of it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unmasked(values: Any) -> Any:
    """Return values with None where an array is masked; its data there mean nothing."""
    if not np.ma.isMaskedArray(values):
        return values
    plain = np.array(np.ma.getdata(values), dtype=object)
    plain[np.ma.getmaskarray(values)] = None
    return plain
