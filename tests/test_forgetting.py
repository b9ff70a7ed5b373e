"""A short memory beside the long one: its sums, its solutions and its certificate against their definitions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from swapcal import Forecaster, bounds
from swapcal.archive import ArchiveError
from swapcal.arrays import Array
from swapcal.engine import state as memory
from swapcal.engine.forecaster import FILE
from swapcal.kernels.state import (
    T_GAP,
    T_RECENT,
    T_RECENT_HIGH,
    T_RECENT_LOW,
    T_SLOT_HIGH,
    T_SLOT_LOW,
    T_W_HIGH,
    T_W_LOW,
    T_WEIGHT,
)
from swapcal.live import Live
from tests import checks, reference
from tests.adversaries import RULES, contexts, rules
from tests.fresh import python

WINDOW, DIM, ROWS = 25.0, 3, 150
CLOSE = 1e-8
CHECKS = [getattr(checks, name) for name in dir(checks) if name.startswith("check_")]


class Learned(NamedTuple):
    """Everything that was learned, in the order of learning."""

    x: Array
    y: Array
    tickets: Array


def grid_of(forecaster: Forecaster) -> dict[int, float]:
    return {int(slot): float(forecaster._state.z[slot]) for slot in memory.slots_in_order(forecaster._state)}


def play(rule: str, *, late: int = 0, grow: bool = False, **options: Any) -> tuple[Forecaster, Learned]:
    """Forecast against a rule and learn each label `late` rounds after its forecast."""
    rng = np.random.default_rng(4)
    X, label = contexts(rng, ROWS, DIM), rules(rng, ROWS, DIM)[rule]
    forecaster = Forecaster(2 if grow else DIM, window=WINDOW, kappa=0.05, ridge=0.7, **options)
    waiting: list[Any] = []
    x, y, tickets = np.zeros((0, DIM)), [], []
    for t, row in enumerate(X):
        if grow and t == ROWS // 2:
            forecaster.grow(DIM)
        forecast = forecaster.predict(row[: forecaster.dim])
        waiting.append((np.pad(row[: forecaster.dim], (0, DIM - forecaster.dim)), forecast, label(t, row, forecast)))
        if len(waiting) > late:
            seen, ticket, value = waiting.pop(0)
            tickets.append(ticket._tickets[0].copy())
            forecaster.update(ticket, value)
            x, y = np.vstack([x, seen]), [*y, value]
    return forecaster, Learned(x, np.array(y), np.array(tickets))


def shares(learned: Learned, slot: int) -> tuple[Array, Array, Array]:
    """Return the weight, the wish and the short memory's word with which each round played a level."""
    t = learned.tickets
    low, high = t[:, T_SLOT_LOW] == slot, t[:, T_SLOT_HIGH] == slot
    weight = np.where(low, 1.0 - t[:, T_WEIGHT], np.where(high, t[:, T_WEIGHT], 0.0))
    return weight, np.where(low, t[:, T_W_LOW], t[:, T_W_HIGH]), np.where(low, t[:, T_RECENT_LOW], t[:, T_RECENT_HIGH])


def inner(learned: Learned, own: Array) -> Array:
    """Return contexts as the levels' learners see them."""
    x = learned.x
    return np.column_stack([x[:, 0], learned.tickets[:, T_RECENT] - 0.5, own - 0.5, x[:, 1:]])


def fading(learned: Learned) -> Array:
    return np.exp(-np.arange(len(learned.y) - 1, -1, -1) / WINDOW)


def fitted(weights: Array, X: Array, y: Array, pull: Array, prior: Array) -> Array:
    return np.linalg.solve((X * weights[:, None]).T @ X + np.diag(pull), X.T @ (weights * y) + pull * prior)


