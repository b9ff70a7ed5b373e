"""The engine as the theory states it: slow, literal, readable. Nothing here is shared with the package.

`Reference` keeps every round. Where the theory leaves a choice (which crossing, which stationary distribution) it is
told the engine's, checks that it is a legal one, and derives all the rest itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq, minimize

from swapcal.arrays import Array

NEWTON = {"ons": (1 / 640, 640**2 / 4), "ons-fast": (1 / 50, 1.0)}
BALL = 4.0
EXACT = 1e-9


def clip(w: float) -> float:
    return float(np.clip(w, 0.0, 1.0))


def rround(w: float, z: Array) -> Array:
    """Round w to its two neighbouring levels so that the mean is kept; a column of Q."""
    i = min(int(np.searchsorted(z, w, side="right")) - 1, len(z) - 2)
    q = np.zeros(len(z))
    q[i + 1] = (w - z[i]) / (z[i + 1] - z[i])
    q[i] = 1.0 - q[i + 1]
    return q


def closed_classes(Q: Array) -> list[list[int]]:
    """Return the classes of the column-stochastic Q that no probability leaves, by transitive closure."""
    n = len(Q)
    reach = np.eye(n, dtype=bool) | (Q.T > 0)
    for k in range(n):
        reach |= np.outer(reach[:, k], reach[k])
    classes = {tuple(np.flatnonzero(reach[i] & reach[:, i]).tolist()) for i in range(n)}
    return [list(c) for c in sorted(classes) if not any(reach[i, j] for i in c for j in range(n) if j not in c)]


def stationary(Q: list[list[Fraction]]) -> list[Fraction]:
    """Solve Qp = p, Σp = 1 for an irreducible column-stochastic Q by Gaussian elimination without rounding."""
    n = len(Q)
    rows = [[Q[i][j] - (i == j) for j in range(n)] + [Fraction(0)] for i in range(n)]
    rows[-1] = [Fraction(1)] * (n + 1)
    for column in range(n):
        pivot = next(r for r in range(column, n) if rows[r][column] != 0)
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for r in range(n):
            if r != column and rows[r][column] != 0:
                factor = rows[r][column] / rows[column][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def project(theta: Array, A: Array, radius: float = BALL) -> Array:
    """Project onto the ball in the norm of A: (A + μI)θ' = Aθ with the μ that puts θ' on the sphere."""
    if np.linalg.norm(theta) <= radius:
        return theta

    def outside(log_mu: float) -> float:
        return float(np.linalg.norm(solve(log_mu))) - radius

    def solve(log_mu: float) -> Array:
        return np.linalg.solve(A + np.exp(log_mu) * np.eye(len(A)), A @ theta)

    scale = np.log(np.trace(A))
    return solve(brentq(outside, scale - 60, scale + 60, xtol=1e-14, rtol=1e-14))


def project_generic(theta: Array, A: Array, radius: float = BALL) -> Array:
    """Project by handing the definition to a generic constrained minimiser."""
    scale = 1 / np.trace(A)
    found = minimize(
        lambda t: scale * (t - theta) @ A @ (t - theta),
        theta * radius / np.linalg.norm(theta),
        jac=lambda t: 2 * scale * A @ (t - theta),
        constraints={"type": "ineq", "fun": lambda t: radius**2 - t @ t, "jac": lambda t: -2 * t},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return np.asarray(found.x)


def pulled(theta: Array, reach: float = 3.0) -> Array:
    """Return the point of the ball around e_1 that is nearest to θ."""
    half = np.eye(len(theta))[0]
    return half + (theta - half) / max(1.0, float(np.linalg.norm(theta - half)) / reach)


@dataclass
class Level:
    """One level and its learner, with A kept as it is defined and inverted whenever it is needed."""

    z: float
    prior: Array
    learner: str
    ridge: float
    theta: Array = field(init=False)
    A: Array = field(init=False)
    b: Array = field(init=False)
    potential: float = 0.0
    slack: float = 0.0

    def __post_init__(self) -> None:
        start = NEWTON[self.learner][1] if self.learner in NEWTON else self.ridge
        self.theta = self.prior.copy()
        self.A = start * np.eye(len(self.prior))
        self.b = self.ridge * self.prior

    def wish(self, x: Array, weight: float) -> float:
        """Return the forecast of a learner that is going to carry this weight; only VAW's depends on it."""
        r = float(self.theta @ x)
        if self.learner != "vaw":
            return clip(r)
        return clip(0.5 + (r - 0.5) / (1 + weight * float(x @ np.linalg.inv(self.A) @ x)))

    def learn(self, x: Array, y: float, weight: float, w: float) -> None:
        if weight <= 0:
            return
        if self.learner in NEWTON:
            self._newton(x, y, weight)
        else:
            self._ridge(x, y, weight, w)

    def _ridge(self, x: Array, y: float, weight: float, w: float) -> None:
        k = weight * float(x @ np.linalg.inv(self.A) @ x)
        miss = y - 0.5 if self.learner == "vaw" else y - w
        self.potential += weight * miss**2 * k / (1 + k)
        self.A = self.A + weight * np.outer(x, x)
        self.b = self.b + weight * y * x
        self.theta = np.linalg.inv(self.A) @ self.b

    def _newton(self, x: Array, y: float, weight: float) -> None:
        beta = NEWTON[self.learner][0]
        gradient = 2 * weight * (float(self.theta @ x) - y) * x
        self.A = self.A + np.outer(gradient, gradient)
        step = np.linalg.inv(self.A) @ gradient
        self.potential += float(gradient @ step) / (2 * beta)
        self.theta = project(self.theta - step / beta, self.A)


