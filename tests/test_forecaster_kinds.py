"""Forecasters of different kinds have kernels of their own, which one process uses in turn."""

import numpy as np
import pytest

from swapcal import Forecaster
from swapcal.engine import state as memory
from swapcal.engine.forecaster import entry

KINDS = ({}, {"learner": "vaw"}, {"window": 20.0})


def test_kinds_of_forecasters_played_in_turn_play_as_alone():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(12, 0.5), rng.uniform(-0.5, 0.5, 12)])
    y, events = (rng.random(12) < 0.5).astype(float), np.arange(1, 13, dtype=np.uint64)
    alone, in_turn = ([Forecaster(2, **kind) for kind in KINDS] for _ in range(2))
    issued = [memory.blank_tickets(12) for _ in KINDS]
    for forecaster, tickets in zip(alone, issued, strict=True):
        forecaster.play(X, y, events, tickets)
    for t in range(12):
        for forecaster, tickets in zip(in_turn, issued, strict=True):
            ticket = memory.blank_tickets(1)
            forecaster.play_one(X[t : t + 1].copy(), y[t : t + 1].copy(), events[t : t + 1].copy(), ticket)
            assert np.array_equal(ticket[0], tickets[t])


def test_what_a_kind_lacks_decides_its_kernel():
    rooms = [Forecaster(2, **kind)._scratch for kind in KINDS]
    assert len({id(entry(room, False)) for room in rooms}) == len(KINDS)
    assert entry(rooms[0], False) is entry(Forecaster(3)._scratch, False)


def test_every_kind_that_is_compiled_before_the_tests_runs():
    pytest.importorskip("typer")
    from tests.kernels import GROUPS

    for group in GROUPS.values():
        for compile_one in group:
            compile_one()
