"""Late labels: held until they mature or until their turn, and an engine that does not trust the first of them."""

import contextlib
import copy
import datetime
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapcal import Forecaster
from swapcal._validate import event_key
from swapcal.engine.state import gram, recent_sums
from swapcal.kernels.state import FLOOR
from swapcal.live import ConflictingLabelError, ExpiredIdError, Live
from swapcal.live.learner import EVERY, FIRM
from tests.checks import snapshot

RECORD = {"v": 1.0}
N = 300
RNG = np.random.default_rng(11)
RECORDS = [
    {"v": float(v), "g": "ab"[k % 2], "s": float(1 / (1 + math.exp(-v)))} for k, v in enumerate(RNG.normal(size=N))
]
Y = (RNG.random(N) < [record["s"] for record in RECORDS]).astype(float)
TIME = np.sort(RNG.integers(0, 150, N)).astype(float)
MATURES = np.where(RNG.random(N) < 0.3, math.nan, TIME + RNG.integers(0, 40, N))
DUE = np.where(Y == 1, TIME + RNG.integers(0, 5, N), np.fmax(MATURES, TIME + RNG.integers(0, 60, N)))


def make(**more: Any) -> Live:
    return Live(scores=["s"], **more)


def columns(forecast: Any) -> Any:
    return np.column_stack([forecast.p, forecast.mean, forecast.low, forecast.high, forecast.weight])


def by_hand(live: Live, rows: range = range(N)) -> Iterator[Any]:
    """Deliver each label when it comes, and yield the forecasts."""
    for k in rows:
        for arrival, j in sorted((DUE[j], j) for j in range(k)):
            if arrival < TIME[k] and (k == 0 or arrival >= TIME[k - 1]):
                with contextlib.suppress(ExpiredIdError):
                    live.label(j, Y[j], time=arrival)
        matures = None if math.isnan(MATURES[k]) else MATURES[k]
        yield columns(live.forecast(RECORDS[k], id=k, time=TIME[k], matures=matures))[0]


