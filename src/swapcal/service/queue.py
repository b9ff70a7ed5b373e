"""The queue of the learning thread: jobs of many threads, taken in batches, and counters of the work done."""

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from swapcal.service.hosted import HostedForecaster
from swapcal.service.messages import CorrectionRow, ForecastIn, OutcomeRowIn
from swapcal.service.settings import Settings, unavailable
from swapcal.service.tracing import RequestTrace

# `Metrics`: counters of the worker, for metrics and tests.

BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


@dataclass
class Durations:
    """Seconds in bins, as Prometheus counts them.

    Examples
    --------
    >>> latency = Durations()
    >>> latency.add(0.003)
    >>> latency.count, latency.counts[3]
    (1, 1)
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


@dataclass
class Metrics:
    """Counters of the learning thread."""

    commits: Durations = field(default_factory=Durations)
    events: dict[str, int] = field(default_factory=dict)
    """by kind"""
    failures: int = 0
    """commits that failed"""
    rebuilds: int = 0
    snapshots: Durations = field(default_factory=Durations)
    snapshot_failures: int = 0
    full: int = 0
    """requests refused because the queue was full"""


# Jobs on the worker's queue.

FORECASTS, OUTCOMES, CORRECTIONS = "forecasts", "outcomes", "corrections"
ORDER = (FORECASTS, OUTCOMES, CORRECTIONS)
"""Order of kinds within a batch: none of it is answered yet, so any order is valid; equal kinds are grouped."""


class Promise(Protocol):
    """A future of any library."""

    def done(self) -> bool:
        """Return whether no request waits."""

    def set_result(self, result: Any, /) -> None:
        """Answer."""

    def set_exception(self, exception: Any, /) -> None:
        """Refuse."""


class Write(NamedTuple):
    """Rows of one kind for one forecaster; the answer is a list with a result or error for each."""

    promise: Promise
    forecaster: str
    kind: str
    rows: "Sequence[ForecastIn] | Sequence[OutcomeRowIn] | Sequence[CorrectionRow]"
    trace: RequestTrace | None = None


class Make(NamedTuple):
    """A forecaster to be made; the answer is whether it is new."""

    promise: Promise
    settings: Settings


class Ask(NamedTuple):
    """A function of one forecaster; the answer is its result."""

    promise: Promise
    forecaster: str
    question: Callable[[HostedForecaster], Any]


Job = Write | Make | Ask


def size(job: Job) -> int:
    """Return how many rows a job is."""
    return max(1, len(job.rows)) if isinstance(job, Write) else 1


# `WriteQueue`: jobs of many threads, taken by one thread in batches.

BATCH = 4096
"""Rows of a batch."""
TICK = 0.25
"""Seconds between looks at the clock when nothing comes."""
LONGEST, SHARE, MANY = 0.005, 0.25, 4
"""Seconds, share of a commit, and jobs of a batch from which on others are waited for."""


class WriteQueue:
    """A queue of at most `most` rows; one batch is always taken, however large.

    It waits on a condition: `queue.SimpleQueue` of CPython 3.11 sleeps until the next `put` if the timeout of a `get`,
    some microseconds here, runs out before the wait begins.
    """

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._most, self._metrics = most, metrics
        self._jobs: deque[Job] = deque()
        self._turn = threading.Condition(threading.Lock())
        self.rows = 0
        self.closing = False
        self._recent = 0
        """jobs of the last batch"""

    def put(self, job: Job) -> None:
        """Add a job; raises `ApiError` if the queue is full or closed."""
        rows = size(job)
        with self._turn:
            if self.closing:
                raise unavailable("The service is stopping.", retry=5.0)
            if self.rows and self.rows + rows > self._most:
                self._metrics.full += 1
                raise unavailable(f"The queue is full: {self.rows:,} rows wait to be learned.")
            self.rows += rows
            self._jobs.append(job)
            self._turn.notify()

    def close(self) -> bool:
        """Close the queue for new jobs; return False if it was closed before."""
        with self._turn:
            if self.closing:
                return False
            self.closing = True
            self._turn.notify()
        return True

    def take(self, commit: float, wait: float = TICK) -> tuple[list[Job], bool]:
        """Return what is on the queue, and whether it is the last.

        `commit` is what a commit takes in seconds, `wait` how long to wait for a first job.
        """
        batch: list[Job] = []
        rows, until = 0, 0.0
        with self._turn:
            while rows < BATCH and self._arrived(wait if not batch else (until - time.perf_counter()) / 4):
                if not batch:
                    until = time.perf_counter() + self._patience(commit)
                batch.append(self._jobs.popleft())
                rows += size(batch[-1])
            self.rows -= rows
            self._recent = len(batch)
            return batch, self.closing and not self._jobs

    def _arrived(self, seconds: float) -> bool:
        """Return whether there is a job, after waiting for one so many seconds at most."""
        if not self._jobs and not self.closing and seconds > 0.0:
            self._turn.wait(seconds)
        return bool(self._jobs)

    def _patience(self, commit: float) -> float:
        """Return how long to wait for others to join a batch: a share of what a commit takes, if many come at a time.

        Clients answered together return together; otherwise they would split into two alternating halves.
        """
        return min(LONGEST, SHARE * commit) if self._recent >= MANY else 0.0
