"""Files on a disk that can fail or lose power: operations are noted, and the disks computed that a crash can leave.

Files below one folder are real. What Python code does to them is noted as well: writes and truncations of a file are on
the disk for certain once it was synced after them, new names and renamings once their folder was. Until then any
subset may have reached the disk, the last write torn at a sector. A sync that fails loses what it should have brought
to the disk for good: the next one finds nothing to do, as on Linux.
"""

import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

SECTOR = 512
HOW = {"error": errno.EIO, "full": errno.ENOSPC, "short": errno.ENOSPC}
"""What an operation fails with; a short write leaves half of its bytes."""

Files = dict[str, bytes]
"""contents by name, below the folder"""


class Content(NamedTuple):
    """A write to a file, or a truncation (no bytes)."""

    inode: int
    offset: int
    data: bytes | None

    def on(self, files: dict[int, bytearray]) -> None:
        """Carry it out."""
        content = files.setdefault(self.inode, bytearray())
        if self.data is None:
            del content[self.offset :]
            return
        content.extend(bytes(max(0, self.offset - len(content))))
        content[self.offset : self.offset + len(self.data)] = self.data


class Named(NamedTuple):
    """A change of names in a folder, made at once: each is that of a file from now on, or of none."""

    folder: str
    names: tuple[tuple[str, int | None], ...]

    def on(self, names: dict[str, int]) -> None:
        """Carry it out."""
        for name, inode in self.names:
            if inode is None:
                names.pop(name, None)
            else:
                names[name] = inode


