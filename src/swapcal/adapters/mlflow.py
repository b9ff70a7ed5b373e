"""MLflow: an evaluator that audits a model's forecasts, models to serve, alarms as tags of model versions.

`mlflow.models.evaluate(…, evaluators="swapcal")` finds `AuditEvaluator` by its entry point, and MLflow imports this
module for every evaluation, by any evaluator; so the rest of swapcal is imported where it is used.
"""

import inspect
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

try:
    import mlflow
except ModuleNotFoundError:
    raise ModuleNotFoundError('this adapter needs MLflow: pip install "swapcal[mlflow]"', name="mlflow") from None
from mlflow import MlflowClient
from mlflow.entities import Metric, RunTag
from mlflow.models import infer_signature
from mlflow.models.evaluation import EvaluationResult, ModelEvaluator
from mlflow.pyfunc import PythonModel

from swapcal.version import __version__

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

    from swapcal.adapters.table_estimator import TableEstimator
    from swapcal.audit import Audit
    from swapcal.live import Live
    from swapcal.monitor import Alarm, Monitor
    from swapcal.report import Findings

COLUMNS = "features", "groups", "weights", "time", "clusters"
AUDITED = "levels", "title", "seed", "intersections", "search"
FOUND = "losses", "tolerance", "titles"
OWN = "pos_label", "metric_prefix"
"""Keys of `evaluator_config`: columns and options of `Audit.from_frame`, options of `Audit.to_findings`, and two
that MLflow's own evaluators have."""
LONGEST_TAG = 500
"""Characters of a tag's value; registries differ in how many they take."""


# Evaluation: an audit of the forecasts that MLflow computes or is given.


class AuditEvaluator(ModelEvaluator):  # type: ignore[misc]
    """`Audit` as an evaluator of classifiers, named "swapcal".

    Logs metrics ``swapcal_…``, the artifacts ``swapcal/report.html``, ``card.md`` and ``findings.json``, and the tags
    ``swapcal.verdict`` and ``swapcal.sentence``, of the run and of the logged model if there is one.

    `evaluator_config` may hold `features`, `groups`, `weights`, `time`, `clusters`, `levels`, `title`, `seed`,
    `intersections` and `search` as in `Audit.from_frame`, `losses`, `tolerance` and `titles` as in
    `Audit.to_findings`, the label of the outcome that is forecast as `pos_label`, and a `metric_prefix`. Columns are
    those of the data except outcome and forecast; a model with a signature gets only the columns it names.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Mapping[str, Any], **kwargs: Any) -> bool:
        """Return whether these are settings of this evaluator, for a classifier."""
        return model_type == "classifier" and {*evaluator_config} <= {*COLUMNS, *AUDITED, *FOUND, *OWN}

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        predictions: str | None = None,
        model_id: str | None = None,
        **kwargs: Any,
    ) -> EvaluationResult | None:
        """Audit, and log the findings.

        Without any `evaluator_config` MLflow may have chosen this evaluator by itself: data that are not forecasts of
        a binary outcome are then skipped, with a warning in the log. With one they raise ValueError.
        """
        try:
            audit = _audited(dataset, model, predictions, evaluator_config)
        except (TypeError, ValueError) as error:
            if evaluator_config:
                raise
            logging.getLogger(__name__).warning("not audited by swapcal: %s", error)
            return None
        findings = audit.to_findings(**{name: evaluator_config[name] for name in FOUND if name in evaluator_config})
        prefix = evaluator_config.get("metric_prefix", "")
        metrics = {f"{prefix}swapcal_{name}": value for name, value in _metrics(audit, findings).items()}
        return EvaluationResult(metrics, _logged(findings, metrics, prefix, dataset, run_id, model_id), run_id)


def _audited(dataset: Any, model: Any, predictions: str | None, config: Mapping[str, Any]) -> "Audit":
    """Return the audit of a model's forecasts, or of those that the data hold."""
    from swapcal.audit import Audit

    features = dataset.features_data
    known = features if hasattr(features, "columns") else pd.DataFrame(features, columns=dataset.feature_names)
    p = dataset.predictions_data if model is None else _forecasts(model, features, predictions)
    y = np.asarray(dataset.labels_data)
    if "pos_label" in config:
        y = y == config["pos_label"]
    prob, target = predictions or dataset.predictions_name or "forecast", dataset.targets_name or "outcome"
    columns = {name: config[name] for name in COLUMNS if name in config}
    used = [name for given in columns.values() for name in ([given] if isinstance(given, str) else given)]
    for name in used:
        if name not in known:
            raise ValueError(f"evaluator_config: given column {name!r}, expected one of {', '.join(map(str, known))}")
    options = {name: config[name] for name in AUDITED if name in config}
    frame = known[[*dict.fromkeys(used)]].assign(**{prob: _positive(p), target: y})
    return Audit.from_frame(frame, prob=prob, target=target, **{"title": dataset.name, **options}, **columns)


