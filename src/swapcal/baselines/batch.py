"""Batch baselines: ``fit(p, X, y)``, then ``predict(p, X)``; and recalibrations of a score."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from swapcal._display import counted
from swapcal.arrays import Array, Places
from swapcal.kernels.tally import FLOOR

# The standard recalibrations of a score: isotonic regression, a sigmoid, logistic regression.

STEPS = 50
"""Largest number of Newton steps; a few are enough."""


class Isotonic:
    """Least squares over monotone functions of the score, linear between the scores seen.

    Examples
    --------
    >>> Isotonic().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]).predict([0.1, 0.25, 0.9])
    array([0. , 0.5, 1. ])
    """

    def __init__(self) -> None:
        self._at, self._values = np.array([0.0, 1.0]), np.array([0.0, 1.0])

    def fit(self, p: ArrayLike, y: ArrayLike) -> Self:
        """Learn from scores (n,) in [0, 1] and outcomes (n,)."""
        scores, back = np.unique(np.asarray(p, dtype=np.float64), return_inverse=True)
        weight = np.bincount(back).astype(np.float64)
        means = np.bincount(back, weights=np.asarray(y, dtype=np.float64)) / weight
        self._at, self._values = scores, np.clip(isotonic_regression(means, weights=weight).x, 0.0, 1.0)
        return self

    def predict(self, p: ArrayLike) -> Array:
        """Return recalibrated scores (n,)."""
        scores: Array = np.interp(np.asarray(p, dtype=np.float64), self._at, self._values)
        return scores

    def __repr__(self) -> str:
        return f"Isotonic({len(self._at):,} scores)"


class Sigmoid:
    """Logistic regression on the score's log-odds (Platt), which can leave the score as it is.

    Examples
    --------
    >>> y = np.repeat([0, 1, 0, 1], [80, 20, 20, 80])
    >>> Sigmoid().fit(np.repeat([0.4, 0.6], 100), y).predict([0.4, 0.6]).round(2)
    array([0.2, 0.8])
    """

    PENALTY = 0.01
    """Weight of ‖b − (0, 1)‖²/2: with few rows it stays near the score as given."""

    def __init__(self) -> None:
        self._b = np.array([0.0, 1.0])

    def fit(self, p: ArrayLike, y: ArrayLike) -> Self:
        """Learn from scores (n,) in [0, 1] and outcomes (n,)."""
        self._b = _newton(_design(p), np.asarray(y, dtype=np.float64), np.array([0.0, 1.0]), np.full(2, self.PENALTY))
        return self

    def predict(self, p: ArrayLike) -> Array:
        """Return recalibrated scores (n,)."""
        probabilities: Array = expit(_design(p) @ self._b)
        return probabilities

    def __repr__(self) -> str:
        return f"Sigmoid(log-odds {self._b[0]:+.3g} {self._b[1]:+.3g} × those of the score)"


class LogisticRegression:
    """Ridge logistic regression on the score's log-odds and other columns, encoded as numbers.

    Examples
    --------
    >>> X = np.repeat([[0.0], [1.0]], 100, axis=0)
    >>> y = np.repeat([0, 1, 0, 1], [80, 20, 20, 80])
    >>> LogisticRegression().fit(np.full(200, 0.5), X, y).predict([0.5, 0.5], [[0.0], [1.0]]).round(2)
    array([0.22, 0.78])
    """

    PENALTY = 1.0
    """Weight of ‖b‖²/2 on the columns, scikit-learn's default; the score's has that of `Sigmoid`."""

    def __init__(self) -> None:
        self._b = np.array([0.0, 1.0])

    def fit(self, p: ArrayLike, X: Array, y: ArrayLike) -> Self:
        """Learn from scores (n,) in [0, 1], columns (n, d) and outcomes (n,)."""
        start = np.zeros(2 + np.shape(X)[1])
        start[1] = 1.0
        penalty = np.r_[np.full(2, Sigmoid.PENALTY), np.full(np.shape(X)[1], self.PENALTY)]
        self._b = _newton(np.column_stack([_design(p), X]), np.asarray(y, dtype=np.float64), start, penalty)
        return self

    def predict(self, p: ArrayLike, X: ArrayLike) -> Array:
        """Return probabilities (n,)."""
        probabilities: Array = expit(np.column_stack([_design(p), np.asarray(X, dtype=np.float64)]) @ self._b)
        return probabilities

    def __repr__(self) -> str:
        return f"LogisticRegression({len(self._b) - 2:,} columns beside the score)"


def _newton(X: Array, y: Array, start: Array, penalty: Array) -> Array:
    """Minimise the log loss plus Σ penalty·(b − start)²/2."""
    b = start.copy()
    for _ in range(STEPS):
        p = expit(X @ b)
        gradient = X.T @ (p - y) + penalty * (b - start)
        curvature = (X * (p * (1.0 - p))[:, None]).T @ X + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        b = b - step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-9:
            break
    return b


def _design(p: ArrayLike) -> Array:
    odds = logit(np.clip(np.asarray(p, dtype=np.float64), FLOOR, 1.0 - FLOOR))
    return np.column_stack([np.ones(len(odds)), odds])


# What every batch baseline checks before it starts.


def checked(p: ArrayLike, X: ArrayLike, y: ArrayLike | None = None) -> tuple[Array, Array, Array]:
    """Return private copies of predictions (n,) in [0, 1], rows (n, d) and labels (n,), zeros if there are none."""
    scores, rows = np.array(p, dtype=np.float64), np.asarray(X, dtype=np.float64)
    labels = np.zeros(len(scores)) if y is None else np.array(y, dtype=np.float64)
    if rows.ndim != 2 or scores.shape != (len(rows),) or labels.shape != (len(rows),):
        raise ValueError(f"rows: given p {scores.shape}, X {rows.shape}, y {labels.shape}, expected (n,), (n, d), (n,)")
    for name, values in (("p", scores), ("y", labels)):
        bad = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
        if bad.size:
            raise ValueError(f"{name}: given {values[bad[0]]} in row {bad[0] + 1}, expected numbers in [0, 1]")
    if not np.isfinite(rows).all():
        raise ValueError("X: given a value that is not finite, expected numbers")
    return scores, rows, labels


def row_products(X: Array, theta: Array) -> Array:
    """Return ⟨x, θ⟩ of every row, added column by column.

    A matrix product adds in an order that depends on the number of rows; a level decided by the last bit would then
    differ between one row and many.

    Examples
    --------
    >>> row_products(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 0.25]))
    array([1. , 2.5])
    """
    total = np.zeros(len(X))
    for column, weight in zip(X.T, theta, strict=True):
        total += column * weight
    return total


# Multicalibration by patching cells (Hébert-Johnson, Kim, Reingold, Rothblum 2018).


class Patch(NamedTuple):
    """Add `shift` to the predictions of a group's rows that lie in a bucket."""

    group: int
    bucket: int
    shift: float


