"""Experts: compiled logistic regressions against a literal reference; late labels; outside models."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from swapcal.archive import State
from swapcal.kernels.experts import (
    CURVE,
    EXPERTS,
    HASHED,
    KNOWN,
    LEAST_MERIT,
    LOOSEST,
    MEMORY,
    PEAK,
    PRIOR,
    SCORED,
    START,
    TENSION,
    TRUST,
    VARIANCE,
    View,
    bent,
    learn_curve,
)
from swapcal.live import Live
from swapcal.live.experts import FULL, Experts, as_model, expert_keys, expert_names, expert_weights, file_fields
from tests.reference_experts import ReferenceExperts

FEW = 100  # rows for the literal reference, which is slow


@pytest.fixture(scope="module")
def stream() -> Any:
    rng = np.random.default_rng(0)
    n, columns = 300, 4
    keys = np.zeros((n, 3 * columns), np.uint64)
    values = np.zeros((n, 3 * columns))
    symbols = rng.integers(0, 3, (n, columns))
    keys[:, ::3] = symbols + 1 + 1000 * np.arange(columns)
    values[:, ::3] = 1.0
    keys[:, 1::3] = 77 + np.arange(columns)
    values[:, 1::3] = rng.normal(size=(n, columns))
    keys[rng.random(n) < 0.1, 0] = 0
    values[keys[:, 0] == 0, 0] = 0.0
    margin = symbols[:, 0] - 1 + 1.5 * (symbols[:, 1] == symbols[:, 2]) - 0.5
    y = (rng.random(n) < 1 / (1 + np.exp(-margin))).astype(float)
    return keys, values, y, rng.uniform(0.05, 0.95, (n, 2))


def immediate(y: Any) -> Any:
    rows = np.repeat(np.arange(len(y)), 2)
    labels = np.full(2 * len(y), np.nan)
    labels[1::2] = y
    return rows, labels


def play(
    experts: Any,
    keys: Any,
    values: Any,
    given: Any,
    rows: Any,
    labels: Any,
    x: Any = None,
    dims: Any = None,
    weights: Any = None,
) -> Any:
    n = len(keys)
    x = np.full((n, 1), 0.5) if x is None else x
    dims = np.full(n, x.shape[1]) if dims is None else dims
    memory, probabilities = np.zeros((n, experts.memory_width)), np.zeros((n, 1 + EXPERTS))
    weights = np.ones(1) if weights is None else weights[rows]
    experts.step(keys, values, x, dims, given, rows, labels, memory, probabilities, weights)
    return memory, probabilities


def some_weights(n: Any) -> Any:
    """Weights above 1 that are not whole, and below 1."""
    return np.random.default_rng(8).choice([0.25, 1.0, 1.5, 4.0, 12.5], n)


@pytest.mark.parametrize(
    ("scores", "models", "weighted", "rate"),
    [
        (0, 0, False, 0.5),
        (2, 0, False, 0.5),
        (2, 0, True, 0.5),
        (2, 1, False, 0.5),
        (0, 0, True, 0.02),
        (2, 0, False, 0.9),
    ],
)
def test_the_bank_follows_the_literal_reference(
    stream: Any, scores: Any, models: Any, weighted: Any, rate: float
) -> None:
    keys, values, y, given = (part[:FEW] for part in stream)
    given, weights = given[:, :scores].copy(), some_weights(FEW) if weighted else np.ones(FEW)
    reference, expected = ReferenceExperts(scores, models=models, start=math.log(rate / (1 - rate))), []
    for t in range(len(y)):
        memory, probabilities = reference.forecast(keys[t], values[t], given[t])
        expected.append(probabilities)
        reference.learn(keys[t], values[t], memory, y[t], weight=weights[t])
    experts = Experts(scores, models=models)
    experts.start_from(rate)
    _, actual = play(experts, keys, values, given, *immediate(y), weights=weights)
    np.testing.assert_allclose(actual, np.array(expected), atol=2e-4)


def growing_contexts(n: Any, seed: Any = 6) -> Any:
    """Contexts with two foreign coordinates, whose features become more as rows come."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 12)) * 0.1
    x[:, 0] = 0.5
    dims = np.minimum(4 + np.arange(n) // 12, 12)
    x[np.arange(12) >= dims[:, None]] = 0.0
    return x, dims


@pytest.mark.parametrize(("delay", "weighted"), [(0, False), (7, False), (7, True)])
def test_second_order_experts_follow_the_literal_reference_as_contexts_grow(
    stream: Any, delay: Any, weighted: Any
) -> None:
    keys, values, y, given = (part[:FEW] for part in stream)
    weights = some_weights(FEW) if weighted else np.ones(FEW)
    (x, dims), given = growing_contexts(FEW), given[:, :0]
    rows, labels = late(y, delay) if delay else immediate(y)
    reference, memories, expected = ReferenceExperts(0, 3, 0.25), {}, {}
    for row, label in zip(rows, labels, strict=True):
        seen = keys[row], values[row]
        if np.isnan(label):
            memories[row], expected[row] = reference.forecast(*seen, given[row], x[row, : dims[row]])
        else:
            reference.learn(*seen, memories[row], label, x[row, : dims[row]], weights[row])
    _, actual = play(Experts(0, View(3, 0.25)), keys, values, given, rows, labels, x, dims, weights)
    np.testing.assert_allclose(actual, np.array([expected[t] for t in range(FEW)]), atol=2e-4)
    assert np.ptp(actual[:, 1 + HASHED :], axis=0).min() > 0.1


def test_growing_contexts_are_the_same_in_one_call_and_in_many(stream: Any) -> None:
    keys, values, y, given = stream
    n, (x, dims) = len(y), growing_contexts(len(y))
    at_once, one_by_one = Experts(2, View(3, 0.25)), Experts(2, View(3, 0.25))
    _, expected = play(at_once, keys, values, given, *immediate(y), x, dims)
    for t in range(n):
        row = slice(t, t + 1)
        here = keys[row], values[row], given[row], *immediate(y[row]), x[row, : dims[t]].copy(), dims[row]
        np.testing.assert_array_equal(play(one_by_one, *here)[1][0], expected[t])
    first, second = at_once.to_state().arrays, one_by_one.to_state().arrays
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


def test_one_call_equals_many_bit_for_bit(stream: Any) -> None:
    keys, values, y, given = stream
    _, at_once = play(Experts(2), keys, values, given, *immediate(y))
    experts, one_by_one = Experts(2), []
    for t in range(len(y)):
        memory, probabilities = experts.forecast(keys[t : t + 1], values[t : t + 1], given[t : t + 1])
        experts.learn(keys[t : t + 1], values[t : t + 1], memory, y[t : t + 1])
        one_by_one.append(probabilities[0])
    np.testing.assert_array_equal(at_once, np.array(one_by_one))


def test_late_labels_use_the_features_of_their_row(stream: Any) -> None:
    keys, values, y, given = (part[:FEW] for part in stream)
    reference, expected = ReferenceExperts(2), {}
    rows, labels, delay = [], [], 7
    for t in range(len(y) + delay):
        if t < len(y):
            rows.append(t)
            labels.append(np.nan)
        if t >= delay:
            rows.append(t - delay)
            labels.append(y[t - delay])
    memories = {}
    for row, label in zip(rows, labels, strict=True):
        if np.isnan(label):
            memories[row], expected[row] = reference.forecast(keys[row], values[row], given[row])
        else:
            reference.learn(keys[row], values[row], memories[row], label)
    _, actual = play(Experts(2), keys, values, given, np.array(rows), np.array(labels))
    np.testing.assert_allclose(actual, np.array([expected[t] for t in range(len(y))]), atol=2e-4)


def late(y: Any, delay: Any) -> Any:
    """Events of a stream whose labels come `delay` rows after their forecasts."""
    n = len(y)
    paired = np.column_stack([np.arange(delay, n), np.arange(n - delay)]).ravel()
    rows = np.concatenate([np.arange(delay), paired])
    labels = np.full(len(rows), np.nan)
    labels[delay + 1 :: 2] = y[: n - delay]
    return rows, labels


def three_categories(seed: Any, n: Any) -> Any:
    rng = np.random.default_rng(seed)
    keys, values = np.zeros((n, 3), np.uint64), np.zeros((n, 3))
    category = rng.integers(0, 3, n)
    keys[:, 0], values[:, 0] = 5 + category, 1.0
    return keys, values, (rng.random(n) < np.array([0.05, 0.1, 0.15])[category]).astype(float)


def test_a_base_rate_that_the_experts_know_is_not_learned_again_by_the_blend() -> None:
    keys, values, y = three_categories(4, 6000)
    _, p = play(Experts(), keys, values, np.zeros((6000, 0)), *late(y, 3000))
    informed = p[3500:]
    assert informed[:, 0].min() > 0.5 * informed[:, 1:].min()
    assert 0.05 < informed[:, 0].mean() < 0.2


def test_no_member_of_the_blend_is_ever_lost_for_good() -> None:
    experts = Experts()
    experts._bank.counts[KNOWN] = 1.0
    even = [share for share, _ in experts.members(np.zeros(experts.memory_width))]
    experts._bank.merits[3] = -1e6
    shares = [share for share, _ in experts.members(np.zeros(experts.memory_width))]
    assert shares[3] / shares[4] == pytest.approx(np.exp(LEAST_MERIT) * even[3] / even[4])


def test_late_labels_leave_the_blend_near_its_best_member() -> None:
    keys, values, y = three_categories(5, 20_000)
    _, p = play(Experts(), keys, values, np.zeros((20_000, 0)), *late(y, 2000))
    brier = ((p - y[:, None]) ** 2)[4000:].mean(axis=0)
    assert brier[0] < 1.005 * brier[1:].min()


def test_late_evidence_that_does_not_come_in_runs_moves_the_blend() -> None:
    n, rng = 12_000, np.random.default_rng(0)
    category, names = rng.integers(0, 4, (3, n)), rng.integers(1, 2**63, (3, 4)).astype(np.uint64)
    keys, values = np.zeros((n, 9), np.uint64), np.zeros((n, 9))
    for j in range(3):
        keys[:, 3 * j], values[:, 3 * j] = names[j][category[j]], 1.0
    odds = 1.5 * np.where(category[:2].sum(axis=0) % 2, -1.0, 1.0) * np.where(category[2] > 1, 1.0, 0.3) - 0.5
    y = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(float)
    experts = Experts()
    _, p = play(experts, keys, values, np.zeros((n, 0)), *late(y, 2000))
    brier = ((p - y[:, None]) ** 2)[4000:].mean(axis=0)
    assert brier[0] < 1.06 * brier[1:].min()


def rare_outcome(n: Any, seed: Any = 5) -> Any:
    """Rows of ten columns, one of which matters a little; one outcome in 150 is 1."""
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, [3, 10, 30, 80, 4, 2, 5, 5, 5, 5], (n, 10))
    keys, values = np.zeros((n, 30), np.uint64), np.zeros((n, 30))
    names = rng.integers(1, 2**63, (10, 80)).astype(np.uint64)
    keys[:, ::3], values[:, ::3] = names[np.arange(10), symbols], 1.0
    return keys, values, (rng.random(n) < 1 / (1 + np.exp(5.2 - 0.5 * (symbols[:, 0] == 1)))).astype(float)


