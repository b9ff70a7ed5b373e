"""Shapes of data: several classes, ranges, sparse and wide, one row, missing values, thousands of categories."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")

from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: E402

from swapcal import SwapClassifier, SwapRegressor  # noqa: E402
from swapcal.batch import standalone  # noqa: E402

FAST: dict[str, Any] = {"correction": "linear", "snapshots": 8, "random_state": 0}


def three_classes(rows: int = 3000, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return X, whose last column is a group, labels, and the true probabilities, in which the group matters."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(rows, 2)), rng.integers(0, 2, rows)])
    logits = np.column_stack([X[:, 0], X[:, 1], 1.5 * X[:, 2]])
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return X, np.array(["a", "b", "c"])[(truth.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)], truth


@pytest.fixture(scope="module")
def several() -> Any:
    X, y, _ = three_classes(seed=5)
    return SwapClassifier(groups=[2], **FAST).fit(X, y)


def test_every_class_is_calibrated_in_every_group(several: Any) -> None:
    X, y, truth = three_classes(12_000, seed=1)
    p, each = several.predict_proba(X), several.class_probabilities(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean((p - truth) ** 2) < 0.003
    for group in (0, 1):
        inside = X[:, 2] == group
        for k, name in enumerate(several.classes_):
            for found in (p, each):
                assert abs(found[inside, k].mean() - np.mean(y[inside] == name)) < 0.03
    assert np.mean(several.predict(X) == y) > 0.5
    assert [certificate.holds() for certificate in several.certificates_] == [True] * 3


def test_several_classes_share_one_estimator_and_go_on(several: Any, tmp_path: Path) -> None:
    X, y, truth = three_classes()
    base = FrozenEstimator(LogisticRegression().fit(X[:500], y[:500]))
    model = SwapClassifier(base, groups=[2], **FAST).fit(X[500:2000], y[500:2000])
    model.partial_fit(X[2000:], y[2000:])
    assert [certificate.rounds for certificate in model.certificates_] == [2500] * 3
    assert np.mean((model.predict_proba(X) - truth) ** 2) < 0.01
    model.export(tmp_path / "model.npz")
    found = standalone.predict(standalone.load(tmp_path / "model.npz"), X[:400], base.predict_proba(X[:400]))
    np.testing.assert_allclose(found, model.predict_proba(X[:400]), rtol=0, atol=1e-12)
    several.export(tmp_path / "model.npz")
    found = standalone.predict(standalone.load(tmp_path / "model.npz"), X[:400])
    np.testing.assert_allclose(found, several.predict_proba(X[:400]), rtol=0, atol=1e-12)


def test_a_graph_of_several_classes(several: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, _, _ = three_classes(300, seed=2)
    several.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"X": X})[0], several.predict_proba(X), rtol=0, atol=1e-6)


def test_what_two_classes_have_only(several: Any) -> None:
    X, y, _ = three_classes(200)
    with pytest.raises(ValueError, match="decide: given a model of 3 classes"):
        several.decide(X, "squared")
    with pytest.raises(AttributeError, match="models_ has one for each"):
        _ = several.certificate_
    with pytest.raises(ValueError, match="given some classes only among rows of positive weight"):
        SwapClassifier().fit(X, y, sample_weight=(y != "a").astype(float))
    drawn = SwapClassifier(mode="hash", **FAST).fit(X, y)
    assert np.array_equal(drawn.predict_proba(X[::-1])[::-1], drawn.predict_proba(X))


def numbers(rows: int = 3000, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=rows), rng.integers(0, 3, rows)])
    mean = 20 + 10 * np.tanh(X[:, 0]) + 6 * (X[:, 1] == 1)
    return X, np.clip(mean + 4 * rng.normal(size=rows), 0, 50), mean


def test_means_are_calibrated_in_every_group_and_stay_in_the_range(tmp_path: Path) -> None:
    X, y, _ = numbers()
    model = SwapRegressor(low=0, high=50, groups=[1], **FAST).fit(X, y)
    assert model.certificate_.holds()
    fresh, outcome, mean = numbers(12_000, seed=1)
    p = model.predict(fresh)
    assert np.mean((p - mean) ** 2) < 0.02 * np.var(outcome)
    for group in range(3):
        inside = fresh[:, 1] == group
        assert abs(p[inside].mean() - outcome[inside].mean()) < 0.6
    assert p.min() > 0
    assert p.max() < 50
    model.export(tmp_path / "model.npz")
    found = standalone.predict(standalone.load(tmp_path / "model.npz"), fresh[:300])
    np.testing.assert_allclose(found, p[:300], rtol=0, atol=50e-12)
    model.mode = "hash"
    drawn = model.predict(fresh)
    assert len(np.unique(drawn)) < 64
    assert abs(drawn.mean() - p.mean()) < 0.3


def test_the_unit_of_an_outcome_does_not_matter() -> None:
    X, y, _ = numbers(800)
    one, other = (SwapRegressor(**FAST).fit(X, unit * y + 7).predict(X) for unit in (1.0, 1e6))
    np.testing.assert_allclose((other - 7) / 1e6, one - 7, rtol=1e-6)


def test_a_regressor_of_the_users_is_corrected() -> None:
    X, y, mean = numbers()
    base = FrozenEstimator(LinearRegression().fit(X[:500], y[:500]))
    model = SwapRegressor(base, low=0, high=50, groups=[1], **FAST).fit(X[500:2000], y[500:2000])
    model.partial_fit(X[2000:], y[2000:])
    assert np.mean((model.predict(X) - mean) ** 2) < 0.3 * np.mean((base.predict(X) - mean) ** 2)
    crossed = SwapRegressor(LinearRegression(), low=0, high=50, **FAST).fit(X, y, sample_weight=np.ones(3000))
    assert crossed.certificate_.holds()


def test_ranges_are_checked() -> None:
    X, y, _ = numbers(100)
    with pytest.raises(ValueError, match=r"y: given .* in row \d+, expected a number from 0.0 to 10.0"):
        SwapRegressor(low=0, high=10).fit(X, y)
    with pytest.raises(
        ValueError, match=r"range: given 5.0 to 5.0, expected two finite numbers in increasing order; give"
    ):
        SwapRegressor().fit(X, np.full(100, 5.0))
    model = SwapRegressor(**FAST).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="in row 1, expected a number from"):
        model.partial_fit(X[:1], [1e9])
    assert np.array_equal(model.predict(X), before)


def test_a_range_too_wide_for_a_number_is_refused() -> None:
    X, y = np.zeros((10, 1)), np.linspace(-1.0, 1.0, 10) * 1.7e308
    with pytest.raises(
        ValueError, match=r"range: given -1.7e\+308 to 1.7e\+308, expected two numbers whose difference"
    ):
        SwapRegressor(**FAST).fit(X, y)


@pytest.mark.parametrize("kind", [SwapClassifier, SwapRegressor])
def test_frames_of_nothing_are_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="X: given a frame of 0 rows and 1 columns, expected at least 2 rows and 1"):
        kind(**FAST).fit(pd.DataFrame({"a": []}), [])
    with pytest.raises(ValueError, match="X: given a frame of 10 rows and 0 columns, expected at least 2 rows and 1"):
        kind(**FAST).fit(pd.DataFrame(index=range(10)), np.arange(10) % 2)


@pytest.mark.parametrize("jobs", ["x", 1.5, 0, True])
def test_jobs_are_counted(jobs: Any) -> None:
    with pytest.raises(ValueError, match=f"n_jobs: given {jobs!r}, expected None or an integer other than 0"):
        SwapClassifier(n_jobs=jobs, **FAST).fit(np.zeros((10, 1)), np.arange(10) % 2)


def test_truth_values_of_one_row_take_the_short_way() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "open": rng.random(400) < 0.5})
    model = SwapClassifier(groups=["open"], **FAST).fit(frame, rng.random(400) < 0.2 + 0.6 * frame["open"])
    for row in range(4):
        assert model._one_row(frame.iloc[[row]]) is not None
        one = model.predict_proba(frame.iloc[[row]])
        np.testing.assert_array_equal(one[0], model.predict_proba(frame)[row])


def test_dates_of_one_row_take_the_short_way() -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    rng, rows = np.random.default_rng(0), 420
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 6, rows), unit="D")
    frame = pd.DataFrame({"x": rng.normal(size=rows), "day": days, "hour": days + pd.Timedelta("90min")})
    frame["utc"] = frame["hour"].dt.tz_localize("Europe/Rome")
    frame["rush"] = rng.choice(["(missing)", "no"], rows)
    frame.loc[::5, ["day", "rush"]] = None
    chance = 0.2 + 0.3 * frame["day"].isna() + 0.3 * (frame["rush"] == "(missing)")
    model = SwapClassifier(groups=["day", "rush"], **FAST).fit(frame, rng.random(rows) < chance)
    whole = model.predict_proba(frame)
    for row in range(12):
        one = frame.iloc[[row]]
        for kind in (one, pl.from_pandas(one), pa.Table.from_pandas(one, preserve_index=False)):
            assert model._one_row(kind) is not None
            np.testing.assert_array_equal(model.predict_proba(kind), whole[row : row + 1])


def test_wide_sparse_input_stays_sparse() -> None:
    rng = np.random.default_rng(0)
    words = scipy.sparse.random_array((400, 4000), density=0.01, format="csr", rng=rng)
    telling = scipy.sparse.csr_array((rng.random((400, 3)) < 0.5).astype(float))
    X = scipy.sparse.hstack([words, telling], format="csr")
    y = (rng.random(400) < 0.2 + 0.6 * telling.toarray()[:, 0]).astype(int)
    model = SwapClassifier(groups=[4002], **FAST).fit(X, y)
    p = model.predict_proba(X)[:, 1]
    assert p[y == 1].mean() > p[y == 0].mean() + 0.2
    assert len(model.model_.features.numbers) == 127  # of the 128 fullest columns one is the group
    assert np.array_equal(model.predict_proba(X.tocsc()[:50])[:, 1], p[:50])
    around = SwapClassifier(_SeesSparse(), groups=[4002], cv=2, **FAST).fit(X, y)
    assert around.predict_proba(X).shape == (400, 2)


class _SeesSparse(LogisticRegression):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "_SeesSparse":
        assert scipy.sparse.issparse(X)
        super().fit(X, y, sample_weight)
        return self


@pytest.fixture(scope="module")
def mixed() -> Any:
    """A frame with holes and a column of thousands of texts, which matter."""
    rng = np.random.default_rng(0)
    rows = 3000
    effect = dict(zip((f"v{i}" for i in range(2000)), rng.normal(size=2000), strict=True))
    X = pd.DataFrame({"x": rng.normal(size=rows), "i": rng.integers(0, 9, rows), "k": rng.integers(0, 3, rows)})
    X["shop"] = np.where(rng.random(rows) < 0.1, None, rng.choice(list("abc"), rows))
    X["many"] = rng.choice(list(effect), rows, p=np.arange(2000, 0, -1) / np.arange(2001).sum())
    X.loc[::7, "x"] = np.nan
    truth = 1 / (1 + np.exp(-X["x"].fillna(0) - 1.5 * (X["shop"] == "b") - X["many"].map(effect)))
    return X, (rng.random(rows) < truth).astype(int)


def test_a_frame_of_one_row_is_read_as_many_are(mixed: Any) -> None:
    X, y = mixed
    model = SwapClassifier(groups=["shop", "k"], **FAST).fit(X, y)
    whole = model.predict_proba(X)
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    for row in (0, 1, 5, 7, 13, 2999):
        one = X.iloc[row : row + 1]
        assert model._one_row(one) is not None
        assert np.array_equal(model.predict_proba(one), whole[row : row + 1])
        assert np.array_equal(model.predict_proba(pl.DataFrame(one.to_dict("list"))), whole[row : row + 1])
        assert np.array_equal(model.predict_proba(pa.Table.from_pandas(one)), whole[row : row + 1])
    strange = one.assign(shop="never seen", many=None)
    assert np.array_equal(model.predict_proba(strange), model.predict_proba(pd.concat([strange] * 70))[:1])
    assert model._one_row(one[["i", "x", "k", "shop", "many"]]) is None
    with pytest.raises(ValueError, match="given inf in row 1"):
        model.predict_proba(one.assign(x=np.inf))
    with pytest.raises(ValueError, match="order"):
        model.predict_proba(one[["i", "x", "k", "shop", "many"]])


@pytest.mark.parametrize("mode", ["mean", "hash"])
def test_threads_change_nothing(mode: str, mixed: Any) -> None:
    X, y = mixed
    model = SwapClassifier(groups=["shop"], mode=mode, **FAST).fit(X, y)
    large = pd.concat([X] * 3, ignore_index=True)
    alone = model.predict_proba(large)
    model.set_params(n_jobs=3)
    assert np.array_equal(model.predict_proba(large), alone)


def test_weights_count_in_every_class() -> None:
    X, y, _ = three_classes(2000)
    weight = np.where(y == "a", 4.0, 1.0)
    p = SwapClassifier(**FAST).fit(X, y, weight).predict_proba(X)
    for k, name in enumerate("abc"):
        assert abs(np.average(p[:, k], weights=weight) - np.average(y == name, weights=weight)) < 0.03


def test_thousands_of_texts_say_what_they_know() -> None:
    """Most of 600 texts have no code of their own; what their rows showed is not lost."""
    rng = np.random.default_rng(0)
    effect, seen = rng.normal(size=600), rng.integers(0, 600, 9000)
    X = pd.DataFrame({"x": rng.normal(size=9000), "many": [f"v{i}" for i in seen]})
    truth = 1 / (1 + np.exp(-X["x"] - effect[seen])).to_numpy()
    y = (rng.random(9000) < truth).astype(int)
    model = SwapClassifier(**FAST).fit(X[:6000], y[:6000])
    p = model.predict_proba(X[6000:])[:, 1]
    without = SwapClassifier(contexts=["x"], **FAST).fit(X[:6000], y[:6000]).predict_proba(X[6000:])[:, 1]
    assert np.mean((p - truth[6000:]) ** 2) < 0.6 * np.mean((without - truth[6000:]) ** 2)
    assert model.certificate_.holds()


def test_each_class_has_its_own_worth_of_texts() -> None:
    rng = np.random.default_rng(2)
    effect, seen = 2.0 * rng.normal(size=(150, 3)), rng.integers(0, 150, 4000)
    odds = np.exp(effect[seen])
    truth = odds / odds.sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    X = pd.DataFrame({"x": rng.normal(size=4000), "many": [f"v{i}" for i in seen]})
    model = SwapClassifier(**FAST).fit(X[:3000], y[:3000])
    p = model.predict_proba(X[3000:])
    assert np.mean(p.argmax(axis=1) == truth[3000:].argmax(axis=1)) > 0.8
    assert np.allclose(np.vstack([model.predict_proba(X[k : k + 1]) for k in range(3000, 3005)]), p[:5])


def test_texts_that_mean_nothing_are_not_believed() -> None:
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.normal(size=6000), "name": [f"v{i}" for i in rng.integers(0, 600, 6000)]})
    truth = (1 / (1 + np.exp(-X["x"]))).to_numpy()
    y = (rng.random(6000) < truth).astype(int)
    errors = [
        np.mean((SwapClassifier(contexts=columns, **FAST).fit(X, y).predict_proba(X)[:, 1] - truth) ** 2)
        for columns in (["x", "name"], ["x"])
    ]
    assert errors[0] < errors[1] + 5e-4


@pytest.mark.parametrize("count", [2, 3])
def test_an_estimator_that_lists_its_classes_in_another_order_is_read_by_name(count):
    class Backwards(LogisticRegression):
        def fit(self, X, y):
            super().fit(X, y)
            self.classes_ = self.classes_[::-1]
            return self

        def predict_proba(self, X):
            return super().predict_proba(X)[:, ::-1]

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=300), [0.0, 1.0][: count - 1])
    forwards, backwards = (
        SwapClassifier(FrozenEstimator(kind().fit(X, y)), random_state=0).fit(X, y).predict_proba(X)
        for kind in (LogisticRegression, Backwards)
    )
    np.testing.assert_allclose(backwards, forwards, rtol=0, atol=1e-12)
