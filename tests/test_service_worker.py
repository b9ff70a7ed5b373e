"""The worker: one order, one commit, and what happens when that fails."""

import inspect
import io
import threading
import time
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("msgspec")

import msgspec
from msgspec.structs import asdict as asdict_of

from swapcal.archive import State, packed
from swapcal.live import Learned, Live
from swapcal.live.state import FILE as LIVE_FILE
from swapcal.monitor import Monitor
from swapcal.monitor import settings as monitor_settings
from swapcal.monitor.state import FILE as MONITOR_FILE
from swapcal.service.events import Event, encoded, forecast_body, outcome_body, record_of
from swapcal.service.history import AuditedPeriod, audit
from swapcal.service.hosted import Figures, HostedForecaster
from swapcal.service.messages import ForecastIn, OutcomeRowIn
from swapcal.service.queue import FORECASTS, OUTCOMES, Ask, Make, Write
from swapcal.service.settings import LIVE, ApiError, JsonLog, Limits, Settings, Watch
from swapcal.service.snapshots import BEHIND, HOSTED, Snapshotter, Still, restored
from swapcal.service.status import alarms, certificate, collect, describe, engine
from swapcal.service.store import Unavailable
from swapcal.service.worker import Worker
from tests.memory_store import MemoryStore
from tests.service_worker import Clock, Hand, assert_follows_from_log, bits, rng, row

ROME, BARI = {"city": "Rome", "price": 3.0}, {"city": "Bari", "price": 4}


def hand(**settings: Any) -> Hand:
    return Hand(MemoryStore(), **{"groups": ["city"], **settings})


def stream(n: int, seed: int = 0) -> list[Any]:
    draw = rng(seed)
    cities, prices = draw.choice(["Rome", "Bari", "Pisa"], n).tolist(), draw.random(n).tolist()
    return [row(str(k), {"city": cities[k], "price": prices[k]}) for k in range(n)]


def test_every_setting_of_live_can_be_set() -> None:
    # the service forecasts probabilities of events with the default learner, and learns outcomes as they are accepted
    elsewhere = {"self", "models", "monitor", "low", "high", "learner", "burst"}
    known = {name for name in inspect.signature(Live.__init__).parameters if name not in elsewhere}
    assert set(LIVE) == known
    defaults = {name: parameter.default for name, parameter in inspect.signature(Live.__init__).parameters.items()}
    own = Settings(name="shop")
    assert all(getattr(own, name) == (defaults[name] if defaults[name] != () else []) for name in LIVE)


def test_a_batch_is_as_one_by_one() -> None:
    one, many = hand(), hand()
    rows, y = stream(60), (rng(1).random(60) < 0.3).astype(float).tolist()
    labels = [OutcomeRowIn(str(k), y[k], None) for k in range(60)]
    for k in range(0, 60, 20):
        together = many.forecasts(*rows[k : k + 20])
        alone = [one.forecasts(each)[0] for each in rows[k : k + 20]]
        assert together == alone
        assert [each.state for each in many.outcomes(*labels[k : k + 20])] == ["learned"] * 20
        assert {one.outcomes(each)[0].state for each in labels[k : k + 20]} == {"learned"}
    assert bits(one.hosted) != bits(hand().hosted)
    same, other = bits(one.hosted), bits(many.hosted)
    assert {key for key in same if same[key] != other[key]} <= {"own"}  # sequence numbers: the order of kinds differs
    assert one.hosted.figures.brier() == many.hosted.figures.brier()
    assert_follows_from_log(one)
    assert_follows_from_log(many)


def test_a_bad_row_spoils_only_its_own_answer() -> None:
    worker = hand()
    worker.forecast("first", ROME)
    found = worker.forecasts(row("a", ROME), row("b", {"city": "Rome", "price": "cheap"}), row("c", BARI))
    assert [getattr(each, "id", each.__class__) for each in found] == ["a", ApiError, "c"]
    assert "price" in found[1].detail
    assert found[1].status == 422
    assert_follows_from_log(worker)


def test_an_outcome_and_its_forecast_of_one_batch_meet() -> None:
    worker = hand()
    found = worker.do(
        lambda promise: Write(promise, "shop", OUTCOMES, [OutcomeRowIn("a", 1.0, None)]),
        lambda promise: Write(promise, "shop", FORECASTS, [row("a", ROME)]),
    )
    assert [found[0][0].state, found[1][0].id] == ["learned", "a"]
    assert worker.store.appends == 2


@pytest.mark.parametrize("fault", ["before", "after", "conflict"])
def test_a_failed_commit_is_not_acknowledged_and_the_learner_is_as_the_log(fault: str) -> None:
    worker = hand()
    for each in stream(30):
        worker.forecasts(each)
    before = bits(worker.hosted)
    worker.store.fault = fault
    found = worker.outcomes(*(OutcomeRowIn(str(k), 1.0, None) for k in range(20)))
    assert (found.status, found.retry) == (503, 1.0)
    assert_follows_from_log(worker)
    assert (bits(worker.hosted) == before) == (fault != "after")
    again = worker.outcomes(*(OutcomeRowIn(str(k), 1.0, None) for k in range(20)))
    assert {each.state for each in again} == {"repeated" if fault == "after" else "learned"}
    assert worker.hosted.figures.labels == 20
    assert worker.worker.metrics.failures == 1
    assert_follows_from_log(worker)


