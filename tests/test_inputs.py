"""Bad input: told what was given and what is expected, and not a bit of the state moves."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapcal import Forecaster, Live, _validate
from swapcal.batch.settings import FitSettings
from tests.checks import COMBINATIONS, NAMES, build, snapshot, stream

GOOD = np.array([0.5, 0.1, -0.2])

BAD_CONTEXTS: dict[str, tuple[Any, str]] = {
    "too few coordinates": ([0.5, 0.1], r"given 2 coordinates, expected 3"),
    "too many coordinates": ([0.5, 0.1, 0.1, 0.1], r"given 4 coordinates, expected 3; grow"),
    "nan": ([0.5, np.nan, 0.1], r"given nan at coordinate 1, expected finite"),
    "infinity": ([0.5, 0.1, -np.inf], r"given -inf at coordinate 2, expected finite"),
    "square overflows": ([0.5, 1e200, 0.1], r"given norm 1e\+200, expected at most 1"),
    "too long": ([0.5, 0.8, 0.8], r"given norm 1\.2\d*, expected at most 1"),
    "barely too long": ([0.5, np.sqrt(0.75) + 1e-7, 0.0], r"given norm 1\.0000000\d+, expected at most 1"),
    "no constant": ([0.4, 0.1, 0.1], r"given first coordinate .*0\.4.*, expected 0\.5"),
    "constant barely off": ([0.5 + 1e-8, 0.1, 0.1], r"given first coordinate .*, expected 0\.5"),
    "nan constant": ([np.nan, 0.1, 0.1], r"given nan at coordinate 0, expected finite"),
    "scalar": (0.5, r"given shape \(\), expected"),
    "matrix of one row for one": ([[[0.5, 0.1, 0.1]]], r"given shape .*, expected"),
    "text": ("abc", r"given str that is not numeric, expected floats"),
    "list of text": (["0.5", "0.1", "0.1"], r"given list that is not numeric, expected floats"),
    "none": ([0.5, None, 0.1], r"given nan at coordinate 1, expected finite"),
    "mapping": ({"a": 0.5}, r"given dict that is not numeric, expected floats"),
    "ragged": ([0.5, [0.1, 0.2]], r"given list that is not numeric, expected floats"),
    "complex": (np.array([0.5 + 0j, 0.1, 0.1]), r"given ndarray that is not numeric, expected floats"),
    "dates": (np.array(["2020-01-01"] * 3, "datetime64[D]"), r"given ndarray that is not numeric, expected floats"),
}
BAD_LABELS: dict[str, tuple[Any, type[Exception]]] = {
    "negative": (-1e-9, ValueError),
    "above one": (1.0000001, ValueError),
    "minus one": (-1, ValueError),
    "nan": (np.nan, ValueError),
    "infinity": (np.inf, ValueError),
    "none": (None, TypeError),
    "text": ("1", TypeError),
    "bytes": (b"1", TypeError),
    "word": ("yes", TypeError),
    "complex": (1j, TypeError),
    "list": ([1], TypeError),
    "mapping": ({}, TypeError),
}


@pytest.fixture
def forecaster():
    made = Forecaster(3)
    made.run(*stream(30, 3))
    return made


@pytest.mark.parametrize("name", BAD_CONTEXTS)
def test_bad_contexts(forecaster, name):
    x, message = BAD_CONTEXTS[name]
    before = snapshot(forecaster)
    with pytest.raises((ValueError, TypeError), match=rf"context: {message}"):
        forecaster.predict(x)
    assert snapshot(forecaster) == before


@pytest.mark.parametrize(
    "name", [name for name, (x, _) in BAD_CONTEXTS.items() if np.shape(np.array(x, object)) == (3,) and name != "dates"]
)
def test_a_bad_row_spoils_the_whole_batch_and_is_named(forecaster, name):
    x, message = BAD_CONTEXTS[name]
    X, y = stream(6, 3)
    rows: Any = [*X[:4].tolist(), list(x), X[5].tolist()]
    before = snapshot(forecaster)
    where = "" if "not numeric" in message else " in row 5"
    for attempt in (lambda: forecaster.run(rows, y), lambda: forecaster.predict_many(rows)):
        with pytest.raises((ValueError, TypeError), match=rf"context{where}: {message.replace('ndarray', 'list')}"):
            attempt()
    assert snapshot(forecaster) == before


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels(forecaster, name):
    y, error = BAD_LABELS[name]
    ticket = forecaster.predict(GOOD)
    before = snapshot(forecaster)
    with pytest.raises(error, match=r"label: given .*, expected a number in \[0, 1\]"):
        forecaster.update(ticket, y)
    assert snapshot(forecaster) == before
    assert not ticket.learned
    forecaster.update(ticket, 1)


@pytest.mark.parametrize("name", [name for name in BAD_LABELS if name not in ("list", "complex")])
def test_a_bad_label_spoils_the_whole_batch(forecaster, name):
    X, y = stream(6, 3)
    spoiled: Any = y.astype(object)
    spoiled[4] = BAD_LABELS[name][0]
    tickets = forecaster.predict_many(X)
    before = snapshot(forecaster)
    given = spoiled.tolist()
    for attempt in (lambda: forecaster.run(X, given), lambda: forecaster.update(tickets, given)):
        with pytest.raises((ValueError, TypeError), match=r"labels: given .*expected"):
            attempt()
    assert snapshot(forecaster) == before
    assert not tickets.learned


@pytest.mark.parametrize("labels", [[1.0] * 5, [1.0] * 7, 1.0, [[1.0]] * 6, []])
def test_labels_and_contexts_must_match(forecaster, labels):
    X, _ = stream(6, 3)
    tickets = forecaster.predict_many(X)
    before = snapshot(forecaster)
    for attempt in (lambda: forecaster.run(X, labels), lambda: forecaster.update(tickets, labels)):
        with pytest.raises(ValueError, match=r"labels: given shape .*, expected \(6,\), one per context"):
            attempt()
    assert snapshot(forecaster) == before


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((2, 2, 3)), np.zeros((4, 2)), np.zeros((4, 0))])
def test_contexts_of_a_batch_must_be_rows(forecaster, X):
    before = snapshot(forecaster)
    with pytest.raises(ValueError, match=r"context: given .*, expected"):
        forecaster.run(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"context: given .*, expected"):
        forecaster.predict_many(X)
    assert snapshot(forecaster) == before


@pytest.mark.parametrize("combination", COMBINATIONS, ids=NAMES)
def test_forecasts_of_others_and_settled_forecasts(combination):
    forecaster, other = build(combination, 3), build(combination, 3)
    foreign, many = other.predict(GOOD), forecaster.predict_many([GOOD, GOOD])
    settled = forecaster.predict(GOOD)
    forecaster.update(settled, 1)
    forecaster.update(many, [0, 1])
    ran = forecaster.run([GOOD], [1])
    before = snapshot(forecaster)
    with pytest.raises(ValueError, match="given one from another forecaster, expected one that this forecaster issued"):
        forecaster.update(foreign, 1)
    for ticket, y in ((settled, 1), (many, [0, 1]), (ran, [1])):
        with pytest.raises(ValueError, match="given one whose label was already learned, expected an open one"):
            forecaster.update(ticket, y)
    for nothing in (None, 0.5, foreign.p):
        with pytest.raises(TypeError, match="expected a Forecast from this forecaster"):
            forecaster.update(nothing, 1)
    assert snapshot(forecaster) == before


@pytest.mark.parametrize("event", [1.5, True, None, ("a",), [1]])
def test_event_ids_are_ints_or_text(forecaster, event):
    X, y = stream(2, 3)
    before = snapshot(forecaster)
    with pytest.raises(TypeError, match=r"event: given \w+, expected an int, str or bytes id"):
        forecaster.run(X, y, events=["a", event])
    assert snapshot(forecaster) == before


def test_event_ids_come_one_per_context(forecaster):
    X, y = stream(3, 3)
    before = snapshot(forecaster)
    for attempt in (
        lambda: forecaster.run(X, y, events=["a"]),
        lambda: forecaster.predict_many(X, events=list("abcd")),
    ):
        with pytest.raises(ValueError, match=r"events: given \d, expected 3, one per context"):
            attempt()
    assert snapshot(forecaster) == before


@given(st.one_of(st.integers(), st.text(), st.binary()))
def test_every_id_has_a_key_and_none_is_the_unnamed_one(event):
    assert 0 < _validate.event_key(event) < 2**64
    assert _validate.event_key(event) == _validate.event_key(event)


def test_ids_of_a_type_of_their_own_are_known_by_what_they_are():
    Text, Number = enum.Enum("Text", {"ONE": "a1"}, type=str), enum.Enum("Number", {"ONE": 1}, type=int)
    assert _validate.event_key(Text["ONE"]) == _validate.event_key(np.str_("a1")) == _validate.event_key("a1")
    assert _validate.event_key(Number["ONE"]) == _validate.event_key(np.int8(1)) == _validate.event_key(1)


@pytest.mark.parametrize("dim", [2, 0, -1, 3.0, True, "4", None])
def test_coordinates_never_go_away(forecaster, dim):
    before = snapshot(forecaster)
    with pytest.raises(ValueError, match=r"dim: given .*, expected"):
        forecaster.grow(dim)
    assert snapshot(forecaster) == before
    assert forecaster.dim == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, r"dim: given 0, expected an integer of at least 1"),
        ({"dim": 2.0}, r"dim: given 2\.0, expected an integer"),
        ({"dim": True}, r"dim: given True, expected an integer"),
        ({"seed": -1}, r"seed: given -1, expected an integer in"),
        ({"seed": 2**64}, r"seed: given \d+, expected an integer in"),
        ({"seed": 1.0}, r"seed: given 1\.0, expected an integer in"),
        ({"seed": None}, r"seed: given None, expected an integer in"),
        ({"seed": True}, r"seed: given True, expected an integer in"),
        ({"ridge": 0}, r"ridge: given 0, expected a number from 1e-12 to 1e\+08"),
        ({"ridge": -1.0}, r"ridge: given -1\.0, expected a number from 1e-12 to 1e\+08"),
        ({"ridge": 9e-13}, r"ridge: given 9e-13, expected a number from 1e-12 to 1e\+08"),
        ({"ridge": 1.001e8}, r"ridge: given 100100000\.0, expected a number from 1e-12 to 1e\+08"),
        ({"ridge": np.nan}, r"ridge: given nan, expected a number from 1e-12 to 1e\+08"),
        ({"ridge": np.inf}, r"ridge: given inf, expected a number from 1e-12 to 1e\+08"),
        ({"ridge": None}, r"ridge: given None, expected a number from 1e-12 to 1e\+08"),
        ({"ridge": "big"}, r"ridge: given 'big', expected a number from 1e-12 to 1e\+08"),
        ({"kappa": 0.0}, r"kappa: given 0\.0, expected a positive finite number"),
        ({"learner": "lasso"}, r"learner: given 'lasso', expected one of ridge"),
        ({"mixing": "softmax"}, r"mixing: given 'softmax', expected one of hedge"),
        ({"learner": ["ridge"]}, r"learner: given \['ridge'\], expected one of ridge"),
        (
            {"mixing": "blum-mansour"},
            r'levels: given "adaptive" with mixing "blum-mansour", expected fixed levels; a split',
        ),
        (
            {"mixing": "blum-mansour", "levels": 5, "learner": "vaw"},
            r'learner: given "vaw" with mixing "blum-mansour", expected .*; a VAW forecast depends on its own weight',
        ),
    ],
)
def test_constructors_refuse_with_the_reason(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Forecaster(**({"dim": 2} | options))


def test_a_ridge_is_refused_wherever_it_enters_the_engine():
    forecaster = Forecaster(2)
    with pytest.raises(ValueError, match="ridge: given"):
        forecaster.set_ridge(1e9)
    with pytest.raises(ValueError, match="ridge: given"):
        Live(ridge=1e9)
    with pytest.raises(ValueError, match="ridge: given"):
        FitSettings(ridge=1e9).ridges  # noqa: B018
    for ridge in (1e-12, 1e8):
        forecaster.set_ridge(ridge)
        assert Live(ridge=ridge).settings["ridge"] == ridge == FitSettings(ridge=ridge).ridges[0]


@pytest.mark.parametrize(
    ("dim", "horizon", "target"), [(3, 1000, "mse"), (3, 0, "smcal"), (0, 1000, "smcal"), (3, -5, "omni")]
)
def test_the_paper_needs_a_dimension_a_horizon_and_a_target(dim, horizon, target):
    with pytest.raises(ValueError, match=r"given|must"):
        Forecaster.paper(dim, horizon, target)


def test_rounding_is_forgiven():
    forecaster = Forecaster(3)
    tail = np.sqrt(0.75)
    for x in ([0.5 + 1e-12, tail, 0.0], [0.5, tail * (1 + 1e-12), 1e-9], [np.float32(0.5), 0, 0]):
        forecaster.update(forecaster.predict(x), True)
    assert forecaster.rounds == 3


def test_a_ticket_keeps_the_context_it_was_issued_for():
    x = GOOD.copy()
    first, second = Forecaster(3), Forecaster(3)
    ticket = first.predict(x)
    x[1] = 0.7
    first.update(ticket, 1)
    second.update(second.predict(GOOD), 1)
    assert snapshot(first)["theta"] == snapshot(second)["theta"]


def test_masked_contexts_and_labels_are_refused_and_unmasked_ones_taken() -> None:
    forecaster = Forecaster(3)
    X, y = np.ma.masked_array([GOOD, GOOD]), np.ma.masked_array([0.0, 1.0])
    forecaster.run(X, y)
    before = snapshot(forecaster)
    X[1, 1] = y[1] = np.ma.masked
    for rows, labels in ((X, [0, 1]), ([GOOD, GOOD], y)):
        with pytest.raises(ValueError, match=r"given a masked array with entries missing"):
            forecaster.run(rows, labels)
    assert snapshot(forecaster) == before
