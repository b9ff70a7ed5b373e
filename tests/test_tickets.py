"""Tickets between copies: whoever issued a forecast, learning its label leaves every certificate true."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal import Forecaster
from swapcal.baselines import ONLINE
from tests.checks import COMBINATIONS, NAMES, build, fields, snapshot, stream

every_combination = pytest.mark.parametrize("combination", COMBINATIONS, ids=NAMES)


def copies(forecaster: Forecaster, path: Path, count: int) -> list[Forecaster]:
    forecaster.save(path)
    return [Forecaster.load(path) for _ in range(count)]


@every_combination
def test_copies_that_learn_each_others_tickets_at_equal_counts_are_late(combination, tmp_path):
    """Each copy is told the other's forecasts, which say the opposite of what its own labels taught it."""
    left, right = copies(build(combination, 2), tmp_path / "state", 2)
    X = np.tile([0.5, 0.6], (150, 1))
    for x in X:
        of_left, of_right = left.predict(x), right.predict(x)
        left.update(of_right, 1)
        right.update(of_left, 0)
    for forecaster in (left, right):
        certificate = forecaster.certificate()
        assert certificate.late > 100
        assert certificate.theorem is certificate.theorem_psmcal is None
        assert certificate.psreg > 12, "what a label on time never costs here"
        assert certificate.psreg <= certificate.bound + 1e-9
        assert certificate.holds()


@every_combination
def test_tickets_from_before_the_save_are_on_time_after_it(combination, tmp_path):
    X, y = stream(90, 3)
    forecaster, straight = (build(combination, 3, kappa=0.002) for _ in range(2))
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        ticket = forecaster.predict(x)
        if t % 30 == 29:
            (forecaster,) = copies(forecaster, tmp_path / "state", 1)
        forecaster.update(pickle.loads(pickle.dumps(ticket)), label)
    straight.run(X, y)
    assert forecaster.certificate().late == 0
    assert forecaster.certificate() == straight.certificate()


@settings(max_examples=40)
@given(
    st.sampled_from(COMBINATIONS),
    st.lists(st.tuples(st.permutations(range(3)), st.integers(0, 40)), min_size=20, max_size=40),
)
def test_certificates_hold_however_tickets_travel(tmp_path_factory, combination, steps):
    """In a round every copy issues a forecast, and learns one that another issued then, or long ago."""
    start = build(combination, 2, kappa=0.0005)
    start.run(*stream(5, 2))
    family = copies(start, tmp_path_factory.mktemp("family") / "state", 3)
    kept: list[Any] = []
    for senders, old in steps:
        tickets = [forecaster.predict([0.5, 0.6]) for forecaster in family]
        for label, (forecaster, sender) in enumerate(zip(family, senders, strict=True)):
            ticket = tickets[sender] if old >= len(kept) else kept.pop(old)
            # Refused: learned already, or for levels that this copy does not have, or made in another order.
            with suppress(ValueError):
                forecaster.update(ticket, label / 2)
        kept += [ticket for ticket in tickets if not ticket.learned]
    for forecaster in family:
        certificate = forecaster.certificate()
        assert certificate.psreg <= certificate.bound + 1e-9
        assert certificate.holds()


def test_a_ticket_on_an_interval_that_the_copy_has_split_is_late(tmp_path):
    """Equal counts, equal wishes, but the two levels are neighbours no more: no account was charged."""
    left, right = copies(Forecaster(2, prior=[0.6, 0.4]), tmp_path / "state", 2)
    here, elsewhere = [0.5, 0.0], [0.5, 0.7]
    while len(left.levels) == 25:
        assert left.rounds < 100
        # Labels that are what the learners wish teach them nothing, but rounding is charged.
        left.update(left.predict(here), 0.3)
        right.update(right.predict(elsewhere), 0.58)
    ticket = right.predict(here)
    assert (ticket.low, ticket.high) == (0.25, 0.3125)
    assert 0.28125 in left.levels
    left.update(ticket, 1)
    assert left.certificate().late == 1


