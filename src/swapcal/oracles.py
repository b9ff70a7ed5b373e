"""Oracles for `OracleForecaster`: ridge, kernels, finite classes, and regressors of river and scikit-learn.

An oracle learns one level's weighted squared losses; `swapcal.Oracle` defines the methods it must and may have. One
function makes them, level by level: ``OracleForecaster(lambda level: Ridge(level, dim=3), beside=())``. The adapters
import neither library; they call the methods of the model they are given.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from swapcal import _validate, bounds
from swapcal.archive import MOST_COUNT, ArchiveError, Kind, State, counts
from swapcal.arrays import Array
from swapcal.engine import state as memory
from swapcal.engine.certificate import level_terms
from swapcal.engine.forecaster import entry
from swapcal.engine.oracle_certificate import SwapRegret, swap_regret
from swapcal.kernels.jit import DirectCall
from swapcal.kernels.learners import evaluate
from swapcal.kernels.state import (
    HEDGE,
    RIDGE_LEARNER,
    T_LOW,
    T_P,
    T_SLOT_HIGH,
    T_SLOT_LOW,
    T_W_LOW,
    Memory,
    RunOptions,
)

__all__ = ["FiniteClass", "Fourier", "PartialFit", "Ridge", "River", "SwapRegret", "swap_regret"]

NO_MIX = np.zeros((1, 0))
evaluate_one = DirectCall(evaluate)


class Ridge:
    """The engine's own learner: ridge regression that starts from the constant `level`, wishes clipped by the caller.

    Its class is F_4^lin, all linear functions with |f| ≤ 2 on contexts (first coordinate ½, norm at most 1), so
    certificates of `OracleForecaster` are those of `Forecaster`.

    Parameters
    ----------
    level : the constant it starts from
    dim : number of coordinates of a context
    ridge : λ

    Examples
    --------
    >>> oracle = Ridge(0.25, dim=2)
    >>> oracle.update(np.array([0.5, 0.5]), 1.0, 1.0)
    >>> oracle.predict(np.array([0.5, 0.5])), oracle.predict(np.array([0.5, -0.5]))
    (0.5, 0.25)
    """

    newborn = "copy"

    def __init__(self, level: float, dim: int, *, ridge: float = 1.0) -> None:
        self.level, self.dim = _validate.label(level, "level"), _validate.dimension(dim)
        self.ridge = _validate.ridge(ridge)
        knobs = [self.ridge, 1.0, 0.0, self.ridge]
        self._state = memory.allocate(np.array([self.level]), self.dim, 1, [RIDGE_LEARNER, HEDGE, 0], knobs, 1)
        self._scratch = memory.scratch(self._state)

    def predict(self, x: ArrayLike) -> float:
        """Return ⟨θ, x⟩, as the engine computes it."""
        given = np.asarray(x, np.float64)
        if given.shape != (self.dim,):
            raise ValueError(f"context: given shape {given.shape}, expected ({self.dim},)")
        padded = np.zeros(self._state.theta.shape[1])
        padded[: self.dim] = given
        return float(evaluate_one.call(self._state.theta, 0, padded))

    def update(self, x: ArrayLike, y: float, weight: float) -> None:
        """Move θ to the new ridge solution."""
        row = _validate.context_rows(x, self.dim, single=True)
        if not 0.0 <= weight < inf:
            raise ValueError(f"weight: given {weight!r}, expected a finite number at least 0")
        wish = min(max(self.predict(row[0]), 0.0), 1.0)
        self._learn(row, np.array([_validate.label(y)]), np.array([weight], np.float64), wish)

    def _learn(self, rows: Array, y: Array, weight: Array, wish: float) -> None:
        """Enter rows into the level's sums and its regression, the same wish for all of them."""
        tickets = memory.blank_tickets(len(rows))
        tickets[:, [T_SLOT_LOW, T_SLOT_HIGH]] = 0.0
        tickets[:, [T_P, T_LOW]] = self.level
        tickets[:, T_W_LOW] = wish
        options = RunOptions(weights=weight)
        entry(self._scratch, True).call(
            self._state, self._scratch, rows, y, _validate.NO_EVENT, tickets, NO_MIX, 0, options, None
        )

    def regret(self, mass: float) -> float:
        """Return λ(4 + 2v)² + d ln(1 + n/(λd)); see `bounds.ridge_regret`."""
        distance2 = bounds.prior_distance2(self.level)
        return float(bounds.ridge_regret(mass, self.dim, ridge=self.ridge, distance2=distance2))

    def bound(self) -> float:
        """Return a level's part of the engine's bound: the loss beyond the ridge solution's, plus λ‖θ_v - θ_0‖².

        θ_v is the best function of the class on the rows learned, and a wish the clipped prediction before its row.
        """
        _, learning, distance2, _ = level_terms(self._state, 0, self.dim, self.ridge)
        return learning + self.ridge * distance2

    def saved(self, level: float, X: ArrayLike, y: Array, weight: Array) -> tuple[float, float]:
        """Return what the best function of F_4^lin saves over a level, as the engine computes it, twice."""
        level_of = Ridge(level, self.dim, ridge=self.ridge)
        level_of._learn(np.array(X, np.float64, order="C"), np.array(y), np.array(weight), level_of.level)
        gain = level_terms(level_of._state, 0, self.dim, self.ridge)[0]
        return gain, gain

    def best(self, X: ArrayLike, y: Array, weight: Array) -> tuple[float, float]:
        """Return the least weighted loss over F_4^lin, exact up to rounding, twice."""
        least = float(weight @ (y - self.level) ** 2) - self.saved(self.level, X, y, weight)[0]
        return least, least

    def to_state(self) -> State:
        """Return the learner's arrays."""
        return State(dict(self._state._asdict()), {})

    def restore(self, state: State) -> None:
        """Set the state of a learner with the same dimension and λ. Raises ArchiveError otherwise."""
        one = counts(3, least=[1, 0, 0], most=[1, MOST_COUNT, MOST_COUNT], names=("levels",))
        kind = Kind(
            "ridge", 1, {}, lambda _, shapes: memory.fields(self.dim, RIDGE_LEARNER, HEDGE, shapes) | {"counts": one}
        )
        kind.check_shapes({name: (array.dtype.str, array.shape) for name, array in state.arrays.items()}, {})
        kind.check_contents(state.arrays, {})
        if not np.array_equal(state.arrays["knobs"], self._state.knobs):
            raise ArchiveError("oracle: given a ridge learner with another λ, expected that of `make`")
        self.level = float(state.arrays["z"][0])  # a copy has its neighbour's level
        self._state = Memory(**{name: np.array(array, order="C") for name, array in state.arrays.items()})
        self._scratch = memory.scratch(self._state)

    def __repr__(self) -> str:
        return f"Ridge(level={self.level:g}, dim={self.dim}, ridge={self.ridge:g})"

    @property
    def log_det(self) -> float:
        """Return ln det(I + G/λ), G = Σ α x xᵀ, which is ln det(I + K/λ) of the weighted Gram matrix K."""
        return float(-np.sum(np.log(self.ridge * self._state.scale[0])))


