import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal.losses import (
    LossError,
    absolute,
    cost_matrix,
    custom,
    decision_rows,
    exponential,
    huber,
    log,
    logistic,
    newsvendor,
    omniprediction,
    pinball,
    profile,
    regret,
    squared,
    swap_omniprediction,
    v_shaped,
    zero_one,
)
from swapcal.losses.ball import quadratic_minimum, stages
from tests import reference_losses as reference

ROWS = 400
rng = np.random.default_rng(5)
SMOOTH = {
    "squared": squared(),
    "log": log(),
    "absolute": absolute(),
    "pinball": pinball(0.8),
    "newsvendor": newsvendor(3.0, 1.0),
    "zero_one": zero_one(1.0, 4.0),
    "huber": huber(0.3),
    "logistic": logistic(4.0),
    "exponential": exponential(1.5),
    "v_shaped": v_shaped(0.3),
    "per-row newsvendor": newsvendor(rng.uniform(0.0, 3.0, ROWS), 1.0),
    "per-row huber": huber(rng.uniform(0.05, 0.6, ROWS)),
}
SEARCHED = {
    "quartic": custom(lambda a, y: (a - y) ** 4, name="quartic"),
    "sticky": custom(lambda a, y: (a - y) ** 2 + 0.5 * abs(a - 0.4), name="sticky"),
    "two kinks": custom(lambda a, y: np.maximum(abs(a - 0.2 - 0.6 * y), 0.3 * abs(a - y)), name="two kinks"),
    "dead zone": custom(lambda a, y: np.maximum(abs(a - y) - 0.1, 0.0), name="dead zone"),
    "per-row": custom(
        lambda a, y, c: c * (a - y) ** 2 + abs(a - 0.5),
        parameters={"c": rng.uniform(0.0, 3.0, ROWS)},
        name="per-row",
    ),
}
ALL = SMOOTH | SEARCHED
every = pytest.mark.parametrize("name", ALL)


@pytest.fixture(scope="module")
def data():
    p, y, X = reference.stream(1, ROWS)
    return np.clip(p, 0.05, 0.95), y, X


@pytest.fixture(scope="module")
def found(data):
    return {name: regret(loss, *data) for name, loss in ALL.items()}


@every
def test_certificates_close_their_gap(found, name):
    per_row = 1e-8 if name in SMOOTH else 2e-5
    assert 0.0 <= found[name].swap_upper - found[name].swap <= per_row * ROWS
    assert 0.0 <= found[name].plain_upper - found[name].plain <= per_row * ROWS


@every
def test_comparators_attain_what_they_claim(data, found, name):
    p, y, X = data
    loss, result = ALL[name], found[name]

    def cost(theta, rows):
        assert theta @ theta <= 1.0 + 1e-9
        a = loss.low + (loss.high - loss.low) * (1.0 + X[rows] @ theta) / 2.0
        return loss.take(rows)(np.clip(a, loss.low, loss.high), y[rows]).sum()

    np.testing.assert_allclose(cost(result.best.theta, np.arange(ROWS)), result.best.value, rtol=1e-9)
    for level in result.levels:
        np.testing.assert_allclose(cost(level.best.theta, np.flatnonzero(p == level.level)), level.best.value)
    np.testing.assert_allclose(result.cost, loss.induced(p, y).sum())
    np.testing.assert_allclose(sum(level.cost for level in result.levels), result.cost)
    assert sum(level.weight for level in result.levels) == ROWS


@pytest.mark.parametrize("name", ["squared", "log", "huber", "logistic", "exponential", "quartic", "pinball"])
def test_a_general_solver_finds_nothing_cheaper(data, found, name):
    _, y, X = data
    cheapest = reference.least_cost_by_slsqp(ALL[name], y, X)
    assert found[name].best.floor <= cheapest + 1e-9 * ROWS
    assert found[name].best.value <= cheapest + 1e-6 * ROWS


@every
def test_one_comparator_cannot_beat_one_per_level(found, name):
    assert found[name].plain <= found[name].swap_upper + 1e-9


