"""Measures of forecasts by name: those that fields report, and those of the theorems."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from swapcal import errors
from swapcal.arrays import Array
from swapcal.audit import curves, measures
from swapcal.audit.evidence import Evidence
from swapcal.audit.intervals import PLAIN
from swapcal.audit.measures import Against
from swapcal.audit.null import Noise
from swapcal.audit.sums import Sums
from swapcal.audit.verdict import Witness
from swapcal.kernels import tally as kernel
from swapcal.kernels.tally import FLOOR
from swapcal.losses import Loss, omniprediction
from swapcal.report.findings import ConventionalEntry, IsotonicPoint, NetBenefitPoint, Resemblance
from swapcal.tables.values import MISSING, group_name, text_of

DRAWS = 199
"""Draws of the outcomes behind bands of 95 %: their fifth smallest and fifth largest values."""
MOST_POINTS = 60
"""Points of the isotonic curve in a report."""
THRESHOLDS = tuple(k / 50 for k in range(1, 50))
"""Thresholds of the decision curve in a report."""
STEPS = 60
"""Newton steps at most; a fit that needs more has no finite maximum."""


class Spectrum(NamedTuple):
    """Distinct predictions in increasing order, with their total weight and that of their outcomes.

    Exact if all rows are kept, or all distinct predictions; else 4,096 bins of equal width in arcsin √p, each at its
    mean prediction. `heaviness` is Σα²/Σα: what a weight of one row counts for in a variance.
    """

    p: Array
    mass: Array
    ones: Array
    heaviness: float

    @classmethod
    def of(cls, sums: Sums) -> "Spectrum":
        """Return the finest spectrum that the sums hold."""
        table = sums.tally.table
        heaviness = float(table[:, kernel.MASS2].sum() / table[:, kernel.MASS].sum())
        if sums.sample.complete:
            rows = sums.kept()
            p, place = np.unique(rows.p, return_inverse=True)
            weight = rows.copies * rows.weights
            mass, ones = (np.bincount(place, weights=w).astype(np.float64) for w in (weight, weight * rows.y))
        else:
            exact = sums.levels.values is not None
            columns = [kernel.MASS, kernel.PREDICTED, kernel.OBSERVED]
            mass, predicted, ones = (table[:, columns] if exact else sums.histogram.bins).T
            used = mass > 0
            mass, ones = mass[used], ones[used]
            p = predicted[used] / mass
        order = np.argsort(p, kind="stable")
        return cls(p[order], mass[order], ones[order], heaviness)


class MeasureEstimate(NamedTuple):
    """A value with the ends of its 95 % interval, for independent rows."""

    value: float
    low: float
    high: float


class IsotonicCurve(NamedTuple):
    """The isotonic reliability curve (CORP): observed rate by prediction, and its band if predictions are right.

    The Brier score is `miscalibration` − `discrimination` + `uncertainty` (Dimitriadis, Gneiting and Jordan 2021).
    """

    p: Array
    rate: Array
    low: Array
    high: Array
    miscalibration: float
    discrimination: float
    uncertainty: float


class ConventionalMeasures:
    """Measures under their names in medicine, meteorology and machine learning; none enters the verdict.

    All are computed from the distinct predictions and their outcomes, or from a histogram of 4,096 bins where there are
    too many. Intervals are of 95 %, one at a time, for independent rows.

    Examples
    --------
    >>> from swapcal import Audit
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < expit(0.5 * logit(p))  # the predictions are twice too extreme
    >>> measures = Audit(p, y).conventional
    >>> measures.slope().low < 0.5 < measures.slope().high < 1, measures.observed_expected().low < 1
    (True, True)
    """

    def __init__(self, sums: Sums, seed: int = 0) -> None:
        self._sums, self._seed = sums, seed
        self._spectrum = Spectrum.of(sums)

    def slope(self) -> MeasureEstimate | None:
        """Return b of logit P(y) = a + b·logit p: below 1 if predictions are too extreme; None if it does not exist.

        Probabilities are kept 10⁻⁶ away from 0 and 1, as for the log loss.
        """
        x = self._logits
        return self._fit(np.column_stack([np.ones(len(x)), x]), np.zeros(len(x)), 1)

    def intercept(self) -> MeasureEstimate | None:
        """Return a of logit P(y) = a + logit p (calibration in the large): above 0 if predictions are too low."""
        return self._fit(np.ones((len(self._logits), 1)), self._logits, 0)

    @cached_property
    def _logits(self) -> Array:
        clipped: Array = logit(np.clip(self._spectrum.p, FLOOR, 1.0 - FLOOR))
        return clipped

    def _fit(self, design: Array, offset: Array, place: int) -> MeasureEstimate | None:
        """Return one coefficient of a logistic regression by Newton's method, with its Wald interval."""
        _, mass, ones, heaviness = self._spectrum
        beta = np.zeros(design.shape[1])
        for _ in range(STEPS):
            rate = expit(design @ beta + offset)
            information = (design * (mass * rate * (1.0 - rate))[:, None]).T @ design
            if not np.isfinite(beta).all() or np.linalg.cond(information) > 1e12:
                return None
            step = np.linalg.solve(information, design.T @ (ones - mass * rate))
            beta = beta + step / max(1.0, float(np.abs(step).max()))
            if float(np.abs(step).max()) < 1e-10:
                half = PLAIN * float(np.sqrt(heaviness * np.linalg.inv(information)[place, place]))
                return MeasureEstimate(float(beta[place]), float(beta[place]) - half, float(beta[place]) + half)
        return None

    def observed_expected(self) -> MeasureEstimate | None:
        """Return O:E, the observed over the expected number of outcomes; None if either number is 0.

        The interval is that of ln O with variance (1 − rate)/O, as in reviews of clinical prediction models.
        """
        p, mass, ones, heaviness = self._spectrum
        observed, expected = float(ones.sum()), float((mass * p).sum())
        if observed <= 0 or expected <= 0:
            return None
        half = PLAIN * float(np.sqrt(heaviness * (1.0 - observed / float(mass.sum())) / observed))
        ratio = observed / expected
        return MeasureEstimate(ratio, ratio * float(np.exp(-half)), ratio * float(np.exp(half)))

    def net_benefit(self, thresholds: Sequence[float] = THRESHOLDS) -> list[NetBenefitPoint]:
        """Return the decision curve: (true positives − false positives·t/(1 − t)) per row, acting where p ≥ t.

        `everyone` is the net benefit of acting always; of never acting it is 0 (Vickers and Elkin 2006).
        """
        p, mass, ones, heaviness = self._spectrum
        total, points = float(mass.sum()), []
        for t in thresholds:
            if not 0 < t < 1:
                raise ValueError(f"thresholds: given {t}, expected numbers strictly between 0 and 1")
            odds, acted = t / (1.0 - t), p >= t
            true, false = float(ones[acted].sum()) / total, float((mass - ones)[acted].sum()) / total
            benefit, rate = true - odds * false, float(ones.sum()) / total
            half = PLAIN * float(np.sqrt(heaviness * max(true + odds**2 * false - benefit**2, 0.0) / total))
            everyone = rate - odds * (1.0 - rate)
            points.append(NetBenefitPoint(t, benefit, benefit - half, benefit + half, everyone))
        return points

    @cached_property
    def _draws(self) -> Array:
        """(DRAWS, points) weight of the outcomes if the predictions are right."""
        p, mass, _, heaviness = self._spectrum
        rng = np.random.default_rng(self._seed)
        tosses = np.maximum(np.rint(mass / heaviness), 1.0).astype(np.int64)
        drawn: Array = rng.binomial(tosses, p, size=(DRAWS, len(p))) * (mass / tosses)
        return drawn

    def isotonic(self) -> IsotonicCurve:
        """Return the isotonic reliability curve with its consistency band, pointwise 95 % if predictions are right."""
        p, mass, ones, _ = self._spectrum
        rate = _isotonic(ones / mass, mass)
        drawn = np.sort([_isotonic(draw / mass, mass) for draw in self._draws], axis=0)
        base = np.full_like(p, ones.sum() / mass.sum())
        miscalibration = self._excess(p, rate)
        discrimination = self._excess(base, rate)
        uncertainty = curves.brier(self._sums) - miscalibration + discrimination
        return IsotonicCurve(p, rate, drawn[4], drawn[-5], miscalibration, discrimination, uncertainty)

    def _excess(self, one: Array, other: Array) -> float:
        """Return the Brier score of one assignment of rates less that of another."""
        _, mass, ones, _ = self._spectrum
        return float(np.sum(mass * (one**2 - other**2) - 2.0 * ones * (one - other)) / mass.sum())

    def debiased_ece(self) -> float:
        """Return the root mean square gap over the levels, corrected for noise; 0 if the correction is larger.

        From every level's squared gap its rate·(1 − rate)/(rows − 1) is subtracted (Kumar, Liang and Ma 2019). Levels
        of fewer than two rows are left out.
        """
        table = self._sums.tally.table
        table = table[table[:, kernel.MASS] > 0]
        mass, rows = table[:, kernel.MASS], table[:, kernel.MASS] ** 2 / table[:, kernel.MASS2]
        rate, gap = table[:, kernel.OBSERVED] / mass, (table[:, kernel.OBSERVED] - table[:, kernel.PREDICTED]) / mass
        kept = rows >= 2
        if not kept.any():
            return 0.0
        squared = gap[kept] ** 2 - rate[kept] * (1.0 - rate[kept]) / (rows[kept] - 1.0)
        return float(np.sqrt(max(0.0, np.average(squared, weights=mass[kept]))))

    def two_bin(self) -> tuple[float, float]:
        """Return the averaged two-bin error (ATB), and its mean if the predictions are right.

        ∫ (Σ_{p<t} (p − y)/n)² + (Σ_{p≥t} (p − y)/n)² dt over t in [0, 1]. Its mean is smallest for the true
        probabilities, whatever they are (Hartline, Hu and Wu 2025): each row adds its own variance once, in one bin.
        """
        p, mass, ones, heaviness = self._spectrum
        total = float(mass.sum())
        below = np.concatenate([[0.0], np.cumsum(mass * p - ones)]) / total
        widths = np.diff(np.concatenate([[0.0], p, [1.0]]))
        value = float(np.sum(widths * (below**2 + (below[-1] - below) ** 2)))
        return value, heaviness * float(np.sum(mass * p * (1.0 - p))) / total**2

    def cutoff(self) -> tuple[float, float]:
        """Return the cutoff calibration error, and its 97.5 % quantile if predictions are right.

        sup over intervals I of |Σ (y − p) 1[p ∈ I]|/n (Rossellini et al. 2025): the most that acting by any two
        thresholds can lose.
        """
        p, mass, ones, _ = self._spectrum
        expected, total = mass * p, float(mass.sum())
        drawn = np.sort([_widest(draw - expected) for draw in self._draws])
        return _widest(ones - expected) / total, float(drawn[-5]) / total

    def entry(self) -> ConventionalEntry:
        """Return everything for a report."""
        curve, (two_bin, expected), (cutoff, chance) = self.isotonic(), self.two_bin(), self.cutoff()
        lines = {"slope": self.slope(), "intercept": self.intercept(), "observed_expected": self.observed_expected()}
        return ConventionalEntry(
            **{name: None if one is None else tuple(one) for name, one in lines.items()},
            debiased_ece=self.debiased_ece(),
            miscalibration=curve.miscalibration,
            discrimination=curve.discrimination,
            uncertainty=curve.uncertainty,
            two_bin=two_bin,
            two_bin_expected=expected,
            cutoff=cutoff,
            cutoff_chance=chance,
            isotonic=tuple(self._thinned(curve)),
            net_benefit=tuple(self.net_benefit()),
        )

    def _thinned(self, curve: IsotonicCurve) -> list[IsotonicPoint]:
        """Return the curve at points of about equal weight between them, its ends included."""
        heaped = np.cumsum(self._spectrum.mass)
        places = np.searchsorted(heaped, np.linspace(0.0, heaped[-1], MOST_POINTS)).clip(0, len(heaped) - 1)
        columns = (curve.p, curve.rate, curve.low, curve.high)
        return [IsotonicPoint(*(float(column[i]) for column in columns)) for i in np.unique(places)]


