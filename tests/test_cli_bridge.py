"""The bridge between Kafka and the service, with a broker in memory; real ones are in tests/systems/test_bridge.py."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("confluent_kafka")
pytest.importorskip("typer")
import confluent_kafka as kafka
from typer.testing import CliRunner

import swapcal.cli.bridge as module
from swapcal import Client
from swapcal.cli.bridge import Bridge, Topics, dead_letter
from swapcal.service import Limits
from swapcal.service.client import ServiceError, ServiceUnavailableError
from tests.service_server import Caller, served

TOPICS = Topics("records", "forecasts", "outcomes", "dead")


class Crash(BaseException):
    """The process ends here."""


class Fault:
    """Ends the process at the n-th operation."""

    def __init__(self, at: int = 10**9) -> None:
        self.left = at

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash


class Message:
    def __init__(self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        self._facts = {"topic": topic, "partition": partition, "offset": offset, "key": key, "value": value}

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: self._facts[name]

    def error(self) -> None:
        return None


class Broker:
    """Topics of two partitions, and the committed offsets of one group."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], list[Message]] = {}
        self.committed: dict[tuple[str, int], int] = {}

    def append(self, topic: str, key: Any, value: Any) -> None:
        given = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        name = None if key is None else str(key).encode()
        partition = 0 if name is None else sum(name) % 2
        entries = self.logs.setdefault((topic, partition), [])
        entries.append(Message(topic, partition, len(entries), name, given))

    def values(self, topic: str) -> list[Any]:
        return [json.loads(message.value()) for (name, _), log in self.logs.items() if name == topic for message in log]


class Member:
    """Consumer and producer of one process."""

    def __init__(self, broker: Broker, fault: Fault | None = None) -> None:
        self.broker, self.fault = broker, fault or Fault()
        self.position = dict(broker.committed)
        self.paused: set[tuple[str, int]] = set()
        self.waiting: list[tuple[str, bytes | None, bytes]] = []
        self.refuses: Any = None
        self.largest = 10**9

    def consume(self, most: int, seconds: float) -> list[Message]:
        self.fault()
        found: list[Message] = []
        for place, entries in self.broker.logs.items():
            if place[0] in (TOPICS.records, TOPICS.outcomes) and place not in self.paused:
                at = self.position.get(place, 0)
                found += entries[at : at + most - len(found)]
        for message in found:
            self.position[message.topic(), message.partition()] = message.offset() + 1
        return found

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        self.fault()
        assert not asynchronous
        assert not self.waiting, "offsets before their forecasts"
        for place in offsets:
            self.broker.committed[place.topic, place.partition] = place.offset
        self.fault()

    def pause(self, places: list[Any]) -> None:
        self.paused |= {(place.topic, place.partition) for place in places}

    def resume(self, places: list[Any]) -> None:
        self.paused -= {(place.topic, place.partition) for place in places}

    def seek(self, place: Any) -> None:
        self.position[place.topic, place.partition] = place.offset

    def produce(self, topic: str, key: bytes | None, value: bytes, on_delivery: Any) -> None:
        self.fault()
        if len(value) > self.largest:
            raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.MSG_SIZE_TOO_LARGE))
        if self.refuses is not None:
            on_delivery(self.refuses, None)
        else:
            self.waiting.append((topic, key, value))

    def flush(self, seconds: float) -> int:
        self.fault()
        for topic, key, value in self.waiting:
            self.fault()  # a part of them arrives
            self.broker.append(topic, None if key is None else key.decode(), value)
        self.waiting = []
        self.fault()
        return 0


class FaultyClient(Client):
    def __init__(self, url: str, fault: Fault) -> None:
        super().__init__(url, patience=0.0)
        self.fault = fault

    def _call(self, method: str, path: str, body: Any = None) -> bytes:
        self.fault()  # before it is sent
        answer = super()._call(method, path, body)
        self.fault()  # before the answer arrives
        return answer


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with served(tmp_path_factory.mktemp("bridge"), Limits(body=20_000)) as found:
        yield found


