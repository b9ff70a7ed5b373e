"""Every error by name, and the design of the data, which determines its null distribution."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
from scipy.special import ndtri

from swapcal import errors
from swapcal.arrays import Array, Flags, Integers, Keys
from swapcal.audit.clusters import distinct
from swapcal.audit.levels import Bins, Range, ranges_of
from swapcal.audit.rows import Coordinate
from swapcal.audit.sums import Tally
from swapcal.audit.verdict import Form, Witness
from swapcal.kernels import tally as kernel
from swapcal.kernels.tally import fill_cdfs, shape

# Design: everything about the data except the outcomes; and residuals of outcomes on it.

FEW_EVENTS = 10.0
"""Up to this variance of the number of events, the number is drawn exactly; beyond, by an expansion."""

REACH = 8.0
"""Standard deviations up to which exact tails are tabulated: no simulation draws so far out."""


class Cells(NamedTuple):
    """Sums distributed like jump·(Bin(tosses, chance) − tosses·chance), one per cell; all arrays of one shape.

    The tails of a sum of few Bernoulli variables differ much from those of a Gaussian of the same variance, and the
    largest of thousands of sums lies in the tails.
    """

    tosses: Array
    chance: Array
    jump: Array

    def draw(self, draws: int, rng: np.random.Generator, table: "Thresholds") -> Array:
        """Return (draws, …) independent sums."""
        z = rng.standard_normal((draws, self.tosses.size))
        shape(z, table.start, table.values, self.tosses.ravel(), self.chance.ravel(), self.jump.ravel())
        return z.reshape(draws, *self.tosses.shape)

    def narrow(self, where: slice) -> "Cells":
        """Return some of the last axis."""
        return Cells(*(part[..., where] for part in self))

    def thresholds(self) -> "Thresholds":
        """Tabulate the cells that expect few events."""
        rarer = np.minimum(self.chance, 1.0 - self.chance).ravel()
        count = self.tosses.ravel()
        variance = count * rarer * (1.0 - rarer)
        length = np.minimum(count, np.floor(count * rarer + REACH * (1.0 + np.sqrt(variance))))
        length[(variance > FEW_EVENTS) | (self.jump.ravel() == 0)] = 0
        start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        values = np.empty(start[-1])
        fill_cdfs(count, rarer, start, values)
        return Thresholds(start, ndtri(values))


class Thresholds(NamedTuple):
    """Φ⁻¹ of the distribution functions of cells, one after the other; cell c begins at start[c]."""

    start: Integers
    values: Array


def dispersion(sums: Array) -> Array:
    """Return the variance of outcomes in units of p(1 − p): 1 unless some lie strictly between 0 and 1.

    Outcomes in [0, 1] with mean p have at most the variance p(1 − p), that of a coin. If there are fractional ones
    it is estimated by Σα²(y − p)², and cut at that largest possible value.

    Examples
    --------
    >>> sums = np.zeros((2, kernel.SCALARS))
    >>> sums[:, kernel.VARIANCE], sums[:, kernel.SPREAD], sums[:, kernel.FRACTIONAL] = 2.0, 0.5, [0, 3]
    >>> dispersion(sums)
    array([1.  , 0.25])
    """
    variance, spread = sums[..., kernel.VARIANCE], sums[..., kernel.SPREAD]
    estimated = (sums[..., kernel.FRACTIONAL] > 0) & (spread < variance)
    return np.where(estimated, spread / np.where(variance > 0, variance, 1.0), 1.0)


def cells(sums: Array, spread: Array, fractional: Flags) -> Cells:
    """Return the cells with these scalar sums (…, SCALARS), outcomes having `spread` times a coin's variance.

    With equal weights and predictions the binomial is exact. Else it has the sum's variance and, weights and
    predictions being unrelated, its third moment: the jump is Σα³/Σα², not the mean weight, since it is the heavy
    rows that make the tail. Fractional outcomes deviate to either side alike, as when signs are flipped.
    """
    used = sums[..., kernel.ROWS] > 0
    mass, mass2, mass3 = (np.where(used, sums[..., m], 1.0) for m in (kernel.MASS, kernel.MASS2, kernel.MASS3))
    count = np.where(used, np.maximum(np.rint(mass2 * (mass2 / mass3) ** 2), 1.0), 0.0)
    chance = np.where(fractional, 0.5, np.clip(sums[..., kernel.PREDICTED] / mass, 0.0, 1.0))
    unit = count * chance * (1.0 - chance)
    jump = np.sqrt(spread * sums[..., kernel.VARIANCE] / np.where(unit > 0, unit, 1.0))
    return Cells(count, chance, jump)


class Residuals(NamedTuple):
    """Residual sums of B draws of the outcomes: g (B, L, d), and S (B, L, K) over all groups, then all bins."""

    g: Array
    S: Array

    @property
    def A(self) -> Array:
        """Residual sum of each level, (B, L): contexts begin with ½."""
        return 2.0 * self.g[..., 0]


class FixedDesign(NamedTuple):
    """Masses, mean predictions and covariances per level, and the distribution of every group's residual sum.

    Outcomes enter only by the spread of fractional ones: `H` and `group_variance` are those of coins with the
    predicted chances, and `spread` (L,) is the variance of the outcomes of a level relative to coins (1 if all are 0
    or 1).
    `columns` gives, for every group column, its name, its categories and their slice of K; `numbers` the same of the
    bins that follow, and `ranges` the joins of bins that are examined as groups.
    """

    n: Array
    v: Array
    G: Array
    H: Array
    group_variance: Array
    columns: tuple[tuple[str, tuple[str, ...], slice], ...]
    spread: Array
    fractional: Flags
    whole: Cells
    groups: Cells
    numbers: tuple[Bins, ...] = ()
    ranges: tuple[Range, ...] = ()

    @property
    def parts(self) -> list[slice]:
        """The slices of K that each split all rows: group columns and numbers."""
        return [*(where for _, _, where in self.columns), *(bins.where for bins in self.numbers)]

    @property
    def declared(self) -> slice:
        """The slice of K that holds groups."""
        return slice(0, self.numbers[0].where.start) if self.numbers else slice(None)

    def examined(self, values: Array, axis: int = -1) -> Array:
        """Return values of groups and bins as values of groups and ranges: the bins of a range are added."""
        if not self.numbers:
            return values
        values = np.moveaxis(values, axis, -1)
        ends = np.array([end for part in self.ranges for end in (part.where.start, part.where.stop)], np.intp)
        padded = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
        joined = np.add.reduceat(padded, ends, axis=-1)[..., ::2] if len(ends) else values[..., :0]
        return np.moveaxis(np.concatenate([values[..., self.declared], joined], axis=-1), -1, axis)

    def united(self, least: Keys) -> Keys:
        """Return the smallest keys (L, K, most) of groups and bins as those of groups and ranges."""
        joined = [
            reduce(distinct, (least[:, k] for k in range(part.where.start, part.where.stop))) for part in self.ranges
        ]
        return np.concatenate([least[:, self.declared], *(part[:, None] for part in joined)], axis=1)

    @property
    def group_names(self) -> list[str]:
        """Names of all groups, column by column."""
        return [f"{name} = {category}" for name, categories, _ in self.columns for category in categories]

    def without_groups(self) -> "FixedDesign":
        """Return the design for measures that use contexts only: cheaper to simulate."""
        none = slice(0, 0)
        bare = self._replace(columns=(), numbers=(), ranges=())
        return bare._replace(group_variance=self.group_variance[:, none], groups=self.groups.narrow(none))


def observe(tally: Tally, cuts: Mapping[str, tuple[float, ...]] | None = None) -> tuple[FixedDesign, Residuals, Array]:
    """Split a tally into its design, its observed residuals (B = 1) and the table (L, K, SCALARS) of groups and bins.

    `cuts` are the edges of every number's bins, by name.
    """
    columns, tables, start = [], [np.zeros((len(tally.levels), 0, kernel.SCALARS))], 0
    for name, categories, table in tally.columns():
        columns.append((name, categories, slice(start, start + len(categories))))
        tables.append(table)
        start += len(categories)
    numbers = []
    for j, (name, found_cuts) in enumerate((cuts or {}).items()):
        numbers.append(Bins(name, found_cuts, slice(start, start + kernel.BINS)))
        tables.append(tally.bins[:, j])
        start += kernel.BINS
    groups = np.concatenate(tables, axis=1)
    mass = groups[:, :, kernel.MASS].sum(axis=0)
    spread, fractional = dispersion(tally.table), tally.table[:, kernel.FRACTIONAL] > 0
    design = FixedDesign(
        n=tally.n,
        v=tally.v,
        G=tally.G,
        H=tally.H,
        group_variance=groups[:, :, kernel.VARIANCE],
        columns=tuple(columns),
        spread=spread,
        fractional=fractional,
        whole=cells(tally.table, spread, fractional),
        groups=cells(groups, spread[:, None], fractional[:, None]),
        numbers=tuple(numbers),
        ranges=tuple(part for bins in numbers for part in ranges_of(bins, mass[bins.where])),
    )
    return design, Residuals(tally.g[None], groups[None, :, :, kernel.RESIDUAL]), groups


# Every error by name: its value from the sums of a tally or for stacked draws, its meaning, and what attains it.

Against = Literal["linear", "linear4", "affine", "groups"]
Rules = Literal["affine", "rules"]

CLASSES: dict[str, str] = {
    "linear": "F_1^lin",
    "linear4": "F_4^lin",
    "affine": "F_res^aff",
    "rules": "F_[0,1]^aff",
    "groups": "groups",
    "constant": "constant",
}
"""Symbol of each class in the theorems."""

RULES: dict[str, errors.AffineRules] = {"affine": "restricted", "rules": "all"}
"""Affine rules of the two classes of omniprediction, as `errors.somni` names them."""

CLASS_MEANINGS: dict[str, str] = {
    "F_1^lin": "Linear functions of the features, between −1 and 1.",
    "F_4^lin": "Linear functions of the features, between −2 and 2.",
    "F_res^aff": "Affine rules (1 + ⟨θ, x⟩)/2 with ‖θ‖ ≤ 1: values in [0, 1], and no constant outside [¼, ¾].",
    "F_[0,1]^aff": "All affine rules on the features with values in [0, 1], constants included.",
    "constant": "One function: 1 for every row.",
}
"""Each class in words."""

Measure = Callable[[FixedDesign, Residuals], Any]
"""The error of every draw, (B,)."""


class Quantity(NamedTuple):
    """One error: its measure, whether it is cheap to simulate, its symbol, its class and its meaning."""

    measure: Measure
    cheap: bool
    symbol: str
    against: str
    meaning: str
    citation: str


def _accusation(against: str, cheap: bool, measure: Measure, q: int, *, swap: bool) -> Quantity:
    """Return SMCal_q, with a function for each level, if `swap`; else MCal_q, with one function for all levels."""
    gaps = {1: "sum of absolute gaps", 2: "sum of squared gaps, weighted by rows"}[q]
    if swap:
        meaning = f"Error of each level of prediction against its own worst function: {gaps}."
        return Quantity(measure, cheap, f"SMCal_{q}", CLASSES[against], meaning, "definition of swap multicalibration")
    meaning = f"Error of all levels against one worst function: {gaps}."
    return Quantity(measure, cheap, f"MCal_{q}", CLASSES[against], meaning, "definition of multicalibration")


def _calibration(q: int) -> Quantity:
    gaps = {1: "sum of absolute gaps", 2: "sum of squared gaps, weighted by rows"}[q]
    meaning = f"Calibration error, without features and groups: {gaps}."
    return Quantity(
        lambda s, r: errors.cal(s.n, r.A, q), True, f"Cal_{q}", "constant", meaning, "definition of calibration"
    )


def _omniprediction(against: Rules) -> Quantity:
    """Return SOmni over the convex losses and a class of affine rules."""
    rules = RULES[against]
    named = "rule of the class F_res^aff" if against == "affine" else "affine rule with values in [0, 1]"
    meaning = (
        f"Most that any convex loss of slope up to 1 could have saved by a separate {named} for every level, where "
        "outcomes are 0 or 1."
    )
    return Quantity(
        lambda s, r: errors.somni_levels(s.v, r.A, r.g, rules).sum(axis=-1),
        True,
        "SOmni",
        CLASSES[against],
        meaning,
        "definition of swap omniprediction",
    )


def _swapped(q: int) -> dict[tuple[str, int, str], Quantity]:
    measures: dict[str, Measure] = {
        "linear": lambda s, r: errors.smcal_linear(s.n, r.g, q),
        "groups": lambda s, r: errors.smcal_groups(s.n, r.S[:, :, s.declared], q),
        "affine": lambda s, r: errors.smcal_affine(s.n, r.A, r.g, q),
    }
    return {("smcal", q, c): _accusation(c, True, measure, q, swap=True) for c, measure in measures.items()}


def _pooled(q: int) -> dict[tuple[str, int, str], Quantity]:
    linear = errors.mcal2_linear_total if q == 2 else lambda n, g: errors.mcal1_linear(n, g).lower
    affine = errors.mcal2_affine if q == 2 else errors.mcal1_affine
    measures: dict[str, tuple[bool, Measure]] = {
        "linear": (q == 2, lambda s, r: linear(s.n, r.g)),
        "groups": (True, lambda s, r: errors.mcal_groups(s.n, r.S[:, :, s.declared], q)[0]),
        "affine": (False, lambda s, r: affine(s.n, r.A, r.g)[0]),
    }
    return {("mcal", q, c): _accusation(c, *measure, q, swap=False) for c, measure in measures.items()}


QUANTITIES: dict[tuple[str, int, str], Quantity] = {
    **_swapped(2),
    **_swapped(1),
    ("sreg", 2, "linear4"): Quantity(
        lambda s, r: errors.swap_regret(s.v, r.g, s.G)[0].sum(axis=-1),
        False,
        "SReg",
        CLASSES["linear4"],
        "Squared loss a separate linear correction of every level would have saved.",
        "definition of contextual swap regret",
    ),
    **{("somni", 1, against): _omniprediction(against) for against in get_args(Rules)},
    **_pooled(2),
    **_pooled(1),
    ("cal", 2, "constant"): _calibration(2),
    ("cal", 1, "constant"): _calibration(1),
}


def smcal(tally: Tally, q: int, against: str) -> float:
    """SMCal_q: Σ_v sup_f n_v |Σ α f(x)(y − p)/n_v|^q over the class `against`."""
    if against == "groups":
        return float(errors.smcal_groups(tally.n, _group_residuals(tally)[1], q))
    if against == "affine":
        return float(errors.smcal_affine(tally.n, tally.A, tally.g, q))
    return _radius(against) ** q * float(errors.smcal_linear(tally.n, tally.g, q))


def mcal(tally: Tally, q: int, against: str) -> float | tuple[float, float]:
    """MCal_q: sup_f Σ_v n_v |Σ α f(x)(y − p)/n_v|^q; an interval for q = 1 unless the class is groups."""
    if q not in (1, 2):
        raise ValueError(f"q: given {q}, expected 1 or 2 for mcal")
    if against == "groups":
        return float(errors.mcal_groups(tally.n, _group_residuals(tally)[1], q)[0])
    n, A, g = tally.n, tally.A, tally.g
    scale = 1.0 if against == "affine" else _radius(against) ** q
    if q == 2:
        return scale * float((errors.mcal2_affine(n, A, g) if against == "affine" else errors.mcal2_linear(n, g))[0])
    ends = errors.mcal1_affine(n, A, g) if against == "affine" else errors.mcal1_linear(n, g)
    return scale * ends.lower, scale * ends.upper


def sreg(tally: Tally) -> float:
    """SReg against F_4^lin: the squared loss that one linear function per level would have saved."""
    return float(errors.swap_regret(tally.v, tally.g, tally.G)[0].sum())


def witness(
    tally: Tally, coordinates: tuple[Coordinate, ...], quantity: str, q: int = 2, against: str = "linear"
) -> Witness:
    """Return what attains "smcal", "mcal", "sreg" or "somni"."""
    names: tuple[str, ...] | None = None
    theta: Array | None = None
    if quantity == "sreg":
        q, against, symbol, form = 2, "linear4", "SReg", "regret"
        theta = errors.swap_regret(tally.v, tally.g, tally.G)[1]
        theta[:, 0] -= 2.0 * tally.v
    elif quantity == "somni":
        q, against, symbol, form = 1, "affine" if against == "affine" else "rules", "SOmni", "omni"
        theta = errors.somni(tally.v, tally.A, tally.g, RULES[against]).theta
    elif quantity in {"smcal", "mcal"}:
        symbol = f"{'SMCal' if quantity == 'smcal' else 'MCal'}_{q}"
        form = against if against in {"groups", "affine"} else "linear"
        if against == "groups":
            names = _worst_groups(tally, quantity, q)
        else:
            theta = _worst_theta(tally, quantity, q, against)
    else:
        raise ValueError(f'quantity: given {quantity!r}, expected "smcal", "mcal", "sreg" or "somni"')
    sums = _level_sums(tally, form, theta, names)
    safe = np.where(tally.n > 0, tally.n, 1.0)
    shares = sums if form in {"regret", "omni"} else safe * np.abs(sums / safe) ** q
    gaps = (tally.A if form == "omni" else sums) / safe
    return Witness(
        quantity=symbol,
        against=CLASSES[against],
        form=cast(Form, form),
        power=q,
        value=float(shares.sum()),
        levels=tally.levels,
        n=tally.n,
        v=tally.v,
        contributions=shares,
        gaps=gaps,
        coordinates=coordinates,
        theta=theta,
        names=names,
    )


def _worst_groups(tally: Tally, quantity: str, q: int) -> tuple[str, ...]:
    names, S = _group_residuals(tally)
    if quantity == "smcal":
        return tuple(names[k] for k in errors.witness_groups(S))
    return (names[errors.mcal_groups(tally.n, S, q)[1]],) * len(S)


def _worst_theta(tally: Tally, quantity: str, q: int, against: str) -> Array:
    n, A, g = tally.n, tally.A, tally.g
    radius = 1.0 if against == "affine" else _radius(against)
    if quantity == "smcal":
        return radius * (errors.witness_affine(A, g) if against == "affine" else errors.witness_linear(g))
    if against == "affine":
        theta = errors.mcal2_affine(n, A, g)[1] if q == 2 else errors.mcal1_affine(n, A, g).theta
    else:
        theta = errors.mcal2_linear(n, g)[1] if q == 2 else errors.mcal1_linear(n, g).theta
    return np.tile(radius * theta, (len(n), 1))


def _level_sums(tally: Tally, form: str, theta: Array | None, names: tuple[str, ...] | None) -> Array:
    """Return the witness's sum over rows, per level, from the statistics."""
    if names is not None:
        every, S = _group_residuals(tally)
        place = {name: k for k, name in enumerate(every)}
        return np.asarray(S[np.arange(len(names)), [place[name] for name in names]])
    assert theta is not None
    linear = np.einsum("ld,ld->l", theta, tally.g)
    if form == "affine":
        return np.asarray(0.5 * (tally.A + linear))
    if form == "omni":
        action = errors.somni(tally.v, tally.A, tally.g).action
        return np.asarray((action * tally.A - 0.5 * (tally.A + linear)) / np.maximum(tally.v, 1.0 - tally.v))
    if form == "regret":
        return np.asarray(2.0 * linear - np.einsum("ld,lde,le->l", theta, tally.G, theta, optimize=True))
    return np.asarray(linear)


def _group_residuals(tally: Tally) -> tuple[list[str], Array]:
    """Return the names of all groups and Σ α(y − p) of each per level, (L, K)."""
    if not tally.groups:
        raise ValueError("groups: given none, expected groups= or categorical features; issued sums have none")
    columns = tally.columns()
    names = [f"{column} = {category}" for column, categories, _ in columns for category in categories]
    return names, np.concatenate([table[:, :, kernel.RESIDUAL] for _, _, table in columns], axis=1)


def _radius(against: str) -> float:
    if against not in {"linear", "linear4"}:
        raise ValueError(f"against: given {against!r}, expected one of linear, linear4, affine, groups")
    return 2.0 if against == "linear4" else 1.0
