"""One bad record cannot poison a stream: what is refused leaves the state bit for bit as it was."""

import datetime
import decimal
import fractions
import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from swapcal.features import Contexts, Encoded
from swapcal.live import ConflictingLabelError, Live
from swapcal.monitor import Monitor

GOOD = {"shop": "a", "price": 3.0, "p": 0.4, "tag": "x"}
TIMES = [1.0, 2.0, 3.0]


def saved(live: Live, folder: Path) -> bytes:
    live.save(folder / "state")
    return (folder / "state").read_bytes()


def state(live: Live) -> Any:
    """Return every bit that matters, faster than saving it."""
    whole = live._learner.experts._bank._asdict()
    whole |= {f"newton {name}": array for name, array in whole.pop("newton")._asdict().items()}
    bank = {f"bank {name}": array for name, array in whole.items()}
    contexts, described = live.contexts.to_state()
    engine, settings = live._learner.forecaster.to_state() if live._learner.forecaster is not None else ({}, {})
    open_forecasts, counts = live._open_forecasts.to_state()
    arrays = {
        name: (a.dtype, a.shape, zlib.crc32(a.tobytes()))
        for name, a in (bank | contexts | engine | open_forecasts).items()
    }
    return arrays, json.dumps([described, settings, counts])


@pytest.fixture
def live() -> Live:
    live = Live(groups=["shop"], scores=["p"], drop=["note"])
    live.run([GOOD, {**GOOD, "price": 5.0, "shop": "b"}, {**GOOD, "p": 0.9}], [0, 1, 1], ids=["r1", "r2", 3])
    live.forecast(GOOD, id="open", time=9)
    return live


class Nameless:
    """A value whose text is an address."""


BAD_VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "lone surrogate in a group": ({"shop": "\ud800"}, "column 'shop': given .* in row 1, a lone surrogate, expected"),
    "lone surrogate in text": ({"tag": "a\udfff"}, "column 'tag': given .* in row 1, a lone surrogate"),
    "lone surrogate in a new column": ({"new": "\ud800"}, "column 'new': given"),
    "lone surrogate as a name": ({"\ud800": 1.0}, "name with a lone surrogate"),
    "a list": ({"tag": ["x"]}, "column 'tag': given list in row 1, expected a number, text"),
    "an empty list": ({"price": []}, "column 'price': given list in row 1"),
    "a list in a tuple": ({"tag": ("x", ["y"])}, "column 'tag': given tuple in row 1"),
    "a tuple": ({"tag": ("x",)}, "column 'tag': given tuple in row 1"),
    "a dict": ({"tag": {"a": 1}}, "column 'tag': given dict in row 1"),
    "a set": ({"shop": {1}}, "column 'shop': given set in row 1"),
    "a frozen set": ({"shop": frozenset([1])}, "column 'shop': given frozenset in row 1"),
    "bytes": ({"tag": b"x"}, "column 'tag': given bytes in row 1"),
    "a complex number": ({"price": 1j}, "column 'price': given complex in row 1"),
    "an array": ({"price": np.arange(2.0)}, "column 'price': given ndarray in row 1"),
    "a masked array": ({"price": np.ma.masked_array([1.0, 2.0], [0, 1])}, "column 'price': given MaskedArray in row 1"),
    "a frame": ({"price": pd.DataFrame({"a": [1]})}, "column 'price': given DataFrame in row 1"),
    "a series": ({"tag": pd.Series(["x", "y"])}, "column 'tag': given Series in row 1"),
    "an object without a name": ({"tag": Nameless()}, "column 'tag': given Nameless in row 1"),
    "a type": ({"price": "dear"}, "column 'price': given 'dear', expected a number"),
    "a truth value for a number": ({"price": True}, "column 'price': given True, expected a number"),
    "a duration for a number": ({"price": np.timedelta64(1, "s")}, "column 'price': given"),
    "a huge integer": ({"price": 10**400}, "column 'price': given inf in row 1, expected a finite number"),
    "a huge negative integer": ({"price": -(10**400)}, "column 'price': given -inf in row 1, expected a finite number"),
    "a huge integer in a group": ({"shop": 10**400}, "column 'shop': given inf in row 1, expected a finite number"),
    "a huge fraction": ({"price": fractions.Fraction(10**400, 3)}, "column 'price': given inf in row 1"),
    "a huge decimal": ({"price": decimal.Decimal("1e999")}, "column 'price': given inf in row 1"),
    "infinity": ({"price": math.inf}, "column 'price': given inf in row 1, expected a finite number"),
    "infinity in a group": ({"shop": -math.inf}, "column 'shop': given -inf in row 1"),
    "a number whose square is none": ({"price": 1e200}, r"column 'price': given 1e\+200 in row 1, .* at most 1e\+100"),
    "a score above 1": ({"p": 1.5}, "score 'p': given 1.5 in row 1, expected a probability"),
    "a score in words": ({"p": "0.5"}, "column 'p': given '0.5', expected a number"),
    "a name of None": ({None: 1.0}, "column None: given a name of type NoneType, expected text or an integer"),
    "a name of bytes": ({b"a": 1.0}, "given a name of type bytes"),
    "a name of NaN": ({math.nan: 1.0}, "given a name of type float"),
    "a true name": ({True: 1.0}, "given a name of type bool"),
    "a name of a tuple": ({("a", "b"): 1.0}, "given a name of type tuple"),
    "names that read the same": ({1: 1.0, "1": 2.0}, "column '1': given twice, expected each name once"),
}