class HKRR:
    """Find a group × bucket whose mean residual exceeds α, shift it there, repeat until none is left.

    A cell is the set {x in group g : p(x) in bucket b}. Each patch lowers the squared error by at least
    mass · gap² ≥ γα², so there are at most 1/(γα²) of them. On the data it was fitted on, the result satisfies
    |mean of y - p| ≤ α on every cell of mass at least γ. Of all violating cells, the one with the largest mass · gap²
    goes first. Fit it on rows that the base model did not see.

    Parameters
    ----------
    alpha : largest mean residual tolerated.
    buckets : number of equally wide buckets of predictions.
    gamma : smallest share of the rows that makes a cell count.
    most : patches, at most.

    Examples
    --------
    >>> G = np.array([[1.0, 1.0], [1.0, 0.0]] * 500)
    >>> y = np.array([1.0, 0.0] * 500)
    >>> model = HKRR(alpha=0.01).fit(np.full(1000, 0.5), G, y)
    >>> model.predict([0.5, 0.5], [[1, 1], [1, 0]])
    array([1., 0.])
    """

    def __init__(self, *, alpha: float = 0.05, buckets: int = 10, gamma: float = 0.002, most: int = 10_000) -> None:
        self.alpha, self.buckets, self.gamma, self.most = alpha, buckets, gamma, most
        self.patches: list[Patch] = []

    def __repr__(self) -> str:
        return f"HKRR(alpha={self.alpha:g}, buckets={self.buckets}; {len(self.patches):,} patches)"

    def fit(self, p: ArrayLike, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the patches.

        Parameters
        ----------
        p, y : (n,) predictions in [0, 1] and labels
        X : (n, groups) memberships, 0 or 1
        """
        p, G, y = memberships(p, X, y)
        self.patches = []
        b = self._bucket(p)
        mass, gap = np.zeros((G.shape[1], self.buckets)), np.zeros((G.shape[1], self.buckets))
        self._count(mass, gap, G, b, y - p, 1.0)
        while len(self.patches) < self.most and (patch := self._worst(mass, gap, len(y))) is not None:
            rows = np.flatnonzero(G[:, patch.group] * (b == patch.bucket))
            self._count(mass, gap, G[rows], b[rows], y[rows] - p[rows], -1.0)
            p[rows] = np.clip(p[rows] + patch.shift, 0.0, 1.0)
            b[rows] = self._bucket(p[rows])
            self._count(mass, gap, G[rows], b[rows], y[rows] - p[rows], 1.0)
            self.patches.append(patch)
        return self

    def predict(self, p: ArrayLike, X: ArrayLike) -> Array:
        """Return the patched predictions."""
        p, G, _ = memberships(p, X)
        members = [np.flatnonzero(column) for column in G.T]
        for group, bucket, shift in self.patches:
            rows = members[group]
            rows = rows[self._bucket(p[rows]) == bucket]
            p[rows] = np.clip(p[rows] + shift, 0.0, 1.0)
        return p

    def _bucket(self, p: Array) -> Places:
        return np.minimum((p * self.buckets).astype(np.intp), self.buckets - 1)

    def _count(self, mass: Array, gap: Array, G: Array, b: Places, residual: Array, sign: float) -> None:
        """Add rows to, or take them from, the number and the summed residual of every cell."""
        for bucket in np.unique(b):
            here = b == bucket
            mass[:, bucket] += sign * G[here].sum(axis=0)
            gap[:, bucket] += sign * (residual[here] @ G[here])

    def _worst(self, mass: Array, gap: Array, rows: int) -> Patch | None:
        """Return the patch that lowers the squared error most, among cells heavy and wrong enough."""
        heavy = mass >= max(1.0, self.gamma * rows)
        mean = np.where(heavy, gap / np.maximum(mass, 1.0), 0.0)
        gain = np.where(np.abs(mean) > self.alpha, mass * mean**2, 0.0)
        group, bucket = np.unravel_index(int(np.argmax(gain)), gain.shape)
        return Patch(int(group), int(bucket), float(mean[group, bucket])) if gain[group, bucket] > 0.0 else None


def memberships(p: ArrayLike, X: ArrayLike, y: ArrayLike | None = None) -> tuple[Array, Array, Array]:
    """Return the checked predictions, 0-1 memberships and labels."""
    p, G, labels = checked(p, X, y)
    if not np.isin(G, (0.0, 1.0)).all():
        raise ValueError("X: given values other than 0 and 1, expected group memberships")
    return p, G, labels


# Level-set boosting (Globus-Harris, Harrison, Kearns, Roth, Sorrell 2023).


class Regression(Protocol):
    """A fitted weak learner."""

    def predict(self, X: Array) -> Array:
        """Return real predictions of the rows."""


class Linear:
    """Least squares with a constant; the penalty is there for columns that coincide.

    Examples
    --------
    >>> Linear().fit(np.array([[0.0], [1.0]]), np.array([0.0, 2.0])).predict(np.array([[3.0]])).round(3)
    array([6.])
    """

    penalty = 1e-6

    def fit(self, X: Array, y: Array) -> Self:
        """Fit to rows X (n, d) and targets y (n,)."""
        self._centre, self._mean = X.mean(axis=0), float(y.mean())
        Z = X - self._centre
        G = Z.T @ Z + self.penalty * len(X) * np.eye(X.shape[1])
        self._theta: Array = np.linalg.solve(G, Z.T @ (y - self._mean))
        return self

    def predict(self, X: Array) -> Array:
        """Return predictions (n,)."""
        return row_products(X - self._centre, self._theta) + self._mean


def tree(depth: int = 3, smallest: int = 50) -> Any:
    """Return a regression tree; needs scikit-learn."""
    from sklearn.tree import DecisionTreeRegressor

    return DecisionTreeRegressor(max_depth=depth, min_samples_leaf=smallest, random_state=0)


class LSBoost:
    """On each level set {f = v} regress y on x, predict by these regressions, round to the levels, repeat.

    It stops when the squared error, on a quarter of the rows set aside, falls by less than `tolerance`. If the weak
    learner finds the best function of a class closed under affine maps, a stop means that f is multicalibrated
    against that class on the level sets; if moreover the class satisfies weak learning, f is Bayes optimal.

    Parameters
    ----------
    learner : "linear" or "tree".
    levels : m; predictions are rounded to 0, 1/m, …, 1.
    tolerance : least decrease of the mean squared error that justifies another round.
    smallest : level sets with fewer rows keep their value.
    held_out : share of the rows that only decide when to stop; 0 uses the same rows for both.
    most : rounds, at most.

    Examples
    --------
    >>> x = np.random.default_rng(0).uniform(-1, 1, (4000, 1))
    >>> model = LSBoost("linear").fit(np.full(4000, 0.5), x, 0.5 + 0.4 * x[:, 0])
    >>> model.predict([0.5, 0.5], [[-1.0], [1.0]])
    array([0.1, 0.9])
    """

    def __init__(
        self,
        learner: str = "linear",
        *,
        levels: int = 20,
        tolerance: float = 1e-4,
        smallest: int = 50,
        held_out: float = 0.25,
        most: int = 100,
    ) -> None:
        if learner not in ("linear", "tree"):
            raise ValueError(f'learner: given {learner!r}, expected "linear" or "tree"')
        self.learner, self.levels, self.tolerance = learner, levels, tolerance
        self.smallest, self.held_out, self.most = smallest, held_out, most
        self.rounds: list[dict[int, Regression]] = []

    def __repr__(self) -> str:
        return f"LSBoost({self.learner!r}, levels={self.levels}; {counted(len(self.rounds), 'round')})"

    def fit(self, p: ArrayLike, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the rounds from predictions p (n,), rows X (n, d) and labels y (n,)."""
        p, rows, labels = checked(p, X, y)
        judge = np.random.default_rng(0).random(len(p)) < self.held_out
        judge, learn = (judge, ~judge) if self.held_out > 0.0 else (np.ones(len(p), bool), np.ones(len(p), bool))
        f, self.rounds = self._round(p), []
        error = float(np.mean((f[judge] / self.levels - labels[judge]) ** 2))
        while len(self.rounds) < self.most:
            round_ = self._learn(f[learn], rows[learn], labels[learn])
            f = self._apply(round_, f, rows)
            last, error = error, float(np.mean((f[judge] / self.levels - labels[judge]) ** 2))
            if last - error < self.tolerance:
                break
            self.rounds.append(round_)
        return self

    def predict(self, p: ArrayLike, X: ArrayLike) -> Array:
        """Return predictions on the levels i/m."""
        p, rows, _ = checked(p, X)
        f = self._round(p)
        for round_ in self.rounds:
            f = self._apply(round_, f, rows)
        return f / self.levels

    def _learn(self, f: Places, X: Array, y: Array) -> dict[int, Regression]:
        regressions: dict[int, Regression] = {}
        for level in np.unique(f):
            here = f == level
            if here.sum() >= self.smallest:
                blank = Linear() if self.learner == "linear" else tree()
                regressions[int(level)] = blank.fit(X[here], y[here])
        return regressions

    def _apply(self, round_: dict[int, Regression], f: Places, X: Array) -> Places:
        moved = f.copy()
        for level, regression in round_.items():
            here = np.flatnonzero(f == level)
            if here.size:
                moved[here] = self._round(np.clip(regression.predict(X[here]), 0.0, 1.0))
        return moved

    def _round(self, p: Array) -> Places:
        return np.rint(p * self.levels).astype(np.intp)


# Swap agnostic learning by boosting inside levels (Gopalan, Kim, Reingold 2023).


class Step(NamedTuple):
    """Add ⟨theta, x⟩ to the predictions that lie in a level."""

    level: int
    theta: Array


class SwapAgnostic:
    """Audit each level with a weak learner; where it correlates with the residual, move the predictions along it.

    The weak learner is exact over the linear functions c(x) = ⟨θ,x⟩, ‖θ‖ ≤ 1, on rows scaled into the unit ball beside
    a constant: the best correlation with the residual on level v is ‖E[(y - p)x | v]‖. The step along it that lowers
    the level's mean squared error most lowers it by at least the square of the correlation, because E[c²] ≤ 1. It stops
    when no level of mass at least γ correlates by more than α, which is swap multicalibration against this class, up to
    the width of the levels.

    Parameters
    ----------
    alpha : largest correlation tolerated.
    levels : number of equally wide levels.
    gamma : smallest share of the rows that makes a level count.
    most : steps, at most.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 400)[:, None]
    >>> p, truth = np.full(400, 0.5), 0.5 + 0.4 * x[:, 0]
    >>> model = SwapAgnostic(alpha=0.01).fit(p, x, truth)
    >>> bool(abs(model.predict(p, x) - truth).mean() < 0.05 < abs(p - truth).mean())
    True
    """

    def __init__(self, *, alpha: float = 0.005, levels: int = 20, gamma: float = 0.002, most: int = 5000) -> None:
        self.alpha, self.levels, self.gamma, self.most = alpha, levels, gamma, most
        self.steps: list[Step] = []
        self._scale = 1.0

    def __repr__(self) -> str:
        return f"SwapAgnostic(alpha={self.alpha:g}, levels={self.levels}; {counted(len(self.steps), 'step')})"

    def fit(self, p: ArrayLike, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the steps from predictions p (n,), rows X (n, d) and labels y (n,)."""
        p, rows, labels = checked(p, X, y)
        self._scale = float(np.sqrt(0.75) / max(np.linalg.norm(rows, axis=1).max(initial=0.0), 1e-12))
        C, self.steps = self._contexts(rows), []
        while len(self.steps) < self.most and (step := self._violation(p, C, labels)) is not None:
            self._apply(step, p, C)
            self.steps.append(step)
        return self

    def predict(self, p: ArrayLike, X: ArrayLike) -> Array:
        """Return the predictions after all steps."""
        p, rows, _ = checked(p, X)
        C = self._contexts(rows)
        for step in self.steps:
            self._apply(step, p, C)
        return p

    def correlations(self, p: Array, C: Array, y: Array) -> tuple[Array, Array]:
        """Return each level's E[(y - p)x] (levels, d) and its share of the rows (levels,)."""
        level = self._level(p)
        count = np.bincount(level, minlength=self.levels)
        residual = np.zeros((len(p), self.levels))
        residual[np.arange(len(p)), level] = y - p
        return (residual.T @ C) / np.maximum(count, 1)[:, None], count / max(len(p), 1)

    def _violation(self, p: Array, C: Array, y: Array) -> Step | None:
        """Return the step that lowers the squared error most, among levels heavy and wrong enough."""
        direction, share = self.correlations(p, C, y)
        size = np.linalg.norm(direction, axis=1)
        gain = np.where((size > self.alpha) & (share >= self.gamma), share * size**2, 0.0)
        worst = int(np.argmax(gain))
        if gain[worst] <= 0.0:
            return None
        c = row_products(C[self._level(p) == worst], direction[worst])
        return Step(worst, direction[worst] * (size[worst] ** 2 / np.mean(c**2)))

    def _apply(self, step: Step, p: Array, C: Array) -> None:
        rows = np.flatnonzero(self._level(p) == step.level)
        p[rows] = np.clip(p[rows] + row_products(C[rows], step.theta), 0.0, 1.0)

    def _level(self, p: Array) -> Places:
        return np.minimum((p * self.levels).astype(np.intp), self.levels - 1)

    def _contexts(self, rows: Array) -> Array:
        return np.hstack([np.full((len(rows), 1), 0.5), rows * self._scale])


# The batch systems the paper is compared with: ``fit(p, X, y)``, then ``predict(p, X)``.
#
# p are a base model's probabilities on rows it was not trained on. X are group memberships (0 or 1) for HKRR, any
# numbers for the others.

BATCH: dict[str, Callable[[], Any]] = {
    "hkrr": HKRR,
    "swap-agnostic": SwapAgnostic,
    "lsboost-linear": lambda: LSBoost("linear"),
    "lsboost-tree": lambda: LSBoost("tree"),
}
"""Short name to a maker with the default settings.

Examples
--------
>>> sorted(BATCH)
['hkrr', 'lsboost-linear', 'lsboost-tree', 'swap-agnostic']
"""
