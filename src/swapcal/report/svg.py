"""Drawing: plots whose positions are percentages, so that one drawing suits a phone, a desk and a sheet.

Text and marks keep their size in pixels while the space between them stretches. Lines and areas, which SVG
cannot place by percentage, live in an inner drawing of `UNIT` × `UNIT` that is stretched over the plot.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from swapcal.report.html import Html, coordinate, join, tag

UNIT = 1000
"""Side of the inner drawing that holds lines and areas."""


@dataclass(frozen=True)
class Axis:
    """An interval of values mapped to fractions of a side.

    >>> Axis(0.0, 4.0).at(1.0)
    0.25
    >>> Axis(2.0, 2.0).at(2.0)
    0.5
    """

    low: float
    high: float

    def at(self, value: float) -> float:
        """Fraction of the side at `value`; values outside sit on the nearest end."""
        span = self.high - self.low
        return min(1.0, max(0.0, (value - self.low) / span)) if span > 0 else 0.5

    def step(self, target: int = 5) -> float:
        """Distance between the ticks."""
        return round_step((self.high - self.low) / target)

    def ticks(self, target: int = 5) -> list[float]:
        """Round values inside the interval, about `target` of them.

        >>> Axis(0.0, 1.0).ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        step = self.step(target)
        if step == 0:
            return [self.low]
        first, last = math.ceil(self.low / step - 1e-6), math.floor(self.high / step + 1e-6)
        return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def spread(n: int, wanted: int) -> list[int]:
    """Pick about `wanted` of n positions, evenly and with both ends.

    >>> spread(9, 3), spread(2, 5), spread(1, 5)
    ([0, 4, 8], [0, 1], [0])
    """
    few = min(n, wanted)
    return sorted({round(i * (n - 1) / (few - 1)) for i in range(few)}) if few > 1 else [0]


