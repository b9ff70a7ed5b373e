"""The batch predictor as a scikit-learn classifier."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal.adapters.table_estimator import FEWEST_ROWS, TableEstimator, positive_weight_rows  # names a missing extra

# isort: split
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from swapcal.adapters.table_estimator import cluster_codes, clusters_or_groups, outcome_column, refuse_mixed
from swapcal.arrays import Array, Integers
from swapcal.batch.mixture import to_simplex
from swapcal.features.sources import Name
from swapcal.losses import Decision, Loss, decide
from swapcal.tables.frame import in_memory


class SwapClassifier(ClassifierMixin, TableEstimator):  # type: ignore[misc]
    """Classifier whose probabilities are swap multicalibrated against groups, scores and features.

    The rows are streamed once through the online engine, and the prediction is a uniform mixture of the forecasters
    the stream went through. `certificate_` has the exact errors on the rows streamed, and their bound, whatever the
    settings. A theorem about new rows holds for ``correction="none"`` in mode "sample" (and "hash", see there) without
    `snapshots`, where rows are independent and alike, have equal weights, and an estimator is frozen and has not seen
    them: with probability 1 - δ the mixture's ℓ2 swap multicalibration error and swap agnostic error are Õ(T^{-2/3}),
    its ℓ1 error and swap omniprediction error Õ(T^{-1/3}) (`swapcal.bounds.adaptive_dsmcal2`, `adaptive_saerr`,
    `adaptive_dsmcal1`, `adaptive_dsomni`; on the grid of a target `dsmcal2`, `saerr`, `dsmcal1`, `dsomni`; with ridge
    "auto" at δ/3). Other corrections fit contexts to the labels streamed, which the theorem does not cover.

    Parameters
    ----------
    estimator : a classifier with `predict_proba` whose probabilities are to be corrected; by default a logistic
        regression of our own, with trees on top of it depending on `correction`. Unless frozen, it is cross-fitted: the
        engine sees its out-of-fold probabilities, and predictions use a copy fitted on all rows. Wrap a fitted one in
        `sklearn.frozen.FrozenEstimator` (or give ``cv="prefit"``) and fit on rows it has not seen.
    groups : columns (names of a data frame's, numbers of an array's) over whose categories and their intersections
        calibration matters most. Numbers with more than 16 values are cut into 8 parts.
    contexts : other columns to use; all by default, [] for none.
    mode : how `predict_proba` predicts. "mean": the mixture's mean, best log loss and Brier score, outside the swap
        theorem. "sample": one of all rounds' forecasters and one of its two levels, drawn for each row: the theorem's
        predictor. An integer `random_state` repeats the draws at every call. "hash": the same, drawn by a hash of the
        row's value in `key`, or of all its values: a fixed function, and as "sample" where keys are distinct and
        independent of outcomes; rows with one key share one draw, which the theorem does not cover.
    target : "adaptive" lets the levels refine themselves; "multicalibration", "omniprediction" and "agnostic" take the
        uniform grid of the respective theorem.
    epsilon, delta : with a target and ``correction="none"``, raise ValueError on fewer rows than its theorem, at the
        levels, ridge and start of this fit, needs for error `epsilon` with probability 1 - `delta`.
    snapshots : forecasters kept, at uniformly random rounds. None: 16 for the mean and, in modes "sample" and "hash"
        with one pass, beside them the log of all rounds, some 16·(coordinates + 2) bytes a row. A number: so many for
        every mode, and no log; their mean is unbiased, their errors are larger than those of all rounds, and no theorem
        covers them.
    passes : times the rows are streamed. More than one helps a few hundred rows; the theorems cover one.
    correction : of the score, before the engine. "linear": a logistic regression on the score, groups, their
        intersections and features. "trees": boosted trees on the same columns, between two such regressions (LightGBM,
        extra ``trees``), as many as lower the out-of-fold loss, none if none do. "auto": trees where LightGBM is
        installed and there are 500 rows, else "linear"; `correction_` and the repr of a fitted one name the choice.
        "none": the score as given, or ½, and no rates of texts, so that no context depends on a label; scales and
        categories are learned from a tenth of the rows, which are not streamed.
    cv : folds for the estimator: an integer, a splitter, or "prefit".
    ridge : of the engine's learners. "auto" starts with 256, 16 and 1 side by side and goes on with the one whose
        forecasts, each made before its label was used, had the least squared error: how soon to leave the corrected
        score.
    kappa : self-refining levels split when rounding costs more than this share of learning.
    n_jobs : threads that predict, and processes that cross-fit the estimator; -1 for all there are.
    random_state : of the order of the rows, the folds, the rounds kept and the draws.
    key : column of ids (a name, or a number of an array) by which mode "hash" draws. It is never a feature, and an
        estimator inside does not see it.

    Notes
    -----
    Sparse matrices and arrays stay sparse: the estimator gets them as they are, and only the columns looked at are made
    dense, 8 bytes per row and column: those of `groups` and `contexts` or, if no contexts are named, the 128 columns
    with the most values that are not 0. Up to 128 columns the result is that of the dense input.

    A sample weight w makes a row count w times in every statistic (weights are scaled to mean 1): the learners' regret
    bounds hold for any weights, so the certificate's errors and bound are those of the weighted sums. An online pass
    over a row of weight 2 is not the same computation as meeting the row twice, so the equivalence holds in the sums,
    not bit for bit.

    Of more than two classes each has a model of its own, class against rest, with the estimator's probability of that
    class as its score: `class_probabilities` has their answers, each with the guarantees above for its class, and
    `certificates_` their certificates. They need not sum to 1; `predict_proba` shifts a row's log-odds by one number
    so that they do. The guide describes which guarantees that step preserves.

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

    METHOD = "predict_proba"

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
        """Fit on rows `X` and labels `y` of two classes or more.

        `sample_weight` is how often each row counts, 1 by default; `progress` is called with numbers of rows done.
        X may be a duckdb relation, a polars LazyFrame or a pyarrow dataset, and y then the name of one of its columns:
        it is read in batches into memory, so let the query take a sample of what does not fit.

        `clusters` has the id of what each row belongs to, such as a patient: no cluster is split between folds, neither
        of the estimator (`cv` may be a splitter by groups) nor of its correction. scikit-learn's
        name for it, also in metadata routing, is `groups`: ``set_fit_request(groups=True)``.
        """
        with self._all_or_nothing():
            self._fit(X, y, sample_weight, progress, clusters=clusters_or_groups(clusters, groups))
        return self

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, progress: Any = None, classes: Any = None, clusters: Any = None
    ) -> None:
        self._settings()
        X, y, sample_weight, clusters = in_memory(X, y=y, sample_weight=sample_weight, clusters=clusters)
        source, X = self._source(X, reset=True)
        clusters = cluster_codes(clusters, len(source))
        labels, weight = self._labels(y, len(source)), self._weights(sample_weight, source)
        self._check_announced(classes)
        self._check_all_present(labels)
        if weight is not None and not (weight > 0.0).all():
            X, labels, clusters, weight = positive_weight_rows(X, labels, clusters, weight)
            source = self._reopen(X)
            self._check_all_present(labels)
        scores = self._cross_fit(X, self.classes_[labels], weight, clusters)
        self._learn(source, self._targets(labels), scores, weight=weight, progress=progress, clusters=clusters)

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: "ArrayLike | None" = None,
        sample_weight: "ArrayLike | None" = None,
    ) -> Self:
        """Continue with more rows. The first call fits scales, categories, the estimator and its correction for good.

        `X`, `y` and `sample_weight` are as `fit` takes them. The first rows must have all classes, even with `classes`:
        the correction needs them.
        """
        if not hasattr(self, "models_"):
            with self._all_or_nothing():
                self._fit(X, y, sample_weight, classes=classes)
            return self
        source, X = self._source(X, reset=False)
        labels = outcome_column(y, len(source), "class")
        unknown = labels[~np.isin(labels, self.classes_)]
        if unknown.size:
            *first, last = map(repr, self.classes_.tolist())
            raise ValueError(f"y: given class {unknown.tolist()[0]!r}, expected {', '.join(first)} or {last}")
        targets = self._targets(np.searchsorted(self.classes_, labels))
        self._learn_more(source, X, targets, self._weights(sample_weight, source))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return (n, classes) probabilities of `classes_`, by `mode`."""
        p = self._predicted(X)
        if p.shape[1] > 1:
            return to_simplex(p)
        return self._both(p[:, 0])

    def class_probabilities(self, X: Any) -> Array:
        """Return (n, classes) probabilities, each of its class against all others: the guarantees cover these.

        Of two classes they are `predict_proba`; of more they need not sum to 1.
        """
        p = self._predicted(X)
        return p if p.shape[1] > 1 else self._both(p[:, 0])

    def predict(self, X: Any) -> Any:
        """Return the likeliest class."""
        p = self._predicted(X)
        return self.classes_[p.argmax(axis=1) if p.shape[1] > 1 else (p[:, 0] > 0.5).astype(np.intp)]

    def decide(self, X: Any, loss: "Loss | str") -> Decision:
        """Return the best action for each row under `loss`, at its issued level (mode "mean": at its mean).

        One fitted model serves every loss. The theorem of swap omniprediction is about levels issued by all rounds (see
        `SwapClassifier`), not about the mean.

        Examples
        --------
        >>> X = np.linspace(-2, 2, 2000).reshape(-1, 1)
        >>> y = np.random.default_rng(0).random(2000) < 1 / (1 + np.exp(-3 * X[:, 0]))
        >>> SwapClassifier(random_state=0).fit(X, y).decide([[-1.9], [1.9]], "newsvendor:under=3,over=1").action
        array([0., 1.])
        """
        if len(getattr(self, "classes_", ())) > 2:
            raise ValueError(
                f"decide: given a model of {len(self.classes_)} classes, expected two: losses are of 0 and 1"
            )
        if self._mode() == "mean":
            return decide(self._predicted(X)[:, 0], loss)
        return decide(self._issued(X)[0], loss, at="p")

    def explain(self, X: Any) -> "list[Any]":
        """Return each row's mean prediction as a sum of contributions, one for each column.

        ``mean = base + Σ amounts`` in probability, exactly; the mean is an average of levels, so no sum of log-odds
        would be. `base` is the prediction for a reference row: every number at its mean, no category, the estimator's
        score at its average log-odds. From there the row's values are revealed one after the other in up to eight
        orders, half of them the others backwards, and a contribution is the mean of what the value adds: the Shapley
        value where no more than two columns act together. What an estimator inside makes of a column is part of its
        score's contribution. A contribution describes the model, not what changing the column would do.

        Returns
        -------
        An `Explanation`, as of `Live`, for each row: of the probability of the second of two classes. Of more classes a
        dict for each row, from class to the explanation of its probability in `class_probabilities`.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = np.column_stack([rng.normal(size=4000), rng.integers(0, 2, 4000)])
        >>> y = rng.random(4000) < 1 / (1 + np.exp(2 - X[:, 0] - 3 * X[:, 1]))
        >>> model = SwapClassifier(groups=[1], correction="linear", random_state=0).fit(X, y)
        >>> why = model.explain([[0.5, 1.0]])[0]
        >>> [term.name for term in why.terms]
        ['column 1 = 1', 'column 0']
        >>> total = why.base + sum(term.amount for term in why.terms)
        >>> round(total - why.mean, 12), bool(why.mean == model.predict_proba([[0.5, 1.0]])[0, 1])
        (0.0, True)
        """
        explanations = self._explained(X)
        if len(explanations) == 1:
            return explanations[0]
        return [dict(zip(self.classes_.tolist(), row, strict=True)) for row in zip(*explanations, strict=True)]

    def _labels(self, y: ArrayLike, rows: int) -> Integers:
        """Return each row's place among the classes."""
        if y is None:
            raise ValueError("This SwapClassifier estimator requires y to be passed, but the target y is None.")
        column = outcome_column(y, rows, "class")
        refuse_mixed(column)
        assert_all_finite(column, input_name="y")
        check_classification_targets(column)
        self.classes_, labels = np.unique(column, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y: given one class only, {self.classes_.tolist()[0]!r}, expected two classes")
        return np.asarray(labels, np.int64)

    def _check_all_present(self, labels: Integers) -> None:
        if len(labels) < FEWEST_ROWS or len(np.unique(labels)) < len(self.classes_):
            few = "one class only" if len(self.classes_) == 2 else "some classes only"
            raise ValueError(f"y: given {few} among rows of positive weight, expected {_count(len(self.classes_))}")

    def _check_announced(self, classes: "ArrayLike | None") -> None:
        """Raise ValueError if a class of `classes` has no row, or a row's class is not among them."""
        if classes is None:
            return
        named, present = np.asarray(classes).tolist(), self.classes_.tolist()
        missing, unannounced = [c for c in named if c not in present], [c for c in present if c not in named]
        if missing:
            raise ValueError(f"y: given no row of class {missing[0]!r} in the first call, expected all classes")
        if unannounced:
            raise ValueError(f"y: given class {unannounced[0]!r}, expected one of classes={named}")

    def _targets(self, labels: Integers) -> list[Array]:
        """Return each model's target: whether the class is the second of two, or its own of many."""
        numbers = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return [np.asarray(labels == k, np.float64) for k in numbers]

    def _scored(self, X: Any) -> Array:
        known = list(self.estimator_.classes_)
        if sorted(known) != sorted(self.classes_):
            raise ValueError(f"estimator: given one fitted for classes {known}, expected {list(self.classes_)}")
        return self._as_scores(self.estimator_.predict_proba(X), [known.index(name) for name in self.classes_])

    def _as_scores(self, predictions: Any, order: "Sequence[int] | None" = None) -> Array:
        scores, count = np.asarray(predictions, np.float64), len(self.classes_)
        if scores.ndim != 2 or scores.shape[1] != count:
            raise ValueError(f"estimator: given probabilities of shape {scores.shape}, expected (rows, {count})")
        scores = scores if order is None else scores[:, order]
        return scores[:, 1:] if count == 2 else scores

    def _both(self, p: Array) -> Array:
        out = np.empty((len(p), 2))
        out[:, 1] = p
        np.subtract(1.0, p, out=out[:, 0])
        return out


def _count(classes: int) -> str:
    return "two classes" if classes == 2 else f"all {classes} classes"
