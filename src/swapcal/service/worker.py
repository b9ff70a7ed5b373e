"""`Worker`: one queue, one learning thread; every batch is on disk before it is acknowledged."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any

from msgspec import Raw

from swapcal.service.commands import CommandHandler
from swapcal.service.events import MADE, Event, encoded, id_histories
from swapcal.service.hosted import HostedForecaster, fresh_forecaster
from swapcal.service.messages import ForecastIn, OutcomeRowIn
from swapcal.service.queue import ORDER, TICK, Ask, Job, Make, Metrics, Promise, Write, WriteQueue
from swapcal.service.settings import ApiError, Limits, Settings, from_body, to_body, unavailable
from swapcal.service.snapshots import Snapshotter, recover
from swapcal.service.sql import Conflict, StoreError
from swapcal.service.store import Store
from swapcal.service.tracing import COMMIT, LEARN, WAIT, stamp

PATIENCE = 1.0
"""Seconds between attempts to take over or to rebuild."""

WINDOWS, FEW = 500, 100
"""Forecasts learned as silence between two batches: while no requests come, and while they do or did within `TICK`, so
that these wait for some thousandths of a second."""

Answer = tuple[Promise, Any]
Log = Callable[..., None]


def _silent(event: str, **facts: Any) -> None:
    """Write no log."""


def answer_at_once(answers: Sequence[Answer]) -> None:
    """Fulfil promises in the calling thread."""
    for promise, result in answers:
        if promise.done():
            continue
        if isinstance(result, Exception):
            promise.set_exception(result)
        else:
            promise.set_result(result)


class Worker:
    """Takes jobs from any thread and does them in batches, in one order, on one thread.

    Parameters
    ----------
    store : Store
        Opened for a learner; the worker closes it.
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
        self.metrics = Metrics()
        self.forecasters: dict[str, HostedForecaster] = {}
        """of the learning thread alone"""
        self.answer = answer
        self.log = log
        self._clock = clock
        self._lost: dict[str, HostedForecaster | None] = {}
        """forecasters that another process owns, with their last known state if it still agrees with the log"""
        self._again = 0.0
        """when to try again to get those"""
        self._queue = WriteQueue(self.limits.queue, self.metrics)
        self._commit = 0.0
        """what a commit takes"""
        self._working = False
        self._busy_until = 0.0
        """until when further requests are expected"""
        self._snapshotter = Snapshotter(store, self.metrics, log, every, seconds)
        self._thread = threading.Thread(target=self._work, name="learner", daemon=True)

    # ------------------------------------------------------------------ any thread

    def start(self) -> "Worker":
        """Begin to work: rebuild what the store holds, then take jobs."""
        self._thread.start()
        return self

    def submit(self, job: Job) -> None:
        """Put a job on the queue; raises `ApiError` if that is full or closed."""
        self._queue.put(job)

    def call(self, make: Callable[[Promise], Job], timeout: float = 600.0) -> Any:
        """Do a job and wait for its answer; for threads without an event loop."""
        promise: Future[Any] = Future()
        self.submit(make(promise))
        return promise.result(timeout)

    @property
    def depth(self) -> int:
        """Rows that wait."""
        return self._queue.rows

    @property
    def standing_by(self) -> list[str]:
        """Forecasters that another process learns, or that are being rebuilt."""
        return sorted(self._lost)

    @property
    def ready(self) -> bool:
        """Whether jobs are being done, for every forecaster in the store."""
        return self._working and self._thread.is_alive() and not self._lost and not self._queue.closing

    def close(self) -> None:
        """Finish what is queued, take snapshots, and give the store back."""
        if not self._queue.close():
            return
        if self._thread.ident is not None:
            self._thread.join()
        self._snapshotter.close()
        self.store.close()

    # ------------------------------------------------------------------ the learning thread

    def _work(self) -> None:
        warm()
        self._regain()
        self._working = True
        last = behind = False
        while not last:
            behind, last = self._step(0.0 if behind else TICK)
        self._snapshotter.keep_all(self.forecasters)

    def _step(self, wait: float) -> tuple[bool, bool]:
        """Do one batch and due work; return whether windows are behind, and whether it was the last batch."""
        batch, last = self._queue.take(self._commit, wait)
        behind = False
        try:
            self._serve(batch)
            self._busy_until = time.monotonic() + TICK if batch else self._busy_until
            behind = self._settle_windows(busy=time.monotonic() < self._busy_until)
            self._regain()
            self._snapshotter.keep_some(self.forecasters, behind=behind)
        except Exception as error:
            self.log("fault", error=repr(error))
        return behind, last

    def _serve(self, batch: Sequence[Job]) -> None:
        """Make forecasters, then write, then answer questions."""
        for job in batch:
            if isinstance(job, Make):
                self.answer([(job.promise, self._caught(lambda job=job: self._make(job.settings)))])  # type: ignore[misc]
        writes = [job for job in batch if isinstance(job, Write)]
        if writes:
            self.answer(self._written(writes))
        reads = [job for job in batch if isinstance(job, Ask)]
        if reads:
            self.answer([(job.promise, self._caught(lambda job=job: self._asked(job))) for job in reads])  # type: ignore[misc]

    def _caught(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except ApiError as refusal:
            return refusal
        except StoreError as error:
            return unavailable(f"The store cannot be reached: {error}")
        except Exception as error:
            self.log("fault", error=repr(error))
            return ApiError("internal", "Internal error; see the log. Nothing has changed.")

    def _asked(self, job: Ask) -> Any:
        hosted = self._hosted(job.forecaster)
        hosted.advance(self._clock())
        return job.question(hosted)

    def _hosted(self, name: str) -> HostedForecaster:
        if name not in self.forecasters:
            self._find_forecasters()  # another process may have made it since the last look
        if name in self._lost:
            raise unavailable(f"Forecaster {name!r} is being rebuilt, or another process is its learner.")
        if name not in self.forecasters:
            raise ApiError("unknown", f"forecaster: given {name!r}, expected one that was made")
        return self.forecasters[name]

    def _make(self, settings: Settings) -> bool:
        name = settings.name
        if name in self._lost:
            self._hosted(name)
        if name in self.forecasters:
            return self._same(self.forecasters[name].settings, settings)
        if len(self.forecasters) >= self.limits.forecasters:
            most = self.limits.forecasters
            raise ApiError("many", f"forecasters: given one more than {most:,}, expected at most so many", retry=60.0)
        if not self.store.claim(name):
            raise unavailable(f"Another process is the learner of forecaster {name!r}.")
        made = Event(name, 1, MADE, "", self._clock(), to_body(settings))
        try:
            self._append([made])
        except Conflict:
            self._lost_touch([name], unknown=False)
            return self._same(self._hosted(name).settings, settings)
        except StoreError:
            self._lost_touch([name], unknown=True)
            raise
        self._hold(fresh_forecaster(made), 0)
        self.log("made", forecaster=name, seq=1)
        return True

    def _same(self, known: Settings, given: Settings) -> bool:
        if known == given:
            return False
        differing = [field for field in given.__struct_fields__ if getattr(known, field) != getattr(given, field)]
        raise ApiError(
            "conflict",
            f"forecaster: given {given.name!r} with other settings ({', '.join(differing)}), expected those it has",
            given={field: getattr(given, field) for field in differing},
            known={field: getattr(known, field) for field in differing},
        )

    def _written(self, jobs: Sequence[Write]) -> list[Answer]:
        """Write, and answer every request even after a fault: the forecasters are then rebuilt."""
        try:
            return self._write(jobs)
        except Exception as error:
            self.log("fault", error=repr(error))
            self._lose([*dict.fromkeys(job.forecaster for job in jobs)], intact=False)
            refusal = unavailable("Internal error; nothing was acknowledged, and the forecaster is rebuilt.")
            return [(job.promise, refusal) for job in jobs]

    def _write(self, jobs: Sequence[Write]) -> list[Answer]:
        """Apply jobs in order, commit once, and return the answers; if that fails, none was done."""
        names = [*dict.fromkeys(job.forecaster for job in jobs)]
        answers: list[Answer] = []
        events: list[Event] = []
        stamp(jobs, WAIT)
        try:
            for name in names:
                own = [job for job in jobs if job.forecaster == name]
                try:
                    hosted = self._hosted(name)
                except ApiError as refusal:
                    answers += [(job.promise, refusal) for job in own]
                    continue
                began = time.time_ns()
                written, made = self._apply(hosted, own)
                stamp(own, LEARN, began)
                answers += written
                events += made
            if events:
                began = time.time_ns()
                self._append(events, _traces(jobs))
                stamp(jobs, COMMIT, began)
        except StoreError as error:
            return self._failed(jobs, names, error)
        except Exception as error:
            return self._isolated(jobs, names, error)
        return answers

    def _apply(self, hosted: HostedForecaster, jobs: Sequence[Write]) -> tuple[list[Answer], list[Event]]:
        known = id_histories(self.store.about(hosted.name, [row.id for job in jobs for row in job.rows]))
        handler = CommandHandler(hosted, known, self._clock(), self.limits)
        answers: list[Answer] = []
        for kind in ORDER:
            same = [job for job in jobs if job.kind == kind]
            if same:
                results = iter(getattr(handler, kind)([row for job in same for row in job.rows]))
                answers += [(job.promise, [next(results) for _ in job.rows]) for job in same]
        return answers, handler.events

    def _settle_windows(self, *, busy: bool = False) -> bool:
        """Learn some forecasts whose windows have ended; return whether there are more."""
        overdue = [hosted for hosted in self.forecasters.values() if hosted.overdue(self._clock())]
        for hosted in overdue:
            handler = CommandHandler(hosted, {}, self._clock(), self.limits)
            try:
                handler.settle(FEW if busy else WINDOWS)
                self._append(handler.events)
            except Exception as error:
                self.metrics.failures += isinstance(error, StoreError)
                self.log("windows failed", forecaster=hosted.name, error=repr(error))
                unknown = isinstance(error, StoreError) and not isinstance(error, Conflict)
                self._lost_touch([hosted.name], unknown=unknown)
                return False
        return any(hosted.overdue(self._clock()) for hosted in overdue)

    def _append(self, events: Sequence[Event], traces: Mapping[str, list[str]] = MappingProxyType({})) -> None:
        began = time.perf_counter()
        self.store.append(events)
        took = time.perf_counter() - began
        self.metrics.commits.add(took)
        self._commit += (took - self._commit) / 8
        for event in events:
            self.metrics.events[event.kind] = self.metrics.events.get(event.kind, 0) + 1
        for name in dict.fromkeys(event.forecaster for event in events):
            own = [event.seq for event in events if event.forecaster == name]
            self.log("commit", forecaster=name, first=own[0], last=own[-1], seconds=round(took, 6), **traces)

    def _failed(self, jobs: Sequence[Write], names: Sequence[str], error: StoreError) -> list[Answer]:
        """Answer a whole batch with an error; its forecasters are ahead of the log, and claims may be lost."""
        self.metrics.failures += 1
        self.log("commit failed", forecasters=[*names], error=str(error), **_traces(jobs))
        self._lost_touch(names, unknown=not isinstance(error, Conflict))
        refusal = unavailable("The store could not write; nothing was acknowledged, and the forecaster is rebuilt.")
        return [(job.promise, refusal) for job in jobs]

    def _isolated(self, jobs: Sequence[Write], names: Sequence[str], error: Exception) -> list[Answer]:
        """Do jobs one by one after a fault, so that only the one at fault suffers."""
        self.log("fault", forecasters=[*names], error=repr(error))
        self._lost_touch(names, unknown=False)
        if len(jobs) > 1:
            return [answer for job in jobs for answer in self._write([job])]
        fault = ApiError("internal", "Internal error; see the log. Nothing has changed.")
        return [(job.promise, fault) for job in jobs]

    # ------------------------------------------------------------------ gaining and losing forecasters

    def _hold(self, hosted: HostedForecaster, snapshot: int) -> None:
        self.forecasters[hosted.name] = hosted
        self._snapshotter.hold(hosted.name, snapshot)

    def _lose(self, names: Iterable[str], *, intact: bool) -> None:
        for name in names:
            hosted = self.forecasters.pop(name, None)
            if hosted is not None or not intact:
                self._lost[name] = hosted if intact else None

    def _lost_touch(self, names: Iterable[str], *, unknown: bool) -> None:
        """Rebuild forecasters that may be ahead of the log; where it is unknown what was written, claim all again."""
        self._lose(names, intact=False)
        if unknown:
            self._lose([*self.forecasters], intact=True)
        self._regain(now=True)

    def _find_forecasters(self) -> None:
        for name in self.store.forecasters():
            if name not in self.forecasters:
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
            self._lose([*self.forecasters], intact=True)
            return
        self._lose([name for name in self.forecasters if not self.store.holds(name)], intact=True)
        for name in [*self._lost]:
            try:
                if self.store.claim(name):
                    self._rebuild(name)
            except Exception as error:
                self.log("rebuild failed", forecaster=name, error=str(error))

    def _rebuild(self, name: str) -> None:
        hosted = self._lost[name]
        if hosted is not None and self.store.last(name) == hosted.seq:
            self.forecasters[name] = hosted
        elif hosted is None and not self.store.last(name):
            pass  # it was never made
        else:
            recovered = recover(self.store, name)
            self.metrics.rebuilds += 1
            self._hold(recovered.hosted, recovered.snapshot)
            facts = {
                "snapshot": recovered.snapshot,
                "replayed": recovered.replayed,
                "seconds": round(recovered.seconds, 3),
            }
            self.log("ready", forecaster=name, **facts)
        del self._lost[name]


def _traces(jobs: Sequence[Write]) -> dict[str, list[str]]:
    """Return what a log line of a batch has besides, if requests of it are traced."""
    traces = [job.trace.id for job in jobs if job.trace is not None]
    return {"traces": traces} if traces else {}


def warm() -> None:
    """Load the kernels, which takes a while, before the first request."""
    hosted = HostedForecaster(Settings(name="warm", groups=["g"]))
    rows = [ForecastIn(str(k), Raw(encoded({"g": "ab"[k % 2], "x": float(k)}))) for k in range(8)]
    hosted.forecast(rows[:4], 0.0)
    hosted.outcome([OutcomeRowIn(str(k), 1.0) for k in range(3)], 1.0)
    hosted.forecast(rows[4:5], 2.0)
    hosted.outcome([OutcomeRowIn("3", 0.0)], 3.0)
    hosted.live.preview([rows[0].values])


def settings_in(store: Store) -> dict[str, Settings]:
    """Return the settings of every forecaster in a store."""
    return {name: from_body(body) for name, body in store.forecasters().items()}
