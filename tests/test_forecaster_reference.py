"""The engine against its literal definition, round by round, for every combination."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from swapcal import Forecast, Forecaster, bounds
from swapcal.arrays import Array
from swapcal.engine import state as memory
from swapcal.kernels.state import T_GAP, T_W_HIGH, T_W_LOW
from tests import reference
from tests.adversaries import contexts, rules
from tests.checks import COMBINATIONS, NAMES, build

CLOSE = 1e-9
WITH_A_GAP = ("oppose near the mean", "real-valued", "along the witness", "all one")


def follow(forecaster: Forecaster, literal: reference.Reference, x: Array) -> tuple[Forecast, reference.Round]:
    """Return the engine's ticket and the reference's version of it."""
    ticket = forecaster.predict(x)
    if forecaster._mixing == "hedge":
        return ticket, literal.hedge(x, ticket.low, ticket.high)
    mix = ticket._mixes[0]
    return ticket, literal.play(x, mix[: len(mix) // 2])


def compare_ticket(ticket: Forecast, played: reference.Round, y: float) -> None:
    row = ticket._tickets[0]
    z = np.array([level.z for level in played.levels])
    used = np.flatnonzero(played.weights > 0)
    assert ticket.p in z[used]
    np.testing.assert_allclose(ticket.mean, played.weights @ z, atol=CLOSE)
    np.testing.assert_allclose(ticket.mean, played.weights @ played.wishes, atol=CLOSE, err_msg="E z = E w")
    np.testing.assert_allclose(row[T_GAP], played.gap(y), atol=CLOSE)
    if len(z) == 2:
        np.testing.assert_allclose(ticket.weight, played.weights[1], atol=CLOSE)
        np.testing.assert_allclose(row[[T_W_LOW, T_W_HIGH]], played.wishes, atol=CLOSE)
    else:
        assert (ticket.low, ticket.high) == (z[used[0]], z[used[-1]])
        expected = played.weights[used[-1]] if len(used) > 1 else 0.0
        np.testing.assert_allclose(ticket.weight, expected, atol=CLOSE)


def compare_learners(forecaster: Forecaster, literal: reference.Reference) -> None:
    state, slots = forecaster._state, forecaster._state.order[: len(literal.levels)]
    np.testing.assert_array_equal(forecaster.levels, [level.z for level in literal.levels])
    dim = forecaster.dim
    np.testing.assert_allclose(state.theta[slots, :dim], [level.theta for level in literal.levels], atol=CLOSE)
    np.testing.assert_allclose(state.potential[slots], [level.potential for level in literal.levels], atol=CLOSE)
    np.testing.assert_allclose(
        [memory.inverse(state, slot, dim) for slot in slots],
        [np.linalg.inv(level.A) for level in literal.levels],
        atol=CLOSE,
    )


def make_literal(forecaster: Forecaster, **options: Any) -> reference.Reference:
    return reference.Reference(forecaster.dim, forecaster.levels, forecaster._learner, **options)


def how(combination: Any) -> dict[str, bool]:
    return {"refine": combination[2] in ("adaptive", "inner"), "inner": combination[2] == "inner"}


@pytest.mark.parametrize("rule", WITH_A_GAP)
@pytest.mark.parametrize("combination", COMBINATIONS, ids=NAMES)
def test_every_round_is_the_literal_one(combination, rule):
    rng = np.random.default_rng(7)
    dim, rows = 3, 60
    X, label = contexts(rng, rows, dim), rules(rng, rows, dim)[rule]
    forecaster = build(combination, dim, ridge=0.7, kappa=0.1)
    literal = make_literal(forecaster, ridge=0.7, kappa=0.1, **how(combination))
    for t, x in enumerate(X):
        ticket, played = follow(forecaster, literal, x)
        y = label(t, x, ticket)
        compare_ticket(ticket, played, y)
        forecaster.update(ticket, y)
        literal.learn(played, y)
    compare_learners(forecaster, literal)
    compare_certificate(forecaster, literal)


@pytest.mark.parametrize("learner", ["ridge", "vaw"])
def test_newborns_start_within_reach_of_one_half(learner):
    """A steep dependence on a small coordinate asks for more weight than the theorem grants a start."""
    dim, rows = 3, 250
    X = contexts(np.random.default_rng(3), rows, dim)
    X[:, 1:] *= 0.12
    forecaster = Forecaster(dim, learner=learner, ridge=1e-3, kappa=0.01)
    literal = make_literal(forecaster, ridge=1e-3, kappa=0.01, refine=True)
    for x in X:
        ticket, played = follow(forecaster, literal, x)
        y = float(np.clip(0.5 + 4.5 * x[1], 0, 1))
        forecaster.update(ticket, y)
        literal.learn(played, y)
    compare_learners(forecaster, literal)
    slots = np.setdiff1d(forecaster._state.order[: len(literal.levels)], np.arange(25))
    from_half = np.linalg.norm(forecaster._state.prior[slots, :dim] - np.eye(dim)[0], axis=1)
    assert np.all(from_half <= 3 * (1 + 1e-12))
    assert np.any(from_half > 3 * (1 - 1e-12)), "one of them was pulled in"
    assert forecaster.certificate().holds()


def compare_certificate(forecaster: Forecaster, literal: reference.Reference) -> None:
    got, expected = forecaster.certificate(), reference.errors(literal)
    np.testing.assert_allclose(got.psmcal_1, expected.psmcal_1, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(got.psmcal_2, expected.psmcal_2, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(got.psreg, expected.psreg, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got.rounding, expected.rounding, rtol=CLOSE, atol=CLOSE)
    assert any(np.isclose(got.learning, part, rtol=1e-8, atol=1e-8) for part in (expected.excess, expected.potential))
    if got.late:
        np.testing.assert_allclose(got.learning, expected.excess, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=NAMES)
def test_late_labels_in_any_order_are_the_literal_ones(combination):
    rng = np.random.default_rng(11)
    dim, rows = 3, 60
    X, label = contexts(rng, rows, dim), rules(rng, rows, dim)["oppose near the mean"]
    forecaster = build(combination, dim)
    literal = make_literal(forecaster, **how(combination))
    waiting = []
    for t, x in enumerate(X):
        ticket, played = follow(forecaster, literal, x)
        waiting.append((ticket, played, label(t, x, ticket)))
        while len(waiting) > 8 or (t == rows - 1 and waiting):
            ticket, played, y = waiting.pop(int(rng.integers(len(waiting))))
            forecaster.update(ticket, y)
            literal.learn(played, y)
    compare_learners(forecaster, literal)
    compare_certificate(forecaster, literal)
    certificate = forecaster.certificate()
    assert certificate.late > 0
    assert certificate.theorem is None
    assert certificate.theorem_psmcal is None
    assert certificate.psmcal_2 <= certificate.psreg + CLOSE
    assert certificate.psreg <= certificate.bound + CLOSE


@pytest.mark.parametrize(("rule", "seed"), [("all zero", 1), ("all one", 2), ("oppose the issued level", 3)])
def test_inner_levels_reach_towards_the_ends_as_labels_come(rule: str, seed: int) -> None:
    """Start the first inner level at 1/16 instead of 2^-14, so that a short stream has it halved again and again."""
    rng = np.random.default_rng(seed)
    dim, rows = 3, 300
    X, label = contexts(rng, rows, dim), rules(rng, rows, dim)[rule]
    forecaster = coarse(dim)
    literal = make_literal(forecaster, refine=True, inner=True)
    charged = 0.0
    for t, x in enumerate(X):
        ticket, played = follow(forecaster, literal, x)
        least = 1.0 / (t + 2)
        for issued in (ticket.p, ticket.mean, ticket.low, ticket.high if ticket.weight else ticket.low):
            assert least <= issued <= 1.0 - least
        free = np.array([level.wish(x, 1.0) for level in played.levels])
        y = label(t, x, ticket)
        charged += float(played.weights @ ((played.wishes - y) ** 2 - (free - y) ** 2))
        compare_ticket(ticket, played, y)
        forecaster.update(ticket, y)
        literal.learn(played, y)
    compare_learners(forecaster, literal)
    compare_certificate(forecaster, literal)
    assert charged <= bounds.inner_clipping(rows)
    assert min(forecaster.levels[1], 1.0 - forecaster.levels[-2]) < 2.0 / (rows + 2)
    assert forecaster.certificate().late == 0
    assert forecaster.certificate().holds()


def coarse(dim: int) -> Forecaster:
    """Return a forecaster on inner levels that start as i/16."""
    forecaster = Forecaster(dim, levels="inner")
    start = memory.allocate(
        np.arange(17) / 16,
        dim,
        24,
        codes=forecaster._state.codes.tolist(),
        knobs=forecaster._state.knobs[:4].tolist(),
        seed=int(forecaster._state.seed[0]),
        start=None,
        window=0.0,
    )
    forecaster._state, forecaster._scratch = start, memory.scratch(start)
    return forecaster
