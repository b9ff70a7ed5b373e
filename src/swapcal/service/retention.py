"""Retention: how much of a log may go, and what goes with it."""

import re
import time
from typing import NamedTuple

from swapcal.service.commands import CommandHandler
from swapcal.service.events import OUTCOME
from swapcal.service.settings import Limits
from swapcal.service.snapshots import Still, recover
from swapcal.service.sql import PAGE, Occupied, Removal
from swapcal.service.store import Store

UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
SPARE = 2
"""Snapshots from which the state can still be had afterwards, if there are so many: one may turn out damaged."""


class Pruning(NamedTuple):
    """What would be removed of one forecaster's log: everything settled before an event."""

    forecaster: str
    before: int
    limited: bool
    """whether more was requested than the snapshots allow"""
    loss: Removal


def seconds(age: str) -> float:
    """Return an age written as a number of hours, days or weeks.

    Examples
    --------
    >>> seconds("90d") / 86400, seconds("36h") / 86400
    (90.0, 1.5)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", age.strip())
    if found is None:
        raise ValueError(f"age: given {age!r}, expected a number of hours, days or weeks, such as 36h, 90d or 52w")
    return float(found[1]) * UNITS[found[2]]


def plan(store: Store, forecaster: str, wanted: int, *, waiting: bool = False) -> Pruning:
    """Return what may be removed before an event: never more than the snapshots can make up for."""
    usable = [kept.seq for kept in store.snapshots(forecaster)][:SPARE]
    before = min(wanted, min(usable, default=1))
    return Pruning(forecaster, before, before < wanted, store.loss(forecaster, before, waiting=waiting))


def withdraw(store: Store, forecaster: str, before: int) -> int:
    """Give up the open forecasts whose events are all before an event, and keep the state without them.

    Else they would stay open in the state, and ids that come again would meet them there. Returns how many there were.

    Parameters
    ----------
    store : Store
        Opened for a learner, which no other process is meanwhile.
    """
    if not store.claim(forecaster):
        raise Occupied(f"store: another process is the learner of {forecaster!r}")
    hosted, withdrawn = recover(store, forecaster).hosted, 0
    waiting = [*hosted.opened]
    for start in range(0, len(waiting), PAGE):
        ids = waiting[start : start + PAGE]
        about = store.about(forecaster, ids)
        kept = {event.id for event in about if event.seq >= before or event.kind == OUTCOME}
        old = [id for id in ids if id not in kept]
        if old:
            handler = CommandHandler(hosted, {}, time.time(), Limits())
            handler.withdraw(old)
            store.append(handler.events)
            withdrawn += len(old)
    if withdrawn:
        store.keep_snapshot(forecaster, hosted.seq, Still(hosted).to_bytes())
    return withdrawn


def older_than(store: Store, forecaster: str, moment: float) -> int:
    """Return the number of the first event at a moment or later; times never go back in a log."""
    low, high = 1, store.last(forecaster) + 1
    while low < high:
        middle = (low + high) // 2
        event = next(store.events(forecaster, after=middle - 1))
        if event.time < moment:
            low = event.seq + 1
        else:
            high = middle
    return low


def all_but(store: Store, forecaster: str, count: int) -> int:
    """Return the number of the first event of the last few."""
    if count < 1:
        raise ValueError(f"keep: given {count}, expected at least 1")
    return max(store.last(forecaster) - count + 1, 1)