class Fourier:
    """Kernel ridge regression with random Fourier features of the Gaussian kernel, and the bound of its Hilbert space.

    The features are x' = (½, √¾ φ(x)), φ(x) = D^{-1/2}(cos⟨ω_i, x⟩, sin⟨ω_i, x⟩) with ω_i drawn from the kernel's
    spectral density, so ‖x'‖ = 1 and k(x, x') = ¼ + ¾⟨φ(x), φ(x')⟩, in which the second term approximates
    exp(-‖x - x'‖²/(2b²)). The class is the ball {f : ‖f‖_k ≤ B} of the kernel with these features, not of its limit.

    Parameters
    ----------
    level : the constant it starts from, of norm 2·level
    dim : numbers in x, which may be any
    features : D, frequencies ω
    bandwidth : b, the distance at which function values become unrelated
    ridge : λ
    norm : B
    seed : of the frequencies; the same for all levels unless made otherwise

    Examples
    --------
    >>> oracle = Fourier(0.5, dim=1, features=50, bandwidth=0.2)
    >>> for x in np.linspace(0, 1, 200):
    ...     oracle.update(np.array([x]), float(0.4 < x < 0.6), 1.0)
    >>> oracle.predict(np.array([0.5])) > 0.6, oracle.predict(np.array([0.1])) < 0.1
    (True, True)
    """

    newborn = "copy"

    def __init__(
        self,
        level: float,
        dim: int,
        *,
        features: int = 64,
        bandwidth: float = 1.0,
        ridge: float = 1.0,
        norm: float = 4.0,
        seed: int = 0,
    ) -> None:
        self.norm = _validate.positive("norm", norm)
        self._linear = Ridge(level, 1 + 2 * features, ridge=ridge)
        rng = np.random.default_rng(_validate.seed(seed))
        self._omega = rng.standard_normal((features, _validate.dimension(dim))) / _validate.positive(
            "bandwidth", bandwidth
        )

    def transform(self, X: ArrayLike) -> Array:
        """Return the features x' of rows, (n, 1 + 2D); of one row, (1 + 2D,)."""
        angles = np.asarray(X, np.float64) @ self._omega.T
        scale = sqrt(0.75 / len(self._omega))
        constant = np.full((*angles.shape[:-1], 1), 0.5)
        return np.concatenate([constant, scale * np.cos(angles), scale * np.sin(angles)], axis=-1)

    def predict(self, x: ArrayLike) -> float:
        """Return f(x)."""
        return self._linear.predict(self.transform(x))

    def update(self, x: ArrayLike, y: float, weight: float) -> None:
        """Move f to the new solution of kernel ridge regression."""
        self._linear.update(self.transform(x), y, weight)

    @property
    def log_det(self) -> float:
        """Return ln det(I + K/λ) of the rows learned."""
        return self._linear.log_det

    def _distance2(self) -> float:
        """Return the largest ‖f - level‖² over the class."""
        return (self.norm + 2.0 * self._linear.level) ** 2

    def regret(self, mass: float) -> float:
        """Return λ(B + 2v)² + (2D + 1) ln(1 + n/(λ(2D + 1))), at least `bound` for any rows."""
        settings = {"ridge": self._linear.ridge, "distance2": self._distance2()}
        return float(bounds.ridge_regret(mass, self._linear.dim, **settings))

    def bound(self) -> float:
        """Return λ(B + 2v)² + ln det(I + K/λ) of the rows learned: what was lost to any f of the class at most."""
        return float(bounds.kernel_regret(self._distance2(), self.log_det, self._linear.ridge))

    def best(self, X: ArrayLike, y: Array, weight: Array) -> tuple[float, float]:
        """Return bounds around the least loss over the ball of radius B."""
        rows = self.transform(X)
        return ball_least_squares(rows, y, weight, self.norm)

    def to_state(self) -> State:
        """Return the learner's arrays and the frequencies."""
        arrays, manifest = self._linear.to_state()
        return State({**arrays, "omega": self._omega}, manifest)

    def restore(self, state: State) -> None:
        """Set the state of an oracle made with the same arguments. Raises ArchiveError otherwise."""
        arrays = dict(state.arrays)
        omega = arrays.pop("omega", np.zeros(0))
        if not np.array_equal(omega, self._omega):
            raise ArchiveError("oracle: given other frequencies, expected those of `make`")
        self._linear.restore(State(arrays, state.manifest))

    def __repr__(self) -> str:
        features, dim = self._omega.shape
        return f"Fourier(level={self._linear.level:g}, dim={dim}, features={features})"


