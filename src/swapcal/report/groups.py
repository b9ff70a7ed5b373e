"""Sections on groups, with their gaps drawn as intervals, on numbers, and on the largest errors."""

import math
from collections.abc import Callable, Sequence

from swapcal.report.findings import CurvePoint, Findings, GroupRow, NumberCurve, Resemblance, Term, WitnessEntry
from swapcal.report.html import (
    DASH,
    SENTENCE_LENGTH,
    GroupCounts,
    Html,
    all_finite,
    axis_decimals,
    badge,
    clip,
    coordinate,
    count,
    counted,
    decimals,
    exhibit,
    facts,
    figure,
    finite,
    folded,
    hidden,
    join,
    legend,
    named,
    p_value,
    percent,
    plural,
    points,
    prose,
    section,
    sized,
    symbol,
    table,
    tag,
)
from swapcal.report.reliability import Rate
from swapcal.report.svg import Axis, Plot, covering, drawing, spread, stretched

# Groups: one row per group, with its gap drawn as an interval on an axis shared by all rows.

MOST_GROUPS = 150
"""Rows shown at most; miscalibrated groups are kept before others."""
WIDTH, HEIGHT = 168, 16
"""Size of an interval glyph in pixels."""


def groups(findings: Findings) -> Html:
    """Write the group table."""
    counts = GroupCounts.of(findings)
    every = [group for group in findings.groups if not (counts.joined and group.untested)]
    shown = kept(every)
    note = hidden(len(shown), len(every), "group", _left_out(every, shown))
    return section("groups", "Group by group", _lead(every, counts), _table(shown, counted(findings), counts), note)


def kept(groups: Sequence[GroupRow]) -> list[GroupRow]:
    """Keep the rows that matter when there are too many, in their order.

    >>> kept([])
    []
    """
    if len(groups) <= MOST_GROUPS:
        return list(groups)
    order = sorted(range(len(groups)), key=lambda i: (groups[i].verdict != "miscalibrated", i))
    return [groups[i] for i in sorted(order[:MOST_GROUPS])]


def _left_out(groups: Sequence[GroupRow], shown: Sequence[GroupRow]) -> str:
    bad = sum(g.verdict == "miscalibrated" for g in groups)
    bad -= sum(g.verdict == "miscalibrated" for g in shown)
    return f"{count(bad)} of them miscalibrated" if bad else "none of them miscalibrated"


def _lead(groups: Sequence[GroupRow], counts: GroupCounts) -> Html:
    bad = sum(g.verdict == "miscalibrated" for g in groups)
    tested, others = sum(not g.small for g in groups), sum(_sure(g) for g in groups) - bad
    listed = "" if counts.tested <= tested else f", the {count(tested)} most doubtful listed"
    listed += f", {count(bad)} miscalibrated"
    listed += f", {count(others)} more off by more than chance" if others else ""
    left = f" {counts.too_small}." if counts.small else ""
    text = (
        f"{plural(counts.tested, 'group')} tested{listed}.{left} A positive gap means that "
        "outcomes happened more often than predicted, a negative one less often. The line spans the 95\u202f% "
        "interval. Intervals and p-values allow for all groups and ranges of predictions tested: in 95 of 100 audits "
        "all intervals contain the true gaps. Errors smaller than the last figure would often be missed."
    )
    return prose(text)


