"""Common parts of the SQLite and PostgreSQL stores: rows, errors, tables, connections, statements."""

import hashlib
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import Any, Generic, NamedTuple, TypeVar

from swapcal.service.events import Event

# What is in a store besides events, and what a store refuses to do.


class StoreError(OSError):
    """The store could not complete the operation."""


class Unavailable(StoreError):  # noqa: N818
    """Nothing was written, or it is not known: read again what the store holds before going on."""


class Conflict(StoreError):  # noqa: N818
    """Nothing was written: another learner was there first, or what is unique was given twice."""


class Occupied(StoreError):  # noqa: N818
    """Another process is the learner of this store."""


class Unreadable(StoreError):  # noqa: N818
    """The file or database is not a store of this version, or a snapshot is damaged."""


class KeptSnapshot(NamedTuple):
    """A snapshot that is kept: the state after the event `seq`."""

    seq: int
    digest: bytes
    size: int
    made_at: float


class TokenRow(NamedTuple):
    """A token that was created; `digest` is all that is known of its secret."""

    name: str
    digest: bytes
    scopes: str
    created: float
    revoked: float | None


class Removal(NamedTuple):
    """Events that pruning would remove, and those before the boundary that it would leave for lack of an outcome."""

    events: int
    forecasts: int
    oldest: float | None
    newest: float | None
    waiting: int


# The tables, the same for SQLite and PostgreSQL but for the names of types.

SCHEMA_VERSION = 1
"""Of the tables; kept in `meta`."""

DEFINITIONS = (
    """CREATE TABLE meta (name {text} PRIMARY KEY, value {text} NOT NULL){strict}""",
    """CREATE TABLE events (
        forecaster {text} NOT NULL, seq {integer} NOT NULL, kind {text} NOT NULL, id {text} NOT NULL,
        time {real} NOT NULL, body {blob} NOT NULL, PRIMARY KEY (forecaster, seq)){strict}""",
    # One forecast and one outcome of an id, any number of the rest; also how `about` finds them.
    """CREATE UNIQUE INDEX events_about ON events
        (forecaster, id, kind, (CASE WHEN kind IN ('forecast', 'outcome') THEN 0 ELSE seq END))""",
    """CREATE INDEX events_made ON events (forecaster) WHERE kind = 'made'""",
    """CREATE TABLE snapshots (
        forecaster {text} NOT NULL, seq {integer} NOT NULL, digest {blob} NOT NULL, size {integer} NOT NULL,
        made_at {real} NOT NULL, PRIMARY KEY (forecaster, seq)){strict}""",
    # Pieces keep each transaction short: a learner never waits for a whole snapshot to be written.
    """CREATE TABLE snapshot_pieces (
        forecaster {text} NOT NULL, seq {integer} NOT NULL, piece {integer} NOT NULL, content {blob} NOT NULL,
        PRIMARY KEY (forecaster, seq, piece)){strict}""",
    """CREATE TABLE tokens (
        name {text} PRIMARY KEY, digest {blob} NOT NULL, scopes {text} NOT NULL, created {real} NOT NULL,
        revoked {real}){strict}""",
    """CREATE VIEW open_forecasts AS SELECT forecaster, seq, id, time FROM events AS made
        WHERE kind = 'forecast' AND NOT EXISTS (SELECT 1 FROM events AS known
        WHERE known.forecaster = made.forecaster AND known.id = made.id AND known.kind IN ('outcome', 'silence'))""",
)


def definitions(types: Mapping[str, str]) -> list[str]:
    """Return the statements that make an empty store."""
    version = f"INSERT INTO meta (name, value) VALUES ('schema', '{SCHEMA_VERSION}')"
    return [statement.format_map(types) for statement in DEFINITIONS] + [version]


def check_version(where: str, version: str) -> None:
    """Raise `Unreadable` unless the tables are of a version that is known here.

    Examples
    --------
    >>> check_version("forecasts.db", "1")
    """
    if version.isdecimal() and int(version) > SCHEMA_VERSION:
        raise Unreadable(
            f"store: given {where} with tables of version {version}, expected version {SCHEMA_VERSION}: "
            "it was written by a newer swapcal, which is needed to open it"
        )
    if version != str(SCHEMA_VERSION):
        raise Unreadable(f"store: given {where} with tables of version {version!r}, expected {SCHEMA_VERSION}")


# A pool: connections that are lent, one to each reader at a time.

Connection = TypeVar("Connection")