@pytest.mark.parametrize("options", [{}, {"late": 7}, {"grow": True}], ids=["at once", "late", "growing"])
@pytest.mark.parametrize("rule", ["random", "along the witness", "real-valued"])
def test_every_learner_is_the_literal_minimiser(rule: str, options: dict[str, Any]) -> None:
    forecaster, learned = play(rule, **options)
    state, ridge, size = forecaster._state, 0.7, DIM + 2
    ones, nothing = fading(learned), np.full(len(learned.y), 0.5)
    for row, slot in [(0, None), *((1 + slot, slot) for slot in grid_of(forecaster))]:
        own = ones if slot is None else ones * shares(learned, slot)[0]
        if not own.any():
            continue
        X = inner(learned, nothing)
        if slot is None:
            X[:, 1] = 0.0
        kept = np.exp(-(len(learned.y) - 1 - state.recent_clock[row]) / WINDOW)
        pull, prior = state.recent_pull[row, :size], state.recent_prior[min(row, 1), :size]
        assert np.all(pull <= ridge * (1 + 1e-12))
        assert np.all(pull >= ridge * np.exp(-2.0))
        expected = fitted(own / kept, X, learned.y, pull, prior)
        np.testing.assert_allclose(state.recent[row, :size], expected, atol=CLOSE, err_msg=str(row))
    for slot in grid_of(forecaster):
        weight, _, said = shares(learned, slot)
        expected = fitted(weight, inner(learned, said), learned.y, np.full(size, ridge), state.prior[slot, :size])
        np.testing.assert_allclose(state.theta[slot, :size], expected, atol=CLOSE)


@pytest.mark.parametrize("late", [0, 7])
@pytest.mark.parametrize("rule", RULES)
def test_the_recent_certificate_is_the_literal_one_and_holds(rule: str, late: int) -> None:
    forecaster, learned = play(rule, late=late)
    got, whole, faded = forecaster.certificate(window=WINDOW), forecaster.certificate(), fading(learned)
    psmcal = psreg = excess = 0.0
    prior = forecaster._state.recent_prior[1, : DIM + 2]
    for slot, z in grid_of(forecaster).items():
        weight, wishes, _ = shares(learned, slot)
        weight = weight * faded
        if weight.sum() > 1e-9:
            psmcal += reference.largest_correlation((weight * (learned.y - z)) @ learned.x) ** 2 / weight.sum()
            psreg += reference.swap_gain(z, weight, learned.x, learned.y)
            excess += reference.excess(weight, inner(learned, np.full(len(weight), 0.5)), learned.y, wishes, prior, 0.7)
    assert got.psmcal_2 == pytest.approx(psmcal, rel=1e-6, abs=1e-8)
    assert got.psreg == pytest.approx(psreg, rel=1e-5, abs=1e-6)
    assert got.rounding == pytest.approx(faded @ learned.tickets[:, T_GAP], abs=1e-9)
    assert got.learning == pytest.approx(excess, rel=1e-6, abs=1e-7)
    assert got.holds()
    assert whole.holds()
    assert (whole.theorem is None) == (late > 0)
    assert got.weight == pytest.approx(faded.sum())
    assert got.theorem is None


