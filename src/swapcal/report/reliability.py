"""Reliability: what was observed at each predicted probability, with the band chance allows."""

import math
from collections.abc import Callable, Sequence

from swapcal.report.layout import exhibit, folded, hidden, legend, prose, section, table
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Density, Findings, Level
from swapcal.report.svg import Plot, Scale, covering, drawing, stretched
from swapcal.report.text import all_finite, axis_decimals, count, decimals, finite, percent, points

MOST_LEVELS = 256
"""Levels drawn at most; the ones with most rows are kept."""
MOST_BINS = 100
"""Bars of the density at most; neighbours are added up beyond that."""


def reliability(findings: Findings) -> Html:
    """Draw the reliability curve over the density of predictions, and the same as gaps."""
    levels = [level for level in findings.get("reliability") or [] if _drawable(level)]
    density = findings.get("density")
    if not levels:
        return Html("")
    shown = busiest(levels)
    curves = tag("div", _curve(shown, density), _gaps(shown), class_="pair")
    key = legend(
        ("band", "95 % band if the forecasts are right"),
        ("observed", "observed, within the band"),
        ("beyond", "observed, outside the band"),
        ("ideal", "perfect agreement"),
    )
    rest = hidden(len(shown), len(levels), "level", "those with the fewest rows")
    return section(
        "reliability", "Predicted against observed", _lead(shown), curves, key, rest, _figures(shown)
    )


def _drawable(level: Level) -> bool:
    return finite(level["mean_p"]) is not None and finite(level["mean_y"]) is not None


def busiest(levels: Sequence[Level]) -> list[Level]:
    """Keep the levels with the most rows, in their order.

    >>> len(busiest([]))
    0
    """
    if len(levels) <= MOST_LEVELS:
        return list(levels)
    order = sorted(range(len(levels)), key=lambda i: (-(finite(levels[i]["n"]) or 0.0), i))
    return [levels[i] for i in sorted(order[:MOST_LEVELS])]


def outside(value: float | None, low: float | None, high: float | None) -> bool:
    """Tell whether a value lies beyond a band; without a band nothing does.

    >>> outside(0.4, 0.1, 0.3), outside(0.4, None, None)
    (True, False)
    """
    x, a, b = finite(value), finite(low), finite(high)
    return x is not None and ((a is not None and x < a) or (b is not None and x > b))


def _beyond(level: Level) -> bool:
    return outside(level["mean_y"], level["band_low"], level["band_high"])


def _lead(levels: Sequence[Level]) -> Html:
    beyond = sum(map(_beyond, levels))
    text = (
        "If the forecasts are right, things given a probability of 30 % happen about 30 % of the time: "
        f"the marks follow the diagonal. Of {count(len(levels))} levels drawn, {count(beyond)} "
        f"{'lies' if beyond == 1 else 'lie'} outside the band that chance allows. The second picture "
        "shows the same marks as differences, enlarged."
    )
    return prose(text)


def _span(levels: Sequence[Level]) -> Scale:
    """Return the part of [0, 1] worth drawing: all of it unless everything sits in a narrow part."""
    values = all_finite(x for level in levels for x in (level["mean_p"], level["mean_y"]))
    low, high = min(values), max(values)
    if low < 0 or high > 1:
        return covering(values)
    if high - low > 0.5:
        return Scale(0.0, 1.0)
    room = max(0.25 * (high - low), 0.01 * max(high, 1e-3))
    low, high = max(0.0, low - room), min(1.0, high + room)
    return Scale(0.0 if low < 0.3 * high else low, 1.0 if 1 - high < 0.3 * (1 - low) else high)


def _curve(levels: Sequence[Level], density: Density | None) -> Html:
    span = _span(levels)
    plot = Plot(span, span)
    write = _percent_axis(span)
    shapes = [
        stretched(
            plot.area(_band(levels, 0.0), "band"),
            plot.line([(span.low, span.low), (span.high, span.high)], "ideal"),
        ),
        plot.x_axis(span.ticks(), write),
        plot.y_axis(span.ticks(), write),
        *_marks(plot, levels, gap=False),
    ]
    text = (
        f"Observed frequency against predicted probability at {len(levels)} levels, with the band of chance."
    )
    square = drawing("curve", "Reliability curve", text, *shapes, style="square")
    below = _density(density, span) if density else Html("")
    return exhibit("Observed frequency, by predicted probability", square, below, style="square-figure")


def _percent_axis(scale: Scale) -> Callable[[float], str]:
    places = axis_decimals(scale.high - scale.low)
    return lambda value: percent(value, places)


