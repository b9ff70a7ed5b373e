"""A worker that cannot reach its store, or has lost its claim, reports so though no request comes."""

import pytest

pytest.importorskip("msgspec")

from tests.memory_store import MemoryStore
from tests.service_worker import Hand


def test_an_idle_worker_stands_by_while_its_store_is_gone_and_goes_on_as_it_was() -> None:
    hand = Hand(MemoryStore(), groups=["city"])
    hosted = hand.worker.forecasters["shop"]
    hand.store.down = True
    hand.worker._regain(now=True)
    assert hand.worker.standing_by == ["shop"]
    hand.store.down = False
    hand.worker._regain(now=True)
    assert hand.worker.standing_by == []
    assert hand.worker.forecasters["shop"] is hosted


def test_an_idle_worker_stands_by_once_its_claim_is_lost() -> None:
    hand = Hand(MemoryStore(), groups=["city"])
    hand.store.ours = False
    hand.worker._regain(now=True)
    assert hand.worker.standing_by == ["shop"]
