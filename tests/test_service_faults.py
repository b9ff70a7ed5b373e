"""Faults of the service that lived through other tests: what another process wrote, gaps, digests, pieces, syncs."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("msgspec")
pytest.importorskip("apsw")

from swapcal.service import store as sqlite
from swapcal.service.events import Event
from swapcal.service.settings import Settings
from swapcal.service.snapshots import Still, recover, restored
from swapcal.service.store import Unreadable, open_store
from tests.memory_store import MemoryStore
from tests.service_worker import Clock, Hand, assert_follows_from_log, bits, row
from tests.store_checks import made
from tests.systems import test_simulate as simulate

ROME, BARI = {"city": "Rome", "price": 3.0}, {"city": "Bari", "price": 4.0}


def two() -> tuple[Hand, Hand]:
    """Return the hands of two processes on one store, with the forecasters shop and other; the first has seen both."""
    store, clock = MemoryStore(), Clock()
    first = Hand(store, clock=clock, groups=["city"], matures=10.0, silence=0)
    first.make(Settings(name="other", groups=["city"]))
    first.forecast("a", ROME)
    return first, Hand(store, "other", clock=clock)


def fails_to_write(first: Hand) -> Any:
    return first.forecast("b", BARI)


def fails_to_make(first: Hand) -> Any:
    return first.make(Settings(name="third"))


def fails_to_learn_silence(first: Hand) -> Any:
    first.clock.now += 11.0
    return first.worker._settle_windows()


@pytest.mark.parametrize("act", [fails_to_write, fails_to_make, fails_to_learn_silence])
def test_after_a_commit_of_unknown_fate_every_forecaster_is_compared_with_its_log(act: Any) -> None:
    first, second = two()
    second.forecast("x", ROME)  # the claim was lost meanwhile, and came back
    assert first.worker.forecasters["other"].seq < first.store.last("other")
    first.store.fault = "after"
    act(first)
    assert first.worker.standing_by == []
    assert first.worker.forecasters["other"].seq == first.store.last("other")
    assert_follows_from_log(first)
    first.name = "other"
    assert_follows_from_log(first)
    assert bits(first.hosted) == bits(second.hosted)


def test_a_maturity_without_a_time_beside_rows_without_either() -> None:
    one, many = (Hand(MemoryStore(), groups=["city"]) for _ in range(2))
    rows = [row("a", ROME), row("b", BARI, matures=one.clock.now + 50.0), row("c", ROME)]
    assert many.forecasts(*rows) == [one.forecasts(each)[0] for each in rows]
    for hand in (one, many):
        assert [hand.outcome(id, 1.0).state for id in "abc"] == ["learned", "held", "learned"]
        assert_follows_from_log(hand)
    assert bits(one.hosted) == bits(many.hosted)


def test_a_gap_inside_a_page_of_the_log_is_found() -> None:
    hand = Hand(MemoryStore(), groups=["city"])
    for k in range(8):
        hand.forecast(str(k), ROME)
    del hand.store.logs["shop"][4]
    with pytest.raises(Unreadable, match="gap after event 1"):
        recover(hand.store, "shop")


def test_the_digest_of_a_state_is_also_of_its_open_forecasts() -> None:
    hand = Hand(MemoryStore(), groups=["city"])
    hand.forecast("a", ROME)
    hand.forecast("b", BARI)
    again = restored(Still(hand.hosted).to_bytes())
    assert Still(again).digest() == Still(hand.hosted).digest()
    again.accepted["a"] += 1.0
    assert Still(again).digest() != Still(hand.hosted).digest()


def test_the_digest_of_a_state_is_of_every_array(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = Hand(MemoryStore(), groups=["city"])
    hand.forecast("a", ROME)
    hand.outcome("a", 1.0)
    hand.forecast("b", BARI)
    still = Still(hand.hosted)
    whole, digests = still.states(), {still.digest()}
    kept = {(part, name): values for part, state in whole.items() for name, values in state.arrays.items()}
    kept = {place: values for place, values in kept.items() if values.size}
    for (part, name), values in kept.items():
        flipped = bytes(byte ^ 1 for byte in values.tobytes())
        other = np.frombuffer(flipped, values.dtype).reshape(values.shape)
        changed = whole[part]._replace(arrays={**whole[part].arrays, name: other})
        monkeypatch.setattr(still, "states", lambda part=part, changed=changed: {**whole, part: changed})
        digests.add(still.digest())
    assert len(digests) == 1 + len(kept)
    assert {"open.ids", "open.since", "accepted"} <= {name for _, name in kept}


@pytest.fixture
def store(tmp_path: Path) -> Any:
    opened = open_store(str(tmp_path / "forecasts.db"), learner=True, create=True)
    opened.append([made("shop"), *(Event("shop", n, "forecast", str(n), 0.0, b"{}") for n in range(2, 9))])
    yield opened
    opened.close()


def test_a_snapshot_that_is_not_read_as_it_was_written_is_not_listed(store: Any, monkeypatch: Any) -> None:
    read = store._pieces
    monkeypatch.setattr(store, "_pieces", lambda *place: [*read(*place), b"?"])
    with pytest.raises(Unreadable, match="not read as it was written"):
        store.keep_snapshot("shop", 3, b"state")
    assert store.snapshots("shop") == []
    monkeypatch.undo()
    store.keep_snapshot("shop", 3, b"state")
    assert store.snapshot("shop", 3) == b"state"


def test_the_pieces_of_old_snapshots_and_of_broken_writes_go_with_them(store: Any) -> None:
    for seq in (3, 5, 7):
        store.keep_snapshot("shop", seq, b"state of %d" % seq)
    broken = "INSERT INTO snapshot_pieces (forecaster, seq, piece, content) VALUES (?, ?, ?, ?)"
    store._write((broken, ("shop", 2, 0, b"half")))
    store.drop_snapshots("shop", 2)
    assert store._read("SELECT seq FROM snapshot_pieces ORDER BY seq") == [(5,), (7,)]
    assert [kept.seq for kept in store.snapshots("shop")] == [7, 5]


def test_a_backup_and_its_name_are_on_disk_when_it_is_done(store: Any, tmp_path: Path, monkeypatch: Any) -> None:
    synced: list[str] = []
    sync = os.fsync
    monkeypatch.setattr(sqlite.os, "fsync", lambda file: (synced.append(os.fstat(file).st_ino), sync(file))[1])
    store.backup(str(tmp_path / "copy.db"))
    assert synced == [(tmp_path / "copy.db").stat().st_ino, tmp_path.stat().st_ino]


def test_a_forecaster_whose_claim_is_gone_is_not_written_until_it_is_claimed_again() -> None:
    """As when the server has ended the session: the store knows, and no commit has failed yet."""
    worker = Hand(MemoryStore(), groups=["city"])
    worker.forecast("a", {"city": "Rome"})
    worker.store.ours = False
    worker.worker._regain(now=True)
    assert worker.worker.standing_by == ["shop"]
    assert worker.forecast("b", {"city": "Rome"}).status == 503
    worker.store.ours = True
    worker.worker._regain(now=True)
    assert worker.forecast("b", {"city": "Rome"}).seq == 3


@pytest.mark.parametrize("name", simulate.FAULTS)
def test_what_is_planted_to_see_the_simulator_fail_is_in_the_code(name: str) -> None:
    """The simulator itself runs with the long tests; a function or line with another name is seen here."""
    with simulate.planted(*simulate.FAULTS[name]):
        pass