def _band(levels: Sequence[Level], slope: float) -> list[tuple[float, float, float]]:
    """Return the band as (predicted, low, high), shifted down by `slope` × predicted."""
    band = []
    for level in levels:
        p, low, high = (finite(x) for x in (level["mean_p"], level["band_low"], level["band_high"]))
        if p is not None and low is not None and high is not None:
            band.append((p, low - slope * p, high - slope * p))
    return sorted(band)


def _marks(plot: Plot, levels: Sequence[Level], gap: bool) -> list[Html]:
    most = max(all_finite(level["n"] for level in levels), default=0.0) or 1.0
    marks = []
    for level in levels:
        p, y = float(level["mean_p"] or 0.0), float(level["mean_y"] or 0.0)
        radius = 2.0 + 4.0 * math.sqrt(max(0.0, finite(level["n"]) or 0.0) / most)
        beyond = _beyond(level)
        mark = plot.diamond if beyond else plot.dot
        title = f"predicted {percent(p, 2)}, observed {percent(y, 2)}, {count(level['n'])} rows"
        marks.append(mark(p, y - p if gap else y, "beyond" if beyond else "observed", radius, title))
    return marks


def _gaps(levels: Sequence[Level]) -> Html:
    gaps = [y - p for p, y in ((float(r["mean_p"] or 0), float(r["mean_y"] or 0)) for r in levels)]
    band = _band(levels, 1.0)
    most = max(all_finite(level["n"] for level in levels), default=0.0)
    # Bands of nearly empty levels are wide and would flatten everything else, so they may be cut off.
    solid = [r for r in levels if (finite(r["n"]) or 0.0) >= 0.02 * most]
    y = covering([0.0, *gaps, *(edge for _, low, high in _band(solid, 1.0) for edge in (low, high))])
    plot = Plot(_span(levels), y)
    places = axis_decimals(y.high - y.low)
    shapes = [
        stretched(plot.area(band, "band")),
        plot.x_axis(plot.x.ticks(), _percent_axis(plot.x)),
        plot.y_axis(y.ticks(), lambda value: points(value, places)),
        plot.segment(plot.x.low, 0.0, plot.x.high, 0.0, "ideal"),
        *_marks(plot, levels, gap=True),
    ]
    text = "Observed minus predicted, in percentage points, at each level; zero is perfect agreement."
    picture = drawing("gaps", "Gap at each level", text, *shapes, style="square")
    return exhibit("Observed minus predicted (percentage points)", picture, style="square-figure")


def _density(density: Density, span: Scale) -> Html:
    bars = [bar for bar in merged(density) if bar[0] < span.high and bar[1] > span.low]
    tallest = max((n for _, _, n in bars), default=0.0)
    if tallest <= 0:
        return Html("")
    plot = Plot(span, Scale(0.0, tallest))
    shape = stretched(plot.boxes(((a, 0.0, b, n) for a, b, n in bars if n > 0), "density"))
    base = plot.segment(span.low, 0.0, span.high, 0.0, "axis")
    caption = tag("p", "How often each probability was predicted", class_="strip-caption")
    text = f"Histogram of the predictions in {len(bars)} bins; the tallest holds {count(tallest)} rows."
    return join(
        [drawing("density", "Density of predictions", text, shape, base, style="density-strip"), caption]
    )


def merged(density: Density) -> list[tuple[float, float, float]]:
    """Return bars (left, right, rows), neighbours added up so that few enough remain.

    >>> merged({"edges": [0.0, 0.5, 1.0], "counts": [3, 4]})
    [(0.0, 0.5, 3.0), (0.5, 1.0, 4.0)]
    """
    edges, counts = density["edges"], density["counts"]
    step = max(1, math.ceil(len(counts) / MOST_BINS))
    bars = []
    for i in range(0, len(counts), step):
        ends = all_finite([edges[i], edges[min(i + step, len(edges) - 1)]])
        if len(ends) == 2:
            bars.append((ends[0], ends[1], sum(all_finite(counts[i : i + step]))))
    return bars


def _figures(levels: Sequence[Level]) -> Html:
    places = decimals([level["mean_p"] for level in levels]) + 1
    columns = [("Level", "number"), ("Rows", "number"), ("Predicted", "number"), ("Observed", "number")]
    columns += [("Gap (points)", "number"), ("Chance allows", "number"), ("Within?", "verdicts")]
    rows = [_figures_row(level, places) for level in levels]
    return folded("Show these figures as a table", table("Levels of the reliability curve.", columns, rows))


def _figures_row(level: Level, places: int) -> list[str]:
    p, y = float(level["mean_p"] or 0.0), float(level["mean_y"] or 0.0)
    allowed = f"{percent(level['band_low'], places)} to {percent(level['band_high'], places)}"
    return [
        percent(level["v"], places),
        count(level["n"]),
        percent(p, places),
        percent(y, places),
        points(y - p, places),
        allowed,
        "outside" if _beyond(level) else "within",
    ]
