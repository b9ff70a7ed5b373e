"""`swapcal serve` in a process of its own: started as operators do, or forked from one that has loaded everything."""

import http.client
import json
import multiprocessing
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.systems.warm"])

SLOW = 300.0
"""Seconds for anything to happen: kernels may have to be compiled, on a machine that does much else."""


def soon(happens: Callable[[], Any], seconds: float = SLOW, pause: float = 0.05) -> Any:
    """Return what happens, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(pause)
    return found


class Service:
    """Whoever answers at a url."""

    url: str

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON of an answer; status 0 if there was none."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
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


class Served(Service):
    """A service at work on a store, its log in a file."""

    def __init__(self, store: str, log: Path, *options: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "swapcal", "serve", "--store", store, "--port", "0", *options]
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        with self.process.stdout as output:
            line = output.readline()
        assert " on http://" in line, line + log.read_text()
        self.url = line.split()[-1]

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


class Forked(Service):
    """A service that starts at once, on a port that stays the same, whatever happens to the process."""

    def __init__(self, store: str, **options: object) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port: int = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._options = {"store": store, "port": port, "log": "none", **options}
        self._process: BaseProcess | None = None

    def start(self) -> None:
        """Start it, and return when it is ready."""
        self._process = FORKS.Process(target=_serve, args=(self._options,), daemon=True)
        self._process.start()
        soon(lambda: self.ready or self._check(), pause=0.01)

    def _check(self) -> None:
        assert self._process is not None
        assert self._process.is_alive(), f"the service ended with exit code {self._process.exitcode}"

    def kill(self) -> None:
        """Kill −9."""
        assert self._process is not None
        self._process.kill()
        self._process.join()

    def stop(self) -> int | None:
        """Ask it to stop; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        self._process.join(SLOW)
        return self._process.exitcode


def _serve(options: dict[str, object]) -> None:
    from swapcal.cli.serve import serve

    serve(**options)  # type: ignore[arg-type]
