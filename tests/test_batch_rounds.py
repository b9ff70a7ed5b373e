"""How many trees are grown, and in which units they ask."""

import numpy as np
import pytest
from scipy.special import expit

from swapcal.batch import model as model_module
from swapcal.batch import trees as trees_module
from swapcal.batch.correction import NO_MARGIN, losses
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.batch.trees import QUICK, THOROUGH, Boost, TreeSample, grown
from swapcal.features.encoder import FittedEncoder
from swapcal.tables.frame import Table


def sample(table, y, weight=None, folds=3, pace=QUICK, groups=()):
    features = FittedEncoder.learn(table, groups)
    n = len(y)
    apart = np.random.default_rng(0).permutation(n) % folds
    return TreeSample(
        features, features.encode(table), np.zeros(n), y, np.ones(n) if weight is None else weight, apart, pace
    )


def stepped(n=900, unit=1.0):
    """A number whose sign matters, and one that does not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return Table({"x": unit * x, "u": rng.normal(size=n)}), (rng.random(n) < expit(3.0 * np.sign(x))).astype(float)


def test_what_predicts_is_the_mean_of_the_folds_trees_a_little_surer(monkeypatch):
    """By LightGBM's own predictions of the boosters after the best round, not after the last."""
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(trees_module, "MARGIN", NO_MARGIN)
    kept = []
    watched = TreeSample._boosted
    monkeypatch.setattr(
        TreeSample, "_boosted", lambda self, found, *given: kept.append(found) or watched(self, found, *given)
    )
    grower = sample(*stepped(), folds=3)
    forest, _ = grower.grow(np.zeros((3, 900)), seed=0)
    rounds = len(forest.root) // 3
    assert [booster.current_iteration() for booster in kept[0]] == [rounds + QUICK.patience] * 3
    inputs = np.column_stack([np.zeros(900), grower.rows.raw])
    mean = np.mean([booster.predict(inputs, raw_score=True, num_iteration=rounds) for booster in kept[0]], axis=0)
    found = grown(forest, np.zeros(900), np.zeros(900), grower.rows)
    np.testing.assert_allclose(found, trees_module.MEAN_SCALE * mean, rtol=1e-12, atol=1e-12)


class Fallen:
    """A booster that gets better up to a round, then worse, and finds nothing to ask in every seventh round."""

    def __init__(self, best):
        self.best, self.rounds, self.trees = best, 0, 0

    def update(self):
        self.rounds += 1
        self.trees += self.rounds % 7 > 0

    def current_iteration(self):
        return self.trees

    def feature_importance(self):
        return np.array([self.trees])

    def reset_parameter(self, parameters):
        self.after = self.rounds, parameters


@pytest.mark.parametrize("pace", [QUICK, THOROUGH])
def test_boosting_ends_when_patience_does_and_tells_the_trees_of_the_best_round(pace, monkeypatch):
    grower, booster = sample(*stepped(60), pace=pace), Fallen(21)
    sure = np.where(grower.y > 0, 1.0, -1.0)
    monkeypatch.setattr(TreeSample, "_left_out", lambda _self, found: sure / (1 + abs(found[0].rounds - found[0].best)))
    honest, counts = grower._boosted([booster], 0.0 * sure, 0.5)
    assert booster.after == (trees_module.FULL_ROUNDS, {"feature_fraction": 0.5})
    assert counts == [18]
    assert np.array_equal(honest, sure)
    assert booster.rounds == 21 + pace.patience


def test_numbers_too_small_for_lightgbm_are_asked_in_their_own_unit(monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(trees_module, "MARGIN", NO_MARGIN)
    found = []
    for unit in (1.0, 2.0**-500):
        table, y = stepped(unit=unit)
        grower = sample(table, y)
        forest, _ = grower.grow(np.zeros((3, 900)), seed=0)
        found.append(grown(forest, np.zeros(900), np.zeros(900), grower.rows))
    positive = stepped()[0].numbers("x") > 0
    for logits in found:
        assert logits[positive].mean() > 1.0 > -1.0 > logits[~positive].mean()


def test_missing_numbers_are_least_when_trees_are_grown_too(monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(trees_module, "MARGIN", NO_MARGIN)
    rng = np.random.default_rng(0)
    missing, x = rng.random(900) < 0.3, rng.normal(size=900)
    y = (rng.random(900) < np.where(missing, 0.95, 0.1)).astype(float)
    grower = sample(Table({"x": np.where(missing, np.nan, x)}), y)
    forest, _ = grower.grow(np.zeros((3, 900)), seed=0)
    logits = grown(forest, np.zeros(900), np.zeros(900), grower.rows)
    assert logits[missing].min() > 1.0
    assert logits[~missing].max() < 0.0


def test_whether_trees_help_is_asked_of_rows_as_they_weigh(monkeypatch):
    """They help the heavy third of the rows and spoil the light ones by more, row by row; and the reverse."""
    pytest.importorskip("lightgbm")
    heavy = np.arange(900) % 3 == 0
    table, _ = stepped()
    y = np.tile([0.0, 1.0], 450)
    sure = np.where(y > 0, 1.0, -1.0) * np.where(heavy, 1.0, -1.0)
    monkeypatch.setattr(TreeSample, "_boosted", lambda *_given: (sure, [0, 0, 0]))
    gain = losses(0.0 * sure, y) - losses(sure, y)
    assert gain[heavy].min() > 0.0 > gain[~heavy].max()
    for weight, kept in ((np.where(heavy, 50.0, 1.0), True), (np.where(heavy, 1.0, 50.0), False)):
        weight *= 900 / weight.sum()
        grown_ = sample(table, y, weight).grow(np.zeros((3, 900)), seed=0)
        assert (grown_ is not None) == kept
    assert gain.mean() < 0.0


def test_from_scratch_nothing_is_put_on_top_of_a_score_that_nobody_gave(monkeypatch):
    monkeypatch.setattr(model_module, "SLOPE_MARGIN", 0.0)
    table, y = stepped(600)
    shops = Table({"x": table.numbers("x"), "shop": np.tile(["a", "b", "c"], 200)})
    settings = FitSettings(correction="linear", snapshots=2)
    assert Model.fit(shops, y, groups=["shop"], settings=settings).opening is None
    assert Model.fit(shops, y, np.full(600, 0.5), groups=["shop"], settings=settings).opening is not None


def test_from_scratch_trees_are_grown_thoroughly_and_around_a_score_quickly(monkeypatch):
    pytest.importorskip("lightgbm")
    paces = []
    monkeypatch.setattr(Boost, "fit", lambda *given: paces.append(given[-1]))
    table, y = stepped(600)
    for scores in (None, np.full(600, 0.5)):
        Model.fit(table, y, scores, settings=FitSettings(snapshots=2))
    assert paces == [THOROUGH, QUICK]


def test_a_bias_of_two_columns_together_is_found_among_few():
    """A tree that looks at four of nine inputs seldom sees both."""
    pytest.importorskip("lightgbm")
    for seed in (3, 5):  # of which one was found late and one not at all
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 8))
        truth = expit(np.where(X[:, 7] > 0, 1.5, -1.5) * X[:, 0])
        y = (rng.random(3000) < truth).astype(float)
        model = Model.fit(X, y, settings=FitSettings(snapshots=4, seed=seed))
        assert np.mean((model.mean(X) - truth) ** 2) < 0.35 * np.var(truth)
