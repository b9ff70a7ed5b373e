"""The desk: one order, one commit, and what happens when that fails."""

import inspect
import io
import threading
import time
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

pytest.importorskip("msgspec")

from swapcal.live import Live
from swapcal.service.api_error import Refusal
from swapcal.service.events import OutcomeRow
from swapcal.service.hosted import Ward
from swapcal.service.queue import FORECASTS, OUTCOMES, Make, Write
from swapcal.service.settings import LIVE, JsonLog, Limits, Settings
from swapcal.service.snapshots import Still
from swapcal.service.status import alarms, certificate, describe, engine
from swapcal.service.store import Unavailable
from swapcal.service.worker import Desk
from tests.memory_store import MemoryStore
from tests.service_desk import Clock, Hand, assert_follows_from_log, bits, rng, row

ROME, BARI = {"city": "Rome", "price": 3.0}, {"city": "Bari", "price": 4}


def hand(**settings: Any) -> Hand:
    return Hand(MemoryStore(), **{"groups": ["city"], **settings})


def stream(n: int, seed: int = 0) -> list[Any]:
    draw = rng(seed)
    cities, prices = draw.choice(["Rome", "Bari", "Pisa"], n).tolist(), draw.random(n).tolist()
    return [row(str(k), {"city": cities[k], "price": prices[k]}) for k in range(n)]


def test_every_setting_of_live_can_be_set() -> None:
    known = {name for name in inspect.signature(Live.__init__).parameters if name not in ("self", "models", "monitor")}
    assert set(LIVE) == known
    defaults = {name: parameter.default for name, parameter in inspect.signature(Live.__init__).parameters.items()}
    own = Settings(name="shop")
    assert all(getattr(own, name) == (defaults[name] if defaults[name] != () else []) for name in LIVE)


def test_a_batch_is_as_one_by_one() -> None:
    one, many = hand(), hand()
    rows, y = stream(60), (rng(1).random(60) < 0.3).astype(float).tolist()
    labels = [OutcomeRow(str(k), y[k], None) for k in range(60)]
    for k in range(0, 60, 20):
        together = many.forecasts(*rows[k : k + 20])
        alone = [one.forecasts(each)[0] for each in rows[k : k + 20]]
        assert [each.issued for each in together] == [each.issued for each in alone]
        assert [each.state for each in many.outcomes(*labels[k : k + 20])] == ["learned"] * 20
        assert {one.outcomes(each)[0].state for each in labels[k : k + 20]} == {"learned"}
    assert bits(one.ward) != bits(hand().ward)
    same, other = bits(one.ward), bits(many.ward)
    assert {key for key in same if same[key] != other[key]} <= {"own"}  # sequence numbers: the order of kinds differs
    assert one.ward.figures.brier() == many.ward.figures.brier()
    assert_follows_from_log(one)
    assert_follows_from_log(many)


def test_a_bad_row_spoils_only_its_own_answer() -> None:
    desk = hand()
    desk.forecast("first", ROME)
    found = desk.forecasts(row("a", ROME), row("b", {"city": "Rome", "price": "cheap"}), row("c", BARI))
    assert [getattr(each, "id", each.__class__) for each in found] == ["a", Refusal, "c"]
    assert "price" in found[1].detail
    assert found[1].status == 422
    assert_follows_from_log(desk)


def test_an_outcome_and_its_forecast_of_one_batch_meet() -> None:
    desk = hand()
    found = desk.do(
        lambda promise: Write(promise, "shop", OUTCOMES, [OutcomeRow("a", 1.0, None)]),
        lambda promise: Write(promise, "shop", FORECASTS, [row("a", ROME)]),
    )
    assert [found[0][0].state, found[1][0].id] == ["learned", "a"]
    assert desk.store.appends == 2


