"""What one would use on a table: each method is fitted on a scene and returns a predictor of its test rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from batch_scene import Scene
from batch_tasks import base_models
from swapcal import SwapClassifier
from swapcal.arrays import Array
from swapcal.baselines.batch import BATCH
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.tables.frame import Table

Predict = Callable[[slice], Array]
Method = Callable[[Scene], Predict]

TINY = 1e-6


def base_only(scene: Scene) -> Predict:
    return lambda part: scene.p_test[part]


def true_probabilities(scene: Scene) -> Predict:
    assert scene.truth is not None
    truth = scene.truth
    return lambda part: truth[part]


def sigmoid(scene: Scene) -> Predict:
    model = LogisticRegression(C=1e6).fit(_logits(scene.p), scene.y)
    return lambda part: model.predict_proba(_logits(scene.p_test[part]))[:, 1]


def _logits(p: Array) -> Array:
    return np.asarray(logit(np.clip(p, TINY, 1 - TINY)))[:, None]


def isotonic(scene: Scene) -> Predict:
    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scene.p, scene.y)
    return lambda part: np.asarray(model.predict(scene.p_test[part]))


def venn_abers(scene: Scene) -> Predict:
    from venn_abers import VennAbers

    model = VennAbers()
    model.fit(_two(scene.p), scene.y)
    return lambda part: np.asarray(model.predict_proba(_two(scene.p_test[part]))[0][:, 1])


def _two(p: Array) -> Array:
    return np.column_stack([1 - p, p])


def baseline(name: str) -> Method:
    def fitted(scene: Scene) -> Predict:
        train, test = scene.memberships if name == "hkrr" else scene.coordinates
        model = BATCH[name]().fit(scene.p, train, scene.y)
        return lambda part: np.asarray(model.predict(scene.p_test[part], test[part]))

    return fitted


def mcgrad(all_features: bool) -> Method:
    """Return MCGrad as its documentation calls it: nothing set but the columns that make segments."""

    def fitted(scene: Scene) -> Predict:
        from mcgrad import methods

        used = list(scene.frame) if all_features else scene.groups
        numbers = [name for name in used if pd.api.types.is_numeric_dtype(scene.frame[name])]
        roles: dict[str, Any] = {
            "prediction_column_name": "prediction",
            "categorical_feature_column_names": [name for name in used if name not in numbers],
            "numerical_feature_column_names": numbers,
        }
        model = methods.MCGrad()
        model.fit(scene.frame.assign(prediction=scene.p, label=scene.y), label_column_name="label", **roles)

        def predict(part: slice) -> Array:
            rows = scene.frame_test.iloc[part].assign(prediction=scene.p_test[part])
            return np.asarray(model.predict(rows, **roles))

        return predict

    return fitted


def swapcal(mode: str = "mean", correction: str = "auto") -> Method:
    def fitted(scene: Scene) -> Predict:
        settings = FitSettings(seed=scene.seed, correction=correction)
        model = Model.fit(Table(scene.frame), scene.y, scene.p, groups=scene.groups, settings=settings)
        rng = np.random.default_rng(scene.seed)

        def predict(part: slice) -> Array:
            table, scores = Table(scene.frame_test.iloc[part]), scene.p_test[part]
            if mode == "mean":
                return model.mean(table, scores)
            keys = None if mode == "hash" else rng.integers(0, 2**63, len(scores)).astype(np.uint64)
            return model.issue(table, scores, keys).p

        return predict

    return fitted


# ---------------------------------------------------------------- without a base model, on all rows there are to fit


def lightgbm(scene: Scene) -> Predict:
    frame, frame_test = _categories(scene)
    model = _lightgbm().fit(frame, scene.y)
    return lambda part: np.asarray(model.predict_proba(frame_test.iloc[part])[:, 1])


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(verbosity=-1, n_jobs=1)


def _categories(scene: Scene) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both parts with texts as pandas categories, which LightGBM splits by itself."""
    fit, test = scene.frame.copy(), scene.frame_test.copy()
    for name in fit:
        if not pd.api.types.is_numeric_dtype(fit[name]):
            kinds = pd.CategoricalDtype(sorted(set(fit[name].dropna())))
            fit[name], test[name] = fit[name].astype(kinds), test[name].astype(kinds)
    return fit, test


def logistic(scene: Scene) -> Predict:
    model = base_models()["logistic regression"].fit(scene.frame, scene.y)
    return lambda part: np.asarray(model.predict_proba(scene.frame_test.iloc[part])[:, 1])


def swapcal_alone(scene: Scene) -> Predict:
    model = SwapClassifier(groups=scene.groups, random_state=scene.seed).fit(scene.frame, scene.y)
    return lambda part: np.asarray(model.predict_proba(scene.frame_test.iloc[part])[:, 1])


def swapcal_around_lightgbm(scene: Scene) -> Predict:
    frame, frame_test = _categories(scene)
    model = SwapClassifier(_lightgbm(), groups=scene.groups, random_state=scene.seed).fit(frame, scene.y)
    return lambda part: np.asarray(model.predict_proba(frame_test.iloc[part])[:, 1])


AROUND: dict[str, Method] = {
    "true probabilities": true_probabilities,
    "base model": base_only,
    "sigmoid": sigmoid,
    "isotonic": isotonic,
    "venn-abers": venn_abers,
    "HKRR": baseline("hkrr"),
    "swap-agnostic": baseline("swap-agnostic"),
    "LSBoost linear": baseline("lsboost-linear"),
    "LSBoost tree": baseline("lsboost-tree"),
    "MCGrad": mcgrad(all_features=True),
    "MCGrad groups": mcgrad(all_features=False),
    "swapcal linear": swapcal(correction="linear"),
    "swapcal mean": swapcal(),
    "swapcal hash": swapcal("hash"),
}
"""Methods that correct a base model, on rows it has not seen."""

ALONE: dict[str, Method] = {
    "logistic regression": logistic,
    "LightGBM": lightgbm,
    "swapcal alone": swapcal_alone,
    "swapcal around LightGBM": swapcal_around_lightgbm,
}
"""Methods that have no base model and fit its rows, too."""
