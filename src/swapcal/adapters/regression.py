"""The batch predictor as a scikit-learn regressor, for means of outcomes in a range."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal.adapters.table_estimator import TableEstimator, positive_weight_rows  # names a missing extra

# isort: split
from sklearn.base import RegressorMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import _check_y

from swapcal._validate import Span
from swapcal.adapters.table_estimator import cluster_codes, clusters_or_groups, outcome_column
from swapcal.arrays import Array
from swapcal.engine.explanation import Explanation
from swapcal.features.sources import Name
from swapcal.tables.frame import in_memory


class SwapRegressor(RegressorMixin, TableEstimator):  # type: ignore[misc]
    """Regressor whose means are swap multicalibrated against groups, scores and features.

    An outcome in [low, high] is scaled to [0, 1]. Swap multicalibration, swap regret and the certificate need no
    outcome to be 0 or 1, so what `SwapClassifier` states holds here, under its conditions. Errors on the scale of
    the outcomes are those of the certificate times high - low, ℓ2 errors and regrets times its square. Omniprediction
    does not carry over: the best response to a mean is best for outcomes 0 and 1 only.

    Parameters
    ----------
    estimator : a regressor whose predictions are to be corrected; by default a model of our own. Unless frozen
        (`sklearn.frozen.FrozenEstimator`, or ``cv="prefit"``), it is cross-fitted: the engine sees its out-of-fold
        predictions, and predictions use a copy fitted on all rows. Predictions beyond the range count as its ends.
    low, high : the range. By default the smallest and largest outcome of the fit; the guarantees then are about
        outcomes within it, and predictions never leave it.
    groups : columns (names of a data frame's, numbers of an array's) over whose categories and their intersections
        calibration matters most. Numbers with more than 16 values are cut into 8 parts.
    contexts : other columns to use; all by default, [] for none.
    mode : how `predict` predicts. "mean": the mixture's mean, best squared error, outside the swap theorem. "sample":
        one of all rounds' forecasters and one of its two levels of the range, drawn for each row: the theorem's
        predictor. An integer `random_state` repeats the draws at every call. "hash": the same, drawn by a hash of the
        row's value in `key`, or of all its values: a fixed function; rows with one key share one draw.
    target : "adaptive" lets the levels refine themselves; "multicalibration" and "agnostic" take the uniform grid of
        the respective theorem, "omniprediction" that of a theorem that is about outcomes 0 and 1 only.
    epsilon, delta : with a target and ``correction="none"``, raise ValueError on fewer rows than its theorem needs for
        error `epsilon`, for outcomes scaled to [0, 1], with probability 1 - `delta`.
    snapshots : forecasters kept, at uniformly random rounds. None: 16 for the mean and, in modes "sample" and "hash"
        with one pass, beside them the log of all rounds. A number: so many for every mode, and no log; no theorem
        covers them.
    passes : times the rows are streamed. More than one helps a few hundred rows; the theorems cover one.
    correction : of the score, before the engine. "linear": a regression on the score, groups, their intersections and
        features. "trees": boosted trees on the same columns, between two such regressions (LightGBM, extra ``trees``).
        "auto": trees where LightGBM is installed and there are 500 rows, else "linear". "none": the score as given, or
        the middle of the range, so that no context depends on an outcome.
    cv : folds for the estimator: an integer, a splitter, or "prefit".
    ridge : of the engine's learners. "auto" starts with 256, 16 and 1 side by side and goes on with the one whose
        predictions, each made before its outcome was used, had the least squared error.
    kappa : levels split when rounding costs more than this share of learning.
    n_jobs : threads that predict, and processes that cross-fit the estimator; -1 for all there are.
    random_state : of the order of the rows, the folds, the rounds kept and the draws.
    key : column of ids (a name, or a number of an array) by which mode "hash" draws. It is never a feature, and an
        estimator inside does not see it.

    Notes
    -----
    A mean is calibrated, not a distribution: of the rows predicted 7, in every group, the outcomes average 7. Long
    tails make the range wide and the levels coarse; fit the logarithm of such outcomes, and note that it is then the
    mean logarithm which is calibrated.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=4000), rng.integers(0, 2, 4000)])
    >>> y = np.clip(5 + X[:, 0] + 2 * X[:, 1] + rng.normal(size=4000), 0, 10)
    >>> model = SwapRegressor(low=0, high=10, groups=[1], random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [0.0, 1.0]]).round()
    array([5., 7.])
    >>> model.certificate_.holds()
    True
    """

    METHOD = "predict"

    def __init__(
        self,
        estimator: Any = None,
        *,
        low: "float | None" = None,
        high: "float | None" = None,
        groups: "Sequence[Name] | None" = None,
        contexts: "Sequence[Name] | None" = None,
        mode: str = "mean",
        target: str = "adaptive",
        epsilon: "float | None" = None,
        delta: float = 0.05,
        snapshots: "int | None" = None,
        passes: int = 1,
        cv: Any = 5,
        ridge: "float | str" = "auto",
        kappa: float = 0.2,
        n_jobs: "int | None" = None,
        random_state: Any = None,
        correction: str = "auto",
        key: "Name | None" = None,
    ) -> None:
        self.estimator = estimator
        self.low = low
        self.high = high
        self.groups = groups
        self.contexts = contexts
        self.mode = mode
        self.target = target
        self.epsilon = epsilon
        self.delta = delta
        self.snapshots = snapshots
        self.passes = passes
        self.cv = cv
        self.ridge = ridge
        self.kappa = kappa
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.correction = correction
        self.key = key

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: "ArrayLike | None" = None,
        progress: "Callable[[int], object] | None" = None,
        clusters: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit on rows `X` and outcomes `y`.

        `sample_weight` is how often each row counts, 1 by default; `progress` is called with numbers of rows done.
        `clusters` has the id of what each row belongs to, such as a patient: no cluster is split between folds.
        scikit-learn's name for it, also in metadata routing, is `groups`.
        """
        with self._all_or_nothing():
            self._fit(X, y, sample_weight, progress, clusters_or_groups(clusters, groups))
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, progress: Any, clusters: Any) -> None:
        self._settings()
        X, y, sample_weight, clusters = in_memory(X, y=y, sample_weight=sample_weight, clusters=clusters)
        source, X = self._source(X, reset=True)
        clusters = cluster_codes(clusters, len(source))
        outcomes, weight = self._numbers(y, len(source)), self._weights(sample_weight, source)
        if weight is not None and not (weight > 0.0).all():
            X, outcomes, clusters, weight = positive_weight_rows(X, outcomes, clusters, weight)
            source = self._reopen(X)
        self._set_range(outcomes)
        targets = [self._scaled(outcomes)]
        scores = self._cross_fit(X, outcomes, weight, clusters)
        self._learn(source, targets, scores, weight=weight, progress=progress, clusters=clusters)

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: "ArrayLike | None" = None) -> Self:
        """Continue with more rows `X`, outcomes `y` and weights `sample_weight`, as `fit` takes them.

        The first call fits the range, scales, categories and the estimator for good.
        """
        if not hasattr(self, "models_"):
            return self.fit(X, y, sample_weight)
        source, X = self._source(X, reset=False)
        outcomes = self._numbers(y, len(source))
        self._check_range(outcomes, self.low_, self.high_)
        self._learn_more(source, X, [self._scaled(outcomes)], self._weights(sample_weight, source))
        return self

    def predict(self, X: Any) -> Array:
        """Return the expected outcome of every row, by `mode`."""
        predicted = self._predicted(X)[:, 0]
        return self._span().values(predicted)

    def explain(self, X: Any) -> "list[Explanation]":
        """Return each row's mean prediction as a sum of contributions, one for each column.

        ``mean = base + Σ amounts`` on the scale of the outcomes, exactly, by the rule of `SwapClassifier.explain`: from
        the prediction for a row of average numbers and no categories, values are revealed one after the other.
        """
        return self._explained(X)[0]

    def _outcomes(self) -> tuple[float, float]:
        return self.low_, self.high_

    def _numbers(self, y: ArrayLike, rows: int) -> Array:
        if y is None:
            raise ValueError("This SwapRegressor estimator requires y to be passed, but the target y is None.")
        column = outcome_column(y, rows, "number")
        if column.dtype.kind in "mM":
            raise ValueError(f"y: given {column.dtype}, expected numbers")
        numbers = np.asarray(_check_y(column, y_numeric=True, estimator=self), np.float64)
        assert_all_finite(numbers, input_name="y")
        return numbers

    def _set_range(self, y: Array) -> None:
        low = float(y.min() if self.low is None else self.low)
        high = float(y.max() if self.high is None else self.high)
        if not (np.isfinite([low, high]).all() and low < high):
            known = "" if self.low is not None and self.high is not None else "; give low= and high="
            raise ValueError(f"range: given {low} to {high}, expected two finite numbers in increasing order{known}")
        if not np.isfinite(high - low):
            raise ValueError(f"range: given {low} to {high}, expected two numbers whose difference is finite")
        self._check_range(y, low, high)
        self.low_, self.high_ = low, high

    def _check_range(self, y: Array, low: float, high: float) -> None:
        beyond = np.flatnonzero((y < low) | (y > high))
        if beyond.size:
            row = beyond[0]
            raise ValueError(f"y: given {y[row]} in row {row + 1}, expected a number from {low} to {high}")

    def _scaled(self, y: Array) -> Array:
        """Return outcomes, or predictions, as shares of the range, clipped to [0, 1]."""
        return np.clip(self._span().share(y), 0.0, 1.0)

    def _span(self) -> Span:
        return Span(self.low_, self.high_)

    def _scored(self, X: Any) -> Array:
        return self._as_scores(self.estimator_.predict(X))

    def _as_scores(self, predictions: Any) -> Array:
        scores = np.asarray(predictions, np.float64)
        if scores.ndim > 2 or scores.shape[1:] not in ((), (1,)):
            raise ValueError(f"estimator: given predictions of shape {scores.shape}, expected one per row")
        return self._scaled(scores.reshape(-1, 1))
