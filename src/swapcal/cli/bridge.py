"""`swapcal bridge`: records and outcomes from topics of Kafka to the service, its forecasts back to a topic.

Offsets are committed after the service's answer is durable and the broker has acknowledged what follows from it. So
a bridge that is killed reads some messages again, which changes nothing: the service knows their ids.
"""

import base64
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from swapcal.cli import options
from swapcal.cli.progress import running, stoppable
from swapcal.service.client import Client, Issued, Json, ServiceError, ServiceUnavailableError, problem_error

PATIENCE = 30.0
"""Seconds during which a request is tried again before its messages are read again."""
PAUSE = 1.0
"""Seconds for which partitions are left alone at least, after their messages could not be handled."""
POLL = 0.05
"""Seconds to wait for a batch to fill."""
DELIVERY = 60.0
"""Seconds for the broker to acknowledge a batch."""
STOPS = (401, 403, 404)
"""Refusals of a whole request for which its messages are not to blame: no token, no right, no such forecaster."""

Message = Any
"""Of confluent_kafka."""
log = logging.getLogger("swapcal.bridge")


class Topics(NamedTuple):
    """Names of topics; None where there is none."""

    records: str | None
    forecasts: str | None
    outcomes: str | None
    dead: str


@dataclass
class Counts:
    """Messages handled since the start; those read again count again."""

    forecasts: int = 0
    outcomes: int = 0
    dead: int = 0
    retries: int = 0

    def __str__(self) -> str:
        return (
            f"{self.forecasts:,} forecasts, {self.outcomes:,} outcomes, {self.dead:,} dead letters, "
            f"{self.retries:,} batches tried again"
        )


class UndeliveredError(ConnectionError):
    """The broker has not acknowledged all messages."""


# Messages as events of the service.


def forecast_event(message: Message) -> Json:
    """Return the event in a message: {"id", "record", …}, or a record whose id is the message's key."""
    value = _value(message)
    if not isinstance(value, dict):
        raise ValueError(f"value: given {type(value).__name__}, expected a JSON object")
    return _identified(value if "record" in value else {"record": value}, message)


def outcome_event(message: Message) -> Json:
    """Return the event in a message: {"id", "y", …}, or an outcome for the id that is the message's key."""
    value = _value(message)
    return _identified(value if isinstance(value, dict) else {"y": value}, message)


def _identified(event: Json, message: Message) -> Json:
    if event.get("id") is not None:
        return event
    key = message.key()
    if key is None:
        raise ValueError("id: given none, expected one in the value or as the message's key")
    return {**event, "id": key.decode()}


def _value(message: Message) -> Any:
    content = message.value()
    if content is None:
        raise ValueError("value: given none, expected JSON")
    return json.loads(content)


def dead_letter(message: Message, reason: str, *, whole: bool = True) -> bytes:
    """Return a message that could not be handled, where it came from and why; `whole` with its key and value."""
    parts = {"key": message.key(), "value": message.value()} if whole else {}
    place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    return json.dumps({"reason": reason, **place, **dict(_shown(name, part) for name, part in parts.items())}).encode()


def _shown(name: str, content: bytes | None) -> tuple[str, str | None]:
    try:
        return name, None if content is None else content.decode()
    except UnicodeDecodeError:
        return f"{name}_base64", base64.b64encode(content or b"").decode()


# `Bridge`: batches from Kafka to the service and back.


