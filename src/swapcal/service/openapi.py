"""OpenAPI 3.1 made of the types that requests are read with; health, readiness and metrics."""

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import Raw
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from starlette.concurrency import run_in_threadpool

import swapcal
from swapcal.service import messages as m
from swapcal.service.endpoint import Call
from swapcal.service.http import MEDIA, Reply
from swapcal.service.queue import BOUNDS, Durations
from swapcal.service.routes import ENDPOINTS, Endpoint, Parameter, json_response
from swapcal.service.settings import KINDS, ApiError, Settings, unavailable
from swapcal.service.sql import StoreError
from swapcal.service.status import CollectedFigures, ForecasterStatus, collect
from swapcal.service.worker import Worker

# OpenAPI 3.1: made of the types that requests are read with.

REFERENCE = "#/components/schemas/{name}"
JSON, NDJSON = "application/json", "application/x-ndjson"
RECORD = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
STATUSES = {kind.status: kind.title for kind in KINDS.values()}


def document() -> dict[str, Any]:
    """Return the OpenAPI document of the service."""
    schemas = components()
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.shown_path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "swapcal", "version": swapcal.__version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


ABOUT = "Probability forecasts that stay calibrated, with outcomes whenever they come. A 2xx means: it is on disk."


def components() -> dict[str, Any]:
    """Return the schemas of all messages by name."""
    types = [
        endpoint_type
        for endpoint in ENDPOINTS
        for endpoint_type in (*endpoint.takes, *endpoint.gives)
        if endpoint_type is not None
    ]
    types += [m.Problem, m.ForecastIn, m.OutcomeRowIn, m.ForecastOut, m.OutcomeOut, Settings]
    _, schemas = msgspec.json.schema_components([*dict.fromkeys(types)], schema_hook=_raw, ref_template=REFERENCE)
    _spell_out_rows(schemas)
    return schemas


def _raw(given: Any) -> dict[str, Any]:
    assert given is Raw
    return {}


def _spell_out_rows(schemas: dict[str, Any]) -> None:
    """Add the types of rows that are read one by one, so that an invalid row does not affect the others."""
    for name in ("ForecastIn", "ForecastBodyIn", "PreviewIn"):
        schemas[name]["properties"]["record"] = RECORD
    schemas["ForecastBodyIn"]["properties"]["forecasts"] = _list_of("ForecastIn")
    schemas["ForecastBodyIn"]["oneOf"] = [{"required": ["id", "record"]}, {"required": ["forecasts"]}]
    schemas["PreviewIn"]["properties"]["records"] = {"type": "array", "items": RECORD}
    schemas["PreviewIn"]["oneOf"] = [{"required": ["record"]}, {"required": ["records"]}]
    schemas["OutcomesIn"]["properties"]["outcomes"] = _list_of("OutcomeRowIn")
    schemas["ForecastsOut"]["properties"]["forecasts"] = _list_of("ForecastOut", "PreviewOut", "Problem")
    schemas["OutcomesOut"]["properties"]["outcomes"] = _list_of("OutcomeOut", "Problem")


def _list_of(*names: str) -> dict[str, Any]:
    each = [{"$ref": REFERENCE.format(name=name)} for name in names]
    return {"type": "array", "items": each[0] if len(each) == 1 else {"anyOf": each}}


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": (endpoint.handler.__doc__ or "").strip().splitlines()[0],
        "parameters": [_parameter(one) for one in endpoint.parameters],
        "responses": {str(status): _answer(endpoint, status) for status in endpoint.statuses},
    }
    refused = {**dict.fromkeys(endpoint.refusals), **({401: None, 403: None} if endpoint.needed else {}), 421: None}
    for status in sorted(refused):
        operation["responses"][str(status)] = _problem(STATUSES[status])
    if endpoint.takes:
        operation["requestBody"] = {"required": True, "content": _content(endpoint.takes, endpoint.lines)}
    if endpoint.needed is not None:
        operation["security"] = [{"token": []}, {}]
        operation["description"] = f"Needs the scope {endpoint.needed}, where tokens are needed."
    return operation


