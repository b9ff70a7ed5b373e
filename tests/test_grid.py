"""Levels: every form that is accepted, every reason for refusal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapcal import Forecaster
from swapcal.engine import grid


@given(st.integers(1, 500))
def test_uniform_and_sine_levels_increase_from_0_to_1(n):
    for z in (grid.uniform(n), grid.sine(n)):
        assert len(z) == n + 1
        assert z[0] == 0
        assert z[-1] == 1
        assert np.all(np.diff(z) > 0)
        np.testing.assert_allclose(z + z[::-1], 1, atol=1e-12)


def test_sine_levels_are_dense_at_the_ends():
    widths = np.diff(grid.sine(16))
    assert np.all(np.diff(widths[:8]) > 0)


@given(st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), unique=True, max_size=20))
def test_explicit_levels_are_kept_as_given(inner):
    levels = [0.0, *sorted(inner), 1.0]
    z, adaptive = grid.starting(levels)
    assert z.tolist() == levels
    assert not adaptive
    np.testing.assert_array_equal(Forecaster(1, levels=levels).levels, levels)


def test_explicit_levels_are_copied():
    given_levels = np.array([0.0, 0.5, 1.0])
    forecaster = Forecaster(1, levels=given_levels)
    given_levels[1] = 0.9
    assert forecaster.levels[1] == 0.5


@pytest.mark.parametrize(
    ("levels", "count", "adaptive"),
    [("adaptive", 25, True), (7, 8, False), (np.int32(7), 8, False), ("sine", 33, False), ("sine:3", 4, False)],
)
def test_named_levels(levels, count, adaptive):
    z, refines = grid.starting(levels)
    assert (len(z), refines) == (count, adaptive)


@pytest.mark.parametrize(
    "levels",
    [
        0,
        -3,
        "uniform",
        "adaptive:4",
        "sine:0",
        "sine:-1",
        "sine:2.5",
        True,
        4.0,
        None,
        [],
        [0.5],
        [0.0, 0.5],
        [0.1, 1.0],
        [0.0, 0.5, 0.5, 1.0],
        [0.0, 0.7, 0.3, 1.0],
        [0.0, np.nan, 1.0],
        [-1.0, 0.0, 1.0],
        [0.0, np.inf],
        [[0.0, 1.0]],
        ["a", "b"],
        ["0", "1"],
        [0.0, None, 1.0],
        {"levels": 3},
    ],
)
def test_levels_that_are_refused(levels):
    with pytest.raises((ValueError, TypeError), match=r"levels: given .*expected"):
        Forecaster(2, levels=levels)
