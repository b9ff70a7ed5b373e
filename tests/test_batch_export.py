"""What an exported model predicts elsewhere is what it predicts here."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapcal.batch import model as model_module
from swapcal.batch import standalone
from swapcal.batch.export import SCRIPT, export
from swapcal.batch.model import Model, Settings
from swapcal.batch.simplex import to_simplex
from swapcal.tables.table import Table

ROWS = 1500


def columns(seed: int = 0, rows: int = ROWS) -> dict[str, Any]:
    """Every kind of column: numbers with holes, a constant, texts, many texts, truth values, bins, few numbers."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {"x": rng.normal(size=rows), "same": np.full(rows, 3.0)}
    found["x"][::9] = np.nan
    found["shop"] = np.where(rng.random(rows) < 0.1, None, rng.choice(list("abcdef"), rows))
    found["many"] = rng.choice([f"v{i}" for i in range(400)], rows)
    found["open"] = np.array([bool(v) for v in rng.random(rows) < 0.5], dtype=object)
    found["k"] = rng.integers(0, 5, rows).astype(float)
    found["u"] = rng.normal(size=rows)
    return found


GROUPS = ["shop", "open", "k", "u"]


def outcomes(given: dict[str, Any], seed: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x, u = np.nan_to_num(given["x"]), given["u"]
    truth = 1 / (1 + np.exp(-x - 2.0 * (given["shop"] == "b") + 2.5 * (u > 0.5) * (x > 0)))
    return (rng.random(len(x)) < truth).astype(float), np.clip(1 / (1 + np.exp(-x)) + 0.3 * u, 0.0, 1.0)


@pytest.fixture(scope="module", params=["linear", "linear, scored", "trees", "trees, scored", "trees, scored, opened"])
def case(request: Any) -> tuple[Model, Any]:
    kind = request.param.split(",")[0]
    if kind == "trees":
        pytest.importorskip("lightgbm")
    scored, given = "scored" in request.param, columns()
    y, scores = outcomes(given)
    settings = Settings(correction=kind, snapshots=8)
    with pytest.MonkeyPatch.context() as patch:
        if "opened" in request.param:
            patch.setattr(model_module, "SURELY", 0.0)
        model = Model.fit(Table(given), y, scores if scored else None, groups=GROUPS, settings=settings)
    assert (model.boost is not None) == (kind == "trees")
    assert (model.opening is not None) == ("opened" in request.param)
    fresh = columns(seed=2)
    fresh["many"][:5] = "never seen"
    fresh["k"][5:9] = [7.0, np.nan, -1.0, 2.0]
    return model, (fresh, outcomes(fresh)[1] if scored else None)


def feeds(given: dict[str, Any], scores: Any) -> dict[str, Any]:
    """Return the inputs of a graph: doubles and strings, missing texts by their word."""
    found = {}
    for name, values in given.items():
        texts = values.dtype.kind in "OU"
        plain = [standalone._spelt(value) for value in values] if texts else values
        found[name] = np.array(plain, object if texts else np.float64)[:, None]
    return found if scores is None else found | {"score": np.reshape(scores, (len(scores), -1))}


def run_graph(path: Path, given: dict[str, Any]) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = {one.name for one in session.get_inputs()}
    return session.run(None, {name: values for name, values in given.items() if name in wanted})[0]


def test_numpy_alone_predicts_the_same(case: Any, tmp_path: Path) -> None:
    model, (given, scores) = case
    model.export(tmp_path / "model.npz")
    found = standalone.predict(standalone.load(tmp_path / "model.npz"), given, scores)
    np.testing.assert_allclose(found, model.mean(Table(given), scores), rtol=0, atol=1e-12)


def test_onnxruntime_predicts_the_same(case: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    model, (given, scores) = case
    model.to_onnx(tmp_path / "model.onnx")
    found = run_graph(tmp_path / "model.onnx", feeds(given, scores))
    np.testing.assert_allclose(found[:, 0], model.mean(Table(given), scores), rtol=0, atol=1e-6)


def test_models_of_arrays_are_exported_too(tmp_path: Path) -> None:
    given = columns()
    X, (y, scores) = np.column_stack([given["x"], given["u"], given["same"]]), outcomes(given)
    model = Model.fit(X, y, scores, groups=[1], settings=Settings(correction="linear", snapshots=4))
    model.export(tmp_path / "model.npz")
    found = standalone.predict(standalone.load(tmp_path / "model.npz"), X, scores)
    np.testing.assert_allclose(found, model.mean(X, scores), rtol=0, atol=1e-12)
    pytest.importorskip("onnx")
    model.to_onnx(tmp_path / "model.onnx")
    found = run_graph(tmp_path / "model.onnx", {"X": X, "score": scores[:, None]})
    np.testing.assert_allclose(found[:, 0], model.mean(X, scores), rtol=0, atol=1e-6)


def test_the_walk_is_the_one_played_where_wishes_cross_levels_more_than_once(tmp_path: Path) -> None:
    """Learners that contradict each other: another search would end at another crossing."""
    given = columns(rows=300)
    y, scores = outcomes(given)
    model = Model.fit(Table(given), y, scores, settings=Settings(correction="linear", snapshots=6, target="agnostic"))
    rng = np.random.default_rng(5)
    shape = 6, 23
    z = np.sort(np.concatenate([np.zeros((6, 1)), rng.random((6, 21)), np.ones((6, 1))], axis=1), axis=1)
    pool = np.zeros((6 * 23, model.mixture.pool.shape[1]))
    pool[:, 0], pool[:, 1] = 2 * rng.random(len(pool)), rng.normal(size=len(pool))
    members, counts = np.arange(6 * 23).reshape(shape), np.array([23, 23, 2, 23, 9, 23])
    z[2, 1], z[4, 8] = 1.0, 1.0
    model._mixture = type(model.mixture)(pool, members, z, counts, model.dim)
    expected = model.mean(Table(given), scores)
    model.export(tmp_path / "model.npz")
    found = standalone.predict(standalone.load(tmp_path / "model.npz"), given, scores)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    pytest.importorskip("onnx")
    model.to_onnx(tmp_path / "model.onnx")
    found = run_graph(tmp_path / "model.onnx", feeds(given, scores))
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-6)


def test_an_export_needs_numpy_only_and_is_the_same_each_time(case: Any, tmp_path: Path) -> None:
    model, (given, scores) = case
    first, second = export(tmp_path / "a.npz", [model]), export(tmp_path / "b.npz", [model])
    assert first.read_bytes() == second.read_bytes()
    few = {name: values[:3] for name, values in given.items()}
    scores = None if scores is None else scores[:3]
    request = {"columns": {name: values.tolist() for name, values in few.items()}}
    (tmp_path / "rows.json").write_text(json.dumps(request | {"scores": None if scores is None else scores.tolist()}))
    lines = [
        "import json, sys",
        f"import {Path(SCRIPT).stem} as exported",
        "rows = json.load(open('rows.json'))",
        "p = exported.predict(exported.load('a.npz'), rows['columns'], rows['scores'])",
        "assert not {'swapcal', 'numba', 'scipy'} & set(sys.modules)",
        "print(json.dumps(p.tolist()))",
    ]
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, check=True
    )
    np.testing.assert_allclose(json.loads(answer.stdout), model.mean(Table(few), scores), rtol=0, atol=1e-12)


