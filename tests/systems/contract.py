"""The contract of the service, checked from outside: answers against the log, the log against itself, states.

Acknowledged is there; the first outcome wins; an outcome is learned once, and not before it is mature; the log only
grows, but for what was pruned; the state is what the log makes of a fresh forecaster, and replay finds no difference.
"""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from swapcal.service import events as bodies
from swapcal.service.events import CORRECTION, FORECAST, OUTCOME, PARKED, SILENCE, Event
from swapcal.service.history import _start, replay
from swapcal.service.messages import CorrectionOut, ForecastOut, OutcomeOut, OutcomeRowIn
from swapcal.service.settings import Settings
from swapcal.service.snapshots import PAGE, Still
from swapcal.service.store import Store


class Broken(AssertionError):  # noqa: N818
    """A promise that was not kept."""


def expect(kept: bool, promise: str, **facts: Any) -> None:
    """Raise `Broken` unless a promise was kept."""
    if not kept:
        raise Broken(f"{promise}: " + ", ".join(f"{name} {value!r}" for name, value in facts.items()))


class Acknowledged(NamedTuple):
    """What a client was told is on disk: the event with this number, of one of these kinds, and what is in it."""

    seq: int
    kinds: tuple[str, ...]
    id: str
    body: tuple[Any, ...]


def content(event: Event) -> tuple[Any, ...]:
    """Return what an answer repeats of an event."""
    if event.kind == FORECAST:
        body = bodies.forecast_body(event.body)
        return body.p, body.mean, body.low, body.high, body.weight
    if event.kind == CORRECTION:
        correction = bodies.correction_body(event.body)
        return correction.y, correction.before, correction.reason
    outcome = bodies.outcome_body(event.body)
    return outcome.y, outcome.counts


