"""What no fit can use: outcomes with gaps, masked rows, names that do not fit; it is refused, and nothing moves."""

import enum
from typing import Any

import numpy as np
import pytest
import scipy.sparse

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")

from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: E402

from swapcal import SwapClassifier, SwapRegressor  # noqa: E402

ROWS = 80
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 2))
Y = (RNG.random(ROWS) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
WORDS = np.array(["no", "yes"], object)[Y]
FRAME = pd.DataFrame(X, columns=["a", "b"])
LAST = np.arange(ROWS) == ROWS - 1


def classifier(**settings: Any) -> SwapClassifier:
    return SwapClassifier(**{"correction": "linear", "snapshots": 4, "random_state": 0} | settings)


def regressor(**settings: Any) -> SwapRegressor:
    return SwapRegressor(**{"correction": "linear", "snapshots": 4, "random_state": 0} | settings)


def with_gap(values: Any, gap: Any) -> Any:
    spoilt = np.array(values, object)
    spoilt[2] = gap
    return spoilt


GAPS = {"None": None, "NaN": np.nan, "NA": pd.NA, "NaT": pd.NaT}


@pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS)
@pytest.mark.parametrize("held", [np.asarray, list, pd.Series, lambda y: pd.Series(y, dtype="category")])
def test_an_outcome_that_is_missing_is_named_by_its_row(gap: Any, held: Any) -> None:
    for y in (WORDS, Y):
        with pytest.raises(ValueError, match=r"y: given (None|nan|<NA>|NaT) in row 3, expected a class"):
            classifier().fit(X, held(with_gap(y, gap)))
    with pytest.raises(ValueError, match=r"y: given (None|nan|<NA>|NaT) in row 3, expected a number"):
        regressor().fit(X, held(with_gap(X[:, 0], gap)))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (with_gap(WORDS, 1), "y: given 1 in row 3 after 'no', expected classes of one type"),
        (with_gap(WORDS, True).tolist(), "y: given True in row 3 after 'no', expected classes of one type"),
        (np.ma.masked_array(Y, LAST), "y: given a masked array with entries missing, expected every entry"),
        (np.where(LAST, np.datetime64("NaT"), np.array(["2024-01-01", "2024-01-02"], "M8[D]")[Y]), "y: given NaT"),
        (pd.Series(with_gap(Y, pd.NA), dtype="Int64"), "y: given nan in row 3, expected a class"),
        (WORDS[:-1], "y: given 79 rows, expected 80, one per row of X"),
    ],
)
def test_outcomes_that_are_no_classes_are_refused(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classifier().fit(X, y)
    if len(y) == ROWS:
        fitted = classifier().fit(X, WORDS)
        before = fitted.predict_proba(X)
        with pytest.raises(ValueError, match="y: given"):
            fitted.partial_fit(X, y)
        assert np.array_equal(fitted.predict_proba(X), before)


def test_times_are_no_numbers_to_a_regressor() -> None:
    with pytest.raises(ValueError, match=r"y: given datetime64\[D\], expected numbers"):
        regressor().fit(X, np.array(["2024-01-01", "2024-01-02"], "M8[D]")[Y])


def test_more_rows_come_with_as_many_outcomes_of_known_classes() -> None:
    fitted = classifier().fit(X, WORDS)
    before = fitted.predict_proba(X)
    for y in (WORDS[:-1], np.concatenate([WORDS, WORDS])):
        with pytest.raises(ValueError, match=r"y: given \d+ rows, expected 80, one per row of X"):
            fitted.partial_fit(X, y)
    with pytest.raises(ValueError, match="y: given class 1, expected 'no' or 'yes'"):
        fitted.partial_fit(X, with_gap(WORDS, 1))
    assert np.array_equal(fitted.predict_proba(X), before)
    with pytest.raises(ValueError, match=r"y: given class 'yes', expected one of classes=\['no'\]"):
        classifier().partial_fit(X, WORDS, classes=["no"])


def test_a_refused_fit_leaves_the_one_before() -> None:
    fitted, ranged = classifier().fit(FRAME, WORDS), regressor().fit(FRAME, X[:, 0])
    before = fitted.predict_proba(FRAME), ranged.predict(FRAME)
    for refused in (
        lambda: fitted.fit(FRAME, np.full(ROWS, "a")),
        lambda: fitted.fit(FRAME[["a"]], WORDS, -np.ones(ROWS)),
        lambda: fitted.fit(X, with_gap(WORDS, None)),
        lambda: ranged.fit(FRAME, np.ones(ROWS)),
        lambda: ranged.fit(X, with_gap(X[:, 0], None)),
    ):
        with pytest.raises(ValueError, match=": given"):
            refused()
    ranged.estimator = "none"
    with pytest.raises(TypeError, match="estimator: given str without predict"):
        ranged.fit(FRAME, X[:, 1])
    ranged.estimator = None
    assert np.array_equal(fitted.predict_proba(FRAME), before[0])
    assert np.array_equal(ranged.predict(FRAME), before[1])


@pytest.mark.parametrize("unit", [2.0**-1074, 2.0**1022])
def test_only_the_ratios_of_weights_matter(unit: float) -> None:
    weight = 1.0 + LAST
    plain, means = classifier().fit(X, Y, weight), regressor().fit(X, X[:, 0], weight)
    assert np.array_equal(classifier().fit(X, Y, weight * unit).predict_proba(X), plain.predict_proba(X))
    assert np.array_equal(regressor().fit(X, X[:, 0], weight * unit).predict(X), means.predict(X))


def test_masked_entries_of_rows_and_weights_are_refused() -> None:
    rows = np.ma.masked_array(X, np.column_stack([LAST, LAST]))
    for fit in (classifier(), regressor()):
        with pytest.raises(ValueError, match="X: given a masked array with entries missing"):
            fit.fit(rows, Y)
        with pytest.raises(ValueError, match="sample_weight: given a masked array with entries missing"):
            fit.fit(X, Y, np.ma.masked_array(np.ones(ROWS), LAST))
    fitted = classifier().fit(X, Y)
    with pytest.raises(ValueError, match="X: given a masked array"):
        fitted.predict_proba(rows)
    frame = FRAME.rename(columns={"a": "_mask"})
    assert np.isfinite(classifier().fit(frame, Y).predict_proba(frame)).all()


@pytest.mark.parametrize("names", ["ab", 1, b"a", slice(1), iter(["a"])])
@pytest.mark.parametrize("role", ["groups", "contexts"])
def test_columns_are_named_in_a_list(role: str, names: Any) -> None:
    with pytest.raises(TypeError, match=f"{role}: given .*, expected a list of columns"):
        classifier(**{role: names}).fit(FRAME, Y)


def test_a_column_that_is_not_there_is_named_before_an_estimator_is_fitted() -> None:
    class Slow(LogisticRegression):
        def fit(self, *_: Any) -> Any:
            raise AssertionError

    for table, names in ((FRAME, ["c"]), (X, [2])):
        with pytest.raises(ValueError, match="column"):
            classifier(estimator=Slow(), groups=names).fit(table, Y)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="columns: given a name twice, expected each once"):
        classifier().fit(pd.DataFrame(X, columns=["a", "a"]), Y)


