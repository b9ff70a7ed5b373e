"""Which forecasts wait for their label, which have it, and how long it took."""

import heapq
import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swapcal.arrays import Array
from swapcal.live.ids import Id

REMEMBERED = 1_000_000  # labelled ids kept to recognise duplicates, and as many expired ones


class UnknownIdError(ValueError):
    """A label for an id that no forecast was issued for."""


class ExpiredIdError(UnknownIdError):
    """A label for an id whose forecast has expired: it is counted as unlabelled for good."""


class ConflictingLabelError(ValueError):
    """A second label for an id that differs from the first, or a second forecast that differs from the first."""


class Status(NamedTuple):
    """Label coverage and delay. Delays count forecasts issued meanwhile, and time where times were given."""

    forecasts: int
    labels: int
    open: int
    coverage: float
    """labels / forecasts; NaN before the first forecast"""
    mean_delay: float
    """mean number of later forecasts issued before a label came"""
    mean_wait: float
    """mean time from forecast to label, in the unit of the times given; NaN without times"""
    oldest_open: float
    """number of forecasts issued since the oldest one still open"""
    expired: int = 0
    """forecasts given up unlabelled: forecasts = labels + open + expired"""


class Limits(NamedTuple):
    """How many forecasts may be open, and for how long."""

    max_open: int = REMEMBERED
    expires: int | None = None
    """later forecasts after which one expires"""
    lifetime: float | None = None
    """time after which one expires"""


NO_LIMITS = Limits()


@dataclass
class Open:
    """A forecast whose label has not come: what every learner saw."""

    id: Id
    ticket: Array
    x: Array
    keys: NDArray[np.uint64]
    values: Array
    memory: Array
    judged: Array
    issued: int
    fingerprint: int = 0
    time: float = math.nan
    due: float = math.nan
    """when its label will come, if that is known already"""
    y: float = math.nan
    """the label that will come"""
    record: Any = None