CASES: list[dict[str, Any]] = [
    {}, {"order": "issue", "patience": 40}, {"order": "issue", "patience": 2}, {"max_open": 30}, {"expires": 25},
    {"lifetime": 12.0}, {"order": "issue", "patience": 50, "expires": 30},
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_run_with_maturities_equals_labels_by_hand(case: Any, tmp_path: Path) -> None:
    live, hand = make(**case), make(**case)
    whole = live.run(RECORDS, Y, ids=range(N), time=TIME, label_time=DUE, matures=MATURES)
    np.testing.assert_array_equal(columns(whole), np.array([*by_hand(hand)]))
    ours, theirs = live.status(), hand.status()
    assert (ours.labels, ours.held, ours.mean_delay) == (theirs.labels, theirs.held, theirs.mean_delay)
    assert ours.held > 0
    half, pieces = make(**case), []
    for a, b in ((0, 140), (140, N)):
        part = slice(a, b)
        when = {"time": TIME[part], "label_time": DUE[part], "matures": MATURES[part]}
        pieces.append(half.run(RECORDS[part], Y[part], ids=range(a, b), **when))
        half.save(tmp_path / "state")
        half = Live.load(tmp_path / "state")
    np.testing.assert_array_equal(columns(whole), np.vstack([columns(piece) for piece in pieces]))
    assert half.status() == ours
    assert half.settings == live.settings


def test_an_early_label_is_held_until_it_matures(tmp_path: Path) -> None:
    live = Live()
    live.forecast(RECORD, id="a", time=0, matures=10)
    live.forecast(RECORD, id="b", time=1, matures=5)
    assert live.label("a", 1, time=2) is True
    assert live.label("a", 1) is False
    with pytest.raises(ConflictingLabelError, match="label: given 0 for id 'a', which was labelled 1"):
        live.label("a", 0)
    assert (live.status().labels, live.status().open, live.status().held) == (0, 2, 1)
    live.save(tmp_path / "state")
    for each in (live, Live.load(tmp_path / "state")):
        each.forecast(RECORD, id="c", time=10)
        assert (each.status().labels, each.status().held) == (0, 1)
        each.forecast(RECORD, id="d", time=11)
        assert (each.status().labels, each.status().held, each.status().mean_wait) == (1, 0, 10.0)
        assert each.label("b", 0, time=11) is True
        assert each.status().labels == 2


def test_held_labels_are_learned_in_order_of_maturity() -> None:
    """What is learned, and in which order, is what a stream without maturities learns at those times."""
    held, plain = make(), make()
    late = np.fmax(DUE, MATURES)
    given = {"ids": range(N), "time": TIME}
    ours = held.run(RECORDS, Y, **given, label_time=DUE, matures=MATURES)
    np.testing.assert_array_equal(columns(ours), columns(plain.run(RECORDS, Y, **given, label_time=late)))


def test_labels_that_come_at_once_are_held_too() -> None:
    at_once, known, time = make(), make(), np.arange(N, dtype=np.float64)
    later = time + RNG.integers(0, 30, N)
    ours = at_once.run(RECORDS, Y, ids=range(N), time=time, matures=later)
    theirs = known.run(RECORDS, Y, ids=range(N), time=time, label_time=later)
    np.testing.assert_array_equal(columns(ours), columns(theirs))
    assert (at_once.status().held, known.status().held) == (at_once.status().open, 0)
    assert at_once.status().held > 5


def test_age_counts_from_maturity() -> None:
    live = Live(lifetime=10)
    live.forecast(RECORD, id="a", time=0, matures=20)
    live.forecast(RECORD, id="b", time=15)
    live.forecast(RECORD, id="c", time=29)
    assert live.status().expired == 1
    assert live.label("a", 1, time=30) is True
    counted = Live(expires=2)
    counted.forecast(RECORD, id="a", time=0, matures=5)
    for k in range(4):
        counted.forecast(RECORD, id=k, time=k)
    assert "a" in counted._open_forecasts.opened
    counted.forecast(RECORD, id="first after", time=6)
    assert counted.label("a", 1, time=6) is True


def test_a_mature_forecast_older_than_all_others_is_saved(tmp_path: Path) -> None:
    live = Live(expires=9)
    live.forecast(RECORD, id="a", time=0, matures=2)
    live.run([RECORD] * 6, [0, 1] * 3, time=range(1, 7))
    live.save(tmp_path / "state")
    for each in (live, Live.load(tmp_path / "state")):
        each.run([RECORD] * 4, [0, 1] * 2, time=range(7, 11))
        assert each.status().expired == 0
        each.run([RECORD], [0], time=[11])
        assert each.status().expired == 1


@pytest.mark.parametrize("limit", [{"lifetime": 3.0}, {"expires": 2}])
def test_forecasts_that_expire_together_do_so_in_the_same_order_after_loading(limit: Any, tmp_path: Path) -> None:
    live = Live(**limit)
    for id, time, matures in (("ripens", 0, 2), ("given then", 2, None), ("later", 3, None)):
        live.forecast(RECORD, id=id, time=time, matures=matures)
    live.save(tmp_path / "state")
    for each in (live, Live.load(tmp_path / "state")):
        each.forecast(RECORD, id="last", time=6)
        each.forecast(RECORD, id="very last", time=6)
        assert each.release()[:2] == ["given then", "ripens"]


def test_in_order_of_issue_a_label_waits_for_earlier_ones() -> None:
    live = Live(order="issue", patience=3)
    for k in range(3):
        live.forecast(RECORD, id=k)
    live.label(2, 1)
    live.label(1, 0)
    assert (live.status().labels, live.status().held) == (0, 2)
    live.label(0, 1)
    assert (live.status().labels, live.status().held) == (3, 0)
    live.forecast(RECORD, id="never")
    for k in range(10, 13):
        live.forecast(RECORD, id=k)
        live.label(k, 1)
    assert live.status().held == 3
    live.forecast(RECORD, id="one too many")
    live.forecast(RECORD, id="then")
    assert (live.status().labels, live.status().held) == (6, 0)
    live.run([RECORD] * 3, [0, 1, 1])
    assert live.status().held == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"order": "random"}, "order: given 'random', expected one of arrival, issue"),
        ({"order": "issue"}, "patience: given None with order 'issue', expected an integer"),
        ({"order": "issue", "patience": 0}, "patience: given 0, expected an integer of at least 1"),
        ({"patience": 5}, "patience: given 5 with order 'arrival', expected none"),
    ],
)
def test_bad_orders_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Live(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"matures": [3]}, "matures: given without time, expected both"),
        ({"time": [2], "matures": [1]}, "matures: given 1 in row 1, before the forecast at 2"),
        ({"time": [2], "matures": [math.inf]}, "matures: given an infinite time in row 1"),
        ({"time": [2], "matures": [3, 4]}, r"matures: given shape \(2,\), expected \(1,\)"),
    ],
)
def test_bad_maturities_are_refused(given: Any, message: str) -> None:
    live = Live()
    with pytest.raises(ValueError, match=message):
        live.run([RECORD], [1], **given)
    assert live.status().forecasts == 0


