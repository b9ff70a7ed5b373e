"""The plain omniprediction error: one loss and one comparator for all levels, bracketed from both sides."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from swapcal.arrays import Array
from swapcal.errors import somni_levels
from swapcal.losses.ball import minimise_over_ball
from swapcal.losses.curve import action_at, stages
from swapcal.losses.error import LossError
from swapcal.losses.level_rows import LevelRows
from swapcal.losses.loss import Loss, mix
from swapcal.losses.shape import shape_of

ROUNDS = 20
MEMBERS = "members of L^cvx (convex, 1-Lipschitz, values in [−1, 1])"


@dataclass(frozen=True)
class OmnipredictionInterval:
    """`lower` ≤ Omni_{L^cvx, F_res^aff} ≤ `upper`, as totals; `loss` and `theta` attain `lower`."""

    lower: float
    upper: float
    loss: Loss
    theta: Array

    def __repr__(self) -> str:
        return f"OmnipredictionInterval({self.lower:.4g} to {self.upper:.4g}; the lower end by {self.loss.name})"


def omniprediction(
    p: ArrayLike,
    y: ArrayLike,
    X: ArrayLike,
    weight: ArrayLike | None = None,
    losses: Sequence[Loss] | None = None,
) -> OmnipredictionInterval:
    """Bracket sup over ℓ in L^cvx and f in F_res^aff of Σ w [ℓ(k_ℓ(p), y) − ℓ(f(x), y)].

    Upper end: the swap error Σ_v SOmni_v, where every level has a loss and comparator of its own. Lower
    end: the best pair found by alternating, from several starts, between the best comparator for a loss (a
    convex program) and the best loss of a dictionary for a comparator; a constant loss keeps it from
    being negative.

    Parameters
    ----------
    losses
        The dictionary, members of L^cvx; `threshold_losses` by default.

    Examples
    --------
    >>> X = np.full((4, 1), 0.5)
    >>> found = omniprediction([0.5] * 4, [1, 1, 1, 0], X)
    >>> found.lower <= found.upper
    True
    """
    rows = LevelRows.of(p, y, X, weight)
    book = list(losses) if losses is not None else threshold_losses()
    _check_members(book)
    book.append(_constant())
    paid = np.array([rows.weight @ loss.induced(rows.p, rows.y) for loss in book])
    starts = np.unique(np.linspace(0, len(book) - 1, 5).astype(int))
    gain, choice, theta = max((_alternate(book, paid, rows, int(s)) for s in starts), key=lambda found: found[0])
    upper = float(somni_levels(rows.levels, *rows.residual_sums()).sum())
    return OmnipredictionInterval(gain, upper, book[choice], theta)


def threshold_losses(count: int = 49) -> list[Loss]:
    """List members of L^cvx that span the decisions a threshold can describe.

    For c in (0, 1): the two-action loss (c − y)a/max(c, 1 − c), which acts when p ≥ c, and the lopsided
    square (y ? 1 − c : c)(a − y)²/(2 max(c, 1 − c)), whose best response slides through p = c at a = ½.

    >>> len(threshold_losses(9))
    18
    """
    thresholds = np.arange(1, count + 1) / (count + 1)
    return [make(float(c)) for c in thresholds for make in (_threshold, _lopsided)]


def _threshold(c: float) -> Loss:
    scale = 1.0 / max(c, 1.0 - c)
    return Loss(
        f"threshold({c:g})",
        lambda a, y: scale * (c - y) * a,
        response=lambda p: np.where(p >= c, 1.0, 0.0),
        slope=lambda a, y: scale * (c - y) + 0.0 * a,
        curvature=lambda a, y: 0.0 * a,
    )


def _constant() -> Loss:
    return Loss(
        "constant",
        lambda a, y: 0.0 * a,
        response=lambda p: 0.0 * p + 1.0,
        slope=lambda a, y: 0.0 * a,
        curvature=lambda a, y: 0.0 * a,
    )


def _lopsided(c: float) -> Loss:
    scale = 1.0 / max(c, 1.0 - c)
    side = (scale * c, scale * (1.0 - c))
    return Loss(
        f"lopsided({c:g})",
        lambda a, y: 0.5 * side[y] * (a - y) ** 2,
        response=lambda p: p * side[1] / (p * side[1] + (1.0 - p) * side[0]),
        slope=lambda a, y: side[y] * (a - y),
        curvature=lambda a, y: np.full_like(a, side[y]),
    )


def _check_members(losses: Sequence[Loss]) -> None:
    if not losses:
        raise LossError.of("losses", "none", MEMBERS)
    for loss in losses:
        if loss.rows is not None or loss.finite_actions is not None or not shape_of(loss).in_convex_class:
            raise LossError.of("losses", f"{loss.name}, {shape_of(loss)}", MEMBERS)


def _alternate(book: list[Loss], paid: Array, rows: LevelRows, choice: int) -> tuple[float, int, Array]:
    best, theta = -np.inf, np.zeros(rows.X.shape[1])
    for _ in range(ROUNDS):
        found = minimise_over_ball(stages(book[choice], rows.y), rows.X, rows.weight, theta)
        gains = paid - _comparator_costs(book, rows, found.theta)
        if gains[choice] <= best + 1e-12 * rows.weight.sum():
            break
        best, theta, kept = float(gains[choice]), found.theta, choice
        choice = int(np.argmax(gains))
    return best, kept, theta


def _comparator_costs(book: list[Loss], rows: LevelRows, theta: Array) -> Array:
    s = np.clip(rows.X @ theta, -1.0, 1.0)
    acted = ((loss, action_at(loss, s)) for loss in book)
    return np.array([rows.weight @ mix(rows.y, loss.at(a, 0), loss.at(a, 1)) for loss, a in acted])