def test_scores_are_asked_for_and_infinite_numbers_refused(case: Any, tmp_path: Path) -> None:
    model, (given, scores) = case
    exported = standalone.load(export(tmp_path / "a.npz", [model]))
    with pytest.raises(ValueError, match="scores: given"):
        standalone.predict(exported, given, None if scores is not None else np.full(ROWS, 0.5))
    with pytest.raises(ValueError, match="given an infinite number"):
        standalone.predict(exported, given | {"x": np.full(ROWS, np.inf)}, scores)


def test_a_column_that_is_not_given_is_named(case: Any, tmp_path: Path) -> None:
    model, given = case[0], columns(2, 3)
    export(tmp_path / "m.npz", [model])
    del given["many"]
    with pytest.raises(ValueError, match="columns: given no 'many', expected all of"):
        standalone.predict(standalone.load(tmp_path / "m.npz"), given, np.full(3, 0.5))


def test_names_a_graph_needs_itself_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    y = (rng.random(60) < 0.5).astype(float)
    with pytest.raises(ValueError, match="column 'score': given a name the graph needs itself"):
        Model.fit(Table({"score": rng.normal(size=60)}), y).to_onnx(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="without any the model is a constant"):
        Model.fit(Table({"x": rng.normal(size=60)}), y, columns=[]).to_onnx(tmp_path / "m.onnx")


def test_the_simplex_step_lowers_the_classes_log_losses_and_moves_the_least() -> None:
    rng = np.random.default_rng(0)
    p = np.clip(rng.dirichlet(np.full(5, 0.2), 500) * rng.uniform(0.02, 3, (500, 1)), 1e-7, 1 - 1e-7)
    q = to_simplex(p)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(np.abs(q - p).sum(axis=1), np.abs(p.sum(axis=1) - 1.0), atol=1e-12)
    divergence = (q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))).sum(axis=1)
    for y in range(5):
        loss = [-np.log(r[:, y]) - np.log1p(-np.delete(r, y, axis=1)).sum(axis=1) for r in (p, q)]
        np.testing.assert_allclose(loss[0], loss[1] + divergence, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(standalone._to_simplex(p), q, rtol=0, atol=1e-13)


def test_a_text_that_reads_like_the_word_for_a_missing_one_is_not_missing(tmp_path: Path) -> None:
    town = ["(missing)", None, "(other)", "Rome"] * 100
    y = np.tile([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0], 50)
    model = Model.fit(Table({"town": town}), y, groups=["town"], settings=Settings(correction="linear", snapshots=2))
    export(tmp_path / "model.npz", [model])
    found = standalone.predict(standalone.load(tmp_path / "model.npz"), {"town": town})
    np.testing.assert_allclose(found, model.mean(model.features.encode(Table({"town": town})), None, 1), atol=1e-12)


def test_a_row_on_the_simplex_does_not_depend_on_the_others() -> None:
    p = np.random.default_rng(0).uniform(0.01, 0.9, (300, 3))
    np.testing.assert_array_equal(np.concatenate([to_simplex(row[None]) for row in p]), to_simplex(p))