def _forecasts(model: Any, features: Any, predictions: str | None) -> Any:
    """Return the model's forecasts: those of `predict_proba` if it has one, since its `predict` gives classes."""
    try:
        classifier = model.get_raw_model()
    except (AttributeError, NotImplementedError):
        classifier = None
    if not hasattr(classifier, "predict_proba"):
        output = model.predict(features)
        return output if predictions is None else output[predictions]
    schema = model.metadata.get_input_schema()
    named = schema is not None and schema.has_input_names() and hasattr(features, "columns")
    return classifier.predict_proba(features[schema.input_names()] if named else features)


def _positive(p: Any) -> Any:
    """Return one probability a row: of the second class where there are two columns."""
    probabilities = np.asarray(p)
    return probabilities[:, -1] if probabilities.ndim == 2 and probabilities.shape[1] <= 2 else probabilities


def _metrics(audit: "Audit", findings: "Findings") -> dict[str, float]:
    """Return the figures that runs are compared by; errors of the theory per row, the worst error as its interval."""
    headline, scores = findings.headline, findings.scores
    metrics = {name: getattr(scores, name) for name in ("brier", "log_loss", "auc", "ece")}
    metrics |= {"worst_error_low": headline.low, "worst_error_high": headline.high, "p_value": headline.p_value}
    gaps = [abs(group.gap) for group in audit.group_table() if not group.small]
    metrics |= {"worst_group_gap": max(gaps, default=None), "rows": audit.rows}
    for entry in reversed(findings.quantities):  # of one name, the first counts: that of the widest class
        metrics[entry.name.lower()] = entry.mean_value
    metrics["miscalibrated"] = headline.verdict == "miscalibrated"
    return {name: float(value) for name, value in metrics.items() if value is not None}


def _logged(
    findings: "Findings", metrics: dict[str, float], prefix: str, dataset: Any, run_id: str, model_id: str | None
) -> dict[str, Any]:
    """Log metrics, tags and artifacts; return the artifacts by name."""
    from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact, TextEvaluationArtifact

    from swapcal.report import card, render

    client, start = MlflowClient(), round(1000 * time.time())
    data = {"dataset_name": dataset.name, "dataset_digest": dataset.digest, "run_id": run_id, "model_id": model_id}
    headline = findings.headline
    tags = {"verdict": headline.verdict, "sentence": headline.sentence[:LONGEST_TAG], "version": __version__}
    tags = {f"{prefix}swapcal.{name}": value for name, value in tags.items()}
    client.log_batch(
        run_id,
        metrics=[Metric(name, value, start, 0, **data) for name, value in metrics.items()],
        tags=[RunTag(name, value) for name, value in tags.items()],
    )
    if model_id is not None:
        client.set_logged_model_tags(model_id, tags)
    texts = {"report.html": render(findings), "card.md": card(findings), "findings.json": findings.to_json()}
    artifacts: dict[str, Any] = {}
    for name, text in texts.items():
        path = f"{prefix}swapcal/{name}"
        client.log_text(run_id, text, path)
        kind = JsonEvaluationArtifact if name.endswith(".json") else TextEvaluationArtifact
        artifacts[f"{prefix}swapcal_{Path(name).stem}"] = kind(mlflow.get_artifact_uri(path))
    return artifacts


# Models: code and arrays are logged, never a pickle.


