"""Level-set boosting (Globus-Harris, Harrison, Kearns, Roth, Sorrell 2023)."""

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array, Places
from swapcal.baselines.table_rows import checked, row_products
from swapcal.faces import counted, face


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

    def _repr_html_(self) -> str:
        facts = {"weak learner": self.learner, "levels": self.levels}
        return face("LSBoost", f"a baseline with {counted(len(self.rounds), 'round')}", facts)

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
        found: dict[int, Regression] = {}
        for level in np.unique(f):
            here = f == level
            if here.sum() >= self.smallest:
                blank = Linear() if self.learner == "linear" else tree()
                found[int(level)] = blank.fit(X[here], y[here])
        return found

    def _apply(self, round_: dict[int, Regression], f: Places, X: Array) -> Places:
        moved = f.copy()
        for level, regression in round_.items():
            here = np.flatnonzero(f == level)
            if here.size:
                moved[here] = self._round(np.clip(regression.predict(X[here]), 0.0, 1.0))
        return moved

    def _round(self, p: Array) -> Places:
        return np.rint(p * self.levels).astype(np.intp)
