"""Contexts: any record in, x with x_1 = ½ and ‖x‖ ≤ 1 out, learned from the past only."""

import datetime
import itertools
import json
import math
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal.archive import State
from swapcal.features import Contexts, Encoded
from swapcal.features.column import BLOCK, Gaps
from swapcal.kernels.encode import CLIP, SAMPLE, WINSOR, blank_past, encode_rows


def assert_same(one: Encoded, other: Encoded) -> None:
    for name in ("x", "dims", "keys", "values", "scores", "marks"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def one_by_one(contexts: Contexts, records: list) -> Encoded:
    pieces = [contexts.encode(record) for record in records]

    def stacked(name: Any) -> Any:
        width = max(getattr(piece, name).shape[1] for piece in pieces)
        parts = [np.pad(getattr(p, name), ((0, 0), (0, width - getattr(p, name).shape[1]))) for p in pieces]
        return np.concatenate(parts)

    dims = np.concatenate([piece.dims for piece in pieces])
    marks = np.concatenate([piece.marks for piece in pieces])
    return Encoded(stacked("x"), dims, stacked("keys"), stacked("values"), stacked("scores"), marks)


value = {
    "number": st.one_of(st.none(), st.floats(-1e6, 1e6), st.integers(-5, 5), st.just(float("nan"))),
    "word": st.one_of(st.none(), st.sampled_from("abcdefghijklmnopqrst"), st.booleans()),
    "model": st.one_of(st.none(), st.floats(0.0, 1.0)),
    "late": st.one_of(st.none(), st.sampled_from(["x", "y"])),
}
record = st.fixed_dictionaries(
    {"number": value["number"], "word": value["word"], "model": value["model"]},
    optional={"late": value["late"]},
)


@settings(max_examples=30, deadline=None)
@given(st.lists(record, min_size=1, max_size=40), st.booleans())
def test_batch_equals_one_at_a_time_and_every_row_is_a_context(records: Any, rich: Any) -> None:
    extra = {"products": [("word", "model"), ("word", "number")], "fourier": 8} if rich else {}
    make = lambda: Contexts(scores=["model"], categories=3, **extra)  # noqa: E731
    batch, single = make(), make()
    at_once = batch.encode(records)
    assert_same(at_once, one_by_one(single, records))
    assert batch.names == single.names
    assert len(batch.names) == batch.dim == at_once.x.shape[1]
    assert (at_once.x[:, 0] == 0.5).all()
    assert (np.linalg.norm(at_once.x, axis=1) <= 1.0).all()
    for x, dim in zip(at_once.x, at_once.dims, strict=True):
        assert (x[dim:] == 0.0).all()


@pytest.fixture(scope="module")
def frame() -> Any:
    rng = np.random.default_rng(3)
    n = 400
    return pd.DataFrame(
        {
            "city": rng.choice(["Rome", "Bari", "Como", "Pisa"], n),
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 9, n)),
            "visits": rng.integers(0, 6, n),
            "vip": rng.random(n) < 0.2,
            "seen": pd.date_range("2024-01-01", periods=n, freq="h"),
            "p_model": rng.random(n),
        }
    )


def test_every_frame_library_gives_the_same_contexts(frame: Any) -> None:
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    results = [Contexts(scores=["p_model"]).encode(f) for f in (frame, pl.from_arrow(arrow), arrow)]
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


def test_slices_of_a_frame_give_the_same_as_the_whole(frame: Any) -> None:
    whole, sliced = Contexts(scores=["p_model"]), Contexts(scores=["p_model"])
    pieces = [frame.iloc[a:b] for a, b in ((0, 1), (1, 2), (2, 150), (150, 400))]
    assert_same(whole.encode(frame), one_by_one(sliced, pieces))


def test_a_row_as_mapping_equals_the_row_in_a_frame(frame: Any) -> None:
    plain = frame.drop(columns="seen")
    assert_same(
        Contexts().encode(plain.to_dict("records")),
        Contexts().encode(plain),
    )


