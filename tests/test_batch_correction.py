"""The linear correction in detail: slopes, penalties, curvature, weights; and scores that are none."""

import numpy as np
import pytest
from scipy.special import expit

from swapcal.batch import correction as correction_module
from swapcal.batch.correction import (
    NO_MARGIN,
    PENALTIES,
    Correction,
    ScoreMoments,
    Scorer,
    SparseRegressors,
    _best_penalty,
    _Problem,
    left_out,
    logit,
    plan,
    slopes_off,
)
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.features.encoder import EncodedTable, FittedEncoder
from swapcal.kernels.batch import spots_of
from swapcal.tables.frame import Table

LINEAR = FitSettings(correction="linear", snapshots=2)


def test_a_group_s_slope_is_off_by_so_many_standard_errors():
    """Rao's statistic by hand: weights, a mean that is not 0, a row without a group, a group that is not looked at."""
    rng = np.random.default_rng(0)
    logits, weight = 1.0 + rng.normal(size=60), rng.choice([0.5, 1.0, 4.0], 60)
    y = (rng.random(60) < 0.4).astype(float)
    codes = np.column_stack([rng.integers(0, 2, 60), rng.integers(-1, 3, 60)])
    far, p = logits - (weight @ logits) / weight.sum(), expit(logits)
    expected = max(
        abs(np.sum((weight * (y - p) * far)[inside])) / np.sqrt(np.sum((weight**2 * p * (1 - p) * far**2)[inside]))
        for inside in (codes[:, 1] == code for code in range(3))
    )
    rows = EncodedTable(np.zeros((60, 0)), codes, np.zeros((60, 0)))
    assert slopes_off(rows, [1], logits, y, weight) == pytest.approx(expected, rel=1e-12)
    assert slopes_off(rows, [], logits, y, weight) == 0.0
    wild = codes.copy()
    wild[:, 1] = np.where(np.arange(60) < 20, -1, 0)  # rows without a group may be as wrong as they like
    known = np.arange(60) >= 20
    rows, labels = EncodedTable(np.zeros((60, 0)), wild, np.zeros((60, 0))), np.where(known, y, (far > 0) * 1.0)
    alone = abs(np.sum((weight * (y - p) * far)[known])) / np.sqrt(np.sum((weight**2 * p * (1 - p) * far**2)[known]))
    assert slopes_off(rows, [1], logits, labels, weight) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, 1.5, -0.1, np.inf])
def test_scores_that_are_no_probabilities_are_refused(bad):
    rng = np.random.default_rng(0)
    X, scores = rng.normal(size=(120, 2)), rng.uniform(0.2, 0.8, 120)
    y = (rng.random(120) < scores).astype(float)
    model = Model.fit(X, y, scores, settings=LINEAR)
    wrong = scores.copy()
    wrong[6] = bad
    with pytest.raises(ValueError, match=rf"scores: given {bad} in row 7, expected a probability in \[0, 1\]"):
        Model.fit(X, y, wrong, settings=LINEAR)
    with pytest.raises(ValueError, match=rf"scores: given {bad} in row 7, expected a probability in \[0, 1\]"):
        model.mean(X, wrong)


def test_scores_outside_by_rounding_are_those_at_the_end():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), (np.arange(120) % 2).astype(float)
    scores = np.where(y > 0, 1.0, 0.0)
    model = Model.fit(X, y, scores, settings=LINEAR)
    rounded = scores + np.where(y > 0, 1e-7, -1e-7)
    assert np.array_equal(model.mean(X, rounded), model.mean(X, scores))
    assert np.array_equal(Model.fit(X, y, rounded, settings=LINEAR).mean(X, scores), model.mean(X, scores))