def test_the_first_label_says_how_late_labels_come(tmp_path: Path) -> None:
    time = np.arange(N, dtype=np.float64)
    live, hand = make(ridge=2.0), make(ridge=2.0)
    whole = live.run(RECORDS, Y, ids=range(N), time=time, label_time=time + 49)
    loop = []
    for k in range(N):
        if k >= 50:
            hand.label(k - 50, Y[k - 50], time=time[k - 50] + 49)
        loop.append(columns(hand.forecast(RECORDS[k], id=k, time=time[k]))[0])
        if k in (30, 75):  # before the first label; with labels of rows only that no label had informed
            hand.save(tmp_path / "state")
            hand = Live.load(tmp_path / "state")
    np.testing.assert_array_equal(columns(whole), np.array(loop))
    assert live._learner.forecaster is not None
    knobs = live._learner.forecaster._state.knobs
    assert knobs[0] == knobs[3] == FIRM * 2.0 * 50
    assert live.settings["ridge"] == 2.0
    assert live.certificate().holds()
    most = make(ridge=1e8)
    most.run(RECORDS[:60], Y[:60], ids=range(60), time=time[:60], label_time=time[:60] + 49)
    assert most._learner.forecaster is not None
    assert most._learner.forecaster._state.knobs[0] == 1e8, "the largest there is, however late"
    at_once = make(ridge=2.0)
    at_once.run(RECORDS, Y)
    assert at_once._learner.forecaster is not None
    assert at_once._learner.forecaster._state.knobs[0] == FIRM * 2.0


LATE = (0.0, 20.0)


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("window", [None, 100.0])
def test_scores_that_are_not_believed_no_longer_hold_the_levels(
    tmp_path: Path, late: float, window: float | None
) -> None:
    time, base = np.arange(N, dtype=np.float64), 2.0 * (1.0 + late)
    records = [record | {"s": 1.0 - record["s"]} for record in RECORDS]
    live, hand = make(window=window), make(window=window)
    when = {"time": time, "label_time": time + late} if late else {}
    whole = live.run(records, Y, ids=range(N), **when)
    loop, ridges, due = [], [], int(late) + 1 if late else 0
    for k in range(N):
        if late and k >= due:
            hand.label(k - due, Y[k - due])
        hand.preview(records[k])
        loop.append(columns(hand.forecast(records[k], id=k))[0])
        if not late:
            hand.label(k, Y[k])
        assert hand._learner.forecaster is not None
        ridges.append(hand._learner.forecaster.ridge)
        if k % 50 == 40:
            hand.save(tmp_path / "state")
            hand = Live.load(tmp_path / "state")
    np.testing.assert_array_equal(columns(whole), np.array(loop))
    first = ridges.index(base)
    assert set(ridges[due:first]) == {FIRM * base}
    assert set(ridges[first:]) == {base}
    assert (first + 1 - due) % EVERY == 0
    assert hand._learner.forecaster is not None
    assert hand._learner.forecaster.rounds_before_ridge == first + 1 - due
    assert hand.certificate().holds()
    assert not late or live.certificate().theorem is None


