"""Every endpoint: its address, who may call it, what it takes and returns, and the function behind it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Raw
from starlette.concurrency import run_in_threadpool

from swapcal.losses import LossError, decide
from swapcal.losses.loss import specify
from swapcal.report import render
from swapcal.service import events, history, status
from swapcal.service import messages as m
from swapcal.service.endpoint import Call, Handler
from swapcal.service.events import Event, IdHistory, id_histories
from swapcal.service.hosted import HostedForecaster
from swapcal.service.http import NDJSON, Reply
from swapcal.service.messages import (
    CorrectionIn,
    CorrectionRow,
    CorrectionShown,
    DecisionOut,
    ForecastBodyIn,
    ForecasterOut,
    ForecastersOut,
    ForecastIn,
    ForecastShown,
    ForecastsOut,
    OutcomeIn,
    OutcomeRowIn,
    OutcomeShown,
    OutcomesIn,
    OutcomesOut,
    PreviewIn,
    PreviewOut,
    decoded,
    id_of,
    in_words,
    moment_of,
)
from swapcal.service.queue import CORRECTIONS, FORECASTS, OUTCOMES
from swapcal.service.settings import ApiError, Limits, Settings, unavailable
from swapcal.service.status import ForecasterStatus
from swapcal.tables.values import created_at

# Writing: forecasts, outcomes, corrections.

_FORECAST = msgspec.json.Decoder(ForecastIn)
_FORECASTS = msgspec.json.Decoder(ForecastBodyIn)
_OUTCOME = msgspec.json.Decoder(OutcomeIn)
_OUTCOME_ROW = msgspec.json.Decoder(OutcomeRowIn)
_OUTCOMES = msgspec.json.Decoder(OutcomesIn)
_EVERY_FORECAST = msgspec.json.Decoder(dict[Literal["forecasts"], list[ForecastIn]])
_EVERY_OUTCOME = msgspec.json.Decoder(dict[Literal["outcomes"], list[OutcomeRowIn]])
_CORRECTION = msgspec.json.Decoder(CorrectionIn)
_ENCODER = msgspec.json.Encoder()

T = TypeVar("T")
Read = Callable[[Any, Limits], Any]


async def forecasts(call: Call) -> Reply:
    """Forecast one record, or many."""
    if call.in_lines():
        rows = _lines(await call.body(), call.context.limits)
        return _in_lines(await _many(call, FORECASTS, rows, _forecast_row))
    content = await call.body()
    alone = _valid(_FORECAST, content)
    if alone is not None:
        return _json(await _single(call, FORECASTS, _checked_forecast(alone, call.context.limits)))
    every = _valid(_EVERY_FORECAST, content)
    if every:
        return _json(ForecastsOut(await _many(call, FORECASTS, every["forecasts"], _checked_forecast)))
    given = decoded(_FORECASTS, content)
    if given.forecasts is not UNSET:
        if given.id is not UNSET or given.record is not UNSET:
            raise ApiError("invalid", "forecasts: given together with id or record, expected one or the other")
        return _json(ForecastsOut(await _many(call, FORECASTS, given.forecasts, _forecast_row)))
    raise ApiError("invalid", f"{'id' if given.id is UNSET else 'record'}: given none, expected one")


def _valid(decoder: "msgspec.json.Decoder[T]", content: bytes) -> T | None:
    """Return decoded JSON; None for what is something else or has a fault anywhere: that is then read again."""
    try:
        return decoder.decode(content)
    except (ApiError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


async def outcomes(call: Call) -> Reply:
    """Report many outcomes."""
    if call.in_lines():
        rows = _lines(await call.body(), call.context.limits)
        return _in_lines(await _many(call, OUTCOMES, rows, _outcome_row))
    content = await call.body()
    every = _valid(_EVERY_OUTCOME, content)
    if every:
        return _json(OutcomesOut(await _many(call, OUTCOMES, every["outcomes"], _checked_outcome)))
    given = decoded(_OUTCOMES, content)
    return _json(OutcomesOut(await _many(call, OUTCOMES, given.outcomes, _outcome_row)))


async def outcome(call: Call) -> Reply:
    """Report the outcome of one forecast."""
    given = decoded(_OUTCOME, await call.json())
    id = id_of(call.id, call.context.limits.id)
    row = OutcomeRowIn(id, given.y, given.time, given.weight)
    return _json(await _single(call, OUTCOMES, row))


async def correction(call: Call) -> Reply:
    """Say that an outcome was another, and why."""
    given = decoded(_CORRECTION, await call.json())
    row = CorrectionRow(id_of(call.id, call.context.limits.id), float(given.y), given.reason, given.weight)
    return _json(await _single(call, CORRECTIONS, row))


async def _single(call: Call, kind: str, row: Any) -> Any:
    answer = (await call.context.write(call.forecaster, kind, [row], call.trace))[0]
    if isinstance(answer, ApiError):
        raise answer
    return answer


async def _many(call: Call, kind: str, given: Sequence[Any], read: Read) -> list[Any]:
    """Return an answer per row; an invalid row does not affect the others."""
    limits = call.context.limits
    if len(given) > limits.rows:
        raise ApiError("large", f"{kind}: given {len(given):,} rows, expected at most {limits.rows:,}")
    answers: list[Any] = []
    for number, raw in enumerate(given, 1):
        try:
            answers.append(read(raw, limits))
        except ApiError as refusal:
            answers.append(ApiError(refusal.kind, f"row {number}: {refusal.detail}", **refusal.more))
    good = [k for k, answer in enumerate(answers) if not isinstance(answer, ApiError)]
    written = await call.context.write(call.forecaster, kind, [answers[k] for k in good], call.trace)
    for k, answer in zip(good, written, strict=True):
        answers[k] = answer
    return [answer.problem() if isinstance(answer, ApiError) else answer for answer in answers]


def _forecast_row(raw: Raw, limits: Limits) -> ForecastIn:
    return _checked_forecast(decoded(_FORECAST, raw), limits)


def _checked_forecast(row: ForecastIn, limits: Limits) -> ForecastIn:
    id_of(row.id, limits.id)
    checked_record(lambda: row.values, limits)
    return row


def checked_record(read: Callable[[], dict[str, Any]], limits: Limits) -> dict[str, Any]:
    """Return the record that is read; raises `ApiError` for what is no flat object, or has too many columns."""
    try:
        record = read()
    except msgspec.ValidationError as error:
        raise ApiError("invalid", f"record: {in_words(str(error)).removeprefix('body: ')}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError("malformed", f"record: given invalid JSON ({error}), expected JSON") from None
    if len(record) > limits.columns:
        raise ApiError("invalid", f"record: given {len(record):,} columns, expected at most {limits.columns:,}")
    return record


def _outcome_row(raw: Raw, limits: Limits) -> OutcomeRowIn:
    return _checked_outcome(decoded(_OUTCOME_ROW, raw), limits)


def _checked_outcome(row: OutcomeRowIn, limits: Limits) -> OutcomeRowIn:
    id_of(row.id, limits.id)
    return row


def _lines(content: bytes, limits: Limits) -> list[Raw]:
    return [Raw(line) for line in content.split(b"\n") if line.strip()]


def _in_lines(answers: Sequence[Any]) -> Reply:
    return Reply(_ENCODER.encode_lines(answers), media=NDJSON)


def _json(answer: Any) -> Reply:
    return Reply(_ENCODER.encode(answer))


# Reading: forecasters, forecasts, status, certificates, audits, decisions; and previews, which store nothing.

_PREVIEW = msgspec.json.Decoder(PreviewIn)
_SETTINGS = msgspec.json.Decoder(Settings)
CONTENT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; base-uri 'none'"


def json_response(answer: Any, status_code: int = 200) -> Reply:
    """Return an answer as JSON; numbers that are not finite are null."""
    return Reply(msgspec.json.encode(answer), status_code)


async def make(call: Call) -> Reply:
    """Make a forecaster."""
    settings = decoded(_SETTINGS, await call.json())
    await run_in_threadpool(settings.checked)
    fresh = await call.context.make(settings)
    return json_response(ForecasterOut(settings.name, settings), 201 if fresh else 200)


async def forecasters(call: Call) -> Reply:
    """List the forecasters."""
    settings = await run_in_threadpool(call.context.settings)
    return json_response(ForecastersOut([ForecasterOut(name, own) for name, own in settings.items()]))


async def forecaster(call: Call) -> Reply:
    """Show one forecaster's settings."""
    return json_response(ForecasterOut(call.forecaster, await _settings(call)))


