"""Handling of every request: authorisation, errors as problems, one line in the log."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from swapcal.service.auth import Auth
from swapcal.service.hosted import HostedForecaster
from swapcal.service.http import PLAIN, Gone, Reply, check_address, in_lines, problem_reply, read_body
from swapcal.service.queue import Ask, Make, Write
from swapcal.service.settings import ApiError, JsonLog, Settings, unavailable
from swapcal.service.sql import StoreError
from swapcal.service.status import CollectedFigures
from swapcal.service.tracing import RequestTrace, Tracing, untraced
from swapcal.service.worker import Answer, Worker, answer_at_once, settings_in

# `ServiceContext`: access to the worker from the event loop, and the other needs of requests.


QUESTIONS = 4
"""Reads in one batch of the learning thread, for a request that reads many forecasters."""


class ServiceContext:
    """Puts jobs on the worker's queue and awaits their answers.

    Parameters
    ----------
    worker : Worker
        Started by the caller.
    auth : Auth
        Who may do what.
    log : JsonLog
        The log of requests.
    tracing : Tracing, optional
        Makes spans of requests.
    """

    def __init__(self, worker: Worker, auth: Auth, log: JsonLog, tracing: Tracing | None = None) -> None:
        self.worker = worker
        self.store = worker.store
        self.limits = worker.limits
        self.auth = auth
        self.log = log
        self.tracing = tracing
        self.leaving = False
        """whether the service is stopping: open event streams should end"""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Future[Any], float] = {}
        """until when answers are waited for, soonest first"""
        self.auditing = asyncio.Semaphore(1)
        self._beside = asyncio.Semaphore(QUESTIONS)
        self.last: dict[str, CollectedFigures] = {}
        """latest figures of each forecaster, for metrics while the learner is busy"""

    def _joined(self) -> asyncio.AbstractEventLoop:
        """Return the running loop, to which answers are delivered: one call per batch, not one per request."""
        if self._loop is None:
            loop = self._loop = asyncio.get_running_loop()

            def deliver(answers: Sequence[Answer]) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(answer_at_once, answers)

            self.worker.answer = deliver
            self._sweep(loop)
        return self._loop

    def settings(self) -> dict[str, Settings]:
        """Return the settings of all forecasters; reads the store, so not for the event loop."""
        return settings_in(self.store)

    async def write(
        self, forecaster: str, kind: str, rows: Sequence[Any], trace: RequestTrace | None = None
    ) -> list[Any]:
        """Return a result or an error for each row, once they are on disk."""
        promise = self._joined().create_future()
        if trace is not None:
            trace.queued = time.time_ns()
        self.worker.submit(Write(promise, forecaster, kind, rows, trace))
        answers: list[Any] = await self._awaited(promise)
        return answers

    async def make(self, settings: Settings) -> bool:
        """Make a forecaster; return whether it is new."""
        promise = self._joined().create_future()
        self.worker.submit(Make(promise, settings))
        return bool(await self._awaited(promise))

    async def ask(self, forecaster: str, question: Callable[[HostedForecaster], Any]) -> Any:
        """Return the result of a function of a forecaster, computed in the learning thread."""
        promise = self._joined().create_future()
        self.worker.submit(Ask(promise, forecaster, question))
        return await self._awaited(promise)

    async def ask_beside(self, forecaster: str, question: Callable[[HostedForecaster], Any]) -> Any:
        """Return the same for one of many forecasters: few at a time, so that writes do not wait for all of them."""
        async with self._beside:
            return await self.ask(forecaster, question)

    async def _awaited(self, promise: "asyncio.Future[Any]") -> Any:
        self._waiting[promise] = time.monotonic() + self.limits.answer
        try:
            return await promise
        finally:
            del self._waiting[promise]

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer requests that have waited too long; an occasional sweep is cheaper than a timer for each."""
        now = time.monotonic()
        for promise, deadline in [*self._waiting.items()]:
            if deadline > now:
                break
            if not promise.done():
                words = f"No answer within {self.limits.answer:g} s; it may still be done: repeat the same request."
                promise.set_exception(unavailable(words, retry=5.0))
        loop.call_later(min(1.0, self.limits.answer / 4), self._sweep, loop)


