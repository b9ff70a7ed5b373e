"""`TableEstimator`: the common part of `SwapClassifier` and `SwapRegressor`."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from swapcal._validate import Span, refuse_masked
from swapcal.arrays import AnyArray, Array, Flags, Integers

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        'SwapClassifier, like SwapRegressor, needs scikit-learn: pip install "swapcal[sklearn]"', name="sklearn"
    ) from None
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv, cross_val_predict
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data
from threadpoolctl import ThreadpoolController  # scikit-learn brings it

from swapcal.batch.correction import probabilities
from swapcal.batch.explain import Attribution
from swapcal.batch.mixture import IssuedRows
from swapcal.batch.model import MODES, Model
from swapcal.batch.settings import FitSettings
from swapcal.engine.certificate import Certificate
from swapcal.engine.explanation import Explanation
from swapcal.features.encoder import EncodedTable
from swapcal.features.sources import HUGE, Name, Source, Sparse, columns_of, keys_of, named, opened, require
from swapcal.tables.frame import Table, batches_of, cluster_ids, columns_from, in_memory, is_table, made_frame
from swapcal.tables.values import is_missing

# The outcomes of a fit: y as one column with a value in every row.


def outcome_column(y: Any, rows: int, noun: str) -> AnyArray:
    """Return y as an array of one value per row of X; `noun` names a value in messages.

    Examples
    --------
    >>> outcome_column(["no", "yes", None], 3, "class")
    Traceback (most recent call last):
    ...
    ValueError: y: given None in row 3, expected a class
    """
    refuse_masked("y", y)
    column: AnyArray = column_or_1d(_as_objects_if_mixed(y), warn=True)
    if len(column) != rows:
        raise ValueError(f"y: given {len(column)} rows, expected {rows}, one per row of X")
    missing = np.flatnonzero(_are_missing(column))
    if missing.size:
        raise ValueError(f"y: given {column[missing[0]]} in row {missing[0] + 1}, expected a {noun}")
    return column


def clusters_or_groups(clusters: Any, groups: Any) -> Any:
    """Return the clusters, given under this name or scikit-learn's, groups. Raises ValueError if both are given."""
    if clusters is not None and groups is not None:
        raise ValueError("clusters: given with groups, which is scikit-learn's name for them, expected one of the two")
    return groups if clusters is None else clusters


def cluster_codes(clusters: Any, rows: int) -> "Integers | None":
    """Return a number from 0 for each row's cluster; None for no clusters.

    Examples
    --------
    >>> cluster_codes(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if clusters is None:
        return None
    refuse_masked("clusters", clusters)
    categories = cluster_ids("clusters", clusters, rows)
    if len(categories.names) < 2:
        raise ValueError("clusters: given one only, expected at least two")
    return categories.codes.astype(np.int64)


def refuse_mixed(y: AnyArray) -> None:
    """Raise ValueError for texts among other values: they have no order, and 1 is not "1"."""
    if y.dtype.kind != "O":
        return
    texts = np.array([isinstance(value, str) for value in y], bool)
    if texts.any() and not texts.all():
        row = int(np.flatnonzero(texts != texts[0])[0])
        raise ValueError(f"y: given {y[row]!r} in row {row + 1} after {y[0]!r}, expected classes of one type")


def _as_objects_if_mixed(y: Any) -> Any:
    """Return a list of texts and other values as objects: numpy alone would turn all into text."""
    if not isinstance(y, list | tuple):
        return y
    texts = sum(isinstance(value, str) for value in y)
    return _objects(y) if 0 < texts < len(y) else y


def _objects(values: Sequence[Any]) -> AnyArray:
    out = np.empty(len(values), object)
    out[:] = values
    return out


def _are_missing(y: AnyArray) -> Flags:
    if y.dtype.kind == "O":
        return np.array([is_missing(value) for value in y], bool)
    if y.dtype.kind in "mM":
        return np.asarray(np.isnat(y))
    return np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)


# scikit-learn brings it


FEWEST_ROWS = 2
SNAPSHOTS = 16
"""Snapshots kept unless their number is given: enough for the mean."""
FEW_ROWS = 64
ROW_OF: dict[str, Callable[[Any], tuple[list[str], Sequence[Any]]]] = {
    "pandas": lambda frame: (frame.columns.tolist(), [frame.iat[0, j] for j in range(frame.shape[1])]),
    "polars": lambda frame: (frame.columns, frame.row(0)),
    "pyarrow": lambda table: (table.column_names, [column[0].as_py() for column in table.columns]),
}
"""Names and values of a frame's first row, the quickest way each library has."""


