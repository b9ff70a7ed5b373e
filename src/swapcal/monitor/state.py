"""The state of a monitor: bets of every cell, groups, clock, history; saved and loaded."""

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
    addition,
    below,
    check,
    floats,
    inside,
    integers,
    is_distinct,
    is_number,
    is_text,
    keys,
    listed,
    optional,
    parted,
    real,
    whole,
)
from swapcal.archive import Settings as Manifest
from swapcal.arrays import Array, Flags, Integers
from swapcal.bounds import run_chance
from swapcal.kernels import wealth as kernel
from swapcal.kernels.wealth import (
    CHANGE_AT,
    CHANGE_PEAK,
    CUSUM,
    ENTRY,
    FIELDS,
    FORECAST,
    GAIN,
    LANES,
    LIFE_PEAK,
    LOG,
    MARKS,
    NOTES,
    RESIDUAL,
    ROWS,
    SQUARE,
    STAKES,
    START,
    TOTAL,
    VISITS,
    BetState,
    Terms,
    advance,
    advance_clusters,
    blank_bet_state,
    reset,
    write,
)
from swapcal.monitor.alarms import ROW_NUMBERS, read_clock, show
from swapcal.monitor.settings import GroupIndex, MonitorSettings, Placed, read_bins

# Evidence: the present wealth and sums of every cell.


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
    """Return ln Σ shares·exp(logs) over the last axis, without overflow; terms with share 0 are left out.

    Examples
    --------
    >>> float(log_mean(np.array([1000.0, 1000.0]), np.array([0.5, 0.5])))
    1000.0
    """
    used = np.broadcast_to(shares > 0, logs.shape)
    top = np.max(np.where(used, logs, -np.inf), axis=-1)
    total = np.sum(np.where(used, shares * np.exp(np.where(used, logs - top[..., None], 0.0)), 0.0), axis=-1)
    logarithms: Array = top + np.log(total)
    return logarithms


def segment(bets: Array, note: Array, shares: Array, side: int, clock: float) -> Array:
    """Return the marks of a cell's direction: the start that its best bet would choose in hindsight, and after."""
    best = max((lane for lane in range(side, LANES, 2) if shares[lane] > 0), key=lambda lane: float(bets[CUSUM, lane]))
    since = bets[[START, ROWS, RESIDUAL, SQUARE], best]
    return np.array([clock, *since, note[VISITS] - since[1]])


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
        dense = np.full((len(self.rows), groups, 2), np.nan)
        for i, figures in enumerate(self.figures):
            dense[i, : len(figures)] = figures
        return dense


# Runs of equal outcomes: runs too long for chance are nearly always an error in the data.

OUTCOME, LENGTH, PREDICTED, BEGAN, LASTED = range(5)
RUN = 5
LEAST_RUN = 20
"""Shorter runs hardly change any figure."""
MOST_RUNS = 32
"""Ended runs that are kept: those least likely under the forecasts."""
RUN_CHANCE = 1e-6
"""A run is reported if its probability under chance is below this."""


