"""Sections on reliability: observed rates by predicted probability, with the band of chance, and over time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swapcal.report.findings import Density, Findings, Level, Period
from swapcal.report.html import (
    DASH,
    Html,
    all_finite,
    axis_decimals,
    clip,
    count,
    counted,
    decimals,
    exhibit,
    figure,
    finite,
    folded,
    hidden,
    join,
    legend,
    percent,
    plain_symbol,
    plural,
    points,
    prose,
    section,
    sized,
    symbol,
    table,
    tag,
    tick,
)
from swapcal.report.svg import Axis, Plot, covering, drawing, spread, stretched

# Reliability: observed rates by predicted probability, with the band of chance.

MOST_LEVELS = 256
"""Levels drawn at most; the ones with most rows are kept."""
FEW_LEVELS = 12
"""Up to this many levels each gets its own bar of chance; more are joined to a ribbon."""
MOST_BARS = 100
"""Bars at most; neighbours are added up beyond that."""


def outside(value: float | None, low: float | None, high: float | None) -> bool:
    """Return whether a value lies beyond a band; False without a band.

    >>> outside(0.4, 0.1, 0.3), outside(0.4, None, None)
    (True, False)
    """
    x, a, b = finite(value), finite(low), finite(high)
    return x is not None and ((a is not None and x < a) or (b is not None and x > b))


@dataclass(frozen=True)
class Rate:
    """Predicted and observed rate of some rows; `x` is their position in a picture.

    >>> rate = Rate.of(0.5, 0.3, 0.35, 1200, 0.28, 0.33)
    >>> rate.beyond, round(rate.gap, 2), rate.band
    (True, 0.05, (0.28, 0.33))
    >>> Rate.of(0.5, 0.3, None, 1200, None, None) is None
    True
    """

    x: float
    p: float
    y: float
    n: float
    band: tuple[float, float] | None
    amount: str = "Rows"

    @staticmethod
    def of(
        x: float | None,
        p: float | None,
        y: float | None,
        n: float | None,
        low: float | None,
        high: float | None,
        amount: str = "Rows",
    ) -> "Rate | None":
        """Return a rate from figures that may be missing; None if it cannot be drawn."""
        at, predicted, observed, bottom, top = map(finite, (x, p, y, low, high))
        if at is None or predicted is None or observed is None:
            return None
        band = None if bottom is None or top is None else (bottom, top)
        return Rate(at, predicted, observed, max(0.0, finite(n) or 0.0), band, amount)

    @property
    def gap(self) -> float:
        """Observed minus predicted."""
        return self.y - self.p

    @property
    def beyond(self) -> bool:
        """Whether the observed rate lies outside its band."""
        return self.band is not None and outside(self.y, *self.band)

    @property
    def widest(self) -> float:
        """Largest distance of the observed rate or a band's end from the prediction."""
        low, high = self.band or (self.y, self.y)
        return max(abs(self.gap), abs(low - self.p), abs(high - self.p))

    def mark(self, plot: Plot, x: float, y: float, radius: float) -> Html:
        """Draw the observed rate: round within the band, a coloured diamond outside."""
        title = f"predicted {percent(self.p, 2)}, observed {percent(self.y, 2)}, {sized(self.n, self.amount)}"
        draw = plot.diamond if self.beyond else plot.dot
        return draw(x, y, "beyond" if self.beyond else "observed", radius, title)


def reliability(findings: Findings) -> Html:
    """Draw the reliability curve over the density of predictions, and the same as gaps."""
    return predicted_against_observed(findings.reliability, findings.density, counted(findings))


def predicted_against_observed(levels: Sequence[Level], density: Density | None, amount: str) -> Html:
    """Draw levels, whose sizes are an `amount` of rows or weight, as a section; empty without levels to draw."""
    rates = rates_of(levels, amount)
    if not rates:
        return Html("")
    shown = busiest(rates)
    curves = tag("div", _curve(shown, density, amount), _gaps(shown), class_="pair")
    key = legend(
        ("band", "95\u202f% band if the forecasts are right"),
        ("observed", "observed, within the band"),
        ("beyond", "observed, outside the band"),
        ("ideal", "perfect agreement"),
    )
    note = hidden(
        len(shown),
        len(rates),
        "level",
        f"those with the least {amount.lower()}" if amount == "Weight" else "those with the fewest rows",
    )
    parts = [_lead(shown), curves, key, note, _figures(shown, amount)]
    return section("reliability", "Predicted against observed", *parts)


