"""`Page`: what every page goes through: admission by header or cookie, refusals as pages, strict headers."""

from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from swapcal.service.http.endpoint import REFUSED, Call, Endpoint, Handler, answered
from swapcal.service.http.problems import problem_reply
from swapcal.service.http.reply import Reply
from swapcal.service.pages.render import render
from swapcal.service.pages.session import with_token
from swapcal.service.refusal import Refusal

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
GUARDS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
HTML = "text/html; charset=utf-8"
ADVICE = {
    401: "Sign in with a token of scope read.",
    403: "Sign in with a token that has scope read.",
    404: "Check the address, or go back to all forecasters.",
    421: "Use the name or address that the service was started with.",
    503: "The service is busy or starting. The page tries again when you reload it.",
}
"""What to do about a refusal."""


def page(template: str, status_code: int = 200, **facts: object) -> Reply:
    """Return a page made of a template."""
    return Reply(render(template, **facts).encode("utf-8", "replace"), status_code, HTML, GUARDS)


class Page:
    """An ASGI application for one address that people open.

    Parameters
    ----------
    handler : callable
        From a call to a reply; may raise `Refusal`.
    needed : str, optional
        The scope a token must have, in a header or in the cookie.
    signs_in : bool
        Whether somebody without a token is led to the page where one can be given.
    """

    def __init__(self, handler: Handler, needed: str | None, *, signs_in: bool = True) -> None:
        self._handler, self._needed, self._signs_in = handler, needed, signs_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        office = scope["app"].state.office
        await Endpoint(office, self._answer, None)(scope, receive, send)

    async def _answer(self, call: Call) -> Reply | Response:
        call.headers = with_token(call.headers)
        return await answered(call, self._handler, self._needed, self._refused)

    def _refused(self, call: Call, event: str, refusal: Refusal, why: str) -> Reply:
        if event != REFUSED:
            call.office.log(event, path=call.scope["path"], error=why)
        if not self._signs_in:
            return problem_reply(refusal)
        if refusal.kind == "unauthorized":
            return moved(f"/sign-in?next={quote(_asked(call.scope), safe='')}")
        return refused(refusal)


def refused(refusal: Refusal) -> Reply:
    """Return the page that says why something is not done, and what to do."""
    advice = ADVICE.get(refusal.status, "")
    return page("refusal.html", refusal.status, refusal=refusal, advice=advice)


def moved(where: str, **more: str) -> Reply:
    """Return the reply that sends a browser on."""
    return Reply(b"", 303, HTML, {**GUARDS, "location": where, **more})


def _asked(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    path = quote(scope["path"])
    return f"{path}?{query}" if query else path
