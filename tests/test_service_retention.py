"""`swapcal prune` and `swapcal backup` from the outside."""

import pytest

pytest.importorskip("apsw")
pytest.importorskip("typer")
pytest.importorskip("pyarrow")

import time
from contextlib import closing

from swapcal.cli import BAD_INPUT
from swapcal.cli.store import NOT_CONFIRMED, backup, prune, replay
from swapcal.service.events import MADE, Event, encoded
from swapcal.service.history import all_but, older_than, seconds, withdraw
from swapcal.service.hosted import fresh_forecaster
from swapcal.service.messages import OutcomeRowIn
from swapcal.service.settings import Settings
from swapcal.service.snapshots import Still, recover
from swapcal.service.store import open_store
from tests import service_worker
from tests.commands import runner
from tests.memory_store import MemoryStore
from tests.service_log import record, write_log
from tests.service_worker import Hand
from tests.store_checks import forecast, made, outcome

DAY = 86400.0


@pytest.fixture
def path(tmp_path):
    """A log of 20 days, one forecast and its outcome a day; the forecast of the third day waits."""
    path = str(tmp_path / "forecasts.db")
    store = open_store(path, learner=True, create=True)
    start = time.time() - 20.5 * DAY
    events = [made("a")._replace(time=start), made("b")._replace(time=start)]
    for day in range(20):
        events.append(forecast("a", len(events), str(day))._replace(time=start + day * DAY))
        if day != 2:
            events.append(outcome("a", len(events), str(day))._replace(time=start + day * DAY))
    store.append(events)
    for seq in (10, 20, 30):
        store.keep_snapshot("a", seq, b"state")
    store.close()
    return path


def run(command, *arguments):
    return runner(command)(*arguments, COLUMNS="200")


def test_what_is_lost_is_said_first_and_needs_a_yes(path):
    result = run(prune, "--store", path, "--older-than", "15d")
    assert result.exit_code == NOT_CONFIRMED, result.output
    assert "a: 10 events of 5 forecasts" in result.stderr
    assert "1 that wait for an outcome stay" in result.stderr
    assert "no longer be looked up" in result.stderr
    assert "b: nothing to remove." in result.stderr
    store = open_store(path)
    assert len([*store.events("a")]) == 40
    result = run(prune, "--store", path, "--older-than", "15d", "--yes")
    assert result.exit_code == 0, result.output
    assert "10 events were removed" in result.stderr
    assert [event.seq for event in store.events("a")] == [1, 6, *range(13, 41)]
    assert [kept.seq for kept in store.snapshots("a")] == [30, 20]
    assert run(prune, "--store", path, "--older-than", "15d").exit_code == 0
    store.close()


def test_forecasts_that_are_pruned_while_they_wait_are_given_up(tmp_path):
    path = str(tmp_path / "forecasts.db")
    write_log(path, 40, every=30)
    write_log(path, 60, every=30)
    with closing(open_store(path, learner=True)) as busy:
        before = [*busy.events("shop")]
        result = run(prune, "--store", path, "--keep", "10", "--yes", "--waiting")
        assert result.exit_code == BAD_INPUT, result.output
        assert "--waiting: given while a service learns from this store" in result.stderr
        assert [*busy.events("shop")] == before
        assert len(recover(busy, "shop").hosted.accepted) == 6
    result = run(prune, "--store", path, "--keep", "10", "--yes", "--waiting")
    assert result.exit_code == 0, result.output
    with closing(open_store(path)) as store:
        gone = [id for id in (f"id {n}" for n in range(0, 60, 10)) if not store.about("shop", [id])]
        assert f"{len(gone)} open forecasts were given up" in result.stderr
        hosted = recover(store, "shop").hosted
        assert len(gone) >= 3
        assert not {*gone} & {*hosted.accepted}
        status = hosted.live.status()
        assert (status.open, status.expired) == (6 - len(gone), len(gone))
    again = run(replay, "--store", path)
    assert again.exit_code == 0, again.output
    hand = Hand(open_store(path, learner=True))
    assert hand.outcome(gone[0], 1.0).state == "parked"  # counts as new
    assert hand.forecast(gone[0], record(0)).seq > 0
    assert hand.hosted.live.status().open == 6 - len(gone)
    hand.worker.close()
    assert run(replay, "--store", path).exit_code == 0


