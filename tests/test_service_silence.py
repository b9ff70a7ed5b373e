"""Windows that end without a report, in the service: learned, logged, replayed, corrected, and never in the way."""

import pytest

pytest.importorskip("msgspec")
pytest.importorskip("apsw")

import time
from concurrent.futures import Future
from types import SimpleNamespace

import msgspec
import numpy as np

from swapcal.service import events, worker
from swapcal.service.events import FORECAST, OUTCOME, SETTLED, SILENCE
from swapcal.service.history import replay
from swapcal.service.queue import Ask
from swapcal.service.settings import ApiError, Settings
from swapcal.service.snapshots import recover
from swapcal.service.store import open_store
from tests.memory_store import MemoryStore
from tests.service_worker import Clock, Hand, assert_follows_from_log, bits, row

WINDOW = 100.0


def hand(**settings):
    return Hand(MemoryStore(), "shop", Clock(), groups=["city"], **{"matures": WINDOW, "silence": 0, **settings})


def kinds(hand):
    return [event.kind for event in hand.store.logs[hand.name]]


def settle(hand):
    """Let windows end until none is left, as the worker does between batches."""
    while hand.worker._settle_windows():
        pass


def test_a_window_that_ends_without_a_report_is_learned_as_silence():
    shop = hand()
    for k in range(3):
        shop.forecast(f"{k}", {"city": "Rome"})
    assert shop.outcome("1", 1.0).state == "held"
    shop.clock.now += WINDOW - 1
    settle(shop)
    assert shop.hosted.figures.labels == 0
    shop.clock.now += 2
    settle(shop)
    assert shop.hosted.figures.labels == 3
    status = shop.hosted.live.status()
    assert (status.silent, status.open, status.labels) == (2, 0, 3)
    assert kinds(shop)[-3:] == [SETTLED, SILENCE, SILENCE]
    assert shop.hosted.figures.base_rate() == pytest.approx(1 / 3)
    assert_follows_from_log(shop)


def test_a_window_has_not_ended_at_its_end():
    """A forecast made at that moment learns nothing first; were it overdue, the log would grow at every step."""
    shop = hand()
    shop.forecast("a", {"city": "Rome"})
    shop.clock.now += WINDOW
    assert not shop.worker._settle_windows()
    assert kinds(shop)[-1] == FORECAST
    shop.clock.now += 0.001
    settle(shop)
    assert kinds(shop)[-2:] == [SETTLED, SILENCE]


def later(seconds):
    """Return clocks that are ahead by so many seconds."""
    clocks = (time.monotonic, time.perf_counter)
    return {clock.__name__: lambda clock=clock: clock() + seconds for clock in clocks}


