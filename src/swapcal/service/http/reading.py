"""Reading: forecasters, forecasts, status, certificates, audits, decisions; and previews, which store nothing."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw
from starlette.concurrency import run_in_threadpool

from swapcal.losses import LossError, decide
from swapcal.losses.parse import specify
from swapcal.service import bodies, history, status
from swapcal.service.docket import Docket, dockets
from swapcal.service.event import Event
from swapcal.service.http.endpoint import Call
from swapcal.service.http.messages import (
    CorrectionShown,
    DecisionOut,
    ForecasterOut,
    ForecastersOut,
    ForecastShown,
    ForecastsOut,
    OutcomeShown,
    PreviewIn,
    PreviewOut,
    decoded,
    id_of,
    moment_of,
)
from swapcal.service.http.reply import Reply
from swapcal.service.http.writing import record_of
from swapcal.service.refusal import Refusal, unavailable
from swapcal.service.settings import Settings
from swapcal.service.ward import Ward
from swapcal.tables.clock import created_at

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
    fresh = await call.office.make(settings)
    return json_response(ForecasterOut(settings.name, settings), 201 if fresh else 200)


async def forecasters(call: Call) -> Reply:
    """List the forecasters."""
    found = await run_in_threadpool(call.office.settings)
    return json_response(ForecastersOut([ForecasterOut(name, own) for name, own in found.items()]))


async def forecaster(call: Call) -> Reply:
    """Show one forecaster's settings."""
    return json_response(ForecasterOut(call.forecaster, await _settings(call)))


async def preview(call: Call) -> Reply:
    """Forecast records as they would be forecast now; nothing is stored."""
    given, limits = decoded(_PREVIEW, await call.json()), call.office.limits
    if (given.record is UNSET) == (given.records is UNSET):
        raise Refusal("invalid", "record: given together with records, or neither, expected one or the other")
    single = given.records is UNSET
    rows: list[Raw] = [given.record] if single else given.records
    if len(rows) > limits.rows:
        raise Refusal("large", f"records: given {len(rows):,}, expected at most {limits.rows:,}")
    records = [record_of(raw, limits) for raw in rows]
    answers = await call.office.ask(call.forecaster, lambda ward: _previewed(ward, records) if records else [])
    return json_response(answers[0] if single else ForecastsOut(answers))


def _previewed(ward: Ward, records: list[dict[str, Any]]) -> list[PreviewOut]:
    try:
        found = ward.live.preview(records)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refusal("invalid", str(error)) from None
    columns = (getattr(found, name).tolist() for name in PreviewOut.__struct_fields__)
    return [PreviewOut(*row) for row in zip(*columns, strict=True)]


async def forecast(call: Call) -> Reply:
    """Show everything stored about a forecast."""
    return json_response(await shown(call, call.id))


async def shown(call: Call, given: str) -> ForecastShown:
    """Return everything stored about a forecast."""
    id = id_of(given, call.office.limits.id)
    docket = await _docket(call, id)
    waits, held, explanation = await call.office.ask(call.forecaster, lambda ward: _standing(ward, id))
    return _shown(id, docket, waits, held, explanation)


def _standing(ward: Ward, id: str) -> tuple[bool, bool, Any]:
    """Return whether a forecast waits, whether its outcome is parked, and why it is what it is."""
    waits = id in ward.opened
    return waits, id in ward.parked, ward.explain(id) if waits else None


def _shown(id: str, docket: Docket, waits: bool, parked: bool, explanation: Any) -> ForecastShown:
    if docket.forecast is None:
        return ForecastShown(id, "parked" if parked else "lapsed", outcome=_outcome_shown(docket))
    body = bodies.forecast_body(docket.forecast.body)
    outcome = _outcome_shown(docket)
    states = {(True, False): "open", (True, True): "held", (False, False): "unlabelled", (False, True): "learned"}
    return ForecastShown(
        id,
        states[waits, outcome is not None],
        seq=docket.forecast.seq,
        accepted=docket.forecast.time,
        record=bodies.record_of(body.record),
        time=body.time,
        matures=body.matures,
        p=body.p,
        mean=body.mean,
        low=body.low,
        high=body.high,
        weight=body.weight,
        model=body.model,
        outcome=outcome,
        corrections=[_correction_shown(event) for event in docket.corrections],
        explanation=explanation,
    )


