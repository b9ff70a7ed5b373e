"""`swapcal bridge` against Apache Kafka and against librdkafka's mock cluster: kills, rebalances, speed."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")
from confluent_kafka import Consumer, Producer

from swapcal import Client
from swapcal.service.history import replay
from swapcal.service.store import open_store
from tests.systems.served import FORKS, Forked, soon

pytestmark = pytest.mark.systems

NAME = "shop"
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "swapcal" / "kafka"
"""Where prepare.sh puts Apache Kafka."""
OLD = {"api.version.request": "false", "broker.version.fallback": "0.9.0.1", "enable.idempotence": "false"}
"""Settings for Apache Kafka 0.9, the newest that a package registry offered; the mock cluster needs none."""
QUIET = {"log_level": "0"}


class Cluster:
    """Brokers, and the settings that their clients need."""

    def __init__(self, address: str, settings: dict[str, str]) -> None:
        self.address, self.settings = address, settings

    def options(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, **self.settings, **QUIET}

    def write(self, topic: str, messages: list[tuple[str | None, Any]]) -> None:
        producer = Producer({**self.options(), "linger.ms": "5"})
        for key, value in messages:
            producer.produce(topic, key=key, value=value if isinstance(value, bytes) else json.dumps(value))
            producer.poll(0)
        assert producer.flush(60) == 0

    def read(self, topic: str, enough: Callable[[list[Any]], bool]) -> list[Any]:
        """Return the values of a topic, from its beginning until they are enough."""
        group = f"reader-{time.time_ns()}"
        consumer = Consumer({**self.options(), "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        found: list[Any] = []

        def more() -> bool:
            found.extend(json.loads(each.value()) for each in consumer.consume(5000, 1.0) if not each.error())
            return enough(found)

        soon(more, 120.0, 0.0)
        consumer.close()
        return found


@contextlib.contextmanager
def apache(folder: Path) -> Iterator[Cluster]:
    """Start ZooKeeper and one broker of Apache Kafka."""
    if shutil.which("java") is None or not list(HOME.glob("libs/kafka_*.jar")):
        pytest.skip(f"no Java, or no Apache Kafka in {HOME}; the mock cluster stands in")
    ports = [_free() for _ in range(2)]
    (folder / "zookeeper").write_text(f"dataDir={folder}/zk\nclientPort={ports[0]}\nclientPortAddress=127.0.0.1\n")
    settings = {
        "broker.id": 0,
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[1]}",
        "log.dirs": folder / "logs",
        "num.partitions": 4,
        "zookeeper.connect": f"127.0.0.1:{ports[0]}",
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "log.cleaner.enable": "false",
        "group.min.session.timeout.ms": 1000,
    }
    (folder / "kafka").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", "-Xmx384m", "-cp", f"{HOME}/libs/*"]
    mains = {"zookeeper": "org.apache.zookeeper.server.quorum.QuorumPeerMain", "kafka": "kafka.Kafka"}
    running = []
    try:
        for port, (name, main) in zip(ports, mains.items(), strict=True):
            with open(folder / f"{name}.log", "wb") as output:
                command = [*java, main, str(folder / name)]
                running.append(subprocess.Popen(command, stdout=output, stderr=output))
            soon(lambda port=port: _open(port), 60.0)  # type: ignore[misc]
        yield Cluster(f"127.0.0.1:{ports[1]}", {**OLD, "session.timeout.ms": "2000", "heartbeat.interval.ms": "500"})
    finally:
        for process in reversed(running):
            process.kill()
            process.wait()


@contextlib.contextmanager
def mock(folder: Path) -> Iterator[Cluster]:
    """Start librdkafka's mock cluster in this process: the current protocol, three brokers, nothing on disk."""
    host = Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 3, **QUIET})
    found = host.list_topics(timeout=10).brokers.values()
    yield Cluster(
        ",".join(f"{each.host}:{each.port}" for each in found),
        {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"},
    )
    del host


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _open(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module", params=[apache, mock], ids=["apache", "mock"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with request.param(tmp_path_factory.mktemp("kafka")) as found:
        yield found


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Forked]:
    found = Forked(str(tmp_path / "forecasts.db"))
    found.start()
    with Client(found.url) as client:
        client.create(NAME, groups=["city"])
    yield found
    found.stop()


class Bridged:
    """A bridge in a process of its own, on topics whose names begin alike."""

    def __init__(self, cluster: Cluster, service: Forked, stem: str, **options: Any) -> None:
        kafka = [f"{name}={value}" for name, value in {**cluster.settings, **QUIET}.items()]
        topics = {name: f"{stem}.{name}" for name in ("records", "forecasts", "outcomes")}
        self._options = {
            "broker": cluster.address,
            "forecaster": NAME,
            "url": service.url,
            "group": stem,
            "dead_letters": f"{stem}.dead",
            "kafka": kafka,
            **topics,
            **options,
        }
        self.process: BaseProcess | None = None

    def start(self) -> "Bridged":
        self.process = FORKS.Process(target=_bridge, args=(self._options,), daemon=True)
        self.process.start()
        return self

    def end(self, number: int = signal.SIGKILL) -> int | None:
        assert self.process is not None
        assert self.process.pid is not None
        os.kill(self.process.pid, number)
        self.process.join(60)
        return self.process.exitcode


def _bridge(options: dict[str, Any]) -> None:
    from swapcal.cli.bridge import bridge

    bridge(**options)


def events(rows: int) -> tuple[list[tuple[str | None, Any]], list[tuple[str | None, Any]]]:
    """Return records and outcomes; every hundredth record is no JSON, and some outcomes are repeated."""
    draw = random.Random(rows)
    records: list[tuple[str | None, Any]] = []
    for k in range(rows):
        records.append((f"{k}", {"city": draw.choice("abc"), "x": round(draw.random(), 3)}))
        if k % 100 == 0:
            records.append((None, b"{no JSON"))
    outcomes: list[tuple[str | None, Any]] = [(f"{k}", k % 2) for k in range(rows)]
    return records, outcomes + outcomes[: rows // 10]


def check(cluster: Cluster, service: Forked, stem: str, rows: int) -> int:
    """Check that every record has one forecast and every outcome was learned once; return how many were written twice.

    The service is stopped: its store is read, and replayed.
    """
    written = cluster.read(f"{stem}.forecasts", lambda found: len({value["id"] for value in found}) == rows)
    issued: dict[str, Any] = {}
    for value in written:
        assert issued.setdefault(value["id"], value) == value, "the same forecast twice, or once"
    dead = cluster.read(f"{stem}.dead", lambda found: len({_place(each) for each in found}) == rows // 100)
    assert {each["value"] for each in dead} == {"{no JSON"}
    with Client(service.url) as client:
        soon(lambda: client.status(NAME)["labels"] == rows, 60.0)
        status = client.status(NAME)
        assert (status["forecasts"], status["open"], status["parked"], status["expired"]) == (rows, 0, 0, 0)
        for id in ("0", str(rows - 1)):
            about = client.about(NAME, id)
            assert {name: about[name] for name in ("p", "mean", "seq")} == {
                name: issued[id][name] for name in ("p", "mean", "seq")
            }
    return len(written) - rows


def _place(letter: dict[str, Any]) -> tuple[int, int]:
    return letter["partition"], letter["offset"]


def test_bridges_killed_under_load_lose_nothing_and_learn_nothing_twice(
    cluster: Cluster, service: Forked, tmp_path: Path
) -> None:
    rows, stem, draw = 4000, f"kills{time.time_ns()}", random.Random(3)
    records, outcomes = events(rows)
    forecasts = kills = 0
    parts = 8 if cluster.settings.keys() >= OLD.keys() else 4  # the mock cluster waits for seconds at each rebalance
    for part in range(parts):
        cluster.write(f"{stem}.records", records[part::parts])
        cluster.write(f"{stem}.outcomes", outcomes[part::parts])
        bridges = [Bridged(cluster, service, stem, batch=50).start() for _ in range(1 + part % 2)]
        with Client(service.url) as client:
            soon(lambda least=forecasts: client.status(NAME)["forecasts"] > least, 120.0, 0.01)  # type: ignore[misc]
            time.sleep(draw.uniform(0.0, 0.3))
            if part == parts // 2:  # the service too
                service.kill()
                time.sleep(1.0)
                service.start()
            for bridge in bridges:
                bridge.end()
                kills += 1
            forecasts = client.status(NAME)["forecasts"]
    last = Bridged(cluster, service, stem).start()
    twice = check(cluster, service, stem, rows)
    assert last.end(signal.SIGTERM) == 0
    print(
        f"\n{kills} kills of bridges, 1 of the service; {twice} of {rows:,} forecasts written twice, with equal content"
    )
    service.stop()
    with contextlib.closing(open_store(str(tmp_path / "forecasts.db"))) as store:
        for kind in ("forecast", "outcome"):
            ids = [event.id for event in store.events(NAME) if event.kind == kind]
            assert len(ids) == len({*ids}) == rows, kind
        assert [each for found in replay(store, NAME) for each in found.differences] == []


def test_a_service_that_is_away_is_waited_for_and_sigterm_ends_the_bridge(cluster: Cluster, service: Forked) -> None:
    rows, stem = 300, f"away{time.time_ns()}"
    records, outcomes = events(rows)
    cluster.write(f"{stem}.records", records)
    cluster.write(f"{stem}.outcomes", outcomes)
    service.kill()
    bridge = Bridged(cluster, service, stem).start()
    time.sleep(6.0)
    service.start()
    check(cluster, service, stem, rows)
    assert bridge.end(signal.SIGTERM) == 0


def rate(count: Callable[[], int], rows: int) -> float:
    """Return events per second from the first to the last."""
    soon(lambda: count() > 0, 120.0, 0.005)
    first, began = count(), time.perf_counter()
    soon(lambda: count() == rows, 120.0, 0.02)
    return (rows - first) / (time.perf_counter() - began)


def test_the_rate_is_a_fair_share_of_what_the_client_alone_attains(cluster: Cluster, service: Forked) -> None:
    rows, stem, draw = 20_000, f"rate{time.time_ns()}", random.Random(0)
    records = [
        (f"{k}", {"city": draw.choice("abcdefgh"), "hour": k % 24, "x": round(draw.random(), 3)}) for k in range(rows)
    ]
    outcomes = [(id, k % 2) for k, (id, _) in enumerate(records)]
    cluster.write(f"{stem}.records", [*records])
    with Client(service.url) as client:
        client.create("alone", groups=["city"])
        began = time.perf_counter()
        assert len([*client.forecasts("alone", [{"id": id, "record": record} for id, record in records])]) == rows
        middle = time.perf_counter()
        assert len([*client.outcomes("alone", [{"id": id, "y": y} for id, y in outcomes])]) == rows
        alone = rows / (middle - began), rows / (time.perf_counter() - middle)
        bridge = Bridged(cluster, service, stem, outcomes=None).start()
        forecasts = rate(lambda: int(client.status(NAME)["forecasts"]), rows)
        bridge.end(signal.SIGTERM)
        cluster.write(f"{stem}.outcomes", [*outcomes])
        bridge = Bridged(cluster, service, stem, records=None, forecasts=None).start()
        labels = rate(lambda: int(client.status(NAME)["labels"]), rows)
        bridge.end(signal.SIGTERM)
    print(f"\nforecasts {forecasts:,.0f}/s ({forecasts / alone[0]:.2f} of the client alone), ", end="")
    print(f"outcomes {labels:,.0f}/s ({labels / alone[1]:.2f})")
    assert min(forecasts / alone[0], labels / alone[1]) > 0.1


def test_the_commands_of_the_page_work(service: Forked, tmp_path: Path) -> None:
    if shutil.which("kcat") is None or shutil.which("curl") is None:
        pytest.skip("kcat or curl is not installed")
    page = (Path(__file__).resolve().parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")
    block = page.split("```console\n")[1].split("```")[0].splitlines()
    commands = [line[2:] for line in block if line.startswith("$ ")][2:]
    assert [command.split()[0] for command in commands] == ["curl", "echo", "echo", "swapcal", "kcat"]
    swapcal = f"{sys.executable} -m swapcal"
    with mock(tmp_path) as cluster:
        replaced = {
            "localhost:8000": service.url,
            "localhost:9092": cluster.address,
            "swapcal bridge": f"{swapcal} bridge",
        }
        for command in commands:
            for old, new in replaced.items():
                command = command.replace(old, new)
            if " bridge " in command:
                command += f" --url {service.url}"
            found = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=120)
            assert found.returncode == 0, (command, found.stderr)
    assert json.loads(found.stdout) == json.loads(block[-1])
