"""Alarm: who is off, where, which way, since when, by how much, and how sure that is."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from swapcal.faces import face
from swapcal.monitor.clock import show

CHANGE, LIFETIME = "change", "lifetime"
"""Kinds: raised by the change detector, or by the wealth since the first row."""
LOW, HIGH = "too low", "too high"
"""Directions of the forecasts."""


class Alarm(NamedTuple):
    """One group that is off beyond the tolerance.

    A gap is observed minus forecast, as a rate. All intervals of all groups at all times hold together with
    probability 1 − alpha, whatever made one look.
    """

    group: str
    kind: str
    direction: str
    forecasts: tuple[float, float]
    """Range of forecasts in which it shows most."""
    raised: float
    """When it was raised, on the monitor's clock: row number, number, or seconds since 1970."""
    since: float
    """Estimate of when it began; the start of the rows that `gap` and its interval speak about."""
    rows: int
    gap: float
    low: float
    high: float
    evidence: float
    """Change: honest forecasts would raise such an alarm once in at least this many rows. Lifetime: the logarithm to
    base 10 of 1 / p, p being the probability that they ever would."""
    clock: str

    @property
    def sentence(self) -> str:
        """The alarm in words."""
        since = f"since {show(self.since, self.clock)} ({self.rows:,} rows)"
        return f"{self._where()}: {self._size()} {since}. {self._sure()}"

    def __repr__(self) -> str:
        since = show(self.since, self.clock)
        return f"Alarm({self._where()}: {self._size()} since {since})"

    def _repr_html_(self) -> str:
        return face("Alarm", self.sentence)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with times as shown."""
        times = {"raised": show(self.raised, self.clock), "since": show(self.since, self.clock)}
        plain = self._asdict() | times | {"forecasts": list(self.forecasts), "sentence": self.sentence}
        del plain["clock"]
        return plain

    def _where(self) -> str:
        low, high = self.forecasts
        return self.group if (low, high) == (0.0, 1.0) else f"{self.group}, forecasts from {low:g} to {high:g}"

    def _size(self) -> str:
        points = f"{100 * abs(self.gap):.1f} points"
        interval = f"between {100 * self.low:+.1f} and {100 * self.high:+.1f}"
        return f"forecasts are {self.direction} by {points} ({interval})"

    def _sure(self) -> str:
        raised = f"Raised at {show(self.raised, self.clock)}"
        if self.kind == CHANGE:
            return f"{raised}; honest forecasts would raise it at most once in {_many(self.evidence)} rows."
        return f"{raised}; honest forecasts would ever do so with probability below {10.0**-self.evidence:.1g}."


def _many(count: float) -> str:
    """Write a count with two digits that mean something."""
    return f"{float(f'{count:.2g}'):,.0f}" if count < 1e9 else f"{count:.0e}".replace("e+", "e")


def sentence(alarms: Sequence[Alarm], rejected: bool, tolerance: float, groups: int, rows: int) -> str:
    """Say in one sentence how it stands; `rejected` is the lifetime test over all groups together."""
    points = f"{100 * tolerance:g}"
    allowed = f"{points} point" if points == "1" else f"{points} points"
    watched = f"{groups:,} groups over {rows:,} rows"
    if not rows:
        return "No rows yet."
    if alarms:
        kinds = "" if any(alarm.kind == CHANGE for alarm in alarms) else " by the lifetime test"
        return f"Forecasts are off by more than {allowed} for {len(alarms):,} of {watched}{kinds}."
    if rejected:
        return f"Forecasts have been off by more than {allowed} for somebody, but not clearly for one of {watched}."
    return f"No sign that forecasts are off by more than {allowed} for any of {watched}."
