"""What an exported model predicts elsewhere is what it predicts here."""

import ast
import datetime
import json
import subprocess
import sys
import tokenize
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from swapcal.batch import model as model_module
from swapcal.batch import standalone
from swapcal.batch.export import SCRIPT, export
from swapcal.batch.mixture import to_simplex
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.batch.trees import NO_CODE, Boost
from swapcal.features.encoder import FittedEncoder
from swapcal.tables.frame import Table
from swapcal.tables.values import MISSING, group_name, is_missing, text_of, unquoted

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
    settings = FitSettings(correction=kind, snapshots=8)
    with pytest.MonkeyPatch.context() as patch:
        if "opened" in request.param:
            patch.setattr(model_module, "SLOPE_MARGIN", 0.0)
        model = Model.fit(Table(given), y, scores if scored else None, groups=GROUPS, settings=settings)
    assert (model.boost is not None) == (kind == "trees")
    assert (model.opening is not None) == ("opened" in request.param)
    fresh = columns(seed=2)
    fresh["many"][:5] = "never seen"
    fresh["k"][5:11] = [7.0, np.nan, -1.0, 2.0, np.inf, -0.0]
    return model, (fresh, outcomes(fresh)[1] if scored else None)


def feeds(given: dict[str, Any], scores: Any) -> dict[str, Any]:
    """Return the inputs of a graph: doubles and strings, missing texts by their word."""
    found = {}
    for name, values in given.items():
        texts = values.dtype.kind in "OU"
        plain = [MISSING if value is None else group_name(text_of(value)) for value in values] if texts else values
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
    model = Model.fit(X, y, scores, groups=[np.int64(1)], settings=FitSettings(correction="linear", snapshots=4))
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
    model = Model.fit(
        Table(given), y, scores, settings=FitSettings(correction="linear", snapshots=6, target="agnostic")
    )
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
    for wrong in [None] if scores is not None else [np.full(ROWS, 0.5), np.full(ROWS, 2.0), [], np.nan]:
        with pytest.raises(ValueError, match="scores: given"):
            standalone.predict(exported, given, wrong)
    with pytest.raises(ValueError, match="given an infinite number"):
        standalone.predict(exported, given | {"x": np.full(ROWS, np.inf)}, scores)


@pytest.mark.parametrize("wrong", [np.nan, None, 1.5, -0.1, np.inf], ids=repr)
def test_scores_that_are_no_probabilities_are_refused(case: Any, wrong: Any, tmp_path: Path) -> None:
    model, (given, scores) = case
    if scores is None:
        pytest.skip("a model without scores")
    exported = standalone.load(export(tmp_path / "a.npz", [model]))
    with pytest.raises(ValueError, match="scores: given none, or no probabilities, expected those of the model"):
        standalone.predict(exported, given, [wrong, *scores[1:]])
    with pytest.raises(ValueError, match="inhomogeneous"):
        standalone.predict(exported, given, np.column_stack([1.0 - scores, scores]))
    rounded = np.concatenate([[1.0 + 1e-7, -1e-7], scores[2:]])
    expected = model.mean(Table(given), rounded)
    np.testing.assert_allclose(standalone.predict(exported, given, rounded), expected, rtol=0, atol=1e-12)


def test_odds_of_scores_in_half_precision_are_those_of_the_numbers(case: Any, tmp_path: Path) -> None:
    model, (given, scores) = case
    if scores is None:
        pytest.skip("a model without scores")
    half = np.array(scores, np.float16)
    found = standalone.predict(standalone.load(export(tmp_path / "a.npz", [model])), given, half)
    np.testing.assert_allclose(found, model.mean(Table(given), half.astype(float)), rtol=0, atol=1e-12)


def test_a_column_that_is_not_given_is_named(case: Any, tmp_path: Path) -> None:
    model, given = case[0], columns(2, 3)
    export(tmp_path / "m.npz", [model])
    del given["many"]
    with pytest.raises(ValueError, match=r"columns: given no \{'many'\}, expected all of"):
        standalone.predict(standalone.load(tmp_path / "m.npz"), given, np.full(3, 0.5))


