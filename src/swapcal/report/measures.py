"""Sections on measures: errors against chance and theorems, the certificate, decisions, and measures by field."""

import math
from collections.abc import Sequence

from swapcal.report.findings import (
    CertificatePiece,
    ConventionalEntry,
    DecisionEntry,
    Findings,
    ForecasterEntry,
    IsotonicPoint,
    IssuedEntry,
    NetBenefitPoint,
    QuantityEntry,
)
from swapcal.report.html import (
    Html,
    all_finite,
    clip,
    coordinate,
    count,
    drawn_symbol,
    exhibit,
    facts,
    figure,
    finite,
    folded,
    given,
    hidden,
    join,
    legend,
    p_value,
    percent,
    plural,
    prose,
    section,
    symbol,
    table,
    tag,
)
from swapcal.report.reliability import percent_axis
from swapcal.report.svg import Axis, Plot, covering, drawing, stretched

# Noise floor: every error with its band of chance and the bound of its theorem.

MOST_QUANTITIES = 30
"""Quantities shown at most."""
LEVEL = 0.05
"""Level of each separate test."""
STEEPEST = 2.0**-6
"""Smallest multiple of the noise floor that still has its own place on the axis; zero sits there too."""
ROW = 46
"""Height of one quantity in the picture, in pixels."""


def noise_floor(findings: Findings) -> Html:
    """Draw and list all errors."""
    quantities = findings.quantities
    shown = quantities[:MOST_QUANTITIES]
    lead = prose(
        "On finite data even perfect forecasts show some error. The grey band is where an error falls in "
        "95 of 100 cases if every forecast is exactly right; an error to the right of its band is "
        "significant."
    )
    note = hidden(len(shown), len(quantities), "quantity", "the first come first")
    details = folded("Details: the errors of the theory, one by one", _picture(shown), _table(shown), note)
    return section("errors", "Errors against chance", lead, prose(_count(shown)), details)


def _count(quantities: Sequence[QuantityEntry]) -> str:
    tested = [p for q in quantities if (p := finite(q.p_value)) is not None]
    beyond = sum(p <= LEVEL for p in tested)
    if not tested:
        return "No error here was compared with chance."
    return (
        f"{plural(len(tested), 'way')} of adding up all errors {'was' if len(tested) == 1 else 'were'} compared with "
        f"chance, from calibration alone to the worst rule on the features at every level; {count(beyond)} of them "
        f"{'is' if beyond == 1 else 'are'} significant (p at most {LEVEL:g}, each a separate test)."
    )


def _judged(quantity: QuantityEntry) -> bool:
    high = finite(quantity.null_high)
    return finite(quantity.value) is not None and high is not None and high > 0


def ratio(value: float | None, high: float | None) -> float | None:
    """Return an error as a multiple of the top of its noise band.

    >>> ratio(6.0, 3.0), ratio(1.0, None)
    (2.0, None)
    """
    x, top = finite(value), finite(high)
    return None if x is None or top is None or top <= 0 else finite(x / top)


def _log(multiple: float) -> float:
    return math.log2(max(multiple, STEEPEST))


def _picture(quantities: Sequence[QuantityEntry]) -> Html:
    rows = [q for q in quantities if _judged(q)]
    if not rows:
        return Html("")
    drawn = [(x, q.null_high) for q in rows for x in (q.value, q.null_low, q.null_mean, q.bound, q.certificate)]
    multiples = all_finite(ratio(*pair) for pair in drawn)
    scale = Axis(_log(min([0.5, *multiples])) - 0.3, _log(max([2.0, *multiples])) + 0.6)
    height = ROW * len(rows)
    shapes = [_axis(scale, height), *(_row(i, q, scale) for i, q in enumerate(rows))]
    title, text = "Errors against chance", "Each error as a multiple of the top of its own noise band."
    heading = [tag("title", title, id="floor-title"), tag("desc", text, id="floor-desc")]
    labels = "floor-title floor-desc"
    chart = tag("svg", *heading, *shapes, role="img", aria_labelledby=labels, class_="chart", height=height)
    frame = tag("div", chart, class_="plot floor-plot")
    return exhibit("Each error as a multiple of the top of its noise band", frame, _key(rows))


