"""The service against the same stack without learning, in one run: durable requests per second, as ratios, and delays.

Run as ``python benchmarks/service.py [--requests 8000] [--memory 1000000]``. Both services keep their log in a new
SQLite file; the load comes from another process with 32 connections. Rounds alternate, medians are shown. On a machine
that others use as well, the ratios of processor time say more than those of rates.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from swapcal import Client

CONNECTIONS, ROUNDS, MANY = 32, 3, 100
HERE = Path(__file__).parent
COLUMNS = [f"n{k}" for k in range(10)]


class Round(NamedTuple):
    rate: float
    p50: float
    p99: float
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
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await self.reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError((head + body).decode())
        return body


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
    return Round(len(requests) / seconds, 1e3 * delays[len(delays) // 2], 1e3 * delays[int(0.99 * len(delays))])


class Service(NamedTuple):
    port: int
    pid: int

    def cpu(self) -> float:
        """Return the processor time used so far, in seconds."""
        user, system = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def played(self, requests: list[bytes], pace: float | None = None) -> Round:
        before = self.cpu()
        found = asyncio.run(played(self.port, requests, pace))
        return found._replace(cpu=1e6 * (self.cpu() - before) / len(requests))


@contextmanager
def serving(*command: str) -> Iterator[Service]:
    """Run a service."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().rsplit(" ", 1)[-1].strip()
        port = int(url.rsplit(":", 1)[-1])
        if command[0] == "-m":
            with Client(url, patience=300.0) as client:
                client.create("plain", groups=["carrier", "origin"])
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
            "swapcal": ("-m", "swapcal", "serve", "--store", f"{folder}/a.db", "--port", "0", "--log", "none"),
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
            single, outcomes, _ = workload("paced", count, random.Random(99))
            paced = {"forecasts": first.played(single, half), "outcomes": first.played(outcomes, half)}
    print(f"{CONNECTIONS} connections, {count:,} requests a round, medians of {ROUNDS} rounds")
    for kind in kinds:
        ours, plain = median(found["swapcal", kind]), median(found["without learning", kind])
        rows = MANY if kind.startswith("batches") else 1
        print(
            f"  {kind:16} {rows * ours.rate:9,.0f} rows/s  {ours.rate / plain.rate:5.2f} of the stack without learning "
            f"({rows * plain.rate:,.0f})   p50 {ours.p50:.1f} ms  p99 {ours.p99:.1f} ms   processor time "
            f"{ours.cpu / rows:.0f} us a row, {plain.cpu / ours.cpu:.2f} of it without learning"
        )
    for kind, result in paced.items():
        print(f"  {kind} at half that load ({half:,.0f}/s): p50 {result.p50:.1f} ms  p99 {result.p99:.1f} ms")
    many = median(found["swapcal", f"batches of {MANY}"]).rate * MANY
    print(f"  batches of {MANY}: {many / median(found['swapcal', 'forecasts']).rate:.1f} times the rows/s of singles")


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=8000)
    parser.add_argument("--memory", type=int, default=0, help="forecasts, each labelled, with memory printed")
    given = parser.parse_args()
    if given.memory:
        memory(given.memory)
    else:
        compared(given.requests)