def equal_runs(p: Array, y: Array, clock: Array, current: Array) -> Array:
    """Return (runs, RUN): stretches of equal outcomes, the first of them going on from the current one if it can.

    Forecasts are added as multiples of 2⁻³⁰, exactly, so that sums do not depend on how rows were batched.
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(y) != 0) + 1])
    ends = np.append(starts[1:], len(y))
    predicted = np.add.reduceat(np.rint(p * 2.0**30), starts) * 2.0**-30
    runs = np.column_stack([y[starts], ends - starts, predicted, clock[starts], clock[ends - 1]])
    if current[LENGTH] > 0 and current[OUTCOME] == y[0]:
        runs[0, [LENGTH, PREDICTED]] += current[[LENGTH, PREDICTED]]
        runs[0, BEGAN] = current[BEGAN]
        return runs
    return np.concatenate([current[None], runs])


def is_unlikely(run: Array, ones: float, rows: float) -> bool:
    """Return whether a run of equal outcomes is unlikely by the forecasts and by the rate of all other rows."""
    outcome, length, predicted = (float(run[place]) for place in (OUTCOME, LENGTH, PREDICTED))
    if outcome not in (0.0, 1.0) or length < LEAST_RUN:
        return False
    rates = [predicted / length] + ([] if rows <= length else [(ones - outcome * length) / (rows - length)])
    likely = max(rate if outcome else 1.0 - rate for rate in rates)
    return float(run_chance(length, min(1.0, max(0.0, likely)), rows)) < RUN_CHANCE


# Bets: the state that rows change: the bets of every cell, the groups so far, the clock, the history and the log.

LN10 = float(np.log(10.0))

MOST_LOGGED = 4096
"""Ended alarms of cells that are kept; of more, the oldest are dropped, and counted."""


class Bets(Writable):
    """The state of a monitor. A cell is a range of forecasts of a group; cells of one group stand together."""

    def __init__(self, settings: MonitorSettings) -> None:
        self.settings = settings
        self.rows = 0
        self.clock_kind: str | None = None
        self.first_clock = self.last_clock = -np.inf
        self.shards = 1
        self.pooled_peak = 0.0
        learning: dict[str, list[float]] = {name: [] for name in settings.numbers}
        self.group_index = GroupIndex(settings.columns, settings.most, dict(settings.bins), learning)
        self.history = EvidenceHistory()
        self.log = np.zeros((0, ENTRY))
        self.dropped = 0
        self.clusters: set[int] = set()
        self.repeated = 0
        self.ones = 0.0
        self.runs = np.zeros((0, RUN))
        self.current = np.zeros(RUN)
        self.terms = settings.terms()
        self.bet_state = blank_bet_state(0)
        self.life_limits = np.zeros((0, settings.ranges.nodes))
        self._gain = np.zeros(LANES)
        self._ended = np.zeros((64 + 4 * len(settings.columns) * settings.ranges.leaves, ENTRY))

    def clock(self, time: Any, rows: int) -> tuple[Array, str]:
        """Return the clock of further rows and its kind. Raises ValueError if it does not continue the earlier one."""
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

    def enter(self, placed: Placed, p: Array, y: Array, weight: Array, clock: Array, kind: str) -> None:
        """Enter rows, in parts that end at entries of the history, so that results do not depend on the batches."""
        known = self._begin(placed, clock, kind)
        self._note_runs(p, y, clock)
        newest = np.maximum.accumulate(placed.members.max(axis=1))
        start = 0
        while start < len(p):
            stop = min(len(p), start + self.history.until_next(self.rows))
            part = slice(start, stop)
            self._play(placed.members[part], p[part], y[part], weight[part], clock[part])
            self.rows += stop - start
            self.last_clock = float(clock[stop - 1])
            if self.rows % self.history.stride == 0:
                self._record(self.rows, max(known, int(newest[stop - 1]) + 1))
            start = stop

    def enter_clusters(
        self, placed: Placed, p: Array, y: Array, weight: Array, clock: Array, kind: str, keys: list[int]
    ) -> None:
        """Enter rows by clusters: each new cluster bets once, with the mean of its rows; known clusters do not bet."""
        self._begin(placed, clock, kind)
        self._note_runs(p, y, clock)
        codes = {key: code for code, key in enumerate(dict.fromkeys(keys)) if key not in self.clusters}
        code = np.array([codes.get(key, -1) for key in keys], dtype=np.int64)
        last = np.full(len(keys), -1, dtype=np.int64)
        last[code[code >= 0]] = np.flatnonzero(code >= 0)
        rows = np.flatnonzero(code >= 0)
        rows = rows[np.argsort(last[code[rows]], kind="stable")]  # by the last row of each cluster
        ends = np.flatnonzero(np.append(np.diff(code[rows]) != 0, True)[: len(rows)]) + 1
        self._play_clusters(ends, placed.members[rows], p[rows], y[rows], weight[rows], clock[rows])
        self.clusters |= codes.keys()
        self.repeated += len(keys) - len(rows)
        passed = (self.rows + len(keys)) // self.history.stride * self.history.stride
        recorded, self.rows, self.last_clock = self.rows, self.rows + len(keys), float(clock[-1])
        if passed > recorded:
            self._record(passed, len(self.group_index.groups))

    def _note_runs(self, p: Array, y: Array, clock: Array) -> None:
        """Follow runs of equal outcomes, and keep the least likely that ended."""
        runs = equal_runs(p, y, clock, self.current)
        self.ones += float(y.sum())
        self.current = runs[-1]
        self.keep_runs(runs[:-1])

    def keep_runs(self, ended: Array) -> None:
        """Keep the least likely of the runs so far and of `ended`, in order."""
        long = ended[(ended[:, LENGTH] >= LEAST_RUN) & np.isin(ended[:, OUTCOME], (0.0, 1.0))]
        if len(long):
            every = np.concatenate([self.runs, long])
            rate = every[:, PREDICTED] / every[:, LENGTH]
            chance = np.maximum(np.where(every[:, OUTCOME] > 0, rate, 1.0 - rate), 1e-300)
            kept = np.argsort(every[:, LENGTH] * np.log(chance), kind="stable")[:MOST_RUNS]
            self.runs = every[np.sort(kept)]

    def unlikely_runs(self) -> list[Array]:
        """Return the runs of equal outcomes that are too long for chance, in order."""
        every = [*self.runs, self.current]
        return [run for run in every if is_unlikely(run, self.ones, float(self.rows))]

    def _begin(self, placed: Placed, clock: Array, kind: str) -> int:
        """Admit new groups and start the clock; return how many groups there were."""
        known = len(self.group_index.groups)
        self.group_index.learn(placed.values)
        if placed.newcomers:
            self.group_index.admit(placed.newcomers)
            self.make_room()
        if self.rows == 0:
            self.first_clock = float(clock[0])
        self.clock_kind = kind
        return known

    def _play(self, members: Integers, *rows: Array) -> None:
        """Bet on rows, emptying the log of ended alarms when it is full."""
        done = 0
        while done < len(members):
            p, y, weight, clock = (column[done:] for column in rows)
            cells = members[done:], self.life_limits
            played, ended = advance(self.bet_state, self.terms, *cells, p, y, weight, clock, self._gain, self._ended)
            self.note_ended(self._ended[:ended])
            done += played

    def _play_clusters(self, ends: Integers, members: Integers, *rows: Array) -> None:
        most = int(np.diff(ends, prepend=0).max(initial=1)) * members.shape[1] * self.settings.ranges.depths
        place = np.full(len(self.bet_state.notes), -1, dtype=np.int64)
        scratch = place, np.zeros(most, dtype=np.int64), np.zeros((most, LANES + 4))
        room, done = np.zeros((4 * most, ENTRY)), 0
        while done < len(ends):
            first = int(ends[done - 1]) if done else 0
            p, y, weight, clock = (column[first:] for column in rows)
            cells = members[first:], self.life_limits
            played, ended = advance_clusters(
                self.bet_state, self.terms, *cells, p, y, weight, clock, ends[done:] - first, self._gain, room, *scratch
            )
            self.note_ended(room[:ended])
            done += played

    def note_ended(self, entries: Array) -> None:
        """Append alarms that ended to the log, in order of their start."""
        if len(entries):
            log = np.concatenate([self.log, entries])
            self.dropped += max(0, len(log) - MOST_LOGGED)
            self.log = log[-MOST_LOGGED:]

    def open_alarms(self) -> Flags:
        """Return (cells, 2): whether a direction's change alarm is raised."""
        raised = self.live_bet_state().notes[:, CHANGE_AT : CHANGE_AT + 2]
        return np.asarray(~np.isnan(raised))

    def end(self, which: Flags) -> None:
        """End some of the raised alarms: write them to the log and restart their detectors."""
        entries = np.zeros((int(which.sum()), ENTRY))
        for entry, (cell, side) in zip(entries, np.argwhere(which).tolist(), strict=True):
            write(self.bet_state, cell, side, self.last_clock, entry)
            reset(self.bet_state, cell, side)
        self.note_ended(entries)

    def logged(self) -> Array:
        """Return the log with the alarms that are still raised, which end at infinity."""
        state = self.live_bet_state()
        cell, side = np.nonzero(self.open_alarms())
        raised, peak = state.notes[cell, CHANGE_AT + side], state.notes[cell, CHANGE_PEAK + side]
        entries = np.column_stack([cell, side, raised, peak, np.full(len(cell), np.inf), state.marks[cell, side]])
        return np.concatenate([self.log, entries])

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
        return BetState(*(array[:cells] for array in self.bet_state))

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

    def _record(self, rows: int, groups: int) -> None:
        """Append the evidence of the first `groups` groups to the history."""
        figures, logs = self.known(groups)
        self.history.append(rows, self.last_clock, figures)
        self.pooled_peak = max(self.pooled_peak, self.pooled(logs))


