"""Certificates of a forecaster: exact errors, a data-dependent bound and the theorem."""

from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import ceil, floor, inf, log10, sqrt
from typing import Any

import numpy as np

from swapcal import bounds, errors
from swapcal._display import display
from swapcal.arrays import Array, Integers
from swapcal.engine import state as memory
from swapcal.kernels.state import (
    CODES_ADAPTIVE,
    CODES_LEARNER,
    FLOOR,
    GAP,
    INNER,
    KAPPA,
    LATE,
    REACH,
    RECENT_COORDINATES,
    RECENT_GAP,
    RIDGE,
    RIDGE_LEARNER,
    START,
    STEP,
    UPDATES,
    WINDOW,
    Memory,
)

NOTHING = "No label has been learned yet, so there is nothing to certify."
LOOSE = 3.0
"""A bound of at least this many times the error is called loose, with the reason."""
TRIVIAL = 0.25
"""Squared error per forecast of a constant ½: a bound above this is vacuous."""
SQUARES = ("psmcal_2", "psreg", "bound", "tight", "theorem", "theorem_psmcal", "rounding", "learning", "prior")
"""Fields of a certificate that grow with the square of the outcomes' scale."""


@dataclass(frozen=True, slots=True)
class IssuedErrors:
    """Errors of the levels p as they were drawn and issued: exact sums over labels, nothing is averaged over the draw.

    Attributes
    ----------
    smcal_1, smcal_2 : swap multicalibration against F_1^lin.
    somni : swap omniprediction: what convex 1-Lipschitz losses with values in [-1, 1], one per level, lose to affine
        rules with values in [0, 1], one per level.
        About outcomes 0 and 1 only, for which the best response to a mean is best; None where their range is another
        than [0, 1]. Outcomes between them can have the same sums and lose more.
    cal : Σ_v |Σ (y - v)|, calibration alone.
    labels : how many labels the sums are over: all of them, also with a window. After loading a state of an earlier
        release, which did not keep the levels drawn: those learned since.
    weight : the same, each label as often as it counts; divide by it for means.
    """

    smcal_1: float
    smcal_2: float
    somni: float | None
    cal: float
    labels: int
    weight: float

    def short(self) -> str:
        """Return in a few words how far off the levels are, per forecast and rounded up.

        Examples
        --------
        >>> print(IssuedErrors(2.5, 0.5, 3.0, 2.0, 100, 100.0).short())
        at most 0.025 per forecast along any linear rule; for outcomes 0 and 1 no convex loss loses more than 0.030
        times its slope
        """
        linear, lost = self.rates()
        short = f"at most {linear} per forecast along any linear rule"
        if lost is None:
            return short
        return f"{short}; for outcomes 0 and 1 no convex loss loses more than {lost} times its slope"

    def rates(self) -> tuple[str, str | None]:
        """Return smcal_1 and somni per forecast, rounded up."""
        weight = self.weight if self.weight > 0 else inf
        return rated(self.smcal_1 / weight), None if self.somni is None else rated(self.somni / weight)

    def scaled(self, width: float) -> "IssuedErrors":
        """Return the errors on the scale of outcomes in a range of this width."""
        return replace(
            self, smcal_1=self.smcal_1 * width, smcal_2=self.smcal_2 * width**2, cal=self.cal * width, somni=None
        )


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """Errors of the issued distributions, and of the levels drawn from them, on the labels learned; and their bounds.

    All are sums over rounds, as in the theorems; divide by `rounds` for means.

    Attributes
    ----------
    psmcal_1, psmcal_2 : pseudo swap multicalibration against F_1^lin, exact.
    psreg : pseudo contextual swap regret against F_4^lin, exact.
    bound : data-dependent bound on psreg (hence on psmcal_2); holds for any labels and any delays.
    tight : the same with the start priced as the rows saw it, level by level: what all linear rules as near to the
        level's start as its best one could have saved (`bounds.ball_regret`). At least psreg, at most bound.
    theorem : worst-case bound on psreg, from T, d, λ, κ, the first levels and the prior, hence known before any data;
        None once a label came late, which it excludes.
    theorem_psmcal : the same for psmcal_2, whose comparators are closer to the priors.
    rounding, learning, prior : the parts of `bound`: Σ D_t, Σ_v R_v, Σ_v λ‖θ_v - θ_0‖².
    rounds, late, levels, dim : labels learned, how many of them for a forecast that was outdated by then (labels had
        been learned since it was issued, here or by the copy that issued it), levels, d.
    window : None, or the number of labels after which a label's share in all sums has fallen to 1/e; divide by `weight`
        for means.
    issued : the errors of the issued levels p themselves; None where none are issued, as during a fit. All other errors
        and bounds are of the distributions that the levels are drawn from. None of them is about the mean forecast.
    width : high - low of the range of outcomes that all errors and bounds are on the scale of: ℓ2 errors, regrets and
        bounds are those of outcomes in [0, 1] times its square, ℓ1 errors times itself.
    total : None, or the sum of the labels' weights where they have some: all errors and bounds are then of weighted
        sums; divide by `weight` for means.
    """

    psmcal_1: float
    psmcal_2: float
    psreg: float
    bound: float
    theorem: float | None
    theorem_psmcal: float | None
    rounding: float
    learning: float
    prior: float
    rounds: int
    late: int
    levels: int
    dim: int
    window: float | None = None
    tight: float | None = None
    issued: IssuedErrors | None = None
    total: float | None = None
    width: float = 1.0

    def scaled(self, width: float) -> "Certificate":
        """Return the certificate for outcomes in [0, 1] on the scale of outcomes in a range of this width.

        Examples
        --------
        >>> scaled = Certificate(1, 0.5, 2, 3, 4, 4, 1, 1, 1, 10, 0, 2, 2).scaled(10.0)
        >>> scaled.psmcal_1, scaled.psreg, scaled.bound, scaled.holds()
        (10.0, 200.0, 300.0, True)
        """
        squares = {name: getattr(self, name) for name in SQUARES}
        own: dict[str, Any] = {name: None if value is None else value * width**2 for name, value in squares.items()}
        issued = None if self.issued is None else self.issued.scaled(width)
        return replace(self, psmcal_1=self.psmcal_1 * width, issued=issued, width=width, **own)

    @property
    def weight(self) -> float:
        """The rounds that the sums are over, each with its share: all of them, or about a window."""
        if self.total is not None:
            return self.total
        if self.window is None:
            return float(self.rounds)
        return float(np.expm1(-self.rounds / self.window) / np.expm1(-1.0 / self.window))

    def holds(self, tolerance: float = 1e-6) -> bool:
        """Return whether psmcal_2 ≤ psreg ≤ tight ≤ bound ≤ theorem, and psmcal_2 ≤ theorem_psmcal.

        Each pair is compared up to `tolerance` times the larger of its two numbers. A ridge of 1e8, the largest, leaves
        some eight digits of psreg; at ridges up to 1 it is exact to the last three or four bits.

        Examples
        --------
        >>> Certificate(1, .5, 2, 3, 4, 4, 1, 1, 1, 10, 0, 2, 2).holds()
        True
        """
        known = [self.psmcal_2, self.psreg, self.tight, self.bound, self.theorem]
        chain = [value for value in known if value is not None]
        pairs = [*pairwise(chain), (self.psmcal_2, self.theorem_psmcal)]
        return all(a <= b + tolerance * max(abs(a), abs(b)) for a, b in pairs if b is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name, those of `issued` within it."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """Return what the numbers mean, most important first.

        Examples
        --------
        >>> print(Certificate(1, 0.5, 2, 3, 4, 4, 1, 1, 1, 1000, 0, 17, 2).sentences()[0])
        No linear rule on these features with weights of bounded size, not even one for each of the 17 levels, could
        have saved more than 0.0020 squared error per forecast over the 1,000 labels learned, averaged over the issued
        distributions: computed, not estimated.
        """
        return _sentences(self)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the possible saving and the bound, by part, per forecast; see `swapcal.plots`."""
        from swapcal import plots

        return plots.certificate(self.as_dict(), self.weight, ax=ax)

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), *_details(self)])

    def __repr__(self) -> str:
        return f"Certificate({_short(self)})"

    def _repr_html_(self) -> str:
        sentences = self.sentences()
        names = ("in points" if self.width == 1 else "in size", "bound", "promise", "issued levels")
        details = {"details": "; ".join(line.strip() for line in _details(self)[1:])}
        return display("Certificate", sentences[0], dict(zip(names, sentences[1:], strict=False)) | details)


