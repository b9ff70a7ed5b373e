"""The application: every offer behind its endpoint, and refusals for everything else."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from swapcal.service.http import operating
from swapcal.service.http.endpoint import Endpoint, Handler
from swapcal.service.http.offers import OFFERS, READ
from swapcal.service.http.office import Office
from swapcal.service.http.problems import problem_response
from swapcal.service.refusal import Refusal

OPERATING: tuple[tuple[str, Handler, str | None], ...] = (
    ("/healthz", operating.healthz, None),
    ("/readyz", operating.readyz, None),
    ("/openapi.json", operating.openapi, None),
    ("/metrics", operating.metrics, READ),
)


def application(office: Office, pages: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the ASGI application.

    Parameters
    ----------
    office : Office
        Where the work is done.
    pages : routes
        Of the dashboard.
    """
    routes: list[BaseRoute] = [
        Route(offer.path, Endpoint(office, offer.handler, offer.needed), methods=[offer.method]) for offer in OFFERS
    ]
    routes += [Route(path, Endpoint(office, handler, needed), methods=["GET"]) for path, handler, needed in OPERATING]
    app = Starlette(routes=[*routes, *pages], exception_handlers={404: _not_found, 405: _not_allowed})
    app.router.redirect_slashes = False
    app.state.office = office
    return app


async def _not_found(request: Request, error: Exception) -> Response:
    return problem_response(Refusal("unknown", f"address: given {request.url.path[:200]!r}, expected one of ours"))


async def _not_allowed(request: Request, error: Exception) -> Response:
    words = f"method: given {request.method} {request.url.path[:200]!r}, expected another method"
    response = problem_response(Refusal("method", words))
    response.headers.update(getattr(error, "headers", None) or {})
    return response