# The file of a monitor: its contents, saving and loading.

CUT = listed(Rule("[column, edges]", lambda v: LIST.holds(v) and len(v) == 2))
MONITOR = {
    "columns": listed(TEXTS, 1),
    "tolerance": real(0),
    "run_length": real(0, above=True),
    "alpha": real(0, above=True),
    "edges": listed(real(), 2),
    "stakes": listed(real(), 1, STAKES),
    "most": whole(0, archive.MOST_COUNT),
    "max_weight": addition(real(1)),
    "clusters": addition(TEXT),
    "bins": addition(CUT),
    "numbers": addition(TEXTS),
}
RULES = {
    "settings": parted(MONITOR),
    "rows": whole(0, archive.MOST_COUNT),
    "clock_kind": optional(TEXT),
    "shards": whole(1),
    "stride": whole(1, 1 << 48),
    "groups": LIST,
    "dropped": addition(whole(0, archive.MOST_COUNT)),
    "repeated": addition(whole(0, archive.MOST_COUNT)),
    "learned": addition(CUT),
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
    logged = {
        "marks": floats(cells, 2, MARKS),
        "log": floats(
            "alarms", ENTRY, least=[0, 0, *[-np.inf] * (ENTRY - 2)], most=[cells - 1, 1, *[np.inf] * (ENTRY - 2)]
        ),
    }
    runs = {"runs": floats("runs", RUN), "current": floats(RUN), "ones": floats(1)}
    learning = floats("learning", 2, finite=False, least=[0, -np.inf], most=[max(0, len(settings.numbers) - 1), np.inf])
    return {
        **(runs if "runs" in shapes else {}),
        **(logged if "log" in shapes else {}),  # files of versions before the log stay readable
        **({"clusters": keys("clusters", rises=True)} if settings.clusters else {}),
        **({"learning": learning} if settings.numbers else {}),
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

LABEL = Rule("a text, a number, true or false", lambda v: isinstance(v, bool) or is_text(v) or is_number(v))
CLASS_RULES = {"classes": listed(LABEL, 2), "monitors": listed(parted(RULES), 2)}


def class_fields(manifest: Manifest, shapes: Shapes) -> dict[str, Field]:
    """Return the arrays of the monitors of several classes, each under the monitor's position."""
    if len(manifest["monitors"]) != len(manifest["classes"]) or not is_distinct(manifest["classes"]):
        raise archive.ArchiveError("classes: given other or equal labels, expected a different one for each monitor")
    arrays: dict[str, Field] = {}
    for place, one in enumerate(manifest["monitors"]):
        arrays |= below(str(place), fields(one, inside(str(place), shapes)))
    return arrays


CLASS_FILE = Kind("class monitors", 1, CLASS_RULES, class_fields)


def state_of(bets: Bets) -> archive.State:
    """Return a monitor as arrays and a manifest."""
    bet_state, history, groups = bets.live_bet_state(), bets.history, bets.group_index.groups
    arrays = {
        **bet_state._asdict(),
        "log": bets.log,
        "runs": bets.runs,
        "current": bets.current,
        "ones": np.array([bets.ones]),
        **({"clusters": np.array(sorted(bets.clusters), dtype=np.uint64)} if bets.settings.clusters else {}),
        **({"learning": _learning(bets)} if bets.settings.numbers else {}),
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
        "dropped": bets.dropped,
        "repeated": bets.repeated,
        **({"learned": _learned(bets)} if bets.settings.numbers else {}),
    }
    return archive.State(arrays, settings)


def _learning(bets: Bets) -> Array:
    """Return (values, 2): the numbers that edges are being learned from, each after the place of its column."""
    names, learning = bets.settings.numbers, bets.group_index.learning
    pairs = [(names.index(name), value) for name, values in learning.items() for value in values]
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)


def _learned(bets: Bets) -> list[list[Any]]:
    bins = bets.group_index.bins
    return [[name, list(bins[name])] for name in bets.settings.numbers if name in bins]


def load(path: "str | os.PathLike[str]") -> Bets:
    """Read a monitor's state, checking that its parts fit together."""
    return archive.load(path, FILE, bets_of)


def bets_of(state: archive.State) -> Bets:
    """Return the bets from the result of `state_of`. Raises ArchiveError if its parts are inconsistent."""
    return archive.built(state, _bets)


def _bets(state: archive.State) -> Bets:
    arrays, manifest = state
    bets = Bets(MonitorSettings.from_dict(manifest["settings"]))
    index, names = bets.group_index, bets.settings.numbers
    for name, edges in read_bins(manifest.get("learned", [])):
        del index.learning[name]
        index.bins[name] = edges
    for place, value in arrays.get("learning", ()):
        index.learning[names[int(place)]].append(float(value))
    for (position, category), share in zip(manifest["groups"], arrays["shares"], strict=True):
        bets.group_index.admit([(position, tuple(category))], float(share))
    bets.rows, bets.clock_kind, bets.shards = manifest["rows"], manifest["clock_kind"], manifest["shards"]
    bets.first_clock, bets.last_clock, bets.pooled_peak = map(float, arrays["clock"])
    cells = len(arrays["bets"])
    bets.make_room()
    bets.bet_state.bets[:cells] = arrays["bets"]
    bets.bet_state.notes[:cells] = arrays["notes"]
    if "log" in arrays:
        bets.bet_state.marks[:cells], bets.log = arrays["marks"], arrays["log"]
    else:
        mark(bets, bets.open_alarms())
    if "runs" in arrays:
        bets.runs, bets.current, bets.ones = arrays["runs"], arrays["current"], float(arrays["ones"][0])
    elif cells:
        bets.ones = float(arrays["notes"][0, [FORECAST, TOTAL]].sum())
    bets.dropped, bets.repeated = manifest.get("dropped", 0), manifest.get("repeated", 0)
    bets.clusters = set(map(int, arrays.get("clusters", ())))
    bets.history = _history(arrays, manifest["stride"])
    return bets


def mark(bets: Bets, which: Flags) -> None:
    """Set the marks of some alarms to the present counts."""
    state = bets.bet_state
    for cell, side in np.argwhere(which).tolist():
        state.marks[cell, side] = segment(state.bets[cell], state.notes[cell], bets.terms.shares, side, bets.last_clock)


def _history(arrays: Arrays, stride: int) -> EvidenceHistory:
    known = arrays["history_known"].tolist()
    figures = [table[:count] for table, count in zip(arrays["history_figures"], known, strict=True)]
    rows = [int(row) for row in arrays["history_rows"]]
    return EvidenceHistory(stride, rows, arrays["history_clock"].tolist(), figures)
