"""The dashboard's pages: sign-in by cookie, overview, one forecaster, one forecast."""

import hmac
from collections.abc import AsyncIterator, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from swapcal.service import routes
from swapcal.service.dashboard.feed import Broadcast, ForecasterReporter, OverviewReporter
from swapcal.service.dashboard.render import render, static
from swapcal.service.endpoint import REFUSED, Call, Handler, RequestHandler, ServiceContext, answered
from swapcal.service.hosted import HostedForecaster
from swapcal.service.http import JSON, Reply, problem_reply, read_body
from swapcal.service.messages import DecisionOut, ForecastShown
from swapcal.service.routes import READ, decided, shown
from swapcal.service.settings import ApiError, unavailable
from swapcal.service.worker import settings_in

# Session: the token in a cookie, because browsers send no bearer header of their own; for pages alone.

COOKIE = "swapcal_token"
LONGEST = 512
"""Bytes of a token that is looked at."""

Headers = Mapping[bytes, bytes]


def with_token(headers: Headers) -> dict[bytes, bytes]:
    """Return headers with the cookie's token as if it had been sent as a bearer's, unless one was.

    Examples
    --------
    >>> with_token({b"cookie": b"a=b; swapcal_token=t"})[b"authorization"]
    b'Bearer t'
    """
    token = _token(headers.get(b"cookie", b"").decode("latin-1"))
    if token is None or b"authorization" in headers:
        return {**headers}
    return {**headers, b"authorization": b"Bearer " + token.encode("latin-1")}


def _token(cookies: str) -> str | None:
    try:
        cookie_ = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    return cookie_.value if cookie_ is not None and 0 < len(cookie_.value) <= LONGEST else None


def cookie(token: str, scheme: str) -> str:
    """Return the header that keeps a token until the browser is closed; an empty one ends the session.

    Examples
    --------
    >>> cookie("t", "https")
    'swapcal_token=t; Path=/; HttpOnly; SameSite=Strict; Secure'
    """
    end = "" if token else "; Max-Age=0"
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if scheme == 'https' else ''}{end}"


