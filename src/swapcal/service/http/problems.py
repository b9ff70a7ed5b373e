"""Problems: refusals as responses (RFC 9457)."""

import math

import msgspec
from starlette.responses import Response

from swapcal.service.refusal import Refusal

MEDIA = "application/problem+json"
CLOSING = ("slow", "large")
"""After these the rest of the request is not read."""


def problem_response(refusal: Refusal, request_id: str | None = None) -> Response:
    """Return the response to a request that was refused."""
    about = refusal.problem()
    if request_id is not None:
        about["instance"] = f"urn:swapcal:request:{request_id}"
    headers = {}
    if refusal.retry is not None:
        headers["retry-after"] = str(math.ceil(refusal.retry))
    if refusal.kind == "unauthorized":
        headers["www-authenticate"] = 'Bearer realm="swapcal"'
    if refusal.kind in CLOSING:
        headers["connection"] = "close"
    return Response(msgspec.json.encode(about), refusal.status, headers, MEDIA)
