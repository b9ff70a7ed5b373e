"""Conclusions of an audit: witnesses, findings and the verdict, with sizes and tolerance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from swapcal._display import display, named, points
from swapcal.arrays import Array, Index, Places
from swapcal.audit.levels import Levels
from swapcal.audit.rows import Coordinate, contexts, memberships, positive, probabilities
from swapcal.report.findings import Term, Word

# Witness: the function that attains an error, in the user's features and units, and the rows that contribute most.

Form = Literal["linear", "affine", "groups", "regret", "omni"]


@dataclass(frozen=True)
class Witness:
    """The function that attains an error, one per level, and each level's share of the error.

    Attributes
    ----------
    quantity, against : the error and its class, for example ``SMCal_2`` and ``F_1^lin``
    value : the error; `evaluate` recomputes it from the data
    levels, n, v : the levelling rule, the mass and the mean prediction of every level
    contributions : each level's share of `value`
    gaps : signed, Σ α f(x)(y − p)/n per level
    theta : (L, d) directions; for regret, of the correction added to the prediction
    names : per level the worst group, for a finite class
    """

    quantity: str
    against: str
    form: Form
    power: float
    value: float
    levels: Levels
    n: Array
    v: Array
    contributions: Array
    gaps: Array
    coordinates: tuple[Coordinate, ...]
    theta: Array | None = None
    names: tuple[str, ...] | None = None

    @property
    def worst(self) -> int:
        """Index of the level that contributes most."""
        return int(self.contributions.argmax())

    def __repr__(self) -> str:
        return f"Witness({self._about()})"

    def _about(self) -> str:
        rule = named((term.name for term in self.direction()), 3) if len(self.n) else "nothing"
        return f"worst rule on the features: {rule}, most at forecasts near {self.v[self.worst]:.3g}"

    def _repr_html_(self) -> str:
        size = f"{self.value:.4g} in all, {self.value / max(float(self.n.sum()), 1e-300):.3g} a row"
        return display("Witness", self._about(), {"error": size, "details": f"{self.quantity} against {self.against}"})

    def orientation(self, level: int) -> float:
        """Sign s such that outcomes happen more often than predicted where s·⟨θ, x⟩ is large at this level.

        For a finite class, the sign of the gap.
        """
        if self.form == "regret":
            return 1.0
        return -1.0 if self.form == "omni" else float(np.sign(self.gaps[level]))

    def direction(self, level: int | None = None) -> list[Term]:
        """Direction of a level (default: the worst) in the user's features and units, largest first."""
        level = self.worst if level is None else level
        if self.names is not None:
            return [Term(self.names[level], 1.0, None)]
        assert self.theta is not None
        terms = zip(self.theta[level], self.coordinates, strict=True)
        ranked = sorted(((t, c) for t, c in terms if t * c.factor != 0), key=lambda pair: -abs(pair[0]))
        return [Term(c.name, float(t * c.factor), c.unit) for t, c in ranked]

    def function(self, p: Any, X: Any = None, groups: Any = None) -> Array:
        """Value f(x) of the level's function on every row (of the correction, for regret)."""
        p = probabilities("p", p)
        level = self.levels.index(p)
        if self.names is not None:
            return _chosen(self.names, level, groups, len(p))
        assert self.theta is not None
        linear = np.einsum("td,td->t", contexts(X, len(p)), self.theta[level])
        halved: Array = 0.5 * (1.0 + linear) if self.form in {"affine", "omni"} else linear
        return halved

    def carried(self, p: Any, y: Any, X: Any = None, groups: Any = None, weights: Any = None) -> Array:
        """Return every row's contribution to its level's sum."""
        f = self.function(p, X, groups)
        p = probabilities("p", p)
        weight = positive("weights", weights, len(p))
        residual = probabilities("y", y, len(p)) - p
        if self.form == "regret":
            return np.asarray(weight * (2.0 * f * residual - f**2))
        if self.form == "omni":
            level = self.levels.index(p)
            action = np.where(self.gaps < 0, 0.0, 1.0)[level]
            return np.asarray(weight * residual * (action - f) / np.maximum(self.v, 1.0 - self.v)[level])
        return np.asarray(weight * residual * f)

    def evaluate(self, p: Any, y: Any, X: Any = None, groups: Any = None, weights: Any = None) -> float:
        """Recompute the error of this witness from the rows; on the audited data it equals `value`."""
        carried = self.carried(p, y, X, groups, weights)
        p = probabilities("p", p)
        level = self.levels.index(p)
        sums = np.bincount(level, weights=carried, minlength=len(self.n))
        if self.form in {"regret", "omni"}:
            return float(sums.sum())
        mass = np.bincount(level, weights=positive("weights", weights, len(p)), minlength=len(self.n))
        used = mass > 0
        return float(np.sum(mass[used] * np.abs(sums[used] / mass[used]) ** self.power))

    def rows(
        self, p: Any, y: Any, X: Any = None, groups: Any = None, weights: Any = None, level: int | None = None
    ) -> Places:
        """Rows of the level (default: the worst) that contribute to its error, the largest contribution first."""
        level = self.worst if level is None else level
        carried = self.carried(p, y, X, groups, weights)
        inside = self.levels.index(probabilities("p", p)) == level
        sign = np.sign(carried[inside].sum())
        carrying = np.flatnonzero(inside & (sign * carried > 0))
        return carrying[np.argsort(-sign * carried[carrying], kind="stable")]


