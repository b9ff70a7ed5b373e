"""The server: the application behind its limits, started and stopped."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from swapcal.service import openapi
from swapcal.service.auth import Auth, is_loopback
from swapcal.service.endpoint import Handler, RequestHandler, ServiceContext
from swapcal.service.http import MEDIA, PLAIN, problem_reply
from swapcal.service.routes import ENDPOINTS, OWN, READ, Endpoint
from swapcal.service.settings import ApiError, JsonLog, Limits, unavailable
from swapcal.service.tracing import Tracing
from swapcal.service.worker import Worker

# The application: endpoints and their router.

# `Router`: finds the frequently called endpoints without trying every address in turn.

BEFORE = "/v1/forecasters/"


class Router:
    """Passes requests about one forecaster directly to their endpoints, and all others on.

    Parameters
    ----------
    others : ASGI application
        For all others.
    straight : mapping
        Endpoints by method, the word after the forecaster's name, and whether an id follows.
    """

    def __init__(self, others: ASGIApp, straight: Mapping[tuple[str, str, bool], ASGIApp]) -> None:
        self.others = others
        self.straight = straight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
        if scope["type"] == "http" and scope["path"].startswith(BEFORE):
            name, _, path = scope["path"][len(BEFORE) :].partition("/")
            word, slash, id = path.partition("/")
            request_handler = self.straight.get((scope["method"], word, bool(slash)))
            if request_handler is not None and name:
                scope["path_params"] = {"name": name, "id": id}
                await request_handler(scope, receive, send)
                return
        await self.others(scope, receive, send)


# The application: every endpoint with its handler, and errors for all other addresses.

OPERATING: tuple[tuple[str, Handler, str | None], ...] = (
    ("/healthz", openapi.healthz, None),
    ("/readyz", openapi.readyz, None),
    ("/openapi.json", openapi.openapi, None),
    ("/metrics", openapi.metrics, READ),
)


def application(context: ServiceContext, pages: Sequence[BaseRoute] = ()) -> Router:
    """Return the ASGI application.

    Parameters
    ----------
    context : ServiceContext
        Where the work is done.
    pages : routes
        Of the dashboard.
    """
    request_handlers = {endpoint: RequestHandler(context, endpoint.handler, endpoint.needed) for endpoint in ENDPOINTS}
    routes: list[BaseRoute] = [
        Route(endpoint.path, request_handler, methods=[endpoint.method])
        for endpoint, request_handler in request_handlers.items()
    ]
    routes += [
        Route(path, RequestHandler(context, handler, needed), methods=["GET"]) for path, handler, needed in OPERATING
    ]
    others = Starlette(routes=[*routes, *pages], exception_handlers={404: _not_found, 405: _not_allowed})
    others.router.redirect_slashes = False
    others.state.context = context
    return Router(
        others,
        {
            way(endpoint): request_handler
            for endpoint, request_handler in request_handlers.items()
            if endpoint.path.startswith(BEFORE)
        },
    )


def way(endpoint: Endpoint) -> tuple[str, str, bool]:
    """Return the key by which `Router` finds an endpoint about one forecaster.

    Examples
    --------
    >>> way(ENDPOINTS[0])
    ('POST', 'forecasts', False)
    """
    word, slash, _ = endpoint.path.removeprefix(OWN).removeprefix("/").partition("/")
    return endpoint.method, word, bool(slash)


async def _not_found(request: Request, error: Exception) -> Response:
    words = f"address: given {request.url.path[:200]!r}, expected one of ours"
    return _response(ApiError("unknown", words))


async def _not_allowed(request: Request, error: Exception) -> Response:
    matching = (
        route
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE
    )
    allowed = ", ".join(sorted({method for route in matching for method in route.methods or ()}))
    words = f"method: given {request.method} {request.url.path[:200]!r}, expected one of {allowed}"
    return _response(ApiError("method", words), {"allow": allowed})


def _response(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    reply = problem_reply(error)
    return Response(reply.content, reply.status_code, {**PLAIN, **(headers or {})}, reply.media)


# The server.

# `Protocol`: limits slow clients and too many connections.


LEAST_IDLE = 1.0
"""Seconds between requests after which a connection may be closed for another: active clients keep theirs."""


def protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """Return the class of connections within limits."""
    slow = _raw("Request Timeout", ApiError("slow", f"request: given only in part after {limits.arrival:g} s"))
    idle: dict[Any, float] = {}
    """connections between requests, and since when; the longest first"""
    crowded = _raw("Service Unavailable", unavailable("Too many connections.", retry=5.0))

    class Protocol(HttpToolsProtocol):
        """Closes a connection whose request does not arrive in time; of too many, the one idle for longest."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Begin to wait for a request."""
            super().connection_made(transport)
            if len(self.connections) > limits.connections and not self._made_room():
                transport.write(crowded)
                transport.close()
                return
            idle[self] = self.loop.time()
            self._expect()

        def _made_room(self) -> bool:
            """Close the connection that has been between requests for longest, if that is long enough."""
            first = next(iter(idle), None)
            if first is None or self.loop.time() - idle[first] < LEAST_IDLE:
                return False
            del idle[first]
            first.transport.close()
            return True

        def on_message_begin(self) -> None:
            """Start the timer of the request."""
            idle.pop(self, None)
            super().on_message_begin()
            self._expect()

        def on_response_complete(self) -> None:
            """Begin to wait for the next request."""
            busy = bool(self.pipeline)
            super().on_response_complete()
            if not busy and not self.transport.is_closing():
                idle[self] = self.loop.time()

        def on_message_complete(self) -> None:
            """Stop the timer of the request."""
            self._relax()
            super().on_message_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            """Stop the timer."""
            idle.pop(self, None)
            self._relax()
            super().connection_lost(exc)

        def _expect(self) -> None:
            self._relax()
            self._deadline = self.loop.call_later(limits.arrival, self._give_up)

        def _give_up(self) -> None:
            waiting: Any = self.cycle  # none before the first request
            if waiting is not None and not waiting.response_started and not self.transport.is_closing():
                self.transport.write(slow)
            self.transport.close()

        def _relax(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Protocol


def _raw(reason: str, refusal: ApiError) -> bytes:
    """Return a whole response for a connection that is closed after it."""
    content = msgspec.json.encode(refusal.problem())
    retry = "" if refusal.retry is None else f"retry-after: {refusal.retry:.0f}\r\n"
    head = f"HTTP/1.1 {refusal.status} {reason}\r\n{retry}connection: close\r\ncontent-type: {MEDIA}\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode() + content


# `Server`: the service on a port, until it is stopped.

IDLE = 75
"""Seconds a connection may wait between requests."""
GRACE = 20
"""Seconds for requests in progress when the service stops."""
TURNS = 0.001
"""Seconds after which the learning thread lets the event loop have its turn; the default of 5 ms shows in answers."""

RARELY = (50_000, 20, 20)
"""Thresholds of the garbage collector: requests make many objects and hardly any cycles."""


class Server(uvicorn.Server):
    """Serves a worker over HTTP.

    Parameters
    ----------
    worker : Worker
        Not started; `run` starts and closes it.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    tokens : bool, optional
        Whether tokens are needed; by default, unless the host is a loopback address.
    log : JsonLog
        The log of requests.
    pages : routes
        Of the dashboard.
    tracing : Tracing, optional
        Makes spans of requests.
    """

    def __init__(
        self,
        worker: Worker,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        tokens: bool | None = None,
        log: JsonLog | None = None,
        pages: Sequence[BaseRoute] = (),
        tracing: Tracing | None = None,
    ) -> None:
        if tokens is False and not is_loopback(host):
            raise ValueError(
                f"tokens: given none for host {host!r}, expected them unless the host is a loopback address"
            )
        required = not is_loopback(host) if tokens is None else tokens
        self.worker = worker
        self.socket = _bound(host, port)
        self.log = JsonLog("none") if log is None else log
        _log_warnings_to(self.log)
        self.context = ServiceContext(worker, Auth(worker.store, required=required), self.log, tracing)
        config = uvicorn.Config(
            application(self.context, pages),
            http=protocol(worker.limits),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=IDLE,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)

    @property
    def url(self) -> str:
        """Where it can be reached."""
        host, port = self.socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def serve_until_stopped(self, first: Callable[[], None] = lambda: None) -> None:
        """Call `first`, listen until SIGTERM or Ctrl-C, then finish current requests and take snapshots."""
        before = sys.getswitchinterval(), gc.get_threshold()
        sys.setswitchinterval(TURNS)
        gc.set_threshold(*RARELY)
        try:
            self.worker.start()
            first()
            gc.freeze()  # modules and kernels: a full collection would look at all of them while requests wait
            self.run(sockets=[self.socket])
        finally:
            sys.setswitchinterval(before[0])
            gc.set_threshold(*before[1])
            gc.unfreeze()
            self.log("stopping")
            self.worker.close()
            self.socket.close()
            self.log("stopped")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams, which have no end of their own, then finish current requests."""
        self.context.leaving = True
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, without raising it again afterwards: a stop on request is a normal exit."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def in_background(self) -> Iterator[str]:
        """Serve from a thread while the block runs; gives the address."""
        thread = threading.Thread(target=self.serve_until_stopped, name="server")
        thread.start()
        try:
            while not (self.started and self.worker.ready) and thread.is_alive():
                time.sleep(0.005)
            yield self.url
        finally:
            self.should_exit = True
            thread.join()


class _ServerLog(logging.Handler):
    """Writes uvicorn's warnings, such as invalid HTTP requests, to the log."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one warning."""
        self._log("http", words=record.getMessage())


def _log_warnings_to(log: JsonLog) -> None:
    logger = logging.getLogger("uvicorn.error")
    logger.propagate = False
    logger.handlers = [_ServerLog(log)]


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves delays on
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"host, port: given {host}:{port}, which cannot be used: {error.strerror}") from None
    return bound