async def preview(call: Call) -> Reply:
    """Forecast records as they would be forecast now; nothing is stored."""
    given, limits = decoded(_PREVIEW, await call.json()), call.context.limits
    if (given.record is UNSET) == (given.records is UNSET):
        raise ApiError("invalid", "record: given together with records, or neither, expected one or the other")
    single = given.records is UNSET
    rows: list[Raw] = [given.record] if single else given.records
    if len(rows) > limits.rows:
        raise ApiError("large", f"records: given {len(rows):,}, expected at most {limits.rows:,}")
    records = [checked_record(partial(events.record_of, raw), limits) for raw in rows]
    answers = await call.context.ask(call.forecaster, lambda hosted: _previewed(hosted, records) if records else [])
    return json_response(answers[0] if single else ForecastsOut(answers))


def _previewed(hosted: HostedForecaster, records: list[dict[str, Any]]) -> list[PreviewOut]:
    try:
        forecasts = hosted.live.preview(records)
    except (ValueError, TypeError, OverflowError) as error:
        raise ApiError("invalid", str(error)) from None
    columns = (getattr(forecasts, name).tolist() for name in PreviewOut.__struct_fields__)
    return [PreviewOut(*row) for row in zip(*columns, strict=True)]


async def forecast(call: Call) -> Reply:
    """Show everything stored about a forecast."""
    return json_response(await shown(call, call.id))