def _chosen(names: Sequence[str], level: Index, groups: Any, rows: int) -> Array:
    """Mark the rows of the group chosen for their level."""
    member = np.zeros(rows)
    for column, categories in memberships(groups, rows).items():
        label = np.array([f"{column} = {name}" for name in categories.names])[categories.codes]
        member += label == np.array(names)[level]
    return member


# Findings, and the verdict: beyond chance or not, how large, against which tolerance.

ALPHA = 0.05
"""Level of the one simultaneous test, and of every interval that belongs to it."""

TOLERANCE = 0.01
"""Default tolerance: errors up to one percentage point are called small."""

COVERED_SHARE = 0.05
"""Part of the rows that a group or range must hold for the far end of the worst error's interval to cover it; errors
beyond chance are covered in any case."""


class Finding(NamedTuple):
    """One cell of the scan: a group or feature and a range of predictions, with its simultaneous p-value.

    `gap` is the mean of y − p over the group; for a numeric feature, the change of y − p per standard deviation of it.
    `low` and `high` are the ends of its interval, which holds for all cells at once and leaves 0 out exactly when the
    p-value is at most 0.05.
    """

    name: str
    levels: tuple[int, int]
    interval: tuple[float, float]
    n: float
    gap: float
    z: float
    p_value: float
    is_group: bool
    low: float
    high: float
    deviation: float | None = None
    """Standard deviation of a number in its own units, over these rows; None for groups and marks."""

    def __repr__(self) -> str:
        low, high = self.interval
        return f"Finding({self.name}, forecasts {low:.3g} to {high:.3g}: {self.size})"

    @property
    def size(self) -> str:
        """The gap with its interval, rows and p-value, as text."""
        per = "" if self.is_group else " per standard deviation"
        ends = f"{points(self.low)} to {points(self.high)}"
        return f"gap {points(self.gap)} points{per} ({ends}), {self.n:,.0f} rows, p = {self.p_value:.2g}"

    def _repr_html_(self) -> str:
        low, high = self.interval
        return display(self.name, self.size, {"forecasts": f"{low:.3g} to {high:.3g}"})


class Verdict(NamedTuple):
    """The conclusion of an audit, from which headline, marker, exit code and JSON are made.

    Attributes
    ----------
    word : see `judged`
    beyond : whether the errors are significant at level `ALPHA`, by one test over everything examined
    p_value : of that test
    low, high : 95 % interval of the worst error, simultaneous over everything examined, 0.01 being one point; the
        tolerances at which the word turns from "miscalibrated" to "undecided", and from that to "small"
    tolerance : largest error called small
    detectable : smallest error over all rows that is detected with probability 80 %; None if too few rows
    unresolved : groups with less than 5 % of the rows and no error beyond chance; `high` does not cover them
    warnings : sentences to read before relying on the verdict
    """

    word: Word
    beyond: bool
    p_value: float
    low: float
    high: float
    tolerance: float
    detectable: float | None
    unresolved: int
    warnings: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The verdict in one line."""
        if not self.beyond:
            power = "" if self.detectable is None else f"; {100 * self.detectable:.2g} points would have been detected"
            return f"{self.word} (p = {self.p_value:.2g}{power})"
        ends = f"{100 * self.low:.2g} to {100 * self.high:.2g} points"
        return (
            f"{self.word}: the worst error is {ends}, the tolerance {100 * self.tolerance:.2g} (p = {self.p_value:.2g})"
        )

    def __repr__(self) -> str:
        return f"Verdict({self.sentence})"

    def _repr_html_(self) -> str:
        return display("Verdict", self.sentence, {f"warning {k}": text for k, text in enumerate(self.warnings, 1)})


def judged(beyond: bool, low: float, high: float, tolerance: float, *, tested: bool = True) -> Word:
    """Return the word for an error whose size lies between `low` and `high`.

    Examples
    --------
    >>> judged(True, 0.02, 0.05, 0.01), judged(True, 0.001, 0.004, 0.01)
    ('miscalibrated', 'small')
    >>> judged(True, 0.004, 0.03, 0.01), judged(False, 0.0, 0.03, 0.01), judged(False, 0.0, 1.0, 0.01, tested=False)
    ('undecided', 'no error found', 'undecided')
    """
    if not beyond:
        return "no error found" if tested else "undecided"
    if low > tolerance:
        return "miscalibrated"
    return "small" if high <= tolerance else "undecided"


def checked_tolerance(tolerance: float) -> float:
    """Return `tolerance` unchanged. Raises ValueError if it is not in [0, 1).

    Examples
    --------
    >>> checked_tolerance(5)
    Traceback (most recent call last):
    ValueError: tolerance: given 5, expected a difference of probabilities in [0, 1), such as 0.01 for one point
    """
    if not 0.0 <= tolerance < 1.0:
        expected = "a difference of probabilities in [0, 1), such as 0.01 for one point"
        raise ValueError(f"tolerance: given {tolerance:g}, expected {expected}")
    return float(tolerance)