def _sentences(cert: Certificate) -> list[str]:
    """Return what was computed, how far off that is in points, what bounds it, and what was promised."""
    if not cert.rounds:
        return [NOTHING]
    sentences = [_saved(cert), _moved(cert), _bounded(cert), _promised(cert)]
    return sentences if cert.issued is None else [*sentences, _drawn(cert.issued, cert.rounds)]


def _drawn(issued: IssuedErrors, rounds: int) -> str:
    """Return a sentence on the errors of the issued levels, per forecast and rounded up."""
    if not issued.labels:
        return "Of the issued levels nothing is known: the saved state was of a release that did not keep them."
    which = (
        "all labels learned" if issued.labels == rounds else f"the {issued.labels:,} labels since the state was loaded"
    )
    linear, lost = issued.rates()
    losses = "" if lost is None else (
        f", and for outcomes 0 and 1 no convex loss of slope up to 1 loses more than {lost} per forecast to an affine "
        "rule"
    )  # fmt: skip
    return (
        f"The issued levels themselves, as drawn, over {which}: their residuals correlate with no linear rule of "
        f"values up to 1, one for each level, by more than {linear} per forecast{losses}. None of this is about the "
        "mean forecast."
    )


def _short(cert: Certificate) -> str:
    """Return in a few words how much was left to save."""
    if not cert.rounds:
        return "no label learned yet"
    holds = "" if cert.holds() else ", DOES NOT HOLD"
    saved, bound = rated(cert.psreg / cert.weight), rated(_tightest(cert) / cert.weight)
    return f"{cert.rounds:,} labels: at most {saved} squared error per forecast left to save, bound {bound}{holds}"


