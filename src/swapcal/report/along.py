"""Along a direction: predicted and observed rates in bins of a witness's score."""

from collections.abc import Sequence
from dataclasses import dataclass

from swapcal.report.layout import exhibit, legend
from swapcal.report.markup import Html
from swapcal.report.reliability import outside
from swapcal.report.schema import CurvePoint
from swapcal.report.svg import Plot, covering, drawing, stretched
from swapcal.report.text import axis_decimals, count, figure, finite, percent

MOST_BINS = 40
"""Bins drawn at most."""


@dataclass(frozen=True)
class _Bin:
    score: float
    p: float
    y: float
    n: float
    band: tuple[float, float] | None

    @property
    def beyond(self) -> bool:
        return self.band is not None and outside(self.y, *self.band)

    @property
    def title(self) -> str:
        return f"predicted {percent(self.p, 2)}, observed {percent(self.y, 2)}, {count(self.n)} rows"


def along(name: str, curve: Sequence[CurvePoint], axis: str) -> Html:
    """Draw the rates along the direction; nothing without drawable bins."""
    bins = [b for b in map(_bin, curve[:MOST_BINS]) if b is not None]
    if not bins:
        return Html("")
    text = f"Mean prediction and observed rate in {len(bins)} bins of the {axis}."
    title = f"Predicted and observed by {axis}"
    picture = drawing(name, title, text, *_shapes(bins), style="medium")
    return exhibit(f"Predicted and observed rate, by {axis}", picture, _key(bins))


def _bin(point: CurvePoint) -> _Bin | None:
    score, p, y = finite(point["score"]), finite(point["mean_p"]), finite(point["mean_y"])
    low, high = finite(point.get("band_low")), finite(point.get("band_high"))
    if score is None or p is None or y is None:
        return None
    return _Bin(score, p, y, finite(point["n"]) or 0.0, None if low is None or high is None else (low, high))


def _shapes(bins: Sequence[_Bin]) -> list[Html]:
    edges = [edge for b in bins if b.band for edge in b.band]
    plot = Plot(
        covering(b.score for b in bins), covering([*edges, *(r for b in bins for r in (b.p, b.y))], 0.08)
    )
    places = axis_decimals(plot.y.high - plot.y.low)
    return [
        stretched(plot.area(((b.score, *b.band) for b in bins if b.band), "band")),
        plot.y_axis(plot.y.ticks(4), lambda value: percent(value, places)),
        plot.x_axis(plot.x.ticks(3), lambda value: figure(value, 2)),
        stretched(plot.line(((b.score, b.p) for b in bins), "predicted")),
        *(plot.segment(b.score, b.p, b.score, b.y, "stem") for b in bins),
        *(_mark(plot, b) for b in bins),
    ]


def _mark(plot: Plot, b: _Bin) -> Html:
    mark = plot.diamond if b.beyond else plot.dot
    return mark(b.score, b.y, "beyond" if b.beyond else "observed", 3.5, b.title)


def _key(bins: Sequence[_Bin]) -> Html:
    entries = [("predicted", "mean predicted"), ("observed", "observed rate")]
    if any(b.band for b in bins):
        entries += [("beyond", "observed, beyond chance"), ("band", "what chance allows")]
    return legend(*entries)
