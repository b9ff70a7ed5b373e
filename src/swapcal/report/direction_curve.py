"""Along a direction: predicted and observed rates in bins of a witness's score.

Bins stand side by side in the order of their scores, because scores of real directions bunch together.
"""

from collections.abc import Callable, Sequence

from swapcal.report.formats import axis_decimals, figure, percent, points
from swapcal.report.layout import exhibit, legend
from swapcal.report.markup import Html
from swapcal.report.rate import Rate
from swapcal.report.schema import CurvePoint
from swapcal.report.svg import Plot, Scale, covering, drawing, spread, stretched

MOST_BINS = 40
"""Bins drawn at most."""


def direction_curve(name: str, curve: Sequence[CurvePoint], axis: str) -> Html:
    """Draw the rates along the direction, or their differences where rates would hide them."""
    bins = [rate for rate in map(_rate, curve[:MOST_BINS]) if rate is not None]
    if not bins:
        return Html("")
    apart = differences_tell_more(bins)
    what = "Observed minus predicted (percentage points)" if apart else "Predicted and observed rate"
    text = f"{what} in {len(bins)} bins of the {axis}, in increasing order."
    picture = drawing(name, f"{what}, by {axis}", text, *_shapes(bins, apart), style="medium")
    return exhibit(f"{what}, by {axis}", picture, _key(bins))


def _rate(point: CurvePoint) -> Rate | None:
    low, high = point.get("band_low"), point.get("band_high")
    return Rate.of(point["score"], point["mean_p"], point["mean_y"], point["n"], low, high)


def differences_tell_more(bins: Sequence[Rate]) -> bool:
    """Tell whether predictions vary so much that the gaps to the outcomes would be too small to see.

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
    plot = Plot(Scale(-0.5, len(bins) - 0.5), y)
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


def _writer(y: Scale, apart: bool) -> Callable[[float], str]:
    places = axis_decimals(y.high - y.low)
    write = points if apart else percent
    return lambda value: write(value, places)


def _key(bins: Sequence[Rate]) -> Html:
    entries = [("predicted", "mean predicted"), ("observed", "observed rate")]
    if any(rate.band for rate in bins):
        entries += [("beyond", "observed, beyond chance"), ("band", "what chance allows")]
    return legend(*entries)
