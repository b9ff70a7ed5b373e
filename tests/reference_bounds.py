"""Slow, literal simulations that the bounds are tested against; nothing here is shared with the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from swapcal.arrays import Array

Stream = tuple[Array, Array, Callable[[int, float], float]]


def contexts(rng: np.random.Generator, rounds: int, dim: int) -> Array:
    """Draw contexts of norm at most one whose first coordinate is one half."""
    x = np.zeros((rounds, dim))
    x[:, 0] = 0.5
    if dim > 1:
        tail = rng.normal(size=(rounds, dim - 1))
        tail /= np.linalg.norm(tail, axis=1, keepdims=True)
        x[:, 1:] = tail * np.sqrt(0.75) * rng.uniform(size=(rounds, 1)) ** 0.2
    return x


def streams(seed: int, rounds: int, dim: int) -> dict[str, Stream]:
    """Return contexts, weights and a label rule that may read the prediction."""
    rng = np.random.default_rng(seed)
    x = contexts(rng, rounds, dim)
    basis = np.zeros((rounds, dim))
    basis[:, 0] = 0.5
    if dim > 1:
        basis[np.arange(rounds), 1 + np.arange(rounds) % (dim - 1)] = np.sqrt(0.75)
    theta = rng.normal(size=dim)
    coins = rng.uniform(size=rounds)
    noisy = (coins < np.clip(0.5 + x @ theta, 0, 1)).astype(float)
    ones, weights = np.ones(rounds), rng.uniform(size=rounds)
    return {
        "random": (x, weights, lambda t, w: float(noisy[t])),
        "real-valued": (x, weights, lambda t, w: float(coins[t])),
        "constant": (x, ones, lambda t, w: 1.0),
        "adversary": (x, ones, lambda t, w: float(w < 0.5)),
        "adversary on a basis": (basis, ones, lambda t, w: float(w < 0.5)),
        "switching": (basis, ones, lambda t, w: float(t >= rounds // 2)),
    }


def ridge_excess(stream: Stream, ridge: float, prior: Array, vaw: bool = False) -> tuple[float, float]:
    """Run the learner by solving its normal equations each round; return excess loss and total weight.

    The excess is Σ α(w − y)² minus the minimum of the regularised loss, so it must stay below the bound's
    logarithm alone.
    """
    x, weights, label = stream
    dim = x.shape[1]
    A, b = ridge * np.eye(dim), ridge * prior.copy()
    loss, labels = 0.0, np.empty(len(x))
    for t, (row, weight) in enumerate(zip(x, weights, strict=True)):
        raw = float(np.linalg.solve(A, b) @ row)
        if vaw:
            raw = 0.5 + (raw - 0.5) / (1 + weight * float(row @ np.linalg.solve(A, row)))
        w = min(max(raw, 0.0), 1.0)
        labels[t] = label(t, w)
        loss += weight * (w - labels[t]) ** 2
        A += weight * np.outer(row, row)
        b += weight * labels[t] * row
    best = np.linalg.solve(A, b)
    least = float(np.sum(weights * (x @ best - labels) ** 2) + ridge * np.sum((best - prior) ** 2))
    return loss - least, float(weights.sum())


def project(theta: Array, A: Array, radius: float) -> Array:
    """Project on the ball in the norm of A by bisection on the multiplier of (A + μI)θ' = Aθ."""
    if np.linalg.norm(theta) <= radius:
        return theta
    target, eye, low, high = A @ theta, np.eye(len(theta)), 0.0, 1.0
    while np.linalg.norm(np.linalg.solve(A + high * eye, target)) > radius:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        outside = np.linalg.norm(np.linalg.solve(A + middle * eye, target)) > radius
        low, high = (middle, high) if outside else (low, middle)
    return np.asarray(np.linalg.solve(A + high * eye, target))


def ons_run(stream: Stream, beta: float, omega: float, radius: float, start: Array) -> tuple[float, float]:
    """Run Online Newton Step literally; return its regret against the ball's best point, and its weight."""
    x, weights, label = stream
    theta, A, loss = start.copy(), omega * np.eye(x.shape[1]), 0.0
    labels = np.empty(len(x))
    for t, (row, weight) in enumerate(zip(x, weights, strict=True)):
        s = float(theta @ row)
        labels[t] = label(t, min(max(s, 0.0), 1.0))
        loss += weight * (s - labels[t]) ** 2
        gradient = 2 * weight * (s - labels[t]) * row
        A += np.outer(gradient, gradient)
        theta = project(theta - np.linalg.solve(A, gradient) / beta, A, radius)
    return loss - least_squares_on_ball(x, weights, labels, radius), float(weights.sum())