def test_a_store_out_of_reach_is_503_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = hand()
    worker.forecast("a", ROME)
    worker.store.down = True
    assert worker.outcome("a", 1.0).status == 503
    assert worker.forecast("b", ROME).status == 503
    assert worker.worker.standing_by == ["shop"]
    worker.store.down = False
    worker.worker._regain(now=True)
    assert worker.outcome("a", 1.0).state == "learned"
    assert_follows_from_log(worker)


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_forecaster_that_may_have_been_made_is_looked_up(fault: str) -> None:
    worker = hand()
    worker.store.fault = fault
    assert worker.make(Settings(name="other")).status == 503
    assert sorted(worker.worker.forecasters) == (["shop"] if fault == "before" else ["other", "shop"])
    assert worker.make(Settings(name="other")) is (fault == "before")
    assert worker.worker.standing_by == []
    assert worker.forecast("a", ROME).seq == 2


def test_another_process_is_the_learner_until_it_is_gone() -> None:
    store = MemoryStore()
    first = Hand(store, groups=["city"])
    first.forecast("a", ROME)
    store.ours = False
    second = Hand(store)
    assert second.outcome("a", 1.0).status == 503
    first.outcome("a", 0.0)
    store.ours = True
    second.worker._regain(now=True)
    assert second.outcome("a", 0.0).state == "repeated"
    assert bits(second.hosted) == bits(first.hosted)


def test_a_forecaster_that_another_process_made_is_not_unknown() -> None:
    store = MemoryStore()
    second, first = Hand(store, "late"), Hand(store, groups=["city"])
    first.forecast("a", ROME)
    store.ours = False
    second.name = "shop"
    assert second.forecast("a", ROME).status == 503
    second.name = "other"
    assert second.forecast("a", ROME).status == 404


def test_a_fault_hurts_only_the_request_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, sound = hand(), HostedForecaster.forecast

    def faulty(hosted: HostedForecaster, drafts: Any, now: float) -> Any:
        if any(draft.id == "poison" for draft in drafts):
            sound(hosted, drafts, now)
            raise ZeroDivisionError
        return sound(hosted, drafts, now)

    monkeypatch.setattr(HostedForecaster, "forecast", faulty)
    rows = [row("a", ROME), row("poison", ROME), row("b", BARI)]
    jobs = [lambda promise, each=each: Write(promise, "shop", FORECASTS, [each]) for each in rows]
    found = worker.do(*jobs)
    assert [each[0].id for each in (found[0], found[2])] == ["a", "b"]
    assert found[1].status == 500
    assert "poison" not in worker.hosted.accepted
    assert "Zero" in str(worker.told)
    assert_follows_from_log(worker)


def test_the_log_never_goes_back_in_time() -> None:
    clock = Clock()
    worker = Hand(MemoryStore(), clock=clock, groups=["city"])
    worker.forecast("a", ROME)
    clock.now -= 3600.0
    worker.outcome("a", 1.0)
    worker.forecast("b", ROME)
    times = [event.time for event in worker.store.logs["shop"]]
    assert times == sorted(times)
    assert worker.hosted.figures.mean_delay() == 0.0
    assert_follows_from_log(worker)


@pytest.mark.parametrize("absurd", [1.7e12, 1e308])
def test_a_time_in_another_unit_does_not_move_the_clock(absurd: float) -> None:
    worker = hand(lifetime=60.0)
    worker.forecast("a", ROME, 1.7e9)
    for refused in (
        worker.forecast("b", ROME, absurd),
        worker.outcome("a", 1.0, absurd),
        worker.outcome("c", 1.0, absurd),
    ):
        assert refused.status == 422
        assert "time: given 1" in refused.detail
    assert worker.outcome("a", 1.0, 1.7e9 + 50.0).state == "learned"
    assert_follows_from_log(worker)


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e9])
def test_any_unit_of_time_will_do_from_the_start(unit: float) -> None:
    worker = hand()
    for k in range(3):
        assert worker.forecast(str(k), ROME, unit * (1.7e9 + k * 1e6)).seq
    counted = hand()
    assert [counted.forecast(str(k), ROME, float(10**k)).id for k in range(5)] == [*"01234"]


def test_a_snapshot_and_the_log_since_are_the_whole_log() -> None:
    worker = hand(parked_for=50.0)
    for k, each in enumerate(stream(40)):
        worker.forecasts(each)
        if k % 3:
            worker.outcome(str(k), float(k % 2))
    worker.outcome("early", 1.0)
    worker.worker._snapshotter.keep(Still(worker.hosted))
    worker.forecast("early", ROME)
    worker.forecast("late", BARI)
    worker.correct("1", 0.0)
    again = Hand(worker.store)
    assert again.told[-1][1]["replayed"] == 4
    assert bits(again.hosted) == bits(worker.hosted)
    assert_follows_from_log(again)


