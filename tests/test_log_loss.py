"""Forecasts for log loss: against the theory written out, and opponents who read the distribution."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest

from swapcal import Forecaster, bounds
from swapcal.archive import ArchiveError, pack
from swapcal.engine import log_loss as engine
from swapcal.engine.grid import inner_sine
from swapcal.engine.log_loss import LogForecaster
from tests.adversaries import RULES, rules
from tests.reference_log import LogReference

EXPERTS = 3
FIELDS = ("p", "mean", "low", "high", "weight")


def fields(forecast):
    return np.array([getattr(forecast, name) for name in FIELDS])


def experts(rng, rows):
    X = rng.random((rows, EXPERTS))
    X[:, 1] **= 4
    X[::7, 2], X[3::7, 2] = 0.0, 1.0
    return X


@pytest.mark.parametrize("name", RULES)
def test_forecasts_and_sums_are_those_of_the_theory_against_every_opponent(name):
    rng = np.random.default_rng(RULES.index(name))
    rows, n = 60, 5
    forecaster, reference = LogForecaster(EXPERTS, levels=n, seed=1), LogReference(inner_sine(n), EXPERTS)
    rule = rules(rng, rows, 1)[name]
    for t, x in enumerate(experts(rng, rows)):
        forecast = forecaster.predict(x)
        issued = reference.check(forecast, x)
        y = rule(t, np.full(1, 0.5), forecast)
        reference.learn(issued, y)
        forecaster.update(forecast, y)
    found = forecaster.certificate()
    for field, value in reference.errors().items():
        assert getattr(found, field) == pytest.approx(value, abs=1e-7), field
    assert found.psreg == pytest.approx(found.rounding + found.clipping + found.learning, abs=1e-9)
    assert found.holds()


def test_wishes_beyond_the_levels_are_held_and_charged():
    forecaster, reference = LogForecaster(2, levels=3), LogReference(inner_sine(3), 2)
    for t in range(60):
        x = [0.001, 0.0] if t < 40 else [0.999, 1.0]
        forecast = forecaster.predict(x)
        issued = reference.check(forecast, x)
        y = float((t >= 40) != (t % 13 == 5))
        forecaster.update(forecast, y)
        reference.learn(issued, y)
    found, expected = forecaster.certificate(), reference.errors()
    assert abs(found.clipping) > 0.1
    for field, value in expected.items():
        assert getattr(found, field) == pytest.approx(value, abs=1e-7), field
    assert found.holds()


def test_late_outcomes_and_weights_enter_as_they_were_issued():
    rng = np.random.default_rng(1)
    forecaster, reference = LogForecaster(EXPERTS, levels=4), LogReference(inner_sine(4), EXPERTS)
    waiting = []
    for x in experts(rng, 50):
        forecast = forecaster.predict(x)
        waiting.append((forecast, reference.check(forecast, x)))
        while len(waiting) > rng.integers(0, 8):
            forecast, issued = waiting.pop(int(rng.integers(len(waiting))))
            y, weight = float(rng.random() < 0.3), float(rng.choice([0.5, 1.0, 3.0]))
            forecaster.update(forecast, y, weight=weight)
            reference.learn(issued, y, weight)
    found = forecaster.certificate()
    for field, value in reference.errors().items():
        assert getattr(found, field) == pytest.approx(value, abs=1e-7), field
    assert found.late > 0
    assert found.bound is found.theorem is None


def test_a_copy_with_as_many_outcomes_is_recognised_as_late():
    left = LogForecaster(2, levels=4)
    right = copy.deepcopy(left)
    for forecaster, y in ((left, 1), (right, 0)):
        forecaster.update(forecaster.predict([0.3, 0.6]), y)
    right.update(left.predict([0.3, 0.6]), 1)
    left.update(left.predict([0.3, 0.6]), 1)
    assert (right.certificate().late, left.certificate().late) == (1, 0)
    far = LogForecaster(1, levels=20)
    waiting = far.predict([0.02])
    far.update(far.predict([0.98]), 1)  # at other levels, whose wishes alone it changes
    far.update(waiting, 0)
    assert far.certificate().late == 1


def test_run_is_the_loop_bit_for_bit_also_in_pieces_and_through_a_file(tmp_path):
    rng = np.random.default_rng(0)
    X, y, counts = experts(rng, 300), (rng.random(300) < 0.2).astype(float), np.where(np.arange(300) % 3, 1.0, 2.5)
    whole, looped, pieces = (LogForecaster(EXPERTS, seed=5) for _ in range(3))
    expected = fields(whole.run(X, y, weights=counts))
    rows = []
    for x, label, count in zip(X, y, counts, strict=True):
        forecast = looped.predict(x)
        assert forecast == looped.predict(x)
        rows.append(fields(forecast))
        looped.update(forecast, label, weight=count)
    np.testing.assert_array_equal(np.array(rows).T, expected)
    parts = []
    for a, b in ((0, 1), (1, 150), (150, 300)):
        parts.append(fields(pieces.run(X[a:b], y[a:b], weights=counts[a:b])))
        pieces.save(tmp_path / "state")
        pieces = LogForecaster.load(tmp_path / "state")
    np.testing.assert_array_equal(np.hstack(parts), expected)
    assert pieces.certificate() == whole.certificate() == looped.certificate()
    other = LogForecaster(EXPERTS, seed=6).run(X, y, weights=counts)
    np.testing.assert_array_equal(fields(other)[1:], expected[1:])
    assert not np.array_equal(other.p, expected[0])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda f: f.predict([0.5]), r"experts: given shape \(1, 1\)"),
        (lambda f: f.predict([0.5, 1.5]), "experts: given 1.5 in row 1"),
        (lambda f: f.predict([0.5, np.nan]), "experts: given nan in row 1"),
        (lambda f: f.predict(["a", 0.5]), "experts: given"),
        (lambda f: f.run([[0.1, 0.2]], [2]), "labels: given 2"),
        (lambda f: f.run([[0.1, 0.2]], [1], weights=[0]), "weights: given 0.0 in row 1"),
        (lambda f: f.update(f.predict([0.1, 0.2]), 1, weight=np.inf), "weight: given inf"),
        (lambda f: LogForecaster(2, levels=0), "levels: given 0"),
        (lambda f: LogForecaster(0), "experts: given 0"),
    ],
)
def test_what_is_refused_changes_nothing(bad, message):
    forecaster = LogForecaster(2)
    forecaster.run(np.full((20, 2), 0.3), np.arange(20) % 2)
    before = pickle.dumps(forecaster._memory)
    with pytest.raises((ValueError, TypeError), match=message):
        bad(forecaster)
    assert pickle.dumps(forecaster._memory) == before


def test_inconsistent_files_are_refused(tmp_path):
    forecaster = LogForecaster(2, levels=4)
    arrays, settings = forecaster.to_state()
    with (tmp_path / "state").open("wb") as file:
        pack(file, engine.KIND, engine.VERSION, arrays | {"weight": np.zeros((5, 2))}, settings)
    with pytest.raises(ArchiveError):
        LogForecaster.load(tmp_path / "state")


def test_the_gap_of_two_levels_is_the_largest_there_is():
    """On a grid of wishes, D is below the bound and comes near it; on the levels it falls like 1/(N + 1)²."""
    for low, high in ((0.02, 0.1), (0.4, 0.6), (0.9, 0.97)):
        a, b = np.log(low / (1 - low)), np.log(high / (1 - high))
        u, v = np.meshgrid(np.linspace(1e-6, b - a, 200), np.linspace(1e-6, b - a, 200))
        p = u / (u + v)
        w_low, w_high = 1 / (1 + np.exp(-(a + u))), 1 / (1 + np.exp(-(b - v)))
        gap = (1 - p) * np.log((1 - w_low) / (1 - low)) + p * np.log((1 - w_high) / (1 - high))
        bound = float(bounds.log_hedge_gap(low, high))
        assert gap.max() <= bound + 1e-12
        assert gap.max() > 0.99 * bound
    for n, most in ((1, 1.387), (2, 1.312), (3, 1.294), (40, 1.2737), (500, 1.2733)):
        z = inner_sine(n)
        assert 0.999 * most < max(float(bounds.log_hedge_gap(a, b)) for a, b in pairwise(z)) * (n + 1) ** 2 < most


def test_constants_cost_at_most_ln_of_the_rounds_for_real_counts():
    from scipy.special import betaln, xlogy

    n, share = np.meshgrid(np.geomspace(1e-3, 1e7, 60), np.linspace(0, 1, 41))
    s = n * share
    best = -xlogy(s, share) - xlogy(n - s, 1 - share)
    assert np.all(-betaln(s + 1, n - s + 1) <= best + np.log(n + 1) + 1e-9 * (1 + best))


def test_the_best_expert_and_the_rate_of_rare_events_are_found():
    rng = np.random.default_rng(3)
    chance = rng.beta(1, 60, 30_000)
    X = np.column_stack([np.full(30_000, 0.5), np.clip(chance * 1.02, 0, 1), np.full(30_000, 0.9)])
    y = (rng.random(30_000) < chance).astype(float)
    forecaster = Forecaster.log_loss(experts=3, levels=40)
    forecaster.run(X, y)
    found = forecaster.certificate()
    assert found.holds()
    assert found.klcal < 25
    useless = Forecaster.log_loss(experts=1, levels=40).run(X[:, :1], y)
    assert abs(useless.mean[10_000:].mean() - y.mean()) < 0.002


def test_the_certificate_reads_as_it_is():
    empty = LogForecaster(1).certificate()
    assert empty.holds()
    assert "nothing to certify" in str(empty)
    forecaster = LogForecaster(1, levels=8)
    forecaster.run(np.full((100, 1), 0.3), np.arange(100) % 3 == 0)
    assert "9 levels" in str(forecaster.certificate())
    assert forecaster.certificate().as_dict()["experts"] == 1
    assert "<" in forecaster._repr_html_()