def _outcome_shown(docket: Docket) -> OutcomeShown | None:
    if docket.outcome is not None:
        body = bodies.outcome_body(docket.outcome.body)
        return OutcomeShown(body.y, docket.outcome.seq, docket.outcome.time, body.time, body.parked)
    if docket.parked is not None and docket.forecast is None:
        early = bodies.parked_body(docket.parked.body)
        return OutcomeShown(early.y, docket.parked.seq, docket.parked.time, early.time, True)
    return None


def _correction_shown(event: Event) -> CorrectionShown:
    body = bodies.correction_body(event.body)
    return CorrectionShown(body.y, body.before, body.reason, event.seq, event.time)


async def decision(call: Call) -> Reply:
    """Say which action a forecast calls for."""
    text = call.request.query_params.get("loss", "")
    if not text:
        raise Refusal("invalid", "loss: given none, expected one such as pinball:0.9")
    id = id_of(call.id, call.office.limits.id)
    event = (await _docket(call, id)).forecast
    if event is None:
        raise Refusal("unknown", f"id: given {id!r}, expected one that was forecast", id=id)
    body = bodies.forecast_body(event.body)
    return json_response(decided(id, text, bodies.record_of(body.record), body))


def decided(id: str, text: str, record: Mapping[str, Any], body: "bodies.ForecastBody | ForecastShown") -> DecisionOut:
    """Return the action that a forecast calls for under a loss."""
    columns = {
        name: np.float64(value)
        for name, value in record.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    issued = SimpleNamespace(p=body.p, low=body.low, high=body.high, weight=body.weight)
    try:
        found = decide(issued, specify(text).build(columns))
    except (LossError, ValueError, TypeError, OverflowError) as error:
        raise Refusal("invalid", f"loss: {error}") from None
    cost, before = float(found.expected_cost), float(found.before_draw)
    return DecisionOut(id, text, float(found.action), found.label, cost, before, float(issued.p))


async def show_status(call: Call) -> Reply:
    """Show how a forecaster is doing."""
    return await _asked(call, status.describe)


async def certificate(call: Call) -> Reply:
    """Show the forecaster's exact errors and what bounds them."""
    engine = await call.office.ask(call.forecaster, status.engine)
    return json_response(await run_in_threadpool(status.certificate, engine))


async def alarms(call: Call) -> Reply:
    """Show for whom the forecasts are off."""
    return await _asked(call, status.alarms)


async def audit(call: Call) -> Reply:
    """Audit the issued forecasts against the outcomes as they are known now."""
    return json_response(await _audited(call, lambda found: found.to_dict(created_at=created_at())))


async def report(call: Call) -> Reply:
    """Show the same as a page."""
    page = await _audited(call, lambda found: found.to_html(created_at=created_at()))
    return Reply(page.encode(), media="text/html; charset=utf-8", more={"content-security-policy": CONTENT})


async def _audited(call: Call, present: Callable[[Any], Any]) -> Any:
    """Read the log and audit it in a thread of its own, one at a time."""
    query = call.request.query_params
    span = history.AuditedPeriod(_moment(query, "since"), _moment(query, "until"))
    settings, office = await _settings(call), call.office
    try:
        async with asyncio.timeout(office.limits.answer):
            await office.auditing.acquire()
    except TimeoutError:
        raise unavailable("Another audit is being made.", retry=10.0) from None
    try:
        return await run_in_threadpool(lambda: present(history.audit(office.store, settings, span)))
    finally:
        office.auditing.release()


def _moment(query: Mapping[str, str], name: str) -> float | None:
    given = query.get(name)
    if not given:
        return None
    try:
        return float(given)
    except ValueError:
        return moment_of(name, given)


async def _asked(call: Call, question: Callable[[Ward], Any]) -> Reply:
    return json_response(await call.office.ask(call.forecaster, question))


async def _settings(call: Call) -> Settings:
    found = (await run_in_threadpool(call.office.settings)).get(call.forecaster)
    if found is None:
        raise Refusal("unknown", f"forecaster: given {call.forecaster!r}, expected one that was made")
    return found


async def _docket(call: Call, id: str) -> Docket:
    store = call.office.store
    found = dockets(await run_in_threadpool(store.about, call.forecaster, [id])).get(id)
    if found is None:
        await _settings(call)
        raise Refusal("unknown", f"id: given {id!r}, expected one that was forecast", id=id)
    return found