def test_a_damaged_snapshot_gives_way_to_the_one_before() -> None:
    worker = hand()
    worker.forecast("a", ROME)
    worker.worker._snapshotter.keep(Still(worker.hosted))
    worker.outcome("a", 1.0)
    worker.worker._snapshotter.keep(Still(worker.hosted))
    newest = max(worker.store.kept)
    worker.store.kept[newest] = worker.store.kept[newest][:-100]
    again = Hand(worker.store)
    assert again.told[-1][1]["snapshot"] == 2
    assert bits(again.hosted) == bits(worker.hosted)


def test_what_is_settled_is_forgotten_by_the_learner() -> None:
    worker = hand(max_open=3)
    for each in stream(10):
        worker.forecasts(each)
    assert [*worker.hosted.accepted] == ["7", "8", "9"]
    assert worker.outcome("2", 1.0).status == 410
    assert worker.outcome("8", 1.0).state == "learned"
    open_forecasts = worker.hosted.live._open_forecasts
    assert not open_forecasts.labelled
    assert not open_forecasts.expired
    assert worker.outcome("8", 1.0).state == "repeated"
    assert worker.forecast("2", ROME).status == 409


def test_limits_of_what_may_wait() -> None:
    worker = hand(limits=Limits(open=2, parked=1, forecasters=1))
    answers = worker.forecasts(*stream(3))
    assert [getattr(each, "status", 200) for each in answers] == [200, 200, 429]
    assert answers[2].retry
    assert worker.outcome("x", 1.0).state == "parked"
    assert worker.outcome("y", 1.0).status == 429
    assert worker.outcome("x", 1.0).state == "repeated"
    assert worker.make(Settings(name="other")).status == 429
    assert worker.make(Settings(name="shop", groups=["city"])) is False
    assert worker.make(Settings(name="shop")).status == 409
    assert Hand(MemoryStore(), max_open=2, limits=Limits(open=2)).forecasts(*stream(3))[2].id == "2"


def test_a_full_queue_refuses_and_a_closed_one_too() -> None:
    worker = Worker(MemoryStore(), limits=Limits(queue=3))
    rows = stream(3)
    worker.submit(Write(Future(), "shop", FORECASTS, rows[:2]))
    with pytest.raises(ApiError, match="full") as refused:
        worker.submit(Write(Future(), "shop", FORECASTS, rows[:2]))
    assert (refused.value.status, refused.value.retry) == (503, 1.0)
    assert (worker.depth, worker.metrics.full) == (2, 1)
    worker.close()
    with pytest.raises(ApiError, match="stopping"):
        worker.submit(Write(Future(), "shop", FORECASTS, rows[:1]))


def test_closing_finishes_what_is_queued_and_takes_a_snapshot() -> None:
    store = MemoryStore()
    worker = Worker(store).start()
    assert worker.call(lambda promise: Make(promise, Settings(name="shop")))
    promises: list[Future[Any]] = [Future() for _ in range(50)]
    for promise, each in zip(promises, stream(50), strict=True):
        worker.submit(Write(promise, "shop", FORECASTS, [each]))
    worker.close()
    assert len({promise.result(0)[0].seq for promise in promises}) == 50
    assert [*store.kept] == [("shop", 51)]
    assert store.appends < 52
    assert not [thread for thread in threading.enumerate() if thread.name == "learner"]


def test_snapshots_are_taken_in_the_background_and_old_ones_dropped() -> None:
    store = MemoryStore()
    worker = Worker(store, every=4, seconds=1e9).start()
    worker.call(lambda promise: Make(promise, Settings(name="shop")))
    for each in stream(30):
        worker.call(lambda promise, each=each: Write(promise, "shop", FORECASTS, [each]))
        if worker._snapshotter.writing is not None:
            worker._snapshotter.writing.result(10)
    assert len(store.kept) == 2
    assert worker.metrics.snapshots.count >= 5
    worker.close()
    assert max(store.kept)[1] == 31


def test_snapshots_of_large_states_are_rare_and_wait_while_windows_end() -> None:
    worker = hand()
    worker.forecasts(*stream(30))
    keeper = Snapshotter(worker.store, worker.worker.metrics, lambda *_, **__: None, 5, 1e9)
    kept: list[int] = []
    keeper.keep = lambda still, before=0: kept.append(still.seq)  # type: ignore[method-assign,assignment]

    def look(**how: bool) -> list[int]:
        keeper.keep_some(worker.worker.forecasters, **how)
        if keeper.writing is not None:
            keeper.writing.result()
        return kept

    keeper.hold("shop", 25)
    assert look() == []  # 6 events, more than 5, but fewer than a quarter of the 30 forecasts that are open
    worker.outcome("0", 1.0)
    assert look(behind=True) == []
    assert look() == [32]
    assert keeper.kept["shop"][1] > time.monotonic() - 1.0
    keeper.hold("shop", 32 - BEHIND * 5)
    assert look(behind=True) == [32, 32]
    keeper.close()


def test_labels_wait_for_their_maturity_by_the_times_given() -> None:
    worker = hand()
    worker.forecast("a", ROME, 100.0, 200.0)
    assert worker.outcome("a", 1.0, 150.0).state == "held"
    assert worker.ask(describe).held == 1
    assert worker.outcome("a", 0.0).status == 409
    worker.forecast("b", ROME, 150.0)
    assert worker.hosted.figures.labels == 0
    worker.forecast("c", ROME, 201.0)
    assert worker.hosted.figures.labels == 1
    assert worker.outcome("b", 1.0, 140.0).status == 422
    assert worker.forecast("d", ROME, 190.0).id == "d"  # late to arrive: counts as made now
    assert worker.outcome("d", 1.0, 195.0).state == "learned"
    assert worker.forecast("e", ROME, None, 300.0).status == 422
    assert_follows_from_log(worker)


