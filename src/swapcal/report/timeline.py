"""Timeline: predicted and observed rates over time, and the error of each period against chance."""

from collections.abc import Sequence

from swapcal.report.formats import (
    all_finite,
    axis_decimals,
    clip,
    count,
    figure,
    finite,
    percent,
    plain_symbol,
    plural,
    symbol,
    tick,
)
from swapcal.report.layout import exhibit, hidden, legend, prose, section
from swapcal.report.markup import Html, join
from swapcal.report.reliability import outside
from swapcal.report.schema import Findings, Period
from swapcal.report.svg import Axis, Plot, covering, drawing, spread, stretched

MOST_PERIODS = 400
"""Periods drawn at most; the latest are kept."""
MOST_DOTS = 120
"""With more periods than this only the ones beyond chance are marked, the rest are a line."""


def timeline(findings: Findings) -> Html:
    """Draw both pictures over one time axis; nothing without at least two periods to compare."""
    given = findings.get("timeline") or []
    if len(given) < 2:
        return Html("")
    periods = given[-MOST_PERIODS:]
    error = findings.get("timeline_error") or "Error"
    rest = hidden(len(periods), len(given), "earlier period", "the latest are drawn")
    pictures = [_rates(periods), _errors(periods, error)]
    return section("time", "Over time", _lead(periods), *pictures, rest)


def _lead(periods: Sequence[Period]) -> Html:
    judged = [p for p in periods if finite(p["error"]) is not None and finite(p["null_high"]) is not None]
    beyond = sum(_beyond(p) for p in judged)
    if not judged:
        return prose("How predicted and observed rates moved together.")
    expected = 0.025 * len(judged)
    usual = f"about {expected:.0f}" if expected >= 1 else "fewer than one"
    text = (
        f"In {count(beyond)} of {plural(len(judged), 'period')} the error exceeds what chance allows; "
        f"correct forecasts would exceed it in {usual}."
    )
    return prose(text)


def _beyond(period: Period) -> bool:
    return outside(period["error"], None, period["null_high"])


def _axis(periods: Sequence[Period]) -> tuple[Axis, list[int]]:
    """Return the time axis and the indices that carry a label: few enough for a phone."""
    n = len(periods)
    longest = max(len(p["label"]) for p in periods)
    return Axis(-0.5, n - 0.5), spread(n, 5 if longest <= 8 else 3)


def _labels(plot: Plot, periods: Sequence[Period], picks: Sequence[int]) -> Html:
    low = plot.y.low
    labels = []
    for i in picks:
        anchor = "end" if i == len(periods) - 1 and i > 0 else "mid"
        labels.append(plot.write(i, low, clip(periods[i]["label"], 16), f"tick {anchor}", dy="1.45em"))
        labels.append(plot.segment(i, plot.y.low, i, plot.y.high, "grid"))
    return join(labels)


def _rates(periods: Sequence[Period]) -> Html:
    x, picks = _axis(periods)
    y = covering(all_finite(v for p in periods for v in (p["mean_p"], p["mean_y"])))
    plot = Plot(x, y)
    places = axis_decimals(y.high - y.low)
    shapes = [
        plot.y_axis(y.ticks(4), lambda value: percent(value, places)),
        _labels(plot, periods, picks),
        stretched(
            plot.line(((i, finite(p["mean_p"])) for i, p in enumerate(periods)), "predicted"),
            plot.line(((i, finite(p["mean_y"])) for i, p in enumerate(periods)), "observed-line"),
        ),
        *_rate_dots(plot, periods),
    ]
    picture = drawing("rates", "Rates over time", "Predicted and observed rate in each period.", *shapes, style="wide")
    key = legend(("predicted", "mean predicted"), (_swatch(periods), "observed rate"))
    return exhibit("Predicted and observed rate", picture, key)


def _swatch(periods: Sequence[Period]) -> str:
    return "observed" if len(periods) <= MOST_DOTS else "observed-line"


def _rate_dots(plot: Plot, periods: Sequence[Period]) -> list[Html]:
    if len(periods) > MOST_DOTS:
        return []
    return [
        plot.dot(i, y, "observed", 2.5, _title(p))
        for i, p in enumerate(periods)
        if (y := finite(p["mean_y"])) is not None
    ]


def _title(period: Period) -> str:
    rates = f"predicted {percent(period['mean_p'], 2)}, observed {percent(period['mean_y'], 2)}"
    return f"{clip(period['label'], 40)}: {rates}, error {figure(period['error'])}, {count(period['n'])} rows"


def _errors(periods: Sequence[Period], error: str) -> Html:
    values = all_finite(v for p in periods for v in (p["error"], p["null_low"], p["null_high"]))
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
        stretched(plot.line(((i, finite(p["error"])) for i, p in enumerate(periods)), "observed-line")),
        *_error_dots(plot, periods),
    ]
    text = f"{plain_symbol(error)} in each period, with the band that chance allows."
    picture = drawing("errors", "Error over time", text, *shapes, style="wide")
    key = legend(("band", "chance"), (_swatch(periods), "error, within chance"), ("beyond", "error, beyond chance"))
    return exhibit(symbol(clip(error[:1].upper() + error[1:], 120)), picture, key)


def _floors(periods: Sequence[Period]) -> list[tuple[int, float, float]]:
    floors = []
    for i, period in enumerate(periods):
        low, high = finite(period["null_low"]), finite(period["null_high"])
        if high is not None:
            floors.append((i, low if low is not None else 0.0, high))
    return floors


def _error_dots(plot: Plot, periods: Sequence[Period]) -> list[Html]:
    dots = []
    for i, period in enumerate(periods):
        error, beyond = finite(period["error"]), _beyond(period)
        if error is not None and (beyond or len(periods) <= MOST_DOTS):
            mark = plot.diamond if beyond else plot.dot
            title = _title(period) if len(periods) <= MOST_DOTS else None
            dots.append(mark(i, error, "beyond" if beyond else "observed", 3.0, title))
    return dots
