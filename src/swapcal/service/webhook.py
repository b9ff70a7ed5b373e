"""`Webhook`: notifies another service when an alarm appears or ends, without blocking the learner."""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from swapcal.service.hosted import HostedForecaster
from swapcal.service.queue import Ask
from swapcal.service.settings import ApiError
from swapcal.service.worker import Log, Worker
from swapcal.version import __version__

EVERY = 5.0
"""Seconds between looks at the alarms."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a message is sent again."""
TRIES = 10
"""Attempts before a message is given up, which is logged; the last ones are a minute apart."""
WAITING = 1000
"""Messages that may wait; the next ones are given up."""
LONGEST = 10.0
"""Seconds for an answer, of the learner or of the receiver."""

Json = dict[str, Any]
Alarms = dict[str, Json]
"""By group."""


class Webhook:
    """Looks at the alarms of every forecaster, and posts a JSON message for each that appears or ends.

    A message is `{"event": "alarm" or "alarm ended", "id", "forecaster", "time", "alarm": {…}}`. It is sent until the
    receiver answers 2xx, so it may come twice, with the same id; alarms that are there when the service starts are
    posted once more. Redirects are not followed.

    Parameters
    ----------
    worker : Worker
        Has the alarms.
    url : str
        Where to post; http or https.
    log : callable
        Called with messages that were sent and given up, without the address, which may hold a secret.
    every : float
        Seconds between looks.
    """

    def __init__(self, worker: Worker, url: str, log: Log, *, every: float = EVERY) -> None:
        check_url(url)
        self._worker, self._url, self._log, self._every = worker, url, log, every
        self._known: dict[str, tuple[int, Alarms]] = {}
        self._messages: queue.Queue[Json] = queue.Queue(WAITING)
        self._stopping = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Watch and send while the block runs."""
        threads = [threading.Thread(target=work, name="webhook", daemon=True) for work in (self._watch, self._send)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join(timeout=1.0)

    # ------------------------------------------------------------------ the watching thread

    def _watch(self) -> None:
        while not self._stopping.wait(self._every):
            for name in [*self._worker.forecasters]:
                self._look(name)

    def _look(self, name: str) -> None:
        seq, before = self._known.get(name, (0, {}))
        try:
            state: tuple[int, Alarms] | None = self._worker.call(
                lambda promise: Ask(promise, name, lambda hosted: alarms_of(hosted, seq)), LONGEST
            )
        except (ApiError, TimeoutError, CancelledError):
            return  # the next look retries
        if state is None:
            return
        now = {group: before.get(group, alarm) for group, alarm in state[1].items()}
        self._known[name] = state[0], now
        for group in now.keys() - before.keys():
            self._enqueue("alarm", name, now[group])
        for group in before.keys() - now.keys():
            self._enqueue("alarm ended", name, before[group])

    def _enqueue(self, event: str, name: str, alarm: Json) -> None:
        id = f"{name}, {alarm['group']}, {alarm['raised']}: {event}"
        message = {"event": event, "id": id, "forecaster": name, "time": time.time(), "alarm": alarm}
        try:
            self._messages.put_nowait(message)
        except queue.Full:
            self._log("webhook given up", forecaster=name, id=id, why=f"{WAITING} messages wait already")

    # ------------------------------------------------------------------ the sending thread

    def _send(self) -> None:
        while not self._stopping.is_set():
            try:
                message = self._messages.get(timeout=0.2)
            except queue.Empty:
                continue
            self._deliver(message)

    def _deliver(self, message: Json) -> None:
        facts = {"forecaster": message["forecaster"], "id": message["id"]}
        pause, why = FIRST_PAUSE, ""
        for attempt in range(1, TRIES + 1):
            try:
                status = post(self._url, message)
                if 200 <= status < 300:
                    self._log("webhook", **facts, attempt=attempt)
                    return
                why = f"status {status}"
                if not (status in (408, 425, 429) or status >= 500):
                    break  # it would be refused again
            except (OSError, HTTPException) as error:
                why = type(error).__name__
            if attempt == TRIES or self._stopping.wait(pause):
                break
            pause = min(2.0 * pause, LONGEST_PAUSE)
        self._log("webhook given up", **facts, why=why)


def alarms_of(hosted: HostedForecaster, known: int) -> tuple[int, Alarms] | None:
    """Return the number of the last event and the alarms by group; None if nothing came since the known event."""
    if hosted.seq == known:
        return None
    return hosted.seq, {alarm.group: alarm.to_dict() for alarm in hosted.monitor.alarms()}


def post(url: str, message: Json) -> int:
    """Post a message once; return the status of the answer."""
    parts = urlsplit(url)
    kind: Callable[..., HTTPConnection] = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=LONGEST)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Content-Type": "application/json", "User-Agent": f"swapcal/{__version__}"}
    try:
        connection.request("POST", path, json.dumps(message).encode(), headers)
        return connection.getresponse().status
    finally:
        connection.close()


def check_url(url: str) -> None:
    """Raise ValueError for an address that is not http or https.

    Examples
    --------
    >>> check_url("https://example.org/hook")
    >>> check_url("file:///etc/passwd")
    Traceback (most recent call last):
    ValueError: webhook: given an address with scheme 'file', expected http:// or https:// and a host
    """
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ValueError(
            "webhook: given an address that cannot be read, expected http:// or https:// and a host"
        ) from None
    if not fine:
        words = f"given an address with scheme {parts.scheme!r}, expected http:// or https:// and a host"
        raise ValueError(f"webhook: {words}")