def test_an_outcome_that_equals_silence_after_its_window_is_the_first_one() -> None:
    worker = hand(matures=20.0, silence=0)
    worker.forecast("a", ROME, 0.0)
    assert worker.outcome("a", 0.0, 30.0).state == "repeated"
    assert worker.outcome("a", 0.0).state == "repeated"
    assert worker.outcome("a", 1.0).status == 409
    worker.forecast("b", ROME, 5.0)
    both = worker.outcomes(OutcomeRowIn("b", 1.0), OutcomeRowIn("a", 0.0))
    assert [answer.state for answer in both] == ["held", "repeated"]
    assert_follows_from_log(worker)


def test_an_outcome_whose_forecast_expires_in_the_same_batch_is_refused() -> None:
    worker = hand(max_open=1)
    worker.forecast("a", ROME)
    made, answered = worker.do(
        lambda promise: Write(promise, "shop", FORECASTS, [row("b", ROME)]),
        lambda promise: Write(promise, "shop", OUTCOMES, [OutcomeRowIn("a", 1.0)]),
    )
    assert (made[0].id, answered[0].status) == ("b", 410)
    assert_follows_from_log(worker)


def test_labels_wait_for_their_maturity_by_the_services_clock() -> None:
    clock = Clock()
    worker = Hand(MemoryStore(), clock=clock, lifetime=60.0)
    worker.forecast("a", ROME, None, clock.now + 10.0)
    assert worker.outcome("a", 1.0).state == "held"
    worker.forecast("b", BARI)
    clock.now += 20.0
    worker.forecast("c", BARI)
    assert worker.hosted.figures.labels == 1
    clock.now += 100.0
    worker.forecast("d", BARI)
    assert worker.outcome("b", 1.0).status == 410
    assert (worker.ask(describe).expired, worker.outcome("d", 1.0).state) == (2, "learned")
    assert_follows_from_log(worker)


def test_early_outcomes_are_joined_or_lapse() -> None:
    clock = Clock()
    worker = Hand(MemoryStore(), clock=clock, groups=["city"], parked_for=60.0)
    assert worker.outcome("a", 1.0).state == "parked"
    assert worker.outcome("a", 0.0).status == 409
    assert worker.outcome("b", 1.0).state == "parked"
    clock.now += 30.0
    found = worker.forecasts(row("x", ROME), row("a", ROME), row("y", BARI))
    assert [each.id for each in found] == ["x", "a", "y"]
    assert [event.kind for event in worker.store.logs["shop"][-4:]] == ["forecast", "forecast", "outcome", "forecast"]
    assert worker.hosted.figures.labels == 1
    clock.now += 31.0
    worker.forecast("b", BARI)
    assert (worker.hosted.lapsed, worker.hosted.figures.labels) == (1, 1)
    assert worker.outcome("b", 0.0).state == "learned"
    assert_follows_from_log(worker)


def test_bodies_of_events_are_written_as_ever() -> None:
    worker = Hand(MemoryStore(), groups=["city"])
    worker.outcome("a", 1.0)
    worker.outcome("b", 0.0, 3.0)
    worker.forecast("a", ROME)
    worker.correct("a", 0.0)
    found = {event.seq: (event.kind, event.body) for event in worker.store.logs["shop"]}
    issued = b'"p":0.5,"mean":0.5,"low":0.5,"high":0.5625,"weight":0.0,"model":"0"'
    assert found[2] == ("parked", b'{"y":1.0}')
    assert found[3] == ("parked", b'{"y":0.0,"time":3.0}')
    assert found[4] == ("forecast", b'{"record":' + encoded(ROME) + b"," + issued + b"}")
    assert found[5] == ("outcome", b'{"y":1.0,"state":"learned","parked":true}')
    assert found[6] == ("correction", b'{"y":0.0,"before":1.0,"reason":"typing error"}')


