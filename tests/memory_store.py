"""A store in memory, whose commits can be made to fail before or after they are written."""

import hashlib
from collections.abc import Iterator, Sequence

from swapcal.service.events import MADE, Event
from swapcal.service.sql import Conflict, KeptSnapshot, TokenRow, Unavailable, Unreadable


class MemoryStore:
    def __init__(self) -> None:
        self.logs: dict[str, list[Event]] = {}
        self.kept: dict[tuple[str, int], bytes] = {}
        self.appends = 0
        self.fault: str | None = None
        """of the next commit: before, after (it was written, but nobody knows), or conflict"""
        self.down = False
        self.ours = True

    def _reach(self) -> None:
        if self.down:
            raise Unavailable("store: out of reach")

    def forecasters(self) -> dict[str, bytes]:
        self._reach()
        return {name: log[0].body for name, log in self.logs.items() if log[0].kind == MADE}

    def claim(self, forecaster: str) -> bool:
        self._reach()
        return self.ours

    def holds(self, forecaster: str) -> bool:
        return self.ours

    def append(self, events: Sequence[Event]) -> None:
        self._reach()
        fault, self.fault = self.fault, None
        if fault == "before":
            raise Unavailable("store: disk full")
        if fault == "conflict":
            raise Conflict("store: somebody else was there first")
        logs = {name: [*log] for name, log in self.logs.items()}
        for event in events:
            log = logs.setdefault(event.forecaster, [])
            if event.seq != len(log) + 1:
                raise Conflict(f"store: event {event.seq} after {len(log)}")
            if event.kind in ("forecast", "outcome") and any((e.kind, e.id) == (event.kind, event.id) for e in log):
                raise Conflict(f"store: a second {event.kind} of {event.id}")
            log.append(event)
        self.logs, self.appends = logs, self.appends + 1
        if fault == "after":
            raise Unavailable("store: connection lost")

    def about(self, forecaster: str, ids: Sequence[str]) -> list[Event]:
        self._reach()
        wanted = set(ids)
        return [event for event in self.logs.get(forecaster, []) if event.id in wanted and event.kind != MADE]

    def events(self, forecaster: str, after: int = 0, until: int | None = None) -> Iterator[Event]:
        self._reach()
        return iter(self.logs.get(forecaster, [])[after:until])

    def last(self, forecaster: str) -> int:
        self._reach()
        return len(self.logs.get(forecaster, []))

    def keep_snapshot(self, forecaster: str, seq: int, content: bytes) -> None:
        self._reach()
        self.kept[forecaster, seq] = content

    def snapshots(self, forecaster: str) -> list[KeptSnapshot]:
        found = sorted((seq for name, seq in self.kept if name == forecaster), reverse=True)
        return [KeptSnapshot(seq, hashlib.sha256(self.kept[forecaster, seq]).digest(), 0, 0.0) for seq in found]

    def snapshot(self, forecaster: str, seq: int) -> bytes:
        if (forecaster, seq) not in self.kept:
            raise Unreadable("store: no such snapshot")
        return self.kept[forecaster, seq]

    def drop_snapshots(self, forecaster: str, keep: int) -> None:
        for old in self.snapshots(forecaster)[keep:]:
            del self.kept[forecaster, old.seq]

    def keep_token(self, token: TokenRow) -> None:
        raise NotImplementedError

    def tokens(self) -> list[TokenRow]:
        return []

    def revoke_token(self, name: str, at: float) -> bool:
        return False

    def ping(self) -> None:
        self._reach()

    def close(self) -> None:
        pass