def _key(rows: Sequence[QuantityEntry]) -> Html:
    entries = [("band", "chance, 95 %"), ("floor", "mean of chance"), ("observed", "within chance")]
    entries.append(("beyond", "beyond chance"))
    if any(all_finite([q.bound, q.certificate]) for q in rows):
        entries.append(("promise", "guaranteed upper bound"))
    return legend(*entries)


def _axis(scale: Axis, height: float) -> Html:
    step = max(1, math.ceil((scale.high - scale.low) / 7))
    powers = [k for k in range(math.ceil(scale.low), math.floor(scale.high) + 1) if k % step == 0]
    shapes = []
    for k in powers:
        x = _across(scale, k)
        shapes.append(tag("line", x1=x, x2=x, y1=0, y2=height, class_="limit" if k == 0 else "grid"))
        shapes.append(tag("text", multiple(k), x=x, y=height, dy="1.45em", class_="tick mid"))
    return join(shapes)


def multiple(power: int) -> str:
    """Write a power of two as a multiple.

    >>> multiple(3), multiple(0), multiple(-2), multiple(40)
    ('8×', '1×', '1/4×', '2^40×')
    """
    if power > 20:
        return f"2^{power}×"
    return f"{2**power:,}×" if power >= 0 else f"1/{2**-power}×"


def _across(scale: Axis, position: float) -> str:
    return coordinate(100 * scale.at(position)) + "%"


def _row(index: int, quantity: QuantityEntry, scale: Axis) -> Html:
    high = quantity.null_high
    value = ratio(quantity.value, high) or 0.0
    low, mean = ratio(quantity.null_low, high) or 0.0, ratio(quantity.null_mean, high)
    top = ROW * index
    y = top + 30
    left, right = scale.at(_log(low)), scale.at(0.0)
    band = tag(
        "rect",
        x=_across(scale, _log(low)),
        width=f"{100 * (right - left):.2f}%",
        y=y - 6,
        height=12,
        class_="band",
    )
    shapes = [tag("text", _name(quantity), x=0, y=top + 14, class_="label"), band]
    if mean is not None:
        at = _across(scale, _log(mean))
        shapes.append(tag("line", x1=at, x2=at, y1=y - 6, y2=y + 6, class_="floor"))
    promise = tag("path", d="M-3-7H3M0-7V7M-3 7H3", class_="promise")
    for promised in all_finite(ratio(bound, high) for bound in (quantity.certificate, quantity.bound)):
        shapes.append(tag("svg", promise, x=_across(scale, _log(promised)), y=y))
    shapes.append(_mark(_across(scale, _log(value)), y, value > 1))
    return join(shapes)


def _name(quantity: QuantityEntry) -> Html:
    return drawn_symbol(clip(f"{quantity.name} · {quantity.against}", 44))


def _mark(x: str, y: float, beyond: bool) -> Html:
    shape = tag("path", d="M0-6L6 0L0 6L-6 0Z") if beyond else tag("circle", r=4.5)
    return tag("svg", shape, x=x, y=y, class_="beyond" if beyond else "observed")


def _table(quantities: Sequence[QuantityEntry]) -> Html:
    promised = any(all_finite([q.bound, q.certificate]) for q in quantities)
    columns = [("Error", "name"), ("Observed", "number"), ("Per row", "number"), ("Chance, mean", "number")]
    columns += [("Chance, 95 %", "number"), ("p", "number"), ("Detectable from", "number")]
    columns += [("Certificate", "number"), ("Theorem’s bound", "number")] if promised else []
    rows = [_cells(q, promised) for q in quantities]
    caption = "All errors. Sums over rows, as in the theorems; “per row” divides by the total weight."
    return table(caption, columns, rows, style="quantities")