def test_weights_are_in_the_log_and_count_in_every_figure() -> None:
    worker = Hand(MemoryStore(), groups=["city"], scores=["s"], watch=Watch(max_weight=4.0))
    draw, n = rng(5), 120
    y, weight, score = (draw.random(n) < 0.4).astype(float), draw.choice([1.0, 2.0, 4.0], n), draw.random(n)
    weight[:2] = 2.0, 1.0
    means: list[float] = []
    for start in range(0, n, 40):
        chunk = range(start, start + 40)
        means += [worker.forecast(str(k), {**ROME, "s": float(score[k])}).mean for k in chunk]
        worker.outcomes(*(OutcomeRowIn(str(k), float(y[k]), weight=float(weight[k])) for k in chunk))
    bodies = {event.id: event.body for event in worker.store.logs["shop"] if event.kind == "outcome"}
    assert bodies["0"] == b'{"y":%.1f,"state":"learned","weight":2.0}' % y[0]
    assert bodies["1"] == b'{"y":%.1f,"state":"learned"}' % y[1]
    found, error = worker.ask(describe), (np.array(means) - y) ** 2
    assert (found.labels, found.weighted) == (n, int((weight != 1).sum()))
    assert found.base_rate == pytest.approx(np.average(y, weights=weight))
    assert found.brier.forecast == pytest.approx(np.average(error, weights=weight))
    for bin in found.reliability:
        own = [w for w, mean in zip(weight, means, strict=True) if bin["from"] <= mean < bin["to"]]
        assert bin["labels"] == pytest.approx(sum(own) ** 2 / sum(w**2 for w in own))
    change = error - (score - y) ** 2
    mean = np.average(change, weights=weight)
    reach = 1.96 * np.sqrt((weight**2 * (change - mean) ** 2).sum()) / weight.sum()
    beside = found.scores[0]
    assert (beside.difference, beside.high) == pytest.approx((mean, mean + reach), abs=1e-7)
    sizes = {size["group"]: size for size in worker.ask(alarms)["sizes"]}
    assert sizes["all rows"]["gap"] == pytest.approx(np.average(y - means, weights=weight))
    again = HostedForecaster(worker.hosted.settings)
    again.apply(worker.store.logs["shop"])
    assert bits(again) == bits(worker.hosted)
    assert_follows_from_log(worker)


def test_clusters_bet_once_and_follow_from_the_log() -> None:
    worker = hand(watch=Watch(clusters="patient"), drop=["patient"])
    draw, n = rng(7), 90
    rows = [row(str(k), {**ROME, "patient": int(draw.integers(0, 30))}) for k in range(n)]
    worker.forecasts(*rows)
    absent = worker.forecast("x", ROME)
    assert (absent.status, "'patient'" in absent.detail) == (422, True)
    assert worker.forecast("y", {**ROME, "patient": None}).status == 422
    answers = worker.outcomes(*(OutcomeRowIn(str(k), float(draw.random() < 0.5)) for k in range(n)))
    assert {answer.state for answer in answers} == {"learned"}
    clusters = len({one.values["patient"] for one in rows})
    assert f"Tested: {clusters} clusters" in worker.ask(alarms)["sentence"]
    assert worker.hosted.monitor.rows == n
    assert_follows_from_log(worker)
    store, found = worker.store, worker.hosted
    pieces = HostedForecaster(found.settings)
    for start in range(0, len(store.logs["shop"]), 7):  # pages that cut a batch
        pieces.apply(store.logs["shop"][start : start + 7])
    assert bits(pieces) == bits(found)
    audited = audit(store, found.settings, AuditedPeriod())
    assert audited.sums.tally.clusters.clusters == clusters


def test_ranges_of_numbers_are_learned_and_follow_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_settings, "LEARNED", 40)
    worker = hand(watch=Watch(numbers=["age"]), drop=["age"])
    draw, n = rng(7), 90
    worker.forecasts(*(row(str(k), {**ROME, "age": [k, None, str(k)][k % 3]}) for k in range(n)))
    refused = worker.forecast("x", {**ROME, "age": "old"})
    assert (refused.status, "'age'" in refused.detail) == (422, True)
    worker.outcomes(*(OutcomeRowIn(str(k), float(draw.random() < 0.5)) for k in range(30)))
    assert "still being learned: age (20 of" in worker.ask(alarms)["sentence"]
    worker.outcomes(*(OutcomeRowIn(str(k), float(draw.random() < 0.5)) for k in range(30, n)))
    assert len(worker.hosted.monitor.edges["age"]) == 7
    assert_follows_from_log(worker)
    pieces = HostedForecaster(worker.hosted.settings)
    for start in range(0, len(worker.store.logs["shop"]), 7):  # pages that cut a batch
        pieces.apply(worker.store.logs["shop"][start : start + 7])
    assert bits(pieces) == bits(worker.hosted)


def test_a_snapshot_from_before_weights_counts_each_outcome_once() -> None:
    figures, rows = Figures(("blend",)), rng(2).random((30, 4))
    outcomes = (rows[:, 0] < 0.5).astype(float)
    figures.learn(Learned([*"a" * 30], outcomes, rows[:, 1], rows[:, 2], rows[:, :1], rows[:, 3:]), 1.0)
    arrays = dict(figures.to_state().arrays)
    del arrays["counts"]
    arrays["score_sums"], arrays["reliability"] = np.zeros((1, 4)), arrays["reliability"][:, :3]
    state = State(arrays, figures.to_state().manifest)
    again = Figures.from_state(state, ("blend",))
    for name, values in figures.to_state().arrays.items():
        assert np.array_equal(values, again.to_state().arrays[name]), name


def mixed(**settings: Any) -> Hand:
    """Return a forecaster with open forecasts, given scores, and outcomes with weights at different times."""
    worker, draw = hand(scores=["s"], watch=Watch(max_weight=4.0), **settings), rng(3)
    values = ["Rome", 1, 1.0, True, None, "1", "é"]
    for k in range(40):
        record = {"city": values[int(draw.integers(len(values)))], "price": float(k), "s": float(draw.random())}
        worker.clock.now += float(draw.random())
        worker.forecast(str(k), record)
        if k % 3:
            worker.clock.now += 0.25
            worker.outcome(str(k), float(draw.random() < 0.4), weight=1.0 + (k % 4 == 1))
    return worker