async def shown(call: Call, given: str) -> ForecastShown:
    """Return everything stored about a forecast."""
    id = id_of(given, call.context.limits.id)
    id_history = await _id_history(call, id)
    waits, parked, explanation = await call.context.ask(call.forecaster, lambda hosted: _known_now(hosted, id))
    return _shown(id, id_history, waits, parked, explanation)


def _known_now(hosted: HostedForecaster, id: str) -> tuple[bool, bool, Any]:
    """Return whether a forecast waits, whether its outcome is parked, and its explanation."""
    waits = hosted.live.is_open(id)
    return waits, id in hosted.parked, hosted.explain(id) if waits else None


def _shown(id: str, id_history: IdHistory, waits: bool, parked: bool, explanation: Any) -> ForecastShown:
    if id_history.forecast is None:
        return ForecastShown(id, "parked" if parked else "lapsed", outcome=_outcome_shown(id_history))
    body = events.forecast_body(id_history.forecast.body)
    outcome = _outcome_shown(id_history)
    silence = None if id_history.silence is None else events.outcome_body(id_history.silence.body).y
    ended = "unlabelled" if silence is None else "silent"
    states = {(True, False): "open", (True, True): "held", (False, False): ended, (False, True): "learned"}
    return ForecastShown(
        id,
        states[waits, outcome is not None],
        seq=id_history.forecast.seq,
        accepted=id_history.forecast.time,
        record=events.record_of(body.record),
        time=body.time,
        matures=body.matures,
        p=body.p,
        mean=body.mean,
        low=body.low,
        high=body.high,
        weight=body.weight,
        model=body.model,
        outcome=outcome,
        silence=silence,
        corrections=[_correction_shown(event) for event in id_history.corrections],
        explanation=explanation,
    )


def _outcome_shown(id_history: IdHistory) -> OutcomeShown | None:
    if id_history.outcome is not None:
        body = events.outcome_body(id_history.outcome.body)
        event = id_history.outcome
        return OutcomeShown(body.y, event.seq, event.time, body.time, body.parked, body.counts)
    if id_history.parked is not None and id_history.forecast is None:
        early, event = events.outcome_body(id_history.parked.body), id_history.parked
        return OutcomeShown(early.y, event.seq, event.time, early.time, True, early.counts)
    return None


def _correction_shown(event: Event) -> CorrectionShown:
    body = events.correction_body(event.body)
    return CorrectionShown(body.y, body.before, body.reason, event.seq, event.time, body.weight)


async def decision(call: Call) -> Reply:
    """Say which action a forecast calls for."""
    text = call.request.query_params.get("loss", "")
    if not text:
        raise ApiError("invalid", "loss: given none, expected one such as pinball:0.9")
    id = id_of(call.id, call.context.limits.id)
    event = (await _id_history(call, id)).forecast
    if event is None:
        raise ApiError("unknown", f"id: given {id!r}, expected one that was forecast", id=id)
    body, at = events.forecast_body(event.body), call.request.query_params.get("at", "mean")
    return json_response(decided(id, text, events.record_of(body.record), body, at))


