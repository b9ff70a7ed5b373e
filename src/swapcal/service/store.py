"""Stores: where events, snapshots and tokens are kept; SQLite in a file, or PostgreSQL."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Protocol, TypeVar

import apsw

from swapcal.service.events import Event, encoded
from swapcal.service.sql import (
    COLUMNS,
    Conflict,
    KeptSnapshot,
    Occupied,
    Pool,
    Removal,
    SqlStore,
    Statement,
    StoreError,
    TokenRow,
    Unavailable,
    Unreadable,
    check_version,
    definitions,
)

# `FileLock`: at most one process at a time is the learner of a file; its end, however sudden, frees it.


class FileLock:
    """A lock on a file next to the store, held until it is released or the process ends.

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


TYPES = {"text": "TEXT", "integer": "INTEGER", "real": "REAL", "blob": "BLOB", "strict": " STRICT"}
BUSY = 5_000
"""Milliseconds to wait for a command that is writing a token or pruning."""
COMMON = f"PRAGMA busy_timeout = {BUSY}; PRAGMA trusted_schema = 0; PRAGMA cache_size = -16384;"
# The two of macOS: there a plain fsync leaves the data in the drive's cache.
WRITING = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1;"
LEARNING = f"PRAGMA journal_size_limit = {64 << 20};"
VISITING = "PRAGMA wal_autocheckpoint = 0;"
PATIENT = "PRAGMA busy_timeout = 60000;"
"""For a command: a learner under load leaves only short gaps to write in, and it looks for one ten times a second."""
INSERT = f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
STEP = 200
"""Pages given back at a time."""
ABOUT = f"SELECT {COLUMNS} FROM events WHERE forecaster = ? AND id IN (SELECT value FROM json_each(?))"

Result = TypeVar("Result")


