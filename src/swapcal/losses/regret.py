"""Regret of one loss against F_res^aff: the saving in hindsight, with a certificate."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from swapcal._display import display
from swapcal.arrays import Array, Places
from swapcal.errors import somni_levels
from swapcal.losses.ball import minimise_over_ball, shape_of, stages
from swapcal.losses.catalogue import CostMatrix
from swapcal.losses.loss import Loss, LossError, mix

# Forecasts, outcomes and contexts, checked and sorted by level.


@dataclass(frozen=True)
class LevelRows:
    """Rows in order of their level v = p; `order` gives the caller's rows.

    Every distinct forecast is a level: round continuous forecasts first if levels should hold more than a
    row.
    """

    p: Array
    y: Array
    X: Array
    weight: Array
    order: Places
    starts: Places

    @staticmethod
    def of(p: ArrayLike, y: ArrayLike, X: ArrayLike, weight: ArrayLike | None = None) -> "LevelRows":
        """Check shapes and ranges, then sort.

        `weight` counts a row that many times; probabilities of being issued turn realised errors into
        pseudo errors.
        """
        contexts = np.atleast_2d(np.asarray(X, dtype=float))
        count = len(contexts)
        forecasts, outcomes = (_column(v, count, name) for v, name in ((p, "forecast p"), (y, "outcome y")))
        weights = np.ones(count) if weight is None else _column(weight, count, "weight", top=np.inf)
        _check_norms(contexts)
        order = np.argsort(forecasts, kind="stable")
        ranked = forecasts[order]
        starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
        return LevelRows(ranked, outcomes[order], contexts[order], weights[order], order, starts)

    @property
    def levels(self) -> Array:
        """The distinct forecasts, increasing."""
        return self.p[self.starts]

    def slices(self) -> Iterator[slice]:
        """Rows of each level, in the order of `levels`."""
        ends = np.r_[self.starts[1:], len(self.p)]
        return (slice(start, stop) for start, stop in zip(self.starts, ends, strict=True))

    def residual_sums(self) -> tuple[Array, Array]:
        """A_v = Σ w (y − v) and g_v = Σ w (y − v) x, shapes (levels,) and (levels, d)."""
        residual = self.weight * (self.y - self.p)
        return np.add.reduceat(residual, self.starts), np.add.reduceat(residual[:, None] * self.X, self.starts)


def _column(values: ArrayLike, count: int, name: str, top: float = 1.0) -> Array:
    array = np.asarray(values, dtype=float)
    if array.shape != (count,) or not count:
        raise LossError.of(name, f"shape {array.shape}", f"({count},), one number per row of X")
    wrong = ~((array >= 0.0) & (array <= top) & np.isfinite(array))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LossError.of(name, array[row], f"a number in [0, {top:g}]", row + 1)
    return array


def _check_norms(X: Array) -> None:
    if X.ndim != 2:
        raise LossError.of("X", f"shape {X.shape}", "(rows, d)")
    norms = np.linalg.norm(X, axis=1)
    wrong = ~(norms <= 1.0 + 1e-9)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LossError.of("X", f"norm {norms[row]:.6g}", "at most 1", row + 1)


# How much one loss could have saved by following F_res^aff instead of the forecasts: a certificate.

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Comparator:
    """The rule of F_res^aff that serves a loss best on some rows.

    It acts at low + (high − low)·(1 + ⟨θ, x⟩)/2; for a cost matrix it takes action `pair[1]` with
    probability (1 + ⟨θ, x⟩)/2 and `pair[0]` otherwise.
    """

    theta: Array
    value: float
    """Its total cost."""
    floor: float
    """A proven lower bound on the total cost of every rule of the class."""
    pair: tuple[int, int] | None = None


@dataclass(frozen=True)
class LevelRegret:
    """Regret on the rows that were issued one level."""

    level: float
    weight: float
    cost: float
    best: Comparator

    @property
    def regret(self) -> float:
        """Cost of acting on the level minus the best comparator's; may be negative."""
        return self.cost - self.best.value


