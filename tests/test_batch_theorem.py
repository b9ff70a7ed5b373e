"""Which predictor the batch theorems cover: all rounds, contexts without labels, and the bound of the fit itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
pd = pytest.importorskip("pandas")

from scipy.sparse import csr_array  # noqa: E402
from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

from swapcal import SwapClassifier, SwapRegressor, bounds, errors  # noqa: E402
from swapcal.batch.model import Model  # noqa: E402
from swapcal.batch.settings import FitSettings  # noqa: E402
from swapcal.losses import decide  # noqa: E402

ROWS = 1500
PLAIN: dict[str, Any] = {"correction": "linear", "random_state": 0}


def table(rows: int = ROWS, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({
        "x": rng.normal(size=rows).round(3), "shop": rng.choice(["a", "b", "c"], rows),
        "street": [f"s{k}" for k in rng.integers(0, 150, rows)],
    })  # fmt: skip
    return X, (rng.random(rows) < 1 / (1 + np.exp(-X["x"] - (X["shop"] == "b")))).to_numpy().astype(int)


X, Y = table()


@pytest.fixture(scope="module")
def logged() -> SwapClassifier:
    return SwapClassifier(mode="sample", groups=["shop"], **PLAIN).fit(X, Y)


# All rounds


def test_draws_come_from_all_rounds_unless_snapshots_are_asked_for(logged: SwapClassifier) -> None:
    model = logged.model_
    assert model.history is not None
    assert model.history.rounds == ROWS
    contexts, keys = model.contexts(model.features.encode(_opened(X))), np.arange(ROWS, dtype=np.uint64)
    issued = model.issue(X, keys=keys)
    whole = model.history.issue(contexts[:, : model.dim], keys, model.settings.seed)
    assert np.array_equal(issued.p, np.clip(whole.p, model.least, 1 - model.least))
    few = SwapClassifier(mode="sample", groups=["shop"], snapshots=16, **PLAIN).fit(X, Y).model_
    assert few.history is None
    assert (few.issue(X, keys=keys).weight != issued.weight).mean() > 0.9
    assert SwapClassifier(mode="sample", passes=2, **PLAIN).fit(X, Y).model_.history is None


def _opened(frame: Any) -> Any:
    from swapcal.features.sources import opened

    return opened(frame)


def test_the_mean_and_its_file_are_what_they_were(logged: SwapClassifier, tmp_path: Path) -> None:
    usual = SwapClassifier(groups=["shop"], **PLAIN).fit(X, Y)
    given = SwapClassifier(groups=["shop"], snapshots=16, **PLAIN).fit(X, Y)
    for other in (given.model_, logged.model_):
        assert np.array_equal(other.mean(X), usual.model_.mean(X))
        assert other.certificate == usual.certificate_
    assert usual.model_.history is None
    for name, model in (("usual", usual), ("given", given), ("logged", logged)):
        model.model_.save(tmp_path / name)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes["usual"] == sizes["given"]
    changes, dim = logged.model_.history.theta.shape
    assert sizes["logged"] - sizes["usual"] == pytest.approx(8 * changes * (dim + 2), rel=0.05)


def test_all_rounds_are_saved_and_loaded(logged: SwapClassifier, tmp_path: Path) -> None:
    logged.model_.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    keys = np.arange(ROWS, dtype=np.uint64)
    for one, other in zip(loaded.issue(X, keys=keys), logged.model_.issue(X, keys=keys), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(loaded.mean(X), logged.model_.mean(X))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_more_rows_are_more_rounds() -> None:
    model = SwapClassifier(mode="hash", **PLAIN).partial_fit(X[:900], Y[:900])
    before = model.predict_proba(X)
    model.partial_fit(X[900:], Y[900:])
    assert model.model_.history.rounds == ROWS
    assert (model.predict_proba(X) != before).any()


def test_a_mean_fit_says_that_its_snapshots_are_not_the_theorems_predictor() -> None:
    model = SwapClassifier(**PLAIN).fit(X, Y).set_params(mode="sample")
    with pytest.warns(UserWarning, match="only 16 snapshots were kept, which no theorem covers"):
        model.predict_proba(X)
    model.set_params(snapshots=16).predict_proba(X)  # asked for: nothing to say


def test_several_classes_and_means_keep_all_rounds() -> None:
    kinds = np.array(["bus", "car", "tram"])[Y + (X["x"] > 0.5)]
    several = SwapClassifier(mode="sample", **PLAIN).fit(X, kinds)
    assert [model.history.rounds for model in several.models_] == [ROWS] * 3
    assert np.allclose(several.predict_proba(X).sum(axis=1), 1)
    means = SwapRegressor(mode="hash", **PLAIN).fit(X, 10.0 * Y + X["x"])
    assert means.model_.history.rounds == ROWS
    low, high = means.low_, means.high_
    assert ((means.predict(X) >= low) & (means.predict(X) <= high)).all()


# Keys


def keyed(frame: Any) -> Any:
    return frame.assign(id=[f"r{k}" for k in range(len(frame))])


def test_equal_rows_with_other_ids_are_drawn_apart_and_ids_are_no_features() -> None:
    model = SwapClassifier(mode="hash", key="id", groups=["shop"], **PLAIN).fit(keyed(X), Y)
    bare = SwapClassifier(mode="hash", groups=["shop"], **PLAIN).fit(X, Y)
    assert np.array_equal(model.model_.mean(keyed(X)), bare.model_.mean(X))
    assert "id" not in {column.name for column in model.model_.features.columns}
    same = keyed(pd.concat([X[:1]] * 400, ignore_index=True))
    drawn = model.predict_proba(same)[:, 1]
    assert len(np.unique(drawn)) > 1
    assert len(np.unique(bare.predict_proba(same.drop(columns="id"))[:, 1])) == 1
    levels, shares = model.model_.history.shares(model.model_.contexts(_opened(same[:1]))[:, : model.model_.dim])
    assert drawn.mean() == pytest.approx(float(shares[0] @ levels), abs=0.03)
    shuffled = same.sample(frac=1, random_state=1)
    assert np.array_equal(model.predict_proba(shuffled)[:, 1], drawn[shuffled.index])


def test_pieces_and_other_holders_of_rows_give_the_same_draws() -> None:
    polars = pytest.importorskip("polars")
    rows = keyed(X)
    model = SwapClassifier(mode="hash", key="id", **PLAIN).fit(rows, Y)
    whole = model.predict_proba(rows)
    parts = [model.predict_proba(rows[start : start + 400]) for start in range(0, ROWS, 400)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert np.array_equal(model.predict_proba(polars.from_pandas(rows)), whole)
    assert np.array_equal(model.predict_proba(polars.from_pandas(rows).lazy()), whole)
    numbers = np.column_stack([X["x"], np.arange(ROWS), X["shop"] == "b"]).astype(float)
    dense = SwapClassifier(mode="hash", key=1, **PLAIN).fit(numbers, Y)
    assert [column.name for column in dense.model_.features.columns] == [0, 2]
    thin = SwapClassifier(mode="hash", key=1, **PLAIN).fit(csr_array(numbers), Y)
    assert np.array_equal(thin.predict_proba(csr_array(numbers)), dense.predict_proba(numbers))


class Watching(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Remember which columns it is given."""

    def fit(self, X: Any, y: Any) -> "Watching":
        self.classes_, self.seen_ = np.unique(y), list(X.columns) if hasattr(X, "columns") else X.shape[1]
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[np.zeros(len(X), int)]

    def predict_proba(self, X: Any) -> Any:
        assert (list(X.columns) if hasattr(X, "columns") else X.shape[1]) == self.seen_
        return np.full((len(X) if hasattr(X, "columns") else X.shape[0], 2), 0.5)


