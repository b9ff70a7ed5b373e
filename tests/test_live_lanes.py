"""Every way to play a stream gives the same forecasts, bit for bit: one by one, many, mixed, traced, and all in turn.

A stream is made from one number. SWAPCAL_STREAMS says how many are played, SWAPCAL_FIRST_STREAM from which number on.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from swapcal import Live
from swapcal.live import ConflictingLabelError, ExpiredIdError, UnknownIdError
from swapcal.monitor import Monitor

FIRST_STREAM, STREAMS = (
    int(os.environ.get(f"SWAPCAL_{name}", n)) for name, n in (("FIRST_STREAM", 0), ("STREAMS", 40))
)
ERRORS = (ExpiredIdError, UnknownIdError, ConflictingLabelError, ValueError)  # the first that fits
COLUMNS = ("p", "mean", "low", "high", "weight")
NAN = math.nan


class Event(NamedTuple):
    """A record to be forecast, or the label of one."""

    row: int
    asks: bool
    y: float = NAN
    time: float = NAN
    planned: bool = False
    """whether `trace` is told of this label beforehand"""
    weight: float | None = None


@dataclass
class Stream:
    """Records with their times and labels, and what happens to them, in order."""

    settings: dict[str, Any]
    monitored: bool
    modelled: bool
    watched: bool
    records: list[dict[str, Any]]
    ids: list[int | str]
    time: Any
    """None, or when each forecast is made"""
    matures: Any
    due: Any
    """None if labels come at once, or when each label comes; NaN where it never does"""
    y: Any
    weight: Any
    """None, or how often each label counts"""
    events: list[Event] = field(default_factory=list)

    def live(self) -> Live:
        """Return an object that has seen nothing."""
        more: dict[str, Any] = {"monitor": Monitor(["shop"], max_weight=9.0)} if self.monitored else {}
        more |= {"models": {"mean of prices": MeanByPrice()}} if self.modelled else {}
        live = Live(**self.settings, **more)
        if self.watched:
            live.watch(lambda _: None)
        return live

    def times(self, rows: Any) -> dict[str, Any]:
        """Return the times of some rows as arguments."""
        given = {"time": self.time, "matures": self.matures}
        return {name: [each[k] for k in rows] for name, each in given.items() if each is not None}


class MeanByPrice:
    """A model that knows how often labels of high and of low prices were 1."""

    def __init__(self) -> None:
        self.counts = {False: [1.0, 2.0], True: [1.0, 2.0]}

    def forecast(self, record: Any, keys: Any, values: Any) -> float:
        ones, n = self.counts[(record.get("price") or 0.0) > 0.0]
        return ones / n

    def learn(self, record: Any, keys: Any, values: Any, y: float) -> None:
        count = self.counts[(record.get("price") or 0.0) > 0.0]
        count[0] += y
        count[1] += 1.0


# ------------------------------------------------------------------------------------------------------- making streams


def stream_of(seed: int) -> Stream:
    """Return the stream of that number."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    records = [record_of(rng, k, n) for k in range(n)]
    y = np.where(rng.random(n) < rng.choice([0.0, 0.1, 0.5]), NAN, (rng.random(n) < 0.4).astype(float))
    time, matures, due = times_of(rng, n)
    ids: list[int | str] = [k if rng.random() < 0.5 else f"id {k}" for k in range(n)]
    monitored, modelled = rng.random() < 0.15, rng.random() < 0.1
    settings = settings_of(rng) | (silence_of(rng) if time is not None else {})
    settings |= belief_of(rng, settings)
    weight = weights_of(np.random.default_rng([seed, 1]), n)
    if "order" not in settings and seed % 2:
        settings["burst"] = int(np.random.default_rng([seed, 2]).integers(1, 5))
    stream = Stream(settings, monitored, modelled, seed % 3 == 0, records, ids, time, matures, due, y, weight)
    if seed % 8 == 7:
        stream.settings = {name: value for name, value in settings.items() if name not in LIMITED}
        stream.y, stream.time, stream.matures, stream.due = np.full(n, NAN), None, None, None
        stream.events = [*bursts_of(rng, n)]
    else:
        stream.events = [*events_of(rng, stream)]
    if weight is not None:
        stream.events = [each if each.asks else each._replace(weight=weight[each.row]) for each in stream.events]
    return stream


