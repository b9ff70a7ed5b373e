"""Kill −9 at any moment, hundreds of times: nothing acknowledged is lost, nothing is learned twice."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("apsw")
pytest.importorskip("uvicorn")

from swapcal import Client
from swapcal.service.store import open_store
from tests.systems.load import NAME, Load
from tests.systems.served import Forked

pytestmark = pytest.mark.systems

KILLS_ON_SQLITE, KILLS_ON_POSTGRESQL = 200, 50
LONGEST_LIFE = 0.5  # seconds between being ready and being killed


def killed_again_and_again(store: str, kills: int) -> None:
    served, draw = Forked(store, snapshot_events=300), random.Random(1)
    served.start()
    with Load(served.url) as load:
        for _ in range(kills):
            time.sleep(draw.uniform(0.0, LONGEST_LIFE))
            served.kill()
            served.start()
        time.sleep(LONGEST_LIFE)
    load.check()
    assert min(len(load.issued), len(load.outcomes)) > kills, "hardly anything happened between the kills"
    with Client(served.url) as client:
        labels = client.status(NAME)["labels"]
    assert served.stop() == 0
    assert labels == once_in_the_log(store)
    replayed = subprocess.run(
        [sys.executable, "-m", "swapcal", "replay", "--store", store], capture_output=True, text=True, check=False
    )
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def once_in_the_log(store: str) -> int:
    """Check that numbers have no gap and each id one forecast and one outcome; returns the outcomes learned."""
    opened = open_store(store)
    try:
        events = [(event.seq, event.kind, event.id) for event in opened.events(NAME)]
    finally:
        opened.close()
    assert [seq for seq, _, _ in events] == list(range(1, len(events) + 1))
    times = Counter((kind, id) for _, kind, id in events)
    assert max(times.values()) == 1
    return sum(("forecast", id) in times for kind, id in times if kind == "outcome")


def test_kills_lose_nothing_on_sqlite(tmp_path: Path) -> None:
    killed_again_and_again(str(tmp_path / "forecasts.db"), KILLS_ON_SQLITE)


def test_kills_lose_nothing_on_postgresql(postgres_url: str) -> None:
    killed_again_and_again(postgres_url, KILLS_ON_POSTGRESQL)
