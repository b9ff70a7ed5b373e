"""The store in a real PostgreSQL: all that SQLite does, and what happens when somebody dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

pytest.importorskip("apsw")
pytest.importorskip("psycopg")

import psycopg

from swapcal.service import postgres as module
from swapcal.service.postgres import PostgresStore
from swapcal.service.store import Conflict, Unavailable, Unreadable, open_store
from tests.store_checks import StoreChecks, forecast, made
from tests.systems.served import soon

pytestmark = pytest.mark.systems


class TestPostgres(StoreChecks):
    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url


@pytest.fixture
def learner(postgres_url: str) -> Iterator[PostgresStore]:
    store = open_store(postgres_url, learner=True, create=True)
    assert isinstance(store, PostgresStore)
    assert store.claim("a")
    store.append([made("a")])
    yield store
    store.close()


def backend(store: PostgresStore) -> int:
    return store._writer.info.backend_pid


def test_of_two_processes_one_is_the_learner_of_each_forecaster(learner, postgres_url):
    other = open_store(postgres_url, learner=True)
    assert not other.claim("a")
    assert other.claim("b")
    assert not learner.claim("b")
    assert learner.claim("a")
    with pytest.raises(Unavailable, match="given events of a, not claimed"):
        other.append([forecast("a", 2, "x")])
    learner.close()
    soon(lambda: other.claim("a"))
    other.append([forecast("a", 2, "x")])
    other.close()


def test_readers_claim_and_append_nothing(learner, postgres_url):
    learner.close()
    reader = open_store(postgres_url)
    assert not reader.claim("a")
    with pytest.raises(Conflict, match="learner=True"):
        reader.append([forecast("a", 2, "x")])
    reader.close()


LEARNING = """
import sys
from swapcal.service.events import Event
from swapcal.service.store import open_store
store = open_store(sys.argv[1], learner=True)
assert store.claim("a")
seq = store.last("a")
while True:
    seq += 1
    store.append([Event("a", seq, "forecast", str(seq), float(seq), b"{}")])
    print(seq, flush=True)
