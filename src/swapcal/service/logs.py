"""Logs: one JSON object per line, with the numbers of events and without secrets."""

import sys
import threading
import time
from contextlib import suppress
from typing import Any, BinaryIO

import msgspec

QUIET = ("commit", "request")
"""What is said only when everything is."""
LEVELS = {"all": 0, "notable": 1, "none": 2}


class JsonLog:
    """Writes what happens to a stream.

    Parameters
    ----------
    level : str
        "all" tells of every request and commit, "notable" only of what is unusual, "none" nothing.
    stream : binary file, optional
        Standard error by default.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> JsonLog("notable", stream)("ready", forecaster="flights", replayed=3)
    >>> msgspec.json.decode(stream.getvalue())["replayed"]
    3
    """

    def __init__(self, level: str = "notable", stream: BinaryIO | None = None) -> None:
        if level not in LEVELS:
            raise ValueError(f"log: given {level!r}, expected one of {', '.join(LEVELS)}")
        self._least = LEVELS[level]
        self._stream = sys.stderr.buffer if stream is None else stream
        self._turn = threading.Lock()

    def tells(self, event: str) -> bool:
        """Tell whether such an event is written."""
        return self._least == 0 or (self._least == 1 and event not in QUIET)

    def __call__(self, event: str, **facts: Any) -> None:
        """Write one line."""
        if not self.tells(event):
            return
        moment = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment * 1000) % 1000:03d}Z"
        line = msgspec.json.encode({"time": stamp, "event": event, **facts}) + b"\n"
        with self._turn, suppress(OSError, ValueError):  # a full disk or a closed pipe must not stop the service
            self._stream.write(line)
            self._stream.flush()
