"""Summary: everything a monitor has to say, as plain data for JSON and the report."""

from typing import TYPE_CHECKING, Any

import numpy as np

from swapcal.monitor.alarm import CHANGE
from swapcal.monitor.clock import ROWS, show

if TYPE_CHECKING:
    from swapcal.monitor.monitor import Monitor


def summarise(monitor: "Monitor", title: str) -> dict[str, Any]:
    """Return alarms, the lifetime test, sizes, settings, and the history of what is listed (or of all rows)."""
    kind = monitor._clock_kind or ROWS
    alarms, test = monitor.alarms(), monitor.test()
    listed = [alarm.group for alarm in alarms] or monitor.groups()[:1]
    return {
        "title": title,
        "rows": monitor.rows,
        "groups": len(monitor.groups()),
        "first": show(monitor._first_clock, kind) if monitor.rows else "",
        "last": show(monitor._last_clock, kind) if monitor.rows else "",
        "sentence": sentence(monitor, len(alarms), test.rejected),
        "alarmed": bool(alarms) or test.rejected,
        "alarms": [alarm.to_dict() for alarm in alarms],
        "lifetime": test._asdict(),
        "run_length": monitor.settings.run_length,
        "sizes": monitor.sizes(),
        "history": [history_of(monitor, group, kind) for group in listed],
        "settings": monitor.settings.to_dict(),
    }


def sentence(monitor: "Monitor", listed: int, rejected: bool) -> str:
    """Say in one sentence how it stands."""
    points = f"{100 * monitor.settings.tolerance:g}"
    tolerance = f"{points} point" if points == "1" else f"{points} points"
    watched = f"{len(monitor.groups()):,} groups over {monitor.rows:,} rows"
    if not monitor.rows:
        return "No rows yet."
    if listed:
        names = {alarm.group for alarm in monitor.alarms() if alarm.kind == CHANGE}
        kinds = "" if names else " by the lifetime test"
        return f"Forecasts are off by more than {tolerance} for {listed:,} of {watched}{kinds}."
    if rejected:
        return f"Forecasts have been off by more than {tolerance} for somebody, but not clearly for one of {watched}."
    return f"No sign that forecasts are off by more than {tolerance} for any of {watched}."


def history_of(monitor: "Monitor", group: str, kind: str) -> dict[str, Any]:
    """Return the evidence against a group over time, as plain data."""
    found = monitor.wealth(group)
    return {
        "group": group,
        "rows": [int(row) for row in found["rows"]],
        "times": [show(float(clock), kind) for clock in found["clock"]],
        "change": [None if np.isnan(value) else float(value) for value in found["change"]],
        "lifetime": [None if np.isnan(value) else float(value) for value in found["lifetime"]],
    }
