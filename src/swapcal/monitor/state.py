"""All that a monitor's rows add to: bets of every cell, groups, clock, history; saved and loaded."""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from swapcal import archive
from swapcal._locking import Writable
from swapcal.archive import (
    LIST,
    TEXT,
    TEXTS,
    Arrays,
    Field,
    Kind,
    Rule,
    Shapes,
    check,
    floats,
    integers,
    is_distinct,
    listed,
    optional,
    parted,
    real,
    whole,
)
from swapcal.archive import Settings as Manifest
from swapcal.arrays import Array
from swapcal.kernels import wealth as kernel
from swapcal.kernels.wealth import (
    FIELDS,
    GAIN,
    LANES,
    LIFE_PEAK,
    LOG,
    NOTES,
    STAKES,
    BetState,
    Terms,
    advance,
    blank_bet_state,
)
from swapcal.monitor.alarms import ROW_NUMBERS, read_clock, show
from swapcal.monitor.settings import GroupIndex, MonitorSettings, Placed

# Evidence: the wealth and sums of every cell now, read without changing them.


def lane_log_wealth(bet_state: BetState) -> Array:
    """Return (cells, LANES): logarithm of every bet's wealth since its first row."""
    return np.asarray(bet_state.bets[:, LOG] + np.log(bet_state.bets[:, GAIN]), dtype=np.float64)


def log_wealth(bet_state: BetState, terms: Terms) -> Array:
    """Return (cells, 2): logarithm of each direction's wealth, the mean over its stakes."""
    return survey(bet_state, terms)[1]


def sums(bet_state: BetState, terms: Terms) -> Array:
    """Return (cells, 2): each direction's Shiryaev–Roberts sum, the mean over its stakes."""
    return survey(bet_state, terms)[0]


def survey(bet_state: BetState, terms: Terms) -> tuple[Array, Array]:
    """Return the sums and the logarithms of wealth of both directions, each (cells, 2)."""
    sums_and_logs = np.zeros((len(bet_state.notes), 2)), np.zeros((len(bet_state.notes), 2))
    kernel.survey(bet_state, terms.shares, *sums_and_logs)
    return sums_and_logs


def log_mean(logs: Array, shares: Array) -> Array:
    """Return ln Σ shares·exp(logs) over the last axis, without overflow; shares of 0 count for nothing.

    Examples
    --------
    >>> float(log_mean(np.array([1000.0, 1000.0]), np.array([0.5, 0.5])))
    1000.0
    """
    used = np.broadcast_to(shares > 0, logs.shape)
    top = np.max(np.where(used, logs, -np.inf), axis=-1)
    total = np.sum(np.where(used, shares * np.exp(np.where(used, logs - top[..., None], 0.0)), 0.0), axis=-1)
    found: Array = top + np.log(total)
    return found


# History: evidence over time in bounded memory; when full, every other entry is dropped and the stride doubles.

ENTRIES = 64
FIRST_STRIDE = 512


@dataclass
class EvidenceHistory:
    """Entries at multiples of `stride` rows: the clock, and two figures per group, NaN before it appeared."""

    stride: int = FIRST_STRIDE
    rows: list[int] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    figures: list[Array] = field(default_factory=list)
    """Per entry (groups, 2): log10 of the change detector's evidence and of the lifetime wealth."""

    def until_next(self, rows: int) -> int:
        """Rows from `rows` to the next entry."""
        return self.stride - rows % self.stride

    def append(self, rows: int, clock: float, figures: Array) -> None:
        """Add an entry, thinning out if there are too many."""
        self.rows.append(rows)
        self.clock.append(clock)
        self.figures.append(figures)
        if len(self.rows) == ENTRIES:
            self.stride *= 2
            kept = [i for i, row in enumerate(self.rows) if row % self.stride == 0]
            self.rows = [self.rows[i] for i in kept]
            self.clock = [self.clock[i] for i in kept]
            self.figures = [self.figures[i] for i in kept]

    def table(self, groups: int) -> Array:
        """Return (entries, groups, 2)."""
        found = np.full((len(self.rows), groups, 2), np.nan)
        for i, figures in enumerate(self.figures):
            found[i, : len(figures)] = figures
        return found


# Bets: the state that rows change: the bets of every cell, the groups so far, the clock and the history.

LN10 = float(np.log(10.0))


