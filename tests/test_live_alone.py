"""One record at a time: the quick way through `Live` is the long way, to the bit, and keeps hold of nothing."""

import copy
import enum
import itertools
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import config, typeof

import swapcal.engine.forecaster
import swapcal.features.column
import swapcal.features.records
import swapcal.live.experts
import swapcal.live.learner
import swapcal.live.open_rows
from swapcal import Forecaster, Live
from swapcal.archive import State
from swapcal.features import Contexts
from swapcal.kernels.jit import DirectCall
from swapcal.monitor import Monitor

ROOMS = (
    swapcal.engine.forecaster,
    swapcal.features.records,
    swapcal.live.experts,
    swapcal.live.learner,
    swapcal.live.open_rows,
)
PLAIN, WINDOWED = (
    swapcal.engine.forecaster.entry(Forecaster(2, **kind)._scratch, False) for kind in ({}, {"window": 50.0})
)
FOUND = {id(each): each for room in ROOMS for each in vars(room).values() if isinstance(each, DirectCall)}
ENTRIES = [*FOUND.values(), PLAIN]
SETTINGS = [
    {},
    {"groups": ["shop"], "scores": {"theirs": "probability", "odds": "logit"}, "numeric": ["late"], "drop": ["note"]},
    {"fourier": 8, "window": 50.0, "max_dim": 40, "categories": 3},
]


