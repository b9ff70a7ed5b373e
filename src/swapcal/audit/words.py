"""Findings in sentences a reader without statistics understands."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from swapcal.audit.null import Noise
from swapcal.audit.witness import Witness


class Found(Protocol):
    """What a sentence needs to know of a finding."""

    @property
    def name(self) -> str:
        """Group or feature."""

    @property
    def interval(self) -> tuple[float, float]:
        """Range of predictions."""

    @property
    def n(self) -> float:
        """Weight of the rows."""

    @property
    def gap(self) -> float:
        """Signed gap."""

    @property
    def p_value(self) -> float:
        """Simultaneous p-value."""

    @property
    def is_group(self) -> bool:
        """Whether the function is an indicator."""


def points(gap: float) -> str:
    """Write a gap of probability in percentage points.

    Examples
    --------
    >>> points(-0.0475)
    '4.8 percentage points'
    """
    return f"{100 * abs(gap):.1f} percentage points"


def chance(p_value: float) -> str:
    """Write a p-value.

    Examples
    --------
    >>> chance(0.001), chance(0.2)
    ('p ≤ 0.001', 'p = 0.20')
    """
    if p_value <= 0.001:
        return f"p ≤ {p_value:.3f}"
    return f"p = {p_value:.2g}" if p_value < 0.1 else f"p = {p_value:.2f}"


def where(found: Found, whole: bool) -> str:
    """Say which rows a finding is about; `whole` means all levels.

    Examples
    --------
    >>> from swapcal.audit.core import Finding
    >>> where(Finding("sex = f", (0, 2), (0.1, 0.3), 9, 0.1, 5, 0.001, True), whole=False)
    'where sex = f and the prediction is between 0.1 and 0.3'
    """
    anyone = found.name == "all rows" or not found.is_group
    low, high = found.interval
    at = f"the prediction is {low:.3g}" if low == high else f"the prediction is between {low:.2g} and {high:.2g}"
    parts = [] if anyone else [found.name]
    parts += [] if whole else [at]
    return f"where {' and '.join(parts)}" if parts else "overall"


def finding(found: Found, whole: bool) -> str:
    """Say what a finding found; `whole` means that it spans all levels."""
    place = where(found, whole)
    size = f"({found.n:,.0f} rows, {chance(found.p_value)})"
    if found.is_group:
        way = "more" if found.gap > 0 else "less"
        text = f"outcomes happen {points(found.gap)} {way} often than predicted {size}."
    else:
        way = "more" if found.gap > 0 else "less"
        text = (
            f"the higher {found.name}, the {way} often outcomes happen than predicted, "
            f"by {points(found.gap)} per standard deviation {size}."
        )
    return f"{place[0].upper()}{place[1:]}, {text}"


def headline(verdict: str, test: Noise, worst: Found | None, whole: bool, rows: int) -> str:
    """Say the verdict in one sentence."""
    if verdict == "miscalibrated" and worst is not None:
        if worst.is_group:
            way = "too low" if worst.gap > 0 else "too high"
            return (
                f"The predictions are wrong beyond chance: {where(worst, whole)}, they are {way} "
                f"by {points(worst.gap)} on average."
            )
        return (
            f"The predictions are wrong beyond chance: {where(worst, whole)}, their error changes with {worst.name}, "
            f"by {points(worst.gap)} per standard deviation."
        )
    if verdict == "inconclusive":
        return f"There are too few data ({rows:,} rows) to tell whether the predictions can be trusted."
    return (
        "No error beyond chance was found, in any group, for any feature, at any range of predictions "
        f"({chance(test.p_value)})."
    )


def direction(witness: Witness) -> str:
    """Say what a witness found at its worst level."""
    terms = [term.name for term in witness.direction() if term.name != "constant"][:3]
    level = witness.worst
    gap = witness.gaps[level]
    at = f"At predictions near {witness.v[level]:.2f} ({witness.n[level]:,.0f} rows)"
    if witness.form == "regret":
        means = f"a correction by {listed(terms)}" if terms else "a constant correction"
        saved = f"{witness.contributions[level]:.3g}"
        return f"{at}, {means} would have lowered the sum of squared errors by {saved}."
    if not terms or witness.names is not None:
        what = "" if witness.names is None else f" in {witness.names[level]}"
        sign = 1.0 if witness.theta is None else float(np.sign(witness.theta[level, 0]))
        way = "more" if sign * gap > 0 else "less"
        return f"{at}, outcomes happen {way} often than predicted{what}."
    way = "more" if gap > 0 else "less"
    return f"{at}, the error follows {listed(terms)}: the higher their sum, the {way} often outcomes happen."


def listed(names: Sequence[str]) -> str:
    """Join names with commas and a final "and".

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""