def test_only_scores_given_hold_the_levels() -> None:
    for live, expected in ((make(), FIRM * 2.0), (make(ridge=1e8), 1e8), (Live(drop=["s"]), 2.0)):
        live.run(RECORDS, Y)
        assert live._learner.forecaster is not None
        assert live._learner.forecaster.ridge == expected
        assert live._learner.forecaster.rounds_before_ridge == 0
    assert make().settings["ridge"] == Live().settings["ridge"] == 2.0


@pytest.mark.parametrize("window", [None, 30.0])
def test_another_ridge_after_labels_is_the_solution_on_them(window: float | None) -> None:
    rng = np.random.default_rng(int(os.environ.get("SWAPCAL_SEED", "0")))
    X = np.column_stack([np.full(400, 0.5), rng.uniform(-0.4, 0.4, (400, 4))])
    y = (rng.random(400) < 0.5 + X[:, 1]).astype(float)
    forecaster = Forecaster(5, ridge=64.0, window=window)
    forecaster.run(X[:250], y[:250])
    before = copy.deepcopy(forecaster._state)
    sums = [recent_sums(before, slot, 7) for slot in range(2)] if window else []
    forecaster.set_ridge(2.0)
    after, wide = forecaster._state, 7 if window else 5
    for slot in range(int(after.counts[0])):
        G, start = gram(before, slot, wide), before.prior[slot, :wide]
        np.testing.assert_allclose(gram(after, slot, wide), G, atol=1e-11)
        moment = (G + 64.0 * np.eye(wide)) @ before.theta[slot, :wide] - 64.0 * start
        solution = np.linalg.solve(G + 2.0 * np.eye(wide), moment + 2.0 * start)
        np.testing.assert_allclose(after.theta[slot, :wide], solution, atol=1e-11)
    for slot, old in enumerate(sums):
        new = recent_sums(after, slot, 7)
        np.testing.assert_allclose(new.gram, old.gram, atol=1e-10)
        np.testing.assert_allclose(new.residual, old.residual, atol=1e-10)
    forecaster.run(X[250:], y[250:])
    certificate, at_first = forecaster.certificate(), Forecaster(5, ridge=2.0, window=window)
    at_first._state.knobs[FLOOR] = after.knobs[FLOOR]
    at_first.run(X, y)
    theorem = at_first.certificate().theorem
    assert certificate.holds()
    assert theorem is not None
    assert certificate.theorem == pytest.approx(theorem + 250)


def test_another_ridge_is_a_forecaster_made_with_it() -> None:
    X = np.column_stack([np.full(50, 0.5), np.linspace(-0.5, 0.5, 50), np.linspace(0.3, -0.3, 50)])
    y = (np.arange(50) % 3 == 0).astype(float)
    for learner in ("ridge", "vaw", "ons-fast"):
        made, changed = Forecaster(3, learner=learner, ridge=7.0), Forecaster(3, learner=learner)
        changed._owner = made._owner
        made._state.knobs[FLOOR] = changed._state.knobs[FLOOR]
        changed.predict(X[0])
        changed.set_ridge(7.0)
        assert snapshot(made) == snapshot(changed)
        np.testing.assert_array_equal(made.run(X, y).mean, changed.run(X, y).mean)
        before = copy.deepcopy(changed._state)
        if learner == "ridge":
            continue
        with pytest.raises(ValueError, match="ridge: given after 50 labels, expected before the first"):
            changed.set_ridge(1.0)
        for name, array in before._asdict().items():
            np.testing.assert_array_equal(array, getattr(changed._state, name))


