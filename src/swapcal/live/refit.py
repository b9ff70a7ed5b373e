"""`Refit`: any batch classifier as a model of `Live`, fitted again at growing intervals."""

import inspect
import math
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np

from swapcal import _validate, archive
from swapcal._display import counted
from swapcal.archive import (
    LIST,
    TEXTS,
    TRUTH,
    Field,
    Kind,
    Rule,
    Settings,
    Shapes,
    State,
    floats,
    is_text,
    listed,
    optional,
    parted,
    real,
    whole,
)
from swapcal.arrays import Array
from swapcal.tables.values import as_number, is_missing, text_of

# `Matrix`: records as rows of numbers for classifiers of numbers: categories are numbered as they appear.

SPARE = 256


class Matrix:
    """A table that grows by records; of `last` rows, if that is given, at least the latest are kept.

    Examples
    --------
    >>> matrix = Matrix()
    >>> matrix.append({"shop": "a", "price": 3.0})
    >>> matrix.append({"shop": "b"})
    >>> matrix.between(0, 2, 2).tolist(), matrix.rows([{"shop": "b", "price": 1}, {"shop": "c"}], [2]).tolist()
    ([[0.0, 3.0], [1.0, nan]], [[1.0], [nan]])
    """

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self.codes: dict[str, dict[str, int]] = {}
        """of each column's categories; the columns in order of appearance"""
        self.dropped = 0
        """rows that are no longer kept"""
        self._table: Array = np.zeros((0, 0))
        self._size = 0

    @property
    def width(self) -> int:
        """Number of columns so far."""
        return len(self.codes)

    def __len__(self) -> int:
        return self.dropped + self._size

    def append(self, record: Mapping[str, Any]) -> None:
        """Enter a record, with its new columns and categories."""
        learned = {name: self._learned(str(name), value) for name, value in record.items()}
        if self._size == len(self._table) or self.width > self._table.shape[1]:
            self._make_room()
        row = self._table[self._size]
        for j, name in enumerate(self.codes):
            row[j] = learned.get(name, math.nan)
        self._size += 1

    def _learned(self, name: str, value: Any) -> float:
        codes = self.codes.setdefault(name, {})
        if _is_category(value):
            codes.setdefault(text_of(value), len(codes))
        return _number(value, codes, len(codes))

    def _make_room(self) -> None:
        spare = 0 if self.last is None else max(0, self._size - self.last)
        old = self._table[spare : self._size]
        self.dropped += spare
        self._size -= spare
        self._table = np.full((2 * len(old) + SPARE, self.width), np.nan)
        self._table[: len(old), : old.shape[1]] = old

    def between(self, first: int, end: int, width: int) -> Array:
        """Return rows by their numbers from the beginning, without the dropped ones; the first `width` columns."""
        return self._table[max(0, first - self.dropped) : end - self.dropped, :width].copy()

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each column so far."""
        return tuple(map(len, self.codes.values()))

    def rows(self, records: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> Array:
        """Return records as rows with columns of these numbers of categories; later categories are missing values."""
        out = np.full((len(records), len(sizes)), np.nan)
        for j, ((name, codes), size) in enumerate(zip(self.codes.items(), sizes, strict=False)):
            out[:, j] = [_number(record.get(name), codes, size) for record in records]
        return out

    @classmethod
    def restored(cls, last: int | None, codes: Mapping[str, Sequence[str]], dropped: int, table: Array) -> "Matrix":
        """Return a matrix with these categories and rows."""
        matrix = cls(last)
        matrix.codes = {name: {text: k for k, text in enumerate(texts)} for name, texts in codes.items()}
        matrix.dropped, matrix._table, matrix._size = dropped, np.array(table), len(table)
        return matrix


def _is_category(value: Any) -> bool:
    return not is_missing(value) and (isinstance(value, str) or as_number(value) is None)


def _number(value: Any, codes: Mapping[str, int], size: int) -> float:
    if type(value) is float:
        return value
    if is_missing(value):
        return math.nan
    if _is_category(value):
        code = codes.get(text_of(value), size)
        return float(code) if code < size else math.nan
    number = as_number(value)
    return math.nan if number is None else float(number)


# `Refit`: any batch classifier as a model of `Live`, fitted again at growing intervals.

AHEAD = 4096  # rows forecast by one call of the classifier
BACKGROUND_SHARE = 20  # a fit in the background is used once a twentieth more has been learned


class Fits(NamedTuple):
    """Costs of fitting so far."""

    fits: int
    rows: int
    """on which the present classifier was fitted"""
    seconds: float
    """of fitting; in the background, not of waiting"""


class RefitPlan(NamedTuple):
    """One fit."""

    rows: int
    sizes: tuple[int, ...]
    """numbers of categories of the columns at that time"""
    used_from: int
    """number of labels at which it is used"""


class Refit:
    """A classifier fitted on all rows learned so far, or the last of them, at 500, 600, 720, … labels.

    Before the first fit, and while only one class was seen, it forecasts the rate of known labels. A new fit is used
    at once; a fit in the background is used when a twentieth more labels were learned, if necessary after waiting for
    it. The fit in use depends only on the number of labels, so a replayed stream has the same forecasts.

    Parameters
    ----------
    estimator : with `fit` and `predict_proba`, of scikit-learn, LightGBM or like them; it is cloned, not changed. Give
        it a `random_state` for reproducible runs. Numbers are passed on unchanged, missing values as NaN, and
        categories as numbers in order of appearance; for HistGradientBoosting and LightGBM these columns are declared
        as categorical, unless the estimator declares its own.
    first, growth : number of labels at the first fit, and the factor from one to the next.
    last : rows to fit on, the latest; by default all.
    background : fit in another thread while forecasts go on.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from swapcal import Live
    >>> live = Live(models={"trees": Refit(HistGradientBoostingClassifier(max_iter=5, random_state=0), first=50)})
    >>> forecasts = live.run([{"a": k % 7, "b": k % 3} for k in range(100)], [k % 7 * (k % 3) % 2 for k in range(100)])
    >>> live.models["trees"].status().fits
    4
    """

    def __init__(
        self,
        estimator: Any,
        *,
        first: int = 500,
        growth: float = 1.2,
        last: int | None = None,
        background: bool = False,
    ) -> None:
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict_proba")):
            raise TypeError(f"estimator: given {type(estimator).__name__}, expected fit and predict_proba")
        if not 1.0 < growth < math.inf:
            raise ValueError(f"growth: given {growth!r}, expected a number above 1")
        self.estimator = estimator
        self.first = _validate.count("first", first)
        self.growth = float(growth)
        self.last = None if last is None else _validate.count("last", last)
        self.background = background
        self._matrix = Matrix(self.last)
        self._y: list[float] = []
        self._ones = 0.0
        self._next = self.first
        self._plan: RefitPlan | None = None
        self._fitted: Any = None
        self._next_plan: RefitPlan | None = None
        self._future: Future[tuple[Any, float]] | None = None
        self._fits, self._seconds = 0, 0.0
        self._announced: list[Mapping[str, Any]] = []
        self._turn = 0
        self._ahead: dict[int, float] = {}
        """forecasts of announced records by the present classifier, by turn"""

    @property
    def labels(self) -> int:
        """Number of labels learned."""
        return len(self._matrix)

    def status(self) -> Fits:
        """Return the number of fits, their rows and their time."""
        return Fits(self._fits, 0 if self._plan is None else self._plan.rows, self._seconds)

    def __repr__(self) -> str:
        return f"Refit({type(self.estimator).__name__}; {self._about()})"

    def _about(self) -> str:
        fits, rows, _ = self.status()
        latest = (
            f", the latest on {counted(rows, 'label')}" if fits else f", the first at {counted(self.first, 'label')}"
        )
        return f"{counted(self.labels, 'label')}, {counted(fits, 'fit')}{latest}"

    def announce(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Announce the records that will be forecast next, in order, so that one call can forecast many."""
        self._announced, self._turn, self._ahead = [*records], 0, {}

    def forecast(self, record: Mapping[str, Any], keys: Any = None, values: Any = None) -> float:
        """Return a probability for one record."""
        turn = self._turn
        announced = self._announced[turn : turn + 1] and self._announced[turn] is record
        self._turn += bool(announced)
        if self._fitted is None:
            return (self._ones + 0.5) / (self.labels + 1.0)
        if not announced:
            return float(self._predict([record])[0])
        if turn not in self._ahead:
            self._ahead = dict(enumerate(self._predict(self._announced[turn : turn + AHEAD]).tolist(), turn))
        return self._ahead[turn]

    def _predict(self, records: Sequence[Mapping[str, Any]]) -> Array:
        assert self._plan is not None, "a classifier was fitted"
        predicted = self._fitted.predict_proba(self._matrix.rows(records, self._plan.sizes))
        where = [float(c) for c in self._fitted.classes_].index(1.0)
        chances: Array = np.clip(np.nan_to_num(np.asarray(predicted, np.float64)[:, where], nan=0.5), 0.0, 1.0)
        return chances

    def learn(self, record: Mapping[str, Any], keys: Any, values: Any, y: float) -> None:
        """Enter a label, and refit if it is time."""
        self._matrix.append(record)
        self._y.append(float(y >= 0.5))
        self._y = self._y[-self.last :] if self.last is not None and len(self._y) > 2 * self.last else self._y
        self._ones += y
        if self._next_plan is not None and self.labels >= self._next_plan.used_from:
            self._switch()
        if self.labels >= self._next:
            self._begin()

    def _begin(self) -> None:
        n = self.labels
        self._next = max(n + 1, math.ceil(self.growth * n))
        later = max(1, n // BACKGROUND_SHARE) if self.background else 0
        self._next_plan = RefitPlan(n, self._matrix.sizes, min(n + later, self._next))
        self._start()
        if not self.background:
            self._switch()

    def _start(self) -> None:
        """Fit the next classifier, here or in another thread."""
        assert self._next_plan is not None, "a fit was started"
        self._future = Future()
        table = *self._table(self._next_plan), self._next_plan.sizes
        if self.background:
            pool = ThreadPoolExecutor(1)
            self._future = pool.submit(_fit, self.estimator, *table)
            pool.shutdown(wait=False)
        else:
            self._future.set_result(_fit(self.estimator, *table))

    def _table(self, plan: RefitPlan) -> tuple[Array, Array]:
        """Return the rows and labels of a fit, as far back as they are kept."""
        n = plan.rows
        X = self._matrix.between(0 if self.last is None else max(0, n - self.last), n, len(plan.sizes))
        end = len(self._y) - (self.labels - n)
        return X, np.array(self._y[end - len(X) : end])

    def _switch(self) -> None:
        """Switch to the new classifier, and drop forecasts that the old one made in advance."""
        assert self._future is not None, "a fit was started"
        fitted, seconds = self._future.result()
        if fitted is not None:
            self._fitted, self._plan = fitted, self._next_plan
            self._fits += 1
            self._ahead = {}
        self._seconds += seconds
        self._next_plan, self._future = None, None

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the rows and the plan of fits; `load` fits again, so only numbers are stored."""
        n = min(len(self._y), len(self._matrix) - self._matrix.dropped)
        table = self._matrix.between(self.labels - n, self.labels, self._matrix.width)
        own = {"first": self.first, "growth": self.growth, "last": self.last, "background": self.background}
        counts = {"labels": self.labels, "ones": self._ones, "next": self._next, "fits": self._fits}
        codes = [[name, [*known]] for name, known in self._matrix.codes.items()]
        fits = {"speaking": self._plan, "coming": self._next_plan, "seconds": self._seconds}
        manifest = {"settings": own, "counts": counts, "codes": codes, "plan": fits}
        archive.write(path, FILE, {"rows": table, "y": np.array(self._y[len(self._y) - n :])}, manifest)

    @classmethod
    def load(cls, path: "str | os.PathLike[str]", estimator: Any) -> Self:
        """Return the model that `save` wrote, with `estimator`, which must be an equal one, fitted on the same rows."""
        return archive.load(path, FILE, lambda state: cls._restored(state, estimator))

    @classmethod
    def _restored(cls, state: State, estimator: Any) -> Self:
        arrays, manifest = state
        settings, counts, plan = manifest["settings"], manifest["counts"], manifest["plan"]
        refit = cls(estimator, **settings)
        dropped = counts["labels"] - len(arrays["y"])
        refit._matrix = Matrix.restored(refit.last, dict(manifest["codes"]), dropped, arrays["rows"])
        refit._y, refit._ones, refit._next = arrays["y"].tolist(), counts["ones"], counts["next"]
        refit._fits, refit._seconds = counts["fits"], plan["seconds"]
        if plan["speaking"] is not None:
            refit._plan = _planned(plan["speaking"])
            refit._fitted = _fit(estimator, *refit._table(refit._plan), refit._plan.sizes)[0]
        if plan["coming"] is not None:
            refit._next_plan = _planned(plan["coming"])
            refit._start()
        return refit


def _planned(saved: Sequence[Any]) -> RefitPlan:
    return RefitPlan(saved[0], tuple(saved[1]), saved[2])


def _fit(estimator: Any, X: Array, y: Array, sizes: Sequence[int]) -> tuple[Any, float]:
    """Return a fitted copy and the seconds it took; None where there is only one class."""
    from sklearn.base import clone

    if y.min() == y.max():
        return None, 0.0
    start = time.perf_counter()
    fresh = clone(estimator)
    categories = _declare_categories(fresh, X, sizes)
    X[:, np.isnan(X).all(axis=0)] = 0.0  # some classifiers cannot bin a column without values
    return fresh.fit(X, y, **categories), time.perf_counter() - start


def _declare_categories(estimator: Any, X: Array, sizes: Sequence[int]) -> dict[str, Any]:
    """Set HistGradientBoosting's categorical columns, unless they are set; return the arguments of LightGBM's `fit`."""
    knobs = estimator.get_params()
    own = knobs.get("categorical_features", "no such knob")
    if own is None or (isinstance(own, str) and own == "from_dtype"):
        estimator.set_params(categorical_features=_categories(X, sizes, knobs["max_bins"]) or None)
    elif "categorical_feature" in inspect.signature(estimator.fit).parameters and "categorical_feature" not in knobs:
        return {"categorical_feature": _categories(X, sizes)}
    return {}


def _categories(X: Array, sizes: Sequence[int], most: float = math.inf) -> list[int]:
    """Return the columns with the numbers of at most `most` categories and no other numbers."""
    columns = ((j, size, X[~np.isnan(X[:, j]), j]) for j, size in enumerate(sizes) if 0 < size <= most)
    return [j for j, size, held in columns if ((held >= 0) & (held < size) & (held == np.floor(held))).all()]


COUNT = whole(0, archive.MOST_COUNT)
SETTINGS = {"first": whole(1), "growth": real(1, above=True), "last": optional(whole(1)), "background": TRUTH}
COUNTS = {"labels": COUNT, "ones": real(0), "next": whole(1), "fits": COUNT}
CODES = Rule("[name, categories]", lambda v: LIST.holds(v) and len(v) == 2 and is_text(v[0]) and TEXTS.holds(v[1]))
PLAN = Rule(
    "[rows, sizes, label]", lambda v: LIST.holds(v) and len(v) == 3 and listed(COUNT).holds([v[0], v[2], *v[1]])
)
PLANS = {"speaking": optional(PLAN), "coming": optional(PLAN), "seconds": real(0)}
RULES = {"settings": parted(SETTINGS), "counts": parted(COUNTS), "codes": listed(CODES), "plan": parted(PLANS)}


def fields(settings: Settings, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a file."""
    return {"rows": floats("rows", len(settings["codes"]), finite=False), "y": floats("rows", least=0, most=1)}


FILE = Kind("refit", 1, RULES, fields)