@dataclass
class Round:
    """What was played: levels, their probabilities and wishes; later the label."""

    x: Array
    levels: list[Level]
    weights: Array
    wishes: Array
    y: float = np.nan

    def gap(self, y: float) -> float:
        """Return D = Σ P(z)[(z − y)² − (w − y)²], the loss of playing levels instead of wishes."""
        z = np.array([level.z for level in self.levels])
        return float(self.weights @ ((z - y) ** 2 - (self.wishes - y) ** 2))

    def width(self) -> float:
        return self.levels[-1].z - self.levels[0].z


class Reference:
    """All levels with their learners, and a log of all rounds."""

    def __init__(
        self,
        dim: int,
        levels: Array,
        learner: str = "ridge",
        ridge: float = 1.0,
        kappa: float = 0.2,
        refine: bool = False,
        inner: bool = False,
    ) -> None:
        e_1 = np.eye(dim)[0]
        self.levels = [Level(float(z), 2 * z * e_1, learner, ridge) for z in levels]
        self.ridge, self.kappa, self.refine, self.inner = ridge, kappa, refine, inner
        self.log: list[Round] = []

    def ends(self) -> tuple[float, float]:
        """Return what wishes are held between: on inner levels by the nearest ones that are 1/(labels + 2) inside."""
        reach = 1.0 / (len(self.log) + 2.0)
        inside = [level.z for level in self.levels if reach <= level.z and reach <= 1.0 - level.z]
        return (inside[0], inside[-1]) if self.inner else (0.0, 1.0)

    def hedge(self, x: Array, low: float, high: float) -> Round:
        """Play the neighbours `low` and `high`, which must be a crossing, so that E z = E w."""
        least, most = self.ends()

        def wish(level: Level, weight: float) -> float:
            return min(max(level.wish(x, weight), least), most)

        i = [level.z for level in self.levels].index(low)
        a, b = self.levels[i : i + 2]
        assert b.z == high, "neighbours"
        assert wish(a, 1.0) >= a.z - EXACT, "the lower level wishes up"
        assert wish(b, 1.0) <= b.z + EXACT, "the upper level wishes down"

        def imbalance(p: float) -> float:
            return (1 - p) * (wish(a, 1 - p) - a.z) + p * (wish(b, p) - b.z)

        if imbalance(0.0) <= 0:
            p = 0.0
        elif imbalance(1.0) >= 0:
            p = 1.0
        else:
            p = brentq(imbalance, 0.0, 1.0, xtol=1e-16, rtol=1e-15)
        return Round(x, [a, b], np.array([1 - p, p]), np.array([wish(a, 1 - p), wish(b, p)]))

    def chain(self, x: Array) -> tuple[Array, Array]:
        """Return Blum–Mansour's Q, each level's wish rounded to the levels, and the wishes."""
        z = np.array([level.z for level in self.levels])
        wishes = np.array([level.wish(x, 1.0) for level in self.levels])
        return np.column_stack([rround(w, z) for w in wishes]), wishes

    def play(self, x: Array, distribution: Array) -> Round:
        """Play a distribution over all levels, which must be stationary."""
        Q, wishes = self.chain(x)
        assert distribution.min() >= 0
        assert abs(distribution.sum() - 1) < EXACT
        assert np.abs(Q @ distribution - distribution).max() < EXACT, "stationary"
        return Round(x, list(self.levels), distribution, wishes)

    def learn(self, played: Round, y: float) -> None:
        played.y = y
        self.log.append(played)
        for level, weight, w in zip(played.levels, played.weights, played.wishes, strict=True):
            level.learn(played.x, y, float(weight), float(w))
        if self.refine:
            self._refine(played.levels[0], played.levels[1], played.gap(y))
        if self.inner:
            if self.levels[1].z >= 2.0 / (len(self.log) + 2.0):
                self._split(0)
            if 1.0 - self.levels[-2].z >= 2.0 / (len(self.log) + 2.0):
                self._split(len(self.levels) - 2)

    def _refine(self, a: Level, b: Level, gap: float) -> None:
        i = self.levels.index(a)
        if self.levels[i + 1] is not b:
            return
        a.slack += gap
        floor = max(0.1 * self.ridge, 0.002 * len(a.prior))
        if a.slack > self.kappa * (0.5 * (a.potential + b.potential) + floor):
            self._split(i)

    def _split(self, i: int) -> None:
        a, b = self.levels[i : i + 2]
        start = pulled(0.5 * (a.theta + b.theta))
        self.levels.insert(i + 1, Level(0.5 * (a.z + b.z), start, a.learner, self.ridge))
        a.slack = 0.0

    def rows(self, level: Level) -> tuple[Array, Array, Array, Array]:
        """Return (weights, contexts, labels, wishes) of all rounds that played a level."""
        picked = [
            (weight, played.x, played.y, w)
            for played in self.log
            for at, weight, w in zip(played.levels, played.weights, played.wishes, strict=True)
            if at is level and weight > 0
        ]
        dim = len(level.prior)
        if not picked:
            return np.zeros(0), np.zeros((0, dim)), np.zeros(0), np.zeros(0)
        weights, X, y, wishes = zip(*picked, strict=True)
        return np.array(weights), np.array(X), np.array(y), np.array(wishes)


