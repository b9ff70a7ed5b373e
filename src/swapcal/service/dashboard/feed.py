"""The figures of a forecaster's page, as data, sent to every listening browser."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from scipy.special import bdtr, bdtrik
from starlette.concurrency import run_in_threadpool

from swapcal.archive import State, copied
from swapcal.arrays import Array
from swapcal.live.status import ENOUGH
from swapcal.monitor import Monitor
from swapcal.service import status
from swapcal.service.endpoint import ServiceContext
from swapcal.service.hosted import HostedForecaster
from swapcal.service.settings import ApiError
from swapcal.service.sql import StoreError

# View: everything a page shows of a forecaster, as plain JSON data.

MOST_GROUPS = 200
"""Groups shown, those with the strongest evidence first."""
MOST_HISTORIES = 6
"""Groups whose evidence is drawn over time."""
EARLY = 200
"""Outcomes below which no quality figure is shown."""

BRIEF = ("name", "seq", "time", "forecasts", "labels", "open", "coverage", "brier", "alarms")
"""Figures of each forecaster in the overview."""
Q = 0.1
"""Largest expected share of sound forecasters among those that the overview lists as off."""
URGENCY = ("alarm", "unavailable", "early", "waiting", "empty", "fine")
"""Kinds of states, the one to look at first first."""

Figures = dict[str, Any]


class Seen(NamedTuple):
    """Figures of a forecaster, and how long the learning thread needed for them."""

    figures: Figures
    seconds: float
    monitor: State | None = None
    """a copy, to be read outside the learning thread: the intervals of many groups take a while"""


def see(hosted: HostedForecaster, known: int | None = None) -> Seen | None:
    """Return the figures of a forecaster unless its last event is the known one; of the learning thread."""
    if hosted.seq == known:
        return None
    began = time.perf_counter()
    figures: Figures = msgspec.to_builtins(status.describe(hosted))
    monitor = copied(hosted.monitor.to_state())
    return Seen({**figures, "state": state(figures)}, time.perf_counter() - began, monitor)


def completed(seen: Seen) -> Figures:
    """Return the figures with the alarms, groups and evidence of the monitor; of any thread."""
    assert seen.monitor is not None, "only brief views have none"
    monitor = Monitor.from_state(seen.monitor)
    watched = monitor.summary()
    groups = sorted(watched["sizes"], key=lambda row: -row["change"])
    return {
        **seen.figures,
        "reliability": with_band(seen.figures["reliability"]),
        "tolerance": monitor.settings.tolerance,
        "run_length": monitor.settings.run_length,
        "alarm_list": watched["alarms"],
        "lifetime": watched["lifetime"],
        "groups": groups[:MOST_GROUPS],
        "groups_watched": len(groups),
        "evidence": watched["history"][:MOST_HISTORIES],
    }


def see_briefly(hosted: HostedForecaster, known: int | None = None) -> Seen | None:
    """Return the figures for the overview; of the learning thread."""
    if hosted.seq == known:
        return None
    began = time.perf_counter()
    figures: Figures = msgspec.to_builtins(status.describe(hosted))
    brief = {name: figures[name] for name in BRIEF}
    evidence = hosted.monitor.test().log10_wealth
    return Seen({**brief, "state": state(figures), "evidence": evidence}, time.perf_counter() - began)


def state(figures: Mapping[str, Any]) -> dict[str, str]:
    """Return how a forecaster stands: a kind for the page, a title, and what to do.

    Examples
    --------
    >>> state({"forecasts": 3, "labels": 0, "alarmed": False, "alarms": 0})["title"]
    'Waiting for the first outcome'
    """
    if not figures["forecasts"]:
        return _state("empty", "Waiting for the first forecast", "Send it a record; docs/service.md shows how.")
    if not figures["labels"]:
        return _state("waiting", "Waiting for the first outcome", "Report outcomes as they become known.")
    if figures["alarms"]:
        many = "1 group" if figures["alarms"] == 1 else f"{figures['alarms']:,} groups"
        return _state("alarm", f"Off for {many}", "Look at the alarms below: they say for whom, which way, since when.")
    if figures["alarmed"]:
        return _state("alarm", "Some group is off", "No single group stands out yet; look at the groups below.")
    if figures.get("warnings"):
        return _state("alarm", "Values are missing", " ".join(figures["warnings"]))
    unusual = figures.get("outcome_warnings", [])
    if figures["labels"] < EARLY or figures.get("early"):
        few = f"Figures settle after a few hundred outcomes, {EARLY} at least, and {ENOUGH} of either kind."
        return _state("early", "Too early to tell", " ".join([few, *unusual]))
    if unusual:
        return _state("early", "Outcomes are incomplete", " ".join(unusual))
    return _state("fine", "No alarm", "Nothing to do.")


def unavailable(why: str) -> dict[str, str]:
    """Return the state of a forecaster that is not available."""
    return _state("unavailable", "Not available now", why)


def _state(kind: str, title: str, advice: str) -> dict[str, str]:
    return {"kind": kind, "title": title, "advice": advice}


def with_band(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return a reliability curve with the band that holds 95 of 100 observed rates if the forecasts are right.

    Examples
    --------
    >>> band = with_band([{"labels": 100.0, "forecast": 0.5, "observed": 0.48}])[0]
    >>> band["low"], band["high"]
    (0.4, 0.6)
    """
    labels, forecast = (np.array([row[name] for row in curve]) for name in ("labels", "forecast"))
    ends = binomial_quantile(np.array([[0.025], [0.975]]), labels, np.clip(forecast, 0.0, 1.0)) / np.maximum(
        labels, 1.0
    )
    return [{**row, "low": low, "high": high} for row, low, high in zip(curve, *ends.tolist(), strict=True)]


