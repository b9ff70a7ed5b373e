"""Refit: any classifier inside Live, fitted on a schedule that depends on the number of labels alone."""

import copy
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from swapcal.live import Live, Refit


class Slow(DecisionTreeClassifier):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        time.sleep(0.005)
        return super().fit(X, y)


def stream(n: int) -> tuple[list[dict[str, Any]], list[float]]:
    """Outcomes that hang on an interaction of three columns, with a category and a column that appear late."""
    rng = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    for k in range(n):
        row = {"a": float(rng.normal()), "b": float(rng.normal()), "c": "xy"[rng.integers(2)]}
        if k > n // 2:
            row |= {"c": "xyz"[rng.integers(3)], "d": int(rng.integers(9))}
        rows.append(row)
    chances = [0.15 + 0.7 * ((row["a"] > 0) ^ (row["b"] > 0) ^ (row["c"] == "x")) for row in rows]
    return rows, (rng.random(n) < chances).astype(float).tolist()


def tree(background: bool = False, **more: Any) -> Refit:
    return Refit(Slow(max_depth=4, random_state=0), first=60, background=background, **more)


@pytest.mark.parametrize("settings", [{}, {"background": True}, {"last": 80}, {"last": 80, "background": True}])
def test_one_by_one_equals_a_run_and_many_at_once(settings: dict[str, Any]) -> None:
    rows, y = stream(400)
    at_once = Live(models={"trees": tree(**settings)}).run(rows, y, ids=range(400))  # type: ignore[arg-type]
    one = Live(models={"trees": tree(**settings)})
    singles = []
    for k, (row, label) in enumerate(zip(rows, y, strict=True)):
        singles.append(one.forecast(row, k).mean)
        one.label(k, label)
    assert singles == at_once.mean.tolist()
    assert one.models["trees"].status().fits > 8


def test_late_labels_teach_at_their_number(tmp_path: Any) -> None:
    rows, y = stream(300)
    one, many = (Live(models={"trees": tree()}) for _ in range(2))
    means: list[list[float]] = [[], []]
    for a in range(0, 300, 30):
        part = [*range(a, a + 30)]
        means[0] += [one.forecast(rows[k], k).mean for k in part]
        means[1] += many.forecast_many(rows[a : a + 30], part).mean.tolist()
        for k in part:
            one.label(k, y[k])
        many.label_many(part, [y[k] for k in part])
    assert means[0] == means[1]


@pytest.mark.parametrize("settings", [{}, {"background": True}, {"last": 70, "background": True}])
def test_a_saved_one_goes_on_exactly(settings: dict[str, Any], tmp_path: Any) -> None:
    rows, y = stream(300)
    whole = tree(**settings)
    said = []
    for k, (row, label) in enumerate(zip(rows, y, strict=True)):
        if k in (40, 62, 200):
            whole.save(tmp_path / "refit")
            read = Refit.load(tmp_path / "refit", Slow(max_depth=4, random_state=0))
            assert read.forecast(row) == whole.forecast(row)
            assert read.status()[:2] == whole.status()[:2]
            whole = read
        said.append(whole.forecast(row))
        whole.learn(row, None, None, label)
    straight = tree(**settings)
    again = []
    for row, label in zip(rows, y, strict=True):
        again.append(straight.forecast(row))
        straight.learn(row, None, None, label)
    assert said == again


def test_trees_find_what_the_others_cannot() -> None:
    rows, y = stream(3000)
    label = np.array(y)[1000:]
    trees = Refit(DecisionTreeClassifier(min_samples_leaf=40, random_state=0), growth=1.5)
    plain, helped = Live().run(rows, y).mean[1000:], Live(models={"trees": trees}).run(rows, y).mean[1000:]
    assert np.mean((helped - label) ** 2) < 0.9 * np.mean((plain - label) ** 2)
    assert trees.status().fits == 5


def test_one_class_and_no_label_is_no_opinion_but_the_rate() -> None:
    refit = tree()
    assert refit.forecast({"a": 1.0}) == 0.5
    for _ in range(100):
        refit.learn({"a": 1.0}, None, None, 1.0)
    assert refit.forecast({"a": 1.0}) == 100.5 / 101
    assert refit.status().fits == 0


