"""Dialect: how a text file is spelt, as far as it cannot be seen from the file itself."""

import codecs
from dataclasses import dataclass

DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
ORDERS = ("iso", "mdy", "dmy")


class InputError(ValueError):
    """Something about a file that the user must decide."""


@dataclass(frozen=True)
class Dialect:
    r"""Delimiter (None: found in the file), decimal point, encoding and order of day and month.

    Examples
    --------
    >>> Dialect(delimiter="tab").delimiter
    '\t'
    >>> Dialect(delimiter=",", decimal=",")
    Traceback (most recent call last):
    swapcal.tables.dialect.InputError: --decimal: given ',', which is the delimiter too, expected another
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    dates: str = "iso"

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", DELIMITERS.get(self.delimiter, self.delimiter))
            if len(self.delimiter) != 1 or self.delimiter in '"\n\r':
                raise InputError(f"--delimiter: given {self.delimiter!r}, expected one character, or tab")
        if self.decimal not in (".", ","):
            raise InputError(f"--decimal: given {self.decimal!r}, expected . or ,")
        if self.decimal == self.delimiter:
            raise InputError(f"--decimal: given {self.decimal!r}, which is the delimiter too, expected another")
        if self.dates not in ORDERS:
            raise InputError(f"--dates: given {self.dates!r}, expected one of {', '.join(ORDERS)}")
        try:
            "".encode(self.encoding)  # codecs has some that are not of text
            object.__setattr__(self, "encoding", codecs.lookup(self.encoding).name)
        except (LookupError, UnicodeError):
            raise InputError(
                f"--encoding: given {self.encoding!r}, expected one such as utf-8, latin-1 or cp1252"
            ) from None