@dataclass
class Errors:
    """The certificate's numbers, from the log alone."""

    psmcal_1: float = 0.0
    psmcal_2: float = 0.0
    psreg: float = 0.0
    rounding: float = 0.0
    excess: float = 0.0
    potential: float = 0.0


def errors(reference: Reference) -> Errors:
    """Sum every error over levels, and D over rounds, as §2 and §4 define them."""
    found = Errors(rounding=sum(played.gap(played.y) for played in reference.log))
    for level in reference.levels:
        weights, X, y, wishes = reference.rows(level)
        if weights.sum() == 0:
            continue
        worst = largest_correlation((weights * (y - level.z)) @ X)
        found.psmcal_1 += worst
        found.psmcal_2 += worst**2 / weights.sum()
        found.psreg += swap_gain(level.z, weights, X, y)
        found.excess += excess(weights, X, y, wishes, level.prior, reference.ridge)
        found.potential += level.potential
    return found


def largest_correlation(g: Array) -> float:
    """Return max ⟨θ, g⟩ over Θ_1, whose extreme points are ±2e_1 and a sphere in the other coordinates."""
    return float(max(2 * abs(g[0]), 2 / np.sqrt(3) * np.linalg.norm(g[1:])))


def excess(weights: Array, X: Array, y: Array, wishes: Array, prior: Array, ridge: float) -> float:
    """Return Σα(w − y)² − min_θ [Σα(⟨θ,x⟩ − y)² + λ‖θ − θ_0‖²], the minimum by least squares."""
    dim = X.shape[1]
    root = np.sqrt(weights)
    stacked = np.vstack([root[:, None] * X, np.sqrt(ridge) * np.eye(dim)])
    target = np.concatenate([root * y, np.sqrt(ridge) * prior])
    theta = np.linalg.lstsq(stacked, target, rcond=None)[0]
    return float(weights @ (wishes - y) ** 2 - np.sum((stacked @ theta - target) ** 2))


