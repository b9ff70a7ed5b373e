"""Inbox: jobs of many threads on their way to one, a batch at a time."""

import math
import queue
import threading
import time
from contextlib import suppress

from swapcal.service.gauge import Gauge
from swapcal.service.jobs import Job, size
from swapcal.service.refusal import unavailable

BATCH = 4096
"""Rows of a batch."""
TICK = 0.25
"""Seconds between looks at the clock when nothing comes."""
LONGEST, SHARE, MANY = 0.005, 0.25, 4
"""Seconds, share of a commit, and jobs of a batch from which on others are waited for."""


class Inbox:
    """A queue of at most `most` rows; one batch is always taken, however large."""

    def __init__(self, most: int, gauge: Gauge) -> None:
        self._most, self._gauge = most, gauge
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self.rows = 0
        self.closing = False
        self._recent = 0
        """jobs of the last batch"""

    def put(self, job: Job) -> None:
        """Add a job; raises `Refusal` if the queue is full or closed."""
        rows = size(job)
        with self._turn:
            if self.closing:
                raise unavailable("The service is stopping.", retry=5.0)
            if self.rows and self.rows + rows > self._most:
                self._gauge.full += 1
                raise unavailable(f"The queue is full: {self.rows:,} rows wait to be learned.")
            self.rows += rows
            self._queue.put(job)

    def close(self) -> bool:
        """Take no more jobs; False if it was closed before."""
        with self._turn:
            if self.closing:
                return False
            self.closing = True
            self._queue.put(None)
        return True

    def take(self, commit: float) -> tuple[list[Job], bool]:
        """Return what is on the queue, and whether it is the last; `commit` is what a commit takes in seconds."""
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
                    until = time.perf_counter() + self._patience(commit)
                batch.append(job)
                rows += size(job)
                wait = (until - time.perf_counter()) / 4
        with self._turn:
            self.rows -= rows
        self._recent = len(batch)
        return batch, last

    def _patience(self, commit: float) -> float:
        """Return how long to wait for others to join a batch: a share of what a commit takes, if many come at a time.

        Those who were answered together come back together; else they would split into two halves that take turns.
        """
        return min(LONGEST, SHARE * commit) if self._recent >= MANY else 0.0
