"""Alarms: a miscalibrated group with range, direction, start and size; episodes; the lifetime test."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, NamedTuple

import numpy as np

from swapcal._display import display
from swapcal.arrays import AnyArray, Array
from swapcal.bounds import deviation_radius, start_share
from swapcal.kernels.wealth import (
    BEFORE,
    CELL,
    ENDED,
    FIRST,
    GAP,
    PEAK,
    RAISED,
    SIDE,
    SINCE,
    SPAN,
    SPREAD,
    TOTAL,
    TOTAL_SQUARE,
    VISITS,
)

# Clock: the times of rows, as floats: row numbers, numbers, or seconds since 1970.

ROW_NUMBERS, NUMBERS, DATES = "rows", "numbers", "dates"
"""Kinds of clock."""


def read_clock(time: Any, rows: int) -> tuple[Array, str]:
    """Return one time per row and their kind; they must not decrease.

    Examples
    --------
    >>> read_clock(["2024-01-01", "2024-01-02"], 2)[1]
    'dates'
    """
    raw = np.asarray(time)
    if raw.shape != (rows,):
        raise ValueError(f"time: given shape {raw.shape}, expected ({rows},), one per row")
    clock, kind = _floats(raw)
    bad = np.flatnonzero(~np.isfinite(clock))
    if bad.size:
        raise ValueError(f"time: given {raw[bad[0]]} in row {bad[0] + 1}, expected a number or date")
    back = np.flatnonzero(np.diff(clock) < 0)
    if back.size:
        first = back[0]
        raise ValueError(
            f"time: given {raw[first + 1]} in row {first + 2} after {raw[first]}, expected rows in order of time "
            "(the time by which a label is known whatever its value)"
        )
    return clock, kind


def _floats(raw: AnyArray) -> tuple[Array, str]:
    if raw.dtype.kind in "biuf":
        return raw.astype(np.float64), NUMBERS
    try:
        dates = _without_zones(raw).astype("datetime64[us]")
    except (TypeError, ValueError):
        raise TypeError(f"time: given {raw.dtype}, expected numbers or dates") from None
    seconds = dates.astype(np.int64) / 1e6
    return np.where(np.isnat(dates), np.nan, seconds), DATES


def _without_zones(raw: AnyArray) -> AnyArray:
    """Return times of day in UTC where they carry a zone, which numpy's dates cannot."""
    if raw.dtype.kind != "O" or not any(getattr(value, "tzinfo", None) for value in raw):
        return raw
    return np.array([value.astimezone(UTC).replace(tzinfo=None) for value in raw], dtype=object)


def show(clock: float, kind: str) -> str:
    """Return a time as text.

    Examples
    --------
    >>> show(21034.0, "rows"), show(86400.0, "dates"), show(60.75, "dates"), show(2.5, "numbers")
    ('row 21,034', '1970-01-02', '1970-01-01 00:01:00', '2.5')
    """
    if kind == ROW_NUMBERS:
        return f"row {clock:,.0f}"
    if kind == NUMBERS:
        return f"{clock:.15g}"
    text = str(np.datetime64(int(clock), "s"))
    return text.removesuffix("T00:00:00").replace("T", " ")


# Alarm: the group, range, direction, start, size and confidence.

CHANGE, LIFETIME = "change", "lifetime"
"""Kinds: raised by the change detector, or by the wealth since the first row."""
LOW, HIGH = "too low", "too high"
"""Directions of the forecasts."""