def lines_of_code(source: str) -> int:
    """Count the lines that are not blank, comment or docstring."""
    ignored = tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER
    tokens = [token for token in tokenize.generate_tokens(StringIO(source).readline) if token.type not in ignored]
    written = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    alone = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    texts = [node for node in alone if isinstance(node.value, ast.Constant)]
    return len(written - {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)})


def test_the_script_has_fifty_lines_of_code_to_be_read_at_once_and_written_anew_in_another_language() -> None:
    assert lines_of_code(Path(standalone.__file__).read_text(encoding="utf-8")) <= 50
    assert lines_of_code('"""Text\nof two lines."""\n\n# why\nx = [\n    1,  # one\n]\nprint(x)\n') == 4


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "old.npz", manifest=np.array(json.dumps({"version": 1, "parts": []})))
    with pytest.raises(ValueError, match=r"old.npz: given version 1, expected 3: use the script exported with it"):
        standalone.load(tmp_path / "old.npz")


def test_blocks_do_not_matter_and_what_is_given_stays(case: Any, tmp_path: Path) -> None:
    model, (given, scores) = case
    exported = standalone.load(export(tmp_path / "m.npz", [model]))
    before = None if scores is None else scores.copy()
    whole, blocks = (standalone.predict(exported, given, scores, block=size) for size in (10_000, 7))
    np.testing.assert_allclose(whole, blocks, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(scores, before)
    nobody = {name: [] for name in given}
    assert standalone.predict(exported, nobody, None if scores is None else []).shape == (0,)


NUMBERS = [1, 1.0, np.int8(1), np.float32(2), 0.5, np.float32(0.1), -0.0, 1e16, 2**53 + 1, np.inf, -np.inf, np.nan]
TEXTS = ["True", "1.0", "", "nan", "(missing)", '"(other)"', '"a"', np.str_("a")]


@pytest.mark.parametrize("value", [*NUMBERS, *TEXTS, True, np.False_, None, datetime.date(2024, 2, 29)], ids=repr)
def test_the_script_spells_values_as_tables_do(value: Any) -> None:
    named = MISSING if is_missing(value) else group_name(text_of(value))
    text = unquoted(named)
    assert standalone._spelt(value) == ("missing" if text is None else f"text {text}")


def test_truth_values_spelt_as_in_files_of_earlier_versions(tmp_path: Path) -> None:
    truths = np.array([True, False, True, True] * 100, dtype=object)
    y = np.tile([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0], 50)
    fitted = Model.fit(Table({"t": truths}), y, groups=["t"], settings=FitSettings(correction="linear", snapshots=2))
    expected = fitted.mean(Table({"t": truths}))
    manifest = fitted.features.manifest()
    manifest["categories"][0]["texts"] = ["False", "True"]
    fitted.features = FittedEncoder.from_manifest(manifest)
    fitted.export(tmp_path / "m.npz")
    found = standalone.predict(standalone.load(tmp_path / "m.npz"), {"t": truths})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    pytest.importorskip("onnx")
    fitted.to_onnx(tmp_path / "m.onnx")
    found = run_graph(tmp_path / "m.onnx", feeds({"t": truths}, None))
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kept", [True, False], ids=["codes by their order", "leaves alone"])
def test_trees_that_ask_for_the_order_of_codes_or_for_nothing(kept: bool, tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    given = columns()
    y, scores = outcomes(given)
    model = Model.fit(Table(given), y, scores, groups=GROUPS, settings=FitSettings(correction="trees", snapshots=2))
    assert model.boost is not None
    forest = model.boost.forest
    asked = forest.column > len(model.features.numbers)
    assert asked.any()
    if kept:
        order = forest._replace(codes=0 * forest.codes, threshold=np.where(asked, 0.5, forest.threshold))
    else:
        alone = np.arange(1, dtype=np.uint64)
        order = type(forest)(
            alone, np.zeros(1, np.int64), alone, np.full(1, NO_CODE), alone, np.zeros(2, np.uint64), np.ones(1)
        )
    model.boost = Boost(model.boost.first, order)
    given["k"][:3] = [np.nan, 9.0, 0.0]
    expected = model.mean(Table(given), scores)
    model.export(tmp_path / "m.npz")
    found = standalone.predict(standalone.load(tmp_path / "m.npz"), given, scores)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    pytest.importorskip("onnx")
    model.to_onnx(tmp_path / "m.onnx")
    found = run_graph(tmp_path / "m.onnx", feeds(given, scores))
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-6)


def test_names_a_graph_needs_itself_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    y = (rng.random(60) < 0.5).astype(float)
    with pytest.raises(ValueError, match="column 'score': given a name the graph needs itself"):
        Model.fit(Table({"score": rng.normal(size=60)}), y).to_onnx(tmp_path / "m.onnx")


def test_of_a_model_without_columns_scores_are_exported_and_a_constant_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores, table = rng.random(600), Table({"x": rng.normal(size=600)})
    y = (rng.random(600) < scores**2).astype(float)
    model = Model.fit(table, y, scores, columns=[])
    expected = model.mean(table, scores)
    exported = standalone.load(export(tmp_path / "m.npz", [model]))
    np.testing.assert_allclose(standalone.predict(exported, {}, scores), expected, rtol=0, atol=1e-12)
    constant = Model.fit(table, y, columns=[])
    with pytest.raises(ValueError, match="without any the model is a constant"):
        constant.export(tmp_path / "m.npz")
    pytest.importorskip("onnx")
    model.to_onnx(tmp_path / "m.onnx")
    found = run_graph(tmp_path / "m.onnx", {"score": scores[:, None]})
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="without any the model is a constant"):
        constant.to_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize("scored", [False, True], ids=["from scratch", "scored"])
