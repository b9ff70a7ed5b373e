"""`Broadcast`: one look at a forecaster, told to as many listeners as there are."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool

from swapcal.service.http.office import Office
from swapcal.service.pages.reporter import Reporter
from swapcal.service.pages.view import Figures
from swapcal.service.refusal import Refusal
from swapcal.service.stored import StoreError

PAUSE, SHARE = 1.0, 20.0
"""Seconds between looks at least, and how many times longer than a look keeps the learning thread."""
HEARTBEAT = 15.0
"""Seconds of silence after which a listener is told that all is well."""

Renderer = Callable[[Figures], str]


class Edition:
    """Figures at one moment; written once, whoever listens, and beside the event loop."""

    def __init__(self, figures: Figures, render: Renderer) -> None:
        self.figures = figures
        self._render = render
        self._turn = asyncio.Lock()
        self._html: str | None = None
        self._told: dict[bool, bytes] = {}

    async def html(self) -> str:
        """Return the figures as markup."""
        async with self._turn:
            if self._html is None:
                self._html = await run_in_threadpool(self._render, self.figures)
        return self._html

    async def event(self, *, with_html: bool) -> bytes:
        """Return a server-sent event: the figures as JSON, perhaps with their markup."""
        more: dict[str, Any] = {"html": await self.html()} if with_html else {}
        if with_html not in self._told:
            content = msgspec.json.encode({**self.figures, **more})
            self._told[with_html] = b"id: %d\ndata: %s\n\n" % (self.figures["seq"], content)
        return self._told[with_html]


class Broadcast:
    """Looks once a second at most while anybody listens, and never if nobody does.

    Parameters
    ----------
    office : Office
        Listeners are sent away when it leaves.
    reporter : Reporter
        What looks.
    render : callable
        From figures to markup.
    """

    def __init__(self, office: Office, reporter: Reporter, render: Renderer) -> None:
        self._office, self._reporter, self._render = office, reporter, render
        self._edition: Edition | None = None
        self._next = 0.0
        self._turn = asyncio.Lock()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.listeners = 0

    async def latest(self) -> Edition:
        """Return the newest edition, after a look unless one was just taken."""
        async with self._turn:
            if self._edition is None or time.monotonic() >= self._next:
                seen = await self._reporter.look()
                self._next = time.monotonic() + max(PAUSE, SHARE * seen.seconds)
                if self._edition is None or self._edition.figures != seen.figures:
                    self._edition = Edition(seen.figures, self._render)
        return self._edition

    async def listen(self) -> AsyncIterator[Edition | None]:
        """Yield editions as they come; None when there is nothing new for a while."""
        self.listeners += 1
        last: Edition | None = None
        try:
            while not self._office.leaving:
                if self._task is None or self._task.done():
                    self._task = asyncio.create_task(self._look_on())
                news = self._news
                if self._edition is not None and self._edition is not last:
                    last = self._edition
                    yield last
                    continue
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await news.wait()
                except TimeoutError:
                    yield None
        finally:
            self.listeners -= 1

    async def _look_on(self) -> None:
        while self.listeners:
            if not self._office.leaving:
                with contextlib.suppress(Refusal, StoreError):
                    await self.latest()
            self._news.set()
            self._news = asyncio.Event()
            await asyncio.sleep(min(PAUSE, max(0.05, self._next - time.monotonic())))
