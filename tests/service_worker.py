"""A worker in the calling thread: jobs are done at once, and hosted forecasters are compared bit for bit."""

from concurrent.futures import Future
from typing import Any

import msgspec
import numpy as np

from swapcal.service.messages import CorrectionRow, ForecastIn, OutcomeRowIn
from swapcal.service.queue import CORRECTIONS, FORECASTS, OUTCOMES, Ask, Make, Write
from swapcal.service.settings import ApiError, Settings
from swapcal.service.snapshots import Still, recover
from swapcal.service.worker import Worker


def row(id: str, record: dict[str, Any], time: Any = None, matures: Any = None) -> ForecastIn:
    return ForecastIn(id, msgspec.Raw(msgspec.json.encode(record)), time, matures)


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Hand:
    """Does jobs without a thread: each method is one batch."""

    def __init__(self, store: Any, name: str = "shop", clock: Any = None, **settings: Any) -> None:
        self.store, self.name, self.clock = store, name, clock or Clock()
        self.told: list[tuple[str, dict[str, Any]]] = []
        limits = settings.pop("limits", None)
        self.worker = Worker(store, limits=limits, clock=self.clock, log=self._tell)
        self.worker._regain(now=True)
        if settings:
            self.make(Settings(name=name, **settings))

    def _tell(self, event: str, **facts: Any) -> None:
        self.told.append((event, facts))

    def do(self, *jobs: Any) -> list[Any]:
        promises: list[Future[Any]] = [Future() for _ in jobs]
        self.worker._serve([job(promise) for job, promise in zip(jobs, promises, strict=True)])
        return [promise.exception() or promise.result() for promise in promises]

    def make(self, settings: Settings) -> Any:
        return self.do(lambda promise: Make(promise, settings))[0]

    def ask(self, question: Any) -> Any:
        return self.do(lambda promise: Ask(promise, self.name, question))[0]

    def _rows(self, kind: str, rows: list[Any]) -> Any:
        return self.do(lambda promise: Write(promise, self.name, kind, rows))[0]

    def forecasts(self, *rows: ForecastIn) -> Any:
        return self._rows(FORECASTS, [*rows])

    def forecast(self, id: str, record: dict[str, Any], time: Any = None, matures: Any = None) -> Any:
        return _one(self.forecasts(row(id, record, time, matures)))

    def outcomes(self, *rows: OutcomeRowIn) -> Any:
        return self._rows(OUTCOMES, [*rows])

    def outcome(self, id: str, y: float, time: float | None = None, weight: float = 1.0) -> Any:
        return _one(self.outcomes(OutcomeRowIn(id, y, time, weight)))

    def correct(self, id: str, y: float, reason: str = "typing error", weight: float | None = None) -> Any:
        return _one(self._rows(CORRECTIONS, [CorrectionRow(id, y, reason, weight)]))

    @property
    def hosted(self) -> Any:
        return self.worker.forecasters[self.name]


def _one(found: Any) -> Any:
    return found if isinstance(found, ApiError) else found[0]


def bits(hosted: Any) -> dict[str, Any]:
    """Everything a hosted forecaster is, but for the name its engine goes by, which is drawn anew for every engine."""
    still = Still(hosted)
    found: dict[str, Any] = {"accepted": dict(hosted.accepted), "parked": dict(still._parked)}
    for name, state in still.states().items():
        found |= {f"{name}.{key}": (array.shape, array.tobytes()) for key, array in state.arrays.items()}
        manifest = msgspec.json.decode(msgspec.json.encode(state.manifest))
        if manifest.get("forecaster"):
            manifest["forecaster"].pop("owner")
        found[name] = manifest
    return found


def assert_follows_from_log(hand: Hand) -> None:
    """The hosted forecaster is what the log alone makes of a fresh one; early outcomes lapse by the clock of both."""
    kept, hand.store.kept = hand.store.kept, {}
    again = recover(hand.store, hand.name).hosted
    hand.store.kept = kept
    for one in (again, hand.hosted):
        one.advance(max(hand.clock.now, hand.hosted.now))
    assert bits(again) == bits(hand.hosted)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)
