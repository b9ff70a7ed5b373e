"""Templates, static files, pictures, and how numbers are written on the pages."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from swapcal.report.findings import GroupRow, Level, Word
from swapcal.report.groups import glyph, reach
from swapcal.report.html import DASH, Html, count, figure, finite, percent, points, tag
from swapcal.report.reliability import predicted_against_observed
from swapcal.service.endpoint import Call
from swapcal.service.settings import ApiError
from swapcal.version import __version__

# Static files: styles, scripts and the icon, from memory, under addresses that change with their content.

MEDIA = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
FILES = ("dashboard.css", "dashboard.js", "icon.svg", "uPlot.iife.min.js", "uPlot.min.css")
REPORT = "report.css"
"""The style of audits' reports, which the dashboard shares."""
FOREVER = "public, max-age=31536000, immutable"


class File(NamedTuple):
    """One file."""

    content: bytes
    media: str
    digest: str


@cache
def file(name: str) -> File | None:
    """Return one of the files; None for every other name."""
    if name == REPORT:
        content = files("swapcal.report").joinpath("style.css").read_bytes()
    elif name in FILES:
        content = files("swapcal.service.dashboard").joinpath("static", name).read_bytes()
    else:
        return None
    return File(content, MEDIA[name.rpartition(".")[2]], hashlib.sha256(content).hexdigest()[:12])


def address(name: str) -> str:
    """Return where a file is; its content is part of the address, so it may be kept for ever."""
    asset = file(name)
    assert asset is not None, f"{name} is one of ours"
    return f"/static/{name}?{asset.digest}"


async def static(call: Call) -> Response:
    """Send a file."""
    name = str(call.scope["path_params"]["file"])
    asset = file(name)
    if asset is None:
        raise ApiError("unknown", f"file: given {name[:80]!r}, expected one of ours")
    lasting = call.scope["query_string"].decode("latin-1") == asset.digest
    headers = {"content-type": asset.media, **({"cache-control": FOREVER} if lasting else {})}
    return Response(asset.content, headers=headers)


# Pictures: drawn on the server in the language of the report, so that they need no script.

WIDE, HIGH = 160, 14
"""Pixels of a bar's track."""


def reliability(curve: Sequence[Mapping[str, float]]) -> Html:
    """Draw observed rates against forecasts, with the band of chance."""
    levels = [
        Level(
            v=row["forecast"],
            mean_p=row["forecast"],
            mean_y=row["observed"],
            n=row["labels"],
            band_low=row["low"],
            band_high=row["high"],
        )
        for row in curve
    ]
    return predicted_against_observed(levels, None, "Rows")


def half_axis(groups: Sequence[Mapping[str, Any]], tolerance: float) -> float:
    """Return how far to either side of zero the axis goes that all groups share."""
    return reach([_entry(group, tolerance) for group in groups])


def interval(group: Mapping[str, Any], half: float, tolerance: float) -> Html:
    """Draw one group's gap and its interval."""
    return glyph(_entry(group, tolerance), half)


def _entry(group: Mapping[str, Any], tolerance: float) -> GroupRow:
    sure = group["low"] > tolerance or group["high"] < -tolerance
    wide = group["high"] - group["low"] > 0.5
    verdict: Word = "miscalibrated" if sure else "undecided"
    unknown = math.nan, math.nan, math.nan
    return GroupRow("", *unknown, group["gap"], group["low"], group["high"], wide, None, None, verdict)


def bar(share: float, style: str = "promised") -> Html:
    """Draw a bar that fills a share of its track."""
    width = f"{100 * min(1.0, max(0.0, share)):.2f}%"
    return tag(
        "svg", tag("rect", width=width, height="100%", class_=f"length {style}"), class_="track", aria_hidden="true"
    )


def bars(amount: float, largest: float) -> Html:
    """Draw a signed amount: to the right of the middle if it raises, to the left if it lowers."""
    middle = WIDE / 2
    width = middle * abs(amount) / largest if largest > 0 else 0.0
    left = middle if amount >= 0 else middle - width
    shapes = [
        tag(
            "rect",
            x=left,
            y=2,
            width=width,
            height=HIGH - 4,
            class_="length raises" if amount >= 0 else "length lowers",
        ),
        tag("line", x1=middle, x2=middle, y1=0, y2=HIGH, class_="zero"),
    ]
    return tag("svg", *shapes, width=WIDE, height=HIGH, class_="interval", aria_hidden="true")


