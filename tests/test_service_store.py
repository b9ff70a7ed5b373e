"""The store: what every database must do alike, and what is SQLite's own."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("apsw")

import apsw

from swapcal.service.events import Event
from swapcal.service.sql import PASSED, PIECE, REMOVE_IDS, REMOVE_SETTLED, SETTLED, Pool, TokenRow
from swapcal.service.store import Conflict, Occupied, Unavailable, Unreadable, open_store
from tests.store_checks import StoreChecks, forecast, made


class TestSQLite(StoreChecks):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return str(tmp_path / "forecasts.db")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "forecasts.db")


def test_commits_are_on_disk_and_readers_do_not_wait(path):
    store = open_store(path, learner=True, create=True)
    assert store._transaction(lambda writer: writer.pragma("synchronous")) == 2
    assert store._read("PRAGMA journal_mode") == [("wal",)]
    assert store._read("PRAGMA auto_vacuum") == [(2,)]
    assert store._read("PRAGMA busy_timeout") == [(5000,)]
    with store._turn:
        writer = store._writer
        writer.execute("BEGIN IMMEDIATE")
        assert store.forecasters() == {}
        writer.execute("ROLLBACK")
    store.close()


def test_pieces_of_a_snapshot_leave_the_sync_to_the_next_commit(path, monkeypatch):
    store = open_store(path, learner=True, create=True)
    store.append([made("a")])
    levels, execute = [], store._writer.execute

    class Noted:
        def execute(self, statement, *values):
            if "INSERT" in statement:
                levels.append((statement.split()[2], execute("PRAGMA synchronous").fetchall()[0][0]))
            return execute(statement, *values)

        def __getattr__(self, name):
            return getattr(store_writer, name)

    store_writer = store._writer
    store._writer = Noted()
    store.keep_snapshot("a", 1, b"state" * PIECE)
    assert {*levels} == {("snapshot_pieces", 1), ("snapshots", 2)}
    assert store._transaction(lambda writer: writer.execute("PRAGMA synchronous").fetchall()) == [(2,)]
    store.close()


def test_a_command_waits_longer_for_its_turn_to_write_than_a_learner(path):
    learner, command = open_store(path, learner=True, create=True), open_store(path)
    found = [store._transaction(lambda writer: writer.pragma("busy_timeout")) for store in (learner, command)]
    assert found == [5000, 60000]
    command.close()
    learner.close()


def test_space_is_given_back_while_the_learner_moves_its_log_into_the_file(path):
    learner, command = open_store(path, learner=True, create=True), open_store(path)
    command._transaction(lambda writer: writer.execute("UPDATE meta SET value = value"))
    reader, mover, probe = (apsw.Connection(path) for _ in range(3))
    reader.execute("BEGIN")  # holds the mover up
    for connection in (reader, mover, probe):
        connection.execute("SELECT * FROM meta").fetchall()  # before it has read, it knows of no log
    learner.append([made("a")])
    mover.set_busy_timeout(60_000)
    moving = threading.Thread(target=mover.wal_checkpoint, kwargs={"mode": apsw.SQLITE_CHECKPOINT_RESTART})
    moving.start()
    for _ in range(3000):
        try:
            probe.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            break
        time.sleep(0.01)
    command.shrink()
    assert moving.is_alive()
    reader.execute("COMMIT")
    moving.join()
    for connection in (reader, mover, probe, command, learner):
        connection.close()


def test_a_second_learner_is_refused_and_a_reader_is_not(path):
    first = open_store(path, learner=True, create=True)
    first.append([made("a")])
    with pytest.raises(Occupied, match=r"another process \(number \d+\) is learning"):
        open_store(path, learner=True)
    reader = open_store(path)
    assert reader.forecasters() == {"a": b"{}"}
    assert not reader.claim("a")
    with pytest.raises(Conflict, match="learner=True"):
        reader.append([forecast("a", 2, "x")])
    first.close()
    second = open_store(path, learner=True)
    assert second.claim("a")
    second.close()
    reader.close()


DYING = """
import os, sys
from swapcal.service.events import Event
from swapcal.service.store import open_store
store = open_store(sys.argv[1], learner=True, create=True)
store.append([Event("a", 1, "made", "", 0.0, b"{}"), Event("a", 2, "forecast", "x", 1.0, b"{}")])
os.kill(os.getpid(), 9)
"""


def test_what_was_appended_outlives_a_killed_learner_whose_lock_is_free_at_once(path):
    assert subprocess.run([sys.executable, "-c", DYING, path], check=False).returncode == -9
    store = open_store(path, learner=True)
    assert store.last("a") == 2
    store.close()


def test_a_newer_schema_is_refused(path):
    open_store(path, create=True).close()
    connection = apsw.Connection(path)
    connection.execute("UPDATE meta SET value = '2' WHERE name = 'schema'")
    connection.close()
    with pytest.raises(Unreadable, match="version 2, expected version 1: it was written by a newer swapcal"):
        open_store(path)


def test_what_is_no_store_is_refused(path, tmp_path):
    with pytest.raises(Unreadable, match="does not exist"):
        open_store(path)
    assert not Path(path).exists()
    Path(path).write_text("id,y\n" * 1000)
    with pytest.raises(Unreadable, match="no SQLite file"):
        open_store(path, create=True)
    other = tmp_path / "other.db"
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(Unreadable, match="without our tables"):
        open_store(str(other), learner=True, create=True)
    with pytest.raises(Unavailable, match="cannot be made"):
        open_store(str(tmp_path / "nowhere" / "a.db"), create=True)
    with pytest.raises(ValueError, match=r"given mysql://…, expected the path"):
        open_store("mysql://host/database")


def test_a_full_disk_writes_nothing_and_is_survived(path):
    store = open_store(path, learner=True, create=True)
    store.append([made("a")])
    pages = store._transaction(lambda writer: writer.pragma("page_count"))
    store._transaction(lambda writer: writer.pragma("max_page_count", pages + 4))
    with pytest.raises(Unavailable, match="full"):
        store.append([Event("a", seq, "forecast", str(seq), 1.0, b"x" * 1000) for seq in range(2, 50)])
    assert store.last("a") == 1
    store.append([Event("a", seq, "forecast", str(seq), 1.0, b"x" * 1000) for seq in range(2, 50)])
    assert store.last("a") == 49
    store.close()


def test_a_store_is_private(path):
    store = open_store(path, learner=True, create=True)
    store.append([made("a")])
    for file in Path(path).parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    store.close()


def test_threads_read_while_another_appends(path):
    store = open_store(path, learner=True, create=True)
    store.append([made("a")])
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seqs = [event.seq for event in store.events("a")]
            if seqs != list(range(1, len(seqs) + 1)):
                wrong.append(seqs)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for seq in range(2, 200):
        store.append([forecast("a", seq, str(seq))])
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
    store.close()


def test_pruned_space_is_given_back_to_the_disk(path):
    store = open_store(path, learner=True, create=True)
    store.append([made("a"), *(Event("a", seq, "tick", "", 1.0, b"x" * 2000) for seq in range(2, 2002))])
    store.keep_snapshot("a", 2001, b"state")
    store.shrink()
    before = Path(path).stat().st_size
    assert sum(store.prune("a", 2001)) == 1999
    store.shrink()
    assert Path(path).stat().st_size < before / 4
    store.close()


def test_a_backup_of_a_store_in_use_is_a_store(path, tmp_path):
    store = open_store(path, learner=True, create=True)
    store.append([made("a"), forecast("a", 2, "x")])
    store.keep_snapshot("a", 2, b"state")
    copy = str(tmp_path / "copy.db")
    open_store(path).backup(copy)
    store.append([forecast("a", 3, "y")])
    with pytest.raises(Unreadable, match="which exists, expected the name of a new file"):
        store.backup(copy)
    with pytest.raises(Unavailable, match="cannot be made"):
        store.backup(str(tmp_path / "nowhere" / "copy.db"))
    assert Path(copy).stat().st_mode & 0o077 == 0
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith("copy")) == ["copy.db"]
    restored = open_store(copy, learner=True)
    assert [event.seq for event in restored.events("a")] == [1, 2]
    assert restored.snapshot("a", 2) == b"state"
    restored.append([forecast("a", 3, "z")])
    assert restored.last("a") == 3
    assert restored._read("PRAGMA journal_mode") == [("wal",)]
    assert restored._read("PRAGMA auto_vacuum") == [(2,)]
    restored.close()
    store.close()


def test_pruning_looks_events_up_by_id_and_not_through_all_that_came_later(path):
    store = open_store(path, create=True)
    counted = (
        f"SELECT COUNT(*) FROM events AS one WHERE forecaster = ? AND seq > 1 AND seq < ? AND {PASSED} AND {SETTLED}"
    )
    for statement, values in (
        (counted, ("a", 9, 9)),
        (REMOVE_SETTLED, ("a", "a", 2, 9)),
        (REMOVE_IDS, ("a", "a", 2, 9)),
    ):
        plan = [row[-1] for row in store._read(f"EXPLAIN QUERY PLAN {statement}", values)]
        others = [step for step in plan if "SEARCH other" in step]
        assert others
        assert all("events_about (forecaster=? AND id=?" in step for step in others), plan
    store.close()


def test_a_file_that_was_removed_takes_no_more_events(tmp_path: Path) -> None:
    path = tmp_path / "forecasts.db"
    store = open_store(str(path), learner=True, create=True)
    try:
        assert store.claim("shop")
        path.unlink()
        with pytest.raises(Unavailable, match="no longer the file"):
            store.append([Event("shop", 1, "made", "", 0.0, b"{}")])
        with pytest.raises(Unavailable, match="no longer the file"):
            store.ping()
    finally:
        store.close()


def test_after_a_failure_the_connections_that_are_free_are_closed_too() -> None:
    closed: list[int] = []
    numbers = iter(range(9))
    pool = Pool(lambda: next(numbers), closed.append)
    with pool.lent(), pool.lent():
        pass

    def fail() -> None:
        with pool.lent():
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        fail()
    assert closed == [0, 1]
    with pool.lent() as fresh:
        assert fresh == 2


def test_threads_that_write_take_turns(path):
    """The learner commits and another thread writes snapshots, on the one connection that writes."""
    store = open_store(path, learner=True, create=True)
    store.append([made("a")])
    done = threading.Event()
    wrong: list[BaseException] = []

    def write() -> None:
        try:
            store.keep_token(TokenRow("t", b"", "read", 0.0, None))
        except BaseException as error:
            wrong.append(error)
        done.set()

    def work(writer):
        other.start()
        writer.execute("UPDATE meta SET value = value")
        return done.wait(0.3)

    other = threading.Thread(target=write)
    assert not store._transaction(work), "it did not wait"
    other.join()
    assert not wrong
    assert [token.name for token in store.tokens()] == ["t"]
    store.close()
