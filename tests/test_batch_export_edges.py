"""Exports at the edges: codes, bins, ties; and where contexts have what."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from swapcal.batch import model as model_module
from swapcal.batch import standalone
from swapcal.batch.export import Splits, _code_weights
from swapcal.batch.model import Model
from swapcal.batch.settings import MOST_COORDINATES, FitSettings, lay_out
from swapcal.batch.trees import NO_CODE
from swapcal.features.encoder import FittedEncoder
from swapcal.tables.frame import Table

LINEAR = FitSettings(correction="linear", snapshots=2)


def exported(model: Model, path: Path) -> Any:
    model.export(path / "model.npz")
    return standalone.load(path / "model.npz")


def graph_of(model: Model, path: Path) -> Any:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model.to_onnx(path / "model.onnx")
    return runtime.InferenceSession(str(path / "model.onnx"), providers=["CPUExecutionProvider"])


def test_numbers_at_the_edges_of_a_group_s_bins_are_in_one_of_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=800)
    y = (rng.random(800) < expit(3.0 * np.sin(4.0 * u))).astype(float)
    model = Model.fit(u[:, None], y, groups=[0], settings=LINEAR)
    edges = np.array(model.features.categories[0].edges)
    X = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])[:, None]
    expected = model.mean(X)
    np.testing.assert_allclose(standalone.predict(exported(model, tmp_path), X), expected, rtol=0, atol=1e-12)
    found = graph_of(model, tmp_path).run(None, {"X": X})[0]
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-6)


def test_a_missing_number_is_as_large_beside_the_least_of_all_as_in_the_trees(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    given = {"x": rng.choice([-8e300, -4e300, np.nan, -1e299, 2.0], 1500), "v": rng.normal(size=1500)}
    y = (rng.random(1500) < np.where(np.isnan(given["x"]) == (given["v"] > 0.0), 0.9, 0.1)).astype(float)
    model = Model.fit(Table(given), y, settings=FitSettings(correction="trees", snapshots=2))
    assert model.boost is not None
    assert model.boost.forest.threshold.min() < -1e300
    expected = model.mean(Table(given))
    np.testing.assert_allclose(standalone.predict(exported(model, tmp_path), given), expected, rtol=0, atol=1e-12)
    found = graph_of(model, tmp_path).run(None, {name: values[:, None] for name, values in given.items()})[0]
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-6)


def test_one_column_in_a_unit_too_small_for_single_precision_is_centred_in_the_graph(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    u = 5.0 + 2.0 * rng.normal(size=400)
    y = (u + rng.normal(size=400) > 5.0).astype(float)
    X = 1e-60 * u[:, None]
    model = Model.fit(X, y, settings=LINEAR)
    expected = model.mean(X)
    assert expected.std() > 0.1
    np.testing.assert_allclose(graph_of(model, tmp_path).run(None, {"X": X})[0][:, 0], expected, rtol=0, atol=1e-6)


def test_ways_to_leaves_are_those_of_the_nodes_and_a_leaf_alone_has_none() -> None:
    child = np.array([1, 2, 1, 1, 3, 4, 3, 3, 4, 4, 5, 5])  # asked: 0 and 2; leaves: 1, 3, 4 and, alone, 5
    values = np.array([0.0, 1.0, 0.0, 2.0, 4.0, 8.0])
    asked, threshold = np.array([0, 0, 1, 0, 0, 0]), np.array([0.5, 0.0, -0.5, 0.0, 0.0, 0.0])
    trees = Splits(np.array([0, 5]), asked, threshold, child, values, 2, np.zeros((0, 0)))
    arrays = trees.by_leaves()
    numbers = np.array([[0.0, 0.5, 1.0, 1.0], [9.0, -9.0, 9.0, -9.0]])
    above = numbers[arrays["asked"]] > arrays["threshold"][:, None]
    reached = (above[arrays["path"]] == arrays["turns"][..., None]).all(axis=0)
    assert (arrays["leaf"] @ reached).tolist() == [9.0, 9.0, 12.0, 10.0]


def test_sets_of_many_codes_and_thresholds_are_asked_of_the_right_ones() -> None:
    sizes, left = np.array([3, 60, 2]), 1 << 0 | 1 << 40 | 1 << 59
    weights = _code_weights(sizes, 1, NO_CODE, left)
    assert np.flatnonzero(weights).tolist() == [3, 43, 62]
    assert set(weights) == {0.0, -1.0}
    assert np.flatnonzero(_code_weights(sizes, 1, 56.5, 0)).tolist() == [60, 61, 62]


def test_the_search_is_the_one_played_where_wishes_lie_on_levels(tmp_path: Path) -> None:
    """Wishes and levels that are multiples of an eighth: most comparisons are of equal numbers."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 1)), np.tile([0.0, 1.0], 100)
    model = Model.fit(X, y, settings=LINEAR)
    count, levels = 300, 9
    pool = np.zeros((count * levels, model.mixture.pool.shape[1]))
    pool[:, 0] = rng.integers(-2, 11, len(pool)) / 4.0  # half of it, cut to [0, 1], is the wish
    z = np.tile(np.linspace(0.0, 1.0, levels), (count, 1))
    members = np.arange(count * levels).reshape(count, levels)
    for k in range(count):
        model._mixture = type(model.mixture)(pool, members[k : k + 1], z[k : k + 1], np.array([levels]), model.dim)
        expected = model.mean(X[:1])
        found = standalone.predict(exported(model, tmp_path), X[:1])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, err_msg=f"forecaster {k}")


