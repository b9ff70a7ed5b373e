import doctest
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal.engine.forecaster import Forecaster
from swapcal.losses import (
    Decision,
    Loss,
    LossError,
    absolute,
    cost_matrix,
    custom,
    decide,
    exponential,
    huber,
    log,
    logistic,
    newsvendor,
    pinball,
    profile,
    squared,
    steep_loss,
    threshold_losses,
    v_shaped,
    zero_one,
)
from tests import reference_losses as reference

LOSSES = {
    "squared": squared(),
    "log": log(),
    "absolute": absolute(),
    "pinball": pinball(0.9),
    "newsvendor": newsvendor(under=3.0, over=0.5),
    "newsvendor without over-cost": newsvendor(under=1.0, over=0.0),
    "zero_one": zero_one(false_positive=1.0, false_negative=4.0),
    "huber narrow": huber(0.2),
    "huber half": huber(0.5),
    "huber wide": huber(0.7),
    "huber square": huber(2.0),
    "logistic": logistic(),
    "exponential": exponential(),
    "v_shaped": v_shaped(0.3),
    "v_shaped at 0": v_shaped(0.0),
    "v_shaped at 1": v_shaped(1.0),
    "matrix": cost_matrix([[0, 10], [1, 4], [3, 0]]),
    "one action": cost_matrix([[2, 1]]),
    "steep": steep_loss(0.3, 1.0, 0.01),
    "lopsided": threshold_losses(4)[3],
    "custom smooth": custom(lambda a, y: (a - y) ** 4, name="quartic"),
    "custom kinked": custom(lambda a, y: abs(a - 0.2 - 0.6 * y), name="kinked"),
    "custom scalar": custom(lambda a, y: math.cosh(a - y), name="cosh"),
    "custom wide": custom(lambda a, y: (a - 10 * y) ** 2, actions=(-5.0, 20.0), name="wide"),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
probabilities = st.one_of(st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.floats(0.0, 1.0))


def tolerance(loss, p):
    return 1e-9 * max(1.0, abs(loss.risk(p)))


@every_loss
@settings(max_examples=40, deadline=None)
@given(truth=probabilities, claim=probabilities)
def test_acting_on_the_truth_is_cheapest(loss, truth, claim):
    honest = loss(loss.best_response(truth), truth)
    assert honest <= loss(loss.best_response(claim), truth) + tolerance(loss, truth)


@every_loss
@pytest.mark.parametrize("p", [0.0, 0.05, 0.3, 0.5, 0.77, 1.0])
def test_best_response_beats_every_action_of_a_grid(loss, p):
    assert loss.risk(p) <= reference.best_response_on_grid(loss, p, 501) + tolerance(loss, p)


@every_loss
def test_arrays_and_numbers_agree(loss):
    p = np.linspace(0.0, 1.0, 23)
    actions = loss.best_response(p)
    assert actions.shape == p.shape
    # Powers of numbers and of arrays may round differently, which moves a searched response.
    slack = 0.0 if loss.response else 1e-7 * (loss.high - loss.low)
    np.testing.assert_allclose(actions, [loss.best_response(float(q)) for q in p], rtol=0.0, atol=slack)
    np.testing.assert_allclose(loss(actions, 1), [loss(float(a), 1) for a in actions], rtol=1e-14)
    np.testing.assert_array_equal(loss.best_response(p.reshape(1, 23)), actions.reshape(1, 23))


@pytest.mark.parametrize("loss", [loss for loss in LOSSES.values() if loss.slope], ids=lambda loss: loss.name)
def test_derivatives_match_differences(loss):
    a = np.linspace(loss.low, loss.high, 41)[1:-1] + 1e-3 * (loss.high - loss.low)
    step = 1e-5 * (loss.high - loss.low)
    for outcome in (0, 1):
        below, here, above = (loss.at(a + shift, outcome) for shift in (-step, 0.0, step))
        slope = loss.slope(a, outcome, **loss.parameters)
        np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-5, atol=1e-6)
        curvature = loss.curvature(a, outcome, **loss.parameters)
        scale = 1.0 + np.abs(here).max()
        np.testing.assert_allclose(curvature, (above - 2 * here + below) / step**2, rtol=1e-2, atol=1e-5 * scale)