class TableEstimator(BaseEstimator):  # type: ignore[misc]
    """One model per column of probabilities, all of the same rows."""

    METHOD = ""
    """The method of the inner estimator that is called: "predict_proba" or "predict"."""

    estimator: Any
    groups: "Sequence[Name] | None"
    contexts: "Sequence[Name] | None"
    mode: str
    target: str
    epsilon: "float | None"
    delta: float
    snapshots: "int | None"
    passes: int
    cv: Any
    ridge: "float | str"
    kappa: float
    n_jobs: "int | None"
    random_state: Any
    correction: str
    key: "Name | None"

    @property
    def model_(self) -> Model:
        """The model, if there is one only."""
        if not hasattr(self, "models_"):
            raise AttributeError(f"model_: given a {type(self).__name__} that is not fitted, expected one that is")
        if len(self.models_) > 1:
            raise AttributeError(f"model_: given {len(self.models_)} classes, expected two; models_ has one for each")
        model: Model = self.models_[0]
        return model

    @property
    def correction_(self) -> str:
        """How the score was corrected: "linear", "trees" or "none"; "auto" depends on the packages installed."""
        check_is_fitted(self)
        return str(self.models_[0].settings.correction)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = str(super().__repr__(N_CHAR_MAX))
        return f"{text} fitted with correction {self.correction_!r}" if hasattr(self, "models_") else text

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.estimator is None
        tags.input_tags.sparse = True
        tags.non_deterministic = self.mode == "sample"
        return tags

    @property
    def certificate_(self) -> Certificate:
        """Exact pseudo errors on the rows streamed, with their data-dependent and worst-case bounds."""
        check_is_fitted(self)
        return self.model_.certificate

    @property
    def certificates_(self) -> list[Certificate]:
        """The certificates of all models; of several classes, one for each."""
        check_is_fitted(self)
        return [model.certificate for model in self.models_]

    def feature_importances(self, X: Any, backend: str = "pandas") -> Any:
        """Return the mean of each column's |contribution| to the predictions of the rows of X.

        The contributions are those of `explain`, on the scale of the predictions; largest first, of several classes
        class by class. They describe this model on these rows. They are not effects: of two columns with the same
        information the model may use either, and changing a column in reality need not change the outcome.

        Parameters
        ----------
        X : rows to average over, for instance those of a test
        backend : "pandas", "polars", "pyarrow", or "dict" for a dict of lists
        """
        width = self._outcomes()[1] - self._outcomes()[0]
        lines: list[dict[str, Any]] = []
        for label, (attribution, rows, scores) in zip(self._labelled(), self._attributions(X), strict=True):
            mean = width * np.abs(attribution.contributions(rows, scores).amounts).mean(axis=0)
            for place in np.argsort(-mean, kind="stable").tolist():
                column = attribution.columns[place]
                lines.append(label | {"column": column.name, "kind": column.kind, "importance": float(mean[place])})
        names = [*(self._labelled()[0]), "column", "kind", "importance"]
        return made_frame(columns_from(lines, names), backend)

    def _labelled(self) -> list[dict[str, Any]]:
        """Return the columns that distinguish the models' lines of a table: none where there is one model."""
        return [{}] if len(self.models_) == 1 else [{"class": name} for name in self.classes_.tolist()]

    def _attributions(self, X: Any) -> "list[tuple[Attribution, EncodedTable, Array | None]]":
        """Return for each model its attribution, and the rows and scores as it reads them."""
        source, scores = self._opened(X)
        columns = [None] * len(self.models_) if scores is None else np.ascontiguousarray(scores.T)
        return [
            (Attribution(model), rows, column)
            for model, rows, column in zip(self.models_, self._coded(source), columns, strict=True)
        ]

    def _explained(self, X: Any) -> "list[list[Explanation]]":
        """Return for each model an explanation of every row."""
        span = Span(*self._outcomes())
        return [
            [why.in_units(span) for why in attribution.explanations(rows, scores)]
            for attribution, rows, scores in self._attributions(X)
        ]

    def export(self, path: "str | os.PathLike[str]") -> None:
        """Write the fitted model for use elsewhere: arrays at `path`, and `swapcal_predict.py` beside it.

        The script computes what mode "mean" predicts, with numpy alone. An estimator inside is not written: give the
        script its scores.
        """
        from swapcal.batch.export import export

        check_is_fitted(self)
        export(path, self.models_, classes=getattr(self, "classes_", None), outcomes=self._outcomes())

    def to_onnx(self, path: "str | os.PathLike[str]") -> None:
        """Write the predictions of mode "mean" as an ONNX graph; its inputs: `swapcal.batch.onnx.write_graph`."""
        from swapcal.batch.onnx import write_graph

        check_is_fitted(self)
        write_graph(path, self.models_, outcomes=self._outcomes())

    def _outcomes(self) -> tuple[float, float]:
        return 0.0, 1.0

    def _settings(self) -> FitSettings:
        self._mode()
        self._jobs()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return FitSettings(
            target=self.target,
            snapshots=SNAPSHOTS if self.snapshots is None else self.snapshots,
            passes=self.passes,
            ridge=self.ridge,
            kappa=self.kappa,
            epsilon=self.epsilon,
            delta=self.delta,
            seed=seed,
            correction=self.correction,
            log=self.snapshots is None and self.passes == 1 and self.mode != "mean",
        )

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the earlier fit if an exception is raised."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _mode(self) -> str:
        if self.mode not in MODES:
            raise ValueError(f"mode: given {self.mode!r}, expected one of {', '.join(MODES)}")
        return self.mode

    def _listed(self, role: str) -> "list[Name] | None":
        names = getattr(self, role)
        return None if names is None else named(role, names)

    def _source(self, X: Any, *, reset: bool) -> tuple[Source, Any]:
        """Return X as a source of columns and as the estimator takes it, after scikit-learn's checks."""
        source, X = self._checked(X, reset=reset)
        for role in ("groups", "contexts") if reset else ():
            for name in self._listed(role) or ():
                require(source, name)
                if name == self.key:
                    raise ValueError(f"{role}: given column {name!r}, which is the key, expected others")
        if self.key is not None:
            require(source, self.key)
        return source, X

    def _checked(self, X: Any, *, reset: bool) -> tuple[Source, Any]:
        (X,) = in_memory(X)
        refuse_masked("X", X)
        if _has_names(X) and (reset or self._is_named()):
            if reset:
                _check_not_empty(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
            return _table(X), X
        least = FEWEST_ROWS if reset else 1
        array = validate_data(
            self, X, reset=reset, dtype=np.float64, order="C", ensure_all_finite="allow-nan", ensure_min_samples=least,
            accept_sparse=("csr", "csc"),
        )  # fmt: skip
        if not hasattr(self, "feature_names_in_"):
            return self._reopen(array), array
        dense = array.toarray() if issparse(array) else array  # scikit-learn has warned that names are lacking
        return Table(dict(zip(self.feature_names_in_.tolist(), dense.T, strict=True))), array

    def _is_named(self) -> bool:
        """Return whether the fit had names of columns; scikit-learn keeps them if they are of type str."""
        columns = self.models_[0].features.columns
        return hasattr(self, "feature_names_in_") or any(isinstance(column.name, str) for column in columns)

    def _reopen(self, X: Any) -> Source:
        if issparse(X):
            return Sparse(X)
        return X if isinstance(X, np.ndarray) else Table(X)

    def _weights(self, sample_weight: "ArrayLike | None", source: Source) -> "Array | None":
        if sample_weight is None:
            return None
        refuse_masked("sample_weight", sample_weight)
        weight = _check_sample_weight(sample_weight, np.empty((len(source), 1)), dtype=np.float64)
        if (weight < 0.0).any() or not weight.any():
            raise ValueError(f"sample_weight: given a smallest of {weight.min()}, expected none negative, not all zero")
        return _rescaled(np.asarray(weight, np.float64))

    def _cross_fit(self, X: Any, y: Any, weight: "Array | None", clusters: "Integers | None" = None) -> "Array | None":
        """Fit the estimator unless it is; return scores (n, models) of rows it was not fitted on."""
        self.estimator_: Any = None
        if self.estimator is None:
            return None
        X = self._without_key(X)
        if not hasattr(self.estimator, self.METHOD):
            name, kind = type(self.estimator).__name__, "classifier" if self.METHOD == "predict_proba" else "regressor"
            raise TypeError(f"estimator: given {name} without {self.METHOD}, expected a {kind} with it")
        if isinstance(self.estimator, FrozenEstimator) or self.cv == "prefit":
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            return self._scored(X)
        weighted = weight is not None and has_fit_parameter(self.estimator, "sample_weight")
        extra = {"sample_weight": weight} if weighted else {}
        params = {"params": extra} if extra else {}
        cv = self._splits(X, y, clusters)
        held_out = cross_val_predict(
            clone(self.estimator), X, y, cv=cv, method=self.METHOD, n_jobs=self.n_jobs, **params
        )
        self.estimator_ = clone(self.estimator).fit(X, y, **extra)
        return self._as_scores(held_out)

    def _splits(self, X: Any, y: Any, clusters: "Integers | None") -> Any:
        """Return the folds of the estimator: a number of them keeps clusters whole, a splitter gets them as groups."""
        classifies = self.METHOD == "predict_proba"
        if clusters is None:
            return check_cv(self.cv, y, classifier=classifies)
        cv = (StratifiedGroupKFold if classifies else GroupKFold)(self.cv) if isinstance(self.cv, int) else self.cv
        return list(check_cv(cv, y, classifier=classifies).split(X, y, clusters))

    def _scores(self, X: Any) -> "Array | None":
        return None if self.estimator_ is None else self._scored(self._without_key(X))

    def _scored(self, X: Any) -> Array:
        """Return the scores of the estimator inside, which never sees the key."""
        raise NotImplementedError

    def _as_scores(self, predictions: Any) -> Array:
        raise NotImplementedError

    def _learn(self, source: Source, targets: "Sequence[Array]", scores: "Array | None", **known: Any) -> None:
        """Fit one model for each target."""
        settings, groups, columns = self._settings(), self._listed("groups") or [], self._contexts_of(source)
        with _blas().limit(limits=1, user_api="blas"):
            self.models_ = [
                Model.fit(
                    source,
                    y,
                    None if scores is None else np.ascontiguousarray(scores[:, k]),
                    groups=groups,
                    columns=columns,
                    settings=settings,
                    **known,
                )
                for k, y in enumerate(targets)
            ]

    def _contexts_of(self, source: Source) -> "list[Name] | None":
        """Return the columns to use, without the key."""
        named = self._listed("contexts")
        if named is not None or self.key is None:
            return named
        return [name for name in columns_of(source) if name != self.key]

    def _learn_more(self, source: Source, X: Any, targets: "Sequence[Array]", weight: "Array | None") -> None:
        scores, rows = self._scores(X), len(source)
        for column in () if scores is None else scores.T:
            probabilities(column)  # raises before any of several models has learned
        weight = np.ones(rows) if weight is None else weight * (rows / weight.sum())
        for k, (model, y) in enumerate(zip(self.models_, targets, strict=True)):
            model.learn_more(source, y, None if scores is None else np.ascontiguousarray(scores[:, k]), weight)

    def _opened(self, X: Any) -> "tuple[Source | EncodedTable, Array | None]":
        if not hasattr(self, "models_"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' first.")
        # The checks below cost more than a prediction; an array or a row that cannot fail them skips them.
        if self._is_float_array(X):
            X = np.ascontiguousarray(X)
            return X, self._scores(X)
        row = self._one_row(X)
        if row is not None:
            return row, self._scores(X)
        source, checked = self._source(X, reset=False)
        return source, self._scores(checked)

    def _is_float_array(self, X: Any) -> bool:
        is_floats = type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float64 and len(X) > 0
        return is_floats and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_")

    def _one_row(self, X: Any) -> "EncodedTable | None":
        """Return the encoded row of a frame with one row, the columns of the fit and ordinary values, else None."""
        if self.mode != "mean" or not hasattr(self, "feature_names_in_") or not self._encode_alike():
            return None
        library, names = type(X).__module__.partition(".")[0], self.feature_names_in_.tolist()
        if library not in ROW_OF or getattr(X, "shape", None) != (1, len(names)):
            return None
        columns, values = ROW_OF[library](X)
        if columns != names:
            return None
        encoded: EncodedTable | None = self.models_[0].features.encode_record(dict(zip(names, values, strict=True)))
        return encoded

    def _predicted(self, X: Any) -> Array:
        """Return (n, models) predictions in [0, 1], by `mode`; a lazy table's, batch by batch."""
        many = batches_of(X) if self.mode != "sample" else None  # its draws follow the rows of one call
        if many is not None:
            parts = [self._predicted(rows) for rows in many]
            if not parts:
                raise ValueError("rows: given none, expected at least one")
            return np.concatenate(parts)
        if self._mode() != "mean":
            return np.column_stack([issued.p for issued in self._issued(X)])
        source, scores = self._opened(X)
        coded, jobs = self._coded(source), self._jobs()
        columns = [
            model.mean(rows, None if scores is None else scores[:, k], jobs)
            for k, (model, rows) in enumerate(zip(self.models_, coded, strict=True))
        ]
        return columns[0][:, None] if len(columns) == 1 else np.column_stack(columns)

    def _encode_alike(self) -> bool:
        """Return whether the models of all classes encode rows equally: offsets of texts differ between models."""
        return len(self.models_) == 1 or not any(model.features.rated for model in self.models_)

    def _coded(self, source: "Source | EncodedTable") -> "list[EncodedTable]":
        """Return the rows as each model reads them."""
        if isinstance(source, EncodedTable):
            return [source] * len(self.models_)
        if self._encode_alike():
            return [self.models_[0].features.encode(source)] * len(self.models_)
        return [model.features.encode(source) for model in self.models_]

    def _jobs(self) -> int:
        given: Any = self.n_jobs
        if given is None:
            return 1
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or given == 0:
            raise ValueError(f"n_jobs: given {given!r}, expected None or an integer other than 0")
        return int(effective_n_jobs(given))

    def _issued(self, X: Any) -> list[IssuedRows]:
        source, scores = self._opened(X)
        assert not isinstance(source, EncodedTable)
        self._warn_of_snapshots()
        keys = None if self.key is None else keys_of(opened(source), self.key)
        if self.mode == "sample":
            words = check_random_state(self.random_state).randint(0, 2**32, (2, len(source)), dtype=np.uint64)
            keys = (words[0] << np.uint64(32)) | words[1]
        jobs = self._jobs()
        return [
            model.issue(source, None if scores is None else scores[:, k], keys, jobs)
            for k, model in enumerate(self.models_)
        ]

    def _warn_of_snapshots(self) -> None:
        if self.snapshots is None and not self.models_[0].settings.log:
            count = self.models_[0].settings.snapshots
            warnings.warn(
                f"mode: given {self.mode!r}, but only {count} snapshots were kept, which no theorem covers; fit in "
                "this mode, in one pass, to keep all rounds, or give snapshots= if these are meant",
                stacklevel=4,
            )

    def _without_key(self, X: Any) -> Any:
        """Return X as the estimator inside sees it: without the key."""
        if self.key is None or self.estimator is None:
            return X
        if _has_names(X):
            return nw.to_native(nw.from_native(X, eager_only=True).drop([str(self.key)]))
        place = self.feature_names_in_.tolist().index(self.key) if isinstance(self.key, str) else int(self.key)
        return X[:, [j for j in range(X.shape[1]) if j != place]]


@cache
def _blas() -> ThreadpoolController:
    """Return the controller that keeps BLAS to one thread while a model is fitted.

    Its matrices are small, and where other processes use the cores, threads wait for each other a hundred times as long
    as they work.
    """
    return ThreadpoolController()


def positive_weight_rows(
    X: Any, y: AnyArray, clusters: "Integers | None", weight: Array
) -> "tuple[Any, AnyArray, Integers | None, Array]":
    """Return the rows of positive weight."""
    positive = np.flatnonzero(weight > 0.0)
    some = None if clusters is None else cluster_codes(clusters[positive], len(positive))
    return _safe_indexing(X, positive), y[positive], some, weight[positive]


def _rescaled(weight: Array) -> Array:
    """Return weights scaled so that their sum and its inverse are finite; only their ratios matter."""
    largest = float(weight.max())
    if 1 / HUGE < largest < HUGE:
        return weight
    return np.asarray(np.ldexp(weight, -int(np.frexp(largest)[1])))


def _has_names(X: Any) -> bool:
    """Return whether X is a data frame whose columns are named by strings; others are read as arrays."""
    return not isinstance(X, dict) and is_table(X) and all(isinstance(name, str) for name in Table(X).columns)


def _check_not_empty(X: Any) -> None:
    rows, columns = len(X), len(Table(X).columns)
    if rows < FEWEST_ROWS or columns < 1:
        raise ValueError(
            f"X: given a frame of {rows} rows and {columns} columns, expected at least {FEWEST_ROWS} rows and 1 column"
        )


def _table(X: Any) -> Table:
    """Return the frame's columns; a few rows are taken out of it at once, which is faster than column by column."""
    if len(X) > FEW_ROWS:
        return Table(X)
    lists = nw.from_native(X, eager_only=True).to_dict(as_series=False)
    if any(isinstance(value, bool | np.bool_) for values in lists.values() for value in values):
        return Table(X)  # libraries spell truth values differently
    return Table({name: _array(values) for name, values in lists.items()})


def _array(values: list[Any]) -> AnyArray:
    numbers = all(isinstance(value, int | float) for value in values)
    return np.array(values, np.float64 if numbers else object)