class SQLiteStore(SqlStore):
    """One writer connection, behind a lock; readers have others and never wait for it."""

    def __init__(self, path: str, *, learner: bool = False, create: bool = False) -> None:
        self._path = os.path.abspath(path)
        self._turn = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._readers = Pool(lambda: self._connect(VISITING + "PRAGMA query_only = 1;"), _close)
        self._file_lock: FileLock | None = None
        self._find(create)
        self._file = _identity(self._path)
        try:
            self._file_lock = FileLock(self._path) if learner else None
            self._prepare(create)
        except BaseException:
            self.close()
            raise

    def claim(self, forecaster: str) -> bool:
        """Return whether this store was opened for a learner: the file was claimed as a whole."""
        return self._file_lock is not None

    def holds(self, forecaster: str) -> bool:
        """Return whether this store was opened for a learner."""
        return self._file_lock is not None

    def append(self, events: Sequence[Event]) -> None:
        """Write all events or none, durably."""
        if self._file_lock is None:
            raise Conflict(f"store: given {self._path} opened for reading, expected learner=True to append events")
        self._transaction(lambda writer: writer.executemany(INSERT, events))

    def about(self, forecaster: str, ids: Sequence[str]) -> list[Event]:
        """Return everything stored under these ids, in order."""
        with self._translated(), self._readers.lent() as reader:
            rows = reader.execute(ABOUT, (forecaster, encoded(ids).decode()))
            return sorted(map(Event._make, rows), key=lambda event: event.seq)

    def shrink(self) -> None:
        """Free the pruned space, page by page, so that a learner never waits long."""
        while self._read("PRAGMA freelist_count") != [(0,)]:
            self._transaction(lambda writer: writer.execute(f"PRAGMA incremental_vacuum({STEP})").fetchall())
        with self._turn, self._translated(), suppress(apsw.BusyError):  # busy: the learner is at it
            if self._writer is not None:
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def backup(self, path: str) -> None:
        """Write a copy that is as the store was at one moment, to a new file, while everything goes on."""
        if os.path.exists(path):
            raise Unreadable(f"backup: given {path}, which exists, expected the name of a new file")
        part = f"{path}.part"
        try:
            with suppress(FileNotFoundError):
                os.remove(part)
            os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            raise Unavailable(f"backup: {part} cannot be made: {error.strerror}") from None
        try:
            self._copy(part)
            os.rename(part, path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.remove(part)
            raise
        _sync(os.path.dirname(os.path.abspath(path)))

    def _copy(self, part: str) -> None:
        with self._translated(), closing(self._connect(VISITING)) as connection:
            connection.execute("VACUUM INTO ?", (part,))
        _sync(part)
        with self._translated(), closing(apsw.Connection(part)) as copy:
            if copy.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
                raise Unreadable(f"backup: {part} was not read as it was written")

    def ping(self) -> None:
        """Return if the store can be read; only a commit shows whether the disk has room."""
        self._check_file()
        self._read("SELECT value FROM meta WHERE name = 'schema'")

    def close(self) -> None:
        """Release the file and close all connections."""
        with self._turn:
            self._drop_writer()
        self._readers.clear()
        if self._file_lock is not None:
            self._file_lock.leave()
            self._file_lock = None

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._translated(), self._readers.lent() as reader:
            return reader.execute(statement, values).fetchall()

    def _write(self, *statements: Statement) -> int:
        return self._transaction(lambda writer: _changed(writer, statements))

    def _write_soon(self, *statements: Statement) -> int:
        """Execute statements in one transaction that is durable once a later one of `_write` is.

        It leaves the sync of the write-ahead log to that: the learner's commits wait for what is written in between.
        """
        return self._transaction(lambda writer: _changed(writer, statements), "NORMAL")

    def _check_file(self) -> None:
        """Raise Unavailable if the file was removed or replaced: writes to it would be lost with this process."""
        if _identity(self._path) != self._file:
            raise Unavailable(
                f"store: given {self._path}, no longer the file that was opened, expected it in its place"
            )

    def _transaction(self, work: Callable[[apsw.Connection], Result], synchronous: str = "FULL") -> Result:
        self._check_file()
        with self._turn, self._translated():
            writer = self._writer = self._writer or self._connect_writer()
            try:
                if synchronous != "FULL":
                    writer.execute(f"PRAGMA synchronous = {synchronous}")
                writer.execute("BEGIN IMMEDIATE")
                result = work(writer)
                writer.execute("COMMIT")
                if synchronous != "FULL":
                    writer.execute("PRAGMA synchronous = FULL")
            except BaseException:
                self._drop_writer()
                raise
            return result

    def _drop_writer(self) -> None:
        """Close the writer, which takes back what was begun: after a failure nothing is known of its state."""
        if self._writer is not None:
            _close(self._writer)
            self._writer = None

    def _connect_writer(self) -> apsw.Connection:
        return self._connect(WRITING + (VISITING + PATIENT if self._file_lock is None else LEARNING))

    def _connect(self, settings: str) -> apsw.Connection:
        connection = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READWRITE)
        # Fetched, since apsw stops after each statement that answers.
        connection.execute(COMMON + settings).fetchall()
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.ConstraintError as error:
            raise Conflict(f"store: {self._path}: {error}; nothing was written") from None
        except apsw.NotADBError:
            raise Unreadable(f"store: given {self._path}, which is no SQLite file, expected a store") from None
        except apsw.Error as error:
            raise Unavailable(f"store: {self._path}: {error}") from error

    def _find(self, create: bool) -> None:
        if os.path.exists(self._path):
            return
        if not create:
            raise Unreadable(f"store: given {self._path}, which does not exist, expected the file of a store")
        try:
            # Records are private; the write-ahead log takes the same permissions.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise Unavailable(f"store: {self._path} cannot be made: {error.strerror}") from None

    def _prepare(self, create: bool) -> None:
        empty = not self._read("SELECT 1 FROM sqlite_schema LIMIT 1")
        if empty and create:
            self._make()
        elif not self._read("SELECT 1 FROM sqlite_schema WHERE name = 'meta'"):
            raise Unreadable(f"store: given {self._path}, a SQLite file without our tables, expected a store")
        check_version(self._path, self._read("SELECT value FROM meta WHERE name = 'schema'")[0][0])

    def _make(self) -> None:
        with self._translated():
            # Incremental: pruning gives space back in small steps, without copying the file.
            maker = self._connect("PRAGMA auto_vacuum = INCREMENTAL;" + WRITING)
            try:
                maker.execute("BEGIN IMMEDIATE")
                if not maker.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
                    for definition in definitions(TYPES):
                        maker.execute(definition)
                maker.execute("COMMIT")
            finally:
                _close(maker)


def _changed(writer: apsw.Connection, statements: Sequence[Statement]) -> int:
    """Execute statements; return how many rows they changed."""
    before = writer.total_changes()
    for statement, values in statements:
        writer.execute(statement, tuple(values))
    return writer.total_changes() - before