# `RequestHandler`: admission, errors as problems, one line in the log.

NOTABLE = (401, 403)


class Call:
    """One request."""

    __slots__ = ("context", "headers", "receive", "scope", "trace")

    def __init__(self, context: ServiceContext, scope: Scope, receive: Receive) -> None:
        self.context = context
        self.scope = scope
        self.receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.trace: RequestTrace | None = None

    @property
    def request(self) -> Request:
        """The request as a Starlette object."""
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
        """Return whether the body is NDJSON."""
        return in_lines(self.headers)

    async def body(self) -> bytes:
        """Return the body."""
        return await read_body(self.headers, self.receive, self.context.limits)

    async def json(self) -> bytes:
        """Return a body that must be JSON."""
        if self.in_lines():
            raise ApiError("media", "content-type: given NDJSON, expected application/json here")
        return await self.body()


Handler = Callable[[Call], Awaitable[Reply | Response]]
REFUSED = "refused"


async def answered(
    call: Call, handler: Handler, needed: str | None, refused: Callable[[Call, str, ApiError, str], Reply]
) -> Reply | Response:
    """Return a handler's reply to a call of the needed scope, or the reply that `refused` makes of an error."""
    try:
        check_address(call.scope)
        if needed is not None:
            await call.context.auth.admit(call.headers, needed)
        return await handler(call)
    except Gone:
        raise
    except ApiError as error:
        return refused(call, REFUSED, error, error.detail)
    except StoreError as error:
        return refused(call, "store unavailable", unavailable("The store cannot be reached."), str(error))
    except Exception as error:
        return refused(call, "fault", ApiError("internal", "Internal error; see the log."), repr(error))


class RequestHandler:
    """An ASGI application for one address.

    Parameters
    ----------
    context : ServiceContext
        Where the work is done.
    handler : callable
        From a call to a reply; may raise `ApiError`.
    needed : str, optional
        The scope a token must have; None for public endpoints.
    """

    def __init__(self, context: ServiceContext, handler: Handler, needed: str | None) -> None:
        self.context = context
        self.handler = handler
        self.needed = needed
        self._name = getattr(handler, "__name__", "request").lstrip("_")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        call, tracing = Call(self.context, scope, receive), self.context.tracing
        if tracing is None:
            call.trace = untraced(call.headers)
            await self._answer(call, send)
            return
        name, path = f"{scope['method']} {self._name}", {"url.path": scope["path"]}
        call.trace, status = tracing.begin(call.headers, name, **path), None
        try:
            status = await self._answer(call, send)
        finally:
            tracing.end(call.trace, status)

    async def _answer(self, call: Call, send: Send) -> int | None:
        """Answer one request and return the status; None if the client is gone."""
        began, scope = time.perf_counter(), call.scope
        try:
            reply = await answered(call, self.handler, self.needed, self._refused)
        except Gone:
            return None
        if isinstance(reply, Response):
            for name, value in PLAIN.items():
                reply.headers.setdefault(name, value)
        await reply(scope, call.receive, send)
        if self.context.log.tells("request"):
            took = round(time.perf_counter() - began, 6)
            facts = {"method": scope["method"], "path": scope["path"], "status": reply.status_code}
            self.context.log("request", **facts, seconds=took, **_trace_id(call))
        return reply.status_code

    def _refused(self, call: Call, event: str, error: ApiError, why: str) -> Reply:
        """Return the problem, and log it unless it is the client's fault; both carry the request's id."""
        name, scope = secrets.token_hex(8), call.scope
        if self.needed is not None and (error.status >= 500 or error.status in NOTABLE):
            facts: dict[str, Any] = {"method": scope["method"], "path": scope["path"], "status": error.status}
            self.context.log(event, **facts, request=name, why=why, **_trace_id(call))
        return problem_reply(error, name)


def _trace_id(call: Call) -> dict[str, str]:
    """Return what a log line has besides, of a traced request."""
    return {} if call.trace is None else {"trace": call.trace.id}
