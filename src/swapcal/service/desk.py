"""`Desk`: one queue, one learning thread; every batch is on disk before anybody hears of it."""

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from swapcal.service.clerk import Clerk
from swapcal.service.docket import dockets
from swapcal.service.event import MADE, Event
from swapcal.service.gauge import Gauge
from swapcal.service.jobs import ORDER, Ask, Job, Make, Promise, Write, size
from swapcal.service.limits import Limits
from swapcal.service.recovery import recover
from swapcal.service.refusal import Refusal, unavailable
from swapcal.service.settings import Settings, from_body, to_body
from swapcal.service.snapshot import Still
from swapcal.service.store import Conflict, Store, StoreError
from swapcal.service.ward import Draft, Label, Ward, fresh_ward

BATCH = 4096
"""Rows of a batch."""
TICK = 0.25
"""Seconds between looks at the clock when nothing comes."""
PATIENCE = 1.0
"""Seconds between attempts to take over or to rebuild."""
LONGEST, SHARE, MANY = 0.005, 0.25, 4
"""Seconds, share of a commit, and jobs of a batch from which on others are waited for."""
KEPT = 2
"""Snapshots kept."""
REST = 10.0
"""Seconds before a snapshot is tried again that failed."""

Answer = tuple[Promise, Any]
Log = Callable[..., None]


def _silent(event: str, **facts: Any) -> None:
    """Say nothing."""


def answer_at_once(answers: Sequence[Answer]) -> None:
    """Fulfil promises in the calling thread."""
    for promise, result in answers:
        if promise.done():
            continue
        if isinstance(result, Exception):
            promise.set_exception(result)
        else:
            promise.set_result(result)


