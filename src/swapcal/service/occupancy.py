"""Occupancy: at most one process at a time is the learner of a file; its end, however sudden, frees it."""

import os
import sys

from swapcal.service.stored import Occupied


class Occupancy:
    """A lock beside a file, held until it is left or the process ends.

    The system keeps it, not the lock file's existence: after a crash nothing has to be cleaned up.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            _lock(self._file)
        except OSError:
            holder = _holder(self._file)
            os.close(self._file)
            raise Occupied(
                f"store: given {path}, in which another process ({holder}) is learning, expected one process per file; "
                "stop that one, or use PostgreSQL where several should stand by for each other"
            ) from None
        os.ftruncate(self._file, 0)
        os.write(self._file, str(os.getpid()).encode())

    def leave(self) -> None:
        """Free the file; the lock file stays, since removing it could let two processes in."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _holder(file: int) -> str:
    text = os.read(file, 20).decode("ascii", "replace")
    return f"number {text}" if text.isdecimal() else "of unknown number"


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        # Far behind the number that is written at the start, which others must be able to read.
        os.lseek(file, 1 << 20, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
