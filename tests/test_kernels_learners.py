"""Regret of every level's learner, on time, against adversaries: never above what its bound says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from swapcal import bounds
from swapcal.kernels.learners import clip
from tests import reference
from tests.adversaries import RULES, contexts, rules
from tests.checks import LEARNERS, build

SLACK = 1e-9


def play(learner: str, mixing: str, rule: str, levels: str = "uniform", dim: int = 3, rows: int = 150) -> Any:
    """Return the engine after a stream, and per slot (weights, contexts, labels, wishes) as issued."""
    rng = np.random.default_rng(3)
    X, label = contexts(rng, rows, dim), rules(rng, rows, dim)[rule]
    if rule == "along the witness":
        X[:, 1:] = np.sqrt(0.75) * np.eye(dim - 1)[np.arange(rows) % (dim - 1)]
    forecaster = build((learner, mixing, levels), dim)
    log: dict[int, list[tuple[Any, ...]]] = {}
    for t, x in enumerate(X):
        ticket = forecaster.predict(x)
        y = label(t, x, ticket)
        for slot, weight, wish in shares(ticket):
            log.setdefault(slot, []).append((weight, x, y, wish))
        forecaster.update(ticket, y)
    return forecaster, {slot: [np.array(part) for part in zip(*rows, strict=True)] for slot, rows in log.items()}


def shares(ticket: Any) -> list[tuple[int, float, float]]:
    """Return (slot, weight, wish) of every level a ticket plays."""
    row, mix = ticket._tickets[0], ticket._mixes[0]
    if mix.size:
        n = len(mix) // 2
        return [(slot, mix[slot], mix[n + slot]) for slot in range(n) if mix[slot] > 0]
    _, _, _, _, weight, w_low, w_high, _, low, high, *_ = row
    return [(int(low), 1 - weight, w_low), (int(high), weight, w_high)]


def comparators(rng: np.random.Generator, prior: Any, weights: Any, X: Any, y: Any) -> list[Any]:
    """Return comparators of every kind: the least-squares one, extreme points of 2Θ_1, random ones, the prior."""
    dim = X.shape[1]
    root = np.sqrt(weights)[:, None]
    best = np.linalg.lstsq(root * X, root[:, 0] * y, rcond=1e-10)[0]
    length = max(1.0, (abs(best[0]) / 2 + np.sqrt(0.75) * np.linalg.norm(best[1:])) / 2)
    spread = rng.standard_normal((20, dim))
    spread *= 2 / (np.abs(spread[:, :1]) / 2 + np.sqrt(0.75) * np.linalg.norm(spread[:, 1:], axis=1, keepdims=True))
    return [best / length, 4 * np.eye(dim)[0], -4 * np.eye(dim)[0], prior, *spread]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("learner", "mixing", "levels"),
    [(learner, "hedge", levels) for learner in LEARNERS for levels in ("uniform", "adaptive")]
    + [(learner, "blum-mansour", "uniform") for learner in LEARNERS if learner != "vaw"],
)
def test_regret_of_every_level_stays_below_potential_and_theorem(learner, mixing, levels, rule):
    rng = np.random.default_rng(0)
    forecaster, log = play(learner, mixing, rule, levels)
    state, dim = forecaster._state, forecaster.dim
    factor = {"ons": 640 / 8, "ons-fast": 1 / 100}.get(learner, 1.0)
    for slot, (weights, X, y, wishes) in log.items():
        prior = state.prior[slot, :dim]
        for theta in comparators(rng, prior, weights, X, y):
            distance2 = float(np.sum((theta - prior) ** 2))
            regret = weights @ ((wishes - y) ** 2 - (X @ theta - y) ** 2)
            assert regret <= state.potential[slot] + factor * distance2 + SLACK
            theorem = bounds.learner_regret(learner, weights.sum(), dim, distance2=distance2)
            assert state.potential[slot] + factor * distance2 <= float(theorem) + SLACK


@pytest.mark.parametrize("learner", LEARNERS)
def test_kept_statistics_are_those_of_the_issued_rounds(learner):
    forecaster, log = play(learner, "hedge", "oppose near the mean", "adaptive")
    state, dim = forecaster._state, forecaster.dim
    for slot, (weights, X, y, wishes) in log.items():
        z = state.z[slot]
        np.testing.assert_allclose(state.mass[slot], weights.sum(), rtol=1e-12)
        np.testing.assert_allclose(state.residual[slot, :dim], (weights * (y - z)) @ X, atol=1e-11)
        np.testing.assert_allclose(state.excess[slot], weights @ ((wishes - y) ** 2 - (z - y) ** 2), atol=1e-11)


@pytest.mark.parametrize("learner", ["ridge", "vaw"])
def test_potential_bounds_the_realised_excess(learner):
    forecaster, log = play(learner, "hedge", "oppose the mean")
    state, dim = forecaster._state, forecaster.dim
    for slot, (weights, X, y, wishes) in log.items():
        realised = reference.excess(weights, X, y, wishes, state.prior[slot, :dim], 1.0)
        assert realised <= state.potential[slot] + SLACK


def test_online_newton_steps_stay_in_the_ball():
    forecaster, _ = play("ons-fast", "hedge", "along the witness")
    norms = np.linalg.norm(forecaster._state.theta, axis=1)
    assert np.all(norms <= 4 * (1 + 1e-12))
    assert np.any(norms > 4 * (1 - 1e-9)), "the projection was needed"


@pytest.mark.parametrize(("w", "clipped"), [(-1e300, 0.0), (-0.0, 0.0), (0.3, 0.3), (1.0, 1.0), (7.0, 1.0)])
def test_clip(w, clipped):
    assert clip(w) == clipped
