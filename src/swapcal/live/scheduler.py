"""`Scheduler`: forecasts and labels in the order in which they are learned, and scores over time."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from swapcal._display import counted
from swapcal._locking import Writable
from swapcal._validate import NO_LABEL, Span
from swapcal.archive import State
from swapcal.arrays import Array, Flags, Integers
from swapcal.engine.forecast import Forecast
from swapcal.kernels.experts import BESIDE, add_beside
from swapcal.kernels.jit import DirectCall
from swapcal.kernels.state import T_MEAN, T_P
from swapcal.live.experts import ONCE, Rows
from swapcal.live.learner import FIRST, Learner, equal_stretches
from swapcal.live.monitor_feed import MonitorFeed, Values
from swapcal.live.open_forecasts import FREE, UNKNOWN, OpenForecasts
from swapcal.live.open_rows import OpenRows
from swapcal.live.times import NO_TIMES, EventTimes
from swapcal.live.validation import Id

# `Learned`: labels at the moment they are learned, with their forecasts.


class Learned(NamedTuple):
    """n labels in the order in which they were learned, with their forecasts."""

    ids: list[Id]
    y: Array
    p: Array
    mean: Array
    experts: Array
    """(n, number of experts) each expert's probability, in the order of `Live.experts`"""
    scores: Array
    """(n, number of scores and models) as used: within 10⁻⁴ of 0 and 1; where missing, ½ or the prior rate"""
    silent: Flags | None = None
    """(n,) true for labels learned as silence, without a report; None without such labels"""
    weight: Array | None = None
    """(n,) how often each label counts; None if each counts once"""

    def in_units(self, span: Span) -> "Learned":
        """Return the labels and forecasts, which are shares of the range, on the scale of the outcomes."""
        y, p, mean, experts, scores = map(span.values, (self.y, self.p, self.mean, self.experts, self.scores))
        return self._replace(y=y, p=p, mean=mean, experts=experts, scores=scores)


# `Trace`: a run in detail.


@dataclass(frozen=True)
class Trace:
    """A run in detail: the forecasts, the contexts, and each expert's probabilities."""

    forecast: Forecast
    x: Array
    """(n, dim) contexts; coordinates that appeared later are 0 in earlier rows"""
    experts: Array
    """(n, number of experts) probabilities, in the order of `Live.experts`"""

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        sizes = f"{counted(self.x.shape[1], 'coordinate')}, {counted(self.experts.shape[1], 'expert')}"
        return f"Trace({counted(len(self), 'row')}, {sizes})"


# `EventBatch`: events that come at once.


@dataclass
class EventBatch:
    """Encoded rows with their labels, ids, times and records."""

    rows: Rows
    y: Array
    """labels, NaN if missing"""
    names: "list[Id] | None"
    event_times: EventTimes
    records: "list[Mapping[str, Any]] | None" = None
    """the records as mappings for outside models; None if there are no models"""
    watched: "list[Values] | None" = None
    """the monitor's columns of them; None if there is no monitor"""
    marks: "list[int] | None" = None
    """the records' fingerprints"""
    weight: Array | None = None
    """how often each label counts; None if each counts once"""

    def cut(self, a: int, b: int) -> "EventBatch":
        """Return some of the events."""
        if (a, b) == (0, len(self.y)):
            return self
        lists: list[Any] = [self.names, self.records, self.watched, self.marks, self.weight]
        names, *others = (None if each is None else each[a:b] for each in lists)
        return EventBatch(self.rows.cut(a, b), self.y[a:b], names, self.event_times.some(slice(a, b)), *others)

    def event(self, k: int, open_forecasts: OpenForecasts) -> "tuple[Id, int, Mapping[str, Any] | None, Values | None]":
        """Return the id, fingerprint, record and watched columns of one event."""
        names, marks, records, watched = self.names, self.marks, self.records, self.watched
        return (
            open_forecasts.unused(f"row {open_forecasts.forecasts + 1}") if names is None else names[k],
            0 if marks is None else marks[k],
            None if records is None else records[k],
            None if watched is None else watched[k],
        )