def _answer(endpoint: Endpoint, status: int) -> dict[str, Any]:
    if endpoint.media is not None:
        return {"description": "Done.", "content": {endpoint.media: {"schema": {"type": "string"}}}}
    content = _content(endpoint.gives, endpoint.lines) if endpoint.gives else {JSON: {"schema": {"type": "object"}}}
    return {"description": {201: "Made.", 200: "Done."}[status], "content": content}


def _content(types: tuple[Any, ...], lines: bool) -> dict[str, Any]:
    each = [{"$ref": REFERENCE.format(name=one.__name__)} for one in types]
    content: dict[str, Any] = {JSON: {"schema": each[0] if len(each) == 1 else {"anyOf": each}}}
    if lines:
        content[NDJSON] = {"schema": {"type": "string"}}
    return content


def _parameter(one: Parameter) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": one.where,
        "required": one.required,
        "description": one.words,
        "schema": one.schema,
    }


def _problem(title: str) -> dict[str, Any]:
    return {"description": title, "content": {MEDIA: {"schema": {"$ref": REFERENCE.format(name="Problem")}}}}


# Metrics for Prometheus.

GAUGES = {
    "open": "Forecasts that wait for their outcome",
    "held": "Outcomes that wait for their maturity or their turn",
    "parked": "Outcomes that wait for their forecast",
    "coverage": "Share of forecasts whose outcome was learned",
    "unseen_share": "Share of outcomes that take longer than any seen so far",
    "base_rate": "Mean outcome",
    "mean_forecast": "Mean forecast of those with an outcome",
    "alarms": "Groups for whom the forecasts are off",
}
COUNTERS = {
    "forecasts": "Forecasts issued",
    "labels": "Outcomes learned",
    "silent": "Outcomes learned as silence, without a report",
    "expired": "Forecasts given up unlabelled",
    "lapsed": "Parked outcomes given up",
    "corrections": "Corrections logged",
}
GAPS = {
    "gap": "Mean of outcome minus mean forecast since the first outcome of a group: above 0, forecasts were too low",
    "gap_low": "Lower end of an interval of the gap that is valid at every look",
    "gap_high": "Upper end of an interval of the gap that is valid at every look",
}


class _Collected:
    def __init__(self, worker: Worker, figures: Mapping[str, CollectedFigures]) -> None:
        self._worker, self._figures = worker, figures

    def collect(self) -> Iterator[Metric]:
        yield from _of_worker(self._worker)
        yield from _of_forecasters({name: own.status for name, own in self._figures.items()})
        yield from _of_groups(self._figures)


