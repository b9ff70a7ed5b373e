import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swapcal.losses import (
    Loss,
    LossError,
    absolute,
    broken_line_basis,
    convex_basis,
    cost_matrix,
    custom,
    huber,
    log,
    newsvendor,
    squared,
    v_mixture,
    v_shaped,
    zero_one,
)
from tests import reference_losses as reference

BOUNDED = {
    "squared": squared(),
    "absolute": absolute(),
    "huber": huber(0.3),
    "zero_one": zero_one(0.3, 1.0),
    "v_shaped": v_shaped(0.25),
    "matrix": cost_matrix([[0, 1], [0.2, 0.4], [0.7, -0.5]]),
    "quartic": custom(lambda a, y: (a - y) ** 4, name="quartic"),
    "constant": cost_matrix([[0.3, -0.8]]),
}


@pytest.mark.parametrize("name", BOUNDED)
@settings(max_examples=25, deadline=None)
@given(points=st.lists(st.integers(0, 1000), min_size=2, max_size=30, unique=True))
def test_mixture_equals_the_proper_loss_at_every_knot(name, points):
    knots = np.sort(np.array(points)) / 1000.0
    mixture = v_mixture(BOUNDED[name], knots)
    assert (mixture.mass >= 0.0).all()
    assert mixture.total_mass <= 2.0 + 1e-12
    for outcome in (0, 1):
        np.testing.assert_allclose(mixture(knots, outcome), BOUNDED[name].induced(knots, outcome), atol=1e-7)


@pytest.mark.parametrize("name", BOUNDED)
def test_mixture_is_close_between_knots(name):
    knots, between = np.linspace(0.0, 1.0, 201), np.random.default_rng(0).random(500)
    mixture = v_mixture(BOUNDED[name], knots)
    gap = np.searchsorted(knots, between) - 1
    in_gap = (mixture.vertex[None] >= knots[gap][:, None]) & (mixture.vertex[None] <= knots[gap + 1][:, None])
    allowed = 2.5 * (in_gap @ mixture.mass) + 1e-7
    for outcome in (0, 1):
        error = np.abs(mixture(between, outcome) - BOUNDED[name].induced(between, outcome))
        assert (error <= allowed).all()


def test_a_mixture_is_the_same_for_one_forecast_and_for_many():
    mixture = v_mixture(squared(), np.linspace(0.0, 1.0, 38))
    p, y = np.random.default_rng(0).random((2, 200))
    assert [mixture(*pair) for pair in zip(p, y, strict=True)] == mixture(p, y).tolist()


def test_mixture_of_a_v_shaped_loss_is_itself():
    mixture = v_mixture(v_shaped(0.25), [0.0, 0.1, 0.6, 1.0])
    np.testing.assert_allclose(mixture.vertex, [0.25])
    np.testing.assert_allclose([mixture.total_mass, mixture.offset, mixture.tilt], [1.0, 0.0, 0.0], atol=1e-15)


def test_a_kink_at_a_knot_keeps_the_side_of_the_loss():
    reluctant = Loss("reluctant", lambda a, y: abs(a - y), response=lambda p: np.where(p > 0.5, 1.0, 0.0))
    for loss in (absolute(), reluctant):
        mixture = v_mixture(loss, [0.0, 0.5, 1.0])
        np.testing.assert_allclose(mixture([0.0, 0.5, 1.0], 1), loss.induced([0.0, 0.5, 1.0], 1))


def test_mixture_refuses_what_it_cannot_represent():
    with pytest.raises(LossError, match=r"knots: given 0\.0, expected a forecast at which log is finite"):
        v_mixture(log(), [0.0, 0.5, 1.0])
    with pytest.raises(LossError, match="strictly increasing"):
        v_mixture(squared(), [0.5, 0.5])
    wrong = Loss("wrong", lambda a, y: (a - y) ** 2, response=lambda p: 1.0 - p)
    with pytest.raises(LossError, match=r"response of wrong: given"):
        v_mixture(wrong, [0.0, 1.0])
    assert v_mixture(log(), np.linspace(0.01, 0.99, 9))(0.5, 1) == pytest.approx(np.log(2.0))


@pytest.fixture(scope="module")
def bases():
    return {epsilon: convex_basis(epsilon) for epsilon in (0.2, 0.01, 0.0016, 0.0008)}


@pytest.mark.parametrize("epsilon", [0.2, 0.01, 0.0016, 0.0008])
def test_every_convex_function_is_approximated(bases, epsilon):
    basis, random = bases[epsilon], np.random.default_rng(1)
    assert basis.error <= epsilon
    assert basis.coefficient_norm <= 2.0
    assert np.abs(basis.functions).max() <= 1.0 + 1e-12
    worst = 0.0
    for _ in range(60):
        function, grid = reference.random_convex_function(random)
        c = basis.coefficients(function)
        assert np.abs(c).sum() <= basis.coefficient_norm + 1e-9
        worst = max(worst, float(np.abs(basis.combine(c, grid) - function(grid)).max()))
    assert 0.05 * epsilon < worst <= basis.error + 1e-12


def test_kinks_are_the_hard_case_and_are_met(bases):
    basis, grid = bases[0.0008], np.linspace(0.0, 1.0, 5001)
    for t in np.random.default_rng(2).random(200):
        c = basis.coefficients(lambda a, t=t: np.abs(a - t))
        assert np.abs(basis.combine(c, grid) - np.abs(grid - t)).max() <= basis.error


def test_catalogue_losses_have_coefficients(bases):
    basis, grid = bases[0.01], np.linspace(0.0, 1.0, 777)
    for loss in (absolute(), huber(0.3), newsvendor(1.0, 0.5), zero_one(0.3, 1.0)):
        for outcome in (0, 1):
            c = basis.coefficients(lambda a, loss=loss, outcome=outcome: loss(a, outcome))
            assert np.abs(basis.combine(c, grid) - loss(grid, outcome)).max() <= 0.01


def test_small_errors_need_fewer_functions_than_the_broken_line(bases):
    for epsilon in (0.0016, 0.0008):
        assert bases[epsilon].size < 0.5 / epsilon
    sizes = {epsilon: basis.size for epsilon, basis in bases.items()}
    for epsilon, size in sizes.items():
        assert size <= 1.5 * epsilon ** (-2 / 3) * max(1.0, np.log(1.0 / epsilon)) ** (4 / 3)


def test_broken_line_basis_is_tight():
    basis = broken_line_basis(10)
    c = basis.coefficients(lambda a: np.abs(a - 0.45))
    assert abs(basis.combine(c, 0.45) - 0.0) == pytest.approx(basis.error)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: 2.0 * a - 1.0, "slope 2 at 0"),
        (lambda a: -np.abs(a - 0.5), "slope that falls at 0.5"),
        (lambda a: a + 0.5, "expected values in"),
        (lambda a: np.where(a > 0.5, np.nan, 0.0), "function: given nan at 0.6"),
    ],
)
def test_functions_outside_the_class_are_refused(function, message):
    with pytest.raises(LossError, match=message):
        broken_line_basis(10).coefficients(function)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 1e-9, 2.0, np.nan])
def test_impossible_precision_is_refused(epsilon):
    with pytest.raises(LossError, match="epsilon: given"):
        convex_basis(epsilon)
