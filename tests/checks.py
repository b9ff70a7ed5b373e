"""One suite of checks for anything that forecasts: `predict(x)`, `update(forecast, y)`, `run(X, y)`.

A check takes `make`, which builds a fresh forecaster of a given dimension, and raises AssertionError with the reason.
`save`/`load` are checked where they are offered.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from swapcal import Forecaster
from swapcal.arrays import Array
from tests.adversaries import contexts, labels

Make = Callable[[int], Any]

LEVELS: dict[str, Any] = {"adaptive": "adaptive", "uniform": 6, "sine": "sine:5", "explicit": [0, 0.05, 0.3, 0.6, 1]}
LEARNERS = ("ridge", "vaw", "ons", "ons-fast")
COMBINATIONS = [(learner, "hedge", levels) for learner in LEARNERS for levels in LEVELS] + [
    (learner, "blum-mansour", levels)
    for learner in LEARNERS
    if learner != "vaw"
    for levels in LEVELS
    if levels != "adaptive"
]
COMBINATIONS.append(("ridge", "hedge", "inner"))
NAMES = ["/".join(combination) for combination in COMBINATIONS]
FIELDS = ("p", "mean", "low", "high", "weight")


def build(combination: tuple[str, str, str], dim: int, **options: Any) -> Forecaster:
    """Return a forecaster of one of the allowed combinations."""
    learner, mixing, levels = combination
    return Forecaster(dim, learner=learner, mixing=mixing, levels=LEVELS.get(levels, levels), **options)


def snapshot(forecaster: Any) -> dict[str, tuple[Any, ...]]:
    """Return every bit of a Forecaster's memory."""
    arrays = forecaster._state._asdict()
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def stream(rows: int, dim: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = contexts(rng, rows, dim)
    return X, labels(rng, X)


def fields(forecast: Any) -> dict[str, Any]:
    """Return the public numbers of a forecast; a forecaster may offer fewer than all of them."""
    return {name: getattr(forecast, name) for name in FIELDS if hasattr(forecast, name)}


def looped(forecaster: Any, X: Array, y: Array) -> dict[str, Array]:
    """Predict and learn row by row; return the fields as arrays."""
    rows = []
    for x, label in zip(X, y, strict=True):
        forecast = forecaster.predict(x)
        rows.append(fields(forecast))
        forecaster.update(forecast, label)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def assert_same(left: dict[str, Any], right: dict[str, Any], tolerance: float = 0.0) -> None:
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_allclose(left[name], right[name], rtol=0, atol=tolerance, err_msg=name)


def check_forecasts_are_probabilities(make: Make) -> None:
    X, y = stream(60, 4)
    got = looped(make(4), X, y)
    for name, values in got.items():
        assert np.all((values >= 0) & (values <= 1)), f"{name} outside [0, 1]"


def check_predict_is_pure(make: Make) -> None:
    """Asking, even many times and for other contexts, changes neither this answer nor any later one."""
    X, y = stream(50, 4)
    asked, left_alone = make(4), make(4)
    for x, label in zip(X, y, strict=True):
        first = asked.predict(x)
        asked.predict(X[0])
        again = asked.predict(x)
        assert_same(fields(first), fields(again))
        plain = left_alone.predict(x)
        assert_same(fields(first), fields(plain))
        asked.update(again, label)
        left_alone.update(plain, label)


def check_run_equals_loop(make: Make) -> None:
    X, y = stream(70, 5)
    assert_same(fields(make(5).run(X, y)), looped(make(5), X, y))


def check_run_resumes(make: Make) -> None:
    X, y = stream(60, 4)
    whole, pieces = make(4), make(4)
    expected = fields(whole.run(X, y))
    parts = [fields(pieces.run(X[a:b], y[a:b])) for a, b in ((0, 1), (1, 23), (23, 23), (23, 60))]
    assert_same({name: np.concatenate([part[name] for part in parts]) for name in expected}, expected)


def check_inputs_are_left_alone(make: Make) -> None:
    X, y = stream(30, 4)
    given = X.copy(), y.copy()
    forecaster = make(4)
    forecaster.run(X, y)
    looped(forecaster, X, y)
    np.testing.assert_array_equal(X, given[0])
    np.testing.assert_array_equal(y, given[1])


def check_save_and_load(make: Make) -> None:
    X, y = stream(60, 4)
    forecaster = make(4)
    if not hasattr(forecaster, "save"):
        return
    forecaster.run(X[:30], y[:30])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        forecaster.save(path)
        loaded = type(forecaster).load(path)
    assert_same(fields(loaded.run(X[30:], y[30:])), fields(forecaster.run(X[30:], y[30:])))


def check_column_order_does_not_matter(make: Make) -> None:
    """Permute all coordinates but the constant, with the same event ids and hence the same draws."""
    X, y = stream(60, 5)
    events = list(range(60))
    straight = make(5).run(X, y, events=events)
    permuted = make(5).run(np.ascontiguousarray(X[:, [0, 3, 1, 4, 2]]), y, events=events)
    assert_same(fields(straight), fields(permuted), tolerance=1e-9)


def check_constant_features(make: Make) -> None:
    """Contexts that never differ, in coordinates that repeat each other: the mean of the labels is learned."""
    X = np.tile([0.5, 0.5, 0.0, 0.1], (400, 1))
    y = (np.arange(400) % 4 == 0).astype(float)
    forecaster = make(4)
    got = fields(forecaster.run(X, y))
    soft = got.get("mean", got["p"])
    assert np.all(np.isfinite(soft))
    assert abs(soft[200:].mean() - 0.25) < 0.15


def check_bad_values_are_refused(make: Make) -> None:
    """A rejected context or label raises and leaves no trace in later forecasts."""
    X, y = stream(40, 4)
    careful, plain = make(4), make(4)
    careful.run(X[:20], y[:20])
    plain.run(X[:20], y[:20])
    spoiled = X[20:].copy()
    spoiled[3, 2] = np.nan
    open_ = careful.predict(X[20])
    refused: list[Callable[[], object]] = [
        lambda: careful.predict(spoiled[3]),
        lambda: careful.run(spoiled, y[20:]),
        lambda: careful.run(X[20:], np.full(20, np.nan)),
        lambda: careful.run(X[20:], y[20:] + 2),
        lambda: careful.predict(X[20, :3]),
        lambda: careful.update(open_, np.nan),
        lambda: careful.update(open_, -0.5),
    ]
    for attempt in refused:
        try:
            attempt()
        except (ValueError, TypeError):
            continue
        raise AssertionError("a bad value was accepted")
    assert_same(fields(careful.run(X[20:], y[20:])), fields(plain.run(X[20:], y[20:])))


def check_copies_are_independent(make: Make) -> None:
    X, y = stream(40, 4)
    original = make(4)
    original.run(X[:20], y[:20])
    twin = copy.deepcopy(original)
    expected = fields(twin.run(X[20:], y[20:]))
    assert_same(fields(original.run(X[20:], y[20:])), expected)


CHECKS: dict[str, Callable[[Make], None]] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}
