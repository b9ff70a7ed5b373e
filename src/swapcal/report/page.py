"""Pages: the report of an audit and of a monitor, each as one self-contained file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log10
from typing import Any, NamedTuple

from swapcal.report.comparison import comparison, contest, gain
from swapcal.report.findings import Findings
from swapcal.report.groups import groups, numbers, witnesses
from swapcal.report.headline import headline, identity, key_figures, limitations, reading, window
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
from swapcal.report.measures import certificate, conventional, decisions, noise_floor
from swapcal.report.reliability import reliability, timeline
from swapcal.report.svg import Axis, Plot, drawing, spread, stretched


class Section(NamedTuple):
    """One section of the page, left out if its field is missing or empty."""

    anchor: str
    short: str
    write: Callable[[Findings], Html]
    field: str = "identity"


SECTIONS = (
    Section("comparison", "Before and after", comparison, "comparison"),
    Section("figures", "Key figures", key_figures),
    Section("reliability", "Reliability", reliability, "reliability"),
    Section("time", "Time", timeline, "timeline"),
    Section("groups", "Groups", groups, "groups"),
    Section("numbers", "Numbers", numbers, "numbers"),
    Section("witnesses", "Worst errors", witnesses, "witnesses"),
    Section("errors", "Errors", noise_floor, "quantities"),
    Section("conventional", "By field", conventional, "conventional"),
    Section("decisions", "Decisions", decisions, "decisions"),
    Section("certificate", "Certificate", certificate, "forecaster"),
    Section("reading", "How to read", reading),
    Section("limitations", "Limitations", limitations),
    Section("identity", "Identity", identity),
)
"""Sections in the order of the page."""


def render(findings: Findings | Mapping[str, Any]) -> str:
    """Render findings as one self-contained HTML page.

    The page holds aggregates only, draws inline SVG, runs no script and loads nothing. It stays below 1 MB, because
    every list is cut at a fixed length, with a count of what is left out. Equal findings give equal pages.

    Parameters
    ----------
    findings : Findings or mapping
        The result of an audit's `to_findings`, or the same as plain data, from `to_dict` or a JSON file.

    Returns
    -------
    str
        The page, to be written as UTF-8.

    Raises
    ------
    ValueError
        If a required field is missing or of another type; the message names its path.

    Examples
    --------
    >>> identity = dict(title="Rain", swapcal_version="0.1.0", schema_version=2, data_hash="ab",
    ...                 settings_hash="cd", python_version="3.12", numpy_version="2.1", n=3, total_weight=3.0,
    ...                 first_time=None, last_time=None, created_at="2026-01-01", prediction="p", label="y")
    >>> headline = dict(verdict="undecided", sentence="Three rows are too few to tell.")
    >>> page = render(dict(identity=identity, headline=headline))
    >>> page.startswith("<!doctype html>"), "Three rows are too few to tell." in page
    (True, True)
    """
    record = Findings.of(findings)
    bodies = {section: section.write(record) for section in SECTIONS if getattr(record, section.field)}
    written = {section: body for section, body in bodies.items() if body}
    first = contest(record) if record.contest else gain(record)
    main = tag("main", _top(record), first, headline(record), _contents(written), *written.values())
    subject = record.identity
    generator = "swapcal " + clip(subject.swapcal_version, 40)
    return document(clip(subject.title, 200) + " – calibration audit", main, generator)


def _top(findings: Findings) -> Html:
    subject = findings.identity
    dated = subject.first_time is not None or subject.last_time is not None
    made = f"made {clip(subject.created_at, 60)}" if subject.created_at else ""
    facts = [plural(subject.n, "row"), window(subject) if dated else "", made]
    return top("Calibration audit", subject.title, facts)


def _contents(sections: Iterable[Section]) -> Html:
    links = [tag("li", tag("a", section.short, href=f"#{section.anchor}")) for section in sections]
    return join([tag("nav", tag("ul", *links), aria_label="Contents")])


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
    listed = summary.get("warnings", [])[:MOST_GROUPS]
    warnings = [prose(tag("strong", "Warning: "), clip(warning, 600), style="warning") for warning in listed]
    headline = tag("div", prose(clip(summary["sentence"], 800), style="sentence"), *warnings, class_="headline")
    body = [_monitor_top(summary), headline, _alarms(summary), _pictures(summary), _sizes(summary)]
    body += [section("reading", "How to read", sentences(READING)), _settings(summary)]
    main = tag("main", *(part for part in body if part))
    return document(clip(str(summary["title"]), 200) + " – calibration monitor", main)


def _monitor_top(summary: Mapping[str, Any]) -> Html:
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
    note = hidden(len(cells), len(log), "alarm", "the latest are shown")
    return join([now, section("log", "Log of alarms", lead, table("Log of alarms", columns, cells), note)])


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
    note = hidden(len(drawn), len(summary["history"]), "listed group", "the strongest are drawn")
    lead = prose("Evidence against each group, as powers of ten. The dashed line is where an alarm is raised.")
    return section("evidence", "Evidence over time", lead, *pictures, note)


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
    note = hidden(len(cells), len(rows), "group", "the largest are shown")
    caption = "Observed minus forecast since the first row, with intervals that hold at all times."
    return section("groups", "Groups", table(caption, columns, cells), note) if cells else Html("")


def _size(row: Mapping[str, Any]) -> list[str]:
    interval = f"{points(row['low'])} to {points(row['high'])}"
    return [given(str(row["group"])), count(row["rows"]), points(row["gap"]), interval]


def _settings(summary: Mapping[str, Any]) -> Html:
    pairs: Sequence[tuple[str, str]] = [(name, clip(str(value), 200)) for name, value in summary["settings"].items()]
    return section("settings", "Settings", facts(pairs, "identity"))