# `ScoreHistory`: errors of the forecasts over time, in bounded memory.

STRETCHES = 64
FIRST_LENGTH = 16


@dataclass(slots=True)
class Stretch:
    """Sums over some labels in a row; `last` is the number of the last of them."""

    last: int
    n: int = 0
    y: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    error: float = 0.0
    base_error: float = 0.0

    def in_units(self, span: Span) -> "Stretch":
        """Return the sums, which are of shares of the range, on the scale of the outcomes."""
        y, mean = (span.low * self.n + span.width * each for each in (self.y, self.mean))
        squares = (span.width**2 * each for each in (self.variance, self.error, self.base_error))
        return Stretch(self.last, self.n, y, mean, *squares)

    def extended(self, later: "Stretch") -> "Stretch":
        """Return both stretches as one."""
        return Stretch(
            later.last,
            self.n + later.n,
            self.y + later.y,
            self.mean + later.mean,
            self.variance + later.variance,
            self.error + later.error,
            self.base_error + later.base_error,
        )


class ScoreHistory:
    """Stretches of equally many labels; when there are 64, neighbours are joined and new ones are twice as long.

    It serves pictures only and is not part of the state: it is empty in a loaded object. A forecast is compared with
    the base rate (ones + ½)/(labels + 1) of the labels before its own.

    Examples
    --------
    >>> score_history = ScoreHistory()
    >>> score_history.add(np.full(100, 0.25), np.arange(100) % 4 == 0)
    >>> [stretch.n for stretch in score_history.stretches()]
    [16, 16, 16, 16, 16, 20]
    """

    def __init__(self) -> None:
        self._done: list[Stretch] = []
        self._length = FIRST_LENGTH
        self._now = Stretch(0)
        self._ones = 0.0

    def add_one(self, mean: float, y: float) -> None:
        """Enter a mean forecast and its label."""
        now = self._now
        base = (self._ones + 0.5) / (now.last + 1.0)
        self._ones += y
        now.last += 1
        now.n += 1
        now.y += y
        now.mean += mean
        now.variance += mean * (1.0 - mean)
        now.error += (mean - y) ** 2
        now.base_error += (base - y) ** 2
        if now.n >= self._length:
            self._close()

    def add(self, mean: Array, y: Array) -> None:
        """Enter many, in order."""
        start = 0
        while start < len(y):
            stop = min(len(y), start + self._length - self._now.n)
            self._enter(mean[start:stop], np.asarray(y[start:stop], dtype=np.float64))
            start = stop

    def _enter(self, mean: Array, y: Array) -> None:
        before = self._ones + np.cumsum(y) - y
        base = (before + 0.5) / (self._now.last + np.arange(1.0, len(y) + 1.0))
        sums = (y, mean, mean * (1.0 - mean), (mean - y) ** 2, (base - y) ** 2)
        part = Stretch(self._now.last + len(y), len(y), *(float(each.sum()) for each in sums))
        self._ones += part.y
        self._now = self._now.extended(part)
        if self._now.n >= self._length:
            self._close()

    def _close(self) -> None:
        self._done.append(self._now)
        self._now = Stretch(self._now.last)
        if len(self._done) == STRETCHES:
            pairs = zip(self._done[::2], self._done[1::2], strict=True)
            self._done = [first.extended(second) for first, second in pairs]
            self._length *= 2

    def stretches(self) -> list[Stretch]:
        """Return all stretches; the last is between half as long and one and a half times as long as the others."""
        done, now = self._done, self._now
        if not now.n:
            return [*done]
        return [*done[:-1], done[-1].extended(now)] if done and 2 * now.n < self._length else [*done, now]


# `Scheduler`: the order of forecasts and labels, and the rows of open forecasts.

KEPT = ("x", "dims", "keys", "values", "memory", "judged", "ticket", "groups")
SAVED = {"dims": "widths"}  # names in files, where they differ
LEARNED, HELD, CORRECTED = "learned", "held", "corrected"
WINDOW = 1024  # events stepped through at once: enough to amortise calls, few enough to stay in cache
PIECE = 4096  # the same of rows that are learned at once
NOTHING = 0.0, 1.0
add_one_beside = DirectCall(add_beside)


