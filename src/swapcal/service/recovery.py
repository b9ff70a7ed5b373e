"""Recovery: a ward from its newest snapshot that can be read, and the log since."""

import time
from typing import NamedTuple

from swapcal.archive import ArchiveError
from swapcal.service.event import in_pages
from swapcal.service.snapshot import restored
from swapcal.service.store import Store
from swapcal.service.stored import Unreadable
from swapcal.service.ward import Ward, fresh_ward

PAGE = 4096


class Recovered(NamedTuple):
    """A ward that is as the log says, and what it took."""

    ward: Ward
    snapshot: int
    """number of the event that the snapshot was taken after; 0 without one"""
    replayed: int
    seconds: float


def recover(store: Store, name: str) -> Recovered:
    """Return a forecaster's ward: its newest readable snapshot, and every later event."""
    began = time.perf_counter()
    ward, refusals = _from_snapshot(store, name)
    why = f" ({'; '.join(refusals)})" if refusals else ""
    snapshot = 0 if ward is None else ward.seq
    events = store.events(name, after=snapshot)
    if ward is None:
        first = next(events, None)
        if first is None or first.seq != 1:
            raise Unreadable(f"store: the log of {name!r} has lost its first events, and no snapshot can be read{why}")
        ward = fresh_ward(first)
    for page in in_pages(events, PAGE):
        if page[0].seq != ward.seq + 1 or page[-1].seq != ward.seq + len(page):
            raise Unreadable(f"store: the log of {name!r} has a gap after event {ward.seq}{why}")
        ward.apply(page)
    return Recovered(ward, snapshot, ward.seq - snapshot, time.perf_counter() - began)


def _from_snapshot(store: Store, name: str) -> tuple[Ward | None, list[str]]:
    """Return the ward of the newest snapshot that can be read, and why newer ones cannot."""
    refusals: list[str] = []
    for kept in store.snapshots(name):
        try:
            return restored(store.snapshot(name, kept.seq)), refusals
        except (Unreadable, ArchiveError) as error:
            refusals.append(f"that of event {kept.seq:,}: {error}")
    return None, refusals