class ExportedModel(PythonModel):  # type: ignore[misc]
    """A fitted table model, predicted by the script exported with it. This source is written with each such model."""

    def load_context(self, context: Any) -> None:
        """Read the script and its arrays."""
        from pathlib import Path

        folder, self.script = Path(context.artifacts["model"]), dict[str, Any]()
        exec((folder / "swapcal_predict.py").read_text(encoding="utf-8"), self.script)
        self.model = self.script["load"](folder / "model.npz")

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> Any:
        """Return the probability of the second class, of every class if there are more, or the expected outcome."""
        names = {str(name): name for name in self.model["names"]}
        columns = {names[str(name)]: self.values_of(model_input[name]) for name in model_input if str(name) in names}
        scores = context.model_config.get("scores") if self.model["scored"] else None
        return self.script["predict"](self.model, columns, model_input[scores].to_numpy() if scores else None)

    def values_of(self, column: Any) -> Any:
        """Return numbers and texts as the script takes them: None if missing, dates in ISO, times in UTC."""
        if column.dtype.kind == "M":
            moments = column if column.dt.tz is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
            return [None if each != each else each.isoformat().removesuffix("T00:00:00") for each in moments]
        return column.astype(object).where(column.notna(), None).tolist()


class LiveModel(PythonModel):  # type: ignore[misc]
    """The mean forecasts of a `Live` as it was when logged; it learns nothing. Needs swapcal."""

    def load_context(self, context: Any) -> None:
        """Read the state."""
        from swapcal.live import Live

        self.live = Live.load(context.artifacts["model"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> Any:
        """Return the mean forecasts."""
        return self.live.preview(model_input).mean


HEAD = """from typing import Any

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel


"""


def log_model(
    model: "TableEstimator | Live", name: str, *, input_example: Any, scores: Any = None, **settings: Any
) -> "ModelInfo":
    """Log a fitted `SwapClassifier` or `SwapRegressor`, or a `Live`, as a pyfunc model; return MLflow's `ModelInfo`.

    A fitted table model is logged as `export` writes it, arrays and a script: serving it needs numpy and pandas beside
    MLflow, not swapcal. It predicts what mode "mean" does. A `Live` needs swapcal where it is served; it is
    logged as it is now, gives mean forecasts and does not learn.

    Parameters
    ----------
    model : fitted on a table with named columns
    name : of the logged model
    input_example : some rows of such a table, a DataFrame. MLflow rejects rows with other types of columns: give
        integers as floats where later ones may be missing
    scores : name of the column with the probabilities that the model corrects, a list of one for each class if there
        are more than two; required if it was fitted with an `estimator`, which is not logged
    settings : what `mlflow.pyfunc.log_model` takes, such as `registered_model_name` or `metadata`
    """
    from swapcal.live import Live

    with TemporaryDirectory() as folder:
        saved, code, columns = Path(folder) / "model", Path(folder) / "predictor.py", 1
        if isinstance(model, Live):
            if model.models:
                raise ValueError(f"model: given a Live with models {', '.join(model.models)}, expected one without")
            model.save(saved)
            kind, needs = LiveModel, f"swapcal=={__version__}"
        else:
            if (model.estimator_ is None) != (scores is None):
                expected = "None" if model.estimator_ is None else "the column of the estimator's probabilities"
                raise ValueError(f"scores: given {scores!r}, expected {expected}")
            saved.mkdir()
            model.export(saved / "model.npz")
            kind, needs, columns = ExportedModel, "numpy>=2", len(model.models_)
        code.write_text(f"{HEAD}{inspect.getsource(kind)}\n\nset_model({kind.__name__}())\n", encoding="utf-8")
        answer = np.zeros((len(input_example), columns) if columns > 1 else len(input_example))
        required = {"pip_requirements": [f"mlflow-skinny>={mlflow.__version__}", "pandas>=2.2", needs]}
        return mlflow.pyfunc.log_model(
            name=name,
            python_model=str(code),
            artifacts={"model": str(saved)},
            model_config=None if scores is None else {"scores": scores},
            signature=infer_signature(input_example, answer),
            input_example=input_example,
            **(required | settings),
        )


# Monitoring: alarms where model versions are approved.


def tag_alarms(monitor: "Monitor", name: str, version: int | str, client: MlflowClient | None = None) -> "list[Alarm]":
    """Tag a registered model's version with the monitor's alarms that are raised now, and return these.

    ``swapcal.alarms`` is their number, ``swapcal.alarm`` the sentence of the first one; it is removed when there is
    none.
    """
    client = MlflowClient() if client is None else client
    alarms = monitor.alarms()
    client.set_model_version_tag(name, str(version), "swapcal.alarms", str(len(alarms)))
    if alarms:
        client.set_model_version_tag(name, str(version), "swapcal.alarm", alarms[0].sentence[:LONGEST_TAG])
    elif "swapcal.alarm" in client.get_model_version(name, str(version)).tags:
        client.delete_model_version_tag(name, str(version), "swapcal.alarm")
    return alarms