@pytest.mark.parametrize(
    ("loss", "p", "action"),
    [
        (absolute(), 0.5, 1.0),
        (newsvendor(3.0, 1.0), 0.25, 1.0),
        (zero_one(1.0, 1.0), 0.5, 1.0),
        (huber(0.25), 0.5, 0.75),
        (v_shaped(0.4), 0.4, 1.0),
        (cost_matrix([[1, 1], [1, 1], [2, 2]]), 0.7, 1.0),
        (custom(lambda a, y: np.maximum(abs(a - 0.5) - 0.25, 0.0), name="flat"), 0.5, 0.75),
    ],
)
def test_ties_go_to_the_largest_action(loss, p, action):
    assert loss.best_response(p) == pytest.approx(action, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_per_row_parameters_equal_one_loss_per_row(costs, seed):
    rng = np.random.default_rng(seed)
    p, y = rng.random(len(costs)), rng.integers(0, 2, len(costs))
    rowwise = newsvendor(under=costs, over=1.0)
    each = [newsvendor(under=c, over=1.0) for c in costs]
    np.testing.assert_array_equal(
        rowwise.induced(p, y), [one.induced(q, o) for one, q, o in zip(each, p, y, strict=True)]
    )
    some = rowwise.take([0])
    assert some.rows == 1
    assert some.best_response(p[:1])[0] == each[0].best_response(p[0])


def test_per_row_custom_and_matrix():
    widths = np.array([0.1, 0.5, 2.0])
    rowwise = custom(lambda a, y, w: w * (a - y) ** 2 + abs(a - 0.5), parameters={"w": widths}, name="mixed")
    each = [custom(lambda a, y, w=w: w * (a - y) ** 2 + abs(a - 0.5), name="one") for w in widths]
    np.testing.assert_allclose(rowwise.best_response([0.9] * 3), [one.best_response(0.9) for one in each], atol=1e-6)
    costs = np.array([[[0, 1], [1, 0]], [[0, 9], [1, 0]], [[0, 1], [9, 0]]])
    matrices = cost_matrix(costs)
    assert matrices.best_response([0.3, 0.3, 0.3]).tolist() == [0.0, 1.0, 0.0]
    assert matrices([0, 1, 1], [1, 0, 0]).tolist() == [1.0, 1.0, 9.0]
    assert matrices.take(slice(1, 2)).best_response([0.3]).tolist() == [1.0]


def test_fractional_outcome_is_an_expectation():
    assert squared()(0.2, 0.25) == pytest.approx(0.75 * 0.04 + 0.25 * 0.64)
    assert log()(0.0, 0.0) == 0.0
    assert log()(0.0, 0.5) == math.inf


def test_profiles():
    assert profile(pinball(0.9)).in_convex_class
    assert not profile(squared()).in_convex_class
    assert profile(steep_loss(0.2, 0.0, 0.01)).in_convex_class
    assert all(profile(loss).in_convex_class for loss in threshold_losses(9))
    assert profile(log()).lipschitz == math.inf
    assert profile(v_shaped(0.3)).lipschitz == pytest.approx(1.4)
    measured = profile(custom(lambda a, y: (a - y) ** 2, name="square"))
    assert measured.measured
    assert measured.lipschitz == pytest.approx(2.0, rel=0.01)
    assert (measured.minimum, measured.maximum) == (0.0, 1.0)
    many = profile(newsvendor(under=np.linspace(0.0, 3.0, 20_000)))
    assert (many.lipschitz, many.maximum) == (3.0, 3.0)
    assert profile(cost_matrix([[0, 5], [2, 1]])).lipschitz == 4.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: custom(lambda a, y: -((a - y) ** 2), name="cap"),
            r"cap: given ℓ\(.*ℓ\(.*ℓ\(.* at y = 0, expected a convex function",
        ),
        (
            lambda: custom(lambda a, y: np.where(a > 0.7, np.nan, a), name="hole"),
            r"hole: given nan at a = 0\.70\d+, y = 0",
        ),
        (
            lambda: custom(lambda a, y: np.where(y == 1, -np.log(np.maximum(a, 0)), a)),
            "given inf at a = 0, y = 1",
        ),
        (
            lambda: custom(lambda a, y, c: c * a**2, name="sign", parameters={"c": [1.0, -1.0]}),
            "sign: given .* in row 2, expected a convex",
        ),
        (lambda: custom(lambda a: a, name="short"), "short: given TypeError.* at a = 0, y = 1"),
        (lambda: custom(lambda a, y: a, actions=(1.0, 0.0)), "expected a finite interval"),
        (lambda: cost_matrix([]), "costs: given no action"),
        (lambda: cost_matrix(np.zeros((0, 2))), "costs: given no action"),
        (lambda: cost_matrix([[1, 2, 3]]), r"shape \(1, 3\)"),
        (lambda: cost_matrix([1, 2]), r"shape \(2,\)"),
        (lambda: cost_matrix([[1, 2], [3]]), "ragged"),
        (lambda: cost_matrix([[0, 1], [np.nan, 0]]), "cost of action 1 at outcome 0: given nan"),
        (lambda: cost_matrix([[0, 1]], actions=["a", "b"]), "actions: given 2 labels"),
        (lambda: pinball(1.5), r"pinball level: given 1\.5"),
        (lambda: pinball([0.5, np.nan]), "pinball level: given nan in row 2"),
        (lambda: newsvendor(under=-1.0), r"cost under: given -1\.0"),
        (lambda: newsvendor(under="much"), "cost under: given 'much'"),
        (lambda: huber(0.0), r"huber delta: given 0\.0"),
        (lambda: logistic(0.0), "logistic bound"),
        (lambda: steep_loss(0.5, 0.5, 0.1), "expected v in"),
        (lambda: squared().best_response(1.2), r"probability p: given 1\.2"),
        (lambda: squared().best_response([0.1, np.nan]), "probability p: given nan in row 2"),
        (lambda: squared()([0.1, 1.5], 1), r"action of squared: given 1\.5 in row 2"),
        (lambda: squared()(0.5, -1), r"outcome y: given -1\.0"),
        (lambda: cost_matrix([[0, 1], [1, 0]])(0.5, 1), "expected a whole number from 0 to 1"),
        (lambda: newsvendor(under=[1.0, 2.0]).best_response([0.1, 0.2, 0.3]), "expected a shape that broadcasts"),
        (lambda: Loss.parse("pinbal:0.9"), "given loss 'pinbal', expected one of squared"),
        (lambda: Loss.parse("pinball"), "given pinball without level"),
        (lambda: Loss.parse("pinball:0.9,0.8"), "expected level, each once"),
        (lambda: Loss.parse("newsvendor:1,under=2"), "given argument 'under' again"),
        (lambda: Loss.parse("pinball:high"), "given 'high', expected a number or @column"),
        (lambda: Loss.parse("pinball:@q"), "given column 'q', expected a number, as there are no columns"),
    ],
)
def test_bad_input_is_refused_with_the_offending_point(make, message):
    with pytest.raises(LossError, match=message):
        make()


