"""`Reply`: a response that costs no more than its bytes; there are thousands a second."""

from collections.abc import Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

JSON = "application/json"
PLAIN = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
"""Headers of every response, unless it says otherwise."""

_PLAIN = [(name.encode(), value.encode()) for name, value in PLAIN.items()]
_JSON = [*_PLAIN, (b"content-type", JSON.encode())]


class Reply:
    """Bytes with a status and a media type.

    Examples
    --------
    >>> Reply(b"{}").status_code
    200
    """

    __slots__ = ("content", "media", "more", "status_code")

    def __init__(
        self, content: bytes, status_code: int = 200, media: str = JSON, more: Mapping[str, str] | None = None
    ) -> None:
        self.content = content
        self.status_code = status_code
        self.media = media
        self.more = more

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        headers = [(b"content-length", str(len(self.content)).encode())]
        headers += _JSON if self.media is JSON else [*_PLAIN, (b"content-type", self.media.encode())]
        if self.more:
            headers += [(name.encode(), value.encode("latin-1")) for name, value in self.more.items()]
        start: dict[str, Any] = {"type": "http.response.start", "status": self.status_code, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": self.content})
