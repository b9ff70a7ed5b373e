"""`Live(learner="sparse")`: very many groups by hash, beside the plain engine fed by hand, one by one and at once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swapcal import Forecaster, Live
from swapcal.archive import ArchiveError
from swapcal.features import column
from swapcal.features.contexts import GOLDEN
from swapcal.kernels.sparse import exponentiate
from swapcal.live.state import FILE
from swapcal.tables.values import text_key

N = 240
GROUPS: dict[str, Any] = {"learner": "sparse", "groups": ["shop", "item"], "products": [("shop", "item")]}


def records(n: int = N, seed: int = 0) -> tuple[list[dict[str, Any]], np.ndarray]:
    rng = np.random.default_rng(seed)
    shops, items = rng.integers(0, 60, n), rng.integers(0, 9, n)
    rows = [
        {
            "shop": f"s{s}",
            "item": None if k % 13 == 5 else int(i),
            "price": float(k % 7),
            "score": 0.2 + 0.05 * (k % 10),
        }
        for k, (s, i) in enumerate(zip(shops.tolist(), items.tolist(), strict=True))
    ]
    return rows, (rng.random(n) < np.where(shops % 5 == 0, 0.8, 0.25)).astype(float)


def tickets(forecast: Any) -> np.ndarray:
    return np.array([np.atleast_1d(getattr(forecast, name)) for name in ("p", "mean", "low", "high", "weight")]).T


@pytest.mark.parametrize("more", [{}, {"scores": ["score"]}])
def test_one_by_one_is_run_is_trace_and_a_frame(more: dict[str, Any]) -> None:
    rows, y = records()
    alone, whole, framed = (Live(**GROUPS, **more) for _ in range(3))
    found = []
    for k, record in enumerate(rows):
        found.append(tickets(alone.forecast(record, id=k))[0])
        alone.label(k, y[k])
    trace = whole.trace(rows, y, ids=range(N))
    assert np.array_equal(np.array(found), tickets(trace.forecast))
    frame = pd.DataFrame(rows).astype({"item": "Int64"})
    assert np.array_equal(tickets(framed.run(frame, y, ids=range(N))), tickets(trace.forecast))
    assert alone.certificate() == whole.certificate() == framed.certificate()
    assert whole.status().issued == whole.certificate().issued


def test_late_weighted_labels_many_at_once_and_through_a_file(tmp_path: Any) -> None:
    rows, y = records()
    weights = np.linspace(0.5, 2.0, N)
    alone, many = Live(**GROUPS), Live(**GROUPS)
    for k, record in enumerate(rows):
        alone.forecast(record, id=k)
    many.forecast_many(rows, range(N))
    many.save(tmp_path / "live")
    loaded = Live.load(tmp_path / "live")
    assert loaded.settings == many.settings
    order = np.random.default_rng(1).permutation(N)
    for k in order.tolist():
        alone.label(k, y[k], weight=weights[k])
    for live in (many, loaded):
        live.label_many(order.tolist(), y[order], weight=weights[order])
        assert live.certificate() == alone.certificate()
        assert np.array_equal(tickets(live.preview(rows[:9])), tickets(alone.preview(rows[:9])))
    found = loaded.certificate()
    assert found.late == N - 1
    assert (found.bound, found.theorem) == (None, None)
    assert found.weight == pytest.approx(weights.sum())
    assert loaded.status().weighted == N


def engine_rows(rows: list[dict[str, Any]]) -> list[list[int]]:
    """Return the keys that the groups should have: of the column and the text; of both, crossed."""
    found = []
    for row in rows:
        shop = text_key("shop", "is", row["shop"])
        item = text_key("item", "missing") if row["item"] is None else text_key("item", "is", str(row["item"]))
        pair = 0 if row["item"] is None else (shop * int(GOLDEN) + item) % 2**64
        found.append([shop, item, pair])
    return found


def test_groups_are_hashes_and_the_engine_is_the_one_fed_by_hand() -> None:
    rows, y = records()
    live, engine = Live(**GROUPS, scores=["score"]), Forecaster.sparse(3, scores=2)
    trace = live.trace(rows, y, ids=range(N))
    scores = np.column_stack([trace.experts[:, 0], [row["score"] for row in rows]])
    keys = np.array(engine_rows(rows), np.uint64)
    assert np.array_equal(live.contexts.encode(rows, learn=False).groups, keys)
    found = np.full((N, 15), -1.0)
    engine.play(keys, scores, y, np.zeros(1, np.uint64), found)
    own = live.certificate()
    for name, value in engine.certificate().as_dict().items():
        if name not in ("smcal_1", "smcal_2", "cal"):  # these are of the draws, which ids determine
            assert getattr(own, name) == pytest.approx(value, abs=1e-6), name
    assert own.holds()
    distinct = {*keys[:, 0].tolist()} | {*keys[:, 1].tolist()} | ({*keys[:, 2].tolist()} - {0})
    assert own.groups == 1 + len(distinct)


def test_values_beyond_the_vocabulary_stay_groups_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y = records()
    expected = Live(**GROUPS)
    expected.run(rows, y)
    monkeypatch.setattr(column, "VOCABULARY", 3)
    for chunk in (1, 7, N):
        live = Live(**GROUPS)
        for a in range(0, N, chunk):
            live.run(rows[a : a + chunk], y[a : a + chunk])
        assert live.certificate().groups == expected.certificate().groups
    alone = Live(**GROUPS)
    for k, row in enumerate(rows):
        alone.forecast(row, id=k)
        alone.label(k, y[k])
    assert alone.certificate().groups == expected.certificate().groups


def test_levels_that_were_moved_count_where_they_were_issued() -> None:
    rows, y = records()
    live = Live(**GROUPS, unseen="anything", prior=0.9)
    issued = []
    for k, row in enumerate(rows):
        issued.append(live.forecast(row, id=k).p)
        if k >= 40:
            live.label(k - 40, y[k - 40])
    p, labels = np.array(issued[: N - 40]), y[: N - 40]
    cal = sum(abs((labels - v)[p == v].sum()) for v in np.unique(p))
    assert live.certificate().cal == pytest.approx(cal)
    low, high = np.array([[f.low, f.high] for f in [live.preview(row) for row in rows[:20]]]).T
    assert (low <= high).all()


def test_a_group_that_is_off_is_corrected_and_explained() -> None:
    rng = np.random.default_rng(2)
    rows = [{"shop": f"s{k}"} for k in np.where(rng.random(3000) < 0.2, 0, rng.integers(1, 800, 3000)).tolist()]
    y = (rng.random(3000) < [0.8 if row["shop"] == "s0" else 0.2 for row in rows]).astype(float)
    live = Live(learner="sparse", groups=["shop"])
    means = live.run(rows, y).mean
    own = np.array([row["shop"] == "s0" for row in rows])[1500:]
    assert abs(means[1500:][own].mean() - 0.8) < 0.1
    assert abs(means[1500:][~own].mean() - 0.2) < 0.05
    forecast = live.forecast(rows[0], id="next")
    why = forecast.explain()
    assert why.mean == pytest.approx(why.base + sum(term.amount for term in why.terms), abs=1e-9)
    assert forecast.mean == why.mean
    words = str(live.certificate())
    assert "No correction of one group" in words
    assert f"{live.certificate().groups:,} groups" in words
    assert "along one group" in repr(live.status())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"learner": "trees"}, "learner: given 'trees'"),
        ({"groups": ()}, "products: given"),
        ({"groups": (), "products": ()}, "groups: given none"),
        ({"products": [("shop", "price")]}, "products: given"),
        ({"products": [("shop", "shop")]}, "products: given"),
        ({"products": ["shop"]}, "products: given"),
        ({"ridge": 3.0}, "ridge: given 3.0"),
        ({"kappa": 0.3}, "kappa: given 0.3"),
        ({"window": 100}, "window: given 100"),
        ({"low": -1.0}, "low: given -1.0"),
        ({"high": 5.0}, "high: given 5.0"),
    ],
)
def test_what_it_has_not_is_refused_with_the_reason(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Live(**{**GROUPS, **more})


def test_refusals_change_nothing_and_forecasts_belong_to_no_engine() -> None:
    rows, y = records(30)
    live = Live(**GROUPS)
    live.run(rows, y)
    forecast = live.forecast(rows[0], id="open")
    before = live.to_state()
    with pytest.raises(ValueError, match="window: given 5"):
        live.certificate(window=5)
    with pytest.raises(ValueError, match="from another forecaster"):
        live.engine().update(forecast, 1)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="records: given encoded rows with groups None"):
        live.run(Live(groups=["shop", "item"]).contexts.encode(rows), y)
    with pytest.raises(ValueError, match="'shop'"):
        live.forecast({"item": 1, "price": 1.0, "score": 0.2}, id="x")
    after = live.to_state()
    assert after.manifest == before.manifest
    assert all(after.arrays[name].tobytes() == array.tobytes() for name, array in before.arrays.items())


def test_models_of_the_user_are_scores_of_the_levels() -> None:
    class Right:
        def forecast(self, record: Any, keys: Any, values: Any) -> float:
            return 0.9 if record["price"] > 3 else 0.1

        def learn(self, record: Any, keys: Any, values: Any, y: float) -> None: ...

    rows, _ = records(400)
    y = (np.random.default_rng(0).random(400) < [0.9 if row["price"] > 3 else 0.1 for row in rows]).astype(float)
    live = Live(**GROUPS, models={"right": Right()})
    means = live.run(rows, y).mean
    assert np.mean((means[200:] - [0.9 if row["price"] > 3 else 0.1 for row in rows[200:]]) ** 2) < 0.02
    assert live.engine().scores == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("fault", ["another engine", "columns", "names", "slots"])
def test_files_that_contradict_themselves_are_refused(fault: str) -> None:
    rows, _ = records(20)
    live = Live(**GROUPS)
    live.forecast_many(rows, range(20))
    state = live.to_state()
    arrays, manifest = dict(state.arrays), json.loads(json.dumps(state.manifest))
    if fault == "another engine":
        del manifest["hashed"]
    elif fault == "columns":
        manifest["hashed"] = manifest["hashed"][:2]
    elif fault == "names":
        manifest["hashed"][0] = ["price"]
    else:
        arrays["open.ticket"] = arrays["open.ticket"] + 1000.0
    with pytest.raises(ArchiveError):
        check(arrays, manifest)
    check(state.arrays, json.loads(json.dumps(state.manifest)))


def check(arrays: Any, manifest: Any) -> None:
    FILE.check_settings(manifest)
    FILE.check_shapes({name: (array.dtype.str, array.shape) for name, array in arrays.items()}, manifest)
    FILE.check_contents(arrays, manifest)


def test_exponentials_in_vector_code() -> None:
    values = np.concatenate([np.linspace(-40, 40, 1999), [-699.0, 0.0, 700.0, 1e-300]])
    found = values.copy()
    exponentiate(found, np.zeros(len(values), np.int64))
    assert (np.abs(found / np.exp(values) - 1) <= 2e-16 * (5 + np.abs(values))).all()
    ends = np.array([-1e9, 1e9])
    exponentiate(ends, np.zeros(2, np.int64))
    assert np.allclose(ends, np.exp([-700.0, 700.0]), rtol=3e-13)