def is_own(scope: Scope, headers: Headers) -> bool:
    """Return whether a form came from a page of this service: others could sign a browser in with their token."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    if origin is None:
        return True  # no browser: nothing to be misled
    try:
        host = urlsplit(origin.decode("latin-1")).netloc
    except ValueError:
        return False  # an unreadable address is not ours
    return hmac.compare_digest(host.encode(), headers.get(b"host", b""))


def is_token(text: str) -> bool:
    """Return whether a text may be put into a cookie.

    Examples
    --------
    >>> is_token("swapcal_Ab-_9"), is_token("a; b"), is_token("")
    (True, False, False)
    """
    return 0 < len(text) <= LONGEST and all(c.isascii() and (c.isalnum() or c in "-_.~") for c in text)


def here(path: str) -> str:
    """Return a path of this service to go on to; anything else leads to the overview.

    Examples
    --------
    >>> here("/forecasters/shop?id=a"), here("//evil.example"), here("https://evil.example"), here("")
    ('/forecasters/shop?id=a', '/', '/', '/')
    """
    is_local = path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable() and path.isascii()
    return path if is_local else "/"


# `Page`: admission by header or cookie, errors as pages, strict headers.

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
"""Advice for each kind of error."""


def page(template: str, status_code: int = 200, **facts: object) -> Reply:
    """Return a page made of a template."""
    return Reply(render(template, **facts).encode("utf-8", "replace"), status_code, HTML, GUARDS)


class Page:
    """An ASGI application for one address that people open.

    Parameters
    ----------
    handler : callable
        From a call to a reply; may raise `ApiError`.
    needed : str, optional
        The scope a token must have, in a header or in the cookie.
    signs_in : bool
        Whether a request without a token is redirected to the sign-in page.
    """

    def __init__(self, handler: Handler, needed: str | None, *, signs_in: bool = True) -> None:
        self._handler, self._needed, self._signs_in = handler, needed, signs_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        context = scope["app"].state.context
        await RequestHandler(context, self._page, None)(scope, receive, send)

    async def _page(self, call: Call) -> Reply | Response:
        call.headers = with_token(call.headers)
        return await answered(call, self._handler, self._needed, self._refused)

    def _refused(self, call: Call, event: str, error: ApiError, why: str) -> Reply:
        if event != REFUSED:
            call.context.log(event, path=call.scope["path"], error=why)
        if not self._signs_in:
            return problem_reply(error)
        if error.kind == "unauthorized":
            return moved(f"/sign-in?next={quote(_requested(call.scope), safe='')}")
        return refused(error)


def refused(error: ApiError) -> Reply:
    """Return the page of a refused request: the reason and what to do."""
    advice = ADVICE.get(error.status, "")
    return page("error.html", error.status, error=error, advice=advice)


def moved(where: str, **more: str) -> Reply:
    """Return the reply that sends a browser on."""
    return Reply(b"", 303, HTML, {**GUARDS, "location": where, **more})


def _requested(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    path = quote(scope["path"])
    return f"{path}?{query}" if query else path


# Signing in and out.

FIELDS = 10
"""Fields of a form."""


async def ask(call: Call) -> Reply:
    """Show where a token can be given."""
    if not call.context.auth.required:
        return moved("/")
    return page("sign_in.html", next=here(call.request.query_params.get("next", "/")), trouble="")


async def sign_in(call: Call) -> Reply:
    """Keep a token that may read in a cookie."""
    given = await _form(call)
    token, path = given.get("token", "").strip(), here(given.get("next", "/"))
    try:
        if not is_token(token):
            raise ApiError("unauthorized", "token: given something else, expected what swapcal token create printed")
        await call.context.auth.admit({b"authorization": f"Bearer {token}".encode(), **_host(call)}, READ)
    except ApiError as error:
        call.context.log("refused", path="/sign-in", why=error.detail)
        return page("sign_in.html", error.status, next=path, trouble=error.detail)
    return moved(path, **{"set-cookie": cookie(token, call.scope["scheme"])})


async def sign_out(call: Call) -> Reply:
    """Delete the cookie with the token."""
    await _form(call)
    return moved("/sign-in", **{"set-cookie": cookie("", call.scope["scheme"])})


async def _form(call: Call) -> dict[str, str]:
    if not is_own(call.scope, call.headers):
        raise ApiError("forbidden", "origin: given another site, expected a page of this service")
    body = await read_body(call.headers, call.receive, call.context.limits)
    try:
        given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=FIELDS)
    except ValueError:
        raise ApiError("invalid", f"form: given too many fields, expected at most {FIELDS}") from None
    return {name: values[-1] for name, values in given.items()}


def _host(call: Call) -> dict[bytes, bytes]:
    return {b"host": call.headers[b"host"]} if b"host" in call.headers else {}


# Lookup: one forecast by its id, with what each loss would decide.

LOSSES = {
    "zero_one": "yes or no, both mistakes equally bad",
    "zero_one:1,10": "yes or no, missing one is ten times as bad as a false alarm",
    "newsvendor:3,1": "stock of 0 to 1, too little costs three times too much",
    "pinball:0.1": "a cautious low value (10 % quantile)",
    "pinball:0.9": "a cautious high value (90 % quantile)",
    "absolute": "the nearest value (absolute error)",
    "squared": "a probability (squared error, Brier)",
    "log": "a probability (logarithmic score)",
    "huber": "a value, large errors count linearly",
    "logistic": "log-odds",
    "exponential": "a margin, as boosting uses",
    "v_shaped:0.5": "which side of one half",
}
"""Losses by name, and what they decide, in words."""


class LookedUp(NamedTuple):
    """The page's data for one id."""

    id: str
    loss: str
    shown: ForecastShown | None = None
    explanation: dict[str, Any] | None = None
    """of the forecast while it is open; of what the record would be forecast now, afterwards"""
    decisions: tuple[tuple[DecisionOut, str], ...] = ()
    trouble: str = ""

    @property
    def largest(self) -> float:
        """The largest contribution: the scale of the drawing."""
        terms = self.explanation["terms"] if self.explanation else ()
        return max((abs(term["amount"]) for term in terms), default=0.0)


