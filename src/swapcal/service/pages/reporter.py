"""Reporters: look at one forecaster, or at all of them, and tell what is new."""

import asyncio
import time
from collections import deque
from typing import Any, Protocol

from starlette.concurrency import run_in_threadpool

from swapcal.service.http.office import Office
from swapcal.service.pages.view import Figures, Seen, completed, see, see_briefly, unavailable
from swapcal.service.refusal import Refusal
from swapcal.service.ward import Ward

WINDOW = 60.0
"""Seconds over which rates are measured."""
LEAST = 0.5
"""Seconds without which no rate is told."""
BETWEEN, PATIENCE = 60.0, 50.0
"""Seconds between certificates at least, and how many times longer than one of them took."""


class Reporter(Protocol):
    """Looks, and returns figures with how long that kept the learning thread."""

    async def look(self) -> Seen:
        """Return what there is to see now."""


class Copy:
    """What a certificate needs of a ward; made on the learning thread, read on any other: it can take seconds."""

    def __init__(self, ward: Ward) -> None:
        self.labels = ward.figures.labels
        self._engine = ward.live.engine()

    def certificate(self) -> dict[str, Any] | None:
        """Return the certificate, with errors and bounds as rates; None before the first outcome."""
        if not self.labels or self._engine is None:
            return None
        found = self._engine.certificate()
        names = ("psreg", "bound", "theorem")
        sums = {name: getattr(found, name) for name in names}
        rates = {name: None if total is None else (total / found.rounds) ** 0.5 for name, total in sums.items()}
        return {**found.as_dict(), "holds": found.holds(), "rates": rates}


class Rates:
    """Events per second over the last minute.

    Examples
    --------
    >>> rates = Rates()
    >>> rates.add(0.0, 100, 50), rates.add(2.0, 110, 50)
    (None, {'forecasts': 5.0, 'outcomes': 0.0})
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int]] = deque()

    def add(self, now: float, forecasts: int, outcomes: int) -> dict[str, float] | None:
        """Enter how many there have been; return the rates, or None before anything can be said."""
        self._samples.append((now, forecasts, outcomes))
        while now - self._samples[0][0] > WINDOW:
            self._samples.popleft()
        then, before, learned = self._samples[0]
        if now - then < LEAST:
            return None
        return {
            "forecasts": _roughly((forecasts - before) / (now - then)),
            "outcomes": _roughly((outcomes - learned) / (now - then)),
        }


def _roughly(rate: float) -> float:
    """Return two digits: what nobody can see should not be told again every second."""
    return float(f"{rate:.2g}")


class ForecasterReporter:
    """Looks at one forecaster.

    Parameters
    ----------
    office : Office
        Where it is asked.
    name : str
        Its name.
    """

    def __init__(self, office: Office, name: str) -> None:
        self._office, self._name = office, name
        self._rates = Rates()
        self._seen: Figures = {}
        self._certificate: dict[str, Any] | None = None
        self._certifying: asyncio.Task[None] | None = None
        self._certified, self._again = -1, 0.0

    async def look(self) -> Seen:
        """Return its figures; raises `Refusal` if there is no such forecaster."""
        known = self._seen.get("seq")
        seconds = 0.0
        try:
            seen: Seen | None = await self._office.ask(self._name, lambda ward: see(ward, known))
        except Refusal as refusal:
            if refusal.kind != "unavailable":
                raise
            return Seen({"name": self._name, "seq": known or 0, **self._seen, "state": unavailable(str(refusal))}, 0.0)
        if seen is not None:
            seconds = seen.seconds
            self._seen = await run_in_threadpool(completed, seen)
        self._certify_sometimes()
        rate = self._rates.add(time.monotonic(), self._seen["forecasts"], self._seen["labels"])
        return Seen({**self._seen, "rate": rate, "certificate": self._certificate}, seconds)

    def _certify_sometimes(self) -> None:
        """Begin a certificate if there are new outcomes and none was made for a while."""
        busy = self._certifying is not None and not self._certifying.done()
        if not busy and self._seen["labels"] > self._certified and time.monotonic() >= self._again:
            self._certifying = asyncio.create_task(self._certify())

    async def _certify(self) -> None:
        began = time.monotonic()
        try:
            copy: Copy = await self._office.ask(self._name, Copy)
            self._certificate = await run_in_threadpool(copy.certificate)
            self._certified = copy.labels
        except Refusal:
            pass  # it is asked again
        finally:
            now = time.monotonic()
            self._again = now + max(BETWEEN, PATIENCE * (now - began))


class OverviewReporter:
    """Looks at every forecaster of the service."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._seen: dict[str, Figures] = {}
        self._rates: dict[str, Rates] = {}

    async def look(self) -> Seen:
        """Return the figures of all, by name."""
        names = sorted(await run_in_threadpool(self._office.store.forecasters))
        seconds = sum(await asyncio.gather(*(self._look(name) for name in names)))
        found = [self._seen[name] for name in names]
        return Seen({"seq": sum(one.get("seq", 0) for one in found), "forecasters": found}, seconds)

    async def _look(self, name: str) -> float:
        known = self._seen.get(name, {})
        try:
            unchanged = None if known.get("state", {}).get("kind") == "unavailable" else known.get("seq")
            seen: Seen | None = await self._office.ask(name, lambda ward: see_briefly(ward, unchanged))
        except Refusal as refusal:
            self._seen[name] = {**known, "name": name, "state": unavailable(refusal.detail)}
            return 0.0
        figures = known if seen is None else seen.figures
        rates = self._rates.setdefault(name, Rates())
        rate = rates.add(time.monotonic(), figures["forecasts"], figures["labels"])
        self._seen[name] = {**figures, "rate": rate}
        return 0.0 if seen is None else seen.seconds
