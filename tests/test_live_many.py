"""Many forecasts and many labels at once: the same as one by one, and all or nothing."""

import copy
import hashlib
import marshal
import math
import re
from enum import StrEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as searching
from hypothesis import strategies as st

from swapcal import Contexts, Live, Monitor
from swapcal.features import contexts as contexts_module
from swapcal.live import ConflictingLabelError, ExpiredIdError, UnknownIdError
from swapcal.live.live import HELD, LEARNED, REFUSED, REPEATED
from swapcal.live.validation import PLAIN_FORMAT, fingerprint


def records(n: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {"shop": "abcde"[rng.integers(1 + min(4, k // 10))], "price": float(rng.normal()), "q": int(rng.integers(4))}
        | ({"late": float(k)} if k > n // 2 else {})
        for k in range(n)
    ]


def outcomes(rows: list[dict[str, Any]], seed: int = 1) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(rng.random() < 0.3 + 0.4 * (row["shop"] == "a")) for row in rows]


def same(left: Live, right: Live) -> bool:
    a, b = left.to_state(), right.to_state()
    ours, theirs = ({k: v for k, v in s.manifest.items() if k != "forecaster"} for s in (a, b))
    return ours == theirs and all(np.array_equal(a.arrays[k], b.arrays[k], equal_nan=True) for k in a.arrays)


@pytest.mark.parametrize(
    "settings",
    [{}, {"groups": ["shop"], "max_open": 7}, {"expires": 9}, {"order": "issue", "patience": 4}, {"lifetime": 11.0}],
)
def test_many_at_once_equal_one_by_one(settings: dict[str, Any]) -> None:
    rows, n = records(60), 60
    y, one, many = outcomes(rows), Live(**settings), Live(**settings)
    times = np.arange(n, dtype=float)
    matures = np.where(np.arange(n) % 3, np.nan, times + 4.0)
    for a in range(0, n, 12):
        part = range(a, a + 12)
        singles = [one.forecast(rows[k], k, times[k], matures[k]) for k in part]
        stacked = many.forecast_many(rows[a : a + 12], [*part], time=times[a : a + 12], matures=matures[a : a + 12])
        for column in ("p", "mean", "low", "high", "weight"):
            assert [getattr(f, column) for f in singles] == getattr(stacked, column).tolist()
        chosen = [k for k in part if k % 5 and k in one._open_forecasts.opened]
        for k in chosen:
            one.label(k, y[k], a + 11.5)
        many.label_many(chosen, [y[k] for k in chosen], time=a + 11.5)
        assert same(one, many)


def test_each_label_says_what_became_of_it() -> None:
    live = Live()
    live.forecast_many(records(3), ["a", "b", "c"], time=1, matures=[2, 9, np.nan])
    assert live.label_many(["a", "b", "c", "a"], [1, 0, 1, 1], time=3) == [LEARNED, HELD, LEARNED, REPEATED]
    assert live.label_many(["b", "c"], [0, 1], time=4) == [REPEATED, REPEATED]
    assert (live.status().held, live.status().labels) == (1, 2)


def test_asking_again_is_answered_by_the_open_forecast() -> None:
    rows, live = records(4), Live()
    first = live.forecast_many(rows[:2], ["a", "b"], time=[5, 6])
    again = live.forecast_many([rows[2], rows[0], rows[3], rows[2]], ["c", "a", "d", "c"], time=[7, 5, 8, 7])
    assert again.p[1] == first.p[0]
    assert again.p[3] == again.p[0]
    assert live.status().forecasts == 4
    assert live.forecast_many(rows[:2], ["a", "b"], time=[5, 6]) == first


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda live: live.forecast_many([{"price": 1.0}, {"price": "x"}], ["n", "m"]), TypeError, "column 'price'"),
        (lambda live: live.forecast_many([{}, {}], ["n", "a"]), ConflictingLabelError, "row 2: id: given 'a'"),
        (lambda live: live.forecast_many([{}, {"q": 1}], ["n", "n"]), ConflictingLabelError, "row 2: id: given 'n'"),
        (lambda live: live.forecast_many([{}, 3], ["n", "m"]), TypeError, "row 2: record: given int"),
        (lambda live: live.forecast_many([{}], ["n", "m"]), ValueError, "ids: given 2, expected 1"),
        (lambda live: live.forecast_many([{}, {}], ["n", 1.5]), TypeError, "row 2: id: given float"),
        (lambda live: live.forecast_many({}, []), TypeError, "records: given one mapping"),
        (lambda live: live.forecast_many([{}, {}], ["n", "m"], time=[9, 3]), ValueError, "3 in row 2 after 9"),
        (lambda live: live.forecast_many([records(3)[0], {"price": np.inf}], ["a", "m"]), ValueError, "in row 2"),
        (lambda live: live.label_many(["a", "x"], [1, 1]), UnknownIdError, "row 2: label: given id 'x'"),
        (lambda live: live.label_many(["a", "a"], [1, 0]), ConflictingLabelError, "row 2: label: given 0 for id 'a'"),
        (lambda live: live.label_many(["a", "b"], [1, 2]), ValueError, "row 2: label: given 2"),
        (lambda live: live.label_many(["a", "b"], [1]), ValueError, "y: given 1, expected 2"),
        (lambda live: live.label_many(["a", "b"], "01"), TypeError, "y: given str"),
    ],
)
def test_one_bad_row_is_named_and_nothing_changes(call: Any, error: Any, message: str) -> None:
    live = Live()
    live.forecast_many(records(3), ["a", "b", "c"], time=[1, 2, 3])
    before = copy.deepcopy(live)
    with pytest.raises(error, match=re.escape(message)):
        call(live)
    assert same(before, live)


def test_a_batch_sees_the_labels_that_fall_due_while_it_is_learned() -> None:
    rows = records(4)
    live = Live(lifetime=5.0)
    live.run(rows, [1, 0, 1, 1], ids=["a", "b", "c", "d"], time=[0, 0, 0, 0], label_time=[2, 3, 9, 1])
    before = copy.deepcopy(live)
    with pytest.raises(ConflictingLabelError, match="row 2: label: given 0 for id 'a', which was labelled 1"):
        live.label_many(["b", "a"], [0, 0], time=4)
    with pytest.raises(ExpiredIdError, match="row 2"):
        live.label_many(["b", "c"], [0, 1], time=[4, 8])
    assert same(before, live)
    assert live.label_many(["b", "a"], [0, 1], time=4) == [REPEATED, REPEATED]  # both were known before
    assert live.label_many(["b", "a"], [0, 1], time=[2.5, np.nan]) == [LEARNED, REPEATED]


def test_check_tells_beforehand_and_changes_nothing() -> None:
    rows, live = records(3), Live(groups=["shop"])
    with pytest.raises(ValueError, match="declared but absent"):
        live.check({"price": 1.0}, "a")
    live.forecast_many(rows, ["a", "b", "c"], time=[1, 2, 3])
    before = copy.deepcopy(live)
    live.check(rows[0], "a")
    live.check(rows[0], "d", 3)
    live.check({"shop": "new", "more": 3.0}, "d", 4)
    for arguments in (({"price": "x"}, "d"), (rows[0], "d", 2), (rows[0], "b", 4), (rows[0], 1.5), (3, "d")):
        with pytest.raises((TypeError, ValueError)):
            live.check(*arguments)  # type: ignore[arg-type]
    assert same(before, live)


def test_outside_models_are_asked_and_taught_as_one_by_one() -> None:
    class Model:
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def forecast(self, record: Any, keys: Any, values: Any) -> float:
            return 0.25 + 0.5 * (record["shop"] == "a")

        def learn(self, record: Any, keys: Any, values: Any, y: float) -> None:
            self.heard.append((record["price"], y))

    rows, models = records(20), [Model(), Model()]
    y, (one, many) = outcomes(rows), [Live(models={"mine": model}) for model in models]
    singles = [one.forecast(row, k).p for k, row in enumerate(rows)]
    assert many.forecast_many(rows, range(20)).p.tolist() == singles  # type: ignore[arg-type]
    for k in range(20):
        one.label(k, y[k])
    many.label_many([*range(20)], y)
    assert models[0].heard == models[1].heard
    assert same(one, many)


def test_numbers_and_dates_do_not_mix() -> None:
    rows, live = records(4), Live()
    live.forecast(rows[0], "a", "2024-01-01")
    before = copy.deepcopy(live)
    for call in (
        lambda: live.forecast(rows[1], "b", 2e9),
        lambda: live.forecast_many(rows[1:3], ["b", "c"], time=["2024-01-02", 2e9]),
        lambda: live.forecast(rows[1], "b", "2024-01-02", 2e9),
        lambda: live.run(rows[1:3], [1, 0], time=[2e9, 2e9]),
        lambda: live.label("a", 1, 2e9),
        lambda: live.label_many(["a"], [1], time=2e9),
    ):
        with pytest.raises(ValueError, match=r"given (a number|numbers and dates)"):
            call()
    assert same(before, live)
    live.label("a", 1, np.datetime64("2024-01-03"))
    numbered = Live()
    numbered.forecast(rows[0], "a", 5)
    with pytest.raises(ValueError, match="given a date, expected a number"):
        numbered.forecast(rows[1], "b", "2024-01-01")


Event = tuple[float, int, bool]
"""time, id, and whether a forecast is asked for"""


def play_singly(live: Live, rows: Any, y: Any, matures: Any, events: list[Event]) -> list[float]:
    told: list[float] = []
    for time, k, asks in events:
        if asks:
            told.append(float(live.forecast(rows[k], k, time, matures[k]).mean))
        if not asks or k % 7 == 0:
            try:
                live.label(k, y[k], time)
            except ExpiredIdError:
                told.append(-k)
    return told


def play_mixed(live: Live, rows: Any, y: Any, matures: Any, events: list[Event]) -> list[float]:
    times, ids, asks = (list(column) for column in zip(*events, strict=True))
    labels = [y[k] if not asked or k % 7 == 0 else np.nan for _, k, asked in events]
    asked = [rows[k] for _, k, asking in events if asking]
    try:
        found, became = live.follow(asked, ids, labels, asks, time=times, matures=matures[ids])
    except ExpiredIdError:  # before these events; one among them is told
        middle = len(events) // 2
        parts = (events[:middle], events[middle:])
        return [-ids[0]] if not middle else [t for part in parts for t in play_mixed(live, rows, y, matures, part)]
    late = [k for _, k, asking in events if not asking]
    return found.mean.tolist() + [-k for k, outcome in zip(late, became, strict=True) if outcome == REFUSED]


@pytest.mark.parametrize(
    "settings",
    [{}, {"groups": ["shop"], "max_open": 7}, {"expires": 9}, {"order": "issue", "patience": 4}, {"lifetime": 11.0}],
)
def test_records_and_late_labels_mixed_equal_one_by_one(settings: dict[str, Any]) -> None:
    rows, rng = records(60), np.random.default_rng(2)
    y, one, mixed = outcomes(rows), Live(**settings), Live(**settings)
    matures = np.where(np.arange(60) % 3, np.nan, np.arange(60) + 4.0)
    events: list[Event] = [(float(k), k, True) for k in range(60)]
    events += [(float(k + rng.integers(1, 14) + 0.5), k, False) for k in range(60) if k % 7]
    events.sort()
    for a in range(0, len(events), 25):
        part = events[a : a + 25]
        told = [play(live, rows, y, matures, part) for play, live in ((play_singly, one), (play_mixed, mixed))]
        assert sorted(told[0]) == sorted(told[1])
        assert same(one, mixed)
    assert one.status().labels > 20


@pytest.mark.parametrize(
    ("ids", "y", "times", "message"),
    [
        (["b", "a", "a"], [np.nan, 1, 0], [5, 6, 7], r"row 3: label: given 0 for id 'a', which was labelled 1"),
        (["b", "b", "a"], [1, 0, 0], [5, 6, 7], r"row 2: label: given 0 for id 'b', which was labelled 1"),
        (["b", "x", "a"], [np.nan, 1, 0], [5, 6, 7], r"row 2: label: given id 'x'"),
        (["b", "b", "a"], [np.nan, 1, 0], [5, 4, 7], r"row 2: label time: given 4, before the forecast at 5"),
        (["a", "b", "a"], [np.nan, 1, 0], [5, 6, 7], r"ids: given 'a' again in row 1"),
        (["b", "b", "a"], [np.nan, np.nan, 0], [5, 6, 7], r"row 2: y: given nothing for id 'b'"),
        (["b", "b", "a"], [np.nan, 2, 0], [5, 6, 7], r"y: given 2 in row 2"),
        (["b", "a", "a"], [np.nan, 1, 1], [1, 6, 7], r"time: given"),
    ],
)
def test_a_mixture_is_refused_as_a_whole(ids: Any, y: Any, times: Any, message: str) -> None:
    live = Live()
    live.forecast({"price": 1.0}, "a", 3.0)
    before = copy.deepcopy(live)
    with pytest.raises(ValueError, match=message):
        live.follow([{"price": 2.0}], ids, y, [True, False, False], time=times)
    assert same(live, before)
    with pytest.raises(ValueError, match=r"^asks: given 1 of 1 rows, expected as many as the 2 records"):
        live.follow([{"price": 2.0}] * 2, ["b"], [np.nan], [True])


def test_a_mixture_that_contradicts_a_label_on_its_way_is_refused_as_a_whole() -> None:
    live = Live()
    live.run(records(2), [1, 0], ids=["a", "b"], time=[0, 1], label_time=[5, 6])
    before = copy.deepcopy(live)
    for passing, y, asks, time in (("c", np.nan, True, 10), ("c", 1, True, 6), ("a", 1, False, 10)):
        with pytest.raises(ConflictingLabelError, match=r"^row 2: label: given 1 for id 'b', which was labelled 0"):
            live.follow(records(int(asks)), [passing, "b"], [y, 1], [asks, False], time=[time, time])
        assert same(live, before)


def test_a_mixture_may_correct_a_label_that_is_still_on_its_way() -> None:
    one, mixed = Live(), Live()
    for live in (one, mixed):
        live.run(records(2), [1, 0], ids=["a", "b"], time=[0, 1], label_time=[5, 6])
    one.forecast(records(1)[0], "c", 4)
    assert one.label("b", 1, 4.5)
    assert mixed.follow(records(1), ["c", "b"], [np.nan, 1], [True, False], time=[4, 4.5])[1] == [LEARNED]
    assert same(one, mixed)


@pytest.mark.parametrize("time", [3.0, [3.0, 3.0, 3.0]])
def test_a_mixture_takes_one_time_for_all(time: Any) -> None:
    one, mixed = Live(), Live()
    for k in range(2):
        one.forecast(records(2)[k], "ab"[k], 3.0, 3.0)
    one.label("a", 1, 3.0)
    asks, y = [True, True, False], [np.nan, np.nan, 1]
    assert mixed.follow(records(2), ["a", "b", "a"], y, asks, time=time, matures=time)[1] == [LEARNED]
    assert same(one, mixed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": [1, 2]}, r"^time: given shape \(2,\), expected \(3,\)"),
        ({"matures": [4]}, r"^matures: given shape \(1,\), expected \(3,\)"),
        ({"matures": [4, 5, 6, 7]}, r"^matures: given shape \(4,\), expected \(3,\)"),
        ({"time": [5, 6, 3]}, r"^time: given 3 in row 3 after 5"),
        ({"ids": ["a", "a", "a"]}, r"^ids: given 'a' again in row 3"),
        ({"asks": ["True", "False", "True"]}, r"^asks: given what is neither true nor false"),
        ({"asks": [True, False, np.nan]}, r"^asks: given what is neither true nor false"),
    ],
)
def test_a_mixture_names_the_row_among_all(change: dict[str, Any], message: str) -> None:
    live = Live()
    given = {"ids": ["a", "a", "b"], "y": [np.nan, 1, np.nan], "asks": [True, False, True], "time": [1, 2, 3]} | change
    before = copy.deepcopy(live)
    with pytest.raises((TypeError, ValueError), match=message):
        live.follow(records(2), **given)
    assert same(live, before)