def log_losses(p: Any, y: Any) -> Any:
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    return -np.mean(np.where(y[:, None] == 1, np.log(inside), np.log(1 - inside)), axis=0)


def test_before_any_row_was_informed_the_blend_keeps_to_those_that_know_the_base_rate() -> None:
    keys, values, y = rare_outcome(8000)
    _, p = play(Experts(), keys, values, np.zeros((8000, 0)), *late(y, 3000))
    known = np.maximum(np.arange(8000) - 3000, 0)
    rate = (np.append(0.0, np.cumsum(y))[known] + 0.5) / (known + 1.0)
    losses, base = log_losses(p, y), log_losses(rate[:, None], y)[0]
    assert losses[0] < 1.005 * losses[1:].min()
    assert losses[0] < 1.005 * base


def test_a_row_unlike_the_labelled_ones_is_forecast_with_less_confidence() -> None:
    n, rng, delay = 3000, np.random.default_rng(3), 1000
    x = np.zeros((n, 6))
    x[:, 0], x[:, 1:3] = 0.5, rng.normal(size=(n, 2)) * 0.3
    y = (rng.random(n) < 1 / (1 + np.exp(-8 * x[:, 1]))).astype(float)
    experts, keys, values, given = Experts(), np.zeros((n, 3), np.uint64), np.zeros((n, 3)), np.zeros((n, 0))
    play(experts, keys, values, given, *late(y, delay), x)
    alike = np.array([[0.5, 0.2, 0.0, 0.0, 0.0, 0.0]])
    unlike = np.array([[0.5, 0.2, 0.0, 0.3, 0.3, 0.3]])
    (_, usual), (_, doubtful) = (experts.forecast(keys[:1], values[:1], given[:1], row) for row in (alike, unlike))
    np.testing.assert_allclose(doubtful[0, 1:], usual[0, 1:], atol=1e-6)
    assert 0.5 < doubtful[0, 0] < usual[0, 0] - 0.01