def test_text_and_toml(tmp_path):
    assert Loss.parse("newsvendor:under=3,over=1").best_response(0.25) == 1.0
    assert Loss.parse(" huber ").name == "huber"
    rowwise = Loss.parse("newsvendor:@cost", {"cost": [1.0, 9.0]})
    assert rowwise.best_response([0.3, 0.3]).tolist() == [0.0, 1.0]
    path = tmp_path / "costs.toml"
    path.write_text(
        '[[loss]]\nkind = "newsvendor"\nunder = 3.0\nover = "@c"\n'
        '[[loss]]\nname = "triage"\nkind = "matrix"\nactions = ["home", "stay"]\ncosts = [[0, 5], [1, 0]]\n'
    )
    first, second = Loss.from_toml(path, {"c": [1.0, 30.0]})
    assert first.best_response([0.5, 0.5]).tolist() == [1.0, 0.0]
    assert second.name == "triage"
    assert decide(0.5, second).label == "stay"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", r"given x, expected \[\[loss\]\] tables"),
        ("[[loss]]\nlevel = 0.5", "loss 1: given .* expected a table with kind"),
        ('[[loss]]\nkind = "pinball"\nq = 1', "given argument 'q', expected level, each once"),
        ("[[loss]", "expected TOML"),
        ('[[loss]]\nkind = "matrix"\ncosts = [[1, 2, 3]]', "shape"),
    ],
)
def test_bad_toml_is_refused(tmp_path, text, message):
    path = tmp_path / "costs.toml"
    path.write_text(text)
    with pytest.raises(LossError, match=message):
        Loss.from_toml(path)


