"""Oracles that ship, swap regret against refitted regressors, saved states, and the theorems behind them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from swapcal import Forecaster, OracleForecaster, bounds
from swapcal.archive import ArchiveError, State
from swapcal.arrays import Array
from swapcal.oracles import FiniteClass, Fourier, PartialFit, Ridge, River, ball_least_squares, swap_regret
from tests.adversaries import contexts, labels

# The theorems, on sequences chosen against them.


def contrary(rng: np.random.Generator, w: float) -> tuple[float, float]:
    """Return a label that punishes a wish, and a weight that may depend on it."""
    y = float(w < 0.5) if rng.random() < 0.8 else float(rng.random())
    return y, float(rng.choice([1.0, abs(y - w), rng.random()]))


@pytest.mark.parametrize("members", [1, 2, 20])
@pytest.mark.parametrize("seed", range(4))
def test_a_finite_class_loses_at_most_2_ln_m(members: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((300, members)) if seed % 2 else (rng.random((300, members)) < 0.5).astype(float)
    oracle = (
        FiniteClass(lambda t: values[t])
        if seed == 3
        else FiniteClass([lambda t, m=m: values[t, m] for m in range(members)])
    )  # type: ignore[misc]
    lost, rows = 0.0, []
    for t in range(300):
        w = oracle.predict(t)
        y, alpha = contrary(rng, w)
        lost += alpha * (w - y) ** 2
        rows.append((y, alpha))
        oracle.update(t, y, alpha)
        y_all, alpha_all = np.array(rows).T
        literal = min(float(alpha_all @ (values[: t + 1, m] - y_all) ** 2) for m in range(members))
        assert lost - literal <= float(bounds.mixture_regret(members)) + 1e-9
    assert oracle.best(list(range(300)), y_all, alpha_all) == pytest.approx((literal, literal), abs=1e-9)
    assert oracle.regret(1e9) == 2 * np.log(members)


def test_the_price_of_a_mixture_cannot_be_halved() -> None:
    """One of a thousand functions is right: until its weight shows, every row costs nearly 1."""
    oracle = FiniteClass(lambda x: np.arange(1000) == 0)
    lost = 0.0
    for _ in range(60):
        lost += (oracle.predict(None) - 1.0) ** 2
        oracle.update(None, 1.0, 1.0)
    assert 0.8 < lost / float(bounds.mixture_regret(1000)) <= 1.0


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_the_hilbert_space_is_never_exceeded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    settings = {"features": 6, "bandwidth": 0.5, "ridge": [1.0, 0.2, 3.0, 0.05][seed], "seed": seed}
    oracle = Fourier(level := float(rng.random()), 2, **settings)  # type: ignore[arg-type]
    X = rng.uniform(-1, 1, (120, 2))
    lost, rows = 0.0, []
    for x in X:
        w = min(max(oracle.predict(x), 0.0), 1.0)
        y, alpha = contrary(rng, w)
        lost += alpha * (w - y) ** 2
        rows.append((y, alpha))
        oracle.update(x, y, alpha)
    y, alpha = np.array(rows).T
    features = oracle.transform(X)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0)
    K = features @ features.T * np.sqrt(alpha[:, None] * alpha)
    log_det = np.linalg.slogdet(np.eye(len(X)) + K / settings["ridge"])[1]
    assert oracle.log_det == pytest.approx(log_det, rel=1e-9)
    start = np.zeros(features.shape[1])
    start[0] = 2 * level
    G, b = (features * alpha[:, None]).T @ features, features.T @ (alpha * y)
    best = np.linalg.lstsq(G + 1e-9 * np.eye(len(G)), b, rcond=None)[0]
    for theta in [best, start, *(rng.standard_normal((20, len(start))) * rng.random((20, 1)) * 4)]:
        regret = lost - float(alpha @ (features @ theta - y) ** 2)
        assert regret <= float(bounds.kernel_regret(np.sum((theta - start) ** 2), log_det, settings["ridge"])) + 1e-9
    farthest = np.zeros(len(start))
    farthest[0] = -oracle.norm
    assert oracle.bound() == pytest.approx(settings["ridge"] * np.sum((farthest - start) ** 2) + log_det)
    lower, _ = oracle.best(X, y, alpha)
    assert lost - lower <= oracle.bound() + 1e-9
    assert oracle.bound() <= oracle.regret(float(alpha.sum())) + 1e-9


def test_the_bound_of_a_certificate_adds_up_what_its_oracles_lost_at_most() -> None:
    rng = np.random.default_rng(7)
    X = contexts(rng, 200, 3)
    forecaster = OracleForecaster(kernel, levels=4)
    forecaster.run(X, labels(rng, X))
    found = forecaster.certificate()
    lost = sum(forecaster.oracle(level).bound() for level in found.levels.tolist())  # type: ignore[attr-defined]
    assert found.bound == pytest.approx(found.rounding + found.combining.sum() + lost)
    assert found.psreg is not None
    assert found.psreg[1] <= found.bound < found.theorem - 1.0
    promised = sum(forecaster.oracle(v).regret(n) for v, n in zip(found.levels.tolist(), found.mass, strict=True))  # type: ignore[attr-defined]
    assert found.theorem == pytest.approx(200 / 64 + promised + 5 * 2 * np.log(2))


def test_random_features_approach_the_gaussian_kernel() -> None:
    oracle = Fourier(0.5, 3, features=4000, bandwidth=0.7)
    X = np.random.default_rng(0).uniform(-1, 1, (12, 3))
    features = oracle.transform(X)
    distance2 = ((X[:, None] - X) ** 2).sum(axis=2)
    np.testing.assert_allclose(features @ features.T, 0.25 + 0.75 * np.exp(-distance2 / (2 * 0.7**2)), atol=0.05)


@pytest.mark.parametrize("radius", [0.3, 1.0, 50.0])
@pytest.mark.parametrize("rows", [3, 40])
def test_least_squares_in_a_ball(radius: float, rows: int) -> None:
    rng = np.random.default_rng(rows)
    X, y, alpha = rng.standard_normal((rows, 5)), rng.random(rows), rng.random(rows)
    lower, upper = ball_least_squares(X, y, alpha, radius)
    assert lower <= upper
    assert upper - lower <= 1e-9 * max(1.0, upper)

    def loss(theta: Array) -> float:
        return float(alpha @ (X @ theta - y) ** 2)

    inside = {"type": "ineq", "fun": lambda theta: radius**2 - theta @ theta}
    found = minimize(loss, np.zeros(5), constraints=[inside], options={"ftol": 1e-14, "maxiter": 500}).fun
    assert lower - 1e-7 <= found <= upper + 1e-5


def test_least_squares_in_a_ball_without_information() -> None:
    assert ball_least_squares(np.zeros((2, 3)), np.array([1.0, 0.5]), np.ones(2), 1.0) == pytest.approx((1.25, 1.25))


def test_ridge_knows_the_least_loss_over_its_class() -> None:
    """Brute force: |θ_1|/2 + (√3/2)‖θ_2:‖ ≤ 2, by a general solver from several starts."""
    rng = np.random.default_rng(4)
    X = contexts(rng, 30, 3)
    y, alpha = labels(rng, X), rng.random(30)

    def loss(theta: Array) -> float:
        return float(alpha @ (X @ theta - y) ** 2)

    def room(theta: Array) -> float:
        return 2.0 - abs(theta[0]) / 2 - np.sqrt(0.75) * float(np.hypot(theta[1], theta[2]))

    starts = rng.standard_normal((6, 3)) * 0.5
    tries = [minimize(loss, s, constraints=[{"type": "ineq", "fun": room}], options={"ftol": 1e-13}) for s in starts]
    least = min(each.fun for each in tries if room(each.x) > -1e-8)
    for level in (0.0, 0.4, 1.0):
        lower, upper = Ridge(level, 3).best(X, y, alpha)
        assert lower == upper == pytest.approx(least, abs=1e-6)


def test_ridge_is_ridge_regression() -> None:
    rng = np.random.default_rng(6)
    X, oracle = contexts(rng, 50, 4), Ridge(0.3, 4, ridge=0.7)
    y, alpha = labels(rng, X), rng.random(50) * 3
    for x, label, weight in zip(X, y, alpha, strict=True):
        oracle.update(x, label, weight)
    start = np.array([0.6, 0, 0, 0])
    A = 0.7 * np.eye(4) + (X * alpha[:, None]).T @ X
    theta = np.linalg.solve(A, 0.7 * start + X.T @ (alpha * y))
    assert oracle.predict(X[0]) == pytest.approx(float(theta @ X[0]), abs=1e-12)
    assert oracle.log_det == pytest.approx(np.linalg.slogdet(A / 0.7)[1])
    before = oracle._state.theta.copy()
    with pytest.raises(ValueError, match="context: given"):
        oracle.update(2 * X[0], 1.0, 1.0)
    with pytest.raises(ValueError, match="context: given"):
        oracle.predict(X[0, :1])
    for bad in (np.nan, np.inf, -1.0):
        with pytest.raises(ValueError, match="weight: given"):
            oracle.update(X[0], 1.0, bad)
    np.testing.assert_array_equal(oracle._state.theta, before)


def test_a_theorem_for_any_oracles() -> None:
    z = [0, 0.25, 1]
    regrets = [1.0, 2.0, 0.5]
    assert float(bounds.oracle_psreg(z, 80, regrets, members=3)) == pytest.approx(
        80 * 0.75**2 / 4 + 3.5 + 6 * np.log(3)
    )
    with pytest.raises(ValueError, match="regrets: given 1"):
        bounds.oracle_psreg(z, 80, [1.0])


# river, scikit-learn.


def test_hoeffding_trees_of_river() -> None:
    river_tree = pytest.importorskip("river.tree")
    linear_model = pytest.importorskip("river.linear_model")
    neighbors = pytest.importorskip("river.neighbors")
    preprocessing = pytest.importorskip("river.preprocessing")
    rng = np.random.default_rng(0)
    records = [
        {"hour": float(h), "noise": float(n)} for h, n in zip(rng.integers(0, 24, 600), rng.random(600), strict=True)
    ]
    y = [float(rng.random() < (0.8 if 8 <= x["hour"] < 18 else 0.1)) for x in records]
    forecaster = OracleForecaster(
        lambda level: River(river_tree.HoeffdingTreeRegressor(grace_period=30, leaf_prediction="mean")),
        levels=6,
        beside=(),
    )
    forecasts = forecaster.run(records, y)
    assert np.mean((forecasts.mean[300:] - y[300:]) ** 2) < 0.2
    assert forecaster.certificate().psreg is None
    assert "does not compute" in str(forecaster.certificate())
    weighted = River(preprocessing.StandardScaler() | linear_model.LinearRegression())
    weighted.update(np.array([1.0, 2.0]), 1.0, 0.5)
    assert np.isfinite(weighted.predict(np.array([1.0, 2.0])))
    pipeline = preprocessing.StandardScaler() | neighbors.KNNRegressor()
    for model in (neighbors.KNNRegressor(), pipeline, linear_model.LogisticRegression(), 3):
        with pytest.raises(TypeError, match="model: given"):
            River(model)


def test_weights_reach_river() -> None:
    tree = pytest.importorskip("river.tree")
    oracle = River(tree.HoeffdingTreeRegressor(leaf_prediction="mean"))
    oracle.update({"a": 1.0}, 1.0, 3.0)
    oracle.update({"a": 1.0}, 0.0, 1.0)
    assert oracle.predict({"a": 1.0}) == pytest.approx(0.75)


def test_partial_fit_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    neighbors = pytest.importorskip("sklearn.neighbors")
    rng = np.random.default_rng(0)
    X = contexts(rng, 400, 3)
    y = labels(rng, X)
    forecaster = OracleForecaster(lambda v: PartialFit(linear_model.SGDRegressor(eta0=0.1), start=v), levels=6)
    forecasts = forecaster.run(X, y)
    assert np.mean((forecasts.mean - y) ** 2) < 0.25
    certificate = forecaster.certificate()
    assert certificate.linear is not None
    assert certificate.linear.holds()

    class Noting:
        def partial_fit(self, X: Any, y: Any, sample_weight: Any) -> None:
            self.seen = X, y.tolist(), sample_weight.tolist()

    noting = Noting()
    PartialFit(noting).update({"a": 1}, 1.0, 0.25)
    assert noting.seen == ([{"a": 1}], [1.0], [0.25])
    oracle = PartialFit(linear_model.SGDRegressor(), start=0.1)
    assert oracle.predict(X[0]) == 0.1
    for model in (neighbors.KNeighborsRegressor(), linear_model.LinearRegression()):
        with pytest.raises(TypeError, match="model: given"):
            PartialFit(model)


# Swap regret against regressors that are refitted.


def brute_force(p: Array, y: Array, X: Array, weight: Array) -> float:
    """Return Σ_v [Σ (v - y)² - min over affine functions of Σ (f(x) - y)²], weighted."""
    total = 0.0
    for v in np.unique(p):
        at = p == v
        root = np.sqrt(weight[at])
        design = np.column_stack([np.ones(at.sum()), X[at]]) * root[:, None]
        solution = np.linalg.lstsq(design, y[at] * root, rcond=None)[0]
        total += float(weight[at] @ (v - y[at]) ** 2 - np.sum((design @ solution - y[at] * root) ** 2))
    return total


def test_swap_regret_of_any_forecasts() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(1)
    X, p, weight = rng.standard_normal((200, 2)), rng.integers(0, 5, 200) / 4, rng.random(200)
    y = (rng.random(200) < 0.5).astype(float)
    fitter = linear_model.LinearRegression()
    found = swap_regret(p, y, X, fitter, weight=weight)
    assert found.total == pytest.approx(brute_force(p, y, X, weight), abs=1e-9)
    assert found.mass.sum() == pytest.approx(weight.sum())
    assert not hasattr(fitter, "coef_")
    assert swap_regret(p, y, X, linear_model.LinearRegression, weight=weight).total == found.total
    assert swap_regret(p, y, X.tolist(), fitter, weight=weight).total == pytest.approx(found.total)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    assert swap_regret(p, y, frame, fitter, weight=weight).total == pytest.approx(found.total)
    assert "LinearRegression, fitted in hindsight" in str(found)


def test_swap_regret_in_cells_through_a_pipeline_and_of_a_forecast() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    pipeline = pytest.importorskip("sklearn.pipeline")
    vectors = pytest.importorskip("sklearn.feature_extraction")
    neighbors = pytest.importorskip("sklearn.neighbors")
    rng = np.random.default_rng(2)
    X, p = contexts(rng, 300, 3), np.append(rng.random(299), 1.0)
    y = labels(rng, X)
    found = swap_regret(p, y, X, linear_model.LinearRegression(), levels=4)
    literal = 0.0
    for k in range(4):
        at = (p >= k / 4) & (p < (k + 1) / 4 + (k == 3))
        fit = linear_model.LinearRegression().fit(X[at], y[at]).predict(X[at])
        literal += float(np.sum((p[at] - y[at]) ** 2 - (fit - y[at]) ** 2))
    assert found.total == pytest.approx(literal, abs=1e-9)
    assert found.levels.tolist() == [0.0, 0.25, 0.5, 0.75]
    with pytest.raises(ValueError, match="forecasts: given 300 different ones"):
        swap_regret(p, y, X, linear_model.LinearRegression())
    with pytest.raises(TypeError, match="fitter: given KNeighborsRegressor"):
        swap_regret(p, y, X, neighbors.KNeighborsRegressor(), levels=4)
    with pytest.raises(ValueError, match="weight: given shape"):
        swap_regret(p, y, X, linear_model.LinearRegression(), levels=4, weight=[1.0])
    forecast = Forecaster(3, levels=5).run(X, y)
    records = [{"a": x[1], "b": x[2]} for x in X.tolist()]
    steps = pipeline.make_pipeline(vectors.DictVectorizer(sparse=False), linear_model.LinearRegression())
    through = swap_regret(forecast, y, records, steps)
    assert through.total == pytest.approx(brute_force(forecast.p, y, X[:, 1:], np.ones(300)), abs=1e-9)


@pytest.mark.parametrize("mixing", ["hedge", "blum-mansour"])
def test_against_a_regressor_is_the_pseudo_swap_regret_of_what_was_logged(mixing: str) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    X = contexts(rng, 150, 3)
    y, weight = labels(rng, X), rng.random(150)
    forecaster = OracleForecaster(lambda v: Ridge(v, 3), levels=4, mixing=mixing, beside=())
    forecaster.run(X, y, weight)
    plays = [
        (row.x, row.y, row.weight * alpha, forecaster._state.z[int(slot)])
        for row in forecaster._log or []
        for slot, alpha, *_ in row.played
    ]
    xs, ys, alphas, levels = (np.array(each) for each in zip(*plays, strict=True))
    at = alphas > 0
    found = forecaster.certificate().against(linear_model.LinearRegression())
    assert found.total == pytest.approx(brute_force(levels[at], ys[at], xs[at][:, 1:], alphas[at]), abs=1e-8)
    assert forecaster.certificate().psreg[1] <= found.total + 1e-9  # type: ignore[index]  # affine functions without a bound


def test_without_a_log_nothing_is_compared() -> None:
    forecaster = OracleForecaster(lambda v: Ridge(v, 3), levels=4, log=False)
    rng = np.random.default_rng(3)
    X = contexts(rng, 50, 3)
    forecaster.run(X, labels(rng, X))
    certificate = forecaster.certificate()
    assert certificate.psreg is None
    assert certificate.theorem is not None
    assert certificate.bound is not None
    assert certificate.linear.psreg <= certificate.bound + 1e-9  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="log=False"):
        certificate.against(None)


# Saved states.


def kernel(level: float) -> Fourier:
    return Fourier(level, 3, features=5)


def rules_of(level: float) -> FiniteClass:
    return FiniteClass([lambda x: 0.2, lambda x: 0.7 if x["a"] > 0 else 0.3])


STATES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "kernel": (kernel, {"levels": 5}, True),
    "kernel alone": (kernel, {"levels": 5, "beside": ()}, True),
    "two oracles": (kernel, {"levels": 5, "beside": (lambda v: Ridge(v, 3), "ridge")}, True),
    "chain": (kernel, {"levels": 5, "mixing": "blum-mansour"}, True),
    "refining": (kernel, {"levels": "adaptive"}, True),
    "records": (rules_of, {"levels": "sine:4", "beside": ()}, False),
    "no log": (rules_of, {"levels": 4, "beside": (), "log": False}, False),
}


@pytest.mark.parametrize("name", STATES)
def test_a_saved_forecaster_continues_bit_for_bit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapcal.engine.oracle.KAPPA", 0.0005)
    make, options, arrays = STATES[name]
    rng = np.random.default_rng(0)
    X = contexts(rng, 200, 3)
    y, rows = labels(rng, X), X if arrays else [{"a": x[1]} for x in X.tolist()]
    forecaster = OracleForecaster(make, **options)
    forecaster.run(rows[:100], y[:100], weight=np.resize([1.0, 0.5], 100))
    open_ = forecaster.predict(rows[100])
    forecaster.save(tmp_path / "state")
    loaded = OracleForecaster.load(tmp_path / "state", make, beside=options.get("beside", ("ridge",)))
    loaded.update(pickle.loads(pickle.dumps(open_)), 0)
    forecaster.update(open_, 0)
    assert loaded._history == forecaster._history
    open_ = loaded.predict(rows[0])
    ours, theirs = forecaster.run(rows[100:], y[100:]), loaded.run(rows[100:], y[100:])
    for field in ("p", "mean", "low", "high", "weight"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))
    loaded.update(open_, 1)
    assert loaded.certificate().late == 1
    forecaster.save(tmp_path / "one")
    again = OracleForecaster.load(tmp_path / "one", make, beside=options.get("beside", ("ridge",)))
    ours, theirs = (each.certificate().as_dict() for each in (again, forecaster))
    assert ours.keys() == theirs.keys()
    for field in ("rounding", "excess", "combining", "levels", "mass", "rounds", "late", "weight", "members"):
        np.testing.assert_allclose(ours[field], theirs[field], rtol=1e-9, atol=1e-9, err_msg=field)
    assert (ours["theorem"] is None) == (theirs["theorem"] is None) == (name == "refining")
    if name == "refining":
        assert len(loaded.levels) > 25


def test_a_forecaster_without_labels_can_be_saved(tmp_path: Path) -> None:
    OracleForecaster(kernel).save(tmp_path / "state")
    loaded = OracleForecaster.load(tmp_path / "state", kernel)
    loaded.run([np.array([0.5, 0.1, 0.1])], [1])
    assert loaded.rounds == 1


def test_what_cannot_be_saved_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    class Plain:
        def predict(self, x: Any) -> float:
            return 0.5

        def update(self, x: Any, y: float, weight: float) -> None:
            pass

    class Named(Plain):
        def to_state(self) -> State:
            return State({"a.b": np.zeros(1)}, {})

        def restore(self, state: State) -> None:
            pass

    path = tmp_path / "state"
    with pytest.raises(TypeError, match="save: given Plain without to_state and restore"):
        OracleForecaster(lambda v: Plain()).save(path)
    with pytest.raises(ValueError, match=r"to_state: given an array called 'a.b'"):
        OracleForecaster(lambda v: Named()).save(path)
    for row in (object(), (1.0, 2.0), {1: 2.0}, {"a": [(1,)]}, np.array([1, 2])):
        forecaster = OracleForecaster(lambda v: FiniteClass([lambda x: 0.5]), beside=())
        forecaster.run([row], [1])
        with pytest.raises(TypeError, match="save: given rows"):
            forecaster.save(path)
    assert not path.exists()


def test_rows_of_plain_values_are_saved_as_they_are(tmp_path: Path) -> None:
    rows = [{"a": [1, True, None, "x"], "b": float("nan")}, "text", 2.5, [], {"deep": {"er": [0.1]}}]
    forecaster = OracleForecaster(lambda v: FiniteClass([lambda x: 0.5]), beside=())
    forecaster.run(rows, [1, 0, 1, 0, 1])
    forecaster.save(tmp_path / "state")
    loaded = OracleForecaster.load(tmp_path / "state", lambda v: FiniteClass([lambda x: 0.5]), beside=())
    assert repr(loaded._log) == repr(forecaster._log)


def test_states_of_other_forecasters_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    forecaster = OracleForecaster(lambda v: Ridge(v, 3), levels=4)
    forecaster.run([np.array([0.5, 0.1, 0.1])], [1])
    forecaster.save(path)
    refused: list[tuple[Any, dict[str, Any]]] = [
        (lambda v: Ridge(v, 3), {"beside": ()}),
        (lambda v: Ridge(v, 3), {"beside": ("ridge", kernel)}),
        (lambda v: Ridge(v, 3, ridge=2.0), {}),
        (lambda v: Ridge(v, 40), {}),
        (kernel, {}),
        (rules_of, {}),
        (lambda v: 3, {}),
    ]
    for make, options in refused:
        with pytest.raises(ArchiveError):
            OracleForecaster.load(path, make, **options)
    with pytest.raises(ArchiveError, match="kind"):
        Forecaster.load(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ArchiveError):
        OracleForecaster.load(path, lambda v: Ridge(v, 3))


def test_a_restored_learner_keeps_the_level_it_started_from() -> None:
    """The oracle of a new level is a copy of its neighbour's, which started elsewhere."""
    rng = np.random.default_rng(0)
    saved, restored = Ridge(0.25, 3), Ridge(0.75, 3)
    for x in contexts(rng, 20, 3):
        saved.update(x, 1.0, 0.5)
    restored.restore(saved.to_state())
    assert (restored.level, restored.regret(10.0), restored.log_det) == (0.25, saved.regret(10.0), saved.log_det)
    assert restored.predict(x) == saved.predict(x)
    saved.update(x, 0.0, 1.0)
    assert restored.predict(x) != saved.predict(x)


