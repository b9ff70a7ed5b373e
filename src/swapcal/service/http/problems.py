"""Problems: refusals as replies (RFC 9457)."""

import math

import msgspec

from swapcal.service.http.reply import Reply
from swapcal.service.refusal import Refusal

MEDIA = "application/problem+json"


def problem_reply(refusal: Refusal, request_id: str | None = None) -> Reply:
    """Return the reply to a request that was refused."""
    about = refusal.problem()
    if request_id is not None:
        about["instance"] = f"urn:swapcal:request:{request_id}"
    headers = {}
    if refusal.retry is not None:
        headers["retry-after"] = str(math.ceil(refusal.retry))
    if refusal.kind == "unauthorized":
        headers["www-authenticate"] = 'Bearer realm="swapcal"'
    if refusal.kind == "large":
        headers["connection"] = "close"  # the rest of the request is not read
    return Reply(msgspec.json.encode(about), refusal.status, MEDIA, headers)