@pytest.mark.parametrize("mode", ["mean", "hash"])
def test_rows_without_names_are_read_in_the_order_of_the_fit(mode: str) -> None:
    named, plain = classifier(mode=mode).fit(FRAME, Y), classifier(mode=mode).fit(X, Y)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        found = [named.predict_proba(rows) for rows in (X, X[:1], scipy.sparse.csr_array(X))]
    for p in found:
        assert np.array_equal(p, named.predict_proba(FRAME)[: len(p)])
    with pytest.warns(UserWarning, match="X has feature names, but SwapClassifier was fitted without"):
        found = [plain.predict_proba(rows) for rows in (FRAME, FRAME[:1])]
    for p in found:
        assert np.array_equal(p, plain.predict_proba(X)[: len(p)])


def test_names_may_be_an_enum_of_texts() -> None:
    Name = enum.Enum("Name", {"A": "a", "B": "b"}, type=str)
    frame = pd.DataFrame({Name["A"]: X[:, 0], Name["B"]: WORDS})
    found = classifier(groups=[Name["B"]]).fit(frame, Y).predict_proba(frame)
    plain = frame.rename(columns=str.__str__)
    assert np.array_equal(found, classifier(groups=["b"]).fit(plain, Y).predict_proba(plain))


def test_predictions_of_another_shape_are_refused() -> None:
    class ExportArrays(LogisticRegression):
        def predict_proba(self, rows: Any) -> Any:
            return np.full(len(rows), 0.5)

    class Wide(LogisticRegression):
        def predict_proba(self, rows: Any) -> Any:
            return np.full((len(rows), 3), 1 / 3)

    for shape, estimator in ((r"\(80,\)", ExportArrays()), (r"\(80, 3\)", Wide())):
        for settings in ({}, {"cv": "prefit"}):
            with pytest.raises(ValueError, match=rf"estimator: given probabilities of shape {shape}, expected"):
                classifier(estimator=estimator.fit(X, Y), **settings).fit(X, Y)
    two = LinearRegression().fit(X, X)
    with pytest.raises(ValueError, match=r"estimator: given predictions of shape \(80, 2\), expected one per row"):
        regressor(estimator=two, cv="prefit").fit(X, X[:, 0])


def test_of_several_models_none_learns_from_scores_that_one_refuses() -> None:
    class Turning(LogisticRegression):
        spoilt = False

        def predict_proba(self, rows: Any) -> Any:
            p = super().predict_proba(rows)
            p[-1, -1] = np.nan if type(self).spoilt else p[-1, -1]
            return p

    y = np.arange(ROWS) % 3
    fitted = classifier(estimator=Turning()).fit(X, y)
    Turning.spoilt = True
    with pytest.raises(ValueError, match="scores: given nan in row 80"):
        fitted.partial_fit(X, y)
    assert [model.rows for model in fitted.models_] == [ROWS] * 3


@pytest.mark.parametrize("ridge", [None, -1.0, 1e9, np.nan, []])
def test_a_ridge_that_is_no_number_is_refused(ridge: Any) -> None:
    with pytest.raises(ValueError, match="ridge: given"):
        classifier(ridge=ridge).fit(X, Y)
