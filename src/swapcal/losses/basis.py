"""Decompositions of losses: a basis of the convex ones, mixtures of V-shaped ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array
from swapcal.losses.loss import Loss, LossError

# A small set of functions that approximates every convex loss.

# A verified basis compares all pairs of 2/ε points by all its bridges: at 2e-4 that takes a minute or two.
FINEST = 2e-4


@dataclass(frozen=True)
class ConvexBasis:
    """Functions g_i: [0, 1] → [−1, 1] whose combinations reach every convex 1-Lipschitz f with |f| ≤ 1.

    Coefficients are *linear* in the values of f on a grid: a constant, distances 2|a − T| − 1 to coarse knots
    T, and (possibly) random bridges that vanish at the coarse knots.
    """

    functions: Array
    """Values of the g_i at the grid, shape (size, points); piecewise linear in between."""
    analysis: Array
    """Coefficients of 2|a − t| − 1 for each interior grid point t, shape (points − 2, size)."""
    error: float
    """Proven bound on |f − Σ c_i g_i| over [0, 1], for every such f."""
    coefficient_norm: float
    """Proven bound on Σ |c_i| for every such f."""

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.functions)

    @property
    def grid(self) -> Array:
        """Points at which f is read."""
        return np.linspace(0.0, 1.0, self.functions.shape[1])

    def coefficients(self, function: Callable[[Array], ArrayLike]) -> Array:
        """Coefficients c_i of a convex, 1-Lipschitz function with values in [−1, 1]."""
        values = np.asarray(function(self.grid), dtype=float)
        slopes = np.diff(values) * (len(values) - 1)
        _check_member(self.grid, values, slopes)
        c = 0.25 * np.diff(slopes) @ self.analysis
        # In the order of `functions`: the constant, then 2|a − 0| − 1, which is the straight line.
        c[0] += 0.5 * (values[0] + values[-1])
        c[1] += 0.25 * (slopes[0] + slopes[-1])
        return np.asarray(c)

    def combine(self, coefficients: Array, a: ArrayLike) -> Array:
        """Σ c_i g_i(a)."""
        return np.asarray(np.interp(np.asarray(a, dtype=float), self.grid, coefficients @ self.functions))


def convex_basis(epsilon: float, seed: int = 0) -> ConvexBasis:
    """Basis that approximates every loss of L^cvx, outcome by outcome, to `epsilon` in the sup norm.

    Any such f is a constant plus a mixture, of total weight at most ½, of functions 2|a − t| − 1: the
    coefficient norm is at most 3/2 if all t are knots. With n cells the broken line through n + 1 knots is
    off by at most 1/(2n), so n = 1/(2ε) functions do. Fewer do for small ε: what the broken line misses of
    |a − t| is, up to the factor −2, the covariance K(t, a) of Brownian bridges tied down at the knots, so
    the average (1/m) Σ_j W_j(t) W_j(a) over m sampled bridges replaces it up to n⁻¹ √(log(1/ε)/m).
    With m = n/2 this is

        size O(ε^{−2/3} log^{1/3}(1/ε)), coefficient norm ≤ 3/2 + O(n⁻¹ log(1/ε)) ≤ 2,

    within the lemma's O(ε^{−2/3} log^{4/3}(1/ε)) and norm 2. The draw is *verified* on all pairs of grid
    points before it is returned, so `error` and `coefficient_norm` are proven, not likely. The smaller of the
    two constructions is returned.

    Parameters
    ----------
    epsilon
        Largest error allowed, in [2e-4, 1].
    seed
        Of the bridges.

    Examples
    --------
    >>> basis = convex_basis(0.05)
    >>> basis.size, basis.error <= 0.05, basis.coefficient_norm <= 2
    (11, True, True)
    >>> c = basis.coefficients(lambda a: abs(a - 0.37))
    >>> a = np.linspace(0, 1, 1001)
    >>> bool(abs(basis.combine(c, a) - abs(a - 0.37)).max() <= basis.error)
    True
    """
    if not FINEST <= epsilon <= 1.0:
        raise LossError.of("epsilon", epsilon, f"a number in [{FINEST}, 1]")
    broken = int(np.ceil(0.5 / epsilon - 1e-9))
    cells = _likely_cells(epsilon)
    while cells + cells // 2 < broken:
        basis = _bridge_basis(cells, cells // 2, epsilon, seed)
        if basis.error <= epsilon and basis.coefficient_norm <= 2.0:
            return basis
        cells = int(np.ceil(1.05 * cells)) + 1
    return broken_line_basis(broken)


def broken_line_basis(cells: int) -> ConvexBasis:
    """Return a constant and 2|a − T| − 1 at T = 0, 1/cells, …: error 1/(2·cells), coefficient norm 3/2.

    >>> broken_line_basis(10).size
    11
    """
    grid = np.linspace(0.0, 1.0, cells + 1)
    return ConvexBasis(_distances(grid, grid), _split(grid, cells), 0.5 / cells, 1.5)


def _bridge_basis(cells: int, bridges: int, epsilon: float, seed: int) -> ConvexBasis:
    per_cell = int(np.ceil(2.0 / (epsilon * cells)))
    grid = np.linspace(0.0, 1.0, cells * per_cell + 1)
    paths = _bridges(cells, per_cell, bridges, seed)
    peak = np.abs(paths).max(axis=1)
    functions = np.vstack([_distances(grid, np.linspace(0.0, 1.0, cells + 1)), paths / peak[:, None]])
    random_part = -4.0 / bridges * paths.T[1:-1] * peak
    analysis = np.hstack([_split(grid, cells), random_part])
    error = 2.0 * _worst_covariance_error(paths, cells) + 0.5 / (len(grid) - 1)
    extra = 0.5 * float(np.abs(random_part).sum(axis=1).max())
    return ConvexBasis(functions, analysis, error, 1.5 + extra)


def _distances(grid: Array, knots: Array) -> Array:
    lines = 2.0 * np.abs(grid[None] - knots[:-1, None]) - 1.0
    return np.vstack([np.ones_like(grid), lines])


def _split(grid: Array, cells: int) -> Array:
    """Interior grid points as means of the two coarse knots beside them; the last knot is minus the first."""
    inner = grid[1:-1] * cells
    left = np.minimum(np.floor(inner + 1e-9).astype(np.intp), cells - 1)
    share = np.clip(inner - left, 0.0, 1.0)
    means = np.zeros((len(inner), cells + 1))
    rows = np.arange(len(inner))
    means[rows, 1 + left] = 1.0 - share
    last = left + 1 == cells
    means[rows[~last], 2 + left[~last]] = share[~last]
    means[rows[last], 1] -= share[last]
    return means


def _bridges(cells: int, per_cell: int, count: int, seed: int) -> Array:
    """Brownian bridges on [0, 1] tied to 0 at the coarse knots, at the grid points, shape (count, points)."""
    steps = np.random.default_rng(seed).standard_normal((count, cells, per_cell)) / np.sqrt(cells * per_cell)
    walk = np.cumsum(steps, axis=2)
    tied = walk - walk[:, :, -1:] * np.arange(1, per_cell + 1) / per_cell
    return np.hstack([np.zeros((count, 1)), tied.reshape(count, -1)])


def _worst_covariance_error(paths: Array, cells: int) -> float:
    count, points = paths.shape
    per_cell = (points - 1) // cells
    local = np.arange(1, per_cell + 1) / (cells * per_cell)
    exact = np.minimum(local[:, None], local[None]) - cells * local[:, None] * local[None]
    worst = 0.0
    for cell in range(cells):
        part = slice(1 + cell * per_cell, 1 + (cell + 1) * per_cell)
        sampled = paths[:, part].T @ paths / count
        sampled[:, part] -= exact
        worst = max(worst, float(np.abs(sampled).max()))
    return worst


def _likely_cells(epsilon: float) -> int:
    """Cells for which the average over half as many bridges is likely to do; the search starts here.

    The largest of the 2/ε squared entries' deviations is about (1/4n)√(2 log(4/ε²)/m); ε/4 goes to the grid.
    """
    return max(2, int(np.ceil((np.sqrt(4.0 * np.log(4.0 / epsilon**2)) / (1.5 * epsilon)) ** (2.0 / 3.0) * 0.7)))


def _check_member(grid: Array, values: Array, slopes: Array) -> None:
    if not np.isfinite(values).all() or np.abs(values).max() > 1.0 + 1e-9:
        worst = int(np.argmax(np.where(np.isfinite(values), np.abs(values), np.inf)))
        raise LossError.of("function", f"{values[worst]} at {grid[worst]:.6g}", "values in [−1, 1]")
    if np.abs(slopes).max() > 1.0 + 1e-9:
        worst = int(np.argmax(np.abs(slopes)))
        raise LossError.of("function", f"slope {slopes[worst]:.6g} at {grid[worst]:.6g}", "at most 1")
    if (np.diff(slopes) < -1e-9).any():
        worst = int(np.argmin(np.diff(slopes)))
        raise LossError.of("function", f"a slope that falls at {grid[worst + 1]:.6g}", "a convex function")


# Every bounded proper loss as a mixture of V-shaped losses.


@dataclass(frozen=True)
class VMixture:
    """Σ_i mass_i ℓ_{vertex_i}(p, y) + offset + tilt·y, where ℓ_v(p, y) = (v − y) sign(p − v).

    `sign_at_vertex` is the sign taken at p = v, +1 or −1.
    """

    vertex: Array
    mass: Array
    sign_at_vertex: Array
    offset: float
    tilt: float

    def __call__(self, p: ArrayLike, y: ArrayLike) -> Any:
        """Value of the mixture at forecasts `p` and outcomes `y` of one shape."""
        p, y = np.broadcast_arrays(np.asarray(p, dtype=float), np.asarray(y, dtype=float))
        side = np.where(p[..., None] == self.vertex, self.sign_at_vertex, np.sign(p[..., None] - self.vertex))
        value = ((self.vertex - y[..., None]) * side * self.mass).sum(axis=-1) + self.offset + self.tilt * y
        return float(value) if np.ndim(value) == 0 else value

    @property
    def total_mass(self) -> float:
        """At most 2 for a loss with values in [−1, 1]."""
        return float(self.mass.sum())


def v_mixture(loss: Loss, knots: ArrayLike) -> VMixture:
    """Mixture of V-shaped losses that equals the proper loss ℓ̃(p, y) = ℓ(k_ℓ(p), y) at the forecasts `knots`.

    With G the Bayes risk of ℓ̃, ℓ̃(p, y) = G(p) + (y − p)G'(p) and G'(p) = ℓ̃(p, 1) − ℓ̃(p, 0) falls; so

        ℓ̃(p, y) = ∫ ℓ_v(p, y) dμ(v) + a + b y,     dμ = −½ dG',     μ([0, 1]) = (G'(0) − G'(1))/2 ≤ 2

    if |ℓ| ≤ 1. The affine rest a + b y cannot be dropped (a constant is proper) and changes no regret.
    Between two neighbouring knots the mixture puts all of μ where the tangents of G at both knots cross:
    exact at every knot, and in between within 2.5 times the mass of that gap.

    Parameters
    ----------
    loss
        A loss, finite at the knots.
    knots
        Forecasts, at least two, increasing.

    Examples
    --------
    >>> from swapcal.losses import squared
    >>> grid = np.linspace(0, 1, 101)
    >>> mixture = v_mixture(squared(), grid)
    >>> bool(abs(mixture(grid, 1) - (grid - 1) ** 2).max() < 1e-12), round(mixture.total_mass, 9)
    (True, 1.0)
    """
    points = _knots(knots)
    zero, one = (np.asarray(loss.induced(points, outcome), dtype=float) for outcome in (0, 1))
    _check_proper(loss, points, zero, one)
    slope = one - zero
    drop = np.maximum(slope[:-1] - slope[1:], 0.0)
    falls = drop > 0.0
    crossing = points[:-1].copy()
    # Tangent i is the line p ↦ zero_i + slope_i p, so two of them cross where their values agree.
    crossing[falls] = (zero[1:] - zero[:-1])[falls] / drop[falls]
    vertex = np.clip(crossing, points[:-1], points[1:])[falls]
    sign_at_vertex = np.where(vertex == points[:-1][falls], -1.0, 1.0)
    mixture = VMixture(vertex, drop[falls] / 2.0, sign_at_vertex, 0.0, 0.0)
    offset = float(zero[0] - mixture(points[0], 0.0))
    tilt = float(one[0] - mixture(points[0], 1.0)) - offset
    return VMixture(vertex, drop[falls] / 2.0, sign_at_vertex, offset, tilt)


def _knots(knots: ArrayLike) -> Array:
    points = np.asarray(knots, dtype=float)
    if points.ndim != 1 or len(points) < 2 or not (np.diff(points) > 0.0).all():
        raise LossError.of("knots", repr(points), "at least two forecasts, strictly increasing")
    return points


def _check_proper(loss: Loss, points: Array, zero: Array, one: Array) -> None:
    if not (np.isfinite(zero).all() and np.isfinite(one).all()):
        where = int(np.argmin(np.isfinite(zero) & np.isfinite(one)))
        raise LossError.of("knots", points[where], f"a forecast at which {loss.name} is finite")
    slope = one - zero
    excess = (zero + points * slope)[:-1] - (zero[1:] + points[:-1] * slope[1:])
    worst = int(np.argmax(excess))
    if excess[worst] > 1e-6 * max(1.0, float(np.abs(zero).max())):
        given = f"one more expensive by {excess[worst]:g} at p = {points[worst]} than that for p = {points[worst + 1]}"
        raise LossError.of(f"response of {loss.name}", given, "the best response")