@dataclass(frozen=True)
class Regret:
    """Swap and plain regret of one loss against F_res^aff, as totals over the rows (divide by `weight`)."""

    loss: Loss
    weight: float
    cost: float
    """Σ w ℓ(k_ℓ(p), y)."""
    levels: tuple[LevelRegret, ...]
    best: Comparator
    """One comparator for all rows."""
    bound: float | None
    """Bound from calibration sums alone: Lipschitz(ℓ)·SOmni for a convex loss; None if the loss is not convex, or has
    per-row parameters or infinite slope, which the theorem does not cover."""

    def __repr__(self) -> str:
        return f"Regret({self.loss.name}: {self._means()})"

    def _means(self) -> str:
        cost, saved = self.cost / self.weight, self.swap / self.weight
        return f"cost {cost:.4g} a row, of which the best rule per level would have saved {saved:.3g}"

    def _repr_html_(self) -> str:
        promise = (
            {} if self.bound is None else {"bound from calibration alone": f"{self.bound / self.weight:.3g} a row"}
        )
        return display("Regret", f"{self.loss.name}: {self._means()}", {"levels": len(self.levels), **promise})

    @property
    def swap(self) -> float:
        """Σ over levels of the regret against the best comparator of that level: attained."""
        return sum(level.regret for level in self.levels)

    @property
    def swap_upper(self) -> float:
        """Proven upper bound on the swap regret; `swap` up to the solver's gap."""
        return sum(level.cost - level.best.floor for level in self.levels)

    @property
    def plain(self) -> float:
        """Regret against one comparator for all levels: attained by `best`."""
        return self.cost - self.best.value

    @property
    def plain_upper(self) -> float:
        """Proven upper bound on the regret against one comparator."""
        return self.cost - self.best.floor