class Bridge:
    """Handles batches of messages: each is answered durably, then its offsets are committed.

    Parameters
    ----------
    consumer, producer : of confluent_kafka, the consumer subscribed and without automatic commits
    client : of the service
    forecaster : its name
    topics : where messages come from and go to
    """

    def __init__(self, consumer: Any, producer: Any, client: Client, forecaster: str, topics: Topics) -> None:
        self._consumer, self._producer, self._client = consumer, producer, client
        self._forecaster, self._topics = forecaster, topics
        self.counts = Counts()
        self._resting: list[tuple[float, list[TopicPartition]]] = []
        """until when partitions are left alone"""
        self._undelivered: list[str] = []

    def step(self, most: int, seconds: float = POLL) -> int:
        """Handle at most so many messages; return how many came."""
        self._resume()
        messages: dict[str, list[Message]] = {}
        for message in self._consumer.consume(most, seconds):
            if message.error() is None:
                messages.setdefault(message.topic(), []).append(message)
            elif message.error().fatal():
                raise KafkaException(message.error())
            else:
                log.warning("broker: %s", message.error())
        for topic, handle in ((self._topics.records, self._forecast), (self._topics.outcomes, self._learn)):
            if topic in messages:
                self._handle(topic, messages[topic], handle)
        return sum(map(len, messages.values()))

    def _handle(self, topic: str, messages: Sequence[Message], handle: Callable[[Sequence[Message]], None]) -> None:
        try:
            handle(messages)
            self._deliver()
        except (ServiceUnavailableError, UndeliveredError) as trouble:
            self._read_again(topic, messages, trouble)
            return
        ends = {message.partition(): message.offset() + 1 for message in messages}
        self._try(
            "offsets not committed, so messages are read again",
            lambda: self._consumer.commit(offsets=_places(topic, ends), asynchronous=False),
        )

    def _forecast(self, messages: Sequence[Message]) -> None:
        rows = self._read(messages, forecast_event)
        answers = self._answers([event for _, event in rows], self._forecasts)
        for (message, _), answer in zip(rows, answers, strict=True):
            if isinstance(answer, Issued):
                value = json.dumps(answer._asdict()).encode()
                self._produce(self._topics.forecasts, answer.id.encode(), value)
                self.counts.forecasts += 1
            else:
                self._bury(message, str(answer))

    def _learn(self, messages: Sequence[Message]) -> None:
        rows = self._read(messages, outcome_event)
        answers = self._answers([event for _, event in rows], self._outcomes)
        for (message, _), answer in zip(rows, answers, strict=True):
            if isinstance(answer, ServiceError):
                self._bury(message, str(answer))
            else:
                self.counts.outcomes += 1

    def _forecasts(self, events: Sequence[Json]) -> Iterable[Any]:
        return self._client.forecasts(self._forecaster, events, errors="return")

    def _outcomes(self, events: Sequence[Json]) -> Iterable[Any]:
        for answer in self._client.outcomes(self._forecaster, events):
            yield problem_error(answer["status"], answer) if "status" in answer else answer

    def _read(self, messages: Sequence[Message], event: Callable[[Message], Json]) -> list[tuple[Message, Json]]:
        """Return messages with their events; those that have none become dead letters."""
        rows = []
        for message in messages:
            try:
                rows.append((message, event(message)))
            except (ValueError, RecursionError) as error:
                self._bury(message, str(error))
        return rows

    def _answers(self, events: Sequence[Json], send: Callable[[Sequence[Json]], Iterable[Any]]) -> list[Any]:
        """Return an answer or an error for each event; a batch that is refused as a whole is sent in halves.

        Raises `ServiceUnavailableError` if the service is busy, for all events or for one of them.
        """
        if not events:
            return []
        try:
            answers = [*send(events)]
        except (ServiceError, ValueError, TypeError) as error:
            if isinstance(error, ServiceUnavailableError) or getattr(error, "status", None) in STOPS:
                raise
            if len(events) > 1:
                half = len(events) // 2
                return self._answers(events[:half], send) + self._answers(events[half:], send)
            return [error if isinstance(error, ServiceError) else ServiceError(422, {"title": str(error)})]
        for answer in answers:
            if isinstance(answer, ServiceUnavailableError):
                raise answer
        return answers

    # ------------------------------------------------------------------ to the broker

    def _bury(self, message: Message, reason: str) -> None:
        self.counts.dead += 1
        log.warning("dead letter: %s %d %d: %s", message.topic(), message.partition(), message.offset(), reason)
        try:
            self._produce(self._topics.dead, message.key(), dead_letter(message, reason))
        except KafkaException:  # too large with its value
            self._produce(self._topics.dead, None, dead_letter(message, reason, whole=False))

    def _produce(self, topic: str | None, key: bytes | None, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(topic, key=key, value=value, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: Any, message: Message) -> None:
        if error is not None:
            self._undelivered.append(str(error))

    def _deliver(self) -> None:
        """Wait until the broker has acknowledged all that was produced."""
        waiting = self._producer.flush(DELIVERY)
        if waiting:
            self._producer.purge()
            self._producer.flush(DELIVERY)
        failed, self._undelivered = self._undelivered, []
        if waiting or failed:
            raise UndeliveredError(failed[0] if failed else f"{waiting:,} messages not acknowledged")

    # ------------------------------------------------------------------ from the broker

    def _read_again(self, topic: str, messages: Sequence[Message], trouble: Exception) -> None:
        """Leave partitions alone for a while, then read these messages again; others go on."""
        problem = trouble.problem if isinstance(trouble, ServiceError) else {}
        wait = max(PAUSE, float(problem.get("retry_after", 0.0)))
        self.counts.retries += 1
        log.warning("%s: %d messages are read again in %g s: %s", topic, len(messages), wait, trouble)
        starts = {message.partition(): message.offset() for message in reversed(messages)}
        places = _places(topic, starts)
        self._try("partitions not paused", lambda: self._consumer.pause(places))
        for place in places:
            self._try("partition is another member's now", lambda place=place: self._consumer.seek(place))  # type: ignore[misc]
        self._resting.append((time.monotonic() + wait, places))

    def _resume(self) -> None:
        now = time.monotonic()
        for _, places in [entry for entry in self._resting if entry[0] <= now]:
            self._try("partitions not resumed", lambda places=places: self._consumer.resume(places))  # type: ignore[misc]
        self._resting = [entry for entry in self._resting if entry[0] > now]

    def _try(self, failure: str, act: Callable[[], Any]) -> None:
        """Do what fails only if partitions were assigned to another member of the group, which reads them again."""
        try:
            act()
        except KafkaException as error:
            log.warning("%s: %s", failure, error)


def _places(topic: str, offsets: Mapping[int, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]


# The command.


@options.prints
def bridge(
    printing: options.Printing,
    broker: Annotated[str, typer.Option(help="Addresses of brokers, host:port, comma-separated.")],
    forecaster: Annotated[str, typer.Option(help="Name of the forecaster, which must exist.")],
    records: Annotated[str | None, typer.Option(help="Topic of records to forecast.", metavar="TOPIC")] = None,
    forecasts: Annotated[str | None, typer.Option(help="Topic that receives the forecasts.", metavar="TOPIC")] = None,
    outcomes: Annotated[str | None, typer.Option(help="Topic of outcomes.", metavar="TOPIC")] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(help="Topic for messages that cannot be handled; default: FORECASTER.dead.", metavar="TOPIC"),
    ] = None,
    url: Annotated[str, typer.Option(help="Address of the service.")] = "http://127.0.0.1:8000",
    token: Annotated[
        str | None, typer.Option(envvar="SWAPCAL_TOKEN", help="Token with scopes forecast and outcome.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Consumer group; default: swapcal-FORECASTER. Its members share the partitions.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Messages handled at a time, at most.", min=1, max=50_000)] = 2_000,
    kafka: Annotated[
        list[str] | None, typer.Option(help="Setting of librdkafka, name=value; repeatable.", metavar="NAME=VALUE")
    ] = None,
    kafka_file: Annotated[
        Path | None, typer.Option(help="File of such settings, one a line: keeps passwords off the command line.")
    ] = None,
    idle: Annotated[
        float | None, typer.Option(help="Stop after this many seconds without a message; default: never.", min=0.1)
    ] = None,
) -> None:
    """Forecast records from a Kafka topic, and learn outcomes from another.

    Values are JSON as the service takes it: {"id", "record", "time", "matures"} and {"id", "y", "time"}, or a record
    or an outcome alone with its id as the message's key. Forecasts have their id as key. Offsets are committed after
    the service and the broker have acknowledged what follows from a message: killed at any moment, nothing is lost or
    learned twice, and a forecast may be written twice with the same content. Messages that cannot be handled go to the
    topic of dead letters with the reason. While the service is busy or away, messages wait in their topics. Stop with
    SIGTERM or Ctrl-C. Exit code 2: no such forecaster, no valid token, or bad options.
    """
    with running("bridge", printing) as run, stoppable() as stopping:
        run.kept = "messages whose offsets are not committed are read again"
        topics = _topics(records, forecasts, outcomes, dead_letters or f"{forecaster}.dead")
        settings = {"bootstrap.servers": broker, **_settings(kafka_file, kafka or [])}
        producer = _made(Producer, {"enable.idempotence": True, "linger.ms": 5, **DELIVERING, **settings})
        own = {"group.id": group or f"swapcal-{forecaster}", "auto.offset.reset": "earliest"}
        consumer = _made(Consumer, {**own, **settings, "enable.auto.commit": False})
        consumer.subscribe([topic for topic in (records, outcomes) if topic is not None])
        client = Client(url, token, patience=PATIENCE)
        made = Bridge(consumer, producer, client, forecaster, topics)
        try:
            _run(made, batch, idle, stopping)
        except ServiceError as error:
            raise ValueError(str(error)) from None
        except KafkaException as error:
            raise ValueError(f"--broker: {error}") from None
        finally:
            consumer.close()
            client.close()
            run.say(f"{made.counts}")
            run.write(json.dumps({"command": "bridge", **asdict(made.counts)}))


DELIVERING = {"acks": "all", "delivery.report.only.error": True}
"""Settings of the producer: a message counts as delivered once all replicas in sync have it."""


def _run(bridge: Bridge, batch: int, idle: float | None, stopping: Callable[[], bool]) -> None:
    last = time.monotonic()
    while not stopping():
        if bridge.step(batch):
            last = time.monotonic()
        elif idle is not None and time.monotonic() - last >= idle:
            return


def _topics(records: str | None, forecasts: str | None, outcomes: str | None, dead: str) -> Topics:
    if records is None and outcomes is None:
        raise ValueError("--records, --outcomes: given none, expected at least one topic to read")
    if (records is None) != (forecasts is None):
        raise ValueError("--records, --forecasts: given one of them, expected both or none")
    named = [topic for topic in (records, forecasts, outcomes, dead) if topic is not None]
    if len({*named}) < len(named):
        raise ValueError(f"topics: given {', '.join(named)}, expected different ones")
    return Topics(records, forecasts, outcomes, dead)


def _settings(file: Path | None, given: Sequence[str]) -> dict[str, str]:
    """Return settings of a file, and those given beside it.

    Examples
    --------
    >>> _settings(None, ["sasl.mechanism = PLAIN", "sasl.password=a=b"])
    {'sasl.mechanism': 'PLAIN', 'sasl.password': 'a=b'}
    """
    lines = [] if file is None else file.read_text(encoding="utf-8").splitlines()
    settings = {}
    for line in [*(line for line in lines if line.strip() and not line.lstrip().startswith("#")), *given]:
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"--kafka: given {name.strip()!r}, expected name=value")
        settings[name.strip()] = value.strip()
    return settings


def _made(kind: Any, settings: Mapping[str, Any]) -> Any:
    try:
        return kind(dict(settings))
    except KafkaException as error:
        raise ValueError(f"--kafka: {error.args[0].str()}") from None
