"""`CommandHandler`: decides what is new among the rows of a batch for one forecaster, and writes the events for it."""

import math
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from swapcal.live import ExpiredIdError
from swapcal.live.scheduler import CORRECTED
from swapcal.service import events
from swapcal.service.events import (
    CORRECTION,
    FORECAST,
    OUTCOME,
    PARKED,
    SETTLED,
    SILENCE,
    WITHDRAWN,
    CorrectionBody,
    Event,
    ForecastBody,
    IdHistory,
    OutcomeBody,
    SettledBody,
    WithdrawnBody,
)
from swapcal.service.hosted import HostedForecaster, outcome_row
from swapcal.service.messages import CorrectionOut, CorrectionRow, ForecastIn, ForecastOut, OutcomeOut, OutcomeRowIn
from swapcal.service.settings import ApiError, Limits

REPEATED = "repeated"
LEAP = 2.0
"""A time more than this many times the latest one, and the service's own, is taken to be in another unit."""


class CommandHandler:
    """Applies rows to a hosted forecaster and collects the events; answers wait until they are on disk.

    Parameters
    ----------
    hosted : HostedForecaster
        The forecaster.
    known : dict
        The store's rows of the batch's ids.
    now : float
        When the batch is accepted; not before the forecaster's last event.
    limits : Limits
        Of open forecasts and early outcomes.
    """

    def __init__(self, hosted: HostedForecaster, known: dict[str, IdHistory], now: float, limits: Limits) -> None:
        self.hosted = hosted
        self.known = known
        self.now = max(now, hosted.now)
        self.limits = limits
        self.events: list[Event] = []

    def forecasts(self, rows: Sequence[ForecastIn]) -> "list[ForecastOut | ApiError]":
        """Issue forecasts for new ids and repeat those of known ids."""
        self.hosted.advance(self.now)
        answers: list[Any] = [None] * len(rows)
        waiting: dict[str, int] = {}
        for k, row in enumerate(rows):
            if row.id in waiting or row.id in self.hosted.parked:
                self._issue(rows, waiting, answers)
            known = self._forecast_known(row) or self._leap(row) or self._forecast_beyond(row, len(waiting))
            if known is not None:
                answers[k] = known
                continue
            waiting[row.id] = k
            if row.id in self.hosted.parked:
                self._issue_and_deliver(rows, waiting, answers)
        self._issue(rows, waiting, answers)
        return answers

    def _forecast_known(self, row: ForecastIn) -> "ForecastOut | ApiError | None":
        event = self._id_history(row.id).forecast
        if event is None:
            return None
        body = events.forecast_body(event.body)
        if events.same_record(events.record_of(body.record), row.values):
            return _issued(row.id, body, event.seq)
        return ApiError(
            "conflict",
            f"id: given {row.id!r} with another record than before, expected the same record or a new id",
            id=row.id,
            given=row.values,
            known=events.record_of(body.record),
        )

    def _leap(self, row: "ForecastIn | OutcomeRowIn") -> ApiError | None:
        """Return the error of a time in another unit: the clock never goes backwards, so it could not recover."""
        latest = max(self.now, self.hosted.latest)
        if row.time is None or math.isinf(self.hosted.latest) or row.time <= LEAP * latest:
            return None
        given = f"given {row.time:.12g} for id {row.id!r}, the latest before it {self.hosted.latest:.12g}"
        return ApiError("invalid", f"time: {given}, expected the same unit (seconds, milliseconds, …)", id=row.id)

    def _forecast_beyond(self, row: ForecastIn, waiting: int) -> ApiError | None:
        most, open = self.limits.open, len(self.hosted.accepted) + waiting
        if open < most or self.hosted.settings.max_open <= most:
            return None
        return ApiError(
            "many",
            f"forecasts: given one more with {open:,} open, expected at most {most:,}: report outcomes, or make the "
            "forecaster with max_open, expires or lifetime, so that old ones expire",
            retry=60.0,
            id=row.id,
        )

    def _issue(self, rows: Sequence[ForecastIn], waiting: dict[str, int], answers: list[Any]) -> None:
        """Issue the waiting forecasts, in order."""
        if not waiting:
            return
        bodies = self.hosted.forecast([rows[k] for k in waiting.values()], self.now)
        for (id, k), body in zip(waiting.items(), bodies, strict=True):
            if isinstance(body, Exception):
                answers[k] = ApiError("invalid", str(body), id=id)
            else:
                answers[k] = _issued(id, body, self._write(FORECAST, id, body))
        self._write_silence()
        waiting.clear()

    def _issue_and_deliver(self, rows: Sequence[ForecastIn], waiting: dict[str, int], answers: list[Any]) -> None:
        """Issue a forecast whose outcome came early, and deliver that right after, unless it was pruned meanwhile."""
        id, k = [*waiting.items()][-1]
        self._issue(rows, waiting, answers)
        early = self._id_history(id).parked
        if isinstance(answers[k], ApiError) or early is None:
            return
        row = outcome_row(early)
        state = self.hosted.outcome([row], self.now)[0]
        if not isinstance(state, str):  # dated beyond the forecast's life; but it was acknowledged
            row = replace(row, time=None)
            state = self.hosted.outcome([row], self.now)[0]
        if isinstance(state, str):
            self._write(OUTCOME, id, _outcome_body(row, state, parked=True))
        self._write_silence()

    def outcomes(self, rows: Sequence[OutcomeRowIn]) -> "list[OutcomeOut | ApiError]":
        """Deliver new outcomes, park those without a forecast, and repeat the state of known ones."""
        self.hosted.advance(self.now)
        answers: list[Any] = [None] * len(rows)
        waiting: dict[str, int] = {}
        for k, row in enumerate(rows):
            if row.id in waiting:
                self._deliver(rows, waiting, answers)
            known = self._outcome_known(row) or self._leap(row) or self._overweight(row)
            known = known or self._park_or_refuse(row, waiting, rows, answers)
            if known is None:
                waiting[row.id] = k
            else:
                answers[k] = known
        self._deliver(rows, waiting, answers)
        return answers

    def _outcome_known(self, row: OutcomeRowIn) -> "OutcomeOut | ApiError | None":
        id_history = self._id_history(row.id)
        first = id_history.outcome or (id_history.parked if row.id in self.hosted.parked else None)
        if first is None:
            return None if id_history.silence is None else self._after_silence(row, id_history.silence)
        body = events.outcome_body(first.body)
        y, weight = body.y, body.counts
        if (y, weight) == (row.y, row.weight):
            return OutcomeOut(row.id, y, REPEATED, first.seq)
        what, given, known = ("y", row.y, y) if y != row.y else ("weight", row.weight, weight)
        return ApiError(
            "conflict",
            f"{what}: given {given:g} for id {row.id!r}, expected {known:g} as before; a correction is an act of its "
            "own",
            id=row.id,
            given=given,
            known=known,
        )

    def _overweight(self, row: OutcomeRowIn) -> ApiError | None:
        """Return the error of a weight above the largest one, for which the monitor's guarantee does not hold."""
        most = self.hosted.settings.watch.max_weight
        if 1.0 <= row.weight <= most:
            return None
        given = f"given {row.weight:g} for id {row.id!r}"
        expected = f"expected one over the probability of obtaining the outcome, from 1 to watch.max_weight = {most:g}"
        return ApiError("invalid", f"weight: {given}, {expected}, a setting of the forecaster", id=row.id)

    def _after_silence(self, row: OutcomeRowIn, silence: Event) -> OutcomeOut:
        """Log an outcome that came after its window: the first wins, as always; nothing is unlearned."""
        state = REPEATED if events.outcome_body(silence.body).y == row.y else CORRECTED
        self.hosted.corrections += state == CORRECTED
        seq = self._write(OUTCOME, row.id, _outcome_body(row, state))
        return OutcomeOut(row.id, row.y, state, seq)

    def settle(self, most: int) -> None:
        """Learn at most so many forecasts whose windows have ended by the service's clock."""
        self.hosted.settle(self.now, most, self.now)
        self._write(SETTLED, "", SettledBody(self.now, most))
        self._write_silence()

    def withdraw(self, ids: Sequence[str]) -> None:
        """Withdraw open forecasts whose events are to be pruned."""
        self.hosted.withdraw(ids, self.now)
        self._write(WITHDRAWN, "", WithdrawnBody([*ids]))

    def _write_silence(self) -> None:
        """Log what was learned as silence; it follows from the events before."""
        silenced, self.hosted.silenced = self.hosted.silenced, []
        for id in silenced:
            self._write(SILENCE, id, OutcomeBody(float(self.hosted.settings.silence or 0)))

    def _park_or_refuse(
        self, row: OutcomeRowIn, waiting: dict[str, int], rows: Sequence[OutcomeRowIn], answers: list[Any]
    ) -> "OutcomeOut | ApiError | None":
        """Park an outcome without a forecast, or return its error; None for an outcome to be delivered."""
        forecast = self._id_history(row.id).forecast
        if forecast is not None:
            return self._outcome_refused(row, forecast)
        if len(self.hosted.parked) >= self.limits.parked:
            return ApiError(
                "many",
                f"outcomes: given one without a forecast, with {len(self.hosted.parked):,} waiting for theirs, "
                f"expected at most {self.limits.parked:,}: are these ids right?",
                retry=60.0,
                id=row.id,
            )
        self._deliver(rows, waiting, answers)
        self.hosted.park(row.id, self.now)
        return OutcomeOut(row.id, row.y, PARKED, self._write(PARKED, row.id, _outcome_body(row)))

    def _outcome_refused(self, row: OutcomeRowIn, forecast: Event) -> ApiError | None:
        if not self.hosted.live.is_open(row.id):
            return _expired(row.id)
        made = events.forecast_body(forecast.body).time
        if row.time is not None and made is not None and row.time < made:
            given = f"given {row.time:.12g} for id {row.id!r}"
            return ApiError("invalid", f"time: {given}, expected a time after its forecast, at {made:.12g}", id=row.id)
        return None

    def _deliver(self, rows: Sequence[OutcomeRowIn], waiting: dict[str, int], answers: list[Any]) -> None:
        """Deliver the waiting outcomes, in order."""
        if not waiting:
            return
        delivered = [rows[k] for k in waiting.values()]
        states = self.hosted.outcome(delivered, self.now)
        for row, k, state in zip(delivered, waiting.values(), states, strict=True):
            if isinstance(state, ExpiredIdError):
                answers[k] = _expired(row.id)
            elif isinstance(state, Exception):
                answers[k] = ApiError("invalid", str(state), id=row.id)
            else:
                seq = self._write(OUTCOME, row.id, _outcome_body(row, state))
                answers[k] = OutcomeOut(row.id, row.y, state, seq)
        self._write_silence()
        waiting.clear()

    def corrections(self, rows: Sequence[CorrectionRow]) -> "list[CorrectionOut | ApiError]":
        """Log corrections of outcomes that are known."""
        return [self._correct(row) for row in rows]

    def _correct(self, row: CorrectionRow) -> "CorrectionOut | ApiError":
        id_history = self._id_history(row.id)
        if id_history.y is None:
            if id_history.forecast is None and id_history.parked is None:
                return ApiError("unknown", f"id: given {row.id!r}, expected one that was forecast", id=row.id)
            expected = "expected one with an outcome to correct: report that first"
            return ApiError("conflict", f"id: given {row.id!r}, {expected}", id=row.id)
        if id_history.corrections:
            last = id_history.corrections[-1]
            body = events.correction_body(last.body)
            if (body.y, body.reason, body.weight) == (row.y, row.reason, row.weight):
                return CorrectionOut(row.id, body.y, body.before, body.reason, last.seq, id_history.weight)
        before = id_history.y
        assert before is not None, "it has an outcome"
        self.hosted.corrections += 1
        seq = self._write(CORRECTION, row.id, CorrectionBody(row.y, before, row.reason, row.weight))
        return CorrectionOut(row.id, row.y, before, row.reason, seq, id_history.weight)

    def _id_history(self, id: str) -> IdHistory:
        history = self.known.get(id)
        if history is None:
            history = self.known[id] = IdHistory()
        return history

    def _write(self, kind: str, id: str, body: Struct) -> int:
        event = Event(self.hosted.name, self.hosted.seq + 1, kind, id, self.now, events.encoded(body))
        self.hosted.seq, self.hosted.now = event.seq, self.now
        self.events.append(event)
        self._id_history(id).add(event)
        return event.seq


def _issued(id: str, body: ForecastBody, seq: int) -> ForecastOut:
    return ForecastOut(id, body.p, body.mean, body.low, body.high, body.weight, seq)


def _outcome_body(row: OutcomeRowIn, state: str = "", *, parked: bool = False) -> OutcomeBody:
    return OutcomeBody(row.y, state, row.time, parked, None if row.weight == 1.0 else row.weight)


def _expired(id: str) -> ApiError:
    return ApiError("expired", f"id: given {id!r}, whose forecast has expired and counts as unlabelled for good", id=id)