class Disk:
    """What is on the disk for certain, and what has been done since.

    Parameters
    ----------
    root : the folder
    fails, how : the number of the operation that fails, from 0, and how; by default none does
    before : called before each operation with its name
    """

    def __init__(
        self, root: Path, *, fails: int = -1, how: str = "error", before: Callable[[str], None] | None = None
    ) -> None:
        self.root, self.calls = os.path.realpath(root), 0
        self.last = ""
        """the operation that failed"""
        self._fails, self._how, self._before = fails, how, before
        self.names: dict[str, int] = {}
        """as running processes see them"""
        self.durable_names: dict[str, int] = {}
        self.durable: dict[int, bytearray] = {}
        self.pending: list[Content | Named] = []
        self.open: dict[int, int | str] = {}
        """inode, or name of a folder, of each open descriptor"""
        for number, path in enumerate(sorted(Path(self.root).iterdir())):
            self.names[path.name] = self.durable_names[path.name] = number
            self.durable[number] = bytearray(path.read_bytes())
        self._inodes = len(self.names)

    def has(self, path: Any) -> bool:
        """Return whether a path is that of a file here."""
        return isinstance(path, str | os.PathLike) and os.path.dirname(os.path.abspath(path)) == self.root

    def step(self, operation: str, half: Callable[[], object] | None = None) -> None:
        """Count an operation; raise if it is the one that fails."""
        if self._before is not None:
            self._before(operation)
        self.calls += 1
        if self.calls - 1 == self._fails:
            self.last = operation
            if self._how == "short" and half is not None:
                half()
            raise OSError(HOW[self._how], f"planted: {operation}")

    def create(self, path: Any) -> int:
        """Note a new, empty file; return its inode."""
        self._inodes += 1
        self.rename((os.path.basename(path), self._inodes))
        return self._inodes

    def rename(self, *names: tuple[str, int | None]) -> None:
        """Note a change of names."""
        change = Named(self.root, names)
        change.on(self.names)
        self.pending.append(change)

    def sync(self, what: int | str) -> None:
        """Make certain what was done to a file, or to the names of the folder."""
        certain = [(one.inode if isinstance(one, Content) else one.folder) == what for one in self.pending]
        for one, sure in zip(self.pending, certain, strict=True):
            if sure:
                self._carry_out(one, self.durable, self.durable_names)
        self.forget(what)

    def forget(self, what: int | str) -> None:
        """Take what is not certain of a file or folder for written."""
        self.pending = [one for one in self.pending if (one.inode if isinstance(one, Content) else one.folder) != what]

    def left_by_a_crash(self, rng: np.random.Generator) -> Iterator[tuple[str, Files]]:
        """Yield (name, files) of some disks that a loss of power now can leave."""
        contents = [one for one in self.pending if isinstance(one, Content)]
        names = [one for one in self.pending if isinstance(one, Named)]
        torn = contents[: int(rng.integers(len(contents) + 1))]
        if torn and torn[-1].data:
            sectors = int(rng.integers(len(torn[-1].data) // SECTOR + 1))
            torn[-1] = torn[-1]._replace(data=torn[-1].data[: sectors * SECTOR])
        some = [one for one in self.pending if rng.random() < 0.5]
        cases: dict[str, list[Any]] = {
            "dropped": [], "all": self.pending, "names": [*names], "torn": [*torn, *names], "some": some
        }  # fmt: skip
        for case, changes in cases.items():
            files = {inode: bytearray(content) for inode, content in self.durable.items()}
            known = dict(self.durable_names)
            for change in changes:
                self._carry_out(change, files, known)
            yield case, {name: bytes(files.get(inode, b"")) for name, inode in known.items()}

    @staticmethod
    def _carry_out(change: "Content | Named", files: dict[int, bytearray], names: dict[str, int]) -> None:
        if isinstance(change, Content):
            change.on(files)
        else:
            change.on(names)


class NotedFile(io.FileIO):
    """A file whose writes and truncations are noted, and may fail."""

    def __init__(self, disk: Disk, inode: int, file: Any, mode: str) -> None:
        super().__init__(file, mode)
        self._disk, self._inode, self._appends = disk, inode, "a" in mode
        disk.open[self.fileno()] = inode

    def write(self, data: Any) -> int:  # type: ignore[override]
        given = bytes(data)
        self._disk.step("write", lambda: self._write(given[: len(given) // 2]))
        return self._write(given)

    def _write(self, data: bytes) -> int:
        at = os.fstat(self.fileno()).st_size if self._appends else self.tell()
        written = super().write(data)
        self._disk.pending.append(Content(self._inode, at, data[:written]))
        return written

    def truncate(self, size: int | None = None) -> int:
        self._disk.step("truncate")
        found = super().truncate(size)
        self._disk.pending.append(Content(self._inode, found, None))
        return found

    def close(self) -> None:
        if not self.closed:
            self._disk.open.pop(self.fileno(), None)
        super().close()


@contextmanager
def in_place(disk: Disk) -> Iterator[Disk]:
    """Note what is done to the files of a disk; nothing is synced in truth."""
    real = {name: getattr(os, name) for name in ("open", "close", "fdopen", "fsync", "replace", "unlink", "chmod")}
    real_open = builtins.open

    def open_descriptor(path: Any, flags: int, *others: Any, **more: Any) -> int:
        if os.path.realpath(path) == disk.root:
            number = real["open"](path, flags, *others, **more)
            disk.open[number] = disk.root
            return int(number)
        if not disk.has(path):
            return int(real["open"](path, flags, *others, **more))
        new = not os.path.exists(path)
        disk.step("open")
        number = real["open"](path, flags, *others, **more)
        disk.open[number] = disk.create(path) if new else disk.names[os.path.basename(path)]
        return int(number)

    def close(number: int) -> None:
        disk.open.pop(number, None)
        real["close"](number)

    def fdopen(number: int, mode: str = "r", *others: Any, **more: Any) -> Any:
        inode = disk.open.get(number)
        if not isinstance(inode, int):
            return real["fdopen"](number, mode, *others, **more)
        return io.BufferedRandom(NotedFile(disk, inode, number, mode.replace("b", "")))

    def open_file(path: Any, mode: str = "r", *others: Any, **more: Any) -> Any:
        if not disk.has(path) or "b" not in mode or "r" in mode:
            return real_open(path, mode, *others, **more)
        name, new = os.path.basename(path), not os.path.exists(path)
        disk.step("open")
        raw = NotedFile(disk, disk.create(path) if new else disk.names[name], path, mode.replace("b", ""))
        if "w" in mode and not new:
            disk.pending.append(Content(disk.names[name], 0, None))
        return io.BufferedWriter(raw)

    def fsync(number: int) -> None:
        what = disk.open.get(number)
        if what is None:
            real["fsync"](number)
            return
        try:
            disk.step("sync")
        except OSError:
            disk.forget(what)
            raise
        disk.sync(what)

    def replace(source: Any, target: Any, **more: Any) -> None:
        if disk.has(target):
            disk.step("replace")
            names = os.path.basename(source), os.path.basename(target)
            disk.rename((names[0], None), (names[1], disk.names[names[0]]))
        real["replace"](source, target, **more)

    def unlink(path: Any, **more: Any) -> None:
        if disk.has(path) and os.path.basename(path) in disk.names:
            disk.step("unlink")
            disk.rename((os.path.basename(path), None))
        real["unlink"](path, **more)

    def chmod(path: Any, *others: Any, **more: Any) -> None:
        if disk.has(path):
            disk.step("chmod")
        real["chmod"](path, *others, **more)

    patches = {
        "open": open_descriptor, "close": close, "fdopen": fdopen, "fsync": fsync, "replace": replace,
        "unlink": unlink, "chmod": chmod,
    }  # fmt: skip
    with ExitStack() as stack:
        for name, function in patches.items():
            stack.enter_context(patch.object(os, name, function))
        stack.enter_context(patch.object(builtins, "open", open_file))
        yield disk


def put(files: Files, folder: Path) -> Path:
    """Write the files of a disk into a folder, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder
