"""The store in one file: SQLite with a write-ahead log, every commit on disk before it returns."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, LifoQueue
from typing import Any, TypeVar

import apsw

from swapcal.service.event import Event
from swapcal.service.occupancy import Occupancy
from swapcal.service.schema import check_version, definitions
from swapcal.service.sql import COLUMNS, SqlStore, Statement
from swapcal.service.store import Conflict, Unavailable, Unreadable

TYPES = {"text": "TEXT", "integer": "INTEGER", "real": "REAL", "blob": "BLOB", "strict": " STRICT"}
BUSY = 5_000
"""Milliseconds to wait for a command that is writing a token or pruning."""
COMMON = f"PRAGMA busy_timeout = {BUSY}; PRAGMA trusted_schema = 0; PRAGMA cache_size = -16384;"
# The two of macOS: there a plain fsync leaves the data in the drive's cache.
WRITING = "PRAGMA synchronous = FULL; PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1;"
LEARNING = f"PRAGMA journal_size_limit = {64 << 20};"
VISITING = "PRAGMA wal_autocheckpoint = 0;"
INSERT = f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
ABOUT = f"SELECT {COLUMNS} FROM events WHERE forecaster = ? AND id = ?"

Result = TypeVar("Result")


class SQLiteStore(SqlStore):
    """One writer connection, behind a lock; readers have others and never wait for it."""

    def __init__(self, path: str, *, learner: bool = False, create: bool = False) -> None:
        self._path = os.path.abspath(path)
        self._turn = threading.Lock()
        self._writer: apsw.Connection | None = None
        self._readers: LifoQueue[apsw.Connection] = LifoQueue()
        self._occupancy: Occupancy | None = None
        self._find(create)
        try:
            self._occupancy = Occupancy(self._path) if learner else None
            self._prepare(create)
        except BaseException:
            self.close()
            raise

    def claim(self, forecaster: str) -> bool:
        """Return whether this store was opened for a learner: the file was claimed as a whole."""
        return self._occupancy is not None

    def append(self, events: Sequence[Event]) -> None:
        """Write all events or none, durably."""
        if self._occupancy is None:
            raise Conflict(f"store: {self._path} was opened for reading, expected learner=True to append events")
        self._transaction(lambda writer: writer.executemany(INSERT, events))

    def about(self, forecaster: str, ids: Sequence[str]) -> list[Event]:
        """Return everything stored under these ids, in order."""
        with self._reader() as reader:
            rows = reader.executemany(ABOUT, [(forecaster, name) for name in dict.fromkeys(ids)])
            return sorted(map(Event._make, rows), key=lambda event: event.seq)

    def ping(self) -> None:
        """Return if the store can be read, and a learner's also written to."""
        self._read("SELECT value FROM meta")
        if self._occupancy is not None:
            self._transaction(lambda writer: writer.execute("UPDATE meta SET value = value WHERE name = 'schema'"))

    def close(self) -> None:
        """Give back the file and all connections."""
        with self._turn:
            self._drop_writer()
        with suppress(Empty):
            while True:
                self._readers.get_nowait().close()
        if self._occupancy is not None:
            self._occupancy.leave()
            self._occupancy = None

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reader() as reader:
            return reader.execute(statement, values).fetchall()

    def _write(self, *statements: Statement) -> int:
        def work(writer: apsw.Connection) -> int:
            for statement, values in statements:
                writer.execute(statement, tuple(values))
            return writer.changes()

        return self._transaction(work)

    def _transaction(self, work: Callable[[apsw.Connection], Result]) -> Result:
        with self._turn, self._translated():
            writer = self._writer = self._writer or self._connect_writer()
            try:
                writer.execute("BEGIN IMMEDIATE")
                result = work(writer)
                writer.execute("COMMIT")
            except BaseException:
                self._drop_writer()
                raise
            return result

    def _drop_writer(self) -> None:
        """Close the writer, which takes back what was begun: after a failure nothing is known of its state."""
        if self._writer is not None:
            with suppress(apsw.Error):
                self._writer.close(True)
            self._writer = None

    def _connect_writer(self) -> apsw.Connection:
        return self._connect(WRITING + (VISITING if self._occupancy is None else LEARNING))

    def _connect(self, settings: str) -> apsw.Connection:
        connection = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READWRITE)
        # Fetched, since apsw stops after each statement that answers.
        connection.execute(COMMON + settings).fetchall()
        return connection

    @contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        with self._translated():
            try:
                reader = self._readers.get_nowait()
            except Empty:
                reader = self._connect(VISITING + "PRAGMA query_only = 1;")
            try:
                yield reader
            except BaseException:
                reader.close(True)
                raise
            self._readers.put(reader)

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
            # Records are nobody else's business; the write-ahead log takes the same permissions.
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
            maker = self._connect("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;" + WRITING)
            try:
                maker.execute("BEGIN IMMEDIATE")
                if not maker.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
                    for definition in definitions(TYPES):
                        maker.execute(definition)
                maker.execute("COMMIT")
            finally:
                maker.close(True)