def _details(cert: Certificate) -> list[str]:
    """Return the numbers behind the sentences under their names in the theory, as sums over rounds."""
    unclaimed = "late labels or row weights" if cert.window is None else "a window"
    theorem = f"not claimed ({unclaimed})" if cert.theorem is None else f"{cert.theorem:,.4g}"
    tight = "" if cert.tight is None else f", {cert.tight:,.4g} with the start priced as the rows saw it"
    return [
        f"Details, of the distributions, as sums over {_rounds(cert)}, with {cert.levels} levels and {cert.dim} "
        "coordinates:",
        f"  pseudo swap multicalibration: l2 {cert.psmcal_2:,.4g}, l1 {cert.psmcal_1:,.4g} (exact)",
        f"  pseudo swap regret: {cert.psreg:,.4g} (exact)",
        f"  data-dependent bound: {cert.bound:,.4g} (rounding {cert.rounding:,.4g} + learning {cert.learning:,.4g} "
        f"+ prior {cert.prior:,.4g}){tight}",
        f"  worst-case theorem: {theorem}",
        *([] if cert.issued is None else [_drawn_details(cert.issued)]),
    ]


def _drawn_details(issued: IssuedErrors) -> str:
    somni = "" if issued.somni is None else f" swap omniprediction {issued.somni:,.4g},"
    return (
        f"  issued levels, as drawn, over {issued.labels:,} labels: swap multicalibration l2 {issued.smcal_2:,.4g}, "
        f"l1 {issued.smcal_1:,.4g},{somni} calibration {issued.cal:,.4g} (exact)"
    )


