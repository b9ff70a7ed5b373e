"""The write queue and the snapshotter alone: what is taken at a time, and when a snapshot is due."""

import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("msgspec")

from swapcal.service import queue as queueing
from swapcal.service import snapshots as keeping
from swapcal.service.queue import (
    BATCH,
    BOUNDS,
    FORECASTS,
    LONGEST,
    MANY,
    SHARE,
    TICK,
    Durations,
    Metrics,
    Write,
    WriteQueue,
)
from swapcal.service.settings import ApiError
from swapcal.service.snapshots import Snapshotter
from tests.memory_store import MemoryStore


def write(rows: int) -> Write:
    row: Any = None
    return Write(Future(), "shop", FORECASTS, [row] * rows)


def test_one_batch_is_always_taken_however_large() -> None:
    queue = WriteQueue(3, Metrics())
    queue.put(write(10))
    with pytest.raises(ApiError, match="10 rows wait"):
        queue.put(write(1))
    assert [len(job.rows) for job in queue.take(0.0)[0]] == [10]
    assert queue.rows == 0
    queue.put(write(2))
    queue.put(write(1))
    assert queue.rows == 3


def test_a_batch_ends_with_the_job_that_fills_it() -> None:
    queue, half = WriteQueue(10 * BATCH, Metrics()), BATCH // 2 + 1
    for _ in range(3):
        queue.put(write(half))
    assert queue.close()
    assert not queue.close()
    batch, last = queue.take(0.0)
    assert (len(batch), last, queue.rows) == (2, False, half)
    batch, last = queue.take(0.0)
    assert (len(batch), last, queue.rows) == (1, True, 0)


def test_others_are_waited_for_only_where_many_came_together() -> None:
    queue = WriteQueue(BATCH, Metrics())
    for jobs, patience in ((MANY - 1, 0.0), (MANY, SHARE * 0.004)):
        for _ in range(jobs):
            queue.put(write(1))
        assert len(queue.take(0.0)[0]) == jobs
        assert queue._patience(0.004) == patience
    assert queue._patience(100.0) == LONGEST


def test_waits_have_an_end_however_short_they_are() -> None:
    queue, rounds = WriteQueue(BATCH, Metrics()), 0

    def take() -> None:
        nonlocal rounds
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            for _ in range(MANY):
                queue.put(write(1))
            patience = 1e-6 * (rounds % 16)  # of which a quarter is waited for the next job
            assert len(queue.take(patience / SHARE)[0]) == MANY
            rounds += 1

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(20.0)
    assert not thread.is_alive(), f"take: waits for ever after {rounds} rounds"


def test_nothing_is_waited_for_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, waits, clock = WriteQueue(BATCH, Metrics()), [], [0.0]
    monkeypatch.setattr(queueing.time, "perf_counter", lambda: clock[0])

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock[0] += 0.0005
        if len(waits) < 4:
            queue._jobs.append(write(0))

    monkeypatch.setattr(queue._turn, "wait", wait)
    queue._recent = MANY
    assert len(queue.take(0.004)[0]) == 3  # patience is 1 ms: two halves of it pass
    assert waits == [TICK, pytest.approx(0.00025), pytest.approx(0.000125)]
    queue.close()
    assert queue.take(0.004) == ([], True)
    assert len(waits) == 3


def test_a_snapshot_is_due_by_events_or_by_seconds_since_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = [100.0], []
    monkeypatch.setattr(keeping.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(keeping, "Still", lambda hosted: hosted)
    snapshotter = Snapshotter(MemoryStore(), Metrics(), lambda *_, **__: None, every=5, seconds=60.0)
    monkeypatch.setattr(snapshotter, "keep", lambda hosted, before: written.append((before, hosted.seq)))
    hosted: Any = SimpleNamespace(seq=1, accepted={})
    snapshotter.hold("shop", 1)

    def look(seq: int, at: float) -> list[Any]:
        hosted.seq, clock[0] = seq, at
        snapshotter.keep_some({"shop": hosted})
        if snapshotter.writing is not None:
            snapshotter.writing.result(10)
        return written

    assert look(1, 1000.0) == []  # nothing happened since: the seconds begin with the next event
    assert look(5, 1059.0) == []
    assert look(5, 1060.0) == [(1, 5)]
    assert look(9, 1061.0) == [(1, 5)]
    assert look(10, 1062.0) == [(1, 5), (5, 10)]
    snapshotter.rested = 2000.0
    assert len(look(99, 1999.0)) == 2
    assert len(look(99, 2000.0)) == 3
    snapshotter.close()


def test_a_full_batch_takes_no_further_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "BATCH", 4)
    queue = WriteQueue(100, Metrics())
    for _ in range(6):
        queue.put(write(1))
    assert [len(queue.take(0.0, 0.0)[0]) for _ in range(2)] == [4, 2]


def test_closing_wakes_a_learner_that_waits() -> None:
    queue, took = WriteQueue(3, Metrics()), Future()  # type: WriteQueue, Future[float]

    def wait() -> None:
        began = time.monotonic()
        queue.take(0.0, 60.0)
        took.set_result(time.monotonic() - began)

    threading.Thread(target=wait, daemon=True).start()
    time.sleep(0.05)
    queue.close()
    assert took.result(30.0) < 30.0


def test_what_took_longer_than_every_bound_is_counted_beyond() -> None:
    durations = Durations()
    for seconds in (BOUNDS[0], BOUNDS[-1], 2.0 * BOUNDS[-1]):
        durations.add(seconds)
    assert (durations.counts[0], durations.counts[-2:]) == (1, [1, 1])