@pytest.mark.parametrize("fault", ["before", "after", "conflict"])
def test_a_failed_commit_is_not_acknowledged_and_the_learner_is_as_the_log(fault: str) -> None:
    desk = hand()
    for each in stream(30):
        desk.forecasts(each)
    before = bits(desk.ward)
    desk.store.fault = fault
    found = desk.outcomes(*(OutcomeRow(str(k), 1.0, None) for k in range(20)))
    assert (found.status, found.retry) == (503, 1.0)
    assert_follows_from_log(desk)
    assert (bits(desk.ward) == before) == (fault != "after")
    again = desk.outcomes(*(OutcomeRow(str(k), 1.0, None) for k in range(20)))
    assert {each.state for each in again} == {"repeated" if fault == "after" else "learned"}
    assert desk.ward.figures.labels == 20
    assert desk.desk.gauge.failures == 1
    assert_follows_from_log(desk)


def test_a_store_out_of_reach_is_503_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = hand()
    desk.forecast("a", ROME)
    desk.store.down = True
    assert desk.outcome("a", 1.0).status == 503
    assert desk.forecast("b", ROME).status == 503
    assert desk.desk.standing_by == ["shop"]
    desk.store.down = False
    desk.desk._regain(now=True)
    assert desk.outcome("a", 1.0).state == "learned"
    assert_follows_from_log(desk)


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_forecaster_that_may_have_been_made_is_looked_up(fault: str) -> None:
    desk = hand()
    desk.store.fault = fault
    assert desk.make(Settings(name="other")).status == 503
    assert sorted(desk.desk.wards) == (["shop"] if fault == "before" else ["other", "shop"])
    assert desk.make(Settings(name="other")) is (fault == "before")
    assert desk.desk.standing_by == []
    assert desk.forecast("a", ROME).seq == 2


def test_another_process_is_the_learner_until_it_is_gone() -> None:
    store = MemoryStore()
    first = Hand(store, groups=["city"])
    first.forecast("a", ROME)
    store.ours = False
    second = Hand(store)
    assert second.outcome("a", 1.0).status == 503
    first.outcome("a", 0.0)
    store.ours = True
    second.desk._regain(now=True)
    assert second.outcome("a", 0.0).state == "repeated"
    assert bits(second.ward) == bits(first.ward)


def test_a_fault_hurts_only_the_request_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, sound = hand(), Ward.forecast

    def faulty(ward: Ward, drafts: Any, now: float) -> Any:
        if any(draft.id == "poison" for draft in drafts):
            sound(ward, drafts, now)
            raise ZeroDivisionError
        return sound(ward, drafts, now)

    monkeypatch.setattr(Ward, "forecast", faulty)
    rows = [row("a", ROME), row("poison", ROME), row("b", BARI)]
    jobs = [lambda promise, each=each: Write(promise, "shop", FORECASTS, [each]) for each in rows]
    found = desk.do(*jobs)
    assert [each[0].id for each in (found[0], found[2])] == ["a", "b"]
    assert found[1].status == 500
    assert "poison" not in desk.ward.opened
    assert "Zero" in str(desk.told)
    assert_follows_from_log(desk)


def test_the_log_never_goes_back_in_time() -> None:
    clock = Clock()
    desk = Hand(MemoryStore(), clock=clock, groups=["city"])
    desk.forecast("a", ROME)
    clock.now -= 3600.0
    desk.outcome("a", 1.0)
    desk.forecast("b", ROME)
    times = [event.time for event in desk.store.logs["shop"]]
    assert times == sorted(times)
    assert desk.ward.figures.mean_delay() == 0.0
    assert_follows_from_log(desk)


@pytest.mark.parametrize("absurd", [1.7e12, 1e308])
def test_a_time_in_another_unit_does_not_move_the_clock(absurd: float) -> None:
    desk = hand(lifetime=60.0)
    desk.forecast("a", ROME, 1.7e9)
    for refused in (desk.forecast("b", ROME, absurd), desk.outcome("a", 1.0, absurd), desk.outcome("c", 1.0, absurd)):
        assert refused.status == 422
        assert "time: given 1" in refused.detail
    assert desk.outcome("a", 1.0, 1.7e9 + 50.0).state == "learned"
    assert_follows_from_log(desk)


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e9])
def test_any_unit_of_time_will_do_from_the_start(unit: float) -> None:
    desk = hand()
    for k in range(3):
        assert desk.forecast(str(k), ROME, unit * (1.7e9 + k * 1e6)).seq
    counted = hand()
    assert [counted.forecast(str(k), ROME, float(10**k)).id for k in range(5)] == [*"01234"]


