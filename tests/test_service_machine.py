"""Streams of forecasts, outcomes, repetitions, contradictions, early and late ones, against a model of the contract."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

pytest.importorskip("msgspec")

from swapcal.service.settings import ApiError, Watch
from swapcal.service.snapshots import Still
from tests.memory_store import MemoryStore
from tests.service_worker import Clock, Hand, assert_follows_from_log

IDS = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"])
RECORDS = st.sampled_from([{"city": "Rome", "price": 1.5}, {"city": "Bari", "price": 2}, {"city": None}])
LABELS = st.sampled_from([(0.0, 1.0), (1.0, 1.0), (1.0, 3.0), (0.0, 2.0)])
"""Outcomes and their weights."""
MOST, WEEK = 5, 100.0


class Model:
    """The contract: who knows what about which id."""

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}
        self.first: dict[str, tuple[float, float]] = {}
        self.open: dict[str, float] = {}
        """maturity by id, in order of issue"""
        self.parked: dict[str, tuple[tuple[float, float], float]] = {}
        self.clock = -math.inf
        self.labels = self.expired = self.lapsed = 0

    def advance(self, now: float) -> None:
        for id in [id for id, (_, at) in self.parked.items() if now - at > WEEK]:
            del self.parked[id]
            self.lapsed += 1

    def forecast(self, id: str, record: Any, time: float, matures: float, now: float) -> int:
        if id in self.records:
            return 200 if self.records[id] == record else 409
        self.clock = max(self.clock, time)
        for known in [k for k, when in self.open.items() if k in self.first and when < self.clock]:
            self._learn(known)
        self.records[id], self.open[id] = record, max(matures, self.clock)
        while len(self.open) > MOST:
            del self.open[next(iter(self.open))]
            self.expired += 1
        if id in self.parked:
            self._arrive(id, self.parked.pop(id)[0])
        return 200

    def outcome(self, id: str, y: tuple[float, float], now: float) -> tuple[int, str]:
        known = self.first.get(id, self.parked.get(id, (None,))[0])
        if known is not None:
            return (200, "repeated") if known == y else (409, "")
        if id not in self.records:
            self.parked[id] = (y, now)
            return 200, "parked"
        if id not in self.open:
            return 410, ""
        return 200, self._arrive(id, y)

    def _arrive(self, id: str, y: tuple[float, float]) -> str:
        self.first[id] = y
        if self.open[id] > self.clock:
            return "held"
        self._learn(id)
        return "learned"

    def _learn(self, id: str) -> None:
        del self.open[id]
        self.labels += 1

    @property
    def held(self) -> int:
        return sum(id in self.first for id in self.open)


class Contract(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store, self.clock, self.model = MemoryStore(), Clock(), Model()
        self.time = 0.0
        self.answers: dict[str, Any] = {}
        self.hand = self._hand(groups=["city"], max_open=MOST, parked_for=WEEK, watch=Watch(max_weight=3.0))

    def _hand(self, **settings: Any) -> Hand:
        return Hand(self.store, "shop", self.clock, **settings)

    @property
    def now(self) -> float:
        """The service's clock, which never goes backwards."""
        return max(self.clock.now, self.hand.hosted.now)

    @rule(id=IDS, record=RECORDS, step=st.integers(-2, 3), wait=st.sampled_from([0, 0, 2, 5]))
    def forecast(self, id: str, record: Any, step: int, wait: int) -> None:
        self.model.advance(self.now)
        time = self.time + step
        self.time = max(self.time, time)
        moment = max(time, self.model.clock)
        status = self.model.forecast(id, record, time, moment + wait, self.now)
        found = self.hand.forecast(id, record, time, moment + wait)
        if status != 200:
            assert (found.status, found.more["known"]) == (status, self.model.records[id])
        else:
            assert found == self.answers.setdefault(id, found)

    @rule(id=IDS, y=LABELS)
    def outcome(self, id: str, y: tuple[float, float]) -> None:
        self.model.advance(self.now)
        known = self.model.first.get(id, self.model.parked.get(id, (None,))[0])
        status, state = self.model.outcome(id, y, self.now)
        found = self.hand.outcome(id, y[0], weight=y[1])
        if status == 200:
            assert (found.y, found.state) == (y[0], state)
        else:
            assert found.status == status
        if status == 409:
            differing = 0 if known[0] != y[0] else 1
            assert (found.more["given"], found.more["known"]) == (y[differing], known[differing])

    @rule(id=IDS, y=LABELS)
    def correct(self, id: str, y: tuple[float, float]) -> None:
        found = self.hand.correct(id, y[0], weight=y[1])
        if id in self.model.first:
            assert (found.y, found.weight) == y
        else:
            assert found.status == (409 if id in self.model.records or id in self._ever_parked() else 404)

    def _ever_parked(self) -> set[str]:
        return {event.id for event in self.store.logs["shop"] if event.kind == "parked"}

    @rule(seconds=st.sampled_from([1.0, 60.0, -500.0]))
    def tick(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(when=st.sampled_from(["before", "after", "conflict"]), id=IDS, record=RECORDS)
    def fail(self, when: str, id: str, record: Any) -> None:
        """A commit that fails: nobody is told that it was done, and what the store holds counts."""
        self.model.advance(self.now)
        self.store.fault = when
        appends = self.store.appends
        time = max(self.time, self.model.clock)
        found = self.hand.forecast(id, record, time, time)
        self.store.fault = None
        known = id in self.model.records
        if not known:
            assert isinstance(found, ApiError)
            assert (found.status, found.retry) == (503, 1.0)
        if self.store.appends > appends:
            self.model.forecast(id, record, time, time, self.now)
        if not known:
            self.time = time

    @rule()
    def restart(self) -> None:
        self.hand = self._hand()

    @rule()
    def snapshot(self) -> None:
        self.hand.worker._snapshotter.keep(Still(self.hand.hosted))

    @precondition(lambda self: self.model.records)
    @rule()
    def replay(self) -> None:
        assert_follows_from_log(self.hand)

    @invariant()
    def counts(self) -> None:
        if not hasattr(self, "hand"):
            return
        self.hand.hosted.advance(self.now)
        self.model.advance(self.now)
        live, hosted, model = self.hand.hosted.live.status(), self.hand.hosted, self.model
        assert (live.forecasts, live.labels, live.open) == (len(model.records), model.labels, len(model.open))
        assert (live.held, live.expired) == (model.held, model.expired)
        assert (len(hosted.parked), hosted.lapsed) == (len(model.parked), model.lapsed)
        assert [*hosted.accepted] == [*model.open]
        assert hosted.figures.labels == hosted.monitor.rows == model.labels

    def teardown(self) -> None:
        if hasattr(self, "hand"):
            assert_follows_from_log(self.hand)


KINDS = st.sampled_from([*("forecast",) * 4, *("outcome",) * 4, "tick", "fail", "correct", "restart", "snapshot"])
STEPS = st.tuples(KINDS, IDS, RECORDS, LABELS, st.integers(-2, 3), st.sampled_from([0, 0, 2, 5]))
FAULTS, SECONDS = ("before", "after", "conflict"), (1.0, 60.0, -500.0)


@settings(max_examples=14)
@given(st.lists(STEPS, min_size=30, max_size=30))
def test_streams_of_everything(steps: list[Any]) -> None:
    """The machine below prefers few kinds of steps at a time; here they all come in one stream."""
    machine = Contract()
    machine.begin()
    for kind, id, record, y, step, wait in steps:
        arguments = {
            "forecast": (id, record, step, wait),
            "outcome": (id, y),
            "correct": (id, y),
            "tick": (SECONDS[step % 3],),
            "fail": (FAULTS[step % 3], id, record),
        }
        getattr(machine, kind)(*arguments.get(kind, ()))
        machine.counts()
    machine.teardown()


TestContract = Contract.TestCase
TestContract.settings = settings(max_examples=6, stateful_step_count=20, deadline=None)
