"""The service against the same stack without learning, in one run: durable requests per second, as ratios, and delays.

Run as ``python benchmarks/service.py [PART]``, with a part of PARTS or all in turn. Services keep their log in a new
SQLite file; the load comes from another process with 32 connections. Rounds alternate, medians are shown. On a machine
that others use as well, the ratios of processor time say more than those of rates.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from swapcal import Client

CONNECTIONS, ROUNDS, MANY, PAGES = 32, 3, 100, 500
HERE = Path(__file__).parent
COLUMNS = [f"n{k}" for k in range(10)]


class Round(NamedTuple):
    rate: float
    p50: float
    p99: float
    most: float = 0.0
    cpu: float = 0.0
    """processor time of the service, in microseconds per request"""


def record(draw: random.Random) -> dict[str, object]:
    """Thirteen columns: three categories, ten numbers."""
    texts = {
        "carrier": draw.choice("ABCDEFGH"),
        "origin": draw.choice(["EWR", "JFK", "LGA"]),
        "day": draw.choice("1234567"),
    }
    return texts | {name: round(draw.gauss(0.0, 1.0), 3) for name in COLUMNS}


class Connection:
    """One keep-alive connection that speaks just enough HTTP."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes) -> bytes:
        status, body = await self.answer(request)
        if status != 200:
            raise ValueError(f"{status} {body.decode()}")
        return body

    async def answer(self, request: bytes) -> tuple[int, bytes]:
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(head[9:12]), await self.reader.readexactly(length)


