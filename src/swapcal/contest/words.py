"""A contest in a sentence: what would be gained, by which method, and when to keep what one has."""

from swapcal.audit.difference import Difference
from swapcal.contest.entry import Entry
from swapcal.faces import changes

SOUND = ("no error found", "small")
"""Verdicts that find nothing to mend."""


def gain(mine: Entry, swap: Entry, simple: Entry | None, beyond: Difference | None) -> str:
    """Say what there is to gain.

    Parameters
    ----------
    simple : the best recalibration that is better than yours, if one is
    beyond : the squared error of swapcal beside that of `simple`
    """
    if simple is not None and (not swap.better or beyond is None or beyond.word != "better"):
        enough = f"A simple recalibration is enough: {simple.name} lowers the squared error {_by(simple)}"
        return f"{enough}; {_rest(simple, swap)}."
    if swap.better:
        best = "No recalibration of the score alone does."
        if simple is not None:
            best = f"The best recalibration of the score alone, {simple.name}, reaches {simple.brier:.4g}."
        return f"You would gain: swapcal lowers the squared error {_by(swap)}. {best}{_verdicts(mine, swap)}"
    if mine.verdict == "miscalibrated" and swap.verdict in SOUND:
        return (
            f"The squared error would not change beyond chance ({_interval(swap.squared)}), but your forecasts are "
            f"miscalibrated; verdict on swapcal's: {swap.verdict}. Worth it if groups matter to you."
        )
    if _worse(swap):
        return f"Nothing to gain: keep yours. swapcal would do worse: squared error {_interval(swap.squared)}."
    chance = f"No method lowers the squared error beyond chance (swapcal: {_interval(swap.squared)})."
    return f"Nothing to gain: keep yours. {chance}"


def _worse(entry: Entry) -> bool:
    return entry.squared is not None and entry.squared.word == "worse"


def _by(entry: Entry) -> str:
    found = entry.squared
    assert found is not None, "yours is not compared with itself"
    share = f"{100 * (found.before - found.after) / found.before:.2g} %" if found.before > 0 else "nothing"
    return f"from {found.before:.4g} to {found.after:.4g}, by {share} ({_interval(found)})"


def _interval(found: Difference | None) -> str:
    if found is None:
        return "not compared"
    difference, low, high = changes(found.difference, found.low, found.high)
    return f"{difference}, 95 % from {low} to {high}"


def _rest(simple: Entry, swap: Entry) -> str:
    """Say what swapcal would do where a recalibration does as well."""
    if not swap.better:
        return "swapcal would do worse than yours" if _worse(swap) else "swapcal lowers it by nothing beyond chance"
    said = f"swapcal does no better than that ({swap.brier:.4g})"
    if simple.verdict == "miscalibrated" and swap.verdict in SOUND:
        return f"{said}, but {simple.name} is still miscalibrated; verdict on swapcal's: {swap.verdict}"
    return said


def _verdicts(mine: Entry, swap: Entry) -> str:
    return f" Verdict on yours: {mine.verdict}; on swapcal's: {swap.verdict}."