@every
def test_regret_is_below_what_calibration_promises(data, found, name):
    result = found[name]
    if result.bound is None:
        assert ALL[name].rows is not None or np.isinf(profile(ALL[name]).lipschitz)
        return
    slack = 1.0 if name in SMOOTH else 1.01
    assert result.swap <= slack * result.bound
    assert result.bound == pytest.approx(
        profile(ALL[name]).lipschitz * swap_omniprediction(*data, rules="restricted").total
    )


@every
def test_supporting_lines_stay_below_the_loss(name):
    loss, random = ALL[name].take(np.arange(40)), np.random.default_rng(0)
    y = random.integers(0, 2, 40).astype(float)
    for stage in stages(loss, y):
        for s in (
            random.uniform(-1, 1, 40),
            np.full(40, -1.0 + 1e-9),
            np.full(40, 1.0),
            random.choice([-0.2, 0.0], 40),
        ):
            curve = stage(np.clip(s, -0.999, 0.999) if name == "log" else s)
            for z in np.linspace(-0.999, 0.999, 201):
                a = loss.low + (loss.high - loss.low) * (1.0 + z) / 2.0
                assert (loss(np.full(40, a), y) >= curve.intercept + curve.slope * z - 1e-9).all()


@every
def test_curves_have_consistent_derivatives(name):
    loss, random = ALL[name].take(np.arange(40)), np.random.default_rng(1)
    y, s, step = random.integers(0, 2, 40).astype(float), random.uniform(-0.98, 0.98, 40), 1e-6
    for stage in stages(loss, y):
        below, here, above = (stage(s + shift) for shift in (-step, 0.0, step))
        np.testing.assert_allclose(here.slope, (above.smooth - below.smooth) / (2 * step), atol=1e-4, rtol=1e-4)
        assert (here.curvature >= 0.0).all() or here.curvature.min() > -1e-9


def test_newton_needs_few_steps(data):
    from swapcal.losses.ball import minimise_over_ball

    _, y, X = data
    for loss in (squared(), log(), huber(0.3), logistic(4.0)):
        assert minimise_over_ball(stages(loss, y), X, np.ones(ROWS), np.zeros(X.shape[1])).steps <= 30


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 6), st.floats(-6.0, 3.0))
def test_quadratic_model_is_minimised_in_the_ball(seed, dim, rank, size):
    random = np.random.default_rng(seed)
    root = random.normal(size=(min(rank, dim), dim))
    H, q = root.T @ root, 10.0**size * random.normal(size=dim)
    z = quadratic_minimum(H, q)
    gradient = H @ z + q
    assert z @ z <= 1.0 + 1e-9
    # Optimal in the ball if and only if no point of it lies lower along the gradient.
    scale = max(np.abs(H).max(initial=0.0), np.linalg.norm(q))
    assert gradient @ z + np.linalg.norm(gradient) <= 1e-6 * scale


def test_matrix_comparators_are_exact(data):
    p, y, X = data
    loss = cost_matrix([[0, 10], [1, 4], [3, 0]])
    result = regret(loss, p, y, X)
    random = np.random.default_rng(0)
    costs = np.where(y[:, None] == 1, loss.costs[:, 1], loss.costs[:, 0])
    for level in result.levels:
        rows = p == level.level
        i, j = level.best.pair
        chance = (1.0 + X[rows] @ level.best.theta) / 2.0
        attained = ((1.0 - chance) * costs[rows, i] + chance * costs[rows, j]).sum()
        assert attained == pytest.approx(level.best.value)
        for _ in range(50):
            theta = random.normal(size=X.shape[1])
            chance = (1.0 + X[rows] @ (theta / np.linalg.norm(theta))) / 2.0
            one, other = random.integers(0, 3, 2)
            assert ((1 - chance) * costs[rows, one] + chance * costs[rows, other]).sum() >= level.best.value - 1e-9
    assert result.swap <= result.bound


def test_two_action_matrix_agrees_with_its_interval_form(data):
    interval, matrix = regret(zero_one(1.0, 4.0), *data), regret(cost_matrix([[0, 4], [1, 0]]), *data)
    # The matrix may also stay with one action whatever x says, which (1 + ⟨θ,x⟩)/2 cannot.
    assert matrix.swap >= interval.swap - 1e-9
    assert matrix.cost == pytest.approx(interval.cost)