class Bets(Writable):
    """The state of a monitor. A cell is a range of forecasts of a group; cells of one group stand together."""

    def __init__(self, settings: MonitorSettings) -> None:
        self.settings = settings
        self.rows = 0
        self.clock_kind: str | None = None
        self.first_clock = self.last_clock = -np.inf
        self.shards = 1
        self.pooled_peak = 0.0
        self.group_index = GroupIndex(settings.columns, settings.most)
        self.history = EvidenceHistory()
        self.terms = settings.terms()
        self.bet_state = blank_bet_state(0)
        self.life_limits = np.zeros((0, settings.ranges.nodes))
        self._gain = np.zeros(LANES)

    def clock(self, time: Any, rows: int) -> tuple[Array, str]:
        """Return the clock of further rows and its kind, which must go on from the rows before."""
        if time is None:
            clock, kind = np.arange(self.rows + 1.0, self.rows + rows + 1.0), ROW_NUMBERS
        else:
            clock, kind = read_clock(time, rows)
        if self.clock_kind not in (None, kind):
            raise ValueError(f"time: given {kind}, expected {self.clock_kind} as before")
        if rows and clock[0] < self.last_clock:
            given, before = show(float(clock[0]), kind), show(self.last_clock, kind)
            raise ValueError(f"time: given {given} in row 1 after {before}, expected rows in order of time")
        return clock, kind

    def enter(self, placed: Placed, p: Array, y: Array, clock: Array, kind: str) -> None:
        """Enter all rows, in parts that end where the history gets an entry: results do not depend on the batches."""
        known = len(self.group_index.groups)
        if placed.newcomers:
            self.group_index.admit(placed.newcomers)
            self.make_room()
        if self.rows == 0:
            self.first_clock = float(clock[0])
        self.clock_kind = kind
        newest = np.maximum.accumulate(placed.members.max(axis=1))
        start = 0
        while start < len(p):
            stop = min(len(p), start + self.history.until_next(self.rows))
            part = slice(start, stop)
            rows = placed.members[part], self.life_limits, p[part], y[part], clock[part]
            advance(self.bet_state, self.terms, *rows, self._gain)
            self.rows += stop - start
            self.last_clock = float(clock[stop - 1])
            if self.rows % self.history.stride == 0:
                self._record(max(known, int(newest[stop - 1]) + 1))
            start = stop

    def make_room(self) -> None:
        """Allocate the cells and lifetime limits of every group."""
        have, need = len(self.life_limits), len(self.group_index.groups)
        if have < need:
            room, nodes = max(need, 2 * have), self.settings.ranges.nodes
            more = blank_bet_state((room - have) * nodes)
            self.bet_state = BetState(*(np.concatenate(pair) for pair in zip(self.bet_state, more, strict=True)))
            self.life_limits = np.full((room, nodes), np.inf)
        self.life_limits[:need] = self.settings.log_limit() - self.log_weights()

    def live_bet_state(self, groups: int | None = None) -> BetState:
        """Return the cells of the first `groups` groups; by default of all."""
        cells = (len(self.group_index.groups) if groups is None else groups) * self.settings.ranges.nodes
        return BetState(self.bet_state.bets[:cells], self.bet_state.notes[:cells])

    def limits(self) -> Array:
        """Return (cells, 1): logarithm of the limit of a cell's lifetime wealth."""
        return self.life_limits[: len(self.group_index.groups)].reshape(-1, 1)

    def log_wealth(self) -> Array:
        """Return (cells, 2): logarithm of each direction's wealth."""
        return log_wealth(self.live_bet_state(), self.terms)

    def beyond_limit(self) -> Array:
        """Return (cells, 2): by how much a cell's largest lifetime wealth exceeded its limit, as a logarithm."""
        peaks = self.live_bet_state().notes[:, LIFE_PEAK : LIFE_PEAK + 2]
        return np.asarray(np.maximum(peaks, self.log_wealth()) - self.limits(), dtype=np.float64)

    def log_weights(self) -> Array:
        """Return (groups, nodes): logarithm of a cell's weight in the lifetime test, for one direction."""
        shares = np.array([group.share for group in self.group_index.groups], dtype=np.float64)
        weights = np.log(shares / self.shards)[:, None] + self.settings.log_budget()
        return np.asarray(weights, dtype=np.float64)

    def pooled(self, log_wealth: Array) -> float:
        """Return the logarithm of the weighted wealth of the first groups' cells; future groups have wealth 1.

        After a sum of monitors, the unused part of a group's smaller budget may depend on labels: it does not count.
        """
        if not len(log_wealth):
            return 0.0
        weights = np.repeat(self.log_weights().ravel()[: len(log_wealth)], 2)
        logs = log_wealth.ravel() + weights
        unused = max(0.0, 1.0 - float(np.exp(weights).sum())) if self.shards == 1 else 0.0
        terms = np.append(logs, np.log(unused) if unused > 0 else -np.inf)
        top = float(terms.max())
        return top + float(np.log(np.exp(terms - top).sum()))

    def known(self, groups: int) -> tuple[Array, Array]:
        """Return log10 of both kinds of evidence against each of the first groups, and each cell's log wealth."""
        sums, logs = survey(self.live_bet_state(groups), self.terms)
        shares = np.repeat(0.5 * self.settings.ranges.shares(), 2)
        now = sums.reshape(groups, len(shares)).max(axis=1) * self.settings.change_weight
        own = log_mean(logs.reshape(groups, len(shares)), shares)
        return np.stack([np.log10(np.maximum(now, 1e-300)), own / LN10], axis=1), logs

    def _record(self, groups: int) -> None:
        """Append the evidence of the first `groups` groups to the history."""
        figures, logs = self.known(groups)
        self.history.append(self.rows, self.last_clock, figures)
        self.pooled_peak = max(self.pooled_peak, self.pooled(logs))


