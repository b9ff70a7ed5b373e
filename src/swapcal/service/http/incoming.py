"""Incoming bodies: of the right format, no larger than allowed, and in time."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from swapcal.service.limits import Limits
from swapcal.service.refusal import Refusal

JSON, NDJSON = "application/json", "application/x-ndjson"
LINES = (NDJSON, "application/ndjson", "application/jsonl")


class Gone(Exception):  # noqa: N818 (no error of ours)
    """The client went away."""


async def read_body(scope: Scope, receive: Receive, limits: Limits) -> bytes:
    """Return the body; refused as soon as it is too large or too slow, without reading on."""
    declared = Headers(scope=scope).get("content-length", "")
    if declared.isdecimal() and int(declared) > limits.body:
        raise _large(f"{int(declared):,}", limits)
    try:
        async with asyncio.timeout(limits.arrival):
            return await _collected(receive, limits)
    except TimeoutError:
        words = f"body: given only in part after {limits.arrival:g} s, expected all of it by then"
        raise Refusal("slow", words) from None


async def _collected(receive: Receive, limits: Limits) -> bytes:
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
            return b"".join(parts)


def _large(given: str, limits: Limits) -> Refusal:
    return Refusal("large", f"body: given {given} bytes, expected at most {limits.body:,}")


def in_lines(scope: Scope) -> bool:
    """Tell whether the body is NDJSON; refuse what is neither that nor JSON.

    Pages of other sites cannot send these formats without being asked first, which keeps them out.
    """
    given = Headers(scope=scope).get("content-type", "")
    media = given.partition(";")[0].strip().lower()
    if media in LINES:
        return True
    if media == JSON:
        return False
    raise Refusal("media", f"content-type: given {given[:80] or 'none'}, expected {JSON} or {NDJSON}")