def decided(id: str, text: str, record: Mapping[str, Any], body: Any, at: str = "mean") -> DecisionOut:
    """Return the action that a forecast (anything with its levels) calls for under a loss, at its mean or level p."""
    columns = {
        name: np.float64(value)
        for name, value in record.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if at not in ("mean", "p"):
        raise ApiError("invalid", f"at: given {at[:20]!r}, expected mean or p")
    try:
        decision = decide(body, specify(text).build(columns), at=at)
    except (LossError, ValueError, TypeError, OverflowError) as error:
        raise ApiError("invalid", f"loss: {error}") from None
    cost, before = float(decision.expected_cost), float(decision.before_draw)
    return DecisionOut(
        id, text, float(decision.action), decision.label, cost, before, float(body.p), float(body.mean), at
    )


async def show_status(call: Call) -> Reply:
    """Show how a forecaster is doing."""
    return await _read_by(call, status.describe)


async def certificate(call: Call) -> Reply:
    """Show the forecaster's exact errors and what bounds them."""
    engine = await call.context.ask(call.forecaster, status.engine)
    return json_response(await run_in_threadpool(status.certificate, engine))


async def alarms(call: Call) -> Reply:
    """Show for whom the forecasts are off."""
    return await _read_by(call, status.alarms)


async def fleet(call: Call) -> Reply:
    """Show which of all forecasters are off."""
    q = _share(call.request.query_params.get("q", "0.1"))
    names = await run_in_threadpool(call.context.store.forecasters)
    return json_response(status.fleet(await asyncio.gather(*(_standing_of(call, name) for name in names)), q))


async def _standing_of(call: Call, name: str) -> status.Standing:
    try:
        standing: status.Standing = await call.context.ask_beside(name, status.standing)
    except ApiError as error:
        return status.unknown_standing(name, error.detail)
    return standing


def _share(given: str) -> float:
    try:
        q = float(given)
    except ValueError:
        q = -1.0
    if not 0.0 < q < 1.0:
        raise ApiError("invalid", f"q: given {given[:20]!r}, expected a number between 0 and 1")
    return q


async def audit(call: Call) -> Reply:
    """Audit the issued forecasts against the outcomes as they are known now."""
    return json_response(await _audited(call, lambda result: result.to_dict(created_at=created_at())))


async def report(call: Call) -> Reply:
    """Show the same as a page."""
    findings = await _audited(call, lambda result: result.to_findings(created_at=created_at()))
    warnings, scores = await _about_outcomes(call)
    page = await run_in_threadpool(render, findings.warned(warnings).detailed(scores))
    return Reply(page.encode(), media="text/html; charset=utf-8", more={"content-security-policy": CONTENT})


async def _about_outcomes(call: Call) -> tuple[list[str], list[str]]:
    """Return warnings about all outcomes of a forecaster, and the comparison of its scores with the forecasts.

    Both are empty if the forecaster is not learned here: its log is enough for an audit.
    """

    def answer(hosted: HostedForecaster) -> tuple[list[str], list[str]]:
        scores = [score.sentence for score in hosted.live.status().scores]
        return hosted.live.status().sentences(), ["All outcomes so far:", *scores] if scores else []

    try:
        notes: tuple[list[str], list[str]] = await call.context.ask(call.forecaster, answer)
    except ApiError:
        return [], []
    return notes


async def _audited(call: Call, present: Callable[[Any], Any]) -> Any:
    """Read the log and audit it in a thread of its own, one at a time."""
    query = call.request.query_params
    span = history.AuditedPeriod(_moment(query, "since"), _moment(query, "until"))
    settings, context = await _settings(call), call.context
    try:
        async with asyncio.timeout(context.limits.answer):
            await context.auditing.acquire()
    except TimeoutError:
        raise unavailable("Another audit is being made.", retry=10.0) from None
    try:
        return await run_in_threadpool(lambda: present(history.audit(context.store, settings, span)))
    finally:
        context.auditing.release()


def _moment(query: Mapping[str, str], name: str) -> float | None:
    given = query.get(name)
    if not given:
        return None
    try:
        return float(given)
    except ValueError:
        return moment_of(name, given)


async def _read_by(call: Call, question: Callable[[HostedForecaster], Any]) -> Reply:
    return json_response(await call.context.ask(call.forecaster, question))


async def _settings(call: Call) -> Settings:
    settings = (await run_in_threadpool(call.context.settings)).get(call.forecaster)
    if settings is None:
        raise ApiError("unknown", f"forecaster: given {call.forecaster!r}, expected one that was made")
    return settings


async def _id_history(call: Call, id: str) -> IdHistory:
    store = call.context.store
    history = id_histories(await run_in_threadpool(store.about, call.forecaster, [id])).get(id)
    if history is None:
        await _settings(call)
        raise ApiError("unknown", f"id: given {id!r}, expected one that was forecast", id=id)
    return history


# Endpoints: every address with its scope, input, output and handler.

FORECAST, OUTCOME, READ, ADMIN = "forecast", "outcome", "read", "admin"
ALL = "/v1/forecasters"
OWN = f"{ALL}/{{name}}"
WRITE_ERRORS = (400, 404, 408, 413, 415, 422, 503)
READ_ERRORS = (404, 422, 503)


class Parameter(NamedTuple):
    """A part of an address."""

    name: str
    where: str
    words: str
    required: bool
    schema: dict[str, Any]


NAME = Parameter("name", "path", "The forecaster", True, {"type": "string", "minLength": 1, "maxLength": 64})
ID = Parameter("id", "path", "The forecast", True, {"type": "string", "minLength": 1, "maxLength": 256})
LOSS = Parameter("loss", "query", "Such as pinball:0.9", True, {"type": "string"})
AT = Parameter("at", "query", "mean, or p for the issued level", False, {"type": "string", "enum": ["mean", "p"]})
SINCE = Parameter("since", "query", "Forecasts made from then on: a number, or an ISO date", False, {"type": "string"})
Q = Parameter(
    "q",
    "query",
    "Largest expected share of sound forecasters among those listed; 0.1 by default",
    False,
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
)
UNTIL = Parameter("until", "query", "Forecasts made before then", False, {"type": "string"})


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One address and method."""

    method: str
    path: str
    handler: Handler
    needed: str | None
    takes: tuple[Any, ...] = ()
    gives: tuple[Any, ...] = ()
    refusals: tuple[int, ...] = READ_ERRORS
    query: tuple[Parameter, ...] = ()
    statuses: tuple[int, ...] = (200,)
    lines: bool = False
    media: str | None = None

    @property
    def name(self) -> str:
        """Its name in the document."""
        return self.handler.__name__

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the address and the query."""
        return (*(each for each in (NAME, ID) if f"{{{each.name}" in self.path), *self.query)

    @property
    def shown_path(self) -> str:
        """The path as OpenAPI writes it."""
        return self.path.replace(":path", "")


def _write(
    method: str, path: str, handler: Handler, needed: str, takes: Any, gives: tuple[Any, ...], *more: int, **how: Any
) -> Endpoint:
    """Return an endpoint that changes a forecaster, and has more possible errors than most."""
    return Endpoint(method, OWN + path, handler, needed, (takes,), gives, (*WRITE_ERRORS, *more), **how)


def _read(path: str, handler: Handler, *gives: Any, **how: Any) -> Endpoint:
    """Return an endpoint that shows something of one forecaster."""
    return Endpoint("GET", OWN + path, handler, READ, (), gives, **how)


AUDITED: dict[str, Any] = {"refusals": (*READ_ERRORS, 413), "query": (SINCE, UNTIL)}
MADE = (*(status for status in WRITE_ERRORS if status != 404), 409, 429)
MANY = (m.ForecastOut, m.ForecastsOut)
ENDPOINTS = (
    _write("POST", "/forecasts", forecasts, FORECAST, m.ForecastBodyIn, MANY, 409, 429, lines=True),
    _write("PUT", "/outcomes/{id:path}", outcome, OUTCOME, m.OutcomeIn, (m.OutcomeOut,), 409, 410, 429),
    _write("POST", "/outcomes", outcomes, OUTCOME, m.OutcomesIn, (m.OutcomesOut,), lines=True),
    _write("POST", "/preview", preview, FORECAST, m.PreviewIn, (m.PreviewOut, m.ForecastsOut)),
    _write("POST", "/corrections/{id:path}", correction, ADMIN, m.CorrectionIn, (m.CorrectionOut,), 409),
    _read("/forecasts/{id:path}", forecast, m.ForecastShown),
    _read("/decide/{id:path}", decision, m.DecisionOut, query=(LOSS, AT)),
    _read("/status", show_status, ForecasterStatus),
    _read("/certificate", certificate),
    _read("/alarms", alarms),
    _read("/audit", audit, **AUDITED),
    _read("/report", report, **AUDITED, media="text/html"),
    _read("", forecaster, m.ForecasterOut),
    Endpoint("POST", ALL, make, ADMIN, (Settings,), (m.ForecasterOut,), MADE, statuses=(200, 201)),
    Endpoint("GET", ALL, forecasters, READ, (), (m.ForecastersOut,), (503,)),
    Endpoint("GET", "/v1/alarms", fleet, READ, (), (status.Fleet,), (422, 503), (Q,)),
)
