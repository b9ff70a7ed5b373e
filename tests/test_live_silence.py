"""Windows of all forecasts, and silence at their end."""

import datetime
import math
from typing import Any

import numpy as np
import pytest

from swapcal import Live
from swapcal.live import ConflictingLabelError, ExpiredIdError, Learned
from swapcal.monitor import Monitor

DAY = 86_400.0
SOME = [{"v": float(k % 3)} for k in range(40)]


def offers(n: int, **settings: Any) -> Live:
    """Return an object with n forecasts, one each hour, whose windows are a day long."""
    live = Live(**({"matures": "24h", "silence": 0} | settings))
    live.forecast_many(SOME[:n], [*range(n)], time=[3600.0 * k for k in range(n)])
    return live


@pytest.mark.parametrize("window", [DAY, "24h", "1d", "1440m", datetime.timedelta(days=1), np.timedelta64(1, "D")])
def test_a_window_of_all_forecasts_is_a_time_of_each(window: Any) -> None:
    common, single = Live(matures=window), Live()
    times = [3600.0 * k for k in range(40)]
    y, due = [float(k % 2) for k in range(40)], [t + 60.0 for t in times]
    forecasts = common.run(SOME, y, time=times, label_time=due)
    expected = single.run(SOME, y, time=times, label_time=due, matures=[t + DAY for t in times])
    assert np.array_equal(forecasts.mean, expected.mean)
    assert common.status() == single.status()
    assert common.settings["matures"] == DAY


def test_a_time_of_its_own_goes_before_the_window_of_all() -> None:
    live = Live(matures=10.0)
    live.forecast_many(SOME[:2], ["own", "common"], time=0.0, matures=[3.0, math.nan])
    assert live.label_many(["own", "common"], [1, 1], time=1.0) == ["held", "held"]
    live.forecast(SOME[2], "later", time=4.0)
    assert (live.is_open("own"), live.is_open("common")) == (False, True)


@pytest.mark.parametrize("window", [-1.0, math.inf, math.nan, "soon", "24", True, [3.0]])
def test_what_is_no_window_is_refused(window: Any) -> None:
    with pytest.raises(ValueError, match=r"matures: given .*, expected a number of at least 0"):
        Live(matures=window)


@pytest.mark.parametrize("silence", [0.5, 2, "0", -1])
def test_silence_is_one_of_two_outcomes(silence: Any) -> None:
    with pytest.raises(ValueError, match=r"silence: given .*, expected 0 or 1"):
        Live(silence=silence)


def test_a_window_asks_for_times() -> None:
    live = Live(matures=5.0)
    with pytest.raises(ValueError, match="matures: given for all forecasts, expected their times too"):
        live.forecast(SOME[0], 0)
    assert live.status().forecasts == 0


def test_nothing_is_learned_before_the_end_of_a_window_and_silence_after_it() -> None:
    live = offers(24)
    assert live.label(3, 1, time=23.5 * 3600) is True
    before = live.preview(SOME[0]).mean
    assert before == 0.5
    assert live.status().labels == 0
    live.forecast(SOME[0], "at its end", time=DAY)  # the window of the first forecast ends now, not before
    assert live.status().labels == 0
    live.forecast(SOME[0], "after", time=DAY + 3.5 * 3600)
    status = live.status()
    assert (status.labels, status.silent, status.held, status.corrections) == (4, 3, 0, 0)
    assert live.certificate().rounds == 4


def test_silence_is_learned_as_a_label_of_that_value_that_comes_at_maturity() -> None:
    silent, told = Live(matures=10.0, silence=1), Live(matures=10.0)
    times = np.arange(40.0)
    silent.run(SOME, np.full(40, math.nan), time=times)
    told.run(SOME, np.ones(40), time=times, label_time=times + 10.0)
    assert np.array_equal(silent.preview(SOME).mean, told.preview(SOME).mean)
    ours, theirs = silent.status(), told.status()
    assert (ours.labels, ours.silent, ours.mean_wait) == (theirs.labels, theirs.labels, theirs.mean_wait) != (0, 0, 0)


