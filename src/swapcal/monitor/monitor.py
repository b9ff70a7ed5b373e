"""Monitor: wealth per group, alarms that stay valid however often you look."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate, archive
from swapcal._display import counted, display, named
from swapcal.archive import State, written
from swapcal.arrays import Array
from swapcal.kernels.wealth import CHANGE_AT, CHANGE_PEAK, CUSUM, LIFE_AT, SUM
from swapcal.monitor import merge
from swapcal.monitor import state as file
from swapcal.monitor.alarms import (
    CHANGE,
    HIGH,
    LIFETIME,
    LOW,
    ROW_NUMBERS,
    Alarm,
    Lifetime,
    sentence,
    show,
    since_change,
    since_first,
)
from swapcal.monitor.settings import DEFAULT_STAKES, MonitorSettings, read_settings
from swapcal.monitor.state import LN10, Bets

MOST_SHOWN = 5  # alarms in a notebook


class Monitor:
    """Test forecasts as their outcomes arrive, and report miscalibrated groups; valid however often you look.

    There is a bet against every group, in every range of forecasts and in both directions: it wins when outcomes differ
    from the forecasts by more than `tolerance`; otherwise its expected gain is at most zero.

    - The change detector lists a group when its Shiryaev–Roberts sum reaches `run_length` (over the group's weight).
      The mean number of rows until *any* sound group is listed is at least `run_length`, whatever the others do.
    - The lifetime test lists a group when its wealth since its first row reaches 1/alpha (over the group's weight).
      The probability that *any* sound group is *ever* listed is at most `alpha`.

    "Sound" means |E[y − p | past, record, p]| ≤ tolerance on the group's rows. The rows must satisfy three conditions:
    their order does not depend on their labels (use the order of maturity, the time by which a label is known whatever
    its value, not the order of arrival); p is the mean forecast, not a level drawn from it; p was issued before y
    was known. Rows have no weights: a bet is one row. Proofs are in `swapcal.bounds.monitoring`.

    Parameters
    ----------
    groups : columns of the records whose categories are watched; all rows together always are. Missing values are a
        category, and categories may appear at any time
    products : pairs of columns whose combined categories are watched too
    tolerance : ε, in probability: the largest acceptable gap
    run_length : least mean number of rows between false alarms of the change detector
    alpha : largest probability of any false lifetime alarm, and of any wrong interval, at any time
    level_ranges : True watches ranges of forecasts by halves, down to eight; False only all forecasts together; or
        edges from 0 to 1 of a power of two of ranges
    stakes : factors by which the bets raise the odds, less one; up to six, averaged
    most : categories per column; later ones share one category, "(other)"

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(0.2, 0.8, 20_000)
    >>> shift = rng.choice(["day", "night"], 20_000)
    >>> drifted = (shift == "night") & (np.arange(20_000) >= 12_000)
    >>> monitor = Monitor(["shift"]).add({"shift": shift}, p, rng.random(20_000) < p + 0.15 * drifted)
    >>> alarm = monitor.alarms()[0]
    >>> alarm.group, alarm.direction, alarm.low < 0.15 < alarm.high
    ('shift = night', 'too low', True)
    """

    def __init__(
        self,
        groups: Sequence[str] = (),
        *,
        products: Sequence[Sequence[str]] = (),
        tolerance: float = 0.01,
        run_length: float = 1_000_000,
        alpha: float = 0.05,
        level_ranges: "bool | Sequence[float]" = True,
        stakes: Sequence[float] = DEFAULT_STAKES,
        most: int = 1000,
    ) -> None:
        self._bets = Bets(read_settings(groups, products, tolerance, run_length, alpha, level_ranges, stakes, most))

    @classmethod
    def _of(cls, bets: Bets) -> Self:
        monitor = cls.__new__(cls)
        monitor._bets = bets
        return monitor

    @property
    def settings(self) -> MonitorSettings:
        """Settings, fixed before the first row."""
        return self._bets.settings

    @property
    def rows(self) -> int:
        """Rows entered so far."""
        return self._bets.rows

    # ------------------------------------------------------------------ rows in

    def add(
        self, records: Any, p: "ArrayLike | float", y: "ArrayLike | float", time: Any = None, weights: None = None
    ) -> "Monitor":
        """Enter rows in order of maturity; refused input changes nothing.

        Parameters
        ----------
        records : mapping of columns, a pandas, polars or arrow table, or a list of mappings of values; for one row, one
            such mapping
        p, y : mean forecasts and outcomes in [0, 1], as arrays, or as numbers for one row
        time : of every row, numbers or dates that never decrease; row numbers if it is never given
        weights : not supported: a bet is one row, and the second bet on a row would know its outcome
        """
        if weights is not None:
            raise ValueError("weights: given, expected none: a bet is one row")
        if isinstance(p, (int, float)) or np.ndim(p) == 0:
            if np.ndim(y) != 0:
                raise TypeError(f"y: given {y!r}, expected one number in [0, 1]")
            forecasts, outcomes = np.array([_validate.label(p, "p")]), np.array([_validate.label(y, "y")])
            clock, kind = self._bets.clock(None if time is None else [time], 1)
            placed = self._bets.group_index.place_one(_one_record(records))
        else:
            forecasts, outcomes = _validate.rates("p", p), _validate.rates("y", y)
            if forecasts.shape != outcomes.shape:
                raise ValueError(f"y: given {len(outcomes)} outcomes, expected {len(forecasts)}, one per forecast")
            clock, kind = self._bets.clock(time, len(forecasts))
            listed = isinstance(records, list)
            place = self._bets.group_index.place_each if listed else self._bets.group_index.place
            placed = place(records, len(forecasts))
        if len(forecasts):
            self._bets.enter(placed, forecasts, outcomes, clock, kind)
        return self

    @property
    def clock_kind(self) -> str | None:
        """Kind of the clock: "rows", "numbers" or "dates"; None before the first row."""
        return self._bets.clock_kind

    # ------------------------------------------------------------------ answers

    def alarms(self) -> list[Alarm]:
        """Return the alarms: change alarms since the last restart and lifetime alarms, one per group."""
        by_group = (-1, self.settings.ranges.nodes, 2)
        notes = self._bets.live_bet_state().notes
        raised, peaks = notes[:, CHANGE_AT : CHANGE_AT + 2], notes[:, CHANGE_PEAK : CHANGE_PEAK + 2]
        change = np.where(np.isnan(raised), 0.0, peaks).reshape(by_group)
        life, weights = self._bets.beyond_limit().reshape(by_group), self._bets.log_weights()
        found = []
        for g in np.flatnonzero((change.max((1, 2), initial=0) > 0) | (life.max((1, 2), initial=-1) >= 0)).tolist():
            kind, values = (CHANGE, change[g]) if change[g].max() > 0 else (LIFETIME, life[g])
            node, side = (int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))
            found.append(self._alarm(g, kind, node, side, float(values[node, side]), float(weights[g, node])))
        return sorted(found, key=lambda alarm: (alarm.kind == LIFETIME, -alarm.evidence))

    def _alarm(self, group: int, kind: str, node: int, side: int, value: float, log_weight: float) -> Alarm:
        cell = group * self.settings.ranges.nodes + node
        note, alpha = self._bets.bet_state.notes[cell], self.settings.alpha * float(np.exp(log_weight))
        if kind == CHANGE:
            size = since_change(self._bets.bet_state.bets[cell], note, self._bets.terms.shares, side, alpha)
            raised, sure = float(note[CHANGE_AT + side]), value * self.settings.change_weight
        else:
            size = since_first(note, alpha)
            raised, sure = float(note[LIFE_AT + side]), (value + self.settings.log_limit()) / LN10
        return Alarm(
            group=self._bets.group_index.groups[group].name,
            kind=kind,
            direction=LOW if side == 0 else HIGH,
            forecasts=self.settings.ranges.bounds(node),
            raised=self._bets.last_clock if np.isnan(raised) else raised,
            since=size.since,
            rows=size.rows,
            gap=size.gap,
            low=size.low,
            high=size.high,
            evidence=sure,
            clock=self._bets.clock_kind or ROW_NUMBERS,
        )

    def sizes(self) -> list[dict[str, Any]]:
        """Return every group's rows, mean gap and interval since its first row, and both kinds of evidence as `wealth`.

        All intervals hold at all times.
        """
        found = []
        nodes, weights = self.settings.ranges.nodes, self._bets.log_weights()
        known = self._bets.known(len(self._bets.group_index.groups))[0].tolist()
        for g, group in enumerate(self._bets.group_index.groups):
            size = since_first(
                self._bets.bet_state.notes[g * nodes], self.settings.alpha * float(np.exp(weights[g, 0]))
            )
            sized = {"group": group.name, "rows": size.rows, "gap": size.gap, "low": size.low, "high": size.high}
            found.append({**sized, "change": known[g][0], "lifetime": known[g][1]})
        return found

    def test(self) -> Lifetime:
        """Return the lifetime test over all groups together."""
        now = self._bets.pooled(self._bets.log_wealth())
        beyond = float(self._bets.beyond_limit().max(initial=-np.inf)) + self.settings.log_limit()
        peak = max(now, self._bets.pooled_peak, beyond)
        p_value = float(np.exp(-max(0.0, peak)))
        return Lifetime(now / LN10, peak / LN10, p_value, p_value <= self.settings.alpha)

    def wealth(self, group: str | None = None) -> dict[str, Array]:
        """Return evidence over time, at most 64 entries: rows, clock, and log10 of both kinds of evidence of a group.

        `change` compares with log10 of the run length; `lifetime` is the group's own wealth, which started at 0. For
        all rows together unless a group is named as alarms name it.
        """
        groups = self.groups()
        place = 0 if group is None and groups else self._place(group)
        figures = self._bets.history.table(len(groups))[:, place]
        return {
            "rows": np.array(self._bets.history.rows, dtype=np.float64),
            "clock": np.array(self._bets.history.clock, dtype=np.float64),
            "change": figures[:, 0],
            "lifetime": figures[:, 1],
        }

    def columns(self) -> list[str]:
        """Return the columns of the records that are read."""
        return self._bets.group_index.wanted

    def groups(self) -> list[str]:
        """Return the names of the groups so far, in order of appearance."""
        return [group.name for group in self._bets.group_index.groups]

    def _place(self, group: str | None) -> int:
        names = self.groups()
        if group not in names:
            raise ValueError(f"group: given {group!r}, expected one of {', '.join(map(repr, names[:12]))}")
        return names.index(group)

    def summary(self, title: str = "Monitor") -> dict[str, Any]:
        """Return all results as data for JSON."""
        kind = self._bets.clock_kind or ROW_NUMBERS
        alarms, test = self.alarms(), self.test()
        listed = [alarm.group for alarm in alarms] or self.groups()[:1]
        return {
            "title": title,
            "rows": self.rows,
            "groups": len(self.groups()),
            "first": show(self._bets.first_clock, kind) if self.rows else "",
            "last": show(self._bets.last_clock, kind) if self.rows else "",
            "sentence": self._sentence(alarms, test.rejected),
            "alarmed": bool(alarms) or test.rejected,
            "alarms": [alarm.to_dict() for alarm in alarms],
            "lifetime": test._asdict(),
            "run_length": self.settings.run_length,
            "sizes": self.sizes(),
            "history": [self._over_time(group) for group in listed],
            "settings": self.settings.to_dict(),
        }

    def _sentence(self, alarms: list[Alarm], rejected: bool) -> str:
        return sentence(alarms, rejected, self.settings.tolerance, len(self.groups()), self.rows)

    def _over_time(self, group: str) -> dict[str, Any]:
        """Return the evidence against a group over time, as plain data."""
        found, kind = self.wealth(group), self._bets.clock_kind or ROW_NUMBERS
        return {
            "group": group,
            "rows": [int(row) for row in found["rows"]],
            "times": [show(float(clock), kind) for clock in found["clock"]],
            "change": [None if np.isnan(value) else float(value) for value in found["change"]],
            "lifetime": [None if np.isnan(value) else float(value) for value in found["lifetime"]],
        }

    def to_html(self, path: "str | os.PathLike[str] | None" = None, *, title: str = "Monitor") -> str:
        """Return the summary as one self-contained HTML page, and write it if a path is given.

        Examples
        --------
        >>> Monitor().add({}, [0.2, 0.4], [0, 1]).to_html(title="Rain").startswith("<!doctype html>")
        True
        """
        from swapcal.report.monitoring import render_monitoring

        return written(render_monitoring(self.summary(title)), path)

    def plot(self, groups: Sequence[str] | None = None, *, most: int = 6, ax: Any = None) -> Any:
        """Draw the change detector's evidence over time and the line of alarm, and return the matplotlib axes.

        Parameters
        ----------
        groups : names as in alarms; by default those with an alarm, the strongest evidence first, then those nearest
            to one
        most : groups drawn, unless they are named
        ax : axes to draw on; by default those of a new figure. Needs matplotlib, the extra ``plot``.
        """
        sizes = {size["group"]: size for size in self.sizes()}
        listed = dict.fromkeys(alarm.group for alarm in self.alarms())
        nearest = sorted(sizes, key=lambda name: -sizes[name]["change"])
        wanted = [*dict.fromkeys([*listed, *nearest])][:most] if groups is None else list(groups)
        kind = self._bets.clock_kind or ROW_NUMBERS
        history = [self._over_time(group) for group in wanted]
        for entry in history:  # entries are many rows apart: what is known now comes last
            entry["rows"].append(self.rows)
            entry["times"].append(show(self._bets.last_clock, kind))
            entry["change"].append(float(sizes[entry["group"]]["change"]))
        from swapcal import plots

        return plots.evidence(history, self.settings.run_length, ax=ax)

    # ------------------------------------------------------------------ life of a monitor

    def restart(self, group: str | None = None) -> "Monitor":
        """Restart the change detector, for one group or for all, for instance after the forecasts were corrected.

        The mean run length holds from here on. The lifetime test continues: it covers all rows since the first.
        """
        nodes = self.settings.ranges.nodes
        first = 0 if group is None else self._place(group) * nodes
        cells = slice(first, None if group is None else first + nodes)
        self._bets.bet_state.bets[cells, SUM] = 0.0
        self._bets.bet_state.bets[cells, CUSUM] = 0.0
        self._bets.bet_state.notes[cells, CHANGE_AT:CHANGE_PEAK] = np.nan
        self._bets.bet_state.notes[cells, CHANGE_PEAK:LIFE_AT] = 0.0
        return self

    def then(self, later: "Monitor") -> "Monitor":
        """Return the monitor of this one's rows followed by those of `later`, which started fresh.

        Equal to entering all rows in one, up to rounding, except that an alarm in the later part which the earlier one
        contributed to is seen only if it lasts to the end, and that the history is that of the earlier part.
        """
        return self._of(merge.after(self._bets, later._bets))

    def __add__(self, other: "Monitor") -> "Monitor":
        """Return one monitor for rows seen side by side: shards of one stream, or streams of one system.

        Lifetime wealth multiplies. The change detectors add, and the run length counts the rows of both. A group has
        the smaller of its two budgets, divided by the number of shards: the shard in which it appeared first reserved
        at least that. The history starts empty.
        """
        if not isinstance(other, Monitor):
            return NotImplemented
        return self._of(merge.beside(self._bets, other._bets))

    def to_state(self) -> State:
        """Return the whole state as `save` writes it."""
        return file.state_of(self._bets)

    @classmethod
    def from_state(cls, state: State) -> "Monitor":
        """Rebuild from `to_state`."""
        return cls._of(file.bets_of(state))

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the state to a file, whole or not at all; `load` continues bit for bit."""
        archive.write(path, file.FILE, *self.to_state())

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> "Monitor":
        """Read what `save` wrote.

        Examples
        --------
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "monitor.swapcal")
        >>> Monitor().add({}, [0.2, 0.4], [0, 1]).save(path)
        >>> Monitor.load(path).rows
        2
        """
        return cls._of(file.load(path))

    def __repr__(self) -> str:
        alarms = named((alarm.group for alarm in self.alarms()), 3)
        listed = f"off: {alarms}" if alarms else "no alarms"
        return f"Monitor({counted(self.rows, 'row')}, {counted(len(self._bets.group_index.groups), 'group')}; {listed})"

    def _repr_html_(self) -> str:
        alarms = self.alarms()
        shown = {f"alarm {k}": alarm.sentence for k, alarm in enumerate(alarms[:MOST_SHOWN], 1)}
        more = {"and": f"{len(alarms) - MOST_SHOWN} more"} if len(alarms) > MOST_SHOWN else {}
        return display("Monitor", self._sentence(alarms, self.test().rejected), shown | more)


def _one_record(records: Any) -> Mapping[str, Any]:
    if not isinstance(records, Mapping):
        raise TypeError(f"records: given {type(records).__name__} with one forecast, expected a mapping of values")
    return records
