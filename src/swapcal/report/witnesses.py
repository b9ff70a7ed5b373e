"""Witnesses: where the largest errors sit, in a sentence, a picture and the direction itself."""

from collections.abc import Sequence

from swapcal.report.direction_curve import direction_curve
from swapcal.report.formats import (
    all_finite,
    clip,
    count,
    counted,
    decimals,
    figure,
    finite,
    p_value,
    percent,
    points,
    symbol,
)
from swapcal.report.layout import SENTENCE_LENGTH, facts, hidden, named, prose, section, table
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Coefficient, Findings, Resemblance, WitnessEntry

MOST_WITNESSES, MOST_COEFFICIENTS, MOST_RESEMBLANCES, MOST_LEVELS = 6, 8, 3, 3
"""How much of each list is shown."""
AXIS = "score along the direction"
"""What a curve runs along unless its witness says otherwise."""
WIDTH, HEIGHT = 96, 12
"""Size of a coefficient bar in pixels."""


def witnesses(findings: Findings) -> Html:
    """Write the worst witnesses; nothing when none were found."""
    everyone = findings.get("witnesses") or []
    if not everyone:
        return Html("")
    shown = everyone[:MOST_WITNESSES]
    beyond = findings["headline"].get("beyond_chance", True)
    lead = prose(
        "" if beyond else "No error here is beyond chance; these come nearest to one. ",
        "The surest errors over all levels, groups and combinations of features that were examined, the surest "
        "first; each has a witness: the rows on which it is attained. Read a witness as a "
        "pointer to where forecasts and outcomes part ways. How sure one can be is told by its p-value and interval, "
        "which allow for everything examined, where it has them, and under “Errors against chance”.",
    )
    known = {quantity["name"] for quantity in findings.get("quantities") or []}
    articles = [_witness(rank, witness, known, counted(findings)) for rank, witness in enumerate(shown, start=1)]
    rest = hidden(len(shown), len(everyone), "smaller witness", "the surest come first")
    return section("witnesses", "Where the errors sit", lead, *articles, rest)


def _witness(rank: int, witness: WitnessEntry, known: set[str], amount: str) -> Html:
    heading = tag("h3", f"{rank}. ", clip(witness["sentence"], SENTENCE_LENGTH), id=f"witness-{rank}")
    direction = Html("") if witness.get("group") else _direction(witness["direction"])
    picture = direction_curve(f"along-{rank}", witness["curve"], clip(witness.get("axis") or AXIS, 80))
    body = tag("div", picture, tag("div", direction), class_="pair") if picture and direction else None
    return tag(
        "article",
        heading,
        _facts(witness, known, amount),
        body or join([picture, direction]),
        class_="witness",
        aria_labelledby=f"witness-{rank}",
    )


def _facts(witness: WitnessEntry, known: set[str], amount: str) -> Html:
    gap, group = finite(witness["gap"]), witness.get("group")
    pairs: list[tuple[str, str]] = (
        [("Group" if gap is not None else "Along", named(witness, key="group"))] if group else []
    )
    pairs += [
        ("Attains" if witness["quantity"] in known else "Found by", symbol(clip(witness["quantity"], 80))),
        ("At predictions", _interval(witness.get("interval") or []) or _levels(witness["levels"])),
        (amount, count(witness["n"])),
    ]
    if gap is not None:
        name = "Gap" if group else "Gap along the direction"
        pairs.append((name, f"{points(gap, max(1, decimals([gap])))} points{_ends(witness, gap)}"))
    if finite(witness.get("p_value")) is not None:
        pairs.append(("p", p_value(witness.get("p_value"))))
    if finite(witness["share"]) is not None:
        pairs.append(("Share of the error", percent(witness["share"], 0)))
    if witness["resembles"]:
        pairs.append(("Resembles", join(map(_resemblance, witness["resembles"][:MOST_RESEMBLANCES]))))
    return facts(pairs, "compact")


def _ends(witness: WitnessEntry, gap: float) -> str:
    low, high, places = finite(witness.get("gap_low")), finite(witness.get("gap_high")), max(1, decimals([gap]))
    return "" if low is None or high is None else f" ({points(low, places)} to {points(high, places)})"


def _interval(ends: Sequence[float]) -> str:
    low, high = all_finite(ends) if len(all_finite(ends)) == 2 else (None, None)
    places = max(1, decimals(ends))
    if low == 0 and high == 1:
        return "all"
    return "" if low is None else f"{percent(low, places)} to {percent(high, places)}"


def _levels(levels: Sequence[float]) -> str:
    places = max(1, decimals(levels))
    if not levels:
        return "all levels"
    if len(levels) <= MOST_LEVELS:
        return ", ".join(percent(v, places) for v in levels)
    return f"{len(levels)} levels from {percent(min(levels), places)} to {percent(max(levels), places)}"


def _resemblance(resemblance: Resemblance) -> Html:
    note = tag("span", f" (correlation {figure(resemblance['correlation'], 2)})", class_="note")
    return tag("span", named(resemblance, 60, "group"), note, class_="line")


def _direction(direction: Sequence[Coefficient]) -> Html:
    shown = [c for c in direction if finite(c["coefficient"]) is not None][:MOST_COEFFICIENTS]
    if not shown:
        return Html("")
    largest = max(abs(c["coefficient"]) for c in shown) or 1.0
    columns = [("Feature", "name"), ("Weight", "glyph"), ("Coefficient", "number")]
    rows = [_coefficient(c, largest) for c in shown]
    rest = hidden(len(shown), len(direction), "coefficient", "the smallest")
    return join([table("The direction, largest coefficients first.", columns, rows, style="direction"), rest])


def _coefficient(coefficient: Coefficient, largest: float) -> list[str]:
    value, unit = coefficient["coefficient"], coefficient["unit"]
    note = tag("span", f" {clip(unit, 40)}", class_="note") if unit else ""
    signed = ("+" if value > 0 else "") + figure(value, 2)
    return [join([named(coefficient, 60), note]), _bar(value / largest), signed]


def _bar(share: float) -> Html:
    middle, length = WIDTH / 2, abs(share) * WIDTH / 2
    bar = tag("rect", x=middle if share > 0 else middle - length, y=2, width=length, height=HEIGHT - 4, class_="bar")
    zero = tag("line", x1=middle, x2=middle, y1=0, y2=HEIGHT, class_="zero")
    return tag("svg", bar, zero, width=WIDTH, height=HEIGHT, class_="interval", aria_hidden="true")
