"""The application: every endpoint behind its address, errors for everything else."""

from collections.abc import Mapping, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from swapcal.service import openapi
from swapcal.service.api_error import ApiError
from swapcal.service.endpoint import Handler, RequestHandler, ServiceContext
from swapcal.service.http import PLAIN, problem_reply
from swapcal.service.routes import ENDPOINTS, OWN, READ, Endpoint

# `Router`: finds the way to what is called thousands of times a second without trying every address in turn.

BEFORE = "/v1/forecasters/"


class Router:
    """Passes requests about one forecaster straight to their endpoints, and all others on.

    Parameters
    ----------
    rest : ASGI application
        For all others.
    straight : mapping
        Endpoints by method, the word after the forecaster's name, and whether an id follows.
    """

    def __init__(self, rest: ASGIApp, straight: Mapping[tuple[str, str, bool], ASGIApp]) -> None:
        self.rest = rest
        self.straight = straight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
        if scope["type"] == "http" and scope["path"].startswith(BEFORE):
            name, _, rest = scope["path"][len(BEFORE) :].partition("/")
            word, slash, id = rest.partition("/")
            request_handler = self.straight.get((scope["method"], word, bool(slash)))
            if request_handler is not None and name:
                scope["path_params"] = {"name": name, "id": id}
                await request_handler(scope, receive, send)
                return
        await self.rest(scope, receive, send)


# The application: every offer behind its endpoint, and refusals for everything else.

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
    rest = Starlette(routes=[*routes, *pages], exception_handlers={404: _not_found, 405: _not_allowed})
    rest.router.redirect_slashes = False
    rest.state.context = context
    return Router(
        rest,
        {
            way(endpoint): request_handler
            for endpoint, request_handler in request_handlers.items()
            if endpoint.path.startswith(BEFORE)
        },
    )


def way(endpoint: Endpoint) -> tuple[str, str, bool]:
    """Return how `Router` finds an offer about one forecaster.

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
    found = (
        route
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE
    )
    allowed = ", ".join(sorted({method for route in found for method in route.methods or ()}))
    words = f"method: given {request.method} {request.url.path[:200]!r}, expected one of {allowed}"
    return _response(ApiError("method", words), {"allow": allowed})


def _response(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    reply = problem_reply(error)
    return Response(reply.content, reply.status_code, {**PLAIN, **(headers or {})}, reply.media)
