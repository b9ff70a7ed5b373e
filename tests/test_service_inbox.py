"""The inbox and the keeper by themselves: what is taken at a time, and when a snapshot is due."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("msgspec")

from swapcal.service import snapshots as keeping
from swapcal.service.api_error import Refusal
from swapcal.service.queue import BATCH, FORECASTS, LONGEST, MANY, SHARE, Gauge, Inbox, Write
from swapcal.service.snapshots import Keeper
from tests.memory_store import MemoryStore


def write(rows: int) -> Write:
    row: Any = None
    return Write(Future(), "shop", FORECASTS, [row] * rows)


def test_one_batch_is_always_taken_however_large() -> None:
    inbox = Inbox(3, Gauge())
    inbox.put(write(10))
    with pytest.raises(Refusal, match="10 rows wait"):
        inbox.put(write(1))
    assert [len(job.rows) for job in inbox.take(0.0)[0]] == [10]
    assert inbox.rows == 0
    inbox.put(write(2))
    inbox.put(write(1))
    assert inbox.rows == 3


def test_a_batch_ends_with_the_job_that_fills_it() -> None:
    inbox, half = Inbox(10 * BATCH, Gauge()), BATCH // 2 + 1
    for _ in range(3):
        inbox.put(write(half))
    assert inbox.close()
    assert not inbox.close()
    batch, last = inbox.take(0.0)
    assert (len(batch), last, inbox.rows) == (2, False, half)
    batch, last = inbox.take(0.0)
    assert (len(batch), last, inbox.rows) == (1, True, 0)


def test_others_are_waited_for_only_where_many_came_together() -> None:
    inbox = Inbox(BATCH, Gauge())
    for jobs, patience in ((MANY - 1, 0.0), (MANY, SHARE * 0.004)):
        for _ in range(jobs):
            inbox.put(write(1))
        assert len(inbox.take(0.0)[0]) == jobs
        assert inbox._patience(0.004) == patience
    assert inbox._patience(100.0) == LONGEST


def test_a_snapshot_is_due_by_events_or_by_seconds_since_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = [100.0], []
    monkeypatch.setattr(keeping.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(keeping, "Still", lambda ward: ward)
    keeper = Keeper(MemoryStore(), Gauge(), lambda *_, **__: None, every=5, seconds=60.0)
    monkeypatch.setattr(keeper, "keep", lambda ward, before: written.append((before, ward.seq)))
    ward: Any = SimpleNamespace(seq=1)
    keeper.hold("shop", 1)

    def look(seq: int, at: float) -> list[Any]:
        ward.seq, clock[0] = seq, at
        keeper.keep_some({"shop": ward})
        if keeper.writing is not None:
            keeper.writing.result(10)
        return written

    assert look(1, 1000.0) == []  # nothing happened since: the seconds begin with the next event
    assert look(5, 1059.0) == []
    assert look(5, 1060.0) == [(1, 5)]
    assert look(9, 1061.0) == [(1, 5)]
    assert look(10, 1062.0) == [(1, 5), (5, 10)]
    keeper.rested = 2000.0
    assert len(look(99, 1999.0)) == 2
    assert len(look(99, 2000.0)) == 3
    keeper.close()