def ball_least_squares(X: Array, y: Array, weight: Array, radius: float) -> tuple[float, float]:
    """Return bounds around min over ‖θ‖ ≤ B of Σ α(⟨θ, x⟩ - y)².

    For every μ > 0, min_θ [L(θ) + μ(‖θ‖² - B²)] is at most the minimum, and L of any θ in the ball at least; at the
    root of ‖θ(μ)‖ = B both are equal.

    Examples
    --------
    >>> lower, upper = ball_least_squares(np.array([[1.0]]), np.array([3.0]), np.ones(1), 2.0)
    >>> round(lower, 9), round(upper, 9)
    (1.0, 1.0)
    """
    half = np.sqrt(weight)
    U, s, _ = np.linalg.svd(X * half[:, None], full_matrices=False)
    target = half * y
    pull = U.T @ target
    residual = float(target @ target - pull @ pull)

    def theta(mu: float) -> Array:
        return s * pull / (s**2 + mu)

    def surplus(mu: float) -> float:
        return float(np.linalg.norm(theta(mu))) - radius

    tiny = 1e-14 * max(float(s[0]) ** 2, 1e-300)
    most = float(np.linalg.norm(s * pull)) / radius + tiny  # ‖θ(μ)‖ ≤ ‖s·pull‖/μ
    mu = tiny if surplus(tiny) <= 0.0 else float(brentq(surplus, tiny, most, xtol=1e-15 * most, rtol=1e-14))
    solution = theta(mu)
    inside = solution * min(1.0, radius / max(float(np.linalg.norm(solution)), 1e-300))
    upper = float(np.sum((s * inside - pull) ** 2)) + max(residual, 0.0)
    lower = float(np.sum((s * solution - pull) ** 2) + mu * (solution @ solution - radius**2)) + max(residual, 0.0)
    return min(lower, upper), upper