def test_classes_of_a_table_whose_texts_each_rates_in_its_own_way(scored: bool, tmp_path: Path) -> None:
    given, rng = columns(), np.random.default_rng(3)
    favourite = np.char.endswith(given["many"], "7") + np.char.endswith(given["many"], "3") * 2
    truth = np.where(rng.random(ROWS) < 0.7, favourite, rng.integers(0, 3, ROWS))
    scores = rng.dirichlet(np.ones(3), ROWS) if scored else None
    settings = FitSettings(correction="linear", snapshots=3)
    models = [
        Model.fit(
            Table(given),
            (truth == k).astype(float),
            None if scores is None else scores[:, k],
            groups=GROUPS,
            settings=settings,
        )
        for k in range(3)
    ]
    assert all(model.features.rated for model in models)
    each = [model.mean(Table(given), None if scores is None else scores[:, k]) for k, model in enumerate(models)]
    exported = standalone.load(export(tmp_path / "m.npz", models, classes=["a", "b", "c"]))
    found = standalone.predict(exported, given, scores)
    np.testing.assert_allclose(found, to_simplex(np.column_stack(each)), rtol=0, atol=1e-12)
    onnx = pytest.importorskip("swapcal.batch.onnx")
    onnx.write_graph(tmp_path / "m.onnx", models)
    found = run_graph(tmp_path / "m.onnx", feeds(given, scores))
    np.testing.assert_allclose(found, to_simplex(np.column_stack(each)), rtol=0, atol=1e-6)


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
    np.testing.assert_allclose(standalone._to_simplex((p / (1.0 - p)).T), q, rtol=0, atol=1e-13)


def test_a_text_that_reads_like_the_word_for_a_missing_one_is_not_missing(tmp_path: Path) -> None:
    town = ["(missing)", None, "(other)", "Rome"] * 100
    y = np.tile([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0], 50)
    model = Model.fit(Table({"town": town}), y, groups=["town"], settings=FitSettings(correction="linear", snapshots=2))
    export(tmp_path / "model.npz", [model])
    found = standalone.predict(standalone.load(tmp_path / "model.npz"), {"town": town})
    np.testing.assert_allclose(found, model.mean(model.features.encode(Table({"town": town})), None, 1), atol=1e-12)


def test_a_row_on_the_simplex_does_not_depend_on_the_others() -> None:
    p = np.random.default_rng(0).uniform(0.01, 0.9, (300, 3))
    np.testing.assert_array_equal(np.concatenate([to_simplex(row[None]) for row in p]), to_simplex(p))
