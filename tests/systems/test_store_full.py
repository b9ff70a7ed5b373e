"""A disk that is full: nothing half written, nothing acknowledged lost, and on it goes once there is room."""

from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("apsw")

from swapcal.service.events import Event
from swapcal.service.store import Store, Unavailable, open_store
from tests.store_checks import made

pytestmark = pytest.mark.systems


def fill(store: Store, name: str, size: int) -> int:
    """Append until the disk is full; return the number of the last event that was acknowledged."""
    seq = store.last(name)
    with suppress(Unavailable):
        while True:
            batch = [Event(name, seq + k, "forecast", f"{seq + k}", 0.0, b"x" * size) for k in range(1, 8)]
            store.append(batch)
            seq += len(batch)
    return seq


@pytest.mark.parametrize("size", [100, 3000, 40_000])
def test_a_full_disk(small_disk: Path, size: int) -> None:
    path = str(small_disk / "forecasts.db")
    store = open_store(path, learner=True, create=True)
    store.append([made("a")])
    store.keep_snapshot("a", 1, b"early")
    acknowledged = fill(store, "a", size)
    assert acknowledged > 1
    for _ in range(5):
        assert fill(store, "a", 500_000) == acknowledged
        assert store.last("a") == acknowledged
    with pytest.raises(Unavailable):
        store.keep_snapshot("a", acknowledged, b"x" * (3 << 20))
    assert [kept.seq for kept in store.snapshots("a")] == [1]
    with pytest.raises(Unavailable):
        store.backup(str(small_disk / "copy.db"))
    assert not [*small_disk.glob("copy*")]
    assert [event.seq for event in store.events("a")] == list(range(1, acknowledged + 1))
    store.close()

    store = open_store(path, learner=True)
    assert store.last("a") == acknowledged
    (small_disk / "ballast").unlink()
    assert fill(store, "a", size) > acknowledged
    acknowledged = store.last("a")
    assert [event.seq for event in store.events("a")] == list(range(1, acknowledged + 1))
    store.close()
