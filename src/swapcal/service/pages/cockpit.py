"""`Cockpit`: the pages, and the broadcasts behind them."""

from collections.abc import AsyncIterator

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from swapcal.service.desk import settings_in
from swapcal.service.http import reading
from swapcal.service.http.endpoint import Call
from swapcal.service.http.office import Office
from swapcal.service.http.reply import JSON, Reply
from swapcal.service.pages.broadcast import Broadcast
from swapcal.service.pages.lookup import look_up
from swapcal.service.pages.page import page
from swapcal.service.pages.render import render
from swapcal.service.pages.reporter import ForecasterReporter, OverviewReporter
from swapcal.service.refusal import Refusal, unavailable

LISTENERS = 200
"""Listeners at a time: they keep their connections, and writers need some too."""
ALL = ""
"""The broadcast about all forecasters; no forecaster has this name."""
EVENTS = "text/event-stream"
STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}
RETRY = b"retry: 2000\n\n"
BEAT = b": still here\n\n"
MARKDOWN = "text/markdown; charset=utf-8"


class Cockpit:
    """Answers requests for pages and live figures."""

    def __init__(self) -> None:
        self._broadcasts: dict[str, Broadcast] = {}

    def _broadcast(self, office: Office, name: str) -> Broadcast:
        found = self._broadcasts.get(name)
        if found is None:
            if name == ALL:
                found = Broadcast(
                    office, OverviewReporter(office), lambda figures: render("overview_figures.html", **figures)
                )
            else:
                found = Broadcast(
                    office,
                    ForecasterReporter(office, name),
                    lambda figures: render("forecaster_figures.html", view=figures),
                )
            self._broadcasts[name] = found
        return found

    async def _known(self, call: Call) -> Broadcast:
        """Return the broadcast about the forecaster in the address, if there is one."""
        name = call.forecaster
        if name not in self._broadcasts and name not in await run_in_threadpool(call.office.store.forecasters):
            raise Refusal("unknown", f"forecaster: given {name[:80]!r}, expected one that was made")
        return self._broadcast(call.office, name)

    async def overview(self, call: Call) -> Reply:
        """Show all forecasters."""
        edition = await self._broadcast(call.office, ALL).latest()
        return page("overview.html", figures=await edition.html(), signed=call.office.gate.required)

    async def forecaster(self, call: Call) -> Reply:
        """Show one forecaster, and perhaps one of its forecasts."""
        edition = await (await self._known(call)).latest()
        return page(
            "forecaster.html",
            name=call.forecaster,
            figures=await edition.html(),
            lookup=await look_up(call),
            signed=call.office.gate.required,
        )

    async def live_overview(self, call: Call) -> Response:
        """Tell the figures of all forecasters, as they change."""
        return self._stream(call, self._broadcast(call.office, ALL))

    async def live(self, call: Call) -> Response:
        """Tell the figures of one forecaster, as they change."""
        return self._stream(call, await self._known(call))

    def _stream(self, call: Call, broadcast: Broadcast) -> Response:
        if sum(one.listeners for one in self._broadcasts.values()) >= LISTENERS:
            raise unavailable(f"{LISTENERS} listen already.", retry=10.0)
        if call.scope["method"] == "HEAD":
            return Response(media_type=EVENTS, headers=STREAM)
        with_html = call.request.query_params.get("html") == "1"
        return StreamingResponse(_events(broadcast, with_html), media_type=EVENTS, headers=STREAM)

    async def figures(self, call: Call) -> Reply:
        """Give all figures as a JSON file."""
        edition = await (await self._known(call)).latest()
        return Reply(msgspec.json.encode(edition.figures), media=JSON, more=_attachment(call, "json"))

    async def card(self, call: Call) -> Reply:
        """Give the model card."""
        edition = await (await self._known(call)).latest()
        settings = (await run_in_threadpool(settings_in, call.office.store))[call.forecaster]
        text = render("card.md", view=edition.figures, settings=msgspec.to_builtins(settings))
        return Reply(text.encode(), media=MARKDOWN, more=_attachment(call, "md"))

    async def report(self, call: Call) -> Reply:
        """Give the audit's report as a file."""
        found = await reading.report(call)
        return Reply(found.content, found.status_code, found.media, {**(found.more or {}), **_attachment(call, "html")})


async def _events(broadcast: Broadcast, with_html: bool) -> AsyncIterator[bytes]:
    yield RETRY
    async for edition in broadcast.listen():
        yield BEAT if edition is None else await edition.event(with_html=with_html)


def _attachment(call: Call, suffix: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{call.forecaster}.{suffix}"'}
