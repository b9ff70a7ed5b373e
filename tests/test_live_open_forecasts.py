"""Open forecasts: clocks and delays to the unit, what is forgotten and what expires, turns taken by threads."""

import copy
import math
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapcal import Forecaster
from swapcal.engine import state as memory
from swapcal.live import ExpiredIdError, Live, UnknownIdError, open_forecasts
from swapcal.live.open_forecasts import Maturity, OpenForecasts, OpenLimits
from tests.checks import snapshot, stream

RECORD = {"v": 1.0}


@pytest.mark.parametrize("how", ["run", "scheduled", "one by one"])
def test_the_clock_goes_on_with_every_forecast(how: str) -> None:
    live = Live()
    if how == "run":
        live.run([RECORD] * 2, [0, 1], time=[3, 5])
    elif how == "scheduled":
        live.run([RECORD] * 2, [0, 1], time=[3, 5], label_time=[4, 8])
    else:
        live.forecast(RECORD, id="a", time=5)
    with pytest.raises(ValueError, match=r"time: given 4\.5 in row 1 after 5"):
        live.forecast(RECORD, id="late", time=4.5)
    live.forecast(RECORD, id="same moment", time=5)


def test_delays_count_the_forecasts_issued_meanwhile() -> None:
    live = Live()
    for k in range(4):
        live.forecast(RECORD, id=k, time=10 * k)
    live.label(3, 1, time=31)
    assert (live.status().mean_delay, live.status().mean_wait) == (0.0, 1.0)
    live.label(1, 1, time=40)
    assert (live.status().mean_delay, live.status().mean_wait) == (1.0, 15.5)
    assert live.status().oldest_open == 4
    live.label(0, 1)
    assert (live.status().mean_delay, live.status().mean_wait) == (5 / 3, 15.5)
    assert live.status().oldest_open == 2
    live.label(2, 1)
    assert live.status().oldest_open == 0


def test_labels_that_come_at_once_have_no_delay_and_no_wait() -> None:
    live = Live()
    live.run([RECORD] * 4, [0, 1, 1, 0], time=[1, 2, 3, 4])
    assert (live.status().labels, live.status().mean_delay, live.status().mean_wait) == (4, 0.0, 0.0)


def test_the_oldest_labels_are_forgotten_first(monkeypatch: Any) -> None:
    monkeypatch.setattr(open_forecasts, "REMEMBERED", 3)
    live = Live()
    live.run([RECORD] * 5, [0, 1, 0, 1, 0], ids=[1, 2, 3, 4, 5])
    for known, y in ((3, 0), (4, 1), (5, 0)):
        assert live.label(known, y) is False
    for forgotten in (1, 2):
        with pytest.raises(
            UnknownIdError, match=f"given id {forgotten}, expected the id of a forecast that was issued"
        ):
            live.label(forgotten, 0)


def test_due_labels_come_in_order_of_arrival_then_of_issue() -> None:
    open_forecasts = OpenForecasts()
    for id, due in (("a", 9), ("b", 7), ("c", 7)):
        open_forecasts.admit(id, 1, due=due, y=1)
    open_forecasts.admit("d", 1)
    assert learned(open_forecasts, 7) == []
    assert learned(open_forecasts, 9.5) == ["b", "c", "a"]
    assert not open_forecasts.expects()


def learned(open_forecasts: OpenForecasts, before: float) -> list[Any]:
    found = []
    for slot in open_forecasts.fall_due(before):
        found.append(open_forecasts.ids[slot])
        open_forecasts.close(slot)
    return found


def test_at_the_limit_the_oldest_forecast_expires(tmp_path: Path) -> None:
    live = Live(max_open=2)
    for k in range(4):
        live.forecast(RECORD, id=k)
    status = live.status()
    assert (status.forecasts, status.labels, status.open, status.expired) == (4, 0, 2, 2)
    assert status.oldest_open == 2
    live.save(tmp_path / "state")
    for each in (live, Live.load(tmp_path / "state")):
        assert each.status()[:3] == status[:3]
        assert each.status().expired == 2
        for gone in (0, 1):
            with pytest.raises(
                ExpiredIdError, match=f"label: given id {gone}, whose forecast has expired, expected an"
            ):
                each.label(gone, 1)
        with pytest.raises(ValueError, match="id: given 0, which already names another forecast"):
            each.forecast(RECORD, id=0)
        each.forecast(RECORD, id="more")
        assert each.status().expired == 3
        assert each.label(3, 1) is True