def test_a_report_after_its_window_is_a_correction_that_teaches_nothing() -> None:
    live = offers(30)
    live.settle(DAY + 10.5 * 3600)
    before = live.preview(SOME).mean
    assert live.label(2, 0) is False  # as learned
    assert live.label(2, 1) == "corrected"
    assert live.label(2, 1) is False
    with pytest.raises(ConflictingLabelError, match="label: given 0 for id 2, which was labelled 1"):
        live.label(2, 0)
    assert live.label_many([3, 3, 4], [1, 1, 0]) == ["corrected", "repeated", "repeated"]
    status = live.status()
    assert (status.silent, status.corrections, status.labels) == (11, 2, 11)
    assert np.array_equal(live.preview(SOME).mean, before)


def test_a_report_with_a_time_after_its_window_comes_too_late_also_if_no_forecast_was_made_since() -> None:
    live = offers(5)
    assert live.label(1, 1, time=DAY + 3601.0) == "corrected"
    assert (live.status().labels, live.status().silent) == (2, 2)  # the first two windows have ended
    assert live.label(2, 1, time=DAY + 7200.0) is True  # at its very end
    assert (live.status().silent, live.status().labels, live.status().corrections) == (2, 3, 1)


def test_in_one_batch_a_repeated_silence_does_not_stand_in_the_way_of_a_correction() -> None:
    live = offers(2)
    live.settle(2 * DAY)
    assert live.label_many([0, 0, 0], [0, 1, 1]) == ["repeated", "corrected", "repeated"]
    _forecasts, answers = Live(matures=1.0, silence=0).follow(
        SOME[:2],
        ["a", "b", "a", "a"],
        [math.nan, math.nan, 0, 1],
        [True, True, False, False],
        time=[0.0, 5.0, 5.0, 5.0],
    )
    assert answers == ["repeated", "corrected"]


def test_a_run_counts_a_report_after_its_window_when_it_comes() -> None:
    live = Live(matures=2.0, silence=0)
    live.run(SOME[:3], [1, 1, math.nan], ids=["a", "b", "c"], time=[0.0, 1.0, 4.0], label_time=[1.0, 8.0, math.nan])
    assert (live.status().silent, live.status().corrections) == (1, 0)
    state = Live.from_state(live.to_state())
    for each in (live, state):
        each.forecast(SOME[3], "d", time=9.0)
        assert (each.status().silent, each.status().corrections) == (2, 1)
        assert each.label("b", 1) is False
        with pytest.raises(ConflictingLabelError):
            each.label("b", 0)


def test_without_silence_a_mature_forecast_goes_on_waiting() -> None:
    live = offers(10, silence=None)
    live.settle(3 * DAY)
    assert (live.status().open, live.status().labels, live.status().silent) == (10, 0, 0)
    assert live.label(0, 1, time=3 * DAY) is True


def test_a_forecast_that_expires_before_its_window_ends_is_not_learned() -> None:
    live = offers(10, max_open=4)
    live.settle(3 * DAY)
    status = live.status()
    assert (status.expired, status.silent, status.open) == (6, 4, 0)
    with pytest.raises(ExpiredIdError):
        live.label(0, 1)


def test_silence_comes_before_the_limits_that_count_from_maturity() -> None:
    live = offers(10, lifetime=1.0, expires=1)
    live.forecast_many(SOME[:3], ["x", "y", "z"], time=3 * DAY)
    assert (live.status().expired, live.status().silent) == (0, 10)


def test_labels_in_order_of_issue_do_not_wait_for_a_forecast_that_fell_silent() -> None:
    live = Live(silence=0, order="issue", patience=100)
    live.forecast(SOME[0], "window", time=0.0, matures=2.0)
    live.forecast(SOME[1], "none", time=1.0)
    assert live.label("none", 1, time=1.5) is True
    assert (live.status().labels, live.status().held) == (0, 1)
    assert live.settle(2.5) == 2
    assert (live.status().silent, live.status().held) == (1, 0)


def test_windows_that_end_together_are_learned_in_pieces_with_the_same_result() -> None:
    whole, pieces = offers(20), offers(20)
    assert whole.settle(3 * DAY) == 20
    assert [pieces.settle(3 * DAY, most=7) for _ in range(4)] == [7, 7, 6, 0]
    assert np.array_equal(whole.preview(SOME).mean, pieces.preview(SOME).mean)
    with pytest.raises(ValueError, match="expected order of time"):
        whole.forecast(SOME[0], "earlier", time=2 * DAY)
    with pytest.raises(ValueError, match="most: given 0"):
        whole.settle(3 * DAY, most=0)