@dataclass
class Ledger:
    """Open forecasts by id in order of issue, labels by id, and the delays seen."""

    limits: Limits = NO_LIMITS
    forecasts: int = 0
    labels: int = 0
    expiries: int = 0
    delay: float = 0.0
    wait: float = 0.0
    waits: int = 0
    clock: float = -math.inf
    """the latest forecast time"""
    opened: OrderedDict[Id, Open] = field(default_factory=OrderedDict)
    labelled: OrderedDict[Id, float] = field(default_factory=OrderedDict)
    expired: OrderedDict[Id, None] = field(default_factory=OrderedDict)
    _due: list[tuple[float, int, Id]] = field(default_factory=list)
    _timed: deque[Open] = field(default_factory=deque)
    """open forecasts with a time, in its order; some may be closed"""

    def knows(self, id: Id) -> bool:
        """Tell whether an id is taken, as far as is remembered."""
        return id in self.opened or id in self.labelled or id in self.expired

    def admit(self, entries: list[Open]) -> None:
        """Take in forecasts, in order; the limits may make older ones expire."""
        for entry in entries:
            self.opened[entry.id] = entry
            if not math.isnan(entry.due):
                heapq.heappush(self._due, (entry.due, entry.issued, entry.id))
            if not math.isnan(entry.time):
                self.clock = entry.time
                self._timed.append(entry)
        self.forecasts += len(entries)
        self.expire()

    def book(self, ids: "Sequence[Id] | None", y: Sequence[float], times: Sequence[float] | None) -> None:
        """Record forecasts whose labels came at once."""
        self.forecasts += len(y)
        self.labels += len(y)
        if ids is not None:
            self.remember(ids, y)
        if times is not None:
            self.clock = times[-1]
            self.waits += len(y)
        self.expire()

    def expire(self) -> None:
        """Give up the forecasts that are too many, too far back, or too old."""
        most, expires, _ = self.limits
        while len(self.opened) > most:
            self._give_up(next(iter(self.opened.values())))
        while expires is not None and self.opened:
            oldest = next(iter(self.opened.values()))
            if self.forecasts - oldest.issued - 1 < expires:
                break
            self._give_up(oldest)
        while self._timed and (self._is_closed(self._timed[0]) or self.is_late(self._timed[0], self.clock)):
            entry = self._timed.popleft()
            if not self._is_closed(entry):
                self._give_up(entry)

    def is_late(self, entry: Open, time: float) -> bool:
        """Tell whether a label that comes at a time comes after the forecast's lifetime."""
        return self.limits.lifetime is not None and time - entry.time > self.limits.lifetime

    def _is_closed(self, entry: Open) -> bool:
        return self.opened.get(entry.id) is not entry

    def _give_up(self, entry: Open) -> None:
        del self.opened[entry.id]
        self.expired[entry.id] = None
        self.expiries += 1
        while len(self.expired) > REMEMBERED:
            self.expired.popitem(last=False)

    def find(self, id: Id, y: float, time: float) -> Open | None:
        """Return the open forecast to learn from; None for a repeated label; raise for one that cannot be right."""
        entry = self.opened.get(id)
        if id in self.expired or (entry is not None and self.is_late(entry, time)):
            raise ExpiredIdError(f"label: given id {id!r}, whose forecast has expired, expected an open one")
        if entry is not None:
            return entry
        if id not in self.labelled:
            raise UnknownIdError(f"label: given id {id!r}, expected the id of a forecast that was issued")
        if self.labelled[id] != y:
            raise ConflictingLabelError(f"label: given {y:g} for id {id!r}, which was labelled {self.labelled[id]:g}")
        return None

    def close(self, entry: Open, y: float, time: float) -> None:
        """Record that a label came, and how long it took."""
        del self.opened[entry.id]
        self.remember([entry.id], [y])
        self.labels += 1
        self.delay += self.forecasts - entry.issued - 1
        if not math.isnan(time - entry.time):
            self.wait += time - entry.time
            self.waits += 1

    def remember(self, ids: Sequence[Id], y: Sequence[float]) -> None:
        """Keep labels to recognise duplicates; the oldest are forgotten first."""
        self.labelled.update(zip(ids, y, strict=True))
        while len(self.labelled) > REMEMBERED:
            self.labelled.popitem(last=False)

    def pop_due(self, before: float) -> list[Open]:
        """Return the forecasts whose known labels come before a time, in order of arrival."""
        found = []
        while self._due and self._due[0][0] < before:
            entry = self.opened.get(heapq.heappop(self._due)[2])
            if entry is not None and self.is_late(entry, entry.due):
                self._give_up(entry)
            elif entry is not None:
                found.append(entry)
        return found

    def earliest_due(self) -> float:
        """Return when the next known label comes."""
        return self._due[0][0] if self._due else math.inf

    def reschedule(self) -> None:
        """Rebuild the schedule from the open forecasts."""
        entries = self.opened.values()
        self._timed = deque(entry for entry in entries if not math.isnan(entry.time))
        self._due = [(entry.due, entry.issued, entry.id) for entry in entries if not math.isnan(entry.due)]
        heapq.heapify(self._due)

    def status(self) -> Status:
        """Return coverage and delays so far."""
        nan = math.nan
        oldest = next((entry.issued for entry in self.opened.values()), self.forecasts)
        return Status(
            self.forecasts,
            self.labels,
            len(self.opened),
            self.labels / self.forecasts if self.forecasts else nan,
            self.delay / self.labels if self.labels else nan,
            self.wait / self.waits if self.waits else nan,
            float(self.forecasts - oldest),
            self.expiries,
        )


def stacked(entries: Iterable[Open], name: str, dtype: Any = np.float64) -> NDArray[Any]:
    """Stack one array of many forecasts, the shorter ones followed by zeros: coordinates that did not exist yet."""
    rows = [getattr(entry, name) for entry in entries]
    width = max((len(row) for row in rows), default=0)
    table = np.zeros((len(rows), width), rows[0].dtype if rows else dtype)
    for k, row in enumerate(rows):
        table[k, : len(row)] = row
    return table
