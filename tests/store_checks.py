"""What every store must do, whatever database is behind it: a class of tests to inherit from."""

from collections.abc import Iterator

import pytest

from swapcal.service.events import Event
from swapcal.service.sql import PAGE, PIECE
from swapcal.service.store import Conflict, Store, TokenRow, Unreadable, open_store


def made(name: str) -> Event:
    return Event(name, 1, "made", "", 0.0, b"{}")


def forecast(name: str, seq: int, known: str) -> Event:
    return Event(name, seq, "forecast", known, float(seq), b'{"p": 0.1}')


def outcome(name: str, seq: int, known: str) -> Event:
    return Event(name, seq, "outcome", known, float(seq), b'{"y": 1}')


class StoreChecks:
    """Inherit and give the fixture `url`, the address of an empty store that may be made."""

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        store = open_store(url, learner=True, create=True)
        assert store.claim("a")
        assert store.claim("b")
        assert store.holds("a")
        yield store
        store.close()

    def test_events_come_back_as_they_were_in_order(self, store, url):
        events = [made("a"), forecast("a", 2, "ä€\U0001f600' \t"), outcome("a", 3, "1"), forecast("a", 4, "1")]
        odd = Event("a", 5, "correction", "1", 1.7e9 + 0.1, bytes(range(256)))
        store.append(events)
        store.append([odd])
        assert list(store.events("a")) == [*events, odd]
        assert list(store.events("a", after=1, until=3)) == events[1:3]
        assert list(store.events("b")) == []
        store.close()
        again = open_store(url)
        assert list(again.events("a")) == [*events, odd]
        again.close()

    def test_more_than_a_page_of_events(self, store):
        store.append([made("a"), *(forecast("a", seq, str(seq)) for seq in range(2, 2 * PAGE + 3))])
        assert [event.seq for event in store.events("a")] == list(range(1, 2 * PAGE + 3))
        assert store.last("a") == 2 * PAGE + 2

    def test_forecasters_are_those_that_were_made(self, store):
        assert store.forecasters() == {}
        assert store.last("a") == 0
        store.append([made("b"), made("a")._replace(time=1.0, body=b'{"groups": ["carrier"]}')])
        assert list(store.forecasters().items()) == [("b", b"{}"), ("a", b'{"groups": ["carrier"]}')]

    def test_append_is_all_or_nothing_over_several_forecasters(self, store):
        store.append([made("a"), made("b")])
        with pytest.raises(Conflict):
            store.append([forecast("a", 2, "x"), forecast("b", 2, "x"), forecast("b", 1, "y")])
        assert (store.last("a"), store.last("b")) == (1, 1)
        store.append([forecast("a", 2, "x"), forecast("b", 2, "x")])
        assert (store.last("a"), store.last("b")) == (2, 2)

    @pytest.mark.parametrize("kind", ["forecast", "outcome"])
    def test_of_an_id_there_is_one_forecast_and_one_outcome(self, store, kind):
        store.append([made("a"), made("b"), Event("a", 2, kind, "x", 0.0, b"")])
        with pytest.raises(Conflict):
            store.append([Event("a", 3, kind, "x", 0.0, b"")])
        store.append([Event("a", 3, kind, "X", 0.0, b""), Event("b", 2, kind, "x", 0.0, b"")])

    def test_corrections_and_events_without_id_are_as_many_as_wanted(self, store):
        store.append([made("a"), *(Event("a", seq, "correction", "x", 0.0, b"") for seq in (2, 3))])
        store.append([Event("a", seq, "tick", "", 0.0, b"") for seq in (4, 5)])
        assert store.last("a") == 5

    def test_about_is_everything_under_the_ids(self, store):
        store.append([made("a"), made("b"), outcome("a", 2, "x"), forecast("a", 3, "y"), forecast("a", 4, "x")])
        store.append([Event("a", 5, "correction", "x", 5.0, b""), forecast("b", 2, "x")])
        assert [event.seq for event in store.about("a", ["x", "z", "x"])] == [2, 4, 5]
        assert [event.seq for event in store.about("a", ["y", "x"])] == [2, 3, 4, 5]
        assert store.about("a", []) == store.about("c", ["x"]) == []

    def test_open_forecasts_are_a_view(self, store):
        store.append([made("a"), forecast("a", 2, "x"), forecast("a", 3, "y"), outcome("a", 4, "x")])
        assert store._read("SELECT forecaster, seq, id FROM open_forecasts") == [("a", 3, "y")]

    def test_an_empty_append_is_nothing(self, store):
        store.append([])
        assert store.forecasters() == {}

    def test_snapshots_are_read_as_written_newest_first_and_dropped(self, store):
        store.append([made("a"), *(forecast("a", seq, str(seq)) for seq in range(2, 6))])
        contents = {seq: bytes([seq]) * size for seq, size in [(2, 0), (3, 5), (4, PIECE), (5, 2 * PIECE + 7)]}
        for seq, content in contents.items():
            store.keep_snapshot("a", seq, content)
        assert [kept.seq for kept in store.snapshots("a")] == [5, 4, 3, 2]
        assert {seq: store.snapshot("a", seq) for seq in contents} == contents
        assert [kept.size for kept in store.snapshots("a")] == [2 * PIECE + 7, PIECE, 5, 0]
        store.drop_snapshots("a", 2)
        assert [kept.seq for kept in store.snapshots("a")] == [5, 4]
        assert store._read("SELECT DISTINCT seq FROM snapshot_pieces ORDER BY seq") == [(4,), (5,)]
        with pytest.raises(Unreadable, match="event 3 is not there"):
            store.snapshot("a", 3)
        with pytest.raises(ValueError, match="keep: given 0"):
            store.drop_snapshots("a", 0)

    def test_a_snapshot_ahead_of_the_log_is_refused(self, store):
        store.append([made("a")])
        with pytest.raises(Conflict, match="event 2, expected an event of the log"):
            store.keep_snapshot("a", 2, b"ahead")
        assert store.snapshots("a") == []

    def test_a_snapshot_may_be_written_again_after_a_write_that_was_cut_short(self, store):
        store.append([made("a")])
        store._write(("INSERT INTO snapshot_pieces VALUES (?, ?, ?, ?)", ("a", 1, 1, b"half")))
        store.keep_snapshot("a", 1, b"whole")
        store.keep_snapshot("a", 1, b"whole")
        assert store.snapshot("a", 1) == b"whole"

    def test_a_damaged_snapshot_is_refused(self, store):
        store.append([made("a")])
        store.keep_snapshot("a", 1, b"whole")
        store._write(("UPDATE snapshot_pieces SET content = ?", (b"hole",)))
        with pytest.raises(Unreadable, match="damaged"):
            store.snapshot("a", 1)

    def test_tokens_are_kept_and_revoked_once(self, store):
        first, second = TokenRow("one", b"\x00\xff", "read", 2.0, None), TokenRow("two", b"2", "admin", 1.0, None)
        store.keep_token(first)
        store.keep_token(second)
        with pytest.raises(Conflict):
            store.keep_token(first)
        assert store.tokens() == [second, first]
        assert store.revoke_token("one", 3.0)
        assert not store.revoke_token("one", 4.0)
        assert not store.revoke_token("three", 4.0)
        assert store.tokens()[1] == first._replace(revoked=3.0)

    def test_ping(self, store, url):
        store.ping()
        reader = open_store(url)
        reader.ping()
        reader.close()

    def test_opening_again_keeps_what_is_there(self, store, url):
        store.append([made("a")])
        store.close()
        again = open_store(url, learner=True, create=True)
        assert again.claim("a")
        assert again.last("a") == 1
        again.close()

    def test_pruning_removes_settled_ids_as_a_whole_and_says_so_first(self, store):
        store.append([made("a"), made("b"), forecast("b", 2, "settled"), outcome("b", 3, "settled")])
        store.append(
            [
                forecast("a", 2, "settled"),
                forecast("a", 3, "waiting"),
                outcome("a", 4, "settled"),
                Event("a", 5, "tick", "", 5.0, b""),
                forecast("a", 6, "straddles"),
                outcome("a", 7, "parked"),
                Event("a", 8, "correction", "settled", 8.0, b""),
                forecast("a", 9, "corrected late"),
                outcome("a", 10, "corrected late"),
                forecast("a", 11, "after"),
                outcome("a", 12, "straddles"),
                Event("a", 13, "correction", "corrected late", 13.0, b""),
            ]
        )
        store.keep_snapshot("a", 5, b"old")
        store.keep_snapshot("a", 11, b"new")
        assert store.pruned("a") == 1
        assert store.loss("a", 11) == (4, 1, 2.0, 8.0, 1)
        assert store.loss("a", 11, waiting=True) == (6, 2, 2.0, 8.0, 0)
        assert sum(store.prune("a", 11)) == 4
        assert [event.seq for event in store.events("a")] == [1, 3, 6, 7, 9, 10, 11, 12, 13]
        assert store.about("a", ["settled"]) == []
        assert [kept.seq for kept in store.snapshots("a")] == [11]
        assert store.pruned("a") == 11
        assert store.loss("a", 11) == (0, 0, None, None, 1)
        assert sum(store.prune("a", 11, waiting=True)) == 2
        assert [event.seq for event in store.events("a")] == [1, 6, 9, 10, 11, 12, 13]
        assert sum(store.prune("a", 3)) == 0
        assert store.pruned("a") == 11
        assert (store.last("a"), store.last("b"), store.pruned("b")) == (13, 3, 1)
        store.shrink()

    def test_pruning_needs_a_snapshot_that_can_be_read(self, store):
        store.append([made("a"), forecast("a", 2, "x"), outcome("a", 3, "x"), forecast("a", 4, "y")])
        store.keep_snapshot("a", 3, b"state")
        with pytest.raises(Conflict, match="before event 4, expected a snapshot after"):
            next(store.prune("a", 4))
        store._write(("UPDATE snapshot_pieces SET content = ?", (b"hole",)))
        with pytest.raises(Unreadable, match="damaged"):
            next(store.prune("a", 3))
        assert store.last("a") == 4
        assert len([*store.events("a")]) == 4

    def test_pruning_many_goes_in_steps_and_frees_space(self, store):
        many = 3 * PAGE
        ids = [str(number) for number in range(many)]
        store.append([made("a"), *(forecast("a", 2 + k, known) for k, known in enumerate(ids))])
        store.append([outcome("a", 2 + many + k, known) for k, known in enumerate(ids)])
        last = store.last("a")
        store.keep_snapshot("a", last, b"state")
        steps = [*store.prune("a", last)]
        assert len(steps) == 6
        assert max(steps) <= 2 * PAGE
        assert sum(steps) == 2 * many - 2
        store.shrink()
        assert [event.seq for event in store.events("a")] == [1, 1 + many, last]

    def test_an_id_whose_last_event_is_at_the_boundary_stays(self, store):
        store.append([made("a"), forecast("a", 2, "x"), outcome("a", 3, "x"), forecast("a", 4, "y")])
        store.keep_snapshot("a", 4, b"state")
        assert store.loss("a", 3).events == store.loss("a", 3, waiting=True).events == 0
        assert sum(store.prune("a", 3, waiting=True)) == 0
        assert store.loss("a", 4).events == 2
        assert sum(store.prune("a", 4)) == 2

    def test_a_forecast_learned_as_silence_is_settled(self, store):
        silence = outcome("a", 3, "x")._replace(kind="silence")
        store.append([made("a"), forecast("a", 2, "x"), silence, forecast("a", 4, "y")])
        store.keep_snapshot("a", 4, b"state")
        assert store.loss("a", 4).events == 2
        assert sum(store.prune("a", 4)) == 2
