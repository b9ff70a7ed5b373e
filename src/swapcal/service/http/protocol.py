"""`Protocol`: HTTP connections that neither dawdle nor crowd."""

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from swapcal.service.http.problems import MEDIA
from swapcal.service.limits import Limits
from swapcal.service.refusal import Refusal, unavailable


def protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """Return the class of connections within limits."""
    slow = _raw("Request Timeout", Refusal("slow", f"request: given only in part after {limits.arrival:g} s"))
    crowded = _raw("Service Unavailable", unavailable("Too many connections.", retry=5.0))

    class Protocol(HttpToolsProtocol):
        """Closes a connection whose request does not arrive in time, and refuses one too many."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Begin to wait for a request."""
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(crowded)
                transport.close()
                return
            self._expect()

        def on_message_begin(self) -> None:
            """Expect all of the request in time."""
            super().on_message_begin()
            self._expect()

        def on_message_complete(self) -> None:
            """Expect no more."""
            self._relax()
            super().on_message_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the clock."""
            self._relax()
            super().connection_lost(exc)

        def _expect(self) -> None:
            self._relax()
            self._deadline = self.loop.call_later(limits.arrival, self._give_up)

        def _give_up(self) -> None:
            waiting: Any = self.cycle  # none before the first request
            if waiting is not None and not waiting.response_started and not self.transport.is_closing():
                self.transport.write(slow)
            self.transport.close()

        def _relax(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Protocol


def _raw(reason: str, refusal: Refusal) -> bytes:
    """Return a whole response for a connection that is closed after it."""
    content = msgspec.json.encode(refusal.problem())
    retry = "" if refusal.retry is None else f"retry-after: {refusal.retry:.0f}\r\n"
    head = f"HTTP/1.1 {refusal.status} {reason}\r\n{retry}connection: close\r\ncontent-type: {MEDIA}\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content