class FiniteClass:
    """Exponential weights over finitely many functions: loses at most 2 ln M to the best of them on its level.

    Parameters
    ----------
    functions : functions of x with values in [0, 1], or one function that returns all M values at once; values outside
        are clipped for the wish, which only lowers its loss.

    Examples
    --------
    >>> oracle = FiniteClass([lambda x: x, lambda x: 1 - x])
    >>> oracle.predict(0.9)
    0.5
    >>> for _ in range(40):
    ...     oracle.update(0.9, 1, 1.0)
    >>> oracle.predict(0.9) > 0.89, round(oracle.regret(1000.0), 3)
    (True, 1.386)
    """

    newborn = "copy"

    def __init__(self, functions: "Sequence[Callable[[Any], float]] | Callable[[Any], ArrayLike]") -> None:
        if not callable(functions) and not functions:
            raise ValueError("functions: given none, expected at least one")
        self._functions = functions
        self._losses: Array | None = None if callable(functions) else np.zeros(len(functions))

    def values(self, x: Any) -> Array:
        """Return the functions' values at x, (M,)."""
        own = self._functions
        values = np.asarray(own(x) if callable(own) else [function(x) for function in own], np.float64)
        losses = self._losses
        if values.ndim != 1 or not len(values) or (losses is not None and values.shape != losses.shape):
            count = "M" if losses is None else len(losses)
            raise ValueError(f"functions: given values of shape {values.shape}, expected ({count},)")
        if not np.isfinite(values).all():
            raise ValueError("functions: given a value that is not finite, expected finite numbers")
        return values

    def predict(self, x: Any) -> float:
        """Return the functions' mean under weights ∝ exp(-½ Σ α(f(x) - y)²)."""
        values = np.clip(self.values(x), 0.0, 1.0)
        if self._losses is None:
            return float(np.mean(values))
        weights = np.exp(-0.5 * (self._losses - self._losses.min()))
        return float(weights @ values / weights.sum())

    def update(self, x: Any, y: float, weight: float) -> None:
        """Enter the functions' losses."""
        values = np.clip(self.values(x), 0.0, 1.0)
        before = np.zeros(len(values)) if self._losses is None else self._losses
        self._losses = before + weight * (values - y) ** 2

    def regret(self, mass: float) -> float | None:
        """Return 2 ln M; None as long as M is not known."""
        return None if self._losses is None else float(bounds.mixture_regret(len(self._losses)))

    def best(self, X: Any, y: Array, weight: Array) -> tuple[float, float]:
        """Return the least loss among the functions, exact, twice."""
        values = np.array([self.values(x) for x in X])
        least = float(np.min(weight @ (values - y[:, None]) ** 2))
        return least, least

    def to_state(self) -> State:
        """Return the functions' losses."""
        return State({"losses": np.zeros(0) if self._losses is None else self._losses}, {})

    def restore(self, state: State) -> None:
        """Set the losses of an oracle of as many functions. Raises ArchiveError otherwise."""
        losses = state.arrays.get("losses")
        if losses is None or losses.ndim != 1 or not np.isfinite(losses).all():
            raise ArchiveError("oracle: given no losses of functions, expected those that to_state returned")
        if not callable(self._functions) and len(losses) != len(self._functions):
            raise ArchiveError(f"oracle: given {len(losses)} functions, expected {len(self._functions)}")
        self._losses = np.array(losses) if len(losses) else None

    def __repr__(self) -> str:
        return "FiniteClass()" if self._losses is None else f"FiniteClass(members={len(self._losses)})"