def test_what_a_watcher_raises_teaches_nothing_twice() -> None:
    def broken(_: Any) -> None:
        raise RuntimeError("the watcher broke")

    one, watched = Live(), Live()
    for live in (one, watched):
        live.forecast_many(records(2), ["a", "b"])
    watched.watch(broken)
    with pytest.raises(RuntimeError, match="the watcher broke"):
        watched.label("a", 1)
    watched.watch(None)
    one.label("a", 1)
    for live in (one, watched):
        live.label("b", 0)
    assert same(one, watched)


class Colour(StrEnum):
    RED = "red"


NAMES = ["a", "b", "é", "x1", np.str_("a"), np.str_("z"), Colour.RED, 1, True, 2.5, None, b"a"]
VALUES = [1, 2.0, "s", None, math.nan, [1], np.float64(2.0), np.str_("q"), object, True, {"k": 1}]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=6))
@searching(max_examples=500)
def test_a_fingerprint_is_that_of_the_items_in_the_order_of_their_names(items: list[tuple[Any, Any]]) -> None:
    record = dict(items)
    try:
        content = marshal.dumps(sorted(record.items(), key=lambda item: item[0]), PLAIN_FORMAT)
    except (TypeError, ValueError):
        content = repr(sorted((str(name), repr(value)) for name, value in record.items())).encode()
    expected = int.from_bytes(hashlib.blake2b(content, digest_size=6).digest(), "little")
    assert fingerprint(record) == expected


