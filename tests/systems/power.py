"""A disk that can lose power: every write, truncation, deletion and sync of SQLite's files, and what a crash can leave.

A write is on the disk for certain once its file was synced after it. Until then any subset of the unsynced operations
may have reached it, the last of them torn at a sector. A file that was deleted and made again is another file: writes
to the new one imply that the old one is gone. Shared memory is not a disk.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import numpy as np

SECTOR = 512


class Change(NamedTuple):
    """One operation on a file: bytes at an offset, a truncation to an offset (no bytes), or a deletion (offset −1)."""

    file: str
    offset: int
    data: bytes | None

    def on(self, files: dict[str, bytearray]) -> None:
        """Carry it out."""
        if self.offset < 0:
            files.pop(self.file, None)
            return
        content = files.setdefault(self.file, bytearray())
        if self.data is None:
            del content[self.offset :]
            return
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


class Disk:
    """What is on the disk for certain, and the operations since that may or may not be."""

    def __init__(self) -> None:
        self.durable: dict[str, bytearray] = {}
        self.pending: list[Change] = []
        self.new: set[str] = set()
        """files made since their folder was synced"""
        self.before_sync: Callable[[], None] | None = None
        """called before each sync, where a crash leaves the most open"""

    def change(self, change: Change) -> None:
        """Note an operation."""
        self.pending.append(change)

    def sync(self, file: str) -> None:
        """Make everything that was done to a file certain; with the first sync of a new one, deletions too.

        SQLite syncs the folder together with a new journal or log, so that its name, and the end of others, is certain.
        """
        if self.before_sync is not None:
            self.before_sync()
        folder = file in self.new
        certain = [change.file == file or (folder and change.offset < 0) for change in self.pending]
        for change, sure in zip(self.pending, certain, strict=True):
            if sure:
                change.on(self.durable)
        self.pending = [change for change, sure in zip(self.pending, certain, strict=True) if not sure]
        self.new.discard(file)

    def left_by_a_crash(self, rng: np.random.Generator) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Yield (name, files) of some disks that a power loss now can leave."""
        many = len(self.pending)
        cut = int(rng.integers(many + 1))
        torn = self.pending[:cut]
        if torn and torn[-1].data:
            last = torn[-1]
            assert last.data is not None
            sectors = int(rng.integers(len(last.data) // SECTOR + 1))
            torn[-1] = last._replace(data=last.data[: sectors * SECTOR])
        some = [change for change, kept in zip(self.pending, self._subset(rng), strict=True) if kept]
        for name, changes in (("dropped", []), ("all", self.pending), ("torn", torn), ("some", some)):
            files = {file: bytearray(content) for file, content in self.durable.items()}
            for change in changes:
                change.on(files)
            yield name, {file: bytes(content) for file, content in files.items()}

    def _subset(self, rng: np.random.Generator) -> list[bool]:
        """Draw operations that reached the disk, with every deletion that one of them implies."""
        kept = (rng.random(len(self.pending)) < 0.5).tolist()
        later: set[str] = set()
        for k in reversed(range(len(kept))):
            kept[k] |= self.pending[k].offset < 0 and self.pending[k].file in later
            later |= {self.pending[k].file} if kept[k] else set()
        return kept


class LoggedFile(apsw.VFSFile):
    """A file whose operations are noted, and may fail."""

    def __init__(self, vfs: "LoggingVFS", name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._vfs, self._name = vfs, os.path.basename(path or "")
        vfs.disk.new |= set() if path and os.path.exists(path) else {self._name}
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._vfs.fault("write", lambda: super(LoggedFile, self).xWrite(data[: len(data) // 2], offset))
        super().xWrite(data, offset)
        self._vfs.disk.change(Change(self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        self._vfs.fault("truncate")
        super().xTruncate(size)
        self._vfs.disk.change(Change(self._name, size, None))

    def xSync(self, flags: int) -> None:
        self._vfs.fault("sync")
        super().xSync(flags)
        self._vfs.disk.sync(self._name)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._vfs.fault("read")
        return bytes(super().xRead(amount, offset))


FAULTS: dict[str, type[apsw.Error]] = {"error": apsw.IOError, "full": apsw.FullError, "short": apsw.IOError}


class LoggingVFS(apsw.VFS):
    """The default file system of SQLite while it is registered; the `fails`-th operation fails, if there is one."""

    def __init__(self, disk: Disk, *, fails: int = -1, how: str = "error") -> None:
        self.disk, self.calls = disk, 0
        self._fails, self._how = fails, how
        super().__init__(f"swapcal-power-{id(self)}", "unix", makedefault=True)

    def fault(self, operation: str, half: Callable[[], None] | None = None) -> None:
        """Count an operation; raise if it is the one that fails (a short write leaves half of its bytes)."""
        self.calls += 1
        if self.calls - 1 == self._fails:
            if self._how == "short" and half is not None:
                half()
            raise FAULTS[self._how](f"planted: {operation} number {self._fails}")

    def xOpen(self, name: Any, flags: list[int]) -> LoggedFile:
        return LoggedFile(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        file = os.path.basename(name)
        self.disk.change(Change(file, -1, None))
        if sync:
            self.disk.sync(file)


def put(files: dict[str, bytes], folder: Path) -> None:
    """Write the files of a disk into an empty folder."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