class ObservedRate(NamedTuple):
    """How often outcomes happened on some rows, with a 95 % interval (Wilson), rows being independent."""

    where: str
    rows: float
    predicted: float
    observed: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = f"{100 * self.low:.1f} to {100 * self.high:.1f} %"
        return f"{self.where}: {100 * self.observed:.1f} % of {self.rows:,.0f} rows ({ends})"


def observed_around(sums: Sums, p: float, groups: Mapping[str, Any]) -> list[ObservedRate]:
    """Return the observed rates of the rows on p's level, of its groups there, and of its groups: `Audit.around`."""
    if not 0 <= p <= 1:
        raise ValueError(f"p: given {p}, expected a probability")
    level, place = _level_of(sums, p)
    rates = [_observed(place, sums.tally.table[level])]
    for name, names, table in sums.tally.columns():
        category = group_name(text_of(groups[name])) if groups.get(name) is not None else MISSING
        if name in groups and category in names:
            sums_of = table[:, names.index(category)]
            rates.append(_observed(f"{name} = {category}, {place}", sums_of[level]))
            rates.append(_observed(f"{name} = {category}", sums_of.sum(axis=0)))
    return [one for one in rates if one.rows > 0]


def _level_of(sums: Sums, p: float) -> tuple[int, str]:
    """Return the level of a prediction and its name; among values that were kept, the nearest one."""
    levels = sums.levels
    if levels.values is not None:
        level = int(np.argmin(np.abs(np.array(levels.values) - p)))
        return level, f"forecasts of {levels.values[level]:g}"
    level = int(levels.index(np.array([p]))[0])
    return level, f"forecasts from {levels.edges[level]:.3g} to {levels.edges[level + 1]:.3g}"