def test_numbers_are_standardised_by_the_past_only() -> None:
    values = [1.0, 3.0, 2.0, 9.0]
    x = Contexts()([{"v": v} for v in values])
    scale = math.sqrt(0.75) / CLIP  # one column and no score: the feature has all the room
    expected = [0.0, 0.0, 0.0, min((9.0 - 2.0) / math.sqrt(2.0 / 3.0), CLIP)]
    np.testing.assert_allclose(x[:, 1], scale * np.array(expected), rtol=1e-12)


def test_future_values_change_nothing_in_the_past() -> None:
    rng = np.random.default_rng(0)
    records = [{"v": float(v), "c": "abc"[k % 3]} for k, v in enumerate(rng.normal(size=60))]
    changed = records[:30] + [{"v": 1e9, "c": "z"}] * 30
    np.testing.assert_array_equal(Contexts()(records)[:30, :5], Contexts()(changed)[:30, :5])


def test_one_outlier_does_not_ruin_the_scale() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=500)
    values[250] = 1e12
    x = Contexts()([{"v": v} for v in values])
    later = np.std(x[300:, 1])
    assert later > 0.5 * np.std(x[100:250, 1])
    assert WINSOR < 10


def test_beyond_three_deviations_all_numbers_are_the_same() -> None:
    rng = np.random.default_rng(2)
    contexts = Contexts()
    contexts([{"v": v} for v in rng.normal(size=400)])
    contexts.freeze()
    ends = contexts([{"v": v} for v in (-1e9, -4.0, 2.0, 4.0, 1e9)])[:, 1]
    assert ends[0] == ends[1] == -ends[3] == -ends[4]
    assert 0 < ends[2] < ends[3]
    assert ends[2] / ends[3] == pytest.approx(2 / 3, abs=0.1)


def test_the_reservoir_is_a_uniform_sample_of_the_past() -> None:
    n, kept = 4000, []
    numbers = np.arange(n, dtype=float)[:, None]
    for salt in range(20):
        past = blank_past(1)
        keys, out, z = np.zeros((n, 3), np.uint64), np.zeros((n, 3)), np.zeros((n, 1))
        symbols, kinds = np.zeros((n, 1), np.uint64), np.ones(1, np.int64)
        encode_rows(numbers, symbols, kinds, np.array([salt], np.uint64), past, True, keys, out, z)
        sample = past.sample[0]
        assert (np.diff(sample) > 0).all()
        kept.append(sample)
    share = np.histogram(np.concatenate(kept), bins=8, range=(0, n))[0] / (20 * SAMPLE)
    assert np.abs(share - 1 / 8).max() < 5 * math.sqrt(1 / 8 / (20 * SAMPLE))


def test_coordinates_are_appended_and_never_renumbered() -> None:
    contexts = Contexts(categories=2)
    first = contexts.encode({"c": "a", "v": 1.0})
    names = contexts.names
    contexts.encode({"c": "b", "v": None, "new": "n"})
    contexts.encode({"c": "c"})
    contexts.encode({"c": "d"})
    assert contexts.names[: len(names)] == names
    assert contexts.names == (
        "constant", "c = a", "v", "c = b", "v is missing", "new = n", "c is something else", "new is missing",
    )  # fmt: skip
    again = contexts.transform({"c": "a", "v": 1.0})
    assert again[0, 1] == first.x[0, 1]


def test_a_vanished_column_counts_as_missing() -> None:
    contexts = Contexts()
    contexts.encode([{"a": 1.0, "b": "x"}] * 3)
    x = contexts({"a": 1.0})
    assert x[0, contexts.names.index("b is missing")] > 0


def test_max_dim_is_kept_with_the_rest_in_the_shared_bucket() -> None:
    contexts = Contexts(groups=["id"], max_dim=10)
    x = contexts([{"id": f"user {k}", "v": k} for k in range(50)])
    assert contexts.dim == 10
    assert x.shape == (50, 10)


def test_groups_make_numbers_categories_and_one_and_one_point_oh_are_the_same() -> None:
    contexts = Contexts(groups=["month"])
    contexts([{"month": 1}, {"month": 1.0}, {"month": np.int64(1)}, {"month": 2}])
    assert contexts.names == ("constant", "month = 1", "month = 2")