def reach(shown: Sequence[GroupRow]) -> float:
    """Half-width of the shared axis: four in five intervals and every finding fit, a few wide ones are cut.

    >>> reach([])
    0.01
    """
    solid = [g for g in shown if not g.small] or list(shown)
    ends = sorted(max(map(abs, ends), default=0.0) for ends in map(_ends, solid))
    gaps = (abs(gap) for g in shown if _sure(g) and (gap := finite(g.gap)) is not None)
    return max([1.15 * max(gaps, default=0.0), *ends[(4 * len(ends)) // 5 :][:1]]) or 0.01


def _sure(group: GroupRow) -> bool:
    return group.verdict == "miscalibrated" or (not group.small and group.verdict in ("small", "undecided"))


def _ends(group: GroupRow) -> list[float]:
    return all_finite([group.low, group.high, group.gap])


def _table(shown: Sequence[GroupRow], amount: str, counts: GroupCounts) -> Html:
    half = reach(shown)
    columns = [("Group", "name"), ("Verdict", "verdicts"), ("Gap (points)", "number"), (_axis(half), "glyph")]
    columns += [
        (amount, "number"),
        ("Predicted", "number"),
        ("Observed", "number"),
        ("p", "number"),
        ("Detectable from (points)", "number"),
    ]
    rates = decimals([x for g in shown for x in (g.mean_p, g.mean_y)])
    gaps = max(rates, decimals([g.gap for g in shown]))
    rows = [_row(group, half, rates, gaps) for group in shown]
    if counts.joined:
        rows.append(
            [f"{count(counts.small)} groups too small to be tested", "not tested", *[DASH] * (len(columns) - 2)]
        )
    caption = "Groups. Gap is observed minus predicted, in percentage points; † marks groups too small to be tested."
    return table(caption, columns, rows, style="groups")


def _axis(half: float) -> Html:
    places = decimals([half])
    ends = [points(-half, places), "0", points(half, places)]
    scale = tag("span", *(tag("span", end) for end in ends), class_="glyph-axis")
    return join(["95 % interval", scale])


def _row(group: GroupRow, half: float, rates: int, gaps: int) -> list[str]:
    few = "rows" if group.clusters is None else f"clusters ({group.clusters})"
    dagger = tag("abbr", "†", title=f"too few {few} to be tested") if group.small else ""
    return [
        join([named(group.name, group.title), dagger]),
        badge(group.verdict),
        points(group.gap, gaps),
        glyph(group, half),
        count(group.n),
        percent(group.mean_p, rates),
        percent(group.mean_y, rates),
        p_value(group.p_value),
        points(group.detectable, gaps).lstrip("+"),
    ]


def glyph(group: GroupRow, half: float) -> Html:
    """Draw one group's interval; ends beyond the axis become arrow heads."""
    gap, low, high = (finite(value) for value in (group.gap, group.low, group.high))
    shapes = [tag("line", x1=WIDTH / 2, x2=WIDTH / 2, y1=0, y2=HEIGHT, class_="zero")]
    style = "beyond" if group.verdict == "miscalibrated" else "faint" if group.small else "observed"
    if low is not None and high is not None:
        shapes += _interval(low / half, high / half, style)
    if gap is not None and abs(gap) <= half:
        shapes.append(_centre(_place(gap / half), style))
    return tag("svg", *shapes, width=WIDTH, height=HEIGHT, class_="interval", aria_hidden="true")


def _place(share: float) -> float:
    return WIDTH / 2 * (1 + 0.96 * min(1.0, max(-1.0, share)))


def _interval(low: float, high: float, style: str) -> list[Html]:
    left, right, middle = _place(low), _place(high), HEIGHT / 2
    shapes = [tag("line", x1=left, x2=right, y1=middle, y2=middle, class_=f"span {style}")]
    if low < -1.0001:
        shapes.append(tag("path", d=f"M{coordinate(left + 4)} 4L{coordinate(left - 1)} 8l5 4", class_=f"span {style}"))
    if high > 1.0001:
        shapes.append(
            tag("path", d=f"M{coordinate(right - 4)} 4L{coordinate(right + 1)} 8l-5 4", class_=f"span {style}")
        )
    return shapes


def _centre(x: float, style: str) -> Html:
    if style == "beyond":
        return tag("path", d=f"M{coordinate(x)} 3l5 5l-5 5l-5-5Z", class_=style)
    return tag("circle", cx=x, cy=HEIGHT / 2, r=3.25, class_=style)


# Numbers: the gap along each of them, in ranges of about equal size.

MOST_NUMBERS = 12
"""Numbers drawn at most; the most doubtful come first."""


def numbers(findings: Findings) -> Html:
    """Draw the gap along every number."""
    curves = findings.numbers or ()
    shown = curves[:MOST_NUMBERS]
    lead = prose(
        "The gap between observed and predicted along every number, in ranges that each hold about an eighth of the "
        "rows, as far as equal values allow. The bars are 95\u202f% intervals that allow for all groups, numbers and "
        "ranges of predictions examined; trends, halves and quarters were tested as well."
    )
    key = legend(("band", "95\u202f% interval of the gap"), ("observed", "gap"), ("beyond", "gap, beyond chance"))
    pictures = [_number(f"number-{k}", one, counted(findings)) for k, one in enumerate(shown, 1)]
    note = hidden(len(shown), len(curves), "number", "the least doubtful")
    return section("numbers", "Along the numbers", lead, tag("div", *pictures, class_="pair"), key, note)


def _number(name: str, curve: NumberCurve, amount: str) -> Html:
    """Draw one number's ranges side by side, as each holds about as many rows; edges are labelled in its own unit."""
    rows = [row for row in curve.ranges if len(_ends(row)) == 3]
    if not rows:
        return Html("")
    called = clip(curve.title or curve.name, 80)
    y = covering([0.0, *(end for row in rows for end in _ends(row))], 0.08)
    plot = Plot(Axis(-0.5, len(rows) - 0.5), y)
    labels = edge_labels(curve.edges)
    shapes = [
        plot.y_axis(y.ticks(5), _writer(y, True)),
        plot.x_axis(labels, labels.__getitem__),
        stretched(plot.boxes([(k - 0.42, row.low, k + 0.42, row.high) for k, row in enumerate(rows)], "band")),
        plot.segment(-0.5, 0.0, len(rows) - 0.5, 0.0, "zero"),
        *(_gap_mark(plot, k, row, amount) for k, row in enumerate(rows)),
    ]
    worst = p_value(curve.p_value)
    heading = f"Gap (percentage points) by {called} (p {'' if worst[0] in '<>' else '= '}{worst})"
    described = "; ".join(f"{row.title or row.name}: {points(row.gap, 1)}" for row in rows)
    return exhibit(heading, drawing(name, heading, clip(described, SENTENCE_LENGTH), *shapes, style="medium"))


def edge_labels(edges: Sequence[float]) -> dict[float, str]:
    """Return where edges between ranges are labelled, and how: fewer of them where they are long.

    >>> edge_labels([20.0, 30.0]), list(edge_labels([1.7e9 + k for k in range(7)]))
    ({0.5: '20', 1.5: '30'}, [0.5, 2.5, 4.5, 6.5])
    """
    texts = [f"{edge:.10g}".replace("-", "−") for edge in edges]
    step = max(1, math.ceil(sum(map(len, texts)) / 40))
    return {k + 0.5: texts[k] for k in range(0, len(texts), step)}


def _gap_mark(plot: Plot, k: int, row: GroupRow, amount: str) -> Html:
    title = f"{row.title or row.name}: {points(row.gap, 1)} ({points(row.low, 1)} to {points(row.high, 1)}), "
    draw, style = (plot.diamond, "beyond") if _sure(row) else (plot.dot, "observed")
    return draw(k, row.gap, style, 3.5, title + sized(row.n, amount))


# Witnesses: the largest errors, each with a sentence, a picture and its direction.

MOST_WITNESSES, MOST_COEFFICIENTS, MOST_RESEMBLANCES, MOST_LEVELS = 6, 8, 3, 3
"""Entries of each list shown at most."""
AXIS = "score of the worst rule on the features"
"""Default title of a curve's axis."""
MOST_BINS = 40
"""Bins drawn at most."""
BAR_WIDTH, BAR_HEIGHT = 96, 12
"""Size of a coefficient bar in pixels."""


def witnesses(findings: Findings) -> Html:
    """Write the worst witnesses."""
    entries = findings.witnesses
    shown = entries[:MOST_WITNESSES]
    beyond = findings.headline.beyond_chance
    lead = prose(
        "" if beyond else "None of these errors is significant; they come nearest to it. ",
        "The errors over all levels, groups and rules on the features that were examined, the most significant first, "
        "each with its rows. They show where forecasts and outcomes differ most. Where there are p-values and "
        "intervals, these are simultaneous over everything examined.",
    )
    known = {quantity.name for quantity in findings.quantities}
    articles = [_witness(rank, witness, known, counted(findings)) for rank, witness in enumerate(shown, start=1)]
    note = hidden(len(shown), len(entries), "smaller error", "the most significant come first")
    return section("witnesses", "Largest errors", lead, *articles, note)


def _witness(rank: int, witness: WitnessEntry, known: set[str], amount: str) -> Html:
    heading = tag("h3", f"{rank}. ", clip(witness.sentence, SENTENCE_LENGTH), id=f"witness-{rank}")
    direction = Html("") if witness.group else _direction(witness.direction)
    picture = direction_curve(f"along-{rank}", witness.curve, clip(witness.axis or AXIS, 80), amount)
    body = tag("div", picture, tag("div", direction), class_="pair") if picture and direction else None
    return tag(
        "article",
        heading,
        _facts(witness, amount),
        body or join([picture, direction]),
        _attained(witness, known),
        class_="witness",
        aria_labelledby=f"witness-{rank}",
    )


def _attained(witness: WitnessEntry, known: set[str]) -> Html:
    """Write which error of the theory these rows attain, in a folded part."""
    if witness.quantity not in known:
        return Html("")
    attains = prose("This is where ", symbol(clip(witness.quantity, 80)), " is attained.")
    return folded("Details", attains)


def _facts(witness: WitnessEntry, amount: str) -> Html:
    gap, group = finite(witness.gap), witness.group
    pairs: list[tuple[str, str]] = (
        [("Group" if gap is not None else "Along", named(group, witness.group_title))] if group else []
    )
    pairs += [
        ("At predictions", _curve_interval(witness.interval or ()) or _levels(witness.levels)),
        (amount, count(witness.n)),
    ]
    if gap is not None:
        name = "Gap" if group else "Gap along the rule"
        pairs.append((name, f"{points(gap, max(1, decimals([gap])))} points{_curve_ends(witness, gap)}"))
    if finite(witness.p_value) is not None:
        pairs.append(("p", p_value(witness.p_value)))
    if finite(witness.share) is not None:
        pairs.append(("Share of the error", percent(witness.share, 0)))
    if witness.resembles:
        pairs.append(("Resembles", join(map(_resemblance, witness.resembles[:MOST_RESEMBLANCES]))))
    return facts(pairs, "compact")


def _curve_ends(witness: WitnessEntry, gap: float) -> str:
    low, high, places = finite(witness.gap_low), finite(witness.gap_high), max(1, decimals([gap]))
    return "" if low is None or high is None else f" ({points(low, places)} to {points(high, places)})"


def _curve_interval(ends: Sequence[float]) -> str:
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
    note = tag("span", f" (correlation {figure(resemblance.correlation, 2)})", class_="note")
    return tag("span", named(resemblance.group, resemblance.title, 60), note, class_="line")


def _direction(direction: Sequence[Term]) -> Html:
    shown = [c for c in direction if finite(c.coefficient) is not None][:MOST_COEFFICIENTS]
    if not shown:
        return Html("")
    largest = max(abs(c.coefficient) for c in shown) or 1.0
    columns = [("Feature", "name"), ("Weight", "glyph"), ("Coefficient", "number")]
    rows = [_coefficient(c, largest) for c in shown]
    note = hidden(len(shown), len(direction), "coefficient", "the smallest")
    return join(
        [table("The worst rule on the features: its weights, largest first.", columns, rows, style="direction"), note]
    )


def _coefficient(term: Term, largest: float) -> list[str]:
    value, unit = term.coefficient, term.unit
    note = tag("span", f" {clip(unit, 40)}", class_="note") if unit else ""
    signed = ("+" if value > 0 else "") + figure(value, 2)
    return [join([named(term.name, term.title, 60), note]), _bar(value / largest), signed]


def _bar(share: float) -> Html:
    middle, length = BAR_WIDTH / 2, abs(share) * BAR_WIDTH / 2
    bar = tag(
        "rect", x=middle if share > 0 else middle - length, y=2, width=length, height=BAR_HEIGHT - 4, class_="bar"
    )
    zero = tag("line", x1=middle, x2=middle, y1=0, y2=BAR_HEIGHT, class_="zero")
    return tag("svg", bar, zero, width=BAR_WIDTH, height=BAR_HEIGHT, class_="interval", aria_hidden="true")


def direction_curve(name: str, curve: Sequence[CurvePoint], axis: str, amount: str = "Rows") -> Html:
    """Draw the rates along the direction, or their differences where rates would hide them.

    Bins stand side by side in the order of their scores, because scores of real directions bunch together.
    """
    bins = [rate for point in curve[:MOST_BINS] if (rate := _rate(point, amount)) is not None]
    if not bins:
        return Html("")
    apart = differences_tell_more(bins)
    what = "Observed minus predicted (percentage points)" if apart else "Predicted and observed rate"
    text = f"{what} in {len(bins)} bins of the {axis}, in increasing order."
    picture = drawing(name, f"{what}, by {axis}", text, *_shapes(bins, apart), style="medium")
    return exhibit(f"{what}, by {axis}", picture, _key(bins))


def _rate(point: CurvePoint, amount: str) -> Rate | None:
    low, high = point.band_low, point.band_high
    return Rate.of(point.score, point.mean_p, point.mean_y, point.n, low, high, amount)


def differences_tell_more(bins: Sequence[Rate]) -> bool:
    """Return whether predictions vary so much that the gaps to the outcomes would be too small to see.

    >>> differences_tell_more([Rate(0.0, 0.1, 0.12, 9.0, None), Rate(1.0, 0.9, 0.91, 9.0, None)])
    True
    """
    predicted = [rate.p for rate in bins]
    return max(predicted) - min(predicted) > 5 * max(rate.widest for rate in bins)


def _shapes(bins: Sequence[Rate], apart: bool) -> list[Html]:
    base = [rate.p if apart else 0.0 for rate in bins]
    bands = [(i, r.band[0] - zero, r.band[1] - zero) for i, (r, zero) in enumerate(_with(bins, base)) if r.band]
    issued = [rate.p - zero for rate, zero in _with(bins, base)]
    seen = [rate.y - zero for rate, zero in _with(bins, base)]
    y = covering([*issued, *seen, *(edge for _, *edges in bands for edge in edges)], 0.08)
    plot = Plot(Axis(-0.5, len(bins) - 0.5), y)
    return [
        plot.y_axis(y.ticks(5), _writer(y, apart)),
        plot.x_axis(spread(len(bins), 5 if len(bins) == 5 else 4), lambda i: score_label(bins[round(i)].x)),
        *(plot.segment(i, low, i, high, "band-bar") for i, low, high in bands),
        stretched(plot.line(list(enumerate(issued)), "predicted")),
        *(plot.segment(i, p, i, seen[i], "stem") for i, p in enumerate(issued)),
        *(plot.dot(i, p, "issued", 2.5) for i, p in enumerate(issued)),
        *(rate.mark(plot, i, seen[i], 3.5) for i, rate in enumerate(bins)),
    ]


def score_label(score: float) -> str:
    """Write a score; four digits stay together, for many of them are years.

    >>> score_label(2017.0), score_label(-0.0553), score_label(12345.0)
    ('2017', '−0.055', '12,345')
    """
    return figure(score, 2).replace(",", "" if abs(score) < 9999.5 else ",")


def _with(bins: Sequence[Rate], base: Sequence[float]) -> list[tuple[Rate, float]]:
    return list(zip(bins, base, strict=True))


def _writer(y: Axis, apart: bool) -> Callable[[float], str]:
    places = axis_decimals(y.high - y.low)
    write = points if apart else percent
    return lambda value: write(value, places)


def _key(bins: Sequence[Rate]) -> Html:
    entries = [("predicted", "mean predicted"), ("observed", "observed rate")]
    if any(rate.band for rate in bins):
        entries += [("beyond", "observed, beyond chance"), ("band", "95 % band of chance")]
    return legend(*entries)
