"""The store in PostgreSQL: several processes may wait for the part of the learner, one has it."""

import hashlib
import math
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, cast

import psycopg
from psycopg import errors

from swapcal.service.events import Event
from swapcal.service.sql import (
    COLUMNS,
    Conflict,
    Pool,
    SqlStore,
    Statement,
    Unavailable,
    Unreadable,
    check_version,
    definitions,
)

TYPES = {"text": 'TEXT COLLATE "C"', "integer": "BIGINT", "real": "DOUBLE PRECISION", "blob": "BYTEA", "strict": ""}
INSERT = f"""INSERT INTO events ({COLUMNS})
    SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %b::float8[], %b::bytea[])"""
ABOUT = f"SELECT {COLUMNS} FROM events WHERE forecaster = %s AND id = ANY(%s) ORDER BY seq"
CONNECTING = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "swapcal",
}
"""For libpq, unless the address overrides them: a host that vanished is noticed after some ten seconds."""
SESSION = """
    SET search_path TO swapcal; SET statement_timeout = 20000; SET lock_timeout = 5000;
    SET idle_in_transaction_session_timeout = 20000;
    SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = 10000;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
"""
"""The server, too, closes the session of a client that vanished, whose advisory locks would block a standby.

Keepalives end an idle connection. One with unacknowledged data is retransmitted instead, by default for a quarter of an
hour: `tcp_user_timeout` ends that one.
"""
PATIENCE = 30.0
"""Seconds to wait for any answer: longer than the server's own limit, for a server that hangs as a whole."""


class Session(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever."""

    patience: float | None = None
    """seconds; `PATIENCE` by default"""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Run one exchange with the server, for as long as patience lasts."""
        patience = PATIENCE if self.patience is None else self.patience
        return super().wait(_impatient(gen, time.monotonic() + patience), *args, **kwargs)


def _impatient(exchange: Generator[Any, Any, Any], deadline: float) -> Generator[Any, Any, Any]:
    try:
        wanted = next(exchange)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise psycopg.OperationalError("the server did not answer in time")
            wanted = exchange.send(ready)
    except StopIteration as end:
        return end.value


class PostgresStore(SqlStore):
    """Events are appended on the connection that holds the claims: losing it loses both at once."""

    def __init__(self, url: str, *, learner: bool = False, create: bool = False) -> None:
        self._url, self._learner = url, learner
        self._turn = threading.RLock()
        self._writer: Session | None = None
        self._claims: set[str] = set()
        self._readers = Pool(self._connect, _close)
        try:
            self._prepare(create)
        except BaseException:
            self.close()
            raise

    def claim(self, forecaster: str) -> bool:
        """Become the only learner of a forecaster; False while another process is."""
        if not self._learner:
            return False
        with self._turn, self._writing() as writer:
            if forecaster not in self._claims:
                # Session locks add up: asking twice would need giving back twice.
                granted = writer.execute("SELECT pg_try_advisory_lock(%s)", (_key(forecaster),)).fetchone()
                self._claims |= {forecaster} if granted == (True,) else set()
            return forecaster in self._claims

    def holds(self, forecaster: str) -> bool:
        """Return whether a forecaster is claimed: not any more, once its connection has failed."""
        return forecaster in self._claims

    def append(self, events: Sequence[Event]) -> None:
        """Write all events or none, durably; their forecasters must be claimed."""
        if not self._learner:
            raise Conflict("store: given a database opened for reading, expected learner=True to append events")
        if not events:
            return
        with self._turn:
            unclaimed = {event.forecaster for event in events} - self._claims
            if unclaimed:
                names = ", ".join(sorted(unclaimed))
                raise Unavailable(
                    f"store: given events of {names}, not claimed or not any more, expected to claim again"
                )
            with self._writing() as writer:
                writer.execute(INSERT, [list(column) for column in zip(*events, strict=True)])

    def about(self, forecaster: str, ids: Sequence[str]) -> list[Event]:
        """Return everything stored under these ids, in order."""
        return [Event._make(row) for row in self._ask(ABOUT, (forecaster, list(ids)))]

    def shrink(self) -> None:
        """Make the space that was pruned free for new events; the learner goes on meanwhile."""
        with _translated(), closing(self._connect()) as session:
            session.patience = math.inf
            session.execute("SET statement_timeout = 0")
            session.execute("VACUUM (ANALYZE) events")

    def backup(self, path: str) -> None:
        """Refuse: the database has tools of its own for that."""
        raise ValueError("backup: given a PostgreSQL database, expected a SQLite file; use pg_dump --schema=swapcal")

    def ping(self) -> None:
        """Return if the database can be reached and written to, also by the connection that has the claims."""
        if self._read("SELECT pg_is_in_recovery()") != [(False,)]:
            raise Unavailable("store: given a standby database, expected one that can be written to")
        with self._turn:
            if self._claims:
                with self._writing() as writer:
                    writer.execute("SELECT 1")

    def close(self) -> None:
        """Release the claims and close all connections."""
        with self._turn:
            self._drop_writer()
        self._readers.clear()

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._ask(statement.replace("?", "%s"), values)

    def _ask(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Read, a second time if the connection had died unused; a new one then takes its place."""
        try:
            return self._once(query, values)
        except Unavailable:
            return self._once(query, values)

    def _once(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with _translated(), self._readers.lent() as reader:
            return reader.execute(query, values).fetchall()

    def _write(self, *statements: Statement) -> int:
        with _translated(), self._readers.lent() as connection, connection.transaction():
            return sum(
                connection.execute(statement.replace("?", "%s"), values).rowcount for statement, values in statements
            )

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        with _translated():
            writer = self._writer = self._writer or self._connect()
            try:
                yield writer
            except errors.IntegrityError:
                raise
            except BaseException:
                self._drop_writer()
                raise

    def _drop_writer(self) -> None:
        if self._writer is not None:
            _close(self._writer)
        self._writer = None
        self._claims.clear()

    def _connect(self) -> Session:
        given = psycopg.conninfo.conninfo_to_dict(self._url)
        defaults = {name: value for name, value in CONNECTING.items() if name not in given}
        session = Session.connect(self._url, autocommit=True, **cast(dict[str, Any], defaults))
        try:
            session.execute(SESSION)
        except BaseException:
            _close(session)
            raise
        return session

    def _prepare(self, create: bool) -> None:
        if not self._made():
            if not create:
                raise Unreadable(
                    "store: given a database without the schema swapcal, expected one that has been served"
                )
            self._make()
        check_version("a database", self._read("SELECT value FROM meta WHERE name = 'schema'")[0][0])

    def _made(self) -> bool:
        return bool(self._read("SELECT 1 WHERE to_regclass('swapcal.meta') IS NOT NULL"))

    def _make(self) -> None:
        with _translated(), self._readers.lent() as maker, maker.transaction():
            maker.execute("SELECT pg_advisory_xact_lock(%s)", (_key(""),))
            if not self._made():
                for statement in ("CREATE SCHEMA IF NOT EXISTS swapcal", *definitions(TYPES)):
                    maker.execute(statement)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except errors.IntegrityError as error:
        raise Conflict(f"store: {_line(error)}; nothing was written") from None
    except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError) as error:
        raise Unavailable(f"store: the database: {_line(error)}") from error
    except psycopg.Error as error:
        raise Unreadable(f"store: the database: {_line(error)}") from error


def _line(error: psycopg.Error) -> str:
    """Return the server's message without the rows it quotes, which may be private."""
    text = error.diag.message_primary or str(error) or type(error).__name__
    return " ".join(text.split())


def _key(forecaster: str) -> int:
    """Return the number of a forecaster's advisory lock; that of the empty name is the tables'."""
    digest = hashlib.sha256(b"swapcal\0" + forecaster.encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


def _close(session: Session) -> None:
    with suppress(psycopg.Error):
        session.close()