class Alarm(NamedTuple):
    """One group whose error exceeds the tolerance, or exceeded it until the alarm ended.

    A gap is observed minus forecast, as a rate, over the rows from `since` to `strongest`. All intervals of all groups
    at all times hold together with probability 1 − alpha, however often you look.
    """

    group: str
    kind: str
    direction: str
    forecasts: tuple[float, float]
    """Range of forecasts with the strongest evidence."""
    raised: float
    """When it was first raised, on the monitor's clock: row number, number, or seconds since 1970."""
    since: float
    """Estimated start: `gap` and its interval are over the rows from here."""
    rows: int
    """Rows in `gap`; rows with weights count by them."""
    gap: float
    low: float
    high: float
    evidence: float
    """Change: calibrated forecasts raise such an alarm at most once in this many rows. Lifetime: −log10 of the
    probability that they ever do."""
    clock: str
    strongest: float = np.nan
    """When the evidence was strongest."""
    ended: float | None = None
    """When the evidence had fallen to a thousandth of its strongest, another change began, or the detector was
    restarted; None until then."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the gap; None if it contains 0, as a few rows may show an error but not its size."""
        return None if self.low <= 0 <= self.high else (self.low, self.high)

    @property
    def sentence(self) -> str:
        """The alarm as one sentence."""
        few = "" if self.interval else ", too few for an interval"
        until = "since" if self.ended is None else "from"
        since = f"{until} {show(self.since, self.clock)} ({self.rows:,} rows{few})"
        return f"{self._where()}: {self._size()} {since}. {self._confidence()}"

    def __repr__(self) -> str:
        since = show(self.since, self.clock)
        return f"Alarm({self._where()}: {self._size()} since {since})"

    def _repr_html_(self) -> str:
        return display("Alarm", self.sentence)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with times as shown."""
        times = {name: show(getattr(self, name), self.clock) for name in ("raised", "since", "strongest")}
        ended = None if self.ended is None else show(self.ended, self.clock)
        data = self._asdict() | times | {"ended": ended, "forecasts": list(self.forecasts), "sentence": self.sentence}
        del data["clock"]
        return data

    def _where(self) -> str:
        low, high = self.forecasts
        return self.group if (low, high) == (0.0, 1.0) else f"{self.group}, forecasts from {low:g} to {high:g}"

    def _size(self) -> str:
        points = f"{100 * abs(self.gap):.1f} points"
        between = self.interval and f" (between {100 * self.low:+.1f} and {100 * self.high:+.1f})"
        were = "are" if self.ended is None else "were"
        return f"forecasts {were} {self.direction} by {'' if between else 'about '}{points}{between or ''}"

    def _confidence(self) -> str:
        raised = f"Raised at {show(self.raised, self.clock)}"
        if self.ended is not None:
            raised += f", strongest at {show(self.strongest, self.clock)}, ended at {show(self.ended, self.clock)}"
        if self.kind == CHANGE:
            rate = f"at most 1 in {_rounded(self.evidence)} rows" if self.evidence < NEGLIGIBLE else "negligible"
            return f"{raised}; false-alarm rate: {rate}."
        below = f"below {10.0**-self.evidence:.1g}" if self.evidence < np.log10(NEGLIGIBLE) else "negligible"
        return f"{raised}; false-alarm probability: {below}."


NEGLIGIBLE = 1e6
"""A false alarm in this many rows, or with one over this probability, is called negligible."""


def _rounded(count: float) -> str:
    """Return a count with two significant digits."""
    return f"{float(f'{count:.2g}'):,.0f}"


def sentence(alarms: Sequence[Alarm], rejected: bool, tolerance: float, groups: int, rows: int, ended: int = 0) -> str:
    """Return the state of a monitor as a sentence or two.

    `rejected` is the lifetime test over all groups together, `ended` the number of earlier alarms.
    """
    past = (
        "" if not ended else " 1 earlier alarm has ended." if ended == 1 else f" {ended:,} earlier alarms have ended."
    )
    return _present(alarms, rejected, tolerance, groups, rows) + past


def _present(alarms: Sequence[Alarm], rejected: bool, tolerance: float, groups: int, rows: int) -> str:
    points = f"{100 * tolerance:g}"
    allowed = f"{points} point" if points == "1" else f"{points} points"
    watched = f"{groups:,} groups over {rows:,} rows"
    if not rows:
        return "No rows yet."
    if alarms:
        kinds = "" if any(alarm.kind == CHANGE for alarm in alarms) else " by the lifetime test"
        return f"Forecasts are off by more than {allowed} for {len(alarms):,} of {watched}{kinds}."
    if rejected:
        return f"Forecasts have been off by more than {allowed}, but not significantly in any one of {watched}."
    return f"No sign that forecasts are off by more than {allowed} for any of {watched}."


# Size: the mean error of a cell since its change began, with an interval that is valid at all times.


class Size(NamedTuple):
    """Mean of y − p over the rows since `since`, and an interval for the mean of E[y − p | past]."""

    since: float
    rows: int
    gap: float
    low: float
    high: float


def since_change(marks: Array, alpha: float, max_weight: float = 1.0) -> Size:
    """Return the size from the start that the best of the direction's bets would choose in hindsight.

    `alpha` is the whole cell's budget; every possible start has a fixed part of it, so the start may be chosen from
    the data. Weights are at least 1: their sum before a start is at least the number of rows, and its share smaller.
    """
    rows, total, squares = (float(marks[field]) for field in (SPAN, GAP, SPREAD))
    tail = 0.5 * alpha * float(start_share(max(0.0, float(marks[BEFORE]))))
    return _size(float(marks[SINCE]), rows, total, squares, tail, max_weight)


def since_first(note: Array, alpha: float, max_weight: float = 1.0) -> Size:
    """Return the size over all rows of the cell."""
    rows, total, squares = (float(note[field]) for field in (VISITS, TOTAL, TOTAL_SQUARE))
    return _size(float(note[FIRST]), rows, total, squares, 0.5 * alpha * float(start_share(0)), max_weight)


def _size(since: float, rows: float, total: float, squares: float, tail: float, max_weight: float) -> Size:
    """Return the size; weighted residuals over the largest weight are in [−1, 1], as `deviation_radius` needs."""
    radius = max_weight * float(deviation_radius(squares / max_weight**2, tail))
    gap = total / rows
    return Size(since, int(rows), gap, max(-1.0, gap - radius / rows), min(1.0, gap + radius / rows))


# Episodes: alarms of a group's ranges of forecasts that agree in direction and time are one alarm.


@dataclass
class Episode:
    """An alarm of the log with the most evidence, when the first of its episode was raised and when the last ended."""

    strongest: Array
    raised: float
    ended: float

    def absorbs(self, entry: Array) -> bool:
        """Return whether a weaker alarm shows the same error: raised after this one's start, and not apart in time."""
        together = entry[RAISED] <= self.ended and entry[ENDED] >= self.raised
        return bool(together and self.strongest[ENDED + 1 + SINCE] <= entry[RAISED])


