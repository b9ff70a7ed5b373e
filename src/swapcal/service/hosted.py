"""One forecaster in the service: its state follows from the events of its log alone, with scores as sums."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from swapcal.archive import State
from swapcal.arrays import Array
from swapcal.live import Learned, Live
from swapcal.live.scheduler import CORRECTED
from swapcal.live.status import too_early
from swapcal.monitor import Monitor
from swapcal.service import events as bodies
from swapcal.service.events import (
    CORRECTION,
    FORECAST,
    LEVELS,
    MADE,
    OUTCOME,
    PARKED,
    SETTLED,
    SILENCE,
    WITHDRAWN,
    Event,
    ForecastBody,
)
from swapcal.service.messages import ForecastIn, OutcomeRowIn
from swapcal.service.settings import Settings, from_body

# `Figures`: how well the forecasts have done so far, as sums that do not depend on how rows were batched.

BINS = 20
PERIODS = 128
DELAYS = (1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0, 2592000.0)
"""Seconds up to which waits are counted together; the last bin is beyond."""
WEIGHT, ONES, BRIER_MEAN, BRIER_ISSUED, SUM_MEAN = range(5)
LABELS, COUNTED_ONES = range(2)
P_LABELS, P_MEAN, P_ONES, P_BRIER, P_FROM, P_TO = range(6)


class Figures:
    """Brier scores of the forecast, of each expert and of the base rate; reliability; the same over time; delays.

    `Live` itself compares the forecasts with the given scores.

    An outcome counts by its weight, 1 by default; numbers of labels and delays count each once.
    Sums are added one row after the other, so that a log replayed in other batches gives the same bits.

    Examples
    --------
    >>> figures, one = Figures(("blend",)), np.array([1.0])
    >>> figures.learn(Learned(["a"], one, 0.5 * one, 0.6 * one, np.array([[0.7]]), np.zeros((1, 0))), 0.0)
    >>> round(figures.brier(), 2), figures.best_expert()[0]
    (0.16, 'blend')
    """

    def __init__(self, experts: tuple[str, ...]) -> None:
        self.experts = experts
        self.totals = np.zeros(5)
        """weights; outcomes, squared errors of mean and level, and means, times the weights"""
        self.counts = np.zeros(2)
        """labels, and their outcomes, each once"""
        self.expert_brier = np.zeros(len(experts))
        self.reliability = np.zeros((BINS, 4))
        """(bins, 4): weights, mean forecasts and outcomes times these, and squares of the weights"""
        self.delays = [0.0] * (len(DELAYS) + 1)
        self.delay = [0.0, 0.0]
        """sum and largest, in seconds"""
        self.periods = np.zeros((PERIODS, 6))
        """weights; means, outcomes and squared errors times these; first and last time"""
        self.stride = 1
        """labels per period; doubles when all periods are full"""

    @property
    def labels(self) -> int:
        """Outcomes learned."""
        return int(self.counts[LABELS])

    def learn(self, learned: Learned, now: float) -> None:
        """Add labels that are learned now."""
        error, once = (learned.mean - learned.y) ** 2, np.ones_like(learned.y)
        weight = (once if learned.weight is None else learned.weight)[:, None]
        rows = weight * np.stack([once, learned.y, error, (learned.p - learned.y) ** 2, learned.mean], axis=1)
        before = self.labels
        self.counts = _added(self.counts, np.stack([once, learned.y], axis=1))
        self.totals = _added(self.totals, rows)
        self.expert_brier = _added(self.expert_brier, weight * (learned.experts - learned.y[:, None]) ** 2)
        bins = np.minimum((learned.mean * BINS).astype(np.int64), BINS - 1)
        np.add.at(self.reliability, bins, np.hstack([rows[:, [WEIGHT, SUM_MEAN, ONES]], weight**2]))
        self._enter(before, rows[:, [WEIGHT, SUM_MEAN, ONES, BRIER_MEAN]], now)

    def _enter(self, before: int, rows: Array, now: float) -> None:
        """Add rows to their periods, halving the periods whenever they are full."""
        start = 0
        while start < len(rows):
            if before + start >= PERIODS * self.stride:
                self._halve()
            stop = min(len(rows), PERIODS * self.stride - before)
            at = (before + np.arange(start, stop)) // self.stride
            fresh = at[self.periods[at, P_LABELS] == 0]
            self.periods[fresh, P_FROM] = now
            np.add.at(self.periods[:, :4], at, rows[start:stop])
            self.periods[at, P_TO] = now
            start = stop

    def _halve(self) -> None:
        pairs = self.periods.reshape(-1, 2, 6)
        merged = np.zeros((PERIODS, 6))
        half = PERIODS // 2
        merged[:half, :4] = pairs[:, 0, :4] + pairs[:, 1, :4]
        merged[:half, P_FROM], merged[:half, P_TO] = pairs[:, 0, P_FROM], pairs[:, 1, P_TO]
        self.periods = merged
        self.stride *= 2

    def wait(self, seconds: float) -> None:
        """Add how long an outcome took to come."""
        self.delay[0] += seconds
        self.delay[1] = max(self.delay[1], seconds)
        self.delays[bisect_left(DELAYS, seconds)] += 1

    def brier(self) -> float:
        """Return the mean squared error of the mean forecasts; NaN before the first label."""
        return self._mean(BRIER_MEAN)

    def brier_issued(self) -> float:
        """Return the mean squared error of the issued levels."""
        return self._mean(BRIER_ISSUED)

    def base_rate(self) -> float:
        """Return the mean outcome."""
        return self._mean(ONES)

    def mean_forecast(self) -> float:
        """Return the mean of the mean forecasts whose outcome is learned."""
        return self._mean(SUM_MEAN)

    def brier_base_rate(self) -> float:
        """Return what always forecasting the base rate would have scored, in hindsight."""
        rate = self.base_rate()
        return rate * (1.0 - rate)

    def best_expert(self) -> tuple[str, float]:
        """Return the expert that did best in hindsight, and its Brier score."""
        if not self.labels:
            return "", math.nan
        best = int(np.argmin(self.expert_brier))
        return self.experts[best], float(self.expert_brier[best] / self.totals[WEIGHT])

    def is_early(self) -> bool:
        """Return whether there are too few outcomes of either kind for comparisons."""
        return too_early(self.labels, float(self.counts[COUNTED_ONES]))

    def mean_delay(self) -> float:
        """Return the mean time from forecast to outcome, in seconds."""
        count = sum(self.delays)
        return self.delay[0] / count if count else math.nan

    def _mean(self, column: int) -> float:
        return float(self.totals[column] / self.totals[WEIGHT]) if self.labels else math.nan

    def curve(self) -> list[dict[str, float]]:
        """Return the reliability curve: labels, mean forecast and observed rate of each range that has any.

        With weights the number of labels is the effective one: of equal weights that would be known as well.
        """
        points = []
        for k, (weight, forecast, ones, squares) in enumerate(self.reliability.tolist()):
            if weight:
                ends = {"from": k / BINS, "to": (k + 1) / BINS, "labels": weight**2 / squares}
                points.append({**ends, "forecast": forecast / weight, "observed": ones / weight})
        return points

    def over_time(self) -> list[dict[str, float]]:
        """Return the same number of labels per period: mean forecast, observed rate and Brier score."""
        periods = []
        for labels, forecast, ones, error, first, last in self.periods.tolist():
            if labels:
                means = {"forecast": forecast / labels, "observed": ones / labels, "brier": error / labels}
                periods.append({"from": first, "to": last, "labels": labels, **means})
        return periods

    def to_state(self) -> State:
        """Return all sums."""
        names = ("totals", "counts", "expert_brier", "reliability", "delays", "delay", "periods")
        arrays: dict[str, Any] = {name: np.array(getattr(self, name)) for name in names}
        return State(arrays, {"stride": self.stride})

    @classmethod
    def from_state(cls, state: State, experts: tuple[str, ...]) -> "Figures":
        """Rebuild from `to_state`; earlier states also hold sums of the scores."""
        figures = cls(experts)
        for name, values in state.arrays.items():
            if name == "score_sums":
                continue
            setattr(figures, name, values.tolist() if name in ("delay", "delays") else np.array(values))
        if "counts" not in state.arrays:  # from before outcomes had weights: each counts once
            figures.counts = figures.totals[[WEIGHT, ONES]]
            figures.reliability = figures.reliability[:, [0, 1, 2, 0]]
        figures.stride = state.manifest["stride"]
        return figures


def _added(total: Array, rows: Array) -> Array:
    """Return the total with rows added one after the other."""
    return np.asarray(np.add.accumulate(np.concatenate([total[None], rows]), axis=0)[-1], dtype=np.float64)


# `HostedForecaster`: its state follows from the events of its log, and from nothing else.

SERVICE, GIVEN = "service", "given"
"""Whose clock maturity and lifetimes go by: the service's, or that of the times given with forecasts."""
ERRORS = (ValueError, TypeError, OverflowError)