def post(path: str, body: object, method: str = "POST") -> bytes:
    content = json.dumps(body).encode()
    lines = (f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json")
    return "\r\n".join((*lines, f"content-length: {len(content)}", "", "")).encode() + content


async def played(port: int, requests: list[bytes], pace: float | None = None) -> Round:
    """Send all, on all connections at once; with `pace`, so many a second, timed from when each was due."""
    connections = [Connection(port) for _ in range(CONNECTIONS)]
    for connection in connections:
        await connection.open()
    delays: list[float] = []
    todo = iter(enumerate(requests))
    began = time.perf_counter()

    async def go(connection: Connection) -> None:
        for number, request in todo:
            due = time.perf_counter() if pace is None else began + number / pace
            if pace is not None:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await connection.ask(request)
            delays.append(time.perf_counter() - due)

    await asyncio.gather(*(go(connection) for connection in connections))
    seconds = time.perf_counter() - began
    for connection in connections:
        connection.writer.close()
    delays.sort()
    p50, p99, most = (1e3 * delays[k] for k in (len(delays) // 2, int(0.99 * len(delays)), -1))
    return Round(len(requests) / seconds, p50, p99, most)


class Service(NamedTuple):
    port: int
    pid: int

    def snapshots(self) -> int:
        """Return how many snapshots were taken."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            text = answer.read().decode()
        return int(float(text.split("swapcal_snapshot_seconds_count ")[1].split()[0]))

    def cpu(self) -> float:
        """Return the processor time used so far, in seconds."""
        user, system = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def played(self, requests: list[bytes], pace: float | None = None) -> Round:
        before = self.cpu()
        found = asyncio.run(played(self.port, requests, pace))
        return found._replace(cpu=1e6 * (self.cpu() - before) / len(requests))


@contextmanager
def serving(*command: str, made: dict[str, Any] | None = None) -> Iterator[Service]:
    """Run a service with a forecaster."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().rsplit(" ", 1)[-1].strip()
        port = int(url.rsplit(":", 1)[-1])
        if command[0] == "-m":
            with Client(url, patience=300.0) as client:
                client.create(**{"name": "plain", "groups": ["carrier", "origin"], **(made or {})})
        yield Service(port, process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def workload(tag: str, count: int, draw: random.Random) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return requests for forecasts, for their outcomes, and for batches of further forecasts."""
    path = "/v1/forecasters/plain"
    events = [{"id": f"{tag}-{k}", "record": record(draw)} for k in range(count)]
    single = [post(f"{path}/forecasts", event) for event in events]
    outcomes = [post(f"{path}/outcomes/{event['id']}", {"y": int(draw.random() < 0.3)}, "PUT") for event in events]
    further = [{"id": f"{tag}+{k}", "record": event["record"]} for k, event in enumerate(events)]
    batches = [post(f"{path}/forecasts", {"forecasts": further[k : k + MANY]}) for k in range(0, count, MANY)]
    return single, outcomes, batches


def median(rounds: list[Round]) -> Round:
    return Round(*(statistics.median(column) for column in zip(*rounds, strict=True)))


def compared(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        services = {
            "swapcal": served(folder),
            "without learning": (str(HERE / "service_plain.py"), f"{folder}/b.db"),
        }
        found: dict[tuple[str, str], list[Round]] = {}
        with serving(*services["swapcal"]) as first, serving(*services["without learning"]) as second:
            both = {"swapcal": first, "without learning": second}
            for number in range(ROUNDS + 1):
                for name, service in both.items():
                    single, outcomes, batches = workload(f"r{number}", count, random.Random(number))
                    kinds = {"forecasts": single, "outcomes": outcomes, f"batches of {MANY}": batches}
                    for kind, requests in kinds.items():
                        result = service.played(requests)
                        if number:  # the first round warms up
                            found.setdefault((name, kind), []).append(result)
    half = median(found["swapcal", "forecasts"]).rate / 2
    print(f"{CONNECTIONS} connections, {count:,} requests a round, medians of {ROUNDS} rounds")
    for kind in kinds:
        ours, plain = median(found["swapcal", kind]), median(found["without learning", kind])
        rows = MANY if kind.startswith("batches") else 1
        print(
            f"  {kind:16} {rows * ours.rate:9,.0f} rows/s  {ours.rate / plain.rate:5.2f} of the stack without learning "
            f"({rows * plain.rate:,.0f})   p50 {ours.p50:.1f} ms  p99 {ours.p99:.1f} ms   processor time "
            f"{ours.cpu / rows:.0f} us a row, {plain.cpu / ours.cpu:.2f} of it without learning"
        )
    many = median(found["swapcal", f"batches of {MANY}"]).rate * MANY
    print(
        f"  batches of {MANY}: {many / median(found['swapcal', 'forecasts']).rate:.1f} times the rows/s of singles",
        flush=True,
    )
    paced(count, half)


OFTEN = ("--snapshot-seconds", "0.1")
"""Snapshots follow each other as closely as the service allows."""


def paced(count: int, rate: float) -> None:
    """Print delays at a fixed rate: undisturbed, with snapshots all the time, and with open pages too."""
    print(f"at {rate:,.0f} a second, {4 * count:,} forecasts that stay open, {ROUNDS} rounds one after the other")
    for words, more, pages in (
        ("undisturbed", (), 0),
        ("snapshots all the time", OFTEN, 0),
        (f"the same and {PAGES} pages", OFTEN, PAGES),
    ):
        with tempfile.TemporaryDirectory() as folder, serving(*served(folder, *more)) as service:
            service.played(workload("open", 4 * count, random.Random(98))[2])
            for requests in workload("warm", count, random.Random(97))[:2]:
                service.played(requests)
            with listening(service.port, pages) as heard:
                rounds: dict[str, list[Round]] = {"forecasts": [], "outcomes": []}
                before = service.snapshots()
                for number in range(ROUNDS):
                    single, outcomes, _ = workload(f"paced{number}", count, random.Random(99 + number))
                    rounds["forecasts"].append(service.played(single, rate))
                    rounds["outcomes"].append(service.played(outcomes, rate))
                taken = service.snapshots() - before
            news = f", {heard[0]:,} events to pages" if pages else ""
            for kind, found in rounds.items():
                delays = "; ".join(f"p50 {one.p50:.1f} p99 {one.p99:.1f} ms" for one in found)
                print(f"  {words}, {kind}: {delays}   ({taken} snapshots{news})", flush=True)


def served(folder: str, *more: str) -> tuple[str, ...]:
    """Return the arguments of a service with its store in a folder."""
    given = () if "--log" in more else ("--log", "none")
    return ("-m", "swapcal", "serve", "--store", f"{folder}/a.db", "--port", "0", *given, *more)


@contextmanager
def listening(port: int, pages: int, name: str = "plain") -> Iterator[list[int]]:
    """Keep pages open in a process of their own; the list holds how many events they got once the block ends."""
    heard = [0]
    if not pages:
        yield heard
        return
    listener = subprocess.Popen(
        [sys.executable, __file__, "listen", f"{port}", f"{pages}", name], stdout=subprocess.PIPE
    )
    assert listener.stdout is not None
    listener.stdout.readline()  # all are connected
    try:
        yield heard
    finally:
        listener.send_signal(signal.SIGINT)
        heard[0] = int(listener.communicate()[0])


async def listen(port: int, pages: int, name: str) -> None:
    """Keep pages open until SIGINT, then print how many events they got."""
    heard, ended = 0, asyncio.Event()

    class Page(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            nonlocal heard
            heard += data.count(b"id: ")

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, ended.set)
    for _ in range(pages):
        transport, _ = await loop.create_connection(Page, "127.0.0.1", port)
        transport.write(get(f"/forecasters/{name}/live?html=1"))
    print("listening", flush=True)
    await ended.wait()
    print(heard)


FREQUENT = ("--snapshot-seconds", "5")


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()


async def traffic(port: int, until: float, tag: int, counts: dict[int, int]) -> None:
    """Send all kinds of traffic on one connection: singles, batches, repeats, conflicts, early and late outcomes.

    Outcomes come 2,000 forecasts later; one in ten never comes, and these expire after 20,000.
    """
    path, draw, number = "/v1/forecasters/mixed", random.Random(tag), 0
    connection = Connection(port)
    await connection.open()

    async def send(request: bytes) -> None:
        status, _ = await connection.answer(request)
        counts[status] = counts.get(status, 0) + 1

    def outcome(k: int, y: int) -> bytes:
        return post(f"{path}/outcomes/{tag}-{k}", {"y": y}, "PUT")

    while time.monotonic() < until:
        rows = [{"id": f"{tag}-{number + k}", "record": record(draw)} for k in range(50)]
        for row in rows[:10]:
            await send(post(f"{path}/forecasts", row))
        await send(post(f"{path}/forecasts", {"forecasts": rows[10:]}))
        await send(post(f"{path}/forecasts", {**rows[0], "record": {"n0": 1}}))  # a conflict
        number += len(rows)
        late = [k for k in range(number - 2050, number - 2000) if k >= 0 and k % 10]
        for k in late[:10]:
            await send(outcome(k, k % 3 == 0))
        given = [{"id": f"{tag}-{k}", "y": k % 3 == 0} for k in late[10:]]
        await send(post(f"{path}/outcomes", {"outcomes": given}))
        if late:
            await send(outcome(late[0], late[0] % 3 == 0))  # repeated
            await send(outcome(late[0], late[0] % 3 != 0))  # a conflict
        if number > 25_000:
            await send(outcome(number - 25_000, 1))  # expired, or known
        await send(outcome(number, 1))  # before its forecast
        if number % 1000 == 0:
            for page in (
                "/",
                "/forecasters/mixed",
                f"{path}/status",
                "/metrics",
                f"{path}/forecasts/{tag}-{number - 1}",
            ):
                await send(get(page))
    connection.writer.close()


def mixed(minutes: float) -> None:
    """Print the service's resident memory under mixed traffic, with a snapshot every few seconds."""
    made = {"name": "mixed", "expires": 20_000}
    with tempfile.TemporaryDirectory() as folder, serving(*served(folder, *FREQUENT), made=made) as service:
        status, began, counts = Path(f"/proc/{service.pid}/status"), time.monotonic(), dict[int, int]()
        print("minute  requests  resident MB  anonymous MB", flush=True)

        async def watch() -> None:
            for minute in range(int(minutes) + 1):
                await asyncio.sleep(began + 60.0 * minute - time.monotonic())
                text = status.read_text()
                sizes = [int(text.split(name)[1].split()[0]) / 1024 for name in ("VmRSS:", "RssAnon:")]
                print(f"{minute:6}  {sum(counts.values()):8,}  {sizes[0]:11.1f}  {sizes[1]:12.1f}", flush=True)

        async def all_of_it() -> None:
            until = began + 60.0 * minutes
            await asyncio.gather(watch(), *(traffic(service.port, until, tag, counts) for tag in range(4)))

        with listening(service.port, 5, "mixed"):
            asyncio.run(all_of_it())
        print("answers by status:", dict(sorted(counts.items())))


WAIT = 5.0
"""Seconds between the last forecast of a window and its end."""


def windows(count: int, seconds: float) -> None:
    """Print delays of forecasts, 50 a second, before and while so many windows end together, all with silence.

    `seconds` is what issuing the forecasts may take: all have the same end.
    """
    made = {"name": "windows", "matures": 1e9, "silence": 0}
    with tempfile.TemporaryDirectory() as folder, serving(*served(folder), made=made) as service:
        end, draw, path = time.time() + seconds, random.Random(0), "/v1/forecasters/windows/forecasts"
        some = [record(draw) for _ in range(1000)]
        rows = [{"record": some[k % 1000], "matures": end} for k in range(count)]
        batches = [
            post(path, {"forecasts": [{"id": f"w{j}", **rows[j]} for j in range(k, min(k + 500, count))]})
            for k in range(0, count, 500)
        ]
        service.played(batches)
        print(f"  {count:,} windows issued, {end - time.time():.0f} s before they end", flush=True)
        if time.time() > end - WAIT:
            raise ValueError(f"seconds: given {seconds}, expected more: the windows ended before all were issued")
        time.sleep(max(0.0, end - WAIT - time.time() - 20.0))
        number = 0
        while True:
            single = [post(path, {"id": f"s{number + k}", "record": some[k]}) for k in range(500)]
            number += len(single)
            result = service.played(single, 50.0)
            with urllib.request.urlopen(f"http://127.0.0.1:{service.port}/v1/forecasters/windows/status") as answer:
                status = json.load(answer)
            words = f"  {time.time() - end:+6.0f} s  {status['open']:9,} open, {status['silent']:9,} learned as silence"
            print(f"{words}: p50 {result.p50:.1f} p99 {result.p99:.1f} max {result.most:.1f} ms", flush=True)
            if status["open"] <= number:
                return


OPEN, STARTS = 5_000, 3


def starts(most: int) -> None:
    """Print what the start after kill -9 takes, for logs of 10,000 events to `most`."""
    print("    events  replayed  snapshot and replay  ready after  processor time until then")
    size = 10_000
    while size <= most:
        with tempfile.TemporaryDirectory() as folder:
            with serving(*served(folder)) as service:
                for number in range(0, (size + OPEN) // 2, 500):
                    service.played(labelled_later(number))
                os.kill(service.pid, signal.SIGKILL)
            for _ in range(STARTS):
                print(f"{size:10,}  {started(served(folder, '--log', 'notable'))}", flush=True)
        size *= 10 if size * 10 <= most else 3


def labelled_later(number: int) -> list[bytes]:
    """Return requests for 500 forecasts of six columns, and for the outcomes of those that many forecasts before."""
    path, draw = "/v1/forecasters/plain", random.Random(number)
    ids = range(number, number + 500)
    rows = [{"id": k, "record": dict([*record(draw).items()][:6])} for k in ids]
    given = [{"id": k - OPEN, "y": int(draw.random() < 0.3)} for k in ids if k >= OPEN]
    return [post(f"{path}/forecasts", {"forecasts": rows}), post(f"{path}/outcomes", {"outcomes": given})]


def started(command: tuple[str, ...]) -> str:
    """Start a service, kill it when it is ready, and return what that took."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    port = int(process.stdout.readline().rsplit(":", 1)[-1])
    while not _ready(port):
        time.sleep(0.01)
    took, cpu = time.monotonic() - began, Service(port, process.pid).cpu()
    process.kill()
    lines = [json.loads(line) for line in process.communicate()[1].splitlines() if '"ready"' in line]
    return f"{lines[0]['replayed']:8,}  {lines[0]['seconds']:17.2f} s  {took:9.2f} s  {cpu:24.2f} s"


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
            return True
    except OSError:  # not listening yet, or 503
        return False


def memory(events: int) -> None:
    """Forecast and label in batches; print the service's resident memory as it goes."""
    with tempfile.TemporaryDirectory() as folder:
        command = ("-m", "swapcal", "serve", "--store", f"{folder}/a.db", "--port", "0", "--log", "none")
        with serving(*command) as service:
            draw, done = random.Random(0), 0
            status = Path(f"/proc/{service.pid}/status")
            with Client(f"http://127.0.0.1:{service.port}") as client:
                while done < events:
                    rows = [{"id": done + k, "record": record(draw)} for k in range(500)]
                    list(client.forecasts("plain", rows))
                    list(client.outcomes("plain", [{"id": row["id"], "y": int(draw.random() < 0.3)} for row in rows]))
                    done += len(rows)
                    if done % max(500, events // 10) < 500:
                        resident = status.read_text().split("VmRSS:")[1].split()[0]
                        print(f"  {2 * done:10,} events  {int(resident) / 1024:7,.0f} MB", flush=True)


PARTS = ("speed", "starts", "memory", "windows", "mixed")

if __name__ == "__main__":
    if sys.argv[1:2] == ["listen"]:
        asyncio.run(listen(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
        sys.exit()
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", choices=PARTS, help="all by default")
    parser.add_argument("--requests", type=int, default=8000, help="of a round")
    parser.add_argument("--memory", type=int, default=500_000, help="forecasts, each labelled, with memory printed")
    parser.add_argument("--minutes", type=float, default=60.0, help="of mixed traffic")
    parser.add_argument("--events", type=int, default=1_000_000, help="of the longest log to start from")
    parser.add_argument("--windows", type=int, default=1_000_000, help="that end together")
    parser.add_argument("--seconds", type=float, default=300.0, help="for issuing them")
    given = parser.parse_args()
    for part in PARTS if given.part is None else (given.part,):
        print(f"{part}:", flush=True)
        if part == "speed":
            compared(given.requests)
        elif part == "memory":
            memory(given.memory)
        elif part == "starts":
            starts(given.events)
        elif part == "windows":
            windows(given.windows, given.seconds)
        elif part == "mixed":
            mixed(given.minutes)