class Pool(Generic[Connection]):
    """Connections made when none is free, and kept for the next reader unless something went wrong.

    Examples
    --------
    >>> pool = Pool(connect=lambda: [], close=lambda connection: connection.append("closed"))
    >>> with pool.lent() as first, pool.lent() as second:
    ...     first is second
    False
    >>> with pool.lent() as third:
    ...     third is first
    True
    """

    def __init__(self, connect: Callable[[], Connection], close: Callable[[Connection], object]) -> None:
        self._connect, self._close = connect, close
        self._free: LifoQueue[Connection] = LifoQueue()

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """Lend a connection; after a failure it and those that are free are closed: they may all be dead."""
        try:
            connection = self._free.get_nowait()
        except Empty:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            self._close(connection)
            self.clear()
            raise
        self._free.put(connection)

    def clear(self) -> None:
        """Close the connections that are free."""
        while True:
            try:
                self._close(self._free.get_nowait())
            except Empty:
                return


# What SQLite and PostgreSQL do in the same words: reading the log, keeping snapshots and tokens.

COLUMNS = "forecaster, seq, kind, id, time, body"
PAGE = 500
"""Events read at a time: a reader holds neither many of them nor a transaction open."""
PIECE = 1 << 18
"""Bytes of a snapshot written at a time: a learner's commit may have to wait for them."""
TURN = 0.003
"""Seconds between pieces: a lock that is taken again at once would not let the learner's commits in."""
ENDLESS = 2**63 - 1

# The plus keeps SQLite from looking through all that came later instead of the few events of an id.
_SAME = "SELECT 1 FROM events AS other WHERE other.forecaster = one.forecaster AND other.id = one.id AND "
PASSED = f"(id = '' OR NOT EXISTS ({_SAME}+other.seq >= ?))"
SETTLED = (
    f"(id = '' OR (EXISTS ({_SAME}other.kind = 'forecast') AND EXISTS ({_SAME}other.kind IN ('outcome', 'silence'))))"
)
REMOVE_IDS = f"""DELETE FROM events WHERE forecaster = ? AND id IN (SELECT id FROM events AS one
    WHERE forecaster = ? AND seq >= ? AND seq < ? AND id <> '' AND NOT EXISTS ({_SAME}+other.seq > one.seq))"""
"""Removes ids as a whole: those whose last event is within a span."""
REMOVE_SETTLED = f"{REMOVE_IDS[:-1]} AND {SETTLED})"

Statement = tuple[str, Sequence[Any]]


