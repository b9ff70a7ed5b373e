"""`Office`: the desk as the event loop sees it, and what else a request needs."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from swapcal.service.desk import Answer, Desk, answer_at_once, settings_in
from swapcal.service.http.security import Gate
from swapcal.service.jobs import Ask, Make, Write
from swapcal.service.logs import JsonLog
from swapcal.service.refusal import unavailable
from swapcal.service.settings import Settings
from swapcal.service.status import Status
from swapcal.service.ward import Ward


class Office:
    """Puts jobs on the desk and awaits their answers.

    Parameters
    ----------
    desk : Desk
        Started by the caller.
    gate : Gate
        Who may do what.
    log : JsonLog
        Where requests are told of.
    """

    def __init__(self, desk: Desk, gate: Gate, log: JsonLog) -> None:
        self.desk = desk
        self.store = desk.store
        self.limits = desk.limits
        self.gate = gate
        self.log = log
        self.leaving = False
        """whether the service is stopping: whoever listens for news should go"""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Future[Any], float] = {}
        """until when answers are waited for, soonest first"""
        self.auditing = asyncio.Semaphore(1)
        self.last: dict[str, Status] = {}
        """what was last known of each forecaster, for metrics while the learner is busy"""

    def _joined(self) -> asyncio.AbstractEventLoop:
        """Have answers delivered to the running loop: one call per batch, not one per request."""
        if self._loop is None:
            loop = self._loop = asyncio.get_running_loop()

            def deliver(answers: Sequence[Answer]) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(answer_at_once, answers)

            self.desk.answer = deliver
            self._sweep(loop)
        return self._loop

    def settings(self) -> dict[str, Settings]:
        """Return the settings of all forecasters; reads the store, so not for the event loop."""
        return settings_in(self.store)

    async def write(self, forecaster: str, kind: str, rows: Sequence[Any]) -> list[Any]:
        """Return an answer or a refusal for each row, once they are on disk."""
        promise = self._joined().create_future()
        self.desk.submit(Write(promise, forecaster, kind, rows))
        answers: list[Any] = await self._awaited(promise)
        return answers

    async def make(self, settings: Settings) -> bool:
        """Make a forecaster; return whether it is new."""
        promise = self._joined().create_future()
        self.desk.submit(Make(promise, settings))
        return bool(await self._awaited(promise))

    async def ask(self, forecaster: str, question: Callable[[Ward], Any]) -> Any:
        """Return a forecaster's answer to a question."""
        promise = self._joined().create_future()
        self.desk.submit(Ask(promise, forecaster, question))
        return await self._awaited(promise)

    async def _awaited(self, promise: "asyncio.Future[Any]") -> Any:
        self._waiting[promise] = time.monotonic() + self.limits.answer
        try:
            return await promise
        finally:
            del self._waiting[promise]

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer those who have waited too long; once in a while is cheaper than a timer for each."""
        now = time.monotonic()
        for promise, deadline in [*self._waiting.items()]:
            if deadline > now:
                break
            if not promise.done():
                words = f"No answer within {self.limits.answer:g} s; it may still be done: the same request will tell."
                promise.set_exception(unavailable(words, retry=5.0))
        loop.call_later(min(1.0, self.limits.answer / 4), self._sweep, loop)
