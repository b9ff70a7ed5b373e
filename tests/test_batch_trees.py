"""Boosted trees before the engine: what LightGBM grows, and the arrays that are left of it."""

import numpy as np
import pytest
from scipy.special import expit

from swapcal.batch import settings as settings_module
from swapcal.batch import trees as trees_module
from swapcal.batch.correction import NO_MARGIN, logit
from swapcal.batch.model import Model
from swapcal.batch.settings import FitSettings
from swapcal.batch.trees import TreeSample, grown, read_forest
from swapcal.features.encoder import EncodedTable, FittedEncoder
from swapcal.kernels.trees import Forest
from swapcal.tables.frame import Table


def crossed(n, seed=0):
    """A score that is right except where one number, or another and two shops, turn the other number's slope."""
    rng = np.random.default_rng(seed)
    u, v, shop = rng.normal(size=n), rng.normal(size=n), rng.choice(list("abcd"), n)
    odds = 0.7 * u
    truth = expit(odds + 3.0 * ((u > 0) & (v > 0)) - 3.0 * ((u < 0) & (v > 0) & np.isin(shop, ["b", "c"])))
    table = Table({"u": u, "v": np.where(rng.random(n) < 0.1, np.nan, v), "shop": shop})
    return table, (rng.random(n) < truth).astype(float), expit(odds), truth


def by_hand(forest, given, raw, codes):
    """Return each row's sum, one comparison at a time."""
    out = np.zeros(len(given))
    for row in range(len(given)):
        inputs = [given[row], *raw[row], *codes[row]]
        for root in forest.root:
            node = int(root)
            while int(forest.child[2 * node]) != node:
                value = inputs[int(forest.column[node])]
                asked, allowed = int(forest.codes[node]), float(forest.threshold[node])
                left = bool(asked >> int(value) & 1) if asked and value >= 0 else np.isnan(value) or value <= allowed
                node = int(forest.child[2 * node + left])
            out[row] += forest.value[node]
    return out


def two_trees():
    """Tree 1: number 0 at most 0.5, then code 0 or 2; tree 2: a leaf."""
    return Forest(
        root=np.array([0, 5], np.uint64),
        depth=np.array([2, 0]),
        column=np.array([1, 0, 2, 0, 0, 0], np.uint64),
        threshold=np.array([0.5, -100, -100, -100, -100, -100]),
        codes=np.array([0, 0, 0b101, 0, 0, 0], np.uint64),
        child=np.array([2, 1, 1, 1, 4, 3, 3, 3, 4, 4, 5, 5], np.uint64),
        value=np.array([0, 1.0, 0, 10.0, 100.0, 0.25]),
    )


def test_trees_are_walked_as_by_hand():
    raw, codes = np.array([[0.5], [0.6], [9.0], [9.0], [np.nan], [9.0]]), np.array([[1], [0], [1], [2], [0], [-1]])
    given = np.zeros(6)
    found = grown(two_trees(), given, given, EncodedTable(np.zeros((6, 1)), codes, raw))
    assert found.tolist() == [1.25, 10.25, 100.25, 10.25, 1.25, 100.25]
    assert by_hand(two_trees(), given, raw, codes).tolist() == found.tolist()


@pytest.fixture(scope="module")
def fitted():
    pytest.importorskip("lightgbm")
    table, y, scores, _ = crossed(2000)
    return Model.fit(table, y, scores, groups=["shop"])


def test_what_no_sum_describes_is_corrected_and_the_certificate_holds(fitted):
    linear = Model.fit(*crossed(2000)[:3], groups=["shop"], settings=FitSettings(correction="linear"))
    table, _, scores, truth = crossed(20_000, seed=1)
    error = [np.mean((model.mean(table, scores) - truth) ** 2) for model in (fitted, linear)]
    assert linear.boost is None
    assert error[0] < 0.7 * error[1]
    assert fitted.certificate.holds()


def test_the_trees_of_a_model_are_walked_as_by_hand(fitted):
    table, _, scores, _ = crossed(300, seed=2)
    odd = {name: table.raw(name).copy() for name in table.columns}
    odd["shop"][:40] = "never seen"
    rows, forest = fitted.features.encode(Table(odd)), fitted.boost.forest
    assert (forest.codes > 0).any()
    given = logit(scores)
    np.testing.assert_allclose(grown(forest, np.zeros(300), given, rows), by_hand(forest, given, rows.raw, rows.codes))