def test_forecasts_expire_after_so_many_later_ones() -> None:
    live = Live(expires=2)
    live.forecast(RECORD, id="a")
    live.run([RECORD], [1])
    assert live.status().expired == 0
    live.run([RECORD], [1])
    assert (live.status().expired, live.status().open) == (1, 0)
    with pytest.raises(ExpiredIdError):
        live.label("a", 1)
    live.run([RECORD] * 5, [math.nan] * 5, ids=[1, 2, 3, 4, 5])
    assert (live.status().expired, live.status().open) == (4, 2)
    assert live.label(4, 0) is True


def test_forecasts_expire_after_their_lifetime() -> None:
    live = Live(lifetime=10)
    live.forecast(RECORD, id="timeless")
    live.forecast(RECORD, id="a", time=0)
    live.forecast(RECORD, id="b", time=1)
    live.forecast(RECORD, id="c", time=10)
    assert live.status().expired == 0
    with pytest.raises(ExpiredIdError):
        live.label("a", 1, time=10.5)
    assert live.label("a", 1, time=10) is True
    live.forecast(RECORD, id="d", time=11.5)
    assert (live.status().expired, live.status().open) == (1, 3)
    with pytest.raises(ExpiredIdError):
        live.label("b", 1)
    assert live.label("timeless", 1) is True
    live.run([RECORD], [1], time=[30])
    assert (live.status().expired, live.status().open) == (3, 0)


