"""A certificate in sentences: what its numbers mean for whoever acts on the forecasts."""

from math import ceil, floor, log10, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swapcal.engine.certificate import Certificate

NOTHING = "No label has been learned yet, so there is nothing to certify."
LOOSE = 3.0
"""From this many times the error on, a bound is called loose, and why is said."""
TRIVIAL = 0.25
"""Squared error per forecast of saying ½ always: a promise of saving no more than this says nothing."""


def sentences(found: "Certificate") -> list[str]:
    """Return what was computed, how far off that is in points, what bounds it, and what was promised."""
    if not found.rounds:
        return [NOTHING]
    return [_saved(found), _moved(found), _bounded(found), _promised(found)]


def short(found: "Certificate") -> str:
    """Say in a few words how much was left to save."""
    if not found.rounds:
        return "no label learned yet"
    holds = "" if found.holds() else ", DOES NOT HOLD"
    saved, bound = _rate(found.psreg / found.weight), _rate(tightest(found) / found.weight)
    return f"{found.rounds:,} labels: at most {saved} squared error per forecast left to save, bound {bound}{holds}"


def details(found: "Certificate") -> list[str]:
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


def tightest(found: "Certificate") -> float:
    """Return the smaller of the bounds computed."""
    return found.bound if found.tight is None else min(found.bound, found.tight)


def _rounds(found: "Certificate") -> str:
    if found.window is None:
        return f"the {found.rounds:,} labels learned" if found.rounds != 1 else "the one label learned"
    return f"about the last {found.window:,.6g} of {found.rounds:,} labels learned"


def _saved(found: "Certificate") -> str:
    return (
        "No linear rule on these features with weights of bounded size, not even one for each of the "
        f"{found.levels} levels, could have saved more than {_rate(found.psreg / found.weight)} squared error per "
        f"forecast over {_rounds(found)}: computed, not estimated."
    )


def _moved(found: "Certificate") -> str:
    """Say it in points: at the best rule of a convex class around the level, moves squared are at most the saving."""
    return (
        f"Such rules would have moved the forecasts by at most {100 * sqrt(max(found.psreg, 0.0) / found.weight):.2g} "
        "points (root mean square); part of that is chance, which an audit tells apart."
    )


def _bounded(found: "Certificate") -> str:
    said = f"The bound computed beside it, which holds for any labels, is {_rate(tightest(found) / found.weight)}"
    times = found.bound / found.psreg if found.psreg > 0 else 1.0
    if times < LOOSE:
        return f"{said} per forecast."
    return (
        f"{said} per forecast. With every level charged for its start before any row is seen it is "
        f"{_rate(found.bound / found.weight)}, {times:,.0f} times the error: that charge, set by the ridge before the "
        f"rows come, is {100 * found.prior / found.bound:.0f} % of it, and short tables feel it most."
    )


def _promised(found: "Certificate") -> str:
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
