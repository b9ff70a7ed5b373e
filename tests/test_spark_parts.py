"""What the Spark adapter does on one worker, without a cluster."""

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

import pandas as pd
import pyarrow as pa
from pyspark.sql import types

from swapcal import Live
from swapcal.adapters.spark import audit, fit, forecast, forecasting, monitor, score
from swapcal.adapters.spark.keyed import MATURES, TIME, EventRoles, Keyed, Manner, columns_of, packed, unpacked
from swapcal.adapters.spark.models import CLOCK, _order
from swapcal.adapters.spark.parts import PROBABILITY, Faults
from swapcal.archive import ArchiveError
from swapcal.audit.rows import Encoder
from swapcal.features.encoder import Scales
from swapcal.features.sources import Number
from swapcal.tables.frame import Table
from tests.chance import seeded
from tests.systems import spark_events


def played(keyed: Any, rows: pd.DataFrame) -> pd.DataFrame:
    found: pd.DataFrame = keyed.play(columns_of(rows, [*rows.columns])).frame({}, {})
    return found


def test_scales_of_parts_are_those_of_the_whole() -> None:
    rng = np.random.default_rng(0)
    n = 999
    columns = {
        "date": 1.7e9 + rng.integers(0, 10**6, n),
        "huge": rng.choice([1e300, 3e300], n),
        "same": np.full(n, 0.1),
        "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
        "empty": np.full(n, np.nan),
        "text": pa.array(rng.choice([f"c{k}" for k in range(50)] + [None], n).tolist()),
        "truth": rng.random(n) < 0.5,
    }
    table = pa.table(columns)
    names = list(columns)
    cuts = [0, 1, 17, 500, n]
    parts = [Scales.of(Table(table.slice(a, b - a)), names) for a, b in pairwise(cuts)]
    found, whole = Encoder.of(sum(parts[1:], parts[0])), Encoder.learn(Table(table), names)
    for one, other in zip(found.columns, whole.columns, strict=True):
        if isinstance(one, Number) and isinstance(other, Number):
            assert (one.name, one.missing) == (other.name, other.missing)
            assert (one.centre, one.spread) == pytest.approx((other.centre, other.spread), rel=1e-12)
        else:
            assert one == other


def test_streams_and_spark_connect_are_refused_at_once() -> None:
    remote = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    stream = type("DataFrame", (), {"isStreaming": True})()
    calls = {
        audit: {"prob": "p", "target": "y"},
        monitor: {"prob": "p", "target": "y", "time": "at"},
        fit: {"id": "id", "target": "y"},
        score: {"model": Live()},
        forecast: {"key": "k", "id": "id", "target": "y", "time": "at"},
    }
    for call, named in calls.items():
        with pytest.raises(TypeError, match=r"^df: given a data frame of Spark Connect, expected one of a classic"):
            call(remote, **named)
        if call in (audit, monitor, fit):
            with pytest.raises(ValueError, match=r"^df: given a stream, expected a batch data frame"):
                call(stream, **named)


def typed(**features: types.DataType) -> Any:
    """Stand in for a stream, of which only the columns are looked at."""
    roles = {"shop": types.StringType(), "id": types.LongType(), "at": types.DoubleType(), "y": types.DoubleType()}
    schema = types.StructType([types.StructField(name, kind) for name, kind in (roles | features).items()])
    return type("DataFrame", (), {"schema": schema, "columns": schema.names})()


@pytest.mark.parametrize(
    "kind",
    [
        types.ArrayType(types.StringType()),
        types.MapType(types.StringType(), types.LongType()),
        types.StructType([types.StructField("a", types.LongType())]),
        types.BinaryType(),
        types.DayTimeIntervalType(),
    ],
)
def test_features_that_no_live_takes_are_refused_before_the_stream_begins(kind: types.DataType) -> None:
    with pytest.raises(TypeError, match=r"^column 'tags': given .*, expected numbers, texts, truth values or times"):
        forecast(typed(tags=kind), key="shop", id="id", target="y", time="at")


