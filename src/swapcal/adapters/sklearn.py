"""scikit-learn's view of the batch predictor."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from swapcal.arrays import Array

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        'SwapClassifier needs scikit-learn: pip install "swapcal[sklearn]"', name="sklearn"
    ) from None
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from swapcal.batch.model import MODES, Model, Settings
from swapcal.engine.certificate import Certificate
from swapcal.features.source import Name, Source
from swapcal.losses import Decision, Loss, decide
from swapcal.tables.table import Table, is_table

FEWEST_ROWS = 2
FEW_ROWS = 64


class SwapClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Binary classifier whose probabilities are swap multicalibrated against groups, scores and features.

    The rows are streamed once through the online engine, and the prediction is a uniform mixture of the forecasters
    the stream went through. For i.i.d. rows and modes "sample" and "hash", with probability 1 - δ the mixture's ℓ2 swap
    multicalibration error and swap agnostic error are Õ(T^{-2/3}), its ℓ1 error and swap omniprediction error
    Õ(T^{-1/3}) (`swapcal.bounds.dsmcal2`, `saerr`, `dsmcal1`, `dsomni`); `certificate_` has the exact errors on the
    rows themselves.

    Parameters
    ----------
    estimator : a classifier with `predict_proba` whose probabilities are to be corrected; by default a logistic
        regression of our own, with trees on top of it as `correction` says. Unless frozen, it is cross-fitted: the
        engine sees its out-of-fold probabilities, and predictions use a copy fitted on all rows. Wrap a fitted one in
        `sklearn.frozen.FrozenEstimator` (or give ``cv="prefit"``) and fit on rows it has not seen; only then do the
        theorems hold as stated.
    groups : columns (names of a data frame's, numbers of an array's) over whose categories and their intersections
        calibration matters most. Numbers with more than 16 values are cut into 8 parts.
    contexts : other columns to look at; all by default, [] for none.
    mode : how `predict_proba` predicts. "mean": the mixture's mean, best log loss and Brier score, outside the swap
        theorem. "hash": one forecaster and one of its levels per row, drawn by a hash of the row's values: the
        theorem's predictor as a fixed function; the theorem holds in expectation over `random_state`. "sample": the
        same drawn afresh at every call, the theorem to the letter.
    target : "adaptive" lets the levels refine themselves; "multicalibration", "omniprediction" and "agnostic" take the
        uniform grid of the respective theorem.
    epsilon, delta : with a target, refuse to fit on fewer rows than its theorem needs to promise error `epsilon` with
        probability 1 - `delta`.
    snapshots : forecasters kept, at uniformly random rounds: an unbiased compression of all of them.
    passes : times the rows are streamed. More than one helps a few hundred rows; the theorems cover one.
    correction : of the score, before the engine. "linear": a logistic regression on the score, groups, their
        intersections and features. "trees": boosted trees on the same columns, between two such regressions (LightGBM,
        extra ``trees``), as many as lower the out-of-fold loss, none if none do. "auto": trees where LightGBM is
        installed and there are 500 rows.
    cv : folds for the estimator: an integer, a splitter, or "prefit".
    ridge : of the engine's learners. "auto" streams with 16 and with 1 and keeps the one whose forecasts, each made
        before its label was used, had the smaller squared error: how soon to leave the corrected score.
    kappa : of the self-refining levels; see `swapcal.Forecaster`.
    random_state : of the order of the rows, the folds, the rounds kept and the draws.

    Notes
    -----
    Sparse matrices and arrays are accepted and made dense, 8 bytes per row and column, because every column is
    standardised; the result is that of the dense input. Predict in pieces if all rows at once would not fit.

    A sample weight w makes a row count w times in every statistic (weights are scaled to mean 1): the learners' regret
    bounds hold for any weights, so the certificate's errors and bound are those of the weighted sums. An online pass
    over a row of weight 2 is not the same computation as meeting the row twice, so the equivalence holds in the sums,
    not bit for bit.

    More than two classes are refused: one-vs-rest forecasts are each multicalibrated, but dividing them by their sum
    is not. ``OneVsRestClassifier(SwapClassifier())`` does it for who wants it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=4000), rng.integers(0, 2, 4000)])
    >>> y = rng.random(4000) < 1 / (1 + np.exp(2 - X[:, 0] - 3 * X[:, 1]))
    >>> model = SwapClassifier(groups=[1], random_state=0).fit(X, y)
    >>> model.predict_proba([[0.0, 0.0], [0.0, 1.0]])[:, 1].round(1)
    array([0.1, 0.7])
    >>> model.certificate_.holds()
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        groups: "Sequence[Name] | None" = None,
        contexts: "Sequence[Name] | None" = None,
        mode: str = "mean",
        target: str = "adaptive",
        epsilon: "float | None" = None,
        delta: float = 0.05,
        snapshots: int = 32,
        passes: int = 1,
        cv: Any = 5,
        ridge: "float | str" = "auto",
        kappa: float = 0.2,
        random_state: Any = None,
        correction: str = "auto",
    ) -> None:
        self.estimator = estimator
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
        self.random_state = random_state
        self.correction = correction

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: "ArrayLike | None" = None,
        progress: "Callable[[int], object] | None" = None,
    ) -> Self:
        """Fit on rows X and labels y of two classes; `progress` is called with numbers of rows done."""
        settings = self._settings()
        source, X = self._source(X, reset=True)
        labels, weight = self._labels(y, len(source)), self._weights(sample_weight, source)
        _refuse_few(labels)
        if weight is not None and not (weight > 0.0).all():
            kept = np.flatnonzero(weight > 0.0)
            X, labels, weight = _rows(X, kept), labels[kept], weight[kept]
            source = self._reopen(X)
            _refuse_few(labels)
        scores = self._cross_fit(X, labels, weight)
        self.model_ = Model.fit(
            source,
            labels,
            scores,
            weight,
            groups=list(self.groups or ()),
            columns=None if self.contexts is None else list(self.contexts),
            settings=settings,
            progress=progress,
        )
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: "ArrayLike | None" = None,
        sample_weight: "ArrayLike | None" = None,
    ) -> Self:
        """Go on with more rows. The first call fits; scales, categories, the estimator and its correction stay as then.

        The first rows must show both classes, whatever `classes` says: the correction needs them.
        """
        if not hasattr(self, "model_"):
            if classes is not None and len(np.unique(classes)) != 2:
                raise ValueError(f"classes: given {len(np.unique(classes))}, expected two")
            return self.fit(X, y, sample_weight)
        source, X = self._source(X, reset=False)
        found = column_or_1d(y)
        strange = np.setdiff1d(found, self.classes_)
        if strange.size:
            low, high = self.classes_.tolist()
            raise ValueError(f"y: given class {strange.tolist()[0]!r}, expected {low!r} or {high!r}")
        labels = (found == self.classes_[1]).astype(np.float64)
        weight = self._weights(sample_weight, source)
        weight = np.ones(len(labels)) if weight is None else weight * (len(labels) / weight.sum())
        self.model_.learn_more(source, labels, self._scores(X), weight)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return (n, 2) probabilities of `classes_`, by `mode`."""
        p = self._probabilities(X)
        out = np.empty((len(p), 2))
        out[:, 1] = p
        np.subtract(1.0, p, out=out[:, 0])
        return out

    def predict(self, X: Any) -> Any:
        """Return the likelier class."""
        likelier = self._probabilities(X) > 0.5
        return self.classes_[likelier.astype(np.intp)]

    def decide(self, X: Any, loss: "Loss | str") -> Decision:
        """Return the best action for each row under `loss`, at its issued level (mode "mean": at its mean).

        Swap omniprediction covers issued levels: one fitted model serves every convex loss.

        Examples
        --------
        >>> X = np.linspace(-2, 2, 2000).reshape(-1, 1)
        >>> y = np.random.default_rng(0).random(2000) < 1 / (1 + np.exp(-3 * X[:, 0]))
        >>> SwapClassifier(random_state=0).fit(X, y).decide([[-1.9], [1.9]], "newsvendor:under=3,over=1").action
        array([0., 1.])
        """
        if self._mode() == "mean":
            return decide(self._probabilities(X), loss)
        return decide(self._issued(X), loss)

    @property
    def certificate_(self) -> Certificate:
        """Exact pseudo errors on the rows streamed, with their data-dependent and worst-case bounds."""
        check_is_fitted(self)
        found: Certificate = self.model_.certificate
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = self.estimator is None
        tags.input_tags.sparse = True
        tags.non_deterministic = self.mode == "sample"
        return tags

    def _settings(self) -> Settings:
        self._mode()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Settings(
            target=self.target,
            snapshots=self.snapshots,
            passes=self.passes,
            ridge=self.ridge,
            kappa=self.kappa,
            epsilon=self.epsilon,
            delta=self.delta,
            seed=seed,
            correction=self.correction,
        )

    def _mode(self) -> str:
        if self.mode not in MODES:
            raise ValueError(f"mode: given {self.mode!r}, expected one of {', '.join(MODES)}")
        return self.mode

    def _source(self, X: Any, *, reset: bool) -> tuple[Source, Any]:
        """Return X as columns to read and as the estimator wants it, after scikit-learn's checks."""
        if _has_names(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return _table(X), X
        least = FEWEST_ROWS if reset else 1
        array = validate_data(
            self, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite="allow-nan", ensure_min_samples=least,
            accept_sparse=("csr", "csc"),
        )  # fmt: skip
        array = array.toarray(order="C") if issparse(array) else array
        return array, array

    def _reopen(self, X: Any) -> Source:
        return X if isinstance(X, np.ndarray) else Table(X)

    def _labels(self, y: ArrayLike, rows: int) -> Array:
        if y is None:
            raise ValueError("This SwapClassifier estimator requires y to be passed, but the target y is None.")
        found = column_or_1d(y, warn=True)
        if len(found) != rows:
            raise ValueError(f"y: given {len(found)} labels, expected {rows}, one per row of X")
        assert_all_finite(found, input_name="y")
        check_classification_targets(found)
        kind = type_of_target(found, input_name="y")
        self.classes_ = np.unique(found)
        if kind != "binary" or len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}. "
                "OneVsRestClassifier(SwapClassifier()) fits one per class."
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y: given one class only, {self.classes_.tolist()[0]!r}, expected two classes")
        return np.asarray(found == self.classes_[1], np.float64)

    def _weights(self, sample_weight: "ArrayLike | None", source: Source) -> "Array | None":
        if sample_weight is None:
            return None
        weight = _check_sample_weight(sample_weight, np.empty((len(source), 1)), dtype=np.float64)
        if (weight < 0.0).any() or not weight.sum() > 0.0:
            raise ValueError(f"sample_weight: given a smallest of {weight.min()}, expected none negative, not all zero")
        return np.asarray(weight, np.float64)

    def _cross_fit(self, X: Any, labels: Array, weight: "Array | None") -> "Array | None":
        """Fit the estimator unless it is; return probabilities of rows it was not fitted on."""
        self.estimator_ = None
        if self.estimator is None:
            return None
        if not hasattr(self.estimator, "predict_proba"):
            name = type(self.estimator).__name__
            raise TypeError(f"estimator: given {name} without predict_proba, expected a classifier with it")
        if isinstance(self.estimator, FrozenEstimator) or self.cv == "prefit":
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            return self._scores(X)
        y = self.classes_[labels.astype(np.intp)]
        extra = (
            {"sample_weight": weight}
            if weight is not None and has_fit_parameter(self.estimator, "sample_weight")
            else {}
        )
        cv = check_cv(self.cv, y, classifier=True)
        params = {"params": extra} if extra else {}
        honest = cross_val_predict(clone(self.estimator), X, y, cv=cv, method="predict_proba", **params)
        self.estimator_ = clone(self.estimator).fit(X, y, **extra)
        return np.ascontiguousarray(honest[:, 1], np.float64)

    def _scores(self, X: Any) -> "Array | None":
        if self.estimator_ is None:
            return None
        found = list(self.estimator_.classes_)
        if sorted(found) != sorted(self.classes_):
            raise ValueError(f"estimator: given one fitted for classes {found}, expected {list(self.classes_)}")
        return np.ascontiguousarray(self.estimator_.predict_proba(X)[:, found.index(self.classes_[1])], np.float64)

    def _opened(self, X: Any) -> tuple[Source, "Array | None"]:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' first.")
        plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float64 and len(X) > 0
        # The checks below cost more than a prediction; an array that cannot fail them skips them.
        if (
            plain
            and X.shape[1] == self.n_features_in_
            and X.flags.c_contiguous
            and not hasattr(self, "feature_names_in_")
        ):
            return X, self._scores(X)
        source, checked = self._source(X, reset=False)
        return source, self._scores(checked)

    def _probabilities(self, X: Any) -> Array:
        if self._mode() == "mean":
            source, scores = self._opened(X)
            return np.asarray(self.model_.mean(source, scores))
        return np.asarray(self._issued(X).p)

    def _issued(self, X: Any) -> Any:
        source, scores = self._opened(X)
        keys = None
        if self.mode == "sample":
            words = check_random_state(self.random_state).randint(0, 2**32, (2, len(source)), dtype=np.uint64)
            keys = (words[0] << np.uint64(32)) | words[1]
        return self.model_.issue(source, scores, keys)


def _has_names(X: Any) -> bool:
    """Say whether X is a data frame whose columns are named by strings; others are read as arrays."""
    return not isinstance(X, dict) and is_table(X) and all(isinstance(name, str) for name in Table(X).columns)


def _table(X: Any) -> Table:
    """Return the frame's columns; a few rows are taken out of it at once, which is faster than column by column."""
    if len(X) > FEW_ROWS:
        return Table(X)
    lists = nw.from_native(X, eager_only=True).to_dict(as_series=False)
    if any(isinstance(value, bool | np.bool_) for values in lists.values() for value in values):
        return Table(X)  # libraries disagree on how a truth value is spelt
    return Table({name: _array(values) for name, values in lists.items()})


def _array(values: list[Any]) -> NDArray[Any]:
    numbers = all(isinstance(value, int | float) for value in values)
    return np.array(values, np.float64 if numbers else object)


def _refuse_few(labels: Array) -> None:
    if len(labels) < FEWEST_ROWS or labels.min() == labels.max():
        raise ValueError("y: given one class only among rows of positive weight, expected two classes")


def _rows(X: Any, kept: Any) -> Any:
    from sklearn.utils import _safe_indexing

    return _safe_indexing(X, kept)