def test_before_the_first_label_forecasts_follow_the_score() -> None:
    rng = np.random.default_rng(2)
    live = Live(scores=["s"])
    p = live.run([{"s": float(s)} for s in rng.random(1000)], np.full(1000, math.nan)).p
    assert len(np.unique(p)) > 10


def test_a_trace_with_late_labels_holds_the_contexts_that_were_forecast() -> None:
    live, time = Live(), np.arange(40)
    trace = live.trace(RECORDS[:40], Y[:40], time=time, label_time=time + 3.5)
    said = live.contexts.reserved_weights[0] * (2.0 * trace.experts[:, 0] - 1.0)
    assert np.abs(said).max() > 0.0
    np.testing.assert_allclose(trace.x[:, 1], said)


@pytest.mark.parametrize("case", [{}, {"order": "issue", "patience": 2}], ids=str)
def test_a_label_that_is_not_there_does_not_arrive(case: Any, tmp_path: Path) -> None:
    live, y = make(**case), [math.nan, 1.0, math.nan]
    live.run(RECORDS[:3], y, ids=["a", "b", "c"], time=[1.0, 2.0, 3.0], label_time=[1.5, 2.5, 3.5])
    live.save(tmp_path / "live")
    older = live.to_state()
    older.arrays["open.due"][np.isnan(older.arrays["open.y"])] = 3.5  # as files said before
    answers = []
    for other in (live, Live.load(tmp_path / "live"), Live.from_state(older)):
        many = copy.deepcopy(other)
        assert "repeated" not in many.label_many(["c", "a"], [1, 0], time=[4.0, 4.0])
        mixed = copy.deepcopy(other)
        _, labels = mixed.follow(RECORDS[3:4], ["d", "a"], [math.nan, 0.0], [True, False], time=9.0)
        assert labels in (["learned"], ["held"])
        forecast = other.forecast(RECORDS[3], id="d", time=9.0)
        assert other.is_open("a")
        assert other.label("a", 0, time=9.0)
        answers.append((columns(forecast).tolist(), other.status(), columns(other.preview(RECORDS[4:6])).tolist()))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("late", [0, 40])
def test_no_forecast_is_nearer_to_the_ends_than_the_labels_known_support(late: int) -> None:
    rng = np.random.default_rng(late)
    n = 1500
    records = [{"v": float(v)} for v in rng.normal(size=n)]
    y = (rng.random(n) < 0.01).astype(float)
    when = np.arange(n, dtype=float)
    live = Live()
    made = live.run(records, y, time=when, label_time=when + late) if late else live.run(records, y)
    known = np.maximum(np.arange(n) - late, 0)  # a label is learned just before the first forecast made strictly later
    least = 1.0 / (known + 2)
    for issued in (made.p, made.mean):
        assert (np.minimum(issued, 1.0 - issued) >= least - 1e-15).all()
    assert made.mean[-500:].mean() < 0.03
    assert live.certificate().holds()


def test_a_score_is_belief_and_may_be_nearer_but_never_certain() -> None:
    live = Live(scores=["s"])
    given = [0.003, 0.4, 0.0, 1.0, None]
    made = live.forecast_many([{"s": s, "v": 1.0} for s in given], range(5))
    np.testing.assert_allclose(made.mean, [0.003, 0.4, 1e-4, 1.0 - 1e-4, 0.5], atol=2e-6)
    assert ((made.p >= 2.0**-14) & (made.p <= 1.0 - 2.0**-14)).all()
    alone = Live(scores=["s"])
    for k, s in enumerate(given):
        assert alone.forecast({"s": s, "v": 1.0}, id=k).mean == made.mean[k]