def test_trees_of_texts_are_those_that_lightgbm_walks():
    """Numbers, missing ones, sets of up to 62 codes (two words), trees that ask nothing, several boosters."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.normal(size=2000), rng.normal(size=2000), rng.integers(0, 62, (2000, 2))])
    inputs[::7, 1] = -1e300
    y = rng.random(2000) < expit(inputs[:, 0] + np.isin(inputs[:, 2] % 7, [1, 3]) - 2.0 * (inputs[:, 3] > 40))
    boosters = []
    for leaves, rounds, labels in ((31, 9, y), (2, 3, y), (31, 2, np.zeros(2000)), (15, 5, y)):
        settings = {"objective": "cross_entropy", "num_leaves": leaves, "verbosity": -1, "min_data_per_group": 5}
        data = lightgbm.Dataset(inputs, labels, categorical_feature=[2, 3])
        boosters.append(lightgbm.train(settings, data, rounds))
    forest = read_forest([booster.model_to_string() for booster in boosters])
    assert len(forest.root) == sum(booster.num_trees() for booster in boosters)
    assert (forest.codes >> np.uint64(32)).any()
    assert (forest.depth == 0).any()
    given, rows = inputs[:, 0], EncodedTable(np.empty((2000, 1)), inputs[:, 2:].astype(np.int64), inputs[:, 1:2])
    expected = sum(booster.predict(inputs, raw_score=True) for booster in boosters)
    np.testing.assert_allclose(grown(forest, np.zeros(2000), given, rows), expected, rtol=1e-12, atol=1e-12)
    deepest = [_steps(forest, int(root)) for root in forest.root]
    assert forest.depth.tolist() == deepest


def _steps(forest, node):
    sides = {int(forest.child[2 * node]), int(forest.child[2 * node + 1])} - {node}
    return 1 + max(_steps(forest, side) for side in sides) if sides else 0


def test_the_same_rows_give_the_same_file(fitted, tmp_path):
    table, y, scores, _ = crossed(2000)
    fitted.save(tmp_path / "one")
    Model.fit(table, y, scores, groups=["shop"]).save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_saved_model_needs_no_lightgbm(fitted, tmp_path, monkeypatch):
    table, _, scores, _ = crossed(200, seed=3)
    expected = fitted.mean(table, scores)
    fitted.save(tmp_path / "model")
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    again = Model.load(tmp_path / "model")
    assert len(again.boost) == len(fitted.boost)
    assert np.array_equal(again.mean(table, scores), expected)


def test_log_odds_without_a_fold_owe_nothing_to_its_labels(monkeypatch):
    pytest.importorskip("lightgbm")
    monkeypatch.setattr(trees_module, "MOST_ROUNDS", 1)
    monkeypatch.setattr(trees_module, "LOOKED_AT", 1)
    monkeypatch.setattr(trees_module, "MARGIN", NO_MARGIN)
    table, y, scores, _ = crossed(900)
    features = FittedEncoder.learn(table, ["shop"])
    rows, given, folds = features.encode(table), logit(scores), np.arange(900) % 3
    flipped = np.where(folds == 1, 1 - y, y)
    one, other = (
        TreeSample(features, rows, given, labels, np.ones(900), folds).grow(np.tile(given, (3, 1)), seed=0)
        for labels in (y, flipped)
    )
    assert np.array_equal(one[1][folds == 1], other[1][folds == 1])
    assert (one[1] != other[1])[folds == 0].any()


def test_where_there_is_nothing_to_correct_nothing_is_corrected():
    pytest.importorskip("lightgbm")
    fresh, y, _, p = crossed(20_000, seed=9)
    table, labels, _, truth = crossed(2000)
    for seed in range(2):
        model = Model.fit(table, labels, truth, groups=["shop"], settings=FitSettings(seed=seed))
        losses = [-np.mean(np.log(np.where(y > 0, q, 1 - q))) for q in (model.mean(fresh, p), p)]
        assert losses[0] < 1.001 * losses[1]


def test_labels_may_be_shares_and_rows_may_weigh():
    pytest.importorskip("lightgbm")
    table, _, scores, truth = crossed(1500)
    model = Model.fit(table, truth, scores, np.linspace(0.5, 3.0, 1500), groups=["shop"])
    assert model.boost is not None
    assert np.abs(model.mean(table, scores) - truth).mean() < 0.5 * np.abs(scores - truth).mean()


@pytest.mark.parametrize("n", [2, 9, 40])
def test_few_rows_and_columns_that_say_nothing_are_no_obstacle(n):
    pytest.importorskip("lightgbm")
    X, y = np.zeros((n, 2)), np.arange(n) % 2.0
    model = Model.fit(X, y, settings=FitSettings(correction="trees"))
    assert model.boost is None
    assert np.isfinite(model.mean(X)).all()


def test_without_lightgbm_the_correction_is_linear_unless_trees_are_asked_for(monkeypatch):
    monkeypatch.setattr(settings_module, "installed", lambda: False)
    table, y, scores, _ = crossed(700)
    assert Model.fit(table, y, scores).boost is None
    with pytest.raises(ModuleNotFoundError, match=r"needs LightGBM: pip install .swapcal\[trees\]"):
        Model.fit(table, y, scores, settings=FitSettings(correction="trees"))
    with pytest.raises(ValueError, match="correction: given 'forest', expected one of auto, linear, trees"):
        FitSettings(correction="forest")


def sample(table, y, scores, pace=trees_module.QUICK):
    features = FittedEncoder.learn(table, ["shop"])
    return TreeSample(features, features.encode(table), logit(scores), y, np.ones(len(y)), np.arange(len(y)) % 3, pace)


def test_what_predicts_is_the_mean_of_the_folds_trees_enlarged_and_each_row_s_is_that_without_its_fold():
    pytest.importorskip("lightgbm")
    one = sample(*crossed(1500)[:3])
    forest, honest = one.grow(np.tile(one.given, (3, 1)), seed=0)
    root = forest.root.reshape(3, -1)  # fold after fold, as many trees of each
    for fold in range(3):
        own = forest._replace(root=root[fold], depth=forest.depth.reshape(3, -1)[fold])
        alone = one.given + grown(own, np.zeros(1500), one.given, one.rows) * 3 / trees_module.MEAN_SCALE
        np.testing.assert_allclose(alone[one.folds == fold], honest[one.folds == fold], rtol=0, atol=1e-9)


def test_numbers_too_small_for_lightgbm_are_split_where_larger_ones_are():
    pytest.importorskip("lightgbm")
    table, y, scores, _ = crossed(1500)
    numbers = {name: table.raw(name) * 2.0**-200 for name in ("u", "v")}
    tiny = Table(numbers | {"shop": table.raw("shop")})
    large, small = (sample(rows, y, scores) for rows in (table, tiny))
    forests = [one.grow(np.tile(one.given, (3, 1)), seed=0)[0] for one in (large, small)]
    assert (forests[0].column == 2).any()
    np.testing.assert_array_equal(forests[0].column, forests[1].column)
    found = [grown(f, np.zeros(1500), one.given, one.rows) for f, one in zip(forests, (large, small), strict=True)]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("inputs", "share"), [(1, 1.0), (6, 1.0), (9, 6 / 9), (15, 0.4), (100, 0.4)])
def test_a_tree_looks_at_a_part_of_the_inputs_and_at_six_at_least(inputs, share):
    assert trees_module._share(inputs) == pytest.approx(share)


def test_trees_are_kept_only_if_they_gain_more_than_a_standard_error(monkeypatch):
    pytest.importorskip("lightgbm")
    asked = []
    monkeypatch.setattr(trees_module, "is_significant", lambda gain, doubt: asked.append((gain, doubt)))
    one = sample(*crossed(300)[:3])
    assert one.grow(np.tile(one.given, (3, 1)), seed=0) is None
    ((gain, doubt),) = asked
    assert len(gain) == 300
    assert doubt == 1.0


def test_sets_of_one_word_do_not_take_the_next_set_s():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.normal(size=1000), rng.integers(0, 20, 1000)])
    settings = {"objective": "cross_entropy", "num_leaves": 8, "verbosity": -1, "min_data_per_group": 5}
    y = rng.random(1000) < expit(2.0 * np.isin(inputs[:, 1] % 7, [1, 3]) * np.sign(inputs[:, 0]))
    text = lightgbm.train(settings, lightgbm.Dataset(inputs, y, categorical_feature=[1]), 5).model_to_string()
    assert "num_cat=2" in text or "num_cat=3" in text
    forest = read_forest([text])
    assert (forest.codes > 0).sum() > 2
    assert not (forest.codes >> np.uint64(20)).any()


def test_the_seed_decides_neither_whether_trees_are_kept_nor_the_loss():
    """Two of twenty numbers matter only together: drawn inputs alone found them for some seeds and not for others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 20))
    logits = 0.5 * X[:, 2] + 1.6 * ((X[:, 0] > 0.5) & (X[:, 1] > 0.5))
    p = 1 / (1 + np.exp(-logits))
    y = (rng.random(len(X)) < p).astype(float)
    given = 1 / (1 + np.exp(-0.5 * X[:6000, 2]))
    found = []
    for seed in range(5):
        model = Model.fit(X[:6000], y[:6000], given, settings=FitSettings(seed=seed, correction="trees"))
        assert model.boost is not None
        mean = model.mean(X[6000:], 1 / (1 + np.exp(-0.5 * X[6000:, 2])))
        found.append(-np.mean(p[6000:] * np.log(mean) + (1 - p[6000:]) * np.log(1 - mean)))
    assert max(found) < 1.005 * min(found)
