"""MLflow with a store in a folder: evaluations, logged models, alarms as tags."""

import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlflow")
pytest.importorskip("pandas")
pytest.importorskip("sklearn")

import mlflow
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline

from swapcal import Audit, Live, Monitor, SwapClassifier
from swapcal.adapters.mlflow import log_model, tag_alarms

pytestmark = pytest.mark.systems

ROWS = 1200


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings = {"ALLOW_FILE_STORE": "true", "DISABLE_TELEMETRY": "true", "TRACKING_URI": "mlruns"}
    for name, value in settings.items():
        monkeypatch.setenv(f"MLFLOW_{name}", value)
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with warnings.catch_warnings():  # MLflow's own, on which it does not depend
        warnings.simplefilter("ignore")
        yield
    mlflow.set_tracking_uri(None)


def table(seed: int = 0, rows: int = ROWS) -> Any:
    """Return forecasts that are wrong at night, and columns of every kind."""
    rng = np.random.default_rng(seed)
    night, p = rng.random(rows) < 0.4, rng.uniform(0.1, 0.7, rows)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows),
            "income": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
            "shift": np.where(night, "night", "day"),
            "town": np.where(rng.random(rows) < 0.1, None, rng.choice(list("abc"), rows)),
            "day": pd.to_datetime(rng.choice(["2024-02-28", "2024-02-29T12:00"], rows), format="ISO8601"),
            "id": np.arange(rows) // 2,
            "weight": rng.uniform(0.5, 2.0, rows),
            "p": p,
            "y": (rng.random(rows) < p + 0.25 * night).astype(int),
        }
    )


COLUMNS = {"groups": ["shift"], "features": ["age"], "weights": "weight", "clusters": "id"}


def evaluate(data: Any, **settings: Any) -> Any:
    given = {"targets": "y", "model_type": "classifier", "evaluators": "swapcal"}
    with mlflow.start_run() as run:
        return mlflow.models.evaluate(data=data, **given | settings), mlflow.MlflowClient(), run.info.run_id


def test_the_evaluator_logs_what_the_audit_finds() -> None:
    data = table()
    result, client, run = evaluate(data, predictions="p", evaluator_config={**COLUMNS, "tolerance": 0.02})
    audit = Audit.from_frame(data, prob="p", target="y", title="dataset", **COLUMNS)
    found = client.get_run(run).data
    assert found.metrics == result.metrics
    for name, value in {"brier": audit.brier(), "log_loss": audit.log_loss(), "ece": audit.ece()}.items():
        assert result.metrics[f"swapcal_{name}"] == pytest.approx(value, abs=1e-9)
    assert result.metrics["swapcal_smcal_2"] == pytest.approx(audit.theory.smcal(2, mean=True), rel=1e-6)
    night = next(row for row in audit.group_table() if row.name == "shift = night")
    assert result.metrics["swapcal_worst_group_gap"] == pytest.approx(night.gap, abs=1e-9)
    assert found.tags["swapcal.verdict"] == audit.verdict(0.02).word == "miscalibrated"
    assert result.metrics["swapcal_miscalibrated"] == 1.0
    assert {item.path for item in client.list_artifacts(run, "swapcal")} == {
        f"swapcal/{name}" for name in ("report.html", "card.md", "findings.json")
    }
    assert result.artifacts["swapcal_card"].content == audit.to_card(tolerance=0.02)
    assert result.artifacts["swapcal_findings"].content == audit.to_dict(tolerance=0.02)


def test_a_classifier_is_audited_by_its_probabilities_and_its_logged_model_is_tagged() -> None:
    data = table()
    X = data[["age", "p"]].astype(float)
    classifier = LogisticRegression().fit(X, data["y"])
    signature = mlflow.models.infer_signature(X, data["y"].to_numpy())
    logged = mlflow.sklearn.log_model(
        classifier, name="model", signature=signature, pip_requirements=[], serialization_format="cloudpickle"
    )
    result, client, _ = evaluate(
        data.drop(columns=["town", "day", "income"]),
        model=logged.model_uri,
        evaluator_config={"groups": ["shift"], "metric_prefix": "test_"},
    )
    brier = np.mean((classifier.predict_proba(X)[:, 1] - data["y"]) ** 2)
    assert result.metrics["test_swapcal_brier"] == pytest.approx(brier, abs=1e-9)
    assert client.get_logged_model(logged.model_id).tags["test_swapcal.verdict"] == "miscalibrated"


def test_a_function_of_two_columns_and_named_labels() -> None:
    data = table().assign(y=lambda frame: np.where(frame["y"] == 1, "late", "on time"))
    config = {"pos_label": "late", "groups": ["shift"]}
    two = evaluate(data, model=lambda X: np.stack([1 - X["p"], X["p"]], axis=1), evaluator_config=config)[0]
    frame = evaluate(data, model=lambda X: X[["p", "age"]], predictions="p", evaluator_config=config)[0]
    brier = np.mean((data["p"] - (data["y"] == "late")) ** 2)
    assert two.metrics["swapcal_brier"] == frame.metrics["swapcal_brier"] == pytest.approx(brier, abs=1e-9)