def _cells(quantity: QuantityEntry, promised: bool) -> list[str]:
    upper = finite(quantity.upper_value)
    observed = figure(quantity.value) + (f" to {figure(upper)}" if upper is not None else "")
    low, high = figure(quantity.null_low), figure(quantity.null_high)
    cells: list[str] = [
        _term(quantity),
        observed,
        figure(quantity.mean_value),
        figure(quantity.null_mean),
    ]
    cells += [f"{low} to {high}" if finite(quantity.null_high) is not None else "–"]
    cells += [p_value(quantity.p_value), figure(quantity.minimum_detectable)]
    return cells + ([figure(quantity.certificate), figure(quantity.bound)] if promised else [])


def _term(quantity: QuantityEntry) -> Html:
    citation = quantity.citation
    meaning = clip(quantity.meaning, 300) + (f" ({clip(citation, 120)})" if citation else "")
    name = join([symbol(clip(quantity.name, 80)), " against ", symbol(clip(quantity.against, 80))])
    return join([tag("span", name, class_="line"), tag("span", meaning, class_="note")])


# Certificate: the bounds of the forecaster that issued the predictions.

MOST_PIECES = 20
"""Summands shown at most."""


def certificate(findings: Findings) -> Html:
    """Write the certificate of the forecaster that made the predictions."""
    forecaster = findings.forecaster
    assert forecaster is not None
    sizes = ("Levels", forecaster.levels), ("Dimensions", forecaster.dims), ("Outcomes learned from", forecaster.rounds)
    pairs = [(name, count(size)) for name, size in sizes]
    pieces = forecaster.pieces[:MOST_PIECES]
    parts = [_lead(forecaster), facts(pairs, "compact"), _bars(forecaster), _pieces(pieces), _drawn(forecaster.issued)]
    return section("certificate", "The forecaster’s certificate", *parts)


def _lead(forecaster: ForecasterEntry) -> Html:
    citation = forecaster.citation
    text = (
        "These predictions come from a forecaster that computes a bound on its own error as it runs. The "
        "certificate holds for this sequence, whatever produced the outcomes; it is a computed number, not a rate. It "
        "bounds the error of the distributions from which levels were drawn, not of the mean forecasts."
    )
    return prose(text + (f" Its a-priori counterpart: {clip(citation, 200)}." if citation else ""))


def _bars(forecaster: ForecasterEntry) -> Html:
    named = [
        ("Observed", forecaster.observed, "observed"),
        ("Certificate", forecaster.certificate, "promised"),
        ("Theorem’s bound", forecaster.bound, "promised"),
    ]
    known = [(name, x, style) for name, value, style in named if (x := finite(value)) is not None and x >= 0]
    longest = max((x for _, x, _ in known), default=0.0)
    if longest <= 0:
        return Html("")
    rows = [_bar(name, x, x / longest, style) for name, x, style in known]
    return exhibit("Observed error of the distributions and what was guaranteed", tag("div", *rows, class_="bars"))


def _bar(name: str, value: float, share: float, style: str) -> Html:
    bar = tag("rect", width=f"{max(0.2, 100 * share):.2f}%", height="100%", class_=f"length {style}")
    picture = tag("svg", bar, class_="track", aria_hidden="true")
    return join([tag("span", name), picture, tag("span", figure(value), class_="number")])


def _pieces(pieces: Sequence[CertificatePiece]) -> Html:
    if not pieces:
        return Html("")
    total = sum(x for p in pieces if (x := finite(p.value)) is not None)
    columns = [("Piece", "name"), ("Amount", "number"), ("Share", "number")]
    rows = [[clip(p.name, 200), figure(p.value), _share(p.value, total)] for p in pieces]
    return table("Parts of the certificate.", columns, rows, style="pieces")


