"""`Protocol`: HTTP connections that neither dawdle nor crowd."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from swapcal.service.limits import Limits

CROWDED = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n"
    b"content-type: application/problem+json\r\ncontent-length: %d\r\n\r\n%s"
)
PROBLEM = b'{"type":"urn:swapcal:unavailable","title":"Not now","status":503,"detail":"Too many connections."}'


def protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """Return the class of connections within limits."""

    class Protocol(HttpToolsProtocol):
        """Closes a connection whose request does not arrive, and refuses one too many."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Begin to wait for a request."""
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(CROWDED % (len(PROBLEM), PROBLEM))
                transport.close()
                return
            self._expect()

        def on_message_begin(self) -> None:
            """Expect the headers in time."""
            super().on_message_begin()
            self._expect()

        def on_headers_complete(self) -> None:
            """From here on the body's reader watches the clock."""
            self._relax()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget the clock."""
            self._relax()
            super().connection_lost(exc)

        def _expect(self) -> None:
            self._relax()
            self._deadline = self.loop.call_later(limits.arrival, self.transport.close)

        def _relax(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Protocol
