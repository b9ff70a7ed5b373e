"""Open forecasts, the order in which their labels are learned, and the delays of labels."""

import copy
import heapq
import math
import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from swapcal._validate import UNIT, Span, event_key, in_row
from swapcal.archive import ArchiveError, State
from swapcal.arrays import AnyArray, Integers
from swapcal.live.status import Status
from swapcal.live.unseen import ArrivalOrder, OutcomeDelays
from swapcal.live.validation import (
    NO_LIMITS,
    NO_MATURITY,
    REMEMBERED,
    Id,
    Maturity,
    OpenLimits,
    is_id,
    packed,
    unpacked,
)
from swapcal.tables.values import shown

# `IssueQueue`: open forecasts in order of issue.

STALE = 4  # closed forecasts dropped from a heap with each that closes
SLACK = 1024  # closed forecasts that may stay in the queue before it is searched
LOW = 2**32 - 1


class IssueQueue:
    """Numbers and slots of forecasts, in order of issue; closed ones are dropped when they are as many as open ones.

    A slot is used again once its forecast is closed, so each entry also has the forecast's number, of which the low
    half is enough: `issued[slot]` shows whether it is still the same.
    """

    def __init__(self) -> None:
        self._issued, self._slots = array("I"), array("I")
        self._head = 0

    def __len__(self) -> int:
        return len(self._slots) - self._head

    def append(self, slot: int, number: int, still_open: int, issued: "array[int]") -> None:
        """Add a forecast; `still_open` is the number of open ones."""
        self._issued.append(number & LOW)
        self._slots.append(slot)
        if len(self._slots) > 2 * still_open + SLACK:
            self._drop_closed(issued)

    def extend(self, slots: Sequence[int], number: int, still_open: int, issued: "array[int]") -> None:
        """Add several forecasts, the first of which has this number."""
        self._issued.extend([each & LOW for each in range(number, number + len(slots))])
        self._slots.extend(slots)
        if len(self._slots) > 2 * still_open + SLACK:
            self._drop_closed(issued)

    def _drop_closed(self, issued: "array[int]") -> None:
        numbers, slots = (np.frombuffer(each, np.uint32)[self._head :] for each in (self._issued, self._slots))
        now = np.frombuffer(issued, np.int64)[slots]
        stand = (now >= 0) & (now & LOW == numbers)
        self._issued, self._slots = array("I", numbers[stand].tobytes()), array("I", slots[stand].tobytes())
        self._head = 0

    def numbers(self, issued: "array[int]") -> Integers:
        """Return the numbers of open forecasts, increasing."""
        self._drop_closed(issued)
        if not self._slots:
            return np.zeros(0, np.int64)
        return np.frombuffer(issued, np.int64)[np.frombuffer(self._slots, np.uint32)]

    def first(self, issued: "array[int]") -> int:
        """Return the slot of the oldest open forecast; there must be one."""
        while not _stands(self._slots[self._head], self._issued[self._head], issued):
            self._head += 1
        return self._slots[self._head]


def _stands(slot: int, number: int, issued: "array[int]") -> bool:
    """Return whether a slot still holds the forecast of that number, rather than a later one or none."""
    return issued[slot] >= 0 and issued[slot] & LOW == number


# `OpenForecasts`: open forecasts, the order in which their labels are learned, and the delays of labels.

FREE = -1
WHOLE = {"issued": "q", "since": "q", "arrived": "b", "fingerprint": "Q"}
SAVED = {"arrived": np.int64}  # types in files, where they differ
REAL = ("time", "matures", "due", "y", "weight")
COLUMNS = (*WHOLE, *REAL)
TYPES = {**{name: np.dtype(code) for name, code in WHOLE.items()}, **dict.fromkeys(REAL, np.dtype("d"))}
BLANK = (("arrived", 0), *dict.fromkeys(("time", "matures", "due", "y"), math.nan).items(), ("weight", 1.0))
COUNTS = ("forecasts", "labels", "expiries", "delay", "wait", "waits")
SILENCE_COUNTS = ("silences", "corrections", "ones", "weighted")
ARRIVED, SILENT = 1, 2
SILENCES = 2**62  # added to the numbers of forecasts in a heap: at one moment silence comes after all labels
CORRECTION = -2


class UnknownIdError(ValueError):
    """A label for an id that no forecast was issued for."""


class ExpiredIdError(UnknownIdError):
    """A label for an id whose forecast has expired, and remains unlabelled."""


class ConflictingLabelError(ValueError):
    """A second label for an id that differs from the first, or a second forecast that differs from the first."""


def taken(id: Id) -> ConflictingLabelError:
    """Return the error for an id that names another forecast."""
    return ConflictingLabelError(f"id: given {id!r}, which already names another forecast; expected a new one")


class Calendar(NamedTuple):
    """How times are given; None where that is not known yet."""

    dated: bool | None = None
    """whether they are dates, not numbers"""
    zoned: bool | None = None
    """whether times of day have a zone; numpy's have none and need none"""

    def joined(self, name: str, given: "Calendar") -> "Calendar":
        """Return what is known of both. Raises ValueError if they differ."""
        for old, new, words in zip(self, given, CALENDARS, strict=True):
            if old is not None and new is not None and old != new:
                raise ValueError(f"{name}: given {words[new]}, expected {words[old]} as for the other times")
        dated, zoned = (new if old is None else old for old, new in zip(self, given, strict=True))
        return Calendar(dated, zoned)


