"""Rendering: templates, and how numbers are written in them."""

import math
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from swapcal.report.formats import DASH, count, figure, finite, percent, points
from swapcal.service.pages import pictures
from swapcal.service.pages.static import address
from swapcal.version import __version__

LEAST = 0.00005
"""Contributions below this show as zero."""
UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


@cache
def environment() -> Environment:
    """Return the templates; everything they insert is escaped."""
    found = Environment(
        loader=PackageLoader("swapcal.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"count": count, "figure": figure, "percent": percent, "points": points}
    found.filters |= {"duration": duration, "moment": moment, "pace": pace, "value": value, "log10": math.log10}
    found.filters |= {"second": second, "setting": setting, "in_points": in_points}
    found.tests["shows"] = lambda amount: abs(amount) >= LEAST
    found.globals |= {"static": address, "version": __version__, "half_axis": pictures.half_axis}
    for picture in (pictures.reliability, pictures.interval, pictures.bar, pictures.bars):
        found.globals[picture.__name__] = _marked(picture)
    return found


def _marked(picture: Any) -> Any:
    """Tell the templates that a picture is markup: its texts are escaped where it is drawn."""
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
