"""Bytes of a file, a pipe or standard input: unpacked, as UTF-8, growing or not."""

import codecs
import gzip
import io
import os
import re
import select
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any


class InputError(ValueError):
    """Something about a file that the user must decide."""


AUTO = "auto"
"""In the place of a setting: found in the file."""

# Growing: bytes that keep coming, from a pipe or at the end of a file.

GROWN_CHUNK = 1 << 20
PAUSE = 0.1  # seconds between two looks


def grown(handle: Any, file: str, until: Callable[[], bool]) -> Iterator[bytes]:
    """Yield what is in a file and what is written to it later, empty pieces where it has no more for now.

    A file that shrinks, or in whose place another one appears, is refused after all of its bytes are given out.
    """
    while not until():
        if piece := handle.read(GROWN_CHUNK):
            yield piece
            continue
        yield b""
        _check_same(handle, file)
        time.sleep(PAUSE)


def _check_same(handle: Any, file: str) -> None:
    ours = os.fstat(handle.fileno())
    if ours.st_size < handle.tell():
        raise InputError(
            f"{file}: given {ours.st_size:,} bytes after {handle.tell():,} were read: it was truncated, expected it to "
            "grow only"
        )
    try:
        theirs = os.stat(file)
    except FileNotFoundError:
        raise InputError(f"{file}: given no such file any more, expected it to grow; all its rows were read") from None
    if (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino) and ours.st_size == handle.tell():
        raise InputError(f"{file}: given another file in its place, expected it to grow; all rows of the old were read")


def piped(handle: Any, until: Callable[[], bool], *, idle: bool) -> Iterator[bytes]:
    """Yield what comes through a pipe as it comes; with `idle`, an empty piece where there is no more for now."""
    try:
        number = handle.fileno()
        select.select([number], [], [], 0)
    except (OSError, ValueError):  # not a pipe that can be waited for, on this system
        yield from iter(lambda: handle.read(GROWN_CHUNK), b"")
        return
    waited = False
    while not until():
        if not select.select([number], [], [], PAUSE if waited or not idle else 0)[0]:
            if idle and not waited:
                yield b""
            waited = True
            continue
        waited = False
        piece = os.read(number, GROWN_CHUNK)
        if not piece:
            return
        yield piece


# Opened: the bytes of a file or of standard input, unpacked, as UTF-8, and what kind of file they are.

CHUNK = 1 << 20
HEAD = 1 << 20
GZIP, PARQUET, BOM = b"\x1f\x8b", b"PAR1", codecs.BOM_UTF8
STRANGERS = {
    b"PK\x03\x04": "a zip archive or a workbook, expected CSV, JSONL or Parquet; save the sheet as CSV",
    b"BZh": "bzip2, expected gzip or no compression",
    b"\xfd7zXZ": "xz, expected gzip or no compression",
    b"\x28\xb5\x2f\xfd": "zstandard, expected gzip or no compression",
    b"ARROW1": "an Arrow IPC file, expected CSV, JSONL or Parquet",
    codecs.BOM_UTF16_LE: "UTF-16; --encoding utf-16 reads it",
    codecs.BOM_UTF16_BE: "UTF-16; --encoding utf-16 reads it",
}


class Opened:
    """A file open for reading from its beginning; `head` is its first mebibyte of text, or its magic bytes.

    `until`, if given, is called while standard input or a growing file has no new data, and ends the reading.
    """

    def __init__(
        self, file: str, encoding: str = "utf-8", until: Callable[[], bool] | None = None, *, follow: bool = False
    ) -> None:
        self.name = "standard input" if file == "-" else file
        self._handle = sys.stdin.buffer if file == "-" else _open(file)
        self._size = 0 if file == "-" else os.fstat(self._handle.fileno()).st_size
        self._until = until or (lambda: False)
        self.follows = follow
        try:
            self._begin(file, encoding)
        except BaseException:
            self.close()
            raise

    def _pieces(self, file: str) -> Iterator[bytes]:
        if self.follows and file != "-":
            return grown(self._handle, file, self._until)
        if file == "-":
            return piped(self._handle, self._until, idle=self.follows)
        return iter(lambda: self._handle.read(CHUNK), b"")

    def _begin(self, file: str, encoding: str) -> None:
        raw = self._pieces(file)
        first = next(filter(None, raw), b"")
        raw = chain([first], raw)
        self.is_parquet = first.startswith(PARQUET)
        if self.follows and (self.is_parquet or first.startswith(GZIP)):
            raise InputError(f"{self.name}: given Parquet or gzip with --follow, expected text that grows by lines")
        self.encoding = "utf-8" if encoding == AUTO else encoding
        if not self.is_parquet:
            raw = self._unpacked(raw, first)
            first = next(raw, b"") if self.follows or encoding != AUTO else ahead(raw, HEAD)
            if encoding == AUTO and not self.follows:
                self.encoding = encoding_of(first)
            self._refuse_strangers(first, self.encoding)
            raw = as_utf8(chain([first], raw), self.encoding, self.name)
        self.head, self._later = self._started(raw), raw
        if not self.head.strip():
            raise InputError(f"{self.name}: given an empty file, expected a header and rows")

    def _started(self, raw: Iterator[bytes]) -> bytes:
        """Return the first mebibyte; of what grows, what is there, but a line at least."""
        head, size = [b""], 0
        for chunk in raw:
            head.append(chunk)
            size += len(chunk)
            if size >= HEAD or (not chunk and b"\n" in b"".join(head).lstrip()):
                break
        return b"".join(head)

    def _unpacked(self, raw: Iterator[bytes], first: bytes) -> Iterator[bytes]:
        if not first.startswith(GZIP):
            if self.name.endswith(".gz") and first:
                raise InputError(f"{self.name}: given the name of a gzip file and something else inside, expected gzip")
            return raw
        packed = gzip.GzipFile(fileobj=io.BufferedReader(Chunks(raw)))
        return _checked(iter(lambda: packed.read(CHUNK), b""), self.name)

    def _refuse_strangers(self, first: bytes, encoding: str) -> None:
        if encoding != "utf-8":
            return
        for magic, what in STRANGERS.items():
            if first.startswith(magic):
                raise InputError(f"{self.name}: given {what}")
        if first.startswith(PARQUET):
            raise InputError(f"{self.name}: given Parquet in gzip, expected Parquet alone, which compresses itself")
        if self.name.endswith((".parquet", ".pq")):
            raise InputError(
                f"{self.name}: given the name of a Parquet file and something else inside, expected Parquet"
            )
        if b"\0" in first:
            line = 1 + first[: first.index(b"\0")].count(b"\n")
            raise InputError(f"{self.name}: given a binary file (line {line}), expected CSV, JSONL or Parquet")

    @property
    def is_whole(self) -> bool:
        """Whether the head may be all there is."""
        return len(self.head) < HEAD

    def share(self) -> float | None:
        """Return the share of the file that was read so far, if its size is known."""
        return min(1.0, self._handle.tell() / self._size) if self._size else None

    def pieces(self, skip: int = 0) -> Iterator[bytes]:
        """Yield the text after its first bytes, empty pieces where no more is available yet; can be read once."""
        yield self.head[skip:]
        if self.follows and self.is_whole:
            yield b""
        yield from self._later

    def stopped(self) -> bool:
        """Tell whether the reading was ended by `until` rather than by the end of the text."""
        return self._until()

    def seekable(self) -> Any:
        """Return the file itself, or standard input in memory: what Parquet needs."""
        if self._handle is sys.stdin.buffer or not self._handle.seekable():
            return io.BytesIO(self.head + b"".join(self._later))
        self._handle.seek(0)
        return self._handle

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._handle is not sys.stdin.buffer:
            self._handle.close()


