"""`Endpoint`: what every request goes through: admission, refusals as problems, one line in the log."""

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from swapcal.service.http.incoming import Gone, in_lines, read_body
from swapcal.service.http.office import Office
from swapcal.service.http.problems import problem_reply
from swapcal.service.http.reply import PLAIN, Reply
from swapcal.service.refusal import Refusal, unavailable
from swapcal.service.stored import StoreError

NOTABLE = (401, 403)


class Call:
    """One request."""

    __slots__ = ("headers", "office", "receive", "scope")

    def __init__(self, office: Office, scope: Scope, receive: Receive) -> None:
        self.office = office
        self.scope = scope
        self.receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    @property
    def request(self) -> Request:
        """The request as Starlette has it."""
        return Request(self.scope)

    @property
    def forecaster(self) -> str:
        """The forecaster's name in the address."""
        return str(self.scope["path_params"]["name"])

    @property
    def id(self) -> str:
        """The id in the address."""
        return str(self.scope["path_params"]["id"])

    def in_lines(self) -> bool:
        """Tell whether the body is NDJSON."""
        return in_lines(self.headers)

    async def body(self) -> bytes:
        """Return the body."""
        return await read_body(self.headers, self.receive, self.office.limits)

    async def json(self) -> bytes:
        """Return a body that must be JSON."""
        if self.in_lines():
            raise Refusal("media", "content-type: given NDJSON, expected application/json here")
        return await self.body()


Handler = Callable[[Call], Awaitable[Reply | Response]]
REFUSED = "refused"


async def answered(
    call: Call, handler: Handler, needed: str | None, refused: Callable[[Call, str, Refusal, str], Reply]
) -> Reply | Response:
    """Return what a handler replies to a call of the needed scope, or what is made of a refusal: of what, and why."""
    try:
        if needed is not None:
            await call.office.gate.admit(call.headers, needed)
        return await handler(call)
    except Gone:
        raise
    except Refusal as refusal:
        return refused(call, REFUSED, refusal, refusal.detail)
    except StoreError as error:
        return refused(call, "store unavailable", unavailable("The store cannot be reached."), str(error))
    except Exception as error:
        return refused(call, "fault", Refusal("internal", "A fault of the service; it is in the log."), repr(error))


class Endpoint:
    """An ASGI application for one address.

    Parameters
    ----------
    office : Office
        Where the work is done.
    handler : callable
        From a call to a reply; may raise `Refusal`.
    needed : str, optional
        The scope a token must have; none where anybody may come in.
    """

    def __init__(self, office: Office, handler: Handler, needed: str | None) -> None:
        self.office = office
        self.handler = handler
        self.needed = needed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began = time.perf_counter()
        try:
            reply = await self._answered(scope, receive)
        except Gone:
            return
        if isinstance(reply, Response):
            for name, value in PLAIN.items():
                reply.headers.setdefault(name, value)
        await reply(scope, receive, send)
        if self.office.log.tells("request"):
            took = round(time.perf_counter() - began, 6)
            facts = {"method": scope["method"], "path": scope["path"], "status": reply.status_code}
            self.office.log("request", **facts, seconds=took)

    async def _answered(self, scope: Scope, receive: Receive) -> Reply | Response:
        return await answered(Call(self.office, scope, receive), self.handler, self.needed, self._refused)

    def _refused(self, call: Call, event: str, refusal: Refusal, why: str) -> Reply:
        """Return the problem, and tell the log of what is not merely the client's; both name the request alike."""
        name, scope = secrets.token_hex(8), call.scope
        if self.needed is not None and (refusal.status >= 500 or refusal.status in NOTABLE):
            facts: dict[str, Any] = {"method": scope["method"], "path": scope["path"], "status": refusal.status}
            self.office.log(event, **facts, request=name, why=why)
        return problem_reply(refusal, name)