def test_times_with_and_without_a_zone_are_not_mixed_and_messages_print_dates() -> None:
    live = Live()
    for mixed in (["2024-01-01T10:00+02:00", "2024-01-01T11:00"], ["2024-01-01T10:00Z", datetime.datetime(2024, 1, 2)]):
        with pytest.raises(ValueError, match="time: given times with a zone and times without"):
            live.forecast_many([{"v": 1.0}] * 2, [1, 2], time=mixed)
    live.forecast({"v": 1.0}, id=1, time="2024-01-02T10:00+02:00", matures="2024-01-05")
    message = "time: given 2024-01-01T00:00:00Z in row 1 after 2024-01-02T08:00:00Z, expected order of time"
    with pytest.raises(ValueError, match=message):
        live.forecast({"v": 1.0}, id=2, time="2024-01-01")
    with pytest.raises(ValueError, match="given 2024-01-01T00:00:00Z, before the forecast at 2024-01-02T08:00:00Z"):
        live.label(1, 1, time="2024-01-01")
    with pytest.raises(ValueError, match="matures: given 2024-01-02T00:00:00Z in row 1, before the forecast at 2024"):
        live.forecast({"v": 1.0}, id=3, time="2024-01-03", matures="2024-01-02")
    numbers = Live()
    numbers.forecast({"v": 1.0}, id=1, time=5.5)
    with pytest.raises(ValueError, match=r"given 5 in row 1 after 5\.5"):
        numbers.forecast({"v": 1.0}, id=2, time=5)


# --------------------------------------------------------------------------------------------- scores and late labels


def scored_stream(n: int, seed: int) -> tuple[list[dict[str, Any]], Any, Any]:
    """Return records, true probabilities and outcomes."""
    rng = np.random.default_rng(seed)
    a, b, kind = rng.normal(size=n), rng.normal(size=n), rng.integers(0, 8, n)
    p = 1 / (1 + np.exp(-(0.8 * a - 0.6 * b + 0.5 * (kind % 3 - 1))))
    records = [{"a": u, "b": v, "kind": f"k{k}"} for u, v, k in zip(a.tolist(), b.tolist(), kind.tolist(), strict=True)]
    return records, p, (rng.random(n) < p).astype(float)


def late_mean(records: Any, y: Any, score: Any, late: int, batch: int = 1) -> Any:
    time = np.arange(float(len(y)))
    given = records if score is None else [{**each, "s": s} for each, s in zip(records, score.tolist(), strict=True)]
    live = Live(scores=[] if score is None else ["s"])
    return np.asarray(live.run(given, y, time=time, label_time=np.ceil((time + late) / batch) * batch).mean)


@pytest.mark.parametrize(("late", "batch"), [(200, 1), (1000, 1), (1500, 1), (1000, 1000)])
def test_a_perfect_score_is_left_alone_until_labels_tell_otherwise(late: int, batch: int) -> None:
    records, p, y = scored_stream(4500, 3)
    error = late_mean(records, y, p, late, batch) - p
    for fifth in np.array_split(error, 5):
        assert math.sqrt(np.mean(fifth**2)) < 0.025


def test_a_score_that_is_worth_nothing_is_left_behind_as_soon_as_labels_tell() -> None:
    records, p, y = scored_stream(4500, 4)
    noise = np.random.default_rng(5).random(4500)
    alone = np.mean((late_mean(records, y, None, 1000) - p)[1200:] ** 2)
    for score in (noise, 1 - p):
        assert np.mean((late_mean(records, y, score, 1000) - p)[1200:] ** 2) < alone + 0.01


def test_a_perfect_score_costs_little_with_labels_at_once() -> None:
    excess = []
    for seed in range(4):
        records, p, y = scored_stream(3000, seed)
        given = [{**each, "s": s} for each, s in zip(records, p.tolist(), strict=True)]
        error = np.asarray(Live(scores=["s"]).run(given, y).mean) - p
        excess.append(np.mean(error**2) / np.mean(p * (1 - p)))
    assert np.mean(excess) < 0.0025


