"""Difference: how much better one of two predictors is than the other, tested on the same rows.

All tests are paired and treat the rows as independent draws. Means of paired differences are judged by their own
spread, but no smaller than it is where outcomes make both predictors equally good: few events would else look certain.
The error of a group compares |μ|, the size of its mean residual, of both predictors. As
|μ_a| − |μ_b| = ± min(|μ_a − μ_b|, |μ_a + μ_b|), "equally wrong" means that the predictions agree in the mean, or that
the outcomes lie in the middle between them: both must be refuted, which is a valid test also where both predictors are
right. Calibration losses are compared by an estimate without the bias that noise gives; its variance counts both the
part linear in the residuals and the quadratic one, which overstates it where both predictors are nearly calibrated:
there the test is careful.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from swapcal.arrays import Array, Integers
from swapcal.audit import pairs as kept
from swapcal.audit.pairs import PairCell, Pairs
from swapcal.audit.verdict import ALPHA

Word = Literal["better", "worse", "no difference found"]

LEAST_EVENTS = 10.0
"""Groups are tested if at least so many of the rarer outcome are expected."""


class Difference(NamedTuple):
    """One score of two predictors: lower is better; `difference` is after − before with its 95 % interval."""

    name: str
    meaning: str
    before: float
    after: float
    difference: float
    low: float
    high: float
    p_value: float
    word: Word


class GroupDifference(NamedTuple):
    """One group under two predictors; intervals and p-values allow for everything tested of all groups.

    `gap_…` is observed − predicted, `gap_change` the difference of the sizes |gap|, after − before; `ece_…` the mean
    size of gaps over ranges of forecasts, noise included; `loss_…` the calibration loss, noise removed. A group too
    small to be tested has no intervals and p-values.
    """

    name: str
    n: float
    mean_y: float
    gap_before: float
    gap_after: float
    gap_change: float
    gap_low: float | None
    gap_high: float | None
    gap_p: float | None
    ece_before: float
    ece_after: float
    loss_before: float
    loss_after: float
    loss_change: float
    loss_low: float | None
    loss_high: float | None
    loss_p: float | None
    small: bool
    word: Word


class Estimate(NamedTuple):
    """A difference with its standard error, and the degrees of freedom of the latter."""

    value: float
    error: float
    freedom: float

    def p_value(self) -> float:
        """Return how often chance alone gives as much, to either side."""
        if self.error == 0:
            return 1.0 if self.value == 0 else 0.0
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.error))

    def ends(self, alpha: float) -> tuple[float, float]:
        """Return the ends of the interval that misses with probability `alpha`."""
        if self.error == 0:
            return self.value, self.value
        half = -float(stdtrit(self.freedom, alpha / 2)) * self.error
        return self.value - half, self.value + half


def differences(pairs: Pairs, columns: Sequence[str] = ()) -> list[Difference]:
    """Return the overall scores: losses, calibration loss, and the latter within the groups of each named column."""
    found = [_loss(pairs, k) for k in range(len(kept.LOSSES))]
    everyone = pairs.everyone.within()
    said = "Brier score that recalibrating would save, noise removed"
    found.append(_calibration("calibration loss", said, everyone))
    for name in columns:
        inside = f"the same in every group of {name} by itself"
        found.append(_calibration(f"calibration loss within {name}", inside, pairs.columns[name].within()))
    return found


def _loss(pairs: Pairs, k: int) -> Difference:
    meaning = ("mean squared error of the forecasts", "mean surprise at the outcomes, in nats")[k]
    mass, heavy = pairs.everyone.sums[:, kept.MASS].sum(), pairs.everyone.sums[:, kept.MASS2].sum()
    linear, first, second, before, after, null = pairs.losses[k]
    estimate = _mean(mass, heavy, linear, first, second, pairs.everyone.sums[:, kept.ROWS].sum())
    estimate = _at_least(estimate, float(np.sqrt(null)) / mass)
    return _judged(kept.LOSSES[k], meaning, before / mass, after / mass, estimate)


def _calibration(name: str, meaning: str, cell: PairCell) -> Difference:
    before, after, estimate = calibration(cell)
    return _judged(name, meaning, before, after, estimate)


def _judged(name: str, meaning: str, before: float, after: float, estimate: Estimate) -> Difference:
    p = estimate.p_value()
    low, high = estimate.ends(ALPHA)
    return Difference(
        name=name,
        meaning=meaning,
        before=float(before),
        after=float(after),
        difference=float(estimate.value),
        low=low,
        high=high,
        p_value=p,
        word=_word(p, estimate.value),
    )


def _word(p_value: float, change: float) -> Word:
    if p_value > ALPHA:
        return "no difference found"
    return "better" if change < 0 else "worse"


def _mean(mass: float, heavy: float, linear: float, first: float, second: float, rows: float) -> Estimate:
    """Return Σαd/Σα with the error of a ratio of sums: Σα²(d − mean)² over (Σα)²."""
    mean = linear / mass
    spread = max(second - 2 * mean * first + mean**2 * heavy, 0.0)
    if spread <= 1e-13 * second:  # rounding, where every row has the same difference
        spread = 0.0
    freedom = max(mass**2 / heavy - 1, 1.0)
    return Estimate(mean, float(np.sqrt(spread * rows / max(rows - 1, 1))) / mass, freedom)


def _at_least(estimate: Estimate, error: float) -> Estimate:
    return estimate._replace(error=max(estimate.error, error))


def calibration(cell: PairCell) -> tuple[float, float, Estimate]:
    """Return the calibration losses Σ_v n_v/n μ_v² of both predictors, noise removed, and their difference."""
    sums = cell.sums
    mass = sums[:, kept.MASS].sum()
    (a, n_a, mu_a, loss_a), (b, n_b, mu_b, loss_b) = (
        _by_range(where, sums, linear, square)
        for where, linear, square in ((cell.before, kept.R, kept.RR), (cell.after, kept.S, kept.SS))
    )
    before, after = loss_a / mass, loss_b / mass
    u, v = mu_a[a], mu_b[b]
    shift = v**2 - u**2 - (before - after)
    linear = (
        4 * u**2 * sums[:, kept.RR]
        + 4 * v**2 * sums[:, kept.SS]
        - 8 * u * v * sums[:, kept.RS]
        + shift**2 * sums[:, kept.MASS2]
        + 4 * shift * (u * sums[:, kept.R2] - v * sums[:, kept.S2])
    ).sum()
    own = [
        (2 * (np.bincount(where, weights=_centred(sums, m[where], m[where], kind)) / n) ** 2).sum()
        for where, n, m, kind in ((a, n_a, mu_a, "before"), (b, n_b, mu_b, "after"))
    ]
    shared = (4 * _centred(sums, u, v, "both") ** 2 / (n_a[a] * n_b[b])).sum()
    least = (4 * (v - u) ** 2 * sums[:, kept.NULL]).sum()
    variance = max(linear, least) + max(own[0] + own[1] - shared, 0.0)
    if variance <= 1e-13 * (4 * (u**2 * sums[:, kept.RR]).sum() + own[0] + own[1]):
        variance = 0.0
    freedom = max(float(mass**2 / sums[:, kept.MASS2].sum()) - 1, 1.0)
    return before, after, Estimate(after - before, float(np.sqrt(variance)) / mass, freedom)


def _by_range(where: Integers, sums: Array, linear: int, square: int) -> tuple[Integers, Array, Array, float]:
    """Return each cell's range, every range's mass and mean residual, and Σ n_v μ_v² without the bias of noise."""
    place = np.unique(where, return_inverse=True)[1].astype(np.int64)
    total = np.stack([np.bincount(place, weights=sums[:, k]) for k in (kept.MASS, kept.MASS2, linear, square)])
    mass, heavy, residual, squares = total
    room = mass**2 - heavy
    apart = room > 1e-9 * mass**2  # a single row tells nothing of its own noise
    unbiased = np.where(apart, (residual**2 - squares) / np.where(apart, room, 1.0), 0.0)
    return place, mass, residual / mass, float((mass * unbiased).sum())


def _centred(sums: Array, u: Array, v: Array, kind: str) -> Array:
    """Return Σα²(r − u)(s − v) of every cell, or with r or s in both places."""
    first, second, product = {
        "before": (kept.R2, kept.R2, kept.RR),
        "after": (kept.S2, kept.S2, kept.SS),
        "both": (kept.R2, kept.S2, kept.RS),
    }[kind]
    return sums[:, product] - u * sums[:, second] - v * sums[:, first] + u * v * sums[:, kept.MASS2]


def group_differences(pairs: Pairs) -> list[GroupDifference]:
    """Return every group's row, column by column."""
    cells = [
        (f"{name} = {category}", cell)
        for name in sorted(pairs.columns)
        for category, cell in pairs.columns[name].each()
        if len(cell.sums)  # a category may be declared and hold no row
    ]
    return _adjusted([_Group(name, cell) for name, cell in cells])


