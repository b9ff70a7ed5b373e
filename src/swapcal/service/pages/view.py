"""View: everything a page says about a forecaster, as plain data that JSON can hold."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
from scipy.stats import binom

from swapcal.archive.state import State
from swapcal.monitor import Monitor
from swapcal.service import snapshot, status
from swapcal.service.ward import Ward

MOST_GROUPS = 200
"""Groups shown, those with the strongest evidence first."""
MOST_HISTORIES = 6
"""Groups whose evidence is drawn over time."""
EARLY = 200
"""Outcomes before which nothing is said about how good the forecasts are."""

Figures = dict[str, Any]


class Seen(NamedTuple):
    """What was seen of a ward, and how long it kept the learning thread."""

    figures: Figures
    seconds: float
    monitor: State | None = None
    """a copy, to be read beside the learning thread: the intervals of many groups take a while"""


def see(ward: Ward, known: int | None = None) -> Seen | None:
    """Return the figures of a ward unless its last event is the known one; of the learning thread."""
    if ward.seq == known:
        return None
    began = time.perf_counter()
    found: Figures = msgspec.to_builtins(status.describe(ward))
    monitor = snapshot.copied(ward.monitor.to_state())
    return Seen({**found, "state": state(found)}, time.perf_counter() - began, monitor)


def completed(seen: Seen) -> Figures:
    """Return the figures with the alarms, groups and evidence of the monitor; of any thread."""
    assert seen.monitor is not None, "only brief views have none"
    monitor = Monitor.from_state(seen.monitor)
    watched = monitor.summary()
    groups = sorted(watched["sizes"], key=lambda row: -row["change"])
    return {
        **seen.figures,
        "reliability": with_band(seen.figures["reliability"]),
        "tolerance": monitor.settings.tolerance,
        "run_length": monitor.settings.run_length,
        "alarm_list": watched["alarms"],
        "lifetime": watched["lifetime"],
        "groups": groups[:MOST_GROUPS],
        "groups_watched": len(groups),
        "evidence": watched["history"][:MOST_HISTORIES],
    }


def see_briefly(ward: Ward, known: int | None = None) -> Seen | None:
    """Return the figures for the overview; of the learning thread."""
    if ward.seq == known:
        return None
    began = time.perf_counter()
    found: Figures = msgspec.to_builtins(status.describe(ward))
    del found["reliability"], found["over_time"]
    return Seen({**found, "state": state(found)}, time.perf_counter() - began)


def state(found: Mapping[str, Any]) -> dict[str, str]:
    """Return how a forecaster stands: a kind for the page, a title, and what to do.

    Examples
    --------
    >>> state({"forecasts": 3, "labels": 0, "alarmed": False, "alarms": 0})["title"]
    'Waiting for the first outcome'
    """
    if not found["forecasts"]:
        return _state("empty", "Waiting for the first forecast", "Send it a record; docs/service.md shows how.")
    if not found["labels"]:
        return _state("waiting", "Waiting for the first outcome", "Report outcomes as they become known.")
    if found["alarms"]:
        many = "1 group" if found["alarms"] == 1 else f"{found['alarms']:,} groups"
        return _state("alarm", f"Off for {many}", "Look at the alarms below: they say for whom, which way, since when.")
    if found["alarmed"]:
        return _state("alarm", "Off for somebody", "No single group stands out yet; look at the groups below.")
    if found["labels"] < EARLY:
        return _state("early", "Too early to tell", f"Figures settle after a few hundred outcomes, {EARLY} at least.")
    return _state("fine", "No alarm", "Nothing to do.")


def unavailable(why: str) -> dict[str, str]:
    """Return the state of a forecaster that cannot be asked now."""
    return _state("unavailable", "Not available now", why)


def _state(kind: str, title: str, advice: str) -> dict[str, str]:
    return {"kind": kind, "title": title, "advice": advice}


def with_band(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return a reliability curve with the band that holds 95 of 100 observed rates if the forecasts are right.

    Examples
    --------
    >>> band = with_band([{"labels": 100.0, "forecast": 0.5, "observed": 0.48}])[0]
    >>> band["low"], band["high"]
    (0.4, 0.6)
    """
    labels, forecast = (np.array([row[name] for row in curve]) for name in ("labels", "forecast"))
    ends = binom.ppf([[0.025], [0.975]], labels, np.clip(forecast, 0.0, 1.0)) / np.maximum(labels, 1.0)
    return [{**row, "low": low, "high": high} for row, low, high in zip(curve, *ends.tolist(), strict=True)]