def _observed(where: str, sums: Array) -> ObservedRate:
    mass = float(sums[kernel.MASS])
    if mass <= 0:
        return ObservedRate(where, 0.0, np.nan, np.nan, 0.0, 1.0)
    rate, rows = float(sums[kernel.OBSERVED]) / mass, mass**2 / float(sums[kernel.MASS2])
    centre, spread = rate + PLAIN**2 / (2 * rows), PLAIN * np.sqrt(rate * (1 - rate) / rows + (PLAIN / (2 * rows)) ** 2)
    ends = [float(end / (1 + PLAIN**2 / rows)) for end in (centre - spread, centre + spread)]
    return ObservedRate(where, mass, float(sums[kernel.PREDICTED]) / mass, rate, max(0.0, ends[0]), min(1.0, ends[1]))


def _isotonic(rate: Array, mass: Array) -> Array:
    return np.asarray(isotonic_regression(rate, weights=mass).x, dtype=np.float64)


def _widest(residuals: Array) -> float:
    """Return the largest |sum| over stretches of neighbours: the range of the running sums, 0 among them."""
    running = np.concatenate([[0.0], np.cumsum(residuals)])
    return float(running.max() - running.min())


# The errors of the theorems: of levels against classes of functions, with witnesses and noise floors.


class TheoryMeasures:
    """Multicalibration, swap regret and omniprediction errors of an audit's rows, by `Audit.theory`.

    Every error is a sum over rows; `mean=True` gives it per row.

    Examples
    --------
    >>> from swapcal import Audit
    >>> audit = Audit([0.5] * 4, [1, 1, 0, 1], [[0.5, 0.1]] * 2 + [[0.5, -0.1]] * 2)
    >>> audit.theory.smcal(2) >= audit.theory.mcal(2)
    True
    """

    def __init__(self, sums: Sums, evidence: Callable[[], Evidence]) -> None:
        self._sums, self._evidence = sums, evidence

    def smcal(self, q: int = 2, against: Against = "linear", *, mean: bool = False) -> float:
        """SMCal_q: Σ_v sup_f n_v |Σ α f(x)(y − p)/n_v|^q over the class `against`."""
        return self._scaled(measures.smcal(self._sums.tally, q, against), mean)

    def psmcal(self, q: int = 2, against: Against = "linear", *, mean: bool = False) -> float:
        """PSMCal_q: `smcal` with the issued probabilities as weights (equal to it if none were given)."""
        return self._scaled(measures.smcal(self._sums.weighted, q, against), mean)

    def mcal(self, q: int = 2, against: Against = "linear", *, mean: bool = False) -> float | tuple[float, float]:
        """MCal_q: sup_f Σ_v n_v |Σ α f(x)(y − p)/n_v|^q; an interval for q = 1 unless the class is groups."""
        return self._scaled_ends(measures.mcal(self._sums.tally, q, against), mean)

    def pmcal(self, q: int = 2, against: Against = "linear", *, mean: bool = False) -> float | tuple[float, float]:
        """PMCal_q: `mcal` with the issued probabilities as weights."""
        return self._scaled_ends(measures.mcal(self._sums.weighted, q, against), mean)

    def cal(self, q: int = 1, *, mean: bool = False) -> float:
        """Cal_q: Σ_v n_v (|A_v|/n_v)^q."""
        return self._scaled(float(errors.cal(self._sums.tally.n, self._sums.tally.A, q)), mean)

    def pcal(self, q: int = 1, *, mean: bool = False) -> float:
        """PCal_q: `cal` with the issued probabilities as weights."""
        return self._scaled(float(errors.cal(self._sums.weighted.n, self._sums.weighted.A, q)), mean)

    def sreg(self, *, mean: bool = False) -> float:
        """SReg against F_4^lin: the squared loss that one linear function per level would have saved."""
        return self._scaled(measures.sreg(self._sums.tally), mean)

    def psreg(self, *, mean: bool = False) -> float:
        """PSReg against F_4^lin: `sreg` with the issued probabilities as weights."""
        return self._scaled(measures.sreg(self._sums.weighted), mean)

    def somni(self, *, mean: bool = False, rules: errors.AffineRules = "all") -> float:
        """SOmni over L^cvx and all affine rules with values in [0, 1], exactly; "restricted" for F_res^aff."""
        tally = self._sums.tally
        return self._scaled(float(errors.somni(tally.v, tally.A, tally.g, rules).total), mean)

    def omni(
        self, *, mean: bool = False, rules: errors.AffineRules = "all", losses: Sequence[Loss] | None = None
    ) -> tuple[float, float]:
        """Omni over L^cvx and affine rules: one loss and one rule for all levels; ends between which it lies.

        Actions are those at the levels' mean predictions. The upper end is SOmni of these, the lower end the best pair
        found among `losses`; see `swapcal.losses.omniprediction`. Raises ValueError where not all rows are kept: only
        `somni` is a function of the sums.

        Examples
        --------
        >>> from swapcal import Audit
        >>> theory = Audit([0.0] * 4, [1] * 4).theory
        >>> theory.omni(mean=True), theory.somni(mean=True), theory.somni(mean=True, rules="restricted")
        ((1.0, 1.0), 1.0, 0.75)
        """
        rows = self._sums.kept()
        if not self._sums.sample.complete:
            kept = f"{len(rows.p):,} of {self._sums.rows:,} rows kept, expected all"
            raise ValueError(f"omni: given {kept}; somni() is exact for all rows and no smaller")
        level = self._sums.tally.v[self._sums.levels.index(rows.p)]
        ends = omniprediction(level, rows.y, rows.X, rows.copies * rows.weights, losses, rules=rules)
        return self._scaled(ends.lower, mean), self._scaled(ends.upper, mean)

    def dsmcal(self, q: int = 2, against: Against = "linear") -> float:
        """DSMCal_q: `smcal` per row, which estimates the error of the population that held-out rows were drawn from.

        A plug-in value, as are `dmcal`, `dsomni` and `saerr`: noise adds to suprema and to squares of sums, so it is
        too large on average, never too small. `noise` gives the mean and quantiles of that for right predictions.
        """
        return self.smcal(q, against, mean=True)

    def dmcal(self, q: int = 2, against: Against = "linear") -> float | tuple[float, float]:
        """DMCal_q: `mcal` per row of a held-out sample; a plug-in value, too large on average."""
        return self.mcal(q, against, mean=True)

    def dsomni(self) -> float:
        """DSOmni: `somni` per row of a held-out sample; a plug-in value, too large on average."""
        return self.somni(mean=True)

    def saerr(self) -> float:
        """SAErr: `sreg` per row of a held-out sample; a plug-in value, too large on average."""
        return self.sreg(mean=True)

    def witness(self, quantity: str = "smcal", q: int = 2, against: str | None = None) -> Witness:
        """Return what attains an error: "smcal", "mcal", "sreg" or "somni".

        Examples
        --------
        >>> from swapcal import Audit
        >>> audit = Audit([0.5] * 4, [1, 1, 0, 1], [[0.5, 0.1]] * 2 + [[0.5, -0.1]] * 2)
        >>> witness = audit.theory.witness("smcal")
        >>> witness.evaluate([0.5] * 4, [1, 1, 0, 1], [[0.5, 0.1]] * 2 + [[0.5, -0.1]] * 2) == audit.theory.smcal()
        True
        """
        return measures.witness(self._sums.tally, self._sums.coordinates, quantity, q, against or "linear")

    def noise(self, quantity: str = "smcal", q: int = 2, against: str | None = None) -> Noise:
        """Return the error with its simulated distribution if the predictions were the truth.

        Examples
        --------
        >>> from swapcal import Audit
        >>> rng = np.random.default_rng(0)
        >>> p = rng.random(2000)
        >>> noise = Audit(p, rng.random(2000) < p).theory.noise("cal", 1)
        >>> noise.low < noise.value < noise.high
        True
        """
        return self._evidence().noise(quantity, q, against)

    def resembles(self, witness: Witness, level: int | None = None, most: int = 3) -> list[Resemblance]:
        """Return the groups whose indicators correlate most with a witness's function, at its worst level.

        Computed from all rows if they are kept, else from the sample.

        Examples
        --------
        >>> from swapcal import Audit
        >>> rng = np.random.default_rng(0)
        >>> late = rng.random(2000) < 0.3
        >>> y = rng.random(2000) < 0.5 + 0.3 * late
        >>> groups = {"late": np.where(late, "yes", "no")}
        >>> audit = Audit.from_features(np.full(2000, 0.5), y, {"hours": 3.0 * late}, groups=groups)
        >>> groups = audit.theory.resembles(audit.theory.witness("sreg"), most=1)
        >>> [(one.group, round(one.correlation)) for one in groups]
        [('late = yes', 1)]
        """
        if witness.theta is None:
            return []
        level = witness.worst if level is None else level
        rows = self._sums.kept([level])
        return curves.likenesses(
            np.einsum("td,d->t", rows.X, witness.theta[level]), rows, self._evidence().design, most
        )

    def _scaled(self, value: float, mean: bool) -> float:
        return value / self._sums.n if mean else value

    def _scaled_ends(self, value: float | tuple[float, float], mean: bool) -> float | tuple[float, float]:
        if isinstance(value, tuple):
            return self._scaled(value[0], mean), self._scaled(value[1], mean)
        return self._scaled(value, mean)