def test_weights_count_rows(data):
    p, y, X = data
    twice = regret(squared(), p, y, X, weight=np.full(ROWS, 2.0))
    once = regret(squared(), p, y, X)
    assert twice.swap == pytest.approx(2.0 * once.swap)
    assert swap_omniprediction(p, y, X, np.full(ROWS, 2.0)).total == pytest.approx(
        2 * swap_omniprediction(p, y, X).total
    )


def test_row_order_does_not_matter(data):
    p, y, X = data
    order = np.random.default_rng(0).permutation(ROWS)
    loss = SMOOTH["per-row newsvendor"]
    assert regret(loss.take(order), p[order], y[order], X[order]).swap == pytest.approx(regret(loss, p, y, X).swap)


def test_a_certain_and_wrong_log_forecast_has_infinite_regret(data):
    _, y, X = data
    result = regret(log(), np.zeros(ROWS), y, X)
    assert result.cost == result.swap == np.inf
    assert np.isfinite(result.best.value)


def test_progress_counts_levels(data):
    calls = []
    result = regret(squared(), *data, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i + 1, len(result.levels)) for i in range(len(result.levels))]


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 0.35, 0.5, 0.8, 1.0]),
    st.integers(0, 8),
    st.sampled_from(["all", "restricted"]),
)
def test_closed_form_against_all_convex_losses_by_linear_program(seed, v, eighths, rules):
    random = np.random.default_rng(seed)
    _, y, X = reference.stream(seed % 1000, rows=9, dim=3)
    best = swap_omniprediction(np.full(9, v), y, X, rules=rules)
    k = 1.0 if best.A[0] > 0 else 0.0
    _, theta = best.attained_by(0)
    attained = reference.worst_convex_loss(v, y, (1.0 + X @ theta) / 2.0, k)
    assert attained == pytest.approx(best.total, rel=1e-6, abs=1e-8)
    other = random.normal(size=3)
    size = abs(other[0]) / 2 + np.sqrt(0.75) * np.linalg.norm(other[1:]) if rules == "all" else np.linalg.norm(other)
    other /= size if rules == "all" else max(1.0, size)
    anywhere = reference.worst_convex_loss(v, y, (1.0 + X @ other) / 2.0, eighths / 8.0)
    assert anywhere <= best.total + 1e-8


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.5, 0.8]))
def test_no_affine_rule_with_values_between_0_and_1_on_four_contexts_gains_more(seed, v):
    """Four contexts at the corners of a square: comparators and the worst loss for each, by linear programs."""
    corners = np.array([[0.5, a, b] for a in (-1, 1) for b in (-1, 1)]) * [1.0, np.sqrt(0.375), np.sqrt(0.375)]
    random = np.random.default_rng(seed)
    rows = random.integers(4, size=12)
    X, y = corners[rows], random.integers(2, size=12).astype(float)
    best = swap_omniprediction(np.full(12, v), y, X)
    candidates = [np.eye(3)[0] * 2, -np.eye(3)[0] * 2]
    candidates += [np.append(0.0, 2 / np.sqrt(3) * np.array([np.cos(a), np.sin(a)])) for a in np.linspace(0, 6.2, 9)]
    gains = []
    for theta in [*candidates, best.attained_by(0)[1]]:
        f = np.clip((1.0 + X @ theta) / 2.0, 0.0, 1.0)
        gains += [reference.worst_convex_loss(v, y, f, k) for k in (0.0, 1.0)]
    assert max(gains) == pytest.approx(best.total, rel=1e-6, abs=1e-8)


def test_the_printed_sentence_covers_the_constants_that_the_restricted_rules_lack():
    """Forecasts of one half where the outcome is always 1: the rule that says 1 saves the absolute loss all of 1."""
    p, y, X = np.full(8, 0.5), np.ones(8), np.full((8, 1), 0.5)
    found = swap_omniprediction(p, y, X)
    assert found.total == 8.0
    assert "more than 1 a row to an affine rule on the features" in repr(found)
    restricted = swap_omniprediction(p, y, X, rules="restricted")
    assert restricted.total == 6.0
    assert "more than 0.75 a row to a rule of F_res^aff on the features" in repr(restricted)
    with pytest.raises(ValueError, match="rules: given 'some', expected"):
        swap_omniprediction(p, y, X, rules="some")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_swap_omniprediction_lies_between_once_and_twice_multicalibration(seed):
    best = swap_omniprediction(*reference.stream(seed % 5000, rows=60, dim=3))
    assert best.multicalibration <= best.total * (1 + 1e-12)
    assert best.total <= 2.0 * best.multicalibration * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [1e-1, 1e-3, 1e-6])