def test_the_monitor_is_fed_as_one_beside_at_the_time_of_acceptance() -> None:
    worker = mixed()
    beside, made = Monitor(["city"], **asdict_of(worker.hosted.settings.watch)), {}
    for event in worker.store.logs["shop"]:
        if event.kind == "forecast":
            made[event.id] = forecast_body(event.body)
        elif event.kind == "outcome":
            body, found = outcome_body(event.body), made[event.id]
            city, time = record_of(found.record)["city"], np.datetime64(round(event.time * 1e6), "us")
            beside.add({"city": city}, found.mean, body.y, time, weights=body.counts)
    ours, theirs = worker.hosted.monitor.to_state(), beside.to_state()
    assert ours.manifest == theirs.manifest
    assert [name for name, each in theirs.arrays.items() if each.tobytes() != ours.arrays[name].tobytes()] == []
    assert worker.hosted.monitor.clock_kind == "dates"


def test_a_snapshot_with_the_monitor_beside_goes_on_as_it_was() -> None:
    found = mixed().hosted
    still, columns = Still(found), {str(id): found.live._open_forecasts.opened[id] for id in found.accepted}
    live, own = still.states()["live"], still.states()["own"]
    watched = found.live._scheduler.monitor_feed.opened
    opened = {id: (found.accepted[id], None, watched[slot]) for id, slot in columns.items()}
    sums = {"figures.score_sums": live.arrays["score_sums"]}
    kept = {name: values for name, values in live.arrays.items() if not name.startswith("monitor.")}
    kept["score_sums"] = kept["score_sums"][:, :4]  # each label once
    manifest = {name: value for name, value in live.manifest.items() if name != "watched"}
    parts = {
        "live": packed(LIVE_FILE, State(kept, manifest)),
        "monitor": packed(MONITOR_FILE, found.monitor.to_state()),
        "opened": encoded(opened),
        "parked": b'{"early": [1.0, null, 12.0], "heavy": [0.0, 3.0, 13.0, 2.0]}',
    }
    arrays = {name: np.frombuffer(content, np.uint8) for name, content in parts.items()}
    arrays |= {name: values for name, values in own.arrays.items() if name != "accepted"} | sums
    figures = {**own.manifest["figures"], "scores": 1}
    content = packed(HOSTED, State(arrays, {**own.manifest, "figures": figures}))
    found.park("early", 12.0)
    found.park("heavy", 13.0)
    assert bits(restored(content)) == bits(found)


def test_early_outcomes_lapse_by_the_clock_without_any_event() -> None:
    clock = Clock()
    worker = Hand(MemoryStore(), clock=clock, groups=["city"], parked_for=60.0)
    worker.outcome("a", 1.0)
    clock.now += 60.0
    assert (worker.ask(describe).parked, worker.ask(describe).lapsed) == (1, 0)
    clock.now += 1.0
    found = worker.ask(describe)
    assert (found.parked, found.lapsed, found.seq) == (0, 1, 2)


def test_metrics_are_collected_again_only_after_something_happened() -> None:
    clock = Clock()
    worker = Hand(MemoryStore(), clock=clock, groups=["city"], parked_for=60.0)
    worker.forecast("a", ROME)
    worker.outcome("early", 1.0)
    known = worker.ask(lambda hosted: collect(hosted, 9))
    assert worker.ask(lambda hosted: collect(hosted, 9, known)) is known
    clock.now += 61.0
    lapsed = worker.ask(lambda hosted: collect(hosted, 9, known))
    assert (lapsed.status.lapsed, lapsed.status.seq) == (1, known.status.seq)
    worker.outcome("a", 1.0)
    assert worker.ask(lambda hosted: collect(hosted, 9, lapsed)).status.labels == 1


def test_a_correction_is_logged_and_nothing_is_unlearned() -> None:
    worker = hand()
    worker.forecast("a", ROME)
    assert worker.correct("a", 0.0).status == 409
    assert worker.correct("z", 0.0).status == 404
    worker.outcome("a", 1.0)
    before = bits(worker.hosted)["live"]
    found = worker.correct("a", 0.0)
    assert (found.before, found.y) == (1.0, 0.0)
    assert worker.correct("a", 0.0) == found
    assert worker.correct("a", 0.0, weight=1.0).seq > found.seq, "another weight is another correction"
    assert worker.correct("a", 1.0, "right after all").before == 0.0
    assert bits(worker.hosted)["live"] == before
    assert worker.outcome("a", 1.0).state == "repeated"
    assert_follows_from_log(worker)