def regret(
    loss: Loss,
    p: ArrayLike,
    y: ArrayLike,
    X: ArrayLike,
    weight: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Regret:
    """Regret of acting on forecasts `p` under `loss`, against F_res^aff = {(1 + ⟨θ,x⟩)/2 : ‖θ‖ ≤ 1}.

    Per level v the convex program

        Σ_{p=v} w ℓ(k_ℓ(v), y) − min over ‖θ‖ ≤ 1 of Σ_{p=v} w ℓ(f_θ(x), y)

    is solved by Newton's method in the ball, started from the previous level's solution, together with a
    proven lower bound on the minimum; losses linear in the action and cost matrices are solved in closed
    form. Comparators are stretched to the loss's interval of actions.

    Parameters
    ----------
    loss
        Any `Loss`; per-row parameters have one value per row of `X`.
    p, y, X
        Forecasts in [0, 1], outcomes in [0, 1], contexts of norm at most 1: shapes (n,), (n,), (n, d).
    weight
        How often each row counts, shape (n,).
    progress
        Called with (levels done, levels in all).

    Examples
    --------
    >>> from swapcal.losses import squared
    >>> X = np.array([[0.5, 0.8], [0.5, 0.8], [0.5, -0.8], [0.5, -0.8]])
    >>> found = regret(squared(), [0.5] * 4, [1, 1, 0, 0], X)
    >>> found.cost, round(found.swap, 6), found.swap_upper - found.swap < 1e-8
    (1.0, 0.96, True)
    """
    rows = LevelRows.of(p, y, X, weight)
    ranked = loss.take(rows.order)
    paid = rows.weight * ranked.induced(rows.p, rows.y)
    levels = _levels(ranked, rows, paid, progress)
    best = _best(ranked, rows, slice(None), np.zeros(rows.X.shape[1]))
    return Regret(loss, float(rows.weight.sum()), float(paid.sum()), levels, best, _bound(loss, rows))


def _levels(loss: Loss, rows: LevelRows, paid: Array, progress: Progress | None) -> tuple[LevelRegret, ...]:
    theta, levels = np.zeros(rows.X.shape[1]), []
    for done, (level, part) in enumerate(zip(rows.levels, rows.slices(), strict=True), start=1):
        best = _best(loss.take(part), rows, part, theta)
        # Off the boundary, where a logarithm of the next level's rows stays finite.
        theta = 0.9 * best.theta
        levels.append(LevelRegret(float(level), float(rows.weight[part].sum()), float(paid[part].sum()), best))
        if progress is not None:
            progress(done, len(rows.starts))
    return tuple(levels)


def _best(loss: Loss, rows: LevelRows, part: slice, start: Array) -> Comparator:
    y, X, weight = rows.y[part], rows.X[part], rows.weight[part]
    if isinstance(loss, CostMatrix):
        return _best_pair(loss, y, X, weight)
    minimum = minimise_over_ball(stages(loss, y), X, weight, start)
    return Comparator(minimum.theta, minimum.value, min(minimum.floor, minimum.value))


def _best_pair(loss: CostMatrix, y: Array, X: Array, weight: Array) -> Comparator:
    """Least of Σ w [(C_i + C_j)/2 + ⟨θ,x⟩(C_j − C_i)/2] over pairs and θ: linear in θ."""
    costs = weight[:, None] * mix(y[:, None], loss.costs[..., 0], loss.costs[..., 1])
    total, moment = costs.sum(axis=0), costs.T @ X
    pull = np.linalg.norm(moment[:, None] - moment[None], axis=-1)
    value = 0.5 * (total[:, None] + total[None] - pull)
    i, j = (int(k) for k in np.unravel_index(np.argmin(value), value.shape))
    push = moment[i] - moment[j]
    theta = push / max(float(np.linalg.norm(push)), np.finfo(float).tiny)
    return Comparator(theta, float(value[i, j]), float(value[i, j]), (i, j))


def _bound(loss: Loss, rows: LevelRows) -> float | None:
    A, g = rows.residual_sums()
    if loss.rows is not None:
        return None
    if isinstance(loss, CostMatrix):
        return float(_matrix_bound(loss, rows.levels, A, g))
    shape = shape_of(loss)
    if not (shape.convex and np.isfinite(shape.lipschitz)):
        return None
    return float(shape.lipschitz * somni_levels(rows.levels, A, g).sum())


def _matrix_bound(loss: CostMatrix, levels: Array, A: Array, g: Array) -> float:
    """Σ_v max over pairs (i, j) of ½ (D_i + D_j) A + ½ |D_j − D_i| ‖g‖.

    D_i is the change from outcome 0 to 1 of what the best action k costs beyond action i. At v itself k
    costs no more than any i, so only residuals y − v, weighted by 1 − f and f, can make the comparator
    cheaper.
    """
    rise = loss.costs[:, 1] - loss.costs[:, 0]
    chosen = np.asarray(loss.best_response(levels)).astype(np.intp)
    D = rise[chosen][:, None] - rise[None]
    size = np.linalg.norm(g, axis=1)[:, None, None]
    first, second = D[:, :, None], D[:, None, :]
    gain = 0.5 * (first + second) * A[:, None, None] + 0.5 * np.abs(second - first) * size
    return float(gain.max(axis=(1, 2)).sum())


# What acting on forecasts costs under several losses, in the form reports print.


class DecisionRow(TypedDict):
    """One line of a report's decisions section; means over the rows, None where infinite."""

    loss: str
    cost: float | None
    """Mean cost of acting on the forecasts."""
    regret: float | None
    """Mean cost above the best affine rule of each level, F_res^aff; may be negative."""
    certificate: float | None
    """Proven upper bound on that regret: Lipschitz(ℓ)·SOmni, or the solver's own bound if that is lower."""
    alternative: str | None
    """The best alternative, as text."""
    alternative_cost: float | None
    """Its mean cost."""


def decision_rows(
    losses: Sequence[Loss], p: ArrayLike, y: ArrayLike, X: ArrayLike, weight: ArrayLike | None = None
) -> list[DecisionRow]:
    """Cost, swap regret against F_res^aff and certificate of acting on forecasts `p`, loss by loss.

    Examples
    --------
    >>> from swapcal.losses import absolute
    >>> X = np.array([[0.5, 0.8], [0.5, 0.8], [0.5, -0.8], [0.5, -0.8]])
    >>> row = decision_rows([absolute()], [0.5] * 4, [1, 1, 0, 0], X)[0]
    >>> row["cost"], round(row["regret"], 3), row["alternative"]
    (0.5, 0.4, 'an affine rule per level; it gains most at level 0.5')
    """
    return [_row(regret(loss, p, y, X, weight)) for loss in losses]


def _row(result: Regret) -> DecisionRow:
    bounds = [result.swap_upper] + ([result.bound] if result.bound is not None else [])
    gainful = max(result.levels, key=lambda level: level.regret)
    return DecisionRow(
        loss=result.loss.name,
        cost=_mean(result.cost, result),
        regret=_mean(result.swap, result),
        certificate=_mean(min(bounds), result),
        alternative=f"an affine rule per level; it gains most at level {gainful.level:.4g}",
        alternative_cost=_mean(sum(level.best.value for level in result.levels), result),
    )


def _mean(total: float, result: Regret) -> float | None:
    value = float(np.float64(total) / result.weight)
    return value if isfinite(value) else None