@pytest.mark.parametrize("features", [["age", "age"], ["at", "y"]])
def test_features_named_twice_and_the_target_are_refused(features: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^features: given \[.*\], expected each once, and not the target 'y'"):
        forecast(typed(age=types.DoubleType()), key="shop", id="id", target="y", time="at", features=features)


def test_faults_of_parts_add_up() -> None:
    faults = [Faults(), Faults()]
    faults[0].look(Table({"p": [0.5, np.nan]}), {"p": PROBABILITY})
    faults[1].look(Table({"p": [1.5, -2.0, 1.0]}), {"p": PROBABILITY})
    with pytest.raises(ValueError, match=r"^column 'p': given -2 in 3 of 5 rows, expected a number in \[0, 1\]$"):
        (faults[0] + faults[1]).raise_any()


@pytest.mark.parametrize("batches", [1, 3, 40])
def test_a_keyed_stream_is_one_live_whatever_its_batches(batches: int) -> None:
    rows = spark_events.events(150)
    given = rows[rows["shop"] == "a"].copy()
    given[TIME], given[MATURES] = (given[name].map(pd.Timestamp.timestamp) for name in ("at", "known"))
    given["id"] = given["id"].astype(str)
    roles = EventRoles("id", "y", ("price", "colour"), matures=True, numbered=True)
    keyed = Keyed(Live(**spark_events.SETTINGS), -np.inf, roles)
    parts = [given.iloc[part] for part in np.array_split(np.arange(len(given)), batches)]
    answers = pd.concat([played(keyed, part.sample(frac=1.0, random_state=0)) for part in parts])
    issued = answers[answers["event"] == "forecast"]
    expected = spark_events.expected(rows[rows["shop"] == "a"])
    assert dict(zip(issued["id"], zip(issued["p"], issued["mean"], strict=True), strict=True)) == expected
    assert set(answers["event"]) == {"forecast", "learned"}


@pytest.mark.parametrize("batches", [2, 40])
def test_rows_with_their_outcomes_are_one_run_whatever_their_batches(batches: int) -> None:
    rng = np.random.default_rng(0)
    n = 120
    columns = {"price": rng.normal(size=n), "colour": rng.choice(["red", "blue"], n), "y": rng.integers(0, 2, n) * 1.0}
    rows = pd.DataFrame({"id": np.arange(n).astype(str), TIME: np.arange(float(n)), **columns})
    roles = EventRoles("id", "y", ("price", "colour"), matures=False, numbered=True)
    keyed = Keyed(Live(), -np.inf, roles)
    parts = [rows.iloc[part] for part in np.array_split(np.arange(n), batches)]
    answers = pd.concat([played(keyed, part) for part in parts])
    expected = Live().run(rows[["price", "colour"]], rows["y"], ids=[*range(n)], time=rows[TIME])
    assert answers["id"].tolist() == [*range(n)]
    np.testing.assert_array_equal(answers["p"], expected.p)
    np.testing.assert_array_equal(answers["mean"], expected.mean)
    np.testing.assert_array_equal(answers["y"], rows["y"])


def test_a_window_that_ends_without_an_outcome_is_learned_as_silence() -> None:
    keyed = Keyed(Live(matures="1m", silence=0, prior=0.1), -np.inf, EventRoles("id", "y", ("a",), False, False))
    nothing = [np.nan] * 2
    first = played(keyed, pd.DataFrame({"id": ["x", "z"], "y": nothing, "a": [1.0, 2.0], TIME: [0.0, 1.0]}))
    assert first["event"].tolist() == ["forecast"] * 2
    assert first["mean"].tolist() == [0.1] * 2
    assert not len(played(keyed, pd.DataFrame({"id": ["z"], "y": [1.0], "a": [np.nan], TIME: [2.0]})))
    later = played(keyed, pd.DataFrame({"id": ["w"], "y": [np.nan], "a": [3.0], TIME: [70.0]}))
    learned = later[later["event"] == "learned"]
    assert dict(zip(learned["id"], learned["y"], strict=True)) == {"x": 0.0, "z": 1.0}
    assert not len(played(keyed, pd.DataFrame({"id": ["x"], "y": [1.0], "a": [np.nan], TIME: [71.0]})))
    assert (keyed.live.status().silent, keyed.live.status().corrections) == (1, 1)


def test_a_late_record_counts_as_of_now() -> None:
    keyed = Keyed(Live(), -np.inf, EventRoles("id", "y", ("price",), matures=False, numbered=False))
    first = played(keyed, pd.DataFrame({"id": ["b"], TIME: [5.0], "price": [1.0], "y": [np.nan]}))
    late = played(keyed, pd.DataFrame({"id": ["a"], TIME: [3.0], "price": [1.0], "y": [np.nan]}))
    assert [*first["event"], *late["event"]] == ["forecast", "forecast"]
    assert (late["time"].tolist(), keyed.clock) == ([3.0], 5.0)


KEY = ("a",)


class Store:
    """Stands in for Spark's state of one key."""

    def __init__(self) -> None:
        self.maps: dict[str, dict[Any, Any]] = {}

    def getMapState(self, name: str, key: str, value: str) -> Any:
        own = self.maps.setdefault(name, {})

        class Map:
            def getValue(self, key: Any) -> Any:
                return own.get(key)

            def updateValue(self, key: Any, value: Any) -> None:
                own[key] = value

        return Map()

    @property
    def stamp(self) -> bytes:
        return bytes(self.maps["head"][KEY][0])

    @property
    def rows(self) -> list[bytes]:
        return list(self.maps["head"][KEY][2])

    @property
    def clock(self) -> float:
        return float(self.maps["live"][KEY][1])


class KeptKey(forecasting.Kept):
    """One key of a group."""

    def play(self, rows: Any) -> Any:
        return super().play(KEY, rows)

    def state(self) -> forecasting.KeyState:
        return self._state(KEY)


KEPT = EventRoles("id", "y", ("price", "colour"), matures=True, numbered=True)


def keyed_batches(parts: int) -> list[pd.DataFrame]:
    rows = spark_events.events(150)
    given = rows[rows["shop"] == "a"].copy()
    given[TIME], given[MATURES] = (given[name].map(pd.Timestamp.timestamp) for name in ("at", "known"))
    given["id"] = given["id"].astype(str)
    return [given.iloc[part] for part in np.array_split(np.arange(len(given)), parts)]


def keeper(store: Store, beside: int, remember: bool = True) -> Any:
    return KeptKey(store, KEPT, spark_events.SETTINGS, remember, beside, 1)


@pytest.fixture
def no_memory() -> Any:
    forecasting.BESIDE.clear()
    yield
    forecasting.BESIDE.clear()


@pytest.mark.parametrize("remember", [True, False])
@pytest.mark.parametrize(("most", "read"), [(0, 0), (250, 0), (10_000, 0), (10_000, 10_000)])
def test_what_is_kept_goes_on_from_memory_or_from_the_store(
    most: int, read: int, remember: bool, no_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole is written after every batch, now and then, or never; memory is lost in between, or not."""
    monkeypatch.setattr(forecasting, "ROWS", most)
    monkeypatch.setattr(forecasting, "READ_ROWS", {"full": read})
    by_heart, forgetful, always = Store(), Store(), Store()
    memories: dict[Store, dict[bytes, Any]] = {store: {} for store in (by_heart, forgetful, always)}
    for number, batch in enumerate(keyed_batches(6)):
        if number in (2, 3):
            memories[forgetful].clear()
        told = []
        for store, memory in memories.items():
            monkeypatch.setattr(forecasting, "BESIDE", memory)
            told.append(played(keeper(store, 0 if store is always else 8, remember), batch))
        pd.testing.assert_frame_equal(told[0], told[1])
        pd.testing.assert_frame_equal(told[0], told[2])
    assert (len(by_heart.rows) > 0) == (most > 0)
    assert (len(always.rows) > 0) == (read > 0), "what must be read anyway is written as a whole, if there is much"
    monkeypatch.setattr(forecasting, "BESIDE", {})
    states = [keeper(store, 0, remember).state().keyed.live.to_state() for store in memories]
    assert (states[0].arrays["labelled.y"].size > 0) == remember
    for name, array in states[0].arrays.items():
        for other in states[1:]:
            np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)


def test_a_key_that_is_rows_so_far_keeps_its_settings(no_memory: None) -> None:
    store, other, (first, second) = Store(), Store(), keyed_batches(2)
    for each in (store, other):
        played(keeper(each, 0), first)
    assert len(store.rows) == 1
    restarted = KeptKey(store, KEPT, {**spark_events.SETTINGS, "seed": 5}, True, 0, 1)
    pd.testing.assert_frame_equal(played(restarted, second), played(keeper(other, 0), second))


def test_a_small_key_is_written_whole_when_it_is_not_in_memory(no_memory: None) -> None:
    small = {**spark_events.SETTINGS, "groups": [], "size": "small"}
    store, other = Store(), Store()
    memory: dict[bytes, Any] = {}
    for batch in keyed_batches(4):
        told = played(KeptKey(store, KEPT, small, True, 0, 1), batch)
        assert not store.rows
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forecasting, "BESIDE", memory)
            pd.testing.assert_frame_equal(told, played(KeptKey(other, KEPT, small, True, 8, 1), batch))
    assert other.rows, "a key in memory is written as rows"


def test_a_damaged_state_is_refused(no_memory: None) -> None:
    first, second = keyed_batches(2)
    for name, place in (("live", 0), ("head", 2)):
        store = Store()
        played(keeper(store, 0), first)
        entry = [*store.maps[name][KEY]]
        damaged = entry[place] if name == "live" else entry[place][0]
        damaged = damaged[:-1] + bytes([damaged[-1] ^ 1])
        entry[place] = damaged if name == "live" else [damaged]
        store.maps[name][KEY] = tuple(entry)
        with pytest.raises(ArchiveError, match=r"^state of key \('a',\): given contents that do not match"):
            played(keeper(store, 0), second)


def test_a_group_is_played_key_by_key(no_memory: None) -> None:
    rows = spark_events.events(150)
    rows[TIME], rows[MATURES] = (rows[name].map(pd.Timestamp.timestamp) for name in ("at", "known"))
    rows["id"] = rows["id"].astype(str)
    rows["__key0"] = rows["shop"].where(rows["shop"] == "a", None)
    names = ["__key0", "id", "y", TIME, MATURES, "price", "colour"]
    work = forecasting._Forecasts(["__key0"], names, KEPT, spark_events.SETTINGS, True, 8, 1)
    work.init(Store())
    parts = [rows[names].iloc[part] for part in np.array_split(np.arange(len(rows)), 3)]
    frames = [next(work.handleInputRows((0,), iter([part.iloc[:9], part.iloc[9:]]), None)) for part in parts]
    answers = pd.concat(frames, ignore_index=True)
    assert frames[0].columns.tolist()[:3] == ["__key0", "id", TIME]
    issued = answers[answers["event"] == "forecast"]
    expected = spark_events.expected(spark_events.events(150))
    assert dict(zip(issued["id"], zip(issued["p"], issued["mean"], strict=True), strict=True)) == expected
    shops = rows[rows["price"].notna()].set_index("id")["shop"]
    assert {
        (key if isinstance(key, str) else None, shops[str(id)])
        for key, id in zip(issued["__key0"], issued["id"], strict=True)
    } == {
        ("a", "a"),
        (None, "b"),
    }


def test_a_batch_played_again_starts_from_what_the_store_holds(no_memory: None) -> None:
    """As when a task is killed after it has played, or runs twice: its own memory of it must not count."""
    store, first, *others = Store(), *keyed_batches(4)
    played(keeper(store, 8), first)
    before = copy.deepcopy(store)
    told = played(keeper(store, 8), others[0])
    pd.testing.assert_frame_equal(told, played(keeper(before, 8), others[0]))
    expected = played(keeper(copy.deepcopy(store), 0), others[1])
    for attempt in (store, before):
        pd.testing.assert_frame_equal(played(keeper(attempt, 8), others[1]), expected)


def test_a_key_that_failed_is_read_again(no_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    store, (first, second) = Store(), keyed_batches(2)
    played(keeper(store, 8), first)
    keeping = keeper(store, 8)
    with monkeypatch.context() as patch:
        patch.setattr(keeping._heads, "updateValue", lambda key, value: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            played(keeping, second)
    assert not forecasting.BESIDE
    assert set(played(keeper(store, 8), second)["event"]) == {"forecast", "learned"}


def test_memory_holds_no_more_keys_than_it_may(no_memory: None) -> None:
    first = keyed_batches(9)[0]
    stores = [Store() for _ in range(5)]
    for number, store in enumerate(stores):
        played(keeper(store, 3), first.assign(price=first["price"] + number))
    assert len(forecasting.BESIDE) == 3
    held = {store.stamp for store in stores}
    assert {*forecasting.BESIDE} < held


def test_rows_come_back_from_the_store_as_they_were() -> None:
    columns = {"x": [1.0, np.nan], "n": [1, 2], "t": ["a", None], "b": [True, None], "nothing": [None, None]}
    rows, manner = unpacked(packed(columns, Manner(KEPT, remember=False)))
    np.testing.assert_equal(rows, columns)
    assert manner == Manner(KEPT, remember=False)


def answers_from(store: Store, memory: bool, batch: pd.DataFrame, **other: Any) -> pd.DataFrame:
    """Answer a batch from a copy of the store and what is in memory, which is then used up, or from the copy alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecasting, "BESIDE", forecasting.BESIDE if memory else {})
        how = {"roles": KEPT, "settings": spark_events.SETTINGS, "remember": True, "beside": 8} | other
        return played(KeptKey(copy.deepcopy(store), **how, parts=1), batch)


@pytest.mark.parametrize(
    "other",
    [
        {"roles": KEPT._replace(features=("price", "colour", "size"))},
        {"roles": KEPT._replace(features=("colour",))},
        {"roles": KEPT._replace(matures=False)},
        {"remember": False},
        {"settings": {"groups": ["price"], "seed": 9}},
    ],
)
def test_a_query_started_again_with_other_columns_goes_on_from_memory_as_from_the_store(
    other: dict[str, Any], no_memory: None
) -> None:
    store, batches = Store(), keyed_batches(3)
    for batch in batches[:2]:
        played(keeper(store, 8), batch)
    assert store.rows, "nothing has to be played again"
    batch = batches[2].assign(size=1.0)
    expected = answers_from(store, True, batch, **other)
    pd.testing.assert_frame_equal(answers_from(store, False, batch, **other), expected)
    assert "forecast" in set(expected["event"])


def test_a_stamp_tells_the_clock(no_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated outcome moves the clock and nothing else; undone, it must be undone in memory too."""
    monkeypatch.setattr(forecasting, "ROWS", 0)
    store, batch = Store(), keyed_batches(2)[0]
    played(keeper(store, 8), batch)
    before = copy.deepcopy(store)
    settled = batch[batch["y"].notna()].iloc[[0]].assign(price=np.nan, colour=None)
    settled[TIME] = batch[TIME].max() + 1e6
    played(keeper(store, 8), settled)
    assert keeper(before, 8).state().keyed.clock == before.clock == batch[TIME].max()


def test_keys_with_one_history_share_no_live(no_memory: None) -> None:
    one, other, batches = Store(), Store(), keyed_batches(3)
    for store in (one, other):
        played(keeper(store, 8), batches[0])
    for name, own in one.maps.items():  # as in a copy of the checkpoint
        other.maps[name].update(own)
    for batch in batches[1:]:
        expected = answers_from(other, False, batch)
        for store in (one, other):
            pd.testing.assert_frame_equal(played(keeper(store, 8), batch), expected)


def test_keys_that_saw_the_same_last_are_told_apart_by_what_they_saw_before(no_memory: None) -> None:
    batches = keyed_batches(4)
    stores = [Store(), Store()]
    for store, first in zip(stores, batches, strict=False):
        for batch in (first, batches[2]):
            played(keeper(store, 8), batch)
    expected = [answers_from(store, False, batches[3]) for store in stores]
    for store, answers in zip(stores, expected, strict=True):
        pd.testing.assert_frame_equal(played(keeper(store, 8), batches[3]), answers)


def test_a_key_whose_rows_cannot_be_played_is_not_kept(no_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    store, batches = Store(), keyed_batches(3)
    for batch in batches[:2]:
        played(keeper(store, 8), batch)
    before, expected = copy.deepcopy(store), answers_from(store, False, batches[2])
    with monkeypatch.context() as patch:
        patch.setattr(Keyed, "_add_learned", lambda *_: 1 / 0)  # when it has learned already
        with pytest.raises(ZeroDivisionError):
            played(keeper(store, 8), batches[2])
    assert store.maps == before.maps
    pd.testing.assert_frame_equal(played(keeper(store, 8), batches[2]), expected)


def test_one_refused_row_among_many_is_the_only_one(no_memory: None) -> None:
    batch = keyed_batches(1)[0]
    bad = batch.iloc[[40]].assign(id="99999", price=np.inf, y=np.nan)
    told = played(Keyed(Live(), -np.inf, KEPT), pd.concat([batch, bad]))
    expected = played(Keyed(Live(), -np.inf, KEPT), batch)
    refused = told["event"] == "refused"
    assert told[refused]["id"].tolist() == [99999]
    for known in ("p", "y"):  # outcomes come with their forecasts or after them, but all of them
        ours, theirs = (rows.dropna(subset=known).set_index("id")[known].to_dict() for rows in (told, expected))
        assert ours == theirs


@pytest.mark.statistical
def test_rows_of_one_time_are_ordered_by_the_seed_alone() -> None:
    rng = np.random.default_rng(seeded(0))
    table = pa.table({"p": np.full(400, 0.5), "y": np.arange(400.0) % 2, CLOCK: np.sort(rng.integers(0, 4, 400))})
    shuffled = table.take(rng.permutation(400))
    one, other = (rows.take(_order(Table(rows), "p", "y", 0)) for rows in (table, shuffled))
    assert one.equals(other)
    y = one["y"].to_numpy()
    assert abs(np.corrcoef(y[1:], y[:-1])[0, 1]) < 0.25, "outcomes took part in the order"