def _tightest(cert: Certificate) -> float:
    """Return the smaller of the bounds computed."""
    return cert.bound if cert.tight is None else min(cert.bound, cert.tight)


def _rounds(cert: Certificate) -> str:
    weighted = "" if cert.total is None else ", by their weights"
    if cert.window is None:
        return (f"the {cert.rounds:,} labels learned" if cert.rounds != 1 else "the one label learned") + weighted
    return f"about the last {cert.window:,.6g} of {cert.rounds:,} labels learned{weighted}"


def _saved(cert: Certificate) -> str:
    return (
        "No linear rule on these features with weights of bounded size, not even one for each of the "
        f"{cert.levels} levels, could have saved more than {rated(cert.psreg / cert.weight)} squared error per "
        f"forecast over {_rounds(cert)}, averaged over the issued distributions: computed, not estimated."
    )


def _moved(cert: Certificate) -> str:
    """Return it in points: at the best rule of a convex class around a level, moves squared are at most the saving."""
    move = sqrt(max(cert.psreg, 0.0) / cert.weight)
    far = f"{rated(100 * move)} points" if cert.width == 1 else rated(move)
    return (
        f"The best such rules would have moved the forecasts by at most {far} (root mean square over the same "
        "distributions); part of that is chance, which an audit separates."
    )


def _bounded(cert: Certificate) -> str:
    if _tightest(cert) / cert.weight >= TRIVIAL * cert.width**2:
        return (
            "The bound computed beside it is not below that of always forecasting the middle yet: it needs more labels."
        )
    rate = rated(_tightest(cert) / cert.weight)
    start = f"The bound computed beside it, of the distributions and for any labels, is {rate}"
    times = cert.bound / cert.psreg if cert.psreg > 0 else 1.0
    if times < LOOSE:
        return f"{start} per forecast."
    return (
        f"{start} per forecast. With every level charged for its start before any row is seen it is "
        f"{rated(cert.bound / cert.weight)}, {times:,.0f} times the error: that charge, set by the ridge before the "
        f"rows come, is {100 * cert.prior / cert.bound:.0f} % of it, and short tables feel it most."
    )


def _promised(cert: Certificate) -> str:
    if cert.theorem is None:
        why = "labels came late or rows had weights" if cert.window is None else "it is about all labels, not the last"
        return f"The worst-case theorem about the distributions is not claimed: {why}."
    promise = cert.theorem / cert.weight
    if promise >= TRIVIAL * cert.width**2:
        return "The worst-case theorem about the distributions promises nothing yet: it needs many more labels."
    return (
        f"The worst-case theorem about the distributions had promised at most {rated(promise)} per forecast before the "
        "first label."
    )


def rated(value: float) -> str:
    """Write squared error per forecast with two digits, rounded up: it is a promise.

    Examples
    --------
    >>> rated(0.00131), rated(0.25), rated(0.0000151), rated(0.0)
    ('0.0014', '0.25', '0.000016', '0')
    """
    if value <= 0:
        return "0"
    places = 1 - floor(log10(value))
    return f"{ceil(value * 10.0**places - 1e-6) / 10.0**places:.{max(0, places)}f}"


# Certifying: exact errors, a data-dependent bound and the theorem, from a forecaster's memory.

NEWTON = ("ons", "ons-fast")