def least_squares_on_ball(x: Array, weights: Array, labels: Array, radius: float) -> float:
    """Minimise Σ α(⟨θ, x⟩ − y)² over the ball."""
    G = x.T @ (weights[:, None] * x) + 1e-12 * np.eye(x.shape[1])
    free = np.linalg.solve(G, x.T @ (weights * labels))
    best = project(free, G, radius)
    return float(np.sum(weights * (x @ best - labels) ** 2))


def hedge_weight(w_low: float, w_high: float, low: float, high: float) -> float:
    """Probability of the upper level under the two-point hedge."""
    u, v = w_low - low, high - w_high
    return 0.0 if u + v == 0 else u / (u + v)


def two_level_play(rng: np.random.Generator, rounds: int, levels: int) -> tuple[Array, Array, Array]:
    """Play random two-point distributions on the grid; return P (rounds × levels+1), draws, and labels."""
    low = rng.integers(0, levels, size=rounds)
    weight = rng.uniform(size=rounds)
    P = np.zeros((rounds, levels + 1))
    P[np.arange(rounds), low] = 1 - weight
    P[np.arange(rounds), low + 1] = weight
    drawn = np.zeros_like(P)
    drawn[np.arange(rounds), low + (rng.uniform(size=rounds) < weight)] = 1.0
    labels = (rng.uniform(size=rounds) < (low + weight) / levels).astype(float)
    return P, drawn, labels


def multicalibration(weights: Array, values: Array, labels: Array, power: int) -> float:
    """Σ_v n_v max_f |ρ_{v,f}|^power for a finite class given by its values (functions × rounds)."""
    levels = weights.shape[1] - 1
    total = 0.0
    for i in range(levels + 1):
        mass = weights[:, i].sum()
        if mass > 0:
            rho = values @ (weights[:, i] * (labels - i / levels)) / mass
            total += mass * float(np.max(np.abs(rho))) ** power
    return total


def swap_regret(weights: Array, values: Array, labels: Array) -> float:
    """Σ_v max regret over the segments v + s(f − v), s in [0, 1], that join the constant v to the class."""
    levels = weights.shape[1] - 1
    total = 0.0
    for i in range(levels + 1):
        v, alpha = i / levels, weights[:, i]
        direction = values - v
        slope, curve = direction @ (alpha * (labels - v)), (direction**2) @ alpha
        step = np.clip(np.divide(slope, curve, out=np.zeros_like(slope), where=curve > 0), 0, 1)
        total += float(np.max(2 * step * slope - step**2 * curve))
    return total


def sup_norm(theta: Array) -> Array:
    """sup over contexts of |⟨θ, x⟩|, row by row, found by its closed form."""
    tail = np.linalg.norm(theta[..., 1:], axis=-1)
    return np.asarray(np.abs(theta[..., 0]) / 2 + np.sqrt(0.75) * tail)


def greedy_cover(points: Array, epsilon: float) -> Array:
    """Pick points, each farther than ε from those already picked, until none is left."""
    chosen: list[Array] = []
    rest = points
    while len(rest):
        chosen.append(rest[0])
        rest = rest[sup_norm(rest - rest[0]) > epsilon]
    return np.array(chosen)


NEAR_0 = [1 / 256, 1 / 128, 1 / 64, 1 / 32]
START = sorted({*(i / 16 for i in range(17)), *NEAR_0, *(1 - z for z in NEAR_0)})


def refine(rounds: int, kappa: float, ridge: float, serve: Callable[[int, list[float]], int]) -> list[float]:
    """Split intervals as fast as the rule allows: D_t = h²/4 every round and learners without regret."""
    points, accounts = list(START), [0.0] * (len(START) - 1)
    for t in range(rounds):
        i = serve(t, points)
        accounts[i] += (points[i + 1] - points[i]) ** 2 / 4
        if accounts[i] > kappa * 0.1 * ridge:
            points.insert(i + 1, (points[i] + points[i + 1]) / 2)
            accounts[i : i + 1] = [0.0, 0.0]
    return points