def test_few_windows_end_between_batches_while_requests_come(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(worker, "WINDOWS", 6)
    monkeypatch.setattr(worker, "FEW", 2)
    shop = hand()
    shop.forecasts(*(row(f"{k}", {"city": "Rome"}) for k in range(20)))
    shop.clock.now += WINDOW + 1
    shop.worker.submit(Ask(Future(), "shop", lambda hosted: None))
    assert shop.worker._step(0.0) == (True, False)
    assert shop.hosted.figures.labels == 2
    assert shop.worker._step(0.0) == (True, False)
    assert shop.hosted.figures.labels == 4  # the next request may be on its way
    monkeypatch.setattr(worker, "time", SimpleNamespace(time_ns=time.time_ns, **later(worker.TICK)))
    assert shop.worker._step(0.0) == (True, False)
    assert shop.hosted.figures.labels == 10
    settle(shop)
    assert shop.hosted.figures.labels == 20
    assert_follows_from_log(shop)


def test_a_report_after_its_window_is_a_correction_and_unlearns_nothing():
    shop = hand()
    shop.forecast("a", {"city": "Rome"})
    shop.clock.now += WINDOW + 1
    settle(shop)
    before = shop.hosted.live.to_state()
    assert shop.outcome("a", 1.0).state == "corrected"
    assert shop.outcome("a", 1.0).state == "repeated"
    assert shop.outcome("a", 0.0).status == 409
    assert shop.hosted.corrections == 1
    after = shop.hosted.live.to_state()
    assert all(np.array_equal(before.arrays[name], after.arrays[name]) for name in before.arrays)
    assert events.id_histories(shop.store.about("shop", ["a"]))["a"].y == 1.0
    assert_follows_from_log(shop)


def test_of_reports_after_the_window_too_the_first_wins():
    shop = hand()
    shop.forecast("a", {"city": "Rome"})
    shop.clock.now += WINDOW + 1
    settle(shop)
    assert shop.outcome("a", 0.0).state == "repeated"
    assert shop.outcome("a", 1.0).status == 409
    assert shop.hosted.corrections == 0
    assert_follows_from_log(shop)


def test_silence_may_be_corrected_by_an_administrator_too():
    shop = hand(silence=1)
    shop.forecast("a", {"city": "Rome"})
    assert shop.correct("a", 0.0).status == 409
    shop.clock.now += WINDOW + 1
    settle(shop)
    found = shop.correct("a", 0.0)
    assert (found.y, found.before) == (0.0, 1.0)


def test_with_times_of_the_user_windows_end_by_those():
    shop = hand()
    shop.forecast("a", {"city": "Rome"}, time=0.0)
    shop.clock.now += 10 * WINDOW
    settle(shop)
    assert shop.hosted.figures.labels == 0
    shop.forecast("b", {"city": "Rome"}, time=WINDOW + 1)
    assert kinds(shop)[-2:] == ["forecast", SILENCE]
    assert shop.hosted.figures.labels == 1
    shop.forecast("c", {"city": "Rome"}, time=WINDOW + 2)
    assert shop.outcome("b", 1.0, time=3 * WINDOW).state == "corrected"
    assert kinds(shop)[-3:] == [OUTCOME, SILENCE, SILENCE]
    assert shop.hosted.corrections == 1
    assert_follows_from_log(shop)


def test_a_forecast_without_a_time_among_those_with_times_is_refused():
    shop = hand()
    shop.forecast("a", {"city": "Rome"}, time=0.0)
    assert shop.forecast("b", {"city": "Rome"}).status == 422


def test_many_windows_that_end_together_are_learned_in_pieces_between_requests(monkeypatch):
    monkeypatch.setattr("swapcal.service.worker.WINDOWS", 10)
    shop = hand()
    shop.forecasts(*(row(f"{k}", {"city": "Rome"}) for k in range(35)))
    shop.clock.now += WINDOW + 1
    shop.forecast("new", {"city": "Rome"})
    assert shop.hosted.figures.labels == 0
    assert shop.worker._settle_windows()
    assert shop.hosted.figures.labels == 10
    shop.forecast("newer", {"city": "Rome"})
    shop.outcome("newer", 1.0)
    assert shop.hosted.figures.labels == 10
    settle(shop)
    assert shop.hosted.figures.labels == 35
    assert [*shop.hosted.accepted] == ["new", "newer"]
    shop.clock.now += WINDOW - 0.5
    settle(shop)
    assert shop.hosted.figures.labels == 35  # though the learner's time had stopped when they were issued
    shop.clock.now += 1
    settle(shop)
    assert shop.hosted.figures.labels == 37
    assert shop.hosted.live.status().silent == 36
    assert_follows_from_log(shop)


def test_a_commit_of_ended_windows_that_fails_is_done_again():
    shop = hand()
    shop.forecast("a", {"city": "Rome"})
    shop.clock.now += WINDOW + 1
    for fault in ("before", "after", "conflict"):
        shop.store.fault = fault
        assert not shop.worker._settle_windows()
        assert_follows_from_log(shop)
    settle(shop)
    assert kinds(shop).count(SILENCE) == 1
    assert shop.hosted.live.status().silent == 1
    assert_follows_from_log(shop)


def test_a_log_whose_silence_is_another_is_refused():
    shop = hand()
    shop.forecast("a", {"city": "Rome"})
    shop.forecast("b", {"city": "Rome"})
    shop.clock.now += WINDOW + 1
    settle(shop)
    log = shop.store.logs["shop"]
    log[-2], log[-1] = log[-2]._replace(id="b"), log[-1]._replace(id="a")
    with pytest.raises(ValueError, match="log: given silence of 'b' in event 5, expected 'a'"):
        recover(shop.store, "shop")


def test_random_traffic_replays_bit_for_bit_from_a_file(tmp_path):
    rng = np.random.default_rng(3)
    store = open_store(str(tmp_path / "shop.db"), learner=True, create=True)
    shop = Hand(store, "shop", Clock(), groups=["city"], matures="100s", silence=0, max_open=40)
    for k in range(300):
        shop.forecast(f"{k}", {"city": str(rng.choice(["Rome", "Bari"])), "price": float(rng.random())})
        if rng.random() < 0.3:
            shop.outcome(f"{rng.integers(max(k - 30, 0), k + 2)}", 1.0)
        shop.clock.now += float(rng.exponential(8.0))
        if rng.random() < 0.5:
            settle(shop)
    status = shop.hosted.live.status()
    assert status.silent > 50
    assert status.expired == 0
    assert shop.hosted.corrections > 5
    assert bits(recover(store, "shop").hosted) == bits(shop.hosted)
    assert [word.differences for word in replay(store, "shop") if word.differences] == []
    histories = events.id_histories(event for event in store.events("shop") if event.id)
    closed = sum(one.forecast is not None and one.y is not None for one in histories.values())
    assert store.loss("shop", store.last("shop") + 1).forecasts == closed  # what may be pruned
    store.close()


def test_settings_are_checked():
    for wrong in ({"silence": 2}, {"matures": "soon"}, {"matures": -1.0}):
        with pytest.raises((msgspec.ValidationError, ApiError)):
            msgspec.convert({"name": "shop", **wrong}, Settings).checked()


def test_a_forecast_that_expired_ends_no_window():
    shop = hand(max_open=1)
    shop.forecast("a", {"city": "Rome"})
    shop.clock.now += 10
    shop.forecast("b", {"city": "Rome"})
    shop.clock.now += WINDOW - 5
    assert not shop.hosted.overdue(shop.clock.now)
    shop.clock.now += 10
    assert shop.hosted.overdue(shop.clock.now)
    settle(shop)
    assert [event.id for event in shop.store.logs["shop"] if event.kind == SILENCE] == ["b"]


@pytest.mark.parametrize("seed", range(3))
def test_outcomes_of_one_moment_count_alike_however_they_are_batched(seed):
    rng = np.random.default_rng(seed)
    shop = hand(matures=0.05)
    made = 0
    for _ in range(60):
        ids = [f"{made + k}" for k in range(int(rng.integers(1, 4)))]
        shop.forecasts(*(row(id, {"city": "Rome"}) for id in ids))
        for id in ids:
            if rng.random() < 0.8:
                shop.outcome(id, float(rng.random() < 0.3))
        made += len(ids)
        shop.clock.now += float(rng.exponential(0.02))
        if rng.random() < 0.5:
            shop.worker._settle_windows()
    assert_follows_from_log(shop)


@pytest.mark.parametrize("settings", [{"max_open": 3}, {"expires": 2}, {"lifetime": 50.0}])
def test_the_clock_goes_on_at_the_same_forecast_however_they_are_batched(settings):
    """It waits for a window's end; a forecast that expires takes its window along, in the middle of a batch."""
    moments = []
    for size in (1, 2, 3, 6):
        shop = hand(**settings)
        shop.forecast("first", {"city": "Rome"})
        shop.clock.now += 2 * WINDOW
        rows = [row(f"{k}", {"city": "Rome"}) for k in range(6)]
        for start in range(0, 6, size):
            shop.forecasts(*rows[start : start + size])
        assert_follows_from_log(shop)
        moments.append([shop.hosted.latest, *map(shop.hosted.live.issued_at, shop.hosted.accepted)])
    assert all(each == moments[0] for each in moments)