def test_status_alarms_and_certificate_say_how_it_stands() -> None:
    worker = hand()
    assert certificate(worker.ask(engine))["rounds"] == 0
    draw = rng(3)
    for start in range(0, 400, 100):
        rows = [row(str(k), {"city": "Rome" if k % 2 else "Bari"}) for k in range(start, start + 100)]
        worker.forecasts(*rows)
        y = (draw.random(100) < np.where(np.arange(start, start + 100) % 2, 0.8, 0.2)).astype(float).tolist()
        worker.outcomes(*(OutcomeRowIn(str(start + k), y[k], None) for k in range(100)))
    found = worker.ask(describe)
    assert (found.forecasts, found.labels, found.coverage, found.open) == (400, 400, 1.0, 0)
    assert found.brier.forecast < found.brier.base_rate
    assert sum(bin["labels"] for bin in found.reliability) == 400
    assert sum(period["labels"] for period in found.over_time) == 400
    assert np.isclose(sum(p["labels"] * p["brier"] for p in found.over_time) / 400, found.brier.forecast)
    assert {size["group"] for size in worker.ask(alarms)["sizes"]} == {"all rows", "city = Rome", "city = Bari"}
    told = certificate(worker.ask(engine))
    assert told["holds"]
    assert "400 outcomes" in told["sentence"]
    assert "distributions" in told["sentence"]
    assert "issued levels themselves, as drawn" in told["words"]
    assert told["issued"] == asdict(found.issued)
    assert found.issued.labels == 400
    assert 0 < found.issued.smcal_2 < found.issued.smcal_1 < found.issued.weight == 400.0


def test_an_early_outcome_dated_beyond_its_forecasts_life_is_not_lost() -> None:
    worker = hand(lifetime=100.0, watch=Watch(max_weight=4.0))
    assert worker.outcome("x", 1.0, 1000.0, weight=3.0).state == "parked"
    assert worker.forecast("x", ROME, 10.0).id == "x"
    assert worker.outcome("x", 0.0, 20.0).status == 409
    assert worker.outcome("x", 1.0, weight=3.0).state == "repeated"
    assert worker.hosted.live.status().labels == 1
    assert_follows_from_log(worker)


def test_a_state_at_rest_stays_as_it_was() -> None:
    worker = hand()
    worker.forecasts(*stream(5))
    still = Still(worker.hosted)
    before = still.to_bytes()
    worker.forecasts(*(row(f"new {k}", {"city": f"city {k}", "price": 1.0}) for k in range(20)))
    assert still.to_bytes() == before


def test_a_digest_does_not_hang_on_a_clock_that_went_on() -> None:
    clock = Clock()
    worker = Hand(MemoryStore(), clock=clock, groups=["city"], parked_for=60.0)
    worker.forecast("a", ROME)
    worker.outcome("unknown", 1.0)
    before = Still(worker.hosted).digest()
    clock.now += 100.0
    worker.forecast("a", ROME)  # repeated: no event
    assert worker.hosted.lapsed == 1
    assert Still(worker.hosted).digest() == before