def test_a_snapshot_and_the_log_since_are_the_whole_log() -> None:
    desk = hand(parked_for=50.0)
    for k, each in enumerate(stream(40)):
        desk.forecasts(each)
        if k % 3:
            desk.outcome(str(k), float(k % 2))
    desk.outcome("early", 1.0)
    desk.desk._keeper.keep(Still(desk.ward))
    desk.forecast("early", ROME)
    desk.forecast("late", BARI)
    desk.correct("1", 0.0)
    again = Hand(desk.store)
    assert again.told[-1][1]["replayed"] == 4
    assert bits(again.ward) == bits(desk.ward)
    assert_follows_from_log(again)


def test_a_damaged_snapshot_gives_way_to_the_one_before() -> None:
    desk = hand()
    desk.forecast("a", ROME)
    desk.desk._keeper.keep(Still(desk.ward))
    desk.outcome("a", 1.0)
    desk.desk._keeper.keep(Still(desk.ward))
    newest = max(desk.store.kept)
    desk.store.kept[newest] = desk.store.kept[newest][:-100]
    again = Hand(desk.store)
    assert again.told[-1][1]["snapshot"] == 2
    assert bits(again.ward) == bits(desk.ward)


def test_what_is_settled_is_forgotten_by_the_learner() -> None:
    desk = hand(max_open=3)
    for each in stream(10):
        desk.forecasts(each)
    assert [*desk.ward.opened] == ["7", "8", "9"]
    assert desk.outcome("2", 1.0).status == 410
    assert desk.outcome("8", 1.0).state == "learned"
    ledger = desk.ward.live._ledger
    assert not ledger.labelled
    assert not ledger.expired
    assert desk.outcome("8", 1.0).state == "repeated"
    assert desk.forecast("2", ROME).status == 409


def test_limits_of_what_may_wait() -> None:
    desk = hand(limits=Limits(open=2, parked=1, forecasters=1))
    answers = desk.forecasts(*stream(3))
    assert [getattr(each, "status", 200) for each in answers] == [200, 200, 429]
    assert answers[2].retry
    assert desk.outcome("x", 1.0).state == "parked"
    assert desk.outcome("y", 1.0).status == 429
    assert desk.outcome("x", 1.0).state == "repeated"
    assert desk.make(Settings(name="other")).status == 429
    assert desk.make(Settings(name="shop", groups=["city"])) is False
    assert desk.make(Settings(name="shop")).status == 409
    assert Hand(MemoryStore(), max_open=2, limits=Limits(open=2)).forecasts(*stream(3))[2].id == "2"


def test_a_full_queue_refuses_and_a_closed_one_too() -> None:
    desk = Desk(MemoryStore(), limits=Limits(queue=3))
    rows = stream(3)
    desk.submit(Write(Future(), "shop", FORECASTS, rows[:2]))
    with pytest.raises(Refusal, match="full") as refused:
        desk.submit(Write(Future(), "shop", FORECASTS, rows[:2]))
    assert (refused.value.status, refused.value.retry) == (503, 1.0)
    assert (desk.depth, desk.gauge.full) == (2, 1)
    desk.close()
    with pytest.raises(Refusal, match="stopping"):
        desk.submit(Write(Future(), "shop", FORECASTS, rows[:1]))


def test_closing_finishes_what_is_queued_and_takes_a_snapshot() -> None:
    store = MemoryStore()
    desk = Desk(store).start()
    assert desk.call(lambda promise: Make(promise, Settings(name="shop")))
    promises: list[Future[Any]] = [Future() for _ in range(50)]
    for promise, each in zip(promises, stream(50), strict=True):
        desk.submit(Write(promise, "shop", FORECASTS, [each]))
    desk.close()
    assert len({promise.result(0)[0].seq for promise in promises}) == 50
    assert [*store.kept] == [("shop", 51)]
    assert store.appends < 52
    assert not [thread for thread in threading.enumerate() if thread.name == "learner"]