def test_a_level_that_was_not_played_may_have_learned(tmp_path):
    """The bounds are about the learners that carried weight: the copies differ only in those that did not."""
    left, right = copies(Forecaster(2, levels=2, prior=[1.0, 1.0]), tmp_path / "state", 2)
    left.update(left.predict([0.5, 0.5]), 0.2)
    right.update(right.predict([0.5, -0.5]), 0.8)
    ticket = right.predict([0.5, 0.0])
    assert (ticket.low, ticket.weight) == (0.5, 0.0)
    assert left.predict([0.5, 0.0]) != ticket
    left.update(ticket, 1)
    assert left.certificate().late == 0
    assert left.certificate().holds()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("make", [Forecaster, *ONLINE.values()])
def test_a_copied_ticket_is_closed_with_the_first_of_its_copies(make, again):
    forecaster = make(2)
    ticket = forecaster.predict([0.5, 0.1])
    twin = again(ticket)
    assert twin == ticket
    assert not twin.learned
    forecaster.update(twin, 1)
    assert ticket.learned
    assert again(ticket).learned
    for closed in (ticket, twin, again(ticket)):
        with pytest.raises(ValueError, match="already learned"):
            forecaster.update(closed, 1)
    assert forecaster.rounds == 1


def test_a_pickled_ticket_is_as_open_as_it_was_when_written():
    forecaster = Forecaster(2)
    ticket = forecaster.predict([0.5, 0.1])
    before = pickle.dumps(ticket)
    forecaster.update(ticket, 1)
    closed, open_ = pickle.loads(pickle.dumps(ticket)), pickle.loads(before)
    assert closed.learned
    with pytest.raises(ValueError, match="already learned"):
        forecaster.update(closed, 1)
    assert not open_.learned
    assert fields(open_) == fields(ticket)
    forecaster.update(open_, 1)
    assert forecaster.certificate().late == 1, "two labels were learned, the second for an outdated forecast"


def test_equal_tickets_are_two_forecasts():
    forecaster = Forecaster(2)
    first, second = forecaster.predict([0.5, 0.1]), forecaster.predict([0.5, 0.1])
    forecaster.update(first, 1)
    assert not second.learned
    forecaster.update(second, 0)
    assert forecaster.rounds == 2
    assert forecaster.certificate().late == 1
    assert forecaster.certificate().holds()


MASKED = np.ma.array([0.5, 0.1], mask=[False, True])


@pytest.mark.parametrize(
    "attempt",
    [
        lambda f: f.predict(MASKED),
        lambda f: f.predict_many(MASKED[None, :]),
        lambda f: f.run(MASKED[None, :], [1.0]),
        lambda f: f.run([[0.5, 0.1], [0.5, 0.2]], np.ma.array([1.0, 0.0], mask=[False, True])),
        lambda f: f.update(f.predict([0.5, 0.1]), np.ma.masked),
        lambda f: f.update(f.predict_many([[0.5, 0.1]]), np.ma.array([1.0], mask=[True])),
        lambda f: Forecaster(2, prior=MASKED),
        lambda f: Forecaster(2, levels=np.ma.array([0.0, 0.3, 1.0], mask=[False, True, False])),
    ],
)
def test_masked_entries_are_refused(attempt):
    forecaster = Forecaster(2)
    before = snapshot(forecaster)
    with pytest.raises(ValueError, match=r"given a masked array with entries missing, expected every entry"):
        attempt(forecaster)
    assert snapshot(forecaster) == before


def test_a_masked_array_without_masked_entries_is_an_array():
    X, y = stream(20, 2)
    plain = fields(Forecaster(2).run(X, y))
    masked = fields(Forecaster(2).run(np.ma.array(X), np.ma.array(y, mask=False)))
    assert all(np.array_equal(plain[name], masked[name]) for name in plain)