class River:
    """A regressor of river as an oracle; any object with ``predict_one(x)`` and ``learn_one(x, y, w=…)``.

    Parameters
    ----------
    model : its weights `w` must be learned; a pipeline hands them to its last step. An array x becomes
        ``{0: x[0], 1: x[1], …}``.

    Examples
    --------
    >>> from river import tree
    >>> oracle = River(tree.HoeffdingTreeRegressor(leaf_prediction="mean"))
    >>> oracle.update({"age": 40.0}, 1.0, 0.5)
    >>> oracle.predict({"age": 40.0})
    1.0
    """

    newborn = "copy"

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "predict_one") or not hasattr(model, "learn_one"):
            raise TypeError(f"model: given {type(model).__name__}, expected one with predict_one and learn_one")
        steps = getattr(model, "steps", None)
        last = list(steps.values())[-1] if isinstance(steps, Mapping) else model
        if hasattr(last, "predict_proba_one"):
            raise TypeError(f"model: given {type(last).__name__}, a classifier, expected a regressor")
        if "w" not in inspect.signature(last.learn_one).parameters:
            raise TypeError(
                f"model: given {type(last).__name__}, whose learn_one has no weight w, expected one with it"
            )
        self.model = model

    def predict(self, x: Any) -> float:
        """Return what the model predicts."""
        return float(self.model.predict_one(_record(x)))

    def update(self, x: Any, y: float, weight: float) -> None:
        """Update the model with a row."""
        self.model.learn_one(_record(x), y, w=weight)

    def __repr__(self) -> str:
        return f"River({type(self.model).__name__})"


def _record(x: Any) -> Any:
    return dict(enumerate(x.tolist())) if isinstance(x, np.ndarray) else x


class PartialFit:
    """A regressor with ``partial_fit(X, y, sample_weight=…)`` as an oracle, such as scikit-learn's SGDRegressor.

    Parameters
    ----------
    model : the regressor. Rows that are arrays reach it as (1, d), others in a list of one.
    start : the wish before the first row

    Examples
    --------
    >>> from sklearn.linear_model import SGDRegressor
    >>> oracle = PartialFit(SGDRegressor(), start=0.25)
    >>> oracle.predict(np.array([1.0, 2.0]))
    0.25
    >>> oracle.update(np.array([1.0, 2.0]), 1.0, 0.5)
    >>> 0 < oracle.predict(np.array([1.0, 2.0])) < 1
    True
    """

    newborn = "copy"

    def __init__(self, model: Any, start: float = 0.5) -> None:
        if not hasattr(model, "partial_fit") or "sample_weight" not in inspect.signature(model.partial_fit).parameters:
            raise TypeError(
                f"model: given {type(model).__name__}, expected a regressor whose partial_fit has sample_weight"
            )
        self.model, self.start, self._fitted = model, _validate.label(start, "start"), False

    def predict(self, x: Any) -> float:
        """Return what the model predicts, or `start`."""
        return float(self.model.predict(_one_row(x))[0]) if self._fitted else self.start

    def update(self, x: Any, y: float, weight: float) -> None:
        """Update the model with a row."""
        self.model.partial_fit(_one_row(x), np.array([y]), sample_weight=np.array([weight]))
        self._fitted = True

    def __repr__(self) -> str:
        return f"PartialFit({type(self.model).__name__})"


def _one_row(x: Any) -> Any:
    return x.reshape(1, -1) if isinstance(x, np.ndarray) else [x]