def certify(state: Memory, dim: int, learner: str, drawn_from: int, *, uniform: bool) -> Certificate:
    """Return the certificate of the present state; the levels drawn are known after the first `drawn_from` labels.

    The learners' part of the bound is their realised excess R_v = Σα(w_issued - y)² - min_θ[Σα(⟨θ,x⟩ - y)² +
    λ‖θ - θ_0‖²], which is exact for any delay of labels and any issuer of the wishes. Online Newton Step has a bound
    with a prior of its own weight besides, which needs every wish to be its learner's at the time of learning; while
    that held, the smaller sum is reported. (For ridge and VAW that other bound is never smaller than R_v.)
    """
    slots = memory.slots_in_order(state)
    at = memory.places(dim, float(state.knobs[WINDOW]))
    n, g = state.mass[slots], state.residual[np.ix_(slots, at)]
    ridge, late = float(state.knobs[RIDGE]), int(state.counts[LATE])
    per_level = np.array([level_terms(state, slot, dim, ridge) for slot in slots])
    gain, excess, distance2, tight = per_level.sum(axis=0).tolist()
    parts = [(excess, ridge * distance2)]
    if late == 0 and learner in NEWTON:
        weight = 0.5 * float(state.knobs[STEP]) * float(state.knobs[START])
        parts.append((float(np.sum(state.potential[slots])), weight * distance2))
    learning, prior = min(parts, key=sum)
    bound = float(state.totals[GAP]) + learning + prior
    theorem, theorem_psmcal = None, None
    if late == 0:
        theorem, theorem_psmcal = (
            theorem_of(state, dim, learner, target, uniform=uniform) for target in ("sreg", "smcal")
        )
    return Certificate(
        psmcal_1=errors.smcal_linear(n, g, 1),
        psmcal_2=errors.smcal_linear(n, g, 2),
        psreg=gain,
        bound=bound,
        theorem=theorem,
        theorem_psmcal=theorem_psmcal,
        rounding=float(state.totals[GAP]),
        learning=learning,
        prior=prior,
        rounds=int(state.counts[UPDATES]),
        late=late,
        levels=len(slots),
        dim=dim,
        tight=min(bound, float(state.totals[GAP]) + tight),
        issued=issued_errors(state, dim, drawn_from),
    )


def issued_errors(state: Memory, dim: int, drawn_from: int) -> IssuedErrors:
    """Return the errors of the levels drawn; Σ 1[p = v] (y - v) is 2ĝ_1, because x_1 = ½."""
    slots = memory.slots_in_order(state)
    n, g = state.drawn_mass[slots], state.drawn_residual[np.ix_(slots, memory.places(dim, float(state.knobs[WINDOW])))]
    A = 2.0 * g[:, 0]
    return IssuedErrors(
        smcal_1=errors.smcal_linear(n, g, 1),
        smcal_2=errors.smcal_linear(n, g, 2),
        somni=float(errors.somni_levels(state.z[slots], A, g, "all").sum()),
        cal=errors.cal(n, A, 1),
        labels=int(state.counts[UPDATES]) - drawn_from,
        weight=float(n.sum()),
    )


def certify_recent(state: Memory, dim: int, drawn_from: int) -> Certificate:
    """Return the certificate of the sums with a short memory; beside it the issued levels of all labels.

    With α_t γ^{T-t} for α_t, everything that `certify` proves of the realised excess holds unchanged: no property of
    the learners is used. `bounds.discounted_psreg` is about learners that fade as the sums do; the levels' do not.
    """
    slots, ridge, window = memory.slots_in_order(state), float(state.knobs[RIDGE]), float(state.knobs[WINDOW])
    inner, at = dim + RECENT_COORDINATES, memory.places(dim, window)
    sums = [memory.recent_sums(state, slot, inner) for slot in slots]
    n, g = np.array([s.mass for s in sums]), np.array([s.residual[at] for s in sums])
    seen = n > FADED
    prior = state.recent_prior[1, :inner]
    used = [(state.z[slot], s) for slot, s in zip(slots, sums, strict=True) if s.mass > FADED]
    terms = [_terms(v, s.mass, *s, prior, at, ridge) for v, s in used]
    gain, learning, distance2, tight = np.array(terms).reshape(-1, 4).sum(axis=0).tolist()
    gap = float(state.totals[RECENT_GAP])
    bound = gap + learning + ridge * distance2
    return Certificate(
        psmcal_1=errors.smcal_linear(n[seen], g[seen], 1),
        psmcal_2=errors.smcal_linear(n[seen], g[seen], 2),
        psreg=gain,
        bound=bound,
        theorem=None,
        theorem_psmcal=None,
        rounding=gap,
        learning=learning,
        prior=ridge * distance2,
        rounds=int(state.counts[UPDATES]),
        late=int(state.counts[LATE]),
        levels=len(slots),
        dim=dim,
        window=window,
        tight=min(bound, gap + tight),
        issued=issued_errors(state, dim, drawn_from),
    )


