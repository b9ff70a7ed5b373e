"""A learner whose host vanishes from the network: the standby takes over, and what comes back cannot write."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("apsw")
pytest.importorskip("psycopg")

from swapcal.service.store import open_store
from tests.store_checks import forecast, made
from tests.systems.postgres_server import PostgresServer

pytestmark = pytest.mark.systems

SERVER, CLIENT = "10.77.31.1", "10.77.31.2"
LONGEST = 30.0
"""Seconds within which a standby must have taken over."""
LEARNING = """
import sys
from swapcal.service.events import Event
from swapcal.service.store import Unavailable, open_store
store = open_store(sys.argv[1], learner=True)
assert store.claim("a")
seq, last = store.last("a"), int(sys.argv[2])
try:
    while seq != last:
        seq += 1
        store.append([Event("a", seq, "forecast", str(seq), float(seq), b"{}")])
        print(seq, flush=True)
except Unavailable:
    pass
print("stopped", flush=True)
sys.stdin.readline()
try:
    store.append([Event("a", seq, "forecast", "late", 0.0, b"{}")])
    print("written")
except Unavailable:
    print("refused", store.holds("a"), store.claim("a"), flush=True)
"""


def ip(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ip", *words], capture_output=True, check=False)


class Host:
    """A network namespace joined to this machine by one cable."""

    def __init__(self) -> None:
        self.name = f"swapcal-{os.getpid()}"
        self._cable = f"sc{os.getpid() % 10**8}"

    def join(self) -> bool:
        steps = (
            ("netns", "add", self.name),
            ("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.name),
            ("addr", "add", f"{SERVER}/24", "dev", self._cable),
            ("link", "set", self._cable, "up"),
            ("-n", self.name, "addr", "add", f"{CLIENT}/24", "dev", "eth0"),
            ("-n", self.name, "link", "set", "eth0", "up"),
        )
        return all(ip(*step).returncode == 0 for step in steps)

    def plug(self, state: str) -> None:
        assert ip("-n", self.name, "link", "set", "eth0", state).returncode == 0

    def remove(self) -> None:
        ip("netns", "del", self.name)
        ip("link", "del", self._cable)

    def start(self, *command: str) -> subprocess.Popen[str]:
        whole = ["ip", "netns", "exec", self.name, *command]
        return subprocess.Popen(whole, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    if shutil.which("ip") is None or not host.join():
        host.remove()
        pytest.skip("network namespaces need root and the command ip")
    yield host
    host.remove()


@pytest.fixture
def server(host: Host) -> Iterator[PostgresServer]:
    server = PostgresServer(SERVER)
    yield server
    server.remove()


@pytest.mark.parametrize("last", [0, 51], ids=["writing", "idle"])
def test_a_standby_takes_over_when_the_first_host_vanishes(host: Host, server: PostgresServer, last: int) -> None:
    """Writing, the server has unacknowledged data; idle, it has not, and only keepalives notice."""
    name = server.url().rpartition("/")[2]
    standby = open_store(server.address(name), learner=True, create=True)
    assert standby.claim("a")
    standby.append([made("a")])
    standby.close()
    standby = open_store(server.address(name), learner=True)
    with host.start(sys.executable, "-c", LEARNING, server.address(name, SERVER), str(last)) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        for _ in range(50):
            first.stdout.readline()
        assert not standby.claim("a")
        host.plug("down")
        vanished = time.monotonic()
        while not standby.claim("a"):
            assert time.monotonic() - vanished < LONGEST
            time.sleep(0.2)
        print(f"taken over after {time.monotonic() - vanished:.1f} s")
        taken = standby.last("a")
        standby.append([forecast("a", taken + 1, "own")])
        host.plug("up")
        acknowledged = []
        for line in iter(first.stdout.readline, "stopped\n"):
            acknowledged.append(int(line))
        first.stdin.write("\n")
        first.stdin.flush()
        assert first.stdout.readline() == "refused False False\n"
    assert max(acknowledged, default=0) <= taken
    events = [*standby.events("a")]
    assert [event.seq for event in events] == [*range(1, taken + 2)]
    assert events[-1].id == "own"
    standby.close()
