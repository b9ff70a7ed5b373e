"""What a forecaster can prove about itself, in numbers and in sentences for whoever acts on the forecasts."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from math import ceil, floor, log10, sqrt
from typing import Any

import numpy as np

from swapcal import plots
from swapcal.faces import face

NOTHING = "No label has been learned yet, so there is nothing to certify."
LOOSE = 3.0
"""From this many times the error on, a bound is called loose, and why is said."""
TRIVIAL = 0.25
"""Squared error per forecast of saying ½ always: a promise of saving no more than this says nothing."""


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """Errors of the issued distributions on the labels learned so far, and what bounds them.

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

    @property
    def weight(self) -> float:
        """The rounds that the sums are over, each with its share: all of them, or about a window."""
        if self.window is None:
            return float(self.rounds)
        return float(np.expm1(-self.rounds / self.window) / np.expm1(-1.0 / self.window))

    def holds(self, tolerance: float = 1e-9) -> bool:
        """Say whether psmcal_2 ≤ psreg ≤ tight ≤ bound ≤ theorem, up to a relative rounding tolerance.

        Examples
        --------
        >>> Certificate(1, .5, 2, 3, 4, 4, 1, 1, 1, 10, 0, 2, 2).holds()
        True
        """
        known = [self.psmcal_2, self.psreg, self.tight, self.bound, self.theorem]
        chain = [value for value in known if value is not None]
        slack = tolerance * (1.0 + chain[-1])
        return all(a <= b + slack for a, b in pairwise(chain))

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the fields by name."""
        return asdict(self)

    def sentences(self) -> list[str]:
        """Return what the numbers mean, most important first.

        Examples
        --------
        >>> print(Certificate(1, 0.5, 2, 3, 4, 4, 1, 1, 1, 1000, 0, 17, 2).sentences()[0])
        No linear rule on these features with weights of bounded size, not even one for each of the 17 levels, could
        have saved more than 0.0020 squared error per forecast over the 1,000 labels learned: computed, not estimated.
        """
        return _sentences(self)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw what a better rule could have saved beside the bound, by part, per forecast; see `swapcal.plots`."""
        return plots.certificate(self.as_dict(), self.weight, ax=ax)

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), *_details(self)])

    def __repr__(self) -> str:
        return f"Certificate({_short(self)})"

    def _repr_html_(self) -> str:
        said = self.sentences()
        names = ("in points", "bound", "promise")
        details = {"details": "; ".join(line.strip() for line in _details(self)[1:])}
        return face("Certificate", said[0], dict(zip(names, said[1:], strict=False)) | details)


def _sentences(found: Certificate) -> list[str]:
    """Return what was computed, how far off that is in points, what bounds it, and what was promised."""
    if not found.rounds:
        return [NOTHING]
    return [_saved(found), _moved(found), _bounded(found), _promised(found)]


def _short(found: Certificate) -> str:
    """Say in a few words how much was left to save."""
    if not found.rounds:
        return "no label learned yet"
    holds = "" if found.holds() else ", DOES NOT HOLD"
    saved, bound = _rate(found.psreg / found.weight), _rate(_tightest(found) / found.weight)
    return f"{found.rounds:,} labels: at most {saved} squared error per forecast left to save, bound {bound}{holds}"


def _details(found: Certificate) -> list[str]:
    """Return the numbers behind the sentences under their names in the theory, as sums over rounds."""
    unclaimed = "late labels or row weights" if found.window is None else "a window"
    theorem = f"not claimed ({unclaimed})" if found.theorem is None else f"{found.theorem:,.4g}"
    tight = "" if found.tight is None else f", {found.tight:,.4g} with the start priced as the rows saw it"
    return [
        f"Details, as sums over {_rounds(found)}, with {found.levels} levels and {found.dim} coordinates:",
        f"  pseudo swap multicalibration: l2 {found.psmcal_2:,.4g}, l1 {found.psmcal_1:,.4g} (exact)",
        f"  pseudo swap regret: {found.psreg:,.4g} (exact)",
        f"  data-dependent bound: {found.bound:,.4g} (rounding {found.rounding:,.4g} + learning {found.learning:,.4g} "
        f"+ prior {found.prior:,.4g}){tight}",
        f"  worst-case theorem: {theorem}",
    ]


def _tightest(found: Certificate) -> float:
    """Return the smaller of the bounds computed."""
    return found.bound if found.tight is None else min(found.bound, found.tight)


def _rounds(found: Certificate) -> str:
    if found.window is None:
        return f"the {found.rounds:,} labels learned" if found.rounds != 1 else "the one label learned"
    return f"about the last {found.window:,.6g} of {found.rounds:,} labels learned"


def _saved(found: Certificate) -> str:
    return (
        "No linear rule on these features with weights of bounded size, not even one for each of the "
        f"{found.levels} levels, could have saved more than {_rate(found.psreg / found.weight)} squared error per "
        f"forecast over {_rounds(found)}: computed, not estimated."
    )


def _moved(found: Certificate) -> str:
    """Say it in points: at the best rule of a convex class around the level, moves squared are at most the saving."""
    return (
        f"Such rules would have moved the forecasts by at most {100 * sqrt(max(found.psreg, 0.0) / found.weight):.2g} "
        "points (root mean square); part of that is chance, which an audit tells apart."
    )


def _bounded(found: Certificate) -> str:
    said = f"The bound computed beside it, which holds for any labels, is {_rate(_tightest(found) / found.weight)}"
    times = found.bound / found.psreg if found.psreg > 0 else 1.0
    if times < LOOSE:
        return f"{said} per forecast."
    return (
        f"{said} per forecast. With every level charged for its start before any row is seen it is "
        f"{_rate(found.bound / found.weight)}, {times:,.0f} times the error: that charge, set by the ridge before the "
        f"rows come, is {100 * found.prior / found.bound:.0f} % of it, and short tables feel it most."
    )


def _promised(found: Certificate) -> str:
    if found.theorem is None:
        why = "labels came late or rows had weights" if found.window is None else "it is about all labels, not the last"
        return f"The worst-case theorem is not claimed: {why}."
    promise = found.theorem / found.weight
    if promise >= TRIVIAL:
        return (
            f"The worst-case theorem, known before the first label, promises {_rate(promise)} per forecast, which says "
            f"nothing yet: forecasting ½ costs {TRIVIAL:g}. It needs many more labels."
        )
    return f"The worst-case theorem had promised at most {_rate(promise)} per forecast before the first label."


def _rate(value: float) -> str:
    """Write squared error per forecast with two digits, rounded up: it is a promise.

    Examples
    --------
    >>> _rate(0.00131), _rate(0.25), _rate(0.0000151), _rate(0.0)
    ('0.0014', '0.25', '0.000016', '0')
    """
    if value <= 0:
        return "0"
    places = 1 - floor(log10(value))
    return f"{ceil(value * 10.0**places - 1e-6) / 10.0**places:.{max(0, places)}f}"
