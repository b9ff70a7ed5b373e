"""Monitoring: the page of a monitor's summary, with the evidence of every listed group over time."""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any

from swapcal.report.html import (
    Html,
    clip,
    count,
    document,
    exhibit,
    facts,
    finite,
    given,
    hidden,
    join,
    legend,
    plural,
    points,
    prose,
    section,
    sentences,
    table,
    tag,
    top,
)
from swapcal.report.svg import Axis, Plot, drawing, spread, stretched

MOST_GROUPS = 12
"""Groups drawn at most, the strongest first."""
MOST_SIZES = 200
"""Rows of the table of sizes at most, the largest groups first."""

READING = (
    "The monitor bets against the forecasts of every group. A bet gains when outcomes differ from the forecasts by "
    "more than the tolerance; against forecasts within the tolerance no bet has a positive expected gain.",
    "The change detector sums the bets over every possible start of a change. It raises an alarm for a group when the "
    "evidence reaches the run length: for forecasts within the tolerance that happens at most once in that many rows, "
    "on average. An alarm ends when its evidence has fallen to a thousandth of its strongest.",
    "The lifetime test covers all rows since the first. Its false-alarm probability, over all time, is at most α.",
    "Intervals hold for all groups, all starts and all times simultaneously: they are wide, and stay valid however "
    "often they are read.",
    "Assumptions: rows were entered in an order that does not depend on their outcomes, with the mean forecast, and "
    "outcomes that were open at the same time are independent given the records.",
)


def render_monitoring(summary: Mapping[str, Any]) -> str:
    """Render the summary of a monitor (see `swapcal.Monitor.summary`) as one self-contained HTML page."""
    found = summary.get("warnings", [])[:MOST_GROUPS]
    warnings = [prose(tag("strong", "Warning: "), clip(warning, 600), style="warning") for warning in found]
    headline = tag("div", prose(clip(summary["sentence"], 800), style="sentence"), *warnings, class_="headline")
    body = [_top(summary), headline, _alarms(summary), _pictures(summary), _sizes(summary)]
    body += [section("reading", "How to read", sentences(READING)), _settings(summary)]
    main = tag("main", *(part for part in body if part))
    return document(clip(str(summary["title"]), 200) + " – calibration monitor", main)


def _top(summary: Mapping[str, Any]) -> Html:
    span = f"{summary['first']} to {summary['last']}" if summary["rows"] else ""
    parts = [plural(summary["rows"], "row"), plural(summary["groups"], "group"), span]
    return top("Calibration monitor", str(summary["title"]), parts)


def _alarms(summary: Mapping[str, Any]) -> Html:
    alarms, log = summary["alarms"], summary.get("log", [])
    now = section("alarms", "Alarms", sentences(alarm["sentence"] for alarm in alarms)) if alarms else Html("")
    if not [alarm for alarm in log if alarm not in alarms]:
        return now
    lead = prose("Every alarm since the first row, in order. A group may have one in each direction and range.")
    columns = [("Group", "name"), ("Forecasts", "name"), ("Gap, points", "number"), ("Interval", "number")]
    columns += [(name, "name") for name in ("Raised", "Strongest", "Ended")]
    cells = [_logged(alarm) for alarm in log[-MOST_SIZES:]]
    rest = hidden(len(cells), len(log), "alarm", "the latest are shown")
    return join([now, section("log", "Log of alarms", lead, table("Log of alarms", columns, cells), rest)])


def _logged(alarm: Mapping[str, Any]) -> list[str]:
    low, high = alarm["low"], alarm["high"]
    interval = "" if low <= 0 <= high else f"{points(low)} to {points(high)}"
    spans = f"{alarm['forecasts'][0]:g} to {alarm['forecasts'][1]:g}"
    ended = given(alarm["ended"]) if alarm["ended"] else "still raised"
    times = [given(alarm["raised"]), given(alarm["strongest"]), ended]
    return [given(str(alarm["group"])), spans, points(alarm["gap"]), interval, *times]


def _pictures(summary: Mapping[str, Any]) -> Html:
    drawn = summary["history"][:MOST_GROUPS]
    if not drawn:
        return Html("")
    pictures = [_picture(f"evidence-{k}", entry, summary["run_length"]) for k, entry in enumerate(drawn)]
    rest = hidden(len(drawn), len(summary["history"]), "listed group", "the strongest are drawn")
    lead = prose("Evidence against each group, as powers of ten. The dashed line is where an alarm is raised.")
    return section("evidence", "Evidence over time", lead, *pictures, rest)


def _picture(name: str, entry: Mapping[str, Any], run_length: float) -> Html:
    times, change = entry["times"], [finite(value) for value in entry["change"]]
    limit = log10(run_length)
    present = [value for value in change if value is not None]
    if len(present) < 2:
        return Html("")
    plot = Plot(Axis(0.0, len(change) - 1.0), Axis(min(0.0, *present), 1.08 * max(limit, *present)))
    picks = spread(len(times), 3)
    places = ("tick", "tick mid", "tick end")
    labels = [
        plot.write(i, plot.y.low, clip(times[i], 20), places[min(k, 2) if len(picks) > 2 else 1], dy="1.45em")
        for k, i in enumerate(picks)
    ]
    shapes = [
        plot.y_axis(plot.y.ticks(4), lambda value: f"10^{value:g}" if value else "1"),
        *labels,
        stretched(plot.line(enumerate(change), "observed-line")),
        plot.segment(plot.x.low, limit, plot.x.high, limit, "ideal"),
    ]
    group = str(entry["group"])
    picture = drawing(name, f"Evidence against {group}", "Evidence of the change detector.", *shapes, style="wide")
    key = legend(("observed-line", "evidence that forecasts are off"), ("ideal", "alarm"))
    return exhibit(join([given(group)]), picture, key)


def _sizes(summary: Mapping[str, Any]) -> Html:
    rows = sorted(summary["sizes"], key=lambda row: -float(row["rows"]))
    columns = [("Group", "name"), ("Rows", "number"), ("Gap, points", "number"), ("Interval", "number")]
    cells = [_size(row) for row in rows[:MOST_SIZES]]
    rest = hidden(len(cells), len(rows), "group", "the largest are shown")
    caption = "Observed minus forecast since the first row, with intervals that hold at all times."
    return section("groups", "Groups", table(caption, columns, cells), rest) if cells else Html("")


def _size(row: Mapping[str, Any]) -> list[str]:
    interval = f"{points(row['low'])} to {points(row['high'])}"
    return [given(str(row["group"])), count(row["rows"]), points(row["gap"]), interval]


def _settings(summary: Mapping[str, Any]) -> Html:
    pairs: Sequence[tuple[str, str]] = [(name, clip(str(value), 200)) for name, value in summary["settings"].items()]
    return section("settings", "Settings", facts(pairs, "identity"))
