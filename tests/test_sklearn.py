import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator, clone  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.multiclass import OneVsRestClassifier  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from swapcal import SwapClassifier, SwapRegressor  # noqa: E402
from swapcal.batch import settings as settings_module  # noqa: E402
from swapcal.batch.model import Model  # noqa: E402

EXPLAINED = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "an online pass over a row of weight 2 differs from meeting it twice; only the weighted sums agree"
    )
    for kind in ("dense", "sparse")
}


def run_check(estimator: Any, check: Any) -> None:
    check(estimator)


test_scikit_learn_checks = parametrize_with_checks(
    [SwapClassifier(), SwapClassifier(mode="hash"), SwapRegressor(snapshots=8)],
    expected_failed_checks=lambda estimator: EXPLAINED,
)(run_check)


@pytest.fixture(scope="module")
def frame() -> Any:
    rng = np.random.default_rng(0)
    n = 3000
    X = pd.DataFrame({"x": rng.normal(size=n), "u": rng.normal(size=n), "shop": rng.choice(list("abc"), n)})
    truth = 1 / (1 + np.exp(-X["x"] - 1.5 * (X["shop"] == "b")))
    return X, np.where(rng.random(n) < truth, "yes", "no"), truth.to_numpy()


@pytest.fixture(scope="module")
def fitted(frame: Any) -> SwapClassifier:
    X, y, _ = frame
    return SwapClassifier(groups=["shop"], snapshots=16, random_state=0).fit(X, y)


def test_it_learns_groups_and_features(frame: Any, fitted: SwapClassifier) -> None:
    X, _, truth = frame
    p = fitted.predict_proba(X)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert np.mean((p[:, 1] - truth) ** 2) < 0.003
    assert fitted.certificate_.holds()
    assert fitted.feature_names_in_.tolist() == ["x", "u", "shop"]


def test_every_frame_library_gives_the_same(frame: Any, fitted: SwapClassifier) -> None:
    pl = pytest.importorskip("polars")
    X = frame[0].head(50)
    assert np.array_equal(fitted.predict_proba(X), fitted.predict_proba(pl.DataFrame(X.to_dict("list"))))


def test_few_rows_are_read_as_many_are() -> None:
    rng = np.random.default_rng(0)
    kinds: dict[str, Any] = {"f": rng.normal(size=900), "i": rng.integers(0, 9, 900), "b": rng.random(900) < 0.5}
    kinds["s"] = np.where(rng.random(900) < 0.1, None, rng.choice(list("uvw"), 900))
    kinds["c"] = pd.Categorical(rng.choice(list("xyz"), 900))
    X = pd.DataFrame(kinds)
    X.loc[::7, "f"] = np.nan
    for columns in (list(X), ["f", "i", "s", "c"]):
        model = SwapClassifier(groups=["s", "c"], mode="hash").fit(X[columns], rng.random(900) < 0.5)
        whole = model.predict_proba(X[columns])
        for start in (0, 13, 500):
            assert np.array_equal(model.predict_proba(X[columns].iloc[start : start + 5]), whole[start : start + 5])


def test_clone_and_pickle(frame: Any, fitted: SwapClassifier) -> None:
    X, y, _ = frame
    again = pickle.loads(pickle.dumps(fitted))
    refit = clone(fitted).fit(X, y)
    for other in (again, refit):
        assert np.array_equal(other.predict_proba(X), fitted.predict_proba(X))


def test_modes_draw_from_the_same_mixture(frame: Any, fitted: SwapClassifier) -> None:
    X, _, _ = frame
    mean = fitted.predict_proba(X)[:, 1]
    drawn = {}
    for mode in ("hash", "sample"):
        fitted.mode = mode
        drawn[mode] = fitted.predict_proba(X)[:, 1]
    shuffled = X.sample(frac=1, random_state=1)
    fitted.mode = "hash"
    assert np.array_equal(fitted.predict_proba(shuffled)[:, 1], drawn["hash"][shuffled.index])
    fitted.mode = "mean"
    for p in drawn.values():
        assert abs(p.mean() - mean.mean()) < 0.01
        assert len(np.unique(p)) < 64
    assert (drawn["hash"] != drawn["sample"]).any()


def test_decide_acts_on_levels_or_the_mean(frame: Any, fitted: SwapClassifier) -> None:
    X = frame[0]
    p = fitted.predict_proba(X)[:, 1]
    assert np.array_equal(fitted.decide(X, "newsvendor:under=3,over=1").action, (p >= 0.25).astype(float))
    fitted.mode = "hash"
    decision = fitted.decide(X, "squared")
    assert np.array_equal(decision.action, fitted.predict_proba(X)[:, 1])
    assert (decision.before_draw != decision.expected_cost).any()
    fitted.mode = "mean"


def test_cross_fitting_protects_from_a_model_that_memorises(frame: Any) -> None:
    X, y, truth = frame
    X = X[["x", "u"]].to_numpy()
    memory = KNeighborsClassifier(1)
    honest = SwapClassifier(memory, cv=3, random_state=0).fit(X, y)
    fooled = SwapClassifier(memory.fit(X, y), cv="prefit", random_state=0).fit(X, y)
    fresh = np.random.default_rng(1).normal(size=(3000, 2))
    centre = np.mean(truth)
    spread = [np.mean((model.predict_proba(fresh)[:, 1] - centre) ** 2) for model in (honest, fooled)]
    assert spread[0] < 0.12 < 0.18 < spread[1]