def exposition(worker: Worker, figures: Mapping[str, CollectedFigures]) -> bytes:
    """Return all metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Collected(worker, figures))
    return generate_latest(registry)


def _of_worker(worker: Worker) -> Iterator[Metric]:
    metrics = worker.metrics
    yield GaugeMetricFamily("swapcal_queue_depth", "Rows that wait to be learned", worker.depth)
    yield GaugeMetricFamily("swapcal_queue_limit", "Rows that may wait", worker.limits.queue)
    yield GaugeMetricFamily("swapcal_standing_by", "Forecasters not learned here now", len(worker.standing_by))
    yield _histogram("swapcal_commit_seconds", "Time of a durable commit", metrics.commits)
    yield _histogram("swapcal_snapshot_seconds", "Time to write and verify a snapshot", metrics.snapshots)
    yield CounterMetricFamily("swapcal_commit_failures", "Commits that failed", metrics.failures)
    yield CounterMetricFamily("swapcal_rebuilds", "Forecasters rebuilt from snapshot and log", metrics.rebuilds)
    yield CounterMetricFamily("swapcal_snapshot_failures", "Snapshots that failed", metrics.snapshot_failures)
    yield CounterMetricFamily("swapcal_queue_refusals", "Requests refused because the queue was full", metrics.full)
    events = CounterMetricFamily("swapcal_events", "Events written", labels=["kind"])
    for kind, count in sorted(metrics.events.items()):
        events.add_metric([kind], count)
    yield events


def _of_forecasters(statuses: Mapping[str, ForecasterStatus]) -> Iterator[Metric]:
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
    yield from _of_missing(statuses)
    yield from _of_scores(statuses)


def _of_scores(statuses: Mapping[str, ForecasterStatus]) -> Iterator[Metric]:
    """Yield the metrics that compare the given scores with the forecasts."""
    labels = ["forecaster", "score"]
    brier = GaugeMetricFamily("swapcal_score_brier", "Mean squared error of a given score", labels=labels)
    change = GaugeMetricFamily(
        "swapcal_score_difference", "Brier of the forecasts less that of a given score", labels=[*labels, "end"]
    )
    for own in statuses.values():
        for each in own.scores:
            brier.add_metric([own.name, each.name], _number(each.brier))
            for end, value in (("", each.difference), ("low", each.low), ("high", each.high)):
                change.add_metric([own.name, each.name, end], _number(value))
    yield brier
    yield change


def _of_groups(figures: Mapping[str, CollectedFigures]) -> Iterator[Metric]:
    """Yield alarms, and the gaps of at most `Limits.gauges` groups of a forecaster."""
    words = "1 if a group has an alarm, or the test over all groups since the first row rejects"
    alarm = GaugeMetricFamily("swapcal_alarm", words, labels=["forecaster"])
    groups = GaugeMetricFamily("swapcal_groups", "Groups that are tested", labels=["forecaster"])
    for name, own in figures.items():
        alarm.add_metric([name], float(own.status.alarmed))
        groups.add_metric([name], own.groups)
    yield alarm
    yield groups
    for part, words in GAPS.items():
        family = GaugeMetricFamily(f"swapcal_{part}", words, labels=["forecaster", "group"])
        for name, own in figures.items():
            for size in own.sizes:
                family.add_metric([name, size["group"]], size[part.removeprefix("gap_")])
        yield family


def _of_missing(statuses: Mapping[str, ForecasterStatus]) -> Iterator[Metric]:
    """Yield how often declared scores and groups were missing."""
    labels = ["forecaster", "column"]
    missing = CounterMetricFamily("swapcal_missing_values", "Forecasts without a score or group", labels=labels)
    jumped = GaugeMetricFamily("swapcal_missing_jumped", "1 if the share missing rose by 20 points", labels=labels)
    for own in statuses.values():
        for each in own.missing:
            missing.add_metric([own.name, each.column], each.forecasts)
            jumped.add_metric([own.name, each.column], float(each.jumped))
    yield missing
    yield jumped


def _number(figure: float | None) -> float:
    return math.nan if figure is None else figure


def _histogram(name: str, words: str, durations: Durations) -> Metric:
    family = HistogramMetricFamily(name, words)
    family.add_metric([], _cumulated(BOUNDS, durations.counts), durations.total)
    return family


def _cumulated(bounds: "tuple[float, ...] | list[float]", counts: list[int]) -> list[tuple[str, float]]:
    total, sums = 0, []
    for bound, count in zip([*map(str, bounds), "+Inf"], counts, strict=True):
        total += count
        sums.append((bound, float(total)))
    return sums


# Operating: is it alive, is it ready, what does it count, what does it offer.

TEXT = "text/plain; version=0.0.4; charset=utf-8"
LONGEST = 2.0
"""Seconds the metrics wait for the learner before they return the last known figures."""


async def healthz(call: Call) -> Reply:
    """Answer if the process does."""
    return json_response({"status": "ok"})


async def readyz(call: Call) -> Reply:
    """Answer 200 if forecasts and outcomes would be taken now."""
    worker = call.context.worker
    if worker.standing_by:
        raise unavailable(f"Standing by: forecasters {', '.join(worker.standing_by)} are not this process's now.")
    if not worker.ready:
        raise unavailable("The service is starting or stopping.")
    try:
        await run_in_threadpool(worker.store.ping)
    except StoreError:
        raise unavailable("The store cannot be reached.") from None
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Reply:
    """Return all counts as Prometheus reads them."""
    context = call.context

    async def look(name: str) -> None:
        question = partial(collect, most=context.limits.gauges, known=context.last.get(name))
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(LONGEST):
                context.last[name] = await context.ask_beside(name, question)

    await asyncio.gather(*map(look, [*context.worker.forecasters]))
    return Reply(await run_in_threadpool(exposition, context.worker, context.last.copy()), media=TEXT)


async def openapi(call: Call) -> Reply:
    """Return the OpenAPI document."""
    return Reply(_document())


@cache
def _document() -> bytes:
    return msgspec.json.encode(document())
