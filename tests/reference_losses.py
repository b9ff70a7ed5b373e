"""Slow, literal versions of what `swapcal.losses` computes."""

import numpy as np
from scipy.optimize import linprog, minimize


def stream(seed, rows=400, dim=4, levels=6, skew=0.0):
    """Forecasts that are neither calibrated nor multicalibrated, outcomes, contexts in X."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, dim - 1))
    Z *= np.sqrt(0.75) * rng.uniform(0.2, 1.0, (rows, 1)) / np.linalg.norm(Z, axis=1, keepdims=True)
    X = np.column_stack([np.full(rows, 0.5), Z])
    truth = 1.0 / (1.0 + np.exp(-3.0 * X[:, 1] - skew))
    y = (rng.random(rows) < truth).astype(float)
    blurred = np.clip(0.6 * truth + 0.2 + 0.15 * rng.normal(size=rows), 0.0, 1.0)
    p = np.rint(blurred * (levels - 1)) / (levels - 1)
    return p, y, X


def best_response_on_grid(loss, p, points=20_001):
    """Least expected cost over a fine grid of actions."""
    grid = np.linspace(loss.low, loss.high, points)
    if loss.finite_actions is not None:
        grid = np.arange(len(loss.finite_actions), dtype=float)
    return min(float(loss(a, p)) for a in grid)


def least_cost_by_slsqp(loss, y, X):
    """Minimum of Σ ℓ(f_θ(x), y) over the ball by a general-purpose solver, from several starts."""
    rng = np.random.default_rng(0)

    def cost(theta):
        a = loss.low + (loss.high - loss.low) * np.clip((1.0 + X @ theta) / 2.0, 0.0, 1.0)
        return float(np.sum(loss(a, y)))

    ball = {"type": "ineq", "fun": lambda theta: 1.0 - theta @ theta, "jac": lambda theta: -2.0 * theta}
    starts = [np.zeros(X.shape[1])] + [0.5 * rng.normal(size=X.shape[1]) / np.sqrt(X.shape[1]) for _ in range(3)]
    results = [minimize(cost, s, constraints=[ball], method="SLSQP", options={"maxiter": 500}) for s in starts]
    inside = [r.x / max(1.0, float(np.linalg.norm(r.x))) for r in results]
    return min(cost(theta) for theta in inside)


def worst_convex_loss(v, y, f, k, grid_size=15):
    """Largest Σ ℓ(k, y) − ℓ(f, y) over all losses of L^cvx with best response k to v: a linear program.

    The unknowns are ℓ(·, 0) and ℓ(·, 1) at a grid that contains k and every f, so nothing is rounded.
    """
    knots = np.unique(np.concatenate([np.linspace(0.0, 1.0, grid_size), f, [k]]))
    m = len(knots)
    at_k = int(np.searchsorted(knots, k))
    objective = np.zeros(2 * m)
    for outcome, a in zip(y.astype(int), f, strict=True):
        objective[outcome * m + at_k] -= 1.0
        objective[outcome * m + int(np.searchsorted(knots, a))] += 1.0
    rows, limits = [], []

    def at_most(entries, limit):
        row = np.zeros(2 * m)
        for index, value in entries:
            row[index] += value
        rows.append(row)
        limits.append(limit)

    gaps = np.diff(knots)
    for base in (0, m):
        for i in range(m - 1):
            at_most([(base + i + 1, 1.0), (base + i, -1.0)], gaps[i])
            at_most([(base + i + 1, -1.0), (base + i, 1.0)], gaps[i])
        for i in range(1, m - 1):
            left, right = 1.0 / gaps[i - 1], 1.0 / gaps[i]
            at_most([(base + i - 1, -left), (base + i, left + right), (base + i + 1, -right)], 0.0)
    for i in range(m):
        at_most([(at_k, 1.0 - v), (m + at_k, v), (i, v - 1.0), (m + i, -v)], 0.0)
    found = linprog(objective, A_ub=np.array(rows), b_ub=np.array(limits), bounds=[(-1.0, 1.0)] * (2 * m))
    assert found.status == 0
    return -float(found.fun)


def random_convex_function(rng, points=2001):
    """A convex 1-Lipschitz function on [0, 1] with values in [−1, 1]: random slopes, sorted."""
    pieces = int(rng.integers(1, 12))
    slopes = np.sort(rng.uniform(-1.0, 1.0, pieces)) if rng.random() < 0.7 else np.sort(rng.choice([-1.0, 1.0], pieces))
    breaks = np.sort(rng.random(pieces - 1))
    grid = np.linspace(0.0, 1.0, points)
    knots = np.concatenate([[0.0], breaks, [1.0]])
    heights = np.concatenate([[0.0], np.cumsum(slopes * np.diff(knots))])
    low, high = heights.min(), heights.max()
    shift = rng.uniform(-1.0 - low, 1.0 - high)
    return lambda a: np.interp(a, knots, heights + shift), grid