def test_what_is_no_binary_forecast_is_refused_or_left_to_others(caplog: pytest.LogCaptureFixture) -> None:
    data = table()
    with pytest.raises(ValueError, match="evaluator_config: given column 'nothing'"):
        evaluate(data, predictions="p", evaluator_config={"groups": ["nothing"]})
    with pytest.raises(ValueError, match="given"):
        evaluate(data, predictions="age", evaluator_config={"groups": ["shift"]})
    with caplog.at_level(logging.WARNING), pytest.raises(mlflow.MlflowException):
        evaluate(data, predictions="age")
    assert "not audited by swapcal: column 'age': given" in caplog.text
    with pytest.raises(mlflow.MlflowException):
        evaluate(data, predictions="p", evaluator_config={"group": ["shift"]})


@pytest.fixture(scope="module")
def fitted() -> Any:
    data = table()
    X = data.drop(columns=["p", "y", "id"])
    return SwapClassifier(groups=["shift", "town", "day"], correction="linear", random_state=0).fit(X, data["y"]), X


def test_an_exported_model_predicts_the_same_without_swapcal(fitted: Any, tmp_path: Path) -> None:
    model, X = fitted
    logged = log_model(model, "forecasts", input_example=X.head(3), registered_model_name="late")
    fresh = table(seed=1).drop(columns=["p", "y", "id"])
    expected = model.predict_proba(fresh)[:, 1]
    loaded = mlflow.pyfunc.load_model("models:/late/1")
    np.testing.assert_allclose(loaded.predict(fresh), expected, rtol=0, atol=1e-9)
    assert set(logged.signature.inputs.input_names()) == set(X.columns)
    assert logged.saved_input_example_info is not None
    fresh.to_pickle(tmp_path / "rows.pkl")
    code = f"""
import sys
for name in ("swapcal", "numba", "sklearn"):
    sys.modules[name] = None
import mlflow, numpy, pandas
mlflow.set_tracking_uri({(tmp_path / "store").as_uri()!r})
found = mlflow.pyfunc.load_model("models:/late/1").predict(pandas.read_pickle("rows.pkl"))
numpy.save("found.npy", found)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), expected, rtol=0, atol=1e-9)


def test_scores_of_an_estimator_are_a_column() -> None:
    data = table()
    X, classes = data[["age", "shift"]], np.digitize(data["p"] + 0.2 * (data["shift"] == "night"), [0.3, 0.6])
    inner = make_pipeline(ColumnTransformer([("age", "passthrough", ["age"])]), LogisticRegression()).fit(X, classes)
    model = SwapClassifier(inner, groups=["shift"], cv="prefit", correction="linear", random_state=0).fit(X, classes)
    names = ["s0", "s1", "s2"]
    rows = X.assign(**dict(zip(names, inner.predict_proba(X).T, strict=True)))
    with pytest.raises(ValueError, match="scores: given None, expected the column"):
        log_model(model, "forecasts", input_example=rows.head(3))
    logged = log_model(model, "forecasts", input_example=rows.head(3), scores=names)
    found = mlflow.pyfunc.load_model(logged.model_uri).predict(rows)
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=0, atol=1e-9)


def test_a_live_forecasts_as_it_was_and_does_not_learn() -> None:
    data = table(rows=300)
    records = data[["age", "shift", "p"]]
    live = Live(groups=["shift"], scores=["p"])
    live.run(records, data["y"])
    logged = log_model(live, "live", input_example=records.head(3))
    expected = live.preview(records).mean
    loaded = mlflow.pyfunc.load_model(logged.model_uri)
    for _ in range(2):
        np.testing.assert_allclose(loaded.predict(records), expected, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="model: given a Live with models mine"):
        log_model(Live(models={"mine": SGDClassifier(loss="log_loss")}), "live", input_example=records.head(3))


def test_the_version_that_alarmed_is_tagged() -> None:
    client = mlflow.MlflowClient()
    client.create_registered_model("late")
    client.create_model_version("late", "somewhere")
    data, monitor = table(rows=3000), Monitor(groups=["shift"])
    assert tag_alarms(monitor, "late", 1) == []
    assert client.get_model_version("late", "1").tags == {"swapcal.alarms": "0"}
    monitor.add(data[["shift"]], data["p"], data["y"])
    alarms = tag_alarms(monitor, "late", 1)
    tags = client.get_model_version("late", "1").tags
    assert alarms
    assert tags == {"swapcal.alarms": str(len(alarms)), "swapcal.alarm": alarms[0].sentence}
    assert tag_alarms(Monitor(groups=["shift"]), "late", "1") == []
    assert client.get_model_version("late", "1").tags == {"swapcal.alarms": "0"}


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "mlflow.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        exec(block, names)
    assert "shop = Bari" in capsys.readouterr().out
    assert names["result"].metrics["swapcal_miscalibrated"] == 1.0
    assert "swapcal.alarm" in mlflow.MlflowClient().get_model_version("bought", "1").tags