@pytest.mark.parametrize(("bad", "message"), BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_a_bad_record_is_refused_and_leaves_no_trace(live: Live, bad: Any, message: str) -> None:
    before = state(live)
    record = {**GOOD, "a new column": "first", **bad}
    ahead = {**GOOD, "another new column": 7.0, "shop": "new"}
    for attempt in (
        lambda: live.forecast(record, id="k"),
        lambda: live.contexts.encode(record),
        lambda: live.contexts.encode([record]),
        lambda: live.preview([record]),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            attempt()
        assert state(live) == before
    with pytest.raises((TypeError, ValueError), match=r"given .*expected"):
        live.run([ahead, record, ahead], [0, 1, 0], ids=[10, 11, 12])
    assert state(live) == before


@pytest.mark.parametrize(
    "bad",
    [{"p": -0.5}, {"p": 1.5}, {"p": -math.inf}, {"price": 1e101}, {"price": -math.inf}, {"price": 10**400}],
    ids=str,
)
def test_a_number_too_small_or_too_large_is_refused_in_rows_that_hold_nothing_new(live: Live, bad: Any) -> None:
    before, name = state(live), next(iter(bad))
    for attempt in (
        lambda: live.forecast(GOOD | bad, id="k"),
        lambda: live.forecast_many([GOOD, GOOD | bad], ["j", "k"]),
        lambda: live.run([GOOD, GOOD | bad], [0, 1]),
        lambda: live.check(GOOD | bad, id="k"),
    ):
        with pytest.raises(ValueError, match=rf"'{name}': given .*, expected"):
            attempt()
        assert state(live) == before


GOOD_VALUES: dict[str, dict[str, Any]] = {
    "nothing": {"price": None, "shop": None, "p": None},
    "NaN": {"price": math.nan, "p": math.nan, "tag": math.nan},
    "NA": {"price": pd.NA, "shop": pd.NA},
    "NaT": {"price": pd.NaT, "shop": np.datetime64("NaT")},
    "masked": {"price": np.ma.masked, "shop": np.ma.masked},
    "a signalling NaN": {"price": decimal.Decimal("sNaN"), "shop": decimal.Decimal("sNaN")},
    "a decimal": {"price": decimal.Decimal("3.5")},
    "a fraction": {"price": fractions.Fraction(7, 2)},
    "numpy's numbers": {"price": np.float32(3.5), "shop": np.int8(4), "p": np.float64(0.25), "tag": np.str_("x")},
    "a moment": {"price": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "shop": datetime.date(2024, 1, 2)},
    "a truth value": {"shop": True, "tag": np.True_},
    "an empty name": {"": 1.0},
    "a number as a name": {7: 1.0},
    "an empty text": {"tag": "", "shop": ""},
    "anything in a dropped column": {"note": [1, {2}]},
    "a zero byte": {"tag": "x\0"},
}


@pytest.mark.parametrize("more", GOOD_VALUES.values(), ids=GOOD_VALUES.keys())
def test_what_is_taken_in_can_be_saved_and_goes_on(live: Live, tmp_path: Path, more: Any) -> None:
    live.forecast({**GOOD, **more}, id="k\0")
    live.save(tmp_path / "state")
    twin = Live.load(tmp_path / "state")
    for each in (live, twin):
        each.label("k\0", 1)
    assert live.forecast(GOOD, id="next").p == twin.forecast(GOOD, id="next").p
    assert saved(live, tmp_path) == saved(twin, tmp_path)


BAD_CALLS: dict[str, tuple[Any, str]] = {
    "id true": (lambda v: v.forecast(GOOD, id=True), "id: given bool, expected an int or str"),
    "id numpy's true": (lambda v: v.forecast(GOOD, id=np.True_), "id: given bool, expected an int or str"),
    "id list": (lambda v: v.forecast(GOOD, id=[1]), "id: given list, expected an int or str"),
    "id float": (lambda v: v.forecast(GOOD, id=np.float64(1)), "id: given float64, expected an int or str"),
    "id none": (lambda v: v.forecast(GOOD, id=None), "id: given NoneType"),
    "id bytes": (lambda v: v.forecast(GOOD, id=b"x"), "id: given bytes"),
    "id surrogate": (lambda v: v.forecast(GOOD, id="\ud800"), "id: given .* with a lone surrogate"),
    "id huge": (lambda v: v.forecast(GOOD, id=10**400), "id: given an integer of 1329 bits, expected at most 256"),
    "label id list": (lambda v: v.label([1], 1), "id: given list, expected an int or str"),
    "label id true": (lambda v: v.label(True, 1), "id: given bool"),
    "label NaN": (lambda v: v.label("open", math.nan), "label: given nan, expected a number in"),
    "label huge": (lambda v: v.label("open", 10**400), "label: given .*, expected a number in"),
    "label text": (lambda v: v.label("open", "1"), "label: given '1', expected a number in"),
    "label masked": (lambda v: v.label("open", np.ma.masked), "label: given a masked array with entries missing"),
    "label time infinite": (lambda v: v.label("open", 1, time=math.inf), "time: given an infinite time"),
    "label time list": (lambda v: v.label("open", 1, time=[1, 2]), "time: given shape"),
    "time infinite": (lambda v: v.forecast(GOOD, id="k", time=math.inf), "time: given an infinite time in row 1"),
    "time huge": (lambda v: v.forecast(GOOD, id="k", time=10**400), "time: given an infinite time in row 1"),
    "time NaN": (lambda v: v.forecast(GOOD, id="k", time=math.nan), "time: given none in row 1"),
    "time true": (lambda v: v.forecast(GOOD, id="k", time=True), "time: given bool in row 1"),
    "times too few": (lambda v: v.run([GOOD] * 2, [0, 1], time=[10]), r"time: given shape \(1,\)"),
    "times nested": (lambda v: v.run([GOOD] * 2, [0, 1], time=[["a"], ["b"]]), "time: given shape"),
    "times masked": (
        lambda v: v.run([GOOD] * 2, [0, 1], time=np.ma.masked_array([10, 11], [0, 1])),
        "time: given none in row 2",
    ),
    "label times infinite": (
        lambda v: v.run([GOOD] * 2, [0, 1], time=[10, 11], label_time=[12, math.inf]),
        "label_time: given an infinite time in row 2",
    ),
    "labels as text": (lambda v: v.run([GOOD] * 2, ["0", "1"]), "y: given list that is not numeric"),
    "labels as objects": (lambda v: v.run([GOOD], np.array(["1"], object)), "y: given ndarray that is not numeric"),
    "labels huge": (lambda v: v.run([GOOD], [10**400]), "y: given list that is not numeric"),
    "labels infinite": (lambda v: v.run([GOOD], [math.inf]), "y: given inf in row 1"),
    "labels nested": (lambda v: v.run([GOOD], [[1.0]]), r"y: given shape \(1, 1\), expected \(1,\)"),
    "ids in one string": (lambda v: v.run([GOOD] * 2, [0, 1], ids="ab"), "ids: given str, expected a list of ids"),
    "ids repeated": (lambda v: v.run([GOOD] * 2, [0, 1], ids=[5, np.int64(5)]), "ids: given 5 again in row 2"),
    "ids taken": (lambda v: v.run([GOOD] * 2, [0, 1], ids=["n", "r1"]), "ids: given 'r1' again in row 2"),
    "ids masked": (
        lambda v: v.run([GOOD] * 2, [0, 1], ids=np.ma.masked_array([5, 6], [0, 1])),
        "id: given MaskedConstant",
    ),
    "ids missing": (lambda v: v.run([GOOD] * 2, [0, 1], ids=pd.Series([5, None])), "id: given float"),
    "no record in the middle": (lambda v: v.run([GOOD, None, GOOD], [0, 1, 0]), "given NoneType in row 2, expected a"),
    "text for records": (lambda v: v.run("ab", [0, 1]), "records: given str"),
    "columns twice (pandas)": (
        lambda v: v.run(pd.DataFrame([[1, 2]], columns=["a", "a"]), [1]),
        "columns: given a name twice, expected each once .*'a'",
    ),
    "columns twice (pyarrow)": (
        lambda v: v.run(pa.table([[1], [2]], names=["a", "a"]), [1]),
        "columns: given a name twice, expected each once .*'a'",
    ),
    "lists in a frame": (
        lambda v: v.run(pl.DataFrame({**{k: [x] for k, x in GOOD.items()}, "l": [[1]]}), [1]),
        "column 'l': given List",
    ),
    "structs in a table": (
        lambda v: v.run(pa.table({**{k: [x] for k, x in GOOD.items()}, "l": [{"a": 1}]}), [1]),
        "column 'l': given Struct",
    ),
    "bytes in a table": (
        lambda v: v.run(pa.table({**{k: [x] for k, x in GOOD.items()}, "l": [b"x"]}), [1]),
        "column 'l': given Binary",
    ),
    "a masked array for records": (
        lambda v: v.run(np.ma.masked_array([[1.0]], [[1]]), [1]),
        "records: given MaskedArray",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_a_bad_call_is_refused_and_leaves_no_trace(live: Live, call: Any, message: str) -> None:
    before = state(live)
    with pytest.raises((TypeError, ValueError), match=message):
        call(live)
    assert state(live) == before


def test_a_missing_label_in_a_masked_array_is_missing(live: Live) -> None:
    live.run([GOOD] * 3, np.ma.masked_array([0.0, 1.0, 7.0], [0, 0, 1]), ids=[7, 8, 9])
    assert live.status().open == 2
    assert live.label(9, 1) is True


def test_integers_of_any_kind_are_one_id(live: Live) -> None:
    live.forecast(GOOD, id=np.int64(70))
    assert live.label(np.uint8(70), 1) is True
    assert live.label(70, 1) is False
    with pytest.raises(ConflictingLabelError):
        live.forecast(GOOD, id=np.int32(70))
    live.run(pd.DataFrame([GOOD] * 2), [0, 1], ids=np.array([71, 72]))
    assert live.label(71, 0) is False


def test_rows_without_a_name_do_not_take_one_that_is_used() -> None:
    live = Live()
    live.run([{"v": 1.0}], [math.nan], ids=["row 1"])
    live.run([{"v": 1.0}], [math.nan])
    assert live.status().open == 2
    assert live.label("row 1", 1) is True


def broken(encoded: Encoded, **parts: Any) -> Encoded:
    return Encoded(**{**vars(encoded), **parts})


def test_encoded_rows_of_other_contexts_are_refused(live: Live) -> None:
    encoded = live.contexts.encode([GOOD, GOOD])
    before = state(live)
    other = Contexts().encode([{"v": 1.0}] * 2)
    for bad in (
        other,
        broken(encoded, x=encoded.x[:1]),
        broken(encoded, x=encoded.x * 3.0),
        broken(encoded, x=encoded.x * np.nan),
        broken(encoded, x=np.hstack([encoded.x, encoded.x])),
        broken(encoded, dims=encoded.dims + 100),
        broken(encoded, dims=encoded.dims[::-1] - [0, 1]),
        broken(encoded, keys=encoded.keys[:, :-1]),
        broken(encoded, keys=np.tile(encoded.keys, 2), values=np.tile(encoded.values, 2)),
        broken(encoded, values=encoded.values * np.nan),
        broken(encoded, scores=encoded.scores[:, :0]),
    ):
        with pytest.raises(ValueError, match="records: given encoded rows"):
            live.run(bad, [0, 1])
        assert state(live) == before
    live.run(encoded, [0, 1])


class Stumbling:
    """A model that cannot learn."""

    def predict_proba_one(self, x: Any) -> Any:
        return {True: 0.5}

    def learn_one(self, x: Any, y: Any) -> None:
        raise RuntimeError("no")


def test_a_label_is_learned_once_even_if_a_model_stumbles_over_it() -> None:
    live = Live(models={"m": Stumbling()})
    live.forecast(GOOD, id=1)
    with pytest.raises(RuntimeError, match="no"):
        live.label(1, 1)
    assert live.label(1, 1) is False
    assert (live.status().labels, live.certificate().rounds) == (1, 1)


def test_a_bad_seed_is_refused_before_the_first_record() -> None:
    with pytest.raises(ValueError, match="seed: given -1"):
        Live(seed=-1)


def test_a_very_unlikely_logit_is_no_warning() -> None:
    live = Live(scores={"s": "logit"})
    live.run([{"s": -1e6}, {"s": 1e6}], [0, 1])
    assert live.status().labels == 2


def test_dtypes_of_frames_that_hold_lone_surrogates(live: Live) -> None:
    frame = pd.DataFrame([GOOD] * 2)
    frame["tag"] = pd.Series(["x", "\ud800"], dtype=object)
    before = state(live)
    with pytest.raises(ValueError, match=r"column 'tag': given .* in row 2, a lone surrogate"):
        live.run(frame, [0, 1])
    assert state(live) == before


WRONG = [
    ({"S": 0.9, "g": "a", "v": 1.0}, "column 's': declared but absent"),
    ({}, "column 's': declared but absent"),
    ({"s": 0.9, "v": 1.0}, r"column 'g': declared but absent, .* has s, v$"),  # no hint: both are known
    ({"s": 0.9, "G": "a", "v": 1.0}, "did you mean 'G'"),
    ({"s": 0.9, "g": "a", "V": 1.0}, "column 'V': given instead of 'v'"),
    ({"s": 0.9, "g": "a", "v": "1"}, "column 'v': given '1', expected a number"),
    ({"s": 0.9, "g": "a", "v": 1.0, "c": 3}, "column 'c': given the number 3, expected text"),
]


@pytest.mark.parametrize(("record", "words"), WRONG)
def test_columns_that_are_absent_renamed_or_of_another_type_are_refused_everywhere(record: Any, words: str) -> None:
    live = Live(scores=["s"], groups=["g"])
    live.run([{"s": 0.5, "g": "a", "v": 1.0, "c": "x"}, {"s": None, "g": None, "v": None, "c": None}], [1, 0])
    before = state(live)
    calls = [
        lambda: live.forecast(record, id="new"),
        lambda: live.forecast_many([record], ["new"]),
        lambda: live.follow([record], ["new"], [math.nan], [True]),
        lambda: live.check(record, id="new"),
        lambda: live.preview(record),
        lambda: live.run([record], [1]),
        lambda: live.run(pd.DataFrame([record]), [1]),
    ]
    for call in calls:
        with pytest.raises((ValueError, TypeError), match=words):
            call()
    assert state(live) == before
    assert dict(live.status().missing) == {"s": 1, "g": 1}


def test_status_names_a_score_that_is_suddenly_missing() -> None:
    live = Live(scores=["s"])
    live.run([{"s": 0.5, "v": 1.0}] * 300, [k % 2 for k in range(300)])
    assert live.status().warnings == ()
    live.run([{"s": None, "v": 1.0}] * 100, [k % 2 for k in range(100)])
    assert live.status().missing["s"] == 100
    (words,) = live.status().warnings
    assert words.startswith("'s' is missing in 69 % of the latest records, 0.0 % before")
    assert "look at" in live.status()._repr_html_()
    assert Live.from_state(live.to_state()).status() == live.status()


def test_the_monitors_own_columns_are_required_too() -> None:
    live = Live(monitor=Monitor(["shop"]))
    live.forecast({"shop": "a", "v": 1.0}, id=1)
    for records in ([{"v": 1.0}], pd.DataFrame({"v": [1.0]})):
        with pytest.raises(ValueError, match="monitor: given no column 'shop'"):
            live.forecast_many(records, [2])
