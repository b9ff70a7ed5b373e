"""Findings in sentences a reader without statistics understands."""

from collections.abc import Sequence

from swapcal.audit.verdict import ALPHA, Finding, Verdict
from swapcal.audit.witness import Term, Witness

CONSTANT = "constant"
"""Name of the first coordinate of every context."""

MOST_NAMED = 3
"""Terms of a direction named in a sentence."""


def points(gap: float) -> str:
    """Write the size of a gap of probability in percentage points.

    Examples
    --------
    >>> points(-0.0475), points(0.01), points(0.00031)
    ('4.8 percentage points', '1.0 percentage point', '0.031 percentage points')
    """
    text = number(gap)
    return f"{text} percentage point" + ("" if text == "1.0" else "s")


def number(gap: float) -> str:
    """Write the size of a gap in points without its unit: one decimal, more for tiny ones.

    Examples
    --------
    >>> number(0.123), number(0.0004), number(1e-9)
    ('12.3', '0.04', '0.0')
    """
    size = 100 * abs(gap) if abs(gap) >= 5e-6 else 0.0
    if size == 0 or size >= 0.995:
        return f"{size:.1f}"
    return f"{size:.2f}" if size >= 0.0995 else f"{size:.2g}"


def span(low: float, high: float) -> str:
    """Write an interval of sizes.

    Examples
    --------
    >>> span(0.012, 0.034), span(0.0, 0.0042)
    ('between 1.2 and 3.4 percentage points', 'at most 0.42 percentage points')
    """
    return f"between {number(low)} and {points(high)}" if low > 0 else f"at most {points(high)}"


def chance(p_value: float) -> str:
    """Write a p-value.

    Examples
    --------
    >>> chance(0.001), chance(0.2), chance(0.0)
    ('p ≤ 0.001', 'p = 0.20', 'impossible by chance')
    """
    if p_value == 0:
        return "impossible by chance"
    if p_value <= 0.001:
        return f"p ≤ {p_value:.3f}"
    return f"p = {p_value:.2g}" if p_value < 0.1 else f"p = {p_value:.2f}"


def where(found: Finding, whole: bool) -> str:
    """Say which rows a finding is about; `whole` means all levels.

    Examples
    --------
    >>> where(Finding("sex = f", (0, 2), (0.1, 0.3), 9, 0.1, 5, 0.001, True, 0.02, 0.18), whole=False)
    'where sex = f and the prediction is between 0.1 and 0.3'
    """
    anyone = found.name == "all rows" or not found.is_group
    low, high = found.interval
    at = f"the prediction is {low:.3g}" if low == high else f"the prediction is between {low:.2g} and {high:.2g}"
    parts = [] if anyone else [found.name]
    parts += [] if whole else [at]
    return f"where {' and '.join(parts)}" if parts else "overall"


def more(gap: float) -> str:
    """Say the sign of observed − predicted."""
    return "more" if gap > 0 else "less"


def error(found: Finding) -> str:
    """Say which error a finding is, with its sign and size.

    Examples
    --------
    >>> error(Finding("age", (0, 2), (0.0, 1.0), 9, -0.1, -5, 0.001, False, -0.18, -0.02))
    'the higher age, the less often outcomes happen than predicted, by 10.0 percentage points per standard deviation'
    """
    if found.is_group:
        return f"outcomes happen {points(found.gap)} {more(found.gap)} often than predicted"
    if is_indicator(found.name):
        return (
            f"outcomes happen {more(found.gap)} often than predicted {place_of(found.name)} than elsewhere, "
            f"by {points(found.gap)} per standard deviation"
        )
    return (
        f"the higher {found.name}, the {more(found.gap)} often outcomes happen than predicted, "
        f"by {points(found.gap)} per standard deviation"
    )


def finding(found: Finding, whole: bool, unit: str = "rows") -> str:
    """Say what a finding found; `whole` means that it spans all levels.

    Examples
    --------
    >>> finding(Finding("sex = f", (0, 2), (0.1, 0.3), 9, 0.1, 5, 0.6, True, -0.02, 0.18), whole=True)
    'Where sex = f, outcomes happen 10.0 percentage points more often than predicted, as by chance (9 rows, p = 0.60).'
    """
    place = where(found, whole)
    beyond = "" if found.p_value <= ALPHA else ", as by chance"
    return f"{place[0].upper()}{place[1:]}, {error(found)}{beyond} ({found.n:,.0f} {unit}, {chance(found.p_value)})."


def hedged(sentence: str, p_value: float) -> str:
    """Say of an error that chance explains that it does.

    Examples
    --------
    >>> hedged("Outcomes happen more often than predicted.", 0.4)
    'Outcomes happen more often than predicted. As much error is usual by chance (p = 0.40).'
    """
    return sentence if p_value <= ALPHA else f"{sentence} As much error is usual by chance ({chance(p_value)})."