class HostedForecaster:
    """`Live` with its monitor, running figures and early outcomes of one forecaster.

    Forecasts and outcomes go in one after the other; many at once give the same result as one by one. `apply` takes
    them from the log again. What is refused leaves everything as it was.

    Examples
    --------
    >>> from msgspec import Raw
    >>> hosted = HostedForecaster(Settings(name="shop", groups=["city"]))
    >>> hosted.forecast([ForecastIn("a", Raw(b'{"city": "Rome"}'))], now=10.0)[0].mean
    0.5
    >>> hosted.outcome([OutcomeRowIn("a", 1.0)], now=12.0), hosted.figures.labels, hosted.figures.mean_delay()
    (['learned'], 1, 2.0)
    """

    def __init__(self, settings: Settings) -> None:
        self._hold(settings, settings.live())
        self.figures = Figures(self.live.experts)

    def _hold(self, settings: Settings, live: Live) -> None:
        self.settings = settings
        self.live = live
        self.seq = 0
        """number of the last event"""
        self.now = -math.inf
        """time of the last event"""
        self.clock: str | None = None
        """whose clock counts; decided by the first forecast that needs one"""
        self.latest = -math.inf
        """the learner's clock: the latest moment of a forecast"""
        self.lapsed = 0
        """early outcomes given up"""
        self.corrections = 0
        self.parked: dict[str, float] = {}
        """when each outcome was accepted that waits for its forecast; its value is in the log"""
        self.accepted: dict[str, float] = {}
        """when each open forecast was accepted, in order of issue; `live` keeps the rest"""
        self.silenced: list[str] = []
        """forecasts learned as silence whose events are not in the log yet"""
        self._news: list[Learned] = []
        live.watch(self._news.append)

    @property
    def name(self) -> str:
        """Its name."""
        return self.settings.name

    @property
    def monitor(self) -> Monitor:
        """The monitor that `live` feeds."""
        assert self.live.monitor is not None, "the settings give it one"
        return self.live.monitor

    @property
    def model(self) -> str:
        """Version of the model that issues the next forecast: the number of labels learned."""
        return f"{self.figures.labels}"

    def advance(self, now: float) -> None:
        """Drop early outcomes that have waited too long."""
        while self.parked:
            id, accepted = next(iter(self.parked.items()))
            if now - accepted <= self.settings.parked_for:
                break
            del self.parked[id]
            self.lapsed += 1

    def park(self, id: str, now: float) -> None:
        """Wait for the forecast of an outcome that is in the log."""
        self.advance(now)
        self.parked[id] = now

    def forecast(self, rows: Sequence[ForecastIn], now: float) -> "list[ForecastBody | Exception]":
        """Issue forecasts for ids that have none; the result of an invalid row is an exception."""
        self.advance(now)
        answers: list[ForecastBody | Exception] = []
        for run in self._alike(rows, now):
            answers += self._issued(run, now)
        return answers

    def _alike(self, rows: Sequence[ForecastIn], now: float) -> Iterator[list[ForecastIn]]:
        """Split rows where forecasts with a time follow forecasts without: the learner takes either, not both.

        Where the clock waits at a window's end (`_present`) and open forecasts make room for others, each row stands
        alone: once the forecast of that window is gone the clock goes on, at the same row however rows are batched.
        Likewise a row begins a new part if its id is open, which it can be only if its events were pruned while its
        outcome was held: the rows before it may let that fall due, and then it is a new forecast.
        """
        for _, same in itertools.groupby(rows, lambda row: row.time is None and row.matures is None):
            run = [*same]
            waits = self.clock == SERVICE and self._present(now) < now
            full = len(self.accepted) + len(run) > self.settings.max_open
            alone = waits and full
            cuts = [k for k, row in enumerate(run) if k and (alone or row.id in self.accepted)]
            yield from (run[a:b] for a, b in itertools.pairwise([0, *cuts, len(run)]))

    def _issued(self, rows: list[ForecastIn], now: float) -> "list[ForecastBody | Exception]":
        if len(rows) > 1:
            try:
                return [*self._issue(rows, now)]
            except ERRORS:
                return [answer for row in rows for answer in self._issued([row], now)]
        try:
            return [*self._issue(rows, now)]
        except ERRORS as error:
            return [error]

    def _issue(self, rows: list[ForecastIn], now: float) -> list[ForecastBody]:
        self._refuse_missing_clusters(rows)
        clock, moments = self._moments(rows, now)
        self._date_monitor(now)
        issued = issue(self.live, rows, moments, self._window_end(clock, now), self.model)
        self.clock = clock
        for row, moment in zip(rows, moments, strict=True):
            self.parked.pop(row.id, None)
            self.accepted[row.id] = now
            if moment is not None:
                self.latest = moment
        self._settle(now)
        return issued

    def _date_monitor(self, now: float) -> None:
        """Set the monitor's time for the next learned outcomes to the time of acceptance."""
        self.live.date_monitor(np.datetime64(round(now * 1e6), "us"))

    def _refuse_missing_clusters(self, rows: list[ForecastIn]) -> None:
        clusters = self.settings.watch.clusters
        if clusters is not None and any(row.values.get(clusters) is None for row in rows):
            raise ValueError(f"record: given no {clusters!r}, expected the cluster, by the setting watch.clusters")

    def _moments(self, rows: list[ForecastIn], now: float) -> tuple[str | None, list[float | None]]:
        """Return whose clock counts from here on, and when each forecast is made by it; it never goes backwards."""
        clock, latest = self.clock, self.latest
        moments: list[float | None] = []
        for row in rows:
            if clock is None and row.time is not None:
                clock = GIVEN
            elif clock is None and (row.matures is not None or self._needs_clock):
                clock = SERVICE
            if row.time is None and clock != SERVICE:
                if row.matures is not None:
                    raise ValueError("matures: given without time, expected both, as earlier forecasts had a time")
                moments.append(None)
                continue
            latest = max(latest, self._present(now) if row.time is None else row.time)
            moments.append(latest)
        return clock, moments

    @property
    def _needs_clock(self) -> bool:
        return self.settings.lifetime is not None or self.settings.matures is not None

    def _present(self, now: float) -> float:
        """Return the learner's time by the service's clock.

        Where silence is an outcome, it stops at the next window's end until `settle` has learned what ended there: a
        million windows that end together must not keep one forecast waiting.
        """
        return now if self.settings.silence is None else min(now, self.live.next_due())

    def _window_end(self, clock: str | None, now: float) -> float | None:
        """Return when the window of a forecast made now ends by the service's clock; None where `Live` counts."""
        window = self.live.settings["matures"]
        return None if window is None or clock != SERVICE else now + window

    def overdue(self, now: float) -> bool:
        """Return whether windows have ended whose forecasts are to be learned by the service's clock."""
        return self.clock == SERVICE and self.settings.silence is not None and self.live.next_due() < now

    def settle(self, time: float, most: int, now: float) -> None:
        """Learn at most so many forecasts whose windows ended before a time."""
        self._date_monitor(now)
        self.live.settle(time, most)
        self._settle(now)

    def withdraw(self, ids: Sequence[str], now: float) -> None:
        """Withdraw open forecasts: they count as unlabelled for good."""
        self.live.give_up(ids)
        self._settle(now)

    def outcome(self, labels: Sequence[OutcomeRowIn], now: float) -> "list[str | Exception]":
        """Deliver outcomes of open forecasts; return for each "learned", "held" or an exception."""
        self.advance(now)
        try:
            return [*self._deliver(labels, now)]
        except ERRORS as error:
            if len(labels) > 1:
                return [state for label in labels for state in self.outcome([label], now)]
            return [error]

    def _deliver(self, labels: Sequence[OutcomeRowIn], now: float) -> list[str]:
        """Deliver all outcomes, or none."""
        accepted = []
        for label in labels:
            if label.id not in self.accepted:
                raise ValueError(f"id: given {label.id!r}, expected an open forecast")
            accepted.append(self.accepted[label.id])
        times = [self._arrival(label, now) for label in labels]
        timed = None if all(time is None for time in times) else [math.nan if t is None else t for t in times]
        ids, y, weight = zip(*((label.id, label.y, label.weight) for label in labels), strict=True)
        self._date_monitor(now)
        states = self.live.label_many(ids, y, time=timed, weight=None if {*weight} == {1.0} else weight)
        for moment in accepted:
            self.figures.wait(now - moment)
        self.corrections += states.count(CORRECTED)
        self._settle(now)
        return states

    def _arrival(self, label: OutcomeRowIn, now: float) -> float | None:
        """Return when an outcome came by the learner's clock, not before its forecast."""
        by_service = now if self.settings.silence is None else self.latest  # whatever came in the same batch
        when = by_service if label.time is None and self.clock == SERVICE else label.time
        made = None if when is None else self.live.issued_at(label.id)
        return when if when is None or made is None else max(when, made)

    def _settle(self, now: float) -> None:
        """Enter learned outcomes into the figures, in order, and drop settled forecasts."""
        for learned in self._news:
            self.figures.learn(learned, now)
            for id in learned.ids:
                del self.accepted[str(id)]
            if learned.silent is not None:
                self.silenced += [str(learned.ids[k]) for k in np.flatnonzero(learned.silent)]
        self._news.clear()
        for expired in self.live.release():
            del self.accepted[str(expired)]

    def apply(self, events: Sequence[Event]) -> list[ForecastBody]:
        """Apply events of the log; return the forecasts among them as computed now, to compare with the issued ones."""
        self.live.contexts.lenient = True  # logs of earlier versions hold records without their declared columns
        try:
            return self._applied(events)
        finally:
            self.live.contexts.lenient = False

    def _applied(self, events: Sequence[Event]) -> list[ForecastBody]:
        bodies_: list[ForecastBody] = []
        for (kind, now), same in itertools.groupby(events, lambda event: (event.kind, event.time)):
            run = [*same]
            if kind == FORECAST:
                bodies_ += self._again(self.forecast([_forecast_row(event) for event in run], now), run)
            elif kind == OUTCOME:
                self._again(self._outcomes_again(run, now), run)
            elif kind == SETTLED:
                for event in run:
                    settled = bodies.settled_body(event.body)
                    self.settle(settled.time, settled.most, now)
            elif kind == SILENCE:
                self._silences_again(run)
            elif kind == WITHDRAWN:
                for event in run:
                    self.withdraw(bodies.withdrawn_body(event.body).ids, now)
            elif kind == PARKED:
                for event in run:
                    self.park(event.id, now)
            elif kind == CORRECTION:
                self.corrections += len(run)
            elif kind != MADE:
                raise ValueError(f"log: given event {run[0].seq} of kind {kind!r}, expected one that is known")
            self.seq, self.now = run[-1].seq, now
        return bodies_

    def _outcomes_again(self, events: Sequence[Event], now: float) -> "list[str | Exception]":
        """Deliver outcomes of the log, but those that came after their forecast had been learned as silence."""
        states: list[str | Exception] = []
        for state, same in itertools.groupby(events, self._state_after_silence):
            run = [*same]
            self.corrections += len(run) if state == CORRECTED else 0
            states += [state] * len(run) if state else self.outcome([outcome_row(event) for event in run], now)
        return states

    def _state_after_silence(self, event: Event) -> str:
        """Return the answer to an outcome of a learned forecast; empty for an open one."""
        return "" if self.live.is_open(event.id) else bodies.outcome_body(event.body).state

    def _silences_again(self, events: Sequence[Event]) -> None:
        """Raise ValueError if the silences of the log differ from those learned."""
        for event in events:
            if self.silenced[:1] != [event.id]:
                expected = repr(self.silenced[0]) if self.silenced else "none"
                raise ValueError(f"log: given silence of {event.id!r} in event {event.seq}, expected {expected}")
            del self.silenced[0]

    def explain(self, id: str) -> Any:
        """Return the explanation of an open forecast: named contributions, and sentences."""
        explanation = self.live.explain(id)
        return {**explanation.to_dict(), "words": str(explanation)}

    def _again(self, answers: Sequence[Any], events: Sequence[Event]) -> list[Any]:
        for answer, event in zip(answers, events, strict=True):
            if isinstance(answer, Exception):
                raise ValueError(f"log: given event {event.seq}, which is refused now: {answer}") from answer
        return [*answers]