def rates_of(levels: Sequence[Level], amount: str = "Rows") -> list[Rate]:
    """Return the levels that can be drawn."""
    return [rate for level in levels if (rate := _rate(level, amount)) is not None]


def _rate(level: Level, amount: str) -> Rate | None:
    p, y, n = level.mean_p, level.mean_y, level.n
    return Rate.of(level.v, p, y, n, level.band_low, level.band_high, amount)


def busiest(rates: Sequence[Rate]) -> list[Rate]:
    """Keep the levels with the most rows, in their order.

    >>> busiest([])
    []
    """
    order = sorted(range(len(rates)), key=lambda i: (-rates[i].n, i))
    return [rates[i] for i in sorted(order[:MOST_LEVELS])]


def _lead(rates: Sequence[Rate]) -> Html:
    beyond = sum(rate.beyond for rate in rates)
    outside_band = f"{count(beyond)} of the {plural(len(rates), 'level')} drawn"
    text = (
        "If the forecasts are right, things given a probability of 30\u202f% happen about 30\u202f% of the "
        f"time: the marks follow the diagonal. Here, {outside_band} {'lies' if beyond == 1 else 'lie'} outside the "
        "95\u202f% band of chance. The second picture shows the same marks as differences, enlarged."
    )
    return prose(text)


def part_worth_drawing(rates: Sequence[Rate]) -> Axis:
    """Return the axis [0, 1], or a narrower one if all rates lie in a narrow part of it.

    >>> part_worth_drawing([Rate(v, v, v, 1.0, None) for v in (0.002, 0.01, 0.02)])
    Axis(low=0.0, high=0.0245)
    """
    values = [value for rate in rates for value in (rate.p, rate.y)]
    low, high = min(values), max(values)
    if low < 0 or high > 1:
        return covering(values)
    if high - low > 0.5 or len(rates) < 3:
        return Axis(0.0, 1.0)
    room = max(0.25 * (high - low), 0.01 * max(high, 1e-3))
    low, high = max(0.0, low - room), min(1.0, high + room)
    return Axis(0.0 if low < 0.3 * high else low, 1.0 if 1 - high < 0.3 * (1 - low) else high)


def percent_axis(scale: Axis) -> Callable[[float], str]:
    """Return how the ticks of a scale of rates are written."""
    places = axis_decimals(scale.high - scale.low)
    return lambda value: percent(value, places)


def _curve(rates: Sequence[Rate], density: Density | None, amount: str) -> Html:
    span = part_worth_drawing(rates)
    plot = Plot(span, span)
    write = percent_axis(span)
    shapes = [
        *_chance(plot, [(rate.p, *rate.band) for rate in rates if rate.band]),
        plot.x_axis(span.ticks(), write),
        plot.y_axis(span.ticks(), write),
        plot.segment(span.low, span.low, span.high, span.high, "ideal"),
        *(rate.mark(plot, rate.p, rate.y, radius) for rate, radius in _sized(rates)),
    ]
    levels = plural(len(rates), "level")
    text = f"Observed frequency against predicted probability at {levels}, with the band of chance."
    square = drawing("curve", "Reliability curve", text, *shapes, style="square")
    below = density_strip(density, span, amount) if density else Html("")
    return exhibit("Observed frequency, by predicted probability", square, below)


def _chance(plot: Plot, band: Sequence[tuple[float, float, float]]) -> list[Html]:
    if len(band) > FEW_LEVELS:
        return [stretched(plot.area(sorted(band), "band"))]
    return [plot.segment(x, low, x, high, "band-bar") for x, low, high in band]


def _sized(rates: Sequence[Rate]) -> list[tuple[Rate, float]]:
    """Pair each level with a radius whose area grows with its rows; crowded curves get smaller marks."""
    most = max(rate.n for rate in rates) or 1.0
    growth = 4.0 if len(rates) <= 64 else 1.75
    return [(rate, 1.75 + growth * math.sqrt(rate.n / most)) for rate in rates]


def _gaps(rates: Sequence[Rate]) -> Html:
    # Bands of nearly empty levels are wide and would flatten everything else, so they may be cut off.
    least = 0.02 * max(rate.n for rate in rates)
    edges = [edge - rate.p for rate in rates if rate.band and rate.n >= least for edge in rate.band]
    y = covering([0.0, *edges, *(rate.gap for rate in rates)])
    plot = Plot(part_worth_drawing(rates), y)
    places = axis_decimals(y.high - y.low)
    shapes = [
        *_chance(plot, [(r.p, r.band[0] - r.p, r.band[1] - r.p) for r in rates if r.band]),
        plot.x_axis(plot.x.ticks(), percent_axis(plot.x)),
        plot.y_axis(y.ticks(), lambda value: points(value, places)),
        plot.segment(plot.x.low, 0.0, plot.x.high, 0.0, "ideal"),
        *(rate.mark(plot, rate.p, rate.gap, radius) for rate, radius in _sized(rates)),
    ]
    text = "Observed minus predicted, in percentage points, at each level; zero is perfect agreement."
    picture = drawing("gaps", "Gap at each level", text, *shapes, style="square")
    return exhibit("Observed minus predicted (percentage points)", picture)


