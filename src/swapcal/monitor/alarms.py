"""`Alarm`: the group that is miscalibrated, the range and direction, the start and the size; times and sizes."""

from collections.abc import Sequence
from datetime import UTC
from typing import Any, NamedTuple

import numpy as np

from swapcal._display import display
from swapcal.arrays import AnyArray, Array
from swapcal.bounds import deviation_radius, start_share
from swapcal.kernels.wealth import CUSUM, FIRST, RESIDUAL, ROWS, SQUARE, START, TOTAL, TOTAL_SQUARE, VISITS

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
    >>> show(21034.0, "rows"), show(86400.0, "dates"), show(2.5, "numbers")
    ('row 21,034', '1970-01-02', '2.5')
    """
    if kind == ROW_NUMBERS:
        return f"row {clock:,.0f}"
    if kind == NUMBERS:
        return f"{clock:.12g}"
    text = str(np.datetime64(round(clock * 1e6), "us"))
    return text.removesuffix(".000000").removesuffix("T00:00:00").replace("T", " ")


# Alarm: the group, range, direction, start, size and confidence.

CHANGE, LIFETIME = "change", "lifetime"
"""Kinds: raised by the change detector, or by the wealth since the first row."""
LOW, HIGH = "too low", "too high"
"""Directions of the forecasts."""


class Alarm(NamedTuple):
    """One group whose error exceeds the tolerance.

    A gap is observed minus forecast, as a rate. All intervals of all groups at all times hold together with
    probability 1 − alpha, however often you look.
    """

    group: str
    kind: str
    direction: str
    forecasts: tuple[float, float]
    """Range of forecasts with the strongest evidence."""
    raised: float
    """When it was raised, on the monitor's clock: row number, number, or seconds since 1970."""
    since: float
    """Estimated start: `gap` and its interval are over the rows from here."""
    rows: int
    gap: float
    low: float
    high: float
    evidence: float
    """Change: calibrated forecasts raise such an alarm at most once in this many rows. Lifetime: −log10 of the
    probability that they ever do."""
    clock: str

    @property
    def sentence(self) -> str:
        """The alarm as one sentence."""
        since = f"since {show(self.since, self.clock)} ({self.rows:,} rows)"
        return f"{self._where()}: {self._size()} {since}. {self._confidence()}"

    def __repr__(self) -> str:
        since = show(self.since, self.clock)
        return f"Alarm({self._where()}: {self._size()} since {since})"

    def _repr_html_(self) -> str:
        return display("Alarm", self.sentence)

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

    def _confidence(self) -> str:
        raised = f"Raised at {show(self.raised, self.clock)}"
        if self.kind == CHANGE:
            rate = f"at most 1 in {_rounded(self.evidence)} rows" if self.evidence < NEGLIGIBLE else "negligible"
            return f"{raised}; false-alarm rate: {rate}."
        below = f"below {10.0**-self.evidence:.1g}" if self.evidence < np.log10(NEGLIGIBLE) else "negligible"
        return f"{raised}; false-alarm probability: {below}."


NEGLIGIBLE = 1e9
"""A false alarm in this many rows, or with one over this probability, is called negligible."""


def _rounded(count: float) -> str:
    """Return a count with two significant digits."""
    return f"{float(f'{count:.2g}'):,.0f}"


def sentence(alarms: Sequence[Alarm], rejected: bool, tolerance: float, groups: int, rows: int) -> str:
    """Return the state of a monitor as one sentence; `rejected` is the lifetime test over all groups together."""
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


def since_change(bets: Array, note: Array, shares: Array, side: int, alpha: float) -> Size:
    """Return the size since the start that the best of the direction's bets would choose in hindsight.

    `alpha` is the whole cell's budget; every possible start has a fixed part of it, so the start may be chosen from
    the data.
    """
    lanes = [lane for lane in range(side, len(shares), 2) if shares[lane] > 0]
    best = max(lanes, key=lambda lane: float(bets[CUSUM, lane]))
    rows, total, squares = (float(bets[field, best]) for field in (ROWS, RESIDUAL, SQUARE))
    before = max(0.0, float(note[VISITS]) - rows)
    return _size(float(bets[START, best]), rows, total, squares, 0.5 * alpha * float(start_share(before)))


def since_first(note: Array, alpha: float) -> Size:
    """Return the size over all rows of the cell."""
    rows, total, squares = (float(note[field]) for field in (VISITS, TOTAL, TOTAL_SQUARE))
    return _size(float(note[FIRST]), rows, total, squares, 0.5 * alpha * float(start_share(0)))


def _size(since: float, rows: float, total: float, squares: float, tail: float) -> Size:
    radius = float(deviation_radius(squares, tail))
    gap = total / rows
    return Size(since, int(rows), gap, max(-1.0, gap - radius / rows), min(1.0, gap + radius / rows))


# Lifetime: the one test over everything since the first row.


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