def episodes(log: Array, nodes: int) -> list[Episode]:
    """Return the alarms of groups, the strongest first; entries of the log are alarms of single ranges of forecasts."""
    by_side: dict[tuple[int, int], list[Episode]] = {}
    for entry in log[np.argsort(-log[:, PEAK], kind="stable")]:
        known = by_side.setdefault((int(entry[CELL]) // nodes, int(entry[SIDE])), [])
        kin = next((episode for episode in known if episode.absorbs(entry)), None)
        if kin is None:
            known.append(Episode(entry, float(entry[RAISED]), float(entry[ENDED])))
        else:
            kin.raised, kin.ended = min(kin.raised, float(entry[RAISED])), max(kin.ended, float(entry[ENDED]))
    merged = [episode for known in by_side.values() for episode in known]
    return sorted(merged, key=lambda episode: -float(episode.strongest[PEAK]))


# Lifetime: the test over all rows since the first.


class Lifetime(NamedTuple):
    """Test of "no group has ever been off by more than the tolerance", valid at all times at once."""

    log10_wealth: float
    """Logarithm of the pooled wealth now; it started at 0."""
    log10_peak: float
    """Its largest recorded value."""
    p_value: float
    """Bound on the probability that calibrated forecasts ever reach this wealth."""
    rejected: bool

    def __repr__(self) -> str:
        return f"Lifetime({self._about()})"

    def _about(self) -> str:
        verdict = "a group has been off by more than the tolerance" if self.rejected else "no significant error so far"
        return f"{verdict}, p = {self.p_value:.2g}"

    def _repr_html_(self) -> str:
        return display("Lifetime test", self._about())