def test_frozen_estimators_are_not_refitted(frame: Any) -> None:
    X, y, truth = frame
    numbers = X[["x", "u"]].to_numpy()
    base = LogisticRegression().fit(numbers[:500], y[:500])
    codes = np.column_stack([numbers, pd.factorize(X["shop"])[0]])
    model = SwapClassifier(FrozenEstimator(_First2(base)), groups=[2], random_state=0).fit(codes[500:], y[500:])
    before, after = (np.mean((p[:, 1] - truth) ** 2) for p in (base.predict_proba(numbers), model.predict_proba(codes)))
    assert after < 0.3 * before


class _First2(BaseEstimator):  # type: ignore[misc]
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.classes_ = inner.classes_

    def fit(self, X: Any, y: Any) -> "_First2":
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.inner.predict_proba(X[:, :2])


def test_partial_fit_goes_on(frame: Any) -> None:
    X, y, truth = frame
    model = SwapClassifier(groups=["shop"], random_state=0)
    for part in (slice(0, 1000), slice(1000, 2000), slice(2000, 3000)):
        model.partial_fit(X.iloc[part], y[part])
    assert model.certificate_.rounds == 3000
    assert model.certificate_.holds()
    assert np.mean((model.predict_proba(X)[:, 1] - truth) ** 2) < 0.01
    with pytest.raises(ValueError, match="given class 'maybe'"):
        model.partial_fit(X[:2], ["maybe", "no"])


def test_weights_change_the_base_rate(frame: Any) -> None:
    X, y, _ = frame
    weight = np.where(y == "yes", 3.0, 1.0)
    p = SwapClassifier(random_state=0).fit(X, y, weight).predict_proba(X)[:, 1]
    assert abs(np.average(p, weights=weight) - np.average(y == "yes", weights=weight)) < 0.02
    with pytest.raises(ValueError, match="expected none negative"):
        SwapClassifier().fit(X, y, -weight)
    zeroed = np.where(X["shop"] == "a", 0.0, 1.0)
    kept = zeroed > 0
    a = SwapClassifier(random_state=0).fit(X, y, zeroed).predict_proba(X)
    b = SwapClassifier(random_state=0).fit(X[kept], y[kept]).predict_proba(X)
    assert np.array_equal(a, b)


def test_refusals(frame: Any) -> None:
    X, y, _ = frame
    with pytest.raises(ValueError, match="no column 'shap'; did you mean 'shop'"):
        SwapClassifier(groups=["shap"]).fit(X, y)
    with pytest.raises(TypeError, match="given LinearSVC without predict_proba"):
        SwapClassifier(LinearSVC()).fit(X[["x", "u"]], y)
    with pytest.raises(ValueError, match="the number the theorem needs"):
        SwapClassifier(target="omniprediction", epsilon=0.05, correction="none").fit(X, y)
    with pytest.raises(ValueError, match="mode: given 'median'"):
        SwapClassifier(mode="median").fit(X, y)
    with pytest.raises(ValueError, match="no row of class 'maybe' in the first call"):
        SwapClassifier().partial_fit(X, y, classes=["maybe", "no", "yes"])
    with pytest.raises(NotFittedError):
        SwapClassifier(LogisticRegression(), cv="prefit").fit(X[["x"]], y)
    with pytest.raises(NotFittedError):
        SwapClassifier().predict(X)


def test_one_vs_rest_serves_many_classes(frame: Any) -> None:
    X, _, _ = frame
    model = OneVsRestClassifier(SwapClassifier(random_state=0)).fit(X[["x", "u"]].to_numpy(), X["shop"])
    assert np.allclose(model.predict_proba(X[["x", "u"]].to_numpy()[:5]).sum(axis=1), 1)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_matrix", "csr_array", "csc_array", "coo_array"])
def test_sparse_input_gives_what_the_dense_one_gives(kind: str) -> None:
    rng = np.random.default_rng(3)
    X = np.where(rng.random((300, 4)) < 0.7, 0.0, rng.normal(size=(300, 4)))
    y = (rng.random(300) < 0.3 + 0.4 * (X[:, 0] > 0)).astype(int)
    thin = getattr(scipy.sparse, kind)(X)
    settings: dict[str, Any] = {"groups": [1], "snapshots": 2, "random_state": 0}
    dense, sparse = SwapClassifier(**settings).fit(X, y), SwapClassifier(**settings).fit(thin, y)
    np.testing.assert_array_equal(sparse.predict_proba(thin), dense.predict_proba(X))
    np.testing.assert_array_equal(sparse.predict(thin), dense.predict(X))


def test_what_auto_meant_is_in_the_repr_and_in_the_file(monkeypatch, tmp_path):
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    y = (rng.random(600) < X[:, 0]).astype(int)
    for present, used in ((True, "trees"), (False, "linear")):
        monkeypatch.setattr(settings_module, "installed", lambda present=present: present)
        fitted = SwapClassifier().fit(X, y)
        assert fitted.correction_ == used
        assert repr(fitted).endswith(f"fitted with correction '{used}'")
        fitted.model_.save(tmp_path / "model")
        assert Model.load(tmp_path / "model").settings.correction == used
    assert repr(SwapClassifier()) == "SwapClassifier()"