@pytest.mark.parametrize("limits", [{"max_open": 5}, {"expires": 7}, {"lifetime": 9.0}], ids=str)
def test_limits_mean_the_same_in_a_run_and_one_by_one(limits: Any) -> None:
    rng = np.random.default_rng(3)
    n = 200
    y, when = (rng.random(n) < 0.5).astype(float), np.sort(rng.integers(0, 300, n)).astype(float)
    due = when + rng.integers(0, 25, n)
    records = [{"v": float(v)} for v in rng.normal(size=n)]
    at_once, by_hand = Live(**limits), Live(**limits)
    p = at_once.run(records, y, ids=range(n), time=when, label_time=due).p
    waiting: list[tuple[float, int]] = []
    lost = 0
    for k, record in enumerate(records):
        for arrival, j in sorted(w for w in waiting if w[0] < when[k]):
            waiting.remove((arrival, j))
            try:
                by_hand.label(j, y[j], time=arrival)
            except ExpiredIdError:
                lost += 1
        assert by_hand.forecast(record, k, time=when[k]).p == p[k]
        waiting.append((float(due[k]), k))
    assert lost > 0
    assert at_once.status().expired >= lost
    expired = by_hand.status().expired, at_once.status().expired
    assert expired[0] == expired[1] or "lifetime" in limits
    assert at_once.status().labels == by_hand.status().labels


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_open": 0}, "max_open: given 0, expected an integer of at least 1"),
        ({"max_open": True}, "max_open: given True"),
        ({"expires": 0}, "expires: given 0, expected an integer of at least 1"),
        ({"expires": 2.5}, "expires: given 2.5"),
        ({"lifetime": 0}, "lifetime: given 0, expected a positive finite number"),
        ({"lifetime": math.inf}, "lifetime: given inf"),
    ],
)
def test_bad_limits_are_refused(limits: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Live(**limits)


def test_limits_are_settings_and_survive_a_restart(tmp_path: Path) -> None:
    live = Live(max_open=7, expires=5, lifetime=3.5)
    live.save(tmp_path / "state")
    twin = Live.load(tmp_path / "state")
    assert twin.settings == live.settings
    assert OpenLimits(**{name: twin.settings[name] for name in OpenLimits._fields}) == OpenLimits(7, 5, 3.5)


def test_clock_and_lifetimes_go_on_after_a_restart(tmp_path: Path) -> None:
    live = Live(lifetime=10)
    live.forecast(RECORD, id="a", time=0)
    live.forecast(RECORD, id="b", time=5)
    live.save(tmp_path / "state")
    twin = Live.load(tmp_path / "state")
    with pytest.raises(ValueError, match="time: given 4 in row 1 after 5"):
        twin.forecast(RECORD, id="early", time=4)
    twin.forecast(RECORD, id="c", time=12)
    assert (twin.status().expired, twin.status().open) == (1, 2)


def test_models_come_back_in_their_own_order(tmp_path: Path) -> None:
    live = Live(models={"one": Says(0.2), "two": Says(0.7)})
    live.run([RECORD] * 3, [0, 1, 0])
    live.save(tmp_path / "state")
    twin = Live.load(tmp_path / "state", models={"two": Says(0.7), "one": Says(0.2)})
    assert twin.experts == live.experts
    np.testing.assert_array_equal(twin.trace([RECORD], [1]).experts, live.trace([RECORD], [1]).experts)


class Says:
    """A model of one opinion."""

    def __init__(self, p: float) -> None:
        self.p = p

    def predict_proba_one(self, x: Any) -> Any:
        return {True: self.p}

    def learn_one(self, x: Any, y: Any) -> None:
        pass


def test_expired_ids_are_forgotten_too(monkeypatch: Any) -> None:
    monkeypatch.setattr(open_forecasts, "REMEMBERED", 2)
    live = Live(max_open=1)
    for k in range(5):
        live.forecast(RECORD, id=k)
    assert live.status().expired == 4
    with pytest.raises(ExpiredIdError):
        live.label(2, 1)
    with pytest.raises(UnknownIdError, match="given id 1, expected the id of a forecast that was issued") as caught:
        live.label(1, 1)
    assert not isinstance(caught.value, ExpiredIdError)


def together(workers: list[Any]) -> None:
    """Run all at once, switching threads as often as possible; raise what any of them raised."""
    start, raised = threading.Barrier(len(workers)), []

    def work(task: Any) -> None:
        start.wait()
        try:
            task()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work, args=(task,)) for task in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.fixture
def restless() -> Any:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_threads_may_share_a_live(tmp_path: Path) -> None:
    live = Live(groups=["g"])

    def serve(name: str) -> Any:
        def task() -> None:
            for k in range(30):
                live.forecast({"g": f"{name} {k % 4}", "v": float(k), f"c{k % 3}": 1.0}, id=f"{name} {k}")
                if k % 3:
                    live.label(f"{name} {k}", k % 2)
                if k % 29 == 28:
                    live.preview([{"g": name, "v": 0.5}])
                    live.run([{"g": name, "v": 1.0}] * 5, [0, 1, 0, 1, 1])

        return task

    together([*(serve(name) for name in "abcd"), lambda: live.save(tmp_path / "state")])
    status = live.status()
    assert (status.forecasts, status.labels, status.open) == (4 * 35, 4 * 25, 4 * 10)
    live.save(tmp_path / "state")
    assert Live.load(tmp_path / "state").status() == status
    certificate = live.certificate()
    assert certificate.holds()
    assert certificate.rounds == 100


@pytest.mark.usefixtures("restless")
def test_threads_may_share_a_forecaster(monkeypatch: Any) -> None:
    """Self-refining levels grow in the middle of it; no update may fall into arrays that were just copied."""
    grown = memory.with_slots

    def slowly_grown(*given: Any) -> Any:
        state = grown(*given)
        time.sleep(0.002)
        return state

    monkeypatch.setattr(memory, "with_slots", slowly_grown)
    forecaster = Forecaster(12)
    X, y = stream(1200, 12)

    def learn(rows: slice) -> Any:
        def task() -> None:
            for x, label in zip(X[rows], y[rows], strict=True):
                forecaster.update(forecaster.predict(x), label)

        return task

    together([learn(slice(k, None, 4)) for k in range(4)])
    assert forecaster.rounds == len(y)
    masses = forecaster._state.mass.sum()
    assert masses == pytest.approx(len(y), rel=1e-9)
    assert len(forecaster.levels) > 8