def test_the_attaining_loss_nearly_attains_at_every_level(data, epsilon):
    p, y, X = data
    best = swap_omniprediction(p, y, X)
    for index, v in enumerate(best.levels):
        loss, theta = best.attained_by(index, epsilon)
        assert profile(loss).in_convex_class
        rows = p == v
        gain = (loss.induced(p[rows], y[rows]) - loss((1.0 + X[rows] @ theta) / 2.0, y[rows])).sum()
        promised = (1.0 - epsilon) * best.values[index] - epsilon * best.weight[index]
        assert promised - 1e-9 <= gain <= best.values[index] + 1e-9


def test_the_attaining_loss_is_certified_by_the_solver_too(data):
    p, y, X = data
    best = swap_omniprediction(p, y, X, rules="restricted")
    index = int(np.argmax(best.values))
    loss, _ = best.attained_by(index, 1e-6)
    level = regret(loss, p, y, X).levels[index]
    assert level.regret == pytest.approx(best.values[index], rel=1e-4)


def test_plain_omniprediction_is_bracketed(data):
    p, y, X = data
    interval = omniprediction(p, y, X)
    a = (1.0 + X @ interval.theta) / 2.0
    gain = (interval.loss.induced(p, y) - interval.loss(a, y)).sum()
    assert gain == pytest.approx(interval.lower)
    assert interval.lower <= interval.upper == pytest.approx(swap_omniprediction(p, y, X, rules="restricted").total)
    for loss in (pinball(0.8), absolute(), huber(0.9)):
        alone = omniprediction(p, y, X, losses=[loss])
        assert alone.lower == pytest.approx(max(regret(loss, p, y, X).plain, 0.0), abs=1e-6)


def test_one_level_meets_both_ends_of_the_interval():
    _, y, X = reference.stream(3, rows=300, skew=2.0)
    p = np.full(300, 0.5)
    best = swap_omniprediction(p, y, X, rules="restricted")
    extreme, _ = best.attained_by(0, 1e-6)
    interval = omniprediction(p, y, X, losses=[extreme])
    assert interval.lower == pytest.approx(interval.upper, rel=1e-3)


def test_decision_rows_for_reports(data):
    p, y, X = data
    rows = decision_rows([squared(), log(), SMOOTH["per-row huber"]], p, y, X)
    assert [row["loss"] for row in rows] == ["squared", "log", "huber(per row)"]
    for row in rows:
        assert row["certificate"] >= row["regret"] - 1e-9
        assert row["alternative_cost"] == pytest.approx(row["cost"] - row["regret"])
    assert decision_rows([log()], np.zeros(ROWS), y, X)[0]["regret"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": [0.1, 1.2, 0.3]}, r"forecast p: given 1\.2 in row 2"),
        ({"y": [0, np.nan, 1]}, "outcome y: given nan in row 2"),
        ({"y": [0, 1]}, r"outcome y: given shape \(2,\), expected \(3,\)"),
        ({"X": [[0.5, 0.5], [0.5, 2.0], [0.5, 0.0]]}, "X: given norm 2.06.* in row 2"),
        ({"weight": [1, -1, 1]}, r"weight: given -1\.0 in row 2"),
    ],
)
def test_bad_rows_are_refused(change, message):
    good = {"p": [0.1, 0.2, 0.3], "y": [0, 1, 1], "X": [[0.5, 0.5], [0.5, 0.1], [0.5, 0.0]]}
    with pytest.raises(LossError, match=message):
        regret(squared(), **(good | change))


def test_a_dictionary_must_be_convex_and_lipschitz(data):
    with pytest.raises(LossError, match=r"given squared, .*expected members of L\^cvx"):
        omniprediction(*data, losses=[squared()])
    with pytest.raises(LossError, match="losses: given none"):
        omniprediction(*data, losses=[])