def test_columns_named_by_numpy_are_saved(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.normal(size=300), rng.integers(0, 3, 300)])
    y = (rng.random(300) < expit(X[:, 0])).astype(float)
    for groups in ([np.int64(2)], [np.int32(1)]):
        model = Model.fit(X, y, groups=groups, columns=list(np.arange(2)), settings=LINEAR)
        model.save(tmp_path / "model")
        assert np.array_equal(Model.load(tmp_path / "model").mean(X), model.mean(X))


def test_infinite_numbers_in_a_group_of_few_have_no_category_and_the_model_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    k, x = rng.choice([0.0, 1.0, np.inf, -np.inf], 400), rng.normal(size=400)
    y = (rng.random(400) < expit(x)).astype(float)
    model = Model.fit(Table({"k": k, "x": x}), y, groups=["k"], settings=LINEAR)
    assert model.features.categories[0].numbers == [0.0, 1.0]
    model.save(tmp_path / "model")
    given = Table({"k": k, "x": x})
    assert np.array_equal(Model.load(tmp_path / "model").mean(given), model.mean(given))


def test_a_few_heavy_rows_are_not_left_out_of_the_curvature(monkeypatch):
    """Twenty rows with most of the weight: every so many of all rows would tell nothing of them."""
    rng = np.random.default_rng(0)
    n = 4000
    table = Table({"g": rng.integers(0, 6, n).astype(str), **{f"x{j}": rng.normal(size=n) for j in range(4)}})
    x = table.numbers("x0")
    y, folds = (rng.random(n) < expit(x + table.numbers("x1"))).astype(float), rng.permutation(n) % 5
    weight = np.where(np.isin(np.arange(n), rng.choice(n, 20, replace=False)), 1e4, 1.0)
    weight *= n / weight.sum()
    features = FittedEncoder.learn(table, ["g"])
    rows, given = features.encode(table), logit(expit(x))
    design, width = plan(features, rows, given, scored=True)
    exact = Correction.fit(design, width, given, rows, y, weight, folds, NO_MARGIN)
    monkeypatch.setattr(correction_module, "ENOUGH_TO_STEP", 100)
    found = Correction.fit(design, width, given, rows, y, weight, folds, NO_MARGIN)
    assert np.array_equal(found[1], exact[1])
    even = Correction.fit(design, width, given, rows, y, np.full(n, 1.0), folds, NO_MARGIN)
    monkeypatch.undo()
    whole = Correction.fit(design, width, given, rows, y, np.full(n, 1.0), folds, NO_MARGIN)
    assert not np.array_equal(even[1], whole[1])  # of rows alike, some are enough
    assert np.abs(left_out(even[1], folds) - left_out(whole[1], folds)).mean() < 0.02


