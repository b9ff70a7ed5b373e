"""Density: how often each probability was predicted, as a strip below the reliability curve."""

import math

from swapcal.report.formats import all_finite, count
from swapcal.report.markup import Html, join, tag
from swapcal.report.schema import Density
from swapcal.report.svg import Plot, Scale, drawing, stretched

MOST_BARS = 100
"""Bars at most; neighbours are added up beyond that."""


def density_strip(density: Density, span: Scale) -> Html:
    """Draw the histogram over the same axis as the curve above it; nothing when it is empty."""
    bars = [bar for bar in merged(density) if bar[0] < span.high and bar[1] > span.low and bar[1] > bar[0]]
    tallest = max((n for _, _, n in bars), default=0.0)
    if tallest <= 0:
        return Html("")
    plot = Plot(span, Scale(0.0, tallest))
    shape = stretched(plot.boxes(((a, 0.0, b, n) for a, b, n in bars if n > 0), "density"))
    base = plot.segment(span.low, 0.0, span.high, 0.0, "axis")
    caption = tag("p", "How often each probability was predicted", class_="strip-caption")
    text = f"Histogram of the predictions in {len(bars)} bins; the tallest holds {count(tallest)} rows."
    return join([drawing("density", "Density of predictions", text, shape, base, style="density-strip"), caption])


def merged(density: Density) -> list[tuple[float, float, float]]:
    """Return bars (left, right, rows), neighbours added up so that few enough remain.

    >>> merged({"edges": [0.0, 0.5, 1.0], "counts": [3, 4]})
    [(0.0, 0.5, 3.0), (0.5, 1.0, 4.0)]
    """
    edges, counts = density["edges"], density["counts"]
    size = min(len(counts), len(edges) - 1)
    step = max(1, math.ceil(size / MOST_BARS))
    bars = []
    for i in range(0, size, step):
        ends = all_finite([edges[i], edges[min(i + step, size)]])
        if len(ends) == 2:
            bars.append((ends[0], ends[1], sum(all_finite(counts[i : i + step]))))
    return bars