def test_what_is_no_classifier_is_refused() -> None:
    with pytest.raises(TypeError, match="expected fit and predict_proba"):
        Refit(3)
    with pytest.raises(ValueError, match="expected a number above 1"):
        Refit(Slow(), growth=1.0)
    for name in ("first", "last"):
        with pytest.raises(ValueError, match=f"{name}: given 0, expected an integer of at least 1"):
            Refit(Slow(), **{name: 0})


def two_columns() -> tuple[list[dict[str, Any]], list[float]]:
    rows = [{"shop": "abcde"[k % 5], "price": k % 7 + 0.5, "mixed": "x" if k % 2 else 40.0} for k in range(60)]
    return rows, [float(k % 5 in (0, 2, 4)) for k in range(60)]


def test_histogram_trees_are_told_which_columns_are_categories() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    small = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5, random_state=0)
    named = HistGradientBoostingClassifier(**small.get_params() | {"categorical_features": [1]})
    told, own = Refit(small, first=60), Refit(named, first=60)
    for refit in (told, own):
        for row, y in zip(*two_columns(), strict=True):
            refit.learn(row, None, None, y)
    assert told._fitted.is_categorical_.tolist() == [True, False, False]
    assert own._fitted.is_categorical_.tolist() == [False, True, False]
    assert small.categorical_features == "from_dtype"


def test_lightgbm_is_told_which_columns_are_categories() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    leaves = {"min_child_samples": 5, "min_data_per_group": 5, "cat_smooth": 1.0}  # of sixty rows
    trees = lightgbm.LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1, **leaves)
    refit = Refit(trees, first=60)
    for row, y in zip(*two_columns(), strict=True):
        refit.learn(row, None, None, y)
    assert "==" in refit._fitted.booster_.trees_to_dataframe()["decision_type"].tolist()


def test_a_column_that_is_empty_in_the_first_fit_does_not_stop_the_stream() -> None:
    refit = Refit(HistGradientBoostingClassifier(max_iter=3, random_state=0), first=50)
    live = Live(models={"trees": refit})
    records = [{"a": float(k % 7), "later": None if k < 80 else float(k % 2)} for k in range(200)]
    made = live.run(records, [k % 7 > 3 for k in range(200)])
    assert refit.status().fits > 3
    assert np.isfinite(made.mean).all()


def test_models_are_heard_only_after_they_did_well() -> None:
    """Before any label the forecast is the user's score, whatever a model says."""

    class Certain:
        def forecast(self, record: Any, keys: Any, values: Any) -> float:
            return 0.99

        def learn(self, record: Any, keys: Any, values: Any, y: float) -> None:
            pass

    live = Live(scores=["s"], models={"certain": Certain()})
    assert live.forecast({"s": 0.2, "v": 1.0}, id=0).mean == pytest.approx(0.2)
    alone = Live(models={"certain": Certain()})
    assert alone.forecast({"v": 1.0}, id=0).mean == pytest.approx(0.5)
    y = np.random.default_rng(0).random(600) < 0.99
    assert alone.run([{"v": 1.0}] * 600, y).mean[-100:].mean() > 0.95


def test_a_model_beside_a_score_that_is_the_truth_costs_nothing_before_it_has_learned(tmp_path: Any) -> None:
    """The scores that are believed as given are the user's; a model's forecasts are not averaged with them."""
    rng = np.random.default_rng(0)
    p = rng.random(600)
    y = (rng.random(600) < p).astype(float)
    records = [
        {"s": chance, "x": other} for chance, other in zip(p.tolist(), rng.normal(size=600).tolist(), strict=True)
    ]
    live = Live(scores=["s"], models={"tree": tree()})
    means = np.asarray(live.run(records[:500], y[:500]).mean)
    alone = np.asarray(Live(scores=["s"]).run(records[:500], y[:500]).mean)
    assert np.sqrt(np.mean((alone - p[:500]) ** 2)) < 0.02
    assert np.sqrt(np.mean((means - p[:500]) ** 2)) < 0.02  # 0.06 with the mean of both
    live.save(tmp_path / "live.swapcal")
    again = Live.load(tmp_path / "live.swapcal", models=copy.deepcopy(live.models))
    np.testing.assert_array_equal(again.run(records[500:], y[500:]).mean, live.run(records[500:], y[500:]).mean)
