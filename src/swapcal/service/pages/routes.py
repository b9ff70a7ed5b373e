"""Routes: the addresses of the dashboard."""

from starlette.routing import BaseRoute, Route

from swapcal.service.http.offers import READ
from swapcal.service.pages import signing
from swapcal.service.pages.cockpit import Cockpit
from swapcal.service.pages.page import Page
from swapcal.service.pages.static import static

OWN = "/forecasters/{name}"


def dashboard() -> list[BaseRoute]:
    """Return the routes of the dashboard; for one application."""
    cockpit = Cockpit()
    pages = {
        "/": cockpit.overview,
        OWN: cockpit.forecaster,
        f"{OWN}/report": cockpit.report,
        f"{OWN}/card": cockpit.card,
        f"{OWN}/figures": cockpit.figures,
    }
    streams = {"/live": cockpit.live_overview, f"{OWN}/live": cockpit.live}
    return [
        *(Route(path, Page(handler, READ), methods=["GET"]) for path, handler in pages.items()),
        *(Route(path, Page(handler, READ, signs_in=False), methods=["GET"]) for path, handler in streams.items()),
        Route("/static/{file}", Page(static, None), methods=["GET"]),
        Route("/sign-in", Page(signing.ask, None), methods=["GET"]),
        Route("/sign-in", Page(signing.sign_in, None), methods=["POST"]),
        Route("/sign-out", Page(signing.sign_out, None), methods=["POST"]),
    ]