class Ticket:
    def __init__(self, p, low, high, weight):
        self.p, self.low, self.high, self.weight = p, low, high, weight
        self.mean = (1 - np.asarray(weight)) * low + np.asarray(weight) * high


def test_a_forecast_is_acted_upon_at_its_mean_or_at_its_issued_level():
    loss = newsvendor(under=1.0, over=1.0)
    drawn = Ticket(0.4, 0.4, 0.6, 0.75)
    assert decide(drawn, loss) == Decision(1.0, pytest.approx(0.45), pytest.approx(0.45))
    del drawn.mean
    assert decide(drawn, loss).action == 1.0
    with pytest.raises(LossError, match='at: given \'level\', expected "mean" or "p"'):
        decide(drawn, loss, at="level")
    decision = decide(Ticket(0.4, 0.4, 0.6, 0.75), loss, at="p")
    assert decision == Decision(action=0.0, expected_cost=0.4, before_draw=pytest.approx(0.4))
    many = decide(
        Ticket(np.array([0.4, 0.2]), np.array([0.2, 0.2]), np.array([0.4, 0.2]), np.array([0.5, 0.0])), loss, at="p"
    )
    np.testing.assert_allclose(many.before_draw, [0.3, 0.2])
    np.testing.assert_allclose(many.expected_cost, [0.4, 0.2])


def test_decide_on_the_engines_forecasts():
    forecaster = Forecaster(dim=2, levels=10)
    X = np.column_stack([np.full(500, 0.5), np.random.default_rng(0).uniform(-0.8, 0.8, 500)])
    forecasts = forecaster.run(X, X[:, 1] > 0)
    np.testing.assert_array_equal(decide(forecasts, squared()).action, forecasts.mean)
    decision = decide(forecasts, squared(), at="p")
    np.testing.assert_array_equal(decision.action, forecasts.p)
    between = (1 - forecasts.weight) * forecasts.low * (1 - forecasts.low)
    between += forecasts.weight * forecasts.high * (1 - forecasts.high)
    np.testing.assert_allclose(decision.before_draw, between, atol=1e-12)
    assert decide(forecaster.predict(X[0]), "absolute").action in (0.0, 1.0)


def test_decide_on_numbers_and_arrays():
    assert decide(0.2, "pinball:0.9") == Decision(1.0, pytest.approx(0.08), pytest.approx(0.08))
    matrix = cost_matrix([[0, 10], [1, 4], [3, 0]], actions=["approve", "review", "decline"])
    assert decide([0.05, 0.9], matrix).label.tolist() == ["approve", "decline"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_decide_on_columns(library):
    frames = pytest.importorskip(library)
    values = [0.05, 0.3, 0.6]
    column = frames.chunked_array([values]) if library == "pyarrow" else frames.Series(values)
    matrix = cost_matrix([[0, 10], [1, 4], [3, 0]], actions=["approve", "review", "decline"])
    decision = decide(column, matrix)
    assert type(decision.action) is type(column)
    expected = decide(np.array(values), matrix)
    np.testing.assert_allclose(np.asarray(decision.action), expected.action)
    np.testing.assert_allclose(np.asarray(decision.expected_cost), expected.expected_cost)
    assert [str(name) for name in decision.label.to_numpy()] == ["approve", "review", "decline"]


def test_pandas_index_is_kept():
    pandas = pytest.importorskip("pandas")
    column = pandas.Series([0.2, 0.8], index=["a", "b"])
    assert decide(column, absolute()).action.loc["b"] == 1.0


def test_the_guide_runs():
    guide = Path(__file__).resolve().parent.parent / "docs" / "decisions.md"
    found = doctest.testfile(
        str(guide), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert found.attempted > 10
    assert found.failed == 0
