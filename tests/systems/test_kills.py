"""Kill −9 at any moment, hundreds of times: nothing acknowledged is lost, nothing is learned twice."""

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw")
pytest.importorskip("uvicorn")

from swapcal import Client
from tests.systems.load import NAME, Load
from tests.systems.served import Forked

pytestmark = pytest.mark.systems

KILLS_ON_SQLITE, KILLS_ON_POSTGRESQL, KILLS_OF_WINDOWS = 200, 50, 40
LONGEST_LIFE = 0.5  # seconds between being ready and being killed


def killed_again_and_again(store: str, kills: int, **settings: Any) -> None:
    served, draw = Forked(store, snapshot_events=300), random.Random(1)
    served.start()
    with Load(served.url, **settings) as load:
        for _ in range(kills):
            time.sleep(draw.uniform(0.0, LONGEST_LIFE))
            served.kill()
            served.start()
        time.sleep(LONGEST_LIFE)
    load.check()
    assert min(len(load.issued), len(load.outcomes)) > kills, "hardly anything happened between the kills"
    with Client(served.url) as client:
        if settings:  # reports of the load may all come before their windows end; this one cannot
            client.forecast(NAME, {"shop": "a", "price": 0.0}, "reported late")
            time.sleep(3.0)
            client.outcome(NAME, "reported late", 1.0)
        status = client.status(NAME)
    assert served.stop() == 0
    outcomes = load.check_log(store)
    if settings:
        assert status["labels"] + status["open"] == status["forecasts"]
        assert status["silent"] > kills
        assert status["corrections"] > 0
    else:
        assert status["labels"] == outcomes
    replayed = subprocess.run(
        [sys.executable, "-m", "swapcal", "replay", "--store", store], capture_output=True, text=True, check=False
    )
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_kills_lose_nothing_on_sqlite(tmp_path: Path) -> None:
    killed_again_and_again(str(tmp_path / "forecasts.db"), KILLS_ON_SQLITE)


def test_kills_lose_no_window_that_ends_in_silence(tmp_path: Path) -> None:
    killed_again_and_again(str(tmp_path / "forecasts.db"), KILLS_OF_WINDOWS, matures=0.05, silence=0)


def test_kills_lose_nothing_on_postgresql(postgres_url: str) -> None:
    killed_again_and_again(postgres_url, KILLS_ON_POSTGRESQL)