async def look_up(call: Call) -> LookedUp | None:
    """Return the query of the address; None without one."""
    query = call.request.query_params
    id, loss = query.get("id", ""), query.get("loss", "").strip()
    if not id:
        return None
    try:
        shown_ = await shown(call, id)
    except ApiError as error:
        return LookedUp(id, loss, trouble=error.detail)
    if shown_.record is None:
        return LookedUp(id, loss, shown_)
    explanation = shown_.explanation or await _explained_now(call, shown_.record)
    decisions, trouble = _decisions(shown_, loss)
    return LookedUp(id, loss, shown_, explanation, decisions, trouble)


async def _explained_now(call: Call, record: dict[str, Any]) -> dict[str, Any] | None:
    """Explain the forecast a record would get now; None if the forecaster is not available."""
    try:
        explanation: dict[str, Any] = await call.context.ask(call.forecaster, lambda hosted: _preview(hosted, record))
    except ApiError:
        return None
    return explanation


def _preview(hosted: HostedForecaster, record: dict[str, Any]) -> dict[str, Any]:
    explanation: dict[str, Any] = hosted.live.preview([record]).explain().to_dict()
    return explanation


def _decisions(issued: ForecastShown, loss: str) -> tuple[tuple[tuple[DecisionOut, str], ...], str]:
    """Return what each loss would decide, and why not for the one that was given."""
    wanted = {loss: "the loss you gave", **LOSSES} if loss else LOSSES
    decisions, trouble = [], ""
    for text, words in wanted.items():
        try:
            decisions.append((decided(issued.id, text, issued.record or {}, issued), words))
        except ApiError as error:
            trouble = error.detail
    return tuple(decisions), trouble


# `Dashboard`: the pages, and the broadcasts behind them.

LISTENERS = 500
"""Listeners at a time: they keep their connections, and writers need some too."""
ALL = ""
"""The broadcast about all forecasters; no forecaster has this name."""
EVENTS = "text/event-stream"
STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}
RETRY = b"retry: 2000\n\n"
BEAT = b": still here\n\n"
MARKDOWN = "text/markdown; charset=utf-8"


