"""A service in a process of its own, forked from one that has loaded everything, so that it starts at once."""

import multiprocessing
import socket
import time
from multiprocessing.process import BaseProcess
from urllib.error import URLError
from urllib.request import urlopen

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.systems.warm"])
READY_WITHIN = 120.0


class Forked:
    """`swapcal serve` on a port that stays the same, whatever happens to the process."""

    def __init__(self, store: str, **options: object) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.options = {"store": store, "port": self.port, "log": "none", **options}
        self.process: BaseProcess | None = None

    def start(self) -> None:
        """Start it, and return when it is ready."""
        self.process = FORKS.Process(target=_serve, args=(self.options,), daemon=True)
        self.process.start()
        end = time.monotonic() + READY_WITHIN
        while not self._ready():
            assert self.process.is_alive(), f"the service ended with exit code {self.process.exitcode}"
            assert time.monotonic() < end, "the service did not become ready"
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill −9."""
        assert self.process is not None
        self.process.kill()
        self.process.join()

    def stop(self) -> int | None:
        """Ask it to stop; returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        self.process.join(READY_WITHIN)
        return self.process.exitcode

    def _ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/readyz", timeout=5.0) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


def _serve(options: dict[str, object]) -> None:
    from swapcal.cli.serve import serve

    serve(**options)  # type: ignore[arg-type]