ODD = st.sampled_from(["a", "b", "new", None, math.nan, 1, 2.5, -3, True, 1e120, "", np.float64(2.0)])
ROWS = st.lists(
    st.fixed_dictionaries(
        {"shop": st.sampled_from(["a", "b", None]), "n": st.sampled_from([1, 2.5, None, math.nan, -3.0])},
        optional={"s": st.sampled_from([0.2, 1, None, 0.0]), "odd": ODD, "m": st.sampled_from([4, 5.5])},
    ),
    min_size=1,
    max_size=6,
)


@given(ROWS)
@searching(max_examples=300, deadline=None)
def test_a_batch_of_ordinary_records_is_read_as_by_the_general_path(rows: list[dict[str, Any]]) -> None:
    known = [{"shop": "ab"[k % 2], "n": float(k), "s": k / 40, "odd": "ab"[k % 2], "m": k} for k in range(40)]
    known += [{"shop": None, "n": None, "s": None, "odd": None, "m": 3}]
    found = []
    for few in (contexts_module.FEW, 0):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(contexts_module, "FEW", few)
            contexts = Contexts(groups=["shop"], scores=["s"] if all("s" in row for row in rows) else [])
            contexts.encode(known)
            try:
                encoded = contexts.encode(rows)
                found.append([encoded.x, encoded.dims, encoded.keys, encoded.values, encoded.scores, encoded.marks])
            except (TypeError, ValueError) as error:
                found.append([np.array(str(error))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("monitored", [False, True])
def test_batches_with_times_equal_one_by_one(monitored: bool) -> None:
    rows, y = records(120), outcomes(records(120))
    one, many = (Live(groups=["shop"], monitor=Monitor(["shop"]) if monitored else None) for _ in range(2))
    for start in range(0, 120, 30):
        ids, part = [*range(start, start + 30)], rows[start : start + 30]
        times = [float(k // 3) for k in ids]
        alone = [one.forecast(row, id, time=time).mean for row, id, time in zip(part, ids, times, strict=True)]
        assert many.forecast_many(part, ids, time=times).mean.tolist() == alone
        told = ids[::2] + ids[5:9:2]
        came = [times[id - start] + 0.5 * (id % 4) for id in told]
        each = [one.label(id, y[id], time=time) for id, time in zip(told, came, strict=True)]
        assert each == [state == LEARNED for state in many.label_many(told, [y[id] for id in told], time=came)]
        assert same(one, many)


def test_a_label_of_a_batch_that_comes_before_its_forecast_is_refused() -> None:
    live = Live()
    live.forecast_many([{"price": 1.0}, {"price": 2.0}], ["a", "b"], time=[3.0, 4.0])
    before = copy.deepcopy(live)
    with pytest.raises(ValueError, match=r"row 2: label time: given 3.5, before the forecast at 4"):
        live.label_many(["a", "b"], [1, 0], time=[3.5, 3.5])
    assert same(live, before)