def drained(bridge: Bridge, most: int = 7) -> Bridge:
    while bridge.step(most):
        pass
    return bridge


def stepped(bridge: Bridge, done: Callable[[], bool], most: int = 1000) -> None:
    deadline = time.monotonic() + 60.0
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        bridge.step(most)


def filled(rows: int = 20) -> Broker:
    broker = Broker()
    for k in range(rows):
        broker.append("records", k, {"x": k / rows, "city": "ab"[k % 2]})
        broker.append("outcomes", k, k % 2)
    return broker


def test_killed_at_every_fifth_operation_nothing_is_lost_or_learned_twice(service: Caller) -> None:
    at, finished = 0, False
    while not finished:
        name, broker = f"killed{at}", filled()
        service.post("/v1/forecasters", {"name": name, "groups": ["city"]})
        fault = Fault(at)
        with suppress(Crash), FaultyClient(service.url, fault) as client:
            member = Member(broker, fault)
            drained(Bridge(member, member, client, name, TOPICS))
            finished = True
        with Client(service.url) as client:
            member = Member(broker)
            drained(Bridge(member, member, client, name, TOPICS))
        status = service.get(f"/v1/forecasters/{name}/status").body
        assert (status["forecasts"], status["labels"], status["open"], status["parked"]) == (20, 20, 0, 0)
        issued: dict[str, Any] = {}
        for value in broker.values("forecasts"):
            assert issued.setdefault(value["id"], value) == value  # twice perhaps, never different
        assert len(issued) == 20
        assert broker.values("dead") == []
        assert broker.committed == {place: len(log) for place, log in broker.logs.items() if place[0] != "forecasts"}
        at += 5
    assert at > 50


POISON: list[tuple[str, Any, Any, str]] = [
    ("records", "p1", b"\xff{", "codec can't decode"),
    ("records", "p2", None, "value: given none"),
    ("records", None, {"x": 1}, "id: given none"),
    ("records", "p3", [1], "value: given list"),
    ("records", "p4", {"x": {"y": 1}}, "422"),
    ("records", "p5", {"record": {"x": 1}, "colour": 1}, "colour"),
    ("records", "p6", b'{"x": 1e999}', "finite"),
    ("records", "p7", b"[" * 100_000, ""),
    ("records", "p8", {"x": "y" * 30_000}, "413"),
    ("records", "p9", b'{"x": "\\ud800"}', ""),
    ("records", "0", {"x": 77}, "409"),
    ("outcomes", "0", {"y": 1}, "409"),
    ("outcomes", "1", 3, "422"),
    ("outcomes", "2", "yes", "422"),
]


def test_poison_goes_to_the_dead_letters_with_its_reason_and_the_others_go_on(service: Caller) -> None:
    service.post("/v1/forecasters", {"name": "poison"})
    broker = Broker()
    for k in range(10):
        broker.append("records", k, {"x": k / 20})
        broker.append("outcomes", k, k % 2)
    for topic, key, value, _ in POISON:
        broker.append(topic, key, value)
    for k in range(10, 20):
        broker.append("records", None, {"id": f"{k}", "record": {"x": k / 20}, "time": 1_700_000_000 + k})
        broker.append("outcomes", None, {"id": k, "y": k % 2})
    member = Member(broker)
    with Client(service.url) as client:
        bridge = drained(Bridge(member, member, client, "poison", TOPICS), 1000)
    dead = {(letter["topic"], letter["key"]): letter for letter in broker.values("dead")}
    assert len(dead) == len(POISON)
    for topic, key, value, reason in POISON:
        letter = dead[topic, key]
        assert reason in letter["reason"], letter["reason"]
        text = json.dumps(value) if not isinstance(value, bytes | None) else value
        if value == b"\xff{":
            assert letter["value_base64"] == "/3s="
        else:
            assert letter["value"] == (text.decode() if isinstance(text, bytes) else text)
    status = service.get("/v1/forecasters/poison/status").body
    assert (status["forecasts"], status["labels"], status["parked"]) == (20, 20, 0)
    assert len(broker.values("forecasts")) == bridge.counts.forecasts == 20
    assert str(bridge.counts) == "20 forecasts, 20 outcomes, 14 dead letters, 0 batches tried again"