def test_scores_become_stabilised_coordinates() -> None:
    contexts = Contexts(scores={"p": "probability", "m": "logit"})
    x = contexts([{"p": 0.0, "m": 0.0}, {"p": 1.0, "m": 50.0}, {"p": 0.5, "m": -50.0}])
    np.testing.assert_allclose(np.sign(x[:, 1].round(12)), [-1, 1, 0])
    np.testing.assert_allclose(x[:, 1], x[0, 1] * np.array([1, -1, 0]), atol=1e-12)
    np.testing.assert_allclose(x[:, 2], x[0, 1] * np.array([0, -1, 1]), atol=1e-9)
    assert contexts.names[1:3] == ("p", "m")
    np.testing.assert_allclose(contexts.encode({"p": 0.3, "m": 0.0}).scores, [[0.3, 0.5]])


def test_products_multiply_groups_and_scores() -> None:
    contexts = Contexts(groups=["g"], scores=["p"], products=[("g", "p"), ("g", "h")])
    x = contexts([{"g": "a", "h": "u", "p": 0.0}, {"g": "b", "h": "u", "p": 1.0}, {"g": None, "h": "u", "p": 1.0}])
    at = {name: x[:, k] for k, name in enumerate(contexts.names)}
    crossed = "g × p = g = a"
    assert at[crossed][0] < 0
    assert at[crossed][1] == at[crossed][2] == 0
    assert at["g × p = g = b"][1] > 0
    assert at["g × h = g = a & h = u"][0] == at["h = u"][0] > 0
    assert all(column[2] == 0 for name, column in at.items() if "×" in name)


def test_fourier_features_follow_the_seed_and_the_column_names() -> None:
    records = [{"a": float(k), "b": float(k % 3)} for k in range(20)]
    x = Contexts(fourier=6, seed=1)(records)
    np.testing.assert_array_equal(x, Contexts(fourier=6, seed=1)(records))
    assert (x[:, 1:7] != Contexts(fourier=6, seed=2)(records)[:, 1:7]).any()
    assert len({tuple(row) for row in x[5:, 1:7].round(9).tolist()}) > 5


def test_frozen_contexts_are_a_fixed_function() -> None:
    contexts = Contexts()
    contexts([{"v": float(k), "c": "ab"[k % 2]} for k in range(40)])
    contexts.freeze()
    before = contexts({"v": 7.0, "c": "a"})
    assert contexts({"v": 1e6, "c": "unheard of", "new": 3}).shape == before.shape
    np.testing.assert_array_equal(before, contexts({"v": 7.0, "c": "a"}))


def test_state_survives_json_and_goes_on_exactly(frame: Any) -> None:
    contexts = Contexts(scores=["p_model"], products=[("city", "p_model")], fourier=3)
    contexts.encode(frame.iloc[:200])
    arrays, manifest = contexts.to_state()
    twin = Contexts.from_state(State(arrays, json.loads(json.dumps(manifest))))
    assert_same(contexts.encode(frame.iloc[200:]), twin.encode(frame.iloc[200:]))
    assert contexts.names == twin.names


def test_dates_and_times_are_numbers() -> None:
    day = datetime.date(2020, 1, 2)
    noon = datetime.datetime(2020, 1, 2)
    assert_same(Contexts().encode([{"d": day}] * 3), Contexts().encode([{"d": noon}] * 3))