def adaptive_population(
    rows: int, dim: int, delta: float, kappa: float, ridge: float, distance2: float, constant: int, radius: int
) -> float:
    """Swap agnostic error on self-refining levels by counting: splits depth by depth, then every term written out."""
    unit = 4 * kappa * 0.1 * max(ridge, dim / 50)
    left, splits, depth = rows, 0, 4
    while depth < 80:
        made = min(2**depth, int(left / max(1.0, unit * 4**depth)))
        left, splits, depth = left - made * max(1.0, unit * 4**depth), splits + made, depth + 1
    deepest, spent = 8, max(1.0, unit * 4**8)
    while spent <= rows:
        deepest += 1
        spent += max(1.0, unit * 4**deepest)
    levels, intervals = 25 + splits, 24 + 2 * splits
    served = (deepest - 3) * rows / intervals
    gap = kappa * intervals * (dim * np.log(1 + served / (ridge * dim)) + unit / (4 * kappa)) + 1 / 32
    learners = levels * (ridge * distance2 + dim * np.log(1 + rows / (ridge * dim * levels)))
    union = np.log(2 * (2**deepest + 1) / delta) + dim * np.log(1 + 2 * radius * rows)
    rest = 18 if radius == 2 else 10
    return float((2 * (min(gap, rows / 1024) + learners) + constant * levels * union + rest) / rows)


class Play:
    """Ridge × hedge, literally: normal equations solved for every learner on every round.

    Learners of fixed levels start from 0, those of self-refining ones from their own level.
    """

    def __init__(self, points: Iterable[float], dim: int, ridge: float = 1.0, kappa: float | None = None) -> None:
        self.points, self.dim, self.ridge, self.kappa = list(points), dim, ridge, kappa
        self.G = [np.zeros((dim, dim)) for _ in self.points]
        self.b = [np.zeros(dim) for _ in self.points]
        self.excess = [0.0 for _ in self.points]
        self.own = [0.0 for _ in self.points]
        self.square = [0.0 for _ in self.points]
        self.accounts = [0.0 for _ in self.points[1:]]
        self.gap = 0.0

    def learner(self, i: int, x: Array) -> float:
        b = self.b[i].copy()
        if self.kappa is not None:
            b[0] += self.ridge * 2 * self.points[i]
        theta = np.linalg.solve(self.G[i] + self.ridge * np.eye(self.dim), b)
        return float(np.clip(theta @ x, 0, 1))

    def distribution(self, x: Array) -> tuple[int, list[float], float]:
        """Return the lower index, both learners' forecasts and the upper level's weight."""
        w = [self.learner(i, x) for i in range(len(self.points))]
        i = next(i for i in range(len(w) - 1) if w[i] >= self.points[i] and w[i + 1] <= self.points[i + 1])
        return i, w, hedge_weight(w[i], w[i + 1], self.points[i], self.points[i + 1])

    def round(self, x: Array, label: Callable[[float], float]) -> None:
        i, w, up = self.distribution(x)
        mean = (1 - up) * self.points[i] + up * self.points[i + 1]
        y = label(mean)
        for j, alpha in ((i, 1 - up), (i + 1, up)):
            q = float(x @ np.linalg.solve(self.G[j] + self.ridge * np.eye(self.dim), x))
            self.excess[j] += alpha**2 * (w[j] - y) ** 2 * q / (1 + alpha * q)
            self.gap += alpha * ((self.points[j] - y) ** 2 - (w[j] - y) ** 2)
            self.accounts[i] += alpha * ((self.points[j] - y) ** 2 - (w[j] - y) ** 2)
            self.G[j] += alpha * np.outer(x, x)
            self.b[j] += alpha * y * x
            self.square[j] += alpha * y**2
            self.own[j] += alpha * (self.points[j] - y) ** 2
        if self.kappa is not None:
            self.maybe_split(i, self.kappa)

    def maybe_split(self, i: int, kappa: float) -> None:
        mean = (self.excess[i] + self.excess[i + 1]) / 2
        if self.accounts[i] > kappa * (mean + 0.1 * self.ridge):
            self.points.insert(i + 1, (self.points[i] + self.points[i + 1]) / 2)
            self.accounts[i : i + 1] = [0.0, 0.0]
            self.G.insert(i + 1, np.zeros((self.dim, self.dim)))
            self.b.insert(i + 1, np.zeros(self.dim))
            for account in (self.excess, self.own, self.square):
                account.insert(i + 1, 0.0)

    def swap_regret(self) -> float:
        """PSReg against the ball of radius 4, which contains F_4^lin."""
        total = 0.0
        for G, b, own, square in zip(self.G, self.b, self.own, self.square, strict=True):
            H = G + 1e-10 * np.eye(self.dim)
            best = project(np.linalg.solve(H, b), H, 4.0)
            total += own - float(best @ G @ best - 2 * b @ best + square)
        return total

    def masses(self) -> list[float]:
        return [4 * float(G[0, 0]) for G in self.G]


def adversary(mean: float) -> float:
    """Label away from the issued mean."""
    return float(mean < 0.5)


def always(label: float) -> Callable[[float], float]:
    """Label fixed before the forecast."""
    return lambda mean: label
