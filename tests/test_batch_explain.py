"""Explanations of batch models: exact sums by column, by the rule stated, for every kind of model."""

import math
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from swapcal import SwapClassifier, SwapRegressor
from swapcal.batch.explain import SCORE, START, Attribution
from swapcal.engine.explanation import Explanation, mean_steps, reveal_orders
from swapcal.features.encoder import EncodedTable


def table(n: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Return rows with missing values, a number in bins, many texts, and outcomes that two columns make together."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "town": rng.choice(list("abcdef"), n),
            "street": [f"s{k}" for k in rng.integers(0, 150, n)],
            "shift": rng.choice(["day", "night"], n),
            "constant": 1.0,
        }
    )
    odds = (X["age"] - 40) / 10 + 1.5 * (X["town"] == "a") * (X["shift"] == "day") + X["income"].isna()
    return X, rng.random(n) < 1 / (1 + np.exp(-odds))


def unseen(X: pd.DataFrame) -> pd.DataFrame:
    """Return some rows with values that no fit has met."""
    rows = X.head(12).reset_index(drop=True)
    rows.loc[0, ["town", "street"]] = "elsewhere"
    rows.loc[1, "age"], rows.loc[2, "income"], rows.loc[3, "age"] = np.nan, np.nan, 1e9
    rows.loc[4, "shift"] = None
    return rows


def missing_to_sum(why: Explanation) -> float:
    return abs(why.mean - math.fsum([why.base, *(term.amount for term in why.terms)]))


