"""`Desk`: one queue, one learning thread; every batch is on disk before anybody hears of it."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from swapcal.service.api_error import Refusal, unavailable
from swapcal.service.commands import Clerk
from swapcal.service.events import MADE, Event, dockets
from swapcal.service.hosted import Draft, Label, Ward, fresh_ward
from swapcal.service.queue import ORDER, Ask, Gauge, Inbox, Job, Make, Promise, Write
from swapcal.service.settings import Limits, Settings, from_body, to_body
from swapcal.service.snapshots import Keeper, recover
from swapcal.service.sql import Conflict, StoreError
from swapcal.service.store import Store

PATIENCE = 1.0
"""Seconds between attempts to take over or to rebuild."""

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
        self._clock = clock
        self._lost: dict[str, Ward | None] = {}
        """forecasters that are not ours now, with what was last known of them if that is still as the log says"""
        self._again = 0.0
        """when to try again to get those"""
        self._inbox = Inbox(self.limits.queue, self.gauge)
        self._commit = 0.0
        """what a commit takes"""
        self._working = False
        self._keeper = Keeper(store, self.gauge, log, every, seconds)
        self._thread = threading.Thread(target=self._work, name="learner", daemon=True)

    # ------------------------------------------------------------------ any thread

    def start(self) -> "Desk":
        """Begin to work: rebuild what the store holds, then take jobs."""
        self._thread.start()
        return self

    def submit(self, job: Job) -> None:
        """Put a job on the queue; raises `Refusal` if that is full or closed."""
        self._inbox.put(job)

    def call(self, make: Callable[[Promise], Job], timeout: float = 600.0) -> Any:
        """Do a job and wait for its answer; for threads without an event loop."""
        promise: Future[Any] = Future()
        self.submit(make(promise))
        return promise.result(timeout)

    @property
    def depth(self) -> int:
        """Rows that wait."""
        return self._inbox.rows

    @property
    def standing_by(self) -> list[str]:
        """Forecasters that another process learns, or that are being rebuilt."""
        return sorted(self._lost)

    @property
    def ready(self) -> bool:
        """Whether jobs are being done, for every forecaster in the store."""
        return self._working and self._thread.is_alive() and not self._lost and not self._inbox.closing

    def close(self) -> None:
        """Finish what is queued, take snapshots, and give the store back."""
        if not self._inbox.close():
            return
        if self._thread.ident is not None:
            self._thread.join()
        self._keeper.close()
        self.store.close()

    # ------------------------------------------------------------------ the learning thread

    def _work(self) -> None:
        warm()
        self._regain()
        self._working = True
        last = False
        while not last:
            batch, last = self._inbox.take(self._commit)
            try:
                self._serve(batch)
                self._regain()
                self._keeper.keep_some(self.wards)
            except Exception as error:
                self.log("fault", error=repr(error))
        self._keeper.keep_all(self.wards)

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
        self._keeper.hold(ward.name, snapshot)

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