def test_what_has_an_outcome_or_stays_in_the_log_is_not_given_up():
    hand = Hand(MemoryStore(), groups=["shop"], matures=1e6)
    for id in ("held", "old", "edge"):
        hand.forecast(id, record(0))
    assert hand.outcome("held", 1.0).state == "held"
    assert withdraw(hand.store, "shop", 4) == 1
    assert {*recover(hand.store, "shop").hosted.accepted} == {"held", "edge"}


def test_an_id_that_comes_again_while_its_pruned_outcome_is_held_is_replayed_like_any_other():
    rows = [service_worker.row(id, {"price": price}) for id, price in (("a", 1.0), ("b", 2.0), ("a", 1.0))]
    held = [OutcomeRowIn("a", 1.0)]

    def played(*parts, settings):
        hosted = fresh_forecaster(Event("shop", 1, MADE, "", 0.0, encoded(Settings(name="shop", **settings))))
        hosted.forecast(rows[:1], 0.0)
        if "matures" in settings:
            hosted.outcome(held, 1.0)
        answers = [answer for part in parts for answer in hosted.forecast([*part], 100.0)]
        return answers, Still(hosted).digest()

    for settings in ({"matures": 20.0}, {"max_open": 1}):  # "b" lets the first "a" be learned, or expire
        together = played(rows[1:], settings=settings)
        assert together == played(rows[1:2], rows[2:], settings=settings)
        assert played(rows[:0:-1], settings=settings) == played(rows[2:], rows[1:2], settings=settings)


def test_two_snapshots_stay_usable(path):
    result = run(prune, "--store", path, "--keep", "1", "--yes")
    assert "snapshot after event 20" in result.stderr
    store = open_store(path)
    assert [kept.seq for kept in store.snapshots("a")] == [30, 20]
    assert [event.seq for event in store.events("a", after=19)] == [*range(20, 41)]
    store.close()


def test_boundaries(path):
    store = open_store(path)
    events = [*store.events("a")]
    for event in events:
        same = [other.seq for other in events if other.time >= event.time]
        assert older_than(store, "a", event.time) == same[0]
    assert older_than(store, "a", 0.0) == 1
    assert older_than(store, "a", 1e12) == store.last("a") + 1
    assert (all_but(store, "a", 1), all_but(store, "a", 1000)) == (40, 1)
    store.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--older-than, --keep: given both or none"),
        (("--keep", "1", "--older-than", "1d"), "given both or none"),
        (("--keep", "0"), "keep: given 0, expected at least 1"),
        (("--older-than", "soon"), "age: given 'soon', expected a number of hours, days or weeks"),
        (("--keep", "1", "--forecaster", "c"), "--forecaster: given 'c', expected one of a, b"),
    ],
)
def test_refusals(path, arguments, message):
    result = run(prune, "--store", path, *arguments)
    assert result.exit_code == BAD_INPUT
    assert message in result.stderr


def test_ages():
    assert (seconds("2w"), seconds("0.5d"), seconds("1h")) == (14 * DAY, DAY / 2, 3600.0)


def test_backup(path, tmp_path):
    copy = str(tmp_path / "copy.db")
    result = run(backup, "--store", path, "--out", copy)
    assert result.exit_code == 0, result.output
    assert "2 forecasters, 41 events" in result.stderr
    store = open_store(copy)
    assert len([*store.events("a")]) == 40
    store.close()
    assert run(backup, "--store", path, "--out", copy).exit_code == BAD_INPUT
