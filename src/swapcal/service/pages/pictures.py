"""Pictures: drawn on the server in the language of the report, so that they need no script."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from swapcal.report.groups import glyph, reach
from swapcal.report.markup import Html, tag
from swapcal.report.reliability import reliability as drawn
from swapcal.report.schema import Findings, GroupEntry

WIDE, HIGH = 160, 14
"""Pixels of a bar's track."""


def reliability(curve: Sequence[Mapping[str, float]]) -> Html:
    """Draw observed rates against forecasts, with the band that chance allows."""
    levels = [
        {
            "v": row["forecast"],
            "mean_p": row["forecast"],
            "mean_y": row["observed"],
            "n": row["labels"],
            "band_low": row["low"],
            "band_high": row["high"],
        }
        for row in curve
    ]
    return drawn(cast(Findings, {"identity": {"n": 1, "total_weight": 1}, "reliability": levels}))


def half_axis(groups: Sequence[Mapping[str, Any]], tolerance: float) -> float:
    """Return how far to either side of zero the axis goes that all groups share."""
    return reach([_entry(group, tolerance) for group in groups])


def interval(group: Mapping[str, Any], half: float, tolerance: float) -> Html:
    """Draw one group's gap and its interval."""
    return glyph(_entry(group, tolerance), half)


def _entry(group: Mapping[str, Any], tolerance: float) -> GroupEntry:
    sure = group["low"] > tolerance or group["high"] < -tolerance
    wide = group["high"] - group["low"] > 0.5
    named = {name: group[name] for name in ("gap", "low", "high")}
    return cast(GroupEntry, {**named, "verdict": "miscalibrated" if sure else "undecided", "small": wide})


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
