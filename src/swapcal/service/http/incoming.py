"""Incoming bodies: of the right format, and no larger than allowed."""

from collections.abc import Mapping

from starlette.types import Receive

from swapcal.service.http.reply import JSON
from swapcal.service.limits import Limits
from swapcal.service.refusal import Refusal

NDJSON = "application/x-ndjson"
LINES = (NDJSON, "application/ndjson", "application/jsonl")

Headers = Mapping[bytes, bytes]


class Gone(Exception):  # noqa: N818 (no error of ours)
    """The client went away, or was sent away because the rest did not arrive in time."""


async def read_body(headers: Headers, receive: Receive, limits: Limits) -> bytes:
    """Return the body; refused as soon as it is too large, without reading on."""
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


def _large(given: str, limits: Limits) -> Refusal:
    return Refusal("large", f"body: given {given} bytes, expected at most {limits.body:,}")


def in_lines(headers: Headers) -> bool:
    """Tell whether the body is NDJSON; refuse what is neither that nor JSON.

    Pages of other sites cannot send these formats without being asked first, which keeps them out.

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
    raise Refusal("media", f"content-type: given {given[:80] or 'none'}, expected {JSON} or {NDJSON}")