def test_a_watcher_and_a_monitor_see_silence_and_the_watcher_is_told_which_it_is() -> None:
    seen: list[Learned] = []
    live = offers(5, monitor=Monitor())
    live.watch(seen.append)
    live.label(1, 1, time=3.0 * 3600)
    live.settle(2 * DAY)
    assert [id for learned in seen for id in learned.ids] == [0, 1, 2, 3, 4]
    silent = np.concatenate([learned.silent for learned in seen if learned.silent is not None])
    assert silent.tolist() == [True, False, True, True, True]
    assert live.monitor is not None
    assert live.monitor.rows == 5


def test_saved_in_the_middle_windows_go_on() -> None:
    live = offers(20)
    live.label(1, 1, time=20 * 3600.0)
    live.settle(DAY + 5.5 * 3600)
    live.label(4, 1)
    saved = Live.from_state(live.to_state())
    assert saved.settings == live.settings
    assert saved.status() == live.status()
    for each in (live, saved):
        assert each.label(4, 1) is False
        assert each.label(5, 1) == "corrected"
        each.settle(3 * DAY)
    assert saved.status() == live.status()
    assert live.status().silent == 19
    assert np.array_equal(saved.preview(SOME).mean, live.preview(SOME).mean)


def test_ids_that_are_released_are_no_longer_corrected() -> None:
    live = offers(3)
    live.settle(3 * DAY)
    live.release()
    with pytest.raises(ValueError, match="label: given id 0, expected the id of a forecast that was issued"):
        live.label(0, 1)
    assert live.status().corrections == 0


def test_a_label_that_waited_for_silence_is_learned_before_what_matures_later() -> None:
    seen: list[Learned] = []
    live = Live(silence=0, order="issue", patience=100)
    live.watch(seen.append)
    live.forecast(SOME[0], "silent", time=0.0, matures=2.0)
    live.forecast(SOME[1], "waits", time=1.0)
    live.forecast(SOME[2], "later", time=1.0, matures=3.0)
    live.label_many(["waits", "later"], [1, 1], time=1.5)
    live.settle(4.0)
    assert [id for learned in seen for id in learned.ids] == ["silent", "waits", "later"]


def test_a_planned_label_within_the_window_is_no_silence() -> None:
    live = Live(matures=2.0, silence=0)
    live.run(SOME[:1], [1], ids=["a"], time=[0.0], label_time=[1.0])
    assert live.label("a", 1, time=5.0) is False
    assert live.settle(6.0) == 1
    assert (live.status().silent, live.status().corrections) == (0, 0)
    live.run(SOME[1:2], [0], ids=["b"], time=[10.0], label_time=[11.0])
    with pytest.raises(ConflictingLabelError):
        live.label("b", 1, time=15.0)


def test_a_planned_report_has_come_once_a_later_label_has() -> None:
    live = Live(matures=2.0, silence=0)
    when = {"time": [0.0, 4.0, 9.0], "label_time": [8.0, math.nan, math.nan], "matures": [2.0, 20.0, 20.0]}
    live.run(SOME[:2], [1, math.nan], ids=["a", "b"], **{name: values[:2] for name, values in when.items()})
    assert live.label_many(["b", "a"], [1, 1], time=[9.0, math.nan]) == ["held", "repeated"]
    assert live.status().corrections == 1


def test_a_correction_with_a_time_lets_other_windows_end_that_were_over_by_then() -> None:
    live = Live(matures=5.0, silence=0)
    live.forecast_many(SOME[:3], ["a", "b", "c"], time=[0.0, 0.0, 6.0])
    fresh = Live.from_state(live.to_state())
    early = Live(matures=5.0, silence=0)
    early.forecast_many(SOME[:2], ["a", "b"], time=0.0)
    assert early.label_many(["a", "b"], [1, 1], time=[9.0, math.nan]) == ["corrected", "corrected"]
    assert fresh.label_many(["a", "b"], [1, 1]) == live.label_many(["a", "b"], [1, 1]) == ["corrected", "corrected"]