MODELS = {
    "linear": SwapClassifier(groups=["town", "age"], correction="linear", random_state=0),
    "trees": SwapClassifier(groups=["town", "shift"], correction="trees", random_state=0),
    "none": SwapClassifier(groups=["town"], correction="none", random_state=0),
    "hash": SwapClassifier(groups=["town"], mode="hash", correction="linear", random_state=0),
    "few": SwapClassifier(groups=["town"], contexts=[], random_state=0),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("seed", [0, 1])
def test_contributions_add_up_to_the_mean(kind: str, seed: int) -> None:
    X, y = table(1500, seed)
    model = MODELS[kind].fit(X, y)
    rows = unseen(X)
    found = model.explain(rows)
    means = model.model_.mean(rows)
    if kind != "hash":
        np.testing.assert_array_equal(means, model.predict_proba(rows)[:, 1])
    for why, mean in zip(found, means.tolist(), strict=True):
        assert why.mean == why.p == mean
        assert missing_to_sum(why) < 1e-12
        assert why.start == START
        assert [abs(term.amount) for term in why.terms] == sorted((abs(t.amount) for t in why.terms), reverse=True)
    assert len({why.base for why in found}) == 1
    np.testing.assert_array_equal([why.blend for why in found], model.model_.corrected(rows_of(model, rows)))


def rows_of(model: Any, rows: pd.DataFrame) -> EncodedTable:
    coded: list[EncodedTable] = model._coded(model._opened(rows)[0])
    return coded[0]


@pytest.mark.parametrize("kind", ["linear", "trees"])
def test_contributions_are_those_of_one_prediction_at_a_time(kind: str) -> None:
    """The same rule, written out: copy one row's values of a column after the other onto the reference row."""
    X, y = table(1500)
    model = MODELS[kind].fit(X, y).model_
    attribution, rows = Attribution(model), rows_of(MODELS[kind], unseen(X))
    found = attribution.contributions(rows)
    orders = reveal_orders(len(attribution.columns))
    for row in range(5):
        amounts = np.zeros(len(attribution.columns))
        for order in orders:
            seen = EncodedTable(np.zeros((1, rows.Z.shape[1])), np.full((1, rows.codes.shape[1]), -1), centres(model))
            before = model.mean(seen)[0]
            assert before == found.base
            for place in order:
                name = attribution.columns[place].name
                for j, category in enumerate(model.features.categories):
                    if category.name == name:
                        seen.codes[0, j] = rows.codes[row, j]
                for j, number in enumerate(model.features.numbers):
                    if number.name == name:
                        seen.raw[0, j] = rows.raw[row, j]
                for j, label in enumerate(model.features.names):
                    if label in (name, f"{name} is missing", f"offset of {name}"):
                        seen.Z[0, j] = rows.Z[row, j]
                now = model.mean(seen)[0]
                amounts[place] += (now - before) / len(orders)
                before = now
        np.testing.assert_allclose(found.amounts[row], amounts, atol=1e-15, rtol=0)


def centres(model: Any) -> Any:
    return np.array([[number.centre for number in model.features.numbers]])


def test_three_columns_are_revealed_in_all_orders() -> None:
    assert sorted(reveal_orders(3)) == [list(order) for order in permutations(range(3))]


@pytest.mark.parametrize("n", [2, 4, 7, 30])
def test_steps_are_the_shapley_value_where_pairs_act_together(n: int) -> None:
    rng = np.random.default_rng(n)
    alone, pairs = rng.normal(size=n), np.triu(rng.normal(size=(n, n)), 1)

    def value(shown: list[int]) -> float:
        return float(alone[shown].sum() + pairs[np.ix_(shown, shown)].sum())

    orders = reveal_orders(n)
    paths = np.array([[value(order[:k]) for k in range(n + 1)] for order in orders])
    np.testing.assert_allclose(mean_steps(orders, paths), alone + (pairs + pairs.T).sum(axis=1) / 2, atol=1e-12)


def test_terms_are_named_by_category_and_as_missing() -> None:
    X, y = table(1500)
    why = MODELS["linear"].fit(X, y).explain(unseen(X))
    names = [{term.name: term.kind for term in one.terms} for one in why]
    assert names[1]["income"] == "feature"
    assert "age" not in names[1]
    assert names[2]["income is missing"] == "feature"
    assert any(name.startswith(("age ≤", "age >")) and kind == "group" for name, kind in names[3].items())
    assert names[5][f"town = {X['town'][5]}"] == "group"
    assert str(why[5]).splitlines()[0] == f"forecast {why[5].mean:.4f} = reference row {why[5].base:.4f}"
    assert Explanation.from_dict(why[5].to_dict()) == why[5]


def test_a_column_that_was_always_missing_contributes_nothing_until_it_has_a_value() -> None:
    X, y = table(1500)
    X = X[["age", "town"]].assign(never=np.nan, nothing=pd.Series([None] * len(X), dtype=object))
    model = SwapClassifier(correction="linear", random_state=0).fit(X, y)
    importance = model.feature_importances(X.head(50)).set_index("column")["importance"]
    assert (importance[["never", "nothing"]] == 0.0).all()
    assert (importance[["age", "town"]] > 0.0).all()
    later = X.head(1).assign(never=1.0)
    amounts = {term.name: term.amount for term in model.explain(later)[0].terms}
    p = model.predict_proba(pd.concat([X.head(1), later]))[:, 1]
    assert amounts["never"] != 0.0
    assert p[0] != p[1]


def test_the_score_of_an_estimator_is_a_term() -> None:
    X, y = table(1500)
    numbers = X[["age", "income"]].fillna(0.0)
    model = SwapClassifier(LogisticRegression(), correction="linear", random_state=0).fit(numbers, y)
    for why, p in zip(model.explain(numbers.head(9)), model.predict_proba(numbers.head(9))[:, 1], strict=True):
        assert why.mean == p
        assert missing_to_sum(why) < 1e-12
        assert (why.terms[0].name, why.terms[0].kind) == (SCORE, "score")


def test_of_several_classes_each_has_an_explanation() -> None:
    X, y = table(1500)
    classes = np.where(np.arange(1500) % 5 == 0, "none", np.where(y, "yes", "no"))
    model = SwapClassifier(groups=["town"], correction="linear", random_state=0).fit(X, classes)
    rows = unseen(X)
    for why, p in zip(model.explain(rows), model.class_probabilities(rows), strict=True):
        assert list(why) == ["no", "none", "yes"]
        assert [one.mean for one in why.values()] == p.tolist()
        assert max(map(missing_to_sum, why.values())) < 1e-12
    frame = model.feature_importances(rows)
    assert list(frame) == ["class", "column", "kind", "importance"]
    assert frame["class"].tolist() == ["no"] * 6 + ["none"] * 6 + ["yes"] * 6


def test_a_regressor_explains_in_its_units() -> None:
    X, _ = table(1500)
    y = X["age"] + 5 * (X["town"] == "a")
    model = SwapRegressor(groups=["town"], correction="linear", random_state=0).fit(X, y)
    rows = unseen(X)
    found = model.explain(rows)
    np.testing.assert_allclose([why.mean for why in found], model.predict(rows), rtol=1e-15)
    assert max(map(missing_to_sum, found)) < 1e-12 * (y.max() - y.min())
    frame = model.feature_importances(X.head(50))
    ages = [abs(term.amount) for why in model.explain(X.head(50)) for term in why.terms if term.name == "age"]
    assert frame.loc[0, "column"] == "age"
    assert frame.loc[0, "importance"] == pytest.approx(sum(ages) / 50)


def test_importances_are_mean_absolute_contributions() -> None:
    X, y = table(1500)
    model = MODELS["trees"].fit(X, y)
    frame = model.feature_importances(X.head(80), backend="dict")
    amounts: dict[str, float] = {}
    for why in model.explain(X.head(80)):
        for term in why.terms:
            column = term.name.split(" ")[0]
            amounts[column] = amounts.get(column, 0.0) + abs(term.amount) / 80
    assert frame["column"][0] == "age"
    assert frame["importance"] == sorted(frame["importance"], reverse=True)
    for name, kind, size in zip(frame["column"], frame["kind"], frame["importance"], strict=True):
        assert size == pytest.approx(amounts.get(name, 0.0), abs=1e-12)
        assert kind == ("group" if name in ("town", "shift") else "feature")
    assert dict(zip(frame["column"], frame["importance"], strict=True))["constant"] == 0.0


def test_columns_of_an_array_are_numbered() -> None:
    X, y = table(1500)
    numbers = X[["age", "income"]].to_numpy()
    model = SwapClassifier(correction="linear", random_state=0).fit(numbers, y)
    assert model.feature_importances(numbers[:20], backend="dict")["column"] == ["column 0", "column 1"]


def test_what_cannot_be_explained_is_refused() -> None:
    X, y = table(600)
    with pytest.raises(NotFittedError):
        SwapClassifier().explain(X)
    model = SwapClassifier(correction="linear", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="feature names"):
        model.explain(X[["age"]])
    with pytest.raises(ValueError, match="backend: given 'csv'"):
        model.feature_importances(X.head(3), backend="csv")


def test_no_rows_cannot_be_explained_and_no_experts_are_named() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=200), "g": rng.choice(["a", "b"], 200)})
    model = SwapClassifier().fit(X, rng.integers(0, 2, 200))
    with pytest.raises(ValueError, match="X: given no rows"):
        model.explain(X.iloc[:0])
    one, other = model.explain(X.iloc[:2])
    assert "experts" not in one.change(other)
