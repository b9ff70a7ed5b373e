"""Groups: one row per group, with its gap drawn as an interval on an axis shared by all rows."""

from collections.abc import Sequence

from swapcal.report.formats import all_finite, count, counted, decimals, finite, p_value, percent, plural, points
from swapcal.report.layout import badge, hidden, named, prose, section, table
from swapcal.report.markup import Html, coordinate, join, tag
from swapcal.report.schema import Findings, GroupEntry

MOST_GROUPS = 150
"""Rows shown at most; miscalibrated groups are kept before others."""
WIDTH, HEIGHT = 168, 16
"""Size of an interval glyph in pixels."""


def groups(findings: Findings) -> Html:
    """Write the group table."""
    everyone = findings.get("groups") or []
    shown = kept(everyone)
    rest = hidden(len(shown), len(everyone), "group", _left_out(everyone, shown))
    return section(
        "groups",
        "Group by group",
        _lead(everyone, findings.get("groups_examined") or len(everyone)),
        _table(shown, counted(findings)),
        rest,
    )


def kept(everyone: Sequence[GroupEntry]) -> list[GroupEntry]:
    """Keep the rows that matter when there are too many, in their order.

    >>> kept([])
    []
    """
    if len(everyone) <= MOST_GROUPS:
        return list(everyone)
    order = sorted(range(len(everyone)), key=lambda i: (everyone[i]["verdict"] != "miscalibrated", i))
    return [everyone[i] for i in sorted(order[:MOST_GROUPS])]


def _left_out(everyone: Sequence[GroupEntry], shown: Sequence[GroupEntry]) -> str:
    bad = sum(g["verdict"] == "miscalibrated" for g in everyone)
    bad -= sum(g["verdict"] == "miscalibrated" for g in shown)
    return f"{count(bad)} of them miscalibrated" if bad else "none of them miscalibrated"


def _lead(everyone: Sequence[GroupEntry], examined: int) -> Html:
    bad = sum(g["verdict"] == "miscalibrated" for g in everyone)
    listed = f", the {count(len(everyone))} most doubtful listed" if examined > len(everyone) else ""
    text = (
        f"{plural(examined, 'group')} examined{listed}, {count(bad)} miscalibrated. A positive gap means that outcomes "
        "happened more often than predicted, a negative one less often. The line spans the 95\u202f% interval. "
        "Intervals and p-values allow for all groups and ranges of predictions examined: in 95 of 100 audits all "
        "intervals hold their true gaps. Errors smaller than the last figure would often go unnoticed."
    )
    return prose(text)


def reach(shown: Sequence[GroupEntry]) -> float:
    """Half-width of the shared axis: four in five intervals and every finding fit, a few wide ones are cut.

    >>> reach([])
    0.01
    """
    solid = [g for g in shown if not g["small"]] or list(shown)
    ends = sorted(max(map(abs, ends), default=0.0) for ends in map(_ends, solid))
    found = (abs(gap) for g in shown if _sure(g) and (gap := finite(g["gap"])) is not None)
    return max([1.15 * max(found, default=0.0), *ends[(4 * len(ends)) // 5 :][:1]]) or 0.01


def _sure(group: GroupEntry) -> bool:
    return group["verdict"] == "miscalibrated" or (not group["small"] and group["verdict"] in ("small", "undecided"))


def _ends(group: GroupEntry) -> list[float]:
    return all_finite([group["low"], group["high"], group["gap"]])


def _table(shown: Sequence[GroupEntry], amount: str) -> Html:
    half = reach(shown)
    columns = [("Group", "name"), ("Verdict", "verdicts"), ("Gap (points)", "number"), (_axis(half), "glyph")]
    columns += [
        (amount, "number"),
        ("Predicted", "number"),
        ("Observed", "number"),
        ("p", "number"),
        ("Noticed from (points)", "number"),
    ]
    rates = decimals([x for g in shown for x in (g["mean_p"], g["mean_y"])])
    gaps = max(rates, decimals([g["gap"] for g in shown]))
    rows = [_row(group, half, rates, gaps) for group in shown]
    caption = "Groups. Gap is observed minus predicted, in percentage points; † marks groups too small to judge."
    return table(caption, columns, rows, style="groups")


def _axis(half: float) -> Html:
    places = decimals([half])
    ends = [points(-half, places), "0", points(half, places)]
    scale = tag("span", *(tag("span", end) for end in ends), class_="glyph-axis")
    return join(["95 % interval", scale])


def _row(group: GroupEntry, half: float, rates: int, gaps: int) -> list[str]:
    dagger = tag("abbr", "†", title="too few rows to be tested") if group["small"] else ""
    return [
        join([named(group), dagger]),
        badge(group["verdict"]),
        points(group["gap"], gaps),
        glyph(group, half),
        count(group["n"]),
        percent(group["mean_p"], rates),
        percent(group["mean_y"], rates),
        p_value(group["p_value"]),
        points(group.get("detectable"), gaps).lstrip("+"),
    ]


def glyph(group: GroupEntry, half: float) -> Html:
    """Draw one group's interval; ends beyond the axis become arrow heads."""
    gap, low, high = (finite(group[key]) for key in ("gap", "low", "high"))
    shapes = [tag("line", x1=WIDTH / 2, x2=WIDTH / 2, y1=0, y2=HEIGHT, class_="zero")]
    style = "beyond" if group["verdict"] == "miscalibrated" else "faint" if group["small"] else "observed"
    if low is not None and high is not None:
        shapes += _interval(low / half, high / half, style)
    if gap is not None and abs(gap) <= half:
        shapes.append(_centre(_place(gap / half), style))
    return tag("svg", *shapes, width=WIDTH, height=HEIGHT, class_="interval", aria_hidden="true")


def _place(share: float) -> float:
    return WIDTH / 2 * (1 + 0.96 * min(1.0, max(-1.0, share)))


def _interval(low: float, high: float, style: str) -> list[Html]:
    left, right, middle = _place(low), _place(high), HEIGHT / 2
    shapes = [tag("line", x1=left, x2=right, y1=middle, y2=middle, class_=f"span {style}")]
    if low < -1.0001:
        shapes.append(tag("path", d=f"M{coordinate(left + 4)} 4L{coordinate(left - 1)} 8l5 4", class_=f"span {style}"))
    if high > 1.0001:
        shapes.append(
            tag("path", d=f"M{coordinate(right - 4)} 4L{coordinate(right + 1)} 8l-5 4", class_=f"span {style}")
        )
    return shapes


def _centre(x: float, style: str) -> Html:
    if style == "beyond":
        return tag("path", d=f"M{coordinate(x)} 3l5 5l-5 5l-5-5Z", class_=style)
    return tag("circle", cx=x, cy=HEIGHT / 2, r=3.25, class_=style)
