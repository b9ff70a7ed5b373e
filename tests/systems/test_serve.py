"""`swapcal serve` as operators and fuzzers meet it."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httptools")

from tests.systems.load import Load
from tests.systems.served import Served

pytestmark = pytest.mark.systems
FORECASTERS = """
[[forecaster]]
name = "shop"
groups = ["shop"]

[limits]
rows = 5
"""


def events(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_sigterm_under_load_finishes_what_is_in_hand(tmp_path: Path) -> None:
    settings, log, store = tmp_path / "forecasters.toml", tmp_path / "log", str(tmp_path / "forecasts.db")
    settings.write_text(FORECASTERS)
    service = Served(store, log, "--forecasters", str(settings)).wait()
    with Load(service.url, threads=6) as load:
        time.sleep(2.0)
        assert service.stop() == 0
    assert set(load.statuses) <= {0, 200, 503}
    assert len(load.outcomes) > 5
    told = events(log)
    assert [event["event"] for event in told[-2:]] == ["snapshot", "stopped"]
    again = Served(store, log, "--forecasters", str(settings)).wait()
    assert events(log)[-1]["replayed"] == 0
    load.url = again.url
    load.check()
    assert again.call("POST", "/v1/forecasters/shop/outcomes", {"outcomes": [{"id": 1, "y": 1}] * 6})[0] == 413
    again.kill()


def test_settings_that_contradict_the_store_stop_the_service(tmp_path: Path) -> None:
    settings, store = tmp_path / "forecasters.toml", str(tmp_path / "forecasts.db")
    settings.write_text(FORECASTERS)
    service = Served(store, tmp_path / "log", "--forecasters", str(settings)).wait()
    assert service.stop() == 0
    settings.write_text(FORECASTERS.replace('groups = ["shop"]', 'groups = ["city"]'))
    command = [sys.executable, "-m", "swapcal", "serve", "--store", store, "--port", "0"]
    found = subprocess.run([*command, "--forecasters", str(settings)], capture_output=True, text=True, timeout=300)
    assert found.returncode == 2
    assert "other settings (groups), expected those it has" in " ".join(found.stderr.split())


@pytest.mark.skipif(shutil.which("schemathesis", path=str(Path(sys.executable).parent)) is None, reason="schemathesis")
def test_nothing_a_fuzzer_sends_is_a_fault_or_beyond_the_document(tmp_path: Path) -> None:
    service = Served(str(tmp_path / "forecasts.db"), tmp_path / "log").wait()
    service.call("POST", "/v1/forecasters", {"name": "0"})
    service.call("POST", "/v1/forecasters/0/forecasts", {"id": "0", "record": {"a": 1}})
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", f"{service.url}/openapi.json"]
    options = ["-n", "30", "--checks", checks, "--generation-deterministic", "--exclude-path-regex", "report|audit"]
    found = subprocess.run([*command, *options], capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert found.returncode == 0, found.stdout[-5000:]
    assert not [event for event in events(tmp_path / "log") if event["event"] == "fault"]
    service.kill()