def _identity(path: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _sync(path: str) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    if os.name != "posix" and os.path.isdir(path):
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _close(connection: apsw.Connection) -> None:
    """Close at once and roll back; an error of an abandoned connection is ignored."""
    with suppress(apsw.Error):
        connection.close(True)


__all__ = ["Conflict", "Occupied", "Store", "StoreError", "TokenRow", "Unavailable", "Unreadable", "open_store"]


class Store(Protocol):
    """The interface of SQLite and PostgreSQL stores. All calls block; every call may raise `Unavailable`.

    Reads have connections of their own and never wait for the writer. Only a learner's store appends.
    """

    def forecasters(self) -> dict[str, bytes]:
        """Return the settings of each forecaster by name: the body of its first event."""

    def claim(self, forecaster: str) -> bool:
        """Become the only learner of a forecaster, which need not exist yet; False while another process is.

        After `Unavailable` from `append` claim again, and only then read: a claim is granted once whatever an earlier
        connection had begun is finished, one way or the other.
        """

    def holds(self, forecaster: str) -> bool:
        """Return whether a forecaster is claimed, as far as is known without asking: any failure loses claims."""

    def append(self, events: Sequence[Event]) -> None:
        """Write all events or none, durably; their forecasters must be claimed.

        Raises
        ------
        Unavailable
            Disk full, database gone, claim lost: nothing was written, or it is not known.
        Conflict
            A number or an id was taken: nothing was written.
        """

    def about(self, forecaster: str, ids: Sequence[str]) -> list[Event]:
        """Return everything stored under these ids, in order."""

    def events(self, forecaster: str, after: int = 0, until: int | None = None) -> Iterator[Event]:
        """Yield the events after one number, up to and with another, in order and without keeping them."""

    def last(self, forecaster: str) -> int:
        """Return the number of its last event; 0 without events."""

    def keep_snapshot(self, forecaster: str, seq: int, content: bytes) -> None:
        """Write a snapshot, read it again and compare; it is listed only when that went well."""

    def snapshots(self, forecaster: str) -> list[KeptSnapshot]:
        """Return the snapshots that are kept, newest first."""

    def snapshot(self, forecaster: str, seq: int) -> bytes:
        """Return a snapshot; raises `Unreadable` unless it is what was written."""

    def drop_snapshots(self, forecaster: str, keep: int) -> None:
        """Remove all snapshots but the newest few."""

    def keep_token(self, token: TokenRow) -> None:
        """Add a token; raises `Conflict` if there is one of that name."""

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, also the revoked ones, oldest first."""

    def revoke_token(self, name: str, at: float) -> bool:
        """Revoke a token; False if the name is unknown or already revoked."""

    def pruned(self, forecaster: str) -> int:
        """Return the number from which on no event was removed: 1 if none ever was."""

    def loss(self, forecaster: str, before: int, *, waiting: bool = False) -> Removal:
        """Return what `prune` would remove."""

    def prune(self, forecaster: str, before: int, *, waiting: bool = False) -> Iterator[int]:
        """Remove what happened before an event, a little at a time; yield how many events went each time.

        An id goes as a whole: when all its events are before the boundary, and its outcome is among them unless
        `waiting` is set. The first event stays. What removed events did to the state is in the snapshots: there must
        be one that can be read at the boundary or after it, and those before it go.

        Raises
        ------
        Conflict
            There is no such snapshot.
        """

    def shrink(self) -> None:
        """Free the pruned space, as far as possible without stopping a learner."""

    def backup(self, path: str) -> None:
        """Write a copy that is as the store was at one moment, to a new file, while everything goes on."""

    def ping(self) -> None:
        """Return if the store can be reached, by its writer too; raise `Unavailable` otherwise."""

    def close(self) -> None:
        """Release the claims and close all connections."""


def open_store(url: str, *, learner: bool = False, create: bool = False) -> Store:
    """Open the store at a path (SQLite) or at postgresql://... (PostgreSQL).

    Parameters
    ----------
    url : str
        Path of a SQLite file, or a PostgreSQL address as libpq reads it.
    learner : bool
        Whether events will be appended. Of one SQLite file only one process at a time may be the learner.
    create : bool
        Whether to make the store if it is not there.

    Raises
    ------
    Occupied
        Another process is the learner of this SQLite file.
    Unreadable
        There is no store, or one of another version.
    Unavailable
        The file or database cannot be reached.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/forecasts.db", learner=True, create=True)
    ...     claimed = store.claim("flights")
    ...     store.append([Event("flights", 1, "made", "", 0.0, b"{}")])
    ...     print(claimed, store.forecasters())
    ...     store.close()
    True {'flights': b'{}'}
    """
    scheme, separator, _ = url.partition("://")
    if not separator:
        return SQLiteStore(url, learner=learner, create=create)
    if scheme not in ("postgresql", "postgres"):
        raise ValueError(f"store: given {scheme}://…, expected the path of a file or postgresql://…")
    from swapcal.service.postgres import PostgresStore

    return PostgresStore(url, learner=learner, create=create)