def test_an_estimator_inside_does_not_see_the_key() -> None:
    model = SwapClassifier(Watching(), mode="hash", key="id", cv=2, **PLAIN).fit(keyed(X), Y)
    assert model.estimator_.seen_ == ["x", "shop", "street"]
    model.predict_proba(keyed(X))
    numbers = np.column_stack([X["x"], np.arange(ROWS)])
    frozen = FrozenEstimator(Watching().fit(numbers[:, :1], Y))
    held = SwapClassifier(frozen, mode="hash", key=1, **PLAIN).fit(numbers, Y)
    assert held.predict_proba(numbers).shape == (ROWS, 2)


def test_a_key_is_a_column_and_no_group() -> None:
    with pytest.raises(ValueError, match="no column 'name'"):
        SwapClassifier(key="name", **PLAIN).fit(X, Y)
    with pytest.raises(ValueError, match="groups: given column 'shop', which is the key"):
        SwapClassifier(key="shop", groups=["shop"], **PLAIN).fit(X, Y)
    with pytest.raises(ValueError, match="contexts: given column 'x', which is the key"):
        SwapClassifier(key="x", contexts=["x"], **PLAIN).fit(X, Y)


# Contexts without labels


@pytest.mark.parametrize("scored", [False, True])
def test_without_a_correction_no_context_depends_on_a_label(scored: bool) -> None:
    frozen = FrozenEstimator(LogisticRegression().fit(table(seed=5)[0][["x"]], table(seed=5)[1]))
    base = _Only(frozen, ["x"]) if scored else None
    other = np.random.default_rng(1).permutation(1 - Y)
    seen: dict[str, Any] = {}
    for correction in ("none", "linear"):
        settings = {"groups": ["shop"], "mode": "sample", "cv": "prefit", "random_state": 0, "correction": correction}
        fits = [SwapClassifier(base, **settings).fit(X, y) for y in (Y, other)]
        scores = None if base is None else base.predict_proba(X)[:, 1]
        seen[correction] = [fit.model_.contexts(_opened(X), scores) for fit in fits]
        assert all(fit.certificate_.holds() for fit in fits)
    assert np.array_equal(*seen["none"])
    one, two = seen["linear"]
    assert one.shape != two.shape or not np.array_equal(one, two)