class _Group:
    """One group before the multiple testing is allowed for."""

    def __init__(self, name: str, cell: PairCell) -> None:
        total = cell.sums.sum(axis=0)
        self.name, self.n = name, float(total[kept.MASS])
        mass, heavy, rows = total[kept.MASS], total[kept.MASS2], total[kept.ROWS]
        self.mean_y = float(total[kept.OBSERVED] / mass)
        self.gaps = float(total[kept.R] / mass), float(total[kept.S] / mass)
        self.small = bool(total[kept.EXPECTED] * mass / heavy < LEAST_EVENTS)
        self.apart, self.middle = _contrasts(total, mass, heavy, rows)
        self.losses = calibration(cell)
        self.ece = tuple(_ece(where, cell.sums, kind) for where, kind in ((cell.before, kept.R), (cell.after, kept.S)))

    def p_values(self) -> tuple[float, float]:
        return max(self.apart.p_value(), self.middle.p_value()), self.losses[2].p_value()

    def gap_ends(self, alpha: float) -> tuple[float, float]:
        """Return the interval of |gap after| − |gap before|: its extremes over the two contrasts' intervals."""
        corners = [_change(s, d) for s in self.middle.ends(alpha) for d in self.apart.ends(alpha)]
        return min(corners), max(corners)