def test_labels_at_once_know_neither_shortfalls_nor_doubt(stream: Any) -> None:
    """The blend is then the pool of its members, to rounding, and nothing is kept about the experts' shortfalls."""
    keys, values, y, given = stream
    experts = Experts(2)
    play(experts, keys, values, given, *immediate(y))
    memory, p = experts.forecast(keys[:1], values[:1], given[:1])
    shares, said = np.array(experts.members(memory[0])).T
    pool = shares @ np.log(said / (1 - said))
    assert p[0, 0] == pytest.approx(bent(experts._bank.curve, 1 / (1 + np.exp(-pool))), abs=1e-12)
    assert not experts.to_state().arrays["shortfalls"].any()


def scored_stream(kind: Any, n: Any = 12_000) -> Any:
    """A stream that its features explain, and a score that is of no use, or ceases to be."""
    rng = np.random.default_rng(7)
    keys, values = np.zeros((n, 6), np.uint64), np.zeros((n, 6))
    a, b = rng.integers(0, 4, (2, n))
    keys[:, 0], keys[:, 3], values[:, ::3] = 10 + a, 20 + b, 1.0
    y = (rng.random(n) < np.array([0.1, 0.25, 0.4, 0.7])[a] * np.array([0.5, 0.8, 1.0, 1.2])[b]).astype(float)
    noise, leaked = rng.uniform(0, 1, n), np.where(y > 0.5, 0.99, 0.01)
    score = {
        "noise": noise,
        "constant": np.full(n, 0.9),
        "inverted": np.array([0.9, 0.75, 0.6, 0.3])[a],
        "missing": np.full(n, np.nan),
        "leaked, then broken": np.where(np.arange(n) < n // 2, leaked, noise),
    }[kind]
    return keys, values, y, score[:, None]


@pytest.mark.parametrize("kind", ["noise", "constant", "inverted", "missing", "leaked, then broken"])
def test_a_score_never_hurts(kind: Any) -> None:
    """Neither over the stream nor after the break, where the first ten rows alone cost a quarter of a per cent."""
    keys, values, y, score = scored_stream(kind)
    _, without = play(Experts(), keys, values, np.zeros((len(y), 0)), *immediate(y))
    _, with_score = play(Experts(1), keys, values, score, *immediate(y))
    np.testing.assert_array_equal(with_score[:, 1:], without[:, 1:])
    for part, most in ((slice(None), 0.005), (slice(len(y) // 2, None), 0.0075)):
        expected, actual = (np.mean((p[part, 0] - y[part]) ** 2) for p in (without, with_score))
        assert actual < (1.0 + most) * expected


def test_the_blend_does_not_hurry_again_as_soon_as_surprises_cease(stream: Any) -> None:
    keys, values, y, given = stream
    experts = Experts(2)
    play(experts, keys, values, given, *immediate(y))
    experts._bank.counts[[TENSION, PEAK]] = 0.0, 50.0
    memory, _ = experts.forecast(keys[:1], values[:1], given[:1])
    experts.learn(keys[:1], values[:1], memory, y[:1])
    tension, peak = experts._bank.counts[[TENSION, PEAK]]
    assert peak == pytest.approx(50.0 * (1.0 - 1.0 / MEMORY) + tension, rel=1e-12)
    assert tension > 0.0


def test_late_surprises_that_cancel_slow_the_blend_as_much_as_those_that_come_alone(stream: Any) -> None:
    keys, values, y, given = stream
    alone = Experts(2)
    memory, _ = play(alone, keys, values, given, *late(y, 50))
    alone._bank.runs[:], alone._bank.counts[[TENSION, PEAK]] = 0.0, (0.0, 50.0)
    contrary, last = Experts.from_state(alone.to_state()), slice(-1, None)
    alone.learn(keys[last], values[last], memory[last], y[last])
    contrary._bank.runs[:] = -100.0 * alone._bank.runs
    contrary.learn(keys[last], values[last], memory[last], y[last])
    assert contrary._bank.counts[TENSION] == 0.0 < alone._bank.counts[TENSION]
    assert contrary._bank.counts[PEAK] == alone._bank.counts[PEAK] > 50.0 * (1.0 - 1.0 / MEMORY)


def test_a_score_that_is_the_truth_is_kept_where_labels_come_in_batches() -> None:
    """The features explain the outcomes as well as the score does; surprises within a batch may cancel."""
    rng, n, rows = np.random.default_rng([4, 7]), 30_000, 12_000
    noise, shop = rng.normal(size=(3, n)), rng.choice(list("abcde"), n)
    p = 1 / (1 + np.exp(-(1.2 * noise[0] - 0.8 * noise[1] + 0.5 * (shop == "a"))))
    y, time = (rng.random(n) < p).astype(float)[:rows], np.arange(rows, dtype=np.float64)
    frame = pd.DataFrame({"z0": noise[0], "z1": noise[1], "z2": noise[2], "shop": shop, "s": p})[:rows]
    mean = Live(scores=["s"]).run(frame, y, time=time, label_time=np.floor(time / 3000 + 1) * 3000 - 0.5).mean
    assert np.sqrt(np.mean((mean - p[:rows])[9000:] ** 2)) < 0.02


def test_the_curve_leaves_the_ends_alone_and_is_never_far_from_the_pool() -> None:
    rng = np.random.default_rng(4)
    for p in (0.0, 1e-5, 0.3, 0.5, 0.97, 1.0):
        assert bent(np.zeros(CURVE), p) == p
        for weights in rng.normal(0.0, 3.0, (50, CURVE)):
            assert abs(bent(weights, p) - p) <= 0.7 * p * (1.0 - p) + 1e-15


def test_the_curve_finds_how_forecasts_turn_out_and_forgets_it_again() -> None:
    rng, weights, spread, gain = np.random.default_rng(5), np.zeros(CURVE), VARIANCE * np.eye(CURVE), np.zeros(CURVE)
    for pulls in ((-0.5, 0.0), (0.1, 0.5), (0.0, 0.0)):
        truth = np.array(pulls)
        for p in rng.random(30_000):
            learn_curve(weights, spread, p, float(rng.random() < bent(truth, p)), 1.0, gain)
        assert np.trace(spread) < 0.1
        assert [bent(weights, p) for p in (0.1, 0.5, 0.8)] == pytest.approx(
            [bent(truth, p) for p in (0.1, 0.5, 0.8)], abs=0.03
        )
    for _ in range(50_000):  # labels that say nothing leave no more doubt than is stated
        learn_curve(weights, spread, 0.0, 0.0, 1.0, gain)
    assert 1.9 < np.trace(spread) < 2.01


def test_forecasting_changes_nothing(stream: Any) -> None:
    keys, values, y, given = stream
    experts = Experts(2)
    play(experts, keys, values, given, *immediate(y))
    first = experts.forecast(keys, values, given)
    second = experts.forecast(keys, values, given)
    np.testing.assert_array_equal(first[1], second[1])


def test_pairs_learn_what_no_linear_expert_can() -> None:
    rng = np.random.default_rng(1)
    n = 6000
    a, b = rng.integers(0, 2, (2, n))
    keys = np.zeros((n, 6), np.uint64)
    keys[:, 0], keys[:, 3] = a + 10, b + 20
    values = np.zeros((n, 6))
    values[:, ::3] = 1.0
    y = (a ^ b).astype(float)
    _, p = play(Experts(), keys, values, np.zeros((n, 0)), *immediate(y))
    brier = ((p - y[:, None]) ** 2)[n // 2 :].mean(axis=0)
    names = expert_names()
    assert brier[names.index("logistic on pairs (steps of 1)")] < 0.01
    assert min(b for name, b in zip(names, brier, strict=True) if name.startswith("logistic (")) > 0.2
    assert brier[0] < 0.02


def test_the_blend_starts_from_the_users_score_and_does_it_no_harm() -> None:
    rng = np.random.default_rng(2)
    n = 4000
    p = rng.beta(2, 2, n)
    y = (rng.random(n) < p).astype(float)
    keys, values = np.zeros((n, 3), np.uint64), np.zeros((n, 3))
    _, forecasts = play(Experts(1), keys, values, p[:, None].copy(), *immediate(y))
    np.testing.assert_allclose(forecasts[0, 0], p[0], atol=1e-12)
    assert np.mean((forecasts[:, 0] - y) ** 2) < 1.01 * np.mean((p - y) ** 2)


def test_the_blend_keeps_a_sound_covariance() -> None:
    rng = np.random.default_rng(3)
    n = 200_000
    keys, values = np.zeros((n, 3), np.uint64), np.zeros((n, 3))
    keys[:, 0], values[:, 0] = 5, 1.0
    experts = Experts(1)
    play(experts, keys, values, np.full((n, 1), 0.999), *immediate((rng.random(n) < 0.3).astype(float)))
    plain, scored = experts._bank.covariance
    for covariance in (plain[:-1, :-1], scored):
        assert np.linalg.eigvalsh((covariance + covariance.T) / 2).min() > 0
        assert np.trace(covariance) < 1.1 * LOOSEST * PRIOR * len(scored)
    assert (experts._bank.newton.scale > 0).all()
    assert np.isfinite(experts._bank.weights).all()


def test_the_blend_forgets_what_no_longer_holds() -> None:
    """For 40,000 labels the first score is right, then the second: labels older than 10⁴ must not hold it back."""
    rng = np.random.default_rng(0)
    experts = Experts(2)
    for right, n in ((0, 40_000), (1, 15_000)):
        scores = 1 / (1 + np.exp(-rng.normal(0.0, 1.5, (n, 2))))
        y = (rng.random(n) < scores[:, right]).astype(float)
        play(experts, np.zeros((n, 3), np.uint64), np.zeros((n, 3)), scores, *immediate(y))
    assert experts._bank.weights[SCORED, -1] > experts._bank.weights[SCORED, -2]


def test_state_goes_on_exactly(stream: Any) -> None:
    keys, values, y, given = stream
    experts = Experts(2)
    play(experts, keys[:150], values[:150], given[:150], *immediate(y[:150]))
    arrays, manifest = experts.to_state()
    twin = Experts.from_state(State(arrays, json.loads(json.dumps(manifest))))
    rest = (keys[150:], values[150:], given[150:], *immediate(y[150:]))
    np.testing.assert_array_equal(play(experts, *rest)[1], play(twin, *rest)[1])


@pytest.mark.parametrize("cut", [40, 130, 300])
def test_state_of_late_labels_goes_on_exactly(stream: Any, cut: Any) -> None:
    """Also where labels are known, but only of rows that were issued before the first of them."""
    keys, values, y, given = stream
    rows, labels = late(y, 100)
    x, dims = growing_contexts(len(y))
    memory, p = np.zeros((len(y), Experts(2).memory_width)), np.zeros((len(y), 1 + EXPERTS))
    experts = Experts(2, View(3, 0.25))
    experts.step(keys, values, x, dims, given, rows[:cut], labels[:cut], memory, p)
    twin = Experts.from_state(experts.to_state(), View(3, 0.25))
    ends = []
    for each in (experts, twin):
        own_memory, own_p = memory.copy(), p.copy()
        each.step(keys, values, x, dims, given, rows[cut:], labels[cut:], own_memory, own_p)
        ends.append((own_p, each.to_state().arrays["shortfalls"]))
    np.testing.assert_array_equal(ends[0][0], ends[1][0])
    np.testing.assert_array_equal(ends[0][1], ends[1][1])
    assert ends[0][1].any()


def test_sums_of_squares_are_kept_where_the_weights_are_zero() -> None:
    experts = Experts()
    experts._bank.linear[7, 11] = 0.5
    arrays, manifest = experts.to_state()
    assert Experts.from_state(State(arrays, manifest))._bank.linear[7, 11] == np.float32(0.5)


def test_names_and_weights_match() -> None:
    assert tuple(expert_weights()) == expert_keys()
    assert len(expert_names()) == 1 + EXPERTS
    assert expert_weights()["blend"] == 1.0


class Counter:
    """An online model with river's methods."""

    def __init__(self) -> None:
        self.yes = self.n = 0

    def predict_proba_one(self, x: Any) -> Any:
        return {True: (self.yes + 1) / (self.n + 2)} if self.n else {}

    def learn_one(self, x: Any, y: Any) -> Any:
        self.yes, self.n = self.yes + y, self.n + 1


def test_a_river_model_is_called_record_by_record() -> None:
    model = as_model(Counter())
    nothing = (np.zeros(3, np.uint64), np.zeros(3))
    assert model.forecast({}, *nothing) == 0.5
    model.learn({}, *nothing, 1.0)
    assert model.forecast({}, *nothing) == pytest.approx(2 / 3)


def test_a_partial_fit_model_learns_hashed_features() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    model = as_model(linear.SGDClassifier(loss="log_loss", random_state=0))
    features = [(np.array([k, 0, 0], np.uint64), np.array([1.0, 0.0, 0.0])) for k in (3, 5)]
    assert model.forecast({}, *features[0]) == 0.5
    for _ in range(60):
        for k in (0, 1):
            model.learn({}, *features[k], float(k))
    assert model.forecast({}, *features[0]) < 0.2 < 0.8 < model.forecast({}, *features[1])


def test_what_is_not_a_model_is_refused() -> None:
    with pytest.raises(TypeError, match="model: given int, expected predict_proba_one and learn_one"):
        as_model(3)


def test_experts_have_names_in_words_and_keys_that_saved_states_know() -> None:
    assert len(set(expert_names())) == len(expert_names()) == len(expert_keys())
    assert not any(word in " ".join(expert_names()) for word in ("SGD", "AdaGrad", "Newton"))
    assert expert_keys() == (
        "blend", "SGD 0.03", "SGD 0.1", "SGD 0.3", "SGD 1", "SGD 3", "SGD 10",
        "AdaGrad 0.03", "AdaGrad 0.1", "AdaGrad 0.3", "AdaGrad 1",
        "pairs SGD 0.3", "pairs SGD 1", "pairs SGD 3", "pairs AdaGrad 0.03", "pairs AdaGrad 0.1",
        "Newton 10", "Newton 1", "Newton 0.1",
    )  # fmt: skip


def test_a_live_object_speaks_of_its_experts_in_words_and_saves_them_as_before() -> None:
    live = Live(groups=["g"], scores=["s"], models={"mine": Counter()})
    for k in range(30):
        live.forecast({"g": "a", "s": 0.3, "n": float(k)}, id=k)
        live.label(k, k % 3 == 0)
    live.forecast({"g": "a", "s": 0.3, "n": 1.0}, id="last")
    bank = len(expert_names())
    assert live.experts == (*expert_names(), "mine")
    assert live.names[: bank + 3] == ("constant", *expert_names(), "mine", "s")
    assert len(live.names) == live.contexts.dim
    assert tuple(live.contexts.settings["reserved"]) == (*expert_keys(), "mine")
    named = [term.name for term in live.explain("last").terms if term.kind == "expert"]
    assert named
    assert all(name.removeprefix("expert: ") in expert_names() for name in named)


def test_scores_believed_as_given_have_a_share_beside_the_pool(stream: Any) -> None:
    keys, values, _, _ = stream
    p = np.random.default_rng(6).uniform(0.02, 0.98, len(keys))
    y = (np.random.default_rng(7).random(len(p)) < p).astype(float)
    experts = Experts(1)
    assert experts._bank.counts[TRUST] == 0.9
    _, forecasts = play(experts, keys, values, p[:, None].copy(), *immediate(y))
    shares = [share for share, _ in experts.members(np.zeros(experts.memory_width))]
    assert sum(shares) == pytest.approx(1.0)
    assert shares[1 + EXPERTS] > 2 * experts._bank.counts[TRUST] - 1 > 0.5
    wrong = Experts(1)
    play(wrong, keys, values, 1 - p[:, None], *immediate(y))
    assert wrong._bank.counts[TRUST] < 0.01
    assert np.abs(forecasts[:, 0] - p).mean() < 0.02


def test_one_surprise_does_not_restore_a_share_beside_the_pool(stream: Any) -> None:
    experts = Experts(1)
    experts._bank.shares[:], experts._bank.counts[TRUST] = (0.0, 0.0, 1.0), 0.2
    keys, values, y, given = stream
    play(experts, keys[:1], values[:1], given[:1, :1], *immediate(y[:1]))
    assert experts._bank.counts[TRUST] == pytest.approx(0.201)


@pytest.mark.parametrize("kept", [TRUST, START])
def test_states_of_before_have_no_scores_beside_the_pool_or_start_from_one_half(stream: Any, kept: int) -> None:
    keys, values, y, given = stream
    experts = Experts(1)
    experts.start_from(0.01)
    play(experts, keys, values, given[:, :1], *immediate(y))
    arrays, manifest = experts.to_state()
    assert Experts.from_state(State(arrays, manifest)).nearest == pytest.approx(0.01)
    arrays["counts"] = arrays["counts"][:kept]
    assert file_fields(1, FULL, {name: array.shape for name, array in arrays.items()})["counts"].shape == (kept,)
    earlier = Experts.from_state(State(arrays, manifest))
    assert (earlier._bank.counts[kept:] == 0.0).all()
    assert earlier.nearest == 1.0