def test_oracles_refuse_states_that_are_not_theirs() -> None:
    with pytest.raises(ArchiveError, match="oracle: given 3 functions"):
        rules_of(0.5).restore(State({"losses": np.zeros(3)}, {}))
    with pytest.raises(ArchiveError, match="oracle: given no losses"):
        rules_of(0.5).restore(State({}, {}))
    with pytest.raises(ArchiveError, match="frequencies"):
        kernel(0.5).restore(Fourier(0.5, 3, features=5, seed=1).to_state())
    broken = Ridge(0.5, 3).to_state()
    broken.arrays["theta"] = np.full_like(broken.arrays["theta"], np.nan)
    with pytest.raises(ArchiveError, match="theta"):
        Ridge(0.5, 3).restore(broken)


def test_swap_regret_refuses_rows_that_do_not_fit():
    regression = pytest.importorskip("sklearn.linear_model").LinearRegression()
    with pytest.raises(ValueError, match="X: given 6 rows, expected 4"):
        swap_regret([0.5] * 4, [0, 1, 0, 1], np.arange(6.0)[:, None], regression)
    with pytest.raises(ValueError, match="levels: given 0"):
        swap_regret([0.5] * 4, [0, 1, 0, 1], np.arange(4.0)[:, None], regression, levels=0)