def headline(verdict: Verdict, worst: Finding | None, whole: bool, total: float, unit: str = "rows") -> str:
    """Say the verdict in one sentence."""
    if verdict.word == "undecided" and not verdict.beyond:
        return f"There are too few data ({total:,.0f} {unit}) to tell whether the predictions can be trusted."
    if verdict.word == "no error found":
        return (
            "No error beyond chance was found, in any group, for any feature, at any range of predictions "
            f"({chance(verdict.p_value)})."
        )
    if worst is not None and worst.p_value <= ALPHA:
        near, far = sorted((abs(worst.low), abs(worst.high)))
        interval = f"95 % interval {number(near)} to {number(far)}, {worst.n:,.0f} of {total:,.0f} {unit}"
        said = f"{where(worst, whole)}, {error(worst)} ({interval})"
    else:
        said = "somewhere, but in no single group or range that can be named"
    start = {
        "miscalibrated": "The predictions are wrong beyond chance",
        "small": "The predictions are wrong beyond chance, but only a little",
        "undecided": "The predictions are off by more than chance, but these data leave open whether by much",
    }
    return f"{start[verdict.word]}: {said}."


def size(verdict: Verdict, place: str, widest: str, mean: float) -> str:
    """Say how large the worst error is, against the tolerance, or what would have been noticed.

    `place` says where the largest sure error is, empty if the headline has said it; `widest` where an error may be
    largest, asked for where the data do not decide; `mean` is the ECE.
    """
    allowed = f"the tolerance of {points(verdict.tolerance)}"
    if verdict.word == "no error found" or (verdict.detectable is None and not verdict.beyond):
        if verdict.detectable is None:
            return "With so few rows not even an error in all of them would have been noticed reliably."
        return (
            f"An error of {points(verdict.detectable)} over all rows would have been noticed in four cases of five; "
            "a smaller one, or one of a small group, may be there."
        )
    how = {
        "miscalibrated": f"above {allowed}",
        "small": f"within {allowed}",
        "undecided": f"on both sides of {allowed}, so the data do not decide",
    }[verdict.word]
    size = f"at least {points(verdict.low)}" if verdict.word == "miscalibrated" else span(verdict.low, verdict.high)
    usual = f"On average over the levels the error is {points(mean)}, noise included."
    open_end = f" It may reach {points(verdict.high)} {widest}: more rows there would decide." if widest else ""
    return f"The worst error is {size} with 95 % confidence{place}: {how}.{open_end} {usual}"


def is_indicator(name: str) -> bool:
    """Tell whether a coordinate marks rows rather than measuring them.

    Examples
    --------
    >>> is_indicator("town = Rome"), is_indicator("age missing"), is_indicator("age")
    (True, True, False)
    """
    return " = " in name or name.endswith(" missing")


def place_of(name: str) -> str:
    """Say which rows an indicator marks.

    Examples
    --------
    >>> place_of("age missing"), place_of("town = Rome")
    ('where age is missing', 'where town = Rome')
    """
    if name == CONSTANT:
        return "overall"
    return f"where {name.removesuffix(' missing')} is missing" if name.endswith(" missing") else f"where {name}"


def direction(witness: Witness, named: Sequence[Term], pooled: bool = False, unit: str = "rows") -> str:
    """Say what a witness found at its worst level; `named` are the terms to name, each with its own sign."""
    level = witness.worst
    near = f"near {witness.v[level]:.2f} ({witness.n[level]:,.0f} {unit})"
    at = f"One direction for all levels; at its worst, {near}" if pooled else f"At predictions {near}"
    sign = witness.orientation(level)
    terms = named[:MOST_NAMED]
    if not terms:
        return f"{at}, the error follows a mixture of features, none of them alone."
    if witness.form == "regret":
        saved = f"would have lowered the sum of squared errors by {witness.contributions[level]:.3g}"
        return f"{at}, predictions {split(terms, sign, 'raised', 'lowered')} {saved}."
    return f"{at}, outcomes happen {split(terms, sign, 'more often than predicted', 'less often')}."


def split(terms: Sequence[Term], sign: float, raised: str, lowered: str) -> str:
    """Say where a direction points up and where down, so that every term keeps its own sign.

    Examples
    --------
    >>> terms = [Term("age", -0.2, None), Term("town = Rome", 0.3, None), Term("income missing", -0.1, None)]
    >>> split(terms, 1.0, "more often than predicted", "less often")
    'more often than predicted with lower age and where town = Rome, and less often where income is missing'
    """
    up: list[str] = []
    down: list[str] = []
    for term in terms:
        positive = sign * term.coefficient > 0
        if is_indicator(term.name) or term.name == CONSTANT:
            (up if positive else down).append(place_of(term.name))
        else:
            up.append(f"with {'higher' if positive else 'lower'} {term.name}")
    if not up:
        return f"{raised.replace('more', 'less') if 'more' in raised else lowered} {listed(down)}"
    return f"{raised} {listed(up)}" + (f", and {lowered} {listed(down)}" if down else "")


def listed(names: Sequence[str]) -> str:
    """Join names with commas and a final "and".

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1] if names else ""