def records(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return records that mostly hold nothing new, with all that can be unusual about the others."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for k in range(n):
        row: dict[str, Any] = {
            "shop": f"s{rng.integers(0, 3 + k // 20)}", "size": int(rng.integers(0, 5)), "price": float(rng.normal()),
            "theirs": float(rng.random()), "odds": float(rng.normal()), "never": None,
            "late": float(rng.normal()) if k > n // 2 else None, "note": f"{k}", "kind": "ab"[k % 2],
        }  # fmt: skip
        for name in ("shop", "size", "price", "theirs", "odds", "kind"):
            if k and rng.random() < 0.05:
                row[name] = None
        if rng.random() < 0.05:
            row["price"] = [math.nan, -0.0, 1e99, np.float64(2.5), np.int64(3), 10**30][int(rng.integers(0, 6))]
        if k and rng.random() < 0.05:
            del row["size"]
        if k == n // 3:
            row["new"] = "column"
        rows.append(dict(reversed(row.items())) if k % 7 == 6 else row)
    return rows


def labels(n: int) -> list[int]:
    return (np.random.default_rng(1).random(n) < 0.4).astype(int).tolist()


def same(one: State, other: State) -> bool:
    """Tell whether two states are equal to the bit, but for the name of the engine that issues forecasts."""
    manifests = [copy.deepcopy(dict(state.manifest)) for state in (one, other)]
    for manifest in manifests:
        (manifest.get("forecaster") or {}).pop("owner", None)
    arrays = all(one.arrays[name].tobytes() == other.arrays[name].tobytes() for name in one.arrays)
    return arrays and [*one.arrays] == [*other.arrays] and manifests[0] == manifests[1]


def go_on(live: Live, rows: list[dict[str, Any]], first: int = 0) -> list[float]:
    """Forecast one by one and learn each label three forecasts later; return the means."""
    means, y = [], labels(first + len(rows))
    for k, row in enumerate(rows, first):
        means.append(live.forecast(row, id=k).mean)
        if k >= 3:
            live.label(k - 3, y[k - 3])
    return means


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Compare the types of all arguments that go through an entry with those that were looked at first."""
    entered: set[str] = set()

    def checked(entry: DirectCall) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            kinds = tuple(map(typeof, arguments))
            assert not entry.types or kinds == entry.types
            entered.add(entry.kernel.__name__)
            return entry.kernel(*arguments)

        return call

    for entry in [*ENTRIES, WINDOWED]:
        monkeypatch.setattr(entry, "call", checked(entry))
    return entered


@pytest.mark.parametrize("settings", SETTINGS)
def test_alone_is_as_in_a_batch_to_the_bit(settings: dict[str, Any]) -> None:
    alone, batch, rows = Live(**settings), Live(**settings), records(240)
    means = go_on(alone, rows)
    found, y = [], labels(len(rows))
    for k, row in enumerate(rows):
        found.append(float(batch.forecast_many([row], [k]).mean[0]))
        if k >= 3:
            batch.label_many([k - 3], [y[k - 3]])
    assert means == found
    assert same(alone.to_state(), batch.to_state())


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_quick_reading_is_the_long_one(settings: dict[str, Any]) -> None:
    known = {name: value for name, value in settings.items() if name != "window"}
    quick, long = Contexts(**known), Contexts(**known)
    taken = 0
    for row in records(240):
        found, expected = quick.encode_alone(row), long.encode(row)
        taken += found is not None
        found = quick.encode(row) if found is None else found
        for name in ("x", "dims", "keys", "values", "scores"):
            assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()
    assert taken > 120
    assert same(quick.to_state(), long.to_state())


def test_numbers_in_every_column_are_read_the_long_way_or_alike() -> None:
    contexts = Contexts(scores=["theirs"])
    contexts.encode([{"a": float(k), "b": k % 3, "theirs": 0.5, "kind": "x"} for k in range(30)])
    contexts.encode({"a": None, "b": None, "theirs": None, "kind": None, "late": None})
    plain = {"a": 1.5, "b": 2, "theirs": 0.25, "kind": "x"}
    strange = [
        None,
        math.nan,
        -0.0,
        1,
        -1e100,
        1e100,
        1.1e100,
        -1.1e100,
        math.inf,
        -math.inf,
        10**400,
        True,
        np.int64(1),
    ]
    for known in (plain, plain | {"late": 3.0}):
        assert (contexts.encode_alone(known) is None) == ("late" in known)
        contexts.encode(known)
        for name, value in itertools.product(("a", "b", "theirs", "late"), (*strange, -0.5, 1.5)):
            quick, long, row = copy.deepcopy(contexts), copy.deepcopy(contexts), known | {name: value}
            quick.encode_alone(known), long.encode(known)
            before, found = quick.to_state(), quick.encode_alone(row)
            if found is None:
                assert same(quick.to_state(), before)
                continue
            expected = long.encode(row)
            for part in ("x", "keys", "values", "scores"):
                assert getattr(found, part).tobytes() == getattr(expected, part).tobytes()
            assert same(quick.to_state(), long.to_state())
    assert contexts.encode_alone(plain | {"late": 1.0}) is not None
    assert contexts.freeze().encode_alone(plain) is None


def test_categories_beyond_all_that_are_remembered_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swapcal.features.column, "VOCABULARY", 4)
    quick, long = Contexts(categories=2), Contexts(categories=2)
    taken = 0
    for k in range(40):
        row = {"kind": f"{k * k % 23}", "size": 1.0}
        found, expected = quick.encode_alone(row), long.encode(row)
        taken += found is not None
        found = quick.encode(row) if found is None else found
        for name in ("x", "dims", "keys", "values"):
            assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()
    assert taken > 30
    assert same(quick.to_state(), long.to_state())
    assert quick.names == ("constant", "kind = 0", "size", "kind = 1", "kind is something else")


def test_products_are_read_the_long_way() -> None:
    contexts, row = Contexts(products=[("a", "b")]), {"a": 1.0, "b": 2.0}
    contexts.encode([row, row])
    assert contexts.encode_alone(row) is None


def test_text_of_a_type_of_its_own_is_known_by_its_letters() -> None:
    Shop = enum.Enum("Shop", {"HERE": "here"}, type=str)
    plain, named = Live(groups=["shop"]), Live(groups=["shop"])
    for k, text in enumerate((Shop["HERE"], np.str_("there"), "here", "there", np.str_("here"))):
        assert named.forecast({"shop": text}, id=k).mean == plain.forecast({"shop": str.__str__(text)}, id=k).mean
    assert named.names == plain.names
    assert {type(text) for text in named.contexts.to_state().manifest["columns"][0]["codes"]} == {str}


def test_ids_and_names_of_a_type_of_their_own_are_known_by_their_letters(tmp_path: Path) -> None:
    Name = enum.Enum("Name", {"FIRST": "a1", "SHOP": "shop"}, type=str)
    plain, named = Live(groups=["shop"]), Live(groups=[Name["SHOP"]])
    told = plain.forecast({"shop": "here"}, id="a1")
    assert named.forecast({Name["SHOP"]: "here"}, id=Name["FIRST"]).p == told.p
    assert named.names == plain.names
    assert [named.knows(id) for id in ("a1", Name["FIRST"], "Name.FIRST")] == [True, True, False]
    named.save(tmp_path / "state")
    again = Live.load(tmp_path / "state")
    again.label(Name["FIRST"], 1)
    assert again.status().labels == 1


def test_what_is_refused_alone_changes_nothing() -> None:
    live = Live(**SETTINGS[1])
    go_on(live, records(60))
    before = live.to_state()
    good = records(1)[0]
    for name, value in [
        ("price", 1e101),
        ("price", 10**400),
        ("theirs", 1.5),
        ("odds", math.inf),
        ("price", "dear"),
        ("kind", "\ud800"),
    ]:
        with pytest.raises((TypeError, ValueError), match=name):
            live.forecast(good | {"shop": "new"} | {name: value}, id="next")
        assert same(live.to_state(), before)


def test_a_forecast_is_its_own_although_rows_are_used_again() -> None:
    live, rows = Live(), records(80)
    go_on(live, rows)
    first = live.forecast(rows[5], id="first")
    kept = repr(first), first._tickets.copy(), first._contexts.copy()
    for k, row in enumerate(rows[10:20]):
        live.forecast(row, id=f"later {k}")
    assert (repr(first), first._tickets.tobytes(), first._contexts.tobytes()) == (
        kept[0], kept[1].tobytes(), kept[2].tobytes(),
    )  # fmt: skip
    assert live.forecast(rows[5], id="first") == first


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda live: pickle.loads(pickle.dumps(live))])
@pytest.mark.parametrize("columns", [("price", "kind"), ("price", "kind", "shop", "note", "size")])
def test_a_copy_goes_on_by_itself(columns: tuple[str, ...], twin: Callable[[Live], Live]) -> None:
    live, rows = Live(), [{name: row.get(name) for name in columns} for row in records(90)]
    go_on(live, rows[:60])
    other, loaded = twin(live), Live.from_state(live.to_state())
    means = go_on(loaded, rows[60:], 60)
    assert go_on(other, rows[60:], 60) == go_on(live, rows[60:], 60) == means
    assert same(live.to_state(), other.to_state())
    assert same(live.to_state(), loaded.to_state())


def test_where_arrays_lie_in_memory_does_not_matter() -> None:
    rng, kept, rows, first = np.random.default_rng(3), [], records(60), Live()
    means = go_on(first, rows)
    for _ in range(30):
        kept += [np.empty(size) for size in rng.integers(1, 60, 200)]
        kept = [kept[k] for k in rng.permutation(len(kept))[:100]]
        other = Live()
        assert go_on(other, rows) == means
        assert same(other.to_state(), first.to_state())


def test_a_state_in_another_order_of_memory_goes_on_alike() -> None:
    live, rows = Live(), records(90)
    go_on(live, rows[:60])
    arrays, manifest = live.to_state()
    turned = {name: np.asfortranarray(array) for name, array in arrays.items()}
    other = Live.from_state(State(turned, copy.deepcopy(manifest)))
    assert go_on(other, rows[60:], 60) == go_on(live, rows[60:], 60)


@pytest.mark.parametrize("settings", SETTINGS)
def test_lone_rows_always_bring_the_types_that_were_looked_at(settings: dict[str, Any], watched: set[str]) -> None:
    live, rows = Live(**settings), records(150)
    go_on(live, rows[:90])
    arrays, manifest = live.to_state()
    turned = {name: np.asfortranarray(array) for name, array in arrays.items()}
    for other in (live, copy.deepcopy(live), Live.from_state(State(turned, copy.deepcopy(manifest)))):
        go_on(other, rows[90:], 90)
    assert watched == {entry.kernel.__name__ for entry in ENTRIES}


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_an_entry_runs_the_machine_code_that_many_rows_run() -> None:
    live, rows = Live(), records(60)
    go_on(live, rows)
    live.run(rows, labels(60))
    for entry in ENTRIES:
        assert entry.types in entry.kernel.overloads
        assert entry.call is entry.kernel.overloads[entry.types].entry_point


@pytest.mark.parametrize("monitored", [False, True])
def test_a_live_unpickled_from_memory_of_others_leaves_that_alone(monitored: bool) -> None:
    monitor_feed: dict[str, Any] = {"monitor": Monitor(["shop"])} if monitored else {}
    live, rows, buffers = Live(**SETTINGS[1], **monitor_feed), records(90), list[pickle.PickleBuffer]()
    go_on(live, rows[:60])
    pickled = pickle.dumps(live, protocol=5, buffer_callback=buffers.append)
    theirs = [bytes(buffer.raw()) for buffer in buffers]
    kept = [bytearray(each) for each in theirs]
    other = pickle.loads(pickled, buffers=theirs)
    assert go_on(other, rows[60:], 60) == go_on(live, rows[60:], 60)
    assert same(live.to_state(), other.to_state())
    assert theirs == kept


@pytest.mark.parametrize("settings", [{}, {"order": "issue", "patience": 2}])
def test_a_watcher_may_forecast_while_a_forecast_is_made(settings: dict[str, Any]) -> None:
    rows, answers = records(90), []
    for quick in (True, False):
        live, means = Live(**settings), list[float]()
        if not quick:
            live.contexts.encode_alone = lambda record: None  # type: ignore[method-assign]

        def ask(learned: Any, live: Live = live, means: list[float] = means) -> None:
            means.append(live.forecast(rows[-1], id=f"after {learned.ids}").mean)

        live.watch(ask)
        for k, row in enumerate(rows[:60]):
            when = {} if settings else {"time": float(k), "matures": k + 2.5}
            means.append(live.forecast(row, id=k, **when).mean)
            if k % 2:
                live.label(k, k % 4 // 2)
        answers.append(means)
    assert len(answers[0]) > 80
    assert answers[0] == answers[1]


def test_columns_that_were_encoded_elsewhere_find_room() -> None:
    live, row = Live(max_dim=22), {"a": 1.5, "kind": "x"}
    go_on(live, [row] * 6)
    live.contexts.encode(row | {f"new {k}": "y" for k in range(40)})
    live.forecast(row, id="next")
    assert len(live._learner.experts._work.slots) > live.contexts.entries == 3 * 42


def test_a_row_from_before_new_columns_is_learned_after_a_wider_one() -> None:
    alone, batch, rows = Live(), Live(), records(40)
    wide = [rows[0] | {f"new {k}": value for k in range(5)} for value in "ab"]
    for live in (alone, batch):
        go_on(live, rows)
        live.forecast_many(wide, ["first", "then"])
    for name in ("first", "then", 39, 38):
        alone.label(name, 1)
    batch.label_many(["first", "then", 39, 38], [1, 1, 1, 1])
    assert same(alone.to_state(), batch.to_state())