class Contract:
    """What was acknowledged of one forecaster, and its log as it was seen so far."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.log: dict[int, Event] = {}
        self.acknowledged: set[Acknowledged] = set()
        self.latest = -float("inf")
        """the latest time that any clock showed: by it early outcomes may have lapsed"""

    # ------------------------------------------------------------------ answers

    def forecast(self, answer: ForecastOut) -> None:
        """Take an answer to a forecast."""
        body = (answer.p, answer.mean, answer.low, answer.high, answer.weight)
        self.acknowledged.add(Acknowledged(answer.seq, (FORECAST,), answer.id, body))

    def outcome(self, answer: OutcomeOut, given: OutcomeRowIn) -> None:
        """Take an answer to an outcome."""
        expect(answer.y == given.y, "an outcome is acknowledged as given", given=given, answer=answer)
        kinds = {"parked": (PARKED,), "repeated": (OUTCOME, PARKED)}.get(answer.state, (OUTCOME,))
        self.acknowledged.add(Acknowledged(answer.seq, kinds, answer.id, (given.y, given.weight)))

    def correction(self, answer: CorrectionOut) -> None:
        """Take an answer to a correction."""
        body = (answer.y, answer.before, answer.reason)
        self.acknowledged.add(Acknowledged(answer.seq, (CORRECTION,), answer.id, body))

    # ------------------------------------------------------------------ the log

    def read(self, store: Store, removed_before: int = 1, *, waiting: bool = False) -> None:
        """Read the log: it has grown at its end, and lost nothing but what pruning before an event may remove."""
        found = {event.seq: event for event in store.events(self.settings.name)}
        known, last = self.log, max(self.log, default=0)
        gone = {seq: event for seq, event in known.items() if seq not in found}
        changed = [seq for seq, event in known.items() if found.get(seq, event) != event]
        expect(not changed, "the log is never rewritten", events=changed)
        added = sorted(seq for seq in found if seq > last)
        expect(added == [*range(last + 1, last + 1 + len(added))], "numbers have no gap", after=last, found=added)
        expect(all(seq > last or seq in known for seq in found), "the log only grows at its end", last=last)
        self._may_be_gone(gone, found, removed_before, waiting=waiting)
        self.log = found
        self._is_consistent()
        self._holds_what_was_acknowledged(gone)

    def _may_be_gone(
        self, gone: Mapping[int, Event], found: Mapping[int, Event], before: int, *, waiting: bool
    ) -> None:
        late = [seq for seq in gone if seq >= before or seq == 1]
        expect(not late, "what is after the boundary stays", boundary=before, gone=late)
        ids = {event.id for event in gone.values() if event.id}
        half = [event.seq for event in found.values() if event.id in ids and event.seq < before]
        expect(not half, "an id goes as a whole", left=half)
        if not waiting:
            settled = {event.id for event in gone.values() if event.kind in (OUTCOME, SILENCE)}
            expect(ids <= settled, "forecasts without an outcome stay", gone=sorted(ids - settled))

    def _holds_what_was_acknowledged(self, gone: Iterable[int]) -> None:
        removed = {*gone}
        self.acknowledged = {one for one in self.acknowledged if one.seq not in removed}
        for one in self.acknowledged:
            event = self.log.get(one.seq)
            there = event is not None and event.kind in one.kinds and event.id == one.id and content(event) == one.body
            expect(there, "what was acknowledged is in the log", acknowledged=one, log=event)

    def _is_consistent(self) -> None:
        by_id: dict[str, list[Event]] = {}
        before = -float("inf")
        for event in self.log.values():
            expect(event.time >= before, "the log never goes back in time", event=event.seq)
            before = event.time
            if event.id:
                by_id.setdefault(event.id, []).append(event)
        for history in by_id.values():
            self._is_one_history(history)

    def _is_one_history(self, history: list[Event]) -> None:
        """Of an id there is one forecast, one outcome at most, one silence at most, and each follows from the last."""
        of = {kind: [event for event in history if event.kind == kind] for kind in {event.kind for event in history}}
        for kind in (FORECAST, OUTCOME, SILENCE):
            expect(len(of.get(kind, [])) <= 1, f"of an id there is one {kind}", events=history)
        early = of.get(PARKED, [])
        for first, second in itertools.pairwise(early):
            expect(self._may_lapse(first), "an early outcome is not parked twice", first=first, second=second)
        if FORECAST not in of:
            expect(not of.keys() - {PARKED}, "an outcome has a forecast", events=history)
            return
        self._joins([event for event in early if event.seq < of[FORECAST][0].seq][-1:], of)
        for event in [*of.get(OUTCOME, []), *of.get(SILENCE, [])]:
            expect(event.seq > of[FORECAST][0].seq, "a forecast comes before its outcome", event=event)
            self._is_mature(of[FORECAST][0], event)

    def _may_lapse(self, early: Event) -> bool:
        return self.latest - early.time > self.settings.parked_for

    def _joins(self, early: list[Event], of: Mapping[str, list[Event]]) -> None:
        """An early outcome is that of the forecast that comes in time."""
        for event in early:
            joined = [one for one in of.get(OUTCOME, []) if bodies.outcome_body(one.body).parked]
            same = bool(joined) and content(joined[0]) == content(event)
            expect(same or self._may_lapse(event), "an early outcome is joined with its forecast", early=event)

    def _is_mature(self, forecast: Event, learned: Event) -> None:
        """Nothing is learned, and no silence assumed, before its maturity by the service's clock."""
        body = bodies.forecast_body(forecast.body)
        window = self.settings.matures
        if body.time is not None or (body.matures is None and not isinstance(window, float)):
            return
        end = body.matures if body.matures is not None else forecast.time + float(window or 0.0)
        at_once = learned.kind == SILENCE or bodies.outcome_body(learned.body).state == "learned"
        expect(not at_once or learned.time >= end, "nothing is learned before its maturity", event=learned, end=end)

    # ------------------------------------------------------------------ states

    def state(self, hosted: Any, store: Store) -> None:
        """The state of a learner is what the log makes of a fresh one, and has learned each outcome once."""
        name = self.settings.name
        fresh = _start(store, name)
        rest = [*store.events(name, after=fresh.seq)]
        for start in range(0, len(rest), PAGE):
            fresh.apply(rest[start : start + PAGE])
        expect(hosted.seq == fresh.seq, "a learner is where its log is", learner=hosted.seq, log=fresh.seq)
        same = Still(hosted).digest() == Still(fresh).digest()
        expect(same, "the state follows from the log", event=hosted.seq)
        self._learned_once(hosted, store)

    def _learned_once(self, hosted: Any, store: Store) -> None:
        status, labels = hosted.live.status(), hosted.figures.labels
        counts = {"live": status.labels, "figures": labels, "monitor": hosted.monitor.rows}
        expect(len({*counts.values()}) == 1, "all parts have learned the same outcomes", **counts)
        expect(status.open == len(hosted.accepted), "open forecasts are counted once", live=status.open)
        if store.pruned(self.settings.name) > 1:
            return
        forecasts = {event.id for event in self.log.values() if event.kind == FORECAST}
        known = {event.id for event in self.log.values() if event.kind in (OUTCOME, SILENCE)}
        facts = {"learned": labels, "held": status.held, "known": len(known), "expired": status.expired}
        expect(status.forecasts == len(forecasts), "forecasts are counted once", live=status.forecasts)
        expect(labels + status.held <= len(known), "an outcome is learned once", **facts)
        expect(labels + status.held + status.expired >= len(known), "an outcome is learned, held or expired", **facts)

    def replayed(self, store: Store, damaged: Collection[int] = ()) -> None:
        """Replay finds every forecast and every snapshot as it was, and those that were damaged."""
        found = [one for progress in replay(store, self.settings.name) for one in progress.differences]
        different = [one for one in found if one.id or one.seq not in damaged]
        expect(not different, "replay finds no difference", different=different)