def level_terms(state: Memory, slot: int, dim: int, ridge: float) -> tuple[float, float, float, float]:
    """Return one level's swap regret, realised excess R_v, ‖θ_v - θ_0‖² and tight bound; θ_v attains the regret."""
    if state.mass[slot] == 0.0:
        return 0.0, 0.0, 0.0, 0.0
    window = float(state.knobs[WINDOW])
    inner, at = dim + (RECENT_COORDINATES if window else 0), memory.places(dim, window)
    G, g = memory.gram(state, slot, inner), state.residual[slot, :inner]
    n, excess = float(state.mass[slot]), float(state.excess[slot])
    return _terms(state.z[slot], n, G, g, excess, state.prior[slot, :inner], at, ridge)


def _terms(
    v: float, n: float, G: Array, g: Array, excess: float, prior: Array, at: Integers, ridge: float
) -> tuple[float, float, float, float]:
    """Return swap regret, realised excess, ‖θ_v - θ_0‖² and tight bound of sums over a learner's coordinates.

    Comparators see only the coordinates `at`. Few rows leave many comparators equally good. The one nearest to θ_0
    counts, the only one that does not depend on rounding: θ_v maximises the regret less ε‖θ - θ_0‖², and εB² is added
    for what that may miss.
    """
    level, own, seen, gram = np.array([v]), prior[None, at], g[None, at], G[None, at[:, None], at]
    gain, _ = errors.swap_regret(level, seen, gram)
    away = own.copy()
    away[:, 0] -= 2.0 * v
    near = NEARNESS * min(1.0, ridge)
    _, comparator = errors.swap_regret(level, seen + near * away, gram + near * np.eye(len(at)))
    penalised, _ = errors.ridge_regret(level, g[None], G[None], ridge, prior[None])
    missed = PAID * float(np.linalg.norm(prior) + MOST_COMPARATOR) ** 2
    elsewhere = float(np.sum(prior**2) - np.sum(own**2))
    distance2 = float(np.sum((comparator - own) ** 2)) + elsewhere + missed
    tight = excess + _saved_near(v, G, g, prior, distance2)
    saved = _raised_to_known(float(gain[0]), float(errors.support_linear(seen)[0]) ** 2 / n, ridge)
    return saved, excess + float(penalised[0]), distance2, tight + missed * min(1.0, ridge)


def _raised_to_known(gain: float, known: float, ridge: float) -> float:
    """Return a level's gain, raised to `known` as far as the rounding of G may hide it.

    v + ηf with f in F_1^lin and η = Σ α f(x)(y − v)/n saves at least nη², its share of PSMCal_2, which needs no G.
    """
    return gain if known <= gain * (1.0 + LAST_DIGITS) else min(known, gain + ROUNDED * ridge)


def _saved_near(v: float, G: Array, g: Array, start: Array, distance2: float) -> float:
    """Bound what any rule within `distance2` of the start saves over the level's own value."""
    away = start.copy()
    away[0] -= 2.0 * v
    pushed = G @ away
    values, basis = np.linalg.eigh(G)
    at_start = float(2.0 * g @ away - away @ pushed)
    return at_start + float(bounds.ball_regret(values, (g - pushed) @ basis, distance2))