def test_wishes_next_to_their_levels_weigh_the_two_as_played(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 1)), np.tile([0.0, 1.0], 100)
    model = Model.fit(X, y, settings=LINEAR)
    levels = 9
    z = np.linspace(0.0, 1.0, levels)
    pool = np.zeros((levels, model.mixture.pool.shape[1]))
    pool[:, 0] = 2.0 * (z + np.where(np.arange(levels) < 4, 1e-7, -3e-7))
    model._mixture = type(model.mixture)(pool, np.arange(levels)[None], z[None], np.array([levels]), model.dim)
    expected = model.mean(X[:1])
    np.testing.assert_allclose(expected, z[3] + 0.25 * (z[4] - z[3]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(standalone.predict(exported(model, tmp_path), X[:1]), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(graph_of(model, tmp_path).run(None, {"X": X[:1]})[0][:, 0], expected, rtol=0, atol=1e-6)


def test_contexts_are_no_longer_than_their_parts_with_many_groups_and_rated_texts() -> None:
    rng = np.random.default_rng(0)
    n = 1500
    texts = {f"t{j}": np.array([f"v{i}" for i in rng.integers(0, 250, n)]) for j in range(4)}
    groups = {f"g{j}": rng.choice(list("ab"), n) for j in range(6)}
    y = (rng.random(n) < np.where(np.char.endswith(texts["t0"], "7"), 0.95, 0.05)).astype(float)
    model = Model.fit(Table(texts | groups), y, groups=list(groups), settings=LINEAR)
    assert len(model.features.rated) == 4
    squares = (model.contexts(Table(texts | groups)) ** 2).sum(axis=1)
    assert squares.max() <= 0.25 + 0.25 + 0.01 + 0.09 + 0.09 + 1e-12
    rows = model.features.encode(Table(texts | groups))
    extreme = rows._replace(Z=np.full_like(rows.Z, 3.0))
    contexts = model._contexts(extreme, np.ones(n), np.ones(n))
    assert (contexts**2).sum(axis=1).max() <= 0.25 + 0.25 + 0.01 + 0.09 + 0.09 + 1e-12


def test_where_room_is_short_the_most_frequent_categories_have_it() -> None:
    rng = np.random.default_rng(0)
    n = 6000
    table = Table({f"g{j}": np.array([f"v{i:02}" for i in np.minimum(rng.zipf(1.2, n), 45)]) for j in range(5)})
    features = FittedEncoder.learn(table, table.columns)
    rows = features.encode(table)
    places = lay_out(features, rows).category
    found, left_out = [], []
    for column, category in enumerate(features.categories):
        counts = np.bincount(rows.codes[:, column], minlength=category.size)
        found += counts[places[column, : category.size] >= 0].tolist()
        left_out += counts[places[column, : category.size] < 0].tolist()
    assert len(found) == MOST_COORDINATES - 3
    assert left_out
    assert min(found) >= max(left_out)


def test_texts_are_rated_by_few_folds_that_no_later_stage_has(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    rate, folds_of = FittedEncoder.rate, model_module._folds
    monkeypatch.setattr(FittedEncoder, "rate", lambda *given: seen.append(given[-1]) or rate(*given))
    later: list[Any] = []
    monkeypatch.setattr(model_module, "_folds", lambda *given: later.append(folds_of(*given)) or later[-1])
    Model.fit(np.random.default_rng(0).normal(size=(60, 1)), np.tile([0.0, 1.0], 30), settings=LINEAR)
    assert np.bincount(seen[0]).tolist() == [12] * 5
    assert len(later) == 3
    assert all(np.array_equal(folds, seen[0]) == (k == 0) for k, folds in enumerate(later))
