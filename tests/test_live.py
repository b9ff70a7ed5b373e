"""Live: records in, forecasts out, labels by id whenever they come; everything survives a restart."""

import math
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from swapcal.archive import ArchiveError
from swapcal.live import ConflictingLabelError, Live, UnknownIdError
from swapcal.live.status import ENOUGH, Status, score_beside
from swapcal.tables.values import as_times
from tests.chance import seeded


@pytest.fixture(scope="module")
def stream() -> Any:
    rng = np.random.default_rng(5)
    n = 600
    shop = rng.choice(["a", "b", "c", "d"], n, p=[0.4, 0.3, 0.2, 0.1])
    price = rng.lognormal(1, 1, n)
    price[rng.random(n) < 0.05] = np.nan
    chance = 1 / (1 + np.exp(-(np.nan_to_num(price, nan=2.0) - 3 + 2 * (shop == "b"))))
    p_model = np.clip(chance + rng.normal(0, 0.1, n), 0.01, 0.99)
    frame = pd.DataFrame({"shop": shop, "price": price, "p_model": p_model})
    return frame, (rng.random(n) < chance).astype(float)


def make(**more: Any) -> Live:
    return Live(groups=["shop"], scores=["p_model"], **more)


def columns(forecast: Any) -> Any:
    return np.column_stack([forecast.p, forecast.mean, forecast.low, forecast.high, forecast.weight])


def test_a_run_equals_forecast_and_label_one_by_one(stream: Any) -> None:
    frame, y = stream
    ids = [f"event {k}" for k in range(len(y))]
    at_once = make().run(frame, y, ids=ids)
    live, one_by_one = make(), []
    for id, record, label in zip(ids, frame.to_dict("records"), y, strict=True):
        one_by_one.append(columns(live.forecast(record, id))[0])
        live.label(id, label)
    np.testing.assert_array_equal(columns(at_once), np.array(one_by_one))


def test_a_run_in_pieces_equals_a_run_at_once(stream: Any) -> None:
    frame, y = stream
    live = make()
    pieces = [live.run(frame[a:b], y[a:b]) for a, b in ((0, 1), (1, 250), (250, 600))]
    np.testing.assert_array_equal(columns(make().run(frame, y)), np.vstack([columns(piece) for piece in pieces]))


@pytest.fixture(scope="module")
def scheduled(stream: Any) -> Any:
    _, y = stream
    rng = np.random.default_rng(6)
    time = np.sort(rng.integers(0, 200, len(y)))
    return time, time + rng.integers(0, 60, len(y))


def test_label_times_equal_labels_delivered_by_hand(stream: Any, scheduled: Any) -> None:
    frame, y = stream
    time, due = scheduled
    ids = list(range(len(y)))
    live = make()
    at_once = live.run(frame, y, ids=ids, time=time, label_time=due)
    by_hand, one_by_one = make(), []
    waiting: list[tuple[int, int]] = []
    for k, record in enumerate(frame.to_dict("records")):
        for arrival, j in sorted(w for w in waiting if w[0] < time[k]):
            by_hand.label(j, y[j], time=arrival)
            waiting.remove((arrival, j))
        one_by_one.append(columns(by_hand.forecast(record, k, time=time[k]))[0])
        waiting.append((due[k], k))
    np.testing.assert_array_equal(columns(at_once), np.array(one_by_one))
    assert live.status() == by_hand.status()
    assert live.status().open == len(waiting) > 0
    assert 0 < live.status().coverage < 1
    assert live.status().mean_wait == pytest.approx(np.mean([due[k] - time[k] for k in ids if due[k] < time[-1]]))


def test_waiting_labels_come_due_in_a_later_call_and_after_a_restart(
    stream: Any, scheduled: Any, tmp_path: Any
) -> None:
    frame, y = stream
    time, due = scheduled
    whole = make().run(frame, y, time=time, label_time=due)
    live = make()
    first = live.run(frame[:300], y[:300], time=time[:300], label_time=due[:300])
    live.save(tmp_path / "state")
    second = Live.load(tmp_path / "state").run(frame[300:], y[300:], time=time[300:], label_time=due[300:])
    np.testing.assert_array_equal(columns(whole), np.vstack([columns(first), columns(second)]))


