"""A river classifier: calibrated online, one record at a time or in mini-batches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

try:
    import river  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError('this adapter needs river: pip install "swapcal[river]"', name="river") from None
from river import base

from swapcal.live import Live


class LiveClassifier(base.MiniBatchClassifier):
    """Multicalibrated online probabilities as a river classifier; `live` is the `swapcal.live.Live` behind it.

    `predict_proba_one` changes nothing; `learn_one` forecasts the record again and learns its label, so records are
    encoded, and statistics of features learned, when the label arrives. With immediate labels this is exactly
    predict-then-learn. With delayed labels, as in ``progressive_val_score(delay=...)``, no ticket is kept: the label
    trains the levels that would be issued now, not those that were issued, and the certificate is about the former. To
    learn labels for the issued forecasts, keep the ticket:
    ``model.live.forecast(x, id)`` and later ``model.live.label(id, y)``.

    Parameters
    ----------
    scores : names of features that are probabilities of another model
    groups : names of features to be calibrated by category
    issued : return the issued level p, for which the guarantees hold, instead of the mean forecast
    seed : of the draws

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> model = LiveClassifier()
    >>> metric = evaluate.progressive_val_score(datasets.Phishing().take(300), model, metrics.Accuracy())
    >>> bool(metric.get() > 0.8)
    True
    """

    def __init__(
        self,
        scores: "tuple[str, ...] | None" = None,
        groups: "tuple[str, ...] | None" = None,
        issued: bool = False,
        seed: int = 0,
    ) -> None:
        self.scores = scores
        self.groups = groups
        self.issued = issued
        self.seed = seed
        self.live = Live(scores=scores or (), groups=groups or (), seed=seed)

    @property
    def _multiclass(self) -> bool:
        return False

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[bool | str | int, float]:
        """Return {False: 1 - p, True: p} without changing anything."""
        p = float(self._probabilities([_sorted(x)])[0])
        return {False: 1.0 - p, True: p}

    def learn_one(self, x: Mapping[Any, Any], y: Any, **kwargs: Any) -> None:
        """Learn the label of a record."""
        self.live.run([_sorted(x)], [float(y)])

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return a frame with the columns False and True."""
        p = self._probabilities(X[sorted(X.columns, key=str)])
        return pd.DataFrame({False: 1.0 - p, True: p}, index=X.index)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the labels of many records in order: the same as `learn_one` row by row."""
        self.live.run(X[sorted(X.columns, key=str)], np.asarray(y, dtype=np.float64))

    def _probabilities(self, records: Any) -> Any:
        forecast = self.live.preview(records)
        return forecast.p if self.issued else forecast.mean


def _sorted(x: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the record with its features sorted by name, so that their order does not matter."""
    return {str(name): x[name] for name in sorted(x, key=str)}
