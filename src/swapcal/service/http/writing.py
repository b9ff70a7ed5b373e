"""Writing: forecasts, outcomes, corrections."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from swapcal.service import bodies
from swapcal.service.http.endpoint import Call
from swapcal.service.http.incoming import NDJSON
from swapcal.service.http.messages import (
    CorrectionIn,
    CorrectionOut,
    ForecastBodyIn,
    ForecastIn,
    ForecastOut,
    ForecastsOut,
    OutcomeIn,
    OutcomeOut,
    OutcomeRowIn,
    OutcomesIn,
    OutcomesOut,
    decoded,
    id_of,
    in_words,
    moment_of,
)
from swapcal.service.http.reply import Reply
from swapcal.service.jobs import CORRECTIONS, FORECASTS, OUTCOMES
from swapcal.service.limits import Limits
from swapcal.service.refusal import Refusal
from swapcal.service.rows import Corrected, CorrectionRow, Forecasted, ForecastRow, OutcomeRow, Reported

_FORECAST = msgspec.json.Decoder(ForecastIn)
_FORECASTS = msgspec.json.Decoder(ForecastBodyIn)
_OUTCOME = msgspec.json.Decoder(OutcomeIn)
_OUTCOME_ROW = msgspec.json.Decoder(OutcomeRowIn)
_OUTCOMES = msgspec.json.Decoder(OutcomesIn)
_CORRECTION = msgspec.json.Decoder(CorrectionIn)
_ENCODER = msgspec.json.Encoder()

Read = Callable[[Raw, Limits], Any]


async def forecasts(call: Call) -> Reply:
    """Forecast one record, or many."""
    if call.in_lines():
        rows = _lines(await call.body(), call.office.limits)
        return _in_lines(await _many(call, FORECASTS, rows, _forecast_row))
    given = decoded(_FORECASTS, await call.body())
    if given.forecasts is not UNSET:
        if given.id is not UNSET or given.record is not UNSET:
            raise Refusal("invalid", "forecasts: given together with id or record, expected one or the other")
        return _json(ForecastsOut(await _many(call, FORECASTS, given.forecasts, _forecast_row)))
    if given.id is UNSET or given.record is UNSET:
        missing = "id" if given.id is UNSET else "record"
        raise Refusal("invalid", f"{missing}: given none, expected one")
    row = _checked_forecast(given.id, given.record, given.time, given.matures, call.office.limits)
    return _json(shown(await _single(call, FORECASTS, row)))


async def outcomes(call: Call) -> Reply:
    """Report many outcomes."""
    if call.in_lines():
        rows = _lines(await call.body(), call.office.limits)
        return _in_lines(await _many(call, OUTCOMES, rows, _outcome_row))
    given = decoded(_OUTCOMES, await call.body())
    return _json(OutcomesOut(await _many(call, OUTCOMES, given.outcomes, _outcome_row)))


async def outcome(call: Call) -> Reply:
    """Report the outcome of one forecast."""
    given = decoded(_OUTCOME, await call.json())
    id = id_of(call.id, call.office.limits.id)
    row = OutcomeRow(id, float(given.y), moment_of("time", given.time))
    return _json(shown(await _single(call, OUTCOMES, row)))


async def correction(call: Call) -> Reply:
    """Say that an outcome was another, and why."""
    given = decoded(_CORRECTION, await call.json())
    row = CorrectionRow(id_of(call.id, call.office.limits.id), float(given.y), given.reason)
    return _json(shown(await _single(call, CORRECTIONS, row)))


async def _single(call: Call, kind: str, row: Any) -> Any:
    answer = (await call.office.write(call.forecaster, kind, [row]))[0]
    if isinstance(answer, Refusal):
        raise answer
    return answer


async def _many(call: Call, kind: str, given: Sequence[Raw], read: Read) -> list[Any]:
    """Return an answer per row; one that cannot be read or done does not spoil the others."""
    limits = call.office.limits
    if len(given) > limits.rows:
        raise Refusal("large", f"{kind}: given {len(given):,} rows, expected at most {limits.rows:,}")
    answers: list[Any] = []
    for number, raw in enumerate(given, 1):
        try:
            answers.append(read(raw, limits))
        except Refusal as refusal:
            answers.append(Refusal(refusal.kind, f"row {number}: {refusal.detail}", **refusal.more))
    good = [k for k, answer in enumerate(answers) if not isinstance(answer, Refusal)]
    found = await call.office.write(call.forecaster, kind, [answers[k] for k in good])
    for k, answer in zip(good, found, strict=True):
        answers[k] = answer
    return [shown(answer) for answer in answers]


def shown(answer: Any) -> Any:
    """Return an answer as it goes out."""
    if isinstance(answer, Forecasted):
        one = answer.issued
        return ForecastOut(answer.id, one.p, one.mean, one.low, one.high, one.weight, answer.seq)
    if isinstance(answer, Reported):
        return OutcomeOut(*answer)
    if isinstance(answer, Corrected):
        return CorrectionOut(answer.id, answer.y, answer.before, answer.reason, answer.seq)
    assert isinstance(answer, Refusal)
    return answer.problem()


def _forecast_row(raw: Raw, limits: Limits) -> ForecastRow:
    given = decoded(_FORECAST, raw)
    return _checked_forecast(given.id, given.record, given.time, given.matures, limits)


def _checked_forecast(id: Any, raw: Raw, time: Any, matures: Any, limits: Limits) -> ForecastRow:
    name = id_of(id, limits.id)
    record = record_of(raw, limits)
    return ForecastRow(name, raw, record, moment_of("time", time), moment_of("matures", matures))


def record_of(raw: Raw, limits: Limits) -> dict[str, Any]:
    """Return a record, or say why it is none."""
    try:
        record = bodies.record_of(raw)
    except msgspec.ValidationError as error:
        raise Refusal("invalid", f"record: {in_words(str(error)).removeprefix('body: ')}") from None
    except msgspec.DecodeError as error:
        raise Refusal("malformed", f"record: given what is no JSON ({error}), expected JSON") from None
    if len(record) > limits.columns:
        raise Refusal("invalid", f"record: given {len(record):,} columns, expected at most {limits.columns:,}")
    return record


def _outcome_row(raw: Raw, limits: Limits) -> OutcomeRow:
    given = decoded(_OUTCOME_ROW, raw)
    return OutcomeRow(id_of(given.id, limits.id), float(given.y), moment_of("time", given.time))


def _lines(content: bytes, limits: Limits) -> list[Raw]:
    return [Raw(line) for line in content.split(b"\n") if line.strip()]


def _in_lines(answers: Sequence[Any]) -> Reply:
    return Reply(_ENCODER.encode_lines(answers), media=NDJSON)


def _json(answer: Any) -> Reply:
    return Reply(_ENCODER.encode(answer))