"""


def test_a_standby_takes_over_from_a_killed_learner_and_finds_all_it_acknowledged(learner, postgres_url):
    learner.close()
    for _ in range(3):
        standby = open_store(postgres_url, learner=True)
        command = [sys.executable, "-c", LEARNING, postgres_url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(50):
                process.stdout.readline()
            assert not standby.claim("a")
            process.kill()
            acknowledged = [int(line) for line in process.stdout.read().split()]
        died = time.monotonic()
        soon(partial(standby.claim, "a"))
        assert standby.last("a") >= max(acknowledged, default=50)
        assert [event.seq for event in standby.events("a")] == list(range(1, standby.last("a") + 1))
        standby.append([forecast("a", standby.last("a") + 1, f"own {died}")])
        standby.close()


def test_the_server_limits_statements_locks_and_vanished_clients(learner):
    expected = {
        "statement_timeout": "20000",
        "lock_timeout": "5000",
        "idle_in_transaction_session_timeout": "20000",
        "tcp_user_timeout": "10000",
        "tcp_keepalives_idle": "5",
        "tcp_keepalives_interval": "2",
        "tcp_keepalives_count": "3",
        "synchronous_commit": "on",
    }
    rows = learner._writer.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", ([*expected],))
    assert dict(rows.fetchall()) == expected


def test_a_lost_connection_is_a_lost_claim(learner, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (backend(learner),))
    assert learner.holds("a")
    with pytest.raises(Unavailable):
        learner.ping()
    assert not learner.holds("a")
    other = open_store(postgres_url, learner=True)
    soon(lambda: other.claim("a"))
    other.append([forecast("a", 2, "theirs")])
    for _ in range(2):
        with pytest.raises(Unavailable):
            learner.append([forecast("a", 2, "ours")])
    assert not learner.claim("a")
    with pytest.raises(Unavailable, match="claim again"):
        learner.append([forecast("a", 3, "ours")])
    assert [event.id for event in learner.events("a")] == ["", "theirs"]
    other.close()
    soon(lambda: learner.claim("a"))
    learner.append([forecast("a", 3, "ours")])


def test_the_number_is_a_fence_even_without_a_claim(learner, postgres_url):
    other = open_store(postgres_url, learner=True)
    assert other.claim("b")
    other._claims.add("a")
    learner.append([forecast("a", 2, "x")])
    with pytest.raises(Conflict):
        other.append([forecast("a", 2, "y")])
    assert other.claim("b")
    other.close()


@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGKILL])
def test_a_database_that_goes_in_the_middle_keeps_what_was_acknowledged(learner, postgres, how):
    crash = threading.Timer(0.5, _crash, (postgres, how))
    crash.start()
    acknowledged = _append_until_it_fails(learner)
    assert acknowledged > 1
    crash.join()

    def back() -> bool:
        try:
            return learner.claim("a")
        except Unavailable:
            return False

    postgres.stop()
    with pytest.raises(Unavailable):
        learner.ping()
    with pytest.raises(Unavailable):
        learner.last("a")
    postgres.start()
    soon(back)
    learner.ping()
    assert learner.last("a") in (acknowledged, acknowledged + 1)
    learner.append([forecast("a", learner.last("a") + 1, "next")])


def _append_until_it_fails(learner):
    acknowledged = 1
    with suppress(Unavailable):
        while True:
            learner.append([forecast("a", acknowledged + 1, str(acknowledged + 1))])
            acknowledged += 1
    return acknowledged


def _crash(postgres, how):
    """End the server at once, or kill one of its processes, upon which it restarts itself."""
    if how == signal.SIGQUIT:
        postgres.stop(how)
        return
    with psycopg.connect(postgres.address("postgres"), autocommit=True) as admin:
        pid = admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'swapcal'").fetchone()[0]
    os.kill(pid, how)
    postgres.wait()


def test_a_frozen_database_is_not_waited_for_and_its_claim_not_given_away(learner, postgres_url, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 1.0)
    pid = backend(learner)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable, match="did not answer in time"):
            learner.append([forecast("a", 2, "x")])
        assert not learner.claim("a")
    finally:
        os.kill(pid, signal.SIGCONT)
    soon(lambda: learner.claim("a"))
    # What had been sent was done or not; once the claim is granted it is known which.
    assert learner.last("a") in (1, 2)
    learner.append([forecast("a", learner.last("a") + 1, "y")])


def test_a_lock_of_somebody_else_is_not_waited_for_without_end(learner, postgres_url, monkeypatch):
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE swapcal.events")
        with pytest.raises(Unavailable, match="lock timeout"):
            learner.append([forecast("a", 2, "x")])
    assert learner.claim("a")
    assert learner.last("a") == 1


def test_readers_find_their_way_back_after_a_restart(learner, postgres):
    assert learner.last("a") == 1
    postgres.stop()
    postgres.start()
    assert learner.last("a") == 1
    learner.revoke_token("none", 0.0)


def test_a_commit_is_on_disk_even_where_the_server_is_set_otherwise(learner, postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {admin.info.dbname} SET synchronous_commit = off")
    store = open_store(postgres_url)
    assert store._read("SHOW synchronous_commit") == [("on",)]
    store.close()


def test_what_is_no_store_is_refused(postgres_url):
    with pytest.raises(Unreadable, match="without the schema swapcal"):
        open_store(postgres_url)
    open_store(postgres_url, create=True).close()
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("UPDATE swapcal.meta SET value = '2' WHERE name = 'schema'")
    with pytest.raises(Unreadable, match="version 2, expected version 1: it was written by a newer swapcal"):
        open_store(postgres_url)


def test_a_password_is_not_repeated(postgres):
    with pytest.raises(Unavailable) as caught:
        open_store("postgresql://swapcal:tops3cret@127.0.0.1:1/none")
    assert "tops3cret" not in str(caught.value)
