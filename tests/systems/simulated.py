"""What a service stands on, driven by a seed: time, sessions of a database, commits that fail, work put off."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from swapcal.service import queue, snapshots, sql, worker
from swapcal.service.events import Event
from swapcal.service.sql import Conflict, Unavailable
from swapcal.service.store import SQLiteStore

PIECE = 60_000
"""Bytes of a piece of a snapshot: several to a snapshot, between which a process can end."""


class Crash(BaseException):
    """The process ends here."""


class SimulatedTime:
    """Takes the place of the module `time`: it moves when the simulation says so."""

    def __init__(self, now: float = 1.7e9) -> None:
        self.now = now

    def time(self) -> float:
        """Return seconds since 1970."""
        return self.now

    monotonic = perf_counter = time

    def time_ns(self) -> int:
        """Return nanoseconds since 1970."""
        return int(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        """Wait for nothing: the time of a step is that of the step."""


@contextmanager
def in_place(time: SimulatedTime) -> Iterator[None]:
    """Let the service go by simulated time, and cut snapshots into small pieces."""
    with ExitStack() as stack:
        for module in (queue, snapshots, sql, worker):
            stack.enter_context(patch.object(module, "time", time))
        stack.enter_context(patch.object(sql, "PIECE", PIECE))
        yield


class Fault(NamedTuple):
    """What goes wrong with a commit to come: how, and after how many that go well."""

    how: str
    """before or after it took effect (the caller does not learn which), conflict, or the process is killed there"""
    after: int


HOW = ("before", "after", "conflict", "killed before", "killed after")


class Sessions:
    """Who learns what, as a database with locks per session has it."""

    def __init__(self) -> None:
        self.owner: dict[str, SimulatedStore] = {}

    def end(self, store: "SimulatedStore") -> None:
        """Free what a session held."""
        self.owner = {name: one for name, one in self.owner.items() if one is not store}


class SimulatedStore(SQLiteStore):
    """The store of one of several processes on one file: claims as in PostgreSQL, everything else as in SQLite.

    A failure ends the session, and with it all claims. A session that was cut off is noticed at its next use.
    """

    def __init__(self, path: str, sessions: Sessions, *, learner: bool = True) -> None:
        super().__init__(path, create=True)
        self._sessions, self._learner = sessions, learner
        self._claims: set[str] = set()
        self.fault: Fault | None = None
        self.down = False
        self.cut = False
        """whether the session has ended without this process knowing"""
        self.failed = 0

    def claim(self, forecaster: str) -> bool:
        """Become the only learner of a forecaster; False while another session is."""
        self._use()
        if self._learner and self._sessions.owner.setdefault(forecaster, self) is self:
            self._claims.add(forecaster)
        return forecaster in self._claims

    def holds(self, forecaster: str) -> bool:
        """Return whether a forecaster is claimed, as far as this process knows."""
        return forecaster in self._claims

    def append(self, events: Sequence[Event]) -> None:
        """Write events of forecasters that are claimed."""
        self._use()
        if {event.forecaster for event in events} - self._claims:
            raise Unavailable("store: not claimed, or not any more")
        self._file_lock = _Held()
        super().append(events)

    def ping(self) -> None:
        """Raise `Unavailable` if the database or the session is gone."""
        self._use()
        super().ping()

    def about(self, forecaster: str, ids: Sequence[str]) -> list[Event]:
        """Return everything stored under these ids."""
        self._reach()
        return super().about(forecaster, ids)

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._reach()
        return super()._read(statement, values)

    def _reach(self) -> None:
        if getattr(self, "down", False):
            raise self._ended(Unavailable("store: out of reach"))

    def _use(self) -> None:
        self._reach()
        if self.cut:
            self.cut = False
            raise self._ended(Unavailable("store: the session was ended by the server"))

    def _ended(self, error: Exception) -> Exception:
        self.failed += 1
        self._claims.clear()
        self._sessions.end(self)
        return error

    def cut_off(self) -> None:
        """End the session on the side of the database only."""
        self.cut = True
        self._sessions.end(self)

    def close(self) -> None:
        """Give back the claims and all connections; also after a crash, which takes back what was begun."""
        super().close()
        if hasattr(self, "_claims"):
            self._ended(Unavailable("store: closed"))

    def _transaction(self, work: Callable[[Any], Any], synchronous: str = "FULL") -> Any:
        self._reach()
        fault = self._due()
        if fault in ("before", "killed before", "conflict"):
            raise self._planted(fault)
        result = super()._transaction(work, synchronous)
        if fault is not None:
            raise self._planted(fault)
        return result

    def _due(self) -> str | None:
        fault = getattr(self, "fault", None)
        if fault is None:
            return None
        self.fault = None if fault.after == 0 else fault._replace(after=fault.after - 1)
        return fault.how if fault.after == 0 else None

    def _planted(self, how: str) -> BaseException:
        if how.startswith("killed"):
            return Crash(how)
        if how == "conflict":
            self.failed += 1
            return Conflict("store: another learner was there first")
        return self._ended(Unavailable(f"store: a commit failed {how} it took effect"))


class _Held:
    """In place of the lock of a file: here several processes share it."""

    def leave(self) -> None:
        """Do nothing."""


class PutOff:
    """In place of a thread: work is done when the simulation says so, or never."""

    def __init__(self) -> None:
        self._work: list[tuple[Future[None], Callable[[], None]]] = []

    def submit(self, work: Callable[..., None], *arguments: Any) -> "Future[None]":
        """Put work off."""
        future: Future[None] = Future()
        self._work.append((future, lambda: work(*arguments)))
        return future

    def run(self) -> int:
        """Do what was put off; return how much that was."""
        work, self._work = self._work, []
        for future, call in work:
            call()
            future.set_result(None)
        return len(work)

    def shutdown(self) -> None:
        """Do what was put off."""
        self.run()