def _figures(rates: Sequence[Rate], amount: str) -> Html:
    places = decimals([rate.p for rate in rates]) + 1
    names = ("Level", amount, "Predicted", "Observed", "Gap (points)", "Chance allows", "Within?")
    columns = [(name, "number") for name in names]
    rows = [_figures_row(rate, places) for rate in rates]
    return folded("Show these figures as a table", table("Levels of the reliability curve.", columns, rows))


def _figures_row(rate: Rate, places: int) -> list[str]:
    low, high = rate.band or (None, None)
    allowed = f"{percent(low, places)} to {percent(high, places)}" if rate.band else DASH
    within = ("no" if rate.beyond else "yes") if rate.band else DASH
    rates = [percent(rate.p, places), percent(rate.y, places), points(rate.gap, places)]
    return [percent(rate.x, places), count(rate.n), *rates, allowed, within]


def density_strip(density: Density, span: Axis, amount: str = "Rows") -> Html:
    """Draw the histogram over the same axis as the curve above it; nothing when it is empty."""
    bars = [bar for bar in merged(density) if bar[0] < span.high and bar[1] > span.low and bar[1] > bar[0]]
    tallest = max((n for _, _, n in bars), default=0.0)
    if tallest <= 0:
        return Html("")
    plot = Plot(span, Axis(0.0, tallest))
    shape = stretched(plot.boxes(((a, 0.0, b, n) for a, b, n in bars if n > 0), "density"))
    base = plot.segment(span.low, 0.0, span.high, 0.0, "axis")
    caption = tag("p", "How often each probability was predicted", class_="strip-caption")
    text = f"Histogram of the predictions in {len(bars)} bins; the tallest holds {sized(tallest, amount)}."
    return join([drawing("density", "Density of predictions", text, shape, base, style="density-strip"), caption])


def merged(density: Density) -> list[tuple[float, float, float]]:
    """Return bars (left, right, rows), neighbours added up so that few enough remain.

    >>> merged(Density(edges=(0.0, 0.5, 1.0), counts=(3, 4)))
    [(0.0, 0.5, 3.0), (0.5, 1.0, 4.0)]
    """
    edges, counts = density.edges, density.counts
    size = min(len(counts), len(edges) - 1)
    step = max(1, math.ceil(size / MOST_BARS))
    bars = []
    for i in range(0, size, step):
        ends = all_finite([edges[i], edges[min(i + step, size)]])
        if len(ends) == 2:
            bars.append((ends[0], ends[1], sum(all_finite(counts[i : i + step]))))
    return bars


# Timeline: predicted and observed rates over time, and the error of each period against chance.

MOST_PERIODS = 400
"""Periods drawn at most; the latest are kept."""
MOST_DOTS = 120
"""With more periods than this only the ones beyond chance are marked, the rest are a line."""


def timeline(findings: Findings) -> Html:
    """Draw both pictures over one time axis; nothing without at least two periods to compare."""
    given = findings.timeline or ()
    if len(given) < 2:
        return Html("")
    periods = given[-MOST_PERIODS:]
    error = findings.timeline_error or "Error"
    note = hidden(len(periods), len(given), "earlier period", "the latest are drawn")
    amount = counted(findings)
    pictures = [_rates(periods, amount), _errors(periods, error, amount)]
    return section("time", "Over time", _timeline_lead(periods), *pictures, note)


def _timeline_lead(periods: Sequence[Period]) -> Html:
    judged = [p for p in periods if finite(p.error) is not None and finite(p.null_high) is not None]
    beyond = sum(_beyond(p) for p in judged)
    if not judged:
        return prose("Predicted and observed rates over time.")
    expected = 0.025 * len(judged)
    usual = f"about {expected:.0f}" if expected >= 1 else "fewer than one"
    text = (
        f"In {count(beyond)} of {plural(len(judged), 'period')} the error exceeds its 95\u202f% band of chance; "
        f"correct forecasts would exceed it in {usual}."
    )
    return prose(text)