class SqlStore(ABC):
    """A store whose statements have `?` for each value."""

    @abstractmethod
    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

    @abstractmethod
    def _write(self, *statements: Statement) -> int:
        """Execute statements in one durable transaction; return how many rows they changed."""

    def _write_soon(self, *statements: Statement) -> int:
        """Execute statements in one transaction that is durable once a later one of `_write` is."""
        return self._write(*statements)

    def forecasters(self) -> dict[str, bytes]:
        """Return the settings of each forecaster by name: the body of its first event."""
        return dict(self._read("SELECT forecaster, body FROM events WHERE kind = 'made' ORDER BY time, forecaster"))

    def events(self, forecaster: str, after: int = 0, until: int | None = None) -> Iterator[Event]:
        """Yield the events after one number, up to and with another, in order and without keeping them."""
        query = f"SELECT {COLUMNS} FROM events WHERE forecaster = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT {PAGE}"
        end = ENDLESS if until is None else until
        while page := self._read(query, (forecaster, after, end)):
            yield from map(Event._make, page)
            after = page[-1][1]

    def last(self, forecaster: str) -> int:
        """Return the number of its last event; 0 without events."""
        return int(self._read("SELECT COALESCE(MAX(seq), 0) FROM events WHERE forecaster = ?", (forecaster,))[0][0])

    def keep_snapshot(self, forecaster: str, seq: int, content: bytes) -> None:
        """Write a snapshot, read it again and compare; it is listed only when that went well."""
        if any(kept.seq == seq for kept in self.snapshots(forecaster)):
            return
        self._write(("DELETE FROM snapshot_pieces WHERE forecaster = ? AND seq = ?", (forecaster, seq)))
        for piece, start in enumerate(range(0, len(content), PIECE)):
            values = (forecaster, seq, piece, content[start : start + PIECE])
            insert = "INSERT INTO snapshot_pieces (forecaster, seq, piece, content) VALUES (?, ?, ?, ?)"
            self._write_soon((insert, values))
            time.sleep(TURN)
        digest = _digest([content])
        if _digest(self._pieces(forecaster, seq)) != digest:
            raise Unreadable(f"store: the snapshot of {forecaster!r} at event {seq} was not read as it was written")
        listed = self._write(
            (
                "INSERT INTO snapshots (forecaster, seq, digest, size, made_at) "
                "SELECT forecaster, seq, ?, ?, ? FROM events WHERE forecaster = ? AND seq = ?",
                (digest, len(content), time.time(), forecaster, seq),
            )
        )
        if not listed:
            raise Conflict(f"store: given a snapshot of {forecaster!r} at event {seq}, expected an event of the log")

    def snapshots(self, forecaster: str) -> list[KeptSnapshot]:
        """Return the snapshots that are kept, newest first."""
        query = "SELECT seq, digest, size, made_at FROM snapshots WHERE forecaster = ? ORDER BY seq DESC"
        return [KeptSnapshot._make(row) for row in self._read(query, (forecaster,))]

    def snapshot(self, forecaster: str, seq: int) -> bytes:
        """Return a snapshot; raises `Unreadable` unless it is what was written."""
        listed = self._read("SELECT digest FROM snapshots WHERE forecaster = ? AND seq = ?", (forecaster, seq))
        content = b"".join(self._pieces(forecaster, seq))
        if not listed or _digest([content]) != listed[0][0]:
            problem = "is damaged" if listed else "is not there"
            raise Unreadable(f"store: the snapshot of {forecaster!r} at event {seq} {problem}")
        return content

    def drop_snapshots(self, forecaster: str, keep: int) -> None:
        """Remove all snapshots but the newest few."""
        if keep < 1:
            raise ValueError(f"keep: given {keep}, expected at least 1")
        for old in reversed(self.snapshots(forecaster)[keep:]):
            # Pieces of writes that were cut short go with the next newer snapshot.
            self._write(
                ("DELETE FROM snapshots WHERE forecaster = ? AND seq = ?", (forecaster, old.seq)),
                ("DELETE FROM snapshot_pieces WHERE forecaster = ? AND seq <= ?", (forecaster, old.seq)),
            )

    def keep_token(self, token: TokenRow) -> None:
        """Add a token; raises `Conflict` if there is one of that name."""
        self._write(("INSERT INTO tokens (name, digest, scopes, created, revoked) VALUES (?, ?, ?, ?, ?)", token))

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, also the revoked ones, oldest first."""
        rows = self._read("SELECT name, digest, scopes, created, revoked FROM tokens ORDER BY created, name")
        return [TokenRow._make(row) for row in rows]

    def revoke_token(self, name: str, at: float) -> bool:
        """Revoke a token; False if the name is unknown or already revoked."""
        return bool(self._write(("UPDATE tokens SET revoked = ? WHERE name = ? AND revoked IS NULL", (at, name))))

    def pruned(self, forecaster: str) -> int:
        """Return the number from which on no event was removed: 1 if none ever was."""
        rows = self._read("SELECT value FROM meta WHERE name = ?", (f"pruned/{forecaster}",))
        return int(rows[0][0]) if rows else 1

    def loss(self, forecaster: str, before: int, *, waiting: bool = False) -> Removal:
        """Return what `prune` would remove."""
        counts = "COUNT(*), COALESCE(SUM(CASE WHEN kind = 'forecast' THEN 1 ELSE 0 END), 0), MIN(time), MAX(time)"
        query = f"SELECT {counts} FROM events AS one WHERE forecaster = ? AND seq > 1 AND seq < ? AND {PASSED}"
        whole, settled = (self._read(query + also, (forecaster, before, before))[0] for also in ("", f" AND {SETTLED}"))
        events, forecasts, oldest, newest = whole if waiting else settled
        return Removal(events, int(forecasts), oldest, newest, int(whole[1]) - int(forecasts))

    def prune(self, forecaster: str, before: int, *, waiting: bool = False) -> Iterator[int]:
        """Remove what happened before an event, a little at a time; yield how many events went each time."""
        useful = [kept.seq for kept in self.snapshots(forecaster) if kept.seq >= before]
        if not useful:
            raise Conflict(
                f"store: given {forecaster!r} to prune before event {before}, expected a snapshot after that"
            )
        self.snapshot(forecaster, useful[0])
        self._write(
            (
                "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (f"pruned/{forecaster}", str(max(before, self.pruned(forecaster)))),
            ),
            ("DELETE FROM snapshots WHERE forecaster = ? AND seq < ?", (forecaster, before)),
            ("DELETE FROM snapshot_pieces WHERE forecaster = ? AND seq < ?", (forecaster, before)),
        )
        for start in range(2, before, PAGE):
            span = (forecaster, start, min(start + PAGE, before))
            yield self._write(
                (REMOVE_IDS if waiting else REMOVE_SETTLED, (forecaster, *span)),
                ("DELETE FROM events WHERE forecaster = ? AND seq >= ? AND seq < ? AND id = ''", span),
            )

    def _pieces(self, forecaster: str, seq: int) -> Iterator[bytes]:
        """Yield the pieces of a snapshot one at a time: all of it may be large."""
        query = "SELECT content FROM snapshot_pieces WHERE forecaster = ? AND seq = ? AND piece = ?"
        for piece in itertools.count():
            rows = self._read(query, (forecaster, seq, piece))
            if not rows:
                return
            yield rows[0][0]


def _digest(pieces: Iterable[bytes]) -> bytes:
    hasher = hashlib.sha256()
    for piece in pieces:
        hasher.update(piece)
    return hasher.digest()