def test_a_snapshot_that_fails_is_tried_again_after_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = hand()
    worker.forecasts(*stream(5))
    monkeypatch.setattr(worker.store, "keep_snapshot", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    worker.worker._snapshotter.keep(Still(worker.hosted), 3)
    assert worker.worker._snapshotter.kept["shop"][0] == 3
    assert worker.worker._snapshotter.rested > time.monotonic()


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    class Full(io.RawIOBase):
        def write(self, content: Any) -> int:
            raise OSError(28, "No space left on device")

    JsonLog("all", Full())("commit", first=1)


def test_nobody_is_left_waiting_when_even_the_rebuilding_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = hand()
    worker.forecasts(*stream(3))
    monkeypatch.setattr(worker.worker, "_regain", lambda **_: 1 / 0)
    monkeypatch.setattr(worker.store, "append", lambda _: (_ for _ in ()).throw(Unavailable("gone")))
    assert worker.forecast("late", ROME).status == 503
    monkeypatch.undo()
    worker.worker._regain(now=True)
    assert worker.forecast("late", ROME).id == "late"
    assert_follows_from_log(worker)


def test_rows_hold_what_their_json_means() -> None:
    forecast = msgspec.json.decode(
        b'{"id": 7, "record": {"a": 1}, "time": "1970-01-02", "matures": 9}', type=ForecastIn
    )
    assert (forecast.id, forecast.time, forecast.matures, forecast.values) == ("7", 86400.0, 9.0, {"a": 1})
    outcome = msgspec.json.decode(b'{"id": "a", "y": true, "time": 3}', type=OutcomeRowIn)
    assert (outcome.id, type(outcome.y), outcome.y, type(outcome.time)) == ("a", float, 1.0, float)
    assert OutcomeRowIn("a", True) == OutcomeRowIn("a", 1.0)
    with pytest.raises(ApiError, match="time: given 'soon'"):
        OutcomeRowIn("a", 1.0, cast(Any, "soon"))


def test_an_outcome_may_come_at_the_time_of_its_forecast_and_not_before() -> None:
    worker = hand()
    worker.forecast("a", ROME, 5.0)
    assert worker.outcome("a", 1.0, 4.0).status == 422
    assert worker.outcome("a", 1.0, 5.0).state == "learned"


def test_what_a_commit_takes_is_within_what_commits_took() -> None:
    worker = hand()
    for k in range(20):
        worker.forecast(f"{k}", ROME)
    assert 0.0 < worker.worker._commit < worker.worker.metrics.commits.total


def test_it_is_ready_while_it_learns_all_there_is_and_takes_jobs() -> None:
    worker = Worker(MemoryStore())
    assert not worker.ready
    worker.start()
    worker.call(lambda promise: Make(promise, Settings(name="shop")))
    assert worker.ready
    held, ended = Future(), Future()  # type: Future[None], Future[None]

    def hold(_: HostedForecaster) -> None:
        held.set_result(None)
        ended.result(60)

    worker.submit(Ask(Future(), "shop", hold))
    held.result(60)  # the learning thread stays at this question
    worker._lost["shop"] = None
    assert not worker.ready
    worker._lost.clear()
    assert worker.ready
    closing = threading.Thread(target=worker.close)
    closing.start()
    while not worker._queue.closing:
        time.sleep(0.001)
    assert not worker.ready
    ended.set_result(None)
    closing.join()


def test_nothing_is_learned_here_while_the_store_is_out_of_reach() -> None:
    worker = hand()
    worker.forecast("a", ROME)
    worker.store.down = True
    worker.worker._regain(now=True)
    assert worker.worker.standing_by == ["shop"]
    worker.store.down = False
    worker.worker._regain(now=True)
    assert (worker.worker.standing_by, worker.worker.metrics.rebuilds) == ([], 0)


def test_the_store_is_looked_at_now_and_then_not_after_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, looks = hand(), []
    monkeypatch.setattr(worker.store, "ping", lambda: looks.append(1))
    for _ in range(5):
        worker.worker._regain()
    worker.worker._again = time.monotonic()
    worker.worker._regain()
    assert len(looks) == 1


def test_a_question_sees_what_was_written_in_its_batch() -> None:
    worker = hand()
    asked = worker.do(
        lambda promise: Ask(promise, "shop", lambda hosted: [*hosted.accepted]),
        lambda promise: Write(promise, "shop", FORECASTS, [row("a", ROME)]),
    )
    assert asked[0] == ["a"]


def test_a_time_may_be_twice_the_latest_and_no_more() -> None:
    worker = hand()
    worker.forecast("a", ROME, 1.0)
    latest = worker.clock.now
    assert worker.forecast("b", ROME, np.nextafter(2.0 * latest, np.inf)).status == 422
    assert worker.forecast("c", ROME, 2.0 * latest).id == "c"


def test_a_correction_for_another_reason_is_another() -> None:
    worker = hand()
    worker.forecast("a", ROME)
    worker.outcome("a", 1.0)
    first = worker.correct("a", 0.0, "typing error")
    assert worker.correct("a", 0.0, "typing error") == first
    assert worker.correct("a", 0.0, "the form was read again").seq == first.seq + 1


def test_the_longest_wait_and_the_ends_of_periods_stay() -> None:
    figures, one = Figures(("blend",)), np.array([1.0])
    figures.wait(50.0)
    figures.wait(2.0)
    assert figures.delay == [52.0, 50.0]
    learned = Learned(["a"], one, 0.5 * one, 0.6 * one, np.array([[0.7]]), np.zeros((1, 0)))
    for k in range(129):  # one more than there are periods: now there are two labels in each but the last
        figures.learn(learned, float(k))
    periods = figures.over_time()
    assert [(each["from"], each["to"]) for each in (periods[0], periods[1], periods[-1])] == [
        (0, 1),
        (2, 3),
        (128, 128),
    ]


def test_a_delay_at_the_edge_of_a_bin_is_below_it() -> None:
    """Prometheus counts delays up to and with an edge."""
    figures = Figures(("blend",))
    for seconds in (0.0, 1.0, 1.001, 60.0, 3e6):
        figures.wait(seconds)
    assert figures.delays == [2.0, 1.0, 1.0, *6 * [0.0], 1.0]


def test_a_log_may_lack_declared_columns_and_a_request_may_not() -> None:
    worker = hand()
    worker.forecast("a", ROME)
    again = HostedForecaster(worker.hosted.settings)
    again.apply(worker.store.logs["shop"])
    refused = again.forecast([row("b", {"price": 3.0})], worker.clock.now)[0]
    assert isinstance(refused, ValueError)
    assert "city" in str(refused)


def test_a_log_with_an_event_that_is_refused_now_is_refused() -> None:
    worker = hand()
    with pytest.raises(ValueError, match="event 2, which is refused now"):
        worker.hosted.apply([Event("shop", 2, "outcome", "unknown", worker.clock.now, b'{"y":1.0}')])


def test_an_early_outcome_that_was_pruned_while_it_waited_is_given_up() -> None:
    worker = hand()
    worker.outcome("early", 1.0)
    worker.store.logs["shop"][1] = worker.store.logs["shop"][1]._replace(id="")
    assert worker.forecast("early", ROME).id == "early"
    assert (worker.hosted.figures.labels, worker.hosted.parked) == (0, {})
    assert worker.outcome("early", 0.0).state == "learned"


def test_a_weight_is_at_least_one_and_stays() -> None:
    worker = hand(watch=Watch(max_weight=4.0))
    worker.forecast("a", ROME)
    assert worker.outcome("a", 1.0, weight=0.5).status == 422
    assert worker.outcome("a", 1.0, weight=2.0).state == "learned"
    refused = worker.outcome("a", 1.0, weight=3.0)
    assert (refused.status, refused.more["known"]) == (409, 2.0)