def weights_of(rng: np.random.Generator, n: int) -> Any:
    """Return, for half of the streams, weights of the labels: often 1, and not whole."""
    return rng.choice([1.0, 1.0, 1.5, 4.0, 9.0], n).tolist() if rng.random() < 0.5 else None


def settings_of(rng: np.random.Generator) -> dict[str, Any]:
    choices: list[tuple[float, dict[str, Any]]] = [
        (0.5, {"groups": ["shop"]}),
        (0.2, {"products": [["shop", "kind"]]}),
        (0.2, {"scores": ["theirs"]}),
        (0.2, {"window": 10.0}),
        (0.3, {"max_open": int(rng.choice([1, 2, 5, 12]))}),
        (0.4, {"expires": int(rng.integers(1, 8))}),
        (0.5, {"lifetime": float(rng.choice([0.5, 1.0, 2.0, 3.0, 6.0]))}),
        (0.6, {"order": "issue", "patience": int(rng.choice([1, 2, 3, 6, 40]))}),
    ]
    settings: dict[str, Any] = {}
    for share, choice in choices:
        settings |= choice if rng.random() < share else {}
    return settings


def silence_of(rng: np.random.Generator) -> dict[str, Any]:
    """Return, for some streams, a window of all forecasts and what silence means at its end."""
    settings: dict[str, Any] = {"matures": float(rng.choice([0.0, 0.5, 1.0, 3.0]))} if rng.random() < 0.3 else {}
    return settings | ({"silence": int(rng.integers(0, 2))} if rng.random() < 0.5 else {})


def belief_of(rng: np.random.Generator, settings: dict[str, Any]) -> dict[str, Any]:
    """Return, for some streams, a prior and what unseen outcomes may be."""
    priors = [None, 0.03, *settings.get("scores", ())]
    rules = ["auto", "auto", "anything", "fair", 3.0]
    return {"prior": priors[rng.integers(len(priors))], "unseen": rules[rng.integers(len(rules))]}