def test_penalties_are_told_apart_on_as_few_folds_as_have_enough_rows(monkeypatch):
    parts = [np.arange(10 * k, 10 * k + 10) for k in range(5)]
    moments = [ScoreMoments(0.0, np.zeros(2), np.zeros((2, 2)))] * 5
    for enough, folds in ((1, 1), (10, 1), (11, 2), (30, 3), (50, 5), (500, 5)):
        monkeypatch.setattr(correction_module, "ENOUGH", enough)
        for best in PENALTIES:
            seen = set()

            def loss(_problem, part, _rest, _b, penalty, best=best, seen=seen):
                seen.add(int(part[0]) // 10)
                return abs(np.log(penalty / best))

            monkeypatch.setattr(correction_module, "_left_out_loss", loss)
            assert _best_penalty(None, parts, moments, np.zeros(2)) == best
            assert seen == set(range(folds))


@pytest.mark.parametrize(("seed", "n", "d", "strength"), [(3, 250, 30, 0.1), (2, 400, 25, 0.3)])
def test_one_step_finds_the_penalty_that_is_best_out_of_fold(seed, n, d, strength):
    """As if the solution of every penalty without every fold had been computed; other starts lead to others."""
    rng = np.random.default_rng(seed)
    table = Table({f"x{j}": rng.normal(size=n) for j in range(d)})
    X = np.column_stack([table.numbers(f"x{j}") for j in range(d)])
    slopes = rng.normal(size=d) * strength / np.sqrt(d)
    y, folds = (rng.random(n) < expit(3.0 * X @ slopes)).astype(float), rng.permutation(n) % 5
    rows, given = FittedEncoder.learn(table, []).encode(table), np.zeros(n)
    design, width = plan(FittedEncoder.learn(table, []), rows, given, scored=True)
    problem = _Problem(design, width, given, rows, y, np.ones(n), 4)
    parts = [np.flatnonzero(folds == k) for k in range(5)]
    b = problem.solve([problem.sample(n)], problem.prior, correction_module.ROUGHLY)[0]
    chosen = _best_penalty(problem, parts, [problem.moments(part, b) for part in parts], b)

    def loss(penalty):
        problem.penalty, total = penalty, 0.0
        for part in parts:
            without = problem.solve([other for other in parts if other is not part], problem.prior, 1e-9)[0]
            logits = problem.regressors.dots(part, without[None])[0]
            total += float(np.sum(np.logaddexp(0.0, logits) - y[part] * logits))
        return total

    assert chosen == min(PENALTIES, key=loss)


@pytest.mark.parametrize(
    ("y", "weight", "rate"), [([0] * 8, [1] * 8, 1 / 10), ([1, 0, 0, 0] * 2, [3, 1, 1, 1] * 2, 7 / 14)]
)
def test_without_a_score_the_base_is_the_rate_as_if_one_outcome_of_either_kind_came_first(y, weight, rate):
    table = Table({"x": np.arange(8.0)})
    features, y, weight = FittedEncoder.learn(table, []), np.array(y, float), np.array(weight, float)
    scorer, _ = Scorer.fit(features, features.encode(table), y, weight, np.arange(8) % 2)
    assert expit(scorer.base) == pytest.approx(rate, abs=1e-12)


def listed_with_a_rare_text():
    """Rows of which every second one has none of a text, which every other row may have."""
    rng = np.random.default_rng(0)
    text = np.where(np.arange(400) % 2 == 0, "often", np.where(np.arange(400) % 20 == 1, "rare", "also"))
    table = Table({"g": text, "x": rng.normal(size=400)})
    features = FittedEncoder.learn(table, ["g"])
    rows, given = features.encode(table), rng.normal(size=400)
    design, width = plan(features, rows, given, scored=True)
    return SparseRegressors(design, width, given, rows), rng.random(400)


def test_texts_that_are_not_in_the_rows_looked_at_have_their_curvature(monkeypatch):
    listed, c = listed_with_a_rare_text()
    exact = listed.square(np.arange(400), c)
    monkeypatch.setattr(correction_module, "ENOUGH_TO_STEP", 200)
    found = listed.square(np.arange(400), c)
    assert (listed.square(np.arange(0, 400, 2), c[::2]).diagonal() == 0.0).any()
    np.testing.assert_allclose(found.diagonal(), exact.diagonal(), rtol=1e-12)


def test_curvature_comes_from_all_rows_unless_there_are_twice_enough(monkeypatch):
    listed, c = listed_with_a_rare_text()
    exact = listed.square(np.arange(399), c[:399])
    monkeypatch.setattr(correction_module, "ENOUGH_TO_STEP", 200)
    assert np.array_equal(listed.square(np.arange(399), c[:399]), exact)


def test_whether_a_correction_helps_is_asked_of_rows_as_they_weigh():
    """Right for the light rows and wrong, by much, for the heavy ones: there is a lot to correct, and the reverse."""
    rng = np.random.default_rng(0)
    heavy, x = np.arange(1200) % 3 == 0, rng.normal(size=1200)
    table = Table({"x": x})
    features = FittedEncoder.learn(table)
    rows, given, folds = features.encode(table), x, rng.permutation(1200) % 3
    y = (rng.random(1200) < expit(np.where(heavy, x + 2.0, x))).astype(float)
    design, width = plan(features, rows, given, scored=True)
    for weight in (np.where(heavy, 200.0, 1.0), np.where(heavy, 0.0, 1.0)):
        weight *= 1200 / weight.sum()
        _, without = Correction.fit(design, width, given, rows, y, weight, folds)
        assert np.array_equal(left_out(without, folds), given) == (weight[0] < weight[1])


class Played:
    """A recorder whose forecasts are known beforehand."""

    def __init__(self, means):
        self.means = means

    def run(self, *_):
        return self.means, [self]


@pytest.mark.parametrize(("scorer", "better", "kept"), [(None, 0.001, 0), (None, 0.2, 1), ("our own", 0.001, 1)])
def test_somebody_s_score_is_left_only_beyond_doubt(scorer, better, kept):
    """The second penalty's forecasts are better by next to nothing, or by a lot, than those that stay at the score."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.5).astype(float)
    noise = rng.normal(scale=0.1, size=400)
    towards = noise - noise @ (y - 0.5) / (0.25 * 400) * (y - 0.5)  # tells nothing of the labels
    model = Model.__new__(Model)
    model.scorer = scorer
    means = [0.5 + towards, 0.5 - towards + better * (y - 0.5)]
    worst = np.where(y > 0, 0.0, 1.0)
    model.runs = runs = [Played(p) for p in (*means, worst)]
    found = model._choose(np.zeros((400, 1)), y, np.ones(400), np.arange(1), None)
    assert found[0] is runs[kept].means
    assert found[1] == [runs[kept]]
    assert model.runs == [runs[kept]]


@pytest.mark.parametrize("groups", [[0], [2, 0]])
def test_groups_and_contexts_may_be_arrays(groups):
    sklearn = pytest.importorskip("swapcal.adapters.sklearn")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 300), rng.normal(size=300), rng.integers(0, 2, 300)])
    y = rng.random(300) < 0.5
    listed, array = (
        sklearn.SwapClassifier(groups=names, contexts=others, correction="linear", random_state=0).fit(X, y)
        for names, others in ((groups, [1]), (np.array(groups), np.array([1])))
    )
    assert [category.name for category in array.model_.features.categories] == groups
    assert np.array_equal(array.predict_proba(X), listed.predict_proba(X))


def test_a_pair_of_which_one_has_no_category_is_none():
    """Of the second group's codes the last one, where a missing code would point to if it counted from the end."""
    rng = np.random.default_rng(0)
    table = Table(
        {"few": rng.choice(list("ab"), 600), "more": rng.choice(list("abcd"), 600), "x": rng.normal(size=600)}
    )
    features = FittedEncoder.learn(table, ["few", "more"])
    rows, given = features.encode(table), rng.normal(size=600)
    design, width = plan(features, rows, given, scored=True)
    assert (design.pair[0, :2, 3] >= 0).all()
    for column in (0, 1):
        codes = rows.codes.copy()
        codes[:, column] = -1
        spots = spots_of(design, codes, width)
        assert (spots.coded[:, -1] == width).all()
        assert (spots.coded[:, column] == width).all()
        assert (spots.sloped[:, column] == width).all()


def test_a_group_that_is_named_twice_is_one():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert FittedEncoder.learn(X, groups=[0, np.int64(0)]).manifest() == FittedEncoder.learn(X, groups=[0]).manifest()


def test_the_row_of_a_bad_score_is_counted_from_the_first_of_all():
    rng = np.random.default_rng(0)
    X, scores = rng.normal(size=(6000, 2)), rng.uniform(0.2, 0.8, 6000)
    model = Model.fit(X[:120], (rng.random(120) < scores[:120]).astype(float), scores[:120], settings=LINEAR)
    scores[4999] = np.nan
    with pytest.raises(ValueError, match="scores: given nan in row 5000,"):
        model.mean(X, scores)