class Dashboard:
    """Answers requests for pages and live figures."""

    def __init__(self) -> None:
        self._broadcasts: dict[str, Broadcast] = {}

    def _broadcast(self, context: ServiceContext, name: str) -> Broadcast:
        broadcast = self._broadcasts.get(name)
        if broadcast is None:
            if name == ALL:
                broadcast = Broadcast(
                    context, OverviewReporter(context), lambda figures: render("overview_figures.html", **figures)
                )
            else:
                broadcast = Broadcast(
                    context,
                    ForecasterReporter(context, name),
                    lambda figures: render("forecaster_figures.html", view=figures),
                )
            self._broadcasts[name] = broadcast
        return broadcast

    async def _known(self, call: Call) -> Broadcast:
        """Return the broadcast about the forecaster in the address, if there is one."""
        name = call.forecaster
        if name not in self._broadcasts and name not in await run_in_threadpool(call.context.store.forecasters):
            raise ApiError("unknown", f"forecaster: given {name[:80]!r}, expected one that was made")
        return self._broadcast(call.context, name)

    async def overview(self, call: Call) -> Reply:
        """Show all forecasters."""
        edition, find = await self._broadcast(call.context, ALL).latest(), call.request.query_params.get("find", "")
        html = await edition.html()
        if find.strip():
            html = await run_in_threadpool(lambda: render("overview_figures.html", **_matching(edition.figures, find)))
        return page("overview.html", figures=html, find=find[:LONGEST], signed=call.context.auth.required)

    async def forecaster(self, call: Call) -> Reply:
        """Show one forecaster, and perhaps one of its forecasts."""
        edition = await (await self._known(call)).latest()
        return page(
            "forecaster.html",
            name=call.forecaster,
            figures=await edition.html(),
            lookup=await look_up(call),
            signed=call.context.auth.required,
        )

    async def live_overview(self, call: Call) -> Response:
        """Send the figures of all forecasters, as they change."""
        return self._stream(call, self._broadcast(call.context, ALL))

    async def live(self, call: Call) -> Response:
        """Send the figures of one forecaster, as they change."""
        return self._stream(call, await self._known(call))

    def _stream(self, call: Call, broadcast: Broadcast) -> Response:
        if sum(one.listeners for one in self._broadcasts.values()) >= LISTENERS:
            raise unavailable(f"{LISTENERS} listen already.", retry=10.0)
        if call.scope["method"] == "HEAD":
            return Response(media_type=EVENTS, headers=STREAM)
        with_html = call.request.query_params.get("html") == "1"
        return StreamingResponse(_events(broadcast, with_html), media_type=EVENTS, headers=STREAM)

    async def figures(self, call: Call) -> Reply:
        """Send all figures as a JSON file."""
        edition = await (await self._known(call)).latest()
        return Reply(msgspec.json.encode(edition.figures), media=JSON, more=_attachment(call, "json"))

    async def card(self, call: Call) -> Reply:
        """Send the model card."""
        edition = await (await self._known(call)).latest()
        settings = (await run_in_threadpool(settings_in, call.context.store))[call.forecaster]
        text = render("card.md", view=edition.figures, settings=msgspec.to_builtins(settings))
        return Reply(text.encode(), media=MARKDOWN, more=_attachment(call, "md"))

    async def report(self, call: Call) -> Reply:
        """Send the audit's report as a file."""
        page = await routes.report(call)
        return Reply(page.content, page.status_code, page.media, {**(page.more or {}), **_attachment(call, "html")})


def _matching(figures: Mapping[str, Any], find: str) -> dict[str, Any]:
    """Return the overview's figures of the forecasters in whose name and state all words occur."""
    words = find.lower().split()
    texts = [
        (one, f"{one['name']} {one['state']['title']}{' stands out' if one['off'] else ''}".lower())
        for one in figures["forecasters"]
    ]
    return {**figures, "forecasters": [one for one, text in texts if all(word in text for word in words)]}


async def _events(broadcast: Broadcast, with_html: bool) -> AsyncIterator[bytes]:
    yield RETRY
    async for edition in broadcast.listen():
        yield BEAT if edition is None else await edition.event(with_html=with_html)


def _attachment(call: Call, suffix: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{call.forecaster}.{suffix}"'}


# Routes: the addresses of the dashboard.

OWN = "/forecasters/{name}"


def dashboard() -> list[BaseRoute]:
    """Return the routes of the dashboard; for one application."""
    dashboard = Dashboard()
    pages = {
        "/": dashboard.overview,
        OWN: dashboard.forecaster,
        f"{OWN}/report": dashboard.report,
        f"{OWN}/card": dashboard.card,
        f"{OWN}/figures": dashboard.figures,
    }
    streams = {"/live": dashboard.live_overview, f"{OWN}/live": dashboard.live}
    return [
        *(Route(path, Page(handler, READ), methods=["GET"]) for path, handler in pages.items()),
        *(Route(path, Page(handler, READ, signs_in=False), methods=["GET"]) for path, handler in streams.items()),
        Route("/static/{file}", Page(static, None), methods=["GET"]),
        Route("/sign-in", Page(ask, None), methods=["GET"]),
        Route("/sign-in", Page(sign_in, None), methods=["POST"]),
        Route("/sign-out", Page(sign_out, None), methods=["POST"]),
    ]