def test_snapshots_are_taken_in_the_background_and_old_ones_dropped() -> None:
    store = MemoryStore()
    desk = Desk(store, every=4, seconds=1e9).start()
    desk.call(lambda promise: Make(promise, Settings(name="shop")))
    for each in stream(30):
        desk.call(lambda promise, each=each: Write(promise, "shop", FORECASTS, [each]))
        if desk._keeper.writing is not None:
            desk._keeper.writing.result(10)
    assert len(store.kept) == 2
    assert desk.gauge.snapshots.count >= 5
    desk.close()
    assert max(store.kept)[1] == 31


def test_labels_wait_for_their_maturity_by_the_times_given() -> None:
    desk = hand()
    desk.forecast("a", ROME, 100.0, 200.0)
    assert desk.outcome("a", 1.0, 150.0).state == "held"
    assert desk.ask(describe).held == 1
    assert desk.outcome("a", 0.0).status == 409
    desk.forecast("b", ROME, 150.0)
    assert desk.ward.figures.labels == 0
    desk.forecast("c", ROME, 201.0)
    assert desk.ward.figures.labels == 1
    assert desk.outcome("b", 1.0, 140.0).status == 422
    assert desk.forecast("d", ROME, 190.0).id == "d"  # late to arrive: counts as made now
    assert desk.outcome("d", 1.0, 195.0).state == "learned"
    assert desk.forecast("e", ROME, None, 300.0).status == 422
    assert_follows_from_log(desk)


def test_labels_wait_for_their_maturity_by_the_services_clock() -> None:
    clock = Clock()
    desk = Hand(MemoryStore(), clock=clock, lifetime=60.0)
    desk.forecast("a", ROME, None, clock.now + 10.0)
    assert desk.outcome("a", 1.0).state == "held"
    desk.forecast("b", BARI)
    clock.now += 20.0
    desk.forecast("c", BARI)
    assert desk.ward.figures.labels == 1
    clock.now += 100.0
    desk.forecast("d", BARI)
    assert desk.outcome("b", 1.0).status == 410
    assert (desk.ask(describe).expired, desk.outcome("d", 1.0).state) == (2, "learned")
    assert_follows_from_log(desk)


def test_early_outcomes_are_joined_or_lapse() -> None:
    clock = Clock()
    desk = Hand(MemoryStore(), clock=clock, groups=["city"], parked_for=60.0)
    assert desk.outcome("a", 1.0).state == "parked"
    assert desk.outcome("a", 0.0).status == 409
    assert desk.outcome("b", 1.0).state == "parked"
    clock.now += 30.0
    found = desk.forecasts(row("x", ROME), row("a", ROME), row("y", BARI))
    assert [each.id for each in found] == ["x", "a", "y"]
    assert [event.kind for event in desk.store.logs["shop"][-4:]] == ["forecast", "forecast", "outcome", "forecast"]
    assert desk.ward.figures.labels == 1
    clock.now += 31.0
    desk.forecast("b", BARI)
    assert (desk.ward.lapsed, desk.ward.figures.labels) == (1, 1)
    assert desk.outcome("b", 0.0).state == "learned"
    assert_follows_from_log(desk)


def test_a_correction_is_logged_and_nothing_is_unlearned() -> None:
    desk = hand()
    desk.forecast("a", ROME)
    assert desk.correct("a", 0.0).status == 409
    assert desk.correct("z", 0.0).status == 404
    desk.outcome("a", 1.0)
    before = bits(desk.ward)["live"]
    found = desk.correct("a", 0.0)
    assert (found.before, found.y, found.repeated) == (1.0, 0.0, False)
    assert desk.correct("a", 0.0) == found._replace(repeated=True)
    assert desk.correct("a", 1.0, "right after all").before == 0.0
    assert bits(desk.ward)["live"] == before
    assert desk.outcome("a", 1.0).state == "repeated"
    assert_follows_from_log(desk)


