"""Bets: all that rows add to: the bets of every cell, the groups met so far, the clock and the history."""

from typing import Any

import numpy as np

from swapcal.arrays import Array
from swapcal.kernels.play import LANES
from swapcal.kernels.wealth import LIFE_PEAK, Book, advance, blank_book
from swapcal.monitor import evidence
from swapcal.monitor.clock import ROWS, read_clock, show
from swapcal.monitor.history import History
from swapcal.monitor.roster import Placed, Roster
from swapcal.monitor.settings import MonitorSettings
from swapcal.owner import Owner

LN10 = float(np.log(10.0))


class Bets(Owner):
    """The state of a monitor. A cell is a range of forecasts of a group; cells of one group stand together."""

    def __init__(self, settings: MonitorSettings) -> None:
        self.settings = settings
        self.rows = 0
        self.clock_kind: str | None = None
        self.first_clock = self.last_clock = -np.inf
        self.shards = 1
        self.pooled_peak = 0.0
        self.roster = Roster(settings.columns, settings.most)
        self.history = History()
        self.terms = settings.terms()
        self.book = blank_book(0)
        self.life_limits = np.zeros((0, settings.ranges.nodes))
        self._gain = np.zeros(LANES)

    def clock(self, time: Any, rows: int) -> tuple[Array, str]:
        """Return the clock of further rows and its kind, which must go on from the rows before."""
        if time is None:
            clock, kind = np.arange(self.rows + 1.0, self.rows + rows + 1.0), ROWS
        else:
            clock, kind = read_clock(time, rows)
        if self.clock_kind not in (None, kind):
            raise ValueError(f"time: given {kind}, expected {self.clock_kind} as before")
        if rows and clock[0] < self.last_clock:
            given, before = show(float(clock[0]), kind), show(self.last_clock, kind)
            raise ValueError(f"time: given {given} in row 1 after {before}, expected rows in order of time")
        return clock, kind

    def enter(self, placed: Placed, p: Array, y: Array, clock: Array, kind: str) -> None:
        """Play all rows, pausing where the history takes an entry: nothing depends on how rows are batched."""
        known = len(self.roster.groups)
        if placed.newcomers:
            self.roster.admit(placed.newcomers)
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
            advance(self.book, self.terms, *rows, self._gain)
            self.rows += stop - start
            self.last_clock = float(clock[stop - 1])
            if self.rows % self.history.stride == 0:
                self._record(max(known, int(newest[stop - 1]) + 1))
            start = stop

    def make_room(self) -> None:
        """Give every group on the roster its cells and its lifetime limits."""
        have, need = len(self.life_limits), len(self.roster.groups)
        if have < need:
            room, nodes = max(need, 2 * have), self.settings.ranges.nodes
            more = blank_book((room - have) * nodes)
            self.book = Book(*(np.concatenate(pair) for pair in zip(self.book, more, strict=True)))
            self.life_limits = np.full((room, nodes), np.inf)
        self.life_limits[:need] = self.settings.log_limit() - self.log_weights()

    def live_book(self, groups: int | None = None) -> Book:
        """Return the cells of the first groups, of all unless told."""
        cells = (len(self.roster.groups) if groups is None else groups) * self.settings.ranges.nodes
        return Book(self.book.bets[:cells], self.book.notes[:cells])

    def limits(self) -> Array:
        """Return (cells, 1): logarithm of what a cell's lifetime wealth must reach for an alarm."""
        return self.life_limits[: len(self.roster.groups)].reshape(-1, 1)

    def log_wealth(self) -> Array:
        """Return (cells, 2): logarithm of each direction's wealth."""
        return evidence.log_wealth(self.live_book(), self.terms)

    def beyond_limit(self) -> Array:
        """Return (cells, 2): by how much a cell's largest lifetime wealth exceeded its limit, as a logarithm."""
        peaks = self.live_book().notes[:, LIFE_PEAK : LIFE_PEAK + 2]
        return np.asarray(np.maximum(peaks, self.log_wealth()) - self.limits(), dtype=np.float64)

    def log_weights(self) -> Array:
        """Return (groups, nodes): logarithm of a cell's weight in the lifetime test, for one direction."""
        shares = np.array([group.share for group in self.roster.groups], dtype=np.float64)
        weights = np.log(shares / self.shards)[:, None] + self.settings.log_budget()
        return np.asarray(weights, dtype=np.float64)

    def pooled(self, log_wealth: Array) -> float:
        """Return the logarithm of the weighted wealth of the first groups' cells, all that are yet to come having 1.

        After a sum of monitors, what a group's smaller budget leaves over may depend on labels: it counts for nothing.
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
        sums, logs = evidence.survey(self.live_book(groups), self.terms)
        shares = np.repeat(0.5 * self.settings.ranges.shares(), 2)
        now = sums.reshape(groups, len(shares)).max(axis=1) * self.settings.change_weight
        own = evidence.log_mean(logs.reshape(groups, len(shares)), shares)
        return np.stack([np.log10(np.maximum(now, 1e-300)), own / LN10], axis=1), logs

    def _record(self, groups: int) -> None:
        """Enter what the first `groups` groups know now into the history."""
        figures, logs = self.known(groups)
        self.history.append(self.rows, self.last_clock, figures)
        self.pooled_peak = max(self.pooled_peak, self.pooled(logs))
