"""Place: how far a followed file was forecast by a saved state, so that no row is forecast twice or lost."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from swapcal.archive import ArchiveError, put_text
from swapcal.tables.dialect import InputError

try:
    import fcntl
except ModuleNotFoundError:  # not on this system, where two commands on one state go unnoticed
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Place:
    """Rows of a file that a state with so many forecasts has gone through, and how long its output then was."""

    forecasts: int
    labels: int
    """learned or held"""
    file: str
    size: int = 0
    rows: int = 0
    earlier: int = 0
    """forecasts of the state before the first row of the file"""
    out: str | None = None
    bytes: int = 0
    begins: str = ""
    """what the file begins with, hashed; empty if not known"""


BEGINNING = 1 << 12
"""Bytes by which a file is known again."""


def beginning(file: str, size: int) -> str:
    """Return a hash of the first bytes of a file that had this size when it was read."""
    with open(file, "rb") as handle:
        return hashlib.sha256(handle.read(min(size, BEGINNING))).hexdigest()


def place_file(state: Path) -> Path:
    """Return where the place of a state is kept."""
    return state.with_name(f"{state.name}.place")


def keep_place(state: Path, place: Place) -> None:
    """Write a place before its state is saved, beside the place of the state that it will replace.

    Whichever of the two states a crash leaves behind, its place is there.
    """
    before = [each for each in _places(state) if each != place][-1:]
    put_text(place_file(state), json.dumps([asdict(each) for each in (*before, place)]))


def find_place(state: Path | None, forecasts: int, labels: int, file: str, out: str | None) -> Place:
    """Return where to go on: the place kept with the state, if it is about this file; else the file's beginning.

    What a state that goes on has written before is kept: its output then grows at the end.
    """
    name, target = _spelt(file), None if out is None else _spelt(out)
    end = _size(target) if forecasts else 0
    fresh = Place(forecasts, labels, name, earlier=forecasts, out=target, bytes=end)
    places = [] if state is None else _places(state)
    if not places or state is None:
        return fresh
    alike = [each for each in places if each.forecasts == forecasts]
    found = next((each for each in reversed(alike) if each.labels <= labels), None)
    if found is None:
        given = " or ".join(f"{each.forecasts:,}" for each in places)
        raise ArchiveError(
            f"{place_file(state)}: given places after {given} forecasts, expected one after {forecasts:,}, as the "
            "state has made; delete it to begin with the first row"
        )
    if found.file != name or file == "-":
        return fresh
    if os.path.getsize(file) < found.size:
        raise InputError(
            f"{file}: given {os.path.getsize(file):,} bytes, expected at least the {found.size:,} it had when the "
            f"state was saved: it was truncated or replaced; delete {place_file(state)} to begin with its first row"
        )
    if found.begins and beginning(file, found.size) != found.begins:
        raise InputError(
            f"{file}: given other rows at its beginning, expected those it had when the state was saved; delete "
            f"{place_file(state)} to begin with its first row"
        )
    return found if found.out == target else Place(**{**asdict(found), "out": target, "bytes": end})


def _places(state: Path) -> list[Place]:
    path = place_file(state)
    if not path.exists() or not state.exists():
        return []
    try:
        return [Place(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise ArchiveError(
            f"{path}: given what is not a readable place ({error}), expected one that --follow saved"
        ) from None


def _size(out: str | None) -> int:
    return os.path.getsize(out) if out is not None and os.path.isfile(out) else 0


def _spelt(file: str) -> str:
    return file if file == "-" else os.path.realpath(file)


@contextmanager
def holding(state: Path | None, doing: str) -> Iterator[None]:
    """Hold a state while it is followed or labelled: another command would overwrite what this one learns."""
    if state is None or fcntl is None:
        yield
        return
    lock = state.with_name(f".{state.name}.lock")
    with open(lock, "a") as held:
        _lock(held, state, doing)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _lock(held: Any, state: Path, doing: str) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(
            f"{state}: given while another command is at work on it, expected {doing} when it has ended; labels of a "
            "stream that is followed can come through the stream itself"
        ) from None