def test_status_alarms_and_certificate_say_how_it_stands() -> None:
    desk = hand()
    assert certificate(desk.ask(engine))["rounds"] == 0
    draw = rng(3)
    for start in range(0, 400, 100):
        rows = [row(str(k), {"city": "Rome" if k % 2 else "Bari"}) for k in range(start, start + 100)]
        desk.forecasts(*rows)
        y = (draw.random(100) < np.where(np.arange(start, start + 100) % 2, 0.8, 0.2)).astype(float).tolist()
        desk.outcomes(*(OutcomeRow(str(start + k), y[k], None) for k in range(100)))
    found = desk.ask(describe)
    assert (found.forecasts, found.labels, found.coverage, found.open) == (400, 400, 1.0, 0)
    assert found.brier.forecast < found.brier.base_rate
    assert sum(bin["labels"] for bin in found.reliability) == 400
    assert sum(period["labels"] for period in found.over_time) == 400
    assert np.isclose(sum(p["labels"] * p["brier"] for p in found.over_time) / 400, found.brier.forecast)
    assert {size["group"] for size in desk.ask(alarms)["sizes"]} == {"all rows", "city = Rome", "city = Bari"}
    told = certificate(desk.ask(engine))
    assert told["holds"]
    assert "400 outcomes" in told["sentence"]


def test_an_early_outcome_dated_beyond_its_forecasts_life_is_not_lost() -> None:
    desk = hand(lifetime=100.0)
    assert desk.outcome("x", 1.0, 1000.0).state == "parked"
    assert desk.forecast("x", ROME, 10.0).id == "x"
    assert desk.outcome("x", 0.0, 20.0).status == 409
    assert desk.outcome("x", 1.0).state == "repeated"
    assert desk.ward.live.status().labels == 1
    assert_follows_from_log(desk)


def test_a_state_at_rest_stays_as_it_was() -> None:
    desk = hand()
    desk.forecasts(*stream(5))
    still = Still(desk.ward)
    before = still.to_bytes()
    desk.forecasts(*(row(f"new {k}", {"city": f"city {k}", "price": 1.0}) for k in range(20)))
    assert still.to_bytes() == before


def test_a_digest_does_not_hang_on_a_clock_that_went_on() -> None:
    clock = Clock()
    desk = Hand(MemoryStore(), clock=clock, groups=["city"], parked_for=60.0)
    desk.forecast("a", ROME)
    desk.outcome("unknown", 1.0)
    before = Still(desk.ward).digest()
    clock.now += 100.0
    desk.forecast("a", ROME)  # repeated: no event
    assert desk.ward.lapsed == 1
    assert Still(desk.ward).digest() == before


def test_a_snapshot_that_fails_is_tried_again_after_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = hand()
    desk.forecasts(*stream(5))
    monkeypatch.setattr(desk.store, "keep_snapshot", lambda *_: (_ for _ in ()).throw(OSError("no room")))
    desk.desk._keeper.keep(Still(desk.ward), 3)
    assert desk.desk._keeper.kept["shop"][0] == 3
    assert desk.desk._keeper.rested > time.monotonic()


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    class Full(io.RawIOBase):
        def write(self, content: Any) -> int:
            raise OSError(28, "No space left on device")

    JsonLog("all", Full())("commit", first=1)


def test_nobody_is_left_waiting_when_even_the_rebuilding_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = hand()
    desk.forecasts(*stream(3))
    monkeypatch.setattr(desk.desk, "_regain", lambda **_: 1 / 0)
    monkeypatch.setattr(desk.store, "append", lambda _: (_ for _ in ()).throw(Unavailable("gone")))
    assert desk.forecast("late", ROME).status == 503
    monkeypatch.undo()
    desk.desk._regain(now=True)
    assert desk.forecast("late", ROME).id == "late"
    assert_follows_from_log(desk)