def record_of(rng: np.random.Generator, k: int, n: int) -> dict[str, Any]:
    record: dict[str, Any] = {
        "shop": "abcdefgh"[rng.integers(0, 2 + min(6, k // 4))],
        "kind": "xy"[rng.integers(0, 2)],
        "price": float(rng.normal()),
        "size": int(rng.integers(0, 4)),
        "theirs": float(rng.random()),
        "rare": float(k) if rng.random() < 0.1 else None,
    }
    for name in ("shop", "kind", "price", "size", "theirs"):
        if rng.random() < 0.1:
            record[name] = None
    if k and rng.random() < 0.1:
        del record["size"]
    return record | ({"late": float(k)} if k > n // 2 else {})


def times_of(rng: np.random.Generator, n: int) -> tuple[Any, Any, Any]:
    """Return when forecasts are made, mature, and have their labels; ties are frequent."""
    if rng.random() < 0.15:
        return None, None, None
    step = rng.choice([0.5, 1.0])
    time = np.cumsum(rng.choice([0.0, 1.0, 1.0, 2.0, 7.0], n, p=[0.3, 0.3, 0.2, 0.15, 0.05])) * step
    matures = due = None
    if rng.random() < 0.4:
        matures = np.where(rng.random(n) < 0.4, NAN, time + step * rng.integers(0, 6, n))
    if rng.random() < 0.75:
        due = np.where(rng.random(n) < 0.1, NAN, time + step * rng.integers(0, 1 + rng.choice([2, 5, 15]), n))
    return time, matures, due


def events_of(rng: np.random.Generator, stream: Stream) -> Iterator[Event]:
    """Yield forecasts and labels in order: a label that is due comes before the first forecast made later.

    Among those that are planned come others: repeated, contradicting, or of rows without a plan.
    """
    n, plan = len(stream.records), []
    stray = rng.choice([0.0, 0.1, 0.4])
    for k in range(n):
        now = NAN if stream.time is None else float(stream.time[k])
        if k and rng.random() < stray:
            yield Event(int(rng.integers(0, k)), False, float(rng.random() < 0.5))
        if stream.time is not None:
            before = float(stream.time[k - 1]) if k else now
            timed = [each for each in plan if each.time < now]
            plan = [each for each in plan if not each.time < now]
            if k and before < now and rng.random() < stray:
                row = int(rng.integers(0, k))
                timed.append(Event(row, False, float(rng.random() < 0.5), before + 0.5 * (now - before)))
            yield from sorted(timed, key=lambda each: (each.time, each.row, each.planned))
        yield Event(k, True, time=now)
        label = float(stream.y[k])
        if stream.due is None and label == label:
            yield Event(k, False, label, now, planned=True)
        elif stream.due is not None and label == label and stream.due[k] == stream.due[k]:
            plan.append(Event(k, False, label, float(stream.due[k]), planned=True))


LIMITED = ("max_open", "expires", "lifetime", "order", "patience", "burst", "matures", "silence")


def bursts_of(rng: np.random.Generator, n: int) -> Iterator[Event]:
    """Yield forecasts in runs, and after each run labels of any forecasts in any order: no times, and no limits."""
    made = 0
    while made < n:
        run = int(rng.choice([1, 3, 12]))
        yield from (Event(k, True) for k in range(made, min(n, made + run)))
        made = min(n, made + run)
        for row in rng.permutation(made)[: int(rng.integers(0, made + 1))]:
            yield Event(int(row), False, float(rng.random() < 0.4))


# ------------------------------------------------------------------------------------------------------ playing streams


class Played(NamedTuple):
    """What came of a stream."""

    live: Live
    forecasts: Any
    """(n, 5)"""
    answers: dict[int, str]
    """of events, by number: what became of labels that were brought by hand"""


class Player:
    """Plays the events of a stream in pieces, each in one of several ways."""

    def __init__(self, stream: Stream, rng: np.random.Generator, expected: Played | None = None) -> None:
        self.stream, self.rng, self.expected = stream, rng, expected
        self.live = stream.live()
        self.forecasts = np.full((len(stream.records), len(COLUMNS)), NAN)
        self.answers: dict[int, str] = {}
        self.planned: set[int] = set()
        """rows whose labels come by themselves"""

    def play(self, ways: "list[Callable[[Player, int, int], int]]", reload: float = 0.0) -> Played:
        """Go through all events, each piece in one way of these."""
        at, n = 0, len(self.stream.events)
        while at < n:
            length = int(self.rng.choice([1, 2, 5, 20, 100]))
            way = ways[int(self.rng.integers(len(ways)))]
            at = way(self, at, min(n, at + length))
            if self.rng.random() < reload and not self.stream.modelled:
                self.live = Live.from_state(self.live.to_state())
        return Played(self.live, self.forecasts, self.answers)

    def keep(self, rows: Any, forecast: Any) -> None:
        self.forecasts[rows] = np.column_stack([getattr(forecast, name) for name in COLUMNS])

    def comes_by_itself(self, event: Event) -> bool:
        return event.planned and event.row in self.planned

    def wrong(self, number: int) -> bool:
        """Tell whether a label was refused when it came by itself."""
        return self.expected is not None and self.expected.answers.get(number, "") in NAMES


ANSWERS = {"repeated": "False", "corrected": "corrected"}  # what `label` returns
NAMES = [error.__name__ for error in ERRORS]


def one_by_one(player: Player, a: int, b: int) -> int:
    """Bring each event by itself."""
    for number in range(a, b):
        event, stream = player.stream.events[number], player.stream
        name = stream.ids[event.row]
        if event.asks:
            given = {key: values[0] for key, values in stream.times([event.row]).items()}
            player.keep([event.row], player.live.forecast(stream.records[event.row], name, **given))
        elif not player.comes_by_itself(event):
            when = None if event.time != event.time else event.time
            try:
                player.answers[number] = str(player.live.label(name, event.y, when, event.weight))
            except ValueError as error:
                player.answers[number] = next(each.__name__ for each in ERRORS if isinstance(error, each))
    return b


def many(player: Player, a: int, b: int) -> int:
    """Bring a piece of forecasts, or a piece of labels; one that is refused comes alone."""
    stream, events = player.stream, player.stream.events
    first, b = events[a].asks, until(a, b, lambda k: events[k].asks == events[a].asks)
    if first:
        rows = [event.row for event in events[a:b]]
        records, names = [stream.records[k] for k in rows], [stream.ids[k] for k in rows]
        player.keep(rows, player.live.forecast_many(records, names, **stream.times(rows)))
        return b
    if player.wrong(a):
        return one_by_one(player, a, a + 1)
    b = until(a, b, lambda k: not player.wrong(k))
    numbers = [k for k in range(a, b) if not player.comes_by_itself(events[k])]
    names, y, times = zip(*((stream.ids[e.row], e.y, e.time) for e in map(events.__getitem__, numbers)), strict=True) \
        if numbers else ((), (), ())  # fmt: skip
    given: dict[str, Any] = {} if np.isnan(times).all() else {"time": times}
    given |= {} if stream.weight is None else {"weight": [events[k].weight for k in numbers]}
    for number, answer in zip(numbers, player.live.label_many(names, y, **given), strict=True):
        player.answers[number] = ANSWERS.get(answer, "True")
    return b


def mixed(player: Player, a: int, b: int) -> int:
    """Bring a piece of both; a label that is refused comes alone, unless its forecast expires on the way."""
    stream, events = player.stream, player.stream.events
    if player.wrong(a):
        return one_by_one(player, a, a + 1)
    b = until(a, b, lambda k: not player.wrong(k))
    numbers = [k for k in range(a, b) if not player.comes_by_itself(events[k])]
    at_once = {k: after for k, after in itertools.pairwise(numbers) if asks_and_has(events[k], events[after])}
    kept = [k for k in numbers if k not in at_once.values()]
    rows = [events[k].row for k in kept]
    y = [events[at_once.get(k, k)].y for k in kept]
    asks = [events[k].asks for k in kept]
    asking = [row for row, each in zip(rows, asks, strict=True) if each]
    given: dict[str, Any] = {} if stream.time is None else {"time": [events[k].time for k in kept]}
    given |= {} if stream.matures is None else {"matures": [stream.matures[row] for row in rows]}
    given |= {} if stream.weight is None else {"weight": [stream.weight[row] for row in rows]}
    records, names = [stream.records[row] for row in asking], [stream.ids[row] for row in rows]
    forecasts, answers = player.live.follow(records, names, y, asks, **given)
    if asking:
        player.keep(asking, forecasts)
    labels = [k for k in kept if not events[k].asks]
    player.answers |= {k: ANSWERS.get(answer, "True") for k, answer in zip(labels, answers, strict=True)}
    player.answers |= dict.fromkeys(at_once.values(), "True")
    return b


def asks_and_has(event: Event, following: Event) -> bool:
    """Tell whether a forecast's label comes right after it, at the same time."""
    same = event.asks and not following.asks and event.row == following.row
    return same and (event.time == following.time or (event.time != event.time and following.time != following.time))


def traced(player: Player, a: int, b: int) -> int:
    """Bring a piece of forecasts whose labels come by themselves, as far as they are planned."""
    stream, events = player.stream, player.stream.events
    if not events[a].asks:
        return one_by_one(player, a, a + 1)
    rows = [events[a].row]
    for number in range(a, b):
        event = events[number]
        if event.asks:
            rows.append(event.row)
        elif not event.planned or not (event.row in player.planned or event.row in rows):
            b = number
            break
    rows = rows[1:]
    if stream.due is None:
        b = until(a, len(events), lambda k: k < b or (events[k].planned and events[k].row == rows[-1]))
    given = stream.times(rows) | ({} if stream.due is None else {"label_time": [stream.due[k] for k in rows]})
    given |= {} if stream.weight is None else {"weight": [stream.weight[k] for k in rows]}
    records, names = [stream.records[k] for k in rows], [stream.ids[k] for k in rows]
    player.keep(rows, player.live.trace(records, [stream.y[k] for k in rows], ids=names, **given).forecast)
    player.planned |= {*rows}
    return b


def until(a: int, b: int, holds: Callable[[int], bool]) -> int:
    """Return the first number in [a, b) for which something does not hold, else b."""
    return next((k for k in range(a, b) if not holds(k)), b)


LANES: dict[str, tuple[Any, float]] = {
    "many": ([many], 0.0),
    "mixed": ([mixed], 0.0),
    "traced": ([traced], 0.0),
    "saved": ([one_by_one], 0.3),
    "all": ([one_by_one, many, mixed, traced], 0.1),
}


# --------------------------------------------------------------------------------------------------------- what is told


def difference(stream: Stream, expected: Played, found: Played) -> str:
    """Return what differs between two ways to play a stream, "" if nothing does."""
    for k, (ours, theirs) in enumerate(zip(expected.forecasts, found.forecasts, strict=True)):
        if not np.array_equal(ours, theirs, equal_nan=True):
            return f"row {k}: {dict(zip(COLUMNS, ours, strict=True))} one by one, then {theirs}"
    for number, answer in found.answers.items():
        if answer != expected.answers[number]:
            return f"{stream.events[number]}: {expected.answers[number]} one by one, then {answer}"
    ours, theirs = expected.live.status(), found.live.status()
    numbers = [[value for value in each if isinstance(value, int | float)] for each in (ours, theirs)]
    words = [[value for value in each if not isinstance(value, int | float)] for each in (ours, theirs)]
    if words[0] != words[1] or not np.allclose(*numbers, rtol=1e-12, atol=0, equal_nan=True):
        return f"{ours} one by one, then {theirs}"
    ours, theirs = (each.live.preview(stream.records).mean for each in (expected, found))
    if not np.array_equal(ours, theirs):
        return f"previews {ours} one by one, then {theirs}"
    if stream.modelled:  # a state cannot hold the model
        ours, theirs = (repr(each.live.certificate()) for each in (expected, found))
        if ours != theirs:
            return f"certificates {ours} one by one, then {theirs}"
    else:
        ours, theirs = (each.live.to_state().arrays for each in (expected, found))
        learned = [name for name in ours if name.startswith(("experts.", "forecaster."))]
        other = [name for name in learned if not np.array_equal(ours[name], theirs[name], equal_nan=True)]
        if other:
            return f"{', '.join(other)} differ from one by one"
    if stream.monitored and expected.live.monitor.summary() != found.live.monitor.summary():
        return "other alarms than one by one"
    ours, theirs = ([*each.live._open_forecasts.expired] for each in (expected, found))
    return "" if ours == theirs else f"expired {ours} one by one, then {theirs}"


def failures(seed: int) -> Iterator[str]:
    """Yield what differs from one by one in each lane."""
    stream = stream_of(seed)
    expected = Player(stream, np.random.default_rng(seed)).play([one_by_one])
    for lane, (ways, reload) in LANES.items():
        try:
            found = Player(stream, np.random.default_rng(seed + 1), expected).play(ways, reload)
            told = difference(stream, expected, found)
        except Exception as error:  # any error is a difference: one by one has raised none
            told = f"{type(error).__name__}: {error}"
        if told:
            yield f"stream {seed}, {lane}, {stream.settings}: {told}"


@pytest.mark.parametrize("first", range(FIRST_STREAM, FIRST_STREAM + STREAMS, 10))
def test_every_lane_plays_a_stream_as_one_by_one(first: int) -> None:
    found = [failure for seed in range(first, min(first + 10, FIRST_STREAM + STREAMS)) for failure in failures(seed)]
    assert not found, "\n".join(found)


# -------------------------------------------------------------------------------------------------- what streams showed

SOME = [{"v": float(k % 3)} for k in range(6)]


def test_a_planned_label_that_comes_too_late_leaves_its_forecast_open_until_the_clock_has_it_expire() -> None:
    """With order "issue" another label waits for that forecast, and is learned one forecast later."""
    traced, hand = (Live(lifetime=2.0, order="issue", patience=9) for _ in range(2))
    given = {"time": [0.0, 1.0, 4.0, 4.0], "label_time": [3.0, 2.0, 9.0, 9.0]}
    whole = traced.run(SOME[:4], [1, 1, 0, 0], ids=[*range(4)], **given)
    hand.forecast(SOME[0], 0, 0.0)
    hand.forecast(SOME[1], 1, 1.0)
    assert hand.label(1, 1, 2.0)
    with pytest.raises(ExpiredIdError):
        hand.label(0, 1, 3.0)
    assert hand.forecast(SOME[2], 2, 4.0).mean == whole.mean[2] == 0.5
    assert hand.forecast(SOME[3], 3, 4.0).mean == whole.mean[3] != 0.5
    assert traced.status() == hand.status()


def test_a_label_by_hand_comes_after_the_planned_one_that_was_known_before() -> None:
    live = Live()
    live.run(SOME[:1], [1], ids=["a"], time=[0.0], label_time=[2.0])
    assert not live.label("a", 1, 3.0)
    with pytest.raises(ConflictingLabelError, match="label: given 0 for id 'a', which was labelled 1"):
        live.label("a", 0, 3.0)
    assert live.label("a", 1, 1.0)


def test_a_planned_label_that_comes_too_late_does_not_stand_in_the_way_of_one_without_a_time() -> None:
    traced, hand = Live(lifetime=2.0), Live(lifetime=2.0)
    traced.run(SOME[:2], [1, 1], ids=["a", "b"], time=[0.0, 2.0], label_time=[3.0, 9.0])
    hand.forecast_many(SOME[:2], ["a", "b"], time=[0.0, 2.0])
    for live in (traced, hand):
        assert live.label_many(["b", "a"], [1, 0], time=[4.0, NAN]) == ["learned", "learned"]
    assert traced.status().labels == hand.status().labels == 2


@pytest.mark.parametrize("limits", [{"max_open": 2}, {"expires": 5, "lifetime": 0.5}])
def test_rows_labelled_at_once_make_others_expire_as_one_by_one(limits: dict[str, Any]) -> None:
    traced, hand = Live(**limits), Live(**limits)
    for live in (traced, hand):
        live.forecast(SOME[0], "a")
        live.forecast(SOME[1], "b", 1.0)
    traced.run(SOME[2:], [1, 0, 1, 0], ids=[*range(4)], time=[1.0, 2.0, 3.0, 4.0])
    for k, record in enumerate(SOME[2:]):
        hand.forecast(record, k, 1.0 + k)
        hand.label(k, (1 + k) % 2, 1.0 + k)
    assert traced.status() == hand.status()
    assert traced.release() == hand.release() != []


def test_no_records_are_forecast_where_a_column_has_never_had_a_number() -> None:
    live = Live()
    live.forecast({"v": 1.0, "rare": None}, "a")
    forecasts, answers = live.follow([], ["a"], [1.0], [False])
    assert (len(forecasts), answers) == (0, ["learned"])


def test_a_watcher_does_not_keep_a_models_forecast_from_the_row_after_labels_fall_due() -> None:
    means = []
    for watcher in (None, lambda _: None):
        live = Live(models={"mean of prices": MeanByPrice()})
        live.watch(watcher)
        live.forecast({"price": 1.0}, "a", 0.0, 1.0)
        assert live.label("a", 1, 0.5)
        means.append(live.forecast({"price": 1.0}, "b", 2.0).mean)
    assert means[0] == means[1]
