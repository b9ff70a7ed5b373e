"""Metrics: what Prometheus collects."""

import math
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from swapcal.service.desk import Desk
from swapcal.service.gauge import BOUNDS, Durations
from swapcal.service.status import Status

GAUGES = {
    "open": "Forecasts that wait for their outcome",
    "held": "Outcomes that wait for their maturity or their turn",
    "parked": "Outcomes that wait for their forecast",
    "coverage": "Share of forecasts whose outcome was learned",
    "base_rate": "Mean outcome",
    "mean_forecast": "Mean forecast of those with an outcome",
    "alarms": "Groups for whom the forecasts are off",
}
COUNTERS = {
    "forecasts": "Forecasts issued",
    "labels": "Outcomes learned",
    "expired": "Forecasts given up unlabelled",
    "lapsed": "Parked outcomes given up",
    "corrections": "Corrections logged",
}


class _Collected:
    def __init__(self, desk: Desk, statuses: Mapping[str, Status]) -> None:
        self._desk, self._statuses = desk, statuses

    def collect(self) -> Iterator[Metric]:
        yield from _of_desk(self._desk)
        yield from _of_forecasters(self._statuses)


def exposition(desk: Desk, statuses: Mapping[str, Status]) -> bytes:
    """Return all metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Collected(desk, statuses))
    return generate_latest(registry)


def _of_desk(desk: Desk) -> Iterator[Metric]:
    gauge = desk.gauge
    yield GaugeMetricFamily("swapcal_queue_depth", "Rows that wait to be learned", desk.depth)
    yield GaugeMetricFamily("swapcal_queue_limit", "Rows that may wait", desk.limits.queue)
    yield GaugeMetricFamily("swapcal_standing_by", "Forecasters not learned here now", len(desk.standing_by))
    yield _histogram("swapcal_commit_seconds", "Time of a durable commit", gauge.commits)
    yield _histogram("swapcal_snapshot_seconds", "Time to write and verify a snapshot", gauge.snapshots)
    yield CounterMetricFamily("swapcal_commit_failures", "Commits that failed", gauge.failures)
    yield CounterMetricFamily("swapcal_rebuilds", "Forecasters rebuilt from snapshot and log", gauge.rebuilds)
    yield CounterMetricFamily("swapcal_snapshot_failures", "Snapshots that failed", gauge.snapshot_failures)
    yield CounterMetricFamily("swapcal_queue_refusals", "Requests refused because the queue was full", gauge.full)
    events = CounterMetricFamily("swapcal_events", "Events written", labels=["kind"])
    for kind, count in sorted(gauge.events.items()):
        events.add_metric([kind], count)
    yield events


def _of_forecasters(statuses: Mapping[str, Status]) -> Iterator[Metric]:
    for name, words in GAUGES.items():
        family = GaugeMetricFamily(f"swapcal_{name}", words, labels=["forecaster"])
        for own in statuses.values():
            family.add_metric([own.name], _number(getattr(own, name)))
        yield family
    for name, words in COUNTERS.items():
        counter = CounterMetricFamily(f"swapcal_{name}", words, labels=["forecaster"])
        for own in statuses.values():
            counter.add_metric([own.name], getattr(own, name))
        yield counter
    brier = GaugeMetricFamily("swapcal_brier", "Mean squared error so far", labels=["forecaster", "of"])
    delay = HistogramMetricFamily("swapcal_delay_seconds", "Forecast to outcome", labels=["forecaster"])
    for own in statuses.values():
        for of in ("forecast", "issued", "best_expert", "base_rate"):
            brier.add_metric([own.name, of], _number(getattr(own.brier, of)))
        total = (own.delay.mean or 0.0) * sum(own.delay.counts)
        delay.add_metric([own.name], _cumulated(own.delay.up_to, own.delay.counts), total)
    yield brier
    yield delay


def _number(figure: float | None) -> float:
    return math.nan if figure is None else figure


def _histogram(name: str, words: str, found: Durations) -> Metric:
    family = HistogramMetricFamily(name, words)
    family.add_metric([], _cumulated(BOUNDS, found.counts), found.total)
    return family


def _cumulated(bounds: "tuple[float, ...] | list[float]", counts: list[int]) -> list[tuple[str, float]]:
    total, found = 0, []
    for bound, count in zip([*map(str, bounds), "+Inf"], counts, strict=True):
        total += count
        found.append((bound, float(total)))
    return found
