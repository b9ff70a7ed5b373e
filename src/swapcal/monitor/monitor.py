"""Monitor: wealth per group, alarms that stay valid however often you look."""

import os
from collections.abc import Mapping, Sequence, Set
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from swapcal import _validate, archive
from swapcal._display import counted, display, named
from swapcal.archive import State, written
from swapcal.arrays import Array
from swapcal.bounds import e_bh_limit
from swapcal.kernels.wealth import (
    AT,
    CELL,
    CHANGE_AT,
    CHANGE_PEAK,
    CUSUM,
    ENDED,
    FORECAST,
    LIFE_AT,
    PEAK,
    SIDE,
    SUM,
    VISITS,
)
from swapcal.monitor import merge
from swapcal.monitor import state as file
from swapcal.monitor.alarms import (
    CHANGE,
    HIGH,
    LIFETIME,
    LOW,
    ROW_NUMBERS,
    Alarm,
    Episode,
    Lifetime,
    Size,
    episodes,
    sentence,
    show,
    since_change,
    since_first,
)
from swapcal.monitor.settings import DEFAULT_STAKES, LEARNED, MonitorSettings, cluster_keys, read_settings
from swapcal.monitor.state import LN10, Bets
from swapcal.tables.frame import columns_from, made_frame

MOST_SHOWN = 5  # alarms in a notebook
LEAST_AROUND = 50.0  # least rows of a range in `around`


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
    was known. Proofs are in `swapcal.bounds.mixtures`.

    Outcomes of a chosen part only: if a row's outcome is obtained with a known probability π, which may depend on
    everything but the outcome, enter the rows that have one with the weight 1/π, and give `max_weight`, the largest.

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
    max_weight : largest weight that a row may have: one over the least probability of obtaining an outcome
    clusters : column of the records whose rows belong together (patient, household, day). Each cluster bets once: rows
        of a cluster that come in one call of `add` are one bet, with the mean of their gains in each group; later rows
        of the same cluster are counted, but do not bet. Clusters must be independent of each other
    bins : columns of numbers that are watched in ranges, and the edges between these, such as ``{"age": [30, 60]}``.
        Choose the edges before the first row, for instance as quantiles of earlier rows
    numbers : columns of numbers that are watched in eight ranges, whose edges are learned from the first 1,000 numbers,
        infinite ones included; until then `learning` counts them, and sentences say so. Rows up to there are counted
        and bet on in all other groups, but not in these ranges, so that no bet depends on a later row. Monitors that
        learned different edges are not added: give parts ``bins=monitor.edges``

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
        max_weight: float = 1.0,
        clusters: str | None = None,
        bins: "Mapping[str, Sequence[float]] | None" = None,
        numbers: Sequence[str] = (),
    ) -> None:
        limits = tolerance, run_length, alpha, level_ranges, stakes, most, max_weight
        self._bets = Bets(read_settings(groups, products, *limits, clusters, bins or {}, numbers))

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

    @property
    def edges(self) -> dict[str, tuple[float, ...]]:
        """Edges of every column's ranges, given or learned; without those that are still being learned.

        Examples
        --------
        >>> monitor = Monitor(numbers=["age"]).add({"age": np.arange(1000) % 80}, np.full(1000, 0.5), np.zeros(1000))
        >>> monitor.edges
        {'age': (9.0, 19.0, 28.0, 38.0, 48.0, 59.0, 69.0)}
        """
        return dict(self._bets.group_index.bins)

    @property
    def learning(self) -> dict[str, int]:
        """How many numbers were learned from so far, of the columns whose ranges are still being learned.

        Examples
        --------
        >>> Monitor(numbers=["age"]).add({"age": [31, None]}, [0.5, 0.5], [0, 1]).learning
        {'age': 1}
        """
        return {name: len(values) for name, values in self._bets.group_index.learning.items()}

    # ------------------------------------------------------------------ rows in

    def add(
        self,
        records: Any,
        p: "ArrayLike | float",
        y: "ArrayLike | float",
        time: Any = None,
        weights: "ArrayLike | float | None" = None,
    ) -> "Monitor":
        """Enter rows in order of maturity; refused input changes nothing.

        Parameters
        ----------
        records : mapping of columns, a pandas, polars or arrow table, or a list of mappings of values; for one row, one
            such mapping
        p, y : mean forecasts and outcomes in [0, 1], as arrays, or as numbers for one row
        time : of every row, numbers or dates that never decrease; row numbers if it is never given
        weights : of every row, one over the probability with which its outcome was obtained: from 1 to `max_weight`.
            Not for other purposes: a bet is one row, and the second bet on a row could depend on its outcome
        """
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
        weight = self._weights(weights, len(forecasts))
        if self.settings.clusters is not None:
            keys = cluster_keys(records, self.settings.clusters, len(forecasts))
            if len(forecasts):
                self._bets.enter_clusters(placed, forecasts, outcomes, weight, clock, kind, keys)
        elif len(forecasts):
            self._bets.enter(placed, forecasts, outcomes, weight, clock, kind)
        return self

    def _weights(self, weights: Any, rows: int) -> Array:
        if weights is None:
            return np.ones(rows)
        given, most = np.atleast_1d(np.asarray(weights, dtype=np.float64)), self.settings.max_weight
        if given.shape != (rows,):
            raise ValueError(f"weights: given shape {given.shape}, expected ({rows},), one per row")
        bad = np.flatnonzero(~((given >= 1) & (given <= most)))
        if bad.size:
            raise ValueError(
                f"weights: given {given[bad[0]]:g} in row {bad[0] + 1}, expected one over the probability of obtaining "
                f"the outcome, from 1 to max_weight = {most:g}"
            )
        return given

    @property
    def clock_kind(self) -> str | None:
        """Kind of the clock: "rows", "numbers" or "dates"; None before the first row."""
        return self._bets.clock_kind

    # ------------------------------------------------------------------ results

    def alarms(self) -> list[Alarm]:
        """Return the alarms that are raised now, one per group, its strongest: change alarms, then lifetime alarms."""
        nodes, strongest = self.settings.ranges.nodes, dict[int, Episode]()
        for episode in self._episodes():
            if np.isinf(episode.ended):
                strongest.setdefault(int(episode.strongest[CELL]) // nodes, episode)
        weights = self._bets.log_weights()
        changes = [self._change(episode, weights) for episode in strongest.values()]
        return changes + self._lifetimes(strongest.keys())

    def log(self) -> list[Alarm]:
        """Return every alarm since the first row, in order of `raised`; those that ended have a time in `ended`.

        A group has one change alarm per direction and stretch of time, which names the range of forecasts with the
        strongest evidence. Groups that only the lifetime test lists have that alarm, which never ends. Of more than
        4,096 ended alarms, of all ranges, the oldest are dropped.

        Examples
        --------
        >>> p, y = np.full(1600, 0.5), np.repeat([1, 0, 1, 0], 400) * np.tile([0, 1], 800)
        >>> monitor = Monitor(level_ranges=False).add({}, p, y)
        >>> [(alarm.direction, alarm.ended is None) for alarm in monitor.log()]
        [('too high', False), ('too high', True)]
        """
        weights, logged = self._bets.log_weights(), self._episodes()
        listed = {int(episode.strongest[CELL]) // self.settings.ranges.nodes for episode in logged}
        alarms = [self._change(episode, weights) for episode in logged] + self._lifetimes(listed)
        return sorted(alarms, key=lambda alarm: alarm.raised)

    def _episodes(self) -> list[Episode]:
        return episodes(self._bets.logged(), self.settings.ranges.nodes)

    def _change(self, episode: Episode, weights: Array) -> Alarm:
        entry = episode.strongest
        marks, (group, node) = entry[ENDED + 1 :], divmod(int(entry[CELL]), self.settings.ranges.nodes)
        alpha = self.settings.alpha * float(np.exp(weights[group, node]))
        size = since_change(marks, alpha, self.settings.max_weight)
        evidence = float(entry[PEAK]) * self.settings.change_weight
        ended = None if np.isinf(episode.ended) else episode.ended
        return self._alarm(
            CHANGE, group, node, int(entry[SIDE]), size, episode.raised, evidence, float(marks[AT]), ended
        )

    def _lifetimes(self, but: Set[int]) -> list[Alarm]:
        """Return the lifetime alarms, one per group but some, the strongest first."""
        life = self._bets.beyond_limit().reshape(-1, self.settings.ranges.nodes, 2)
        weights, alarms = self._bets.log_weights(), []
        for g in [g for g in np.flatnonzero(life.max((1, 2), initial=-1) >= 0).tolist() if g not in but]:
            node, side = (int(i) for i in np.unravel_index(int(np.argmax(life[g])), life[g].shape))
            note = self._bets.bet_state.notes[g * self.settings.ranges.nodes + node]
            alpha = self.settings.alpha * float(np.exp(weights[g, node]))
            raised = self._bets.last_clock if np.isnan(note[LIFE_AT + side]) else float(note[LIFE_AT + side])
            evidence = (float(life[g, node, side]) + self.settings.log_limit()) / LN10
            size = since_first(note, alpha, self.settings.max_weight)
            alarms.append(self._alarm(LIFETIME, g, node, side, size, raised, evidence, self._bets.last_clock, None))
        return sorted(alarms, key=lambda alarm: -alarm.evidence)

    def _alarm(
        self,
        kind: str,
        group: int,
        node: int,
        side: int,
        size: Size,
        raised: float,
        evidence: float,
        strongest: float,
        ended: float | None,
    ) -> Alarm:
        return Alarm(
            group=self._bets.group_index.groups[group].name,
            kind=kind,
            direction=LOW if side == 0 else HIGH,
            forecasts=self.settings.ranges.bounds(node),
            raised=raised,
            **size._asdict(),
            evidence=evidence,
            clock=self._bets.clock_kind or ROW_NUMBERS,
            strongest=strongest,
            ended=ended,
        )

    def sizes(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return every group's rows, mean gap and interval since its first row, and both kinds of evidence as `wealth`.

        All intervals hold at all times. With `most`, at most so many groups: those with an alarm, then the largest.
        """
        entries = []
        nodes, weights, groups = self.settings.ranges.nodes, self._bets.log_weights(), self._bets.group_index.groups
        known = self._bets.known(len(groups))[0].tolist()
        for g, group in enumerate(groups) if most is None else [(g, groups[g]) for g in self._foremost(most)]:
            alpha = self.settings.alpha * float(np.exp(weights[g, 0]))
            size = since_first(self._bets.bet_state.notes[g * nodes], alpha, self.settings.max_weight)
            sized = {"group": group.name, "rows": size.rows, "gap": size.gap, "low": size.low, "high": size.high}
            entries.append({**sized, "change": known[g][0], "lifetime": known[g][1]})
        return entries

    def _foremost(self, most: int) -> list[int]:
        """Return at most so many groups: those with an alarm in order of `alarms`, then by the number of rows."""
        places = {name: g for g, name in enumerate(self.groups())}
        rows = self._bets.bet_state.notes[:: self.settings.ranges.nodes, VISITS][: len(places)]
        largest = np.argsort(-rows, kind="stable").tolist()
        return [*dict.fromkeys([*(places[alarm.group] for alarm in self.alarms()), *largest])][:most]

    def around(self, record: Mapping[str, Any], p: float) -> list[dict[str, Any]]:
        """Return the observed rates where forecasts were like p, for each group of a record.

        For each group they are those of the narrowest range of forecasts around p with 50 rows or more, or else of the
        widest: its rows, mean forecast, observed rate and an interval, valid at all times and simultaneous over all
        groups and ranges.

        Examples
        --------
        >>> monitor = Monitor(["shift"]).add({"shift": ["day"] * 400}, np.full(400, 0.3), np.arange(400) % 4 == 0)
        >>> [(rate["group"], rate["forecasts"], rate["rows"]) for rate in monitor.around({"shift": "day"}, 0.3)]
        [('all rows', (0.25, 0.5), 400), ('shift = day', (0.25, 0.5), 400)]
        """
        ranges, weights = self.settings.ranges, self._bets.log_weights()
        leaf = ranges.leaves + int(np.searchsorted(ranges.inner(), _validate.label(p, "p"), side="right"))
        members = self._bets.group_index.place_one(_one_record(record)).members[0]
        rates = []
        for g in [int(g) for g in members if 0 <= g < len(weights)]:
            nodes = [(leaf >> up) - 1 for up in range(ranges.depths)]
            notes = self._bets.bet_state.notes[[g * ranges.nodes + node for node in nodes]]
            pick = next((k for k, note in enumerate(notes) if note[VISITS] >= LEAST_AROUND), len(nodes) - 1)
            rows, forecast = float(notes[pick][VISITS]), float(notes[pick][FORECAST])
            if rows > 0:
                alpha = self.settings.alpha * float(np.exp(weights[g, nodes[pick]]))
                size = since_first(notes[pick], alpha, self.settings.max_weight)
                mean = forecast / rows
                ends = {"low": max(0.0, mean + size.low), "high": min(1.0, mean + size.high)}
                where = {"group": self.groups()[g], "forecasts": ranges.bounds(nodes[pick]), "rows": size.rows}
                rates.append(where | {"mean_forecast": mean, "observed": mean + size.gap} | ends)
        return rates

    def to_frame(self, kind: str = "groups", backend: str = "pandas") -> Any:
        """Return `sizes` (kind "groups") or `log` (kind "log") as a DataFrame.

        `backend` is "pandas", "polars", "pyarrow", or "dict" for a dict of lists.
        """
        if kind not in ("groups", "log"):
            raise ValueError(f'kind: given {kind!r}, expected "groups" or "log"')
        names = ["group", "rows", "gap", "low", "high", "change", "lifetime"]
        if kind == "log":
            names = [name for name in (*Alarm._fields, "sentence") if name not in ("clock", "forecasts")]
        rows = self.sizes() if kind == "groups" else [alarm.to_dict() for alarm in self.log()]
        return made_frame(columns_from(rows, names), backend)

    def test(self) -> Lifetime:
        """Return the lifetime test over all groups together."""
        now = self._bets.pooled(self._bets.log_wealth())
        beyond = float(self._bets.beyond_limit().max(initial=-np.inf)) + self.settings.log_limit()
        peak = max(now, self._bets.pooled_peak, beyond)
        p_value = float(np.exp(-max(0.0, peak)))
        return Lifetime(now / LN10, peak / LN10, p_value, p_value <= self.settings.alpha)

    def warnings(self) -> list[str]:
        """Return warnings about the outcomes: runs of equal outcomes too long for chance.

        Examples
        --------
        >>> p, y = np.full(300, 0.5), np.arange(300) % 2
        >>> y[200:] = 1
        >>> Monitor().add({}, p, y).warnings()[0].split(":")[0]
        'From row 200 to row 300 all 101 outcomes are 1, where 50.0 % were forecast'
        """
        kind = self._bets.clock_kind or ROW_NUMBERS
        return [
            f"From {show(float(run[file.BEGAN]), kind)} to {show(float(run[file.LASTED]), kind)} all "
            f"{run[file.LENGTH]:,.0f} outcomes are {run[file.OUTCOME]:.0f}, where "
            f"{100 * run[file.PREDICTED] / run[file.LENGTH]:.1f} % were forecast: too many in a row for chance. Check "
            "how these outcomes were recorded; alarms and sizes include them."
            for run in self._bets.unlikely_runs()
        ]

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
        wanted, clusters = self._bets.group_index.wanted, self.settings.clusters
        return wanted if clusters is None or clusters in wanted else [*wanted, clusters]

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
        alarms, test, log = self.alarms(), self.test(), self.log()
        listed = list(dict.fromkeys(alarm.group for alarm in [*alarms, *log])) or self.groups()[:1]
        return {
            "title": title,
            "rows": self.rows,
            "groups": len(self.groups()),
            "first": show(self._bets.first_clock, kind) if self.rows else "",
            "last": show(self._bets.last_clock, kind) if self.rows else "",
            "sentence": self._sentence(alarms, test.rejected),
            "alarmed": bool(alarms) or test.rejected,
            "alarms": [alarm.to_dict() for alarm in alarms],
            "log": [alarm.to_dict() for alarm in log],
            "warnings": self.warnings(),
            **({"learning": self.learning} if self.learning else {}),
            "lifetime": test._asdict(),
            "run_length": self.settings.run_length,
            "sizes": self.sizes(),
            "history": [self._over_time(group) for group in listed],
            "settings": self.settings.to_dict(),
        }

    def _sentence(self, alarms: list[Alarm], rejected: bool) -> str:
        ended = sum(bool(np.isfinite(episode.ended)) for episode in self._episodes())
        text = sentence(alarms, rejected, self.settings.tolerance, len(self.groups()), self.rows, ended)
        if self.learning:
            shown = named((f"{name} ({count:,} of {LEARNED:,} numbers)" for name, count in self.learning.items()), 3)
            text += f" Not watched yet, because their ranges are still being learned: {shown}."
        if self.settings.clusters is None or not self.rows:
            return text
        bets = counted(len(self._bets.clusters), "cluster")
        return f"{text} Tested: {bets}, each once; later rows of a cluster are not."

    def _over_time(self, group: str) -> dict[str, Any]:
        """Return the evidence against a group over time, as plain data."""
        evidence, kind = self.wealth(group), self._bets.clock_kind or ROW_NUMBERS
        return {
            "group": group,
            "rows": [int(row) for row in evidence["rows"]],
            "times": [show(float(clock), kind) for clock in evidence["clock"]],
            "change": [None if np.isnan(value) else float(value) for value in evidence["change"]],
            "lifetime": [None if np.isnan(value) else float(value) for value in evidence["lifetime"]],
        }

    def to_html(self, path: "str | os.PathLike[str] | None" = None, *, title: str = "Monitor") -> str:
        """Return the summary as one self-contained HTML page, and write it if a path is given.

        Examples
        --------
        >>> Monitor().add({}, [0.2, 0.4], [0, 1]).to_html(title="Rain").startswith("<!doctype html>")
        True
        """
        from swapcal.report.page import render_monitoring

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

    # ------------------------------------------------------------------ restart, merge, save

    def restart(self, group: str | None = None) -> "Monitor":
        """Restart the change detector, for one group or for all, for instance after the forecasts were corrected.

        Alarms that are raised end now, in `log`. The mean run length holds from here on. The lifetime test continues:
        it covers all rows since the first.
        """
        nodes = self.settings.ranges.nodes
        first = 0 if group is None else self._place(group) * nodes
        cells = slice(first, None if group is None else first + nodes)
        raised = self._bets.open_alarms()
        chosen = np.zeros_like(raised)
        chosen[cells] = raised[cells]
        self._bets.end(chosen)
        self._bets.bet_state.bets[cells, SUM] = 0.0
        self._bets.bet_state.bets[cells, CUSUM] = 0.0
        self._bets.bet_state.notes[cells, CHANGE_AT:CHANGE_PEAK] = np.nan
        self._bets.bet_state.notes[cells, CHANGE_PEAK:LIFE_AT] = 0.0
        return self

    def then(self, later: "Monitor") -> "Monitor":
        """Return the monitor of this one's rows followed by those of `later`, which started fresh.

        Equal to entering all rows in one, up to rounding, except that an alarm in the later part which the earlier one
        contributed to is seen only if it lasts to the end, as is the end of an alarm of the earlier part; and that the
        history is that of the earlier part.
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
        """Return the monitor saved at `path`. Raises ArchiveError if the file is damaged or not that of a monitor.

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
        still = f"; ranges of {named(self.learning, 3)} still learned" if self.learning else ""
        return (
            f"Monitor({counted(self.rows, 'row')}, {counted(len(self._bets.group_index.groups), 'group')}; "
            f"{listed}{still})"
        )

    def _repr_html_(self) -> str:
        alarms = self.alarms()
        shown = {f"alarm {k}": alarm.sentence for k, alarm in enumerate(alarms[:MOST_SHOWN], 1)}
        more = {"and": f"{len(alarms) - MOST_SHOWN} more"} if len(alarms) > MOST_SHOWN else {}
        return display("Monitor", self._sentence(alarms, self.test().rejected), shown | more)


def _one_record(records: Any) -> Mapping[str, Any]:
    if not isinstance(records, Mapping):
        raise TypeError(f"records: given {type(records).__name__} with one forecast, expected a mapping of values")
    return records


class ClassMonitors:
    """Forecasts of several classes: a `Monitor` of each class against the rest, with limits over all of them.

    Each monitor has `alpha` over and `run_length` times the number of classes: the probability that any class whose
    forecasts are right in every group is ever listed by the lifetime test is at most `alpha`, and the mean number of
    rows until a change alarm of any such class at least `run_length`, whatever the other classes do.

    Parameters
    ----------
    classes : labels, in the order of the columns of forecasts
    groups, settings : as `Monitor` takes them
    alpha, run_length : over all classes together

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet([2, 3, 4], 3000)
    >>> y = np.array(["bus", "car", "walk"])[(rng.random(3000)[:, None] > P.cumsum(axis=1)).sum(axis=1)]
    >>> ClassMonitors(["bus", "car", "walk"]).add({}, P, y).condemned()
    []
    >>> swapped = ClassMonitors(["bus", "car", "walk"]).add({}, P[:, [0, 2, 1]], y)
    >>> swapped.condemned(), [alarm.direction for alarm in swapped.alarms()["walk"]]
    (['car', 'walk'], ['too low'])
    """

    def __init__(
        self,
        classes: Sequence[Any],
        groups: Sequence[str] = (),
        *,
        alpha: float = 0.05,
        run_length: float = 1_000_000,
        **settings: Any,
    ) -> None:
        self.classes = list(classes)
        count = len(self.classes)
        if count < 2 or isinstance(classes, str) or len(set(self.classes)) < count:
            raise ValueError(f"classes: given {classes!r}, expected two or more different labels")
        whole = Monitor(groups, alpha=alpha, run_length=run_length, **settings).settings
        each: dict[str, Any] = {"alpha": whole.alpha / count, "run_length": whole.run_length * count}
        self.monitors = {name: Monitor(groups, **each, **settings) for name in self.classes}

    def add(self, records: Any, P: Any, y: Any, time: Any = None, weights: Any = None) -> "ClassMonitors":
        """Enter rows as `Monitor.add` does. An invalid batch raises an error and changes nothing.

        Parameters
        ----------
        P : (rows, classes) mean forecasts
        y : (rows,) labels
        """
        given, labels = np.asarray(P), np.asarray(y)
        if given.ndim != 2 or given.shape[1] != len(self.classes):
            raise ValueError(f"P: given shape {given.shape}, expected a column for each of {len(self.classes)} classes")
        if labels.shape != given.shape[:1]:
            raise ValueError(f"y: given shape {labels.shape}, expected ({len(given)},), a label for each row")
        columns = [_validate.rates("P", column) for column in given.T]
        outcomes = [np.asarray(labels.astype(object) == name, dtype=np.float64) for name in self.classes]
        strange = np.flatnonzero(np.sum(outcomes, axis=0) != 1)
        if strange.size:
            row = int(strange[0])
            raise ValueError(f"y: given {labels[row]!r} in row {row + 1}, expected one of {self.classes[:12]}")
        for monitor, p, outcome in zip(self.monitors.values(), columns, outcomes, strict=True):
            monitor.add(
                records, p, outcome, time, weights
            )  # the rows differ in p and y only: if the first accepts them, all do
        return self

    @property
    def rows(self) -> int:
        """Rows entered so far."""
        return next(iter(self.monitors.values())).rows

    def alarms(self) -> dict[Any, list[Alarm]]:
        """Return the alarms that are raised now, by class; classes without one are left out."""
        raised = {name: monitor.alarms() for name, monitor in self.monitors.items()}
        return {name: alarms for name, alarms in raised.items() if alarms}

    def condemned(self) -> list[Any]:
        """Return the classes that the lifetime test rejects, at the level `alpha` over all classes and times."""
        return [name for name, monitor in self.monitors.items() if monitor.test().rejected]

    def to_state(self) -> State:
        """Return the whole state as `save` writes it. Raises TypeError unless labels are texts, numbers or truths."""
        labels = [name.item() if isinstance(name, np.generic) else name for name in self.classes]
        strange = next((label for label in labels if not file.LABEL.holds(label)), None)
        if strange is not None:
            raise TypeError(f"classes: given {strange!r}, expected texts, numbers, true or false in a file")
        states = [monitor.to_state() for monitor in self.monitors.values()]
        arrays = {f"{k}.{name}": array for k, state in enumerate(states) for name, array in state.arrays.items()}
        return State(arrays, {"classes": labels, "monitors": [state.manifest for state in states]})

    @classmethod
    def from_state(cls, state: State) -> "ClassMonitors":
        """Rebuild from `to_state`. Raises ArchiveError for monitors of different rows or settings."""
        made = cls.__new__(cls)
        made.classes = list(state.manifest["classes"])
        manifests = dict(zip(map(str, range(len(made.classes))), state.manifest["monitors"], strict=True))
        parts = [Monitor.from_state(archive.part(State(state.arrays, manifests), place)) for place in manifests]
        if any(one.rows != parts[0].rows or one.settings != parts[0].settings for one in parts):
            raise archive.ArchiveError("monitors: given different rows or settings, expected the same of every class")
        made.monitors = dict(zip(made.classes, parts, strict=True))
        return made

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write all monitors to one file, whole or not at all; `load` continues bit for bit."""
        archive.write(path, file.CLASS_FILE, *self.to_state())

    @classmethod
    def load(cls, path: "str | os.PathLike[str]") -> "ClassMonitors":
        """Return the monitors saved at `path`. Raises ArchiveError if the file is damaged or not that of monitors.

        Examples
        --------
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "monitors.swapcal")
        >>> ClassMonitors(["bus", "car"]).add({}, [[0.2, 0.8]], ["car"]).save(path)
        >>> ClassMonitors.load(path)
        ClassMonitors(1 row, 2 classes; no class is off)
        """
        return archive.load(path, file.CLASS_FILE, cls.from_state)

    def __repr__(self) -> str:
        off = named([*map(str, self.condemned())], 3)
        verdict = f"off: {off}" if off else "no class is off"
        return f"ClassMonitors({counted(self.rows, 'row')}, {len(self.monitors):,} classes; {verdict})"


def e_bh(monitors: "Mapping[str, Monitor | Lifetime]", alpha: float = 0.05) -> list[str]:
    """Return the miscalibrated ones among many monitored forecasters, the strongest evidence first.

    The expected share of wrong names among those returned is at most `alpha`, whenever you look and however the
    forecasters depend on each other: e-BH on the lifetime wealth of each, see `swapcal.bounds.e_bh_limit`. One monitor
    at a time rejects at 1/alpha; of 300 sound ones 15 may do so.

    Parameters
    ----------
    monitors : monitors by name, or their results of `Monitor.test`
    alpha : largest expected share of sound forecasters among those returned

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> models = {f"model {k}": Monitor(level_ranges=False) for k in range(20)}
    >>> for k, monitor in enumerate(models.values()):
    ...     p = rng.uniform(0.2, 0.6, 1000)
    ...     _ = monitor.add({}, p, rng.random(1000) < p + 0.2 * (k == 7))
    >>> e_bh(models)
    ['model 7']
    """
    tests = {name: one.test() if isinstance(one, Monitor) else one for name, one in monitors.items()}
    ranked = sorted(tests, key=lambda name: -tests[name].log10_wealth)
    limits = [float(np.log10(float(e_bh_limit(k, len(ranked), alpha)))) for k in range(1, len(ranked) + 1)]
    reached = [k for k, name in enumerate(ranked, 1) if tests[name].log10_wealth >= limits[k - 1]]
    return ranked[: max(reached, default=0)]
