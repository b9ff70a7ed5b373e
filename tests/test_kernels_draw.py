"""Draws: pure functions of seed, event and context; uniform, unshared, replayable."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom, kstest

from swapcal import Forecaster
from swapcal.arrays import Array
from swapcal.kernels.draw import uniform
from tests.adversaries import contexts
from tests.chance import seeded

UNLIKELY = 1e-6


def is_plausible(count: int, tosses: int, chance: float) -> bool:
    """Tell whether neither as few nor as many successes are unlikely."""
    return min(binom.cdf(count, tosses, chance), binom.sf(count - 1, tosses, chance)) > UNLIKELY


def undecided(dim: int, seed: int = 0) -> Forecaster:
    """Return a forecaster with levels 0 and 1 that mixes them half and half, so that `p` shows the draw's first bit."""
    forecaster = Forecaster(dim, levels=1, seed=seed)
    forecaster._state.theta[:, 0] = 1.0
    return forecaster


def many_hot(places: list[tuple[int, ...]], dim: int) -> Array:
    X = np.zeros((len(places), dim))
    X[:, 0] = 0.5
    for row, columns in enumerate(places):
        X[row, list(columns)] = 0.4
    return X


@pytest.mark.statistical
def test_draws_are_uniform_over_events_and_over_seeds():
    draws = [uniform(np.uint64(seeded(12345)), np.uint64(event)) for event in range(4000)]
    assert kstest(draws, "uniform").pvalue > UNLIKELY
    assert len(set(draws)) == len(draws)
    over_seeds = [undecided(1, seeded(seed)).predict([0.5], event="e").p for seed in range(2000)]
    assert is_plausible(sum(over_seeds), 2000, 0.5)


@pytest.mark.statistical
@pytest.mark.parametrize("mixing", ["hedge", "blum-mansour"])
def test_high_is_issued_as_often_as_its_weight_says(mixing):
    rng = np.random.default_rng(seeded(5))
    X = contexts(rng, 300, 3)
    forecaster = Forecaster(3, levels=4, mixing=mixing, seed=seeded(9))
    forecaster.run(X, (rng.random(300) < 0.3).astype(float))
    asked = np.repeat(contexts(rng, 5, 3), 4000, axis=0)
    forecasts = forecaster.predict_many(asked, events=list(range(len(asked))))
    for part in np.split(np.arange(len(asked)), 5):
        weight, high = forecasts.weight[part[0]], forecasts.high[part[0]]
        assert np.all(forecasts.weight[part] == weight)
        issued = int(np.sum(forecasts.p[part] == high))
        if high > forecasts.low[part[0]]:
            assert is_plausible(issued, len(part), weight)


@pytest.mark.statistical
def test_high_is_issued_as_often_as_its_weight_says_along_a_stream():
    rng = np.random.default_rng(seeded(6))
    X = contexts(rng, 20_000, 3)
    forecasts = Forecaster(3, seed=seeded(3)).run(X, (rng.random(20_000) < 0.4).astype(float))
    surprise = np.sum((forecasts.p == forecasts.high) - forecasts.weight)
    assert abs(surprise) < 5 * np.sqrt(np.sum(forecasts.weight * (1 - forecasts.weight)))
    halves = forecasts.weight > 0.5
    for part in (halves, ~halves):
        surprise = np.sum((forecasts.p == forecasts.high)[part] - forecasts.weight[part])
        assert abs(surprise) < 5 * np.sqrt(np.sum((forecasts.weight * (1 - forecasts.weight))[part]))


@pytest.mark.statistical
def test_event_ids_determine_the_draw_whatever_was_learned_in_between():
    events: list[object] = ["order-17", b"order-17", 17, 2**80, -3, "ω", np.int64(17)]
    forecaster = undecided(2, seeded(0))
    first = [forecaster.predict([0.5, 0.1], event=event).p for event in events * 20]
    assert first == [forecaster.predict([0.5, -0.3], event=event).p for event in events * 20]
    assert first[2] == first[6], "an integer is the same event whatever its type"
    X = np.tile([0.5, 0.1], (200, 1))
    rows: list[object] = [f"row {row}" for row in range(200)]
    together = forecaster.predict_many(X, events=rows).p
    np.testing.assert_array_equal(together, [forecaster.predict(X[0], event=event).p for event in rows])
    assert 60 < together.sum() < 140


@pytest.mark.statistical
def test_seeds_change_the_draws():
    X = contexts(np.random.default_rng(seeded(0)), 400, 3)
    first, second = (undecided(3, seeded(seed)).predict_many(X).p for seed in (0, 1))
    assert 140 < np.sum(first != second) < 260
    np.testing.assert_array_equal(first, undecided(3, seeded(0)).predict_many(X).p)


@pytest.mark.statistical
def test_learning_changes_the_draw_of_the_same_context():
    forecaster = undecided(2, seeded(0))
    issued = []
    for _ in range(400):
        forecast = forecaster.predict([0.5, 0.2])
        issued.append(forecast.p)
        forecaster.update(forecast, 0.5)
        forecaster._state.theta[:] = 0.0
        forecaster._state.theta[:, 0] = 1.0
    assert 140 < sum(issued) < 260
    assert 140 < np.sum(np.diff(issued) != 0) < 260


@pytest.mark.statistical
@pytest.mark.parametrize("hot", [1, 2, 3])
def test_open_forecasts_of_different_contexts_do_not_share_a_draw(hot):
    """Indicator features differ by where, not by what: pairs of places must not cancel in the fingerprint.

    Forecasts that share draws would move together from seed to seed; independent ones agree half of the time.
    """
    dim = 24
    places = list(combinations(range(1, dim), hot))[:250]
    X = many_hot(places, dim)
    issued = np.array([undecided(dim, seeded(seed)).predict_many(X).p for seed in range(80)])
    agreement = np.corrcoef(issued.T)[np.triu_indices(len(places), 1)]
    assert agreement.max() < 0.75
    assert agreement.min() > -0.75
