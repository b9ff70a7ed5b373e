"""Logs as the service writes them: a stream of forecasts, outcomes early and late, repeats and corrections."""

from itertools import islice
from typing import Any

import numpy as np

from swapcal.service.messages import CorrectionRow, ForecastIn, OutcomeRowIn
from swapcal.service.queue import CORRECTIONS, FORECASTS, OUTCOMES, Make, Write
from swapcal.service.settings import Settings, Watch
from swapcal.service.store import open_store
from swapcal.service.worker import Worker
from tests.service_worker import row

COLD = 600.0
"""Seconds to wait for an answer: kernels may have to be compiled first."""


def record(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    found: dict[str, Any] = {"shop": "abc"[number % 3], "price": float(rng.normal()), "open": bool(number % 2)}
    if number % 5 == 0:
        found |= {"time": "noon", "mixed": True if number % 10 else "ten"}
    return found


def forecast_rows(numbers: range) -> list[ForecastIn]:
    return [row(f"id {number}", record(number)) for number in numbers]


def outcome_of(number: int) -> float:
    return float(number % 7 < 3)


def weight_of(number: int) -> float:
    return 1.0 + number % 4


def outcome_row(number: int) -> OutcomeRowIn:
    return OutcomeRowIn(f"id {number}", outcome_of(number), weight=weight_of(number))


def write_log(url: str, count: int = 60, *, name: str = "shop", **worker: Any) -> None:
    """Serve a stream: of ten forecasts one has no outcome, one's comes early, one's is corrected; weights 1 to 4."""
    at_work = Worker(open_store(url, learner=True, create=True), **worker).start()
    try:
        at_work.call(
            lambda promise: Make(promise, Settings(name=name, groups=["shop"], watch=Watch(max_weight=4.0))), COLD
        )
        numbers = iter(range(count))
        while batch := [*islice(numbers, 7)]:
            early = [outcome_row(n) for n in batch if n % 10 == 1]
            late = [outcome_row(n) for n in batch if n % 10 > 1]
            wrong = [
                CorrectionRow(f"id {n}", 1.0 - outcome_of(n), "typo", 2.0 if n % 20 == 2 else None)
                for n in batch
                if n % 10 == 2
            ]
            _do(at_work, name, OUTCOMES, early)
            _do(at_work, name, FORECASTS, forecast_rows(range(batch[0], batch[-1] + 1)))
            _do(at_work, name, OUTCOMES, late)
            _do(at_work, name, CORRECTIONS, wrong)
    finally:
        at_work.close()


def _do(worker: Worker, name: str, kind: str, rows: Any) -> None:
    if rows:
        for answer in worker.call(lambda promise: Write(promise, name, kind, rows), COLD):
            if isinstance(answer, Exception):
                raise answer
