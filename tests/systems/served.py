"""`swapcal serve` in a process of its own, and a client that remembers what was acknowledged."""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SLOW = 300.0
"""Seconds for anything to happen: kernels may have to be compiled, on a machine that does much else."""


def soon(happens: Callable[[], Any], seconds: float = SLOW) -> Any:
    """Return what happens, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


class Served:
    """A service at work on a store."""

    def __init__(self, store: str, log: Path, *options: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "swapcal", "serve", "--store", store, "--port", "0", *options]
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        with self.process.stdout as output:
            line = output.readline()
        assert " on http://" in line, line + log.read_text()
        self.address = urlsplit(line.split()[-1]).netloc

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; status 0 if there was none."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"content-type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            self.retry_after = answer.headers.get("retry-after")
            return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    @property
    def ready(self) -> bool:
        return self.call("GET", "/readyz")[0] == 200

    def wait(self) -> "Served":
        """Wait until it is ready."""
        soon(lambda: self.ready or self._check())
        return self

    def _check(self) -> None:
        assert self.process.poll() is None, self._log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stop it in an orderly way; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SLOW)


class Load:
    """Clients that forecast and report outcomes, through whoever answers, until they are stopped.

    Nothing is sent again after a failure: what was not acknowledged is not expected to be there.
    """

    def __init__(self, service: Served, name: str, clients: int = 4) -> None:
        self.service, self._name = service, name
        self.forecasts: dict[str, dict[str, Any]] = {}
        self.outcomes: dict[str, float] = {}
        self.statuses: list[int] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(clients)]
        for thread in self._threads:
            thread.start()

    def _work(self, client: int) -> None:
        number = 0
        base = f"/v1/forecasters/{self._name}"
        while not self._stop.is_set():
            number += 1
            known = f"{client}-{number}"
            record = {"shop": "abc"[number % 3], "price": number % 17 / 4}
            status, answer = self.service.call("POST", f"{base}/forecasts", {"id": known, "record": record})
            self.statuses.append(status)
            if status == 200:
                self.forecasts[known] = answer
                y = float(number % 3 == client % 3)
                status, answer = self.service.call("PUT", f"{base}/outcomes/{known}", {"y": y})
                self.statuses.append(status)
                if status == 200:
                    self.outcomes[known] = y
            if status != 200:
                time.sleep(0.02)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