ISSUED = (
    ("cal", "Calibration error", "mean over the levels, weighted by their outcomes"),
    ("smcal_1", "Along linear rules", "residuals times the worst linear rule of values up to 1, one for each level"),
    ("smcal_2", "The same, squared", "mean over the levels of its square"),
    (
        "somni",
        "Lost by decisions",
        "by convex losses of slope up to 1 to affine rules, one of each for each level; outcomes 0 and 1",
    ),
)


def _drawn(issued: IssuedEntry | None) -> Html:
    if issued is None:
        return Html("")
    rows = [[name, meaning, figure(getattr(issued, field))] for field, name, meaning in ISSUED]
    columns = [("Error", "name"), ("Meaning", "text"), ("Per outcome", "number")]
    caption = (
        f"The levels themselves, as they were drawn, over {count(issued.labels)} outcomes: exact sums, chance included."
    )
    return table(caption, columns, rows, style="pieces")


def _share(value: float | None, total: float) -> str:
    x = finite(value)
    return percent(None if x is None or total <= 0 else x / total, 0)


# Decisions: the cost of acting on the forecasts, and the most that alternatives could save.

MOST_DECISIONS = 30
"""Losses shown at most."""


def decisions(findings: Findings) -> Html:
    """Write the table of losses."""
    entries = findings.decisions or ()
    shown = entries[:MOST_DECISIONS]
    lead = prose(
        "For each loss, the forecast is turned into the action that is best if the forecast is right. "
        "Regret is the mean cost above the best alternative found; a certificate, where there is one, is "
        "the most that any alternative of its class can save."
    )
    columns = [("Loss", "name"), ("Mean cost", "number"), ("Regret", "number"), ("Certificate", "number")]
    columns.append(("Best alternative", "text"))
    caption = "Decisions. Mean cost per row of acting on the forecasts."
    note = hidden(len(shown), len(entries), "loss", "the first come first")
    return section("decisions", "Decisions", lead, table(caption, columns, list(map(_decision_row, shown))), note)


def _decision_row(decision: DecisionEntry) -> list[str]:
    cost = finite(decision.alternative_cost)
    note = tag("span", f" at {figure(cost)}", class_="note") if cost is not None else ""
    alternative = join([given(decision.alternative), note]) if decision.alternative else "–"
    costs = [figure(decision.cost), figure(decision.regret), figure(decision.certificate)]
    return [given(decision.loss), *costs, alternative]


MOST_DRAWN = 200
"""Points of a curve drawn at most."""


def conventional(findings: Findings) -> Html:
    """Write the measures as a table and draw their curves; none of them enters the verdict."""
    entry = findings.conventional
    if entry is None:
        return Html("")
    lead = prose(
        "Measures under their names in medicine, meteorology and machine learning. Each interval is separate, for "
        "independent rows; the verdict above comes from the simultaneous test."
    )
    columns = [("Measure", "name"), ("Value", "number"), ("95\u202f% interval", "number"), ("Reading", "")]
    rows = [row for row in (*_lines(entry), *_errors(entry)) if row]
    pictures = [picture for picture in (_isotonic(entry.isotonic), _decisions(entry.net_benefit)) if picture]
    drawn = tag("div", *pictures, class_="pair") if pictures else Html("")
    return section("conventional", "Measures by field", lead, table("Measures by field", columns, rows), drawn)


def _lines(entry: ConventionalEntry) -> list[list[str]]:
    entries = [
        ("Calibration slope", entry.slope, "1 is right; below 1, forecasts are too extreme"),
        (
            "Calibration in the large",
            entry.intercept,
            "intercept at slope 1; 0 is right, above 0 forecasts are too low",
        ),
        ("O:E ratio", entry.observed_expected, "observed over expected; 1 is right"),
    ]
    return [
        [name, figure(triple[0]), f"{figure(triple[1])} to {figure(triple[2])}", reading]
        for name, triple, reading in entries
        if triple and len(triple) == 3
    ]