def _contrasts(total: Array, mass: float, heavy: float, rows: float) -> tuple[Estimate, Estimate]:
    """Return μ_b − μ_a and μ_a + μ_b, r and s being the residuals.

    The second's variance is at least that of outcomes with the middle of the two predictions: few events, or none,
    would else look certain.
    """
    r, s, r2, s2, rr, ss, rs = (total[k] for k in (kept.R, kept.S, kept.R2, kept.S2, kept.RR, kept.SS, kept.RS))
    apart = _mean(mass, heavy, s - r, s2 - r2, rr + ss - 2 * rs, rows)
    middle = _mean(mass, heavy, r + s, r2 + s2, rr + ss + 2 * rs, rows)
    least = 2 * float(np.sqrt(total[kept.NULL])) / mass
    return apart, _at_least(middle, least)


def _change(total: float, apart: float) -> float:
    """Return |μ_b| − |μ_a| from μ_a + μ_b and μ_b − μ_a."""
    return (abs(total + apart) - abs(total - apart)) / 2


def _ece(where: Integers, sums: Array, kind: int) -> float:
    place = np.unique(where, return_inverse=True)[1]
    return float(np.abs(np.bincount(place, weights=sums[:, kind])).sum() / sums[:, kept.MASS].sum())


def _adjusted(groups: list[_Group]) -> list[GroupDifference]:
    """Allow for every estimate of every group that is tested: three each (Bonferroni)."""
    family = max(1, 3 * sum(not group.small for group in groups))
    return [_row(group, family) for group in groups]


def _row(group: _Group, family: int) -> GroupDifference:
    change = abs(group.gaps[1]) - abs(group.gaps[0])
    before, after, loss = group.losses
    gap_p, loss_p = (None, None) if group.small else (min(1.0, family * p) for p in group.p_values())
    gap_low, gap_high = (None, None) if group.small else group.gap_ends(ALPHA / family)
    low, high = (None, None) if group.small else loss.ends(ALPHA / family)
    return GroupDifference(
        name=group.name,
        n=group.n,
        mean_y=group.mean_y,
        gap_before=group.gaps[0],
        gap_after=group.gaps[1],
        gap_change=change,
        gap_low=gap_low,
        gap_high=gap_high,
        gap_p=gap_p,
        ece_before=group.ece[0],
        ece_after=group.ece[1],
        loss_before=before,
        loss_after=after,
        loss_change=loss.value,
        loss_low=low,
        loss_high=high,
        loss_p=loss_p,
        small=group.small,
        word=_both(gap_p, change, loss_p, loss.value),
    )


def _both(gap_p: float | None, gap: float, loss_p: float | None, loss: float) -> Word:
    """Return what the two tests of a group say together; where they contradict each other, nothing."""
    words = {_word(p, change) for p, change in ((gap_p, gap), (loss_p, loss)) if p is not None}
    words.discard("no difference found")
    return words.pop() if len(words) == 1 else "no difference found"