def issue(
    live: Live, rows: Sequence[ForecastIn], moments: Sequence[float | None], end: float | None, model: str
) -> list[ForecastBody]:
    """Forecast rows, of which all or none have a time; all or nothing. `end` is that of windows not given."""
    time = None if moments[0] is None else moments
    unknown = math.nan if end is None else end
    matures = [unknown if row.matures is None else row.matures for row in rows]
    made = live.forecast_many(
        [row.values for row in rows],
        [row.id for row in rows],
        time=time,
        matures=None if all(map(math.isnan, matures)) else matures,
    )
    levels = zip(*(getattr(made, name).tolist() for name in LEVELS), strict=True)
    return [
        ForecastBody(row.record, p, mean, low, high, weight, model, row.time, row.matures)
        for row, (p, mean, low, high, weight) in zip(rows, levels, strict=True)
    ]


def fresh_forecaster(made: Event) -> HostedForecaster:
    """Return the forecaster of a log's first event."""
    hosted = HostedForecaster(from_body(made.body))
    hosted.apply([made])
    return hosted


def _forecast_row(event: Event) -> ForecastIn:
    body = bodies.forecast_body(event.body)
    return ForecastIn(event.id, body.record, body.time, body.matures)


def outcome_row(event: Event) -> OutcomeRowIn:
    """Return an outcome of the log as it was reported."""
    body = bodies.outcome_body(event.body)
    return OutcomeRowIn(event.id, body.y, body.time, body.counts)