def test_everything_survives_a_restart(stream: Any, tmp_path: Any) -> None:
    frame, y = stream
    live = make()
    live.run(frame[:200], y[:200], ids=[f"r{k}" for k in range(200)])
    live.forecast(frame.to_dict("records")[200], id="open")
    live.save(tmp_path / "state")
    twin = Live.load(tmp_path / "state")
    assert twin.status() == live.status()
    assert twin.names == live.names
    assert twin.label("r7", y[7]) is False
    for each in (live, twin):
        assert each.label("open", 1.0) is True
    np.testing.assert_array_equal(columns(live.run(frame[201:], y[201:])), columns(twin.run(frame[201:], y[201:])))
    assert live.certificate().holds()


def test_rows_without_a_label_stay_open_and_can_be_labelled_later(stream: Any) -> None:
    frame, y = stream
    labels = y.copy()
    labels[[3, 4, 100]] = np.nan
    live = make()
    trace = live.trace(frame, labels, ids=list(range(len(y))))
    assert len(trace) == len(y)
    assert trace.experts.shape == (len(y), len(live.experts))
    assert live.status().open == 3
    assert live.label(4, y[4]) is True
    assert live.status().open == 2
    assert live.status().coverage == (len(y) - 2) / len(y)


def test_labels_repeated_contradicted_and_unheard_of(stream: Any) -> None:
    frame, _ = stream
    live = make()
    record = frame.to_dict("records")[0]
    live.forecast(record, id=1)
    live.label(1, 0)
    before = live.status()
    assert live.label(1, 0) is False
    with pytest.raises(ConflictingLabelError, match="given 1 for id 1, which was labelled 0"):
        live.label(1, 1)
    with pytest.raises(UnknownIdError, match="given id 'nobody', expected the id of a forecast that was issued"):
        live.label("nobody", 1)
    with pytest.raises(ConflictingLabelError, match="already names another forecast"):
        live.forecast(record, id=1)
    assert live.status() == before


def test_asking_again_returns_the_same_forecast(stream: Any) -> None:
    record = stream[0].to_dict("records")[0]
    live = make()
    first, again = live.forecast(record, id="x"), live.forecast(record, id="x")
    assert first == again
    assert live.status().forecasts == 1
    with pytest.raises(ConflictingLabelError, match="already names another forecast"):
        live.forecast({**record, "price": 99.0}, id="x")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda live, f, y: live.forecast([1], id="k"), "record: given list, expected a mapping"),
        (lambda live, f, y: live.forecast({}, id=1.5), "id: given float, expected an int or str"),
        (lambda live, f, y: live.label("open", 2), r"label: given 2, expected a number in \[0, 1\]"),
        (lambda live, f, y: live.label("open", 1, time=1), "label time: given 1, before the forecast at 9"),
        (
            lambda live, f, y: live.forecast({"shop": "a", "p_model": 0.5}, id="b", time=8),
            "time: given 8 in row 1 after 9",
        ),
        (lambda live, f, y: live.run(f, y[:-1]), r"y: given shape \(599,\), expected \(600,\)"),
        (lambda live, f, y: live.run(f, y + 1), "y: given 2 in row 1, expected a number in"),
        (lambda live, f, y: live.run(f, ["yes"] * 600), "y: given list that is not numeric"),
        (lambda live, f, y: live.run(f, y, ids=[1] * 600), "ids: given 1 again in row 2, expected each id once"),
        (lambda live, f, y: live.run(f, y, ids=[1]), "ids: given 1, expected 600, one per record"),
        (lambda live, f, y: live.run(f, y, label_time=y), "label_time: given without time, expected both"),
        (lambda live, f, y: live.run(f, y, time=-np.arange(600)), "time: given 0 in row 1 after 9, expected order"),
        (
            lambda live, f, y: live.run(f, y, time=np.arange(600) + 9, label_time=np.arange(600)),
            "label_time: given 0 in row 1, before the forecast at 9",
        ),
        (
            lambda live, f, y: live.run(f, y, time=["soon"] * 600),
            "time: given 'soon' in row 1, expected a number or an ISO",
        ),
        (lambda live, f, y: live.run({"shop": "a"}, [1]), "records: given one mapping, expected a list"),
        (lambda live, f, y: live.run(7, [1]), "records: given int"),
        (lambda live, f, y: live.run(f.assign(p_model=2.0), y), "score 'p_model': given 2.0 in row 1"),
        (lambda live, f, y: live.run(f.assign(price="dear"), y), "column 'price': given 'dear', expected a number"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(stream: Any, call: Any, message: str) -> None:
    frame, y = stream
    frame, y = frame, np.ones(600)
    live = make()
    live.forecast({"shop": "a", "price": 2.0, "p_model": 0.4}, id="open", time=9)
    before = live.status(), live.names
    with pytest.raises((TypeError, ValueError), match=message):
        call(live, frame, y)
    assert (live.status(), live.names) == before


def test_a_foreign_or_damaged_state_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"not a state")
    with pytest.raises(ArchiveError, match="not a readable swapcal state file"):
        Live.load(path)