def swap_gain(z: float, weights: Array, X: Array, y: Array) -> float:
    """Return the most squared loss that some θ in 2Θ_1 would have saved, by a generic convex solver.

    θ_1 = a − b with a, b ≥ 0 makes |θ_1|/2 + (√3/2)‖θ_2:‖ ≤ 2 smooth.
    """
    dim = X.shape[1]
    scale = 1 / weights.sum()

    def theta(s: Array) -> Array:
        return np.concatenate([[s[0] - s[1]], s[2:]])

    def loss(s: Array) -> float:
        return float(scale * (weights @ (X @ theta(s) - y) ** 2))

    def slope(s: Array) -> Array:
        g = 2 * scale * (weights * (X @ theta(s) - y)) @ X
        return np.concatenate([[g[0], -g[0]], g[1:]])

    room = {
        "type": "ineq",
        "fun": lambda s: (2 - (s[0] + s[1]) / 2) ** 2 - 0.75 * s[2:] @ s[2:],
        "jac": lambda s: np.concatenate([np.full(2, -(2 - (s[0] + s[1]) / 2)), -1.5 * s[2:]]),
    }
    sides = {"type": "ineq", "fun": lambda s: 4 - s[0] - s[1], "jac": lambda s: np.r_[-1.0, -1.0, np.zeros(dim - 1)]}
    start = np.zeros(dim + 1)
    start[0] = 2 * z
    found = minimize(
        loss,
        start,
        jac=slope,
        bounds=[(0, 4)] * 2 + [(-3, 3)] * (dim - 1),
        constraints=[room, sides],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return float(weights @ (z - y) ** 2 - loss(found.x) / scale)


def issued_errors(p: Array, y: Array, X: Array, weight: Array | None = None) -> dict[str, float]:
    """Return the errors of levels as they were drawn, level by level and row by row."""
    found = {"smcal_1": 0.0, "smcal_2": 0.0, "somni": 0.0, "cal": 0.0, "weight": 0.0}
    for v in sorted(set(p.tolist())):
        n, A, g = 0.0, 0.0, np.zeros(X.shape[1])
        for t in range(len(p)):
            if p[t] == v:
                count = 1.0 if weight is None else float(weight[t])
                n, A, g = n + count, A + count * (y[t] - v), g + count * (y[t] - v) * X[t]
        if n == 0.0:
            continue
        worst = max(2 * abs(g[0]), 2 / np.sqrt(3) * float(np.linalg.norm(g[1:])))
        found["smcal_1"] += worst
        found["smcal_2"] += worst**2 / n
        found["somni"] += (abs(A) + worst) / (2 * max(v, 1 - v))
        found["cal"] += abs(A)
        found["weight"] += n
    return found
