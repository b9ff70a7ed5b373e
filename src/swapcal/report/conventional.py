"""Measures that fields report: a table with intervals, the isotonic reliability curve and the decision curve."""

from collections.abc import Sequence

from swapcal.report.findings import ConventionalEntry, Findings, IsotonicPoint, NetBenefitPoint
from swapcal.report.html import Html, all_finite, exhibit, figure, finite, legend, prose, section, table, tag
from swapcal.report.reliability import percent_axis
from swapcal.report.svg import Axis, Plot, covering, drawing, stretched

MOST_DRAWN = 200
"""Points of a curve drawn at most."""


def conventional(findings: Findings) -> Html:
    """Write the measures as a table and draw their curves; none of them enters the verdict."""
    found = findings.conventional
    if found is None:
        return Html("")
    lead = prose(
        "Measures by the names that medicine, meteorology and machine learning know them by. Intervals hold one at a "
        "time, for independent rows; the verdict above comes from the simultaneous test."
    )
    columns = [("Measure", "name"), ("Value", "number"), ("95\u202f% interval", "number"), ("Reading", "")]
    rows = [row for row in (*_lines(found), *_errors(found)) if row]
    pictures = [picture for picture in (_isotonic(found.isotonic), _decisions(found.net_benefit)) if picture]
    drawn = tag("div", *pictures, class_="pair") if pictures else Html("")
    return section("conventional", "Measures by field", lead, table("Measures by field", columns, rows), drawn)


def _lines(found: ConventionalEntry) -> list[list[str]]:
    entries = [
        ("Calibration slope", found.slope, "1 is right; below 1, forecasts are too extreme"),
        (
            "Calibration in the large",
            found.intercept,
            "intercept at slope 1; 0 is right, above 0 forecasts are too low",
        ),
        ("O:E ratio", found.observed_expected, "observed over expected; 1 is right"),
    ]
    return [
        [name, figure(triple[0]), f"{figure(triple[1])} to {figure(triple[2])}", reading]
        for name, triple, reading in entries
        if triple and len(triple) == 3
    ]


def _errors(found: ConventionalEntry) -> list[list[str]]:
    split = (
        f"Brier score = {figure(found.miscalibration)} − {figure(found.discrimination)} + {figure(found.uncertainty)}"
    )
    entries = [
        ("Debiased ECE", found.debiased_ece, "root mean square gap over levels, less what chance adds"),
        ("Miscalibration (CORP)", found.miscalibration, f"{split}: miscalibration, discrimination, uncertainty"),
        ("Averaged two-bin error", found.two_bin, f"{figure(found.two_bin_expected)} on average if right"),
        ("Cutoff error", found.cutoff, f"above {figure(found.cutoff_chance)} in 2.5\u202f% of samples if right"),
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
    everyone = [(p.threshold, p.everyone if p.everyone >= plot.y.low else None) for p in shown]
    band = [(p.threshold, max(p.low, plot.y.low), p.high) for p in shown]
    shapes = [
        stretched(plot.area(band, "band")),
        plot.x_axis(plot.x.ticks(), percent_axis(plot.x)),
        plot.y_axis(plot.y.ticks(), lambda value: f"{value:.3g}"),
        plot.segment(plot.x.low, 0.0, plot.x.high, 0.0, "ideal"),
        stretched(plot.line(everyone, "predicted")),
        stretched(plot.line([(p.threshold, max(p.benefit, plot.y.low)) for p in shown], "observed-line")),
    ]
    text = "Net benefit of acting on forecasts from each threshold on, beside acting always and never."
    key = legend(("observed-line", "by forecast"), ("predicted", "act always"), ("ideal", "act never"))
    return exhibit(
        "Net benefit, by threshold", drawing("benefit", "Decision curve", text, *shapes, style="square"), key
    )


def _where_decisions_differ(points: Sequence[NetBenefitPoint]) -> list[NetBenefitPoint]:
    """Return the thresholds up to the last one at which acting by forecast is not the same as never acting."""
    last = max((i for i, point in enumerate(points) if point.high > 0), default=-1)
    return list(points[: last + 2])