def test_the_status_has_the_errors_of_the_issued_levels() -> None:
    live = Live(groups=["shop"])
    assert live.status().issued is None
    live.forecast({"shop": "a"}, id="first")
    assert live.status().issued is None
    assert "issued levels" not in live.status()._repr_html_()
    live.label("first", 1)
    records = [{"shop": "ab"[k % 2], "price": float(k % 7)} for k in range(300)]
    p = live.run(records, [k % 2 for k in range(300)]).p
    issued = live.status().issued
    assert issued is not None
    assert issued == live.certificate().issued
    assert issued.labels == 301
    gaps = [np.sum(np.arange(300)[p == v] % 2 - v) for v in np.unique(p)]
    assert issued.cal == pytest.approx(np.abs(gaps).sum(), abs=1.0)  # beside the first forecast
    assert issued.short() in live.status()._repr_html_()


def test_before_any_record_the_certificate_is_that_of_no_rounds() -> None:
    live = Live(window=500)
    assert live.certificate().rounds == 0
    assert live.certificate().holds()
    assert live.certificate(window=500).holds()
    assert live.engine() is None
    with pytest.raises(ValueError, match="window: given 3, expected none"):
        Live().certificate(window=3)


class Cheat:
    """A model that remembers the label of each price."""

    def __init__(self) -> None:
        self.seen: dict[Any, float] = {}

    def predict_proba_one(self, x: Any) -> Any:
        return {True: 0.05 + 0.9 * self.seen.get(x["price"], 0.5)}

    def learn_one(self, x: Any, y: Any) -> None:
        self.seen[x["price"]] = float(y)


def test_an_outside_model_joins_as_a_score(tmp_path: Any) -> None:
    rng = np.random.default_rng(7)
    price = rng.integers(0, 1_000_000, 40)
    y = (rng.random(40) < 0.5).astype(float)
    frame = pd.DataFrame({"price": np.tile(price, 30) + 0.5, "noise": rng.normal(size=1200)})
    labels = np.tile(y, 30)
    live = Live(models={"memory": Cheat()})
    trace = live.trace(frame, labels)
    said = trace.experts[:, live.experts.index("memory")]
    assert set(np.round(said[40:], 2)) == {0.05, 0.95}
    assert np.mean((trace.forecast.mean - labels)[600:] ** 2) < 0.01
    live.save(tmp_path / "state")
    with pytest.raises(ValueError, match=r"models: given \[\], expected those it was saved with: \['memory'\]"):
        Live.load(tmp_path / "state")
    assert Live.load(tmp_path / "state", models={"memory": Cheat()}).experts == live.experts


def test_an_outside_model_learns_late_labels_too() -> None:
    model = Cheat()
    live = Live(models={"memory": model})
    live.forecast({"price": 3}, id=1)
    assert model.seen == {}
    live.label(1, 1)
    assert model.seen == {3: 1.0}