def binomial_quantile(q: Array, n: Array, p: Array) -> Array:
    """Return quantiles of binomial distributions, of whole parts of n; `scipy.stats` would take half of the start.

    Examples
    --------
    >>> binomial_quantile(np.array([0.025, 0.975]), np.array([100.0]), np.array([0.5]))
    array([40., 60.])
    """
    n = np.floor(n)  # numbers of weighted labels are effective ones
    k = np.nan_to_num(np.ceil(bdtrik(q, n, p)))  # not a number if n or p is next to 0
    less = np.maximum(k - 1.0, 0.0)
    quantile: Array = np.where(p >= 1.0, n, np.where(bdtr(less, n.astype(np.int64), p) >= q, less, k))
    return quantile


def urgency(figures: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what puts forecasters in order, those to look at first first: off, by state, by evidence, by name."""
    kind = figures["state"]["kind"]
    return not figures["off"], URGENCY.index(kind), -figures.get("evidence", 0.0), figures["name"]


# Reporters: look at one forecaster, or at all of them, and return what is new.

WINDOW = 60.0
"""Seconds over which rates are measured."""
LEAST = 0.5
"""Shortest period, in seconds, for a rate."""
BETWEEN, PATIENCE = 60.0, 50.0
"""Seconds between certificates at least, and how many times longer than one of them took."""


class Reporter(Protocol):
    """Looks, and returns figures with how long that kept the learning thread."""

    async def look(self) -> Seen:
        """Return what there is to see now."""


class Copy:
    """A copy of a forecaster for its certificate, made on the learning thread; the certificate can take seconds."""

    def __init__(self, hosted: HostedForecaster) -> None:
        self.labels = hosted.figures.labels
        self._engine = hosted.live.engine()

    def certificate(self) -> dict[str, Any] | None:
        """Return the certificate, with errors and bounds as rates; None before the first outcome."""
        if not self.labels or self._engine is None:
            return None
        result = self._engine.certificate()
        names = ("psreg", "bound", "theorem")
        sums = {name: getattr(result, name) for name in names}
        rates = {name: None if total is None else (total / result.rounds) ** 0.5 for name, total in sums.items()}
        return {**result.as_dict(), "holds": result.holds(), "rates": rates}


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
        """Enter the counts; return the rates, or None before the shortest period has passed."""
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
    """Round to two digits: invisible changes should not be sent every second."""
    return float(f"{rate:.2g}")


class ForecasterReporter:
    """Looks at one forecaster.

    Parameters
    ----------
    context : ServiceContext
        The worker that owns it.
    name : str
        Its name.
    """

    def __init__(self, context: ServiceContext, name: str) -> None:
        self._context, self._name = context, name
        self._rates = Rates()
        self._seen: Figures = {}
        self._certificate: dict[str, Any] | None = None
        self._certifying: asyncio.Task[None] | None = None
        self._certified, self._again = -1, 0.0

    async def look(self) -> Seen:
        """Return its figures; raises `ApiError` if there is no such forecaster."""
        known = self._seen.get("seq")
        seconds = 0.0
        try:
            seen: Seen | None = await self._context.ask(self._name, lambda hosted: see(hosted, known))
        except ApiError as error:
            if error.kind != "unavailable":
                raise
            return Seen({"name": self._name, "seq": known or 0, **self._seen, "state": unavailable(str(error))}, 0.0)
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
            copy: Copy = await self._context.ask(self._name, Copy)
            self._certificate = await run_in_threadpool(copy.certificate)
            self._certified = copy.labels
        except ApiError:
            pass  # the next look retries
        finally:
            now = time.monotonic()
            self._again = now + max(BETWEEN, PATIENCE * (now - began))


class OverviewReporter:
    """Looks at every forecaster of the service."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._seen: dict[str, Figures] = {}
        self._rates: dict[str, Rates] = {}

    async def look(self) -> Seen:
        """Return the figures of all, those to look at first first."""
        names = sorted(await run_in_threadpool(self._context.store.forecasters))
        seconds = sum(await asyncio.gather(*(self._look(name) for name in names)))
        off = status.listed_off({name: self._seen[name].get("evidence") for name in names}, Q)
        forecasters = sorted(({**self._seen[name], "off": name in {*off}} for name in names), key=urgency)
        words = status.fleet_sentence(len(off), len(names), Q)
        seq = sum(one.get("seq", 0) for one in forecasters)
        return Seen({"seq": seq, "forecasters": forecasters, "off": len(off), "sentence": words}, seconds)

    async def _look(self, name: str) -> float:
        known = self._seen.get(name, {})
        try:
            unchanged = None if known.get("state", {}).get("kind") == "unavailable" else known.get("seq")
            seen: Seen | None = await self._context.ask_beside(name, lambda hosted: see_briefly(hosted, unchanged))
        except ApiError as error:
            self._seen[name] = {**known, "name": name, "state": unavailable(error.detail)}
            return 0.0
        figures = known if seen is None else seen.figures
        rates = self._rates.setdefault(name, Rates())
        rate = rates.add(time.monotonic(), figures["forecasts"], figures["labels"])
        self._seen[name] = {**figures, "rate": rate}
        return 0.0 if seen is None else seen.seconds


# `Broadcast`: one look at a forecaster, sent to all listeners.

PAUSE, SHARE = 1.0, 20.0
"""Seconds between looks at least, and how many times longer than a look keeps the learning thread."""
HEARTBEAT = 15.0
"""Seconds without news after which a listener gets a heartbeat."""
SOME, BREATH = 8, 0.002
"""Listeners that get news at once, and the seconds between these: requests are answered in between."""

Renderer = Callable[[Figures], str]


class Edition:
    """Figures at one moment; rendered once for all listeners, off the event loop."""

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
    """Looks at most once a second while there are listeners, never without.

    Parameters
    ----------
    context : ServiceContext
        Listeners are sent away when it leaves.
    reporter : Reporter
        What looks.
    render : callable
        From figures to markup.
    """

    def __init__(self, context: ServiceContext, reporter: Reporter, render: Renderer) -> None:
        self._context, self._reporter, self._render = context, reporter, render
        self._edition: Edition | None = None
        self._next = 0.0
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Future[None]] = set()
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
            while not self._context.leaving:
                if self._task is None or self._task.done():
                    self._task = asyncio.create_task(self._look_on())
                if self._edition is not None and self._edition is not last:
                    last = self._edition
                    yield last
                    continue
                news = asyncio.get_running_loop().create_future()
                self._waiting.add(news)
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await news
                except TimeoutError:
                    yield None
                finally:
                    self._waiting.discard(news)
        finally:
            self.listeners -= 1

    async def _look_on(self) -> None:
        sent: Edition | None = None
        while self.listeners:
            if not self._context.leaving:
                with contextlib.suppress(ApiError, StoreError):
                    await self.latest()
            if self._edition is not sent or self._context.leaving:
                sent = self._edition
                await self._wake()
            await asyncio.sleep(min(PAUSE, max(0.05, self._next - time.monotonic())))

    async def _wake(self) -> None:
        """Let those who wait go on, a few at a time."""
        waiting = [*self._waiting]
        for start in range(0, len(waiting), SOME):
            for news in waiting[start : start + SOME]:
                if not news.done():
                    news.set_result(None)
            await asyncio.sleep(0.0 if self._context.leaving else BREATH)