UNKNOWN = Calendar()
CALENDARS = ("a number", "a date"), ("a time without a zone", "a time with a zone")


class OpenForecasts:
    """Open forecasts in numbered slots, labels by id, and the delays seen.

    A label *arrives*; it is *due to be learned* at once, or at its forecast's maturity if that is later, or, where no
    maturity is known and `patience` is a number, once every earlier forecast has its label, has expired, or is more
    than `patience` forecasts behind. Where silence is a label, a forecast without another one is learned with it once
    its maturity is past. Where bursts are shuffled, a label with a time waits until the clock has passed it. Methods
    that yield slots yield those to be learned now, in order; the caller closes each before it takes the next.
    """

    def __init__(
        self,
        limits: OpenLimits = NO_LIMITS,
        patience: int | None = None,
        maturity: Maturity = NO_MATURITY,
        span: Span = UNIT,
        seed: int = 0,
    ) -> None:
        self.limits = limits
        self.patience = patience
        self.maturity = maturity
        self.span = span
        """range of the callers' outcomes; here all are shares of it"""
        self.seed = seed
        self.moment = 0
        """labels of the present time that are not learned yet, where bursts are shuffled"""
        self.forecasts, self.labels, self.expiries, self.held = 0, 0, 0, 0
        self.silences, self.corrections = 0, 0
        self.ones = 0.0
        """sum of the labels learned"""
        self.weighted = 0
        """labels learned whose weight is not 1"""
        self.delays, self.arrival_order = OutcomeDelays(), ArrivalOrder()
        self._unseen = 1.0
        self._unseen_until: tuple[int, ...] = (0, 0)
        """labels and forecasts up to which `_unseen` is not computed again"""
        self.delay, self.wait, self.waits = 0.0, 0.0, 0
        self.clock = -math.inf
        """the latest forecast time"""
        self.calendar = UNKNOWN
        self.opened: dict[Id, int] = {}
        """slots of open forecasts"""
        self.labelled: OrderedDict[Id, float] = OrderedDict()
        self.expired: OrderedDict[Id, None] = OrderedDict()
        self.silent: set[Id] = set()
        """ids in `labelled` that were learned as silence and have no report since"""
        self.reports: dict[Id, tuple[float, int, float]] = {}
        """(time, number of the forecast, label) of planned reports that contradict the label learned"""
        self.ids: list[Id] = []
        self.issued, self.since, self.arrived, self.fingerprint = (array(code) for code in WHOLE.values())
        self.time, self.matures, self.due, self.y, self.weight = (array("d", ()) for _ in REAL)
        self._free: list[int] = []
        self._vacated: list[int] = []
        # (…, issued, slot); the forecast may have been closed meanwhile
        self._ahead: list[tuple[float, int, int]] = []
        """when labels arrive or mature, and when forecasts without one are learned as silence, a heap"""
        self._reports_ahead: list[tuple[float, int, Id]] = []
        """when `reports` come, a heap"""
        self._ready: list[tuple[int, int]] = []
        """arrived labels that are learned after earlier forecasts' labels, a heap"""
        self._issue_queue = IssueQueue()
        self._awaited: deque[tuple[int, int]] = deque()
        """forecasts in order of issue, from the first that others wait for"""
        self._ripening: list[tuple[float, int, int]] = []
        """forecasts that are not mature yet, a heap"""
        self._aging: deque[tuple[float, int, int]] = deque()
        """by the forecast after which their age counts"""
        self._timed: deque[tuple[float, int, int]] = deque()
        """by the time from which their age counts"""

    @property
    def slots(self) -> int:
        """Number of slots, free ones included."""
        return len(self.ids)

    def before(self, label: float, forecast: float) -> str:
        """Return the message about a label that comes before its forecast."""
        dated = self.calendar.dated is True
        return f"given {shown(label, dated)}, before the forecast at {shown(forecast, dated)}"

    def knows(self, id: Id) -> bool:
        """Return whether an id is in use, among those that are kept."""
        return id in self.opened or id in self.labelled or id in self.expired

    def knows_any(self, ids: Sequence[Id]) -> bool:
        """Return whether one of several ids is in use."""
        return not all(known.keys().isdisjoint(ids) for known in (self.opened, self.labelled, self.expired))

    def unused(self, name: str) -> str:
        """Return a name for a row without one, which is not in use."""
        while self.knows(name):
            name += "'"
        return name

    def expects(self) -> bool:
        """Return whether any label is learned later: at a time, or after other labels."""
        return bool(self._ahead or self._ready or self._ripening)

    def is_due(self, before: float) -> bool:
        """Return whether `fall_due` has anything to do."""
        return bool(self._ready) or (bool(self._ahead) and self._ahead[0][0] < before)

    def admit(
        self,
        id: Id,
        time: float = math.nan,
        matures: float = math.nan,
        due: float = math.nan,
        y: float = math.nan,
        fingerprint: int = 0,
        weight: float = 1.0,
    ) -> int:
        """Add a forecast and return its slot; `due` and `y` are the time and value of its label, if known already.

        Older forecasts expire if the limits demand it.
        """
        issued, opened = self.forecasts, self.opened
        due = due if y == y else math.nan  # a missing label does not arrive
        slot = self._free.pop() if self._free else self._new_slot()
        opened[id] = slot
        self.ids[slot] = id
        self.issued[slot], self.arrived[slot], self.fingerprint[slot] = issued, 0, fingerprint
        self.time[slot], self.matures[slot], self.due[slot], self.y[slot] = time, matures, due, y
        self.weight[slot] = weight
        self.forecasts = issued + 1
        self._issue_queue.append(slot, issued, len(opened), self.issued)
        if self.patience is not None:
            self._awaited.append((issued, slot))
            self._front()
        if due == due:
            heapq.heappush(self._ahead, (due, issued, slot))
        if matures == matures and self.maturity.silence is not None:
            heapq.heappush(self._ahead, (matures, SILENCES + issued, slot))
        if time == time:
            self.clock = time
            if self._reports_ahead:
                self._take_reports((time, FREE))
        if self._ripening:
            self._ripen()
        if matures > time:
            self.since[slot] = FREE
            heapq.heappush(self._ripening, (matures, issued, slot))
        else:
            self._start_aging(slot, issued)
        self.expire()
        return slot

    def is_simple(self, more: int = 0, *, timed: bool = False) -> bool:
        """Return whether so many forecasts without maturity can be opened, or labels learned, and nothing else is due.

        With `timed` they have times.
        """
        most, expires, lifetime = self.limits
        limited = expires is not None or lifetime is not None or len(self.opened) + more > most
        waits = timed and (self.expects() or self._reports_ahead or self.maturity.burst is not None)
        return not (limited or waits or self._ripening or self.patience is not None)

    def admit_many(self, ids: Sequence[Id], marks: Sequence[int], times: Sequence[float] | None = None) -> list[int]:
        """Add forecasts without maturities, as `admit` one by one where `is_simple`; return their slots."""
        first = self.forecasts
        slots = [self._free.pop() if self._free else self._new_slot() for _ in ids]
        self.opened.update(zip(ids, slots, strict=True))
        for id, slot, mark in zip(ids, slots, marks, strict=True):
            self.ids[slot], self.fingerprint[slot] = id, mark
        at = np.array(slots)
        for name in ("issued", "since"):
            self._column(name)[at] = np.arange(first, first + len(slots))
        for name, value in BLANK:
            self._column(name)[at] = value
        if times is not None:
            self._column("time")[at] = times
            self.clock = times[-1]
        self.forecasts += len(slots)
        self._issue_queue.extend(slots, first, len(self.opened), self.issued)
        return slots

    def _column(self, name: str) -> AnyArray:
        """Return a column as an array, to be dropped before there are more slots."""
        return np.frombuffer(getattr(self, name), TYPES[name])

    def steady(self) -> int:
        """Return for how many more forecasts, with no label between them, `unseen_share` stays as it is."""
        labels, forecasts = self._unseen_until
        if not self.labels:
            return sys.maxsize
        is_kept = self.labels < labels and (self.opened or self.expiries)
        return max(forecasts - self.forecasts, 1) if is_kept else 1

    def _new_slot(self) -> int:
        self.ids.append("")
        for name in COLUMNS:
            getattr(self, name).append(0)
        return len(self.ids) - 1

    def _start_aging(self, slot: int, since: int) -> None:
        self.since[slot] = since
        _, expires, lifetime = self.limits
        if expires is not None:
            self._aging.append((since, self.issued[slot], slot))
        if lifetime is not None and self.time[slot] == self.time[slot]:
            self._timed.append((self._age_from(slot), self.issued[slot], slot))

    def _age_from(self, slot: int) -> float:
        time, matures = self.time[slot], self.matures[slot]
        return matures if matures > time else time

    def _ripen(self) -> None:
        """Let forecasts whose maturity is past begin to age; their ages count from this forecast."""
        while self._ripening and self._ripening[0][0] < self.clock:
            _, issued, slot = heapq.heappop(self._ripening)
            if self.issued[slot] == issued:
                self._start_aging(slot, self.forecasts - 2)

    def unseen_share(self, *, keep: bool = False) -> float:
        """Return the share of outcomes that cannot have been seen yet, for the next forecast.

        It is computed again after about 3 % more labels or forecasts; with `keep` the present value is used until then.
        """
        if not self.labels:
            return 1.0
        if not self.opened and not self.expiries:
            return 0.0
        labels, forecasts = self._unseen_until
        if self.labels < labels and self.forecasts < forecasts:
            return self._unseen
        share = self.delays.unseen(self._ages())
        if keep:
            self._unseen = share
            self._unseen_until = tuple(n + max(1, n // 32) for n in (self.labels, self.forecasts))
        return share

    def _ages(self) -> Integers:
        """Return the numbers of forecasts issued since each open one, not increasing."""
        return self.forecasts - 1 - self._issue_queue.numbers(self.issued)

    def book(
        self, ids: "Sequence[Id] | None", y: Sequence[float], times: Sequence[float] | None, weighted: int = 0
    ) -> None:
        """Record forecasts whose labels came at once and were learned; `weighted` of them had a weight."""
        n = len(y)
        self.labels += n
        self.weighted += weighted
        for each in y:  # in order: sums of other orders differ in their last bits
            self.ones += each
        self.delays.add(0, n)
        self.arrival_order.learn_at_once(self.forecasts, y)
        if ids is not None:
            self.labelled.update(zip(ids, y, strict=True))
            self._forget()
        if times is not None:
            self.waits += n
        if self._aging or self._timed:
            for k in range(n):
                self._pass(1, None if times is None else times[k])
        else:
            self._pass(n, None if times is None else times[-1])

    def _pass(self, forecasts: int, time: float | None) -> None:
        """Count forecasts that are closed already; each was open when the limits were applied."""
        self.forecasts += forecasts
        self.clock = self.clock if time is None else time
        self.expire(closed=1)

    def expire(self, closed: int = 0) -> None:
        """Expire forecasts that are too many, too far back, or too old, except those whose label has come."""
        most, expires, lifetime = self.limits
        while len(self.opened) + closed > most:
            self._give_up(self._issue_queue.first(self.issued))
        if expires is not None:
            self._expire_until(self._aging, self.forecasts - 1 - expires)
        if lifetime is not None:
            while self._timed and (self._settled(self._timed[0]) or self.clock - self._timed[0][0] > lifetime):
                self._drop(self._timed.popleft())

    def give_up(self, ids: Sequence[Id]) -> None:
        """Withdraw open forecasts, except those whose label has come."""
        for slot in [self.opened[id] for id in dict.fromkeys(ids)]:
            if not self.arrived[slot]:
                self._give_up(slot)

    def _expire_until(self, aging: "deque[tuple[float, int, int]]", last: float) -> None:
        while aging and (self._settled(aging[0]) or aging[0][0] <= last):
            self._drop(aging.popleft())

    def _settled(self, entry: tuple[float, int, int]) -> bool:
        _, issued, slot = entry
        return self.issued[slot] != issued or self.arrived[slot] != 0

    def _drop(self, entry: tuple[float, int, int]) -> None:
        if not self._settled(entry):
            self._give_up(entry[2])

    def _give_up(self, slot: int) -> None:
        self.expired[self.ids[slot]] = None
        self.expiries += 1
        age = max(self.forecasts - self.issued[slot] - 1, 0)
        self.delays.lose(age)
        self.arrival_order.learn(self.issued[slot], age, math.nan)
        self._vacate(slot)
        while len(self.expired) > REMEMBERED:
            self.expired.popitem(last=False)

    def simple_slots(self, ids: Sequence[Id], times: Sequence[float] | None) -> list[int] | None:
        """Return the slots of forecasts whose labels can be learned now; None if any needs `find` and `deliver`."""
        simple = self.is_simple(timed=times is not None)
        if not ids or not simple or self.silent or self.maturity.silence is not None:
            return None
        slots = [slot for slot in map(self.opened.get, ids) if slot is not None]
        if len(slots) < len(ids) or len({*slots}) < len(ids):
            return None
        at = np.array(slots)
        early = times is not None and bool((np.array(times) < self._column("time")[at]).any())
        held = early or self._column("arrived")[at].any() or not np.isnan(self._column("matures")[at]).all()
        return None if held else slots

    def close_many(
        self, slots: Sequence[int], y: Sequence[float], weights: Sequence[float], times: Sequence[float] | None
    ) -> None:
        """Learn labels of `simple_slots`, as `deliver` and `close` one by one."""
        issued, ids = [self.issued[slot] for slot in slots], [self.ids[slot] for slot in slots]
        last = self.forecasts - 1
        delays = [last - number for number in issued]
        self.labels += len(slots)
        self.weighted += len(slots) - weights.count(1.0)
        for each in y:  # in order: sums of other orders differ in their last bits
            self.ones += each
        self.delay += sum(delays)
        for number, delay, each in zip(issued, delays, y, strict=True):
            self.delays.add(delay)
            self.arrival_order.learn(number, delay, each)
        for slot, due in zip(slots, times or (), strict=times is not None):
            made = self.time[slot]
            if due == due and made == made:
                self.wait += due - made
                self.waits += 1
        self.labelled.update(zip(ids, y, strict=True))
        self._forget()
        for id in ids:
            del self.opened[id]
        self._column("issued")[np.array(slots)] = FREE
        self._vacated += slots

    def _vacate(self, slot: int) -> None:
        del self.opened[self.ids[slot]]
        self.held -= self.arrived[slot] == ARRIVED
        self.issued[slot] = FREE
        self._vacated.append(slot)
        for _ in range(STALE):  # a few with each: a million that end together would delay one forecast
            if not self._ripening or self.issued[self._ripening[0][2]] == self._ripening[0][1]:
                return
            heapq.heappop(self._ripening)

    def reuse(self) -> None:
        """Free the slots of closed forecasts."""
        if self._vacated:
            self._free += self._vacated
            self._vacated.clear()

    def find(self, id: Id, y: float, time: float, passed: tuple[float, int] = (-math.inf, FREE)) -> int | None:
        """Return the slot of a label's forecast, or None for a repeated label. Raises for an invalid label.

        Labels that are to arrive before `passed`, or before this one, count as arrived. Returns CORRECTION for a label
        that contradicts the silence learned for its forecast.
        """
        slot = self.opened.get(id)
        if id in self.silent or (slot is not None and self._falls_silent(slot, time, passed)):
            return self._after_silence(id, y, self._report(id, slot), time, passed)
        if slot is not None and (self.arrived[slot] or self._is_planned(slot, time, passed)):
            self.compare(id, y, self.y[slot])
            return None
        if id in self.expired or (slot is not None and self._is_late(slot, time)):
            raise ExpiredIdError(f"label: given id {id!r}, whose forecast has expired, expected an open one")
        if slot is not None:
            if time < self.time[slot]:
                raise ValueError(f"label time: {self.before(time, self.time[slot])}")
            return slot
        if id not in self.labelled:
            raise UnknownIdError(f"label: given id {id!r}, expected the id of a forecast that was issued")
        self.compare(id, y, self.labelled[id])
        return None

    def _falls_silent(self, slot: int, time: float, passed: tuple[float, int]) -> bool:
        """Return whether an open forecast is learned as silence before a time or before `passed`."""
        if self.maturity.silence is None:
            return False
        matures, due = self.matures[slot], self.due[slot]
        past = not self.arrived[slot] and self.is_past(matures, self.issued[slot], time, passed)
        return past and not (due <= matures and not self._is_late(slot, due))

    def is_past(self, matures: float, issued: int, time: float, passed: tuple[float, int]) -> bool:
        """Return whether silence is an outcome, and a maturity lies before a time or before `passed`."""
        return self.maturity.silence is not None and (matures < time or (matures, SILENCES + issued) < passed)

    def _report(self, id: Id, slot: int | None) -> tuple[float, int, float] | None:
        """Return the time, number and label of a report planned for after the maturity, or None."""
        if slot is None or self.due[slot] != self.due[slot]:
            return self.reports.get(id)
        return self.due[slot], self.issued[slot], self.y[slot]

    def _after_silence(
        self, id: Id, y: float, report: tuple[float, int, float] | None, time: float, passed: tuple[float, int]
    ) -> int | None:
        """Return CORRECTION for a label that differs from silence and from any later report; otherwise None."""
        silence = self.maturity.silence
        if report is not None and report[2] != silence and (report[0] < time or report[:2] < passed):
            self.compare(id, y, report[2])
            return None
        return None if y == silence else CORRECTION

    def correct(self, id: Id, y: float, time: float) -> Iterator[int]:
        """Enter a report on a forecast that is learned as silence; yield the slots to be learned before it."""
        if id in self.opened:
            yield from self._until((time, FREE))
        self._record_correction(id, y)

    def _record_correction(self, id: Id, y: float) -> None:
        if id in self.silent:
            self.silent.remove(id)
            self.labelled[id] = y
        self.reports.pop(id, None)
        self.corrections += 1

    def _take_reports(self, limit: tuple[float, int]) -> None:
        """Enter reports that were known beforehand and are due."""
        while self._reports_ahead and self._reports_ahead[0][:2] < limit:
            when, issued, id = heapq.heappop(self._reports_ahead)
            if id in self.reports and self.reports[id][:2] == (when, issued):
                self._record_correction(id, self.reports[id][2])

    def _is_planned(self, slot: int, time: float, passed: tuple[float, int]) -> bool:
        """Return whether a label is to arrive before a time or before `passed`, and not too late to be learned."""
        due = self.due[slot]
        return due == due and (due < time or (due, self.issued[slot]) < passed) and not self._is_late(slot, due)

    def find_all(self, events: Sequence[tuple[Id, float, float]]) -> list[int | None]:
        """Return what `find` would for each (id, label, time), those before it delivered; raise before any is."""
        slots: list[int | None] = []
        known: dict[Id, float] = {}
        passed = (-math.inf, FREE)
        try:
            for id, y, time in events:
                if id in known:
                    self.compare(id, y, known[id])
                    slots.append(None)
                    continue
                slot = self.find(id, y, time, passed)
                slots.append(slot)
                if slot is not None:
                    known[id] = y
                    passed = max(passed, self.passed_by(id, slot, time)) if time == time else passed
        except ValueError as error:
            raise in_row(len(slots), error) from None
        return slots

    def passed_by(self, id: Id, slot: int, time: float) -> tuple[float, int]:
        """Return the time and number up to which labels have arrived once this label is delivered."""
        if slot == CORRECTION:
            return time if id in self.opened else -math.inf, FREE
        return time, self.passed_number(self.issued[slot])

    def passed_number(self, number: int) -> int:
        """Return up to which number labels of the same time have arrived with that of a forecast; FREE if none have.

        Where bursts are shuffled, labels of one time are learned together, later.
        """
        return number if self.maturity.burst is None else FREE

    def compare(self, id: Id, y: float, known: float) -> None:
        """Raise ConflictingLabelError for a label that contradicts an earlier one."""
        if known != y:
            given, before = self.span.value(y), self.span.value(known)
            raise ConflictingLabelError(f"label: given {given:g} for id {id!r}, which was labelled {before:g}")

    def _is_late(self, slot: int, time: float) -> bool:
        return self.limits.lifetime is not None and time - self._age_from(slot) > self.limits.lifetime

    def deliver_alone(self, slot: int, y: float, time: float, weight: float = 1.0) -> bool:
        """Enter a label that is learned now and affects no other; otherwise return False and change nothing."""
        matures = self.matures[slot]
        if self._ahead or self._ready or self.patience is not None or matures == matures or self._waits_for(time):
            return False
        self.y[slot], self.due[slot], self.arrived[slot], self.weight[slot] = y, time, 1, weight
        self.held += 1
        return True

    def deliver(self, slot: int, y: float, time: float, weight: float = 1.0) -> Iterator[int]:
        """Enter a label, after all that arrive or mature before it; yield the slots to be learned now."""
        self.y[slot], self.due[slot], self.weight[slot] = y, time, weight
        if self._waits_for(time):
            yield from self._until((time, FREE))
            self.arrived[slot] = 1
            self.held += 1
            heapq.heappush(self._ahead, (self._learned_at(slot), self.issued[slot], slot))
            return
        if time == time and self._ahead:
            yield from self._until((time, self.issued[slot]))
        if self._arrives(slot):
            yield slot
        if self._ready:
            yield from self._released()

    def _waits_for(self, time: float) -> bool:
        """Return whether a label is learned with the others of its time, once the clock has passed that."""
        return self.maturity.burst is not None and time == time

    def _learned_at(self, slot: int) -> float:
        """Return when an arrived label is learned."""
        due, matures = self.due[slot], self.matures[slot]
        return due if self._waits_for(due) and not matures > due else matures

    def next_due(self, before: float) -> int:
        """Return the slot of the next label to be learned before a forecast made at a time, FREE without one.

        Without patience, and without bursts.
        """
        ahead = self._ahead
        while ahead and ahead[0][0] < before:
            slot = self._handed_on(heapq.heappop(ahead))
            if slot != FREE:
                return slot
        return FREE

    def earliest(self) -> float:
        """Return the time at which the next label arrives, matures or becomes silence; infinity without one."""
        ahead = self._ahead
        while ahead and self.issued[ahead[0][2]] != ahead[0][1] % SILENCES:  # it was closed meanwhile
            heapq.heappop(ahead)
        return ahead[0][0] if ahead else math.inf

    def fall_due(self, before: float) -> Iterator[int]:
        """Yield the slots of labels to be learned before a forecast made at a time (NaN if unknown)."""
        if before == before:
            yield from self._until((before, FREE))
        yield from self._released()

    def _until(self, limit: tuple[float, int]) -> Iterator[int]:
        if self._reports_ahead:
            self._take_reports(limit)
        while self._ahead and self._ahead[0][:2] < limit:
            if self.maturity.burst is not None:
                yield from self._together(self._ahead[0][0], self.maturity.burst)
                continue
            held = self.held
            slot = self._handed_on(heapq.heappop(self._ahead))
            settled = self.held > held or slot != FREE
            if slot != FREE:
                yield slot
            if settled and self._ready:
                yield from self._released()

    def _together(self, when: float, burst: int) -> Iterator[int]:
        """Yield the slots of labels of one time: in order of issue, or hashed from ids if it is a burst."""
        slots_due: dict[int, None] = {}
        while self._ahead and self._ahead[0][0] == when:
            slots_due[self._handed_on(heapq.heappop(self._ahead))] = None
        slots = [slot for slot in slots_due if slot != FREE]
        if len(slots) >= burst:
            slots.sort(key=lambda slot: event_key(f"burst {self.seed} {self.ids[slot]}"))
        for self.moment in range(len(slots) - 1, -1, -1):
            yield slots[len(slots) - 1 - self.moment]

    def _handed_on(self, entry: tuple[float, int, int]) -> int:
        """Enter a label that arrives or matures now; return its slot if it is to be learned now."""
        when, issued, slot = entry
        if issued >= SILENCES:
            return slot if self._fell_silent(slot, issued - SILENCES) else FREE
        if self.issued[slot] != issued:
            return FREE
        if self.arrived[slot]:
            return slot if when == self._learned_at(slot) else FREE  # else it was delivered before
        if when != self.due[slot]:
            return FREE
        if self._is_late(slot, when):  # refused as by hand; the forecast expires by the clock
            self.due[slot] = self.y[slot] = math.nan
            self.weight[slot] = 1.0
            return FREE
        return slot if self._arrives(slot) else FREE

    def _fell_silent(self, slot: int, issued: int) -> bool:
        """Use silence as the label of a forecast whose maturity is past, unless it has a label or is closed."""
        if self.issued[slot] != issued or self.arrived[slot]:
            return False
        silence, y, due = self.maturity.silence, self.y[slot], self.due[slot]
        assert silence is not None, "only then is silence due"
        if due == due and y != silence:
            self.reports[self.ids[slot]] = due, issued, y
            heapq.heappush(self._reports_ahead, (due, issued, self.ids[slot]))
        self.y[slot], self.due[slot], self.arrived[slot] = silence, self.matures[slot], SILENT
        self.weight[slot] = 1.0
        return True

    def is_silence(self, slot: int) -> bool:
        """Return whether a slot's forecast was learned as silence; valid until the slot is used again."""
        return self.arrived[slot] == SILENT

    def _arrives(self, slot: int) -> bool:
        """Enter a label that arrives; return whether it is to be learned now."""
        self.arrived[slot] = 1
        self.held += 1
        matures = self.matures[slot]
        if matures > self.clock and not matures <= self.due[slot]:
            heapq.heappush(self._ahead, (matures, self.issued[slot], slot))
            return False
        if self.patience is not None and matures != matures:
            heapq.heappush(self._ready, (self.issued[slot], slot))
            return False
        return True

    def _released(self) -> Iterator[int]:
        """Yield the slots of labels that no longer wait for an earlier forecast."""
        while self._ready and self._ready[0][0] < self._front():
            issued, slot = heapq.heappop(self._ready)
            if self.issued[slot] == issued:
                yield slot

    def _front(self) -> int:
        """Return the number of the first forecast that labels of later ones wait for."""
        assert self.patience is not None, "labels wait for others only with patience"
        far = self.forecasts - 1 - self.patience
        while self._awaited:
            issued, slot = self._awaited[0]
            if issued >= far and self.issued[slot] == issued and not self.arrived[slot]:
                return issued
            self._awaited.popleft()
        return self.forecasts

    def close(self, slot: int) -> float:
        """Record that a label is learned, and its delay; return the label."""
        y, due, time = self.y[slot], self.due[slot], self.time[slot]
        delay = self.forecasts - self.issued[slot] - 1
        self.labels += 1
        self.weighted += self.weight[slot] != 1.0
        self.ones += y
        self.delay += delay
        self.delays.add(delay)
        self.arrival_order.learn(self.issued[slot], delay, y)
        if due == due and time == time:
            self.wait += max(due, self._age_from(slot)) - time
            self.waits += 1
        self.labelled[self.ids[slot]] = y
        if self.arrived[slot] == SILENT:
            self.silences += 1
            self.silent.add(self.ids[slot])
        if len(self.labelled) > REMEMBERED:
            self._forget()
        self._vacate(slot)
        return y

    def _forget(self) -> None:
        """Labels are kept to recognise duplicates; the oldest are forgotten first."""
        while len(self.labelled) > REMEMBERED:
            self._forget_report(self.labelled.popitem(last=False)[0])

    def _forget_report(self, id: Id) -> None:
        self.silent.discard(id)
        self.reports.pop(id, None)

    def release(self) -> list[Id]:
        """Drop the ids that are labelled or have expired; return the latter, in order."""
        expired = [*self.expired]
        for known in (self.labelled, self.expired, self.silent, self.reports, self._reports_ahead):
            known.clear()
        return expired

    def status(self) -> Status:
        """Return coverage and delays so far."""
        oldest = self.issued[self._issue_queue.first(self.issued)] if self.opened else self.forecasts
        return Status(
            self.forecasts,
            self.labels,
            len(self.opened),
            self.labels / self.forecasts if self.forecasts else math.nan,
            self.delay / self.labels if self.labels else math.nan,
            self.wait / self.waits if self.waits else math.nan,
            float(self.forecasts - oldest),
            self.expiries,
            self.held,
            self.silences,
            self.corrections,
            ones=self.span.low * self.labels + self.span.width * self.ones,
            unseen=self.delays.unseen(self._ages()) if self.opened or self.expiries else float(not self.labels),
            earlier=self.arrival_order.earlier,
            later=self.arrival_order.later,
            weighted=self.weighted,
            low=self.span.low,
            high=self.span.high,
            windowless=0 if self.maturity.silence is None else self._windowless(),
        )

    def _windowless(self) -> int:
        """Count the open forecasts whose maturity is not known."""
        return int((np.isnan(np.array(self.matures)) & (np.array(self.issued, np.int64) != FREE)).sum())

    def in_order(self) -> list[int]:
        """Return the open forecasts' slots in order of issue."""
        issued = np.array(self.issued, np.int64)
        slots = np.flatnonzero(issued != FREE)
        ordered: list[int] = slots[np.argsort(issued[slots])].tolist()
        return ordered

    def frozen(self) -> "OpenForecasts":
        """Return a copy with all that `to_state` needs: columns, ids and counts, not the queues."""
        still = copy.copy(self)
        for name in (*COLUMNS, "ids", "labelled", "expired", "silent", "reports"):
            setattr(still, name, copy.copy(getattr(self, name)))
        still.delays, still.arrival_order = copy.deepcopy(self.delays), copy.copy(self.arrival_order)
        still.arrival_order.halves = self.arrival_order.halves.copy()
        return still

    def to_state(self) -> State:
        """Return the state, open forecasts in order of issue."""
        order = self.in_order()
        columns = {name: np.array(getattr(self, name), SAVED.get(name)) for name in COLUMNS}
        arrays: dict[str, Any] = {f"open.{name}": column[order] for name, column in columns.items()}
        arrays["open.ids"] = packed(self.ids[slot] for slot in order)
        arrays["labelled.ids"] = packed(self.labelled)
        arrays["labelled.y"] = np.array([*self.labelled.values()], np.float64)
        arrays["expired.ids"] = packed(self.expired)
        counts = {name: getattr(self, name) for name in (*COUNTS, *SILENCE_COUNTS)}
        arrays["silent.ids"] = packed(id for id in self.labelled if id in self.silent)
        arrays["reports.ids"] = packed(self.reports)
        arrays["reports.of"] = np.array([*self.reports.values()], np.float64).reshape(-1, 3)
        arrays |= {f"delays.{name}": column for name, column in self.delays.to_arrays().items()}
        arrays["pairs.halves"] = self.arrival_order.to_array()
        counts["pairs"] = [self.arrival_order.earlier, self.arrival_order.later]
        counts["unseen"] = [self._unseen, *self._unseen_until]
        clock = self.clock if math.isfinite(self.clock) else None
        return State(arrays, counts | {"clock": clock} | self.calendar._asdict())

    @classmethod
    def from_state(
        cls,
        state: State,
        limits: OpenLimits,
        patience: int | None,
        maturity: Maturity = NO_MATURITY,
        span: Span = UNIT,
        seed: int = 0,
    ) -> "OpenForecasts":
        """Rebuild from `to_state`; open forecasts take the first slots, in order of issue."""
        open_forecasts, (arrays, manifest) = cls(limits, patience, maturity, span, seed), state
        for name in (*COUNTS, *SILENCE_COUNTS):
            setattr(open_forecasts, name, manifest.get(name, 0))
        open_forecasts.clock = -math.inf if manifest["clock"] is None else manifest["clock"]
        open_forecasts.calendar = Calendar(manifest["dated"], manifest.get("zoned"))
        for name in COLUMNS:
            column = arrays[f"open.{name}"] if f"open.{name}" in arrays else np.ones(len(arrays["open.y"]))
            setattr(open_forecasts, name, array(WHOLE.get(name, "d"), column.tolist()))
        open_forecasts.ids = unpacked(arrays["open.ids"])
        open_forecasts.opened = {id: slot for slot, id in enumerate(open_forecasts.ids)}
        open_forecasts.labelled = OrderedDict(
            zip(unpacked(arrays["labelled.ids"]), arrays["labelled.y"].tolist(), strict=True)
        )
        open_forecasts.expired = OrderedDict.fromkeys(unpacked(arrays["expired.ids"]))
        every = [*open_forecasts.ids, *open_forecasts.labelled, *open_forecasts.expired]
        if (
            not all(map(is_id, every))
            or len({*every}) != len(every)
            or len(open_forecasts.ids) != len(arrays["open.y"])
        ):
            raise ArchiveError("ids: given what is no id, one twice, or too few, expected one for each forecast")
        if "silences" in manifest:
            open_forecasts._restore_silence(arrays)
            open_forecasts._restore_delays(state)
        elif open_forecasts.labels:
            open_forecasts.delays.add(round(open_forecasts.delay / open_forecasts.labels), open_forecasts.labels)
        open_forecasts._reschedule()
        if open_forecasts._ready and patience is None:
            raise ArchiveError("open.matures: given none for a label that is held, expected when it matures")
        return open_forecasts

    def _restore_silence(self, arrays: Any) -> None:
        """Restore the labels that were silence, and the planned reports."""
        self.silent = {*unpacked(arrays["silent.ids"])}
        ids, of = unpacked(arrays["reports.ids"]), arrays["reports.of"].tolist()
        if len(ids) != len(of) or not self.silent <= self.labelled.keys() or not {*ids} <= self.silent:
            raise ArchiveError("silent.ids: given ids without a label, expected some of those labelled")
        self.reports = {id: (when, int(issued), y) for id, (when, issued, y) in zip(ids, of, strict=True)}
        self._reports_ahead = sorted((when, issued, id) for id, (when, issued, _) in self.reports.items())

    def _restore_delays(self, state: State) -> None:
        """Restore the delays of labels, and the order of arrival within pairs."""
        names = ("seen", "lost", "longest")
        self.delays = OutcomeDelays.from_arrays({name: state.arrays[f"delays.{name}"] for name in names})
        self.arrival_order.restore(state.arrays["pairs.halves"])
        self.arrival_order.earlier, self.arrival_order.later = state.manifest["pairs"]
        self._unseen, labels, forecasts = state.manifest["unseen"]
        self._unseen_until = int(labels), int(forecasts)

    def _reschedule(self) -> None:
        """Rebuild every queue from the open forecasts."""
        self.held = sum(self.arrived)
        in_order = [(issued, slot) for slot, issued in enumerate(self.issued)]
        for issued, slot in in_order:
            self._issue_queue.append(slot, issued, len(in_order), self.issued)
        if self.patience is not None:
            self._awaited.extend(in_order)
        for issued, slot in in_order:
            matures = self.matures[slot]
            if self.arrived[slot] and (matures == matures or self._waits_for(self.due[slot])):
                heapq.heappush(self._ahead, (self._learned_at(slot), issued, slot))
            elif self.arrived[slot]:
                heapq.heappush(self._ready, (issued, slot))
            elif self.y[slot] != self.y[slot]:
                self.due[slot] = math.nan  # some files have a label's time but no label
            elif self.due[slot] == self.due[slot]:
                heapq.heappush(self._ahead, (self.due[slot], issued, slot))
            if matures == matures and not self.arrived[slot] and self.maturity.silence is not None:
                heapq.heappush(self._ahead, (matures, SILENCES + issued, slot))
            if self.since[slot] == FREE:
                heapq.heappush(self._ripening, (matures, issued, slot))
        for slot in sorted((slot for _, slot in in_order if self.since[slot] != FREE), key=self._age):
            self._start_aging(slot, self.since[slot])

    def _age(self, slot: int) -> tuple[int, bool, float]:
        """Return the sort key of the order in which forecasts began to age: those that matured came second."""
        return self.since[slot], self.matures[slot] > self.time[slot], self._age_from(slot)
