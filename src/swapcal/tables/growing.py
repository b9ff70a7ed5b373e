"""Growing: bytes that keep coming, from a pipe or at the end of a file."""

import os
import select
import time
from collections.abc import Callable, Iterator
from typing import Any

from swapcal.tables.dialect import InputError

CHUNK = 1 << 20
PAUSE = 0.1  # seconds between two looks


def grown(handle: Any, file: str, until: Callable[[], bool]) -> Iterator[bytes]:
    """Yield what is in a file and what is written to it later, empty pieces where it has no more for now.

    A file that shrinks, or in whose place another one appears, is refused after all of its bytes are given out.
    """
    while not until():
        if piece := handle.read(CHUNK):
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
        yield from iter(lambda: handle.read(CHUNK), b"")
        return
    waited = False
    while not until():
        if not select.select([number], [], [], PAUSE if waited or not idle else 0)[0]:
            if idle and not waited:
                yield b""
            waited = True
            continue
        waited = False
        piece = os.read(number, CHUNK)
        if not piece:
            return
        yield piece
