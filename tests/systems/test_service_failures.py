"""The service when its store fails or its process dies: nothing acknowledged is lost, nothing learned twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("apsw")
pytest.importorskip("psycopg")
pytest.importorskip("uvicorn")

import psycopg

from swapcal.service.store import open_store
from tests.systems.load import NAME, Load
from tests.systems.served import Served, soon

pytestmark = pytest.mark.systems


class House:
    """Services on one store, all of which end with the test."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store, self._folder = store, folder
        self.services: list[Served] = []

    def serve(self) -> Served:
        log = self._folder / f"log{len(self.services)}"
        service = Served(self.store, log, "--snapshot-events", "150")
        self.services.append(service)
        return service

    def made(self) -> Served:
        service = self.serve().wait()
        assert service.call("POST", "/v1/forecasters", {"name": NAME, "groups": ["shop"]})[0] == 201
        return service

    def close(self) -> None:
        for service in self.services:
            service.kill()

    def check(self, load: Load) -> None:
        """Assert that the log has all that was acknowledged, once, and that it explains every forecast."""
        load.check_log(self.store)
        assert "no difference" in run("replay", "--store", self.store)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[House]:
    with closing(House(str(tmp_path / "forecasts.db"), tmp_path)) as house:
        yield house


@pytest.fixture
def database(postgres_url: str, tmp_path: Path) -> Iterator[House]:
    with closing(House(postgres_url, tmp_path)) as house:
        yield house


def test_a_second_process_on_a_file_is_refused_and_told_why(sqlite: House) -> None:
    first = sqlite.made()
    command = [sys.executable, "-m", "swapcal", "serve", "--store", sqlite.store, "--port", "0"]
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert f"another process (number {first.process.pid}) is learning" in second.stderr
    assert first.ready
    assert first.stop() == 0


def test_a_full_disk_is_said_and_survived(small_disk: Path, tmp_path: Path) -> None:
    house = House(str(small_disk / "forecasts.db"), tmp_path)
    with closing(house), Load(house.made().url) as load:
        service = house.services[0]
        soon(lambda: load.statuses.count(503) > 20)
        path, ids = f"/v1/forecasters/{NAME}/forecasts", count()
        soon(lambda: service.call("POST", path, {"id": f"x{next(ids)}", "record": {}})[0] == 503)  # a small row may fit
        assert float(service.retry_after or 0) > 0
        assert service.call("GET", "/healthz")[0] == 200
        (small_disk / "ballast").unlink()
        before = len(load.outcomes)
        soon(lambda: len(load.outcomes) > before + 50)
        load.stop()
        assert service.stop() == 0
        assert set(load.statuses) <= {200, 503}
        house.check(load)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_database_that_goes_and_comes_back(database: House, postgres, how: signal.Signals) -> None:
    service = database.made()
    with Load(service.url) as load:
        for _ in range(2):
            before = len(load.outcomes)
            soon(lambda before=before: len(load.outcomes) > before + 100)
            postgres.stop(how)
            failed = load.statuses.count(503)
            soon(lambda failed=failed: load.statuses.count(503) > failed)
            soon(lambda: not service.ready)
            postgres.start()
            soon(lambda: service.ready)
        load.stop()
        assert service.stop() == 0
        assert set(load.statuses) <= {200, 503}
        database.check(load)


def test_an_idle_service_knows_that_its_database_or_its_claim_is_gone(database: House, postgres) -> None:
    service = database.made()
    assert service.call("POST", f"/v1/forecasters/{NAME}/forecasts", {"id": "a", "record": {"shop": "a"}})[0] == 200
    postgres.stop()
    soon(lambda: not service.ready)
    postgres.start()
    service.wait()
    standby = database.serve()
    soon(lambda: standby.call("GET", "/healthz")[0] == 200)
    os.kill(service.process.pid, signal.SIGSTOP)
    with psycopg.connect(database.store, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    standby.wait()
    os.kill(service.process.pid, signal.SIGCONT)
    soon(lambda: not service.ready)
    assert standby.ready
    assert standby.stop() == 0
    service.wait()


def test_a_standby_takes_over_from_a_killed_service(database: House) -> None:
    service = database.made()
    with Load(service.url) as load:
        for _ in range(2):
            standby = database.serve()
            soon(lambda standby=standby: standby.call("GET", "/healthz")[0] == 200)
            assert not standby.ready
            refused = {"id": "standby", "record": {"shop": "a"}}
            assert standby.call("POST", f"/v1/forecasters/{NAME}/forecasts", refused)[0] == 503
            before = len(load.outcomes)
            soon(lambda before=before: len(load.outcomes) > before + 100)
            service.kill()
            killed = time.monotonic()
            service = standby.wait()
            load.url = service.url
            print(f"taken over in {time.monotonic() - killed:.1f} s")
        before = len(load.outcomes)
        soon(lambda: len(load.outcomes) > before + 20)
        load.stop()
        assert service.stop() == 0
        database.check(load)


def test_backup_export_and_prune_do_not_disturb_a_service(sqlite: House, tmp_path: Path) -> None:
    service = sqlite.made()
    with Load(service.url) as load:
        soon(lambda: len(load.outcomes) > 400)
        run("backup", "--store", sqlite.store, "--out", str(tmp_path / "copy.db"))
        run("export", "--store", sqlite.store, "--out", str(tmp_path / "log.parquet"))
        run("replay", "--store", str(tmp_path / "copy.db"))
        with closing(open_store(sqlite.store)) as store:
            soon(lambda: len(store.snapshots(NAME)) > 1)
            before = store.last(NAME)
            said = run("prune", "--store", sqlite.store, "--keep", "1", "--yes")
            assert "events were removed" in said
            assert store.pruned(NAME) > 1
            soon(lambda: store.last(NAME) > before + 50)
        load.stop()
        assert set(load.statuses) == {200}
        assert service.stop() == 0
        assert "after the snapshot at event" in run("replay", "--store", sqlite.store)
        service = sqlite.serve().wait()
        last = max(load.outcomes.keys() & load.issued.keys(), key=lambda known: load.issued[known].seq)
        again = service.call("PUT", f"/v1/forecasters/{NAME}/outcomes/{last}", {"y": load.outcomes[last]})
        assert (again[0], again[1]["state"]) == (200, "repeated")


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "swapcal", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr
