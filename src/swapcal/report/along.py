"""Along a direction: predicted and observed rates in bins of a witness's score.

Bins stand side by side in the order of their scores, because scores of real directions bunch together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from swapcal.report.layout import exhibit, legend
from swapcal.report.markup import Html
from swapcal.report.reliability import outside
from swapcal.report.schema import CurvePoint
from swapcal.report.svg import Plot, Scale, covering, drawing, spread, stretched
from swapcal.report.text import axis_decimals, count, figure, finite, percent, points

MOST_BINS = 40
"""Bins drawn at most."""


@dataclass(frozen=True)
class _Bin:
    score: float
    p: float
    y: float
    band: tuple[float, float] | None
    title: str

    @property
    def beyond(self) -> bool:
        return self.band is not None and outside(self.y, *self.band)

    def relative(self) -> "_Bin":
        band = None if self.band is None else (self.band[0] - self.p, self.band[1] - self.p)
        return replace(self, p=0.0, y=self.y - self.p, band=band)


def along(name: str, curve: Sequence[CurvePoint], axis: str) -> Html:
    """Draw the rates along the direction, or their differences where rates would hide them."""
    bins = [b for b in map(_bin, curve[:MOST_BINS]) if b is not None]
    if not bins:
        return Html("")
    apart = differences_tell_more(bins)
    what = "Observed minus predicted (percentage points)" if apart else "Predicted and observed rate"
    text = f"{what} in {len(bins)} bins of the {axis}, in increasing order."
    shapes = _shapes([b.relative() for b in bins] if apart else bins, points if apart else percent)
    picture = drawing(name, f"{what}, by {axis}", text, *shapes, style="medium")
    return exhibit(f"{what}, by {axis}", picture, _key(bins))


def differences_tell_more(bins: Sequence[_Bin]) -> bool:
    """Tell whether predictions vary so much that the gaps to the outcomes would be too small to see."""
    spread_of_p = max(b.p for b in bins) - min(b.p for b in bins)
    return spread_of_p > 5 * max(abs(x - b.p) for b in bins for x in (b.y, *(b.band or ())))


def _bin(point: CurvePoint) -> _Bin | None:
    score, p, y = finite(point["score"]), finite(point["mean_p"]), finite(point["mean_y"])
    low, high = finite(point.get("band_low")), finite(point.get("band_high"))
    if score is None or p is None or y is None:
        return None
    title = f"predicted {percent(p, 2)}, observed {percent(y, 2)}, {count(point['n'])} rows"
    return _Bin(score, p, y, None if low is None or high is None else (low, high), title)


def _shapes(bins: Sequence[_Bin], write: Callable[[float, int], str]) -> list[Html]:
    edges = [edge for b in bins if b.band for edge in b.band]
    rates = covering([*edges, *(r for b in bins for r in (b.p, b.y))], 0.08)
    plot = Plot(Scale(-0.5, len(bins) - 0.5), rates)
    places = axis_decimals(rates.high - rates.low)
    picks = spread(len(bins), 4)
    return [
        plot.y_axis(rates.ticks(4), lambda value: write(value, places)),
        plot.x_axis(picks, lambda i: figure(bins[round(i)].score, 2)),
        *(plot.segment(i, b.band[0], i, b.band[1], "band-bar") for i, b in enumerate(bins) if b.band),
        stretched(plot.line(((i, b.p) for i, b in enumerate(bins)), "predicted")),
        *(plot.segment(i, b.p, i, b.y, "stem") for i, b in enumerate(bins)),
        *(plot.dot(i, b.p, "issued", 2.5) for i, b in enumerate(bins)),
        *(_mark(plot, i, b) for i, b in enumerate(bins)),
    ]


def _mark(plot: Plot, i: int, b: _Bin) -> Html:
    mark = plot.diamond if b.beyond else plot.dot
    return mark(i, b.y, "beyond" if b.beyond else "observed", 3.5, b.title)


def _key(bins: Sequence[_Bin]) -> Html:
    entries = [("predicted", "mean predicted"), ("observed", "observed rate")]
    if any(b.band for b in bins):
        entries += [("beyond", "observed, beyond chance"), ("band", "what chance allows")]
    return legend(*entries)