# Rendering: templates, and how numbers are written in them.

LEAST = 0.00005
"""Contributions below this show as zero."""
UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


@cache
def environment() -> Environment:
    """Return the templates; everything they insert is escaped."""
    jinja = Environment(
        loader=PackageLoader("swapcal.service.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"count": count, "figure": figure, "percent": percent, "points": points}
    jinja.filters |= {"duration": duration, "moment": moment, "pace": pace, "value": value, "log10": math.log10}
    jinja.filters |= {"second": second, "setting": setting, "in_points": in_points}
    jinja.tests["shows"] = lambda amount: abs(amount) >= LEAST
    jinja.globals |= {"static": address, "version": __version__, "half_axis": half_axis}
    for picture in (reliability, interval, bar, bars):
        jinja.globals[picture.__name__] = _marked(picture)
    return jinja


def _marked(picture: Any) -> Any:
    """Return a picture marked as safe for the templates: its texts are escaped where it is drawn."""
    return lambda *given, **named: Markup(picture(*given, **named))


def render(template: str, **facts: object) -> str:
    """Return a template with facts."""
    return environment().get_template(template).render(**facts)


def duration(seconds: float | None) -> str:
    """Write how long something took.

    Examples
    --------
    >>> duration(0.25), duration(42), duration(5400), duration(200000.0), duration(None)
    ('0.25 s', '42 s', '1.5 hours', '2.3 days', '–')
    """
    x = None if seconds is None else finite(seconds)
    if x is None:
        return DASH
    for unit, name in UNITS:
        if x >= unit:
            return f"{x / unit:.2g} {name}"
    return f"{x:.2g} s"


def moment(seconds: float | None) -> str:
    """Write a time.

    Examples
    --------
    >>> moment(0.0), moment(None), moment(-math.inf), moment(1e20)
    ('1970-01-01 00:00:00 UTC', '–', '–', '100,000,000,000,000,000,000')
    """
    if seconds is None or not math.isfinite(seconds):
        return DASH
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:,.0f}"


def pace(per_second: float | None) -> str:
    """Write how fast events come, in a unit that suits.

    Examples
    --------
    >>> pace(12.3), pace(0.5), pace(0.001), pace(0.0)
    ('12 per second', '30 per minute', '3.6 per hour', 'none')
    """
    if per_second is None:
        return DASH
    if per_second == 0:
        return "none"
    for times, unit in ((1, "second"), (60, "minute"), (3600, "hour")):
        if per_second * times >= 1:
            return f"{float(f'{per_second * times:.2g}'):,g} per {unit}"
    return "less than one per hour"


def value(given: Any) -> str:
    """Write a value of a record.

    Examples
    --------
    >>> value(3.0), value("Rome"), value(None)
    ('3', 'Rome', 'missing')
    """
    if given is None:
        return "missing"
    return f"{given:g}" if isinstance(given, float) else str(given)


def second(text: str) -> str:
    """Leave out the parts of a second.

    Examples
    --------
    >>> second("2026-01-02 03:04:05.678901"), second("2026-01-02"), second("1.5")
    ('2026-01-02 03:04:05', '2026-01-02', '1.5')
    """
    return text.partition(".")[0] if text.count(":") == 2 else text


def setting(given: Any) -> str:
    """Write a setting without quotes and brackets.

    Examples
    --------
    >>> setting(["a", "b"]), setting({"tolerance": 0.01}), setting(None), setting([["a", "b"]])
    ('a, b', 'tolerance 0.01', '–', 'a × b')
    """
    if isinstance(given, dict):
        return ", ".join(f"{name} {setting(one)}" for name, one in given.items()) or DASH
    if isinstance(given, list | tuple):
        return ", ".join(" × ".join(one) if isinstance(one, list | tuple) else str(one) for one in given) or DASH
    return DASH if given is None else f"{given:g}" if isinstance(given, float) else str(given)


def in_points(rate: float) -> str:
    """Write a rate as percentage points.

    Examples
    --------
    >>> in_points(0.01), in_points(0.025)
    ('1 point', '2.5 points')
    """
    text = f"{100 * rate:.3g}"
    return f"{text} point" if text == "1" else f"{text} points"