def test_forecasts_are_calibrated_by_group_where_the_model_is_not(stream: Any) -> None:
    rng = np.random.default_rng(8)
    n = 20_000
    group = rng.choice(["x", "y"], n)
    p_model = rng.uniform(0.2, 0.8, n)
    chance = p_model + np.where(group == "x", 0.15, -0.15)
    y = (rng.random(n) < chance).astype(float)
    frame = pd.DataFrame({"group": group, "p_model": p_model})
    p = Live(groups=["group"], scores=["p_model"]).run(frame, y).p
    late = np.arange(n) > n // 4
    for name in ("x", "y"):
        rows = late & (group == name)
        assert abs(np.mean(y[rows] - p_model[rows])) > 0.1
        assert abs(np.mean(y[rows] - p[rows])) < 0.02


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([1, 2.5], [1.0, 2.5]),
        (np.array(["1970-01-02", "NaT"], "datetime64[D]"), [86400.0, math.nan]),
        (["1970-01-01T00:00:01", None], [1.0, math.nan]),
        ([pd.Timestamp("1970-01-01 01:00", tz="UTC")], [3600.0]),
    ],
)
def test_times_of_many_kinds_become_numbers(given: Any, expected: Any) -> None:
    np.testing.assert_array_equal(as_times("time", given), expected)


def test_before_any_label_the_mean_forecast_is_the_users_score() -> None:
    live = Live(scores=["p_model"])
    for k, p in enumerate((0.003, 0.3, 0.5, 0.97)):
        forecast = live.forecast({"p_model": p, "price": k}, id=k)
        assert forecast.mean == pytest.approx(p, abs=1e-12)
    assert live.certificate().holds()


def test_nothing_is_certain_before_the_first_label():
    live = Live(scores=["model"])
    preview = live.preview([{"model": 0.31}])
    assert (preview.low[0], preview.high[0]) == (0.25, 0.3125)
    assert live.engine() is None
    forecast = live.forecast({"model": 0.31}, id=1)
    assert preview.mean[0] == forecast.mean
    assert 0.25 <= forecast.p <= 0.3125
    assert forecast.mean == pytest.approx(0.31)


@pytest.mark.parametrize(
    ("settings", "record"),
    [({"prior": 0.02}, {"x": 1.0}), ({"scores": ["s"], "prior": "s"}, {"s": 0.9}), ({"scores": ["s"]}, {"s": 0.2})],
)
def test_a_preview_before_the_first_record_is_its_forecast(settings: dict[str, Any], record: dict[str, Any]) -> None:
    live = Live(**settings)
    before = live.preview(record)
    assert live.status().forecasts == 0
    assert before.mean == live.forecast(record, id=1).mean != 0.5


def test_rows_without_a_name_count_from_one() -> None:
    live = Live()
    live.run([{"v": 1.0}, {"v": 2.0}], [math.nan, math.nan])
    assert live.is_open("row 1")
    assert live.is_open("row 2")


# --------------------------------------------------------------------------------------------- scores beside forecasts


def compared(n: int, rate: float = 0.4, seed: int = 1) -> tuple[list[dict[str, Any]], Any, Any]:
    """Return records with two scores, one of them at times missing, their labels, and the scores as they are heard."""
    rng = np.random.default_rng(seed)
    y, good, bad = (rng.random(n) < rate).astype(float), rng.random(n), rng.random(n)
    good = np.clip(0.6 * y + 0.4 * good, 0.0, 1.0)
    missing = rng.random(n) < 0.1
    columns = zip(good.tolist(), bad.tolist(), missing.tolist(), strict=True)
    records = [{"good": g, "bad": None if absent else b, "x": g - b} for g, b, absent in columns]
    return records, y, np.clip(np.column_stack([good, np.where(missing, 0.5, bad)]), 1e-4, 1 - 1e-4)


@pytest.mark.parametrize("late", [0, 7])
def test_each_score_stands_beside_the_forecast_one_by_one_and_in_runs(late: int, tmp_path: Any) -> None:
    records, y, heard = compared(200)
    live, single = Live(scores=["good", "bad"]), Live(scores=["good", "bad"])
    time = np.arange(200.0)
    due = {"time": time, "label_time": time + late} if late else {}
    mean = np.asarray(live.run(records, y, ids=range(200), **due).mean)
    for k in range(200):
        if late and k > late:
            single.label(k - late - 1, y[k - late - 1], time=k - 1.0)
        single.forecast(records[k], id=k, **({"time": float(k)} if late else {}))
        if not late:
            single.label(k, y[k])
    assert live.status().scores == single.status().scores
    n = live.status().labels
    ours, theirs = (mean[:n] - y[:n]) ** 2, (heard[:n] - y[:n, None]) ** 2
    for k, found in enumerate(live.status().scores):
        change = ours - theirs[:, k]
        reach = 1.96 * change.std() / math.sqrt(n)
        expected = [theirs[:, k].mean(), change.mean(), change.mean() - reach, change.mean() + reach]
        assert found[2:6] == pytest.approx(expected, rel=1e-6)
    assert [score.name for score in live.status().scores] == ["good", "bad"]
    assert "better than bad" in live.status().scores[1].sentence
    live.save(tmp_path / "state")
    assert Live.load(tmp_path / "state").status().scores == live.status().scores