def test_empty_batches_change_nothing() -> None:
    contexts = Contexts()
    contexts.encode({"v": 1.0, "c": "a"})
    empty = contexts.encode(pd.DataFrame({"v": [], "c": []}))
    assert len(empty) == 0
    assert contexts.dim == 3


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"v": "three", "c": "a", "p": None}, "column 'v': given 'three', expected a number"),
        ({"v": math.inf, "c": "a", "p": None}, "column 'v': given inf in row 1, expected a finite number"),
        ({"v": 1.0, "c": "a", "p": 1.5}, r"score 'p': given 1.5 in row 1, expected a probability"),
        ([{"v": 1.0, "p": 0.5}, {"v": "x", "p": 0.5}], "column 'v': given 'x' in row 2 among numbers"),
        ({"v": 1.0, "c": "a"}, "column 'p': declared but absent"),
        ({"V": 1.0, "c": "a", "p": 0.5}, "column 'V': given instead of 'v'"),
        ({"v": 1.0, "c": 3, "p": 0.5}, "column 'c': given the number 3, expected text"),
        ([{"v": 1.0, "p": 0.5}, {"new": 1.0, "p": 0.5}, {"v": 1.0, "New": 2.0, "p": 0.5}], "row 3: column 'New'"),
        ([{"v": 1.0, "p": 0.5}, {"v": 1.0, "P": 0.5}], "row 2: column 'p': declared but absent.*did you mean 'P'"),
        (pd.DataFrame({"v": [1.0], "P": [0.5]}), "column 'p': declared but absent"),
        (["text"], "given str in row 1, expected a mapping"),
        (3, "given int, expected a mapping, a list of mappings or a data frame"),
    ],
)
def test_a_rejected_record_leaves_everything_as_it_was(bad: Any, message: Any) -> None:
    contexts = Contexts(scores=["p"])
    contexts.encode([{"v": 1.0, "c": "a", "p": 0.5}, {"v": 2.0, "c": "b", "p": 0.25}])
    before = contexts.to_state()
    with pytest.raises((TypeError, ValueError), match=message):
        contexts.encode(bad)
    after = contexts.to_state()
    assert json.dumps(before[1]) == json.dumps(after[1])
    for name, array in before[0].items():
        np.testing.assert_array_equal(array, after[0][name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": "abc"}, "groups: given the string 'abc', expected a list"),
        ({"scores": {"p": "odds"}}, "score 'p': given kind 'odds'"),
        ({"products": [("a",)]}, "expected a pair of column names"),
        ({"groups": ["a"], "drop": ["a"]}, "column 'a': given as both groups and drop"),
        ({"max_dim": 2, "scores": ["p", "q"]}, "max_dim: given 2, expected at least 3"),
    ],
)
def test_contradictory_settings_are_refused(arguments: Any, message: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Contexts(**arguments)


def test_a_declared_column_that_is_absent_is_named() -> None:
    with pytest.raises(ValueError, match=r"column 'p': declared but absent.*the record has v"):
        Contexts(scores=["p"]).encode({"v": 1.0})


def test_a_declared_column_is_required_for_good_and_none_is_missing() -> None:
    contexts = Contexts(scores=["p"], groups=["g"], numeric=["n"])
    full = {"p": 0.5, "g": "a", "n": 1.0, "v": 2.0}
    contexts.encode(full)
    for name in ("p", "g", "n"):
        without = {key: value for key, value in full.items() if key != name}
        for absent in (without, [full, without], [without] * 2000, pd.DataFrame([without])):
            with pytest.raises(ValueError, match=f"column '{name}': declared but absent"):
                contexts.encode(absent)
            with pytest.raises(ValueError, match=f"column '{name}': declared but absent"):
                contexts.transform(absent)
        assert contexts.encode_alone(without) is None
    contexts.encode(dict.fromkeys(full))
    contexts.encode([{"p": None, "g": "b", "n": 2.0}])  # what is not declared may be absent
    assert contexts.gaps.missing() == {"p": 2, "g": 1}


def test_a_frame_without_rows_needs_no_columns() -> None:
    contexts = Contexts(scores=["p"])
    contexts.encode({"p": 0.5})
    assert len(contexts.encode([])) == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_missing_values_are_counted_alike_one_by_one_and_many_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    share = np.repeat(rng.uniform(size=6), 130)
    records = [
        {"p": None if rng.uniform() < s else 0.5, "g": None if rng.uniform() < s else "a", "w": None} for s in share
    ]
    alone, many, frame = (Contexts(scores=["p"], groups=["g"]) for _ in range(3))
    for record in records:
        if alone.encode_alone(record) is None:
            alone.encode(record)
    cuts = [0, *np.sort(rng.integers(0, len(records), 6)).tolist(), len(records)]
    for a, b in itertools.pairwise(cuts):
        many.encode(records[a:b])
    frame.encode(pd.DataFrame(records))
    assert alone.gaps.manifest() == many.gaps.manifest() == frame.gaps.manifest()
    missing = np.array([record["p"] is None for record in records])
    latest = len(records) - len(records) // BLOCK * BLOCK + BLOCK
    assert alone.gaps.counts["p"][0] == missing.sum()
    assert sum(alone.gaps.counts["p"][1:]) == missing[-latest:].sum()
    assert Contexts.from_state(alone.to_state()).gaps.manifest() == alone.gaps.manifest()


def test_a_jump_of_missing_values_is_noticed_and_a_steady_share_is_not() -> None:
    rng = np.random.default_rng(5)
    gaps, wrong = Gaps(["p"]), 0
    for _ in range(20_000):
        gaps.enter_one(["p"] if rng.uniform() < 0.5 else [])
        wrong += bool(gaps.jumps())
    assert wrong == 0
    steady = Gaps(["p"])
    for row in range(1000):
        steady.enter_one([])
        if row == 499:
            assert not steady.jumps()
    rows = next(row for row in range(1, 200) if steady.enter_one(["p"]) is None and steady.jumps())
    assert rows < 65
    assert "'p' is missing in" in steady.sentences()[0]


def test_narwhals_frames_are_accepted(frame: Any) -> None:
    assert_same(Contexts().encode(nw.from_native(frame)), Contexts().encode(frame))


def test_lazy_tables_are_collected() -> None:
    duckdb = pytest.importorskip("duckdb")
    contexts = Contexts()
    x = contexts(duckdb.sql("select * from (values (1.5, 'x'), (2.5, 'y')) as t(a, b)"))
    assert contexts.names == ("constant", "a", "b = x", "b = y")
    np.testing.assert_array_equal(x, Contexts()([{"a": 1.5, "b": "x"}, {"a": 2.5, "b": "y"}]))


def entries(contexts: Contexts, column: str, record: Any) -> list[bool]:
    """Tell which of a column's three entries the experts would get: symbol, value, exact integer."""
    at = 3 * contexts.columns.index(column)
    return (contexts.encode(record, learn=False).values[0, at : at + 3] != 0.0).tolist()


def test_each_column_hands_the_experts_what_it_can_say() -> None:
    rng = np.random.default_rng(0)
    contexts = Contexts(scores=["score"])
    rows = [
        {
            "flag": int(rng.integers(0, 2)), "count": int(rng.integers(0, 60)), "serial": 1000 + k,
            "price": float(rng.normal()), "same": 7, "word": "x", "never": None, "score": 0.3 + 0.4 * (k % 2),
        }
        for k in range(400)
    ]  # fmt: skip
    contexts(rows)
    row = {"flag": 1, "count": 3, "serial": 1399, "price": 0.5, "same": 7, "word": "x", "never": None, "score": 0.3}
    expected = {
        "flag": [True, False, False],
        "count": [True, True, True],
        "serial": [True, True, False],
        "price": [True, True, False],
        "same": [False] * 3,
        "word": [False] * 3,
        "never": [False] * 3,
        "score": [False] * 3,
    }
    assert {name: entries(contexts, name, row) for name in row} == expected
    other = row | {"same": 8, "word": "y", "never": 1.0}
    assert [any(entries(contexts, name, other)) for name in ("same", "word", "never")] == [True, True, False]


def test_columns_that_never_change_leave_the_experts_as_they_are() -> None:
    rng = np.random.default_rng(1)
    rows = [{"v": float(rng.normal()), "c": "ab"[int(rng.integers(2))]} for _ in range(60)]
    more = [row | {"k": 3, "t": "same", "m": None} for row in rows]
    plain, padded = Contexts().encode(rows), Contexts().encode(more)
    np.testing.assert_array_equal(padded.values[:, :6], plain.values)
    assert not padded.values[:, 6:].any()
    assert not padded.keys[:, 6:].any()


def test_declared_groups_have_a_weight_of_their_own() -> None:
    """However many other columns there are; before, they shared the features' weight with all of them."""
    record = {"g": "a", "h": "u"} | {f"v{k}": 1.0 for k in range(40)}
    weights = {}
    for columns in (2, 42):
        contexts = Contexts(groups=["g", "h"])
        x = contexts([dict([*record.items()][:columns])])
        weights[columns] = x[0, contexts.names.index("g = a")]
        assert np.linalg.norm(x[0]) <= 1.0
    assert weights[2] == weights[42] > 2 * Contexts()([record])[0, 1]
