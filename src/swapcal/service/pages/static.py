"""Static files: styles, scripts and the icon, from memory, under addresses that change with their content."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from starlette.responses import Response

from swapcal.service.http.endpoint import Call
from swapcal.service.refusal import Refusal

MEDIA = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
FILES = ("dashboard.css", "dashboard.js", "icon.svg", "uPlot.iife.min.js", "uPlot.min.css")
REPORT = "report.css"
"""The style of audits' reports, which the dashboard shares."""
FOREVER = "public, max-age=31536000, immutable"


class File(NamedTuple):
    """One file."""

    content: bytes
    media: str
    digest: str


@cache
def file(name: str) -> File | None:
    """Return one of the files; None for every other name."""
    if name == REPORT:
        content = files("swapcal.report").joinpath("style.css").read_bytes()
    elif name in FILES:
        content = files("swapcal.service.pages").joinpath("static", name).read_bytes()
    else:
        return None
    return File(content, MEDIA[name.rpartition(".")[2]], hashlib.sha256(content).hexdigest()[:12])


def address(name: str) -> str:
    """Return where a file is; its content is part of the address, so it may be kept for ever."""
    found = file(name)
    assert found is not None, f"{name} is one of ours"
    return f"/static/{name}?{found.digest}"


async def static(call: Call) -> Response:
    """Send a file."""
    name = str(call.scope["path_params"]["file"])
    found = file(name)
    if found is None:
        raise Refusal("unknown", f"file: given {name[:80]!r}, expected one of ours")
    lasting = call.scope["query_string"].decode("latin-1") == found.digest
    headers = {"content-type": found.media, **({"cache-control": FOREVER} if lasting else {})}
    return Response(found.content, headers=headers)