def _beyond(period: Period) -> bool:
    return outside(period.error, None, period.null_high)


def _axis(periods: Sequence[Period]) -> tuple[Axis, list[int]]:
    """Return the time axis and the indices that carry a label: few enough for a phone."""
    n = len(periods)
    longest = max(len(p.label) for p in periods)
    return Axis(-0.5, n - 0.5), spread(n, 5 if longest <= 8 else 3)


def _labels(plot: Plot, periods: Sequence[Period], picks: Sequence[int]) -> Html:
    low = plot.y.low
    labels = []
    for i in picks:
        anchor = "end" if i == len(periods) - 1 and i > 0 else "mid"
        labels.append(plot.write(i, low, clip(periods[i].label, 16), f"tick {anchor}", dy="1.45em"))
        labels.append(plot.segment(i, plot.y.low, i, plot.y.high, "grid"))
    return join(labels)


def _rates(periods: Sequence[Period], amount: str) -> Html:
    x, picks = _axis(periods)
    y = covering(all_finite(v for p in periods for v in (p.mean_p, p.mean_y)))
    plot = Plot(x, y)
    places = axis_decimals(y.high - y.low)
    shapes = [
        plot.y_axis(y.ticks(4), lambda value: percent(value, places)),
        _labels(plot, periods, picks),
        stretched(
            plot.line(((i, finite(p.mean_p)) for i, p in enumerate(periods)), "predicted"),
            plot.line(((i, finite(p.mean_y)) for i, p in enumerate(periods)), "observed-line"),
        ),
        *_rate_dots(plot, periods, amount),
    ]
    picture = drawing("rates", "Rates over time", "Predicted and observed rate in each period.", *shapes, style="wide")
    key = legend(("predicted", "mean predicted"), (_swatch(periods), "observed rate"))
    return exhibit("Predicted and observed rate", picture, key)


def _swatch(periods: Sequence[Period]) -> str:
    return "observed" if len(periods) <= MOST_DOTS else "observed-line"


def _rate_dots(plot: Plot, periods: Sequence[Period], amount: str) -> list[Html]:
    if len(periods) > MOST_DOTS:
        return []
    return [
        plot.dot(i, y, "observed", 2.5, _title(p, amount))
        for i, p in enumerate(periods)
        if (y := finite(p.mean_y)) is not None
    ]


def _title(period: Period, amount: str) -> str:
    rates = f"predicted {percent(period.mean_p, 2)}, observed {percent(period.mean_y, 2)}"
    return f"{clip(period.label, 40)}: {rates}, error {figure(period.error)}, {sized(period.n, amount)}"


def _errors(periods: Sequence[Period], error: str, amount: str) -> Html:
    values = all_finite(v for p in periods for v in (p.error, p.null_low, p.null_high))
    if not values:
        return Html("")
    x, picks = _axis(periods)
    cover = covering([0.0, *values])
    y = Axis(0.0, cover.high) if min(values) >= 0 else cover
    plot = Plot(x, y)
    boxes = ((i - 0.5, low, i + 0.5, high) for i, low, high in _floors(periods))
    shapes = [
        stretched(plot.boxes(boxes, "band steps")),
        plot.y_axis(y.ticks(4), lambda value: tick(value, y.step(4))),
        _labels(plot, periods, picks),
        stretched(plot.line(((i, finite(p.error)) for i, p in enumerate(periods)), "observed-line")),
        *_error_dots(plot, periods, amount),
    ]
    text = f"{plain_symbol(error)} in each period, with the band of chance."
    picture = drawing("errors", "Error over time", text, *shapes, style="wide")
    key = legend(("band", "chance"), (_swatch(periods), "error, within chance"), ("beyond", "error, beyond chance"))
    return exhibit(symbol(clip(error[:1].upper() + error[1:], 120)), picture, key)


def _floors(periods: Sequence[Period]) -> list[tuple[int, float, float]]:
    floors = []
    for i, period in enumerate(periods):
        low, high = finite(period.null_low), finite(period.null_high)
        if high is not None:
            floors.append((i, low if low is not None else 0.0, high))
    return floors


def _error_dots(plot: Plot, periods: Sequence[Period], amount: str) -> list[Html]:
    dots = []
    for i, period in enumerate(periods):
        error, beyond = finite(period.error), _beyond(period)
        if error is not None and (beyond or len(periods) <= MOST_DOTS):
            mark = plot.diamond if beyond else plot.dot
            title = _title(period, amount) if len(periods) <= MOST_DOTS else None
            dots.append(mark(i, error, "beyond" if beyond else "observed", 3.0, title))
    return dots
