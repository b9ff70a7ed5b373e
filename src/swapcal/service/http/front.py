"""`Front`: finds the way to what is called thousands of times a second without trying every address in turn."""

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

BEFORE = "/v1/forecasters/"


class Front:
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
            endpoint = self.straight.get((scope["method"], word, bool(slash)))
            if endpoint is not None and name:
                scope["path_params"] = {"name": name, "id": id}
                await endpoint(scope, receive, send)
                return
        await self.rest(scope, receive, send)
