"""Scores of a Spark data frame: a fitted model over Arrow batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, types

from swapcal.adapters.spark import columns
from swapcal.adapters.spark.arrow import Batches, map_in_arrow
from swapcal.archive.container import packed, unpacked
from swapcal.arrays import Array
from swapcal.live import Live
from swapcal.live.file import FILE


def score(df: DataFrame, model: Any, *, features: Sequence[str] | None = None, prefix: str = "") -> DataFrame:
    """Return the data frame with the model's probabilities beside its columns; a stream stays a stream.

    Of a `SwapClassifier` of two classes the new column is `p`, the probability of the second, by the model's `mode`; of
    more classes there is one column for each, `p_` and its name; of a `SwapRegressor` it is `prediction`. A `Live` is
    taken as it is now and learns nothing: the new columns are `p`, the level it would issue, and `mean`. A row's
    probabilities hang on its values alone, not on the partitioning (but for mode "sample", which draws afresh).

    The model is broadcast: every executor fetches it once, every Python worker unpacks it once.

    Parameters
    ----------
    df : a batch data frame or a stream
    model : a fitted `SwapClassifier` or `SwapRegressor`, or a `Live`
    features : columns that make up a row for a model that was fitted on arrays, in their order; or, for a `Live`, its
        record, by default all columns
    prefix : put before the names of the new columns
    """
    columns.require_classic(df)
    scorer = _live_scorer(model, df, features) if isinstance(model, Live) else _fitted_scorer(model, features)
    columns.require(df, scorer.columns)
    names = [prefix + name for name in scorer.names]
    for name in names:
        if name in df.columns:
            raise ValueError(f"column {name!r}: given already, expected a new name; see prefix")
    shared = df.sparkSession.sparkContext.broadcast(scorer)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            answers = shared.value.answers(pa.Table.from_batches([batch]).select(shared.value.columns))
            added = [pa.array(np.ascontiguousarray(column), pa.float64()) for column in answers.T]
            yield pa.RecordBatch.from_arrays([*batch.columns, *added], names=[*batch.schema.names, *names])

    fields = [types.StructField(name, types.DoubleType()) for name in names]
    return map_in_arrow(df, run, types.StructType([*df.schema.fields, *fields]))


class FittedScorer:
    """A fitted estimator, which reads a table or, if it was fitted on arrays, a matrix."""

    def __init__(self, model: Any, features: Sequence[str], named: bool) -> None:
        self.model, self.columns, self._named = model, list(features), named
        classes = getattr(model, "classes_", None)
        self._binary = classes is not None and len(classes) == 2
        if classes is None:
            self.names = ["prediction"]
        else:
            self.names = ["p"] if self._binary else [f"p_{name}" for name in classes]

    def answers(self, rows: pa.Table) -> Array:
        """Return (rows, names)."""
        found = self._predict(self._given(rows))
        return np.asarray(found[:, 1:] if self._binary else found.reshape(len(rows), -1), np.float64)

    def _given(self, rows: pa.Table) -> Any:
        if not self._named:
            return np.column_stack([column.to_numpy().astype(np.float64) for column in rows.columns])
        return rows if self.model.estimator is None else rows.to_pandas()  # what an estimator inside can read

    def _predict(self, rows: Any) -> Array:
        found: Array = (self.model.predict if self.names == ["prediction"] else self.model.predict_proba)(rows)
        return found


class LiveScorer:
    """A `Live` that stays as it is."""

    names = ("p", "mean")

    def __init__(self, content: bytes, features: Sequence[str]) -> None:
        self.columns = list(features)
        self._content = content
        self._live: Live | None = None

    def __reduce__(self) -> Any:
        return LiveScorer, (self._content, self.columns)

    def answers(self, rows: pa.Table) -> Array:
        """Return (rows, 2): issued levels and means."""
        if self._live is None:
            self._live = Live.from_state(unpacked(self._content, FILE))
        found = self._live.preview(rows)
        return np.column_stack([found.p, found.mean])


def _fitted_scorer(model: Any, features: Sequence[str] | None) -> FittedScorer:
    if not hasattr(model, "models_"):
        raise TypeError(
            f"model: given {type(model).__name__}, expected a fitted SwapClassifier or SwapRegressor, or a Live"
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return FittedScorer(model, names.tolist(), True)
    if features is None or len(features) != model.n_features_in_:
        given = "none" if features is None else f"{len(features)}"
        raise ValueError(f"features: given {given}, expected the {model.n_features_in_} columns of the fitted array")
    return FittedScorer(model, features, False)


def _live_scorer(live: Live, df: DataFrame, features: Sequence[str] | None) -> LiveScorer:
    if live.models:
        raise ValueError(f"model: given a Live with models {list(live.models)}, expected one without: they stay behind")
    return LiveScorer(packed(FILE, live.to_state()), df.columns if features is None else features)
