"""Omniprediction errors: exact for swap comparators over all convex losses, bracketed for one comparator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from swapcal._display import display
from swapcal.arrays import Array
from swapcal.errors import AffineRules, somni, somni_levels, support_affine
from swapcal.losses.ball import action_at, minimise_over_ball, shape_of, stages
from swapcal.losses.loss import Loss, LossError, mix
from swapcal.losses.regret import LevelRows

# Swap omniprediction over all convex losses at once, exactly, with the losses that attain it.


@dataclass(frozen=True)
class SwapOmniprediction:
    """SOmni over L^cvx and affine rules as a total over the rows, and what attains it at each level."""

    levels: Array
    weight: Array
    """Rows (or weight) of each level."""
    values: Array
    """SOmni_v; they add up to `total`."""
    A: Array
    g: Array
    rules: AffineRules = "all"
    """Which rules f(x) = (1 + ⟨θ,x⟩)/2: "all" with values in [0, 1], or "restricted", F_res^aff with ‖θ‖ ≤ 1."""

    def __repr__(self) -> str:
        return f"SwapOmniprediction({self._means()})"

    def _means(self) -> str:
        rows = float(self.weight.sum()) or 1.0
        most, which = f"{self.total / rows:.3g}", "an affine rule" if self.rules == "all" else "a rule of F_res^aff"
        slope = "for outcomes 0 and 1 no convex loss of slope up to 1"
        return f"{slope} can lose more than {most} a row to {which} on the features"

    def _repr_html_(self) -> str:
        return display("Swap omniprediction", self._means(), {"levels": len(self.levels)})

    @property
    def total(self) -> float:
        """Σ_v SOmni_v: for outcomes 0 and 1 no convex 1-Lipschitz loss, even one per level, can lose more."""
        return float(self.values.sum())

    @property
    def multicalibration(self) -> float:
        """SMCal_1 against the same rules, which lies between total/2 and total."""
        return float(support_affine(self.A, self.g, self.rules).sum())

    def attained_by(self, index: int, epsilon: float = 1e-3) -> tuple[Loss, Array]:
        """Loss and comparator θ whose gain at level number `index` tends to `values[index]` as `epsilon` → 0.

        The loss is `steep_loss` with k = 0 if A_v < 0 and k = 1 otherwise; ε > 0 makes k its only best response
        to v. The gain is at least (1 − ε) values[index] − ε weight[index].
        """
        attained = somni(self.levels, self.A, self.g, self.rules)
        return steep_loss(float(self.levels[index]), float(attained.action[index]), epsilon), attained.theta[index]


def swap_omniprediction(
    p: ArrayLike, y: ArrayLike, X: ArrayLike, weight: ArrayLike | None = None, *, rules: AffineRules = "all"
) -> SwapOmniprediction:
    """Exact swap omniprediction error of forecasts `p` over L^cvx and affine rules; see `errors.somni_levels`.

    Parameters
    ----------
    rules
        "all" affine functions with values in [0, 1], or "restricted": the paper's F_res^aff, which has no constants
        outside [¼, ¾].

    Examples
    --------
    >>> X = np.full((4, 1), 0.5)
    >>> found = swap_omniprediction([0.5] * 4, [1, 1, 1, 0], X)
    >>> found.total, found.multicalibration
    (2.0, 1.0)
    >>> swap_omniprediction([0.5] * 4, [1, 1, 1, 0], X, rules="restricted").total
    1.5
    >>> loss, theta = found.attained_by(0, epsilon=1e-6)
    >>> gain = loss.induced(0.5, 0.75) - loss((1 + X[0] @ theta) / 2, 0.75)
    >>> round(4 * gain, 4)
    2.0
    """
    rows = LevelRows.of(p, y, X, weight)
    A, g = rows.residual_sums()
    mass = np.add.reduceat(rows.weight, rows.starts)
    return SwapOmniprediction(rows.levels, mass, somni_levels(rows.levels, A, g, rules), A, g, rules)


def steep_loss(v: float, k: float, epsilon: float) -> Loss:
    """Return (1 − ε)(y − v)a/max(v, 1 − v) + ε|a − k|: in L^cvx; at p = v only ε decides, for k.

    Examples
    --------
    >>> loss = steep_loss(0.3, 1.0, 0.01)
    >>> loss.best_response([0.2, 0.3, 0.305, 0.4])
    array([1., 1., 1., 0.])
    """
    if not (0.0 <= v <= 1.0 and k in (0.0, 1.0) and 0.0 < epsilon < 1.0):
        given, expected = f"{(v, k, epsilon)}", "v in [0, 1], k in {0, 1}, epsilon in (0, 1)"
        raise LossError.of("v, k, epsilon", given, expected)
    scale, pull = (1.0 - epsilon) / max(v, 1.0 - v), epsilon * (1.0 - 2.0 * k)
    return Loss(
        f"steep({v:g}, {k:g})",
        lambda a, y: scale * (y - v) * a + epsilon * np.abs(a - k),
        response=lambda p: np.where(scale * (p - v) + pull <= 0.0, 1.0, 0.0),
        slope=lambda a, y: scale * (y - v) + pull + 0.0 * a,
        curvature=lambda a, y: 0.0 * a,
    )


# The plain omniprediction error: one loss and one comparator for all levels, bracketed from both sides.

ROUNDS = 20
MEMBERS = "members of L^cvx (convex, 1-Lipschitz, values in [−1, 1])"


@dataclass(frozen=True)
class OmnipredictionInterval:
    """`lower` ≤ Omni over L^cvx and affine rules ≤ `upper`, as totals; `loss` and (1 + ⟨theta, x⟩)/2 attain `lower`."""

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
    *,
    rules: AffineRules = "restricted",
) -> OmnipredictionInterval:
    """Bracket sup over ℓ in L^cvx and affine rules f of Σ w [ℓ(k_ℓ(p), y) − ℓ(f(x), y)].

    Upper end: the swap error Σ_v SOmni_v, where every level has a loss and comparator of its own. Lower
    end: the best pair found by alternating, from several starts, between the best comparator for a loss (a
    convex program) and the best loss of a dictionary for a comparator; a constant loss keeps it from
    being negative.

    Parameters
    ----------
    losses
        The dictionary, members of L^cvx; `threshold_losses` by default.
    rules
        "restricted": the paper's F_res^aff; or "all" affine functions with values in [0, 1], for which the lower end
        also looks at the constants.

    Examples
    --------
    >>> X = np.full((4, 1), 0.5)
    >>> found = omniprediction([0.5] * 4, [1, 1, 1, 0], X)
    >>> found.lower <= found.upper
    True
    >>> omniprediction([0.0] * 4, [1] * 4, X), omniprediction([0.0] * 4, [1] * 4, X, rules="all").upper
    (OmnipredictionInterval(3 to 3; the lower end by threshold(0.02)), 4.0)
    """
    rows = LevelRows.of(p, y, X, weight)
    dictionary = list(losses) if losses is not None else threshold_losses()
    _check_members(dictionary)
    dictionary.append(_constant())
    paid = np.array([rows.weight @ loss.induced(rows.p, rows.y) for loss in dictionary])
    starts = np.unique(np.linspace(0, len(dictionary) - 1, 5).astype(int))
    tried = [_alternate(dictionary, paid, rows, int(s)) for s in starts]
    tried += [_constant_rule(dictionary, paid, rows)] if rules == "all" else []
    gain, choice, theta = max(tried, key=lambda attempt: attempt[0])
    upper = float(somni_levels(rows.levels, *rows.residual_sums(), rules).sum())
    return OmnipredictionInterval(gain, upper, dictionary[choice], theta)


def _constant_rule(dictionary: list[Loss], paid: Array, rows: LevelRows) -> tuple[float, int, Array]:
    """Return the most any loss of the dictionary gains by one constant action, the loss, and the constant's θ."""
    rate = rows.weight @ rows.y / rows.weight.sum()
    gains = paid - [rows.weight @ loss.induced(np.full(len(rows.y), rate), rows.y) for loss in dictionary]
    choice, theta = int(np.argmax(gains)), np.zeros(rows.X.shape[1])
    theta[0] = 2.0 * (2.0 * float(np.ravel(dictionary[choice].best_response(rate))[0]) - 1.0)
    return float(gains[choice]), choice, theta


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


def _alternate(dictionary: list[Loss], paid: Array, rows: LevelRows, choice: int) -> tuple[float, int, Array]:
    best, theta = -np.inf, np.zeros(rows.X.shape[1])
    for _ in range(ROUNDS):
        minimum = minimise_over_ball(stages(dictionary[choice], rows.y), rows.X, rows.weight, theta)
        gains = paid - _comparator_costs(dictionary, rows, minimum.theta)
        if gains[choice] <= best + 1e-12 * rows.weight.sum():
            break
        best, theta, best_choice = float(gains[choice]), minimum.theta, choice
        choice = int(np.argmax(gains))
    return best, best_choice, theta


def _comparator_costs(dictionary: list[Loss], rows: LevelRows, theta: Array) -> Array:
    s = np.clip(rows.X @ theta, -1.0, 1.0)
    acted = ((loss, action_at(loss, s)) for loss in dictionary)
    return np.array([rows.weight @ mix(rows.y, loss.at(a, 0), loss.at(a, 1)) for loss, a in acted])