class Desk:
    """Takes jobs from any thread and does them in batches, in one order, on one thread.

    Parameters
    ----------
    store : Store
        Opened for a learner; the desk closes it.
    limits : Limits
        Of the queue, and of what may wait in a forecaster.
    every, seconds : int, float
        A snapshot is taken after so many events, or so many seconds after the first event since the last one.
    clock : callable
        Returns seconds since 1970; may go backwards.
    answer : callable
        Fulfils promises; by default in the learning thread.
    log : callable
        Called with the name of an event and its facts.
    """

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits | None = None,
        every: int = 20_000,
        seconds: float = 300.0,
        clock: Callable[[], float] = time.time,
        answer: Callable[[Sequence[Answer]], None] = answer_at_once,
        log: Log = _silent,
    ) -> None:
        self.store = store
        self.limits = Limits() if limits is None else limits
        self.gauge = Gauge()
        self.wards: dict[str, Ward] = {}
        """of the learning thread alone"""
        self.answer = answer
        self.log = log
        self._every, self._seconds, self._clock = every, seconds, clock
        self._lost: dict[str, Ward | None] = {}
        """forecasters that are not ours now, with what was last known of them if that is still as the log says"""
        self._again = 0.0
        """when to try again to get those"""
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._rows = 0
        self._closing = False
        self._recent, self._commit = 0, 0.0
        """jobs of the last batch, and what a commit takes"""
        self._working = False
        self._kept: dict[str, tuple[int, float]] = {}
        """number of the event of the last snapshot, and when the first event after it was seen"""
        self._writing: Future[None] | None = None
        self._rested = 0.0
        """when snapshots may be tried again"""
        self._writer = ThreadPoolExecutor(1, "snapshots")
        self._thread = threading.Thread(target=self._work, name="learner", daemon=True)

    # ------------------------------------------------------------------ any thread

    def start(self) -> "Desk":
        """Begin to work: rebuild what the store holds, then take jobs."""
        self._thread.start()
        return self

    def submit(self, job: Job) -> None:
        """Put a job on the queue; raises `Refusal` if that is full or closed."""
        rows = size(job)
        with self._turn:
            if self._closing:
                raise unavailable("The service is stopping.", retry=5.0)
            if self._rows and self._rows + rows > self.limits.queue:
                self.gauge.full += 1
                raise unavailable(f"The queue is full: {self._rows:,} rows wait to be learned.")
            self._rows += rows
            self._queue.put(job)

    def call(self, make: Callable[[Promise], Job], timeout: float = 600.0) -> Any:
        """Do a job and wait for its answer; for threads without an event loop."""
        promise: Future[Any] = Future()
        self.submit(make(promise))
        return promise.result(timeout)

    @property
    def depth(self) -> int:
        """Rows that wait."""
        return self._rows

    @property
    def standing_by(self) -> list[str]:
        """Forecasters that another process learns, or that are being rebuilt."""
        return sorted(self._lost)

    @property
    def ready(self) -> bool:
        """Whether jobs are being done, for every forecaster in the store."""
        return self._working and self._thread.is_alive() and not self._lost and not self._closing

    def close(self) -> None:
        """Finish what is queued, take snapshots, and give the store back."""
        with self._turn:
            if self._closing:
                return
            self._closing = True
            self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        self._writer.shutdown()
        self.store.close()

    # ------------------------------------------------------------------ the learning thread

    def _work(self) -> None:
        warm()
        self._regain()
        self._working = True
        last = False
        while not last:
            batch, last = self._take()
            try:
                self._serve(batch)
                self._regain()
                self._keep_some()
            except Exception as error:
                self.log("fault", error=repr(error))
        self._keep_all()

    def _take(self) -> tuple[list[Job], bool]:
        """Return what is on the queue, and whether it is the last."""
        batch: list[Job] = []
        rows, last, wait = 0, False, TICK
        until = math.inf
        with suppress(queue.Empty):
            while rows < BATCH:
                job = self._queue.get(timeout=wait) if wait > 0 else self._queue.get_nowait()
                if job is None:
                    last = True
                    break
                if not batch:
                    until = time.perf_counter() + self._patience()
                batch.append(job)
                rows += size(job)
                wait = (until - time.perf_counter()) / 4
        with self._turn:
            self._rows -= rows
        self._recent = len(batch)
        return batch, last

    def _patience(self) -> float:
        """Return how long to wait for others to join a batch: a share of what a commit takes, if many come at a time.

        Those who were answered together come back together; else they would split into two halves that take turns.
        """
        return min(LONGEST, SHARE * self._commit) if self._recent >= MANY else 0.0

    def _serve(self, batch: Sequence[Job]) -> None:
        """Make forecasters, then write, then answer questions."""
        for job in batch:
            if isinstance(job, Make):
                self.answer([(job.promise, self._caught(lambda job=job: self._make(job.settings)))])  # type: ignore[misc]
        writes = [job for job in batch if isinstance(job, Write)]
        if writes:
            self.answer(self._written(writes))
        asked = [job for job in batch if isinstance(job, Ask)]
        if asked:
            self.answer([(job.promise, self._caught(lambda job=job: self._asked(job))) for job in asked])  # type: ignore[misc]

    def _caught(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Refusal as refusal:
            return refusal
        except StoreError as error:
            return unavailable(f"The store cannot be reached: {error}")
        except Exception as error:
            self.log("fault", error=repr(error))
            return Refusal("internal", "A fault of the service; it is in the log. Nothing has changed.")

    def _asked(self, job: Ask) -> Any:
        return job.question(self._ward(job.forecaster))

    def _ward(self, name: str) -> Ward:
        if name in self._lost:
            raise unavailable(f"Forecaster {name!r} is being rebuilt, or another process is its learner.")
        if name not in self.wards:
            raise Refusal("unknown", f"forecaster: given {name!r}, expected one that was made")
        return self.wards[name]

    def _make(self, settings: Settings) -> bool:
        name = settings.name
        if name in self._lost:
            self._ward(name)
        if name in self.wards:
            return self._same(self.wards[name].settings, settings)
        if len(self.wards) >= self.limits.forecasters:
            most = self.limits.forecasters
            raise Refusal("many", f"forecasters: given one more than {most:,}, expected at most so many", retry=60.0)
        if not self.store.claim(name):
            raise unavailable(f"Another process is the learner of forecaster {name!r}.")
        made = Event(name, 1, MADE, "", self._clock(), to_body(settings))
        try:
            self._append([made])
        except Conflict:
            self._lost_touch([name], unknown=False)
            return self._same(self._ward(name).settings, settings)
        except StoreError:
            self._lost_touch([name], unknown=True)
            raise
        self._hold(fresh_ward(made), 0)
        self.log("made", forecaster=name, seq=1)
        return True

    def _same(self, known: Settings, given: Settings) -> bool:
        if known == given:
            return False
        differing = [field for field in given.__struct_fields__ if getattr(known, field) != getattr(given, field)]
        raise Refusal(
            "conflict",
            f"forecaster: given {given.name!r} with other settings ({', '.join(differing)}), expected those it has",
            given={field: getattr(given, field) for field in differing},
            known={field: getattr(known, field) for field in differing},
        )

    def _written(self, jobs: Sequence[Write]) -> list[Answer]:
        """Write, and leave nobody waiting, whatever goes wrong: then the forecasters are rebuilt in a moment."""
        try:
            return self._write(jobs)
        except Exception as error:
            self.log("fault", error=repr(error))
            self._lose([*dict.fromkeys(job.forecaster for job in jobs)], intact=False)
            refusal = unavailable("A fault of the service; nothing is acknowledged, and the forecaster is rebuilt.")
            return [(job.promise, refusal) for job in jobs]

    def _write(self, jobs: Sequence[Write]) -> list[Answer]:
        """Apply jobs in order, commit once, and return the answers; if that fails, none was done."""
        names = [*dict.fromkeys(job.forecaster for job in jobs)]
        answers: list[Answer] = []
        events: list[Event] = []
        try:
            for name in names:
                own = [job for job in jobs if job.forecaster == name]
                try:
                    ward = self._ward(name)
                except Refusal as refusal:
                    answers += [(job.promise, refusal) for job in own]
                    continue
                found, made = self._apply(ward, own)
                answers += found
                events += made
            if events:
                self._append(events)
        except StoreError as error:
            return self._failed(jobs, names, error)
        except Exception as error:
            return self._isolated(jobs, names, error)
        return answers

    def _apply(self, ward: Ward, jobs: Sequence[Write]) -> tuple[list[Answer], list[Event]]:
        known = dockets(self.store.about(ward.name, [row.id for job in jobs for row in job.rows]))
        clerk = Clerk(ward, known, self._clock(), self.limits)
        answers: list[Answer] = []
        for kind in ORDER:
            same = [job for job in jobs if job.kind == kind]
            if same:
                found = iter(getattr(clerk, kind)([row for job in same for row in job.rows]))
                answers += [(job.promise, [next(found) for _ in job.rows]) for job in same]
        return answers, clerk.events

    def _append(self, events: Sequence[Event]) -> None:
        began = time.perf_counter()
        self.store.append(events)
        took = time.perf_counter() - began
        self.gauge.commits.add(took)
        self._commit += (took - self._commit) / 8
        for event in events:
            self.gauge.events[event.kind] = self.gauge.events.get(event.kind, 0) + 1
        for name in dict.fromkeys(event.forecaster for event in events):
            own = [event.seq for event in events if event.forecaster == name]
            self.log("commit", forecaster=name, first=own[0], last=own[-1], seconds=round(took, 6))

    def _failed(self, jobs: Sequence[Write], names: Sequence[str], error: StoreError) -> list[Answer]:
        """Refuse a whole batch; its forecasters are ahead of the log, and the others' claims may be gone."""
        self.gauge.failures += 1
        self.log("commit failed", forecasters=[*names], error=str(error))
        self._lost_touch(names, unknown=not isinstance(error, Conflict))
        refusal = unavailable("The store could not write; nothing is acknowledged, and the forecaster is rebuilt.")
        return [(job.promise, refusal) for job in jobs]

    def _isolated(self, jobs: Sequence[Write], names: Sequence[str], error: Exception) -> list[Answer]:
        """Do jobs one by one after a fault, so that only the one at fault suffers."""
        self.log("fault", forecasters=[*names], error=repr(error))
        self._lost_touch(names, unknown=False)
        if len(jobs) > 1:
            return [answer for job in jobs for answer in self._write([job])]
        fault = Refusal("internal", "A fault of the service; it is in the log. Nothing has changed.")
        return [(job.promise, fault) for job in jobs]

    # ------------------------------------------------------------------ gaining and losing forecasters

    def _hold(self, ward: Ward, snapshot: int) -> None:
        self.wards[ward.name] = ward
        self._kept[ward.name] = snapshot, time.monotonic()

    def _lose(self, names: Iterable[str], *, intact: bool) -> None:
        for name in names:
            ward = self.wards.pop(name, None)
            if ward is not None or not intact:
                self._lost[name] = ward if intact else None

    def _lost_touch(self, names: Iterable[str], *, unknown: bool) -> None:
        """Rebuild forecasters that may be ahead of the log; where it is unknown what was written, claim all again."""
        self._lose(names, intact=False)
        if unknown:
            self._lose([*self.wards], intact=True)
        self._regain(now=True)

    def _find_forecasters(self) -> None:
        for name in self.store.forecasters():
            if name not in self.wards:
                self._lost.setdefault(name, None)

    def _regain(self, *, now: bool = False) -> None:
        """Claim and rebuild what is not ours, now or when it is time again; nothing is ours while the store is gone."""
        if not now and time.monotonic() < self._again:
            return
        self._again = time.monotonic() + PATIENCE
        try:
            self.store.ping()
            self._find_forecasters()
        except StoreError as error:
            self.log("store unavailable", error=str(error))
            self._lose([*self.wards], intact=True)
            return
        self._lose([name for name in self.wards if not self.store.holds(name)], intact=True)
        for name in [*self._lost]:
            try:
                if self.store.claim(name):
                    self._rebuild(name)
            except Exception as error:
                self.log("rebuild failed", forecaster=name, error=str(error))

    def _rebuild(self, name: str) -> None:
        ward = self._lost[name]
        if ward is not None and self.store.last(name) == ward.seq:
            self.wards[name] = ward
        elif ward is None and not self.store.last(name):
            pass  # it was never made
        else:
            found = recover(self.store, name)
            self.gauge.rebuilds += 1
            self._hold(found.ward, found.snapshot)
            facts = {"snapshot": found.snapshot, "replayed": found.replayed, "seconds": round(found.seconds, 3)}
            self.log("ready", forecaster=name, **facts)
        del self._lost[name]

    # ------------------------------------------------------------------ snapshots

    def _keep_some(self) -> None:
        """Begin a snapshot of one forecaster that needs one, unless one is being written."""
        if (self._writing is not None and not self._writing.done()) or time.monotonic() < self._rested:
            return
        for name, ward in self.wards.items():
            seq, since = self._kept[name]
            if ward.seq == seq:
                self._kept[name] = seq, time.monotonic()
            elif ward.seq - seq >= self._every or time.monotonic() - since >= self._seconds:
                self._kept[name] = ward.seq, time.monotonic()
                self._writing = self._writer.submit(self._keep, Still(ward), seq)
                return

    def _keep_all(self) -> None:
        if self._writing is not None:
            self._writing.result()
        for name, ward in self.wards.items():
            if ward.seq != self._kept[name][0]:
                self._keep(Still(ward), self._kept[name][0])

    def _keep(self, still: Still, before: int = 0) -> None:
        """Write a snapshot, have it verified, and only then drop older ones; if that fails, try again after a rest."""
        began = time.perf_counter()
        try:
            content = still.to_bytes()
            self.store.keep_snapshot(still.name, still.seq, content)
            self.store.drop_snapshots(still.name, KEPT)
        except Exception as error:
            self.gauge.snapshot_failures += 1
            self.log("snapshot failed", forecaster=still.name, seq=still.seq, error=str(error))
            self._kept[still.name], self._rested = (before, time.monotonic()), time.monotonic() + REST
            return
        took = time.perf_counter() - began
        self.gauge.snapshots.add(took)
        self.log("snapshot", forecaster=still.name, seq=still.seq, bytes=len(content), seconds=round(took, 3))


def warm() -> None:
    """Load the kernels, which takes a while, before anybody waits for them."""
    ward = Ward(Settings(name="warm", groups=["g"]))
    drafts = [Draft(str(k), {"g": "ab"[k % 2], "x": float(k)}) for k in range(8)]
    ward.forecast(drafts[:4], 0.0)
    ward.outcome([Label(str(k), 1.0) for k in range(3)], 1.0)
    ward.forecast(drafts[4:5], 2.0)
    ward.outcome([Label("3", 0.0)], 3.0)
    ward.live.preview([drafts[0].record])


def settings_in(store: Store) -> dict[str, Settings]:
    """Return the settings of every forecaster in a store."""
    return {name: from_body(body) for name, body in store.forecasters().items()}