@pytest.mark.usefixtures("restless")
def test_two_threads_cannot_learn_one_forecast_twice() -> None:
    forecaster = Forecaster(2)
    for _ in range(50):
        forecast = forecaster.predict([0.5, 0.1])
        before, refused = forecaster.rounds, []

        def settle(forecast: Any = forecast, refused: Any = refused) -> None:
            try:
                forecaster.update(forecast, 1)
            except ValueError:
                refused.append(1)

        together([settle, settle])
        assert (forecaster.rounds - before, len(refused)) == (1, 1)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))], ids=["copy", "pickle"]
)
def test_copies_have_their_own_lock(copied: Any) -> None:
    live = Live()
    live.forecast(RECORD, id=1)
    twin = copied(live)
    assert twin._lock is not live._lock
    with live._lock.lock:
        together([lambda: twin.label(1, 1)])
    assert (live.status().labels, twin.status().labels) == (0, 1)
    forecaster = Forecaster(2)
    assert snapshot(copied(forecaster)) == snapshot(forecaster)


def test_what_is_closed_leaves_nothing_behind() -> None:
    for patience in (None, 8):
        open_forecasts = OpenForecasts(patience=patience)
        first = open_forecasts.admit("first", 0.0, 1e9)
        for k in range(20_000):
            slot = open_forecasts.admit(k, float(k), float(k))
            for due in open_forecasts.deliver(slot, 1.0, float(k)):
                open_forecasts.close(due)
            open_forecasts.reuse()
        assert len(open_forecasts._issue_queue) < 4000
        assert len(open_forecasts._awaited) <= 10
        assert open_forecasts.slots == 2
        assert open_forecasts.status().oldest_open == 20_001
        assert open_forecasts.opened == {"first": first}


@pytest.mark.parametrize("limits", [{"max_open": 3}, {"expires": 3}, {"lifetime": 3.0}], ids=str)
def test_places_of_expired_forecasts_are_taken_again(limits: Any) -> None:
    live = Live(**limits)
    for k in range(100):
        live.forecast(RECORD, id=k, time=float(k) if "lifetime" in limits else None)
    assert live.status().expired > 90
    assert live._open_forecasts.slots < 8


@pytest.mark.parametrize("forecasts", [0, 2**32 - 1000], ids=["from the first", "beyond 32 bits"])
def test_the_oldest_expire_in_order_however_many_came_before(forecasts: int) -> None:
    open_forecasts, expected = OpenForecasts(OpenLimits(max_open=3)), list[int]()
    open_forecasts.forecasts = forecasts
    for k in range(4000):
        slot, expected = open_forecasts.admit(k), [*expected, k][-3:]
        if k % 5 == 1:
            assert [*open_forecasts.deliver(slot, 1.0, math.nan)] == [slot]
            open_forecasts.close(slot)
            expected.remove(k)
        open_forecasts.reuse()
        assert [*open_forecasts.opened] == expected
        assert not expected or open_forecasts.status().oldest_open == k + 1 - expected[0]
    assert len(open_forecasts._issue_queue) < 2000
    assert open_forecasts.slots <= 5


def test_windows_that_ended_leave_nothing_for_the_next_forecast_to_clear_away() -> None:
    open_forecasts = OpenForecasts(maturity=Maturity(10.0, 0.0))
    for k in range(300):
        open_forecasts.admit(k, 0.0, 10.0)
    for _ in range(299):
        open_forecasts.close(open_forecasts.next_due(11.0))
    assert len(open_forecasts._ripening) == 1
    open_forecasts.close(open_forecasts.next_due(11.0))
    assert open_forecasts._ripening == []