class Scheduler(Writable):
    """Collects events, so that the learner can step through many at once with the same result as one by one.

    `step` goes through n ≥ 1 rows; `forecast_one` and `learn_one` do the same for a single row, faster.
    """

    def __init__(self, learner: Learner, open_forecasts: OpenForecasts) -> None:
        self.learner = learner
        self.open_forecasts = open_forecasts
        self.open_rows = OpenRows(learner)
        self.records: dict[int, Mapping[str, Any]] = {}
        """of open forecasts, for outside models"""
        self.watcher: Callable[[Learned], None] | None = None
        self.monitor_feed: MonitorFeed | None = None
        self.score_history = ScoreHistory()
        self.score_sums = np.zeros((learner.experts.scores, BESIDE))
        """of each user's score and model, as `status.score_beside` reads them"""
        self._order: list[int] = []
        self._labels: list[float] = []
        self._weights: list[float] = []
        self._fresh: dict[int, int] = {}
        """slots of rows that are forecast in the events collected, in order, and their numbers"""
        self._late: dict[int, int] = {}
        """the same of rows that were forecast before, and are learned"""
        self._allowed = NOTHING
        """share of unseen outcomes, and factor of their odds, for the row admitted last"""
        self._moves: dict[int, tuple[float, float]] = {}
        """the same of rows that are forecast in the events collected, by slot, where the share is not 0"""
        self._batch: Rows | None = None
        self._first = 0
        self._label = np.zeros(1)

    def forecast_one(
        self,
        row: Rows,
        name: Id,
        mark: int,
        event_times: EventTimes = NO_TIMES,
        record: "Mapping[str, Any] | None" = None,
        watched: "Values | None" = None,
    ) -> Rows:
        """Forecast one row without a label, as `step` with a batch of it: that takes three times as long.

        Returns the row, valid until the next call.
        """
        time, _, matures, calendar = event_times
        now, mature = math.nan if time is None else float(time[0]), math.nan if matures is None else float(matures[0])
        if calendar is not UNKNOWN:
            self.open_forecasts.calendar = calendar
        if self.open_forecasts.is_due(now):
            row = row if self.watcher is None else row.copied()  # a watcher may use the row for another
            self._learn_due(now)
            self.flush()
        slot = self._admit(row, 0, name, mark, now, mature, math.nan, math.nan, record, watched)
        self.learner.step(row, FIRST, NO_LABEL)
        if self._allowed is not NOTHING:
            self.learner.allow(row, 0, *self._allowed)
        if self.open_forecasts.issued[slot] != FREE:
            self.open_rows.put_one(row, slot, self.open_forecasts.slots)
        self.open_forecasts.reuse()
        return row

    def learn_one(self, slot: int, y: float, time: float, weight: float = 1.0) -> None:
        """Enter a label, and learn it and all others that are due; as `deliver` and `flush`."""
        watched = self.watcher is not None or self.monitor_feed is not None or self.learner.models
        if watched or not self.open_forecasts.labels or not self.open_forecasts.deliver_alone(slot, y, time, weight):
            self.deliver(slot, y, time, weight)
            self.flush()
            return
        self._label[0] = self.open_forecasts.close(slot)
        row = self.open_rows.take_one(slot)
        weights = ONCE if weight == 1.0 else np.array([weight])
        self.learner.step(row, FIRST, self._label, weights)
        self.score_history.add_one(float(row.ticket[0, T_MEAN]), y)
        if self.learner.experts.scores:
            add_one_beside.call(self.score_sums, row.memory, row.ticket, self._label, weights)
        self.open_forecasts.reuse()

    def step(self, batch: EventBatch, between: "Callable[[int], None] | None" = None) -> None:
        """Forecast the rows of a batch, and learn the labels that are due before each, in order.

        `between` is called before each row with its number, and after the last with the number of rows.
        """
        if batch.event_times.calendar is not UNKNOWN:
            self.open_forecasts.calendar = batch.event_times.calendar
        if between is not None:
            self._step_through(batch, between)
            return
        if self._is_simple(batch):
            self._open_many(batch)
            return
        for a, b, at_once in self._stretches(batch):
            part = batch.cut(a, b)
            if at_once:
                self._step_at_once(part)
            else:
                self._step_through(part)

    def _stretches(self, batch: EventBatch) -> Iterator[tuple[int, int, bool]]:
        """Cut rows where labels begin or cease to be learned right after their forecasts, and nothing else is due."""
        y, event_times, open_forecasts = batch.y, batch.event_times, self.open_forecasts
        simple = event_times.due is None and event_times.matures is None and open_forecasts.patience is None
        waits = open_forecasts.expects() or open_forecasts.maturity.burst is not None
        if not simple or (event_times.time is not None and waits):
            yield 0, len(y), False
            return
        for a, b in equal_stretches(np.isnan(y)):
            if not math.isnan(y[a]) and not open_forecasts.labels and self.learner.unseen.named:
                yield a, a + 1, False  # before any label is known the prior is forecast
                a += 1
            if math.isnan(y[b - 1]) or not self._sees_everything():
                yield a, b, False
            else:
                yield from ((c, min(c + PIECE, b), True) for c in range(a, b, PIECE))

    def _sees_everything(self) -> bool:
        """Return whether forecasts need no allowance for unseen outcomes while labels come at once."""
        open_forecasts = self.open_forecasts
        everything = not (open_forecasts.opened or open_forecasts.expiries)
        return everything or (open_forecasts.labels > 0 and self._factor() == 1.0)

    def _is_simple(self, batch: EventBatch) -> bool:
        """Return whether the rows of a batch are only to be opened, without a maturity, a label or a model."""
        time, due, matures, _ = batch.event_times
        others = [batch.records, batch.weight, due, matures]
        if batch.names is None or any(each is not None for each in others) or not np.isnan(batch.y).all():
            return False
        return self.open_forecasts.is_simple(len(batch.y), timed=time is not None)

    def _open_many(self, batch: EventBatch) -> None:
        """Forecast rows without labels, as `_step_through`: their share of outcomes not seen changes now and then."""
        n, names, may_allow = len(batch.y), batch.names or [], self._factor() != 1.0
        marks = [0] * n if batch.marks is None else batch.marks
        times = None if batch.event_times.time is None else batch.event_times.time.tolist()
        self._batch, self._first, a = batch.rows, 0, 0
        while a < n:
            allowed = self.allowance(keep=True)
            b = min(n, a + WINDOW - len(self._order), a + (self.open_forecasts.steady() if may_allow else n))
            slots = self.open_forecasts.admit_many(names[a:b], marks[a:b], None if times is None else times[a:b])
            if batch.watched is not None and self.monitor_feed is not None:
                self.monitor_feed.opened.update(zip(slots, batch.watched[a:b], strict=True))
            self._fresh.update(zip(slots, range(len(self._order), len(self._order) + len(slots)), strict=True))
            self._order += slots
            self._labels += [math.nan] * len(slots)
            self._weights += [1.0] * len(slots)
            if allowed is not NOTHING:
                self._moves.update(dict.fromkeys(slots, allowed))
            if len(self._order) >= WINDOW:
                self.flush()
            a = b
        self.flush()
        self._batch = None

    def learn_many(
        self, slots: Sequence[int], y: Sequence[float], weights: Sequence[float], times: Sequence[float] | None
    ) -> None:
        """Learn labels of `OpenForecasts.simple_slots`, as `deliver` and `flush`; without models."""
        if not self.open_forecasts.labels:
            self._expect_late(self.open_forecasts.forecasts - self.open_forecasts.issued[slots[0]] - 1)
        for a in range(0, len(slots), WINDOW):
            some = slice(a, a + WINDOW)
            came = None if times is None else times[some]
            self.open_forecasts.close_many(slots[some], y[some], weights[some], came)
            self._order += slots[some]
            self._labels += y[some]
            self._weights += weights[some]
            self._late.update(zip(self._order, range(len(self._order)), strict=True))
            self.flush()

    def _step_through(self, batch: EventBatch, between: "Callable[[int], None] | None" = None) -> None:
        """Give each row a slot; its label may come at any time."""
        open_forecasts, event_times, unknown = self.open_forecasts, batch.event_times, [math.nan] * len(batch.y)
        times, dues, matures = (unknown if each is None else each.tolist() for each in event_times[:3])
        at_once = event_times.due is None
        weights = [1.0] * len(batch.y) if batch.weight is None else batch.weight.tolist()
        self._batch, self._first = batch.rows, 0
        for k, (now, due, mature, label) in enumerate(zip(times, dues, matures, batch.y.tolist(), strict=True)):
            if between is not None:
                between(k)
            if open_forecasts.is_due(now):
                self._learn_due(now)
            name, mark, record, watched = batch.event(k, open_forecasts)
            slot = self._admit(batch.rows, k, name, mark, now, mature, due, label, record, watched, weights[k])
            self._open(slot)
            if at_once and label == label:
                self.deliver(slot, label, now, weights[k])
        if between is not None:
            between(len(batch.y))
        self.flush()
        self._batch = None

    def _step_at_once(self, batch: EventBatch) -> None:
        """Learn each label right after its forecast, without slots, which would take half as much time again."""
        rows, y = batch.rows, batch.y
        for k, record in enumerate(batch.records or ()):
            self.learner.consult(rows, k, record)
            self.learner.teach(record, rows.keys[k], rows.values[k], y[k])
        labels = np.full(2 * len(y), math.nan)
        labels[1::2] = y
        weights = ONCE if batch.weight is None else np.repeat(batch.weight, 2)
        self.learner.step(rows, np.repeat(np.arange(len(y)), 2), labels, weights)
        means, times = rows.ticket[:, T_MEAN], batch.event_times.time
        self.score_history.add(means, y)
        self._judge_scores(rows.memory, rows.ticket, y, ONCE if batch.weight is None else batch.weight)
        if batch.watched is not None and self.monitor_feed is not None:
            self.monitor_feed.enter(batch.watched, means.copy(), y, batch.weight)
        weighted = 0 if batch.weight is None else int((batch.weight != 1.0).sum())
        self.open_forecasts.book(batch.names, y.tolist(), None if times is None else times.tolist(), weighted)

    def _admit(
        self,
        rows: Rows,
        k: int,
        name: Id,
        mark: int,
        time: float,
        matures: float,
        due: float,
        label: float,
        record: "Mapping[str, Any] | None",
        watched: "Values | None",
        weight: float = 1.0,
    ) -> int:
        """Call the models for row k, give it a slot, and return the slot."""
        if record is not None:
            self.learner.consult(rows, k, record)
        self._allowed = self.allowance(keep=True)
        slot = self.open_forecasts.admit(name, time, matures, due, label, mark, weight)
        if record is not None:
            self.records[slot] = record
        if watched is not None and self.monitor_feed is not None:
            self.monitor_feed.opened[slot] = watched
        return slot

    def allowance(self, *, keep: bool = False) -> tuple[float, float]:
        """Return the share of outcomes that the next forecast allows for unseen, and the factor of their odds."""
        open_forecasts = self.open_forecasts
        if open_forecasts.labels and not open_forecasts.opened and not open_forecasts.expiries:
            return NOTHING  # the usual case where labels come at once
        factor = self._factor()
        if factor == 1.0:
            return NOTHING
        share = open_forecasts.unseen_share(keep=keep)
        return (share, factor) if share > 0.0 else NOTHING

    def _factor(self) -> float:
        labels, ones = self.open_forecasts.labels, self.open_forecasts.ones
        return self.learner.unseen.factor(labels - ones, ones)

    def _open(self, slot: int) -> None:
        """Forecast the batch's next row, and keep it in a slot."""
        self._order.append(slot)
        self._labels.append(math.nan)
        self._weights.append(1.0)
        self._fresh[slot] = len(self._fresh)
        if self._allowed is not NOTHING:
            self._moves[slot] = self._allowed
        if len(self._order) >= WINDOW or self.learner.models:
            self.flush()

    def deliver(self, slot: int, y: float, time: float, weight: float = 1.0) -> str:
        """Enter a label that arrives; return "learned" if it is learned now, else "held"."""
        outcome = HELD
        for due in self.open_forecasts.deliver(slot, y, time, weight):
            outcome = LEARNED if due == slot else outcome
            self._learn(due)
        return outcome

    def correct(self, id: Id, y: float, time: float) -> str:
        """Count a report that comes after its forecast was learned as silence; nothing is learned from it."""
        for due in self.open_forecasts.correct(id, y, time):
            self._learn(due)
        return CORRECTED

    def settle(self, before: float, most: int) -> int:
        """Learn at most `most` labels that are due before a time; return their number."""
        labels = self.open_forecasts.labels
        for due in self.open_forecasts.fall_due(before):
            self._learn(due)
            if self.open_forecasts.labels - labels >= most and not self.open_forecasts.moment:
                break
        self.flush()
        return self.open_forecasts.labels - labels

    def _learn_due(self, before: float) -> None:
        if self.open_forecasts.patience is None and self.open_forecasts.maturity.burst is None:
            while (slot := self.open_forecasts.next_due(before)) != FREE:
                self._learn(slot)
            return
        for due in self.open_forecasts.fall_due(before):
            self._learn(due)

    def _learn(self, slot: int) -> None:
        """Close a forecast, and learn its label with the row as it was forecast."""
        if self.open_forecasts.labels == 0:
            self._expect_late(self.open_forecasts.forecasts - self.open_forecasts.issued[slot] - 1)
        fresh = slot in self._fresh
        is_next = self._order[-1:] == [slot]
        if fresh and (slot in self._moves if is_next else not self.learner.learns_later):
            self.flush()
            fresh = False
        y = self.open_forecasts.close(slot)
        self._order.append(slot)
        self._labels.append(y)
        self._weights.append(self.open_forecasts.weight[slot])
        if not fresh:
            self._late[slot] = len(self._late)
        if self.learner.models:
            self.flush()
            self._teach(slot, y)
        elif len(self._order) >= WINDOW:
            self.flush()

    def _expect_late(self, late: int) -> None:
        if late:
            self.flush()
            self.learner.expect_late(late)

    def _teach(self, slot: int, y: float) -> None:
        """Teach outside models last: an exception of theirs must not undo the rest."""
        record = self.records.pop(slot, None)
        if record is not None:
            row = self.row(slot)
            self.learner.teach(record, row.keys[0], row.values[0], y)

    def encoded(self, record: Mapping[str, Any], name: Id) -> Rows:
        """Return one record encoded, to be forecast; it is valid until the next call."""
        self.open_rows.settle()
        return self.learner.row(record, name)

    def row(self, slot: int) -> Rows:
        """Return the row of an open forecast; it is valid until the next call."""
        return self.open_rows.get_one(slot)

    def flush(self) -> None:
        """Step through the events collected."""
        if not self._order:
            return
        rows, late = self._rows_at_hand(), len(self._late)
        learned = self._step_rows(rows)
        if self._fresh:
            self._keep(rows, late)
        for each in (self._order, self._labels, self._weights, self._fresh, self._late, self._moves):
            each.clear()
        self.open_forecasts.reuse()
        if learned is not None and self.watcher is not None:
            self.watcher(learned)  # last: after its exception the events must not be stepped through again

    def _rows_at_hand(self) -> Rows:
        """Return the rows of the events collected: those kept, then those of the batch."""
        fresh, late = len(self._fresh), len(self._late)
        if not fresh:
            return self.open_rows.take_one(self._order[0]) if late == 1 else self.open_rows.get(np.array([*self._late]))
        batch = self._next_rows(fresh)
        if not late:
            return batch
        rows = self.open_rows.blank(late + fresh)
        self.open_rows.fill(rows, np.array([*self._late]))
        rows.cut(late, len(rows)).overwrite(batch, (*KEPT, "scores", "draws"))
        return rows

    def _next_rows(self, n: int) -> Rows:
        assert self._batch is not None, "rows are opened from a batch"
        return self._batch.cut(self._first, self._first + n)

    def _judge_scores(self, memory: Array, tickets: Array, y: Array, weights: Array) -> None:
        """Add the squared errors of the users' scores; without scores the kernel is not compiled."""
        if self.learner.experts.scores:
            add_beside(self.score_sums, memory, tickets, y, weights)

    def _step_rows(self, rows: Rows) -> Learned | None:
        """Forecast and learn, and feed the monitor; return the labels learned, if there is a watcher."""
        order, labels, weights = self._row_numbers(), np.array(self._labels), np.array(self._weights)
        allowances = {len(self._late) + self._fresh[slot]: allowed for slot, allowed in self._moves.items()}
        self.learner.step(rows, order, labels, weights, allowances)
        watched = self.watcher is not None or self.monitor_feed is not None
        if len(labels) == 1 and not watched:
            if self._labels[0] == self._labels[0]:
                self.score_history.add_one(float(rows.ticket[0, T_MEAN]), self._labels[0])
                self._judge_scores(rows.memory, rows.ticket, labels, weights)
            return None
        known = np.flatnonzero(~np.isnan(labels))
        own, y = order[known], labels[known]
        mean = rows.ticket[own, T_MEAN]
        self.score_history.add(mean, y)
        self._judge_scores(rows.memory[own], rows.ticket[own], y, weights[known])
        if not known.size or not watched:
            return None
        slots = [self._order[k] for k in known.tolist()]
        weight = None if (weights == 1.0).all() else weights[known]
        if self.monitor_feed is not None:
            self.monitor_feed.learn(slots, mean, y, weight)
        if self.watcher is None:
            return None
        ids = [self.open_forecasts.ids[slot] for slot in slots]
        scores = self.learner.experts.user_scores(rows.memory[own])
        silence = np.array([self.open_forecasts.is_silence(slot) for slot in slots])
        silent = silence if silence.any() else None
        return Learned(ids, y, rows.ticket[own, T_P], mean, rows.judged[own], scores, silent, weight)

    def _row_numbers(self) -> Integers:
        """Return, for each event, its row among those collected."""
        fresh, late, n = self._fresh, self._late, len(self._late)
        if len(self._order) == 1:
            return FIRST
        return np.array([late[slot] if slot in late else n + fresh[slot] for slot in self._order])

    def _keep(self, rows: Rows, late: int) -> None:
        """Copy the forecasts to the batch's rows, and keep the rows that are still open."""
        batch = self._next_rows(len(self._fresh))
        self._first += len(batch)
        if late:
            batch.overwrite(rows.cut(late, len(rows)), ("x", "judged", "ticket"))
        slots = np.array([*self._fresh])
        is_open = np.frombuffer(self.open_forecasts.issued, np.int64)[slots] != FREE
        if is_open.any():
            chosen = late + np.flatnonzero(is_open)
            self.open_rows.put(rows, chosen, slots[is_open], self.open_forecasts.slots)

    def to_state(self, open_rows: OpenRows, slots: Sequence[int]) -> State:
        """Return the rows kept for the open forecasts in these slots."""
        rows = open_rows.get(np.array(slots, np.int64))
        width = int(rows.dims.max(initial=0))
        arrays = {SAVED.get(name, name): getattr(rows, name) for name in self._saved()}
        return State(arrays | {"x": rows.x[:, :width].copy()}, {})

    def _saved(self) -> tuple[str, ...]:
        """Return the names of the arrays of open rows in files: groups only with a learner of groups."""
        return KEPT if self.learner.contexts.hashed else KEPT[:-1]

    def restore(self, state: State) -> None:
        """Restore the rows from `to_state`, into the first slots, in order of issue."""
        saved = {name: state.arrays[SAVED.get(name, name)] for name in self._saved()}
        n = len(saved["dims"])
        rows = self.open_rows.blank(n)
        for name in saved:
            part = getattr(rows, name)
            part[tuple(slice(size) for size in saved[name].shape)] = saved[name]
        self.open_rows.put(rows, np.arange(n), np.arange(n), n)