class _Only(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    def __init__(self, inner: Any, columns: Any) -> None:
        self.inner, self.columns = inner, columns
        self.classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> "_Only":
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.inner.predict_proba(X[self.columns])


def test_without_a_correction_scales_come_from_rows_that_are_not_streamed(tmp_path: Path) -> None:
    model = SwapClassifier(groups=["shop"], correction="none", random_state=0).fit(X, Y)
    assert model.certificate_.rounds == model.model_.rows == ROWS - ROWS // 10
    apart = np.random.default_rng(model.model_.settings.seed).permutation(ROWS)[: ROWS // 10]
    number = next(column for column in model.model_.features.columns if column.name == "x")
    assert number.centre == pytest.approx(X["x"].to_numpy()[apart].mean())
    assert not model.model_.features.rated
    fresh, outcome = table(20_000, seed=3)
    p = model.predict_proba(fresh)[:, 1]
    for shop in "abc":
        inside = (fresh["shop"] == shop).to_numpy()
        assert p[inside].mean() == pytest.approx(outcome[inside].mean(), abs=0.06)
    model.model_.save(tmp_path / "model")
    assert np.array_equal(Model.load(tmp_path / "model").mean(fresh), p)
    assert SwapClassifier(correction="none").fit(X[:2], [0, 1]).certificate_.rounds == 1


def test_without_a_correction_any_holder_of_rows_gives_the_same() -> None:
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    fits = [
        SwapClassifier(groups=["shop"], correction="none", random_state=0).fit(rows, Y).predict_proba(rows)
        for rows in (X, polars.from_pandas(X), pyarrow.Table.from_pandas(X))
    ]
    numbers = np.column_stack([X["x"], X["shop"] == "b"]).astype(float)
    thin = [
        SwapClassifier(correction="none", random_state=0).fit(rows, Y).predict_proba(rows)
        for rows in (numbers, csr_array(numbers))
    ]
    assert np.array_equal(fits[0], fits[1])
    assert np.array_equal(fits[0], fits[2])
    assert np.array_equal(*thin)


# Outcomes in a range


def test_omniprediction_is_about_outcomes_0_and_1() -> None:
    """All 100 outcomes ½ and predicted so: no swap omniprediction error, and the best response to |a − y| loses 50."""
    half, y = np.full(100, 0.5), np.full(100, 0.5)
    contexts = np.column_stack([half, np.linspace(-0.5, 0.5, 100)])
    residuals = y - half
    assert errors.somni(half[:1], residuals.sum(keepdims=True), (residuals @ contexts)[None]).total == 0.0
    action = decide(half, "absolute").action
    assert np.abs(action - y).sum() == 50.0
    assert np.abs(0.5 - y).sum() == 0.0


def test_errors_of_a_range_are_those_of_0_to_1_times_its_width() -> None:
    wide = 20.0 + 100.0 * Y
    small, large = (SwapRegressor(groups=["shop"], **PLAIN).fit(X, y) for y in (Y.astype(float), wide))
    assert large.certificate_ == small.certificate_
    gains = []
    for model, y in ((small, Y), (large, wide)):
        inside = (X["shop"] == "b").to_numpy()
        gains.append(np.mean((y - model.predict(X))[inside]) ** 2)
    assert gains[1] == pytest.approx(100.0**2 * gains[0])


# Sample sizes


def test_a_sample_size_is_that_of_the_levels_ridge_and_start_of_the_fit() -> None:
    """416 million rows are enough for N = 128, but the grid of omniprediction then has N = 347."""
    rows, dim = 416_022_528, 10
    assert float(bounds.sample_complexity(0.1, dim)) <= rows
    settings = FitSettings("omniprediction", ridge=1.0, epsilon=0.1, correction="none")
    assert settings.levels(rows, dim) == 347
    assert settings.promised(rows, dim, 10.0) == pytest.approx(0.1636, abs=1e-4)
    with pytest.raises(ValueError, match="the number the theorem needs"):
        settings.check_rows(rows, dim, lambda _: 10.0)
    asked: list[str] = []
    settings.check_rows(10**10, dim, lambda comparators: asked.append(comparators) or 10.0)
    assert asked == ["smcal"]
    for target, theorem, start in (
        ("multicalibration", bounds.dsmcal2, 10.0), ("omniprediction", bounds.dsomni, 10.0),
        ("agnostic", bounds.saerr, 26.0),
    ):  # fmt: skip
        auto = FitSettings(target, epsilon=0.1, correction="none")
        expected = [
            float(theorem(1e6, 5, 0.05 / 3, auto.levels(1e6, 5), ridge=ridge, distance2=start))
            for ridge in (256.0, 16.0, 1.0)
        ]
        assert auto.promised(1e6, 5, start) == max(expected) == expected[0]


def test_the_start_of_a_fit_is_the_score() -> None:
    """θ_0 = (1, 1, 0, …): from there to −4e_1 it is √26, to 2ve_1 ± 2e_1 √10."""
    model = SwapClassifier(target="agnostic", correction="none", ridge=1.0, random_state=0).fit(X, Y).model_
    assert model.runs[0].distance2("sreg") == pytest.approx(26.0)
    assert model.runs[0].distance2("smcal") == pytest.approx(10.0)
