"""Requests and replies at the level of bytes: bodies no larger than allowed, problem details (RFC 9457)."""

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.types import Receive, Scope, Send

from swapcal.service.settings import ApiError, Limits

# `Reply`: a response with little overhead; there are thousands a second.

JSON = "application/json"
PLAIN = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
"""Headers of every response that does not override them."""

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


# Problems: errors as replies (RFC 9457).

MEDIA = "application/problem+json"


def problem_reply(refusal: ApiError, request_id: str | None = None) -> Reply:
    """Return the reply to a rejected request."""
    about = refusal.problem()
    if request_id is not None:
        about["instance"] = f"urn:swapcal:request:{request_id}"
    headers = {}
    if refusal.retry is not None:
        headers["retry-after"] = str(math.ceil(refusal.retry))
    if refusal.kind == "unauthorized":
        headers["www-authenticate"] = 'Bearer realm="swapcal"'
    if refusal.kind == "large":
        headers["connection"] = "close"  # the request is not read to its end
    return Reply(msgspec.json.encode(about), refusal.status, MEDIA, headers)


# Addresses: UTF-8 only, or different addresses could become equal.


def check_address(scope: Scope) -> None:
    """Raise ApiError if the address is not UTF-8; the server replaces undecodable bytes by U+FFFD.

    Examples
    --------
    >>> check_address({"path": "/é", "raw_path": b"/%C3%A9", "query_string": b"id=a%20b"})
    """
    if "\ufffd" in scope["path"]:
        _check_text("path", scope["raw_path"])
    if b"%" in scope["query_string"]:
        _check_text("query", scope["query_string"])


def _check_text(name: str, quoted: bytes) -> None:
    try:
        unquote_to_bytes(quoted).decode()
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise ApiError("malformed", f"{name}: given the byte %{byte:02X} out of place, expected UTF-8") from None


# Incoming bodies: of the right format, and no larger than allowed.

NDJSON = "application/x-ndjson"
LINES = (NDJSON, "application/ndjson", "application/jsonl")

Headers = Mapping[bytes, bytes]


class Gone(Exception):  # noqa: N818 (no error of ours)
    """The client disconnected, or was disconnected because the request did not arrive in time."""


async def read_body(headers: Headers, receive: Receive, limits: Limits) -> bytes:
    """Return the body. Raises ApiError as soon as it is too large, without reading on."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limits.body:
        raise _large(f"{int(declared):,}", limits)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        part = message.get("body", b"")
        size += len(part)
        if size > limits.body:
            raise _large(f"more than {limits.body:,}", limits)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _large(given: str, limits: Limits) -> ApiError:
    return ApiError("large", f"body: given {given} bytes, expected at most {limits.body:,}")


def in_lines(headers: Headers) -> bool:
    """Return whether the body is NDJSON. Raises ApiError if it is neither that nor JSON.

    Pages of other sites cannot send these formats without a preflight request, which is refused.

    Examples
    --------
    >>> in_lines({b"content-type": b"application/json; charset=utf-8"}), in_lines({b"content-type": NDJSON.encode()})
    (False, True)
    """
    given = headers.get(b"content-type", b"").decode("latin-1")
    if given == JSON:
        return False
    media = given.partition(";")[0].strip().lower()
    if media in LINES:
        return True
    if media == JSON:
        return False
    raise ApiError("media", f"content-type: given {given[:80] or 'none'}, expected {JSON} or {NDJSON}")