def test_the_recent_certificate_counts_labels_by_their_weights() -> None:
    rng = np.random.default_rng(5)
    X, y, counts = contexts(rng, ROWS, DIM), rng.integers(0, 2, ROWS).astype(float), rng.uniform(0.2, 6.0, ROWS)
    forecaster = Forecaster(DIM, window=WINDOW, kappa=0.05, ridge=0.7)
    tickets = memory.blank_tickets(ROWS)
    forecaster.play(X, y, np.arange(ROWS, dtype=np.uint64), tickets, counts)
    learned = Learned(X, y, tickets)
    excess, prior = 0.0, forecaster._state.recent_prior[1, : DIM + 2]
    for slot in grid_of(forecaster):
        weight, wishes, _ = shares(learned, slot)
        weight = weight * fading(learned) * counts
        excess += reference.excess(weight, inner(learned, np.full(ROWS, 0.5)), y, wishes, prior, 0.7)
    found = forecaster.weighted_certificate(WINDOW)
    assert found.learning == pytest.approx(excess, rel=1e-6, abs=1e-7)
    assert found.total == pytest.approx(fading(learned) @ counts, rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_a_fading_past_costs_what_the_theorem_says(rule: str) -> None:
    """Everyone's learner plays every round with weight 1; its word is in the tickets."""
    _, learned = play(rule)
    said, y, lag = learned.tickets[:, T_RECENT], learned.y, 1.0 + 1.0 / 8.0
    for rounds in (10, 60, ROWS):
        weight = np.exp(-np.arange(rounds - 1, -1, -1) / WINDOW)
        start = np.eye(DIM)[0]
        regret = reference.excess(weight, learned.x[:rounds], y[:rounds], said[:rounds], start, 0.7)
        assert regret <= float(bounds.discounted_ridge_regret(weight.sum(), DIM, 0.7, 0.0, lag=lag)) + 1e-9
        assert weight.sum() == pytest.approx(float(bounds.discounted_mass(WINDOW, rounds)))


def test_the_theorem_with_a_window_grows_with_the_window_not_with_time() -> None:
    assert float(bounds.discounted_psreg(1000, 5, 6)) < float(bounds.discounted_psreg(10_000, 5, 6))
    assert float(bounds.discounted_ridge_regret(0, 5, 2.0, 3.0)) == 6.0
    with pytest.raises(ValueError, match="window"):
        bounds.discounted_mass(0.5)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_passes_the_checks_of_every_forecaster(check: Any) -> None:
    if check.__name__ == "check_column_order_does_not_matter":
        pytest.skip("coordinates are refilled in turn, so their order shows in the last digits that fade")
    check(lambda dim: Forecaster(dim, window=40, kappa=0.02))


def test_a_save_in_the_middle_changes_nothing(tmp_path: Any) -> None:
    X, y = checks.stream(300, 4)
    straight, saved = (Forecaster(4, window=30, kappa=0.01) for _ in range(2))
    straight.run(X, y)
    saved.run(X[:170], y[:170])
    late = saved.predict(X[0])
    saved.save(tmp_path / "state")
    saved = Forecaster.load(tmp_path / "state")
    saved.run(X[170:], y[170:])
    assert checks.snapshot(saved) == checks.snapshot(straight)
    assert saved.certificate(window=30) == straight.certificate(window=30)
    saved.update(late, 1)
    assert saved.certificate().late == 1
    assert saved.certificate(window=30).holds()


def test_what_is_long_gone_is_forgotten_altogether() -> None:
    """A level that nobody plays for ages starts again, and nothing overflows."""
    forecaster = Forecaster(2, window=1.0, levels=4)
    high, low = np.tile([0.5, 0.8], (40, 1)), np.tile([0.5, -0.8], (4000, 1))
    forecaster.run(high, np.ones(40))
    forecaster.run(low, np.zeros(4000))
    forecaster.run(high, np.ones(40))
    assert all(np.isfinite(array).all() for array in forecaster._state if array.dtype.kind == "f")
    assert forecaster.certificate(window=1.0).holds()
    assert forecaster.certificate().holds()


def test_a_turning_world_leaves_a_short_memory_calibrated() -> None:
    rng = np.random.default_rng(0)
    rows, turns = 40_000, 8.0 * np.pi
    X = contexts(rng, rows, 3)
    phase = np.linspace(0.0, turns, rows)
    y = (rng.random(rows) < 0.5 + 0.5 * (X[:, 1] * np.cos(phase) + X[:, 2] * np.sin(phase))).astype(float)
    plain, recent = Forecaster(3), Forecaster(3, window=1000)
    stale, fresh = plain.run(X, y).mean, recent.run(X, y).mean
    assert recent.certificate().psmcal_2 < 0.5 * plain.certificate().psmcal_2
    assert np.mean((fresh - y) ** 2) < 0.95 * np.mean((stale - y) ** 2)


def test_linear_weights_are_the_wish() -> None:
    forecaster, _ = play("random")
    x = np.array([0.5, 0.05, -0.05])
    row = forecaster.predict(x)._tickets[0]
    for slot, wish in ((T_SLOT_LOW, T_W_LOW), (T_SLOT_HIGH, T_W_HIGH)):
        assert memory.linear_weights(forecaster._state, int(row[slot]), DIM) @ x == pytest.approx(row[wish], abs=1e-12)


@pytest.mark.parametrize("window", [0.5, 0, -1, float("nan"), float("inf"), "long"])
def test_a_window_is_at_least_one_label(window: Any) -> None:
    for make in (lambda: Forecaster(2, window=window), lambda: Live(window=window)):
        with pytest.raises(ValueError, match="window: given"):
            make()


def test_a_window_needs_ridge_and_hedging_and_a_certificate_its_own_window() -> None:
    with pytest.raises(ValueError, match='expected "ridge" and "hedge"'):
        Forecaster(2, window=10, learner="vaw")
    with pytest.raises(ValueError, match="expected 10, the window of this forecaster"):
        Forecaster(2, window=10).certificate(window=11)
    with pytest.raises(ValueError, match="expected none: it was made without a window"):
        Forecaster(2).certificate(window=11)


@pytest.mark.parametrize(("name", "value"), [("recent_clock", 2**63 - 1), ("knobs", 0.25), ("knobs", 0.0)])
def test_states_whose_memory_would_lead_kernels_astray_are_refused(name: str, value: float) -> None:
    forecaster, _ = play("random")
    arrays, settings = forecaster.to_state()
    arrays = {key: array.copy() for key, array in arrays.items()}
    FILE.check_contents(arrays, settings)
    arrays[name].flat[-1] = value
    with pytest.raises(ArchiveError, match=f"{name}: given a number that is too"):
        FILE.check_contents(arrays, settings)


def outcome() -> Array:
    """Return all that a short run shows."""
    X, y = checks.stream(60, 5, seed=3)
    forecaster = Forecaster(5, window=9, kappa=0.02)
    late = forecaster.predict(X[0])
    made = forecaster.run(X, y)
    forecaster.update(late, y[0])
    state, recent = forecaster._state, forecaster.certificate(window=9)
    return np.concatenate([made.p, made.mean, state.theta.ravel(), state.recent.ravel(), [recent.psreg, recent.bound]])


def test_compiled_and_interpreted_agree(tmp_path: Any) -> None:
    path = tmp_path / "outcome.npy"
    code = f"import numpy as np; from tests.test_forgetting import outcome; np.save({str(path)!r}, outcome())"
    python(code, NUMBA_DISABLE_JIT="1")
    np.testing.assert_allclose(outcome(), np.load(path), rtol=1e-9, atol=1e-9)


def records(n: int) -> tuple[list[dict[str, Any]], Array]:
    rng = np.random.default_rng(1)
    v, shop = rng.normal(size=n), rng.choice(list("abc"), n)
    y = (rng.random(n) < 1 / (1 + np.exp(-v))).astype(float)
    return [{"v": float(v[k]), "shop": str(shop[k]), **({"w": 1.0} if k > n // 2 else {})} for k in range(n)], y


def test_live_remembers_shortly_through_late_labels_and_files(tmp_path: Any) -> None:
    made, y = records(400)
    straight, saved = (Live(window=60, kappa=0.02) for _ in range(2))
    for k, record in enumerate(made):
        for live in (straight, saved):
            live.forecast(record, id=k)
            if k >= 20:
                live.label(k - 20, y[k - 20])
        if k == 230:
            saved.save(tmp_path / "state")
            saved = Live.load(tmp_path / "state")
    assert straight.settings["window"] == saved.settings["window"] == 60
    for window in (None, 60):
        assert straight.certificate(window) == saved.certificate(window)
        assert straight.certificate(window).holds()


def test_live_can_do_without() -> None:
    made, y = records(50)
    live = Live(window=None)
    live.run(made, y)
    with pytest.raises(ValueError, match="window"):
        live.certificate(window=2000)