def _errors(entry: ConventionalEntry) -> list[list[str]]:
    split = (
        f"Brier score = {figure(entry.miscalibration)} − {figure(entry.discrimination)} + {figure(entry.uncertainty)}"
    )
    entries = [
        ("Debiased ECE", entry.debiased_ece, "root mean square gap over levels, corrected for noise"),
        ("Miscalibration (CORP)", entry.miscalibration, f"{split}: miscalibration, discrimination, uncertainty"),
        ("Averaged two-bin error", entry.two_bin, f"{figure(entry.two_bin_expected)} on average if right"),
        ("Cutoff error", entry.cutoff, f"above {figure(entry.cutoff_chance)} in 2.5\u202f% of samples if right"),
    ]
    return [[name, figure(value), "", reading] for name, value, reading in entries if finite(value) is not None]


def _isotonic(points: Sequence[IsotonicPoint]) -> Html:
    shown = [p for p in points[:MOST_DRAWN] if len(all_finite([p.p, p.rate, p.low, p.high])) == 4]
    if len(shown) < 2:
        return Html("")
    values = [value for point in shown for value in (point.p, point.rate)]
    span = Axis(0.0, 1.0) if max(values) - min(values) > 0.5 else covering(values)
    plot, write = Plot(span, span), percent_axis(span)
    shapes = [
        stretched(plot.area([(point.p, point.low, point.high) for point in shown], "band")),
        plot.x_axis(span.ticks(), write),
        plot.y_axis(span.ticks(), write),
        plot.segment(span.low, span.low, span.high, span.high, "ideal"),
        stretched(plot.line([(point.p, point.rate) for point in shown], "observed-line")),
    ]
    text = "Observed rate by isotonic regression on the forecasts, with its pointwise band if the forecasts are right."
    key = legend(("observed-line", "observed"), ("band", "pointwise 95\u202f% band if right"))
    return exhibit("Isotonic reliability (CORP)", drawing("isotonic", "Isotonic", text, *shapes, style="square"), key)


def _decisions(points: Sequence[NetBenefitPoint]) -> Html:
    known = [p for p in points[:MOST_DRAWN] if len(all_finite([p.benefit, p.low, p.high, p.everyone])) == 4]
    shown = _where_decisions_differ(known)
    if len(shown) < 2:
        return Html("")
    floor = -0.05 * max(max(point.everyone, point.high) for point in shown)
    heights = [floor, *(point.high for point in shown)]
    plot = Plot(Axis(shown[0].threshold, shown[-1].threshold), covering(heights))
    always = [(p.threshold, p.everyone if p.everyone >= plot.y.low else None) for p in shown]
    band = [(p.threshold, max(p.low, plot.y.low), p.high) for p in shown]
    shapes = [
        stretched(plot.area(band, "band")),
        plot.x_axis(plot.x.ticks(), percent_axis(plot.x)),
        plot.y_axis(plot.y.ticks(), lambda value: f"{value:.3g}"),
        plot.segment(plot.x.low, 0.0, plot.x.high, 0.0, "ideal"),
        stretched(plot.line(always, "predicted")),
        stretched(plot.line([(p.threshold, max(p.benefit, plot.y.low)) for p in shown], "observed-line")),
    ]
    text = "Net benefit of acting on forecasts from each threshold on, against acting always and never."
    key = legend(("observed-line", "by forecast"), ("predicted", "act always"), ("ideal", "act never"))
    return exhibit(
        "Net benefit, by threshold", drawing("benefit", "Decision curve", text, *shapes, style="square"), key
    )


def _where_decisions_differ(points: Sequence[NetBenefitPoint]) -> list[NetBenefitPoint]:
    """Return the thresholds up to the last one at which acting by forecast differs from never acting."""
    last = max((i for i, point in enumerate(points) if point.high > 0), default=-1)
    return list(points[: last + 2])