class Chunks(io.RawIOBase):
    """Pieces of bytes as one file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as one piece goes."""
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def ahead(pieces: Iterator[bytes], size: int) -> bytes:
    """Return the first bytes, as many pieces as make up this size."""
    taken, length = [], 0
    for piece in pieces:
        taken.append(piece)
        length += len(piece)
        if length >= size:
            break
    return b"".join(taken)


WESTERN = frozenset(
    "äöüÄÖÜßéèêëàâáãåæçñíìîïóòôõøúùûýÿÉÈÊËÀÁÂÃÅÆÇÑÌÍÎÏÒÓÔÕØÙÚÛÝœŒšŠžŽ€£¥§°²³µ«»„“”‚‘’–—…•·±×®©™ªº¡¿´½¼\xa0"
)
_ODD = re.compile(rb"[\x80-\xff]{3}")
_MISREAD = re.compile("[a-zA-Z]{2}[³¿]|[³¿¼½][a-z]")
"""Letters of Polish and other languages that would be signs inside words."""


def encoding_of(head: bytes) -> str:
    """Return the encoding of a text's beginning: UTF-8, UTF-16 with its mark, or Windows' western one.

    The last is found only if every byte beyond ASCII is one of its usual letters and signs and few stand together;
    otherwise UTF-8 is returned, and reading names the line that is not in it.

    Examples
    --------
    >>> [encoding_of(text) for text in ("Köln 5 €".encode(), "Köln 5 €".encode("cp1252"), "Москва".encode("cp1251"))]
    ['utf-8', 'cp1252', 'utf-8']
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return "utf-8"
    except UnicodeDecodeError:
        text = head.decode("cp1252", errors="replace")
    beyond = {letter for letter in text if letter > "\x7f"}
    doubtful = not beyond <= WESTERN or _ODD.search(head) or _MISREAD.search(text) or b"\0" in head
    return "utf-8" if doubtful else "cp1252"


def as_utf8(pieces: Iterator[bytes | None], encoding: str, name: str) -> Iterator[bytes]:
    """Yield the pieces as UTF-8 without a byte order mark. Raises ValueError naming a line not in the encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, start = 1, True
    for piece in chain(pieces, [None]):
        if piece == b"":  # nothing for now
            yield piece
            continue
        end, piece = piece is None, piece or b""
        try:
            text = decoder.decode(piece, end)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            hint = "; --encoding latin-1 or cp1252 may read it" if encoding == "utf-8" else ""
            raise InputError(
                f"{name}: line {line}: given the byte 0x{error.object[error.start]:02x}, expected {encoding}{hint}"
            ) from None
        except UnicodeError as error:  # UTF-16 and UTF-32 of unknown byte order
            raise InputError(f"{name}: line {line}: given {error}, expected {encoding}") from None
        line += piece.count(b"\n")
        out = piece if encoding == "utf-8" else text.encode()
        if start and piece:
            out, start = out.removeprefix(BOM), False
        if out:
            yield out


def _open(file: str) -> Any:
    try:
        handle = open(file, "rb")  # noqa: SIM115 - closed by `Opened`
    except FileNotFoundError:
        raise InputError(f"{file}: file not found") from None
    except IsADirectoryError:
        raise InputError(f"{file}: given a folder, expected a file") from None
    except OSError as error:
        raise InputError(
            f"{file}: given a file that cannot be read ({error.strerror}), expected one that can"
        ) from None
    if stat.S_ISDIR(os.fstat(handle.fileno()).st_mode):
        handle.close()
        raise InputError(f"{file}: given a folder, expected a file")
    return handle


def _checked(pieces: Iterator[bytes], name: str) -> Iterator[bytes]:
    try:
        yield from pieces
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name}: given damaged gzip ({error}), expected it whole") from None