def round_step(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, close above `rough`; 0 for an empty interval.

    >>> round_step(0.17), round_step(30), round_step(0)
    (0.2, 50.0, 0.0)
    """
    if not rough > 1e-290:
        return 0.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(float(f"{m * power:.12g}") for m in (1, 2, 5, 10, 20) if m * power >= rough * 0.999)


def covering(values: Iterable[float], margin: float = 0.06) -> Axis:
    """Return a scale that covers all values with a margin; a default one for fewer than two values.

    >>> covering([0.0, 1.0], margin=0.1)
    Axis(low=-0.1, high=1.1)
    >>> covering([])
    Axis(low=0.0, high=1.0)
    """
    given = list(values)
    if not given:
        return Axis(0.0, 1.0)
    low, high = min(given), max(given)
    # Below this width rounding noise would fill the plot, so a flat series is drawn as flat.
    pad = max((high - low) * margin, 1e-3 * max(abs(low), abs(high)), 1e-9)
    return Axis(low - pad, high + pad)


@dataclass(frozen=True)
class Plot:
    """Two scales; methods return SVG elements placed by them (y grows upwards)."""

    x: Axis
    y: Axis

    def across(self, value: float) -> str:
        """Horizontal place of a value, as a percentage."""
        return coordinate(100 * self.x.at(value)) + "%"

    def up(self, value: float) -> str:
        """Vertical place of a value, as a percentage."""
        return coordinate(100 - 100 * self.y.at(value)) + "%"

    def dot(self, x: float, y: float, style: str, radius: float = 3.5, title: str | None = None) -> Html:
        """Draw a round mark."""
        label = [tag("title", title)] if title else []
        shape = tag("circle", r=radius)
        return self._mark(x, y, style, label, shape)

    def diamond(self, x: float, y: float, style: str, radius: float = 3.5, title: str | None = None) -> Html:
        """Draw a mark whose shape, not only its colour, means "beyond chance"."""
        label = [tag("title", title)] if title else []
        r = coordinate(radius * 1.3)
        return self._mark(x, y, style, label, tag("path", d=f"M0-{r}L{r} 0L0 {r}L-{r} 0Z"))

    def _mark(self, x: float, y: float, style: str, label: Sequence[Html], shape: Html) -> Html:
        return tag("svg", *label, shape, x=self.across(x), y=self.up(y), class_=style)

    def segment(self, x1: float, y1: float, x2: float, y2: float, style: str) -> Html:
        """Draw a straight line between two points."""
        return tag("line", x1=self.across(x1), y1=self.up(y1), x2=self.across(x2), y2=self.up(y2), class_=style)

    def write(self, x: float, y: float, text: str, style: str, dx: float = 0, dy: str = "0.33em") -> Html:
        """Write a short text at a point."""
        return tag("text", text, x=self.across(x), y=self.up(y), dx=dx or None, dy=dy, class_=style)

    def inner(self, x: float, y: float) -> str:
        """Coordinates of a point in the stretched inner drawing."""
        return f"{coordinate(UNIT * self.x.at(x))} {coordinate(UNIT - UNIT * self.y.at(y))}"

    def line(self, series: Iterable[tuple[float, float | None]], style: str) -> Html:
        """Draw a line through a series, broken where it has no value."""
        path = "".join("M" + "L".join(self.inner(x, y) for x, y in run) for run in _runs(series))
        return tag("path", d=path, class_=style) if path else Html("")

    def boxes(self, corners: Iterable[tuple[float, float, float, float]], style: str) -> Html:
        """Fill rectangles given as (x1, y1, x2, y2), as one path."""
        path = "".join(
            f"M{self.inner(x1, y1)}L{self.inner(x2, y1)}L{self.inner(x2, y2)}L{self.inner(x1, y2)}Z"
            for x1, y1, x2, y2 in corners
        )
        return tag("path", d=path, class_=style) if path else Html("")

    def area(self, series: Iterable[tuple[float, float, float]], style: str) -> Html:
        """Fill between a lower and an upper curve given as (x, low, high)."""
        points = list(series)
        rim = [self.inner(x, high) for x, _, high in points]
        rim += [self.inner(x, low) for x, low, _ in reversed(points)]
        return tag("path", d="M" + "L".join(rim) + "Z", class_=style) if len(points) > 1 else Html("")

    def x_axis(self, ticks: Iterable[float], write: Callable[[float], str]) -> Html:
        """Draw upright grid lines with labels below the plot."""
        marks = list(ticks)
        lines = [self.segment(t, self.y.low, t, self.y.high, "grid") for t in marks]
        return join(lines + [self.write(t, self.y.low, write(t), "tick mid", dy="1.45em") for t in marks])

    def y_axis(self, ticks: Iterable[float], write: Callable[[float], str]) -> Html:
        """Draw level grid lines with labels left of the plot."""
        marks = list(ticks)
        lines = [self.segment(self.x.low, t, self.x.high, t, "grid") for t in marks]
        return join(lines + [self.write(self.x.low, t, write(t), "tick end", dx=-7) for t in marks])


def _runs(series: Iterable[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in series:
        if y is None:
            runs.append([])
        else:
            runs[-1].append((x, y))
    return [run for run in runs if len(run) > 1]


def stretched(*shapes: str) -> Html:
    """Wrap lines and areas in a drawing that stretches with the plot."""
    return tag("svg", *shapes, viewBox=f"0 0 {UNIT} {UNIT}", preserveAspectRatio="none", class_="stretch")


def drawing(name: str, title: str, description: str, *shapes: str, style: str) -> Html:
    """Wrap shapes as a picture that a screen reader can announce."""
    heading = [tag("title", title, id=f"{name}-title"), tag("desc", description, id=f"{name}-desc")]
    labels = f"{name}-title {name}-desc"
    picture = tag("svg", *heading, *shapes, role="img", aria_labelledby=labels, class_="chart")
    return tag("div", picture, class_=f"plot {style}")