# The file of a monitor: its contents, saving and loading.

MONITOR = {
    "columns": listed(TEXTS, 1),
    "tolerance": real(0),
    "run_length": real(0, above=True),
    "alpha": real(0, above=True),
    "edges": listed(real(), 2),
    "stakes": listed(real(), 1, STAKES),
    "most": whole(0, archive.MOST_COUNT),
}
RULES = {
    "settings": parted(MONITOR),
    "rows": whole(0, archive.MOST_COUNT),
    "clock_kind": optional(TEXT),
    "shards": whole(1),
    "stride": whole(1, 1 << 48),
    "groups": LIST,
}


def fields(manifest: Manifest, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of a monitor: a group has a cell for each range, and a row's groups are among those listed."""
    settings = MonitorSettings.from_dict(manifest["settings"])
    place, groups = whole(0, len(settings.columns) - 1), len(manifest["groups"])
    group = Rule("[column, texts]", lambda v: LIST.holds(v) and len(v) == 2 and place.holds(v[0]) and TEXTS.holds(v[1]))
    check({"groups": listed(group)}, {"groups": manifest["groups"]})
    if not is_distinct([(column, *category) for column, category in manifest["groups"]]):
        raise archive.ArchiveError("groups: given a category twice, expected each once")
    cells, entries = groups * settings.ranges.nodes, min(shapes["history_rows"][0], ENTRIES)
    return {
        "bets": floats(cells, FIELDS, LANES, finite=False),
        "notes": floats(cells, NOTES, finite=False),
        "shares": floats(groups),
        "clock": floats(3, finite=False),
        "history_rows": integers(entries),
        "history_clock": floats(entries, finite=False),
        "history_figures": floats(entries, groups, 2, finite=False),
        "history_known": integers(entries, least=0, most=groups),
    }


FILE = Kind("monitor", 1, RULES, fields)


def state_of(bets: Bets) -> archive.State:
    """Return a monitor as arrays and a manifest."""
    bet_state, history, groups = bets.live_bet_state(), bets.history, bets.group_index.groups
    arrays = {
        "bets": bet_state.bets,
        "notes": bet_state.notes,
        "shares": np.array([group.share for group in groups], dtype=np.float64),
        "clock": np.array([bets.first_clock, bets.last_clock, bets.pooled_peak]),
        "history_rows": np.array(history.rows, dtype=np.int64),
        "history_clock": np.array(history.clock, dtype=np.float64),
        "history_figures": history.table(len(groups)),
        "history_known": np.array([len(figures) for figures in history.figures], dtype=np.int64),
    }
    settings = {
        "settings": bets.settings.to_dict(),
        "rows": bets.rows,
        "clock_kind": bets.clock_kind,
        "shards": bets.shards,
        "stride": history.stride,
        "groups": [[bets.settings.columns.index(group.column), list(group.category)] for group in groups],
    }
    return archive.State(arrays, settings)


def load(path: "str | os.PathLike[str]") -> Bets:
    """Read a monitor's state, checking that its parts fit together."""
    return archive.load(path, FILE, bets_of)


def bets_of(state: archive.State) -> Bets:
    """Return what `state_of` described; refuse parts that do not fit together."""
    return archive.built(state, _bets)


def _bets(state: archive.State) -> Bets:
    arrays, plain = state
    bets = Bets(MonitorSettings.from_dict(plain["settings"]))
    for (position, category), share in zip(plain["groups"], arrays["shares"], strict=True):
        bets.group_index.admit([(position, tuple(category))], float(share))
    bets.rows, bets.clock_kind, bets.shards = plain["rows"], plain["clock_kind"], plain["shards"]
    bets.first_clock, bets.last_clock, bets.pooled_peak = map(float, arrays["clock"])
    cells = len(arrays["bets"])
    bets.make_room()
    bets.bet_state.bets[:cells] = arrays["bets"]
    bets.bet_state.notes[:cells] = arrays["notes"]
    bets.history = _history(arrays, plain["stride"])
    return bets


def _history(arrays: Arrays, stride: int) -> EvidenceHistory:
    known = arrays["history_known"].tolist()
    figures = [table[:count] for table, count in zip(arrays["history_figures"], known, strict=True)]
    rows = [int(row) for row in arrays["history_rows"]]
    return EvidenceHistory(stride, rows, arrays["history_clock"].tolist(), figures)