def test_a_dead_letter_too_large_for_the_broker_is_sent_without_its_value(service: Caller) -> None:
    broker = Broker()
    broker.append("records", "big", b'"' * 5000)
    member = Member(broker)
    member.largest = 1000
    drained(Bridge(member, member, Client(service.url), "poison", TOPICS))
    (letter,) = broker.values("dead")
    assert letter.keys() == {"reason", "topic", "partition", "offset"}


def test_a_busy_service_or_broker_leaves_messages_in_their_topics(
    service: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    service.post("/v1/forecasters", {"name": "busy"})
    broker = filled()
    member, busy = Member(broker), [ServiceUnavailableError(503, {"retry_after": 0.01})] * 3

    class Busy(Client):
        def _call(self, *given: Any) -> bytes:
            if busy:
                raise busy.pop()
            return super()._call(*given)

    client = Busy(service.url)
    bridge = Bridge(member, member, client, "busy", TOPICS)
    assert bridge.step(1000) == 40
    assert len(member.paused) == 4
    assert broker.committed == {}
    member.refuses = kafka.KafkaError(kafka.KafkaError.NOT_ENOUGH_REPLICAS)
    stepped(bridge, lambda: not busy and bool(broker.committed))
    assert {topic for topic, _ in broker.committed} == {"outcomes"}  # these need nothing of the broker
    assert broker.values("forecasts") == []
    member.refuses = None
    stepped(bridge, lambda: len(broker.committed) == 4)
    client.close()
    assert bridge.counts.retries >= 3
    assert member.paused == set()
    assert len(broker.values("forecasts")) == 20
    assert service.get("/v1/forecasters/busy/status").body["labels"] == 20


def test_a_full_forecaster_lets_outcomes_pass_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    with served(tmp_path, Limits(open=8)) as service, Client(service.url, patience=0.0) as client:
        service.post("/v1/forecasters", {"name": "full"})
        broker = filled()
        member = Member(broker)
        bridge = Bridge(member, member, client, "full", TOPICS)
        stepped(bridge, lambda: broker.committed == {place: 10 for place in broker.logs if place[0] != "forecasts"}, 6)
        assert bridge.counts.retries > 0
        assert len({value["id"] for value in broker.values("forecasts")}) == 20
        assert service.get("/v1/forecasters/full/status").body["labels"] == 20


def test_an_unknown_forecaster_stops_the_bridge_and_buries_nothing(service: Caller) -> None:
    broker = filled()
    member = Member(broker)
    with Client(service.url) as client, pytest.raises(ServiceError, match="404"):
        Bridge(member, member, client, "nowhere", TOPICS).step(100)
    assert (broker.committed, broker.values("dead")) == ({}, [])


def test_bad_options_are_named() -> None:
    import typer

    app = typer.Typer()
    app.command()(module.bridge)

    def refused(*options: str) -> str:
        found = CliRunner().invoke(app, ["--broker", "127.0.0.1:1", "--forecaster", "shop", *options])
        assert found.exit_code == 2, found.output
        return found.output

    assert "--records, --outcomes: given none" in refused()
    assert "--records, --forecasts: given one of them" in refused("--records", "a")
    assert "topics: given a, a" in refused("--records", "a", "--forecasts", "a")
    assert "--kafka: given 'acks'" in refused("--outcomes", "a", "--kafka", "acks")
    assert 'No such configuration property: "no.such"' in refused("--outcomes", "a", "--kafka", "no.such=1")


def test_a_dead_letter_names_its_place() -> None:
    letter = json.loads(dead_letter(Message("t", 1, 7, b"k", b"\xff"), "why"))  # type: ignore[arg-type]
    assert letter == {"reason": "why", "topic": "t", "partition": 1, "offset": 7, "key": "k", "value_base64": "/w=="}