def test_a_label_that_waits_for_an_earlier_one_does_not_expire() -> None:
    live = Live(lifetime=10.0, order="issue", patience=40)
    live.forecast({"x": 1.0}, "first", time=0.0, matures=100.0)
    live.forecast({"x": 1.0}, "second", time=1.0)
    live.label("second", 1, time=2.0)
    live.forecast({"x": 2.0}, "third", time=50.0)
    assert (live.status().expired, live.status().labels) == (0, 0)
    live.label("first", 0, time=60.0)
    live.forecast({"x": 2.0}, "fourth", time=101.0)
    assert (live.status().expired, live.status().labels) == (1, 2)


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.9])
def test_a_constant_score_does_not_hold_the_forecast_as_soon_as_labels_are_known(constant: float) -> None:
    records, p, y = scored_stream(4500, 6)
    alone, held = (late_mean(records, y, score, 1500) - p for score in (None, np.full(4500, constant)))
    rows = slice(1700, 3000)  # labels are known, but only of rows that were forecast before any was
    assert np.mean(held[rows] ** 2) < 1.5 * np.mean(alone[rows] ** 2)


# ------------------------------------------------------------------------------------------------------------- bursts


def in_hashed_order(ids: Any, seed: int = 0) -> list[Any]:
    """Return ids in the order in which those of a burst are learned."""
    return sorted(ids, key=lambda id: event_key(f"burst {seed} {id}"))


@pytest.mark.parametrize(("burst", "shuffled"), [(30, True), (31, False)])
def test_labels_of_one_moment_are_learned_in_hashed_order_from_so_many_on(burst: int, shuffled: bool) -> None:
    live, apart = Live(burst=burst, seed=4), Live(seed=4)
    days = np.repeat(np.arange(4.0), 30)
    order = [*range(120)]
    if shuffled:
        order = [id for day in range(4) for id in in_hashed_order(range(30 * day, 30 * day + 30), 4)]
    place = np.empty(120)
    place[order] = np.arange(120.0) / 1000.0
    together = live.run(RECORDS[:120], Y[:120], ids=range(120), time=days, label_time=days)
    expected = apart.run(RECORDS[:120], Y[:120], ids=range(120), time=days, label_time=days + place)
    np.testing.assert_array_equal(columns(together), columns(expected))
    assert live.settings["burst"] == burst


def test_a_burst_is_learned_whole_and_survives_a_restart(tmp_path: Path) -> None:
    live = Live(burst=3)
    learned: list[Any] = []
    live.forecast_many(RECORDS[:6], range(6), time=0.0)
    assert live.label_many([4, 1, 5], Y[[4, 1, 5]], time=[1.0, 1.0, 1.0]) == ["held", "held", "held"]
    assert live.label(4, Y[4], time=1.0) is False
    with pytest.raises(ConflictingLabelError):
        live.label(4, 1 - Y[4], time=1.0)
    live.save(tmp_path / "state")
    live = Live.load(tmp_path / "state")
    live.watch(lambda each: learned.extend(each.ids))
    assert live.label(0, Y[0], time=2.0) is True
    assert learned == in_hashed_order([4, 1, 5])
    assert live.status().held == 1
    assert live.settle(2.0) == 0
    assert live.settle(3.0, most=1) == 1
    live.label(2, Y[2])  # without a time there is no burst
    assert learned[3:] == [0, 2]


def test_settling_a_few_takes_the_whole_burst() -> None:
    live = Live(burst=5)
    live.run(RECORDS[:9], Y[:9], time=np.zeros(9), label_time=np.ones(9))
    assert live.settle(2.0, most=2) == 9


def test_a_burst_is_no_matter_of_order_of_issue() -> None:
    with pytest.raises(ValueError, match='burst: given 5 with order "issue"'):
        Live(order="issue", patience=3, burst=5)
    with pytest.raises(ValueError, match="burst: given 0"):
        Live(burst=0)