def test_scores_are_judged_when_there_are_enough_of_either_kind() -> None:
    records, y, _ = compared(400, 0.03)
    live = Live(scores=["good", "bad"])
    assert live.status().scores[0].sentence == "good: no outcome yet."
    live.run(records, 0.0 * y)
    assert all("too early to tell" in score.sentence for score in live.status().scores)
    live.run(records[:ENOUGH], np.ones(ENOUGH))
    assert all(score.low is not None for score in live.status().scores)


def test_models_and_ranges_stand_beside_the_forecast_too() -> None:
    records, y, _ = compared(120)
    wide = [{**each, "good": 10 * each["good"], "bad": None} for each in records]
    small, large = Live(scores=["good"]), Live(scores=["good"], low=0.0, high=10.0)
    small.run(records, y)
    large.run(wide, 10 * y)
    assert large.status().scores[0].brier == pytest.approx(100 * small.status().scores[0].brier, rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("design", ["as good", "better", "rare", "drifting"])
def test_the_interval_of_a_score_covers_in_95_percent_of_streams(design: str) -> None:
    runs, n = 500, 3000 if design == "rare" else 150
    rng, drift = np.random.default_rng(seeded(31)), np.linspace(-2.0, 2.0, n)
    odds = rng.normal(size=(runs, n)) + {"rare": -5.0, "drifting": drift}.get(design, 0.0)
    ours = odds + (0.2 if design == "better" else 0.5) * rng.normal(size=odds.shape)
    theirs = (
        odds - drift
        if design == "drifting"
        else odds + (1.0 if design == "better" else 0.5) * rng.normal(size=odds.shape)
    )
    p, mean, score = (1 / (1 + np.exp(-m)) for m in (odds, ours, theirs))
    y = rng.random(p.shape) < p
    change = (mean - y) ** 2 - (score - y) ** 2
    truth = (mean**2 - score**2 - 2 * (mean - score) * p).mean(axis=1)
    sums = np.stack([np.full(runs, n), change.sum(axis=1), change.sum(axis=1), (change**2).sum(axis=1)], axis=1)
    enough = np.minimum(y.sum(axis=1), n - y.sum(axis=1)) >= ENOUGH
    found = [score_beside("s", each, early=False) for each in sums[enough].tolist()]
    inside = [each.low <= expected <= each.high for each, expected in zip(found, truth[enough], strict=True)]
    assert len(inside) > 300
    assert abs(np.mean(inside) - 0.95) < 4.5 * math.sqrt(0.05 * 0.95 / len(inside)) + 0.02
    better = np.mean([each.high < 0 for each in found])
    assert better > 0.4 if design in ("better", "drifting") else better < 0.025 + 4.5 * math.sqrt(0.025 / len(inside))


# ---------------------------------------------------------------------------------------- what status tells, and when


def test_three_outcomes_do_not_tell_how_many_are_unseen() -> None:
    few, fixed = (
        Status(10, 3, 7, 0.3, 2.0, math.nan, 9.0, ones=1.0, unseen=0.4),
        Status(60, 50, 10, 0.8, 10.0, math.nan, 10.0, ones=20.0, unseen=1 / 51),
    )
    assert few.sentences() == fixed.sentences() == []
    assert "40.0% of the outcomes" in few._replace(forecasts=100, labels=30, ones=10.0).sentences()[0]


def test_silence_without_a_maturity_is_told() -> None:
    live = Live(silence=0)
    live.forecast({"v": 1.0}, id=1)
    live.forecast({"v": 1.0}, id=2, time=3.0, matures=4.0)
    assert live.status().windowless == 1
    assert "1 open forecast without a maturity" in live.status().sentences()[0]
    assert Live(silence=0, matures=5.0).status().windowless == 0


def test_a_preview_before_the_first_forecast_is_what_would_be_forecast() -> None:
    for settings, record, expected in (
        ({"scores": ["model"]}, {"model": 0.2, "shop": "a"}, 0.2),
        ({"prior": 0.1}, {"shop": "a"}, 0.1),
        ({}, {"shop": "a"}, 0.5),
    ):
        assert Live(**settings).preview(record).mean == pytest.approx(expected)
        assert Live(**settings).forecast(record, id=1).mean == Live(**settings).preview(record).mean


NAIVE, ZONED = "2024-05-01T09:00", "2024-05-01T12:00+02:00"


@pytest.mark.parametrize(("first", "other"), [(NAIVE, ZONED), ("2024-05-01T09:00Z", "2024-05-01T12:00")])
@pytest.mark.parametrize("saved", [False, True])
def test_times_with_a_zone_and_without_are_refused_in_separate_calls_too(first, other, saved, tmp_path):
    live = Live(matures="1h")
    live.forecast({"x": 1.0}, id=0, time=first)
    if saved:
        live.save(tmp_path / "live")
        live = Live.load(tmp_path / "live")
    table = [{"x": 1.0}, {"x": 2.0}]
    for refused in (
        lambda: live.forecast({"x": 1.0}, id=1, time=other),
        lambda: live.forecast_many([{"x": 1.0}], [1], time=[other]),
        lambda: live.forecast({"x": 1.0}, id=1, time=first, matures=other),
        lambda: live.run(table, [0, 1], time=[other, other]),
        lambda: live.label(0, 1, time=other),
        lambda: live.settle(other),
    ):
        before = repr(live.status())
        with pytest.raises(ValueError, match=r"^(time|matures): given a time with.* zone, expected a time with"):
            refused()
        assert repr(live.status()) == before
    live.forecast({"x": 1.0}, id=1, time="2024-05-02")  # a day needs no zone
    live.forecast({"x": 1.0}, id=2, time=np.datetime64("2024-05-03T10:00"))
    assert live.label(0, 1, time=first)


def zoned_column(library):
    days = [datetime(2024, 5, 1), datetime(2024, 5, 2)]
    if library == "pandas":
        return (pd.Series(days), pd.Series(days).dt.tz_localize("Europe/Berlin"))
    if library == "polars":
        return (pl.Series(days), pl.Series(days).dt.replace_time_zone("Europe/Berlin"))
    return (pa.array(days), pa.array(days, pa.timestamp("us", "Europe/Berlin")))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("first", [0, 1])
def test_the_zone_of_a_column_of_times_is_noticed(library, first):
    columns, rows = zoned_column(library), [{"x": 1.0}, {"x": 2.0}]
    live = Live()
    live.forecast_many(rows, [0, 1], time=columns[first])
    for other in (columns[1 - first], ["2024-05-03T00:00" + "Z" * (1 - first)] * 2):
        with pytest.raises(ValueError, match=r"time: given a time with.* zone"):
            live.forecast_many(rows, [2, 3], time=other)
    live.run(rows, [0, 1], time=np.array(["2024-05-03", "2024-05-04"], "datetime64[s]"))


def test_a_window_of_months_is_refused():
    with pytest.raises(ValueError, match=r"matures: given .*, expected a number of at least 0, a timedelta"):
        Live(matures=np.timedelta64(1, "M"))


def test_a_window_with_a_unit_is_refused_beside_milliseconds(tmp_path):
    for window in ("7d", timedelta(days=7), np.timedelta64(7, "D")):
        live = Live(matures=window)
        live.save(tmp_path / "live")
        for each in (live, Live.load(tmp_path / "live")):
            with pytest.raises(ValueError, match=r"matures: given 604,800 seconds, .* expected 604800000"):
                each.forecast({"x": 1.0}, id=1, time=1_714_554_000_000)
            with pytest.raises(ValueError, match="times are nanoseconds since 1970, expected 604800000000000"):
                each.forecast_many([{"x": 1.0}] * 2, [1, 2], time=[0.0, 1.714554e18])
            each.forecast({"x": 1.0}, id=1, time=1_714_554_000)
    Live(matures=604_800_000).forecast({"x": 1.0}, id=1, time=1_714_554_000_000)
    Live(matures="7d").forecast({"x": 1.0}, id=1, time="2024-05-01")
