"""Monitor: wealth per group, alarms that stay valid however often one looks."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from swapcal import plots
from swapcal.archive.state import State
from swapcal.arrays import Array
from swapcal.faces import card, counted, named
from swapcal.kernels.play import CUSUM, LANES, SUM
from swapcal.kernels.wealth import (
    CHANGE_AT,
    CHANGE_PEAK,
    LIFE_AT,
    LIFE_PEAK,
    Book,
    advance,
    blank_book,
)
from swapcal.monitor import evidence, file, joining
from swapcal.monitor.alarm import CHANGE, HIGH, LIFETIME, LOW, Alarm
from swapcal.monitor.clock import ROWS, read_clock, show
from swapcal.monitor.history import History
from swapcal.monitor.lifetime import Lifetime
from swapcal.monitor.rates import one_rate, rates
from swapcal.monitor.roster import Roster, Rows
from swapcal.monitor.settings import DEFAULT_STAKES, Settings, read_settings
from swapcal.monitor.size import since_change, since_first
from swapcal.monitor.summary import history_of, sentence, summarise
from swapcal.report.monitoring import render_monitoring

LN10 = float(np.log(10.0))
MOST_SHOWN = 5  # alarms in a notebook


class Monitor:
    """Watch forecasts as their outcomes come in, and say for whom they are off: valid at every look.

    Every group, in every range of forecasts and in both directions, is bet against: a bet wins when outcomes stray
    from the forecasts by more than `tolerance`, and cannot be expected to win against forecasts that do not.

    - The change detector lists a group when its Shiryaev–Roberts sum reaches `run_length` (over the group's weight).
      The mean number of rows until *any* sound group is listed is at least `run_length`, whatever the others do.
    - The lifetime test lists a group when its wealth since its first row reaches 1/alpha (over the group's weight).
      The probability that *any* sound group is *ever* listed is at most `alpha`.

    "Sound" means |E[y − p | past, record, p]| ≤ tolerance on the group's rows. Three things are asked of the rows: they
    come in an order that does not depend on their labels (that of maturity: the time by which a label was bound to be
    known, not when it happened to arrive); p is the mean forecast, not a level drawn from it; p was issued before y
    was known. Rows have no weights: a bet is one row. Proofs are in `swapcal.bounds.monitoring`.

    Parameters
    ----------
    groups : columns of the records whose categories are watched; all rows together always are. Missing values are a
        category, and categories may appear at any time
    products : pairs of columns whose combined categories are watched too
    tolerance : ε, in probability: gaps up to this size are nobody's business
    run_length : mean number of rows between false alarms of the change detector, at least
    alpha : probability of any false lifetime alarm, ever, at most; and that any interval is ever wrong
    level_ranges : True watches ranges of forecasts by halves, down to eight; False only all forecasts together; or
        edges from 0 to 1 of a power of two of ranges
    stakes : factors by which the bets raise the odds, less one; up to six, averaged
    most : categories per column; what appears later is one category, "(other)"

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
        self._open(read_settings(groups, products, tolerance, run_length, alpha, level_ranges, stakes, most))

    def _open(self, settings: Settings) -> None:
        self.settings = settings
        self.rows = 0
        self._clock_kind: str | None = None
        self._first_clock = self._last_clock = -np.inf
        self._shards = 1
        self._pooled_peak = 0.0
        self._roster = Roster(settings.columns, settings.most)
        self._history = History()
        self._terms = settings.terms()
        self._book = blank_book(0)
        self._life_limits = np.zeros((0, settings.ranges.nodes))
        self._gain = np.zeros(LANES)

    # ------------------------------------------------------------------ rows in

    def add(
        self, records: Any, p: "ArrayLike | float", y: "ArrayLike | float", time: Any = None, weights: None = None
    ) -> "Monitor":
        """Enter rows in order of maturity; refused input leaves everything as it was.

        Parameters
        ----------
        records : mapping of columns, a pandas, polars or arrow table, or a list of mappings of values; for one row, one
            such mapping
        p, y : mean forecasts and outcomes in [0, 1], as arrays, or as numbers for one row
        time : of every row, numbers or dates that never decrease; rows are counted if it is never given
        weights : not supported: a bet is one row, and a row entered twice would be bet on with its outcome known
        """
        if weights is not None:
            raise ValueError("weights: given, expected none: a bet is one row, whatever it stands for")
        if isinstance(p, (int, float)) or np.ndim(p) == 0:
            forecasts, outcomes = one_rate("p", p), one_rate("y", y)
            clock, kind = self._clock(None if time is None else [time], 1)
            placed = self._roster.place_one(_one_record(records))
        else:
            forecasts, outcomes = rates("p", p), rates("y", y)
            if forecasts.shape != outcomes.shape:
                raise ValueError(f"y: given {len(outcomes)} outcomes, expected {len(forecasts)}, one per forecast")
            clock, kind = self._clock(time, len(forecasts))
            listed = isinstance(records, list)
            place = self._roster.place_each if listed else self._roster.place
            placed = place(records, len(forecasts))
        if len(forecasts):
            self._enter(placed, forecasts, outcomes, clock, kind)
        return self

    def _clock(self, time: Any, rows: int) -> tuple[Array, str]:
        if time is None:
            clock, kind = np.arange(self.rows + 1.0, self.rows + rows + 1.0), ROWS
        else:
            clock, kind = read_clock(time, rows)
        if self._clock_kind not in (None, kind):
            raise ValueError(f"time: given {kind}, expected {self._clock_kind} as before")
        if rows and clock[0] < self._last_clock:
            given, before = show(float(clock[0]), kind), show(self._last_clock, kind)
            raise ValueError(f"time: given {given} in row 1 after {before}, expected rows in order of time")
        return clock, kind

    def _enter(self, placed: Rows, p: Array, y: Array, clock: Array, kind: str) -> None:
        """Play all rows, pausing where the history takes an entry: nothing depends on how rows are batched."""
        known = len(self._roster.groups)
        if placed.newcomers:
            self._roster.admit(placed.newcomers)
            self._make_room()
        if self.rows == 0:
            self._first_clock = float(clock[0])
        self._clock_kind = kind
        newest = np.maximum.accumulate(placed.members.max(axis=1))
        start = 0
        while start < len(p):
            stop = min(len(p), start + self._history.until_next(self.rows))
            part = slice(start, stop)
            advance(
                self._book,
                self._terms,
                placed.members[part],
                self._life_limits,
                p[part],
                y[part],
                clock[part],
                self._gain,
            )
            self.rows += stop - start
            self._last_clock = float(clock[stop - 1])
            if self.rows % self._history.stride == 0:
                self._record(max(known, int(newest[stop - 1]) + 1))
            start = stop

    def _make_room(self) -> None:
        """Give every group on the roster its cells and its lifetime limits."""
        have, need = len(self._life_limits), len(self._roster.groups)
        if have < need:
            room, nodes = max(need, 2 * have), self.settings.ranges.nodes
            more = blank_book((room - have) * nodes)
            self._book = Book(*(np.concatenate(pair) for pair in zip(self._book, more, strict=True)))
            self._life_limits = np.full((room, nodes), np.inf)
        self._life_limits[:need] = self.settings.log_limit() - self._log_weights()

    # ------------------------------------------------------------------ answers

    def alarms(self) -> list[Alarm]:
        """Return the groups listed by change since the last restart, or by lifetime, each where it shows most."""
        by_group = (-1, self.settings.ranges.nodes, 2)
        notes = self._live_book().notes
        raised, peaks = notes[:, CHANGE_AT : CHANGE_AT + 2], notes[:, CHANGE_PEAK : CHANGE_PEAK + 2]
        change = np.where(np.isnan(raised), 0.0, peaks).reshape(by_group)
        life, weights = self._beyond_limit().reshape(by_group), self._log_weights()
        found = []
        for g in np.flatnonzero((change.max((1, 2), initial=0) > 0) | (life.max((1, 2), initial=-1) >= 0)).tolist():
            kind, values = (CHANGE, change[g]) if change[g].max() > 0 else (LIFETIME, life[g])
            node, side = (int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))
            found.append(self._alarm(g, kind, node, side, float(values[node, side]), float(weights[g, node])))
        return sorted(found, key=lambda alarm: (alarm.kind == LIFETIME, -alarm.evidence))

    def _beyond_limit(self) -> Array:
        """Return (cells, 2): by how much a cell's largest lifetime wealth exceeded its limit, as a logarithm."""
        book = self._live_book()
        largest = np.maximum(book.notes[:, LIFE_PEAK : LIFE_PEAK + 2], evidence.log_wealth(book, self._terms))
        return np.asarray(largest - self._life_limits[: len(self._roster.groups)].reshape(-1, 1), dtype=np.float64)

    def _alarm(self, group: int, kind: str, node: int, side: int, value: float, log_weight: float) -> Alarm:
        cell = group * self.settings.ranges.nodes + node
        note, alpha = self._book.notes[cell], self.settings.alpha * float(np.exp(log_weight))
        if kind == CHANGE:
            size = since_change(self._book.bets[cell], note, self._terms.shares, side, alpha)
            raised, sure = float(note[CHANGE_AT + side]), value * self.settings.change_weight
        else:
            size = since_first(note, alpha)
            raised, sure = float(note[LIFE_AT + side]), (value + self.settings.log_limit()) / LN10
        return Alarm(
            group=self._roster.groups[group].name,
            kind=kind,
            direction=LOW if side == 0 else HIGH,
            forecasts=self.settings.ranges.bounds(node),
            raised=self._last_clock if np.isnan(raised) else raised,
            since=size.since,
            rows=size.rows,
            gap=size.gap,
            low=size.low,
            high=size.high,
            evidence=sure,
            clock=self._clock_kind or ROWS,
        )

    def sizes(self) -> list[dict[str, Any]]:
        """Return every group's rows, mean gap and interval since its first row, and both kinds of evidence as `wealth`.

        All intervals hold at all times.
        """
        found = []
        nodes, weights = self.settings.ranges.nodes, self._log_weights()
        known = self._known(len(self._roster.groups))[0].tolist()
        for g, group in enumerate(self._roster.groups):
            size = since_first(self._book.notes[g * nodes], self.settings.alpha * float(np.exp(weights[g, 0])))
            sized = {"group": group.name, "rows": size.rows, "gap": size.gap, "low": size.low, "high": size.high}
            found.append({**sized, "change": known[g][0], "lifetime": known[g][1]})
        return found

    def test(self) -> Lifetime:
        """Return the lifetime test over all groups together."""
        now = self._pooled(evidence.log_wealth(self._live_book(), self._terms))
        beyond = float(self._beyond_limit().max(initial=-np.inf)) + self.settings.log_limit()
        peak = max(now, self._pooled_peak, beyond)
        p_value = float(np.exp(-max(0.0, peak)))
        return Lifetime(now / LN10, peak / LN10, p_value, p_value <= self.settings.alpha)

    def wealth(self, group: str | None = None) -> dict[str, Array]:
        """Return evidence over time, at most 64 entries: rows, clock, and log10 of both kinds of evidence of a group.

        `change` compares with log10 of the run length; `lifetime` is the group's own wealth, which started at 0. For
        all rows together unless a group is named as alarms name it.
        """
        names = [one.name for one in self._roster.groups]
        wanted = names[0] if group is None and names else group
        if wanted not in names:
            raise ValueError(f"group: given {group!r}, expected one of {', '.join(map(repr, names[:12]))}")
        figures = self._history.table(len(names))[:, names.index(wanted)]
        return {
            "rows": np.array(self._history.rows, dtype=np.float64),
            "clock": np.array(self._history.clock, dtype=np.float64),
            "change": figures[:, 0],
            "lifetime": figures[:, 1],
        }

    def columns(self) -> list[str]:
        """Return the columns of the records that are read."""
        return self._roster.wanted

    def groups(self) -> list[str]:
        """Return the names of the groups met so far, in order of appearance."""
        return [group.name for group in self._roster.groups]

    def summary(self, title: str = "Monitor") -> dict[str, Any]:
        """Return everything there is to say as plain data, ready for JSON."""
        return summarise(self, title)

    def to_html(self, path: "str | os.PathLike[str] | None" = None, *, title: str = "Monitor") -> str:
        """Return the summary as one self-contained HTML page, and write it if a path is given.

        Examples
        --------
        >>> Monitor().add({}, [0.2, 0.4], [0, 1]).to_html(title="Rain").startswith("<!doctype html>")
        True
        """
        page = render_monitoring(self.summary(title))
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def plot(self, groups: Sequence[str] | None = None, *, most: int = 6, ax: Any = None) -> Any:
        """Draw the change detector's evidence over time and the line of alarm, and return the matplotlib axes.

        Parameters
        ----------
        groups : names as alarms give them; by default those listed by an alarm, the surest first, then those nearest
            to one
        most : groups drawn, unless they are named
        ax : axes to draw on; by default those of a new figure. Needs matplotlib, the extra ``plot``.
        """
        sizes = {size["group"]: size for size in self.sizes()}
        listed = dict.fromkeys(alarm.group for alarm in self.alarms())
        nearest = sorted(sizes, key=lambda name: -sizes[name]["change"])
        wanted = [*dict.fromkeys([*listed, *nearest])][:most] if groups is None else list(groups)
        kind = self._clock_kind or ROWS
        history = [history_of(self, group, kind) for group in wanted]
        for entry in history:  # entries are many rows apart: what is known now comes last
            entry["rows"].append(self.rows)
            entry["times"].append(show(self._last_clock, kind))
            entry["change"].append(float(sizes[entry["group"]]["change"]))
        return plots.evidence(history, self.settings.run_length, ax=ax)

    # ------------------------------------------------------------------ life of a monitor

    def restart(self, group: str | None = None) -> "Monitor":
        """Start the change detector anew, for one group or for all, say after the forecasts were mended.

        The mean run length holds from here on. The lifetime test goes on: it is about everything since the first row.
        """
        names = self.groups()
        if group is not None and group not in names:
            raise ValueError(f"group: given {group!r}, expected one of {', '.join(map(repr, names[:12]))}")
        nodes = self.settings.ranges.nodes
        first = 0 if group is None else names.index(group) * nodes
        cells = slice(first, None if group is None else first + nodes)
        self._book.bets[cells, SUM] = 0.0
        self._book.bets[cells, CUSUM] = 0.0
        self._book.notes[cells, CHANGE_AT:CHANGE_PEAK] = np.nan
        self._book.notes[cells, CHANGE_PEAK:LIFE_AT] = 0.0
        return self

    def then(self, later: "Monitor") -> "Monitor":
        """Return the monitor of this one's rows followed by those of `later`, which started fresh.

        Equal to entering all rows in one, up to rounding, except that an alarm in the later part which the earlier one
        contributed to is seen only if it lasts to the end, and that the history is that of the earlier part.
        """
        return joining.after(self, later)

    def __add__(self, other: "Monitor") -> "Monitor":
        """Return one monitor for rows seen side by side: shards of one stream, or streams of one system.

        Lifetime wealth multiplies. The change detectors add, and the run length counts the rows of both. A group has
        the smaller of its two budgets, divided by the number of shards, so that whichever shard met it first had set
        aside at least that. History starts anew.
        """
        if not isinstance(other, Monitor):
            return NotImplemented
        return joining.beside(self, other)

    def to_state(self) -> State:
        """Return the whole state as `save` writes it."""
        return file.state_of(self)

    @classmethod
    def from_state(cls, state: State) -> "Monitor":
        """Rebuild from `to_state`."""
        return file.restored(cls, state)

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the state to a file, whole or not at all; `load` continues bit for bit."""
        file.save(self, path)

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
        return file.load(cls, path)

    # ------------------------------------------------------------------ inside

    def _live_book(self, groups: int | None = None) -> Book:
        """Return the cells of the first groups, of all unless told."""
        cells = (len(self._roster.groups) if groups is None else groups) * self.settings.ranges.nodes
        return Book(self._book.bets[:cells], self._book.notes[:cells])

    def _log_weights(self) -> Array:
        """Return (groups, nodes): logarithm of a cell's weight in the lifetime test, for one direction."""
        shares = np.array([group.share for group in self._roster.groups], dtype=np.float64)
        weights = np.log(shares / self._shards)[:, None] + self.settings.log_budget()
        return np.asarray(weights, dtype=np.float64)

    def _pooled(self, log_wealth: Array) -> float:
        """Return the logarithm of the weighted wealth of the first groups' cells, all that are yet to come having 1.

        After a sum of monitors, what a group's smaller budget leaves over may depend on labels: it counts for nothing.
        """
        if not len(log_wealth):
            return 0.0
        weights = np.repeat(self._log_weights().ravel()[: len(log_wealth)], 2)
        logs = log_wealth.ravel() + weights
        unused = max(0.0, 1.0 - float(np.exp(weights).sum())) if self._shards == 1 else 0.0
        terms = np.append(logs, np.log(unused) if unused > 0 else -np.inf)
        top = float(terms.max())
        return top + float(np.log(np.exp(terms - top).sum()))

    def _record(self, groups: int) -> None:
        """Enter what the first `groups` groups know now into the history."""
        figures, logs = self._known(groups)
        self._history.append(self.rows, self._last_clock, figures)
        self._pooled_peak = max(self._pooled_peak, self._pooled(logs))

    def _known(self, groups: int) -> tuple[Array, Array]:
        """Return log10 of both kinds of evidence against each of the first groups, and each cell's log wealth."""
        sums, logs = evidence.survey(self._live_book(groups), self._terms)
        shares = np.repeat(0.5 * self.settings.ranges.shares(), 2)
        now = sums.reshape(groups, len(shares)).max(axis=1) * self.settings.change_weight
        own = evidence.log_mean(logs.reshape(groups, len(shares)), shares)
        return np.stack([np.log10(np.maximum(now, 1e-300)), own / LN10], axis=1), logs

    def __repr__(self) -> str:
        alarms = named((alarm.group for alarm in self.alarms()), 3)
        listed = f"off: {alarms}" if alarms else "no alarms"
        return f"Monitor({counted(self.rows, 'row')}, {counted(len(self._roster.groups), 'group')}; {listed})"

    def _repr_html_(self) -> str:
        alarms = self.alarms()
        said = {f"alarm {k}": alarm.sentence for k, alarm in enumerate(alarms[:MOST_SHOWN], 1)}
        rest = {"and": f"{len(alarms) - MOST_SHOWN} more"} if len(alarms) > MOST_SHOWN else {}
        return card("Monitor", sentence(self, len(alarms), self.test().rejected), said | rest)


def _one_record(records: Any) -> Mapping[str, Any]:
    if not isinstance(records, Mapping):
        raise TypeError(f"records: given {type(records).__name__} with one forecast, expected a mapping of values")
    return records
