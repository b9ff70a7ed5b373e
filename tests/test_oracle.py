"""Forecasting with learners of one's own: identities against brute force, adversaries, delays, failures, states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from swapcal import Forecaster, OracleForecaster
from swapcal.arrays import Array
from swapcal.oracles import FiniteClass, Ridge
from tests.adversaries import RULES, contexts, labels, rules

STUMPS = [(j, cut, low, high) for j in (1, 2) for cut in (-0.3, 0.0, 0.3) for low in (0.1, 0.6) for high in (0.2, 0.9)]


def stump(j: int, cut: float, low: float, high: float) -> Callable[[Array], float]:
    return lambda x: high if x[j] > cut else low


FUNCTIONS = [stump(*each) for each in STUMPS] + [lambda x: 0.5, lambda x: 0.0, lambda x: 1.0]


def finite(level: float) -> FiniteClass:
    return FiniteClass(FUNCTIONS)


class Played:
    """What a forecaster did, kept literally: the distributions, the contexts, the labels and the weights."""

    def __init__(self) -> None:
        self.rows: list[tuple[list[tuple[float, float]], Array, float, float]] = []

    def add(self, forecaster: Any, forecast: Any, x: Array, y: float, weight: float = 1.0) -> None:
        if forecaster._mixing == "hedge":
            mix = [(forecast.low, 1 - forecast.weight), (forecast.high, forecast.weight)]
        else:
            mix = [(forecaster._state.z[int(slot)], alpha) for slot, alpha, *_ in forecast._mixes]
        self.rows.append((mix, x, y, weight))

    def psreg(self, functions: list[Callable[[Any], float]]) -> float:
        """Return Σ_v max_f Σ_t α_t(v)[(v - y)² - (f(x) - y)²], by trying every function on every level."""
        gains: dict[float, Array] = defaultdict(lambda: np.zeros(len(functions)))
        for mix, x, y, weight in self.rows:
            values = np.array([f(x) for f in functions])
            for level, alpha in mix:
                gains[level] = gains[level] + weight * alpha * ((level - y) ** 2 - (values - y) ** 2)
        return float(sum(gain.max() for gain in gains.values()))


def duel(forecaster: Any, X: Array, rule: Callable[[int, Array, Any], float]) -> Played:
    played = Played()
    for t, x in enumerate(X):
        forecast = forecaster.predict(x)
        y = rule(t, x, forecast)
        played.add(forecaster, forecast, x, y)
        forecaster.update(forecast, y)
    return played


def same(a: tuple[float, float], b: float, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(a, (b, b), rtol=0, atol=tolerance)


BESIDE = {"alone": (), "ridge": ("ridge",), "three": ("ridge", lambda level: Ridge(level, 3, ridge=0.1))}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mixing", ["hedge", "blum-mansour"])
@pytest.mark.parametrize("beside", BESIDE)
def test_swap_regret_is_rounding_plus_excess_for_any_labels(rule: str, mixing: str, beside: str) -> None:
    rng = np.random.default_rng(3)
    X = contexts(rng, 70, 3)
    forecaster = OracleForecaster(finite, levels=5, beside=BESIDE[beside], mixing=mixing)
    played = duel(forecaster, X, rules(rng, len(X), 3)[rule])
    certificate = forecaster.certificate()
    same(certificate.psreg, played.psreg(FUNCTIONS))
    assert certificate.late == 0
    assert certificate.holds()
    assert certificate.psreg[1] <= certificate.bound <= certificate.theorem + 1e-12
    assert np.all(certificate.combining <= 2 * np.log(len(BESIDE[beside]) + 1) + 1e-9)
    assert (certificate.linear is None) == (beside == "alone")


@pytest.mark.parametrize("mixing", ["hedge", "blum-mansour"])
@pytest.mark.parametrize("levels", [6, "sine:5", [0, 0.05, 0.3, 0.6, 1]])
def test_ridge_oracles_give_the_certificate_of_the_engine(mixing: str, levels: Any) -> None:
    rng = np.random.default_rng(5)
    X = contexts(rng, 300, 4)
    y, events = labels(rng, X), list(range(300))
    engine = Forecaster(4, levels=levels, mixing=mixing, seed=3)
    forecaster = OracleForecaster(lambda v: Ridge(v, 4), levels=levels, mixing=mixing, beside=(), seed=3)
    expected = engine.run(X, y, events=events)
    got = forecaster.run(X, y, events=events)
    for name in ("p", "mean", "low", "high", "weight"):
        np.testing.assert_allclose(getattr(got, name), getattr(expected, name), rtol=0, atol=1e-10)
    ours, theirs = forecaster.certificate(), engine.certificate()
    same(ours.psreg, theirs.psreg, 1e-8)
    assert ours.rounding == pytest.approx(theirs.rounding, abs=1e-10)
    assert ours.bound is not None
    assert theirs.psreg <= ours.bound