# G = P⁻¹ - λI is off by a few thousand times λ·2e-16 at most, and a gain by that; differences in the last digits stay.
ROUNDED, LAST_DIGITS = 1e-12, 1e-12
# A mass that has faded to this counts as 0: its residuals are rounding.
FADED = 1e-9
# Weight of the pull towards θ_0, what is paid for it per λ (or per Online Newton Step's βω/2 ≥ 0.01), and the largest
# norm of a comparator in 2Θ_1.
NEARNESS, PAID = 1e-8, 1e-6
MOST_COMPARATOR = 4.0

# How far comparators reach along the constant and along the rest, and whether they are centred on the level's own
# value: 2Θ_1 around 0 for swap regret, 2v e_1 + Θ_1 for multicalibration.
_REACH = {"sreg": (4.0, 4.0 / np.sqrt(3.0), 0.0), "smcal": (2.0, 2.0 / np.sqrt(3.0), 1.0)}


def distance2_of(state: Memory, dim: int, target: str) -> float:
    """Return B² of fixed levels, the largest ‖θ - θ_0‖² over levels and comparators; attained at an extreme point."""
    first_reach, tail_reach, centred = _REACH[target]
    slots, at = memory.slots_in_order(state), memory.places(dim, float(state.knobs[WINDOW]))
    prior = state.prior[slots].copy()
    elsewhere = np.sum(np.delete(prior, at, axis=1) ** 2, axis=1)
    prior = prior[:, at]
    prior[:, 0] -= centred * 2.0 * state.z[slots]
    head, tail = np.abs(prior[:, 0]), np.linalg.norm(prior[:, 1:], axis=1)
    farthest = np.maximum((first_reach + head) ** 2 + tail**2, head**2 + (tail_reach + tail) ** 2)
    return float(np.max(farthest + elsewhere))


def theorem_of(state: Memory, dim: int, learner: str, target: str, *, uniform: bool) -> float:
    """Return the worst-case bound on pseudo swap regret for the levels this forecaster plays on.

    Every number in it was known before the first label: T, d, λ, κ, the first levels and the prior. With a window the
    learners' contexts have two more coordinates, each in [-½, ½]; over their largest norm they are contexts again,
    under λ over its square.

    Where λ changed after s labels, s is added. Let V(λ) be the least regularised loss on those. The squared errors
    after them, without what the logarithm charges, sum to the least regularised loss of all less V(λ) ≥ 0, since the
    learners then are the solutions with the new λ; and those before them are at most s.
    """
    rounds = max(int(state.counts[UPDATES]), 1)
    ridge, kappa, floor, reach = (float(state.knobs[knob]) for knob in (RIDGE, KAPPA, FLOOR, REACH))
    earlier = float(state.knobs[STEP]) if state.codes[CODES_LEARNER] == RIDGE_LEARNER else 0.0
    norm2, inner = 1.0, dim
    if state.knobs[WINDOW]:
        norm2, inner = 1.0 + RECENT_COORDINATES / 4.0, dim + RECENT_COORDINATES
    ridge /= norm2
    refines = int(state.codes[CODES_ADAPTIVE])
    if refines:
        distance2 = norm2 * bounds.adaptive_distance2(target, reach)
        how: Any = {"learner": learner, "floor": floor, "inner": refines == INNER}
        return earlier + float(bounds.adaptive_psreg(rounds, inner, kappa, ridge, distance2, **how))
    slots, distance2 = memory.slots_in_order(state), norm2 * distance2_of(state, dim, target)
    if uniform:
        uniformly = bounds.psreg(rounds, inner, len(slots) - 1, learner=learner, ridge=ridge, distance2=distance2)
        return earlier + float(uniformly)
    points = state.z[slots].tolist()
    return earlier + float(bounds.psreg_grid(points, rounds, inner, learner=learner, ridge=ridge, distance2=distance2))
